"""What changed from one iteration to the next: fixed, gone, still failing (in the same way or not), new, regressed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_iterctl.control.evidence import Outcome, SuiteEvidence
from pytest_iterctl.control.signature import exact
from pytest_iterctl.feedback.causes import sorted_names

__all__ = ["Movement", "movement"]

_WITH_A_VERDICT = {Outcome.PASSED, Outcome.FAILED}


@dataclass(frozen=True, slots=True)
class Movement:
    """Tests by what became of them; all empty when there was nothing before."""

    fixed: tuple[str, ...] = ()
    same: tuple[str, ...] = ()  # fail as they did
    different: tuple[str, ...] = ()  # fail, but in another way than before
    new: tuple[str, ...] = ()
    regressed: tuple[str, ...] = ()  # fail now and passed before
    certain: bool = True  # False: nobody says what passed, and fewer tests ran: what fails no longer may not have run
    gone: tuple[str, ...] = ()  # failed before, and neither fail nor pass now: skipped, removed or renamed

    def __bool__(self) -> bool:
        return any((self.fixed, self.same, self.different, self.new, self.regressed, self.gone))

    @property
    def text(self) -> str:
        """`1 fixed, 1 no longer run, 2 still failing (1 of them differently), 1 newly failing, 1 regressed`."""
        still = len(self.same) + len(self.different)
        differently = f" ({len(self.different)} of them differently)" if self.different else ""
        fixed = "fixed" if self.certain else "no longer failing (fewer tests ran)"
        parts = (
            f"{len(self.fixed)} {fixed}" if self.fixed else "",
            f"{len(self.gone)} no longer run" if self.gone else "",
            f"{still} still failing{differently}" if still else "",
            f"{len(self.new)} newly failing" if self.new else "",
            f"{len(self.regressed)} regressed" if self.regressed else "",
        )
        return ", ".join(filter(None, parts))


def movement(
    previous: SuiteEvidence | None,
    current: SuiteEvidence,
    *,
    passed_before: frozenset[str] = frozenset(),
    passed_now: frozenset[str] | None = None,
) -> Movement:
    """What became of the tests since the iteration before; `passed_before` names those that passed in any earlier one.

    `passed_now` names those that passed in this one: only they are fixed. Where it is None, nobody knows, and what
    fails no longer is taken for fixed. Without an iteration before, only what regressed can be told.
    """
    now = set(current.failing)
    before = set(previous.failing) if previous is not None else set()
    regressed = (now - before) & passed_before
    if previous is None:
        return Movement(regressed=sorted_names(regressed))
    still = before & now
    known, told = _signatures(previous), _signatures(current)
    # A test of which one side has no details is taken for the same: nobody can say that it isn't.
    different = {test for test in still if test in known and test in told and known[test] != told[test]}
    # A file that can be collected now has tests that run; whether they pass is theirs to tell.
    left = before - now - _uncollected(previous)
    fixed = left if passed_now is None else left & passed_now
    # A run that came to no verdict says nothing about the tests that it does not name.
    judged = current.outcome in _WITH_A_VERDICT
    return Movement(
        fixed=sorted_names(fixed if judged or passed_now is not None else ()),
        same=sorted_names(still - different),
        different=sorted_names(different),
        new=sorted_names(now - before - regressed),
        regressed=sorted_names(regressed),
        certain=passed_now is not None or current.counts.tests >= previous.counts.tests,
        gone=sorted_names(left - fixed if judged else ()),
    )


def _signatures(suite: SuiteEvidence) -> Mapping[str, frozenset[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for failure in suite.failures:
        found[failure.test].add(exact(failure))
    return {test: frozenset(each) for test, each in found.items()}


def _uncollected(suite: SuiteEvidence) -> set[str]:
    broken = [failure for failure in suite.failures if failure.phase == "collect"]
    return {failure.test for failure in broken}.union(*(failure.also for failure in broken))
