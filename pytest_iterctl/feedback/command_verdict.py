"""The verdict of a test command of any language: its exit code, and the reports that it left, must agree on a pass."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from pytest_iterctl.control.evidence import Counts, Failure, Outcome, SuiteEvidence
from pytest_iterctl.feedback.junit import JUnitReport, outcome_of
from pytest_iterctl.text import one_line, strip_escapes

__all__ = ["LeftReports", "judge_command"]

_REASON = 300
_TAIL = 2000
#: What a shell makes of a signal: 128 and its number.
_SHELL = 128
_OF_A_FAULT = {
    signal.SIGABRT,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGKILL,
    signal.SIGSEGV,
    signal.SIGSYS,
}


@dataclass(frozen=True, slots=True)
class LeftReports:
    """What a test command left: its reports as one, or why there is none, and how many older files were passed over."""

    pattern: str
    report: JUnitReport | None = None
    problem: str = ""
    stale: int = 0


def judge_command(
    left: LeftReports, *, exit_code: int | None, ended_by: str, seconds: float, output_tail: str
) -> SuiteEvidence:
    """The evidence of a run. Whatever the reports show is told, also when the run came to no good end."""
    outcome, reason = _ended_from_outside(ended_by, exit_code) or _by_reports(left, exit_code)
    reason = one_line(f"{reason}{_passed_over(left)}", _REASON)
    report = left.report
    failures = report.failures if report is not None else ()
    if outcome is not Outcome.PASSED and not failures:
        # Nothing but what the command printed can tell why.
        tail = strip_escapes(output_tail)[-_TAIL:].strip()
        failures = (Failure(test="", phase="session", message=reason, output=tail),)
    return SuiteEvidence(
        outcome=outcome,
        exit_code=exit_code,
        reason=reason,
        counts=report.counts if report is not None else Counts(),
        failures=failures,
        failing=report.failing if report is not None else (),
        seconds=seconds,
    )


def _ended_from_outside(ended_by: str, exit_code: int | None) -> tuple[Outcome, str] | None:
    if ended_by == "timeout":
        return Outcome.TIMED_OUT, "the test command was ended"
    if ended_by == "stop":
        return Outcome.INTERRUPTED, "the test command was stopped"
    if ended_by == "lifeline":
        return Outcome.INTERRUPTED, "the test command was ended together with the process that started it"
    if ended_by == "lost" or exit_code is None:
        return Outcome.CRASHED, "nobody knows how the test command ended"
    return None


def _by_reports(left: LeftReports, exit_code: int | None) -> tuple[Outcome, str]:
    if left.report is not None:
        return outcome_of(left.report, exit_code)
    if left.problem:
        return Outcome.NO_REPORT, f"{left.problem} ({_end(exit_code)})"
    none = f"left no report that matches {left.pattern}"
    if exit_code is not None and exit_code < 0:
        return Outcome.CRASHED, f"the test command {none}: it was {_end(exit_code)}"
    return Outcome.NO_REPORT, f"the test command {none} ({_end(exit_code)})"


def _end(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"killed by signal {-exit_code}"
    if exit_code is not None and exit_code - _SHELL in _OF_A_FAULT:
        return f"exit code {exit_code}, as after signal {exit_code - _SHELL}"
    return f"exit code {exit_code}"


def _passed_over(left: LeftReports) -> str:
    if not left.stale:
        return ""
    if left.stale == 1:
        return "; 1 older report was left as it was and does not count"
    return f"; {left.stale} older reports were left as they were and do not count"
