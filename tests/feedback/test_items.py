"""Items say what to do and where: one per cause, in the order to work on them."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.control.evidence import Failure, Frame, Outcome, ReviewEvidence, SuiteEvidence
from pytest_iterctl.feedback.items import Item, items_of, review_items, suite_items

TEST = Frame(path="tests/test_calc.py", line=5, function="test_one", source="assert double(2) == 4")
DOUBLE = Frame(path="calc.py", line=12, function="double", source="return table[number]")


def items(*failures: Failure, outcome: Outcome = Outcome.FAILED, reason: str = "", **more: str) -> tuple[Item, ...]:
    failing = tuple(dict.fromkeys(failure.test for failure in failures if failure.test))
    suite = SuiteEvidence(outcome=outcome, reason=reason, failures=failures, failing=failing)
    return suite_items(suite, reproduce=more.get("reproduce", ""))


def test_an_exception_is_told_with_the_place_in_the_product_and_the_way_there() -> None:
    failure = Failure(
        test="tests/test_calc.py::test_one",
        where="tests/test_calc.py:5",
        kind="LookupError",
        message="LookupError: no 2",
        frames=(TEST, DOUBLE),
        cause="KeyError: 2",
        output="--- stdout ---\nlooking",
        detail="the whole traceback",
    )
    (item,) = items(failure, reproduce="python -m pytest")
    assert item.title == "tests/test_calc.py::test_one: LookupError: no 2; raised in double"
    assert item.where == "calc.py:12"
    assert item.path == "calc.py:12 in double <- tests/test_calc.py:5 in test_one"
    assert item.cause == "KeyError: 2"
    assert item.reproduce == "python -m pytest tests/test_calc.py::test_one"
    assert "calc.py:12 in double: return table[number]" in item.detail
    assert item.detail.endswith("looking")
    assert "the whole traceback" in item.rest


def test_an_assertion_is_told_with_both_sides_at_its_own_line() -> None:
    failure = Failure(
        test="t.py::a[1]",
        where="tests/test_calc.py:5",
        kind="AssertionError",
        message="assert 3 == 4\n +  where 3 = double(2)",
        expected="4",
        received="3",
        frames=(TEST,),
    )
    (item,) = items(failure)
    assert item.title == "t.py::a[1]: expected 4, received 3"
    assert (item.where, item.path, item.reproduce) == ("tests/test_calc.py:5", "", "")
    assert item.detail.startswith("expected: 4\nreceived: 3\nassert 3 == 4\n +  where 3 = double(2)")


def test_a_fixture_that_breaks_many_tests_is_one_item() -> None:
    frame = Frame(path="conftest.py", line=4, function="database", source='raise OSError("no database")')
    broken = [
        Failure(
            test=f"t.py::t[{number}]", phase="setup", kind="OSError", message="OSError: no database", frames=(frame,)
        )
        for number in range(200)
    ]
    (item,) = items(*broken)
    assert item.title == "t.py::t[0] and 199 more tests (in their set-up): OSError: no database; mend database"
    assert item.where == "conftest.py:4"
    assert len(item.tests) == 200


def test_the_same_missing_module_in_many_files_is_one_item_in_front() -> None:
    missing = [
        Failure(
            test=f"test_{number}.py",
            phase="collect",
            where=f"test_{number}.py:1",
            kind="ModuleNotFoundError",
            message="ModuleNotFoundError: No module named 'absent'",
            frames=(Frame(path=f"test_{number}.py", line=1, function="<module>", source="import absent"),),
        )
        for number in range(12)
    ]
    other = Failure(test="test_z.py::t", kind="KeyError", message="KeyError: 1", frames=(DOUBLE,))
    first, second = items(other, *missing, outcome=Outcome.COLLECTION_ERROR)
    told = "ModuleNotFoundError: No module named 'absent'; add the module or correct the import"
    assert first.title == f"test_0.py and 11 more files can't be collected: {told}"
    assert first.priority == "critical"
    assert second.tests == ("test_z.py::t",)


@pytest.mark.parametrize(
    ("kind", "message", "title"),
    [
        (
            "SyntaxError",
            '  File "calc.py", line 3\n    def x(:\nSyntaxError: invalid syntax',
            "t.py can't be collected: SyntaxError: invalid syntax; correct the syntax",
        ),
        (
            "ImportError",
            "ImportError: cannot import name 'a'",
            "t.py can't be collected: ImportError: cannot import name 'a'; define the name or correct the import",
        ),
        ("NameError", "name 'x' is not defined", "t.py can't be collected: NameError: name 'x' is not defined"),
    ],
)
def test_what_keeps_a_file_from_being_collected_is_told(kind: str, message: str, title: str) -> None:
    (item,) = items(Failure(test="t.py", phase="collect", kind=kind, message=message), outcome=Outcome.COLLECTION_ERROR)
    assert item.title == title


def test_a_missing_fixture_is_to_be_defined() -> None:
    failure = Failure(test="t.py::a", phase="setup", kind="FixtureLookupError", message="fixture 'db' not found\n> …")
    (item,) = items(failure)
    assert item.title == "t.py::a (in its set-up): fixture 'db' not found; define the fixture or correct its name"


def test_the_end_of_a_session_is_told_once() -> None:
    crash = Failure(test="t.py::a", phase="session", message="crashed in t.py::a: killed by SIGSEGV")
    (item,) = items(crash, outcome=Outcome.CRASHED, reason="crashed in t.py::a: killed by SIGSEGV")
    assert item.title == "The test run did not end well (crashed): crashed in t.py::a: killed by SIGSEGV"
    assert item.tests == ("t.py::a",)


def test_a_run_without_a_verdict_is_told_behind_what_could_not_be_collected() -> None:
    broken = Failure(test="t.py", phase="collect", kind="NameError", message="NameError: x")
    failed = Failure(test="u.py::a", kind="KeyError", message="KeyError: 1")
    told = items(failed, broken, outcome=Outcome.TIMED_OUT, reason="timed out")
    assert [item.title.partition(": ")[0] for item in told] == [
        "t.py can't be collected",
        "The test run did not end well (timed-out)",
        "u.py::a",
    ]


def test_failing_tests_that_nobody_describes_are_counted() -> None:
    suite = SuiteEvidence(
        outcome=Outcome.FAILED,
        failing=("a", "b", "c", "d"),
        failures=(Failure(test="a", message="no", also=("b",)),),
    )
    first, rest = suite_items(suite)
    assert first.tests == ("a", "b")
    assert (rest.title, rest.tests, rest.priority) == ("and 2 more failing tests", ("c", "d"), "low")


def test_the_parts_of_a_group_of_exceptions_are_told() -> None:
    group = Failure(test="t", kind="ExceptionGroup", message="two (2 …)", frames=(TEST,), detail="  | ValueError: 1")
    (item,) = items(group)
    assert "ValueError: 1" in item.detail


def test_a_traceback_is_told_where_the_frames_have_no_source() -> None:
    frame = Frame(path="src/token.js", line=4, function="token")
    failure = Failure(test="t", kind="TypeError", message="TypeError: no", frames=(frame,), detail="at token (4:11)")
    (item,) = items(failure)
    assert "at token (4:11)" in item.detail
    assert item.rest == ""


def test_long_ways_are_shortened_in_the_middle() -> None:
    frames = tuple(Frame(path=f"f{number}.py", line=1) for number in range(12))
    (item,) = items(Failure(test="t", kind="KeyError", message="KeyError: 1", frames=frames))
    assert item.path == "f11.py:1 <- f10.py:1 <- f9.py:1 <- f8.py:1 <- f7.py:1 <- … 6 more <- f0.py:1"


def test_only_the_end_of_the_output_is_told() -> None:
    (item,) = items(Failure(test="t", message="no", output="é" * 2000 + "the end"))
    assert "bytes before …]" in item.detail
    assert item.detail.endswith("the end")
    assert len(item.detail.encode()) < 700
    assert "é" * 2000 in item.rest


@given(st.text(max_size=400))
def test_a_command_to_reproduce_is_one_line_that_a_shell_takes_for_one_test(test: str) -> None:
    (item,) = items(Failure(test=f"t.py::{test}", message="no"), reproduce="pytest -q")
    assert "\n" not in item.reproduce
    command = shlex.split(item.reproduce)
    assert command[:2] == ["pytest", "-q"]
    assert len(command) == 3
    assert f"t.py::{test}".startswith(command[2])


@pytest.mark.parametrize(
    ("root", "test", "named"),
    [
        ("", "test_a.py::test_b", "test_a.py::test_b"),
        ("a", "test_a.py::test_b", "a/test_a.py::test_b"),
        ("..", "sub/test_a.py::test_b[1]", "'../sub/test_a.py::test_b[1]'"),
        ("a", "../test_a.py", "test_a.py"),
        ("", "-a.py::test_b", "./-a.py::test_b"),
        ("", "test_a.py::test_b@group", "test_a.py::test_b"),
        ("", "test_a.py::test_b[a@b]", "'test_a.py::test_b[a@b]'"),
        ("", "calc.py::calc.double", "calc.py::calc.double"),
    ],
)
def test_a_command_names_the_file_from_where_the_tests_were_run(root: str, test: str, named: str) -> None:
    failures = (Failure(test=test, message="no"),)
    suite = SuiteEvidence(outcome=Outcome.FAILED, failures=failures, rerun="pytest -c x.ini", root=root)
    assert suite_items(suite)[0].reproduce == f"pytest -c x.ini {named}"
    assert suite_items(suite, reproduce="other")[0].reproduce == f"other {named}"


@pytest.mark.parametrize("test", ["", "pytest", "Suite::case", "some/folder", "a suite.\n::x"])
def test_what_has_no_file_has_no_command(test: str) -> None:
    suite = SuiteEvidence(outcome=Outcome.FAILED, failures=(Failure(test=test, message="no"),), rerun="pytest")
    assert suite_items(suite)[0].reproduce == ""


def test_reviews_come_behind_what_fails() -> None:
    rejected = ReviewEvidence(reviewer="critic", status="reject", feedback="Name it better.", findings=("line 3", ""))
    assert [item.title for item in review_items((rejected,))] == ["Reviewer critic rejects: Name it better.", "line 3"]
    failed = SuiteEvidence(outcome=Outcome.FAILED, failures=(Failure(test="t", message="no"),), failing=("t",))
    assert [item.priority for item in items_of(failed, (rejected,))] == ["high", "high", "medium"]
    assert items_of(failed, (rejected,))[0].title == "t: no"
