"""The small words of a report: bounded text, commands to copy, counts, costs and times."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence

from pytest_iterctl.control.evidence import Outcome, SuiteEvidence, TurnEvidence
from pytest_iterctl.control.pattern import counted
from pytest_iterctl.control.state import RunState, TaskState
from pytest_iterctl.plan.values import format_duration
from pytest_iterctl.show.words import counts_text
from pytest_iterctl.text import cut_middle, one_line, strip_escapes

__all__ = [
    "FILES",
    "HASH",
    "ID",
    "NAMES",
    "ROWS",
    "VERDICTS",
    "Part",
    "bounded",
    "command_for",
    "cost_told",
    "known_cost",
    "plain",
    "shown_line",
    "suite_told",
    "time_text",
]

Part = dict[str, object]

#: How much of each is shown: of a commit id, of lists of names and files, of the matrix, of a text, of a test's id.
HASH = 12
NAMES = 20
FILES = 50
ROWS = 100
_TEXT_BYTES = 4000
ID = 1000
VERDICTS = frozenset({Outcome.PASSED, Outcome.FAILED})


def bounded(text: str) -> str:
    # The journal is redacted, so it may be cut first: stripping a megabyte that nobody will see takes its time.
    return strip_escapes(cut_middle(text, _TEXT_BYTES))


def shown_line(text: str, limit: int = 200) -> str:
    start = text[: limit * 10]
    line = one_line(start, limit)
    return line if len(start) == len(text) or line.endswith("…") else f"{line}…"


def plain(value: object) -> object:
    """Only what YAML and JSON both have, and text that can be encoded: the last word on it, whatever it came from."""
    if isinstance(value, str):
        return strip_escapes(value)
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


def command_for(state: RunState, task: TaskState, verb: str, *words: str) -> str:
    named = ("--task", task.id) if len(state.tasks) > 1 else ()
    return shlex.join(["iterctl", verb, state.run, *words, *named])


def suite_told(suite: SuiteEvidence) -> str:
    if suite.outcome not in VERDICTS:
        return shown_line(f"{suite.outcome}, {suite.reason}".rstrip(", ."), 200)
    gate = f" ({shown_line(suite.reason, 160)})" if suite.reason and not suite.passed and not suite.failing else ""
    return counts_text(suite.counts) + gate


def time_text(seconds: float) -> str:
    return format_duration(round(seconds, 1)) if math.isfinite(seconds) and seconds > 0 else "0s"


def known_cost(turns: Sequence[TurnEvidence]) -> float | None:
    known = [turn.cost_usd for turn in turns if turn.cost_usd is not None]
    return sum(known, 0.0) if known or not turns else None


def cost_told(turns: Sequence[TurnEvidence]) -> str:
    """Money that is known, and for how many calls it isn't: unknown is never nothing."""
    # No dollar sign: two of them in one line are a formula to some Markdown renderers.
    known, unknown = known_cost(turns), sum(1 for turn in turns if turn.cost_usd is None)
    missing = f"unknown for {unknown} of {counted(len(turns), 'call')}" if unknown else ""
    if known is None:
        return f"cost {missing}"
    return f"cost {known:.2f} USD ({missing})" if missing else f"cost {known:.2f} USD"
