"""The controls before a change is accepted: tests that must go red go red, and each new pass stands alone.

The functions that the base had are broken, at random names and only once the tests are running, so that whatever the
change does to the judge it still does. A test that passed for an honest reason fails then.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pytest_iterctl.control.pattern import counted
from pytest_iterctl.control.signature import is_helper
from pytest_iterctl.gate.baseline import BAD, GOOD, named
from pytest_iterctl.gate.comparison import Gap
from pytest_iterctl.gate.findings import Finding
from pytest_iterctl.gate.mutants import mutants
from pytest_iterctl.gate.sabotage import functions_of, sabotaged, sabotaged_at, watching_equality
from pytest_iterctl.gate.watched import agreeing
from pytest_iterctl.loop.change import sources_of
from pytest_iterctl.loop.record import Record
from pytest_iterctl.loop.rooms import Control, Exam, Examined
from pytest_iterctl.loop.trial import Trial
from pytest_iterctl.text import one_line

__all__ = ["Controls"]

_MOST_TARGETS = 200
_MOST_NAMED = 1000
#: Single tests may take this many times what they took together, and some seconds to start.
_ALONE_SHARE, _ALONE_START = 3.0, 20.0
_ASSERTIONS = frozenset({"AssertionError", "Failed"})
_RESULT = frozenset({"failed", "error", "skipped", "xfailed"})


@dataclass(frozen=True, slots=True)
class _Broken:
    """A run in which something was broken: who is green all the same, and who came to no result."""

    green: tuple[str, ...]
    reached: frozenset[str] = frozenset()  # tests that called something broken
    alone: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    silent: tuple[str, ...] = ()
    problem: str = ""  # why the run as a whole came to nothing
    probes: tuple[Mapping[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class Controls:
    trial: Trial
    room: Examined  # the run of the tests as they are

    def run(self, targets: tuple[str, ...]) -> Record:
        """Both controls."""
        found = Record()
        chosen = _drawn(targets, _MOST_TARGETS)
        if len(chosen) < len(targets):
            found.unchecked.append(f"controls on {len(targets) - len(chosen)} of {len(targets)} target tests")
        alone = self._negative(chosen, found)
        if not found.findings:
            self._alone(chosen, alone, found)
        return found

    # The negative control --------------------------------------------------------------------------------------------

    def _negative(self, targets: tuple[str, ...], found: Record) -> Mapping[str, tuple[str, str]]:
        """The control, and on the way what the targets did alone, before anything was broken.

        First the functions give back what nobody asked for, so that the tests' own assertions must fail. What stays
        green then is made to fail itself, inside of the test: if even that is not seen, the result is forged. The rest
        may not look at what it gets, so the functions raise.
        """
        changed = frozenset(self.trial.change.names)
        breaking = self._sabotage(changed)
        first = self._broken(
            targets, lambda name: {**breaking(name), **self._watching(targets, name)}, "return", alone=True
        )
        found.findings += agreeing(first.probes, product=lambda path: not self.trial.is_protected(path))
        if any(finding.certain for finding in found.findings):
            return first.alone
        self._tell_unnoticed(first, found)
        left, alone, silent = first.green, first.alone, first.silent
        reached: frozenset[str] = first.reached
        if left:
            forged = self._broken(left, lambda _name: {}, "fail").green
            if forged:
                passes = "pass" if len(forged) > 1 else "passes"
                text = f"{named(forged)} {passes} although made to fail: the result is forged."
                found.findings.append(Finding("", 0, "control", True, text))
                return alone
            again = self._broken(left, self._sabotage(None), "raise")
            left, reached, silent = again.green, reached & again.reached, (*silent, *again.silent)
        self._tell_silent(first, silent, found)
        proved = len(targets) - len(left) - len(silent)
        if proved > 0:
            found.checked.append(
                f"negative control: {counted(proved, 'target test')} red when the base's functions break"
            )
        stubborn = [test for test in left if test in reached]
        if stubborn:
            text = f"{named(stubborn)} still pass when every function of the base is broken."
            found.findings.append(Finding("", 0, "control", False, text))
        rest = len(left) - len(stubborn)
        if rest:
            found.unchecked.append(f"negative control: {counted(rest, 'target test')} call no function of the base")
        return alone

    def _tell_unnoticed(self, first: _Broken, found: Record) -> None:
        """Tests that failed by what they assert, and now don't mind what the product gives back.

        An honest assertion minds: it compared before, and what it compared is rubbish now. Only rubbish may happen to
        be just what it asks for, such as something that is true, so it is asked again with nothing at all.
        """
        compared = frozenset(self._compared_before())
        # A test that may be changed may mind something else now, and somebody is shown what became of it anyway.
        changed = frozenset(self.trial.change.permitted)
        left = tuple(
            test for test in first.green if test in compared and self.trial.files_of([test]).isdisjoint(changed)
        )
        for variant in ("return", "nothing"):
            if left:
                broken = self._broken(left, self._sabotage(None), variant)
                left = tuple(test for test in broken.green if test in broken.reached)
        if left:
            passes = "pass" if len(left) > 1 else "passes"
            text = f"{named(left)} {passes} whatever the product returns, and failed by an assertion before."
            found.findings.append(Finding("", 0, "unnoticed", False, text))

    def _compared_before(self) -> Iterator[str]:
        """The tests whose own assertion, or one that is made for them, failed on the base."""
        proof = self.trial.task.proof
        for failure in proof.suite.failures if proof is not None and proof.suite is not None else ():
            frame = failure.frames[-1] if failure.frames else None
            own = frame is None or self.trial.is_protected(frame.path) or is_helper(frame)
            if failure.kind.rpartition(".")[2] in _ASSERTIONS and failure.phase == "call" and own:
                yield failure.test
                yield from failure.also

    def _watching(self, targets: tuple[str, ...], name: str) -> Mapping[str, bytes]:
        """The target tests' own files, asking about every equality whether the values are equal to just anything."""
        paths = self.trial.files_of(targets)
        tests = sources_of(self.trial.bases, self.trial.base.manifest, (path for path in paths if path.endswith(".py")))
        made = {path: watching_equality(data, name) for path, data in tests.items() if self.trial.is_protected(path)}
        return {path: data for path, data in made.items() if data is not None}

    def _tell_silent(self, first: _Broken, silent: tuple[str, ...], found: Record) -> None:
        """Tests that came to no result when things broke prove nothing, and where nothing ran at all it is strange."""
        if first.problem:
            text = f"the negative control came to no result, though the tests run otherwise: {first.problem}."
            found.findings.append(Finding("", 0, "control-evaded", False, text))
        elif silent:
            found.unchecked.append(f"negative control: {counted(len(silent), 'target test')} could not be found again")

    def _sabotage(self, only: frozenset[str] | None) -> Callable[[str], Mapping[str, bytes]]:
        """The sources of the change (or of the whole product) with the base's own functions broken."""
        is_protected = self.trial.is_protected
        before = sources_of(self.trial.bases, self.trial.base.manifest, only)
        names = frozenset(self.trial.change.names)
        after = {path: data for path, data in before.items() if path not in names}
        after |= sources_of(self.trial.bases, self.trial.change.contribution.laid, names)
        own = frozenset(
            function
            for path, data in before.items()
            if path.endswith(".py") and not is_protected(path)
            for function in functions_of(data)
        )

        def broken(name: str) -> Mapping[str, bytes]:
            made = {
                path: sabotaged(data, own, name)
                for path, data in after.items()
                if path.endswith(".py") and not is_protected(path)
            }
            return {path: data for path, data in made.items() if data is not None}

        return broken

    def _broken(
        self,
        targets: tuple[str, ...],
        sources: Callable[[str], Mapping[str, bytes]],
        variant: str,
        *,
        alone: bool = False,
    ) -> _Broken:
        """What the targets do with these sources."""
        control = Control.fresh(variant)
        made = sources(control.name)
        if not made and variant != "fail" and not alone:
            return _Broken(targets)
        exam = Exam(control=control, alone=alone, alone_seconds=self._time_alone(targets))
        # Tracebacks of tests that are meant to fail are of no use to anybody.
        ran = self._run(targets, exam, sources=made, extra=("--tb=no", "--no-summary"))
        probes = ran.tested.log.probes if ran.tested.log is not None else ()
        counts = [probe.get("reached") for probe in probes]
        reached = frozenset(test for each in counts if isinstance(each, dict) for test in each)
        outcomes = ran.tested.outcomes
        log = ran.tested.log
        broke_off = log is None or not log.finished or bool(log.collect_errors)
        return _Broken(
            tuple(test for test in targets if outcomes.get(test) in GOOD),
            reached,
            log.alone if log is not None else {},
            tuple(test for test in targets if outcomes.get(test) not in GOOD | BAD),
            one_line(ran.suite.reason, 200) if broke_off else "",
            probes,
        )

    def _time_alone(self, targets: tuple[str, ...]) -> float:
        together = sum(self.room.tested.durations.get(test, 0.0) for test in targets)
        return min(_ALONE_SHARE * together + _ALONE_START, self.trial.allowed().seconds)

    def depends_on(self, findings: Iterable[Finding], tests: tuple[str, ...]) -> tuple[str, ...]:
        """The tests that pass only through what stands at these places."""
        lines: dict[str, set[int]] = {}
        for finding in findings:
            lines.setdefault(finding.path, set()).add(finding.line)
        after = sources_of(self.trial.bases, self.trial.change.contribution.laid, lines)

        def broken(name: str) -> Mapping[str, bytes]:
            made = {path: sabotaged_at(data, frozenset(lines[path]), name) for path, data in after.items()}
            return {path: data for path, data in made.items() if data is not None}

        if not broken("_"):
            return tests
        passing = self._broken(tests, broken, "raise").green
        return tuple(test for test in tests if test not in passing)

    # Alone -----------------------------------------------------------------------------------------------------------

    def _alone(self, targets: tuple[str, ...], alone: Mapping[str, tuple[str, str]], found: Record) -> None:
        """Each in a process that has run no other test, and that names no current test."""
        flaky = frozenset(self.trial.base.baseline.flaky)
        wrong = tuple(test for test in targets if alone.get(test, ("", ""))[0] in _RESULT and test not in flaky)
        if wrong:
            # They ran with sources that were prepared to break: what they did is said of the change as it is.
            ran = self._run(wrong, Exam(alone=True, alone_seconds=self._time_alone(wrong)))
            alone = {**alone, **(ran.tested.log.alone if ran.tested.log is not None else {})}
            wrong = tuple(test for test in wrong if alone.get(test, ("", ""))[0] in _RESULT)
        good = sum(alone.get(test, ("", ""))[0] in GOOD for test in targets)
        if good:
            found.checked.append(f"{counted(good, 'target test')} passed alone")
        if good + len(wrong) < len(targets):
            found.unchecked.append(f"{len(targets) - good - len(wrong)} of {len(targets)} target tests alone")
        if not wrong:
            return
        why = alone[wrong[0]][1].strip().rsplit("\n", 1)[-1][:160]
        text = f"{named(wrong)} {'pass' if len(wrong) > 1 else 'passes'} only together with other tests"
        text = f"{text} ({why})" if why else text
        if self._built_on_each_other(wrong):
            found.findings.append(
                Finding("", 0, "depends-on-order", False, f"{text}: perhaps they are built on each other.")
            )
            return
        undo = "make each of them pass by itself; a result must not depend on what was called before"
        found.gaps.append(Gap("alone", text, undo, wrong))

    def _built_on_each_other(self, tests: tuple[str, ...]) -> bool:
        """Whether the tests pass with the others of their own classes, or files, and with nothing else."""
        if any("::" not in test for test in tests):
            return False
        homes = tuple(dict.fromkeys(test.rpartition("::")[0] for test in tests))
        ran = self._run(homes, Exam())
        return all(ran.tested.outcomes.get(test) in GOOD for test in tests)

    # Mutants ---------------------------------------------------------------------------------------------------------

    def mutants(self, most: int, tests: tuple[str, ...]) -> Record:
        """How many small faults in the changed lines the tests would notice; told, and nothing is decided by it."""
        found = Record()
        before = sources_of(self.trial.bases, self.trial.base.manifest, self.trial.change.names)
        after = sources_of(self.trial.bases, self.trial.change.contribution.laid, self.trial.change.names)
        seed = secrets.randbits(32)
        made = [
            (path, mutant)
            for path, data in sorted(after.items())
            if path.endswith(".py") and not self.trial.is_protected(path)
            for mutant in mutants(before.get(path), data, seed=seed, most=most)
        ]
        chosen = random.Random(seed).sample(made, min(most, len(made)))  # noqa: S311 - which lines, no secret
        survived = []
        for path, mutant in chosen:
            ran = self._run(tests[:_MOST_TARGETS], Exam(), sources={path: mutant.source})
            if all(ran.tested.outcomes.get(test) in GOOD for test in tests[:_MOST_TARGETS]):
                survived.append((path, mutant))
        if chosen:
            found.checked.append(f"mutants: the tests notice {len(chosen) - len(survived)} of {len(chosen)}")
        else:
            found.unchecked.append("mutants: none could be made of the changed lines")
        for path, mutant in survived[:10]:
            text = f"no test notices a fault here: {mutant.text}."
            found.findings.append(Finding(path, mutant.line, "survives", False, text))
        return found

    def _run(
        self,
        tests: tuple[str, ...],
        exam: Exam,
        *,
        sources: Mapping[str, bytes] | None = None,
        extra: tuple[str, ...] = (),
    ) -> Examined:
        # More names than fit into a command: then all tests of the task are run.
        arguments = self.trial.target.arguments(tests) if len(tests) <= _MOST_NAMED else None
        return self.trial.run(exam, tests=arguments, sources=sources, extra=extra)


def _drawn(tests: tuple[str, ...], most: int) -> tuple[str, ...]:
    """All of them, or so many that nobody could have foreseen, in their order."""
    if len(tests) <= most:
        return tests
    chosen = set(random.SystemRandom().sample(tests, most))
    return tuple(test for test in tests if test in chosen)
