"""Where an errand is done: here, or in a tree of the run's own. What needs a sandbox is refused where there is none."""

from __future__ import annotations

import shutil
import sys

from pytest_iterctl.cli.errand import Begin, Errand
from pytest_iterctl.cli.inside import go_inside
from pytest_iterctl.cli.performing import Manner, perform
from pytest_iterctl.loop.workspace import Workspace
from pytest_iterctl.work.own_tree import OwnTree
from pytest_iterctl.work.sandbox_check import check

__all__ = ["Manner", "conduct"]


def conduct(workspace: Workspace, manner: Manner, errand: Errand) -> int:
    """One run to its end and out to the user."""
    plan = errand.plan_of(workspace)
    if plan is None or not plan.sandbox:
        return perform(workspace, manner, errand)
    private = workspace.place.run_directory(errand.run)
    try:
        # Before every errand: the machine may be another one than when the run began.
        if (obstacle := check(private)) is not None:
            raise obstacle.error()
        if not plan.own_tree:
            return perform(workspace, manner, errand)
        begins = isinstance(errand, Begin)
        tree = OwnTree.make(workspace.repository, private) if begins else OwnTree.of(workspace.root, private)
        for left_out in tree.left_out:
            print(f"warning: not in the run's own tree: {left_out}", file=sys.stderr)
        return go_inside(workspace, manner, errand, tree)
    finally:
        state = workspace.state(errand.run)
        if state.started is None:
            shutil.rmtree(private, ignore_errors=True)
        elif state.finished is not None and state.finished.decision == "proceed":
            shutil.rmtree(private / "tree", ignore_errors=True)
