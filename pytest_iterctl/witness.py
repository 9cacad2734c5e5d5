"""Rides inside each test run and writes down what happened, one JSON line per test, where the tests can't reach it.

It is run as a launcher, `python …/witness.py [pytest arguments]`, in place of `python -m pytest` or `pytest`, and then
behaves like them. It imports nothing of ours, since the project's interpreter need not have this package (Python 3.9
and pytest 7.4 will do). The environment says how, and is cleared at once, so that nothing the tests start sees it:

ITERCTL_WITNESS_FD      the open file descriptor that takes the lines
ITERCTL_WITNESS_MODE    `module` for `python -m pytest`, `script` for `pytest`: what is first on sys.path
ITERCTL_WITNESS_MARKER  keep only tests whose closest `iterate` marker names this task ('': only those without one);
                        turns xdist off, whose workers run without the witness
ITERCTL_WITNESS_EXAM    a JSON file, taken away once it is read, that names the probe to load and says what it looks
                        at (see probe/); without a probe the rest of it has no effect

The marks that declare tasks are not seen under xdist either: whoever wants them runs with `-n0`.
"""

# ruff: noqa: E402 - nothing may be imported before sys.path is mended
# ruff: noqa: PTH100, PTH108, PTH109, PTH110, PTH111, PTH113, PTH118, PTH119, PTH120, PTH123 - paths are strings
from __future__ import annotations

import os
import sys

_PREFIX = "ITERCTL_WITNESS_"


def _take_settings() -> dict[str, str]:
    """What the environment says, out of the way before anything of the project is imported."""
    settings = {name[len(_PREFIX) :]: os.environ.pop(name) for name in list(os.environ) if name.startswith(_PREFIX)}
    folder = os.path.dirname(os.path.realpath(__file__))
    # With -P, -I or PYTHONSAFEPATH the interpreter put no folder in front, and neither would it for pytest.
    in_front = bool(sys.path) and os.path.realpath(sys.path[0]) == folder
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != folder]
    if in_front:
        script = settings.get("MODE") == "script"
        sys.path.insert(0, os.path.dirname(sys.executable) if script else os.getcwd())
    return settings


_settings = _take_settings() if __name__ == "__main__" else {}

# Only now may anything be imported: our own folder would have been searched first.
import copy
import json
import re
import types
from contextlib import suppress
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from json.encoder import encode_basestring_ascii as _quoted
from typing import TYPE_CHECKING, Any


def _take_exam(path: str) -> dict[str, Any]:
    """What the probe is to look at; the file is gone before anything of the project could read it."""
    try:
        with open(path, "rb") as file:
            exam = json.load(file)
        os.unlink(path)
    except (OSError, ValueError) as error:
        exam = error
    if isinstance(exam, dict):
        return exam
    sys.stderr.write(f"error: {path} is no exam: {exam}\n")
    sys.exit(4)


def _load_probe(exam: dict[str, Any]) -> Any:
    """The probe, by its path: it maps sys.path into the room before it imports pytest."""
    if not exam.get("probe"):
        return None
    path = str(exam["probe"])
    spec = spec_from_file_location(_PROBE, path, submodule_search_locations=[os.path.dirname(path)])
    if spec is None or spec.loader is None:
        sys.stderr.write(f"error: {path} is no probe\n")
        sys.exit(4)
    module = module_from_spec(spec)
    vars(module)["EXAM"] = exam
    sys.modules[_PROBE] = module
    spec.loader.exec_module(module)
    return module


_PROBE = "iterctl_probe"
_exam = _take_exam(_settings["EXAM"]) if "EXAM" in _settings else {}

try:
    _probe = _load_probe(_exam)
    import pytest
except ModuleNotFoundError as missing:
    if __name__ != "__main__" or missing.name != "pytest":
        raise
    sys.exit(f"{sys.executable}: No module named pytest")

__all__ = ["Witness", "main"]

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

_MESSAGE, _DETAIL, _OUTPUT, _SOURCE = 4_000, 16_000, 2_000, 2_000
_READ = 200_000
_ALL_DETAILS = 32_000_000
_FAILURES_PER_TEST = 20
_FRAMES, _FRAMES_AT_LEAST, _FRAME_SOURCE, _CAUSE = 20, 3, 200, 500
_SEEN_TWICE = 2
_EDGE = 300  # what is longer than this and has no end is no secret; only this much of it is left out
_IDS_PER_LINE = 1_000

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

_system_write = os.write  # a test may replace os.write


class Lines:
    """The way out: each line is handed to the system at once, so that it survives whatever the next test does."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        os.set_inheritable(descriptor, False)
        # A fork of the test process that falls through into pytest must not speak in its parent's name.
        os.register_at_fork(after_in_child=self.close)

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            with suppress(OSError):
                os.close(descriptor)

    def write(self, line: str) -> None:
        """One line of ASCII with its newline. A run is never disturbed by a full disk, it is only not vouched for."""
        data = line.encode("ascii")
        try:
            while data and self.descriptor >= 0:
                data = data[_system_write(self.descriptor, data) :]
        except OSError as error:
            self.descriptor = -1
            sys.stderr.write(f"iterctl-witness: can't write: {error}\n")

    def tell(self, line: str, /, **fields: object) -> None:
        self.write(json.dumps({"type": line, **fields}, default=repr) + "\n")


class _Attempt:
    """What is known of a test that did not simply pass, until its teardown."""

    __slots__ = ("failures", "message", "outcome", "reruns", "retrying", "seconds", "where")

    def __init__(self) -> None:
        self.reruns = 0
        self.retrying = False
        self.clear()

    def clear(self) -> None:
        self.failures: list[dict[str, object]] = []
        self.outcome = "skipped"  # until its call is reported: with --setup-only it never is
        self.message = self.where = ""
        self.seconds = 0.0

    def verdict(self) -> str:
        if not self.failures:
            return self.outcome
        return "failed" if all(failure["phase"] == "call" for failure in self.failures) else "error"


class Descriptions:
    """Turns pytest's representation of a failure into place, type, message and bounded text."""

    def __init__(self) -> None:
        self.root = self.start = os.getcwd()
        self.budget = _ALL_DETAILS
        standard = os.path.dirname(os.path.realpath(os.__file__))
        self.foreign = [standard + os.sep]
        self.known: dict[str, str] = {}
        self.own = self._own()

    def use_root(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self.known.clear()
        self.own = self._own()
        prefix = os.path.join(os.path.realpath(sys.prefix), "")
        if not any(os.path.join(each, "").startswith(prefix) for each in (self.root, os.path.realpath(self.start))):
            self.foreign.append(prefix)

    def _own(self) -> tuple[str, ...]:
        """The folders whose files are the project's: where pytest was started, its root, and their repository."""
        start = os.path.realpath(self.start)
        above = start
        while not os.path.exists(os.path.join(above, ".git")) and os.path.dirname(above) != above:
            above = os.path.dirname(above)
        repository = [above] if os.path.dirname(above) != above else []
        return tuple(os.path.join(each, "") for each in (start, self.root, *repository))

    def identity(self, path: str) -> str:
        """A file of the project as pytest's own ids name it: relative to the root; '' for any other."""
        if not self.inside(path):
            return ""
        return os.path.relpath(os.path.realpath(os.path.join(self.start, path)), self.root).replace(os.sep, "/")

    def place(self, path: str, line: int) -> str:
        """`file:line` seen from where pytest was started, or '' for what is not the project's own code."""
        inside = self.inside(path)
        return f"{inside}:{line}" if inside else ""

    def inside(self, path: str) -> str:
        """A file of the project seen from the start; many failures ask about the same few files."""
        if path not in self.known:
            self.known[path] = self._inside(path)
        return self.known[path]

    def _inside(self, path: str) -> str:
        whole = os.path.realpath(os.path.join(self.start, path))
        if not whole.startswith(self.own) or whole.startswith(tuple(self.foreign)) or not os.path.isfile(whole):
            return ""
        inside = os.path.relpath(whole, os.path.realpath(self.start)).replace(os.sep, "/")
        return "" if {"site-packages", "dist-packages"}.intersection(inside.split("/")) else inside

    def failure(self, longrepr: Any) -> dict[str, object]:
        """Everything about one failure. It never raises: a failure that can't be described is still a failure."""
        shown = longrepr
        with suppress(Exception):  # a plugin's own representation may look like pytest's and not be one
            shown = _without_recursion(longrepr)
        try:
            return self._failure(shown, cut(str(shown), _READ))
        except Exception as error:  # noqa: BLE001 - a project's own representation may do anything
            return {"message": f"a failure that can't be shown: {type(error).__name__}"}

    def _failure(self, longrepr: Any, text: str) -> dict[str, object]:
        message = _message(longrepr, text)
        kind = _kind(longrepr, message, text)
        places = ((self.place(path, line), entry) for path, line, entry in _candidates(longrepr, text, kind))
        where, entry = next((found for found in places if found[0]), ("", None))
        frames: list[tuple[str, int, str, str]] = []
        cause = ""
        with suppress(Exception):
            frames = self.frames(longrepr, text, kind)
            cause = cut(_cause(longrepr, text), _CAUSE)
        if not where and frames:
            where = f"{frames[-1][0]}:{frames[-1][1]}"
        detail = cut(text, _DETAIL) if self.budget > 0 else ""
        self.budget -= len(detail) + _FRAME_SOURCE * len(frames)
        found: dict[str, object] = {"where": where, "kind": kind, "message": cut(message, _MESSAGE)}
        found.update(source=cut(_source(entry), _SOURCE), detail=detail)
        found.update(frames=frames, cause=cause)
        return found

    def frames(self, longrepr: Any, text: str, kind: str) -> list[tuple[str, int, str, str]]:
        """The way through the project's own code, the outermost first; each place once, however deep a recursion."""
        found: dict[tuple[str, int], tuple[str, int, str, str]] = {}
        for path, line, function, source in _way(longrepr, text, kind):
            inside = self.inside(path)
            if inside:
                found.setdefault(
                    (inside, line), (inside, line, head(function, _FRAME_SOURCE), head(source, _FRAME_SOURCE))
                )
        frames = list(found.values())
        most = _FRAMES if self.budget > 0 else _FRAMES_AT_LEAST
        first = most // 2
        return frames if len(frames) <= most else frames[:first] + frames[first - most :]

    def exception(self, error: BaseException) -> dict[str, object]:
        """The same for an exception that pytest has not turned into a report."""
        longrepr: object = f"E   {type(error).__name__}"
        with suppress(Exception):
            info = pytest.ExceptionInfo.from_exception(error)
            longrepr = "E   " + info.exconly().replace("\n", "\nE   ")
            own = info.traceback.filter(lambda entry: bool(self.place(str(entry.path), 1)))
            if len(own):
                info.traceback = own
                longrepr = info.getrepr(style="short", chain=False)
        return self.failure(longrepr)

    def defined(self, report: Any) -> str:
        """Where the test begins, for failures that have no place of their own."""
        path, line, _ = report.location
        return self.place(os.path.join(self.root, path), line + 1) if line is not None else ""

    def output(self, report: Any) -> dict[str, str]:
        if self.budget <= 0:
            return {}
        texts = {"stdout": report.capstdout, "stderr": report.capstderr, "log": report.caplog}
        tails = {name: tail(text, _OUTPUT) for name, text in texts.items() if text}
        self.budget -= sum(map(len, tails.values()))
        return tails


def _candidates(longrepr: Any, text: str, kind: str) -> Iterator[tuple[str, int, Any]]:
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


def _way(longrepr: Any, text: str, kind: str) -> Iterator[tuple[str, int, str, str]]:
    """Path, line, function and source line of each frame of the last exception, the outermost first."""
    chain = _chain(longrepr)
    entries = [entry for entry in chain[-1][0].reprentries if getattr(entry, "reprfileloc", None)] if chain else []
    for entry in entries:
        source = _source(entry).split("\n", 1)[0]
        yield str(entry.reprfileloc.path), entry.reprfileloc.lineno, _function(entry), source.strip()
    if not entries:
        shown = cut(str(chain[-1][0]), _READ) if chain else text
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


def _cause(longrepr: Any, text: str) -> str:
    """`Type: message` of the exception that began it all, '' when there was only one."""
    chain = _chain(longrepr)
    first: Any = None
    if len(chain) > 1:
        first = types.SimpleNamespace(reprtraceback=chain[0][0], reprcrash=chain[0][1])
        text = cut(str(chain[0][0]), _READ)
    else:
        parts = _NEXT_EXCEPTION.split(text)
        if len(parts) == 1:
            return ""
        text = parts[0]
    message = _message(first, text)
    told = message.strip().split("\n", 1)[0]
    if told.startswith("Traceback ("):
        told = message.rpartition("\n")[2]
    kind = _kind(first, told, text)
    return told if not kind or told.partition(":")[0].rpartition(".")[2] == kind else f"{kind}: {told}"


class _LeftOut:
    """Stands for the frames of a recursion between its first and its last round."""

    style = "short"
    reprfileloc = None

    def __init__(self, count: int) -> None:
        self.lines = (f"[… {count} frames of a recursion left out …]",)

    def toterminal(self, writer: Any) -> None:
        writer.line(self.lines[0])


def _without_recursion(longrepr: Any) -> Any:
    """The same with each place of a recursion at most twice; pytest's own object is left as it is."""
    chain = getattr(longrepr, "chain", None) or []
    collapsed = [_collapsed(traceback) for traceback, _, _ in chain]
    if all(short is whole for short, (whole, _, _) in zip(collapsed, chain)):  # noqa: B905 - Python 3.9
        return longrepr
    shorter = copy.copy(longrepr)
    shorter.chain = [(short, *rest) for short, (_, *rest) in zip(collapsed, chain)]  # noqa: B905 - Python 3.9
    shorter.reprtraceback = collapsed[-1]
    return shorter


def _collapsed(traceback: Any) -> Any:
    places: dict[tuple[str, int], list[int]] = {}
    for number, entry in enumerate(traceback.reprentries):
        location = getattr(entry, "reprfileloc", None)
        key = (str(location.path), location.lineno) if location is not None else ("", number)
        places.setdefault(key, []).append(number)
    if all(len(seen) <= _SEEN_TWICE for seen in places.values()):
        return traceback
    kept = sorted({number for seen in places.values() for number in (seen[0], seen[-1])})
    entries: list[Any] = []
    for before, number in zip([-1, *kept], kept):  # noqa: B905 - Python 3.9
        if number - before > 1:
            entries.append(_LeftOut(number - before - 1))
        entries.append(traceback.reprentries[number])
    shorter = copy.copy(traceback)
    shorter.reprentries = entries
    return shorter


def _message(longrepr: Any, text: str) -> str:
    crash = getattr(longrepr, "reprcrash", None)
    if crash is not None:
        return str(crash.message)
    marked = [line[1:] for line in text.splitlines() if line.startswith("E  ")]
    if marked:
        indent = min((len(line) - len(line.lstrip()) for line in marked if line.strip()), default=0)
        return "\n".join(line[indent:] for line in marked)
    compared = _DOCTEST.search(text)
    return (compared[0] if compared else text).strip()


def _kind(longrepr: Any, message: str, text: str) -> str:
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


def _source(entry: Any) -> str:
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


def cut(text: str, limit: int) -> str:
    """Head and tail of a text that is too long."""
    if len(text) <= limit:
        return text
    begin, end = head(text, limit * 2 // 3), tail(text, limit // 3)
    return f"{begin}\n[… {len(text) - len(begin) - len(end)} characters cut …]\n{end}"


def head(text: str, limit: int) -> str:
    """The beginning, without the word that the cut went through: nobody recognises half a secret, and so hides it."""
    if len(text) <= limit:
        return text
    kept = text[:limit]
    if text[limit].isspace():
        return kept
    edge = kept[-_EDGE:]
    word = len(edge.rpartition(" ")[2].rpartition("\n")[2].rpartition("\t")[2])
    return kept[: len(kept) - word]


def tail(text: str, limit: int) -> str:
    """The end, from the first whole line on, or from a whole word where lines are long."""
    if len(text) <= limit:
        return text
    kept = text[len(text) - limit :]
    if text[len(text) - limit - 1] == "\n":
        return kept
    edge = kept[:_EDGE]
    line = edge.find("\n")
    # The last word of those that may go: what stands before a secret tells that it is one (`password: …`).
    word = max(edge.rfind(" "), edge.rfind("\t"))
    return kept[(line if line >= 0 else word if word >= 0 else len(edge) - 1) + 1 :]


class Witness:
    """The pytest plugin. What passes costs two dictionary entries and one write; the rest may take its time."""

    def __init__(self, lines: Lines, marker: str | None = None) -> None:
        self.__name__ = "iterctl-witness"  # the name that pytest registers it under
        self.lines = lines
        self.marker = marker
        self.describe = Descriptions()
        self.ready: dict[str, float] = {}
        self.called: dict[str, float] = {}
        self.open: dict[str, _Attempt] = {}
        self.counts: dict[str, int] = {}
        self.passed = self.deselected = 0
        self.collected = False

    # Before the session -----------------------------------------------------------------------------------------

    def pytest_addoption(self, parser: pytest.Parser) -> None:
        if getattr(parser, "prog", None) == "pytest.main()":  # pytest's usage text names who called it
            module = os.path.basename(sys.argv[0]) == "__main__.py"
            parser.prog = "python -m pytest" if module else "pytest"

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self, early_config: pytest.Config, args: list[str]) -> None:
        self.describe.use_root(str(early_config.rootpath))
        self.lines.tell("root", path=str(early_config.rootpath))
        known = early_config.known_args_namespace
        if self.marker is not None and hasattr(known, "numprocesses"):
            args.insert(args.index("--") if "--" in args else len(args), "-n0")
            known.numprocesses, known.dist = 0, "no"  # for plugins that look before the arguments are read again

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_cmdline_parse(self) -> Generator[None, Any, None]:
        outcome = yield
        if outcome.excinfo is not None:
            self._tell_early_end(outcome.excinfo[1])

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_cmdline_main(self) -> Generator[None, Any, None]:
        outcome = yield
        if outcome.excinfo is not None:
            error = outcome.excinfo[1]
            if isinstance(error, pytest.UsageError):
                self.lines.tell("usage-error", text=_usage(error))
            else:
                self.lines.tell("internal-error", **self.describe.exception(error))

    def _tell_early_end(self, error: BaseException) -> None:
        if isinstance(error, pytest.UsageError):
            self.lines.tell("usage-error", text=_usage(error))
            return
        path = str(getattr(error, "path", None) or "")
        cause = error
        if type(error).__name__ == "ConftestImportFailure":
            cause = getattr(error, "cause", None) or error.excinfo[1]  # type: ignore[attr-defined] # until pytest 8
        elif type(error).__name__ == "PluginImportFailure":
            path, cause = str(error), error.__cause__ or error
        inside = self.describe.identity(path) if path else ""
        self.lines.tell("collect-error", id=inside or path or "pytest", **self.describe.exception(cause))

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        if not any(line.startswith("iterate") for line in config.getini("markers")):
            config.addinivalue_line("markers", "iterate(task, prompt, max_iterations): the task this test belongs to")
        option = config.option
        distributed = getattr(option, "dist", "no") != "no" and not option.collectonly
        positional = [str(each) for each in getattr(option, "file_or_dir", None) or ()]  # --help has none
        self.lines.tell("session", distributed=distributed, positional=positional)
        self.lines.tell(
            "interpreter",
            prefix=sys.prefix,
            base_prefix=sys.base_prefix,
            executable=sys.executable,
            path=list(sys.path),
            inipath=str(config.inipath or ""),
            python_files=list(config.getini("python_files")),
            testpaths=list(config.getini("testpaths")),
            doctest_globs=list(getattr(option, "doctestglob", None) or ()),
        )

    # Collection -------------------------------------------------------------------------------------------------

    def pytest_collectstart(self, collector: Any) -> None:
        if not isinstance(collector, pytest.Class):  # its module is imported already
            self.lines.tell("collecting", id=collector.nodeid or ".")

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.lines.tell("collect-error", id=report.nodeid, **self.describe.failure(report.longrepr))
        elif report.skipped:
            self.lines.tell("collect-skip", id=report.nodeid, message=_reason(report)[0])

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if self.marker is None:
            return
        marks: dict[Any, Any] = {}
        kept: list[pytest.Item] = []
        others: list[pytest.Item] = []
        for item in items:
            mark = _closest(item, marks)
            (kept if (_declared(mark)["task"] if mark else "") == self.marker else others).append(item)
        if others:
            config.hook.pytest_deselected(items=others)
            items[:] = kept

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self.deselected += len(items)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._tell_collected([item.nodeid for item in session.items])
        marks: dict[Any, Any] = {}
        tasks: dict[str, tuple[dict[str, object], list[str]]] = {}
        for item in session.items:
            mark = _closest(item, marks)
            if mark is not None:
                declared = _declared(mark)
                tasks.setdefault(repr(declared), (declared, []))[1].append(item.nodeid)
        for declared, ids in tasks.values():
            self.lines.tell("task", ids=ids, **declared)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        if not self.collected:
            self._tell_collected(list(ids))
            # With several tests at once, the first without a result is not the one that was running.
            node.config.pluginmanager.register(Beginnings(self.lines), "iterctl-witness-beginnings")

    def _tell_collected(self, ids: list[str]) -> None:
        self.collected = True
        for start in range(0, len(ids), _IDS_PER_LINE):
            self.lines.tell("collected", ids=ids[start : start + _IDS_PER_LINE])
        self.lines.tell("collection", count=len(ids), deselected=self.deselected)

    # Tests ------------------------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        test = report.nodeid
        if report.outcome == "passed" and test not in self.open:
            when = report.when
            if when == "setup":
                self.ready[test] = report.duration
                return
            if when == "call":
                if not hasattr(report, "wasxfail"):
                    self.called[test] = self.ready.pop(test, 0.0) + report.duration
                    return
            elif test in self.called:
                seconds = self.called.pop(test) + report.duration
                self.passed += 1
                self.lines.write(
                    f'{{"type":"test","id":{_quoted(test)},"outcome":"passed","duration":{seconds:.6f}}}\n'
                )
                return
        self._note(test, report)

    def _note(self, test: str, report: Any) -> None:
        attempt = self.open.get(test)
        if attempt is None:
            attempt = self.open[test] = _Attempt()
            if test in self.called:
                attempt.outcome = "passed"
            attempt.seconds = self.called.pop(test, 0.0) + self.ready.pop(test, 0.0)
        if report.outcome not in {"passed", "failed", "skipped"}:  # "rerun": another attempt will follow
            attempt.reruns += not attempt.retrying
            attempt.clear()
            attempt.retrying = True
            return
        if report.when == "setup":
            attempt.retrying = False
        if attempt.retrying:
            return
        self._add(attempt, report)
        if report.when not in {"setup", "call"}:
            del self.open[test]
            self._tell_test(test, attempt)

    def _add(self, attempt: _Attempt, report: Any) -> None:
        attempt.seconds += getattr(report, "duration", 0.0)
        subtest = hasattr(getattr(report, "context", None), "msg")
        if report.failed:
            if attempt.failures and str(report.longrepr).startswith("contains ") and not subtest:
                return  # pytest's own summary of the subtests that are already known
            if len(attempt.failures) >= _FAILURES_PER_TEST:
                return
            failure = self.describe.failure(report.longrepr)
            failure["phase"] = report.when if report.when in {"setup", "teardown"} else "call"
            failure["where"] = failure.get("where") or self.describe.defined(report)
            failure["output"] = self.describe.output(report)
            if subtest:
                failure["context"] = cut(_context(report.context), _OUTPUT)
            attempt.failures.append(failure)
        elif subtest:
            return
        elif hasattr(report, "wasxfail"):
            attempt.outcome = "xfailed" if report.skipped else "xpassed"
            attempt.message = str(report.wasxfail)
        elif report.skipped:
            attempt.outcome = "skipped"
            attempt.message, path, line = _reason(report)
            attempt.where = self.describe.place(path, line)
        elif report.when == "call":
            attempt.outcome = "passed"

    def _tell_test(self, test: str, attempt: _Attempt) -> None:
        outcome = attempt.verdict()
        self.counts[outcome] = self.counts.get(outcome, 0) + 1
        fields: dict[str, object] = {"id": test, "outcome": outcome, "duration": round(attempt.seconds, 6)}
        for name in ("reruns", "message", "where", "failures"):
            if getattr(attempt, name):
                fields[name] = getattr(attempt, name)
        self.lines.tell("test", **fields)

    # The end ----------------------------------------------------------------------------------------------------

    def pytest_keyboard_interrupt(self, excinfo: Any) -> None:
        self.lines.tell("interrupt", kind=excinfo.typename, text=cut(str(excinfo.value), _MESSAGE))

    def pytest_internalerror(self, excrepr: Any, excinfo: Any) -> None:
        del excinfo  # its text would be without the frames
        self.lines.tell("internal-error", **self.describe.failure(excrepr))

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, Any, None]:
        outcome = yield
        for test, attempt in list(self.open.items()):  # a teardown that was interrupted
            if attempt.failures:
                self._tell_test(test, attempt)
        if outcome.excinfo is not None:
            return  # it comes by again in pytest_cmdline_main
        option = session.config.option
        report = _expanded(getattr(option, "xmlpath", None))
        self.lines.tell(
            "finish",
            status=int(session.exitstatus),
            counts={**self.counts, "passed": self.passed + self.counts.get("passed", 0)},
            stop=str(session.shouldfail or session.shouldstop or ""),
            junitxml=os.path.join(self.describe.start, report) if report else None,
            reports=[os.path.join(self.describe.start, each) for each in _reports(session.config)],
            seed=getattr(option, "randomly_seed", None),
        )


class Beginnings:
    """Says which tests were begun, for runs with several at once."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.lines.write(f'{{"type":"begin","id":{_quoted(nodeid)}}}\n')


def _compiled() -> list[str]:
    """Where the bytecode of the modules lies that this run has loaded."""
    places = (getattr(module, "__cached__", None) for module in list(sys.modules.values()))
    return sorted({each for each in places if isinstance(each, str)})


# Where plugins keep the names of the files and folders that they were asked to write a report to.
_REPORTS = (
    *("xmlpath", "htmlpath", "report_log", "json_report_file", "csv_path", "mdpath", "md_report_output"),
    *("allure_report_dir", "ctrf", "resultlog"),
)
_COVERAGE_REPORTS = {"xml": "xml_output", "html": "html_dir", "json": "json_output", "lcov": "lcov_output"}


def _reports(config: Any) -> list[str]:
    """The files and folders that the run was asked to write reports to, as far as their plugins are known."""
    option = config.option
    found = [_expanded(getattr(option, name, None)) for name in _REPORTS]
    with suppress(Exception):  # a plugin of that name may be any other
        measured = config.pluginmanager.get_plugin("_cov").cov_controller.cov.config
        found.append(_expanded(measured.data_file))
        for kind, place in option.cov_report.items():
            if not kind.startswith("term"):  # what follows those is no path
                found.append(_expanded(place or getattr(measured, _COVERAGE_REPORTS.get(kind, ""), "")))
    return sorted({each for each in found if each})


def _expanded(path: object) -> str:
    return os.path.expanduser(os.path.expandvars(path)) if isinstance(path, str) else ""


def _closest(node: Any, known: dict[Any, Any]) -> Any:
    """The closest `iterate` marker, with the answer of every class and module remembered."""
    for mark in node.own_markers:
        if mark.name == "iterate":
            return mark
    parent = node.parent
    if parent is None:
        return None
    if parent not in known:
        known[parent] = _closest(parent, known)
    return known[parent]


def _declared(mark: Any) -> dict[str, object]:
    given = {**dict(zip(("task", "prompt", "max_iterations"), mark.args)), **mark.kwargs}  # noqa: B905 - Python 3.9
    most = given.get("max_iterations")
    return {
        "task": str(given.get("task") or ""),
        "prompt": str(given.get("prompt") or ""),
        "max_iterations": most if most is None or type(most) is int else repr(most),
    }


def _reason(report: Any) -> tuple[str, str, int]:
    if isinstance(report.longrepr, tuple):
        path, line, reason = report.longrepr
        return cut(str(reason).removeprefix("Skipped: "), _OUTPUT), str(path), line
    return cut(str(report.longrepr or ""), _OUTPUT), "", 0


def _usage(error: BaseException) -> str:
    return cut("\n".join(str(part).strip() for part in error.args), _MESSAGE)


def _context(context: Any) -> str:
    values = ", ".join(f"{name}={value}" for name, value in dict(context.kwargs or {}).items())
    return " ".join(
        part for part in (f"[{context.msg}]" if context.msg else "", f"({values})" if values else "") if part
    )


def _dress(*, script: bool) -> None:
    """Make `__main__` and sys.argv what they are for pytest itself; multiprocessing hands them to its children."""
    dressed = types.ModuleType("__main__")
    if script:
        path = os.path.join(os.path.dirname(sys.executable), "pytest")
        dressed.__file__ = path if os.path.exists(path) else os.path.abspath(__file__)
    else:
        dressed.__spec__ = find_spec("pytest.__main__")
        dressed.__package__ = "pytest"
        path = dressed.__file__ = str(dressed.__spec__ and dressed.__spec__.origin)
    sys.argv[0] = path
    sys.modules["__main__"] = dressed


def main(settings: dict[str, str]) -> int:
    try:
        descriptor = int(settings["FD"])
        os.fstat(descriptor)
    except (KeyError, ValueError, OSError):
        sys.stderr.write("error: witness.py is started by iterctl, which names an open file in ITERCTL_WITNESS_FD\n")
        return 4
    lines = Lines(descriptor)
    _dress(script=settings.get("MODE") == "script")
    args = sys.argv[1:]
    python = ".".join(map(str, sys.version_info[:3]))
    lines.tell("start", pid=os.getpid(), pytest=pytest.__version__, python=python, args=args)
    if _probe is not None:
        _probe.attach(lines, (Lines, Witness))
        args = ["-p", _PROBE, *args]  # in front, so that a worker of xdist has it before any plugin of the project
    code = 1
    try:
        code = int(pytest.main(args, plugins=[Witness(lines, settings.get("MARKER"))]))
        sys.stdout.flush()
    except BrokenPipeError:
        # As pytest does: what is left of the output must not raise again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    lines.tell("exit", code=code, compiled=_compiled())
    return code


if __name__ == "__main__":
    sys.exit(main(_settings))
