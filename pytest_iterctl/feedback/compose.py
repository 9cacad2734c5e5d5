"""Composing feedback: compact for a decision, long for a prompt, whole for a file; each within its budget."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from pytest_iterctl.control.evidence import Feedback, Outcome, Priority, ReviewEvidence, SuiteEvidence
from pytest_iterctl.control.failed_suite import of_suite
from pytest_iterctl.control.pattern import counted
from pytest_iterctl.feedback.causes import group, named
from pytest_iterctl.feedback.items import NAMED_TESTS, Item, items_of
from pytest_iterctl.feedback.layout import Block, Section, laid_out, whole_page
from pytest_iterctl.feedback.movement import Movement, movement
from pytest_iterctl.text import fence, one_line, strip_escapes, workflow_safe

__all__ = [
    "LONG_FORM_BYTES",
    "compact",
    "feedback_document",
    "long_form",
    "movement",
    "summary_of",
    "text_form",
    "whole_form",
]

LONG_FORM_BYTES = 8192
_DETAIL_BYTES = 1500
_FEWEST = 20
_LINE = 400
_REGRESSED, _REGRESSED_IN_A_SUMMARY = 10, 2
_NOBODY: frozenset[str] = frozenset()

Reviews = tuple[ReviewEvidence, ...]


@dataclass(frozen=True, slots=True)
class _Style:
    """How text that is not ours is shown: within a line of ours, and in lines of its own."""

    span: Callable[[str], str]
    block: Block
    opening: str = ""


def _code(text: str) -> str:
    """Inline code, as it is: nothing in it is a link, a mention, a tag or the end of the code.

    Not `code_span`, whose escapes for the cells of a table would be read as part of a command or a type.
    """
    line = one_line(text, 2 * _LINE)
    ticks = "`" * (max(map(len, re.findall("`+", line)), default=0) + 1)
    pad = " " if not line or line[0] == "`" or line[-1] == "`" else ""
    return f"{ticks}{pad}{line}{pad if line else ''}{ticks}"


def _plain(text: str) -> str:
    return workflow_safe(one_line(text, 2 * _LINE))


def _barred(text: str) -> str:
    """Lines behind a bar, so that none of them starts where ours do."""
    lines = strip_escapes(text).rstrip("\n").split("\n")
    return workflow_safe("\n".join(f"   | {line}".rstrip() for line in lines))


# Without a word of ours in front, a summary that quotes a fence would begin like one.
_MARKDOWN = _Style(_code, fence, "Summary: ")
_TEXT = _Style(_plain, _barred)


def compact(
    suite: SuiteEvidence | None,
    reviews: Reviews,
    limit: int,
    *,
    note: str = "",
    previous: SuiteEvidence | None = None,
    passed_before: frozenset[str] = _NOBODY,
    passed_now: frozenset[str] | None = None,
) -> Feedback:
    """Summary and items whose characters together stay within `limit`; what is left out is counted."""
    moved = _moved(suite, previous, passed_before, passed_now)
    items = items_of(suite, reviews, regressed=frozenset(moved.regressed))
    broken = f"Regressed: {_regressed(moved, _REGRESSED_IN_A_SUMMARY)}." if moved.regressed else ""
    told = " ".join(filter(None, [note, broken, summary_of(suite, reviews, regressed=frozenset(moved.regressed))]))
    summary = one_line(told, max(limit // 2, _FEWEST))
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
    return one_line(f"{item.title} [{item.where}]" if item.where else item.title, _LINE)


def _priority(items: tuple[Item, ...]) -> Priority:
    return items[0].priority if items else "low"


def summary_of(suite: SuiteEvidence | None, reviews: Reviews, *, regressed: frozenset[str] = _NOBODY) -> str:
    """One line: what failed, by number and by name; what it calls the first is the first of the items."""
    parts: list[str] = []
    if suite is not None and not suite.passed:
        parts.append(_suite_summary(suite, regressed))
    rejecting = [review for review in reviews if review.status == "reject"]
    if rejecting:
        told = one_line(rejecting[0].feedback, 160) or "no reason given"
        parts.append(f"Review rejected: {told}")
    if not parts:
        return "Tests passed" if suite is not None else "Nothing was tested"
    return "; ".join(parts)


def _suite_summary(suite: SuiteEvidence, regressed: frozenset[str]) -> str:
    if suite.outcome is not Outcome.FAILED:
        return one_line(f"Tests did not run to a verdict ({suite.outcome}): {suite.reason}", 240)
    causes = group(suite.failures, regressed=regressed)
    first = causes[0].example if causes else None
    told = one_line(first.message or first.kind, 120) if first is not None else one_line(suite.reason)
    if not suite.failing:
        return f"Test failed: {told}"
    if len(suite.failing) == 1:
        return f"Test failed: {one_line(suite.failing[0])}: {told}"
    found = f" ({counted(len(causes), 'cause')})" if causes else ""
    return f"{counted(len(suite.failing), 'test')} failed{found}, {suite.counts.passed} passed; first: {told}"


def long_form(
    suite: SuiteEvidence | None,
    reviews: Reviews,
    *,
    limit: int = LONG_FORM_BYTES,
    where: str = "",
    previous: SuiteEvidence | None = None,
    passed_before: frozenset[str] = _NOBODY,
    passed_now: frozenset[str] | None = None,
    reproduce: str = "",
) -> str:
    """What a prompt carries, as Markdown: every cause with its place, details as far as they fit, and what was cut."""
    moved = _moved(suite, previous, passed_before, passed_now)
    items = items_of(suite, reviews, reproduce=reproduce, regressed=frozenset(moved.regressed))
    return _within(_MARKDOWN, _head(_MARKDOWN, suite, reviews, moved), items, limit, where)


def text_form(
    suite: SuiteEvidence | None,
    reviews: Reviews = (),
    *,
    limit: int = LONG_FORM_BYTES,
    where: str = "",
    previous: SuiteEvidence | None = None,
    passed_before: frozenset[str] = _NOBODY,
    passed_now: frozenset[str] | None = None,
    reproduce: str = "",
) -> str:
    """The same for terminals and logs: plain lines, and what tests printed behind a bar."""
    moved = _moved(suite, previous, passed_before, passed_now)
    items = items_of(suite, reviews, reproduce=reproduce, regressed=frozenset(moved.regressed))
    return _within(_TEXT, _head(_TEXT, suite, reviews, moved), items, limit, where)


def whole_form(
    suite: SuiteEvidence | None,
    reviews: Reviews,
    *,
    previous: SuiteEvidence | None = None,
    passed_before: frozenset[str] = _NOBODY,
    passed_now: frozenset[str] | None = None,
    reproduce: str = "",
) -> str:
    """Everything that is known, as Markdown: all tests by name, tracebacks and output too."""
    moved = _moved(suite, previous, passed_before, passed_now)
    items = items_of(suite, reviews, reproduce=reproduce, regressed=frozenset(moved.regressed))
    sections = [_section(_MARKDOWN, number, item, whole=True) for number, item in enumerate(items, 1)]
    return whole_page(_head(_MARKDOWN, suite, reviews, moved), sections, fence)


def _moved(
    suite: SuiteEvidence | None,
    previous: SuiteEvidence | None,
    passed_before: frozenset[str],
    passed_now: frozenset[str] | None,
) -> Movement:
    if suite is None:
        return Movement()
    return movement(previous, suite, passed_before=passed_before, passed_now=passed_now)


def _head(style: _Style, suite: SuiteEvidence | None, reviews: Reviews, moved: Movement) -> str:
    lines = [style.opening + style.span(summary_of(suite, reviews, regressed=frozenset(moved.regressed)))]
    if moved:
        lines.append(f"Since the iteration before: {moved.text}.")
    if moved.regressed:
        lines.append(f"Regressed, passed before: {style.span(_regressed(moved, _REGRESSED))}")
    if suite is not None and suite.intermittent:
        names = named(tuple(one_line(test, 100) for test in suite.intermittent), _REGRESSED)
        lines.append(f"Fails now and then, and did not before (passed when run once more): {style.span(names)}")
    return "\n".join(lines)


def _regressed(moved: Movement, most: int) -> str:
    names = tuple(one_line(test, 100) for test in moved.regressed)
    return named(names, most)


def _within(style: _Style, head: str, items: tuple[Item, ...], limit: int, where: str) -> str:
    sections = [_section(style, number, item) for number, item in enumerate(items, 1)]
    return laid_out(head, sections, limit=limit, cap=_DETAIL_BYTES, block=style.block, where=where)


def _section(style: _Style, number: int, item: Item, *, whole: bool = False) -> Section:
    facts = "\n".join(f"   - {label}: {style.span(value)}" for label, value in _facts(item))
    detail = item.detail
    if whole:
        listed = (
            f"{item.noun}s:\n" + "\n".join(one_line(test, 1000) for test in item.tests) if len(item.tests) > 1 else ""
        )
        detail = "\n\n".join(filter(None, (item.detail, item.rest, listed)))
    return Section(f"{number}. [{item.priority}] {style.span(item.title)}", facts, detail)


def _facts(item: Item) -> list[tuple[str, str]]:
    """Label and value of what is known in a line each."""
    names = tuple(one_line(test, 200) for test in item.tests)
    several = named(names, NAMED_TESTS, item.noun) if len(names) > 1 else ""
    facts = (
        ("at", item.where),
        ("path", item.path),
        ("raised from", item.cause),
        (f"{item.noun}s", several),
        ("reproduce", item.reproduce),
    )
    return [(label, value) for label, value in facts if one_line(value)]


def feedback_document(
    suite: SuiteEvidence,
    reviews: Reviews = (),
    *,
    limit: int = LONG_FORM_BYTES,
    where: str = "",
    previous: SuiteEvidence | None = None,
    passed_before: frozenset[str] = _NOBODY,
    passed_now: frozenset[str] | None = None,
    reproduce: str = "",
) -> dict[str, object]:
    """The contract `iterctl.feedback/1`."""
    counts = suite.counts
    moved = _moved(suite, previous, passed_before, passed_now)
    items = items_of(suite, reviews, reproduce=reproduce, regressed=frozenset(moved.regressed))
    analysis = of_suite(suite)
    return {
        "schema": "iterctl.feedback/1",
        "outcome": str(suite.outcome),
        "tests": counts.tests,
        "passed": counts.passed,
        "failed": counts.failed,
        "errors": counts.errors,
        "skipped": counts.skipped,
        "analysis": analysis.document if analysis is not None else None,
        "items": [_item_document(item) for item in items],
        "summary": summary_of(suite, reviews, regressed=frozenset(moved.regressed)),
        "text": _within(_MARKDOWN, _head(_MARKDOWN, suite, reviews, moved), items, limit, where),
    }


def _item_document(item: Item) -> dict[str, object]:
    told = [f"{label}: {value}" for label, value in _facts(item) if label in {"path", "raised from"}]
    document: dict[str, object] = {
        "priority": item.priority,
        "title": item.title,
        "where": item.where,
        "tests": list(item.tests),
        "detail": "\n".join([*told, item.detail] if item.detail else told),
    }
    return {**document, "reproduce": item.reproduce} if item.reproduce else document
