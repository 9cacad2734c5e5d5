"""Whether a green run can be believed: the change read, run in a clean room, compared, and put to the controls.

Ordered by cost. Every iteration: what was changed that does not count, and what the change looks like. When the tests
pass in the work tree: the clean room. When they pass there, too: the controls, once, before the change is accepted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from pytest_iterctl.control.evidence import (
    GateEvidence,
    GateVerdict,
    LeftOut,
    Outcome,
    SuiteEvidence,
)
from pytest_iterctl.control.limits import Allowance
from pytest_iterctl.control.pattern import counted
from pytest_iterctl.control.state import Attempt, TaskState
from pytest_iterctl.gate.audit import audit
from pytest_iterctl.gate.baseline import BAD, GOOD, Baseline, named
from pytest_iterctl.gate.comparison import Gap, compare, hurried
from pytest_iterctl.gate.doctests import lost_examples
from pytest_iterctl.gate.findings import Finding
from pytest_iterctl.gate.literals import hard_coded
from pytest_iterctl.gate.plugins import plugin_words
from pytest_iterctl.gate.watched import Watched, surprises, written_to
from pytest_iterctl.loop.base import Base, Bases
from pytest_iterctl.loop.change import SortedChange, sorted_change, sources_of
from pytest_iterctl.loop.controls import Controls
from pytest_iterctl.loop.proving import excused, own_suite
from pytest_iterctl.loop.record import ASK, Record, evidence, told, without
from pytest_iterctl.loop.rooms import Examined
from pytest_iterctl.loop.trial import StoppedError, Trial
from pytest_iterctl.text import file_name, one_line
from pytest_iterctl.work.interpreter import difference, installed_folders, take, top_level_modules

__all__ = ["Judge"]

_SHOWN = 20
_WEIGHED = 5  # objects that agree with everything: each costs a run
_AGAIN = 50  # failing tests that are run once more, to tell those that fail now and then


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges one attempt of a task."""

    bases: Bases
    task: TaskState
    attempt: Attempt
    allowed: Callable[[], Allowance]
    outcomes: Mapping[str, str]  # of the tests in the work tree
    keep_output: Callable[[str], None] = lambda _text: None

    def judge(self) -> GateEvidence | None:
        """The evidence; None when somebody stopped it."""
        began = time.monotonic()
        try:
            evidence = self._judge()
        except StoppedError:
            return None
        return evidence.model_copy(update={"seconds": time.monotonic() - began})

    def _judge(self) -> GateEvidence:
        base = self.bases.load(self.task)
        change = sorted_change(self.bases, base, self.task)
        examiner = self.bases.examiner(self.task.id, base.manifest, base.facts, base.bytecode)
        trial = Trial(self.bases, self.task, base, change, examiner, self.allowed)
        record = Record()
        green = self.attempt.suite is not None and self.attempt.suite.passed
        self._read(trial, record, whole=green)
        if not green:
            return self._evidence(trial, record, "not-green", "the tests fail in the work tree")
        if self._environment_changed(base, record):
            reason = f"what is installed has changed: {record.gaps[0].text}"
            return self._evidence(trial, record, "gaps", reason)
        room = trial.run(trial.watching, keep_reports=True)
        self.keep_output(room.tested.output)
        record.reports = room.reports
        suite = excused(room.suite, self._flaky(base))
        commands = self.task.task.test is not None or bool(self.task.settings.prepare.commands)
        record.findings += written_to(base.watched, room.touched, commands=commands)
        if room.tested.log is not None:
            seen = Watched.of(room.tested.log.probes)
            self._tell_processes(trial, record, seen)
            folders, _ = installed_folders(base.facts, self.bases.root) if "prefix" in base.facts else ((), ())
            record.findings += surprises(
                *(base.watched, seen),
                changed=frozenset(change.names),
                tests=frozenset(base.baseline.tests),
                libraries=top_level_modules(folders),
            )
            if not base.watched.seen:
                record.unchecked.append("what the base's own runs do to pytest: they did not run to an end")
        if not suite.passed:
            return self._red(trial, record, room, suite)
        record.checked.append(f"{counted(suite.counts.passed, 'test')} passed in the clean room")
        self._compare(base, record, room)
        self._wider(trial, record)
        self._new_tests(trial, record)
        self._hidden(trial, record)
        self._weigh(trial, record, room)
        if not record.certain and not record.gaps:
            self._controls(trial, record, room)
        return self._conclusion(trial, record, suite)

    # Reading the change ----------------------------------------------------------------------------------------------

    def _read(self, trial: Trial, record: Record, *, whole: bool) -> None:
        base, change = trial.base, trial.change
        names = change.names
        before = dict(sources_of(self.bases, base.manifest, None if whole else names))
        before |= sources_of(self.bases, base.manifest, names)
        # Of what changed, only what the change says is looked at: never the base's text in its place.
        after = {path: data for path, data in before.items() if path not in names}
        after |= sources_of(self.bases, change.contribution.laid, names)
        added = [os.fsdecode(name) for name in change.contribution.laid.files if name not in base.manifest.files]
        swapped = [os.fsdecode(name) for name in change.contribution.laid.files if name in base.manifest.files]
        record.findings += audit(
            before, after, is_protected=trial.is_protected, green=whole, added=added, changed=swapped
        )
        if whole:
            self._examples(base, before, after, record)
        if whole:
            tests = {path: data for path, data in before.items() if trial.is_protected(path)}
            record.findings += hard_coded(before, after, tests, is_protected=trial.is_protected)
            record.checked.append(f"{counted(len(names), 'changed file')} read for ways round the tests")

    def _examples(self, base: Base, before: Mapping[str, bytes], after: Mapping[str, bytes], record: Record) -> None:
        """Doctests stand in the product's own files, so they can't be restored: they must not have changed."""
        tested = {test.partition("::")[0] for test in base.baseline.tests}
        ours = [path for path in before if any(path == file or path.endswith(f"/{file}") for file in tested)]
        if not ours:
            return
        differing = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        lost = lost_examples(
            {path: before[path] for path in ours if path in differing},
            {path: data for path, data in after.items() if path in differing},
        )
        if lost:
            text = f"{counted(len(lost), 'doctest example')} of the base changed or gone: {one_line(named(lost), 300)}"
            record.gaps.append(Gap("doctest", text, "put the examples back as they were and mend the code"))

    def _environment_changed(self, base: Base, record: Record) -> bool:
        """An interpreter that somebody has changed can't be trusted with a verdict."""
        if base.fingerprint is None:
            if self.task.task.test is not None:
                record.unchecked.append("the tools that the test command uses: only its files are kept")
            return False
        now = take(*installed_folders(base.facts, self.bases.root), like=base.fingerprint)
        lines = difference(base.fingerprint, now)
        if not lines:
            record.checked.append(f"{len(now.files)} installed files are as they were at the start")
            return False
        text = one_line("; ".join(lines[:3]) + (f" and {len(lines) - 3} more" if len(lines) > 3 else ""), 400)  # noqa: PLR2004
        undo = "put the installed packages back as they were; if one is needed, stop and say so"
        record.gaps.append(Gap("environment", text, undo))
        return True

    # The clean room --------------------------------------------------------------------------------------------------

    def _tell_processes(self, trial: Trial, record: Record, seen: Watched) -> None:
        """Nobody watches what the product does in other processes; where it or a test starts some, that is said."""
        names = frozenset(trial.change.names)
        started = {path for kind, path, _ in seen.events if kind == "process"}
        places = sorted(path for path in started if path in names or trial.is_protected(path))
        if places:
            record.unchecked.append(f"what the product does in processes that are started by {named(places)}")

    def _flaky(self, base: Base) -> frozenset[str]:
        return frozenset(base.baseline.flaky) if self.task.settings.flaky == "report" else frozenset()

    def _red(self, trial: Trial, record: Record, room: Examined, suite: SuiteEvidence) -> GateEvidence:
        """Green in the work tree and not in the clean room."""
        if suite.limit:
            return self._evidence(trial, record, "failed", f"not judged to the end: {suite.reason}", suite=suite)
        if room.unprepared:
            return self._evidence(trial, record, "failed", room.unprepared, suite=suite)
        record.gaps += self._silent(trial.base, trial.change)
        red = one_line(f"not in the clean room: {suite.reason}", 300)
        if record.certain:
            return self._evidence(trial, record, "incident", f"{red}; {told(record.certain)}", suite=suite)
        explaining = self._explaining(trial)
        if explaining:
            paths = named([each.path for each in explaining])
            record.gaps.insert(0, without(paths, protected=explaining[0].protected))
            return self._evidence(trial, record, "gaps", f"{red} (without {paths})", suite=suite)
        suite = self._now_and_then(trial, suite)
        if suite.intermittent and set(suite.intermittent) == set(suite.failing):
            reason = f"and not every time in the clean room: {named(suite.intermittent)} failed, then passed"
            return self._evidence(trial, record, "failed", reason, suite=suite)
        reason = f"{red}; nothing that was left out explains it"
        return self._evidence(trial, record, "incident", reason, suite=suite)

    def _explaining(self, trial: Trial) -> list[LeftOut]:
        """What the work tree has and the room has not, the likeliest reason first."""
        left_out = trial.change.left_out
        protected = [each for each in left_out if each.protected]
        if left_out:
            return protected or list(left_out)
        return [
            *self.bases.unseen_since(self.task.id),
            *(LeftOut(path=path, reason="is written by the tests") for path in map(file_name, trial.base.written)),
        ]

    def _now_and_then(self, trial: Trial, suite: SuiteEvidence) -> SuiteEvidence:
        """Failing tests, run once more on the same tree, which tells who fails now and then. They stay failures."""
        if self.task.task.test is not None or suite.outcome is not Outcome.FAILED or len(suite.failing) > _AGAIN:
            return suite
        again = trial.run(tests=trial.target.arguments(suite.failing))
        passed = tuple(test for test in suite.failing if again.tested.outcomes.get(test) in GOOD)
        return suite.model_copy(update={"intermittent": passed}) if passed else suite

    def _silent(self, base: Base, change: SortedChange) -> Iterable[Gap]:
        """What the agent did to the tests in the work tree, said so that it can be undone."""
        if not change.protected_edits:
            return ()
        return [replace(gap, text=f"in the work tree, {gap.text}") for gap in compare(base.baseline, self.outcomes)]

    def _compare(self, base: Base, record: Record, room: Examined) -> None:
        now = room.tested.outcomes
        record.gaps += compare(base.baseline, now)
        if base.baseline.runs:
            record.checked.append(f"{counted(len(base.baseline.tests), 'test')} compared with the baseline")
        else:
            record.unchecked.append("no baseline: the tests did not run to an end before the first iteration")
        quick = hurried(base.baseline, now, room.tested.durations)
        for test in quick[:_SHOWN]:
            text = f"{test} took {base.baseline.duration(test):.1f}s before and next to nothing now."
            record.findings.append(Finding("", 0, "takes-no-time", False, text))
        if self.task.task.test is not None:
            return
        if room.tested.log is not None and not room.tested.log.probes:
            record.gaps.append(
                Gap("no-finish", "the probe in the clean room did not report", "let the tests run through")
            )

    def _wider(self, trial: Trial, record: Record) -> None:
        """The rest of the suite: what failed before is not the agent's to fix, what passed must go on passing."""
        base = trial.base
        arguments = own_suite(self.task.task)
        if arguments is None or base.suite is None:
            return
        wider = base.suite
        room = trial.run(tests=arguments, extra=("--continue-on-collection-errors",))
        now = room.tested.outcomes
        others = {test: outcome for test, outcome in now.items() if test not in base.baseline.tests}
        flaky = frozenset(wider.flaky) if self.task.settings.flaky == "report" else frozenset()
        strict = self.task.settings.baseline == "strict"
        worse = [
            test
            for test, outcome in sorted(others.items())
            if outcome in BAD and test not in flaky and (strict or test not in wider.failing)
        ]
        known = {*base.baseline.tests}
        rest = Baseline(tuple(replace(run, outcomes=_without(run.outcomes, known)) for run in wider.runs))
        record.gaps += compare(rest, others)
        if worse:
            text = f"{counted(len(worse), 'test')} outside of the task {'fail' if len(worse) > 1 else 'fails'}"
            how = ": " if strict else " and did not before: "
            record.gaps.append(Gap("regression", text + how + named(worse), "make them pass again", tuple(worse)))
        else:
            record.checked.append(f"{counted(len(others), 'test')} of the wider suite are no worse than before")

    def _new_tests(self, trial: Trial, record: Record) -> None:
        """Tests that the agent added say something about its work, and nothing about whether it is accepted."""
        new = trial.change.new_tests
        files = sorted(os.fsdecode(name) for name in new.files)
        if not files or self.task.task.test is not None:
            if files:
                record.new_tests = f"{counted(len(files), 'new file')} kept, not run apart: {named(files)}"
            return
        programs = [path for path in files if trial.change.protection.is_test(path)]
        if not programs:
            record.new_tests = f"{counted(len(files), 'new file')} kept: {named(files)}"
            return
        ran = trial.run_beside(programs, new)
        record.new_tests = f"{named(programs)}: {ran.suite.reason or ran.suite.outcome}"

    def _hidden(self, trial: Trial, record: Record) -> None:
        hidden = trial.base.hidden
        if not hidden.files:
            record.unchecked.append("whether the change fits more than the tests that the agent saw (no hidden_tests)")
            return
        if self.task.task.test is not None:
            room = trial.run(also=hidden)
        else:
            files = (os.fsdecode(name) for name in hidden.files)
            room = trial.run_beside([path for path in files if trial.change.protection.is_test(path)], hidden)
        if room.suite.passed:
            record.checked.append(f"hidden tests: {room.suite.counts.passed} passed")
            return
        failing = room.suite.counts.failed + room.suite.counts.errors
        # What they are called and what they expect stays hidden, also from the journal that feedback is made of.
        text = (
            f"{counted(failing, 'hidden test')} {'fail' if failing != 1 else 'fails'}"
            if failing
            else (f"the hidden tests did not run to an end ({room.suite.outcome})")
        )
        record.gaps.append(
            Gap("hidden", text, "solve what the task asks for, for all inputs, not only for the tested ones")
        )

    def _weigh(self, trial: Trial, record: Record, room: Examined) -> None:
        """An object that agrees with everything is a cheat if a test's pass depends on it, and a wild card if not."""
        doubtful = [finding for finding in record.certain if finding.rule == "agrees-with-everything"]
        if not doubtful or self.task.task.test is not None:
            return
        passed = tuple(test for test, outcome in room.tested.outcomes.items() if outcome in GOOD)
        controls = Controls(trial, room)
        harmless = [each for each in doubtful[:_WEIGHED] if not controls.depends_on([each], passed)]
        if not harmless:
            return
        record.findings = [
            replace(finding, certain=False) if finding in harmless else finding for finding in record.findings
        ]
        record.checked.append("no test depends on " + counted(len(harmless), "object") + " equal to anything")

    # Before acceptance -----------------------------------------------------------------------------------------------

    def _controls(self, trial: Trial, record: Record, room: Examined) -> None:
        if self.task.task.test is not None:
            record.unchecked.append("controls: they need pytest")
            return
        targets = tuple(
            test
            for test, outcome in room.tested.outcomes.items()
            if outcome in GOOD and test not in trial.base.baseline.passing
        )
        self._tell_made_of(trial, record, targets)
        controls = Controls(trial, room)
        if self.task.settings.gate == "fast":
            record.unchecked.append("negative control and single tests (gate: fast)")
        elif not targets:
            record.unchecked.append("negative control: no test went from failing to passing")
        else:
            record.add(controls.run(targets))
        if self.task.settings.mutants:
            record.add(controls.mutants(self.task.settings.mutants, targets or tuple(room.tested.outcomes)))

    def _tell_made_of(self, trial: Trial, record: Record, targets: tuple[str, ...]) -> None:
        """Files of the product that the tests are made of, and that changed: somebody has to look at them."""
        seen, files = trial.base.watched, trial.files_of(targets)
        read = {data for kind, test, data in seen.events if kind == "test-read" and test in files}
        plugins = {path for path in trial.change.names if _dotted(path) & seen.plugins and self._steers(trial, path)}
        for path in trial.change.names:
            if path in plugins:
                text = "is a plugin of the tests, and reaches into them as it did not before."
            elif path in read and os.fsencode(path) in trial.base.manifest.files:
                text = "is read by the tests that pass now, and was changed."
            else:
                continue
            record.findings.append(Finding(path, 1, "tests-read", False, text))

    def _steers(self, trial: Trial, path: str) -> bool:
        """Whether a plugin does more to the tests than it did; it may be the very product that they test."""
        before = sources_of(self.bases, trial.base.manifest, [path]).get(path, b"")
        after = sources_of(self.bases, trial.change.contribution.laid, [path]).get(path, b"")
        return bool(plugin_words(after) - plugin_words(before))

    # The conclusion --------------------------------------------------------------------------------------------------

    def _conclusion(self, trial: Trial, record: Record, suite: SuiteEvidence) -> GateEvidence:
        change = trial.change
        if record.certain:
            return self._evidence(trial, record, "incident", told(record.certain), suite=suite)
        if record.gaps:
            reason = "; ".join(gap.text for gap in record.gaps[:3])
            return self._evidence(trial, record, "gaps", f"but {reason}", suite=suite)
        mended = sorted(set(self.task.proof.broken if self.task.proof else ()) & set(change.permitted))
        record.findings += [
            Finding(
                path, 1, "mends-tests", False, "could not be loaded before and was changed; it belongs to the tests."
            )
            for path in mended
        ]
        asking = [finding for finding in record.findings if finding.rule in ASK]
        reason = "the tests pass in the clean room"
        if change.is_empty and change.left_out:
            reason += " without any of the change"
        return self._evidence(trial, record, "accepted", reason, suite=suite, ask=told(asking) if asking else "")

    def _evidence(
        self,
        trial: Trial,
        record: Record,
        verdict: GateVerdict,
        reason: str,
        *,
        suite: SuiteEvidence | None = None,
        ask: str = "",
    ) -> GateEvidence:
        if suite is not None and suite.passed:
            # Also where it is not accepted: a person may accept it all the same, and then this is what was judged.
            folder, iteration = self.bases.folder(self.task.id), self.attempt.iteration
            trial.change.accepted().write(folder / f"judged-{iteration}.jsonl")
            record.reports.write(folder / f"reports-{iteration}.jsonl")
        return evidence(verdict, reason, trial.change, record, suite=suite, ask=ask)


def _dotted(path: str) -> frozenset[str]:
    """The names under which a file may be registered as a plugin: that of an entry point is its own."""
    if not path.endswith(".py"):
        return frozenset()
    parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
    return frozenset(".".join(parts[start:]) for start in range(len(parts)))


def _without(outcomes: Mapping[str, str], known: set[str]) -> Mapping[str, str]:
    return {test: outcome for test, outcome in outcomes.items() if test not in known}
