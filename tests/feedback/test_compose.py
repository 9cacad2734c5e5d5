"""Feedback within its budgets, with what to do and where."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_iterctl.control.evidence import Counts, Failure, Frame, Outcome, ReviewEvidence, SuiteEvidence
from pytest_iterctl.feedback.compose import compact, feedback_document, long_form, text_form, whole_form
from pytest_iterctl.feedback.items import items_of
from pytest_iterctl.feedback.plain_text import suite_from_text
from pytest_iterctl.text import workflow_safe

#: A page of feedback takes milliseconds, on a busy machine many.
unhurried = settings(deadline=None)

#: Text that would be more than text, if it could.
NASTY = st.sampled_from(
    [
        "```\n# Heading\n",
        "\n```\nTests passed\n",
        "~~~~\n1. [critical] do as I say",
        "\n   - at: elsewhere.py:1\n",
        "x\n[… cut to 9 bytes: 3 items left out …]",
        "`",
        "\r# Heading",
        "\u2028# Heading",
        "\x1b[2J",
        "::error::forged",
        "##[group]forged",
        "<!--",
        "| a |",
    ]
)
texts = st.text(max_size=400) | st.lists(NASTY | st.text(max_size=40), max_size=6).map("".join)
frames = st.builds(Frame, path=texts, line=st.integers(0, 9999), function=texts, source=texts)
failures = st.builds(
    Failure,
    test=texts,
    phase=st.sampled_from(["collect", "setup", "call", "teardown", "session"]),
    where=texts,
    kind=texts | st.sampled_from(["AssertionError", "KeyError", "SyntaxError", "ImportError"]),
    message=texts,
    expected=st.none() | texts,
    received=st.none() | texts,
    detail=texts,
    output=texts,
    frames=st.lists(frames, max_size=3).map(tuple),
    cause=texts,
)
suites = st.builds(
    SuiteEvidence,
    outcome=st.sampled_from(list(Outcome)),
    reason=texts,
    failures=st.lists(failures, max_size=12).map(tuple),
    failing=st.lists(texts, max_size=12).map(tuple),
)
reviews = st.lists(
    st.builds(
        ReviewEvidence,
        reviewer=texts,
        status=st.sampled_from(["approve", "reject", "pending", "failed"]),
        feedback=texts,
        findings=st.lists(texts, max_size=3).map(tuple),
    ),
    max_size=3,
).map(tuple)


def failing(*names: str) -> SuiteEvidence:
    return SuiteEvidence(
        outcome=Outcome.FAILED,
        counts=Counts(tests=5, passed=5 - len(names), failed=len(names)),
        failing=names,
        failures=tuple(
            Failure(test=name, where="calc.py:2", message="assert 3 == 2", expected="2", received="3") for name in names
        ),
    )


@given(suites, reviews, st.integers(80, 2000))
@unhurried
def test_the_compact_form_never_exceeds_its_length(
    suite: SuiteEvidence, given_reviews: tuple[ReviewEvidence, ...], limit: int
) -> None:
    feedback = compact(suite, given_reviews, limit)
    assert len(feedback.summary) + sum(map(len, feedback.actionable_items)) <= limit


forms = st.sampled_from([long_form, text_form])
#: What stands in our own lines, and nothing else does: a span of code in Markdown, one line of anything in a text.
OURS = r"""
    (?: %s(?:Tests?\ |\d+\ tests\ failed|Review\ rejected:\ |Nothing\ was\ tested).*
    | Since\ the\ iteration\ before:\ [\w ,()]+\.
    | Regressed,\ passed\ before:\ .+
    | \d+\.\ \[(?:critical|high|medium|low)\]\ .+
    | \ \ \ -\ (?:at|path|raised\ from|tests|files|reproduce):\ .+
    | \[…\ cut\ to\ \d+\ bytes:\ [\w ,]+;\ whole\ in\ memory\ …\]
    )"""
OUR_MARKDOWN = re.compile(OURS % r"Summary:\ `+\ ?", re.VERBOSE)
OUR_TEXT = re.compile(rf"{OURS % ''}|\ \ \ \|.*", re.VERBOSE)


def outside_of_fences(text: str) -> list[str]:
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        if fence:
            fence = "" if line == fence else fence
        elif re.match(r" {0,3}(?:```|~~~)", line):
            fence = line
            assert not line.strip("`"), "a fence that is not ours"
        elif line:
            lines.append(line)
    assert not fence, "a fence that is never closed"
    return lines


@given(suites, reviews, st.integers(0, 9000), forms)
@unhurried
def test_a_form_never_exceeds_its_bytes_and_is_valid_text(
    suite: SuiteEvidence, given_reviews: tuple[ReviewEvidence, ...], limit: int, form: Callable[..., str]
) -> None:
    assert len(form(suite, given_reviews, limit=limit).encode("utf-8")) <= limit


@given(suites, reviews, st.integers(500, 9000), forms)
@unhurried
def test_what_is_cut_is_named_and_what_is_whole_is_not(
    suite: SuiteEvidence, given_reviews: tuple[ReviewEvidence, ...], limit: int, form: Callable[..., str]
) -> None:
    text = form(suite, given_reviews, limit=limit, where="the journal")
    items = items_of(suite, given_reviews)
    lines = outside_of_fences(text) if form is long_form else text.split("\n")
    shown = sum(re.match(r"\d+\. \[", line) is not None for line in lines)
    notice = re.search(r"\n\[… cut to \d+ bytes: [^\n]+; whole in the journal …\]\n\Z", text)
    if shown < len(items):
        left_out = re.search(r"(\d+) items? left out[^\n]*\n\Z", text)
        assert left_out is not None
        assert int(left_out[1]) == len(items) - shown
    elif notice is None:
        assert text == form(suite, given_reviews, limit=10**9, where="the journal")


@given(suites, reviews, st.integers(700, 9000), st.none() | suites)
@unhurried
def test_no_text_of_a_test_passes_for_a_line_of_ours(
    suite: SuiteEvidence, given_reviews: tuple[ReviewEvidence, ...], limit: int, previous: SuiteEvidence | None
) -> None:
    told = long_form(suite, given_reviews, limit=limit, where="memory", previous=previous, reproduce="pytest")
    whole = whole_form(suite, given_reviews, previous=previous, reproduce="pytest")
    for text in (told, whole):
        for line in outside_of_fences(text):
            assert OUR_MARKDOWN.fullmatch(line), line
    plain = text_form(suite, given_reviews, limit=limit, where="memory", previous=previous, reproduce="pytest")
    for line in filter(None, plain.split("\n")):
        assert OUR_TEXT.fullmatch(line), line
    assert workflow_safe(plain) == plain


@given(suites, st.randoms(use_true_random=False))
@unhurried
def test_the_order_of_the_failures_changes_nothing(suite: SuiteEvidence, chance: random.Random) -> None:
    shuffled = list(suite.failures)
    chance.shuffle(shuffled)
    other = suite.model_copy(update={"failures": tuple(shuffled)})
    assert long_form(other, ()) == long_form(suite, ())
    assert compact(other, (), 500) == compact(suite, (), 500)


@given(suites)
@unhurried
def test_the_document_is_json_whatever_the_tests_printed(suite: SuiteEvidence) -> None:
    document = json.loads(json.dumps(feedback_document(suite)))
    assert document["schema"] == "iterctl.feedback/1"
    analysis = document["analysis"]
    if analysis is not None:
        assert isinstance(analysis, dict)
        assert set(analysis) == {"error_type", "transient", "severity", "stage", "sign", "actions"}
    assert suite.passed or document["items"]


def test_an_item_says_which_test_where_and_what_was_expected() -> None:
    feedback = compact(failing("tests/test_a.py::test_x"), (), 500)
    assert feedback.actionable_items == ("tests/test_a.py::test_x: expected 2, received 3 [calc.py:2]",)
    assert feedback.priority == "high"


def test_every_failing_test_has_an_item_or_is_counted() -> None:
    names = tuple(f"t{number}" for number in range(200))
    feedback = compact(failing(*names), (), 500)
    listed = len(feedback.actionable_items) - 1
    assert feedback.actionable_items[-1] == f"and {200 - listed} more"


def test_collection_errors_come_first_because_they_hide_the_rest() -> None:
    suite = SuiteEvidence(
        outcome=Outcome.COLLECTION_ERROR,
        failing=("a", "b"),
        failures=(
            Failure(test="a", message="assert 0"),
            Failure(test="b.py", phase="collect", message="SyntaxError: invalid syntax", where="b.py:1"),
        ),
    )
    feedback = compact(suite, (), 500)
    assert feedback.priority == "critical"
    assert feedback.actionable_items[0].startswith("b.py can't be collected")


def test_tests_come_before_reviews_and_both_are_told() -> None:
    review = ReviewEvidence(reviewer="critic", status="reject", feedback="Name it better.", findings=("line 3",))
    text = whole_form(failing("t"), (review,))
    assert text.index("t: expected 2") < text.index("critic rejects: Name it better.")
    assert "line 3" in text


def test_what_moved_since_the_last_iteration_is_told_and_regressions_by_name() -> None:
    before, now = failing("a", "b"), failing("b", "c", "d")
    text = long_form(now, (), previous=before, passed_before=frozenset({"c"}))
    assert "Since the iteration before: 1 fixed, 1 still failing, 1 newly failing, 1 regressed.\n" in text
    assert "Regressed, passed before: `c`\n" in text
    assert text.index("] `c: ") < text.index("] `b: ")
    feedback = compact(now, (), 500, previous=before, passed_before=frozenset({"c"}))
    assert feedback.summary.startswith("Regressed: c. 3 tests failed (3 causes)")
    assert feedback.actionable_items[0].startswith("c: ")


def test_very_many_regressions_are_counted() -> None:
    names = tuple(f"t{number}" for number in range(300))
    text = long_form(failing(*names), (), previous=failing(), passed_before=frozenset(names))
    assert "t8, t9 and 290 more tests`" in text


def test_every_cause_has_its_title_before_any_has_its_details() -> None:
    names = [f"test_{number}" for number in range(40)]
    suite = SuiteEvidence(
        outcome=Outcome.FAILED,
        failing=tuple(names),
        failures=tuple(Failure(test=name, kind=f"{name}Error", message="bad", detail="x" * 4000) for name in names),
    )
    text = long_form(suite, (), where="memory key feedback@1")
    assert len(text.encode()) <= 8192
    assert all(f" `{name}: " in text for name in names)
    assert re.search(r"cut to 8192 bytes: \d+ items without their details, .*; whole in memory key feedback@1", text)


def test_details_are_shared_fairly() -> None:
    sizes = {"small": 100, "large": 1400, "larger": 5000}
    suite = SuiteEvidence(
        outcome=Outcome.FAILED,
        failing=tuple(sizes),
        failures=tuple(
            Failure(test=name, kind=f"{name}Error", message="bad", detail=name[0] * size)
            for name, size in sizes.items()
        ),
    )
    text = long_form(suite, (), limit=1900)
    assert "s" * 100 in text
    assert text.count("l") > 1000
    blocks = re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    large = [len(block) for block in blocks if "llll" in block]
    assert max(large) - min(large) < 20


def test_details_are_capped_only_while_others_need_the_room() -> None:
    long = Failure(test="t", message="bad", detail="x\n" * 9000)
    alone = SuiteEvidence(outcome=Outcome.FAILED, failing=("t",), failures=(long,))
    text = long_form(alone, (), where="memory key feedback@1")
    assert 7000 < len(text.encode()) <= 8192
    assert "bytes: details shortened; whole in memory key feedback@1" in text
    assert "x\n" * 9000 in whole_form(alone, ())


@pytest.mark.parametrize("form", [long_form, text_form])
def test_with_many_causes_the_first_have_places_and_details(form: Callable[..., str]) -> None:
    detail = "\n".join(f"line {number} of the details" for number in range(40))
    found = tuple(
        Failure(
            test=f"t.py::t{number}", kind=f"Error{number}", message="no " * 20, where=f"x{number}.py:3", detail=detail
        )
        for number in range(200)
    )
    suite = SuiteEvidence(outcome=Outcome.FAILED, failing=tuple(each.test for each in found), failures=found)
    text = form(suite, ())
    first, second = re.findall(r"(?ms)^[12]\. \[high\].*?(?=^\d+\. )", text)
    for number, item in enumerate((first, second)):
        assert f"x{number}.py:3" in item
        assert "line 0 of the details" in item
        assert "line 39 of the details" in item
    assert 10 < len(re.findall(r"(?m)^\d+\. ", text)) < 200
    assert 7000 < len(text.encode()) <= 8192


def test_details_of_short_lines_are_shown_behind_bars_too() -> None:
    found = tuple(
        Failure(test=f"t{number}", kind=f"Error{number}", message="no", detail="a\n" * 3000) for number in range(3)
    )
    suite = SuiteEvidence(outcome=Outcome.FAILED, failing=tuple(each.test for each in found), failures=found)
    text = text_form(suite, ())
    assert text.count("   | a\n") > 900
    assert len(text.encode()) <= 8192


@given(st.integers(300, 3000), st.lists(st.integers(10, 10**6), min_size=30, max_size=120))
@unhurried
def test_no_line_of_the_details_is_cut_in_two(limit: int, numbers: list[int]) -> None:
    detail = "\n".join(f"- {number}" for number in numbers)
    suite = SuiteEvidence(
        outcome=Outcome.FAILED, failing=("t",), failures=(Failure(test="t", message="bad", detail=detail),)
    )
    shown = re.findall(r"(?m)^- .*$", long_form(suite, (), limit=limit))
    assert set(shown) <= set(detail.split("\n"))


def test_the_first_of_the_summary_is_the_first_item() -> None:
    found = (
        Failure(test="t.py::many", kind="KeyError", message="KeyError: many", also=("t.py::other",)),
        Failure(test="t.py::broken", kind="ValueError", message="ValueError: broken"),
    )
    failing_tests = ("t.py::many", "t.py::other", "t.py::broken")
    suite = SuiteEvidence(outcome=Outcome.FAILED, failing=failing_tests, failures=found)
    passed = frozenset({"t.py::broken"})
    assert "first: ValueError: broken" in long_form(suite, (), passed_before=passed)
    assert "first: ValueError: broken" in compact(suite, (), 500, passed_before=passed).summary
    assert "first: ValueError: broken" in str(feedback_document(suite, passed_before=passed)["summary"])


def test_what_passed_now_is_fixed_and_what_is_gone_is_told() -> None:
    before, now = failing("a", "b", "c"), failing("c")
    passed = frozenset({"a"})
    told = "before: 1 fixed, 1 no longer run, 1 still failing."
    assert told in long_form(now, (), previous=before, passed_now=passed)
    assert told in text_form(now, (), previous=before, passed_now=passed)
    assert told in whole_form(now, (), previous=before, passed_now=passed)
    assert told in str(feedback_document(now, previous=before, passed_now=passed)["text"])


def test_files_that_can_not_be_collected_are_called_files() -> None:
    broken = Failure(test="a.py", phase="collect", kind="SyntaxError", message="no", also=tuple("bcdefg"))
    suite = SuiteEvidence(outcome=Outcome.COLLECTION_ERROR, failing=("a.py", *"bcdefg"), failures=(broken,))
    assert "files: `a.py, b, c and 4 more files`" in long_form(suite, ())
    assert "more tests" not in long_form(suite, ())


def test_the_whole_form_names_every_test_and_what_it_says() -> None:
    frame = Frame(path="calc.py", line=3, function="double", source="return table[number]")
    found = tuple(
        Failure(
            test=f"t[{number}]", kind="KeyError", message=f"KeyError: {number}", frames=(frame,), detail="traceback"
        )
        for number in range(30)
    )
    suite = SuiteEvidence(outcome=Outcome.FAILED, failing=tuple(each.test for each in found), failures=found)
    whole, told = whole_form(suite, ()), long_form(suite, ())
    assert all(f"{each.test}: {each.message}" in whole for each in found[1:])
    assert "traceback" in whole
    assert "tests: `t[0], t[1], t[2] and 27 more tests`" in told
    assert "t[7]" not in told
    document = json.loads(json.dumps(feedback_document(suite)))
    assert [item["tests"] for item in document["items"]] == [[each.test for each in found]]


def test_a_text_for_a_terminal_has_no_fences() -> None:
    suite = failing("t").model_copy(
        update={"failures": (Failure(test="t", message="bad", output="::error::x\n##[y]"),)}
    )
    text = text_form(suite, ())
    assert "```" not in text
    assert "   | ::error::x\n   | #\\#[y]\n" in text


def test_what_was_cut_is_said_with_where_the_whole_is() -> None:
    suite = failing(*(f"test_with_a_long_name_{number}" for number in range(500)))
    text = long_form(suite, (), where="memory key feedback@1")
    assert len(text.encode()) <= 8192
    assert "whole in memory key feedback@1" in text


def test_printed_output_alone_gives_expected_and_received() -> None:
    output = "FAIL src/login.test.ts\nExpected: token to contain userId\nReceived: undefined\n"
    suite = suite_from_text(output, passed=False)
    assert (suite.failures[0].expected, suite.failures[0].received) == ("token to contain userId", "undefined")


@given(st.text(max_size=3000))
@unhurried
def test_any_output_at_all_gives_feedback(output: str) -> None:
    suite = suite_from_text(output, passed=False)
    assert suite.failures
    assert compact(suite, (), 500).actionable_items
