"""The commands that move a run: run, resume, stop, answer."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from pytest_iterctl.cli.conduct import Manner, conduct
from pytest_iterctl.cli.errand import Begin, Close, GoOn, Respond
from pytest_iterctl.cli.planning import Wishes, frozen_plan, home_of, print_dry_run, prompt_text
from pytest_iterctl.errors import ExitCode, UsageError
from pytest_iterctl.loop.checkpoint import load_checkpoint
from pytest_iterctl.loop.run import Answer, refuse_unsupported_system
from pytest_iterctl.loop.workspace import Workspace, new_run_id
from pytest_iterctl.plan.environment_settings import settings_from_strings
from pytest_iterctl.plan.model import SafetyPatch
from pytest_iterctl.store.lock import holder

__all__ = ["Manner", "answer", "resume", "run", "stop"]

_STOP_PATIENCE = 30.0


def run(
    plan: Path | None,
    settings: Mapping[str, str | list[str] | None],
    manner: Manner,
    *,
    prompt: str,
    task: str | None,
    dry_run: bool,
    commit: str | None,
) -> int:
    refuse_unsupported_system()
    workspace = Workspace(Path.cwd())
    wishes = Wishes(
        command_line=settings_from_strings(settings, lambda name: "--" + name.replace("_", "-")),
        plan_file=plan.absolute() if plan is not None else None,
        task=task,
        prompt=prompt_text(prompt, Path.cwd()),
        commit_message=commit,
    )
    frozen = frozen_plan(workspace, wishes)
    if dry_run:
        return print_dry_run(frozen, as_module=True)
    directory = home_of(plan, workspace.root)
    return conduct(workspace, manner, Begin.at(directory, workspace, new_run_id(), frozen, as_module=True))


def resume(
    run_id: str | None,
    manner: Manner,
    *,
    limits: tuple[str, ...],
    safety: str | None,
    max_iterations: int | None,
    checkpoint: Path | None,
) -> int:
    workspace = Workspace(Path.cwd())
    patch = _limit_patch(limits, safety)
    found = workspace.find_run(run_id) if checkpoint is None else load_checkpoint(workspace, checkpoint)
    errand = GoOn(run=found, limits=patch, max_iterations=max_iterations)
    return conduct(workspace, manner, errand) if checkpoint is None else _resume_brought(workspace, manner, errand)


def _resume_brought(workspace: Workspace, manner: Manner, errand: GoOn) -> int:
    """A run that a checkpoint has brought may wait here for an answer. If it could not even be tried to go on with it,
    it goes again, and is not in the way of another try.
    """
    brought = workspace.state(errand.run).sequence
    code = int(ExitCode.INTERNAL)
    try:
        code = conduct(workspace, manner, errand)
    except UsageError as error:
        code = int(error.exit_code)
        raise
    finally:
        if code != ExitCode.USAGE and workspace.state(errand.run).sequence == brought:
            workspace.forget(errand.run)
    return code


def _limit_patch(limits: tuple[str, ...], safety: str | None) -> SafetyPatch | None:
    if not limits and safety is None:
        return None
    values: dict[str, object] = {"level": safety} if safety is not None else {}
    for given in limits:
        name, equals, value = given.partition("=")
        if not equals or name not in SafetyPatch.model_fields or name == "level":
            known = ", ".join(key for key in SafetyPatch.model_fields if key != "level")
            raise UsageError(f"--limit {given}: expected NAME=VALUE", hint=f"names: {known}")
        values[name] = _number(name, value)
    try:
        return SafetyPatch.model_validate(values)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) or "level"
        option = "--safety" if where == "level" else f"--limit {where}"
        raise UsageError(f"{option}: got {values.get(where)}", hint=f"expected {_expected(where)}") from None


def _expected(name: str) -> str:
    if name == "level":
        return "permissive, normal or paranoid"
    if "duration" in name:
        return "a duration such as 90s, 5m or 1h"
    if "cost" in name and name != "require_cost":
        return "US dollars, 0 to 1000000"
    return "a number of calls, 1 to 10000" if "calls" in name and name.startswith("max_") else "true or false"


def _number(name: str, value: str) -> object:
    if "duration" in name:
        return value
    if name == "require_cost" or name.startswith("allow_"):
        if value not in {"true", "false"}:
            raise UsageError(f"--limit {name}: got {value}", hint=f"expected {_expected(name)}")
        return value == "true"
    try:
        return int(value) if "calls" in name else float(value)
    except ValueError:
        raise UsageError(f"--limit {name}: got {value}", hint=f"expected {_expected(name)}") from None


def answer(
    run_id: str,
    manner: Manner,
    *,
    task: str | None,
    option: int | None,
    guidance: str | None,
    iterations: int | None,
    abort: bool,
) -> int:
    if abort and (option is not None or guidance is not None):
        raise UsageError("--abort goes with no other answer")
    if not abort and option is None and guidance is None:
        raise UsageError("the answer says nothing", hint="use --option N, --continue TEXT or --abort")
    workspace = Workspace(Path.cwd())
    found = workspace.find_run(run_id)
    effect = "abort" if abort else "continue" if option is None else ""
    given = Answer(effect=effect, option=option or 0, guidance=guidance or "", iterations=iterations or 0)
    return conduct(workspace, manner, Respond(run=found, task=task, answer=given))


def stop(run_id: str | None) -> int:
    """Ask the driver to stop and wait for it; a run that nobody drives is closed right here."""
    workspace = Workspace(Path.cwd())
    at_work = holder(workspace.place.lock_file)
    # One that is still starting is in no journal: it is known by its lock alone.
    meant = at_work is not None and (run_id is None or (run_id and at_work.startswith(run_id.upper())))
    found = at_work if at_work is not None and meant else workspace.find_run(run_id)
    if at_work != found:
        return _close(workspace, found)
    directory = workspace.place.run_directory(found)
    workspace.place.stop_file(found).touch()
    deadline = time.monotonic() + _STOP_PATIENCE
    while holder(workspace.place.lock_file) == found:
        if time.monotonic() > deadline:
            raise UsageError(f"run {found} has not stopped within {_STOP_PATIENCE:.0f}s; the request stays")
        time.sleep(0.05)
    if workspace.state(found).started is None:
        shutil.rmtree(directory, ignore_errors=True)  # it may have gone before it could see the request in there
    print(f"run {found} has stopped")
    return 0


def _close(workspace: Workspace, run: str) -> int:
    state = workspace.state(run)
    if state.started is None:
        raise UsageError(f"run {run} never began", hint=f"there is nothing to stop; remove it: iterctl clean {run}")
    if state.finished is not None:
        print(f"run {run} has already ended")
        return 0
    code = conduct(workspace, Manner(), Close(run=run))
    if workspace.state(run).finished is None:
        return code  # why it is still open has been said
    print(f"run {run} has stopped")
    return 0
