"""What the framework is made of at the start, and what of it is something else later.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import builtins
import datetime as dt
import functools
import importlib
import io
import os
import random
import subprocess
import sys
import time
import types
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import _pytest.config

from .hooks import CALLER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["FAMILIES", "Inventory", "functions_behind", "take_inventory"]

FAMILIES = ("pytest", "_pytest", "pluggy", "unittest")
_CHOSEN: dict[types.ModuleType, tuple[str, ...]] = {
    os: (
        *("_exit", "fork", "forkpty", "kill", "killpg", "write", "_Environ"),
        *("execl", "execle", "execlp", "execlpe", "execv", "execve", "execvp", "execvpe"),
    ),
    sys: ("exit", "settrace", "setprofile", "_getframe", "addaudithook"),
    subprocess: ("run", "Popen", "call", "check_call", "check_output"),
    dt: ("datetime", "date"),
    warnings: ("warn",),
    io: ("open",),
}
# Python itself fills these in when someone asks.
_FILLED_IN = frozenset(
    (
        *("__doc__", "__dict__", "__weakref__", "__module__", "__class__", "__static_attributes__"),
        *("__annotations__", "__annotations_cache__", "__annotate__", "__annotate_func__"),
        *("_abc_impl", "__abstractmethods__", "__parameters__", "__orig_bases__"),
    )
)
_KEY_OBJECTS = (
    "_pytest.reports.TestReport.from_item_and_call",
    "_pytest.reports.TestReport.__init__",
    "_pytest.reports.BaseReport.passed",
    "_pytest.reports.BaseReport.failed",
    "_pytest.runner.CallInfo.from_call",
    "_pytest.runner.call_and_report",
    "_pytest.runner.runtestprotocol",
    "_pytest.runner.pytest_runtest_makereport",
    "_pytest.python.Function.runtest",
    "_pytest.python.Function.setup",
    "_pytest.unittest.TestCaseFunction.runtest",
    "_pytest.unittest.TestCaseFunction.addFailure",
    "_pytest.unittest.TestCaseFunction.addError",
    f"{CALLER.__module__}.{CALLER.__qualname__}.__call__",
    "builtins.AssertionError",
    "builtins.isinstance",
    "builtins.__import__",
    "pytest.raises",
    "pytest.skip",
    "pytest.exit",
    "pytest.fail",
    "pytest.xfail",
    "pytest.approx",
    "unittest.case.TestCase.run",
    "unittest.case.TestCase.__call__",
    "unittest.case.TestCase.assertEqual",
    "unittest.case.TestCase.assertTrue",
    "unittest.case.TestCase.assertFalse",
    "unittest.case.TestCase.assertRaises",
    "unittest.case.TestCase.subTest",
    "unittest.case.TestCase.fail",
    "unittest.case.TestCase.failureException",
    "time.time",
    "time.perf_counter",
    "time.monotonic",
    "time.sleep",
    "os._exit",
)


def _counts(value: object) -> bool:
    """Whether an attribute is something that is called, and not a mere value that may change."""
    return callable(value) or hasattr(type(value), "__get__")


def functions_behind(value: Any) -> Iterator[types.FunctionType]:
    """The functions behind an attribute of a class."""
    if isinstance(value, types.FunctionType):
        yield value
    elif isinstance(value, (classmethod, staticmethod)):
        yield from functions_behind(value.__func__)
    elif isinstance(value, property):
        for each in (value.fget, value.fset, value.fdel):
            yield from functions_behind(each)
    elif isinstance(value, functools.cached_property):
        yield from functions_behind(value.func)


class Inventory:
    """The framework as it was at the start. It holds on to every object, so that no identity is used twice."""

    def __init__(self) -> None:
        self.namespaces: dict[str, tuple[Any, dict[str, Any], bool]] = {}
        self.functions: dict[int, tuple[str, Any, Any]] = {}
        self.key: list[tuple[Mapping[str, Any], str, Any]] = []
        self.key_labels: list[str] = []

    def take_framework(self) -> None:
        for name, module in sorted(sys.modules.items()):
            if name.partition(".")[0] in FAMILIES and isinstance(module, types.ModuleType):
                self.take_module(name, module)

    def take_standard_library(self) -> None:
        for module in (builtins, time, random):
            self.take_module(module.__name__, module)
        for module, names in _CHOSEN.items():
            self.take_module(module.__name__, module, names)

    def take_module(self, name: str, module: types.ModuleType, names: tuple[str, ...] | None = None) -> None:
        if name in self.namespaces:
            return
        there = {
            key: value for key, value in vars(module).items() if callable(value) and (names is None or key in names)
        }
        self.namespaces[name] = (vars(module), there, False)
        for key, value in there.items():
            if isinstance(value, type):
                if value.__module__.partition(".")[0] in FAMILIES or value.__module__ == "os":
                    self.take_class(value)
            else:
                self.take_function(f"{name}.{key}", value)

    def take_class(self, kind: type) -> None:
        name = f"{kind.__module__}.{kind.__qualname__}"
        if name in self.namespaces:
            return
        there = {key: value for key, value in vars(kind).items() if key not in _FILLED_IN and _counts(value)}
        self.namespaces[name] = (vars(kind), there, True)
        for key, value in there.items():
            self.take_function(f"{name}.{key}", value)

    def take_function(self, label: str, value: object) -> None:
        for each in functions_behind(value):
            if id(each) not in self.functions:
                self.functions[id(each)] = (label, each, each.__code__)

    def choose_key_objects(self) -> None:
        for label in _KEY_OBJECTS:
            name, _, key = label.rpartition(".")
            namespace, there, _ = self.namespaces.get(name, ({}, {}, False))
            if key in there:
                self.key.append((namespace, key, there[key]))
                self.key_labels.append(label)

    def key_is_intact(self) -> bool:
        for namespace, key, value in self.key:  # noqa: SIM110 - all() would take twice as long, after each test
            if namespace.get(key) is not value:
                return False
        return True

    def key_patched(self) -> dict[str, Any]:
        return {
            label: namespace.get(key)
            for label, (namespace, key, value) in zip(self.key_labels, self.key)  # noqa: B905 - Python 3.9
            if namespace.get(key) is not value
        }

    def patched(self) -> dict[str, Any]:
        """Everything that is not what it was, and what is there now."""
        found: dict[str, Any] = {}
        for name, (namespace, there, whole) in self.namespaces.items():
            for key, value in there.items():
                if namespace.get(key) is not value and not self.is_lent(namespace.get(key)):
                    found[f"{name}.{key}"] = namespace.get(key)
            if whole and len(namespace) > len(there):
                # What is added to a class may stand before what its instances or its parents have.
                added = [key for key in namespace if key not in there and key not in _FILLED_IN]
                found.update(
                    (f"{name}.{key}", namespace[key])
                    for key in added
                    if _counts(namespace[key]) and not self.is_lent(namespace[key])
                )
        # Each of these questions is an event by itself; defaults that are replaced were an event too.
        found.update(
            (label, function) for label, function, code in self.functions.values() if function.__code__ is not code
        )
        return found

    def is_lent(self, value: object) -> bool:
        """Whether pytest put it there itself: one of its plugins lends other classes their old attributes."""
        labels = [self.functions.get(id(each), ("",))[0] for each in functions_behind(value)]
        return bool(labels) and all(label.startswith("_pytest.legacypath.") for label in labels)


def take_inventory(judge: Iterable[type]) -> Inventory:
    """All of the framework that an ordinary run loads, and the judge's own classes, before the project's first line."""
    inventory = Inventory()
    for name in ("unittest", *(f"_pytest.{plugin}" for plugin in _pytest.config.default_plugins)):
        with suppress(ImportError):
            importlib.import_module(name)
    inventory.take_standard_library()
    inventory.take_framework()
    for kind in judge:
        inventory.take_class(kind)
    inventory.choose_key_objects()
    return inventory
