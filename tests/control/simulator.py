"""Plays the loop without doing anything: for every step it makes up the events that the real loop would write.

A `World` has one work tree (a set of edits), its snapshots and a clock. What agents, tests and reviewers come to is
asked of `Outcomes`; a person acts through `stop`, `resume` and `answer`; a crash is to stop performing in between.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

from pytest_iterctl.control.choosing import chosen_strategy
from pytest_iterctl.control.decision import Decision, Situation, decide
from pytest_iterctl.control.events import (
    EVENT,
    Answered,
    BaseProved,
    Decided,
    Event,
    Interrupted,
    Judged,
    Recovered,
    Resumed,
    ReviewFinished,
    RunFinished,
    RunStarted,
    Settled,
    SnapshotTaken,
    Stage,
    StageStarted,
    StopRequested,
    SuiteFinished,
    TasksDeclared,
    TaskStarted,
    TurnFinished,
    Undone,
    Waited,
)
from pytest_iterctl.control.evidence import (
    Change,
    Counts,
    Failure,
    Feedback,
    GateEvidence,
    GateVerdict,
    LeftOut,
    Outcome,
    Proof,
    ReviewEvidence,
    ReviewStatus,
    SuiteEvidence,
    TurnEvidence,
    TurnOutcome,
)
from pytest_iterctl.control.fold import apply, fold
from pytest_iterctl.control.limits import Allowance, allowance
from pytest_iterctl.control.standing import attempt_at, best_attempt, limits_of, situation, spent
from pytest_iterctl.control.state import Entry, RunState, TaskState
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
from pytest_iterctl.plan.frozen import FrozenPlan, FrozenTask, NamedAgent, Settings
from pytest_iterctl.plan.model import Agent, Limits, Patience

__all__ = [
    "GENEROUS",
    "Call",
    "FromTape",
    "GateResult",
    "Key",
    "Outcomes",
    "ReviewResult",
    "Scripted",
    "SuiteResult",
    "Tape",
    "TurnResult",
    "World",
    "a_plan",
    "a_task",
    "named",
]

T = TypeVar("T")
GENEROUS = Limits(
    level="permissive",
    max_cost_per_iteration=1e6,
    max_total_cost=1e6,
    max_duration_per_iteration=1e6,
    max_total_duration=1e6,
    max_calls_per_iteration=10_000,
)


def named(name: str) -> NamedAgent:
    return NamedAgent(name=name, spec=Agent(command=(name,)))


#: Most histories here are about other rules than those that stop early.
ENDLESS = Patience(no_change=0, same_diff=0, same_failures=0, alternating=0, no_progress=0)


def a_task(
    task_id: str = "a",
    *,
    needs: tuple[str, ...] = (),
    reviewers: int = 0,
    agent: bool = True,
    settings: Settings | None = None,
    patience: Patience = ENDLESS,
) -> FrozenTask:
    return FrozenTask(
        id=task_id,
        tests=("tests",),
        needs=needs,
        agent=named("coder") if agent else None,
        reviewers=tuple(named(f"critic-{number}") for number in range(reviewers)),
        settings=(settings or Settings()).model_copy(update={"patience": patience}),
    )


def a_plan(*tasks: FrozenTask, limits: Limits = GENEROUS, discover: bool = False) -> FrozenPlan:
    return FrozenPlan(limits=limits, tasks=tasks or (a_task(),), discover=discover)


@dataclass(frozen=True, slots=True)
class Call:
    """Which call is meant: of which task, in which iteration and stage, and the how manieth of those."""

    task: str
    iteration: int
    stage: Stage
    number: int


Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class TurnResult:
    outcome: TurnOutcome = TurnOutcome.DONE
    seconds: float = 1.0
    cost: float | None = 0.0
    calls: int = 1
    changes: bool = True
    retry_after: float | None = None
    question: str = ""


@dataclass(frozen=True, slots=True)
class SuiteResult:
    outcome: Outcome = Outcome.PASSED
    seconds: float = 1.0
    failing: tuple[str, ...] = ()
    stopped: bool = False
    artifact: bool = False


@dataclass(frozen=True, slots=True)
class GateResult:
    """What the gate says of a green run; `ask`: only somebody who looks can accept it."""

    verdict: GateVerdict = "accepted"
    ask: str = ""
    left_out: bool = False


@dataclass(frozen=True, slots=True)
class ReviewResult:
    status: ReviewStatus = "approve"
    turn: TurnResult = field(default_factory=TurnResult)


class Outcomes(Protocol):
    """What the world's agents, tests and reviewers come to."""

    def turn(self, call: Call) -> TurnResult: ...

    def suite(self, call: Call) -> SuiteResult: ...

    def gate(self, call: Call) -> GateResult: ...

    def review(self, call: Call) -> ReviewResult: ...


@dataclass(frozen=True, slots=True)
class Scripted:
    """Outcomes by task and iteration, one per call, the last of them for all further calls."""

    turns: Mapping[Key, Sequence[TurnResult]] = field(default_factory=dict)
    suites: Mapping[Key, Sequence[SuiteResult]] = field(default_factory=dict)
    gates: Mapping[Key, Sequence[GateResult]] = field(default_factory=dict)
    reviews: Mapping[Key, Sequence[ReviewResult]] = field(default_factory=dict)
    turn_else: TurnResult = field(default_factory=TurnResult)
    suite_else: SuiteResult = field(default_factory=SuiteResult)
    review_else: ReviewResult = field(default_factory=ReviewResult)

    def turn(self, call: Call) -> TurnResult:
        return _nth(self.turns, call, self.turn_else)

    def suite(self, call: Call) -> SuiteResult:
        return _nth(self.suites, call, self.suite_else)

    def gate(self, call: Call) -> GateResult:
        return _nth(self.gates, call, GateResult())

    def review(self, call: Call) -> ReviewResult:
        return _nth(self.reviews, call, self.review_else)


def _nth(script: Mapping[Key, Sequence[T]], call: Call, otherwise: T) -> T:
    results = script.get((call.task, call.iteration), ())
    return results[min(call.number, len(results)) - 1] if results else otherwise


class Tape:
    """Choices from a list of numbers, over and over; 0 is always the first option, and so is an empty tape."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = tuple(numbers) or (0,)
        self._position = 0

    def pick(self, options: Sequence[T]) -> T:
        number = self._numbers[self._position % len(self._numbers)]
        self._position += 1
        return options[number % len(options)]

    def at(self, *key: object) -> Tape:
        """A tape that depends on the key alone: the same call always comes to the same."""
        start = zlib.crc32(repr(key).encode()) % len(self._numbers)
        return Tape(self._numbers[start:] + self._numbers[:start])


class FromTape:
    """Outcomes picked from a tape: in the order of asking, or (`keyed`) as a function of the call alone."""

    def __init__(self, tape: Tape, *, keyed: bool = False, stops: bool = True) -> None:
        self._tape = tape
        self._keyed = keyed
        self._stops = stops

    def _for(self, call: Call) -> Tape:
        return self._tape.at(call) if self._keyed else self._tape

    def turn(self, call: Call) -> TurnResult:
        return self._turn(self._for(call))

    def _turn(self, tape: Tape) -> TurnResult:
        others = (each for each in TurnOutcome if each not in {TurnOutcome.LIMIT, TurnOutcome.STOPPED})
        outcomes: list[TurnOutcome] = [
            TurnOutcome.DONE,
            TurnOutcome.CRASHED,
            TurnOutcome.DONE,
            TurnOutcome.TIMED_OUT,
            *others,
        ]
        if self._stops:
            outcomes.append(TurnOutcome.STOPPED)
        outcome = tape.pick(outcomes)
        return TurnResult(
            outcome=outcome,
            retry_after=tape.pick((None, 5.0, 250.0, 4000.0)) if outcome is TurnOutcome.RATE_LIMITED else None,
            question="Which one?" if outcome is TurnOutcome.ASKED else "",
            seconds=tape.pick((1.0, 0.0, 7.0, 60.0, 900.0)),
            cost=tape.pick((0.0, None, 0.25, 0.1, 3.0)),
            calls=tape.pick((1, 1, 4)),
            changes=tape.pick((True, True, False)),
        )

    def suite(self, call: Call) -> SuiteResult:
        tape = self._for(call)
        outcome = tape.pick((Outcome.PASSED, Outcome.FAILED, Outcome.FAILED, *Outcome))
        names = ("test_a", "test_b", "test_c")
        return SuiteResult(
            outcome=outcome,
            seconds=tape.pick((1.0, 0.0, 7.0, 400.0)),
            failing=names[: tape.pick((1, 2, 3))] if outcome is Outcome.FAILED else (),
            stopped=self._stops and tape.pick((False,) * 7 + (True,)),
            artifact=tape.pick((False, True)),
        )

    def gate(self, call: Call) -> GateResult:
        tape = self._for(call)
        verdicts: tuple[GateVerdict, ...] = ("accepted", "accepted", "gaps", "accepted", "failed", "incident")
        return GateResult(tape.pick(verdicts), tape.pick(("", "", "", "look at it")), tape.pick((False, False, True)))

    def review(self, call: Call) -> ReviewResult:
        tape = self._for(call)
        statuses: tuple[ReviewStatus, ...] = ("approve", "reject", "approve", "pending", "failed")
        status = tape.pick(statuses)
        turn = self._turn(tape)
        if turn.outcome is not TurnOutcome.DONE:
            return ReviewResult("failed", turn)
        return ReviewResult(status, turn)


class World:
    """One run: its journal, its work tree, its clock."""

    def __init__(
        self, plan: FrozenPlan, outcomes: Outcomes, *, declared: tuple[FrozenTask, ...] = (), friction: float = 0.0
    ) -> None:
        self.outcomes = outcomes
        self.declared = declared
        self.friction = friction
        self.clock = 0.0
        self.journal: list[Entry] = []
        self.state = RunState()
        self.tree: frozenset[str] = frozenset()
        self.snapshots: dict[str, frozenset[str]] = {}
        self.stop_file = False
        self.asked: list[tuple[int, Step]] = []
        self.decided: list[tuple[Situation, Decision]] = []
        self._labels = 0
        self.record(RunStarted(run="R", version="0", plan=plan, root="/r", git_dir="/r/.git", head="", directory="."))

    # What the driver does

    def record(self, event: Event) -> None:
        """Into the journal as JSON, and from there into the state."""
        self.clock += self.friction
        written = EVENT.validate_json(EVENT.dump_json(event))
        entry = Entry(len(self.journal) + 1, f"2025-01-01T00:00:{len(self.journal):06}Z", self.clock, written)
        self.journal.append(entry)
        self.state = apply(self.state, entry)

    def next(self) -> Step:
        if self.stop_file and not self.state.stopped_by:
            self.stop_file = False
            self.record(StopRequested(by="iterctl stop"))
        step = next_step(self.state)
        self.asked.append((len(self.journal), step))
        return step

    def run(self, until: type[Step] | None = None, *, stage: str = "", at_most: int = 5_000) -> Step:
        """Perform steps until the run is over, or until a step of this kind (and stage) is next."""
        for _ in range(at_most):
            step = self.next()
            if isinstance(step, Done):
                return step
            if until is not None and isinstance(step, until) and (not stage or getattr(step, "stage", "") == stage):
                return step
            self.finish(step)
        raise AssertionError(f"no end after {at_most} steps: {self.told()}")

    def finish(self, step: Step) -> None:
        for _ in self.perform(step):
            pass

    def perform(self, step: Step) -> Generator[None]:
        """Do one step; at every yield something has just been written, and to go no further is a crash."""
        match step:
            case Declare():
                self.record(TasksDeclared(tasks=self.declared))
            case StartTask():
                base = self.snapshot("base")
                self.record(TaskStarted(task=step.task, base=base, tree=self.tree_id()))
            case Recover():
                self.restore(step.to)
                self.record(
                    Recovered(task=step.task, iteration=step.iteration, stage=_stage(step.stage), restored=step.to)
                )
            case ChooseStrategy():
                task = self.state.task(step.task)
                self.record(chosen_strategy(self.state, task, step.iteration, causes=0, learned={}))
            case CallAgent():
                yield from self._generate(step)
            case Undo():
                kept = self.snapshot("failed")
                self.restore(step.to)
                self.record(Undone(task=step.task, iteration=step.iteration, kept=kept, restored=step.to))
            case Wait():
                self.record(Waited(task=step.task, iteration=step.iteration, seconds=step.seconds, why=step.why))
                yield
                self.clock += step.seconds
            case RunTests():
                yield from self._test(step)
            case ProveBase():
                self._claim(step.task, step.iteration, "judge", 300.0)
                yield
                self.record(BaseProved(task=step.task, proof=Proof(manifest="m", suite=_passed())))
            case Judge():
                yield from self._judge(step)
            case CallReviewer():
                yield from self._review(step)
            case PutBack() | TakeSnapshot():
                self._take(step if isinstance(step, TakeSnapshot) else TakeSnapshot(step.task, step.iteration, "start"))
            case Decide():
                self._decide(step)
            case Settle():
                self._settle(self.state.task(step.task))
            case FinishRun():
                decision: Literal["proceed", "escalate"] = "proceed" if step.proceed else "escalate"
                self.record(RunFinished(decision=decision, exit_code=step.exit_code))
            case Done():
                raise AssertionError("there is nothing to perform")
        yield

    def _generate(self, step: CallAgent) -> Generator[None]:
        call, allowed = self._claim(step.task, step.iteration, "generate", 300.0)
        yield
        result = self.outcomes.turn(call)
        turn = self._spend(step.agent, result, allowed)
        if result.changes:
            word = "done" if turn.outcome.took_its_turn else turn.outcome
            self.tree |= {f"{call.task}/{call.iteration}/{word}/{self._label()}"}
        self.record(TurnFinished(task=step.task, iteration=step.iteration, turn=turn))

    def _test(self, step: RunTests) -> Generator[None]:
        call, allowed = self._claim(step.task, step.iteration, "test", 300.0)
        yield
        result = self.outcomes.suite(call)
        if result.artifact:
            self.tree |= {f"artifact/{self._label()}"}
        if result.stopped:
            self.stop_file = True
            return
        out_of_time = result.seconds >= allowed.seconds
        seconds = min(result.seconds, allowed.seconds)
        self.clock += seconds
        outcome = Outcome.TIMED_OUT if out_of_time else result.outcome
        failing = () if out_of_time else result.failing
        suite = SuiteEvidence(
            outcome=outcome,
            reason=f"it is {outcome}",
            counts=Counts(tests=3, passed=3 - len(failing), failed=len(failing)),
            failures=tuple(
                Failure(test=name, message=f"assert {name}", expected="1", received="2") for name in failing
            ),
            failing=failing,
            seconds=seconds,
            limit=allowed.limit if out_of_time else "",
        )
        self.record(SuiteFinished(task=step.task, iteration=step.iteration, suite=suite))

    def _judge(self, step: Judge) -> Generator[None]:
        attempt = attempt_at(self.state, self.state.task(step.task), step.iteration)
        result = GateResult()
        if step.iteration:
            call, _ = self._claim(step.task, step.iteration, "judge", 300.0)
            yield
            result = self.outcomes.gate(call)
        if attempt.suite is None or not attempt.suite.passed:
            result = GateResult("not-green", left_out=result.left_out)
        red = result.verdict in {"not-green", "failed"}
        gate = GateEvidence(
            verdict=result.verdict,
            reason=f"the gate says {result.verdict}",
            ask=result.ask if result.verdict == "accepted" else "",
            left_out=(LeftOut(path="tests/test_a.py", reason="is protected", protected=True),)
            if result.left_out
            else (),
            suite=None if result.verdict == "not-green" else _failed() if red else _passed(),
        )
        self.record(Judged(task=step.task, iteration=step.iteration, gate=gate))

    def _review(self, step: CallReviewer) -> Generator[None]:
        call, allowed = self._claim(step.task, step.iteration, "review", 300.0)
        yield
        result = self.outcomes.review(call)
        turn = self._spend(step.reviewer, result.turn, allowed)
        status = result.status if turn.outcome is TurnOutcome.DONE else "failed"
        review = ReviewEvidence(reviewer=step.reviewer.name, status=status, feedback=f"I say {status}")
        self.record(ReviewFinished(task=step.task, iteration=step.iteration, review=review, turn=turn))

    def _claim(self, task_id: str, iteration: int, stage: Stage, timeout: float) -> tuple[Call, Allowance]:
        task = self.state.task(task_id)
        attempt = attempt_at(self.state, task, iteration)
        used = spent(self.state, attempt)
        allowed = allowance(limits_of(self.state), used, timeout, in_iteration=iteration > 0)
        turns = {"generate": attempt.turns, "review": attempt.review_turns}.get(stage, ())
        self.record(StageStarted(task=task_id, iteration=iteration, stage=stage, before=task.latest))
        return Call(task_id, iteration, stage, len(turns) + 1), allowed

    def _spend(self, agent: NamedAgent, result: TurnResult, allowed: Allowance) -> TurnEvidence:
        """A call takes its time, but no more than it is allowed; a limit that ends it is named."""
        outcome, limit = result.outcome, ""
        if result.seconds >= allowed.seconds:
            limit = allowed.limit
            outcome = TurnOutcome.LIMIT if limit else TurnOutcome.TIMED_OUT
        seconds = min(result.seconds, allowed.seconds)
        self.clock += seconds
        self.stop_file = self.stop_file or outcome is TurnOutcome.STOPPED
        return TurnEvidence(
            agent=agent.name,
            outcome=outcome,
            error="" if outcome is TurnOutcome.DONE else f"it was {outcome}",
            seconds=seconds,
            cost_usd=result.cost,
            calls=result.calls,
            limit=limit,
            retry_after=result.retry_after,
            question=result.question,
        )

    def _take(self, step: TakeSnapshot) -> None:
        task = self.state.task(step.task)
        before = self.snapshots[task.latest] if task.latest else self.tree
        changed = () if self.tree_id() == task.latest_tree else tuple(sorted(self.tree ^ before))
        commit = self.snapshot(step.stage)
        self.record(
            SnapshotTaken(
                task=step.task,
                iteration=step.iteration,
                stage=_stage(step.stage),
                commit=commit,
                tree=self.tree_id(),
                change=Change(files=changed, file_count=len(changed), added=len(changed)),
            )
        )

    def _decide(self, step: Decide) -> None:
        task = self.state.task(step.task)
        asked = situation(self.state, task, step.iteration, Feedback(summary="what to mend"))
        decision = decide(asked)
        self.decided.append((asked, decision))
        self.record(Decided(task=step.task, iteration=step.iteration, decision=decision))

    def _settle(self, task: TaskState) -> None:
        last = task.attempts[-1].iteration
        if task.status == "proceed":
            self.record(Settled(task=task.id, holds="accepted", iteration=last, commit=task.latest))
            return
        if not any(attempt.turns for attempt in task.attempts):
            self.record(Settled(task=task.id, holds="untouched", iteration=0, commit=task.latest))
            return
        holds = task.settings.on_escalate
        iteration, commit = last, ""
        if holds == "base":
            iteration, commit = 0, task.floor
        elif holds == "best" and (best := best_attempt(task)) is not None:
            iteration, commit = best.iteration, best.latest_snapshot or task.base
        end = self.snapshot("end")
        if commit:
            self.restore(commit)
        self.record(Settled(task=task.id, holds=holds, iteration=iteration, commit=commit or end))

    # What happens to it from outside

    def crash(self) -> None:
        """The driver is gone; what was under way has half happened; the journal is all that is left."""
        if self.state.open_stage is not None:
            self.tree |= {f"torn/{self._label()}"}
        self.stop_file = False
        self.state = fold(self.journal)

    def interrupt(self) -> None:
        self.record(Interrupted())
        self.crash()

    def stop(self) -> None:
        self.record(StopRequested(by="a person"))

    def resume(self, limits: Limits | None = None, max_iterations: int | None = None) -> None:
        self.record(Resumed(limits=limits, max_iterations=max_iterations))

    def answer(
        self, task: str, effect: Literal["continue", "approve", "abort"], *, iterations: int = 0, guidance: str = ""
    ) -> None:
        self.record(Answered(task=task, effect=effect, iterations=iterations, guidance=guidance))

    # The work tree

    def snapshot(self, name: str) -> str:
        commit = f"{name}-{self._label()}"
        self.snapshots[commit] = self.tree
        return commit

    def restore(self, commit: str) -> None:
        assert commit in self.snapshots, f"there is no snapshot {commit!r}"
        self.tree = self.snapshots[commit]

    def tree_id(self) -> str:
        return ",".join(sorted(self.tree)) or "empty"

    def _label(self) -> int:
        self._labels += 1
        return self._labels

    # What there is to look at

    def events(self, kind: type[T]) -> list[T]:
        return [entry.event for entry in self.journal if isinstance(entry.event, kind)]

    def told(self) -> str:
        return " ".join(entry.event.kind for entry in self.journal[-40:])


def _passed() -> SuiteEvidence:
    return SuiteEvidence(outcome=Outcome.PASSED, counts=Counts(tests=3, passed=3))


def _failed() -> SuiteEvidence:
    return SuiteEvidence(
        outcome=Outcome.FAILED, counts=Counts(tests=3, passed=2, failed=1), failing=("test_room",), reason="1 failed"
    )


def _stage(name: str) -> Literal["generate", "test", "judge", "review", "start"]:
    assert name in {"generate", "test", "judge", "review", "start"}
    return name  # type: ignore[return-value]  # just checked
