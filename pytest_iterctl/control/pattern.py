"""What the attempts have in common: the pattern over iterations that an escalation names."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from pytest_iterctl.control.evidence import Failure

__all__ = ["Pattern", "PatternName", "Trial", "counted", "detect"]

PatternName = Literal[
    "", "no_change", "repeated_identical_error", "alternating_errors", "regression", "progress", "unsteady"
]
_ALTERNATING = 4
_TWO = 2


@dataclass(frozen=True, slots=True)
class Trial:
    """One attempt as the pattern sees it: which tests failed, whether the agent changed anything, one line of text."""

    iteration: int
    text: str
    failing: frozenset[str] = frozenset()
    changed: bool | None = None
    first: Failure | None = None
    passed: bool = False


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
    same = _trailing(tuple(failing == sets[-1] for failing in sets))
    if same >= _TWO and sets[-1]:
        return Pattern("repeated_identical_error", f"the same {_tests(len(sets[-1]))} in {same} iterations")
    if len(sets) >= _ALTERNATING and sets[-1] == sets[-3] != sets[-2] == sets[-4]:
        return Pattern("alternating_errors", "the failures alternate between two sets of tests")
    broken = sets[-1] - sets[-2]
    once_fixed = frozenset[str]().union(*sets[:-2]) & broken
    if once_fixed:
        return Pattern("regression", f"{counted(len(once_fixed), 'test')} fixed once and broken again")
    numbers = [len(failing) for failing in sets]
    if all(later < earlier for earlier, later in pairwise(numbers)):
        return Pattern("progress", "fewer tests fail each time: " + " → ".join(map(str, numbers)))
    return Pattern("unsteady", "different tests fail each time: " + " → ".join(map(str, numbers)) + " failing")


def _tests(number: int) -> str:
    return "test fails" if number == 1 else f"{number} tests fail"


def _trailing(flags: tuple[bool, ...]) -> int:
    count = 0
    for flag in reversed(flags):
        if not flag:
            break
        count += 1
    return count
