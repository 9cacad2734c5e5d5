"""The journal: the append-only record of everything that happened; all state is a replay of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_iterctl.store.database import Database

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
    """Appends and replays. What is appended has been cleaned of secrets by whoever knows its form."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, run: str, created: str, label: str) -> None:
        with self._database.guarded("written"):
            self._database.connection.execute(
                "INSERT INTO runs (id, created, label) VALUES (?, ?, ?)", (run, created, label)
            )

    def append(self, run: str, record: Record, *, durable: bool) -> None:
        """Write one event; when this returns it is in the journal, and on the disk if it is to be durable."""
        with self._database.guarded("written"), self._database.durable(on=durable):
            self._database.connection.execute(
                "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)",
                (run, record.sequence, record.at, record.clock, record.kind, record.body),
            )

    def beat(self, run: str, clock: float) -> None:
        with self._database.guarded("written"):
            self._database.connection.execute("UPDATE runs SET beat = ? WHERE id = ?", (clock, run))

    def last_beat(self, run: str) -> float:
        with self._database.guarded("read"):
            row = self._database.connection.execute("SELECT beat FROM runs WHERE id = ?", (run,)).fetchone()
        return float(row[0]) if row is not None else 0.0

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
