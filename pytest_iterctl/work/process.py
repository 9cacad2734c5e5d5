"""Runs one command to its end, with bounded output, a time limit and a way to stop it; nothing of it outlives the call.

The command is a grandchild: `supervisor.py` stands in between and ends the whole tree on a timeout, on request, and
when this process dies. The tree is known to be gone when the supervisor has exited with a result.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import select
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from pytest_iterctl.errors import SafetyError, UsageError
from pytest_iterctl.text import one_line
from pytest_iterctl.work import supervisor
from pytest_iterctl.work.leftovers import Identity, end_tagged, identify
from pytest_iterctl.work.output import Bounded, Capture

__all__ = ["Capture", "Command", "EndedBy", "Finished", "Walls", "WallsError", "has_begun", "run"]

#: What puts a command inside something: a sandbox, as long as the context is open.
Walls = Callable[["Command"], AbstractContextManager["Command"]]
EndedBy = Literal["exit", "timeout", "stop", "lifeline", "lost"]

SUPERVISOR = Path(__file__).with_name("supervisor.py")
GRACES = (0.5, 0.5, 0.2)  # after INT, after TERM, for what outlived the command
SUPERVISOR_PATIENCE = 10.0  # beyond the moment when a healthy supervisor must have given up
KEEP = 256 * 1024
CHUNK = 64 * 1024
LOOK_INTERVAL = 0.5
DRAIN_LIMIT = 1.0
LOWEST_FREE = 3
SIGNALLED = 128
#: What bubblewrap says when the walls stand, and the program in them can't be started.
NO_PROGRAM = "bwrap: execvp "
#: A command that prints a dot at a time would wake us for each one, and lose the time that we take.
GATHER_MS = 20
DRIBBLE = 4 * 1024


@dataclass(frozen=True, slots=True)
class Command:
    """What to run. The environment is all that the command gets, except for the call's tag `ITERCTL_CALL`.

    `told` is a pipe to read when it has ended: there, the walls around it say how the command inside of them ended.
    """

    arguments: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str]
    stdin: bytes = b""
    timeout: float | None = None
    pass_fds: tuple[int, ...] = ()
    told: int | None = None


class WallsError(SafetyError):
    """The walls could not be put up, so the command never began; the message is what they said of it."""


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended.

    `exit_code` is negative for a signal, None when the command never started (`error` says why) or when its supervisor
    was lost and nobody knows. `leftovers` are the processes that outlived the command and were ended; `survivors` are
    those that nothing could end (another user's, or stuck in the kernel).
    """

    exit_code: int | None
    ended_by: EndedBy
    stdout: Capture = field(default_factory=Capture)
    stderr: Capture = field(default_factory=Capture)
    seconds: float = 0.0
    leftovers: int = 0
    error: str = ""
    survivors: int = 0
    max_rss_kb: int = 0


def run(
    command: Command,
    *,
    tick: Callable[[float], bool] | None = None,
    tick_interval: float = 0.1,
    on_output: Callable[[str, bytes], None] | None = None,
    on_start: Callable[[int], None] | None = None,
    keep: int = KEEP,
    walls: Walls | None = None,
) -> Finished:
    """Run a command and say how it ended; a command that cannot start is a result, not an exception.

    `tick(elapsed)` is called about every `tick_interval` seconds and asks for a stop by returning True. `on_output`
    gets the stream's name and each piece as it comes, `on_start` the id of the supervisor's process, which lives as
    long as anything of the command does. When one of them raises, or Ctrl-C comes, the tree is ended first. With
    `walls`, the command runs inside of them, as they wrap it; where they don't stand, that is no result (WallsError).
    """
    if walls is not None:
        with contextlib.ExitStack() as stack:
            try:
                inside = stack.enter_context(walls(command))
            except UsageError as error:
                return Finished(
                    exit_code=None, ended_by="exit", error=": ".join(filter(None, (error.message, error.hint)))
                )
            ended = run(
                inside, tick=tick, tick_interval=tick_interval, on_output=on_output, on_start=on_start, keep=keep
            )
            return _as_without_walls(ended, began=inside.told is None or has_begun(inside.told))
    if not sys.platform.startswith("linux"):
        raise UsageError("commands can only be supervised on Linux", hint="run it in a Linux machine or container")
    if any(fd < LOWEST_FREE for fd in command.pass_fds):
        raise ValueError("the standard streams cannot be passed on as extra file descriptors")
    call = _Call(command, on_output=on_output, keep=keep)
    try:
        with contextlib.suppress(OSError):
            # When a supervisor is killed, what it watched over then comes to us instead of disappearing from sight.
            supervisor.become_subreaper()
        call.start()
        if on_start is not None:
            on_start(call.pid)
        call.watch(tick, tick_interval)
        return call.finish()
    except _NotStartedError as error:
        return Finished(exit_code=None, ended_by="exit", error=str(error))
    except BaseException:
        call.end()
        raise
    finally:
        call.close()


def _as_without_walls(ended: Finished, *, began: bool) -> Finished:
    """How the command itself ended: 128 + N is a signal's number. One that never began is not to blame for it."""
    code = ended.exit_code
    if not began and ended.ended_by == "exit" and code is not None and code >= 0:
        said = ended.stderr.text.strip() or f"it ended with exit code {code}"
        if said.startswith(NO_PROGRAM):
            return replace(
                ended, exit_code=None, error=f"could not start: {one_line(said.removeprefix(NO_PROGRAM), 200)}"
            )
        raise WallsError(said)
    if code is not None and SIGNALLED < code <= SIGNALLED + signal.NSIG:
        return replace(ended, exit_code=SIGNALLED - code)
    return ended


def has_begun(told: int) -> bool:
    """Whether bubblewrap says in this pipe how its command ended: of one that it could not start, it says nothing."""
    with contextlib.suppress(BlockingIOError):
        return b'"exit-code"' in os.read(told, CHUNK)
    return False


class _NotStartedError(Exception):
    pass


class _Descriptors(set[int]):
    """Our open file descriptors, each closed exactly once."""

    def own(self, fd: int) -> int:
        if fd < LOWEST_FREE:
            # We were started without standard streams: these numbers have a meaning in the supervisor.
            low, fd = fd, fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, LOWEST_FREE)
            os.close(low)
        self.add(fd)
        return fd

    def pipe(self) -> tuple[int, int]:
        reader, writer = os.pipe()
        return self.own(reader), self.own(writer)

    def close(self, *fds: int) -> None:
        for fd in fds:
            if fd in self:
                self.discard(fd)
                os.close(fd)


class _Call:
    """One command on its way: its supervisor, and our ends of the pipes."""

    def __init__(self, command: Command, *, on_output: Callable[[str, bytes], None] | None, keep: int) -> None:
        self.command = command
        self.on_output = on_output
        self.tag = secrets.token_hex(16)
        self.descriptors = _Descriptors()
        self.selector = selectors.DefaultSelector()
        self.captures = {"stdout": Bounded(keep), "stderr": Bounded(keep)}
        self.readers: dict[int, str] = {}
        self.input = memoryview(command.stdin)
        self.taken = 0
        self.result = bytearray()
        self.result_open = True
        self.end_is_near = select.poll()
        self.lifeline = -1
        self.process: subprocess.Popen[bytes] | None = None
        self.known: set[Identity] = set()
        self.started = time.monotonic()
        self.give_up_at = float("inf")

    @property
    def pid(self) -> int:
        return -1 if self.process is None else self.process.pid

    def start(self) -> None:
        """Start the supervisor, and close our copies of all that belongs to it and to the command."""
        lifeline, self.lifeline = self.descriptors.pipe()
        result_reader, result = self.descriptors.pipe()
        streams = (self._open_input(), *(self._open_output(name) for name in self.captures))
        orders = self._write_orders(streams)
        self._register(result_reader, self._read_result)
        self.end_is_near.register(result_reader, select.POLLIN)
        self.started = time.monotonic()
        if self.command.timeout is not None:
            self._expect_end(self.command.timeout)
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(SUPERVISOR), str(orders)],
                stdin=lifeline,
                stdout=result,
                stderr=result,  # a supervisor that fails says why in the place of its result
                cwd="/",
                env=self._supervisor_environment(),
                pass_fds=(orders, *streams, *self.command.pass_fds),
                start_new_session=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise _NotStartedError(f"could not start the supervisor: {error}") from error
        self.descriptors.close(lifeline, result, orders, *streams)

    def _open_input(self) -> int:
        if not self.input:
            return self.descriptors.own(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        reader, writer = self.descriptors.pipe()
        self._register(writer, self._write_input, selectors.EVENT_WRITE)
        return reader

    def _open_output(self, name: str) -> int:
        reader, writer = self.descriptors.pipe()
        self.readers[reader] = name
        self._register(reader, self._read_output)
        return writer

    def _write_orders(self, streams: tuple[int, ...]) -> int:
        orders = supervisor.Orders(
            driver=os.getpid(),
            streams=streams,
            pass_fds=self.command.pass_fds,
            timeout=self.command.timeout,
            graces=GRACES,
            cwd=_encode("working directory", str(self.command.cwd)),
            arguments=_encode_arguments(self.command.arguments),
            environment=_encode_environment({**self.command.environment, "ITERCTL_CALL": self.tag}),
        )
        fd = self.descriptors.own(os.memfd_create("iterctl-orders"))
        with os.fdopen(fd, "wb", closefd=False) as file:
            file.write(orders.dump())
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    def _supervisor_environment(self) -> dict[str, str]:
        """Tags, by which it is found when this process is gone, and no secrets."""
        tags = {name: value for name, value in self.command.environment.items() if name.startswith("ITERCTL_")}
        library_path = os.environ.get("LD_LIBRARY_PATH")  # an interpreter with a shared library may need it
        return {**tags, "ITERCTL_CALL": self.tag, **({"LD_LIBRARY_PATH": library_path} if library_path else {})}

    def _register(self, fd: int, action: Callable[[int], bool], event: int = selectors.EVENT_READ) -> None:
        os.set_blocking(fd, False)
        self.selector.register(fd, event, action)

    def _unregister(self, fd: int) -> bool:
        self.selector.unregister(fd)
        self.descriptors.close(fd)
        return False

    def _write_input(self, fd: int) -> bool:
        try:
            self.input = self.input[os.write(fd, self.input[:CHUNK]) :]
        except BlockingIOError:
            return False
        except OSError:  # the command closed its input, which is its right
            return self._unregister(fd)
        return bool(self.input) or self._unregister(fd)

    def _read_output(self, fd: int) -> bool:
        """Take one piece; False when there is none now."""
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            return self._unregister(fd)
        name = self.readers[fd]
        self.taken += len(data)
        self.captures[name].add(data)
        if self.on_output is not None:
            self.on_output(name, data)
        return True

    def _read_result(self, fd: int) -> bool:
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return False
        self.result = (self.result + data)[-CHUNK:]
        if not data:
            self.result_open = False
            return self._unregister(fd)
        return True

    def watch(self, tick: Callable[[float], bool] | None = None, tick_interval: float = LOOK_INTERVAL) -> None:
        """Carry bytes until the supervisor has exited."""
        stopping = False
        next_tick = time.monotonic()
        while self._supervisor_lives():
            pause = min(max(next_tick - time.monotonic(), 0.0), LOOK_INTERVAL) if tick else LOOK_INTERVAL
            taken = self.taken
            for key, _ in self.selector.select(pause):
                key.data(key.fd)
            if 0 < self.taken - taken < DRIBBLE:
                self._gather()
            now = time.monotonic()
            if now > self.give_up_at:
                self._abandon_supervisor()
            if tick is not None and now >= next_tick:
                next_tick = now + tick_interval
                if tick(now - self.started) and not stopping:
                    stopping = True
                    self.stop()

    def _gather(self) -> None:
        """Let a little more output come together; the end of the command is not waited past."""
        if self.result_open and not self.input:
            self.end_is_near.poll(GATHER_MS)

    def _supervisor_lives(self) -> bool:
        if self.process is None:
            return False
        if self.result_open:
            return self.process.poll() is None
        try:
            self.process.wait(LOOK_INTERVAL)
        except subprocess.TimeoutExpired:
            return True
        return False

    def _expect_end(self, seconds: float) -> None:
        patience = seconds + sum(GRACES) + supervisor.KILL_PATIENCE + SUPERVISOR_PATIENCE
        self.give_up_at = min(self.give_up_at, time.monotonic() + patience)

    def _abandon_supervisor(self) -> None:
        """It was stopped, or hangs: what it watched over is now ours to end."""
        self.give_up_at = float("inf")
        if self.process is not None:
            self.known = identify(supervisor.descendants([self.process.pid]))
            self.process.kill()

    def stop(self) -> None:
        """Ask for the end of the tree; asking again skips the graces."""
        self._expect_end(0)
        try:
            os.write(self.lifeline, b"s")
        except OSError:  # the supervisor is gone
            return

    def end(self) -> None:
        """After an exception: end the tree and wait for it."""
        self.on_output = None
        if self.process is None:
            return
        try:
            self.stop()
            self.watch()
        except KeyboardInterrupt:
            self.stop()
            self.watch()
            raise
        finally:
            if self.process.poll() is not None and self._parse_result() is None:
                self._end_lost()

    def finish(self) -> Finished:
        """How it ended, once the supervisor has exited."""
        result = self._parse_result()
        lost = self._end_lost() if result is None else 0
        self._drain()
        stdout, stderr = self.captures["stdout"].capture(), self.captures["stderr"].capture()
        if result is not None:
            return replace(result, stdout=stdout, stderr=stderr)
        said = self.result.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return Finished(
            exit_code=None,
            ended_by="lost",
            stdout=stdout,
            stderr=stderr,
            seconds=time.monotonic() - self.started,
            leftovers=lost,
            error=f"the supervisor failed: {said}" if said else "",
        )

    def _parse_result(self) -> Finished | None:
        """The supervisor's last line; None when it was killed before it could write one."""
        for key in list(self.selector.get_map().values()):
            while key.data == self._read_result and self._read_result(key.fd):
                pass
        if self.process is None or self.process.returncode != 0:
            return None  # a line that somebody else slipped into the pipe does not count
        try:
            values = json.loads(self.result.decode("utf-8", "replace").strip().rpartition("\n")[2])
            code, number = values["exit"], values["signal"]
            return Finished(
                exit_code=code if number is None else -int(number),
                ended_by=values["ended_by"],
                seconds=float(values["seconds"]),
                leftovers=int(values["leftovers"]),
                error=values["error"] or "",
                survivors=int(values["survivors"]),
                max_rss_kb=int(values["maxrss_kb"]),
            )
        except (ValueError, TypeError, KeyError):
            return None

    def _end_lost(self) -> int:
        """End what a lost supervisor left behind; it has come to us, so we also reap it."""
        ended = end_tagged(f"ITERCTL_CALL={self.tag}", also=self.known)
        for pid, _ in ended:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:  # its own parent, or init, reaps it
                continue
        return len(ended)

    def _drain(self) -> None:
        """Take what is still in the pipes; nobody can be writing any more, and should somebody be, we don't wait."""
        deadline = time.monotonic() + DRAIN_LIMIT
        for fd in [fd for fd in self.readers if fd in self.descriptors]:
            while self._read_output(fd) and time.monotonic() < deadline:
                pass

    def close(self) -> None:
        # The lifeline is among them: whatever still runs will now end.
        self.descriptors.close(*list(self.descriptors))
        self.selector.close()
        if self.process is None:
            return
        try:
            self.process.wait(SUPERVISOR_PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _encode_arguments(arguments: tuple[str, ...]) -> tuple[bytes, ...]:
    if not arguments:
        raise _NotStartedError("could not start: no command is given")
    return tuple(_encode("argument", argument) for argument in arguments)


def _encode_environment(environment: Mapping[str, str]) -> dict[bytes, bytes]:
    for name in environment:
        if not name or "=" in name:
            raise _NotStartedError(f"could not start: {name!r} is no name for an environment variable")
    return {_encode("variable", name): _encode(f"variable {name}", value) for name, value in environment.items()}


def _encode(what: str, text: str) -> bytes:
    try:
        data = os.fsencode(text)
    except UnicodeEncodeError as error:
        raise _NotStartedError(f"could not start: {what} cannot be encoded: {error.reason}") from error
    if b"\0" in data:
        raise _NotStartedError(f"could not start: {what} holds a NUL byte")
    return data
