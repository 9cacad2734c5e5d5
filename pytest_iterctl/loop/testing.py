"""The test stage: run the task's tests for real and turn what they left into evidence."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from pytest_iterctl.control.evidence import Outcome, SuiteEvidence
from pytest_iterctl.control.limits import Allowance
from pytest_iterctl.errors import ReportError
from pytest_iterctl.feedback.command_verdict import LeftReports, judge_command
from pytest_iterctl.feedback.junit import read_reports
from pytest_iterctl.feedback.verdict import JUnitCheck, judge_pytest
from pytest_iterctl.feedback.witness_log import WitnessLog, read_witness
from pytest_iterctl.loop.confining import Confinement
from pytest_iterctl.plan.frozen import FrozenTask
from pytest_iterctl.plan.values import format_duration
from pytest_iterctl.text import cut_middle, strip_escapes
from pytest_iterctl.work.command_run import CommandRun, run_test_command
from pytest_iterctl.work.environment import tests_environment
from pytest_iterctl.work.mapping import environment_into_room, into_room, out_of_room
from pytest_iterctl.work.process import Finished, Walls
from pytest_iterctl.work.pytest_run import PytestRun, run_pytest
from pytest_iterctl.work.room import Room

__all__ = ["Bench", "InRoom", "Tested", "command_line_of"]

_OUTPUT_TAIL = 16_384
Tick = Callable[[float], bool]


@dataclass(frozen=True, slots=True)
class Tested:
    """What a test run showed, what it printed, and (for pytest) which tasks its markers declare."""

    suite: SuiteEvidence
    output: str
    stopped: bool
    log: WitnessLog | None = None
    survivors: int = 0
    passed: tuple[str, ...] = ()
    reports: tuple[str, ...] = ()  # files and folders that it was asked to write reports to, absolute

    @property
    def outcomes(self) -> Mapping[str, str]:
        """What became of each test. A report of another tool names only those that passed or failed."""
        if self.log is not None:
            return self.log.tests
        return dict.fromkeys(self.passed, "passed") | dict.fromkeys(self.suite.failing, "failed")

    @property
    def durations(self) -> Mapping[str, float]:
        return self.log.durations if self.log is not None else {}

    @property
    def broken(self) -> tuple[str, ...]:
        """The files that could not be collected."""
        return tuple(error.test for error in self.log.collect_errors) if self.log is not None else ()


@dataclass(frozen=True, slots=True)
class InRoom:
    """A clean room as a place for tests: the work tree that it stands for, and what its processes are given."""

    room: Room
    root: Path
    exam: Path | None = None
    variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        return {
            **environment_into_room(given, self.root, self.room.tree),
            **self.room.variables(),
            **self.variables,
        }

    def suite(self, suite: SuiteEvidence) -> SuiteEvidence:
        """The evidence in terms of the work tree, which is what people and agents know."""
        text = out_of_room(suite.model_dump_json(), self.root, self.room.tree)
        return SuiteEvidence.model_validate_json(text)


@dataclass(frozen=True, slots=True)
class Bench:
    """Where tests run, and as what."""

    run: str
    directory: Path
    private: Path
    as_module: bool
    inside: InRoom | None = None
    confinement: Confinement | None = None

    def test(self, task: FrozenTask, allowance: Allowance, tick: Tick, *, extra: tuple[str, ...] = ()) -> Tested:
        tested = self._command(task, allowance, tick) if task.test else self._pytest(task, allowance, tick, extra)
        if tested.suite.outcome is Outcome.TIMED_OUT:
            tested = replace(tested, suite=_out_of_time(tested.suite, allowance))
        if self.inside is not None:
            shown = out_of_room(tested.output, self.inside.root, self.inside.room.tree)
            return replace(tested, suite=self.inside.suite(tested.suite), output=shown)
        return tested

    def environment(self, task: FrozenTask) -> dict[str, str]:
        given = tests_environment(os.environ, pass_names=task.settings.pass_env)
        return given if self.inside is None else self.inside.environment(given)

    def walls(self, task: FrozenTask) -> Walls | None:
        if self.confinement is None:
            return None
        return self.confinement.around_tests(task.settings, self.inside.room if self.inside is not None else None)

    def _mapped(self, arguments: Iterable[str]) -> tuple[str, ...]:
        if self.inside is None:
            return tuple(arguments)
        return tuple(into_room(argument, self.inside.root, self.inside.room.tree) for argument in arguments)

    def _pytest(self, task: FrozenTask, allowance: Allowance, tick: Tick, extra: tuple[str, ...]) -> Tested:
        request = PytestRun(
            python=task.settings.python or sys.executable,
            arguments=self._mapped((*task.tests, *extra)),
            directory=self.directory,
            as_module=self.as_module,
            run=self.run,
            timeout=allowance.seconds,
            marker=task.marker,
            pass_env=task.settings.pass_env,
            exam=self.inside.exam if self.inside is not None else None,
            variables=self.environment(task) if self.inside is not None else {},
            walls=self.walls(task),
        )
        with run_pytest(request, self.private, tick) as (finished, stream):
            log = read_witness(stream)
        output = _printed(finished)
        if finished.error:
            return Tested(_not_started(finished), output, stopped=False)
        suite = judge_pytest(
            log,
            exit_code=finished.exit_code,
            ended_by=finished.ended_by,
            seconds=finished.seconds,
            output_tail=output[-_OUTPUT_TAIL:],
            junit=self._cross_check(log),
        )
        suite = suite.model_copy(update={"rerun": self._rerun(task, log), "root": self._root(log)})
        passed = tuple(test for test, outcome in log.tests.items() if outcome == "passed")
        return Tested(suite, output, finished.ended_by == "stop", log, finished.survivors, passed, log.reports)

    def _rerun(self, task: FrozenTask, log: WitnessLog) -> str:
        """The task's own command without the files and folders, to which a single test can be added."""
        options = list(task.tests)
        for given in log.positional:
            if given in options:
                options.remove(given)
        return shlex.join(_pytest_words(options, as_module=self.as_module))

    def _root(self, log: WitnessLog) -> str:
        """Where the paths of test ids begin, seen from where the tests run."""
        relative = os.path.relpath(log.root, os.path.realpath(self.directory)) if log.root else "."
        return "" if relative == "." else relative

    def _cross_check(self, log: WitnessLog) -> JUnitCheck | None:
        """The user's own --junitxml file of this run must not say otherwise."""
        if not log.junitxml:
            return None
        try:
            report = read_reports([self.directory / log.junitxml])
        except ReportError as error:
            return JUnitCheck(problem=error.message)
        return JUnitCheck(tests=report.counts.tests, failed=report.counts.failed + report.counts.errors)

    def _command(self, task: FrozenTask, allowance: Allowance, tick: Tick) -> Tested:
        if task.test is None:
            raise ValueError("the task has no test command")
        ran = run_test_command(
            task.test.model_copy(
                update={"command": self._mapped(task.test.command), "junit": self._mapped((task.test.junit,))[0]}
            ),
            directory=self.directory,
            run_id=self.run,
            timeout=allowance.seconds,
            environment=self.environment(task),
            tick=tick,
            walls=self.walls(task),
        )
        output = _printed(ran.finished)
        if ran.finished.error:
            return Tested(_not_started(ran.finished), output, stopped=False)
        left = self._left(task.test.junit, ran)
        suite = judge_command(
            left,
            exit_code=ran.finished.exit_code,
            ended_by=ran.finished.ended_by,
            seconds=ran.finished.seconds,
            output_tail=output[-_OUTPUT_TAIL:],
        )
        passed = left.report.passed if left.report is not None else ()
        stopped = ran.finished.ended_by == "stop"
        reports = tuple(map(str, ran.reports))
        return Tested(suite, output, stopped, survivors=ran.finished.survivors, passed=passed, reports=reports)

    def _left(self, pattern: str, ran: CommandRun) -> LeftReports:
        if not ran.reports:
            return LeftReports(pattern, stale=len(ran.stale))
        try:
            report = read_reports(ran.reports, root=str(self.directory), name_passed=True)
        except ReportError as error:
            return LeftReports(pattern, problem=error.message, stale=len(ran.stale))
        return LeftReports(pattern, report, stale=len(ran.stale))


def _out_of_time(suite: SuiteEvidence, allowance: Allowance) -> SuiteEvidence:
    """Say which bound it was, wherever the end is told."""
    why = f"ended by {allowance.limit}" if allowance.limit else f"no end within {format_duration(allowance.seconds)}"
    reason = f"{suite.reason or 'the tests were ended'} ({why})"
    failures = tuple(
        failure.model_copy(update={"message": reason}) if failure.message == suite.reason else failure
        for failure in suite.failures
    )
    return suite.model_copy(update={"limit": allowance.limit, "reason": reason, "failures": failures})


def _not_started(finished: Finished) -> SuiteEvidence:
    return SuiteEvidence(
        outcome=Outcome.USAGE_ERROR, reason=f"the tests can't be started: {finished.error}", seconds=finished.seconds
    )


def _printed(finished: Finished) -> str:
    parts = [finished.stdout.text]
    if finished.stderr.total:
        parts.append("--- stderr ---\n" + finished.stderr.text)
    return strip_escapes("\n".join(parts))


def command_line_of(task: FrozenTask, *, as_module: bool) -> str:
    """The command as a person would type it, for prompts and reports."""
    if task.test is not None:
        return shlex.join(task.test.command)
    return cut_middle(shlex.join(_pytest_words(task.tests, as_module=as_module)), 1000)


def _pytest_words(arguments: Iterable[str], *, as_module: bool) -> list[str]:
    return [*(["python", "-m"] if as_module else []), "pytest", *arguments]
