"""What a plugin of the tests does to them: the words by which it reaches into a test, and the hooks it implements."""

from __future__ import annotations

import ast

from pytest_iterctl.gate.source import Unreadable, parse

__all__ = ["plugin_words"]

_REACHING = frozenset(
    {
        *("request", "callspec", "autouse", "monkeypatch", "funcargs", "getfixturevalue", "hookimpl", "hookwrapper"),
        *("item", "pyfuncitem", "report", "outcome", "force_result"),
    }
)


def plugin_words(source: bytes) -> frozenset[str]:
    """The hooks that a file implements, and the words that it reaches into tests with; all words if it is no Python."""
    try:
        tree = parse(source)
    except Unreadable:
        tree = None
    if tree is None:
        return _REACHING
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if name.startswith("pytest_"):
                    found.add(name)
            case ast.arg(arg=name) | ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                if name in _REACHING:
                    found.add(name)
            case _:
                continue
    return frozenset(found)
