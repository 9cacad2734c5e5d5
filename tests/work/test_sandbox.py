from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_iterctl.errors import SafetyError, UsageError
from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.process import Command, run
from pytest_iterctl.work.sandbox import Sandbox
from tests.work.sandboxes import git, inside, python, require_sandbox

LONG = 30.0


@pytest.fixture
def program() -> Path:
    return require_sandbox()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    made = tmp_path / "tree"
    made.mkdir()
    return made


@pytest.fixture
def sandbox(program: Path, tree: Path) -> Sandbox:
    return Sandbox(program, tree)


def shell(sandbox: Sandbox, script: str, *arguments: str, timeout: float = LONG) -> tuple[int | None, str, str]:
    finished = inside(sandbox, "sh", "-c", script, "sh", *arguments, timeout=timeout)
    assert not finished.error
    return finished.exit_code, finished.stdout.text, finished.stderr.text


def wait_until(condition: object, what: str) -> None:
    deadline = time.monotonic() + LONG
    assert callable(condition)
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.01)


def carriers(mark: str) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if mark.encode() in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


@pytest.fixture
def mark() -> Iterator[str]:
    word = str(10**9 + secrets.randbelow(10**9))
    yield word
    left = carriers(word)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, "something of the sandbox survived"


# ── what goes through unchanged ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("code", [0, 1, 3, 127, 255])
def test_the_exit_code_is_the_commands_own(sandbox: Sandbox, code: int) -> None:
    assert shell(sandbox, f"exit {code}") == (code, "", "")


def test_a_signal_is_told_as_128_and_its_number(sandbox: Sandbox) -> None:
    assert shell(sandbox, "kill -KILL $$")[0] == 128 + signal.SIGKILL


def test_output_and_input_go_through_unchanged(sandbox: Sandbox) -> None:
    data = bytes(range(256)) * 4096
    finished = inside(sandbox, "cat", stdin=data)
    assert (finished.exit_code, finished.stderr.text) == (0, "")
    assert finished.stdout.total == len(data)
    assert inside(sandbox, "sh", "-c", "echo out; echo err >&2").stderr.text == "err\n"


def test_the_environment_is_what_the_command_says(sandbox: Sandbox) -> None:
    finished = inside(sandbox, "env", "-0", ODD="a\nb=c \udce9", ITERCTL_RUN="r")
    seen = dict(entry.split("=", 1) for entry in finished.stdout.text.split("\0") if entry)
    home = os.environ["HOME"]
    assert seen.pop("ODD").startswith("a\nb=c ")
    assert seen == {"PATH": os.environ["PATH"], "HOME": home, "ITERCTL_RUN": "r", "PWD": str(sandbox.work_tree)}


def test_the_command_starts_where_it_was_to(sandbox: Sandbox) -> None:
    folder = sandbox.work_tree / "below"
    folder.mkdir()
    with sandbox.wrapped(Command(("pwd",), folder, dict(os.environ), timeout=LONG)) as wrapped:
        assert run(wrapped).stdout.text == f"{folder}\n"


def test_what_is_written_in_the_work_tree_stays(sandbox: Sandbox) -> None:
    assert shell(sandbox, "echo x > new && mkdir -p a/b && mv new a/b && ln -s a/b link && chmod 755 a/b/new")[0] == 0
    assert (sandbox.work_tree / "link/new").read_text() == "x\n"


def test_ordinary_things_work(sandbox: Sandbox) -> None:
    script = (
        "cd /tmp; echo a > a; echo b > ~/b; echo c > /dev/shm/c; echo d > /var/tmp/d; cat a ~/b; echo e >/dev/stdout"
    )
    assert shell(sandbox, script) == (0, "a\nb\ne\n", "")
    finished = python(
        sandbox,
        "import multiprocessing, socket, subprocess, threading, asyncio\n"
        "server = socket.create_server(('127.0.0.1', 0)); client = socket.create_connection(server.getsockname())\n"
        "a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'\n"
        "with multiprocessing.get_context('spawn').Pool(1) as pool: assert pool.map(abs, [-1]) == [1]\n"
        "asyncio.run(asyncio.sleep(0)); assert subprocess.run(['true']).returncode == 0; print('fine')",
    )
    assert (finished.stdout.text, finished.exit_code) == ("fine\n", 0), finished.stderr.text


@pytest.mark.parametrize(
    "name", ["with space", "new\nline", "caf\udce9", "-dash", "quo'te\"", "back\\slash", "#[glob]*?"]
)
def test_any_path_is_a_work_tree(program: Path, tmp_path: Path, name: str) -> None:
    tree = tmp_path / name
    tree.mkdir()
    sandbox = Sandbox(program, tree)
    assert shell(sandbox, "echo x > written; test -d .git && ! touch .git/x 2>/dev/null && pwd")[0] == 0
    assert (tree / "written").exists()


def test_a_work_tree_that_is_reached_by_a_link_is_the_same(program: Path, tmp_path: Path, tree: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tree)
    code, out, _ = shell(Sandbox(program, link), 'pwd; echo x > "$1"/through', str(link))
    assert (code, out) == (0, f"{tree}\n")
    assert (tree / "through").exists()


def test_the_start_costs_milliseconds(sandbox: Sandbox) -> None:
    def best(wrap: bool) -> float:
        seconds = []
        for _ in range(10):
            command = Command(("true",), sandbox.work_tree, dict(os.environ))
            started = time.monotonic()
            if wrap:
                with sandbox.wrapped(command) as wrapped:
                    run(wrapped)
            else:
                run(command)
            seconds.append(time.monotonic() - started)
        return min(seconds)

    print(f"start-up: {best(True) * 1000:.1f} ms in the sandbox, {best(False) * 1000:.1f} ms without")


# ── git ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_where_there_is_no_git_folder_none_can_be_planted(sandbox: Sandbox) -> None:
    for attempt in ("mkdir .git", "echo x > .git/config", "rmdir .git", "mv .git x", "rm -rf .git", "git init -q ."):
        assert shell(sandbox, attempt)[0] != 0, attempt
    assert not (sandbox.work_tree / ".git").exists()


def test_a_git_folder_that_somebody_made_meanwhile_stays(sandbox: Sandbox) -> None:
    with sandbox.wrapped(Command(("true",), sandbox.work_tree, dict(os.environ))) as wrapped:
        run(wrapped)
        (sandbox.work_tree / ".git/HEAD").write_text("ref: refs/heads/main\n")
    assert (sandbox.work_tree / ".git/HEAD").exists()


def test_git_can_be_read_and_not_written(program: Path, tree: Path) -> None:
    git(tree, "init", "-q")
    (tree / "file").write_text("one\n")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "first")
    (tree / "file").write_text("two\n")
    sandbox = Sandbox(program, tree, protected=(tree / ".git",))
    code, out, err = shell(sandbox, "git diff --stat && git log --oneline && git status --short")
    assert code == 0, err
    assert "file | 2 +-" in out
    assert shell(sandbox, "git add -A")[0] != 0
    assert shell(sandbox, "git commit -q -a -m x")[0] != 0
    assert shell(sandbox, "git config core.fsmonitor ./evil")[0] != 0


def test_a_git_folder_deep_in_the_work_tree_can_not_be_moved_away(program: Path, tree: Path) -> None:
    deep = tree / "a/b/repository"
    deep.mkdir(parents=True)
    (deep / "config").write_text("[core]\n")
    sandbox = Sandbox(program, tree, protected=(deep,))
    for attempt in ("mv a x", "mv a/b x", "mv a/b/repository x", "rm -rf a", "echo x > a/b/repository/config"):
        assert shell(sandbox, attempt)[0] != 0, attempt
    assert shell(sandbox, "echo x > a/b/beside && mv a/b/beside a/moved")[0] == 0
    assert (deep / "config").read_text() == "[core]\n"


def test_a_linked_work_tree_of_a_repository_is_protected_as_a_whole(program: Path, tmp_path: Path) -> None:
    main, linked = tmp_path / "main", tmp_path / "linked"
    main.mkdir()
    git(main, "init", "-q")
    git(main, "commit", "-q", "--allow-empty", "-m", "first")
    git(main, "worktree", "add", "-q", "--detach", str(linked))
    repository = Repository.discover(linked)
    sandbox = Sandbox.around(repository, program=program)
    assert set(sandbox.protected) == {repository.git_dir, repository.common_dir}
    assert shell(sandbox, "git log --oneline")[0] == 0
    for path in (repository.git_dir / "commondir", repository.common_dir / "config", linked / ".git"):
        before = path.read_bytes()
        assert shell(sandbox, 'echo x > "$1"', str(path))[0] != 0
        assert shell(sandbox, 'mv "$1" "$1".away', str(path))[0] != 0
        assert path.read_bytes() == before


def test_a_git_folder_that_is_a_link_is_refused(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (sandbox.work_tree / ".git").symlink_to(tmp_path / "real")
    with pytest.raises(SafetyError, match=r"\.git is a symbolic link"):
        inside(sandbox, "true")


# ── what is named ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_named_folder_is_writable_at_its_place(sandbox: Sandbox, tmp_path: Path) -> None:
    folder = Path(os.environ["HOME"], f"agent-{tmp_path.name}")
    folder.mkdir(parents=True)
    named = replace(sandbox, writable=(folder,))
    assert shell(named, 'echo x > "$1/settings"', str(folder))[0] == 0
    assert (folder / "settings").exists()
    assert shell(sandbox, 'test -e "$1"', str(folder))[0] == 1


def test_a_named_link_is_there_as_well_as_what_it_leads_to(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/file").write_text("shown")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    named = replace(sandbox, readable=(tmp_path / "link",))
    assert shell(named, 'cat "$1/file"; echo x > "$1/file"', str(tmp_path / "link"))[:2] == (2, "shown")


def test_a_link_that_an_agent_could_have_made_is_not_followed(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/file").write_text("secret")
    (sandbox.work_tree / "cache").symlink_to(tmp_path / "secret")
    for named in (
        replace(sandbox, writable=(sandbox.work_tree / "cache",)),
        replace(sandbox, readable=(sandbox.work_tree / "cache",)),
        replace(sandbox, readable=(sandbox.work_tree / "cache/file",)),
    ):
        assert shell(named, "cat cache/file; echo x > cache/file")[0] != 0
    assert (tmp_path / "secret/file").read_text() == "secret"


def test_hidden_beats_what_it_lies_in(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "shown/state").mkdir(parents=True)
    (tmp_path / "shown/state/secret").write_text("secret")
    (tmp_path / "shown/plain").write_text("plain")
    named = replace(sandbox, writable=(tmp_path / "shown",), hidden=(tmp_path / "shown/state",))
    script = 'cd "$1"; cat plain; cat state/secret; echo x > state/new; mv state elsewhere; echo x > written'
    assert shell(named, script, str(tmp_path / "shown"))[1] == "plain"
    assert (tmp_path / "shown/state/secret").exists()
    assert [path.name for path in (tmp_path / "shown/state").iterdir()] == ["secret"]


def test_what_is_hidden_can_not_be_named_as_well(sandbox: Sandbox, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    hidden = replace(sandbox, hidden=(state,))
    for wrong in (
        replace(hidden, writable=(state,)),
        replace(hidden, readable=(state,)),
        replace(sandbox, hidden=(sandbox.work_tree,)),
    ):
        with pytest.raises(SafetyError, match="is hidden from a sandbox"):
            inside(wrong, "true")


def test_what_is_to_be_hidden_must_be_there(sandbox: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is to be hidden, and does not exist"):
        inside(replace(sandbox, hidden=(tmp_path / "later",)), "true")


def test_hidden_in_the_work_tree_can_not_be_moved(sandbox: Sandbox) -> None:
    (sandbox.work_tree / "deep/state").mkdir(parents=True)
    (sandbox.work_tree / "deep/state/secret").write_text("secret")
    named = replace(sandbox, hidden=(sandbox.work_tree / "deep/state",))
    assert shell(named, "cat deep/state/secret; mv deep x; cat x/state/secret")[1] == ""
    assert (sandbox.work_tree / "deep/state/secret").exists()


def test_what_a_call_needs_of_the_state_can_be_named(sandbox: Sandbox, tmp_path: Path) -> None:
    state = tmp_path / "state"
    (state / "runs/call").mkdir(parents=True)
    (state / "journal.db").write_text("secret")
    (state / "runs/prompt.md").write_text("prompt")
    named = replace(sandbox, hidden=(state,), writable=(state / "runs/call",), readable=(state / "runs/prompt.md",))
    script = (
        'cd "$1"; cat runs/prompt.md; echo x > runs/call/output; cat journal.db; echo x > runs/prompt.md; mv runs r'
    )
    assert shell(named, script, str(state))[1] == "prompt"
    assert (state / "runs/call/output").exists()
    assert (state / "runs/prompt.md").read_text() == "prompt"


def test_a_socket_that_is_named_can_be_reached_and_others_can_not(sandbox: Sandbox) -> None:
    places = [sandbox.work_tree / name for name in ("named", "other")]
    with contextlib.ExitStack() as stack:
        for place in places:
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(place))
            listener.listen()
        script = "import socket; [socket.socket(socket.AF_UNIX).connect(p) or print(p) for p in ('named', 'other')]"
        inside_tree = python(sandbox, script)
        assert (inside_tree.stdout.text, "ConnectionRefusedError" in inside_tree.stderr.text) == ("", True)
        outside = sandbox.work_tree.parent / "socket"
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(outside))
        listener.listen()
        script = f"import socket; socket.socket(socket.AF_UNIX).connect({str(outside)!r}); print('reached')"
        assert python(replace(sandbox, readable=(outside,)), script).stdout.text == "reached\n"
        assert python(replace(sandbox, readable=(outside.parent,)), script).stdout.text == ""


@pytest.mark.parametrize("kind", ["writable", "readable"])
def test_what_is_named_and_not_there_is_told(sandbox: Sandbox, kind: str, tmp_path: Path) -> None:
    wrong = (
        replace(sandbox, writable=(tmp_path / "gone",))
        if kind == "writable"
        else replace(sandbox, readable=(tmp_path / "gone",))
    )
    with pytest.raises(UsageError, match="gone is named for the sandbox, and does not exist"):
        inside(wrong, "true")


@pytest.mark.parametrize("path", ["/", "/tmp", "/etc", "/usr", "home", "above home"])
def test_too_much_can_not_be_named(sandbox: Sandbox, path: str) -> None:
    home = Path(os.environ["HOME"])
    named = {"home": home, "above home": home.parent}.get(path, Path(path))
    for wrong in (replace(sandbox, writable=(named,)), replace(sandbox, readable=(named,))):
        with pytest.raises(SafetyError, match="lies in it"):
            inside(wrong, "true")


def test_a_work_tree_around_the_home_is_refused(program: Path) -> None:
    with pytest.raises(SafetyError, match="lies in it"):
        inside(Sandbox(program, Path(os.environ["HOME"])), "true")


def test_nothing_in_what_is_protected_can_be_writable(program: Path, tree: Path) -> None:
    (tree / ".git/hooks").mkdir(parents=True)
    outside = tree.parent / "common"
    (outside / "hooks").mkdir(parents=True)
    with pytest.raises(SafetyError, match="is protected, and something in it is to be writable"):
        inside(Sandbox(program, tree, protected=(outside,), writable=(outside / "hooks",)), "true")
    # Within the work tree the name adds nothing, and the protection stays.
    sandbox = Sandbox(program, tree, writable=(tree / ".git/hooks",))
    assert shell(sandbox, "touch .git/hooks/post-checkout")[0] != 0


def test_only_the_file_descriptors_that_are_named_are_passed_on(sandbox: Sandbox, tmp_path: Path) -> None:
    with (tmp_path / "named").open("w+b") as named, (tmp_path / "other").open("w+b") as other:
        os.set_inheritable(other.fileno(), True)
        script = f"import os; os.write({named.fileno()}, b'told'); os.write({other.fileno()}, b'told')"
        command = Command(
            (sys.executable, "-c", script), sandbox.work_tree, dict(os.environ), pass_fds=(named.fileno(),)
        )
        with sandbox.wrapped(command) as wrapped:
            finished = run(wrapped)
        assert "Bad file descriptor" in finished.stderr.text
        assert (tmp_path / "named").read_text() == "told"
        assert (tmp_path / "other").read_text() == ""


def test_a_value_can_not_slip_in_an_order_for_bubblewrap(sandbox: Sandbox) -> None:
    with pytest.raises(UsageError, match="NUL byte"):
        inside(sandbox, "true", EVIL="x\0--bind\0/\0/")


def test_the_wrapped_command_can_not_be_run_again_without_its_walls(sandbox: Sandbox) -> None:
    with sandbox.wrapped(Command(("sh", "-c", "echo $$"), sandbox.work_tree, dict(os.environ))) as wrapped:
        assert run(wrapped).exit_code == 0
        again = run(wrapped)
    assert again.exit_code != 0
    assert again.stdout.text == ""


def test_a_library_path_of_the_project_does_not_reach_bubblewrap(sandbox: Sandbox) -> None:
    command = Command(("true",), sandbox.work_tree, {"LD_PRELOAD": "evil.so", "ITERCTL_RUN": "r", "TOKEN": "t"})
    with sandbox.wrapped(command) as wrapped:
        assert wrapped.environment == {"ITERCTL_RUN": "r"}
        assert "t" not in wrapped.arguments


def test_a_program_that_the_sandbox_hides_is_told_with_its_folder(sandbox: Sandbox, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "my-agent").write_text("#!/bin/sh\necho agent\n")
    (tools / "my-agent").chmod(0o755)
    path = f"{tools}:{os.environ['PATH']}"
    with pytest.raises(UsageError, match="my-agent can't be seen inside the sandbox") as caught:
        inside(sandbox, "my-agent", PATH=path)
    assert str(tools) in caught.value.hint
    assert inside(replace(sandbox, readable=(tools,)), "my-agent", PATH=path).stdout.text == "agent\n"


def test_a_hidden_interpreter_of_a_script_is_told_too(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "interpreter").symlink_to("/bin/sh")
    (tmp_path / "copy").write_bytes(Path("/bin/sh").read_bytes())
    script = sandbox.work_tree / "agent"
    script.write_text(f"#!{tmp_path}/copy\n")
    script.chmod(0o755)
    with pytest.raises(UsageError, match="copy lies in a home"):
        inside(sandbox, "./agent")


def test_a_program_that_is_nowhere_is_a_result(sandbox: Sandbox) -> None:
    finished = inside(sandbox, "no-such-program")
    assert finished.exit_code == 1
    assert "no-such-program: No such file or directory" in finished.stderr.text


def test_bubblewrap_in_a_writable_place_is_not_used(sandbox: Sandbox) -> None:
    copy = sandbox.work_tree / "bwrap"
    copy.write_bytes(sandbox.program.read_bytes())
    with pytest.raises(SafetyError, match="bubblewrap lies where a sandboxed command can write"):
        inside(replace(sandbox, program=copy), "true")


@pytest.mark.parametrize("home", ["/", "", "relative", "/nonexistent"])
def test_a_user_without_a_home_gets_one(sandbox: Sandbox, home: str) -> None:
    finished = inside(sandbox, "sh", "-c", 'cd "$HOME" && echo x > y && pwd', HOME=home)
    assert (finished.exit_code, finished.stdout.text) == (0, "/run/iterctl/home\n"), finished.stderr.text


def test_folders_that_variables_name_are_there(sandbox: Sandbox) -> None:
    script = 'echo x > "$TMPDIR/x" && echo x > "$XDG_RUNTIME_DIR/x"'
    finished = inside(sandbox, "sh", "-c", script, TMPDIR="/tmp/mine", XDG_RUNTIME_DIR="/run/user/77")
    assert finished.exit_code == 0, finished.stderr.text


# ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────────────

STUBBORN = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execvpe("sleep", ["sleep", sys.argv[1]], {"PATH": "/usr/bin:/bin"})
        os._exit(0)
print("ready", flush=True)
time.sleep(1000)
"""


def test_a_stubborn_command_is_gone_after_its_time(sandbox: Sandbox, mark: str) -> None:
    finished = python(sandbox, STUBBORN, mark, timeout=1)
    assert (finished.ended_by, finished.survivors) == ("timeout", 0)
    assert finished.stdout.text == "ready\n"
    assert carriers(mark) == []


def test_what_outlives_the_command_is_gone_with_it(sandbox: Sandbox, mark: str) -> None:
    finished = inside(sandbox, "sh", "-c", f"setsid sleep {mark} & echo ready")
    assert (finished.exit_code, finished.stdout.text) == (0, "ready\n")
    assert carriers(mark) == []


def test_nothing_is_left_when_bubblewrap_is_killed(sandbox: Sandbox, mark: str) -> None:
    killed: list[int] = []

    def kill(elapsed: float) -> bool:
        sleeping = [pid for pid in carriers(mark) if Path(f"/proc/{pid}/comm").read_text() == "sleep\n"]
        outer = [pid for pid in carriers(mark) if Path(f"/proc/{pid}/comm").read_text() == "bwrap\n"]
        if len(sleeping) >= 3 and outer and not killed:
            killed.append(min(outer))
            os.kill(min(outer), signal.SIGKILL)
        return elapsed > LONG

    arguments = (os.path.realpath(sys.executable), "-I", "-S", "-c", STUBBORN, mark)
    with sandbox.wrapped(Command(arguments, sandbox.work_tree, dict(os.environ))) as wrapped:
        finished = run(wrapped, tick=kill)
    assert killed
    assert (finished.exit_code, finished.survivors) == (-signal.SIGKILL, 0)
    wait_until(lambda: not carriers(mark), "the kernel has ended the namespace")


def test_nothing_is_left_when_the_driver_is_killed(sandbox: Sandbox, mark: str) -> None:
    script = f"""
import os, sys
from pathlib import Path
from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.process import Command, run
from pytest_iterctl.work.sandbox import Sandbox
with Sandbox(Path({str(sandbox.program)!r}), Path({str(sandbox.work_tree)!r})).wrapped(
    Command(("setsid", "sleep", "{mark}"), Path({str(sandbox.work_tree)!r}), dict(os.environ))
) as wrapped:
    run(wrapped)
"""
    with subprocess.Popen([sys.executable, "-c", script]) as driver:
        wait_until(
            lambda: any(
                Path(f"/proc/{pid}/comm").read_text() == "sleep\n" for pid in carriers(mark) if pid != driver.pid
            ),
            "the command runs",
        )
        driver.kill()
    wait_until(lambda: not carriers(mark), "all has ended")
