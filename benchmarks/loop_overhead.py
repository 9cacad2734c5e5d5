"""What the loop costs beyond what it runs: `pytest --iterate` against a shell script that makes the same calls."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from measure import (
    Cost,
    clean_environment,
    command,
    cpu,
    git,
    interleaved,
    minimum_ratio,
    options,
    paired_ratio,
    scratch,
    spread,
    tell,
    wall,
)

_ITERATIONS = 3
_BASE = "VALUE = 0\n"
_TARGET, _AIM = 1.10, 1.03
_AGENT = """import pathlib, sys, time
sys.stdin.read()
log = pathlib.Path(__file__).with_name("calls")
with log.open("a") as stream:
    stream.write("agent\\n")
time.sleep({agent})
number = log.read_text().count("agent")
# A file of another size: within one second, Python would take the bytecode of the old one for that of the new one.
pathlib.Path("value.py").write_text(f"VALUE = {{number}}\\n" + "#\\n" * number)
"""
_TESTS = """import pathlib
import time

import pytest
from value import VALUE

with pathlib.Path({log!r}).open("a") as stream:
    stream.write("tests\\n")


@pytest.mark.parametrize("number", range(20))
def test_takes_its_time(number):
    time.sleep({suite} / 20)


def test_is_done():
    assert VALUE == {iterations}
"""


@dataclass(frozen=True, slots=True)
class _Project:
    root: Path
    tools: Path
    environment: dict[str, str]

    @property
    def calls(self) -> str:
        return (self.tools / "calls").read_text().replace("\n", " ").strip()

    def reset(self) -> None:
        (self.tools / "calls").unlink(missing_ok=True)
        (self.root / "value.py").write_text(_BASE)

    def agent(self) -> list[str]:
        return [sys.executable, str(self.tools / "agent.py")]


def main() -> None:
    given = options(__doc__ or "", size=2000, runs=5, quick_size=20, quick_runs=1)
    suite = given.size / 1000
    with scratch() as folder:
        project = _project(folder, suite)
        loop = partial(_loop, project, folder / "result.json")
        loop()
        script = _script(project, project.calls)
        by_script = partial(_by_script, project, script, project.calls)
        rounds = interleaved(loop, by_script, given.runs, warm=True)
        result = json.loads((folder / "result.json").read_text())
    asleep = _ITERATIONS * suite / 2 + script.count("-m pytest") * suite
    how = f"of {given.runs} interleaved runs each, {_ITERATIONS} iterations, suite {suite:g} s, agent {suite / 2:g} s"
    least = f"elapsed time, minimum {how} ({spread(rounds, wall)})"
    tell("loop_overhead.wall", minimum_ratio(rounds, wall), _TARGET, least)
    tell("loop_overhead.wall_paired", paired_ratio(rounds, wall), _TARGET, f"elapsed time, median of pairs {how}")
    busy = f"{asleep:g} s asleep + CPU time, minimum {how} (CPU time {spread(rounds, cpu)})"
    tell("loop_overhead.busy", minimum_ratio(rounds, lambda cost: asleep + cost.cpu), _AIM, busy)
    own, whole = result["overhead_seconds"], result["seconds"]
    told = f"overhead_seconds of the last loop, beyond {whole - own:.1f} s of agent and tests"
    tell("loop_overhead.own_share", whole / (whole - own), _TARGET, f"{told}: {own:.3f} s")


def _project(folder: Path, suite: float) -> _Project:
    root, tools = folder / "project", folder / "tools"
    root.mkdir()
    tools.mkdir()
    (root / "value.py").write_text(_BASE)
    tests = _TESTS.format(log=str(tools / "calls"), suite=suite, iterations=_ITERATIONS)
    (root / "test_value.py").write_text(tests)
    (root / "pytest.ini").write_text("[pytest]\n")
    (root / ".gitignore").write_text("__pycache__/\n.pytest_cache/\nreport.xml\n")
    (tools / "agent.py").write_text(_AGENT.format(agent=suite / 2))
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    environment = clean_environment(folder) | {"ITERCTL_STATE_DIR": str(folder / "state"), "PYTHONHASHSEED": "random"}
    return _Project(root, tools, environment)


def _loop(project: _Project, result: Path) -> Cost:
    project.reset()
    arguments = ["--iterate", f"--iterate-agent={shlex.join(project.agent())}", "--iterate-format=json"]
    cost = command(
        [sys.executable, "-m", "pytest", *arguments],
        cwd=project.root,
        environment=project.environment,
        output=result,
    )
    if json.loads(result.read_text())["tasks"][0]["iterations"] != _ITERATIONS:
        sys.exit("error: the loop did not take as many iterations as it should")
    return cost


def _script(project: _Project, calls: str) -> str:
    """The very calls that the loop was seen to make, in their order."""
    lines = {
        "agent": f"echo 'make the tests pass' | {shlex.join(project.agent())}",
        "tests": shlex.join([sys.executable, "-m", "pytest", "--junitxml=report.xml"]) + " >/dev/null",
    }
    return "\n".join(lines[call] for call in calls.split())


def _by_script(project: _Project, script: str, calls: str) -> Cost:
    project.reset()
    cost = command(["sh", "-c", script], cwd=project.root, environment=project.environment)
    if project.calls != calls:
        sys.exit(f"error: the script made other calls than the loop: {project.calls}")
    return cost


if __name__ == "__main__":
    main()
