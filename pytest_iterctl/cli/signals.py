"""What Ctrl-C does, and so TERM and HUP to the driver."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Self

__all__ = ["SIGNALS", "Signals"]

SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


class Signals:
    """Once, and a run at work is asked to stop as by `iterctl stop`, which ends its children and leaves the work tree
    as promised; twice, everything ends now. Where no run is at work, once is enough. What is left after that is to
    clean up and to say how it ended, which nobody interrupts.
    """

    def __init__(self) -> None:
        self.asked = False
        self._patient = False

    def __enter__(self) -> Self:
        self._old = {number: signal.signal(number, self._interrupt) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._old.items():
            # One that comes when all is said and done would make of the exit code a death by a signal.
            signal.signal(number, signal.SIG_IGN if self.asked else handler)

    @contextmanager
    def patient(self) -> Iterator[None]:
        """While a run is at work that looks at `asked`."""
        self._patient = True
        try:
            yield
        finally:
            self._patient = False

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        again, self.asked = self.asked, True
        if self._patient and not again:
            with suppress(OSError):  # not through a stream, which may be in the middle of a write
                os.write(2, b"\nstopping; once more stops at once\n")
        elif self._patient or not again:
            raise KeyboardInterrupt
