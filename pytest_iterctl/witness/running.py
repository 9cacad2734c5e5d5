"""A run of pytest with the witness as a plugin, dressed as one without."""

# ruff: noqa: PTH100, PTH110, PTH118, PTH120 - paths are strings
from __future__ import annotations

import os
import sys
import types
from importlib.util import find_spec
from typing import Any

import pytest

from .lines import Lines
from .plugin import Witness

__all__ = ["run"]


def run(settings: dict[str, str], probe: Any) -> int:
    try:
        descriptor = int(settings["FD"])
        os.fstat(descriptor)
    except (KeyError, ValueError, OSError):
        sys.stderr.write("error: the witness is started by iterctl, which names an open file in ITERCTL_WITNESS_FD\n")
        return 4
    lines = Lines(descriptor)
    _dress(script=settings.get("MODE") == "script")
    args = sys.argv[1:]
    python = ".".join(map(str, sys.version_info[:3]))
    lines.tell("start", pid=os.getpid(), pytest=pytest.__version__, python=python, args=args)
    if probe is not None:
        probe.attach(lines, (Lines, Witness))
        args = ["-p", probe.NAME, *args]  # in front, so that a worker of xdist has it before any plugin of the project
    code = 1
    try:
        code = int(pytest.main(args, plugins=[Witness(lines, settings.get("MARKER"))]))
        sys.stdout.flush()
    except BrokenPipeError:
        # As pytest does: what is left of the output must not raise again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    lines.tell("exit", code=code, compiled=_compiled())
    return code


def _dress(*, script: bool) -> None:
    """Make `__main__` and sys.argv what they are for pytest itself; multiprocessing hands them to its children."""
    dressed = types.ModuleType("__main__")
    if script:
        path = os.path.join(os.path.dirname(sys.executable), "pytest")
        dressed.__file__ = path if os.path.exists(path) else os.path.abspath(sys.argv[0])
    else:
        dressed.__spec__ = find_spec("pytest.__main__")
        dressed.__package__ = "pytest"
        path = dressed.__file__ = str(dressed.__spec__ and dressed.__spec__.origin)
    sys.argv[0] = path
    sys.modules["__main__"] = dressed


def _compiled() -> list[str]:
    """Where the bytecode of the modules lies that this run has loaded."""
    places = (getattr(module, "__cached__", None) for module in list(sys.modules.values()))
    return sorted({each for each in places if isinstance(each, str)})
