"""What each command of a run may reach, where the run is to have walls: agents, tests in the work tree and in rooms.

An agent writes its work tree and a home of its own that lasts as long as the run. Tests write their work tree, or their
room, and nothing that lasts in any home. Nobody writes git's files, the driver's state, the reports for people, or the
interpreter.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest_iterctl
from pytest_iterctl.errors import SafetyError, UsageError
from pytest_iterctl.loop.desk import SOCKET_NAME
from pytest_iterctl.plan.endpoints import Endpoint
from pytest_iterctl.plan.frozen import NamedAgent, Settings
from pytest_iterctl.plan.model import Limits
from pytest_iterctl.store.place import Place
from pytest_iterctl.text import file_name
from pytest_iterctl.work.gateway import gateway
from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.process import Command, Walls, WallsError
from pytest_iterctl.work.room import Room
from pytest_iterctl.work.sandbox import Sandbox, find_bubblewrap
from pytest_iterctl.work.sandbox_check import cause_of, look_around

__all__ = ["Confinement"]

#: Of what an agent has in the home, a copy is made; a whole history of sessions is not what it needs to log in.
_MOST_COPIED = 64 * 1024 * 1024
_NODE_MODULES = "node_modules"


@dataclass(frozen=True, slots=True)
class Confinement:
    """One per run. `limits` are those that hold now: whether there is a network may be changed at a resume."""

    repository: Repository
    place: Place
    private: Path
    limits: Callable[[], Limits]

    def around_agent(self, agent: NamedAgent, settings: Settings, call: Path) -> Walls:
        """`call` is the folder of this one call, with its prompt and what it answers."""
        spec = agent.spec
        path = spec.env.get("PATH", os.environ.get("PATH", ""))
        program = _program(spec.command or (), path)
        sandbox = self._sandbox(
            self.repository.root,
            settings,
            writable=(call,),
            readable=(*program, *_there(spec.readable)),
            home=self._home_of(agent),
        )
        endpoints = [Endpoint.parse(text) for text in spec.endpoints] if not sandbox.network else []

        @contextmanager
        def walls(command: Command) -> Iterator[Command]:
            desk = call / SOCKET_NAME
            with _remedied(), gateway(endpoints, call) as way, sandbox.wrapped(command, way, desk) as inside:
                yield inside

        return walls

    def around_tests(self, settings: Settings, room: Room | None) -> Walls:
        """Without a room, the tests are those of the work tree."""
        if room is None:
            sandbox = self._sandbox(self.repository.root, settings)
        else:
            # What is compiled lies beside the room, and temporary files lie where others do.
            sandbox = self._sandbox(room.bytecode.parent, settings, writable=(room.scratch,))

        @contextmanager
        def walls(command: Command) -> Iterator[Command]:
            with _remedied(), sandbox.wrapped(command) as inside:
                yield inside

        return walls

    def _sandbox(
        self,
        work_tree: Path,
        settings: Settings,
        *,
        writable: tuple[Path, ...] = (),
        readable: tuple[Path, ...] = (),
        home: Path | None = None,
    ) -> Sandbox:
        program = find_bubblewrap()
        if program is None:
            raise SafetyError("bubblewrap (bwrap) was not found", hint="install it, or see docs/sandbox.md")
        reports = self.place.reports
        reports.mkdir(exist_ok=True)
        return Sandbox(
            program,
            work_tree,
            protected=(self.repository.git_dir, self.repository.common_dir, reports),
            writable=writable,
            readable=(
                *(() if work_tree == self.repository.root else (self.repository.root,)),
                Path(pytest_iterctl.__file__).parent,
                *_tools(),
                *_there(settings.readable),
                *readable,
            ),
            hidden=(self.place.home,),
            interpreters=tuple(_installation(settings.python or sys.executable)),
            home=home,
            network=self.limits().allow_external_api_calls,
        )

    def _home_of(self, agent: NamedAgent) -> Path:
        """What the agent has for a home in this run, with copies of what it needs of the user's."""
        name = "".join(each if each.isalnum() else "-" for each in agent.name)[:60]
        folder = self.private / "homes" / name
        if not folder.exists():
            partial = folder.with_name(folder.name + ".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(mode=0o700, parents=True)
            for path in _there(agent.spec.copies):
                _copy(path, partial)
            partial.rename(folder)
        return folder


@contextmanager
def _remedied() -> Iterator[None]:
    """Walls that stood when they were tried, and don't any more: nothing may run, and this is what to do about it."""
    try:
        yield
    except WallsError as error:
        raise cause_of(error.message, look_around()).error() from None


def _there(paths: Iterable[str]) -> tuple[Path, ...]:
    """What exists of what is named: a preset names what only some users have."""
    return tuple(path for path in (Path(each).expanduser() for each in paths) if _is_there(path))


def _is_there(path: Path) -> bool:
    return os.access(path, os.R_OK)  # and never an error: others' folders may be closed


def _copy(path: Path, home: Path) -> None:
    user = Path.home()
    if not path.is_relative_to(user):
        raise UsageError(f"{file_name(os.fsencode(path))} is to be copied, and is not in the home")
    if _size(path) > _MOST_COPIED:
        raise UsageError(
            f"{file_name(os.fsencode(path))} is too large to be copied for an agent",
            hint="name the files in it that the agent needs under `copies`",
        )
    target = home / path.relative_to(user)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, target, symlinks=True, dirs_exist_ok=True)
    else:
        shutil.copy2(path, target)


def _size(path: Path) -> int:
    if not path.is_dir():
        return path.stat().st_size
    return sum(each.lstat().st_size for each in path.rglob("*"))


def _tools() -> Iterator[Path]:
    """What is installed where a sandbox would hide it: folders on the PATH with the libraries beside them, and Python's
    own packages of this user.
    """
    hidden = (Path.home().resolve(), Path("/home"), Path("/root"), Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - not used
    named = (os.environ.get(name, "").split(os.pathsep) for name in ("PATH", "PYTHONPATH"))
    packages = map(str, (Path.home() / ".local/lib").glob("python3*/site-packages"))
    for entry in (*itertools.chain(*named), *packages):
        folder = Path(entry)
        if entry.startswith("/") and _is_there(folder) and any(place in folder.resolve().parents for place in hidden):
            yield folder
            libraries = folder.parent / "lib"
            if folder.name == "bin" and _is_there(libraries / _NODE_MODULES):
                yield libraries


def _program(command: tuple[str, ...], path: str) -> Iterator[Path]:
    """An agent's program wherever its name leads, the package that it belongs to, and the scripts that it is given."""
    scripts = [word for word in command[1:] if word.startswith("/") and os.path.isfile(word)]  # noqa: PTH113 - may hold a NUL
    for found in (*filter(None, [shutil.which(command[0], path=path)] if command else []), *scripts):
        real = Path(os.path.realpath(found))
        yield from (Path(found), real)
        yield from [each for each in real.parents if each.parent.name == _NODE_MODULES][-1:]


def _installation(python: str) -> Iterator[Path]:
    """The folders that an interpreter belongs to: its virtual environment, and what that is made of."""
    found = shutil.which(python) or python
    for program in (Path(found), Path(os.path.realpath(found))):
        prefix = program.parent.parent
        if (prefix / "pyvenv.cfg").exists() or any(prefix.glob("lib/python3*")):
            yield prefix
