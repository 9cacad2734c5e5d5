"""Failure histories, played for real: a repository, agents and tests that are processes, a service on loopback.

A history says what each call of an agent does, as Python that runs in a process of its own, and what the service
answers that it speaks to. `iterctl run` does the rest; each is a fork of a process that has imported it, which saves
half a second and nothing else. What the run made of it is read from its journal.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pickle
import selectors
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NoReturn, Self

from measure import git

from pytest_iterctl import cli
from pytest_iterctl.cli.entry import run_command_line
from pytest_iterctl.control.events import Event, Judged, ReviewFinished, StrategyChosen, SuiteFinished, TurnFinished
from pytest_iterctl.control.failed_suite import of_suite
from pytest_iterctl.control.failed_turn import of_turn
from pytest_iterctl.loop.history import entries_of
from pytest_iterctl.store.database import Database
from pytest_iterctl.store.journal import Journal

__all__ = ["BROKEN", "FIXED", "Answer", "History", "Played", "play_all"]

BROKEN = "def double(number):\n    return number + number + 1\n"
FIXED = "def double(number):\n    return number * 2\n"
TESTS = """from calc import double


def test_one():
    assert double(1) == 2


def test_zero():
    assert double(0) == 0


def test_name():
    assert double.__name__ == "double"
"""
#: What every agent and reviewer begins with. Its own part follows, one for each call, the last one again and again.
PRELUDE = r"""
import json, os, pathlib, resource, signal, sys, time

tools, who, port = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
parts = json.loads((tools / f"{who}.json").read_text())
begun, ended = tools / f"{who}.begun", tools / "calls.ended"
number = begun.read_text().count("\n") if begun.exists() else 0
with begun.open("a") as log:
    log.write("\n")
sys.stdin.read()


def write(name, text):
    path = pathlib.Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def mend(more=""):
    write("calc.py", "def double(number):\n    return number * 2\n" + more)


def approve(**more):
    print(json.dumps({"status": "approve", **more}))


def ask(seconds=20):
    import urllib.request
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/messages", timeout=seconds) as answer:
        return answer.read()


def told_by(form):
    '''Ask, and say what came of it as one of the ways in which programs do.'''
    import urllib.error
    try:
        return ask()
    except urllib.error.HTTPError as error:
        code, reason, body = error.code, error.reason, error.read().decode()
        wait = error.headers.get("Retry-After")
    if form == "report":
        print(json.dumps({"error": f"API Error: {code} {reason}", **({"retry_after": float(wait)} if wait else {})}))
        sys.exit(1)
    sys.stderr.write(form.format(code=code, reason=reason, body=body) + "\n")
    sys.exit(1)


def played(name):
    '''What a tool printed once, as it was recorded.'''
    found = json.loads(pathlib.Path(name).read_text())
    sys.stdout.write(found["stdout"])
    sys.stderr.write(found["stderr"])
    sys.stdout.flush()
    sys.stderr.flush()
    code = found["exit_code"]
    os._exit(code if isinstance(code, int) and code >= 0 else 1)


try:
    exec(compile(parts[min(number, len(parts) - 1)], who, "exec"))
finally:
    with ended.open("a") as log:
        log.write("\n")
"""
#: Another runner than pytest, as other languages have them: it writes a JUnit report and takes a few milliseconds.
RUNNER = r"""
import pathlib, sys, traceback
from xml.sax.saxutils import quoteattr, escape
sys.path.insert(0, ".")
sys.dont_write_bytecode = True
cases = []


def told(name, error):
    kind = "failure" if isinstance(error, AssertionError) else "error"
    text = "".join(traceback.format_exception(error))
    first = f"{type(error).__name__}: {error}"
    result = f"<{kind} type={quoteattr(type(error).__name__)} message={quoteattr(first)}>{escape(text)}</{kind}>"
    cases.append((name, result))


try:
    import test_calc
except BaseException as error:
    told("test_calc", error)
else:
    for name in [name for name in vars(test_calc) if name.startswith("test_")]:
        try:
            getattr(test_calc, name)()
        except Exception as error:
            told(name, error)
        else:
            cases.append((name, ""))
bodies = "".join(f'<testcase classname="test_calc" name="{name}">{result}</testcase>' for name, result in cases)
pathlib.Path("report.xml").write_text(f"<testsuite>{bodies}</testsuite>")
sys.exit(any(result for _, result in cases))
"""
_PATIENCE = 120.0  # nothing here takes that long; what does, hangs
_POLL = 0.01
_WAITS = "20ms"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the service makes of one request."""

    status: int = 200
    reason: str = "OK"
    headers: tuple[str, ...] = ()
    body: str = "{}"
    #: `reset`: the connection is reset; `close`: it is closed without a word; `cut`: in the middle of the body.
    how: Literal["whole", "reset", "close", "cut"] = "whole"
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class History:
    """What happens, and what is to be made of it.

    In texts, `@PORT@` stands for the port of the service and `@TOOLS@` for a folder that outlives test runs.
    """

    error_type: str
    name: str
    stage: Literal["agent", "tests", "reviewer"]
    agent: tuple[str, ...] = ("mend()",)
    spare: tuple[str, ...] = ()
    reviewer: tuple[str, ...] = ()
    spec: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))  # more about the one that fails
    command: tuple[str, ...] = ()  # instead of the agent's own
    files: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    tests: tuple[str, ...] = ()  # arguments of pytest
    #: Who runs the tests: pytest, another runner, or pytest as a command that leaves a report.
    by: Literal["pytest", "other", "command"] = "pytest"
    answers: tuple[Answer, ...] = (Answer(),)
    refuses: int = 0  # calls of agents that end before the service listens
    settings: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    #: The strategies after the first, the reason of the last decision, how many calls it may take.
    follows: tuple[str, ...] = ()
    ends: str = "passed"
    most_calls: int = 9


@dataclass(frozen=True, slots=True)
class Played:
    """What a run made of it: the types of failures in order, the strategies after the first, how it ended."""

    types: tuple[str, ...] = ()
    strategies: tuple[str, ...] = ()
    reason: str = ""
    code: int = 0
    calls: int = 0
    seconds: float = 0.0
    told: str = ""
    document: dict[str, Any] = field(default_factory=dict)

    def differs(self, history: History) -> str:
        """Why this is not what the history is to lead to; '' when it is."""
        if not self.types:
            return f"nothing failed: {self.told}"
        wrong = sorted({kind for kind in self.types if kind != history.error_type})
        if wrong:
            return f"taken for {', '.join(wrong)}: {self.told}"
        if self.strategies != history.follows:
            return f"then {', '.join(self.strategies) or 'nothing'}, not {', '.join(history.follows) or 'nothing'}"
        if self.reason != history.ends:
            return f"ended as {self.reason}, not {history.ends}: {self.told}"
        if self.calls > history.most_calls:
            return f"{self.calls} calls, not {history.most_calls}"
        return ""


# ── many at once ─────────────────────────────────────────────────────────────────────────────────────────────────────


def play_all(jobs: Sequence[Callable[[Path], Played]], folder: Path) -> list[Played]:
    """Each in a process and a folder of its own, as many at once as there are processors."""
    for path in sorted(Path(cli.__file__).parent.glob("*.py")):
        importlib.import_module(f"{cli.__name__}.{path.stem}")  # what a command would import by itself
    waiting = list(range(len(jobs)))
    at_work: dict[int, int] = {}
    while waiting or at_work:
        while waiting and len(at_work) < (os.cpu_count() or 1):
            number = waiting.pop(0)
            place = folder / str(number)
            place.mkdir(parents=True)
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                _perform(jobs[number], place)
            at_work[child] = number
        child, status = os.wait()
        if (number := at_work.pop(child, -1)) >= 0 and status:
            sys.exit(f"error: {(folder / str(number) / 'problem').read_text()}")
    return [pickle.loads((folder / str(number) / "played").read_bytes()) for number in range(len(jobs))]


def _perform(job: Callable[[Path], Played], place: Path) -> NoReturn:
    code = 1
    try:
        (place / "played").write_bytes(pickle.dumps(job(place)))
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, the parent's code must never go on in the child
        (place / "problem").write_text(traceback.format_exc())
    finally:
        os._exit(code)


# ── one history ──────────────────────────────────────────────────────────────────────────────────────────────────────


def play(history: History, place: Path) -> Played:
    """Set the stage, run `iterctl run`, answer what the agents ask, and read the journal."""
    with Service(history, place / "tools") as service:
        write_project(history, place, service.port)
        return run_project(place, service.serve)


def run_project(place: Path, meanwhile: Callable[[Callable[[], bool]], None], **environment: str) -> Played:
    root = place / "project"
    variables = {
        **os.environ,
        **environment,
        "HOME": str(place / "home"),
        "ITERCTL_STATE_DIR": str(place / "state"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    began = time.monotonic()
    driver = os.fork()
    if driver == 0:
        _be_iterctl(root, place, variables)
    codes: list[int] = []

    def has_ended() -> bool:
        if time.monotonic() - began > _PATIENCE:
            os.kill(driver, signal.SIGTERM)
        pid, status = os.waitpid(driver, os.WNOHANG)
        if pid:
            codes.append(os.waitstatus_to_exitcode(status))
        return bool(pid)

    meanwhile(has_ended)
    printed, complained = ((place / name).read_text() for name in ("out", "err"))
    if not printed.startswith("{"):
        raise RuntimeError(f"iterctl run ended with {codes[0]}\n{printed}{complained}")
    return _read(json.loads(printed), place, codes[0], time.monotonic() - began)


def _be_iterctl(root: Path, place: Path, variables: Mapping[str, str]) -> NoReturn:
    code = 99
    try:
        os.chdir(root)
        os.environ.clear()
        os.environ.update(variables)
        for number, path in enumerate((Path(os.devnull), place / "out", place / "err")):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY, 0o600)
            os.dup2(descriptor, number)
            os.close(descriptor)
        sys.stdin = os.fdopen(0, "r", encoding="utf-8", closefd=False)
        code = run_command_line(["run", "--format", "json"])
    except BaseException:  # noqa: BLE001 - a traceback is what a process would leave
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def write_project(history: History, place: Path, port: int) -> None:
    root, tools = place / "project", place / "tools"
    for folder in (root, place / "home"):
        folder.mkdir()

    def filled(text: str) -> str:
        return text.replace("@PORT@", str(port)).replace("@TOOLS@", str(tools))

    (tools / "agent.py").write_text(PRELUDE)
    (tools / "runner.py").write_text(RUNNER)
    for who, parts in (("coder", history.agent), ("spare", history.spare), ("critic", history.reviewer)):
        (tools / f"{who}.json").write_text(json.dumps([filled(part) for part in parts]))
    files = {
        "calc.py": BROKEN,
        "test_calc.py": TESTS,
        ".gitignore": "__pycache__/\n.pytest_cache/\nreport.xml\n",
        "pytest.ini": "[pytest]\n",
        **history.files,
        "iterctl.yaml": json.dumps(_plan(history, tools, port)),
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(filled(text))
    commit(root)


def commit(root: Path) -> None:
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")


def _plan(history: History, tools: Path, port: int) -> dict[str, object]:
    def process(who: str) -> dict[str, object]:
        fails = who == ("critic" if history.stage == "reviewer" else "coder")
        own = [sys.executable, "-S", "-E", str(tools / "agent.py"), str(tools), who, str(port)]
        command = [*history.command] if history.command and fails else own
        return {"command": command, **(history.spec if fails else {})}

    agents = {"coder": process("coder")}
    if history.spare:
        agents["spare"] = process("spare")
        agents["coder"]["fallback"] = ["spare"]
    if history.reviewer or (history.command and history.stage == "reviewer"):
        agents["critic"] = process("critic")
    # Where the tests are not what it is about, they take as little time as they can.
    by = history.by if history.stage == "tests" else "other"
    other = [sys.executable, "-S", "-E", str(tools / "runner.py")]
    command = [sys.executable, "-m", "pytest", "--junitxml=report.xml", *history.tests]
    run = {"command": other if by == "other" else command, "junit": "report.xml"}
    how: dict[str, object] = {"tests": list(history.tests)} if by == "pytest" else {"test": run}
    settings = {
        "agent": "coder",
        "backoff_initial": _WAITS,
        "gate": "fast",
        "baseline_runs": 1,
        "max_iterations": 5,
        **history.settings,
    }
    task = {"id": "calc", "prompt": "double doubles", "review": ["critic"] if "critic" in agents else [], **how}
    return {"version": 1, "settings": settings, "agents": agents, "tasks": [task]}


def _read(document: dict[str, Any], place: Path, code: int, seconds: float) -> Played:
    (path,) = (place / "state").glob("*/journal.db")
    database = Database(path)
    events = [entry.event for entry in entries_of(Journal(database), document["run"])]
    database.close()
    failed = [found for event in events if (found := _failure_in(event)) is not None]
    task = document["tasks"][0]
    choices = [event.strategy.name for event in events if isinstance(event, StrategyChosen)]
    return Played(
        types=tuple(kind for kind, _ in failed),
        strategies=tuple(choices[1:]),
        reason=task["reason"] or task["state"],
        code=code,
        calls=sum(isinstance(event, TurnFinished | ReviewFinished) for event in events),
        seconds=seconds,
        told="; ".join(dict.fromkeys(sign for _, sign in failed))[:300] or task["explanation"],
        document=document,
    )


def _failure_in(event: Event) -> tuple[str, str] | None:
    """What the product says that it was, and by which sign; the tests of the beginning are nobody's failure."""
    match event:
        case TurnFinished():
            found, said = of_turn(event.turn, "generate"), event.turn.error
        case ReviewFinished():
            found, said = of_turn(event.turn, "review"), event.turn.error
        case SuiteFinished() if event.iteration:
            found, said = of_suite(event.suite), event.suite.reason
        case Judged() if event.gate.suite is not None:
            found, said = of_suite(event.gate.suite), event.gate.suite.reason
        case _:
            return None
    return (found.error_type, f"{found.sign} ({said})") if found is not None else None


# ── the service ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Service:
    """Answers requests one after the other, the last answer again and again; before it listens it refuses."""

    def __init__(self, history: History, tools: Path) -> None:
        tools.mkdir()
        self._answers, self._refuses, self._ended = list(history.answers), history.refuses, tools / "calls.ended"
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self._listens = False
        self.port: int = self._socket.getsockname()[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def serve(self, has_ended: Callable[[], bool]) -> None:
        with selectors.DefaultSelector() as selector:
            while not has_ended():
                if not self._listens and self._calls() >= self._refuses:
                    self._socket.listen()
                    selector.register(self._socket, selectors.EVENT_READ)
                    self._listens = True
                if not selector.get_map():
                    time.sleep(_POLL)
                elif selector.select(_POLL):
                    self._answer(self._socket.accept()[0])

    def _calls(self) -> int:
        try:
            return self._ended.read_text().count("\n")
        except OSError:
            return 0

    def _answer(self, connection: socket.socket) -> None:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        with contextlib.suppress(OSError), connection:
            connection.settimeout(5)
            request = b""
            while b"\r\n\r\n" not in request:
                request += connection.recv(4096) or b"\r\n\r\n"
            time.sleep(answer.delay)
            if answer.how == "reset":
                # Closed with nothing to wait for, and with the request unread as far as the other side knows.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif answer.how != "close":
                connection.sendall(_response(answer))


def _response(answer: Answer) -> bytes:
    body = answer.body.encode()
    head = (f"HTTP/1.1 {answer.status} {answer.reason}", f"Content-Length: {len(body)}", "Connection: close")
    sent = body[: len(body) // 2] if answer.how == "cut" else body
    return "\r\n".join([*head, *answer.headers, "", ""]).encode() + sent
