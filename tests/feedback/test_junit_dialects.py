"""Reports as tools of many languages write them, each made by hand from what is known of its dialect."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_iterctl.control.evidence import Counts, Outcome
from pytest_iterctl.errors import ReportError
from pytest_iterctl.feedback.junit import JUnitReport, outcome_of, read_junit

NODE = """<?xml version="1.0" encoding="utf-8"?>
<testsuites>
	<testcase name="top" time="0.002" classname="test" failure="6 !== 5">
		<failure type="testCodeFailure" message="6 !== 5">
Error [ERR_TEST_FAILURE]: 6 !== 5 {
  cause: AssertionError [ERR_ASSERTION]: 6 !== 5
      at TestContext.&lt;anonymous> (file:///w/a.test.js:4:34) {
    actual: 6,
    expected: 5,
  }
}
		</failure>
	</testcase>
	<testsuite name="cart" time="0.007" disabled="0" errors="0" tests="2" failures="1" skipped="1" hostname="vm">
		<testcase name="later" time="0.0002" classname="test"><skipped type="skipped" message="later"/></testcase>
		<testsuite name="sub" time="0.001" disabled="0" errors="0" tests="1" failures="1" skipped="0" hostname="vm">
			<testcase name="works" time="0.0006" classname="test" failure="no">
				<failure type="testCodeFailure" message="no">x</failure></testcase>
		</testsuite>
	</testsuite>
	<testsuite name="other" time="0.007" errors="0" tests="1" failures="1" skipped="0">
		<testsuite name="sub" time="0.001" errors="0" tests="1" failures="1" skipped="0">
			<testcase name="works" time="0.0006" classname="test" failure="no">
				<failure type="testCodeFailure" message="no">x</failure></testcase>
		</testsuite>
	</testsuite>
	<!-- tests 4 -->
</testsuites>
"""
SUREFIRE = """<testsuite xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" name="com.acme.CartTest" tests="3"
 errors="0" skipped="0" failures="1" flakes="1"><properties><property name="java.version" value="21"/></properties>
<testcase name="flaky" classname="com.acme.CartTest" time="0,012"><flakyFailure
 message="m" type="java.lang.AssertionError">
<stackTrace>at x</stackTrace><system-out>o</system-out></flakyFailure></testcase>
<testcase name="always" classname="com.acme.CartTest" time="PT1.5S">
<failure message="no" type="java.lang.AssertionError">
java.lang.AssertionError: no
	at com.acme.CartTest.always(CartTest.java:12)</failure>
<rerunFailure message="no" type="x"><stackTrace>y</stackTrace></rerunFailure>
<rerunFailure message="no" type="x"/></testcase>
<testcase name="fine" classname="com.acme.CartTest" time="NaN"/></testsuite>
"""
GTEST = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="4" failures="1" disabled="2" errors="0" time="0.0" timestamp="2026-01-01T00:00:00" name="AllTests">
  <testsuite name="Cart" tests="4" failures="1" disabled="2" skipped="0" errors="0" time="0.">
    <testcase name="Adds" file="cart_test.cc" line="3" status="run" result="completed" time="0." classname="Cart" />
    <testcase name="Off" status="notrun" result="suppressed" time="0." classname="Cart" />
    <testcase name="DISABLED_x" status="disabled" time="0" classname="Cart" />
    <testcase name="Total" file="cart_test.cc" line="9" status="run" result="completed" time="0." classname="Cart">
      <failure type=""
 message="cart_test.cc:12&#x0A;Expected equality of these values:&#x0A;  Total()&#x0A;    Which is: 3&#x0A;  4"
><![CDATA[cart_test.cc:12
Expected equality of these values:
  Total()
    Which is: 3
  4]]></failure>
    </testcase>
  </testsuite>
</testsuites>
"""
PYTEST_TWICE = """<testsuites name="pytest tests"><testsuite name="pytest" errors="1" failures="1" tests="1">
<testcase classname="tests.test_a" name="test_x" time="0.1"><failure message="assert 0">def test_x():
&gt;       assert 0
E       assert 0

tests/test_a.py:3: AssertionError</failure></testcase>
<testcase classname="tests.test_a" name="test_x" time="0.1">
<error message="failed on teardown with &quot;OSError: no&quot;">x</error>
</testcase></testsuite></testsuites>"""
RERUNS = (
    '<testsuites><testsuite name="pytest" tests="2" failures="1" errors="0">'
    + '<testcase classname="t" name="always" />' * 3
    + '<testcase classname="t" name="always"><failure message="no">x</failure></testcase>'
    + '<testcase classname="t" name="flaky" />' * 3
    + "</testsuite></testsuites>"
)
PHPUNIT = """<testsuites><testsuite name="/w/phpunit.xml" tests="2" failures="1" errors="0">
<testsuite name="unit" tests="2" failures="1" errors="0">
<testsuite name="Tests\\CartTest" file="/w/tests/CartTest.php" tests="2"
 failures="1" errors="0"><testcase name="testA" file="/w/tests/CartTest.php" line="9" class="Tests\\CartTest"
 classname="Tests.CartTest" assertions="1" time="0.1"/><testcase name="testB" file="/w/tests/CartTest.php" line="14"
 class="Tests\\CartTest" classname="Tests.CartTest">
<failure type="PHPUnit\\Framework\\ExpectationFailedException">Tests\\CartTest::testB
Failed asserting that 3 matches expected 4.

/w/tests/CartTest.php:16</failure></testcase></testsuite></testsuite></testsuite></testsuites>"""
SUITE_ERROR = """<testsuite name="cart.test.js" tests="0" failures="0" errors="1" time="0">
<error message="Test suite failed to run">
Cannot find module './cart' from 'cart.test.js'
    at Object.require (cart.test.js:1:1)</error></testsuite>"""
NAMESPACED = (
    '<t:testsuites xmlns:t="urn:x"><t:testsuite name="s"><t:testcase name="a">'
    "<t:failure>x</t:failure></t:testcase></t:testsuite></t:testsuites>"
)
DEFAULT_NAMESPACE = (
    '<testsuites xmlns="urn:x"><testsuite name="s"><testcase name="a">'
    "<error>x</error></testcase></testsuite></testsuites>"
)
TESTRUN = '<testrun name="r" tests="1"><testsuite name="s"><testcase name="a" classname="c"/></testsuite></testrun>'
NO_ROOT = '<testcase name="a"/>\n<testcase name="b"><failure/></testcase>\n<testcase name="c"/>\n'
TWO_REPORTS = '<?xml version="1.0"?>\n<testsuite name="s"><testcase name="a"/></testsuite>\n' * 1 + (
    '<?xml version="1.0"?>\n<testsuite name="t"><testcase name="a"><failure/></testcase></testsuite>'
)
NOISE_BEFORE = (
    '> jest --ci\n\x1b[32mPASS\x1b[0m <3\n<?xml version="1.0"?><testsuite name="s"><testcase name="a"/></testsuite>'
)
OUTPUT_AFTER = (
    '<testsuite name="s"><testcase name="a"><failure/></testcase></testsuite>\nProgram code.\n<done & gone>\n'
)
SEVERAL_RESULTS = (
    '<testsuite name="s"><testcase name="a"><failure message="one">x</failure><failure message="two">y</failure>'
    '<error message="three">z</error></testcase><testcase name="b"><skipped/><error>teardown</error></testcase>'
    "</testsuite>"
)
COMMENTED = (
    '<testsuite name="s"><testcase name="a"><failure><!-- c -->told<![CDATA[ <b>]]></failure></testcase></testsuite>'
)
BARE_MARKUP = (
    '<testsuite name="s"><testcase name="List<String> & co" x="1" x="2"><failure message="a < b && c > d">x ]]> y &#x8;'
    "\x1b[31m</failure></testcase></testsuite>"
)
NOTHING_SAID = (
    '<testsuite name="s"><testcase name="a"><failure/></testcase>'
    '<testcase classname="c"><error></error></testcase></testsuite>'
)


def read(text: str | bytes) -> JUnitReport:
    return read_junit(io.BytesIO(text if isinstance(text, bytes) else text.encode()), "report.xml")


@pytest.mark.parametrize(
    ("text", "counts", "complete"),
    [
        pytest.param(NODE, Counts(tests=4, failed=3, skipped=1), True, id="node --test"),
        pytest.param(SUREFIRE, Counts(tests=3, passed=2, failed=1, reruns=3), True, id="surefire"),
        pytest.param(GTEST, Counts(tests=4, passed=1, failed=1, skipped=2), True, id="googletest"),
        pytest.param(PYTEST_TWICE, Counts(tests=1, errors=1), True, id="pytest, failed and not torn down"),
        pytest.param(RERUNS, Counts(tests=2, passed=1, failed=1), True, id="rerunfailures"),
        pytest.param(PHPUNIT, Counts(tests=2, passed=1, failed=1), True, id="phpunit"),
        pytest.param(SUITE_ERROR, Counts(errors=1), True, id="error of a suite"),
        pytest.param(NAMESPACED, Counts(tests=1, failed=1), True, id="prefixed namespace"),
        pytest.param(DEFAULT_NAMESPACE, Counts(tests=1, errors=1), True, id="default namespace"),
        pytest.param(TESTRUN, Counts(tests=1, passed=1), True, id="testrun"),
        pytest.param(NO_ROOT, Counts(tests=3, passed=2, failed=1), True, id="no root"),
        pytest.param(TWO_REPORTS, Counts(tests=2, passed=1, failed=1), True, id="two reports"),
        pytest.param(NOISE_BEFORE, Counts(tests=1, passed=1), True, id="noise before"),
        pytest.param(OUTPUT_AFTER, Counts(tests=1, failed=1), True, id="output after"),
        pytest.param(SEVERAL_RESULTS, Counts(tests=2, errors=2), True, id="several results"),
        pytest.param(COMMENTED, Counts(tests=1, failed=1), True, id="comments"),
        pytest.param(BARE_MARKUP, Counts(tests=1, failed=1), True, id="bare markup"),
        pytest.param(NOTHING_SAID, Counts(tests=2, failed=1, errors=1), True, id="nothing said"),
    ],
)
def test_a_dialect_is_counted_right(text: str, counts: Counts, complete: bool) -> None:
    report = read(text)
    assert (report.counts, report.complete) == (counts, complete)
    outcome = outcome_of(report, 0)[0]
    assert (outcome is Outcome.PASSED) == (not counts.failed and not counts.errors)


def test_tests_of_the_same_name_in_nested_suites_have_names_of_their_own() -> None:
    assert read(NODE).failing == ("top", "cart › sub › works", "other › sub › works")


def test_a_failure_of_node_tells_what_was_caught_and_not_what_the_runner_made_of_it() -> None:
    first = read(NODE).failures[0]
    assert (first.kind, first.expected, first.received, first.where) == ("AssertionError", "5", "6", "/w/a.test.js:4")


def test_a_failure_that_only_an_attribute_tells_is_a_failure() -> None:
    report = read('<testsuites><testcase name="a" classname="test" failure="6 !== 5"/></testsuites>')
    assert report.counts == Counts(tests=1, failed=1)
    assert report.failures[0].message == "6 !== 5"
    assert read('<testsuites><testcase name="a" failure="0"/></testsuites>').counts.failed == 0


def test_a_failure_of_googletest_tells_both_values_and_the_failing_line() -> None:
    (failure,) = read(GTEST).failures
    assert (failure.expected, failure.received, failure.where) == ("4", "3", "cart_test.cc:12")


def test_a_failure_of_phpunit_is_named_by_file_class_and_method() -> None:
    (failure,) = read(PHPUNIT).failures
    assert failure.test == "/w/tests/CartTest.php › Tests.CartTest › testB"
    assert (failure.expected, failure.received, failure.where) == ("4", "3", "/w/tests/CartTest.php:16")


def test_a_test_that_failed_and_could_not_be_torn_down_has_both_failures() -> None:
    report = read(PYTEST_TWICE)
    assert [(failure.phase, failure.test) for failure in report.failures] == [
        ("call", "tests.test_a::test_x"),
        ("teardown", "tests.test_a::test_x"),
    ]
    assert report.failing == ("tests.test_a::test_x",)


def test_reruns_that_look_like_passes_are_told_and_count_once() -> None:
    report = read(RERUNS)
    assert any("listed more than once" in note for note in report.notes)
    assert report.failing == ("t::always",)


def test_an_error_of_a_suite_is_told_with_its_place() -> None:
    (failure,) = read(SUITE_ERROR).failures
    assert (failure.test, failure.phase, failure.where) == ("cart.test.js", "session", "cart.test.js:1")
    assert "Test suite failed to run" in failure.message


def test_every_result_of_a_case_is_told() -> None:
    assert [failure.message for failure in read(SEVERAL_RESULTS).failures] == ["one", "two", "three", "teardown"]


def test_text_around_a_comment_is_whole() -> None:
    assert read(COMMENTED).failures[0].detail == "told <b>"


def test_mended_text_keeps_its_meaning() -> None:
    (failure,) = read(BARE_MARKUP).failures
    assert failure.test == "s › List<String> & co"
    assert failure.message == "a < b && c > d"
    assert "\x1b" not in failure.detail


CTEST = """<testsuite name="(empty)" tests="3" failures="1" disabled="1" skipped="1">
<testcase name="sums" classname="sums" status="fail"><failure message=""/><system-out>starting
cart: /w/shop/cart.c:40: total: Assertion `c==2' failed.
</system-out></testcase>
<testcase name="off" classname="off" status="disabled"><system-out>Disabled</system-out></testcase>
<testcase name="gone" classname="gone" status="notrun"><skipped message="Unable to find executable"/></testcase>
</testsuite>"""


def test_a_runner_that_knows_only_exit_codes_leaves_it_to_the_output_to_tell() -> None:
    report = read(CTEST)
    assert report.counts == Counts(tests=3, failed=1, skipped=2)
    (failure,) = report.failures
    assert failure.where == "/w/shop/cart.c:40"
    assert failure.message == "cart: /w/shop/cart.c:40: total: Assertion `c==2' failed."


def test_a_failure_that_says_nothing_is_still_one() -> None:
    assert [failure.test for failure in read(NOTHING_SAID).failures] == ["s › a", "s › c"]


@pytest.mark.parametrize(
    ("declared", "note"),
    [
        ('tests="9" failures="1" errors="0"', "declares 9 tests and lists 3"),
        ('tests="3" failures="0" errors="0"', "declares 0 failures and errors and lists 1"),
        ('tests="3" failures="2" errors="1"', "declares 3 failures and errors and lists 1"),
        ('tests="3" failures="1" errors="0"', ""),
        ('tests="3"', ""),
        ('tests="x" failures="-1" errors="1e9"', ""),
        ("", ""),
    ],
)
def test_declared_numbers_are_compared_and_never_believed(declared: str, note: str) -> None:
    body = '<testcase name="a"/><testcase name="b"/><testcase name="c"><failure>x</failure></testcase>'
    report = read(f'<testsuite name="s" {declared}>{body}</testsuite>')
    assert report.counts == Counts(tests=3, passed=2, failed=1)
    assert [told for told in report.notes if "declares" in told] == ([f"report.xml: suite s {note}"] if note else [])


def test_numbers_of_an_outer_suite_may_be_of_all_or_of_its_own() -> None:
    inner = '<testsuite name="t" tests="1" failures="1" errors="0"><testcase name="a"><failure/></testcase></testsuite>'
    for own in ('tests="2" failures="1" errors="0"', 'tests="1" failures="0" errors="0"'):
        assert not read(f'<testsuite name="s" {own}>{inner}<testcase name="b"/></testsuite>').notes


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "shift_jis", "latin-1", "cp1252"]
)
@pytest.mark.parametrize("declares", ["", "utf-8", "its own"])
def test_a_report_is_read_in_whatever_encoding_it_really_has(encoding: str, declares: str) -> None:
    name = {"shift_jis": "日本", "latin-1": "fünf", "cp1252": "fünf"}.get(encoding, "日本 fünf")
    declared = encoding if declares == "its own" else declares
    declaration = f'<?xml version="1.0" encoding="{declared}"?>' if declared else ""
    data = f'{declaration}<testsuite name="s"><testcase name="{name}"><failure>x</failure></testcase></testsuite>'
    report = read(data.encode(encoding))
    assert report.counts.failed == 1
    if encoding.startswith("utf") or declares == "its own":
        assert report.failing == (f"s › {name}",)


ATTRIBUTES = st.dictionaries(
    st.sampled_from(["name", "classname", "class", "file", "filepath", "status", "result", "failure", "time"]),
    st.sampled_from(["", "a", "b", "failed", "disabled", "0"]),
)


@given(st.lists(ATTRIBUTES, max_size=12))
@settings(deadline=None)
def test_cases_that_hold_nothing_are_read_as_those_that_hold_nothing_of_interest(cases: list[dict[str, str]]) -> None:
    spelt = [" ".join(f'{key}="{value}"' for key, value in each.items()) for each in cases]
    bare = read("<testsuite>" + "".join(f"<testcase {each}/>" for each in spelt) + "</testsuite>")
    full = read(
        "<testsuite>" + "".join(f"<testcase {each}><properties/></testcase>" for each in spelt) + "</testsuite>"
    )
    assert bare == full


# ── cut off by a crash ───────────────────────────────────────────────────────────────────────────────────────────────

CASES = (
    ("first", '<testcase classname="c" name="first" time="0.1"/>', 0),
    (
        "second",
        '<testcase classname="c" name="second"><failure message="m &amp; n" type="t">a &lt; b</failure></testcase>',
        1,
    ),
    ("third", '<testcase classname="c" name="third"><system-out><![CDATA[out <x>]]></system-out></testcase>', 0),
    ("fourth", '<testcase classname="c" name="fourth"><error>e</error><system-err>s</system-err></testcase>', 1),
    ("fifth", '<testcase classname="c" name="fifth"><skipped message="later"/></testcase>', 0),
)
HEAD = '<?xml version="1.0" encoding="utf-8"?>\n<testsuites><testsuite name="s" tests="5" failures="1" errors="1">\n'
WHOLE = HEAD + "\n".join(case for _, case, _ in CASES) + "\n</testsuite></testsuites>\n"


def shown(length: int) -> tuple[set[str], str]:
    """Which of the complete cases fail, and which case is open, after so many characters."""
    failing, at = set(), len(HEAD)
    for name, case, wrong in CASES:
        start_tag = at + case.index(">") + 1
        if at + len(case) <= length and wrong:
            failing.add(f"s › c › {name}")
        if start_tag <= length < at + len(case):
            return failing, f"s › c › {name}"
        at += len(case) + 1
    return failing, ""


def test_a_report_cut_off_anywhere_never_hides_a_failure_and_names_the_open_case() -> None:
    whole_length = len(WHOLE.rstrip())
    for length in range(whole_length):
        failing, unfinished = shown(length)
        try:
            report = read(WHOLE[:length])
        except ReportError:
            assert not failing, WHOLE[:length]
            continue
        assert outcome_of(report, 0)[0] is Outcome.INCOMPLETE, WHOLE[:length]
        assert failing <= set(report.failing), WHOLE[:length]
        assert not unfinished or unfinished in report.failing, WHOLE[:length]
        assert report.notes, "what was mended is said"


@given(st.integers(0, len(WHOLE)), st.binary(max_size=12))
@settings(deadline=None)
def test_a_report_cut_off_anywhere_with_anything_behind_it_is_never_a_pass(length: int, rest: bytes) -> None:
    try:
        report = read(WHOLE[:length].encode() + rest)
    except ReportError:
        return
    assert outcome_of(report, 0)[0] is not Outcome.PASSED


# ── what only node's runner and pytest write ─────────────────────────────────────────────────────────────────────────

NODE_TRACE = """
Error [ERR_TEST_FAILURE]: Expected values to be strictly deep-equal:
+ actual - expected

+ 3
- 4
    at AsyncResource.runInAsyncScope (node:async_hooks:206:9) {
  code: 'ERR_TEST_FAILURE',
  cause: AssertionError [ERR_ASSERTION]: Expected values to be strictly deep-equal:
  + actual - expected
  
  + 3
  - 4
      at TestContext.&lt;anonymous> (file:///project/a.test.js:2:27)
      at Test.run (node:internal/test_runner/test:796:25) {
    operator: 'deepStrictEqual'
  }
}
"""  # noqa: W293 - as node writes it
UNPARSED = """/venv/lib/python3.12/site-packages/_pytest/python.py:528: in importtestmodule
    mod = import_path(
          ^^^^^^^^^^^^
&lt;frozen importlib._bootstrap>:1204: in _gcd_import
    ???
E     File "/project/tests/test_syn.py", line 1
E       def test(:
E   SyntaxError: invalid syntax"""
GROUP = """+ Exception Group Traceback (most recent call last):
  |   File "/project/test_c.py", line 3, in test_group
  |     calc.group()
  |   File "/project/calc.py", line 14, in group
  |     raise ExceptionGroup("many", errors)
  | ExceptionGroup: many (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/project/calc.py", line 12, in parse
    |     int(value)
    | ValueError: invalid literal
    +------------------------------------"""


def pytest_report(body: str) -> JUnitReport:
    text = f'<testsuites><testsuite name="pytest">{body}</testsuite></testsuites>'
    return read_junit(io.BytesIO(text.encode()), "report.xml", root="/project")


def test_a_todo_of_node_that_fails_is_skipped_and_noted() -> None:
    skipping = read(
        '<testsuites><testcase name="a" classname="test" failure="t"><skipped type="todo" message="later"/>'
        '<failure type="testCodeFailure" message="t">Error: t</failure></testcase>'
        '<testcase name="b" classname="test"/></testsuites>'
    )
    assert skipping.counts == Counts(tests=2, passed=1, skipped=1)
    assert outcome_of(skipping, 0)[0] is Outcome.PASSED
    assert skipping.notes == ("1 test marked as todo: counted as skipped, whatever came of it",)


def test_node_tells_its_message_once_and_no_frame_of_its_own() -> None:
    message = "Expected values to be strictly deep-equal:+ actual - expected+ 3- 4"
    failure = f'<failure type="testCodeFailure" message="{message}">{NODE_TRACE}</failure>'
    told = pytest_report(f'<testcase name="deep" classname="test">{failure}</testcase>')
    (found,) = told.failures
    assert found.where == "a.test.js:2"
    assert found.detail.splitlines() == [
        "AssertionError [ERR_ASSERTION]",
        "    at TestContext.<anonymous> (file:///project/a.test.js:2:27) {",
        "  operator: 'deepStrictEqual'",
        "}",
    ]


def test_a_file_that_pytest_can_not_collect_is_named_and_told_without_frames_of_pytest() -> None:
    error = f'<error message="collection failure">{UNPARSED}</error>'
    told = pytest_report(f'<testcase classname="" name="tests.test_syn">{error}</testcase>')
    (found,) = told.failures
    assert (found.test, found.phase, found.kind) == ("tests/test_syn.py", "collect", "SyntaxError")
    assert told.failing == ("tests/test_syn.py",)
    assert found.detail.splitlines()[0] == 'E     File "/project/tests/test_syn.py", line 1'


def test_a_trace_without_any_frame_of_the_project_stays_whole() -> None:
    trace = "/venv/lib/python3.12/site-packages/x.py:5: in f\n    g()\nE   ValueError: no"
    told = pytest_report(
        f'<testcase classname="test_a" name="test_b"><failure message="no">{trace}</failure></testcase>'
    )
    assert told.failures[0].detail == trace


def test_a_group_of_exceptions_is_placed_where_the_group_was_raised() -> None:
    failure = f'<failure message="ExceptionGroup: many (1 sub-exception)">{GROUP}</failure>'
    told = pytest_report(f'<testcase classname="test_c" name="test_group">{failure}</testcase>')
    (found,) = told.failures
    assert found.where == "calc.py:14"
    assert [(frame.path, frame.line, frame.source) for frame in found.frames] == [
        ("test_c.py", 3, "calc.group()"),
        ("calc.py", 14, 'raise ExceptionGroup("many", errors)'),
    ]
    assert "ValueError: invalid literal" in found.detail


def test_the_summary_of_subtests_is_no_failure_beside_theirs() -> None:
    summary = '<failure message="contains 1 failed subtest">contains 1 failed subtest</failure>'
    case = '<testcase classname="test_c" name="test_s">{}</testcase>'
    both = pytest_report(case.format(f'<failure message="assert 0 == 5">E  assert 0 == 5</failure>{summary}'))
    assert [failure.message for failure in both.failures] == ["assert 0 == 5"]
    assert len(pytest_report(case.format(summary)).failures) == 1


def test_a_doctest_is_told_by_what_it_expected_and_got() -> None:
    text = "004 \n005     >>> ev(2)\nExpected:\n    True\nGot:\n    0\n\n/project/calc.py:5: DocTestFailure"
    message = text.replace("\n", "&#10;")
    failure = f'<failure message="{message}">{text}</failure>'
    told = pytest_report(f'<testcase classname="calc" name="calc.ev">{failure}</testcase>')
    (found,) = told.failures
    assert (found.test, found.where, found.kind) == ("calc::calc.ev", "calc.py:5", "DocTestFailure")
    assert (found.expected, found.received) == ("True", "0")
    assert found.message == "Expected:\n    True\nGot:\n    0"
