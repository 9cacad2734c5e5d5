"""What the tests did before anybody changed anything: over several runs, in the work tree and in the clean room.

A run is the outcome of every test by its id. From several of them it is known which tests are flaky or depend on their
order, and whether the room shows what the work tree shows.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

__all__ = ["ABSENT", "BAD", "GOOD", "Baseline", "BaselineRun", "Place"]

Place = Literal["tree", "room", "reverse"]

#: Outcomes of a test that did what it should, and of one that did not.
GOOD = frozenset({"passed", "xpassed"})
BAD = frozenset({"failed", "error"})
ABSENT = "absent"
_PLACES = {"tree": "in the work tree", "room": "in the clean room", "reverse": "in the clean room in reverse order"}


@dataclass(frozen=True, slots=True)
class BaselineRun:
    """One run: where, and what became of each test. `broken` are files that could not be collected."""

    place: Place
    outcomes: Mapping[str, str]
    durations: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    broken: tuple[str, ...] = ()
    ended: str = "passed"  # how the run as a whole ended

    def outcome(self, test: str) -> str:
        return self.outcomes.get(test, ABSENT)


@dataclass(frozen=True, slots=True)
class Baseline:
    runs: tuple[BaselineRun, ...] = ()

    @property
    def tests(self) -> frozenset[str]:
        """Every test that any run had."""
        return frozenset(test for run in self.runs for test in run.outcomes)

    def history(self, test: str) -> tuple[str, ...]:
        return tuple(run.outcome(test) for run in self.runs)

    def told(self, test: str) -> str:
        """`tests/test_a.py::test_b: passed in the work tree, failed in the clean room in reverse order`."""
        return f"{test}: " + ", ".join(f"{run.outcome(test)} {_PLACES[run.place]}" for run in self.runs)

    def _in_room(self, test: str) -> tuple[str, ...]:
        return tuple(run.outcome(test) for run in self.runs if run.place != "tree")

    def _in_tree(self, test: str) -> tuple[str, ...]:
        return tuple(run.outcome(test) for run in self.runs if run.place == "tree")

    @property
    def differing(self) -> tuple[str, ...]:
        """Tests that did not do the same in every run, whatever the reason."""
        return tuple(sorted(test for test in self.tests if len(set(map(_kind, self.history(test)))) > 1))

    @property
    def room_differs(self) -> tuple[str, ...]:
        """Tests that work in the tree and never in the room: the room lacks something. One run alone proves nothing."""
        found = []
        for test in self.differing:
            tree, room = self._in_tree(test), self._in_room(test)
            always_good = bool(tree) and all(_kind(outcome) == "good" for outcome in tree)
            if always_good and len(room) > 1 and all(_kind(outcome) != "good" for outcome in room):
                found.append(test)
        return tuple(found)

    @property
    def flaky(self) -> tuple[str, ...]:
        """Tests that were unsteady before anybody changed anything: flaky, or dependent on their order."""
        lacking = set(self.room_differs)
        return tuple(
            test for test in self.differing if test not in lacking and "good" in map(_kind, self.history(test))
        )

    @property
    def is_settled(self) -> bool:
        """Whether one more run would tell nothing that has to be known: each difference was seen in two room runs."""
        rooms = sum(run.place != "tree" for run in self.runs)
        return rooms > 0 and (not self.differing or rooms > 1)

    def outcome(self, test: str) -> str:
        """What the test did as a rule: the outcome of most runs, of equals the worst, and absence is no outcome."""
        seen = Counter(outcome for outcome in self.history(test) if outcome != ABSENT)
        if not seen:
            return ABSENT
        most = max(seen.values())
        tied = [outcome for outcome, count in seen.items() if count == most]
        return max(tied, key=lambda outcome: (_RANK.get(outcome, 0), outcome))

    @property
    def failing(self) -> frozenset[str]:
        """Tests that failed in every run that had them."""
        return frozenset(
            test for test in self.tests if all(outcome in BAD for outcome in self.history(test) if outcome != ABSENT)
        )

    @property
    def passing(self) -> frozenset[str]:
        """Tests that never did anything but pass."""
        return frozenset(test for test in self.tests if all(outcome in GOOD for outcome in self.history(test)))

    @property
    def broken(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for run in self.runs for name in run.broken))

    def duration(self, test: str) -> float:
        """The shortest time that it ever took."""
        return min((run.durations[test] for run in self.runs if test in run.durations), default=0.0)

    def counts(self) -> dict[str, int]:
        return dict(Counter(self.outcome(test) for test in self.tests))

    def document(self) -> bytes:
        """For a file; the same baseline always gives the same bytes."""
        runs = [
            {
                "place": run.place,
                "outcomes": dict(sorted(run.outcomes.items())),
                "durations": {test: round(seconds, 4) for test, seconds in sorted(run.durations.items())},
                "broken": list(run.broken),
                "ended": run.ended,
            }
            for run in self.runs
        ]
        return json.dumps({"schema": "iterctl.baseline/1", "runs": runs}, sort_keys=True).encode()

    @classmethod
    def of_document(cls, data: bytes) -> Baseline:
        runs = json.loads(data)["runs"]
        return cls(
            tuple(
                BaselineRun(
                    run["place"],
                    MappingProxyType(run["outcomes"]),
                    MappingProxyType(run["durations"]),
                    tuple(run["broken"]),
                    run["ended"],
                )
                for run in runs
            )
        )

    def digest(self) -> str:
        return hashlib.sha256(self.document()).hexdigest()

    def with_run(self, run: BaselineRun) -> Baseline:
        return Baseline((*self.runs, run))


_RANK = {"passed": 0, "xpassed": 1, "xfailed": 2, "skipped": 3, "failed": 4, "error": 5}


def _kind(outcome: str) -> str:
    """What is the same for a comparison of runs: a failure in the set-up and one in the call are one thing."""
    if outcome in GOOD:
        return "good"
    return "bad" if outcome in BAD else outcome


def named(tests: Iterable[str], most: int = 3) -> str:
    """`a, b, c and 4 more`."""
    names = list(tests)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
