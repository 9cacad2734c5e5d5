"""The commands that only look: status, strategies, report, audit, diff."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pytest_iterctl.cli.guard import complain
from pytest_iterctl.cli.reports import ReportWriter
from pytest_iterctl.control.pattern import counted
from pytest_iterctl.control.state import RunState, TaskState
from pytest_iterctl.control.strategies import Strategy
from pytest_iterctl.errors import StoreError, UsageError
from pytest_iterctl.loop.workspace import Workspace, is_run_id
from pytest_iterctl.show.audit import audit_document, audit_lines
from pytest_iterctl.show.documents import run_document, status_document
from pytest_iterctl.show.failure import strategies_document, strategies_lines
from pytest_iterctl.show.formats import render_json, render_yaml
from pytest_iterctl.show.report_markdown import render
from pytest_iterctl.show.style import style_of
from pytest_iterctl.show.summary import print_summary
from pytest_iterctl.show.words import cost_text
from pytest_iterctl.store.lessons import Lessons
from pytest_iterctl.store.lock import holder
from pytest_iterctl.text import one_line

__all__ = ["audit", "chosen_task", "diff", "report", "status", "strategies"]


def status(run_id: str | None, *, as_json: bool) -> int:
    workspace = Workspace(Path.cwd())
    running = holder(workspace.place.lock_file)
    if run_id is not None:
        state = workspace.state(workspace.find_run(run_id))
        reports = ReportWriter(workspace).paths(state)
        if as_json:
            print(json.dumps(run_document(state, reports), indent=1))
        else:
            print_summary(state, style_of(sys.stdout, os.environ), reports)
        return 0
    states = list(_readable(workspace))
    if running is not None and is_run_id(running) and all(state.run != running for state in states):
        states.append(RunState(run=running))  # it is starting, and in no journal yet
    if as_json:
        print(json.dumps(status_document(states, running), indent=1))
        return 0
    for state in states:
        print(_row(state, is_running=state.run == running))
    if not states:
        print("no runs yet")
    return 0


def strategies(*, reset: bool, as_json: bool) -> int:
    workspace = Workspace(Path.cwd())
    lessons = Lessons(workspace.database)
    if reset:
        print(f"forgotten: {counted(lessons.forget(), 'lesson')}")
        return 0
    learned = lessons.all()
    runs, added = workspace.journal.runs(), tuple[Strategy, ...]()
    with suppress(StoreError, IndexError):
        added = workspace.state(runs[-1].id).strategies  # as the newest run found them
    if as_json:
        print(json.dumps(strategies_document(learned, added), indent=1))
        return 0
    for line in strategies_lines(learned, added):
        print(line)
    return 0


def _readable(workspace: Workspace) -> Iterator[RunState]:
    """Every run that can be read; one that can't is told and hides no other."""
    for row in workspace.journal.runs():
        try:
            state = workspace.state(row.id)
        except StoreError as error:
            complain(error.render())
            continue
        if state.started is not None:
            yield state


def _row(state: RunState, *, is_running: bool) -> str:
    if state.started is None:
        return f"{state.run}  starting"
    if is_running:
        word = "running"
    elif state.finished is None:
        word = "unfinished"
    else:
        word = state.finished.decision
    tasks = ", ".join(f"{task.id} {task.status} {task.iterations}/{task.bound}" for task in state.tasks)
    return f"{state.run}  {state.began_at[:19]}  {word:<10}  {one_line(tasks, 100)}  {cost_text(state)}"


def report(run_id: str | None, task_id: str | None, form: str) -> int:
    workspace = Workspace(Path.cwd())
    state = workspace.state(workspace.find_run(run_id))
    task = chosen_task(state, task_id)
    document = ReportWriter(workspace).document(state, task)
    text = {"md": render, "yaml": render_yaml, "json": render_json}[form](document)
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    return 0


def audit(run_id: str | None, task_id: str | None, *, as_json: bool) -> int:
    """One task, or all of a run: whoever asks whether a run can be trusted asks about the whole."""
    workspace = Workspace(Path.cwd())
    state = workspace.state(workspace.find_run(run_id))
    tasks = state.tasks if task_id is None else (chosen_task(state, task_id),)
    if as_json:
        print(json.dumps(audit_document(state, tasks), indent=1))
        return 0
    style = style_of(sys.stdout, os.environ)
    for line in audit_lines(state, tasks):
        style.write(line)
    return 0


def diff(run_id: str | None, iteration: int | None, task_id: str | None, *, stat: bool) -> int:
    workspace = Workspace(Path.cwd())
    run = workspace.find_run(run_id)
    task = chosen_task(workspace.state(run), task_id)
    snapshots = workspace.snapshots(run)
    old, new = _ends(task, iteration)
    if stat:
        difference = snapshots.difference(old, new)
        for name in difference.files:
            print(name)
        print(f"{len(difference.files)} files, +{difference.added} -{difference.deleted}")
        return 0
    content, _ = snapshots.patch(old, new)
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()
    return 0


def _ends(task: TaskState, iteration: int | None) -> tuple[str, str]:
    """The two snapshots to compare: of the whole task, or around one iteration's agent."""
    if not task.base:
        raise UsageError(f"task {task.id} has not started: nothing has changed")
    if iteration is None or iteration == 0:
        held = task.settled.commit if task.settled is not None and task.settled.commit else task.latest
        return task.base, held or task.base
    before = task.base
    for attempt in task.attempts:
        if attempt.iteration == iteration:
            after = attempt.snapshot("generate")
            if not after:
                raise UsageError(f"iteration {iteration} of task {task.id} has no snapshot")
            return attempt.snapshot("start") or before, after
        before = attempt.latest_snapshot or before
    last = task.attempts[-1].iteration if task.attempts else 0
    raise UsageError(f"task {task.id} has no iteration {iteration}", hint=f"there are 0 to {last}")


def chosen_task(state: RunState, task_id: str | None) -> TaskState:
    """The task that is named, else the first that needs a person, else the last that started."""
    if not state.tasks:
        raise UsageError(f"run {state.run} has no tasks")
    if task_id is not None:
        named = [task for task in state.tasks if task.id == task_id]
        if not named:
            raise UsageError(
                f"run {state.run} has no task {task_id!r}", hint="tasks: " + ", ".join(task.id for task in state.tasks)
            )
        return named[0]
    asking = [task for task in state.tasks if task.status in {"escalated", "stopped"}]
    started = [task for task in state.tasks if task.attempts]
    return (asking or started[-1:] or list(state.tasks))[0]
