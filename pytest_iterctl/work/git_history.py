"""Says what became of branches, tags, stash and reflogs between two looks at a git directory: what is honest work, and
what rewrites or loses history.

A commit on top, a new branch, a fetch, a stash that is pushed are honest. History is rewritten where a branch moved to
something that does not contain what it was, and lost where a name is gone. Names in other places than those of git's
own (`refs/codex/…`) are their tools' business.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pytest_iterctl.text import file_name
from pytest_iterctl.work.git_files import Place, Recorded

__all__ = ["Namespaces", "Touched", "commits_in", "head_of", "references", "reflogs_touched", "refs_touched"]

_ID = re.compile(rb"[0-9a-f]{40}|[0-9a-f]{64}")
_PACKED = re.compile(rb"^([0-9a-f]{40,64}) (\S+)$", re.MULTILINE)
_LOG_IDS = re.compile(rb"^([0-9a-f]{40,64}) ([0-9a-f]{40,64}) ", re.MULTILINE)
_LOG_TIME = re.compile(rb"> (\d{1,12}) [-+]\d{4}(?:\t|$)")
_NOTHING = re.compile(rb"0+")
#: What git itself lets expire: entries of a month ago that nothing leads to any more.
_EXPIRING = 30 * 86400
#: Whoever moves more branches than this in one turn has rewritten them; nobody needs to look at each.
_LOOKED_AT = 100
_TOLD = 50


@dataclass(frozen=True, slots=True)
class Touched:
    """One thing of a repository's own that is another than before.

    `destructive` counts against whoever did it; `files` are the names in the git directory that say it.
    """

    what: str
    how: str
    destructive: bool
    undone: bool = False
    files: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Whose references are whose: `own` are the snapshots of this run, `others` are left alone (other tasks')."""

    own: bytes = b"refs/iterctl/"
    others: tuple[bytes, ...] = (b"refs/heads/iterctl/",)

    def is_left_alone(self, name: bytes) -> bool:
        """Whether a reference that is new or has moved is nobody's concern here."""
        ours = name.startswith(b"refs/iterctl/") and not name.startswith(self.own)
        return ours or name.startswith((b"refs/iterctl/kept/", *self.others))

    def is_left_alone_file(self, name: bytes) -> bool:
        return self.is_left_alone(name.removeprefix(b"logs/"))


def references(recorded: Recorded) -> dict[bytes, bytes]:
    """Every reference with what it says: an object, or `ref: ` and another reference."""
    found = {name: value for value, name in _PACKED.findall(recorded.content(b"packed-refs"))}
    for name, entry in recorded.entries.items():
        if name.startswith(b"refs/") and not name.endswith(b".lock"):
            # What is no file is no reference, but it hides the packed one.
            found[name] = (entry.content or b"").strip() if entry.kind == "file" else b""
    return found


def head_of(recorded: Recorded, place: Place) -> tuple[bytes, bytes]:
    """What HEAD says, and the commit that this comes to ('' while there is none)."""
    said = recorded.content(place.own + b"/HEAD" if place.own else b"HEAD").strip()
    seen, value = references(recorded), said
    for _ in range(5):
        if not value.startswith(b"ref:"):
            break
        value = seen.get(value.removeprefix(b"ref:").strip(), b"")
    return said, value if _ID.fullmatch(value) else b""


def commits_in(recorded: Recorded) -> set[bytes]:
    """Every object that a reference, a reflog or a head names."""
    found = {value for value in references(recorded).values() if _ID.fullmatch(value)}
    for name, entry in recorded.entries.items():
        if entry.content is None:
            continue
        if b"logs/" in name and name.startswith((b"logs/", b"worktrees/")):
            for pair in _LOG_IDS.findall(entry.content):
                found.update(pair)
        elif name.rpartition(b"/")[2].endswith(b"HEAD") and not name.startswith((b"refs/", b"modules/")):
            found.update(line[: len(match[0])] for line in entry.content.splitlines() if (match := _ID.match(line)))
    return {each for each in found if not _NOTHING.fullmatch(each)}


def refs_touched(
    before: Recorded,
    after: Recorded,
    spaces: Namespaces,
    *,
    contains: Callable[[bytes, bytes], bool],
) -> list[Touched]:
    """`contains(new, old)`: whether the history of one commit has the other in it."""
    old, new = references(before), references(after)
    packed = (b"packed-refs",) if before.content(b"packed-refs") != after.content(b"packed-refs") else ()
    added: dict[str, list[bytes]] = {}
    told: list[Touched] = []
    moved = 0
    fresh = {value for name, value in new.items() if name not in old and name.startswith(b"refs/heads/")}
    for name in sorted(old.keys() | new.keys()):
        was, now = old.get(name, b""), new.get(name, b"")
        if was == now or (was and now and spaces.is_left_alone(name)) or name == b"refs/stash":
            continue
        files = (name, *packed)
        if not was:
            if spaces.is_left_alone(name) or name.startswith(spaces.own):
                continue
            if name.startswith(b"refs/replace/"):
                told.append(Touched(file_name(name), "replaces an object by another", destructive=True, files=files))
            else:
                added.setdefault(_namespace(name), []).append(name)
        elif not now:
            told.append(_gone(name, was, fresh, spaces, files))
        else:
            moved += 1
            grown = _is_free(name) or (
                name.startswith((b"refs/heads/", b"refs/notes/")) and moved <= _LOOKED_AT and contains(now, was)
            )
            how = f"went on from {_short(was)} to {_short(now)}" if grown else _rewritten(name, was, now)
            told.append(Touched(file_name(name), how, destructive=not grown, files=files))
    for space, names in added.items():
        told.append(Touched(space, f"{len(names)} new", destructive=False, files=(*names, *packed)))
    return _bounded([*told, *_stash(before, after, old, new, packed)])


def reflogs_touched(
    before: Recorded, after: Recorded, gone: frozenset[bytes], spaces: Namespaces, place: Place
) -> list[Touched]:
    """Reflogs only grow. `gone`: references that are told of already, whose logs went with them."""
    told = []
    since = time.time() - _EXPIRING
    for name, entry in before.entries.items():
        log = name.rpartition(b"logs/")[2]
        if b"logs/" not in name or entry.content is None or name.startswith(b"modules/"):
            continue
        if name.startswith(b"worktrees/") and not (place.own and name.startswith(place.own + b"/")):
            continue  # another work tree is told of as a whole
        if log == b"refs/stash" or log in gone or spaces.is_left_alone(log) or _is_free(log):
            continue
        now = after.content(name)
        if now.startswith(entry.content):
            continue
        lost = Counter(entry.content.splitlines()) - Counter(now.splitlines())
        recent = [line for line in lost.elements() if (at := _LOG_TIME.search(line)) is None or int(at[1]) > since]
        if recent:
            how = f"{len(recent)} of its entries are gone"
            told.append(Touched(f"reflog of {file_name(log)}", how, destructive=True, files=(name,)))
    return _bounded(told)


def _gone(name: bytes, was: bytes, fresh: Iterable[bytes], spaces: Namespaces, files: tuple[bytes, ...]) -> Touched:
    what = file_name(name)
    if name.startswith(b"refs/heads/") and was in fresh:
        return Touched(what, "is called otherwise now", destructive=False, files=files)
    theirs = _is_free(name) or (spaces.is_left_alone(name) and not name.startswith(spaces.own))
    return Touched(what, f"was deleted; it was {_short(was)}", destructive=not theirs, files=files)


def _rewritten(name: bytes, was: bytes, now: bytes) -> str:
    if not _ID.fullmatch(now):
        return f"names no object any more; it was {_short(was)}"
    verb = "was moved" if name.startswith(b"refs/tags/") else "was rewritten or moved back"
    return f"{verb} from {_short(was)} to {_short(now)}"


def _is_free(name: bytes) -> bool:
    """Mirrors of another repository, and what other tools keep for themselves."""
    return name.startswith(b"refs/") and not name.startswith(
        (b"refs/heads/", b"refs/tags/", b"refs/stash", b"refs/notes/", b"refs/replace/", b"refs/iterctl/")
    )


def _stash(
    before: Recorded, after: Recorded, old: Mapping[bytes, bytes], new: Mapping[bytes, bytes], packed: tuple[bytes, ...]
) -> list[Touched]:
    entries, later = _stashed(before, old), _stashed(after, new)
    if entries == later:
        return []
    lost = Counter(entries) - Counter(later)
    files = (b"refs/stash", b"logs/refs/stash", *packed)
    if lost:
        how = f"{lost.total()} of {len(entries)} entries are gone"
        return [Touched("stash", how, destructive=True, files=files)]
    return [Touched("stash", f"{len(later) - len(entries)} new entries", destructive=False, files=files)]


def _stashed(recorded: Recorded, refs: Mapping[bytes, bytes]) -> list[bytes]:
    logged = [pair[1] for pair in _LOG_IDS.findall(recorded.content(b"logs/refs/stash"))]
    newest = refs.get(b"refs/stash", b"")
    # Without the reference the log says nothing to git; without the log only the newest is there.
    return [] if not newest else logged if logged and logged[-1] == newest else [newest]


def _namespace(name: bytes) -> str:
    parts = name.split(b"/")
    return file_name(b"/".join(parts[:2]) + b"/")


def _short(value: bytes) -> str:
    return file_name(value[:9]) if _ID.fullmatch(value) else file_name(value)


def _bounded(told: list[Touched]) -> list[Touched]:
    """A turn that deletes thousands of references is told in fewer words."""
    bad = [each for each in told if each.destructive]
    rest = [each for each in told if not each.destructive]
    result = []
    for group in (bad, rest):
        result += group[:_TOLD]
        if more := group[_TOLD:]:
            files = tuple(dict.fromkeys(name for each in more for name in each.files))
            result.append(Touched("references", f"{len(more)} more like these", more[0].destructive, files=files))
    return result
