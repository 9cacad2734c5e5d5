from __future__ import annotations

from prices import with_tax


def test_tax_is_a_share_of_the_price():
    assert with_tax(200, 10) == 220
