"""Histories and the name that each deserves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.control.pattern import Trial, counted, detect

GREEN = "green"
CRASH = "crashed"


def history(*ends: str, changed: bool | None = True) -> tuple[Trial, ...]:
    """One trial per word: the letters are the failing tests, `green` passes, `crashed` tells of no test."""
    trials = []
    for iteration, end in enumerate(ends, 1):
        failing = frozenset() if end in {GREEN, CRASH} else frozenset(end)
        text = f"{len(failing)} failed" if failing else end
        trials.append(Trial(iteration, text, failing, changed, passed=end == GREEN))
    return tuple(trials)


@pytest.mark.parametrize(
    ("ends", "name", "text"),
    [
        ((), "", "nothing has been tried yet"),
        (("a",), "", "one iteration only: 1 failing test"),
        (("abc",), "", "one iteration only: 3 failing tests"),
        ((CRASH,), "", "one iteration only: crashed"),
        (("a", "a"), "repeated_identical_error", "the same test fails in 2 iterations"),
        (("ab", "ab", "ab"), "repeated_identical_error", "the same 2 tests fail in 3 iterations"),
        (("abc", "ab", "ab"), "repeated_identical_error", "the same 2 tests fail in 2 iterations"),
        (("a", CRASH, CRASH), "repeated_identical_error", "the same end (crashed) in 2 iterations"),
        (("a", "b", "a", "b"), "alternating_errors", "the failures alternate between two sets of tests"),
        (("c", "a", "b", "a", "b"), "alternating_errors", "the failures alternate between two sets of tests"),
        (("a", CRASH, "a", CRASH), "alternating_errors", "the failures alternate between two sets of tests"),
        (("a", "b", "a"), "regression", "1 test fixed once and broken again"),
        (("ab", "c", "abd"), "regression", "2 tests fixed once and broken again"),
        (("abc", "ab", "a"), "progress", "fewer tests fail each time: 3 → 2 → 1"),
        (("ab", GREEN), "progress", "fewer tests fail each time: 2 → 0"),
        (("ab", "cd"), "unsteady", "different tests fail each time: 2 → 2 failing"),
        (("a", "ab"), "unsteady", "different tests fail each time: 1 → 2 failing"),
        (("abc", CRASH), "unsteady", "it ends differently each time: 3 → no result failing"),
        ((GREEN, GREEN), "", "the tests pass, the review does not approve (2 iterations in a row)"),
    ],
)
def test_each_history_has_its_name(ends: tuple[str, ...], name: str, text: str) -> None:
    found = detect(history(*ends))
    assert (found.name, found.text) == (name, text)


def failing(*trials: tuple[str, str]) -> tuple[Trial, ...]:
    """One trial per pair: the test that fails and what at."""
    return tuple(
        Trial(number, "1 failed", frozenset({test}), changed=True, signatures=frozenset({error}))
        for number, (test, error) in enumerate(trials, 1)
    )


def test_the_same_test_with_another_error_each_time_is_no_identical_error() -> None:
    found = detect(failing(("t", "no x"), ("t", "no y"), ("t", "no z")))
    assert (found.name, found.text) == ("unsteady", "the same test fails in 3 iterations, each time with another error")
    found = detect(failing(("t", "no x"), ("t", "no y"), ("t", "no y")))
    assert (found.name, found.text) == ("repeated_identical_error", "the same test fails in 2 iterations")


def test_a_test_whose_name_has_a_random_id_is_the_same_test() -> None:
    ids = ("1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed", "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d")
    found = detect(failing(*((f"t[{each}]", "no x") for each in ids)))
    assert found.name == "repeated_identical_error"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ((False,), "the agent changed nothing (1 iteration in a row)"),
        ((True, False), "the agent changed nothing (1 iteration in a row)"),
        ((False, True, False, False), "the agent changed nothing (2 iterations in a row)"),
    ],
)
def test_an_agent_that_changed_nothing_tells_most(changes: tuple[bool, ...], text: str) -> None:
    trials = tuple(Trial(number, "1 failed", frozenset("a"), changed) for number, changed in enumerate(changes, 1))
    assert (detect(trials).name, detect(trials).text) == ("no_change", text)


def test_the_baseline_is_no_attempt() -> None:
    baseline = Trial(0, "2 failed", frozenset("ab"))
    assert detect((baseline,)).text == "nothing has been tried yet"
    assert detect((baseline, *history("ab"))).name == ""


def test_a_crash_is_never_called_progress() -> None:
    for ends in (("abc", "ab", CRASH), ("ab", CRASH), (CRASH, GREEN)):
        assert detect(history(*ends)).name != "progress"


ends = st.one_of(st.sampled_from((GREEN, CRASH)), st.text("abc", min_size=1, max_size=3))


@given(st.lists(ends, max_size=8), st.sampled_from((True, None)))
def test_every_history_has_a_text_and_the_same_one_each_time(words: list[str], changed: bool | None) -> None:
    trials = history(*words, changed=changed)
    found = detect(trials)
    assert found == detect(trials)
    assert found.text
    numbers = [len(trial.failing) for trial in trials]
    if found.name == "progress":
        assert numbers == sorted(set(numbers), reverse=True)
        assert all(trial.failing or trial.passed for trial in trials)
    if found.name == "repeated_identical_error":
        assert trials[-1].failing == trials[-2].failing
    if found.name == "regression":
        assert any(trials[-1].failing & earlier.failing for earlier in trials[:-2])


def test_one_is_one_and_many_are_many() -> None:
    assert (counted(1, "test"), counted(0, "test"), counted(2, "test")) == ("1 test", "0 tests", "2 tests")
