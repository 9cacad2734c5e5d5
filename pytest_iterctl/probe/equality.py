"""Finds values of the product that are equal to whatever they are compared with.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import datetime as dt
import os
import sys
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from .places import Places

if TYPE_CHECKING:
    from .exam import Exam

__all__ = ["Equality"]

_MOST_AGREEING, _MOST_PARTS = 100, 50
_NESTED = 4  # how deep containers are searched
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
