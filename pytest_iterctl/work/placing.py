"""Puts single files of the work tree back to what was kept of them, never through a link that somebody left there."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from pytest_iterctl.errors import RepositoryError
from pytest_iterctl.text import file_name
from pytest_iterctl.work.vault import Kept, Vault

__all__ = ["PARTIAL", "put_back", "put_where_plain", "take_away"]

#: How the name of a file ends that is only half written; a kill may leave it there until the run goes on.
PARTIAL = b".iterctl-partial"
_READABLE = 0o400


def take_away(root: Path, name: bytes) -> None:
    """Remove a file or link, and the folders that are empty then. What lies behind a linked folder is not ours."""
    base = os.fsencode(root)
    if not _is_reached_through_folders(base, name):
        return
    path = base + b"/" + name
    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            os.unlink(path)  # noqa: PTH108 - names are bytes
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise RepositoryError(f"{file_name(name)} can't be removed: {error.strerror}") from None
    folder = name.rpartition(b"/")[0]
    while folder:
        try:
            os.rmdir(base + b"/" + folder)  # noqa: PTH106 - names are bytes
        except OSError:
            return
        folder = folder.rpartition(b"/")[0]


def put_where_plain(vault: Vault, root: Path, name: bytes, kept: Kept) -> bool:
    """The same where nothing has to give way, and whether it was so: a link or folder there may be the user's own."""
    base = os.fsencode(root)
    at = base
    *folders, last = name.split(b"/")
    for part in (*folders, last):
        at += b"/" + part
        try:
            mode = os.lstat(at).st_mode
        except FileNotFoundError:
            break
        except OSError as error:
            raise RepositoryError(f"{file_name(name)} can't be written: {error.strerror}") from None
        if not (stat.S_ISREG(mode) if at == base + b"/" + name else stat.S_ISDIR(mode)):
            return False
    put_back(vault, root, name, kept)
    return True


def put_back(vault: Vault, root: Path, name: bytes, kept: Kept) -> None:
    """Make the file what was kept. Links and files in the place of its folders give way, a full folder does not.

    Who may read and write it stays as it is with the file that is there.
    """
    base = os.fsencode(root)
    path = base + b"/" + name
    try:
        _make_folders(base, name)
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(os.lstat(path).st_mode):
                os.rmdir(path)  # noqa: PTH106 - names are bytes
        partial = path + PARTIAL
        with suppress(FileNotFoundError):
            os.unlink(partial)  # noqa: PTH108 - names are bytes
        data = vault.content(kept)
        if kept.kind == "link":
            os.symlink(data, partial)  # noqa: PTH211 - names are bytes
        else:
            is_program = kept.kind == "program"
            mode = 0o777 if is_program else 0o666
            allowed = _permissions(path, is_program=is_program)
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data)
                if allowed is not None:
                    os.fchmod(stream.fileno(), allowed)
        os.replace(partial, path)  # noqa: PTH105 - names are bytes
    except OSError as error:
        raise RepositoryError(f"{file_name(name)} can't be put back: {error.strerror}") from None


def _permissions(path: bytes, *, is_program: bool) -> int | None:
    """Those of the file that is there, but for the bits that say whether it is a program; None if there is no file."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    mode = status.st_mode & 0o666 | _READABLE
    return mode | (mode & 0o444) >> 2 if is_program else mode


def _make_folders(base: bytes, name: bytes) -> None:
    at = base
    for part in name.split(b"/")[:-1]:
        at += b"/" + part
        try:
            mode = os.lstat(at).st_mode
        except FileNotFoundError:
            os.mkdir(at)  # noqa: PTH102 - names are bytes
            continue
        if not stat.S_ISDIR(mode):
            os.unlink(at)  # noqa: PTH108 - names are bytes
            os.mkdir(at)  # noqa: PTH102 - names are bytes


def _is_reached_through_folders(base: bytes, name: bytes) -> bool:
    at = base
    for part in name.split(b"/")[:-1]:
        at += b"/" + part
        try:
            if not stat.S_ISDIR(os.lstat(at).st_mode):
                return False
        except FileNotFoundError:
            return False
    return True
