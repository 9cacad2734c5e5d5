"""What follows from what the gate says: told once, then for a person; nothing is accepted against it but by one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_iterctl.control.events import BaseLost, BaseProved, Judged
from pytest_iterctl.control.evidence import Outcome, Proof
from pytest_iterctl.control.steps import CallAgent, CallReviewer, Decide, Judge, ProveBase, PutBack
from tests.control.simulator import FromTape, GateResult, Scripted, SuiteResult, Tape, World, a_plan, a_task

FAILED = SuiteResult(Outcome.FAILED, failing=("test_a",))
RED = {("a", 0): [FAILED]}


def world(*gates: GateResult, reviewers: int = 0, bound: int = 3) -> World:
    task = a_task(reviewers=reviewers)
    task = task.model_copy(update={"settings": task.settings.model_copy(update={"max_iterations": bound})})
    script = {("a", number): [gate] for number, gate in enumerate(gates, 1)}
    made = World(a_plan(task), Scripted(suites=RED, gates=script))
    made.run()
    return made


def reasons(made: World) -> list[str]:
    return [decision.reason for _, decision in made.decided]


def test_a_base_is_proved_before_any_agent_is_called() -> None:
    made = World(a_plan(a_task()), Scripted(suites=RED))
    made.run(CallAgent)
    assert made.state.task("a").proof is not None
    kinds = [type(step) for _, step in made.asked]
    assert kinds.index(ProveBase) < kinds.index(CallAgent)


def test_what_the_gate_accepts_proceeds() -> None:
    made = world(GateResult("accepted"))
    assert (reasons(made), made.state.task("a").status) == (["tests-failed", "passed"], "proceed")


def test_gaps_are_told_once_and_the_second_time_they_are_for_a_person() -> None:
    made = world(GateResult("gaps"), GateResult("gaps"))
    assert reasons(made) == ["tests-failed", "integrity", "integrity"]
    assert [decision.action for _, decision in made.decided] == ["retry", "retry", "escalate"]
    assert "told once and done again" in made.decided[-1][1].explanation


def test_gaps_that_are_mended_are_forgotten() -> None:
    made = world(GateResult("gaps"), GateResult("accepted"))
    assert made.state.task("a").status == "proceed"


def test_an_incident_is_for_a_person_at_once() -> None:
    made = world(GateResult("incident"))
    assert reasons(made)[-1] == "integrity"
    question = made.decided[-1][1].question
    assert question is not None
    assert [option.effect for option in question.options] == ["continue", "approve", "abort"]


def test_what_is_red_in_the_room_for_an_ordinary_reason_is_retried() -> None:
    made = world(GateResult("failed"), GateResult("failed"), GateResult("accepted"))
    assert reasons(made) == ["tests-failed", "tests-failed", "tests-failed", "passed"]


def test_an_incident_may_be_accepted_by_a_person_and_a_red_room_may_not() -> None:
    made = world(GateResult("incident"))
    made.answer("a", "approve")
    made.run()
    assert made.state.task("a").status == "proceed"
    red = world(GateResult("failed"), bound=1)
    red.answer("a", "approve")
    red.run()
    assert red.state.task("a").status != "proceed"


def test_after_an_answer_gaps_are_told_once_again() -> None:
    made = world(GateResult("gaps"), GateResult("gaps"), GateResult("gaps"), GateResult("accepted"))
    made.answer("a", "continue")
    made.run()
    assert reasons(made)[-2:] == ["integrity", "passed"]
    assert made.state.task("a").status == "proceed"


def test_what_somebody_must_look_at_goes_to_the_reviewer_or_to_a_person() -> None:
    asked = world(GateResult("accepted", ask="hard-coded answers"))
    assert reasons(asked)[-1] == "review-pending"
    reviewed = world(GateResult("accepted", ask="hard-coded answers"), reviewers=1)
    assert reviewed.state.task("a").status == "proceed"
    assert any(isinstance(step, CallReviewer) for _, step in reviewed.asked)


def test_no_reviewer_is_asked_about_what_the_gate_does_not_accept() -> None:
    made = world(GateResult("gaps"), GateResult("incident"), reviewers=1)
    assert not any(isinstance(step, CallReviewer) for _, step in made.asked)


def test_a_room_that_is_not_proved_ends_the_task_before_any_agent() -> None:
    made = World(a_plan(a_task()), Scripted(suites=RED))
    made.run(ProveBase)
    made.record(BaseProved(task="a", proof=Proof(manifest="m", problem="the clean room lacks something")))
    made.run()
    task = made.state.task("a")
    assert (task.status, task.iterations) == ("aborted", 0)
    assert made.decided[-1][1].explanation == "the clean room lacks something"
    assert not any(isinstance(step, CallAgent) for _, step in made.asked)


def test_a_base_that_is_lost_is_proved_again_before_anything_else() -> None:
    made = World(a_plan(a_task()), Scripted(suites=RED))
    made.run(CallAgent)
    made.record(BaseLost(task="a", edited=("tests/test_a.py",)))
    assert isinstance(made.next(), ProveBase)
    assert made.state.task("a").edited == ("tests/test_a.py",)


def test_a_green_baseline_needs_the_rooms_word() -> None:
    made = World(a_plan(a_task()), Scripted())
    made.run()
    kinds = [type(step) for _, step in made.asked]
    assert kinds.index(ProveBase) < kinds.index(Judge) < kinds.index(Decide)
    assert made.state.task("a").status == "proceed"


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 11), min_size=1, max_size=40))
def test_nothing_proceeds_against_the_gate(numbers: list[int]) -> None:
    made = World(a_plan(a_task(reviewers=1)), FromTape(Tape(numbers), stops=False))
    made.run()
    task = made.state.task("a")
    if task.status != "proceed":
        return
    verdicts = [event.gate.verdict for event in made.events(Judged) if event.iteration == task.attempts[-1].iteration]
    assert verdicts == ["accepted"]


@pytest.mark.parametrize("verdict", ["gaps", "incident"])
def test_the_best_attempt_is_not_one_that_the_gate_objects_to(verdict: str) -> None:
    from pytest_iterctl.control.standing import best_attempt

    made = world(GateResult(verdict), GateResult(verdict))  # type: ignore[arg-type]  # one of the verdicts
    best = best_attempt(made.state.task("a"))
    assert best is not None
    assert best.iteration == 0


def test_protected_edits_are_undone_before_the_next_turn() -> None:
    made = world(GateResult("gaps", left_out=True), GateResult("accepted"))
    kinds = [type(step) for _, step in made.asked]
    undone = kinds.index(PutBack)
    assert kinds.count(PutBack) == 1
    assert CallAgent in kinds[:undone]
    assert CallAgent in kinds[undone:]
    assert made.state.task("a").status == "proceed"
