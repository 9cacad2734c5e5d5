"""What somebody wants of a run, as a value: it can be handed to another process, which then does it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from pytest_iterctl.control.state import RunState
from pytest_iterctl.loop.run import Answer, Audience, answer_run, close_run, resume_run, start_run
from pytest_iterctl.loop.workspace import Workspace, below
from pytest_iterctl.plan.freeze import LIMITS
from pytest_iterctl.plan.frozen import FrozenPlan
from pytest_iterctl.plan.model import Limits, SafetyPatch
from pytest_iterctl.plan.values import Value
from pytest_iterctl.store.lock import WorkTreeLock

__all__ = ["Begin", "Close", "Errand", "GoOn", "Respond", "read_errand"]


class Begin(Value):
    """A new run."""

    kind: Literal["begin"] = "begin"
    run: str
    plan: FrozenPlan
    directory: str
    as_module: bool

    @classmethod
    def at(cls, directory: Path, workspace: Workspace, run: str, plan: FrozenPlan, *, as_module: bool) -> Begin:
        return cls(run=run, plan=plan, directory=below(directory, workspace.root), as_module=as_module)

    def plan_of(self, _workspace: Workspace) -> FrozenPlan | None:
        return self.plan

    def perform(self, workspace: Workspace, audience: Audience, lock: WorkTreeLock) -> RunState:
        directory = workspace.root / self.directory
        return start_run(workspace, self.plan, audience, lock, directory=directory, as_module=self.as_module)


class _Earlier(Value):
    """What concerns a run that has begun before."""

    run: str

    def plan_of(self, workspace: Workspace) -> FrozenPlan | None:
        """As the run began with it; None for one that never did."""
        started = workspace.state(self.run).started
        return started.plan if started is not None else None


class GoOn(_Earlier):
    """A run that was cut off, stopped or waits; limits may be raised."""

    kind: Literal["go on"] = "go on"
    limits: SafetyPatch | None = None
    max_iterations: int | None = None

    def perform(self, workspace: Workspace, audience: Audience, lock: WorkTreeLock) -> RunState:
        raise_limits = self._raised if self.limits is not None else None
        return resume_run(workspace, audience, lock, raise_limits=raise_limits, max_iterations=self.max_iterations)

    def _raised(self, old: Limits) -> Limits:
        given = self.limits.model_dump(exclude_none=True, exclude={"level"}) if self.limits is not None else {}
        level = self.limits.level if self.limits is not None else None
        return (LIMITS[level] if level is not None else old).model_copy(update=given)


class Respond(_Earlier):
    """A person's answer to a task's question."""

    kind: Literal["respond"] = "respond"
    task: str | None
    answer: Answer

    def perform(self, workspace: Workspace, audience: Audience, lock: WorkTreeLock) -> RunState:
        return answer_run(workspace, self.task, self.answer, audience, lock)


class Close(_Earlier):
    """A run is to stop that nobody drives any more."""

    kind: Literal["close"] = "close"

    def perform(self, workspace: Workspace, audience: Audience, lock: WorkTreeLock) -> RunState:
        return close_run(workspace, audience, lock)


Errand = Begin | GoOn | Respond | Close
_ANY: TypeAdapter[Errand] = TypeAdapter(Errand)


def read_errand(text: bytes) -> Errand:
    return _ANY.validate_json(text)
