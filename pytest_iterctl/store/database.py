"""The one SQLite file of a work tree: opening it, its tables, and errors that say what to do."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pytest_iterctl.errors import StoreError

__all__ = ["Database"]

_VERSION = 2
_TABLES = """
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    created TEXT NOT NULL,
    label TEXT NOT NULL,
    beat REAL NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE events (
    run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    sequence INTEGER NOT NULL,
    at TEXT NOT NULL,
    clock REAL NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run, sequence)
) WITHOUT ROWID;
CREATE TABLE memory (
    run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    type TEXT NOT NULL,
    stored_at TEXT NOT NULL,
    full_size INTEGER NOT NULL,
    compressed INTEGER NOT NULL,
    agent_id TEXT NOT NULL,
    stage_num INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (run, namespace, key)
);
CREATE TABLE checks (
    loop TEXT NOT NULL,
    task TEXT NOT NULL,
    iteration INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (loop, task, iteration)
) WITHOUT ROWID;
"""
#: What each version has added to the one before it.
_ADDED = {
    2: """
CREATE TABLE lessons (
    error_type TEXT NOT NULL,
    strategy TEXT NOT NULL,
    succeeded INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (error_type, strategy)
) WITHOUT ROWID;
""",
}


class Database:
    """One connection: WAL, foreign keys on, private to the user, errors as StoreError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self.guarded("opened"):
            # Made private before SQLite writes the first byte; the WAL files take over the mode. One that is there is
            # SQLite's alone: to close any descriptor of it takes away the locks of all connections in this process.
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            self.connection = sqlite3.connect(path, timeout=10.0, isolation_level=None)
            self.connection.execute("PRAGMA journal_mode = WAL")
            self.connection.execute("PRAGMA foreign_keys = ON")
            self.connection.execute("PRAGMA synchronous = NORMAL")
            self._migrate()

    def _migrate(self) -> None:
        if self._version() == _VERSION:
            return
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            version = self._version()
            if version > _VERSION:
                raise StoreError(
                    f"{self.path} was written by a newer iterctl (format {version})",
                    hint="upgrade pytest-iterctl, or set ITERCTL_STATE_DIR to another folder",
                )
            tables = [_TABLES] if version == 0 else []
            tables += [added for number, added in sorted(_ADDED.items()) if number > version]
            for statement in (each for table in tables for each in table.split(";")):
                self.connection.execute(statement)
            self.connection.execute(f"PRAGMA user_version = {_VERSION}")
        finally:
            if self.connection.in_transaction:
                self.connection.execute("COMMIT")

    def _version(self) -> int:
        return int(self.connection.execute("PRAGMA user_version").fetchone()[0])

    @contextmanager
    def guarded(self, doing: str) -> Iterator[None]:
        """Turns SQLite's and the system's errors into one line that says what can't be done."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"the journal can't be {doing}: {self.path}: {error}",
                hint="free some space or check its permissions, then: iterctl resume",
            ) from None

    @contextmanager
    def durable(self, *, on: bool) -> Iterator[None]:
        """Within this block a commit has reached the disk when it returns, at the price of some milliseconds."""
        if not on:
            yield
            return
        self.connection.execute("PRAGMA synchronous = FULL")
        try:
            yield
        finally:
            self.connection.execute("PRAGMA synchronous = NORMAL")

    def close(self) -> None:
        self.connection.close()
