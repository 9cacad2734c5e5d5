"""The plan as a run holds it: every setting has its value, every agent is spelt out, nothing is read again later."""

from __future__ import annotations

from pydantic import Field

from pytest_iterctl.plan.model import (
    Agent,
    Backoff,
    Baseline,
    Flaky,
    Gate,
    Limits,
    OnEscalate,
    Patience,
    Prepare,
    Session,
    TestCommand,
)
from pytest_iterctl.plan.values import Value

__all__ = ["FrozenPlan", "FrozenTask", "NamedAgent", "Settings"]


class Settings(Value):
    """Every setting of one task with its value."""

    max_iterations: int = 3
    auto_retry_on_test_fail: bool = True
    auto_retry_on_review_reject: bool = True
    escalation_includes_diff: bool = True
    feedback_max_length: int = 500
    max_agent_failures: int = 3
    strategy: str = "auto"
    patience: Patience = Field(default_factory=Patience)
    backoff: Backoff = "exponential"
    backoff_initial: float = 1.0
    timeout: float = 300.0
    test_timeout: float = 300.0
    on_escalate: OnEscalate = "best"
    checkpoint_interval: int = 0
    protect: tuple[str, ...] = ()
    may_change: tuple[str, ...] = ()
    prepare: Prepare = Field(default_factory=Prepare)
    gate: Gate = "full"
    baseline: Baseline = "compare"
    baseline_runs: int = 2
    flaky: Flaky = "report"
    suite: tuple[str, ...] | None = None
    hidden_tests: tuple[str, ...] = ()
    mutants: int = 0
    pass_env: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    python: str = ""


class NamedAgent(Value):
    """An agent with the name that people gave it (or its command, if it has none)."""

    name: str
    spec: Agent
    folder: str | None = Field(
        default=None,
        description="below the repository's root: where its command was written and runs; else as the tests",
    )


class FrozenTask(Value):
    id: str
    prompt: str = ""
    tests: tuple[str, ...] = ()
    test: TestCommand | None = None
    marker: str | None = Field(
        default=None, description="only tests whose iterate marker names this task; '' for unmarked"
    )
    needs: tuple[str, ...] = ()
    agent: NamedAgent | None = None
    fallback: tuple[NamedAgent, ...] = Field(default=(), description="agents that take over from it, in this order")
    reviewers: tuple[NamedAgent, ...] = ()
    session: Session | None = Field(
        default=None, description="None: resume where the agent can, fresh after a failure of the same kind"
    )
    settings: Settings = Field(default_factory=Settings)


class FrozenPlan(Value):
    """What the first event of a run's journal holds."""

    source: str = Field(default="", description="the file it came from, for messages only; it is never read again")
    limits: Limits
    sandbox: bool = Field(default=False, description="what the run starts is put in a sandbox")
    tasks: tuple[FrozenTask, ...]
    discover: bool = Field(default=False, description="the suite's iterate markers declare the tasks")
    only: str = Field(default="", description="of the tasks that markers declare, run this one only")
    commit_message: str | None = Field(
        default=None, description="commit the accepted change; '' for a message of our own"
    )

    @property
    def own_tree(self) -> bool:
        """Whether the run works on a copy of the work tree, and the user's stays as it is."""
        return self.sandbox and self.limits.level == "paranoid"
