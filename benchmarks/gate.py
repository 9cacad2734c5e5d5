"""What the gate costs: the tests in a clean room against plain pytest, the controls against the target tests alone."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from measure import (
    Cost,
    clean_environment,
    command,
    cpu,
    git,
    in_process,
    interleaved,
    minimum_ratio,
    options,
    paired_ratio,
    scratch,
    spread,
    tell,
    wall,
)

from pytest_iterctl.control.limits import Allowance
from pytest_iterctl.control.state import Attempt, TaskState
from pytest_iterctl.loop.base import Base, Bases
from pytest_iterctl.loop.change import SortedChange, sorted_change
from pytest_iterctl.loop.controls import Controls
from pytest_iterctl.loop.proving import prove
from pytest_iterctl.loop.rooms import NOTHING, Exam, Examined, Examiner
from pytest_iterctl.loop.testing import Bench
from pytest_iterctl.loop.trial import Trial
from pytest_iterctl.plan.frozen import FrozenTask, NamedAgent
from pytest_iterctl.plan.model import Agent
from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.room import open_room
from pytest_iterctl.work.snapshots import Snapshots

_FILES, _PARAMETERS = 10, 20
_TARGETS = 20
_PAUSE = 0.05
_ROOM, _LAYOUT, _CONTROLS = 1.15, 2.0, 3.0
_PLAIN = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
_BROKEN, _MENDED = "number * 2 + 1", "number * 2"
_PRODUCT = '''"""A small product: what most tests need, and what the change mends."""


def total(numbers):
    result = 0
    for number in numbers:
        result += number
    return result


def label(number):
    return f"number {{number}}"


def double(number):
    return {double}
'''
_TESTS = """import pytest

from product import double, label, total


@pytest.mark.parametrize("number", range({parameters}))
class TestProduct:
{methods}
"""
_METHOD = """    def test_{name}(self, number):
        assert total(range(number * 10)) == number * 10 * (number * 10 - 1) // 2
        assert label(number) == f"number {{number}}"

"""
_TARGET_TESTS = """import os
import time

import pytest
from product import double

PAUSE = float(os.environ.get("BENCHMARK_PAUSE", "0"))


@pytest.mark.parametrize("number", range({targets}))
def test_doubles(number):
    assert double(number) == number + number
    time.sleep(PAUSE)
"""


@dataclass(frozen=True, slots=True)
class _Subject:
    """A proved base, and a change of it that makes some tests pass."""

    root: Path
    bases: Bases
    task: TaskState
    base: Base
    environment: dict[str, str]

    @property
    def examiner(self) -> Examiner:
        return self.bases.examiner(self.task.id, self.base.manifest, self.base.facts, self.base.bytecode)

    @property
    def protected(self) -> tuple[str, ...]:
        protection = self.bases.protection(self.task, self.base, ())
        return tuple(name for each in self.base.manifest.files if protection.is_protected(name := os.fsdecode(each)))


def main() -> None:
    given = options(__doc__ or "", size=2000, runs=7, quick_size=60, quick_runs=1)
    with scratch() as folder:
        # Plugins that happen to be installed would make a test dearer and the gate look cheaper.
        environment = clean_environment(folder) | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        os.environ.clear()  # the room's tests see what the plain ones see
        os.environ.update(environment)
        subject = _subject(folder, given.size, environment)
        change = _mend(subject)
        _compare_room(subject, change, given.size, given.runs)
        _compare_layout(subject, folder, given.runs)
        _compare_controls(subject, change, given.size, given.runs)


# ── the subject ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _subject(folder: Path, size: int, environment: dict[str, str]) -> _Subject:
    root, private = folder / "project", folder / "state"
    private.mkdir()
    _write_project(root, size)
    repository = Repository.discover(root)
    snapshots = Snapshots(repository, private)
    bench = Bench("BENCHMARK", root, private, as_module=True)
    bases = Bases(repository, snapshots, private, bench, _never)
    agent = NamedAgent(name="nobody", spec=Agent(command=("true",)))
    frozen = FrozenTask(id="suite", tests=_PLAIN[3:], agent=agent)
    taken = snapshots.take("refs/iterctl/benchmark/base", "benchmark")
    tested = bench.test(frozen, _allowed(), _never)
    bases.note_tree_run(frozen.id, tested)
    attempts = (Attempt(0, suite=tested.suite),)
    task = TaskState(task=frozen, status="running", base=taken.commit, latest=taken.commit, attempts=attempts, bound=3)
    proof = prove(bases, task, _allowed)
    if proof is None or not proof.proved:
        sys.exit(f"error: the base is not proved: {proof.problem if proof is not None else 'stopped'}")
    task = replace(task, proof=proof)
    return _Subject(root, bases, task, bases.load(task), environment)


def _write_project(root: Path, size: int) -> None:
    """A few files with many tests each, which is the hard case: there is little in a test to hide the gate behind."""
    root.mkdir()
    (root / "pytest.ini").write_text("[pytest]\npythonpath = .\ntestpaths = tests\n")
    (root / ".gitignore").write_text("__pycache__/\n.pytest_cache/\n")
    (root / "product.py").write_text(_PRODUCT.format(double=_BROKEN))
    tests = root / "tests"
    tests.mkdir()
    (tests / "test_target.py").write_text(_TARGET_TESTS.format(targets=_TARGETS))
    methods = max((size - _TARGETS) // (_FILES * _PARAMETERS), 1)
    files = min(_FILES, max((size - _TARGETS) // (methods * _PARAMETERS), 1))
    for number in range(files):
        body = "".join(_METHOD.format(name=f"{number}_{method}") for method in range(methods))
        (tests / f"test_product_{number}.py").write_text(_TESTS.format(parameters=_PARAMETERS, methods=body))
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")


def _mend(subject: _Subject) -> SortedChange:
    (subject.root / "product.py").write_text(_PRODUCT.format(double=_MENDED))
    change = sorted_change(subject.bases, subject.base, subject.task)
    if change.names != ("product.py",):
        sys.exit(f"error: the change should be product.py and is {change.names}")
    return change


def _allowed() -> Allowance:
    return Allowance(600.0, "")


def _never(_elapsed: float) -> bool:
    return False


# ── the room ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _examine(subject: _Subject, change: SortedChange) -> Examined:
    exam = Exam(changed=change.names, protected=subject.protected, watch=True)
    found = subject.examiner.run(subject.task.task, _allowed(), _never, change=change.contribution, exam=exam)
    if not found.suite.passed or found.tested.log is None or not found.tested.log.probes:
        sys.exit(
            f"error: the tests should pass in the room, with the probe: {found.suite.reason}\n{found.tested.output}"
        )
    return found


def _compare_room(subject: _Subject, change: SortedChange, size: int, runs: int) -> None:
    plain = partial(command, _PLAIN, cwd=subject.root, environment=subject.environment)
    rounds = interleaved(lambda: in_process(partial(_examine, subject, change)), plain, runs)
    laid = min(_lay_out(subject).wall for _ in range(3))
    net = [(replace(room, wall=room.wall - laid), reference) for room, reference in rounds]
    how = f"of {runs} interleaved runs each, about {size} tests, watched, against python -m pytest"
    told = f"elapsed time without laying out the tree, minimum {how} ({spread(net, wall)})"
    tell("gate.room_wall", minimum_ratio(net, wall), _ROOM, told)
    tell("gate.room_paired", paired_ratio(net, wall), _ROOM, f"the same, median of pairs {how}")
    told = f"CPU time, with laying out the tree, minimum {how} ({spread(rounds, cpu)})"
    tell("gate.room_cpu", minimum_ratio(rounds, cpu), _ROOM, told)


def _lay_out(subject: _Subject) -> Cost:
    """A room opened and taken away again, with the compiled packages of a trusted run in it."""
    examiner = subject.examiner

    def lay_out() -> None:
        with open_room(examiner.vault, examiner.base, NOTHING, examiner.place, bytecode=examiner.bytecode):
            pass

    return in_process(lay_out)


def _compare_layout(subject: _Subject, folder: Path, runs: int) -> None:
    compiled_files = folder / "compiled"
    subject.bases.vault.lay(subject.base.bytecode, _made(compiled_files))
    sources = (subject.root / "tests", compiled_files)
    files, compiled = len(subject.base.manifest.files), len(subject.base.bytecode.files)

    def copy() -> None:
        for number, source in enumerate(sources):
            shutil.copytree(source, folder / "copy" / str(number), copy_function=shutil.copyfile)
        shutil.rmtree(folder / "copy")

    rounds = interleaved(partial(_lay_out, subject), lambda: in_process(copy), runs)
    told = f"elapsed time, minimum of {runs} interleaved runs each, {files} files and {compiled} compiled ones"
    against = f"against copying and removing as many ({spread(rounds, wall)})"
    tell("gate.layout", minimum_ratio(rounds, wall), _LAYOUT, f"{told}, {against}")


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


# ── the controls ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _compare_controls(subject: _Subject, change: SortedChange, size: int, runs: int) -> None:
    """Of tests that take next to nothing, where starting is all there is; and of tests that take a while."""
    room = _examine(subject, change)
    targets = tuple(test for test in room.tested.outcomes if test not in subject.base.baseline.passing)
    if len(targets) != _TARGETS:
        sys.exit(f"error: there should be {_TARGETS} target tests and are {len(targets)}")
    trial = Trial(subject.bases, subject.task, subject.base, change, subject.examiner, _allowed)
    controls = Controls(trial, room)
    how = f"of {runs} interleaved runs each, {len(targets)} target tests of about {size}, against python -m pytest"
    rounds = _controlled(subject, controls, targets, runs, 0.0)
    told = f"elapsed time, minimum {how} ({spread(rounds, wall)})"
    tell("gate.controls_wall", minimum_ratio(rounds, wall), _CONTROLS, told)
    tell("gate.controls_paired", paired_ratio(rounds, wall), _CONTROLS, f"elapsed time, median of pairs {how}")
    told = f"CPU time, minimum {how} ({spread(rounds, cpu)})"
    tell("gate.controls_cpu", minimum_ratio(rounds, cpu), _CONTROLS, told)
    rounds = _controlled(subject, controls, targets, runs, _PAUSE)
    told = f"elapsed time, tests of {_PAUSE * 1000:.0f} ms each, minimum {how} ({spread(rounds, wall)})"
    tell("gate.controls_of_slower_tests", minimum_ratio(rounds, wall), _CONTROLS, told)


def _controlled(
    subject: _Subject, controls: Controls, targets: tuple[str, ...], runs: int, pause: float
) -> list[tuple[Cost, Cost]]:
    os.environ["BENCHMARK_PAUSE"] = str(pause)
    environment = {**subject.environment, "BENCHMARK_PAUSE": str(pause)}
    plain = partial(command, (*_PLAIN[:3], *controls.trial.target.arguments(targets)), cwd=subject.root)
    return interleaved(
        lambda: in_process(partial(_control, controls, targets)), partial(plain, environment=environment), runs
    )


def _control(controls: Controls, targets: tuple[str, ...]) -> None:
    found = controls.run(targets)
    if found.findings or found.gaps or found.unchecked:
        sys.exit(f"error: the controls should all hold: {found}")


if __name__ == "__main__":
    main()
