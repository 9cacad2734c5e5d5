"""Tests with real agent CLIs: not everybody has them, so what was left out is said where people see it."""

from __future__ import annotations

import warnings
from typing import NoReturn

import pytest

__all__ = ["skip_loudly"]


def skip_loudly(reason: str) -> NoReturn:
    """Skip, and put the reason into the summary of every run: a silent skip looks like a pass."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")  # a warning is an error elsewhere; this one is for people
        warnings.warn(pytest.PytestWarning(reason), stacklevel=2)
    pytest.skip(reason)
