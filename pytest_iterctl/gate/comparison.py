"""What a run of the tests lacks against the baseline: tests that vanished, are newly skipped or expected to fail.

Failures are not told here, they are failures anyway. This is about tests that no longer say anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_iterctl.gate.baseline import ABSENT, BAD, GOOD, Baseline, named

__all__ = ["Gap", "compare", "hurried"]

_WORDS = {
    ABSENT: ("vanished", "no longer run", "bring them back as they were"),
    "skipped": ("newly-skipped", "newly skipped", "let them run again"),
    "xfailed": ("newly-xfailed", "newly expected to fail", "make them pass"),
}
#: A test that took at least this long and now takes less than a fiftieth of it did something else.
_LONG, _SHARE = 0.5, 0.02


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that stands between a green run and acceptance, and what to do about it."""

    kind: str
    text: str
    undo: str = ""
    tests: tuple[str, ...] = ()


def compare(baseline: Baseline, now: Mapping[str, str]) -> tuple[Gap, ...]:
    """The gaps by kind. Tests whose ids are not the same from run to run are compared by their number."""
    silent: dict[str, list[str]] = defaultdict(list)
    flaky = frozenset(baseline.flaky)
    unsteady = {_function(test) for test in baseline.tests if ABSENT in baseline.history(test)}
    for test in sorted(baseline.tests - flaky):
        before, after = baseline.outcome(test), now.get(test, ABSENT)
        if before not in GOOD | BAD or after in GOOD | BAD or _function(test) in unsteady:
            continue
        silent[after].append(test)
    gaps = [_gap(after, tests, baseline) for after, tests in sorted(silent.items())]
    return (*gaps, *_fewer(baseline, now, unsteady))


def _gap(after: str, tests: list[str], baseline: Baseline) -> Gap:
    kind, what, undo = _WORDS.get(after, (f"newly-{after}", f"newly {after}", "let them run as they did"))
    number = f"{len(tests)} test{'s' if len(tests) > 1 else ''} of the baseline {'are' if len(tests) > 1 else 'is'}"
    shrunk = _shrunk(tests, baseline) if after == ABSENT else ""
    return Gap(kind, f"{number} {what}: {named(tests)}{shrunk}", undo, tuple(tests))


def _shrunk(tests: list[str], baseline: Baseline) -> str:
    """A parametrised test that lost some of its parameters, said as such."""
    lost = {_function(test) for test in tests if "[" in test}
    whole = {name: sum(_function(test) == name for test in baseline.tests) for name in lost}
    parts = []
    for name, size in sorted(whole.items()):
        gone = sum(_function(test) == name for test in tests)
        if gone < size:
            parts.append(f"{name} has {size - gone} of its {size} parameters left")
    return f" ({'; '.join(parts[:3])})" if parts else ""


def _fewer(baseline: Baseline, now: Mapping[str, str], unsteady: set[str]) -> list[Gap]:
    """Sets of parameters with ids that change from run to run: only their number can be held against them."""
    gaps = []
    for name in sorted(unsteady):
        sizes = [sum(_function(test) == name for test in run.outcomes) for run in baseline.runs]
        least = min((size for size in sizes if size), default=0)
        left = sum(_function(test) == name and outcome in GOOD | BAD for test, outcome in now.items())
        if left < least:
            text = f"{name} has {left} of its {least} parameters left"
            gaps.append(Gap("vanished", text, "bring them back as they were", (name,)))
    return gaps


def _function(test: str) -> str:
    return test.partition("[")[0]


def hurried(baseline: Baseline, now: Mapping[str, str], durations: Mapping[str, float]) -> tuple[str, ...]:
    """Tests that passed before and still do, in next to no time: perhaps faster code, perhaps none."""
    return tuple(
        sorted(
            test
            for test in baseline.passing
            if now.get(test) in GOOD
            and (before := baseline.duration(test)) >= _LONG
            and durations.get(test, before) < before * _SHARE
        )
    )
