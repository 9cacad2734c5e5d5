"""Files of the work tree as they were at one moment, kept by content where agents do not work.

A clean room is built from here, never from the work tree's own `.git`: replaced objects, filters, hooks and moved refs
must not matter. Contents are raw, so what a filter makes of a file on checkout is what is kept. Each file is named by
the hash of what it holds, and checked against it again when it is taken out.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from pytest_iterctl.errors import RepositoryError, StoreError
from pytest_iterctl.text import file_name

__all__ = ["Kept", "Manifest", "Stamp", "Stamps", "Vault"]

_CHUNK = 1024 * 1024
_DIGEST = re.compile(r"[0-9a-f]{64}")
#: Coarser than the clock of any file system. What changed later than this may change again without a sign of it.
_SETTLED = 2_000_000_000
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # whatever takes a file's place in between
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW

#: Size, time of the content, time of the change, inode.
Stamp = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Kept:
    """One file: what it holds, and whether it may be run. A link holds its target."""

    digest: str
    kind: str  # "file", "program" or "link"


@dataclass(frozen=True, slots=True)
class Manifest:
    """Which files there were, by their names below the root (bytes, as the system has them)."""

    files: Mapping[bytes, Kept] = field(default_factory=lambda: MappingProxyType({}))

    def digest(self) -> str:
        """One name for all of it, for the journal."""
        return hashlib.sha256(self._lines()).hexdigest()

    def write(self, path: Path) -> None:
        _write_whole(path, self._lines())

    @classmethod
    def read(cls, path: Path, expected: str) -> Manifest:
        """The manifest that was written there; StoreError if it is another one."""
        files = {}
        for line in _read_whole(path, expected, "base files").splitlines():
            name, digest, kind = json.loads(line)
            files[os.fsencode(name)] = Kept(digest, kind)
        return cls(MappingProxyType(files))

    def _lines(self) -> bytes:
        rows = ([os.fsdecode(name), kept.digest, kept.kind] for name, kept in sorted(self.files.items()))
        return b"".join(json.dumps(row).encode("ascii") + b"\n" for row in rows)


@dataclass(frozen=True, slots=True)
class Stamps:
    """What the system said about the kept files, which spares reading those that are as they were.

    A file that had changed just before it was kept has none: it could change once more and look the same.
    """

    files: Mapping[bytes, Stamp] = field(default_factory=lambda: MappingProxyType({}))

    def digest(self) -> str:
        """One name for all of it, for the journal."""
        return hashlib.sha256(self._lines()).hexdigest()

    def write(self, path: Path) -> None:
        _write_whole(path, self._lines())

    @classmethod
    def read(cls, path: Path, expected: str) -> Stamps:
        """The stamps that were written there; StoreError if they are others."""
        files = {}
        for line in _read_whole(path, expected, "base files' times").splitlines():
            name, size, content, change, inode = json.loads(line)
            files[os.fsencode(name)] = (size, content, change, inode)
        return cls(MappingProxyType(files))

    def _lines(self) -> bytes:
        rows = ([os.fsdecode(name), *stamp] for name, stamp in sorted(self.files.items()))
        return b"".join(json.dumps(row).encode("ascii") + b"\n" for row in rows)


class Vault:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._base = os.fsencode(directory)
        self._mark = os.urandom(8).hex()

    def keep(self, root: Path, names: Iterable[bytes]) -> Manifest:
        """Keep what is there now under these names; names of what is no file or link are left out."""
        return self.keep_with_stamps(root, names)[0]

    def keep_with_stamps(self, root: Path, names: Iterable[bytes]) -> tuple[Manifest, Stamps]:
        """The same, and what `changed` needs to be quick later."""
        base = os.fsencode(root)
        settled = time.time_ns() - _SETTLED
        files: dict[bytes, Kept] = {}
        stamps: dict[bytes, Stamp] = {}
        for name in names:
            found = self._keep(base + b"/" + name)
            if found is not None:
                files[name], stamp = found
                if stamp is not None and max(stamp[1], stamp[2]) < settled:
                    stamps[name] = stamp
        return Manifest(MappingProxyType(files)), Stamps(MappingProxyType(stamps))

    def changed(self, root: Path, manifest: Manifest, stamps: Stamps) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        """The names whose content or kind is another one now, and those that are gone.

        What is reached only through a linked folder is gone, and so is what gave way to a folder. Contents are those
        on the disk: no filter of git's is asked.
        """
        base = os.fsencode(root)
        folders = {b"": True}
        differing, gone = [], []
        for name, kept in sorted(manifest.files.items()):
            place = base + b"/" + name
            try:
                seen = os.lstat(place) if _is_folder(base, name.rpartition(b"/")[0], folders) else None
                kind = _kind(seen.st_mode) if seen else ""
                if seen is None or not kind:
                    gone.append(name)
                elif _stamp(seen) != stamps.files.get(name) and (kind, _digest(place, kind)) != (
                    kept.kind,
                    kept.digest,
                ):
                    differing.append(name)
            except (FileNotFoundError, NotADirectoryError):
                gone.append(name)
            except OSError as error:
                raise RepositoryError(f"{file_name(name)} can't be compared: {error.strerror}") from None
        return tuple(differing), tuple(gone)

    def lay(self, manifest: Manifest, folder: Path, *, dated: int | None = None) -> None:
        """Write the files into a folder. Links are made only after all files: nothing is written through one.

        `dated`: Python sources get this time, in seconds, so that bytecode of the very same sources goes with them.
        """
        base = os.fsencode(folder)
        # All folders before any file: where many files were removed lately, as those of the last room, ext4 looks for
        # free places four times as long when folders and files are made in turns.
        for parent in _folders(manifest.files):
            with suppress(FileExistsError):
                os.mkdir(base + b"/" + parent)  # noqa: PTH102 - names are bytes
        links = []
        for name, kept in manifest.files.items():
            if kept.kind == "link":
                links.append((base + b"/" + name, kept))
            else:
                self._take_out(kept, base + b"/" + name, dated if name.endswith(b".py") else None)
        for place, kept in links:
            os.symlink(self.content(kept), place)  # noqa: PTH211 - names are bytes

    def lay_again(self, manifest: Manifest, folder: Path) -> None:
        """Make a folder hold exactly these files and nothing else, writing only what it does not hold already.

        What is there is read and compared, so it may have been anybody's to change. To make a few hundred files takes
        a journaling file system many times as long as to read them.
        """
        missing = dict(manifest.files)
        needed = set(_folders(manifest.files))
        waiting = [b""]
        while waiting:
            inner = waiting.pop()
            place = os.fsencode(folder) + (b"/" + inner if inner else b"")
            with os.scandir(place) as entries:
                for entry in entries:
                    name = inner + b"/" + entry.name if inner else entry.name
                    kept = missing.get(name)
                    if entry.is_dir(follow_symlinks=False):
                        if name in needed:
                            waiting.append(name)
                        else:
                            shutil.rmtree(entry.path)
                    elif kept is not None and self._is(kept, entry.path):
                        del missing[name]
                    else:
                        os.unlink(entry.path)  # noqa: PTH108 - names are bytes
        self.lay(Manifest(MappingProxyType(missing)), folder)

    def _is(self, kept: Kept, path: bytes) -> bool:
        seen = os.lstat(path)
        whole = _kind(seen.st_mode) == kept.kind and _has_size(self._place(kept), seen.st_size)
        return whole and _digest(path, kept.kind) == kept.digest

    def content(self, kept: Kept) -> bytes:
        data = b"".join(_chunks(self._place(kept)))
        if hashlib.sha256(data).hexdigest() != kept.digest:
            raise self._forged(kept)
        return data

    def clear(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def _keep(self, path: bytes) -> tuple[Kept, Stamp | None] | None:
        try:
            seen = os.lstat(path)
            kind = _kind(seen.st_mode)
            if not kind:
                return None
            if kind == "link":
                kept = self._store(os.readlink(path), kind)  # noqa: PTH115 - names are bytes
            elif seen.st_size < _CHUNK:
                kept = self._store(b"".join(_chunks(path)), kind)
            else:
                kept = self._store_large(path, kind)
            # What was written to while it was read may be kept half old and half new: the next look must read it.
            return kept, _stamp(seen) if _stamp(os.lstat(path)) == _stamp(seen) else None
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RepositoryError(f"{file_name(path)} can't be kept for the clean room: {error.strerror}") from None

    def _store(self, data: bytes, kind: str) -> Kept:
        kept = Kept(hashlib.sha256(data).hexdigest(), kind)
        place = self._place(kept)
        if not _has_size(place, len(data)):
            with self._partial() as (descriptor, partial):
                _write(descriptor, data)
                self._rename(partial, place)
        return kept

    def _store_large(self, path: bytes, kind: str) -> Kept:
        digest = hashlib.sha256()
        with self._partial() as (descriptor, partial):
            for chunk in _chunks(path):
                digest.update(chunk)
                _write(descriptor, chunk)
            kept = Kept(digest.hexdigest(), kind)
            self._rename(partial, self._place(kept))
        return kept

    @contextmanager
    def _partial(self) -> Iterator[tuple[int, bytes]]:
        """A file that nobody else writes to, also when two keep the same content at once; gone if it comes to nothing.

        A whole file gets its final name in one step, so a kill at any moment leaves no half one there.
        """
        name = f"{os.getpid()}-{threading.get_ident()}-{self._mark}.partial"
        partial = self._base + b"/" + name.encode("ascii")
        try:
            descriptor = os.open(partial, _WRITE | os.O_TRUNC, 0o600)
        except FileNotFoundError:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(partial, _WRITE | os.O_TRUNC, 0o600)
        try:
            yield descriptor, partial
        except BaseException:
            with suppress(OSError):
                os.unlink(partial)  # noqa: PTH108 - names are bytes
            raise
        finally:
            os.close(descriptor)

    def _rename(self, partial: bytes, place: bytes) -> None:
        try:
            os.rename(partial, place)  # noqa: PTH104 - names are bytes
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.mkdir(place.rpartition(b"/")[0], 0o700)  # noqa: PTH102 - names are bytes
            os.rename(partial, place)  # noqa: PTH104 - names are bytes

    def _take_out(self, kept: Kept, place: bytes, dated: int | None) -> None:
        # Read once, so that what is checked is what is written: the kernel's own copying would read it a second time.
        digest = hashlib.sha256()
        mode = 0o755 if kept.kind == "program" else 0o644
        descriptor = os.open(place, _WRITE | os.O_EXCL, mode)
        try:
            for chunk in _chunks(self._place(kept)):
                digest.update(chunk)
                _write(descriptor, chunk)
            if dated is not None:
                os.utime(descriptor, (dated, dated))
        finally:
            os.close(descriptor)
        if digest.hexdigest() != kept.digest:
            raise self._forged(kept)

    def _place(self, kept: Kept) -> bytes:
        if not _DIGEST.fullmatch(kept.digest):
            raise StoreError(f"{kept.digest[:80]!r} is no name of a kept file")
        digest = kept.digest.encode("ascii")
        return self._base + b"/" + digest[:2] + b"/" + digest[2:]

    def _forged(self, kept: Kept) -> StoreError:
        return StoreError(f"a kept file was changed by somebody else: {file_name(self._place(kept))}")


def _kind(mode: int) -> str:
    """What a manifest calls it; '' for what is neither file nor link."""
    if stat.S_ISLNK(mode):
        return "link"
    if not stat.S_ISREG(mode):
        return ""
    return "program" if mode & stat.S_IXUSR else "file"


def _stamp(seen: os.stat_result) -> Stamp:
    return (seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino)


def _digest(path: bytes, kind: str) -> str:
    if kind == "link":
        return hashlib.sha256(os.readlink(path)).hexdigest()  # noqa: PTH115 - names are bytes
    digest = hashlib.sha256()
    for chunk in _chunks(path):
        digest.update(chunk)
    return digest.hexdigest()


def _chunks(path: bytes) -> Iterator[bytes]:
    descriptor = os.open(path, _READ)
    try:
        while chunk := os.read(descriptor, _CHUNK):
            yield chunk
    finally:
        os.close(descriptor)


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _has_size(path: bytes, size: int) -> bool:
    """Whether it is there and whole: a power cut may leave a name without the content."""
    try:
        return os.lstat(path).st_size == size
    except FileNotFoundError:
        return False


def _folders(names: Iterable[bytes]) -> list[bytes]:
    """All folders that these files need, outer ones first."""
    found: set[bytes] = set()
    for name in names:
        folder = name.rpartition(b"/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition(b"/")[0]
    return sorted(found)


def _is_folder(base: bytes, folder: bytes, known: dict[bytes, bool]) -> bool:
    """Whether a folder below the root, and all on the way to it, are folders and no links to some."""
    if folder not in known:
        known[folder] = False
        if _is_folder(base, folder.rpartition(b"/")[0], known):
            with suppress(FileNotFoundError):
                known[folder] = stat.S_ISDIR(os.lstat(base + b"/" + folder).st_mode)
    return known[folder]


def _write_whole(path: Path, data: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(data)
    partial.replace(path)


def _read_whole(path: Path, expected: str, what: str) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(f"the list of {what} is gone: {path}: {error.strerror}") from None
    if hashlib.sha256(data).hexdigest() != expected:
        raise StoreError(f"the list of {what} was changed by somebody else: {path}")
    return data
