"""Killed at every journal write and in between, a run ends as if nothing had happened."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.kit.project import FIXED, Project

# A suite that starts in milliseconds: the subject is the driver, not pytest.
SUITE = """
import pathlib, sys
namespace = {}
exec(pathlib.Path("calc.py").read_text(), namespace)
cases = {f"double_{n}": namespace["double"](n) == 2 * n for n in range(4)}
wrong = '<failure message="wrong"/>'
body = "".join(
    f'<testcase classname="calc" name="{name}">{"" if good else wrong}</testcase>' for name, good in cases.items()
)
pathlib.Path("report.xml").write_text(f"<testsuite>{body}</testsuite>")
sys.exit(0 if all(cases.values()) else 1)
"""
HALF = "def double(number):\n    return number * 2 if number < 2 else 0\n"
WORSE = "def double(number):\n    return -1\n"


def prepared(project: Project, *, iterations: int) -> None:
    (project.tools / "suite.py").write_text(SUITE)
    project.write(".gitignore", "__pycache__/\nreport.xml\n")
    project.write(
        "iterctl.yaml",
        f"""version: 1
settings: {{ max_iterations: {iterations}, agent: scripted, backoff: none }}
agents:
  scripted: {{ command: [{sys.executable}, -S, {project.tools / "agent.py"}] }}
tasks:
  - id: doubling
    test: {{ command: [{sys.executable}, -S, -E, {project.tools / "suite.py"}], junit: report.xml }}
""",
    )
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "suite")
    # The user has work of their own that nobody may lose.
    project.write("notes.txt", "mine\n")


def proceeding(project: Project) -> None:
    prepared(project, iterations=3)
    project.agent_by_call(
        {"1-1": {"write": {"calc.py": HALF, "new.txt": "left\n"}}, "2-1": {"write": {"calc.py": FIXED}}}
    )


def escalating(project: Project) -> None:
    """A failed call whose traces are taken out, a good attempt, a worse one; the good one is restored at the end."""
    prepared(project, iterations=2)
    project.agent_by_call(
        {
            "1-1": {"write": {"calc.py": "broken by a crash"}, "exit": 3},
            "1-2": {"write": {"calc.py": HALF}},
            "2-1": {"write": {"calc.py": WORSE, "junk.txt": "junk\n"}},
        }
    )


SCENARIOS = {"proceeding": proceeding, "escalating": escalating}


def essence(document: dict[str, Any]) -> dict[str, Any]:
    """What must not depend on where a run was killed."""
    task = document["tasks"][0]
    kept = {
        key: task[key] for key in ("state", "decision", "reason", "iterations", "tests", "failing", "holds", "limit")
    }
    kept["history"] = [
        {key: step[key] for key in ("iteration", "outcome", "decision", "reason", "changed")}
        for step in task["history"]
    ]
    kept["failed_turns"] = [[turn["outcome"] for turn in step["agent"]] for step in task["history"]]
    return kept


def tree(project: Project) -> dict[str, str]:
    return {
        str(path.relative_to(project.root)): path.read_text()
        for path in sorted(project.root.rglob("*"))
        if path.is_file() and path.name != "iterctl.yaml" and not {".git", ".iterctl", "__pycache__"} & set(path.parts)
    }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, Any], dict[str, str], int]]:
    """How each scenario ends when nobody kills anything."""
    found = {}
    for name, prepare in SCENARIOS.items():
        folder = tmp_path_factory.mktemp(name)
        project = Project.make(folder / "project", state=folder / "state")
        prepare(project)
        ran = project.iterctl("run", "--format", "json")
        assert ran.code == (0 if name == "proceeding" else 10), ran.err
        found[name] = (essence(ran.json), tree(project), len(project.calls))
    return found


def points() -> list[tuple[str, str, int]]:
    """More numbers than there are writes, so that the last write is surely among them."""
    writes = {"proceeding": 29, "escalating": 33}
    numbered = [
        (name, point, n) for name, most in writes.items() for point in ("before", "after") for n in range(1, most)
    ]
    return [*numbered, *(("escalating", "restore", n) for n in range(1, 3))]


@pytest.mark.parametrize(("scenario", "point", "number"), points())
def test_a_killed_run_ends_as_an_undisturbed_one(
    project: Project,
    undisturbed: dict[str, tuple[dict[str, Any], dict[str, str], int]],
    scenario: str,
    point: str,
    number: int,
) -> None:
    SCENARIOS[scenario](project)
    code = project.crash(point, number, "run", "-q").code
    if code in {0, 10}:
        pytest.skip("there are fewer writes than this")
    assert code == -9
    calls = len(project.calls)
    runs = project.iterctl("status", "--format", "json").json["runs"]
    if runs and not runs[0]["finished"]:
        ran = project.iterctl("resume", "--format", "json")
        assert ran.code in {0, 10}, ran.err
        document = ran.json
    elif runs:
        document = project.iterctl("status", runs[0]["run"], "--format", "json").json
    else:
        # Killed before the run existed at all: nothing was called and nothing was changed.
        assert calls == 0
        assert not [name for name in project.git("for-each-ref", "refs/iterctl").splitlines() if name]
        return
    expected, files, undisturbed_calls = undisturbed[scenario]
    assert essence(document) == expected
    assert tree(project) == files
    # Only a call whose end was never written down may be made again.
    again = len(project.calls) - undisturbed_calls
    assert again in ({0, 1} if point == "before" else {0})
