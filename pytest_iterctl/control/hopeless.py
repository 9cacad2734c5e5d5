"""When it is of no use to go on, by rules with thresholds that a plan can set. Pure.

Each rule looks at what the iterations came to: the tree that the agent left, the signatures of the failures, and how
many tests pass. Progress resets them all: whatever lies before an iteration that was better than all before it, and so
the reason to go on, does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_iterctl.control.evidence import Outcome, SuiteEvidence
from pytest_iterctl.control.signature import exact, normalised
from pytest_iterctl.control.state import Attempt
from pytest_iterctl.plan.model import Patience

__all__ = ["Tried", "hopeless", "is_stuck", "rank", "tried"]

_ALIKE = 0.8
_PERIOD = 2


@dataclass(frozen=True, slots=True)
class Tried:
    """What one iteration came to."""

    iteration: int
    tree: str
    signatures: frozenset[str]
    rank: tuple[int, ...]
    changed: bool
    strategy: str = ""


def tried(attempts: Sequence[Attempt]) -> tuple[Tried, ...]:
    """The iterations that tests have judged, the baseline first."""
    return tuple(_tried(attempts))


def _tried(attempts: Sequence[Attempt]) -> Iterator[Tried]:
    for attempt in attempts:
        suite = attempt.verdict
        if suite is not None:
            yield Tried(
                iteration=attempt.iteration,
                tree=attempt.made,
                signatures=_signatures(suite),
                rank=rank(suite),
                changed=attempt.changed is not False,
                strategy=attempt.strategy.name,
            )


def rank(suite: SuiteEvidence) -> tuple[int, ...]:
    """How far a run came: whether it passed, whether it judged the tests at all, how many passed and failed."""
    judged = suite.outcome in {Outcome.PASSED, Outcome.FAILED}
    return (int(suite.passed), int(judged), suite.counts.passed, -len(suite.failing))


def _signatures(suite: SuiteEvidence) -> frozenset[str]:
    if suite.passed:
        return frozenset()
    found = frozenset(exact(failure) for failure in suite.failures)
    if not found and not suite.failing:
        return frozenset({f"{suite.outcome} {normalised(suite.reason)}"})
    return found | frozenset(suite.failing)


def hopeless(done: Sequence[Tried], patience: Patience, *, may_start_afresh: bool) -> str:
    """Why it is of no use to go on after these iterations; '' as long as it is."""
    own = [one for one in done if one.iteration > 0]
    if not own or own[-1].rank[0]:
        return ""
    recent = _since_progress(done)
    return (
        _no_change(own, patience.no_change)
        or _same_change(own, patience.same_diff)
        or _same_failures(recent, patience.same_failures, may_start_afresh=may_start_afresh)
        or _alternating(recent, patience.alternating)
        or _no_progress(done, patience.no_progress)
    )


def is_stuck(done: Sequence[Tried]) -> bool:
    """Whether the last two iterations failed in the same way although the change was another."""
    own = [one for one in done if one.iteration > 0][-_PERIOD:]
    if len(own) < _PERIOD or any(one.rank[0] for one in own):
        return False
    return own[0].tree != own[1].tree and _alike(own[0].signatures, own[1].signatures)


def _since_progress(done: Sequence[Tried]) -> list[Tried]:
    """From the iteration on that was better than all before it; that one is where the others stand."""
    start, best = 0, done[0].rank
    for number, one in enumerate(done):
        if one.rank > best:
            start, best = number, one.rank
    return [one for one in done[start:] if one.iteration > 0]


def _no_change(own: Sequence[Tried], times: int) -> str:
    last = own[-times:] if times else []
    if not times or len(last) < times or any(one.changed for one in last):
        return ""
    return f"the agent changed nothing {times} times in a row" if times > 1 else "the agent changed nothing"


def _same_change(own: Sequence[Tried], times: int) -> str:
    last = own[-1]
    earlier = [one for one in own[:-1] if one.tree and one.tree == last.tree and last.changed]
    if not times or not earlier or len(earlier) + 1 < times:
        return ""
    return f"the change of iteration {last.iteration} is that of iteration {earlier[-1].iteration} again"


def _same_failures(recent: Sequence[Tried], times: int, *, may_start_afresh: bool) -> str:
    last = recent[-times:] if times else []
    if not times or len(last) < times or not all(_alike(one.signatures, last[-1].signatures) for one in last):
        return ""
    if len({one.tree for one in last}) < len(last):
        return ""  # what made no difference is another rule's
    if may_start_afresh and not any(one.strategy == "fresh-context" for one in last):
        return ""
    return f"the same failures {times} times, each time with another change"


def _alternating(recent: Sequence[Tried], times: int) -> str:
    last = [one.signatures for one in recent[-times:]] if times else []
    if not times or len(last) < max(times, 2 * _PERIOD):
        return ""
    two = last[0] != last[1]
    if not two or any(one != last[number % _PERIOD] for number, one in enumerate(last)):
        return ""
    return f"the failures alternate between two kinds for {times} iterations"


def _no_progress(done: Sequence[Tried], times: int) -> str:
    """A running best with patience: not how the last one compares with the one before it."""
    best = max(done, key=lambda one: (one.rank, -one.iteration))
    since = [one for one in done if one.iteration > best.iteration]
    if not times or len(since) < times:
        return ""
    place = f"iteration {best.iteration}" if best.iteration else "the beginning"
    return f"no iteration has been better than {place} in {len(since)} iterations"


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    together = one | other
    return not together or len(one & other) / len(together) >= _ALIKE
