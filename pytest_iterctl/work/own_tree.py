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
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_iterctl.errors import IterctlError, RepositoryError, SafetyError, StoreError
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
    """The copy at `tree` of the work tree at `root`; `shown` are names in it that are the user's own, read-only.

    `left_out`: why each ignored file that can't be read is not in it.
    """

    root: Path
    tree: Path
    shown: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @classmethod
    def make(cls, repository: Repository, private: Path, go_on: Callable[[], None] = lambda: None) -> OwnTree:
        """Copy the work tree into the run's private folder, as it is now; `go_on` raises what is to end that."""
        tree = private / "tree"
        partial = private / "tree.partial"
        copying = _Copying(repository.root, partial)
        shown: list[str] = []
        try:
            for left in (partial, tree):
                shutil.rmtree(left, ignore_errors=True)
            partial.mkdir(mode=0o700, parents=True)
            for name in _ignored(repository):
                go_on()
                shown.extend(copying.take_ignored(name))
            for name in _files(repository):
                go_on()
                copying.take(name)
            _place_git(repository.root, partial)
            partial.rename(tree)
            (private / "tree.json").write_text(json.dumps(shown), encoding="utf-8")
        except OSError as error:
            raise _not_copied(error, repository.root, private) from None
        finally:
            # Whoever ended it: what is half a copy may hold what nobody is to find there.
            shutil.rmtree(partial, ignore_errors=True)
        return cls(repository.root, tree, tuple(shown), tuple(copying.left_out))

    @classmethod
    def of(cls, root: Path, private: Path) -> OwnTree | None:
        """The copy that the run has made before; None when it is gone."""
        tree = private / "tree"
        try:
            shown = json.loads((private / "tree.json").read_bytes())
        except (OSError, ValueError):
            return None
        return cls(root, tree, tuple(shown)) if tree.is_dir() else None

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


class _Copying:
    """Takes single names of the work tree over into the copy, each of them once and never through a link."""

    def __init__(self, root: Path, copy: Path) -> None:
        self.left_out: list[str] = []
        self._root = root
        self._copy = copy
        self._links: dict[Path, bool] = {}

    def take(self, name: str) -> None:
        if not self._is_behind_a_link(Path(name)):
            self._take(self._root / name, self._copy / name)

    def take_ignored(self, name: str) -> Iterator[str]:
        """Nobody's work is in there, so what can't be read is left out; the names of what is shown instead of copied,
        because it is installed or large.
        """
        path = self._root / name
        if self._is_behind_a_link(Path(name)):
            return
        try:
            is_shown = path.is_dir() and not path.is_symlink() and (_is_installed(path) or _is_large(path))
        except OSError as error:
            self._leave_out(path, error)
            return
        if is_shown:
            (self._copy / name).mkdir(parents=True, exist_ok=True)
            yield name
        else:
            self._take(path, self._copy / name, may_miss=True)

    def _is_behind_a_link(self, name: Path) -> bool:
        """Git lists what a folder had, also where it is a link now; what is asked once stays, or a link made just now
        would be copied and then written through.
        """
        for above in name.parents:
            if above not in self._links:
                self._links[above] = (self._root / above).is_symlink()
            if self._links[above] and above != Path():
                return True
        return False

    def _take(self, source: Path, target: Path, *, may_miss: bool = False) -> None:
        """A file, link or folder with its times and modes. Pipes, sockets and what has gone meanwhile are left."""
        try:
            mode = source.lstat().st_mode
            target.parent.mkdir(parents=True, exist_ok=True)
            if stat.S_ISDIR(mode):
                target.mkdir(exist_ok=True)
                for each in list(source.iterdir()):
                    self._take(each, target / each.name, may_miss=may_miss)
                shutil.copystat(source, target)
            elif stat.S_ISREG(mode) or stat.S_ISLNK(mode):
                self._links[source.relative_to(self._root)] = stat.S_ISLNK(mode)
                shutil.copy2(source, target, follow_symlinks=False)
        except OSError as error:
            if _is_of(error, source) and isinstance(error, FileNotFoundError | NotADirectoryError):
                return
            if not (may_miss and _is_of(error, source) and isinstance(error, PermissionError)):
                raise
            self._leave_out(source, error)

    def _leave_out(self, path: Path, error: OSError) -> None:
        self.left_out.append(f"{_shown(path.relative_to(self._root))}: {error.strerror}")


def _not_copied(error: OSError, root: Path, private: Path) -> IterctlError:
    path = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes | os.PathLike) else None
    what = "a file" if path is None else _shown(path.relative_to(root) if path.is_relative_to(root) else path)
    text = f"the work tree can't be copied for the run: {what}: {error.strerror or error}"
    if isinstance(error, PermissionError) and path is not None and path.is_relative_to(root):
        return RepositoryError(text, hint="make it readable for you, or add it to .gitignore: then it is left out")
    return StoreError(text, hint=f"the copy lies in the state folder, {private}, which may need more room")


def _is_of(error: OSError, path: Path) -> bool:
    return error.filename is not None and os.fsdecode(error.filename) == os.fspath(path)


def _shown(path: Path) -> str:
    return file_name(os.fsencode(path))


def _is_installed(folder: Path) -> bool:
    return folder.name == _NODE_MODULES or any((folder / name).exists() for name in _INSTALLED)


def _is_large(folder: Path) -> bool:
    size = count = 0
    for place, _, files in os.walk(folder):
        for name in files:
            count += 1
            with suppress(FileNotFoundError):
                size += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 - thousands of them
            if size > _MOST_COPIED or count > _MOST_FILES:
                return True
    return False


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
