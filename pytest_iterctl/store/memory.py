"""Memory: whole stage outputs by key, so that prompts can carry short versions."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from pytest_iterctl.redaction import Redactor
from pytest_iterctl.store.database import Database

__all__ = ["Memory", "Note"]

_COMPRESS_FROM = 1024


@dataclass(frozen=True, slots=True)
class Note:
    """What is known about one stored value."""

    namespace: str
    key: str
    type: str
    stored_at: str
    full_size: int
    compressed: bool
    agent_id: str
    stage_num: int


class Memory:
    """Values of one run; redacted before they are stored, compressed over 1 KB."""

    def __init__(self, database: Database, redactor: Redactor, run: str) -> None:
        self._database = database
        self._redactor = redactor
        self._run = run

    def put(
        self,
        key: str,
        text: str,
        *,
        stored_at: str,
        namespace: str = "workflow",
        agent_id: str = "",
        stage_num: int = 0,
    ) -> str:
        data = self._redactor(text).encode("utf-8", "backslashreplace")
        packed = zlib.compress(data, 6) if len(data) > _COMPRESS_FROM else data
        with self._database.guarded("written"):
            self._database.connection.execute(
                "INSERT OR REPLACE INTO memory VALUES (?, ?, ?, 'text', ?, ?, ?, ?, ?, ?)",
                (
                    self._run,
                    namespace,
                    key,
                    stored_at,
                    len(data),
                    len(data) > _COMPRESS_FROM,
                    agent_id,
                    stage_num,
                    packed,
                ),
            )
        return key

    def get(self, key: str, *, namespace: str = "workflow") -> str | None:
        with self._database.guarded("read"):
            row = self._database.connection.execute(
                "SELECT compressed, body FROM memory WHERE run = ? AND namespace = ? AND key = ?",
                (self._run, namespace, key),
            ).fetchone()
        if row is None:
            return None
        data: bytes = zlib.decompress(row[1]) if row[0] else bytes(row[1])
        return data.decode("utf-8", "replace")

    def notes(self) -> tuple[Note, ...]:
        with self._database.guarded("read"):
            rows = self._database.connection.execute(
                "SELECT namespace, key, type, stored_at, full_size, compressed, agent_id, stage_num"
                " FROM memory WHERE run = ? ORDER BY namespace, stored_at, key",
                (self._run,),
            )
            return tuple(
                Note(namespace, key, kind, stored_at, full_size, bool(compressed), agent_id, stage_num)
                for namespace, key, kind, stored_at, full_size, compressed, agent_id, stage_num in rows
            )
