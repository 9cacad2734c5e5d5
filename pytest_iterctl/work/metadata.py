"""Sees what an agent does to a repository's own files, and undoes it: settings, hooks, HEAD, branches, tags, index,
stash and reflogs end as the user left them, byte for byte.

Nothing here runs git with the repository's settings, since those may be hostile by then: objects are read through a
repository of our own. No commit is lost: what is undone stays reachable below `refs/iterctl/kept/`. Objects are kept by
hard links, so that even a removed `.git` comes back; what other tools keep in there does not. Where references are kept
in tables (`extensions.refStorage = reftable`), they are neither judged nor put back.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from pytest_iterctl.errors import RepositoryError, StoreError
from pytest_iterctl.text import file_name
from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.git_files import ABSENT, Entry, Folder, Place, Recorded, differing, look, read
from pytest_iterctl.work.git_folders import (
    bring_back,
    drop_work_trees,
    folders_touched,
    is_below,
    make_folders,
    out_of_order,
)
from pytest_iterctl.work.git_history import (
    Namespaces,
    Touched,
    commits_in,
    head_of,
    references,
    reflogs_touched,
    refs_touched,
)
from pytest_iterctl.work.git_objects import ObjectCopy, ask_alone, open_objects
from pytest_iterctl.work.git_restore import put_files_back
from pytest_iterctl.work.git_settings import settings_in
from pytest_iterctl.work.git_touches import others_touched

__all__ = ["Comparison", "Metadata", "Touched"]

_DOT = b".git"
_ALTERNATES = (b"objects/info/alternates", b"objects/info/http-alternates")
_WORK_TREES = b"worktrees/"
_DEEPEST = 20
_WRITTEN_BY_HAND = (b"config", b"hooks/", b"info/", b"modules/")
_COPIES = 1000
_LARGEST_COPY = 1024**2


@dataclass(frozen=True, slots=True)
class Comparison:
    """What `put_back` needs to know: it undoes only what was seen here."""

    touched: tuple[Touched, ...]
    now: Recorded
    dot: Entry

    @property
    def destructive(self) -> tuple[Touched, ...]:
        return tuple(each for each in self.touched if each.destructive)


class Metadata:
    """One per run and work tree; `folder` is private to it.

    `own`: where this run's snapshots are. `others`: references that others may move meanwhile, such as the results of
    tasks in other work trees.
    """

    def __init__(
        self,
        repository: Repository,
        folder: Path,
        *,
        own: str = "refs/iterctl/",
        others: tuple[str, ...] = ("refs/heads/iterctl/",),
    ) -> None:
        self.repository = repository
        self.folder = folder.absolute()
        self._place = Place.of(repository.git_dir, repository.common_dir)
        self._spaces = Namespaces(os.fsencode(own), tuple(os.fsencode(each) for each in others))
        self._objects = ObjectCopy(repository.common_dir / "objects", self.folder / "objects")
        self._dot_path = os.fsencode(repository.root) + b"/" + _DOT
        self._kept = Recorded()
        self._dot = ABSENT
        self._digest = ""

    @property
    def problem(self) -> str:
        """Why the objects could not be kept safe, '' when they are."""
        return self._objects.problem

    def keep(self) -> str:
        """Record everything as it is now; the digest of the record, for the journal."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = look(self._place, self._kept)
        dot = self._look_at_dot()
        if not (self._digest and _same(found, self._kept) and dot.equals(self._dot)):
            self._digest = _write(self.folder / "kept", self._place, found, dot)
        self._kept, self._dot = found, dot
        self._objects.keep()
        return self._digest

    def load(self, digest: str) -> None:
        """Go on from what was recorded before a crash; StoreError if it is another record.

        RepositoryError if git finds another git directory by now: what was recorded must not be put over that one.
        """
        place, self._kept, self._dot = _load(self.folder / "kept", digest)
        if place != self._place:
            was, now = (file_name(each.path(each.own)) for each in (place, self._place))
            raise RepositoryError(
                f"{file_name(self._dot_path)} leads to {now} since the turn that was cut off, and led to {was} before",
                hint=f"put things back, such as with: rm .git && mv {now} {was}; then go on",
            )
        self._digest = digest

    def compare(self) -> Comparison:
        """What is another than it was recorded; reads only."""
        now, dot = self._look(), self._look_at_dot()
        lost = self._objects.lost()
        changed = self._changed(now)
        odd = out_of_order(self._place, self._kept, now)
        replaced = self._kept.identity[1] != now.identity[1]  # a disk may be another device after a restart
        if not changed and not lost and not replaced and not odd and dot.equals(self._dot):
            return Comparison((), now, dot)
        told = folders_touched(self._place, self._kept, odd)
        if replaced and odd.get(b"", ...) is not None:
            how = "is gone" if not now.identity[1] else "is another repository now"
            told.insert(0, Touched(_DOT.decode(), how, destructive=True, files=tuple(changed)))
        elif not replaced:
            told += self._sort(changed, now, () if b"objects" in odd else self._missing(lost, changed))
        if not dot.equals(self._dot) and not replaced:
            told.insert(0, Touched(_DOT.decode(), "leads to another repository now", destructive=True))
        return Comparison(tuple(told), now, dot)

    def newest(self, seen: Comparison) -> int:
        """When the latest of these changes was made, in nanoseconds: by the time that nobody can set back."""
        found = [0]
        for name, (_, entry) in self._changed(seen.now).items():
            found.append(entry.stamp[2] or _changed_last(self._place.path(name)))
        found += [_changed_last(self._place.path(name)) for name in out_of_order(self._place, self._kept, seen.now)]
        if not seen.dot.equals(self._dot):
            found.append(seen.dot.stamp[2] or _changed_last(self._dot_path))
        return max(found)

    def put_back(self, seen: Comparison) -> tuple[Touched, ...]:
        """Make everything that is the user's what it was. What has changed once more since then is left and told."""
        if not seen.touched:
            return ()
        whole = self._put_dot_back(seen.dot)
        now, done = self._bring_folders_back(seen.now)
        whole = make_folders(self._place, self._kept) and whole
        changed = self._changed(now)
        # What is borrowed from elsewhere is no longer there afterwards, so it must not hide what is lost.
        borrowed = {name: pair for name, pair in changed.items() if name in _ALTERNATES}
        done |= put_files_back(self._place, borrowed, self._kept, now, self._spaces, ())
        whole = self._put_objects_back() and whole
        self._keep_a_copy(changed)
        rescued = self._rescued(now)
        done |= put_files_back(self._place, changed, self._kept, now, self._spaces, rescued)
        done |= drop_work_trees(self._place, self._kept, now)
        done |= self._bring_folders_back(self._look())[1]  # those that had to be made anew have the usual permissions
        return tuple(replace(each, undone=self._is_undone(each, done, whole=whole)) for each in seen.touched)

    def _look(self) -> Recorded:
        """What is there now. What can't be seen yet, or is at work in another work tree, is taken as it was."""
        found = look(self._place, self._kept)
        odd = out_of_order(self._place, self._kept, found)
        theirs = {
            name
            for name in self._kept.folders.keys() & found.folders.keys()
            if name.startswith(_WORK_TREES) and name.count(b"/") == 1 and name != self._place.own
        }
        if not odd and not theirs:
            return found
        entries = {name: entry for name, entry in found.entries.items() if not is_below(name, theirs)}
        for name, entry in self._kept.entries.items():
            if is_below(name, theirs) or (is_below(name, odd) and name not in entries):
                entries[name] = entry
        for name in odd:
            entries.pop(name, None)
        return replace(found, entries=MappingProxyType(entries))

    def _bring_folders_back(self, now: Recorded) -> tuple[Recorded, dict[bytes, bool]]:
        """What is there when all folders are again what they were, and which of them are not."""
        done: dict[bytes, bool] = {}
        for _ in range(_DEEPEST):
            odd = [name for name in out_of_order(self._place, self._kept, now) if name not in done]
            if not odd:
                break
            done |= {name: bring_back(self._place, name, self._kept.folders.get(name)) for name in odd}
            now = self._look()
        return now, done

    def _missing(self, lost: tuple[bytes, ...], changed: Container[bytes]) -> tuple[bytes, ...]:
        """Lost files with objects that are nowhere else in the repository; none counts as there by being borrowed."""
        if not lost or any(name in changed for name in _ALTERNATES):
            return lost
        return self._objects.missing(lost, self._open(copy=False))

    def _put_objects_back(self) -> bool:
        """Looked at once more, now that no link and nothing borrowed is in the way; whether nothing is missing."""
        missing = self._missing(self._objects.lost(), ())
        return not missing or (self._objects.put_back(missing) and not self._is_cut())

    def _changed(self, now: Recorded) -> dict[bytes, tuple[Entry, Entry]]:
        """What differs and is anybody's concern: not what others move, nor how a new submodule is set up."""
        found = {}
        for name, seen in differing(self._kept, now).items():
            module, _, hook = name.partition(b"/hooks/")
            module = module.removesuffix(b"/config").partition(b"/info/")[0]
            is_new = name.startswith(b"modules/") and module + b"/config" not in self._kept.entries
            if not self._spaces.is_left_alone_file(name) and not (is_new and (not hook or hook.endswith(b".sample"))):
                found[name] = seen
        return found

    def _keep_a_copy(self, changed: Mapping[bytes, tuple[Entry, Entry]]) -> None:
        """Settings and hooks that are undone, for a person whose own they were: commits have their own names."""
        folder = self.folder / "undone"
        folder.mkdir(mode=0o700, exist_ok=True)
        for name, (_, seen) in list(changed.items())[:_COPIES]:
            inner = name.removeprefix(self._place.own + b"/")
            if seen.kind == "file" and seen.content and inner.startswith(_WRITTEN_BY_HAND):
                digest = hashlib.sha256(name + seen.content).hexdigest()[:16]
                (folder / f"{digest}-{Path(os.fsdecode(name)).name}").write_bytes(seen.content[:_LARGEST_COPY])

    def _is_undone(self, touched: Touched, done: Mapping[bytes, bool], *, whole: bool) -> bool:
        depends_on_objects = touched.what in {"objects", _DOT.decode()}
        return all(done.get(name, True) for name in touched.files) and (whole or not depends_on_objects)

    def _sort(
        self, changed: Mapping[bytes, tuple[Entry, Entry]], now: Recorded, missing: tuple[bytes, ...]
    ) -> list[Touched]:
        told = []
        contains = self._contains()
        refs = refs_touched(self._kept, now, self._spaces, contains=contains)
        _, was = head_of(self._kept, self._place)
        _, commit = head_of(now, self._place)
        moved_on = bool(was and commit and was != commit) and contains(commit, was)
        if missing:
            needed = self._objects.is_overwritten(missing) or self._is_cut()
            how = f"{len(missing)} files of objects are gone" + (" that branches need" if needed else ", unused ones")
            told.append(Touched("objects", how, destructive=needed))
        of_refs = {name for name in changed if _is_of_refs(name, self._place)}
        rest = {name: seen for name, seen in changed.items() if name not in of_refs}
        told += others_touched(rest, self._place, self._settings, moved_on=moved_on)
        gone = frozenset(references(self._kept).keys() - references(now).keys())
        told += refs
        told += reflogs_touched(self._kept, now, gone, self._spaces, self._place)
        unsaid = of_refs.difference(*(each.files for each in told))
        if unsaid:
            told.append(Touched("references and reflogs", "went on", destructive=False, files=tuple(sorted(unsaid))))
        return told

    def _contains(self) -> Callable[[bytes, bytes], bool]:
        opened: list[Repository] = []

        def contains(new: bytes, old: bytes) -> bool:
            if not opened:
                opened.append(self._open(copy=True))
            names = (old.decode("ascii", "replace"), new.decode("ascii", "replace"))
            if not all(name.isalnum() for name in names):
                return False
            return ask_alone(opened[0], "merge-base", "--is-ancestor", *names).code == 0

        return contains

    def _is_cut(self) -> bool:
        """Whether something is missing from what the references named."""
        tips = {*references(self._kept).values(), head_of(self._kept, self._place)[1]}
        named = [tip for tip in sorted(tips) if tip and not tip.startswith(b"ref:")]
        return not self._reaches_all(self._open(copy=False), named)

    def _reaches_all(self, repository: Repository, tips: Iterable[bytes]) -> bool:
        if b"promisor" in self._kept.content(b"config").lower():
            return True  # a partial clone misses most objects anyway
        feed = b"".join(tip + b"\n" for tip in tips)
        return ask_alone(repository, "rev-list", "--objects", "--quiet", "--stdin", feed=feed).code == 0

    def _rescued(self, now: Recorded) -> tuple[bytes, ...]:
        """The commits that only what is about to be undone leads to; those that have all others in their history."""
        known = commits_in(self._kept)
        candidates = commits_in(now) - known
        alone = {value for name, value in references(now).items() if self._spaces.is_left_alone(name)}
        if not candidates - alone:
            return ()
        repository = self._open(copy=True)
        feed = b"".join(each + b"\n" for each in sorted(candidates - alone))
        typed = ask_alone(repository, "cat-file", "--batch-check=%(objectname) %(objecttype)", feed=feed).output
        kinds = dict(line.split(b" ", 1) for line in typed.splitlines())
        commits = [each for each, kind in kinds.items() if kind == b"commit"]
        feed = b"".join(each + b"\n" for each in commits) + b"".join(b"^" + each + b"\n" for each in known | alone)
        listed = ask_alone(repository, "rev-list", "--parents", "--ignore-missing", "--stdin", feed=feed).output
        rows = [line.split(b" ") for line in listed.splitlines()]
        parents = {parent for _, *above in rows for parent in above}
        tips = [row[0] for row in rows if row[0] not in parents]
        # What leads to objects that were taken away with the folder that they were in would only break the repository.
        tips = (
            tips
            if self._reaches_all(repository, tips)
            else [each for each in tips if self._reaches_all(repository, [each])]
        )
        return (*tips, *(each for each, kind in kinds.items() if kind in {b"tag", b"tree", b"blob"}))

    def _settings(self, content: bytes) -> Mapping[str, tuple[str, ...]] | None:
        return settings_in(self._open(copy=False), content, self.folder / "settings")

    def _open(self, *, copy: bool) -> Repository:
        objects = self._objects.objects
        borrowed = self._kept.content(b"objects/info/alternates").splitlines()
        sources = [objects, *(objects / os.fsdecode(line) for line in borrowed if line and not line.startswith(b"#"))]
        if copy:
            sources.append(self._objects.folder)
        hash_name = "sha256" if b"sha256" in self._kept.content(b"config").lower() else "sha1"
        return open_objects(
            self.folder / ("whole" if copy else "present"),
            sources,
            hash_name=hash_name,
            shallow=self._kept.content(b"shallow"),
        )

    def _look_at_dot(self) -> Entry:
        """What is called `.git` in the work tree, where that is not the git directory itself."""
        found = read(self._dot_path)
        return ABSENT if stat.S_ISDIR(found.mode) else found

    def _put_dot_back(self, dot: Entry) -> bool:
        """The git directory is reached as it was."""
        try:
            return dot.equals(self._dot) or self._dot.content is None or _put_dot_back(self._dot_path, self._dot)
        except OSError:
            return False


def _is_of_refs(name: bytes, place: Place) -> bool:
    inner = name.removeprefix(place.own + b"/") if place.own else name
    return inner == b"packed-refs" or (inner.startswith((b"refs/", b"logs/")) and not inner.endswith(b".lock"))


def _changed_last(path: bytes) -> int:
    """Of what is there no longer, the folder that it was in knows."""
    while len(path) > 1:
        try:
            return os.lstat(path).st_ctime_ns
        except OSError:
            path = os.path.dirname(path)  # noqa: PTH120 - names are bytes
    return 0


def _same(one: Recorded, other: Recorded) -> bool:
    return one.identity == other.identity and one.folders == other.folders and not differing(one, other)


def _put_dot_back(path: bytes, kept: Entry) -> bool:
    now = read(path)
    if stat.S_ISDIR(now.mode):
        return False  # a whole repository that somebody made there; nobody's to remove
    if now.kind != "absent":
        os.unlink(path)  # noqa: PTH108 - names are bytes
    if kept.kind == "link":
        os.symlink(kept.content or b"", path)  # noqa: PTH211 - names are bytes
    else:
        Path(os.fsdecode(path)).write_bytes(kept.content or b"")
    return True


def _write(path: Path, place: Place, found: Recorded, dot: Entry) -> str:
    rows = []
    parts = []
    for name, entry in ((_DOT, dot), *found.entries.items()):
        length = -1 if entry.content is None else len(entry.content)
        rows.append([os.fsdecode(name), entry.kind, entry.mode, *entry.stamp, length])
        parts.append(entry.content or b"")
    folders = [[os.fsdecode(name), folder.mode, folder.number] for name, folder in found.folders.items()]
    where = [os.fsdecode(place.base), os.fsdecode(place.own)]
    head = json.dumps([where, found.at, *found.identity, rows, folders]).encode("ascii") + b"\n"
    data = head + b"".join(parts)
    partial = path.with_suffix(".partial")
    partial.write_bytes(data)
    partial.replace(path)
    return hashlib.sha256(data).hexdigest()


def _load(path: Path, digest: str) -> tuple[Place, Recorded, Entry]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(f"what was recorded of .git can't be read: {path}: {error.strerror}") from None
    if hashlib.sha256(data).hexdigest() != digest:
        raise StoreError(f"what was recorded of .git was changed by somebody else: {path}")
    head, _, contents = data.partition(b"\n")
    where, at, device, inode, rows, listed = json.loads(head)
    entries = {}
    start = 0
    for name, kind, mode, size, written, changed, number, length in rows:
        content = None if length < 0 else contents[start : start + length]
        start += max(length, 0)
        entries[os.fsencode(name)] = Entry(kind, mode, content, (size, written, changed, number))
    dot = entries.pop(_DOT)
    folders = {os.fsencode(name): Folder(mode, number) for name, mode, number in listed}
    found = Recorded(MappingProxyType(entries), at, (device, inode), MappingProxyType(folders))
    return Place(*map(os.fsencode, where)), found, dot
