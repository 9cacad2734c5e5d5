"""What every reader of plans hands over: plain data, and where each key and value stands in the file."""

from __future__ import annotations

import bisect
import codecs
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from pytest_iterctl.errors import PlanError
from pytest_iterctl.plan.problems import MOST_PROBLEMS, Finding, KeyPath, Problem, plan_error, printable

__all__ = ["DEEPEST", "MOST_NODES", "PLAN_LIMIT", "Document", "Node", "SourceText", "decode", "too_large"]

#: Bytes of a plan. Nobody writes a larger one, and a larger one is refused before it is parsed.
PLAN_LIMIT = 1_000_000
#: Levels of nesting; the plan itself needs six.
DEEPEST = 64
#: Keys, values and items in one document, aliases expanded.
MOST_NODES = 200_000

_LINE_END = re.compile(r"\r\n|\n|\r")
_FOREIGN_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


class SourceText:
    """The text of a file with its name, which knows the line and column of each character (both from 1)."""

    def __init__(self, source: str, text: str) -> None:
        self.source = source
        self.text = text

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in _LINE_END.finditer(self.text))]

    def place(self, index: int) -> tuple[int, int]:
        index = min(max(index, 0), len(self.text))
        line = bisect.bisect_right(self._starts, index)
        return line, index - self._starts[line - 1] + 1

    def index(self, line: int, column: int) -> int:
        """The way back, for parsers that tell only lines and columns."""
        start = self._starts[min(max(line, 1), len(self._starts)) - 1]
        return min(start + max(column, 1) - 1, len(self.text))

    def line(self, number: int) -> str:
        start = self._starts[number - 1]
        end = self._starts[number] if number < len(self._starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    def problem(self, index: int, message: str, *, hint: str = "", path: KeyPath = ()) -> Problem:
        line, column = self.place(index)
        return Problem(self.source, line, column, path, message, hint, self.line(line))

    def error(self, index: int, message: str, *, hint: str = "") -> PlanError:
        return plan_error([self.problem(index, message, hint=hint)])


@dataclass(slots=True)
class Node:
    """A value with its place; its children by key or index, each with the place of its key."""

    start: int
    data: object = None
    children: dict[str | int, tuple[int, Node]] = field(default_factory=dict)


@dataclass(frozen=True)
class Document:
    """Plain data (dict, list, str, int, float, bool, None) that can say where it was written."""

    text: SourceText
    data: object
    root: Node
    prefix: KeyPath = ()

    @property
    def source(self) -> str:
        return self.text.source

    def mark(self, path: KeyPath, *, key: bool) -> tuple[int, int] | None:
        """Line and column of the value at the path, or of its key; None when nothing is written there."""
        key_start, node = self.root.start, self.root
        for part in path:
            if part not in node.children:
                return None
            key_start, node = node.children[part]
        return self.text.place(key_start if key else node.start)

    def sub(self, key: str) -> Document:
        """The document under one key of the top table, as if it were a file of its own."""
        start, node = self.root.children.get(key, (self.root.start, self.root))
        data = self.data.get(key) if isinstance(self.data, dict) else None
        return replace(self, data=data, root=replace(node, start=start), prefix=(*self.prefix, key))

    def error(self, findings: Iterable[Finding]) -> PlanError:
        """All findings at once, each at its place or at the nearest place that is written down."""
        placed = sorted(((self._place(finding), finding) for finding in findings), key=lambda pair: pair[0])
        problems = [
            Problem(
                self.source,
                *place,
                path=(*self.prefix, *finding.path),
                message=finding.message,
                hint=finding.suggestion(),
                excerpt=self.text.line(place[0]),
            )
            for place, finding in placed[:MOST_PROBLEMS]
        ]
        return plan_error(problems, more=max(0, len(placed) - MOST_PROBLEMS))

    def _place(self, finding: Finding) -> tuple[int, int]:
        path = finding.path
        place = self.mark(path, key=finding.at_key)
        while place is None:
            path = path[:-1]
            place = self.mark(path, key=bool(path) and isinstance(path[-1], str))
        return place


def too_large(source: str, size: int, *, limit: int) -> PlanError:
    return plan_error([Problem(source, 0, 0, (), f"has {size:,} bytes, at most {limit:,} are read")])


def decode(data: bytes, source: str, *, limit: int = PLAN_LIMIT) -> SourceText:
    """Text from bytes; too much of it and other encodings than UTF-8 are refused before any parsing."""
    if len(data) > limit:
        raise too_large(source, len(data), limit=limit)
    for mark, encoding in _FOREIGN_MARKS:
        if data.startswith(mark):
            raise plan_error([Problem(source, 0, 0, (), f"is written in {encoding}", "save it as UTF-8")])
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        return SourceText(source, data.decode())
    except UnicodeDecodeError as error:
        good = SourceText(source, data[: error.start].decode())
        line, column = good.place(error.start)
        message = f"byte 0x{data[error.start]:02x} is not UTF-8"
        excerpt = printable(good.line(line)) + "\ufffd"
        raise plan_error([Problem(source, line, column, (), message, "save it as UTF-8", excerpt)]) from None
