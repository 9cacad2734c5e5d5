"""A run's own copy of the work tree, and the way to be in it: at the very path of the user's, in a mount namespace.

All that a run does, it does at the paths that everybody knows (editable installs, configuration, reports), and what it
writes there lands in the copy. The user's files are not touched. The repository itself and the reports are the user's
own. Folders that are installed rather than written (virtual environments, `node_modules`) and large ignored ones are
shown read-only instead of being copied.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_iterctl.errors import RepositoryError, SafetyError, StoreError
from pytest_iterctl.text import file_name
from pytest_iterctl.work.git import Repository

__all__ = ["OwnTree"]

_CACHE = re.compile(r"(?:^|/)(?:__pycache__|\.[^/]*_cache|\.iterctl|\.hypothesis)(?:/|$)|\.py[co]$")
_INSTALLED = ("pyvenv.cfg", "conda-meta")
_NODE_MODULES = "node_modules"
_MOST_COPIED = 64 * 1024 * 1024
_MOST_FILES = 2000


@dataclass(frozen=True, slots=True)
class OwnTree:
    """The copy at `tree` of the work tree at `root`; `shown` are names in it that are the user's own, read-only."""

    root: Path
    tree: Path
    shown: tuple[str, ...] = ()

    @classmethod
    def make(cls, repository: Repository, private: Path) -> OwnTree:
        """Copy the work tree into the run's private folder, as it is now."""
        tree = private / "tree"
        partial = private / "tree.partial"
        try:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(mode=0o700, parents=True)
            shown = [file for name in _ignored(repository) for file in _take(repository.root, partial, name)]
            for name in _files(repository):
                _copy(repository.root / name, partial / name)
            _place_git(repository.root, partial)
            partial.rename(tree)
            (private / "tree.json").write_text(json.dumps(shown), encoding="utf-8")
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            what = file_name(os.fsencode(error.filename)) if error.filename else "a file"
            raise StoreError(
                f"the work tree can't be copied for the run: {what}: {error.strerror}",
                hint=f"the copy lies in the state folder, {private}, which may need more room",
            ) from None
        return cls(repository.root, tree, tuple(shown))

    @classmethod
    def of(cls, root: Path, private: Path) -> OwnTree:
        """The copy that the run has made before."""
        try:
            shown = json.loads((private / "tree.json").read_bytes())
        except (OSError, ValueError):
            raise StoreError(
                "the run's copy of the work tree is gone", hint="start a new run: this one can't go on without it"
            ) from None
        return cls(root, private / "tree", tuple(shown))

    @property
    def is_entered(self) -> bool:
        """Whether this process has the copy in the place of the work tree."""
        try:
            return os.path.samestat(self.root.stat(), self.tree.stat())
        except OSError:
            return False

    def entering(self, program: Path, folder: Path, reports: Path) -> tuple[str, ...]:
        """What to put before a command, so that the copy is where the work tree is; `folder` is where it starts."""
        places = [("--bind", self.tree, self.root)]
        git = self.root / ".git"
        if git.is_symlink():
            raise SafetyError(".git is a symbolic link, which a sandbox can't protect")
        if git.is_dir():
            places.append(("--bind", git, git))
        (self.tree / reports.relative_to(self.root)).mkdir(parents=True, exist_ok=True)
        places.append(("--bind", reports, reports))
        for name in self.shown:
            there = self.root / name
            if there.exists() and not _leads_out(self.tree, name):
                places.append(("--ro-bind", there, there))
        if folder.is_relative_to(self.root) and not _leads_out(self.tree, os.fspath(folder.relative_to(self.root))):
            (self.tree / folder.relative_to(self.root)).mkdir(parents=True, exist_ok=True)
        mounts = [os.fspath(part) for place in places for part in place]
        return (
            *(os.fspath(program), "--die-with-parent", "--dev-bind", "/", "/", *mounts),
            *("--chdir", os.fspath(folder), "--"),
        )


def _files(repository: Repository) -> Iterator[str]:
    """What git knows and what it does not ignore, as it is in the work tree."""
    listed = repository.git("ls-files", "-z", "-c", "-o", "--exclude-standard").split(b"\0")
    names = dict.fromkeys(os.fsdecode(name.rstrip(b"/")) for name in listed if name)
    yield from (name for name in names if name != ".iterctl" and not name.startswith(".iterctl/"))


def _ignored(repository: Repository) -> Iterator[str]:
    listed = repository.git("ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory").split(b"\0")
    for name in (os.fsdecode(each) for each in listed if each):
        if not _CACHE.search(name):
            yield name.rstrip("/")


def _take(root: Path, copy: Path, name: str) -> Iterator[str]:
    """Copy what is ignored; the names of what is shown instead, because it is installed or large."""
    path = root / name
    if path.is_dir() and not path.is_symlink() and (_is_installed(path) or _is_large(path)):
        (copy / name).mkdir(parents=True, exist_ok=True)
        yield name
    else:
        _copy(path, copy / name)


def _is_installed(folder: Path) -> bool:
    return folder.name == _NODE_MODULES or any((folder / name).exists() for name in _INSTALLED)


def _is_large(folder: Path) -> bool:
    size = count = 0
    for place, _, files in os.walk(folder):
        for name in files:
            count += 1
            size += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 - thousands of them
            if size > _MOST_COPIED or count > _MOST_FILES:
                return True
    return False


def _copy(source: Path, target: Path) -> None:
    """A file, link or folder with its times and modes. Pipes, sockets and what has gone meanwhile are left."""
    try:
        mode = source.lstat().st_mode
    except FileNotFoundError:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if stat.S_ISDIR(mode):
        target.mkdir(exist_ok=True)
        for each in source.iterdir():
            _copy(each, target / each.name)
        shutil.copystat(source, target)
    elif stat.S_ISREG(mode) or stat.S_ISLNK(mode):
        shutil.copy2(source, target, follow_symlinks=False)


def _place_git(root: Path, copy: Path) -> None:
    git = root / ".git"
    if git.is_symlink():
        raise RepositoryError(".git is a symbolic link", hint="put git's folder there itself, or a file: gitdir: …")
    if git.is_dir():
        (copy / ".git").mkdir()
    elif git.exists():
        shutil.copy2(git, copy / ".git")


def _leads_out(tree: Path, name: str) -> bool:
    """Whether a link on the way, which an agent may have made, leads somewhere else: bubblewrap would follow it."""
    way = tree
    for part in Path(name).parts:
        way /= part
        if way.is_symlink():
            return True
    return False
