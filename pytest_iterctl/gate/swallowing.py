"""Rules about product code that keeps a failed assertion of its caller from getting out."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pytest_iterctl.gate.equality import truth
from pytest_iterctl.gate.findings import Sign
from pytest_iterctl.gate.source import FUNCTIONS, Source

__all__ = ["swallows_assertions"]

_RULE = "swallows-assertions"
_TOO_MUCH = {"builtins.AssertionError", "builtins.BaseException"}
#: Nearly everything: an honest habit around a product's own calls, but not around what a test does in a `with`.
_MUCH = {"builtins.Exception"}
_WITH = "the body of a with statement"
_STOPS = {"sys.exit", "builtins.exit", "builtins.quit"}
_ASKS = {"builtins.issubclass", "builtins.isinstance"}
_MANAGERS = {"contextlib.contextmanager", "contextlib.asynccontextmanager"}


def swallows_assertions(source: Source) -> Iterator[Sign]:
    """`except AssertionError: pass` around what a caller runs: a `with` body, or a function that was handed over."""
    exits = {"__exit__", "__aexit__", *_put_as_exit(source)}
    for node in source.nodes:
        match node:
            case ast.Try() | ast.TryStar():
                yield from _tried(source, node)
            case ast.With(items=items, body=body):
                for item in items:
                    yield from _suppressed(source, node, item.context_expr, body)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name in exits:
                yield from _left(source, node)
            case ast.Lambda() if _is_exit(source, node):
                yield from _left(source, node)
            case ast.Return(value=ast.Call(func=func, args=kinds)) if "contextlib.suppress" in source.names(func):
                caught = next(filter(None, (_caught(source, each, _TOO_MUCH | _MUCH) for each in kinds)), "")
                if caught:
                    yield Sign(node, _RULE, False, caught, f"hands out a with statement that swallows {caught}.")
            case _:
                pass


def _tried(source: Source, node: ast.Try | ast.TryStar) -> Iterator[Sign]:
    around = _callers_code(source, node, node.body)
    if not around:
        return
    for handler in node.handlers:
        if any(_raises(source, each) for part in handler.body for each in _without_functions(part)):
            if _is_everything(source, handler.type):
                break  # nothing gets past it
            continue
        caught = _caught(source, handler.type)
        if around == _WITH:
            kept = _keeps(handler) and _is_sent_on(handler)
            caught = caught or _caught(source, handler.type, _MUCH)
            if caught:
                yield _swallowed(source, handler, around, caught, kept=kept)
        elif caught and not _keeps(handler):
            yield _swallowed(source, handler, around, caught)
    if around == _WITH and any(
        isinstance(each, ast.Return) for part in node.finalbody for each in _without_functions(part)
    ):
        text = f"returns from `finally` around {around}, so that nothing gets out."
        yield Sign(node, _RULE, False, "finally", text)


def _raises(source: Source, node: ast.AST) -> bool:
    return isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and bool(source.names(node.func) & _STOPS))


def _is_everything(source: Source, kind: ast.expr | None) -> bool:
    return kind is None or "builtins.BaseException" in source.names(kind)


def _suppressed(source: Source, node: ast.With, context: ast.expr, body: list[ast.stmt]) -> Iterator[Sign]:
    if not isinstance(context, ast.Call) or "contextlib.suppress" not in source.names(context.func):
        return
    around = _callers_code(source, node, body)
    kinds = _TOO_MUCH | _MUCH if around == _WITH else _TOO_MUCH
    caught = [name for each in context.args if (name := _caught(source, each, kinds))]
    if around and caught:
        yield _swallowed(source, node, around, next((name for name in caught if name != "Exception"), caught[0]))


def _swallowed(source: Source, node: ast.AST, around: str, caught: str, *, kept: bool = False) -> Sign:
    by_name = caught not in {"everything", "Exception"}
    certain = around == _WITH and by_name and not kept and not source.helper
    return Sign(node, _RULE, certain, caught, f"catches {caught} around {around} and doesn't let it out.")


def _caught(source: Source, kind: ast.expr | None, much: set[str] = _TOO_MUCH) -> str:
    """The name of what is caught when an assertion's failure is among it."""
    if kind is None:
        return "everything"
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    found = [name for each in kinds for name in sorted(source.names(each) & much)]
    return found[0].removeprefix("builtins.") if found else ""


def _keeps(handler: ast.ExceptHandler) -> bool:
    """An exception that is stored, sent on or told is not swallowed."""
    return handler.name is not None and any(
        isinstance(node, ast.Name) and node.id == handler.name for part in handler.body for node in ast.walk(part)
    )


def _is_sent_on(handler: ast.ExceptHandler) -> bool:
    """Given to a call or stored with something that outlives the handler; `_ = error` keeps nothing."""
    for part in handler.body:
        for node in ast.walk(part):
            match node:
                case ast.Call(args=values):
                    pass
                case ast.Assign(targets=[ast.Attribute() | ast.Subscript()], value=value) | ast.Return(value=value):
                    values = [value] if value is not None else []
                case _:
                    continue
            if any(isinstance(each, ast.Name) and each.id == handler.name for each in values):
                return True
    return False


def _callers_code(source: Source, node: ast.AST, body: list[ast.stmt]) -> str:
    """Whose code runs in there, in words; empty when it is the product's own."""
    function = source.function(node)
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return ""
    inside = [each for part in body for each in _without_functions(part)]
    managed = any(source.names(each) & _MANAGERS for each in function.decorator_list)
    if managed and any(isinstance(each, ast.Yield) for each in inside):
        return _WITH
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


def _is_exit(source: Source, node: ast.Lambda) -> bool:
    match source.parent(node):
        case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)]):
            return name == "__exit__"
        case ast.Call(func=ast.Attribute(attr="push"), args=[given]):  # of an ExitStack
            return given is node
        case _:
            return False


def _put_as_exit(source: Source) -> Iterator[str]:
    """The functions that become an `__exit__` under another name."""
    for node in source.nodes:
        match node:
            case ast.Assign(
                targets=[ast.Name(id="__exit__" | "__aexit__") | ast.Attribute(attr="__exit__" | "__aexit__")],
                value=ast.Name(id=name),
            ):
                yield name
            case _:
                pass


def _left(source: Source, function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Iterator[Sign]:
    """An `__exit__` that says True whatever happened. One that asks for a certain exception has a reason."""
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)][1:3]
    names += [function.args.vararg.arg] if function.args.vararg is not None else []
    body = function.body if isinstance(function.body, list) else [function.body]
    inside = [each for part in body for each in _without_functions(part)]
    asked = [kind for each in inside if (kind := _kind_asked_for(source, each, names)) is not None]
    by_name = [name for kind in asked if (name := _caught(source, kind))]
    much = [name for kind in asked if (name := _caught(source, kind, _MUCH))]
    if asked and not by_name and not much:
        return
    returns = [each for each in inside if isinstance(each, ast.Return)]
    answers: list[tuple[ast.AST, ast.expr]] = [(each, each.value) for each in returns if each.value is not None]
    if isinstance(function, ast.Lambda):
        answers = [(function.body, function.body)]
    for node, value in answers:
        certain = _is_swallowed_by_name(source, node, value, names)
        if certain or (not by_name and _is_true_for_any(source, node, value, names)):
            text = "leaves a with statement as if nothing was ever raised in it."
            yield Sign(node, _RULE, certain and not source.helper, "__exit__", text)


def _kind_asked_for(source: Source, node: ast.AST, names: list[str]) -> ast.expr | None:
    """The class in `issubclass(kind, X)`, `isinstance(value, X)`, `kind is X`; not of `kind is None`."""
    match node:
        case ast.Call(func=func, args=[_, kind]) if source.names(func) & _ASKS:
            return kind
        case ast.Compare(
            left=left,
            ops=[ast.Is() | ast.Eq() | ast.In() | ast.IsNot() | ast.NotEq() | ast.NotIn()],
            comparators=[kind],
        ) if _is_exception(left, names):
            return None if isinstance(kind, ast.Constant) else kind
        case _:
            return None


def _is_exception(node: ast.expr, names: list[str]) -> bool:
    """What was raised, by the name of a parameter or as an item of all of them."""
    match node:
        case ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)):
            return name in names
        case _:
            return False


def _is_swallowed_by_name(source: Source, node: ast.AST, value: ast.expr, names: list[str]) -> bool:
    """`return issubclass(kind, AssertionError)`, or True below an `if` that asks for it."""
    if any(_asks_by_name(source, each, names) for each in _alternatives(value)):
        return True
    below = node
    for each in source.above(node):
        if isinstance(each, FUNCTIONS):
            break
        if isinstance(each, ast.If) and below in each.body and truth(value) is True:
            parts = each.test.values if isinstance(each.test, ast.BoolOp) else [each.test]
            if any(_asks_by_name(source, part, names) for part in parts):
                return True
        below = each
    return False


def _alternatives(value: ast.expr) -> list[ast.expr]:
    return list(value.values) if isinstance(value, ast.BoolOp) else [value]


def _asks_by_name(source: Source, node: ast.expr, names: list[str]) -> bool:
    positive = not isinstance(node, ast.Compare) or isinstance(node.ops[0], ast.Is | ast.Eq | ast.In)
    kind = _kind_asked_for(source, node, names)
    return positive and kind is not None and bool(_caught(source, kind))


def _is_true_for_any(source: Source, node: ast.AST, value: ast.expr, names: list[str]) -> bool:
    """True, or whether there was an exception at all; not where there was none."""
    below = node
    for each in source.above(node):
        if isinstance(each, FUNCTIONS):
            break
        if isinstance(each, ast.If) and below in each.body and _is_none(each.test, names):
            return False
        below = each
    if truth(value) is True or _is_exception(value, names):
        return True
    match value:
        case ast.Compare(left=left, ops=[ast.IsNot() | ast.NotEq()], comparators=[ast.Constant(value=None)]):
            return _is_exception(left, names)
        case ast.Call(func=func, args=[inner]) if "builtins.bool" in source.names(func):
            return _is_true_for_any(source, node, inner, names)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _is_none(operand, names)
        case ast.BoolOp(values=values):
            return all(_is_true_for_any(source, node, each, names) for each in values)
        case ast.Call(func=func, args=[inner, kind]) if source.names(func) & _ASKS:
            return _is_exception(inner, names) and bool(_caught(source, kind, _MUCH))
        case _:
            return False


def _is_none(test: ast.expr, names: list[str]) -> bool:
    match test:
        case ast.Compare(left=left, ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=None)]):
            return _is_exception(left, names)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _is_exception(operand, names)
        case _:
            return False
