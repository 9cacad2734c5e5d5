"""A real little project for tests of whole commands: a package, its tests, an agent as a script, a git repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kit.ready import ready

__all__ = ["Project", "Ran", "clean_environment", "git"]

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

#: The scripted agent: one line of JSON per call says what it does, in order; every call is logged.
AGENT = r"""
import json, os, pathlib, sys, time
here = pathlib.Path(__file__).parent
log = here / "calls.jsonl"
calls = log.read_text().count("\n") if log.exists() else 0
prompt = sys.stdin.read()
given = {name: value for name, value in os.environ.items() if name.startswith("ITERCTL")}
record = {"prompt": prompt, "environment": given, "cwd": os.getcwd()}
feedback = os.environ.get("ITERCTL_FEEDBACK")
if feedback:
    record["feedback"] = json.loads(pathlib.Path(feedback).read_text())
with log.open("a") as stream:
    stream.write(json.dumps(record) + "\n")
script = json.loads((here / "script.json").read_text())
if isinstance(script, dict):
    # Keyed by what is asked, so that a call that is made again is answered the same way.
    act = script["-".join(os.environ["ITERCTL_SESSION"].split("-")[-3::2])]
else:
    act = script[min(calls, len(script) - 1)]
for name, content in act.get("write", {}).items():
    path = pathlib.Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
for name in act.get("delete", []):
    pathlib.Path(name).unlink()
for command in act.get("run", []):
    import subprocess
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
time.sleep(act.get("sleep", 0))
sys.stdout.write(act.get("say", ""))
sys.stderr.write(act.get("complain", ""))
if "report" in act:
    print(json.dumps(act["report"]))
sys.exit(act.get("exit", 0))
"""


def clean_environment(home: Path) -> dict[str, str]:
    kept = {"PATH", "LANG", "LC_ALL", "TMPDIR", "TERM", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "PYENV_ROOT"}
    clean = {name: value for name, value in os.environ.items() if name in kept}
    return clean | {
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "PYTHONDONTWRITEBYTECODE": "",
    }


def git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=tester", "-c", "user.email=tester@localhost", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def _matters_at_the_start(variables: dict[str, str]) -> bool:
    """Whether Python reads one of them when it starts, and never again."""
    return any(name.startswith(("PYTHON", "LC_", "LANG")) for name in variables)


@dataclass(frozen=True, slots=True)
class Ran:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Project:
    root: Path
    state: Path
    tools: Path
    autoload: bool = False
    quick: bool = True  # the gate without its controls, and no more runs of the baseline than it takes

    @classmethod
    def make(cls, root: Path, *, state: Path) -> Project:
        project = cls(root, state, root.parent / "tools")
        project.write("calc.py", BROKEN)
        project.write("test_calc.py", TESTS)
        project.write(".gitignore", "__pycache__/\n.pytest_cache/\n")
        project.write("pytest.ini", "[pytest]\naddopts = -p no:randomly\n")
        project.tools.mkdir()
        (project.tools / "agent.py").write_text(AGENT)
        project.agent({"write": {"calc.py": BROKEN + "\n# tried\n"}}, {"write": {"calc.py": FIXED}})
        git(root, "init", "-q")
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", "first")
        return project

    def write(self, name: str, content: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    def agent(self, *acts: dict[str, Any]) -> None:
        """What the scripted agent does at its first, second, … call; the last act is repeated."""
        (self.tools / "script.json").write_text(json.dumps(acts))

    def agent_by_call(self, acts: dict[str, dict[str, Any]]) -> None:
        """What it does by iteration and call within it, as in `1-2` for the second call of the first iteration."""
        (self.tools / "script.json").write_text(json.dumps(acts))

    @property
    def agent_command(self) -> str:
        return f"{sys.executable} {self.tools / 'agent.py'}"

    @property
    def calls(self) -> list[dict[str, Any]]:
        log = self.tools / "calls.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def environment(self, **variables: str) -> dict[str, str]:
        given = {**os.environ, "ITERCTL_STATE_DIR": str(self.state)}
        if not self.autoload:
            # Our plugin alone: each of the others makes every pytest start slower, and their life has tests of its own.
            given |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "pytest_iterctl.plugin"}
        if self.quick:
            given |= {"ITERCTL_GATE": "fast", "ITERCTL_BASELINE_RUNS": "1"}
        return {**given, **variables}

    def run(self, *command: str, cwd: Path | None = None, stdin: str = "", **variables: str) -> Ran:
        done = subprocess.run(
            command,
            cwd=cwd or self.root,
            env=self.environment(**variables),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def iterctl(self, *arguments: str, cwd: Path | None = None, stdin: str = "", **variables: str) -> Ran:
        if _matters_at_the_start(variables):
            return self.run(sys.executable, "-m", "pytest_iterctl", *arguments, cwd=cwd, stdin=stdin, **variables)
        return self._started("iterctl", arguments, cwd, variables, stdin=stdin)

    def crash(self, point: str, number: int, *arguments: str) -> Ran:
        """`iterctl`, killed at one point: see `crashing.py`."""
        return self._started("iterctl", arguments, self.root, {}, crash=(point, number))

    def _started(
        self,
        program: str,
        arguments: tuple[str, ...],
        cwd: Path | None,
        variables: dict[str, str],
        *,
        stdin: str = "",
        crash: tuple[str, int] | None = None,
    ) -> Ran:
        environment = self.environment(**variables)
        return Ran(
            *ready().run(program, arguments, cwd=cwd or self.root, environment=environment, stdin=stdin, crash=crash)
        )

    def pytest(self, *arguments: str, cwd: Path | None = None, **variables: str) -> Ran:
        if _matters_at_the_start(variables):
            return self.run(sys.executable, "-m", "pytest", *arguments, cwd=cwd, **variables)
        return self._started("pytest", arguments, cwd, variables)

    def iterate(self, *arguments: str, **variables: str) -> Ran:
        given = ("--iterate", f"--iterate-agent={self.agent_command}", *arguments)
        return self.pytest(*given, cwd=None, **variables)

    def git(self, *arguments: str) -> str:
        return git(self.root, *arguments)
