"""Reports that a test run was asked for, as they would be if it had run in the work tree and not in a clean room."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path, PurePosixPath

from pytest_iterctl.work.mapping import out_of_room

__all__ = ["is_loaded", "lay_reports"]

_MOST_FILES = 5_000
_LARGEST = 64 * 1024 * 1024
_MOST_BYTES = 256 * 1024 * 1024
_DATABASE = b"SQLite format 3\0"
_PATIENCE = 10.0
_STEPS = 10_000  # of SQLite's machine between two looks at the clock
_PROGRAMS = frozenset({".py", ".pyw", ".pyc", ".pyo", ".so", ".pyd", ".pth"})
_OURS = frozenset({".git", ".iterctl"})
_SETTINGS = frozenset({"pyproject.toml", "setup.cfg", "tox.ini", "pytest.ini", "pytest.toml"})


def is_loaded(name: bytes) -> bool:
    """Whether Python or pytest would take it for more than data: no report is called so."""
    path = PurePosixPath(os.fsdecode(name))
    if not _OURS.isdisjoint(path.parts):
        return True  # git's, or our own
    return path.suffix in _PROGRAMS or path.name in _SETTINGS | {f".{each}" for each in _SETTINGS}


def lay_reports(asked: Iterable[str], tree: Path, root: Path, target: Path) -> tuple[bytes, ...]:
    """Write the reports of a run in `tree` to `target`, with the root's paths in them; their names below it.

    `asked` are files and folders. What lies outside of the tree, is linked, loaded, too large or unreadable is passed
    over: it is no reason to judge otherwise.
    """
    found: list[bytes] = []
    left = _MOST_BYTES
    tree = tree.resolve()
    for path in _files(asked, tree):
        name = os.fsencode(path.relative_to(tree))
        place = target / os.fsdecode(name)
        try:
            size = path.lstat().st_size
            if is_loaded(name) or size > _LARGEST or size > left or len(found) >= _MOST_FILES:
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            _write(path, place, tree, root)
        except OSError:
            with suppress(OSError):
                place.unlink(missing_ok=True)
            continue
        left -= size
        found.append(name)
    return tuple(found)


def _files(asked: Iterable[str], tree: Path) -> Iterator[Path]:
    for each in dict.fromkeys(asked):
        path = Path(os.path.normpath(each))
        if not path.is_relative_to(tree) or not Path(os.path.realpath(path)).is_relative_to(tree):
            continue
        # Never the whole tree, whatever a run says that it was asked for.
        inner = sorted(path.rglob("*")) if path.is_dir() and path != tree else [path]
        yield from (one for one in inner if _is_plain(one))


def _is_plain(path: Path) -> bool:
    with suppress(OSError):
        return stat.S_ISREG(path.lstat().st_mode)
    return False


def _write(path: Path, place: Path, tree: Path, root: Path) -> None:
    with path.open("rb") as file:
        is_database = file.read(len(_DATABASE)) == _DATABASE
    if is_database:
        shutil.copyfile(path, place)
        with suppress(sqlite3.Error):  # not what coverage.py writes: it is left as it is
            _map_measured(place, tree, root)
        return
    data = path.read_bytes()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        place.write_bytes(data)
        return
    place.write_bytes(out_of_room(text, root, tree).encode("utf-8"))


def _map_measured(place: Path, tree: Path, root: Path) -> None:
    """The data of coverage.py names each file that it measured. Whoever wrote it, it is only data."""
    end = time.monotonic() + _PATIENCE
    # A journal beside it is gone with the folder, whatever happens.
    with tempfile.TemporaryDirectory(prefix="iterctl-", dir=place.parent) as folder:
        copy = Path(folder, "data")
        shutil.copyfile(place, copy)
        with closing(sqlite3.connect(copy, isolation_level=None)) as database:
            database.set_progress_handler(lambda: int(time.monotonic() > end), _STEPS)
            database.execute("PRAGMA trusted_schema = OFF")
            rows = database.execute("SELECT id, path FROM file").fetchall()
            mapped = [(out_of_room(path, root, tree), number) for number, path in rows if isinstance(path, str)]
            database.execute("BEGIN")
            database.executemany("UPDATE file SET path = ? WHERE id = ?", mapped)
            database.execute("COMMIT")
        copy.replace(place)
