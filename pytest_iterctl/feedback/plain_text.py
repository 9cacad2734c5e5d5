"""Feedback from nothing but printed test output, for loops that have no report: what `iterctl check` is given."""

from __future__ import annotations

import re

from pytest_iterctl.control.evidence import Failure, Outcome, SuiteEvidence
from pytest_iterctl.feedback.expectations import expectation_in
from pytest_iterctl.text import cut_middle, one_line, strip_escapes

__all__ = ["suite_from_text"]

_TELLING = re.compile(
    r"^\s*(?:E\s{2,}|FAIL(?:ED)?\b|ERROR\b|not ok\b|✕|✗|×|--- FAIL:|thread '.*' panicked|[\w.]*(?:Error|Exception)\b:?)"
)
_MOST_LINES = 20_000
_MOST_FAILURES = 50
_WINDOW, _OVERLAP, _LINE = 50, 6, 280


def suite_from_text(output: str, *, passed: bool) -> SuiteEvidence:
    """The lines that tell what failed become failures; when no line tells, the last one stands for all."""
    if passed:
        return SuiteEvidence(outcome=Outcome.PASSED)
    lines = strip_escapes(output).splitlines()[-_MOST_LINES:]
    telling = [one_line(line, 200) for line in lines if _TELLING.match(line)]
    if (sides := _sides(lines)) is not None:
        expected, received = sides
        heading = _heading(lines, telling)
        message = f"expected {expected}, received {received}"
        failures = [Failure(test=heading, message=message, expected=expected, received=received)]
        failures += [Failure(test="", message=line) for line in telling if line != heading]
    else:
        spoken = telling or [one_line(line, 200) for line in lines if line.strip()][-1:] or ["the tests failed"]
        failures = [Failure(test="", message=line) for line in spoken]
    distinct = list({(failure.test, failure.message): failure for failure in failures}.values())
    return SuiteEvidence(
        outcome=Outcome.FAILED,
        reason=cut_middle(distinct[0].message, 300),
        failures=tuple(distinct[:_MOST_FAILURES]),
        failing=tuple(failure.test for failure in distinct if failure.test),
    )


def _heading(lines: list[str], telling: list[str]) -> str:
    named = [line for line in telling if re.match(r"^(?:FAIL|ERROR|--- FAIL|not ok|✕|✗|×)", line)]
    return named[0] if named else next((one_line(line, 200) for line in lines if line.strip()), "")


def _sides(lines: list[str]) -> tuple[str, str] | None:
    """The first pair of what was expected and what was received, however the runner spells it."""
    for start in range(0, len(lines), _WINDOW):
        # With a few lines more, so that no pair is cut in two.
        pair = expectation_in("\n".join(line[:_LINE] for line in lines[start : start + _WINDOW + _OVERLAP]))
        if pair is not None:
            return one_line(pair[0], 200), one_line(pair[1], 200)
    return None
