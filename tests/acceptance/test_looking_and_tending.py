"""The commands that look at runs and tend them."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.kit.project import BROKEN, FIXED, Project


@pytest.fixture
def escalated(project: Project) -> tuple[Project, str]:
    """A run that escalated after two attempts, the second worse than the first."""
    project.agent(
        {"write": {"calc.py": "def double(n):\n    return 2\n"}, "report": {"cost_usd": 0.25}},
        {"write": {"calc.py": "def double(n):\n    return 7\n", "extra.txt": "x"}, "report": {"cost_usd": 0.25}},
    )
    ran = project.iterate("--iterate-max=2", "--iterate-format=json")
    assert ran.code == 10, ran.err
    return project, ran.json["run"]


def test_status_lists_runs_for_people_and_machines(escalated: tuple[Project, str]) -> None:
    project, run = escalated
    listed = project.iterctl("status")
    assert (listed.code, run in listed.out) == (0, True)
    document = project.iterctl("status", "--format", "json").json
    assert document["schema"] == "iterctl.status/1"
    assert document["runs"][0]["tasks"][0]["state"] == "escalated"
    one = project.iterctl("status", run[:8].lower(), "--format", "json").json
    assert (one["schema"], one["run"], one["cost_usd"]) == ("iterctl.run/1", run, 0.5)
    unknown = project.iterctl("status", "ZZZ")
    assert (unknown.code, "hint: list them: iterctl status" in unknown.err) == (4, True)


def test_report_comes_in_three_formats_and_puts_the_question_first(escalated: tuple[Project, str]) -> None:
    project, run = escalated
    markdown = project.iterctl("report", run).out
    assert markdown.splitlines()[0].startswith("# Needs a decision")
    assert f"iterctl answer {run} --option 1" in markdown
    data = json.loads(project.iterctl("report", run, "--format", "json").out)
    assert data["schema"] == "iterctl.report/1"
    assert yaml.safe_load(project.iterctl("report", run, "--format", "yaml").out)["run"] == run
    assert (project.root / ".iterctl/runs" / run / "report.md").read_text() == markdown
    assert "return 7" in markdown, "the diffs are in it"


def test_diff_shows_one_iteration_or_all(escalated: tuple[Project, str]) -> None:
    project, run = escalated
    second = project.iterctl("diff", run, "2").out
    assert "-    return 2" in second
    assert "+    return 7" in second
    whole = project.iterctl("diff", run).out
    assert "+    return 2" in whole, "the tree holds the best attempt"
    assert "calc.py" in project.iterctl("diff", run, "2", "--stat").out
    assert project.iterctl("diff", run, "9").code == 4


def test_restore_goes_to_any_attempt_and_keeps_what_was_there(escalated: tuple[Project, str]) -> None:
    project, run = escalated
    project.write("mine.txt", "later work\n")
    back = project.iterctl("restore", run, "2")
    assert back.code == 0, back.err
    assert "return 7" in (project.root / "calc.py").read_text()
    kept = project.git("for-each-ref", "--format=%(refname)", f"refs/iterctl/{run}/before-restore/").splitlines()
    assert project.git("show", f"{kept[0]}:mine.txt") == "later work"
    assert project.iterctl("restore", run, "0").code == 0
    assert (project.root / "calc.py").read_text() == BROKEN
    assert project.iterctl("restore", run, "5").code == 4


def test_memory_holds_what_was_printed(escalated: tuple[Project, str]) -> None:
    project, run = escalated
    listed = project.iterctl("memory", "list", "--run", run).out
    assert "stage-2-output@2" in listed
    assert "test_one" in project.iterctl("memory", "get", "stage-2-output@2", "--run", run).out
    missing = project.iterctl("memory", "get", "nothing", "--run", run)
    assert (missing.code, "shared_memory_key_not_found" in missing.err) == (4, True)


def test_clean_removes_refs_state_and_reports(escalated: tuple[Project, str]) -> None:
    project, run = escalated
    assert project.iterctl("clean").code == 4
    assert "would remove" in project.iterctl("clean", "--all", "--dry-run").out
    assert project.iterctl("clean", "--older-than", "1d").out == "nothing to remove\n"
    assert project.iterctl("clean", run).code == 0
    assert project.git("for-each-ref", "refs/iterctl/") == ""
    assert not (project.root / ".iterctl/runs" / run).exists()
    assert project.iterctl("status").out == "no runs yet\n"


def test_init_writes_a_plan_that_loads_and_does_not_write_over_one(project: Project) -> None:
    assert project.iterctl("init").code == 0
    assert project.iterctl("run", "--dry-run").code == 0
    again = project.iterctl("init")
    assert (again.code, "--force" in again.err) == (4, True)
    assert project.iterctl("init", "--force").code == 0


def test_doctor_names_what_is_missing(project: Project) -> None:
    ran = project.iterctl("doctor")
    assert ran.code == 4
    assert "MISSING  agent" in ran.out
    document = project.iterctl("doctor", "--format", "json", ITERCTL_AGENT="cat").json
    assert document["schema"] == "iterctl.doctor/1"
    assert document["ok"] is True


def test_schema_is_json(project: Project) -> None:
    document = project.iterctl("schema").json
    assert "tasks" in document["properties"]


def test_dry_run_says_what_would_happen_and_does_nothing(project: Project) -> None:
    ran = project.iterate("--iterate-dry-run")
    assert ran.code == 0, ran.err
    assert "at most 3 iterations" in ran.out
    assert project.calls == []
    assert project.iterctl("status").out == "no runs yet\n"


def test_without_a_repository_there_is_a_clear_refusal(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    for ran in (project.iterctl("run", cwd=outside), project.pytest("--iterate", cwd=outside)):
        assert ran.code == 4
        assert ran.err.startswith("error: ")
        assert "hint: " in ran.err
        assert "Traceback" not in ran.err


def test_a_state_folder_inside_the_work_tree_is_refused(project: Project) -> None:
    ran = project.iterctl("run", ITERCTL_STATE_DIR=str(project.root / "state"))
    assert ran.code == 4
    assert "inside the work tree" in ran.err


def test_wrong_command_lines_exit_with_4_and_point_to_help(project: Project) -> None:
    for arguments in (["--nonsense"], ["run", "--nonsense"], ["restore"], ["answer", "X"], ["run", "--max", "zero"]):
        ran = project.iterctl(*arguments)
        assert ran.code == 4, arguments
        assert ran.err.startswith("error: "), ran.err
        assert "Traceback" not in ran.err


def test_version_and_help_say_what_there_is(project: Project) -> None:
    assert project.iterctl("--version").out.startswith("iterctl ")
    text = project.iterctl("--help").out
    moving = ("run", "resume", "stop", "answer", "restore", "clean", "init", "demo")
    looking = ("status", "report", "diff", "memory", "check", "feedback", "doctor", "schema")
    for command in (*moving, *looking):
        assert command in text
    options = project.pytest("--help").out
    for option in ("--iterate", "--iterate-agent", "--iterate-commit", "--iterate-on-escalate", "iterate_max"):
        assert option in options


def test_green_already_proceeds_for_a_plan_without_tasks(project: Project) -> None:
    project.write("calc.py", FIXED)
    ran = project.iterctl("run", "--format", "json")
    assert (ran.code, ran.json["tasks"][0]["iterations"]) == (0, 0)
