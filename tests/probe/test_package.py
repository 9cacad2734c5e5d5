"""The probe's own files: they have to run where nothing of ours is installed."""

from __future__ import annotations

import ast
import sys

from tests.probe.probed import PROBE

MODULES = sorted(PROBE.parent.glob("*.py"))


def test_it_is_written_for_python_3_9() -> None:
    for path in MODULES:
        ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))


def test_it_imports_nothing_of_ours() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in MODULES]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    foreign = {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names)
    assert foreign == {"pytest", "_pytest", "pluggy"}
    # Of each other they import what lies in the same folder, by its relative name: in the rooms it has another one.
    assert {node.level for node in nodes if isinstance(node, ast.ImportFrom)} == {0, 1}
    # What pytest rewrites imports more than its source says.
    assert all("PYTEST_DONT_REWRITE" in (ast.get_docstring(tree) or "") for tree in trees)
