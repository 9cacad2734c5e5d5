"""A clean room: a fresh folder with the base's files and, over them, only what an agent's change may contribute.

What is left out is named with its reason. Neither caches nor compiled files of the work tree are in there, and nothing
that Python or pytest would pick up by itself before any test runs.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from pytest_iterctl.text import file_name
from pytest_iterctl.work.vault import Kept, Manifest, Vault

__all__ = ["Contribution", "LeftOut", "Room", "bytecode_of", "contribution", "open_room"]

#: Top-level modules that decide how tests run; one of that name in the tree would be imported in their place.
_FRAMEWORK = frozenset({"pytest", "_pytest", "pluggy", "py", "iniconfig", "packaging", "pygments", "exceptiongroup"})
_STARTED_BY_PYTHON = frozenset({"sitecustomize.py", "usercustomize.py"})
_METADATA = (".dist-info", ".egg-info")
_COMPILED = (".pyc", ".pyo", ".so", ".pyd")
_SCRATCH, _PREFIX = "tmp", "it-"
#: When the sources of a room were written, as far as Python is told.
_DATE = 1_000_000_000


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file of the change that is not in the room, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a change puts into a room, takes out of it, and leaves outside."""

    laid: Manifest
    removed: frozenset[bytes]
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True, slots=True)
class Room:
    """Where the tests run (`tree`), and the folders of their own that they get."""

    tree: Path
    home: Path
    scratch: Path
    bytecode: Path

    @property
    def outer(self) -> Path:
        return self.tree.parent

    def variables(self) -> dict[str, str]:
        """What makes a process at home here and nowhere else."""
        return {
            # A repository around the folder of states is none of the tests' business.
            "GIT_CEILING_DIRECTORIES": str(self.outer),
            "HOME": str(self.home),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_DATA_HOME": str(self.home / ".local/share"),
            "XDG_STATE_HOME": str(self.home / ".local/state"),
            "TMPDIR": str(self.scratch),
            "PYTHONPYCACHEPREFIX": str(self.bytecode),
            # Where it is set, as in many containers, every run would compile everything again.
            "PYTHONDONTWRITEBYTECODE": "",
        }


def contribution(
    base: Manifest,
    changed: Manifest,
    gone: Iterable[bytes],
    *,
    is_protected: Callable[[str], bool],
    installed: frozenset[str] = frozenset(),
    target_of: Callable[[Kept], bytes] | None = None,
    roots: Iterable[str] = (".", "src"),
    tests: Iterable[str] = (),
) -> Contribution:
    """Sort a change: `changed` are the files that are new or different, `gone` those that are no more.

    `installed` are the top-level modules of the interpreter that runs the tests, `roots` the folders of the tree where
    it looks for modules; `tests` the files that are protected. `target_of` says where a link leads;
    only links that stay in the tree are laid, and none where nobody can say.
    """
    of_tests = _modules_of(tests)
    laid: dict[bytes, Kept] = {}
    left_out: list[LeftOut] = []
    folders = {PurePosixPath(root).parts for root in roots}
    for name, kept in sorted(changed.files.items()):
        reason = _objection(name, is_protected=is_protected)
        if not reason and name not in base.files:
            reason = _shadowed(PurePosixPath(os.fsdecode(name)), installed, folders, of_tests)
        if not reason and kept.kind == "link":
            reason = _objection_to_link(name, target_of(kept) if target_of is not None else b"/")
        if reason:
            left_out.append(LeftOut(file_name(name), reason))
        else:
            laid[name] = kept
    removed = set()
    for name in sorted(gone):
        if is_protected(os.fsdecode(name)):
            left_out.append(LeftOut(file_name(name), "was removed, and is protected"))
        else:
            removed.add(name)
    return Contribution(Manifest(MappingProxyType(laid)), frozenset(removed), tuple(left_out))


@contextmanager
def open_room(
    vault: Vault,
    base: Manifest,
    change: Contribution,
    place: Path,
    *,
    name: str = "tree",
    also: Manifest | None = None,
    bytecode: Manifest | None = None,
) -> Iterator[Room]:
    """A room below `place`, gone again at the end. The folder around the tree is ours too: pytest looks there.

    The tree's folder is called `name`, since a package may be called after it. `also` is laid over everything else,
    `bytecode` is what Python may find compiled already, made of the base and of installed packages by a run that can be
    trusted. The room always lies in the same place, since bytecode belongs to a path: one at a time. What it compiles
    lies beside it and stays, for the next room to take out what does not belong there.
    """
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    outer = place / "room"
    if outer.exists() or outer.is_symlink():
        _clear_left_behind(outer)
    outer.mkdir(mode=0o700)
    scratch: Path | None = None
    try:
        around = "around" if name in {"home", _SCRATCH} else ""
        # Sockets have short names, and folders of state long ones: temporary files lie where others do.
        scratch = Path(tempfile.mkdtemp(prefix=_PREFIX))
        (outer / _SCRATCH).symlink_to(scratch)
        room = Room(outer / around / name, outer / "home", scratch, place / "bytecode")
        for folder in (room.tree, room.home):
            folder.mkdir(mode=0o700, parents=True)
        files = _put_together(base, change)
        if also is not None:
            files = _put_together(Manifest(MappingProxyType(dict(files))), Contribution(also, frozenset(), left_out=()))
        vault.lay(Manifest(MappingProxyType(dict(files))), room.tree, dated=_DATE)
        _lay_bytecode(vault, _still_good(bytecode or Manifest(), base, files, room), room.bytecode)
        yield room
    finally:
        _clear(outer)
        if scratch is not None:
            _clear(scratch)


def _lay_bytecode(vault: Vault, manifest: Manifest, folder: Path) -> None:
    if folder.is_symlink():
        folder.unlink()
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        vault.lay_again(manifest, folder)
    except OSError:
        # The code that ran in the room before may have made anything of it.
        _clear(folder)
        folder.mkdir(mode=0o700)
        vault.lay(manifest, folder)


def bytecode_of(room: Room, source: bytes) -> bytes:
    """How the names of what Python compiles of a source of the tree begin, below the room's folder for bytecode."""
    tree = os.fsencode(room.tree).lstrip(b"/")
    return tree + b"/" + source.removesuffix(b".py") + b"."


def _still_good(bytecode: Manifest, base: Manifest, files: Mapping[bytes, Kept], room: Room) -> Manifest:
    """Without what was compiled of sources that are others in this room: their size and time might be the same."""
    changed = {name for name in base.files.keys() | files.keys() if base.files.get(name) != files.get(name)}
    stale = tuple(bytecode_of(room, name) for name in changed if name.endswith(b".py"))
    kept = {name: kept for name, kept in bytecode.files.items() if not stale or not name.startswith(stale)}
    return Manifest(MappingProxyType(kept))


def _clear_left_behind(outer: Path) -> None:
    """The room of a driver that was killed, and the temporary folder that belongs to it."""
    link = outer / _SCRATCH
    if link.is_symlink():
        scratch = link.readlink()
        if scratch.parent == Path(tempfile.gettempdir()) and scratch.name.startswith(_PREFIX):
            _clear(scratch)
    _clear(outer)


def _clear(folder: Path) -> None:
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        # Folders that tests have closed to everybody.
        for inner, _, _ in os.walk(folder):
            Path(inner).chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)


def _put_together(base: Manifest, change: Contribution) -> Mapping[bytes, Kept]:
    files = {name: kept for name, kept in base.files.items() if name not in change.removed}
    for name in change.laid.files:
        # A file in the place of a folder, or the other way round: what the change says is what there is.
        for other in _in_the_way(name, files):
            del files[other]
    return files | dict(change.laid.files)


def _in_the_way(name: bytes, files: Mapping[bytes, Kept]) -> list[bytes]:
    parents = {os.fsencode(str(parent)) for parent in PurePosixPath(os.fsdecode(name)).parents}
    above = [parent for parent in parents if parent in files]
    return above or ([other for other in files if other.startswith(name + b"/")] if name not in files else [])


def _objection(name: bytes, *, is_protected: Callable[[str], bool]) -> str:
    path = PurePosixPath(os.fsdecode(name))
    if is_protected(str(path)):
        return "is protected"
    if path.suffix in _COMPILED or "__pycache__" in path.parts:
        return "is compiled code, which would be run in place of its source"
    if path.suffix == ".pth" or path.name in _STARTED_BY_PYTHON:
        return "is run by Python before anything else"
    if any(part.endswith(_METADATA) for part in path.parts):
        return "is metadata of an installed package, which could register a plugin"
    return ""


def _objection_to_link(name: bytes, target: bytes) -> str:
    if _leads_out(name, target):
        return "is a link that leads out of the tree"
    is_module = name.endswith((b".py", b".pyw")) or target.endswith((b".py", b".pyw"))
    return "is a link in the place of a program" if is_module else ""


def _leads_out(name: bytes, target: bytes) -> bool:
    """Whether a link's target is anywhere but below the root, as far as its text says."""
    if target.startswith(b"/"):
        return True
    whole = os.path.normpath(os.path.join(os.path.dirname(name), target))  # noqa: PTH118, PTH120 - names are bytes
    return whole.split(b"/")[0] in {b"..", b".git"}


def _modules_of(tests: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """What the files of tests can be imported as, with where the top of each lies."""
    found: dict[str, set[str]] = {}
    for path in (PurePosixPath(each) for each in tests):
        if path.suffix == ".py":
            found.setdefault(path.stem, set()).add(str(path.parent / path.stem))
            # Any of the folders on the way may be on the path, with the next one as a package.
            for number, part in enumerate(path.parts[:-1]):
                found.setdefault(part, set()).add("/".join(path.parts[: number + 1]))
    return {name: frozenset(places) for name, places in found.items()}


def _shadowed(
    path: PurePosixPath,
    installed: frozenset[str],
    folders: Iterable[tuple[str, ...]],
    of_tests: Mapping[str, frozenset[str]],
) -> str:
    """A new module that would be found before the one that everybody means."""
    for folder in folders:
        inner = path.parts[len(folder) :]
        if path.parts[: len(folder)] != folder or not inner:
            continue
        if len(inner) == 1 and path.suffix != ".py":
            continue
        module = inner[0].removesuffix(".py").partition(".")[0]
        if module in sys.stdlib_module_names or module in _FRAMEWORK or module in installed:
            return f"would be imported in place of {module}"
        place = "/".join((*folder, module))
        if module != "__init__" and place not in of_tests.get(module, frozenset({place})):
            return f"would be imported in place of the tests' {module}"
    return ""
