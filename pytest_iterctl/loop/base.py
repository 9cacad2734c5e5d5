"""A task's base, kept where no agent works: its files, and what is noted of its runs; read back and checked."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pytest_iterctl.control.evidence import LeftOut, Proof
from pytest_iterctl.control.state import TaskState
from pytest_iterctl.errors import StoreError
from pytest_iterctl.gate.baseline import Baseline, BaselineRun, Place
from pytest_iterctl.gate.globs import matches
from pytest_iterctl.gate.protected import Protection
from pytest_iterctl.gate.watched import Watched
from pytest_iterctl.loop.outside import Outside
from pytest_iterctl.loop.protecting import protection_of
from pytest_iterctl.loop.rooms import Examiner
from pytest_iterctl.loop.testing import Bench, Tested, Tick
from pytest_iterctl.plan.frozen import FrozenTask
from pytest_iterctl.text import file_name
from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.interpreter import Fingerprint
from pytest_iterctl.work.reports import is_loaded
from pytest_iterctl.work.snapshots import Snapshots
from pytest_iterctl.work.trees import SUBMODULE
from pytest_iterctl.work.vault import Kept, Manifest, Stamps, Vault

__all__ = ["Base", "Bases", "Records", "run_of", "write_whole"]

_SHOWN = 50
_LOADED = frozenset(
    {
        *(b"conftest.py", b"sitecustomize.py", b"usercustomize.py"),
        *(b"pytest.ini", b".pytest.ini", b"pytest.toml", b".pytest.toml", b"tox.ini", b"setup.cfg"),
    }
)
_CACHE = re.compile(r"(?:^|/)(?:__pycache__|\.[^/]*cache[^/]*|\.coverage[^/]*|\.hypothesis|\.iterctl)(?:/|$)|\.py[co]$")


@dataclass(frozen=True, slots=True)
class Base:
    """All that is kept of a task's base, read back and checked."""

    manifest: Manifest
    stamps: Stamps
    baseline: Baseline
    suite: Baseline | None
    watched: Watched
    facts: Mapping[str, object]
    fingerprint: Fingerprint | None
    hidden: Manifest
    bytecode: Manifest

    @property
    def written(self) -> frozenset[bytes]:
        """What the tests write by themselves, such as reports: it was so before any agent came."""
        names = self.facts.get("written")
        return frozenset(map(os.fsencode, names)) if isinstance(names, list) else frozenset()

    @property
    def reports(self) -> tuple[str, ...]:
        """The files and folders that the tests were asked to write reports to, below the root."""
        names = self.facts.get("reports")
        return tuple(map(str, names)) if isinstance(names, list) else ()


@dataclass(frozen=True, slots=True)
class Records:
    """What is noted of the base's runs beside their outcomes."""

    wider: Baseline
    watched: Watched
    facts: Mapping[str, object]

    def document(self) -> bytes:
        return json.dumps(
            {
                "suite": json.loads(self.wider.document()),
                "watched": json.loads(self.watched.document()),
                "facts": dict(self.facts),
            },
            sort_keys=True,
        ).encode()

    @classmethod
    def read(cls, path: Path, expected: str) -> Records:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise StoreError(f"what was noted of the base is gone: {path}: {error.strerror}") from None
        if hashlib.sha256(data).hexdigest() != expected:
            raise StoreError(f"what was noted of the base was changed by somebody else: {path}")
        found = json.loads(data)
        watched = Watched.of_document(json.dumps(found["watched"]).encode())
        return cls(Baseline.of_document(json.dumps(found["suite"]).encode()), watched, found["facts"])


class Bases:
    """The bases of one run's tasks, in the run's private folder."""

    def __init__(
        self,
        repository: Repository,
        snapshots: Snapshots,
        private: Path,
        bench: Bench,
        tick: Tick,
        *,
        first_agent: Callable[[], int] = time.time_ns,
    ) -> None:
        self.repository = repository
        self.snapshots = snapshots
        self.private = private
        self.bench = bench
        self.tick = tick
        self.first_agent = first_agent
        self.vault = Vault(private / "vault")
        self._loaded: dict[str, tuple[Proof, Base]] = {}
        self._protections: dict[tuple[str, str, tuple[str, ...]], Protection] = {}

    @property
    def root(self) -> Path:
        return self.repository.root

    def folder(self, task: str) -> Path:
        folder = self.private / "base" / task
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def examiner(
        self, task: str, manifest: Manifest, facts: Mapping[str, object], bytecode: Manifest | None = None
    ) -> Examiner:
        place = self.private / "rooms" / task
        known = bytecode or Manifest()
        installed = () if known.files else self._installed(task)
        return Examiner(
            *(self.bench, self.root, self.vault, place, manifest, facts, known),
            installed=installed,
            first_agent=self.first_agent() if installed else 0,
        )

    def _installed(self, task: str) -> tuple[str, ...]:
        """Where the bytecode of installed modules lay that the first run in the work tree loaded."""
        try:
            found = json.loads((self.folder(task) / "compiled.json").read_bytes())
        except (OSError, ValueError):
            return ()
        return tuple(map(str, found)) if isinstance(found, list) else ()

    def protection(self, task: TaskState, base: Base, may_change: tuple[str, ...]) -> Protection:
        """What is protected; which files the tests read takes a look at all of them, so it is remembered."""
        key = (task.id, task.proof.manifest if task.proof is not None else "", may_change)
        if key not in self._protections:
            self._protections[key] = protection_of(base.manifest, self.vault, task.task, base.facts, may_change)
        return self._protections[key]

    # What is known of the run in the work tree ---------------------------------------------------------------------

    def note_tree_run(self, task: str, tested: Tested, *, since: str = "") -> None:
        """Remember what the tests did in the work tree before any agent, for the baseline.

        `since` is the snapshot before them: what they have written is nobody's change.
        """
        facts = dict(tested.log.interpreter) if tested.log is not None else {}
        if tested.log is not None:
            facts |= {
                "root": tested.log.root,
                "positional": list(tested.log.positional),
                "distributed": tested.log.distributed,
            }
            facts |= self._configuration_above(facts.get("inipath"))
        facts["prefix_below_root"] = os.path.relpath(self.bench.directory, self.root)
        if since:
            facts["written"] = [os.fsdecode(name) for name in self.set_aside(since)]
        facts["reports"] = [
            os.path.relpath(each, self.root) for each in tested.reports if Path(each).is_relative_to(self.root)
        ]
        # A report outside of the tree is the work tree's own run's: none of the gate's may write over it.
        facts["junit_outside"] = any(
            each == (tested.log.junitxml if tested.log is not None else "") and not Path(each).is_relative_to(self.root)
            for each in tested.reports
        )
        document = {"facts": facts, "run": json.loads(Baseline((run_of(tested, "tree"),)).document())}
        write_whole(self.folder(task) / "tree.json", json.dumps(document).encode())
        if tested.log is not None:
            write_whole(self.folder(task) / "compiled.json", json.dumps(tested.log.compiled).encode())

    def set_aside(self, since: str) -> tuple[bytes, ...]:
        """What tests alone have written since a snapshot, and what is no program: from now on no part of the run."""
        return self.snapshots.set_aside_since(since, lambda name: not is_loaded(name))

    def _configuration_above(self, inipath: object) -> dict[str, object]:
        """A pytest configuration that lies above the work tree: in the room it lies above the room."""
        if not isinstance(inipath, str) or not inipath or Path(inipath).is_relative_to(self.root.resolve()):
            return {}
        try:
            content = Path(inipath).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return {}
        return {"above_name": Path(inipath).name, "above_content": content}

    def tree_run(self, task: str) -> tuple[Mapping[str, object], Baseline]:
        try:
            document = json.loads((self.folder(task) / "tree.json").read_bytes())
            return document["facts"], Baseline.of_document(json.dumps(document["run"]).encode())
        except (OSError, ValueError, KeyError):
            return {"prefix_below_root": os.path.relpath(self.bench.directory, self.root)}, Baseline()

    def note_added_tests(self, names: Iterable[bytes]) -> None:
        """Remember test files of an agent's that were accepted: for the next task they are part of the base."""
        known = sorted({*self.added_tests(), *names})
        write_whole(self.private / "added-tests.json", json.dumps([os.fsdecode(name) for name in known]).encode())

    def added_tests(self) -> frozenset[bytes]:
        try:
            found = json.loads((self.private / "added-tests.json").read_bytes())
        except (OSError, ValueError):
            return frozenset()
        return frozenset(map(os.fsencode, found)) if isinstance(found, list) else frozenset()

    # Keeping -------------------------------------------------------------------------------------------------------

    def discard(self) -> None:
        """The copies of the base, once nobody can ask for them any more."""
        self.vault.clear()

    def discard_rooms(self) -> None:
        """What rooms leave behind to be quick: it is made anew from what is kept of the base."""
        shutil.rmtree(self.private / "rooms", ignore_errors=True)

    def is_kept(self, task: TaskState) -> bool:
        return task.proof is None or (self.folder(task.id) / "manifest.jsonl").exists()

    def keep(self, task: TaskState) -> tuple[Manifest, Stamps]:
        folder = self.folder(task.id)
        earlier = task.earlier_proof
        if earlier is not None and (folder / "manifest.jsonl").exists():
            manifest = Manifest.read(folder / "manifest.jsonl", earlier.manifest)
            stamps = Stamps.read(folder / "stamps.jsonl", earlier.stamps)
        elif not any(attempt.turns for attempt in task.attempts):
            manifest, stamps = self.vault.keep_with_stamps(self.root, self._names(task))
        else:
            manifest, stamps = self._from_snapshot(task.base), Stamps()
            if earlier is not None and manifest.digest() != earlier.manifest:
                raise StoreError(
                    f"the base of {task.id} is gone, and its snapshot is not what was kept",
                    hint="start a new run: what this one was judged by can't be had any more",
                )
        if task.edited:
            manifest, stamps = self._with_edits(manifest, stamps, task.edited)
        if earlier is None and not any(attempt.turns for attempt in task.attempts):
            # A file of the base that an agent makes git ignore was not planted either.
            names = sorted(os.fsdecode(name) for name in {*self.ignored(), *filter(_is_hook, manifest.files)})
            write_whole(folder / "ignored.json", json.dumps(names).encode())
            write_whole(folder / "outside.json", self._outside().document())
        stamps.write(folder / "stamps.jsonl")
        manifest.write(folder / "manifest.jsonl")
        return manifest, stamps

    def planted(self, task: str) -> tuple[bytes, ...]:
        """What has appeared since where git does not look, and is loaded all the same by pytest or Python."""
        return tuple(filter(_is_hook, self._newly_ignored(task)))

    def unseen_since(self, task: str) -> tuple[LeftOut, ...]:
        """What else has come or changed that no snapshot holds and that may matter: caches of tools do not."""
        names = (file_name(name) for name in self._newly_ignored(task))
        new = tuple(LeftOut(path=name, reason="is ignored by git") for name in names if not _CACHE.search(name))
        try:
            before = Outside.of_document((self.folder(task) / "outside.json").read_bytes())
        except (OSError, ValueError, LookupError, TypeError):
            return new[:_SHOWN]
        return (*new, *self._outside().since(before))[:_SHOWN]

    def _outside(self) -> Outside:
        ignored = (name for name in self.ignored() if not _CACHE.search(file_name(name)))
        return Outside.seen(self.repository, self.snapshots, ignored)

    def _newly_ignored(self, task: str) -> tuple[bytes, ...]:
        try:
            before = frozenset(map(os.fsencode, json.loads((self.folder(task) / "ignored.json").read_bytes())))
        except (OSError, ValueError, TypeError):
            return ()
        # A folder that was ignored as a whole is named file by file once its rule is refined: all of it was there.
        folders = tuple(name for name in before if name.endswith(b"/"))
        return tuple(sorted(name for name in self.ignored() - before if not name.startswith(folders)))

    def ignored(self) -> frozenset[bytes]:
        """What git ignores, whole folders by their name: nobody sees it when something appears there."""
        listed = self.repository.git("ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory").split(b"\0")
        return frozenset(name for name in listed if name)

    def _names(self, task: TaskState) -> Iterator[bytes]:
        for record in self.repository.git("ls-tree", "-r", "-z", task.base).split(b"\0"):
            facts, _, name = record.partition(b"\t")
            if facts.startswith(SUBMODULE):
                yield from _below(self.root, name)
            elif name:
                yield name
        wanted = task.settings.prepare.files
        if wanted:
            ignored = self.repository.git("ls-files", "-z", "-o", "-i", "--exclude-standard").split(b"\0")
            yield from (n for n in ignored if n and any(matches(glob, os.fsdecode(n)) for glob in wanted))

    def _from_snapshot(self, commit: str) -> Manifest:
        """The base's files from its snapshot, where the work tree no longer holds them."""
        entries = []
        for record in self.repository.git("ls-tree", "-r", "-z", commit).split(b"\0"):
            facts, _, name = record.partition(b"\t")
            mode, kind, oid = (*facts.split(b" "), b"", b"", b"")[:3]
            if kind == b"blob":
                entries.append((name, mode, oid))
        with tempfile.TemporaryDirectory(dir=self.private) as folder:
            tree = Path(folder)
            # The objects themselves: what a filter would make of them is the repository's to say, not the base's.
            for (name, mode, _), data in zip(entries, self._blobs([oid for _, _, oid in entries]), strict=True):
                path = tree / os.fsdecode(name)
                path.parent.mkdir(parents=True, exist_ok=True)
                if mode == b"120000":
                    path.symlink_to(os.fsdecode(data))
                else:
                    path.write_bytes(data)
                    path.chmod(0o755 if mode == b"100755" else 0o644)
            return self.vault.keep(tree, (name for name, _, _ in entries))

    def _blobs(self, oids: list[bytes]) -> Iterator[bytes]:
        answer = self.repository.git("cat-file", "--batch", feed=b"".join(oid + b"\n" for oid in oids))
        at = 0
        for _ in oids:
            head = answer[at : answer.index(b"\n", at)]
            size = int(head.rsplit(b" ", 1)[1])
            start = at + len(head) + 1
            yield answer[start : start + size]
            at = start + size + 1

    def _with_edits(self, manifest: Manifest, stamps: Stamps, edited: Iterable[str]) -> tuple[Manifest, Stamps]:
        """What a person has changed since belongs to the base: it is not the agent's doing."""
        names = [os.fsencode(name) for name in edited]
        fresh, fresh_stamps = self.vault.keep_with_stamps(self.root, names)
        files = {name: kept for name, kept in manifest.files.items() if name not in names} | dict(fresh.files)
        marks = {name: mark for name, mark in stamps.files.items() if name not in names} | dict(fresh_stamps.files)
        return Manifest(MappingProxyType(files)), Stamps(MappingProxyType(marks))

    def hidden(self, task: FrozenTask) -> Manifest:
        """The tests that no agent sees, by where they will lie in the room."""
        files: dict[bytes, Kept] = {}
        for name in task.settings.hidden_tests:
            folder = Path(name)
            if not folder.is_dir():
                raise StoreError(
                    f"hidden_tests: there is no folder {name}", hint="name a folder outside the repository"
                )
            if folder.resolve().is_relative_to(self.root.resolve()):
                raise StoreError(
                    f"hidden_tests: {name} lies in the repository, where the agent sees it",
                    hint="keep it somewhere else",
                )
            names = (os.fsencode(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if path.is_file())
            files |= dict(self.vault.keep(folder, (each for each in names if b"__pycache__" not in each)).files)
        return Manifest(MappingProxyType(files))

    # Reading back --------------------------------------------------------------------------------------------------

    def load(self, task: TaskState) -> Base:
        """The kept base. StoreError if it is not what the journal says it was."""
        proof = task.proof
        if proof is None:
            raise StoreError(f"the base of {task.id} is not kept")
        known = self._loaded.get(task.id)
        if known is not None and known[0] == proof:
            return known[1]
        folder = self.folder(task.id)
        baseline = Baseline.of_document((folder / "baseline.json").read_bytes())
        if baseline.digest() != proof.baseline:
            raise StoreError(f"the baseline of {task.id} was changed by somebody else: {folder}")
        records = Records.read(folder / "records.json", proof.records)
        base = Base(
            manifest=Manifest.read(folder / "manifest.jsonl", proof.manifest),
            stamps=Stamps.read(folder / "stamps.jsonl", proof.stamps),
            baseline=baseline,
            suite=records.wider if records.wider.runs else None,
            watched=records.watched,
            facts=records.facts,
            fingerprint=(
                Fingerprint.read(folder / "interpreter.json", proof.interpreter) if proof.interpreter else None
            ),
            hidden=Manifest.read(folder / "hidden.jsonl", proof.hidden),
            bytecode=Manifest.read(folder / "bytecode.jsonl", proof.bytecode),
        )
        self._loaded[task.id] = (proof, base)
        return base


def _is_hook(name: bytes) -> bool:
    return name.rpartition(b"/")[2] in _LOADED


def run_of(tested: Tested, place: Place) -> BaselineRun:
    return BaselineRun(
        place,
        MappingProxyType(dict(tested.outcomes)),
        MappingProxyType(dict(tested.durations)),
        tested.broken,
        str(tested.suite.outcome),
    )


def _below(root: Path, name: bytes) -> Iterator[bytes]:
    """The files of a submodule or nested repository."""
    top = root / os.fsdecode(name)
    for folder, folders, files in os.walk(top):
        folders[:] = [each for each in folders if each != ".git"]
        for file in files:
            if file != ".git":
                yield os.fsencode(os.path.relpath(Path(folder, file), root))


def write_whole(path: Path, data: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(data)
    partial.replace(path)
