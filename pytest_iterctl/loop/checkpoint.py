"""Portable checkpoints: one file with the journal and the snapshots, from which a run goes on in any clone."""

from __future__ import annotations

import io
import json
import os
import tarfile
import tempfile
from pathlib import Path

from pydantic import ValidationError

from pytest_iterctl.control.events import EVENT, CheckpointWritten, RunStarted
from pytest_iterctl.control.state import TaskState
from pytest_iterctl.errors import UsageError
from pytest_iterctl.loop.history import History, now
from pytest_iterctl.loop.workspace import Workspace, is_run_id
from pytest_iterctl.store.journal import Journal, Record
from pytest_iterctl.work.snapshots import Snapshots

__all__ = ["load_checkpoint", "write_checkpoint"]

_SCHEMA = "iterctl.checkpoint/1"
_LARGEST = 2 * 1024**3


def write_checkpoint(workspace: Workspace, history: History, snapshots: Snapshots, task: TaskState) -> None:
    """Written beside its final name and moved there, so that a half-written file is never taken for a checkpoint."""
    iteration = task.attempts[-1].iteration
    directory = workspace.place.report_directory(history.run)
    path = directory / f"checkpoint-{task.id}-{iteration}.tar.gz"
    with tempfile.TemporaryDirectory(dir=workspace.place.run_directory(history.run)) as folder:
        bundle = Path(folder) / "snapshots.bundle"
        snapshots.bundle(f"refs/iterctl/{history.run}/", bundle)
        partial = path.with_suffix(".partial")
        with tarfile.open(partial, "w:gz") as archive:
            _add(archive, "checkpoint.json", json.dumps({"schema": _SCHEMA, "run": history.run}).encode())
            _add(archive, "journal.jsonl", _lines(workspace.journal, history.run))
            archive.add(bundle, "snapshots.bundle")
        partial.replace(path)
    shown = os.path.relpath(path, workspace.root)
    history.record(CheckpointWritten(task=task.id, iteration=iteration, path=shown))


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))


def _lines(journal: Journal, run: str) -> bytes:
    return b"".join(
        json.dumps([record.sequence, record.at, record.clock, record.kind, record.body]).encode() + b"\n"
        for record in journal.records(run)
    )


def load_checkpoint(workspace: Workspace, path: Path) -> str:
    """Bring a checkpoint into this work tree's store; returns its run."""
    try:
        with tarfile.open(path, "r:gz") as archive:
            run = str(json.loads(_content(archive, "checkpoint.json"))["run"])
            records = [Record(*json.loads(line)) for line in _content(archive, "journal.jsonl").splitlines()]
            bundle = _content(archive, "snapshots.bundle")
        first = EVENT.validate_json(records[0].body)
        for record in records:
            EVENT.validate_json(record.body)
    except (OSError, tarfile.TarError, ValueError, KeyError, TypeError, IndexError, EOFError, ValidationError) as error:
        raise UsageError(f"{path} is no checkpoint: {error}", hint="name a checkpoint-….tar.gz of a run") from None
    if not isinstance(first, RunStarted) or first.run != run or not is_run_id(run):
        raise UsageError(f"{path} is no checkpoint: its journal does not begin with the start of run {run}")
    if any(row.id == run for row in workspace.journal.runs()):
        raise UsageError(f"run {run} is already in this repository", hint=f"go on with: iterctl resume {run}")
    try:
        with tempfile.TemporaryDirectory(dir=workspace.place.run_directory(run)) as folder:
            bundle_file = Path(folder) / "snapshots.bundle"
            bundle_file.write_bytes(bundle)
            workspace.snapshots(run).unbundle(bundle_file)
        workspace.journal.begin(run, now(), f"from {path.name}")
        for record in records:
            workspace.journal.append(run, record, durable=False)
    except BaseException:
        workspace.forget(run)
        raise
    return run


def _content(archive: tarfile.TarFile, name: str) -> bytes:
    member = archive.getmember(name)
    stream = archive.extractfile(member) if member.isfile() and member.size <= _LARGEST else None
    if stream is None:
        raise ValueError(f"{name} is missing or too large")
    return stream.read()
