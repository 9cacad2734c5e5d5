"""`iterctl memory`: at the desk of the run that this stage belongs to, else in the store of the work tree."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pytest_iterctl.errors import UsageError
from pytest_iterctl.loop.desk import ask
from pytest_iterctl.loop.history import now
from pytest_iterctl.loop.workspace import Workspace
from pytest_iterctl.store.memory import Memory, Note, Whose, not_found
from pytest_iterctl.text import human_bytes, one_line

__all__ = ["delete", "get", "listed", "put"]


def get(key: str, namespace: str | None, of: str | None, run_id: str | None) -> int:
    path = _desk(run_id, of)
    if path is not None:
        value = ask(path, {"do": "get", "key": key, "namespace": namespace or ""})
    else:
        found = _memory(run_id).get(key, whose=_whose(namespace, of))
        if found is None:
            raise not_found(key)
        value = found.encode("utf-8", "backslashreplace")
    sys.stdout.flush()
    sys.stdout.buffer.write(value if value.endswith(b"\n") else value + b"\n")
    sys.stdout.buffer.flush()
    return 0


def put(key: str, value: str | None, namespace: str | None, of: str | None, run_id: str | None) -> int:
    data = value.encode("utf-8", "surrogateescape") if value is not None else _stdin()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(
            f"the value of {key} is not UTF-8", hint="memory holds text: encode it first, as base64"
        ) from None
    path = _desk(run_id, of)
    if path is not None:
        ask(path, {"do": "put", "key": key, "namespace": namespace or ""}, data)
    else:
        _memory(run_id).put(key, text, stored_at=now(), whose=_whose(namespace, of), kind="note", agent_id="person")
    return 0


def delete(key: str, namespace: str | None, of: str | None, run_id: str | None) -> int:
    path = _desk(run_id, of)
    if path is not None:
        ask(path, {"do": "delete", "key": key, "namespace": namespace or ""})
    elif not _memory(run_id).delete(key, whose=_whose(namespace, of)):
        raise not_found(key)
    return 0


def listed(prefix: str, namespace: str | None, of: str | None, run_id: str | None, form: str) -> int:
    path = _desk(run_id, of)
    if path is not None:
        notes = [
            Note(**each) for each in json.loads(ask(path, {"do": "list", "key": prefix, "namespace": namespace or ""}))
        ]
    else:
        whose = _whose(namespace, of) if namespace is not None else None
        notes = list(_memory(run_id).notes(whose=whose, prefix=prefix))
    if form == "json":
        print(json.dumps({"schema": "iterctl.memory/1", "keys": [_document(note) for note in notes]}, indent=1))
        return 0
    for note in notes:
        where = "" if note.namespace == "workflow" else f"  {note.namespace} {one_line(note.whose, 40)}".rstrip()
        told = f"{note.key}  {human_bytes(note.full_size)}  {note.stored_at}  {one_line(note.agent_id, 40)}".rstrip()
        print(told + where)
    return 0


def _document(note: Note) -> dict[str, object]:
    return {
        "namespace": note.namespace,
        "of": note.whose or None,
        "key": note.key,
        "type": note.type,
        "stored_at": note.stored_at,
        "full_size": note.full_size,
        "compressed": "auto" if note.compressed else "none",
        "agent_id": note.agent_id or None,
        "stage_num": note.stage_num or None,
    }


def _desk(run_id: str | None, of: str | None) -> Path | None:
    """The desk of the call that this is a part of; who names a run or somebody else's notes asks the store."""
    path = os.environ.get("ITERCTL_SOCKET")
    return Path(path) if path and run_id is None and of is None else None


def _memory(run_id: str | None) -> Memory:
    workspace = Workspace(Path.cwd())
    return workspace.memory(workspace.find_run(run_id))


def _whose(namespace: str | None, of: str | None) -> Whose:
    return Whose.of(namespace or "workflow", task=of or "", agent=of or "")


def _stdin() -> bytes:
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("there is no value", hint="give one as the second argument, or on stdin")
    return sys.stdin.buffer.read()
