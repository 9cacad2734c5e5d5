"""Puts the parts together as the exam asks, and brings what they found to the witness.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import sys
import tempfile
from contextlib import suppress
from typing import Any

import pytest

from .alone import Alone
from .control import Control, Fail
from .equality import Equality
from .events import Events
from .exam import EXAM_FILE, NAME, Exam
from .foreign import Foreign
from .held import Undisturbed
from .hooks import Hooks
from .inventory import Inventory, take_inventory
from .places import Places
from .reverse import Reverse
from .watch import Watch

__all__ = ["Probe"]

# Whoever is to be believed must stay as it is.
_JUDGE = (Inventory, Places, Events, Foreign, Hooks, Watch, Control, Fail, Equality, Alone)


class Probe:
    """Holds the parts together, and brings what they found to the witness, from the workers of xdist too."""

    def __init__(self, exam: Exam, folders: list[str]) -> None:
        self.exam = exam
        self.searched_first = folders
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
            with Undisturbed():
                inventory = take_inventory(_JUDGE)
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
        # The workers are processes of their own: they find this package, and the exam, in a folder that they search.
        self.folder = tempfile.mkdtemp(prefix="iterctl-")
        original, copy = os.path.dirname(__file__), os.path.join(self.folder, NAME)
        os.mkdir(copy)
        for name in os.listdir(original):
            if name.endswith(".py"):
                shutil.copyfile(os.path.join(original, name), os.path.join(copy, name))
        with open(os.path.join(copy, EXAM_FILE), "w", encoding="ascii") as file:
            json.dump(self.exam.told, file)
        # xdist keeps a copy of sys.path as it was when it was loaded, and hands that to its workers.
        searched = getattr(sys.modules.get("xdist.plugin"), "_sys_path", sys.path)
        # A worker's own import finders know the work tree until the probe is imported: the room comes first.
        searched += [each for each in self.searched_first if each not in searched]
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
            with Undisturbed():
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
