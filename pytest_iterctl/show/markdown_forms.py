"""The forms of a Markdown page that holds foreign text: tables of a document read safely, tables of the page, folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from pytest_iterctl.text import code_span, markdown_text, one_line

__all__ = ["Reading", "fold", "names_line", "table"]


class Reading:
    """A table of the document, read with the type that is wanted; what is missing or of another type is empty."""

    def __init__(self, value: object) -> None:
        self._values: Mapping[object, object] = value if isinstance(value, Mapping) else {}

    def __bool__(self) -> bool:
        return bool(self._values)

    def text(self, key: str) -> str:
        value = self._values.get(key)
        return "" if value is None else str(value)

    def line(self, key: str, limit: int = 200) -> str:
        """Foreign text as prose that fits wherever one line may stand."""
        return markdown_text(one_line(self.text(key), limit))

    def code(self, key: str, limit: int = 200) -> str:
        return code_span(one_line(self.text(key), limit))

    def number(self, key: str) -> int:
        value = self._values.get(key)
        return value if isinstance(value, int) else 0

    def has(self, key: str) -> bool:
        return bool(self._values.get(key))

    def part(self, key: str) -> Reading:
        return Reading(self._values.get(key))

    def items(self, key: str) -> list[object]:
        value = self._values.get(key)
        return value if isinstance(value, list) else []

    def parts(self, key: str) -> list[Reading]:
        return [Reading(item) for item in self.items(key)]

    def texts(self, key: str) -> list[str]:
        return [str(item) for item in self.items(key)]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Cells are Markdown already: both kinds of text escape what would end a cell."""
    return [_row(head), _row(["---"] * len(head)), *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def fold(summary: str, lines: Sequence[str]) -> list[str]:
    inner = "\n".join(lines).strip("\n")
    return [f"<details><summary>{escape(one_line(summary))}</summary>", "", inner, "", "</details>"]


def names_line(word: str, names: Sequence[str], total: int) -> list[str]:
    if not names:
        return []
    more = f" and {total - len(names)} more" if total > len(names) else ""
    return [f"{word}: {', '.join(code_span(one_line(name)) for name in names)}{more}", ""]
