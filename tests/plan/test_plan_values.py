from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.plan.values import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (90, 90.0),
        (0.25, 0.25),
        ("90", 90.0),
        ("90s", 90.0),
        ("5m", 300.0),
        ("5 min", 300.0),
        ("1h30m", 5400.0),
        ("250ms", 0.25),
        ("1d", 86400.0),
    ],
)
def test_durations_are_read_as_people_write_them(text: object, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5x", "m", "-1", "1h30", 0, -1, "0s", True, None, [1], "999999d", 1e300])
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@given(st.integers(1, 300 * 86400))
def test_a_duration_of_whole_seconds_is_read_back(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds
