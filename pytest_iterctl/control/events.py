"""What can happen in a run: one frozen value per kind of event, readable as JSON, the journal's only content."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from pytest_iterctl.control.decision import Decision
from pytest_iterctl.control.evidence import (
    Change,
    Classification,
    GateEvidence,
    Proof,
    ReviewEvidence,
    SuiteEvidence,
    TurnEvidence,
)
from pytest_iterctl.control.strategies import Strategy
from pytest_iterctl.plan.frozen import FrozenPlan, FrozenTask
from pytest_iterctl.plan.model import Limits
from pytest_iterctl.plan.values import Value

__all__ = [
    "DURABLE",
    "EVENT",
    "Advised",
    "Answered",
    "BaseLost",
    "BaseProved",
    "CheckpointWritten",
    "Classified",
    "Decided",
    "Event",
    "HooksFound",
    "Interrupted",
    "Judged",
    "Recovered",
    "Resumed",
    "ReviewFinished",
    "RunFinished",
    "RunStarted",
    "Settled",
    "SnapshotTaken",
    "Stage",
    "StageStarted",
    "StopRequested",
    "StrategyChosen",
    "SuiteFinished",
    "TaskStarted",
    "TasksDeclared",
    "TurnFinished",
    "Undone",
    "Waited",
    "Warned",
]

Stage = Literal["generate", "test", "judge", "review"]


class RunStarted(Value):
    """The first event: everything that a resume needs and that no agent can change any more."""

    kind: Literal["run-started"] = "run-started"
    run: str
    version: str
    plan: FrozenPlan
    root: str
    git_dir: str
    head: str
    directory: str = Field(description="where tests and agents run, relative to the root")
    as_module: bool = Field(default=True, description="tests run as python -m pytest (else as the pytest script)")
    hooks_may_listen: bool = Field(default=False, description="whether to ask which Python hooks there are")


class HooksFound(Value):
    """Which Python hooks there are, and the strategies that they add: asked once, and not of what an agent makes."""

    kind: Literal["hooks-found"] = "hooks-found"
    hooks: tuple[str, ...]
    strategies: tuple[Strategy, ...] = ()


class TasksDeclared(Value):
    """The tasks that the suite's iterate markers declare; from here on they are part of the frozen plan."""

    kind: Literal["tasks-declared"] = "tasks-declared"
    tasks: tuple[FrozenTask, ...]


class TaskStarted(Value):
    kind: Literal["task-started"] = "task-started"
    task: str
    base: str
    tree: str
    under_way: float = Field(default=0.0, description="seconds of its work that were done before it had a name")


class StageStarted(Value):
    """A claim, durable before the work begins: whoever finds it open knows what was under way."""

    kind: Literal["stage-started"] = "stage-started"
    task: str
    iteration: int
    stage: Stage
    agent: str = ""
    before: str
    git: str = Field(default="", description="digest of what was recorded of the repository's own files")


class StrategyChosen(Value):
    """How the next try goes about it, chosen before each iteration and again after each failure of the agent."""

    kind: Literal["strategy-chosen"] = "strategy-chosen"
    task: str
    iteration: int
    strategy: Strategy
    why: str = ""
    error_type: str = Field(default="", description="what it is an answer to, '' for none")
    stage: str = ""
    agent: str = Field(default="", description="who will be called")
    note: str = Field(default="", description="what of it can't have its full effect, and why")
    start_from: str = Field(default="", description="the snapshot that the work tree is put back to first")
    for_reviewer: bool = Field(default=False, description="a failed review is taken again; else it is an agent's turn")


class Classified(Value):
    """What a Python hook takes the last failure of a stage for."""

    kind: Literal["classified"] = "classified"
    task: str
    iteration: int
    stage: Literal["generate", "test", "review"]
    classification: Classification


class Advised(Value):
    """Python hooks were asked for advice. How long that took is the run's time, but no time of the iteration's: no
    agent could do anything about it.
    """

    kind: Literal["advised"] = "advised"
    task: str
    iteration: int
    seconds: float
    hung: bool = Field(default=False, description="they did not answer in time, so they are asked no more")


class TurnFinished(Value):
    kind: Literal["turn-finished"] = "turn-finished"
    task: str
    iteration: int
    turn: TurnEvidence


class SuiteFinished(Value):
    kind: Literal["suite-finished"] = "suite-finished"
    task: str
    iteration: int
    suite: SuiteEvidence


class BaseProved(Value):
    """The base is kept, its tests were run several times, and the clean room was tried on it."""

    kind: Literal["base-proved"] = "base-proved"
    task: str
    proof: Proof


class BaseLost(Value):
    """The kept base is not here, or a person has changed files since: it is kept and proved anew."""

    kind: Literal["base-lost"] = "base-lost"
    task: str
    edited: tuple[str, ...] = Field(
        default=(), description="what a person changed meanwhile, which is theirs to change"
    )


class Judged(Value):
    kind: Literal["judged"] = "judged"
    task: str
    iteration: int
    gate: GateEvidence


class ReviewFinished(Value):
    kind: Literal["review-finished"] = "review-finished"
    task: str
    iteration: int
    review: ReviewEvidence
    turn: TurnEvidence


class SnapshotTaken(Value):
    """The work tree after a stage (or at the start of an iteration), and how it differs from before."""

    kind: Literal["snapshot-taken"] = "snapshot-taken"
    task: str
    iteration: int
    stage: Stage | Literal["start"]
    commit: str
    tree: str
    change: Change = Field(default_factory=Change)
    left_out: tuple[str, ...] = ()


class Undone(Value):
    """What a failed agent left behind, or one that destroyed, was kept as a snapshot and taken out of the work tree."""

    kind: Literal["undone"] = "undone"
    task: str
    iteration: int
    kept: str
    restored: str
    destroyed: str = Field(default="", description="what the turn destroyed, '' when the agent had failed")


class Recovered(Value):
    """A stage that was under way when the driver died was put back to its beginning."""

    kind: Literal["recovered"] = "recovered"
    task: str
    iteration: int
    stage: Stage | Literal["start"]
    restored: str
    kept: str = Field(default="", description="snapshot of what the work tree held instead, '' when nothing differed")
    files: tuple[str, ...] = Field(default=(), description="what was put back, the first of it")


class Decided(Value):
    kind: Literal["decided"] = "decided"
    task: str
    iteration: int
    decision: Decision


class Settled(Value):
    """What the work tree holds now that a task has ended."""

    kind: Literal["settled"] = "settled"
    task: str
    holds: Literal["accepted", "best", "last", "base", "untouched"]
    iteration: int
    commit: str = Field(default="", description="the snapshot that the work tree holds")
    committed: str = Field(default="", description="the commit that was asked for, '' when none was")
    branch: str = Field(default="", description="the branch with the change, where the run had a tree of its own")
    patch: str = Field(default="", description="the change as a patch, where the run had a tree of its own")
    problem: str = ""
    left_out: str = Field(default="", description="the patch with what the agent changed and what was not accepted")


class Answered(Value):
    kind: Literal["answered"] = "answered"
    task: str
    effect: Literal["continue", "approve", "abort"]
    guidance: str = ""
    iterations: int = 0
    option: int = 0
    by: str = ""
    limits: Limits | None = Field(default=None, description="to go on after a run-wide limit is to raise it")
    may_change: tuple[str, ...] = Field(default=(), description="globs of tests that the agent may change from now on")
    review_again: bool = Field(
        default=False, description="the tested change is still there; only its review is taken again"
    )


class Waited(Value):
    """A wait before the agent is called again, recorded before it begins."""

    kind: Literal["waited"] = "waited"
    task: str
    iteration: int
    seconds: float
    why: str


class StopRequested(Value):
    kind: Literal["stop-requested"] = "stop-requested"
    by: str
    interrupts: bool = Field(default=False, description="asked by a signal to the driver, such as Ctrl-C")


class Interrupted(Value):
    kind: Literal["interrupted"] = "interrupted"


class Resumed(Value):
    kind: Literal["resumed"] = "resumed"
    limits: Limits | None = None
    max_iterations: int | None = None


class CheckpointWritten(Value):
    kind: Literal["checkpoint-written"] = "checkpoint-written"
    task: str
    iteration: int
    path: str


class Warned(Value):
    kind: Literal["warned"] = "warned"
    text: str


class RunFinished(Value):
    kind: Literal["run-finished"] = "run-finished"
    decision: Literal["proceed", "escalate"]
    exit_code: int


Event = (
    RunStarted
    | HooksFound
    | TasksDeclared
    | TaskStarted
    | StageStarted
    | StrategyChosen
    | TurnFinished
    | SuiteFinished
    | BaseProved
    | BaseLost
    | Judged
    | ReviewFinished
    | Classified
    | Advised
    | SnapshotTaken
    | Undone
    | Recovered
    | Decided
    | Settled
    | Answered
    | Waited
    | StopRequested
    | Interrupted
    | Resumed
    | CheckpointWritten
    | Warned
    | RunFinished
)

EVENT: TypeAdapter[Event] = TypeAdapter(
    Annotated[Event, Field(discriminator="kind")],
    # The values' own configuration does not reach an adapter, which would write null for infinity.
    config=ConfigDict(ser_json_inf_nan="constants"),
)

#: Claims and verdicts: these must survive a power cut, so they are written with full synchronisation.
DURABLE = frozenset(
    {
        "run-started",
        "tasks-declared",
        "stage-started",
        "turn-finished",
        "suite-finished",
        "base-proved",
        "judged",
        "review-finished",
        "decided",
        "answered",
        "run-finished",
    }
)
