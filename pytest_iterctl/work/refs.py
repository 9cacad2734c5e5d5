"""Lists, deletes and carries between repositories the references that keep snapshots alive."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_iterctl.errors import RepositoryError
from pytest_iterctl.work.git import Repository, complaint_of
from pytest_iterctl.work.trees import object_name

__all__ = ["ALL_REFS", "bundle", "delete_refs", "forget_ours", "list_refs", "own_ref", "unbundle"]

ALL_REFS = "refs/iterctl/"


def own_ref(name: str) -> str:
    """The name itself, once it is sure that it is one of ours and no branch or tag of the user's."""
    if not name.startswith(ALL_REFS) or ".." in name:
        raise RepositoryError(f"{name!r} is not below {ALL_REFS}")
    return name if name == ALL_REFS else object_name(name)


def list_refs(repository: Repository, prefix: str) -> dict[str, str]:
    output = repository.git("for-each-ref", "--format=%(objectname) %(refname)", own_ref(prefix).rstrip("/") + "/")
    lines = (os.fsdecode(line).split(" ", 1) for line in output.splitlines())
    return {name: commit for commit, name in lines}


def delete_refs(repository: Repository, prefix: str) -> int:
    found = list_refs(repository, prefix)
    if found:
        orders = "".join(f"delete {name}\0{commit}\0" for name, commit in found.items())
        repository.git("update-ref", "-z", "--stdin", feed=os.fsencode(orders))
    return len(found)


def forget_ours(repository: Repository, prefix: str, email: str) -> int:
    """Delete those below that lead to no commit of others; how many commits of others are left."""
    form = "--format=%(objectname) %(refname) %(objecttype) %(authoremail)"
    output = repository.git("for-each-ref", form, own_ref(prefix).rstrip("/") + "/")
    orders, left = [], 0
    for line in output.splitlines():
        number, name, kind, author = os.fsdecode(line).split(" ", 3)
        if kind == "commit" and author != f"<{email}>":
            left += 1
        else:
            orders.append(f"delete {name}\0{number}\0")
    if orders:
        repository.git("update-ref", "-z", "--stdin", feed=os.fsencode("".join(orders)))
    return left


def bundle(repository: Repository, prefix: str, path: Path) -> None:
    """One file with these snapshots, without what HEAD has; an old file stays until the new one is whole."""
    names = list(list_refs(repository, prefix))
    if not names:
        raise RepositoryError(f"there is no snapshot below {prefix}")
    if repository.current_head():
        names.append("^HEAD")
    path = path.absolute()
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        repository.git(
            *("bundle", "create", "--quiet", str(partial), "--stdin"), feed=os.fsencode("\n".join(names) + "\n")
        )
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def unbundle(repository: Repository, path: Path) -> int:
    """Take the snapshots of such a file into this repository; how many references it brought."""
    path = path.absolute()
    heads = repository.ask("bundle", "list-heads", str(path))
    if heads.code != 0:
        raise RepositoryError(f"{path} is no bundle of snapshots: {complaint_of(heads.complaint)}")
    names = [os.fsdecode(line).split(" ", 1)[1] for line in heads.output.splitlines()]
    strange = [name for name in names if not name.startswith(ALL_REFS)]
    if strange or not names:
        raise RepositoryError(
            f"{path} is no bundle of snapshots: it brings {strange[0]!r}" if strange else f"{path} brings no snapshot"
        )
    if repository.ask("bundle", "verify", "--quiet", str(path)).code != 0:
        raise RepositoryError(
            f"{path} builds on commits that this repository does not have",
            hint="fetch the branch that the run started from, then try again",
        )
    repository.git(
        *("fetch", "--quiet", "--no-tags", "--no-prune", "--no-write-fetch-head", "--no-auto-maintenance"),
        *("--no-recurse-submodules", str(path), f"+{ALL_REFS}*:{ALL_REFS}*"),
        settings=("core.logAllRefUpdates=false", "protocol.file.allow=always", "fetch.writeCommitGraph=false"),
    )
    return len(names)
