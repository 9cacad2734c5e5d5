"""Telling people what is wrong with a plan: where, the line with a caret under it, and what to do.

```
error: iterctl.yaml:6:3: settings.max_iteration: unknown key
    6 |   max_iteration: 20
      |   ^
hint: did you mean `max_iterations`?
```

Everything that is quoted comes from a file that anybody may have written, so it is shown without escape sequences
and cut to what a terminal can hold.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pytest_iterctl.errors import PlanError
from pytest_iterctl.text import strip_escapes

__all__ = [
    "MOST_PROBLEMS",
    "Finding",
    "KeyPath",
    "Problem",
    "did_you_mean",
    "either",
    "plan_error",
    "printable",
    "quoted",
    "spelt",
]

#: The way to a value: keys of tables and indexes of lists.
KeyPath: TypeAlias = tuple[str | int, ...]

MOST_PROBLEMS = 50
_WIDEST_LINE = 100
_WIDEST_BEFORE_CARET = 60
_LONGEST_QUOTE = 60
_LONGEST_PATH = 120
_LONGEST_COMPARED = 80


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, with its place; line 0 says that it has none."""

    source: str
    line: int
    column: int
    path: KeyPath
    message: str
    hint: str = ""
    excerpt: str = ""

    def render(self) -> str:
        place = f":{self.line}:{self.column}" if self.line else ""
        path = f"{spelt(self.path)}: " if self.path else ""
        lines = [f"error: {printable(self.source)}{place}: {path}{self.message}"]
        if self.line and self.excerpt.strip():
            lines += _pointed_at(self.line, self.column, self.excerpt)
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, before its place in the file is looked up.

    `word` and `known` stand for a did-you-mean hint, which is worked out only for the findings that are shown:
    a file with a hundred thousand unknown keys must not take minutes to refuse.
    """

    path: KeyPath
    message: str
    hint: str = ""
    at_key: bool = False
    word: str = ""
    known: Sequence[str] = ()

    def suggestion(self) -> str:
        return self.hint or did_you_mean(self.word, self.known)


def plan_error(problems: Iterable[Problem], *, more: int = 0) -> PlanError:
    """One error for all problems of a file, in the order in which they stand there."""
    ordered = sorted(problems, key=lambda problem: (problem.line, problem.column, spelt(problem.path)))
    blocks = [problem.render() for problem in ordered[:MOST_PROBLEMS]]
    more += max(0, len(ordered) - MOST_PROBLEMS)
    if more:
        blocks.append(f"and {more} more")
    return PlanError(tuple(blocks))


def spelt(path: KeyPath) -> str:
    """`tasks[0].needs[1]`, the way people write it."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif re.fullmatch(r"[\w-]+", part):
            text += f".{part}" if text else part
        else:
            text += f"[{_cut(printable(repr(part)), _LONGEST_QUOTE)}]"
    return _cut(printable(text), _LONGEST_PATH)


def quoted(text: str) -> str:
    return f"`{_cut(printable(text), _LONGEST_QUOTE)}`"


def either(words: Iterable[str]) -> str:
    """`a`, `b` or `c`."""
    *first, last = [quoted(word) for word in words]
    return f"{', '.join(first)} or {last}" if first else last


def did_you_mean(word: str, known: Iterable[str]) -> str:
    if not word or len(word) > _LONGEST_COMPARED:
        return ""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(word.casefold(), by_folded, n=1)
    return f"did you mean {quoted(by_folded[close[0]])}?" if close else ""


def printable(text: str) -> str:
    """The text as a terminal may show it: one line, no escape sequences, nothing that hides or moves anything."""
    return strip_escapes(text).replace("\n", " ").replace("\t", " ")


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _pointed_at(line: int, column: int, excerpt: str) -> list[str]:
    """The line, or the part of a long one around the place, and a caret under the place."""
    # Twice the width is kept for cleaning, because escape sequences vanish.
    start = max(0, column - 1 - 2 * _WIDEST_LINE)
    before = printable(excerpt[start : column - 1])
    after = printable(excerpt[column - 1 : column - 1 + 2 * _WIDEST_LINE].rstrip())
    if start or len(before) + len(after) > _WIDEST_LINE:
        if start or len(before) > _WIDEST_BEFORE_CARET:
            before = f"…{before[-_WIDEST_BEFORE_CARET + 1 :]}"
        after = _cut(after, _WIDEST_LINE - len(before))
    width = sum(_columns(character) for character in before)
    return [f"{line:>5} | {before}{after}", f"{'':>5} | {' ' * width}^"]


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1
