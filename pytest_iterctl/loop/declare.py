"""Tasks that the suite itself declares: `@pytest.mark.iterate(task=…, prompt=…, max_iterations=…)`."""

from __future__ import annotations

import re

from pytest_iterctl.control.events import StageStarted, TasksDeclared, TaskStarted
from pytest_iterctl.control.state import Attempt, TaskState
from pytest_iterctl.errors import UsageError
from pytest_iterctl.feedback.witness_log import DeclaredTask, WitnessLog
from pytest_iterctl.loop.history import History
from pytest_iterctl.loop.stages import Stages
from pytest_iterctl.plan.frozen import FrozenTask
from pytest_iterctl.redaction import redact

__all__ = ["declare_tasks", "tasks_of_markers"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def declare_tasks(stages: Stages, history: History) -> None:
    """Run the suite once: its markers name the tasks; without markers this very run is the one task's baseline."""
    state = history.state
    whole = state.tasks[0].task
    ref = f"refs/iterctl/{history.run}/{whole.id}/0-base"
    base = stages.snapshots.take(ref, f"iterctl {history.run} {whole.id}: base")
    tested = stages.run_tests(whole, Attempt(iteration=0))
    if tested.stopped:
        return  # nothing is known yet; a resume asks again
    if tested.log is None:
        tasks: tuple[FrozenTask, ...] = (whole,)
    else:
        tasks = tasks_of_markers(whole, _declared(stages, whole, tested.log), tested.log.collected)
    only = state.started.plan.only if state.started is not None else ""
    if only:
        tasks = _only(tasks, only)
    by_markers = tasks != (whole,)
    if by_markers:
        stages.bases.set_aside(base.commit)
    history.record(TasksDeclared(tasks=tasks))
    if by_markers:
        return
    history.record(TaskStarted(task=whole.id, base=base.commit, tree=base.tree, under_way=tested.suite.seconds))
    history.record(StageStarted(task=whole.id, iteration=0, stage="test", before=base.commit))
    stages.tested(TaskState(task=whole, base=base.commit), 0, tested)


def _declared(stages: Stages, whole: FrozenTask, log: WitnessLog) -> tuple[DeclaredTask, ...]:
    if not log.distributed:
        return log.tasks
    # Under xdist only the workers see the tests, so the markers are read in a run that collects here.
    collected = stages.run_tests(whole, Attempt(iteration=0), extra=("-n0", "--collect-only", "-q"))
    return collected.log.tasks if collected.log is not None else ()


def tasks_of_markers(
    whole: FrozenTask, declared: tuple[DeclaredTask, ...], collected: tuple[str, ...]
) -> tuple[FrozenTask, ...]:
    """One task per name in the order of the tests; tests without a marker stay with the whole."""
    by_name: dict[str, FrozenTask] = {}
    for mark in declared:
        _refuse_wrong(whole, mark)
        known = by_name.get(mark.task) or whole.model_copy(update={"id": mark.task, "marker": mark.task})
        settings, prompt = known.settings, known.prompt
        if mark.max_iterations is not None:
            settings = settings.model_copy(update={"max_iterations": mark.max_iterations})
        if mark.prompt and mark.prompt not in prompt:
            prompt = f"{prompt}\n{mark.prompt}".strip()
        by_name[mark.task] = known.model_copy(update={"prompt": redact(prompt), "settings": settings})
    if not by_name:
        return (whole,)
    marked = {test for mark in declared for test in mark.tests}
    rest = (whole.model_copy(update={"marker": ""}),) if len(marked) < len(collected) else ()
    return (*by_name.values(), *rest)


def _refuse_wrong(whole: FrozenTask, mark: DeclaredTask) -> None:
    """A marker is part of the plan, so what is wrong with it is said before anything is called."""
    where = f"the iterate marker of {mark.tests[0] if mark.tests else mark.task}"
    if not _NAME.fullmatch(mark.task) or mark.task.endswith(".lock") or ".." in mark.task:
        raise UsageError(f"{where}: {mark.task!r} is no task name", hint="letters, digits, dots, dashes; at most 64")
    if mark.task == whole.id:
        raise UsageError(f"{where} names the task {whole.id!r}, which means the tests without a marker")
    if mark.max_iterations is not None and (not isinstance(mark.max_iterations, int) or mark.max_iterations < 1):
        raise UsageError(f"{where}: max_iterations must be a whole number from 1 on, not {mark.max_iterations!r}")


def _only(tasks: tuple[FrozenTask, ...], name: str) -> tuple[FrozenTask, ...]:
    chosen = tuple(task for task in tasks if task.id == name)
    if not chosen:
        known = ", ".join(task.id for task in tasks)
        raise UsageError(f"no iterate marker and no plan declares the task {name!r}", hint=f"tasks here: {known}")
    return chosen
