"""Compares two snapshots: which entries differ, by how many lines, and as a patch.

No `.gitattributes` has a say here: an agent that calls its files binary would hide them from those who read the patch.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pytest_iterctl.errors import RepositoryError
from pytest_iterctl.text import file_name
from pytest_iterctl.work.git import Answer, Repository, failure

__all__ = ["Difference", "TreeChange", "changes", "difference", "object_name", "patch", "write_patch"]

ABSENT = b"000000"
SUBMODULE = b"160000"
_MOST_OF_NAMES = 256 * 1024  # bytes
_OBJECT = re.compile(r"[0-9a-f]{4,64}|refs/iterctl/[^\s~^:?*\[\\]+")
_COMPARE = ("diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none")
_PATCH = ("-p", "--full-index", "--no-color", "--src-prefix=a/", "--dst-prefix=b/", "--submodule=short")


@dataclass(frozen=True, slots=True)
class Difference:
    """How one snapshot differs from another; a rename is two files, a binary file counts no lines."""

    files: tuple[str, ...]
    added: int
    deleted: int


@dataclass(frozen=True, slots=True)
class TreeChange:
    """One path that two trees disagree about; mode 000000 means that it is not there."""

    path: bytes
    old_mode: bytes
    new_mode: bytes
    old: bytes
    new: bytes

    @property
    def removes(self) -> bool:
        return self.new_mode == ABSENT


def object_name(name: str) -> str:
    """The name itself, once it is sure that git can't take it for an option or an expression."""
    if _OBJECT.fullmatch(name) is None:
        raise RepositoryError(f"{name!r} is neither the id of a snapshot nor a name below refs/iterctl/")
    return name


def changes(repository: Repository, old: str, new: str) -> tuple[TreeChange, ...]:
    output = repository.git(
        *_COMPARE, "-z", "--raw", "--no-abbrev", "--no-renames", object_name(old), object_name(new), "--"
    )
    fields = output.split(b"\0")
    return tuple(_parse(fields[at], fields[at + 1]) for at in range(0, len(fields) - 1, 2))


def _parse(facts: bytes, path: bytes) -> TreeChange:
    old_mode, new_mode, old, new, _ = facts.removeprefix(b":").split(b" ")
    return TreeChange(path, old_mode, new_mode, old, new)


def difference(repository: Repository, old: str, new: str) -> Difference:
    with tempfile.TemporaryDirectory(prefix="iterctl-") as nowhere:
        output = repository.git(
            *_COMPARE,
            *("-z", "--numstat", "--no-renames", object_name(old), object_name(new), "--"),
            index=Path(nowhere, "index"),
            work_tree=Path(nowhere),
        )
    lines = [record.split(b"\t", 2) for record in output.split(b"\0") if record]
    return Difference(
        files=tuple(sorted({file_name(path) for _, _, path in lines})),
        added=sum(int(added) for added, _, _ in lines if added != b"-"),
        deleted=sum(int(deleted) for _, deleted, _ in lines if deleted != b"-"),
    )


def patch(
    repository: Repository, old: str, new: str, *, limit: int | None = None, without: tuple[str, ...] = ()
) -> tuple[bytes, bool]:
    """A patch for people, and whether it was cut to whole lines within `limit` bytes; `without`: not these."""
    names = _names_but(repository, old, new, without)
    if names is None:
        return b"", False
    with tempfile.TemporaryFile() as output:
        arguments = (*_PATCH, "-M", object_name(old), object_name(new), "--", *names)
        _stream(repository, arguments, output, limit)
        output.seek(0)
        found = output.read()
    if limit is None or len(found) <= limit:
        return found, False
    kept = found[:limit]
    return kept[: kept.rfind(b"\n") + 1] or kept, True


def _names_but(repository: Repository, old: str, new: str, without: tuple[str, ...]) -> tuple[str, ...] | None:
    """The names to compare, none for all of them; None when nothing is left."""
    if not without:
        return ()
    paths = (os.fsdecode(change.path) for change in changes(repository, old, new))
    names = tuple(path for path in paths if path not in without)
    # More do not fit into a command: then nothing is left out.
    return (names if sum(map(len, map(os.fsencode, names))) <= _MOST_OF_NAMES else ()) if names else None


def write_patch(repository: Repository, old: str, new: str, path: Path, *, without: tuple[str, ...] = ()) -> None:
    """A patch that `git apply` takes, binary files included; an old file stays until the new one is whole."""
    names = _names_but(repository, old, new, without)
    arguments = (*_PATCH, "--binary", "--no-renames", object_name(old), object_name(new), "--", *(names or ()))
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as output:
            if names is not None:
                _stream(repository, arguments, output, None)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _stream(repository: Repository, arguments: tuple[str, ...], output: IO[bytes], limit: int | None) -> None:
    """Copy the patch to a file; once there are more than `limit` bytes the rest is not even produced."""
    with tempfile.TemporaryDirectory(prefix="iterctl-") as nowhere, tempfile.TemporaryFile() as complaint:
        process = subprocess.Popen(
            repository.command(*_COMPARE, *arguments, settings=("core.quotePath=false",), work_tree=Path(nowhere)),
            cwd=nowhere,
            env=repository.environment(index=Path(nowhere, "index")),
            stdin=subprocess.DEVNULL,
            stdout=output if limit is None else subprocess.PIPE,
            stderr=complaint,
            process_group=0,
        )
        with process:
            if limit is not None and process.stdout is not None:
                output.write(process.stdout.read(limit + 1))
                if process.stdout.read(1):
                    process.kill()
                    return
        if process.returncode != 0:
            complaint.seek(0)
            raise failure(_COMPARE[0], Answer(process.returncode, b"", complaint.read()))
