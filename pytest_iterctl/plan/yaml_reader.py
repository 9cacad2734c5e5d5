"""A YAML reader that never guesses: YAML 1.2's core types, no duplicate keys, no surprises from aliases or tags.

PyYAML's own loaders take the last of two equal keys, read `22:30` as 1350 and `no` as false, and unfold a few
hundred bytes of aliases into gigabytes. Here only PyYAML's parser is used; what its events mean is decided below.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NoReturn

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    ScalarEvent,
)

from pytest_iterctl.errors import PlanError
from pytest_iterctl.plan.document import DEEPEST, MOST_NODES, PLAN_LIMIT, Document, Node, SourceText, decode
from pytest_iterctl.plan.json_reader import read_json
from pytest_iterctl.plan.problems import Problem, plan_error, quoted
from pytest_iterctl.plan.yaml_syntax import syntax_error

__all__ = ["MOST_ALIASES", "read_yaml"]

MOST_ALIASES = 100
_LONGEST_NUMBER = 300

_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")

_CORE = "tag:yaml.org,2002:"
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS: dict[str, bool | None] = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


def read_yaml(text: bytes, source: str, *, limit: int = PLAN_LIMIT) -> Document:
    """One YAML or JSON document as plain data with places; whatever is wrong with it is a `PlanError`."""
    source_text = decode(text, source, limit=limit)
    root = read_json(source_text)
    if root is None:
        unprintable = _UNPRINTABLE.search(source_text.text)
        if unprintable:
            code = ord(unprintable.group())
            raise source_text.error(unprintable.start(), f"character U+{code:04X} can't be in a text file")
        root = _Builder(source_text, limit).document()
    return Document(source_text, root.data, root)


def _events(text: str) -> Iterator[Event]:
    # libyaml is thirty times as fast, which matters for documents that embed test output. Both tell the same places.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    yield from yaml.parse(text, Loader=loader)


@dataclass(slots=True)
class _Open:
    """A table or list whose end has not been read."""

    node: Node
    anchor: str | None
    nodes_before: int
    characters_before: int
    height: int = 1
    key: str | None = None
    key_start: int = 0


@dataclass(frozen=True, slots=True)
class _Anchored:
    """A finished node that aliases may repeat, and what each repetition costs."""

    node: Node
    nodes: int
    characters: int
    height: int


@dataclass(slots=True)
class _Builder:
    """Builds the document from events, without recursion, and stops at the first thing that is not allowed."""

    text: SourceText
    limit: int
    root: Node | None = None
    stack: list[_Open] = field(default_factory=list)
    anchors: dict[str, _Anchored] = field(default_factory=dict)
    documents: int = 0
    aliases: int = 0
    nodes: int = 0
    characters: int = 0
    at: int = 0

    def document(self) -> Node:
        try:
            for event in _events(self.text.text):
                self.at = event.start_mark.index if event.start_mark else self.at
                self._take(event)
        except yaml.YAMLError as error:
            raise syntax_error(self.text, error) from None
        except (ValueError, OverflowError):
            # PyYAML's Python parser lets these out for absurd escapes and version numbers.
            self._refuse("a number or an escape sequence here is out of range")
        if self.root is None:
            raise plan_error([Problem(self.text.source, 0, 0, (), "is empty", "expected a table of keys")])
        return self.root

    def _take(self, event: Event) -> None:
        if isinstance(event, DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                self._refuse("a second document begins here", "keep one document per file")
        elif isinstance(event, CollectionEndEvent):
            self._close()
        elif isinstance(event, AliasEvent | ScalarEvent | CollectionStartEvent):
            top = self.stack[-1] if self.stack else None
            if top and isinstance(top.node.data, dict) and top.key is None:
                self._take_key(top, event)
            elif isinstance(event, AliasEvent):
                self._repeat(event.anchor)
            elif isinstance(event, ScalarEvent):
                self._take_scalar(event)
            else:
                self._open(event)

    def _take_key(self, top: _Open, event: Event) -> None:
        if not isinstance(event, ScalarEvent):
            self._refuse("a key must be plain text", "aliases, lists and tables can't be keys")
        key = self._scalar(event)
        if key == "<<" and not event.style:
            self._refuse("merge keys (`<<`) are not supported", "write the keys out")
        if not isinstance(key, str):
            self._refuse(f"a key must be text, got {quoted(event.value) if event.value else 'nothing'}", "quote it")
        if key in top.node.children:
            line, _ = self.text.place(top.node.children[key][0])
            self._refuse("duplicate key", f"it is already given on line {line}")
        self._count(len(key))
        top.key, top.key_start = key, self.at

    def _take_scalar(self, event: ScalarEvent) -> None:
        if not self.stack and not (event.value or event.style or event.tag):
            return  # `---` and nothing more: an empty file
        node = Node(self.at, self._scalar(event))
        self._count(len(event.value))
        if event.anchor:
            self.anchors[event.anchor] = _Anchored(node, 1, len(event.value), 0)
        self._put(node, 0)

    def _open(self, event: CollectionStartEvent) -> None:
        kind: Callable[[], object] = dict if isinstance(event, MappingStartEvent) else list
        expected = f"{_CORE}{'map' if kind is dict else 'seq'}"
        if event.tag not in {None, "!", expected}:
            self._refuse_tag(event.tag)
        self._count(0)
        if len(self.stack) >= DEEPEST:
            self._refuse(f"is nested more than {DEEPEST} levels deep")
        self.stack.append(_Open(Node(self.at, kind()), event.anchor, self.nodes - 1, self.characters))

    def _close(self) -> None:
        closed = self.stack.pop()
        if closed.anchor:
            nodes, characters = self.nodes - closed.nodes_before, self.characters - closed.characters_before
            self.anchors[closed.anchor] = _Anchored(closed.node, nodes, characters, closed.height)
        self._put(closed.node, closed.height)

    def _repeat(self, name: str | None) -> None:
        name = name or ""  # an alias always has one, but the type does not say so
        self.aliases += 1
        if self.aliases > MOST_ALIASES:
            self._refuse(f"more than {MOST_ALIASES} aliases", "write the values out")
        if any(level.anchor == name for level in self.stack):
            self._refuse(f"alias {quoted(name)} repeats what it is a part of")
        anchored = self.anchors.get(name)
        if anchored is None:
            self._refuse(f"alias {quoted(name)} has no anchor", f"put `&{name}` before the value that it repeats")
        if len(self.stack) + anchored.height > DEEPEST:
            self._refuse(f"is nested more than {DEEPEST} levels deep")
        self._count(anchored.characters, anchored.nodes)
        self._put(anchored.node, anchored.height)

    def _put(self, node: Node, height: int) -> None:
        if not self.stack:
            self.root = node
            return
        parent = self.stack[-1]
        parent.height = max(parent.height, height + 1)
        data = parent.node.data
        if isinstance(data, dict) and parent.key is not None:
            data[parent.key] = node.data
            parent.node.children[parent.key] = (parent.key_start, node)
            parent.key = None
        elif isinstance(data, list):
            parent.node.children[len(data)] = (self.at, node)
            data.append(node.data)

    def _count(self, characters: int, nodes: int = 1) -> None:
        """Checked before anything is repeated, so that a bomb of aliases costs no more than its own bytes."""
        self.nodes += nodes
        self.characters += characters
        if self.nodes > MOST_NODES:
            self._refuse(f"the document has more than {MOST_NODES} values", "aliases count as what they repeat")
        if self.characters > self.limit:
            self._refuse(f"aliases repeat more than {self.limit} characters", "write the values out")

    def _scalar(self, event: ScalarEvent) -> object:
        if _SURROGATE.search(event.value):
            self._refuse("an escape sequence here is not a character")
        if event.tag is None and not event.style:
            return self._core(event.value)
        if event.tag in {None, "!", f"{_CORE}str"}:
            return event.value
        value = self._core(event.value)
        if event.tag == f"{_CORE}float" and type(value) is int:
            return float(value)
        kinds = {"null": type(None), "bool": bool, "int": int, "float": float}
        kind = kinds.get(event.tag.removeprefix(_CORE)) if event.tag.startswith(_CORE) else None
        if kind is None:
            self._refuse_tag(event.tag)
        if type(value) is not kind:
            self._refuse(f"{quoted(event.value)} does not fit its tag")
        return value

    def _core(self, text: str) -> object:
        """What an unquoted word means in YAML 1.2's core schema."""
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.fullmatch(text):
            if len(text) > _LONGEST_NUMBER:
                self._refuse(f"a number of {len(text)} digits")
            return int(text, 0) if text[1:2] in {"o", "x"} else int(text)
        if _NUMBER.fullmatch(text):
            return float(text)
        if _NOT_FINITE.fullmatch(text):
            return float(text.replace(".", "", 1))
        return text

    def _refuse_tag(self, tag: str) -> NoReturn:
        self._refuse(f"tag {quoted(tag.replace(_CORE, '!!', 1))} is not supported", "remove it")

    def _refuse(self, message: str, hint: str = "") -> NoReturn:
        error: PlanError = self.text.error(self.at, message, hint=hint)
        raise error
