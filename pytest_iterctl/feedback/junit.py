"""JUnit XML reports of any tool as evidence: every test once, by its worst result, and never greener than it was."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from pytest_iterctl.control.evidence import Counts, Failure, Outcome
from pytest_iterctl.errors import ReportError
from pytest_iterctl.feedback.junit_cases import (
    BETWEEN,
    Result,
    failures_of,
    identity_of,
    result_of,
    suite_failures,
    test_id,
)
from pytest_iterctl.feedback.xml_cases import ReportedCase, ReportedSuite
from pytest_iterctl.feedback.xml_repair import read_mending
from pytest_iterctl.feedback.xml_source import Repairs, ReportLimits, ReportSource
from pytest_iterctl.feedback.xml_stream import NotWellFormedError, read_strictly

__all__ = ["JUnitReport", "outcome_of", "read_junit", "read_reports"]

#: Failures beyond this keep only their ids: feedback groups by cause, and a thousand show every cause there is.
_DETAILED = 1000
_NOTES = 10


@dataclass(frozen=True, slots=True)
class JUnitReport:
    """What one or several reports say. Errors outside of any case are counted in `counts.errors`, not as tests."""

    counts: Counts
    failures: tuple[Failure, ...]
    failing: tuple[str, ...]
    notes: tuple[str, ...]
    complete: bool
    cases: int
    suite_errors: int
    nameless: int = 0
    unlisted_failures: int = 0


def read_junit(stream: BinaryIO, source: str, limits: ReportLimits | None = None) -> JUnitReport:
    """One report; `ReportError` when it can't be read, and never zero failures instead."""
    tally = _Tally()
    tally.add_report(stream, source, limits or ReportLimits())
    return tally.report()


def read_reports(paths: Sequence[Path], limits: ReportLimits | None = None) -> JUnitReport:
    """Several reports as one: a test that is in more than one of them counts once."""
    if not paths:
        raise ReportError("no test report", hint="name at least one JUnit XML file")
    tally = _Tally()
    for path in paths:
        with _opened(path) as stream:
            tally.add_report(stream, str(path), limits or ReportLimits())
    return tally.report()


def outcome_of(report: JUnitReport, exit_code: int | None) -> tuple[Outcome, str]:
    """How the run ended, and why in one line. Only a complete report without any doubt, and exit code 0, is a pass."""
    counts = report.counts
    wrong = _wrong(report)
    ended = "" if exit_code is None else f"exit code {exit_code}"
    if not report.complete:
        return Outcome.INCOMPLETE, _joined("the report is cut off or damaged", wrong, ended)
    if wrong:
        collecting = any(failure.phase == "collect" for failure in report.failures)
        although = "although the exit code is 0" if exit_code == 0 else ""
        return (Outcome.COLLECTION_ERROR if collecting else Outcome.FAILED), _joined(wrong, although)
    if exit_code is not None and exit_code < 0:
        return Outcome.CRASHED, f"killed by signal {-exit_code} although the report shows no failure"
    if report.nameless:
        return Outcome.INCOMPLETE, _joined("a case without a name: the run was probably interrupted", ended)
    if report.unlisted_failures:
        return Outcome.INCOMPLETE, f"the report declares {_number(report.unlisted_failures, 'failure')} but lists none"
    if counts.tests == counts.skipped:
        nothing = f"all {_number(counts.tests, 'test')} skipped" if counts.tests else "no test ran"
        return Outcome.NO_TESTS, _joined(nothing, ended if exit_code else "")
    if exit_code:
        return Outcome.FAILED, f"exit code {exit_code} although the report shows no failure"
    return Outcome.PASSED, f"{counts.passed} passed" + (f", {counts.skipped} skipped" if counts.skipped else "")


@dataclass(slots=True)
class _Tally:
    """Adds up reports. The worst result of each identity is kept, so that nothing counts twice."""

    results: dict[tuple[object, ...], Result] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    failing: dict[str, None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    complete: bool = True
    cases: int = 0
    repeated: int = 0
    reruns: int = 0
    nameless: int = 0
    suite_errors: int = 0
    declared_failures: int = 0
    differences: list[str] = field(default_factory=list)

    def add_report(self, stream: BinaryIO, name: str, limits: ReportLimits) -> None:
        repairs = Repairs()
        with ReportSource(stream, name, limits, repairs) as source:
            try:
                one = _Tally._of(read_strictly(source), name)
            except NotWellFormedError as error:
                one = _Tally._of(read_mending(source, error), name)
        one.complete = repairs.complete
        one.notes = [f"{name}: {note}" for note in (*repairs.notes, *one.differences[:_NOTES])]
        if len(one.differences) > _NOTES:
            one.notes.append(
                f"{name}: and {len(one.differences) - _NOTES} more suites with other numbers than declared"
            )
        self._merge(one)

    @staticmethod
    def _of(events: Iterable[ReportedCase | ReportedSuite], name: str) -> _Tally:
        tally = _Tally()
        for event in events:
            if isinstance(event, ReportedCase):
                tally._add_case(event, name)
            else:
                tally._add_suite(event)
        return tally

    def _add_case(self, case: ReportedCase, source: str) -> None:
        self.cases += 1
        result, reruns = result_of(case)
        self.reruns += reruns
        identity: tuple[object, ...] = identity_of(case)
        if not identity[-2]:
            # Cases without a name have nothing in common but that.
            if not identity[-3] and result is Result.PASSED:
                self.nameless += 1
                return
            identity = (*identity, source, self.cases)
        self._count(identity, result)
        if not result.is_wrong:
            return
        if len(self.failures) < _DETAILED:
            self._keep(failures_of(case))
        else:
            self.failing[test_id(case)] = None

    def _count(self, identity: tuple[object, ...], result: Result) -> None:
        known = self.results.get(identity)
        if known is None:
            self.results[identity] = result
            return
        self.repeated += 1
        self.results[identity] = max(known, result)

    def _add_suite(self, suite: ReportedSuite) -> None:
        failures = suite_failures(suite)
        self.suite_errors += len(failures)
        self._keep(failures)
        declared = _number_in(suite.attributes.get("tests"))
        if declared is not None and declared not in {suite.direct_cases, suite.all_cases}:
            name = BETWEEN.join(suite.suites)[:200] or "(no name)"
            self.differences.append(f"suite {name} declares {declared} tests and lists {suite.all_cases}")
        wrong = [_number_in(suite.attributes.get(key)) or 0 for key in ("failures", "errors")]
        self.declared_failures = max(self.declared_failures, sum(wrong))

    def _keep(self, failures: Sequence[Failure]) -> None:
        self.failing.update(dict.fromkeys(failure.test for failure in failures))
        self.failures.extend(failures[: max(_DETAILED - len(self.failures), 0)])

    def _merge(self, other: _Tally) -> None:
        for identity, result in other.results.items():
            self._count(identity, result)
        self._keep(other.failures)
        self.failing.update(other.failing)
        self.notes.extend(other.notes)
        self.complete = self.complete and other.complete
        self.cases += other.cases
        self.repeated += other.repeated
        self.reruns += other.reruns
        self.nameless += other.nameless
        self.suite_errors += other.suite_errors
        self.declared_failures = max(self.declared_failures, other.declared_failures)

    def report(self) -> JUnitReport:
        number = Counter(self.results.values())
        counts = Counts(
            tests=len(self.results),
            passed=number[Result.PASSED],
            failed=number[Result.FAILED],
            errors=number[Result.ERROR] + self.suite_errors,
            skipped=number[Result.SKIPPED],
            reruns=self.reruns,
        )
        repeated = f"{_number(self.repeated, 'case')} of tests that are listed more than once: each counts once"
        unlisted = 0 if counts.failed or counts.errors or self.reruns else self.declared_failures
        return JUnitReport(
            counts=counts,
            failures=tuple(self.failures),
            failing=tuple(self.failing),
            notes=(*self.notes, *([repeated] if self.repeated else [])),
            complete=self.complete,
            cases=self.cases,
            suite_errors=self.suite_errors,
            nameless=self.nameless,
            unlisted_failures=unlisted,
        )


def _opened(path: Path) -> BinaryIO:
    hint = "give the path of a JUnit XML report that the test run has written"
    try:
        # Without O_NONBLOCK a named pipe at this path would hold up everything until somebody writes to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ReportError(f"{path}: can't be read: {reason}", hint=hint) from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        what = "is a directory" if stat.S_ISDIR(mode) else "is not a regular file"
        raise ReportError(f"{path}: {what}", hint=hint)
    return os.fdopen(descriptor, "rb")


def _wrong(report: JUnitReport) -> str:
    parts = [
        f"{number} {word}"
        for number, word in (
            (report.counts.failed, "failed"),
            (report.counts.errors, "error" if report.counts.errors == 1 else "errors"),
        )
        if number
    ]
    if parts and report.counts.passed:
        parts.append(f"{report.counts.passed} passed")
    return ", ".join(parts)


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _number(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _number_in(value: str | None) -> int | None:
    text = (value or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None  # noqa: PLR2004 - no real count
