"""One Python file as the rules read it: what each name stands for through imports and assignments, and where it is."""

from __future__ import annotations

import ast
import builtins
import codecs
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from pytest_iterctl.gate.constants import spelt

__all__ = ["FUNCTIONS", "Source", "Unreadable", "parse", "strange_encoding"]

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*FUNCTIONS, ast.ClassDef, ast.Module)
_MOST_NAMES = 8  # one name may be given many things; no honest program needs more than a few
_DEEPEST = 24
_LARGEST = 1_000_000
_MOST_PARTS = 2_000  # names that are sums of names that are sums would never end
_BUILTIN = frozenset(name for name in dir(builtins) if not name.startswith("__") or name == "__import__")
_CARRIED = {"os", "sys", "builtins"}  # modules that nearly every module of the standard library carries along


_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_BLANK = re.compile(rb"^[ \t\f]*(?:#.*)?$")
#: Encodings, as Python calls them, that people have written programs in: what is ASCII in there looks like ASCII.
_WRITTEN_IN = re.compile(
    r"utf-8(?:-sig)?|ascii|iso8859-\d+|cp\d+|koi8-\w|mac-\w+|gb\w+|big5\w*|shift_jis\w*|euc_\w+|johab|tis-620|hp-roman8"
    r"|ptcp154|kz1048"
)


class Unreadable(Exception):  # noqa: N818 - a reason to skip a file, not an error of ours
    """A file that can't be looked at, with the reason as people are told it."""


def parse(data: bytes) -> ast.Module | None:
    """The file's tree; None for what Python can't compile, because the tests will tell."""
    if len(data) > _LARGEST:
        raise Unreadable(f"it has {len(data):,} bytes, more than the {_LARGEST:,} that are looked at")
    if b"\0" in data:
        raise Unreadable("it is binary")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(data)
    except (SyntaxError, ValueError):
        return None
    except (RecursionError, MemoryError):
        raise Unreadable("it is nested too deeply") from None


def strange_encoding(data: bytes) -> str:
    """The encoding that a file declares, if that is one that hides what it says; empty for all usual ones."""
    for number, line in enumerate(re.split(rb"\r\n|\r|\n", data[:4000])[:2]):
        cookie = _COOKIE.match(line.removeprefix(codecs.BOM_UTF8) if not number else line)
        if cookie is not None:
            name = cookie[1].decode("ascii", "replace")
            try:
                known = codecs.lookup(name).name
            except (LookupError, ValueError):
                return name
            return "" if _WRITTEN_IN.fullmatch(known) else name
        if not _BLANK.match(line):
            return ""
    return ""


@dataclass(slots=True)
class _Scope:
    """What the names of a function, class or module were given: a dotted name, an expression, or nothing known."""

    given: dict[str, list[str | ast.expr | None]] = field(default_factory=dict)

    def bind(self, name: str, value: str | ast.expr | None) -> None:
        self.given.setdefault(name, []).append(value)


class Source:
    """A tree with its parents, scopes and names; `helper` for a module that has always been there for tests."""

    def __init__(self, path: str, tree: ast.Module, *, helper: bool = False) -> None:
        self.path = path
        self.helper = helper
        self.tree = tree
        self.nodes: list[ast.AST] = []
        self._parents: dict[ast.AST, ast.AST] = {}
        self._scopes: dict[ast.AST, _Scope] = {tree: _Scope()}
        self._stars: list[str] = []
        self._texts: dict[ast.expr, str | None] = {}
        self._known: dict[ast.AST, frozenset[str]] = {}
        for node in ast.walk(tree):
            self.nodes.append(node)
            if isinstance(node, _SCOPES):
                self._scopes.setdefault(node, _Scope())
            for child in ast.iter_child_nodes(node):
                self._parents[child] = node
        for node in self.nodes:
            self._bind(node)

    # ── where ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """Everything around a node, the nearest first."""
        while (parent := self._parents.get(node)) is not None:
            yield parent
            node = parent

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self._parents.get(node)

    def statement(self, node: ast.AST) -> ast.AST:
        """The innermost statement that a node is part of."""
        if isinstance(node, ast.stmt):
            return node
        return next((each for each in self.above(node) if isinstance(each, ast.stmt)), node)

    def function(self, node: ast.AST) -> ast.AST | None:
        """The innermost function around a node; None at import time. Decorators and defaults run outside of theirs."""
        below = node
        for each in self.above(node):
            if isinstance(each, FUNCTIONS) and _is_body(each, below):
                return each
            below = each
        return None

    def place(self, node: ast.AST) -> str:
        """The dotted path of functions and classes around a node; empty at the top."""
        around = [node, *self.above(node)]
        named = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        return ".".join(each.name for each in reversed(around) if isinstance(each, named))

    def guarded(self, node: ast.AST, *words: str) -> bool:
        """Whether a node lies below an `if` whose test mentions one of the names or texts."""
        return any(isinstance(each, ast.If) and _mentions(each.test, words) for each in self.above(node))

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        """The functions of the file by name; the last one where there are several."""
        return {each.name: each for each in self.nodes if isinstance(each, ast.FunctionDef)}

    @cached_property
    def typing_only(self) -> frozenset[ast.AST]:
        """Imports that no run ever executes."""
        blocks = [each for each in self.nodes if isinstance(each, ast.If) and _mentions(each.test, ("TYPE_CHECKING",))]
        return frozenset(node for block in blocks for part in block.body for node in ast.walk(part))

    # ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def names(self, node: ast.AST | None, depth: int = 0) -> frozenset[str]:
        """The dotted names that an expression may stand for: `o._exit` is `os._exit` after `import os as o`.

        What a call gives is its name with `()`, what a subscript gives its name with `[]`. Unknown is empty.
        """
        if node is None or depth > _DEEPEST:
            return frozenset()
        known = self._known.get(node)
        if known is None:
            self._known[node] = frozenset()  # a name that is given itself stands for nothing
            found = frozenset(sorted(map(_plain, self._stands_for(node, depth + 1)))[:_MOST_NAMES])
            self._known[node] = known = found
        return known

    def text(self, node: ast.AST | None) -> str | None:
        """The text that an expression always has, however it is spelt."""
        return spelt(node, self._text_of) if isinstance(node, ast.expr) else None

    def _text_of(self, name: ast.Name) -> str | None:
        given = self.given(name)
        if given is None:
            return None
        if given not in self._texts:
            self._texts[given] = None  # a text that is made of itself is not known
            self._texts[given] = spelt(given, self._text_of)
        return self._texts[given]

    def given(self, name: ast.Name) -> ast.expr | None:
        """The one expression that a name was given; None for anything else."""
        given = self._given(name)
        return given[0] if given is not None and len(given) == 1 and isinstance(given[0], ast.expr) else None

    def expressions(self, node: ast.AST) -> Iterator[ast.expr]:
        """The expressions in a node, and in what its names were given; a bounded number of them."""
        return islice(self._expressions(node, 3), _MOST_PARTS)

    def _expressions(self, node: ast.AST, through: int) -> Iterator[ast.expr]:
        for part in ast.walk(node):
            if isinstance(part, ast.expr):
                yield part
            if isinstance(part, ast.Name) and through and (given := self.given(part)) is not None:
                yield from self._expressions(given, through - 1)

    def stored(self, target: ast.AST) -> ast.expr | None:
        """What an assignment puts in the place of a target; None when that isn't known."""
        match self.parent(target):
            case ast.Assign(value=value) | ast.AnnAssign(value=value):
                return value
            case (ast.Tuple(elts=places) | ast.List(elts=places)) as group:
                match self.parent(group):
                    case ast.Assign(value=ast.Tuple(elts=values) | ast.List(elts=values)) if len(values) == len(places):
                        return next(value for place, value in zip(places, values, strict=True) if place is target)
                    case _:
                        return None
            case _:
                return None

    def _given(self, name: ast.Name) -> list[str | ast.expr | None] | None:
        below: ast.AST = name
        own = True
        for each in self.above(name):
            scope = self._scopes.get(each)
            # A class's names are seen in its own body only, and a function's not in its decorators and defaults.
            seen = own if isinstance(each, ast.ClassDef) else not isinstance(each, FUNCTIONS) or _is_body(each, below)
            if scope is not None and seen:
                if name.id in scope.given:
                    return scope.given[name.id]
                own = False
            below = each
        return None

    def _stands_for(self, node: ast.AST, depth: int) -> Iterator[str]:
        match node:
            case ast.Name(id=name):
                given = self._given(node)
                if given is None:
                    yield from _unbound(name, self._stars)
                for value in given or ():
                    yield from (value,) if isinstance(value, str) else self.names(value, depth)
            case ast.Attribute(value=base, attr=attr):
                yield from (f"{name}.{attr}" for name in self.names(base, depth))
            case ast.Subscript(value=base, slice=key):
                yield from self._item(base, key, depth)
            case ast.Call():
                yield from self._result(node, depth)
            case ast.NamedExpr(value=value) | ast.Starred(value=value):
                yield from self.names(value, depth)
            case ast.IfExp(body=one, orelse=other):
                yield from self.names(one, depth) | self.names(other, depth)
            case ast.BoolOp(values=values):
                for value in values:
                    yield from self.names(value, depth)
            case _:
                return

    def _item(self, base: ast.expr, key: ast.expr, depth: int) -> Iterator[str]:
        text = self.text(key)
        for name in self.names(base, depth):
            if text is None:
                yield f"{name}[]"
            elif name == "builtins.globals()":
                for value in self._scopes[self.tree].given.get(text, ()):
                    yield from (value,) if isinstance(value, str) else self.names(value, depth)
            elif name == "sys.modules":
                yield text
            elif name.endswith(".__dict__") or name == "builtins":
                yield f"{name.removesuffix('.__dict__')}.{text}"
            else:
                yield f"{name}[]"

    def _result(self, call: ast.Call, depth: int) -> Iterator[str]:
        first = call.args[0] if call.args else None
        for name in self.names(call.func, depth):
            match name:
                case "builtins.getattr" | "inspect.getattr_static" if len(call.args) > 1:
                    attribute = self.text(call.args[1])
                    yield from (f"{base}.{attribute}" for base in self.names(first, depth) if attribute)
                case "builtins.__import__" | "importlib.import_module" | "importlib.__import__":
                    yield self.text(first) or ""
                case "builtins.vars":
                    yield from (f"{base}.__dict__" for base in self.names(first, depth))
                case "sys.modules.get" | "sys.modules.pop" | "sys.modules.__getitem__":
                    yield self.text(first) or ""
                case "operator.attrgetter()":
                    attribute = self.text(call.func.args[0]) if isinstance(call.func, ast.Call) else None
                    yield from (f"{base}.{attribute}" for base in self.names(first, depth) if attribute)
                case _ if name.endswith((".__getattribute__", ".__dict__.get", ".__dict__.__getitem__")):
                    owner = name.rsplit(".", 1)[0].removesuffix(".__dict__")
                    yield f"{owner}.{self.text(first) or ''}"
                case _:
                    yield f"{name}()"

    # ── what gives names their meaning ───────────────────────────────────────────────────────────────────────────────

    def _scope(self, node: ast.AST) -> _Scope:
        return next(self._scopes[each] for each in self.above(node) if each in self._scopes)

    def _bind(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=names):
                for each in names:
                    self._scope(node).bind(each.asname or each.name.split(".")[0], _imported(each))
            case ast.ImportFrom(module=module, names=names, level=level):
                origin = "." * level + (module or "")
                for each in names:
                    if each.name == "*":
                        self._stars.append(origin)
                    else:
                        self._scope(node).bind(each.asname or each.name, f"{origin}.{each.name}")
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, value)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self._assign(target, value)
            case ast.NamedExpr(target=target, value=value):
                self._assign(target, value)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                self._scope(node).bind(name, None)
            case ast.ExceptHandler(name=str() as name):
                self._scope(node).bind(name, None)
            case ast.Name(id=name, ctx=ast.Store()) if not self._is_assigned(node):
                self._scope(node).bind(name, None)
            case _:
                pass
        if isinstance(node, FUNCTIONS):
            self._bind_parameters(node.args, self._scopes[node])

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._scope(target).bind(target.id, value)
        elif isinstance(target, ast.Tuple | ast.List):
            values = value.elts if isinstance(value, ast.Tuple | ast.List) else []
            whole = len(values) == len(target.elts)
            for place, each in enumerate(target.elts):
                if whole:
                    self._assign(each, values[place])
                elif isinstance(each, ast.Name):
                    self._scope(each).bind(each.id, None)

    def _is_assigned(self, name: ast.Name) -> bool:
        """Whether an assignment says what the name is given; loops, `with` and `*rest` don't."""
        around = next((each for each in self.above(name) if not isinstance(each, ast.Tuple | ast.List)), None)
        return isinstance(around, ast.Assign | ast.AnnAssign | ast.NamedExpr)

    @staticmethod
    def _bind_parameters(arguments: ast.arguments, scope: _Scope) -> None:
        positional = [*arguments.posonlyargs, *arguments.args]
        padding: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
        for parameter, default in zip(positional, [*padding, *arguments.defaults], strict=True):
            scope.bind(parameter.arg, default)
        for parameter, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            scope.bind(parameter.arg, default)
        for rest in (arguments.vararg, arguments.kwarg):
            if rest is not None:
                scope.bind(rest.arg, None)


def _is_body(function: ast.AST, child: ast.AST) -> bool:
    body = getattr(function, "body", None)
    return child is body or (isinstance(body, list) and child in body)


def _mentions(test: ast.expr, words: tuple[str, ...]) -> bool:
    for node in ast.walk(test):
        match node:
            case ast.Name(id=word) | ast.Attribute(attr=word) | ast.Constant(value=str() as word) if word in words:
                return True
            case _:
                pass
    return False


def _imported(alias: ast.alias) -> str:
    return alias.name if alias.asname else alias.name.split(".")[0]


def _unbound(name: str, stars: list[str]) -> Iterator[str]:
    if name == "__builtins__":
        yield "builtins"
    elif name in _BUILTIN:
        yield f"builtins.{name}"
    elif name == "__file__":
        yield "__file__"
    yield from (f"{origin}.{name}" for origin in stars)


def _plain(name: str) -> str:
    """`shutil.os._exit` and `posix._exit` are `os._exit`."""
    parts = name.split(".")
    if parts[0] in sys.stdlib_module_names:
        carried = [place for place, part in enumerate(parts) if place and part in _CARRIED]
        parts = parts[carried[-1] :] if carried else parts
    if parts[0] in {"posix", "nt"}:
        parts[0] = "os"
    if parts[:2] in (["io", "open"], ["_io", "open"], ["codecs", "open"]):
        parts[0] = "builtins"
    return ".".join(parts)
