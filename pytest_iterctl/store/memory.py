"""Memory: values by key that outlive a call: whole stage outputs, so that prompts can carry short versions, and notes.

Four namespaces: `workflow` is the run's, `session` a task's, `agent` one agent's, and `global` is shared by the runs of
a work tree, of which the newest value counts. Each value is kept as long as the run that wrote it.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import Literal, get_args

from pytest_iterctl.errors import UsageError
from pytest_iterctl.redaction import Redactor
from pytest_iterctl.store.database import Database

__all__ = ["LARGEST", "NAMESPACES", "OURS", "Memory", "Namespace", "Note", "Whose", "not_found"]

Namespace = Literal["workflow", "session", "agent", "global"]
NAMESPACES: tuple[Namespace, ...] = get_args(Namespace)
Kind = Literal["stage_output", "note"]
#: The type of what the loop itself writes; nobody else may write over it or delete it.
OURS: Kind = "stage_output"

_COMPRESS_FROM = 1024
_LONGEST_KEY = 200
_KEY = re.compile(r"[\w.@#/:+-]+")
#: Bytes of one value; SQLite takes no more than twice as many at once.
LARGEST = 500_000_000


@dataclass(frozen=True, slots=True)
class Note:
    """What is known about one stored value."""

    namespace: str
    whose: str
    key: str
    type: str
    stored_at: str
    full_size: int
    compressed: bool
    agent_id: str
    stage_num: int


@dataclass(frozen=True, slots=True)
class Whose:
    """A namespace, and the task or the agent that it is the namespace of."""

    namespace: Namespace = "workflow"
    name: str = ""

    @classmethod
    def of(cls, namespace: str, *, task: str, agent: str) -> Whose:
        if namespace not in NAMESPACES:
            raise UsageError(f"unknown namespace {namespace!r}", hint=f"namespaces: {', '.join(NAMESPACES)}")
        name = {"session": task, "agent": agent}.get(namespace)
        if name == "":
            what = "a task" if namespace == "session" else "an agent"
            raise UsageError(f"the namespace {namespace} belongs to {what}", hint=f"name {what} with --of")
        return cls(namespace, name or "")

    @property
    def stored(self) -> str:
        """As the table holds it."""
        return f"{self.namespace}:{self.name}" if self.name else self.namespace


def not_found(key: str) -> UsageError:
    return UsageError(f"shared_memory_key_not_found: {key}", hint="list the keys: iterctl memory list")


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
        whose: Whose = Whose(),
        kind: Kind = OURS,
        agent_id: str = "",
        stage_num: int = 0,
    ) -> str:
        if kind != OURS:
            _require_key(key)
        data = self._redactor(text).encode("utf-8", "backslashreplace")
        if len(data) > LARGEST:
            raise UsageError(f"{key} has {len(data)} bytes", hint=f"at most {LARGEST} are kept")
        packed = zlib.compress(data, 6) if len(data) > _COMPRESS_FROM else data
        with self._database.guarded("written"):
            done = self._database.connection.execute(
                "INSERT INTO memory VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
                " type = excluded.type, stored_at = excluded.stored_at, full_size = excluded.full_size,"
                " compressed = excluded.compressed, agent_id = excluded.agent_id, stage_num = excluded.stage_num,"
                " body = excluded.body WHERE type = excluded.type OR excluded.type = ?",
                (
                    *(self._run, whose.stored, key, kind, stored_at, len(data), len(data) > _COMPRESS_FROM),
                    *(agent_id, stage_num, packed, OURS),
                ),
            )
        if not done.rowcount:
            raise _ours(key)
        return key

    def get(self, key: str, *, whose: Whose = Whose()) -> str | None:
        with self._database.guarded("read"):
            row = self._database.connection.execute(
                "SELECT compressed, body FROM memory WHERE (run = ? OR namespace = 'global') AND namespace = ?"
                " AND key = ? ORDER BY stored_at DESC, rowid DESC LIMIT 1",
                (self._run, whose.stored, key),
            ).fetchone()
        if row is None:
            return None
        data: bytes = zlib.decompress(row[1]) if row[0] else bytes(row[1])
        return data.decode("utf-8", "replace")

    def delete(self, key: str, *, whose: Whose = Whose()) -> bool:
        """Whether there was one; in the namespace of all runs, those of all runs go."""
        with self._database.guarded("written"):
            gone = self._database.connection.execute(
                "DELETE FROM memory WHERE (run = ? OR namespace = 'global') AND namespace = ? AND key = ?"
                " AND type != ?",
                (self._run, whose.stored, key, OURS),
            )
        if gone.rowcount:
            return True
        if self.get(key, whose=whose) is not None:
            raise _ours(key)
        return False

    def notes(self, *, whose: Whose | None = None, prefix: str = "") -> tuple[Note, ...]:
        """All of the run's, or those of one namespace; what all runs share comes from all of them."""
        with self._database.guarded("read"):
            rows = self._database.connection.execute(
                "SELECT namespace, key, type, stored_at, full_size, compressed, agent_id, stage_num"
                " FROM memory WHERE run = ? OR namespace = 'global' ORDER BY namespace, stored_at, key, rowid",
                (self._run,),
            ).fetchall()
        found: dict[tuple[str, str], Note] = {}
        for stored, key, kind, stored_at, full_size, compressed, agent_id, stage_num in rows:
            if not key.startswith(prefix) or (whose is not None and stored != whose.stored):
                continue
            namespace, _, name = stored.partition(":")
            found.pop((stored, key), None)  # of what all runs share, the newest counts
            found[(stored, key)] = Note(
                namespace, name, key, kind, stored_at, full_size, bool(compressed), agent_id, stage_num
            )
        return tuple(found.values())


def _ours(key: str) -> UsageError:
    return UsageError(f"{key} is the output of a stage, which is kept as it was", hint="use another key")


def _require_key(key: str) -> None:
    if not _KEY.fullmatch(key) or len(key) > _LONGEST_KEY:
        raise UsageError(
            f"{key[:60]!r} is no key", hint=f"1 to {_LONGEST_KEY} letters, digits and any of . _ - @ # / : +"
        )
