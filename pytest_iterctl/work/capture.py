"""Keeps a private index equal to the work tree, so that a snapshot costs only what changed since the last one.

The first time it starts from a copy of the user's index, which saves reading every file; the user's own index is only
ever read. What git can't hold, or should not, is left out and named: nested repositories, huge untracked files, folders
that can't be read. What was left out of the first snapshot of a run stays left out, whatever an agent does to it,
because a restore must never delete what no snapshot holds.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pytest_iterctl.errors import RepositoryError
from pytest_iterctl.text import file_name
from pytest_iterctl.work.conversions import Conversions
from pytest_iterctl.work.git import Answer, Repository, failure
from pytest_iterctl.work.placing import PARTIAL
from pytest_iterctl.work.untracked import Limits, Untracked, excess, sort_untracked

__all__ = ["OWN_FOLDER", "Captured", "PrivateIndex", "copy_index"]

OWN_FOLDER = b".iterctl"
ATTEMPTS = 4
_SECOND = 10**9
_PLAIN_ENTRIES = (b"H 100", b"H 120")
# What `diff-files` says, with exit code 0, of a file that it may not look at.
_SKIPPED = re.compile(rb"^(?!warning: |hint: )(.+): [^:]+$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Captured:
    """What bringing the index up to date came to.

    Of what was left out, `outdated` are the files that had been captured before they grew too big: their last version
    stays in the index.
    """

    changed: bool
    left_out: frozenset[bytes]
    outdated: frozenset[bytes]


@dataclass(slots=True)
class _Work:
    """What the index needs to become equal to the work tree."""

    present: list[bytes]
    left_out: set[bytes]
    gone: list[bytes] = field(default_factory=list)
    folders: list[bytes] = field(default_factory=list)
    outdated: frozenset[bytes] = frozenset()


class PrivateIndex:
    def __init__(self, repository: Repository, directory: Path, limits: Limits) -> None:
        self.repository = repository
        self.path = directory / "index"
        self.limits = limits
        self.submodules: frozenset[bytes] = frozenset()
        self.absent: set[bytes] = set()
        self._root = os.fsencode(repository.root)
        self._settled = directory / "left-out"
        self._excluded = directory / "excluded"
        self._aside = directory / "set-aside"
        self._unmerged: list[bytes] = []
        self._conversions = Conversions(repository, directory)
        self._converting: Mapping[str, str] = {}
        self._ready = False
        self._stamps: dict[bytes, int] = {}

    def git(self, *arguments: str, feed: bytes | None = None) -> bytes:
        answer = self.ask(*arguments, feed=feed)
        if answer.code != 0:
            raise failure(arguments[0], answer)
        return answer.output

    def ask(self, *arguments: str, feed: bytes | None = None) -> Answer:
        return self.repository.ask(*arguments, index=self.path, feed=feed, variables=self._converting)

    def update(self) -> Captured:
        """Make the index equal to the work tree; a file that changes meanwhile makes it look again."""
        self.prepare()
        answer = Answer(0, b"", b"")
        for _ in range(ATTEMPTS):
            work = self._look()
            self._note_stamps(work.present)
            answer = self._apply(work)
            if answer.code == 0:
                self._settle_left_out(work.left_out)
                return Captured(bool(work.gone or work.present), frozenset(work.left_out), work.outdated)
            self._refuse_unreadable(work.present)
        raise failure("update-index", answer)

    def update_anew(self) -> Captured:
        """The same from nothing, for an index that names objects which are no longer there."""
        self.path.unlink(missing_ok=True)
        self._ready = False
        return self.update()

    def exclude(self, patterns: Iterable[str]) -> None:
        """From now on, leave out untracked files that match one of these patterns of a `.gitignore`."""
        self._excluded.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._excluded.write_bytes(b"".join(os.fsencode(pattern) + b"\0" for pattern in patterns))

    def set_aside(self, names: Iterable[bytes]) -> None:
        """From now on, these untracked files are left alone like ignored ones."""
        known = self._names_aside() | frozenset(names)
        partial = self._aside.with_suffix(".partial")
        partial.write_bytes(b"".join(name + b"\0" for name in sorted(known)))
        partial.replace(self._aside)
        self.forget(names)

    def tracked_by_user(self, names: Iterable[bytes]) -> frozenset[bytes]:
        """Those of the names that the user's own index has."""
        asked = frozenset(names)
        # All that it has: tests may write more names than fit into a command.
        return asked.intersection(self.repository.ask("ls-files", "-z").output.split(b"\0")) if asked else asked

    def forget(self, names: Iterable[bytes]) -> None:
        """Take names out of the index; their files stay where they are."""
        self._feed("--force-remove", names)

    def prepare(self) -> None:
        """Start from the user's index, or from what an interrupted run left here."""
        self._converting = self._conversions.variables()
        if self._ready and self.path.exists():
            return
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.with_name("index.lock").unlink(missing_ok=True)
        if not self.path.exists():
            copy_index(self.repository.git_dir / "index", self.path)
        try:
            entries = self._unusual_entries()
        except RepositoryError:
            # An index of a newer git, or a broken one: what HEAD has is as good a start, only slower.
            self.path.unlink(missing_ok=True)
            if self.repository.head:
                self.git("read-tree", self.repository.head)
            entries = self._unusual_entries()
        self._look_everywhere(entries)
        self._ready = True

    def untracked(self) -> Untracked:
        """What the work tree holds beside the index, sorted by what becomes of it."""
        self.prepare()
        return self._sort_untracked(self._list_untracked())

    def _unusual_entries(self) -> list[tuple[bytes, bytes, bytes]]:
        """Tag, mode and name of each entry that needs care; nearly all don't."""
        found = []
        for record in self.git("ls-files", "-z", "-v", "-s").split(b"\0"):
            if not record or (record.startswith(_PLAIN_ENTRIES) and b"\t.iterctl" not in record):
                continue
            facts, _, name = record.partition(b"\t")
            tag, mode, *_ = facts.split(b" ")
            found.append((tag, mode, name))
        return found

    def _look_everywhere(self, entries: list[tuple[bytes, bytes, bytes]]) -> None:
        """Undo what makes git look away, but only where there is something to look at."""
        assumed = {name for tag, _, name in entries if tag.islower()}
        skipped = {name for tag, _, name in entries if tag.upper() == b"S"}
        self.submodules = frozenset(name for _, mode, name in entries if mode == b"160000")
        self._unmerged = sorted({name for tag, _, name in entries if tag.upper() == b"M"})
        self.absent = skipped
        self._feed("--no-assume-unchanged", (name for name in assumed if self._exists(name)))
        self._notice_appeared()
        self.forget({name for _, _, name in entries if _is_own(name)})

    def _notice_appeared(self) -> None:
        """A file that a sparse checkout does not have, and that is there now, was made by somebody."""
        folders = {os.path.dirname(name) for name in self.absent}  # noqa: PTH120 - names are bytes
        there = {folder for folder in folders if self._exists(folder)}
        appeared = {name for name in self.absent if os.path.dirname(name) in there and self._exists(name)}  # noqa: PTH120 - names are bytes
        self._feed("--no-skip-worktree", appeared)
        self.absent -= appeared

    def _look(self) -> _Work:
        self._notice_appeared()
        self._notice_within_a_second()
        with ThreadPoolExecutor(1) as beside:  # two git processes side by side: each looks at every file or folder
            touched = beside.submit(self._list_touched)
            untracked = self._sort_untracked(self._list_untracked())
        if refusal := excess(untracked, self.limits):
            raise RepositoryError(refusal, hint="name what is not source in .gitignore")
        work = _Work(list(untracked.files), set(untracked.left_out))
        self._sort_tracked(touched.result(), work)
        return self._look_behind(work) if work.folders else work

    def _note_stamps(self, names: Iterable[bytes]) -> None:
        for name in names:
            with suppress(OSError):
                self._stamps[name] = os.lstat(self._root + b"/" + name).st_ctime_ns

    def _notice_within_a_second(self) -> None:
        """Git tells changes apart by the second, and the time of the content can be set back. So a file that was
        captured and then changed in one second is made to be read again, unless its size tells.
        """
        changed, passed = set(), time.time_ns() // _SECOND - 1
        for name, stamp in tuple(self._stamps.items()):
            try:
                now = os.lstat(self._root + b"/" + name).st_ctime_ns
            except OSError:
                now = 0
            if now != stamp and now // _SECOND == stamp // _SECOND:
                changed.add(name)
            if stamp // _SECOND < passed:
                del self._stamps[name]
        if changed:
            entries = self.git("ls-files", "-z", "-s").split(b"\0")
            # An entry that is written without the file's times is one that git has to compare by its content.
            info = (each + b"\0" for each in entries if each.partition(b"\t")[2] in changed)
            self.git("update-index", "-z", "--index-info", feed=b"".join(info))

    def _look_behind(self, work: _Work) -> _Work:
        """As long as a file is in the index, git does not say that the folder in its place is a repository."""
        self.forget(work.folders)
        self._unmerged = [name for name in self._unmerged if name not in work.folders]
        again = self._look()
        again.gone.extend(work.folders)
        return again

    def _list_touched(self) -> Iterable[bytes]:
        """Names in the index whose files are not what was looked at last; the contents may turn out to be the same.

        Twice as fast as `ls-files -m`, which does not look at several files at a time, and it has no need of a
        refreshed index: what only has a new time stamp is hashed once, and then the index knows it.
        """
        arguments = ("diff-files", "-z", "--name-only", "--no-renames", "--ignore-submodules=dirty")
        answer = self.ask(*arguments)
        if answer.code != 0:
            raise failure("diff-files", answer)
        folders: dict[bytes, bool] = {b"": True}
        skipped: list[bytes] = _SKIPPED.findall(answer.complaint)
        for name in skipped:
            # Git looks through a link in the place of a folder, and one that leads to itself has no end.
            if self._status(name, folders) is not None:
                raise _unreadable(name)
        names = dict.fromkeys((*self._unmerged, *answer.output.split(b"\0")[:-1], *skipped))
        return (name for name in names if not _is_own(name))

    def _list_untracked(self) -> Answer:
        more = self._excluded.read_bytes().split(b"\0")[:-1] if self._excluded.exists() else []
        more.append(b"*" + PARTIAL)  # nobody's work
        excluded = (f"--exclude={os.fsdecode(pattern)}" for pattern in more)
        arguments = ("ls-files", "-z", "-o", "--exclude-standard", "--exclude=/.iterctl", *excluded)
        answer = self.ask(*arguments)
        if answer.code != 0:
            raise failure("ls-files", answer)
        return answer

    def _sort_untracked(self, listed: Answer) -> Untracked:
        settled = frozenset(self._settled.read_bytes().split(b"\0")[:-1]) if self._settled.exists() else frozenset()
        aside = self._names_aside()
        names = [name for name in listed.output.split(b"\0")[:-1] if name not in aside]
        return sort_untracked(self._root, names, listed.complaint, settled, self.limits)

    def _names_aside(self) -> frozenset[bytes]:
        return frozenset(self._aside.read_bytes().split(b"\0")[:-1]) if self._aside.exists() else frozenset()

    def _sort_tracked(self, names: Iterable[bytes], work: _Work) -> None:
        folders: dict[bytes, bool] = {b"": True}
        grown = []
        for name in names:
            status = self._status(name, folders)
            mode = 0 if status is None else status.st_mode
            if stat.S_ISDIR(mode) and name not in self.submodules:
                work.folders.append(name)
            elif not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)):
                work.gone.append(name)
            elif status is not None and stat.S_ISREG(mode) and status.st_size > self.limits.file:
                grown.append(name)
            else:
                work.present.append(name)
        if grown:
            of_user = self.tracked_by_user(grown)
            work.present.extend(name for name in grown if name in of_user)
            work.outdated = frozenset(grown) - of_user
            work.left_out |= work.outdated

    def _status(self, name: bytes, folders: dict[bytes, bool]) -> os.stat_result | None:
        """What is there under this name, unless a link on the way leads elsewhere."""
        if not self._is_folder(os.path.dirname(name), folders):  # noqa: PTH120 - names are bytes
            return None
        try:
            return os.lstat(self._root + b"/" + name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unreadable(name) from error

    def _is_folder(self, name: bytes, folders: dict[bytes, bool]) -> bool:
        if name not in folders:
            status = self._status(name, folders)
            folders[name] = status is not None and stat.S_ISDIR(status.st_mode)
        return folders[name]

    def _apply(self, work: _Work) -> Answer:
        self.forget(work.gone)
        if not work.present:
            return Answer(0, b"", b"")
        answer = self.ask(
            *("update-index", "-z", "--add", "--remove", "--replace", "--stdin"),
            feed=b"".join(name + b"\0" for name in work.present),
        )
        if b"Ignoring path " in answer.complaint:
            # Names that git accepts nowhere, such as `git~1`.
            work.left_out |= set(self._list_untracked().output.split(b"\0")).intersection(work.present)
        return answer

    def _settle_left_out(self, names: set[bytes]) -> None:
        if not self._settled.exists():
            partial = self._settled.with_suffix(".partial")
            partial.write_bytes(b"".join(name + b"\0" for name in sorted(names)))
            partial.replace(self._settled)
        self._unmerged = []

    def _refuse_unreadable(self, names: list[bytes]) -> None:
        for name in names:
            path = self._root + b"/" + name
            if self._exists(name) and not stat.S_ISLNK(os.lstat(path).st_mode) and not os.access(path, os.R_OK):
                raise _unreadable(name)

    def _exists(self, name: bytes) -> bool:
        return os.path.lexists(self._root + b"/" + name)

    def _feed(self, option: str, names: Iterable[bytes]) -> None:
        if feed := b"".join(name + b"\0" for name in names):
            self.git("update-index", "-z", option, "--stdin", feed=feed)


def _is_own(name: bytes) -> bool:
    return name == OWN_FOLDER or name.startswith(OWN_FOLDER + b"/")


def _unreadable(name: bytes) -> RepositoryError:
    return RepositoryError(
        f"{file_name(name)} can't be read, so it can't be part of a snapshot",
        hint="make it readable, or name it in .gitignore if it is not source",
    )


def copy_index(source: Path, target: Path) -> bytes:
    """Copy an index with its time: git trusts entries that are older than their index, so it must not look newer."""
    try:
        with source.open("rb") as file:
            status = os.fstat(file.fileno())
            content = file.read()
    except FileNotFoundError:
        return b""
    partial = target.with_suffix(".partial")
    partial.write_bytes(content)
    os.utime(partial, ns=(status.st_atime_ns, status.st_mtime_ns))
    partial.replace(target)
    return content
