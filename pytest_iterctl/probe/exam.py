"""The exam: what the driver wants to know of a run, and how it comes into this process.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["EXAM_FILE", "NAME", "Exam", "read_exam"]

NAME = "iterctl_probe"
EXAM_FILE = "iterctl_probe.json"


class Exam:
    """What the driver wants to know; every wish has its default."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.told = dict(told)
        self.tree = os.path.realpath(str(told.get("tree") or os.getcwd()))
        self.origin = str(told.get("from") or "")
        self.protected = frozenset(map(str, told.get("protected") or ()))
        self.reverse = bool(told.get("reverse"))
        self.watch = bool(told.get("watch"))
        control = told.get("control")
        self.control: dict[str, Any] = control if isinstance(control, dict) else {}
        self.alone = bool(told.get("alone"))
        self.alone_seconds = float(told.get("alone_seconds", 60.0))


def read_exam(given: object) -> dict[str, Any]:
    """What the witness put into the package, or what lies in the copy of it that a worker of xdist imports."""
    if given is None and __package__ == NAME:
        with suppress(OSError, ValueError), open(os.path.join(os.path.dirname(__file__), EXAM_FILE), "rb") as file:
            given = json.load(file)
    return given if isinstance(given, dict) else {}
