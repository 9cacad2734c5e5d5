"""What the product's files do that a product has no need of, as the interpreter's own audit tells it.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
import types
from typing import TYPE_CHECKING, Any

import _pytest
import pluggy
import pytest

from .held import getframe
from .places import Places, within

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .exam import Exam
    from .inventory import Inventory

__all__ = ["Events"]

_MOST_EVENTS = 200  # the first for each kind
_DEEPEST = 25  # frames between what happens and the file that wanted it
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
#: Which of the arguments say what is started.
_STARTS = {"subprocess.Popen": 2, "os.posix_spawn": 2, "os.system": 1}
_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_WATCHED = frozenset(
    (
        *_ALL_FRAMES,
        *_WRITES,
        *_LISTS,
        *_STARTS,
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


def _texts(value: Any) -> Iterator[Any]:
    """The words of a command, however they are put together."""
    if isinstance(value, (str, bytes, os.PathLike)):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)


class Events(Places):
    """What the product's files did that a product has no need of; told by the interpreter's own audit."""

    def __init__(self, exam: Exam, inventory: Inventory) -> None:
        super().__init__(exam)
        self.protected = {os.path.join(exam.tree, each): each for each in exam.protected}
        self.folders = {os.path.dirname(each) for each in self.protected}
        self.above: set[str] = set()
        for folder in self.folders:
            above = folder
            while above not in self.above and within(above, exam.tree):
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
            self.look(event, arguments, getframe(2))
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
        elif event in _STARTS:
            self.look_at_command(arguments[: _STARTS[event]], frame)
        else:
            self.look_at_path(event, arguments, frame)

    def look_at_command(self, arguments: tuple[Any, ...], frame: Any) -> None:
        """Nobody watches what another program reads: what it is told to read is all that is seen of it."""
        source, line = self.wanted_by(frame)
        self.note("process", source or self.nearest_test(frame), line, "")
        told = " ".join(os.fsdecode(each) for each in _texts(arguments))
        for each in self.relative:
            if each in told or (each.endswith(".py") and os.path.basename(each) in told):
                self.note("command", *self.wanted_by(frame), each)

    def look_at_test_s_data(self, arguments: tuple[Any, ...], frame: Any) -> None:
        """Data of the product that a test reads by itself: what it expects may stand there."""
        path, mode, _ = arguments
        if isinstance(path, int) or not isinstance(mode, str) or any(letter in mode for letter in "wax+"):
            return
        data = self.place(self.whole(path))
        # An import opens programs, and what they were compiled to.
        if data is None or data in self.relative or data.endswith((".py", ".pyc")):
            return
        self.note("test-read", self.nearest_test(frame), frame.f_lineno, data)

    def nearest_test(self, frame: Any) -> str:
        """The nearest of the room's files, if it is a test's."""
        for _ in range(_DEEPEST):
            if frame is None:
                return ""
            place = self.place(frame.f_code.co_filename)
            if place is not None:
                return place if place in self.relative else ""
            frame = frame.f_back
        return ""

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
            if event == "open":
                self.look_at_test_s_data(arguments, frame)
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
