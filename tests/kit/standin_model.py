"""A stand-in for the model services: real agent CLIs talk to it on loopback, and a script says what it answers.

    python -m tests.kit.standin_model --script SCRIPT --log LOG --port PORT [--alone] -- COMMAND [ARGUMENT ...]

serves at http://127.0.0.1:PORT while COMMAND runs, and ends with its exit code. `--alone` means that this is a network
namespace of its own (`unshare -rn`), whose loopback has to be raised first. LOG gets one line of JSON per request.

A script is `{"root": FOLDER, "tools": true, "turns": [TURN, ...]}`; each request takes the next turn, the last is
repeated. With `"tools": false` the client is one that reads edits from text (aider). A turn is one of

    {"write": {"calc.py": "..."}}                write files, by whatever tool the client offers for that
    {"call": {"tool": "Bash", "arguments": {}}}  any other tool
    {"say": "done"}                              plain text
    {"status": 429, "retry_after": 1, "error": "rate_limit_error"}
    {"close": true}                              the connection is closed without an answer

and may carry `"tokens": [input, output]`. Requests beside the conversation (titles, token counts, lists of models) are
answered without taking a turn.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import shlex
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, Self

__all__ = ["Script", "StandIn", "main"]

Json = dict[str, Any]

#: The statuses that the services give their errors, in Google's words.
_GOOGLE = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL"}
#: What clients call the tools that write a file and read one, and the argument that names it.
_FILE_TOOLS = (
    ("Write", "Read", "file_path"),
    ("write_file", "read_file", "file_path"),
    ("write", "read", "filePath"),
)
#: What the others call their shell, and the argument with the command.
_SHELL_TOOLS = {"exec_command": "cmd", "shell_command": "command", "bash": "command", "run_shell_command": "command"}
_UNREAD = "unread bytes"
_SIDE_TEXT = '{"title": "A conversation", "isNewTopic": false}'


@dataclass(frozen=True, slots=True)
class Call:
    tool: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model says, before it is put into the words of one protocol."""

    number: int
    text: str
    calls: tuple[Call, ...]
    tokens: tuple[int, int]

    def call_id(self, index: int) -> str:
        return f"call_{self.number}_{index}"


@dataclass(slots=True)
class Script:
    root: Path
    turns: list[Json]
    tools: bool = True
    log: Path | None = None
    taken: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def read(cls, path: Path, log: Path | None) -> Script:
        data = json.loads(path.read_text(encoding="utf-8"))
        return cls(Path(data["root"]), data["turns"], data.get("tools", True), log)

    def next_turn(self) -> tuple[int, Json]:
        with self.lock:
            self.taken += 1
            return self.taken, self.turns[min(self.taken, len(self.turns)) - 1]

    def record(self, entry: Json) -> None:
        if self.log is not None:
            with self.lock, self.log.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(entry) + "\n")

    def answer(self, number: int, turn: Json, offered: set[str]) -> Answer:
        calls: list[Call] = []
        text = turn.get("say", "")
        for name, content in turn.get("write", {}).items():
            if self.tools:
                calls += self._writing(name, content, offered)
            else:
                text += f"{name}\n```\n{content}```\n\n"
        if "call" in turn:
            calls.append(Call(turn["call"]["tool"], turn["call"]["arguments"]))
        count_in, count_out = turn.get("tokens", (123, 45))
        return Answer(number, text, tuple(calls), (count_in, count_out))

    def _writing(self, name: str, content: str, offered: set[str]) -> Iterator[Call]:
        """The calls that write a file with the tools that this client offers."""
        path = self.root / name
        shell = f"printf %s {shlex.quote(content)} > {shlex.quote(str(path))}"
        for write, read, place in _FILE_TOOLS:
            if write in offered:
                if path.exists() and read in offered:  # some refuse to write over a file that was not read
                    yield Call(read, {place: str(path)})
                yield Call(write, {place: str(path), "content": content})
                return
        tool = next((tool for tool in _SHELL_TOOLS if tool in offered), "bash")
        yield Call(tool, {_SHELL_TOOLS.get(tool, "command"): shell})


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no news; standard error belongs to the command."""


class StandIn:
    """The server, in a thread, for as long as the block lasts."""

    def __init__(self, script: Script, port: int) -> None:
        self.server = _Server(("127.0.0.1", port), _handler(script))

    def __enter__(self) -> Self:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


# ---------------------------------------------------------------------------------------------------------------------
# protocols: what was asked, and the same answer in the words of each service


class Protocol:
    """One service's way of talking."""

    def offered(self, body: Json) -> set[str]:
        """The names of the tools that the client offers."""
        return {tool.get("function", tool).get("name", "") for tool in body.get("tools") or []}

    def streams(self, path: str, body: Json) -> bool:
        return bool(body.get("stream"))

    def plain(self, answer: Answer, body: Json) -> Json:
        raise NotImplementedError

    def events(self, answer: Answer, body: Json) -> Iterator[tuple[str, Json | str]]:
        raise NotImplementedError

    def error(self, status: int, kind: str, message: str) -> Json:
        return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


class Anthropic(Protocol):
    def plain(self, answer: Answer, body: Json) -> Json:
        return self._message(answer, body) | {
            "content": [*self._blocks(answer)],
            "stop_reason": "tool_use" if answer.calls else "end_turn",
        }

    def events(self, answer: Answer, body: Json) -> Iterator[tuple[str, Json | str]]:
        start = self._message(answer, body) | {"content": [], "stop_reason": None}
        yield "message_start", {"type": "message_start", "message": start}
        for index, block in enumerate(self._blocks(answer)):
            if block["type"] == "text":
                empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
            else:
                empty = block | {"input": {}}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": empty}
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
            yield "content_block_stop", {"type": "content_block_stop", "index": index}
        stop = {"stop_reason": "tool_use" if answer.calls else "end_turn", "stop_sequence": None}
        usage = {"output_tokens": answer.tokens[1]}
        yield "message_delta", {"type": "message_delta", "delta": stop, "usage": usage}
        yield "message_stop", {"type": "message_stop"}

    def error(self, status: int, kind: str, message: str) -> Json:
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_standin"}

    @staticmethod
    def _message(answer: Answer, body: Json) -> Json:
        usage = {"input_tokens": answer.tokens[0], "output_tokens": answer.tokens[1]}
        usage |= {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        named = {"id": f"msg_{answer.number}", "type": "message", "role": "assistant", "model": body.get("model", "")}
        return named | {"stop_sequence": None, "usage": usage}

    @staticmethod
    def _blocks(answer: Answer) -> Iterator[Json]:
        if answer.text:
            yield {"type": "text", "text": answer.text}
        for index, call in enumerate(answer.calls):
            named = {"id": f"toolu_{answer.call_id(index)}", "name": call.tool}
            yield {"type": "tool_use"} | named | {"input": call.arguments}


class Chat(Protocol):
    def plain(self, answer: Answer, body: Json) -> Json:
        choice = {"index": 0, "message": self._message(answer), "finish_reason": self._reason(answer)}
        return self._chunk(answer, body, "chat.completion") | {"choices": [choice], "usage": self._usage(answer)}

    def events(self, answer: Answer, body: Json) -> Iterator[tuple[str, Json | str]]:
        chunk = self._chunk(answer, body, "chat.completion.chunk")
        message = self._message(answer)
        for index, call in enumerate(message.get("tool_calls", [])):
            call["index"] = index
        yield "", chunk | {"choices": [{"index": 0, "delta": message, "finish_reason": None}]}
        yield "", chunk | {"choices": [{"index": 0, "delta": {}, "finish_reason": self._reason(answer)}]}
        yield "", chunk | {"choices": [], "usage": self._usage(answer)}
        yield "", "[DONE]"

    @staticmethod
    def _chunk(answer: Answer, body: Json, kind: str) -> Json:
        return {"id": f"chatcmpl-{answer.number}", "object": kind, "created": 1, "model": body.get("model", "")}

    @staticmethod
    def _message(answer: Answer) -> Json:
        message: Json = {"role": "assistant", "content": answer.text or None}
        calls = []
        for index, call in enumerate(answer.calls):
            function = {"name": call.tool, "arguments": json.dumps(call.arguments)}
            calls.append({"id": answer.call_id(index), "type": "function", "function": function})
        return message | {"tool_calls": calls} if calls else message

    @staticmethod
    def _reason(answer: Answer) -> str:
        return "tool_calls" if answer.calls else "stop"

    @staticmethod
    def _usage(answer: Answer) -> Json:
        sent, received = answer.tokens
        return {"prompt_tokens": sent, "completion_tokens": received, "total_tokens": sent + received}


class Responses(Protocol):
    def offered(self, body: Json) -> set[str]:
        """Tools come beside the conversation or inside of it, and some in groups."""
        inside = [item for item in body.get("input") or [] if isinstance(item, dict) and "tools" in item]
        groups = [*(body.get("tools") or []), *(tool for item in inside for tool in item["tools"])]
        return super().offered({"tools": [tool for group in groups for tool in group.get("tools", [group])]})

    def plain(self, answer: Answer, body: Json) -> Json:
        sent, received = answer.tokens
        usage: Json = {"input_tokens": sent, "output_tokens": received, "total_tokens": sent + received}
        usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        return self._start(answer, body, "completed") | {"output": [*self._items(answer)], "usage": usage}

    def events(self, answer: Answer, body: Json) -> Iterator[tuple[str, Json | str]]:
        started = {"type": "response.created", "response": self._start(answer, body, "in_progress")}
        yield "response.created", started
        for index, item in enumerate(self._items(answer)):
            for kind in ("response.output_item.added", "response.output_item.done"):
                yield kind, {"type": kind, "output_index": index, "item": item}
        yield "response.completed", {"type": "response.completed", "response": self.plain(answer, body)}

    @staticmethod
    def _start(answer: Answer, body: Json, status: str) -> Json:
        named = {"id": f"resp_{answer.number}", "object": "response", "created_at": 1, "status": status}
        return named | {"model": body.get("model", ""), "output": []}

    @staticmethod
    def _items(answer: Answer) -> Iterator[Json]:
        if answer.text:
            content = [{"type": "output_text", "text": answer.text, "annotations": []}]
            message = {"type": "message", "id": f"msg_{answer.number}", "role": "assistant", "status": "completed"}
            yield message | {"content": content}
        for index, call in enumerate(answer.calls):
            named = {"id": f"fc_{answer.number}_{index}", "call_id": answer.call_id(index), "name": call.tool}
            arguments = {"arguments": json.dumps(call.arguments), "status": "completed"}
            yield {"type": "function_call"} | named | arguments


class Google(Protocol):
    def offered(self, body: Json) -> set[str]:
        declared = [tool.get("functionDeclarations", []) for tool in body.get("tools") or []]
        return {function["name"] for functions in declared for function in functions}

    def streams(self, path: str, body: Json) -> bool:
        return ":stream" in path

    def plain(self, answer: Answer, body: Json) -> Json:
        sent, received = answer.tokens
        calls = [{"functionCall": {"name": call.tool, "args": call.arguments}} for call in answer.calls]
        parts = [{"text": answer.text}, *calls] if answer.text else calls
        counts = {"promptTokenCount": sent, "candidatesTokenCount": received, "totalTokenCount": sent + received}
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        return {"candidates": [candidate], "usageMetadata": counts, "modelVersion": "stand-in"}

    def events(self, answer: Answer, body: Json) -> Iterator[tuple[str, Json | str]]:
        yield "", self.plain(answer, body)

    def error(self, status: int, kind: str, message: str) -> Json:
        return {"error": {"code": status, "message": message, "status": _GOOGLE.get(status, "UNAVAILABLE")}}


def _protocol(path: str) -> Protocol | None:
    plain = path.partition("?")[0]
    if plain.endswith("/messages"):
        return Anthropic()
    if plain.endswith("/chat/completions"):
        return Chat()
    if plain.endswith("/responses"):
        return Responses()
    return Google() if plain.endswith(("generateContent", "GenerateContent")) else None


# ---------------------------------------------------------------------------------------------------------------------
# HTTP


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: ClassVar[Script]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Say nothing: standard error belongs to the command."""

    def do_HEAD(self) -> None:
        self._send(200, b"", "text/plain")

    def do_GET(self) -> None:
        if self.headers.get("Upgrade"):  # a WebSocket, which clients give up for plain requests
            self._json(404, {"error": {"message": "no WebSocket here", "type": "not_found", "code": "not_found"}})
            return
        models = [{"id": "stand-in", "object": "model", "owned_by": "nobody"}]
        self._json(200, {"object": "list", "data": models, "models": []})

    def do_POST(self) -> None:
        body = _body(self._raw())
        protocol = _protocol(self.path)
        if protocol is None:
            self.script.record({"path": self.path, "turn": 0, "body": body})
            self._json(200, {"input_tokens": 1, "totalTokens": 1})
            return
        offered = protocol.offered(body)
        beside = self.script.tools and not offered and _UNREAD not in body
        number, turn = (0, {"say": _SIDE_TEXT}) if beside else self.script.next_turn()
        self.script.record({"path": self.path, "turn": number, "tools": sorted(offered), "body": body})
        self._take(protocol, number, turn, offered, body)

    def _raw(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _take(self, protocol: Protocol, number: int, turn: Json, offered: set[str], body: Json) -> None:
        if turn.get("close"):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        elif "status" in turn:
            kind = turn.get("error", "api_error")
            message = turn.get("message", f"the stand-in was told to answer {turn['status']}")
            wait = {"retry-after": str(turn["retry_after"])} if "retry_after" in turn else {}
            self._json(turn["status"], protocol.error(turn["status"], kind, message), wait)
        else:
            answer = self.script.answer(number, turn, offered)
            if protocol.streams(self.path, body):
                lines = []
                for name, data in protocol.events(answer, body):
                    text = data if isinstance(data, str) else json.dumps(data)
                    lines.append((f"event: {name}\n" if name else "") + f"data: {text}\n\n")
                self._send(200, "".join(lines).encode(), "text/event-stream")
            else:
                self._json(200, protocol.plain(answer, body))

    def _json(self, status: int, data: Json, headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(data).encode(), "application/json", headers)

    def _send(self, status: int, content: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _body(raw: bytes) -> Json:
    """What was sent; a client may compress it in a way that the standard library can't undo."""
    try:
        body = json.loads(raw or b"{}")
    except ValueError:
        return {_UNREAD: len(raw)}
    return body if isinstance(body, dict) else {}


def _handler(script: Script) -> type[Handler]:
    return type("ScriptedHandler", (Handler,), {"script": script})


# ---------------------------------------------------------------------------------------------------------------------
# serving while a command runs


def _raise_loopback() -> None:
    """`ip link set lo up`, for machines without `ip`."""
    get_flags, set_flags, up = 0x8913, 0x8914, 0x1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH14s", b"lo", 0, b"")
        flags = struct.unpack("16sH14s", fcntl.ioctl(control, get_flags, request))[1]
        fcntl.ioctl(control, set_flags, struct.pack("16sH14s", b"lo", flags | up, b""))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Serve a scripted model on loopback while a command runs.")
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--alone", action="store_true", help="in a network namespace of its own: raise its loopback")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args(arguments)
    if given.alone:
        _raise_loopback()
    with StandIn(Script.read(given.script, given.log), given.port):
        return subprocess.run(given.command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
