"""The extension points: implement them in a conftest.py or in an installed plugin, marked with `@hookimpl`.

    from pytest_iterctl import hookimpl

    @hookimpl
    def iterctl_generate(request):
        ...

Hooks run in a process of their own, started for each call with the project's interpreter and conftest files, under
the same time limits as any other agent; those that only advise (strategies, classify, choose_strategy) have 10 seconds.
The driver itself never imports a project's code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pluggy import HookspecMarker

__all__ = [
    "FailureRequest",
    "GenerateRequest",
    "ReviewRequest",
    "StrategyRequest",
    "iterctl_choose_strategy",
    "iterctl_classify",
    "iterctl_decided",
    "iterctl_generate",
    "iterctl_review",
    "iterctl_strategies",
]

hookspec = HookspecMarker("iterctl")


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """What an agent is asked to do. The working directory is the task's work tree."""

    agent: str
    run: str
    task: str
    iteration: int
    max_iterations: int
    session: str
    prompt: str
    feedback: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ReviewRequest:
    """What a reviewer is asked to judge."""

    reviewer: str
    run: str
    task: str
    iteration: int
    max_iterations: int
    session: str
    prompt: str
    diff: str


@dataclass(frozen=True, slots=True)
class FailureRequest:
    """A failed turn, review or test run, and what it is taken for."""

    run: str
    task: str
    iteration: int
    max_iterations: int
    stage: str
    error_type: str
    sign: str
    outcome: str
    exit_code: int | None
    text: str
    #: Of failed tests, bounded: `test`, `kind` (the exception's type), `message`, `where`.
    failures: Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class StrategyRequest:
    """After which failure the next try begins, and how it would go about it. `strategies` names all there are."""

    run: str
    task: str
    iteration: int
    max_iterations: int
    stage: str
    error_type: str
    chosen: str
    why: str
    strategies: Sequence[str]


@hookspec(firstresult=True)
def iterctl_generate(request: GenerateRequest) -> object:
    """Change files in the work tree. Return None to pass (another implementation may take it), anything else when
    done: True, or a mapping that may carry `cost_usd`, `tokens`, `calls`, `session_id` and `error`.
    """


@hookspec(firstresult=True)
def iterctl_review(request: ReviewRequest) -> object:
    """Judge the change. Return None to pass, a status (`approve`, `reject`, `pending`), or a mapping with `status`,
    `feedback`, `findings` and `gaps`.
    """


@hookspec
def iterctl_decided(decision: Mapping[str, object]) -> None:
    """Be told of a decision: `action`, `task_id`, `iteration`, `reason`, `explanation` and the rest of it."""


@hookspec
def iterctl_strategies() -> object:
    """Add strategies: a list of mappings with `name`, `priority`, `handles` (types of errors) and what they do
    (`timeout_factor`, `backoff`, `workers`, `next_agent`, `cache`, `fresh_session`, `from_best`, `only_first_cause`).
    Asked once, when a run begins. Each implementation stands for itself; a generator is no list.
    """


@hookspec(firstresult=True)
def iterctl_classify(failure: FailureRequest) -> object:
    """Say what kind of failure it was: an error type, or a mapping with `error_type` and `sign`. None leaves it.

    Asked once after each failed turn and review, and once for the tests of an iteration.
    """


@hookspec(firstresult=True)
def iterctl_choose_strategy(request: StrategyRequest) -> object:
    """Name the strategy of the next try. None leaves the choice as it is. Not asked where the settings leave none."""
