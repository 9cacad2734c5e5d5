"""Rules about product code that changes what judges it: clock, chance, built-ins, frameworks, any module of Python."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

from pytest_iterctl.gate.findings import Sign
from pytest_iterctl.gate.paths import FRAMEWORKS, is_about
from pytest_iterctl.gate.source import FUNCTIONS, Source
from pytest_iterctl.gate.stdlib import is_function, module_of

__all__ = ["patches"]

_JUDGES = {"time", "datetime", "random", "os", "sys", "builtins", "math", "operator"}
_JUDGES |= {*FRAMEWORKS, "doctest"}
#: What programs set as a matter of course.
_TO_BE_SET = re.compile(
    r"sys\.(?:std(?:in|out|err)(?:\.\w+)*|__std(?:in|out|err)__|argv|path|exc\w*hook|displayhook|unraisablehook"
    r"|breakpointhook|ps[12]|last_\w+|dont_write_bytecode|tracebacklimit|warnoptions|executable"
    r"|(?:exec_|pycache_|base_|real_|base_exec_)?prefix|_\w+)"
    r"|os\.(?:environ\[\]|umask)|builtins\._|unittest\.TestCase\.(?:maxDiff|longMessage)|\w+\.__\w+__"
)
#: Settings of modules that judge nothing.
_SETTINGS = re.compile(
    r"warnings\.(?:showwarning|formatwarning|filters)|(?:logging|signal|locale|gettext|multiprocessing|readline)\..*"
    r"|threading\.(?:excepthook|_\w+)|decimal\.\w*Context(?:\.\w+)?|asyncio\.\w*[pP]olicy\w*(?:\.\w+)*"
    r"|ssl\._create_default_https_context|socket\._GLOBAL_DEFAULT_TIMEOUT|tempfile\.(?:tempdir|template)"
    r"|\w+\.__\w+__|[\w.]+\.__(?:module|doc|name|qualname|signature|annotations)__"
)
_PYTHONS = sys.stdlib_module_names - _JUDGES
_TRANSPORT = {"socket", "ssl"}  # proxies, tunnels and green threads put themselves in their place
_HOOKS = {"sys.meta_path", "sys.path_hooks"}
_CHANGES = {"append", "insert", "extend", "remove", "clear", "pop", "__setitem__", "sort", "reverse"}
_FILLS = (".__dict__.update", ".__dict__.__setitem__")


def patches(source: Source) -> Iterator[Sign]:
    """Attributes of modules that judge (clock, chance, builtins, frameworks), or any of Python's, set by a product."""
    for node in source.nodes:
        match node:
            case ast.Attribute(value=base, attr=attribute, ctx=ast.Store() | ast.Del()):
                yield from _patched(source, node, source.names(node), source.stored(node))
                yield from _rewritten(source, node, base, attribute)
            case ast.Subscript(value=base, slice=key, ctx=ast.Store() | ast.Del()):
                if "sys.modules" in source.names(base):
                    yield from _replaced(source, node, source.text(key))
                else:
                    yield from _patched(source, node, source.names(node), source.stored(node))
            case ast.Call():
                yield from _patched_by_call(source, node)
            case _:
                pass


def _patched(source: Source, node: ast.AST, names: frozenset[str], stored: ast.expr | None = None) -> Iterator[Sign]:
    for name in names:
        module, _, rest = name.partition(".")
        if name in _HOOKS or name.removesuffix("[]") in _HOOKS:
            yield _hooked(source, node, name.removesuffix("[]"))
        elif module in _JUDGES and rest and "()" not in name and not _TO_BE_SET.fullmatch(name):
            if "[]" in rest and module in {"os", "sys"}:  # an item of something, or a module that nobody can name
                continue
            certain = not source.helper and "[]" not in rest
            yield Sign(node, "patches", certain, name, f"replaces {name}, which the tests themselves rely on.")
        elif module == "__main__" and rest and "()" not in name:
            text = f"sets {name}: the program that runs is the one that judges."
            yield Sign(node, "patches", not source.helper, name, text, unless="iterctl")
        elif module in _PYTHONS and "()" not in name and "[]" not in name and not _SETTINGS.fullmatch(name):
            yield from _replaced_in_python(source, node, name, stored)


def _replaced_in_python(source: Source, node: ast.AST, name: str, stored: ast.expr | None) -> Iterator[Sign]:
    """Another function in a module of Python: whoever calls it gets the product's answer, the tests too."""
    module, rest = module_of(name)
    if rest:
        own = _is_own_function(source, stored) and "." not in rest and module.split(".")[0] not in _TRANSPORT
        certain = own and is_function(module, rest) and not source.helper
        yield Sign(node, "patches", certain, name, f"replaces {name} for everybody in the process.")


def _is_own_function(source: Source, value: ast.expr | None) -> bool:
    match value:
        case ast.Lambda():
            return True
        case ast.Name(id=name):
            given = source.given(value)
            if any(each.startswith(".") and "." in each.lstrip(".") for each in source.names(value)):  # from beside it
                return True
            return name in source.functions if given is None else isinstance(given, ast.Lambda)
        case ast.Call(func=func, args=[first, *_]):
            wraps = {"functools.partial", "builtins.staticmethod", "functools.update_wrapper"}
            return bool(source.names(func) & wraps) and _is_own_function(source, first)
        case _:
            return False


def _rewritten(source: Source, node: ast.AST, base: ast.expr | None, attribute: str | None) -> Iterator[Sign]:
    """`f.__code__ = …`: another program in the place of a function that keeps its name."""
    if attribute != "__code__" or not isinstance(base, ast.expr):
        return
    own = isinstance(base, ast.Name) and (base.id in {"self", "cls"} or _is_defined_here(source, base))
    if not own:
        text = "puts other code into a function that isn't its own, by its __code__."
        yield Sign(node, "patches", not source.helper, "__code__", text)


def _is_defined_here(source: Source, name: ast.Name) -> bool:
    """Whether a name is that of a function in this file, and not an import or parameter that is called the same."""
    if name.id not in source.functions or source.names(name) or source.given(name) is not None:
        return False
    functions = [each for each in source.above(name) if isinstance(each, FUNCTIONS)]
    return not any(
        name.id == each.arg
        for function in functions
        for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    )


def _hooked(source: Source, node: ast.AST, name: str) -> Sign:
    certain = not source.helper and not is_about(
        source.path, "import", "hook", "loader", "finder", "lazy", "editable", "vendor", "six", "extern", "bootstrap"
    )
    return Sign(node, "hooks-imports", certain, name, f"changes {name}, and so what the tests import.")


def _replaced(source: Source, node: ast.AST, key: str | None) -> Iterator[Sign]:
    first = (key or "").split(".")[0]
    if first in _JUDGES - {"os", "sys"} or first in {"os", "sys", "conftest", "tests"} or first.startswith("test_"):
        if (key or "").count(".") and first in {"os", "unittest"}:
            return
        certain = not source.helper
        yield Sign(node, "replaces-module", certain, first, f"puts something else in the place of the module {key}.")


def _patched_by_call(source: Source, call: ast.Call) -> Iterator[Sign]:
    first = call.args[0] if call.args else None
    for name in source.names(call.func):
        unbound = name.endswith(".__setattr__") and len(call.args) > 2  # noqa: PLR2004 - the object, a name and a value
        if unbound or (name in {"builtins.setattr", "builtins.delattr"} and len(call.args) > 1):
            attribute = source.text(call.args[1]) or "[]"
            value = call.args[2] if len(call.args) > 2 else None  # noqa: PLR2004 - delattr has none
            yield from _patched(source, call, frozenset(f"{base}.{attribute}" for base in source.names(first)), value)
            yield from _rewritten(source, call, first, attribute)
        elif name.endswith(_FILLS):
            owner = name.split(".__dict__")[0]
            yield from _patched(source, call, frozenset({f"{owner}.attributes"}))
        elif name.endswith(".__setattr__") and len(call.args) == 2:  # noqa: PLR2004 - bound: a name and a value
            owner = name.removesuffix(".__setattr__")
            yield from _patched(source, call, frozenset({f"{owner}.{source.text(first) or 'attributes'}"}))
        elif name.rpartition(".")[0] in _HOOKS and name.rpartition(".")[2] in _CHANGES:
            yield _hooked(source, call, name.rpartition(".")[0])
        elif name in {"sys.modules.__setitem__", "sys.modules.setdefault", "sys.modules.pop"}:
            yield from _replaced(source, call, source.text(first))
        elif name == "importlib.reload":
            yield from (sign for base in source.names(first) for sign in _replaced(source, call, base))
