"""Takes snapshots of the user's work tree and goes back to them, exactly.

A snapshot is a commit below `refs/iterctl/` of everything in the work tree that git does not ignore. Neither taking nor
restoring one touches the user's index, HEAD, branches, stash or reflog. Not recorded are ignored files, empty folders,
times, permissions other than the executable bit, line endings where the user lets git convert them, and what is inside
nested repositories and submodules.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from pytest_iterctl.errors import RepositoryError
from pytest_iterctl.text import file_name
from pytest_iterctl.work import refs, trees
from pytest_iterctl.work.capture import OWN_FOLDER, PrivateIndex
from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.ignored import ignored_by
from pytest_iterctl.work.trees import ABSENT, SUBMODULE, Difference, TreeChange
from pytest_iterctl.work.untracked import Limits, Survey, names_of, survey_of

__all__ = ["Difference", "Snapshot", "Snapshots", "Survey"]

LARGEST_FILE = 50 * 1024**2
LARGEST_TOTAL = 1024**3
_KEPT = refs.ALL_REFS + "kept/"
_IDENTITY = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "iterctl"), ("EMAIL", "iterctl@localhost"))
}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`left_out` names what is in the work tree and not in here; a slash at the end stands for a whole folder."""

    commit: str
    tree: str
    left_out: tuple[str, ...]


class Snapshots:
    """One per run. `directory` is private to the run; what is in there makes the second snapshot cheap."""

    def __init__(
        self,
        repository: Repository,
        directory: Path,
        *,
        largest_file: int = LARGEST_FILE,
        largest_total: int = LARGEST_TOTAL,
    ) -> None:
        place = directory.absolute()
        if place.is_relative_to(repository.root) and not place.is_relative_to(repository.git_dir):
            raise RepositoryError(
                f"the state of a run can't be kept in {directory}: it is inside the work tree",
                hint="let ITERCTL_STATE_DIR name a folder outside the repository",
            )
        self.repository = repository
        self._limits = Limits(largest_file, largest_total)
        self._index = PrivateIndex(repository, place, self._limits)
        self._tree = ""
        self._left_out: frozenset[bytes] = frozenset()
        self._outdated: frozenset[bytes] = frozenset()

    def take(self, ref: str, message: str) -> Snapshot:
        """Keep the work tree as it is now under this name, which is made or moved."""
        refs.own_ref(ref)
        tree = self._capture()
        commit = self._commit(tree, message)
        self.repository.git("update-ref", "--no-deref", ref, commit)
        return Snapshot(commit, tree, tuple(file_name(name) for name in sorted(self._left_out)))

    def exclude(self, patterns: Iterable[str]) -> None:
        """Untracked files that match are no part of this run: agents leave them, and a restore lets them be."""
        self._index.exclude(patterns)

    def set_aside_since(self, commit: str, counts: Callable[[bytes], bool]) -> tuple[bytes, ...]:
        """Untracked files that count and were made or written to since that snapshot.

        Those that are new are no part of this run from now on, like ignored files: no snapshot has them.
        """
        changes = [change for change in self._changes(self.tree_of(commit), self._capture()) if counts(change.path)]
        tracked = self._index.tracked_by_user(change.path for change in changes)
        written = [change for change in changes if change.path not in tracked and not change.removes]
        new = [change.path for change in written if change.old_mode == ABSENT]
        if new:
            self._index.set_aside(new)
            self._tree = ""
        return tuple(change.path for change in written)

    def survey(self) -> Survey:
        """What to tell a person before anything starts."""
        untracked = self._index.untracked()
        filled = (name for name in self._index.submodules if _has_content(self.repository.root / os.fsdecode(name)))
        return survey_of(untracked, self._limits, submodules=filled, absent=len(self._index.absent))

    def too_large(self) -> tuple[bytes, ...]:
        """Untracked files that no snapshot takes in for their size, those of before the run among them."""
        untracked = self._index.untracked()
        return tuple(name for name in (*untracked.huge, *untracked.settled) if not name.endswith(b"/"))

    def restore(self, commit: str) -> bool:
        """Make the work tree what it was in that snapshot; whether that changed anything.

        What is there now is not kept: take a snapshot before. Only files that the present `.gitignore` hid from it, and
        that the restored one does not ignore, are kept below `refs/iterctl/kept/` before they go.
        """
        target = self.tree_of(commit)
        current = self._capture()
        if not self._outdated and not self._changes(current, target):
            return False
        self._check_out(current, target)
        current = self._capture_after_restore()
        rest = self._changes(target, current)
        if rest and all(change.old_mode == ABSENT for change in rest):
            kept = self._commit(current, f"files that were ignored before {commit} was restored\n")
            self.repository.git("update-ref", "--no-deref", _KEPT + kept, kept)
            self._check_out(current, target)
            rest = self._changes(target, self._capture_after_restore())
        if rest:
            raise RepositoryError(
                f"the work tree is not what {commit} holds after a restore: {names_of(change.path for change in rest)}",
                hint="something else may be writing there; stop it and restore again",
            )
        return True

    def difference(self, old: str, new: str) -> Difference:
        return trees.difference(self.repository, old, new)

    def tree_of(self, commit: str) -> str:
        answer = self.repository.ask("rev-parse", "--verify", "--quiet", trees.object_name(commit) + "^{tree}")
        if answer.code != 0:
            raise RepositoryError(
                f"there is no snapshot {commit} in this repository",
                hint="`iterctl clean` or another clone may have removed it",
            )
        return answer.output.decode("ascii").strip()

    def names(self, commit: str) -> tuple[bytes, ...]:
        """Every file in a snapshot."""
        listed = self.repository.git("ls-tree", "-r", "-z", "--name-only", trees.object_name(commit))
        return tuple(name for name in listed.split(b"\0") if name and name.partition(b"/")[0] != OWN_FOLDER)

    def changed_names(self, old: str, new: str) -> tuple[bytes, ...]:
        """The paths that differ, as git has them: for whoever must touch the files themselves."""
        return tuple(change.path for change in self._changes(old, new))

    def patch(
        self, old: str, new: str, *, limit: int | None = None, without: tuple[str, ...] = ()
    ) -> tuple[bytes, bool]:
        """A patch for people, and whether it was cut to whole lines within `limit` bytes. `without`: not these."""
        return trees.patch(self.repository, old, new, limit=limit, without=without)

    def write_patch(self, old: str, new: str, path: Path, *, without: tuple[str, ...] = ()) -> None:
        trees.write_patch(self.repository, old, new, path, without=without)

    def list_refs(self, prefix: str = refs.ALL_REFS) -> dict[str, str]:
        return refs.list_refs(self.repository, prefix)

    def forget_kept(self) -> int:
        """Forget what restores kept; the commits of others are left, and counted: nothing else may lead there."""
        return refs.forget_ours(self.repository, _KEPT, _IDENTITY["GIT_AUTHOR_EMAIL"])

    def delete_refs(self, prefix: str) -> int:
        return refs.delete_refs(self.repository, prefix)

    def bundle(self, prefix: str, path: Path) -> None:
        refs.bundle(self.repository, prefix, path)

    def unbundle(self, path: Path) -> int:
        return refs.unbundle(self.repository, path)

    def _capture(self) -> str:
        """The tree that the work tree is now."""
        captured = self._index.update()
        if captured.changed or not self._tree:
            try:
                self._tree = self._index.git("write-tree").decode("ascii").strip()
            except RepositoryError:
                # The index names objects that somebody's garbage collection has removed since: hash everything anew.
                captured = self._index.update_anew()
                self._tree = self._index.git("write-tree").decode("ascii").strip()
        self._left_out = captured.left_out
        self._outdated = captured.outdated
        return self._tree

    def _capture_after_restore(self) -> str:
        try:
            return self._capture()
        except RepositoryError as error:
            raise RepositoryError(f"restored, but not exactly: {error.message}", hint=error.hint) from error

    def _commit(self, tree: str, message: str) -> str:
        parents = ("-p", self.repository.head) if self.repository.head else ()
        feed = message.encode("utf-8", "replace")
        commit = self.repository.git("commit-tree", tree, *parents, feed=feed, variables=_IDENTITY)
        return commit.decode("ascii").strip()

    def _changes(self, old: str, new: str) -> tuple[TreeChange, ...]:
        """What a restore is responsible for: not the commits of submodules, not our own folder."""
        return tuple(
            change
            for change in trees.changes(self.repository, old, new)
            if not change.old_mode == change.new_mode == SUBMODULE and change.path.partition(b"/")[0] != OWN_FOLDER
        )

    def _check_out(self, current: str, target: str) -> None:
        changes = self._changes(current, target)
        self._refuse_to_overwrite(changes)
        gone = (change.path for change in changes if change.removes)
        self._index.forget(ignored_by(self.repository, target, gone))
        guarded = self._guarded_files(changes)
        self._tree = ""
        self._index.git("read-tree", "--reset", "-u", target)
        for path, allowed in guarded.items():
            path.chmod(stat.S_IMODE(path.lstat().st_mode) & allowed)

    def _refuse_to_overwrite(self, changes: tuple[TreeChange, ...]) -> None:
        """No snapshot holds what was left out, so nothing may be written over it."""
        protected = self._left_out - self._outdated
        written = [change.path for change in changes if not change.removes and change.new_mode != SUBMODULE]
        in_the_way = {name for name in protected for path in written if _overlap(name, path)}
        if in_the_way:
            raise RepositoryError(
                f"a restore would overwrite what no snapshot holds: {names_of(in_the_way)}",
                hint="move it out of the work tree, then restore again",
            )

    def _guarded_files(self, changes: tuple[TreeChange, ...]) -> dict[Path, int]:
        """Files that others may not read, with the permission bits they may have: git would open them to everybody."""
        guarded = {}
        for change in changes:
            if change.old_mode.startswith(b"100") and change.new_mode.startswith(b"100"):
                path = self.repository.root / os.fsdecode(change.path)
                mode = path.lstat().st_mode
                allowed = 0o700 | (0o070 if mode & 0o070 else 0) | (0o007 if mode & 0o007 else 0)
                if allowed != 0o777:  # noqa: PLR2004 - everybody
                    guarded[path] = allowed
        return guarded


def _overlap(left_out: bytes, path: bytes) -> bool:
    name = left_out.rstrip(b"/")
    return path == name or name.startswith(path + b"/") or path.startswith(name + b"/")


def _has_content(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())
