"""What Python's own modules are made of, read from their sources: nothing is imported on the word of a change."""

from __future__ import annotations

import ast
import builtins
import importlib
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

__all__ = ["is_function", "module_of"]


@cache
def module_of(name: str) -> tuple[str, str]:
    """A dotted name as a module of Python and what is left: `json.decoder.scanstring` is of `json.decoder`."""
    parts = name.split(".")
    if parts[0] not in sys.stdlib_module_names:
        return "", name
    for count in range(len(parts), 1, -1):
        if _source(".".join(parts[:count])) is not None:
            return ".".join(parts[:count]), ".".join(parts[count:])
    return parts[0], ".".join(parts[1:])


@cache
def is_function(module: str, attribute: str) -> bool:
    """Whether a module of Python has a function of that name."""
    if module in sys.builtin_module_names:  # never looked for in folders
        value: object = getattr(importlib.import_module(module), attribute, None)
        return callable(value) and not isinstance(value, type)
    path = _source(module)
    if path is None:  # compiled: by Python's own habit of writing names
        return attribute.islower()
    return attribute in _functions(path)[0] or (attribute.islower() and _functions(path)[1])


@cache
def _source(module: str) -> Path | None:
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    root = Path(sysconfig.get_path("stdlib")).joinpath(*parts)
    return next((path for path in (root / "__init__.py", root.with_suffix(".py")) if path.is_file()), None)


@cache
def _functions(path: Path) -> tuple[frozenset[str], bool]:
    """The functions at the top of a module as far as they can be told, and whether there may be others."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return frozenset(), True
    found: set[str] = set()
    unknown = False
    for node in _top(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.ImportFrom(names=names):
                unknown |= any(each.name == "*" for each in names)
                found.update(each.asname or each.name for each in names if (each.asname or each.name).islower())
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute() | ast.Lambda() | ast.BoolOp()):
                found.add(name)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=given)) if not hasattr(builtins, given):
                found.add(name)
            case _:
                pass
    return frozenset(found), unknown


def _top(node: ast.AST) -> Iterator[ast.AST]:
    """The statements of a module that aren't in a function or class."""
    for child in ast.iter_child_nodes(node):
        yield child
        if isinstance(child, ast.If | ast.Try | ast.ExceptHandler):
            yield from _top(child)
