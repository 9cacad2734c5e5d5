"""The decision against a second, plain reading of its rules, over every combination there is."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Literal

import pytest

from pytest_iterctl.control.decision import PROCEED_MESSAGE, Decision, Situation, combine_reviews, decide
from pytest_iterctl.control.evidence import Failure, Feedback, ReviewStatus
from pytest_iterctl.control.pattern import Trial
from pytest_iterctl.control.standing import run_exit_code
from pytest_iterctl.control.state import Attempt, RunState, TaskState, TaskStatus
from pytest_iterctl.errors import ExitCode
from tests.control.simulator import a_task

FEEDBACK = Feedback(summary="Test failed: token missing userId", actionable_items=("add userId",))
STATUSES: tuple[ReviewStatus, ...] = ("approve", "reject", "pending", "failed")
PASS_OR_FAIL: tuple[Literal["pass", "fail"], ...] = ("pass", "fail")
STARTS: tuple[Literal["", "no-tests", "usage-error"], ...] = ("", "no-tests", "usage-error")
MOST = 3


def oracle(now: Situation) -> tuple[str, str, int]:
    """Action, reason and iteration, by section 2 of the specification read from top to bottom."""
    rules: list[tuple[bool, str, str]] = [
        (now.stopped_by != "", "escalate", "stopped"),
        (now.limit != "", "escalate", "limit"),
        (now.hopeless_start == "no-tests", "escalate", "no-tests"),
        (now.hopeless_start == "usage-error", "escalate", "usage-error"),
        (now.agent_failures >= now.max_agent_failures, "escalate", "agent-failed"),
        (now.reviewer_failures >= now.max_agent_failures, "escalate", "agent-failed"),
        (now.tests == "pass" and now.review == "approve", "proceed", "passed"),
        (now.iteration >= now.max_iterations, "escalate", "max-iterations"),
        (now.tests == "fail" and not now.auto_retry_on_test_fail, "escalate", "auto-retry-off"),
        (now.tests == "fail" and now.limit_before_retry != "", "escalate", "limit"),
        (now.tests == "fail", "retry", "tests-failed"),
        (now.review == "reject" and not now.auto_retry_on_review_reject, "escalate", "auto-retry-off"),
        (now.review == "reject" and now.limit_before_retry != "", "escalate", "limit"),
        (now.review == "reject", "retry", "review-rejected"),
        (True, "escalate", "review-pending"),
    ]
    action, reason = next((action, reason) for applies, action, reason in rules if applies)
    return action, reason, now.iteration + 1 if action == "retry" else now.iteration


def every_situation() -> list[Situation]:
    evidence = product((0, 1, 2, 3, 4), PASS_OR_FAIL, STATUSES, (True, False), (True, False))
    overrides = product(("", "a person"), ("", "max_total_cost"), (0, 2, 3), (0, 3), STARTS)
    return [
        Situation(
            task_id="task-003",
            iteration=iteration,
            max_iterations=MOST,
            tests=tests,
            review=review,
            feedback=FEEDBACK,
            trials=(Trial(iteration, "it failed", frozenset({"test_a"}), passed=tests == "pass"),),
            auto_retry_on_test_fail=on_fail,
            auto_retry_on_review_reject=on_reject,
            stopped_by=stopped,
            limit=limit,
            limit_before_retry=before_retry,
            agent_failures=agent,
            reviewer_failures=reviewer,
            hopeless_start=start,
            start_text=start,
        )
        for (iteration, tests, review, on_fail, on_reject), (stopped, limit, agent, reviewer, start), before_retry in (
            product(evidence, overrides, ("", "max_total_duration"))
        )
    ]


def test_every_combination_is_decided_by_the_first_rule_that_applies() -> None:
    for now in every_situation():
        decision = decide(now)
        assert (decision.action, decision.reason, decision.iteration) == oracle(now), now


def test_each_action_carries_what_it_needs_and_the_same_situation_gives_the_same_decision() -> None:
    for now in every_situation()[::7]:
        decision = decide(now)
        assert decision == decide(replace(now))
        assert decision.task_id == "task-003"
        assert (decision.limit != "") == (decision.reason == "limit")
        assert (decision.message == PROCEED_MESSAGE) == (decision.action == "proceed")
        assert (decision.feedback is None) == (decision.action == "proceed")
        asks = decision.action == "escalate" and decision.reason not in {"no-tests", "usage-error"}
        assert (decision.question is not None) == asks
        assert bool(decision.attempts_summary) == (decision.action == "escalate")
        assert Decision.model_validate_json(decision.model_dump_json()) == decision


def test_nothing_but_passing_tests_and_an_approval_ever_proceeds() -> None:
    for now in every_situation():
        if decide(now).action == "proceed":
            assert (now.tests, now.review) == ("pass", "approve")


@pytest.mark.parametrize("count", range(4))
def test_one_reject_rejects_then_one_failed_or_pending_counts_and_no_reviewer_approves(count: int) -> None:
    for statuses in product(STATUSES, repeat=count):
        combined = combine_reviews(statuses)
        assert (combined == "reject") == ("reject" in statuses)
        assert (combined == "approve") == (set(statuses) <= {"approve"})
        if combined == "pending":
            assert "failed" not in statuses


def test_a_limit_reached_is_told_with_its_own_words() -> None:
    now = replace(every_situation()[0], limit="max_total_cost", limit_text="max_total_cost reached: $5 of $5 spent")
    assert decide(now).explanation == "max_total_cost reached: $5 of $5 spent"
    assert decide(now).limit == "max_total_cost"


def test_one_failure_of_the_agent_is_told_as_once_and_several_as_in_a_row() -> None:
    once = Situation("a", 1, 3, "fail", "approve", FEEDBACK, agent_failures=1, max_agent_failures=1, agent_error="no")
    assert decide(once).explanation == "the agent failed once: no"
    thrice = replace(once, agent_failures=0, reviewer_failures=3, max_agent_failures=3)
    assert decide(thrice).explanation == "a reviewer failed 3 times in a row: no"


def test_a_pending_review_in_the_last_iteration_is_asked_about_and_not_called_a_rejection() -> None:
    trial = Trial(3, "Tests passed", passed=True)
    now = Situation("a", 3, 3, "pass", "pending", FEEDBACK, trials=(trial,))
    decision = decide(now)
    assert decision.reason == "max-iterations"
    assert decision.question is not None
    assert "approve or reject?" in decision.question.text
    assert [option.effect for option in decision.question.options] == ["approve", "continue", "abort"]


def test_the_summary_has_one_line_per_attempt() -> None:
    trials = tuple(Trial(number, f"2 passed, {number} failed", frozenset({"t"})) for number in (1, 2, 3))
    decision = decide(Situation("a", 3, 3, "fail", "approve", FEEDBACK, trials=trials))
    assert decision.attempts_summary.splitlines() == [f"Iteration {n}: 2 passed, {n} failed" for n in (1, 2, 3)]
    assert decision.pattern == "repeated_identical_error"
    assert decision.explanation == decision.pattern_detected


# The exit code of a run


def ended(status: TaskStatus, reason: str, number: int) -> TaskState:
    decision = Decision.model_construct(action="escalate", task_id="t", iteration=1, reason=reason, explanation="")
    return TaskState(a_task(f"t{number}"), status=status, attempts=(Attempt(1, decision=decision),))


ENDS: dict[tuple[TaskStatus, str], int] = {
    ("stopped", "limit"): 11,
    ("escalated", "max-iterations"): 10,
    ("aborted", "usage-error"): 4,
    ("aborted", "max-iterations"): 1,
    ("aborted", "no-tests"): 5,
    ("proceed", "passed"): 0,
}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_exit_code_is_the_first_that_applies(count: int) -> None:
    for ends in product(ENDS, repeat=count):
        state = RunState(tasks=tuple(ended(status, reason, number) for number, (status, reason) in enumerate(ends)))
        codes = {ENDS[end] for end in ends}
        assert run_exit_code(state) == next(code for code in (11, 10, 4, 1, 5, 0) if code in codes)


def test_a_task_that_waits_for_one_that_failed_adds_nothing_worse_than_not_accepted() -> None:
    waiting = TaskState(a_task("b", needs=("t0",)))
    assert run_exit_code(RunState(tasks=(ended("aborted", "no-tests", 0), waiting))) == ExitCode.NOT_ACCEPTED
    assert run_exit_code(RunState(tasks=(ended("escalated", "limit", 0), waiting))) == ExitCode.ESCALATED


def test_the_failure_to_ask_about_is_in_the_question() -> None:
    first = Failure(test="test_token", expected="'42'", received="42")
    trial = Trial(1, "1 failed", frozenset({"test_token"}), first=first)
    decision = decide(Situation("a", 1, 1, "fail", "approve", FEEDBACK, trials=(trial,)))
    assert decision.question is not None
    assert "'42'" in decision.question.text
    assert "test_token" in decision.question.text
