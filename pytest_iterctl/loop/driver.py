"""Driving: ask the control room for the next step, perform it, write down what happened, ask again.

The whole loop is `Driver.go`. Every step is either harmless to repeat or claimed in the journal before it begins, so
that a driver that died at any point can be followed by another that asks the same question of the same state.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from pytest_iterctl.control.decision import decide
from pytest_iterctl.control.events import (
    BaseLost,
    Decided,
    Interrupted,
    Recovered,
    RunFinished,
    SnapshotTaken,
    StopRequested,
    TaskStarted,
    Undone,
    Waited,
    Warned,
)
from pytest_iterctl.control.evidence import Change
from pytest_iterctl.control.standing import attempt_at, situation
from pytest_iterctl.control.state import RunState, TaskState
from pytest_iterctl.control.steps import (
    CallAgent,
    CallReviewer,
    ChooseStrategy,
    Decide,
    Declare,
    Done,
    FinishRun,
    Judge,
    ProveBase,
    PutBack,
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
from pytest_iterctl.errors import Interrupted as InterruptedRun
from pytest_iterctl.errors import IterctlError, SafetyError
from pytest_iterctl.feedback.compose import compact
from pytest_iterctl.loop.checkpoint import write_checkpoint
from pytest_iterctl.loop.declare import declare_tasks
from pytest_iterctl.loop.guarding import died_at
from pytest_iterctl.loop.history import History
from pytest_iterctl.loop.settle import keep_left_out, put_back_protected, settle
from pytest_iterctl.loop.stages import Stages, objections
from pytest_iterctl.loop.workspace import Workspace
from pytest_iterctl.text import file_name
from pytest_iterctl.work.pytest_run import forget_bytecode
from pytest_iterctl.work.snapshots import Snapshot

__all__ = ["Driver"]

_NAMES_SHOWN = 200
#: Steps in a row that may leave no trace; only a stop in the very first test run leaves none.
_MOST_IDLE = 3


class Driver:
    """One run, from wherever it stands to its end."""

    def __init__(
        self,
        workspace: Workspace,
        history: History,
        tick: Callable[[float, RunState], None],
        interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        self.workspace = workspace
        self.history = history
        self.snapshots = workspace.snapshots(history.run)
        self.stages = Stages(workspace, history, self.snapshots, self._tick)
        self._draw = tick
        self._interrupted = interrupted
        self._stop_file = workspace.place.stop_file(history.run)

    @property
    def state(self) -> RunState:
        return self.history.state

    def go(self) -> RunState:
        for task in self.state.tasks:
            if not self.stages.bases.is_kept(task):
                self.history.record(BaseLost(task=task.id))
        try:
            self.stages.extensions.find()
            idle = 0
            while not isinstance(step := self._next(), Done):
                before = self.state.sequence
                self._perform(step)
                idle = idle + 1 if self.state.sequence == before else 0
                if idle > _MOST_IDLE:
                    raise RuntimeError(f"{step} changes nothing")
        except KeyboardInterrupt:
            self.stages.warn_of("what was cut off", self.stages.guard.after(around=False))
            self.history.record(Interrupted())
            raise InterruptedRun(
                f"run {self.history.run} was interrupted", hint=f"go on with: iterctl resume {self.history.run}"
            ) from None
        except SafetyError as error:
            self.recover(called=False)
            self.history.record(Interrupted())
            hint = f"{error.hint}; then: iterctl resume {self.history.run}".removeprefix("; then: ")
            raise SafetyError(error.message, hint=hint) from None
        return self.state

    def recover(self, *, called: bool = True) -> None:
        """Put back a stage that was cut off, before anybody looks at the work tree: what is half done is no edit.

        Where nobody had been `called` yet, no call is missing.
        """
        claim = self.state.open_stage
        if claim is not None:
            self._recover(Recover(claim.task, claim.iteration, claim.stage if called else "start", claim.before))

    def _next(self) -> Step:
        if self._stop_file.exists() and not self.state.stopped_by:
            self.history.record(StopRequested(by="iterctl stop"))
            self._stop_file.unlink(missing_ok=True)
        elif self._interrupted() and not self.state.stopped_by:
            self.history.record(StopRequested(by="Ctrl-C", interrupts=True))
        return next_step(self.state)

    def _tick(self, elapsed: float) -> bool:
        self._draw(elapsed, self.state)
        self.history.beat()
        return self._stop_file.exists() or self._interrupted()

    def _perform(self, step: Step) -> None:
        match step:
            case ChooseStrategy():
                self.history.record(self.stages.choose(step))
            case CallAgent() | RunTests() | ProveBase() | Judge() | CallReviewer():
                self._stage(step)
            case Declare():
                declare_tasks(self.stages, self.history)
            case StartTask():
                self._start(step.task)
            case Recover():
                self._recover(step)
            case Undo():
                self._undo(step)
            case Wait():
                self._wait(step)
            case PutBack():
                self._put_back(step)
            case TakeSnapshot():
                self._snapshot(step)
            case Decide():
                self._decide(step)
            case Settle():
                settle(self.workspace, self.history, self.stages.bases, self.state.task(step.task))
                if self.state.task(step.task).status == "proceed":
                    self._side_effects(step.task)  # in the accepted tree: what they write there is not judged any more
            case FinishRun():
                self.history.record(
                    RunFinished(decision="proceed" if step.proceed else "escalate", exit_code=step.exit_code)
                )
                self.stages.bases.discard_rooms()
                if step.proceed:
                    self.stages.bases.discard()
            case Done():
                pass

    def _stage(self, step: CallAgent | RunTests | ProveBase | Judge | CallReviewer) -> None:
        match step:
            case CallAgent():
                self.stages.generate(step)
                self._classify(step, "generate")
            case RunTests():
                self.stages.test(step)
            case ProveBase():
                self.stages.prove(step)
            case Judge():
                self.stages.judge(step)
                # Only now: every iteration's tests are judged, and it is the clean room that has the last word on them.
                self._classify(step, "test")
            case CallReviewer():
                self.stages.review(step)
                self._classify(step, "review")

    def _classify(self, step: CallAgent | Judge | CallReviewer, stage: str) -> None:
        if step.iteration > 0:
            task = self.state.task(step.task)
            self.stages.extensions.classify(task, attempt_at(self.state, task, step.iteration), stage)

    def _start(self, task: str) -> None:
        snapshot = self._take(task, "0-base", f"{task}: base")
        self.history.record(TaskStarted(task=task, base=snapshot.commit, tree=snapshot.tree))

    def _take(self, task: str, name: str, message: str) -> Snapshot:
        ref = f"refs/iterctl/{self.history.run}/{task}/{name}"
        return self.snapshots.take(ref, f"iterctl {self.history.run} {message}")

    def _snapshot(self, step: TakeSnapshot) -> None:
        task = self.state.task(step.task)
        snapshot = self._take(step.task, f"{step.iteration}-{step.stage}", f"{step.task} {step.iteration} {step.stage}")
        if step.stage == "review" and snapshot.tree != task.latest_tree:
            # What is accepted is what was tested, so a reviewer that edits files has them put back.
            self.restore(task.latest, snapshot)
            self.history.record(Warned(text=f"a reviewer of {step.task} changed files; kept as {snapshot.commit[:12]}"))
            snapshot = replace(snapshot, commit=task.latest, tree=task.latest_tree)
        self.history.record(
            SnapshotTaken(
                task=step.task,
                iteration=step.iteration,
                stage=step.stage,  # type: ignore[arg-type]  # next_step names only stages
                commit=snapshot.commit,
                tree=snapshot.tree,
                change=self._change(task, snapshot, by_agent=step.stage == "generate"),
                left_out=snapshot.left_out,
            )
        )

    def _change(self, task: TaskState, snapshot: Snapshot, *, by_agent: bool) -> Change:
        if not task.latest or snapshot.tree == task.latest_tree:
            return Change()
        difference = self.snapshots.difference(task.latest, snapshot.commit)
        forget_bytecode(self.workspace.root, self.snapshots.changed_names(task.latest, snapshot.commit))
        head = self.state.started.head if self.state.started is not None else ""
        return Change(
            files=difference.files[:_NAMES_SHOWN],
            file_count=len(difference.files),
            added=difference.added,
            deleted=difference.deleted,
            destroys=self.stages.guard.destroys(task.before_turn, snapshot.commit, tracked=head) if by_agent else "",
        )

    def restore(self, commit: str, current: Snapshot) -> None:
        """Put the work tree back to a snapshot, and let no bytecode of what was there before decide anything."""
        forget_bytecode(self.workspace.root, self.snapshots.changed_names(current.commit, commit))
        self.snapshots.restore(commit)

    def _put_back(self, step: PutBack) -> None:
        before = self.state.task(step.task).latest
        put_back_protected(self.workspace, self.history, self.stages.bases, self.state.task(step.task))
        self._snapshot(TakeSnapshot(step.task, step.iteration, "start"))
        after = self.state.task(step.task).latest
        keep_left_out(self.workspace, self.history, self.snapshots, step.task, f"-{step.iteration - 1}", after, before)

    def _undo(self, step: Undo) -> None:
        what = "destroyed by an agent" if step.destroyed else "left by a failed agent"
        kept = self._take(step.task, f"{step.iteration}-failed-{step.number}", f"{step.task} {what}")
        self.restore(step.to, kept)
        self.history.record(
            Undone(
                task=step.task,
                iteration=step.iteration,
                kept=kept.commit,
                restored=step.to,
                destroyed=step.destroyed,
            )
        )

    def _recover(self, step: Recover) -> None:
        claim = self.state.open_stage
        if claim is not None:
            died = died_at(self.state.claimed_at, self.state.claimed_clock, self.history.resumed_at)
            touched = self.stages.guard.after_crash(claim.git, died)
            self.stages.warn_of(f"what was cut off in stage {claim.stage}", touched, perhaps_a_person=True)
        found = self._take(
            step.task, f"{step.iteration}-found-{self.state.resumes}", f"{step.task} as found at a resume"
        )
        differs = found.tree != self.snapshots.tree_of(step.to)
        names = self.snapshots.changed_names(step.to, found.commit) if differs else ()
        if differs:
            self.restore(step.to, found)
        self.history.record(
            Recovered(
                task=step.task,
                iteration=step.iteration,
                stage=step.stage,  # type: ignore[arg-type]  # next_step names only stages
                restored=step.to,
                kept=found.commit if differs else "",
                files=tuple(map(file_name, names))[:_NAMES_SHOWN],
            )
        )

    def _wait(self, step: Wait) -> None:
        self.history.record(Waited(task=step.task, iteration=step.iteration, seconds=step.seconds, why=step.why))
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < step.seconds and not self._tick(elapsed):
            time.sleep(min(0.1, step.seconds))

    def _decide(self, step: Decide) -> None:
        task = self.state.task(step.task)
        attempt = attempt_at(self.state, task, step.iteration)
        note = "The agent changed nothing." if attempt.changed is False and step.iteration > 0 else ""
        if attempt.trespasses:
            note = f"The turn went beyond its task: {attempt.trespasses[0]}."
        limit = task.settings.feedback_max_length
        past = self.stages.past(task, step.iteration)
        feedback = compact(attempt.verdict, (*attempt.reviews, *objections(attempt)), limit, note=note, **past)
        decision = decide(situation(self.state, task, step.iteration, feedback))
        self.history.record(Decided(task=step.task, iteration=step.iteration, decision=decision))
        self.stages.learn(self.state.task(step.task))
        if decision.action != "proceed":
            self._side_effects(step.task)

    def _side_effects(self, name: str) -> None:
        """What may fail without anything being lost: a checkpoint file, a hook that is told."""
        task = self.state.task(name)
        iteration = task.attempts[-1].iteration
        try:
            every = task.settings.checkpoint_interval
            if every and iteration and iteration % every == 0:
                write_checkpoint(self.workspace, self.history, self.snapshots, task)
        except (IterctlError, OSError) as error:
            self.history.record(Warned(text=f"no checkpoint was written: {error}"))
        self.stages.extensions.notify(task)
