"""What a failure is known by: exactly, to compare two iterations, and coarsely, to find failures with one cause.

Both outlive what says nothing about the failure: another directory, shifted lines, other addresses, times, process ids
and hash seeds. Neither holds a line number; the source text of a line stands in for it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256

from pytest_iterctl.control.evidence import Failure, Frame

__all__ = [
    "anchor",
    "base_name",
    "coarse",
    "exact",
    "is_helper",
    "is_import_error",
    "is_test_file",
    "normalised",
    "place",
    "telling_line",
]

_FRAMES = 3
_DIGEST = 16
_READ = 2000
_EXACT, _COARSE = 600, 300
_NESTING = 5
_SPACES = re.compile(r"\s+")
_NUMBER = re.compile(r"\d+")
_LINE_NUMBER = re.compile(r":\d+$")

_IMPORT_ERRORS = {"ImportError", "ModuleNotFoundError"}
_ASSERTIONS = {"", "AssertionError", "Failed"}
_FIXTURE = "FixtureLookupError"
#: Two of these that read the same are the same, whatever words their messages are made of.
_SPEAKS_FOR_ITSELF = re.compile(r"\s*(?:raise\s+[\w.]+\(|assert\b)")
_HELPER_FILE = re.compile(
    r"(?:^|_)(?:helpers?|asserts?|assertions?|checks?|checking|matchers?|support|testing|testutils?)[_.]"
)
_HELPER_FUNCTION = re.compile(r"_*(?:assert|expect|should)", re.IGNORECASE)

_PART = r"[^\s'\"<>:,;()\[\]{}|\\/]"
_TEMPORARY_NAME = r"(?:tmp[a-z0-9_]{6,10}\b|pytest-\d+\b|pytest-of-[\w.-]+)"
_FOLDERS = rf"(?:{_PART}++[\\/])+{_PART}*"
#: What changes from run to run. The order matters: a date has numbers in it. Most of it starts where a word starts, and
#: asking that once, not in each alternative, is what makes it quick.
_CHANGING = re.compile(
    r"\b(?:(?=[0-9a-fA-F])(?:"
    r"(?P<address>0x[0-9a-fA-F]+)"
    r"|(?P<uuid>[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b)"
    r"|(?P<hash>[0-9a-fA-F]{32,}+\b)"
    r"|(?P<word>(?!\d++e\d++\b)(?=[0-9]{0,30}[a-f])(?=[a-f]{0,30}[0-9])[0-9a-f]{7,31}\b)"
    r"|(?P<epoch>1\d{9}(?:\.\d+)?\b)"
    r"|(?P<time>\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\b)"
    r"|(?P<duration>\d+(?:\.\d+)?(?:e-?\d+)?[ ]?(?:ns|us|µs|ms|s|secs?|seconds?|minutes?|mins?|hours?)\b))"
    r"|(?P<line>line \d+)"
    r"|(?P<process>(?:pid|PID|[Pp]rocess|[Tt]hread)[ =:#-]{1,3}\d+)"
    r"|(?P<port>[Pp]ort[ =:]{1,2}\d{4,5}\b)"
    r"|(?P<identity>id=['\"]?\d{9,})"
    rf"|(?P<temporary>{_TEMPORARY_NAME})"
    rf"|(?P<drive>(?:file:/|[A-Za-z]:)[\\/]/?{_FOLDERS}))"
    rf"|[/:](?:(?<=:)(?<=[\w\])>\"']:)(?P<place>\d+(?::\d+)?\b)|(?<=/)(?<![\w./:\\]/)(?P<path>{_FOLDERS}))"
)
_TEMPORARY = re.compile(r"\b" + _TEMPORARY_NAME)
_STANDS_FOR = {
    "address": "0x…",
    "uuid": "<uuid>",
    "hash": "<hash>",
    "word": "<hash>",
    "epoch": "<time>",
    "time": "<time>",
    "duration": "<duration>",
    "line": "line N",
    "process": "<process>",
    "port": "port N",
    "identity": "id=N",
    "place": ":N",
    "temporary": "<tmp>",
}
#: Values that a coarse signature does not look at.
_VALUES = re.compile(
    r"""(?<!\w)(?:[bBrRuU]{0,2}(?:'(?:[^'\\\n]|\\.)*+'|"(?:[^"\\\n]|\\.)*+")|-?\d[\w.]*|(?:None|True|False|nan|inf)\b)"""
)
_BRACKETED = re.compile(r"\[[^\[\]()]*\]|\{[^{}()\[\]]*\}|\((?:[^()\[\]{}]*,[^()\[\]{}]*)?\)")
_BRACES = re.compile(r"\{[^{}\n]*\}")
_SETS = str.maketrans("⟨⟩", "{}")

_TEST_FILE = re.compile(
    r"(?:^|/)(?:test_[^/]*|[^/]*_test|conftest|tests?)\.py$"
    r"|(?:^|/)(?:tests?|__tests__|specs?|testing)/"
    r"|[._-](?:test|spec)s?\.\w+$"
    r"|(?:Tests?|Spec|IT)\.(?:java|kt|kts|scala|groovy|cs|fs|vb|php|swift)$"
)


def exact(failure: Failure) -> str:
    """The same failure, as far as anyone can tell: type, message, and the last frames of the project."""
    frames = (f"{_path(frame.path)}:{frame.function}" for frame in failure.frames[-_FRAMES:])
    return _digest("exact", failure.kind, _exact_message(failure.message[:_READ], failure.kind), *frames)


def coarse(failure: Failure) -> str:
    """The same cause, most likely: type, the deepest frame of the product, and the message without its values.

    The message does not count where the statement raises it, and of an assertion in a helper the test counts too.
    """
    if is_import_error(failure) or failure.kind == _FIXTURE:
        # What is missing is missing for everyone, whoever asks for it.
        return _digest("missing", failure.kind, normalised(telling_line(failure))[:_COARSE])
    frame = anchor(failure)
    if frame is None:
        return _digest("unplaced", failure.kind, *_unplaced(failure))
    message = "" if _SPEAKS_FOR_ITSELF.match(frame.source) else _masked(telling_line(failure), failure.kind)
    if failure.kind in _ASSERTIONS and message.removeprefix("AssertionError: ").startswith("assert "):
        message = "assert"  # the statement itself says which one, without the values
    # Without the statement, and in a function without a name, only the line tells two failures of a file apart.
    nameless = not frame.source and ("anonymous" in frame.function or not frame.function.strip("<>"))
    statement = f"line {frame.line}" if nameless else _flat(frame.source)
    asked = _asked_by(failure, frame) if failure.kind in _ASSERTIONS else ()
    return _digest("placed", failure.kind, message, _path(frame.path), frame.function, statement, *asked)


def place(failure: Failure) -> str:
    """Where it fails, whatever the message: the test's statement and the product's. Of what is missing, its name."""
    where = anchor(failure)
    if where is None or is_import_error(failure) or failure.kind == _FIXTURE:
        return coarse(failure)
    asked = failure.frames[0]
    return _digest(
        "place", failure.kind, *(f"{_path(each.path)}:{each.function}:{_flat(each.source)}" for each in (asked, where))
    )


def _asked_by(failure: Failure, frame: Frame) -> tuple[str, ...]:
    """The test and its statement, of an assertion that a helper makes for many: what the helper says is not the cause.

    Set-up and tear-down are shared themselves.
    """
    outermost = failure.frames[0]
    if outermost is frame or failure.phase != "call" or not is_helper(frame):
        return ()
    return base_name(failure.test), _flat(outermost.source)


def is_helper(frame: Frame) -> bool:
    """Whether a frame is one that asserts for many tests."""
    # The product asserts too, and what it finds wrong is one thing for all that call it.
    plain = frame.path.replace("\\", "/").rpartition("/")[2]
    return is_test_file(frame.path) or bool(_HELPER_FILE.search(plain) or _HELPER_FUNCTION.match(frame.function))


def anchor(failure: Failure) -> Frame | None:
    """The deepest frame of the product, else the deepest one of the project."""
    product = [frame for frame in failure.frames if not is_test_file(frame.path)]
    return (product or failure.frames or (None,))[-1]


@lru_cache(maxsize=512)
def is_test_file(path: str) -> bool:
    """Whether a file holds tests or what only they use, by how people name such files."""
    return _TEST_FILE.search(path.replace("\\", "/")) is not None


def is_import_error(failure: Failure) -> bool:
    return failure.kind in _IMPORT_ERRORS


def base_name(test: str) -> str:
    """A test's id without its parameters."""
    return test.partition("[")[0] if test.endswith("]") else test


@lru_cache(maxsize=512)
def normalised(text: str) -> str:
    """Text without what changes from run to run though nothing happened."""
    return _flat(_CHANGING.sub(_stand_in, text))


def _stand_in(found: re.Match[str]) -> str:
    what = found.lastgroup or ""
    if what in _STANDS_FOR:
        return _STANDS_FOR[what]
    # Where the project and its temporary files lie says nothing; what the file is called does.
    return "…/" + _TEMPORARY.sub("<tmp>", found[0].replace("\\", "/").rpartition("/")[2])


@lru_cache(maxsize=512)
def _exact_message(message: str, kind: str) -> str:
    # The elements of a set come in any order, in one line or in one line each.
    lines = (_ordered(normalised(line)) for line in _depthless(message, kind).splitlines())
    return "\n".join(sorted(line for line in lines if line))[:_EXACT]


@lru_cache(maxsize=512)
def _masked(message: str, kind: str) -> str:
    text = _VALUES.sub("#", normalised(_depthless(message, kind)))
    for _ in range(_NESTING):
        text, count = _BRACKETED.subn("#", text)
        if not count:
            break
    return text[:_COARSE]


def _depthless(message: str, kind: str) -> str:
    """Where exactly the stack ended is chance."""
    return message.partition(" while ")[0].partition(" in comparison")[0] if kind == "RecursionError" else message


def _ordered(line: str) -> str:
    """Braces with their elements in order; those that were cut short show only some of them, so nothing of these."""
    if "{" not in line:
        return line
    for _ in range(_NESTING):
        line, count = _BRACES.subn(_sorted, line)
        if not count:
            break
    return line.translate(_SETS)


def _sorted(found: re.Match[str]) -> str:
    inner = found[0][1:-1]
    return "⟨…⟩" if "..." in inner else f"⟨{', '.join(sorted(inner.split(', ')))}⟩"


def _unplaced(failure: Failure) -> tuple[str, ...]:
    """Nothing is known of the way there, so only what says the same in the same place is one cause."""
    first = telling_line(failure)
    place = _path(_LINE_NUMBER.sub("", failure.where))
    compared = failure.expected is not None and failure.received is not None
    if failure.phase in {"setup", "call", "teardown"} and (compared or failure.kind == "AssertionError"):
        # Different comparisons often use the same words: only the parameters of one test are taken together.
        return _masked(first, failure.kind), place, base_name(failure.test)
    message = _NUMBER.sub("#", normalised(first))[:_COARSE]
    # What pytest itself says of a test is the same for every file, and so is the end of the session.
    return (message,) if failure.kind == "Failed" or failure.phase == "session" else (message, place)


def telling_line(failure: Failure) -> str:
    """The line that tells: a syntax error's message begins with the file and ends with what is wrong."""
    lines = [line.strip() for line in failure.message[:_READ].splitlines() if line.strip()]
    if not lines:
        return ""
    if failure.kind:
        lines = [line for line in lines if line.startswith(failure.kind)] or lines
    return lines[0]


def _path(path: str) -> str:
    plain = path.replace("\\", "/")
    absolute = plain.startswith("/") or plain[1:3] == ":/"
    return plain.rpartition("/")[2] if absolute else plain


def _flat(text: str) -> str:
    return _SPACES.sub(" ", text).strip()


def _digest(*parts: str) -> str:
    # Each part with its length, so that no two lists of parts are spelt alike.
    spelt = "".join(f"{len(part)}:{part}" for part in parts)
    return sha256(spelt.encode("utf-8", "backslashreplace")).hexdigest()[:_DIGEST]
