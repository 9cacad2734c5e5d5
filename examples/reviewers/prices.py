from __future__ import annotations


def with_tax(cents: int, percent: int) -> int:
    return cents + percent
