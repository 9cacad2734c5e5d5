"""A page within its budget of bytes: every section has a title before any has details, and what is cut is said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from pytest_iterctl.text import cut_middle, one_line

__all__ = ["Section", "laid_out", "whole_page"]

#: Text that is not ours, shown so that nothing in it can pass for ours: a fence, or lines behind a bar.
Block = Callable[[str], str]

_LEAST_DETAIL = 200
_LEAST_HEAD = 40
_TRIES = 8


@dataclass(frozen=True, slots=True)
class Section:
    """One item: a line of its own, some lines of facts, and text that may be cut."""

    title: str
    facts: str = ""
    detail: str = ""


def whole_page(head: str, sections: Sequence[Section], block: Block) -> str:
    """Everything, however long."""
    parts = [head]
    for section in sections:
        detail = block(section.detail) if section.detail else ""
        parts.append("\n".join(["", *filter(None, (section.title, section.facts, detail))]))
    return "\n".join(parts) + "\n"


def laid_out(head: str, sections: Sequence[Section], *, limit: int, cap: int, block: Block, where: str = "") -> str:
    """At most `limit` bytes of UTF-8, of which the details of one section take at most `cap`."""
    if all(len(section.detail) <= cap for section in sections) and sum(len(each.detail) for each in sections) <= limit:
        whole = whole_page(head, sections, block)
        if len(whole.encode()) <= limit:
            return whole
    page = _Page(head, sections, block, where)
    room = limit - _size(head) - _size(page.notice(limit, most=True))
    if room < 0:
        return _clipped(head, f"\n[… {_items(len(sections))} left out …]\n", limit)
    room -= page.take_titles(room)
    room -= page.take_facts(room)
    page.take_details(room, cap)
    return page.text(limit)


class _Page:
    """What has been given a place so far; each step says how many bytes it took."""

    def __init__(self, head: str, sections: Sequence[Section], block: Block, where: str) -> None:
        self.head = head
        self.sections = sections
        self.block = block
        self.where = one_line(where)
        self.shown: list[int] = []
        self.facts: set[int] = set()
        self.details: dict[int, str] = {}

    def take_titles(self, room: int) -> int:
        """From the first on; when not all fit, the last one too, because a review stands at the end."""
        sizes = [_size("\n" + section.title) for section in self.sections]
        taken = 0
        for number, size in enumerate(sizes):
            if taken + size > room:
                break
            taken += size
            self.shown.append(number)
        last = len(sizes) - 1
        if len(self.shown) > 1 and self.shown[-1] != last and taken - sizes[self.shown[-1]] + sizes[last] <= room:
            taken += sizes[last] - sizes[self.shown[-1]]
            self.shown[-1] = last
        return taken

    def take_facts(self, room: int) -> int:
        taken = 0
        for number in self.shown:
            facts = self.sections[number].facts
            if facts and taken + _size(facts) <= room:
                taken += _size(facts)
                self.facts.add(number)
        return taken

    def take_details(self, room: int, cap: int) -> None:
        """The same share for everyone; what a short one leaves goes to the others."""
        wanted = {}
        for number in self.shown:
            if self.sections[number].detail:
                wanted[number] = self._fitted(number, min(cap, room))
        least = accumulate(min(_size(block), _LEAST_DETAIL) for block in wanted.values())
        having = list(wanted)[: sum(needed <= room for needed in least)]
        for place, number in enumerate(sorted(having, key=lambda each: _size(wanted[each]))):
            share = room // (len(having) - place)
            fits = _size(wanted[number]) <= share
            self.details[number] = wanted[number] if fits else self._fitted(number, share)
            room -= _size(self.details[number]) if self.details[number] else 0

    def _fitted(self, number: int, room: int) -> str:
        """A section's details as a block that takes at most `room` bytes; '' when there is no such block."""
        detail = self.sections[number].detail
        size = room
        for _ in range(_TRIES):
            block = self.block(cut_middle(detail, size))
            excess = _size(block) - room
            if excess <= 0:
                return block
            size -= excess
            if size <= 0:
                break
        return ""

    def notice(self, limit: int, *, most: bool = False) -> str:
        """What was cut, by number; with `most` as long as it can get."""
        every = len(self.sections)
        hidden = every - (0 if most else len(self.shown))
        factless = sum(bool(self.sections[number].facts) and number not in self.facts for number in self.shown)
        bare = sum(bool(self.sections[number].detail) and not self.details.get(number) for number in self.shown)
        shortened = sum(
            bool(block) and block != self.block(self.sections[number].detail) for number, block in self.details.items()
        )
        counts = (
            (hidden, "left out"),
            (every if most else factless, "without their places"),
            (every if most else bare, "without their details"),
            (every if most else shortened, "with shortened details"),
        )
        told = ", ".join(f"{_items(count)} {what}" for count, what in counts if count)
        whole = f"; whole in {self.where}" if self.where else ""
        return f"\n[… cut to {limit} bytes: {told}{whole} …]" if told else ""

    def text(self, limit: int) -> str:
        parts = [self.head]
        for number in self.shown:
            section = self.sections[number]
            facts = section.facts if number in self.facts else ""
            parts.append("\n".join(["", *filter(None, (section.title, facts, self.details.get(number, "")))]))
        notice = self.notice(limit)
        return "\n".join([*parts, notice] if notice else parts) + "\n"


def _clipped(head: str, notice: str, limit: int) -> str:
    """The beginning of the head alone. Its end is not shown: what it begins with could pass for a line of ours."""
    room = limit - len(notice.encode())
    if room < len(head.encode()):
        room, notice = (limit, "") if room < _LEAST_HEAD else (room, notice)
        head = head.encode()[: max(room - len("…".encode()), 0)].decode("utf-8", "ignore")
        head += "…" if room >= len("…".encode()) else ""
    return head + notice


def _items(count: int) -> str:
    return f"{count} item{'' if count == 1 else 's'}"


def _size(text: str) -> int:
    """Bytes of a text with the line end behind it."""
    return len(text.encode()) + 1
