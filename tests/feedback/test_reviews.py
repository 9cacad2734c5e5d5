"""What a reviewer said: its document first, then its exit code."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_iterctl.control.evidence import ReviewEvidence
from pytest_iterctl.feedback.reviews import read_review


def document(**fields: object) -> str:
    return json.dumps(fields)


@pytest.mark.parametrize("status", ["approve", "reject", "pending"])
@pytest.mark.parametrize("exit_code", [0, 1, 2, 137, -9, None])
def test_a_document_wins_over_the_exit_code(status: str, exit_code: int | None) -> None:
    review = read_review("critic", f"Let me see…\n{document(status=status, feedback='because')}\n", exit_code)
    assert review == ReviewEvidence(reviewer="critic", status=status, feedback="because")  # type: ignore[arg-type]


def test_yaml_is_as_good_as_json() -> None:
    review = read_review("critic", "status: Reject\nfeedback: |\n  one\n  two\nfindings:\n- a\ngaps: [b]\n", 0)
    assert review == ReviewEvidence(
        reviewer="critic", status="reject", feedback="one\ntwo", findings=("a",), gaps=("b",)
    )


def test_the_last_document_counts() -> None:
    printed = f"{document(status='approve')}\non second thoughts\n{document(status='reject', feedback='no')}\n"
    assert read_review("critic", printed, 0).status == "reject"


@pytest.mark.parametrize(
    ("exit_code", "status"),
    [(0, "approve"), (1, "reject"), (2, "failed"), (127, "failed"), (-15, "failed"), (None, "failed")],
)
def test_without_a_document_the_exit_code_decides(exit_code: int | None, status: str) -> None:
    review = read_review("critic", "the loop never ends", exit_code)
    assert review.status == status
    assert "the loop never ends" in review.feedback


@pytest.mark.parametrize(
    ("exit_code", "reason"), [(3, "exit code 3"), (-9, "killed by signal 9"), (None, "ended without an exit code")]
)
def test_a_failed_reviewer_says_why(exit_code: int | None, reason: str) -> None:
    review = read_review("critic", "", exit_code)
    assert review.status == "failed"
    assert reason in review.feedback


@pytest.mark.parametrize(
    "word", ["approved", "ok", "lgtm", "pass", "rejected", "approve|reject|pending", "", None, True, ["approve"]]
)
def test_other_words_are_no_verdict(word: object) -> None:
    assert read_review("critic", document(status=word), 1).status == "reject"
    assert read_review("critic", document(status=word), 2).status == "failed"


@pytest.mark.parametrize("word", ["APPROVE", "Approve", " approve "])
def test_case_and_blanks_do_not_matter(word: str) -> None:
    assert read_review("critic", document(status=word), 1).status == "approve"


def test_a_reviewer_that_could_not_work_never_approves() -> None:
    review = read_review("critic", document(status="approve", feedback="fine"), 0, "timed out after 5m")
    assert review.status == "failed"
    assert review.feedback.startswith("timed out after 5m")


def test_findings_and_gaps_may_be_texts_or_mappings() -> None:
    finding = {"id": 1, "description": "ü", "citations": ["a.py:3"]}
    review = read_review("critic", document(status="reject", findings=["one", finding, None, 7], gaps="alone"), 1)
    assert review.findings == ("one", '{"id":1,"description":"ü","citations":["a.py:3"]}', "7")
    assert review.gaps == ("alone",)


def test_what_is_too_much_is_cut_and_counted() -> None:
    review = read_review(
        "critic", document(status="reject", feedback="START" + "ü" * 20_000 + "END", findings=["x" * 9000] * 500), 1
    )
    assert len(review.feedback.encode()) <= 8192
    assert review.feedback.startswith("START")
    assert review.feedback.endswith("END")
    assert len(review.findings) == 201
    assert review.findings[-1] == "and 300 more"
    assert max(map(len, review.findings)) <= 2000


def test_escape_sequences_and_half_characters_are_harmless() -> None:
    printed = '{"status": "reject", "feedback": "\\u001b[31mred\\u001b[0m \\ud800", "findings": ["\\u001b[1mx"]}'
    review = read_review("critic", printed, 1)
    assert review.feedback.startswith("red ")
    assert review.findings == ("x",)
    review.model_dump_json().encode()


@pytest.mark.parametrize("feedback", [["a", "b"], {"a": 1}, 7, None])
def test_feedback_that_is_no_text_is_shown_as_json(feedback: object) -> None:
    expected = "" if feedback is None else json.dumps(feedback, separators=(",", ":"))
    assert read_review("critic", document(status="reject", feedback=feedback), 1).feedback == expected


def test_values_that_json_does_not_know_are_shown_all_the_same() -> None:
    review = read_review("critic", "status: reject\nfindings:\n- 2024-01-31\n- {when: 2024-01-31}\n- !!set {a}\n", 1)
    assert review.findings[:2] == ('"2024-01-31"', '{"when":"2024-01-31"}')


@given(st.text(max_size=300), st.one_of(st.none(), st.integers(-20, 300)), st.text(max_size=20))
@settings(deadline=None)
def test_any_output_is_some_review_and_only_0_or_a_document_approves(
    printed: str, exit_code: int | None, failed_reason: str
) -> None:
    review = read_review("critic", printed, exit_code, failed_reason)
    review.model_dump_json().encode()
    if review.status == "approve":
        assert not failed_reason
        assert exit_code == 0 or "approve" in printed.lower()


@pytest.mark.parametrize("exit_code", [0, 1, 2, None])
def test_where_the_exit_code_is_no_answer_only_a_document_is(exit_code: int | None) -> None:
    review = read_review("critic", "I read it all, and it is good.", exit_code, exit_code_speaks=False)
    assert review.status == "failed"
    assert "no review in its answer" in review.feedback
    assert "it is good" in review.feedback
    said = f"Here is my review:\n```json\n{document(status='reject', findings=['a.py:3'], gaps=['docs'])}\n```\n"
    review = read_review("critic", said, exit_code, exit_code_speaks=False)
    assert (review.status, review.findings, review.gaps) == ("reject", ("a.py:3",), ("docs",))
