"""Going into a run's own tree: the errand is done by a process of its own, which has the copy where the work tree is.

The process outside waits, hands signals on, and ends as the other one did. The one inside loads nothing from the work
tree: an agent may have written there since the run began, and it is the driver, which no sandbox holds.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest_iterctl
from pytest_iterctl.cli.errand import Errand, read_errand
from pytest_iterctl.cli.guard import guarded
from pytest_iterctl.cli.performing import Manner, perform
from pytest_iterctl.errors import ExitCode, SafetyError
from pytest_iterctl.loop.workspace import Workspace
from pytest_iterctl.work.own_tree import OwnTree
from pytest_iterctl.work.sandbox import find_bubblewrap

__all__ = ["go_inside", "main"]

_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
_BY_THE_KERNEL = 128  # a terminal's signal, which all of its processes get
#: Started with -I and -S, Python takes no path from its environment, from where it is or from `.pth` files.
_START = """
import json, sys
facts = json.loads(sys.argv[1])
sys.path[:], sys.prefix, sys.exec_prefix = facts["path"], facts["prefix"], facts["prefix"]
from pytest_iterctl.cli.inside import main
sys.exit(main(facts["errand"]))
"""


def go_inside(workspace: Workspace, manner: Manner, errand: Errand, tree: OwnTree) -> int:
    program = find_bubblewrap()
    if program is None:
        raise SafetyError("bubblewrap (bwrap) was not found", hint="install it, or see docs/sandbox.md")
    workspace.place.report_directory(errand.run)
    with _memory(errand.model_dump_json().encode()) as words, _pipe() as (told, telling):
        order = [words, int(manner.json), manner.quiet, manner.verbose]
        facts = {"path": _own_path(tree), "prefix": sys.prefix, "errand": order}
        entering = tree.entering(program, Path.cwd(), workspace.place.reports)
        command = (
            *(*entering[:1], "--json-status-fd", str(telling), *entering[1:]),
            *(sys.executable, "-I", "-S", "-c", _START, json.dumps(facts)),
        )
        with _held_back(_SIGNALS | {signal.SIGCHLD}):
            process = subprocess.Popen(command, pass_fds=(words, telling))
            os.close(telling)
            return _wait(process, told)


def _own_path(tree: OwnTree) -> list[str]:
    """Where this process finds its modules, without what an agent could write."""
    shown = [tree.root / name for name in tree.shown]

    def is_safe(entry: str) -> bool:
        real = Path(os.path.realpath(entry))
        return not real.is_relative_to(tree.root) or any(real.is_relative_to(folder) for folder in shown)

    if not is_safe(pytest_iterctl.__file__):
        raise SafetyError(
            "iterctl itself lies in the work tree, where an agent could change it",
            hint="install it in a virtual environment, not as editable from here",
        )
    return [entry for entry in sys.path if entry and is_safe(entry)]


def _wait(process: subprocess.Popen[bytes], told: int) -> int:
    """Until it has ended. What a terminal sends reaches it by itself, what somebody sends to us is handed on."""
    inner = 0
    while process.poll() is None:
        came = signal.sigwaitinfo(_SIGNALS | {signal.SIGCHLD})
        if came.si_signo in _SIGNALS and came.si_code != _BY_THE_KERNEL:
            inner = inner or _process_inside(told)
            with contextlib.suppress(ProcessLookupError):
                os.kill(inner or process.pid, came.si_signo)
    code = process.returncode
    return code if 0 <= code < 128 else int(ExitCode.INTERRUPTED)  # noqa: PLR2004 - beyond it are signals


def _process_inside(told: int) -> int:
    """The process that bubblewrap has started, as it says in its first line; 0 when it has said nothing yet."""
    with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
        return int(json.loads(os.read(told, 4096).splitlines()[0])["child-pid"])
    return 0


@contextmanager
def _held_back(signals: frozenset[signal.Signals]) -> Iterator[None]:
    """Signals wait until they are asked for; children begin like that, too, and bubblewrap stays so."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _memory(data: bytes) -> Iterator[int]:
    """What it holds is on no disk: a prompt may hold what the project keeps private."""
    descriptor = os.memfd_create("iterctl-errand")
    try:
        os.write(descriptor, data)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    try:
        yield reading, writing
    finally:
        os.close(reading)


def main(errand: list[int]) -> int:
    """The process inside."""
    descriptor, is_json, quiet, verbose = errand
    return guarded(lambda: _main(descriptor, Manner(json=bool(is_json), quiet=quiet, verbose=verbose)))


def _main(descriptor: int, manner: Manner) -> int:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS | {signal.SIGCHLD})
    with os.fdopen(descriptor, "rb") as file:
        errand = read_errand(file.read())
    workspace = Workspace(Path.cwd())
    if not OwnTree.of(workspace.root, workspace.place.run_directory(errand.run)).is_entered:
        raise SafetyError("the run's own tree is not in the place of the work tree, so nothing is run")
    return perform(workspace, manner, errand)
