"""Says whether a change destroys more than a task can want: a stated share of the tracked files or lines is gone.

Pure. Both a number and a share must be overstepped, because in a project of six files three are half of it, and in one
of twenty thousand a whole package is one in a hundred. What is found again elsewhere was moved and is not gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pytest_iterctl.control.pattern import counted

__all__ = ["Facts", "FileLoss", "Thresholds", "Verdict", "verdict_on"]

_NAMED = 5


class FileLoss(Protocol):
    """One tracked file that lost something; `gone`: deleted or emptied, and what it held is nowhere else."""

    @property
    def path(self) -> str: ...
    @property
    def lost(self) -> int: ...
    @property
    def gone(self) -> bool: ...


class Facts(Protocol):
    """What a change did to what was there; `files` and `lines` are all that were tracked before it."""

    @property
    def files(self) -> int: ...
    @property
    def lines(self) -> int: ...
    @property
    def losses(self) -> Sequence[FileLoss]: ...


@dataclass(frozen=True, slots=True)
class Thresholds:
    """How much may go. What is more than the number and more than the share, both, is destructive.

    In the histories of click, requests, httpx and pytest (24,600 commits, measured with `work/losses.py`) one commit is
    over them, and that was a slip in a pull request, which took 145 of 150 files along. With a tenth as the share there
    would be a dozen that people meant. `nearly_all` is for projects that are too small for the numbers: more than nine
    tenths of at least `few` files.
    """

    files: int = 10
    file_share: float = 0.25
    lines: int = 500
    line_share: float = 0.5
    few: int = 3
    nearly_all: float = 0.9


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reason` is one sentence for people and agents; '' when nothing is held against the change."""

    destructive: bool
    reason: str = ""
    files: tuple[str, ...] = ()


def verdict_on(facts: Facts, thresholds: Thresholds | None = None, *, allowed: bool = False) -> Verdict:
    """`allowed`: the plan permits destructive changes, so nothing is one."""
    limits = thresholds or Thresholds()
    gone = tuple(sorted(each.path for each in facts.losses if each.gone))
    lost = sum(each.lost for each in facts.losses)
    if allowed:
        return Verdict(destructive=False)
    if _is_more(len(gone), facts.files, limits.files, limits.file_share) or _is_more(
        len(gone), facts.files, limits.few - 1, limits.nearly_all
    ):
        share = _percent(len(gone), facts.files)
        reason = f"{counted(len(gone), 'file')} of {facts.files} ({share}) deleted or emptied: {_named(gone)}"
        return Verdict(destructive=True, reason=reason, files=gone)
    if _is_more(lost, facts.lines, limits.lines, limits.line_share):
        worst = sorted(facts.losses, key=lambda each: (-each.lost, each.path))
        names = tuple(each.path for each in worst if each.lost)
        share = _percent(lost, facts.lines)
        reason = f"{counted(lost, 'line')} of {facts.lines} ({share}) gone, most of them from {_named(names)}"
        return Verdict(destructive=True, reason=reason, files=tuple(sorted(names)))
    return Verdict(destructive=False)


def _is_more(count: int, whole: int, number: int, share: float) -> bool:
    return count > number and count > share * whole


def _percent(count: int, whole: int) -> str:
    return f"{100 * count / whole:.0f} %" if whole else "all"


def _named(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
