"""Finds the real agent CLIs, or installs them where that was asked for, or says loudly that they are missing."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.agents_for_real import skip_loudly

#: As the caller has them: the tests' own fixtures take the home and the variables away.
FOLDER = os.environ.get("ITERCTL_REAL_AGENTS", "")
INSTALL = os.environ.get("ITERCTL_INSTALL_AGENTS") == "1"
CALLERS = dict(os.environ)
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "iterctl-real-agents"
HOW = "set ITERCTL_REAL_AGENTS to a folder with the installs, or ITERCTL_INSTALL_AGENTS=1 to install them"


@dataclass(frozen=True, slots=True)
class Cli:
    """Where a tool comes from, and where in a folder of installs it may lie, best first."""

    package: str
    places: tuple[str, ...]

    def found_in(self, folder: Path) -> Path | None:
        for place in self.places:
            for path in sorted(folder.glob(place)):
                if os.access(path, os.X_OK):
                    return path.absolute()
        return None

    def install(self, folder: Path) -> None:
        if self.package.startswith("npm:"):
            quiet = ("--no-fund", "--no-audit", "--ignore-scripts")
            _done(["npm", "install", *quiet, "--prefix", str(folder / "npm"), self.package[4:]])
            return
        _done([sys.executable, "-m", "venv", str(folder / "python")])
        _done([str(folder / "python/bin/python"), "-m", "pip", "install", "--quiet", self.package])


#: The versions that the recordings in tests/kit/recordings are of. The first place of claude and opencode is the binary
#: itself: the command beside it is filled in by an install script, and those are not run here.
CLIS = {
    "claude": Cli(
        "npm:@anthropic-ai/claude-code@2.1.197",
        ("npm/node_modules/@anthropic-ai/claude-code-linux-*/claude", "npm/node_modules/.bin/claude", "bin/claude"),
    ),
    "codex": Cli("npm:@openai/codex@0.169.0", ("npm/node_modules/.bin/codex", "bin/codex")),
    "gemini": Cli("npm:@google/gemini-cli@0.61.0", ("npm/node_modules/.bin/gemini", "bin/gemini")),
    "qwen": Cli("npm:@qwen-code/qwen-code@0.15.10", ("npm/node_modules/.bin/qwen", "bin/qwen")),
    "opencode": Cli(
        "npm:opencode-ai@1.18.33",
        ("npm/node_modules/opencode-linux-*/bin/opencode", "npm/node_modules/.bin/opencode", "bin/opencode"),
    ),
    "aider": Cli("aider-chat==0.86.2", ("python/bin/aider", "aider/bin/aider", "bin/aider")),
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "real_agents: runs agent CLIs as their makers ship them, on loopback")


@pytest.fixture
def real_agent() -> Callable[[str], Path]:
    """The path of a tool; where there is none, the test is skipped and the summary says so."""

    def find(name: str) -> Path:
        path, reason = _found(name)
        if path is None:
            skip_loudly(f"{name} was not tested for real: {reason}")
        return path

    return find


@cache
def _found(name: str) -> tuple[Path | None, str]:
    cli = CLIS[name]
    if FOLDER and (path := cli.found_in(Path(FOLDER))):
        return path, ""
    if on_path := shutil.which(name, path=CALLERS.get("PATH")):
        return Path(on_path), ""
    if not INSTALL:
        return None, f"it is not installed; {HOW}"
    try:
        return _installed(cli), ""
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"it could not be installed: {error}"


def _installed(cli: Cli) -> Path | None:
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:  # tests side by side install once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (path := cli.found_in(CACHE)) is None:
            cli.install(CACHE)
            path = cli.found_in(CACHE)
    if path is None:
        raise OSError(f"{cli.package} brought no command")
    return path


def _done(command: list[str]) -> None:
    try:
        subprocess.run(command, env=CALLERS, check=True, capture_output=True, text=True, timeout=600)
    except subprocess.CalledProcessError as error:
        lines = [line for line in error.stderr.splitlines() if line.strip()]
        raise OSError(f"{command[0]} ended with {error.returncode}: {lines[-1] if lines else ''}") from error
