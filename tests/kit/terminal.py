"""A real pseudo-terminal for commands that behave differently when somebody sits in front of them."""

from __future__ import annotations

import os
import pty
import select
import signal
import time
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["Seat"]


class Seat:
    """Somebody at a terminal: sees what a command prints, types answers."""

    def __init__(self, command: list[str], cwd: Path, environment: dict[str, str]) -> None:
        self.seen = ""
        self.code: int | None = None
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.chdir(cwd)
            os.execvpe(command[0], command, environment)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.code is None:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._terminal)

    def read_until(self, text: str, seconds: float = 60.0) -> str:
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} never came; seen: {self.seen}"
            if not self._read(0.2):
                assert text in self.seen, f"it ended without {text!r}; seen: {self.seen}"
        return self.seen

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def wait(self) -> int:
        while self._read(0.2):
            pass
        _, status = os.waitpid(self._pid, 0)
        self.code = os.waitstatus_to_exitcode(status)
        return self.code

    def _read(self, seconds: float) -> bool:
        """False once the other side has gone."""
        ready, _, _ = select.select([self._terminal], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self._terminal, 65536)
        except OSError:
            return False
        self.seen += data.decode("utf-8", "replace")
        return bool(data)
