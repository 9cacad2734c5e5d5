"""The literals of the tests: which there are, and which stand together as a question and its answer."""

from __future__ import annotations

import ast
import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import PurePosixPath

from pytest_iterctl.gate.source import Source, Unreadable, parse
from pytest_iterctl.text import one_line

__all__ = ["Tested", "Value", "any_value", "is_name", "number_of", "read", "shown", "spelt_alike", "value_of"]

#: A literal by the kind of its type and by itself.
Value = tuple[str, Hashable]

_SHORTEST = 4
_SMALL = range(-1, 11)
_SEVERAL = 2
_MOST_LEAVES = 24  # literals that are taken from one side of a pair; more are a table, not a question
_LETTERS = re.compile(r"[^\W\d_]{3}")


@dataclass(frozen=True, slots=True)
class Tested:
    """What the tests say in literals."""

    values: frozenset[Value]  # those that nobody writes by chance
    names: frozenset[str]  # what tests are called
    pairs: frozenset[tuple[str, str]]  # texts of literals that stand together, small ones too, in both orders

    @classmethod
    def of(cls, tests: Mapping[str, bytes]) -> Tested:
        values: set[Value] = set()
        names: set[str] = set()
        pairs: set[tuple[str, str]] = set()
        for path, data in tests.items():
            source = read(path, data) if path.endswith(".py") else None
            if source is None:
                continue
            names.add(PurePosixPath(path).stem)
            for node in source.nodes:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    names.add(node.name)
                values.update(_used(source, node))
                pairs.update(_together(source, node))
        return cls(
            frozenset(values), frozenset(each for each in names if each.lower().startswith("test")), frozenset(pairs)
        )

    def answers(self, key: Value, result: Value) -> bool:
        """Whether a test has the two in one place: `f(key) == result`, `(key, result)`, `key: result`."""
        return (spelt_alike(key), spelt_alike(result)) in self.pairs


def read(path: str, data: bytes) -> Source | None:
    """The file as a program; None for everything else."""
    try:
        tree = parse(data)
        return None if tree is None else Source(path, tree)
    except (Unreadable, RecursionError):
        return None


def _used(source: Source, node: ast.AST) -> Iterator[Value]:
    if isinstance(node, ast.Call) and len(node.args) >= _SEVERAL:
        arguments = value_of(ast.Tuple(elts=node.args))
        if arguments is not None:
            yield arguments
    value = value_of(node)
    if value is not None and not isinstance(source.parent(node), ast.Expr | ast.JoinedStr):
        yield value


# ── what stands together ─────────────────────────────────────────────────────────────────────────────────────────────


def _together(source: Source, node: ast.AST) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Compare(left=left, comparators=others):
            sides: list[ast.expr] = [left, *others]
        case ast.Tuple(elts=elements) | ast.List(elts=elements) if _SEVERAL <= len(elements) <= _MOST_LEAVES:
            sides = elements
        case ast.Call(args=arguments) if len(arguments) >= _SEVERAL:
            sides = arguments
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if key is not None:
                    yield from _between(_leaves(source, key), _leaves(source, value))
            return
        case _:
            return
    leaves = [_leaves(source, side) for side in sides]
    for one, other in combinations(leaves, 2):
        yield from _between(one, other)


def _between(one: list[str], other: list[str]) -> Iterator[tuple[str, str]]:
    for each in one:
        for that in other:
            yield each, that
            yield that, each


def _leaves(source: Source, node: ast.expr) -> list[str]:
    """The literals in an expression, those that a name was given once among them, and arguments as a whole."""
    found: dict[str, None] = {}
    for part in ast.walk(node):
        given = source.given(part) if isinstance(part, ast.Name) else None
        whole = ast.Tuple(elts=part.args) if isinstance(part, ast.Call) and len(part.args) >= _SEVERAL else None
        for each in (part, given, whole):
            value = any_value(each) if isinstance(each, ast.expr) else None
            if value is not None and value[1] is not None:
                found[spelt_alike(value)] = None
        if len(found) > _MOST_LEAVES:
            return []
    return list(found)


# ── literals ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def value_of(node: ast.AST) -> Value | None:
    """A literal by type and value; None for anything else, and for what is too common to mean something."""
    match node:
        case ast.Constant(value=str() | bytes() as text):
            return (type(text).__name__, text) if len(text) >= _SHORTEST else None
        case ast.Tuple(elts=[_, _, *_] as elements):
            parts = [any_value(element) for element in elements]
            return None if None in parts or len(set(parts)) == 1 else ("tuple", tuple(parts))
        case _:
            number = number_of(node)
            return None if number is None or _is_common(number) else ("number", number)


def any_value(node: ast.expr) -> Value | None:
    """Any constant at all: beside others small ones count too."""
    number = number_of(node)
    if number is not None:
        return "number", number
    match node:
        case ast.Constant(value=str() | bytes() | bool() | None as value):
            return type(value).__name__, value
        case ast.Tuple():
            return value_of(node)
        case _:
            return None


def number_of(node: ast.AST) -> int | float | None:
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return None if isinstance(value, bool) else -value
        case ast.Constant(value=int() | float() as value):
            return None if isinstance(value, bool) else value
        case _:
            return None


def _is_common(number: int | float) -> bool:  # noqa: PYI041 - the two are asked different questions
    size = abs(number)
    if number in _SMALL or size == float("inf"):
        return True
    if isinstance(number, int):
        whole = abs(number)
        return (whole & (whole - 1)) == 0 or (whole < 10**30 and str(whole).strip("0") == "1")
    return float(size).hex().split("p")[0] == "0x1.0000000000000" or f"{size:e}".startswith("1.000000e")


def is_name(value: Value) -> bool:
    """Whether it is text with a word in it: a name, which is written down because it can't be computed."""
    return isinstance(value[1], str) and bool(_LETTERS.search(value[1]))


def spelt_alike(value: Value) -> str:
    """One text for `5` and `"5"`: what comes from a data file has no other type."""
    kind, inner = value
    if kind == "tuple" and isinstance(inner, tuple):
        return "(" + ", ".join(spelt_alike(part) for part in inner) + ")"
    try:
        return str(inner) if isinstance(inner, str | int | float) else repr(inner)
    except ValueError:  # a number with thousands of digits
        return kind


def shown(value: Value) -> str:
    kind, inner = value
    if kind == "tuple" and isinstance(inner, tuple):
        return "(" + ", ".join(shown(part) for part in inner) + ")"
    return one_line(repr(inner), 40)
