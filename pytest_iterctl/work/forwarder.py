"""Runs inside the sandbox, in front of the command: lets it reach the gateway's socket by TCP on 127.0.0.1.

Run as `python -I -S forwarder.py SOCKET PORT[=HOST:PORT] … -- COMMAND …` by `work.sandbox`. A plain PORT is the proxy.
One with a place behind it stands for a service of the machine outside, for tools that ignore proxies: each connection
to it becomes a tunnel through the gateway. Once it listens, this process turns into the command; what forwards is a
process on the side, which ends with the sandbox. Standard library only, and nothing of it is trusted: the gateway
outside decides.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import threading
from typing import NoReturn

MOST_CONNECTIONS = 128
CHUNK = 64 * 1024
PATIENCE = 30.0
LONGEST_ANSWER = 4096


def listen(port: int) -> list[socket.socket]:
    """Both loopback addresses; a machine without IPv6 has one."""
    first = socket.create_server(("127.0.0.1", port), backlog=MOST_CONNECTIONS)
    try:
        second = socket.create_server(("::1", port), family=socket.AF_INET6, backlog=MOST_CONNECTIONS)
    except OSError:
        return [first]
    return [first, second]


def reach(path: str, place: str) -> socket.socket:
    """A connection to the gateway, or through it to that place."""
    far = socket.socket(socket.AF_UNIX)
    try:
        far.connect(path)  # without a limit: with one, a queue that is full is an error instead of a wait
        if place:
            far.settimeout(PATIENCE)
            ask_for(place, far)
            far.settimeout(None)
    except BaseException:
        far.close()
        raise
    return far


def ask_for(place: str, far: socket.socket) -> None:
    far.sendall(f"CONNECT {place} HTTP/1.1\r\n\r\n".encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        byte = far.recv(1)  # what follows the head is the service's
        answer += byte
        if not byte or len(answer) > LONGEST_ANSWER:
            break
    if answer.split()[1:2] != [b"200"]:
        raise ConnectionRefusedError(place)


def carry(source: socket.socket, target: socket.socket) -> None:
    """Pass bytes in one direction, and then the end; when that fails, the other direction has no point either."""
    try:
        while data := source.recv(CHUNK):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for side in (source, target):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)


def serve(near: socket.socket, path: str, place: str, free: threading.Semaphore) -> None:
    try:
        with near, contextlib.suppress(OSError), reach(path, place) as far:
            # Each direction has a thread: one that waits for a full pipe must not keep the other from being emptied.
            back = threading.Thread(target=carry, args=(far, near), daemon=True)
            back.start()
            carry(near, far)
            back.join()
    finally:
        free.release()


def forward(listeners: list[tuple[socket.socket, str]], path: str) -> NoReturn:
    free = threading.Semaphore(MOST_CONNECTIONS)
    poll = select.poll()
    by_number = {listener.fileno(): (listener, place) for listener, place in listeners}
    for number in by_number:
        poll.register(number, select.POLLIN)
    while True:
        for number, _ in poll.poll():
            listener, place = by_number[number]
            free.acquire()
            try:
                near, _ = listener.accept()
            except OSError:
                free.release()
                continue
            threading.Thread(target=serve, args=(near, path, place, free), daemon=True).start()


def step_aside(listeners: list[tuple[socket.socket, str]], path: str) -> None:
    """Leave a process behind that forwards, and that the command never meets as its child."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork() == 0:
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):  # the command's output ends when the command does
                os.dup2(nowhere, stream)
            os.chdir("/")
            forward(listeners, path)
    finally:
        os._exit(0)


def main() -> NoReturn:
    path, *rest = sys.argv[1:]
    cut = rest.index("--")
    listeners = []
    for order in rest[:cut]:
        port, _, place = order.partition("=")
        listeners += [(listener, place) for listener in listen(int(port))]
    step_aside(listeners, path)
    command = rest[cut + 1 :]
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores them, and what is ignored stays so in the command
    try:
        os.execvp(command[0], command)  # noqa: S606 - no shell is the point
    except OSError as error:
        print(f"could not start {command[0]}: {error.strerror}", file=sys.stderr)
    raise SystemExit(127)


if __name__ == "__main__":
    main()
