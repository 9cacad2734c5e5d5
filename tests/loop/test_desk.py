"""The desk answers whoever is called, and nothing that is sent to it ends it, the driver or another conversation."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_iterctl.errors import IterctlError, UsageError
from pytest_iterctl.loop.desk import Caller, ask, desk
from pytest_iterctl.redaction import Redactor
from pytest_iterctl.store.database import Database
from pytest_iterctl.store.journal import Journal
from pytest_iterctl.store.memory import Memory, Whose
from pytest_iterctl.work.private_socket import connect

SECRET = "sk-ant-api03-" + "aB3dE5fG7h" * 9


@contextmanager
def opened(folder: Path, task: str = "t", agent: str = "a") -> Iterator[Path]:
    database = Database(folder / "journal.db")
    if not Journal(database).runs():
        Journal(database).begin("R", "2025-01-01T00:00:00Z", "")
    database.close()
    with desk(folder / f"call-{task}-{agent}", Caller("R", task, agent, 1), folder / "journal.db", Redactor()) as path:
        yield path


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    with opened(tmp_path) as found:
        yield found


def put(path: Path, key: str, value: bytes, namespace: str = "") -> None:
    assert ask(path, {"do": "put", "key": key, "namespace": namespace}, value) == b""


def get(path: Path, key: str, namespace: str = "") -> bytes:
    return ask(path, {"do": "get", "key": key, "namespace": namespace})


def test_what_is_put_is_got_listed_and_deleted(path: Path, tmp_path: Path) -> None:
    put(path, "plan", "äöü\n".encode() * 1000)
    assert get(path, "plan") == "äöü\n".encode() * 1000
    (listed,) = json.loads(ask(path, {"do": "list", "key": "pl"}))
    assert (listed["key"], listed["type"], listed["agent_id"], listed["stage_num"]) == ("plan", "note", "a", 1)
    assert ask(path, {"do": "delete", "key": "plan"}) == b""
    for do in ("get", "delete"):
        with pytest.raises(UsageError, match="shared_memory_key_not_found: plan"):
            ask(path, {"do": do, "key": "plan"})
    assert json.loads(ask(path, {"do": "list"})) == []


def test_each_call_sees_what_is_its_own_and_what_is_everybody_s(tmp_path: Path) -> None:
    with opened(tmp_path, "t", "a") as one, opened(tmp_path, "t", "b") as other, opened(tmp_path, "u", "a") as third:
        for namespace in ("workflow", "session", "agent", "global"):
            put(one, "k", namespace.encode(), namespace)
        assert {each["namespace"] for each in json.loads(ask(other, {"do": "list"}))} == {
            *("workflow", "session", "global"),
        }
        assert {each["namespace"] for each in json.loads(ask(third, {"do": "list"}))} == {
            *("workflow", "agent", "global"),
        }
        assert get(other, "k", "session") == b"session"
        with pytest.raises(UsageError, match="not_found"):
            get(other, "k", "agent")
        with pytest.raises(UsageError, match="not_found"):
            get(third, "k", "session")


def test_the_output_of_a_stage_can_be_read_and_not_written(path: Path, tmp_path: Path) -> None:
    database = Database(tmp_path / "journal.db")
    Memory(database, Redactor(), "R").put("stage-1-output", "as it was", stored_at="1")
    assert get(path, "stage-1-output") == b"as it was"
    for request in ({"do": "put", "key": "stage-1-output"}, {"do": "delete", "key": "stage-1-output"}):
        with pytest.raises(UsageError, match="kept as it was"):
            ask(path, dict(request), b"mine" if request["do"] == "put" else b"")
    assert get(path, "stage-1-output") == b"as it was"
    database.close()


def test_no_secret_is_kept(path: Path) -> None:
    put(path, "k", f"token {SECRET}".encode())
    assert SECRET.encode() not in get(path, "k")


def test_eight_at_once_lose_nothing(path: Path) -> None:
    def write(number: int) -> None:
        for each in range(20):
            put(path, f"k-{number}-{each}", bytes([97 + number]) * 3000)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(json.loads(ask(path, {"do": "list"}))) == 160
    assert get(path, "k-7-19") == b"h" * 3000


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"", "cut off"),
        (b"\n", "one line of JSON"),
        (b"nonsense\n", "one line of JSON"),
        (b"[1]\n", "how many bytes"),
        (b'{"do": "get", "key": "k", "size": -1}\n', "how many bytes"),
        (b'{"do": "get", "key": "k", "size": true}\n', "how many bytes"),
        (b'{"do": "put", "key": "k", "size": 99999999999}\n', "how many bytes"),
        (b'{"do": "put", "key": "k", "size": 10}\nabc', "10 bytes were announced, and 3 came"),
        (b'{"do": "dance", "key": "k"}\n', "does not know 'dance'"),
        (b'{"do": ["get"], "key": "k"}\n', "do is no text"),
        (b'{"do": "get", "key": 7}\n', "key is no text"),
        (b'{"do": "get", "key": "k", "namespace": "nowhere"}\n', "unknown namespace"),
        (b'{"do": "put", "key": "a b", "size": 1}\nx', "is no key"),
        (b"x" * 3_000_000, "too long"),
        (b"[" * 60_000 + b"\n", "one line of JSON"),
    ],
)
def test_nonsense_is_told_so_and_the_next_one_is_served(path: Path, sent: bytes, told: str) -> None:
    with connect(path, 10.0) as client:
        try:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it was refused before all of it was sent
        try:
            answer = client.makefile("rb").readline()
        except ConnectionResetError:
            answer = b""
    assert told in json.loads(answer)["error"] if answer else told == "too long"
    put(path, "after", b"x")
    assert get(path, "after") == b"x"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(st.binary(max_size=2000))
def test_any_bytes_leave_the_desk_open(path: Path, sent: bytes) -> None:
    with connect(path, 10.0) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        client.makefile("rb").read()
    put(path, "after", b"x")
    assert get(path, "after") == b"x"


def test_half_a_character_is_told_so(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert json.loads(ask(path, {"do": "list", "key": "\udcff"})) == []
    for do in ("get", "delete", "put"):
        with pytest.raises(UsageError):
            ask(path, {"do": do, "key": "\udcff", "namespace": "workflow"}, b"x" if do == "put" else b"")
    assert capfd.readouterr().err == ""


def test_who_holds_every_seat_and_says_nothing_loses_them(path: Path) -> None:
    idle = [connect(path, 10.0) for _ in range(40)]
    put(path, "k", b"x")  # and not only after half a minute for each
    assert get(path, "k") == b"x"
    for client in idle:
        client.close()


def test_who_says_nothing_and_does_not_go_keeps_nobody_from_closing(tmp_path: Path) -> None:
    with opened(tmp_path) as path:
        idle = [connect(path, 10.0) for _ in range(40)]
    for client in idle:
        client.close()
    with pytest.raises(UsageError, match="does not answer"):
        get(path, "k")


def test_a_store_that_can_t_be_written_is_said(path: Path, tmp_path: Path) -> None:
    put(path, "k", b"x")
    (tmp_path / "journal.db").unlink()
    (tmp_path / "journal.db").mkdir()
    with pytest.raises(IterctlError, match="journal"):
        get(path, "k")


def test_a_task_has_notes_in_a_folder_whose_path_is_long(tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 30) / ("deeper" * 20)
    folder.mkdir(parents=True)
    with opened(folder) as path:
        put(path, "k", b"x", "session")
        assert get(path, "k", "session") == b"x"
        assert len(str(path)) > 107
    database = Database(folder / "journal.db")
    assert Memory(database, Redactor(), "R").get("k", whose=Whose("session", "t")) == "x"
    database.close()
