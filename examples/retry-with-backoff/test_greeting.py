from __future__ import annotations

from greeting import greet


def test_a_greeting_ends_with_an_exclamation_mark():
    assert greet("Ada") == "Hello Ada!"
