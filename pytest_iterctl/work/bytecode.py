"""Bytecode of installed packages for a clean room, which would otherwise compile half the standard library anew.

A room has a folder for bytecode of its own, and an agent must not be able to put anything there. So what is taken from
beside the installed sources is only what was there before the first agent came: its change time says so, and nobody can
set that back. Python itself checks that it belongs to its source.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

__all__ = ["lay_installed"]

_FOLDER = "__pycache__"
_HEADER = 16
_FLAGS = slice(4, 8)  # of the header
#: Compared with the time and size of the source, or with its hash. Any other claims not to need a comparison.
_COMPARED = (0, 3)


def lay_installed(compiled: Iterable[str], folders: Iterable[Path], prefix: Path, *, before: int) -> int:
    """Copy bytecode of modules below these folders to where Python looks with `prefix`; returns how many files.

    `before`: nanoseconds since the epoch. What was changed later is left out, and compiled anew when it is needed.
    """
    places = tuple(os.path.join(folder, "") for folder in folders)  # noqa: PTH118 - compared as text
    wanted: dict[Path, set[str]] = {}
    for path in map(Path, compiled):
        if path.parent.name == _FOLDER and ".." not in path.parts and str(path).startswith(places):
            wanted.setdefault(path.parent, set()).add(path.stem)
    count = 0
    for folder, stems in wanted.items():
        target = prefix / folder.parent.relative_to("/")
        with suppress(OSError):  # it is only slower without
            target.mkdir(parents=True, exist_ok=True)
            for path in folder.glob("*.pyc"):
                # What pytest has made of a plugin's asserts lies beside it, with pytest's version in its name.
                if path.stem.partition("-pytest-")[0] in stems:
                    count += _copy(path, target / path.name, before)
    return count


def _copy(path: Path, target: Path, before: int) -> bool:
    if not _is_trusted(path, before):
        return False
    shutil.copyfile(path, target, follow_symlinks=False)
    return True


def _is_trusted(path: Path, before: int) -> bool:
    seen = os.lstat(path)
    if not stat.S_ISREG(seen.st_mode) or seen.st_ctime_ns >= before:
        return False
    with path.open("rb") as file:
        return int.from_bytes(file.read(_HEADER)[_FLAGS], "little") in _COMPARED
