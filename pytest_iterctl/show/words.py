"""The words that lines and documents share: counts, costs, limits, outcomes, always spelt the same way."""

from __future__ import annotations

from pytest_iterctl.control.evidence import Change, Counts, Outcome, SuiteEvidence
from pytest_iterctl.control.pattern import counted
from pytest_iterctl.control.state import RunState, TaskState
from pytest_iterctl.plan.values import format_duration
from pytest_iterctl.text import one_line

__all__ = [
    "change_text",
    "cost_text",
    "counts_text",
    "limits_text",
    "suite_text",
    "suite_word",
    "walls_text",
    "works_in_own_tree",
]

_WORDS = {
    Outcome.PASSED: "TEST PASS",
    Outcome.FAILED: "TEST FAIL",
    Outcome.COLLECTION_ERROR: "COLLECT FAIL",
    Outcome.NO_TESTS: "NO TESTS",
    Outcome.USAGE_ERROR: "USAGE ERROR",
    Outcome.CRASHED: "TEST CRASH",
    Outcome.TIMED_OUT: "TEST TIMEOUT",
    Outcome.INTERRUPTED: "INTERRUPTED",
    Outcome.NO_REPORT: "NO REPORT",
    Outcome.INCOMPLETE: "INCOMPLETE",
}


def suite_word(suite: SuiteEvidence) -> str:
    return _WORDS[suite.outcome]


def counts_text(counts: Counts) -> str:
    named = (
        (counts.passed, "passed"),
        (counts.failed, "failed"),
        (counts.errors, "errors"),
        (counts.skipped, "skipped"),
        (counts.xfailed, "xfailed"),
        (counts.xpassed, "xpassed"),
    )
    return ", ".join(f"{number} {word}" for number, word in named if number) or "no tests"


def suite_text(suite: SuiteEvidence, previous: SuiteEvidence | None) -> str:
    """What a test run showed, and what moved since the one before."""
    if suite.outcome not in {Outcome.PASSED, Outcome.FAILED}:
        return one_line(suite.reason or str(suite.outcome), 160)
    moved = ""
    if previous is not None and previous.outcome in {Outcome.PASSED, Outcome.FAILED}:
        before, now = set(previous.failing), set(suite.failing)
        parts = [f"{len(names)} {word}" for names, word in ((before - now, "fixed"), (now - before, "new")) if names]
        moved = f" ({', '.join(parts)})" if parts else ""
    only_a_gate = suite.outcome is Outcome.FAILED and not suite.failing
    reason = f"; {one_line(suite.reason, 120)}" if only_a_gate and suite.reason else ""
    return counts_text(suite.counts) + moved + reason


def change_text(change: Change | None) -> str:
    if change is None or not change.file_count:
        return "changed nothing"
    return f"+{change.added} −{change.deleted} in {counted(change.file_count, 'file')}"


def cost_text(task: TaskState | RunState) -> str:
    """Money that is known, and how many calls did not say."""
    tasks = task.tasks if isinstance(task, RunState) else (task,)
    unknown = sum(each.calls_of_unknown_cost for each in tasks)
    calls = sum(len(attempt.all_turns) + attempt.lost_calls for each in tasks for attempt in each.attempts)
    if not calls:
        return "$0.00"
    if unknown == calls:
        return "cost unknown"
    known = f"${task.cost:.2f}"
    return f"{known} (unknown for {unknown} of {counted(calls, 'call')})" if unknown else known


def works_in_own_tree(state: RunState) -> bool:
    return state.started is not None and state.started.plan.own_tree


def walls_text(state: RunState) -> str:
    """What the header says of a sandbox; nothing where there is none."""
    if state.started is None or not state.started.plan.sandbox:
        return ""
    return " · sandbox, own tree" if state.started.plan.own_tree else " · sandbox"


def limits_text(state: RunState) -> str:
    """What the header says of the bounds."""
    if state.limits is None:
        return ""
    bounds = {task.bound for task in state.tasks}
    iterations = counted(max(bounds), "iteration") if bounds else ""
    whole = format_duration(state.limits.max_total_duration)
    return f"{iterations}, {whole}, ${state.limits.max_total_cost:.2f}"
