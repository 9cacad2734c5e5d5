from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.plan.task_order import circles, in_order, with_needs


def test_tasks_stay_in_the_order_of_the_file_unless_they_need_later_ones() -> None:
    assert in_order({"a": ["c"], "b": [], "c": [], "d": ["a"]}) == ("b", "c", "a", "d")
    assert in_order({"z": [], "y": [], "x": []}) == ("z", "y", "x")


def test_needs_of_needs_are_needed() -> None:
    assert with_needs({"a": ["b"], "b": ["c"], "c": [], "d": ["a"]}, "a") == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        ({"a": [], "b": ["a"]}, []),
        ({"a": ["b"], "b": ["a"]}, [("a", "b", "a")]),
        ({"x": ["b"], "a": ["c"], "b": ["a"], "c": ["b"]}, [("a", "c", "b", "a")]),
        ({"a": ["b"], "b": ["a"], "c": ["d"], "d": ["c"]}, [("a", "b", "a"), ("c", "d", "c")]),
    ],
)
def test_circles_are_spelt_out_from_their_first_task(needs: dict[str, list[str]], expected: list[tuple[str]]) -> None:
    assert list(circles(needs)) == expected


def test_a_very_long_chain_is_no_problem() -> None:
    names = [f"t{n}" for n in range(20_000)]
    chain = {name: [other] for name, other in zip(names, [*names[1:], "end"], strict=True)} | {"end": []}
    assert in_order(chain)[0] == "end"
    assert not list(circles(chain))
    ring = {name: [other] for name, other in zip(names, [*names[1:], names[0]], strict=True)}
    assert [len(circle) for circle in circles(ring)] == [20_001]


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, list[str]]:
    names = draw(st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1))
    return {name: draw(st.lists(st.sampled_from(names), max_size=3)) for name in names}


@given(graphs())
def test_either_all_tasks_have_an_order_or_there_is_a_circle(needs: dict[str, list[str]]) -> None:
    order = in_order(needs)
    for task in order:
        assert set(needs[task]) <= set(order[: order.index(task)])
    found = list(circles(needs))
    assert bool(found) == (len(order) < len(needs))
    for circle in found:
        assert circle[0] == circle[-1]
        assert all(second in needs[first] for first, second in itertools.pairwise(circle))
