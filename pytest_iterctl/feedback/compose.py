"""Composing feedback: compact for a decision, long for a prompt, whole for a file; each within its budget."""

from __future__ import annotations

from pytest_iterctl.control.evidence import Feedback, Outcome, Priority, ReviewEvidence, SuiteEvidence
from pytest_iterctl.control.pattern import counted
from pytest_iterctl.feedback.items import Item, items_of
from pytest_iterctl.text import cut_middle, fence, one_line

__all__ = ["LONG_FORM_BYTES", "compact", "feedback_document", "long_form", "movement", "summary_of", "whole_form"]

LONG_FORM_BYTES = 8192
_DETAIL_BYTES = 1500
_FEWEST = 20


def compact(
    suite: SuiteEvidence | None, reviews: tuple[ReviewEvidence, ...], limit: int, *, note: str = ""
) -> Feedback:
    """Summary and items whose characters together stay within `limit`; what is left out is counted."""
    items = items_of(suite, reviews)
    summary = one_line(" ".join(filter(None, [note, summary_of(suite, reviews)])), max(limit // 2, _FEWEST))
    left = limit - len(summary)
    lines: list[str] = []
    for number, item in enumerate(items):
        rest = len(items) - number
        more = f"and {rest} more"
        line = one_line(_line(item), max(left, 1))
        room = left if rest == 1 else left - len(more) - 1
        if len(line) > room or (len(_line(item)) > len(line) and lines):
            if len(more) <= left:
                lines.append(more)
            break
        lines.append(line)
        left -= len(line)
    return Feedback(summary=summary, actionable_items=tuple(lines), priority=_priority(items))


def _line(item: Item) -> str:
    return one_line(f"{item.title} [{item.where}]" if item.where else item.title, 400)


def _priority(items: tuple[Item, ...]) -> Priority:
    return items[0].priority if items else "low"


def summary_of(suite: SuiteEvidence | None, reviews: tuple[ReviewEvidence, ...]) -> str:
    """One line: what failed, by number and by name."""
    parts: list[str] = []
    if suite is not None and not suite.passed:
        parts.append(_suite_summary(suite))
    rejecting = [review for review in reviews if review.status == "reject"]
    if rejecting:
        told = one_line(rejecting[0].feedback, 160) or "no reason given"
        parts.append(f"Review rejected: {told}")
    if not parts:
        return "Tests passed" if suite is not None else "Nothing was tested"
    return "; ".join(parts)


def _suite_summary(suite: SuiteEvidence) -> str:
    if suite.outcome is not Outcome.FAILED:
        return one_line(f"Tests did not run to a verdict ({suite.outcome}): {suite.reason}", 240)
    first = suite.failures[0] if suite.failures else None
    told = one_line(first.message or first.kind, 120) if first is not None else suite.reason
    if not suite.failing:
        return f"Test failed: {told}"
    if len(suite.failing) == 1:
        return f"Test failed: {suite.failing[0]}: {told}"
    return f"{counted(len(suite.failing), 'test')} failed, {suite.counts.passed} passed; first: {told}"


def movement(previous: SuiteEvidence | None, current: SuiteEvidence) -> str:
    """What changed since the iteration before: fixed, still failing, new."""
    if previous is None or previous.passed:
        return ""
    before, now = set(previous.failing), set(current.failing)
    parts = [
        f"{len(names)} {word}"
        for word, names in (("fixed", before - now), ("still failing", before & now), ("newly failing", now - before))
        if names
    ]
    return ", ".join(parts)


def long_form(
    suite: SuiteEvidence | None,
    reviews: tuple[ReviewEvidence, ...],
    *,
    limit: int = LONG_FORM_BYTES,
    where: str = "",
    previous: SuiteEvidence | None = None,
) -> str:
    """What a prompt carries: every item with its details, head and tail kept, and where the whole is."""
    return cut_middle(whole_form(suite, reviews, previous=previous, detail=_DETAIL_BYTES), limit, where=where)


def whole_form(
    suite: SuiteEvidence | None,
    reviews: tuple[ReviewEvidence, ...],
    *,
    previous: SuiteEvidence | None = None,
    detail: int | None = None,
) -> str:
    """Every item with its details as Markdown; text from tests and reviewers is fenced as data."""
    lines = [summary_of(suite, reviews)]
    if suite is not None and (moved := movement(previous, suite)):
        lines.append(f"Since the iteration before: {moved}.")
    for number, item in enumerate(items_of(suite, reviews), 1):
        lines += ["", f"{number}. [{item.priority}] {item.title}"]
        if item.where:
            lines.append(f"   at {item.where}")
        if len(item.tests) > 1:
            lines.append("   " + one_line(", ".join(item.tests), 1000))
        if item.detail:
            lines.append(fence(cut_middle(item.detail, detail) if detail is not None else item.detail))
    return "\n".join(lines) + "\n"


def feedback_document(
    suite: SuiteEvidence, reviews: tuple[ReviewEvidence, ...] = (), *, limit: int = LONG_FORM_BYTES
) -> dict[str, object]:
    """The contract `iterctl.feedback/1`."""
    counts = suite.counts
    return {
        "schema": "iterctl.feedback/1",
        "outcome": str(suite.outcome),
        "tests": counts.tests,
        "passed": counts.passed,
        "failed": counts.failed,
        "errors": counts.errors,
        "skipped": counts.skipped,
        "items": [
            {
                "priority": item.priority,
                "title": item.title,
                "where": item.where,
                "tests": list(item.tests),
                "detail": item.detail,
            }
            for item in items_of(suite, reviews)
        ],
        "summary": summary_of(suite, reviews),
        "text": long_form(suite, reviews, limit=limit),
    }
