"""The last line between a mistake and the user: errors as lines with their exit code, never as a traceback."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

from pytest_iterctl.errors import ExitCode, IterctlError
from pytest_iterctl.redaction import redact
from pytest_iterctl.text import strip_escapes

__all__ = ["complain", "guarded"]


def complain(line: str) -> None:
    """To stderr, whatever its encoding can carry."""
    text = strip_escapes(line) + "\n"
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except UnicodeEncodeError:
        sys.stderr.write(text.encode("ascii", "backslashreplace").decode())
    except OSError:
        return  # nobody listens; the exit code speaks


def _mend_streams() -> None:
    """Output that can carry anything: what an encoding can't is escaped, what was closed goes nowhere."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open for good
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - open for good


def guarded(run: Callable[[], int]) -> int:
    """Errors as `error:` and `hint:` lines with their exit code; an internal one as one line and a log to paste."""
    _mend_streams()
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
    except OSError as error:
        complain(f"error: {error.strerror or error}: {error.filename or 'output'}")
        return int(ExitCode.INTERNAL)
    except Exception as error:  # noqa: BLE001 - the last line of defence between a defect and the user
        with tempfile.NamedTemporaryFile(
            "w", prefix="iterctl-error-", suffix=".log", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as log:
            log.write(redact(traceback.format_exc()))
        complain(f"error: internal error: {type(error).__name__}: {redact(str(error))}")
        complain(f"hint: please report it with this file: {log.name}")
        return int(ExitCode.INTERNAL)
