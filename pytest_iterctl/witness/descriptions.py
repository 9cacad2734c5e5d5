"""Turns pytest's representation of a failure into place, type, message and bounded text."""

# ruff: noqa: PTH109, PTH110, PTH113, PTH118, PTH120 - paths are strings
from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

import pytest

from .recursion import without_recursion
from .text import cut, head, tail
from .traces import READ, candidates, cause_of, kind_of, message_of, source_of, way

__all__ = ["Descriptions"]

_MESSAGE, _DETAIL, _OUTPUT, _SOURCE = 4_000, 16_000, 2_000, 2_000
_ALL_DETAILS = 32_000_000
_FRAMES, _FRAMES_AT_LEAST, _FRAME_SOURCE, _CAUSE = 20, 3, 200, 500


class Descriptions:
    """Turns pytest's representation of a failure into place, type, message and bounded text."""

    def __init__(self) -> None:
        self.root = self.start = os.getcwd()
        self.budget = _ALL_DETAILS
        standard = os.path.dirname(os.path.realpath(os.__file__))
        self.foreign = [standard + os.sep]
        self.known: dict[str, str] = {}
        self.own = self._own()

    def use_root(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self.known.clear()
        self.own = self._own()
        prefix = os.path.join(os.path.realpath(sys.prefix), "")
        if not any(os.path.join(each, "").startswith(prefix) for each in (self.root, os.path.realpath(self.start))):
            self.foreign.append(prefix)

    def _own(self) -> tuple[str, ...]:
        """The folders whose files are the project's: where pytest was started, its root, and their repository."""
        start = os.path.realpath(self.start)
        above = start
        while not os.path.exists(os.path.join(above, ".git")) and os.path.dirname(above) != above:
            above = os.path.dirname(above)
        repository = [above] if os.path.dirname(above) != above else []
        return tuple(os.path.join(each, "") for each in (start, self.root, *repository))

    def identity(self, path: str) -> str:
        """A file of the project as pytest's own ids name it: relative to the root; '' for any other."""
        if not self.inside(path):
            return ""
        return os.path.relpath(os.path.realpath(os.path.join(self.start, path)), self.root).replace(os.sep, "/")

    def place(self, path: str, line: int) -> str:
        """`file:line` seen from where pytest was started, or '' for what is not the project's own code."""
        inside = self.inside(path)
        return f"{inside}:{line}" if inside else ""

    def inside(self, path: str) -> str:
        """A file of the project seen from the start; many failures ask about the same few files."""
        if path not in self.known:
            self.known[path] = self._inside(path)
        return self.known[path]

    def _inside(self, path: str) -> str:
        whole = os.path.realpath(os.path.join(self.start, path))
        if not whole.startswith(self.own) or whole.startswith(tuple(self.foreign)) or not os.path.isfile(whole):
            return ""
        inside = os.path.relpath(whole, os.path.realpath(self.start)).replace(os.sep, "/")
        return "" if {"site-packages", "dist-packages"}.intersection(inside.split("/")) else inside

    def failure(self, longrepr: Any) -> dict[str, object]:
        """Everything about one failure. It never raises: a failure that can't be described is still a failure."""
        shown = longrepr
        with suppress(Exception):  # a plugin's own representation may look like pytest's and not be one
            shown = without_recursion(longrepr)
        try:
            return self._failure(shown, cut(str(shown), READ))
        except Exception as error:  # noqa: BLE001 - a project's own representation may do anything
            return {"message": f"a failure that can't be shown: {type(error).__name__}"}

    def _failure(self, longrepr: Any, text: str) -> dict[str, object]:
        message = message_of(longrepr, text)
        kind = kind_of(longrepr, message, text)
        places = ((self.place(path, line), entry) for path, line, entry in candidates(longrepr, text, kind))
        where, entry = next((found for found in places if found[0]), ("", None))
        frames: list[tuple[str, int, str, str]] = []
        cause = ""
        with suppress(Exception):
            frames = self.frames(longrepr, text, kind)
            cause = cut(cause_of(longrepr, text), _CAUSE)
        if not where and frames:
            where = f"{frames[-1][0]}:{frames[-1][1]}"
        detail = cut(text, _DETAIL) if self.budget > 0 else ""
        self.budget -= len(detail) + _FRAME_SOURCE * len(frames)
        found: dict[str, object] = {"where": where, "kind": kind, "message": cut(message, _MESSAGE)}
        found.update(source=cut(source_of(entry), _SOURCE), detail=detail)
        found.update(frames=frames, cause=cause)
        return found

    def frames(self, longrepr: Any, text: str, kind: str) -> list[tuple[str, int, str, str]]:
        """The way through the project's own code, the outermost first; each place once, however deep a recursion."""
        found: dict[tuple[str, int], tuple[str, int, str, str]] = {}
        for path, line, function, source in way(longrepr, text, kind):
            inside = self.inside(path)
            if inside:
                found.setdefault(
                    (inside, line), (inside, line, head(function, _FRAME_SOURCE), head(source, _FRAME_SOURCE))
                )
        frames = list(found.values())
        most = _FRAMES if self.budget > 0 else _FRAMES_AT_LEAST
        first = most // 2
        return frames if len(frames) <= most else frames[:first] + frames[first - most :]

    def exception(self, error: BaseException) -> dict[str, object]:
        """The same for an exception that pytest has not turned into a report."""
        longrepr: object = f"E   {type(error).__name__}"
        with suppress(Exception):
            info = pytest.ExceptionInfo.from_exception(error)
            longrepr = "E   " + info.exconly().replace("\n", "\nE   ")
            own = info.traceback.filter(lambda entry: bool(self.place(str(entry.path), 1)))
            if len(own):
                info.traceback = own
                longrepr = info.getrepr(style="short", chain=False)
        return self.failure(longrepr)

    def defined(self, report: Any) -> str:
        """Where the test begins, for failures that have no place of their own."""
        path, line, _ = report.location
        return self.place(os.path.join(self.root, path), line + 1) if line is not None else ""

    def output(self, report: Any) -> dict[str, str]:
        if self.budget <= 0:
            return {}
        texts = {"stdout": report.capstdout, "stderr": report.capstderr, "log": report.caplog}
        tails = {name: tail(text, _OUTPUT) for name, text in texts.items() if text}
        self.budget -= sum(map(len, tails.values()))
        return tails
