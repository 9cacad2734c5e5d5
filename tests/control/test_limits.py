"""Safety limits: the arithmetic at its edges, and what it makes of whole runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.control.events import StageStarted, TurnFinished, Waited
from pytest_iterctl.control.evidence import Outcome, TurnOutcome
from pytest_iterctl.control.limits import Spent, allowance, exceeded, exhausted, out_of_time
from pytest_iterctl.control.standing import backoff, spent
from pytest_iterctl.control.steps import CallAgent, CallReviewer, RunTests, Wait
from pytest_iterctl.plan.frozen import Settings
from pytest_iterctl.plan.model import Limits
from tests.control.simulator import GENEROUS, ReviewResult, Scripted, SuiteResult, TurnResult, World, a_plan, a_task

FAILED = SuiteResult(Outcome.FAILED, failing=("test_a",))
LIMITS = Limits(
    level="normal",
    max_cost_per_iteration=5.0,
    max_total_cost=20.0,
    max_duration_per_iteration=300.0,
    max_total_duration=1800.0,
    max_calls_per_iteration=500,
)
money = st.floats(0, 100, allow_nan=False)
spendings = st.builds(
    Spent,
    total_cost=money,
    total_seconds=st.floats(0, 4000),
    iteration_cost=money,
    iteration_seconds=st.floats(0, 600),
    iteration_calls=st.integers(0, 1000),
)


def limits(**changed: float) -> Limits:
    return GENEROUS.model_copy(update=changed)


@pytest.mark.parametrize(
    ("used", "over", "nothing_left", "run_wide"),
    [
        (Spent(total_cost=20.0), "", "max_total_cost", True),
        (Spent(total_cost=20.01), "max_total_cost", "max_total_cost", True),
        (Spent(iteration_cost=5.0), "", "max_cost_per_iteration", False),
        (Spent(iteration_cost=5.01), "max_cost_per_iteration", "max_cost_per_iteration", False),
        (Spent(total_seconds=1799.9), "", "", True),
        (Spent(total_seconds=1800.0), "max_total_duration", "max_total_duration", True),
        (Spent(iteration_seconds=299.9), "", "", False),
        (Spent(iteration_seconds=300.0), "max_duration_per_iteration", "max_duration_per_iteration", False),
        (Spent(iteration_calls=500), "", "max_calls_per_iteration", False),
        (Spent(iteration_calls=501), "max_calls_per_iteration", "max_calls_per_iteration", False),
        (Spent(calls_of_unknown_cost=9), "", "", False),
    ],
)
def test_each_limit_is_reached_where_it_says(used: Spent, over: str, nothing_left: str, run_wide: bool) -> None:
    overstepped, used_up = exceeded(LIMITS, used), exhausted(LIMITS, used, new_iteration=False)
    assert (overstepped.name if overstepped else "") == over
    assert (used_up.name if used_up else "") == nothing_left
    for reached in (overstepped, used_up):
        assert reached is None or reached.run_wide == run_wide
        assert reached is None or reached.name in reached.text


@given(spendings)
def test_what_is_overstepped_leaves_nothing_and_a_new_iteration_knows_only_the_runs_own_limits(used: Spent) -> None:
    if exceeded(LIMITS, used):
        assert exhausted(LIMITS, used, new_iteration=False)
    if out_of_time(LIMITS, used):
        assert exceeded(LIMITS, used)
    fresh = exhausted(LIMITS, used, new_iteration=True)
    assert fresh is None or fresh.run_wide


@given(spendings, st.floats(0.1, 1e4), st.booleans())
def test_a_call_may_take_the_tightest_of_its_timeout_and_what_is_left(
    used: Spent, timeout: float, in_iteration: bool
) -> None:
    allowed = allowance(LIMITS, used, timeout, in_iteration=in_iteration)
    left = {"max_total_duration": 1800.0 - used.total_seconds, "": timeout}
    if in_iteration:
        left["max_duration_per_iteration"] = 300.0 - used.iteration_seconds
    assert allowed.seconds == max(min(left.values()), 0.0)
    assert left[allowed.limit] == min(left.values())


@given(st.sampled_from(("none", "linear", "exponential")), st.floats(0.01, 1e6), st.integers(1, 10_000), st.text())
def test_waits_grow_and_end_at_a_minute_or_what_was_asked_for(
    kind: str, first: float, failures: int, seed: str
) -> None:
    settings = Settings.model_validate({"backoff": kind, "backoff_initial": first})
    wait, most = backoff(settings, failures, seed=seed), max(60.0, first)
    assert 0 <= wait <= most
    assert backoff(settings, failures + 1, seed=f"{seed}+") >= wait
    assert backoff(settings, failures, seed=seed) == wait
    planned = {"none": 0.0, "linear": first * failures, "exponential": first * 2 ** min(failures - 1, 16)}[kind]
    assert min(planned, most) <= wait <= min(planned * (1.25 if kind == "exponential" else 1), most)


def test_runs_that_failed_together_do_not_call_again_together() -> None:
    waits = {backoff(Settings(backoff_initial=8.0), 2, seed=f"run-{number}") for number in range(100)}
    assert len(waits) == 100
    assert min(waits) < 16.5
    assert max(waits) > 19.5


def test_the_wait_of_a_strategy_counts_unless_nobody_wants_to_wait() -> None:
    settings = Settings(backoff_initial=8.0)
    assert backoff(settings, 3, "none", seed="") == 0
    assert backoff(settings, 3, "linear", seed="") == 24
    assert backoff(settings.model_copy(update={"backoff": "linear"}), 3, "exponential", seed="") >= 32
    assert backoff(settings.model_copy(update={"backoff": "none"}), 3, "exponential", seed="") == 0


def test_ten_cents_three_times_is_thirty_cents() -> None:
    turns = {("a", iteration): [TurnResult(cost=0.1)] for iteration in (1, 2, 3)}
    suites = {("a", iteration): [FAILED] for iteration in (0, 1, 2)}
    world = World(a_plan(limits=limits(max_total_cost=0.3)), Scripted(turns=turns, suites=suites))
    world.run()
    assert world.state.cost > 0.3
    assert world.state.task("a").status == "proceed"


def test_eight_times_ten_cents_leave_nothing_of_eighty() -> None:
    outcomes = Scripted(turn_else=TurnResult(cost=0.1), suite_else=FAILED)
    world = World(a_plan(a_task(settings=Settings(max_iterations=20)), limits=limits(max_total_cost=0.8)), outcomes)
    world.run()
    assert len(world.events(TurnFinished)) == 8
    assert world.state.cost < 0.8


@pytest.mark.parametrize("limit", ["max_total_cost", "max_cost_per_iteration"])
def test_a_limit_of_nothing_still_accepts_a_green_suite_and_calls_nobody_for_a_red_one(limit: str) -> None:
    green = World(a_plan(limits=limits(**{limit: 0.0})), Scripted())
    green.run()
    assert green.state.task("a").status == "proceed"
    red = World(a_plan(limits=limits(**{limit: 0.0})), Scripted(suite_else=FAILED))
    red.run()
    assert (red.state.task("a").status, red.state.task("a").limit) == ("stopped", limit)
    assert not red.events(TurnFinished)
    assert red.state.finished is not None
    assert red.state.finished.exit_code == 11


def test_money_that_is_overspent_lets_the_tests_tell_but_nothing_proceed() -> None:
    outcomes = Scripted(suites={("a", 0): [FAILED]}, turn_else=TurnResult(cost=2.0))
    world = World(a_plan(limits=limits(max_total_cost=1.0)), outcomes)
    world.run()
    ended = world.state.task("a")
    assert (ended.status, ended.limit) == ("stopped", "max_total_cost")
    assert ended.attempts[-1].suite is not None


def test_money_that_is_just_used_up_does_not_keep_good_work_from_being_accepted() -> None:
    outcomes = Scripted(suites={("a", 0): [FAILED]}, turn_else=TurnResult(cost=1.0))
    world = World(a_plan(limits=limits(max_total_cost=1.0)), outcomes)
    world.run()
    assert world.state.task("a").status == "proceed"


def test_no_tests_run_when_the_time_is_up_also_when_the_money_is_overspent() -> None:
    outcomes = Scripted(suites={("a", 0): [FAILED]}, turn_else=TurnResult(cost=2.0, seconds=8.125))
    world = World(a_plan(limits=limits(max_total_cost=1.0, max_total_duration=10.0)), outcomes, friction=0.125)
    world.run(CallAgent)
    world.run(RunTests)
    assert not [claim for claim in world.events(StageStarted) if claim.stage == "test" and claim.iteration > 0]
    assert world.state.task("a").status == "stopped"


def test_a_wait_is_no_longer_than_the_time_that_is_left() -> None:
    task = a_task(settings=Settings(backoff_initial=3600.0))
    outcomes = Scripted(suite_else=FAILED, turn_else=TurnResult(TurnOutcome.CRASHED))
    world = World(a_plan(task, limits=limits(max_total_duration=30.0)), outcomes)
    world.run()
    assert [wait.seconds for wait in world.events(Waited)] == [28.0]
    assert (world.state.task("a").status, world.state.task("a").limit) == ("stopped", "max_total_duration")
    assert len(world.events(TurnFinished)) == 1
    assert world.state.clock == 30.0


def test_a_wait_for_a_reviewer_is_no_longer_than_the_time_that_is_left() -> None:
    task = a_task(reviewers=1, settings=Settings(backoff_initial=3600.0))
    world = World(a_plan(task, limits=limits(max_total_duration=30.0)), Scripted(review_else=ReviewResult("failed")))
    world.run()
    assert [wait.seconds for wait in world.events(Waited)] == [28.0]
    assert (world.state.task("a").status, world.state.clock) == ("stopped", 30.0)


def test_each_failure_is_followed_by_one_wait_also_after_a_resume() -> None:
    reviews = {("a", 0): [ReviewResult("failed"), ReviewResult("failed"), ReviewResult("failed"), ReviewResult()]}
    world = World(a_plan(a_task(reviewers=1)), Scripted(reviews=reviews))
    world.run(CallReviewer)
    for _ in range(6):  # twice: the review, the choice how to go on, the wait
        world.finish(world.next())
    world.stop()
    world.run()
    before = len(world.events(Waited))
    world.resume()
    world.run()
    assert world.state.task("a").status == "proceed"
    assert (before, len(world.events(Waited))) == (2, 3)


def test_the_time_of_a_wait_counts_before_the_next_call() -> None:
    task = a_task(settings=Settings(backoff_initial=20.0, backoff="linear"))
    turns = {("a", 1): [TurnResult(TurnOutcome.CRASHED), TurnResult(seconds=100.0)]}
    outcomes = Scripted(suite_else=FAILED, turns=turns)
    world = World(a_plan(task, limits=limits(max_total_duration=30.0)), outcomes)
    world.run()
    assert world.events(TurnFinished)[-1].turn.seconds == 8.0
    assert world.state.clock == 30.0


def test_a_wait_that_a_crash_cut_short_is_waited_for_again_and_its_rest_is_not_charged() -> None:
    limited = TurnResult(TurnOutcome.RATE_LIMITED, retry_after=20.0)
    outcomes = Scripted(suite_else=FAILED, turns={("a", 1): [limited, TurnResult()]})
    world = World(a_plan(a_task(settings=Settings(max_iterations=1)), limits=GENEROUS), outcomes)
    step = world.run(Wait)
    assert isinstance(step, Wait)
    assert step.seconds == 20.0
    next(world.perform(step))  # it has begun, and then the driver dies, four seconds into it
    began = world.clock
    assert world.state.clock == began + 20.0
    world.clock += 4.0
    world.crash()
    world.resume()
    assert world.state.clock == began + 4.0
    again = world.run(Wait)
    assert isinstance(again, Wait)
    assert again.seconds == 20.0
    world.run()
    assert world.state.clock >= began + 24.0
    assert sum(isinstance(step, CallAgent) for _, step in world.asked) == 2


def test_the_time_that_other_tasks_worked_is_not_time_of_an_iteration_that_rested() -> None:
    task = a_task("a", reviewers=1)
    outcomes = Scripted(
        suites={("a", 0): [FAILED], ("b", 0): [SuiteResult(seconds=250.0)]}, review_else=ReviewResult("pending")
    )
    world = World(a_plan(task, a_task("b"), limits=limits(max_duration_per_iteration=60.0)), outcomes)
    world.run()
    assert [one.status for one in world.state.tasks] == ["escalated", "proceed"]
    world.answer("a", "approve")
    world.run()
    assert [one.status for one in world.state.tasks] == ["proceed", "proceed"]


def test_two_tasks_that_go_on_after_a_resume_each_have_their_own_time() -> None:
    costly = TurnResult(cost=2.0, seconds=50.0)
    outcomes = Scripted(
        suites={(task, iteration): [FAILED] for task in "ab" for iteration in (0, 1)},
        turns={("a", 1): [costly], ("b", 1): [costly]},
        turn_else=TurnResult(seconds=50.0),
    )
    first = limits(max_cost_per_iteration=1.0, max_duration_per_iteration=60.0)
    world = World(a_plan(a_task("a"), a_task("b"), limits=first), outcomes)
    world.run()
    assert [one.limit for one in world.state.tasks] == ["max_cost_per_iteration"] * 2
    world.resume(limits(max_duration_per_iteration=60.0))
    world.run()
    assert [one.status for one in world.state.tasks] == ["proceed", "proceed"]


def test_what_was_spent_before_a_crash_counts_after_it() -> None:
    outcomes = Scripted(suite_else=FAILED, turn_else=TurnResult(cost=0.75, seconds=5.0))
    world = World(a_plan(limits=limits(max_total_cost=2.0)), outcomes)
    world.run(CallAgent)
    world.finish(world.next())
    world.crash()
    world.resume()
    attempt = world.state.task("a").attempts[-1]
    assert spent(world.state, attempt).total_cost == 0.75
    assert spent(world.state, attempt).iteration_seconds == 5.0
    world.run()
    assert world.state.cost == 2.25
    assert len(world.events(TurnFinished)) == 3


def test_unknown_costs_are_counted_apart() -> None:
    world = World(
        a_plan(limits=limits(max_total_cost=1.0)), Scripted(suite_else=FAILED, turn_else=TurnResult(cost=None))
    )
    world.run()
    ended = world.state.task("a")
    assert (world.state.cost, ended.calls_of_unknown_cost) == (0.0, 3)
    assert spent(world.state, ended.attempts[-1]).calls_of_unknown_cost == 3


def test_the_baseline_belongs_to_no_iteration() -> None:
    outcomes = Scripted(suites={("a", 0): [SuiteResult(Outcome.FAILED, seconds=200.0, failing=("t",))]})
    world = World(a_plan(limits=limits(max_duration_per_iteration=60.0)), outcomes)
    world.run()
    assert world.state.task("a").status == "proceed"
