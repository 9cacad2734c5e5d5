"""What changed since the iteration before."""

from __future__ import annotations

from pytest_iterctl.control.evidence import Counts, Failure, Outcome, SuiteEvidence
from pytest_iterctl.feedback.movement import Movement, movement


def suite(failing: dict[str, str], *, outcome: Outcome = Outcome.FAILED, tests: int = 10) -> SuiteEvidence:
    return SuiteEvidence(
        outcome=outcome,
        counts=Counts(tests=tests),
        failing=tuple(failing),
        failures=tuple(Failure(test=test, kind="ValueError", message=message) for test, message in failing.items()),
    )


def test_tests_are_told_by_what_became_of_them() -> None:
    before = suite({"fixed": "a", "same": "b at 0x1", "different": "c"})
    now = suite({"same": "b at 0x2", "different": "d", "broken": "e", "added": "f"})
    moved = movement(before, now, passed_before=frozenset({"broken", "same"}))
    assert moved == Movement(("fixed",), ("same",), ("different",), ("added",), ("broken",))
    assert moved.text == "1 fixed, 2 still failing (1 of them differently), 1 newly failing, 1 regressed"


def test_without_an_iteration_before_only_regressions_are_told() -> None:
    assert not movement(None, suite({"a": "x"}))
    assert movement(None, suite({"a": "x"}), passed_before=frozenset({"a"})).regressed == ("a",)


def test_a_run_without_a_verdict_has_fixed_nothing() -> None:
    crashed = suite({}, outcome=Outcome.CRASHED)
    assert not movement(suite({"a": "x"}), crashed)


def test_where_fewer_tests_ran_nobody_says_fixed() -> None:
    moved = movement(suite({"a": "x", "b": "y"}), suite({"a": "x"}, tests=1))
    assert moved.text == "1 no longer failing (fewer tests ran), 1 still failing"


def test_a_pass_has_fixed_everything() -> None:
    assert movement(suite({"a": "x"}), suite({}, outcome=Outcome.PASSED)).text == "1 fixed"


def test_a_test_without_details_on_one_side_is_taken_for_the_same() -> None:
    unseen = suite({"a": "x"}).model_copy(update={"failures": ()})
    assert movement(unseen, suite({"a": "y"})).same == ("a",)


def test_only_what_passed_is_fixed() -> None:
    before = suite({"mended": "a", "skipped": "b", "still": "c"})
    moved = movement(before, suite({"still": "c"}), passed_now=frozenset({"mended", "other"}))
    assert (moved.fixed, moved.gone, moved.same) == (("mended",), ("skipped",), ("still",))
    assert moved.text == "1 fixed, 1 no longer run, 1 still failing"


def test_with_the_names_of_what_passed_the_number_of_tests_does_not_matter() -> None:
    moved = movement(suite({"a": "x", "b": "y"}), suite({"a": "x"}, tests=1), passed_now=frozenset({"b"}))
    assert moved.text == "1 fixed, 1 still failing"


def test_a_crash_hides_what_did_not_run_and_not_what_passed() -> None:
    crashed = suite({}, outcome=Outcome.CRASHED)
    assert movement(suite({"a": "x", "b": "y"}), crashed, passed_now=frozenset({"a"})).text == "1 fixed"


def test_a_file_that_can_be_collected_again_is_no_test_that_was_fixed() -> None:
    broken = Failure(test="t.py", phase="collect", message="no", also=("u.py",))
    before = SuiteEvidence(outcome=Outcome.COLLECTION_ERROR, failing=("t.py", "u.py"), failures=(broken,))
    assert not movement(before, suite({}, outcome=Outcome.PASSED))
    assert not movement(before, suite({}, outcome=Outcome.PASSED), passed_now=frozenset({"t.py::a"}))
