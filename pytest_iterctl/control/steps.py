"""What to do next, from the state alone: the controller returns a step and performs nothing.

The loop performs the step, writes what happened into the journal, folds it in and asks again. Killed in between, it
asks the same question of the same state after a resume; that is all there is to resuming.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_iterctl.control.evidence import Outcome, TurnOutcome
from pytest_iterctl.control.limits import Spent, allowance, exceeded, exhausted, out_of_time
from pytest_iterctl.control.standing import (
    backoff,
    failed_alike,
    gave_up,
    held_back,
    limits_of,
    review_is_due,
    run_exit_code,
    spent,
)
from pytest_iterctl.control.state import Attempt, RunState, TaskState
from pytest_iterctl.errors import ExitCode
from pytest_iterctl.plan.frozen import NamedAgent

__all__ = [
    "CallAgent",
    "CallReviewer",
    "ChooseStrategy",
    "Decide",
    "Declare",
    "Done",
    "FinishRun",
    "Judge",
    "ProveBase",
    "PutBack",
    "Recover",
    "RunTests",
    "Settle",
    "StartTask",
    "Step",
    "TakeSnapshot",
    "Undo",
    "Wait",
    "next_step",
]


@dataclass(frozen=True, slots=True)
class Declare:
    """Ask the suite which tasks its iterate markers declare."""


@dataclass(frozen=True, slots=True)
class StartTask:
    task: str


@dataclass(frozen=True, slots=True)
class Recover:
    """Put the work tree back to the beginning of a stage that never finished."""

    task: str
    iteration: int
    stage: str
    to: str


@dataclass(frozen=True, slots=True)
class ChooseStrategy:
    """Say how the next try goes about it."""

    task: str
    iteration: int


@dataclass(frozen=True, slots=True)
class CallAgent:
    task: str
    iteration: int
    agent: NamedAgent


@dataclass(frozen=True, slots=True)
class Undo:
    """Take out what a turn left: of an agent that failed, or that destroyed what no task asks for."""

    task: str
    iteration: int
    to: str
    number: int
    destroyed: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    task: str
    iteration: int
    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class RunTests:
    task: str
    iteration: int


@dataclass(frozen=True, slots=True)
class ProveBase:
    """Keep the base's files out of reach, run its tests a few times, and try the clean room on it."""

    task: str
    iteration: int


@dataclass(frozen=True, slots=True)
class Judge:
    """See whether a green run can be believed."""

    task: str
    iteration: int


@dataclass(frozen=True, slots=True)
class PutBack:
    """Undo the agent's changes of protected files, so that the next iteration begins with the tests as they were."""

    task: str
    iteration: int


@dataclass(frozen=True, slots=True)
class CallReviewer:
    task: str
    iteration: int
    reviewer: NamedAgent


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    task: str
    iteration: int
    stage: str


@dataclass(frozen=True, slots=True)
class Decide:
    task: str
    iteration: int


@dataclass(frozen=True, slots=True)
class Settle:
    task: str


@dataclass(frozen=True, slots=True)
class FinishRun:
    exit_code: ExitCode
    proceed: bool


@dataclass(frozen=True, slots=True)
class Done:
    pass


Step = (
    Declare
    | StartTask
    | Recover
    | ChooseStrategy
    | CallAgent
    | Undo
    | Wait
    | RunTests
    | ProveBase
    | Judge
    | PutBack
    | CallReviewer
    | TakeSnapshot
    | Decide
    | Settle
    | FinishRun
    | Done
)


def next_step(state: RunState) -> Step:
    """The one thing to do now."""
    if state.finished is not None:
        return Done()
    if state.open_stage is not None:
        stage = state.open_stage
        return Recover(stage.task, stage.iteration, stage.stage, stage.before)
    for task in state.tasks:
        if task.status not in {"waiting", "running"} and task.settled is None and task.base:
            return Settle(task.id)
    running = [task for task in state.tasks if task.status == "running"]
    if running:
        # The task that is under way goes first: another one would find its half-done work in the tree.
        return _in_task(state, next((task for task in running if task.id == state.at_work), running[0]))
    if not state.stopped_by:
        if not state.declared:
            return Declare()
        ready = _ready(state)
        if ready is not None:
            return StartTask(ready.id)
    proceed = bool(state.tasks) and all(task.status == "proceed" for task in state.tasks)
    return FinishRun(run_exit_code(state), proceed)


def _ready(state: RunState) -> TaskState | None:
    """The first task that waits for nothing; none once a limit of the whole run is overstepped.

    With the money just used up a task still starts: it may turn out to need no agent.
    """
    if exceeded(limits_of(state), Spent(state.cost, state.clock)):
        return None
    return next(iter(held_back(state)), None)


def _in_task(state: RunState, task: TaskState) -> Step:
    attempt = task.attempts[-1]
    if task.reopen_at:
        return Recover(task.id, attempt.iteration, "start", task.reopen_at)
    following = attempt.iteration if attempt.decision is None else attempt.iteration + 1
    if not task.latest:
        return TakeSnapshot(task.id, following, "start")
    if attempt.decision is not None:
        if task.proof is None and task.task.agent is not None and not state.stopped_by:
            return ProveBase(task.id, following)
        if task.proof is not None and _has_protected_edits(task, attempt) and not state.stopped_by:
            return PutBack(task.id, following)
        return _generate(state, task, Attempt(iteration=following, began=state.clock))
    ends_here = bool(state.stopped_by) or _is_out_of_time(state, attempt)
    if attempt.failed_turns > attempt.undone and not (ends_here and attempt.cut_off):
        return Undo(task.id, attempt.iteration, task.before_turn, attempt.failed_turns)
    if (destroys := _destroys(state, attempt)) and not attempt.destroyed:
        return Undo(task.id, attempt.iteration, task.before_turn, attempt.failed_turns + 1, destroyed=destroys)
    if ends_here:
        return _close(task, attempt)
    if not attempt.generated:
        if task.proof is None and task.task.agent is not None:
            return ProveBase(task.id, attempt.iteration)
        if _went_back_to_edited_tests(task, attempt):
            return PutBack(task.id, attempt.iteration)
        return _generate(state, task, attempt)
    return _after_generate(state, task, attempt)


def _destroys(state: RunState, attempt: Attempt) -> str:
    allowed = limits_of(state).allow_destructive_operations
    return attempt.change.destroys if attempt.change is not None and not allowed else ""


def _close(task: TaskState, attempt: Attempt) -> Step:
    """Stopped in the middle: keep what the agent made or left (a resume goes on from it), then decide."""
    at_work = bool(attempt.turns) and (attempt.generated or attempt.cut_off)
    if at_work and not attempt.snapshot("generate"):
        return TakeSnapshot(task.id, attempt.iteration, "generate")
    return Decide(task.id, attempt.iteration)


def _generate(state: RunState, task: TaskState, attempt: Attempt) -> Step:
    if task.task.agent is None or state.stopped_by or (task.proof is not None and not task.proof.proved):
        return Decide(task.id, attempt.iteration)
    if task.agent is None or task.agent_failures >= task.settings.max_agent_failures:
        return Decide(task.id, attempt.iteration)
    if exhausted(limits_of(state), spent(state, attempt), new_iteration=False):
        return Decide(task.id, attempt.iteration)
    if failed_alike(attempt):
        return Decide(task.id, attempt.iteration)  # nobody else is called after two, so nobody else is chosen
    if len(attempt.choices) <= attempt.failed_turns:
        return ChooseStrategy(task.id, attempt.iteration)
    if gave_up(state, task, attempt):
        return Decide(task.id, attempt.iteration)
    if task.agent_failures and attempt.waited < attempt.waits_due:
        why = attempt.turns[-1].error or str(attempt.turns[-1].outcome)
        return _wait(state, task, attempt, task.agent_failures, why)
    return CallAgent(task.id, attempt.iteration, task.agent)


def _wait(state: RunState, task: TaskState, attempt: Attempt, failures: int, why: str) -> Wait:
    """The pause before the next call, no longer than the time that is left."""
    last = attempt.all_turns[-1]
    told = last.retry_after if last.outcome is TurnOutcome.RATE_LIMITED else None
    seed = f"{state.run}/{task.id}/{attempt.iteration}/{failures}"
    pause = max(backoff(task.settings, failures, attempt.strategy.backoff, seed=seed), told or 0.0)
    left = allowance(limits_of(state), spent(state, attempt), pause, in_iteration=attempt.iteration > 0)
    return Wait(task.id, attempt.iteration, left.seconds, why)


def _after_generate(state: RunState, task: TaskState, attempt: Attempt) -> Step:
    iteration = attempt.iteration
    if attempt.destroyed:
        return Decide(task.id, iteration)  # the tree is what it was, and so are its tests
    if iteration > 0 and not attempt.snapshot("generate"):
        return TakeSnapshot(task.id, iteration, "generate")
    if attempt.in_vain:
        return Decide(task.id, iteration)  # the tests would only show again what they have shown
    if attempt.suite is None:
        return RunTests(task.id, iteration)
    if not attempt.snapshot("test"):
        return TakeSnapshot(task.id, iteration, "test")
    if task.proof is None and _can_be_proved(task, attempt):
        return ProveBase(task.id, iteration)
    if attempt.gate is None and task.proof is not None and task.proof.proved and (iteration or attempt.suite.passed):
        return Judge(task.id, iteration)
    if review_is_due(task, attempt):
        over = exhausted(limits_of(state), spent(state, attempt), new_iteration=False)
        tired = task.reviewer_failures >= task.settings.max_agent_failures or gave_up(state, task, attempt)
        if over is None and not tired:
            if attempt.choice_is_due:
                return ChooseStrategy(task.id, iteration)
            if task.reviewer_failures and attempt.waited < attempt.waits_due:
                why = attempt.review_turns[-1].error or "the reviewer failed"
                return _wait(state, task, attempt, task.reviewer_failures, why)
            return CallReviewer(task.id, iteration, task.task.reviewers[len(attempt.reviews)])
        return Decide(task.id, iteration)
    if attempt.reviews and not attempt.snapshot("review"):
        return TakeSnapshot(task.id, iteration, "review")
    return Decide(task.id, iteration)


def _has_protected_edits(task: TaskState, attempt: Attempt) -> bool:
    """Whether the next iteration would find tests as an agent made them; after an escalation perhaps an older one's."""
    retried = attempt.decision is not None and attempt.decision.action == "retry"
    return any(each.touched_tests for each in ((attempt,) if retried else task.attempts))


def _went_back_to_edited_tests(task: TaskState, attempt: Attempt) -> bool:
    """Whether a strategy has put the tree back to what an attempt left that had edited tests."""
    to = attempt.put_back_to
    if not to or task.proof is None or attempt.turns or attempt.snapshot("start"):
        return False
    return any(each.touched_tests and each.latest_snapshot == to for each in task.attempts)


def _can_be_proved(task: TaskState, attempt: Attempt) -> bool:
    """Not before it is worth it: a red suite without an agent, and one that can't be run, end here anyway."""
    suite = attempt.suite
    if suite is None or suite.outcome in {Outcome.NO_TESTS, Outcome.USAGE_ERROR}:
        return False
    return suite.passed or task.task.agent is not None


def _is_out_of_time(state: RunState, attempt: Attempt) -> bool:
    # Tests cost nothing and tell a person whether the money was well spent, so only time keeps them from running.
    return bool(attempt.ended_by) or out_of_time(limits_of(state), spent(state, attempt)) is not None
