"""One attempt before the judge: what is judged, against which base, and how its tests are run in a room."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pytest_iterctl.control.limits import Allowance
from pytest_iterctl.control.state import TaskState
from pytest_iterctl.loop.base import Base, Bases
from pytest_iterctl.loop.change import SortedChange
from pytest_iterctl.loop.rooms import Exam, Examined, Examiner
from pytest_iterctl.plan.frozen import FrozenTask
from pytest_iterctl.work.vault import Manifest

__all__ = ["StoppedError", "Target", "Trial"]

_CHOOSING = ("--deselect", "--ignore", "--ignore-glob")
_CHOOSING_FLAGS = ("--lf", "--last-failed", "--ff", "--failed-first", "--nf", "--sw", "--stepwise")
#: `-k name`, `-mslow`, `-xk name`: the short form, its value attached or not, maybe behind flags that take none.
_SHORT = re.compile(r"-(?P<flags>[xvqsl]*)[km](?P<value>.*)", re.DOTALL)


class StoppedError(Exception):
    """Somebody stopped the run: there is no verdict."""


@dataclass(frozen=True, slots=True)
class Target:
    """How single tests of a task are run: its own options, without the files and folders."""

    options: tuple[str, ...]
    prefix: str

    @property
    def everything(self) -> tuple[str, ...]:
        """The options without those that choose among tests: for files that the task never heard of."""
        kept: list[str] = []
        skip = False
        for option in self.options:
            if skip:
                skip = False
            elif short := _SHORT.fullmatch(option):
                kept += [f"-{short['flags']}"] if short["flags"] else []
                skip = not short["value"]
            elif option in _CHOOSING:
                skip = True
            elif not option.startswith((*(f"{name}=" for name in _CHOOSING), *_CHOOSING_FLAGS)):
                kept.append(option)
        return tuple(kept)

    @classmethod
    def of(cls, bases: Bases, task: FrozenTask, facts: Mapping[str, object]) -> Target:
        options = list(task.tests)
        given = facts.get("positional")
        for word in given if isinstance(given, list) else ():
            if word in options:
                options.remove(word)
        more = ["--maxfail=0"]
        if any(option.startswith(("--junit", "--junitxml")) for option in options):
            more.append("--junitxml=.iterctl-control.xml")  # in the room: the user's own report is not for this run
        if facts.get("distributed") is True:
            more.append("-n0")
        root = facts.get("root")
        prefix = os.path.relpath(root, bases.bench.directory.resolve()) if isinstance(root, str) and root else "."
        return cls((*(option for option in options if option != "--"), *more), prefix)

    def arguments(self, tests: Iterable[str]) -> tuple[str, ...]:
        return (*self.options, *(self._argument(test) for test in tests))

    def _argument(self, test: str) -> str:
        path, separator, rest = test.partition("::")
        return os.path.normpath(os.path.join(self.prefix, path)) + separator + rest  # noqa: PTH118 - no path alone


@dataclass(frozen=True, slots=True)
class Trial:
    bases: Bases
    task: TaskState
    base: Base
    change: SortedChange
    examiner: Examiner
    allowed: Callable[[], Allowance]

    @property
    def target(self) -> Target:
        return Target.of(self.bases, self.task.task, self.base.facts)

    def is_protected(self, path: str) -> bool:
        return self.change.protection.is_protected(path)

    def files_of(self, tests: Iterable[str]) -> frozenset[str]:
        """The files that these tests are in, below the repository's root."""
        root = self.base.facts.get("root")
        start = os.path.relpath(root, self.bases.root.resolve()) if isinstance(root, str) and root else "."
        return frozenset(os.path.normpath(os.path.join(start, test.partition("::")[0])) for test in tests)  # noqa: PTH118

    @property
    def watching(self) -> Exam:
        """What the probe is to look at where the tests are judged."""
        files = (os.fsdecode(name) for name in self.base.manifest.files)
        protected = tuple(name for name in files if self.is_protected(name))
        return Exam(watch=True, changed=self.change.names, protected=protected)

    def run(
        self,
        exam: Exam | None = None,
        *,
        tests: tuple[str, ...] | None = None,
        also: Manifest | None = None,
        sources: Mapping[str, bytes] | None = None,
        extra: tuple[str, ...] = (),
        keep_reports: bool = False,
    ) -> Examined:
        """The change in a room, and in it the task's tests, or those that these arguments of pytest name."""
        task = self.task.task
        if tests is not None:
            task = task.model_copy(update={"tests": tests, "marker": None})
        examined = self.examiner.run(
            *(task, self.allowed(), self.bases.tick),
            change=self.change.contribution,
            exam=exam,
            also=also,
            sources=sources,
            extra=extra,
            keep_reports=keep_reports,
        )
        if examined.tested.stopped:
            raise StoppedError
        return examined

    def run_beside(self, files: Iterable[str], also: Manifest) -> Examined:
        """Test files that the task never heard of, laid into the room and run apart."""
        start = os.path.relpath(self.bases.root, self.bases.bench.directory)
        paths = (os.path.normpath(os.path.join(start, path)) for path in files)  # noqa: PTH118 - an argument
        return self.run(tests=(*self.target.everything, *paths), also=also)
