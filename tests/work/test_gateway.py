"""The gateway from the outside of a sandbox (anywhere), and through one (where there is one). Loopback only."""

from __future__ import annotations

import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from pytest_iterctl.errors import UsageError
from pytest_iterctl.plan.endpoints import Endpoint
from pytest_iterctl.work import gateway as gateway_module
from pytest_iterctl.work.gateway import Gateway, gateway
from pytest_iterctl.work.process import Command, Finished, run
from pytest_iterctl.work.sandbox import Sandbox
from tests.work.sandboxes import require_sandbox

LONG = 30.0
Handler = Callable[[socket.socket], None]


def everything(connection: socket.socket) -> bytes:
    """Until the other side says that there is no more."""
    data = b""
    while piece := connection.recv(65536):
        data += piece
    return data


def head(connection: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\r\n\r\n") and (piece := connection.recv(1)):
        data += piece
    return data


def web(connection: socket.socket) -> None:
    """A service that shows the head of the request it got."""
    body = head(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)


def echo_after_the_end(connection: socket.socket) -> None:
    """A service that answers when its client has said all: half-closed streams must stay half-open."""
    connection.sendall(everything(connection))


class Service:
    """A service of this machine, on a port of its own."""

    def __init__(self, handler: Handler, family: socket.AddressFamily = socket.AF_INET) -> None:
        self.handler = handler
        self.listener = socket.create_server(("127.0.0.1" if family == socket.AF_INET else "::1", 0), family=family)
        self.port: int = self.listener.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection: socket.socket) -> None:
        try:
            with connection:
                self.handler(connection)
        except OSError:
            return

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@contextmanager
def serving(handler: Handler = web) -> Iterator[Service]:
    service = Service(handler)
    try:
        yield service
    finally:
        service.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "gateway"
    made.mkdir(mode=0o700)
    return made


@contextmanager
def opened(folder: Path, *texts: str) -> Iterator[Gateway]:
    with gateway(map(Endpoint.parse, texts), folder) as way_out:
        assert way_out is not None
        yield way_out


def client(way_out: Gateway, *, seconds: float = LONG) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    descriptor = os.open(way_out.socket.parent, os.O_PATH)
    try:
        connection.connect(f"/proc/self/fd/{descriptor}/{way_out.socket.name}")
    finally:
        os.close(descriptor)
    connection.settimeout(seconds)
    return connection


def asked(way_out: Gateway, data: bytes, *, end: bool = False) -> bytes:
    with client(way_out) as connection:
        connection.sendall(data)
        if end:
            connection.shutdown(socket.SHUT_WR)
        return everything(connection)


def status(answer: bytes) -> int:
    found = re.match(rb"HTTP/1\.1 (\d{3}) ", answer)
    assert found, answer
    return int(found[1])


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.01)


# ── there, and gone again ────────────────────────────────────────────────────────────────────────────────────────────


def test_without_an_endpoint_there_is_nothing(tmp_path: Path) -> None:
    with gateway([], tmp_path / "new") as way_out:
        assert way_out is None
        assert not (tmp_path / "new").exists()


def test_the_socket_is_private_and_goes_with_the_context(folder: Path) -> None:
    before = threading.active_count()
    with opened(folder, "api.example.com") as way_out:
        assert way_out.socket == folder / "gateway"
        assert threading.active_count() == before + 1
    assert list(folder.iterdir()) == []
    assert threading.active_count() == before


def test_a_folder_that_is_open_to_others_is_refused(folder: Path) -> None:
    folder.chmod(0o755)
    with pytest.raises(UsageError, match="is open to others"), opened(folder, "api.example.com"):
        pass


def test_the_folder_may_have_any_name_and_length(folder: Path) -> None:
    deep = folder / ("x" * 150) / "caf\udce9 \n"
    deep.mkdir(parents=True, mode=0o700)
    with serving() as service, opened(deep, f"127.0.0.1:{service.port}") as way_out:
        assert status(asked(way_out, b"GET http://127.0.0.1:%d/ HTTP/1.1\r\n\r\n" % service.port)) == 200


def test_open_connections_end_with_the_context(folder: Path) -> None:
    with serving(echo_after_the_end) as service, ExitStack() as stack:
        with opened(folder, f"127.0.0.1:{service.port}") as way_out:
            idle = [stack.enter_context(client(way_out)) for _ in range(5)]
            tunnel = stack.enter_context(client(way_out))
            tunnel.sendall(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % service.port)
            assert status(head(tunnel)) == 200
            started = time.monotonic()
        assert time.monotonic() - started < 5
        for connection in (*idle, tunnel):
            try:
                assert connection.recv(1) == b""
            except ConnectionResetError:
                continue


# ── what goes through ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_tunnel_carries_bytes_both_ways_and_keeps_halves_open(folder: Path) -> None:
    data = secrets.token_bytes(3_000_000)
    with serving(echo_after_the_end) as service, opened(folder, f"127.0.0.1:{service.port}") as way_out:
        with client(way_out) as connection:
            connection.sendall(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\nHost: whatever\r\n\r\n" % service.port)
            assert status(head(connection)) == 200
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            assert everything(connection) == data
        assert (way_out.counts.opened, way_out.counts.refused) == (1, 0)


def test_a_plain_request_reaches_the_endpoint_and_names_it(folder: Path) -> None:
    with serving() as service, opened(folder, f"127.0.0.1:{service.port}") as way_out:
        place = b"127.0.0.1:%d" % service.port
        request = (
            b"POST http://%s/v1?a=b HTTP/1.1\r\nHost: other.example\r\nX-Kept: yes\r\nProxy-Authorization: secret\r\n"
        )
        answer = asked(way_out, request % place + b"Proxy-Connection: keep-alive\r\nConnection: keep-alive\r\n\r\n")
        assert status(answer) == 200
        seen = answer.partition(b"\r\n\r\n")[2]
        assert seen == b"POST /v1?a=b HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nX-Kept: yes\r\n\r\n" % place


def test_a_name_is_resolved_by_the_gateway(folder: Path) -> None:
    with serving() as service, opened(folder, f"localhost:{service.port}") as way_out:
        assert status(asked(way_out, b"GET http://LOCALHOST.:%d HTTP/1.1\r\n\r\n" % service.port)) == 200


def test_many_at_once(folder: Path) -> None:
    with serving() as service, opened(folder, f"127.0.0.1:{service.port}") as way_out:
        request = b"GET http://127.0.0.1:%d/ HTTP/1.1\r\n\r\n" % service.port
        with ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(lambda _: status(asked(way_out, request)), range(200)))
        assert answers == [200] * 200


# ── what does not ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_only_the_exact_host_and_port_are_reached(folder: Path) -> None:
    with serving() as service, serving() as other, opened(folder, f"127.0.0.1:{service.port}") as way_out:
        places = [
            f"127.0.0.1:{other.port}",
            f"localhost:{service.port}",
            f"127.0.0.2:{service.port}",
            f"[::1]:{service.port}",
            f"[::ffff:127.0.0.1]:{service.port}",
            f"0.0.0.0:{service.port}",
            f"127.0.0.1.example.com:{service.port}",
            f"example.com.127.0.0.1.x:{service.port}",
            "169.254.169.254:80",
        ]
        for place in places:
            assert status(asked(way_out, f"CONNECT {place} HTTP/1.1\r\n\r\n".encode())) == 403, place
            assert status(asked(way_out, f"GET http://{place}/ HTTP/1.1\r\n\r\n".encode())) == 403, place
        assert (service.connections, other.connections) == (0, 0)
        assert way_out.counts.refused == 2 * len(places)
        assert "169.254.169.254:80" in way_out.counts.refused_places
        answer = asked(way_out, b"CONNECT evil.example:443 HTTP/1.1\r\n\r\n")
        assert b"evil.example:443 is not an endpoint that the plan names" in answer


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n\r\n",
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00" + bytes(range(256)) + b"\r\n\r\n",
        b"\x05\x01\x00\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: {place}\r\n\r\n",
        b"GET {place}/ HTTP/1.1\r\n\r\n",
        b"GET https://{place}/ HTTP/1.1\r\n\r\n",
        b"GET http://user@{place}/ HTTP/1.1\r\n\r\n",
        b"GET http://{place}@evil.example/ HTTP/1.1\r\n\r\n",
        b"GET http://{place} HTTP/2\r\n\r\n",
        b"GET http://{place}/ evil HTTP/1.1\r\n\r\n",
        b"GET http://{place}/\xff HTTP/1.1\r\n\r\n",
        b"CONNECT {place}/x HTTP/1.1\r\n\r\n",
        b"CONNECT {place}:80 HTTP/1.1\r\n\r\n",
        b"CONNECT 127.1:80 HTTP/1.1\r\n\r\n",
        b"CONNECT 2130706433:80 HTTP/1.1\r\n\r\n",
        b"CONNECT evil:99999 HTTP/1.1\r\n\r\n",
        b"CONNECT :80 HTTP/1.1\r\n\r\n",
        b"CONNECT {place}\0 HTTP/1.1\r\n\r\n",
        b"GET http://{place}/ HTTP/1.1\r\n folded: x\r\n\r\n",
        b"GET http://{place}/ HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET http://{place}/ HTTP/1.1\r\nX: a\nConnection: b\r\n\r\n",
        b"GET http://{place}/ HTTP/1.1\r\nX : a\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused(folder: Path, data: bytes) -> None:
    with serving() as service, opened(folder, f"127.0.0.1:{service.port}") as way_out:
        place = b"127.0.0.1:%d" % service.port
        assert status(asked(way_out, data.replace(b"{place}", place))) == 400
        assert (service.connections, way_out.counts.opened, way_out.counts.malformed) == (0, 0, 1)


def test_an_endpoint_that_does_not_answer_is_told(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with opened(folder, f"127.0.0.1:{port}") as way_out:
        assert status(asked(way_out, b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % port)) == 502
        assert way_out.counts.failed == 1


def test_a_second_request_on_a_connection_goes_nowhere_else(folder: Path) -> None:
    with serving() as service, serving() as other, opened(folder, f"127.0.0.1:{service.port}") as way_out:
        first = b"GET http://127.0.0.1:%d/ HTTP/1.1\r\n\r\n" % service.port
        asked(way_out, first + b"GET http://127.0.0.1:%d/ HTTP/1.1\r\n\r\n" % other.port)
        assert (service.connections, other.connections) == (1, 0)


# ── hostile clients ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_head_without_end_is_cut_off(folder: Path) -> None:
    with opened(folder, "api.example.com") as way_out, client(way_out) as connection:
        answer = b""
        try:
            connection.sendall(b"GET http://x/ HTTP/1.1\r\n")
            for _ in range(1000):
                connection.sendall(b"X: " + b"y" * 1000 + b"\r\n")
            answer = everything(connection)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert not answer or status(answer) == 431
        wait_until(lambda: way_out.counts.malformed == 1, "the head is refused")


def test_a_slow_head_is_cut_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_module, "HEAD_PATIENCE", 0.3)
    with opened(folder, "api.example.com") as way_out, client(way_out) as connection:
        connection.sendall(b"GET http")
        started = time.monotonic()
        assert status(everything(connection)) == 408
        assert time.monotonic() - started < 5


def test_a_head_that_ends_early_is_answered(folder: Path) -> None:
    with opened(folder, "api.example.com") as way_out:
        assert status(asked(way_out, b"CONNECT api", end=True)) == 400


def test_thousands_of_connections_are_bounded_and_the_gateway_lives(folder: Path) -> None:
    with serving() as service, opened(folder, f"127.0.0.1:{service.port}") as way_out:
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(20):
            with ExitStack() as stack:
                for _ in range(100):
                    stack.enter_context(client(way_out))
        wait_until(lambda: way_out.counts.surplus + way_out.counts.malformed >= 1990, "most connections are through")
        with ExitStack() as stack:
            for _ in range(300):
                stack.enter_context(client(way_out))
            wait_until(lambda: way_out.counts.surplus >= 100, "the surplus is refused")
            most = before + 300 + gateway_module.MOST_CONNECTIONS + 20
            wait_until(lambda: len(list(Path("/proc/self/fd").iterdir())) < most, "the surplus is closed")
        request = b"GET http://127.0.0.1:%d/ HTTP/1.1\r\n\r\n" % service.port

        def answered() -> bool:
            try:
                return asked(way_out, request).startswith(b"HTTP/1.1 200")
            except OSError:
                return False

        wait_until(answered, "an honest client is served again")


def test_refused_names_are_remembered_within_bounds(folder: Path) -> None:
    with opened(folder, "api.example.com") as way_out:
        for number in range(50):
            asked(way_out, b"CONNECT evil%d.example:443 HTTP/1.1\r\n\r\n" % number)
        assert way_out.counts.refused == 50
        assert len(way_out.counts.refused_places) == gateway_module.MOST_NAMES


# ── through a sandbox ────────────────────────────────────────────────────────────────────────────────────────────────


def through(tmp_path: Path, way_out: Gateway | None, script: str, **variables: str) -> Finished:
    program = require_sandbox()
    tree = tmp_path / "tree"
    tree.mkdir(exist_ok=True)
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **variables}
    interpreter = Path("/usr/bin/python3")
    if not interpreter.exists():
        pytest.skip("needs /usr/bin/python3")
    command = Command((str(interpreter), "-I", "-c", script), tree, environment, timeout=LONG)
    with Sandbox(program, tree).wrapped(command, way_out) as wrapped:
        return run(wrapped)


FETCH = """
import os, urllib.request, urllib.error
def fetch(url):
    try:
        return urllib.request.urlopen(url, timeout=10).read().split(b"\\r\\n")[0].decode()
    except urllib.error.HTTPError as error:
        return f"{error.code}"
    except OSError as error:
        return f"{error}"
"""


def test_a_command_reaches_a_local_endpoint_with_and_without_a_proxy(tmp_path: Path, folder: Path) -> None:
    with serving() as service, serving() as other, opened(folder, f"localhost:{service.port}") as way_out:
        script = FETCH + (
            f"print(fetch('http://localhost:{service.port}/a'))\n"
            f"print(fetch('http://127.0.0.1:{service.port}/b'))\n"
            "del os.environ['NO_PROXY'], os.environ['no_proxy']\n"
            f"print(fetch('http://localhost:{service.port}/c'))\n"
            f"print(fetch('http://127.0.0.1:{other.port}/d'))\n"
            "print(fetch('http://evil.example/'))\n"
        )
        finished = through(tmp_path, way_out, script)
        lines = finished.stdout.text.splitlines()
        assert lines == ["GET /a HTTP/1.1", "GET /b HTTP/1.1", "GET /c HTTP/1.1", "403", "403"], finished.stderr.text
        assert (service.connections, other.connections) == (3, 0)
        assert way_out.counts.refused_places == {f"127.0.0.1:{other.port}", "evil.example:80"}


def test_the_variables_of_the_proxy_replace_the_users(tmp_path: Path, folder: Path) -> None:
    with opened(folder, "api.example.com") as way_out:
        script = (
            "import os; print(*sorted(f'{k}={v}' for k, v in os.environ.items() if 'proxy' in k.lower()), sep='\\n')"
        )
        found = through(tmp_path, way_out, script, HTTPS_PROXY="http://corporate:8080", no_proxy="*").stdout.text
        proxy, local = "http://127.0.0.1:3128", "localhost,127.0.0.1,::1"
        names = {"http_proxy": proxy, "https_proxy": proxy, "all_proxy": proxy, "no_proxy": local}
        expected = {f"{name}={value}" for name, value in names.items()}
        expected |= {f"{name.upper()}={value}" for name, value in names.items()} | {"NODE_USE_ENV_PROXY=1"}
        assert set(found.splitlines()) == expected


def test_the_port_of_the_proxy_gives_way_to_an_endpoint(tmp_path: Path, folder: Path) -> None:
    with opened(folder, "localhost:3128") as way_out:
        found = through(tmp_path, way_out, "import os; print(os.environ['HTTP_PROXY'])").stdout.text
        assert found == "http://127.0.0.1:3129\n"


def test_a_port_that_only_root_may_take_is_refused(tmp_path: Path, folder: Path) -> None:
    with opened(folder, "localhost:80") as way_out, pytest.raises(UsageError, match="port 80 can't be offered"):
        through(tmp_path, way_out, "print('never')")


def test_large_streams_go_both_ways_through_the_sandbox(tmp_path: Path, folder: Path) -> None:
    with serving(echo_after_the_end) as service, opened(folder, f"127.0.0.1:{service.port}") as way_out:
        script = f"""
import socket, threading
connection = socket.create_connection(("127.0.0.1", {service.port}))
data = bytes(range(256)) * 8000
def send():
    connection.sendall(data); connection.shutdown(socket.SHUT_WR)
threading.Thread(target=send).start()
got = b""
while piece := connection.recv(65536):
    got += piece
print(got == data)
"""
        finished = through(tmp_path, way_out, script)
        assert finished.stdout.text == "True\n", finished.stderr.text


def test_without_an_endpoint_there_is_no_network_at_all(tmp_path: Path) -> None:
    with serving() as service, gateway([], tmp_path / "g") as way_out:
        script = FETCH + f"print(fetch('http://127.0.0.1:{service.port}/')); print('HTTP_PROXY' in os.environ)"
        assert through(tmp_path, way_out, script).stdout.text.endswith("Connection refused>\nFalse\n")
        assert service.connections == 0


def test_the_forwarder_leaves_the_command_as_it_would_be(tmp_path: Path, folder: Path) -> None:
    """No child that it never made, no ignored signal, no open file, its own exit code and output."""
    with opened(folder, "localhost:4000") as way_out:
        script = """
import os, sys
try:
    os.waitpid(-1, os.WNOHANG); print("a child")
except ChildProcessError:
    print("no child")
print([number for number in range(3, 64) if os.path.exists(f"/proc/self/fd/{number}")])
sys.exit(7)
"""
        finished = through(tmp_path, way_out, script)
        assert (finished.exit_code, finished.stdout.text) == (7, "no child\n[]\n"), finished.stderr.text
        tree = tmp_path / "tree"
        command = Command(
            ("sh", "-c", "grep SigIgn /proc/self/status"), tree, {"PATH": os.environ["PATH"]}, timeout=LONG
        )
        with Sandbox(require_sandbox(), tree).wrapped(command, way_out) as wrapped:
            assert run(wrapped).stdout.text.split() == ["SigIgn:", "0000000000000000"]


def test_a_program_that_is_nowhere_is_told_by_the_forwarder(tmp_path: Path, folder: Path) -> None:
    program = require_sandbox()
    (tmp_path / "tree").mkdir()
    with opened(folder, "api.example.com") as way_out:
        command = Command(("no-such-program",), tmp_path / "tree", dict(os.environ), timeout=LONG)
        with Sandbox(program, tmp_path / "tree").wrapped(command, way_out) as wrapped:
            finished = run(wrapped)
    assert (finished.exit_code, finished.stderr.text) == (
        127,
        "could not start no-such-program: No such file or directory\n",
    )


def test_the_forwarder_ends_with_the_command(tmp_path: Path, folder: Path) -> None:
    with opened(folder, "localhost:4000") as way_out:
        through(tmp_path, way_out, "print('done')")
        mark = b"/run/iterctl/forwarder.py"

        def left() -> list[str]:
            found = []
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    if mark in path.read_bytes():
                        found.append(path.parent.name)
                except OSError:
                    continue
            return found

        wait_until(lambda: not left(), "the forwarder is gone")
