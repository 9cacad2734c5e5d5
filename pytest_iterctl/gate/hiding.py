"""Rules about code that nobody can read where it is run: decoded text, code in data files, names put together."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from itertools import islice

from pytest_iterctl.gate.findings import Sign
from pytest_iterctl.gate.paths import is_about, is_program
from pytest_iterctl.gate.source import Source

__all__ = ["hides_code", "is_brought", "runs_hidden_text"]

_RULE = "runs-hidden-text"
_FROM_FILE = "reads from a data file"
_RUNS = {"builtins.exec", "builtins.eval", "builtins.compile"}
_DECODES = {"base64", "binascii", "codecs", "zlib", "bz2", "lzma", "marshal", "builtins.bytes", "builtins.chr"}
#: What only hides: nobody stores a program like this who wants it to be read.
_VEILS = {"base64", "binascii", "zlib", "bz2", "lzma", "marshal"}
_VEILING_CODECS = {"rot13", "rot_13", "base64", "base64_codec", "hex", "hex_codec", "zlib", "zlib_codec", "bz2", "uu"}
_NUMBERS = {"builtins.chr", "builtins.bytes", "builtins.bytearray", "builtins.bytes.fromhex"}
_HIDDEN = {"_exit", "_getframe", "settrace", "setprofile", "get_objects", "meta_path", "modules", "abort"}
_READS = {"read_text", "read_bytes", "read"}
_RESOURCES = {"pkgutil.get_data", "importlib.resources.read_text", "importlib.resources.read_binary"}
_OWN = {"__file__", "importlib.resources.files()", "importlib.resources.path()"}
#: Modules whose subject is to run programs that they are given.
_RUNNERS = ("import", "loader", "runpy", "pkgutil", "freez", "bundl", "kernel", "notebook", "sandbox")
_MOST_PARTS = 2_000  # of one text
_PROGRAM_FILES = (".py", ".pyi", ".pyw", ".pyx")
#: What makes a module of any file, with the place of the file among the arguments.
_LOADERS = {
    **dict.fromkeys(("SourceFileLoader", "SourcelessFileLoader", "ExtensionFileLoader", "spec_from_file_location"), 1),
    **dict.fromkeys(("load_source", "load_compiled", "load_dynamic"), 1),
    **dict.fromkeys(("run_path", "zipimporter"), 0),
}
_LOADING = {"importlib", "_frozen_importlib_external", "imp", "runpy", "zipimport"}
_UNMARSHALS = {"marshal.loads", "marshal.load"}
_SHORTEST = 3  # letters of a file's name, from its end, that tell which file is meant: `dat`


def hides_code(source: Source) -> Iterator[Sign]:
    """Names that are put together so that nobody finds them."""
    for node in source.nodes:
        if not isinstance(node, ast.Call) or len(node.args) < 2:  # noqa: PLR2004 - an object and a name
            continue
        if "builtins.getattr" in source.names(node.func) and not source.names(node):
            attribute = source.text(node.args[1])
            if attribute in _HIDDEN and not isinstance(node.args[1], ast.Constant):
                yield Sign(node, "hides-code", False, attribute, f"spells {attribute!r} so that it can't be found.")
            elif attribute is None and _is_decoded(source, node.args[1]) and source.names(node.args[0]) & {"os", "sys"}:
                yield Sign(node, "hides-code", False, "getattr", "takes an attribute whose name is decoded first.")


def runs_hidden_text(added: frozenset[str]) -> Callable[[Source], Iterator[Sign]]:
    """`exec` of what was decoded, put together from numbers, or read from a data file of the product.

    A file that somebody names in an argument is a plugin or a configuration, and a `.py` file is read by these rules
    like any other. Code that is generated from its own pieces can be read where it is. `added` are the data files that
    come with the change: a program in one of those is there for nothing but to be overlooked.
    """

    def rule(source: Source) -> Iterator[Sign]:
        aside = source.helper or is_program(source.path) or is_about(source.path, *_RUNNERS)
        for node in source.nodes:
            if not isinstance(node, ast.Call) or not (node.args or node.keywords):
                continue
            names = source.names(node.func)
            if (run := names & _RUNS) and node.args:
                what = min(run).removeprefix("builtins.")
                origin = _origin(source, node.args[0])
                brought = origin == _FROM_FILE and is_brought(source, node.args[0], added)
                certain = brought or (origin == "decodes" and not aside)
                if origin and (certain or origin == "decodes" or not aside):
                    text = f"runs a program with {what} that it {origin} first, where nobody can read it."
                    yield Sign(node, _RULE, certain and not source.helper, what, text)
            elif names & _UNMARSHALS and node.args:
                certain = is_brought(source, node.args[0], added) and not source.helper
                if certain or not aside:
                    yield Sign(node, _RULE, certain, "marshal", "makes code of bytes with marshal: nobody can read it.")
            else:
                yield from _loaded(source, node, names, added, aside=aside)

    return rule


def _loaded(
    source: Source, call: ast.Call, names: frozenset[str], added: frozenset[str], *, aside: bool
) -> Iterator[Sign]:
    """A module made of a file that is no source, where the program itself says which file that is."""
    loader = next((name.split(".")[-1] for name in sorted(names) if name.split(".")[0] in _LOADING), "")
    place = _LOADERS.get(loader)
    if place is None:
        return
    by_name = (each.value for each in call.keywords if each.arg in {"path", "location", "path_name", "pathname"})
    path = call.args[place] if len(call.args) > place else next(by_name, None)
    if path is None:
        return
    brought = is_brought(source, path, added)
    own = source.text(path) is not None or any(source.names(each) & _OWN for each in source.expressions(path))
    if brought or (own and not aside and not _names_a_program(source, path) and not _is_module_itself(source, path)):
        text = f"runs a file with {loader} that is no source, so that nobody reads it."
        yield Sign(call, _RULE, brought and not source.helper, loader, text)


def _is_module_itself(source: Source, path: ast.expr) -> bool:
    """`run_path(__file__)`, and a folder with a program in it."""
    texts = [source.text(part) for part in source.expressions(path)]
    return not any(text and "." in text.strip("./") for text in texts)


def is_brought(source: Source, node: ast.expr, added: frozenset[str]) -> bool:
    """Whether a file is meant that comes with the change: by its name, or beside the module with another ending."""
    if not added:
        return False
    parts = list(source.expressions(node))
    files = {opened: None for part in parts if (opened := _opened(source, part)) is not part}
    known = [*parts, *islice((part for file in files for part in source.expressions(file)), _MOST_PARTS)]
    beside = any(source.names(part) & _OWN for part in known)
    for text in filter(None, map(source.text, known)):
        name = text.replace("\\", "/").rpartition("/")[2]
        for path in added:
            file = path.rpartition("/")[2]
            if name == file or (beside and len(name.lstrip(".")) >= _SHORTEST and file.endswith(name)):
                return True
    return False


def _origin(source: Source, node: ast.expr) -> str:
    """Where a text comes from, as a verb; empty when it is written where it is run, or not known."""
    parts = list(islice(_parts(source, node), _MOST_PARTS))
    if any(_is_veiled(source, part) for part in parts):
        return "decodes"
    if any(isinstance(part, ast.Call) and source.names(part.func) & _NUMBERS for part in parts):
        return "puts together"
    return _FROM_FILE if any(_reads_own_data(source, part) for part in parts) else ""


def _parts(source: Source, node: ast.expr, through: int = 3) -> Iterator[ast.expr]:
    """The expressions that a text is made of, through the names that were given once and files that are open.

    An argument of some function is no part: what a template engine makes of a file is another text.
    """
    yield node
    inner: list[ast.expr] = []
    match node:
        case ast.Name() if through:
            given = source.given(node)
            yield from () if given is None else _parts(source, given, through - 1)
        case ast.Call(func=ast.Attribute(value=value, attr="join"), args=[argument]):
            inner = [value, argument]
        case ast.Call(func=func, args=arguments) if _passes_on(source, func):
            inner = [*arguments[:1], *([func.value] if isinstance(func, ast.Attribute) else [])]
        case ast.Call(func=ast.Attribute(value=value)):
            inner = [value]
        case ast.BinOp(left=left, right=right):
            inner = [left, right]
        case ast.Subscript(value=value) | ast.Starred(value=value):
            inner = [value]
        case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element) | ast.IfExp(body=element):
            inner = [element]
        case _:
            pass
    for each in inner:
        yield from _parts(source, each, through)


def _passes_on(source: Source, func: ast.expr) -> bool:
    """A call whose result is its argument in another dress."""
    names = source.names(func)
    plain = {"builtins.str", "builtins.compile", "builtins.bytes", "builtins.map", "builtins.reversed"}
    return bool(names & plain) or any(
        name in _DECODES or name.split(".")[0] in {*_DECODES, "json", "tomllib"} for name in names
    )


def _is_veiled(source: Source, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    names = source.names(node.func)
    if any(name.split(".")[0] in _VEILS for name in names):
        return True
    codec = node.args[1] if len(node.args) > 1 else next((each.value for each in node.keywords), None)
    return "codecs.decode" in names and (source.text(codec) or "").lower().replace("-", "_") in _VEILING_CODECS


def _reads_own_data(source: Source, node: ast.expr) -> bool:
    """`Path(__file__).with_name("x.dat").read_text()`, and the other ways to read what lies beside the module."""
    if not isinstance(node, ast.Call):
        return False
    names = source.names(node.func)
    if names & _RESOURCES:
        return not _names_a_program(source, node)
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in _READS:
        return False
    place = _opened(source, node.func.value)
    own = any(source.names(each) & _OWN for each in source.expressions(place)) or _is_given(source, place)
    return own and not _names_a_program(source, place)


def _is_given(source: Source, place: ast.expr) -> bool:
    """`open("x.dat")`: a file that the program itself names, in full."""
    return isinstance(place, ast.Call) and bool(place.args) and bool(source.text(place.args[0]))


def _opened(source: Source, node: ast.expr) -> ast.expr:
    """What a file was opened with, where it has a name: `with open(…) as file`."""
    if not isinstance(node, ast.Name):
        return node
    for each in source.above(node):
        if isinstance(each, ast.With | ast.AsyncWith):
            for item in each.items:
                if isinstance(item.optional_vars, ast.Name) and item.optional_vars.id == node.id:
                    return item.context_expr
    return source.given(node) or node


def _names_a_program(source: Source, node: ast.expr) -> bool:
    texts = (source.text(part) for part in source.expressions(node))
    return any(text is not None and text.endswith(_PROGRAM_FILES) for text in texts)


def _is_decoded(source: Source, node: ast.expr, *, through_name: bool = True) -> bool:
    for part in ast.walk(node):
        if isinstance(part, ast.Call):
            for name in source.names(part.func):
                if name in _DECODES or name.split(".")[0] in _DECODES or name.startswith("builtins.bytes."):
                    return True
    given = source.given(node) if isinstance(node, ast.Name) else None
    return through_name and given is not None and _is_decoded(source, given, through_name=False)
