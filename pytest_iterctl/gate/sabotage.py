"""Functions broken on purpose, at a moment that somebody else chooses: what a test is green without was not tested.

`if NAME(): return NAME.given` goes to the top of a function. NAME is put among the built-ins by whoever runs the tests;
while it says no, the program is what it was. The name is made up anew for each run, so that no program can know it.

In the tests themselves nothing is broken: there `NAME.same(left, right)` only looks at what an assertion finds equal.
"""

from __future__ import annotations

import ast
import keyword
import warnings
from collections.abc import Callable, Iterator

from pytest_iterctl.gate.source import Unreadable, parse

__all__ = ["functions_of", "sabotaged", "sabotaged_at", "watching_equality"]

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_COMPARISONS = {"__eq__", "__ne__"}


def functions_of(source: bytes) -> frozenset[str]:
    """The qualified names of a file's functions: `label`, `Account.withdraw`, `outer.inner`."""
    tree = _read(source)
    return frozenset(name for name, _ in _functions(tree)) if tree is not None else frozenset()


def sabotaged(source: bytes, functions: frozenset[str], name: str) -> bytes | None:
    """The file with a way to break the named functions; None when it has none of them or can't be read as a program.

    A function is known by its qualified name alone, so that one that moved to another file is still the same.
    """
    return _broken(source, name, lambda tree: [node for called, node in _functions(tree) if called in functions])


def sabotaged_at(source: bytes, lines: frozenset[int], name: str) -> bytes | None:
    """The same for whatever stands in these lines: the innermost function, or the comparisons of the innermost class.

    Where a line is in no function, the lambdas that stand in it are broken too.
    """
    return _broken(source, name, lambda tree: [node for line in sorted(lines) for node in _standing_at(tree, line)])


def watching_equality(source: bytes, name: str) -> bytes | None:
    """A file of tests in which each `left == right` of an assertion is asked for as `NAME.same(left, right)`.

    None when it asserts no equality or can't be read as a program. What is evaluated, and in which order, stays.
    """
    _check(name)
    tree = _read(source)
    if tree is None:
        return None
    try:
        watching = _Watching(name)
        for node in ast.walk(tree):
            if isinstance(node, ast.Assert):
                node.test = watching.visit(node.test)
        return _written(tree) if watching.count else None
    except RecursionError:
        return None


def _check(name: str) -> None:
    if not name.isidentifier() or keyword.iskeyword(name) or (name.startswith("__") and not name.endswith("__")):
        raise ValueError(f"{name!r} is not a name that means the same inside and outside of classes")


def _broken(source: bytes, name: str, chosen: Callable[[ast.Module], list[_Function | ast.Lambda]]) -> bytes | None:
    _check(name)
    tree = _read(source)
    if tree is None:
        return None
    try:
        functions = dict.fromkeys(chosen(tree))  # a function that two lines stand in is broken once
        for function in functions:
            _break(function, name)
        return _written(tree) if functions else None
    except RecursionError:
        return None


def _read(source: bytes) -> ast.Module | None:
    try:
        return parse(source)
    except Unreadable:
        return None


def _written(tree: ast.Module) -> bytes | None:
    """The tree as a file in UTF-8; None in the rare case that Python's own writer has no spelling for it."""
    try:
        text = ast.unparse(ast.fix_missing_locations(tree)).encode()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<sabotaged>", "exec", dont_inherit=True)
    except (ValueError, SyntaxError):
        return None
    return text + b"\n"


# ── which ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _functions(tree: ast.Module) -> Iterator[tuple[str, _Function]]:
    """Every function with its qualified name, in branches and blocks as well."""
    waiting: list[tuple[str, ast.AST]] = [("", tree)]
    while waiting:
        around, node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            called = f"{around}{node.name}"
            if not isinstance(node, ast.ClassDef):
                yield called, node
            around = f"{called}."
        waiting.extend((around, child) for child in ast.iter_child_nodes(node))


def _standing_at(tree: ast.Module, line: int) -> list[_Function | ast.Lambda]:
    around = [node for node in ast.walk(tree) if isinstance(node, _Function | ast.ClassDef) and _spans(node, line)]
    innermost = max(around, key=_first_line, default=None)  # of two that share a line, the first opens later
    if isinstance(innermost, ast.FunctionDef | ast.AsyncFunctionDef):
        return [innermost]
    lambdas: list[_Function | ast.Lambda] = [
        node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and _spans(node, line)
    ]
    if innermost is None:
        return lambdas
    return lambdas + [
        each for each in innermost.body if isinstance(each, ast.FunctionDef) and each.name in _COMPARISONS
    ]


def _spans(node: _Function | ast.ClassDef | ast.Lambda, line: int) -> bool:
    return _first_line(node)[0] <= line <= (node.end_lineno or node.lineno)


def _first_line(node: _Function | ast.ClassDef | ast.Lambda) -> tuple[int, int]:
    """Where it begins, decorators included; then how far in, because one line may hold a class and its method."""
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min([node.lineno, *(each.lineno for each in decorators)]), node.col_offset


# ── how ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _break(function: _Function | ast.Lambda, name: str) -> None:
    asked = ast.Call(func=_loaded(name), args=[], keywords=[])
    if isinstance(function, ast.Lambda):
        function.body = ast.IfExp(test=asked, body=_given(name), orelse=function.body)
        return
    # An asynchronous generator may not return a value. `__init__` may, but Python would end the test for that, and a
    # test that is red for such a reason proves nothing: an object that was never made is broken enough.
    silent = function.name == "__init__" or (isinstance(function, ast.AsyncFunctionDef) and _yields(function))
    value = None if silent else _given(name)
    place = 1 if ast.get_docstring(function, clean=False) is not None else 0  # a docstring holds doctests
    function.body.insert(place, ast.If(test=asked, body=[ast.Return(value=value)], orelse=[]))


class _Watching(ast.NodeTransformer):
    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq):
            return node
        self.count += 1
        same = ast.Attribute(value=_loaded(self.name), attr="same", ctx=ast.Load())
        return ast.Call(func=same, args=[node.left, node.comparators[0]], keywords=[])

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        return node  # a text that says whether two things are equal asserts nothing


def _given(name: str) -> ast.Attribute:
    return ast.Attribute(value=_loaded(name), attr="given", ctx=ast.Load())


def _loaded(name: str) -> ast.Name:
    return ast.Name(id=name, ctx=ast.Load())


def _yields(function: ast.AsyncFunctionDef) -> bool:
    """Whether the function itself yields, and not only one inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Yield):
            return True
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):  # what stands around its body runs out here
            waiting.extend([*node.decorator_list, node.args])
        elif isinstance(node, ast.Lambda):
            waiting.append(node.args)
        else:
            waiting.extend(ast.iter_child_nodes(node))
    return False
