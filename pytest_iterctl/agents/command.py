"""Any command line as an agent: the prompt on stdin, in a file or in an argument, the work tree as its directory."""

from __future__ import annotations

import json
import os
import re
import stat
import time
import uuid
from decimal import ROUND_DOWN, Decimal
from pathlib import Path

from pytest_iterctl.agents.turn import Reply, Tick, Turn, evidence_of, transcript_of
from pytest_iterctl.control.evidence import TurnEvidence, TurnOutcome
from pytest_iterctl.plan.agent_names import missing_program
from pytest_iterctl.plan.model import PLACEHOLDERS, Agent
from pytest_iterctl.text import cut_middle, human_bytes, one_line
from pytest_iterctl.work.environment import agent_environment
from pytest_iterctl.work.process import KEEP, Command, run

__all__ = ["call_command", "private_file"]

#: Linux takes 128 KiB for one argument; a prompt that comes near is refused, not cut.
_LONGEST_ARGUMENT = 120 * 1024
#: What is kept of the beginning and the end of an output that is made of records, and of a file with them.
_RECORDS = 8 * 1024 * 1024
_LARGEST_FILE = 32 * 1024 * 1024
_CENT = Decimal("0.01")
_PLACEHOLDER = re.compile(rf"\{{({'|'.join(PLACEHOLDERS)})\}}")


def call_command(turn: Turn, tick: Tick) -> Reply:
    spec = turn.agent.spec
    prompt_file = private_file(turn.private, "prompt.md", turn.prompt)
    private_file(turn.private, "feedback.json", json.dumps(turn.feedback, indent=1))
    prompt = turn.prompt.encode("utf-8", "backslashreplace")
    if spec.prompt == "argument" and len(prompt) > _LONGEST_ARGUMENT:
        return _too_long(turn, len(prompt))
    new_session = str(uuid.uuid4())
    # A name that is new, too: an earlier call may have been cut off, and its file is not this one's.
    output_file = turn.private / f"output-{new_session}"
    fillings = {
        "prompt": prompt.decode().replace("\0", "\\x00"),
        "prompt_file": str(prompt_file),
        "output_file": str(output_file),
        "session_id": turn.resume,
        "new_session": new_session,
        "private": str(turn.private),
        **_bounds(turn),
    }
    arguments = _arguments(turn)
    command = Command(
        arguments=tuple(_PLACEHOLDER.sub(lambda found: fillings[found[1]], part) for part in arguments),
        cwd=turn.directory,
        environment=agent_environment(
            os.environ, pass_names=(*turn.pass_env, *spec.pass_env), extra={**spec.env, **turn.variables()}
        ),
        stdin=prompt if spec.prompt == "stdin" else b"",
        timeout=turn.seconds,
    )
    finished = run(command, tick=tick, keep=KEEP if spec.reads is None else _RECORDS, walls=turn.walls)
    # What a reviewer without a document says, it says by its exit code; a tool that prints records has no need to.
    any_exit_code = turn.stage == "review" and spec.reads is None
    transcript = transcript_of(
        turn, finished, output_file=_written(output_file), any_exit_code=any_exit_code, now=time.time()
    )
    evidence = evidence_of(turn, finished, transcript=transcript)
    if finished.error and (missing := missing_program(turn.agent, root=turn.directory)) is not None:
        evidence = evidence.model_copy(update={"error": one_line(f"{missing.message}: {missing.hint}", 300)})
    if evidence.session_id is None and (turn.resume or "{new_session}" in "".join(arguments)):
        evidence = evidence.model_copy(update={"session_id": turn.resume or new_session})
    stdout, stderr = (cut_middle(text.text, 2 * KEEP + 1000) for text in (finished.stdout, finished.stderr))
    return Reply(evidence, stdout, stderr, finished.survivors, None if spec.reads is None else transcript.text)


def _arguments(turn: Turn) -> tuple[str, ...]:
    spec = turn.agent.spec
    command = spec.resume if turn.resume and spec.resume is not None else spec.command or ()
    return (*command, *spec.arguments, *_budget(spec, turn, (*command, *spec.arguments)))


def _budget(spec: Agent, turn: Turn, written: tuple[str, ...]) -> tuple[str, ...]:
    """The bounds that the tool is told, apart from those that it is told already."""
    bounds = _bounds(turn)
    cost = spec.budget.max_cost if bounds["max_cost"] else ()
    turns = spec.budget.max_turns if bounds["max_turns"] else ()
    return tuple(part for option in (cost, turns) if not _is_given(option, written) for part in option)


def _is_given(option: tuple[str, ...], written: tuple[str, ...]) -> bool:
    names = {part.partition("=")[0] for part in option if part.startswith("-")}
    return any(part.partition("=")[0] in names for part in written)


def _bounds(turn: Turn) -> dict[str, str]:
    """The bounds as arguments; '' for none. Tools take 0 for "no bound", so the least is one cent and one turn."""
    cost, turns = turn.budget.get("max_cost"), turn.budget.get("max_turns")
    cents = None if cost is None else max(Decimal(str(cost)).quantize(_CENT, ROUND_DOWN), _CENT)
    return {
        "max_cost": "" if cents is None else str(cents),
        "max_turns": "" if turns is None else str(max(int(turns) - turn.agent.spec.budget.beyond, 1)),
    }


def _too_long(turn: Turn, size: int) -> Reply:
    error = f"the prompt has {human_bytes(size)}, which is too long for an argument: use prompt: stdin or file"
    return Reply(TurnEvidence(agent=turn.agent.name, outcome=TurnOutcome.CRASHED, error=error, cost_usd=0.0), "")


def _written(path: Path) -> str:
    """What the agent wrote to its output file; only a plain file is read, because anything else could be there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return ""
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read(_LARGEST_FILE).decode("utf-8", "replace")


def private_file(directory: Path, name: str, text: str) -> Path:
    """Write a file that only this user can read; an agent's prompt may hold what the project keeps private."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = directory / name
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(text)
    return path
