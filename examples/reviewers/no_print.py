"""A reviewer that only has an exit code: 0 approves, 1 rejects with what it printed, anything else is a failure."""

from __future__ import annotations

import sys

added = [line for line in sys.stdin if line.startswith("+") and "print(" in line]
if added:
    print("Remove the debugging print:", *(line[1:].strip() for line in added))
sys.exit(1 if added else 0)
