"""What kind of failure it was and how the next try goes about it, as words and as data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pytest_iterctl.control.analysis import analysis_of
from pytest_iterctl.control.error_types import Analysis
from pytest_iterctl.control.events import StrategyChosen
from pytest_iterctl.control.state import Attempt
from pytest_iterctl.control.strategies import BUILT_IN, DEFAULT, Strategy
from pytest_iterctl.text import one_line

__all__ = [
    "analysis_part",
    "analysis_text",
    "strategies_document",
    "strategies_lines",
    "strategy_part",
    "strategy_text",
    "touched_part",
]

#: How often it has helped and how often not, by error type and strategy.
Lessons = Mapping[tuple[str, str], tuple[int, int]]


def analysis_part(attempt: Attempt) -> dict[str, object] | None:
    found = analysis_of(attempt)
    return found.document if found is not None else None


def analysis_text(found: Analysis) -> str:
    """One line: the type, what follows from it, and by what it is known."""
    passing = ", may go away by itself" if found.transient else ""
    sign = f": {one_line(found.sign, 160)}" if found.sign else ""
    return f"{found.error_type} ({found.severity}{passing}){sign}"


def touched_part(attempt: Attempt) -> list[dict[str, object]]:
    """What its turns did to the repository's own files and around the work tree; what counts against them first."""
    found = sorted(
        (touch for turn in attempt.all_turns for touch in turn.touched), key=lambda each: not each.destructive
    )
    return [
        {
            "what": one_line(touch.what, 300),
            "how": one_line(touch.how, 300),
            "destructive": touch.destructive,
            "undone": touch.undone,
            "outside": touch.outside,
        }
        for touch in found
    ]


def strategy_part(attempt: Attempt) -> list[dict[str, object]]:
    return [
        {
            "strategy": choice.strategy.name,
            "why": one_line(choice.why, 300),
            "error_type": choice.error_type or None,
            "agent": choice.agent,
            "note": one_line(choice.note, 300),
        }
        for choice in attempt.choices
    ]


def strategy_text(choice: StrategyChosen) -> str:
    """One line: its name, why it was chosen, what comes of it."""
    told = [choice.why] if choice.why else []
    if choice.strategy.next_agent:
        told.append(f"now with {choice.agent}")
    if choice.start_from:
        told.append("from the best attempt on")
    if choice.note:
        told.append(choice.note)
    return ": ".join(filter(None, (choice.strategy.name, one_line("; ".join(told), 200))))


_EFFECTS = {
    "default": "what the settings say",
    "aggressive-timeout": "agents and tests get twice the time, and twice that the next time",
    "fallback-providers": "the agent that is next under fallback; pytest's cache is cleared",
    "reduced-parallelism": "one worker runs the tests; waits grow linearly",
    "fresh-context": "the agent begins a new session, and the tree holds the best attempt so far",
    "narrow": "the agent is told the first cause alone",
}


def strategies_lines(learned: Lessons, added: Iterable[Strategy] = ()) -> Iterator[str]:
    for strategy in (*BUILT_IN, *added):
        yield f"{strategy.name:<20} {strategy.priority:>2}  {_effect(strategy)}"
        if strategy.handles:
            yield f"{'':<24}after {', '.join(strategy.handles)}"
        for error, (good, bad) in _of(strategy, learned).items():
            yield f"{'':<24}after {error} it helped {good} of {good + bad} times"


def strategies_document(learned: Lessons, added: Iterable[Strategy] = ()) -> dict[str, object]:
    """`iterctl.strategies/1`."""
    return {
        "schema": "iterctl.strategies/1",
        "strategies": [
            {
                **strategy.model_dump(mode="json"),
                "effect": _effect(strategy),
                "learned": [
                    {"error_type": error, "helped": good, "did_not_help": bad}
                    for error, (good, bad) in _of(strategy, learned).items()
                ],
            }
            for strategy in (*BUILT_IN, *added)
        ],
    }


def _effect(strategy: Strategy) -> str:
    """A built-in one in words of its own, one that a Python hook adds by what it sets."""
    default = DEFAULT.model_dump()
    told = strategy.model_dump(exclude={"name", "priority", "handles"})
    settings = (f"{name}: {value}" for name, value in told.items() if value != default[name])
    return _EFFECTS.get(strategy.name) or f"added by a Python hook: {', '.join(settings) or 'as by default'}"


def _of(strategy: Strategy, learned: Lessons) -> dict[str, tuple[int, int]]:
    return {error: counts for (error, name), counts in learned.items() if name == strategy.name}
