"""What a change adds and nobody reaches: it can forge no test, whatever it would do if somebody asked it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import PurePosixPath

from pytest_iterctl.gate.paths import is_test_helper
from pytest_iterctl.gate.source import Unreadable, parse

__all__ = ["Reach"]

#: Ways to a class that don't call it by its name.
_BY_OTHER_MEANS = re.compile(
    rb"globals\(|vars\(|locals\(|__subclasses__|__dict__|sys\.modules|\bexec\(|\beval\(|\bgetattr\(|getmembers|__builtins__"
    rb"|\binspect\b|\bgc\b|import \*"
)
_FOR_TESTS = re.compile(rb"(?m)^\s*@(?:pytest\.)?fixture\b|^\s*def pytest_\w+\(")


class Reach:
    """Answers about what is new, from all programs before and after the change."""

    def __init__(self, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> None:
        self._before = before
        self._after = after
        self._words: Callable[[str], int] = cache(self._count)

    def is_unused_class(self, path: str, line: int) -> bool:
        """Whether a finding lies in a plain new class that nobody names: not in its file, in others or in tests.

        One that inherits, is decorated or may be found by other means than its name is not known to be out of reach.
        """
        data = self._after.get(path, b"")
        if _BY_OTHER_MEANS.search(data):
            return False
        try:
            tree = parse(data)
        except (Unreadable, RecursionError):
            return False
        for node in tree.body if tree is not None else ():
            if isinstance(node, ast.ClassDef) and node.lineno <= line <= (node.end_lineno or node.lineno):
                plain = not node.decorator_list and not node.keywords and not node.bases
                return plain and self._words(node.name) == 1
        return False

    def is_unloaded_plugin(self, path: str) -> bool:
        """Whether a module for tests is new and nobody loads it, so that it is there for its users' tests.

        The configuration of the tests is the base's, so it names none that wasn't there; what is left is an import.
        """
        stem = PurePosixPath(path).stem
        if path in self._before or not is_test_helper(f"{stem}.py"):
            return False
        return _FOR_TESTS.search(self._after.get(path, b"")) is not None and self._words(stem) == 0

    def _count(self, word: str) -> int:
        """How often a word stands anywhere in a program, or in the configuration that comes with them."""
        pattern = re.compile(rb"(?<!\w)" + re.escape(word.encode()) + rb"(?!\w)")
        everything = {**{f"base/{path}": data for path, data in self._unchanged()}, **self._after}
        return sum(len(pattern.findall(data)) for data in everything.values())

    def _unchanged(self) -> list[tuple[str, bytes]]:
        return [(path, data) for path, data in self._before.items() if self._after.get(path) != data]
