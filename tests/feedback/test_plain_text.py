"""Printed output of a test run, without any report, as evidence."""

from __future__ import annotations

import pytest

from pytest_iterctl.feedback.plain_text import suite_from_text


@pytest.mark.parametrize(
    ("said", "expected", "received"),
    [
        ("Expected: token\nReceived: undefined", "token", "undefined"),
        ("expected 3 to be 4", "4", "3"),
        ("org.opentest4j.AssertionFailedError: expected: <1> but was: <2>", "1", "2"),
        ("  left: 3\n right: 4", "4", "3"),
        ("E       assert 3 == 4", "4", "3"),
        ("    calc_test.go:9: got 3, want 4", "4", "3"),
    ],
)
@pytest.mark.parametrize("before", [0, 48, 5000])
def test_output_is_understood_in_the_phrasings_of_reports(said: str, expected: str, received: str, before: int) -> None:
    output = "FAIL some test\n" + "a line that tells nothing\n" * before + said + "\nthe end\n"
    failure = suite_from_text(output, passed=False).failures[0]
    assert (failure.test, failure.expected, failure.received) == ("FAIL some test", expected, received)
