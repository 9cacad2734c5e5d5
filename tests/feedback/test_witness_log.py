"""Reading the witness's lines: whole, cut off, doubled, foreign, hostile."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.control.evidence import Frame
from pytest_iterctl.feedback.witness_log import MOST_FAILURES, DeclaredTask, WitnessLog, read_witness

Line = dict[str, object]


def read(*lines: Line | bytes) -> WitnessLog:
    raw = b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)
    return read_witness(io.BytesIO(raw))


def result(test: str, outcome: str = "passed", **more: object) -> Line:
    return {"type": "test", "id": test, "outcome": outcome, "duration": 0.1, **more}


START: Line = {"type": "start", "pid": 1, "pytest": "9.2.0", "python": "3.11.7", "args": []}
COLLECTED: tuple[Line, ...] = (
    {"type": "collected", "ids": ["t.py::a", "t.py::b"]},
    {"type": "collected", "ids": ["t.py::c"]},
    {"type": "collection", "count": 3, "deselected": 4},
)
FINISH: Line = {"type": "finish", "status": 0, "counts": {"passed": 3}, "stop": "", "junitxml": "/x/r.xml", "seed": 7}


def test_a_whole_log_is_read() -> None:
    results = [result(f"t.py::{name}") for name in "abc"]
    log = read(START, {"type": "root", "path": "/x"}, *COLLECTED, *results, FINISH, {"type": "exit", "code": 0})
    assert log.started
    assert (log.python, log.pytest, log.root) == ("3.11.7", "9.2.0", "/x")
    assert log.collected == ("t.py::a", "t.py::b", "t.py::c")
    assert (log.collection_done, log.deselected) == (True, 4)
    assert (log.finished, log.status, log.exit_line) == (True, 0, 0)
    assert (log.junitxml, log.seed) == ("/x/r.xml", 7)
    assert log.counts.model_dump(exclude_defaults=True) == {"tests": 3, "passed": 3, "deselected": 4}
    assert (log.unreadable, log.lost, log.cut_off, log.missing, log.in_flight) == (0, 0, False, (), ())


def test_an_empty_log_knows_nothing() -> None:
    assert read() == WitnessLog()


def test_without_an_end_the_first_test_without_a_result_is_in_flight() -> None:
    log = read(START, *COLLECTED, result("t.py::a"))
    assert log.in_flight == ("t.py::b",)
    assert not log.finished


def test_an_interrupted_run_has_a_test_in_flight_too() -> None:
    stopped: Line = {"type": "interrupt", "kind": "KeyboardInterrupt", "text": ""}
    log = read(START, *COLLECTED, result("t.py::a"), stopped, {**FINISH, "counts": {"passed": 1}})
    assert log.in_flight == ("t.py::b",)
    assert log.interrupt == ("KeyboardInterrupt", "")


def test_with_several_at_once_those_begun_are_in_flight() -> None:
    begun: list[Line] = [{"type": "begin", "id": f"t.py::{name}"} for name in "ac"]
    assert read(START, *COLLECTED, *begun, result("t.py::a")).in_flight == ("t.py::c",)


def test_the_module_being_imported_is_known_until_the_collection_is_done() -> None:
    importing: Line = {"type": "collecting", "id": "t.py"}
    assert read(START, importing).collecting == "t.py"
    assert read(START, importing, *COLLECTED).collecting == ""


def test_a_last_line_that_is_cut_off_is_no_foreign_line() -> None:
    log = read(START, *COLLECTED, result("t.py::a"), b'{"type": "test", "id": "t.py::b", "outc')
    assert log.cut_off
    assert log.unreadable == 0
    assert log.in_flight == ("t.py::b",)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\n",
        b"not json\n",
        b"[1, 2]\n",
        b"null\n",
        b'{"type": "absent"}\n',
        b'{"type": 3}\n',
        b'{"no": "type"}\n',
        b"\xff\xfe\x00\n",
        b"[" * 100_000 + b"\n",
        b'{"type": "test", "id": "t.py::a", "outcome": "splendid"}\n',
        b'{"type": "start", "pid": ' + b"9" * 10_000 + b"}\n",
    ],
)
def test_a_foreign_line_is_counted_and_nothing_else(garbage: bytes) -> None:
    log = read(START, garbage, *COLLECTED, result("t.py::a"))
    assert log.unreadable == 1
    assert log.tests == {"t.py::a": "passed"}


def test_an_endless_line_is_passed_over_in_pieces() -> None:
    log = read(START, b"x" * (20 * 1024 * 1024) + b"\n", result("t.py::a"))
    assert (log.unreadable, log.counts.passed) == (1, 1)


def test_a_test_that_is_told_twice_counts_once_by_its_worst_result() -> None:
    log = read(START, result("t.py::a", "failed"), result("t.py::a"), result("t.py::b"), result("t.py::b", "error"))
    assert log.tests == {"t.py::a": "failed", "t.py::b": "error"}
    assert log.failing == ("t.py::a", "t.py::b")
    assert (log.counts.tests, log.counts.failed, log.counts.errors) == (2, 1, 1)


def test_results_that_the_end_counts_and_nobody_has_seen_are_lost() -> None:
    assert read(START, *COLLECTED, result("t.py::a"), FINISH).lost == 2


def test_reruns_are_counted() -> None:
    assert read(START, result("t.py::a", reruns=2), result("t.py::b", "failed", reruns=1)).counts.reruns == 3


def test_a_failure_is_explained() -> None:
    detail: Line = {
        "phase": "call",
        "where": "t.py:3",
        "kind": "AssertionError",
        "message": "assert 3 == 2\n +  where 3 = f(1)",
        "source": "assert f(1) == 2",
        "detail": "\x1b[31mred\x1b[0m",
        "output": {"stdout": "out\n", "log": "logged"},
        "context": "(n=1)",
    }
    (failure,) = read(START, result("t.py::a", "failed", failures=[detail])).failures
    assert (failure.test, failure.phase, failure.where, failure.kind) == ("t.py::a", "call", "t.py:3", "AssertionError")
    assert failure.message == "(n=1) assert 3 == 2\n +  where 3 = f(1)"
    assert (failure.expected, failure.received) == ("2", "3")
    assert failure.detail == "red"
    assert failure.output == "--- stdout ---\nout\n\n--- log ---\nlogged"


def test_very_many_failures_are_kept_by_name_only() -> None:
    def failed(number: int) -> Line:
        return {"phase": "call", "kind": f"Error{number}", "message": f"Error{number}", "detail": "x" * 1000}

    log = read(START, *(result(f"t.py::{number}", "failed", failures=[failed(number)]) for number in range(1000)))
    assert len(log.failures) == MOST_FAILURES
    assert len(log.failing) == 1000


def test_very_many_failures_of_one_cause_are_few_failures_that_name_the_others() -> None:
    frames = [["conftest.py", 4, "database", "raise OSError"]]
    detail: Line = {"phase": "setup", "kind": "OSError", "message": "OSError: gone", "frames": frames}
    log = read(START, *(result(f"t.py::{number}", "error", failures=[detail]) for number in range(1000)))
    assert len(log.failures) == 10
    named = {test for failure in log.failures for test in (failure.test, *failure.also)}
    assert named == set(log.failing)
    assert [failure.test for failure in log.failures] == [f"t.py::{number}" for number in range(10)]


def test_the_way_through_the_project_and_the_first_exception_are_read() -> None:
    frames = [["test_a.py", 3, "test_a", "double(2)"], ["calc.py", 7, "double", "\x1b[31mraise ValueError"]]
    detail: Line = {"message": "ValueError: 2", "frames": frames, "cause": "KeyError: \x1b[31m2"}
    (failure,) = read(START, result("t", "failed", failures=[detail])).failures
    assert failure.frames == (
        Frame(path="test_a.py", line=3, function="test_a", source="double(2)"),
        Frame(path="calc.py", line=7, function="double", source="raise ValueError"),
    )
    assert failure.cause == "KeyError: 2"


@pytest.mark.parametrize("frames", [None, 3, "x", [None], [[]], [["a.py", "3", "f", ""]], [["a.py", 3, "f", "", 1]]])
def test_frames_that_are_none_are_no_frames(frames: object) -> None:
    (failure,) = read(START, result("t", "failed", failures=[{"message": "x", "frames": frames}])).failures
    assert failure.frames == ()


def test_the_same_collection_error_of_two_workers_is_one() -> None:
    error: Line = {
        "type": "collect-error",
        "id": "t.py",
        "where": "t.py:1",
        "kind": "NameError",
        "message": "NameError: x",
    }
    log = read(START, error, error, {**error, "id": "u.py"})
    assert [failure.test for failure in log.collect_errors] == ["t.py", "u.py"]
    assert (log.counts.tests, log.counts.errors) == (2, 2)


def test_declared_tasks_are_read() -> None:
    named: Line = {"type": "task", "ids": ["t.py::a"], "task": "login", "prompt": "do", "max_iterations": 5}
    log = read(START, named, {**named, "max_iterations": "'many'"}, {**named, "max_iterations": None})
    assert [task.max_iterations for task in log.tasks] == [5, "'many'", None]
    assert log.tasks[0] == DeclaredTask("login", "do", 5, ("t.py::a",))


def test_half_a_surrogate_pair_becomes_text_that_can_be_written() -> None:
    log = read(START, result("t\udcff.py::a", "failed", failures=[{"message": "\ud800", "detail": "\udfff"}]))
    (test,) = log.tests
    test.encode()
    log.failures[0].model_dump_json()


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
TYPES = (
    "start", "root", "session", "collecting", "collect-error", "collect-skip", "collected", "collection", "task",
    "begin", "test", "usage-error", "interrupt", "internal-error", "finish", "exit",
)  # fmt: skip
KEYS = (
    "id", "ids", "path", "outcome", "failures", "counts", "status", "code", "text", "message", "kind", "reruns",
    "deselected", "max_iterations", "task", "phase", "output", "junitxml", "seed", "distributed", "where", "detail",
)  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from(TYPES), st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=6))))
def test_no_content_of_a_line_makes_it_fail(lines: list[tuple[str, dict[str, object]]]) -> None:
    read(*({**fields, "type": kind} for kind, fields in lines))


@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail(raw: bytes) -> None:
    read(START, raw)


@given(st.integers(0, 2000))
def test_a_log_that_ends_anywhere_is_never_more_than_what_was_written(length: int) -> None:
    lines = (START, *COLLECTED, result("t.py::a"), result("t.py::b", "failed", failures=[{"message": "no"}]), FINISH)
    whole = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    log = read_witness(io.BytesIO(whole[:length]))
    assert log.unreadable == 0
    assert set(log.tests) <= {"t.py::a", "t.py::b"}
    assert log.finished == (length >= len(whole) - 1)


def test_the_type_in_front_of_an_assertion_is_told_once() -> None:
    told = {"kind": "AssertionError", "message": "AssertionError: assert 'a' == 'b'", "source": "assert f() == 'b'"}
    (failure,) = read(START, result("t.py::a", "failed", failures=[told])).failures
    assert (failure.message, failure.expected, failure.received) == ("assert 'a' == 'b'", "'b'", "'a'")


def test_what_pytest_was_given_is_known() -> None:
    log = read(START, {"type": "root", "path": "/x"}, {"type": "session", "positional": ["a", "b.py::c", 3]})
    assert (log.root, log.positional) == ("/x", ("a", "b.py::c"))


@given(st.integers(3000, 4100))
def test_no_text_is_cut_inside_of_a_secret(before: int) -> None:
    secret = "Zq8rT2vLm4xWc7PzKd9sHf3J"
    told = {"message": "é" * (before // 2) + secret + "é" * 4000, "cause": "x " * 140 + secret + " x" * 100}
    (failure,) = read(START, result("t.py::a", "failed", failures=[told])).failures
    for text in (failure.message, failure.cause):
        assert secret in text or not any(secret[start : start + 3] in text for start in range(22))
