"""Test runs of the loops under test, in forks of a process that has imported pytest already.

A loop starts pytest half a dozen times, and each start spends a quarter of a second on imports that are the same every
time. Here a command that would start pytest goes to a waiting process instead, which forks: the fork gets the
arguments, the environment, the folder and the open files, and is from there on what the command would have been.
Whatever asks for something that an interpreter reads only when it starts, or for another interpreter, gets a process of
its own. What a fork leaves running when it ends is nobody's child, so tests about that switch this off:
`ITERCTL_TEST_COLD`.

Run as a program it is the waiting process; `warm_stand_in.py` is what a supervisor starts in place of the command.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import marshal
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

__all__ = ["COLD", "SOCKET", "install", "start", "warmed"]

SOCKET = "ITERCTL_TEST_WARM"
COLD = "ITERCTL_TEST_COLD"
_STAND_IN = str(Path(__file__).with_name("warm_stand_in.py"))
#: What a fork can take on although Python reads it at the start.
_TAKEN_ON = {"PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONNOUSERSITE", "PYTHONUSERBASE"}
_MOST_FILES = 32


# ── for the loops under test ─────────────────────────────────────────────────────────────────────────────────────────


def install(path: str) -> Callable[[], None]:
    """Let test runs of this process, and of those that fork from it, be forks of the process behind this socket.

    Returns what ends it.
    """
    from dataclasses import replace

    from pytest_iterctl.work import pytest_run
    from pytest_iterctl.work.process import Command, Finished, run

    def run_warm(command: Command, **options: Any) -> Finished:
        if options.get("walls") is not None:
            return run(command, **options)  # what is outside of them is out of its reach, as it must be
        return run(replace(command, arguments=warmed(path, command.arguments, command.environment)), **options)

    before = pytest_run.run  # type: ignore[attr-defined]  # nobody else's business, but ours
    pytest_run.run = run_warm  # type: ignore[attr-defined]  # as above

    def end() -> None:
        pytest_run.run = before  # type: ignore[attr-defined]  # as above

    return end


def warmed(path: str, command: tuple[str, ...], environment: Mapping[str, str]) -> tuple[str, ...]:
    """The command that has a fork do what this one would; the command itself where it takes a new interpreter."""
    ours = command[0] == sys.executable and COLD not in os.environ
    if not ours or any(name.startswith("PYTHON") and name not in _TAKEN_ON for name in environment):
        return command
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    if any(Path(path, f"{name}customize.py").exists() for path in paths if path for name in ("site", "user")):
        return command
    return (sys.executable, "-I", "-S", _STAND_IN, path, *command[1:])


def start() -> str:
    """Start the waiting process; it ends with this one. Returns the path of its socket."""
    folder = tempfile.mkdtemp(prefix="warm-")
    path = str(Path(folder, "socket"))
    names = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
    environment = {name: os.environ[name] for name in names if name in os.environ}
    process = subprocess.Popen(
        [sys.executable, __file__, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )

    def close() -> None:
        process.communicate()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(close)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return path


# ── the waiting process ──────────────────────────────────────────────────────────────────────────────────────────────


class Waiting:
    """Forks for each connection, and tells it how the fork ended."""

    def __init__(self, path: str) -> None:
        self.selector = selectors.DefaultSelector()
        self.forks: dict[int, socket.socket] = {}
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(path)
        self.server.listen(64)
        self.woken, self.wake = socket.socketpair()
        for each in (self.woken, self.wake):
            each.setblocking(False)
        signal.set_wakeup_fd(self.wake.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for readable in (self.server, self.woken, 0):
            self.selector.register(readable, selectors.EVENT_READ)

    def serve(self) -> dict[str, Any] | None:
        """In a fork: what it has been asked for. None when nobody needs any more of them."""
        while True:
            for key, _ in self.selector.select():
                if key.fileobj == 0:
                    return None
                if key.fileobj is self.woken:
                    self._reap()
                elif key.fileobj is self.server:
                    if (order := self._take(self.server.accept()[0])) is not None:
                        return order
                elif isinstance(key.fileobj, socket.socket):
                    self._hand_on(key.fileobj, key.data)

    def _take(self, connection: socket.socket) -> dict[str, Any] | None:
        head, files, _, _ = socket.recv_fds(connection, 4, _MOST_FILES)
        length = int.from_bytes(head, "big")
        data = b""
        while len(data) < length:
            data += connection.recv(length - len(data))
        child = os.fork()
        if child:
            for each in files:
                os.close(each)
            self.forks[child] = connection
            self.selector.register(connection, selectors.EVENT_READ, child)
            return None
        order: dict[str, Any] = marshal.loads(data)
        self._leave(connection)
        _take_over(files, order["files"])
        return order

    def _leave(self, connection: socket.socket) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.selector.close()
        for each in (self.server, self.woken, self.wake, connection, *self.forks.values()):
            each.close()
        os.setsid()

    def _hand_on(self, connection: socket.socket, child: int) -> None:
        """A signal for the fork; the end of the connection is the end of whoever stood for it."""
        try:
            given = connection.recv(1)
        except OSError:
            given = b""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, given[0] if given else signal.SIGKILL)
        if not given:
            self.selector.unregister(connection)

    def _reap(self) -> None:
        self.woken.recv(4096)
        while self.forks:
            child, status = os.waitpid(-1, os.WNOHANG)
            if not child:
                return
            connection = self.forks.pop(child)
            if connection in self.selector.get_map():
                self.selector.unregister(connection)
            with contextlib.suppress(OSError):
                connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
            connection.close()


def _take_over(files: list[int], numbers: list[int]) -> None:
    """The files under the numbers that they had; none of ours stays open."""
    high = [_above(each) for each in files]
    for each, number in zip(high, numbers, strict=True):
        os.dup2(each, number)
    for each in high:
        os.close(each)


def _above(descriptor: int) -> int:
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD, 512)
    os.close(descriptor)
    return moved


def be_the_command(order: dict[str, Any], path: list[str]) -> NoReturn:
    """`python witness/__main__.py …` or `python -m pytest …`, as far as anybody in there can tell."""
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    script, *arguments = order["arguments"]
    is_module = script == "-m"
    if is_module:
        script = str(Path(sys.modules["pytest"].__path__[0], "__main__.py"))
        arguments = arguments[1:]
    extra = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    first = Path.cwd() if is_module else Path(script).parent
    sys.path[:] = [str(first), *map(os.path.abspath, extra), *path]
    sys.argv[:] = [script, *arguments]
    sys.pycache_prefix = os.environ.get("PYTHONPYCACHEPREFIX") or None
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tempfile.tempdir = None
    importlib.invalidate_caches()
    module = types.ModuleType("__main__")
    vars(module).update(__file__=script, __builtins__=__builtins__)
    sys.modules["__main__"] = module
    code = compile(Path(script).read_bytes(), script, "exec")
    exec(code, vars(module))
    sys.exit(0)


def _main(socket_path: str) -> None:
    del sys.path[0]
    path = list(sys.path)
    config = importlib.import_module("_pytest.config")
    for name in config.default_plugins:
        importlib.import_module(f"_pytest.{name}")
    waiting = Waiting(socket_path)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    gc.collect()
    gc.freeze()
    order = waiting.serve()
    if order is not None:
        be_the_command(order, path)


if __name__ == "__main__":
    _main(sys.argv[1])
