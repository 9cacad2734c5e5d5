"""Rides inside the test runs of a clean room and writes down what the code under test does to the judge.

The witness loads this file as the module `iterctl_probe`, before pytest or anything of the project is imported, and
hands it the exam: what to look at. The workers of xdist import a copy of it from a private folder, with the exam beside
it. Like the witness it imports nothing of ours (Python 3.9 and pytest 7.4 will do), and it judges nothing: an honest
project may do a good part of what is told here, so whoever judges compares two runs.

PYTEST_DONT_REWRITE: it is imported before pytest could rewrite it, and pytest would warn of that.
"""

# ruff: noqa: E402 - sys.path is mapped into the room before pytest is imported
# ruff: noqa: PTH100, PTH109, PTH110, PTH117, PTH118, PTH119, PTH120, PTH122, PTH123, PTH206, PTH207 - paths are strings
# ruff: noqa: SLF001 - what is looked at is what nobody else should touch
from __future__ import annotations

import os
import sys

# What the code under test could replace is taken hold of before it is there.
_exit, _fork, _killpg, _read, _system_write, _waitpid = os._exit, os.fork, os.killpg, os.read, os.write, os.waitpid
_getframe = sys._getframe  # the audit hook has to know who did it
_AssertionError = AssertionError
_ERRORS = (Exception, ValueError, TypeError, RuntimeError, AssertionError)

import ast
import builtins
import datetime as dt
import functools
import gc
import glob
import importlib
import inspect
import io
import json
import random
import select
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import time
import traceback
import types
import unittest
import warnings
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

_monotonic = time.monotonic
_is_collecting, _stop_collecting, _go_on_collecting = gc.isenabled, gc.disable, gc.enable

NAME = "iterctl_probe"
_EXAM_FILE = "iterctl_probe.json"
_MOST_EVENTS, _MOST_NAMES, _MOST_REACHED = 200, 1_000, 1_000  # the first for each kind
_MOST_AGREEING, _MOST_PARTS = 100, 50
_DEEPEST = 25  # frames between what happens and the file that wanted it
_TEXT = 2_000
_NESTED = 4  # how deep the containers of an import finder are searched for paths


class Exam:
    """What the driver wants to know; every wish has its default."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.told = dict(told)
        self.tree = os.path.realpath(str(told.get("tree") or os.getcwd()))
        self.origin = str(told.get("from") or "")
        self.protected = frozenset(map(str, told.get("protected") or ()))
        self.reverse = bool(told.get("reverse"))
        self.watch = bool(told.get("watch"))
        control = told.get("control")
        self.control: dict[str, Any] = control if isinstance(control, dict) else {}
        self.alone = bool(told.get("alone"))
        self.alone_seconds = float(told.get("alone_seconds", 60.0))


class _Undisturbed:
    """Keeps the garbage collector from looking at a hundred thousand objects each time that some are added."""

    def __enter__(self) -> None:
        self.was = _is_collecting()
        _stop_collecting()

    def __exit__(self, *_: object) -> None:
        if self.was:
            _go_on_collecting()


def _told() -> dict[str, Any]:
    """The exam: put here by the witness, or lying beside the copy that a worker of xdist imports."""
    given = globals().get("EXAM")
    if given is None and __name__ == NAME:
        with suppress(OSError, ValueError), open(os.path.join(os.path.dirname(__file__), _EXAM_FILE), "rb") as file:
            given = json.load(file)
    return given if isinstance(given, dict) else {}


# The room instead of the work tree --------------------------------------------------------------------------------


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


class Move:
    """Turns paths of the original work tree into those of the room, where the room has them."""

    def __init__(self, origin: str, tree: str) -> None:
        self.tree = tree
        self.origins = list(dict.fromkeys((os.path.abspath(origin), os.path.realpath(origin))))
        prefixes = dict.fromkeys((os.path.abspath(sys.prefix), os.path.realpath(sys.prefix)))
        # An environment that the whole work tree lies in does not tell what belongs to which.
        self.kept = [each for each in prefixes if not any(_within(origin, each) for origin in self.origins)]

    def target(self, path: str, *, suffixes: bool = False) -> str:
        """The same in the room; '' for what stays where it is."""
        whole = os.path.abspath(path)
        if _within(whole, self.tree) or any(_within(whole, each) for each in self.kept):
            return ""
        for origin in self.origins:
            if _within(whole, origin):
                there = os.path.normpath(os.path.join(self.tree, os.path.relpath(whole, origin)))
                # Import finders name a module without its suffix.
                found = os.path.exists(there) or (suffixes and bool(glob.glob(glob.escape(there) + ".*")))
                return there if found else ""
        return ""

    def everything(self) -> list[str]:
        """Map sys.path, the import finders and what child processes will search; returns the folders for children."""
        before = os.environ.get("PYTHONPATH", "")
        given = before.split(os.pathsep) if before else []
        inherited = {os.path.abspath(each) for each in given}
        folders: list[str] = []
        for number, entry in enumerate(sys.path):
            there = self.target(entry) if entry else ""
            if there:
                sys.path[number] = there
                if os.path.abspath(entry) not in inherited:
                    folders.append(there)
        for finder in list(sys.meta_path):
            with suppress(Exception):  # a finder may be any object at all
                folders += self.finder(finder)
        sys.path_importer_cache.clear()
        mapped = [(self.target(each) if each else "") or each for each in given]
        new = [each for each in dict.fromkeys(folders) if each not in mapped]
        if new or mapped != given:
            os.environ["PYTHONPATH"] = os.pathsep.join(mapped + new)
        return new

    def finder(self, finder: object) -> list[str]:
        """Map what an editable install knows; returns the folders that hold its packages."""
        owner = finder if isinstance(finder, type) else type(finder)
        module = sys.modules.get(owner.__module__)
        if module is None or _of_the_standard_library(module):
            return []
        parents: list[str] = []
        for namespace in (vars(finder), vars(module)):
            for name, value in list(namespace.items()):
                if name.startswith("__"):
                    continue
                if isinstance(value, (dict, list)):
                    parents += self.container(value, (), 0)
                elif isinstance(value, str) and os.path.isabs(value) and namespace is vars(module):
                    there = self.target(value, suffixes=True)
                    if there:
                        setattr(module, name, there)
        return parents

    def container(self, values: dict[Any, Any] | list[Any], package: tuple[str, ...], depth: int) -> list[str]:
        parents: list[str] = []
        if depth > _NESTED:
            return parents
        for key, value in list(values.items() if isinstance(values, dict) else enumerate(values)):
            parts = tuple(key.split(".")) if isinstance(key, str) else package
            if isinstance(value, (dict, list)):
                parents += self.container(value, parts, depth + 1)
            elif isinstance(value, str) and os.path.isabs(value):
                there = self.target(value, suffixes=True)
                if there:
                    values[key] = there
                    steps = tuple(os.path.splitext(there)[0].split(os.sep))
                    # A package that does not have its folder's name can't be told to a child process.
                    if parts and steps[-len(parts) :] == parts:
                        parents.append(os.sep.join(steps[: -len(parts)]) or os.sep)
        return parents


def _of_the_standard_library(module: types.ModuleType) -> bool:
    top = module.__name__.partition(".")[0]
    known = getattr(sys, "stdlib_module_names", None)  # since Python 3.10
    if known is not None:
        return top in known
    path = getattr(module, "__file__", None)
    return path is None or (_within(path, os.path.dirname(os.__file__)) and "site-packages" not in path)


_exam = Exam(_told())
_folders = Move(_exam.origin, _exam.tree).everything() if _exam.origin else []

# Only now: the product may be pytest's own plugin, or pytest itself.
import _pytest.config
import pluggy
import pytest
from _pytest.assertion.rewrite import rewrite_asserts
from _pytest.runner import runtestprotocol
from _pytest.unittest import TestCaseFunction, UnitTestCase

__all__ = ["NAME", "attach", "pytest_addoption"]

# What the framework is made of ------------------------------------------------------------------------------------

_FAMILIES = ("pytest", "_pytest", "pluggy", "unittest")
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
_CALLER: Any = getattr(pluggy, "HookCaller", None) or pluggy._hooks._HookCaller  # the latter until pluggy 1.1
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
    f"{_CALLER.__module__}.{_CALLER.__qualname__}.__call__",
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


def _functions(value: Any) -> Iterator[types.FunctionType]:
    """The functions behind an attribute of a class."""
    if isinstance(value, types.FunctionType):
        yield value
    elif isinstance(value, (classmethod, staticmethod)):
        yield from _functions(value.__func__)
    elif isinstance(value, property):
        for each in (value.fget, value.fset, value.fdel):
            yield from _functions(each)
    elif isinstance(value, functools.cached_property):
        yield from _functions(value.func)


class Inventory:
    """The framework as it was at the start. It holds on to every object, so that no identity is used twice."""

    def __init__(self) -> None:
        self.namespaces: dict[str, tuple[Any, dict[str, Any], bool]] = {}
        self.functions: dict[int, tuple[str, Any, Any]] = {}
        self.key: list[tuple[Mapping[str, Any], str, Any]] = []
        self.key_labels: list[str] = []

    def take_framework(self) -> None:
        for name, module in sorted(sys.modules.items()):
            if name.partition(".")[0] in _FAMILIES and isinstance(module, types.ModuleType):
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
                if value.__module__.partition(".")[0] in _FAMILIES or value.__module__ == "os":
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
        for each in _functions(value):
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
        labels = [self.functions.get(id(each), ("",))[0] for each in _functions(value)]
        return bool(labels) and all(label.startswith("_pytest.legacypath.") for label in labels)


def _take_inventory() -> Inventory:
    """All of the framework that an ordinary run loads, before a line of the project could run."""
    inventory = Inventory()
    for name in ("unittest", *(f"_pytest.{plugin}" for plugin in _pytest.config.default_plugins)):
        with suppress(ImportError):
            importlib.import_module(name)
    inventory.take_standard_library()
    inventory.take_framework()
    for kind in (Inventory, Places, Events, Foreign, Hooks, Watch, Control, Fail, Equality, Alone):
        inventory.take_class(kind)
    inventory.choose_key_objects()
    return inventory


_known_methods: dict[type, frozenset[str]] = {}


def _methods(kind: type) -> frozenset[str]:
    """The names that nobody but a forger sets on an instance of this class."""
    known = _known_methods.get(kind)
    if known is None:
        methods = (types.FunctionType, classmethod, staticmethod)
        names = (name for each in kind.__mro__ for name, value in vars(each).items() if isinstance(value, methods))
        known = _known_methods[kind] = frozenset(names)
    return known


def _shadowed(thing: object) -> list[str]:
    return sorted(name for name in getattr(thing, "__dict__", {}) if name in _methods(type(thing)))


# What the product does --------------------------------------------------------------------------------------------

_ALL_FRAMES = {
    "sys._current_frames": "objects",
    "gc.get_objects": "objects",
    "gc.get_referrers": "objects",
    "gc.get_referents": "objects",
    "sys.settrace": "trace",
    "sys.setprofile": "trace",
    "sys.monitoring.register_callback": "trace",
    "sys.addaudithook": "audit",
    "os.fork": "fork",
    "os.forkpty": "fork",
    "os.exec": "exec",
}
_WRITES = frozenset(("os.remove", "os.rename", "os.truncate", "shutil.rmtree", "shutil.move"))
_LISTS = frozenset(("os.listdir", "os.scandir"))
_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_WATCHED = frozenset(
    (
        *_ALL_FRAMES,
        *_WRITES,
        *_LISTS,
        "open",
        "os.link",
        "os.kill",
        "os.killpg",
        "import",
        "sys._getframe",
        "object.__getattr__",
        "object.__setattr__",
        "function.__new__",
    )
)
_FRAMEWORK = ("pytest", "_pytest", "pluggy")
_LOOKS_AT_CALLERS = frozenset(("extract_stack", "format_stack", "print_stack", "walk_stack"))
_IMPORTLIB = ("<frozen importlib", os.path.join(os.path.dirname(importlib.__file__), ""))
_inspect_file = os.path.join(os.path.dirname(traceback.__file__), "inspect.py")


# Bytecode may be kept somewhere else, below the whole path of what it was made from.
_FRAMEWORK_FOLDERS = tuple(
    os.path.join(os.path.dirname(os.path.abspath(str(each.__file__))), "").lstrip(os.sep)
    for each in (pytest, _pytest, pluggy)
)


def _module_name(path: str, folder: str) -> str:
    """The module that a file of a package is, or that it was compiled from."""
    steps = path.rpartition(folder)[2].split(os.sep)
    steps[-1] = steps[-1].partition(".")[0]
    package = os.path.basename(folder.rstrip(os.sep))
    return ".".join((package, *(step for step in steps if step not in {"__pycache__", "__init__"})))


class Places:
    """Which file of the room a file name means, and whether it belongs to the product or to its tests."""

    def __init__(self, exam: Exam) -> None:
        self.tree = exam.tree
        self.relative = exam.protected
        self.known: dict[str, str] = {}

    def place(self, filename: str) -> str | None:
        """A file of the room, relative to it; None for any other."""
        known = self.known.get(filename)
        if known is None:
            whole = os.path.realpath(filename) if filename[:1] != "<" else ""
            inside = os.path.relpath(whole, self.tree) if whole and _within(whole, self.tree) else ""
            if {"site-packages", "dist-packages"}.intersection(inside.split(os.sep)):
                inside = ""
            known = self.known[filename] = inside.replace(os.sep, "/")
        return known or None

    def product(self, filename: str) -> str:
        place = self.place(filename)
        return place if place is not None and place not in self.relative else ""


class Events(Places):
    """What the product's files did that a product has no need of; told by the interpreter's own audit."""

    def __init__(self, exam: Exam, inventory: Inventory) -> None:
        super().__init__(exam)
        self.protected = {os.path.join(exam.tree, each): each for each in exam.protected}
        self.folders = {os.path.dirname(each) for each in self.protected}
        self.above: set[str] = set()
        for folder in self.folders:
            above = folder
            while above not in self.above and _within(above, exam.tree):
                self.above.add(above)
                above = os.path.dirname(above)
        self.inventory = inventory
        self.tests: dict[int, str] = {}
        self.found: dict[tuple[str, str, str], int] = {}  # with the line that did it
        self.counted: dict[tuple[str, bool], int] = {}
        self.patched: dict[str, Any] = {}
        self.items: set[str] = set()
        self.recoded: dict[int, Any] = {}  # functions that were given the product's code
        self.makes_functions = False  # out of the product's code and the names of any module
        self.process = os.getpid()
        self.active = True
        self.busy = False

    def install(self) -> None:
        watched, take = _WATCHED, self.take

        def hear(event: str, arguments: tuple[Any, ...]) -> None:
            # Functions are asked for their code all day; only who asks for a frame is of interest.
            if event in watched and (event != "object.__getattr__" or arguments[1] == "tb_frame"):
                take(event, arguments)

        sys.addaudithook(hear)

    def take(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.busy or not self.active:
            return
        self.busy = True  # what is done from here on raises events of its own
        try:
            self.look(event, arguments, _getframe(2))
        except Exception:  # noqa: BLE001, S110 - nobody who opens a file expects an error from here
            pass
        finally:
            self.busy = False

    def look(self, event: str, arguments: tuple[Any, ...], frame: Any) -> None:
        kind = _ALL_FRAMES.get(event)
        if kind is not None:
            self.note(kind, *self.wanted_by(frame), "")
        elif event in {"sys._getframe", "object.__getattr__"}:
            self.note("frames", *self.direct(frame), "")
        elif event == "object.__setattr__":
            if arguments[1] == "__code__" and self.product(arguments[2].co_filename):
                self.recoded[id(arguments[0])] = arguments[0]
            self.look_at_function(arguments[0])
        elif event == "function.__new__":
            self.makes_functions = self.makes_functions or bool(self.product(arguments[0].co_filename))
        elif event == "import":
            module = str(arguments[0])
            if module.partition(".")[0] in _FRAMEWORK:
                self.note("import", *self.importer(frame), module)
        elif event in {"os.kill", "os.killpg"}:
            own = {0, -1, os.getpid(), os.getppid(), os.getpgrp()}
            if arguments[0] in own:
                self.note("kill", *self.wanted_by(frame), "")
        else:
            self.look_at_path(event, arguments, frame)

    def look_at_function(self, function: Any) -> None:
        known = self.inventory.functions.get(id(function))
        if known is not None:
            self.patched[known[0]] = function
        elif id(function) in self.tests:
            self.items.add(self.tests[id(function)])

    def look_at_path(self, event: str, arguments: tuple[Any, ...], frame: Any) -> None:
        if event in _LISTS and frame.f_code.co_filename.startswith("<frozen importlib"):
            return  # every import lists the folders that it searches
        if event == "open" and isinstance(arguments[0], str) and frame.f_code.co_filename.startswith(_IMPORTLIB):
            # Whoever calls importlib himself makes no event of an import.
            for folder in _FRAMEWORK_FOLDERS:
                if folder in arguments[0]:
                    self.note("import", *self.importer(frame), _module_name(arguments[0], folder))
        source, line = self.wanted_by(frame, reading=event == "open")
        if not source:
            return
        if event == "open":
            path, mode, flags = arguments
            writes = any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool(flags & _FLAGS)
            self.note(
                "write" if writes else "read", source, line, self.protected.get(self.whole(path), ""), needed=True
            )
        elif event == "os.link":
            self.note("read", source, line, self.protected.get(self.whole(arguments[0]), ""), needed=True)
        elif event in _LISTS:
            folder = self.whole(arguments[0] if arguments and arguments[0] is not None else ".")
            if folder in self.folders:
                self.note("list", source, line, os.path.relpath(folder, self.tree))
        else:
            for path in arguments[: 2 if event in {"os.rename", "shutil.move"} else 1]:
                whole = self.whole(path, follow=event == "os.truncate")
                # Whole folders go at once, and the tests with them.
                inside = os.path.relpath(whole, self.tree) if whole in self.above else ""
                self.note("write", source, line, self.protected.get(whole, inside), needed=True)

    def whole(self, path: Any, *, follow: bool = True) -> str:
        if isinstance(path, int):
            return ""
        text = os.path.abspath(os.fsdecode(path))
        if follow:
            return os.path.realpath(text)
        return os.path.join(os.path.realpath(os.path.dirname(text)), os.path.basename(text))

    def note(self, kind: str, source: str, line: int, target: str, *, needed: bool = False) -> None:
        if not source or (needed and not target) or (kind, source, target) in self.found:
            return
        # No kind crowds out another, and no data that is read crowds out a test that is read.
        group = (kind, target.endswith(".py"))
        count = self.counted[group] = self.counted.get(group, 0) + 1
        if count <= _MOST_EVENTS:
            self.found[kind, source, target] = line

    def wanted_by(self, frame: Any, *, reading: bool = False) -> tuple[str, int]:
        """The product's file that is the nearest of the room's, and its line; '' when that is a test's, or none."""
        shown = False
        for _ in range(_DEEPEST):
            if frame is None:
                return "", 0
            code = frame.f_code
            place = self.place(code.co_filename)
            if place is not None:
                return ("", 0) if place in self.relative or shown else (place, frame.f_lineno)
            if reading and code.co_filename == traceback.__file__:
                # Who shows an exception shows the lines that it came through; who shows his callers reads them.
                if code.co_name in _LOOKS_AT_CALLERS:
                    reading = False
                shown = reading
            frame = frame.f_back
        return "", 0

    def direct(self, frame: Any) -> tuple[str, int]:
        """The product's file that looks at frames, itself or by the two modules that are there for it."""
        while frame is not None and frame.f_code.co_filename in {_inspect_file, traceback.__file__}:
            if frame.f_code.co_filename == traceback.__file__ and frame.f_code.co_name not in _LOOKS_AT_CALLERS:
                return "", 0
            frame = frame.f_back
        return self.at(frame)

    def importer(self, frame: Any) -> tuple[str, int]:
        while frame is not None and frame.f_code.co_filename.startswith(_IMPORTLIB):
            frame = frame.f_back
        return self.at(frame)

    def at(self, frame: Any) -> tuple[str, int]:
        return (self.product(frame.f_code.co_filename), frame.f_lineno) if frame is not None else ("", 0)

    def look_at_modules(self) -> None:
        """Imports of what was loaded already make no event: look for them in the product's own names."""
        for module in list(sys.modules.values()):
            path = getattr(module, "__file__", None)
            source = self.product(path) if isinstance(path, str) and path.startswith(self.tree) else ""
            if not source:
                continue
            for value in list(vars(module).values()):
                name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
                if isinstance(name, str) and name.partition(".")[0] in _FRAMEWORK:
                    self.note("import", source, 0, name)


# The product's functions in other people's modules ----------------------------------------------------------------

# What there is to be set by whoever wants to, and what Python sets when something went wrong.
_MEANT_TO_BE_SET: dict[str, frozenset[str]] = {
    "sys": frozenset(("excepthook", "displayhook", "unraisablehook", "breakpointhook", "stdin", "stdout", "stderr")),
    "warnings": frozenset(("showwarning", "formatwarning", "_showwarnmsg_impl", "_showwarning_orig")),
    "threading": frozenset(("excepthook",)),
}
_NOTHING: frozenset[str] = frozenset()
_WHOLLY_MEANT_TO_BE_SET = frozenset(("logging", "signal"))
_NOBODY_S = frozenset(("__main__", "__mp_main__"))
_LIBRARIES = tuple(
    os.path.join(each, "")
    for each in dict.fromkeys(
        (os.path.dirname(os.__file__), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    )
)
_FUNCTION, _CLASS, _AROUND, _OTHER, _PLAIN = range(5)


class Foreign:
    """Looks for functions of the product in modules that are not its own, and in those of the tests."""

    def __init__(self, events: Events) -> None:
        self.places = self.events = events
        self.kinds: dict[type, int] = {
            types.FunctionType: _FUNCTION,
            types.MethodType: _AROUND,
            functools.partial: _AROUND,
            staticmethod: _AROUND,
            classmethod: _AROUND,
            property: _AROUND,
            functools.cached_property: _AROUND,
        }
        self.files: dict[str, str] = {}
        self.modules: dict[str, bool] = {}
        self.before: list[tuple[str, Mapping[str, Any], dict[str, Any]]] = []
        self.patched: dict[str, Any] = {}
        self.hooked: set[str] = set()

    def file(self, function: Any) -> str:
        """The product's file that a function comes from; ''."""
        name = function.__code__.co_filename
        if name[:1] == "<":  # made from a text: it is whose names it uses
            name = function.__globals__.get("__file__")
            if not isinstance(name, str):
                return ""
        known = self.files.get(name)
        if known is None:
            known = self.files[name] = "" if self.is_library(name) else self.places.product(name)
        return known

    def is_library(self, path: str) -> bool:
        return path.startswith(_LIBRARIES) and not path.startswith(self.places.tree)

    def kind(self, kind: type) -> int:
        """What values of a type are, decided once: there are as many as a hundred thousand values."""
        known = _CLASS if issubclass(kind, type) else _OTHER if self.is_own(kind.__module__) else _PLAIN
        self.kinds[kind] = known
        return known

    def is_own(self, module: str) -> bool:
        """Whether a module is the product's."""
        known = self.modules.get(module)
        if known is None:
            path = getattr(sys.modules.get(module), "__file__", None)
            known = isinstance(path, str) and not self.is_library(path) and bool(self.places.product(path))
            self.modules[module] = known
        return known

    def functions(self, value: Any) -> Iterator[types.FunctionType]:
        if isinstance(value, functools.partial):
            yield from self.functions(value.func)
        elif isinstance(value, types.MethodType):
            yield from self.functions(value.__func__)
        else:
            yield from _functions(value)

    # Other people's modules

    def look(self, inventory: Inventory) -> None:
        suspects: list[tuple[str, types.ModuleType, str, Any, str]] = []
        for name, module in list(sys.modules.items()):
            thing: object = module  # anything may be put there
            if name in _NOBODY_S or (name.partition(".")[0] in _FAMILIES and name in inventory.namespaces):
                continue
            if isinstance(thing, types.ModuleType) and self.is_foreign(name, thing):
                suspects += self.suspects(name, thing)
        # A library that uses the product has its functions because it imported them.
        honest = {id(value) for _, module, _, value, owner in suspects if self.imports(module, owner)}
        builtin = inventory.namespaces.get("builtins", ({}, {}, False))[1]
        for name, _, key, value, _ in suspects:
            if id(value) in honest:
                continue
            top = key.partition(".")[0]
            meant = name.partition(".")[0] in _WHOLLY_MEANT_TO_BE_SET or top in _MEANT_TO_BE_SET.get(name, ())
            if meant or (name == "builtins" and top not in builtin):
                self.hooked.add(f"{name}.{key}")
            else:
                self.patched[f"{name}.{key}"] = value

    def is_foreign(self, name: str, module: types.ModuleType) -> bool:
        path = vars(module).get("__file__")
        if not isinstance(path, str):
            return name in sys.builtin_module_names
        return self.is_library(path) or self.places.place(path) is None

    def suspects(self, name: str, module: types.ModuleType) -> list[tuple[str, types.ModuleType, str, Any, str]]:
        """The names of a module behind which a function of the product stands, with that one's own module.

        A thousand modules have fifty thousand values: what is harmless has to be known at a glance.
        """
        kinds, own = self.kinds, vars(module)
        # Unless code was handed round, a function is by its names' module whose it is: to ask for its code is an event.
        plain = not self.events.recoded and not self.events.makes_functions
        found: list[tuple[str, types.ModuleType, str, Any, str]] = []
        for value in tuple(own.values()):
            kind = kinds.get(type(value))
            if kind == _PLAIN or (kind == _FUNCTION and plain and value.__globals__ is own):
                continue
            if kind is None:
                kind = self.kind(type(value))
            owner = ""
            if kind == _CLASS:
                if value.__module__ == name:
                    for each in tuple(vars(value).values()):
                        kind = kinds.get(type(each))
                        if kind == _AROUND or (kind == _FUNCTION and not (plain and each.__globals__ is own)):
                            inner = self.owner(each)
                            keys = _keys(vars(value), each) if inner else ()
                            found += [(name, module, f"{value.__qualname__}.{key}", each, inner) for key in keys]
                # Python keeps the last exception among the names of sys.
                elif self.is_own(value.__module__) and name != "sys" and _of_the_standard_library(module):
                    owner = value.__module__
            elif kind != _OTHER:
                owner = self.owner(value)
            elif callable(value) or not _MEANT_TO_BE_SET.get(name, _NOTHING).isdisjoint(_keys(own, value)):
                owner = type(value).__module__
            if owner:
                found += [(name, module, key, value, owner) for key in _keys(own, value)]
        return found

    def defined(self, value: Any) -> tuple[str, int]:
        """Where the product defines what stands behind a value; '' where it does not, or nobody can say."""
        if isinstance(value, types.ModuleType):
            return self.places.product(str(value.__file__)), 1
        if isinstance(value, type):
            functions: Any = (each for member in tuple(vars(value).values()) for each in self.functions(member))
        else:
            functions = self.functions(value)
        for each in functions:
            file = self.file(each)
            if file and each.__code__.co_filename[:1] != "<":
                return file, each.__code__.co_firstlineno
        call = vars(type(value)).get("__call__")
        return self.defined(call) if isinstance(call, types.FunctionType) and call is not value else ("", 0)

    def owner(self, value: Any) -> str:
        """The module of the product's function that stands behind a value; ''."""
        for each in self.functions(value):
            if self.file(each):
                return str(each.__globals__.get("__name__") or "?")
        return ""

    def imports(self, module: types.ModuleType, owner: str) -> bool:
        """Whether a library, or another module of its package, names the product where it imports."""
        if _of_the_standard_library(module):
            return False
        wanted = owner.partition(".")[0]
        package = module.__name__.partition(".")[0]
        for name, each in list(sys.modules.items()):
            if name.partition(".")[0] == package:
                with suppress(Exception):  # a loader may be any object at all
                    if _names(each.__spec__.loader.get_code(name), wanted):  # type: ignore[union-attr]
                        return True
        return False

    # The modules of the tests

    def take_tests(self) -> None:
        """What the modules of the tests are made of once they are imported; decorators have done their work."""
        for name, module in list(sys.modules.items()):
            path = getattr(module, "__file__", None)
            if not isinstance(path, str) or self.is_library(path):
                continue
            place = self.places.place(path)
            if place is None or place not in self.places.relative:
                continue
            for label, namespace in _namespaces(name, module):
                there: dict[str, Any] = {}
                for key, value in namespace.items():
                    function = value if type(value) is types.FunctionType else next(_functions(value), None)
                    if function is not None and function.__module__ == name:
                        there[key] = function
                        # Whoever wraps a function makes one that uses his own names, not those of the tests.
                        if self.is_recoded(function) and function.__globals__ is vars(module):
                            self.patched[f"{label}.{key}"] = function
                self.before.append((label, namespace, there))

    def look_at_tests(self) -> None:
        for label, namespace, there in self.before:
            for key, function in there.items():
                now = namespace.get(key)
                if now is not function:
                    now = next(_functions(now), None)
                if now is not None and (self.is_recoded(now) or (now is not function and self.file(now))):
                    self.patched[f"{label}.{key}"] = now

    def is_recoded(self, function: Any) -> bool:
        return id(function) in self.events.recoded and bool(self.file(function))


def _keys(namespace: Mapping[str, Any], value: object) -> list[str]:
    return [key for key, each in namespace.items() if each is value]


def _namespaces(name: str, module: types.ModuleType) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A module and the classes that are defined in it."""
    yield name, vars(module)
    for value in list(vars(module).values()):
        if isinstance(value, type) and value.__module__ == name:
            yield f"{name}.{value.__qualname__}", vars(value)


def _names(code: Any, wanted: str) -> bool:
    if any(each == wanted or each.startswith(f"{wanted}.") for each in code.co_names):
        return True
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            if _names(each, wanted):
                return True
        elif isinstance(each, str) and (each == wanted or each.startswith(f"{wanted}.")):
            return True
    return False


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
            if isinstance(caller, _CALLER):
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


# Tests that must fail ---------------------------------------------------------------------------------------------

_CANARIES = """
import unittest
import pytest

def test_assert():
    value = [1]
    assert value == [2]

def test_error():
    {}["absent"]

def test_raises():
    with pytest.raises(ValueError):
        pass

def test_fail():
    pytest.fail("as it must")

def test_approx():
    assert 1.0 == pytest.approx(2.0)

def test_passes():
    assert [1] == [1]

class TestCanary(unittest.TestCase):
    def test_unittest(self):
        self.assertEqual([1], [2])
"""
_CANARY_NAMES = ("assert", "error", "raises", "fail", "approx", "unittest", "passes")


class Canaries:
    """Little tests of which the outcome is known, run by the session's own machinery and reported to nobody.

    They lie in no folder, so that from pytest 8 on no conftest's hooks are called for them: those may count failures.
    """

    def __init__(self, session: pytest.Session) -> None:
        self.session = session
        path = session.config.rootpath / f"test_{os.urandom(4).hex()}.py"
        # Without a file's name: whoever measures coverage would look for the file.
        place = f"<{path.stem}>"
        tree = ast.parse(_CANARIES)
        if session.config.getoption("assertmode", "rewrite") == "rewrite":
            rewrite_asserts(tree, _CANARIES.encode(), place, session.config)
        self.module = types.ModuleType(path.stem)
        exec(compile(tree, place, "exec", dont_inherit=True), vars(self.module))  # noqa: S102 - our own text
        self.parent: Any = pytest.Module.from_parent(session, path=path)
        self.parent._obj = self.module  # there is no file to import it from

    def run(self, moment: str) -> dict[str, str]:
        option = self.session.config.option
        style = option.tbstyle
        option.tbstyle = "value"  # nobody reads the tracebacks, which take the most time
        try:
            return {f"{moment}:{name}": self.outcome(name) for name in _CANARY_NAMES}
        finally:
            option.tbstyle = style

    def outcome(self, name: str) -> str:
        session: Any = self.session
        state = session._setupstate
        last = {each: getattr(sys, each) for each in _LAST if hasattr(sys, each)}
        current = os.environ.get("PYTEST_CURRENT_TEST")
        try:
            session._setupstate = type(state)()  # an interrupted test may have left its own behind
            item = self.item(name)
            # A fixture that the project wants around every test is not set up for this one.
            item._fixtureinfo.names_closure[:] = []
            item.fixturenames = []
            return verdict([told(report) for report in runtestprotocol(item, nextitem=None, log=False)])
        except BaseException as error:  # noqa: BLE001 - whatever it is, the run goes on
            return f"unknown: {type(error).__name__}"
        finally:
            session._setupstate = state
            for each in _LAST:
                if each in last:
                    setattr(sys, each, last[each])
                elif hasattr(sys, each):
                    delattr(sys, each)
            if current is None:
                os.environ.pop("PYTEST_CURRENT_TEST", None)
            else:
                os.environ["PYTEST_CURRENT_TEST"] = current

    def item(self, name: str) -> Any:
        if name != "unittest":
            return pytest.Function.from_parent(self.parent, name=f"test_{name}")
        case = UnitTestCase.from_parent(self.parent, name="TestCanary", obj=self.module.TestCanary)
        return TestCaseFunction.from_parent(case, name="test_unittest")


_LAST = ("last_type", "last_value", "last_traceback", "last_exc")


def told(report: Any) -> list[Any]:
    """What is kept of a report: phase, outcome, whether a failure was expected, the end of its text."""
    text = ""
    with suppress(Exception):
        text = str(report.longreprtext)[-_TEXT:]
    return [str(report.when), str(report.outcome), hasattr(report, "wasxfail"), text]


def verdict(reports: list[list[Any]]) -> str:
    """One word for all phases of a test."""
    result = "no-result"
    for when, outcome, expected, _ in reports:
        if outcome == "failed":
            if when != "call":
                return "error"
            result = "failed"
        elif result != "failed":
            if outcome == "skipped":
                result = "xfailed" if expected else "skipped"
            elif when == "call" and result == "no-result":
                result = "xpassed" if expected else outcome
    return result


# The plugins ------------------------------------------------------------------------------------------------------


def _hidden(name: str) -> bool:
    return name.isdigit() or name.startswith(("iterctl-witness", NAME))


class Watch:
    """Compares the framework with what it was, after each test a little and at the end all of it."""

    def __init__(self, exam: Exam, inventory: Inventory, events: Events) -> None:
        self.exam = exam
        self.inventory = inventory
        self.events = events
        self.patched: dict[str, Any] = {}
        self.items: set[str] = set()
        self.known: dict[str, tuple[Any, type, Any, frozenset[str]]] = {}
        self.registered: dict[str, Any] = {}
        self.before: list[str] = []
        self.after: list[str] = []
        self.canaries: dict[str, str] = {}
        self.entered: Any = None
        self.passed = ""
        self.machine: Any = None
        self.hooks = Hooks(exam)
        self.foreign = Foreign(events)

    def pytest_configure(self) -> None:
        self.inventory.take_framework()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self.before = self.plugins(session.config)
        self.machine = getattr(session.config.pluginmanager, "_inner_hookexec", None)
        self.hooks.take(session.config.pluginmanager)

    def pytest_plugin_registered(self, plugin: object) -> None:
        self.hooks.take_plugin(plugin)

    def plugins(self, config: pytest.Config) -> list[str]:
        named = {str(name): plugin for name, plugin in config.pluginmanager.list_name_plugin() if plugin is not None}
        self.registered.update(named)
        names = set(named)
        with suppress(Exception):  # a hook may have been given a function without any plugin
            for caller in list(vars(config.pluginmanager.hook).values()):
                if isinstance(caller, _CALLER):
                    names.update(each.plugin_name for each in caller.get_hookimpls())
        inside = os.path.join(self.exam.tree, "")
        return sorted(
            name[len(inside) :].replace(os.sep, "/") if name.startswith(inside) else name
            for name in names
            if not _hidden(name)
        )

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            test, function = item.nodeid, _function(item)
            # The same test asked for twice is two items of one name, which can't be told apart later.
            kind = type(item)
            self.known[test] = (item if test not in self.known else None, kind, function, _methods(kind))
            if function is not None:
                self.events.tests[id(function)] = test
        with suppress(Exception), _Undisturbed():  # a module may be any object at all
            self.foreign.take_tests()

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, Any, None]:
        self.sing(session, "first")
        yield
        self.sing(session, "last")

    def sing(self, session: pytest.Session, moment: str) -> None:
        option = session.config.option
        if getattr(option, "dist", "no") != "no" or option.collectonly or self.exam.alone:
            return  # no test runs in this process
        if any(getattr(option, name, False) for name in ("setuponly", "setupplan", "setupshow")):
            self.canaries.update({f"{moment}:{name}": "unknown: setup-only" for name in _CANARY_NAMES})
            return
        try:
            self.canaries.update(Canaries(session).run(moment))
        except BaseException as error:  # noqa: BLE001 - whatever it is, the run goes on
            kind = type(error).__name__
            self.canaries.update({f"{moment}:{name}": f"unknown: {kind}" for name in _CANARY_NAMES})
        self.entered = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: Any) -> None:
        self.entered = pyfuncitem

    def pytest_runtest_logreport(self, report: Any) -> None:
        when = report.when
        if when == "call":
            if report.outcome == "passed":
                self.passed = report.nodeid
        elif when == "teardown":
            known = self.known.get(report.nodeid)
            if known is not None:
                self.check(report.nodeid, *known)
            self.entered = None

    def check(self, test: str, item: Any, kind: type, function: Any, methods: frozenset[str]) -> None:
        if not self.inventory.key_is_intact():
            self.patched.update(self.inventory.key_patched())
        if item is None:
            return
        own = item.__dict__
        if type(item) is not kind or not methods.isdisjoint(own):
            self.items.add(test)
        now = own.get("_obj")
        if now is not None and function is not None and getattr(now, "__func__", now) is not function:
            self.items.add(test)
        if kind is pytest.Function and self.passed == test and self.entered is not item:
            self.items.add(test)

    def finish(self, session: pytest.Session) -> None:
        self.patched.update(self.inventory.patched())
        manager = session.config.pluginmanager
        if getattr(manager, "_inner_hookexec", None) is not self.machine:
            self.patched["pluginmanager._inner_hookexec"] = getattr(manager, "_inner_hookexec", None)
        for name, thing in (("session", session), ("config", session.config), ("pluginmanager", manager)):
            self.patched.update((f"{name}.{each}", vars(thing)[each]) for each in _shadowed(thing))
        for test, (item, *_) in self.known.items():
            if item is not None and not _methods(type(item)).isdisjoint(item.__dict__):
                self.items.add(test)
        with suppress(Exception):  # a hook may have been given anything at all
            self.patched.update(self.hooks.patched())
        if self.hooks.manager is not manager:
            self.patched["config.pluginmanager"] = manager
        # A module may be any object at all.
        with suppress(Exception):
            self.events.look_at_modules()
        with suppress(Exception):
            self.foreign.look_at_tests()
        with suppress(Exception):
            self.foreign.look(self.inventory)
        self.after = self.plugins(session.config)
        self.events.active = False

    def result(self) -> dict[str, object]:
        patched = {**self.foreign.patched, **self.events.patched, **self.patched}
        names = sorted(patched)[:_MOST_NAMES]
        return {
            "plugins_before": self.before,
            "plugins": self.after,
            "patched": names,
            "defined": self.defined({**self.registered, **{name: patched[name] for name in names}}),
            "hooked": sorted(self.foreign.hooked)[:_MOST_NAMES],
            "items": sorted(self.items | self.events.items)[:_MOST_NAMES],
            "events": [list(event) for event in self.events.found],
            "lines": list(self.events.found.values()),
            "canaries": self.canaries,
        }

    def defined(self, patched: dict[str, Any]) -> dict[str, list[object]]:
        """Where the product defines what it has put in the place of something else, or registered with pytest."""
        found: dict[str, list[object]] = {}
        for name, value in patched.items():
            with suppress(Exception):  # a value may be any object at all
                file, line = self.foreign.defined(value)
                if file:
                    found[name] = [file, line]
        return found


def _function(item: Any) -> Any:
    now = getattr(item, "__dict__", {}).get("_obj")
    return getattr(now, "__func__", now)


class Reverse:
    """Runs the tests in the other order."""

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None, Any, None]:
        yield
        items.reverse()


_PLAIN_TYPES: frozenset[type] = frozenset(
    (
        *(type(None), bool, int, float, complex, str, bytes, bytearray, memoryview, range, slice, type, object),
        *(dt.date, dt.datetime, dt.time, dt.timedelta, dt.timezone, Decimal, Fraction),
    )
)
_CONTAINERS: tuple[type, ...] = (list, tuple, dict, set, frozenset)


class Equality:
    """Looks at what was found equal for things that are equal to everything."""

    def __init__(self, exam: Exam, name: str) -> None:
        self.places = Places(exam)
        self.name = name
        self.test = ""
        self.agrees: dict[tuple[str, str], dict[str, object]] = {}

    def look(self, left: object, right: object, frame: Any, depth: int = 0) -> None:
        if left is right:
            return
        for each in (left, right):
            kind = type(each)
            if kind in _PLAIN_TYPES:
                continue
            if kind in _CONTAINERS:
                if depth < _NESTED:
                    self.look_inside(each, frame, depth)
            elif _agrees(each):
                self.note(kind, frame)

    def look_inside(self, container: Any, frame: Any, depth: int) -> None:
        parts = list(container.values() if isinstance(container, dict) else container)
        for each in parts[:_MOST_PARTS]:
            self.look(each, None, frame, depth + 1)

    def note(self, kind: type, frame: Any) -> None:
        name = f"{kind.__module__}.{kind.__qualname__}"
        if name == "unittest.mock._ANY" and ("ANY" in frame.f_code.co_names or "ANY" in frame.f_globals):
            return  # it is the test that wants it
        file, line = self.origin(kind)
        told: dict[str, object] = {"type": name, "file": file, "test": self.test}
        if line:
            told["line"] = line
        self.add(told)

    def add(self, told: dict[str, object]) -> None:
        key = (str(told.get("type")), str(told.get("file")))
        if len(self.agrees) < _MOST_AGREEING:
            self.agrees.setdefault(key, told)

    def origin(self, kind: type) -> tuple[str, int]:
        """The product's file that says how values of a type compare, or that defines the type; and the line."""
        for each in kind.__mro__:
            if "__eq__" in vars(each):
                code: Any = getattr(vars(each)["__eq__"], "__code__", None)
                file = self.places.product(code.co_filename) if code is not None else ""
                if file:
                    return file, 0 if self.is_prepared(file) else code.co_firstlineno
                break
        path = getattr(sys.modules.get(kind.__module__), "__file__", None)
        return (self.places.product(path) if isinstance(path, str) else ""), 0

    def is_prepared(self, file: str) -> bool:
        """Whether the driver wrote the file anew, so that its lines are no longer where they were."""
        try:
            with open(os.path.join(self.places.tree, file), "rb") as opened:
                return self.name.encode() in opened.read()
        except OSError:
            return True


def _agrees(value: Any) -> bool:
    """Whether it is equal to two things that nothing is equal to."""
    return bool(value == object()) and bool(value == os.urandom(8).hex())


class Control:
    """Breaks what the driver prepared, while tests run: those that stay green have not noticed the product."""

    def __init__(self, exam: Exam) -> None:
        name = str(exam.control.get("name") or "")
        self.places = Places(exam)
        self.variant = str(exam.control.get("variant") or "")
        self.armed = False
        self.test = ""
        self.reached: dict[str, int] = {}
        self.equality = Equality(exam, name)
        # Nobody can tell by its type that it was made here.
        self.error: type[BaseException] = _ERRORS[os.urandom(1)[0] % len(_ERRORS)]
        if self.error is Exception:
            self.error = type("E" + os.urandom(6).hex(), (Exception,), {})
        if name:
            setattr(builtins, name, self.switch())
        self.look_at_unittest()

    def switch(self) -> object:
        """What the product calls: an object without a name that would tell what it is."""
        control = self

        class Switch:
            __slots__ = ()

            def __call__(self) -> bool:
                return control.called() if control.armed else False

            def same(self, left: Any, right: Any) -> Any:
                result = left == right
                if result is not False:
                    control.look(result, left, right, _getframe(1))
                return result

            def __repr__(self) -> str:
                return "<object>"

        return Switch()

    def look(self, result: Any, left: object, right: object, frame: Any) -> None:
        try:
            if result:
                self.equality.look(left, right, frame)
        except BaseException:  # noqa: BLE001, S110 - what can't be compared is left alone
            pass

    def look_at_unittest(self) -> None:
        """Every assertEqual asks there for how to compare; no frame of ours is in the traceback when it fails."""
        case: Any = unittest.TestCase
        choose, look = case._getAssertEqualityFunc, self.look

        @functools.wraps(choose)
        def chosen(test: Any, first: object, second: object) -> Any:
            look(True, first, second, _getframe(2))
            return choose(test, first, second)

        case._getAssertEqualityFunc = chosen

    def called(self) -> bool:
        if self.variant not in {"raise", "return"}:
            return False
        test = self.test
        if test in self.reached or len(self.reached) < _MOST_REACHED:
            self.reached[test] = self.reached.get(test, 0) + 1
        if self.variant == "raise":
            raise self.error(os.urandom(4).hex())
        return True

    def begin(self, test: str) -> None:
        self.test = self.equality.test = test

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtestloop(self) -> Generator[None, Any, None]:
        self.armed = True
        yield
        self.armed = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.begin(nodeid)


_RUNS = (pytest.Function.runtest, TestCaseFunction.runtest)


class Fail(Control):
    """Lets every test fail after it has passed: whoever is green then has been lied to."""

    # The innermost wrapper, so that whatever swallows a failure swallows this one too.
    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_call(self, item: Any) -> Generator[None, Any, None]:
        entered: list[object] = []
        put_back = self.lay_inside(item, entered) if self.armed and isinstance(item, pytest.Function) else None
        outcome = yield
        if put_back is not None:
            put_back()
            # A kind of test that some library runs in a way of its own may never ask for the function.
            if entered or not self.has_foreign_way(item):
                return
        if self.armed and outcome.excinfo is None:
            error = _failure()
            if hasattr(outcome, "force_exception"):
                outcome.force_exception(error)
            else:  # until pluggy 1.1
                outcome._excinfo = (type(error), error, None)

    def lay_inside(self, item: Any, entered: list[object]) -> Callable[[], None] | None:
        """Put a function that fails after the test's own in its place; returns how to undo it."""
        function = item.obj
        if not callable(function) or inspect.isasyncgenfunction(function):
            return None
        failing = _failing(function, entered)
        # An asynchronous test of unittest is looked up by its name.
        case = None
        if isinstance(item, TestCaseFunction) and inspect.iscoroutinefunction(function):
            case = item._testcase if hasattr(item, "_testcase") else item.instance
            setattr(case, item.name, failing)
        item.obj = failing

        def put_back() -> None:
            item.obj = function
            if case is not None:
                vars(case).pop(item.name, None)

        return put_back

    def has_foreign_way(self, item: Any) -> bool:
        way = type(item).runtest
        code = getattr(way, "__code__", None)
        return way not in _RUNS and code is not None and self.places.place(code.co_filename) is None


def _failure() -> AssertionError:
    left, right = os.urandom(2)
    return _AssertionError(f"assert {left} == {left + right + 1}")


def _failing(function: Any, entered: list[object]) -> Any:
    """A function that does what a test does, and then fails; by all that can be asked of it, it is the test."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapped(*args: Any, **kwargs: Any) -> None:
            entered.append(None)
            await function(*args, **kwargs)
            raise _failure()

        made: Any = wrapped
    else:

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> None:
            entered.append(None)
            function(*args, **kwargs)
            raise _failure()

        made = called
    code = getattr(function, "__code__", None)
    if isinstance(code, types.CodeType):
        made.__code__ = made.__code__.replace(
            co_filename=code.co_filename, co_name=code.co_name, co_firstlineno=code.co_firstlineno
        )
    return made


class Alone:
    """Runs each test in a fork of its own that has run no other; with a control, before that one breaks anything."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.control: Control | None = None
        self.child: list[list[Any]] | None = None
        self.lines: Any = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self, early_config: pytest.Config, args: list[str]) -> None:
        known = early_config.known_args_namespace
        if hasattr(known, "numprocesses"):
            args.insert(args.index("--") if "--" in args else len(args), "-n0")
            known.numprocesses, known.dist = 0, "no"  # for plugins that look before the arguments are read again

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        option = session.config.option
        if option.collectonly or (session.testsfailed and not option.continue_on_collection_errors):
            return None  # pytest says what is to be said
        if self.control is not None:
            self.control.armed = False
        end = _monotonic() + self.seconds
        for item in session.items:
            start = _monotonic()
            outcome, text, agrees = self.run(item, end) if start < end else ("not-run", "", [])
            if self.lines is not None:
                seconds = round(_monotonic() - start, 6)
                more = {"agrees": agrees} if agrees else {}
                self.lines.tell("alone", id=item.nodeid, outcome=outcome, text=text, seconds=seconds, **more)
            if self.control is not None:
                for each in agrees:
                    self.control.equality.add(each)
        if self.control is not None:
            self.control.armed = True
            return None  # and now all together, broken
        return True

    def run(self, item: pytest.Item, end: float) -> tuple[str, str, list[dict[str, object]]]:
        taking, giving = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there are threads: a child that hangs is ended
            process = _fork()
        if process == 0:
            try:
                os.close(taking)
                os.setpgid(0, 0)
                self.be_the_child(item, giving)
            finally:
                _exit(0)
        os.close(giving)
        with suppress(OSError):
            os.setpgid(process, process)
        try:
            data = self.listen(taking, process, end)
        finally:
            os.close(taking)
            with suppress(OSError):
                _killpg(process, signal.SIGKILL)
            with suppress(OSError):
                _waitpid(process, 0)
        try:
            reports, agrees = json.loads(data)
            text = next((text for _, outcome, _, text in reports if outcome == "failed"), "")
            return verdict(reports), text, [each for each in agrees if isinstance(each, dict)]
        except (ValueError, TypeError):
            return "no-result", "", []

    def listen(self, taking: int, process: int, end: float) -> bytes:
        """All that the child says, up to its last line: something that it started may hold the pipe open."""
        data = b""
        ended = False
        while not data.endswith(b"\n"):
            left = end - _monotonic()
            if left <= 0:
                return b""
            ready, _, _ = select.select([taking], [], [], 0 if ended else min(left, 0.05))
            if ready:
                part = _read(taking, 65_536)
                if not part:
                    return data
                data += part
            elif ended:
                return data
            else:
                try:
                    ended = _waitpid(process, os.WNOHANG)[0] != 0
                except OSError:
                    ended = True
        return data

    def be_the_child(self, item: pytest.Item, giving: int) -> None:
        self.child = []
        if self.control is not None:
            self.control.begin(item.nodeid)
            self.control.equality.agrees.clear()  # what others found before is known
        whole: Any = item
        runtest = whole.runtest

        def hidden() -> Any:
            # pytest says which test runs just before it calls this.
            os.environ.pop("PYTEST_CURRENT_TEST", None)
            return runtest()

        whole.runtest = hidden
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        except BaseException as error:  # noqa: BLE001 - a test may end its session, and with it this child
            self.child.append(["call", "failed", False, f"{type(error).__name__}: {error}"[:_TEXT]])
        agrees = list(self.control.equality.agrees.values()) if self.control is not None else []
        data = json.dumps([self.child, agrees]).encode("ascii") + b"\n"
        while data:
            data = data[_system_write(giving, data) :]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """In the child: within all that plugins put around a test, and in place of those that run one again."""
        if self.child is None:
            return None
        self.child += [told(report) for report in runtestprotocol(item, nextitem=None, log=False)]
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        if self.child is not None and report.failed:  # of a subtest: nobody else reports in the child
            self.child.append(["call", *told(report)[1:]])


class Probe:
    """Holds the parts together, and brings what they found to the witness, from the workers of xdist too."""

    def __init__(self, exam: Exam) -> None:
        self.exam = exam
        self.lines: Any = None
        self.folder = ""
        self.plugins: list[tuple[str, object]] = []
        self.watch: Watch | None = None
        self.control: Control | None = None
        self.alone: Alone | None = None
        if exam.control:
            self.control = Fail(exam) if exam.control.get("variant") == "fail" else Control(exam)
            self.plugins.append(("control", self.control))
        if exam.watch:
            with _Undisturbed():
                inventory = _take_inventory()
            events = Events(exam, inventory)
            self.watch = Watch(exam, inventory, events)
            self.plugins.append(("watch", self.watch))
            events.install()
            # What was loaded until here lives as long as the process: nobody has to look through it again and again.
            gc.freeze()
        if exam.reverse:
            self.plugins.append(("reverse", Reverse()))
        if exam.alone:
            self.alone = Alone(exam.alone_seconds)
            self.alone.control = self.control
            self.plugins.append(("alone", self.alone))

    def attach(self, lines: Any, kinds: tuple[type, ...]) -> None:
        """Where the results go, and what else of the judge must stay as it is."""
        self.lines = lines
        if self.alone is not None:
            self.alone.lines = lines
        if self.watch is not None:
            for kind in kinds:
                self.watch.inventory.take_class(kind)

    def register(self, manager: Any) -> None:
        manager.register(self, f"{NAME}-results")
        for name, plugin in self.plugins:
            manager.register(plugin, f"{NAME}-{name}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        if getattr(config.option, "dist", "no") == "no" or config.option.collectonly:
            return
        # The workers are processes of their own: they find this module, and the exam, in a folder that they search.
        self.folder = tempfile.mkdtemp(prefix="iterctl-")
        shutil.copyfile(__file__, os.path.join(self.folder, f"{NAME}.py"))
        with open(os.path.join(self.folder, _EXAM_FILE), "w", encoding="ascii") as file:
            json.dump(self.exam.told, file)
        # xdist keeps a copy of sys.path as it was when it was loaded, and hands that to its workers.
        searched = getattr(sys.modules.get("xdist.plugin"), "_sys_path", sys.path)
        # A worker's own import finders know the work tree until the probe is imported: the room comes first.
        searched += [each for each in _folders if each not in searched]
        searched.append(self.folder)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        with suppress(Exception):  # a worker that crashed has nothing to say
            found = json.loads(node.workeroutput[NAME])
            if self.lines is not None:
                self.lines.tell("probe", **found)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        config: Any = session.config
        worker = getattr(config, "workerinput", None)
        found: dict[str, object] = {"process": worker["workerid"] if worker else "main"}
        if self.watch is not None:
            with _Undisturbed():
                self.watch.finish(session)
            found.update(self.watch.result())
        if self.control is not None:
            found["reached"] = self.control.reached
            found["agrees"] = list(self.control.equality.agrees.values())
        if worker:
            config.workeroutput[NAME] = json.dumps(found, default=repr)
        elif self.lines is not None:
            self.lines.tell("probe", **found)

    def pytest_unconfigure(self) -> None:
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = ""


_probe = Probe(_exam)


def attach(lines: Any, kinds: tuple[type, ...]) -> None:
    """Called by the witness, which has the way out."""
    _probe.attach(lines, kinds)


def pytest_addoption(parser: pytest.Parser, pluginmanager: Any) -> None:
    """The first hook that pytest calls when it is told `-p iterctl_probe`."""
    del parser
    _probe.register(pluginmanager)
