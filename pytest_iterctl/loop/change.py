"""What an agent has changed since the base, sorted: what is judged, what is left out and why, which tests are new."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from pytest_iterctl.control.evidence import LeftOut
from pytest_iterctl.control.state import TaskState
from pytest_iterctl.gate.protected import Protection
from pytest_iterctl.loop.base import Base, Bases
from pytest_iterctl.text import file_name
from pytest_iterctl.work.interpreter import installed_folders, top_level_modules
from pytest_iterctl.work.room import Contribution, contribution
from pytest_iterctl.work.vault import Kept, Manifest

__all__ = ["GONE", "SortedChange", "sorted_change", "sources_of"]

#: In the list of what was judged: a base file that the change takes away.
GONE = Kept("0" * 64, "gone")

_DATA = frozenset({".json", ".csv", ".tsv", ".yaml", ".yml", ".ini", ".cfg", ".toml", ".txt", ".dat"})


@dataclass(frozen=True, slots=True)
class SortedChange:
    """One change, as the gate sees it."""

    contribution: Contribution
    left_out: tuple[LeftOut, ...]
    new_tests: Manifest
    permitted: tuple[str, ...]  # tests that the task may change, and that changed
    undone: Mapping[bytes, Kept]  # protected files that differ, as they were; what was not there is GONE
    protection: Protection

    @property
    def names(self) -> tuple[str, ...]:
        """The files that are judged and differ from the base, those that are gone among them."""
        laid = (os.fsdecode(name) for name in self.contribution.laid.files)
        return tuple(sorted((*laid, *(os.fsdecode(name) for name in self.contribution.removed))))

    @property
    def protected_edits(self) -> tuple[str, ...]:
        return tuple(each.path for each in self.left_out if each.protected)

    @property
    def is_empty(self) -> bool:
        return not self.contribution.laid.files and not self.contribution.removed

    def accepted(self) -> Manifest:
        """What makes the accepted result of the base: files that are laid over it, and files that are gone."""
        gone = dict.fromkeys(self.contribution.removed, GONE)
        return Manifest(MappingProxyType({**gone, **self.contribution.laid.files, **self.new_tests.files}))


def sorted_change(bases: Bases, base: Base, task: TaskState) -> SortedChange:
    """Names of new files come from git, those of others from a look at each; contents from the work tree itself."""
    vault, root = bases.vault, bases.root
    changed, gone = vault.changed(root, base.manifest, base.stamps)
    changed = tuple(name for name in changed if name not in base.written)
    told = bases.snapshots.names(task.latest) if task.latest else ()
    new = [name for name in told if name not in base.manifest.files and name not in base.written]
    after = vault.keep(root, dict.fromkeys((*changed, *new)))
    differing = {name: kept for name, kept in after.files.items() if base.manifest.files.get(name) != kept}
    broken = task.proof.broken if task.proof is not None else ()
    protection = bases.protection(task, base, (*task.settings.may_change, *task.released, *broken))
    strict = bases.protection(task, base, ())

    def content(kept: Kept | None) -> bytes | None:
        return vault.content(kept) if kept is not None and kept.kind != "link" else None

    def keeps(guard: Protection, path: str) -> bool:
        name = os.fsencode(path)
        return guard.keeps(path, content(base.manifest.files.get(name)), content(differing.get(name)))

    folders, _ = installed_folders(base.facts, root) if "prefix" in base.facts else ((), ())
    own = {_module(name) for name in base.manifest.files}
    sorted_out = contribution(
        base.manifest,
        Manifest(MappingProxyType(differing)),
        gone,
        is_protected=lambda path: keeps(protection, path),
        installed=top_level_modules(folders) - own,
        target_of=vault.content,
        roots=_import_roots(bases, base),
        tests=[path for name in base.manifest.files if protection.is_protected(path := os.fsdecode(name))],
    )
    added = {
        name: kept
        for name, kept in differing.items()
        if name not in base.manifest.files
        and name not in sorted_out.laid.files
        and kept.kind != "link"
        and not os.fsdecode(name).endswith((".pyc", ".pyo", ".pth"))
        and protection.is_new_test(os.fsdecode(name))
        and not (not protection.is_test(os.fsdecode(name)) and _stem(name) in own)
    }
    shown = {file_name(name) for name in added}
    left_out = tuple(
        LeftOut(
            path=each.name, reason=_reason(each.reason, protection, each.name), protected="protected" in each.reason
        )
        for each in sorted_out.left_out
        if each.name not in shown
    )
    hidden = "is hidden from git, and would be loaded before the tests"
    left_out += tuple(LeftOut(path=file_name(name), reason=hidden, protected=True) for name in bases.planted(task.id))
    laid = [os.fsdecode(name) for name in (*sorted_out.laid.files, *sorted_out.removed)]
    permitted = tuple(sorted(path for path in laid if keeps(strict, path)))
    undone = {
        name: base.manifest.files.get(name, GONE)
        for name in (*differing, *gone)
        if name not in added and keeps(protection, os.fsdecode(name))
    }
    return SortedChange(sorted_out, left_out, Manifest(MappingProxyType(added)), permitted, undone, protection)


def _import_roots(bases: Bases, base: Base) -> set[str]:
    """The folders of the work tree where the interpreter of the tests looks for modules."""
    path = base.facts.get("path")
    entries = [Path(entry) for entry in path if isinstance(entry, str)] if isinstance(path, list) else []
    root = bases.root.resolve()
    inside = {str(entry.relative_to(root)) for entry in entries if entry.is_relative_to(root)}
    return {".", "src", *inside}


def _reason(reason: str, protection: Protection, path: str) -> str:
    why = protection.why(path) if "protected" in reason else ""
    return f"{reason}: {why}" if why else reason


def _stem(name: bytes) -> str:
    """What a helper beside tests is imported as, since pytest puts their folder on the path."""
    return PurePosixPath(os.fsdecode(name)).stem


def _module(name: bytes) -> str:
    parts = PurePosixPath(os.fsdecode(name)).parts
    inner = parts[1:] if parts[0] == "src" and len(parts) > 1 else parts
    return inner[0].removesuffix(".py")


def sources_of(bases: Bases, manifest: Manifest, paths: Iterable[str] | None = None) -> Mapping[str, bytes]:
    """Contents of the program and data files of a manifest, for whoever reads them as text."""
    wanted = None if paths is None else {os.fsencode(path) for path in paths}
    found = {}
    for name, kept in manifest.files.items():
        path = os.fsdecode(name)
        if kept.kind == "link" or (wanted is not None and name not in wanted):
            continue
        if path.endswith((".py", ".pyw")) or (wanted is not None and PurePosixPath(path).suffix in _DATA):
            found[path] = bases.vault.content(kept)
    return found
