"""When a task has ended: what the work tree holds then, and the commit that was asked for."""

from __future__ import annotations

from pytest_iterctl.control.events import Settled
from pytest_iterctl.control.standing import best_attempt
from pytest_iterctl.control.state import TaskState
from pytest_iterctl.errors import RepositoryError
from pytest_iterctl.loop.history import History
from pytest_iterctl.loop.workspace import Workspace
from pytest_iterctl.text import one_line
from pytest_iterctl.work.commit import commit_change
from pytest_iterctl.work.pytest_run import forget_bytecode
from pytest_iterctl.work.snapshots import Snapshots

__all__ = ["settle"]


def settle(workspace: Workspace, history: History, snapshots: Snapshots, task: TaskState) -> None:
    if task.status == "proceed":
        history.record(_accepted(workspace, history, snapshots, task))
    elif task.iterations == 0 and not any(attempt.turns for attempt in task.attempts):
        history.record(Settled(task=task.id, holds="untouched", iteration=0, commit=task.latest))
    else:
        history.record(_escalated(workspace, history, snapshots, task))


def _accepted(workspace: Workspace, history: History, snapshots: Snapshots, task: TaskState) -> Settled:
    started = history.state.started
    message = started.plan.commit_message if started is not None else None
    committed = problem = ""
    if message is not None:
        try:
            text = message or _default_message(task)
            committed = commit_change(workspace.repository, snapshots, task.base, task.latest, text)
        except RepositoryError as error:
            problem = error.message
    return Settled(
        task=task.id,
        holds="accepted",
        iteration=task.attempts[-1].iteration,
        commit=task.latest,
        committed=committed,
        problem=problem,
    )


def _default_message(task: TaskState) -> str:
    return one_line(f"{task.id}: {task.task.prompt.strip() or 'make the tests pass'}", 72)


def _escalated(workspace: Workspace, history: History, snapshots: Snapshots, task: TaskState) -> Settled:
    holds = task.settings.on_escalate
    iteration, commit = task.attempts[-1].iteration, ""
    if holds == "base":
        iteration, commit = max(task.floor_iteration - 1, 0), task.floor
    elif holds == "best" and (best := best_attempt(task)) is not None:
        iteration, commit = best.iteration, best.latest_snapshot or task.floor
    ref = f"refs/iterctl/{history.run}/{task.id}/{task.attempts[-1].iteration}-end"
    current = snapshots.take(ref, f"iterctl {history.run} {task.id} at the end")
    if commit and snapshots.tree_of(commit) != current.tree:
        forget_bytecode(workspace.root, snapshots.changed_names(current.commit, commit))
        snapshots.restore(commit)
    return Settled(task=task.id, holds=holds, iteration=iteration, commit=commit or current.commit)
