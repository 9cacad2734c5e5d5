"""`pytest --iterate` as its users type it."""

from __future__ import annotations

import pytest

from tests.kit.project import FIXED, Project


def test_ends_green_within_bounds_and_leaves_the_fix_in_the_work_tree(project: Project) -> None:
    ran = project.iterate("--iterate-format=json")
    assert ran.code == 0, ran.err
    task = ran.json["tasks"][0]
    assert (task["state"], task["iterations"], ran.json["decision"]) == ("proceed", 2, "proceed")
    assert [step["decision"] for step in task["history"]] == ["retry", "proceed"]
    assert (project.root / "calc.py").read_text() == FIXED
    assert project.git("status", "--porcelain") == "M calc.py"
    assert project.git("log", "--oneline").count("\n") == 0


def test_a_green_suite_needs_no_agent(project: Project) -> None:
    project.write("calc.py", FIXED)
    ran = project.pytest("--iterate", "--iterate-format=json")
    assert ran.code == 0, ran.err
    assert ran.json["tasks"][0]["iterations"] == 0
    assert project.calls == []


def test_a_red_suite_without_an_agent_is_a_usage_error_that_names_what_to_do(project: Project) -> None:
    ran = project.pytest("--iterate")
    assert ran.code == 4
    assert "no agent is named" in ran.err
    assert "hint: name one with --iterate-agent" in ran.err


def test_escalates_after_the_bound_with_a_question_and_the_best_attempt(project: Project) -> None:
    worse = "def double(number):\n    return 7\n"
    better = "def double(number):\n    return 2\n"
    project.agent({"write": {"calc.py": better}}, {"write": {"calc.py": worse}})
    ran = project.iterate("--iterate-max=2", "--iterate-format=json")
    assert ran.code == 10, ran.err
    task = ran.json["tasks"][0]
    assert (task["state"], task["iterations"], task["reason"]) == ("escalated", 2, "max-iterations")
    assert (project.root / "calc.py").read_text() == better
    assert task["holds"] == {"what": "best", "iteration": 1}
    assert task["question"]["options"][-1]["label"] == "stop"
    assert (project.root / task["report"]).exists()


@pytest.mark.parametrize(("choice", "expected"), [("last", "return 7"), ("base", "number + number + 1")])
def test_what_the_work_tree_holds_after_an_escalation_is_the_users_choice(
    project: Project, choice: str, expected: str
) -> None:
    project.agent(
        {"write": {"calc.py": "def double(n):\n    return 2\n"}},
        {"write": {"calc.py": "def double(n):\n    return 7\n"}},
    )
    ran = project.iterate("--iterate-max=2", f"--iterate-on-escalate={choice}")
    assert ran.code == 10
    assert expected in (project.root / "calc.py").read_text()


def test_the_agent_gets_the_contracts_environment_and_a_prompt_with_the_failure(project: Project) -> None:
    ran = project.iterate("--iterate-prompt=Doubling is wrong.")
    assert ran.code == 0, ran.err
    first = project.calls[0]
    assert "Doubling is wrong." in first["prompt"]
    assert "test_calc.py::test_one" in first["prompt"]
    assert "expected 2, received 3" in first["prompt"]
    environment = first["environment"]
    assert environment["ITERCTL_TASK"] == "pytest"
    assert environment["ITERCTL_STAGE"] == "generate"
    assert (environment["ITERCTL_ITERATION"], environment["ITERCTL_MAX_ITERATIONS"]) == ("1", "3")
    assert first["feedback"]["schema"] == "iterctl.feedback/1"
    assert first["feedback"]["failed"] == 2
    assert project.calls[1]["environment"]["ITERCTL_ITERATION"] == "2"
    assert environment["ITERCTL_SESSION"] != project.calls[1]["environment"]["ITERCTL_SESSION"]


def test_other_arguments_are_passed_on_and_select_the_tests(project: Project) -> None:
    ran = project.iterate("--iterate-format=json", "-k", "name", "test_calc.py")
    assert ran.code == 0, ran.err
    assert ran.json["tasks"][0]["iterations"] == 0
    assert ran.json["tasks"][0]["tests"]["tests"] == 1


def test_no_tests_is_exit_code_5_and_calls_nobody(project: Project) -> None:
    ran = project.iterate("-k", "nothing_is_called_like_this")
    assert ran.code == 5, ran.err
    assert project.calls == []


def test_a_missing_test_file_is_a_usage_error(project: Project) -> None:
    ran = project.iterate("test_not_there.py")
    assert ran.code == 4, ran.err
    assert "test_not_there.py" in ran.err + ran.out
    assert project.calls == []
