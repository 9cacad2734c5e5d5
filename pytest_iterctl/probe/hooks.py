"""Which functions answer pytest's hooks, and whether they are those that were registered.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .exam import Exam

__all__ = ["CALLER", "Hooks"]

CALLER: Any = getattr(pluggy, "HookCaller", None) or pluggy._hooks._HookCaller  # the latter until pluggy 1.1


class Hooks:
    """Every implementation of every hook, and the function that it was registered with."""

    def __init__(self, exam: Exam) -> None:
        self.inside = os.path.join(exam.tree, "")
        self.manager: Any = None
        self.known: dict[int, tuple[str, Any, Any, Any]] = {}

    def take(self, manager: Any) -> None:
        self.manager = manager
        for name, implementation in self.all():
            self.add(name, implementation)

    def take_plugin(self, plugin: object) -> None:
        for caller in (self.manager.get_hookcallers(plugin) or ()) if self.manager is not None else ():
            for implementation in caller.get_hookimpls():
                if implementation.plugin is plugin:
                    self.add(caller.name, implementation)

    def add(self, name: str, implementation: Any) -> None:
        function = implementation.function
        code = getattr(function, "__code__", None)
        self.known.setdefault(id(implementation), (name, implementation, function, code))

    def all(self) -> Iterator[tuple[str, Any]]:
        for name, caller in list(vars(self.manager.hook).items()):
            if isinstance(caller, CALLER):
                for implementation in caller.get_hookimpls():
                    yield name, implementation

    def patched(self) -> dict[str, Any]:
        """Those that have another function, are gone, or came without a plugin that was registered with them."""
        if self.manager is None:
            return {}
        now = {id(implementation): (name, implementation) for name, implementation in self.all()}
        found = {
            self.label(name, implementation): implementation.function
            for number, (name, implementation, function, code) in self.known.items()
            if number not in now
            or implementation.function is not function
            or getattr(function, "__code__", None) is not code
        }
        plugins = {implementation.plugin_name for _, implementation, _, _ in self.known.values()}
        found.update(
            (self.label(name, implementation), implementation.function)
            for number, (name, implementation) in now.items()
            if number not in self.known and implementation.plugin_name in plugins
        )
        return found

    def label(self, hook: str, implementation: Any) -> str:
        name = str(implementation.plugin_name)
        if name.isdigit():
            name = type(implementation.plugin).__name__
        elif name.startswith(self.inside):
            name = name[len(self.inside) :].replace(os.sep, "/")
        return f"hook {hook} of {name}"
