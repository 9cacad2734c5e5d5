"""Reading a table of a TOML file with places. `tomllib` gives the data; a second look at the text finds the keys."""

from __future__ import annotations

import re
import tomllib

from pytest_iterctl.errors import PlanError
from pytest_iterctl.plan.document import DEEPEST, PLAN_LIMIT, Document, Node, SourceText, decode
from pytest_iterctl.plan.problems import printable

__all__ = ["read_toml"]

# tomllib's time grows with the square of the parts of a dotted key, which can only be on one line.
_MOST_DOTS = 1000
_PLACE = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")

_SPACE = re.compile(r"[ \t]*")
_SPACE_AND_LINES = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_BARE_VALUE = re.compile(r"[^,\]}#\r\n]+")


def read_toml(data: bytes, source: str, *, limit: int = PLAN_LIMIT) -> Document:
    """The whole file as plain data (and dates) with places; whatever is wrong with it is a `PlanError`."""
    text = decode(data, source, limit=limit)
    for match in re.finditer(r"[^\n]+", text.text):
        if match.group().count(".") > _MOST_DOTS:
            raise text.error(match.start(), f"a line with more than {_MOST_DOTS} dots is not read")
    try:
        content = tomllib.loads(text.text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(text, error) from None
    except (RecursionError, ValueError, OverflowError):
        # Absurd nesting, dates that don't exist and numbers of thousands of digits.
        raise text.error(0, "can't be read as TOML") from None
    if _too_deep(content):
        raise text.error(0, f"is nested more than {DEEPEST} levels deep")
    return Document(text, content, _Places(text.text).root())


def _syntax_error(text: SourceText, error: tomllib.TOMLDecodeError) -> PlanError:
    message = str(error)
    place = _PLACE.search(message)
    words = printable(message[: place.start()] if place else message)
    if place is None or place.group(1) is None:
        return text.error(len(text.text.rstrip()), words)
    return text.error(text.index(int(place.group(1)), int(place.group(2))), words)


def _too_deep(content: object) -> bool:
    """Whether the depth that recursion can bear is exceeded, found without recursion."""
    level = [content]
    for _ in range(DEEPEST + 1):
        level = [
            child
            for value in level
            if isinstance(value, dict | list)
            for child in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return False
    return True


class _Lost(Exception):  # noqa: N818 - no error: places that were not found are replaced by the nearest ones
    pass


class _Places:
    """A look over text that is known to be valid TOML. What it does not recognise ends it early."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._root = Node(0)

    def root(self) -> Node:
        table = self._root
        try:
            while self._skip(_SPACE_AND_LINES):
                table = self._header() if self._next("[") else self._assignment(table)
        except (_Lost, RecursionError):
            pass
        return self._root

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        match = pattern.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return self._at < len(self._text)

    def _next(self, characters: str) -> bool:
        return self._text.startswith(characters, self._at)

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None or not match.group():
            raise _Lost
        self._at = match.end()
        return match.group()

    def _expect(self, characters: str) -> None:
        if not self._next(characters):
            raise _Lost
        self._at += len(characters)

    def _header(self) -> Node:
        brackets = 2 if self._next("[[") else 1
        start = self._at
        self._at += brackets
        keys = self._keys()
        self._expect("]" * brackets)
        node = self._down(self._root, keys[:-1])
        name, key_start = keys[-1]
        if brackets == 1:
            return _last(node.children.setdefault(name, (key_start, Node(key_start)))[1])
        _, array = node.children.setdefault(name, (key_start, Node(start)))
        element = Node(start)
        array.children[len(array.children)] = (start, element)
        return element

    def _assignment(self, table: Node) -> Node:
        keys = self._keys()
        self._expect("=")
        self._skip(_SPACE)
        name, key_start = keys[-1]
        parent = self._down(table, keys[:-1])
        parent.children[name] = (key_start, self._value())
        return table

    def _keys(self) -> list[tuple[str, int]]:
        keys = []
        while True:
            self._skip(_SPACE)
            start = self._at
            if self._next('"') or self._next("'"):
                word = str(tomllib.loads(f"key = {self._take(_STRING)}")["key"])
            else:
                word = self._take(_BARE_KEY)
            keys.append((word, start))
            self._skip(_SPACE)
            if not self._next("."):
                return keys
            self._at += 1

    @staticmethod
    def _down(node: Node, keys: list[tuple[str, int]]) -> Node:
        for name, start in keys:
            node = _last(node.children.setdefault(name, (start, Node(start)))[1])
        return node

    def _value(self) -> Node:
        node = Node(self._at)
        if self._next("["):
            self._at += 1
            while self._skip(_SPACE_AND_LINES) and not self._next("]"):
                child = self._value()
                node.children[len(node.children)] = (child.start, child)
                self._comma("]")
            self._expect("]")
        elif self._next("{"):
            self._at += 1
            while self._skip(_SPACE_AND_LINES) and not self._next("}"):
                self._assignment(node)
                self._comma("}")
            self._expect("}")
        elif self._next('"') or self._next("'"):
            self._take(_STRING)
        else:
            self._take(_BARE_VALUE)
        return node

    def _comma(self, end: str) -> None:
        self._skip(_SPACE_AND_LINES)
        if not self._next(end):
            self._expect(",")


def _last(node: Node) -> Node:
    """A table, or the last element of an array of tables, which is what a header below it goes on with."""
    _, element = node.children.get(len(node.children) - 1, (0, node))
    return element
