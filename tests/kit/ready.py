"""`iterctl` and `pytest`, started already: a process that has imported all of them forks once for each command.

Each command still is a process of its own, with its own environment, folder and streams; only the half second that
Python needs to import everything is paid once. Run as a program it is that process: it takes one line of JSON for each
command on stdin, and answers with one.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

import pytest

from pytest_iterctl import cli
from pytest_iterctl.cli.entry import run_command_line
from tests.kit import crashing, warm

__all__ = ["Ready", "ready", "socket_of_forks"]

_TOO_LONG = 124


class Ready:
    """The waiting process."""

    def __init__(self) -> None:
        # What the developer measures or has set is in the environment of each command, not in this one's.
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.kit.ready"],
            cwd=Path(__file__).parents[2],
            env={**os.environ, warm.SOCKET: socket_of_forks()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        atexit.register(self.close)

    def run(
        self,
        program: str,
        arguments: tuple[str, ...],
        *,
        cwd: Path,
        environment: dict[str, str],
        stdin: str = "",
        crash: tuple[str, int] | None = None,
        timeout: float = 120,
    ) -> tuple[int, str, str]:
        """Exit code (negative for a signal), stdout and stderr. `crash` is where to kill it: see `crashing.py`."""
        with tempfile.TemporaryDirectory(prefix="ready-") as folder:
            files = [Path(folder, name) for name in ("in", "out", "err")]
            files[0].write_text(stdin)
            order = {
                "program": program,
                "arguments": arguments,
                "cwd": str(cwd),
                "environment": environment,
                "files": list(map(str, files)),
                "crash": crash,
                "timeout": timeout,
            }
            sending, taking = self.process.stdin, self.process.stdout
            assert sending is not None
            assert taking is not None
            sending.write(json.dumps(order).encode("ascii") + b"\n")
            sending.flush()
            code = json.loads(taking.readline())
            if code == _TOO_LONG:
                raise TimeoutError(f"{program} {' '.join(arguments)}\n{files[1].read_text()}\n{files[2].read_text()}")
            return code, files[1].read_text(), files[2].read_text()

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        self.process.wait()


@cache
def socket_of_forks() -> str:
    """Where this process, and all that it starts, has its test runs forked."""
    return warm.start()


@cache
def ready() -> Ready:
    """One for each process that runs tests."""
    return Ready()


def iterctl(arguments: list[str]) -> int:
    sys.argv = ["iterctl", *arguments]
    return run_command_line(arguments)


def pytest_as_module(arguments: list[str]) -> int:
    """`python -m pytest`."""
    sys.argv = [str(Path(pytest.__file__).with_name("__main__.py")), *arguments]
    sys.path[0] = str(Path.cwd())
    return int(pytest.main())


PROGRAMS = {"iterctl": iterctl, "pytest": pytest_as_module}


def serve(orders: IO[str]) -> None:
    for path in sorted(Path(cli.__file__).parent.glob("*.py")):
        importlib.import_module(f"{cli.__name__}.{path.stem}")  # what a command would import by itself

    if socket := os.environ.get(warm.SOCKET):
        warm.install(socket)
    answers = os.fdopen(os.dup(1), "w")
    for line in orders:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            be_the_command(order)
        signal.signal(signal.SIGALRM, lambda *_, child=child: os.kill(child, signal.SIGKILL))
        signal.setitimer(signal.ITIMER_REAL, order["timeout"])
        _, status = os.waitpid(child, 0)
        left = signal.setitimer(signal.ITIMER_REAL, 0)[0]
        code = os.waitstatus_to_exitcode(status)
        answers.write(f"{_TOO_LONG if left <= 0 else code}\n")
        answers.flush()


def be_the_command(order: dict[str, Any]) -> NoReturn:
    code = 99
    try:
        os.chdir(order["cwd"])
        os.environ.clear()
        os.environ.update(order["environment"])
        for number, path in enumerate(order["files"]):
            descriptor = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT, 0o600)
            os.dup2(descriptor, number)
            os.close(descriptor)
        for descriptor in range(3, 32):
            try:
                os.close(descriptor)
            except OSError:
                continue
        sys.stdin = os.fdopen(0, "r", encoding="utf-8", closefd=False)
        if order["crash"] is not None:
            crashing.install(*order["crash"])
        code = PROGRAMS[order["program"]](order["arguments"])
    except BaseException:  # noqa: BLE001 - a traceback is what a process would leave
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(sys.stdin)
