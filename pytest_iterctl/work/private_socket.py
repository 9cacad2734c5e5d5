"""Unix sockets that only this user can connect to, at paths of any length: an address holds 107 bytes, a path 4096."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_iterctl.errors import UsageError

__all__ = ["connect", "listen"]

_BACKLOG = 128


def listen(folder: Path, name: str) -> socket.socket:
    """A socket in this folder, which must be the caller's own and closed to others."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    state = folder.stat()
    if state.st_uid != os.geteuid() or state.st_mode & 0o077:
        raise UsageError(f"the socket's folder is open to others: {folder}", hint="give it the mode 0700")
    (folder / name).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(folder) as short:
            listener.bind(f"{short}/{name}")
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def connect(path: Path, timeout: float) -> socket.socket:
    """OSError when nobody listens there."""
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        client.settimeout(timeout)
        with _short(path.parent) as short:
            client.connect(f"{short}/{path.name}")
    except BaseException:
        client.close()
        raise
    return client


@contextmanager
def _short(folder: Path) -> Iterator[str]:
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
