"""Reading JSON with places. YAML parsers stumble over JSON's tabs and surrogate pairs, so JSON is tried first."""

from __future__ import annotations

import json
import re

from pytest_iterctl.plan.document import DEEPEST, MOST_NODES, Node, SourceText

__all__ = ["read_json"]

_SPACE = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r'["\-0-9]|true|false|null')
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class _NotJson(ValueError):  # noqa: N818 - no error: whoever wrote it may have meant YAML
    pass


def _refuse_constant(word: str) -> object:
    raise _NotJson(word)


# The standard decoder would also take NaN and Infinity, which are not JSON.
_SCALARS = json.JSONDecoder(parse_constant=_refuse_constant)


def read_json(text: SourceText) -> Node | None:
    """The document, or None if the text is not JSON. Duplicate keys and absurd nesting are errors."""
    if text.text.lstrip(" \t\r\n")[:1] not in {"{", "["}:
        return None
    try:
        return _Reader(text).document()
    except _NotJson:
        return None


class _Reader:
    def __init__(self, text: SourceText) -> None:
        self._source = text
        self._text = text.text
        self._at = 0
        self._nodes = 0

    def document(self) -> Node:
        node = self._value(1)
        if self._next_character():
            raise _NotJson
        return node

    def _next_character(self) -> str:
        space = _SPACE.match(self._text, self._at)
        self._at = space.end() if space else self._at
        return self._text[self._at : self._at + 1]

    def _value(self, depth: int) -> Node:
        character = self._next_character()
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise self._source.error(self._at, f"the document has more than {MOST_NODES} values")
        if character not in {"{", "["}:
            return Node(self._at, self._scalar())
        if depth > DEEPEST:
            raise self._source.error(self._at, f"is nested more than {DEEPEST} levels deep")
        start = self._at
        self._at += 1
        return self._table(start, depth) if character == "{" else self._list(start, depth)

    def _scalar(self) -> object:
        if not _SCALAR.match(self._text, self._at):
            raise _NotJson
        try:
            value, self._at = _SCALARS.raw_decode(self._text, self._at)
        except ValueError:
            raise _NotJson from None
        # Half a surrogate pair can't be written to any file; it comes from bytes that were no text to begin with.
        return _LONE_SURROGATE.sub("\ufffd", value) if isinstance(value, str) else value

    def _table(self, start: int, depth: int) -> Node:
        data: dict[str, object] = {}
        node = Node(start, data)
        while self._next_character() != "}" or data:
            if self._next_character() != '"':
                raise _NotJson
            key_start = self._at
            key = str(self._scalar())
            if key in data:
                line, _ = self._source.place(node.children[key][0])
                raise self._source.error(key_start, "duplicate key", hint=f"it is already given on line {line}")
            self._expect(":")
            child = self._value(depth + 1)
            data[key] = child.data
            node.children[key] = (key_start, child)
            if self._next_character() == "}":
                break
            self._expect(",")
        self._at += 1
        return node

    def _list(self, start: int, depth: int) -> Node:
        data: list[object] = []
        node = Node(start, data)
        while self._next_character() != "]" or data:
            child = self._value(depth + 1)
            node.children[len(data)] = (child.start, child)
            data.append(child.data)
            if self._next_character() == "]":
                break
            self._expect(",")
        self._at += 1
        return node

    def _expect(self, character: str) -> None:
        if self._next_character() != character:
            raise _NotJson
        self._at += 1
