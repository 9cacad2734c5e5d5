"""The marks that declare tasks."""

from __future__ import annotations

from typing import Any

__all__ = ["closest", "declared_by"]


def closest(node: Any, known: dict[Any, Any]) -> Any:
    """The closest `iterate` marker, with the answer of every class and module remembered."""
    for mark in node.own_markers:
        if mark.name == "iterate":
            return mark
    parent = node.parent
    if parent is None:
        return None
    if parent not in known:
        known[parent] = closest(parent, known)
    return known[parent]


def declared_by(mark: Any) -> dict[str, object]:
    given = {**dict(zip(("task", "prompt", "max_iterations"), mark.args)), **mark.kwargs}  # noqa: B905 - Python 3.9
    most = given.get("max_iterations")
    return {
        "task": str(given.get("task") or ""),
        "prompt": str(given.get("prompt") or ""),
        "max_iterations": most if most is None or type(most) is int else repr(most),
    }
