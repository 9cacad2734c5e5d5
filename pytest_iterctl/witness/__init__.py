"""Rides inside each test run and writes down what happened, one JSON line per test, where the tests can't reach it.

The launcher (`__main__.py`) loads this folder as the package `iterctl_witness`. Like the probe it imports nothing of
ours, by name what it needs of itself, all of it before the project's first line, and nothing later.
"""

from __future__ import annotations

from .running import run

__all__ = ["run"]
