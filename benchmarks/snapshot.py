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
    """Folders three deep with a couple of dozen files of a few kB each, packed, as after a clone.

    Nothing is deleted on the way: ext4 does not give out a freed inode again for minutes, and looks at every one of
    them each time a file is made.
    """
    body = "".join(f"    value_{number} = compute({number})\n" for number in range(60))
    root.mkdir()
    git(root, "init", "-q")
    stream = [b"commit refs/heads/main\ncommitter benchmark <benchmark@localhost> 1700000000 +0000\ndata 5\nfirst\n"]
    stream.append(_inline(".gitignore", "__pycache__/\n*.log\nbuild/\n.venv/\n"))
    for number in range(size):
        place = number // _PER_FOLDER
        folder = f"area_{place % 10}/part_{place // 10 % 10}/unit_{place // 100}"
        stream.append(_inline(f"{folder}/module_{number}.py", f"def work_{number}(compute):\n{body}"))
    git(root, "-c", "fastimport.unpackLimit=1", "fast-import", "--quiet", feed=b"".join(stream))
    git(root, "checkout", "-q", "-f", "main")
    for number in range(256):
        # A repository in use has these folders; to make one takes longer than to write the object into it.
        (root / ".git" / "objects" / f"{number:02x}").mkdir(exist_ok=True)
    time.sleep(1.1)  # else every file is as new as the index, and git reads it to be sure
    git(root, "update-index", "--refresh")
    return root


def _inline(name: str, content: str) -> bytes:
    encoded = content.encode()
    return f"M 100644 inline {name}\ndata {len(encoded)}\n".encode() + encoded + b"\n"


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
