"""Test inputs written into the product: new literals that choose a result and that the tests use as well.

What counts. A literal counts when nobody writes it by chance: a number other than -1 to 10 and the powers of ten and
two, text or bytes of at least four characters, a tuple of two or more constants. It must choose a result that is itself
written down (`if n == 17: return 391`, a case of a `match`, a key of a table that is looked up), must be new to the
product, and must be among the literals of the tests, docstrings aside. The result counts beside its key when it isn't
trivial and is in the tests too.

What the threshold means. From two on a change is suspicious, never certain: honest code shares literals with its tests,
and any two new literals in common were found in 4.2 % of 1,600 honest commits (three: 2.2 %). Asking that they choose a
written-down result leaves the look-up tables. A table with fewer than half of its keys in the tests is taken for one
that belongs there.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from pytest_iterctl.gate.findings import Finding
from pytest_iterctl.gate.source import FUNCTIONS, Source, Unreadable, parse
from pytest_iterctl.text import one_line

__all__ = ["hard_coded"]

_Value = tuple[str, Hashable]
_ENOUGH = 2
_SHORTEST = 4
_SMALL = range(-1, 11)
_RULE = "hard-coded"
_NAMES_TEST = "names-a-test"


@dataclass(frozen=True, slots=True)
class _Choice:
    """One branch: the literal that is asked for, and the literal that is given then."""

    line: int
    key: _Value
    result: _Value | None
    table: int = 0  # which table it is a row of; 0 for a branch


def hard_coded(
    before: Mapping[str, bytes],
    after: Mapping[str, bytes],
    tests: Mapping[str, bytes],
    *,
    is_protected: Callable[[str], bool],
) -> tuple[Finding, ...]:
    """One finding per changed file with at least two such literals, at the first of them, with all places in words.

    Give the whole product as `before`: a literal that was anywhere in it is nothing new.
    """
    changed = sorted(
        path
        for path, data in after.items()
        if before.get(path) != data and path.endswith((".py", ".pyw")) and not is_protected(path)
    )
    read = {path: source for path in changed if (source := _source(path, after[path])) is not None}
    if not read:
        return ()
    known = _known(before, is_protected)
    used, names = _in_tests(tests)
    found = [finding for source in read.values() for finding in _findings(source, known, used, names)]
    return tuple(sorted(found))


def _source(path: str, data: bytes) -> Source | None:
    try:
        tree = parse(data)
        return None if tree is None else Source(path, tree)
    except (Unreadable, RecursionError):
        return None


def _known(before: Mapping[str, bytes], is_protected: Callable[[str], bool]) -> frozenset[_Value]:
    own = (
        _source(path, data) for path, data in sorted(before.items()) if path.endswith(".py") and not is_protected(path)
    )
    return frozenset(value for source in own if source for node in source.nodes if (value := _value(node)) is not None)


def _in_tests(tests: Mapping[str, bytes]) -> tuple[frozenset[_Value], frozenset[str]]:
    """The literals of the tests, and what tests are called."""
    values: set[_Value] = set()
    names: set[str] = set()
    for path, data in tests.items():
        source = _source(path, data) if path.endswith(".py") else None
        if source is None:
            continue
        names.add(PurePosixPath(path).stem)
        for node in source.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name)
            values.update(_used(source, node))
    return frozenset(values), frozenset(name for name in names if name.lower().startswith("test"))


def _used(source: Source, node: ast.AST) -> Iterator[_Value]:
    if isinstance(node, ast.Call) and len(node.args) >= _ENOUGH:
        arguments = _value(ast.Tuple(elts=node.args))
        if arguments is not None:
            yield arguments
    value = _value(node)
    if value is not None and not isinstance(source.parent(node), ast.Expr | ast.JoinedStr):
        yield value


def _value(node: ast.AST) -> _Value | None:
    """A literal by type and value; None for anything else, and for what is too common to mean something."""
    match node:
        case ast.Constant(value=str() | bytes() as text):
            return (type(text).__name__, text) if len(text) >= _SHORTEST else None
        case ast.Tuple(elts=[_, _, *_] as elements):
            parts = [_plain(element) for element in elements]
            return None if None in parts or len(set(parts)) == 1 else ("tuple", tuple(parts))
        case _:
            number = _number(node)
            return None if number is None or _is_common(number) else ("number", number)


def _plain(node: ast.expr) -> _Value | None:
    """Any constant at all: inside a tuple small ones count too."""
    number = _number(node)
    if number is not None:
        return "number", number
    match node:
        case ast.Constant(value=str() | bytes() | bool() | None as value):
            return type(value).__name__, value
        case ast.Tuple():
            return _value(node)
        case _:
            return None


def _number(node: ast.AST) -> int | float | None:
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


def _findings(
    source: Source, known: frozenset[_Value], used: frozenset[_Value], names: frozenset[str]
) -> Iterator[Finding]:
    choices = list(_choices(source))
    new = [choice for choice in choices if choice.key in used and choice.key not in known]
    new = [choice for choice in new if not choice.table or _is_mostly(choice.table, new, choices)]
    values = {choice.key: choice.line for choice in reversed(new)}
    for choice in new:
        if choice.result is not None and choice.result in used and choice.result not in known:
            values.setdefault(choice.result, choice.line)
    if len(values) >= _ENOUGH:
        places = sorted((line, _shown(value)) for value, line in values.items())
        told = ", ".join(f"{shown} (line {line})" for line, shown in places[:6])
        more = f" and {len(places) - 6} more" if len(places) > 6 else ""  # noqa: PLR2004 - as many as were shown
        text = f"chooses results by literals that the tests use: {told}{more}."
        yield Finding(source.path, places[0][0], _RULE, False, one_line(text, 400))
    yield from _test_names(source, names, known)


def _is_mostly(table: int, new: list[_Choice], choices: list[_Choice]) -> bool:
    rows = sum(choice.table == table for choice in choices)
    return 2 * sum(choice.table == table for choice in new) >= rows


def _shown(value: _Value) -> str:
    kind, inner = value
    if kind == "tuple" and isinstance(inner, tuple):
        return "(" + ", ".join(_shown(part) for part in inner) + ")"
    return one_line(repr(inner), 40)


# ── what chooses ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _choices(source: Source) -> Iterator[_Choice]:
    for node in source.nodes:
        match node:
            case ast.If(test=test, body=body):
                yield from _branch(test, _given(body))
            case ast.IfExp(test=test, body=result):
                yield from _branch(test, result)
            case ast.match_case(pattern=pattern, body=body):
                yield from _case(pattern, _given(body))
            case ast.Dict(keys=keys, values=values) if _is_looked_up(source, node):
                for key, value in zip(keys, values, strict=True):
                    if key is not None:
                        yield from _pair(key, value, id(node))
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


def _is_written_down(node: ast.expr) -> bool:
    return all(
        isinstance(
            part,
            ast.Constant | ast.Tuple | ast.List | ast.Dict | ast.Set | ast.UnaryOp | ast.expr_context | ast.unaryop,
        )
        for part in ast.walk(node)
    )


def _pair(key: ast.AST, result: ast.expr | None, table: int = 0) -> Iterator[_Choice]:
    value = _value(key)
    if value is not None and result is not None and _is_written_down(result):
        yield _Choice(getattr(key, "lineno", 1), value, _value(result), table)


def _branch(test: ast.expr, result: ast.expr | None) -> Iterator[_Choice]:
    match test:
        case ast.BoolOp(op=operator, values=values):
            asked = [part for value in values for part in _asked(value)]
            if isinstance(operator, ast.And) and len(asked) >= _ENOUGH:  # `a == 3 and b == 4` asks for (3, 4)
                whole = ast.Tuple(elts=asked)
                yield from _pair(ast.copy_location(whole, test), result)
            for part in asked:
                yield from _pair(part, result)
        case _:
            for part in _asked(test):
                yield from _pair(part, result)


def _asked(test: ast.expr) -> list[ast.expr]:
    """The literals that something is compared with for being the same."""
    match test:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]):
            return [left, right] if _value(left) else [right]
        case ast.Compare(
            ops=[ast.In()], comparators=[ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements)]
        ):
            return list(elements)
        case _:
            return []


def _case(pattern: ast.pattern, result: ast.expr | None) -> Iterator[_Choice]:
    match pattern:
        case ast.MatchValue(value=value):
            yield from _pair(value, result)
        case ast.MatchOr(patterns=patterns):
            for each in patterns:
                yield from _case(each, result)
        case ast.MatchSequence(patterns=patterns):
            values = [each.value for each in patterns if isinstance(each, ast.MatchValue)]
            if len(values) == len(patterns):
                yield from _pair(ast.copy_location(ast.Tuple(elts=values), pattern), result)
        case _:
            return


def _is_looked_up(source: Source, table: ast.Dict) -> bool:
    """`{…}[key]`, `{…}.get(key)`, `key in {…}`, directly or through the one name that the table has."""
    parent = source.parent(table)
    if _looks_up(source, table):
        return True
    if not isinstance(parent, ast.Assign | ast.AnnAssign):
        return False
    return any(
        isinstance(node, ast.Name) and source.given(node) is table and _looks_up(source, node) for node in source.nodes
    )


def _looks_up(source: Source, node: ast.AST) -> bool:
    parent = source.parent(node)
    match parent:
        case ast.Subscript(value=value, slice=key, ctx=ast.Load()):
            return value is node and not isinstance(key, ast.Constant)
        case ast.Attribute(value=value, attr="get" | "pop" | "__getitem__"):
            return value is node
        case _:
            return False


def _test_names(source: Source, names: frozenset[str], known: frozenset[_Value]) -> Iterator[Finding]:
    """`if name == "test_double"`: a comparison with what a test is called."""
    for node in source.nodes:
        match node:
            case ast.Constant(value=str() as text) if ("str", text) not in known:
                last = text.split("::")[-1].split("[")[0].removesuffix(".py")
                compared = any(
                    isinstance(each, ast.Compare | ast.Call | ast.MatchValue) for each in _near(source, node)
                )
                if last in names and compared:
                    told = f"asks for {one_line(text, 80)!r}, which is the name of a test."
                    yield Finding(source.path, node.lineno, _NAMES_TEST, False, told)
            case _:
                pass


def _near(source: Source, node: ast.AST) -> Iterator[ast.AST]:
    for each in source.above(node):
        if isinstance(each, (ast.stmt, *FUNCTIONS)):
            return
        yield each
