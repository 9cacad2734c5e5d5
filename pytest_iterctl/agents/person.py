"""A person as an agent: asked at the terminal, never where there is none."""

from __future__ import annotations

import json
import os
import select
import sys
import time

from pytest_iterctl.agents.command import private_file
from pytest_iterctl.agents.turn import Reply, Tick, Turn
from pytest_iterctl.control.evidence import TurnEvidence, TurnOutcome
from pytest_iterctl.text import strip_escapes

__all__ = ["at_terminal", "call_person", "read_line"]


def at_terminal() -> bool:
    """Whether somebody can be asked: input and messages both go to a terminal, and this is not a CI job."""
    if os.environ.get("CI") or os.environ.get("BUILD_NUMBER"):
        return False
    return os.isatty(0) and os.isatty(2)


def call_person(turn: Turn, tick: Tick) -> Reply:
    if not at_terminal():
        return _unattended(turn)
    prompt_file = private_file(turn.private, "prompt.md", turn.prompt)
    private_file(turn.private, "feedback.json", json.dumps(turn.feedback, indent=1))
    if turn.stage == "review":
        return _review(turn, tick, str(prompt_file))
    _say(f"{strip_escapes(turn.prompt)}\n(also in {prompt_file})\n")
    _say("Change the files, then press Enter (or type why it can't be done): ")
    line, outcome = _answer(turn, tick)
    error = "" if outcome is not TurnOutcome.DONE else line.strip()
    if error:
        outcome = TurnOutcome.CRASHED
    return Reply(_evidence(turn, outcome, error), line)


def _review(turn: Turn, tick: Tick, prompt_file: str) -> Reply:
    _say(f"The change to review, with the task, is in {prompt_file}\n")
    _say("[a]pprove, [l]ater, or type what is wrong with it: ")
    line, outcome = _answer(turn, tick)
    said = line.strip()
    if said.lower() in {"a", "approve", "y", "yes"}:
        document = {"status": "approve"}
    elif said.lower() in {"", "l", "later", "pending"}:
        document = {"status": "pending"}
    else:
        document = {"status": "reject", "feedback": said}
    return Reply(_evidence(turn, outcome, ""), json.dumps(document))


def _unattended(turn: Turn) -> Reply:
    if turn.stage == "review":
        return Reply(_evidence(turn, TurnOutcome.DONE, ""), json.dumps({"status": "pending"}))
    return Reply(_evidence(turn, TurnOutcome.CRASHED, "there is no terminal to ask a person at"), "")


def _answer(turn: Turn, tick: Tick) -> tuple[str, TurnOutcome]:
    started = time.monotonic()
    while True:
        elapsed = time.monotonic() - started
        if elapsed > turn.seconds:
            return "", TurnOutcome.LIMIT if turn.limit else TurnOutcome.TIMED_OUT
        if tick(elapsed):
            return "", TurnOutcome.STOPPED
        line = read_line(0.2)
        if line is not None:
            return line, TurnOutcome.DONE


def read_line(seconds: float) -> str | None:
    """A line from the terminal if one comes in time; '' at the end of the input."""
    ready, _, _ = select.select([0], [], [], seconds)
    if not ready:
        return None
    return os.read(0, 65536).decode("utf-8", "replace")


def _evidence(turn: Turn, outcome: TurnOutcome, error: str) -> TurnEvidence:
    limit = turn.limit if outcome is TurnOutcome.LIMIT else ""
    # A person's time is not the loop's to price.
    return TurnEvidence(agent=turn.agent.name, outcome=outcome, error=error, cost_usd=0.0, limit=limit)


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
