"""One run of a test command of any language, and the JUnit reports that this very run left."""

from __future__ import annotations

import glob
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_iterctl.plan.model import TestCommand
from pytest_iterctl.work.process import Command, Finished, Walls, run

__all__ = ["CommandRun", "run_test_command"]

_Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class CommandRun:
    """How the command ended, which reports it wrote, and which it left as they were."""

    finished: Finished
    reports: tuple[Path, ...]
    stale: tuple[Path, ...]


def run_test_command(
    test: TestCommand,
    *,
    directory: Path,
    run_id: str,
    timeout: float,
    environment: Mapping[str, str],
    tick: Callable[[float], bool],
    walls: Walls | None = None,
) -> CommandRun:
    before = _stamps(directory, test.junit)
    finished = run(
        Command(
            arguments=test.command,
            cwd=directory,
            environment={**environment, "PYTEST_ITERCTL_CHILD": run_id, "ITERCTL_RUN": run_id},
            timeout=timeout,
        ),
        tick=tick,
        walls=walls,
    )
    after = _stamps(directory, test.junit)
    written = tuple(path for path, stamp in after.items() if before.get(path) != stamp)
    return CommandRun(finished, written, tuple(path for path in after if path not in written))


def _stamps(directory: Path, pattern: str) -> dict[Path, _Stamp]:
    """The reports that are there now, and what changes when one is written again.

    The time is that of the last change of anything: unlike the other one, no tool can set it to what it was.
    """
    found: dict[Path, _Stamp] = {}
    # Unlike Path.glob it takes any pattern, and an absolute one too.
    names = glob.glob(pattern, root_dir=directory, recursive=True, include_hidden=True)  # noqa: PTH207 - see above
    for path in sorted({directory / name for name in (*names, pattern)}):
        try:
            status = path.stat()
        except (OSError, ValueError):
            continue
        if not stat.S_ISDIR(status.st_mode):
            found[path] = (status.st_ino, status.st_size, status.st_ctime_ns)
    return found
