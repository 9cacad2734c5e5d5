"""Paths of the work tree as they are called in a clean room, and back again for people.

A test run is described in terms of the work tree: arguments, variables, reports. In a room the same files have other
names, and a run that was given the old ones would test the work tree.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

__all__ = ["environment_into_room", "into_room", "out_of_room"]

#: `--junitxml=`, `cache_dir=` and `--override-ini=cache_dir=`: a path may follow.
_OPTION = re.compile(r"(?:(?:-|[A-Za-z_])[\w.-]*=)*")


def into_room(text: str, root: Path, tree: Path) -> str:
    """One argument of a command: a path at or below the root, alone or behind `=`, is the same path below the tree.

    What follows a path, such as `::test_b[/x]`, is no part of it and stays; so does any other text.
    """
    option = _OPTION.match(text)
    start = option.end() if option else 0
    return text[:start] + _mapped(text[start:], _spellings(root), tree)


def environment_into_room(environment: Mapping[str, str], root: Path, tree: Path) -> dict[str, str]:
    """The variables with each path at or below the root, alone or in a list, as it is called in the room.

    Only what exists in the room is mapped: an environment of packages inside the work tree is used where it is.
    """
    spellings = _spellings(root)
    return {name: _mapped_value(name, value, spellings, tree) for name, value in environment.items()}


def out_of_room(text: str, root: Path, tree: Path) -> str:
    """A text for people: wherever the tree's path stands in it, the root's does."""
    spelt = "|".join(map(re.escape, _spellings(tree)))
    # `/room/tree.` may end a sentence; `/room/tree.old` and `/room/trees` are other paths.
    pattern = rf"(?:{spelt})(?![\w-]|\.+[\w-])"
    # A function, because in a template a backslash of a path would mean something.
    return re.sub(pattern, lambda _: str(root), text) if spelt else text


def _mapped(path: str, spellings: tuple[str, ...], tree: Path) -> str:
    for spelling in spellings:
        rest = path.removeprefix(spelling)
        if rest != path and rest[:1] in {"", "/"} and not _climbs_out(rest.partition("::")[0]):
            return str(tree) + rest
    return path


def _climbs_out(rest: str) -> bool:
    """Whether `/../other` follows, which is no path below the root."""
    depth = 0
    for part in rest.split("/"):
        depth += -1 if part == ".." else int(part not in {"", "."})
        if depth < 0:
            return True
    return False


def _mapped_value(name: str, value: str, spellings: tuple[str, ...], tree: Path) -> str:
    if not any(spelling in value for spelling in spellings):
        return value
    whole = _mapped_if_there(value, spellings, tree)
    if whole != value or not _is_list(name, value):
        return whole
    return os.pathsep.join(_mapped_if_there(entry, spellings, tree) for entry in value.split(os.pathsep))


def _mapped_if_there(path: str, spellings: tuple[str, ...], tree: Path) -> str:
    mapped = _mapped(path, spellings, tree)
    try:
        return mapped if mapped != path and Path(mapped).exists() else path
    except OSError:  # longer than any path may be
        return path


def _is_list(name: str, value: str) -> bool:
    """`file:/root/a.db` looks like a list too, so relative entries count only where the name promises paths."""
    return name.upper().endswith("PATH") or all(entry.startswith("/") for entry in value.split(os.pathsep) if entry)


def _spellings(folder: Path) -> tuple[str, ...]:
    """The path as given and as it is without links, the longer first: one may begin with the other."""
    return tuple(sorted({str(folder), os.path.realpath(folder)} - {"/"}, key=lambda each: (-len(each), each)))
