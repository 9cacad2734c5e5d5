"""What several runs of the base tell, and what a later run lacks against them."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.gate.baseline import ABSENT, BAD, GOOD, Baseline, BaselineRun, Place
from pytest_iterctl.gate.comparison import compare, hurried


def run(place: Place, **outcomes: str) -> BaselineRun:
    return BaselineRun(place, MappingProxyType(outcomes))


def of(*runs: BaselineRun) -> Baseline:
    return Baseline(runs)


def test_steady_tests_are_neither_flaky_nor_the_rooms_fault() -> None:
    baseline = of(run("tree", a="passed", b="failed"), run("reverse", a="passed", b="error"))
    assert (baseline.flaky, baseline.room_differs, baseline.is_settled) == ((), (), True)
    assert (set(baseline.passing), set(baseline.failing)) == ({"a"}, {"b"})


def test_one_run_in_the_room_that_differs_settles_nothing() -> None:
    assert not of(run("tree", a="passed"), run("reverse", a="failed")).is_settled


def test_what_fails_only_in_reverse_depends_on_its_order() -> None:
    baseline = of(run("tree", a="passed"), run("reverse", a="failed"), run("room", a="passed"))
    assert (baseline.flaky, baseline.room_differs) == (("a",), ())
    assert baseline.told("a") == (
        "a: passed in the work tree, failed in the clean room in reverse order, passed in the clean room"
    )


def test_what_never_works_in_the_room_is_the_rooms_fault() -> None:
    baseline = of(run("tree", a="passed", b="passed"), run("reverse", a="failed"), run("room", a="error"))
    assert baseline.room_differs == ("a", "b")
    assert baseline.flaky == ()


def test_what_failed_in_the_tree_and_passes_in_the_room_is_flaky_and_no_fault_of_the_room() -> None:
    baseline = of(run("tree", a="failed"), run("reverse", a="passed"), run("room", a="passed"))
    assert (baseline.flaky, baseline.room_differs) == (("a",), ())


def test_a_test_that_never_passed_is_not_flaky_however_it_failed() -> None:
    assert of(run("tree", a="failed"), run("reverse", a="skipped"), run("room", a="failed")).flaky == ()


outcomes = st.sampled_from(("passed", "xpassed", "failed", "error", "skipped", "xfailed"))
names = st.sampled_from(("t.py::a", "t.py::b[1]", "t.py::b[2]", "t.py::c"))
runs = st.builds(
    lambda place, found: BaselineRun(place, MappingProxyType(found)),
    st.sampled_from(("tree", "room", "reverse")),
    st.dictionaries(names, outcomes),
)
baselines = st.lists(runs, max_size=4).map(lambda found: Baseline(tuple(found)))


@given(baselines)
def test_a_baseline_is_the_same_after_it_was_written_and_read(baseline: Baseline) -> None:
    again = Baseline.of_document(baseline.document())
    assert again.digest() == baseline.digest()
    assert (again.flaky, again.passing, again.failing) == (baseline.flaky, baseline.passing, baseline.failing)


@given(baselines)
def test_the_classes_of_tests_do_not_overlap(baseline: Baseline) -> None:
    flaky, lacking = set(baseline.flaky), set(baseline.room_differs)
    assert not flaky & lacking
    assert not baseline.passing & (flaky | lacking | baseline.failing)
    assert not flaky & baseline.failing


@given(baselines)
def test_a_run_that_does_what_the_base_did_has_no_gap(baseline: Baseline) -> None:
    if not baseline.runs or baseline.differing:
        return
    assert compare(baseline, baseline.runs[-1].outcomes) == ()


@given(baselines, st.dictionaries(names, outcomes))
def test_a_failure_is_never_a_gap_by_itself(baseline: Baseline, now: dict[str, str]) -> None:
    for gap in compare(baseline, now):
        assert not [test for test in gap.tests if now.get(test) in GOOD | BAD]


BEFORE = of(
    run("tree", **{"t.py::a": "passed", "t.py::p[1]": "passed", "t.py::p[2]": "failed", "t.py::s": "skipped"}),
    run("room", **{"t.py::a": "passed", "t.py::p[1]": "passed", "t.py::p[2]": "failed", "t.py::s": "skipped"}),
)
FINE = {"t.py::a": "passed", "t.py::p[1]": "passed", "t.py::p[2]": "passed", "t.py::s": "skipped"}


@pytest.mark.parametrize(
    ("change", "kind", "word"),
    [
        ({"t.py::a": ABSENT}, "vanished", "no longer run"),
        ({"t.py::a": "skipped"}, "newly-skipped", "newly skipped"),
        ({"t.py::p[2]": "xfailed"}, "newly-xfailed", "newly expected to fail"),
        ({"t.py::p[2]": ABSENT}, "vanished", "t.py::p has 1 of its 2 parameters left"),
    ],
)
def test_tests_that_say_nothing_any_more_are_gaps(change: dict[str, str], kind: str, word: str) -> None:
    now = {test: outcome for test, outcome in {**FINE, **change}.items() if outcome != ABSENT}
    (gap,) = compare(BEFORE, now)
    assert gap.kind == kind
    assert word in gap.text
    assert gap.undo


def test_nothing_is_missed_and_nothing_is_made_up() -> None:
    assert compare(BEFORE, FINE) == ()
    assert compare(BEFORE, {**FINE, "t.py::new": "skipped", "t.py::s": "passed"}) == ()


def test_ids_that_change_from_run_to_run_are_compared_by_number() -> None:
    baseline = of(
        run("tree", **{"t.py::p[0x1]": "passed", "t.py::p[0x2]": "passed"}),
        run("room", **{"t.py::p[0x3]": "passed", "t.py::p[0x4]": "passed"}),
    )
    assert compare(baseline, {"t.py::p[0x5]": "passed", "t.py::p[0x6]": "passed"}) == ()
    (gap,) = compare(baseline, {"t.py::p[0x7]": "passed"})
    assert gap.text == "t.py::p has 1 of its 2 parameters left"


def test_a_test_that_takes_no_time_any_more_is_noticed() -> None:
    baseline = of(replace(run("tree", a="passed", b="passed"), durations={"a": 2.0, "b": 0.1}))
    assert hurried(baseline, {"a": "passed", "b": "passed"}, {"a": 0.001, "b": 0.0}) == ("a",)
    assert hurried(baseline, {"a": "passed"}, {"a": 0.5}) == ()
