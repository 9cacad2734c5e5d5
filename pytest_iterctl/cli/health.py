"""`iterctl doctor`: what is missing here, and what to do about it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from pytest_iterctl.cli.planning import Wishes, found_agent_clis, frozen_plan
from pytest_iterctl.errors import ExitCode, IterctlError
from pytest_iterctl.loop.run import refuse_unsupported_system
from pytest_iterctl.loop.workspace import Workspace
from pytest_iterctl.plan.agent_names import missing_program
from pytest_iterctl.plan.frozen import FrozenPlan, NamedAgent
from pytest_iterctl.text import one_line, strip_escapes
from pytest_iterctl.work.environment import agent_environment
from pytest_iterctl.work.process import Command, run
from pytest_iterctl.work.sandbox_check import check

__all__ = ["Finding", "doctor", "examine"]

_VERSION_TIME = 30.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    ok: bool
    detail: str
    hint: str = ""


def doctor(*, as_json: bool) -> int:
    found = examine(Path.cwd())
    healthy = all(finding.ok for finding in found)
    if as_json:
        document = {"schema": "iterctl.doctor/1", "ok": healthy, "findings": [asdict(finding) for finding in found]}
        print(json.dumps(document, indent=1))
    else:
        for finding in found:
            print(f"{'ok' if finding.ok else 'MISSING':>8}  {finding.what}: {finding.detail}")
            if finding.hint:
                print(f"{'':>8}  hint: {finding.hint}")
    return 0 if healthy else int(ExitCode.USAGE)


def examine(start: Path) -> tuple[Finding, ...]:
    """Everything a run needs, in the order in which it needs it."""
    found = [_try("system", _system)]
    found.append(_try("versions", _versions))
    holder: list[Workspace] = []
    found.append(_try("repository", lambda: _repository(start, holder)))
    if holder:
        found += _in_repository(holder[0])
        holder[0].close()
    return tuple(found)


def _try(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, ok=True, detail=look())
    except IterctlError as error:
        return Finding(what, ok=False, detail=error.render().removeprefix("error: "), hint=error.hint)


def _system() -> str:
    refuse_unsupported_system()
    return sys.platform


def _versions() -> str:
    names = ("pytest-iterctl", "pytest", "pydantic", "GitPython", "junitparser", "click")
    return ", ".join(
        [f"python {sys.version.split()[0]}", *(f"{name} {importlib.metadata.version(name)}" for name in names)]
    )


def _repository(start: Path, holder: list[Workspace]) -> str:
    workspace = Workspace(start)
    holder.append(workspace)
    return f"{workspace.root} at {workspace.repository.describe_head()}"


def _in_repository(workspace: Workspace) -> list[Finding]:
    survey = workspace.snapshots("doctor").survey()
    found = [Finding("snapshots", ok=not survey.refusal, detail=survey.refusal or "the whole work tree can be kept")]
    found += [Finding("left out", ok=True, detail=warning) for warning in survey.warnings]
    found.append(Finding("state", ok=True, detail=str(workspace.place.directory)))
    plans: list[FrozenPlan] = []

    def plan() -> str:
        frozen = frozen_plan(workspace, Wishes())
        plans.append(frozen)
        return f"{frozen.source or 'none (the whole suite is one task)'}, {len(frozen.tasks)} task(s)"

    found.append(_try("plan", plan))
    for frozen in plans:
        found += _agents(frozen, workspace.root)
        found += _interpreters(frozen, workspace)
        found.append(_sandbox(workspace, needed=frozen.sandbox))
    return found


def _sandbox(workspace: Workspace, *, needed: bool) -> Finding:
    """Whether the walls stand here; without them only what needs them is refused."""
    obstacle = check(workspace.place.directory)
    if obstacle is None:
        return Finding("sandbox", ok=True, detail="it holds")
    wanting = "the plan needs it" if needed else "only safety: paranoid and sandbox: bwrap need it"
    return Finding("sandbox", ok=not needed, detail=f"none ({wanting}): {obstacle.problem}", hint=obstacle.remedy)


def _agents(plan: FrozenPlan, root: Path) -> list[Finding]:
    named = {agent.name: agent for task in plan.tasks for agent in (task.agent, *task.reviewers) if agent is not None}
    clis = ", ".join(found_agent_clis()) or "none"
    if not any(task.agent is not None for task in plan.tasks):
        hint = f"name one in the plan or with --agent (known ones on the PATH: {clis})"
        return [Finding("agent", ok=False, detail="none is named", hint=hint)]
    found = []
    for name, agent in named.items():
        missing = missing_program(agent, root=root)
        command = agent.spec.command
        detail = one_line(shlex.join(command), 300) if command else ("Python hooks" if agent.spec.hook else "a person")
        if missing is not None:
            found.append(Finding(f"agent {name}", ok=False, detail=missing.message, hint=missing.hint))
        else:
            found.append(Finding(f"agent {name}", ok=True, detail=detail + _version(agent, root)))
    return found


def _version(agent: NamedAgent, root: Path) -> str:
    """Which version of a known tool is here, and whether it is the one that its preset was tried with."""
    asked = agent.spec.version
    if asked is None:
        return ""
    environment = agent_environment(os.environ, pass_names=agent.spec.pass_env, extra=agent.spec.env)
    finished = run(Command(asked.command, root / (agent.folder or ""), environment, timeout=_VERSION_TIME))
    printed = f"{finished.stdout.text}\n{finished.stderr.text}"
    said = re.search(asked.pattern, strip_escapes(printed), re.MULTILINE)
    if said is None:
        how = "it does not answer" if finished.ended_by == "timeout" else f"exit code {finished.exit_code}"
        return f"; its version can't be told ({how})"
    version = one_line(said["version"], 40)
    return f"; version {version}" + (f" (tried with {asked.tested})" if asked.tested not in {"", version} else "")


def _interpreters(plan: FrozenPlan, workspace: Workspace) -> list[Finding]:
    """Whether pytest can be imported by whatever will run the tests."""
    found = []
    for python in sorted({task.settings.python or sys.executable for task in plan.tasks if task.test is None}):
        finished = run(
            Command(
                (python, "-c", "import pytest; print(pytest.__version__)"), workspace.root, dict(os.environ), timeout=60
            )
        )
        ok = finished.exit_code == 0
        detail = f"{python}: pytest {finished.stdout.text.strip()}" if ok else f"{python} can't import pytest"
        hint = "" if ok else "install pytest there, or set settings.python to the project's interpreter"
        found.append(Finding("tests", ok=ok, detail=detail, hint=hint))
    return found
