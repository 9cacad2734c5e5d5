"""What pytest's representation of a failure says: place, kind, message, the way through the code."""

from __future__ import annotations

import re
import types
from typing import TYPE_CHECKING, Any

from .text import cut

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["READ", "candidates", "cause_of", "kind_of", "message_of", "source_of", "way"]

READ = 200_000  # as much of a failure's text as anybody looks through


_FILE_LINE = re.compile(
    r'^(?:E\s+)?(?:File "(?P<file>[^"\n]+)", line (?P<line>\d+)|(?P<path>[^\s:][^:\n]*):(?P<at>\d+)(?::|$))',
    re.MULTILINE,
)
_TYPED = re.compile(r"([A-Za-z_][\w.]*)(?::|$)")
_ERROR_NAME = re.compile(
    r"(?:\w+\.)*\w*(?:Error|Exception|Warning|Failure|Failed|Exit|Interrupt|Iteration|Group|Timeout)$"
)
_DOCTEST = re.compile(r"^Expected:\n.*?^Got:\n(?:    [^\n]*\n?|\n(?=    ))*", re.MULTILINE | re.DOTALL)
_SYNTAX = ("SyntaxError", "IndentationError", "TabError")
_LAST_WORD = re.compile(r":\d+: (\w+)\s*\Z")
_DEFINITION = re.compile(r"[ >]\s*(?:async\s+)?def\s+(\w+)")
_FRAME = re.compile(
    r'^(?:[ \t|]{0,80}File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<name>[^\n]+)'
    r"|(?P<path>[^\s:][^:\n]*):(?P<at>\d+): in (?P<function>[^\n]+))(?:\n[ |]+(?P<source>[^\n]*))?",
    re.MULTILINE,
)
_BROKEN_FILE = re.compile(
    r'^(?:E[ \t]{1,80}|[ \t]{0,80})File "(?P<file>[^"\n]+)", line (?P<line>\d+)$(?:\nE?(?P<source>[^\n]*))?',
    re.MULTILINE,
)
_NEXT_EXCEPTION = re.compile(
    r"^(?:The above exception was the direct cause of the following exception|"
    r"During handling of the above exception, another exception occurred):$",
    re.MULTILINE,
)
_IN_A_GROUP = "+-+------"
_CARETS = re.compile(r"[\s^~]+\Z")


def candidates(longrepr: Any, text: str, kind: str) -> Iterator[tuple[str, int, Any]]:
    """Where it may have happened, the likeliest first: path, line, and pytest's entry about that frame."""
    named = [(match["file"] or match["path"], int(match["line"] or match["at"])) for match in _FILE_LINE.finditer(text)]
    if kind in _SYNTAX:  # the broken file is no frame, it is only named in the message
        yield from ((path, line, None) for path, line in reversed(named))
    yield from _frames(longrepr)
    yield from ((path, line, None) for path, line in reversed(named))


def _chain(longrepr: Any) -> list[tuple[Any, Any, Any]]:
    """Traceback and crash of each exception, the first cause first; empty for what is only text."""
    chain = getattr(longrepr, "chain", None)
    if not chain and hasattr(longrepr, "reprtraceback"):
        chain = [(longrepr.reprtraceback, getattr(longrepr, "reprcrash", None), None)]
    return list(chain or [])


def _frames(longrepr: Any) -> Iterator[tuple[str, int, Any]]:
    """Frames with their place, the deepest of the last exception first."""
    for traceback, crash, _ in reversed(_chain(longrepr)):
        for entry in reversed(traceback.reprentries):
            location = getattr(entry, "reprfileloc", None)
            if location is not None:
                yield str(location.path), location.lineno, entry
        if crash is not None:
            yield str(crash.path), crash.lineno, None


def way(longrepr: Any, text: str, kind: str) -> Iterator[tuple[str, int, str, str]]:
    """Path, line, function and source line of each frame of the last exception, the outermost first."""
    chain = _chain(longrepr)
    entries = [entry for entry in chain[-1][0].reprentries if getattr(entry, "reprfileloc", None)] if chain else []
    for entry in entries:
        source = source_of(entry).split("\n", 1)[0]
        yield str(entry.reprfileloc.path), entry.reprfileloc.lineno, _function(entry), source.strip()
    if not entries:
        shown = cut(str(chain[-1][0]), READ) if chain else text
        told = _NEXT_EXCEPTION.split(shown)[-1].partition(_IN_A_GROUP)[0]
        for match in _FRAME.finditer(told):
            path, line = match["file"] or match["path"], match["line"] or match["at"]
            yield path, int(line), match["name"] or match["function"], (match["source"] or "").strip()
    if kind in _SYNTAX:  # the deepest place is the broken file, which is no frame
        for match in list(_BROKEN_FILE.finditer(text))[-1:]:
            yield match["file"], int(match["line"]), "", (match["source"] or "").strip()


def _function(entry: Any) -> str:
    """The function that a frame is in: pytest names it in its short style, and shows its source in the long one."""
    told = str(entry.reprfileloc.message)
    if told.startswith("in "):
        return told[3:]
    lines = [str(line) for line in entry.lines]
    marked = next((number for number, line in enumerate(lines) if line.startswith(">")), 0)
    for number, line in enumerate(lines[: marked + 1]):
        found = _DEFINITION.match(line)
        if found and (number == marked or _indent(line) < _indent(lines[marked])):
            return found[1]
    return "<module>" if entry.reprfileloc.lineno == marked + 1 else ""


def _indent(line: str) -> int:
    return len(line) - len(line[1:].lstrip())


def cause_of(longrepr: Any, text: str) -> str:
    """`Type: message` of the exception that began it all, '' when there was only one."""
    chain = _chain(longrepr)
    first: Any = None
    if len(chain) > 1:
        first = types.SimpleNamespace(reprtraceback=chain[0][0], reprcrash=chain[0][1])
        text = cut(str(chain[0][0]), READ)
    else:
        parts = _NEXT_EXCEPTION.split(text)
        if len(parts) == 1:
            return ""
        text = parts[0]
    message = message_of(first, text)
    told = message.strip().split("\n", 1)[0]
    if told.startswith("Traceback ("):
        told = message.rpartition("\n")[2]
    kind = kind_of(first, told, text)
    return told if not kind or told.partition(":")[0].rpartition(".")[2] == kind else f"{kind}: {told}"


def message_of(longrepr: Any, text: str) -> str:
    crash = getattr(longrepr, "reprcrash", None)
    if crash is not None:
        return str(crash.message)
    marked = [line[1:] for line in text.splitlines() if line.startswith("E  ")]
    if marked:
        indent = min((len(line) - len(line.lstrip()) for line in marked if line.strip()), default=0)
        return "\n".join(line[indent:] for line in marked)
    compared = _DOCTEST.search(text)
    return (compared[0] if compared else text).strip()


def kind_of(longrepr: Any, message: str, text: str) -> str:
    first = message.lstrip().split("\n", 1)[0]
    entries = getattr(getattr(longrepr, "reprtraceback", None), "reprentries", None) or [None]
    location = getattr(entries[-1], "reprfileloc", None)
    if location is not None and str(location.message).isidentifier():
        return str(location.message)
    if first.startswith("assert "):
        return "AssertionError"
    if first.startswith("fixture '"):
        return "FixtureLookupError"
    typed = _TYPED.match(first)
    if typed and (getattr(longrepr, "reprcrash", None) is not None or _ERROR_NAME.match(typed[1])):
        return typed[1].rpartition(".")[2]
    # A syntax error begins with the file, a doctest ends with the type, an import error says it in its last line.
    last = _LAST_WORD.search(text) or _TYPED.match(message.rpartition("\n")[2])
    return last[1] if last and _ERROR_NAME.match(last[1]) else ""


def source_of(entry: Any) -> str:
    """The statement that failed, as pytest shows it behind its `>`."""
    lines = [str(line) for line in getattr(entry, "lines", ())]
    marked = next((number for number, line in enumerate(lines) if line.startswith(">")), 0)
    statement = []
    for line in lines[marked:]:
        if line.startswith("E  "):
            break
        if not _CARETS.match(line):
            statement.append(" " + line[1:])
    indent = len(statement[0]) - len(statement[0].lstrip()) if statement else 0
    return "\n".join(line[indent:] for line in statement)
