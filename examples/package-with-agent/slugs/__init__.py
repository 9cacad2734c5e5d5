"""Slugs: a title as it may stand in an address."""

from __future__ import annotations


def slug(title: str, longest: int = 40) -> str:
    """Small letters and digits with dashes between them; never longer than `longest`."""
    return title.lower().replace(" ", "-")[: longest + 1]
