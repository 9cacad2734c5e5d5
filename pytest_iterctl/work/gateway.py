"""The one way out of a sandbox: a proxy on a unix socket that connects to the named endpoints and to nothing else.

It runs in a thread of the driver, where names are resolved, and speaks CONNECT (a tunnel, for https) and requests with
an absolute `http://` address. Whatever bytes a client sends after its first line, they reach only the endpoint that
this line named, and it was on the list. Redirects are the client's business: following one is a new request to here.
Clients are hostile: the head of a request is bounded in size and time, and so is the number of connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pytest_iterctl.errors import UsageError
from pytest_iterctl.plan.endpoints import Endpoint
from pytest_iterctl.work.private_socket import listen

__all__ = ["Counts", "Gateway", "gateway"]

LONGEST_HEAD = 32 * 1024
HEAD_PATIENCE = 10.0
CONNECT_PATIENCE = 20.0
FAREWELL = 1.0
MOST_CONNECTIONS = 128
MOST_NAMES = 20  # of refused places that are remembered, for a person to read
CHUNK = 64 * 1024
SOCKET_NAME = "gateway"

_CONNECT = re.compile(r"(\[[0-9a-fA-F:.]{2,45}\]|[\w.-]{1,253}):(\d{1,5})", re.ASCII)
_ABSOLUTE = re.compile(r"http://(\[[0-9a-fA-F:.]{2,45}\]|[\w.-]{1,253})(?::(\d{1,5}))?(|[/?][!-~]*)", re.ASCII)
_REQUEST = re.compile(r"([A-Z]{1,20}) ([!-~]+) HTTP/1\.[01]")
_HEADER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n\0]*")
# Between a client and its proxy only, or ours to set.
_DROPPED = frozenset({b"connection", b"host", b"keep-alive", b"proxy-authorization", b"proxy-connection", b"upgrade"})


@dataclass(slots=True)
class Counts:
    """What went through and what did not. `refused` are requests for places that are not on the list."""

    opened: int = 0
    refused: int = 0
    failed: int = 0  # the endpoint did not answer
    malformed: int = 0  # not a request, too long, or too slow
    surplus: int = 0  # too many connections at once
    refused_places: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Gateway:
    """An open gateway: what a sandbox needs to lead its command there, and what has happened at it so far."""

    socket: Path
    endpoints: tuple[Endpoint, ...]
    counts: Counts


@contextmanager
def gateway(endpoints: Iterable[Endpoint], folder: Path) -> Iterator[Gateway | None]:
    """Open the way to these endpoints on a socket in this private folder; with no endpoint there is none (None).

    The folder must be the caller's own and closed to others. All connections end when the context does.
    """
    listed = tuple(sorted(set(endpoints)))
    if not listed:
        yield None
        return
    path = folder / SOCKET_NAME
    listener = listen(folder, SOCKET_NAME)
    listener.setblocking(False)
    counts = Counts()
    server = _Server(frozenset(listed), counts)
    thread = threading.Thread(target=server.run, args=(listener,), name="iterctl-gateway", daemon=True)
    try:
        thread.start()
        yield Gateway(path, listed, counts)
    finally:
        server.stop()
        thread.join()
        listener.close()
        path.unlink(missing_ok=True)


class _RefusedError(Exception):
    """A request that is answered with a status and a reason, and gets no further."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True)
class _Request:
    endpoint: Endpoint
    head: bytes  # what is sent on in its place; nothing for a tunnel
    tunnel: bool


class _Server:
    """All connections of one gateway, in one event loop of its own."""

    def __init__(self, allowed: frozenset[Endpoint], counts: Counts) -> None:
        self.allowed = allowed
        self.counts = counts
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(lambda _loop, _context: None)  # a client's broken pipe is no news
        self.end = asyncio.Event()
        self.connections: set[asyncio.Task[None]] = set()

    def run(self, listener: socket.socket) -> None:
        # Not asyncio.run: it would wait for a resolver that hangs.
        try:
            self.loop.run_until_complete(self.serve(listener))
        finally:
            self.loop.close()

    def stop(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: it ended by itself
            self.loop.call_soon_threadsafe(self.end.set)

    async def serve(self, listener: socket.socket) -> None:
        server = await asyncio.start_unix_server(self.accept, sock=listener, limit=LONGEST_HEAD)
        await self.end.wait()
        server.close()
        while self.connections:
            for task in self.connections:
                task.cancel()
            await asyncio.wait(self.connections, timeout=1)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or self.end.is_set() or len(self.connections) >= MOST_CONNECTIONS:
            self.counts.surplus += 1
            writer.transport.abort()
            return
        self.connections.add(task)
        try:
            await self.answer(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # one side went away, or the gateway closes
        finally:
            writer.transport.abort()
            self.connections.discard(task)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection from its first byte to its last."""
        try:
            request = await self.read_request(reader)
            far_reader, far_writer = await self.connect(request.endpoint)
        except _RefusedError as refused:
            await _refuse(reader, writer, refused)
            return
        self.counts.opened += 1
        try:
            if request.tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            far_writer.write(request.head)
            await asyncio.gather(_carry(reader, far_writer), _carry(far_reader, writer))
        finally:
            far_writer.transport.abort()

    async def read_request(self, reader: asyncio.StreamReader) -> _Request:
        try:
            async with asyncio.timeout(HEAD_PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            self.counts.malformed += 1
            raise _RefusedError("431 Request Header Fields Too Large", "the head of the request is too long") from None
        except TimeoutError:
            self.counts.malformed += 1
            raise _RefusedError("408 Request Timeout", "the head of the request took too long") from None
        except asyncio.IncompleteReadError:
            self.counts.malformed += 1
            raise _RefusedError("400 Bad Request", "the request ended within its head") from None
        try:
            request = _parse(head)
        except _RefusedError:
            self.counts.malformed += 1
            raise
        if request.endpoint not in self.allowed:
            self.counts.refused += 1
            if len(self.counts.refused_places) < MOST_NAMES:
                self.counts.refused_places.add(str(request.endpoint))
            raise _RefusedError("403 Forbidden", f"{request.endpoint} is not an endpoint that the plan names")
        return request

    async def connect(self, endpoint: Endpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            async with asyncio.timeout(CONNECT_PATIENCE):
                return await asyncio.open_connection(endpoint.host, endpoint.port, limit=CHUNK)
        except (OSError, TimeoutError, UnicodeError) as error:
            self.counts.failed += 1
            reason = "no answer" if isinstance(error, TimeoutError) else str(error)
            raise _RefusedError("502 Bad Gateway", f"{endpoint} could not be reached: {reason}") from None


def _parse(head: bytes) -> _Request:
    """Where a request wants to go, and what is sent there in its place."""
    first, *headers = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    line = _REQUEST.fullmatch(first.decode("latin-1"))
    if line is None or not all(_HEADER.fullmatch(header) for header in headers):
        raise _RefusedError("400 Bad Request", "this is a proxy for HTTP/1.1, and that was no request")
    method, target = line[1], line[2]
    found = (_CONNECT if method == "CONNECT" else _ABSOLUTE).fullmatch(target)
    if found is None:
        raise _RefusedError("400 Bad Request", "the target is neither host:port for CONNECT nor an http:// address")
    try:
        endpoint = Endpoint.parse(f"{found[1]}:{found[2] or 80}")
    except UsageError as error:
        raise _RefusedError("400 Bad Request", error.message) from None
    if method == "CONNECT":
        return _Request(endpoint, b"", tunnel=True)
    path = found[3] if found[3].startswith("/") else f"/{found[3]}"
    kept = [header for header in headers if header.partition(b":")[0].lower() not in _DROPPED]
    # One request per connection: the next one may be for another endpoint, and must be looked at again.
    lines = [f"{method} {path} HTTP/1.1".encode(), f"Host: {endpoint}".encode(), b"Connection: close", *kept]
    return _Request(endpoint, b"\r\n".join(lines) + b"\r\n\r\n", tunnel=False)


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on until there are no more, and then say so; the other direction goes on."""
    writer.transport.set_write_buffer_limits(0)  # drained means: the kernel has it, and an abort can't lose it
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, refused: _RefusedError) -> None:
    body = f"iterctl: {refused.reason}\n".encode("utf-8", "replace")
    head = (
        f"HTTP/1.1 {refused.status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(FAREWELL):
            writer.transport.set_write_buffer_limits(0)
            writer.write(head.encode() + body)
            await writer.drain()
            writer.write_eof()
            # Closed over bytes that nobody read, a socket drops what it was to deliver.
            while await reader.read(CHUNK):
                pass
