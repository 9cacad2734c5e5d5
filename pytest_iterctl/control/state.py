"""What a run, a task and an attempt are at one moment: plain frozen data, made by the fold of the journal."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Literal

from pytest_iterctl.control.decision import Decision
from pytest_iterctl.control.events import (
    Answered,
    Event,
    RunFinished,
    RunStarted,
    Settled,
    StageStarted,
    StrategyChosen,
    Waited,
)
from pytest_iterctl.control.evidence import (
    Change,
    GateEvidence,
    Proof,
    ReviewEvidence,
    SuiteEvidence,
    TurnEvidence,
    TurnOutcome,
)
from pytest_iterctl.control.strategies import DEFAULT, Strategy
from pytest_iterctl.plan.frozen import FrozenTask, NamedAgent, Settings
from pytest_iterctl.plan.model import Limits

__all__ = ["Attempt", "Entry", "RunState", "TaskState", "TaskStatus"]

TaskStatus = Literal["waiting", "running", "proceed", "escalated", "stopped", "aborted"]
_MOST_TIMES = 1000.0
_UNFINISHED = frozenset({TurnOutcome.ASKED, TurnOutcome.TOOLS_DENIED, TurnOutcome.OUT_OF_BUDGET})


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the journal: the event, when it happened, and how long the run had been at work by then."""

    sequence: int
    at: str
    clock: float
    event: Event


@dataclass(frozen=True, slots=True)
class Attempt:
    """One iteration: what was done in it and what came out. Iteration 0 is the baseline, before any agent."""

    iteration: int
    began: float = 0.0
    ended: float = 0.0
    turns: tuple[TurnEvidence, ...] = ()
    review_turns: tuple[TurnEvidence, ...] = ()
    suite: SuiteEvidence | None = None
    gate: GateEvidence | None = None
    reviews: tuple[ReviewEvidence, ...] = ()
    snapshots: tuple[tuple[str, str], ...] = ()
    tree: str = ""  # what its last snapshot holds, once it has begun
    change: Change | None = None
    undone: int = 0
    waited: int = 0
    decision: Decision | None = None
    approved: bool = False
    lost_calls: int = 0
    choices: tuple[StrategyChosen, ...] = ()
    made: str = ""  # the tree that the agent's turn left
    destroyed: str = ""  # why all that the agent's turn left was taken out again

    @property
    def strategy(self) -> Strategy:
        return self.choices[-1].strategy if self.choices else DEFAULT

    @property
    def put_back_to(self) -> str:
        """The snapshot that a strategy has put the work tree back to, '' when none has."""
        return next((choice.start_from for choice in reversed(self.choices) if choice.start_from), "")

    @property
    def waits_due(self) -> int:
        """How often there was, or is, reason to wait: another agent is called at once."""
        switches = sum(choice.strategy.next_agent for choice in self.choices)
        return max(self.failed_turns - switches, 0) + self.failed_reviews

    @property
    def choice_is_due(self) -> bool:
        """Whether a failed review is to be taken again and nobody has chosen how."""
        return sum(choice.for_reviewer for choice in self.choices) < self.failed_reviews

    @property
    def generated(self) -> bool:
        return self.iteration == 0 or bool(self.turns and self.turns[-1].outcome.took_its_turn)

    @property
    def failed_turns(self) -> int:
        return sum(1 for turn in self.turns if not turn.outcome.took_its_turn)

    @property
    def question(self) -> str:
        """What the agent asked at the end of its turn."""
        asked = bool(self.turns) and self.turns[-1].outcome is TurnOutcome.ASKED
        return (self.turns[-1].question or "it does not say what") if asked else ""

    @property
    def in_vain(self) -> bool:
        """The agent took its turn and could do nothing: it asked instead, or was not allowed to."""
        return self.changed is False and bool(self.turns) and self.turns[-1].outcome in _UNFINISHED

    @property
    def cut_off(self) -> bool:
        """The last turn was ended by a limit or a person, and what it left is still in the work tree."""
        ended = bool(self.turns) and self.turns[-1].outcome in {TurnOutcome.LIMIT, TurnOutcome.STOPPED}
        return ended and self.failed_turns > self.undone

    @property
    def trespasses(self) -> tuple[str, ...]:
        """What its turns did that no task asks for, as sentences without an end."""
        touched = tuple(touch.text for turn in self.all_turns for touch in turn.touched if touch.destructive)
        return (*((self.destroyed,) if self.destroyed else ()), *touched)

    @property
    def ended_by(self) -> str:
        """The limit that ended the turn or the tests of this attempt, '' when none did or it was taken up again."""
        by_turn = self.turns[-1].limit if self.cut_off else ""
        suites = (self.suite, self.gate.suite if self.gate is not None else None)
        return by_turn or next((suite.limit for suite in suites if suite is not None and suite.limit), "")

    @property
    def verdict(self) -> SuiteEvidence | None:
        """What the tests say of this attempt: in the clean room where they ran there, else in the work tree."""
        return self.gate.suite if self.gate is not None and self.gate.suite is not None else self.suite

    @property
    def green(self) -> bool:
        """Whether the tests pass and the gate stands by it, or a person does who has seen what the gate objects to."""
        if self.suite is None or not self.suite.passed or self.gate is None:
            return False
        return self.gate.accepted or (self.approved and self.may_be_approved)

    @property
    def touched_tests(self) -> bool:
        """Whether the agent changed what is protected."""
        return self.gate is not None and any(each.protected for each in self.gate.left_out)

    @property
    def judged_by_edits(self) -> bool:
        """Whether what its tests came to is partly what the agent made of them: that is no measure of its work."""
        return self.touched_tests and self.gate is not None and self.gate.suite is None

    @property
    def may_be_approved(self) -> bool:
        """Whether the tests pass in the clean room, whatever else there is to say about it."""
        return self.gate is not None and self.gate.suite is not None and self.gate.suite.passed

    @property
    def failed_reviews(self) -> int:
        return len(self.review_turns) - len(self.reviews)

    @property
    def all_turns(self) -> tuple[TurnEvidence, ...]:
        return self.turns + self.review_turns

    @property
    def cost(self) -> float:
        return sum(turn.cost_usd or 0.0 for turn in self.all_turns)

    @property
    def calls(self) -> int:
        return sum(turn.calls for turn in self.all_turns) + self.lost_calls

    @property
    def seconds(self) -> float:
        return max(self.ended - self.began, 0.0)

    def snapshot(self, stage: str) -> str:
        return dict(self.snapshots).get(stage, "")

    @property
    def latest_snapshot(self) -> str:
        return self.snapshots[-1][1] if self.snapshots else ""

    @property
    def changed(self) -> bool | None:
        return None if self.change is None else self.change.file_count > 0


@dataclass(frozen=True, slots=True)
class TaskState:
    """Where one task stands.

    The floor is the oldest snapshot that the work tree may go back to: the base, or where the task was taken up again
    after other tasks had worked in the same tree, whose results lie below it.
    """

    task: FrozenTask
    status: TaskStatus = "waiting"
    limit: str = ""
    base: str = ""
    base_tree: str = ""
    floor: str = ""
    floor_iteration: int = 0
    latest: str = ""
    latest_tree: str = ""
    attempts: tuple[Attempt, ...] = ()
    bound: int = 0
    guidance: tuple[tuple[int, str], ...] = ()
    agent_failures: int = 0
    reviewer_failures: int = 0
    go_on: bool = False
    settled: Settled | None = None
    reopen_at: str = ""
    checkpoints: tuple[str, ...] = ()
    answers: tuple[Answered, ...] = ()
    proof: Proof | None = None
    earlier_proof: Proof | None = None
    edited: tuple[str, ...] = ()  # what a person has changed since the base was kept: it belongs to the base now
    released: tuple[str, ...] = ()  # globs of tests that a person's answer lets the agent change
    agent_at: int = 0  # how many of the task's agents have been given up
    forgiven: int = 0  # what the gate objected to up to this iteration was answered by a person

    @property
    def id(self) -> str:
        return self.task.id

    @property
    def settings(self) -> Settings:
        return self.task.settings

    @property
    def attempt(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def agent(self) -> NamedAgent | None:
        """Who is called now: the task's agent, or one of those that take over from it."""
        if self.task.agent is None:
            return None
        return (self.task.agent, *self.task.fallback)[min(self.agent_at, len(self.task.fallback))]

    @property
    def has_more_agents(self) -> bool:
        return self.agent_at < len(self.task.fallback)

    @property
    def timeout_factor(self) -> float:
        """How much longer than usual things may take: what was once too slow would be so again with the old time."""
        factors = (choice.strategy.timeout_factor for attempt in self.attempts for choice in attempt.choices)
        return min(max(prod(factors), 1 / _MOST_TIMES), _MOST_TIMES)

    @property
    def before_turn(self) -> str:
        """The snapshot from which the agent's turn of the last attempt began."""
        *earlier, last = self.attempts
        before = next((attempt.latest_snapshot for attempt in reversed(earlier) if attempt.latest_snapshot), self.base)
        return last.snapshot("start") or before

    @property
    def holds_last_attempt(self) -> bool:
        """Whether the work tree was left with what the last attempt made (others may have worked on it since)."""
        return self.settled is None or self.settled.iteration == self.attempts[-1].iteration

    @property
    def iterations(self) -> int:
        """How many iterations ran: those in which the agent did its turn."""
        return sum(1 for attempt in self.attempts if attempt.iteration > 0 and attempt.generated)

    @property
    def decision(self) -> Decision | None:
        return next((a.decision for a in reversed(self.attempts) if a.decision is not None), None)

    @property
    def limits(self) -> tuple[str, ...]:
        """The limits that stopped it; none when it was a person."""
        if not self.limit or self.limit == "person":
            return ()
        decision = self.decision
        return (self.limit, *(decision.more_limits if decision is not None else ()))

    @property
    def cost(self) -> float:
        return sum(turn.cost_usd or 0.0 for attempt in self.attempts for turn in attempt.all_turns)

    @property
    def calls_of_unknown_cost(self) -> int:
        told = sum(1 for attempt in self.attempts for turn in attempt.all_turns if turn.cost_usd is None)
        return told + sum(attempt.lost_calls for attempt in self.attempts)


@dataclass(frozen=True, slots=True)
class RunState:
    """Where a run stands; everything that is decided or shown is a function of this."""

    run: str = ""
    started: RunStarted | None = None
    limits: Limits | None = None
    tasks: tuple[TaskState, ...] = ()
    declared: bool = False
    clock: float = 0.0
    began_at: str = ""
    last_at: str = ""
    sequence: int = 0
    open_stage: StageStarted | None = None
    claimed_at: str = ""  # when the last stage began, by the wall's clock and by the run's
    claimed_clock: float = 0.0
    at_work: str = ""
    #: The wait that is under way, or was when the driver died, and when it began by the run's clock.
    waiting: Waited | None = None
    waiting_since: float = 0.0
    stopped_by: str = ""
    interrupted: bool = False
    finished: RunFinished | None = None
    warnings: tuple[str, ...] = ()
    resumes: int = 0
    worked: float = field(default=0.0)
    #: What Python hooks there are, and the strategies that they add; None until that was asked.
    hooks: frozenset[str] | None = None
    strategies: tuple[Strategy, ...] = ()

    def task(self, task_id: str) -> TaskState:
        return next(task for task in self.tasks if task.id == task_id)

    @property
    def clock_at_least(self) -> float:
        """What the clock shows for sure: a wait counts in full before it begins, and may have been cut short."""
        return self.clock if self.waiting is None else self.waiting_since

    @property
    def cost(self) -> float:
        return sum(task.cost for task in self.tasks)
