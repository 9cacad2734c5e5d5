"""Shortened text is within its limit and has no half words at its cuts, or no half lines."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.feedback.shortening import beginning, without_half_lines, without_half_words

SECRET = "Zq8rT2vLm4xWc7PzKd9sHf3J"


@given(st.text(max_size=900), st.integers(100, 900))
def test_shortened_text_is_within_its_limit(text: str, limit: int) -> None:
    assert len(beginning(text, limit)) <= limit
    assert len(without_half_words(text, limit).encode()) <= limit
    assert len(without_half_lines(text, limit).encode()) <= limit
    if len(text.encode("utf-8", "backslashreplace")) <= limit:
        assert without_half_words(text, limit) == without_half_lines(text, limit)


@given(st.integers(0, 3000), st.integers(0, 3000), st.sampled_from(["x ", "x\n", "é ", "\té"]))
def test_a_secret_that_is_a_word_is_there_as_a_whole_or_not_at_all(before: int, behind: int, filler: str) -> None:
    text = f"{filler * before} {SECRET} {filler * behind}"
    for told in (without_half_words(text, 1500), beginning(text, 1500)):
        rest = told.replace(SECRET, "")
        assert not any(SECRET[start : start + 3] in rest for start in range(len(SECRET) - 2))


def test_a_secret_inside_of_a_long_word_is_gone_where_the_cut_goes_through_it() -> None:
    assert SECRET[:3] not in beginning("x" * 1490 + SECRET + "x" * 900, 1500)
    assert SECRET[:3] not in without_half_words("x" * 970 + SECRET + "x" * 2000, 1500)
    assert SECRET[-3:] not in without_half_words("x" * 2000 + SECRET + "x" * 480, 1500)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=200), st.integers(60, 900))
def test_lines_are_kept_whole_or_not_at_all(numbers: list[int], limit: int) -> None:
    text = "\n".join(f"- {number}" for number in numbers)
    told = without_half_lines(text, limit)
    shown = re.findall(r"(?m)^- .*$", told)
    assert set(shown) <= set(text.split("\n"))
    cut = re.search(r"\[… (\d+) lines? cut …\]", told)
    assert len(shown) + (int(cut[1]) if cut else 0) == len(numbers)


def test_a_single_line_that_is_too_long_ends_in_an_ellipsis() -> None:
    assert without_half_lines("x" * 100, 23) == "x" * 20 + "…"
