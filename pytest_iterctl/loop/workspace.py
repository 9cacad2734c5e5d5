"""What every command has at hand: the repository, the store of its work tree, and the runs in it."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from pathlib import Path

from pytest_iterctl.control.fold import fold
from pytest_iterctl.control.state import RunState
from pytest_iterctl.errors import UsageError
from pytest_iterctl.loop.history import entries_of
from pytest_iterctl.redaction import Redactor
from pytest_iterctl.store.database import Database
from pytest_iterctl.store.journal import Journal
from pytest_iterctl.store.lock import WorkTreeLock
from pytest_iterctl.store.memory import Memory
from pytest_iterctl.store.place import Place
from pytest_iterctl.text import file_name
from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.snapshots import Snapshots

__all__ = ["Workspace", "below", "is_run_id", "new_run_id"]

# Crockford's base 32: no letter can be taken for a digit when somebody reads an id aloud.
_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_EPOCH = 1_700_000_000
_LENGTH = 10


def new_run_id() -> str:
    """Ten characters that sort by time: six for the second, four at random."""
    seconds = int(time.time()) - _EPOCH
    stamp = "".join(_DIGITS[(seconds >> shift) & 31] for shift in range(25, -1, -5))
    return stamp + "".join(secrets.choice(_DIGITS) for _ in range(4))


def is_run_id(name: str) -> bool:
    return len(name) == _LENGTH and set(name) <= set(_DIGITS)


def below(folder: Path, root: Path) -> str:
    """A folder as the journal names it: seen from the root, and in words that a journal can hold."""
    relative = os.path.relpath(folder, root)
    try:
        relative.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the folder's name is not UTF-8: {file_name(os.fsencode(relative))}") from None
    return relative


class Workspace:
    """One work tree with its store."""

    def __init__(self, start: Path) -> None:
        self.repository = Repository.discover(start)
        self.place = Place(self.repository.root, os.environ)
        self.redactor = Redactor.from_environment(os.environ)
        self._database: Database | None = None

    @property
    def root(self) -> Path:
        return self.repository.root

    @property
    def database(self) -> Database:
        """Made when it is first asked for: who only wants to know what would be done leaves nothing behind."""
        if self._database is None:
            self.place.prepare()
            self._database = Database(self.place.database)
        return self._database

    @property
    def journal(self) -> Journal:
        return Journal(self.database)

    def lock(self, run: str, *, held: int = -1) -> WorkTreeLock:
        """What a run holds while it is at work here, or what another process has handed over of it."""
        self.place.prepare()
        return WorkTreeLock(self.place.lock_file, run, held=held)

    def memory(self, run: str) -> Memory:
        return Memory(self.database, self.redactor, run)

    def snapshots(self, run: str) -> Snapshots:
        self.place.prepare()
        return Snapshots(self.repository, self.place.run_directory(run))

    def state(self, run: str) -> RunState:
        return fold(entries_of(self.journal, run))

    def forget(self, run: str) -> int:
        """Remove all that there is of a run but for what it made of the work tree; the number of its snapshots."""
        refs = self.snapshots(run).delete_refs(f"refs/iterctl/{run}/")
        self.journal.delete(run)
        for place in (self.place.directory, self.place.reports):
            shutil.rmtree(place / "runs" / run, ignore_errors=True)
        return refs

    def find_run(self, name: str | None) -> str:
        """The run that a person means: by its id, the beginning of it, or the latest one when nothing is said."""
        runs = self.journal.runs()
        if not runs:
            raise UsageError("there are no runs in this repository", hint="start one: iterctl run, or pytest --iterate")
        if name is None:
            return runs[-1].id
        if not name:
            raise UsageError("an empty name is no run", hint="list them: iterctl status")
        found = [row.id for row in runs if row.id == name.upper()] or [
            row.id for row in runs if row.id.startswith(name.upper())
        ]
        if not found:
            raise UsageError(f"there is no run {name!r} in this repository", hint="list them: iterctl status")
        if len(found) > 1:
            raise UsageError(f"{name!r} is the beginning of {len(found)} runs", hint="use: " + ", ".join(found))
        return found[0]

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
