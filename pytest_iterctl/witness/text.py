"""Texts that are too long: what is kept of them, without ever cutting through a secret."""

from __future__ import annotations

__all__ = ["cut", "head", "tail"]

_EDGE = 300  # what is longer than this and has no end is no secret; only this much of it is left out


def cut(text: str, limit: int) -> str:
    """Head and tail of a text that is too long."""
    if len(text) <= limit:
        return text
    begin, end = head(text, limit * 2 // 3), tail(text, limit // 3)
    return f"{begin}\n[… {len(text) - len(begin) - len(end)} characters cut …]\n{end}"


def head(text: str, limit: int) -> str:
    """The beginning, without the word that the cut went through: nobody recognises half a secret, and so hides it."""
    if len(text) <= limit:
        return text
    kept = text[:limit]
    if text[limit].isspace():
        return kept
    edge = kept[-_EDGE:]
    word = len(edge.rpartition(" ")[2].rpartition("\n")[2].rpartition("\t")[2])
    return kept[: len(kept) - word]


def tail(text: str, limit: int) -> str:
    """The end, from the first whole line on, or from a whole word where lines are long."""
    if len(text) <= limit:
        return text
    kept = text[len(text) - limit :]
    if text[len(text) - limit - 1] == "\n":
        return kept
    edge = kept[:_EDGE]
    line = edge.find("\n")
    # The last word of those that may go: what stands before a secret tells that it is one (`password: …`).
    word = max(edge.rfind(" "), edge.rfind("\t"))
    return kept[(line if line >= 0 else word if word >= 0 else len(edge) - 1) + 1 :]
