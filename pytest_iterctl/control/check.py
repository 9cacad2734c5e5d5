"""`iteration_check:` in, `decision:` out: the decision for anyone's loop, as documents. Pure."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pytest_iterctl.control.decision import Decision, Situation, decide
from pytest_iterctl.control.evidence import Failure, Feedback, SuiteEvidence
from pytest_iterctl.control.pattern import Trial
from pytest_iterctl.plan.values import Value

__all__ = ["CheckDocument", "IterationCheck", "decide_check", "decision_document"]


class TestResult(Value):
    __test__ = False  # pytest must not collect this class

    status: Literal["pass", "fail"]
    output: str = ""


class ReviewResult(Value):
    status: Literal["approve", "reject", "pending"]
    feedback: str = ""


class IterationCheck(Value):
    """What a loop knows after one iteration. No review result means that there is no reviewer."""

    task_id: Annotated[str, Field(min_length=1, max_length=200)]
    current_iteration: Annotated[int, Field(ge=0, le=1_000_000)] = 1
    max_iterations: Annotated[int, Field(ge=1, le=1_000_000)] = 3
    test_result: TestResult
    review_result: ReviewResult | None = None
    auto_retry_on_test_fail: bool = True
    auto_retry_on_review_reject: bool = True
    feedback_max_length: Annotated[int, Field(ge=80, le=100_000)] = 500


class CheckDocument(Value):
    iteration_check: IterationCheck


def decide_check(
    check: IterationCheck, feedback: Feedback, suite: SuiteEvidence, earlier: tuple[tuple[int, str], ...]
) -> Decision:
    """The decision about a check; `earlier` are the remembered attempts of the same loop."""
    iteration = max(check.current_iteration, 1)
    review = check.review_result
    passed = check.test_result.status == "pass"
    first: Failure | None = suite.failures[0] if suite.failures else None
    before = tuple(Trial(number, text, frozenset({text})) for number, text in earlier if number < iteration)
    own_text = feedback.summary
    now = Trial(iteration, own_text, frozenset() if passed else frozenset({own_text}), first=first, passed=passed)
    return decide(
        Situation(
            task_id=check.task_id,
            iteration=iteration,
            max_iterations=check.max_iterations,
            tests=check.test_result.status,
            review=review.status if review is not None else "approve",
            feedback=feedback,
            trials=(*before, now),
            auto_retry_on_test_fail=check.auto_retry_on_test_fail,
            auto_retry_on_review_reject=check.auto_retry_on_review_reject,
        )
    )


def decision_document(decision: Decision) -> dict[str, object]:
    """The `decision:` document, with the fields that each action has and no others."""
    body: dict[str, object] = {"action": decision.action, "task_id": decision.task_id}
    if decision.action == "proceed":
        body["message"] = decision.message
        return {"decision": body}
    body["iteration"] = decision.iteration
    if decision.action == "retry":
        body["feedback"] = _feedback(decision.feedback)
        return {"decision": body}
    body["reason"] = decision.reason
    body["context"] = {
        "attempts_summary": decision.attempts_summary + "\n",
        "pattern_detected": decision.pattern_detected,
    }
    body["feedback"] = _feedback(decision.feedback)
    if decision.question is not None:
        body["question"] = decision.question.render() + "\n"
    return {"decision": body}


def _feedback(feedback: Feedback | None) -> dict[str, object]:
    if feedback is None:
        return {}
    return {
        "summary": feedback.summary,
        "actionable_items": list(feedback.actionable_items),
        "priority": feedback.priority,
    }
