"""What a command prints, within bounds: the beginning and the end of a stream of any length."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Bounded", "Capture"]

#: The tail may grow by so much before it is cut back, so that cutting is rare.
_SLACK = 64 * 1024


@dataclass(frozen=True, slots=True)
class Capture:
    """What a stream said: its beginning, its end, and how much is missing in between."""

    head: bytes = b""
    tail: bytes = b""
    omitted: int = 0
    total: int = 0

    @property
    def text(self) -> str:
        if not self.omitted:
            return (self.head + self.tail).decode("utf-8", "replace")
        head, tail = (part.decode("utf-8", "replace") for part in (self.head, self.tail))
        separator = "" if head.endswith("\n") or not head else "\n"
        return f"{head}{separator}[… {self.omitted} bytes omitted …]\n{tail}"


class Bounded:
    """Keeps the first and the last bytes of a stream of any length."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.head = bytearray()
        self.tail = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self.keep - len(self.head)
        self.head += data[:room]
        self.tail += data[room:]
        if len(self.tail) > 2 * self.keep + _SLACK:
            self._trim()

    def _trim(self) -> None:
        del self.tail[: max(0, len(self.tail) - self.keep)]

    def capture(self) -> Capture:
        self._trim()
        omitted = self.total - len(self.head) - len(self.tail)
        return Capture(bytes(self.head), bytes(self.tail), omitted, self.total)
