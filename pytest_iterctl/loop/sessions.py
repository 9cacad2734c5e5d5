"""Whether an agent goes on with the session it had or starts afresh, as it does after failing twice in one way."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_iterctl.agents.transcript import SessionTotals
from pytest_iterctl.control.evidence import TurnEvidence
from pytest_iterctl.control.hopeless import is_stuck, last_tried
from pytest_iterctl.control.state import Attempt, TaskState
from pytest_iterctl.plan.frozen import NamedAgent

__all__ = ["Session", "session_for"]


@dataclass(frozen=True, slots=True)
class Session:
    """The agent's own name of the session to go on with ('': a new one), and what it has come to so far."""

    id: str = ""
    before: SessionTotals | None = None


def session_for(task: TaskState, attempt: Attempt, agent: NamedAgent) -> Session:
    """A new session unless the task or the agent asks to resume, and there is one that is worth it.

    Not after a turn that failed (perhaps over the very session) or was lost, not when the work tree is another one than
    the session remembers, and not when the last two iterations failed in the same way: whatever the agent has in its
    head by then does not help.
    """
    wanted = task.task.session or agent.spec.session
    if attempt.strategy.fresh_session:
        return Session()
    if wanted != "resume" or agent.spec.resume is None or attempt.turns or attempt.lost_calls:
        return Session()
    earlier = [each for each in task.attempts if each.iteration < attempt.iteration]
    if attempt.snapshot("start") and (not earlier or earlier[-1].tree != task.latest_tree):
        return Session()
    turns = [turn for each in task.attempts for turn in each.turns if turn.agent == agent.name]
    last = turns[-1] if turns else None
    if last is None or not last.session_id or not last.outcome.took_its_turn:
        return Session()
    if is_stuck(last_tried(task.attempts), after=task.forgiven, whatever_changed=True):
        return Session()
    return Session(last.session_id, _totals(turns, last.session_id))


def _totals(turns: list[TurnEvidence], session: str) -> SessionTotals:
    own = [turn for turn in turns if turn.session_id == session]
    return SessionTotals(
        cost_usd=sum(turn.cost_usd or 0.0 for turn in own),
        tokens=sum(turn.tokens or 0 for turn in own),
        calls=sum(turn.calls for turn in own),
    )
