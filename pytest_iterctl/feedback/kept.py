"""Which of very many failures keep their details: some of every cause, and the simplest ones of each."""

from __future__ import annotations

import re
from bisect import insort
from dataclasses import dataclass, field
from operator import attrgetter

from pytest_iterctl.control.evidence import Failure
from pytest_iterctl.control.signature import base_name, coarse
from pytest_iterctl.feedback.causes import briefness, simplicity, sorted_names

__all__ = ["MOST_FAILURES", "MOST_PER_CAUSE", "KeptFailures"]

#: Failures beyond these are known by their test's id only: a journal holds every run for good.
MOST_FAILURES = 200
#: A flood of one cause must not wash away the others.
MOST_PER_CAUSE = 10


#: Of these the test itself may be part of the signature.
_OF_THE_TEST = {"", "AssertionError", "Failed"}
_KNOWN = 10_000
_READ = 2000
_ALONE = re.compile(r"(?<![\w.])\d+(?![\w.])")


@dataclass(frozen=True, slots=True)
class _Entry:
    """A failure, how simple it is, and when it came."""

    simplicity: tuple[object, ...]
    arrival: int
    failure: Failure


_by_simplicity = attrgetter("simplicity", "arrival")


@dataclass(slots=True)
class _Cause:
    """The simplest failures of one cause, in that order, and the other tests by name."""

    simplest: list[_Entry] = field(default_factory=list)
    also: set[str] = field(default_factory=set)

    def name(self, failure: Failure) -> None:
        self.also.add(failure.test)
        if failure.also:
            self.also.update(failure.also)

    def listed(self) -> list[tuple[int, Failure]]:
        """With the names at the simplest one."""
        kept = [(entry.arrival, entry.failure) for entry in self.simplest]
        arrival, first = kept[0]
        names = sorted_names(self.also.union(first.also) - {failure.test for _, failure in kept})
        return [(arrival, first.model_copy(update={"also": names})), *kept[1:]] if names else kept


class KeptFailures:
    """Takes failures one by one, in bounded memory but for the names of the tests."""

    def __init__(self, most: int = MOST_FAILURES, per_cause: int = MOST_PER_CAUSE) -> None:
        self.room = most
        self.per_cause = per_cause
        self.arrived = 0
        self.causes: dict[str, _Cause] = {}
        self.known: dict[tuple[object, ...], str] = {}

    def take(self, failure: Failure) -> None:
        self.arrived += 1
        signature = self._signature(failure)
        cause = self.causes.get(signature)
        if cause is None:
            if self.room <= 0 and not self._made_room():
                return
            cause = self.causes[signature] = _Cause()
        full = self.room <= 0 or len(cause.simplest) >= self.per_cause
        if full and (not cause.simplest or briefness(failure) > cause.simplest[-1].simplicity):
            cause.name(failure)  # most of a flood ends here
            return
        insort(cause.simplest, _Entry(simplicity(failure), self.arrived, failure), key=_by_simplicity)
        if full:
            cause.name(cause.simplest.pop().failure)
        else:
            self.room -= 1

    def _made_room(self) -> bool:
        """A new cause matters more than another example of one that has several."""
        richest = max(self.causes.values(), key=lambda cause: len(cause.simplest), default=None)
        if richest is None or len(richest.simplest) < 2:  # noqa: PLR2004 - each cause keeps one
            return False
        richest.name(richest.simplest.pop().failure)
        self.room += 1
        return True

    def _signature(self, failure: Failure) -> str:
        """The coarse one, which is worked out once for failures that differ in nothing but plain numbers."""
        compared = failure.expected is not None and failure.received is not None
        whose = base_name(failure.test) if compared or failure.kind in _OF_THE_TEST else ""
        way = tuple([(frame.path, frame.line, frame.function, frame.source) for frame in failure.frames])
        message = _ALONE.sub("0", failure.message[:_READ])
        key = (failure.kind, failure.phase, failure.where, compared, whose, message, way)
        found = self.known.get(key)
        if found is None:
            if len(self.known) >= _KNOWN:
                self.known.clear()
            found = self.known[key] = coarse(failure)
        return found

    def listed(self) -> tuple[Failure, ...]:
        """In the order in which they came, whatever their causes."""
        kept = (entry for cause in self.causes.values() if cause.simplest for entry in cause.listed())
        return tuple(failure for _, failure in sorted(kept, key=lambda entry: entry[0]))
