"""The way out: one line of JSON for whatever there is to tell."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress

__all__ = ["Lines"]

_system_write = os.write  # a test may replace os.write


class Lines:
    """The way out: each line is handed to the system at once, so that it survives whatever the next test does."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        os.set_inheritable(descriptor, False)
        # A fork of the test process that falls through into pytest must not speak in its parent's name.
        os.register_at_fork(after_in_child=self.close)

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            with suppress(OSError):
                os.close(descriptor)

    def write(self, line: str) -> None:
        """One line of ASCII with its newline. A run is never disturbed by a full disk, it is only not vouched for."""
        data = line.encode("ascii")
        try:
            while data and self.descriptor >= 0:
                data = data[_system_write(self.descriptor, data) :]
        except OSError as error:
            self.descriptor = -1
            sys.stderr.write(f"iterctl-witness: can't write: {error}\n")

    def tell(self, line: str, /, **fields: object) -> None:
        self.write(json.dumps({"type": line, **fields}, default=repr) + "\n")
