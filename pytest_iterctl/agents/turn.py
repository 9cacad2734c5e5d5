"""One call of an agent: what it is given, what came back. All kinds of agents share these two."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from pytest_iterctl.control.evidence import TurnEvidence, TurnOutcome
from pytest_iterctl.feedback.documents import find_document
from pytest_iterctl.plan.frozen import NamedAgent
from pytest_iterctl.plan.values import format_duration
from pytest_iterctl.text import one_line
from pytest_iterctl.work.process import Finished

__all__ = ["Caller", "Reply", "Spoken", "Tick", "Turn", "evidence_of"]

#: Called about ten times a second while an agent works; True asks it to stop.
Tick = Callable[[float], bool]

#: Beyond this a reported number is nonsense and counts as not reported.
_LARGEST = 1e12


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
        }


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: the evidence, everything that was printed, and how many processes nothing could end."""

    evidence: TurnEvidence
    stdout: str
    stderr: str = ""
    survivors: int = 0


class Caller(Protocol):
    """How one kind of agent is called."""

    def __call__(self, turn: Turn, tick: Tick) -> Reply: ...


@dataclass(frozen=True, slots=True)
class Spoken:
    """What an agent says of its own turn; what is not a sane number is unknown, never zero."""

    cost_usd: float | None = None
    tokens: int | None = None
    calls: int = 1
    session_id: str | None = None
    error: str = ""

    @classmethod
    def of(cls, document: Mapping[str, object] | None) -> Spoken:
        if document is None:
            return cls()
        cost, tokens, calls = (_number(document.get(key)) for key in ("cost_usd", "tokens", "calls"))
        if cost is None:  # what Claude Code calls it
            cost = _number(document.get("total_cost_usd"))
        session, error = document.get("session_id"), document.get("error")
        if document.get("is_error") is True:
            error = error or document.get("result") or "it reported an error"
        return cls(
            cost_usd=cost,
            tokens=int(tokens) if tokens is not None else None,
            calls=max(int(calls), 1) if calls is not None else 1,
            session_id=one_line(session, 200) if isinstance(session, str) and session else None,
            error=one_line(error if isinstance(error, str) else json.dumps(error, default=str), 300) if error else "",
        )


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < _LARGEST else None


def evidence_of(turn: Turn, finished: Finished, *, any_exit_code: bool = False) -> TurnEvidence:
    """Judge a process that spoke for an agent: by how it ended, what it reported, and only then by its exit code.

    A reviewer's exit code is part of its answer, so that is left to whoever reads the answer.
    """
    document = find_document(finished.stdout.text, _is_report)
    spoken = Spoken.of(document)
    outcome, reason, limit = TurnOutcome.DONE, "", ""
    if finished.error:
        outcome, reason = TurnOutcome.FAILED, finished.error
    elif finished.ended_by == "timeout" and turn.limit:
        outcome, reason, limit = TurnOutcome.LIMIT, f"ended by {turn.limit}", turn.limit
    elif finished.ended_by == "timeout":
        outcome, reason = TurnOutcome.TIMED_OUT, f"no answer within {format_duration(turn.seconds)}"
    elif finished.ended_by != "exit":
        stopped = finished.ended_by == "stop"
        outcome = TurnOutcome.STOPPED if stopped else TurnOutcome.FAILED
        reason = "stopped" if stopped else "its supervisor was killed"
    elif spoken.error:
        outcome, reason = TurnOutcome.FAILED, spoken.error
    elif finished.exit_code != 0 and not any_exit_code:
        outcome, reason = TurnOutcome.FAILED, _exit_reason(finished)
    return TurnEvidence(
        agent=turn.agent.name,
        outcome=outcome,
        exit_code=finished.exit_code,
        error=one_line(reason, 300),
        seconds=finished.seconds,
        cost_usd=spoken.cost_usd,
        tokens=spoken.tokens,
        calls=spoken.calls,
        session_id=spoken.session_id,
        limit=limit,
    )


def _is_report(document: dict[str, object]) -> bool:
    return bool(document.keys() & {"cost_usd", "total_cost_usd", "tokens", "session_id", "error", "is_error", "calls"})


def _exit_reason(finished: Finished) -> str:
    lines = [
        line for text in (finished.stderr.text, finished.stdout.text) for line in text.splitlines() if line.strip()
    ]
    last = one_line(lines[-1], 200) if lines else "it printed nothing"
    code = finished.exit_code
    how = f"killed by signal {-code}" if code is not None and code < 0 else f"exit code {code}"
    return f"{how}: {last}"
