"""Says which files a snapshot's own rules ignore, so that a restore leaves them alone.

An agent that takes `.env` out of `.gitignore` makes it part of the next snapshot; going back must not delete it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from pytest_iterctl.work.git import Repository, failure

__all__ = ["ignored_by"]

_RULES = b".gitignore"


def ignored_by(repository: Repository, tree: str, names: Iterable[bytes]) -> frozenset[bytes]:
    """Those of the names that would be ignored if the work tree were this tree."""
    # A name such as `:(glob)*` is only taken literally behind a folder: this command knows no literal mode.
    asked = b"".join(b"./" + name + b"\0" for name in names)
    if not asked:
        return frozenset()
    with tempfile.TemporaryDirectory(prefix="iterctl-") as folder:
        _write_rules(repository, tree, Path(folder))
        answer = repository.ask(
            *("check-ignore", "--no-index", "-z", "--stdin"),
            feed=asked,
            variables={"GIT_LITERAL_PATHSPECS": "0"},
            work_tree=Path(folder),
        )
    if answer.code not in {0, 1}:
        raise failure("check-ignore", answer)
    return frozenset(name.removeprefix(b"./") for name in answer.output.split(b"\0")[:-1])


def _write_rules(repository: Repository, tree: str, folder: Path) -> None:
    for record in repository.git("ls-tree", "-r", "-z", tree).split(b"\0"):
        facts, _, name = record.partition(b"\t")
        # git itself does not follow a `.gitignore` that is a link
        if name.rpartition(b"/")[2] != _RULES or not facts.startswith(b"100"):
            continue
        path = folder / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(repository.git("cat-file", "blob", facts.split(b" ")[2].decode("ascii")))
