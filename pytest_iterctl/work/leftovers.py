"""Finds and ends processes that nobody watches over any more, after a driver and its supervisors were killed.

A process is recognised by a tag in the environment it was started with, and named by its id together with its start
time, because ids are used again.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from pytest_iterctl.work.supervisor import descendants, send

__all__ = ["Identity", "end_leftovers", "end_tagged", "identify", "is_alive", "process_start"]

TERMINATE_GRACE = 1.0
KILL_PATIENCE = 5.0
SWEEP_INTERVAL = 0.02


class Identity(NamedTuple):
    """A process that is not mistaken for a later one with the same id."""

    pid: int
    start: int


class _Status(NamedTuple):
    state: str
    parent: int
    start: int


def _status(pid: int) -> _Status | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The command's name stands in parentheses and may hold spaces and parentheses of its own.
    fields = text.rpartition(b")")[2].split()
    return _Status(state=fields[0].decode(), parent=int(fields[1]), start=int(fields[19]))


def process_start(pid: int) -> int | None:
    """When a process was started, in clock ticks since boot; None when there is no such process."""
    status = _status(pid)
    return None if status is None else status.start


def identify(pids: Iterable[int]) -> set[Identity]:
    """Those of these processes that exist, with their start times."""
    starts = ((pid, process_start(pid)) for pid in pids)
    return {Identity(pid, start) for pid, start in starts if start is not None}


def is_alive(pid: int, start: int) -> bool:
    """Whether the process that had this id at that start time still runs; one that only waits to be reaped does not."""
    status = _status(pid)
    return status is not None and status.start == start and status.state not in {"Z", "X"}


def end_leftovers(run: str) -> int:
    """End all that a run's agents and tests left behind; the number of processes that were ended."""
    return len(end_tagged(f"ITERCTL_RUN={run}"))


def end_tagged(tag: str, *, also: Iterable[Identity] = ()) -> set[Identity]:
    """Terminate, then kill, all processes started with this `NAME=value`, those named besides, and their descendants.

    Ourselves and our ancestors are never among them: `resume` may well be called from a shell inside the run.
    """
    spared = _ancestry()
    known = set(also)

    def living() -> set[Identity]:
        known.update(identity for identity in _carriers(tag) if identity.pid not in spared)
        roots = [identity.pid for identity in known if is_alive(*identity)]
        known.update(identify(descendants(roots)))
        return {identity for identity in known if is_alive(*identity)}

    found = living()
    if not found:
        time.sleep(SWEEP_INTERVAL)  # for a moment during its start a process shows no environment
        found = living()
    for identity in found:
        _send(identity, signal.SIGTERM)
    deadline = time.monotonic() + TERMINATE_GRACE
    while (left := living()) and time.monotonic() < deadline:
        found |= left
        time.sleep(SWEEP_INTERVAL)
    deadline = time.monotonic() + KILL_PATIENCE
    while left and time.monotonic() < deadline:
        found |= left
        _kill(left)
        time.sleep(SWEEP_INTERVAL)
        left = living()
    return found - left


def _kill(processes: set[Identity]) -> None:
    # Stopped first, so that none of them sees another one die and starts a successor.
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for identity in processes:
            _send(identity, number)


def _send(identity: Identity, number: int) -> None:
    if is_alive(*identity):
        send(identity.pid, number)


def _ancestry() -> set[int]:
    """We and all above us."""
    pids: set[int] = set()
    pid = os.getpid()
    while pid > 0 and pid not in pids:
        pids.add(pid)
        status = _status(pid)
        pid = 0 if status is None else status.parent
    return pids


def _carriers(tag: str) -> set[Identity]:
    """Our user's processes whose environment has exactly this entry."""
    entry = os.fsencode(tag)
    pids = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    # Start times first: an id that is used again while we look then never passes for the process whose tag we read.
    return {identity for identity in identify(pids) if entry in _environment(identity.pid)}


def _environment(pid: int) -> list[bytes]:
    folder = Path(f"/proc/{pid}")
    try:
        ours = folder.stat().st_uid == os.geteuid()
        return (folder / "environ").read_bytes().split(b"\0") if ours else []
    except OSError:  # it ended while we looked, or it hides its environment
        return []
