"""A run from outside: start, resume, answer, close one. Each ends with the state that the journal then holds."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest_iterctl
from pytest_iterctl.agents.person import at_terminal
from pytest_iterctl.control.events import Answered, BaseLost, Resumed, RunStarted, StopRequested, Warned
from pytest_iterctl.control.limits import extended, raising
from pytest_iterctl.control.standing import spent
from pytest_iterctl.control.state import RunState, TaskState
from pytest_iterctl.errors import RepositoryError, SafetyError, UsageError
from pytest_iterctl.loop.driver import Driver
from pytest_iterctl.loop.extensions import may_listen
from pytest_iterctl.loop.history import History, Watcher, now
from pytest_iterctl.loop.workspace import Workspace, below
from pytest_iterctl.plan.frozen import FrozenPlan
from pytest_iterctl.plan.model import Limits
from pytest_iterctl.redaction import Redactor, redact
from pytest_iterctl.store.lock import WorkTreeLock
from pytest_iterctl.text import file_name, one_line
from pytest_iterctl.work.leftovers import end_leftovers
from pytest_iterctl.work.own_tree import OwnTree
from pytest_iterctl.work.snapshots import Snapshots

__all__ = [
    "Answer",
    "Audience",
    "answer_run",
    "close_run",
    "left_behind",
    "refuse_unsupported_system",
    "resume_run",
    "start_run",
]


@dataclass(frozen=True, slots=True)
class Audience:
    """Who watches a run: told of every event, and drawn for while something takes long."""

    watchers: Sequence[Watcher] = ()
    tick: Callable[[float, RunState], None] = lambda _elapsed, _state: None
    interrupted: Callable[[], bool] = lambda: False  # whether a signal has asked for the end of it


@dataclass(frozen=True, slots=True)
class Answer:
    """A person's answer to one task's question: an option by number, or an effect spelt out."""

    effect: str = ""
    option: int = 0
    guidance: str = ""
    iterations: int = 0


def refuse_unsupported_system() -> None:
    """Process trees are controlled through Linux facilities; pretending elsewhere would leave orphans behind."""
    if not sys.platform.startswith("linux"):
        raise UsageError(
            f"runs are not supported on {sys.platform}",
            hint="use Linux (a container or WSL will do); iterctl check and iterctl feedback work everywhere",
        )


def start_run(
    workspace: Workspace,
    plan: FrozenPlan,
    audience: Audience,
    lock: WorkTreeLock,
    *,
    directory: Path,
    as_module: bool,
) -> RunState:
    refuse_unsupported_system()
    run = lock.run
    with lock:
        _refuse_absent_person(plan)
        clean = _clean(plan, workspace.redactor)
        survey = _snapshots(workspace, run, clean).survey()
        if survey.refusal:
            raise RepositoryError(survey.refusal, hint="add what need not be kept to .gitignore")
        workspace.journal.begin(run, now(), ", ".join(task.id for task in clean.tasks))
        history = History(workspace.journal, run, audience.watchers, redactor=workspace.redactor)
        history.record(
            RunStarted(
                run=run,
                version=pytest_iterctl.__version__,
                plan=clean,
                root=file_name(os.fsencode(workspace.root)),
                git_dir=file_name(os.fsencode(workspace.repository.git_dir)),
                head=workspace.repository.head,
                directory=below(directory, workspace.root),
                as_module=as_module,
                hooks_may_listen=may_listen(workspace, clean),
            )
        )
        for warning in (*survey.warnings, *_unreachable(clean)):
            history.record(Warned(text=warning))
        return _driver(workspace, history, audience).go()


def resume_run(
    workspace: Workspace,
    audience: Audience,
    lock: WorkTreeLock,
    *,
    raise_limits: Callable[[Limits], Limits] | None = None,
    max_iterations: int | None = None,
) -> RunState:
    """Go on from the last finished stage; limits may be raised, nothing that was spent is forgotten."""
    refuse_unsupported_system()
    run = lock.run
    with lock:
        end_leftovers(run)
        history = History(workspace.journal, run, audience.watchers, redactor=workspace.redactor)
        limits = _raised(history.state, raise_limits)
        _refuse_pointless(history.state, limits, max_iterations)
        _snapshots(workspace, run, _plan_of(history.state))
        driver = _driver(workspace, history, audience)
        stopped = [task for task in history.state.tasks if task.status == "stopped"]
        if stopped:
            driver.recover()
        before = history.state
        for task in stopped:
            if edited := _edited_meanwhile(workspace, before, task):
                # The user has worked on: their tree is where it goes on, as the next iteration.
                left = max(task.bound - task.attempts[-1].iteration, 1)
                history.record(Answered(task=task.id, effect="continue", iterations=left, by=_who()))
                history.record(BaseLost(task=task.id, edited=edited))
        history.record(Resumed(limits=limits, max_iterations=max_iterations))
        for task in history.state.tasks:
            left = (max_iterations or 0) - (task.attempts[-1].iteration if task.attempts else 0)
            if task.status == "escalated" and left > 0:
                history.record(Answered(task=task.id, effect="continue", iterations=left, by=_who()))
        return driver.go()


def answer_run(
    workspace: Workspace, task_id: str | None, answer: Answer, audience: Audience, lock: WorkTreeLock
) -> RunState:
    """Write a person's answer down and go on with the same run."""
    refuse_unsupported_system()
    run = lock.run
    with lock:
        end_leftovers(run)
        history = History(workspace.journal, run, audience.watchers, redactor=workspace.redactor)
        task = _asked(history.state, task_id)
        _snapshots(workspace, run, _plan_of(history.state))
        answered = _answered(task, answer)
        driver = _driver(workspace, history, audience)
        driver.recover()
        if answered.effect == "approve" and _changed_since(workspace, run, task):
            raise UsageError(
                "the work tree has changed since its tests ran, so there is nothing tested to approve",
                hint="go on with: --continue TEXT (the tests decide again)",
            )
        if answered.effect == "continue":
            answered = answered.model_copy(update=_what_to_go_on_with(workspace, history.state, task, answered))
        edited = _edited_meanwhile(workspace, history.state, task)
        history.record(answered)
        if edited and answered.effect == "continue":
            history.record(BaseLost(task=task.id, edited=edited))
        return driver.go()


def close_run(workspace: Workspace, audience: Audience, lock: WorkTreeLock) -> RunState:
    """End a run whose driver has died, as if it had been asked to stop: what was cut off is put back first."""
    refuse_unsupported_system()
    run = lock.run
    with lock:
        end_leftovers(run)
        history = History(workspace.journal, run, audience.watchers, redactor=workspace.redactor)
        if history.state.finished is None:
            _snapshots(workspace, run, _plan_of(history.state))
            history.record(StopRequested(by="iterctl stop"))
        return _driver(workspace, history, audience).go()


def _driver(workspace: Workspace, history: History, audience: Audience) -> Driver:
    """Of a run with a tree of its own only there: whatever it puts back or accepts, the user's stays as it is."""
    plan = _plan_of(history.state)
    private = workspace.place.run_directory(history.run)
    if plan is not None and plan.own_tree:
        tree = OwnTree.of(workspace.root, private)
        if tree is None or not tree.is_entered:
            raise SafetyError("the run's own tree is not in the place of the work tree, so nothing is run")
    return Driver(workspace, history, audience.tick, audience.interrupted)


def left_behind(state: RunState) -> str:
    """The snapshot of what the run last left in the work tree; '' when it has taken none."""
    last = next((task for task in state.tasks if task.id == state.at_work), None)
    if last is None:
        return ""
    settled = last.settled.commit if last.settled is not None else ""
    return settled or last.latest or last.base


def _snapshots(workspace: Workspace, run: str, plan: FrozenPlan | None) -> Snapshots:
    """The run's snapshots, which leave out what its agents are known to leave lying about."""
    snapshots = workspace.snapshots(run)
    agents = [agent for task in plan.tasks for agent in (task.agent, *task.reviewers)] if plan is not None else []
    snapshots.exclude(dict.fromkeys(pattern for agent in agents if agent is not None for pattern in agent.spec.leaves))
    return snapshots


def _plan_of(state: RunState) -> FrozenPlan | None:
    return state.started.plan if state.started is not None else None


def _what_to_go_on_with(workspace: Workspace, state: RunState, task: TaskState, answer: Answered) -> dict[str, object]:
    """Going on after a run-wide limit raises it; after a reviewer that failed, only the review is taken again."""
    if state.started is not None and state.limits is not None:
        question = task.decision.question if task.decision is not None else None
        if question is not None and answer.option and question.options[answer.option - 1].allow_destructive:
            return {"limits": state.limits.model_copy(update={"allow_destructive_operations": True})}
        used = spent(state, task.attempts[-1])
        limits = state.limits
        for name in task.limits:
            limits = extended(limits, state.started.plan.limits, used, name) or limits
        if limits != state.limits:
            return {"limits": limits}
    failed = task.decision is not None and task.decision.reason == "agent-failed"
    there = task.holds_last_attempt or state.at_work == task.id
    if (
        failed
        and there
        and not answer.guidance
        and _may_be_approved(task)
        and not _changed_since(workspace, state.run, task)
    ):
        return {"review_again": True}
    return {}


def _answered(task: TaskState, answer: Answer) -> Answered:
    question = task.decision.question if task.decision is not None else None
    effect, guidance, released = answer.effect, answer.guidance, tuple[str, ...]()
    if answer.option:
        options = question.options if question is not None else ()
        if not 1 <= answer.option <= len(options):
            raise UsageError(f"option {answer.option} is not one of 1 to {len(options)}", hint="see: iterctl report")
        chosen = options[answer.option - 1]
        effect, released = chosen.effect, chosen.may_change
        guidance = "\n".join(filter(None, [chosen.guidance, answer.guidance]))
    if effect == "continue" and task.decision is not None and task.decision.reason == "agent-asked":
        # The next session may be a new one, which knows nothing of any question.
        asked = one_line(task.decision.explanation, 600)
        guidance = f"You asked: {asked}\n  A person answered: {guidance or 'go on'}"
    if effect == "approve" and not _may_be_approved(task):
        raise UsageError("only a change whose tests pass can be approved", hint="use --continue or --abort")
    if effect not in {"continue", "approve", "abort"}:
        raise UsageError("the answer says nothing", hint="use --option N, --continue TEXT or --abort")
    return Answered(
        task=task.id,
        effect=effect,  # type: ignore[arg-type]  # one of the three, as checked above
        guidance=guidance,
        iterations=answer.iterations,
        option=answer.option,
        by=_who(),
        may_change=released,
    )


def _edited_meanwhile(workspace: Workspace, state: RunState, task: TaskState) -> tuple[str, ...]:
    """What a person has changed in the work tree since the task left it.

    While another task is under way there, what has changed is its agent's work, and nobody can tell what else is in it.
    """
    other = any(each.id == state.at_work != task.id and each.status == "running" for each in state.tasks)
    return () if other else _changed_since(workspace, state.run, task)


def _changed_since(workspace: Workspace, run: str, task: TaskState) -> tuple[str, ...]:
    """What is not as the task left it."""
    if task.settled is None or not task.settled.commit:
        return ()
    snapshots = workspace.snapshots(run)
    found = snapshots.take(f"refs/iterctl/{run}/{task.id}/found", f"iterctl {run} {task.id} as found")
    try:
        left = snapshots.tree_of(task.settled.commit)
    except RepositoryError:
        return ()  # somebody has removed the snapshot: nobody can tell, and it goes on from what there is
    if found.tree == left:
        return ()
    return tuple(os.fsdecode(name) for name in snapshots.changed_names(task.settled.commit, found.commit))


def _may_be_approved(task: TaskState) -> bool:
    return bool(task.attempts) and task.attempts[-1].may_be_approved


def _asked(state: RunState, task_id: str | None) -> TaskState:
    asked = [task for task in state.tasks if task.status in {"escalated", "stopped"}]
    if task_id is not None:
        named = [task for task in state.tasks if task.id == task_id]
        if not named:
            raise UsageError(
                f"run {state.run} has no task {task_id!r}", hint=", ".join(task.id for task in state.tasks)
            )
        if named[0] not in asked:
            raise UsageError(f"task {task_id} asks nothing: it is {named[0].status}", hint="see: iterctl status")
        return named[0]
    if not asked:
        raise UsageError(f"no question waits in run {state.run}", hint=f"see: iterctl status {state.run}")
    if len(asked) > 1:
        raise UsageError(
            f"{len(asked)} tasks of run {state.run} ask a question",
            hint="name one with --task: " + ", ".join(task.id for task in asked),
        )
    return asked[0]


def _raised(state: RunState, raise_limits: Callable[[Limits], Limits] | None) -> Limits | None:
    if raise_limits is None or state.limits is None:
        return None
    raised = raise_limits(state.limits)
    if raised.need_walls and state.started is not None and not state.started.plan.sandbox:
        raise SafetyError(
            f"run {state.run} began without a sandbox, and these limits need one ({raised.level})",
            hint="start a new run, or raise single limits: --limit NAME=VALUE",
        )
    return raised if raised != state.limits else None


def _refuse_pointless(state: RunState, limits: Limits | None, max_iterations: int | None) -> None:
    if not state.started:
        raise UsageError(f"run {state.run or '?'} never started", hint="start a new one: iterctl run")
    if state.finished is None or state.stopped_by:
        return
    run = state.run
    passed = {task.id for task in state.tasks if task.status == "proceed"}
    if limits is not None and any(t.status == "waiting" and passed.issuperset(t.task.needs) for t in state.tasks):
        return
    waiting = [task for task in state.tasks if task.status == "escalated"]
    by_limit = [task for task in state.tasks if task.status == "stopped" and task.limit != "person"]
    by_person = [task for task in state.tasks if task.status == "stopped" and task.limit == "person"]
    if by_person or (by_limit and limits is not None):
        return
    if by_limit:
        raise UsageError(
            f"run {run} was stopped by {' and '.join(by_limit[0].limits)}",
            hint=f"raise it: {raising(run, by_limit[0].limits)}",
        )
    if waiting:
        if any(max_iterations is not None and task.attempts[-1].iteration < max_iterations for task in waiting):
            return
        raise UsageError(f"run {run} waits for an answer", hint=f"see iterctl report {run}, then: iterctl answer {run}")
    raise UsageError(f"run {run} has ended: {state.finished.decision}", hint="start a new one: iterctl run")


def _clean(plan: FrozenPlan, redactor: Redactor) -> FrozenPlan:
    """The plan without secrets in its prose. A secret in a command can't be left out, so it is refused."""
    tasks = []
    for task in plan.tasks:
        for agent in (task.agent, *task.reviewers):
            if agent is not None:
                variables = (f"{name}={value}" for name, value in agent.spec.env.items())
                spec = agent.spec
                lines = (" ".join(words or ()) for words in (spec.command, spec.resume, spec.arguments))
                _refuse_secrets(f"agent {agent.name}", (*lines, *_strings(spec.model_dump(mode="json")), *variables))
        _refuse_secrets("the arguments of the tests", (*task.tests, " ".join(task.tests)))
        tasks.append(task.model_copy(update={"prompt": redactor(task.prompt)}))
    return plan.model_copy(update={"tasks": tuple(tasks)})


def _unreachable(plan: FrozenPlan) -> Iterator[str]:
    """Agents that are known to need a model, and are to work without any network."""
    if not plan.sandbox or plan.limits.allow_external_api_calls:
        return
    named = {each.name: each for task in plan.tasks for each in (task.agent, *task.fallback, *task.reviewers) if each}
    for name, agent in named.items():
        if agent.spec.install and not agent.spec.endpoints:
            yield f"agent {name} names no endpoints, so it can reach no model in the sandbox: see docs/sandbox.md"


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)


def _refuse_secrets(where: str, values: Sequence[str]) -> None:
    """What runs can't be redacted and still run, and the journal holds no secrets: so it must not be written there."""
    if any(redact(value) != value for value in values):
        raise UsageError(
            f"{where} hold what looks like a secret",
            hint="keep it in an environment variable (PYTEST_ADDOPTS for pytest's own arguments) and pass it on by"
            " name: pass_env: [NAME]",
        )


def _refuse_absent_person(plan: FrozenPlan) -> None:
    for task in plan.tasks:
        if task.agent is not None and task.agent.spec.person and not at_terminal():
            raise UsageError(
                f"task {task.id}: the agent is a person and there is no terminal to ask at",
                hint="run it in a terminal, or name another agent with --agent",
            )


def _who() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
