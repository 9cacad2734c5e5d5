"""Decides what each place of the file system is inside a sandbox, and in which order that is mounted.

The most specific path decides. Below everything is the machine's own root, read-only. A read-only hole in a writable
tree is **pinned**: the folders between the two are mounts as well, because a folder that is no mount can be renamed,
and then another one could be put in its place.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from pytest_iterctl.errors import SafetyError, UsageError
from pytest_iterctl.text import file_name

__all__ = ["Access", "Layout", "command_home", "homes", "listening_sockets", "shown"]


class Access(Enum):
    """What a place is to the command."""

    READ = "read-only"
    WRITE = "writable"
    PRIVATE = "private: empty at the beginning, gone at the end"
    HIDDEN = "hidden: an empty folder that takes no file"


#: Where a home that is given as one of these has nothing of its own to hide, and all of the system in it.
_SYSTEM = frozenset(
    map(Path, ("/", "/bin", "/dev", "/etc", "/lib", "/proc", "/sbin", "/sys", "/usr", "/usr/bin", "/var"))
)


@dataclass(slots=True)
class Layout:
    """The places that differ from the root, each by its real path."""

    places: dict[Path, Access] = field(default_factory=dict)
    links: dict[Path, Path] = field(default_factory=dict)
    covered: list[Path] = field(default_factory=list)
    stand_ins: dict[Path, Path] = field(default_factory=dict)

    def make_private(self, folders: Iterable[Path]) -> None:
        """Put an empty folder of the command's own in the place of each of these that exist."""
        for folder in folders:
            real = Path(os.path.realpath(folder))
            if real not in _SYSTEM and _mode(real, stat.S_ISDIR):
                self.places[real] = Access.PRIVATE

    def stand_in(self, folder: Path, other: Path) -> None:
        """Put another folder in the place of a private one. Only what is mounted in it is anybody else's."""
        real = Path(os.path.realpath(folder))
        if self.places.get(real) is Access.PRIVATE:
            self.stand_ins[real] = other

    def hide(self, folders: Iterable[Path]) -> None:
        for folder in folders:
            real = Path(os.path.realpath(folder))
            if _mode(real, stat.S_ISDIR):
                self.places[real] = Access.HIDDEN
            elif _mode(real):
                self.covered.append(real)

    def open(self, path: Path, access: Access) -> None:
        """Show what somebody named. What a sandboxed command could have put there before is not followed."""
        given = Path(os.path.abspath(path))  # noqa: PTH100 - links are looked at below
        if self._is_in_commands_hands(given):
            return
        real = Path(os.path.realpath(given))
        if not _mode(real):
            raise UsageError(f"{shown(given)} is named for the sandbox, and does not exist", hint="make it, or drop it")
        if real in _SYSTEM or any(place.is_relative_to(real) for place in self._of(Access.PRIVATE)):
            raise SafetyError(
                f"{shown(real)} can't be {access.value} in a sandbox: the user's home, /tmp or the system lies in it",
                hint="name the folders in it that are needed",
            )
        if self.places.get(real) is Access.HIDDEN:
            raise SafetyError(
                f"{shown(real)} is hidden from a sandbox, and can't be {access.value} in it",
                hint="name the folder in it that is needed",
            )
        if self.places.get(real) is not Access.WRITE:
            self.places[real] = access
        alias = Path(os.path.realpath(given.parent)) / given.name
        if alias != real and self.at(alias) is Access.PRIVATE:
            self.links[alias] = real

    def protect(self, path: Path) -> None:
        """Make it read-only for good, wherever it lies; what was to be writable in it is a contradiction."""
        real = Path(os.path.realpath(path))
        if any(place == real or place.is_relative_to(real) for place in self._of(Access.WRITE)):
            raise SafetyError(
                f"{shown(real)} is protected, and something in it is to be writable",
                hint="git's own files stay as they are in a sandbox; put what is to be written elsewhere",
            )
        self.places[real] = Access.READ

    def at(self, path: Path) -> Access:
        """What this real path is inside."""
        return next((self.places[place] for place in (path, *path.parents) if place in self.places), Access.READ)

    def shows(self, path: Path) -> bool:
        """Whether the file that is at this real path outside can be seen inside."""
        return self.at(path) in {Access.READ, Access.WRITE}

    def cover(self, sockets: Iterable[Path]) -> None:
        """Put nothing in the place of sockets: a read-only file system does not keep anybody from connecting."""
        for path in sockets:
            real = Path(os.path.realpath(path))
            if real not in self.places and self.shows(real) and _mode(real, stat.S_ISSOCK):
                self.covered.append(real)

    def arguments(self) -> Iterator[str]:
        """The mounts for bubblewrap, each before those that lie in it."""
        mounts = self.places | {pin: Access.WRITE for place in self.places for pin in self._pins(place)}
        for path in sorted(mounts, key=lambda path: (len(path.parts), path)):
            name = str(path)
            match mounts[path]:
                case Access.WRITE:
                    yield from ("--bind", name, name)
                case Access.READ:
                    yield from ("--ro-bind", name, name)
                case Access.PRIVATE if path in self.stand_ins:
                    self._clear_the_way(path, mounts)
                    yield from ("--bind", str(self.stand_ins[path]), name)
                case Access.PRIVATE:
                    yield from ("--perms", "1777" if path.stat().st_mode & stat.S_ISVTX else "0700", "--tmpfs", name)
                case Access.HIDDEN:
                    yield from ("--tmpfs", name)
        for alias, real in self.links.items():
            if self.at(alias) is not Access.PRIVATE:  # something around it was shown later
                continue
            yield from ("--symlink", str(real), str(alias))
        for path in dict.fromkeys(self.covered):
            if self.shows(path):
                yield from ("--ro-bind", "/dev/null", str(path))
        for path in self._of(Access.HIDDEN):
            yield from ("--remount-ro", str(path))

    def _clear_the_way(self, path: Path, mounts: Iterable[Path]) -> None:
        """Take away links that a command has left where something will be mounted: bubblewrap would follow them."""
        for place in (*mounts, *self.links):
            if path in place.parents:
                way = self.stand_ins[path]
                for part in place.relative_to(path).parts:
                    way /= part
                    if way.is_symlink() or (way.exists() and not way.is_dir() and way.stat().st_size):
                        way.unlink()

    def _pins(self, path: Path) -> Iterator[Path]:
        """The folders between a hole and the writable tree that it is in."""
        if self.places[path] is Access.WRITE:
            return
        between: list[Path] = []
        for parent in path.parents:
            if parent in self.places:
                yield from between if self.places[parent] is Access.WRITE else ()
                return
            between.append(parent)

    def _of(self, access: Access) -> list[Path]:
        return [path for path, its in self.places.items() if its is access]

    def _is_in_commands_hands(self, given: Path) -> bool:
        """Whether the path leads through a writable place: it needs no mount, and its links may be an agent's."""
        ways = {Path(os.path.realpath(part)) for part in (given, *given.parents)}
        ways |= {Path(os.path.realpath(part.parent)) / part.name for part in (given, *given.parents) if part.name}
        return any(way != place and way.is_relative_to(place) for way in ways for place in self._of(Access.WRITE))


def listening_sockets() -> Iterator[Path]:
    """The sockets in the file system that anybody on this machine listens at, as the kernel lists them.

    It lists them by the name that they were bound with. One that is relative is looked for from where processes are.
    """
    try:
        lines = Path("/proc/net/unix").read_bytes().splitlines()[1:]
    except OSError:
        return
    fields = [line.split(maxsplit=7) for line in lines]
    names = {os.fsdecode(words[7]) for words in fields if len(words) > 7 and words[7][:1] != b"@"}  # noqa: PLR2004
    absolute = {name for name in names if name.startswith("/")}
    yield from map(Path, sorted(absolute))
    if relative := sorted(names - absolute):
        for folder in _working_folders():
            yield from (folder / name for name in relative)


def _working_folders() -> set[Path]:
    found = set()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):  # it ended, or is another user's
                found.add((process / "cwd").readlink())
    return found


def _mode(path: Path, kind: Callable[[int], bool] = bool) -> bool:
    """Whether it is there and of this kind; what can't be looked at counts as not there."""
    try:
        return kind(path.lstat().st_mode)
    except OSError:
        return False


def shown(path: Path) -> str:
    """A path for a message: whatever its bytes are, one harmless line."""
    return file_name(os.fsencode(path))


def command_home(environment: Mapping[str, str], account: str) -> str:
    return next((home for home in (environment.get("HOME", ""), account) if home.startswith("/")), "/")


def homes(environment: Mapping[str, str], account: str) -> list[Path]:
    """Whatever is somebody's home: that of the command, of the driver, of the account, and all of /home and /root."""
    named = (environment.get("HOME", ""), os.environ.get("HOME", ""), account)
    return [Path("/home"), Path("/root"), *(Path(home) for home in named if home.startswith("/"))]
