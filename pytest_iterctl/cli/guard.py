"""The last line between a mistake and the user: errors as lines with their exit code, never as a traceback."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Callable

from pytest_iterctl.errors import ExitCode, IterctlError
from pytest_iterctl.redaction import redact
from pytest_iterctl.text import strip_escapes

__all__ = ["complain", "guarded"]


def complain(line: str) -> None:
    """To stderr, whatever its encoding can carry."""
    text = strip_escapes(line) + "\n"
    try:
        sys.stderr.write(text)
    except UnicodeEncodeError:
        sys.stderr.write(text.encode("ascii", "backslashreplace").decode())


def guarded(run: Callable[[], int]) -> int:
    """Errors as `error:` and `hint:` lines with their exit code; an internal one as one line and a log to paste."""
    try:
        return run()
    except IterctlError as error:
        complain(error.render())
        return int(error.exit_code)
    except KeyboardInterrupt:
        complain("error: interrupted")
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has gone; the journal has everything, so there is nothing to say to nobody.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return int(ExitCode.INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - the last line of defence between a defect and the user
        with tempfile.NamedTemporaryFile(
            "w", prefix="iterctl-error-", suffix=".log", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as log:
            log.write(redact(traceback.format_exc()))
        complain(f"error: internal error: {type(error).__name__}: {redact(str(error))}")
        complain(f"hint: please report it with this file: {log.name}")
        return int(ExitCode.INTERNAL)
