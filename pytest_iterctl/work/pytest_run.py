"""One pytest run in a process of its own, with the witness riding along; says what happened, judges nothing."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import pytest_iterctl
from pytest_iterctl.work.environment import tests_environment
from pytest_iterctl.work.process import Command, Finished, Walls, run

__all__ = ["PytestRun", "forget_all_bytecode", "forget_bytecode", "run_pytest"]

#: The launcher is a file, not a module: the interpreter that runs the tests need not have this package installed.
_WITNESS = Path(pytest_iterctl.__file__).with_name("witness") / "__main__.py"


@dataclass(frozen=True, slots=True)
class PytestRun:
    """What to run, and where."""

    python: str
    arguments: tuple[str, ...]
    directory: Path
    as_module: bool
    run: str
    timeout: float
    marker: str | None = None
    pass_env: tuple[str, ...] = ()
    exam: Path | None = None  # what the probe looks at; the file is gone once the run has begun
    variables: Mapping[str, str] = field(default_factory=dict)  # laid over the environment
    walls: Walls | None = None


@contextmanager
def run_pytest(request: PytestRun, private: Path, tick: Callable[[float], bool]) -> Iterator[tuple[Finished, BinaryIO]]:
    """The finished process, and the witness's lines in a file that has no name for anyone else to open."""
    with tempfile.TemporaryFile(dir=private) as log:
        variables = {
            **request.variables,
            "PYTEST_ITERCTL_CHILD": request.run,
            "ITERCTL_RUN": request.run,
            "ITERCTL_WITNESS_FD": str(log.fileno()),
            "ITERCTL_WITNESS_MODE": "module" if request.as_module else "script",
        }
        if request.marker is not None:
            variables["ITERCTL_WITNESS_MARKER"] = request.marker
        if request.exam is not None:
            variables["ITERCTL_WITNESS_EXAM"] = str(request.exam)
        command = Command(
            arguments=(request.python, str(_WITNESS), *request.arguments),
            cwd=request.directory,
            environment=tests_environment(os.environ, pass_names=request.pass_env, extra=variables),
            timeout=request.timeout,
            pass_fds=(log.fileno(),),
        )
        finished = run(command, tick=tick, walls=request.walls)
        log.seek(0)
        yield finished, log


def forget_bytecode(root: Path, names: tuple[bytes, ...]) -> int:
    """Remove the compiled form of changed sources; returns how many files went.

    Python takes bytecode for current when the source has the size and the second of its last change that the
    bytecode remembers, so an edit within a second of the run before would be tested as it was.
    """
    prefix = os.environ.get("PYTHONPYCACHEPREFIX", "")
    removed = 0
    for name in names:
        if not name.endswith(b".py"):
            continue
        source = root / os.fsdecode(name)
        folders = [source.parent / "__pycache__"]
        if prefix:
            folders.append(Path(prefix) / source.parent.absolute().relative_to("/"))
        for folder in folders:
            removed += _remove(folder, source.stem + ".")
    return removed


def forget_all_bytecode(root: Path, names: Iterable[bytes]) -> None:
    """Remove whatever is compiled beside these sources: bytecode may say of itself that it need not be checked."""
    folders = {name.rpartition(b"/")[0] for name in names if name.endswith(b".py")}
    for folder in folders:
        place = root / os.fsdecode(folder) / "__pycache__"
        if not place.is_symlink():
            _remove(place, "")


def _remove(folder: Path, start: str) -> int:
    count = 0
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return 0
    for entry in entries:
        if entry.name.startswith(start) and entry.name.endswith(".pyc"):
            try:
                Path(entry.path).unlink()
            except OSError:
                continue
            count += 1
    return count
