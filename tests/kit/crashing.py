"""Kills this process with SIGKILL at one exact point of a run.

A point is `before` or `after` (the N-th journal write), `restore` (after the N-th restore of the work tree, before it
is written down), or a kind of event (before the N-th of them is written). A run that ends by itself never reached it.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from pytest_iterctl.store.journal import Journal, Record
from pytest_iterctl.work.snapshots import Snapshots


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def install(point: str, number: int) -> None:
    count = 0
    append, restore = Journal.append, Snapshots.restore

    def counted_append(self: Journal, *arguments: Any, **options: Any) -> None:
        nonlocal count
        record = arguments[1]
        assert isinstance(record, Record)
        count += point in {"before", "after", record.kind}
        if point in {"before", record.kind} and count == number:
            die()
        append(self, *arguments, **options)
        if point == "after" and count == number:
            die()

    def counted_restore(self: Snapshots, commit: str) -> bool:
        nonlocal count
        changed = restore(self, commit)
        count += point == "restore"
        if point == "restore" and count == number:
            die()
        return changed

    Journal.append = counted_append  # type: ignore[method-assign]
    Snapshots.restore = counted_restore  # type: ignore[method-assign]
