"""Examples in docstrings that are tests: what they expect is the base's to say, though they stand in the product."""

from __future__ import annotations

import ast
import doctest
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from pytest_iterctl.gate.equality import truth
from pytest_iterctl.gate.findings import Sign
from pytest_iterctl.gate.source import FUNCTIONS, Source, Unreadable, parse
from pytest_iterctl.gate.stores import stored_attributes

__all__ = ["lost_examples", "places_with_examples", "rewrites_doctests"]

_Example = tuple[str, str]
_Named = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_REWRITTEN = {"__doc__", "__test__"}


def lost_examples(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> tuple[str, ...]:
    """The base's examples that are gone or expect something else, as `call → expected`. Moving them is no loss.

    Moving them to where nobody looks for them is: into a function, or below a condition that may never hold.
    """
    had, has = _examples(before.values()), _examples(after.values())
    always_had, always_has = (_examples(files.values(), always=True) for files in (before, after))
    lost = (had - has) | (always_had - always_has)
    return tuple(f"{source} → {want or '(nothing)'}" for source, want in lost)


def _examples(sources: Iterable[bytes], *, always: bool = False) -> Counter[_Example]:
    found: Counter[_Example] = Counter()
    for data in sources:
        for _, text in _collected(data, always=always):
            found.update((example.source.strip(), example.want.strip()) for example in _parsed(text))
    return found


def _parsed(text: str) -> list[doctest.Example]:
    try:
        return doctest.DocTestParser().get_examples(text)
    except ValueError:  # not written as doctest wants it, so it tests nothing
        return []


def _collected(data: bytes, *, always: bool = False) -> Iterator[tuple[str, str]]:
    """The texts that doctest looks at, with the dotted name of what they belong to."""
    if b">>>" not in data:
        return
    try:
        tree = parse(data)
    except (Unreadable, RecursionError):
        return
    if tree is not None:
        yield from _docstrings(tree, "", always=always)


def _docstrings(node: ast.Module | ast.ClassDef, place: str, *, always: bool) -> Iterator[tuple[str, str]]:
    """Of a module or class and of what is reached through its names: not of functions inside of functions."""
    yield from _own(node, place)
    named: dict[str, list[_Named]] = {}
    for statement in _statements(node.body, always=always):
        match statement:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if statement.decorator_list:  # one of several: an overload, the setter of a property
                    named.setdefault(name, []).append(statement)
                else:
                    named[name] = [statement]
            case ast.Assign(targets=[ast.Name(id="__test__")], value=ast.Dict(values=values)) if not place:
                yield from (
                    ("__test__", each.value)
                    for each in values
                    if isinstance(each, ast.Constant) and isinstance(each.value, str)
                )
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if not _mentions(value, name):
                named.pop(name, None)
            case ast.Delete(targets=targets):
                for target in targets:
                    named.pop(getattr(target, "id", ""), None)
            case _:
                pass
    for name, found in named.items():
        below = f"{place}.{name}" if place else name
        for each in found:
            if isinstance(each, ast.ClassDef):
                yield from _docstrings(each, below, always=always)
            else:
                yield from _own(each, below)


def _own(node: _Named, place: str) -> Iterator[tuple[str, str]]:
    text = ast.get_docstring(node, clean=True)
    if text:
        yield place, text


def _statements(body: list[ast.stmt], *, always: bool) -> Iterator[ast.stmt]:
    """The statements of a scope in order, also below conditions; `always` only those that surely run."""
    for each in body:
        yield each
        match each:
            case (
                ast.Try(body=inner, orelse=other, finalbody=last)
                | ast.TryStar(body=inner, orelse=other, finalbody=last)
            ):
                yield from _statements([*inner, *other, *last], always=always)
                for handler in () if always else each.handlers:
                    yield from _statements(handler.body, always=always)
            case ast.With(body=inner):
                yield from _statements(inner, always=always)
            case ast.If(test=test, body=inner, orelse=other):
                holds = truth(test)
                if holds is True or (holds is None and not always):
                    yield from _statements(inner, always=always)
                if holds is False or (holds is None and not always):
                    yield from _statements(other, always=always)
            case ast.For(body=inner) | ast.While(body=inner) if not always:
                yield from _statements(inner, always=always)
            case _:
                pass


def _mentions(value: ast.expr, name: str) -> bool:
    """`label = cached(label)` keeps what the name stood for."""
    return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(value))


def places_with_examples(files: Mapping[str, bytes]) -> Mapping[str, frozenset[str]]:
    """For each file with examples, the dotted names of what has them; the module itself is the empty one."""
    found = {
        path: frozenset(place for place, text in _collected(data) if _parsed(text)) for path, data in files.items()
    }
    return {path: places for path, places in found.items() if places}


def rewrites_doctests(examples: Mapping[str, frozenset[str]]) -> Callable[[Source], Iterator[Sign]]:
    """A `__doc__` or `__test__` that is written to in a file with examples: what they expect is made at run time.

    A wrapper that gets the text of what it wraps says nothing new, and neither does a class that gets another's.
    """
    every = frozenset(place for places in examples.values() for place in places) - {""}

    def rule(source: Source) -> Iterator[Sign]:
        moved = source.path not in examples  # to a new file: what has examples is known by its name alone
        places = every if moved else examples[source.path]
        if not places:
            return
        for node in source.nodes:
            for owner, name, value in _written(source, node):
                if _passes_on(source, value):
                    continue
                known = owner is None or _is_known(source, owner, places)
                if moved and (owner is None or not known):
                    continue
                text = f"writes to {name}, where examples stand that are tests: what they expect is the base's to say."
                yield Sign(node, "doctest-rewritten", known, name, text)

    return rule


def _written(source: Source, node: ast.AST) -> Iterator[tuple[ast.expr | None, str, ast.expr | None]]:
    """What is written to: an attribute of something, or None for the module itself or the class around it."""
    for stored in stored_attributes(source, node):
        if stored.attribute in _REWRITTEN:
            yield stored.owner, stored.attribute, stored.value
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) if name in _REWRITTEN:
            if not any(isinstance(each, (*FUNCTIONS, ast.ClassDef)) for each in source.above(node)) or _is_global(
                source, node
            ):
                value = source.stored(node)
                if not (name == "__test__" and isinstance(value, ast.Dict)):  # a table of more tests, read as such
                    yield None, name, value
        case ast.Subscript(value=ast.Call(func=func), slice=key, ctx=ast.Store() | ast.Del()):
            if source.names(func) & {"builtins.globals"} and (text := source.text(key)) in _REWRITTEN:
                yield None, text or "", source.stored(node)
        case _:
            return


def _is_global(source: Source, node: ast.Name) -> bool:
    around = source.function(node)
    return around is not None and any(
        isinstance(each, ast.Global) and node.id in each.names for each in ast.walk(around)
    )


def _passes_on(source: Source, value: ast.expr | None) -> bool:
    """The whole text of something else, as it is: `function.__doc__`, `getattr(function, "__doc__", None)`."""
    match value:
        case ast.Attribute(attr="__doc__"):
            return True
        case ast.Call(args=[_, key, *_]):
            return source.text(key) == "__doc__"
        case _:
            return False


def _is_known(source: Source, owner: ast.expr, places: frozenset[str]) -> bool:
    """Whether what is written to had examples in the base, by its name, or is the module itself."""
    if "sys.modules[]" in source.names(owner):
        return True
    named = ast.unparse(owner).removeprefix("type(self).").removesuffix(".__func__").removesuffix(".fget")
    return named in places or any(place.endswith(f".{named.partition('.')[2]}") for place in places if "." in named)
