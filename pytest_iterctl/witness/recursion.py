"""A traceback of a recursion, with each place of it at most twice."""

from __future__ import annotations

import copy
from typing import Any

__all__ = ["without_recursion"]

_SEEN_TWICE = 2


class _LeftOut:
    """Stands for the frames of a recursion between its first and its last round."""

    style = "short"
    reprfileloc = None

    def __init__(self, count: int) -> None:
        self.lines = (f"[… {count} frames of a recursion left out …]",)

    def toterminal(self, writer: Any) -> None:
        writer.line(self.lines[0])


def without_recursion(longrepr: Any) -> Any:
    """The same with each place of a recursion at most twice; pytest's own object is left as it is."""
    chain = getattr(longrepr, "chain", None) or []
    collapsed = [_collapsed(traceback) for traceback, _, _ in chain]
    if all(short is whole for short, (whole, _, _) in zip(collapsed, chain)):  # noqa: B905 - Python 3.9
        return longrepr
    shorter = copy.copy(longrepr)
    shorter.chain = [(short, *rest) for short, (_, *rest) in zip(collapsed, chain)]  # noqa: B905 - Python 3.9
    shorter.reprtraceback = collapsed[-1]
    return shorter


def _collapsed(traceback: Any) -> Any:
    places: dict[tuple[str, int], list[int]] = {}
    for number, entry in enumerate(traceback.reprentries):
        location = getattr(entry, "reprfileloc", None)
        key = (str(location.path), location.lineno) if location is not None else ("", number)
        places.setdefault(key, []).append(number)
    if all(len(seen) <= _SEEN_TWICE for seen in places.values()):
        return traceback
    kept = sorted({number for seen in places.values() for number in (seen[0], seen[-1])})
    entries: list[Any] = []
    for before, number in zip([-1, *kept], kept):  # noqa: B905 - Python 3.9
        if number - before > 1:
            entries.append(_LeftOut(number - before - 1))
        entries.append(traceback.reprentries[number])
    shorter = copy.copy(traceback)
    shorter.reprentries = entries
    return shorter
