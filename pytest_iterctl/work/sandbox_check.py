"""Proves the sandbox on this machine before anything relies on it, and says what to do where there is none.

A hostile probe is run in a sandbox like any other. It must be able to write inside and must fail at everything else;
whatever is not exactly so is an obstacle, also what nobody thought of.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pytest_iterctl.errors import IterctlError, SafetyError
from pytest_iterctl.text import one_line
from pytest_iterctl.work import sandbox_probe
from pytest_iterctl.work.process import Command, run
from pytest_iterctl.work.sandbox import Sandbox, find_bubblewrap

__all__ = ["OLDEST", "Obstacle", "Surroundings", "cause_of", "check", "look_around"]

#: The first one that can forbid user namespaces inside.
OLDEST = (0, 8, 0)
PATIENCE = 60.0
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
_PRIVATE = ("/tmp", "/var/tmp", "/run", "/home", "/root", "/dev/shm", "/proc")  # noqa: S108 - looked at, not used

_INSTALL = (
    "install it: apt install bubblewrap (Debian, Ubuntu), dnf install bubblewrap (Fedora), "
    "pacman -S bubblewrap (Arch), apk add bubblewrap (Alpine)"
)
_NEWER = "Debian 12, Ubuntu 24.04, Fedora 38 and Alpine 3.18 have one that is new enough"
_CONTAINER = (
    "start it with --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
    "--security-opt systempaths=unconfined, or run iterctl outside of it"
)
_APPARMOR = (
    "give bwrap a profile that says `userns,` (docs/sandbox.md has one), or: "
    "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
)
_WEAKER = "or choose another safety level: normal and permissive use no sandbox"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why there is no sandbox here, and how to mend it."""

    problem: str
    remedy: str

    def error(self) -> SafetyError:
        return SafetyError(f"there is no sandbox on this machine: {self.problem}", hint=self.remedy)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the machine says about user namespaces; None where it has no such setting."""

    container: bool = False
    unprivileged_clone: str | None = None
    apparmor_restriction: str | None = None
    most_user_namespaces: str | None = None


def look_around() -> Surroundings:
    return Surroundings(
        container=any(Path(name).exists() for name in ("/.dockerenv", "/run/.containerenv")),
        unprivileged_clone=_setting("kernel/unprivileged_userns_clone"),
        apparmor_restriction=_setting("kernel/apparmor_restrict_unprivileged_userns"),
        most_user_namespaces=_setting("user/max_user_namespaces"),
    )


def check(folder: Path, *, program: Path | None = None) -> Obstacle | None:
    """What keeps this machine from running a sandbox that holds; None when nothing does.

    `folder` is a private one of the driver's, and is left as it was.
    """
    if not sys.platform.startswith("linux"):
        return Obstacle(f"it needs Linux, and this is {sys.platform}", f"run it in a Linux machine; {_WEAKER}")
    bubblewrap = program or find_bubblewrap()
    if bubblewrap is None:
        return Obstacle("bubblewrap (bwrap) was not found", f"{_INSTALL}; {_WEAKER}")
    if (old := _too_old(bubblewrap)) is not None:
        return old
    try:
        with ExitStack() as stack:
            place = Path(tempfile.mkdtemp(prefix="sandbox-check-", dir=folder))
            stack.callback(shutil.rmtree, place, ignore_errors=True)
            return _probe(bubblewrap, place, stack)
    except IterctlError as error:
        return Obstacle(error.message, error.hint or _WEAKER)
    except OSError as error:
        return Obstacle(f"the check could not be made: {error}", _WEAKER)


def _too_old(program: Path) -> Obstacle | None:
    try:
        told = subprocess.run(
            [program, "--version"], capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Obstacle(f"bubblewrap can't be started: {error}", _INSTALL)
    found = re.match(rb"bubblewrap (\d+)\.(\d+)(?:\.(\d+))?", told.stdout)
    if found is None:
        said = one_line((told.stdout + told.stderr).decode("utf-8", "replace")) or "nothing"
        return Obstacle(f"{program} --version doesn't answer as bubblewrap does: {said}", _INSTALL)
    version = tuple(int(part or 0) for part in found.groups())
    if version < OLDEST:
        needed, has = (".".join(map(str, number)) for number in (OLDEST, version))
        return Obstacle(f"bubblewrap {has} is too old, {needed} is needed", f"install a newer one: {_NEWER}")
    return None


def _probe(program: Path, place: Path, stack: ExitStack) -> Obstacle | None:
    work_tree, state = place / "work", place / "state"
    (work_tree / ".git" / "hooks").mkdir(parents=True)
    (work_tree / ".git" / "config").write_text("[core]\n", encoding="ascii")
    state.mkdir(mode=0o700)
    (state / "secret").write_text("nobody's business", encoding="ascii")
    fresh = f"iterctl-probe-{secrets.token_hex(8)}"
    service = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    abstract, named = (stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2))
    abstract.bind(f"\0{fresh}")
    abstract.listen()
    # In /tmp, because the address of a socket holds 107 bytes, and the name of our folder may have more.
    near = Path(tempfile.mkdtemp(prefix="iterctl-sandbox-check-", dir="/tmp"))
    stack.callback(shutil.rmtree, near, ignore_errors=True)
    named.bind(str(near / "socket"))
    named.listen()
    orders = sandbox_probe.Orders(
        work_tree=os.path.realpath(work_tree),
        secret=os.path.realpath(state / "secret"),
        socket=os.path.realpath(near / "socket"),
        abstract=fresh,
        port=service.getsockname()[1],
        namespaces={kind: str(Path("/proc/self/ns", kind).readlink()) for kind in _NAMESPACES},
        private={name: identity for name in _PRIVATE if (identity := _identity(name)) is not None},
        fresh=fresh,
    )
    before = _contents(place)
    # Everything of the probe's place is shown to it, so that it is the walls that refuse and not an empty folder.
    script = Path(os.path.realpath(sandbox_probe.__file__))
    sandbox = Sandbox(program, work_tree, readable=(place, near, script), hidden=(state,))
    command = Command(
        arguments=(os.path.realpath(sys.executable), "-I", "-S", str(script)),
        cwd=work_tree,
        environment={"PATH": os.defpath, "HOME": os.environ.get("HOME", "/")},
        stdin=json.dumps(orders).encode(),
        timeout=PATIENCE,
    )
    with sandbox.wrapped(command) as inside:
        finished = run(inside)
    if finished.exit_code != 0:
        return cause_of(finished.error or finished.stderr.text or f"it ended by {finished.ended_by}", look_around())
    written = work_tree / fresh
    if not written.is_file() or written.read_text(encoding="ascii") != "written inside":
        return _open_wall("a command can't write in its own work tree")
    written.unlink()
    judged = _judged(finished.stdout.text)
    if judged is None and (_contents(place) != before or Path("/etc", fresh).exists()):
        return _open_wall("a command changed files outside of its work tree")
    return judged


def _judged(text: str) -> Obstacle | None:
    """What the probe's answer comes to: every way must have been tried, and every one refused."""
    try:
        answers = json.loads(text)
    except ValueError:
        return _open_wall("the probe's answer can't be read")
    if not isinstance(answers, dict) or answers.keys() != sandbox_probe.WAYS.keys():
        return _open_wall("the probe did not try every way out")
    through = [name for name, answer in answers.items() if not (isinstance(answer, str) and answer)]
    return _open_wall(f"inside, a command can {', '.join(through)}") if through else None


def _open_wall(problem: str) -> Obstacle:
    return Obstacle(problem, f"bubblewrap starts but does not hold here, which is a case for a bug report; {_WEAKER}")


def cause_of(complaint: str, surroundings: Surroundings) -> Obstacle:
    """What bubblewrap's (or the supervisor's) complaint means, and how to mend it."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    said = one_line(next((line for line in lines if line.startswith("bwrap:")), lines[-1] if lines else "nothing"))
    if re.search(r"Unknown option|--disable-userns", said):
        return Obstacle(f"bubblewrap is too old ({said})", f"install a newer one: {_NEWER}")
    forbidden = re.search(
        r"namespace|uid map|gid map|RTM_NEWADDR|loopback|setting up|Failed to make / slave|pivot_root|mount proc|"
        r"disable creation|capset|capabilities",
        said,
    )
    if forbidden is None:
        return Obstacle(f"the sandbox did not start ({said})", f"see docs/sandbox.md; {_WEAKER}")
    for applies, problem, remedy in _forbidding(said, surroundings):
        if applies:
            return Obstacle(f"{problem} ({said})", remedy)
    return Obstacle(
        f"the kernel does not let this user make namespaces ({said})", f"ask whoever runs this machine; {_WEAKER}"
    )


def _forbidding(said: str, surroundings: Surroundings) -> tuple[tuple[bool, str, str], ...]:
    """(whether it applies, what forbids it, how to allow it), the most certain first."""
    restriction = surroundings.apparmor_restriction
    return (
        (
            surroundings.unprivileged_clone == "0",
            "user namespaces are switched off",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        (
            surroundings.most_user_namespaces == "0" or "No space left" in said,
            "no more user namespaces are allowed",
            "sudo sysctl -w user.max_user_namespaces=15000",
        ),
        (
            surroundings.container and "mount proc" in said,
            "this container hides parts of /proc, so no new one can be mounted",
            "start it with --security-opt systempaths=unconfined (Docker) or --security-opt unmask=ALL (Podman)",
        ),
        (surroundings.container, "this container may not make namespaces", _CONTAINER),
        (
            restriction == "1" or (restriction is None and "uid map: Permission denied" in said),
            "AppArmor keeps programs from using user namespaces, as on Ubuntu since 23.10",
            _APPARMOR,
        ),
    )


def _setting(name: str) -> str | None:
    try:
        return Path("/proc/sys", name).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None


def _identity(name: str) -> tuple[int, int] | None:
    try:
        state = Path(name).stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino


def _contents(folder: Path) -> dict[str, bytes]:
    found = {}
    for path in sorted(folder.rglob("*")):
        found[os.fspath(path)] = path.read_bytes() if path.is_file() else b""
    return found
