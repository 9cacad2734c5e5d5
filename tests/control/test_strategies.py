"""Which strategy follows from what: the type of the error, then what was learned, then priority."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.control.choosing import chosen_strategy, lessons
from pytest_iterctl.control.error_types import ERROR_TYPES, Analysis, ErrorType
from pytest_iterctl.control.evidence import Outcome, TurnOutcome
from pytest_iterctl.control.steps import CallAgent, ChooseStrategy, Wait
from pytest_iterctl.control.strategies import BUILT_IN, Choice, Circumstances, Learned, choose, named
from pytest_iterctl.plan.frozen import Settings
from tests.control.simulator import GENEROUS, ReviewResult, Scripted, SuiteResult, TurnResult, World, a_plan, a_task
from tests.control.simulator import named as agent

FAILED = SuiteResult(Outcome.FAILED)
GREEN = SuiteResult(Outcome.PASSED)


def after(error: ErrorType, **more: object) -> Choice:
    given = {"analysis": Analysis(error, "test", ""), **more}
    return choose(Circumstances(**given))  # type: ignore[arg-type]  # a table of what a test says


@pytest.mark.parametrize(
    ("error", "more", "name"),
    [
        ("timeout", {}, "aggressive-timeout"),
        ("timeout", {"after_agent": True}, "aggressive-timeout"),
        ("resource_exhausted", {}, "reduced-parallelism"),
        ("rate_limit", {"after_agent": True, "more_agents": True}, "fallback-providers"),
        ("network", {"after_agent": True, "more_agents": True}, "default"),
        ("network", {"after_agent": True, "more_agents": True, "again": True}, "fallback-providers"),
        ("auth", {"after_agent": True, "more_agents": True}, "fallback-providers"),
        ("rate_limit", {"after_agent": True}, "default"),
        ("network", {}, "default"),
        ("assertion", {}, "default"),
        ("assertion", {"stuck": True}, "fresh-context"),
        ("assertion", {"stuck": True, "causes": 9}, "fresh-context"),
        ("import", {"causes": 3}, "default"),
        ("assertion", {"causes": 9}, "narrow"),
        ("assertion", {"causes": 9, "ahead": True}, "default"),
        ("flaky", {"stuck": True}, "default"),
        ("validation", {"after_agent": True, "more_agents": True}, "fallback-providers"),
        ("validation", {"after_agent": True}, "default"),
    ],
)
def test_the_error_says_which(error: ErrorType, more: dict[str, object], name: str) -> None:
    assert after(error, **more).strategy.name == name


def test_the_first_is_always_default_unless_aggressive() -> None:
    for error in ERROR_TYPES:
        assert after(error, first=True).strategy.name == "default"
    learned = {("timeout", "aggressive-timeout"): Learned(3, 1)}
    assert after("timeout", first=True, mode="aggressive").strategy.name == "default"
    found = after("timeout", first=True, mode="aggressive", learned=learned)
    assert found.strategy.name == "aggressive-timeout"
    assert "3 of 4 times it helped" in found.why


def test_aggressive_begins_with_whatever_has_helped() -> None:
    learned = {("assertion", "fresh-context"): Learned(5, 0), ("assertion", "default"): Learned(4, 1)}
    assert after("assertion", first=True, mode="aggressive", learned=learned).strategy.name == "fresh-context"
    learned[("assertion", "narrow")] = Learned(50, 0)
    learned[("assertion", "fallback-providers")] = Learned(50, 0)
    found = after("assertion", first=True, mode="aggressive", learned=learned).strategy.name
    assert found == "fresh-context"  # nobody has failed yet, and how many causes there are was not seen


def test_conservative_never_goes_beyond_default() -> None:
    for error, stuck, more in product(ERROR_TYPES, (True, False), (True, False)):
        found = after(error, mode="conservative", stuck=stuck, more_agents=more, after_agent=more, causes=9)
        assert found.strategy.name == "default"


@pytest.mark.parametrize("strategy", [each.name for each in BUILT_IN])
def test_a_name_pins_one(strategy: str) -> None:
    for error in ERROR_TYPES:
        assert after(error, mode=strategy, first=True).strategy.name == strategy


def test_what_has_helped_comes_before_priority() -> None:
    learned = {("assertion", "narrow"): Learned(8, 1), ("assertion", "default"): Learned(1, 8)}
    assert after("assertion", causes=9, learned=learned).strategy.name == "narrow"
    learned = {("assertion", "narrow"): Learned(0, 8), ("assertion", "default"): Learned(1, 0)}
    assert after("assertion", causes=9, learned=learned).strategy.name == "default"
    # What was learned of other errors says nothing of this one.
    learned = {("type", "narrow"): Learned(0, 8), ("type", "default"): Learned(8, 0)}
    assert after("assertion", causes=9, learned=learned).strategy.name == "narrow"
    # Without a try of it, nothing is known against it.
    learned = {("assertion", "default"): Learned(8, 0)}
    assert after("assertion", causes=9, learned=learned).strategy.name == "narrow"


@given(
    st.sampled_from(["auto", "conservative", "aggressive"]),
    st.sampled_from(ERROR_TYPES),
    st.booleans(),
    st.integers(0, 50),
    st.booleans(),
    st.booleans(),
    st.dictionaries(
        st.tuples(st.sampled_from(ERROR_TYPES), st.sampled_from([each.name for each in BUILT_IN])),
        st.builds(Learned, st.integers(0, 50), st.integers(0, 50)),
    ),
)
def test_there_is_always_one_that_can_be_done(
    mode: str,
    error: ErrorType,
    stuck: bool,
    causes: int,
    more: bool,
    agent: bool,
    learned: dict[tuple[str, str], Learned],
) -> None:
    found = after(
        error, mode=mode, stuck=stuck, causes=causes, more_agents=more, after_agent=agent, learned=learned
    ).strategy
    assert found in BUILT_IN
    assert more or not found.next_agent
    assert not (agent and (found.from_best or found.only_first_cause))


# In a whole loop --------------------------------------------------------------------------------------------------


def with_fallback(*names: str, **settings: object) -> World:
    task = a_task(settings=Settings.model_validate({"backoff_initial": 8.0, "max_agent_failures": 4, **settings}))
    task = task.model_copy(update={"fallback": tuple(agent(name) for name in names)})
    outcomes = Scripted(suites={("a", 0): [FAILED]}, turn_else=TurnResult(TurnOutcome.RATE_LIMITED))
    return World(a_plan(task, limits=GENEROUS), outcomes)


def called(world: World) -> list[str]:
    return [step.agent.name for _, step in world.asked if isinstance(step, CallAgent)]


def test_a_rate_limit_calls_the_next_agent_at_once_and_waits_only_for_the_last() -> None:
    world = with_fallback("spare", "last")
    world.run()
    assert called(world) == ["coder", "spare", "last", "last"]
    waits = [step for _, step in world.asked if isinstance(step, Wait)]
    assert len(waits) == 1
    assert world.state.task("a").decision is not None
    assert world.state.task("a").decision.reason == "agent-failed"  # type: ignore[union-attr]
    assert world.state.task("a").iterations == 0


def test_the_agent_that_took_over_stays() -> None:
    task = a_task(settings=Settings(max_iterations=3, backoff="none"))
    task = task.model_copy(update={"fallback": (agent("spare"),)})
    outcomes = Scripted(
        suites={("a", 0): [FAILED], ("a", 1): [FAILED], ("a", 2): [GREEN]},
        turns={("a", 1): [TurnResult(TurnOutcome.RATE_LIMITED), TurnResult()]},
    )
    world = World(a_plan(task, limits=GENEROUS), outcomes)
    world.run()
    assert called(world) == ["coder", "spare", "spare"]
    assert world.state.task("a").status == "proceed"


def test_a_network_is_waited_for_once_before_another_agent_is_called() -> None:
    world = with_fallback("spare", "last")
    down = [TurnResult(TurnOutcome.NO_NETWORK)] * 2
    world.outcomes = Scripted(suites={("a", 0): [FAILED]}, turns={("a", 1): [*down, TurnResult()]})
    world.run()
    steps = [step for _, step in world.asked if isinstance(step, CallAgent | Wait)]
    assert [step.agent.name if isinstance(step, CallAgent) else "wait" for step in steps] == [
        *("coder", "wait", "coder", "spare"),
    ]


def test_what_does_not_go_away_ends_the_second_time() -> None:
    world = with_fallback("spare", "last")
    world.outcomes = Scripted(suites={("a", 0): [FAILED]}, turn_else=TurnResult(TurnOutcome.NOT_LOGGED_IN))
    world.run()
    assert called(world) == ["coder", "spare"]
    decision = world.state.task("a").decision
    assert decision is not None
    assert decision.reason == "agent-failed"
    assert "does not go away (auth)" in decision.explanation


def test_conservative_has_no_fallback() -> None:
    world = with_fallback("spare", strategy="conservative")
    world.run()
    assert set(called(world)) == {"coder"}


def test_time_is_doubled_each_time_in_a_row() -> None:
    task = a_task(settings=Settings(max_iterations=4))
    late = SuiteResult(Outcome.TIMED_OUT)
    world = World(a_plan(task, limits=GENEROUS), Scripted(suite_else=late))
    factors = []
    while True:
        step = world.run(ChooseStrategy)
        if not isinstance(step, ChooseStrategy):
            break
        world.finish(step)
        factors.append(world.state.task("a").timeout_factor)
    assert factors == [1.0, 2.0, 4.0, 8.0]


def test_what_was_too_slow_once_keeps_its_time() -> None:
    late, red = SuiteResult(Outcome.TIMED_OUT), FAILED
    suites = {("a", 0): [red], ("a", 1): [late], ("a", 2): [red], ("a", 3): [red], ("a", 4): [late]}
    task = a_task(settings=Settings(max_iterations=6, backoff="none"))
    world = World(a_plan(task, limits=GENEROUS), Scripted(suites=suites, suite_else=red))
    factors = []
    while isinstance(step := world.run(ChooseStrategy), ChooseStrategy):
        world.finish(step)
        factors.append(world.state.task("a").timeout_factor)
    assert factors == [1.0, 2.0, 2.0, 2.0, 4.0, 4.0]


def test_nobody_is_announced_who_is_not_called() -> None:
    world = with_fallback("spare", "last")
    world.outcomes = Scripted(suites={("a", 0): [FAILED]}, turn_else=TurnResult(TurnOutcome.NOT_LOGGED_IN))
    world.run()
    chosen = [choice.agent for attempt in world.state.task("a").attempts for choice in attempt.choices]
    assert chosen == called(world) == ["coder", "spare"]


def test_a_pinned_fallback_begins_with_the_task_s_own_agent() -> None:
    world = with_fallback("spare", "last", strategy="fallback-providers", max_iterations=3)
    turns = {("a", 2): [TurnResult(TurnOutcome.RATE_LIMITED), TurnResult()]}
    world.outcomes = Scripted(suite_else=FAILED, turns=turns)
    world.run()
    assert called(world) == ["coder", "coder", "spare", "spare"]
    notes = [choice.note for attempt in world.state.task("a").attempts for choice in attempt.choices]
    assert notes == ["No agent failed, so none is replaced."] * 2 + ["", "No agent failed, so none is replaced."]


@pytest.mark.parametrize(("timeout", "note"), [(10.0, ""), (300.0, "max_duration_per_iteration leaves ")])
def test_what_is_left_is_compared_with_the_time_of_what_was_late(timeout: float, note: str) -> None:
    limits = GENEROUS.model_copy(update={"max_duration_per_iteration": 400.0})
    task = a_task(settings=Settings(max_iterations=2, timeout=300.0, test_timeout=timeout))
    world = World(a_plan(task, limits=limits), Scripted(suite_else=SuiteResult(Outcome.TIMED_OUT)))
    world.run()
    notes = [choice.note for attempt in world.state.task("a").attempts for choice in attempt.choices]
    assert notes[1].startswith(note)
    assert bool(notes[1]) == bool(note)


def test_more_time_than_there_is_is_said() -> None:
    limits = GENEROUS.model_copy(update={"max_duration_per_iteration": 400.0})
    task = a_task(settings=Settings(max_iterations=3, timeout=300.0))
    world = World(a_plan(task, limits=limits), Scripted(suite_else=SuiteResult(Outcome.TIMED_OUT)))
    world.run()
    notes = [choice.note for attempt in world.state.task("a").attempts for choice in attempt.choices]
    assert notes[0] == ""
    assert notes[1].startswith("max_duration_per_iteration leaves ")
    assert "not 10m" in notes[1]


def test_lessons_say_what_helped() -> None:
    task = a_task(settings=Settings(max_iterations=3, backoff="none"))
    task = task.model_copy(update={"fallback": (agent("spare"),)})
    outcomes = Scripted(
        suites={("a", 0): [FAILED], ("a", 1): [GREEN]},
        turns={("a", 1): [TurnResult(TurnOutcome.RATE_LIMITED), TurnResult()]},
    )
    world = World(a_plan(task, limits=GENEROUS), outcomes)
    world.run()
    learned = list(lessons(world.state.task("a")))
    assert ("rate_limit", "fallback-providers", True) in learned


def reviewed(*turns: TurnOutcome, fallback: tuple[str, ...] = ()) -> World:
    """Reviews that fail as said, and then one that approves."""
    task = a_task(reviewers=1, settings=Settings(backoff="none", max_agent_failures=4))
    task = task.model_copy(update={"fallback": tuple(agent(name) for name in fallback)})
    failed = [ReviewResult("failed", TurnResult(outcome)) for outcome in turns]
    outcomes = Scripted(suite_else=GREEN, reviews={("a", 0): [*failed, ReviewResult()]})
    return World(a_plan(task, limits=GENEROUS), outcomes)


def test_a_failed_review_is_taken_again_by_the_strategy_for_its_failure() -> None:
    world = reviewed(TurnOutcome.TIMED_OUT, TurnOutcome.CRASHED)
    world.run()
    task = world.state.task("a")
    assert task.status == "proceed"
    chosen = [
        (each.strategy.name, each.error_type, each.stage, each.agent, each.for_reviewer)
        for each in task.attempts[0].choices
    ]
    assert chosen == [
        ("aggressive-timeout", "timeout", "review", "critic-0", True),
        ("default", "unknown", "review", "critic-0", True),
    ]
    assert list(lessons(task)) == [("timeout", "aggressive-timeout", False), ("unknown", "default", True)]


def test_a_reviewer_has_no_fallback() -> None:
    world = reviewed(TurnOutcome.RATE_LIMITED, fallback=("spare",))
    world.run()
    (choice,) = world.state.task("a").attempts[0].choices
    assert (choice.strategy.next_agent, choice.agent) == (False, "critic-0")
    assert called(world) == []


def test_a_choice_is_made_from_the_state_alone() -> None:
    world = with_fallback("spare")
    step = world.run(ChooseStrategy)
    assert isinstance(step, ChooseStrategy)
    task = world.state.task("a")
    one = chosen_strategy(world.state, task, step.iteration, causes=0, learned={})
    assert one == chosen_strategy(world.state, task, step.iteration, causes=0, learned={})
    assert named(one.strategy.name) == one.strategy
