"""What the attempts have in common: the pattern over iterations that an escalation names."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from pytest_iterctl.control.evidence import Failure
from pytest_iterctl.control.signature import normalised

__all__ = ["Pattern", "PatternName", "Trial", "counted", "detect"]

PatternName = Literal[
    "", "no_change", "repeated_identical_error", "alternating_errors", "regression", "progress", "unsteady"
]
_ALTERNATING = 4
_TWO = 2


@dataclass(frozen=True, slots=True)
class Trial:
    """One attempt as the pattern sees it: which tests failed and at what, whether anything was changed, one line."""

    iteration: int
    text: str
    failing: frozenset[str] = frozenset()
    changed: bool | None = None
    first: Failure | None = None
    passed: bool = False
    signatures: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Pattern:
    name: PatternName
    text: str


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def detect(trials: tuple[Trial, ...]) -> Pattern:
    """The most telling pattern; iterations 1 and up count, iteration 0 is the tree before any agent."""
    tried = tuple(trial for trial in trials if trial.iteration > 0)
    if not tried:
        return Pattern("", "nothing has been tried yet")
    if tried[-1].changed is False:
        times = _trailing(tuple(trial.changed is False for trial in tried))
        return Pattern("no_change", f"the agent changed nothing ({counted(times, 'iteration')} in a row)")
    if len(tried) == 1:
        failing = len(tried[0].failing)
        told = counted(failing, "failing test") if failing else tried[0].text
        return Pattern("", f"one iteration only: {told}")
    return _over_several(tried)


def _over_several(tried: tuple[Trial, ...]) -> Pattern:
    sets = tuple(trial.failing for trial in tried)
    ends = tuple(_end(trial) for trial in tried)
    same = _trailing(tuple(end == ends[-1] for end in ends))
    if same >= _TWO and tried[-1].passed:
        return Pattern("", f"the tests pass, the review does not approve ({same} iterations in a row)")
    if same >= _TWO:
        what = _tests(len(sets[-1])) if sets[-1] else f"end ({tried[-1].text})"
        alike = min(same, _trailing(tuple(trial.signatures == tried[-1].signatures for trial in tried)))
        if alike >= _TWO:
            return Pattern("repeated_identical_error", f"the same {what} in {alike} iterations")
        return Pattern("unsteady", f"the same {what} in {same} iterations, each time with another error")
    if len(ends) >= _ALTERNATING and ends[-1] == ends[-3] != ends[-2] == ends[-4]:
        return Pattern("alternating_errors", "the failures alternate between two sets of tests")
    broken = sets[-1] - sets[-2]
    once_fixed = frozenset[str]().union(*sets[:-2]) & broken
    if once_fixed:
        return Pattern("regression", f"{counted(len(once_fixed), 'test')} fixed once and broken again")
    numbers = [len(trial.failing) if trial.failing or trial.passed else None for trial in tried]
    counts = [number for number in numbers if number is not None]
    if len(counts) == len(numbers) and all(later < earlier for earlier, later in pairwise(counts)):
        return Pattern("progress", "fewer tests fail each time: " + " → ".join(map(str, counts)))
    told = " → ".join("no result" if number is None else str(number) for number in numbers)
    what = "different tests fail each time" if len(counts) == len(numbers) else "it ends differently each time"
    return Pattern("unsteady", f"{what}: {told} failing")


def _end(trial: Trial) -> frozenset[str]:
    """What tells one end from another: the failing tests, or how a run ended that did not get as far as any."""
    return frozenset(map(normalised, trial.failing)) or frozenset(() if trial.passed else (trial.text,))


def _tests(number: int) -> str:
    return "test fails" if number == 1 else f"{number} tests fail"


def _trailing(flags: tuple[bool, ...]) -> int:
    count = 0
    for flag in reversed(flags):
        if not flag:
            break
        count += 1
    return count
