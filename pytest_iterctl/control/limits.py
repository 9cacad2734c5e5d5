"""Safety limits as arithmetic: what was spent, which limit is reached, how much time a call may still take."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_iterctl.plan.model import Limits
from pytest_iterctl.plan.values import format_duration

__all__ = [
    "Allowance",
    "Reached",
    "Spent",
    "allowance",
    "every_exceeded",
    "exceeded",
    "exhausted",
    "extended",
    "out_of_time",
    "raising",
]

#: Three times $0.10 is a little more than $0.30 in binary; nobody is stopped for that.
_ROUNDING = 1e-9
#: Where only one other value makes sense.
_OTHER = {"require_cost": "false"}


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run and its current iteration have used up so far; unknown costs are counted apart, never as zero."""

    total_cost: float = 0.0
    total_seconds: float = 0.0
    iteration_cost: float = 0.0
    iteration_seconds: float = 0.0
    iteration_calls: int = 0
    calls_of_unknown_cost: int = 0


@dataclass(frozen=True, slots=True)
class Reached:
    name: str
    text: str
    run_wide: bool


@dataclass(frozen=True, slots=True)
class Allowance:
    """The time that a call may take, and the limit that would end it ('' when its own timeout comes first)."""

    seconds: float
    limit: str


def exceeded(limits: Limits, spent: Spent) -> Reached | None:
    """The first limit that was overstepped: nothing goes on after that, not even a proceed."""
    return next(every_exceeded(limits, spent), None)


def every_exceeded(limits: Limits, spent: Spent) -> Iterator[Reached]:
    """All of them: whoever raises one is to know of the others."""
    if spent.total_cost > limits.max_total_cost + _ROUNDING:
        yield _cost("max_total_cost", limits.max_total_cost, spent.total_cost, run_wide=True)
    if spent.iteration_cost > limits.max_cost_per_iteration + _ROUNDING:
        yield _cost("max_cost_per_iteration", limits.max_cost_per_iteration, spent.iteration_cost, run_wide=False)
    yield from _times_used_up(limits, spent)
    if spent.iteration_calls > limits.max_calls_per_iteration:
        yield _calls(limits.max_calls_per_iteration)
    if (unknown := _of_unknown_cost(limits, spent)) is not None:
        yield unknown


def _of_unknown_cost(limits: Limits, spent: Spent) -> Reached | None:
    if not limits.require_cost or not spent.calls_of_unknown_cost:
        return None
    text = f"require_cost: nobody says what {spent.calls_of_unknown_cost} call(s) of an agent cost"
    return Reached("require_cost", text, run_wide=True)


def out_of_time(limits: Limits, spent: Spent) -> Reached | None:
    """The time limit that is used up, whatever the money says."""
    return next(_times_used_up(limits, spent), None)


def _times_used_up(limits: Limits, spent: Spent) -> Iterator[Reached]:
    if spent.total_seconds >= limits.max_total_duration:
        yield _time("max_total_duration", limits.max_total_duration, run_wide=True)
    if spent.iteration_seconds >= limits.max_duration_per_iteration:
        yield _time("max_duration_per_iteration", limits.max_duration_per_iteration, run_wide=False)


def exhausted(limits: Limits, spent: Spent, *, new_iteration: bool) -> Reached | None:
    """The limit that leaves nothing for one more agent call. A new iteration starts with its own limits unused."""
    if spent.total_cost >= limits.max_total_cost - _ROUNDING:
        return _cost("max_total_cost", limits.max_total_cost, spent.total_cost, run_wide=True)
    if spent.total_seconds >= limits.max_total_duration:
        return _time("max_total_duration", limits.max_total_duration, run_wide=True)
    if (unknown := _of_unknown_cost(limits, spent)) is not None:
        return unknown
    used = Spent() if new_iteration else spent
    if used.iteration_cost >= limits.max_cost_per_iteration - _ROUNDING:
        return _cost("max_cost_per_iteration", limits.max_cost_per_iteration, used.iteration_cost, run_wide=False)
    if used.iteration_seconds >= limits.max_duration_per_iteration:
        return _time("max_duration_per_iteration", limits.max_duration_per_iteration, run_wide=False)
    if used.iteration_calls >= limits.max_calls_per_iteration:
        return _calls(limits.max_calls_per_iteration)
    return None


def allowance(limits: Limits, spent: Spent, timeout: float, *, in_iteration: bool) -> Allowance:
    """The tightest of a call's own timeout and what the limits leave (the baseline belongs to no iteration)."""
    bounds = [(timeout, ""), (limits.max_total_duration - spent.total_seconds, "max_total_duration")]
    if in_iteration:
        left = limits.max_duration_per_iteration - spent.iteration_seconds
        bounds.append((left, "max_duration_per_iteration"))
    seconds, limit = min(bounds, key=lambda bound: bound[0])
    return Allowance(max(seconds, 0.0), limit)


def extended(limits: Limits, planned: Limits, spent: Spent, name: str) -> Limits | None:
    """As much again as the plan allowed, on top of what is spent; None for limits that each iteration has anew.

    Whoever goes on although nobody says what it costs has decided that.
    """
    if name == "require_cost":
        return limits.model_copy(update={"require_cost": False})
    used = {"max_total_cost": spent.total_cost, "max_total_duration": spent.total_seconds}
    if name not in used:
        return None
    more = max(getattr(limits, name), used[name]) + getattr(planned, name)
    return limits.model_copy(update={name: more})


def raising(run: str, names: Sequence[str]) -> str:
    """The command that goes on with other limits."""
    return " ".join(
        ("iterctl", "resume", shlex.quote(run), *(f"--limit {name}={_OTHER.get(name, 'VALUE')}" for name in names))
    )


def _cost(name: str, limit: float, spent: float, *, run_wide: bool) -> Reached:
    return Reached(name, f"{name} reached: ${spent:.2f} of ${limit:.2f} spent", run_wide)


def _time(name: str, limit: float, *, run_wide: bool) -> Reached:
    return Reached(name, f"{name} reached: {format_duration(limit)}", run_wide)


def _calls(limit: int) -> Reached:
    return Reached("max_calls_per_iteration", f"max_calls_per_iteration reached: {limit}", run_wide=False)
