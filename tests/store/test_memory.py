"""What is kept by key: whose it is, who may write it, and that nothing of many writers is lost."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_iterctl.errors import UsageError
from pytest_iterctl.redaction import Redactor
from pytest_iterctl.store.database import Database
from pytest_iterctl.store.journal import Journal
from pytest_iterctl.store.memory import NAMESPACES, Memory, Whose


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    found = Database(tmp_path / "journal.db")
    for run in ("R", "S"):
        Journal(found).begin(run, "2025-01-01T00:00:00Z", "")
    yield found
    found.close()


def memory(database: Database, run: str = "R") -> Memory:
    return Memory(database, Redactor(), run)


def note(kept: Memory, key: str, text: str, *, whose: Whose | None = None, at: str = "1") -> None:
    kept.put(key, text, stored_at=at, whose=whose or Whose(), kind="note")


def test_each_namespace_and_each_owner_has_keys_of_its_own(database: Database) -> None:
    kept = memory(database)
    places = [
        *(Whose.of(name, task="t", agent="a") for name in NAMESPACES),
        *(Whose.of("session", task="u", agent=""), Whose.of("agent", task="", agent="b")),
    ]
    for number, whose in enumerate(places):
        note(kept, "k", str(number), whose=whose)
    assert [kept.get("k", whose=whose) for whose in places] == [str(number) for number in range(len(places))]
    assert {(each.namespace, each.whose) for each in kept.notes()} == {
        *(("workflow", ""), ("global", ""), ("session", "t"), ("session", "u"), ("agent", "a"), ("agent", "b")),
    }
    assert [each.whose for each in kept.notes(whose=places[1])] == ["t"]


@pytest.mark.parametrize(
    ("namespace", "message"),
    [("nowhere", "unknown namespace"), ("session", "belongs to a task"), ("agent", "belongs to an agent")],
)
def test_a_namespace_that_is_nobody_s_is_refused(namespace: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Whose.of(namespace, task="", agent="")


def test_what_all_runs_share_is_the_newest_and_goes_with_the_run_that_wrote_it(database: Database) -> None:
    one, other, shared = memory(database), memory(database, "S"), Whose("global")
    note(one, "k", "old", whose=shared, at="1")
    assert other.get("k", whose=shared) == "old"
    note(other, "k", "new", whose=shared, at="2")
    assert one.get("k", whose=shared) == "new"
    assert [(each.key, each.stored_at) for each in one.notes(whose=shared)] == [("k", "2")]
    Journal(database).delete("S")
    assert one.get("k", whose=shared) == "old"
    assert one.delete("k", whose=shared)
    assert one.get("k", whose=shared) is None


def test_the_output_of_a_stage_is_written_by_the_loop_alone(database: Database) -> None:
    kept = memory(database)
    kept.put("stage-1-output", "as it was", stored_at="1")
    with pytest.raises(UsageError, match="kept as it was"):
        note(kept, "stage-1-output", "another one")
    with pytest.raises(UsageError, match="kept as it was"):
        kept.delete("stage-1-output")
    assert kept.get("stage-1-output") == "as it was"
    kept.put("stage-1-output", "newer", stored_at="2")
    assert kept.get("stage-1-output") == "newer"
    # And what somebody put there before is no reason not to write it.
    note(kept, "stage-2-output", "a guess")
    kept.put("stage-2-output", "what it is", stored_at="2")
    assert kept.get("stage-2-output") == "what it is"


@pytest.mark.parametrize("key", ["", "a b", "x" * 201, "new\nline", "nul\0", "ä" * 201])
def test_a_key_is_a_word(database: Database, key: str) -> None:
    with pytest.raises(UsageError, match="is no key"):
        note(memory(database), key, "x")


def test_what_is_not_there_can_t_be_deleted(database: Database) -> None:
    kept = memory(database)
    assert not kept.delete("k")
    note(kept, "k", "x")
    assert kept.delete("k")
    assert kept.get("k") is None


def test_eight_writers_at_once_lose_nothing(database: Database) -> None:
    def write(number: int) -> None:
        own = Database(database.path)
        for each in range(50):
            note(memory(own), f"k-{number}-{each}", str(each) * 2000)
        own.close()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = memory(database)
    assert len(kept.notes()) == 400
    assert all(kept.get(f"k-{number}-{each}") == str(each) * 2000 for number in range(8) for each in range(50))


def test_the_keys_that_begin_so_can_be_listed(database: Database) -> None:
    kept = memory(database)
    for key in ("plan/a", "plan/b", "other"):
        note(kept, key, "x" * 2000)
    found = kept.notes(prefix="plan/")
    assert [(each.key, each.type, each.full_size, each.compressed) for each in found] == [
        *(("plan/a", "note", 2000, True), ("plan/b", "note", 2000, True)),
    ]


def test_a_second_connection_of_one_process_takes_no_locks_away_from_the_first(tmp_path: Path) -> None:
    # By POSIX rules, to close any descriptor of a file drops all locks that the process holds on it. Then another
    # process takes itself for the last one and removes the log of what was written, under the first one's feet.
    path = tmp_path / "journal.db"
    first = Database(path)
    Journal(first).begin("R", "2025-01-01T00:00:00Z", "")
    for number in range(5):
        second = Database(path)
        note(memory(second), f"inside-{number}", "x" * 5000)
        second.close()
        look = "import sys; from pathlib import Path; from pytest_iterctl.store.database import Database as D; "
        does = "d = D(Path(sys.argv[1])); d.connection.execute('SELECT count(*) FROM memory').fetchall(); d.close()"
        subprocess.run([sys.executable, "-c", look + does, str(path)], check=True)
        assert (tmp_path / "journal.db-wal").exists()
        note(memory(first), f"outside-{number}", "y" * 5000)
    assert first.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert len(memory(first).notes()) == 10
    first.close()


def test_a_value_has_a_bound(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_iterctl.store.memory.LARGEST", 10)
    kept = memory(database)
    note(kept, "k", "x" * 10)
    with pytest.raises(UsageError, match="k has 11 bytes"):
        note(kept, "k", "x" * 11)
    assert kept.get("k") == "x" * 10
