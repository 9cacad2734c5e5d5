"""A run's history as the loop lives it: every event goes into the journal first, then into the state, then to those
who watch. Nothing happens that is not written down before the next thing begins.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from pydantic import ValidationError

from pytest_iterctl.control.events import DURABLE, EVENT, Event
from pytest_iterctl.control.state import Entry, RunState, apply, fold
from pytest_iterctl.errors import StoreError
from pytest_iterctl.redaction import Redactor
from pytest_iterctl.store.journal import Journal, Record

__all__ = ["History", "Watcher", "entries_of", "now"]

#: Told of every entry and the state after it.
Watcher = Callable[[Entry, RunState], None]

#: These hold the frozen plan, which is cleaned before it is frozen: a resume must find it exactly as it was.
_ALREADY_CLEAN = frozenset({"run-started", "tasks-declared"})


def now() -> str:
    """RFC 3339 in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def entries_of(journal: Journal, run: str) -> list[Entry]:
    return [
        Entry(record.sequence, record.at, record.clock, EVENT.validate_json(record.body))
        for record in journal.records(run)
    ]


def _clean(event: Event, redactor: Redactor) -> Event:
    """The event without secrets, still readable as an event.

    A variable of the environment may be called secret and hold a word of ours, such as `passed`; then only what looks
    like a secret is taken out.
    """
    plain = event.model_dump(mode="json")
    for each in (redactor, Redactor()):
        try:
            return EVENT.validate_json(json.dumps(each.deep(plain)))
        except ValidationError:
            continue
    raise StoreError(f"an event of kind {event.kind} can't be cleaned of secrets")


class History:
    """The journal of one run with its state, and a clock that counts only the time at work."""

    def __init__(
        self, journal: Journal, run: str, watchers: Sequence[Watcher] = (), *, redactor: Redactor | None = None
    ) -> None:
        self._journal = journal
        self._redactor = redactor or Redactor()
        self.run = run
        self._watchers = tuple(watchers)
        self.state = fold(entries_of(journal, run))
        self._offset = self.state.clock
        self._began = time.monotonic()

    @property
    def clock(self) -> float:
        """Seconds at work in all: before every crash and since the last start, but not in between."""
        return self._offset + time.monotonic() - self._began

    def record(self, event: Event) -> Event:
        """Write an event down and take it in; returns it as written, secrets redacted."""
        written = event if event.kind in _ALREADY_CLEAN else _clean(event, self._redactor)
        record = Record(self.state.sequence + 1, now(), self.clock, written.kind, written.model_dump_json())
        self._journal.append(self.run, record, durable=written.kind in DURABLE)
        entry = Entry(record.sequence, record.at, record.clock, written)
        self.state = apply(self.state, entry)
        for watcher in self._watchers:
            watcher(entry, self.state)
        return written
