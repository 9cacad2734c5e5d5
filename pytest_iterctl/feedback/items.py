"""Evidence to items: one thing to mend each, with what to do, where, and what was expected and received."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_iterctl.control.evidence import Failure, Outcome, Priority, ReviewEvidence, SuiteEvidence
from pytest_iterctl.text import one_line

__all__ = ["Item", "items_of", "review_items", "suite_items"]

_TITLE = 240
_ORDER: dict[Priority, int] = {"critical": 0, "high": 1, "medium": 2, "low": 3}


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to act on; `where` is a file:line in the project, '' when nobody knows."""

    priority: Priority
    title: str
    where: str = ""
    tests: tuple[str, ...] = ()
    detail: str = ""


def items_of(suite: SuiteEvidence | None, reviews: tuple[ReviewEvidence, ...]) -> tuple[Item, ...]:
    """Items in the order to work on them: what hides the rest first, tests before reviews."""
    found = (*(suite_items(suite) if suite is not None else ()), *review_items(reviews))
    return tuple(sorted(found, key=lambda item: _ORDER[item.priority]))


def suite_items(suite: SuiteEvidence) -> tuple[Item, ...]:
    if suite.passed:
        return ()
    items = [_item(failure) for failure in suite.failures]
    if not items or suite.outcome not in {Outcome.FAILED, Outcome.COLLECTION_ERROR}:
        told = {item.title for item in items}
        title = f"The test run did not end well ({suite.outcome}): {one_line(suite.reason, _TITLE)}"
        if title not in told:
            items.insert(0, Item(priority="critical", title=title))
    unseen = len(suite.failing) - len({failure.test for failure in suite.failures} & set(suite.failing))
    if unseen > 0:
        rest = tuple(sorted(set(suite.failing) - {failure.test for failure in suite.failures}))
        items.append(Item(priority="low", title=f"and {unseen} more failing tests", tests=rest))
    return tuple(items)


def review_items(reviews: tuple[ReviewEvidence, ...]) -> tuple[Item, ...]:
    items: list[Item] = []
    for review in reviews:
        if review.status != "reject":
            continue
        first = one_line(review.feedback, _TITLE) or "no reason given"
        items.append(
            Item(priority="high", title=f"Reviewer {review.reviewer} rejects: {first}", detail=review.feedback)
        )
        items.extend(Item(priority="medium", title=one_line(finding, _TITLE)) for finding in review.findings)
    return tuple(items)


def _item(failure: Failure) -> Item:
    return Item(
        priority="critical" if failure.phase in {"collect", "session"} else "high",
        title=_title(failure),
        where=failure.where,
        tests=(failure.test,) if failure.test else (),
        detail=_detail(failure),
    )


def _title(failure: Failure) -> str:
    what = one_line(failure.message or failure.kind or "failed", 160)
    if failure.expected is not None and failure.received is not None:
        what = f"expected {one_line(failure.expected, 80)}, received {one_line(failure.received, 80)}"
    phase = {"setup": " (in its set-up)", "teardown": " (in its tear-down)"}.get(failure.phase, "")
    if failure.phase == "collect":
        return one_line(f"{failure.test or failure.where} can't be collected: {what}", _TITLE)
    return one_line(f"{failure.test}{phase}: {what}" if failure.test else what, _TITLE)


def _detail(failure: Failure) -> str:
    parts: list[str] = []
    if failure.expected is not None or failure.received is not None:
        parts.append(f"expected: {failure.expected if failure.expected is not None else '(not said)'}")
        parts.append(f"received: {failure.received if failure.received is not None else '(not said)'}")
    if failure.message:
        parts.append(failure.message)
    if failure.detail and failure.detail != failure.message:
        parts.append(failure.detail)
    if failure.output:
        parts.append("output:\n" + failure.output)
    return "\n".join(parts)
