"""Sorts the files that git does not track into what a snapshot holds and what it leaves out, and says so beforehand."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_iterctl.text import file_name

__all__ = ["Limits", "Survey", "Untracked", "excess", "names_of", "sort_untracked", "survey_of"]

_CLOSED_FOLDER = re.compile(rb"^warning: could not open directory '(.*/)': ", re.MULTILINE)
_UNITS = ("bytes", "kB", "MB", "GB", "TB")
_STEP = 1024
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Limits:
    """How much untracked content a snapshot takes in, in bytes: of one file, and of all that are new."""

    file: int
    total: int


@dataclass(frozen=True, slots=True)
class Untracked:
    """Names end in a slash where they stand for a whole folder."""

    files: Mapping[bytes, int]
    huge: Mapping[bytes, int]
    nested: frozenset[bytes]
    closed: frozenset[bytes]
    settled: frozenset[bytes]

    @property
    def left_out(self) -> frozenset[bytes]:
        return self.nested | self.closed | self.settled | frozenset(self.huge)


@dataclass(frozen=True, slots=True)
class Survey:
    """What a person should know before anything starts: what is left out, and whether a snapshot is possible at all."""

    warnings: tuple[str, ...]
    refusal: str


def sort_untracked(
    root: bytes, names: Iterable[bytes], complaint: bytes, settled: frozenset[bytes], limits: Limits
) -> Untracked:
    """Sort what `git ls-files -o` named; `settled` was left out before and stays so, with all that is in it."""
    folders = tuple(name for name in settled if name.endswith(b"/"))
    files: dict[bytes, int] = {}
    huge: dict[bytes, int] = {}
    nested = set()
    for name in names:
        if name in settled or name.startswith(folders):
            continue
        if name.endswith(b"/"):
            nested.add(name)
            continue
        try:
            status = os.lstat(root + b"/" + name)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode) and status.st_size > limits.file:
            huge[name] = status.st_size
        elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
            files[name] = status.st_size
    return Untracked(
        files=files,
        huge=huge,
        nested=frozenset(nested),
        closed=frozenset(_CLOSED_FOLDER.findall(complaint)) - settled,
        settled=frozenset(name for name in settled if os.path.lexists(root + b"/" + name)),
    )


def excess(untracked: Untracked, limits: Limits) -> str:
    """Why all this is too much for a snapshot; '' when it isn't."""
    total = sum(untracked.files.values())
    if total <= limits.total:
        return ""
    folders: Counter[str] = Counter()
    for name, size in untracked.files.items():
        top, slash, _ = name.partition(b"/")
        folders[file_name(top + slash)] += size
    biggest = ", ".join(f"{name} ({_amount(size)})" for name, size in folders.most_common(_NAMED))
    return (
        f"untracked files add up to {_amount(total)}, more than the {_amount(limits.total)} that a snapshot takes in;"
        f" the biggest: {biggest}"
    )


def survey_of(untracked: Untracked, limits: Limits, *, submodules: Iterable[bytes], absent: int) -> Survey:
    warnings = []
    if untracked.nested:
        warnings.append(f"nested repositories are left out of snapshots: {names_of(untracked.nested)}")
    if untracked.huge:
        sizes = {name: f" ({_amount(size)})" for name, size in untracked.huge.items()}
        warnings.append(f"untracked files over {_amount(limits.file)} are left out of snapshots: {names_of(sizes)}")
    if untracked.closed:
        warnings.append(f"folders that can't be read are left out of snapshots: {names_of(untracked.closed)}")
    if submodules := set(submodules):
        warnings.append(f"of submodules only the commit is kept, not the changes inside: {names_of(submodules)}")
    if absent:
        warnings.append(f"sparse checkout: {absent} files that are not there on purpose count as unchanged")
    refusal = excess(untracked, limits)
    return Survey(tuple(warnings), f"{refusal}; name what is not source in .gitignore" if refusal else "")


def names_of(names: Iterable[bytes] | Mapping[bytes, str]) -> str:
    """The first few names for a message, and how many more there are."""
    notes = names if isinstance(names, Mapping) else dict.fromkeys(names, "")
    shown = [file_name(name) + notes[name] for name in sorted(notes)[:_NAMED]]
    more = len(notes) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _amount(size: int) -> str:
    amount = float(size)
    for unit in _UNITS:
        if amount < _STEP or unit == _UNITS[-1]:
            return f"{amount:.1f}".removesuffix(".0") + f" {unit}"
        amount /= _STEP
    raise AssertionError("the last unit takes any size")
