"""The outcome of a pytest run, rule by rule. Real runs are judged in tests/pytester/test_witness.py."""

from __future__ import annotations

import signal
from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.control.evidence import Counts, Failure, Outcome, SuiteEvidence
from pytest_iterctl.feedback.verdict import JUnitCheck, judge_pytest
from pytest_iterctl.feedback.witness_log import WitnessLog

GREEN = WitnessLog(
    started=True,
    collected=("t.py::a", "t.py::b"),
    collection_done=True,
    tests=MappingProxyType({"t.py::a": "passed", "t.py::b": "skipped"}),
    finished=True,
    status=0,
    exit_line=0,
    counts=Counts(tests=2, passed=1, skipped=1),
)
#: A run that ended in the middle of its second test.
TORN = replace(
    GREEN,
    tests=MappingProxyType({"t.py::a": "passed"}),
    in_flight=("t.py::b",),
    finished=False,
    status=None,
    exit_line=None,
    counts=Counts(tests=1, passed=1),
)
RED = replace(
    GREEN,
    tests=MappingProxyType({"t.py::a": "passed", "t.py::b": "failed"}),
    failing=("t.py::b",),
    failures=(Failure(test="t.py::b", message="assert 0"),),
    status=1,
    exit_line=1,
    counts=Counts(tests=2, passed=1, failed=1),
)
BROKEN = Failure(test="t.py", phase="collect", where="t.py:1", kind="NameError", message="NameError: name 'x'")


def judge(
    log: WitnessLog, exit_code: int | None, ended_by: str = "exit", tail: str = "", junit: JUnitCheck | None = None
) -> SuiteEvidence:
    return judge_pytest(log, exit_code=exit_code, ended_by=ended_by, seconds=2.5, output_tail=tail, junit=junit)


def test_all_that_agrees_is_a_pass() -> None:
    suite = judge(GREEN, 0, junit=JUnitCheck(tests=2, failed=0))
    assert suite.passed
    assert (suite.reason, suite.seconds, suite.exit_code) == ("1 passed, 1 skipped", 2.5, 0)
    assert not suite.failures
    assert not suite.failing


@pytest.mark.parametrize(
    ("log", "exit_code", "ended_by", "tail", "outcome", "reason"),
    [
        (TORN, None, "timeout", "", Outcome.TIMED_OUT, "timed out in t.py::b"),
        (TORN, -9, "timeout", "", Outcome.TIMED_OUT, "timed out in t.py::b"),
        (GREEN, 0, "timeout", "", Outcome.TIMED_OUT, "timed out after the last test"),
        (WitnessLog(started=True), None, "timeout", "", Outcome.TIMED_OUT, "timed out before the first test"),
        (
            WitnessLog(started=True, collecting="t.py"),
            None,
            "timeout",
            "",
            Outcome.TIMED_OUT,
            "timed out while collecting t.py",
        ),
        (TORN, -15, "stop", "", Outcome.INTERRUPTED, "stopped in t.py::b"),
        (GREEN, 0, "stop", "", Outcome.INTERRUPTED, "stopped after the last test"),
        (TORN, -9, "lifeline", "", Outcome.INTERRUPTED, "ended in t.py::b, together with the process that started it"),
        (TORN, None, "lost", "", Outcome.CRASHED, "lost in t.py::b: nobody knows how the process ended"),
        (GREEN, None, "exit", "", Outcome.CRASHED, "lost after the last test: nobody knows how the process ended"),
        (TORN, -11, "exit", "", Outcome.CRASHED, "crashed in t.py::b: killed by SIGSEGV"),
        (TORN, -64, "exit", "", Outcome.CRASHED, "crashed in t.py::b: killed by SIGRTMAX"),
        (TORN, -99, "exit", "", Outcome.CRASHED, "crashed in t.py::b: killed by signal 99"),
        (TORN, -signal.SIGINT, "exit", "", Outcome.INTERRUPTED, "interrupted in t.py::b"),
        (
            TORN,
            0,
            "exit",
            "",
            Outcome.CRASHED,
            "crashed in t.py::b: the process ended with exit code 0 without a word from pytest",
        ),
        (
            replace(GREEN, exit_line=None),
            0,
            "exit",
            "",
            Outcome.CRASHED,
            "crashed after the last test: the process ended with exit code 0 without a word from pytest",
        ),
        (
            TORN,
            1,
            "exit",
            "++++ Timeout ++++\n~~~~ Stack ~~~~",
            Outcome.CRASHED,
            "crashed in t.py::b: ended by pytest-timeout",
        ),
        (
            WitnessLog(),
            1,
            "exit",
            "ImportError: bad pytest.py",
            Outcome.CRASHED,
            "pytest did not start: the process ended with exit code 1: ImportError: bad pytest.py",
        ),
        (
            WitnessLog(),
            1,
            "exit",
            "/bin/python: No module named pytest\n",
            Outcome.USAGE_ERROR,
            "pytest is not installed: /bin/python: No module named pytest",
        ),
        (
            replace(GREEN, internal_error=Failure(test="", message="KeyError: 1\nmore"), status=3, exit_line=3),
            3,
            "exit",
            "",
            Outcome.CRASHED,
            "internal error after the last test: KeyError: 1",
        ),
        (
            replace(TORN, interrupt=("Exit", "no database"), status=0, exit_line=0, finished=True),
            0,
            "exit",
            "",
            Outcome.INTERRUPTED,
            "pytest.exit() in t.py::b: no database",
        ),
        (
            replace(TORN, interrupt=("KeyboardInterrupt", ""), status=2, exit_line=2, finished=True),
            2,
            "exit",
            "",
            Outcome.INTERRUPTED,
            "interrupted in t.py::b",
        ),
        (
            replace(GREEN, interrupt=("Interrupted", "stop asked for"), status=2, exit_line=2),
            2,
            "exit",
            "",
            Outcome.INTERRUPTED,
            "interrupted: stop asked for",
        ),
        (
            replace(GREEN, collect_errors=(BROKEN,), tests=MappingProxyType({}), status=2, exit_line=2),
            2,
            "exit",
            "",
            Outcome.COLLECTION_ERROR,
            "t.py can't be collected: NameError: name 'x'",
        ),
        (
            replace(RED, collect_errors=(BROKEN, BROKEN)),
            1,
            "exit",
            "",
            Outcome.COLLECTION_ERROR,
            "t.py can't be collected (and 1 more): NameError: name 'x'",
        ),
        (
            WitnessLog(started=True, collect_errors=(BROKEN,), exit_line=4),
            4,
            "exit",
            "",
            Outcome.COLLECTION_ERROR,
            "t.py can't be collected: NameError: name 'x'",
        ),
        (RED, 1, "exit", "", Outcome.FAILED, "1 failed, 1 passed"),
        (replace(RED, stop="stopping after 1 failures"), 1, "exit", "", Outcome.FAILED,
         "1 failed, 1 passed; stopping after 1 failures"),
        (replace(RED, status=2, exit_line=2, interrupt=("Interrupted", "stopping")), 2, "exit", "", Outcome.FAILED,
         "1 failed, 1 passed"),
        (replace(RED, exit_line=0, status=0), 0, "exit", "", Outcome.FAILED,
         "1 failed, 1 passed, though the exit code is 0"),
        (
            WitnessLog(started=True, usage_error="usage: pytest [x]\npytest: error: no such --x\n  ini", exit_line=4),
            4,
            "exit",
            "",
            Outcome.USAGE_ERROR,
            "no such --x",
        ),
        (
            WitnessLog(started=True, exit_line=4),
            4,
            "exit",
            "ERROR: something old\n\nERROR: file or directory not found: x\n\n",
            Outcome.USAGE_ERROR,
            "file or directory not found: x",
        ),
        (
            WitnessLog(started=True, exit_line=4),
            4,
            "exit",
            "ERROR: usage: pytest [options]\npytest: error: unrecognized arguments: --x\n  rootdir: /x",
            Outcome.USAGE_ERROR,
            "unrecognized arguments: --x",
        ),
        (WitnessLog(started=True, finished=True, status=5, exit_line=5, collection_done=True), 5, "exit", "",
         Outcome.NO_TESTS, "no tests were found"),
        (
            WitnessLog(started=True, finished=True, status=5, exit_line=5, collection_done=True, deselected=7),
            5,
            "exit",
            "",
            Outcome.NO_TESTS,
            "no test was executed, all 7 deselected",
        ),
        (
            replace(GREEN, tests=MappingProxyType({"t.py::a": "skipped"}), skip_reason="no gpu"),
            0,
            "exit",
            "",
            Outcome.NO_TESTS,
            "no test was executed, 1 skipped: no gpu",
        ),
        (replace(GREEN, tests=MappingProxyType({})), 0, "exit", "", Outcome.NO_TESTS,
         "no test was executed, 2 collected"),
        (WitnessLog(started=True, exit_line=0), 0, "exit", "", Outcome.NO_TESTS, "pytest ended without a test session"),
        (replace(GREEN, status=0, exit_line=0), 120, "exit", "", Outcome.CRASHED,
         "crashed after pytest had ended: the process ended with exit code 120"),
        (replace(GREEN, finished=False, status=None), 0, "exit", "", Outcome.INCOMPLETE,
         "the session ended with None, pytest with 0, the process with 0"),
        (replace(GREEN, status=1), 0, "exit", "", Outcome.INCOMPLETE,
         "the session ended with 1, pytest with 0, the process with 0"),
        (replace(GREEN, collected=(*GREEN.collected, "t.py::c")), 0, "exit", "", Outcome.INCOMPLETE,
         "no result of t.py::c"),
        (replace(GREEN, lost=2), 0, "exit", "", Outcome.INCOMPLETE,
         "2 results are lost, 0 lines of the witness can't be read"),
        (replace(GREEN, unreadable=1), 0, "exit", "", Outcome.INCOMPLETE,
         "0 results are lost, 1 lines of the witness can't be read"),
    ],
)  # fmt: skip
def test_each_end_has_its_name(
    log: WitnessLog, exit_code: int | None, ended_by: str, tail: str, outcome: Outcome, reason: str
) -> None:
    suite = judge(log, exit_code, ended_by, tail)
    assert (suite.outcome, suite.reason) == (outcome, reason)


COVERAGE = """
t.py .                                                                   [100%]

================================ tests coverage ================================
Name    Stmts   Miss  Cover
---------------------------
TOTAL       4      2    50%
FAIL Required test coverage of 90% not reached. Total coverage: 50.00%
============================== 1 passed in 0.05s ===============================
"""
WARNINGS = """
-- Docs: https://docs.pytest.org/en/stable/how-to/capture-warnings.html
========================= 1 passed, 1 warning in 0.01s =========================
ERROR: Maximum allowed warnings exceeded: 1 > 0
"""
SESSION = """
t.py .
!!!!!!!!!!!!!!!!!!!! session-timeout: 0.1 sec exceeded !!!!!!!!!!!!!!!!!!!!
============================== 1 passed in 0.31s ===============================
"""


@pytest.mark.parametrize(
    ("code", "tail", "message"),
    [
        (1, COVERAGE, "FAIL Required test coverage of 90% not reached. Total coverage: 50.00%"),
        (6, WARNINGS, "ERROR: Maximum allowed warnings exceeded: 1 > 0"),
        (1, SESSION, "session-timeout: 0.1 sec exceeded"),
        (7, "1 passed, 1 rerun in 0.02s\n", "no test failed, but pytest ended with exit code 7"),
        (42, "\x1b[31mmy plugin says no\x1b[0m\n", "my plugin says no"),
    ],
)
def test_a_gate_that_is_no_test_is_a_failure_of_the_session(code: int, tail: str, message: str) -> None:
    suite = judge(replace(GREEN, status=0, exit_line=code), code, tail=tail)
    assert suite.outcome is Outcome.FAILED
    (failure,) = suite.failures
    assert (failure.test, failure.phase) == ("", "session")
    assert message in failure.message
    assert suite.failing == ()


def test_an_exit_code_that_the_process_hides_is_no_pass() -> None:
    assert judge(replace(GREEN, exit_line=1), 0).outcome is Outcome.FAILED


def test_a_report_that_disagrees_is_no_pass() -> None:
    suite = judge(GREEN, 0, junit=JUnitCheck(tests=2, failed=1))
    assert suite.outcome is Outcome.INCOMPLETE
    assert suite.reason == "the report disagrees: it has 1 failed tests, the run has none"


def test_the_tests_in_flight_are_failures_of_their_own() -> None:
    tail = 'Current thread (most recent call first):\n  File "/home/me/project/t.py", line 12 in b\n'
    suite = judge(replace(TORN, failing=("t.py::a",), in_flight=("t.py::b", "t.py::c")), -11, tail=tail)
    assert [(failure.test, failure.phase, failure.where) for failure in suite.failures] == [
        ("t.py::b", "session", "t.py:12"),
        ("t.py::c", "session", "t.py:12"),
    ]
    assert suite.failing == ("t.py::b", "t.py::c", "t.py::a")
    assert suite.reason == "crashed in t.py::b or one of 1 more tests: killed by SIGSEGV"
    assert "line 12 in b" in suite.failures[0].detail


def test_all_failing_ids_are_there_behind_what_could_not_be_collected() -> None:
    failing = tuple(f"t.py::{number}" for number in range(500))
    suite = judge(replace(RED, failing=failing, collect_errors=(BROKEN,)), 1)
    assert suite.failures == (BROKEN, *RED.failures)
    assert len(suite.failing) == 501


def test_a_file_with_another_error_is_not_lost_behind_very_many_that_miss_a_module() -> None:
    missing = [
        Failure(test=f"t{number}.py", phase="collect", kind="ImportError", message="ImportError: no x")
        for number in range(250)
    ]
    broken = Failure(test="z.py", phase="collect", kind="SyntaxError", message="SyntaxError: invalid syntax")
    log = WitnessLog(started=True, collect_errors=(*missing, broken), exit_line=2, finished=True, status=2)
    suite = judge(log, 2)
    assert broken in suite.failures
    assert len(suite.failures) < 50
    assert {name for failure in suite.failures for name in (failure.test, *failure.also)} == set(suite.failing)


def test_a_gate_without_a_word_is_told_by_the_exit_code_and_not_by_progress() -> None:
    head = "=== test session starts ===\nplatform linux\nrootdir: /r\ncollected 1 item\n"
    tail = f"{head}\nt.py .      [100%]\n\n=== 1 passed ==="
    log = replace(GREEN, status=1, exit_line=1)
    suite = judge(log, 1, tail=tail)
    assert suite.reason == suite.failures[0].message == "no test failed, but pytest ended with exit code 1"
    told = judge(log, 1, tail=f"t.py ..F.sx [ 50%]\nERROR: Coverage failure: total of 40 is less than 90\n{tail}")
    assert told.failures[0].message.endswith("exit code 1: ERROR: Coverage failure: total of 40 is less than 90")


def test_where_a_test_hung_is_told_by_the_interrupt_that_ended_it() -> None:
    tail = (
        "!!!!! KeyboardInterrupt !!!!!\n/home/me/project/calc.py:3: KeyboardInterrupt\n(to show a full traceback ...)"
    )
    suite = judge(replace(TORN, root="/home/me/project"), None, "timeout", tail)
    assert suite.failures[0].where == "calc.py:3"
    foreign = tail.replace("/home/me/project/calc.py", "/usr/lib/python3.11/threading.py")
    assert judge(replace(TORN, root="/home/me/project"), None, "timeout", foreign).failures[0].where == ""


def test_a_syntax_error_is_named_by_what_is_wrong() -> None:
    message = 'File "/x/t.py", line 1\n    def f(:\n          ^\nSyntaxError: invalid syntax'
    broken = Failure(test="t.py", phase="collect", kind="SyntaxError", message=message)
    suite = judge(WitnessLog(started=True, collect_errors=(broken,), exit_line=2, finished=True, status=2), 2)
    assert suite.reason == "t.py can't be collected: SyntaxError: invalid syntax"


LOGS = st.builds(
    replace,
    st.sampled_from([GREEN, TORN, RED, WitnessLog(), WitnessLog(started=True)]),
    finished=st.booleans(),
    status=st.none() | st.integers(0, 7),
    exit_line=st.none() | st.integers(0, 7),
    lost=st.integers(0, 1),
    unreadable=st.integers(0, 1),
    usage_error=st.sampled_from(["", "no"]),
    interrupt=st.sampled_from([None, ("Exit", "x"), ("Interrupted", "x")]),
    collect_errors=st.sampled_from([(), (BROKEN,)]),
    internal_error=st.sampled_from([None, Failure(test="", message="x")]),
)


@given(
    LOGS, st.none() | st.integers(-15, 8), st.sampled_from(["exit", "timeout", "stop", "lost"]), st.text(max_size=50)
)
def test_only_perfect_agreement_is_a_pass(log: WitnessLog, exit_code: int | None, ended_by: str, tail: str) -> None:
    suite = judge(log, exit_code, ended_by, tail)
    assert suite.reason
    assert "\n" not in suite.reason
    if suite.passed:
        assert exit_code == log.exit_line == log.status == 0
        assert log.finished
        assert ended_by == "exit"
        assert not (log.failing or log.collect_errors or log.internal_error or log.lost or log.unreadable)
        assert log.executed
        assert not log.missing
