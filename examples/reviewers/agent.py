"""An agent that gets the tests to pass first and listens to the reviewers then."""

from __future__ import annotations

import sys
from pathlib import Path

prompt = sys.stdin.read()
source = Path("prices.py")
code = source.read_text()
if "docstring" in prompt:
    code = code.replace(") -> int:\n", ') -> int:\n    """The price with tax, in cents."""\n')
if "print" in prompt:
    code = code.replace("    print(cents, percent)\n", "")
if "percent // 100" not in code:
    code = code.replace(
        "    return cents + percent", "    print(cents, percent)\n    return cents + cents * percent // 100"
    )
source.write_text(code)
