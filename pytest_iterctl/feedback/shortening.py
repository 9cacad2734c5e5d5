"""Shortens text without leaving half of anything: no half words, which may be half secrets, and no half lines."""

from __future__ import annotations

__all__ = ["beginning", "without_half_lines", "without_half_words"]

# What is longer than this and has no end is no secret; of such a word only this much is left out at a cut, so a secret
# that stands elsewhere in it, without anything between, may still be parted.
_EDGE = 300


def beginning(text: str, limit: int, *, edge: int = _EDGE) -> str:
    """At most `limit` characters, without the word that the cut went through, of which at most `edge` are taken."""
    if len(text) <= limit:
        return text
    kept = text[: max(limit, 0)]
    return kept if text[len(kept)].isspace() else kept[: len(kept) - _last_word(kept[-edge:])]


def without_half_words(text: str, limit_bytes: int) -> str:
    """At most `limit_bytes` of UTF-8, two thirds from the head; cut where a word ends and where a line begins."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= limit_bytes:
        return data.decode()
    room = max(limit_bytes - len(_notice(len(data), "byte").encode()), 0)
    head = data[: room - room // 3].decode("utf-8", "ignore")
    tail = data[len(data) - room // 3 :].decode("utf-8", "ignore")
    head = head[: len(head) - _last_word(head[-_EDGE:])]
    tail = tail[_first_words(tail[:_EDGE]) :]
    return head + _notice(len(data) - len(head.encode()) - len(tail.encode()), "byte") + tail


def without_half_lines(text: str, limit_bytes: int) -> str:
    """At most `limit_bytes` of UTF-8 in whole lines, two thirds from the head; half of `- 18` says another thing.

    Only where not even the first line fits is it cut, and ends in `…`.
    """
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= limit_bytes:
        return data.decode()
    lines = data.decode().split("\n")
    room = limit_bytes - len(_notice(len(lines), "line").encode())
    head = _fitting(lines, room * 2 // 3)
    if not head:
        return _clipped(lines[0], limit_bytes)
    room -= sum(map(_size, head))
    tail = _fitting(lines[: len(head) - 1 : -1], room)
    room -= sum(map(_size, tail))
    head += _fitting(lines[len(head) : len(lines) - len(tail)], room)
    gone = len(lines) - len(head) - len(tail)
    return "\n".join(head) + (_notice(gone, "line") if gone else "\n") + "\n".join(reversed(tail))


def _fitting(lines: list[str], room: int) -> list[str]:
    """As many of the first lines as fit."""
    kept: list[str] = []
    for line in lines:
        room -= _size(line)
        if room < 0:
            break
        kept.append(line)
    return kept


def _clipped(line: str, limit_bytes: int) -> str:
    room = limit_bytes - len("…".encode())
    return line.encode()[:room].decode("utf-8", "ignore") + "…" if room > 0 else ""


def _last_word(edge: str) -> int:
    """How many characters stand behind the last space."""
    return len(edge) - 1 - max(map(edge.rfind, " \n\t"))


def _first_words(edge: str) -> int:
    """How many characters to leave out so that a whole line, or else a whole word, comes first."""
    line = edge.find("\n")
    # The last word of those that may go: what stands before a secret tells that it is one (`password: …`).
    word = max(edge.rfind(" "), edge.rfind("\t"))
    return (line if line >= 0 else word if word >= 0 else len(edge) - 1) + 1


def _notice(count: int, what: str) -> str:
    return f"\n[… {count} {what}{'' if count == 1 else 's'} cut …]\n"


def _size(line: str) -> int:
    return len(line.encode()) + 1
