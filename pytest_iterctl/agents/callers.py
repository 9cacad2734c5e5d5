"""Which caller an agent has, and how a reviewer's reply becomes evidence."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from pytest_iterctl.agents.command import call_command
from pytest_iterctl.agents.hook import call_hook
from pytest_iterctl.agents.person import call_person
from pytest_iterctl.agents.turn import Caller, Reply, Tick, Turn
from pytest_iterctl.control.evidence import ReviewEvidence, TurnOutcome
from pytest_iterctl.feedback.reviews import read_review
from pytest_iterctl.plan.model import Agent
from pytest_iterctl.text import one_line, strip_escapes

__all__ = ["call_agent", "call_reviewer", "caller_of"]

#: What is kept of last words: so many lines, so much of each, from so much of the end.
_LINES, _LINE, _TAIL = 10, 300, 8192


def caller_of(spec: Agent) -> Caller:
    if spec.command is not None:
        return call_command
    return call_hook if spec.hook is not None else call_person


def call_agent(turn: Turn, tick: Tick) -> Reply:
    return _with_last_words(caller_of(turn.agent.spec)(turn, tick))


def call_reviewer(turn: Turn, tick: Tick) -> tuple[ReviewEvidence, Reply]:
    """A reviewer that failed is an agent that failed, never an approval."""
    reply = call_agent(turn, tick)
    evidence = reply.evidence
    failed = evidence.outcome not in {TurnOutcome.DONE, TurnOutcome.TOOLS_DENIED}
    if failed and not evidence.error:
        asked = f"it asked: {evidence.question}" if evidence.question else str(evidence.outcome)
        evidence = evidence.model_copy(update={"error": one_line(asked, 300)})
        reply = replace(reply, evidence=evidence)
    review = read_review(
        turn.agent.name,
        reply.stdout if reply.said is None else reply.said,
        evidence.exit_code,
        evidence.error if failed else "",
        exit_code_speaks=reply.said is None,
    )
    if review.status == "failed" and not failed:
        evidence = evidence.model_copy(update={"outcome": TurnOutcome.CRASHED, "error": one_line(review.feedback, 300)})
        reply = _with_last_words(replace(reply, evidence=evidence))
        if words := reply.evidence.last_words:
            error = one_line(f"{review.feedback}: {words[0]}", 300)
            reply = replace(reply, evidence=reply.evidence.model_copy(update={"error": error}))
        return review, reply
    return review, reply


def _with_last_words(reply: Reply) -> Reply:
    """What a program says last it says of its end: on stderr, where that is told.

    On stdout an agent also tells of its work, so that counts only where there is nothing else.
    """
    if not reply.evidence.outcome.is_failure:
        return reply
    words = _last_lines(reply.stderr) or _last_lines(reply.stdout)
    return replace(reply, evidence=reply.evidence.model_copy(update={"last_words": tuple(words)}))


def _last_lines(text: str) -> list[str]:
    tail = text[-_TAIL:]
    if len(tail) < len(text):
        tail = tail.partition("\n")[2]
    lines = (_beginning(strip_escapes(line).strip()) for line in tail.splitlines()[::-1])
    return list(islice(filter(None, lines), _LINES))


def _beginning(line: str) -> str:
    """Of whole words: half a secret would not be known for one when the journal is written."""
    return line if len(line) <= _LINE else line[:_LINE].rpartition(" ")[0]
