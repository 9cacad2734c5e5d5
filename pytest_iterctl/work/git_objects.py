"""Keeps a repository's objects from being lost, by hard links, and reads them without the repository's own settings.

A hard link takes no space while the object is in the repository as well, and outlives a `rm -rf .git` or a `git gc
--prune=now`. It does not outlive somebody who writes into the very file; git's own check would find that.
"""

from __future__ import annotations

import errno
import filecmp
import os
import re
import shutil
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pytest_iterctl.work.git import Answer, Repository

__all__ = ["ObjectCopy", "absent", "ask_alone", "open_objects"]

_FAN = re.compile(rb"[0-9a-f]{2}")
_LOOSE = re.compile(rb"([0-9a-f]{2})/([0-9a-f]{38,62})")
_PACK = re.compile(rb"pack-[0-9a-f]+\.(pack|idx|rev|promisor|keep|mtimes)")
_SETTLED = 2_000_000_000
#: Bytes that are copied where no hard link can be made, such as from another disk.
LARGEST_COPY = 256 * 1024**2


def open_objects(folder: Path, sources: Iterable[Path], *, hash_name: str = "sha1", shallow: bytes = b"") -> Repository:
    """A repository of our own that reads the objects in these folders, and nothing else of anybody's."""
    if folder.exists():
        shutil.rmtree(folder)
    (folder / "objects/info").mkdir(mode=0o700, parents=True)
    (folder / "refs").mkdir()
    (folder / "HEAD").write_bytes(b"ref: refs/heads/none\n")
    version, extension = ("0", "") if hash_name == "sha1" else ("1", f"[extensions]\nobjectFormat = {hash_name}\n")
    (folder / "config").write_text(f"[core]\nrepositoryFormatVersion = {version}\nbare = true\n{extension}")
    lines = (b'"' + _quoted(os.fsencode(source)) + b'"\n' for source in sources)
    (folder / "objects/info/alternates").write_bytes(b"".join(lines))
    if shallow:
        (folder / "shallow").write_bytes(shallow)
    return Repository(folder, folder, folder, "", None)


def ask_alone(repository: Repository, *arguments: str, feed: bytes | None = None) -> Answer:
    """Ask without the configuration in the home, which is within an agent's reach as well."""
    alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    return repository.ask(*arguments, feed=feed, variables=alone)


class ObjectCopy:
    """`folder` is private to the run; `problem` says why the copy is not whole, '' when it is."""

    def __init__(self, objects: Path, folder: Path) -> None:
        self.objects = objects
        self.folder = folder
        self.problem = ""
        self._source = os.fsencode(objects)
        self._target = os.fsencode(folder)
        self._known: dict[bytes, int] = {}
        self._copied = 0

    def keep(self) -> None:
        """Have every object that there is now; what has left the repository since is let go."""
        self.problem = ""
        if os.path.islink(self._source):  # noqa: PTH114 - names are bytes
            self.problem = "objects of the repository can't be kept safe: they lie behind a link"
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept_folders = set(_names(self._target))
        for folder in self._folders():
            at = time.time_ns()
            seen = _changed(self._source + b"/" + folder)
            # A folder that has had no name added or taken away since long before the last look has the same files.
            if folder in kept_folders and seen and self._known.get(folder) == seen:
                continue
            self._keep_folder(folder)
            if seen < at - _SETTLED:
                self._known[folder] = seen
        for gone in kept_folders.difference(self._folders()):
            shutil.rmtree(self._target + b"/" + gone, ignore_errors=True)

    def lost(self) -> tuple[bytes, ...]:
        """Names of the kept files that the repository has no longer, or has another file of."""
        found = []
        is_here = self._is_here()
        for folder in _names(self._target):
            source = self._source + b"/" + folder
            is_real = is_here and _is_folder(source)
            if is_real and self._known.get(folder) == _changed(source):
                continue
            for name in _names(self._target + b"/" + folder):
                relative = folder + b"/" + name
                if not (is_real and _same(self._target + b"/" + relative, self._source + b"/" + relative)):
                    found.append(relative)
        return tuple(sorted(found))

    def _is_here(self) -> bool:
        """Whether the objects are in the git directory itself: what a link leads to is gone with the link."""
        return _is_folder(os.path.dirname(self._source)) and _is_folder(self._source)  # noqa: PTH120 - names are bytes

    def _is_plain(self) -> bool:
        """Whether there is no link among the objects: git follows them, and finds what lies somewhere else."""
        try:
            return self._is_here() and not any(
                entry.is_symlink() or (_is_fan(entry.name) and any(map(os.DirEntry.is_symlink, _scan(entry.path))))
                for entry in _scan(self._source)
            )
        except OSError:
            return False

    def missing(self, lost: tuple[bytes, ...], present: Repository) -> tuple[bytes, ...]:
        """Those of the lost files with objects that are nowhere else in the repository: a repack loses none.

        All of them where that can't be told, since one that is there twice does no harm.
        """
        if not lost or not self._is_plain():
            return lost
        loose = {b"".join(match.groups()): name for name in lost if (match := _LOOSE.fullmatch(name))}
        found = [loose[each] for each in absent(present, loose)]
        packs = {name.rpartition(b".")[0] for name in lost if name.endswith((b".pack", b".idx"))}
        for pack in packs:
            listed = _listed_in(self.folder / os.fsdecode(pack + b".idx"), present)
            if listed is None or absent(present, listed):
                found += [name for name in lost if name.rpartition(b".")[0] == pack]
        found += [
            name for name in lost if os.path.lexists(path := self._source + b"/" + name) and not _is_readable(path)
        ]
        return tuple(sorted(set(found)))

    def is_overwritten(self, names: Iterable[bytes]) -> bool:
        """Whether there is something else in the place of one of these files."""
        return any(os.path.lexists(self._source + b"/" + name) for name in names)

    def put_back(self, names: Iterable[bytes]) -> bool:
        """Give these files back to the repository; whether all are there again."""
        whole = True
        for name in names:
            source, target = self._target + b"/" + name, self._source + b"/" + name
            try:
                _make_folder(os.path.dirname(target))  # noqa: PTH120 - names are bytes
                if _is_folder(target):
                    shutil.rmtree(target)  # nobody's: git itself never looks into one there
                partial = target + b".iterctl"
                with suppress(FileNotFoundError):
                    os.unlink(partial)  # noqa: PTH108 - names are bytes
                self._link(source, partial)
                os.rename(partial, target)  # noqa: PTH104 - names are bytes
                with suppress(FileNotFoundError):
                    os.unlink(partial)  # noqa: PTH108 - names are bytes; it stays where both are one file
                if not _is_readable(target):
                    os.chmod(target, 0o444)  # noqa: PTH101 - names are bytes; the copy is the same file, and locked as well
            except OSError:
                whole = False
        return whole

    def _folders(self) -> list[bytes]:
        return [name for name in _names(self._source) if _is_fan(name)]

    def _keep_folder(self, folder: bytes) -> None:
        source, target = self._source + b"/" + folder, self._target + b"/" + folder
        wanted = {name for name in _names(source) if folder != b"pack" or _PACK.fullmatch(name)}
        with suppress(FileExistsError):
            os.mkdir(target, 0o700)  # noqa: PTH102 - names are bytes
        there = set(_names(target))
        for name in wanted:
            try:
                if name not in there:
                    self._link(source + b"/" + name, target + b"/" + name)
                elif not _same(target + b"/" + name, source + b"/" + name):
                    os.unlink(target + b"/" + name)  # noqa: PTH108 - names are bytes
                    self._link(source + b"/" + name, target + b"/" + name)
            except FileNotFoundError:
                continue  # packed meanwhile
            except OSError as error:
                self.problem = f"objects of the repository can't be kept safe: {error.strerror}"
        for name in there - wanted:
            os.unlink(target + b"/" + name)  # noqa: PTH108 - names are bytes

    def _link(self, source: bytes, target: bytes) -> None:
        seen = os.lstat(source)
        if not stat.S_ISREG(seen.st_mode):
            return
        try:
            os.link(source, target, follow_symlinks=False)
        except OSError as error:
            if error.errno not in {errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK}:
                raise
            self._copied += seen.st_size
            if self._copied > LARGEST_COPY:
                raise OSError(errno.EFBIG, "they are on another file system, and too large to copy") from None
            shutil.copy2(source, target, follow_symlinks=False)


def absent(repository: Repository, ids: Iterable[bytes]) -> list[bytes]:
    """Those of the object ids that the repository does not have."""
    feed = b"".join(each + b"\n" for each in ids)
    if not feed:
        return []
    answer = ask_alone(repository, "cat-file", "--batch-check=%(objectname) %(objecttype)", feed=feed)
    return [line.partition(b" ")[0] for line in answer.output.splitlines() if line.endswith(b" missing")]


def _listed_in(index: Path, repository: Repository) -> list[bytes] | None:
    """The object ids in a pack; None when its index can't be read."""
    try:
        answer = ask_alone(repository, "show-index", feed=index.read_bytes())
    except OSError:
        return None
    return [line.split(b" ")[1] for line in answer.output.splitlines()] if answer.code == 0 else None


def _same(kept: bytes, present: bytes) -> bool:
    try:
        one, other = os.lstat(kept), os.lstat(present)
    except OSError:
        return False
    if not stat.S_ISREG(other.st_mode) or not other.st_mode & stat.S_IRUSR or one.st_size != other.st_size:
        return False
    if (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino):
        return True
    try:
        return filecmp.cmp(kept, present, shallow=False)  # a copy on another disk, or one that was fetched anew
    except OSError:
        return False


def _is_fan(name: bytes) -> bool:
    return name == b"pack" or _FAN.fullmatch(name) is not None


def _is_folder(path: bytes) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _is_readable(path: bytes) -> bool:
    """Whether this is a file that its owner may read."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & stat.S_IRUSR)


def _names(path: bytes) -> list[bytes]:
    try:
        return os.listdir(path) if _is_folder(path) else []  # noqa: PTH208 - names are bytes
    except OSError:
        return []


def _scan(path: bytes) -> list[os.DirEntry[bytes]]:
    with os.scandir(path) as entries:
        return list(entries)


def _changed(path: bytes) -> int:
    """When a name was last added or taken away, by the time that nobody can set back."""
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        return 0


def _make_folder(path: bytes) -> None:
    """The folder itself and those above it; a link in its place gives way."""
    try:
        if stat.S_ISDIR(os.lstat(path).st_mode):
            return
        os.unlink(path)  # noqa: PTH108 - names are bytes
    except FileNotFoundError:
        pass
    parent = os.path.dirname(path)  # noqa: PTH120 - names are bytes
    if os.path.basename(path) != b"objects":  # noqa: PTH119 - names are bytes
        _make_folder(parent)
    os.mkdir(path)  # noqa: PTH102 - names are bytes


def _quoted(path: bytes) -> bytes:
    return path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
