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
from pytest_iterctl.cli.guard import complain, guarded
from pytest_iterctl.cli.performing import Manner, perform
from pytest_iterctl.cli.signals import SIGNALS, Signals
from pytest_iterctl.errors import Interrupted, SafetyError
from pytest_iterctl.loop.workspace import Workspace
from pytest_iterctl.plan.values import Value
from pytest_iterctl.store.lock import WorkTreeLock
from pytest_iterctl.work.own_tree import OwnTree
from pytest_iterctl.work.sandbox import find_bubblewrap
from pytest_iterctl.work.sandbox_check import cause_of, look_around

__all__ = ["go_inside", "main"]

_BY_THE_KERNEL = 128  # a terminal's signal, which all of its processes get
_SIGNALLED = 128
#: Started with -I and -S, Python takes no path from its environment, from where it is or from `.pth` files. What
#: bubblewrap itself says goes elsewhere, so that it can be understood; from here on it is the driver that speaks.
_START = """
import json, os, sys
facts = json.loads(sys.argv[1])
os.dup2(facts["stderr"], 2)
os.close(facts["stderr"])
sys.path[:], sys.prefix, sys.exec_prefix = facts["path"], facts["prefix"], facts["prefix"]
from pytest_iterctl.cli.inside import main
sys.exit(main(facts["order"]))
"""


class _Order(Value):
    """What the process inside is told; `words` and `lock` are descriptors, `back_to` is what a new copy is to hold."""

    words: int
    lock: int
    back_to: str
    as_json: bool
    quiet: int
    verbose: int


def go_inside(
    workspace: Workspace,
    manner: Manner,
    errand: Errand,
    tree: OwnTree,
    lock: WorkTreeLock,
    signals: Signals,
    *,
    back_to: str = "",
) -> int:
    program = find_bubblewrap()
    if program is None:
        raise SafetyError("bubblewrap (bwrap) was not found", hint="install it, or see docs/sandbox.md")
    workspace.place.report_directory(errand.run)
    with contextlib.ExitStack() as stack:
        words = stack.enter_context(_memory(errand.model_dump_json().encode()))
        told, telling = stack.enter_context(_pipe())
        heard, complaining = stack.enter_context(_pipe())
        stderr = stack.enter_context(_own_stderr())
        order = _Order(
            words=words,
            lock=lock.descriptor,
            back_to=back_to,
            as_json=manner.json,
            quiet=manner.quiet,
            verbose=manner.verbose,
        )
        facts = {"path": _own_path(tree), "prefix": sys.prefix, "stderr": stderr, "order": order.model_dump_json()}
        entering = tree.entering(program, Path.cwd(), workspace.place.reports)
        command = (
            *(*entering[:1], "--json-status-fd", str(telling), *entering[1:]),
            *(sys.executable, "-I", "-S", "-c", _START, json.dumps(facts)),
        )
        with _held_back(SIGNALS | {signal.SIGCHLD}):
            passed = (words, telling, stderr, lock.descriptor)
            process = subprocess.Popen(command, pass_fds=passed, stderr=complaining)
            lock.hand_over()
            began = _wait(process, told, signals)
        said = bytearray()
        _take(heard, said)
        return _outcome(workspace, errand, process.returncode, said.decode("utf-8", "replace").strip(), began=began)


def _outcome(workspace: Workspace, errand: Errand, code: int, said: str, *, began: bool) -> int:
    """The exit code of the process inside, if it came to one."""
    is_known = workspace.state(errand.run).started is not None
    again = f"go on with: iterctl resume {errand.run}" if is_known else "start it again"
    if not began and code >= 0:
        error = cause_of(said or f"it ended with exit code {code}", look_around()).error()
        raise SafetyError(error.message, hint=f"{error.hint}; then {again}")
    if said:
        complain(said)
    if code < 0 or code >= _SIGNALLED:
        number = -code if code < 0 else code - _SIGNALLED
        raise Interrupted(f"run {errand.run} was cut off: its driver was ended by signal {number}", hint=again)
    return code


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


def _wait(process: subprocess.Popen[bytes], told: int, signals: Signals) -> bool:
    """Until it has ended; whether what was to run inside ever began.

    What a terminal sends reaches it by itself, what somebody sends to us is handed on.
    """
    inner, said = 0, bytearray()
    while process.poll() is None:
        came = signal.sigwaitinfo(SIGNALS | {signal.SIGCHLD})
        if came.si_signo in SIGNALS:
            signals.asked = True
            if came.si_code != _BY_THE_KERNEL:
                inner = inner or _process_inside(told, said)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(inner or process.pid, came.si_signo)
    _take(told, said)
    return b'"exit-code"' in said


def _process_inside(told: int, said: bytearray) -> int:
    """The process that bubblewrap has started, as it says in its first line; 0 when it has said nothing yet."""
    _take(told, said)
    with contextlib.suppress(ValueError, KeyError, IndexError):
        return int(json.loads(said.splitlines()[0])["child-pid"])
    return 0


def _take(told: int, said: bytearray) -> None:
    with contextlib.suppress(BlockingIOError):
        said += os.read(told, 4096)


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
def _own_stderr() -> Iterator[int]:
    """Our stderr under another number, for a process whose own is somewhere else at first."""
    try:
        descriptor = os.dup(2)
    except OSError:  # we were started without one
        descriptor = os.open(os.devnull, os.O_WRONLY)
    try:
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
        os.close(writing)


def main(order: str) -> int:
    """The process inside."""
    return guarded(lambda: _main(_Order.model_validate_json(order)))


def _main(order: _Order) -> int:
    os.set_inheritable(order.lock, False)
    with Signals() as signals:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS | {signal.SIGCHLD})
        with os.fdopen(order.words, "rb") as file:
            errand = read_errand(file.read())
        workspace = Workspace(Path.cwd())
        tree = OwnTree.of(workspace.root, workspace.place.run_directory(errand.run))
        if tree is None or not tree.is_entered:
            raise SafetyError("the run's own tree is not in the place of the work tree, so nothing is run")
        if order.back_to:
            workspace.snapshots(errand.run).restore(order.back_to)
        manner = Manner(json=order.as_json, quiet=order.quiet, verbose=order.verbose)
        return perform(workspace, manner, errand, workspace.lock(errand.run, held=order.lock), signals)
