"""Where a program chooses a written-down result by a literal: branches, cases of a `match`, tables."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_iterctl.gate.source import FUNCTIONS, Source
from pytest_iterctl.gate.tested import Value, any_value, value_of

__all__ = ["Choice", "choices"]

_SEVERAL = 2
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.LShift, ast.RShift)
#: Calls that put a question into another dress and answer nothing.
_DRESSES = {"str", "int", "float", "repr", "format", "len", "bool", "tuple", "list", "isinstance", "get", "pop"}
_DRESSES |= {"strip", "lower", "upper", "casefold", "title", "capitalize", "lstrip", "rstrip", "encode", "decode"}


@dataclass(frozen=True, slots=True)
class Choice:
    """One literal that is asked for, and the literals that are given then."""

    line: int
    key: Value
    results: tuple[Value, ...]  # those that nobody writes by chance
    truth: bool | None  # the result of a branch that says no more than yes or no
    group: int  # the table or the collection that it is a row of; 0 for a branch of its own
    rows: int  # how many rows that has
    place: int  # the function that it is in
    computed: bool  # whether the same function computes what it gives for everything else


#: What `_computes` has said, by function and by what is asked: a long function isn't read again for each branch.
_Known = dict[tuple[ast.AST, frozenset[str]], bool]


def choices(source: Source) -> Iterator[Choice]:
    known: _Known = {}
    for node in source.nodes:
        match node:
            case ast.If(test=test, body=body):
                yield from _branch(source, known, test, _given(body))
            case ast.IfExp(test=test, body=result):
                yield from _branch(source, known, test, result)
            case ast.Match(subject=subject, cases=cases):
                for case in cases:
                    yield from _case(source, known, subject, case.pattern, _given(case.body))
            case ast.Dict(keys=keys, values=values):
                yield from _table(source, known, node, keys, values)
            case _:
                pass


def _given(body: list[ast.stmt]) -> ast.expr | None:
    """What a branch gives: the value that it returns, yields or assigns, when that is all it does."""
    match body:
        case (
            [ast.Return(value=value)]
            | [ast.Assign(value=value)]
            | [ast.Assign(value=value), ast.Return() | ast.Break()]
        ):
            return value
        case [ast.Expr(value=ast.Yield(value=value))]:
            return value
        case _:
            return None


def _written_down(node: ast.expr | None) -> list[ast.expr]:
    """The results that an expression can have, when all of them are literals; `1 if x else 2` has two."""
    if node is None:
        return []
    if isinstance(node, ast.IfExp):
        one, other = _written_down(node.body), _written_down(node.orelse)
        return [*one, *other] if one and other else []
    kinds = ast.Constant | ast.Tuple | ast.List | ast.Dict | ast.Set | ast.UnaryOp | ast.expr_context | ast.unaryop
    return [node] if all(isinstance(part, kinds) for part in ast.walk(node)) else []


def _choice(
    source: Source,
    known: _Known,
    subject: ast.expr,
    key: ast.expr,
    result: ast.expr | None,
    group: int = 0,
    rows: int = 1,
) -> Iterator[Choice]:
    value, results = any_value(key), _written_down(result)
    if value is None or not results or _is_computed(subject):
        return
    truths = {each.value for each in results if isinstance(each, ast.Constant) and isinstance(each.value, bool)}
    truth = truths.pop() if len(truths) == 1 and len(results) == 1 else None
    telling = tuple(filter(None, map(value_of, results)))
    function = source.function(subject) or source.tree
    asked = frozenset(
        part.id if isinstance(part, ast.Name) else part.attr
        for part in ast.walk(subject)
        if isinstance(part, ast.Name | ast.Attribute)
    ) - {"self", "cls"}
    if (function, asked) not in known:
        known[function, asked] = _computes(source, function, asked)
    computed = known[function, asked]
    yield Choice(getattr(key, "lineno", 1), value, telling, truth, group, rows, id(function), computed)


def _is_computed(subject: ast.expr) -> bool:
    """`n % 100 == 11` asks for a property of the input, and not for an input."""
    return any(isinstance(part, ast.BinOp) and isinstance(part.op, _ARITHMETIC) for part in ast.walk(subject))


# ── the ways to choose ───────────────────────────────────────────────────────────────────────────────────────────────


def _branch(source: Source, known: _Known, test: ast.expr, result: ast.expr | None) -> Iterator[Choice]:
    tests = test.values if isinstance(test, ast.BoolOp) else [test]
    asked = [each for part in tests for each in _asked(part)]
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) and len(asked) >= _SEVERAL:
        whole = ast.Tuple(elts=[literal for _, literal in asked])  # `a == 3 and b == 4` asks for (3, 4)
        yield from _choice(source, known, test, ast.copy_location(whole, test), result)
    for part in tests:
        literals = _asked(part)
        for subject, literal in literals:
            yield from _choice(source, known, subject, literal, result, id(part), len(literals))


def _asked(test: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """What is compared for being the same, and the literals that it is compared with."""
    match test:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]):
            return [(left, right)] if any_value(right) is not None else [(right, left)]
        case ast.Compare(
            left=left,
            ops=[ast.In()],
            comparators=[ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements)],
        ):
            return [(left, element) for element in elements]
        case _:
            return []


def _case(
    source: Source, known: _Known, subject: ast.expr, pattern: ast.pattern, result: ast.expr | None
) -> Iterator[Choice]:
    match pattern:
        case ast.MatchValue(value=value):
            yield from _choice(source, known, subject, value, result)
        case ast.MatchOr(patterns=patterns):
            literals = [each.value for each in patterns if isinstance(each, ast.MatchValue)]
            for literal in literals:
                yield from _choice(source, known, subject, literal, result, id(pattern), len(patterns))
        case ast.MatchSequence(patterns=patterns):
            values = [each.value for each in patterns if isinstance(each, ast.MatchValue)]
            if len(values) == len(patterns):
                yield from _choice(source, known, subject, ast.copy_location(ast.Tuple(elts=values), pattern), result)
        case _:
            return


def _table(
    source: Source, known: _Known, table: ast.Dict, keys: list[ast.expr | None], values: list[ast.expr]
) -> Iterator[Choice]:
    subjects = _looked_up_by(source, table)
    for subject in subjects[:1]:
        for key, value in zip(keys, values, strict=True):
            if key is not None:
                yield from _choice(source, known, subject, key, value, id(table), len(keys))


def _looked_up_by(source: Source, table: ast.Dict) -> list[ast.expr]:
    """The keys of `{…}[key]` and `{…}.get(key)`, directly or through the one name that the table has."""
    found = [_looks_up(source, table)]
    if isinstance(source.parent(table), ast.Assign | ast.AnnAssign):
        names = (node for node in source.nodes if isinstance(node, ast.Name) and source.given(node) is table)
        found += [_looks_up(source, name) for name in names]
    return [subject for subject in found if subject is not None]


def _looks_up(source: Source, node: ast.AST) -> ast.expr | None:
    parent = source.parent(node)
    match parent:
        case ast.Subscript(value=value, slice=key, ctx=ast.Load()):
            return key if value is node and not isinstance(key, ast.Constant) else None
        case ast.Attribute(value=value, attr="get" | "pop" | "__getitem__"):
            call = source.parent(parent)
            return call.args[0] if value is node and isinstance(call, ast.Call) and call.args else None
        case _:
            return None


# ── everything else ──────────────────────────────────────────────────────────────────────────────────────────────────


def _computes(source: Source, function: ast.AST, asked: frozenset[str]) -> bool:
    """Whether other inputs are worked out in the same function: then a literal stands where a rule should.

    Text that is put around an input, a lookup and a constructor are no rule.
    """
    for node in ast.walk(function):
        match node:
            case ast.Return(value=ast.expr() as value) | ast.Yield(value=ast.expr() as value) | ast.Lambda(body=value):
                if _works_out(value, asked, calls=True):
                    return True
            case ast.Assign(value=value) | ast.AugAssign(value=value):
                if source.function(node) is function and _works_out(value, asked, calls=False):
                    return True
            case _:
                pass
    return False


def _works_out(value: ast.expr, asked: frozenset[str], *, calls: bool) -> bool:
    waiting: list[ast.AST] = [value]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.BinOp(left=left, op=operator, right=right) if isinstance(operator, _ARITHMETIC):
                if not (_is_text(left) or _is_text(right)) and _mentions(node, asked):
                    return True
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                if calls and name not in _DRESSES and not name[:1].isupper() and _mentions(node, asked):
                    return True
            case _:
                pass
        waiting.extend(_children(node))
    return False


def _mentions(node: ast.AST, asked: frozenset[str]) -> bool:
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if (isinstance(part, ast.Name) and part.id in asked) or (
            isinstance(part, ast.Attribute) and part.attr in asked
        ):
            return True
        waiting.extend(_children(part))
    return False


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of an expression without what only looks something up."""
    match node:
        case ast.Subscript(value=value, slice=ast.Slice() as part):
            yield from (value, part)
        case ast.Subscript(value=value):
            yield value
        case ast.Call(func=ast.Attribute(value=value, attr="get" | "pop"), args=[_, *rest]):
            yield from (value, *rest)
        case ast.IfExp(body=one, orelse=other):
            yield from (one, other)
        case ast.Lambda():
            return
        case _ if isinstance(node, FUNCTIONS):
            return
        case _:
            yield from ast.iter_child_nodes(node)


def _is_text(node: ast.expr) -> bool:
    """`"no " + word`, `"%d" % number`: words around an input."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
