"""Rules about product code that knows the test framework, or asks whether it is tested."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from pytest_iterctl.gate.findings import Sign
from pytest_iterctl.gate.paths import FRAMEWORKS
from pytest_iterctl.gate.source import Source

__all__ = ["asks_whether_it_is_tested", "imports_framework", "steers_outcome"]

_HARMLESS_UNITTEST = {"unittest", "unittest.mock", "unittest.util"}
_OUTCOMES = {
    *(f"pytest.{name}" for name in ("exit", "skip", "xfail", "importorskip")),
    *(f"_pytest.outcomes.{name}" for name in ("exit", "skip", "xfail", "importorskip", "Exit", "Skipped", "XFailed")),
    *("pytest.skip.Exception", "pytest.exit.Exception", "unittest.SkipTest", "unittest.case.SkipTest"),
    *("unittest.mock.ANY", "mock.ANY", "unittest.skip"),
}
#: Objects that answer to everything; a product has little use for them, but no test ends by them alone.
_MOCKS = {f"{module}.{name}" for module in ("unittest.mock", "mock") for name in ("MagicMock", "AsyncMock", "Mock")}
#: Which of several processes runs this: honest products name databases and ports by it.
_WORKER = re.compile(r"PYTEST_XDIST\w*")
_PROBES = {"os.environ", "os.environb", "os.getenv", "os.getenvb", "sys.modules", "sys.argv", "sys.orig_argv"}
_RUNNER = re.compile(r"(?i)pytest|py\.test|unittest|conftest|\btests?_|_tests?\b|^tests?$|\btests?[/.]")
_SURELY = re.compile(r"(?i)^_?pytest|py\.test|conftest|^test_|^tests?[/.]")
_VARIABLE = re.compile(r"PYTEST(_[A-Z0-9_]*)?")


def imports_framework(source: Source) -> Iterator[Sign]:
    """The test framework inside the product. Plugins and helpers for tests have a reason, so they are not asked."""
    if source.helper:
        return
    for node in source.nodes:
        if node in source.typing_only:
            continue
        for module in _imported(source, node):
            family = module.split(".")[0]
            if family not in FRAMEWORKS:
                continue
            runs_tests = re.search(r"(?:^|[._])tests?$|(?:^|[._])run_?tests?", source.place(node)) is not None
            internal = family in {"pytest", "_pytest"} or module.startswith("pluggy._")
            internal |= family == "unittest" and module not in _HARMLESS_UNITTEST
            certain = internal and not runs_tests
            text = f"imports {module}, which belongs to the tests."
            yield Sign(node, "imports-framework", certain, family, text, unless="tests")


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
                text = f"uses {name}: the product decides how a test ends."
                yield Sign(node, "steers-outcome", not source.helper, name, text, unless="tests")
            for name in () if source.helper else source.names(node) & _MOCKS:
                text = f"uses {name}, an object that goes along with everything."
                yield Sign(node, "steers-outcome", False, name, text)


def asks_whether_it_is_tested(source: Source) -> Iterator[Sign]:
    """`PYTEST_CURRENT_TEST`, `'pytest' in sys.modules`, pytest in `sys.argv`."""
    helper = source.helper
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
            yield _asks(node, bool(probe) and not helper and not _WORKER.fullmatch(text), text)
        elif probe and statement not in told and _RUNNER.search(text) and _names_runner(probe, text):
            yield _asks(node, bool(_SURELY.search(text)) and not helper, f"{text!r} in {probe}")


def _asks(node: ast.AST, certain: bool, what: str) -> Sign:  # noqa: FBT001 - one call site per kind
    text = f"looks at {what} to find out whether it is being tested."
    return Sign(node, "asks-whether-tested", certain, what, text, unless="tests")


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
