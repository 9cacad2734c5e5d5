"""State as a fold: in one go or in pieces, from memory or from JSON, and whatever people answer in between."""

from __future__ import annotations

import json
import types
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from functools import cache
from typing import Annotated, Literal, Union, get_args, get_origin

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pytest_iterctl.control.decision import Decision, decide
from pytest_iterctl.control.events import (
    DURABLE,
    EVENT,
    Answered,
    BaseProved,
    CheckpointWritten,
    Decided,
    Event,
    Judged,
    ReviewFinished,
    RunStarted,
    Settled,
    SnapshotTaken,
    StageStarted,
    SuiteFinished,
    TasksDeclared,
    TaskStarted,
    TurnFinished,
    Warned,
)
from pytest_iterctl.control.evidence import (
    Failure,
    Feedback,
    GateEvidence,
    Outcome,
    Proof,
    SuiteEvidence,
    TurnEvidence,
    TurnOutcome,
)
from pytest_iterctl.control.fold import fold
from pytest_iterctl.control.question import Option, Question
from pytest_iterctl.control.standing import best_attempt, held_back, situation, trials
from pytest_iterctl.control.state import Entry, RunState, TaskState
from pytest_iterctl.control.steps import CallAgent, Decide, Done, RunTests, Settle, TakeSnapshot, next_step
from pytest_iterctl.plan.frozen import Settings
from pytest_iterctl.plan.model import Agent, Patience, Prepare, TestCommand
from pytest_iterctl.plan.values import Value
from tests.control.simulator import (
    GENEROUS,
    FromTape,
    ReviewResult,
    Scripted,
    SuiteResult,
    Tape,
    TurnResult,
    World,
    a_plan,
    a_task,
)

FAILED = SuiteResult(Outcome.FAILED, failing=("test_a",))
KINDS: tuple[type[Value], ...] = get_args(Event)

# Random values of every type that an event is made of

numbers = st.floats(allow_nan=False)
words = st.text(max_size=12)
_SIMPLE: dict[object, st.SearchStrategy[object]] = {
    str: words,
    int: st.integers(-(2**53), 2**53),
    float: numbers,
    bool: st.booleans(),
    type(None): st.none(),
    # These check what they hold, so they are made of what they accept.
    Agent: st.builds(Agent, command=st.just(("agent", "-x")), timeout=st.none() | st.floats(0.5, 1e6), env=st.just({})),
    Prepare: st.builds(Prepare, commands=st.just((("make", "all"),)), files=st.just(("built",))),
    Patience: st.builds(Patience, **dict.fromkeys(Patience.model_fields, st.sampled_from([0, 3, 1000]))),
    TestCommand: st.builds(TestCommand, command=st.just(("npm", "test")), junit=st.just("*.xml")),
    Question: st.builds(
        Question,
        text=words,
        options=st.lists(
            st.builds(Option, label=words, effect=st.sampled_from(("continue", "approve", "abort")), guidance=words),
            min_size=2,
            max_size=4,
        ).map(tuple),
    ),
}


def values_of(annotation: object) -> st.SearchStrategy[object]:
    """A strategy for whatever a field is annotated with."""
    if annotation in _SIMPLE:
        return _SIMPLE[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return values_of(arguments[0])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in {Union, types.UnionType}:
        return st.one_of([values_of(one) for one in arguments])
    if origin is dict:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=2)
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(values_of(arguments[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*(values_of(one) for one in arguments))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return st.sampled_from(list(annotation))
    if isinstance(annotation, type) and issubclass(annotation, Value):
        return values_of_model(annotation)
    raise AssertionError(f"nothing is known about {annotation!r}")


@cache
def values_of_model(model: type[Value]) -> st.SearchStrategy[object]:
    fields = {name: values_of(field.annotation) for name, field in model.model_fields.items()}
    make: Callable[..., Value] = model
    return st.builds(make, **fields)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_every_event_is_the_same_after_it_was_written_and_read(kind: type[Value], data: st.DataObject) -> None:
    event = data.draw(values_of_model(kind))
    assert isinstance(event, Event)
    written = EVENT.dump_json(event)
    assert EVENT.validate_json(written) == event
    assert EVENT.dump_json(EVENT.validate_json(written)) == written
    assert EVENT.validate_json(event.model_dump_json()) == event


def test_every_kind_of_event_has_a_name_of_its_own_and_the_durable_ones_are_among_them() -> None:
    names = [kind.model_fields["kind"].default for kind in KINDS]
    assert len(set(names)) == len(names) == 27
    assert set(names) >= DURABLE


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"kind": "unheard-of"},
        {"kind": ""},
        {"kind": "warned"},
        {"kind": "warned", "text": 1},
        {"kind": "warned", "text": "a", "more": "b"},
        {"text": "a"},
        [],
        None,
    ],
)
def test_what_is_no_event_is_refused(document: object) -> None:
    with pytest.raises(ValidationError):
        EVENT.validate_json(json.dumps(document))


# Folding

tapes = st.lists(st.integers(0, 59), max_size=40)


@settings(max_examples=60, deadline=None)
@given(tapes, st.integers(0, 2), st.data())
def test_folding_a_prefix_and_then_the_rest_is_folding_the_whole(
    choices: list[int], reviewers: int, data: st.DataObject
) -> None:
    world = World(a_plan(a_task("a", reviewers=reviewers), a_task("b")), FromTape(Tape(choices)))
    world.run()
    cut = data.draw(st.integers(0, len(world.journal)))
    whole = fold(world.journal)
    assert fold(world.journal[cut:], fold(world.journal[:cut])) == whole == world.state
    read_again = [
        Entry(entry.sequence, entry.at, entry.clock, EVENT.validate_json(EVENT.dump_json(entry.event)))
        for entry in world.journal
    ]
    assert fold(read_again) == whole
    assert isinstance(next_step(whole), Done)


def test_a_clock_that_goes_back_does_not_turn_back_the_time() -> None:
    started = World(a_plan(), Scripted()).journal[0]
    entries = [started, Entry(2, "", 9.0, Warned(text="a")), Entry(3, "", 4.0, Warned(text="b"))]
    assert fold(entries).clock == 9.0
    assert fold(entries).warnings == ("a", "b")


def test_what_concerns_no_known_task_changes_no_task() -> None:
    world = World(a_plan(), Scripted())
    before = world.state.tasks
    world.record(CheckpointWritten(task="z", iteration=1, path="p"))
    assert world.state.tasks == before


def test_a_thousand_iterations_fold_and_decide() -> None:
    world = World(a_plan(a_task(settings=Settings(max_iterations=1001))), Scripted())
    journal = world.journal[:]

    def write(event: Event) -> None:
        journal.append(Entry(len(journal) + 1, "", len(journal) / 10, event))

    write(TaskStarted(task="a", base="0", tree="0"))
    write(BaseProved(task="a", proof=Proof(manifest="m")))
    for number in range(1001):
        at = {"task": "a", "iteration": number}
        failing = tuple(f"test_{left}" for left in range(number % 7, 9))
        suite = SuiteEvidence(outcome=Outcome.FAILED, failing=failing, failures=(Failure(test=failing[0]),))
        decision = Decision(action="retry", task_id="a", iteration=number + 1, reason="tests-failed", explanation="")
        if number:
            write(StageStarted.model_validate(at | {"stage": "generate", "before": str(number)}))
            write(TurnFinished(task="a", iteration=number, turn=TurnEvidence(agent="x", outcome=TurnOutcome.DONE)))
            write(SnapshotTaken.model_validate(at | {"stage": "generate", "commit": str(number), "tree": str(number)}))
        write(StageStarted.model_validate(at | {"stage": "test", "before": str(number)}))
        write(SuiteFinished(task="a", iteration=number, suite=suite))
        write(SnapshotTaken.model_validate(at | {"stage": "test", "commit": str(number), "tree": str(number)}))
        if number:
            write(Judged(task="a", iteration=number, gate=GateEvidence(verdict="not-green")))
        if number < 1000:
            write(Decided(task="a", iteration=number, decision=decision))
    state = fold(journal)
    task = state.task("a")
    assert task.iterations == 1000
    assert next_step(state) == Decide("a", 1000)
    assert len(trials(task)) == 1000
    now = situation(state, task, 1000, Feedback(summary="s"))
    assert (decide(now).action, decide(now).iteration) == ("retry", 1001)
    assert decide(replace(now, max_iterations=1000)).reason == "max-iterations"
    best = best_attempt(task)
    assert best is not None
    assert best.iteration % 7 == 6


# What people answer


def escalated(outcomes: Scripted | None = None, *, reviewers: int = 0) -> World:
    world = World(a_plan(a_task(reviewers=reviewers)), outcomes or Scripted(suite_else=FAILED))
    world.run()
    assert world.state.task("a").status == "escalated"
    return world


def test_to_continue_takes_a_snapshot_of_what_the_tree_holds_then() -> None:
    world = escalated()
    world.tree |= {"a person's own edit"}
    world.answer("a", "continue", iterations=2)
    step = world.next()
    assert step == TakeSnapshot("a", 4, "start")
    world.finish(step)
    assert world.snapshots[world.state.task("a").latest] == world.tree
    world.run(CallAgent)
    assert "a person's own edit" in world.tree


def test_to_continue_without_a_number_grants_what_the_settings_say() -> None:
    world = escalated()
    world.answer("a", "continue")
    assert world.state.task("a").bound == 6
    assert world.state.finished is None


def test_to_abort_ends_the_task_as_not_accepted() -> None:
    world = escalated()
    world.answer("a", "abort")
    world.run()
    assert world.state.task("a").status == "aborted"
    assert world.state.finished is not None
    assert (world.state.finished.decision, world.state.finished.exit_code) == ("escalate", 1)
    assert [answer.effect for answer in world.state.task("a").answers] == ["abort"]


def test_to_approve_counts_for_what_was_seen_and_no_further() -> None:
    outcomes = Scripted(suites={("a", 0): [FAILED]}, review_else=ReviewResult("reject"))
    world = escalated(outcomes, reviewers=1)
    world.answer("a", "approve")
    world.run()
    ended = world.state.task("a")
    assert (ended.status, ended.iterations) == ("proceed", 3)
    assert [attempt.approved for attempt in ended.attempts] == [False, False, False, True]


def test_failures_in_a_row_begin_anew_after_an_answer() -> None:
    failing = Scripted(suite_else=FAILED, turn_else=TurnResult(TurnOutcome.CRASHED))
    world = escalated(failing)
    assert world.state.task("a").agent_failures == 3
    world.answer("a", "continue")
    assert world.state.task("a").agent_failures == 0
    world.run()
    assert len(world.events(TurnFinished)) == 6


def test_a_resume_raises_the_bound_and_never_lowers_it() -> None:
    world = World(a_plan(a_task(settings=Settings(max_iterations=3))), Scripted(suite_else=FAILED))
    world.run(Settle)
    world.crash()
    world.resume(max_iterations=1)
    assert world.state.task("a").bound == 3
    world.resume(max_iterations=5)
    assert world.state.task("a").bound == 5


def test_a_resume_in_the_middle_takes_no_iteration_more_than_allowed() -> None:
    world = World(a_plan(), Scripted(suite_else=FAILED))
    world.run(CallAgent)
    world.run(RunTests)
    while len(world.state.task("a").attempts) < 3:
        world.finish(world.next())
    world.crash()
    world.resume(max_iterations=1)
    world.run()
    assert world.state.task("a").iterations == 3


def test_a_resume_lets_go_on_whom_a_person_stopped_but_nobody_whom_a_limit_stopped() -> None:
    world = World(a_plan(limits=GENEROUS.model_copy(update={"max_total_cost": 0.0})), Scripted(suite_else=FAILED))
    world.run()
    assert world.state.task("a").limit == "max_total_cost"
    world.resume()
    world.run()
    assert world.state.task("a").status == "stopped"
    world.resume(GENEROUS)
    world.run(CallAgent)
    world.stop()
    world.run()
    assert world.state.task("a").limit == "person"
    world.resume()
    world.run()
    assert world.state.task("a").status == "escalated"


def test_an_interrupted_run_goes_on_with_the_stage_that_was_under_way() -> None:
    world = World(a_plan(), Scripted(suites={("a", 0): [FAILED]}))
    step = world.run(CallAgent)
    next(world.perform(step))
    world.interrupt()
    was_interrupted = world.state.interrupted
    world.resume()
    assert (was_interrupted, world.state.interrupted) == (True, False)
    assert world.run(CallAgent) == step
    assert world.tree == frozenset()
    world.run()
    assert world.state.task("a").status == "proceed"


# What can be read from a state


def test_the_snapshot_and_the_tree_that_a_task_is_at_belong_together() -> None:
    def watched(world: World) -> None:
        for _ in range(200):
            step = world.next()
            if isinstance(step, Done):
                return
            world.finish(step)
            for task in world.state.tasks:
                if task.latest and task.latest_tree:
                    tree = world.snapshots[task.latest]
                    assert task.latest_tree == (",".join(sorted(tree)) or "empty")

    limits = GENEROUS.model_copy(update={"max_duration_per_iteration": 60.0})
    turns = {("a", 1): [TurnResult(TurnOutcome.CRASHED), TurnResult(seconds=100.0), TurnResult()]}
    world = World(a_plan(limits=limits), Scripted(turns=turns, suites={("a", 0): [FAILED]}))
    watched(world)
    world.resume(GENEROUS)
    watched(world)
    assert world.state.task("a").status == "proceed"


def test_the_best_attempt_passes_most_then_fails_least_then_is_the_latest() -> None:
    suites = {
        ("a", 0): [SuiteResult(Outcome.FAILED, failing=("t1", "t2", "t3"))],
        ("a", 1): [FAILED],
        ("a", 2): [FAILED],
        ("a", 3): [SuiteResult(Outcome.FAILED, failing=("t1", "t2"))],
    }
    world = World(a_plan(), Scripted(suites=suites))
    world.run()
    best = best_attempt(world.state.task("a"))
    assert best is not None
    assert best.iteration == 2
    assert world.events(Settled)[-1].iteration == 2
    assert best_attempt(TaskState(a_task())) is None


def test_no_attempt_from_before_others_worked_in_the_tree_is_gone_back_to() -> None:
    suites = {("a", iteration): [FAILED] for iteration in range(4)}
    suites |= {("a", 4): [SuiteResult(Outcome.FAILED, failing=("t1", "t2"))], ("b", 0): [FAILED]}
    world = World(a_plan(a_task("a"), a_task("b")), Scripted(suites=suites))
    world.run()
    assert world.state.task("b").status == "proceed"
    world.answer("a", "continue", iterations=1)
    world.run()
    assert world.state.task("a").status == "escalated"
    assert any(edit.startswith("b/1/done") for edit in world.tree)
    assert world.state.task("a").floor == world.events(SnapshotTaken)[-3].commit


def test_what_is_held_back_waits_for_nothing_but_leave() -> None:
    world = World(a_plan(a_task("a"), a_task("b", needs=("a",)), a_task("c")), Scripted())
    assert [task.id for task in held_back(world.state)] == ["a", "c"]
    world.run()
    assert held_back(world.state) == ()


def test_the_tasks_of_the_markers_take_the_place_of_the_whole() -> None:
    world = World(a_plan(a_task("whole"), discover=True), Scripted(), declared=(a_task("x"), a_task("y")))
    world.run()
    assert [(task.id, task.status) for task in world.state.tasks] == [("x", "proceed"), ("y", "proceed")]
    assert len(world.events(TasksDeclared)) == 1


def test_a_run_knows_its_limits_from_its_first_event_on() -> None:
    world = World(a_plan(), Scripted())
    assert world.state.limits == world.events(RunStarted)[0].plan.limits
    assert RunState().limits is None


def test_a_reviewer_that_failed_is_asked_again_and_its_failure_is_no_review() -> None:
    reviews = {("a", 0): [ReviewResult("failed"), ReviewResult("approve")]}
    world = World(a_plan(a_task(reviewers=1)), Scripted(reviews=reviews))
    world.run()
    attempt = world.state.task("a").attempts[0]
    assert [review.status for review in attempt.reviews] == ["approve"]
    assert [event.review.status for event in world.events(ReviewFinished)] == ["failed", "approve"]
    assert len(attempt.review_turns) == 2


def test_every_decision_is_in_its_attempt() -> None:
    world = escalated()
    decided = [event.decision for event in world.events(Decided)]
    assert [attempt.decision for attempt in world.state.task("a").attempts] == decided
    assert [decision.action for decision in decided] == ["retry", "retry", "retry", "escalate"]
    assert not world.events(Answered)
