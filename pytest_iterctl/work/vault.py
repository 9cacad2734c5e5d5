"""Files of the work tree as they were at one moment, kept by content where agents do not work.

A clean room is built from here, never from the work tree's own `.git`: replaced objects, filters, hooks and moved refs
must not matter. Contents are raw, so what a filter makes of a file on checkout is what is kept. Each file is named by
the hash of what it holds, and checked against it again when it is taken out.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from pytest_iterctl.errors import RepositoryError, StoreError
from pytest_iterctl.text import file_name

__all__ = ["Kept", "Manifest", "Vault"]

_CHUNK = 1024 * 1024
_HEX = frozenset("0123456789abcdef")
_DIGEST = 64


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
        partial = path.with_name(path.name + ".partial")
        partial.write_bytes(self._lines())
        partial.replace(path)

    @classmethod
    def read(cls, path: Path, expected: str) -> Manifest:
        """The manifest that was written there; StoreError if it is another one."""
        try:
            lines = path.read_bytes()
        except OSError as error:
            raise StoreError(f"the list of base files is gone: {path}: {error.strerror}") from None
        if hashlib.sha256(lines).hexdigest() != expected:
            raise StoreError(f"the list of base files was changed by somebody else: {path}")
        files = {}
        for line in lines.splitlines():
            name, digest, kind = json.loads(line)
            files[os.fsencode(name)] = Kept(digest, kind)
        return cls(MappingProxyType(files))

    def _lines(self) -> bytes:
        rows = ([os.fsdecode(name), kept.digest, kept.kind] for name, kept in sorted(self.files.items()))
        return b"".join(json.dumps(row).encode("ascii") + b"\n" for row in rows)


class Vault:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def keep(self, root: Path, names: Iterable[bytes]) -> Manifest:
        """Keep what is there now under these names; names of what is no file or link are left out."""
        base = os.fsencode(root)
        files = {}
        for name in names:
            kept = self._keep(base + b"/" + name)
            if kept is not None:
                files[name] = kept
        return Manifest(MappingProxyType(files))

    def lay(self, manifest: Manifest, folder: Path) -> None:
        """Write the files into a folder. Links are made only after all files: nothing is written through one."""
        base = os.fsencode(folder)
        made: set[bytes] = set()
        links = []
        for name, kept in manifest.files.items():
            place = base + b"/" + name
            parent = os.path.dirname(place)  # noqa: PTH120 - names are bytes
            if parent not in made:
                os.makedirs(parent, exist_ok=True)  # noqa: PTH103 - names are bytes
                made.add(parent)
            if kept.kind == "link":
                links.append((place, kept))
            else:
                self._take_out(kept, place)
        for place, kept in links:
            os.symlink(self.content(kept), place)  # noqa: PTH211 - names are bytes

    def content(self, kept: Kept) -> bytes:
        data = self._place(kept).read_bytes()
        if hashlib.sha256(data).hexdigest() != kept.digest:
            raise self._changed(kept)
        return data

    def _keep(self, path: bytes) -> Kept | None:
        try:
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                return self._store(os.readlink(path), "link")  # noqa: PTH115 - names are bytes
            if not stat.S_ISREG(mode):
                return None
            kind = "program" if mode & stat.S_IXUSR else "file"
            with open(path, "rb") as stream:  # noqa: PTH123 - names are bytes
                if os.fstat(stream.fileno()).st_size <= _CHUNK:
                    return self._store(stream.read(), kind)
            return self._store_large(path, kind)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RepositoryError(f"{file_name(path)} can't be kept for the clean room: {error.strerror}") from None

    def _store(self, data: bytes, kind: str) -> Kept:
        kept = Kept(hashlib.sha256(data).hexdigest(), kind)
        place = self._place(kept)
        if not place.exists():
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial = place.with_name(place.name + ".partial")
            partial.write_bytes(data)
            partial.replace(place)
        return kept

    def _store_large(self, path: bytes, kind: str) -> Kept:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = self.directory / "large.partial"
        digest = hashlib.sha256()
        with open(path, "rb") as source, partial.open("wb") as target:  # noqa: PTH123 - names are bytes
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                target.write(chunk)
        kept = Kept(digest.hexdigest(), kind)
        place = self._place(kept)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial.replace(place)
        return kept

    def _take_out(self, kept: Kept, place: bytes) -> None:
        source = self._place(kept)
        digest = hashlib.sha256()
        mode = 0o755 if kept.kind == "program" else 0o644
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with source.open("rb") as stream, os.fdopen(descriptor, "wb") as target:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
                target.write(chunk)
        if digest.hexdigest() != kept.digest:
            raise self._changed(kept)

    def _place(self, kept: Kept) -> Path:
        if len(kept.digest) != _DIGEST or not _HEX.issuperset(kept.digest):
            raise StoreError(f"{kept.digest[:80]!r} is no name of a kept file")
        return self.directory / kept.digest[:2] / kept.digest[2:]

    def _changed(self, kept: Kept) -> StoreError:
        return StoreError(f"a kept file was changed by somebody else: {self._place(kept)}")

    def clear(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
