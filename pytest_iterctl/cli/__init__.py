"""`iterctl`: the command line. Each command is a few lines that call a room."""

from __future__ import annotations

import sys
from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """The console script: parse, run, and leave with the right exit code."""
    from pytest_iterctl.cli.entry import run_command_line  # noqa: PLC0415 - nothing is paid before it is needed

    sys.exit(run_command_line(sys.argv[1:]))
