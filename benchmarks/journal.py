"""What the journal and the decision cost in a run with a long history: an event, a decision, a resume."""

from __future__ import annotations

import itertools
import sqlite3
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from long_run import RUN, TASK, events, snapshot_taken, suite_finished
from measure import in_process, options, scratch, tell

from pytest_iterctl.control.decision import Decision, decide
from pytest_iterctl.control.standing import situation
from pytest_iterctl.control.state import RunState
from pytest_iterctl.control.steps import Decide, next_step
from pytest_iterctl.feedback.compose import compact
from pytest_iterctl.loop.history import History, now
from pytest_iterctl.store.database import Database
from pytest_iterctl.store.journal import Journal, Record


def main() -> None:
    given = options(__doc__ or "", size=1000, runs=200, quick_size=20, quick_runs=5)
    with scratch() as folder:
        path = folder / "journal.sqlite"
        _fill(path, given.size)
        _compare_resumes(path, given.size, max(given.runs // 20, 2))
        history = _opened(path)
        _time_decisions(history.state, given.size, given.runs)
        _compare_events(history, folder, given.size, given.runs)


def _fill(path: Path, size: int) -> None:
    database = Database(path)
    journal = Journal(database)
    journal.begin(RUN, now(), TASK)
    database.connection.execute("BEGIN")
    for number, event in enumerate(events(size), start=1):
        record = Record(number, now(), float(number), event.kind, event.model_dump_json())
        journal.append(RUN, record, durable=False)
    database.connection.execute("COMMIT")
    database.close()


def _opened(path: Path) -> History:
    return History(Journal(Database(path)), RUN)


def _milliseconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1000


def _compare_resumes(path: Path, size: int, runs: int) -> None:
    costs = [in_process(partial(_opened, path)) for _ in range(runs)]
    how = f"CPU time, median of {runs}: open and fold, {size} iterations"
    tell("journal.resume_ms", statistics.median(cost.cpu for cost in costs) * 1000, 1000, how)


def _time_decisions(state: RunState, size: int, runs: int) -> None:
    step = next_step(state)
    if not isinstance(step, Decide):
        sys.exit(f"error: the made-up history does not lead to a decision but to {step}")
    decided = _decision(state, step)
    if decided.action != "retry":
        sys.exit(f"error: the decision is {decided.action}, not retry")
    how = f"median of {runs}, after {size} iterations"
    took = statistics.median(_milliseconds(partial(_decision, state, step)) for _ in range(runs))
    tell("journal.decision_ms", took, 1, f"elapsed time, {how}: feedback, situation, decision")
    took = statistics.median(_milliseconds(partial(next_step, state)) for _ in range(runs))
    tell("journal.next_step_ms", took, 1, f"elapsed time, {how}")


def _decision(state: RunState, step: Decide) -> Decision:
    """As the driver does it."""
    task = state.task(step.task)
    suite = task.attempts[-1].suite
    return decide(situation(state, task, step.iteration, compact(suite, (), task.settings.feedback_max_length)))


def _compare_events(history: History, folder: Path, size: int, runs: int) -> None:
    """Durable, not durable and a plain insert take turns: how fast the disk is changes from one second to the next."""
    plain = sqlite3.connect(folder / "plain.sqlite", isolation_level=None)
    plain.execute("PRAGMA journal_mode = WAL")
    plain.execute("PRAGMA synchronous = FULL")
    plain.execute("CREATE TABLE events (sequence INTEGER PRIMARY KEY, body TEXT)")
    verdict, shot = suite_finished(size), snapshot_taken(size, "test")
    body = verdict.model_dump_json()
    took: dict[str, list[float]] = {"durable": [], "not durable": [], "plain": []}
    numbers = itertools.count()
    for _ in range(runs):
        took["durable"].append(_milliseconds(lambda: history.record(verdict)))
        took["not durable"].append(_milliseconds(lambda: history.record(shot)))
        insert = partial(plain.execute, "INSERT INTO events VALUES (?, ?)", (next(numbers), body))
        took["plain"].append(_milliseconds(insert))
    durable, quick, reference = (statistics.median(each) for each in took.values())
    how = f"elapsed time, median of {runs}, {size} iterations before it"
    calibration = f"plain SQLite FULL insert {reference:.3f} ms, ratio {durable / reference:.2f}"
    tell("journal.durable_event_ms", durable, 5, f"{how}; {calibration}")
    tell("journal.event_ms", quick, 5, f"{how}, not durable")


if __name__ == "__main__":
    main()
