"""The journal, the memory and the checks: nothing that was written is lost, and no secret is written."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_iterctl.errors import LockedError, StoreError, UsageError
from pytest_iterctl.redaction import Redactor
from pytest_iterctl.store.checks import Checks
from pytest_iterctl.store.database import Database
from pytest_iterctl.store.journal import Journal, Record
from pytest_iterctl.store.lock import WorkTreeLock, holder
from pytest_iterctl.store.memory import Memory
from pytest_iterctl.store.place import Place, state_home

KEY = "ghp_" + "a1B2" * 10


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "journal.db")


def record(number: int, body: str = "{}") -> Record:
    return Record(number, "2026-01-01T00:00:00Z", float(number), "kind", body)


def test_events_come_back_in_order_and_survive_the_connection(tmp_path: Path) -> None:
    first = Database(tmp_path / "j.db")
    journal = Journal(first)
    journal.begin("R", "now", "label")
    for number in range(1, 6):
        journal.append("R", record(number), durable=number % 2 == 0)
    first.close()
    again = Journal(Database(tmp_path / "j.db"))
    assert [each.sequence for each in again.records("R")] == [1, 2, 3, 4, 5]
    assert [row.id for row in again.runs()] == ["R"]


def test_a_number_is_given_once(database: Database) -> None:
    journal = Journal(database)
    journal.begin("R", "now", "")
    journal.append("R", record(1), durable=True)
    with pytest.raises(StoreError, match="can't be written"):
        journal.append("R", record(1), durable=True)


def test_an_event_needs_its_run(database: Database) -> None:
    with pytest.raises(StoreError):
        Journal(database).append("nobody", record(1), durable=False)


def test_forgetting_a_run_forgets_its_events_and_its_memory(database: Database) -> None:
    journal, memory = Journal(database), Memory(database, Redactor(), "R")
    journal.begin("R", "now", "")
    journal.append("R", record(1), durable=False)
    memory.put("key", "value", stored_at="now")
    journal.delete("R")
    assert list(journal.records("R")) == []
    assert memory.get("key") is None


def test_the_file_is_private(tmp_path: Path) -> None:
    Database(tmp_path / "j.db")
    assert stat.S_IMODE((tmp_path / "j.db").stat().st_mode) == 0o600


def test_a_newer_format_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "j.db") as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="newer iterctl") as caught:
        Database(tmp_path / "j.db")
    assert "upgrade" in caught.value.hint


def test_what_is_no_database_is_an_error_and_not_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "j.db").write_bytes(b"not a database, but long enough to be taken for one" * 100)
    with pytest.raises(StoreError, match="can't be opened"):
        Database(tmp_path / "j.db")


def test_a_full_disk_stops_the_journal_with_an_error(tmp_path: Path) -> None:
    database = Database(tmp_path / "j.db")
    journal = Journal(database)
    journal.begin("R", "now", "")
    pages = int(database.connection.execute("PRAGMA page_count").fetchone()[0])
    database.connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="can't be written"):
        journal.append("R", record(1, "x" * 1_000_000), durable=True)
    assert list(journal.records("R")) == []


def test_memory_keeps_whole_values_compressed_over_a_kilobyte(database: Database) -> None:
    Journal(database).begin("R", "now", "")
    memory = Memory(database, Redactor(), "R")
    memory.put("long", "äöü" * 100_000, stored_at="now", agent_id="a", stage_num=1)
    memory.put("short", "x", stored_at="now")
    assert memory.get("long") == "äöü" * 100_000
    assert [(note.key, note.full_size, note.compressed) for note in memory.notes()] == [
        ("long", 600_000, True),
        ("short", 1, False),
    ]
    assert memory.get("missing") is None


def test_no_secret_reaches_memory_or_checks(tmp_path: Path) -> None:
    database = Database(tmp_path / "j.db")
    Journal(database).begin("R", "now", "")
    Memory(database, Redactor(frozenset({"hunter2-value"})), "R").put("k", f"{KEY} hunter2-value", stored_at="now")
    Checks(database, Redactor()).remember("loop", "task", 1, KEY)
    database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = (tmp_path / "j.db").read_bytes()
    assert KEY.encode() not in content
    assert b"hunter2-value" not in content


def test_checks_of_one_loop_are_remembered_until_it_begins_anew(database: Database) -> None:
    checks = Checks(database, Redactor())
    for iteration in (1, 2, 2, 3):
        checks.remember("loop", "task", iteration, f"try {iteration}")
    assert checks.attempts("loop", "task") == ((1, "try 1"), (2, "try 2"), (3, "try 3"))
    assert checks.attempts("other", "task") == ()
    checks.remember("loop", "task", 1, "again")
    assert checks.attempts("loop", "task") == ((1, "again"),)
    checks.forget("loop", "task")
    assert checks.attempts("loop", "task") == ()


def test_a_second_holder_is_refused_with_the_name_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert holder(path) is None
    with WorkTreeLock(path, "FIRST"):
        assert holder(path) == "FIRST"
        with pytest.raises(LockedError, match="FIRST") as caught, WorkTreeLock(path, "SECOND"):
            pass
        assert "iterctl stop FIRST" in caught.value.hint
    assert holder(path) is None


def test_a_lock_is_handed_over_and_released_by_whoever_has_it_then(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = WorkTreeLock(path, "RUN")
    with first:
        passed = os.dup(first.descriptor)
        first.hand_over()
        assert holder(path) == "RUN"
        kept = os.dup(passed)  # as by a program in between, which knows nothing of it
        with WorkTreeLock(path, "RUN", held=passed) as second, second:
            assert holder(path) == "RUN"
        assert holder(path) is None
        with WorkTreeLock(path, "NEXT"):
            assert holder(path) == "NEXT"
        os.close(kept)
    assert holder(path) is None


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    script = (
        "import os, signal, pathlib, sys\nfrom pytest_iterctl.store.lock import WorkTreeLock\n"
        f"with WorkTreeLock(pathlib.Path({str(tmp_path / 'lock')!r}), 'DEAD'):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    with WorkTreeLock(tmp_path / "lock", "NEXT"):
        assert holder(tmp_path / "lock") == "NEXT"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"ITERCTL_STATE_DIR": "/s"}, "/s"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/iterctl"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/h"}, "/h/.local/state/iterctl"),
        ({"HOME": "/h"}, "/h/.local/state/iterctl"),
    ],
)
def test_state_lives_where_the_environment_says(environment: dict[str, str], expected: str) -> None:
    assert state_home(environment) == Path(expected)


def test_each_work_tree_has_a_private_folder_of_its_own(tmp_path: Path) -> None:
    environment = {"ITERCTL_STATE_DIR": str(tmp_path / "state")}
    one, two = Place(tmp_path / "a" / "repo", environment), Place(tmp_path / "b" / "repo", environment)
    assert one.directory != two.directory
    one.prepare()
    assert stat.S_IMODE(one.directory.stat().st_mode) == 0o700


def test_state_inside_the_work_tree_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="inside the work tree"):
        Place(tmp_path, {"ITERCTL_STATE_DIR": str(tmp_path / "state")})


def test_reports_are_never_written_through_a_link(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "repo", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    (root / ".iterctl").symlink_to(elsewhere)
    with pytest.raises(StoreError, match="symbolic link"):
        Place(root, {"ITERCTL_STATE_DIR": str(tmp_path / "s")}).report_directory("R")
    assert list(elsewhere.iterdir()) == []
