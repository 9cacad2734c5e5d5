"""JUnit reports as evidence: counting, merging, what a failure tells, and what the run's outcome is."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_iterctl.control.evidence import Counts, Failure, Frame, Outcome
from pytest_iterctl.errors import ReportError
from pytest_iterctl.feedback.expectations import expectation_in
from pytest_iterctl.feedback.failure_text import exception_in, message_in
from pytest_iterctl.feedback.junit import JUnitReport, outcome_of, read_junit, read_reports
from pytest_iterctl.feedback.stack_text import frames_in


def report(body: str, *, suite: str = 'name="s"') -> JUnitReport:
    return read_junit(io.BytesIO(f"<testsuite {suite}>{body}</testsuite>".encode()), "report.xml")


def failure(body: str, *, suite: str = 'name="s"') -> Failure:
    (one,) = report(body, suite=suite).failures
    return one


def counts(body: str) -> Counts:
    return report(body).counts


# ── counting ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_kind_of_result_is_counted() -> None:
    assert counts(
        '<testcase name="a"/><testcase name="b"><failure/></testcase><testcase name="c"><error/></testcase>'
        '<testcase name="d"><skipped/></testcase><testcase name="e"/>'
    ) == Counts(tests=5, passed=2, failed=1, errors=1, skipped=1)


def test_a_test_counts_once_by_its_worst_result() -> None:
    read = report(
        '<testcase name="a"/><testcase name="a"><failure>x</failure></testcase><testcase name="a"/>'
        '<testcase name="b"><failure>x</failure></testcase><testcase name="b"><error>y</error></testcase>'
        '<testcase name="c"><skipped/><error>z</error></testcase>'
    )
    assert read.counts == Counts(tests=3, failed=1, errors=2)
    assert read.cases == 6
    assert len(read.failures) == 4
    assert len(read.failing) == 3
    assert any("listed more than once" in note for note in read.notes)


def test_same_names_in_other_suites_classes_and_files_are_other_tests() -> None:
    body = '<testcase name="a"/><testcase name="a" classname="c"/><testcase name="a" file="f.js"/>'
    assert counts(f'{body}<testsuite name="t">{body}</testsuite>').tests == 6


def test_a_rerun_that_ended_well_is_passed() -> None:
    read = report(
        '<testcase name="a"><flakyFailure message="m"><stackTrace>t</stackTrace></flakyFailure></testcase>'
        '<testcase name="b"><rerunError/><rerunFailure/></testcase>'
        '<testcase name="c"><failure/><rerunFailure/></testcase>'
    )
    assert read.counts == Counts(tests=3, passed=2, failed=1, reruns=4)


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        ('status="disabled"', Counts(tests=1, skipped=1)),
        ('status="notrun"', Counts(tests=1, skipped=1)),
        ('result="suppressed"', Counts(tests=1, skipped=1)),
        ('result="skipped"', Counts(tests=1, skipped=1)),
        ('status="run" result="completed"', Counts(tests=1, passed=1)),
        ('status="failed"', Counts(tests=1, failed=1)),
        ('status="passed" time="1.234,5"', Counts(tests=1, passed=1)),
        ('time="brrrr"', Counts(tests=1, passed=1)),
    ],
)
def test_attributes_may_carry_the_result(attribute: str, expected: Counts) -> None:
    assert counts(f'<testcase name="a" {attribute}/>') == expected


def test_an_error_of_a_suite_is_an_error() -> None:
    read = report('<error message="fixture is gone">at x (a.js:3:4)</error><testcase name="a"/>')
    assert read.suite_errors == 1
    assert read.counts == Counts(tests=1, passed=1, errors=1)
    assert [(one.test, one.phase, one.message, one.where) for one in read.failures] == [
        ("s", "session", "fixture is gone", "a.js:3")
    ]
    assert outcome_of(read, None)[0] is Outcome.FAILED


def test_cases_without_a_name_are_neither_merged_nor_lost() -> None:
    read = report("<testcase><failure>a</failure></testcase><testcase><failure>b</failure></testcase>")
    assert read.counts == Counts(tests=2, failed=2)


def test_declared_numbers_that_differ_are_noted_but_not_believed() -> None:
    read = report('<testcase name="a"/>', suite='name="s" tests="7" failures="abc"')
    assert read.counts == Counts(tests=1, passed=1)
    assert read.notes == ("report.xml: suite s declares 7 tests and lists 1",)


def test_outer_suites_may_declare_what_inner_ones_hold() -> None:
    body = '<testsuite name="t" tests="1"><testcase name="a"/></testsuite><testcase name="b"/>'
    assert not report(body, suite='name="s" tests="2"').notes
    assert not report(body, suite='name="s" tests="1"').notes


def test_of_very_many_failures_of_one_cause_the_others_are_named_and_no_other_cause_is_lost() -> None:
    alike = "".join(f'<testcase name="n{number}"><failure>x {number}</failure></testcase>' for number in range(1500))
    read = report(f'{alike}<testcase name="late"><failure message="another cause">y</failure></testcase>')
    assert read.counts.failed == 1501
    assert len(read.failing) == 1501
    assert read.failures[-1].message == "another cause"
    flood = read.failures[:-1]
    assert len(flood) == 10
    assert len({name for failure in flood for name in (failure.test, *failure.also)}) == 1500


def test_failures_that_all_look_different_are_bounded_too() -> None:
    words = ("".join(chr(97 + number // 26**place % 26) for place in range(3)) for number in range(1500))
    read = report("".join(f'<testcase name="{word}"><failure>{word}</failure></testcase>' for word in words))
    assert len(read.failing) == 1500
    assert len(read.failures) == 200


def test_a_cause_in_the_last_file_is_not_lost_behind_a_flood_in_the_files_before(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.xml" for number in range(7)]
    for number, path in enumerate(paths):
        cases = "".join(f'<testcase name="t{number}-{n}"><failure message="boom"/></testcase>' for n in range(200))
        path.write_text(f"<testsuite>{cases}</testsuite>")
    paths[-1].write_text('<testsuite><testcase name="late"><failure message="another cause"/></testcase></testsuite>')
    read = read_reports(paths)
    assert [failure.message for failure in read.failures if failure.message != "boom"] == ["another cause"]
    assert len({name for failure in read.failures for name in (failure.test, *failure.also)}) == 1201


def test_two_causes_that_differ_only_in_a_line_number_stay_two() -> None:
    at = '<failure message="boom">Error: boom\n    at src/a.js:{}:5</failure>'
    cases = "".join(f'<testcase name="n{number}">{at.format(3)}</testcase>' for number in range(50))
    read = report(f'{cases}<testcase name="late">{at.format(99)}</testcase>')
    assert {failure.where for failure in read.failures} == {"src/a.js:3", "src/a.js:99"}


def test_a_command_that_was_killed_left_a_damaged_report() -> None:
    read = read_junit(io.BytesIO(b'<testsuite name="s"><testcase name="a"/><testcase name="b">'), "r")
    assert outcome_of(read, -9)[1].endswith("killed by signal 9")


# ── several files, and files that can't be read ──────────────────────────────────────────────────────────────────────


def test_reports_are_merged_and_a_test_in_two_of_them_counts_once(tmp_path: Path) -> None:
    one, other = tmp_path / "one.xml", tmp_path / "other.xml"
    one.write_text('<testsuite name="s"><testcase name="a"/><testcase name="b"/></testsuite>')
    other.write_text('<testsuite name="s"><testcase name="b"><failure/></testcase><testcase name="c"/></testsuite>')
    read = read_reports([one, other])
    assert read.counts == Counts(tests=3, passed=2, failed=1)
    assert read.complete


def test_one_incomplete_report_makes_the_merged_one_incomplete(tmp_path: Path) -> None:
    one, other = tmp_path / "one.xml", tmp_path / "other.xml"
    one.write_text('<testsuite name="s"><testcase name="a"/>')
    other.write_text('<testsuite name="s"><testcase name="b"/></testsuite>')
    read = read_reports([one, other])
    assert not read.complete
    assert any(note.startswith(f"{one}: ") for note in read.notes)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b" \n\t\n", "is empty"),
        (b"\x00" * 64, "is empty"),
        (b"hello\nworld", "1: is not a JUnit XML report"),
        (b"{}", "1: is not a JUnit XML report"),
        (b"\x1f\x8b\x08\x00rest", r"is compressed \(gzip\)"),
        (b"PK\x03\x04rest", r"is compressed \(zip\)"),
        (b"<html>\n<body/>\n</html>", "3: holds no test case: the root element is <html>"),
        (b"<checkstyle><file><error/></file></checkstyle>", "holds no test case"),
        (b"<html>\n<body>", "2: is not a JUnit XML report"),
    ],
)
def test_what_is_no_report_is_an_error_with_place_and_reason(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "report.xml"
    path.write_bytes(content)
    with pytest.raises(ReportError, match=reason) as error:
        read_reports([path])
    assert error.value.message.startswith(f"{path}:")
    assert error.value.hint


def test_what_is_no_regular_file_is_an_error_and_never_waits(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.xml")
    (tmp_path / "link.xml").symlink_to(tmp_path / "link.xml")
    for path, reason in [
        (tmp_path, "is a directory"),
        (tmp_path / "missing.xml", "can't be read: No such file"),
        (tmp_path / "pipe.xml", "is not a regular file"),
        (tmp_path / "link.xml", "can't be read"),
        (tmp_path / "nul\0.xml", "can't be read"),
    ]:
        with pytest.raises(ReportError, match=reason):
            read_reports([path])
    with pytest.raises(ReportError, match="no test report"):
        read_reports([])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_report_without_permission_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "report.xml"
    path.write_text("<testsuite/>")
    path.chmod(0)
    with pytest.raises(ReportError, match="can't be read: Permission denied"):
        read_reports([path])


# ── what a failure tells ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("case", "suite", "expected"),
    [
        ('classname="tests.test_a" name="test_x[1]"', "pytest", "tests.test_a::test_x[1]"),
        (
            'classname="tests.test_a.TestB" name="test_x" file="tests/test_a.py"',
            "pytest",
            "tests/test_a.py::TestB::test_x",
        ),
        ('classname="tests.test_a" name="test_x" file="tests/test_a.py"', "pytest", "tests/test_a.py::test_x"),
        ('classname="" name="sub.test_broken"', "pytest", "pytest › sub.test_broken"),
        ('classname="com.acme.CartTest" name="adds"', "com.acme.CartTest", "com.acme.CartTest › adds"),
        ('classname="cart adds" name="cart adds"', "cart", "cart adds"),
        ('classname="Cart" name="adds" file="src/cart.test.ts"', "all", "src/cart.test.ts › Cart › adds"),
        ('name="adds"', "cart", "cart › adds"),
        ('name="adds"', "", "adds"),
    ],
)
def test_a_test_is_called_what_its_people_call_it(case: str, suite: str, expected: str) -> None:
    assert failure(f"<testcase {case}><failure>x</failure></testcase>", suite=f'name="{suite}"').test == expected


def test_a_pytest_failure_tells_everything() -> None:
    one = failure(
        """<testcase classname="tests.test_cart" name="test_total" file="tests/test_cart.py" line="3">
<failure message="assert 3 == 4&#10; +  where 3 = total([1, 2])">def test_total():
&gt;       assert total([1, 2]) == 4
E       assert 3 == 4
E        +  where 3 = total([1, 2])

tests/test_cart.py:6: AssertionError</failure><system-out>--- Captured Out ---
adding</system-out></testcase>""",
        suite='name="pytest"',
    )
    assert one == Failure(
        test="tests/test_cart.py::test_total",
        where="tests/test_cart.py:6",
        kind="AssertionError",
        message="assert 3 == 4\n +  where 3 = total([1, 2])",
        expected="4",
        received="3",
        detail=one.detail,
        output="--- Captured Out ---\nadding",
        frames=(Frame(path="tests/test_cart.py", line=6, function="test_total", source="assert total([1, 2]) == 4"),),
    )
    assert one.detail.endswith("tests/test_cart.py:6: AssertionError")


@pytest.mark.parametrize(
    ("case", "phase", "message"),
    [
        ('<error message="failed on setup with &quot;ValueError: no&quot;">t</error>', "setup", "ValueError: no"),
        ('<error message="failed on teardown with &quot;OSError: no&quot;">t</error>', "teardown", "OSError: no"),
        ('<failure message="assert 0">t</failure>', "call", "assert 0"),
    ],
)
def test_the_phase_is_read_from_the_wording(case: str, phase: str, message: str) -> None:
    one = failure(f'<testcase classname="test_a" name="test_x">{case}</testcase>', suite='name="pytest"')
    assert (one.phase, one.message) == (phase, message)


def test_a_collection_error_is_its_own_outcome_and_says_why() -> None:
    read = report(
        '<testcase classname="" name="tests.test_a"><error message="collection failure">ImportError while importing'
        " test module 'tests/test_a.py'.\ntests/test_a.py:1: in &lt;module&gt;\n    import nothing\n"
        "E   ModuleNotFoundError: No module named 'nothing'</error></testcase>",
        suite='name="pytest"',
    )
    (one,) = read.failures
    assert one.phase == "collect"
    assert one.message == "ModuleNotFoundError: No module named 'nothing'"
    assert one.kind == "ModuleNotFoundError"
    assert one.where == "tests/test_a.py:1"
    assert outcome_of(read, 2)[0] is Outcome.COLLECTION_ERROR


def test_attributes_tell_the_place_when_the_text_does_not() -> None:
    assert failure('<testcase name="a" file="a.rb" line="7"><failure>no</failure></testcase>').where == "a.rb:7"
    assert failure('<testcase name="a"><failure file="b.php" line="9">no</failure></testcase>').where == "b.php:9"
    assert failure('<testcase name="a" file="a.rb"><failure>no</failure></testcase>').where == "a.rb"
    assert failure('<testcase name="a"><failure/></testcase>', suite='name="s" file="x.spec.js"').where == "x.spec.js"
    # pytest's xunit1 counts lines from 0.
    in_pytest = '<testcase classname="test_a" name="test_b" file="test_a.py" line="7"><failure>no</failure></testcase>'
    assert failure(in_pytest, suite='name="pytest"').where == "test_a.py:8"


def test_colours_are_removed_however_they_are_spelt() -> None:
    plain = failure('<testcase name="a"><failure message="#x1B[31mred#x1B[0m">#x1B[1mbold</failure></testcase>')
    assert (plain.message, plain.detail) == ("red", "bold")
    mended = failure(
        '<testcase name="a"><failure message="\x1b[31mred\x1b[0m">\x1b[1mbold &#27;[0m</failure></testcase>'
    )
    assert (mended.message, mended.detail) == ("red", "bold ")


def test_details_and_output_are_bounded() -> None:
    huge = "ü line\n" * 50_000
    one = failure(
        f'<testcase name="a"><failure message="{"m" * 9000}">START {huge} END</failure>'
        f"<system-out>{huge}OUT</system-out><system-err>ERR</system-err></testcase>"
    )
    assert len(one.detail.encode()) <= 8192
    assert one.detail.startswith("START")
    assert one.detail.endswith("END")
    assert len(one.message.encode()) <= 2000
    assert len(one.output.encode()) <= 2000
    assert one.output.endswith("OUT\nERR")


def test_a_secret_is_not_cut_in_half() -> None:
    token = "ghp_" + "a1B2" * 9
    # Wherever the cut falls, no part of the token is left over.
    for shift in range(0, 60, 7):
        text = "x " * (2680 + shift) + token + " y" * 9000
        one = failure(f'<testcase name="a"><failure>{text}</failure><system-out>{text}</system-out></testcase>')
        assert "a1B2a1B2" not in one.detail
        assert "a1B2a1B2" not in one.output


def test_an_unfinished_case_is_kept_and_says_so() -> None:
    read = read_junit(io.BytesIO(b'<testsuite name="s"><testcase name="a"/><testcase name="b">'), "r")
    assert read.failing == ("s › b",)
    assert read.failures[0].message.startswith("unfinished")
    assert outcome_of(read, 0)[0] is Outcome.INCOMPLETE


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'Traceback (most recent call last):\n  File "app/a.py", line 3, in f\n  File "app/b.py", line 9, in g\nX',
            "app/b.py:9",
        ),
        ('  File "app/a.py", line 3\n  File "/usr/lib/python3.11/json/x.py", line 9, in loads', "app/a.py:3"),
        ("src/a.py:10: in f\n    g()\n/venv/lib/python3.11/site-packages/p/q.py:4: in g", "src/a.py:10"),
        (
            "org.x.AssertionFailed\n\tat org.junit.Assert.fail(Assert.java:89)\n\tat com.x.A.b(ATest.java:12)",
            "ATest.java:12",
        ),
        (
            "Error: no\n    at Object.<anonymous> (/w/src/a.test.js:10:5)\n    at run (/w/node_modules/jest/x.js:1:1)",
            "/w/src/a.test.js:10",
        ),
        ("    at run (/w/node_modules/jest/x.js:1:1)\n    at file:///w/a.mjs:3:5", "/w/a.mjs:3"),
        ("    at Foo.Bar() in C:\\src\\FooTest.cs:line 42", "C:\\src\\FooTest.cs:42"),
        ("math_test.go:17: got 3, want 4", "math_test.go:17"),
        ("thread 'x' panicked at src/lib.rs:5:9:", "src/lib.rs:5"),
        ("widget.cpp(42): error: no", "widget.cpp:42"),
        ("/w/tests/ATest.php:23", "/w/tests/ATest.php:23"),
        ("could not connect to db.example.com:5432 at 12:30:59", ""),
        ("nothing to see", ""),
        ("a.b/" * 10_000, ""),
    ],
)
def test_the_place_is_found_in_tracebacks_of_many_languages(text: str, expected: str) -> None:
    assert [f"{frame.path}:{frame.line}" for frame in frames_in(text)][-1:] == [expected][: len(expected)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Expected: 3\nReceived: 4", ("3", "4")),
        ("expect(received).toBe(expected)\n\nExpected: \x22a\x22\nReceived: \x22b\x22\n", ('"a"', '"b"')),
        ("Expected number of calls: 1\nReceived number of calls: 0", ("1", "0")),
        ("Expected: 3\nActual:   4", ("3", "4")),
        ("  Expected: 3\n  But was:  4", ("3", "4")),
        ("expected: 3\n     got: 4", ("3", "4")),
        ("Expected: is <3>\n     but: was <4>", ("is <3>", "<4>")),
        ("expected:<a[b]> but was:<a[c]>", ("a[b]", "a[c]")),
        ("expected: <3> but was: <4>", ("3", "4")),
        ("expected [3] but found [4]", ("3", "4")),
        ("expected: 3, actual: 4", ("3", "4")),
        ("expected 3, got 4", ("3", "4")),
        ("got 4, want 3", ("3", "4")),
        ("Add(1, 2) = 4; want 3", ("3", "4")),
        ('Expected "a" to equal "b".', ('"b"', '"a"')),
        ("expected 1 to deeply equal 2", ("2", "1")),
        ("Expected false to be true.", ("true", "false")),
        ("assert 3 == 4", ("4", "3")),
        ("AssertionError: assert 'x' == 'y'", ("'y'", "'x'")),
        ("assert 4 == 3\n +  where 3 = f()", ("4", "3")),
        ("AssertionError: 3 != 4", ("4", "3")),
        ("AssertionError: 3 != 4 : the sum", ("4", "3")),
        ("Expected values to be strictly equal:\n\n3 !== 4\n", ("4", "3")),
        ("assert a == b == c", None),
        ("assert f(x) and g(y) == 3", None),
        ("expected 3 not to equal 3", None),
        ("Expected 3 to be greater than 4.", None),
        ("def f():\n>       if a != b:\n        return 1", None),
        ("Expected: 3", None),
        ("ValueError: unexpected end", None),
        ("", None),
    ],
)
def test_expected_and_received_are_told_only_when_sure(text: str, expected: tuple[str, str] | None) -> None:
    assert expectation_in(text) == expected


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("E   ValueError: no\n\na.py:3: ValueError", "ValueError", "ValueError: no"),
        ("Traceback (most recent call last):\n  File \x22a.py\x22, line 3\nKeyError: 'x'", "KeyError", "KeyError: 'x'"),
        (
            "java.lang.IllegalStateException: no\n\tat a.b(C.java:1)",
            "java.lang.IllegalStateException",
            "java.lang.IllegalStateException: no",
        ),
        ("\n---\n  TypeError: x is not a function", "", "TypeError: x is not a function"),
        ("it is wrong", "", "it is wrong"),
        ("", "", ""),
    ],
)
def test_exception_and_message_are_taken_from_the_text(text: str, kind: str, message: str) -> None:
    assert exception_in(text) == kind
    assert message_in(text) == message


def test_a_declared_type_wins_unless_it_says_nothing() -> None:
    assert failure('<testcase name="a"><failure type="MyError">X: y</failure></testcase>').kind == "MyError"
    assert failure('<testcase name="a"><failure type="failure">XError: y</failure></testcase>').kind == "XError"


# ── the outcome ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("body", "exit_code", "outcome", "reason"),
    [
        ('<testcase name="a"/>', 0, Outcome.PASSED, "1 passed"),
        ('<testcase name="a"/><testcase name="b"><skipped/></testcase>', None, Outcome.PASSED, "1 passed, 1 skipped"),
        ('<testcase name="a"/>', 1, Outcome.FAILED, "exit code 1 although the report shows no failure"),
        ('<testcase name="a"/>', -9, Outcome.CRASHED, "killed by signal 9 although the report shows no failure"),
        ('<testcase name="a"><failure/></testcase>', 1, Outcome.FAILED, "1 failed"),
        ('<testcase name="a"><error/></testcase>', 0, Outcome.FAILED, "1 error, although the exit code is 0"),
        ("", 0, Outcome.NO_TESTS, "no test ran"),
        ("", 5, Outcome.NO_TESTS, "no test ran, exit code 5"),
        ('<testcase name="a"><skipped/></testcase>', 0, Outcome.NO_TESTS, "all 1 test skipped"),
        ('<testcase time="0.000"/><testcase name="a"/>', 0, Outcome.INCOMPLETE, "a case without a name"),
    ],
)
def test_only_a_complete_report_without_doubt_and_exit_code_0_is_a_pass(
    body: str, exit_code: int | None, outcome: Outcome, reason: str
) -> None:
    told = outcome_of(report(body), exit_code)
    assert told[0] is outcome
    assert reason in told[1]
    assert "\n" not in told[1]


def test_a_declared_failure_that_no_case_shows_is_no_pass() -> None:
    read = report('<testcase name="a"/>', suite='name="s" tests="2" failures="1"')
    assert outcome_of(read, 0) == (Outcome.INCOMPLETE, "the report declares 1 failure but lists none")


def test_a_report_that_only_needed_mending_can_still_pass() -> None:
    read = read_junit(io.BytesIO(b'<testsuite><testcase name="a\x01"/></testsuite>'), "r")
    assert read.notes
    assert outcome_of(read, 0)[0] is Outcome.PASSED


# ── a real tool ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("family", ["xunit1", "xunit2"])
def test_what_pytest_itself_writes_is_read_right(tmp_path: Path, family: str) -> None:
    (tmp_path / "test_real.py").write_text(
        """
import pytest

@pytest.fixture
def broken():
    raise OSError("no disk")

@pytest.fixture
def bad_end():
    yield
    raise OSError("no end")

def test_ok(): pass
def test_equal(): assert 1 + 1 == 3
def test_setup(broken): pass
def test_teardown(bad_end): assert 0
def test_escape(): raise ValueError("\\x1b[31mred\\x00")
@pytest.mark.skip
def test_skip(): pass
@pytest.mark.xfail
def test_xfail(): assert 0
"""
    )
    (tmp_path / "test_gone.py").write_text("import does_not_exist\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(tmp_path)]
    options = ["--continue-on-collection-errors", "--junitxml=r.xml", "-o", f"junit_family={family}", "-q"]
    ran = subprocess.run([*command, *options], cwd=tmp_path, check=False, capture_output=True)
    read = read_reports([tmp_path / "r.xml"])
    assert read.complete
    # test_teardown failed and then failed to tear down: one test, the error counts.
    assert read.counts == Counts(tests=8, passed=1, failed=2, errors=3, skipped=2)
    assert outcome_of(read, ran.returncode)[0] is Outcome.COLLECTION_ERROR
    by_phase = {(one.test.rpartition("::")[2], one.phase): one for one in read.failures}
    equal = by_phase["test_equal", "call"]
    assert (equal.expected, equal.received, equal.kind) == ("3", "(1 + 1)", "AssertionError")
    assert equal.where == "test_real.py:14"
    assert equal.test == ("test_real.py::test_equal" if family == "xunit1" else "test_real::test_equal")
    assert by_phase["test_setup", "setup"].message == "OSError: no disk"
    assert {phase for name, phase in by_phase if name == "test_teardown"} == {"call", "teardown"}
    assert "\x1b" not in by_phase["test_escape", "call"].message
    (gone,) = (one for one in read.failures if one.phase == "collect")
    assert gone.kind == "ModuleNotFoundError"
    assert gone.where == "test_gone.py:1"


def test_the_tests_that_passed_are_named_when_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "report.xml"
    path.write_text(
        '<testsuite name="s"><testcase classname="a" name="one"/>'
        '<testcase classname="a" name="two"><failure/></testcase>'
        '<testcase classname="a" name="three"><skipped/></testcase><testcase classname="a" name="four"><system-out>x'
        '</system-out></testcase><testcase classname="a" name="one"><failure/></testcase></testsuite>'
    )
    named = read_reports([path], name_passed=True)
    assert [name.rpartition("four")[1] for name in named.passed] == ["four"]
    plain = read_reports([path])
    assert plain.passed == ()
    assert (plain.counts, plain.failing) == (named.counts, named.failing)
