"""A reviewer that prints a document: every public function of the changed files needs a docstring."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path

request = sys.stdin.read()  # the task, the test result and the diff
changed = re.findall(r"^\+\+\+ b/(.+\.py)$", request, re.MULTILINE)
findings = [
    f"{name}:{node.lineno}: {node.name} has no docstring"
    for name in changed
    for node in ast.walk(ast.parse(Path(name).read_text()))
    if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and not ast.get_docstring(node)
]
print("I looked at", ", ".join(changed))  # what stands before the document is kept, and means nothing
print(
    json.dumps(
        {
            "status": "reject" if findings else "approve",
            "feedback": "Add a docstring: " + "; ".join(findings) if findings else "",
            "findings": findings,
        }
    )
)
