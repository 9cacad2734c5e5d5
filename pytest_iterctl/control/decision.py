"""The decision: proceed, retry or escalate. Pure: the same situation always gives the same answer.

The order of the rules is the contract (SPEC 2): what overrides comes first, then pass and approve, then the bound,
then the tests, then the review. Nothing here reads a clock, a file or a random number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pytest_iterctl.control.evidence import Feedback, ReviewStatus
from pytest_iterctl.control.pattern import Trial, detect
from pytest_iterctl.control.question import Question, ask
from pytest_iterctl.plan.values import Value

__all__ = ["PROCEED_MESSAGE", "Action", "Decision", "Reason", "Situation", "combine_reviews", "decide"]

Action = Literal["proceed", "retry", "escalate"]
Reason = Literal[
    "passed",
    "tests-failed",
    "review-rejected",
    "max-iterations",
    "review-pending",
    "auto-retry-off",
    "agent-failed",
    "agent-asked",
    "limit",
    "stopped",
    "no-tests",
    "usage-error",
    "integrity",
    "hopeless",
    "destructive",
]

PROCEED_MESSAGE = "Validation passed. Proceeding to next task."


class Decision(Value):
    """The only thing that moves a loop on, with its reason."""

    action: Action
    task_id: str
    iteration: int
    reason: Reason
    explanation: str
    limit: str = ""
    more_limits: tuple[str, ...] = ()
    message: str = ""
    feedback: Feedback | None = None
    attempts_summary: str = ""
    pattern: str = ""
    pattern_detected: str = ""
    question: Question | None = None


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a decision may depend on."""

    task_id: str
    iteration: int
    max_iterations: int
    tests: Literal["pass", "fail"]
    review: ReviewStatus
    feedback: Feedback
    #: Or how to find them: only an escalation tells of the trials, and after a thousand of them that takes its time.
    trials: tuple[Trial, ...] | Callable[[], tuple[Trial, ...]] = ()
    auto_retry_on_test_fail: bool = True
    auto_retry_on_review_reject: bool = True
    stopped_by: str = ""
    limit: str = ""
    limit_text: str = ""
    more_limits: tuple[str, ...] = ()  # overstepped as well
    limit_before_retry: str = ""
    limit_before_retry_text: str = ""
    agent_failures: int = 0
    max_agent_failures: int = 3
    agent_error: str = ""
    agent_gave_up: str = ""
    agent_question: str = ""
    reviewer_failures: int = 0
    hopeless_start: Literal["", "no-tests", "usage-error"] = ""
    start_text: str = ""
    #: What the gate found, once it is for a person to decide; whether the tests pass in the clean room all the same.
    incident: str = ""
    approvable: bool = False
    gate_objects: bool = False
    #: Why more of the same is of no use.
    hopeless: str = ""
    #: What the turn did that no task asks for, and whether it was told before.
    trespass: str = ""
    trespassed_before: bool = False

    @property
    def tried(self) -> tuple[Trial, ...]:
        return self.trials() if callable(self.trials) else self.trials


def combine_reviews(statuses: tuple[ReviewStatus, ...]) -> ReviewStatus:
    """One reject rejects, else one failed or pending is that; no reviewer is an approval, a failed one never is."""
    for status in ("reject", "failed", "pending"):
        if status in statuses:
            return status
    return "approve"


def decide(situation: Situation) -> Decision:
    """The rules in their order; the first that applies decides."""
    return _override(situation) or _by_evidence(situation)


def _override(situation: Situation) -> Decision | None:
    if situation.stopped_by:
        return _escalate(situation, "stopped", f"stopped by {situation.stopped_by}")
    if situation.limit:
        return _escalate(
            *(situation, "limit", situation.limit_text or situation.limit),
            limit=situation.limit,
            more_limits=situation.more_limits,
        )
    if situation.hopeless_start:
        return _escalate(situation, situation.hopeless_start, situation.start_text)
    if situation.incident:
        return _escalate(situation, "integrity", situation.incident)
    if situation.trespass and situation.trespassed_before:
        return _escalate(situation, "destructive", f"told once and done again: {situation.trespass}")
    if situation.agent_gave_up:
        return _escalate(situation, "agent-failed", situation.agent_gave_up)
    failures = max(situation.agent_failures, situation.reviewer_failures)
    if failures >= situation.max_agent_failures:
        who = "the agent" if situation.agent_failures >= situation.reviewer_failures else "a reviewer"
        times = "once" if failures == 1 else f"{failures} times in a row"
        return _escalate(situation, "agent-failed", f"{who} failed {times}: {situation.agent_error}")
    return None


def _by_evidence(situation: Situation) -> Decision:
    if situation.tests == "pass" and situation.review == "approve":
        return Decision(
            action="proceed",
            task_id=situation.task_id,
            iteration=situation.iteration,
            reason="passed",
            explanation="tests pass and the review approves",
            message=PROCEED_MESSAGE,
        )
    if situation.agent_question and situation.tests == "fail":
        return _escalate(situation, "agent-asked", situation.agent_question)
    if situation.iteration >= situation.max_iterations:
        return _escalate(situation, "max-iterations", detect(situation.tried).text)
    if situation.tests == "fail":
        if not situation.auto_retry_on_test_fail:
            return _escalate(situation, "auto-retry-off", "tests fail and auto_retry_on_test_fail is false")
        reason: Reason = "destructive" if situation.trespass else "tests-failed"
        return _retry(situation, "integrity" if situation.gate_objects else reason)
    if situation.review == "reject":
        if not situation.auto_retry_on_review_reject:
            return _escalate(situation, "auto-retry-off", "the review rejects and auto_retry_on_review_reject is false")
        return _retry(situation, "review-rejected")
    return _escalate(situation, "review-pending", "tests pass and the review is pending")


def _retry(situation: Situation, reason: Reason) -> Decision:
    if situation.hopeless:
        return _escalate(situation, "hopeless", situation.hopeless)
    if situation.limit_before_retry:
        text = situation.limit_before_retry_text or situation.limit_before_retry
        return _escalate(situation, "limit", text, limit=situation.limit_before_retry)
    return Decision(
        action="retry",
        task_id=situation.task_id,
        iteration=situation.iteration + 1,
        reason=reason,
        explanation=situation.feedback.summary,
        feedback=situation.feedback,
    )


def _escalate(
    situation: Situation, reason: Reason, explanation: str, *, limit: str = "", more_limits: tuple[str, ...] = ()
) -> Decision:
    trials = situation.tried
    pattern = detect(trials)
    open_review = reason == "max-iterations" and situation.tests == "pass" and situation.review == "pending"
    asked = "review-pending" if open_review else reason
    return Decision(
        action="escalate",
        task_id=situation.task_id,
        iteration=situation.iteration,
        reason=reason,
        explanation=explanation,
        limit=limit,
        more_limits=more_limits,
        feedback=situation.feedback,
        attempts_summary="\n".join(f"Iteration {trial.iteration}: {trial.text}" for trial in trials),
        pattern=pattern.name,
        pattern_detected=pattern.text,
        question=ask(
            asked,
            trials,
            explanation=explanation,
            review=situation.feedback.summary,
            approvable=situation.approvable,
        ),
    )
