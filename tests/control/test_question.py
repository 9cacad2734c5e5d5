"""The one question of an escalation: what it asks, what one can answer."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pytest_iterctl.control.decision import Reason
from pytest_iterctl.control.evidence import Failure
from pytest_iterctl.control.pattern import Trial
from pytest_iterctl.control.question import Option, Question, ask

REASONS = get_args(Reason)
NOTHING_TO_ASK = {"no-tests", "usage-error"}
words = st.text(max_size=300)
failures = st.builds(
    Failure,
    test=st.sampled_from(("", "tests/test_a.py::test_a")),
    message=words,
    expected=st.none() | words,
    received=st.none() | words,
)
trials = st.lists(
    st.builds(
        Trial,
        iteration=st.integers(0, 5),
        text=words,
        failing=st.frozensets(st.sampled_from("abc")),
        changed=st.sampled_from((None, True, False)),
        first=st.none() | failures,
        passed=st.booleans(),
    ),
    max_size=4,
).map(tuple)


def failing(expected: str | None = None, received: str | None = None) -> Trial:
    first = Failure(test="test_token", message="assert 1 == 2", expected=expected, received=received)
    return Trial(3, "1 failed", frozenset({"test_token"}), first=first)


@given(st.sampled_from(REASONS), trials, words, words)
def test_every_escalation_asks_one_question_whose_last_option_is_stop(
    reason: str, tried: tuple[Trial, ...], explanation: str, review: str
) -> None:
    question = ask(reason, tried, explanation=explanation, review=review)
    if reason in NOTHING_TO_ASK:
        assert question is None
        return
    assert question is not None
    assert 2 <= len(question.options) <= 4
    assert (question.options[-1].label, question.options[-1].effect) == ("stop", "abort")
    assert [option.label for option in question.options].count("stop") == 1
    assert "abort" not in [option.effect for option in question.options[:-1]]
    assert len({option.label for option in question.options}) == len(question.options)
    assert question.text.endswith("?")
    assert question == ask(reason, tried, explanation=explanation, review=review)


@given(st.sampled_from(REASONS), trials, words, words)
def test_a_question_is_a_text_and_its_numbered_options_on_lines_of_their_own(
    reason: str, tried: tuple[Trial, ...], explanation: str, review: str
) -> None:
    question = ask(reason, tried, explanation=explanation, review=review)
    if question is not None:
        lines = question.render().split("\n")
        assert lines[0] == question.text
        assert [line.split(".")[0] for line in lines[1:]] == [str(n) for n in range(1, len(question.options) + 1)]
        assert len(question.render()) < 1500


def test_a_conflict_names_what_is_expected_and_what_is_received() -> None:
    question = ask("max-iterations", (failing(expected="'42'", received="42"),), explanation="", review="")
    assert question is not None
    assert question.text == (
        "After 1 iteration, test_token still fails: it expects '42', the code gives 42. Which is right?"
    )
    assert [option.effect for option in question.options] == ["continue", "continue", "abort"]
    assert "'42'" in question.options[0].label
    assert "'42'" in question.options[0].guidance
    assert "42 (change the test)" in question.options[1].label
    assert "42" in question.options[1].guidance


def test_long_values_that_begin_alike_are_told_apart() -> None:
    alike = "{" + "'key': 'value', " * 40
    trial = failing(expected=alike + "'a': 1}", received=alike + "'a': 2}")
    question = ask("max-iterations", (trial,), explanation="", review="")
    assert question is not None
    assert "'a': 1" in question.options[0].label
    assert "'a': 2" in question.options[1].label
    assert all(len(option.label) < 200 for option in question.options)


@pytest.mark.parametrize(
    "sides",
    [{"expected": "nan", "received": "nan"}, {"expected": "a  b", "received": "a b"}, {"expected": "1"}, {}],
)
def test_without_two_different_sides_nobody_is_asked_which_is_right(sides: dict[str, str]) -> None:
    question = ask("max-iterations", (failing(**sides),), explanation="", review="")
    assert question is not None
    assert "Which is right" not in question.text
    assert "1 test still fails (test_token: assert 1 == 2)" in question.text


def test_an_empty_side_is_named() -> None:
    question = ask("max-iterations", (failing(expected="", received="1"),), explanation="", review="")
    assert question is not None
    assert "expects (empty), the code gives 1" in question.text


def test_a_rejected_change_can_be_approved_all_the_same() -> None:
    passed = Trial(3, "Tests passed", passed=True)
    question = ask("max-iterations", (passed,), explanation="", review="too long")
    assert question is not None
    assert "too long" in question.text
    assert [option.effect for option in question.options] == ["continue", "approve", "abort"]


def test_a_pending_review_is_asked_as_approve_or_reject() -> None:
    question = ask("review-pending", (), explanation="", review="")
    assert question is not None
    assert "approve or reject?" in question.text
    assert [option.effect for option in question.options] == ["approve", "continue", "abort"]
    assert question.options[1].guidance


@pytest.mark.parametrize(
    ("reason", "explanation", "text"),
    [
        ("agent-failed", "the agent failed once: no money", "The agent failed once: no money. Try it again?"),
        ("limit", "max_total_cost reached: $5", "max_total_cost reached: $5. Go on, or stop?"),
        ("stopped", "stopped by iterctl stop", "The run was stopped by iterctl stop. Go on, or leave it?"),
    ],
)
def test_what_came_in_between_is_asked_about_in_its_own_words(reason: str, explanation: str, text: str) -> None:
    question = ask(reason, (), explanation=explanation, review="")
    assert question is not None
    assert question.text == text


@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_question_with_too_few_or_too_many_options_can_not_be_made(count: int) -> None:
    with pytest.raises(ValidationError):
        Question(text="what?", options=(Option(label="stop", effect="abort"),) * count)
