"""The commands that tend: restore, clean, init, schema."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

from pytest_iterctl.cli.looking import chosen_task
from pytest_iterctl.cli.planning import found_agent_clis
from pytest_iterctl.control.pattern import counted
from pytest_iterctl.errors import UsageError
from pytest_iterctl.loop.workspace import Workspace, is_run_id
from pytest_iterctl.plan.load import find_plan
from pytest_iterctl.plan.schema import plan_schema
from pytest_iterctl.plan.values import parse_duration
from pytest_iterctl.store.lock import WorkTreeLock, holder
from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.pytest_run import forget_bytecode

__all__ = ["clean", "init", "restore", "schema"]


def restore(run_id: str, iteration: int, task_id: str | None) -> int:
    """What the tree held is kept as a snapshot of its own first, so that this can be undone too."""
    workspace = Workspace(Path.cwd())
    run = workspace.find_run(run_id)
    task = chosen_task(workspace.state(run), task_id)
    commit = task.base if iteration == 0 else ""
    for attempt in task.attempts:
        if attempt.iteration == iteration and iteration > 0:
            commit = attempt.latest_snapshot
    if not commit:
        last = task.attempts[-1].iteration if task.attempts else 0
        raise UsageError(f"task {task.id} has no snapshot of iteration {iteration}", hint=f"there are 0 to {last}")
    with WorkTreeLock(workspace.place.lock_file, run):
        snapshots = workspace.snapshots(run)
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
        safe = snapshots.take(f"refs/iterctl/{run}/before-restore/{stamp}", f"iterctl {run} before a restore")
        forget_bytecode(workspace.root, snapshots.changed_names(safe.commit, commit))
        changed = snapshots.restore(commit)
    if not changed:
        print(f"the work tree already holds iteration {iteration} of {task.id}")
        return 0
    difference = snapshots.difference(safe.commit, commit)
    print(f"the work tree holds iteration {iteration} of {task.id} ({len(difference.files)} files changed)")
    print(f"what it held before: git diff {commit[:12]} {safe.commit[:12]}")
    return 0


def clean(run_ids: tuple[str, ...], *, older_than: str | None, everything: bool, dry_run: bool) -> int:
    workspace = Workspace(Path.cwd())
    chosen = _chosen(workspace, run_ids, older_than=older_than, everything=everything)
    for run in chosen:
        if dry_run:
            print(f"would remove run {run}")
            continue
        # No lock: a run that has ended is nobody's, and the one at work is not among the chosen.
        print(f"removed run {run} ({workspace.forget(run)} snapshots)")
    if everything and not dry_run:
        # Files that restores kept because an agent had hidden them from git belong to no single run.
        left = workspace.snapshots("clean").forget_kept()
        if left:
            print(f"kept {counted(left, 'commit')} of others, undone in .git: git for-each-ref refs/iterctl/kept")
        shutil.rmtree(workspace.place.directory / "runs" / "clean", ignore_errors=True)
    if not chosen:
        print("nothing to remove")
    return 0


def _chosen(
    workspace: Workspace, run_ids: tuple[str, ...], *, older_than: str | None, everything: bool
) -> tuple[str, ...]:
    if bool(run_ids) + bool(older_than) + everything != 1:
        raise UsageError("say which runs: RUN..., --older-than DURATION, or --all")
    # In this order: of what is seen by now, only what then holds the lock is at work, or starting and in no journal.
    known = dict.fromkeys((*(row.id for row in workspace.journal.runs()), *_traces(workspace)))
    at_work = holder(workspace.place.lock_file)
    if run_ids:
        named = tuple(dict.fromkeys(workspace.find_run(run) for run in run_ids))
        if at_work in named:
            raise UsageError(f"run {at_work} is at work", hint=f"stop it first: iterctl stop {at_work}")
        return named
    rows = [run for run in known if run != at_work]
    if everything:
        return tuple(rows)
    try:
        seconds = parse_duration(older_than)
    except ValueError as error:
        raise UsageError(f"--older-than {older_than}: {error}") from None
    return tuple(run for run in rows if _age(workspace, run) > seconds)


def _traces(workspace: Workspace) -> tuple[str, ...]:
    """Every run that has a folder, also one that was killed before it was in the journal: it may hold a whole copy."""
    folder = workspace.place.directory / "runs"
    found = (each.name for each in folder.iterdir()) if folder.is_dir() else ()
    return tuple(sorted(name for name in found if is_run_id(name)))


def _age(workspace: Workspace, run: str) -> float:
    last = max((record.at for record in workspace.journal.records(run)), default="")
    return (datetime.now(UTC) - datetime.fromisoformat(last)).total_seconds() if last else float("inf")


def init(*, force: bool) -> int:
    root = Repository.discover(Path.cwd()).root
    path = root / "iterctl.yaml"
    present = find_plan(root)
    if present is not None and present != path:
        raise UsageError(f"there is a plan already: {present}", hint="a second one would leave open which holds")
    if present is not None and not force:
        raise UsageError(f"there is a plan already: {present}", hint="write over it with --force")
    path.write_text(_plan_text(root), encoding="utf-8")
    print(f"wrote {path.name}")
    print("next: iterctl doctor, then iterctl run --dry-run")
    return 0


def _plan_text(root: Path) -> str:
    found = found_agent_clis()
    tests = next((name for name in ("tests", "test", "testing") if (root / name).is_dir()), "")
    lines = [
        "# A plan for iterctl; every key is in `iterctl schema` and the configuration page of the docs.",
        "version: 1",
    ]
    lines += ["settings:", "  max_iterations: 3", "  safety: normal"]
    if found:
        also = f"   # also found: {', '.join(found[1:])}" if found[1:] else ""
        lines += [f"  agent: {found[0]}{also}", "# To change how it is called:", "# agents:"]
        lines.append(f"#   coder: {{ preset: {found[0]}, arguments: [--model, NAME] }}")
    else:
        lines += ["  # No known agent was found on the PATH: name yours under agents: and here.", "  # agent: coder"]
        lines += ["# agents:", "#   coder: { command: [my-agent, --fix] }   # the prompt arrives on its stdin"]
    lines += ["tasks:", "  - id: green", "    prompt: Make the failing tests pass without changing what they ask for."]
    lines.append(f"    tests: [{tests}]" if tests else "    tests: []")
    return "\n".join(lines) + "\n"


def schema() -> int:
    print(json.dumps(plan_schema(), indent=2))
    return 0
