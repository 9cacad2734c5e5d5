"""How a stream can be written to: colour or not, animation or not, which characters it can carry."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TextIO

from pytest_iterctl.text import workflow_safe

__all__ = ["Paint", "Style", "style_of"]

Paint = Literal["plain", "good", "bad", "warn", "note", "bold"]

_CODES: dict[Paint, str] = {"plain": "", "good": "32", "bad": "31", "warn": "33", "note": "36", "bold": "1"}
_ASCII = str.maketrans({"─": "-", "·": "|", "−": "-", "→": "->", "…": "...", "×": "x", "›": ">"})


@dataclass(frozen=True, slots=True)
class Style:
    """What one stream gets."""

    stream: TextIO
    colour: bool
    live: bool
    unicode: bool
    in_ci: bool

    def paint(self, text: str, paint: Paint) -> str:
        code = _CODES[paint]
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and code else text

    def write(self, line: str) -> None:
        """One line, whatever the stream can carry; where a CI reads along, no line can be taken for its command."""
        text = line if self.unicode else line.translate(_ASCII)
        text = workflow_safe(text) if self.in_ci else text
        self.put(text + "\n")

    def put(self, text: str) -> None:
        """Text as it is, at once. A reader that has gone away is no reason to end a run that is paid for."""
        try:
            try:
                self.stream.write(text)
            except UnicodeEncodeError:
                self.stream.write(text.encode("ascii", "backslashreplace").decode())
            self.stream.flush()
        except (OSError, ValueError):
            _silence(self.stream)

    @property
    def width(self) -> int:
        return shutil.get_terminal_size().columns


def _silence(stream: TextIO) -> None:
    """Whatever is written to this stream from now on, and at exit, goes nowhere instead of failing again."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        return


def style_of(stream: TextIO, environment: Mapping[str, str], *, verbose: bool = False) -> Style:
    """`NO_COLOR` beats `FORCE_COLOR` beats `TERM=dumb` beats what the stream is; animation needs a terminal, no CI."""
    is_terminal = stream.isatty()
    in_ci = bool(environment.get("CI") or environment.get("BUILD_NUMBER"))
    dumb = environment.get("TERM") == "dumb"
    if environment.get("NO_COLOR"):
        colour = False
    elif environment.get("FORCE_COLOR"):
        colour = True
    else:
        colour = is_terminal and not dumb
    return Style(
        stream=stream,
        colour=colour,
        live=is_terminal and not in_ci and not dumb and not verbose,
        unicode=(stream.encoding or "").lower().replace("-", "").startswith("utf"),
        in_ci=in_ci,
    )
