"""Finds the document that an agent or a reviewer was asked for, among everything else that it printed.

What is searched was written by strangers, so every way of looking has a bound on what it reads and how often it tries.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest

import yaml

__all__ = ["Document", "find_document"]

Document = dict[str, object]

_WHOLE = 16 * 1024 * 1024
_TAIL = 1024 * 1024
_YAML = 64 * 1024
#: How many places are tried by each way of looking, and how many characters may be decoded in vain.
_TRIES = 300
_BUDGET = 8 * 1024 * 1024
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[ \t]*([A-Za-z]*)[^\n`]*$", re.MULTILINE)
_LINE_START = re.compile(r"^[ \t]*\{(?=\s*[\"}])", re.MULTILINE)
_BRACE = re.compile(r"\{(?=\s*[\"}])")
_SEPARATOR = re.compile(r"^---[ \t]*$", re.MULTILINE)
_KEY = re.compile(r"\s*(?:#[^\n]*\n\s*)*(?:[\"']?[A-Za-z_][\w .-]*[\"']?[ \t]*:(?:\s|$)|\{)")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_DECODER = json.JSONDecoder()
# PyYAML's constructors raise whatever their conversions raise.
_YAML_ERRORS = (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


@dataclass(frozen=True, slots=True)
class _Found:
    document: Document
    start: int
    end: int


def find_document(text: str, accept: Callable[[Document], bool]) -> Document | None:
    """The last JSON object or YAML mapping that `accept` takes; one that encloses another comes before it."""
    whole = _whole(text, accept)
    if whole is not None:
        return whole
    tail = text[-_TAIL:]
    found = [
        one for look in (_at_line_starts, _in_fences, _anywhere, _as_yaml) if (one := look(tail, accept)) is not None
    ]
    return max(found, key=lambda one: (one.end, -one.start)).document if found else None


def _whole(text: str, accept: Callable[[Document], bool]) -> Document | None:
    stripped = text.strip()
    if not stripped.startswith(("{", "[")) or len(stripped) > _WHOLE:
        return None
    try:
        value: object = json.loads(stripped)
    except (ValueError, RecursionError):
        return None
    # Some agents print one array of all their messages.
    entries = reversed(value) if isinstance(value, list) else [value]
    return next((document for entry in entries if (document := _accepted(entry, accept)) is not None), None)


def _at_line_starts(text: str, accept: Callable[[Document], bool]) -> _Found | None:
    """JSON lines, and JSON printed over several lines: from the last line on, the first that fits."""
    budget = _Budget()
    for start in reversed(_last_matches(_LINE_START, text)):
        decoded = budget.decode(text, text.index("{", start))
        if decoded is not None and (document := _accepted(decoded[0], accept)) is not None:
            return _Found(document, start, decoded[1])
    return None


def _in_fences(text: str, accept: Callable[[Document], bool]) -> _Found | None:
    left = 2 * _YAML
    for opening, start, end in reversed(list(_fenced(text))[-_TRIES:]):
        content = text[start:end].strip()
        values = [_json(content)] if content.startswith("{") else []
        if opening.lower() in {"", "yaml", "yml"} and len(content) <= left:
            left -= len(content)
            values.append(_yaml(content))
        for value in values:
            if (document := _accepted(value, accept)) is not None:
                return _Found(document, start, end)
    return None


def _anywhere(text: str, accept: Callable[[Document], bool]) -> _Found | None:
    """Objects in the middle of lines. Forward, because only so the outermost brace of each is met first."""
    budget = _Budget()
    best: _Found | None = None
    behind = 0
    for start in _last_matches(_BRACE, text):
        if start < behind or (decoded := budget.decode(text, start)) is None:
            continue
        value, behind = decoded
        if (document := _accepted(value, accept)) is not None:
            best = _Found(document, start, behind)
    return best


def _as_yaml(text: str, accept: Callable[[Document], bool]) -> _Found | None:
    """The text after the last `---` lines, else all of it, if it is one YAML mapping."""
    starts = [0, *(found.end() for found in _SEPARATOR.finditer(text))][-4:]
    ends = [*starts[1:], len(text)]
    for start, end in reversed([*zip(starts, ends, strict=True)]):
        content = text[start:end].rstrip().removesuffix("---")
        if (document := _accepted(_yaml(content), accept)) is not None:
            return _Found(document, start, end)
    return None


class _Budget:
    """Decodes JSON objects until too much was decoded in vain: nested openings would make that quadratic."""

    def __init__(self) -> None:
        self._left = _BUDGET

    def decode(self, text: str, start: int) -> tuple[object, int] | None:
        if self._left <= 0:
            return None
        try:
            value, end = _DECODER.raw_decode(text, start)
        except json.JSONDecodeError as error:
            self._left -= error.pos - start
            return None
        except (ValueError, RecursionError):
            # How far it came is not told.
            self._left -= _YAML
            return None
        self._left -= end - start
        return value, end


def _last_matches(pattern: re.Pattern[str], text: str) -> list[int]:
    return [found.start() for found in pattern.finditer(text)][-_TRIES:]


def _fenced(text: str) -> Iterator[tuple[str, int, int]]:
    """Everything between one fence and the next: which of them open and which close can't be told after a cut."""
    fences = list(_FENCE.finditer(text))
    for fence, following in zip_longest(fences, fences[1:]):
        yield fence[1], fence.end(), following.start() if following else len(text)


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


class _PlainLoader(yaml.SafeLoader):
    """Safe YAML without aliases, which nobody needs here and which can multiply a small text without end."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not read")
        return super().compose_node(parent, index)


def _yaml(text: str) -> object:
    if len(text) > _YAML or not _KEY.match(text):
        return None
    try:
        return _joined(yaml.load(text, Loader=_PlainLoader))  # noqa: S506 - a subclass of the safe loader
    except _YAML_ERRORS:
        return None


def _joined(value: object) -> object:
    """The same, with the halves of each character joined that JSON writes as two escapes and YAML reads as two."""
    if isinstance(value, str):
        return value if value.isascii() else _PAIR.sub(_join, value)
    if isinstance(value, dict):
        return {_joined(key): _joined(each) for key, each in value.items()}
    return [_joined(each) for each in value] if isinstance(value, list) else value


def _join(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16", "surrogatepass").decode("utf-16")


def _accepted(value: object, accept: Callable[[Document], bool]) -> Document | None:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        return None
    document: Document = value
    return document if accept(document) else None
