"""Finds what one snapshot has lost against another: files deleted or emptied and lines gone, unless they are elsewhere.

A file is elsewhere when its very content is (the same blob), or when most of its lines are in what was added to other
files. Lines count as gone only where the file also lost bytes, so that a formatter that joins lines loses none. Reading
is left for the few files that shrank; how many lines there were in all is counted only when many are gone.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_iterctl.text import file_name
from pytest_iterctl.work import trees
from pytest_iterctl.work.capture import OWN_FOLDER
from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.trees import SUBMODULE, TreeChange

__all__ = ["FileLoss", "Losses", "losses_between"]

#: Copies of other projects and what programs write: a whole such folder counts as one file without lines.
_BULK = re.compile(
    rb"(?:.*/)?(?:vendor|vendored|_vendor|third_party|node_modules|site-packages|dist|build|generated|__snapshots__"
    rb"|__generated__|fixtures|cassettes)(?=/)"
)
#: A file that kept this share of its bytes lost nothing worth asking for.
_WHOLE = 0.75
#: A file with no more of its lines than this left is empty for everybody's purposes.
_EMPTY = 0.05
#: Most of a file is elsewhere: it was moved.
_MOST = 0.5
_MIN_TELLING = 3
_LARGEST = 4 * 1024**2
_BATCH = 2000
_MANY_LINES = 100


@dataclass(frozen=True, slots=True)
class FileLoss:
    """One tracked file that lost something: `lost` of its `lines`."""

    path: str
    lines: int
    lost: int
    gone: bool
    moved: bool = False


@dataclass(frozen=True, slots=True)
class Losses:
    """What a change took away. `lines`: of all tracked files before it; 0 where so few are gone that nobody asks."""

    files: int
    lines: int
    losses: tuple[FileLoss, ...]


@dataclass(frozen=True, slots=True)
class _Text:
    lines: int
    telling: Counter[bytes]
    size: int


_NOTHING = _Text(0, Counter(), 0)


def losses_between(repository: Repository, old: str, new: str, *, tracked: str = "") -> Losses:
    """`tracked`: the commit whose files count; without it all files of the old snapshot do."""
    before = _listed(repository, old)
    if tracked:
        theirs = _listed(repository, tracked)
        before = {name: blob for name, blob in before.items() if name in theirs}
    changes = [
        change
        for change in trees.changes(repository, old, new)
        if SUBMODULE not in {change.old_mode, change.new_mode} and change.path.partition(b"/")[0] != OWN_FOLDER
    ]
    units = {_unit(name) for name in before}
    shrunk, grown = _by_size(repository, before, changes)
    losses = _measured(repository, before, shrunk, grown) if shrunk else ()
    many = sum(each.lost for each in losses) >= _MANY_LINES
    lines = _count_lines(repository, old, before) if many else 0
    return Losses(len(units), lines, losses)


def _by_size(
    repository: Repository, before: Mapping[bytes, bytes], changes: list[TreeChange]
) -> tuple[list[TreeChange], list[TreeChange]]:
    """The tracked files that lost a good part of their bytes, and those where it may have gone."""
    touched = {change.path for change in changes}
    there = {change.new for change in changes if not change.removes}
    there.update(blob for name, blob in before.items() if name not in touched)
    sizes = _sizes(repository, {blob for change in changes for blob in (change.old, change.new)})
    shrunk, grown = [], []
    for change in changes:
        was, now = sizes.get(change.old, 0), sizes.get(change.new, 0)
        if change.path in before and was and now < was * _WHOLE:
            if change.old not in there:
                shrunk.append(change)
        elif now > was:
            grown.append(change)
    return shrunk, grown


def _measured(
    repository: Repository, before: Mapping[bytes, bytes], shrunk: list[TreeChange], grown: list[TreeChange]
) -> tuple[FileLoss, ...]:
    gained = Counter[bytes]()
    for old, new in _texts(repository, grown):
        gained += new.telling - old.telling
    whole = Counter(_unit(name) for name in before)
    found: list[FileLoss] = []
    bulk = Counter[bytes]()
    for change, (old, new) in zip(shrunk, _texts(repository, shrunk), strict=True):
        unit = _unit(change.path)
        if unit != change.path:
            bulk[unit] += change.removes
            continue
        found.append(_loss(change, old, new, gained))
    found += [FileLoss(file_name(unit), 0, 0, gone=True) for unit, count in bulk.items() if count == whole[unit]]
    return tuple(sorted(found, key=lambda loss: loss.path))


def _loss(change: TreeChange, old: _Text, new: _Text, gained: Counter[bytes]) -> FileLoss:
    removed = old.telling - new.telling
    elsewhere = removed & gained
    gained -= elsewhere
    told = old.telling.total()
    unfound = removed.total() - elsewhere.total()
    # Where no line says anything (a binary file, a column of numbers), its bytes do.
    share = unfound / told if told else 1.0
    shrunk = 1 - new.size / old.size if old.size else 0.0
    lost = min(round(old.lines * share), max(old.lines - new.lines, 0), round(old.lines * shrunk))
    moved = bool(told) and elsewhere.total() >= _MOST * removed.total() > 0
    empty = change.removes or (new.size < old.size * _EMPTY and new.telling.total() <= told * _EMPTY)
    return FileLoss(file_name(change.path), old.lines, max(lost, 0), gone=empty and not moved, moved=moved)


def _unit(name: bytes) -> bytes:
    """What counts as one file: itself, or the outermost folder of things that nobody here wrote."""
    found = _BULK.match(name)
    return found[0] if found else name


def _listed(repository: Repository, tree: str) -> dict[bytes, bytes]:
    output = repository.git("ls-tree", "-r", "-z", "--full-tree", trees.object_name(tree))
    found = {}
    for record in output.split(b"\0")[:-1]:
        facts, _, name = record.partition(b"\t")
        mode, _, blob = facts.split(b" ")
        if mode != SUBMODULE and name.partition(b"/")[0] != OWN_FOLDER:
            found[name] = blob
    return found


def _sizes(repository: Repository, blobs: Iterable[bytes]) -> dict[bytes, int]:
    feed = b"".join(blob + b"\n" for blob in blobs if blob.strip(b"0"))
    if not feed:
        return {}
    lines = repository.git("cat-file", "--batch-check=%(objectname) %(objectsize)", feed=feed).splitlines()
    return {blob: int(size) for blob, size in (line.split(b" ", 1) for line in lines) if size.isdigit()}


def _texts(repository: Repository, changes: list[TreeChange]) -> Iterator[tuple[_Text, _Text]]:
    """Both sides of each change, a bounded number at a time."""
    for start in range(0, len(changes), _BATCH):
        part = changes[start : start + _BATCH]
        blobs = {blob for change in part for blob in (change.old, change.new) if blob.strip(b"0")}
        small = [blob for blob, size in _sizes(repository, blobs).items() if size <= _LARGEST]
        texts = {blob: _text(content) for blob, content in _contents(repository, small)}
        yield from ((texts.get(change.old, _NOTHING), texts.get(change.new, _NOTHING)) for change in part)


def _contents(repository: Repository, blobs: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    output = repository.git("cat-file", "--batch", feed=b"".join(blob + b"\n" for blob in blobs)) if blobs else b""
    at = 0
    for blob in blobs:
        end = output.index(b"\n", at)
        size = int(output[at:end].rpartition(b" ")[2])
        yield blob, output[end + 1 : end + 1 + size]
        at = end + size + 2


def _text(content: bytes) -> _Text:
    if b"\0" in content[:8000]:
        return _Text(0, Counter(), len(content))
    lines = content.split(b"\n")
    told = Counter(line for each in lines if len(line := each.strip()) >= _MIN_TELLING)
    return _Text(len(lines) - (not lines[-1]), told, len(content))


def _count_lines(repository: Repository, tree: str, counted: Mapping[bytes, bytes]) -> int:
    empty = repository.git("hash-object", "-t", "tree", "--stdin", feed=b"").decode("ascii").strip()
    with tempfile.TemporaryDirectory(prefix="iterctl-") as nowhere:
        output = repository.git(
            *("diff-tree", "-r", "-z", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv"),
            *(empty, trees.object_name(tree), "--"),
            index=Path(nowhere, "index"),
            work_tree=Path(nowhere),
        )
    total = 0
    for record in output.split(b"\0"):
        added, _, rest = record.partition(b"\t")
        name = rest.partition(b"\t")[2]
        if name in counted and added != b"-" and _unit(name) == name:
            total += int(added)
    return total
