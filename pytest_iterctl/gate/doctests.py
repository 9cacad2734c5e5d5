"""Examples in docstrings that are tests: what they expect is the base's to say, though they stand in the product."""

from __future__ import annotations

import ast
import doctest
from collections import Counter
from collections.abc import Iterable, Mapping

from pytest_iterctl.gate.source import Unreadable, parse

__all__ = ["lost_examples"]

_Example = tuple[str, str]


def lost_examples(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> tuple[str, ...]:
    """The base's examples that are gone or expect something else, as `call → expected`. Moving them is no loss."""
    had, has = _examples(before.values()), _examples(after.values())
    return tuple(f"{source} → {want or '(nothing)'}" for source, want in (had - has))


def _examples(sources: Iterable[bytes]) -> Counter[_Example]:
    found: Counter[_Example] = Counter()
    parser = doctest.DocTestParser()
    for data in sources:
        if b">>>" not in data:
            continue
        try:
            tree = parse(data)
        except (Unreadable, RecursionError):
            continue
        for text in _docstrings(tree) if tree is not None else ():
            try:
                examples = parser.get_examples(text)
            except ValueError:  # not written as doctest wants it, so it tests nothing
                continue
            found.update((example.source.strip(), example.want.strip()) for example in examples)
    return found


def _docstrings(tree: ast.AST) -> Iterable[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node, clean=True)
            if text:
                yield text
