"""State as a fold of the journal: `apply` one event at a time, and resuming is folding again. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from pytest_iterctl.control.events import (
    Advised,
    Answered,
    BaseLost,
    BaseProved,
    CheckpointWritten,
    Classified,
    Decided,
    Event,
    HooksFound,
    Interrupted,
    Judged,
    Recovered,
    Resumed,
    ReviewFinished,
    RunFinished,
    RunStarted,
    Settled,
    SnapshotTaken,
    StageStarted,
    StopRequested,
    StrategyChosen,
    SuiteFinished,
    TasksDeclared,
    TaskStarted,
    TurnFinished,
    Undone,
    Waited,
    Warned,
)
from pytest_iterctl.control.state import Attempt, Entry, RunState, TaskState, TaskStatus
from pytest_iterctl.plan.frozen import FrozenTask

__all__ = ["apply", "fold"]


#: Hooks that are asked no more once one has not answered in time.
_ADVICE = frozenset({"iterctl_classify", "iterctl_choose_strategy"})


def fold(entries: Iterable[Entry], state: RunState | None = None) -> RunState:
    """The state after these entries; folding a prefix and then the rest is the same as folding the whole."""
    current = state if state is not None else RunState()
    for entry in entries:
        current = apply(current, entry)
    return current


def apply(state: RunState, entry: Entry) -> RunState:
    """The state after one more entry."""
    event = entry.event
    moved = replace(
        state,
        clock=max(state.clock_at_least, entry.clock),
        waiting=None,
        sequence=entry.sequence,
        began_at=state.began_at or entry.at,
        last_at=entry.at,
    )
    if state.waiting is not None and isinstance(event, Resumed):
        # The driver died in it: it is waited for again.
        cut = state.waiting
        moved = _in_attempt(moved, cut.task, cut.iteration, lambda a: replace(a, waited=max(a.waited - 1, 0)))
    if isinstance(event, _WORK | Decided) and event.task != state.at_work:
        moved = _taken_up(moved, event.task, state.clock)
    after = _happened(moved, event)
    if isinstance(event, StageStarted):
        after = replace(after, claimed_at=entry.at, claimed_clock=after.clock)
    return replace(after, at_work=event.task) if isinstance(event, _WORK) else after


def _happened(moved: RunState, event: Event) -> RunState:
    match event:
        case RunStarted():
            return _run_started(moved, event)
        case HooksFound():
            return replace(moved, hooks=frozenset(event.hooks), strategies=event.strategies)
        case TasksDeclared():
            return replace(moved, tasks=tuple(_fresh(task) for task in event.tasks), declared=True)
        case StageStarted():
            opened = _in_attempt(moved, event.task, event.iteration, lambda attempt: attempt)
            return replace(opened, open_stage=event)
        case StopRequested():
            return replace(moved, stopped_by=event.by, interrupted=event.interrupts)
        case Interrupted():
            return replace(moved, interrupted=True)
        case Resumed():
            return _resumed(moved, event)
        case Warned():
            return replace(moved, warnings=(*moved.warnings, event.text))
        case RunFinished():
            return replace(moved, finished=event)
        case _:
            return _task_event(moved, event)


#: Events of a task's work in the tree. Answers, decisions and what follows from them leave it as it is or was.
_WORK = (
    TaskStarted
    | StageStarted
    | StrategyChosen
    | TurnFinished
    | SuiteFinished
    | BaseProved
    | Judged
    | ReviewFinished
    | Classified
    | Advised
    | SnapshotTaken
    | Undone
    | Recovered
    | Waited
)


def _taken_up(state: RunState, task_id: str, clock: float) -> RunState:
    """Work turns to this task. The time that others worked in between is not time of its open iteration."""

    def resting(task: TaskState) -> TaskState:
        last = task.attempt
        if last is None or last.decision is not None:
            return task
        rested = replace(last, began=clock - last.seconds, ended=clock)
        return replace(task, attempts=(*task.attempts[:-1], rested))

    return _with(state, task_id, resting)


def _fresh(task: FrozenTask) -> TaskState:
    return TaskState(task=task, bound=task.settings.max_iterations)


def _run_started(state: RunState, event: RunStarted) -> RunState:
    return replace(
        state,
        run=event.run,
        started=event,
        limits=event.plan.limits,
        tasks=tuple(_fresh(task) for task in event.plan.tasks),
        declared=not event.plan.discover,
    )


def _task_event(state: RunState, event: Event) -> RunState:
    match event:
        case TaskStarted():
            return _with(
                state,
                event.task,
                lambda task: replace(
                    task,
                    status="running",
                    base=event.base,
                    base_tree=event.tree,
                    floor=event.base,
                    latest=event.base,
                    latest_tree=event.tree,
                    attempts=(Attempt(iteration=0, began=state.clock - event.under_way, ended=state.clock),),
                ),
            )
        case StrategyChosen():
            return _strategy_chosen(state, event)
        case TurnFinished() | SuiteFinished() | ReviewFinished() | Classified():
            return _stage_event(state, event)
        case BaseProved() | BaseLost() | Judged():
            return _gate_event(state, event)
        case SnapshotTaken():
            return _snapshot_taken(state, event)
        case Advised():
            return _advised(state, event)
        case Undone():
            back = _with(state, event.task, lambda task: _put_back(task, event.restored))
            return _in_attempt(back, event.task, event.iteration, lambda attempt: _undone(attempt, event.destroyed))
        case Recovered():
            back = _with(state, event.task, lambda task: replace(_put_back(task, event.restored), reopen_at=""))
            if event.stage in {"generate", "review"}:
                # Somebody was called, and nobody knows what it cost.
                back = _in_attempt(back, event.task, event.iteration, _with_lost_call)
            return replace(back, open_stage=None)
        case Waited():
            # Written down before it begins, so its time counts from here on: what comes next must know of it.
            later = replace(state, clock=state.clock + event.seconds, waiting=event, waiting_since=state.clock)
            return _in_attempt(later, event.task, event.iteration, lambda a: replace(a, waited=a.waited + 1))
        case Decided():
            return _decided(state, event)
        case Settled():
            return _with(state, event.task, lambda task: replace(task, settled=event))
        case Answered():
            return _answered(state, event)
        case CheckpointWritten():
            return _with(state, event.task, lambda task: replace(task, checkpoints=(*task.checkpoints, event.path)))
        case _:
            return state


def _stage_event(state: RunState, event: TurnFinished | SuiteFinished | ReviewFinished | Classified) -> RunState:
    match event:
        case TurnFinished():
            return _turn_finished(state, event)
        case SuiteFinished():
            closed = _worked(state, event.suite.seconds)
            return _in_attempt(closed, event.task, event.iteration, lambda a: replace(a, suite=event.suite))
        case ReviewFinished():
            return _review_finished(state, event)
        case Classified():
            return _in_attempt(state, event.task, event.iteration, lambda attempt: _classified(attempt, event))


def _gate_event(state: RunState, event: BaseProved | BaseLost | Judged) -> RunState:
    match event:
        case BaseProved():
            closed = _worked(state, event.proof.seconds)
            return _with(closed, event.task, lambda task: replace(task, proof=event.proof))
        case BaseLost():
            return _with(
                state,
                event.task,
                lambda task: replace(
                    task,
                    proof=None,
                    earlier_proof=task.proof or task.earlier_proof,
                    edited=tuple(dict.fromkeys((*task.edited, *event.edited))),
                ),
            )
        case Judged():
            # What the gate takes is the run's time, not the iteration's: no agent could do anything about it.
            took = event.gate.seconds
            closed = _worked(state, took)
            return _in_attempt(
                closed, event.task, event.iteration, lambda a: replace(a, gate=event.gate, began=a.began + took)
            )


def _with(state: RunState, task_id: str, change: Callable[[TaskState], TaskState]) -> RunState:
    return replace(state, tasks=tuple(change(task) if task.id == task_id else task for task in state.tasks))


def _in_attempt(state: RunState, task_id: str, iteration: int, change: Callable[[Attempt], Attempt]) -> RunState:
    """Change one attempt, opening it first if this is the first that is heard of it."""

    def with_attempt(task: TaskState) -> TaskState:
        attempts = task.attempts
        if not attempts or attempts[-1].iteration < iteration:
            attempts = (*attempts, Attempt(iteration=iteration, began=state.clock))
        last = replace(change(attempts[-1]), ended=state.clock)
        return replace(task, attempts=(*attempts[:-1], last), go_on=False)

    return _with(state, task_id, with_attempt)


def _put_back(task: TaskState, commit: str) -> TaskState:
    """The work tree holds an earlier snapshot again; which tree that is, is known only if it is the latest one."""
    return replace(task, latest=commit, latest_tree=task.latest_tree if commit == task.latest else "")


def _undone(attempt: Attempt, destroyed: str) -> Attempt:
    snapshots = tuple(pair for pair in attempt.snapshots if pair[0] == "start")
    if destroyed:
        return replace(attempt, snapshots=snapshots, destroyed=destroyed)
    return replace(attempt, undone=attempt.undone + 1, snapshots=snapshots)


def _classified(attempt: Attempt, event: Classified) -> Attempt:
    update = {"classified": event.classification}
    match event.stage:
        case "generate" if attempt.turns:
            return replace(attempt, turns=(*attempt.turns[:-1], attempt.turns[-1].model_copy(update=update)))
        case "review" if attempt.review_turns:
            last = attempt.review_turns[-1].model_copy(update=update)
            return replace(attempt, review_turns=(*attempt.review_turns[:-1], last))
        case "test" if attempt.gate is not None and attempt.gate.suite is not None:
            suite = attempt.gate.suite.model_copy(update=update)
            return replace(attempt, gate=attempt.gate.model_copy(update={"suite": suite}))
        case "test" if attempt.suite is not None:
            return replace(attempt, suite=attempt.suite.model_copy(update=update))
        case _:
            return attempt


def _advised(state: RunState, event: Advised) -> RunState:
    """As for the gate, but what comes before an iteration has begun (how to go about it) does not open it."""

    def later(task: TaskState) -> TaskState:
        last = task.attempt
        if last is None or last.iteration != event.iteration:
            return task
        moved = replace(last, began=last.began + event.seconds, ended=state.clock)
        return replace(task, attempts=(*task.attempts[:-1], moved))

    after = _with(replace(state, worked=state.worked + event.seconds), event.task, later)
    return replace(after, hooks=after.hooks - _ADVICE) if event.hung and after.hooks is not None else after


def _worked(state: RunState, seconds: float) -> RunState:
    """A stage is over: nothing is open any more, and its time was spent outside of the loop itself."""
    return replace(state, open_stage=None, worked=state.worked + seconds)


def _with_lost_call(attempt: Attempt) -> Attempt:
    return replace(attempt, lost_calls=attempt.lost_calls + 1)


def _strategy_chosen(state: RunState, event: StrategyChosen) -> RunState:
    def chosen(task: TaskState) -> TaskState:
        switched = replace(task, agent_at=task.agent_at + event.strategy.next_agent)
        return replace(switched, reopen_at=event.start_from) if event.start_from else switched

    opened = _in_attempt(state, event.task, event.iteration, lambda a: replace(a, choices=(*a.choices, event)))
    return _with(opened, event.task, chosen)


def _turn_finished(state: RunState, event: TurnFinished) -> RunState:
    failed = event.turn.outcome.is_failure
    closed = _in_attempt(
        _worked(state, event.turn.seconds),
        event.task,
        event.iteration,
        lambda attempt: replace(attempt, turns=(*attempt.turns, event.turn)),
    )
    return _with(
        closed, event.task, lambda task: replace(task, agent_failures=task.agent_failures + 1 if failed else 0)
    )


def _review_finished(state: RunState, event: ReviewFinished) -> RunState:
    failed = event.review.status == "failed"

    def reviewed(attempt: Attempt) -> Attempt:
        reviews = attempt.reviews if failed else (*attempt.reviews, event.review)
        return replace(attempt, reviews=reviews, review_turns=(*attempt.review_turns, event.turn))

    closed = _in_attempt(_worked(state, event.turn.seconds), event.task, event.iteration, reviewed)
    return _with(
        closed, event.task, lambda task: replace(task, reviewer_failures=task.reviewer_failures + 1 if failed else 0)
    )


def _snapshot_taken(state: RunState, event: SnapshotTaken) -> RunState:
    after_others = event.stage == "start" and state.at_work != event.task

    def taken(task: TaskState) -> TaskState:
        latest = replace(task, latest=event.commit, latest_tree=event.tree)
        return replace(latest, floor=event.commit, floor_iteration=event.iteration) if after_others else latest

    def shot(attempt: Attempt) -> Attempt:
        change = event.change if event.stage == "generate" else attempt.change
        made = event.tree if event.stage == "generate" else attempt.made
        tree = attempt.tree if event.stage == "start" else event.tree
        snapshots = (*attempt.snapshots, (event.stage, event.commit))
        return replace(attempt, snapshots=snapshots, change=change, tree=tree, made=made)

    return _in_attempt(_with(state, event.task, taken), event.task, event.iteration, shot)


def _decided(state: RunState, event: Decided) -> RunState:
    decision = event.decision
    status: TaskStatus = "running"
    if decision.action == "proceed":
        status = "proceed"
    elif decision.action == "escalate":
        ends: dict[str, TaskStatus] = {
            "limit": "stopped",
            "stopped": "stopped",
            "no-tests": "aborted",
            "usage-error": "aborted",
        }
        status = ends.get(decision.reason, "escalated")
    limit = decision.limit or ("person" if decision.reason == "stopped" else "")
    decided = _in_attempt(state, event.task, event.iteration, lambda a: replace(a, decision=decision))

    def ended(task: TaskState) -> TaskState:
        return replace(task, status=status, limit=limit, settled=None if status == "proceed" else task.settled)

    return _with(decided, event.task, ended)


def _answered(state: RunState, event: Answered) -> RunState:
    def answered(task: TaskState) -> TaskState:
        heard = replace(task, answers=(*task.answers, event))
        if event.effect == "abort":
            return replace(heard, status="aborted", limit="")
        reopened = replace(heard, status="running", limit="", agent_failures=0, reviewer_failures=0)
        if event.effect == "approve":
            return _approved(reopened, alone=state.at_work == task.id) or heard
        last = task.attempts[-1]
        if event.review_again:
            back = _at_last_attempt(reopened, replace(last, decision=None), alone=state.at_work == task.id)
            return back or heard
        untested = last.iteration == 0 and last.suite is None
        if untested:  # a suite that is green before the first iteration needs no agent, so it is looked at first
            reopened = replace(reopened, attempts=(*task.attempts[:-1], replace(last, decision=None)))
        more = event.iterations or task.settings.max_iterations
        guidance = task.guidance
        if event.guidance:
            guidance = (*guidance, (last.iteration + 1, event.guidance))
        bound = last.iteration + more
        released = (*task.released, *event.may_change)
        forgiven = replace(_from_here(reopened), released=released, forgiven=last.iteration)
        return replace(forgiven, bound=bound, guidance=guidance, go_on=True)

    after = replace(_with(state, event.task, answered), finished=None, stopped_by="", interrupted=False)
    return replace(after, limits=event.limits) if event.limits is not None else after


def _approved(task: TaskState, *, alone: bool) -> TaskState | None:
    """The last attempt as approved by a person; None when it is not there to be approved."""
    last = task.attempts[-1]
    if not last.may_be_approved:
        return None
    return _at_last_attempt(task, replace(last, decision=None, approved=True), alone=alone)


def _at_last_attempt(task: TaskState, last: Attempt, *, alone: bool) -> TaskState | None:
    """The task with its last attempt open again; None when the work tree neither holds it nor may be put back to it."""
    attempts = (*task.attempts[:-1], last)
    if task.holds_last_attempt:
        return replace(task, attempts=attempts)
    if alone:
        return replace(task, attempts=attempts, settled=None, reopen_at=last.latest_snapshot or task.base)
    return None


def _from_here(task: TaskState) -> TaskState:
    """The task goes on from whatever the work tree holds, which a snapshot will tell."""
    return replace(task, settled=None, reopen_at="", latest="", latest_tree="")


def _resumed(state: RunState, event: Resumed) -> RunState:
    limits = event.limits or state.limits

    def reopened(task: TaskState) -> TaskState:
        raised = replace(task, bound=max(task.bound, event.max_iterations or 0))
        if not _may_go_on(task, event):
            return raised
        running = replace(raised, status="running", limit="", agent_failures=0, reviewer_failures=0)
        attempts, reopen_at = _reopened(task, state.clock)
        if state.at_work == task.id:
            return replace(running, settled=None, attempts=attempts, reopen_at=reopen_at)
        # Others have worked in the tree since: to put it back would take their work out of it.
        last = task.attempts[-1]
        if task.holds_last_attempt or not last.generated:
            return replace(_from_here(running), attempts=attempts)
        return _from_here(running) if last.iteration < raised.bound else raised

    return replace(
        state,
        limits=limits,
        tasks=tuple(reopened(task) for task in state.tasks),
        stopped_by="",
        interrupted=False,
        finished=None,
        resumes=state.resumes + 1,
    )


def _may_go_on(task: TaskState, event: Resumed) -> bool:
    """Stopped by a person; or by a limit, perhaps not yet decided when the driver died, and the limits are others."""
    by_person = task.status == "stopped" and task.limit == "person"
    open_end = task.status == "running" and task.attempt is not None and task.attempt.decision is None
    by_limit = task.status == "stopped" or (open_end and task.attempt is not None and bool(task.attempt.ended_by))
    return by_person or (by_limit and event.limits is not None)


def _reopened(task: TaskState, clock: float) -> tuple[tuple[Attempt, ...], str]:
    """The attempts with the last one open again, and the snapshot from which it goes on."""
    *earlier, last = task.attempts
    suite = last.suite if last.suite is not None and not last.suite.limit else None
    cut_short = last.gate is not None and last.gate.suite is not None and last.gate.suite.limit
    gate = last.gate if suite is not None and not cut_short else None
    if last.generated:
        snapshots = tuple(pair for pair in last.snapshots if suite is not None or pair[0] not in {"test", "review"})
        reopen_at = snapshots[-1][1] if snapshots else task.base
    else:
        # The agent's turn is taken again, so what it had left behind by then no longer belongs to the attempt.
        snapshots = tuple(pair for pair in last.snapshots if pair[0] == "start")
        reopen_at = task.before_turn
    open_again = replace(
        last,
        decision=None,
        suite=suite,
        gate=gate,
        snapshots=snapshots,
        began=clock - last.seconds,
        ended=clock,
        undone=last.failed_turns,
        waited=last.failed_turns + last.failed_reviews,
    )
    return (*earlier, open_again), reopen_at
