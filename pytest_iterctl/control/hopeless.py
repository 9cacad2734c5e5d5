"""When it is of no use to go on, by rules with thresholds that a plan can set. Pure.

Each rule looks at what the iterations came to: the tree that the agent left, the signatures of the failures, and how
many tests pass. Progress resets them all, and so does a person's answer: whatever lies before an iteration that was
better than all before it, and so the reason to go on, does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from pytest_iterctl.control.evidence import Outcome, SuiteEvidence
from pytest_iterctl.control.signature import exact, normalised, place
from pytest_iterctl.control.state import Attempt
from pytest_iterctl.plan.model import Patience

__all__ = ["Tried", "hopeless", "is_stuck", "last_tried", "rank", "signatures", "tried"]

_ALIKE = 0.8
_PERIOD = 2
_NOTHING = (0, 0, 0, 0)


@dataclass(frozen=True)
class Tried:
    """What one iteration came to. Of a long history most is never asked, so it is found out when it is."""

    attempt: Attempt
    suite: SuiteEvidence

    @property
    def iteration(self) -> int:
        return self.attempt.iteration

    @property
    def tree(self) -> str:
        return self.attempt.made

    @property
    def changed(self) -> bool:
        return self.attempt.changed is not False

    @property
    def strategy(self) -> str:
        return self.attempt.strategy.name

    @cached_property
    def rank(self) -> tuple[int, ...]:
        """Tests that the agent has edited show no progress, whatever they say."""
        return _NOTHING if self.attempt.judged_by_edits else rank(self.suite)

    @cached_property
    def signatures(self) -> frozenset[str]:
        return signatures(self.suite)

    @cached_property
    def places(self) -> frozenset[str]:
        return frozenset(map(place, self.suite.failures))


def tried(attempts: Iterable[Attempt]) -> tuple[Tried, ...]:
    """The iterations that tests have judged, the baseline first."""
    return tuple(Tried(attempt, suite) for attempt in attempts if (suite := attempt.verdict) is not None)


def last_tried(attempts: Sequence[Attempt]) -> tuple[Tried, ...]:
    """The last two of them: what the next try depends on."""
    judged = (attempt for attempt in reversed(attempts) if attempt.verdict is not None)
    return tried(tuple(islice(judged, _PERIOD))[::-1])


def rank(suite: SuiteEvidence) -> tuple[int, ...]:
    """How far a run came: whether it passed, whether it judged the tests at all, how many passed and failed."""
    judged = suite.outcome in {Outcome.PASSED, Outcome.FAILED}
    return (int(suite.passed), int(judged), suite.counts.passed, -len(suite.failing))


def signatures(suite: SuiteEvidence) -> frozenset[str]:
    """What a run failed at, without what changes from run to run anyway."""
    if suite.passed:
        return frozenset()
    found = frozenset(exact(failure) for failure in suite.failures)
    if not found and not suite.failing:
        return frozenset({f"{suite.outcome} {normalised(suite.reason)}"})
    return found | frozenset(map(normalised, suite.failing))


def hopeless(done: Sequence[Tried], patience: Patience, *, may_start_afresh: bool, after: int = 0) -> str:
    """Why it is of no use to go on after these iterations; '' as long as it is.

    What was done up to iteration `after`, which a person has answered, is only what later ones are compared with.
    """
    own = [one for one in done if one.iteration > after]
    if not own:
        return ""
    if own[-1].rank[0]:  # the tests pass, and somebody does not approve
        return _no_change(own, patience.no_change)
    recent, ahead = _since_progress(done, after)
    return (
        _no_change(own, patience.no_change)
        or _same_change(recent[1:] if ahead else recent, patience.same_diff)
        or _same_failures(recent, patience.same_failures, may_start_afresh=may_start_afresh)
        or _alternating(recent, patience.alternating)
        or _no_progress(done, patience.no_progress)
    )


def is_stuck(done: Sequence[Tried], *, after: int = 0, whatever_changed: bool = False) -> bool:
    """Whether the last two iterations failed in the same way although the change was another, and came no further."""
    own = [one for one in done if one.iteration > after][-_PERIOD:]
    if len(own) < _PERIOD or any(one.rank[0] for one in own) or own[1].rank > own[0].rank:
        return False
    moved = whatever_changed or own[0].tree != own[1].tree
    return moved and _alike(own[0].signatures, own[1].signatures)


def _since_progress(done: Sequence[Tried], after: int) -> tuple[list[Tried], bool]:
    """From the iteration on that was better than all before it, where the others stand; and whether there is one."""
    start, best = 0, done[0].rank
    for number, one in enumerate(done):
        if one.rank > best:
            start, best = number, one.rank
    return [one for one in done[start:] if one.iteration > after], done[start].iteration > after and start > 0


def _no_change(own: Sequence[Tried], times: int) -> str:
    last = own[-times:] if times else []
    if not times or len(last) < times or any(one.changed for one in last):
        return ""
    return f"the agent changed nothing {times} times in a row" if times > 1 else "the agent changed nothing"


def _same_change(recent: Sequence[Tried], times: int) -> str:
    """What was best is not among these: to go back to it is to leave a wrong way."""
    if not times or not recent:
        return ""
    last = recent[-1]
    earlier = [one for one in recent[:-1] if one.changed and last.changed and one.tree and one.tree == last.tree]
    if not earlier or len(earlier) + 1 < times:
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
    if not times or len(last) < times:
        return ""
    two = last[0] != last[1]
    if not two or any(one != last[number % _PERIOD] for number, one in enumerate(last)):
        return ""
    return f"the failures alternate between two kinds for {times} iterations"


def _no_progress(done: Sequence[Tried], times: int) -> str:
    """A running best with patience: not how the last one compares with the one before it."""
    if not times:
        return ""
    best = max(done, key=lambda one: (one.rank, -one.iteration))
    last = _last_on_new_ground(done, best)
    since = [one for one in done if one.iteration > last.iteration]
    if len(since) < times:
        return ""
    before = f"iteration {last.iteration}" if last.iteration else "the beginning"
    return f"no iteration has been better than {before} in {len(since)} iterations"


def _last_on_new_ground(done: Sequence[Tried], best: Tried) -> Tried:
    """The last iteration that failed at something that was never seen before, and at no more than the best; or that.

    Whoever mends what one test asks, one line after the other, or one missing module after the other, gets on although
    no number says so. What is new is a place, not a message: guessing at one value makes ever new messages.
    """
    last, seen = best, frozenset[str]()
    for one in done:
        if one.iteration > best.iteration and one.rank >= best.rank and one.places - seen:
            last = one
        seen |= one.places
    return last


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    together = one | other
    return not together or len(one & other) / len(together) >= _ALIKE
