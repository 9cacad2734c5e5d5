"""A run with a long history, made up: as many failed iterations as asked for, the last one still to be decided."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pytest_iterctl.control.decision import Situation, decide
from pytest_iterctl.control.events import (
    BaseProved,
    Decided,
    Event,
    Judged,
    RunStarted,
    SnapshotTaken,
    StageStarted,
    SuiteFinished,
    TaskStarted,
    TurnFinished,
)
from pytest_iterctl.control.evidence import (
    Change,
    Counts,
    Failure,
    GateEvidence,
    Outcome,
    Proof,
    SuiteEvidence,
    TurnEvidence,
    TurnOutcome,
)
from pytest_iterctl.feedback.compose import compact
from pytest_iterctl.plan.frozen import FrozenPlan, FrozenTask, NamedAgent, Settings
from pytest_iterctl.plan.model import Agent, Limits, Patience

__all__ = ["RUN", "TASK", "events", "snapshot_taken", "suite_finished"]

RUN, TASK = "BENCHMARK0", "long"
#: What is made up here is always the same, and is to go on all the same.
ENDLESS = Patience(no_change=0, same_diff=0, same_failures=0, alternating=0, no_progress=0)
_FAILING = 5
_LIMITS = Limits(
    level="permissive",
    max_cost_per_iteration=1e6,
    max_total_cost=1e6,
    max_duration_per_iteration=1e6,
    max_total_duration=1e6,
    max_calls_per_iteration=10_000,
)


def events(size: int) -> Iterator[Event]:
    """The baseline and `size` iterations, in the order in which the loop writes them."""
    yield RunStarted(
        run=RUN, version="0", plan=_plan(size), root="/r", git_dir="/r/.git", head=_object(0), directory="."
    )
    yield TaskStarted(task=TASK, base=_object(0), tree=_object(0))
    for iteration in range(size + 1):
        if iteration:
            yield _decided(iteration - 1)
            yield from _generated(iteration)
        yield StageStarted(task=TASK, iteration=iteration, stage="test", before=_object(iteration))
        yield suite_finished(iteration)
        yield snapshot_taken(iteration, "test")
        if iteration:
            yield Judged(task=TASK, iteration=iteration, gate=GateEvidence(verdict="not-green"))
        else:
            yield BaseProved(task=TASK, proof=Proof(manifest=_object(0)))


def suite_finished(iteration: int) -> SuiteFinished:
    """Some of nine tests fail, other ones each time."""
    failing = tuple(f"tests/test_area.py::test_number_{(iteration + number) % 9}" for number in range(_FAILING))
    failures = tuple(
        Failure(
            test=test,
            where=f"area/work.py:{number + 10}",
            kind="AssertionError",
            message=f"assert {iteration} == {number}\n +  where {iteration} = work({number})",
            expected=str(number),
            received=str(iteration),
            detail="    def test_number():\n>       assert work() == 1\nE       assert 2 == 1\n" * 8,
        )
        for number, test in enumerate(failing)
    )
    suite = SuiteEvidence(
        outcome=Outcome.FAILED,
        exit_code=1,
        counts=Counts(tests=200, passed=200 - _FAILING, failed=_FAILING),
        failures=failures,
        failing=failing,
        seconds=0.5,
    )
    return SuiteFinished(task=TASK, iteration=iteration, suite=suite)


def snapshot_taken(iteration: int, stage: Literal["generate", "test"]) -> SnapshotTaken:
    change = Change(files=("area/work.py",), file_count=1, added=3, deleted=2)
    name = _object(iteration)
    return SnapshotTaken(task=TASK, iteration=iteration, stage=stage, commit=name, tree=name, change=change)


def _generated(iteration: int) -> Iterator[Event]:
    yield StageStarted(task=TASK, iteration=iteration, stage="generate", agent="coder", before=_object(iteration - 1))
    turn = TurnEvidence(agent="coder", outcome=TurnOutcome.DONE, exit_code=0, seconds=0.5, cost_usd=0.01, tokens=4000)
    yield TurnFinished(task=TASK, iteration=iteration, turn=turn)
    yield snapshot_taken(iteration, "generate")


def _decided(iteration: int) -> Decided:
    feedback = compact(suite_finished(iteration).suite, (), 500)
    retry = Situation(TASK, iteration, iteration + 1, tests="fail", review="approve", feedback=feedback)
    return Decided(task=TASK, iteration=iteration, decision=decide(retry))


def _plan(size: int) -> FrozenPlan:
    agent = NamedAgent(name="coder", spec=Agent(command=("coder",)))
    task = FrozenTask(
        id=TASK, tests=("tests",), agent=agent, settings=Settings(max_iterations=2 * size, patience=ENDLESS)
    )
    return FrozenPlan(limits=_LIMITS, tasks=(task,))


def _object(number: int) -> str:
    return f"{number:040x}"
