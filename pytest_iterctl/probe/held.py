"""What is taken hold of before the code under test could put something else in its place.

The package imports this before all else, and this imports nothing that has to be searched for: a file of the project
may have the name of a module of the standard library.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import gc
import os
import sys
import time

__all__ = [
    "ERRORS",
    "HeldAssertionError",
    "Undisturbed",
    "exit_at_once",
    "fork",
    "getframe",
    "killpg",
    "monotonic",
    "read",
    "system_write",
    "waitpid",
]

exit_at_once, fork, killpg, waitpid = os._exit, os.fork, os.killpg, os.waitpid
read, system_write = os.read, os.write
monotonic = time.monotonic
getframe = sys._getframe  # the audit hook has to know who did it
HeldAssertionError = AssertionError
ERRORS = (Exception, ValueError, TypeError, RuntimeError, AssertionError)
_is_collecting, _stop_collecting, _go_on_collecting = gc.isenabled, gc.disable, gc.enable


class Undisturbed:
    """Keeps the garbage collector from looking at a hundred thousand objects each time that some are added."""

    def __enter__(self) -> None:
        self.was = _is_collecting()
        _stop_collecting()

    def __exit__(self, *_: object) -> None:
        if self.was:
            _go_on_collecting()
