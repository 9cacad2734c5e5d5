"""A machine to get out into: everything that a sandboxed command must not reach, made for real."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pluggy
import pytest

import pytest_iterctl
from pytest_iterctl.work.process import Command, Finished, run
from pytest_iterctl.work.sandbox import Sandbox, find_bubblewrap
from pytest_iterctl.work.sandbox_check import OLDEST, Obstacle, check

ESCAPES = Path(__file__).with_name("escapes.py")
SYSTEM_PYTHON = Path("/usr/bin/python3")
NOBODY = 65534
NAMESPACES = ("ipc", "mnt", "net", "pid", "user", "uts")


PLAIN = ("--unshare-user", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "--proc", "/proc")


@cache
def lacking() -> str:
    """What this machine lacks for a sandbox; "" for nothing. Asked without our code, which may be what is broken."""
    program = shutil.which("bwrap")
    if sys.platform != "linux" or program is None:
        return "bubblewrap is not installed"
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout.split()
    if [int(part) for part in version[-1].split(".")] < [*OLDEST]:
        return f"bubblewrap {version[-1]} is too old"
    started = subprocess.run([program, *PLAIN, "true"], capture_output=True, text=True, check=False)
    return "" if started.returncode == 0 else started.stderr.strip()


@cache
def obstacle() -> Obstacle | None:
    with tempfile.TemporaryDirectory() as folder:
        return check(Path(folder))


def require_sandbox() -> Path:
    """Where bubblewrap is. Skips, and says so, where the machine can't; fails where it can and ours does not hold."""
    if reason := lacking():
        pytest.skip(f"NO SANDBOX ON THIS MACHINE, so nothing of it is tested: {reason}")
    found = obstacle()
    assert found is None, f"bubblewrap works here, and our sandbox does not hold: {found}"
    program = find_bubblewrap()
    assert program is not None
    return program


def inside(sandbox: Sandbox, *arguments: str, timeout: float = 60, stdin: bytes = b"", **variables: str) -> Finished:
    """Run a command in this sandbox, from its work tree."""
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **variables}
    command = Command(arguments, sandbox.work_tree, environment, stdin=stdin, timeout=timeout)
    with sandbox.wrapped(command) as wrapped:
        return run(wrapped)


def python(sandbox: Sandbox, script: str, *arguments: str, timeout: float = 60) -> Finished:
    return inside(sandbox, os.path.realpath(sys.executable), "-I", "-S", "-c", script, *arguments, timeout=timeout)


def git(folder: Path, *arguments: str) -> None:
    names = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *names, *arguments], cwd=folder, check=True, capture_output=True)


def contents(folder: Path) -> dict[str, str]:
    """What is in a folder: kinds, permissions, times and digests of all files."""
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        state = path.lstat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else ""
        found[str(path)] = f"{state.st_mode:o} {state.st_uid} {state.st_mtime_ns if path.is_file() else 0} {digest}"
    return found


@contextmanager
def machine(owner: int) -> Iterator[dict[str, Any]]:
    """Homes, repositories, sockets, services and files around a work tree, all of this user."""
    fresh = f"iterctl-escape-{secrets.token_hex(6)}"
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="iterctl-machine-", dir="/tmp"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o755)
        home, state, shown, temporary, main, tree = (
            folder / name for name in ("home", "state", "shown", "temporary", "main", "home/src/task tree")
        )
        for made in (home / ".ssh", state, shown / "deep", temporary, main, tree.parent):
            made.mkdir(parents=True)
        for name in (".ssh/id_ed25519", ".netrc", ".bashrc"):
            (home / name).write_text("secret")
        for made in (state / "journal.db", shown / "canary", temporary / "canary", main / "canary"):
            made.write_text("canary")
        git(main, "init", "-q")
        git(main, "add", "canary")
        git(main, "commit", "-q", "-m", "first")
        git(main, "worktree", "add", "-q", "--detach", str(tree))
        files = [Path(place, fresh + "-file") for place in ("/var/tmp", "/dev/shm")]
        for file in files:
            file.write_text("other people's")
            stack.callback(file.unlink)
        run_socket = Path("/run" if os.access("/run", os.W_OK) else str(temporary), fresh + ".sock")
        stack.callback(run_socket.unlink, missing_ok=True)
        names = [str(run_socket), f"{shown}/socket", f"{temporary}/socket", f"{tree}/development.sock", f"\0{fresh}"]
        for name in names:
            listening(stack, name)
        before = Path.cwd()
        os.chdir(shown)
        try:
            listening(stack, "deep/relative")
            stack.callback(os.chdir, before)  # the process that listens is where it bound the name
        except BaseException:
            os.chdir(before)
            raise
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        udp.setblocking(False)
        device = Path("/").stat().st_dev
        disk = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
        for path in [folder, *folder.rglob("*"), *files, run_socket]:
            os.chown(path, owner, owner, follow_symlinks=False)
        yield {
            "folder": str(folder),
            "home": str(home),
            "state": str(state),
            "shown": str(shown),
            "temporary": str(temporary),
            "main": str(main),
            "tree": str(tree),
            "common": str(main / ".git"),
            "git": str(next((main / ".git/worktrees").iterdir())),
            "var_tmp": str(files[0]),
            "shm": str(files[1]),
            "run": str(run_socket),
            "fresh": fresh,
            "abstract": fresh,
            "tcp": tcp.getsockname()[1],
            "udp": udp.getsockname()[1],
            "udp_socket": udp,
            "disk": f"/dev/{disk.resolve().name}" if disk.exists() else "/dev/sda",
            "driver": os.getpid(),
            "processes": [
                int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and len(path.name) > 2
            ],
            "namespaces": {kind: str(Path("/proc/self/ns", kind).readlink()) for kind in NAMESPACES},
            "secret": secrets.token_hex(16),
        }


def listening(stack: ExitStack, name: str) -> None:
    listener = stack.enter_context(socket.socket(socket.AF_UNIX))
    listener.bind(name)
    listener.listen()


DRIVER = """
import json, os, sys
from pathlib import Path
from pytest_iterctl.work.process import Command, run
from pytest_iterctl.work.sandbox import Sandbox, find_bubblewrap
orders = json.load(sys.stdin)
world = orders["world"]
world["driver"] = os.getpid()
os.chdir(world["shown"])
handle = os.open(world["state"] + "/journal.db", os.O_RDONLY)
os.set_inheritable(handle, True)
sandbox = Sandbox(
    find_bubblewrap(),
    Path(world["tree"]),
    protected=(Path(world["git"]), Path(world["common"])),
    readable=(Path(world["shown"]), Path(world["main"]), Path(orders["script"])),
    hidden=(Path(world["state"]),),
)
environment = {"PATH": os.environ["PATH"], "HOME": world["home"]}
command = Command(
    (os.path.realpath(sys.executable), "-I", "-S", orders["script"]),
    Path(world["tree"]), environment, stdin=json.dumps(world).encode(), timeout=100,
)
with sandbox.wrapped(command) as wrapped:
    finished = run(wrapped)
print(json.dumps([finished.exit_code, finished.stdout.text, finished.stderr.text, finished.error]))
"""


def answers(world: dict[str, Any], owner: int) -> dict[str, Any]:
    """What became of each way out, for a driver of this user, which is a process of its own."""
    folder = Path(world["folder"])
    script = folder / "shown" / "escapes.py"
    shutil.copy(ESCAPES, script)
    script.chmod(0o644)
    interpreter, become = [sys.executable], []
    variables = {**os.environ, "HOME": world["home"], "DRIVER_SECRET": world["secret"]}
    if owner != os.geteuid():
        packages = folder / "packages"
        for module in (pytest_iterctl, pluggy):
            source = Path(str(module.__file__)).parent
            shutil.copytree(source, packages / source.name, ignore=shutil.ignore_patterns("__pycache__"))
        interpreter = [str(SYSTEM_PYTHON)]
        become = ["setpriv", f"--reuid={owner}", f"--regid={owner}", "--clear-groups"]
        variables |= {"PYTHONPATH": str(packages), "PATH": "/usr/bin:/bin"}
    given = {key: value for key, value in world.items() if key != "udp_socket"}
    before = contents(folder)
    done = subprocess.run(
        [*become, *interpreter, "-c", DRIVER],
        input=json.dumps({"world": given, "script": str(script)}),
        capture_output=True,
        text=True,
        env=variables,
        cwd="/",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    code, out, err, error = json.loads(done.stdout)
    assert code == 0, (code, out, err, error)
    result: dict[str, Any] = json.loads(out)
    tree = world["tree"]
    after = {name: what for name, what in contents(folder).items() if not name.startswith(tree)}
    result["changed"] = {
        name: (before.get(name), after.get(name))
        for name in before.keys() | after.keys()
        if not name.startswith(tree) and before.get(name) != after.get(name)
    }
    return result
