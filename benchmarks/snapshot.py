"""What a snapshot costs against `git status --porcelain`, which also has to look at every file."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
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
from pytest_iterctl.work.snapshots import Snapshots

_EDITED = 20
_TARGET = 2.0
_PER_FOLDER = 25


def main() -> None:
    given = options(__doc__ or "", size=25_000, runs=9, quick_size=300)
    with scratch() as folder:
        environment = clean_environment(folder)
        os.environ.clear()  # the snapshots' own git sees what `git status` sees
        os.environ.update(environment)
        root = _repository(folder / "project", given.size)
        status = partial(command, ["git", "status", "--porcelain"], cwd=root, environment=environment)
        repository = Repository.discover(root)
        snapshots = Snapshots(repository, folder / "state")
        how = f"of {given.runs} interleaved runs each, {given.size} files, against git status --porcelain"
        disk = f"one fsync takes {_fsync(folder):.2f} ms here"
        _compare("first_of_a_run", partial(_first, repository, folder), status, given.runs, how, disk)
        _compare("clean", partial(_take, snapshots), status, given.runs, how, disk)
        files = sorted(root.glob("area_*/**/*.py"))
        # In four folders, as a change usually is; and each in a folder of its own, which makes most new trees.
        near = [path for start in (0, 100, 200, 250) for path in files[start : start + _EDITED // 4]]
        apart = files[:: max(len(files) // _EDITED, 1)][:_EDITED]
        _compare(f"{_EDITED}_edited", partial(_edit_and_take, snapshots, near), status, given.runs, how, disk)
        _compare(f"{_EDITED}_edited_apart", partial(_edit_and_take, snapshots, apart), status, given.runs, how, disk)


def _repository(root: Path, size: int) -> Path:
    """Folders three deep with a couple of dozen files of a few kB each, packed, as in a repository of that size."""
    body = "".join(f"    value_{number} = compute({number})\n" for number in range(60))
    for start in range(0, size, _PER_FOLDER):
        place = start // _PER_FOLDER
        folder = root / f"area_{place % 10}" / f"part_{place // 10 % 10}" / f"unit_{place // 100}"
        folder.mkdir(parents=True)
        for number in range(start, min(start + _PER_FOLDER, size)):
            (folder / f"module_{number}.py").write_text(f"def work_{number}(compute):\n{body}")
    (root / ".gitignore").write_text("__pycache__/\n*.log\nbuild/\n.venv/\n")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    git(root, "repack", "-a", "-d", "-q")
    git(root, "prune")
    for number in range(256):
        # A repository in use has these folders; to make one takes longer than to write the object into it.
        (root / ".git" / "objects" / f"{number:02x}").mkdir(exist_ok=True)
    return root


def _take(snapshots: Snapshots) -> Cost:
    return in_process(lambda: snapshots.take("refs/iterctl/benchmark/now", "benchmark"))


def _first(repository: Repository, folder: Path) -> Cost:
    """There is no private index yet."""
    return _take(Snapshots(repository, folder / f"state-{time.monotonic_ns()}"))


def _edit_and_take(snapshots: Snapshots, edited: Sequence[Path]) -> Cost:
    for path in edited:
        with path.open("a") as stream:
            stream.write(f"# edit {time.monotonic_ns()}\n")
    return _take(snapshots)


def _compare(name: str, measured: Side, status: Side, runs: int, how: str, disk: str) -> None:
    rounds = interleaved(measured, status, runs)
    told = f"CPU time, minimum {how} ({spread(rounds, cpu)})"
    tell(f"snapshot.{name}.cpu", minimum_ratio(rounds, cpu), _TARGET, told)
    told = f"elapsed time, minimum {how} ({spread(rounds, wall)}; {disk})"
    tell(f"snapshot.{name}.wall", minimum_ratio(rounds, wall), _TARGET, told)


def _fsync(folder: Path) -> float:
    """What a snapshot waits for, once per object that it writes."""
    took = []
    for number in range(20):
        with (folder / f"synced-{number}").open("wb") as stream:
            stream.write(os.urandom(4096))
            stream.flush()
            began = time.perf_counter()
            os.fsync(stream.fileno())
            took.append(time.perf_counter() - began)
    return statistics.median(took) * 1000


if __name__ == "__main__":
    main()
