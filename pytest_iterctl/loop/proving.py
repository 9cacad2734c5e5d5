"""Proving a base: its tests run a few times, in the work tree and in the clean room, before any agent comes."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_iterctl.control.evidence import Outcome, Proof, SuiteEvidence
from pytest_iterctl.control.limits import Allowance
from pytest_iterctl.control.state import TaskState
from pytest_iterctl.gate.baseline import GOOD, Baseline, Place, named
from pytest_iterctl.gate.globs import matches
from pytest_iterctl.gate.watched import Watched
from pytest_iterctl.loop.base import Bases, Records, run_of, write_whole
from pytest_iterctl.loop.protecting import protection_of
from pytest_iterctl.loop.rooms import Exam, Examined, Examiner
from pytest_iterctl.loop.testing import Tested
from pytest_iterctl.plan.frozen import FrozenTask
from pytest_iterctl.text import file_name, one_line
from pytest_iterctl.work.interpreter import Fingerprint, installed_folders, take
from pytest_iterctl.work.room import Contribution
from pytest_iterctl.work.vault import Manifest

__all__ = ["excused", "own_suite", "prove"]

_SHOWN = 50
_SYNTAX = frozenset({"SyntaxError", "IndentationError", "TabError"})
_MOST_RUNS = 4  # in the room, to find out why two runs differ
_CONTINUE = "--continue-on-collection-errors"
_NO_VERDICT = {Outcome.TIMED_OUT, Outcome.CRASHED, Outcome.INTERRUPTED, Outcome.NO_REPORT, Outcome.INCOMPLETE}
_MISSING_FILE = re.compile(r"No such file or directory: '([^'\n]+)'")
_MISSING_MODULE = re.compile(r"No module named '([\w.]+)'")
_WHERE = {"tree": "in the work tree", "room": "in the clean room", "reverse": "in the clean room, in reverse order"}


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


def prove(bases: Bases, task: TaskState, allowed: Callable[[], Allowance]) -> Proof | None:
    """The proof; None when somebody stopped it."""
    began = time.monotonic()
    folder = bases.folder(task.id)
    facts, tree = bases.tree_run(task.id)
    if task.earlier_proof is not None or task.edited:
        tree = Baseline()  # the base is another one now, and the work tree holds the agent's work
    manifest, stamps = bases.keep(task)
    hidden = bases.hidden(task.task)
    hidden.write(folder / "hidden.jsonl")
    examiner = bases.examiner(task.id, manifest, facts)
    session = _Session(bases, task, examiner, allowed)
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
    added = frozenset(bases.added_tests() & frozenset(manifest.files))
    if added and not outcome.problem:
        depending = session.depending_on(added, outcome)
        if depending is None:
            return None
        outcome = replace(outcome, problem=depending)
    wider = session.wider() if not outcome.problem else Baseline()
    if wider is None:
        return None
    facts = outcome.facts
    fingerprint = _fingerprint(bases, task, facts)
    write_whole(folder / "baseline.json", outcome.baseline.document())
    records = Records(wider, outcome.watched, facts)
    write_whole(folder / "records.json", records.document())
    outcome.bytecode.write(folder / "bytecode.jsonl")
    protection = protection_of(manifest, bases.vault, task.task, facts, (*task.settings.may_change, *task.released))
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
            for path in _broken_at_home(bases, suite, manifest, facts)
            if not any(matches(glob, path) for glob in (*task.settings.may_change, *task.released))
        ),
        suite=outcome.suite,
        differs=tuple(one_line(line, 300) for line in outcome.differs[:_SHOWN]),
        problem=outcome.problem,
        notes=tuple(notes),
        seconds=time.monotonic() - began,
    )


def _broken_at_home(
    bases: Bases, suite: SuiteEvidence | None, manifest: Manifest, facts: Mapping[str, object]
) -> tuple[str, ...]:
    """Protected files that can't work as they are: whoever mends the task has to mend them, for somebody to see."""
    found = []
    own = {Path(os.fsdecode(name)).parts[0].removesuffix(".py") for name in manifest.files} | {
        Path(os.fsdecode(name)).parts[1].removesuffix(".py") for name in manifest.files if name.startswith(b"src/")
    }
    root = facts.get("root")
    start = os.path.relpath(root, bases.root.resolve()) if isinstance(root, str) and root else "."
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


def _fingerprint(bases: Bases, task: TaskState, facts: Mapping[str, object]) -> Fingerprint | None:
    """What is installed, as it was before any agent came: never taken anew on the machine where one has been."""
    path = bases.folder(task.id) / "interpreter.json"
    earlier = task.earlier_proof
    if earlier is not None and earlier.interpreter and path.exists():
        return Fingerprint.read(path, earlier.interpreter)
    if "prefix" not in facts:
        return None
    found = take(*installed_folders(facts, bases.root))
    found.write(path)
    return found


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
            watched = watched.joined(Watched(touched=last.touched))
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

    def depending_on(self, added: frozenset[bytes], outcome: _Proved) -> str | None:
        """Why the base can't be trusted: tests pass only with what an agent added to the tests in an earlier task."""
        gone = Contribution(Manifest(), added, ())
        ran = self.examiner.run(self.task.task, self.allowed(), self.bases.tick, change=gone)
        if ran.tested.stopped:
            return None
        theirs = {os.fsdecode(name) for name in added}
        passing = (test for test in outcome.baseline.passing if test.partition("::")[0] not in theirs)
        lost = sorted(test for test in passing if ran.tested.outcomes.get(test) not in GOOD)
        if not lost:
            return ""
        files = ", ".join(sorted(file_name(name) for name in added))
        return f"{named(lost)} can pass only with {files}, which an agent added to the tests in an earlier task"

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
        named_first = {line.partition(": ")[0] for line in differs}
        failures = [failure for failure in shown.suite.failures if failure.test in named_first]
        first = failures[0] if failures else None
        why = one_line(f"{first.test}: {first.message or first.kind}", 300) if first is not None else differs[0]
        works = "works" if len(differs) == 1 else "work"
        missing = self._missing(shown.suite.model_copy(update={"failures": tuple(failures)}))
        told = f"{number} {works} there and not here ({why})"
        return f"the clean room does not show what the work tree shows: {told}. {missing}"

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
        if "not a git repository" in text:
            return (
                "It is no git repository: `prepare: [[git, init, -q]]` makes it one, and a commit if the tests need it."
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


def _interpreter_facts(tested: Tested, known: Mapping[str, object]) -> dict[str, object]:
    """What the run said of its interpreter and its configuration, for a base that was never run in the work tree."""
    if tested.log is None or "prefix" in known:
        return {}
    return dict(tested.log.interpreter)
