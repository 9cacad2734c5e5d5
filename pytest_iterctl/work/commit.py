"""Commits what a loop changed, and nothing else, on top of the user's HEAD.

The user's staged, unstaged and untracked work in other files stays what it is. Everything is looked at and made ready
before anything is touched; then, while git's own lock keeps others away, the branch moves and the index follows.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_iterctl.errors import RepositoryError
from pytest_iterctl.work.capture import copy_index
from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.snapshots import Snapshots
from pytest_iterctl.work.trees import ABSENT, TreeChange, changes
from pytest_iterctl.work.untracked import names_of

__all__ = ["NOTHING", "before_it", "commit_change", "require_identity", "tree_entries", "write_commit"]

# Who commits is the user's to say, also by the environment, as CI systems do.
_IDENTITY = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
_ONLY_CONFIGURED = ("user.useConfigOnly=true",)
_IN_PROGRESS = {"MERGE_HEAD": "merge", "CHERRY_PICK_HEAD": "cherry-pick", "REVERT_HEAD": "revert"}
_BY_HAND = "the change is in your work tree: look at it and commit it yourself"

_Entry = tuple[bytes, bytes]
NOTHING: _Entry = (ABSENT, b"")
_UNMERGED: _Entry = (b"unmerged", b"")


def commit_change(
    repository: Repository,
    snapshots: Snapshots,
    base: str,
    final: str,
    message: str,
    *,
    without: frozenset[bytes] = frozenset(),
) -> str:
    """Commit what differs between the two snapshots, `without` aside; the id of the commit, '' when nothing does."""
    changed = tuple(change for change in changes(snapshots.repository, base, final) if change.path not in without)
    if not changed:
        return ""
    words = message.strip().encode("utf-8", "replace")
    if not words:
        raise RepositoryError("a commit needs a message")
    identity = require_identity(repository)
    _require_nothing_in_progress(repository)
    with tempfile.TemporaryDirectory(prefix="iterctl-") as folder:
        index = Path(folder, "index")
        before = copy_index(repository.git_dir / "index", index)
        _require_untouched(repository, changed, index)
        _update_index(repository, changed, index)
        index_of_commit = Path(folder, "committed")
        commit = write_commit(repository, repository.head, changed, words + b"\n", identity, index_of_commit)
        with _locked(repository.git_dir / "index") as lock:
            _require_same_head(repository)
            if before != _content(repository.git_dir / "index"):
                raise RepositoryError("the index changed meanwhile, so nothing is committed", hint=_BY_HAND)
            _move_head(repository, commit, words, identity)
            _publish(index, lock, repository.git_dir / "index")
    return commit


def require_identity(repository: Repository) -> dict[str, str]:
    given = {name: os.environ[name] for name in _IDENTITY if name in os.environ}
    for role in ("AUTHOR", "COMMITTER"):
        if repository.ask("var", f"GIT_{role}_IDENT", settings=_ONLY_CONFIGURED, variables=given).code != 0:
            raise RepositoryError(
                "git does not know who you are, so nothing is committed",
                hint="`git config user.name NAME` and `git config user.email ADDRESS` tell it",
            )
    return given


def _require_nothing_in_progress(repository: Repository) -> None:
    for name, action in _IN_PROGRESS.items():
        if (repository.git_dir / name).exists():
            raise RepositoryError(f"a {action} is in progress, so nothing is committed", hint=f"end the {action} first")


def _require_same_head(repository: Repository) -> None:
    if repository.current_head() != repository.head or repository.current_branch() != repository.branch:
        raise RepositoryError("HEAD moved since the run started, so nothing is committed", hint=_BY_HAND)


def _require_untouched(repository: Repository, changed: tuple[TreeChange, ...], index: Path) -> None:
    """Refuse paths with uncommitted work of the user, staged or not: it would be committed along."""
    head = tree_entries(repository, repository.head) if repository.head else {}
    staged = _index_entries(repository, index)
    touched = {
        one.path for one in changed for known in (head, staged) if known.get(one.path, NOTHING) != before_it(one)
    }
    paths = {one.path for one in changed}
    touched |= _in_the_way(paths, head) | _in_the_way(paths, staged)
    if touched:
        raise RepositoryError(
            f"what the run changed had uncommitted work of yours, so nothing is committed: {names_of(touched)}",
            hint=_BY_HAND,
        )


def before_it(change: TreeChange) -> _Entry:
    return NOTHING if change.old_mode == ABSENT else (change.old_mode, change.old)


def _in_the_way(paths: set[bytes], known: Iterable[bytes]) -> set[bytes]:
    """A file where the change has a folder, or the other way round, that is no part of the change."""
    rest = set(known) - paths
    below = {name for name in rest if any(folder in paths for folder in _folders(name))}
    above = {folder for path in paths for folder in _folders(path) if folder in rest}
    return below | above


def _folders(name: bytes) -> Iterator[bytes]:
    at = name.find(b"/")
    while at != -1:
        yield name[:at]
        at = name.find(b"/", at + 1)


def tree_entries(repository: Repository, commit: str) -> dict[bytes, _Entry]:
    """The mode and the content of each file of a commit."""
    found = {}
    for record in repository.git("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]:
        facts, _, name = record.partition(b"\t")
        mode, _, content = facts.split(b" ")
        found[name] = (mode, content)
    return found


def _index_entries(repository: Repository, index: Path) -> dict[bytes, _Entry]:
    found = {}
    for record in repository.git("ls-files", "-z", "-s", index=index).split(b"\0")[:-1]:
        facts, _, name = record.partition(b"\t")
        mode, content, stage = facts.split(b" ")
        found[name] = (mode, content) if stage == b"0" else _UNMERGED
    return found


def _update_index(repository: Repository, changed: tuple[TreeChange, ...], index: Path) -> None:
    """Only the committed paths change; then git compares them with the files, so that `git status` need not."""
    keep = ("core.untrackedCache=keep",)
    repository.git("update-index", "-z", "--index-info", index=index, feed=_index_info(changed), settings=keep)
    refresh = ("update-index", "-q", "--unmerged", "--ignore-missing", "--refresh")
    repository.git(*refresh, index=index, settings=keep)


def _index_info(changed: tuple[TreeChange, ...]) -> bytes:
    """Removals come first: a folder may have taken the place of a file."""
    ordered = sorted(changed, key=lambda change: not change.removes)
    return b"".join(change.new_mode + b" " + change.new + b"\t" + change.path + b"\0" for change in ordered)


def write_commit(
    repository: Repository,
    parent: str,
    changed: tuple[TreeChange, ...],
    message: bytes,
    identity: dict[str, str],
    index: Path,
) -> str:
    """A commit of these changes on top of another, '' for none; nothing refers to it yet."""
    if parent:
        repository.git("read-tree", parent, index=index)
    repository.git("update-index", "-z", "--index-info", index=index, feed=_index_info(changed))
    tree = repository.git("write-tree", index=index).decode("ascii").strip()
    parents = ("-p", parent) if parent else ()
    output = repository.git("commit-tree", tree, *parents, feed=message, settings=_ONLY_CONFIGURED, variables=identity)
    return output.decode("ascii").strip()


def _move_head(repository: Repository, commit: str, message: bytes, identity: dict[str, str]) -> None:
    """As `git commit` does it, with its line in the reflog; only if HEAD is still what it was."""
    subject = message.partition(b"\n")[0].decode("utf-8", "replace")
    action = "commit" if repository.head else "commit (initial)"
    old = repository.head or "0" * len(commit)
    repository.git(
        *("update-ref", "-m", f"{action}: {subject}", "HEAD", commit, old),
        settings=_ONLY_CONFIGURED,
        variables=identity,
    )


@contextmanager
def _locked(index: Path) -> Iterator[Path]:
    """Hold the index the way git does; nobody can stage, commit or switch branches meanwhile."""
    lock = index.with_name(index.name + ".lock")
    try:
        lock.touch(exist_ok=False)
    except FileExistsError as error:
        raise RepositoryError(
            "another git command is at work in this repository, so nothing is committed",
            hint=f"wait for it; if there is none, delete {lock}",
        ) from error
    try:
        yield lock
    finally:
        lock.unlink(missing_ok=True)


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _publish(new: Path, lock: Path, index: Path) -> None:
    """Put the new index in place in one step, with its time, because git judges entries by it."""
    status = new.stat()
    with lock.open("wb") as file:
        file.write(new.read_bytes())
        file.flush()
        os.fsync(file.fileno())
    if index.exists():
        lock.chmod(stat.S_IMODE(index.stat().st_mode))
    os.utime(lock, ns=(status.st_atime_ns, status.st_mtime_ns))
    lock.replace(index)
