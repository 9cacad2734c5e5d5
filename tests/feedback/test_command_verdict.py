"""The verdict of a test command where no process is needed to see it."""

from __future__ import annotations

import io

import pytest

from pytest_iterctl.control.evidence import Outcome
from pytest_iterctl.feedback.command_verdict import LeftReports, judge_command
from pytest_iterctl.feedback.junit import read_junit

GREEN = read_junit(io.BytesIO(b'<testsuite><testcase name="a"/></testsuite>'), "r.xml")
RED = read_junit(io.BytesIO(b'<testsuite><testcase name="a"><failure/></testcase></testsuite>'), "r.xml")


@pytest.mark.parametrize(
    ("ended_by", "exit_code", "outcome"),
    [
        ("exit", 0, Outcome.PASSED),
        ("timeout", 0, Outcome.TIMED_OUT),
        ("timeout", -9, Outcome.TIMED_OUT),
        ("stop", 0, Outcome.INTERRUPTED),
        ("lifeline", None, Outcome.INTERRUPTED),
        ("lost", None, Outcome.CRASHED),
        ("lost", 0, Outcome.CRASHED),
        ("exit", None, Outcome.CRASHED),
        ("exit", 1, Outcome.FAILED),
        ("exit", -11, Outcome.CRASHED),
    ],
)
def test_a_green_report_passes_only_with_a_command_that_ended_well_by_itself(
    ended_by: str, exit_code: int | None, outcome: Outcome
) -> None:
    left = LeftReports("r.xml", GREEN)
    suite = judge_command(left, exit_code=exit_code, ended_by=ended_by, seconds=1.0, output_tail="")
    assert suite.outcome is outcome
    assert suite.counts.passed == 1


@pytest.mark.parametrize("ended_by", ["timeout", "stop", "lost"])
def test_what_had_failed_before_the_end_is_told(ended_by: str) -> None:
    suite = judge_command(LeftReports("r.xml", RED), exit_code=None, ended_by=ended_by, seconds=1.0, output_tail="")
    assert suite.failing == ("a",)


def test_output_is_told_without_what_steers_a_terminal_and_bounded() -> None:
    tail = "\x1b[31mred\x07" + "x" * 5000 + "END"
    suite = judge_command(LeftReports("r.xml"), exit_code=1, ended_by="exit", seconds=1.0, output_tail=tail)
    (failure,) = suite.failures
    assert failure.output.endswith("END")
    assert len(failure.output) <= 2000
    assert "\x1b" not in failure.output
