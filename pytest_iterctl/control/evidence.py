"""What the stages found, as data: the outcome of a test run, of an agent's turn, of a review."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from pytest_iterctl.plan.values import Value

__all__ = [
    "Change",
    "Classification",
    "Counts",
    "ErrorType",
    "Failure",
    "Feedback",
    "Frame",
    "GateEvidence",
    "GateFinding",
    "GateVerdict",
    "IntegrityGap",
    "LeftOut",
    "Outcome",
    "Priority",
    "Proof",
    "ReviewEvidence",
    "ReviewStatus",
    "SuiteEvidence",
    "Touch",
    "TurnEvidence",
    "TurnOutcome",
]

Priority = Literal["critical", "high", "medium", "low"]
ReviewStatus = Literal["approve", "reject", "pending", "failed"]
ErrorType = Literal[
    "timeout",
    "rate_limit",
    "api_error",
    "service_unavailable",
    "network",
    "resource_exhausted",
    "partial_failure",
    "non_critical_error",
    "auth",
    "validation",
    "collection",
    "import",
    "syntax",
    "assertion",
    "type",
    "crash",
    "flaky",
    "unknown",
]
Phase = Literal["collect", "setup", "call", "teardown", "session"]
#: What the gate says of a change. `not-green`: there was no green claim to judge. `failed`: the tests fail in the clean
#: room for an ordinary reason. `gaps`: told once, the second time an incident. `incident`: a person decides.
GateVerdict = Literal["accepted", "not-green", "failed", "gaps", "incident"]


class Outcome(StrEnum):
    """How a test run ended. Only PASSED is a pass; the others differ in what to do about them."""

    PASSED = "passed"
    FAILED = "failed"
    COLLECTION_ERROR = "collection-error"
    NO_TESTS = "no-tests"
    USAGE_ERROR = "usage-error"
    CRASHED = "crashed"
    TIMED_OUT = "timed-out"
    INTERRUPTED = "interrupted"
    NO_REPORT = "no-report"
    INCOMPLETE = "incomplete"


class Counts(Value):
    """Each test counts once, by its worst result; a rerun that ended well is passed."""

    tests: int = 0
    passed: int = 0
    failed: int = 0
    errors: int = 0
    skipped: int = 0
    xfailed: int = 0
    xpassed: int = 0
    deselected: int = 0
    reruns: int = 0


class Frame(Value):
    """One place in the project's own code on the way to a failure."""

    path: str = Field(description="relative to the project's root")
    line: int = 0
    function: str = ""
    source: str = Field(default="", description="the statement, which outlives a shift of line numbers")


class Failure(Value):
    """One thing that is wrong, with all that is known about where and why."""

    test: str = Field(description="node id, or suite and case of a foreign report; '' for the session itself")
    phase: Phase = "call"
    where: str = Field(default="", description="file:line in the project, '' when unknown")
    kind: str = Field(default="", description="exception type")
    message: str = Field(default="", description="the explained assertion or the exception's message, first lines")
    expected: str | None = None
    received: str | None = None
    detail: str = Field(default="", description="traceback as pytest showed it, bounded")
    output: str = Field(default="", description="tail of what the test printed, bounded")
    frames: tuple[Frame, ...] = Field(default=(), description="the project's own frames, the outermost first, bounded")
    cause: str = Field(default="", description="the exception that it was raised from, the first of a chain")
    also: tuple[str, ...] = Field(default=(), description="more tests that fail for the same reason, by id only")


class Classification(Value):
    """What a Python hook takes a failure for."""

    error_type: ErrorType
    sign: str = ""


class SuiteEvidence(Value):
    """What one test run showed."""

    outcome: Outcome
    exit_code: int | None = None
    reason: str = Field(default="", description="one line that says why the outcome is what it is")
    counts: Counts = Field(default_factory=Counts)
    failures: tuple[Failure, ...] = Field(
        default=(), description="with details; when there are very many, the simplest of each cause"
    )
    failing: tuple[str, ...] = Field(default=(), description="ids of all failing tests")
    seconds: float = 0.0
    limit: str = Field(default="", description="the safety limit that ended the run, if one did")
    rerun: str = Field(default="", description="how a command begins that runs single tests of this suite again")
    root: str = Field(default="", description="where the ids' paths begin, seen from where the tests were run")
    excused: tuple[str, ...] = Field(default=(), description="failing tests that don't block: flaky before the agent")
    intermittent: tuple[str, ...] = Field(default=(), description="failing tests that passed when run once more")
    classified: Classification | None = None

    @property
    def passed(self) -> bool:
        return self.outcome is Outcome.PASSED


class GateFinding(Value):
    """One thing in a change that an honest one rarely has. Suspicious ones are for the reviewer and the report."""

    where: str = Field(description="file:line, '' for what belongs to no line")
    rule: str
    certain: bool = False
    text: str = ""


class IntegrityGap(Value):
    """Something that keeps a green run from being taken for one, and what undoes it."""

    kind: str
    text: str
    undo: str = ""
    tests: tuple[str, ...] = ()


class LeftOut(Value):
    """A file of the change that is no part of what is judged and accepted."""

    path: str
    reason: str
    protected: bool = False


class Proof(Value):
    """What is known of a task before the first iteration: the base's files, and its tests over several runs."""

    manifest: str = Field(description="digest of the list of base files")
    stamps: str = Field(default="", description="digest of what the system said about them")
    files: int = 0
    protected: tuple[str, ...] = Field(default=(), description="what is protected, as `path (reason)`, bounded")
    protected_count: int = 0
    interpreter: str = Field(default="", description="digest of the fingerprint of what is installed")
    installed: int = 0
    baseline: str = Field(default="", description="digest of the baseline")
    records: str = Field(default="", description="digest of what else was noted of the base's runs")
    bytecode: str = Field(default="", description="digest of what the base's runs compiled of installed packages")
    hidden: str = Field(default="", description="digest of the list of hidden tests")
    hidden_count: int = 0
    runs: tuple[str, ...] = Field(default=(), description="how each run of the baseline ended")
    counts: dict[str, int] = Field(default_factory=dict, description="tests by what they do as a rule")
    flaky: tuple[str, ...] = Field(default=(), description="tests that were unsteady before, each with its history")
    broken: tuple[str, ...] = Field(
        default=(), description="protected files that can't be loaded as they are, which the agent may mend"
    )
    old_failures: tuple[str, ...] = Field(default=(), description="of the wider suite: failed before, not the task's")
    suite: SuiteEvidence | None = Field(default=None, description="what the clean room showed of the base, if it ran")
    differs: tuple[str, ...] = Field(default=(), description="what the room shows otherwise than the work tree")
    problem: str = Field(default="", description="why the room can't be trusted; '' when it is proved")
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def proved(self) -> bool:
        return not self.problem


class GateEvidence(Value):
    """What the gate found in one attempt."""

    verdict: GateVerdict
    reason: str = ""
    suite: SuiteEvidence | None = Field(default=None, description="what the clean room's run showed")
    gaps: tuple[IntegrityGap, ...] = ()
    findings: tuple[GateFinding, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    may_change: tuple[str, ...] = Field(default=(), description="tests that the task may change, and that changed")
    new_tests: str = Field(default="", description="what the tests that the agent added came to, run apart")
    flaky: tuple[str, ...] = Field(default=(), description="failures that don't block: flaky before the agent came")
    checked: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    ask: str = Field(default="", description="why a person or a reviewer has to look before it is accepted")
    judged: str = Field(default="", description="digest of the list of files that was judged")
    reports: str = Field(default="", description="digest of the list of reports that the clean room's run wrote")
    seconds: float = 0.0

    @property
    def accepted(self) -> bool:
        return self.verdict == "accepted"


class TurnOutcome(StrEnum):
    """How a call of an agent ended. Whether it changed anything is seen in the snapshot after it."""

    DONE = "done"
    TOOLS_DENIED = "tools-denied"
    ASKED = "asked"
    OUT_OF_BUDGET = "out-of-budget"
    RATE_LIMITED = "rate-limited"
    NO_NETWORK = "no-network"
    NOT_LOGGED_IN = "not-logged-in"
    SERVICE_FAILED = "service-failed"
    CRASHED = "crashed"
    TIMED_OUT = "timed-out"
    UNREADABLE = "unreadable"
    LIMIT = "limit"
    STOPPED = "stopped"

    @classmethod
    def _missing_(cls, value: object) -> TurnOutcome | None:
        return cls.CRASHED if value == "failed" else None  # in journals of the first version

    @property
    def took_its_turn(self) -> bool:
        """What it left in the work tree counts and is tested, even if it could not do all that it wanted to."""
        return self in {TurnOutcome.DONE, TurnOutcome.TOOLS_DENIED, TurnOutcome.ASKED, TurnOutcome.OUT_OF_BUDGET}

    @property
    def is_failure(self) -> bool:
        """It failed by itself: what it left is taken out, and it may be called again."""
        return not self.took_its_turn and self not in {TurnOutcome.LIMIT, TurnOutcome.STOPPED}


class Touch(Value):
    """Something of the user's that a turn left other than it was, besides the files of the work tree."""

    what: str = Field(description="a file or reference of the repository, or a place outside of the work tree")
    how: str
    destructive: bool = Field(default=False, description="counts against whoever did it")
    undone: bool = False
    outside: bool = Field(default=False, description="outside of the work tree and of .git, where nothing is undone")

    @property
    def text(self) -> str:
        return f"{self.what} {self.how} ({'undone' if self.undone else 'not undone'})"


class TurnEvidence(Value):
    """What one call of an agent came to. Whether it changed anything is seen in the snapshot after it."""

    agent: str
    outcome: TurnOutcome
    exit_code: int | None = None
    error: str = ""
    last_words: tuple[str, ...] = Field(
        default=(), description="of a failed call: what it printed, the last line first"
    )
    seconds: float = 0.0
    cost_usd: float | None = Field(default=None, description="None: the agent did not say")
    cost_is_estimated: bool = Field(default=False, description="by the price of its tokens, not by its own account")
    tokens: int | None = None
    calls: int = Field(default=1, description="model calls where the agent reports them, else 1")
    session_id: str | None = None
    output_key: str | None = Field(default=None, description="memory key of what it printed")
    limit: str = ""
    denied: tuple[str, ...] = Field(default=(), description="tools that it wanted and was not allowed to use")
    question: str = Field(default="", description="what it asks a person")
    retry_after: float | None = Field(default=None, description="seconds that it was told to wait")
    text: str = Field(default="", description="its last message, bounded")
    touched: tuple[Touch, ...] = Field(default=(), description="what it did to .git and around the work tree, bounded")
    classified: Classification | None = None


class ReviewEvidence(Value):
    """What one reviewer said; a reviewer that failed is never an approval."""

    reviewer: str
    status: ReviewStatus
    feedback: str = ""
    findings: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()


class Change(Value):
    """How one snapshot differs from another, for people: counts and names."""

    files: tuple[str, ...] = ()
    file_count: int = 0
    added: int = 0
    deleted: int = 0
    destroys: str = Field(default="", description="why it takes more than any task can want, '' when it does not")


class Feedback(Value):
    """What the next iteration is told, in the compact form of a decision."""

    summary: str
    actionable_items: tuple[str, ...] = ()
    priority: Priority = "high"
