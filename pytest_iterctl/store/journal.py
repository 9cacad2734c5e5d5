"""The journal: the append-only record of everything that happened; all state is a replay of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_iterctl.store.database import Database
from pytest_iterctl.text import Redactor

__all__ = ["Journal", "Record", "RunRow"]


@dataclass(frozen=True, slots=True)
class Record:
    """One event as it is stored: its kind and its JSON, which only the control room can read."""

    sequence: int
    at: str
    clock: float
    kind: str
    body: str


@dataclass(frozen=True, slots=True)
class RunRow:
    id: str
    created: str
    label: str


class Journal:
    """Appends and replays. Secrets are redacted before anything is written."""

    def __init__(self, database: Database, redactor: Redactor) -> None:
        self._database = database
        self._redactor = redactor

    def begin(self, run: str, created: str, label: str) -> None:
        with self._database.guarded("written"):
            self._database.connection.execute("INSERT INTO runs VALUES (?, ?, ?)", (run, created, label))

    def append(self, run: str, record: Record, *, durable: bool, redacted: bool = False) -> str:
        """Write one event and return its JSON as written (secrets redacted unless they already are)."""
        body = record.body
        if not redacted:
            clean = self._redactor.deep(json.loads(body))
            body = json.dumps(clean, ensure_ascii=False, separators=(",", ":"))
        with self._database.guarded("written"), self._database.durable(on=durable):
            self._database.connection.execute(
                "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)",
                (run, record.sequence, record.at, record.clock, record.kind, body),
            )
        return body

    def records(self, run: str) -> Iterator[Record]:
        with self._database.guarded("read"):
            rows = self._database.connection.execute(
                "SELECT sequence, at, clock, kind, body FROM events WHERE run = ? ORDER BY sequence", (run,)
            )
            for row in rows:
                yield Record(*row)

    def runs(self) -> tuple[RunRow, ...]:
        """All runs, the oldest first."""
        with self._database.guarded("read"):
            rows = self._database.connection.execute("SELECT id, created, label FROM runs ORDER BY created, id")
            return tuple(RunRow(*row) for row in rows)

    def delete(self, run: str) -> None:
        """Forget a run: its events and its memory go with it."""
        with self._database.guarded("written"):
            self._database.connection.execute("DELETE FROM runs WHERE id = ?", (run,))
