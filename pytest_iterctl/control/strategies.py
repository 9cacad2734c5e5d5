"""Strategies: how the next try goes about it, and which one follows from what went wrong. Pure.

The first is always `default`. The next is picked by the type of the error, then by how often it has led to success
before, then by its priority. Whatever a strategy says has an effect; none of them makes a test pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import get_args

from pydantic import Field

from pytest_iterctl.control.error_types import Analysis, ErrorType
from pytest_iterctl.plan.model import Backoff, StrategyMode
from pytest_iterctl.plan.values import Value

__all__ = ["BUILT_IN", "DEFAULT", "Choice", "Learned", "Strategy", "choose", "named", "problem_with"]

#: With so many causes or more, one after the other is told.
MANY_CAUSES = 4


class Strategy(Value):
    """What is done otherwise in the next try."""

    name: str
    priority: int = 0
    handles: tuple[ErrorType, ...] = ()
    timeout_factor: float = Field(default=1.0, description="times that agents and tests get, each time it is used")
    backoff: Backoff | None = Field(default=None, description="how waits grow (None: as the settings say)")
    workers: int | None = Field(default=None, description="processes that run tests at once (None: as asked for)")
    next_agent: bool = Field(default=False, description="the next agent of the task's list is called")
    cache: bool = Field(default=True, description="pytest's cache of earlier runs is used")
    fresh_session: bool = Field(default=False, description="the agent begins a new session")
    from_best: bool = Field(default=False, description="it begins with the best attempt so far")
    only_first_cause: bool = Field(default=False, description="of several causes the agent is told the first")


DEFAULT = Strategy(name="default", priority=10)
BUILT_IN = (
    DEFAULT,
    Strategy(name="aggressive-timeout", priority=8, handles=("timeout",), timeout_factor=2.0),
    Strategy(
        name="fallback-providers",
        priority=7,
        handles=("rate_limit", "api_error", "service_unavailable", "network", "auth", "validation"),
        next_agent=True,
        cache=False,
    ),
    Strategy(name="reduced-parallelism", priority=6, handles=("resource_exhausted",), workers=1, backoff="linear"),
    Strategy(name="fresh-context", priority=4, fresh_session=True, from_best=True),
    Strategy(name="narrow", priority=3, only_first_cause=True),
)
_LEAST_TIME, _MOST_TIME, _MOST_WORKERS = 0.1, 100, 1000
_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
_TAKEN = frozenset(get_args(StrategyMode))
_OFTEN_OVER_SOON: frozenset[ErrorType] = frozenset(("network",))
_CODE: frozenset[ErrorType] = frozenset(("collection", "import", "syntax", "assertion", "type", "crash", "unknown"))


@dataclass(frozen=True, slots=True)
class Learned:
    """What became of a strategy after one type of error, over all runs of this repository."""

    succeeded: int = 0
    failed: int = 0

    @property
    def rate(self) -> float:
        """Never sure of anything that was tried a few times: one success of one is no better than eight of ten."""
        return (self.succeeded + 1) / (self.succeeded + self.failed + 2)


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy, and why it was chosen."""

    strategy: Strategy
    why: str


@dataclass(frozen=True, slots=True)
class Circumstances:
    """All that a choice may depend on."""

    mode: str = "auto"
    analysis: Analysis | None = None
    stuck: bool = False  # the last two iterations failed in the same way, though the change was another
    causes: int = 0
    ahead: bool = False  # the last iteration was better than the one before it
    more_agents: bool = False
    after_agent: bool = False  # the agent failed, and the same iteration goes on
    again: bool = False  # the call before failed in the same way
    first: bool = False
    added: tuple[Strategy, ...] = ()  # by Python hooks
    asked: str = ""  # the one that a Python hook names
    learned: Mapping[tuple[str, str], Learned] = field(default_factory=lambda: MappingProxyType({}))


def named(name: str, added: Iterable[Strategy] = ()) -> Strategy | None:
    return next((strategy for strategy in (*BUILT_IN, *added) if strategy.name == name), None)


def problem_with(strategy: Strategy, others: Iterable[Strategy]) -> str:
    """Why a strategy can't be added to others; '' when it can."""
    if not _NAME.fullmatch(strategy.name):
        return f"{strategy.name[:60]!r} is no name for a strategy: small letters, digits and dashes, at most 40"
    if strategy.name in _TAKEN or any(each.name == strategy.name for each in others):
        return f"there is a strategy {strategy.name} already"
    if not _LEAST_TIME <= strategy.timeout_factor <= _MOST_TIME:
        return f"timeout_factor of {strategy.name} must be {_LEAST_TIME} to {_MOST_TIME}"
    if strategy.workers is not None and not 1 <= strategy.workers <= _MOST_WORKERS:
        return f"workers of {strategy.name} must be 1 to {_MOST_WORKERS}"
    return ""


def choose(given: Circumstances) -> Choice:
    """The strategy of the next try."""
    pinned = named(given.mode, given.added)
    if pinned is not None:
        return Choice(pinned, "named in the settings")
    if given.mode == "conservative":
        return Choice(DEFAULT, "strategy: conservative")
    asked = named(given.asked, given.added)
    if asked is not None:
        return Choice(asked, "named by a Python hook")
    analysis = given.analysis
    if analysis is None:
        return Choice(DEFAULT, "")
    if given.first and given.mode != "aggressive":
        return Choice(DEFAULT, "the first try")
    if given.first:
        return _by_what_was_learned(given, analysis)
    candidates = tuple(_candidates(given, analysis.error_type))
    if not candidates:
        return Choice(DEFAULT, f"nothing else is meant for {analysis.error_type}")
    best = _best(given, candidates)
    if analysis.error_type in _CODE and not given.stuck and _is_worse_than_default(given, best):
        return Choice(DEFAULT, f"{best.name} has helped less often{_told(given, best)}")
    return Choice(best, f"{_reason(given, best, analysis)}{_told(given, best)}")


def _is_worse_than_default(given: Circumstances, strategy: Strategy) -> bool:
    """Only of one that was tried: otherwise nothing but the default would ever be."""
    known = _known(given, strategy)
    return known != Learned() and known.rate < _known(given, DEFAULT).rate


def _told(given: Circumstances, strategy: Strategy) -> str:
    known = _known(given, strategy)
    return f" ({known.succeeded} of {known.succeeded + known.failed} times it helped)" if known != Learned() else ""


def _by_what_was_learned(given: Circumstances, analysis: Analysis) -> Choice:
    """Before anything was tried here: whatever has helped most often after this type of error."""
    worked = [
        each
        for each in (*BUILT_IN, *given.added)
        if _known(given, each).succeeded and not each.next_agent and not each.only_first_cause
    ]
    if not worked:
        return Choice(DEFAULT, "the first try, and nothing has been learned yet")
    best = _best(given, worked)
    return Choice(best, f"the first try, after {analysis.error_type} before{_told(given, best)}")


def _best(given: Circumstances, candidates: Iterable[Strategy]) -> Strategy:
    return max(candidates, key=lambda each: (_known(given, each).rate, each.priority))


def _known(given: Circumstances, strategy: Strategy) -> Learned:
    error = given.analysis.error_type if given.analysis is not None else ""
    return given.learned.get((error, strategy.name), Learned())


def _candidates(given: Circumstances, error: ErrorType) -> Iterable[Strategy]:
    for strategy in (*BUILT_IN, *given.added):
        if error not in strategy.handles:
            continue
        if strategy.next_agent and not (given.more_agents and given.after_agent):
            continue
        if strategy in BUILT_IN and error in _OFTEN_OVER_SOON and not given.again:
            continue  # it is waited for once: who else is called has the same network
        yield strategy
    if error in _CODE and not given.after_agent:
        if given.stuck:
            yield _named("fresh-context")
        elif given.causes >= MANY_CAUSES and not given.ahead:
            # Whoever gets on with all of them at once is not held up.
            yield _named("narrow")


def _named(name: str) -> Strategy:
    found = named(name)
    if found is None:
        raise ValueError(f"there is no strategy {name}")
    return found


def _reason(given: Circumstances, strategy: Strategy, analysis: Analysis) -> str:
    if strategy.name == "fresh-context":
        return "the same failures twice, though the change was another"
    if strategy.name == "narrow":
        return f"{given.causes} causes at once, and no progress"
    return f"after {analysis.error_type}"
