"""The errors a user may see, each with its exit code and a hint.

IterctlError            3  (internal unless a subclass says otherwise)
├── UsageError          4  the command line or the surroundings are wrong
│   ├── PlanError       4  the plan is wrong; carries every problem at once
│   ├── RepositoryError 4  no git repository, or one that can't be snapshotted
│   └── ReportError     4  a test report that can't be read
├── LockedError         4  another run owns this work tree
├── SafetyError        11  refused by a safety level
├── StoreError          3  the journal can't be written: nothing may go on
└── Interrupted         2  a person pressed Ctrl-C

An error prints as `error: what, where` and `hint: what to do`, never as a traceback.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar

__all__ = [
    "ExitCode",
    "Interrupted",
    "IterctlError",
    "LockedError",
    "PlanError",
    "ReportError",
    "RepositoryError",
    "SafetyError",
    "StoreError",
    "UsageError",
]


class ExitCode(IntEnum):
    """pytest's 0-5 with their meaning, and ours from 10 on (6 and 7 belong to other plugins)."""

    DONE = 0
    NOT_ACCEPTED = 1
    INTERRUPTED = 2
    INTERNAL = 3
    USAGE = 4
    NO_TESTS = 5
    ESCALATED = 10
    SAFETY = 11


class IterctlError(Exception):
    """Base of everything that is reported in one line instead of a traceback."""

    exit_code: ClassVar[ExitCode] = ExitCode.INTERNAL

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def render(self) -> str:
        lines = [f"error: {self.message}"]
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


class UsageError(IterctlError):
    exit_code = ExitCode.USAGE


class PlanError(UsageError):
    """All that is wrong with a plan, already rendered as `error: file:line:col: …` blocks by the plan room."""

    def __init__(self, problems: tuple[str, ...], *, hint: str = "") -> None:
        super().__init__(problems[0] if problems else "the plan is wrong", hint=hint)
        self.problems = problems

    def render(self) -> str:
        text = "\n".join(self.problems)
        return f"{text}\nhint: {self.hint}" if self.hint else text


class RepositoryError(UsageError):
    pass


class ReportError(UsageError):
    pass


class LockedError(IterctlError):
    exit_code = ExitCode.USAGE


class SafetyError(IterctlError):
    exit_code = ExitCode.SAFETY


class StoreError(IterctlError):
    exit_code = ExitCode.INTERNAL


class Interrupted(IterctlError):  # noqa: N818 - it is what happened, not what went wrong
    exit_code = ExitCode.INTERRUPTED
