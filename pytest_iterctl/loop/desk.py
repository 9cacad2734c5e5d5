"""The desk: where what a run has called reads and writes the run's memory, over a unix socket of its own.

A thread of the driver answers, so that whoever is called needs no way to the store, which is nowhere to be seen in a
sandbox. Each call has a desk of its own, and so whose notes are asked for is known without asking. A request is one
line of JSON, perhaps with a value behind it, and so is the answer. Whoever asks is hostile: size, time and number of
everything are bounded, and the outputs of stages can be read and not written.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from pytest_iterctl.errors import ExitCode, IterctlError, UsageError
from pytest_iterctl.loop.history import now
from pytest_iterctl.redaction import Redactor
from pytest_iterctl.store.database import Database
from pytest_iterctl.store.memory import LARGEST, Memory, Whose, not_found
from pytest_iterctl.work.private_socket import connect, listen

__all__ = ["SOCKET_NAME", "Caller", "ask", "desk"]

SOCKET_NAME = "desk"
_LONGEST_LINE = 64 * 1024
_FIRST_PATIENCE = 2.0  # for the line that says what is wanted
_PATIENCE = 30.0  # between two pieces of a value
_ANSWER_PATIENCE = 600.0  # a value of hundreds of megabytes is redacted and compressed meanwhile
_CHUNK = 1024 * 1024
_MOST_CLIENTS = 32
_MOST_DRAINED = 64 * 1024 * 1024

Document = dict[str, object]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sits at the other side of one desk."""

    run: str
    task: str
    agent: str
    stage_num: int


# ── the driver's side ────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def desk(folder: Path, caller: Caller, database: Path, redactor: Redactor) -> Iterator[Path]:
    """Open for as long as the call takes; all conversations end when the context does."""
    path = folder / SOCKET_NAME
    listener = listen(folder, SOCKET_NAME)
    server = _Server(listener, database, redactor, caller)
    thread = threading.Thread(target=server.run, name="iterctl-desk", daemon=True)
    thread.start()
    try:
        yield path
    finally:
        server.stop()
        thread.join()
        path.unlink(missing_ok=True)


class _Server:
    def __init__(self, listener: socket.socket, database: Path, redactor: Redactor, caller: Caller) -> None:
        self._listener = listener
        self._database = database
        self._redactor = redactor
        self._caller = caller
        self._seats = threading.BoundedSemaphore(_MOST_CLIENTS)
        self._clients: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._over = False

    def run(self) -> None:
        while True:
            self._seats.acquire()
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._over:
                    client.close()
                    return
                self._clients.add(client)
            threading.Thread(target=self._serve, args=(client,), name="iterctl-desk-client", daemon=True).start()

    def stop(self) -> None:
        with self._lock:
            self._over = True
            for client in self._clients:
                with contextlib.suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with contextlib.suppress(ValueError):
            self._seats.release()

    def _serve(self, client: socket.socket) -> None:
        try:
            client.settimeout(_FIRST_PATIENCE)  # whoever holds a seat and says nothing loses it
            with contextlib.suppress(OSError):
                self._answer(client)
        finally:
            with self._lock:
                self._clients.discard(client)
            client.close()
            with contextlib.suppress(ValueError):
                self._seats.release()

    def _answer(self, client: socket.socket) -> None:
        try:
            request, body = _received(client)
            answer, value = self._done(request, body)
        except IterctlError as error:
            answer, value = {"error": error.message, "hint": error.hint, "exit_code": int(error.exit_code)}, b""
        except (ValueError, sqlite3.Error) as error:  # text that nobody can store, such as half a character
            answer, value = {"error": f"can't be done: {type(error).__name__}", "exit_code": int(ExitCode.USAGE)}, b""
        _send(client, answer, value)
        # Closed with something unread, the answer would be lost on its way.
        client.shutdown(socket.SHUT_WR)
        left = _MOST_DRAINED
        while left > 0 and (piece := client.recv(_CHUNK)):
            left -= len(piece)

    def _done(self, request: Document, body: bytes) -> tuple[Document, bytes]:
        # A connection to the store belongs to the thread that opened it.
        with contextlib.closing(Database(self._database)) as database:
            memory = Memory(database, self._redactor, self._caller.run)
            return {}, self._value(memory, request, body)

    def _value(self, memory: Memory, request: Document, body: bytes) -> bytes:
        caller = self._caller
        named, key = _word(request, "namespace"), _word(request, "key")
        whose = Whose.of(named or "workflow", task=caller.task, agent=caller.agent)
        match _word(request, "do"):
            case "get":
                found = memory.get(key, whose=whose)
                if found is None:
                    raise not_found(key)
                return found.encode("utf-8", "backslashreplace")
            case "put":
                text = body.decode("utf-8", "replace")
                written = {"stored_at": now(), "agent_id": caller.agent}
                memory.put(key, text, whose=whose, kind="note", stage_num=caller.stage_num, **written)
                return b""
            case "delete":
                if not memory.delete(key, whose=whose):
                    raise not_found(key)
                return b""
            case "list":
                mine = {"", caller.task, caller.agent}  # what belongs to others is theirs
                notes = memory.notes(whose=whose if named else None, prefix=key)
                return json.dumps([asdict(note) for note in notes if note.whose in mine]).encode()
            case other:
                raise UsageError(f"the desk does not know {other[:60]!r}", hint="get, list, put or delete")


def _word(request: Document, key: str) -> str:
    value = request.get(key, "")
    if not isinstance(value, str) or len(value) > _LONGEST_LINE:
        raise UsageError(f"{key} is no text")
    return value


# ── the other side ───────────────────────────────────────────────────────────────────────────────────────────────────


def ask(path: Path, request: Document, value: bytes = b"") -> bytes:
    """What a desk answers; its refusals are errors here, with the same words."""
    try:
        with connect(path, _ANSWER_PATIENCE) as client:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                _send(client, request, value)  # what is refused is answered before all of it was sent
                client.shutdown(socket.SHUT_WR)
            answer, body = _received(client)
    except OSError as error:
        raise UsageError(
            f"the run that this stage belongs to does not answer: {error}", hint="ITERCTL_SOCKET names its socket"
        ) from None
    if "error" in answer:
        code = answer.get("exit_code")
        raised = UsageError(str(answer["error"]), hint=str(answer.get("hint", "")))
        if isinstance(code, int) and code != int(raised.exit_code):
            raise IterctlError(str(answer["error"]), hint=str(answer.get("hint", "")))
        raise raised
    return body


# ── both sides ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _send(to: socket.socket, document: Document, value: bytes) -> None:
    to.sendall(json.dumps({**document, "size": len(value)}).encode() + b"\n")
    if value:
        to.sendall(value)


def _received(client: socket.socket) -> tuple[Document, bytes]:
    line = b""
    while b"\n" not in line:
        piece = client.recv(_CHUNK)
        if not piece or len(line) + len(piece) > _LONGEST_LINE + _CHUNK:
            raise UsageError("a request is one line of JSON, and was cut off or too long")
        line += piece
    head, _, rest = line.partition(b"\n")
    try:
        document = json.loads(head)
    except (ValueError, RecursionError):
        raise UsageError("a request is one line of JSON") from None
    size = document.pop("size", 0) if isinstance(document, dict) else None
    if type(size) is not int or not 0 <= size <= LARGEST:
        raise UsageError("a request says how many bytes follow it", hint=f"at most {LARGEST}")
    client.settimeout(max(client.gettimeout() or 0.0, _PATIENCE))
    body = bytearray(rest)
    while len(body) < size:
        piece = client.recv(min(_CHUNK, size - len(body)))
        if not piece:
            raise UsageError(f"{size} bytes were announced, and {len(body)} came")
        body += piece
    return document, bytes(body[:size])
