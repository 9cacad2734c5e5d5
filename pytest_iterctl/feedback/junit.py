"""JUnit XML reports of any tool as evidence: every test once, by its worst result, and never greener than it was."""

from __future__ import annotations

import os
import stat
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from pytest_iterctl.control.evidence import Counts, Failure, Outcome
from pytest_iterctl.control.signature import anchor, coarse, is_import_error
from pytest_iterctl.errors import ReportError
from pytest_iterctl.feedback.case_names import BETWEEN, PlainIds, id_of, identities_of, identity_of
from pytest_iterctl.feedback.junit_cases import (
    WRONG,
    Result,
    appearance,
    appearance_of,
    failures_of,
    is_todo,
    result_of,
    suite_failures,
)
from pytest_iterctl.feedback.kept import KeptFailures
from pytest_iterctl.feedback.xml_cases import BareCases, FailedCases, ReportedCase, ReportedSuite, ReportEvent
from pytest_iterctl.feedback.xml_repair import read_mending
from pytest_iterctl.feedback.xml_source import Repairs, ReportLimits, ReportSource
from pytest_iterctl.feedback.xml_stream import NotWellFormedError, read_strictly
from pytest_iterctl.text import one_line

__all__ = ["JUnitReport", "outcome_of", "read_junit", "read_reports"]

#: Of what looks the same from afar, so many are described before the next ones are taken to have the same cause: the
#: larger number where looks alone may deceive.
_ENOUGH, _MANY = 10, 200
_LOOKS = 2000
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
    passed: tuple[str, ...] = ()


def read_junit(stream: BinaryIO, source: str, limits: ReportLimits | None = None, *, root: str = "") -> JUnitReport:
    """One report; `ReportError` when it can't be read, and never zero failures instead."""
    tally = _Tally(root)
    tally.add_report(stream, source, limits or ReportLimits())
    return tally.report()


def read_reports(
    paths: Sequence[Path],
    limits: ReportLimits | None = None,
    *,
    stdin: BinaryIO | None = None,
    root: str = "",
    name_passed: bool = False,
) -> JUnitReport:
    """Several reports as one: a test that is in more than one of them counts once.

    The path `-` is standard input, if that is given. Places below `root` are told relative to it. The tests that passed
    are named only if asked for, because that takes time.
    """
    if not paths:
        raise ReportError("no test report", hint="name at least one JUnit XML file")
    tally = _Tally(root, passed={} if name_passed else None)
    for path in paths:
        if stdin is not None and str(path) == "-":
            tally.add_report(stdin, "<stdin>", limits or ReportLimits())
            continue
        with _opened(path) as stream:
            tally.add_report(stream, str(path), limits or ReportLimits())
    return tally.report()


def outcome_of(report: JUnitReport, exit_code: int | None) -> tuple[Outcome, str]:
    """How the run ended, and why in one line. Only a complete report without any doubt, and exit code 0, is a pass."""
    counts = report.counts
    wrong = _wrong(report)
    ended = (
        "" if exit_code is None else f"exit code {exit_code}" if exit_code >= 0 else f"killed by signal {-exit_code}"
    )
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
class _Look:
    """Failures that nobody can tell apart from afar, and the causes that they turned out to have."""

    described: int = 0
    causes: tuple[str, ...] = ()
    agree: bool = True
    is_clear: bool = True
    is_known: bool = False

    def add(self, failures: Sequence[Failure]) -> None:
        causes = tuple(map(coarse, failures))
        self.agree = self.agree and self.causes in {(), causes}
        # Numbers are no part of a look, but a line's or a module's may be all that tells two causes apart.
        self.is_clear = self.is_clear and all(
            (frame := anchor(failure)) is not None and frame.source and not is_import_error(failure)
            for failure in failures
        )
        self.described += 1
        self.causes = causes
        self.is_known = self.described >= (_ENOUGH if self.agree and self.is_clear else _MANY)


@dataclass(slots=True)
class _Tally:
    """Adds up reports. Each identity is kept once, and of those that did not pass the worst result."""

    root: str = ""
    passed: dict[str, None] | None = None
    seen: dict[tuple[str, ...], set[int]] = field(default_factory=dict)
    not_passed: dict[tuple[tuple[str, ...], int], Result] = field(default_factory=dict)
    kept: KeptFailures = field(default_factory=KeptFailures)
    named: defaultdict[str, dict[str, None]] = field(
        default_factory=lambda: defaultdict(dict)
    )  # tests by their known cause
    failing: dict[str, None] = field(default_factory=dict)
    looks: dict[bytes, _Look] = field(default_factory=dict)
    ids: PlainIds = field(init=False)
    notes: list[str] = field(default_factory=list)
    complete: bool = True
    cases: int = 0
    reruns: int = 0
    todo: int = 0
    nameless: int = 0
    suite_errors: int = 0
    declared_failures: int = 0
    differences: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ids = PlainIds(self.root)

    def add_report(self, stream: BinaryIO, name: str, limits: ReportLimits) -> None:
        repairs = Repairs()
        with ReportSource(stream, name, limits, repairs) as source:
            try:
                one = self._of(read_strictly(source), name)
            except NotWellFormedError as error:
                one = self._of(read_mending(source, error), name)
        one.complete = repairs.complete
        one.notes = [f"{name}: {note}" for note in (*repairs.notes, *one.differences[:_NOTES])]
        if len(one.differences) > _NOTES:
            one.notes.append(
                f"{name}: and {len(one.differences) - _NOTES} more suites with other numbers than declared"
            )
        self._merge(one)

    def _of(self, events: Iterable[ReportEvent], name: str) -> _Tally:
        tally = _Tally(self.root, passed=None if self.passed is None else {})
        for event in events:
            if isinstance(event, BareCases):
                tally._add_bare_cases(event, name)
            elif isinstance(event, FailedCases):
                tally._add_failed_cases(event, name)
            elif isinstance(event, ReportedCase):
                tally._add_case(event, name)
            else:
                tally._add_suite(event)
        return tally

    def _add_bare_cases(self, bare: BareCases, source: str) -> None:
        """Cases that hold nothing have passed, unless an attribute says otherwise. By far the most are like this."""
        if (identities := identities_of(bare)) is not None:
            self.cases += len(bare.attributes)
            self.seen.setdefault(bare.suites, set()).update(identities)
            if self.passed is not None:
                ids, suites = self.ids.of, bare.suites
                self.passed.update({ids(attributes, suites): None for attributes in bare.attributes})
            return
        for attributes in bare.attributes:
            self._add_case(bare.as_case(attributes), source)

    def _add_failed_cases(self, failed: FailedCases, source: str) -> None:
        """Of a case that looks like many before it, only the id is taken."""
        suites, looks, ids = failed.suites, self.looks, self.ids.of
        seen, not_passed = self.seen.setdefault(suites, set()), self.not_passed
        for case in failed.cases:
            attributes, tag, result, text = case
            look = looks.get(appearance(tag, result, text))
            if look is None or not look.is_known or not attributes.get("name") or not attributes.get("classname"):
                self._add_case(failed.as_case(case), source)
                continue
            self.cases += 1
            identity = identity_of(attributes)
            seen.add(identity)
            not_passed[suites, identity] = max(WRONG[tag], not_passed.get((suites, identity), Result.FAILED))
            self._add_name(ids(attributes, suites), look)

    def _add_name(self, test: str, look: _Look) -> None:
        self.failing[test] = None
        if look.agree:
            for cause in look.causes:
                self.named[cause][test] = None

    def _add_case(self, case: ReportedCase, source: str) -> None:
        self.cases += 1
        result, reruns = result_of(case)
        self.reruns += reruns
        self.todo += result is Result.SKIPPED and is_todo(case)
        attributes = case.element.attrib
        identity = identity_of(attributes)
        if not attributes.get("name"):
            # Cases without a name have nothing in common but that.
            if not attributes.get("classname") and result is Result.PASSED:
                self.nameless += 1
                return
            identity = hash((identity, source, self.cases))
        self._count(case.suites, identity, result)
        if self.passed is not None and result is Result.PASSED:
            self.passed[id_of(case, self.root)] = None
        if not result.is_wrong:
            return
        self._tell(case)

    def _tell(self, case: ReportedCase) -> None:
        """Describing takes long, so of a flood of one cause nearly all are known by their ids only."""
        look = self._look(appearance_of(case))
        if look is not None and not look.is_known:
            failures = failures_of(case, self.root)
            look.add(failures)
            self._keep(failures)
            return
        self._add_name(id_of(case, self.root), look or _Look())

    def _look(self, appearance: bytes) -> _Look | None:
        """None where so many looks are known that another one would not be told anyway."""
        look = self.looks.get(appearance)
        if look is None and len(self.looks) < _LOOKS:
            look = self.looks[appearance] = _Look()
        return look

    def _count(self, suites: tuple[str, ...], identity: int, result: Result) -> None:
        self.seen.setdefault(suites, set()).add(identity)
        if result is not Result.PASSED:
            known = self.not_passed.get((suites, identity), result)
            self.not_passed[suites, identity] = max(result, known)

    def _add_suite(self, suite: ReportedSuite) -> None:
        failures = suite_failures(suite, self.root)
        self.suite_errors += len(failures)
        self._keep(failures)
        name = one_line(BETWEEN.join(suite.suites) or suite.attributes.get("name", ""), 200) or "(no name)"
        tests = _number_in(suite.attributes.get("tests"))
        if tests is not None and tests not in {suite.direct_cases, suite.all_cases}:
            self.differences.append(f"suite {name} declares {tests} tests and lists {suite.all_cases}")
        declared = [_number_in(suite.attributes.get(key)) for key in ("failures", "errors")]
        wrong = sum(number or 0 for number in declared)
        if None not in declared and wrong not in {suite.direct_wrong, suite.all_wrong}:
            self.differences.append(f"suite {name} declares {wrong} failures and errors and lists {suite.all_wrong}")
        self.declared_failures = max(self.declared_failures, wrong)

    def _keep(self, failures: Sequence[Failure]) -> None:
        self.failing.update(dict.fromkeys(failure.test for failure in failures))
        for failure in failures:
            self.kept.take(failure)

    def _merge(self, other: _Tally) -> None:
        for suites, identities in other.seen.items():
            known = self.seen.setdefault(suites, identities)
            known |= identities
        if self.not_passed:
            for (suites, identity), result in other.not_passed.items():
                self._count(suites, identity, result)
        else:
            self.not_passed = other.not_passed
        for failure in other.kept.listed():
            self._keep([failure.model_copy(update={"also": ()})])
            self.named[coarse(failure)].update(dict.fromkeys(failure.also))
        for cause, tests in other.named.items():
            self.named[cause].update(tests)
        self.failing.update(other.failing)
        if self.passed is not None and other.passed is not None:
            self.passed.update(other.passed)
        self.notes.extend(other.notes)
        self.complete = self.complete and other.complete
        self.cases += other.cases
        self.reruns += other.reruns
        self.todo += other.todo
        self.nameless += other.nameless
        self.suite_errors += other.suite_errors
        self.declared_failures = max(self.declared_failures, other.declared_failures)

    def _listed(self) -> tuple[Failure, ...]:
        """With the tests that were only named, at the first failure of their cause; who shows them sorts them."""
        named = dict(self.named)
        listed: list[Failure] = []
        for failure in self.kept.listed():
            also = (*failure.also, *named.pop(coarse(failure), ()))
            listed.append(failure.model_copy(update={"also": also}) if also else failure)
        return tuple(listed)

    def report(self) -> JUnitReport:
        number = Counter(self.not_passed.values())
        tests = sum(map(len, self.seen.values()))
        counts = Counts(
            tests=tests,
            passed=tests - len(self.not_passed),
            failed=number[Result.FAILED],
            errors=number[Result.ERROR] + self.suite_errors,
            skipped=number[Result.SKIPPED],
            reruns=self.reruns,
        )
        times = self.cases - self.nameless - tests
        repeated = f"{_number(times, 'case')} of tests that are listed more than once: each counts once"
        of_them = "it" if self.todo == 1 else "them"
        todo = f"{_number(self.todo, 'test')} marked as todo: counted as skipped, whatever came of {of_them}"
        unlisted = 0 if counts.failed or counts.errors or self.reruns else self.declared_failures
        return JUnitReport(
            counts=counts,
            failures=self._listed(),
            failing=tuple(self.failing),
            notes=(*self.notes, *([repeated] if times else []), *([todo] if self.todo else [])),
            complete=self.complete,
            cases=self.cases,
            suite_errors=self.suite_errors,
            nameless=self.nameless,
            unlisted_failures=unlisted,
            passed=tuple(test for test in self.passed or () if test not in self.failing),
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
        if stat.S_ISDIR(mode):
            raise ReportError(f"{path}: is a directory", hint=f"name its reports, as in '{path}/**/*.xml'")
        raise ReportError(f"{path}: is not a regular file", hint="give - to read a report from standard input")
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
