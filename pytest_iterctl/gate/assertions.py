"""Rules about product code that changes how an object complains: its assertions, and what a mock has written down."""

from __future__ import annotations

import ast
import re
import unittest
from collections.abc import Iterator

from pytest_iterctl.gate.findings import Sign
from pytest_iterctl.gate.source import Source
from pytest_iterctl.gate.stores import Stored, stored_attributes

__all__ = ["spoils_assertions"]

_ASSERTS = re.compile(r"assert(?:_\w+|[A-Z]\w*)")
#: What tests call on mocks and test cases: nobody else's attribute is called that.
_KNOWN = {
    *(name for name in dir(unittest.TestCase) if _ASSERTS.fullmatch(name)),
    *(f"assert_{name}" for name in ("called", "called_once", "called_with", "called_once_with", "any_call")),
    *(f"assert_{name}" for name in ("not_called", "has_calls", "awaited", "awaited_once", "awaited_with")),
    *(f"assert_{name}" for name in ("awaited_once_with", "any_await", "has_awaits", "not_awaited")),
    "failureException",
}
#: What unittest itself asks a test case for, and what decides how a test ends.
_OF_UNITTEST = {name for name in dir(unittest.TestCase) if _ASSERTS.fullmatch(name)} | {"fail", "run", "__call__"}
#: What a mock has seen, from which it answers; a count of calls is a habit of honest programs, too.
_SEEN = {"call_args", "call_args_list", "mock_calls", "method_calls", "await_args", "await_args_list"}


def spoils_assertions(source: Source) -> Iterator[Sign]:
    """`mailer.send.assert_called_once_with = print`: the object that a test asks is told what to say."""
    for node in source.nodes:
        if isinstance(node, ast.ClassDef):
            yield from _overrides(source, node)
    if source.helper:
        return
    for node in source.nodes:
        for stored in stored_attributes(source, node):
            if _is_own(source, stored.owner):
                continue
            if _ASSERTS.fullmatch(stored.attribute) or stored.attribute == "failureException":
                if _can_be_called(stored):
                    certain = stored.attribute in _KNOWN or _is_function(source, stored.value)
                    text = f"replaces {stored.attribute} of something that isn't its own, so that it can't complain."
                    yield Sign(node, "spoils-assertions", certain, stored.attribute, text)
            elif stored.attribute in _SEEN and not isinstance(stored.owner, ast.Name):
                text = f"rewrites {stored.attribute}, from which a mock answers what it was called with."
                yield Sign(node, "spoils-assertions", False, stored.attribute, text)


def _overrides(source: Source, node: ast.ClassDef) -> Iterator[Sign]:
    """A test case that answers the questions of unittest itself: own assertions have names of their own."""
    bases = {name.rpartition(".")[2] for base in node.bases for name in (*source.names(base), ast.unparse(base))}
    if not any(name.endswith("TestCase") for name in bases):
        return
    for each in node.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name in _OF_UNITTEST:
            text = f"overrides {each.name} for the tests that are made of {node.name}."
            yield Sign(each, "spoils-assertions", False, f"{node.name}.{each.name}", text)


def _is_own(source: Source, owner: ast.expr) -> bool:
    """The object itself, or a class or function of this file: how those complain is their own affair."""
    if not isinstance(owner, ast.Name):
        return False
    if owner.id in {"self", "cls"}:
        return True
    own = {each.name for each in source.nodes if isinstance(each, ast.ClassDef)} | source.functions.keys()
    return owner.id in own and not source.names(owner) and source.given(owner) is None


def _can_be_called(stored: Stored) -> bool:
    """A setting that happens to be called after an assertion makes nobody's test pass: calling it fails."""
    settings = (ast.Constant, ast.JoinedStr, ast.Compare, ast.Dict, ast.List, ast.Tuple, ast.Set)
    return stored.value is not None and not isinstance(stored.value, settings)


def _is_function(source: Source, value: ast.expr | None) -> bool:
    match value:
        case ast.Lambda():
            return True
        case ast.Name(id=name):
            given = source.given(value)
            if given is not None and given is not value:
                return isinstance(given, ast.Lambda)
            return name in source.functions or any(each.startswith("builtins.") for each in source.names(value))
        case _:
            return False
