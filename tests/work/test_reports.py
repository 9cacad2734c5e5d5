"""Reports come out of a room with the work tree's paths in them, and nothing comes out that is no report."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pytest_iterctl.work import reports
from pytest_iterctl.work.reports import is_loaded, lay_reports

ROOT = Path("/home/user/project")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "room" / "tree"
    folder.mkdir(parents=True)
    return folder


def taken(tree: Path, *asked: str) -> dict[str, bytes]:
    target = tree.parent.parent / "target"
    target.mkdir()
    names = lay_reports([str(tree / each) for each in asked], tree, ROOT, target)
    there = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert there == set(map(os.fsdecode, names))
    return {os.fsdecode(name): (target / os.fsdecode(name)).read_bytes() for name in names}


def test_a_text_names_the_work_tree(tree: Path) -> None:
    (tree / "coverage.xml").write_text(f"<source>{tree}/src</source> é", encoding="utf-8")
    assert taken(tree, "coverage.xml") == {"coverage.xml": f"<source>{ROOT}/src</source> é".encode()}


def test_a_folder_is_taken_with_all_that_is_in_it(tree: Path) -> None:
    (tree / "htmlcov" / "static").mkdir(parents=True)
    (tree / "htmlcov" / "index.html").write_text(f"{tree}/a.py")
    (tree / "htmlcov" / "static" / "logo.png").write_bytes(b"\x89PNG" + os.fsencode(tree))
    found = taken(tree, "htmlcov")
    assert found == {
        "htmlcov/index.html": f"{ROOT}/a.py".encode(),
        "htmlcov/static/logo.png": b"\x89PNG" + os.fsencode(tree),
    }


def measured(path: Path, *files: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE file (id INTEGER PRIMARY KEY, path TEXT, UNIQUE (path))")
        database.executemany("INSERT INTO file (path) VALUES (?)", [(each,) for each in files])


def paths_in(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        return [row[0] for row in database.execute("SELECT path FROM file ORDER BY id")]


def test_coverage_data_names_the_files_of_the_work_tree(tree: Path) -> None:
    measured(tree / ".coverage", f"{tree}/a.py", "/usr/lib/b.py", f"{tree}x/c.py")
    taken(tree, ".coverage")
    assert paths_in(tree.parent.parent / "target" / ".coverage") == [f"{ROOT}/a.py", "/usr/lib/b.py", f"{tree}x/c.py"]


@pytest.mark.parametrize("content", [b"SQLite format 3\0", b"SQLite format 3\0" + b"rubbish" * 1000])
def test_a_broken_database_is_left_as_it_is(tree: Path, content: bytes) -> None:
    (tree / ".coverage").write_bytes(content)
    assert taken(tree, ".coverage") == {".coverage": content}


def test_another_program_s_database_is_left_as_it_is(tree: Path) -> None:
    with closing(sqlite3.connect(tree / "data")) as database, database:
        database.execute("CREATE TABLE other (path TEXT)")
    assert taken(tree, "data") == {"data": (tree / "data").read_bytes()}


def test_a_database_that_takes_for_ever_is_left_as_it_is(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "_PATIENCE", 0.2)
    measured(tree / ".coverage", f"{tree}/a.py")
    with closing(sqlite3.connect(tree / ".coverage")) as database, database:
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
        database.execute(f"CREATE TRIGGER slow BEFORE UPDATE ON file BEGIN {endless}; END")
    before = (tree / ".coverage").read_bytes()
    assert taken(tree, ".coverage") == {".coverage": before}


def test_what_is_no_report_stays_where_it_is(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.xml").write_text("secret")
    (tree / "linked.xml").symlink_to(tmp_path / "secret.xml")
    (tree / "folder").symlink_to(tmp_path)
    for name in ("conftest.py", "evil.pth", "pytest.ini", ".pytest.toml", "pyproject.toml"):
        (tree / name).write_text("")
    (tree / "report.xml").write_text("kept")
    os.mkfifo(tree / "pipe.xml")
    asked = (
        *("linked.xml", "folder", "folder/secret.xml", "../../secret.xml", "gone.xml", "pipe.xml", "."),
        *("conftest.py", "evil.pth", "pytest.ini", ".pytest.toml", "pyproject.toml", "report.xml", "report.xml"),
    )
    assert taken(tree, *asked) == {"report.xml": b"kept"}


def test_too_much_is_left_behind(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "_LARGEST", 10)
    monkeypatch.setattr(reports, "_MOST_BYTES", 15)
    monkeypatch.setattr(reports, "_MOST_FILES", 3)
    for name, size in {"a": 9, "b": 11, "c": 9, "d": 3, "e": 3, "f": 0}.items():
        (tree / name).write_bytes(b"x" * size)
    assert set(taken(tree, "a", "b", "c", "d", "e", "f")) == {"a", "d", "e"}


@pytest.mark.parametrize("name", ["a/conftest.py", "setup.cfg", "a/b.so", "tox.ini", ".pytest.ini", "x.pyc"])
def test_what_python_or_pytest_loads_is_no_report(name: str) -> None:
    assert is_loaded(os.fsencode(name))


@pytest.mark.parametrize("name", ["coverage.xml", ".coverage", "htmlcov/index.html", "py", "setup.cfg.xml"])
def test_data_may_be_a_report(name: str) -> None:
    assert not is_loaded(os.fsencode(name))


def test_what_can_not_be_read_is_passed_over(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.xml", "closed.xml", "c.xml"):
        (tree / name).write_text(name)
    (tree / "loop.xml").symlink_to("loop.xml")
    opened = Path.open

    def refusing(self: Path, *arguments: Any, **named: Any) -> Any:
        if self.name == "closed.xml":
            raise PermissionError(13, "Permission denied", str(self))
        return opened(self, *arguments, **named)

    monkeypatch.setattr(Path, "open", refusing)
    asked = ("a.xml", "closed.xml", "loop.xml", "c.xml")
    assert taken(tree, *asked) == {"a.xml": b"a.xml", "c.xml": b"c.xml"}
