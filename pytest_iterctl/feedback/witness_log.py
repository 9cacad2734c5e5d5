"""Reads what the witness wrote about a pytest run, however the run ended; says what is known, judges nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import BinaryIO

from pytest_iterctl.control.evidence import Counts, Failure, Frame, Phase
from pytest_iterctl.feedback.assertions import explain
from pytest_iterctl.feedback.kept import MOST_FAILURES, KeptFailures
from pytest_iterctl.feedback.shortening import beginning, without_half_words
from pytest_iterctl.text import strip_escapes

__all__ = ["MOST_FAILURES", "DeclaredTask", "WitnessLog", "read_witness"]

_LONGEST_LINE = 8 * 1024 * 1024
_MESSAGE = 4096
_DETAIL = 20_000
_OUTPUT = 8192
_FRAMES = 20
_FRAME_TEXT = 300
_PHASES: dict[str, Phase] = {"setup": "setup", "call": "call", "teardown": "teardown"}
_RANK = {"passed": 0, "xpassed": 1, "xfailed": 2, "skipped": 3, "failed": 4, "error": 5}
_ALONE = frozenset((*_RANK, "no-result", "not-run"))

Line = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class DeclaredTask:
    """What one form of the `iterate` marker says, and the tests that carry it."""

    task: str
    prompt: str
    max_iterations: int | str | None  # as text: what the author gave and is no whole number
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WitnessLog:
    """All that is known of a run. A field that the run did not live to see has its empty value."""

    started: bool = False
    python: str = ""
    pytest: str = ""
    root: str = ""  # absolute: where the ids' paths begin
    positional: tuple[str, ...] = ()  # the files, folders and ids that pytest was given
    distributed: bool = False  # over the workers of xdist: the markers that declare tasks are not seen then
    collecting: str = ""  # the module whose import was begun last, while the collection is not done
    collected: tuple[str, ...] = ()
    collection_done: bool = False
    deselected: int = 0
    tests: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))  # outcome by id
    durations: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))  # seconds by id, all phases
    probes: tuple[Mapping[str, object], ...] = ()  # what the probe found, one for each process
    alone: Mapping[str, tuple[str, str]] = field(default_factory=lambda: MappingProxyType({}))  # outcome, text
    interpreter: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    skip_reason: str = ""  # the first one
    failing: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    collect_errors: tuple[Failure, ...] = ()
    tasks: tuple[DeclaredTask, ...] = ()
    in_flight: tuple[str, ...] = ()  # begun and without a result; one, unless tests run side by side
    usage_error: str = ""
    interrupt: tuple[str, str] | None = None  # type of the exception and its text
    internal_error: Failure | None = None
    finished: bool = False
    status: int | None = None  # the exit status as the session saw it
    stop: str = ""  # why the session wanted to stop early
    exit_line: int | None = None  # the exit code that pytest returned in the end
    junitxml: str = ""
    reports: tuple[str, ...] = ()  # files and folders that the run was asked to write reports to, absolute
    compiled: tuple[str, ...] = ()  # where the bytecode of the loaded modules lies
    seed: int | None = None
    counts: Counts = field(default_factory=Counts)
    unreadable: int = 0  # lines that are not the witness's
    lost: int = 0  # tests that the end of the log counts and the log does not have
    cut_off: bool = False  # the last line was not written to its end

    @property
    def executed(self) -> int:
        return sum(outcome != "skipped" for outcome in self.tests.values())

    @property
    def missing(self) -> tuple[str, ...]:
        """Collected tests that have no result."""
        return tuple(test for test in self.collected if test not in self.tests)


def read_witness(stream: BinaryIO) -> WitnessLog:
    """The log, line by line. No content makes it fail: what can't be read is counted."""
    reading = _Reading()
    for raw in _lines(stream):
        if raw is None:
            reading.unreadable += 1
            continue
        try:
            line = json.loads(raw)
        except (ValueError, RecursionError):
            if raw.endswith(b"\n"):
                reading.unreadable += 1
            else:
                reading.cut_off = True
            continue
        reading.take(line)
    return reading.log()


def _lines(stream: BinaryIO) -> Iterator[bytes | None]:
    """Each line with its end; None for one that is too long to be the witness's."""
    while raw := stream.readline(_LONGEST_LINE):
        if len(raw) < _LONGEST_LINE or raw.endswith(b"\n"):
            yield raw
            continue
        while raw and not raw.endswith(b"\n"):
            raw = stream.readline(_LONGEST_LINE)
        yield None


class _Reading:
    """What has been read so far."""

    def __init__(self) -> None:
        self.fields: dict[str, object] = {}
        self.collected: list[str] = []
        self.begun: dict[str, None] = {}
        self.tests: dict[str, str] = {}
        self.durations: dict[str, float] = {}
        self.probes: list[Line] = []
        self.alone: dict[str, tuple[str, str]] = {}
        self.interpreter: dict[str, object] = {}
        self.reruns: Counter[str] = Counter()
        self.results = 0
        self.announced: int | None = None
        self.skip_reason = ""
        self.failures = KeptFailures()
        self.collect_errors: dict[tuple[str, str], Failure] = {}
        self.tasks: list[DeclaredTask] = []
        self.unreadable = 0
        self.cut_off = False
        self.handlers = {
            "start": self.on_start,
            "root": self.on_root,
            "session": self.on_session,
            "interpreter": self.on_interpreter,
            "probe": self.on_probe,
            "alone": self.on_alone,
            "collecting": self.on_collecting,
            "collect-error": self.on_collect_error,
            "collect-skip": self.on_collect_skip,
            "collected": self.on_collected,
            "collection": self.on_collection,
            "task": self.on_task,
            "begin": self.on_begin,
            "test": self.on_test,
            "usage-error": self.on_usage_error,
            "interrupt": self.on_interrupt,
            "internal-error": self.on_internal_error,
            "finish": self.on_finish,
            "exit": self.on_exit,
        }

    def take(self, line: object) -> None:
        if isinstance(line, dict) and (handler := self.handlers.get(_text(line, "type"))) is not None:
            handler(line)
        else:
            self.unreadable += 1

    def on_start(self, line: Line) -> None:
        self.fields.update(started=True, python=_text(line, "python"), pytest=_text(line, "pytest"))

    def on_root(self, line: Line) -> None:
        self.fields["root"] = _text(line, "path")

    def on_session(self, line: Line) -> None:
        self.fields.update(distributed=line.get("distributed") is True, positional=tuple(_texts(line, "positional")))

    def on_interpreter(self, line: Line) -> None:
        self.interpreter = {
            **{name: _text(line, name) for name in ("prefix", "base_prefix", "executable", "inipath")},
            **{name: tuple(_texts(line, name)) for name in ("path", "python_files", "testpaths", "doctest_globs")},
        }

    def on_probe(self, line: Line) -> None:
        self.probes.append(MappingProxyType({name: value for name, value in line.items() if name != "type"}))

    def on_alone(self, line: Line) -> None:
        outcome = _text(line, "outcome")
        if outcome in _ALONE:
            self.alone[_text(line, "id")] = (outcome, strip_escapes(_text(line, "text")))
        else:
            self.unreadable += 1

    def on_collecting(self, line: Line) -> None:
        self.fields["collecting"] = _text(line, "id")

    def on_collect_error(self, line: Line) -> None:
        test = _text(line, "id")
        # The workers of xdist each have the same error.
        self.collect_errors.setdefault((test, _text(line, "message")), _failure(test, line, "collect"))

    def on_collect_skip(self, line: Line) -> None:
        self.skip_reason = self.skip_reason or _text(line, "message")

    def on_collected(self, line: Line) -> None:
        self.collected += _texts(line, "ids")

    def on_collection(self, line: Line) -> None:
        self.fields.update(collection_done=True, collecting="", deselected=_number(line, "deselected") or 0)

    def on_task(self, line: Line) -> None:
        most = line.get("max_iterations")
        declared = _number(line, "max_iterations") if not isinstance(most, str) else _text(line, "max_iterations")
        tests = tuple(_texts(line, "ids"))
        self.tasks.append(DeclaredTask(_text(line, "task"), _text(line, "prompt"), declared, tests))

    def on_begin(self, line: Line) -> None:
        self.begun[_text(line, "id")] = None

    def on_test(self, line: Line) -> None:
        test, outcome = _text(line, "id"), _text(line, "outcome")
        if outcome not in _RANK:
            self.unreadable += 1
            return
        self.results += 1
        # A test that is reported twice counts once, by its worst result.
        self.tests[test] = max(outcome, self.tests.get(test, outcome), key=_RANK.__getitem__)
        self.durations[test] = self.durations.get(test, 0.0) + _seconds(line, "duration")
        self.reruns[test] += _number(line, "reruns") or 0
        if outcome == "skipped":
            self.skip_reason = self.skip_reason or _text(line, "message")
        details = line.get("failures")
        for detail in details if isinstance(details, list) else ():
            if isinstance(detail, dict):
                self.failures.take(_failure(test, detail, _PHASES.get(_text(detail, "phase"), "call")))

    def on_usage_error(self, line: Line) -> None:
        self.fields["usage_error"] = _text(line, "text")

    def on_interrupt(self, line: Line) -> None:
        self.fields["interrupt"] = (_text(line, "kind"), _text(line, "text"))

    def on_internal_error(self, line: Line) -> None:
        self.fields.setdefault("internal_error", _failure("", line, "session"))

    def on_finish(self, line: Line) -> None:
        counts = line.get("counts")
        if isinstance(counts, dict):
            self.announced = sum(_number(counts, str(name)) or 0 for name in counts)
        self.fields.update(
            finished=True,
            status=_number(line, "status"),
            stop=_text(line, "stop"),
            junitxml=_text(line, "junitxml"),
            reports=tuple(_texts(line, "reports")),
            seed=_number(line, "seed"),
        )

    def on_exit(self, line: Line) -> None:
        self.fields.update(exit_line=_number(line, "code"), compiled=tuple(_texts(line, "compiled")))

    def log(self) -> WitnessLog:
        failing = tuple(test for test, outcome in self.tests.items() if outcome in {"failed", "error"})
        lost = max(self.announced - self.results, 0) if self.announced is not None else 0
        return WitnessLog(
            collected=tuple(self.collected),
            tests=MappingProxyType(self.tests),
            durations=MappingProxyType(self.durations),
            probes=tuple(self.probes),
            alone=MappingProxyType(self.alone),
            interpreter=MappingProxyType(self.interpreter),
            skip_reason=self.skip_reason,
            failing=failing,
            failures=self.failures.listed(),
            collect_errors=tuple(self.collect_errors.values()),
            tasks=tuple(self.tasks),
            in_flight=self._in_flight(),
            counts=self._counts(),
            unreadable=self.unreadable,
            lost=lost,
            cut_off=self.cut_off,
            **self.fields,  # type: ignore[arg-type]  # each was read as the type of its field
        )

    def _in_flight(self) -> tuple[str, ...]:
        interrupt = self.fields.get("interrupt")
        amid_a_test = isinstance(interrupt, tuple) and interrupt[0] in {"KeyboardInterrupt", "Exit"}
        if self.fields.get("finished") and not amid_a_test:
            return ()
        if self.begun:
            return tuple(test for test in self.begun if test not in self.tests)
        return tuple(test for test in self.collected if test not in self.tests)[:1]

    def _counts(self) -> Counts:
        outcomes = Counter(self.tests.values())
        broken = len(self.collect_errors)  # as in a JUnit report, where each is a case with an error
        return Counts(
            tests=len(self.tests) + broken,
            passed=outcomes["passed"],
            failed=outcomes["failed"],
            errors=outcomes["error"] + broken,
            skipped=outcomes["skipped"],
            xfailed=outcomes["xfailed"],
            xpassed=outcomes["xpassed"],
            deselected=_whole(self.fields.get("deselected")) or 0,
            reruns=self.reruns.total(),
        )


def _failure(test: str, line: Line, phase: Phase) -> Failure:
    kind, message = _text(line, "kind"), strip_escapes(_text(line, "message"))
    if kind == "AssertionError":
        # pytest takes it away from some explanations and leaves it in front of others: those with a quote in them.
        message = message.removeprefix("AssertionError: ")
    expected, received = explain(kind, message, strip_escapes(_text(line, "source")))
    context = _text(line, "context")
    outputs = line.get("output")
    return Failure(
        test=test,
        phase=phase,
        where=_text(line, "where"),
        kind=kind,
        message=without_half_words(f"{context} {message}" if context else message, _MESSAGE),
        expected=expected,
        received=received,
        detail=without_half_words(strip_escapes(_text(line, "detail")), _DETAIL),
        output=_output(outputs) if isinstance(outputs, dict) else "",
        frames=_frames(line.get("frames")),
        cause=beginning(strip_escapes(_text(line, "cause")), _FRAME_TEXT),
    )


def _frames(told: object) -> tuple[Frame, ...]:
    found: list[Frame] = []
    for frame in told[-_FRAMES:] if isinstance(told, list) else ():
        match frame:
            case [str(path), int(line), str(function), str(source)]:
                texts = (beginning(strip_escapes(_encodable(text)), _FRAME_TEXT) for text in (path, function, source))
                found.append(_frame(*texts, line=_whole(line) or 0))
    return tuple(found)


def _frame(path: str, function: str, source: str, *, line: int) -> Frame:
    return Frame(path=path, line=line, function=function, source=source)


def _output(outputs: Line) -> str:
    parts = [f"--- {name} ---\n{text}" for name in ("stdout", "stderr", "log") if (text := _text(outputs, name))]
    return without_half_words(strip_escapes("\n".join(parts)), _OUTPUT)


def _text(line: Line, key: str) -> str:
    value = line.get(key)
    return _encodable(value) if isinstance(value, str) else ""


def _texts(line: Line, key: str) -> list[str]:
    values = line.get(key)
    return [_encodable(value) for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _encodable(text: str) -> str:
    # Half a surrogate pair is legal in JSON and nowhere else.
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _number(line: Line, key: str) -> int | None:
    return _whole(line.get(key))


def _seconds(line: Line, key: str) -> float:
    value = line.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return 0.0
    return float(value) if 0 <= value < 1 << 53 else 0.0


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 53 else None
