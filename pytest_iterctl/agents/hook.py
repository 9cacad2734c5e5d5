"""Python hooks as an agent: a process of their own loads the project's conftest files and calls the hook."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_iterctl.agents.command import private_file
from pytest_iterctl.agents.transcript import Transcript
from pytest_iterctl.agents.turn import Reply, Tick, Turn, evidence_of
from pytest_iterctl.control.evidence import TurnEvidence, TurnOutcome
from pytest_iterctl.work.environment import agent_environment
from pytest_iterctl.work.process import Capture, Command, Finished, run

__all__ = ["Heard", "ask_hooks", "call_hook"]


@dataclass(frozen=True, slots=True)
class Heard:
    """What hooks say to something that is no agent's turn, and '' or why that did not work."""

    result: Mapping[str, object]
    problem: str = ""
    hung: bool = False  # the time that they had was their own, not what a limit left, and they used it up
    stopped: bool = False  # somebody stopped it: nobody knows what they would have said


def call_hook(turn: Turn, tick: Tick) -> Reply:
    private_file(turn.private, "feedback.json", json.dumps(turn.feedback, indent=1))
    request: dict[str, object] = {
        "hook": "iterctl_generate" if turn.stage == "generate" else "iterctl_review",
        "agent": turn.agent.spec.hook or turn.agent.name,
        "run": turn.run,
        "task": turn.task,
        "iteration": turn.iteration,
        "max_iterations": turn.max_iterations,
        "session": turn.session,
        "prompt": turn.prompt,
        "feedback": dict(turn.feedback),
        "diff": turn.diff,
    }
    finished, result = _host(turn, request, tick)
    evidence = evidence_of(turn, finished)
    if evidence.outcome is not TurnOutcome.DONE:
        return Reply(evidence, finished.stdout.text, finished.stderr.text, finished.survivors)
    evidence = _with_result(evidence, result, review=turn.stage == "review")
    return Reply(evidence, json.dumps(result), finished.stderr.text, finished.survivors)


def ask_hooks(turn: Turn, request: dict[str, object], tick: Tick) -> Heard:
    finished, result = _host(turn, request, tick)
    evidence = evidence_of(turn, finished)
    if evidence.outcome is TurnOutcome.DONE:
        return Heard(result)
    hung = finished.ended_by == "timeout" and not turn.limit
    return Heard({}, evidence.error, hung=hung, stopped=finished.ended_by == "stop")


def _host(turn: Turn, request: dict[str, object], tick: Tick) -> tuple[Finished, dict[str, object]]:
    request_file = private_file(turn.private, "request.json", json.dumps(request))
    result_file = private_file(turn.private, "result.json", "")
    spec = turn.agent.spec
    variables = {
        **spec.env,
        **turn.variables(),
        "ITERCTL_HOST_REQUEST": str(request_file),
        "ITERCTL_HOST_RESULT": str(result_file),
        "ITERCTL_HOST_MODE": "module" if turn.as_module else "script",
    }
    command = Command(
        # -P keeps the project's folder off the path until the host has put it where pytest would.
        arguments=(turn.python, "-P", "-m", "pytest_iterctl.agents.host", *turn.arguments),
        cwd=turn.directory,
        environment=agent_environment(os.environ, pass_names=(*turn.pass_env, *spec.pass_env), extra=variables),
        timeout=turn.seconds,
    )
    finished = run(command, tick=tick, walls=turn.walls)
    result = _read(result_file)
    if result is None and finished.ended_by == "exit" and not finished.error:
        # An exit code of 0 without a result is a process that was ended from within.
        reason = _last_line(finished.stderr) or _last_line(finished.stdout) or "no result"
        return replace(finished, error=f"the hook process left no result: {reason}"), {}
    return finished, result or {}


def _read(path: Path) -> dict[str, object] | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def _last_line(capture: Capture) -> str:
    lines = [line for line in capture.text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _with_result(evidence: TurnEvidence, result: dict[str, object], *, review: bool) -> TurnEvidence:
    said = Transcript.of(result, review=review, now=time.time())
    return evidence.model_copy(
        update={
            "outcome": said.outcome,
            "error": said.error,
            "cost_usd": said.cost_usd,
            "tokens": said.tokens,
            "calls": said.calls,
            "session_id": said.session_id,
            "denied": said.denied,
            "question": said.question,
            "retry_after": said.retry_after,
        }
    )
