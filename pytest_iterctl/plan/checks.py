"""What the types of a plan can't say: names that must exist, names that collide, tasks that wait for each other.

Everything here looks at the data as it was written, whether or not its types are right, so that one look at the
messages is enough to mend a whole file.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, time
from pathlib import Path
from typing import TypeAlias

from pytest_iterctl.plan.agent_names import RESERVED_AGENTS, known_agents, unknown_agent
from pytest_iterctl.plan.model import RUN_WIDE
from pytest_iterctl.plan.presets import conflict_with_preset, preset_names
from pytest_iterctl.plan.problems import Finding, KeyPath, printable, quoted
from pytest_iterctl.plan.task_order import circles

__all__ = ["check_names", "check_values"]

_WHOLE_RUN = {"safety": "safety limits hold", "sandbox": "a sandbox is there"}

#: Where a task stands, and what it says.
_PlacedTask: TypeAlias = tuple[KeyPath, dict[str, object]]


def check_values(data: object) -> Iterator[Finding]:
    """Values that no key of a plan can have."""
    todo: list[tuple[KeyPath, object]] = [((), data)]
    while todo:
        path, value = todo.pop()
        if isinstance(value, dict):
            todo += [((*path, key), child) for key, child in value.items()]
            yield from (Finding((*path, key), "has a NUL character", at_key=True) for key in value if "\0" in key)
        elif isinstance(value, list):
            todo += [((*path, index), child) for index, child in enumerate(value)]
        elif isinstance(value, str) and "\0" in value:
            yield Finding(path, "has a NUL character", "programs can't be given any")
        elif isinstance(value, date | time):
            yield Finding(path, "a date is not expected here", "put it in quotation marks if it is text")


def check_names(data: object, *, root: Path) -> Iterator[Finding]:
    """Agents and tasks by name: each must be there, and be there once."""
    plan = _table(data)
    agents = _table(plan.get("agents"))
    yield from _redefined(agents)
    yield from _presets_named_in(agents)
    yield from _fallbacks_named_in(agents, root)
    yield from _agents_named_in(plan.get("settings"), ("settings",), agents, root)
    tasks: list[_PlacedTask] = [(("tasks", index), _table(task)) for index, task in enumerate(_list(plan.get("tasks")))]
    for path, task in tasks:
        yield from _agents_named_in(task, path, agents, root)
        for name in sorted(RUN_WIDE & task.keys()):
            message = f"belongs under settings: {_WHOLE_RUN[name]} for the whole run"
            yield Finding((*path, name), message, "move it to `settings`", at_key=True)
    yield from _task_ids(tasks)
    yield from _needs(tasks)


def _table(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _redefined(agents: dict[str, object]) -> Iterator[Finding]:
    for name in agents:
        if name in RESERVED_AGENTS:
            yield Finding(("agents", name), f"{quoted(name)} is a built-in agent", "choose another name", at_key=True)


def _presets_named_in(agents: dict[str, object]) -> Iterator[Finding]:
    for name, agent in agents.items():
        table = _table(agent)
        preset = table.get("preset")
        if not isinstance(preset, str) or not preset or "\0" in preset:
            continue
        if preset not in preset_names():
            message = f"unknown preset {quoted(preset)}"
            yield Finding(("agents", name, "preset"), message, word=preset, known=preset_names())
        elif message := conflict_with_preset(preset, table):
            yield Finding(("agents", name), message, at_key=True)


def _agents_named_in(settings: object, path: KeyPath, agents: dict[str, object], root: Path) -> Iterator[Finding]:
    table = _table(settings)
    named: list[tuple[KeyPath, object]] = [((*path, "agent"), table.get("agent"))]
    named += [((*path, "review", index), word) for index, word in enumerate(_list(table.get("review")))]
    yield from _unknown_agents(named, agents, root)


def _fallbacks_named_in(agents: dict[str, object], root: Path) -> Iterator[Finding]:
    for name, agent in agents.items():
        words = _list(_table(agent).get("fallback"))
        named: list[tuple[KeyPath, object]] = [(("agents", name, "fallback", n), word) for n, word in enumerate(words)]
        yield from _unknown_agents(named, agents, root)
        for place, word in named:
            if word == name:
                yield Finding(place, f"{quoted(name)} can't take over from itself", "name another agent")


def _unknown_agents(named: list[tuple[KeyPath, object]], agents: dict[str, object], root: Path) -> Iterator[Finding]:
    for place, word in named:
        if isinstance(word, str) and word and "\0" not in word:
            unknown = unknown_agent(word, agents, root=root)
            if unknown:
                yield Finding(place, unknown.message, unknown.hint, word=word, known=known_agents(agents))


def _task_ids(tasks: list[_PlacedTask]) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for path, task in tasks:
        name = task.get("id")
        if not isinstance(name, str):
            continue
        place = (*path, "id")
        # Refs and file names that differ only by case are one and the same on some systems.
        first = seen.get(name.casefold())
        seen.setdefault(name.casefold(), name)
        if first == name:
            yield Finding(place, f"duplicate task id {quoted(name)}", "each task needs an id of its own")
        elif first is not None:
            yield Finding(place, f"differs from {quoted(first)} only by case", "choose an id that differs more")
        if name.endswith((".lock", ".")) or ".." in name:
            message = f"{quoted(name)} can't be part of a git ref"
            yield Finding(place, message, "an id has no `..` and does not end in `.` or `.lock`")


def _needs(tasks: list[_PlacedTask]) -> Iterator[Finding]:
    places: dict[str, KeyPath] = {}
    for path, task in tasks:
        name = task.get("id")
        if isinstance(name, str):
            places.setdefault(name, path)
    met: dict[str, list[str]] = {name: [] for name in places}
    known = tuple(places)
    for path, task in tasks:
        name = task.get("id")
        for index, need in enumerate(_list(task.get("needs"))):
            place = (*path, "needs", index)
            if not isinstance(need, str):
                continue
            if need == name:
                yield Finding(place, "a task can't need itself", "remove it")
            elif need not in places:
                yield Finding(place, f"unknown task {quoted(need)}", word=need, known=known)
            elif isinstance(name, str):
                met[name].append(need)
    for circle in circles(met):
        way = " -> ".join(printable(name) for name in circle)
        yield Finding((*places[circle[0]], "needs"), f"tasks need each other: {way}", at_key=True)
