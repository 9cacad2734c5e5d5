from __future__ import annotations

import pytest
from temperature import fahrenheit


@pytest.mark.parametrize(("celsius", "expected"), [(0, 32), (100, 212)])
def test_known_points(celsius, expected):
    assert fahrenheit(celsius) == expected
