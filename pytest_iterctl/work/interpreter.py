"""What is installed where the tests run, so that a change of it by an agent is seen.

An agent may write to the interpreter's folders as well as to the work tree, and a clean room runs with that very
interpreter. Contents are not read: whoever changes a file also moves its change time, which nobody can set back. Only
of files with several names the content counts: an installer that links files from its cache moves the change time of
all of them whenever it installs the same package somewhere else.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from pytest_iterctl.errors import StoreError
from pytest_iterctl.text import file_name

__all__ = ["Facts", "Fingerprint", "difference", "installed_folders", "take", "top_level_modules"]

#: Size, time of the content, time of the change, inode; or, in words, what is there in place of a regular file.
Facts = tuple[int, int, int, int] | str

_MISSING = "missing"
_FOLDER = "folder"
_LINK = "link to "
_CONTENT = "content "
_UNREADABLE = "unreadable"
_SPECIAL = "no regular file"

#: Runs in a room have a bytecode folder of their own and never look in here.
_BYTECODE_FOLDER = "__pycache__"
#: No Python since 3.5 reads them. A `.pyc` beside the modules is no such thing: it is imported like a source.
_NEVER_READ = ".pyo"
_PACKAGE_FOLDERS = frozenset({"site-packages", "dist-packages"})
_MODULE_SUFFIXES = (".py", ".pyc", ".so", ".pyd")
_FRAMEWORK = frozenset({"pytest", "_pytest", "pluggy"})
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm", "/run/user")  # noqa: S108 - nothing is written there


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Each installed file by its whole name, with what tells whether it is still the same."""

    files: Mapping[str, Facts] = field(default_factory=lambda: MappingProxyType({}))

    def digest(self) -> str:
        """One name for all of it, for the journal."""
        return hashlib.sha256(self._data()).hexdigest()

    def write(self, path: Path) -> None:
        partial = path.with_name(path.name + ".partial")
        partial.write_bytes(self._data())
        partial.replace(path)

    @classmethod
    def read(cls, path: Path, expected_digest: str) -> Fingerprint:
        """The fingerprint that was written there; StoreError if it is another one."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise StoreError(f"the list of installed files is gone: {path}: {error.strerror}") from None
        if hashlib.sha256(data).hexdigest() != expected_digest:
            raise StoreError(f"the list of installed files was changed by somebody else: {path}")
        files: dict[str, Facts] = {}
        for name, facts in json.loads(data).items():
            files[name] = facts if isinstance(facts, str) else (facts[0], facts[1], facts[2], facts[3])
        return cls(MappingProxyType(files))

    def _data(self) -> bytes:
        return json.dumps(dict(self.files), sort_keys=True, separators=(",", ":")).encode("ascii")


def take(folders: Iterable[Path], files: Iterable[Path] = (), *, like: Fingerprint | None = None) -> Fingerprint:
    """What is there now, everything below the folders included. What is missing may appear later, so it is noted too.

    `like` is an earlier one to compare with: a file whose content was noted there has its content noted again.

    A folder that is a link is looked into, because an import would be; links further down are noted by their target.
    """
    found: dict[str, Facts] = {}
    given = _once(folders)
    read = frozenset(name for name, facts in like.files.items() if _is_content(facts)) if like else frozenset()
    for folder in given:
        found[folder] = _facts(folder, read)
        if os.path.isdir(folder):  # noqa: PTH112 - names stay the system's strings: a Path for each costs more than stat
            _look_into(folder, given, found, read)
    for file in files:
        found.setdefault(str(file), _facts(str(file), read))
    return Fingerprint(MappingProxyType(found))


def difference(old: Fingerprint, new: Fingerprint, most: int = 20) -> tuple[str, ...]:
    """What became of the installed files, a line for each, what runs by itself first; a last line counts the rest."""
    lines = []
    for name in old.files.keys() | new.files.keys():
        before, after = old.files.get(name, _MISSING), new.files.get(name, _MISSING)
        if before != after:
            word = "added" if before == _MISSING else "removed" if after == _MISSING else "changed"
            lines.append((_importance(name), name, f"{word} {_shown(name)}"))
    lines.sort()
    shown = tuple(line for _, _, line in lines[:most])
    return (*shown, f"and {len(lines) - most} more") if len(lines) > most else shown


def installed_folders(facts: Mapping[str, object], root: Path) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """The folders and the single files that make up the interpreter of a test run, from what the run said about itself.

    `facts` has `prefix`, `base_prefix`, `executable` and `path`. The work tree's own folders and those above it are no
    part of it, and neither are temporary folders that tests put on the path. An interpreter may live in either.
    """
    prefix, base = _absolute(facts.get("prefix")), _absolute(facts.get("base_prefix"))
    homes = tuple(home for home in (prefix, base) if home)
    folders: dict[str, None] = {}
    files: dict[str, None] = {}
    entries = facts.get("path")
    for entry in map(_absolute, entries if isinstance(entries, list | tuple) else ()):
        if entry and _is_installed(entry, os.path.realpath(root), prefix, homes):
            # Anything but a folder is a zip file, or nothing yet.
            (folders if os.path.isdir(entry) else files)[entry] = None  # noqa: PTH112 - as in `take`
    if prefix:
        folders[f"{prefix.rstrip('/')}/bin"] = None
        files[f"{prefix.rstrip('/')}/pyvenv.cfg"] = None
    if executable := _absolute(facts.get("executable")):
        files[executable] = None
        files[os.path.realpath(executable)] = None
    return tuple(map(Path, folders)), tuple(map(Path, files))


def top_level_modules(folders: Iterable[Path]) -> frozenset[str]:
    """The names under which what is installed is imported, as far as names of files tell.

    Only folders called `site-packages` or `dist-packages` are looked into: the standard library is known anyway.
    """
    found: set[str] = set()
    for folder in folders:
        if folder.name in _PACKAGE_FOLDERS and folder.is_dir():
            with os.scandir(folder) as entries:
                found.update(_module(entry) for entry in entries)
    return frozenset(name for name in found if name.isidentifier() and name != _BYTECODE_FOLDER)


def _once(folders: Iterable[Path]) -> frozenset[str]:
    """Without what is another one by a second name (`lib64`)."""
    found: dict[str, str] = {}
    for folder in sorted({str(folder) for folder in folders}):
        found.setdefault(os.path.realpath(folder), folder)
    return frozenset(found.values())


def _look_into(folder: str, given: frozenset[str], found: dict[str, Facts], read: frozenset[str]) -> None:
    """Folders that were given are looked into on their own account.

    The packages that lie below a standard library belong to another environment unless they were given too. Of another
    project's sources, which an editable install has put on the path, only modules count: its tools keep caches there.
    """
    sources = not _is_library(folder)
    waiting = [folder]
    while waiting:
        place = waiting.pop()
        others = _PACKAGE_FOLDERS if place == folder else ()
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if sources and entry.name.startswith("."):
                            continue
                        if entry.name != _BYTECODE_FOLDER and entry.name not in others and entry.path not in given:
                            waiting.append(entry.path)
                    elif sources and not entry.name.endswith((*_MODULE_SUFFIXES, ".pth")):
                        continue
                    elif not entry.name.endswith(_NEVER_READ):
                        found[entry.path] = _facts_of_entry(entry, read)
        except FileNotFoundError:
            continue  # gone while we looked: the next look says so
        except OSError:
            found[place] = _UNREADABLE


def _is_library(folder: str) -> bool:
    """Whether a folder is where packages are installed, the standard library, or where programs lie."""
    parts = folder.split("/")
    named = not _PACKAGE_FOLDERS.isdisjoint(parts) or any(part.startswith("python3") for part in parts)
    return named or parts[-1] in {"bin", "lib-dynload"}


def _facts_of_entry(entry: os.DirEntry[str], read: frozenset[str]) -> Facts:
    try:
        if entry.is_symlink():
            return _LINK + os.readlink(entry.path)  # noqa: PTH115 - as in `take`
        return _stamp(entry.path, entry.stat(follow_symlinks=False), read)
    except FileNotFoundError:
        return _MISSING


def _facts(path: str, read: frozenset[str]) -> Facts:
    try:
        seen = os.lstat(path)
        if stat.S_ISLNK(seen.st_mode):
            return _LINK + os.readlink(path)  # noqa: PTH115 - as in `take`
        return _stamp(path, seen, read)
    except (FileNotFoundError, NotADirectoryError):
        return _MISSING
    except OSError:
        return _UNREADABLE


def _content(path: str) -> Facts:
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - as in `take`
            return _CONTENT + hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return _UNREADABLE


def _is_content(facts: Facts) -> bool:
    return isinstance(facts, str) and facts.startswith(_CONTENT)


def _stamp(path: str, seen: os.stat_result, read: frozenset[str]) -> Facts:
    if stat.S_ISREG(seen.st_mode):
        if seen.st_nlink > 1 or path in read:
            return _content(path)
        return (seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino)
    # A folder's own times change with every bytecode file that somebody leaves in it.
    return _FOLDER if stat.S_ISDIR(seen.st_mode) else _SPECIAL


def _absolute(value: object) -> str:
    """A path that means the same from everywhere; '' for anything else."""
    is_path = isinstance(value, str) and value.startswith("/") and "\0" not in value
    return os.path.normpath(value) if is_path and isinstance(value, str) else ""


def _is_installed(entry: str, root: str, prefix: str, homes: tuple[str, ...]) -> bool:
    real = os.path.realpath(entry)
    if _is_below(root, real) or real == root:
        return False  # holds the work tree: pytest puts the folder above a package on the path
    if _is_below(real, root):
        home = os.path.realpath(prefix) if prefix else ""
        within = home == root and not _PACKAGE_FOLDERS.isdisjoint(real.split("/"))
        return within or (_is_below(home, root) and (real == home or _is_below(real, home)))
    if any(real == os.path.realpath(home) or _is_below(real, os.path.realpath(home)) for home in homes):
        return True
    return not any(_is_below(real, os.path.realpath(place)) for place in (*_TEMPORARY, tempfile.gettempdir()))


def _is_below(path: str, folder: str) -> bool:
    return path != folder and path.startswith(folder.rstrip("/") + "/")


def _importance(name: str) -> int:
    parts = name.split("/")
    last = parts[-1]
    if last.endswith(".pth"):
        return 0
    if last.startswith(("sitecustomize.", "usercustomize.")) or last == "pyvenv.cfg":
        return 1
    if last == "entry_points.txt":
        return 2
    return 3 if not _FRAMEWORK.isdisjoint((*parts, last.partition(".")[0])) else 4


def _shown(name: str) -> str:
    parts = name.split("/")
    start = max((place for place, part in enumerate(parts) if part in _PACKAGE_FOLDERS), default=0)
    return file_name(os.fsencode("/".join(("…", *parts[start:])) if start else name))


def _module(entry: os.DirEntry[str]) -> str:
    """The name that an entry is imported by; '' for what can't be."""
    if entry.is_dir():
        return entry.name if _holds_modules(entry.path) else ""
    return entry.name.partition(".")[0] if entry.name.endswith(_MODULE_SUFFIXES) else ""


def _holds_modules(folder: str, deeper: int = 1) -> bool:
    """A package, or the common part of several; packagers also leave folders with nothing but texts behind."""
    try:
        with os.scandir(folder) as entries:
            inner = list(entries)
    except OSError:
        return False
    if any(entry.name.endswith(_MODULE_SUFFIXES) for entry in inner):
        return True
    return deeper > 0 and any(
        _holds_modules(entry.path, deeper - 1) for entry in inner if entry.is_dir() and entry.name != _BYTECODE_FOLDER
    )
