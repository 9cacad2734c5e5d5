"""Which of very many failures keep their details: some of every cause, and the simplest ones of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import itemgetter

from pytest_iterctl.control.evidence import Failure
from pytest_iterctl.feedback.causes import simplicity, sorted_names
from pytest_iterctl.feedback.signature import coarse

__all__ = ["MOST_FAILURES", "MOST_PER_CAUSE", "KeptFailures"]

#: Failures beyond these are known by their test's id only: a journal holds every run for good.
MOST_FAILURES = 200
#: A flood of one cause must not wash away the others.
MOST_PER_CAUSE = 10


@dataclass(slots=True)
class _Cause:
    """The simplest failures of one cause, each with when it came, and the other tests by name."""

    simplest: list[tuple[int, Failure]] = field(default_factory=list)
    also: set[str] = field(default_factory=set)

    def listed(self) -> list[tuple[int, Failure]]:
        """With the names at the simplest one."""
        kept = sorted(self.simplest, key=_simplicity)
        names = sorted_names(self.also - {failure.test for _, failure in kept})
        arrival, first = kept[0]
        return [(arrival, first.model_copy(update={"also": names})), *kept[1:]] if names else kept


class KeptFailures:
    """Takes failures one by one, in bounded memory but for the names of the tests."""

    def __init__(self, most: int = MOST_FAILURES, per_cause: int = MOST_PER_CAUSE) -> None:
        self.room = most
        self.per_cause = per_cause
        self.arrived = 0
        self.causes: dict[str, _Cause] = {}

    def take(self, failure: Failure) -> None:
        self.arrived += 1
        signature = coarse(failure)
        cause = self.causes.get(signature)
        if cause is None:
            if self.room <= 0:
                return
            cause = self.causes[signature] = _Cause()
        cause.simplest.append((self.arrived, failure))
        if self.room > 0 and len(cause.simplest) <= self.per_cause:
            self.room -= 1
            return
        cause.simplest.sort(key=_simplicity)
        cause.also.add(cause.simplest.pop()[1].test)

    def listed(self) -> tuple[Failure, ...]:
        """In the order in which they came, whatever their causes."""
        kept = (entry for cause in self.causes.values() for entry in cause.listed())
        return tuple(failure for _, failure in sorted(kept, key=itemgetter(0)))


def _simplicity(entry: tuple[int, Failure]) -> tuple[object, ...]:
    return simplicity(entry[1])
