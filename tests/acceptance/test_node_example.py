"""The example with a runner of another language, run for real wherever there is one."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.kit.project import Project, Ran, git

EXAMPLE = Path(__file__).parents[2] / "examples" / "node-project"
OLDEST = 20


def version_of(node: str) -> int:
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"v(\d+)\.", told)
    return int(found[1]) if found else 0


@pytest.fixture
def project(tmp_path: Path) -> Project:
    node = shutil.which("node")
    if node is None or version_of(node) < OLDEST:
        pytest.skip(f"the example with another language is NOT tested: there is no node {OLDEST} or later on the PATH")
    made = Project(tmp_path / "project", tmp_path / "state", tmp_path / "tools")
    shutil.copytree(EXAMPLE, made.root, ignore=shutil.ignore_patterns("node_modules", "report.xml"))
    git(made.root, "init", "-q")
    git(made.root, "add", "-A")
    git(made.root, "commit", "-q", "-m", "first")
    return made


def node_test(project: Project) -> Ran:
    plan = (EXAMPLE / "iterctl.yaml").read_text()
    command = re.search(r"command: \[(node, --test.*)\]", plan)
    assert command is not None
    return project.run(*command[1].split(", "))


def only_task(ran: Ran) -> dict[str, Any]:
    (task,) = ran.json["tasks"]
    return task  # type: ignore[no-any-return]


def test_the_example_fails_at_first_and_leaves_no_files_behind(project: Project) -> None:
    assert project.iterctl("doctor").code == 0
    assert node_test(project).code == 1
    assert project.git("status", "--porcelain") == ""


def test_the_run_takes_two_iterations_and_leaves_the_fix(project: Project) -> None:
    ran = project.iterctl("run", "--format", "json")
    assert ran.code == 0, ran.err
    task = only_task(ran)
    assert (task["id"], task["iterations"], task["decision"]) == ("prices", 2, "proceed")
    assert task["tests"]["passed"] == 4
    assert project.git("status", "--porcelain") == "M prices.js"
    assert node_test(project).code == 0


def test_the_agent_is_told_place_and_values(project: Project) -> None:
    node_test(project)
    document = project.iterctl("feedback", "report.xml", "--format", "json").json
    assert (document["outcome"], document["tests"], document["failed"]) == ("failed", 4, 2)
    assert {test for item in document["items"] for test in item["tests"]} == {
        "total › counts every piece",
        "format › shows two digits of cents",
    }
    told = {item["where"]: item["title"] for item in document["items"]}
    assert "expected 600, received 350" in told["prices.test.js:12"]


def test_a_runner_that_dies_or_writes_nothing_is_no_pass(project: Project) -> None:
    assert node_test(project).code == 1
    plan = project.root / "iterctl.yaml"
    # The report of the run before is there, but this command writes none.
    plan.write_text(
        plan.read_text()
        .replace("[node, --test, --test-reporter=junit", "[node, --version")
        .replace(", --test-reporter-destination=report.xml]", "]")
    )
    ran = project.iterctl("run", "--format", "json", "--max-iterations", "1")
    assert ran.code == 10, ran.err
    assert {step["outcome"] for step in only_task(ran)["history"]} == {"no-report"}


def test_the_readme_shows_the_plan_as_it_is() -> None:
    (shown,) = re.findall(r"```yaml\n(.*?)```", (EXAMPLE / "README.md").read_text(), re.DOTALL)
    plan = (EXAMPLE / "iterctl.yaml").read_text()
    assert all(line.strip() in plan for line in shown.splitlines())
