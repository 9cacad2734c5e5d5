"""Globs as in `.gitignore`, for paths relative to the repository's root."""

from __future__ import annotations

import re
from functools import cache

__all__ = ["matches"]


def matches(glob: str, path: str) -> bool:
    """Without a slash anywhere, `**` over folders, and a folder means all below it."""
    return _pattern(glob).fullmatch(path) is not None


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    plain = pattern.strip().removeprefix("./")
    anchored = "/" in plain.rstrip("/")
    parts = []
    for piece in re.findall(r"\*\*/|/\*\*$|\*\*|\*|\?|\[!?[^\]/]+\]|[^*?\[]+|\[", plain.strip("/")):
        match piece:
            case "**/":
                parts.append("(?:.*/)?")
            case "/**":
                parts.append("/.+")
            case "**":
                parts.append(".*")
            case "*":
                parts.append("[^/]*")
            case "?":
                parts.append("[^/]")
            case _ if piece.startswith("[") and piece.endswith("]") and len(piece) > 2:  # noqa: PLR2004 - not empty
                negated = piece[1] == "!"
                inner = piece[1 + negated : -1].replace("\\", r"\\").replace("[", r"\[").replace("^", r"\^")
                parts.append(f"[{'^' * negated}{inner}]")
            case _:
                parts.append(re.escape(piece))
    prefix = "" if anchored else "(?:.*/)?"
    try:
        return re.compile(f"(?s:{prefix}{''.join(parts)}(?:/.*)?)")
    except re.error:  # a range that isn't one, such as [z-a]
        return re.compile(f"(?s:{prefix}{re.escape(plain)}(?:/.*)?)")
