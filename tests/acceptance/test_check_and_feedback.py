"""`iterctl check` and `iterctl feedback`: for anyone's loop, in any folder."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.kit.project import Project

SEED = """iteration_check:
  task_id: "task-003"
  current_iteration: {iteration}
  max_iterations: 3
  test_result:
    status: {tests}
    output: |
      FAIL src/auth/login.test.ts
      Expected: token to contain userId
      Received: undefined
  review_result: {{ status: {review}, feedback: "" }}
"""


def checked(
    project: Project, *arguments: str, iteration: int = 2, tests: str = "fail", review: str = "pending"
) -> dict[str, object]:
    text = SEED.format(iteration=iteration, tests=tests, review=review)
    ran = project.iterctl("check", *arguments, stdin=text)
    assert ran.code == 0, ran.err
    return yaml.safe_load(ran.out)["decision"]  # type: ignore[no-any-return]


def test_retry_carries_feedback_and_the_next_iteration(project: Project) -> None:
    decision = checked(project)
    assert (decision["action"], decision["task_id"], decision["iteration"]) == ("retry", "task-003", 3)
    feedback = decision["feedback"]
    assert isinstance(feedback, dict)
    assert feedback["priority"] == "high"
    assert "token to contain userId" in json.dumps(feedback["actionable_items"])


def test_proceed_needs_pass_and_approve(project: Project) -> None:
    decision = checked(project, tests="pass", review="approve")
    assert decision == {
        "action": "proceed",
        "task_id": "task-003",
        "message": "Validation passed. Proceeding to next task.",
    }
    assert checked(project, tests="pass", review="pending")["action"] == "escalate"
    assert checked(project, tests="pass", review="reject")["action"] == "retry"


def test_a_named_loop_remembers_its_attempts_for_the_escalation(project: Project) -> None:
    for iteration in (1, 2):
        assert checked(project, "--run", "mine", iteration=iteration)["action"] == "retry"
    decision = checked(project, "--run", "mine", iteration=3)
    assert decision["action"] == "escalate"
    summary = str(decision["context"]["attempts_summary"])  # type: ignore[index]
    assert [line.split(":")[0] for line in summary.splitlines()] == ["Iteration 1", "Iteration 2", "Iteration 3"]
    assert "stop" in str(decision["question"])


def test_json_in_is_json_out_and_exit_codes_on_request(project: Project) -> None:
    document = {"iteration_check": {"task_id": "t", "current_iteration": 0, "test_result": {"status": "fail"}}}
    ran = project.iterctl("check", "--exit-code", stdin=json.dumps(document))
    assert ran.code == 1
    assert ran.json["decision"]["iteration"] == 2, "iteration 0 is taken as 1"
    document["iteration_check"]["current_iteration"] = 3
    assert project.iterctl("check", "--exit-code", stdin=json.dumps(document)).code == 10


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "iteration_check: 3",
        "iteration_check: {task_id: x, test_result: {status: maybe}}",
        "iteration_check: {task_id: x, test_result: {status: fail}, curent_iteration: 2}",
        "iteration_check: {task_id: x, task_id: y, test_result: {status: fail}}",
        "a: &a [1,1]\nb: [*a,*a]",
        "\x00",
    ],
)
def test_what_is_no_check_is_an_error_with_its_place(project: Project, text: str) -> None:
    ran = project.iterctl("check", stdin=text)
    assert ran.code == 4
    assert ran.out == ""
    assert ran.err.startswith("error: <stdin>")
    assert "Traceback" not in ran.err


def test_a_misspelt_key_gets_a_suggestion(project: Project) -> None:
    ran = project.iterctl(
        "check", stdin="iteration_check: {task_id: x, test_result: {status: fail}, curent_iteration: 2}"
    )
    assert "did you mean `current_iteration`?" in ran.err


def test_feedback_reads_reports_of_any_tool(project: Project) -> None:
    project.pytest("--junitxml=reports/one.xml")
    ran = project.iterctl("feedback", "reports/*.xml", "--format", "json")
    assert ran.code == 0, ran.err
    document = ran.json
    assert document["schema"] == "iterctl.feedback/1"
    assert (document["outcome"], document["tests"], document["passed"], document["failed"]) == ("failed", 3, 1, 2)
    assert {"priority", "title", "where", "tests", "detail"} == set(document["items"][0])
    assert document["text"]
    piped = project.iterctl("feedback", "-", stdin=(project.root / "reports/one.xml").read_text())
    assert (piped.code, piped.out.startswith("failed: 1 passed, 2 failed")) == (0, True)


@pytest.mark.parametrize("content", [None, "", "<testsuite>", "no xml", "<html/>"])
def test_a_report_that_cannot_be_read_is_exit_code_4_and_never_no_failures(
    project: Project, content: str | None
) -> None:
    if content is not None:
        project.write("r.xml", content)
    ran = project.iterctl("feedback", "r.xml", "--format", "json")
    assert "Traceback" not in ran.err
    if content == "<testsuite>":
        assert ran.code == 4 or ran.json["outcome"] in {"incomplete", "no-tests"}
    else:
        assert ran.code == 4
        assert ran.out == ""
