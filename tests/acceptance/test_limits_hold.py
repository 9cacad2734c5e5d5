"""Limits against processes that do all they can to outlast them: each ends the run, says its name and leaves nobody.

What they do is in `tests/kit/greedy.py`. How soon each limit ends them is measured by `benchmarks/limits.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.kit import greedy
from tests.kit.project import FIXED, Project, Ran

ROLES = set(greedy.ROLES)
ABSURD = 999_999.0  # dollars; a million is the most that a limit can be
LONG = 90.0  # nothing here takes that long; what does, hangs


@dataclass(frozen=True, slots=True)
class Greed:
    """Greedy processes in a project whose task is to make a file, and all that is left of them."""

    project: Project
    marker: str

    @property
    def beats(self) -> Path:
        return self.project.tools / "beats"

    def command(self, *acts: dict[str, Any]) -> list[str]:
        """What the greedy process does at its first, second, … call; the last is repeated."""
        return [sys.executable, "-S", "-E", greedy.__file__, str(self.beats), json.dumps(acts), self.marker]

    @property
    def calls(self) -> list[dict[str, Any]]:
        log = self.project.tools / "greedy-calls"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def plan(
        self,
        *,
        agent: list[str] | None = None,
        tests: list[str] | None = None,
        reviewer: list[str] | None = None,
        **settings: object,
    ) -> None:
        """Whoever is not named does an honest turn."""
        honest = [sys.executable, "-S", "-c", "open('a.txt', 'w').write('done')"]
        suite = [sys.executable, "-S", "-E", str(self.project.tools / "suite.py"), *(tests or [])[3:]]
        document = {
            "version": 1,
            "settings": {"agent": "coder", "backoff": "none", "max_agent_failures": 1, "max_iterations": 1, **settings},
            "agents": {"coder": {"command": agent or honest}, "critic": {"command": reviewer or ["true"]}},
            "tasks": [
                {
                    "id": "a",
                    "test": {"command": suite, "junit": "report.xml"},
                    "review": ["critic"] if reviewer else [],
                }
            ],
        }
        self.project.write("iterctl.yaml", json.dumps(document))

    def run(self, *arguments: str) -> Ran:
        return self.project.iterctl(*(arguments or ("run",)), "--format", "json")

    def started(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "pytest_iterctl", "run", "--format", "json"],
            cwd=self.project.root,
            env=self.project.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    def alive(self) -> list[int]:
        """Who carries the marker in the command line or the environment, or stands in the folder of the beats."""
        found = []
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit() or int(folder.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                marked = (
                    any(self.marker.encode() in (folder / name).read_bytes() for name in ("cmdline", "environ"))
                    or (folder / "cwd").readlink() == self.beats
                )
                if marked:
                    found.append(int(folder.name))
        return found

    def pulse(self) -> dict[str, str]:
        return {each.name: each.read_text() for each in self.beats.iterdir()}

    def was_there(self) -> bool:
        """All of them were at work, so that there was something to end."""
        return {name.partition("-")[0] for name in self.pulse()} == ROLES

    def is_gone(self) -> bool:
        if self.alive():
            return False
        before = self.pulse()
        time.sleep(0.3)  # six beats of whoever is left over
        return self.pulse() == before and not self.alive()


@pytest.fixture
def greed(project: Project) -> Iterator[Greed]:
    (project.tools / "suite.py").write_text(greedy.SUITE)
    (project.tools / "beats").mkdir()
    project.write(".gitignore", "__pycache__/\nreport.xml\n")
    greed = Greed(project, f"greedy{secrets.token_hex(8)}")
    yield greed
    left = greed.alive()
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert not left, "the test left processes behind"


def wait_until(condition: Any, what: str) -> None:
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.02)


def task_of(ran: Ran) -> dict[str, Any]:
    return dict(ran.json["tasks"][0])


def assert_stopped(greed: Greed, ran: Ran, limit: str) -> None:
    """The run names the limit wherever it is asked for, and goes on only when somebody raises it."""
    assert ran.code == 11, ran.err
    task = task_of(ran)
    assert (task["state"], task["limit"], task["decision"], task["reason"]) == ("stopped", limit, "escalate", "limit")
    assert limit in task["explanation"]
    rows = {row["run"]: row for row in greed.run("status").json["runs"]}
    assert rows[ran.json["run"]]["tasks"][0]["limit"] == limit
    called = len(greed.calls)
    refused = greed.run("resume", ran.json["run"])
    assert refused.code == 4, refused.out
    assert f"was stopped by {limit}" in refused.err
    assert f"--limit {limit}=" in refused.err
    assert len(greed.calls) == called


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

SLEEPS = {"sleeps": True, "write": {"a.txt": "half done"}}
TIMES = {"max_duration_per_iteration": "2s", "max_total_duration": "3s"}  # enough for all of them to begin


@pytest.mark.slow
@pytest.mark.parametrize("limit", TIMES)
@pytest.mark.parametrize("who", ["agent", "tests", "reviewer"])
def test_a_limit_of_time_ends_everybody(greed: Greed, who: str, limit: str) -> None:
    greed.plan(**{who: greed.command(SLEEPS)}, safety={limit: TIMES[limit]})
    ran = greed.run()
    assert greed.is_gone()
    assert greed.was_there()
    assert ran.json["seconds"] < 60, "it would have gone on for ever"
    assert len(greed.calls) == 1
    assert_stopped(greed, ran, limit)


@pytest.mark.slow
@pytest.mark.parametrize("who", ["agent", "reviewer"])
def test_a_timeout_ends_whoever_was_called(greed: Greed, who: str) -> None:
    greed.plan(**{who: greed.command(SLEEPS)}, timeout="2s", test_timeout="1m")
    ran = greed.run()
    assert greed.is_gone()
    assert greed.was_there()
    assert ran.json["seconds"] < 60
    task = task_of(ran)
    assert (ran.code, task["state"], task["reason"], task["limit"]) == (10, "escalated", "agent-failed", None), ran.err
    assert "no answer within 2s" in task["explanation"]
    assert task["history"][-1]["analysis"]["error_type"] == "timeout"


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"test_timeout": "2s"}, {"timeout": "2s"}], ids=["test_timeout", "timeout"])
def test_a_timeout_ends_the_tests(greed: Greed, settings: dict[str, Any]) -> None:
    greed.plan(tests=greed.command(SLEEPS), **settings)
    ran = greed.run()
    assert greed.is_gone()
    assert greed.was_there()
    assert ran.json["seconds"] < 60
    task = task_of(ran)
    assert (ran.code, task["state"], task["reason"], task["limit"]) == (10, "escalated", "max-iterations", None), (
        ran.err
    )
    last = task["history"][-1]
    assert (last["outcome"], last["analysis"]["error_type"]) == ("timed-out", "timeout")
    assert "no end within 2s" in last["analysis"]["sign"]


@pytest.mark.slow
def test_a_test_timeout_ends_what_a_test_of_pytest_has_started(greed: Greed) -> None:
    greedy = greed.command(SLEEPS)
    greed.project.write(
        "test_calc.py",
        "import subprocess\nfrom calc import double\n\n\n"
        f"def test_double():\n    assert double(1) == 2\n    subprocess.run({greedy!r}, check=True)\n",
    )
    greed.project.git("commit", "-q", "-a", "-m", "tests")
    greed.project.agent({"write": {"calc.py": FIXED}})
    ran = greed.project.iterctl(
        *("run", "--agent", greed.project.agent_command, "--max", "1", "--format", "json"),
        ITERCTL_TEST_TIMEOUT="3s",
        ITERCTL_TEST_COLD="1",
    )
    assert greed.is_gone()
    assert greed.was_there()
    assert ran.code == 10, ran.err
    (only,) = task_of(ran)["history"]
    assert (only["outcome"], only["analysis"]["error_type"]) == ("timed-out", "timeout")
    assert "test_calc.py::test_double" in only["analysis"]["sign"]


# ── money and calls ──────────────────────────────────────────────────────────────────────────────────────────────────


def reports(**figures: object) -> dict[str, Any]:
    """Does its turn, says what it came to, and leaves the others behind."""
    return {"write": {"a.txt": "done"}, "report": json.dumps({"status": "approve", **figures})}


#: Each with what oversteps it.
BOUNDS: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "max_cost_per_iteration": ({"max_cost_per_iteration": 1.0, "max_total_cost": 1e6}, {"cost_usd": ABSURD}),
    "max_total_cost": ({"max_total_cost": 1.0}, {"cost_usd": ABSURD}),
    "max_calls_per_iteration": ({"max_calls_per_iteration": 5}, {"calls": 10**9, "cost_usd": 0.0}),
    "require_cost": ({"require_cost": True}, {"cost_usd": "0.01"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("limit", BOUNDS)
def test_what_an_agent_says_it_took_stops_the_run_after_one_call(greed: Greed, limit: str) -> None:
    safety, figures = BOUNDS[limit]
    greed.plan(agent=greed.command(reports(**figures)), safety=safety, max_iterations=5)
    ran = greed.run()
    assert greed.is_gone()
    assert greed.was_there()
    assert len(greed.calls) == 1
    assert task_of(ran)["cost_usd"] == (0.0 if limit == "require_cost" else figures["cost_usd"])
    assert_stopped(greed, ran, limit)


@pytest.mark.slow
@pytest.mark.parametrize("limit", BOUNDS)
def test_what_a_reviewer_says_it_took_stops_the_run_although_it_approves(greed: Greed, limit: str) -> None:
    safety, figures = BOUNDS[limit]
    honest = greed.command({"greedy": False, **reports(cost_usd=0.01)})
    greed.plan(agent=honest, reviewer=greed.command({}, reports(**figures)), safety=safety)
    ran = greed.run()
    assert greed.is_gone()
    assert greed.was_there()
    assert [call["stage"] for call in greed.calls] == ["generate", "review"]
    assert_stopped(greed, ran, limit)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("--limit=max_total_cost=nan", "expected US dollars, 0 to 1000000"),
        ("--limit=max_total_cost=much", "expected US dollars, 0 to 1000000"),
        ("--limit=max_total_duration=-3", "expected a duration such as 90s, 5m or 1h"),
        ("--limit=max_calls_per_iteration=0", "expected a number of calls, 1 to 10000"),
        ("--limit=require_cost=maybe", "expected true or false"),
        ("--limit=allow_outside_writes=1", "expected true or false"),
        ("--safety=bananas", "expected permissive, normal or paranoid"),
    ],
)
def test_a_limit_that_is_none_is_told_with_what_it_could_be(project: Project, option: str, hint: str) -> None:
    project.agent({})
    assert project.iterate("--iterate-max=1").code == 10
    refused = project.iterctl("resume", option)
    assert refused.code == 4
    first, second = refused.err.splitlines()
    assert first.startswith(f"error: {option.rpartition('=')[0].replace('=', ' ', 1)}: got ")
    assert second == f"hint: {hint}"


@pytest.mark.slow
def test_every_limit_that_was_overstepped_is_said_and_one_resume_raises_them(project: Project) -> None:
    project.agent({"write": {"a.txt": "x"}, "report": {"cost_usd": 6.0, "calls": 501}})
    plan = {
        "version": 1,
        "settings": {"agent": "coder", "safety": {"max_total_cost": 5.5}},
        "agents": {"coder": {"command": [sys.executable, "-S", str(project.tools / "agent.py")]}},
        "tasks": [{"id": "calc"}],
    }
    project.write("iterctl.yaml", json.dumps(plan))
    ran = project.iterctl("run", "--format", "json")
    assert ran.code == 11, ran.err
    task = ran.json["tasks"][0]
    names = ["max_total_cost", "max_cost_per_iteration", "max_calls_per_iteration"]
    assert (task["limit"], task["limits"]) == (names[0], names)
    assert all(f"{name} reached" in task["explanation"] for name in names)
    assert " ".join(f"--limit {name}=VALUE" for name in names) in project.iterctl("report").out
    more = [f"--limit={name}=1000" for name in names]
    project.agent({"write": {"calc.py": FIXED}})
    resumed = project.iterctl("resume", ran.json["run"], "--format", "json", *more)
    assert resumed.code == 0, resumed.err


def test_nonsense_is_an_unknown_cost_and_never_gives_money_back(greed: Greed) -> None:
    told = ("0.9", "-0.9", "NaN", "-Infinity", "Infinity", "1e300", "1" + "0" * 400, '"0.9"', "true", "[]", "0.9")
    acts = [
        {"greedy": False, "write": {"b.txt": str(number)}, "report": f'{{"cost_usd": {cost}}}'}
        for number, cost in enumerate(told)
    ]
    greed.plan(
        agent=greed.command(*acts, {"greedy": False, "report": '{"cost_usd": 0.9}'}),
        safety={"max_total_cost": 1.5},
        max_iterations=20,
        patience="off",
    )
    ran = greed.run()
    assert len(greed.calls) == len(told)
    task = task_of(ran)
    costs = [step["cost_usd"] for step in task["history"]]
    assert costs == [0.9, *[None] * (len(told) - 2), 0.9]
    assert (task["cost_usd"], task["calls_of_unknown_cost"]) == (1.8, len(told) - 2)
    assert_stopped(greed, ran, "max_total_cost")


@pytest.mark.slow
def test_calls_below_nothing_are_calls(greed: Greed) -> None:
    acts = [
        {"greedy": False, "report": f'{{"calls": {calls}, "error": "again, please"}}'}
        for calls in ("-1000", "NaN", "0")
    ]
    greed.plan(agent=greed.command(*acts), safety={"max_calls_per_iteration": 3}, max_agent_failures=20)
    ran = greed.run()
    assert len(greed.calls) == 3
    assert_stopped(greed, ran, "max_calls_per_iteration")


# ── what was spent before a crash ────────────────────────────────────────────────────────────────────────────────────


def kill_driver_in_call(greed: Greed, number: int, *, beats: int = 1) -> None:
    """`kill -9` of the driver while the greedy process is at work in its n-th call, and nothing of that one is left."""

    def is_at_work() -> bool:
        pids = [call["pid"] for call in greed.calls]
        if len(pids) < number:
            return False
        with contextlib.suppress(OSError, ValueError):
            return int((greed.beats / f"leader-{pids[-1]}").read_text()) > beats
        return False

    with greed.started() as driver:
        try:
            wait_until(is_at_work, f"call {number} is under way")
        finally:
            driver.kill()
    wait_until(lambda: not greed.alive(), "the killed driver's processes are gone")
    assert greed.is_gone()
    assert greed.was_there()


@pytest.mark.slow
def test_what_was_spent_before_the_driver_was_killed_counts_after_it(greed: Greed) -> None:
    costly = {"greedy": False, "write": {"b.txt": "tried"}, "report": '{"cost_usd": 1.5}'}
    again = {"greedy": False, "write": {"b.txt": "tried again"}, "report": '{"cost_usd": 1.5}'}
    greed.plan(
        agent=greed.command(costly, SLEEPS, again), safety={"max_total_cost": 2.0}, max_iterations=9, patience="off"
    )
    kill_driver_in_call(greed, 2)
    resumed = greed.run("resume")
    assert len(greed.calls) == 3
    task = task_of(resumed)
    assert (task["cost_usd"], task["calls_of_unknown_cost"]) == (3.0, 1)
    assert_stopped(greed, resumed, "max_total_cost")
    raised = greed.run("resume", resumed.json["run"], "--limit", "max_total_cost=3.5")
    assert (len(greed.calls), raised.json["cost_usd"]) == (4, 4.5)
    assert_stopped(greed, raised, "max_total_cost")


@pytest.mark.slow
def test_a_call_that_was_killed_is_one_whose_cost_nobody_says(greed: Greed) -> None:
    told = {"greedy": False, "write": {"b.txt": "tried"}, "report": '{"cost_usd": 0.01}'}
    greed.plan(agent=greed.command(told, SLEEPS, told), safety={"require_cost": True}, max_iterations=9)
    kill_driver_in_call(greed, 2)
    resumed = greed.run("resume")
    assert len(greed.calls) == 2, "nobody is called who might cost more"
    assert_stopped(greed, resumed, "require_cost")


@pytest.mark.slow
def test_the_time_of_a_killed_driver_counts(greed: Greed) -> None:
    greed.plan(agent=greed.command(SLEEPS), safety={"max_total_duration": "1h"})
    kill_driver_in_call(greed, 1, beats=90)  # four and a half seconds, of which two may be lost
    resumed = greed.run("resume", "--limit", "max_total_duration=2s")
    assert len(greed.calls) == 1
    assert resumed.json["seconds"] > 2
    assert_stopped(greed, resumed, "max_total_duration")


@pytest.mark.slow
def test_calls_before_a_crash_are_calls_of_the_iteration(greed: Greed) -> None:
    greed.plan(agent=greed.command(SLEEPS), safety={"max_calls_per_iteration": 1}, max_agent_failures=9)
    kill_driver_in_call(greed, 1)
    resumed = greed.run("resume")
    assert len(greed.calls) == 1
    assert_stopped(greed, resumed, "max_calls_per_iteration")
