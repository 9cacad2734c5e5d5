"""Reports on disk: written whenever a task ends, from the journal alone; one that can't be written is a warning."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from pytest_iterctl.control.events import Decided, RunFinished, Settled
from pytest_iterctl.control.state import Entry, RunState, TaskState
from pytest_iterctl.loop.testing import command_line_of
from pytest_iterctl.loop.workspace import Workspace
from pytest_iterctl.show.formats import render_json, render_yaml
from pytest_iterctl.show.report import report_document
from pytest_iterctl.show.report_markdown import render

__all__ = ["ReportWriter"]


class ReportWriter:
    """Watches a run; after each escalation its task has report.md, report.yaml and report.json."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def watch(self, entry: Entry, state: RunState) -> None:
        event = entry.event
        if isinstance(event, Settled) or (isinstance(event, Decided) and event.decision.action == "escalate"):
            self._write(state, state.task(event.task))
        elif isinstance(event, RunFinished):
            for task in state.tasks:
                if task.attempts:
                    self._write(state, task)

    def document(self, state: RunState, task: TaskState) -> dict[str, object]:
        snapshots = self._workspace.snapshots(state.run)

        def patch(old: str, new: str, limit: int) -> tuple[str, bool]:
            content, cut = snapshots.patch(old, new, limit=limit)
            return content.decode("utf-8", "replace"), cut

        as_module = state.started is None or state.started.as_module
        return report_document(
            state,
            task,
            patch=patch,
            redact=self._workspace.redactor,
            test_command=command_line_of(task.task, as_module=as_module),
        )

    def paths(self, state: RunState) -> dict[str, str]:
        """The Markdown report of each task that has one, from where the user is."""
        found: dict[str, str] = {}
        for task in state.tasks:
            path = self._path(state, task, "md")
            if path.exists():
                found[task.id] = min(os.path.relpath(path), str(path), key=len)
        return found

    def _path(self, state: RunState, task: TaskState, suffix: str) -> Path:
        stem = "report" if len(state.tasks) == 1 else task.id
        return self._workspace.place.reports / "runs" / state.run / f"{stem}.{suffix}"

    def _write(self, state: RunState, task: TaskState) -> None:
        try:
            self._workspace.place.report_directory(state.run)
            document = self.document(state, task)
            for suffix, text in (
                ("md", render(document)),
                ("yaml", render_yaml(document)),
                ("json", render_json(document)),
            ):
                _write_safely(self._path(state, task, suffix), text)
        except Exception as error:  # noqa: BLE001 - a report is a side file: whatever is wrong with it, the run goes on
            print(f"warning: the report of {task.id} can't be written: {error}", file=sys.stderr)


def _write_safely(path: Path, text: str) -> None:
    """Under a name that nobody can have taken, then moved: an agent may have put a pipe or a link where it would go."""
    descriptor, partial = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".partial")
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(text)
    Path(partial).chmod(0o644)
    Path(partial).replace(path)
