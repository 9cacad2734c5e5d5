"""The controller in made-up worlds: whatever agents, tests, reviewers, people and crashes do, its promises hold."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_iterctl.control.decision import Decision, decide
from pytest_iterctl.control.events import (
    Answered,
    Decided,
    Resumed,
    ReviewFinished,
    Settled,
    StageStarted,
    TurnFinished,
)
from pytest_iterctl.control.evidence import Outcome, TurnOutcome
from pytest_iterctl.control.fold import apply
from pytest_iterctl.control.standing import attempt_at, limits_of, spent
from pytest_iterctl.control.state import RunState, TaskState
from pytest_iterctl.control.steps import (
    CallAgent,
    CallReviewer,
    Decide,
    Done,
    FinishRun,
    Recover,
    RunTests,
    Settle,
    StartTask,
    Step,
    TakeSnapshot,
    Undo,
    Wait,
    next_step,
)
from pytest_iterctl.errors import ExitCode
from pytest_iterctl.plan.frozen import FrozenTask, Settings
from pytest_iterctl.plan.model import Limits
from tests.control.simulator import (
    GENEROUS,
    FromTape,
    Outcomes,
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
MANY = settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
SOME = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))

tapes = st.lists(st.integers(0, 59), max_size=80)
some_settings = st.builds(
    Settings,
    max_iterations=st.integers(1, 5),
    auto_retry_on_test_fail=st.sampled_from((True, True, False)),
    auto_retry_on_review_reject=st.sampled_from((True, True, False)),
    max_agent_failures=st.integers(1, 3),
    backoff=st.sampled_from(("none", "linear", "exponential")),
    backoff_initial=st.sampled_from((1.0, 50.0, 600.0)),
    on_escalate=st.sampled_from(("best", "last", "base")),
)
some_limits = st.builds(
    Limits,
    level=st.just("normal"),
    max_cost_per_iteration=st.sampled_from((1e6, 0.0, 0.2, 3.0)),
    max_total_cost=st.sampled_from((1e6, 0.0, 0.3, 5.0)),
    max_duration_per_iteration=st.sampled_from((1e6, 1.0, 60.0, 300.0)),
    max_total_duration=st.sampled_from((1e6, 1.0, 100.0, 1800.0)),
    max_calls_per_iteration=st.sampled_from((10_000, 1, 5)),
)


@st.composite
def some_tasks(draw: st.DrawFn) -> tuple[FrozenTask, ...]:
    names = "abcd"[: draw(st.integers(1, 4))]
    return tuple(
        a_task(
            name,
            needs=tuple(sorted(draw(st.sets(st.sampled_from(names[:position]))))) if position else (),
            reviewers=draw(st.integers(0, 2)),
            agent=draw(st.sampled_from((True,) * 7 + (False,))),
            settings=draw(some_settings),
        )
        for position, name in enumerate(names)
    )


class Referee:
    """Watches every step before it is performed and every decision after it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.allowed: Counter[str] = Counter()
        self.in_a_row: Counter[str] = Counter()
        self.accepted: dict[str, frozenset[str]] = {}
        self.seen = 0
        self.steps = 0
        self.under_way = ""

    def before(self, step: Step) -> None:
        self.steps += 1
        self._read_on()
        state = self.world.state
        self._no_time_limit_is_overstepped(state)
        match step:
            case CallAgent():
                self._there_is_budget(state, step.task, step.iteration)
                self._is_within_bound(state.task(step.task), step.iteration)
                self._was_not_done(step)
                self._tree_is_as_claimed(step.task)
            case CallReviewer():
                self._there_is_budget(state, step.task, step.iteration)
                self._was_not_reviewed(step)
                self._holds_the_work(step.task, step.iteration)
            case RunTests():
                self._there_is_time(state, step.task, step.iteration)
                self._holds_the_work(step.task, step.iteration)
                self._tree_is_as_claimed(step.task)
            case Wait():
                limits = limits_of(state)
                assert 0 <= step.seconds <= limits.max_total_duration - state.clock
            case StartTask():
                statuses = {task.id: task.status for task in state.tasks}
                assert all(statuses[need] == "proceed" for need in state.task(step.task).task.needs)
                assert not state.stopped_by
            case FinishRun():
                self._nothing_was_left_out(step, state)
            case Recover() | Undo():
                assert step.to in self.world.snapshots
            case _:
                pass

    def after(self, step: Step) -> None:
        self._accepted_work_stays()
        if isinstance(step, Decide):
            task = self.world.state.task(step.task)
            self._decision_is_founded(task, self.world.decided[-1][1])

    def _read_on(self) -> None:
        """Take in what was written since the last step."""
        for entry in self.world.journal[self.seen :]:
            event = entry.event
            if isinstance(event, StageStarted):
                assert self.under_way in {"", event.task}, f"{event.task} works in the midst of {self.under_way}"
                self.under_way = event.task
            elif isinstance(event, Decided) and event.decision.action != "retry":
                self.under_way = ""
            elif isinstance(event, Settled) and event.holds == "accepted":
                self._holds_the_work(event.task, event.iteration)
                own = f"{event.task}/"
                self.accepted[event.task] = frozenset(edit for edit in self.world.tree if edit.startswith(own))
            elif isinstance(event, TurnFinished):
                bad = event.turn.outcome.is_failure
                self.in_a_row[event.task] = self.in_a_row[event.task] + 1 if bad else 0
                task = self.world.state.task(event.task)
                assert self.in_a_row[event.task] <= task.settings.max_agent_failures
            elif isinstance(event, Answered):
                task = self.world.state.task(event.task)
                self.in_a_row[event.task] = 0
                if event.effect == "continue":
                    self.allowed[event.task] += event.iterations or task.settings.max_iterations
            elif isinstance(event, Resumed):
                self.in_a_row.clear()
                for task in self.world.state.tasks:
                    self.allowed[task.id] += event.max_iterations or 0
        self.seen = len(self.world.journal)

    def bound_of(self, task: TaskState) -> int:
        return task.settings.max_iterations + self.allowed[task.id]

    def _is_within_bound(self, task: TaskState, iteration: int) -> None:
        assert iteration <= task.bound or not task.attempts[-1].generated
        assert task.iterations <= self.bound_of(task)

    @staticmethod
    def _there_is_budget(state: RunState, task_id: str, iteration: int) -> None:
        limits, used = limits_of(state), spent(state, attempt_at(state, state.task(task_id), iteration))
        assert used.total_cost < limits.max_total_cost
        assert used.iteration_cost < limits.max_cost_per_iteration
        assert used.total_seconds < limits.max_total_duration
        assert used.iteration_seconds < limits.max_duration_per_iteration
        assert used.iteration_calls < limits.max_calls_per_iteration

    @staticmethod
    def _there_is_time(state: RunState, task_id: str, iteration: int) -> None:
        limits, used = limits_of(state), spent(state, attempt_at(state, state.task(task_id), iteration))
        assert used.total_seconds < limits.max_total_duration
        assert used.iteration_seconds < limits.max_duration_per_iteration

    @staticmethod
    def _no_time_limit_is_overstepped(state: RunState) -> None:
        """Where writing things down takes no time, nothing takes longer than it may: no call, no wait, no test run."""
        limits = limits_of(state)
        assert state.clock <= limits.max_total_duration
        for task in state.tasks:
            assert all(attempt.seconds <= limits.max_duration_per_iteration for attempt in task.attempts[1:])

    def _was_not_done(self, step: CallAgent) -> None:
        assert not any(
            (event.task, event.iteration) == (step.task, step.iteration) and event.turn.outcome.took_its_turn
            for event in self.world.events(TurnFinished)
        )

    def _was_not_reviewed(self, step: CallReviewer) -> None:
        assert not any(
            (event.task, event.iteration, event.review.reviewer) == (step.task, step.iteration, step.reviewer.name)
            and event.review.status != "failed"
            for event in self.world.events(ReviewFinished)
        )

    def _holds_the_work(self, task_id: str, iteration: int) -> None:
        """What is judged is what the agent made in its finished turn, with nothing of the turns that failed."""
        if not iteration:
            return
        task = self.world.state.task(task_id)
        last = task.attempts[-1]
        own = {edit for edit in self.world.tree if edit.startswith(f"{task_id}/{iteration}/")}
        done = {edit for edit in own if edit.startswith(f"{task_id}/{iteration}/done/")}
        # What the tree was left with when others worked in it is there to stay, also what a limit cut off.
        assert own - done <= self.world.snapshots[task.floor], own
        assert len(done) == (1 if last.changed else 0), (own, last)

    def _tree_is_as_claimed(self, task_id: str) -> None:
        """A crash in the stage puts back what the claim names, so that must be what is there now."""
        assert self.world.snapshots[self.world.state.task(task_id).latest] == self.world.tree

    def _decision_is_founded(self, task: TaskState, decision: Decision) -> None:
        last = task.attempts[-1]
        if decision.action == "retry":
            assert last.suite is not None
            assert last.generated
        if decision.action == "proceed":
            assert last.suite is not None
            assert last.suite.passed
            everybody = [review.status for review in last.reviews] == ["approve"] * len(task.task.reviewers)
            assert everybody or any(answer.effect == "approve" for answer in task.answers)

    def _accepted_work_stays(self) -> None:
        if self.world.state.open_stage is None:
            for task, work in self.accepted.items():
                assert work <= self.world.tree, f"the work of {task} is no longer in the tree"

    def _nothing_was_left_out(self, step: FinishRun, state: RunState) -> None:
        """Nobody waits without a reason, and the exit code is the first that applies."""
        statuses = {task.id: task.status for task in state.tasks}
        ready = [
            task
            for task in state.tasks
            if task.status == "waiting" and all(statuses[need] == "proceed" for need in task.task.needs)
        ]
        limits = limits_of(state)
        over = state.cost > limits.max_total_cost or state.clock >= limits.max_total_duration
        assert not ready or state.stopped_by or over
        assert "running" not in statuses.values()
        assert step.proceed == all(status == "proceed" for status in statuses.values())
        assert (step.exit_code == 0) == step.proceed
        if ready or "stopped" in statuses.values():
            assert step.exit_code == ExitCode.SAFETY
        elif "escalated" in statuses.values():
            assert step.exit_code == ExitCode.ESCALATED


class Mischief:
    """People and accidents, as many as there is budget for."""

    def __init__(self, world: World, tape: Tape, budget: int) -> None:
        self.world = world
        self.tape = tape
        self.budget = budget

    def in_between(self, step: Step) -> bool:
        """Perform a step, or some of it; False when the driver died."""
        performing = self.world.perform(step)
        for _ in performing:
            what = self.tape.pick(("",) * 9 + ("stop", "crash", "interrupt")) if self.budget else ""
            if what:
                self.budget -= 1
            if what == "stop" and not self.world.state.stopped_by:
                self.world.stop()
            if what in {"crash", "interrupt"}:
                performing.close()
                self.world.crash() if what == "crash" else self.world.interrupt()
                return False
        return True

    def person(self) -> bool:
        """Somebody comes back to a run that ended or died; False when nobody does."""
        state = self.world.state
        waiting = [task for task in state.tasks if task.status in {"escalated", "stopped"}]
        if state.finished is not None and (not self.budget or state.finished.exit_code == 0):
            return False
        if state.finished is not None:
            self.budget -= 1
        if waiting and self.budget and self.tape.pick((True, False)):
            self._answer(self.tape.pick(waiting))
            return True
        limits = limits_of(state)
        more = self.tape.pick((None, "double", "plenty"))
        if more == "double":
            doubled = {name: value * 2 for name, value in limits.model_dump().items() if type(value) in {int, float}}
            self.world.resume(limits.model_copy(update=doubled), self.tape.pick((None, 4)))
        else:
            self.world.resume(GENEROUS if more else None, self.tape.pick((None, None, 2)))
        return True

    def _answer(self, task: TaskState) -> None:
        question = task.decision.question if task.decision is not None else None
        assert question is not None
        effect = self.tape.pick([option.effect for option in question.options] + ["approve"])
        self.world.answer(task.id, effect, iterations=self.tape.pick((0, 1, 2)), guidance=self.tape.pick(("", "so")))


def play(world: World, tape: Tape, *, mischief: int) -> Referee:
    referee, around = Referee(world), Mischief(world, tape, mischief)
    for _ in range(steps_at_most(world, mischief)):
        step = world.next()
        if isinstance(step, Done):
            if not around.person():
                return referee
            continue
        referee.before(step)
        if around.in_between(step):
            referee.after(step)
        else:
            around.person()
    raise AssertionError(f"no end: {world.told()}")


def steps_at_most(world: World, mischief: int) -> int:
    """Every iteration has so many steps, every task so many iterations, and each disturbance adds at most a few."""
    total = 10
    for task in world.declared or world.state.tasks:
        frozen = task if isinstance(task, FrozenTask) else task.task
        failures, reviewers = frozen.settings.max_agent_failures, len(frozen.reviewers)
        steps = 3 * failures + 2 * failures * reviewers + 9
        rounds = frozen.settings.max_iterations + 2
        total += steps * rounds * (1 + mischief)
    return total + 8 * mischief


def same_again(world: World) -> None:
    """The same journal gives the same states, the same steps and the same decisions."""
    states: list[RunState] = [RunState()]
    for entry in world.journal:
        states.append(apply(states[-1], entry))
    assert states[-1] == world.state
    for length, step in world.asked:
        assert next_step(states[length]) == step
    for situation, decision in world.decided:
        assert decide(situation) == decision


@MANY
@given(some_tasks(), some_limits, tapes, st.booleans())
def test_every_run_ends_and_keeps_its_promises(
    tasks: tuple[FrozenTask, ...], limits: Limits, numbers: list[int], discover: bool
) -> None:
    plan = a_plan(a_task("whole"), limits=limits, discover=True) if discover else a_plan(*tasks, limits=limits)
    tape = Tape(numbers)
    world = World(plan, FromTape(tape), declared=tasks)
    play(world, tape, mischief=0)
    same_again(world)


@MANY
@given(some_tasks(), some_limits, tapes, tapes)
def test_stops_crashes_answers_and_resumes_break_no_promise(
    tasks: tuple[FrozenTask, ...], limits: Limits, numbers: list[int], others: list[int]
) -> None:
    world = World(a_plan(*tasks, limits=limits), FromTape(Tape(numbers)))
    play(world, Tape(others), mischief=6)
    same_again(world)


@SOME
@given(some_tasks(), some_limits, tapes)
def test_time_that_passes_in_between_breaks_no_promise(
    tasks: tuple[FrozenTask, ...], limits: Limits, numbers: list[int]
) -> None:
    world = World(a_plan(*tasks, limits=limits), FromTape(Tape(numbers)), friction=0.25)
    for _ in range(steps_at_most(world, 0)):
        step = world.next()
        if isinstance(step, Done):
            break
        if isinstance(step, CallAgent | CallReviewer):
            Referee._there_is_budget(world.state, step.task, step.iteration)
        world.finish(step)
    assert isinstance(world.next(), Done)
    same_again(world)


def ending(world: World) -> tuple[object, ...]:
    """How a run came out, without when and under which names."""
    tasks = tuple(
        (
            task.id,
            task.status,
            task.limit,
            task.iterations,
            tuple(
                (
                    attempt.iteration,
                    attempt.turns,
                    attempt.suite,
                    attempt.reviews,
                    attempt.changed,
                    attempt.decision,
                )
                for attempt in task.attempts
            ),
        )
        for task in world.state.tasks
    )
    edits = sorted(edit.rsplit("/", 1)[0] for edit in world.tree)
    return tasks, edits, world.state.finished


def driver_dies_after(world: World, length: int) -> None:
    """Run until the journal has this many entries, then no further."""
    while len(world.journal) < length:
        performing = world.perform(world.next())
        for _ in performing:
            if len(world.journal) >= length:
                performing.close()
                break
    world.crash()


@SOME
@given(some_tasks(), tapes, st.sampled_from((1e6, 0.3, 3.0)))
def test_a_run_that_dies_after_any_entry_comes_out_as_if_it_had_not(
    tasks: tuple[FrozenTask, ...], numbers: list[int], money: float
) -> None:
    plan = a_plan(*tasks[:2], limits=GENEROUS.model_copy(update={"max_total_cost": money}))

    def outcomes() -> Outcomes:
        return FromTape(Tape(numbers), keyed=True, stops=False)

    undisturbed = World(plan, outcomes())
    undisturbed.run()
    for length in range(1, len(undisturbed.journal)):
        world = World(plan, outcomes())
        driver_dies_after(world, length)
        world.resume()
        world.run()
        assert ending(world) == ending(undisturbed), f"after entry {length}"


@pytest.mark.parametrize("outcome", [one for one in Outcome if one is not Outcome.PASSED])
@given(most=st.integers(1, 5), reviewers=st.integers(0, 2))
@settings(max_examples=10, deadline=None)
def test_tests_that_never_pass_take_exactly_the_allowed_iterations(outcome: Outcome, most: int, reviewers: int) -> None:
    task = a_task(reviewers=reviewers, settings=Settings(max_iterations=most))
    world = World(a_plan(task), Scripted(suites={("a", 0): [FAILED]}, suite_else=SuiteResult(outcome)))
    world.run()
    ended = world.state.task("a")
    assert (ended.status, ended.iterations) == ("escalated", most)
    assert ended.decision is not None
    assert ended.decision.reason == "max-iterations"
    assert len([claim for claim in world.events(StageStarted) if claim.stage == "generate"]) == most


@given(most=st.integers(1, 5), more=st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_an_answer_grants_exactly_so_many_iterations_more(most: int, more: int) -> None:
    world = World(a_plan(a_task(settings=Settings(max_iterations=most))), Scripted(suite_else=FAILED))
    world.run()
    world.answer("a", "continue", iterations=more, guidance="try this")
    world.run()
    assert world.state.task("a").iterations == most + more
    assert world.state.task("a").guidance == ((most + 1, "try this"),)


def test_a_reviewer_who_always_rejects_takes_exactly_the_allowed_iterations() -> None:
    outcomes = Scripted(suites={("a", 0): [FAILED]}, review_else=ReviewResult("reject"))
    world = World(a_plan(a_task(reviewers=1)), outcomes)
    world.run()
    assert (world.state.task("a").status, world.state.task("a").iterations) == ("escalated", 3)


def test_a_suite_that_is_green_from_the_start_needs_no_agent() -> None:
    world = World(a_plan(a_task(reviewers=2)), Scripted())
    world.run()
    assert (world.state.task("a").status, world.state.task("a").iterations) == ("proceed", 0)
    assert not world.events(TurnFinished)
    assert len(world.events(ReviewFinished)) == 2


def test_an_agent_that_keeps_failing_is_called_so_many_times_and_no_more() -> None:
    outcomes = Scripted(suite_else=FAILED, turn_else=TurnResult(TurnOutcome.CRASHED))
    world = World(a_plan(a_task(settings=Settings(max_agent_failures=2))), outcomes)
    world.run()
    ended = world.state.task("a")
    assert ended.decision is not None
    assert (ended.status, ended.decision.reason, ended.iterations) == ("escalated", "agent-failed", 0)
    assert len(world.events(TurnFinished)) == 2
    assert world.tree == frozenset()


def test_a_reviewer_that_keeps_failing_is_never_an_approval() -> None:
    world = World(a_plan(a_task(reviewers=1)), Scripted(review_else=ReviewResult("failed")))
    world.run()
    ended = world.state.task("a")
    assert ended.decision is not None
    assert (ended.status, ended.decision.reason) == ("escalated", "agent-failed")
    assert len(world.events(ReviewFinished)) == 3


def test_tasks_that_need_nothing_of_an_escalated_one_go_on() -> None:
    tasks = (a_task("a"), a_task("b", needs=("a",)), a_task("c"), a_task("d", needs=("c",)))
    failing = {("a", iteration): [FAILED] for iteration in range(4)}
    world = World(a_plan(*tasks), Scripted(suites=failing))
    world.run()
    assert [task.status for task in world.state.tasks] == ["escalated", "waiting", "proceed", "proceed"]
    assert world.state.finished is not None
    assert (world.state.finished.decision, world.state.finished.exit_code) == ("escalate", ExitCode.ESCALATED)


def test_a_task_goes_on_once_the_escalated_one_that_it_needs_is_approved() -> None:
    tasks = (a_task("a", reviewers=1), a_task("b", needs=("a",)))
    world = World(a_plan(*tasks), Scripted(review_else=ReviewResult("pending")))
    world.run()
    assert [task.status for task in world.state.tasks] == ["escalated", "waiting"]
    world.answer("a", "approve")
    world.run()
    assert [task.status for task in world.state.tasks] == ["proceed", "proceed"]


# What a stop or a limit in an unfortunate moment must not do


def test_a_finished_turn_is_kept_when_a_stop_comes_before_its_snapshot() -> None:
    world = World(a_plan(), Scripted(suites={("a", 0): [FAILED]}))
    world.run(TakeSnapshot, stage="generate")
    world.stop()
    world.run()
    assert world.state.task("a").status == "stopped"
    world.resume()
    world.run(RunTests)
    assert {edit.rsplit("/", 1)[0] for edit in world.tree} == {"a/1/done"}
    world.run()
    assert world.state.task("a").status == "proceed"
    assert len(world.events(TurnFinished)) == 1


def test_a_finished_turn_is_kept_when_the_time_is_up_just_then() -> None:
    limits = GENEROUS.model_copy(update={"max_total_duration": 10.375})
    outcomes = Scripted(suites={("a", 0): [FAILED]}, turn_else=TurnResult(seconds=8.125))
    world = World(a_plan(limits=limits), outcomes, friction=0.125)
    world.run()
    assert (world.state.task("a").status, world.state.task("a").limit) == ("stopped", "max_total_duration")
    world.resume(GENEROUS)
    world.run()
    assert (world.state.task("a").status, world.state.task("a").attempts[-1].changed) == ("proceed", True)
    assert len(world.events(TurnFinished)) == 1


def limited_turn() -> World:
    """A task whose agent is cut off by a limit in its first iteration, and not in its second call."""
    limits = GENEROUS.model_copy(update={"max_duration_per_iteration": 60.0})
    outcomes = Scripted(suites={("a", 0): [FAILED]}, turns={("a", 1): [TurnResult(seconds=100.0), TurnResult()]})
    return World(a_plan(limits=limits), outcomes)


def test_raised_limits_let_a_turn_be_taken_again_that_a_limit_had_cut_off() -> None:
    world = limited_turn()
    world.run()
    assert (world.state.task("a").status, world.state.task("a").limit) == ("stopped", "max_duration_per_iteration")
    world.resume(GENEROUS)
    world.run()
    assert world.state.task("a").status == "proceed"
    assert {edit.rsplit("/", 1)[0] for edit in world.tree} == {"a/1/done"}


def test_raised_limits_count_also_when_the_driver_died_before_the_decision() -> None:
    world = limited_turn()
    world.run(TakeSnapshot, stage="generate")
    world.crash()
    world.resume(GENEROUS)
    world.run()
    assert world.state.task("a").status == "proceed"
    assert {edit.rsplit("/", 1)[0] for edit in world.tree} == {"a/1/done"}


def test_a_resume_without_higher_limits_still_ends_at_the_limit() -> None:
    world = limited_turn()
    world.run(TakeSnapshot, stage="generate")
    world.crash()
    world.resume()
    world.run()
    assert (world.state.task("a").status, world.state.task("a").limit) == ("stopped", "max_duration_per_iteration")


@pytest.mark.parametrize("entries", [0, 1, 2])
def test_what_a_stopped_turn_left_is_taken_out_before_the_next_call(entries: int) -> None:
    turns = {("a", 1): [TurnResult(TurnOutcome.STOPPED), TurnResult()]}
    world = World(a_plan(), Scripted(suites={("a", 0): [FAILED]}, turns=turns))
    world.run(CallAgent)
    driver_dies_after(world, len(world.journal) + 2 + entries)
    world.resume()
    world.run(CallAgent)
    assert world.tree == frozenset()
    world.run()
    assert world.state.task("a").status == "proceed"


def test_after_a_limit_the_next_change_is_measured_from_where_the_turn_begins_again() -> None:
    world = limited_turn()
    world.run()
    world.resume(GENEROUS)
    assert isinstance(world.run(CallAgent), CallAgent)
    task = world.state.task("a")
    assert world.snapshots[task.latest] == world.tree == frozenset()
    assert task.latest_tree in {"", world.tree_id()}


def test_the_task_that_is_under_way_goes_before_one_that_was_answered() -> None:
    failing = {("a", iteration): [FAILED] for iteration in range(4)} | {("b", 0): [FAILED]}
    world = World(a_plan(a_task("a"), a_task("b")), Scripted(suites=failing))
    world.run(CallAgent)
    while world.state.task("b").status == "waiting":
        world.finish(world.next())
    world.run(CallAgent)
    world.interrupt()
    world.answer("a", "continue", iterations=1)
    step = world.next()
    assert isinstance(step, CallAgent)
    assert step.task == "b"
    world.run()
    assert world.state.task("b").status == "proceed"


def test_the_accepted_work_of_others_stays_when_a_stopped_task_goes_on() -> None:
    limits = GENEROUS.model_copy(update={"max_cost_per_iteration": 1.0})
    outcomes = Scripted(
        suites={("a", 0): [FAILED], ("a", 1): [FAILED], ("b", 0): [FAILED]},
        turns={("a", 1): [TurnResult(cost=2.0)]},
    )
    world = World(a_plan(a_task("a"), a_task("b"), limits=limits), outcomes)
    world.run()
    assert [task.status for task in world.state.tasks] == ["stopped", "proceed"]
    world.resume(GENEROUS)
    world.run()
    assert [task.status for task in world.state.tasks] == ["proceed", "proceed"]
    assert {edit.rsplit("/", 1)[0] for edit in world.tree} >= {"b/1/done", "a/2/done"}


def test_an_approved_attempt_is_back_in_the_tree_whatever_the_escalation_left_there() -> None:
    task = a_task(reviewers=1, settings=Settings(on_escalate="base"))
    outcomes = Scripted(suites={("a", 0): [FAILED]}, review_else=ReviewResult("pending"))
    world = World(a_plan(task), outcomes)
    world.run()
    assert world.tree == frozenset()
    world.answer("a", "approve")
    world.run()
    assert world.state.task("a").status == "proceed"
    assert {edit.rsplit("/", 1)[0] for edit in world.tree} == {"a/1/done"}


def test_nobody_can_approve_what_was_not_tested() -> None:
    outcomes = Scripted(suites={("a", 0): [FAILED]}, turn_else=TurnResult(TurnOutcome.CRASHED))
    world = World(a_plan(a_task(reviewers=1)), outcomes)
    world.run()
    world.answer("a", "approve")
    world.run()
    assert world.state.task("a").status == "escalated"
    assert len(world.events(TurnFinished)) == 3


def test_a_stop_before_the_baseline_does_not_make_the_agent_work_on_a_green_suite() -> None:
    world = World(a_plan(), Scripted())
    world.run(RunTests)
    world.stop()
    world.run()
    world.answer("a", "continue")
    world.run()
    assert (world.state.task("a").status, world.state.task("a").iterations) == ("proceed", 0)
    assert not world.events(TurnFinished)


def test_without_an_agent_a_rejection_by_a_person_ends_the_task() -> None:
    world = World(a_plan(a_task(agent=False, reviewers=1)), Scripted(review_else=ReviewResult("pending")))
    world.run()
    assert world.state.task("a").status == "escalated"
    world.answer("a", "continue")
    world.run()
    ended = world.state.task("a")
    assert ended.decision is not None
    assert (ended.status, ended.decision.reason) == ("aborted", "usage-error")
    assert "no agent" in ended.decision.explanation


def test_a_stop_before_the_first_task_is_a_stop_and_no_success() -> None:
    world = World(a_plan(), Scripted())
    world.stop()
    assert world.next() == FinishRun(ExitCode.SAFETY, proceed=False)
    world.run()
    world.resume()
    world.run()
    assert world.state.task("a").status == "proceed"


def test_a_stop_between_two_tasks_is_told_by_the_exit_code() -> None:
    world = World(a_plan(a_task("a"), a_task("b")), Scripted())
    world.run(Settle)
    world.stop()
    world.run()
    assert [task.status for task in world.state.tasks] == ["proceed", "waiting"]
    assert world.state.finished is not None
    assert world.state.finished.exit_code == ExitCode.SAFETY


def test_a_run_without_tasks_is_no_success() -> None:
    world = World(a_plan(a_task("whole"), discover=True), Scripted(), declared=())
    world.run(FinishRun)
    assert world.next() == FinishRun(ExitCode.NOT_ACCEPTED, proceed=False)
