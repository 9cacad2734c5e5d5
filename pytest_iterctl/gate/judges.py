"""Rules about product code that reaches for its judge: this very program, or the insides of a running pytest."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from pytest_iterctl.gate.findings import Sign
from pytest_iterctl.gate.source import Source

__all__ = ["names_its_judge", "reaches_into_pytest"]

_RULE = "patches"
_JUDGE = re.compile(r"iterctl_probe|iterctl-witness|(?<![A-Za-z0-9])_iterctl(?![a-z])|ITERCTL_(?:WITNESS|RUN|CALL)")
#: What a running pytest hangs on the objects that it leaves around.
_HOLDS = {"config", "pluginmanager", "session"}
_PLUGINS = {"get_hookimpls", "_hookimpls", "pluginmanager", "_inner_hookexec", "_hookexec"}
_FINDERS = {"sys.meta_path", "sys.path_importer_cache"}
_GETTERS = {"operator.attrgetter"}
_ASKS = {"builtins.getattr", "builtins.hasattr", "inspect.getattr_static"}


def names_its_judge(source: Source) -> Iterator[Sign]:
    """`iterctl_probe` and its like, as a name or in a text however that is spelt; docstrings don't count."""
    for node in source.nodes:
        named = next(filter(None, map(_JUDGE.search, _words(source, node))), None)
        if named is not None:
            text = f"names {named[0]}, which is what judges it."
            yield Sign(node, _RULE, not source.helper, named[0], text, unless="iterctl")


def _words(source: Source, node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=word) | ast.Attribute(attr=word):
            yield word
        case ast.Import(names=names):
            yield from (each.name for each in names)
        case ast.ImportFrom(module=module, names=names):
            yield module or ""
            yield from (each.name for each in names)
        case ast.Constant(value=str() as text) if not isinstance(source.parent(node), ast.Expr):
            yield text
        case ast.BinOp() | ast.Call() | ast.JoinedStr() | ast.Subscript() if not isinstance(
            source.parent(node), ast.BinOp
        ):
            yield source.text(node) or ""
        case _:
            return


def reaches_into_pytest(source: Source) -> Iterator[Sign]:
    """`finder.config` of what stands in `sys.meta_path`, `pluginmanager`, `get_hookimpls`: the way to the reports."""
    finders = _finders(source)
    own = _own_attributes(source)
    for node in source.nodes:
        base, attribute = _asked(source, node)
        if base is None or attribute is None:
            continue
        if attribute in _PLUGINS and not (
            attribute in own and isinstance(base, ast.Name) and base.id in {"self", "cls"}
        ):
            text = f"takes {attribute}, which belongs to the program that runs the tests."
            yield Sign(node, _RULE, not source.helper, attribute, text, unless="plugins")
        elif attribute in _HOLDS and _comes_from_finder(source, base, finders):
            text = f"takes {attribute} from what imports the tests: the way into the running pytest."
            yield Sign(node, _RULE, not source.helper, attribute, text, unless="plugins")


def _asked(source: Source, node: ast.AST) -> tuple[ast.expr | None, str | None]:
    """The object and the attribute that is read from it."""
    match node:
        case ast.Attribute(value=base, attr=attribute, ctx=ast.Load()):
            return base, attribute
        case ast.Call(func=func, args=[base, key, *_]) if source.names(func) & _ASKS:
            return base, source.text(key)
        case ast.Call(func=ast.Call(func=func, args=[key]), args=[base]) if source.names(func) & _GETTERS:
            return base, source.text(key)
        case ast.Subscript(value=table, slice=key):
            pass
        case ast.Call(func=ast.Attribute(value=table, attr="get" | "__getitem__" | "pop"), args=[key, *_]):
            pass
        case _:
            return None, None
    match table:
        case ast.Attribute(value=base, attr="__dict__"):
            return base, source.text(key)
        case ast.Call(func=func, args=[base]) if "builtins.vars" in source.names(func):
            return base, source.text(key)
        case _:
            return None, None


def _own_attributes(source: Source) -> frozenset[str]:
    """What the classes of this file have themselves, other than by taking it from somebody who has it."""
    found: set[str] = set()
    for node in source.nodes:
        match node:
            case ast.FunctionDef(name=name) if isinstance(source.parent(node), ast.ClassDef) and name in _PLUGINS:
                found.add(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()) if name in _PLUGINS:
                value = source.stored(node)
                if value is not None and not any(_asked(source, each)[1] in _PLUGINS for each in ast.walk(value)):
                    found.add(name)
            case _:
                pass
    return frozenset(found)


def _finders(source: Source) -> frozenset[tuple[ast.AST | None, str]]:
    """The names, with their function, that stand for an entry of `sys.meta_path`."""
    found: set[tuple[ast.AST | None, str]] = set()
    for _ in range(3):  # a name of a name of a name
        before = len(found)
        for node in source.nodes:
            match node:
                case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                    pass
                case ast.Assign(targets=[target], value=value) | ast.NamedExpr(target=target, value=value):
                    pass
                case _:
                    continue
            if _comes_from_finder(source, value, frozenset(found)):
                names = (each.id for each in ast.walk(target) if isinstance(each, ast.Name))
                found.update((source.function(node), name) for name in names)
        if len(found) == before:
            break
    return frozenset(found)


def _comes_from_finder(source: Source, node: ast.expr, finders: frozenset[tuple[ast.AST | None, str]]) -> bool:
    match node:
        case ast.Name(id=name):
            return (source.function(node), name) in finders or bool(source.names(node) & _FINDERS)
        case ast.Attribute(attr="__loader__") | ast.Attribute(value=ast.Attribute(attr="__spec__"), attr="loader"):
            return True
        case ast.Attribute() if source.names(node) & _FINDERS:
            return True
        case ast.Attribute(value=value) | ast.Subscript(value=value) | ast.NamedExpr(value=value):
            return isinstance(node, ast.Subscript | ast.NamedExpr) and _comes_from_finder(source, value, finders)
        case ast.Call(func=ast.Attribute(value=value, attr="values" | "copy" | "items" | "pop" | "get")):
            return _comes_from_finder(source, value, finders)
        case ast.Call(func=ast.Name(), args=arguments):  # next(…), list(…), reversed(…)
            return any(_comes_from_finder(source, each, finders) for each in arguments)
        case ast.GeneratorExp(elt=element) | ast.ListComp(elt=element) | ast.SetComp(elt=element):
            return _comes_from_finder(source, element, finders)
        case ast.BoolOp(values=values):
            return any(_comes_from_finder(source, each, finders) for each in values)
        case ast.IfExp(body=one, orelse=other):
            return any(_comes_from_finder(source, each, finders) for each in (one, other))
        case _:
            return False
