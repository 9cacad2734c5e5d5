"""Finds what a pick means: figures, texts and names in an agent's records and in the lines that it printed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_iterctl.agents.records import Record, holding, lines_matching, values_at
from pytest_iterctl.plan.reads import Match, Pick
from pytest_iterctl.text import one_line

__all__ = ["Look", "Streams", "named_groups", "names_in", "sane_number", "text_of"]

#: Beyond this a reported number is nonsense and counts as not reported.
_LARGEST = 1e12
_NAMES = 50
_FIGURE = re.compile(r"(\d[\d,]{0,20}(?:\.\d{1,12})?)([kKmM]?)")
_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6}


@dataclass(frozen=True, slots=True)
class Streams:
    stdout: str = ""
    stderr: str = ""

    def groups(self, pick: Pick) -> list[dict[str, str]]:
        """What the pattern of a pick finds, in order."""
        text = self.stderr if pick.source == "stderr" else self.stdout
        return [named_groups(match) for match in reversed(list(lines_matching(text, pick.pattern or "")))]


@dataclass(frozen=True, slots=True)
class Look:
    """Finds what picks mean in one agent's records and lines."""

    record: Match
    records: Sequence[Record]
    streams: Streams

    def figure(self, pick: Pick | None, before: float) -> float | None:
        if pick is None:
            return None
        figures = self._figures(pick)
        if pick.scope == "count":
            return float(len(figures)) if figures else None
        if not figures:
            return None
        value = _sane(figures if pick.scope == "sum" else figures[-1:])
        if value is None or pick.scope != "session":
            return value
        # A tool that began to count anew has less than its session had.
        return value - before if value >= before else value

    def _figures(self, pick: Pick) -> list[float | None]:
        """One figure for each record or line that is meant, in order; None for what is no sane number."""
        if pick.pattern is not None:
            return [_sane([_figure(text) for text in groups.values()]) for groups in self.streams.groups(pick)]
        meant = self._meant(pick)
        if pick.scope == "count" and not pick.path:
            return [1.0] * len(meant)
        figures = ([value for path in pick.path for value in values_at(record, path)] for record in meant)
        return [_sane([sane_number(value) for value in values]) for values in figures if values]

    def text(self, pick: Pick | None) -> str:
        if pick is None:
            return ""
        texts = self._texts(pick)
        return "\n".join(texts) if pick.scope == "sum" else texts[-1] if texts else ""

    def _texts(self, pick: Pick) -> list[str]:
        if pick.pattern is not None:
            return [text for groups in self.streams.groups(pick) if (text := " ".join(groups.values()))]
        texts = []
        for record in self._meant(pick):
            # Of several paths the first that leads somewhere.
            values = next((values for path in pick.path if (values := values_at(record, path))), [])
            text = "\n".join(said for value in values if (said := text_of(value)))
            if text:
                texts.append(text)
        return texts

    def names(self, pick: Pick | None) -> tuple[str, ...]:
        if pick is None:
            return ()
        if pick.pattern is not None:
            return names_in(self._texts(pick))
        return names_in(
            [value for record in self._meant(pick) for path in pick.path for value in values_at(record, path)]
        )

    def _meant(self, pick: Pick) -> list[Record]:
        return holding(self.records, pick.record or self.record)


def named_groups(match: re.Match[str]) -> dict[str, str]:
    return {name: group for name, group in match.groupdict().items() if group}


def sane_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < _LARGEST else None


def _figure(text: str) -> float | None:
    """A number as tools print it: `1,234`, `2.3k`."""
    match = _FIGURE.fullmatch(text.strip())
    return float(match[1].replace(",", "")) * _FACTORS[match[2].lower()] if match else None


def _sane(numbers: Sequence[float | None]) -> float | None:
    """The sum, unless something in it is no number."""
    known = [number for number in numbers if number is not None]
    total = sum(known)
    return total if known and len(known) == len(numbers) and total < _LARGEST else None


def text_of(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return "(something that can't be shown)"


def names_in(values: Sequence[object]) -> tuple[str, ...]:
    names = (one_line(text_of(value), 100) for value in values[: 20 * _NAMES])
    return tuple(dict.fromkeys(name for name in names if name))[:_NAMES]
