"""The order of tasks that need each other, and the circles that have none."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

__all__ = ["Needs", "circles", "in_order", "with_needs"]

#: For each task, in the order of the file, the tasks that it needs; all of them are keys too.
Needs: TypeAlias = Mapping[str, Sequence[str]]


def in_order(needs: Needs) -> tuple[str, ...]:
    """Each time the first task of the file whose needs are met. Tasks in a circle, or behind one, are left out."""
    names = tuple(needs)
    position = {task: index for index, task in enumerate(names)}
    unmet = {task: len(set(needs[task])) for task in names}
    needed_by = defaultdict(list)
    for task in names:
        for need in set(needs[task]):
            needed_by[need].append(task)
    ready = [position[task] for task in names if not unmet[task]]
    ordered = []
    while ready:
        task = names[heapq.heappop(ready)]
        ordered.append(task)
        for other in needed_by[task]:
            unmet[other] -= 1
            if not unmet[other]:
                heapq.heappush(ready, position[other])
    return tuple(ordered)


def with_needs(needs: Needs, task: str) -> frozenset[str]:
    """The task and everything that it needs, directly or not."""
    found: set[str] = set()
    todo = [task]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += needs[name]
    return frozenset(found)


def circles(needs: Needs) -> Iterator[tuple[str, ...]]:
    """Circles such as (a, b, a), each beginning with its first task in the file; no task is in two of them.

    Not every circle there is, but at least one if there is any.
    """
    stuck = {task: needs[task] for task in needs}
    for task in in_order(needs):
        del stuck[task]
    position = {task: index for index, task in enumerate(stuck)}
    seen: set[str] = set()
    for start in stuck:
        walk: dict[str, None] = {}
        task = start
        while task not in seen:
            seen.add(task)
            walk[task] = None
            # Whoever is stuck needs somebody who is stuck, so this walk ends only where it was before.
            task = next(need for need in stuck[task] if need in stuck)
        if task in walk:
            path = list(walk)
            circle = path[path.index(task) :]
            first = circle.index(min(circle, key=position.__getitem__))
            yield (*circle[first:], *circle[: first + 1])
