"""A task's report as data: the question, what was tried, what is certain, what changed. Every form starts here."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable

from pytest_iterctl.control.decision import Decision
from pytest_iterctl.control.limits import raising
from pytest_iterctl.control.pattern import counted
from pytest_iterctl.control.question import Option
from pytest_iterctl.control.state import Attempt, RunState, TaskState
from pytest_iterctl.errors import IterctlError
from pytest_iterctl.show.integrity import integrity_part
from pytest_iterctl.show.report_evidence import (
    asked_question,
    attempt_part,
    certain_facts,
    inferences,
    matrix_of,
    pattern_of,
    telling_failures,
)
from pytest_iterctl.show.report_words import (
    HASH,
    ID,
    NAMES,
    ROWS,
    Part,
    bounded,
    command_for,
    cost_told,
    known_cost,
    plain,
    shown_line,
    suite_told,
    time_text,
)
from pytest_iterctl.show.words import works_in_own_tree
from pytest_iterctl.text import strip_escapes

__all__ = ["Patch", "report_document"]

#: Gives the patch between two commits within so many bytes, and whether it was cut.
Patch = Callable[[str, str, int], tuple[str, bool]]

#: All patches together, counted in largest ones: fifty iterations must not make a report that nobody can open.
_PATCHES = 6
#: As long as a secret may be. Where a patch ends too early a secret may be cut in half and not be recognised.
_SLACK = 4096


def report_document(
    state: RunState,
    task: TaskState,
    *,
    patch: Patch,
    redact: Callable[[str], str],
    test_command: str,
    largest_patch: int = 60_000,
) -> Part:
    """`iterctl.report/1` for a task in any state; all text in it is plain, bounded and can be encoded."""
    decision, pattern, matrix, telling = task.decision, pattern_of(task), matrix_of(task), telling_failures(task)
    document: Part = {
        "schema": "iterctl.report/1",
        "title": _title(state, task),
        "run": state.run,
        "task": task.id,
        "state": task.status,
        "decision": decision.action if decision is not None else None,
        "reason": decision.reason if decision is not None else None,
        "explanation": bounded(decision.explanation) if decision is not None else "",
        "limit": task.limit or None,
        "limits": list(task.limits),
        "at": state.last_at,
        "base": task.base[:HASH],
        "prompt": bounded(task.task.prompt),
        "agent": shown_line(task.task.agent.name) if task.task.agent is not None else None,
        "question": _question(state, task),
        "integrity": integrity_part(task),
        "situation": _situation(state, task),
        "pattern": {"name": pattern[0], "text": shown_line(pattern[1], ID)},
        "attempts": [attempt_part(state, task, attempt, telling) for attempt in task.attempts],
        "matrix": {
            "iterations": [attempt.iteration for attempt in matrix.columns],
            "rows": [
                {"test": shown_line(row.test, ID), "trend": row.trend, "cells": row.cells} for row in matrix.rows[:ROWS]
            ],
            "left_out": max(len(matrix.rows) - ROWS, 0),
        },
        "certain": certain_facts(task, matrix, telling),
        "inferred": inferences(task, pattern),
        "diffs": _diffs(state, task, _Patches(patch, redact, largest_patch)),
        "reproduce": _reproduce(state, task, test_command),
        "warnings": [shown_line(warning, ID) for warning in state.warnings[:NAMES]],
    }
    return {key: plain(value) for key, value in document.items()}


def _title(state: RunState, task: TaskState) -> str:
    decision = task.decision
    explanation = decision.explanation if decision is not None else ""
    match task.status:
        case "proceed":
            return f"Accepted: {task.id}, after {counted(task.iterations, 'iteration')}"
        case "escalated":
            question = decision.question if decision is not None else None
            return f"Needs a decision: {shown_line(question.text if question is not None else explanation, 300)}"
        case "stopped":
            return f"Stopped: {shown_line(explanation, 300)}"
        case "aborted":
            answer = task.answers[-1] if task.answers else None
            by = shown_line(answer.by) or "a person" if answer is not None and answer.effect == "abort" else ""
            return f"Aborted: {task.id}, by {by}" if by else f"Aborted: {shown_line(explanation, 300)}"
        case "waiting":
            needs = shown_line(", ".join(task.task.needs))
            return f"Waiting: {task.id}, for {needs}" if needs else f"Waiting: {task.id} has not started"
    iteration = task.attempts[-1].iteration if task.attempts else 0
    where = f"{task.id}, in iteration {iteration} of {task.bound}" if iteration else f"{task.id}, at the baseline"
    return f"{'Interrupted' if state.interrupted else 'Running'}: {where}"


# ── the question ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _question(state: RunState, task: TaskState) -> Part | None:
    question, decision = asked_question(task), task.decision
    if question is None or decision is None:
        return None
    resume = _resume(state, decision)
    return {
        "text": bounded(question.text),
        "options": [
            _option(state, task, option, number, decision) for number, option in enumerate(question.options, start=1)
        ],
        "continue": f'{command_for(state, task, "answer")} --continue "…"',
        "abort": command_for(state, task, "answer", "--abort"),
        "resume": resume or None,
    }


def _resume(state: RunState, decision: Decision) -> str:
    base = shlex.join(["iterctl", "resume", state.run])
    if decision.reason == "limit":
        return raising(state.run, (decision.limit, *decision.more_limits))
    return base if decision.reason == "stopped" else ""


def _option(state: RunState, task: TaskState, option: Option, number: int, decision: Decision) -> Part:
    resumes = option.effect == "continue" and decision.reason == "stopped"
    more = f"up to {counted(task.settings.max_iterations, 'more iteration')}, from what the work tree holds"
    effects = {
        "continue": "goes on where it was stopped" if resumes else more,
        "approve": "the change is accepted as it is",
        "abort": "the task ends here, the work tree stays as it is",
    }
    return {
        "number": number,
        "label": shown_line(option.label, 300),
        "effect": option.effect,
        "next": effects[option.effect],
        "guidance": bounded(option.guidance),
        "command": _resume(state, decision) if resumes else command_for(state, task, "answer", "--option", str(number)),
    }


# ── the situation ────────────────────────────────────────────────────────────────────────────────────────────────────


def _situation(state: RunState, task: TaskState) -> Part:
    held, settled = _held(task), task.settled
    suite = held.verdict if held is not None else None
    seconds = task.attempts[-1].ended - task.attempts[0].began if task.attempts else 0.0
    turns = [turn for attempt in task.attempts for turn in attempt.all_turns]
    tests = suite_told(suite) if suite is not None else "not tested"
    return {
        "text": f"{task.iterations} of {counted(task.bound, 'iteration')} used. "
        f"{_holds(task, held, _tree(state))}: {tests}. "
        f"It took {time_text(seconds)}; {cost_told(turns)}.",
        "safe": _safe(state, task),
        "iterations": task.iterations,
        "max_iterations": task.bound,
        "tests": suite.counts.model_dump() if suite is not None else {},
        "outcome": str(suite.outcome) if suite is not None else None,
        "seconds": seconds,
        "cost_usd": known_cost(turns),
        "cost": cost_told(turns),
        "calls": len(turns),
        "calls_of_unknown_cost": task.calls_of_unknown_cost,
        "holds": settled.holds if settled is not None else None,
        "holds_iteration": held.iteration if held is not None else 0,
        "holds_commit": _held_commit(task)[:HASH],
        "committed": (settled.committed if settled is not None else "") or None,
        "branch": (settled.branch if settled is not None else "") or None,
        "patch": (settled.patch if settled is not None else "") or None,
        "problem": bounded(settled.problem) if settled is not None else "",
        "restore": command_for(state, task, "restore", "N") if task.base else None,
        "last_iteration": task.attempts[-1].iteration if task.attempts else 0,
    }


def _held(task: TaskState) -> Attempt | None:
    """The attempt that the work tree holds: what was settled, or wherever the task has got to."""
    if task.settled is not None:
        return next((a for a in task.attempts if task.settled.iteration == a.iteration), None)
    return task.attempts[-1] if task.attempts else None


def _held_commit(task: TaskState) -> str:
    settled = task.settled.commit if task.settled is not None else ""
    kept = (attempt.latest_snapshot for attempt in reversed(task.attempts) if attempt.latest_snapshot)
    return settled or task.latest or next(kept, "")


def _tree(state: RunState) -> str:
    return "The run's own copy of the work tree" if works_in_own_tree(state) else "The work tree"


def _holds(task: TaskState, held: Attempt | None, tree: str) -> str:
    if held is None:
        return f"{tree} is as it was"
    if held.iteration == 0 or (task.settled is not None and task.settled.holds in {"base", "untouched"}):
        return f"{tree} holds what it held before the run"
    words = {"accepted": "the accepted change", "best": "the best attempt", "last": "the last attempt"}
    what = words.get(task.settled.holds, "") if task.settled is not None else ""
    return (
        f"{tree} holds {what} (iteration {held.iteration})"
        if what
        else (f"{tree} holds what iteration {held.iteration} has come to")
    )


def _safe(state: RunState, task: TaskState) -> str:
    if not task.base:
        return "Nothing was touched."
    if works_in_own_tree(state):
        made = f"The change is on the branch {task.settled.branch}. " if task.settled and task.settled.branch else ""
        kept = f"It is also in {task.settled.patch}. " if task.settled and task.settled.patch and made else ""
        return (
            f"{made}{kept}Your work tree is as you left it: iterctl touched neither its files nor HEAD, the index, the "
            "stash or another branch."
        )
    if task.settled is not None and task.settled.committed:
        made = f"iterctl made the commit {task.settled.committed[:HASH]} that was asked for and"
        return f"{made} touched no other branch and no stash; every attempt is kept as a snapshot."
    if state.warnings or any(
        touch.undone for each in task.attempts for turn in each.all_turns for touch in turn.touched
    ):
        # What somebody else did there was undone, or perhaps not, and is told where it was.
        return "Every attempt is kept as a snapshot."
    return "iterctl touched neither HEAD, the index, the stash nor any branch; every attempt is kept as a snapshot."


# ── what changed ─────────────────────────────────────────────────────────────────────────────────────────────────────


class _Patches:
    """Patches within a budget, secrets redacted before anything is cut."""

    def __init__(self, patch: Patch, redact: Callable[[str], str], largest: int) -> None:
        self._patch = patch
        self._redact = redact
        self._largest = largest
        self._left = largest * _PATCHES

    def take(self, old: str, new: str) -> Part:
        text, cut, problem = "", False, ""
        limit = min(self._largest, self._left)
        if old != new:
            try:
                text, cut = self._patch(old, new, limit + _SLACK) if limit > 0 else ("", True)
            except IterctlError as error:
                problem = error.message
        clean = self._redact(strip_escapes(text)).encode()
        room = min(limit, len(clean) - _SLACK) if cut else limit
        if len(clean) > room:
            cut = True
            clean = clean[: max(clean.rfind(b"\n", 0, max(room, 0)) + 1, 0)]
        self._left -= len(clean)
        ends: Part = {"old": old[:HASH], "new": new[:HASH]}
        return {**ends, "text": clean.decode(), "cut": cut, "problem": shown_line(problem, 300)}


def _diffs(state: RunState, task: TaskState, patches: _Patches) -> Part:
    included = task.settings.escalation_includes_diff
    found: Part = {
        "included": included,
        "note": "" if included else "left out, because escalation_includes_diff is false",
        "command": command_for(state, task, "diff"),
    }
    held = _held_commit(task)
    if not included or not task.base:
        return {**found, "whole": None, "attempts": []}
    whole: Part = {**patches.take(task.base, held or task.base), "command": found["command"]}
    pairs = [(attempt.iteration, old, new) for attempt, old, new in _steps(task)]
    # The newest first: when the budget ends, it is the oldest attempts that only get a pointer.
    taken = [
        {"iteration": number, **patches.take(old, new), "command": command_for(state, task, "diff", str(number))}
        for number, old, new in reversed(pairs)
    ]
    return {**found, "whole": whole, "attempts": taken[::-1]}


def _steps(task: TaskState) -> Iterable[tuple[Attempt, str, str]]:
    """The snapshots around each turn of the agent."""
    before = task.base
    for attempt in task.attempts:
        after = attempt.snapshot("generate")
        if attempt.iteration > 0 and after:
            yield attempt, attempt.snapshot("start") or before, after
        before = attempt.latest_snapshot or before


def _reproduce(state: RunState, task: TaskState, test_command: str) -> list[Part]:
    directory = state.started.directory if state.started is not None else ""
    inside = f", in {shown_line(directory)}" if directory not in {"", "."} else ""
    found: list[Part] = [{"what": f"run the tests{inside}", "command": bounded(test_command)}]
    if task.base:
        last = task.attempts[-1].iteration if task.attempts else 0
        found += [
            {"what": "see the whole change", "command": command_for(state, task, "diff")},
            {
                "what": f"bring an iteration back (0: before the run, to {last})",
                "command": command_for(state, task, "restore", "N"),
            },
        ]
    if task.proof is not None:
        found.append(
            {"what": "see what was protected, compared and found", "command": command_for(state, task, "audit")}
        )
    return found
