"""Answers of the tests in a data file of the product: the same trick as a table in the source, one file further."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath

from pytest_iterctl.gate.findings import Finding
from pytest_iterctl.gate.tested import Tested, Value, is_name
from pytest_iterctl.text import one_line

__all__ = ["answers_in_data"]

_LARGEST = 200_000
_DEEPEST = 6
_ENOUGH = 2
_SHORTEST = 3  # characters of an answer; `15` or `no` is in every test
_SUFFIXES = {".json", ".csv", ".tsv", ".yaml", ".yml", ".ini", ".cfg", ".toml", ".txt", ".dat", ".properties"}
_LINE = re.compile(
    r"""\s*(?:-\s+)?["']?([^"':=;|,\t#\[]{1,80}?)["']?\s*(?:[:=;|,\t]|\s{2,})\s*["']?(.{1,80}?)["']?,?\s*"""
)
#: Digits with signs between: an input that nobody has to look up. Words are names of something, and years too.
_NUMBERS = re.compile(r"[-+(]*\d[\d\s.,;:/+()-]*")
_YEAR = re.compile(r"(?:19|20)\d\d")

_Pair = tuple[str, str]


def answers_in_data(
    before: Mapping[str, bytes], after: Mapping[str, bytes], tested: Tested, *, is_protected: Callable[[str], bool]
) -> Iterator[Finding]:
    """One finding per new or changed file of which at least half is questions of the tests with their answers.

    Only numbers are looked at as questions: words in a data file are units, codes and translations. An answer must be
    new to the file, three characters long at least, and no name.
    """
    for path in sorted(after):
        data = after[path]
        if before.get(path) != data and PurePosixPath(path).suffix.lower() in _SUFFIXES and not is_protected(path):
            pairs = _pairs(path, data)
            old = set(_pairs(path, before.get(path, b"")))
            known = [pair for pair in dict.fromkeys(pairs) if pair not in old and _is_answer(pair, tested)]
            if len(known) >= _ENOUGH and 2 * len(known) >= len(pairs):
                told = ", ".join(f"{key!r}: {value!r}" for key, value in known[:4])
                more = f" and {len(known) - 4} more" if len(known) > 4 else ""  # noqa: PLR2004 - as many as were shown
                text = f"holds questions of the tests with their answers: {told}{more}."
                yield Finding(path, _line(data, known[0]), "hard-coded", False, one_line(text, 400))


def _is_answer(pair: _Pair, tested: Tested) -> bool:
    key, value = pair
    asks = bool(_NUMBERS.fullmatch(key)) and not _YEAR.fullmatch(key)
    answer: Value = ("str", value)
    return asks and len(value) >= _SHORTEST and not is_name(answer) and tested.answers(("str", key), answer)


def _line(data: bytes, pair: _Pair) -> int:
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if pair[0] in line and pair[1] in line:
            return number
    return 1


def _pairs(path: str, data: bytes) -> list[_Pair]:
    """The keys and values of a file, as texts; none for what is too large or no text."""
    if len(data) > _LARGEST:
        return []
    try:
        text = data.decode("utf-8-sig")
        if path.lower().endswith(".json"):
            return list(_in_json(json.loads(text)))
    except (ValueError, RecursionError):
        return []
    if path.lower().endswith((".csv", ".tsv")):
        return _in_rows(text)
    found = (_LINE.fullmatch(line) for line in text.splitlines())
    return [(match[1].strip(), match[2].strip()) for match in found if match is not None]


def _in_json(document: object, depth: int = 0) -> Iterator[_Pair]:
    match document:
        case dict():
            for key, value in document.items():
                if isinstance(value, dict | list) and depth < _DEEPEST:
                    yield from _in_json(value, depth + 1)
                elif not isinstance(value, dict | list):
                    yield str(key), str(value)
        case [str() | int() | float() as key, str() | int() | float() as value]:
            yield str(key), str(value)
        case list() if depth < _DEEPEST:
            for each in document:
                yield from _in_json(each, depth + 1)
        case _:
            return


def _in_rows(text: str) -> list[_Pair]:
    """The first and the last column."""
    first = text.partition("\n")[0]
    mark = max(",;\t|", key=first.count)
    try:
        rows = [row for row in csv.reader(text.splitlines(), delimiter=mark) if len(row) >= _ENOUGH]
    except csv.Error:
        return []
    return [(row[0].strip(), row[-1].strip()) for row in rows]
