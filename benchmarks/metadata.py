"""What it costs to know a repository's own state before and after a turn, and what a change has lost."""

from __future__ import annotations

import os
import shutil
import time
from functools import partial
from pathlib import Path

from measure import (
    Cost,
    Side,
    clean_environment,
    command,
    cpu,
    git,
    in_process,
    interleaved,
    minimum_ratio,
    options,
    scratch,
    spread,
    tell,
    wall,
)

from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.losses import losses_between
from pytest_iterctl.work.metadata import Metadata
from pytest_iterctl.work.surroundings import look

_TARGET_REFS = 10.0
_TARGET_STATUS = 1.0
_TARGET_ALL = 8.0
_PER_FOLDER = 25


def main() -> None:
    given = options(__doc__ or "", size=25_000, runs=9, quick_size=300)
    with scratch() as folder:
        environment = clean_environment(folder)
        os.environ.clear()
        os.environ.update(environment)
        references = max(given.size // 5, 1)
        root = _repository(folder / "project", given.size, references)
        listing = partial(command, ["git", "for-each-ref"], cwd=root, environment=environment)
        status = partial(command, ["git", "status", "--porcelain"], cwd=root, environment=environment)
        repository = Repository.discover(root)
        how = f"of {given.runs} interleaved runs each, {given.size} files, {references} references"
        for kind in ("packed", "loose"):
            if kind == "loose":
                _loosen(root)
            metadata = Metadata(repository, folder / kind)
            first = in_process(metadata.keep)
            turn = partial(_turn, metadata)
            more = f"the first keep took {first.wall * 1000:.0f} ms"
            _compare(f"{kind}_against_refs", turn, listing, given.runs, _TARGET_REFS, f"{how}; {more}")
            _compare(f"{kind}_against_status", turn, status, given.runs, _TARGET_STATUS, how)
        tree, other = _two_snapshots(root)
        diff = partial(
            command, ["git", "diff-tree", "-r", "-M", "--numstat", tree, other], cwd=root, environment=environment
        )
        measured = partial(in_process, partial(losses_between, repository, tree, other))
        _compare("losses_all_edited", measured, diff, given.runs, _TARGET_ALL, how)
        _surroundings(folder, root, given.size, given.runs, status)


def _turn(metadata: Metadata) -> Cost:
    """Before and after a turn in which nothing was touched."""

    def both() -> None:
        metadata.keep()
        metadata.put_back(metadata.compare())

    return in_process(both)


def _compare(name: str, measured: Side, reference: Side, runs: int, target: float, how: str) -> None:
    rounds = interleaved(measured, reference, runs)
    tell(f"metadata.{name}", minimum_ratio(rounds, cpu), target, f"CPU time, minimum {how} ({spread(rounds, wall)})")


def _surroundings(folder: Path, root: Path, size: int, runs: int, status: Side) -> None:
    home = folder / "home"
    home.mkdir()
    for number in range(size // 100):
        (home / f".tool_{number}").write_text(f"a setting {number}\n")
        (folder / f"neighbour_{number}").mkdir()
    measured = partial(in_process, partial(look, root, home))
    how = f"of {runs} interleaved runs each, {size // 100} dot files and neighbours, against git status --porcelain"
    _compare("surroundings", measured, status, runs, _TARGET_STATUS, how)


def _repository(root: Path, size: int, references: int) -> Path:
    """As after a clone: one pack, packed references, and some dozens of lines in each file."""
    root.mkdir()
    git(root, "init", "-q")
    git(root, "-c", "fastimport.unpackLimit=1", "fast-import", "--quiet", feed=_history(size, "value", "main"))
    git(root, "checkout", "-q", "-f", "main")
    feed = "".join(f"create refs/heads/topic/{number} refs/heads/main\n" for number in range(references))
    git(root, "update-ref", "--stdin", feed=feed.encode())
    git(root, "pack-refs", "--all")
    shutil.rmtree(root / ".git/logs/refs/heads/topic", ignore_errors=True)
    time.sleep(2.1)  # what is as new as the look at it must be read again
    git(root, "update-index", "--refresh")
    time.sleep(2.1)
    return root


def _history(size: int, word: str, branch: str) -> bytes:
    body = "".join(f"    {word}_{number} = compute({number})\n" for number in range(60))
    head = f"commit refs/heads/{branch}\ncommitter benchmark <benchmark@localhost> 1700000000 +0000\ndata 5\nfirst\n"
    stream = [head.encode()]
    for number in range(size):
        place = number // _PER_FOLDER
        name = f"area_{place % 10}/part_{place // 10 % 10}/unit_{place // 100}/module_{number}.py"
        content = f"def work_{number}(compute):\n{body}".encode()
        stream.append(f"M 100644 inline {name}\ndata {len(content)}\n".encode() + content + b"\n")
    return b"".join(stream)


def _loosen(root: Path) -> None:
    """The worst case: each reference a file of its own, as `git update-ref` leaves them."""
    for line in (root / ".git/packed-refs").read_text().splitlines():
        value, _, name = line.partition(" ")
        if name.startswith("refs/"):
            path = root / ".git" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(value + "\n")
    (root / ".git/packed-refs").unlink()
    time.sleep(2.1)


def _two_snapshots(root: Path) -> tuple[str, str]:
    """Every file shorter by a third: the case in which each must be read."""
    size = sum(1 for _ in root.rglob("*.py"))
    shorter = _history(size, "v", "other")
    git(root, "-c", "fastimport.unpackLimit=1", "fast-import", "--quiet", feed=shorter)
    names = ("main", "other")
    for name in names:
        git(root, "update-ref", f"refs/iterctl/benchmark/{name}", f"refs/heads/{name}")
    return "refs/iterctl/benchmark/main", "refs/iterctl/benchmark/other"


if __name__ == "__main__":
    main()
