from __future__ import annotations

from slugs import slug


def test_words_are_joined_by_dashes():
    assert slug("Hello World") == "hello-world"


def test_punctuation_is_left_out():
    assert slug("What? Why!") == "what-why"


def test_a_long_title_is_cut():
    assert len(slug("a" * 100)) == 40
