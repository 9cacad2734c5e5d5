"""What an assertion of any tool expected and what it received, in the phrasings that tools agree on."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice, takewhile

from pytest_iterctl.feedback.failure_text import lines_of
from pytest_iterctl.text import one_line

__all__ = ["expectation_in"]

Sides = tuple[str, str]

_VALUE = 500
_NEAR = 6
_TELLING = 5

_RECEIVED_LABEL = re.compile(
    r"^\s*(?:E\s+)?(?:(?:received|actual|got|but was|have|found)(?: [a-z]+){0,3}\s*:|but: was)\s*(\S.*)$", re.IGNORECASE
)
_EXPECTED_LABEL = re.compile(r"^\s*(?:E\s+)?(?:expected|want)(?: [a-z]+){0,3}\s*:\s*(\S.*)$", re.IGNORECASE)
_EQUAL = r"(?:deeply |strictly |loosely )?equal|eql?"
_CONSTANT = r"true|false|null|nil|undefined|None|True|False"
_OTHER_BE = (
    r"greater|less|close|equal|strictly|deeply|loosely|an? |at |in |of |above|below|within|called|thrown|defined|empty"
    r"|true|false|null|nil|undefined"
)
_GOT = r"(?:actual|got|received|found|was)(?::\s*|\s+)"
_ONE_LINE_PAIRS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"expected:? ?<(?P<expected>.*?)>\.? (?:but was|actual):? ?<(?P<received>.*)>",
        r"expected \[(?P<expected>.*?)\] but found \[(?P<received>.*)\]",
        r"\bfailed asserting that (?P<received>\S.*?) matches expected (?P<expected>\S.*)$",
        r"\bfailed asserting that (?P<received>\S.*?) is (?P<expected>(?:identical to |equal to )?\S+)$",
        r"\bXCTAssertEqual failed: \((?P<received>.*?)\) is not equal to \((?P<expected>.*?)\)",
        rf"\bexpected:?\s+(?!values to be )(?P<expected>\S.*?)[,;]?\s+(?:but )?{_GOT}(?P<received>\S.*)$",
        r"(?:\bgot:?|(?<![=!<>])=)\s+(?P<received>\S.*?)[,;]\s+(?:want|wanted|expected):?\s+(?P<expected>\S.*)$",
        rf"\bexpected (?P<received>\S.*?) to (?:{_EQUAL}|be(?! (?:{_OTHER_BE})))\s+(?P<expected>\S.*)$",
        rf"\bexpected (?P<received>\S.*?) to be (?P<expected>{_CONSTANT})\.?$",
    )
)
_WORDS = ("expected", "want", "asserting", "assertequal")
_LEFT = re.compile(r"^\s*left: `?(?P<value>.*?)`?,?$")
_RIGHT = re.compile(r"^\s*right: `?(?P<value>.*?)`?,?$")
_WHICH_IS = re.compile(r"^\s+Which is: (.*)$")
_EXPANDED = re.compile(r"^(?:\s*values: [A-Z_]+\( (?P<doctest>.*) \)|\s{2,}(?P<catch>\S.*))$")
_COMPARED = re.compile(r"^(?P<left>[^=]+?) == (?P<right>[^=]+)$")
_PYTEST_EQUAL = re.compile(r"^(?:E\s+)?(?:AssertionError: )?assert (?P<left>\S.*?) == (?P<right>\S.*)$")
_PYTEST_WHERE = re.compile(r"^(?:E\s+)?\s*\+\s+where (?P<computed>\S.*?) = ")
_UNEQUAL = re.compile(
    r"^(?:E\s+)?(?:AssertionError: |Expected values to be strictly equal:)?"
    r"(?!assert |if |elif |while |return |[>#+/*-])(?P<left>\S.*?) !==? (?P<right>\S.*?)(?: : .*)?$"
)
_AMBIGUOUS = re.compile(r" (?:==|!=|!==|and|or) ")


def expectation_in(text: str) -> Sides | None:
    """(expected, received), or None when the text does not say it in a known way."""
    lowered = text.lower()
    for words, phrasing in _PHRASINGS:
        if any(word in lowered for word in words) and (pair := phrasing(lines_of(text))) is not None:
            expected, received = (one_line(side.strip(), _VALUE) for side in pair)
            return (expected, received) if expected and received else None
    return None


def _labelled(lines: tuple[str, ...]) -> Sides | None:
    """`Expected: a` with `Received: b` on a line of its own shortly after or before it."""
    expected = next(((at, found[1]) for at, line in enumerate(lines) if (found := _EXPECTED_LABEL.match(line))), None)
    if expected is None:
        return None
    at, value = expected
    for line in (*lines[at + 1 : at + _NEAR], *reversed(lines[max(at - 2, 0) : at])):
        if found := _RECEIVED_LABEL.match(line):
            if value.endswith(",") and found[1].endswith(","):
                # Two properties of an object, as node prints one.
                return _unless_alike(value[:-1], found[1][:-1])
            return value, found[1]
    return None


def _below_labels(lines: tuple[str, ...]) -> Sides | None:
    """doctest: each value below its label, indented."""
    for at, line in enumerate(lines):
        if line.rstrip() == "Expected:" and "Got:" in lines[at + 1 :]:
            middle = lines.index("Got:", at + 1)
            values = [" ".join(_indented(lines[start:])) for start in (at + 1, middle + 1)]
            return (values[0], values[1]) if all(values) else None
    return None


def _indented(lines: tuple[str, ...]) -> list[str]:
    return [line.strip() for line in takewhile(lambda line: line.startswith("    "), lines)]


def _unless_alike(expected: str, received: str) -> Sides | None:
    """`{ a: [Array] }` on both sides says nothing."""
    return (expected, received) if expected != received else None


def _in_one_line(lines: tuple[str, ...]) -> Sides | None:
    telling = (line for line in lines if any(word in line.lower() for word in _WORDS))
    for line in islice(telling, _TELLING):
        # One space each: the patterns would take quadratic time on long runs of them. A remark is no value.
        line = " ".join(line.split())[:_VALUE].partition(" // ")[0]  # noqa: PLW2901 - the same line, tidied
        for pattern in _ONE_LINE_PAIRS:
            found = pattern.search(line)
            if found and not found["received"].lower().endswith((" not", "to")):
                return found["expected"].removesuffix("."), found["received"].removesuffix(".")
    return None


def _left_and_right(lines: tuple[str, ...]) -> Sides | None:
    """Rust's assert_eq!, where people write the computed value first."""
    for at, line in enumerate(lines[:-1]):
        if (left := _LEFT.match(line)) and (right := _RIGHT.match(lines[at + 1])):
            return right["value"], left["value"]
    return None


def _which_is(lines: tuple[str, ...]) -> Sides | None:
    """googletest: two expressions below a heading, each maybe with its value; the computed one comes first."""
    for at, line in enumerate(lines):
        if not line.startswith("Expected equality of these values:"):
            continue
        sides: list[str] = []
        for below in lines[at + 1 : at + _NEAR]:
            if (value := _WHICH_IS.match(below)) and sides:
                sides[-1] = value[1]
            elif below.startswith("  ") and below.strip():
                sides.append(below)
            else:
                break
        if len(sides) == 2:  # noqa: PLR2004 - two sides
            return sides[1], sides[0]
    return None


def _expanded(lines: tuple[str, ...]) -> Sides | None:
    """Catch2 and doctest show the comparison once more, with its values."""
    for at, line in enumerate(lines):
        below = line if line.lstrip().startswith("values: ") else ""
        if line.startswith("with expansion:") and at + 1 < len(lines):
            below = lines[at + 1]
        found = _EXPANDED.match(below)
        compared = _COMPARED.match(found["doctest"] or found["catch"]) if found else None
        if compared:
            return compared["right"], compared["left"]
    return None


def _differing_line(lines: tuple[str, ...]) -> Sides | None:
    """A unified diff of one line: `--- Expected`, `+++ Actual`, and the line of each."""
    for at, line in enumerate(lines):
        if not line.strip().lower().startswith(("--- expected", "- expected")):
            continue
        added = [each[1:] for each in lines[at + 2 :] if each.startswith("+")]
        removed = [each[1:] for each in lines[at + 2 :] if each.startswith("-")]
        return (removed[0], added[0]) if len(added) == len(removed) == 1 else None
    return None


def _compared(lines: tuple[str, ...]) -> Sides | None:
    for at, line in enumerate(lines):
        if "==" not in line and "!=" not in line:
            continue
        found = _PYTEST_EQUAL.match(line)
        # Further down, a line with != is more likely code.
        if not found and (at < _TELLING or "AssertionError: " in line):
            found = _UNEQUAL.match(line)
        if not found:
            continue
        left, right = found["left"], found["right"]
        if _AMBIGUOUS.search(f" {left} {right} ") or max(len(left), len(right)) > _VALUE:
            return None
        # pytest says which side was computed; without that, people write the computed one first.
        where = _PYTEST_WHERE.match(lines[at + 1]) if at + 1 < len(lines) else None
        return (left, right) if where and where["computed"] == right != left else (right, left)
    return None


#: Each with words that a text must hold, in any case, to be worth a closer look.
_PHRASINGS: tuple[tuple[tuple[str, ...], Callable[[tuple[str, ...]], Sides | None]], ...] = (
    (("expected", "want"), _labelled),
    (("expected:",), _below_labels),
    (_WORDS, _in_one_line),
    (("left:",), _left_and_right),
    (("expected equality",), _which_is),
    (("with expansion:", "values: "), _expanded),
    (("- expected",), _differing_line),
    (("==", "!="), _compared),
)
