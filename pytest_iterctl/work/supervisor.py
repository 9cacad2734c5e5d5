"""Stands between the driver and one command, so that the command's whole process tree ends when it must.

Run as `python -I -S supervisor.py ORDERS` by `work.process`, once per command. Standard library only, and as little of
it as possible: every command pays for this file's start. Standard input is the lifeline (end of file: the driver is
dead; a byte: stop; a second one: at once), standard output takes one line of JSON at the end, the file descriptor
ORDERS says what to run.

Being a child subreaper, it inherits every descendant that loses its parent, whatever session, group or environment that
descendant gave itself. So "I have no children left" means "the tree is gone", and nothing else has to be trusted.
"""

from __future__ import annotations

import errno
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterable, Iterator
    from typing import NoReturn
else:
    import _signal as signal  # the same functions; signal.py builds enumerations on top, a third of our start-up time

__all__ = ["KILL_PATIENCE", "Orders", "become_subreaper", "descendants", "send"]

PR_SET_CHILD_SUBREAPER = 36
LIFELINE, RESULT = 0, 1
SWEEP_INTERVAL = 0.02
REAP_AT_ONCE = 500
LONGEST_POLL = 3600.0  # poll() counts milliseconds in an int
KILL_PATIENCE = 10.0  # what is still there then belongs to another user or hangs in the kernel


class Orders:
    """What to run and how, as the driver wrote it: fields that cannot hold a NUL byte, with NUL bytes in between."""

    def __init__(
        self,
        *,
        driver: int,
        streams: tuple[int, ...],
        pass_fds: tuple[int, ...],
        timeout: float | None,
        graces: tuple[float, float, float],
        cwd: bytes,
        arguments: tuple[bytes, ...],
        environment: dict[bytes, bytes],
    ) -> None:
        self.driver = driver
        self.streams = streams
        self.pass_fds = pass_fds
        self.timeout = timeout
        self.interrupt_grace, self.terminate_grace, self.leftover_grace = graces
        self.cwd = cwd
        self.arguments = arguments
        self.environment = environment

    def dump(self) -> bytes:
        graces = (self.interrupt_grace, self.terminate_grace, self.leftover_grace)
        head = (
            str(self.driver),
            " ".join(map(str, self.streams)),
            " ".join(map(str, self.pass_fds)),
            "" if self.timeout is None else repr(self.timeout),
            " ".join(map(repr, graces)),
            str(len(self.arguments)),
        )
        pairs = [name + b"=" + value for name, value in self.environment.items()]
        return b"\0".join([*(field.encode() for field in head), self.cwd, *self.arguments, *pairs])

    @classmethod
    def load(cls, data: bytes) -> Orders:
        driver, streams, pass_fds, timeout, graces, count, cwd, *rest = data.split(b"\0")
        interrupt, terminate, leftover = map(float, graces.split())
        pairs = [pair.partition(b"=") for pair in rest[int(count) :]]
        return cls(
            driver=int(driver),
            streams=tuple(map(int, streams.split())),
            pass_fds=tuple(map(int, pass_fds.split())),
            timeout=float(timeout) if timeout else None,
            graces=(interrupt, terminate, leftover),
            cwd=cwd,
            arguments=tuple(rest[: int(count)]),
            environment={name: value for name, _, value in pairs},
        )


def become_subreaper() -> None:
    """Make this process inherit the descendants that lose their parent."""
    import ctypes  # noqa: PLC0415 - the driver imports this module, and only a run needs ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _children(pid: int) -> Iterator[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - pathlib is slow to import
    except OSError:
        return
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:  # noqa: PTH123 - pathlib is slow to import
                yield from map(int, file.read().split())
        except OSError:
            continue


def _parents() -> Iterator[tuple[int, int]]:
    """(process, parent) of everything that runs, for kernels that list no children."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib is slow to import
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - pathlib is slow to import
                    yield int(name), int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue


def descendants(roots: Iterable[int]) -> Iterator[int]:
    """All that descends from these processes, parents before children, each told as soon as it is found."""
    queue = list(roots)
    found = set(queue)
    listed = os.path.exists(f"/proc/self/task/{os.getpid()}/children")  # noqa: PTH110 - pathlib is slow to import
    by_parent: dict[int, list[int]] = {}
    for pid, parent in () if listed else _parents():
        by_parent.setdefault(parent, []).append(pid)
    for pid in queue:  # grows while it is walked
        for child in _children(pid) if listed else by_parent.get(pid, ()):
            if child not in found:
                found.add(child)
                queue.append(child)
                yield child


def send(pid: int, number: int) -> None:
    """Signal a process, or with a negative id its whole group."""
    try:
        os.kill(pid, number)
    except OSError:  # gone already, or another user's
        return


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib is slow to import
            return file.read().rpartition(b")")[2].split()[0] in {b"Z", b"X"}
    except OSError:
        return True


class Tree:
    """The command and all that descends from it."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self.command = 0
        self.status: int | None = None
        self.gone = False
        self.max_rss = 0
        self.started = time.monotonic()
        self.ended: float | None = None
        self.requests = 0
        self.driver_lost = False
        self.wakeup, wakeup_writer = os.pipe()
        os.set_blocking(self.wakeup, False)
        os.set_blocking(wakeup_writer, False)
        signal.set_wakeup_fd(wakeup_writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        self.poll = select.poll()
        self.poll.register(self.wakeup, select.POLLIN)
        self.poll.register(LIFELINE, select.POLLIN)
        self.driver_fd = -1
        try:
            # A child that the driver forked without exec holds a copy of the lifeline; this one is right even then.
            self.driver_fd = os.pidfd_open(orders.driver)
            self.poll.register(self.driver_fd, select.POLLIN)
        except (OSError, AttributeError):  # an old kernel: the lifeline alone
            pass

    def start(self) -> str:
        """Start the command; '' or why it could not start."""
        reader, writer = os.pipe()
        self.started = time.monotonic()
        try:
            self.command = os.fork()
        except OSError as error:
            return f"could not start: {error.strerror}"
        if self.command == 0:
            become_command(self.orders, writer)
        os.close(writer)
        for fd in {*self.orders.streams, *self.orders.pass_fds}:
            os.close(fd)
        with os.fdopen(reader, "rb") as file:
            return file.read().decode("utf-8", "replace")

    def reap(self) -> bool:
        """Bury the dead; True when more may be waiting, because a fork bomb can make them faster than we bury them."""
        try:
            for _ in range(REAP_AT_ONCE):
                pid, status, usage = os.wait4(-1, os.WNOHANG)
                if pid == 0:
                    return False
                self.max_rss = max(self.max_rss, usage.ru_maxrss)
                if pid == self.command:
                    self.status = status
                    self.ended = time.monotonic()
        except ChildProcessError:
            self.gone = True
            return False
        return True

    def wait(self, until: float | None, *, for_command: bool = False, for_requests: int | None = None) -> bool:
        """Sleep until the tree (or the command alone) is gone or there are more requests to stop than these."""
        while True:
            more = self.reap()
            if self.gone or (for_command and self.status is not None):
                return True
            if for_requests is not None and (self.requests > for_requests or self.driver_lost):
                return False
            remaining = None if until is None else until - time.monotonic()
            if remaining is not None and remaining <= 0:
                return False
            pause = 0 if more else None if remaining is None else min(remaining, LONGEST_POLL) * 1000 + 1
            for fd, _ in self.poll.poll(pause):
                self.hear(fd)

    def hear(self, fd: int) -> None:
        if fd == self.wakeup:
            os.read(fd, 4096)
            return
        data = os.read(fd, 16) if fd == LIFELINE else b""
        self.requests += len(data)
        if not data:
            self.driver_lost = True
            self.poll.unregister(fd)

    def end(self) -> int:
        """Interrupt, terminate, kill; the number of processes that withstood all of it."""
        requests = max(self.requests, 1)
        send(-self.command, signal.SIGINT)
        if not self.pause(self.orders.interrupt_grace, requests) and self.requests <= requests:
            for pid in descendants([os.getpid()]):
                send(pid, signal.SIGTERM)
            self.pause(self.orders.terminate_grace, requests)
        return self.kill()

    def pause(self, seconds: float, requests: int) -> bool:
        """Give the tree time to leave by itself, unless somebody becomes impatient."""
        until = time.monotonic() + seconds
        while self.requests <= requests and time.monotonic() < until:
            if self.wait(until, for_requests=None if self.driver_lost else requests):
                return True
        return self.gone

    def end_leftovers(self) -> tuple[int, int]:
        """End what outlived the command: how many these were, and how many withstood."""
        # Helpers that live on a pipe from their parent are about to leave; they are no leftovers.
        if self.wait(time.monotonic() + self.orders.leftover_grace):
            return 0, 0
        left = [pid for pid in descendants([os.getpid()]) if not _is_zombie(pid)]
        for pid in left:
            send(pid, signal.SIGTERM)
        if self.wait(time.monotonic() + self.orders.leftover_grace):
            return len(left), 0
        return len(left), self.kill()

    def freeze(self, deadline: float) -> None:
        """Stop one process after the other until no new one appears, so that nobody is left to start a successor.

        A whole process group is stopped at once: the kernel lets no fork slip through that, which ends most fork bombs.
        """
        stopped: set[int] = set()
        groups = {0, 1, os.getpgrp()}
        while time.monotonic() < deadline:
            self.reap()
            count = len(stopped)
            for pid in descendants([os.getpid()]):
                if pid in stopped:
                    continue
                stopped.add(pid)
                send(pid, signal.SIGSTOP)
                try:
                    group = os.getpgid(pid)
                except OSError:  # gone already
                    continue
                if group not in groups:
                    groups.add(group)
                    send(-group, signal.SIGSTOP)
            if len(stopped) == count:
                return

    def kill(self) -> int:
        deadline = time.monotonic() + KILL_PATIENCE
        while not self.gone and time.monotonic() < deadline:
            self.freeze(deadline)
            # Looked up again: an id that we stopped is somebody else's by now if its owner had just exited.
            for pid in descendants([os.getpid()]):
                send(pid, signal.SIGKILL)
            self.wait(time.monotonic() + SWEEP_INTERVAL)
        return 0 if self.gone else len([pid for pid in descendants([os.getpid()]) if not _is_zombie(pid)])


def become_command(orders: Orders, errors: int) -> NoReturn:
    """In the forked child: turn into the command, or say why not on the pipe of errors; never returns."""
    message = ""
    try:
        os.setsid()
        for number in (
            signal.SIGINT,
            signal.SIGQUIT,
            signal.SIGHUP,
            signal.SIGTERM,
            signal.SIGPIPE,
            signal.SIGXFSZ,
            signal.SIGCHLD,
        ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for target, fd in enumerate(orders.streams):
            os.dup2(fd, target)
            os.set_inheritable(fd, False)
        try:
            os.chdir(orders.cwd)
        except OSError as error:
            message = f"working directory {os.fsdecode(orders.cwd)}: {error.strerror}"
        else:
            message = execute(orders.arguments, orders.environment)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent's code must never go on in the child
        message = f"{type(error).__name__}: {error}"
    finally:
        os.write(errors, message.encode("utf-8", "replace")[:4096])
        os._exit(127)


def execute(arguments: tuple[bytes, ...], environment: dict[bytes, bytes]) -> str:
    """Replace this process by the command; returns only to say why that failed."""
    program = arguments[0]
    folders = environment.get(b"PATH", os.defpath.encode()).split(b":")
    paths = [program] if b"/" in program else [(folder or b".") + b"/" + program for folder in folders]
    reasons = []
    for path in paths:
        try:
            os.execve(path, arguments, environment)  # noqa: S606 - no shell is the point
        except OSError as error:
            if os.path.exists(path) or b"/" in program:  # noqa: PTH110 - pathlib is slow to import
                reasons.append(_explain(path, error))
    return reasons[0] if reasons else f"command not found: {os.fsdecode(program)}: {os.strerror(errno.ENOENT)}"


def _explain(path: bytes, error: OSError) -> str:
    name = os.fsdecode(path)
    if error.errno == errno.ENOENT and os.path.exists(path):  # noqa: PTH110 - pathlib is slow to import
        return f"not executable: {name}: its interpreter does not exist"
    kinds = {errno.ENOENT: "command not found", errno.EACCES: "not executable", errno.ENOEXEC: "not executable"}
    return f"{kinds.get(error.errno or 0, 'could not start')}: {name}: {error.strerror}"


def supervise(orders: Orders) -> dict[str, str | int | float | None]:
    """Run the command to its end, whichever end that is."""
    become_subreaper()
    tree = Tree(orders)
    error = tree.start()
    deadline = None if orders.timeout is None else tree.started + orders.timeout
    ended_by, leftovers, survivors = "exit", 0, 0
    if error:
        tree.wait(None)
    elif tree.wait(deadline, for_command=True, for_requests=0):
        leftovers, survivors = tree.end_leftovers()
    else:
        ended_by = "lifeline" if tree.driver_lost else "stop" if tree.requests else "timeout"
        survivors = tree.end()
    code = None if error or tree.status is None else os.waitstatus_to_exitcode(tree.status)
    return {
        "exit": code if code is not None and code >= 0 else None,
        "signal": -code if code is not None and code < 0 else None,
        "ended_by": ended_by,
        "leftovers": leftovers,
        "survivors": survivors,
        "seconds": round((tree.ended or time.monotonic()) - tree.started, 6),
        "maxrss_kb": tree.max_rss,
        "error": error or None,
    }


def main() -> None:
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with os.fdopen(int(sys.argv[1]), "rb") as file:
        orders = Orders.load(file.read())
    fields = supervise(orders).items()
    line = ", ".join(f'"{name}": {_json(value)}' for name, value in fields)
    try:
        os.write(RESULT, b"{" + line.encode("utf-8", "replace") + b"}\n")
    except OSError:  # nobody is left to read it
        return


def _json(value: str | float | None) -> str:
    """One value of the result; the json module costs more than all the rest of this file's start."""
    if value is None:
        return "null"
    if isinstance(value, str):
        escaped = "".join(c if c >= " " and c not in '"\\' else f"\\u{ord(c):04x}" for c in value)
        return f'"{escaped}"'
    return repr(value)


if __name__ == "__main__":
    main()
    os._exit(0)  # the driver waits for our end, and an orderly shutdown of the interpreter would have nothing to do
