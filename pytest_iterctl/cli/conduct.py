"""Where an errand is done: here, or in a tree of the run's own. What needs a sandbox is refused where there is none."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pytest_iterctl.cli.errand import Begin, Errand
from pytest_iterctl.cli.inside import go_inside
from pytest_iterctl.cli.performing import Manner, perform
from pytest_iterctl.cli.signals import Signals
from pytest_iterctl.errors import Interrupted, SafetyError, UsageError
from pytest_iterctl.loop.run import left_behind
from pytest_iterctl.loop.workspace import Workspace
from pytest_iterctl.plan.frozen import FrozenPlan
from pytest_iterctl.store.lock import WorkTreeLock
from pytest_iterctl.work.own_tree import OwnTree
from pytest_iterctl.work.sandbox_check import check

__all__ = ["Manner", "conduct"]


def conduct(workspace: Workspace, manner: Manner, errand: Errand) -> int:
    """One run to its end and out to the user. The lock comes first: by it, everybody knows of a run that starts."""
    with Signals() as signals, workspace.lock(errand.run) as lock:
        private = workspace.place.run_directory(errand.run)
        stop_file = workspace.place.stop_file(errand.run)
        stop_file.unlink(missing_ok=True)  # asked of a driver that has died since
        try:
            plan = errand.plan_of(workspace)
            if plan is None or not plan.sandbox:
                return perform(workspace, manner, errand, lock, signals)
            return _behind_walls(workspace, manner, errand, plan, lock, signals)
        finally:
            _tidy(workspace, errand.run, private)


def _behind_walls(
    workspace: Workspace, manner: Manner, errand: Errand, plan: FrozenPlan, lock: WorkTreeLock, signals: Signals
) -> int:
    try:
        tree, back_to = _prepared(workspace, errand, plan)
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted before run {errand.run} {_began(errand)}", hint=_hint(errand)) from None
    if tree is None:
        return perform(workspace, manner, errand, lock, signals)
    return go_inside(workspace, manner, errand, tree, lock, signals, back_to=back_to)


def _prepared(workspace: Workspace, errand: Errand, plan: FrozenPlan) -> tuple[OwnTree | None, str]:
    """The run's own tree, where it has one, and the snapshot that it is put back to, where it was made anew."""
    private = workspace.place.run_directory(errand.run)
    stop_file = workspace.place.stop_file(errand.run)

    def go_on() -> None:
        if stop_file.exists():
            raise SafetyError(f"run {errand.run} was stopped before it {_began(errand)}", hint=_hint(errand))

    # Before every errand: the machine may be another one than when the run began.
    if (obstacle := check(private)) is not None:
        raise obstacle.error()
    go_on()
    if not plan.own_tree:
        return None, ""
    if isinstance(errand, Begin):
        return _made(workspace, private, go_on), ""
    if (tree := OwnTree.of(workspace.root, private)) is not None:
        return tree, ""
    # Of another clone, from which only a checkpoint came, or somebody has removed it: its snapshots have it all but
    # for what git ignores, and that is taken from the user's.
    state = workspace.state(errand.run)
    if state.finished is not None and state.finished.decision == "proceed":
        raise UsageError(f"run {errand.run} has ended: proceed", hint="start a new one: iterctl run")
    return _made(workspace, private, go_on), left_behind(state)


def _made(workspace: Workspace, private: Path, go_on: Callable[[], None]) -> OwnTree:
    tree = OwnTree.make(workspace.repository, private, go_on)
    for left_out in tree.left_out:
        print(f"warning: not in the run's own tree: {left_out}", file=sys.stderr)
    return tree


def _began(errand: Errand) -> str:
    return "began" if isinstance(errand, Begin) else "went on"


def _hint(errand: Errand) -> str:
    if isinstance(errand, Begin):
        return "nothing is left of it; start it again"
    return f"go on with: iterctl resume {errand.run}"


def _tidy(workspace: Workspace, run: str, private: Path) -> None:
    """Of a run that never began nothing stays; of one that was accepted, its copy of the work tree goes."""
    state = workspace.state(run)
    if state.started is None:
        shutil.rmtree(private, ignore_errors=True)
        with suppress(OSError):  # not there, or somebody has put something in
            (workspace.place.reports / "runs" / run).rmdir()
    elif state.finished is not None and state.finished.decision == "proceed":
        shutil.rmtree(private / "tree", ignore_errors=True)
