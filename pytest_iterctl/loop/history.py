"""A run's history as the loop lives it: every event goes into the journal first, then into the state, then to those
who watch. Nothing happens that is not written down before the next thing begins.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from pydantic import ValidationError

from pytest_iterctl.control.events import DURABLE, EVENT, Event
from pytest_iterctl.control.fold import apply, fold
from pytest_iterctl.control.state import Entry, RunState
from pytest_iterctl.errors import StoreError
from pytest_iterctl.redaction import Redactor
from pytest_iterctl.store.journal import Journal, Record

__all__ = ["History", "Watcher", "entries_of", "now"]

#: Told of every entry and the state after it.
Watcher = Callable[[Entry, RunState], None]

#: These hold the frozen plan, which is cleaned before it is frozen: a resume must find it exactly as it was.
_ALREADY_CLEAN = frozenset({"run-started", "tasks-declared"})

#: Seconds of work that a kill may make uncounted, at most.
_BEAT = 2.0

#: Fields with a word of ours, a name from the plan or an object id. A variable of the environment may be called secret
#: and hold the very same word; taking it out would make another task or outcome of it.
_OURS = frozenset(
    {
        *("action", "effect", "holds", "kind", "limit", "outcome", "pattern", "phase", "priority", "status"),
        *("output_key", "run", "stage", "task", "task_id"),
        *("base", "before", "commit", "committed", "kept", "restored", "tree"),
    }
)


_REASON = re.compile(r"[a-z]+(?:-[a-z]+){0,3}")


def now() -> str:
    """RFC 3339 in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def entries_of(journal: Journal, run: str) -> list[Entry]:
    try:
        return [
            Entry(record.sequence, record.at, record.clock, EVENT.validate_json(record.body))
            for record in journal.records(run)
        ]
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
        raise StoreError(
            f"the journal of run {run} can't be read: {problem}",
            hint="it was written by a newer iterctl or damaged; upgrade, or remove it: iterctl clean " + run,
        ) from None


def _clean(event: Event, redactor: Redactor) -> Event:
    """The event with every text redacted, but for the words and names that are ours or the plan's."""
    return EVENT.validate_json(json.dumps(_redacted(event.model_dump(mode="json"), redactor)))


def _redacted(value: object, redactor: Redactor) -> object:
    if isinstance(value, str):
        return redactor(value)
    if isinstance(value, dict):
        return {key: each if _is_ours(key, each) else _redacted(each, redactor) for key, each in value.items()}
    return [_redacted(each, redactor) for each in value] if isinstance(value, list) else value


def _is_ours(key: str, value: object) -> bool:
    # The reason of a decision is a word of ours; that of a test run is a sentence, which may quote anything.
    word = key == "reason" and isinstance(value, str) and _REASON.fullmatch(value) is not None
    return word or key in _OURS


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
        # A driver that was killed has worked longer than its last event says.
        self._offset = max(self.state.clock_at_least, journal.last_beat(run))
        self._beaten = 0.0
        self._began = time.monotonic()

    @property
    def resumed_at(self) -> float:
        """Where the run's clock stood when this driver took over: at the last sign of life of the one before."""
        return self._offset

    @property
    def clock(self) -> float:
        """Seconds at work in all: before every crash and since the last start, but not in between."""
        return self._offset + time.monotonic() - self._began

    def beat(self) -> None:
        """Once in a while: how long the run has been at work, for whoever comes after a kill."""
        if self.clock - self._beaten >= _BEAT:
            self._beaten = self.clock
            self._journal.beat(self.run, self.clock)

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
