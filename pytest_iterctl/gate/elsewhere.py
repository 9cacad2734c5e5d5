"""Code for another Python or another system: no test here could run it, so nobody counts it as covered.

A condition is tried on a few interpreters and systems. What is true on all of them only looks like such a guard.
"""

from __future__ import annotations

import ast
import itertools
from dataclasses import dataclass

from pytest_iterctl.gate.source import Source

__all__ = ["lines_for_elsewhere"]

_VERSIONS = tuple((3, minor) for minor in range(7, 16))
_SYSTEMS = {"linux": ("posix", "Linux"), "darwin": ("posix", "Darwin"), "win32": ("nt", "Windows")}
_DEEPEST = 8
_OPTIONAL = {"builtins.ImportError", "builtins.ModuleNotFoundError"}


class _Unknown(Exception):  # noqa: N818 - a way out, not an error of ours
    """An expression that asks for more than the version and the system."""


@dataclass(frozen=True, slots=True)
class _Somewhere:
    version: tuple[int, int]
    system: str
    main: bool


_PLACES = tuple(
    _Somewhere(version, system, main) for version, system, main in itertools.product(_VERSIONS, _SYSTEMS, (False, True))
)


def lines_for_elsewhere(source: Source) -> frozenset[int]:
    """The lines on which code begins that only some interpreters or systems run, or only where a module is missing."""
    found = set[int]()
    for node in source.nodes:
        if isinstance(node, ast.If) and _only_somewhere(source, node.test):
            found.add(node.lineno)
        elif isinstance(node, ast.Try) and all(isinstance(each, ast.Import | ast.ImportFrom) for each in node.body):
            found.update(each.lineno for each in node.handlers if _without_a_module(source, each))
    return frozenset(found)


def _without_a_module(source: Source, handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(source.names(kind) & _OPTIONAL for kind in kinds)


def _only_somewhere(source: Source, test: ast.expr) -> bool:
    try:
        return not all(_value(source, test, place, 0) for place in _PLACES)
    except (_Unknown, TypeError, ValueError, LookupError, RecursionError):
        return False


def _value(source: Source, node: ast.expr, place: _Somewhere, depth: int) -> object:
    """What an expression is there; only what asks for the version, the system or the main program has a value."""
    if depth > _DEEPEST:
        raise _Unknown
    match node:
        case ast.Constant(value=str() | int() | None as constant):
            return constant
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return tuple(_value(source, part, place, depth + 1) for part in parts)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(source, operand, place, depth + 1)
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_value(source, value, place, depth + 1) for value in values)
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(_value(source, value, place, depth + 1) for value in values)
        case ast.Compare(left=left, ops=[compared], comparators=[right]):
            one, other = (_value(source, each, place, depth + 1) for each in (left, right))
            return _compared(compared, one, other)
        case ast.Subscript(
            value=whole, slice=ast.Slice(lower=None, upper=ast.Constant(value=int() as upper), step=None)
        ):
            value = _value(source, whole, place, depth + 1)
            if isinstance(value, tuple):
                return value[:upper]
        case ast.Subscript(value=whole, slice=ast.Constant(value=int() as index)):
            value = _value(source, whole, place, depth + 1)
            if isinstance(value, tuple):
                return value[index]
        case ast.Call(func=ast.Attribute(value=whole, attr="startswith"), args=[ast.Constant(value=str() as start)]):
            return str(_value(source, whole, place, depth + 1)).startswith(start)
    return _given(source, node, place, depth)


def _compared(how: ast.cmpop, one: object, other: object) -> bool:
    match how, one, other:
        case ast.In() | ast.NotIn(), _, tuple() as group:
            return (one in group) is isinstance(how, ast.In)
        case ast.Eq() | ast.NotEq(), _, _:
            return (one == other) is isinstance(how, ast.Eq)
        case ast.Lt() | ast.GtE(), (tuple() | int()), (tuple() | int()):
            return _below(one, other) is isinstance(how, ast.Lt)
        case ast.Gt() | ast.LtE(), (tuple() | int()), (tuple() | int()):
            return _below(other, one) is isinstance(how, ast.Gt)
    raise _Unknown


def _below(one: tuple[object, ...] | int, other: tuple[object, ...] | int) -> bool:
    if isinstance(one, int) and isinstance(other, int):
        return one < other
    if isinstance(one, tuple) and isinstance(other, tuple):
        return one < other
    raise _Unknown


def _given(source: Source, node: ast.expr, place: _Somewhere, depth: int) -> object:
    match source.names(node):
        case names if names == {"sys.version_info"}:
            return (*place.version, 0)
        case names if names == {"sys.version_info.minor"}:
            return place.version[1]
        case names if names == {"sys.platform"}:
            return place.system
        case names if names == {"os.name"}:
            return _SYSTEMS[place.system][0]
        case names if names == {"platform.system()"}:
            return _SYSTEMS[place.system][1]
        case names if names in ({"typing.TYPE_CHECKING"}, {"builtins.__debug__"}):
            return False
    if isinstance(node, ast.Name):
        if node.id == "__name__":
            return "__main__" if place.main else "a module"
        if (given := source.given(node)) is not None:
            return _value(source, given, place, depth + 1)
    raise _Unknown
