"""One run at a time on one work tree: a lock that the kernel releases when its holder dies, however it dies."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from pytest_iterctl.errors import LockedError, StoreError

__all__ = ["WorkTreeLock", "holder"]


class WorkTreeLock:
    """Held from before a run's first trace until it ends; the file says for whom.

    It may be entered again by whoever it is handed to, also in another process (`held` is the descriptor that was
    handed over). The first one to leave releases it.
    """

    def __init__(self, path: Path, run: str, *, held: int = -1) -> None:
        self.run = run
        self._path = path
        self._descriptor = held

    def __enter__(self) -> Self:
        if self._descriptor >= 0:
            return self
        try:
            self._descriptor = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._close()
            if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
                run = holder(self._path) or "another one"
                raise LockedError(
                    f"run {run} is at work on this work tree",
                    hint=f"wait for it to end, or stop it: iterctl stop {run}",
                ) from None
            raise StoreError(f"the lock can't be taken: {self._path}: {error.strerror}") from None
        self.rename(self.run)
        return self

    def rename(self, run: str) -> None:
        """Say for which run the lock is held."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, json.dumps({"run": run, "pid": os.getpid()}).encode(), 0)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._descriptor >= 0:
            os.ftruncate(self._descriptor, 0)
            # In so many words: whoever handed it over, or passed it on, may still have it open.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self._close()

    @property
    def descriptor(self) -> int:
        """What another process needs to hold it."""
        return self._descriptor

    def hand_over(self) -> None:
        """Another process holds it now."""
        self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def holder(path: Path) -> str | None:
    """The run that holds the lock now, None when nobody does."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return _named(os.pread(descriptor, 4096, 0)) or "?"
    finally:
        os.close(descriptor)
    return None


def _named(content: bytes) -> str:
    try:
        data = json.loads(content)
    except ValueError:
        return ""
    return str(data.get("run", "")) if isinstance(data, dict) else ""
