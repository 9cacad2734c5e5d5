"""Rides inside the test runs of a clean room and writes down what the code under test does to the judge.

The witness loads this folder as the package `iterctl_probe`, before pytest or anything of the project is imported, and
hands it the exam: what to look at. The workers of xdist import a copy of it from a private folder, with the exam
inside. Like the witness it imports nothing of ours (Python 3.9 and pytest 7.4 will do), and it judges nothing: an
honest project may do a good part of what is told here, so whoever judges compares two runs.

The modules take what they need of one another by name when they are loaded, all of them before the project's first
line, and import nothing later: what would be found then is up to the code under test.

PYTEST_DONT_REWRITE: it is imported before pytest could rewrite it, and pytest would warn of that. Each module says so
of itself, since in a worker pytest is there first, and would rewrite them one by one.
"""

from __future__ import annotations

from . import held  # noqa: F401 - whatever is imported next could replace what it takes hold of

# isort: split
from typing import TYPE_CHECKING, Any

from .exam import NAME, Exam, read_exam
from .move import Move

_exam = Exam(read_exam(globals().get("EXAM")))
_folders = Move(_exam.origin, _exam.tree).everything() if _exam.origin else []

# Only now: the product may be pytest's own plugin, or pytest itself.
from .results import Probe  # noqa: E402

if TYPE_CHECKING:
    import pytest

__all__ = ["NAME", "attach", "pytest_addoption"]

_probe = Probe(_exam, _folders)


def attach(lines: Any, kinds: tuple[type, ...]) -> None:
    """Called by the witness, which has the way out."""
    _probe.attach(lines, kinds)


def pytest_addoption(parser: pytest.Parser, pluginmanager: Any) -> None:
    """The first hook that pytest calls when it is told `-p iterctl_probe`."""
    del parser
    _probe.register(pluginmanager)
