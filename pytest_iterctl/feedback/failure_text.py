"""What a failure's text tells, whichever tool wrote it: the place, the exception, what was expected and received.

Everything here is a guess from wording, so each function is conservative: it gives '' or None when it is unsure.
"""

from __future__ import annotations

import re

from pytest_iterctl.redaction import redact
from pytest_iterctl.text import cut_middle, one_line, strip_escapes

__all__ = ["bounded", "cleaned", "exception_in", "expectation_in", "message_in", "place_in"]

_VALUE = 500
_LINE = 1000
_LINES = 400
_TEXT = 16 * 1024
# How the repair of broken reports shows an escape character.
_SHOWN_ESCAPE = re.compile(r"\u241b(?=[\[\]()])")

_NOT_OURS = re.compile(
    r"site-packages|dist-packages|node_modules|/lib(?:64)?/python\d|<frozen|^<|^node:|^internal/|/go/src/|/rustc/"
)
_FOREIGN_FRAME = re.compile(r"^\s*at (?:java|javax|jdk|sun|kotlin|scala|org\.junit|org\.testng|junit|groovy)\.")
# Each pattern starts only where a word starts, which keeps the search linear on long runs of one character.
_PATH = (
    r"(?<![^\s(\[\"'`=,])(?:file://)?(?P<path>(?:[A-Za-z]:[\\/])?[^\s:()\[\]\"'`<>|,=]*\.(?:"
    r"py[ix]?|[cm]?[jt]sx?|vue|svelte|java|kts?|scala|groovy|go|rs|c|cc|cpp|cxx|h|hh|hpp|mm?|cs|fs|vb|php|rb|exs?|erl|hs|lua|"
    r"p[lm]|t|r|R|jl|swift|dart|cljs?|sh|bats|feature|robot|ya?ml|json|toml|sql|html|s?css|zig|nim|ml|elm))"
)
_PYTEST_PLACE = re.compile(_PATH + r":(?P<line>\d{1,7}):(?: in |\s*[A-Za-z_][\w.]*\s*$|\s*$)")
_PYTHON_PLACE = re.compile(r'File "(?P<path>[^"\n]{1,400})", line (?P<line>\d{1,7})')
_PLACES = (
    re.compile(_PATH + r":(?:line )?(?P<line>\d{1,7})(?!\d)"),
    re.compile(_PATH + r"\((?P<line>\d{1,7})(?:,\d+)?\)"),
    re.compile(r'"(?P<path>[^"\n]{1,400}\.[A-Za-z]\w{0,7})",? (?:on |at )?line (?P<line>\d{1,7})'),
)

_TAIL = re.compile(r"^\S[^\n]*?:\d+: ([A-Za-z_][\w.]*)\s*$")
_EXPLAINED = re.compile(r"\s*E {2,}(\S.*)$")
_PREFIX = re.compile(
    r"^(?:\s*E\s+)?(?:Uncaught |Caused by: |Exception in thread \"[^\"]*\" )?"
    r"([A-Za-z_][\w.$]*(?:Error|Exception|Failure|Warning|Exit|Interrupt|Failed|Panic))(?::|\s*$)"
)

_RECEIVED_LABEL = re.compile(
    r"^\s*(?:E\s+)?(?:(?:received|actual|got|but was|have)(?: [a-z]+){0,3}\s*:|but: was)\s*(\S.*)$", re.IGNORECASE
)
_EXPECTED_LABEL = re.compile(r"^\s*(?:E\s+)?(?:expected|want)(?: [a-z]+){0,3}\s*:\s*(\S.*)$", re.IGNORECASE)
_NEAR = 6
_TELLING = 5

_ONE_LINE_PAIRS = (
    re.compile(r"expected:? ?<(?P<expected>.*?)> but was:? ?<(?P<received>.*)>", re.IGNORECASE),
    re.compile(r"expected \[(?P<expected>.*?)\] but found \[(?P<received>.*)\]", re.IGNORECASE),
    re.compile(
        r"\bexpected:?\s+(?P<expected>\S.*?)[,;]?\s+(?:but )?(?:actual|got|received|found|was)(?::\s*|\s+)"
        r"(?P<received>\S.*)$",
        re.IGNORECASE,
    ),
    re.compile(
        r"(?:\bgot:?|(?<![=!<>])=)\s+(?P<received>\S.*?)[,;]\s+(?:want|wanted|expected):?\s+(?P<expected>\S.*)$",
        re.IGNORECASE,
    ),
    re.compile(
        r"\bexpected (?P<received>\S.*?) to (?:(?:deeply |strictly |loosely )?equal|eql|be(?! (?:greater|less|close|"
        r"equal|strictly|deeply|loosely|an? |at |in |of |above|below|within|called|thrown|defined|empty|true|false|"
        r"null|undefined)))\s+(?P<expected>\S.*)$",
        re.IGNORECASE,
    ),
)
_TO_BE_CONSTANT = re.compile(
    r"\bexpected (?P<received>\S.*?) to be (?P<expected>true|false|null|undefined)\.?$", re.IGNORECASE
)
_PYTEST_EQUAL = re.compile(r"^(?:E\s+)?(?:AssertionError: )?assert (?P<left>\S.*?) == (?P<right>\S.*)$")
_PYTEST_WHERE = re.compile(r"^(?:E\s+)?\s*\+\s+where (?P<computed>\S.*?) = ")
_UNEQUAL = re.compile(
    r"^(?:E\s+)?(?:AssertionError: )?(?!assert |if |elif |while |return |[>#+/*-])(?P<left>\S.*?) !==? (?P<right>\S.*?)"
    r"(?: : .*)?$"
)
_AMBIGUOUS = re.compile(r" (?:==|!=|!==|and|or) ")


def cleaned(text: str) -> str:
    """Text as a person would see it in a terminal, without what only colours it."""
    return strip_escapes(_SHOWN_ESCAPE.sub("\x1b", text)).strip("\n")


def bounded(text: str, limit_bytes: int) -> str:
    """At most `limit_bytes`, head and tail. Redacted before the cut, because nobody recognises half a secret."""
    if len(text.encode("utf-8", "replace")) <= limit_bytes:
        return text
    spare = 4 * limit_bytes
    if len(text) > 2 * spare:
        # What is cut away here is far from the cut that counts.
        text = f"{text[:spare]}\n[… {len(text) - 2 * spare} characters …]\n{text[-spare:]}"
    return cut_middle(redact(text), limit_bytes)


def place_in(text: str) -> str:
    """file:line of the deepest frame in the project, by what tracebacks of many languages look like."""
    lines = _bounded_lines(text)
    # Python shows the deepest frame last, everybody else shows it first.
    for line in reversed(lines):
        for pattern in (_PYTEST_PLACE, _PYTHON_PLACE):
            if (found := pattern.search(line)) and (place := _place(found)):
                return place
    for line in lines:
        if _FOREIGN_FRAME.match(line):
            continue
        for pattern in _PLACES:
            if (found := pattern.search(line)) and (place := _place(found)):
                return place
    return ""


def exception_in(text: str) -> str:
    """The exception's type: pytest's last word, or what an exception's line begins with."""
    lines = _bounded_lines(text)
    last = next((line for line in reversed(lines) if line.strip()), "")
    if found := _TAIL.match(last):
        return found[1]
    return next((found[1] for line in lines if (found := _PREFIX.match(line))), "")


def message_in(text: str) -> str:
    """The first lines that say something: pytest's explanation, the exception of a traceback, else the first line."""
    lines = _bounded_lines(text)
    if explained := [found[1] for line in lines if (found := _EXPLAINED.match(line))]:
        return "\n".join(explained[:10])
    if any(line.startswith("Traceback (most recent call last)") for line in lines):
        for line in reversed(lines):
            if _PREFIX.match(line):
                return line.strip()
    return next((line.strip() for line in lines if re.search(r"\w", line)), "")


def expectation_in(text: str) -> tuple[str, str] | None:
    """(expected, received), when the text puts it in one of the phrasings that tools agree on."""
    lines = _bounded_lines(text)
    pair = _labelled(lines) or _in_one_line(lines) or _compared(lines)
    if pair is None:
        return None
    expected, received = (one_line(side.strip(), _VALUE) for side in pair)
    return (expected, received) if expected and received else None


def _bounded_lines(text: str) -> list[str]:
    if len(text) > _TEXT:
        text = f"{text[: _TEXT // 2]}\n{text[-_TEXT // 2 :]}"
    lines = text.splitlines()
    if len(lines) > _LINES:
        lines = lines[: _LINES // 2] + lines[-_LINES // 2 :]
    return [line[:_LINE] for line in lines]


def _place(found: re.Match[str]) -> str:
    path = found["path"]
    return "" if _NOT_OURS.search(path.replace("\\", "/")) else f"{path}:{found['line']}"


def _labelled(lines: list[str]) -> tuple[str, str] | None:
    """`Expected: a` with `Received: b` on a line of its own shortly after or before it."""
    expected = next(((at, found[1]) for at, line in enumerate(lines) if (found := _EXPECTED_LABEL.match(line))), None)
    if expected is None:
        return None
    at, value = expected
    for line in (*lines[at + 1 : at + _NEAR], *reversed(lines[max(at - 2, 0) : at])):
        if found := _RECEIVED_LABEL.match(line):
            return value, found[1]
    return None


def _in_one_line(lines: list[str]) -> tuple[str, str] | None:
    telling = [line for line in lines if "expected" in line.lower() or "want" in line.lower()]
    for line in telling[:_TELLING]:
        # One space each: the patterns would take quadratic time on long runs of them.
        line = " ".join(line.split())[:_VALUE]  # noqa: PLW2901 - the same line, tidied
        for pattern in (*_ONE_LINE_PAIRS, _TO_BE_CONSTANT):
            found = pattern.search(line)
            if found and not found["received"].lower().endswith((" not", "to")):
                return found["expected"].removesuffix("."), found["received"].removesuffix(".")
    return None


def _compared(lines: list[str]) -> tuple[str, str] | None:
    for at, line in enumerate(lines):
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
