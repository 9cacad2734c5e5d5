"""Rules about product code that keeps a failed assertion of its caller from getting out."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pytest_iterctl.gate.findings import Sign
from pytest_iterctl.gate.paths import is_test_helper
from pytest_iterctl.gate.source import FUNCTIONS, Source

__all__ = ["swallows_assertions"]

_RULE = "swallows-assertions"
_TOO_MUCH = {"builtins.AssertionError", "builtins.BaseException"}
_MANAGERS = {"contextlib.contextmanager", "contextlib.asynccontextmanager"}


def swallows_assertions(source: Source) -> Iterator[Sign]:
    """`except AssertionError: pass` around what a caller runs: a `with` body, or a function that was handed over."""
    for node in source.nodes:
        match node:
            case ast.Try() | ast.TryStar():
                yield from _tried(source, node)
            case ast.With(items=items, body=body):
                for item in items:
                    yield from _suppressed(source, node, item.context_expr, body)
            case ast.FunctionDef(name="__exit__" | "__aexit__"):
                yield from _left(node)
            case _:
                pass


def _tried(source: Source, node: ast.Try | ast.TryStar) -> Iterator[Sign]:
    around = _callers_code(source, node, node.body)
    if not around:
        return
    for handler in node.handlers:
        caught = _caught(source, handler.type)
        raises = any(isinstance(each, ast.Raise) for part in handler.body for each in ast.walk(part))
        if caught and not raises and not _keeps(handler):
            yield _swallowed(source, handler, around, caught)


def _suppressed(source: Source, node: ast.With, context: ast.expr, body: list[ast.stmt]) -> Iterator[Sign]:
    if not isinstance(context, ast.Call) or "contextlib.suppress" not in source.names(context.func):
        return
    around = _callers_code(source, node, body)
    caught = next(filter(None, (_caught(source, each) for each in context.args)), "")
    if around and caught:
        yield _swallowed(source, node, around, caught)


def _swallowed(source: Source, node: ast.AST, around: str, caught: str) -> Sign:
    certain = around == "the body of a with statement" and not is_test_helper(source.path)
    return Sign(node, _RULE, certain, caught, f"catches {caught} around {around} and lets nobody know.")


def _caught(source: Source, kind: ast.expr | None) -> str:
    """The name of what is caught when an assertion's failure is among it."""
    if kind is None:
        return "everything"
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    found = [name for each in kinds for name in sorted(source.names(each) & _TOO_MUCH)]
    return found[0].removeprefix("builtins.") if found else ""


def _keeps(handler: ast.ExceptHandler) -> bool:
    """An exception that is stored, sent on or told is not swallowed."""
    return handler.name is not None and any(
        isinstance(node, ast.Name) and node.id == handler.name for part in handler.body for node in ast.walk(part)
    )


def _callers_code(source: Source, node: ast.AST, body: list[ast.stmt]) -> str:
    """Whose code runs in there, in words; empty when it is the product's own."""
    function = source.function(node)
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return ""
    inside = [each for part in body for each in _without_functions(part)]
    managed = any(source.names(each) & _MANAGERS for each in function.decorator_list)
    if managed and any(isinstance(each, ast.Yield) for each in inside):
        return "the body of a with statement"
    handed = {each.arg for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    for each in inside:
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id in handed - {"cls", "type"}:
            return "a function that it was handed"
    return ""


def _without_functions(part: ast.AST) -> Iterator[ast.AST]:
    waiting = [part]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, FUNCTIONS):
            waiting.extend(ast.iter_child_nodes(node))


def _left(function: ast.FunctionDef) -> Iterator[Sign]:
    """An `__exit__` that says True whatever happened."""
    returns = [each for each in _without_functions_of(function) if isinstance(each, ast.Return)]
    values = [each.value for each in returns]
    asks = any(isinstance(each, ast.If | ast.IfExp | ast.Compare) for each in ast.walk(function))
    if values and not asks and all(isinstance(value, ast.Constant) and value.value is True for value in values):
        yield Sign(function, _RULE, False, "__exit__", "leaves a with statement as if nothing was ever raised in it.")


def _without_functions_of(function: ast.FunctionDef) -> Iterator[ast.AST]:
    for part in function.body:
        yield from _without_functions(part)
