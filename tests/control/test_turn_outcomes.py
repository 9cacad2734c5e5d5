"""What each end of an agent's turn leads to."""

from __future__ import annotations

import pytest

from pytest_iterctl.control.events import Decided, Waited
from pytest_iterctl.control.evidence import Outcome, TurnOutcome
from pytest_iterctl.plan import freeze
from tests.control.simulator import ReviewResult, Scripted, SuiteResult, TurnResult, World, a_plan, a_task

FAILED = SuiteResult(Outcome.FAILED, failing=("test_a",))
PASSED = SuiteResult()
LIMITS = freeze.LIMITS["normal"]


def play(*turns: TurnResult, suite: SuiteResult = FAILED) -> World:
    world = World(
        a_plan(a_task("a"), limits=LIMITS),
        Scripted(suites={("a", 0): [FAILED]}, suite_else=suite, turns={("a", 1): list(turns)}),
    )
    world.run()
    return world


def last_decision(world: World) -> Decided:
    return world.events(Decided)[-1]


@pytest.mark.parametrize("outcome", [TurnOutcome.TOOLS_DENIED, TurnOutcome.OUT_OF_BUDGET])
def test_a_turn_that_could_do_nothing_asks_a_person_at_once_and_runs_no_tests(outcome: TurnOutcome) -> None:
    world = play(TurnResult(outcome, changes=False))
    decision = last_decision(world).decision
    assert (decision.action, decision.reason) == ("escalate", "agent-failed")
    assert "changed nothing" in decision.explanation
    assert world.state.task("a").attempts[-1].suite is None


@pytest.mark.parametrize("outcome", [TurnOutcome.TOOLS_DENIED, TurnOutcome.OUT_OF_BUDGET, TurnOutcome.ASKED])
def test_what_such_a_turn_did_change_is_tested_and_may_be_enough(outcome: TurnOutcome) -> None:
    world = play(TurnResult(outcome, question="Really?"), suite=PASSED)
    assert last_decision(world).decision.action == "proceed"


@pytest.mark.parametrize("changes", [True, False])
def test_a_question_of_the_agent_is_put_to_a_person(changes: bool) -> None:
    world = play(TurnResult(TurnOutcome.ASKED, changes=changes, question="Euros or cents?"))
    decision = last_decision(world).decision
    assert (decision.action, decision.reason) == ("escalate", "agent-asked")
    assert decision.question is not None
    assert decision.question.text == "The agent asks: Euros or cents? - What shall it be told?"
    assert [option.effect for option in decision.question.options] == ["continue", "abort"]


def test_nobody_waits_for_an_agent_that_is_not_logged_in() -> None:
    world = play(TurnResult(TurnOutcome.NOT_LOGGED_IN))
    assert last_decision(world).decision.explanation.startswith("the agent is not logged in")
    assert not world.events(Waited)
    assert len(world.state.task("a").attempts[-1].turns) == 1


@pytest.mark.parametrize("seconds", [42.0, 250.0])
def test_a_rate_limit_is_waited_for_as_long_as_it_says(seconds: float) -> None:
    world = play(TurnResult(TurnOutcome.RATE_LIMITED, retry_after=seconds), TurnResult(), suite=PASSED)
    assert [wait.seconds for wait in world.events(Waited)] == [seconds]
    assert last_decision(world).decision.action == "proceed"
    assert world.state.task("a").iterations == 1


def test_a_rate_limit_beyond_what_is_left_is_not_waited_for() -> None:
    world = play(TurnResult(TurnOutcome.RATE_LIMITED, retry_after=3600.0))
    decision = last_decision(world).decision
    assert (decision.action, decision.reason) == ("escalate", "agent-failed")
    assert "rate limited for 1h" in decision.explanation
    assert "max_duration_per_iteration" in decision.explanation
    assert not world.events(Waited)


@pytest.mark.parametrize(
    "outcome", [TurnOutcome.CRASHED, TurnOutcome.NO_NETWORK, TurnOutcome.UNREADABLE, TurnOutcome.TIMED_OUT]
)
def test_what_may_pass_is_tried_again_without_counting_as_an_iteration(outcome: TurnOutcome) -> None:
    world = play(TurnResult(outcome), TurnResult(), suite=PASSED)
    assert last_decision(world).decision.action == "proceed"
    assert world.state.task("a").iterations == 1
    assert len(world.events(Waited)) == 1


def test_only_a_rate_limit_tells_how_long_to_wait() -> None:
    world = play(TurnResult(TurnOutcome.CRASHED, retry_after=250.0), TurnResult(), suite=PASSED)
    (wait,) = world.events(Waited)
    assert 1.0 <= wait.seconds <= 1.25


def reviewed(*reviews: ReviewResult) -> World:
    world = World(
        a_plan(a_task("a", reviewers=1), limits=LIMITS),
        Scripted(suites={("a", 0): [FAILED]}, suite_else=PASSED, reviews={("a", 1): list(reviews)}),
    )
    world.run()
    return world


def test_a_reviewer_that_is_not_logged_in_is_told_at_once() -> None:
    world = reviewed(ReviewResult("failed", TurnResult(TurnOutcome.NOT_LOGGED_IN)))
    assert last_decision(world).decision.explanation.startswith("a reviewer is not logged in")
    assert not world.events(Waited)


def test_a_reviewer_s_rate_limit_beyond_what_is_left_is_not_waited_for() -> None:
    world = reviewed(ReviewResult("failed", TurnResult(TurnOutcome.RATE_LIMITED, retry_after=3600.0)))
    assert "a reviewer is rate limited for 1h" in last_decision(world).decision.explanation
    assert not world.events(Waited)


def test_a_question_that_is_none_is_still_put_to_a_person() -> None:
    world = play(TurnResult(TurnOutcome.ASKED, changes=False))
    assert last_decision(world).decision.reason == "agent-asked"
