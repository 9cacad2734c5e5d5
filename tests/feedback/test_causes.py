"""Failures grouped by cause: one thing to mend each, the same whatever the order."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.control.evidence import Failure, Frame
from pytest_iterctl.control.signature import coarse
from pytest_iterctl.feedback.causes import group, named, sorted_names
from pytest_iterctl.feedback.kept import KeptFailures

kinds = st.sampled_from(["", "AssertionError", "KeyError", "ModuleNotFoundError"])
failures = st.builds(
    Failure,
    test=st.sampled_from(["", "a.py", "a.py::t", "a.py::t[1]", "a.py::t[10]", "b.py::t[x]", "b.py::u"]),
    phase=st.sampled_from(["collect", "setup", "call", "teardown", "session"]),
    where=st.sampled_from(["", "a.py:1", "calc.py:7"]),
    kind=kinds,
    message=st.sampled_from(["", "assert 1 == 2", "KeyError: 'x'", "KeyError: 'yy'", "No module named 'z'"]),
    detail=st.sampled_from(["", "more"]),
    frames=st.sampled_from([(), (Frame(path="calc.py", function="f"),), (Frame(path="a.py", function="t"),)]),
)


def broken(test: str, message: str = "KeyError: 'x'", **more: object) -> Failure:
    frame = Frame(path="calc.py", line=3, function="double", source="return table[number]")
    return Failure(test=test, kind="KeyError", message=message, frames=(frame,)).model_copy(update=more)


@given(st.lists(failures, max_size=30), st.randoms(use_true_random=False))
def test_grouping_is_the_same_in_any_order(found: list[Failure], chance: random.Random) -> None:
    shuffled = found[:]
    chance.shuffle(shuffled)
    assert group(found) == group(shuffled)


@given(st.lists(failures, max_size=30))
def test_every_failure_is_in_one_cause(found: list[Failure]) -> None:
    causes = group(found)
    assert sorted(map(repr, found)) == sorted(repr(failure) for cause in causes for failure in cause.failures)
    for cause in causes:
        assert set(cause.tests) == {failure.test for failure in cause.failures} - {""}
        assert len(cause.tests) == len(set(cause.tests))


def test_the_smallest_input_is_the_example() -> None:
    inputs = ["[1000000-long text]", "[-1]", "[0]", "[12]"]
    (cause,) = group([broken(f"test_a.py::test_a{given}") for given in inputs])
    assert cause.example.test == "test_a.py::test_a[0]"
    assert cause.tests[0] == cause.example.test
    assert set(cause.tests) == {f"test_a.py::test_a{each}" for each in inputs}


def test_what_hides_the_rest_comes_first_then_regressions_then_the_number_of_tests() -> None:
    one = Failure(test="z.py", phase="collect", kind="NameError", message="NameError: name 'x' is not defined")
    session = Failure(test="", phase="session", message="crashed")
    regressed = broken("a.py::once_good", "KeyError: gone", kind="IndexError")
    many = [broken(f"b.py::t{number}") for number in range(5)]
    few = [broken(f"c.py::t{number}", kind="OSError") for number in range(2)]
    causes = group([*few, *many, regressed, session, one], regressed=frozenset({"a.py::once_good"}))
    assert [cause.example for cause in causes] == [one, session, regressed, many[0], few[0]]
    assert [cause.hides_others for cause in causes] == [True, True, False, False, False]


def test_tests_that_are_known_by_name_only_belong_to_their_cause() -> None:
    (cause,) = group([broken("t[1]", also=("t[10]", "t[2]"))])
    assert cause.tests == ("t[1]", "t[2]", "t[10]")


def test_names_are_counted_beyond_a_few() -> None:
    assert named(("a", "b", "c"), 3) == "a, b, c"
    assert named(("a", "b", "c", "d"), 3) == "a, b, c and 1 more test"
    assert named(tuple("abcdefgh"), 1, "file") == "a and 7 more files"


def test_names_are_sorted_as_people_do() -> None:
    assert sorted_names(["t[10]", "t[9]", "a", "t[009]"]) == ("a", "t[009]", "t[9]", "t[10]")


@given(st.lists(st.text(max_size=20)))
def test_any_names_can_be_sorted(names: list[str]) -> None:
    assert sorted(sorted_names(names)) == sorted(names)


# Which failures keep their details --------------------------------------------------------------------------------


def test_a_flood_of_one_cause_leaves_room_for_the_others() -> None:
    kept = KeptFailures()
    for number in range(1000):
        kept.take(broken(f"t.py::flood[{number}]", detail="long"))
    kept.take(broken("t.py::other", kind="OSError", detail="the other one"))
    listed = kept.listed()
    assert len(listed) < 20
    assert listed[-1].detail == "the other one"
    flood, other = group(listed)
    assert (len(flood.tests), len(other.tests)) == (1000, 1)


def test_the_simplest_of_a_flood_keep_their_details() -> None:
    kept = KeptFailures()
    for number in reversed(range(1000)):
        kept.take(broken(f"t.py::flood[{number}]", detail="long"))
    assert [failure.test for failure in kept.listed()] == [f"t.py::flood[{number}]" for number in range(9, -1, -1)]


@given(st.lists(failures, max_size=40), st.integers(1, 10), st.integers(1, 4))
def test_no_more_are_kept_than_there_is_room_for(found: list[Failure], most: int, per_cause: int) -> None:
    kept = KeptFailures(most, per_cause)
    for failure in found:
        kept.take(failure)
    listed = kept.listed()
    assert len(listed) <= most
    assert all(len(cause.failures) <= per_cause for cause in group(listed))


@given(st.lists(failures, max_size=30))
def test_what_is_kept_has_all_causes_and_all_tests(found: list[Failure]) -> None:
    kept = KeptFailures(1000, 2)
    for failure in found:
        kept.take(failure)
    assert {coarse(failure) for failure in kept.listed()} == {coarse(failure) for failure in found}
    named_tests = {name for failure in kept.listed() for name in (failure.test, *failure.also)}
    assert named_tests | {""} >= {failure.test for failure in found}


def test_tests_that_came_by_name_only_stay_with_their_cause() -> None:
    kept = KeptFailures(10, 1)
    for number in (2, 1, 3):
        kept.take(broken(f"t[{number}]", also=(f"u{number}",)))
    (failure,) = kept.listed()
    assert (failure.test, failure.also) == ("t[1]", ("t[2]", "t[3]", "u1", "u2", "u3"))


def test_a_late_cause_takes_the_place_of_an_example_of_another() -> None:
    def failing(cause: int, number: int) -> Failure:
        frame = Frame(path=f"shop/part_{cause}.py", line=1, function="work", source=f"use(thing_{cause})")
        return Failure(test=f"test_{cause}[{number}]", kind="KeyError", message="gone", frames=(frame,))

    kept = KeptFailures(20, 10)
    for cause in (0, 1):
        for number in range(30):
            kept.take(failing(cause, number))
    kept.take(failing(2, 0))
    listed = kept.listed()
    assert len(listed) == 20
    assert len(group(listed)) == 3
    assert len({test for failure in listed for test in (failure.test, *failure.also)}) == 61
