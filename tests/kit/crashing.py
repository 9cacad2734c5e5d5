"""Kills this process with SIGKILL at one exact point of a run.

A point is `before` or `after` (the N-th journal write) or `restore` (after the N-th restore of the work tree, before it
is written down). A run that ends by itself never reached it.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from pytest_iterctl.store.journal import Journal
from pytest_iterctl.work.snapshots import Snapshots


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def install(point: str, number: int) -> None:
    count = 0
    append, restore = Journal.append, Snapshots.restore

    def counted_append(self: Journal, *arguments: Any, **options: Any) -> None:
        nonlocal count
        count += point in {"before", "after"}
        if point == "before" and count == number:
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
