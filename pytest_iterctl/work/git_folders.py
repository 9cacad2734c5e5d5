"""Brings the folders of a git directory back where they were moved away, are a link or a file now, or are locked.

What lies behind a link is not there: whoever reads through one takes for safe what is lost as soon as the link is gone.
So this comes before all else, and only then is it looked at what the folders hold.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress

from pytest_iterctl.text import file_name
from pytest_iterctl.work.git_files import Folder, Place, Recorded, read
from pytest_iterctl.work.git_history import Touched

__all__ = ["bring_back", "drop_work_trees", "folders_touched", "is_below", "make_folders", "out_of_order"]

_NEEDED = (b"objects", b"refs")
_OWNER = stat.S_IRWXU
_POINTER = b"gitdir: "


def out_of_order(place: Place, kept: Recorded, now: Recorded) -> dict[bytes, Folder | None]:
    """Folders with other permissions than they had, and those (None) that something else is in the place of.

    One that is gone is not among them: what it held says so. Of what is below such a folder nothing is said.
    """
    found: dict[bytes, Folder | None] = {}
    for name, was in sorted(kept.folders.items()):
        seen = now.folders.get(name)
        if seen == was or (seen is not None and seen.mode == was.mode) or is_below(name, found):
            continue
        if seen is not None or _is_in_the_way(place.path(name), name):
            found[name] = seen
    for name in now.folders.keys() - kept.folders.keys():
        if name.endswith(b".lock") and not is_below(name, found):
            found[name] = now.folders[name]  # holds as well as a file, and would not be seen otherwise
    return found


def _is_in_the_way(path: bytes, name: bytes) -> bool:
    """A file may well be in the place of a folder of branches (`a` for `a/b`): it is put back as files are."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) or b"/" not in name or name.startswith(b"objects/")


def is_below(name: bytes, folders: Iterable[bytes]) -> bool:
    """Whether a name lies within one of these folders."""
    return any(not folder or name.startswith(folder + b"/") for folder in folders)


def folders_touched(place: Place, kept: Recorded, odd: dict[bytes, Folder | None]) -> list[Touched]:
    told = []
    for name, seen in odd.items():
        was = kept.folders.get(name)
        if was is None:
            how, bad = "a lock was left behind", False
        elif seen is None:
            how, bad = ("is a link now" if os.path.islink(place.path(name)) else "is no folder any more"), True  # noqa: PTH114 - names are bytes
        else:
            bad = bool(was.mode & ~seen.mode & _OWNER)
            how = "was locked by its permissions" if bad else "has other permissions"
        told.append(Touched(file_name(name) or ".git", how, destructive=bad, files=(name,)))
    return told


def bring_back(place: Place, name: bytes, was: Folder | None) -> bool:
    """Make it the folder that it was: the very same where a link still leads to it, else a new one."""
    path = place.path(name)
    try:
        if was is None:
            _take_away(path)
            return not os.path.lexists(path)
        seen = os.lstat(path)
        if not stat.S_ISDIR(seen.st_mode):
            moved = _moved_to(path, seen.st_mode)
            os.unlink(path)  # noqa: PTH108 - names are bytes
            # By its number it is known again, and all that lies in it comes with it, also what is not kept elsewhere.
            if not moved or not _is_same(moved, was, seen.st_dev) or not _is_moved(moved, path):
                os.mkdir(path)  # noqa: PTH102 - names are bytes
        os.chmod(path, was.mode)  # noqa: PTH101 - names are bytes
    except OSError:
        return False
    return True


def _take_away(path: bytes) -> None:
    """A lock is nobody's treasure, whatever is in it; links are not followed."""
    if stat.S_ISDIR(os.lstat(path).st_mode):
        shutil.rmtree(path)
    else:
        os.unlink(path)  # noqa: PTH108 - names are bytes


def make_folders(place: Place, kept: Recorded) -> bool:
    """A git directory to put the rest into, where there is none any more. What was a link of the user's stays one."""
    try:
        for name in (b"", *(each for each in _NEEDED if each in kept.folders)):
            path = place.path(name)
            if not os.path.lexists(path):
                os.makedirs(path)  # noqa: PTH103 - names are bytes
                os.chmod(path, kept.folders[name].mode if name in kept.folders else 0o755)  # noqa: PTH101
    except OSError:
        return False
    return True


def drop_work_trees(place: Place, kept: Recorded, now: Recorded) -> dict[bytes, bool]:
    """The folders of new linked work trees, once they are empty; what was checked out there stays where it is."""
    new = [name for name in now.folders.keys() - kept.folders.keys() if (name + b"/").startswith(b"worktrees/")]
    done = {}
    for name in sorted(new, reverse=True):
        with suppress(OSError):
            os.rmdir(place.path(name))  # noqa: PTH106 - names are bytes
        done[name] = not os.path.lexists(place.path(name))
    return done


def _moved_to(path: bytes, mode: int) -> bytes:
    """Where a link leads, or git's own sort of one; '' for nowhere."""
    if stat.S_ISLNK(mode):
        return os.path.realpath(path)
    said = read(path).content or b""
    folder = os.path.dirname(path)  # noqa: PTH120 - names are bytes
    return os.path.realpath(os.path.join(folder, said[len(_POINTER) :].strip())) if said.startswith(_POINTER) else b""  # noqa: PTH118


def _is_same(path: bytes, was: Folder, device: int) -> bool:
    """A device may have another number after a restart, but what can be renamed is on the link's own."""
    try:
        seen = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(seen.st_mode) and (seen.st_dev, seen.st_ino) == (device, was.number)


def _is_moved(source: bytes, target: bytes) -> bool:
    with suppress(OSError):
        os.rename(source, target)  # noqa: PTH104 - names are bytes
        return True
    return False
