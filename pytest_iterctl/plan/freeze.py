"""Freezing a plan: every setting gets its value, every agent is spelt out, and nothing is read again later.

For each setting alone, the first that says something wins: command line, environment, task, the plan's settings,
pytest's ini, default. A safety level sets every limit at once, and a single limit changes one. So a single limit beats
a level of the same or a lower origin, and a level beats single limits of a lower origin: `--safety permissive` undoes a
`max_total_cost` in the plan, and a `max_total_cost` in the plan changes the level that stands beside it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pytest_iterctl.errors import SafetyError, UsageError
from pytest_iterctl.plan.agent_names import resolve_agent
from pytest_iterctl.plan.frozen import FrozenPlan, FrozenTask, NamedAgent, Settings
from pytest_iterctl.plan.model import RUN_WIDE, Agent, Limits, Plan, SafetyLevel, SafetyPatch, SettingsPatch, Task
from pytest_iterctl.plan.problems import did_you_mean, printable, quoted
from pytest_iterctl.plan.task_order import circles, in_order, with_needs

__all__ = ["LIMITS", "ONLY_TASK", "freeze"]

#: The task of a plan that names none.
ONLY_TASK = "pytest"

_MINUTE = 60.0
_HOUR = 3600.0
LIMITS: Mapping[SafetyLevel, Limits] = MappingProxyType(
    {
        limits.level: limits
        for limits in (
            Limits(
                level="permissive",
                max_cost_per_iteration=10.0,
                max_total_cost=50.0,
                max_duration_per_iteration=10 * _MINUTE,
                max_total_duration=_HOUR,
                max_calls_per_iteration=1000,
                allow_destructive_operations=True,
            ),
            Limits(
                level="normal",
                max_cost_per_iteration=5.0,
                max_total_cost=20.0,
                max_duration_per_iteration=5 * _MINUTE,
                max_total_duration=30 * _MINUTE,
                max_calls_per_iteration=500,
            ),
            Limits(
                level="paranoid",
                max_cost_per_iteration=1.0,
                max_total_cost=5.0,
                max_duration_per_iteration=2 * _MINUTE,
                max_total_duration=10 * _MINUTE,
                max_calls_per_iteration=100,
                allow_external_api_calls=False,
                allow_outside_writes=False,
            ),
        )
    }
)


def freeze(
    plan: Plan,
    *,
    root: Path,
    command_line: SettingsPatch,
    environment: SettingsPatch,
    ini: SettingsPatch,
    source: str,
    plan_folder: str = "",
    ini_folder: str | None = None,
    only_task: str | None = None,
    default_tests: tuple[str, ...] = (),
    default_prompt: str = "",
    commit_message: str | None = None,
    python: str = sys.executable,
) -> FrozenPlan:
    """The plan of one run. A plan without tasks becomes one task, and the suite's markers may declare more.

    A command that the plan or pytest's ini names runs in the folder of that file, which is given below `root`.
    """
    limits = _limits(ini, plan.settings, environment, command_line)
    tasks = _in_order(plan, only_task) if plan.tasks else ()
    alone = Task(id=ONLY_TASK, prompt=default_prompt, tests=default_tests)
    origins = _Origins(
        *(ini, plan.settings, environment, command_line),
        agents=plan.agents,
        root=root,
        plan_folder=plan_folder,
        ini_folder=ini_folder,
        python=python,
    )
    return FrozenPlan(
        source=source,
        limits=limits,
        sandbox=_walls(limits, ini, plan.settings, environment, command_line),
        tasks=tuple(origins.freeze_task(task) for task in tasks or (alone,)),
        discover=not tasks,
        only=only_task or "" if not tasks and only_task != ONLY_TASK else "",
        commit_message=commit_message,
    )


def _limits(*lowest_first: SettingsPatch) -> Limits:
    limits = LIMITS["normal"]
    for origin in lowest_first:
        said = origin.safety or SafetyPatch()
        if said.level is not None:
            limits = LIMITS[said.level]
        limits = limits.model_copy(update=said.model_dump(exclude_none=True))
    return limits


def _walls(limits: Limits, *lowest_first: SettingsPatch) -> bool:
    """Whether what a run starts is put in a sandbox."""
    said = [origin.sandbox for origin in lowest_first if origin.sandbox is not None]
    mode = said[-1] if said else "auto"
    if limits.need_walls and limits.allow_outside_writes:
        raise SafetyError(
            "allow_external_api_calls: false can't be held where outside writes are allowed",
            hint="say allow_outside_writes: false, too: what may write anywhere can start what it wants outside",
        )
    if mode == "none" and limits.need_walls:
        raise SafetyError(
            f"safety level {limits.level} needs a sandbox, and sandbox: none forbids it",
            hint="drop one of the two, or allow_outside_writes and allow_external_api_calls: true",
        )
    return mode == "bwrap" or limits.need_walls


@dataclass(frozen=True)
class _Origins:
    """Whoever may say something about a setting, apart from the task."""

    ini: SettingsPatch
    plan: SettingsPatch
    environment: SettingsPatch
    command_line: SettingsPatch
    agents: Mapping[str, Agent]
    root: Path
    plan_folder: str
    ini_folder: str | None
    python: str

    def freeze_task(self, task: Task) -> FrozenTask:
        said = self._said_about(task)
        agent = said.pop("agent", None)
        review = said.pop("review", ())
        hidden = said.get("hidden_tests")
        if isinstance(hidden, tuple):
            said["hidden_tests"] = tuple(self._from_file(task, "hidden_tests", str(name)) for name in hidden)
        settings = Settings.model_validate(said)
        coder = self._agent(agent, self._folder(task, "agent")) if isinstance(agent, str) else None
        return FrozenTask(
            id=task.id,
            prompt=task.prompt,
            tests=task.tests or (),
            test=task.test,
            needs=task.needs,
            agent=coder,
            fallback=tuple(self._agent(word, None) for word in (coder.spec.fallback if coder is not None else ())),
            reviewers=tuple(self._agent(word, self._folder(task, "review")) for word in review)
            if isinstance(review, tuple)
            else (),
            session=task.session or (coder.spec.session if coder is not None else None),
            settings=settings,
        )

    def _said_about(self, task: Task) -> dict[str, object]:
        said: dict[str, object] = {"python": self.python}
        for origin in self._lowest_first(task):
            for name in SettingsPatch.model_fields:
                value = getattr(origin, name)
                if value is not None and name not in RUN_WIDE:
                    said[name] = value
        if "timeout" in said:
            said.setdefault("test_timeout", said["timeout"])
        return said

    def _lowest_first(self, task: Task) -> tuple[SettingsPatch, ...]:
        return (self.ini, self.plan, task, self.environment, self.command_line)

    def _folder(self, task: Task, name: str) -> str | None:
        """Where the word that counts was written, if that was a file."""
        files = ((self.ini, self.ini_folder), (self.plan, self.plan_folder), (task, self.plan_folder))
        said = [origin for origin in self._lowest_first(task) if getattr(origin, name) is not None]
        return next((folder for origin, folder in files if origin is said[-1]), None)

    def _from_file(self, task: Task, name: str, path: str) -> str:
        """A path as the file meant it that named it; from the root where that was no file."""
        return os.path.normpath(self.root / (self._folder(task, name) or "") / Path(path).expanduser())

    def _agent(self, word: str, folder: str | None) -> NamedAgent:
        return resolve_agent(word, self.agents, root=self.root, plan_folder=self.plan_folder, folder=folder)


def _in_order(plan: Plan, only_task: str | None) -> tuple[Task, ...]:
    """The tasks that will run, each after those that it needs, otherwise as in the file."""
    tasks = {task.id: task for task in plan.tasks}
    needs = {task.id: task.needs for task in plan.tasks}
    _check_needs(needs)
    if only_task is None:
        wanted: Iterable[str] = tasks
    elif only_task in tasks:
        wanted = with_needs(needs, only_task)
    else:
        hint = did_you_mean(only_task, tasks) or f"the plan has {', '.join(quoted(name) for name in list(tasks)[:10])}"
        raise UsageError(f"the plan has no task {quoted(only_task)}", hint=hint)
    wanted = frozenset(wanted)
    return tuple(tasks[name] for name in in_order(needs) if name in wanted)


def _check_needs(needs: Mapping[str, tuple[str, ...]]) -> None:
    # A plan that was read from a file has been checked; one that was put together elsewhere has not.
    for task, names in needs.items():
        for name in names:
            if name not in needs:
                raise UsageError(f"task {quoted(task)} needs the unknown task {quoted(name)}")
    for circle in circles(needs):
        raise UsageError(f"tasks need each other: {' -> '.join(printable(name) for name in circle)}")
