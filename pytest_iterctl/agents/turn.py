"""One call of an agent: what it is given, what came back. All kinds of agents share these two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from pytest_iterctl.agents.transcript import SessionTotals, Transcript, bounded_text, read_transcript
from pytest_iterctl.control.evidence import TurnEvidence, TurnOutcome
from pytest_iterctl.plan.frozen import NamedAgent
from pytest_iterctl.plan.values import format_duration
from pytest_iterctl.text import one_line
from pytest_iterctl.work.process import Finished, Walls

__all__ = ["Caller", "Reply", "Tick", "Turn", "evidence_of", "transcript_of"]

#: Called about ten times a second while an agent works; True asks it to stop.
Tick = Callable[[float], bool]

#: What a tool may wait for in vain until its time is over. Said by its last words, it is a better answer than "late".
_REASONS_TO_HANG = frozenset({TurnOutcome.NO_NETWORK, TurnOutcome.RATE_LIMITED, TurnOutcome.NOT_LOGGED_IN})


@dataclass(frozen=True, slots=True)
class Turn:
    """What an agent is asked, and the bounds it works in."""

    agent: NamedAgent
    stage: Literal["generate", "review"]
    run: str
    task: str
    iteration: int
    max_iterations: int
    session: str
    prompt: str
    feedback: Mapping[str, object]
    diff: str
    directory: Path
    private: Path
    seconds: float
    limit: str
    python: str
    arguments: tuple[str, ...]
    as_module: bool
    pass_env: tuple[str, ...]
    #: The agent's own name for the session to go on with; '' for a new one.
    resume: str = ""
    #: What the run's limits leave, for tools that keep to bounds of their own: max_cost, max_turns.
    budget: Mapping[str, float] = field(default_factory=dict)
    #: What the session that is gone on with has come to.
    before: SessionTotals | None = None
    #: What its process is put in; None where it may do whatever the user may.
    walls: Walls | None = None
    #: Where it can ask for the run's memory.
    socket: Path | None = None

    def variables(self) -> dict[str, str]:
        """What every agent process finds in its environment."""
        return {
            "ITERCTL_RUN": self.run,
            "ITERCTL_TASK": self.task,
            "ITERCTL_STAGE": self.stage,
            "ITERCTL_ITERATION": str(self.iteration),
            "ITERCTL_MAX_ITERATIONS": str(self.max_iterations),
            "ITERCTL_SESSION": self.session,
            "ITERCTL_FEEDBACK": str(self.private / "feedback.json"),
            # An agent that runs pytest itself must not start a loop within the loop.
            "PYTEST_ITERCTL_CHILD": self.run,
            **({"ITERCTL_SOCKET": str(self.socket)} if self.socket is not None else {}),
        }


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: the evidence, everything that was printed, and how many processes nothing could end.

    `said` is the agent's last message without the records around it, where the agent's output is known to have some.
    """

    evidence: TurnEvidence
    stdout: str
    stderr: str = ""
    survivors: int = 0
    said: str | None = None


class Caller(Protocol):
    """How one kind of agent is called."""

    def __call__(self, turn: Turn, tick: Tick) -> Reply: ...


def transcript_of(
    turn: Turn, finished: Finished, *, output_file: str = "", any_exit_code: bool = False, now: float | None = None
) -> Transcript:
    """What a process that spoke for an agent says of its turn. Only one that ended by itself has an exit code."""
    by_itself = finished.ended_by == "exit"
    return read_transcript(
        turn.agent.spec,
        stdout=finished.stdout.text,
        stderr=finished.stderr.text,
        output_file=output_file,
        exit_code=finished.exit_code if by_itself else None,
        before=turn.before,
        now=now,
        any_exit_code=any_exit_code or not by_itself,
        review=turn.stage == "review",
    )


def evidence_of(turn: Turn, finished: Finished, *, transcript: Transcript | None = None) -> TurnEvidence:
    """Judge a process that spoke for an agent: by how it ended, what it reported, and only then by its exit code."""
    told = transcript or transcript_of(turn, finished)
    outcome, reason, limit = told.outcome, told.error, ""
    if finished.error:
        outcome, reason = TurnOutcome.CRASHED, finished.error
    elif finished.ended_by == "timeout" and told.finished:
        pass  # whether a limit was overstepped, the loop sees by the time that is spent
    elif finished.ended_by == "timeout" and told.outcome in _REASONS_TO_HANG:
        reason = told.error or f"no answer within {format_duration(turn.seconds)}"
    elif finished.ended_by == "timeout" and turn.limit:
        outcome, reason, limit = TurnOutcome.LIMIT, f"ended by {turn.limit}", turn.limit
    elif finished.ended_by == "timeout":
        outcome, reason = TurnOutcome.TIMED_OUT, f"no answer within {format_duration(turn.seconds)}"
    elif finished.ended_by == "stop":
        outcome, reason = TurnOutcome.STOPPED, "stopped"
    elif finished.ended_by not in {"exit", "timeout"}:
        outcome, reason = TurnOutcome.CRASHED, "its supervisor was killed"
    price = turn.agent.spec.usd_per_million_tokens
    by_price = told.cost_usd is None and told.tokens is not None and price is not None
    return TurnEvidence(
        agent=turn.agent.name,
        outcome=outcome,
        exit_code=finished.exit_code,
        error=one_line(reason, 300),
        seconds=finished.seconds,
        cost_usd=(told.tokens or 0) * (price or 0.0) / 1_000_000 if by_price else told.cost_usd,
        cost_is_estimated=by_price,
        tokens=told.tokens,
        calls=told.calls,
        session_id=told.session_id,
        limit=limit,
        denied=told.denied,
        question=told.question,
        retry_after=told.retry_after,
        text=bounded_text(told.text),
    )
