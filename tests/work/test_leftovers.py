from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pytest_iterctl.work import leftovers
from pytest_iterctl.work.leftovers import end_leftovers, is_alive, process_start

LONG = 60.0


class Family:
    """Processes of a test, all of which are gone after it."""

    def __init__(self, stack: ExitStack) -> None:
        self.stack = stack
        self.run = f"test-{secrets.token_hex(4)}"
        self.mark = str(10**9 + secrets.randbelow(10**9))

    def start(self, script: str, *, run: str | None = None) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "ITERCTL_RUN": self.run if run is None else run}
        child = subprocess.Popen(["sh", "-c", script, self.mark], env=environment, start_new_session=True)
        self.stack.callback(child.wait)
        self.stack.callback(child.kill)
        return child

    def carriers(self) -> list[int]:
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    if self.mark.encode() in (folder / "cmdline").read_bytes():
                        found.append(int(folder.name))
                except OSError:
                    continue
        return found

    def wait_for(self, number: int) -> None:
        wait_until(lambda: len(self.carriers()) >= number, f"there are {number} processes")


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.01)


@pytest.fixture
def family() -> Iterator[Family]:
    with ExitStack() as stack:
        it = Family(stack)
        yield it
        left = it.carriers()
        for pid in left:
            os.kill(pid, signal.SIGKILL)


def test_a_runs_processes_are_ended_with_their_descendants_and_counted(family: Family) -> None:
    family.start("env -i setsid sleep $0 & setsid sleep $0 & sleep $0")
    family.wait_for(4)
    assert end_leftovers(family.run) == 4
    assert not family.carriers()


def test_those_that_ignore_the_polite_request_are_killed(family: Family) -> None:
    family.start("trap '' TERM; sleep $0; sleep $0; sleep $0")
    family.wait_for(2)
    assert end_leftovers(family.run) >= 2
    assert not family.carriers()


def test_the_orphans_of_a_killed_parent_are_found_by_their_tag(family: Family) -> None:
    child = family.start("setsid sleep $0 & setsid sleep $0 & sleep $0")
    family.wait_for(4)
    child.kill()
    child.wait()
    assert end_leftovers(family.run) == 3
    assert not family.carriers()


@pytest.mark.parametrize("change", [lambda run: run + "0", lambda run: "x" + run, lambda run: run[:-1], lambda run: ""])
def test_another_runs_processes_are_left_alone(family: Family, change: Callable[[str], str]) -> None:
    family.start("sleep $0; :", run=change(family.run))
    family.wait_for(2)
    assert end_leftovers(family.run) == 0
    assert len(family.carriers()) == 2


def test_with_nothing_left_there_is_nothing_to_do(family: Family) -> None:
    started = time.monotonic()
    assert end_leftovers(family.run) == 0
    assert time.monotonic() - started < LONG


def test_we_and_our_ancestors_are_spared(family: Family) -> None:
    script = "from pytest_iterctl.work.leftovers import end_leftovers; import sys; print(end_leftovers(sys.argv[1]))"
    environment = {**os.environ, "ITERCTL_RUN": family.run}
    shell = ["sh", "-c", 'sleep $3 & "$0" -c "$1" "$2"; wait', sys.executable, script, family.run, family.mark]
    finished = subprocess.run(shell, env=environment, capture_output=True, text=True, check=False, timeout=LONG)
    assert (finished.returncode, finished.stdout) == (0, "1\n"), finished.stderr
    assert not family.carriers()


def test_an_id_that_was_used_again_is_another_process() -> None:
    start = process_start(os.getpid())
    assert start is not None
    assert is_alive(os.getpid(), start)
    assert not is_alive(os.getpid(), start + 1)


def test_a_process_that_waits_to_be_reaped_is_not_alive() -> None:
    child = subprocess.Popen(["sleep", "1000"])
    start = process_start(child.pid)
    assert start is not None
    assert is_alive(child.pid, start)
    child.kill()
    wait_until(lambda: not is_alive(child.pid, start), "it is dead")
    assert process_start(child.pid) == start
    child.wait()
    assert process_start(child.pid) is None
    assert not is_alive(child.pid, start)


@pytest.mark.parametrize("name", [") S 1 2 (", "a b", "((", "))"])
def test_the_start_time_is_read_past_any_name(name: str, tmp_path: Path) -> None:
    program = tmp_path / name
    program.symlink_to("/bin/sleep")
    with subprocess.Popen(["sleep", "1000"]) as plain, subprocess.Popen([str(program), "1000"]) as odd:
        try:
            expected, start = process_start(plain.pid), process_start(odd.pid)
            assert expected is not None
            assert start is not None
            assert 0 <= start - expected < LONG * os.sysconf("SC_CLK_TCK")
        finally:
            plain.kill()
            odd.kill()


def test_start_times_agree_with_the_clock() -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    with subprocess.Popen(["sleep", "1000"]) as child:
        try:
            start = process_start(child.pid)
            assert start is not None
            assert abs(start / ticks - uptime) < LONG
        finally:
            child.kill()


def test_a_process_named_besides_the_tag_is_ended_only_if_it_is_the_same_one(family: Family) -> None:
    child = family.start("exec sleep $0")
    family.wait_for(1)
    (identity,) = leftovers.identify([child.pid])
    assert not leftovers.end_tagged("ITERCTL_CALL=nobody", also=[identity._replace(start=identity.start + 1)])
    assert leftovers.is_alive(*identity)
    assert leftovers.end_tagged("ITERCTL_CALL=nobody", also=[identity]) == {identity}
    assert not leftovers.is_alive(*identity)
