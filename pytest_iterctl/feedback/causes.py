"""Failures into causes: what most likely has one reason is one thing to mend, with its simplest example first."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_iterctl.control.evidence import Failure, SuiteEvidence
from pytest_iterctl.control.signature import base_name, coarse

__all__ = ["Cause", "briefness", "first_cause", "group", "named", "simplicity", "sorted_names"]

_DIGITS = re.compile(r"(\d+)")
_COLLECT, _SESSION, _REGRESSED, _OTHER = range(4)


@dataclass(frozen=True, slots=True)
class Cause:
    """Failures that look the same but for their values."""

    signature: str
    failures: tuple[Failure, ...]  # the simplest first
    tests: tuple[str, ...]  # each once, that of the simplest failure first
    rank: int = _OTHER

    @property
    def example(self) -> Failure:
        return self.failures[0]

    @property
    def hides_others(self) -> bool:
        """Whether other tests may fail for the same reason without anyone knowing."""
        return self.rank in {_COLLECT, _SESSION}


def group(failures: Iterable[Failure], *, regressed: frozenset[str] = frozenset()) -> tuple[Cause, ...]:
    """Causes in the order to work on them, whatever order the failures come in.

    What could not even be collected comes first because it hides the rest, then the end of the session, then what
    passed before, then what breaks most tests.
    """
    found: dict[str, list[Failure]] = {}
    for failure in failures:
        found.setdefault(coarse(failure), []).append(failure)
    causes = [_cause(signature, members, regressed) for signature, members in found.items()]
    return tuple(
        sorted(causes, key=lambda cause: (cause.rank, -len(cause.tests), _natural(cause.example.test), cause.signature))
    )


def first_cause(suite: SuiteEvidence) -> SuiteEvidence:
    """The evidence with the failures of its first cause alone: the others are told once that one is gone."""
    causes = group(suite.failures)
    if len(causes) < 2:  # noqa: PLR2004 - one is the first already
        return suite
    first = frozenset(causes[0].tests)
    kept = tuple(failure for failure in suite.failures if failure.test in first)
    failing = tuple(test for test in suite.failing if test in first)
    return suite.model_copy(update={"failures": kept, "failing": failing or suite.failing})


def _cause(signature: str, members: list[Failure], regressed: frozenset[str]) -> Cause:
    simplest_first = tuple(sorted(members, key=simplicity))
    first = simplest_first[0].test
    every = {failure.test for failure in members}.union(*(failure.also for failure in members))
    others = sorted_names(every - {first, ""})
    tests = (first, *others) if first else others
    return Cause(signature, simplest_first, tests, _rank(members, tests, regressed))


def _rank(members: list[Failure], tests: tuple[str, ...], regressed: frozenset[str]) -> int:
    phases = {failure.phase for failure in members}
    if "collect" in phases:
        return _COLLECT
    if "session" in phases:
        return _SESSION
    return _REGRESSED if not regressed.isdisjoint(tests) else _OTHER


def briefness(failure: Failure) -> tuple[object, ...]:
    """What `simplicity` begins with, and what mostly settles it."""
    parameters = len(failure.test) - len(base_name(failure.test))
    return not failure.detail, parameters, len(failure.message) + len(failure.test), failure.test, failure.phase


def simplicity(failure: Failure) -> tuple[object, ...]:
    """The smallest input first; among equals whatever is told in the fewest words."""
    # The rest only makes sure that no two failures change places from one run to the next.
    texts = (failure.message, failure.where, failure.detail, failure.output, failure.cause, failure.also)
    compared = ((side is None, side or "") for side in (failure.expected, failure.received))
    frames = tuple((frame.path, frame.line, frame.function, frame.source) for frame in failure.frames)
    return (*briefness(failure), *texts, *compared, frames)


def sorted_names(names: Iterable[str]) -> tuple[str, ...]:
    """Names as people sort them: `t[9]` before `t[10]`."""
    return tuple(sorted(names, key=_natural))


def _natural(name: str) -> tuple[tuple[tuple[int, int, str], ...], str]:
    parts = _DIGITS.split(name)
    # Texts and numbers take turns; a number of thousands of digits is compared by its length first, never converted.
    return tuple((0, 0, part) if not number % 2 else _numeral(part) for number, part in enumerate(parts)), name


def _numeral(digits: str) -> tuple[int, int, str]:
    plain = digits.lstrip("0")
    return 1, len(plain), plain


def named(tests: tuple[str, ...], most: int, noun: str = "test") -> str:
    """`a, b, c and 37 more tests`."""
    rest = len(tests) - most
    shown = ", ".join(tests[:most])
    return f"{shown} and {rest} more {noun}{'s' if rest > 1 else ''}" if rest > 0 else shown
