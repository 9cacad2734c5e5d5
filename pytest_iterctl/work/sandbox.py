"""Runs a command where it can do no harm: in bubblewrap, with its own work tree to write and nothing else to reach.

    sandbox = Sandbox.around(repository, program=find_bubblewrap(), writable=[home / ".agent"], hidden=[state_folder])
    with gateway(endpoints, private_folder) as way_out, sandbox.wrapped(command, way_out) as inside:
        finished = run(inside)

Inside, the machine is read-only; homes, temporary folders and /run are empty and private; git's own files can't be
changed; there are no processes, sockets or network but the command's own. `sandbox_check` proves all that on the
machine at hand before anything relies on it. An exit code is the command's own; a signal that ended it is told as
128 + its number, because bubblewrap stands in between.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_iterctl.errors import SafetyError, UsageError
from pytest_iterctl.work import forwarder
from pytest_iterctl.work.gateway import Gateway
from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.process import Command
from pytest_iterctl.work.sandbox_layout import Access, Layout, command_home, homes, listening_sockets, shown
from pytest_iterctl.work.system_calls import MACHINES, filter_program

__all__ = ["Sandbox", "find_bubblewrap"]

#: Named on the command line, and not with the rest in a file: without them nothing may run at all.
_WALLS = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--disable-userns", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"),
)
_NO_NETWORK = ("--unshare-net",)
_TEMPORARY = ("/tmp", "/var/tmp", "/run", "/var/run", "/dev/shm")  # noqa: S108 - they are emptied, not used
#: What only its owner can read: no use to an agent, and it may be started by that owner.
_PRIVATE_FILES = ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssl/private", "/etc/docker", "/etc/kubernetes")
_USUAL_PLACES = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin"
_OURS = "/run/iterctl"
_PROXY_PORT = 3128
_FIRST_FREE_PORT = 1024
_LOCAL = "localhost,127.0.0.1,::1"
_MOST_ARGUMENTS = 8500  # bubblewrap takes 9000, and the command has some of its own
_SHEBANG = 256


def find_bubblewrap() -> Path | None:
    """Where bubblewrap is. The system's own folders come first: others may be within somebody's reach."""
    found = shutil.which("bwrap", path=_USUAL_PLACES) or shutil.which("bwrap")
    return None if found is None else Path(os.path.realpath(found))


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What a command may write and see; everything is a path outside, and has the same path inside.

    `protected` are git's folders; the work tree's `.git` always is. `writable` and `readable` are shown although they
    lie in a home or a temporary folder, `hidden` are taken out of sight (the driver's state). `interpreters` are
    folders of installed programs that nobody may write, also not in the work tree. `home` is a folder that takes the
    place of the command's home and keeps what it writes there. With `network`, the machine's is the command's, too.
    """

    program: Path
    work_tree: Path
    protected: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    interpreters: tuple[Path, ...] = ()
    home: Path | None = None
    network: bool = False

    @classmethod
    def around(
        cls,
        repository: Repository,
        *,
        program: Path,
        writable: Iterable[Path] = (),
        readable: Iterable[Path] = (),
        hidden: Iterable[Path] = (),
    ) -> Sandbox:
        """A sandbox for the work tree of this repository."""
        return cls(
            program,
            repository.root,
            protected=(repository.git_dir, repository.common_dir),
            writable=tuple(writable),
            readable=tuple(readable),
            hidden=tuple(hidden),
        )

    @contextmanager
    def wrapped(self, command: Command, gateway: Gateway | None = None, desk: Path | None = None) -> Iterator[Command]:
        """The same command, in the sandbox; it can be run once, as long as the context is open.

        `desk` is a socket of the driver's that the command may use; it finds it where `ITERCTL_SOCKET` says.

        Refused (SafetyError) is what could not hold, for example a `.git` that is a link or a work tree with a home
        in it; wrong (UsageError) is what is named and not there, or a program that nobody could see inside.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(_git_placed(self.work_tree))
            layout = self._layout(command.environment)
            _require_visible(command, layout)
            rules = stack.enter_context(_sealed("iterctl-filter", _filter()))
            orders = _joined([*self._orders(layout, command, gateway, desk, rules)])
            arguments = stack.enter_context(_sealed("iterctl-sandbox", orders))
            told, telling = stack.enter_context(_pipe())
            yield replace(
                command,
                arguments=(
                    *(str(self.program), *_WALLS, *(() if self.network else _NO_NETWORK)),
                    *("--json-status-fd", str(telling), "--args", str(arguments), "--", *_inner(command, gateway)),
                ),
                # bubblewrap itself runs outside: a library path of the project's must not lead it to an agent's file.
                environment={name: value for name, value in command.environment.items() if name.startswith("ITERCTL_")},
                pass_fds=(*command.pass_fds, arguments, rules, telling),
                told=told,
            )

    def _layout(self, environment: Mapping[str, str]) -> Layout:
        layout = Layout()
        work_tree = Path(os.path.realpath(self.work_tree))
        # A home or a temporary folder in what the command may write is its own, and stays what it is.
        given = frozenset(os.path.realpath(path) for path in self.writable)
        own = {
            name: value
            for name, value in environment.items()
            if not _lies_in(value, work_tree) and not (value.startswith("/") and os.path.realpath(value) in given)
        }
        temporary = (*_TEMPORARY, os.environ.get("TMPDIR", ""), own.get("TMPDIR", ""))
        layout.make_private(Path(name) for name in temporary if name.startswith("/"))
        layout.make_private(homes(own, _account_home()))
        if self.home is not None:
            layout.stand_in(Path(command_home(own, _account_home())), self.home)
        layout.hide(map(Path, _PRIVATE_FILES))
        for path in self.hidden:
            if not os.path.lexists(path):  # made while the command runs, it would be in sight
                raise UsageError(f"{shown(path)} is to be hidden, and does not exist", hint="make it first")
        layout.hide(self.hidden)
        layout.open(self.work_tree, Access.WRITE)
        for path in self.writable:
            layout.open(path, Access.WRITE)
        program = Path(os.path.realpath(self.program))
        if any(program.is_relative_to(place) for place, its in layout.places.items() if its is Access.WRITE):
            raise SafetyError(f"bubblewrap lies where a sandboxed command can write: {shown(self.program)}")
        for path in self.readable:
            layout.open(path, Access.READ)
        for prefix in {Path(sys.prefix), Path(sys.base_prefix), *self.interpreters}:
            real = Path(os.path.realpath(prefix))
            if layout.at(real) is not Access.READ:
                layout.protect(real)
        for path in (*self.protected, self.work_tree / ".git"):
            layout.protect(path)
        layout.cover(listening_sockets())
        return layout

    def _orders(
        self, layout: Layout, command: Command, gateway: Gateway | None, desk: Path | None, rules: int
    ) -> Iterator[str]:
        """All that bubblewrap is told besides the walls and the command."""
        yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
        yield from layout.arguments()
        # To root, a new /proc still has the kernel's settings to write: a core dump's program would run outside.
        yield from ("--remount-ro", "/proc")
        environment = dict(command.environment)
        home = environment.get("HOME", "")
        if not home.startswith("/") or layout.at(Path(os.path.realpath(home))) is Access.READ:
            environment["HOME"] = f"{_OURS}/home"  # of a user without a home, or with `/` for one
        for name in ("HOME", "TMPDIR", "XDG_RUNTIME_DIR"):
            folder = Path(os.path.realpath(environment.get(name) or "/"))
            if layout.at(folder) is Access.PRIVATE and folder not in layout.places:
                yield from ("--perms", "0700", "--dir", str(folder))
        if gateway is not None:
            yield from ("--ro-bind", os.path.realpath(forwarder.__file__), f"{_OURS}/forwarder.py")
            yield from ("--ro-bind", os.path.realpath(gateway.socket), f"{_OURS}/gateway")
            environment |= _proxy_variables(gateway)
        if desk is not None and "ITERCTL_SOCKET" in environment:
            yield from ("--ro-bind", os.path.realpath(desk), f"{_OURS}/desk")
            environment["ITERCTL_SOCKET"] = f"{_OURS}/desk"
        for name, value in environment.items():
            yield from ("--setenv", name, value)
        yield from ("--seccomp", str(rules), "--chdir", os.path.realpath(command.cwd))


def _inner(command: Command, gateway: Gateway | None) -> tuple[str, ...]:
    if gateway is None:
        return command.arguments
    local = {endpoint.port: str(endpoint) for endpoint in gateway.endpoints if endpoint.is_local}
    if any(port < _FIRST_FREE_PORT for port in local):
        raise UsageError(
            f"a service of this machine at port {min(local)} can't be offered inside the sandbox",
            hint=f"let it listen at a port from {_FIRST_FREE_PORT} on: the others belong to root",
        )
    interpreter = os.path.realpath(sys.executable)
    forward = (interpreter, "-I", "-S", f"{_OURS}/forwarder.py", f"{_OURS}/gateway", str(_proxy_port(gateway)))
    return (*forward, *(f"{port}={place}" for port, place in local.items()), "--", *command.arguments)


def _proxy_port(gateway: Gateway) -> int:
    taken = {endpoint.port for endpoint in gateway.endpoints if endpoint.is_local}
    return next(port for port in range(_PROXY_PORT, 65536) if port not in taken)


def _proxy_variables(gateway: Gateway) -> dict[str, str]:
    """What tools look at. Services on 127.0.0.1 are the sandbox's own, or forwarded one by one: no proxy for them."""
    proxy = f"http://127.0.0.1:{_proxy_port(gateway)}"
    names = {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": _LOCAL}
    return {**names, **{name.lower(): value for name, value in names.items()}, "NODE_USE_ENV_PROXY": "1"}


@contextmanager
def _git_placed(work_tree: Path) -> Iterator[None]:
    """See to it that there is a `.git` to protect: where there is none, an agent could make one.

    An empty folder is no repository to git. It is taken away again at the end.
    """
    path = work_tree / ".git"
    if path.is_symlink():
        raise SafetyError(
            f"{shown(path)} is a symbolic link, which a sandbox can't protect",
            hint="put git's folder there itself, or a file that says `gitdir: …`",
        )
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        yield
        return
    except OSError as error:
        raise UsageError(f"the work tree can't be written: {shown(work_tree)}: {error.strerror}") from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # somebody outside made a repository of it
            path.rmdir()


def _require_visible(command: Command, layout: Layout) -> None:
    """Say it now when the program would not be there inside; bubblewrap could only say "not found"."""
    if not command.arguments:
        return
    folders = command.environment.get("PATH", os.defpath)
    name = command.arguments[0]
    found = str(command.cwd / name) if "/" in name else shutil.which(name, path=folders)
    if found is None:
        return
    alias = Path(os.path.realpath(Path(found).parent)) / Path(found).name
    needed = [alias, Path(os.path.realpath(found))]
    if (interpreter := _interpreter_of(needed[1])) is not None:
        needed.append(Path(os.path.realpath(interpreter.parent)) / interpreter.name)
        needed.append(Path(os.path.realpath(interpreter)))
    for path in needed:
        if not layout.shows(path) and path not in layout.links:
            raise UsageError(
                f"the program {shown(Path(name))} can't be seen inside the sandbox: {shown(path)} lies in a home, a "
                "temporary folder or /run",
                hint=f"name {shown(path.parent)}, or what it needs of the folders around it, as readable",
            )


def _interpreter_of(path: Path) -> Path | None:
    try:
        with path.open("rb") as file:
            first = file.read(_SHEBANG).partition(b"\n")[0]
    except OSError:
        return None
    words = first.removeprefix(b"#!").split()
    return Path(os.fsdecode(words[0])) if first.startswith(b"#!") and words else None


def _lies_in(name: str, folder: Path) -> bool:
    return name.startswith("/") and "\0" not in name and folder in Path(os.path.realpath(name)).parents


def _account_home() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # a container's user without an entry
        return ""


def _filter() -> bytes:
    machine = os.uname().machine
    if machine not in MACHINES:
        raise SafetyError(
            f"the sandbox has no filter of system calls for {machine}", hint=f"it has one for {', '.join(MACHINES)}"
        )
    return filter_program(machine)


def _joined(parts: list[str]) -> bytes:
    if len(parts) > _MOST_ARGUMENTS:
        raise UsageError(
            "there are too many variables, folders and sockets for bubblewrap", hint="name fewer folders or variables"
        )
    encoded = [_encoded(part) for part in parts]
    return b"".join(part + b"\0" for part in encoded)


def _encoded(part: str) -> bytes:
    if "\0" in part:  # what follows would be read as an order of its own
        raise UsageError("a path or a variable for the sandbox holds a NUL byte")
    try:
        return os.fsencode(part)
    except UnicodeEncodeError as error:
        raise UsageError(f"a path or a variable for the sandbox can't be encoded: {error.reason}") from None


@contextmanager
def _sealed(name: str, data: bytes) -> Iterator[int]:
    """A file without a name that holds this, for a process that is started now."""
    descriptor = os.memfd_create(name)
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(data)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    """What is told at the other end can be read without waiting."""
    reading, writing = os.pipe()
    try:
        os.set_blocking(reading, False)
        yield reading, writing
    finally:
        os.close(reading)
        os.close(writing)
