"""Rules about product code that knows the test framework, asks whether it is tested, or changes what judges it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from pytest_iterctl.gate.findings import Sign
from pytest_iterctl.gate.paths import is_about, is_test_helper
from pytest_iterctl.gate.source import Source

__all__ = ["asks_whether_it_is_tested", "imports_framework", "patches", "steers_outcome"]

_FRAMEWORKS = ("pytest", "_pytest", "pluggy", "unittest")
_HARMLESS_UNITTEST = {"unittest", "unittest.mock", "unittest.util"}
_OUTCOMES = {
    *(f"pytest.{name}" for name in ("exit", "skip", "xfail", "importorskip")),
    *(f"_pytest.outcomes.{name}" for name in ("exit", "skip", "xfail", "importorskip", "Exit", "Skipped", "XFailed")),
    *("pytest.skip.Exception", "pytest.exit.Exception", "unittest.SkipTest", "unittest.case.SkipTest"),
    *("unittest.mock.ANY", "unittest.skip"),
}
_PROBES = {"os.environ", "os.environb", "os.getenv", "os.getenvb", "sys.modules", "sys.argv", "sys.orig_argv"}
_RUNNER = re.compile(r"(?i)pytest|py\.test|unittest|conftest|\btests?_|_tests?\b|^tests?$|\btests?[/.]")
_SURELY = re.compile(r"(?i)^_?pytest|py\.test|conftest|^test_|^tests?[/.]")
_VARIABLE = re.compile(r"PYTEST(_[A-Z0-9_]*)?")
_JUDGES = {"time", "datetime", "random", "os", "sys", "builtins", "math", "operator"}
_JUDGES |= {"pytest", "_pytest", "pluggy", "unittest", "doctest"}
#: What programs set as a matter of course.
_TO_BE_SET = re.compile(
    r"sys\.(?:std(?:in|out|err)(?:\.\w+)*|__std(?:in|out|err)__|argv|path|exc\w*hook|displayhook|unraisablehook"
    r"|breakpointhook|ps[12]|last_\w+|dont_write_bytecode|tracebacklimit|warnoptions|executable"
    r"|(?:exec_|pycache_|base_|real_|base_exec_)?prefix|_\w+)"
    r"|os\.(?:environ\[\]|umask)|builtins\._|unittest\.TestCase\.(?:maxDiff|longMessage)|\w+\.__\w+__"
)
_HOOKS = {"sys.meta_path", "sys.path_hooks"}
_CHANGES = {"append", "insert", "extend", "remove", "clear", "pop", "__setitem__", "sort", "reverse"}
_FILLS = (".__dict__.update", ".__dict__.__setitem__")


def imports_framework(source: Source) -> Iterator[Sign]:
    """The test framework inside the product. Plugins and helpers for tests have a reason, so they are not asked."""
    if is_test_helper(source.path):
        return
    for node in source.nodes:
        if node in source.typing_only:
            continue
        for module in _imported(source, node):
            family = module.split(".")[0]
            if family not in _FRAMEWORKS:
                continue
            runs_tests = re.search(r"(?:^|[._])tests?$|(?:^|[._])run_?tests?", source.place(node)) is not None
            internal = family in {"pytest", "_pytest"} or module.startswith("pluggy._")
            internal |= family == "unittest" and module not in _HARMLESS_UNITTEST
            certain = internal and not runs_tests
            yield Sign(node, "imports-framework", certain, family, f"imports {module}, which belongs to the tests.")


def _imported(source: Source, node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (each.name for each in names)
        case ast.ImportFrom(module=str() as module, names=names, level=0):
            # `from unittest import mock` is no more than `import unittest.mock`.
            inner = module == "unittest" and len(names) == 1 and names[0].name in {"mock", "case", "runner", "result"}
            yield f"{module}.{names[0].name}" if inner else module
        case ast.Call(func=func, args=[name, *_]):
            by_name = {"builtins.__import__", "importlib.import_module", "importlib.__import__"}
            text = None if source.names(func).isdisjoint(by_name) else source.text(name)
            if text:
                yield text
        case _:
            return


def steers_outcome(source: Source) -> Iterator[Sign]:
    """`pytest.skip`, `pytest.exit`, `SkipTest`, `mock.ANY`: a test's outcome decided by what it tests."""
    for node in source.nodes:
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            for name in source.names(node) & _OUTCOMES:
                certain = not is_test_helper(source.path)
                yield Sign(node, "steers-outcome", certain, name, f"uses {name}: the product decides how a test ends.")


def asks_whether_it_is_tested(source: Source) -> Iterator[Sign]:
    """`PYTEST_CURRENT_TEST`, `'pytest' in sys.modules`, pytest in `sys.argv`."""
    helper = is_test_helper(source.path)
    told: set[ast.AST] = set()
    looked_at = _looked_at(source)
    for node in source.nodes:
        text = _own_text(source, node)
        if not text or len(text) > 200 or " " in text:  # noqa: PLR2004 - prose, not a name
            continue
        statement = source.statement(node)
        probe = next((looked_at[each] for each in source.above(node) if each in looked_at), "")
        if _VARIABLE.fullmatch(text) and not _sets_it(source, node):
            told.add(statement)
            yield _asks(node, bool(probe) and not helper, text)
        elif probe and statement not in told and _RUNNER.search(text) and _names_runner(probe, text):
            yield _asks(node, bool(_SURELY.search(text)) and not helper, f"{text!r} in {probe}")


def _asks(node: ast.AST, certain: bool, what: str) -> Sign:  # noqa: FBT001 - one call site per kind
    return Sign(node, "asks-whether-tested", certain, what, f"looks at {what} to find out whether it is being tested.")


def _names_runner(probe: str, text: str) -> bool:
    """A variable called `TEST_MODE` is the product's own switch; modules and arguments are not."""
    return not probe.startswith(("os.environ", "os.getenv")) or "pytest" in text.lower()


def _own_text(source: Source, node: ast.AST) -> str | None:
    """The text of an expression that isn't a docstring, and isn't told with a longer one anyway."""
    parent = source.parent(node)
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) and not isinstance(parent, ast.Expr) else None
    if not isinstance(node, ast.BinOp | ast.Call | ast.JoinedStr | ast.Subscript) or isinstance(parent, ast.BinOp):
        return None
    return source.text(node)


def _looked_at(source: Source) -> dict[ast.AST, str]:
    """The expressions that look at the outside, each with what they look at."""
    found: dict[ast.AST, str] = {}
    for node in source.nodes:
        if isinstance(node, ast.Name | ast.Attribute):
            for name in sorted(source.names(node) & _PROBES):
                below: ast.AST = node
                for each in source.above(node):
                    if isinstance(each, ast.stmt):
                        break
                    if _asks_about(source, each, below):
                        found.setdefault(each, name)
                    below = each
    return found


def _asks_about(source: Source, node: ast.AST, part: ast.AST) -> bool:
    """Whether an expression asks something about a part of it. A call that is merely given it doesn't."""
    if isinstance(node, ast.Call):
        askers = {"re", "fnmatch", "operator"}
        return node.func is part or any(name.split(".")[0] in askers for name in source.names(node.func))
    if isinstance(node, ast.Subscript):
        return node.value is part
    return isinstance(node, ast.Compare | ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp)


def _sets_it(source: Source, node: ast.AST) -> bool:
    """A variable given to somebody else (`env["PYTEST_ADDOPTS"] = …`, a table of names) is not looked at."""
    parent = source.parent(node)
    stored = isinstance(parent, ast.Subscript) and not isinstance(parent.ctx, ast.Load)
    return stored or isinstance(parent, ast.Dict | ast.Set | ast.Tuple | ast.List)


def patches(source: Source) -> Iterator[Sign]:
    """Attributes of modules that judge (clock, chance, builtins, frameworks) set from the product."""
    for node in source.nodes:
        match node:
            case ast.Attribute(ctx=ast.Store() | ast.Del()):
                yield from _patched(source, node, source.names(node))
            case ast.Subscript(value=base, slice=key, ctx=ast.Store() | ast.Del()):
                if "sys.modules" in source.names(base):
                    yield from _replaced(source, node, source.text(key))
                else:
                    yield from _patched(source, node, source.names(node))
            case ast.Call():
                yield from _patched_by_call(source, node)
            case _:
                pass


def _patched(source: Source, node: ast.AST, names: frozenset[str]) -> Iterator[Sign]:
    for name in names:
        module, _, rest = name.partition(".")
        if name in _HOOKS or name.removesuffix("[]") in _HOOKS:
            yield _hooked(source, node, name.removesuffix("[]"))
        elif module in _JUDGES and rest and "()" not in name and not _TO_BE_SET.fullmatch(name):
            if "[]" in rest and module in {"os", "sys"}:  # an item of something, or a module that nobody can name
                continue
            certain = not is_test_helper(source.path) and "[]" not in rest
            yield Sign(node, "patches", certain, name, f"replaces {name}, which the tests themselves rely on.")


def _hooked(source: Source, node: ast.AST, name: str) -> Sign:
    certain = not is_test_helper(source.path) and not is_about(
        source.path, "import", "hook", "loader", "finder", "lazy", "editable", "vendor", "six", "extern", "bootstrap"
    )
    return Sign(node, "hooks-imports", certain, name, f"changes {name}, and so what the tests import.")


def _replaced(source: Source, node: ast.AST, key: str | None) -> Iterator[Sign]:
    first = (key or "").split(".")[0]
    if first in _JUDGES - {"os", "sys"} or first in {"os", "sys", "conftest", "tests"} or first.startswith("test_"):
        if (key or "").count(".") and first in {"os", "unittest"}:
            return
        certain = not is_test_helper(source.path)
        yield Sign(node, "replaces-module", certain, first, f"puts something else in the place of the module {key}.")


def _patched_by_call(source: Source, call: ast.Call) -> Iterator[Sign]:
    first = call.args[0] if call.args else None
    for name in source.names(call.func):
        unbound = name.endswith(".__setattr__") and len(call.args) > 2  # noqa: PLR2004 - the object, a name and a value
        if unbound or (name in {"builtins.setattr", "builtins.delattr"} and len(call.args) > 1):
            attribute = source.text(call.args[1]) or "[]"
            yield from _patched(source, call, frozenset(f"{base}.{attribute}" for base in source.names(first)))
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
