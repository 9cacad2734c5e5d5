"""The examples are run as their readers would run them: copied, made a git repository, and started for real."""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kit.project import Project, Ran, git

EXAMPLES = Path(__file__).parents[2] / "examples"
Copy = Callable[[str], Project]


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    """An example in a repository of its own, with the interpreter under test first on the path."""

    def make(name: str) -> Project:
        project = Project(tmp_path / "project", tmp_path / "state", tmp_path / "tools")
        shutil.copytree(EXAMPLES / name, project.root, ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"))
        project.tools.mkdir()
        for word in ("python3", "python"):
            # A link would make the interpreter look for another environment's packages.
            script = project.tools / word
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
            script.chmod(0o755)
        git(project.root, "init", "-q")
        git(project.root, "add", "-A")
        git(project.root, "commit", "-q", "-m", "first")
        return project

    return make


def path_of(project: Project) -> str:
    return f"{project.tools}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"


def iterctl(project: Project, *arguments: str) -> Ran:
    return project.iterctl(*arguments, PATH=path_of(project))


def shell(project: Project, script: str, **variables: str) -> Ran:
    environment = {"PATH": path_of(project), **variables}
    return project.run("bash", "-e", "-o", "pipefail", "-c", script, cwd=None, stdin="", **environment)


def only_task(ran: Ran) -> dict[str, Any]:
    (task,) = ran.json["tasks"]
    return task  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["package-with-agent", "reviewers", "conftest-hooks", "retry-with-backoff"])
def test_an_example_has_a_plan_that_holds_and_failing_tests(copy: Copy, name: str) -> None:
    project = copy(name)
    assert iterctl(project, "doctor").code == 0
    assert project.pytest("-q", PATH=path_of(project)).code == 1
    assert project.git("status", "--porcelain") == "", "what a test run leaves is ignored"


def test_package_with_agent_takes_two_iterations_and_leaves_the_fix(copy: Copy) -> None:
    project = copy("package-with-agent")
    ran = iterctl(project, "run", "--format", "json")
    assert ran.code == 0, ran.err
    task = only_task(ran)
    assert (task["id"], task["iterations"], task["cost_usd"]) == ("slugs", 2, 0.04)
    assert project.git("status", "--porcelain") == "M slugs/__init__.py"
    assert project.pytest("-q", PATH=path_of(project)).code == 0


def test_package_with_agent_works_with_pytest_too(copy: Copy) -> None:
    project = copy("package-with-agent")
    ran = project.pytest("--iterate", "--iterate-format=json", PATH=path_of(project))
    assert ran.code == 0, ran.err
    assert (only_task(ran)["id"], only_task(ran)["iterations"]) == ("pytest", 2)


def test_reviewers_reject_first_and_approve_then(copy: Copy) -> None:
    project = copy("reviewers")
    ran = iterctl(project, "run", "--format", "json")
    assert ran.code == 0, ran.err
    assert [step["reason"] for step in only_task(ran)["history"]] == ["review-rejected", "passed"]
    report = iterctl(project, "report", "--format", "json").json
    said = [[(review["reviewer"], review["status"]) for review in attempt["reviews"]] for attempt in report["attempts"]]
    both = ("docstrings", "no-print")
    assert said == [[], [(name, "reject") for name in both], [(name, "approve") for name in both]]
    first = report["attempts"][1]["reviews"]
    assert first[0]["findings"] == ["prices.py:4: with_tax has no docstring"]
    assert first[1]["feedback"] == "Remove the debugging print: print(cents, percent)"


def test_hooks_in_conftest_generate_review_and_are_told(copy: Copy) -> None:
    project = copy("conftest-hooks")
    ran = iterctl(project, "run", "--format", "json")
    assert ran.code == 0, ran.err
    assert ran.json["warnings"] == []
    assert only_task(ran)["iterations"] == 2
    told = [json.loads(line) for line in (project.root / "decisions.log").read_text().splitlines()]
    assert [decision["action"] for decision in told] == ["retry", "retry", "proceed"]
    assert project.git("status", "--porcelain") == "M temperature.py"


def test_retry_with_backoff_waits_longer_each_time_and_counts_one_iteration(copy: Copy) -> None:
    project = copy("retry-with-backoff")
    ran = iterctl(project, "run")
    assert ran.code == 0, ran.err
    assert (project.root / "calls.log").read_text().splitlines() == ["call 1", "call 2", "call 3"]
    first, second = (float(wait) for wait in re.findall(r"WAIT \(1/3\) ([\d.]+)s", ran.err))
    assert 0.1 <= first < second <= 0.25
    (run,) = iterctl(project, "status", "--format", "json").json["runs"]
    task = only_task(iterctl(project, "status", run["run"], "--format", "json"))
    assert task["iterations"] == 1
    assert [turn["outcome"] for turn in task["history"][0]["agent"]] == ["crashed", "crashed", "done"]
    assert "half of an ed" not in (project.root / "greeting.py").read_text()


# ── the workflow ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def workflow() -> dict[str, Any]:
    return yaml.safe_load((EXAMPLES / "ci/github-workflow.yml").read_text())  # type: ignore[no-any-return]


def step(workflow: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [each for each in workflow["jobs"]["iterate"]["steps"] if each.get("name") == name]
    return found  # type: ignore[no-any-return]


def in_ci(project: Project, workflow: dict[str, Any], name: str, **variables: str) -> Ran:
    """A step's script as the runner would start it, with its environment and our scripted agent."""
    own = {key: value for key, value in step(workflow, name).get("env", {}).items() if "${{" not in value}
    ci = {"CI": "true", "GITHUB_ACTIONS": "true", "MY_AGENT_TOKEN": "s3cret-value", "PROMPT": "Mend it."}
    summary = {"GITHUB_STEP_SUMMARY": str(project.tools / "summary.md")}
    return shell(project, step(workflow, name)["run"], **{**own, **ci, **summary, **variables})


@pytest.fixture
def ci_project(copy: Copy) -> Project:
    project = copy("package-with-agent")
    project.git("rm", "-q", "iterctl.yaml")
    agent = project.tools / "my-agent"
    agent.write_text(
        f'#!/bin/sh\necho "$* $MY_AGENT_TOKEN $GITHUB_TOKEN" >> {project.tools}/seen\nexec python3 agent.py\n'
    )
    agent.chmod(0o755)
    return project


def test_the_workflow_is_pinned_bounded_and_keeps_the_reports(workflow: dict[str, Any]) -> None:
    job = workflow["jobs"]["iterate"]
    assert workflow["permissions"] == {"contents": "read"}
    assert job["timeout-minutes"] > 30
    assert all(re.search(r"@v\d+$", each["uses"]) for each in job["steps"] if "uses" in each)
    (upload,) = [each for each in job["steps"] if "upload-artifact" in each.get("uses", "")]
    assert upload["with"]["path"] == ".iterctl/"
    assert upload["with"]["include-hidden-files"] is True
    assert upload["if"] == "${{ !cancelled() }}"
    assert not any("${{" in each.get("run", "") for each in job["steps"]), "inputs reach a script as variables only"


def test_the_workflow_accepts_a_change_and_passes_tokens_on_by_name_only(
    ci_project: Project, workflow: dict[str, Any]
) -> None:
    ran = in_ci(ci_project, workflow, "Iterate", GITHUB_TOKEN="not-for-agents")
    assert ran.code == 0, ran.err
    assert (ci_project.tools / "seen").read_text().splitlines() == ["--fix s3cret-value "] * 2
    patch = ci_project.root / ".iterctl/accepted.patch"
    assert "+import re" in patch.read_text()
    ci_project.git("checkout", "--", "slugs")
    ci_project.git("apply", str(patch))
    assert ci_project.pytest("-q", PATH=path_of(ci_project)).code == 0
    assert list((ci_project.root / ".iterctl").glob("runs/*/checkpoint-*.tar.gz"))


def test_the_workflow_turns_a_question_into_a_clear_message_and_a_report(
    ci_project: Project, workflow: dict[str, Any]
) -> None:
    ran = in_ci(ci_project, workflow, "Iterate", ITERCTL_MAX_ITERATIONS="1")
    assert ran.code == 10, ran.err
    assert "::error title=iterctl asks a question::" in ran.out
    assert in_ci(ci_project, workflow, "Report").code == 0
    assert (ci_project.tools / "summary.md").read_text().startswith("# Needs a decision: ")
    assert "s3cret-value" not in "".join(path.read_text() for path in ci_project.root.glob(".iterctl/runs/*/report.*"))


def test_the_workflow_tells_a_limit_from_a_question(ci_project: Project, workflow: dict[str, Any]) -> None:
    ci_project.write("pytest.ini", "[pytest]\npythonpath = .\n")
    ci_project.write("iterctl.yaml", "settings: {safety: {max_total_cost: 0.01}}\n")
    ran = in_ci(ci_project, workflow, "Iterate")
    assert ran.code == 11, ran.err
    assert "::error title=iterctl was stopped::" in ran.out


def test_a_checkpoint_of_the_workflow_is_answered_in_another_clone(
    ci_project: Project, workflow: dict[str, Any], tmp_path: Path
) -> None:
    assert in_ci(ci_project, workflow, "Iterate", ITERCTL_MAX_ITERATIONS="1").code == 10
    (checkpoint,) = (ci_project.root / ".iterctl").glob("runs/*/checkpoint-*.tar.gz")
    clone = Project(tmp_path / "clone", tmp_path / "other", ci_project.tools)
    git(tmp_path, "clone", "-q", str(ci_project.root), str(clone.root))
    asked = iterctl(clone, "resume", "--checkpoint", str(checkpoint), "--format", "json")
    assert asked.code == 10, asked.err
    answered = iterctl(clone, "answer", asked.json["run"], "--option", "1", "--format", "json")
    assert answered.code == 0, answered.err
    assert clone.pytest("-q", PATH=path_of(clone)).code == 0


# ── the skill ────────────────────────────────────────────────────────────────────────────────────────────────────────

SKILL = EXAMPLES / "skill/iterating-with-tests/SKILL.md"
TRIGGERS = ("retry with feedback", "check iteration limit", "should I retry or escalate", "iteration [N] of [max]")


def test_the_skill_can_be_found_by_what_it_does_and_when() -> None:
    text = SKILL.read_text()
    _, front, body = text.split("---\n", 2)
    matter = yaml.safe_load(front)
    assert set(matter) == {"name", "description"}
    assert matter["name"] == SKILL.parent.name
    assert 0 < len(matter["description"]) <= 1024
    assert "Use after" in matter["description"]
    assert all(f'"{trigger}"' in matter["description"] for trigger in TRIGGERS)
    assert len(body.splitlines()) < 500


def test_the_commands_of_the_skill_work_as_written(copy: Copy) -> None:
    project = copy("package-with-agent")
    found = re.findall(r"^ *```bash\n(.*?)^ *```$", SKILL.read_text(), re.DOTALL | re.MULTILINE)
    test, feedback, check, escalate = (textwrap.dedent(script) for script in found)
    assert "2 failed" in shell(project, test).out
    told = shell(project, feedback)
    assert "expected 'what-why', received 'what?-why!'" in told.out
    decision = yaml.safe_load(shell(project, check).out)["decision"]
    assert (decision["action"], decision["iteration"]) == ("retry", 2)
    assert decision["feedback"]["actionable_items"]
    ran = shell(project, escalate)
    assert ran.code == 0, ran.err
    document, code = ran.out.rsplit("\n", 2)[:2]
    assert code == "exit code 10"
    decision = json.loads(document)["decision"]
    assert decision["action"] == "escalate"
    assert "test_token" in decision["context"]["attempts_summary"], "the loop remembers its first iteration"
    for key in ("context.attempts_summary", "context.pattern_detected", "question"):
        assert key.partition(".")[0] in decision
