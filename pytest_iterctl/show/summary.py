"""The last words of a run: only what needs action, and where to look."""

from __future__ import annotations

from collections import Counter

from pytest_iterctl.control.evidence import Outcome
from pytest_iterctl.control.limits import raising
from pytest_iterctl.control.pattern import counted
from pytest_iterctl.control.standing import best_attempt
from pytest_iterctl.control.state import RunState, TaskState
from pytest_iterctl.show.integrity import (
    accepted_attempt,
    finding_text,
    gap_text,
    last_judged,
    left_out_text,
    some,
    suspicious,
    verdict_text,
)
from pytest_iterctl.show.style import Paint, Style
from pytest_iterctl.show.terminal import RULE, status_line
from pytest_iterctl.show.words import cost_text
from pytest_iterctl.text import one_line

__all__ = ["print_summary"]

_SHOWN = 10
_WORDS = {"proceed": "accepted", "escalated": "escalated", "stopped": "stopped", "aborted": "aborted"}


def print_summary(state: RunState, style: Style, report_of: dict[str, str]) -> None:
    """`report_of` has the report's path by task, where one was written."""
    style.write(RULE)
    for task in state.tasks:
        _task(state, task, style, report_of.get(task.id, ""))


def _task(state: RunState, task: TaskState, style: Style, report: str) -> None:
    word = _WORDS.get(task.status, task.status)
    paint: Paint = "good" if task.status == "proceed" else "bad"
    name = f"{task.id}: " if len(state.tasks) > 1 else ""
    seconds = task.attempts[-1].ended - task.attempts[0].began if task.attempts else 0.0
    if task.status == "waiting":
        needs = ", ".join(task.task.needs)
        text = f"{name}waiting" + (f" for {needs}" if needs else "")
        _line(style, "Summary", None, text, "warn")
        return
    iterations = f"{task.iterations}/{task.bound} iterations"
    tests = _tests(task)
    told = f"{name}{iterations}: {word}{_why(task)}{tests}, {cost_text(task)}"
    _line(style, "Summary", seconds, told, paint)
    if task.status in {"escalated", "stopped"}:
        _needs_action(state, task, style)
    _integrity(task, style)
    _trespasses(task, style)
    if task.settled is not None and task.settled.branch:
        branch = one_line(task.settled.branch, 200)
        _line(style, "Branch", None, f"{branch} (git merge {branch}); your work tree is as it was", "good")
    if task.settled is not None and task.settled.patch:
        _line(style, "Patch", None, f"{task.settled.patch}{_on_top_of(state, task)}", "plain")
    if task.settled is not None and task.settled.committed:
        _line(style, "Commit", None, task.settled.committed[:12], "good")
    if task.settled is not None and task.settled.problem:
        _line(style, "UNCOMMITTED", None, one_line(task.settled.problem, 400), "bad")
    if report and task.status != "proceed":
        _line(style, "Report", None, report, "plain")


def _on_top_of(state: RunState, task: TaskState) -> str:
    """Each task begins with what those before it have come to, and so does its patch."""
    earlier = [
        each.id
        for each in state.tasks
        if each is not task and each.settled is not None and each.settled.patch and _ended_before(each, task)
    ]
    return f", on top of the patch of {one_line(' and '.join(earlier), 200)}" if earlier else ""


def _ended_before(one: TaskState, other: TaskState) -> bool:
    return bool(one.attempts and other.attempts) and one.attempts[-1].ended <= other.attempts[0].began


def _why(task: TaskState) -> str:
    if task.limits:
        return f" by {' and '.join(task.limits)}"
    if task.status == "aborted" and task.decision is not None and not task.answers:
        return f" ({one_line(task.decision.explanation, 200)})"
    return ""


def _tests(task: TaskState) -> str:
    best = best_attempt(task) if task.status in {"escalated", "stopped"} else task.attempts[-1]
    suite = best.verdict if best is not None else None
    if suite is None:
        return ""
    counts = suite.counts
    return f"; {counts.passed}/{counts.tests - counts.skipped} passed"


def _needs_action(state: RunState, task: TaskState, style: Style) -> None:
    judged = [suite for a in task.attempts if a.iteration > 0 and (suite := a.verdict) is not None]
    often = Counter(test for suite in judged for test in suite.failing)
    now = set(judged[-1].failing) if judged else set()
    got_to_them = bool(judged) and judged[-1].outcome in {Outcome.PASSED, Outcome.FAILED}
    rows = sorted(often.items(), key=lambda pair: (-pair[1], pair[0]))
    for test, times in rows[:_SHOWN]:
        word = "ALWAYS" if times == len(judged) else "FAILS" if test in now else "FIXED" if got_to_them else "FAILED"
        _line(style, f"{word} {times}/{len(judged)}", None, one_line(test, 200), "bad" if test in now else "plain")
    if len(rows) > _SHOWN:
        _line(style, "", None, f"and {counted(len(rows) - _SHOWN, 'more test')}", "plain")
    if task.decision is not None and task.decision.reason == "integrity":
        _objections(task, style)
    question = task.decision.question if task.decision is not None else None
    if question is None:
        return
    _line(style, "Question", None, one_line(question.text, 400), "bold")
    for number, option in enumerate(question.options, 1):
        _line(style, str(number), None, one_line(option.label, 200), "note")
    named = f" --task {task.id}" if len(state.tasks) > 1 else ""
    _line(style, "Answer", None, f"iterctl answer {state.run}{named} --option 1", "note")
    if task.limits:
        _line(style, "Resume", None, raising(state.run, task.limits), "note")


def _objections(task: TaskState, style: Style) -> None:
    """What the gate has against the last change, each with its place."""
    last = last_judged(task)
    if last is None or last.gate is None:
        return
    gate = last.gate
    rows = [("CERTAIN" if each.certain else "Suspicious", finding_text(each), each.certain) for each in gate.findings]
    rows += [("GAP", gap_text(gap), True) for gap in gate.gaps]
    for word, text, weighty in sorted(rows, key=lambda row: not row[2])[:_SHOWN]:
        _line(style, word, None, text, "bad" if weighty else "warn")
    if len(rows) > _SHOWN:
        _line(style, "", None, f"and {counted(len(rows) - _SHOWN, 'more finding')}: iterctl report", "plain")
    if left_out := left_out_text(task, gate):
        _line(style, "Left out", None, left_out, "plain")


def _integrity(task: TaskState, style: Style) -> None:
    """After acceptance: what is not part of the result, and what a person may want to look at all the same."""
    accepted = accepted_attempt(task)
    gate = accepted.gate if accepted is not None else None
    if accepted is None or gate is None:
        return
    if accepted.approved and not gate.accepted:
        _line(style, "Approved", None, f"by a person, although: {verdict_text(gate)}", "warn")
    rows: list[tuple[str, str, Paint]] = [
        ("Left out", left_out_text(task, gate), "warn"),
        ("May change", some(gate.may_change, 5), "note"),
        ("New tests", one_line(gate.new_tests, 300), "plain"),
    ]
    # What is certain was approved by a person, or it would not be here.
    doubtful = gate.findings if accepted.approved else suspicious(gate)
    rows += [("Suspicious", finding_text(finding), "warn") for finding in doubtful[:_SHOWN]]
    rows += [
        ("", f"and {counted(len(doubtful) - _SHOWN, 'more finding')}" if len(doubtful) > _SHOWN else "", "plain"),
        ("Flaky", f"before the agent came, so no obstacle: {some(gate.flaky, 5)}" if gate.flaky else "", "plain"),
        ("Unchecked", one_line("; ".join(gate.unchecked), 400), "plain"),
    ]
    for word, text, paint in rows:
        if text:
            _line(style, word, None, text, paint)


def _trespasses(task: TaskState, style: Style) -> None:
    """What the agent did that no task asks for, undone or not: each of it, whatever the task came to."""
    rows = [(attempt.iteration, text) for attempt in task.attempts for text in attempt.trespasses]
    for iteration, text in rows[:_SHOWN]:
        _line(style, "Trespass", None, f"in iteration {iteration}: {one_line(text, 300)}", "warn")
    if len(rows) > _SHOWN:
        _line(style, "", None, f"and {counted(len(rows) - _SHOWN, 'more')}: iterctl report", "plain")


def _line(style: Style, word: str, seconds: float | None, text: str, paint: Paint) -> None:
    padded = f"{word:>12}"
    style.write(status_line(word, seconds, text).replace(padded, style.paint(padded, paint), 1))
