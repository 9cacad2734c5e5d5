"""Says what a pytest run came to. Only one of many ends is a pass, and it needs every witness to agree."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass

from pytest_iterctl.control.evidence import Failure, Outcome, SuiteEvidence
from pytest_iterctl.feedback.kept import KeptFailures
from pytest_iterctl.feedback.stack_text import frames_in
from pytest_iterctl.feedback.witness_log import WitnessLog
from pytest_iterctl.text import cut_middle, one_line, strip_escapes

__all__ = ["JUnitCheck", "judge_pytest"]

_MOST_IN_FLIGHT = 10
_DETAIL = 4096
#: Lines that pytest prints at every run: its head, its progress, its summary.
_SUMMARY = re.compile(
    r"^=+ .* =+$|^\d+ \w+.* in [\d.]+s\b|^=+$|^-+$|^--- stderr ---$|^(?:\S+ )?[.sxXFER]+\s*(?:\[ *\d+%\])?$"
    r"|^(?:platform|rootdir:|configfile:|testpaths:|plugins:|cachedir:|collected \d|collecting) ?"
)
_HUNG = re.compile(r"^\S.*:\d+: KeyboardInterrupt$", re.MULTILINE)
_TELLING = re.compile(r"\b(?:FAIL|ERROR|Error|error|failed|exceeded|timeout|Timeout|required|Required)\b|Interrupted:")
_STRESS = re.compile(r"^\W+|\W+$")
_USAGE, _NO_TESTS, _INTERRUPTED, _INTERNAL = 4, 5, 2, 3


@dataclass(frozen=True, slots=True)
class JUnitCheck:
    """What the user's own --junitxml file of the same run says."""

    tests: int = 0
    failed: int = 0
    problem: str = ""  # why it can't be read


@dataclass(frozen=True, slots=True)
class _Run:
    log: WitnessLog
    exit_code: int | None
    ended_by: str
    tail: str
    junit: JUnitCheck | None

    @property
    def code(self) -> int | None:
        """What pytest said in the end; the process may have hidden it."""
        return self.log.exit_line or self.exit_code

    @property
    def moment(self) -> str:
        """When it happened, as the end of a sentence."""
        if self.log.in_flight:
            more = len(self.log.in_flight) - 1
            return f"in {self.log.in_flight[0]}" + (f" or one of {more} more tests" if more else "")
        if self.log.collecting:
            return f"while collecting {self.log.collecting}"
        return "after the last test" if self.log.collection_done else "before the first test"


@dataclass(frozen=True, slots=True)
class _Ruling:
    outcome: Outcome
    reason: str
    failures: tuple[Failure, ...] = ()  # of the session, beside those that the log has
    failing: tuple[str, ...] = ()


def judge_pytest(
    log: WitnessLog,
    *,
    exit_code: int | None,
    ended_by: str,
    seconds: float,
    output_tail: str,
    junit: JUnitCheck | None = None,
) -> SuiteEvidence:
    """The evidence of a run: the first rule that applies names its outcome."""
    run = _Run(log, exit_code, ended_by, strip_escapes(output_tail), junit)
    ruling = next(found for rule in _RULES if (found := rule(run)) is not None)
    uncollected = KeptFailures()
    for error in log.collect_errors:
        uncollected.take(error)
    # What could not be collected hides the rest; the tests' own failures are bounded in the same way.
    failures = (*ruling.failures, *uncollected.listed(), *log.failures)
    ids = (*ruling.failing, *(error.test for error in log.collect_errors), *log.failing)
    return SuiteEvidence(
        outcome=ruling.outcome,
        exit_code=exit_code,
        reason=one_line(ruling.reason, 300),
        counts=log.counts,
        failures=failures,
        failing=tuple(dict.fromkeys(ids)),
        seconds=seconds,
    )


def _ended_from_outside(run: _Run) -> _Ruling | None:
    if run.ended_by == "timeout":
        return _unfinished(Outcome.TIMED_OUT, f"timed out {run.moment}", run)
    if run.ended_by == "stop":
        return _Ruling(Outcome.INTERRUPTED, f"stopped {run.moment}")
    if run.ended_by == "lifeline":
        return _Ruling(Outcome.INTERRUPTED, f"ended {run.moment}, together with the process that started it")
    if run.ended_by == "lost" or run.exit_code is None:
        return _unfinished(Outcome.CRASHED, f"lost {run.moment}: nobody knows how the process ended", run)
    return None


def _never_started(run: _Run) -> _Ruling | None:
    if run.log.started:
        return None
    missing = re.search(r"^.*No module named pytest$", run.tail, re.MULTILINE)
    if missing:
        return _session(Outcome.USAGE_ERROR, f"pytest is not installed: {missing[0]}", run)
    return _session(Outcome.CRASHED, f"pytest did not start: {_end(run)}{_said(run)}", run)


def _broken(run: _Run) -> _Ruling | None:
    """The fall of pytest itself, usually over a plugin or a conftest."""
    error = run.log.internal_error
    if error is not None:
        described = error.model_copy(update={"test": "", "phase": "session"})
        return _Ruling(Outcome.CRASHED, f"internal error {run.moment}: {_first_line(error.message)}", (described,))
    if run.log.exit_line == _INTERNAL and not run.log.collect_errors:
        return _session(Outcome.CRASHED, f"internal error {run.moment}{_said(run)}", run)
    return None


def _killed(run: _Run) -> _Ruling | None:
    if run.exit_code is None or run.exit_code >= 0:
        return None
    if run.exit_code == -signal.SIGINT:
        return _Ruling(Outcome.INTERRUPTED, f"interrupted {run.moment}")
    return _unfinished(Outcome.CRASHED, f"crashed {run.moment}: {_end(run)}", run)


def _ended_silently(run: _Run) -> _Ruling | None:
    """The process ended before pytest could say so: os._exit, pytest-timeout, a crash of the interpreter."""
    if run.log.collect_errors and not run.log.collecting and not run.log.collection_done:
        return None  # a conftest that ended everything before the collection is named as such
    if run.log.exit_line is None:
        timeout = re.search(r"^\++ Timeout \++$", run.tail, re.MULTILINE)
        end = "ended by pytest-timeout" if timeout else f"{_end(run)} without a word from pytest"
        return _unfinished(Outcome.CRASHED, f"crashed {run.moment}: {end}", run)
    if run.log.exit_line == 0 and run.exit_code:
        return _session(Outcome.CRASHED, f"crashed after pytest had ended: {_end(run)}{_said(run)}", run)
    return None


def _interrupted(run: _Run) -> _Ruling | None:
    """Ctrl-C or pytest.exit(), whatever exit code that was given."""
    if run.log.interrupt is None or run.log.interrupt[0] not in {"KeyboardInterrupt", "Exit"}:
        return None
    kind, text = run.log.interrupt
    why = f": {text}" if text else ""
    return _Ruling(Outcome.INTERRUPTED, f"{'pytest.exit()' if kind == 'Exit' else 'interrupted'} {run.moment}{why}")


def _collection(run: _Run) -> _Ruling | None:
    errors = run.log.collect_errors
    if not errors:
        return None
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    reason = f"{errors[0].test} can't be collected{more}: {_summary_of(errors[0])}"
    return _Ruling(Outcome.COLLECTION_ERROR, reason)


def _failing_tests(run: _Run) -> _Ruling | None:
    counts = run.log.counts
    if not run.log.failing:
        return None
    parts = [
        f"{counts.failed} failed" if counts.failed else "",
        f"{counts.errors} with errors" if counts.errors else "",
    ]
    reason = ", ".join([part for part in parts if part] + [f"{counts.passed} passed"])
    if run.code == 0:
        reason += ", though the exit code is 0"
    return _Ruling(Outcome.FAILED, f"{reason}; {run.log.stop}" if run.log.stop else reason)


def _usage(run: _Run) -> _Ruling | None:
    if not run.log.usage_error and run.code != _USAGE:
        return None
    told = run.log.usage_error or _last_error(run.tail)
    error = re.search(r": error: (.+)", told)
    return _session(
        Outcome.USAGE_ERROR, error[1] if error else _first_line(told) or "pytest refused its arguments", run
    )


def _no_tests(run: _Run) -> _Ruling | None:
    log = run.log
    if run.code != _NO_TESTS and (run.code != 0 or log.executed):
        return None
    if not log.finished:
        return _Ruling(Outcome.NO_TESTS, "pytest ended without a test session")
    if log.tests:
        why = f": {log.skip_reason}" if log.skip_reason else ""
        return _Ruling(Outcome.NO_TESTS, f"no test was executed, {len(log.tests)} skipped{why}")
    if log.collected:
        return _Ruling(Outcome.NO_TESTS, f"no test was executed, {len(log.collected)} collected")
    if log.deselected:
        return _Ruling(Outcome.NO_TESTS, f"no test was executed, all {log.deselected} deselected")
    return _Ruling(Outcome.NO_TESTS, f"no tests were found{f': {log.skip_reason}' if log.skip_reason else ''}")


def _stopped_early(run: _Run) -> _Ruling | None:
    if run.code != _INTERRUPTED:
        return None
    text = run.log.interrupt[1] if run.log.interrupt else ""
    return _Ruling(Outcome.INTERRUPTED, f"interrupted: {text or run.log.stop or _telling_line(run.tail)}")


def _gate(run: _Run) -> _Ruling | None:
    """All tests are well and something else is not: a coverage gate, too many warnings, too long a session."""
    if run.code == 0:
        return None
    reason = f"no test failed, but pytest ended with exit code {run.code}{_said(run)}"
    return _session(Outcome.FAILED, reason, run)


def _contradictions(run: _Run) -> _Ruling | None:
    log = run.log
    said = ""
    if not log.finished or log.status != 0 or log.exit_line != 0:
        said = f"the session ended with {log.status}, pytest with {log.exit_line}, the process with {run.exit_code}"
    elif log.missing:
        more = f" and {len(log.missing) - 1} more" if len(log.missing) > 1 else ""
        said = f"no result of {log.missing[0]}{more}"
    elif log.lost or log.unreadable:
        said = f"{log.lost} results are lost, {log.unreadable} lines of the witness can't be read"
    elif run.junit is not None and run.junit.failed:
        said = f"the report disagrees: it has {run.junit.failed} failed tests, the run has none"
    elif run.junit is not None and run.junit.problem:
        said = f"the report that was asked for can't be read: {run.junit.problem}"
    return _session(Outcome.INCOMPLETE, said, run) if said else None


def _passed(run: _Run) -> _Ruling:
    counts = run.log.counts
    named = {"skipped": counts.skipped, "xfailed": counts.xfailed, "xpassed": counts.xpassed}
    extra = [f"{count} {name}" for name, count in named.items() if count]
    return _Ruling(Outcome.PASSED, ", ".join([f"{counts.passed} passed", *extra]))


_RULES: tuple[Callable[[_Run], _Ruling | None], ...] = (
    _ended_from_outside,
    _never_started,
    _broken,
    _killed,
    _ended_silently,
    _interrupted,
    _collection,
    _failing_tests,
    _usage,
    _no_tests,
    _stopped_early,
    _gate,
    _contradictions,
    _passed,
)


def _unfinished(outcome: Outcome, reason: str, run: _Run) -> _Ruling:
    """An end that came in the middle: the tests that were running are the ones to look at."""
    tests = run.log.in_flight or ((run.log.collecting,) if run.log.collecting else ())
    if not tests:
        return _session(outcome, reason, run)
    failures = tuple(
        Failure(test=test, phase="session", where=_place(test, run), message=reason, detail=_tail(run))
        for test in tests[:_MOST_IN_FLIGHT]
    )
    return _Ruling(outcome, reason, failures, tests)


def _session(outcome: Outcome, reason: str, run: _Run) -> _Ruling:
    return _Ruling(outcome, reason, (Failure(test="", phase="session", message=reason, detail=_tail(run)),))


def _tail(run: _Run) -> str:
    return cut_middle(run.tail.strip(), _DETAIL)


def _place(test: str, run: _Run) -> str:
    """Where the test was, if what interrupted it or a dump of the stacks says so."""
    if (hung := _HUNG.search(run.tail)) and (frames := frames_in(hung[0], run.log.root)):
        return f"{frames[-1].path}:{frames[-1].line}"
    path = test.partition("::")[0]
    found = re.search(rf'File "(?:[^"\n]*/)?{re.escape(path)}", line (\d+)', run.tail)
    return f"{path}:{found[1]}" if found else ""


def _end(run: _Run) -> str:
    code = run.exit_code
    if code is None or code >= 0:
        return f"the process ended with exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def _said(run: _Run) -> str:
    line = _telling_line(run.tail)
    return f": {line}" if line else ""


def _telling_line(text: str) -> str:
    """The line of the output that says most about its end."""
    lines = [line for line in map(str.strip, text.splitlines()) if line and not _SUMMARY.match(line)]
    stressed = [
        _STRESS.sub("", line) for line in map(str.strip, text.splitlines()) if re.match(r"^[=!]{3,} .*[=!]{3,}$", line)
    ]
    telling = [line for line in lines if _TELLING.search(line)] or [
        line for line in stressed if _TELLING.search(line) and not re.match(r"^\d+ \w+", line)
    ]
    chosen = telling or lines
    return one_line(chosen[-1], 200) if chosen else ""


def _last_error(text: str) -> str:
    """What follows the last `ERROR:`; argparse's message comes one line later than its usage."""
    start = text.rfind("ERROR:")
    return text[start + len("ERROR:") :].strip() if start >= 0 else _telling_line(text)


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0]


def _summary_of(failure: Failure) -> str:
    """A syntax error's message begins with the file, and ends with what is wrong."""
    lines = [line.strip() for line in failure.message.splitlines() if line.strip()]
    named = [line for line in lines if failure.kind and line.startswith(failure.kind)]
    return (named or lines or [failure.kind])[0]
