"""The product's functions in modules that are not its own, and in those of the tests.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import types
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .inventory import FAMILIES, Inventory, functions_behind
from .places import of_the_standard_library

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .events import Events

__all__ = ["Foreign"]

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
            yield from functions_behind(value)

    # Other people's modules

    def look(self, inventory: Inventory) -> None:
        suspects: list[tuple[str, types.ModuleType, str, Any, str]] = []
        for name, module in list(sys.modules.items()):
            thing: object = module  # anything may be put there
            if name in _NOBODY_S or (name.partition(".")[0] in FAMILIES and name in inventory.namespaces):
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
                elif self.is_own(value.__module__) and name != "sys" and of_the_standard_library(module):
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
        if of_the_standard_library(module):
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
                    function = value if type(value) is types.FunctionType else next(functions_behind(value), None)
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
                    now = next(functions_behind(now), None)
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
