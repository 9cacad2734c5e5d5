"""Feedback within its budgets, with what to do and where."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.control.evidence import Counts, Failure, Outcome, ReviewEvidence, SuiteEvidence
from pytest_iterctl.feedback.compose import compact, feedback_document, long_form, movement, whole_form
from pytest_iterctl.feedback.plain_text import suite_from_text

texts = st.text(max_size=400)
failures = st.builds(
    Failure,
    test=texts,
    phase=st.sampled_from(["collect", "setup", "call", "teardown", "session"]),
    where=texts,
    kind=texts,
    message=texts,
    expected=st.none() | texts,
    received=st.none() | texts,
    detail=texts,
    output=texts,
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
def test_the_compact_form_never_exceeds_its_length(
    suite: SuiteEvidence, given_reviews: tuple[ReviewEvidence, ...], limit: int
) -> None:
    feedback = compact(suite, given_reviews, limit)
    assert len(feedback.summary) + sum(map(len, feedback.actionable_items)) <= limit


@given(suites, reviews, st.integers(0, 9000))
def test_the_long_form_never_exceeds_its_bytes_and_is_valid_text(
    suite: SuiteEvidence, given_reviews: tuple[ReviewEvidence, ...], limit: int
) -> None:
    assert len(long_form(suite, given_reviews, limit=limit).encode("utf-8")) <= limit


@given(suites)
def test_the_document_is_json_whatever_the_tests_printed(suite: SuiteEvidence) -> None:
    document = json.loads(json.dumps(feedback_document(suite)))
    assert document["schema"] == "iterctl.feedback/1"
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


def test_what_moved_since_the_last_iteration_is_told() -> None:
    assert movement(failing("a", "b"), failing("b", "c")) == "1 fixed, 1 still failing, 1 newly failing"
    assert movement(None, failing("a")) == ""


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
def test_any_output_at_all_gives_feedback(output: str) -> None:
    suite = suite_from_text(output, passed=False)
    assert suite.failures
    assert compact(suite, (), 500).actionable_items
