"""The user's own reports come from the run that decided, and are nobody's change."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing

import pytest

from tests.kit.project import FIXED, Project

WITH_HOME = """import pathlib

from calc import double


def test_one(record_property):
    record_property("home", str(pathlib.Path.home()))
    assert double(1) == 2
"""
OPTIONS = (
    *("-p", "pytest_cov", "--cov=calc", "--junitxml=junit.xml"),
    *("--cov-report=xml", "--cov-report=html:pages", "--cov-report=json:out/cov.json", "--cov-report=term"),
)
ASKED_FOR = {".coverage", "coverage.xml", "junit.xml", "out/"}  # the pages have a .gitignore of their own


@pytest.fixture
def measured(project: Project) -> Project:
    project.write("test_calc.py", WITH_HOME)
    project.write("pytest.ini", "[pytest]\naddopts = -p no:randomly " + " ".join(OPTIONS) + "\n")
    project.agent({"write": {"calc.py": FIXED}})
    project.git("commit", "-qam", "with reports")
    for name in ("user.name", "user.email"):
        project.git("config", name, "tester@localhost")
    return project


def untracked(project: Project) -> set[str]:
    return {line[3:] for line in project.git("status", "--porcelain").splitlines() if line.startswith("??")}


def come_from_the_clean_room(project: Project) -> bool:
    report = (project.root / "junit.xml").read_text()
    assert str(project.root) in (project.root / "coverage.xml").read_text()
    for page in (project.root / "pages").glob("*.html"):
        assert str(project.state) not in page.read_text(), page
    with closing(sqlite3.connect(project.root / ".coverage")) as database:
        assert database.execute("SELECT path FROM file").fetchall() == [(str(project.root / "calc.py"),)]
    return str(project.state) in report.partition('name="home"')[2]


@pytest.mark.slow
def test_reports_come_from_the_verdict_and_are_not_committed(measured: Project) -> None:
    ran = measured.iterate("--iterate-commit")
    assert ran.code == 0, ran.out + ran.err
    assert untracked(measured) == ASKED_FOR
    assert come_from_the_clean_room(measured)
    assert measured.git("show", "--format=", "--name-only", "HEAD").split() == ["calc.py"]
    assert "Left out" not in ran.out + ran.err
    assert measured.iterctl("diff").out.count("diff --git") == 1


@pytest.mark.slow
def test_reports_that_were_there_before_are_written_anew_and_not_committed(measured: Project) -> None:
    measured.pytest()
    assert untracked(measured) == ASKED_FOR
    before = (measured.root / "junit.xml").read_text()
    ran = measured.iterate("--iterate-commit")
    assert ran.code == 0, ran.out + ran.err
    assert untracked(measured) == ASKED_FOR
    assert come_from_the_clean_room(measured)
    assert (measured.root / "junit.xml").read_text() != before
    assert measured.git("show", "--format=", "--name-only", "HEAD").split() == ["calc.py"]


@pytest.mark.slow
def test_an_agent_that_runs_the_tests_itself_has_not_changed_their_reports(measured: Project) -> None:
    run = f"import subprocess; subprocess.run([{sys.executable!r}, '-m', 'pytest', '-q'], capture_output=True)"
    text = (measured.tools / "agent.py").read_text().replace("time.sleep(act", f"{run}\ntime.sleep(act")
    (measured.tools / "agent.py").write_text(text)
    ran = measured.iterate("--iterate-commit")
    assert ran.code == 0, ran.out + ran.err
    assert "+1 −1 in 1 file" in ran.out + ran.err
    assert measured.git("show", "--format=", "--name-only", "HEAD").split() == ["calc.py"]


@pytest.mark.slow
def test_a_file_that_code_under_test_calls_a_report_is_not_written_over_a_source(measured: Project) -> None:
    """The run of the base says which reports there are; what a later run claims beside them is not believed."""
    measured.write("notes.txt", "mine\n")
    measured.git("add", "notes.txt")
    measured.git("commit", "-qm", "notes")
    claim = (
        "import gc, os, pathlib\n"
        "if '/room/' in os.getcwd():\n"
        "    pathlib.Path('notes.txt').write_text('theirs')\n"
        "    pathlib.Path('new.txt').write_text('theirs')\n"
        "    for each in gc.get_objects():\n"
        "        if type(each).__name__ == 'Config':\n"
        "            each.option.htmlpath, each.option.report_log = 'notes.txt', 'new.txt'\n"
    )
    measured.agent({"write": {"calc.py": f"{claim}\n\n{FIXED}"}})
    ran = measured.iterate()
    assert ran.code == 0, ran.out + ran.err
    assert come_from_the_clean_room(measured)
    assert (measured.root / "notes.txt").read_text() == "mine\n"
    assert not (measured.root / "new.txt").exists()


@pytest.mark.slow
def test_links_of_the_user_stay_links(measured: Project) -> None:
    outside = measured.tools / "www"
    outside.mkdir()
    (outside / "report.xml").write_text("old")
    (measured.root / "junit.xml").symlink_to(outside / "report.xml")
    (measured.root / "out").symlink_to(outside)
    measured.write(".gitignore", "__pycache__/\n.pytest_cache/\n/out\njunit.xml\n")
    measured.git("commit", "-qam", "ignored")
    ran = measured.iterate()
    assert ran.code == 0, ran.out + ran.err
    assert (measured.root / "junit.xml").is_symlink()
    assert (measured.root / "out").is_symlink()
    assert (outside / "cov.json").exists()
    assert (outside / "report.xml").read_text() != "old"
    assert "reports behind links are those of the work tree's own run: junit.xml, out/cov.json" in ran.err


@pytest.mark.slow
def test_a_report_outside_of_the_tree_is_that_of_the_work_tree(measured: Project) -> None:
    outside = measured.tools / "outside.xml"
    measured.write("pytest.ini", f"[pytest]\naddopts = -p no:randomly --junitxml={outside}\n")
    measured.git("commit", "-qam", "outside")
    measured.agent({"write": {"calc.py": FIXED}})
    ran = measured.iterate(ITERCTL_GATE="full")
    assert ran.code == 0, ran.out + ran.err
    report = outside.read_text()
    assert 'failures="0"' in report
    assert str(measured.state) not in report
