"""Records in an agent's output: JSON objects among whatever else it printed, and what stands where in them.

Everything here takes any text at all and is linear in it, apart from what a small budget allows for vain tries.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from pytest_iterctl.plan.reads import Match

__all__ = ["Record", "ending_record", "holding", "lines_matching", "plain_text", "records_in", "values_at"]

Record = dict[str, object]

#: Characters that may be decoded in vain where JSON seems to go over several lines.
_VAIN = 32 * 1024 * 1024
_TRIES = 300
#: Values that one path may lead to.
_MOST = 10_000
_LINES = 5000
_LINE = 2000
_TAIL = 1024 * 1024
_ESCAPES = re.compile(r"\x1b\[[0-?]*+[ -/]*+[@-~]|\x1b\][^\x07\x1b\n]*+(?:\x07|\x1b\\)|\x1b[ -/]*+[0-Z\\^-~]")
_OPENING = re.compile(r"^[ \t]*([{\[])", re.MULTILINE)
_BRACE = re.compile(r"\{(?=\s*\")")
_GAP = re.compile(r"[\s,]*")
_ANY = "*"
_LAST = "-1"
# Agents put control characters into strings, which JSON forbids and nobody minds.
_DECODER = json.JSONDecoder(strict=False)

_compiled = cache(re.compile)


def plain_text(text: str) -> str:
    """The text without a byte order mark and without the sequences that colour a terminal."""
    plain = text.removeprefix("\ufeff")
    return _ESCAPES.sub("", plain) if "\x1b" in plain else plain


def records_in(text: str) -> tuple[Record, ...]:
    """All JSON objects of a text, in order: a single one, the items of an array, or one per line, with other lines."""
    plain = plain_text(text)
    # Where nothing begins a line, perhaps something was printed in front of it.
    return tuple(_objects(plain)) or tuple(_in_lines(plain))


def ending_record(text: str) -> tuple[Record | None, str]:
    """The JSON object that ends a text, and what comes before: it begins a line, and only blanks come after it."""
    plain = plain_text(text).rstrip()
    if not plain.endswith("}"):
        return None, plain
    last = plain.rfind("\n") + 1
    decoded = _decoded(plain[last:].lstrip(" \t"), 0)
    if decoded is not None and isinstance(decoded[0], dict) and decoded[1] == len(plain[last:].lstrip(" \t")):
        return decoded[0], plain[:last]
    return _spread_ending(plain)


def _spread_ending(text: str) -> tuple[Record | None, str]:
    """The same, where the object goes over several lines. Only one opening can lead just to the end."""
    tail, vain = text[-_TAIL:], _VAIN
    for opening in reversed(list(_OPENING.finditer(tail))):
        start = opening.start(1)
        decoded, cost = _spread(tail, start)
        if decoded is not None and isinstance(decoded[0], dict) and start + decoded[1] == len(tail):
            return decoded[0], text[: len(text) - len(tail) + start]
        vain -= max(cost, decoded[1] if decoded is not None else 0, _LINE)
        if vain <= 0:
            break
    return None, text


def _objects(text: str) -> Iterator[Record]:
    position, vain = 0, _VAIN
    while opening := _OPENING.search(text, position):
        start = opening.start(1)
        end_of_line = text.find("\n", start)
        end_of_line = len(text) if end_of_line < 0 else end_of_line
        decoded = _decoded(text[start:end_of_line], 0)
        position = end_of_line
        if decoded is None and vain > 0 and end_of_line - start < _LINE:
            # A short line that is no JSON may begin an object that is spread over many.
            decoded, cost = _spread(text, start)
            vain -= cost
            position = start + decoded[1] if decoded is not None else end_of_line
        if decoded is not None:
            yield from _of(decoded[0])
        elif opening[1] == "[":
            yield from _items(text[start:end_of_line])


def _in_lines(text: str) -> Iterator[Record]:
    position, tries = 0, _TRIES
    while tries and (opening := _BRACE.search(text, position)):
        decoded, cost = _spread(text, opening.start())
        # A long way in vain counts for many tries.
        tries = max(0, tries - 1 - cost * _TRIES // _VAIN)
        position = opening.start() + decoded[1] if decoded is not None else opening.end()
        if decoded is not None:
            yield from _of(decoded[0])


def _decoded(text: str, start: int) -> tuple[object, int] | None:
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return value, end


def _spread(text: str, start: int) -> tuple[tuple[object, int] | None, int]:
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        return None, max(error.pos - start, _LINE)
    except (ValueError, RecursionError):
        return None, _VAIN // 8  # how far it came is not told
    return (value, end - start), 0


def _items(text: str) -> Iterator[Record]:
    """What is whole in an array that was cut off."""
    position = 1
    while True:
        gap = _GAP.match(text, position)
        decoded = _decoded(text, gap.end() if gap else position)
        if decoded is None or decoded[1] <= position:
            return
        yield from _of(decoded[0])
        position = decoded[1]


def _of(value: object) -> Iterator[Record]:
    for entry in value if isinstance(value, list) else [value]:
        if isinstance(entry, dict):
            yield entry


def values_at(record: object, path: str) -> list[object]:
    """What a dotted path leads to; `*` goes to every child, `-1` to the last of a list. Null is no value."""
    keys = _keys(path)
    value = record
    for index, key in enumerate(keys):
        if not isinstance(value, dict) or key == _ANY:
            return _spread_out(value, keys[index:])
        value = value.get(key)
        if value is None:
            return []
    return [value]


@cache
def _keys(path: str) -> tuple[str, ...]:
    return tuple(path.split("."))


def _spread_out(value: object, keys: tuple[str, ...]) -> list[object]:
    level = [value]
    for key in keys:
        level = [child for value in level for child in _children(value, key)][:_MOST]
    return [value for value in level if value is not None]


def _children(value: object, key: str) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values() if key == _ANY else [value[key]] if key in value else []
    if isinstance(value, list):
        if key == _LAST:
            return value[-1:]
        return value if key == _ANY else [value[int(key)]] if _is_index(key, value) else []
    return []


def _is_index(key: str, value: list[object]) -> bool:
    return key.isascii() and key.isdigit() and len(key) < len(str(_MOST)) and int(key) < len(value)


def holding(records: Sequence[Record], match: Match) -> list[Record]:
    """The records that have one of the wanted values at every path."""
    return [record for record in records if all(_has(record, path, wanted) for path, wanted in match.items())]


def _has(record: Record, path: str, wanted: tuple[str | int | bool, ...]) -> bool:
    found = values_at(record, path)
    if _ANY in wanted:
        return bool(found)
    # True equals 1 in Python, and neither stands for the other here.
    return any(
        value == want and isinstance(value, bool) == isinstance(want, bool) for value in found for want in wanted
    )


def lines_matching(text: str, pattern: str) -> Iterator[re.Match[str]]:
    """Matches at the start of a line, from the last line on; of very many lines the last, of long ones the start."""
    for line in reversed(plain_text(text).splitlines()[-_LINES:]):
        if found := _compiled(pattern).match(line[:_LINE]):
            yield found
