"""Every way in which a program puts something into an attribute: assigned, deleted, by `setattr`, in the table."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from pytest_iterctl.gate.source import Source

__all__ = ["Stored", "stored_attributes"]


class Stored(NamedTuple):
    """An attribute that gets another value; `value` is None where that isn't known, or where it is deleted."""

    owner: ast.expr
    attribute: str
    value: ast.expr | None


def stored_attributes(source: Source, node: ast.AST) -> Iterator[Stored]:
    """What a node puts into attributes by name. A name that nobody can spell out is left out."""
    match node:
        case ast.Attribute(value=owner, attr=attribute, ctx=ast.Store() | ast.Del()):
            yield Stored(owner, attribute, source.stored(node))
        case ast.Subscript(value=table, slice=key, ctx=ast.Store() | ast.Del()):
            owner_of_table = _owner(source, table)
            if owner_of_table is not None and (name := source.text(key)):
                yield Stored(owner_of_table, name, source.stored(node))
        case ast.Call():
            yield from _stored_by_call(source, node)
        case _:
            return


def _owner(source: Source, table: ast.expr) -> ast.expr | None:
    """The object behind `x.__dict__` and `vars(x)`."""
    match table:
        case ast.Attribute(value=owner, attr="__dict__"):
            return owner
        case ast.Call(func=func, args=[owner]) if "builtins.vars" in source.names(func):
            return owner
        case _:
            return None


def _stored_by_call(source: Source, call: ast.Call) -> Iterator[Stored]:
    match call:
        case ast.Call(func=func, args=[owner, key, *rest]) if _sets_attribute(source, func):
            if attribute := source.text(key):
                yield Stored(owner, attribute, rest[0] if rest else None)
        case ast.Call(func=ast.Attribute(value=owner, attr="__setattr__" | "__delattr__"), args=[key, *rest]):
            if attribute := source.text(key):
                yield Stored(owner, attribute, rest[0] if rest else None)
        case ast.Call(func=ast.Attribute(value=table, attr="update" | "__setitem__" | "setdefault" | "pop")):
            owner_of_table = _owner(source, table)
            if owner_of_table is not None:
                for attribute, value in _pairs(source, call):
                    yield Stored(owner_of_table, attribute, value)
        case ast.Call(func=ast.Attribute(value=owner, attr="configure_mock")):
            for attribute, value in _pairs(source, call):
                yield Stored(owner, attribute, value)
        case _:
            return


def _sets_attribute(source: Source, func: ast.expr) -> bool:
    names = source.names(func)
    plain = {"builtins.setattr", "builtins.delattr"}
    unbound = (".__setattr__", ".__delattr__")
    return bool(names & plain) or any(name.startswith("builtins.") and name.endswith(unbound) for name in names)


def _pairs(source: Source, call: ast.Call) -> Iterator[tuple[str, ast.expr | None]]:
    """The names and values that a call like `update` is given, as keywords, in a table or side by side."""
    tables = [each.value for each in call.keywords if each.arg is None]
    tables += [each for each in call.args if isinstance(each, ast.Dict | ast.Name)]
    for each in call.keywords:
        if each.arg is not None:
            yield each.arg, each.value
    for table in tables:
        given = source.given(table) if isinstance(table, ast.Name) else table
        if isinstance(given, ast.Dict):
            for key, value in zip(given.keys, given.values, strict=True):
                if attribute := source.text(key):
                    yield attribute, value
    if call.args and (attribute := source.text(call.args[0])):
        yield attribute, call.args[1] if len(call.args) > 1 else None
