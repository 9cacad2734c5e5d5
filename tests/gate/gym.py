"""Puts a case before the real gate: the base kept and proved once, the change made in a copy, and then judged."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from pytest_iterctl.control.evidence import Counts, GateEvidence, Outcome, Proof, SuiteEvidence
from pytest_iterctl.control.limits import Allowance
from pytest_iterctl.control.state import Attempt, TaskState
from pytest_iterctl.loop.base import Bases
from pytest_iterctl.loop.judging import Judge
from pytest_iterctl.loop.proving import prove
from pytest_iterctl.loop.testing import Bench
from pytest_iterctl.plan.frozen import FrozenTask, NamedAgent, Settings
from pytest_iterctl.plan.model import Agent
from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.interpreter import installed_folders, take
from pytest_iterctl.work.snapshots import Snapshots
from tests.gate.cases import Base, Case
from tests.gate.sites import Site, apply, lay_out
from tests.kit import warm
from tests.kit.ready import socket_of_forks

__all__ = ["Gym", "gym_of", "judged"]

_AGENT = NamedAgent(name="agent", spec=Agent(command=("true",)))


def _allowed() -> Allowance:
    return Allowance(120.0, "")


@dataclass
class Gym:
    """One base, proved; and a place where every change of it is judged."""

    base: Base
    folder: Path
    pristine: Path
    settings: Settings
    proof: Proof
    start: str
    commit: str

    @property
    def site(self) -> Site:
        return Site(self.folder / "around" / "work", self.folder / "home", self.base, self.start)

    def reset(self) -> None:
        for name in ("around", "home", "state"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
            shutil.copytree(self.pristine / name, self.folder / name, symlinks=True, copy_function=_copied)

    def bases(self) -> Bases:
        return _bases(self.site, self.folder)

    def task(self, settings: Settings | None = None) -> TaskState:
        frozen = FrozenTask(id="case", agent=_AGENT, settings=settings or self.settings)
        return TaskState(
            task=frozen,
            status="running",
            base=self.commit,
            latest=self.commit,
            attempts=(Attempt(0),),
            proof=self.proof,
            bound=3,
        )


def _bases(site: Site, folder: Path) -> Bases:
    private = folder / "state"
    private.mkdir(exist_ok=True)
    repository = Repository.discover(site.root)
    snapshots = Snapshots(repository, private)
    return Bases(repository, snapshots, private, Bench("TEST", site.root, private, as_module=True), lambda _: False)


def _copied(source: str, target: str) -> None:
    """What lies under its digest never changes, so that a link to it is as good as a copy."""
    if "/vault/" in source:
        os.link(source, target, follow_symlinks=False)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def settings_of(site: Site) -> Settings:
    return Settings(python=site.python, baseline_runs=2)


@cache
def gym_of(name: str) -> Gym:
    """The gym of a base, made once per process; a folder of its own that stays until the process ends."""
    from tests.gate.cases import every_base

    base = next(each for each in every_base() if each.name == name)
    holder = Path(tempfile.mkdtemp(prefix="gym-"))
    atexit.register(shutil.rmtree, holder, ignore_errors=True)
    folder, pristine = holder / "gym", holder / "pristine"
    site = lay_out(base, folder)
    bases = _bases(site, folder)
    with environment(site):
        snapshot = bases.snapshots.take("refs/iterctl/TEST/case/0-base", "base")
        frozen = FrozenTask(id="case", agent=_AGENT, settings=settings_of(site))
        tested = bases.bench.test(frozen, _allowed(), lambda _: False)
        bases.note_tree_run("case", tested)
        task = TaskState(
            task=frozen,
            base=snapshot.commit,
            latest=snapshot.commit,
            attempts=(Attempt(0, suite=tested.suite),),
        )
        proof = prove(bases, task, _allowed)
    assert proof is not None
    assert proof.proved, proof.problem
    shutil.copytree(folder, pristine, symlinks=True)
    return Gym(base, folder, pristine, settings_of(site), proof, site.start, snapshot.commit)


class environment:  # noqa: N801 - reads as a word
    """The variables that the base needs, as a developer would have set them before starting a run; and warm runs."""

    def __init__(self, site: Site, *, cold: bool = False) -> None:
        given = {name: value.format(root=site.root) for name, value in site.base.environment.items()}
        self.variables = {**given, "HOME": str(site.home), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        if cold:
            self.variables[warm.COLD] = "1"
        self.before: dict[str, str | None] = {}

    def __enter__(self) -> None:
        # For as long only: other tests of this process want to see Python start.
        self.end_forks = warm.install(socket_of_forks())
        self.before = {name: os.environ.get(name) for name in self.variables}
        os.environ.update(self.variables)

    def __exit__(self, *_: object) -> None:
        self.end_forks()
        for name, value in self.before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def judged(case: Case, *, settings: dict[str, object] | None = None) -> GateEvidence:
    """What the gate says of a case whose tests are claimed to be green in the work tree."""
    gym = gym_of(case.base.name)
    gym.reset()
    site = gym.site
    chosen = gym.settings.model_copy(update=settings or {})
    bases, task = gym.bases(), gym.task(chosen)
    with environment(site, cold=case.cold):
        if case.base.own_python:  # a copy of a virtual environment is another one, as far as time stamps tell
            base = bases.load(task)
            fresh = take(*installed_folders(base.facts, site.root))
            fresh.write(bases.folder("case") / "interpreter.json")
            task = replace(task, proof=gym.proof.model_copy(update={"interpreter": fresh.digest()}))
        apply(case, site)
        snapshot = bases.snapshots.take("refs/iterctl/TEST/case/1-generate", "after")
        suite = SuiteEvidence(outcome=Outcome.PASSED, counts=Counts(tests=1, passed=1))
        attempt = Attempt(1, suite=suite)
        task = replace(task, latest=snapshot.commit, attempts=(Attempt(0), attempt))
        evidence = Judge(bases, task, attempt, _allowed, {}).judge()
    assert evidence is not None
    return evidence
