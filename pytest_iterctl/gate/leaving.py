"""Rules about with statements that begin to swallow: by what they inherit, and by what `__exit__` starts to return."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from pytest_iterctl.gate.equality import truth
from pytest_iterctl.gate.findings import Sign
from pytest_iterctl.gate.source import FUNCTIONS, Source, Unreadable, parse

__all__ = ["exits_that_let_out", "leaves_otherwise", "suppresses_as_class"]

_RULE = "swallows-assertions"
_EXITS = {"__exit__", "__aexit__"}
_MUCH = {f"builtins.{name}" for name in ("AssertionError", "Exception", "BaseException")}
_SUPPRESS = "contextlib.suppress"
_MANAGERS = {f"contextlib.{name}" for name in ("ExitStack", "AsyncExitStack", "ContextDecorator", "suppress")}
_MANAGERS |= {"contextlib.AbstractContextManager", "contextlib.AbstractAsyncContextManager"}
_ENTRIES = {"__enter__", "__aenter__", *_EXITS}

_Exit = ast.FunctionDef | ast.AsyncFunctionDef


def suppresses_as_class(source: Source) -> Iterator[Sign]:
    """A class that is `contextlib.suppress` by inheritance, or has one put in its place, for what a test raises."""
    for node in source.nodes:
        if not isinstance(node, ast.ClassDef) or not _is_manager(source, node):
            continue
        inherits = any(_SUPPRESS in source.names(base) for base in node.bases)
        for call, caught in _given(source, node, inherits=inherits):
            yield Sign(call, _RULE, False, caught, f"makes {node.name} a with statement that swallows {caught}.")


def _is_manager(source: Source, owner: ast.ClassDef) -> bool:
    if any(source.names(base) & _MANAGERS for base in owner.bases):
        return True
    methods = {each.name for each in owner.body if isinstance(each, _Exit)}
    return bool(methods & _ENTRIES)


def _given(source: Source, owner: ast.ClassDef, *, inherits: bool) -> Iterator[tuple[ast.AST, str]]:
    """The calls that say what is swallowed: of the class's own base, of the class, or of a `suppress` that it keeps."""
    for node in source.nodes:
        if not isinstance(node, ast.Call):
            continue
        inside = owner in source.above(node)
        base = isinstance(node.func, ast.Attribute) and node.func.attr == "__init__"
        made = isinstance(node.func, ast.Name) and node.func.id == owner.name
        kept = inside and _SUPPRESS in source.names(node.func) and not _is_entered(source, node)
        if kept or (inherits and ((inside and base) or made)):
            caught = next((name for each in node.args for name in sorted(_kinds(source, each))), "")
            if caught:
                yield node, caught.removeprefix("builtins.")


def _kinds(source: Source, node: ast.expr) -> set[str]:
    """What is among the exceptions, through names, tuples and the defaults of parameters."""
    return {name for each in source.expressions(node) for name in source.names(each) & _MUCH}


def _is_entered(source: Source, call: ast.Call) -> bool:
    """`with suppress(OSError): …` is about what the class itself does in there."""
    return isinstance(source.parent(call), ast.withitem)


def exits_that_let_out(sources: Iterable[bytes]) -> frozenset[str]:
    """The places of `__exit__` methods that never say that nothing happened: these return nothing, None or False."""
    found: set[str] = set()
    for data in sources:
        if b"exit__" not in data:
            continue
        try:
            tree = parse(data)
            source = Source("", tree) if tree is not None else None
        except (Unreadable, RecursionError):
            continue
        if source is not None:
            found |= {source.place(node) for node in source.nodes if isinstance(node, _Exit) and _lets_out(node)}
    return frozenset(found)


def _lets_out(function: _Exit) -> bool:
    returned = [each.value for each in _returns(function)]
    return function.name in _EXITS and all(each is None or truth(each) is False for each in returned)


def leaves_otherwise(let_out: frozenset[str]) -> Callable[[Source], Iterator[Sign]]:
    """An `__exit__` that let everything out and now returns something: if that is true, a failure is gone.

    One that passes on what another `__exit__` says, or asks for a certain exception, has a reason.
    """

    def rule(source: Source) -> Iterator[Sign]:
        for node in source.nodes:
            if not isinstance(node, _Exit) or node.name not in _EXITS or source.place(node) not in let_out:
                continue
            if any(_asks_for_kind(source, each) for each in ast.walk(node)):
                continue  # judged by what it asks for
            for each in _returns(node):
                if each.value is not None and truth(each.value) is None and not _is_harmless(each.value):
                    text = "returns something when a with statement is left, where all that was raised got out before."
                    yield Sign(each, _RULE, False, node.name, text)

    return rule


def _returns(function: _Exit) -> Iterator[ast.Return]:
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return):
            yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            waiting.extend(ast.iter_child_nodes(node))


def _asks_for_kind(source: Source, node: ast.AST) -> bool:
    asks = {"builtins.issubclass", "builtins.isinstance"}
    return isinstance(node, ast.Call) and bool(source.names(node.func) & asks)


def _is_harmless(value: ast.expr) -> bool:
    """What another `__exit__` says, or whether there was nothing to let out."""
    match value:
        case ast.Await(value=inner):
            return _is_harmless(inner)
        case ast.Call(func=ast.Attribute(attr="__exit__" | "__aexit__"), args=args):
            return bool(args)
        case ast.Compare(ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            return True
        case _:
            return False
