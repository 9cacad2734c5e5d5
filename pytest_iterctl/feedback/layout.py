"""A page within its budget of bytes: titles and details share it, the first sections come first, cuts are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_iterctl.feedback.shortening import without_half_lines
from pytest_iterctl.text import one_line

__all__ = ["Section", "laid_out", "whole_page"]

#: Text that is not ours, shown so that nothing in it can pass for ours: a fence, or lines behind a bar.
Block = Callable[[str], str]

_LEAST_DETAIL = 300
_LEAST_HEAD = 40
_TRIES = 12


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
    """At most `limit` bytes of UTF-8; while others need the room, the details of one section take at most `cap`."""
    if sum(len(each.detail) for each in sections) <= limit:
        whole = whole_page(head, sections, block)
        if len(whole.encode()) <= limit:
            return whole
    page = _Page(head, sections, block, where)
    room = limit - _size(head) - _size(page.notice(limit, most=True))
    if room < 0:
        return _clipped(head, f"\n[… {_items(len(sections))} left out …]\n", limit)
    room -= page.take_titles(room)
    room -= page.take_facts(room)
    room -= page.take_details(room, cap)
    room -= page.take_more_titles(room)
    page.grow_details(room)
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
        self.detailed: list[int] = []
        self.details: dict[int, str] = {}

    def take_titles(self, room: int) -> int:
        """From the first on, in half of the room: a page of nothing but titles helps nobody.

        When not all fit, the last one too, because a review stands at the end.
        """
        sizes = [_size("\n" + section.title) for section in self.sections]
        taken = 0
        for number, size in enumerate(sizes):
            if taken + size > (room // 2 if self.shown else room):
                break
            taken += size
            self.shown.append(number)
        last = len(sizes) - 1
        if len(self.shown) > 1 and self.shown[-1] != last and taken - sizes[self.shown[-1]] + sizes[last] <= room:
            taken += sizes[last] - sizes[self.shown[-1]]
            self.shown[-1] = last
        return taken

    def take_facts(self, room: int) -> int:
        """From the first on, each with room for the least of its details; where that ends, facts alone."""
        taken = reserved = 0
        for number in self.shown:
            section = self.sections[number]
            facts = _size(section.facts) if section.facts else 0
            least = self._least(section.detail)
            if taken + reserved + facts + least <= room:
                reserved += least
                self.detailed += [number] if least else []
            elif taken + reserved + facts > room:
                continue
            taken += facts
            self.facts.add(number)
        return taken

    def _least(self, detail: str) -> int:
        if not detail:
            return 0
        return min(_size(self.block(detail)), _LEAST_DETAIL) if len(detail) < _LEAST_DETAIL else _LEAST_DETAIL

    def take_details(self, room: int, cap: int) -> int:
        """The same share for everyone; what a short one leaves goes to the others."""
        taken = 0
        wanted = {number: self._fitted(number, min(cap, room)) for number in self.detailed}
        for place, number in enumerate(sorted(wanted, key=lambda each: _size(wanted[each]))):
            share = (room - taken) // (len(wanted) - place)
            block = wanted[number] if _size(wanted[number]) <= share else self._fitted(number, share)
            if block:
                self.details[number] = block
                taken += _size(block)
        return taken

    def take_more_titles(self, room: int) -> int:
        """What the details left: the facts of those that are shown, then the next titles, with facts if they fit."""
        taken = 0
        for number in sorted(set(self.shown) - self.facts):
            if taken + _size(self.sections[number].facts) <= room:
                taken += _size(self.sections[number].facts)
                self.facts.add(number)
        for number in sorted(set(range(len(self.sections))).difference(self.shown)):
            section = self.sections[number]
            title, facts = _size("\n" + section.title), _size(section.facts) if section.facts else 0
            if taken + title > room:
                break
            self.shown.append(number)
            taken += title
            if taken + facts <= room:
                self.facts.add(number)
                taken += facts
        self.shown.sort()
        return taken

    def grow_details(self, room: int) -> None:
        """What nobody needed goes to the details that were shortened, the first ones first."""
        for number in sorted(self.details):
            before = _size(self.details[number])
            longer = self._fitted(number, before + room) if self._is_short(number) else ""
            if _size(longer) > before:
                self.details[number] = longer
                room -= _size(longer) - before

    def _is_short(self, number: int) -> bool:
        return self.details[number] != self.block(self.sections[number].detail)

    def _fitted(self, number: int, room: int) -> str:
        """A section's details as a block of whole lines that takes at most `room` bytes; '' when there is none."""
        detail = self.sections[number].detail
        size = room
        for _ in range(_TRIES):
            block = self.block(without_half_lines(detail, size))
            if _size(block) <= room:
                return block
            # What the block adds grows with the number of lines.
            size = min(size * room // _size(block), size - 1)
            if size <= 0:
                break
        return ""

    def notice(self, limit: int, *, most: bool = False) -> str:
        """What was cut, by number; with `most` as long as it can get."""
        every = len(self.sections)
        hidden = every - (0 if most else len(self.shown))
        factless = sum(bool(self.sections[number].facts) and number not in self.facts for number in self.shown)
        bare = sum(bool(self.sections[number].detail) and not self.details.get(number) for number in self.shown)
        counts = (
            (hidden, "left out"),
            (every if most else factless, "without their places"),
            (every if most else bare, "without their details"),
        )
        parts = [f"{_items(count)} {what}" for count, what in counts if count]
        parts += ["details shortened"] if most or any(map(self._is_short, self.details)) else []
        told = ", ".join(parts)
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
