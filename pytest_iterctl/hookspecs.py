"""The extension points: implement them in a conftest.py or in an installed plugin, marked with `@hookimpl`.

    from pytest_iterctl import hookimpl

    @hookimpl
    def iterctl_generate(request):
        ...

Hooks run in a process of their own, started for each call with the project's interpreter and conftest files, under
the same time limits as any other agent. The driver itself never imports a project's code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pluggy import HookspecMarker

__all__ = [
    "GenerateRequest",
    "ReviewRequest",
    "iterctl_decided",
    "iterctl_generate",
    "iterctl_review",
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
