"""What is kept of a test's reports, and what they come to.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

__all__ = ["LONGEST_TEXT", "told", "verdict"]

LONGEST_TEXT = 2_000


def told(report: Any) -> list[Any]:
    """What is kept of a report: phase, outcome, whether a failure was expected, the end of its text."""
    text = ""
    with suppress(Exception):
        text = str(report.longreprtext)[-LONGEST_TEXT:]
    return [str(report.when), str(report.outcome), hasattr(report, "wasxfail"), text]


def verdict(reports: list[list[Any]]) -> str:
    """One word for all phases of a test."""
    result = "no-result"
    for when, outcome, expected, _ in reports:
        if outcome == "failed":
            if when != "call":
                return "error"
            result = "failed"
        elif result != "failed":
            if outcome == "skipped":
                result = "xfailed" if expected else "skipped"
            elif when == "call" and result == "no-result":
                result = "xpassed" if expected else outcome
    return result
