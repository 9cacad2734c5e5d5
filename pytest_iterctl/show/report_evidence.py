"""What a report tells of the attempts: each of them, the test × iteration matrix, what is certain, what is inferred."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_iterctl.control.analysis import analysis_of
from pytest_iterctl.control.decision import Decision
from pytest_iterctl.control.evidence import Failure, Outcome, SuiteEvidence
from pytest_iterctl.control.pattern import counted, detect
from pytest_iterctl.control.question import Question
from pytest_iterctl.control.standing import attempt_text, trials
from pytest_iterctl.control.state import Attempt, RunState, TaskState
from pytest_iterctl.show.failure import analysis_part, analysis_text, strategy_part, touched_part
from pytest_iterctl.show.integrity import verdict_text
from pytest_iterctl.show.report_words import (
    FILES,
    HASH,
    ID,
    NAMES,
    Part,
    bounded,
    command_for,
    cost_told,
    known_cost,
    shown_line,
    suite_told,
    time_text,
)
from pytest_iterctl.show.words import change_text, counts_text

__all__ = [
    "Matrix",
    "asked_question",
    "attempt_part",
    "certain_facts",
    "inferences",
    "matrix_of",
    "pattern_of",
    "telling_failures",
]

_TRENDS = ("always", "regressed", "fixed")


def attempt_part(state: RunState, task: TaskState, attempt: Attempt, telling: Mapping[int, Failure]) -> Part:
    suite, decision = attempt.verdict, attempt.decision
    later = task.attempts[-1].iteration > attempt.iteration
    failing = suite.failing if suite is not None else ()
    kept = attempt.latest_snapshot if attempt.iteration > 0 else task.base
    failed = [turn for turn in attempt.all_turns if not turn.outcome.took_its_turn]
    return {
        "iteration": attempt.iteration,
        "result": shown_line(attempt_text(attempt), 400),
        "changed": _changed(attempt),
        "files": [shown_line(name, ID) for name in attempt.change.files[:FILES]] if attempt.change is not None else [],
        "file_count": attempt.change.file_count if attempt.change is not None else None,
        "added": attempt.change.added if attempt.change is not None else None,
        "deleted": attempt.change.deleted if attempt.change is not None else None,
        "outcome": str(suite.outcome) if suite is not None else None,
        "tests": suite.counts.model_dump() if suite is not None else {},
        "tests_text": counts_text(suite.counts) if suite is not None else "not tested",
        "failing": [shown_line(test, ID) for test in failing[:NAMES]],
        "failing_count": len(failing),
        "gate": attempt.gate.verdict if attempt.gate is not None else None,
        "strategies": strategy_part(attempt),
        "analysis": analysis_part(attempt),
        "analysis_text": analysis_text(found) if (found := analysis_of(attempt)) is not None else None,
        "first_failure": _failure(telling.get(attempt.iteration)),
        "guidance": [bounded(text) for iteration, text in task.guidance if iteration == attempt.iteration],
        "destroyed": shown_line(attempt.destroyed, 400) or None,
        "touched": touched_part(attempt)[:NAMES],
        "agent_failures": [
            {
                "agent": shown_line(turn.agent),
                "outcome": str(turn.outcome),
                "exit_code": turn.exit_code,
                "error": bounded(turn.error),
            }
            for turn in failed[:NAMES]
        ],
        "reviews": [
            {
                "reviewer": shown_line(review.reviewer),
                "status": review.status,
                "feedback": bounded(review.feedback),
                "findings": [shown_line(finding, 500) for finding in review.findings[:NAMES]],
                "gaps": [shown_line(gap, 500) for gap in review.gaps[:NAMES]],
            }
            for review in attempt.reviews
        ],
        "decision": decision.action if decision is not None else None,
        "reason": decision.reason if decision is not None else None,
        "fed_back": decision is not None and (decision.action == "retry" or later),
        "feedback": _feedback(decision),
        "seconds": attempt.seconds,
        "time": time_text(attempt.seconds),
        "cost_usd": known_cost(attempt.all_turns),
        "cost": cost_told(attempt.all_turns).removeprefix("cost "),
        "snapshot": kept[:HASH] or None,
        "restore": command_for(state, task, "restore", str(attempt.iteration)) if kept else None,
    }


def _changed(attempt: Attempt) -> str:
    if attempt.iteration == 0:
        return "before any agent"
    return change_text(attempt.change) if attempt.change is not None else "no snapshot of a change"


def telling_failures(task: TaskState) -> dict[int, Failure]:
    """By iteration, the one failure to tell about: the same that a question is about, else the first."""
    suites = {attempt.iteration: suite for attempt in task.attempts if (suite := attempt.verdict) is not None}
    firsts = {iteration: suite.failures[0] for iteration, suite in suites.items() if suite.failures}
    return firsts | {trial.iteration: trial.first for trial in trials(task) if trial.first is not None}


def _failure(failure: Failure | None) -> Part | None:
    if failure is None:
        return None
    return {
        "test": shown_line(failure.test, ID),
        "where": shown_line(failure.where, ID),
        "kind": shown_line(failure.kind),
        "message": bounded(failure.message),
        "expected": bounded(failure.expected) if failure.expected is not None else None,
        "received": bounded(failure.received) if failure.received is not None else None,
        "detail": bounded(failure.detail),
    }


def _feedback(decision: Decision | None) -> Part | None:
    if decision is None or decision.feedback is None:
        return None
    return {
        "summary": bounded(decision.feedback.summary),
        "actionable_items": [shown_line(item, 500) for item in decision.feedback.actionable_items[:NAMES]],
        "priority": decision.feedback.priority,
    }


# ── tests by iterations ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Row:
    test: str
    trend: str
    cells: list[str]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Every test that ever failed, by iteration: those that always fail, then those that broke, then those mended."""

    columns: tuple[Attempt, ...]
    rows: tuple[_Row, ...]

    def having(self, trend: str) -> list[str]:
        return [row.test for row in self.rows if row.trend == trend]


def matrix_of(task: TaskState) -> Matrix:
    columns = tuple(attempt for attempt in task.attempts if attempt.suite is not None or attempt.iteration > 0)
    # What counts: a test that passed in the work tree and not in the clean room has failed.
    suites = [attempt.verdict for attempt in columns]
    failing = [frozenset(suite.failing) if suite is not None else frozenset() for suite in suites]
    tests = dict.fromkeys(test for suite in suites if suite is not None for test in suite.failing)
    rows: list[_Row] = []
    for test in tests:
        cells = [_cell(test, suite, failed) for suite, failed in zip(suites, failing, strict=True)]
        seen = [cell for cell in cells if cell != "-"]
        trend = "always" if "pass" not in seen else "regressed" if seen[-1] == "FAIL" else "fixed"
        rows.append(_Row(test, trend, cells))
    return Matrix(columns, tuple(sorted(rows, key=lambda row: _TRENDS.index(row.trend))))


def _cell(test: str, suite: SuiteEvidence | None, failing: frozenset[str]) -> str:
    if test in failing:
        return "FAIL"
    # Where nothing passed at all, a test that didn't fail was skipped or is gone.
    judged = suite is not None and (suite.passed or (suite.outcome is Outcome.FAILED and suite.counts.passed > 0))
    return "pass" if judged else "-"


# ── certain and inferred ─────────────────────────────────────────────────────────────────────────────────────────────


def certain_facts(task: TaskState, matrix: Matrix, telling: Mapping[int, Failure]) -> list[Part]:
    """What the evidence shows, each with where; the first says why the task is where it is."""
    facts = [_reason(task)]
    judged = [attempt for attempt in matrix.columns if attempt.verdict is not None]
    if judged and judged[-1].verdict is not None:
        last = judged[-1]
        facts.append(_fact(f"The last test run: {suite_told(judged[-1].verdict)}", [last], with_snapshot=True))
        failure = telling.get(last.iteration)
        if failure is not None and failure.expected is not None and failure.received is not None:
            sides = f"expects {shown_line(failure.expected, 120)}, the code gives {shown_line(failure.received, 120)}"
            facts.append(_fact(f"{shown_line(failure.test)} {sides}", [last], with_snapshot=True))
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
    facts += [
        _fact(f"The gate objected: {verdict_text(gate)}", [attempt])
        for attempt in task.attempts[-NAMES:]
        if (gate := attempt.gate) is not None and gate.verdict in {"gaps", "incident"}
    ]
    for attempt in task.attempts[-NAMES:]:
        facts += [_fact(f"{shown_line(r.reviewer)} said {r.status}", [attempt]) for r in attempt.reviews]
    facts += [
        {"text": f"{shown_line(a.by) or 'A person'} answered: {a.effect}", "shown_by": "the journal"}
        for a in task.answers[-NAMES:]
    ]
    return facts


def _reason(task: TaskState) -> Part:
    decision = task.decision
    if decision is None:
        return {"text": "Nothing is decided yet", "shown_by": "the journal"}
    text = shown_line(decision.explanation, 400)
    if decision.reason == "max-iterations":
        text = f"The bound of {counted(decision.iteration, 'iteration')} is reached and the task is not done"
    is_name = "_" in text.partition(" ")[0]  # of a limit, which has its own spelling
    return {"text": text if is_name else text[:1].upper() + text[1:], "shown_by": f"rule {decision.reason}"}


def _fact(text: str, attempts: Sequence[Attempt], *, with_snapshot: bool = False) -> Part:
    shown = _numbers([attempt.iteration for attempt in attempts])
    kept = attempts[-1].latest_snapshot[:HASH] if with_snapshot else ""
    return {"text": text, "shown_by": f"{shown}, snapshot {kept}" if kept else shown}


def _numbers(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"iteration {numbers[0]}"
    first, last = numbers[0], numbers[-1]
    if len(numbers) > 2 and last - first + 1 == len(numbers):  # noqa: PLR2004 - "1 to 2" is longer than "1, 2"
        return f"iterations {first} to {last}"
    return "iterations " + ", ".join(map(str, numbers[:NAMES])) + (", …" if len(numbers) > NAMES else "")


def _some(tests: Sequence[str], most: int = 3) -> str:
    more = f" and {len(tests) - most} more" if len(tests) > most else ""
    return ", ".join(shown_line(test, 160) for test in tests[:most]) + more


def pattern_of(task: TaskState) -> tuple[str, str]:
    """Name and text, as the decision has them if it has."""
    if task.decision is not None and task.decision.pattern_detected:
        return task.decision.pattern, task.decision.pattern_detected
    found = detect(trials(task))
    return found.name, found.text


def inferences(task: TaskState, pattern: tuple[str, str]) -> list[Part]:
    tried = [attempt.iteration for attempt in task.attempts if attempt.iteration > 0]
    found: list[Part] = []
    if pattern[0] and tried:
        found.append({"text": f"Pattern {pattern[0]}: {shown_line(pattern[1], 400)}", "from": _numbers(tried)})
    question = asked_question(task)
    sides = [o for o in question.options if o.effect == "continue" and o.guidance] if question is not None else []
    if len(sides) > 1:
        text = "The test and the code contradict each other, and only a person can say which is right"
        found.append({"text": text, "from": "a failure that shows both sides and did not go away"})
    if task.settled is not None and task.settled.holds == "best" and tried:
        text = f"Iteration {task.settled.iteration} is the best attempt"
        found.append({"text": text, "from": "the number of tests that pass"})
    return found


def asked_question(task: TaskState) -> Question | None:
    open_ended = task.status in {"escalated", "stopped"} and task.decision is not None
    return task.decision.question if open_ended and task.decision is not None else None
