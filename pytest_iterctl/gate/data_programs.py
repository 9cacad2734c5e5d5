"""Rules about programs that come as data: archives on the path, pickles, libraries. Nobody reads what is in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from pytest_iterctl.gate.findings import Sign
from pytest_iterctl.gate.hiding import is_brought
from pytest_iterctl.gate.source import Source

__all__ = ["runs_data"]

_RULE = "runs-data"
_ARCHIVE = re.compile(r"(?i)\S*\.(?:zip|egg|whl|pyz|pyzw|xz|tar|par|pex|jar)")
_PATHS = {"sys.path", "sys.path[]"}
_GROWS = {"append", "insert", "extend", "__iadd__", "__setitem__"}
_PICKLES = ("pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "pandas", "torch", "jsonpickle")
_UNPICKLES = {"load", "loads", "Unpickler", "_load", "_loads", "_Unpickler", "read_pickle", "decode"}
_SHELVES = {"shelve.open", "shelve.DbfilenameShelf", "shelve.Shelf"}
_LIBRARIES = {f"ctypes.{name}" for name in ("CDLL", "PyDLL", "WinDLL", "OleDLL")}
_LIBRARIES |= {f"ctypes.{name}.LoadLibrary" for name in ("cdll", "pydll", "windll", "oledll")}
_LIBRARIES |= {"_ctypes.dlopen", "cffi.FFI().dlopen", "numpy.ctypeslib.load_library"}
#: Data that is read as text: where such a file is only mentioned beside a pickle, it is no pickle.
_TEXTS = (
    *(".json", ".toml", ".yaml", ".yml", ".ini", ".cfg", ".csv", ".tsv", ".txt", ".md", ".rst", ".html", ".css", ".js"),
    *(".xml", ".svg", ".sql", ".po", ".pot", ".tmpl", ".j2", ".lock", ".sh", ".png", ".jpg", ".gif", ".ico"),
)


def runs_data(brought: frozenset[str]) -> Callable[[Source], Iterator[Sign]]:
    """What turns data into a program, where that data is an archive or comes with the change.

    A cache that the program writes itself is no part of a change, and neither is a file that its user names.
    """
    opaque = frozenset(path for path in brought if not path.lower().endswith(_TEXTS))

    def rule(source: Source) -> Iterator[Sign]:
        if source.helper:
            return
        mentioned = bool(opaque) and any(
            isinstance(each, ast.expr) and _names_one(source, each, opaque) for each in source.nodes
        )
        for node in source.nodes:
            for entry in _on_path(source, node):
                if is_brought(source, entry, brought) or _is_archive(source, entry):
                    text = "puts a file on sys.path that is no folder, so that nobody reads what is imported from it."
                    yield Sign(node, _RULE, False, "sys.path", text)
            made = _made_of_data(source, node)
            if made is not None:
                kind, argument = made
                # A file that is named anywhere in the module reaches a function of its own as an argument.
                if is_brought(source, argument, brought) or (mentioned and not _is_known(source, argument)):
                    yield Sign(node, _RULE, False, kind, f"makes a program of a file with {kind} that nobody reads.")

    return rule


def _names_one(source: Source, node: ast.expr, files: frozenset[str]) -> bool:
    text = source.text(node)
    name = text.replace("\\", "/").rpartition("/")[2] if text and len(text) < 500 else ""  # noqa: PLR2004 - no path
    return bool(name) and any(path.rpartition("/")[2] == name for path in files)


def _is_known(source: Source, argument: ast.expr) -> bool:
    """Whether the program says which file that is: then it is looked for by its name alone."""
    return any(source.text(each) for each in source.expressions(argument)) or isinstance(argument, ast.Constant)


def _on_path(source: Source, node: ast.AST) -> Iterator[ast.expr]:
    """What becomes a part of `sys.path`, however it gets there."""
    match node:
        case ast.Call(func=func, args=args):
            for name in source.names(func):
                owner, _, method = name.rpartition(".")
                if (owner in _PATHS and method in _GROWS) or name == "site.addsitedir":
                    yield from args
        case ast.AugAssign(target=target, value=value) if source.names(target) & _PATHS:
            yield value
        case ast.Assign(targets=targets, value=value) if any(_is_path(source, each) for each in targets):
            yield value
        case _:
            return


def _is_path(source: Source, target: ast.expr) -> bool:
    whole = target.value if isinstance(target, ast.Subscript) else target
    return isinstance(whole, ast.Attribute | ast.Name) and "sys.path" in source.names(whole)


def _is_archive(source: Source, entry: ast.expr) -> bool:
    return any(
        (text := _last_text(source, each)) is not None and _ARCHIVE.fullmatch(text.strip())
        for each in source.expressions(entry)
        if not _is_asked_for(source, each)
    )


def _is_asked_for(source: Source, node: ast.AST) -> bool:
    """`each.endswith(".zip")` says what an entry is not."""
    match source.parent(node):
        case ast.Call(func=ast.Attribute(attr="endswith" | "startswith")) | ast.Compare():
            return True
        case _:
            return False


def _last_text(source: Source, node: ast.expr) -> str | None:
    """The text of an expression; of one that is only partly known, how it ends."""
    text = source.text(node)
    if text is None and isinstance(node, ast.JoinedStr) and node.values:
        return source.text(node.values[-1])
    return text


def _made_of_data(source: Source, node: ast.AST) -> tuple[str, ast.expr] | None:
    """The call that makes objects or functions of a file, and the argument that says of which."""
    match node:
        case ast.Subscript(value=value, slice=key) if source.names(value) & {"ctypes.cdll", "ctypes.pydll"}:
            return "ctypes", key
        case ast.Call(func=func):
            names = source.names(func)
            argument = node.args[0] if node.args else next((each.value for each in node.keywords), None)
        case _:
            return None
    if argument is None:
        return None
    for name in sorted(names):
        family, _, rest = name.partition(".")
        if family in _PICKLES and rest.rpartition(".")[2] in _UNPICKLES:
            return family, argument
        if name in _SHELVES:
            return "shelve", argument
        if name in _LIBRARIES:
            return family, argument
    return None
