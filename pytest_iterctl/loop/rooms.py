"""Test runs in clean rooms: the kept base with a change laid over it, prepared as the plan says, the probe inside."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import string
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import pytest_iterctl
from pytest_iterctl.control.evidence import Outcome, SuiteEvidence
from pytest_iterctl.control.limits import Allowance
from pytest_iterctl.loop.testing import Bench, InRoom, Tested, Tick
from pytest_iterctl.plan.frozen import FrozenTask
from pytest_iterctl.text import one_line, strip_escapes
from pytest_iterctl.work.bytecode import lay_installed
from pytest_iterctl.work.interpreter import installed_folders
from pytest_iterctl.work.mapping import out_of_room
from pytest_iterctl.work.process import Command, run
from pytest_iterctl.work.reports import lay_reports
from pytest_iterctl.work.room import Contribution, Room, bytecode_of, open_room
from pytest_iterctl.work.vault import Manifest, Stamps, Vault

__all__ = ["NOTHING", "Control", "Exam", "Examined", "Examiner"]

#: The probe is loaded by its path: the interpreter that runs the tests need not have this package installed.
_PROBE = Path(pytest_iterctl.__file__).parent / "probe" / "__init__.py"
NOTHING = Contribution(Manifest(), frozenset(), ())
#: What pytest or Python loads without being asked to.
_LOADED_BY_ITSELF = ("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "sitecustomize.py")
#: Where tools keep what they need to run at all; a fresh home would hide it from them.
_TOOL_HOMES = {
    "CARGO_HOME": ".cargo",
    "RUSTUP_HOME": ".rustup",
    "GOPATH": "go",
    "PYENV_ROOT": ".pyenv",
    "NVM_DIR": ".nvm",
    "VOLTA_HOME": ".volta",
    "FNM_DIR": ".local/share/fnm",
    "SDKMAN_DIR": ".sdkman",
    "DENO_DIR": ".cache/deno",
}


@dataclass(frozen=True, slots=True)
class Control:
    """What makes a test run fail that must fail: `name` is what the product's functions call first."""

    name: str
    variant: str  # raise, return (rubbish), nothing (is returned), or fail: the tests themselves

    @classmethod
    def fresh(cls, variant: str) -> Control:
        # Of no shape that a product could look for among the built-ins.
        letters = string.ascii_lowercase
        return cls("".join(secrets.choice(letters) for _ in range(5 + secrets.randbelow(9))) + "_of", variant)


@dataclass(frozen=True, slots=True)
class Exam:
    """What the probe is told about a run."""

    changed: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    reverse: bool = False
    watch: bool = False
    control: Control | None = None
    alone: bool = False
    alone_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Examined:
    """A run in a room. `unprepared` says why the tests were never begun."""

    tested: Tested
    unprepared: str = ""
    reports: Manifest = field(default_factory=Manifest)  # that it was asked for, with the work tree's paths in them
    bytecode: Manifest = field(default_factory=Manifest)
    touched: frozenset[str] = frozenset()  # protected files that were written to while the tests ran

    @property
    def suite(self) -> SuiteEvidence:
        return self.tested.suite


@dataclass(frozen=True, slots=True)
class Examiner:
    """Runs a task's tests in rooms that are made of one base."""

    bench: Bench
    root: Path
    vault: Vault
    place: Path
    base: Manifest
    facts: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    bytecode: Manifest = field(default_factory=Manifest)  # compiled by a run of the base, which can be trusted
    installed: tuple[str, ...] = ()  # as long as there is none: where the interpreter keeps its own
    first_agent: int = 0  # when the first agent came that could have changed that, in nanoseconds

    def run(
        self,
        task: FrozenTask,
        allowance: Allowance,
        tick: Tick,
        *,
        change: Contribution = NOTHING,
        exam: Exam | None = None,
        also: Manifest | None = None,
        sources: Mapping[str, bytes] | None = None,
        extra: tuple[str, ...] = (),
        keep_bytecode: bool = False,
        keep_reports: bool = False,
    ) -> Examined:
        """One run. `sources` are written over what the room holds, `extra` are more arguments for pytest.

        `keep_bytecode` is for runs of the base alone: what they compile spares others the time.
        """
        with self._opened(change, also, sources, for_pytest=task.test is None) as room:
            inside = InRoom(room, self.root, self._exam_file(room, exam or Exam()), self._variables())
            where = room.tree / os.path.relpath(self.bench.directory, self.root)
            bench = replace(self.bench, directory=where, inside=inside)
            problem, output = self._prepare(task, bench, allowance, tick)
            if problem:
                return Examined(_never_begun(problem, output), problem)
            where.mkdir(parents=True, exist_ok=True)
            watched = exam.protected if exam is not None else ()
            spoilt = self._spoilt(room, watched, also) if task.settings.prepare.commands else frozenset()
            before = _change_times(room.tree, watched)
            tested = bench.test(task, allowance, tick, extra=(*self._options(room), *extra) if not task.test else ())
            compiled = self._compiled(room) if keep_bytecode else Manifest()
            after = _change_times(room.tree, watched)
            touched = spoilt | frozenset(name for name in watched if before.get(name) != after.get(name))
            reports = self._reports(tested, room) if keep_reports else Manifest()
            return Examined(tested, reports=reports, bytecode=compiled, touched=touched)

    @contextmanager
    def _opened(
        self, change: Contribution, also: Manifest | None, sources: Mapping[str, bytes] | None, *, for_pytest: bool
    ) -> Iterator[Room]:
        name = self.root.name or "tree"
        with open_room(self.vault, self.base, change, self.place, name=name, also=also, bytecode=self.bytecode) as room:
            # pytest looks for its configuration in the folders above, too: here is the one that the base had there.
            # A command that starts pytest by itself says nothing about it, and would name its tests by this one.
            if for_pytest:
                (room.tree.parent / "pytest.ini").write_bytes(b"[pytest]\n")
            if self.installed and not self.bytecode.files:
                folders, _ = installed_folders(self.facts, self.root)
                lay_installed(self.installed, folders, room.bytecode, before=self.first_agent)
            outside = self._configuration_above()
            if outside is not None:
                (room.tree.parent / "pytest.ini").unlink(missing_ok=True)
                (room.tree.parent / outside[0]).write_bytes(outside[1])
            for path, content in (sources or {}).items():
                target = room.tree / path
                target.unlink(missing_ok=True)
                target.write_bytes(content)
                stale = room.bytecode / os.fsdecode(bytecode_of(room, os.fsencode(path)))
                for compiled in stale.parent.glob(f"{stale.name}*") if stale.parent.is_dir() else ():
                    compiled.unlink()
            yield room

    def _configuration_above(self) -> tuple[str, bytes] | None:
        """The name and content of a configuration file that lies above the work tree, as it was at the start."""
        name, content = self.facts.get("above_name"), self.facts.get("above_content")
        return (name, content.encode()) if isinstance(name, str) and isinstance(content, str) and name else None

    def _options(self, room: Room) -> tuple[str, ...]:
        """What pytest is told besides: where ids begin, and where a report goes that would go out of the tree."""
        aside = (f"--junitxml={room.outer / 'report.xml'}",) if self.facts.get("junit_outside") is True else ()
        return (*self._rootdir(room), *aside)

    def _rootdir(self, room: Room) -> tuple[str, ...]:
        """Where ids begin, where no configuration file in the tree says so."""
        root, inipath = self.facts.get("root"), self.facts.get("inipath")
        inside = isinstance(inipath, str) and inipath and Path(inipath).is_relative_to(self.root.resolve())
        if inside or not isinstance(root, str) or not root:
            return ()
        mapped = os.path.normpath(room.tree / os.path.relpath(root, self.root.resolve()))
        return (f"--rootdir={mapped}",) if Path(mapped).is_dir() else ()

    def _exam_file(self, room: Room, exam: Exam) -> Path:
        path = room.outer / f"exam-{secrets.token_hex(8)}.json"
        document = {"probe": str(_PROBE), "tree": str(room.tree), "from": str(self.root), **asdict(exam)}
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    def _variables(self) -> dict[str, str]:
        home = Path(os.environ.get("HOME") or "/nonexistent")
        found = {
            name: str(home / folder)
            for name, folder in _TOOL_HOMES.items()
            if name not in os.environ and (home / folder).is_dir()
        }
        path = self.facts.get("path")
        entries = [entry for entry in path if isinstance(entry, str)] if isinstance(path, list) else []
        user_site = any(entry.startswith(f"{home}/.local/lib/python") for entry in entries)
        # Packages in the user's own site folder are part of the interpreter where it looks there, and only there.
        return found | ({"PYTHONUSERBASE": str(home / ".local")} if user_site else {"PYTHONNOUSERSITE": "1"})

    def _prepare(self, task: FrozenTask, bench: Bench, allowance: Allowance, tick: Tick) -> tuple[str, str]:
        for arguments in task.settings.prepare.commands:
            finished = run(
                Command(
                    arguments=arguments,
                    cwd=bench.directory,
                    environment={**bench.environment(task), "ITERCTL_RUN": bench.run},
                    timeout=allowance.seconds,
                ),
                tick=tick,
                walls=bench.walls(task),
            )
            output = strip_escapes(finished.stdout.text + finished.stderr.text)
            if finished.error or finished.exit_code != 0:
                why = finished.error or (
                    f"it ended with exit code {finished.exit_code}"
                    if finished.ended_by == "exit"
                    else f"it was ended ({finished.ended_by})"
                )
                last = one_line(output.strip().rsplit("\n", 1)[-1], 200)
                told = f"prepare: {shlex.join(arguments)}: {why}" + (f": {last}" if last else "")
                return out_of_room(told, self.root, bench.inside.room.tree if bench.inside else self.root), output
        return "", ""

    def _spoilt(self, room: Room, protected: Iterable[str], also: Manifest | None) -> frozenset[str]:
        """What commands that prepare the room have made of the tests, and what they added that pytest would load.

        The commands are the plan's, but what they run may be the agent's.
        """
        laid = {**self.base.files, **(also.files if also is not None else {})}
        kept = {name: laid[os.fsencode(name)] for name in protected if os.fsencode(name) in laid}
        known = Manifest(MappingProxyType({os.fsencode(name): each for name, each in kept.items()}))
        changed, gone = self.vault.changed(room.tree, known, Stamps())
        folders = {"", *(os.path.dirname(name) for name in kept)}  # noqa: PTH120 - names below the tree
        loaded = (os.path.join(folder, name) for folder in folders for name in _LOADED_BY_ITSELF)  # noqa: PTH118
        added = (name for name in loaded if os.fsencode(name) not in laid and (room.tree / name).exists())
        return frozenset((*map(os.fsdecode, (*changed, *gone)), *added))

    def _compiled(self, room: Room) -> Manifest:
        files = (path for path in room.bytecode.rglob("*.pyc") if path.is_file() and not path.is_symlink())
        return self.vault.keep(room.bytecode, [os.fsencode(path.relative_to(room.bytecode)) for path in files])

    def _reports(self, tested: Tested, room: Room) -> Manifest:
        with tempfile.TemporaryDirectory(dir=room.outer) as folder:
            names = lay_reports(tested.reports, room.tree, self.root, Path(folder))
            return self.vault.keep(Path(folder), names)


def _change_times(tree: Path, names: Iterable[str]) -> dict[str, int]:
    """When each file was last changed in any way: a time that nobody can set back."""
    found = {}
    for name in names:
        with suppress(OSError):
            found[name] = os.lstat(tree / name).st_ctime_ns
    return found


def _never_begun(problem: str, output: str) -> Tested:
    suite = SuiteEvidence(outcome=Outcome.CRASHED, reason=problem)
    return Tested(suite, output, stopped=False)
