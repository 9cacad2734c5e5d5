"""Whose a file is: the product's, its tests', the standard library's, or none of the room's.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import types

    from .exam import Exam

__all__ = ["Places", "of_the_standard_library", "within"]


def within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


def of_the_standard_library(module: types.ModuleType) -> bool:
    top = module.__name__.partition(".")[0]
    known = getattr(sys, "stdlib_module_names", None)  # since Python 3.10
    if known is not None:
        return top in known
    path = getattr(module, "__file__", None)
    return path is None or (within(path, os.path.dirname(os.__file__)) and "site-packages" not in path)


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
            inside = os.path.relpath(whole, self.tree) if whole and within(whole, self.tree) else ""
            if {"site-packages", "dist-packages"}.intersection(inside.split(os.sep)):
                inside = ""
            known = self.known[filename] = inside.replace(os.sep, "/")
        return known or None

    def product(self, filename: str) -> str:
        place = self.place(filename)
        return place if place is not None and place not in self.relative else ""
