"""What the work tree holds beside all snapshots: ignored files, those that are too large, empty folders.

No clean room has it, so a change of it explains why tests pass in the work tree alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from pytest_iterctl.control.evidence import LeftOut
from pytest_iterctl.text import file_name
from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.snapshots import Snapshots

__all__ = ["Outside"]

_MOST_FILES = 2000


@dataclass(frozen=True, slots=True)
class Outside:
    """Names end in a slash where they stand for a folder. `stamps` are size and time of what is not too many files."""

    folders: frozenset[bytes]
    large: frozenset[bytes]
    stamps: Mapping[bytes, tuple[int, int]]

    @classmethod
    def seen(cls, repository: Repository, snapshots: Snapshots, ignored: Iterable[bytes]) -> Outside:
        """As it is now; `ignored` are the names of what git ignores and nobody thinks to be a cache."""
        listed = repository.git("ls-files", "-z", "-o", "--exclude-standard", "--directory").split(b"\0")
        large = frozenset(snapshots.too_large())
        stamps: dict[bytes, tuple[int, int]] = {}
        for name in sorted({*ignored, *large}):
            files = tuple(islice(_files(repository.root, name), _MOST_FILES - len(stamps) + 1))
            if len(stamps) + len(files) > _MOST_FILES:
                continue
            for file in files:
                with suppress(OSError):
                    status = os.lstat(os.fsencode(repository.root) + b"/" + file)
                    stamps[file] = (status.st_size, status.st_mtime_ns)
        folders = (name for name in listed if name.endswith(b"/") and not any(_files(repository.root, name)))
        return cls(frozenset(folders), large, MappingProxyType(stamps))

    def since(self, before: Outside) -> tuple[LeftOut, ...]:
        """What has come or changed, the likeliest reason for anything first."""
        large = sorted(self.large - before.large)
        changed = sorted(name for name, stamp in self.stamps.items() if before.stamps.get(name, stamp) != stamp)
        told = [
            *((name, "is too large for a snapshot") for name in large),
            *((name, "was changed, and no snapshot holds it") for name in changed),
            *((name, "is an empty folder") for name in sorted(self.folders - before.folders)),
        ]
        return tuple(LeftOut(path=file_name(name), reason=reason) for name, reason in told)

    def document(self) -> bytes:
        return json.dumps(
            {
                "folders": sorted(map(os.fsdecode, self.folders)),
                "large": sorted(map(os.fsdecode, self.large)),
                "stamps": {os.fsdecode(name): stamp for name, stamp in sorted(self.stamps.items())},
            }
        ).encode()

    @classmethod
    def of_document(cls, data: bytes) -> Outside:
        found = json.loads(data)
        return cls(
            frozenset(map(os.fsencode, found["folders"])),
            frozenset(map(os.fsencode, found["large"])),
            MappingProxyType({os.fsencode(name): (stamp[0], stamp[1]) for name, stamp in found["stamps"].items()}),
        )


def _files(root: Path, name: bytes) -> Iterator[bytes]:
    """The file of this name, or all that are in the folder."""
    base = os.fsencode(root) + b"/"
    if not name.endswith(b"/"):
        yield name
        return
    for folder, _, files in os.walk(base + name):
        yield from (os.path.join(folder, file)[len(base) :] for file in files)  # noqa: PTH118 - names are bytes
