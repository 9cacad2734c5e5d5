"""Looks at the framework and at the tests' items while they run, and tells what the whole watch has found.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import os
import types
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from .canaries import CANARY_NAMES, Canaries
from .exam import NAME, Exam
from .foreign import Foreign
from .held import Undisturbed
from .hooks import CALLER, Hooks

if TYPE_CHECKING:
    from collections.abc import Generator

    from .events import Events
    from .inventory import Inventory

__all__ = ["Watch"]

_MOST_NAMES = 1_000


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
                if isinstance(caller, CALLER):
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
        with suppress(Exception), Undisturbed():  # a module may be any object at all
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
            self.canaries.update({f"{moment}:{name}": "unknown: setup-only" for name in CANARY_NAMES})
            return
        try:
            self.canaries.update(Canaries(session).run(moment))
        except BaseException as error:  # noqa: BLE001 - whatever it is, the run goes on
            kind = type(error).__name__
            self.canaries.update({f"{moment}:{name}": f"unknown: {kind}" for name in CANARY_NAMES})
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


def _hidden(name: str) -> bool:
    return name.isdigit() or name.startswith(("iterctl-witness", NAME))


def _function(item: Any) -> Any:
    now = getattr(item, "__dict__", {}).get("_obj")
    return getattr(now, "__func__", now)


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
