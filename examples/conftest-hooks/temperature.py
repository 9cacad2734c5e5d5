from __future__ import annotations


def fahrenheit(celsius: float) -> float:
    return celsius * 9 / 5
