"""A task's report as data: the question, what was tried, what is certain, what changed. Every form starts here."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import yaml

from pytest_iterctl.control.decision import Decision
from pytest_iterctl.control.evidence import Failure, Outcome, SuiteEvidence, TurnEvidence, TurnOutcome
from pytest_iterctl.control.pattern import counted, detect
from pytest_iterctl.control.question import Option, Question
from pytest_iterctl.control.standing import attempt_text, trials
from pytest_iterctl.control.state import Attempt, RunState, TaskState
from pytest_iterctl.errors import IterctlError
from pytest_iterctl.plan.values import format_duration
from pytest_iterctl.show.words import change_text, counts_text
from pytest_iterctl.text import cut_middle, one_line, strip_escapes

__all__ = ["Patch", "render_json", "render_yaml", "report_document"]

#: Gives the patch between two commits within so many bytes, and whether it was cut.
Patch = Callable[[str, str, int], tuple[str, bool]]
Part = dict[str, object]

_HASH = 12
_NAMES = 20
_FILES = 50
_ROWS = 100
_TEXT_BYTES = 4000
_ID = 1000
#: All patches together, counted in largest ones: fifty iterations must not make a report that nobody can open.
_PATCHES = 6
#: As long as a secret may be. Where a patch ends too early a secret may be cut in half and not be recognised.
_SLACK = 4096
_TRENDS = ("always", "regressed", "fixed")
_VERDICTS = frozenset({Outcome.PASSED, Outcome.FAILED})


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
    decision, pattern, matrix, telling = task.decision, _pattern(task), _matrix(task), _telling(task)
    document: Part = {
        "schema": "iterctl.report/1",
        "title": _title(state, task),
        "run": state.run,
        "task": task.id,
        "state": task.status,
        "decision": decision.action if decision is not None else None,
        "reason": decision.reason if decision is not None else None,
        "explanation": _bounded(decision.explanation) if decision is not None else "",
        "limit": task.limit or None,
        "at": state.last_at,
        "base": task.base[:_HASH],
        "prompt": _bounded(task.task.prompt),
        "agent": _line(task.task.agent.name) if task.task.agent is not None else None,
        "question": _question(state, task),
        "situation": _situation(state, task),
        "pattern": {"name": pattern[0], "text": _line(pattern[1], _ID)},
        "attempts": [_attempt(state, task, attempt, telling) for attempt in task.attempts],
        "matrix": {
            "iterations": [attempt.iteration for attempt in matrix.columns],
            "rows": [
                {"test": _line(row.test, _ID), "trend": row.trend, "cells": row.cells} for row in matrix.rows[:_ROWS]
            ],
            "left_out": max(len(matrix.rows) - _ROWS, 0),
        },
        "certain": _certain(task, matrix, telling),
        "inferred": _inferred(task, pattern),
        "diffs": _diffs(state, task, _Patches(patch, redact, largest_patch)),
        "reproduce": _reproduce(state, task, test_command),
        "warnings": [_line(warning, _ID) for warning in state.warnings[:_NAMES]],
    }
    return {key: _plain(value) for key, value in document.items()}


def _bounded(text: str) -> str:
    # The journal is redacted, so it may be cut first: stripping a megabyte that nobody will see takes its time.
    return strip_escapes(cut_middle(text, _TEXT_BYTES))


def _line(text: str, limit: int = 200) -> str:
    start = text[: limit * 10]
    line = one_line(start, limit)
    return line if len(start) == len(text) or line.endswith("…") else f"{line}…"


def _plain(value: object) -> object:
    """Only what YAML and JSON both have, and text that can be encoded: the last word on it, whatever it came from."""
    if isinstance(value, str):
        return strip_escapes(value)
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _command(state: RunState, task: TaskState, verb: str, *words: str) -> str:
    named = ("--task", task.id) if len(state.tasks) > 1 else ()
    return shlex.join(["iterctl", verb, state.run, *words, *named])


def _title(state: RunState, task: TaskState) -> str:
    decision = task.decision
    explanation = decision.explanation if decision is not None else ""
    match task.status:
        case "proceed":
            return f"Accepted: {task.id}, after {counted(task.iterations, 'iteration')}"
        case "escalated":
            question = decision.question if decision is not None else None
            return f"Needs a decision: {_line(question.text if question is not None else explanation, 300)}"
        case "stopped":
            return f"Stopped: {_line(explanation, 300)}"
        case "aborted":
            answer = task.answers[-1] if task.answers else None
            by = _line(answer.by) or "a person" if answer is not None and answer.effect == "abort" else ""
            return f"Aborted: {task.id}, by {by}" if by else f"Aborted: {_line(explanation, 300)}"
        case "waiting":
            needs = _line(", ".join(task.task.needs))
            return f"Waiting: {task.id}, for {needs}" if needs else f"Waiting: {task.id} has not started"
    iteration = task.attempts[-1].iteration if task.attempts else 0
    where = f"{task.id}, in iteration {iteration} of {task.bound}" if iteration else f"{task.id}, at the baseline"
    return f"{'Interrupted' if state.interrupted else 'Running'}: {where}"


# ── the question ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _asked(task: TaskState) -> Question | None:
    open_ended = task.status in {"escalated", "stopped"} and task.decision is not None
    return task.decision.question if open_ended and task.decision is not None else None


def _question(state: RunState, task: TaskState) -> Part | None:
    question, decision = _asked(task), task.decision
    if question is None or decision is None:
        return None
    resume = _resume(state, decision)
    # More iterations are of no use while a limit of the whole run leaves nothing to spend.
    spent = decision.limit.startswith("max_total")
    return {
        "text": _bounded(question.text),
        "options": [
            _option(state, task, option, number, resume) for number, option in enumerate(question.options, start=1)
        ],
        "continue": None if spent else f'{_command(state, task, "answer")} --continue "…"',
        "abort": _command(state, task, "answer", "--abort"),
        "resume": resume or None,
    }


def _resume(state: RunState, decision: Decision) -> str:
    base = shlex.join(["iterctl", "resume", state.run])
    if decision.reason == "limit":
        return f"{base} --limit {decision.limit}=VALUE"
    return base if decision.reason == "stopped" else ""


def _option(state: RunState, task: TaskState, option: Option, number: int, resume: str) -> Part:
    goes_on = option.effect == "continue"
    more = f"up to {counted(task.settings.max_iterations, 'more iteration')}, from what the work tree holds"
    effects = {
        "continue": "goes on where it was stopped" if resume else more,
        "approve": "the change is accepted as it is",
        "abort": "the task ends here, the work tree stays as it is",
    }
    return {
        "number": number,
        "label": _line(option.label, 300),
        "effect": option.effect,
        "next": effects[option.effect],
        "guidance": _bounded(option.guidance),
        "command": resume if resume and goes_on else _command(state, task, "answer", "--option", str(number)),
    }


# ── the situation ────────────────────────────────────────────────────────────────────────────────────────────────────


def _situation(state: RunState, task: TaskState) -> Part:
    held, settled = _held(task), task.settled
    suite = held.suite if held is not None else None
    seconds = task.attempts[-1].ended - task.attempts[0].began if task.attempts else 0.0
    turns = [turn for attempt in task.attempts for turn in attempt.all_turns]
    tests = _suite_text(suite) if suite is not None else "not tested"
    return {
        "text": f"{task.iterations} of {counted(task.bound, 'iteration')} used. {_holds(task, held)}: {tests}. "
        f"It took {_time(seconds)}; {_cost(turns)}.",
        "safe": _safe(task),
        "iterations": task.iterations,
        "max_iterations": task.bound,
        "tests": suite.counts.model_dump() if suite is not None else {},
        "outcome": str(suite.outcome) if suite is not None else None,
        "seconds": seconds,
        "cost_usd": _known_cost(turns),
        "cost": _cost(turns),
        "calls": len(turns),
        "calls_of_unknown_cost": task.calls_of_unknown_cost,
        "holds": settled.holds if settled is not None else None,
        "holds_iteration": held.iteration if held is not None else 0,
        "holds_commit": _held_commit(task)[:_HASH],
        "committed": (settled.committed if settled is not None else "") or None,
        "problem": _bounded(settled.problem) if settled is not None else "",
        "restore": _command(state, task, "restore", "N") if task.base else None,
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


def _holds(task: TaskState, held: Attempt | None) -> str:
    if held is None:
        return "The work tree is as it was"
    if held.iteration == 0 or (task.settled is not None and task.settled.holds in {"base", "untouched"}):
        return "The work tree holds what it held before the run"
    words = {"accepted": "the accepted change", "best": "the best attempt", "last": "the last attempt"}
    what = words.get(task.settled.holds, "") if task.settled is not None else ""
    return (
        f"The work tree holds {what} (iteration {held.iteration})"
        if what
        else (f"The work tree holds what iteration {held.iteration} has come to")
    )


def _safe(task: TaskState) -> str:
    if not task.base:
        return "Nothing was touched."
    if task.settled is not None and task.settled.committed:
        made = f"iterctl made the commit {task.settled.committed[:_HASH]} that was asked for and"
        return f"{made} touched no other branch and no stash; every attempt is kept as a snapshot."
    return "iterctl touched neither HEAD, the index, the stash nor any branch; every attempt is kept as a snapshot."


def _suite_text(suite: SuiteEvidence) -> str:
    if suite.outcome not in _VERDICTS:
        return _line(f"{suite.outcome}, {suite.reason}".rstrip(", ."), 200)
    gate = f" ({_line(suite.reason, 160)})" if suite.reason and not suite.passed and not suite.failing else ""
    return counts_text(suite.counts) + gate


def _time(seconds: float) -> str:
    return format_duration(round(seconds, 1)) if math.isfinite(seconds) and seconds > 0 else "0s"


def _known_cost(turns: Sequence[TurnEvidence]) -> float | None:
    known = [turn.cost_usd for turn in turns if turn.cost_usd is not None]
    return sum(known, 0.0) if known or not turns else None


def _cost(turns: Sequence[TurnEvidence]) -> str:
    """Money that is known, and for how many calls it isn't: unknown is never nothing."""
    # No dollar sign: two of them in one line are a formula to some Markdown renderers.
    known, unknown = _known_cost(turns), sum(1 for turn in turns if turn.cost_usd is None)
    missing = f"unknown for {unknown} of {counted(len(turns), 'call')}" if unknown else ""
    if known is None:
        return f"cost {missing}"
    return f"cost {known:.2f} USD ({missing})" if missing else f"cost {known:.2f} USD"


# ── attempts ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _attempt(state: RunState, task: TaskState, attempt: Attempt, telling: Mapping[int, Failure]) -> Part:
    suite, decision = attempt.suite, attempt.decision
    later = task.attempts[-1].iteration > attempt.iteration
    failing = suite.failing if suite is not None else ()
    kept = attempt.latest_snapshot if attempt.iteration > 0 else task.base
    failed = [turn for turn in attempt.all_turns if turn.outcome is not TurnOutcome.DONE]
    return {
        "iteration": attempt.iteration,
        "result": _line(attempt_text(attempt), 400),
        "changed": _changed(attempt),
        "files": [_line(name, _ID) for name in attempt.change.files[:_FILES]] if attempt.change is not None else [],
        "file_count": attempt.change.file_count if attempt.change is not None else None,
        "added": attempt.change.added if attempt.change is not None else None,
        "deleted": attempt.change.deleted if attempt.change is not None else None,
        "outcome": str(suite.outcome) if suite is not None else None,
        "tests": suite.counts.model_dump() if suite is not None else {},
        "tests_text": counts_text(suite.counts) if suite is not None else "not tested",
        "failing": [_line(test, _ID) for test in failing[:_NAMES]],
        "failing_count": len(failing),
        "first_failure": _failure(telling.get(attempt.iteration)),
        "guidance": [_bounded(text) for iteration, text in task.guidance if iteration == attempt.iteration],
        "agent_failures": [
            {
                "agent": _line(turn.agent),
                "outcome": str(turn.outcome),
                "exit_code": turn.exit_code,
                "error": _bounded(turn.error),
            }
            for turn in failed[:_NAMES]
        ],
        "reviews": [
            {
                "reviewer": _line(review.reviewer),
                "status": review.status,
                "feedback": _bounded(review.feedback),
                "findings": [_line(finding, 500) for finding in review.findings[:_NAMES]],
                "gaps": [_line(gap, 500) for gap in review.gaps[:_NAMES]],
            }
            for review in attempt.reviews
        ],
        "decision": decision.action if decision is not None else None,
        "reason": decision.reason if decision is not None else None,
        "fed_back": decision is not None and (decision.action == "retry" or later),
        "feedback": _feedback(decision),
        "seconds": attempt.seconds,
        "time": _time(attempt.seconds),
        "cost_usd": _known_cost(attempt.all_turns),
        "cost": _cost(attempt.all_turns).removeprefix("cost "),
        "snapshot": kept[:_HASH] or None,
        "restore": _command(state, task, "restore", str(attempt.iteration)) if kept else None,
    }


def _changed(attempt: Attempt) -> str:
    if attempt.iteration == 0:
        return "before any agent"
    return change_text(attempt.change) if attempt.change is not None else "no snapshot of a change"


def _telling(task: TaskState) -> dict[int, Failure]:
    """By iteration, the one failure to tell about: the same that a question is about, else the first."""
    firsts = {a.iteration: a.suite.failures[0] for a in task.attempts if a.suite is not None and a.suite.failures}
    return firsts | {trial.iteration: trial.first for trial in trials(task) if trial.first is not None}


def _failure(failure: Failure | None) -> Part | None:
    if failure is None:
        return None
    return {
        "test": _line(failure.test, _ID),
        "where": _line(failure.where, _ID),
        "kind": _line(failure.kind),
        "message": _bounded(failure.message),
        "expected": _bounded(failure.expected) if failure.expected is not None else None,
        "received": _bounded(failure.received) if failure.received is not None else None,
        "detail": _bounded(failure.detail),
    }


def _feedback(decision: Decision | None) -> Part | None:
    if decision is None or decision.feedback is None:
        return None
    return {
        "summary": _bounded(decision.feedback.summary),
        "actionable_items": [_line(item, 500) for item in decision.feedback.actionable_items[:_NAMES]],
        "priority": decision.feedback.priority,
    }


# ── tests by iterations ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Row:
    test: str
    trend: str
    cells: list[str]


@dataclass(frozen=True, slots=True)
class _Matrix:
    """Every test that ever failed, by iteration: those that always fail, then those that broke, then those mended."""

    columns: tuple[Attempt, ...]
    rows: tuple[_Row, ...]

    def having(self, trend: str) -> list[str]:
        return [row.test for row in self.rows if row.trend == trend]


def _matrix(task: TaskState) -> _Matrix:
    columns = tuple(attempt for attempt in task.attempts if attempt.suite is not None or attempt.iteration > 0)
    failing = [frozenset(attempt.suite.failing) if attempt.suite is not None else frozenset() for attempt in columns]
    tests = dict.fromkeys(test for attempt in columns if attempt.suite is not None for test in attempt.suite.failing)
    rows: list[_Row] = []
    for test in tests:
        cells = [_cell(test, attempt.suite, failed) for attempt, failed in zip(columns, failing, strict=True)]
        seen = [cell for cell in cells if cell != "-"]
        trend = "always" if "pass" not in seen else "regressed" if seen[-1] == "FAIL" else "fixed"
        rows.append(_Row(test, trend, cells))
    return _Matrix(columns, tuple(sorted(rows, key=lambda row: _TRENDS.index(row.trend))))


def _cell(test: str, suite: SuiteEvidence | None, failing: frozenset[str]) -> str:
    if test in failing:
        return "FAIL"
    # Where nothing passed at all, a test that didn't fail was skipped or is gone.
    judged = suite is not None and (suite.passed or (suite.outcome is Outcome.FAILED and suite.counts.passed > 0))
    return "pass" if judged else "-"


# ── certain and inferred ─────────────────────────────────────────────────────────────────────────────────────────────


def _certain(task: TaskState, matrix: _Matrix, telling: Mapping[int, Failure]) -> list[Part]:
    """What the evidence shows, each with where; the first says why the task is where it is."""
    facts = [_reason(task)]
    judged = [attempt for attempt in matrix.columns if attempt.suite is not None]
    if judged and judged[-1].suite is not None:
        last = judged[-1]
        facts.append(_fact(f"The last test run: {_suite_text(judged[-1].suite)}", [last], with_snapshot=True))
        failure = telling.get(last.iteration)
        if failure is not None and failure.expected is not None and failure.received is not None:
            sides = f"expects {_line(failure.expected, 120)}, the code gives {_line(failure.received, 120)}"
            facts.append(_fact(f"{_line(failure.test)} {sides}", [last], with_snapshot=True))
        told = {
            "always": "Failed in every test run that judged them",
            "regressed": "Passed before and failing now",
            "fixed": "Failed before and passing now",
        }
        for trend, words in told.items():
            tests = matrix.having(trend)
            if tests:
                facts.append(_fact(f"{words} ({counted(len(tests), 'test')}): {_some(tests)}", judged))
    idle = [attempt for attempt in task.attempts if attempt.iteration > 0 and attempt.changed is False]
    if idle:
        facts.append(_fact("The agent changed nothing", idle))
    failed = [attempt for attempt in task.attempts if attempt.failed_turns]
    if failed:
        times = sum(attempt.failed_turns for attempt in failed)
        facts.append(_fact(f"The agent failed {'once' if times == 1 else f'{times} times'}", failed))
    for attempt in task.attempts[-_NAMES:]:
        facts += [_fact(f"{_line(r.reviewer)} said {r.status}", [attempt]) for r in attempt.reviews]
    facts += [
        {"text": f"{_line(a.by) or 'A person'} answered: {a.effect}", "shown_by": "the journal"}
        for a in task.answers[-_NAMES:]
    ]
    return facts


def _reason(task: TaskState) -> Part:
    decision = task.decision
    if decision is None:
        return {"text": "Nothing is decided yet", "shown_by": "the journal"}
    text = _line(decision.explanation, 400)
    if decision.reason == "max-iterations":
        text = f"The bound of {counted(decision.iteration, 'iteration')} is reached and the task is not done"
    return {"text": text[:1].upper() + text[1:], "shown_by": f"rule {decision.reason}"}


def _fact(text: str, attempts: Sequence[Attempt], *, with_snapshot: bool = False) -> Part:
    shown = _numbers([attempt.iteration for attempt in attempts])
    kept = attempts[-1].latest_snapshot[:_HASH] if with_snapshot else ""
    return {"text": text, "shown_by": f"{shown}, snapshot {kept}" if kept else shown}


def _numbers(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"iteration {numbers[0]}"
    first, last = numbers[0], numbers[-1]
    if len(numbers) > 2 and last - first + 1 == len(numbers):  # noqa: PLR2004 - "1 to 2" is longer than "1, 2"
        return f"iterations {first} to {last}"
    return "iterations " + ", ".join(map(str, numbers[:_NAMES])) + (", …" if len(numbers) > _NAMES else "")


def _some(tests: Sequence[str], most: int = 3) -> str:
    more = f" and {len(tests) - most} more" if len(tests) > most else ""
    return ", ".join(_line(test, 160) for test in tests[:most]) + more


def _pattern(task: TaskState) -> tuple[str, str]:
    """Name and text, as the decision has them if it has."""
    if task.decision is not None and task.decision.pattern_detected:
        return task.decision.pattern, task.decision.pattern_detected
    found = detect(trials(task))
    return found.name, found.text


def _inferred(task: TaskState, pattern: tuple[str, str]) -> list[Part]:
    tried = [attempt.iteration for attempt in task.attempts if attempt.iteration > 0]
    found: list[Part] = []
    if pattern[0] and tried:
        found.append({"text": f"Pattern {pattern[0]}: {_line(pattern[1], 400)}", "from": _numbers(tried)})
    question = _asked(task)
    sides = [o for o in question.options if o.effect == "continue" and o.guidance] if question is not None else []
    if len(sides) > 1:
        text = "The test and the code contradict each other, and only a person can say which is right"
        found.append({"text": text, "from": "a failure that shows both sides and did not go away"})
    if task.settled is not None and task.settled.holds == "best" and tried:
        text = f"Iteration {task.settled.iteration} is the best attempt"
        found.append({"text": text, "from": "the number of tests that pass"})
    return found


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
        ends: Part = {"old": old[:_HASH], "new": new[:_HASH]}
        return {**ends, "text": clean.decode(), "cut": cut, "problem": _line(problem, 300)}


def _diffs(state: RunState, task: TaskState, patches: _Patches) -> Part:
    included = task.settings.escalation_includes_diff
    found: Part = {
        "included": included,
        "note": "" if included else "left out, because escalation_includes_diff is false",
        "command": _command(state, task, "diff"),
    }
    held = _held_commit(task)
    if not included or not task.base:
        return {**found, "whole": None, "attempts": []}
    whole: Part = {**patches.take(task.base, held or task.base), "command": found["command"]}
    pairs = [(attempt.iteration, old, new) for attempt, old, new in _steps(task)]
    # The newest first: when the budget ends, it is the oldest attempts that only get a pointer.
    taken = [
        {"iteration": number, **patches.take(old, new), "command": _command(state, task, "diff", str(number))}
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
    inside = f", in {_line(directory)}" if directory not in {"", "."} else ""
    found: list[Part] = [{"what": f"run the tests{inside}", "command": _bounded(test_command)}]
    if task.base:
        last = task.attempts[-1].iteration if task.attempts else 0
        found += [
            {"what": "see the whole change", "command": _command(state, task, "diff")},
            {
                "what": f"bring an iteration back (0: before the run, to {last})",
                "command": _command(state, task, "restore", "N"),
            },
        ]
    return found


# ── YAML and JSON ────────────────────────────────────────────────────────────────────────────────────────────────────

#: What a literal block keeps exactly as it is. NEL and the Unicode line separators would come back as plain newlines.
_BLOCK = re.compile(r"[\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010fffe]*")


class _Dumper(yaml.SafeDumper):
    """Text of several lines as a literal block, so that a diff reads like a diff; nothing as an alias."""

    def ignore_aliases(self, data: object) -> bool:
        del data
        return True

    def analyze_scalar(self, scalar: str) -> yaml.emitter.ScalarAnalysis:
        analysis = super().analyze_scalar(scalar)
        # PyYAML quotes what has a tab or a blank before a newline, as nearly every diff does; a block holds both.
        analysis.allow_block = "\n" in scalar and bool(scalar.strip()) and _BLOCK.fullmatch(scalar) is not None
        return analysis


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    breaks = "|" if "\n" in text else '"' if re.search("[\x85\u2028\u2029]", text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=breaks)


_Dumper.add_representer(str, _represent_text)


def render_yaml(document: Part) -> str:
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def render_json(document: Part) -> str:
    return json.dumps(document, indent=1) + "\n"
