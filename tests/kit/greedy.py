"""A process that does all it can to outlast its limits. Started as `greedy.py FOLDER ACTS MARKER`.

It ignores every signal that can be ignored, floods both of its streams, and has three others with it: a child in its
own group, a daemon in a session of its own without streams, and a daemon that moreover has another command line and an
empty environment. Each of them writes to a file in FOLDER twenty times a second, so whoever is left over is seen even
where nothing tells who it is. ACTS (JSON) says what it does at its first, second, … call; MARKER is only carried along.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import sys
import time
from collections.abc import Callable
from typing import NoReturn

ROLES = ("leader", "child", "daemon", "bare")
#: In a program of its own, which has nothing of ours about it.
BARE = """
import os, signal, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
count = 0
while True:
    count += 1
    with open(f"bare-{os.getpid()}", "w") as file:
        file.write(str(count))
    time.sleep(0.05)
"""
_BEAT = 0.05

#: Tests that fail until the file is there. Then they pass, or are greedy.
SUITE = """
import os, pathlib, sys
there = pathlib.Path("a.txt").exists()
if there and len(sys.argv) > 1:
    os.execv(sys.executable, [sys.executable, "-S", "-E", *sys.argv[1:]])
failure = "" if there else '<failure message="there is no a.txt"/>'
pathlib.Path("report.xml").write_text(f'<testsuite><testcase name="there">{failure}</testcase></testsuite>')
sys.exit(not there)
"""


def stubborn() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def quiet() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)


def beat(folder: pathlib.Path, role: str, count: int) -> None:
    folder.joinpath(f"{role}-{os.getpid()}").write_text(str(count))


def go_on(folder: pathlib.Path, role: str, *, flood: bool) -> NoReturn:
    count = 0
    while True:
        count += 1
        beat(folder, role, count)
        for stream in (1, 2) if flood else ():
            with contextlib.suppress(OSError):
                os.write(stream, b"give me more\n" * 5000)
        time.sleep(_BEAT)


def detached(start: Callable[[], NoReturn]) -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            quiet()
            start()
        os._exit(0)


def bare(folder: pathlib.Path) -> NoReturn:
    os.chdir(folder)
    os.execve(sys.executable, [sys.executable, "-S", "-E", "-c", BARE], {})


def lives(folder: pathlib.Path, role: str) -> bool:
    return any(each.name.startswith(role) and each.stat().st_size for each in folder.iterdir())


def gather(folder: pathlib.Path, *, sleeps: bool) -> None:
    """All of them at work before anything else is done."""
    stubborn()
    detached(lambda: go_on(folder, "daemon", flood=False))
    detached(lambda: bare(folder))
    if os.fork() == 0:
        if not sleeps:
            quiet()  # what it printed after the report would make the report none
        go_on(folder, "child", flood=sleeps)
    beat(folder, "leader", 1)
    end = time.monotonic() + 30
    while not all(lives(folder, role) for role in ROLES) and time.monotonic() < end:
        time.sleep(0.005)


def main() -> int:
    folder, acts = pathlib.Path(sys.argv[1]), json.loads(sys.argv[2])
    calls = folder.parent / "greedy-calls"
    with calls.open("a") as log:
        record = {"pid": os.getpid(), "stage": os.environ.get("ITERCTL_STAGE", "test"), "at": time.time()}
        log.write(json.dumps(record) + "\n")
    act = acts[min(calls.read_text().count("\n"), len(acts)) - 1]
    for name, content in act.get("write", {}).items():
        pathlib.Path(name).write_text(content)
    sleeps = bool(act.get("sleeps"))
    if act.get("greedy", True):
        gather(folder, sleeps=sleeps)
    if sleeps:
        go_on(folder, "leader", flood=True)
    if "report" in act:
        sys.stdout.write("\n" + act["report"] + "\n")
    return int(act.get("exit", 0))


if __name__ == "__main__":
    sys.exit(main())
