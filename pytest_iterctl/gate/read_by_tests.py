"""Which files the tests read, as far as the tests name them."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from pytest_iterctl.gate.source import Source, Unreadable, parse

__all__ = ["files_that_tests_read"]

_LONGEST = 300
_PATHS = {"pathlib.Path", "pathlib.PurePath", "os.path.join", "builtins.open", "os.listdir", "os.scandir", "glob.glob"}


def files_that_tests_read(tests: Mapping[str, bytes], known: frozenset[str]) -> dict[str, str]:
    """Each existing file that a text in a test names, with the first test that does.

    A path is looked for from the root, from the test's own folder and from the folders between. Python modules are
    left out: naming `src/calc.py` makes it no test. A folder counts when the text is used as a path and no module
    lies below it.
    """
    folders = _folders(known)
    found: dict[str, str] = {}
    for test in sorted(tests):
        for text, is_path in _named(test, tests[test]):
            for path in _resolved(test, text, known, folders, is_path=is_path):
                found.setdefault(path, test)
    return found


def _folders(known: frozenset[str]) -> dict[str, frozenset[str]]:
    """The files below each folder; none for a folder with modules in it, which is a part of the product."""
    below: dict[str, set[str]] = {}
    for path in known:
        for folder in PurePosixPath(path).parents:
            below.setdefault(str(folder), set()).add(path)
    return {
        folder: frozenset(paths)
        for folder, paths in below.items()
        if folder != "." and not any(path.endswith(".py") for path in paths)
    }


def _named(test: str, data: bytes) -> Iterator[tuple[str, bool]]:
    """Texts that may be paths, and whether the program uses them as such."""
    try:
        tree = parse(data)
        if tree is None:
            return
        source = Source(test, tree)
        for node in source.nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value, _is_used_as_path(source, node)
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
                yield "/".join(_parts(source, node)), True
            elif isinstance(node, ast.Call) and source.names(node.func) & _PATHS:
                yield "/".join(part for each in node.args for part in _parts(source, each)), True
    except (Unreadable, RecursionError):
        return


def _is_used_as_path(source: Source, node: ast.Constant) -> bool:
    parent = source.parent(node)
    if isinstance(parent, ast.BinOp):
        return isinstance(parent.op, ast.Div)
    return isinstance(parent, ast.Call) and bool(source.names(parent.func) & _PATHS)


def _parts(source: Source, node: ast.expr) -> list[str]:
    """`Path(__file__).parent / "data" / "a.json"` → data, a.json."""
    parts: list[str] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        parts.append(source.text(node.right) or "")
        given = source.given(node.left) if isinstance(node.left, ast.Name) else None
        node = given if isinstance(given, ast.BinOp) and len(parts) < 20 else node.left  # noqa: PLR2004 - no circles
    parts.append(source.text(node) or "")
    return [part for part in reversed(parts) if part]


def _resolved(
    test: str, text: str, known: frozenset[str], folders: Mapping[str, frozenset[str]], *, is_path: bool
) -> Iterator[str]:
    if not text or len(text) > _LONGEST or "\n" in text or text.startswith("/"):
        return
    for start in map(str, PurePosixPath(test).parents):
        path = posixpath.normpath(posixpath.join(start, text))
        if path in known and not path.endswith(".py"):
            yield path
        elif is_path and path in folders:
            yield from folders[path]
