"""Failure analysis: what kind of failure an iteration ended with, whose, and what to do about it. Pure.

How a turn or a run ended comes first, then exit codes, exception types and error numbers; words only where a line
begins as some library is known to begin it. A bare word such as "error" decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_iterctl.control.error_types import Analysis
from pytest_iterctl.control.failed_suite import of_suite
from pytest_iterctl.control.failed_turn import of_turn
from pytest_iterctl.control.state import Attempt

__all__ = ["analysis_of"]


def analysis_of(attempt: Attempt) -> Analysis | None:
    """What kept an iteration from being accepted, as far as something failed; of several, the last that did."""
    found = tuple(_analyses(attempt))
    return found[-1] if found else None


def _analyses(attempt: Attempt) -> Iterator[Analysis]:
    if attempt.turns and (failed := of_turn(attempt.turns[-1], "generate")) is not None:
        yield failed
    if attempt.verdict is not None and (failed := of_suite(attempt.verdict)) is not None:
        yield failed
    if attempt.failed_reviews and (failed := of_turn(attempt.review_turns[-1], "review")) is not None:
        yield failed
