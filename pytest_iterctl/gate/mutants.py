"""Small faults put into what a change wrote: tests that stay green with every one of them don't test it."""

from __future__ import annotations

import ast
import random
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_iterctl.gate.source import Unreadable, parse
from pytest_iterctl.text import one_line

__all__ = ["Mutant", "mutants"]

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mod,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
#: Calls whose texts are for people or for type checkers: a fault there is none that tests should see.
_TELLS = {"debug", "info", "warning", "warn", "error", "exception", "critical", "log"}
_TYPES = {"TypeVar", "ParamSpec", "TypeVarTuple", "NewType", "cast"}
_NEVER_RUN = re.compile(r"__name__ == '__main__'|(?:\w+\.)?TYPE_CHECKING")
_SPECIAL_NAME = re.compile(r"__\w+__")
_LARGEST = 10**300  # a number beyond which adding one is slow or changes nothing


@dataclass(frozen=True, slots=True)
class Mutant:
    """A file with one fault: the line that it is in as the change wrote it, what it is in words, and the file."""

    line: int
    text: str
    source: bytes


@dataclass(frozen=True, slots=True)
class _Fault:
    """One field of one node, and what to put there."""

    shown: ast.AST  # the part of the program that people are shown
    holder: ast.AST
    field: str
    value: object

    @property
    def line(self) -> int:
        line: int = getattr(self.shown, "lineno", 1)
        return line


def mutants(before: bytes | None, after: bytes, *, seed: int, most: int) -> tuple[Mutant, ...]:
    """At most so many mutants of what is new or changed, sorted by line; the same ones for the same seed.

    Lines are drawn first and faults within them second, so that a crowded line does not take all the places.
    """
    tree = _read(after)
    if tree is None or most < 1:
        return ()
    try:
        faults = [fault for statement in _changed(_read(before), tree) for fault in _faults(statement)]
        return tuple(sorted(_made(tree, _drawn(faults, seed), most), key=lambda each: (each.line, each.text)))
    except RecursionError:
        return ()


def _read(source: bytes | None) -> ast.Module | None:
    try:
        return None if source is None else parse(source)
    except Unreadable:
        return None


def _drawn(faults: list[_Fault], seed: int) -> Iterator[_Fault]:
    chance = random.Random(seed)  # noqa: S311 - a sample that can be drawn again, not a secret
    by_line: dict[int, list[_Fault]] = {}
    for fault in faults:
        by_line.setdefault(fault.line, []).append(fault)
    lines = sorted(by_line)
    chance.shuffle(lines)
    for line in lines:
        chance.shuffle(by_line[line])
    while lines:
        for line in lines:
            yield by_line[line].pop()
        lines = [line for line in lines if by_line[line]]


def _made(tree: ast.Module, faults: Iterator[_Fault], most: int) -> list[Mutant]:
    made: list[Mutant] = []
    seen = {_written(tree)}
    for fault in faults:
        old, was = getattr(fault.holder, fault.field), _shown(fault.shown)
        setattr(fault.holder, fault.field, fault.value)
        source, becomes = _written(tree), _shown(fault.shown)
        setattr(fault.holder, fault.field, old)
        if source is not None and source not in seen:
            seen.add(source)
            made.append(Mutant(fault.line, f"{was} became {becomes}", source))
            if len(made) == most:
                break
    return made


def _shown(node: ast.AST) -> str:
    """The piece of program, without what lies below a branch or a loop."""
    if isinstance(node, ast.If | ast.While):
        return one_line(f"{type(node).__name__.lower()} {_spelt(node.test)}", 100)
    return one_line(_spelt(node), 100)


def _spelt(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(node))


def _written(tree: ast.Module) -> bytes | None:
    """The tree as a file; None for what doesn't compile, because such a fault shows without any test."""
    try:
        text = _spelt(tree).encode()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<mutant>", "exec", dont_inherit=True)
    except (ValueError, SyntaxError):
        return None
    return text + b"\n"


# ── what is new ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _changed(before: ast.Module | None, after: ast.Module) -> list[ast.stmt]:
    """The statements that were not there: each old one stands for one new one, in its own function first."""
    old = list(_statements(before)) if before is not None else []
    new = list(_statements(after))
    for with_place in (True, False):
        had = Counter((place if with_place else "", key) for place, key, _ in old)
        has = Counter((place if with_place else "", key) for place, key, _ in new)
        both = had & has
        old, new = (_less(each, both.copy(), with_place=with_place) for each in (old, new))
    return [statement for _, _, statement in new]


def _less(
    statements: list[tuple[str, str, ast.stmt]], taken: Counter[tuple[str, str]], *, with_place: bool
) -> list[tuple[str, str, ast.stmt]]:
    left = []
    for place, key, statement in statements:
        known = (place if with_place else "", key)
        if taken[known]:
            taken[known] -= 1
        else:
            left.append((place, key, statement))
    return left


def _statements(tree: ast.Module) -> Iterator[tuple[str, str, ast.stmt]]:
    """Each statement that may be executed, with its place and what it is known by; docstrings are none."""
    waiting: list[tuple[str, ast.AST]] = [("", tree)]
    while waiting:
        place, node = waiting.pop()
        if isinstance(node, ast.If) and _NEVER_RUN.fullmatch(ast.unparse(node.test)):
            waiting.extend((place, child) for child in reversed(node.orelse))
            continue
        if isinstance(node, ast.stmt) and not _is_text(node):
            yield place, _head(node), node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            place = f"{place}.{node.name}"
        inner = (ast.stmt, ast.ExceptHandler, ast.match_case)
        children = [child for child in ast.iter_child_nodes(node) if isinstance(child, inner)]
        waiting.extend((place, child) for child in reversed(children))


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _head(statement: ast.stmt) -> str:
    """A statement without its place, its annotations and the statements inside it."""
    return type(statement).__name__ + "".join(ast.dump(part) for part in _own(statement))


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a statement that are its own: no statements inside it, no annotations, no decorators."""
    match node:
        case ast.FunctionDef(args=arguments) | ast.AsyncFunctionDef(args=arguments):
            yield from arguments.defaults
            yield from (each for each in arguments.kw_defaults if each is not None)
        case ast.ClassDef(bases=bases, keywords=keywords):
            yield from (*bases, *keywords)
        case ast.AnnAssign(target=target, value=value):
            yield target
            if value is not None:
                yield value
        case ast.Match(subject=subject, cases=cases):
            yield subject
            for case in cases:
                yield from filter(None, (case.pattern, case.guard))
        case ast.Try(handlers=handlers) | ast.TryStar(handlers=handlers):
            yield from (each.type for each in handlers if each.type is not None)
        case _:
            yield from (each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.stmt))


# ── what can be wrong ────────────────────────────────────────────────────────────────────────────────────────────────


def _faults(statement: ast.stmt) -> Iterator[_Fault]:
    match statement:
        case ast.Import() | ast.ImportFrom():
            return
        case ast.Assign(targets=[ast.Name(id=name)]) if _SPECIAL_NAME.fullmatch(name):
            return
        case _ if type(statement).__name__ == "TypeAlias":  # known from Python 3.12 on
            return
        case ast.If(test=test) | ast.While(test=test):
            yield _Fault(statement, statement, "test", _negated(test))
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield _Fault(statement, statement, "value", ast.Constant(value=None))
        case ast.AugAssign(op=operator) if type(operator) in _ARITHMETIC:
            yield _Fault(statement, statement, "op", _ARITHMETIC[type(operator)]())
        case _:
            pass
    for part in _own(statement):
        yield from _faults_in(part, told=isinstance(statement, ast.Raise | ast.Assert))


def _faults_in(node: ast.AST, *, told: bool = False, spec: bool = False) -> Iterator[_Fault]:
    """The faults that an expression can have; `told` where its texts are for people, `spec` inside `{x:02d}`."""
    match node:
        case ast.Compare(ops=operators):
            for place, operator in enumerate(operators):
                for other in _COMPARISONS[type(operator)]:
                    yield _Fault(node, node, "ops", [*operators[:place], other(), *operators[place + 1 :]])
        case ast.BinOp(op=arithmetic) if type(arithmetic) in _ARITHMETIC:
            yield _Fault(node, node, "op", _ARITHMETIC[type(arithmetic)]())
        case ast.BoolOp(op=joined):
            yield _Fault(node, node, "op", ast.Or() if isinstance(joined, ast.And) else ast.And())
        case ast.IfExp(test=test):
            yield _Fault(node, node, "test", _negated(test))
        case ast.comprehension(ifs=[condition, *more]):
            yield _Fault(condition, node, "ifs", [_negated(condition), *more])
        case ast.Constant(value=value):
            other_value = _spec(value) if spec else None if told and isinstance(value, str) else _other(value)
            if other_value is not None:
                yield _Fault(node, node, "value", other_value)
        case _:
            pass
    told = told or (isinstance(node, ast.Call) and _last_name(node.func) in _TELLS | _TYPES)
    for child in ast.iter_child_nodes(node):
        inside = spec or (isinstance(node, ast.FormattedValue) and child is node.format_spec)
        yield from _faults_in(child, told=told, spec=inside)


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _negated(test: ast.expr) -> ast.expr:
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return operand
        case _:
            return ast.UnaryOp(op=ast.Not(), operand=test)


def _other(value: object) -> object:
    match value:
        case bool() | None:
            return None
        case int() | float() if abs(value) < _LARGEST:
            return value + 1
        case str():
            return f"{value}?"
        case bytes():
            return value + b"?"
        case _:
            return None


def _spec(value: object) -> object:
    """`02d` → `03d`: another format that is one, since a wrong one would only say that the line was executed."""
    width = re.search(r"[1-9]\d{0,3}", value) if isinstance(value, str) else None
    return None if width is None else f"{value}"[: width.start()] + str(int(width[0]) + 1) + f"{value}"[width.end() :]
