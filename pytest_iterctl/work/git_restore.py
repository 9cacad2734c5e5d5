"""Puts many files of a git directory back in an order in which no reference is ever missing.

First what is about to be undone gets a name of its own, then loose references, then the packed ones, then what is new
goes. Git and people at work in another terminal see either the old or the new value of each.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from pytest_iterctl.work.git_files import ABSENT, Entry, Place, Recorded, remove, write
from pytest_iterctl.work.git_history import Namespaces, references

__all__ = ["put_files_back"]

_KEPT = b"refs/iterctl/kept/"
_PACKED = b"packed-refs"
_LOCK = b".lock"
_REGULAR = stat.S_IFREG | 0o644
_LOOSE = re.compile(rb"refs/[^\0]+")


def put_files_back(
    place: Place,
    changed: Mapping[bytes, tuple[Entry, Entry]],
    kept: Recorded,
    now: Recorded,
    spaces: Namespaces,
    rescued: Iterable[bytes],
) -> dict[bytes, bool]:
    """Which of the names are what they were; `rescued` are the objects that get a name below `refs/iterctl/kept/`."""
    names = [name for name, (_, seen) in changed.items() if name.endswith(_LOCK) and seen.kind == "file"]
    done = _clear_locks(place, {name: changed[name][1] for name in names}) if names else {}
    # What is in tables can't be read here, so nobody could say which commits would be lost.
    tables = any(b"reftable/" in name for name in changed)
    safe = not tables and all(_give_a_name(place, _KEPT + each, each) for each in rescued)
    writes = {name: pair for name, pair in changed.items() if pair[0].kind in {"file", "link"} and name not in done}
    removals = {name: seen for name, (old, seen) in changed.items() if old.kind == "absent" and name not in done}
    done |= {name: False for name in changed if name not in writes and name not in removals and name not in done}
    if not safe:
        # Better to leave branches as they are than to lose what they lead to.
        frozen = {name for name in changed if _says_where_commits_are(name)}
        done |= dict.fromkeys(frozen, False)
        writes = {name: pair for name, pair in writes.items() if name not in frozen}
        removals = {name: seen for name, seen in removals.items() if name not in frozen}
    done |= _remove(place, {name: removals.pop(name) for name in _in_the_way(writes, removals)})
    carried = _PACKED not in changed or not safe or _carry_over(place, kept, now, spaces)
    for name in sorted(writes, key=_turn):
        done[name] = (name != _PACKED or carried) and write(place, name, *writes[name])
    if not carried:
        removals.pop(_PACKED, None)
    return done | _remove(place, removals)


def _says_where_commits_are(name: bytes) -> bool:
    return name == _PACKED or b"refs/" in name or b"reftable/" in name or name.endswith(b"HEAD")


def _turn(name: bytes) -> tuple[int, bytes]:
    """Settings first, so that git works; packed references after the loose ones, which hide them."""
    if name in {b"config", b"HEAD"}:
        return (0, name)
    return (2 if name == _PACKED else 1, name)


def _in_the_way(writes: Iterable[bytes], removals: Iterable[bytes]) -> list[bytes]:
    """New files in the place of a folder, or in a folder in the place of a file."""
    wanted = set(writes)
    folders = {above for name in wanted for above in _above(name)}
    return [name for name in removals if name in folders or not wanted.isdisjoint(_above(name))]


def _above(name: bytes) -> list[bytes]:
    parts = name.split(b"/")
    return [b"/".join(parts[:end]) for end in range(1, len(parts))]


def _remove(place: Place, removals: Mapping[bytes, Entry]) -> dict[bytes, bool]:
    return {name: seen.kind != "unknown" and remove(place, name, seen) for name, seen in removals.items()}


def _give_a_name(place: Place, name: bytes, value: bytes) -> bool:
    return write(place, name, Entry("file", _REGULAR, value + b"\n"), ABSENT)


def _carry_over(place: Place, kept: Recorded, now: Recorded, spaces: Namespaces) -> bool:
    """References that are not ours to undo, and that are only in the packed file that is about to go."""
    old, new = _packed(kept), _packed(now)
    only_there = {
        name: value
        for name, value in new.items()
        if spaces.is_left_alone(name) and old.get(name) != value and name not in now.entries
    }
    return all(_LOOSE.fullmatch(name) and _give_a_name(place, name, value) for name, value in only_there.items())


def _packed(recorded: Recorded) -> dict[bytes, bytes]:
    return references(Recorded({_PACKED: recorded.entries.get(_PACKED, ABSENT)}))


def _clear_locks(place: Place, locks: Mapping[bytes, Entry]) -> dict[bytes, bool]:
    """Take away the locks of a git that was killed, unless one is at work here."""
    if _is_git_at_work(place):
        return dict.fromkeys(locks, False)
    return {name: remove(place, name, seen) for name, seen in locks.items()}


def _is_git_at_work(place: Place) -> bool:
    """Whether somebody runs git in this repository; other people's processes can't be seen, and hold no lock here."""
    inside = (place.base + b"/", os.path.dirname(place.base) + b"/")  # noqa: PTH120 - names are bytes
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            if (process / "comm").read_bytes().startswith(b"git"):
                at = os.readlink(os.fsencode(process / "cwd")) + b"/"  # noqa: PTH115 - names are bytes
                if at.startswith(inside):
                    return True
        except OSError:
            continue
    return False
