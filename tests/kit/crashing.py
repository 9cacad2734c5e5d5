"""Runs iterctl and kills it with SIGKILL at one exact point: `python crashing.py POINT N COMMAND…`.

POINT is `before` or `after` (the N-th journal write) or `restore` (after the N-th restore of the work tree, before it
is written down). Exit code 0 from here means that the point was never reached.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from pytest_iterctl.cli.entry import run_command_line
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


if __name__ == "__main__":
    install(sys.argv[1], int(sys.argv[2]))
    run_command_line(sys.argv[3:])
    sys.exit(0)
