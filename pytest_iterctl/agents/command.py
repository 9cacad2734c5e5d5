"""Any command line as an agent: the prompt on its standard input or in a file, the work tree as its directory."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pytest_iterctl.agents.turn import Reply, Tick, Turn, evidence_of
from pytest_iterctl.work.environment import agent_environment
from pytest_iterctl.work.process import Command, run

__all__ = ["call_command", "private_file"]


def call_command(turn: Turn, tick: Tick) -> Reply:
    spec = turn.agent.spec
    prompt_file = private_file(turn.private, "prompt.md", turn.prompt)
    private_file(turn.private, "feedback.json", json.dumps(turn.feedback, indent=1))
    command = Command(
        arguments=tuple(part.replace("{prompt_file}", str(prompt_file)) for part in spec.command or ()),
        cwd=turn.directory,
        environment=agent_environment(
            os.environ, pass_names=(*turn.pass_env, *spec.pass_env), extra={**spec.env, **turn.variables()}
        ),
        stdin=b"" if spec.prompt == "file" else turn.prompt.encode("utf-8", "backslashreplace"),
        timeout=turn.seconds,
    )
    finished = run(command, tick=tick)
    evidence = evidence_of(turn, finished, any_exit_code=turn.stage == "review")
    return Reply(evidence, finished.stdout.text, finished.stderr.text, finished.survivors)


def private_file(directory: Path, name: str, text: str) -> Path:
    """Write a file that only this user can read; an agent's prompt may hold what the project keeps private."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = directory / name
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(text)
    return path
