from __future__ import annotations

import json
import os
import resource
import secrets
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.work import process as process_module
from pytest_iterctl.work import supervisor
from pytest_iterctl.work.output import Bounded
from pytest_iterctl.work.process import Capture, Command, Finished, run

LONG = 60.0  # nothing here takes that long; what does, hangs


def carriers(mark: str) -> list[int]:
    """Living processes with this word in their command line (that of a zombie is empty)."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if mark.encode() in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.01)


@pytest.fixture
def mark() -> Iterator[str]:
    """A number of seconds to sleep that no other process sleeps for; whoever still does after the test is an orphan."""
    word = str(10**9 + secrets.randbelow(10**9))
    yield word
    left = carriers(word)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, "the test left processes behind"


def command(*arguments: str, timeout: float | None = LONG, stdin: bytes = b"", cwd: Path | None = None) -> Command:
    return Command(arguments, cwd or Path("/"), dict(os.environ), stdin=stdin, timeout=timeout)


def shell(script: str, *arguments: str, timeout: float | None = LONG) -> Command:
    return command("sh", "-c", script, "sh", *arguments, timeout=timeout)


def python(script: str, *arguments: str, timeout: float | None = LONG, stdin: bytes = b"") -> Command:
    return command(sys.executable, "-c", textwrap.dedent(script), *arguments, timeout=timeout, stdin=stdin)


def children(pid: int) -> list[str]:
    return [child for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@contextmanager
def driver(script: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another driver, in a process of its own that a test may kill."""
    prelude = """
        import os, resource, signal, sys, time
        from pathlib import Path
        from pytest_iterctl.work.process import Command, run
    """
    text = textwrap.dedent(prelude) + textwrap.dedent(script)
    with subprocess.Popen([sys.executable, "-c", text, *arguments], stdout=subprocess.PIPE) as child:
        try:
            yield child
        finally:
            child.kill()


# --- how it ends


@pytest.mark.parametrize("code", [0, 1, 3, 127, 255])
def test_the_exit_code_is_the_commands_own(code: int) -> None:
    finished = run(shell(f"exit {code}"))
    assert (finished.exit_code, finished.ended_by, finished.error) == (code, "exit", "")
    assert (finished.leftovers, finished.survivors) == (0, 0)
    assert finished.seconds < LONG


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGINT])
def test_a_signal_is_a_negative_exit_code(number: signal.Signals) -> None:
    assert run(shell(f"kill -{int(number)} $$")).exit_code == -number


def test_a_command_that_does_not_exist_is_told_and_not_raised() -> None:
    finished = run(command("no-such-command-anywhere"))
    assert (finished.exit_code, finished.ended_by) == (None, "exit")
    assert finished.error == "command not found: no-such-command-anywhere: No such file or directory"


def test_a_path_that_does_not_exist_is_told(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert run(command(str(missing))).error == f"command not found: {missing}: No such file or directory"


def test_a_file_that_is_not_executable_is_passed_over_for_a_later_one(tmp_path: Path) -> None:
    (tmp_path / "true").write_text("")
    path = f"{tmp_path}:{os.environ['PATH']}"
    assert run(Command(("true",), Path("/"), {"PATH": path})).exit_code == 0
    finished = run(Command(("true",), Path("/"), {"PATH": str(tmp_path)}))
    assert finished.error == f"not executable: {tmp_path}/true: Permission denied"


def test_a_file_that_is_not_executable_is_told(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert run(command(str(script))).error == f"not executable: {script}: Permission denied"


def test_a_file_of_no_known_format_is_told(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_bytes(b"\x01\x02\x03")
    script.chmod(0o755)
    assert run(command(str(script))).error == f"not executable: {script}: Exec format error"


def test_a_script_whose_interpreter_is_missing_is_told(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    assert run(command(str(script))).error == f"not executable: {script}: its interpreter does not exist"


def test_a_missing_working_directory_is_told(tmp_path: Path) -> None:
    finished = run(command("true", cwd=tmp_path / "gone"))
    assert finished.exit_code is None
    assert finished.error == f"working directory {tmp_path / 'gone'}: No such file or directory"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (Command((), Path("/"), {}), "no command is given"),
        (Command(("echo", "a\0b"), Path("/"), {}), "argument holds a NUL byte"),
        (Command(("echo", "\ud800"), Path("/"), {}), "argument cannot be encoded"),
        (Command(("true",), Path("/"), {"A=B": "c"}), "'A=B' is no name"),
        (Command(("true",), Path("/"), {"A": "b\0c"}), "variable A holds a NUL byte"),
        (Command(("echo", "x" * 200_000), Path("/"), {}), "Argument list too long"),
    ],
)
def test_what_no_system_could_start_is_told(bad: Command, reason: str) -> None:
    finished = run(bad)
    assert finished.exit_code is None
    assert finished.error.startswith("could not start: ")
    assert reason in finished.error


def test_a_supervisor_that_cannot_start_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    finished = run(command("true"))
    assert finished.exit_code is None
    assert finished.error.startswith("could not start the supervisor: ")


def test_a_supervisor_that_fails_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "supervisor.py"
    broken.write_text("raise RuntimeError('no luck today')\n")
    monkeypatch.setattr(process_module, "SUPERVISOR", broken)
    finished = run(command("true"))
    assert (finished.exit_code, finished.ended_by) == (None, "lost")
    assert finished.error == "the supervisor failed: RuntimeError: no luck today"


# --- what the command is given


def test_the_command_gets_exactly_the_environment_and_the_directory_it_was_given(tmp_path: Path) -> None:
    given_environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "ODD": "a=b\nc\udcff", "EMPTY": ""}
    script = "import os, sys; sys.stdout.write(ascii((sorted(os.environb.items()), os.getcwd())))"
    arguments = (sys.executable, "-X", "utf8=0", "-E", "-c", script)
    finished = run(Command(arguments, tmp_path, {**given_environment, "PYTHONCOERCECLOCALE": "0"}))
    pairs, cwd = eval(finished.stdout.text)
    got = {os.fsdecode(name): os.fsdecode(value) for name, value in pairs}
    assert len(got.pop("ITERCTL_CALL")) == 32
    # The command itself is a Python that may add this one; see PEP 538.
    got.pop("LC_CTYPE", None)
    assert got == {**given_environment, "PYTHONCOERCECLOCALE": "0"}
    assert cwd == str(tmp_path)


def test_arguments_arrive_byte_for_byte() -> None:
    odd = ("", " ", "ä€😀", "a\nb", "\udcff", "$HOME", "--", "=")
    finished = run(command("printf", "%s\\0", *odd))
    assert finished.stdout.head == b"".join(os.fsencode(argument) + b"\0" for argument in odd)


def test_a_command_is_looked_up_on_the_path_it_was_given(tmp_path: Path) -> None:
    script = tmp_path / "only-here"
    script.write_text("#!/bin/sh\necho found\n")
    script.chmod(0o755)
    assert run(Command(("only-here",), Path("/"), {"PATH": f"/nowhere:{tmp_path}"})).stdout.text == "found\n"
    assert run(Command(("./only-here",), tmp_path, {})).stdout.text == "found\n"
    assert run(Command(("only-here",), tmp_path, {"PATH": ""})).stdout.text == "found\n"


def test_the_command_starts_with_default_signals_in_a_session_of_its_own() -> None:
    script = """
        import os, signal
        assert os.getsid(0) == os.getpid() == os.getpgrp()
        assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())
        with open("/proc/self/status") as file:
            ignored = next(line for line in file if line.startswith("SigIgn"))
        # Python itself ignores two
        expected = 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1
        assert int(ignored.split()[1], 16) == expected, ignored
    """
    old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
    try:
        finished = run(python(script))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)
    assert finished.exit_code == 0, finished.stderr.text
    assert run(shell("yes | head -n 1; kill -PIPE $$")).exit_code == -signal.SIGPIPE


def test_the_command_gets_the_passed_descriptors_and_no_others() -> None:
    reader, writer = os.pipe()
    script = """
        import os, sys
        print(*(fd for fd in range(1000) if os.path.exists(f"/proc/self/fd/{fd}")))
        os.write(int(sys.argv[1]), b"through")
    """
    try:
        finished = run(replace(python(script, str(writer)), pass_fds=(writer,)))
        assert finished.exit_code == 0, finished.stderr.text
        assert os.read(reader, 100) == b"through"
        assert set(map(int, finished.stdout.text.split())) == {0, 1, 2, writer}
    finally:
        os.close(reader)
        os.close(writer)


def test_standard_streams_are_no_extra_descriptors() -> None:
    with pytest.raises(ValueError, match="standard streams"):
        run(Command(("true",), Path("/"), {}, pass_fds=(1,)))


def test_the_supervisor_keeps_no_copy_of_what_is_the_commands() -> None:
    reader, writer = os.pipe()
    pids: list[int] = []
    seen: list[set[str]] = []

    def look(name: str, data: bytes) -> None:
        if name == "stderr":  # the traceback of its interruption
            return
        commands = set(data.decode().split())
        wait_until(lambda: not commands & held(), "the supervisor has let go of the command's streams")
        seen.extend([commands, held()])

    def held() -> set[str]:
        return {str(link.readlink()) for link in Path(f"/proc/{pids[0]}/fd").iterdir()}

    script = """
        import os, sys, time
        os.write(1, " ".join(os.readlink(f"/proc/self/fd/{fd}") for fd in (0, 1, 2, sys.argv[1])).encode())
        time.sleep(1000)
    """
    try:
        watched = replace(python(script, str(writer), stdin=b"x"), pass_fds=(writer,))
        run(watched, on_start=pids.append, on_output=look, tick=lambda elapsed: bool(seen))
    finally:
        os.close(reader)
        os.close(writer)
    commands, supervisors = seen
    assert not commands & supervisors
    assert len(commands) == 4
    assert not any("orders" in link for link in supervisors)


def test_the_supervisor_holds_the_calls_tags_and_none_of_the_secrets() -> None:
    seen: list[bytes] = []
    environment = {**os.environ, "ITERCTL_RUN": "r1", "MY_TOKEN": "hush"}

    def look(pid: int) -> None:
        # Right after its start a process shows no environment yet.
        wait_until(lambda: Path(f"/proc/{pid}/environ").read_bytes(), "the environment is there")
        seen.append(Path(f"/proc/{pid}/environ").read_bytes())

    run(Command(("sleep", "1000"), Path("/"), environment), on_start=look, tick=lambda _: True)
    assert b"ITERCTL_RUN=r1\0" in seen[0]
    assert b"hush" not in seen[0]


# --- standard input


def test_standard_input_is_written_and_closed() -> None:
    data = secrets.token_bytes(3_000_000)
    finished = run(command("cat", stdin=data), keep=2_000_000)
    assert finished.stdout.head + finished.stdout.tail == data


def test_without_input_a_reader_sees_the_end_at_once() -> None:
    assert run(command("cat")).exit_code == 0


def test_a_command_that_never_reads_its_input_does_not_hang_us() -> None:
    assert run(command("sleep", "0.1", stdin=b"x" * 50_000_000)).exit_code == 0


def test_a_command_that_closes_its_input_early_goes_on_undisturbed() -> None:
    script = "head -c 10; exec 0<&-; sleep 0.1; echo done"
    finished = run(command("sh", "-c", script, stdin=b"y" * 5_000_000))
    assert (finished.exit_code, finished.stdout.text) == (0, "y" * 10 + "done\n")


def test_a_command_that_writes_before_it_reads_does_not_block() -> None:
    script = "head -c 5000000 /dev/zero; wc -c >&2"
    finished = run(command("sh", "-c", script, stdin=b"z" * 5_000_000))
    assert finished.stdout.total == 5_000_000
    assert finished.stderr.text.strip() == "5000000"


# --- output


def test_streams_are_kept_apart_and_told_piece_by_piece() -> None:
    pieces: list[tuple[str, bytes]] = []
    finished = run(shell("echo out; echo err >&2"), on_output=lambda name, data: pieces.append((name, data)))
    assert (finished.stdout.text, finished.stderr.text) == ("out\n", "err\n")
    assert sorted(pieces) == [("stderr", b"err\n"), ("stdout", b"out\n")]


def test_long_output_keeps_its_beginning_and_its_end() -> None:
    finished = run(shell("echo first; head -c 1000000 /dev/zero; echo; echo last"), keep=1000)
    assert finished.stdout.total == 1_000_012
    assert finished.stdout.omitted == 1_000_012 - 2000
    assert finished.stdout.text.startswith("first\n")
    assert finished.stdout.text.endswith("\nlast\n")
    assert f"\n[… {finished.stdout.omitted} bytes omitted …]\n" in finished.stdout.text


@given(st.binary(max_size=200), st.integers(0, 60), st.integers(1, 40))
def test_a_capture_is_exact_about_what_it_kept(data: bytes, keep: int, step: int) -> None:
    bounded = Bounded(keep)
    for start in range(0, len(data), step):
        bounded.add(data[start : start + step])
    capture = bounded.capture()
    assert capture.total == len(data) == len(capture.head) + capture.omitted + len(capture.tail)
    assert data.startswith(capture.head)
    assert data.endswith(capture.tail)
    assert len(capture.head) <= keep
    assert len(capture.tail) <= keep
    assert capture.omitted == max(0, len(data) - 2 * keep)


def test_text_survives_bytes_that_are_none_and_characters_across_the_middle() -> None:
    assert Capture(b"\xff", b"", 0, 1).text == "\ufffd"
    assert Capture("ä".encode()[:1], "ä".encode()[1:], 0, 2).text == "ä"
    assert Capture(b"a\n", b"b", 5, 8).text == "a\n[… 5 bytes omitted …]\nb"
    assert Capture(b"", b"b", 5, 6).text == "[… 5 bytes omitted …]\nb"


def test_a_hundred_megabytes_of_output_need_little_memory() -> None:
    script = """
        command = ("head", "-c", "100000000", "/dev/zero")
        run(Command(("true",), Path("/"), dict(os.environ)))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        finished = run(Command(command, Path("/"), dict(os.environ)))
        assert finished.stdout.total == 100_000_000
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    with driver(script) as child:
        output, _ = child.communicate(timeout=LONG)
    assert int(output) < 32 * 1024


# --- time limits and stops


def test_a_timeout_ends_the_command() -> None:
    finished = run(command("sleep", "1000", timeout=0.2))
    assert (finished.exit_code, finished.ended_by) == (-signal.SIGINT, "timeout")
    assert 0.2 <= finished.seconds < LONG


def test_a_command_may_leave_in_its_own_way_when_interrupted() -> None:
    finished = run(shell("trap 'echo bye; exit 7' INT; echo ready; while :; do sleep 0.01; done", timeout=0.3))
    assert (finished.exit_code, finished.ended_by, finished.stdout.text) == (7, "timeout", "ready\nbye\n")


def test_a_command_that_ignores_the_interrupt_is_terminated(mark: str) -> None:
    finished = run(shell("trap '' INT; sleep $1 & wait", mark, timeout=0.2))
    assert (finished.exit_code, finished.ended_by) == (-signal.SIGTERM, "timeout")


def test_a_tree_that_ignores_everything_is_killed(mark: str) -> None:
    script = "trap '' INT TERM HUP; (setsid sh -c 'trap \"\" INT TERM; sleep $0; sleep $0' $1) & sleep $1; sleep $1"
    finished = run(shell(script, mark, timeout=0.2))
    assert (finished.exit_code, finished.ended_by, finished.survivors) == (-signal.SIGKILL, "timeout", 0)
    assert not carriers(mark)


def test_a_stopped_process_is_ended_too(mark: str) -> None:
    finished = run(shell("sleep $1 & kill -STOP $!; kill -STOP $$; sleep $1", mark, timeout=0.2))
    assert finished.ended_by == "timeout"
    assert not carriers(mark)


def test_tick_stops_the_command_and_is_told_the_time(mark: str) -> None:
    ticks: list[float] = []

    def tick(elapsed: float) -> bool:
        ticks.append(elapsed)
        return elapsed > 0.1

    finished = run(shell("sleep $1", mark, timeout=None), tick=tick, tick_interval=0.02)
    assert finished.ended_by == "stop"
    assert finished.exit_code in {-signal.SIGINT, -signal.SIGTERM}
    assert ticks == sorted(ticks)
    assert len(ticks) > 2
    assert not carriers(mark)


def test_a_very_long_limit_is_a_limit_like_any_other() -> None:
    for timeout in (1e9, float("inf")):
        assert run(command("true", timeout=timeout)).exit_code == 0


# --- nothing outlives the call


ESCAPES = {
    "background": "sleep $1 &",
    "own session": "setsid sleep $1 &",
    "own session, no environment": "env -i setsid sleep $1 >/dev/null 2>&1 &",
    "daemon that holds the pipe": "(setsid sh -c 'sleep $0 & exit' $1 &) ",
    "daemon that ignores signals": "(setsid sh -c 'trap \"\" INT TERM HUP; (sleep $0; :) & exit' $1 &)",
}


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES.keys())
def test_what_outlives_the_command_is_ended_and_counted(escape: str, mark: str) -> None:
    finished = run(shell(f"{escape}\necho out\nexit 5", mark))
    assert (finished.exit_code, finished.ended_by, finished.stdout.text) == (5, "exit", "out\n")
    assert finished.leftovers in {1, 2}
    assert not carriers(mark)


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES.keys())
def test_a_timeout_ends_what_has_escaped(escape: str, mark: str) -> None:
    finished = run(shell(f"{escape}\nsleep $1", mark, timeout=0.3))
    assert (finished.ended_by, finished.survivors) == ("timeout", 0)
    assert not carriers(mark)


def test_a_child_that_is_about_to_leave_is_no_leftover(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "GRACES", (0.5, 1.0, LONG))
    finished = run(shell("(sleep 0.05) >/dev/null 2>&1 & exit 0"))
    assert (finished.exit_code, finished.leftovers) == (0, 0)


RESPAWN = """
    import os, signal, sys, time
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    leader = os.getpid()
    for _ in range(int(sys.argv[1])):
        if os.fork() == 0:
            break
    if os.getpid() == leader:
        time.sleep(1000)
    while True:  # each is followed by its child a moment later
        if sys.argv[2] == "sessions":
            os.getsid(0) == os.getpid() or os.setsid()
        time.sleep(0.05)
        if os.fork():
            os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("number", "groups"), [(200, "one group"), (60, "sessions")])
def test_processes_that_respawn_without_end_are_ended(number: int, groups: str, mark: str) -> None:
    finished = run(python(RESPAWN, str(number), groups, mark, timeout=1.0))
    assert (finished.exit_code, finished.ended_by, finished.survivors) == (-signal.SIGKILL, "timeout", 0)
    assert not carriers(mark)


def test_two_that_revive_each_other_are_both_ended(mark: str) -> None:
    script = """
        import os, signal, sys, time
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        if os.fork() == 0:
            os.setsid()
        while True:
            child = os.fork()
            if child == 0:
                time.sleep(1000)
            os.waitpid(child, 0)
    """
    finished = run(python(script, mark, timeout=0.3))
    assert (finished.ended_by, finished.survivors) == ("timeout", 0)
    assert not carriers(mark)


def test_descendants_are_found_with_and_without_the_kernels_list_of_children(
    mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids: list[int] = []
    found: list[set[int]] = []

    def look(name: str, data: bytes) -> None:
        wait_until(lambda: len(carriers(mark)) == 3, "the tree has grown")
        found.append(set(supervisor.descendants(pids)))
        with monkeypatch.context() as patched:
            patched.setattr(os.path, "exists", lambda path: False)
            found.append(set(supervisor.descendants(pids)))
        found.append(set(carriers(mark)))

    script = "setsid sleep $1 & (sleep $1 &) ; echo up; exec sleep $1"
    run(shell(script, mark), on_start=pids.append, on_output=look, tick=lambda _: bool(found))
    assert found[0] == found[1] == found[2]


def test_the_dead_are_buried_while_the_command_runs(mark: str) -> None:
    pids: list[int] = []
    seen: list[str] = []

    def look(name: str, data: bytes) -> None:
        wait_until(lambda: len(children(pids[0])) == 1, "only the command is left")
        seen.append(name)

    script = "for i in 1 2 3 4 5 6 7 8 9 10; do (true &) ; done; echo up; sleep $1"
    finished = run(shell(script, mark), on_start=pids.append, on_output=look, tick=lambda _: bool(seen))
    assert finished.ended_by == "stop"


# --- the driver or the supervisor dies


TREE = "env -i setsid sleep {0} >/dev/null 2>&1 & setsid sleep {0} & sleep {0} & (sleep {0} &) ; echo up; sleep {0}"


def test_when_the_driver_is_killed_the_whole_tree_goes(mark: str) -> None:
    script = """
        command = Command(("sh", "-c", sys.argv[1]), Path("/"), dict(os.environ))
        run(command, on_output=lambda *_: print("up", flush=True))
    """
    with driver(script, TREE.format(mark)) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        wait_until(lambda: len(carriers(mark)) >= 6, "the tree has grown")
        child.kill()
    wait_until(lambda: not carriers(mark), "the tree is gone")


def test_when_the_driver_is_killed_a_forked_copy_of_it_keeps_nothing_alive(mark: str) -> None:
    script = """
        def fork(pid):
            if os.fork() == 0:
                time.sleep(30)
                os._exit(0)
            print("up", flush=True)
        run(Command(("sleep", sys.argv[1]), Path("/"), dict(os.environ)), on_start=fork)
    """
    with driver(script, mark) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        wait_until(lambda: len(carriers(mark)) >= 3, "the command runs")
        copies = {pid for pid in carriers(mark) if parent(pid) == child.pid}
        child.kill()
        child.wait()
        try:
            wait_until(lambda: set(carriers(mark)) <= copies, "the command is gone")
        finally:
            for pid in copies.intersection(carriers(mark)):
                os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not carriers(mark), "the copy is gone")


def test_when_the_supervisor_is_killed_the_driver_ends_the_tree(mark: str) -> None:
    pids: list[int] = []

    def kill_supervisor(name: str, data: bytes) -> None:
        if name == "stdout":  # later a shell may complain on the other stream that its children were terminated
            wait_until(lambda: len(carriers(mark)) >= 5, "the tree has grown")
            os.kill(pids[0], signal.SIGKILL)

    # All but the one without an environment, which nobody can recognise once its parents are gone.
    tree = TREE.replace("env -i setsid", "setsid")
    finished = run(shell(tree.format(mark)), on_start=pids.append, on_output=kill_supervisor)
    assert (finished.exit_code, finished.ended_by, finished.error) == (None, "lost", "")
    assert finished.stdout.text == "up\n"
    assert finished.leftovers >= 5
    assert not carriers(mark)


def test_a_child_without_environment_goes_with_its_parent_when_the_supervisor_is_killed(mark: str) -> None:
    pids: list[int] = []

    def kill_supervisor(name: str, data: bytes) -> None:
        if name == "stdout":
            wait_until(lambda: len(carriers(mark)) >= 2, "the tree has grown")
            os.kill(pids[0], signal.SIGKILL)

    script = "env -i setsid sleep $1 >/dev/null 2>&1 & echo up; wait"
    assert run(shell(script, mark), on_start=pids.append, on_output=kill_supervisor).ended_by == "lost"
    assert not carriers(mark)


def test_a_forged_result_of_a_killed_supervisor_is_not_believed(mark: str) -> None:
    pids: list[int] = []
    fields = {"exit": 0, "signal": None, "ended_by": "exit", "leftovers": 0, "survivors": 0}
    forged = json.dumps({**fields, "seconds": 0.1, "maxrss_kb": 1, "error": None})
    script = f"sleep $1 & echo '{forged}' > /proc/$PPID/fd/1; kill -9 $PPID; wait"
    finished = run(shell(script, mark), on_start=pids.append)
    assert (finished.exit_code, finished.ended_by) == (None, "lost")
    assert not carriers(mark)


def test_a_supervisor_that_hangs_is_given_up(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "SUPERVISOR_PATIENCE", 0.5)
    monkeypatch.setattr(supervisor, "KILL_PATIENCE", 0.0)
    script = "env -i setsid sleep $1 >/dev/null 2>&1 & kill -STOP $PPID; sleep $1"
    finished = run(shell(script, mark, timeout=0.3))
    assert finished.ended_by == "lost"
    assert not carriers(mark)


# --- exceptions on our side


def test_an_exception_of_a_callback_ends_the_tree_and_goes_on(mark: str) -> None:
    def fail(*arguments: object) -> bool:
        raise LookupError("mine")

    for arguments in ({"tick": fail}, {"on_output": fail}, {"on_start": fail}):
        with pytest.raises(LookupError, match="mine"):
            run(shell("echo up; setsid sleep $1 & sleep $1", mark), **arguments)  # type: ignore[arg-type]
        assert not carriers(mark)


def test_ctrl_c_ends_the_tree_and_goes_on(mark: str) -> None:
    def press(name: str, data: bytes) -> None:
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(shell("setsid sleep $1 & echo up; sleep $1", mark), on_output=press)
    assert not carriers(mark)


def test_a_second_ctrl_c_skips_the_graces(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "GRACES", (1000.0, 1000.0, 0.2))
    presses = [threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT)) for delay in (0.3, 0.8)]
    for press in presses:
        press.start()
    with pytest.raises(KeyboardInterrupt):
        run(shell("trap '' INT TERM; sleep $1; sleep $1", mark, timeout=None))
    assert not carriers(mark)
    for press in presses:
        press.join()


# --- many times, many at once


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_no_descriptor_is_lost_in_any_way_out(mark: str, tmp_path: Path) -> None:
    def fail(*arguments: object) -> bool:
        raise LookupError

    def every_way_out() -> None:
        run(command("true"))
        run(command("cat", stdin=b"x" * 200_000))
        run(command("no-such-command-anywhere"))
        run(command("true", cwd=tmp_path / "gone"))
        run(Command((), Path("/"), {}))
        run(shell("setsid sleep $1 &", mark))
        run(command("sleep", mark, timeout=0.01, stdin=b"x" * 200_000))
        run(shell("kill -9 $PPID; sleep $1", mark))
        with pytest.raises(LookupError):
            run(command("sleep", mark), on_start=fail)  # type: ignore[arg-type]

    every_way_out()
    before = open_descriptors()
    for _ in range(3):
        every_way_out()
    assert open_descriptors() == before


def test_no_child_of_ours_is_left_unburied(mark: str) -> None:
    before = children(os.getpid())
    for _ in range(3):
        run(command("true"))
        run(shell("setsid sleep $1 & kill -9 $PPID; sleep $1", mark))
    assert children(os.getpid()) == before


def test_threads_run_commands_side_by_side() -> None:
    def one(number: int) -> Finished:
        return run(shell(f"cat; sleep 0.0{number % 10}; exit {number}"))

    with ThreadPoolExecutor(8) as pool:
        assert [finished.exit_code for finished in pool.map(one, range(40))] == list(range(40))


def test_stopping_one_of_many_leaves_the_others_alone(mark: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        others = [pool.submit(run, shell("sleep 1; echo fine")) for _ in range(3)]
        stopped = pool.submit(run, shell("sleep $1", mark), tick=lambda elapsed: elapsed > 0.1)
        assert stopped.result().ended_by == "stop"
        assert [other.result().stdout.text for other in others] == ["fine\n"] * 3


def test_it_works_without_standard_streams() -> None:
    script = """
        kept = os.dup(1)
        for fd in (0, 1, 2):
            os.close(fd)
        finished = run(Command(("sh", "-c", "cat; echo more"), Path("/"), dict(os.environ), stdin=b"in "))
        os.write(kept, repr((finished.exit_code, finished.stdout.text)).encode())
    """
    with driver(script) as child:
        output, _ = child.communicate(timeout=LONG)
    assert output == b"(0, 'in more\\n')"


def test_peak_memory_of_the_command_is_told() -> None:
    finished = run(python("x = b'x' * 100_000_000"))
    assert 90_000 < finished.max_rss_kb < 400_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0
