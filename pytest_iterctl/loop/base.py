"""A task's base: its files kept where no agent works, its tests run a few times, and the clean room tried on it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from pytest_iterctl.control.evidence import Outcome, Proof, SuiteEvidence
from pytest_iterctl.control.limits import Allowance
from pytest_iterctl.control.state import TaskState
from pytest_iterctl.errors import StoreError
from pytest_iterctl.gate.baseline import Baseline, BaselineRun, Place, named
from pytest_iterctl.gate.globs import matches
from pytest_iterctl.gate.protected import Protection, PytestFacts
from pytest_iterctl.gate.watched import Watched
from pytest_iterctl.loop.rooms import Exam, Examined, Examiner
from pytest_iterctl.loop.testing import Bench, Tested, Tick
from pytest_iterctl.plan.frozen import FrozenTask
from pytest_iterctl.text import file_name, one_line
from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.interpreter import Fingerprint, installed_folders, take
from pytest_iterctl.work.snapshots import Snapshots
from pytest_iterctl.work.trees import SUBMODULE
from pytest_iterctl.work.vault import Kept, Manifest, Stamps, Vault

__all__ = ["Base", "Bases", "excused", "own_suite"]

_SHOWN = 50
_LOADED = frozenset(
    {
        *(b"conftest.py", b"sitecustomize.py", b"usercustomize.py"),
        *(b"pytest.ini", b".pytest.ini", b"pytest.toml", b".pytest.toml", b"tox.ini", b"setup.cfg"),
    }
)
_SYNTAX = frozenset({"SyntaxError", "IndentationError", "TabError"})
_MOST_RUNS = 4  # in the room, to find out why two runs differ
_CONTINUE = "--continue-on-collection-errors"
_NO_VERDICT = {Outcome.TIMED_OUT, Outcome.CRASHED, Outcome.INTERRUPTED, Outcome.NO_REPORT, Outcome.INCOMPLETE}
_PROGRAMS = frozenset({".py", ".js", ".ts", ".mjs", ".cjs", ".jsx", ".tsx", ".rb", ".go", ".json", ".sh", ".php"})
_MISSING_FILE = re.compile(r"No such file or directory: '([^'\n]+)'")
_MISSING_MODULE = re.compile(r"No module named '([\w.]+)'")


def own_suite(task: FrozenTask) -> tuple[str, ...] | None:
    """The wider suite that the task must not make worse; for a task that a marker declares, all the other tests."""
    if task.test is not None:
        return None
    if task.settings.suite is not None:
        return task.settings.suite
    return task.tests if task.marker is not None else None


def excused(suite: SuiteEvidence, flaky: frozenset[str]) -> SuiteEvidence:
    """A run that failed only where the tests were flaky before the agent came counts as passed, and says so."""
    if suite.outcome is not Outcome.FAILED or not suite.failing or not flaky.issuperset(suite.failing):
        return suite
    if suite.counts.passed == 0:
        return suite
    told = f"{suite.reason}; flaky before: {named(suite.failing)}"
    return suite.model_copy(
        update={
            "outcome": Outcome.PASSED,
            "reason": one_line(told, 300),
            "failures": (),
            "failing": (),
            "excused": suite.failing,
        }
    )


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


def protection_of(
    manifest: Manifest, vault: Vault, task: FrozenTask, facts: Mapping[str, object], may_change: tuple[str, ...]
) -> Protection:
    files = {os.fsdecode(name): kept for name, kept in manifest.files.items()}
    # What the room needs beyond git's files is the base's, since nobody would see an edit of it.
    protect = (*task.settings.prepare.files, *task.settings.protect)

    def protection(sources: Mapping[str, bytes], may_change: tuple[str, ...]) -> Protection:
        if task.test is not None:
            return Protection.for_command(
                files,
                command=task.test.command,
                junit=task.test.junit,
                protect=protect,
                may_change=may_change,
                sources=sources,
            )
        return Protection.of(
            files,
            config=PytestFacts.of(facts),
            protect=protect,
            may_change=may_change,
            test_roots=_roots(facts),
            sources=sources,
        )

    # What the tests read is known from the tests themselves, so these are looked for first.
    rough = protection({}, ())
    wanted = (path for path in files if rough.is_protected(path) or path == "package.json")
    sources = {path: vault.content(files[path]) for path in wanted if files[path].kind != "link" and _is_read(path)}
    return protection(sources, may_change)


def _is_read(path: str) -> bool:
    """Whether the tests in this file are programs whose texts may name the files that they read."""
    return Path(path).suffix in _PROGRAMS


def _roots(facts: Mapping[str, object]) -> tuple[str, ...]:
    """The path arguments of pytest, seen from the repository's root."""
    given, prefix = facts.get("positional"), facts.get("prefix_below_root")
    start = prefix if isinstance(prefix, str) else "."
    words = [word for word in given if isinstance(word, str)] if isinstance(given, list) else []
    return tuple(os.path.normpath(os.path.join(start, word)) for word in words)  # noqa: PTH118 - node ids are no paths


class Bases:
    """The bases of one run's tasks, in the run's private folder."""

    def __init__(self, repository: Repository, snapshots: Snapshots, private: Path, bench: Bench, tick: Tick) -> None:
        self.repository = repository
        self.snapshots = snapshots
        self.private = private
        self.bench = bench
        self.tick = tick
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
        return Examiner(self.bench, self.root, self.vault, place, manifest, facts, bytecode or Manifest())

    def protection(self, task: TaskState, base: Base, may_change: tuple[str, ...]) -> Protection:
        """What is protected; which files the tests read takes a look at all of them, so it is remembered."""
        key = (task.id, task.proof.manifest if task.proof is not None else "", may_change)
        if key not in self._protections:
            self._protections[key] = protection_of(base.manifest, self.vault, task.task, base.facts, may_change)
        return self._protections[key]

    # What is known of the run in the work tree ---------------------------------------------------------------------

    def note_tree_run(self, task: str, tested: Tested) -> None:
        """Remember what the tests did in the work tree before any agent, for the baseline."""
        facts = dict(tested.log.interpreter) if tested.log is not None else {}
        if tested.log is not None:
            facts |= {
                "root": tested.log.root,
                "positional": list(tested.log.positional),
                "distributed": tested.log.distributed,
            }
            facts |= self._configuration_above(facts.get("inipath"))
        facts["prefix_below_root"] = os.path.relpath(self.bench.directory, self.root)
        document = {"facts": facts, "run": json.loads(Baseline((run_of(tested, "tree"),)).document())}
        _write(self.folder(task) / "tree.json", json.dumps(document).encode())

    def _configuration_above(self, inipath: object) -> dict[str, object]:
        """A pytest configuration that lies above the work tree: in the room it lies above the room."""
        if not isinstance(inipath, str) or not inipath or Path(inipath).is_relative_to(self.root.resolve()):
            return {}
        try:
            content = Path(inipath).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return {}
        return {"above_name": Path(inipath).name, "above_content": content}

    def _tree_run(self, task: str) -> tuple[Mapping[str, object], Baseline]:
        try:
            document = json.loads((self.folder(task) / "tree.json").read_bytes())
            return document["facts"], Baseline.of_document(json.dumps(document["run"]).encode())
        except (OSError, ValueError, KeyError):
            return {"prefix_below_root": os.path.relpath(self.bench.directory, self.root)}, Baseline()

    # Keeping -------------------------------------------------------------------------------------------------------

    def discard(self) -> None:
        """The copies of the base, once nobody can ask for them any more."""
        self.vault.clear()
        shutil.rmtree(self.private / "rooms", ignore_errors=True)

    def is_kept(self, task: TaskState) -> bool:
        return task.proof is None or (self.folder(task.id) / "manifest.jsonl").exists()

    def _keep(self, task: TaskState) -> tuple[Manifest, Stamps]:
        folder = self.folder(task.id)
        earlier = task.earlier_proof
        if earlier is not None and (folder / "manifest.jsonl").exists():
            manifest = Manifest.read(folder / "manifest.jsonl", earlier.manifest)
            stamps = Stamps.read(folder / "stamps.jsonl", earlier.stamps)
        elif not any(attempt.turns for attempt in task.attempts):
            manifest, stamps = self.vault.keep_with_stamps(self.root, self._names(task))
        else:
            manifest, stamps = self._from_snapshot(task.base), Stamps()
        if task.edited:
            manifest, stamps = self._with_edits(manifest, stamps, task.edited)
        if earlier is None and not any(attempt.turns for attempt in task.attempts):
            names = sorted(os.fsdecode(name) for name in self.loaded_unseen())
            _write(folder / "unseen.json", json.dumps(names).encode())
        stamps.write(folder / "stamps.jsonl")
        manifest.write(folder / "manifest.jsonl")
        return manifest, stamps

    def planted(self, task: str) -> tuple[bytes, ...]:
        """What has appeared since where git does not look, and is loaded all the same."""
        try:
            before = frozenset(map(os.fsencode, json.loads((self.folder(task) / "unseen.json").read_bytes())))
        except (OSError, ValueError, TypeError):
            return ()
        return tuple(sorted(self.loaded_unseen() - before))

    def loaded_unseen(self) -> frozenset[bytes]:
        """Ignored files that pytest or Python loads by itself: git shows nobody when one appears."""
        listed = self.repository.git("ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory").split(b"\0")
        return frozenset(name for name in listed if name.rpartition(b"/")[2] in _LOADED)

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
        with tempfile.TemporaryDirectory(dir=self.private) as folder:
            tree, index = Path(folder, "tree"), Path(folder, "index")
            tree.mkdir()
            self.repository.git("read-tree", commit, index=index, work_tree=tree)
            self.repository.git("checkout-index", "-a", "-f", index=index, work_tree=tree)
            names = self.repository.git("ls-files", "-z", index=index, work_tree=tree).split(b"\0")
            return self.vault.keep(tree, (name for name in names if name))

    def _with_edits(self, manifest: Manifest, stamps: Stamps, edited: Iterable[str]) -> tuple[Manifest, Stamps]:
        """What a person has changed since belongs to the base: it is not the agent's doing."""
        names = [os.fsencode(name) for name in edited]
        fresh, fresh_stamps = self.vault.keep_with_stamps(self.root, names)
        files = {name: kept for name, kept in manifest.files.items() if name not in names} | dict(fresh.files)
        marks = {name: mark for name, mark in stamps.files.items() if name not in names} | dict(fresh_stamps.files)
        return Manifest(MappingProxyType(files)), Stamps(MappingProxyType(marks))

    def _hidden(self, task: FrozenTask) -> Manifest:
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

    # Proving -------------------------------------------------------------------------------------------------------

    def prove(self, task: TaskState, allowed: Callable[[], Allowance]) -> Proof | None:
        """The proof; None when somebody stopped it."""
        began = time.monotonic()
        folder = self.folder(task.id)
        facts, tree = self._tree_run(task.id)
        if task.earlier_proof is not None or task.edited:
            tree = Baseline()  # the base is another one now, and the work tree holds the agent's work
        manifest, stamps = self._keep(task)
        hidden = self._hidden(task.task)
        hidden.write(folder / "hidden.jsonl")
        examiner = self.examiner(task.id, manifest, facts)
        session = _Session(self, task, examiner, allowed)
        suite = task.attempts[0].suite if task.attempts else None
        notes: list[str] = []
        if suite is not None and suite.outcome in _NO_VERDICT and not tree.runs:
            notes.append(f"the tests came to no verdict before the first iteration ({suite.outcome})")
        if suite is not None and suite.outcome in _NO_VERDICT:
            outcome: _Proved | None = _Proved(Baseline(), Watched(), None, (), "", facts, Manifest())
            notes.append("the clean room was not tried on the base: its tests don't run to an end there")
        else:
            outcome = session.run(tree)
        if outcome is None:
            return None
        wider = session.wider() if not outcome.problem else Baseline()
        if wider is None:
            return None
        facts = outcome.facts
        fingerprint = self._fingerprint(task, facts)
        _write(folder / "baseline.json", outcome.baseline.document())
        records = _Records(wider, outcome.watched, facts)
        _write(folder / "records.json", records.document())
        outcome.bytecode.write(folder / "bytecode.jsonl")
        protection = protection_of(manifest, self.vault, task.task, facts, (*task.settings.may_change, *task.released))
        names = sorted(os.fsdecode(name) for name in manifest.files)
        protected = [f"{file_name(os.fsencode(n))} ({why})" for n in names if (why := protection.why(n))]
        own = outcome.baseline.tests
        return Proof(
            manifest=manifest.digest(),
            stamps=stamps.digest(),
            files=len(manifest.files),
            protected=tuple(protected[:_SHOWN]),
            protected_count=len(protected),
            interpreter=fingerprint.digest() if fingerprint is not None else "",
            installed=len(fingerprint.files) if fingerprint is not None else 0,
            baseline=outcome.baseline.digest(),
            records=hashlib.sha256(records.document()).hexdigest(),
            bytecode=outcome.bytecode.digest(),
            hidden=hidden.digest(),
            hidden_count=len(hidden.files),
            runs=tuple(f"{run.ended} {_WHERE[run.place]}" for run in outcome.baseline.runs),
            counts=outcome.baseline.counts(),
            flaky=tuple(one_line(outcome.baseline.told(test), 300) for test in outcome.baseline.flaky[:_SHOWN]),
            old_failures=tuple(sorted(wider.failing - own))[:_SHOWN],
            broken=tuple(
                path
                for path in self._broken_at_home(suite, manifest, facts)
                if not any(matches(glob, path) for glob in (*task.settings.may_change, *task.released))
            ),
            suite=outcome.suite,
            differs=tuple(one_line(line, 300) for line in outcome.differs[:_SHOWN]),
            problem=outcome.problem,
            notes=tuple(notes),
            seconds=time.monotonic() - began,
        )

    def _broken_at_home(
        self, suite: SuiteEvidence | None, manifest: Manifest, facts: Mapping[str, object]
    ) -> tuple[str, ...]:
        """Protected files that can't work as they are: whoever mends the task has to mend them, for somebody to see."""
        found = []
        own = {Path(os.fsdecode(name)).parts[0].removesuffix(".py") for name in manifest.files} | {
            Path(os.fsdecode(name)).parts[1].removesuffix(".py") for name in manifest.files if name.startswith(b"src/")
        }
        root = facts.get("root")
        start = os.path.relpath(root, self.root.resolve()) if isinstance(root, str) and root else "."
        for failure in suite.failures if suite is not None else ():
            path = os.path.normpath(os.path.join(start, failure.test))  # noqa: PTH118 - an id, seen from pytest's root
            if failure.phase != "collect" or os.fsencode(path) not in manifest.files:
                continue
            at_home = failure.where.rpartition(":")[0] in {failure.test, path}
            missing = _MISSING_MODULE.search(failure.message)
            foreign = missing is not None and missing[1].partition(".")[0] not in own
            if at_home and (failure.kind in _SYNTAX or (foreign and Path(path).name == "conftest.py")):
                found.append(path)
        return tuple(dict.fromkeys(found))

    def _fingerprint(self, task: TaskState, facts: Mapping[str, object]) -> Fingerprint | None:
        """What is installed, as it was before any agent came: never taken anew on the machine where one has been."""
        path = self.folder(task.id) / "interpreter.json"
        earlier = task.earlier_proof
        if earlier is not None and earlier.interpreter and path.exists():
            return Fingerprint.read(path, earlier.interpreter)
        if "prefix" not in facts:
            return None
        found = take(*installed_folders(facts, self.root))
        found.write(path)
        return found

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
        records = _Records.read(folder / "records.json", proof.records)
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


_WHERE = {"tree": "in the work tree", "room": "in the clean room", "reverse": "in the clean room, in reverse order"}


@dataclass(frozen=True, slots=True)
class _Records:
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
    def read(cls, path: Path, expected: str) -> _Records:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise StoreError(f"what was noted of the base is gone: {path}: {error.strerror}") from None
        if hashlib.sha256(data).hexdigest() != expected:
            raise StoreError(f"what was noted of the base was changed by somebody else: {path}")
        found = json.loads(data)
        watched = Watched.of_document(json.dumps(found["watched"]).encode())
        return cls(Baseline.of_document(json.dumps(found["suite"]).encode()), watched, found["facts"])


@dataclass(frozen=True, slots=True)
class _Proved:
    baseline: Baseline
    watched: Watched
    suite: SuiteEvidence | None
    differs: tuple[str, ...]
    problem: str
    facts: Mapping[str, object]
    bytecode: Manifest


class _Session:
    """The runs in the room that prove it."""

    def __init__(self, bases: Bases, task: TaskState, examiner: Examiner, allowed: Callable[[], Allowance]) -> None:
        self.bases = bases
        self.task = task
        self.examiner = examiner
        self.allowed = allowed

    def run(self, tree: Baseline) -> _Proved | None:
        # A collection that broke off in the work tree says nothing about single tests.
        broken = frozenset(tree.broken)
        baseline = tree if not broken else Baseline()
        places = self._places()
        watched, facts = Watched(), dict(self.examiner.facts)
        bytecode = Manifest()
        forward: Examined | None = None
        last: Examined | None = None
        while places or (not baseline.is_settled and len(baseline.runs) < _MOST_RUNS):
            place: Place = places.pop(0) if places else "room"
            last = self._one(place, self.task.task, broken=bool(broken), first=last is None)
            if last.tested.stopped:
                return None
            if last.unprepared or last.suite.outcome in _NO_VERDICT | {Outcome.USAGE_ERROR, Outcome.NO_TESTS}:
                return self._unproved(baseline, last, facts)
            if last.tested.log is not None:
                watched = watched.joined(Watched.of(last.tested.log.probes))
                facts = {**facts, **_interpreter_facts(last.tested, facts)}
            if last.bytecode.files:
                bytecode = last.bytecode
                self.examiner = replace(self.examiner, bytecode=bytecode)
            baseline = baseline.with_run(run_of(last.tested, place))
            forward = last if place == "room" else forward
        if last is None:
            raise RuntimeError("a base is proved by at least one run")
        shown = forward or last
        suite = excused(shown.suite, frozenset(baseline.flaky))
        differs = self._differing(baseline, broken, shown)
        problem = self._problem(differs, shown) if differs else ""
        return _Proved(baseline, watched, suite, differs, problem, facts, bytecode)

    def wider(self) -> Baseline | None:
        """The same for the wider suite, if there is one: in the room alone, forwards and in reverse."""
        arguments = own_suite(self.task.task)
        if arguments is None:
            return Baseline()
        task = self.task.task.model_copy(update={"tests": arguments, "marker": None})
        baseline = Baseline()
        for place in self._wider_places():
            examined = self._one(place, task, broken=True, first=False)
            if examined.tested.stopped:
                return None
            baseline = baseline.with_run(run_of(examined.tested, place))
        return baseline

    def _places(self) -> list[Place]:
        """One run was in the work tree; the first of the others is in reverse order, where that can be."""
        rooms = max(self.task.settings.baseline_runs - 1, 1)
        reverse = self.task.settings.baseline_runs > 1 and self.task.task.test is None
        first: Place = "reverse" if reverse else "room"
        more: list[Place] = ["room"] * (rooms - 1)
        return [first, *more]

    def _wider_places(self) -> tuple[Place, ...]:
        return ("room", "reverse") if self.task.settings.baseline_runs > 1 else ("room",)

    def _one(self, place: Place, task: FrozenTask, *, broken: bool, first: bool) -> Examined:
        exam = Exam(reverse=place == "reverse", watch=True, protected=self._protected(task))
        return self.examiner.run(
            task,
            self.allowed(),
            self.bases.tick,
            exam=exam,
            extra=(_CONTINUE,) if broken else (),
            keep_bytecode=first,
        )

    def _protected(self, task: FrozenTask) -> tuple[str, ...]:
        protection = protection_of(self.examiner.base, self.bases.vault, task, self.examiner.facts, ())
        return tuple(name for each in self.examiner.base.files if protection.is_protected(name := os.fsdecode(each)))

    def _differing(self, baseline: Baseline, broken: frozenset[str], shown: Examined) -> tuple[str, ...]:
        tests = tuple(baseline.told(test) for test in baseline.room_differs)
        files = sorted(set(shown.tested.broken) - broken)
        return (*(f"{name}: can't be collected in the clean room" for name in files), *tests)

    def _problem(self, differs: tuple[str, ...], shown: Examined) -> str:
        number = f"{len(differs)} test{'s' if len(differs) > 1 else ''}"
        first = shown.suite.failures[0] if shown.suite.failures else None
        why = one_line(f"{first.test}: {first.message or first.kind}", 200) if first is not None else differs[0]
        return (
            f"the clean room does not show what the work tree shows: {number} work there and not here ({why})."
            f" {self._missing(shown.suite)}"
        )

    def _unproved(self, baseline: Baseline, last: Examined, facts: Mapping[str, object]) -> _Proved:
        why = last.unprepared or f"the tests end otherwise than in the work tree: {last.suite.reason}"
        told = f"the clean room can't be used: {one_line(why, 300)}. {self._missing(last.suite)}"
        return _Proved(baseline, Watched(), last.suite, (why,), told, facts, Manifest())

    def _missing(self, suite: SuiteEvidence) -> str:
        """What to do, by name where the failures name something that only the work tree has."""
        text = "\n".join((suite.reason, *(f"{f.message}\n{f.detail}" for f in suite.failures[:20])))
        found = sorted(set(self._only_in_tree(text)))
        if found:
            listed = ", ".join(found[:5])
            return (
                f"Only the work tree has {listed}: name it under `prepare: {{files: [{listed}]}}`, or build it there."
            )
        return (
            "It holds what git does not ignore, a fresh home and nothing else: say under `prepare:` which commands to "
            "run in it (commands) or which ignored files it needs (files)."
        )

    def _only_in_tree(self, text: str) -> Iterator[str]:
        root = self.bases.root
        known = self.examiner.base.files
        for name in _MISSING_FILE.findall(text):
            path = Path(os.path.normpath(self.bases.bench.directory / name))
            if path.exists() and path.is_relative_to(root) and os.fsencode(path.relative_to(root)) not in known:
                yield str(path.relative_to(root))
        for module in _MISSING_MODULE.findall(text):
            stem = module.replace(".", "/")
            for start in (root, root / "src", self.bases.bench.directory):
                for path in (*sorted((start / stem).parent.glob(f"{Path(stem).name}.*")), start / stem):
                    if path.exists() and os.fsencode(path.relative_to(root)) not in known:
                        yield str(path.relative_to(root))


def run_of(tested: Tested, place: Place) -> BaselineRun:
    return BaselineRun(
        place,
        MappingProxyType(dict(tested.outcomes)),
        MappingProxyType(dict(tested.durations)),
        tested.broken,
        str(tested.suite.outcome),
    )


def _interpreter_facts(tested: Tested, known: Mapping[str, object]) -> dict[str, object]:
    """What the run said of its interpreter and its configuration, for a base that was never run in the work tree."""
    if tested.log is None or "prefix" in known:
        return {}
    return dict(tested.log.interpreter)


def _below(root: Path, name: bytes) -> Iterator[bytes]:
    """The files of a submodule or nested repository."""
    top = root / os.fsdecode(name)
    for folder, folders, files in os.walk(top):
        folders[:] = [each for each in folders if each != ".git"]
        for file in files:
            if file != ".git":
                yield os.fsencode(os.path.relpath(Path(folder, file), root))


def _write(path: Path, data: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(data)
    partial.replace(path)
