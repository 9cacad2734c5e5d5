"""Asking the question in person: at a terminal, right after an escalation."""

from __future__ import annotations

import sys

from pytest_iterctl.control.state import RunState, TaskState
from pytest_iterctl.loop.run import Answer

__all__ = ["ask_person", "understood"]


def ask_person(state: RunState) -> tuple[str, Answer] | None:
    """The first question that waits; None when there is none or the person leaves it for later."""
    for task in state.tasks:
        if task.status == "escalated" and task.decision is not None and task.decision.question is not None:
            return _ask(task)
    return None


def _ask(task: TaskState) -> tuple[str, Answer] | None:
    """The summary has just shown the question and its options, so only the answer is asked for."""
    question = task.decision.question if task.decision is not None else None
    if question is None:
        return None
    last = len(question.options)
    while True:
        sys.stderr.write(f"{task.id}: 1-{last}, or guidance in your own words, or Enter to answer later: ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        answer = understood(line, last)
        if answer is not None or not line.strip():
            return (task.id, answer) if answer is not None else None
        sys.stderr.write(f"{line.strip()} is not one of 1 to {last}\n")


def understood(line: str, last: int) -> Answer | None:
    """An option by its number, or anything longer as guidance to go on with."""
    said = line.strip()
    if said.isdigit():
        return Answer(option=int(said)) if 1 <= int(said) <= last else None
    return Answer(effect="continue", guidance=said) if said else None
