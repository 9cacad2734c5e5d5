"""Records the files of a git directory that say what is the user's, and puts single ones back under git's own locks.

Everything in there may have been made by somebody hostile: links are never followed, what is neither file nor link is
never opened, and nothing is read beyond a bound. A file is only written while it is what was seen last, under the lock
that git itself takes, so that what a person does in another terminal is not overwritten.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

__all__ = [
    "ABSENT",
    "LARGEST",
    "Entry",
    "Folder",
    "Place",
    "Recorded",
    "clear",
    "differing",
    "look",
    "read",
    "remove",
    "write",
]

#: Bytes of one file. An index of half a million files is smaller; nothing else comes near.
LARGEST = 64 * 1024**2
#: Coarser than the clock of any file system. What changed later than this may change again without a sign of it.
_SETTLED = 2_000_000_000
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_PATIENCE = 1.0

#: Files and folders at the top of a git directory that git reads. What has another name belongs to some other tool.
_FILES = re.compile(
    rb"[A-Z][A-Z_]*|config|config\.worktree|index|sharedindex\.[0-9a-f]+|packed-refs|shallow|description|commondir"
    rb"|gitdir|locked"
)
_FOLDERS = frozenset(
    {b"refs", b"logs", b"hooks", b"info", b"rebase-merge", b"rebase-apply", b"sequencer", b"remotes", b"branches"}
    | {b"reftable", b"NOTES_MERGE_WORKTREE"}
)
#: Files that a folder may be in the place of; what is in it is then in their way.
_IN_THE_WAY = re.compile(rb"[A-Z_]*HEAD|[a-z].*")
#: Walked in a way of its own. Objects have a copy of their own; of them only this is a setting.
_ELSEWHERE = frozenset({b"objects", b"worktrees", b"modules"})
_ALTERNATES = (b"objects/info/alternates", b"objects/info/http-alternates")
#: Of submodules only what can run a program: a snapshot leaves them alone as well.
_OF_MODULES = re.compile(rb"config(\.worktree)?|hooks|info")
_OF_RUNNING_PROGRAMS = (b"gc.pid", b"fsmonitor--daemon")


@dataclass(frozen=True, slots=True)
class Entry:
    """One name: `kind` is file, link, other or unknown (some other tool's). No content: too big, or nothing to read."""

    kind: str
    mode: int = 0
    content: bytes | None = None
    stamp: tuple[int, int, int, int] = (0, 0, 0, 0)

    def equals(self, other: Entry) -> bool:
        if (self.kind, self.mode) != (other.kind, other.mode):
            return False
        if self.kind == "unknown":
            return True
        if self.content is None and other.content is None:
            return self.stamp == other.stamp
        return self.content == other.content


ABSENT = Entry("absent")


@dataclass(frozen=True, slots=True)
class Place:
    """A git directory: the common one, and the name in there of what belongs to one linked work tree (or nothing)."""

    base: bytes
    own: bytes = b""

    @classmethod
    def of(cls, git_dir: Path, common_dir: Path) -> Place:
        real = Path(os.path.realpath(git_dir))
        if real == common_dir or not real.is_relative_to(common_dir):
            return cls(os.fsencode(common_dir))
        return cls(os.fsencode(common_dir), os.fsencode(real.relative_to(common_dir)))

    def path(self, name: bytes) -> bytes:
        return self.base + b"/" + name if name else self.base


@dataclass(frozen=True, slots=True)
class Folder:
    """Its permissions, and the number by which it is known again wherever it was moved."""

    mode: int
    number: int


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a git directory said at one moment (nanoseconds); `identity` tells it from another one in its place.

    The folders are those of the entries and of the objects; the git directory itself has no name.
    """

    entries: Mapping[bytes, Entry] = field(default_factory=lambda: MappingProxyType({}))
    at: int = 0
    identity: tuple[int, int] = (0, 0)
    folders: Mapping[bytes, Folder] = field(default_factory=lambda: MappingProxyType({}))

    def content(self, name: bytes) -> bytes:
        return self.entries.get(name, ABSENT).content or b""


def look(place: Place, previous: Recorded | None = None) -> Recorded:
    """What is there now. What has not been touched since `previous` is not read again."""
    at = time.time_ns()
    try:
        base = os.lstat(place.base)
    except OSError:
        return Recorded(at=at)
    if not stat.S_ISDIR(base.st_mode):
        return Recorded(at=at)
    known = previous.entries if previous is not None else {}
    settled = (previous.at if previous is not None else 0) - _SETTLED
    entries: dict[bytes, Entry] = {}
    folders = {b"": Folder(stat.S_IMODE(base.st_mode), base.st_ino)}
    for name, found in _walk(place, folders):
        if found is None:
            entries[name] = Entry("unknown")
            continue
        try:
            seen = found.stat(follow_symlinks=False)
        except OSError:
            continue
        before = known.get(name)
        if before is not None and before.stamp == _stamp(seen) and max(seen.st_mtime_ns, seen.st_ctime_ns) < settled:
            entries[name] = before
        else:
            entries[name] = _read(found.path, seen)
    return Recorded(MappingProxyType(entries), at, (base.st_dev, base.st_ino), MappingProxyType(folders))


def differing(before: Recorded, after: Recorded) -> dict[bytes, tuple[Entry, Entry]]:
    """The names that two looks disagree about, with what each saw."""
    found = {}
    for name in sorted(before.entries.keys() | after.entries.keys()):
        old, new = before.entries.get(name, ABSENT), after.entries.get(name, ABSENT)
        if old is not new and not old.equals(new):
            found[name] = (old, new)
    return found


def read(path: bytes) -> Entry:
    """What is under this path now."""
    try:
        return _read(path, os.lstat(path))
    except OSError:
        return ABSENT


def write(place: Place, name: bytes, kept: Entry, seen: Entry) -> bool:
    """Make a file what was kept, unless by now it is neither that nor what was seen; whether it is so afterwards."""
    path = place.path(name)
    if kept.content is None or not _make_folders(place, name):
        return read(path).equals(kept)
    lock = path + b".lock"
    try:
        if not _locked(lock, kept):
            return False
        now = read(path)
        if now.equals(kept) or not now.equals(seen):
            os.unlink(lock)  # noqa: PTH108 - names are bytes
            return now.equals(kept)
        if kept.kind == "file":
            os.utime(lock, ns=(kept.stamp[1], kept.stamp[1]))  # an index must not look newer than it is
        os.rename(lock, path)  # noqa: PTH104 - names are bytes
    except OSError:
        with suppress(OSError):
            os.unlink(lock)  # noqa: PTH108 - names are bytes
        return False
    return True


def remove(place: Place, name: bytes, seen: Entry) -> bool:
    """Take away what was not there before, unless it is something else by now; whether it is gone."""
    path = place.path(name)
    if read(path).kind == "absent":
        return True
    lock = path + b".lock"
    try:
        if not name.endswith(b".lock") and not _locked(lock, Entry("file", stat.S_IFREG | 0o600, b"")):
            return False
        if same := read(path).equals(seen):
            os.unlink(path)  # noqa: PTH108 - names are bytes
        with suppress(FileNotFoundError):
            os.unlink(lock)  # noqa: PTH108 - names are bytes
        folder = os.path.dirname(name)  # noqa: PTH120 - names are bytes
        while same and folder.count(b"/") > 1:  # git makes anew what is missing below refs/heads, but not refs itself
            os.rmdir(place.path(folder))  # noqa: PTH106 - names are bytes
            folder = os.path.dirname(folder)  # noqa: PTH120 - names are bytes
    except OSError:
        return read(path).kind == "absent"
    return same


def _walk(place: Place, folders: dict[bytes, Folder]) -> Iterator[tuple[bytes, os.DirEntry[bytes] | None]]:
    """Names with what is there; None for what is some other tool's. Folders are noted on the way."""
    for entry in _scan(place.base):
        name = entry.name
        if _is_folder(entry, name, folders):
            if name in _FOLDERS or (_FILES.fullmatch(name) and _IN_THE_WAY.fullmatch(name)):
                yield from _below(entry.path, name, folders)
            elif name == b"worktrees":
                yield from _work_trees(entry.path, name, folders)
            elif name == b"modules":
                yield from _modules(entry.path, name, folders)
            elif name not in _ELSEWHERE and not name.startswith(_OF_RUNNING_PROGRAMS) and not name.endswith(b".lock"):
                yield name, None
        elif name in _FOLDERS | _ELSEWHERE or name.endswith(b".lock") or _FILES.fullmatch(name):
            yield name, entry
        elif not name.startswith(_OF_RUNNING_PROGRAMS):
            yield name, None
    for entry in _scan(place.path(b"objects")):
        _is_folder(entry, b"objects/" + entry.name, folders)
    for entry in _scan(place.path(b"objects/info")):
        if b"objects/info/" + entry.name in _ALTERNATES:
            yield b"objects/info/" + entry.name, entry


def _below(path: bytes, name: bytes, folders: dict[bytes, Folder]) -> Iterator[tuple[bytes, os.DirEntry[bytes]]]:
    waiting = [(path, name)]
    while waiting:
        path, name = waiting.pop()
        for entry in _scan(path):
            inner = name + b"/" + entry.name
            if _is_folder(entry, inner, folders):
                waiting.append((entry.path, inner))
            else:
                yield inner, entry


def _work_trees(path: bytes, name: bytes, folders: dict[bytes, Folder]) -> Iterator[tuple[bytes, os.DirEntry[bytes]]]:
    """Of each linked work tree what is also recorded of the main one; not its submodules."""
    for tree in _scan(path):
        at = name + b"/" + tree.name
        for entry in _scan(tree.path) if _is_folder(tree, at, folders) else ():
            if not _is_folder(entry, at + b"/" + entry.name, folders):
                yield at + b"/" + entry.name, entry
            elif entry.name in _FOLDERS:
                yield from _below(entry.path, at + b"/" + entry.name, folders)


def _modules(path: bytes, name: bytes, folders: dict[bytes, Folder]) -> Iterator[tuple[bytes, os.DirEntry[bytes]]]:
    for entry in _scan(path):
        inner = name + b"/" + entry.name
        if not _is_folder(entry, inner, folders):
            if _OF_MODULES.fullmatch(entry.name):
                yield inner, entry
        elif _OF_MODULES.fullmatch(entry.name):
            yield from _below(entry.path, inner, folders)
        elif entry.name not in {b"objects", b"refs", b"logs", b"lfs"}:
            yield from _modules(entry.path, inner, folders)


def _is_folder(entry: os.DirEntry[bytes], name: bytes, folders: dict[bytes, Folder]) -> bool:
    with suppress(OSError):
        if entry.is_dir(follow_symlinks=False):
            seen = entry.stat(follow_symlinks=False)
            folders[name] = Folder(stat.S_IMODE(seen.st_mode), seen.st_ino)
            return True
    return False


def _scan(path: bytes) -> list[os.DirEntry[bytes]]:
    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            return []
        with os.scandir(path) as entries:
            return list(entries)
    except OSError:
        return []


def _stamp(seen: os.stat_result) -> tuple[int, int, int, int]:
    return (seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino)


def _read(path: bytes, seen: os.stat_result) -> Entry:
    kind = "file" if stat.S_ISREG(seen.st_mode) else "link" if stat.S_ISLNK(seen.st_mode) else "other"
    content: bytes | None = None
    with suppress(OSError):
        if kind == "link":
            content = os.readlink(path)  # noqa: PTH115 - names are bytes
        elif kind == "file" and seen.st_size <= LARGEST:
            content = _content(path)
    return Entry(kind, seen.st_mode, content, _stamp(seen))


def _content(path: bytes) -> bytes | None:
    descriptor = os.open(path, _READ)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        # Reading a short file in one gulp matters where there are thousands of them.
        data = os.read(descriptor, 65536)
        if len(data) < 65536:  # noqa: PLR2004 - as above
            return data
        parts, size = [data], len(data)
        while (data := os.read(descriptor, 1 << 20)) and size <= LARGEST:
            parts.append(data)
            size += len(data)
        return b"".join(parts) if size <= LARGEST else None
    finally:
        os.close(descriptor)


def _locked(lock: bytes, kept: Entry) -> bool:
    """Take the lock as git does, with the content to come in it; a moment's patience for somebody else's."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            if kept.kind == "link":
                os.symlink(kept.content or b"", lock)  # noqa: PTH211 - names are bytes
            else:
                descriptor = os.open(lock, _NEW, 0o600)
                with os.fdopen(descriptor, "wb") as stream:
                    stream.write(kept.content or b"")
                    os.fchmod(descriptor, stat.S_IMODE(kept.mode))
        except FileExistsError:
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        else:
            return True


def _make_folders(place: Place, name: bytes) -> bool:
    """The folders above a name; links and files in their place give way, and so do empty folders in its own."""
    try:
        at = place.base
        for part in [b"", *name.split(b"/")[:-1]]:
            at = at + b"/" + part if part else at
            try:
                mode = os.lstat(at).st_mode
            except FileNotFoundError:
                os.makedirs(at) if at == place.base else os.mkdir(at)  # noqa: PTH102, PTH103 - names are bytes
                continue
            if not stat.S_ISDIR(mode):
                os.unlink(at)  # noqa: PTH108 - names are bytes
                os.mkdir(at)  # noqa: PTH102 - names are bytes
            elif mode & stat.S_IRWXU != stat.S_IRWXU:
                os.chmod(at, stat.S_IMODE(mode) | stat.S_IRWXU)  # noqa: PTH101 - names are bytes
        clear(place.path(name))
    except OSError:
        return False
    return True


def clear(path: bytes) -> None:
    """Folders without any file, in the place of a file."""
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            return
        for entry in _scan(path):
            clear(entry.path)
        os.rmdir(path)  # noqa: PTH106 - names are bytes
