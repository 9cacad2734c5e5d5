"""Offers a change as a branch of its own, where the user's work tree, index and HEAD are to stay as they are.

The branch has the change alone on top of HEAD. Where it builds on work of the user's that is not committed, that work
comes first, in a commit of its own and only for the files concerned, so that the last commit is the change.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from pytest_iterctl.errors import RepositoryError
from pytest_iterctl.text import one_line
from pytest_iterctl.work.commit import NOTHING, before_it, require_identity, tree_entries, write_commit
from pytest_iterctl.work.git import Repository, complaint_of
from pytest_iterctl.work.trees import ABSENT, TreeChange, changes

__all__ = ["offer_change"]

_WHO = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "iterctl"), ("EMAIL", "iterctl@localhost"))
}
_UNCOMMITTED = b"What the run found uncommitted, and built on\n"


def offer_change(
    repository: Repository,
    base: str,
    final: str,
    message: str,
    *,
    names: tuple[str, ...],
    onto: str,
    without: frozenset[bytes] = frozenset(),
) -> tuple[str, str]:
    """The branch, and the commit at its end; two empty ones when nothing differs.

    `onto` is the commit that it starts from, '' for none. No branch is moved: it is the first of the names that can be
    made, or that holds the very same, as after a driver that was killed right here.
    """
    changed = tuple(change for change in changes(repository, base, final) if change.path not in without)
    if not changed:
        return "", ""
    identity = _identity(repository)
    known = tree_entries(repository, onto) if onto else {}
    found = tuple(change for change in changed if known.get(change.path, NOTHING) != before_it(change))
    with tempfile.TemporaryDirectory(prefix="iterctl-") as folder:
        parent = onto
        if found:
            earlier = tuple(_as_found(change, known) for change in found)
            parent = write_commit(repository, parent, earlier, _UNCOMMITTED, identity, Path(folder, "found"))
        words = message.strip().encode("utf-8", "replace") + b"\n"
        commit = write_commit(repository, parent, changed, words, identity, Path(folder, "changed"))
    return _branch(repository, commit, names, identity), commit


def _as_found(change: TreeChange, known: dict[bytes, tuple[bytes, bytes]]) -> TreeChange:
    """What the user had made of a file: from what is committed to what the run began with."""
    old_mode, old = known.get(change.path, NOTHING)
    missing = b"0" * len(change.new)
    new = missing if change.old_mode == ABSENT else change.old
    return TreeChange(change.path, old_mode, change.old_mode, old or missing, new)


def _identity(repository: Repository) -> dict[str, str]:
    try:
        return require_identity(repository)
    except RepositoryError:
        return {**_WHO, **{name: os.environ[name] for name in _WHO if name in os.environ}}


def _branch(repository: Repository, commit: str, names: tuple[str, ...], identity: dict[str, str]) -> str:
    nothing = "0" * len(commit)
    problem = ""
    for name in names:
        arguments = ("update-ref", "--no-deref", "-m", "iterctl: an accepted change", f"refs/heads/{name}")
        answer = repository.ask(*arguments, commit, nothing, variables=identity)
        if answer.code == 0:
            return name
        if _tree(repository, f"refs/heads/{name}") == _tree(repository, commit):
            return name
        problem = problem or one_line(complaint_of(answer.complaint), 200)
    raise RepositoryError(f"no branch {names[0]} could be made: {problem}", hint=f"the change is commit {commit}")


def _tree(repository: Repository, name: str) -> bytes:
    return repository.ask("rev-parse", "--verify", "--quiet", name + "^{tree}").output.strip()
