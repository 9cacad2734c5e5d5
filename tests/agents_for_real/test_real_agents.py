"""Whole loops with agent CLIs as their makers ship them; only the model behind them is a stand-in, on loopback.

They need nothing but the tools themselves: no account, no key, no network. Where it can be had, each runs in a network
namespace of its own, in which there is nothing to reach but the stand-in.

    ITERCTL_INSTALL_AGENTS=1 pytest tests/agents_for_real -m real_agents        installs them into the user's cache
    ITERCTL_REAL_AGENTS=FOLDER pytest tests/agents_for_real -m real_agents      uses FOLDER/npm and FOLDER/python
    pytest tests/agents_for_real                                                those on the PATH; skips the others

A tool that is missing is skipped, and the summary says so in a warning.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.agents_for_real import skip_loudly
from tests.kit import standin_model
from tests.kit.project import BROKEN, FIXED, Project, Ran

RECORDINGS = Path(standin_model.__file__).with_name("recordings")
#: As red as before, with another answer, so that one can see which of the two a model was told of.
WRONG = "def double(number):\n    return number + 40\n"

CODEX_PROVIDER = {
    "model": "stand-in",
    "model_provider": "standin",
    "model_providers.standin.name": "standin",
    "model_providers.standin.base_url": "{url}/v1",
    "model_providers.standin.env_key": "OPENAI_API_KEY",
    "model_providers.standin.wire_api": "responses",
}
QUIET = {
    "general": {"disableAutoUpdate": True, "enableAutoUpdate": False, "maxAttempts": 1},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
}
GEMINI = QUIET | {"security": {"auth": {"selectedType": "gemini-api-key"}}}
OPENCODE = {
    "autoupdate": False,
    "share": "disabled",
    "model": "standin/stand-in",
    "provider": {
        "standin": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "{url}/v1", "apiKey": "sk-stand-in"},
            "models": {"stand-in": {"name": "stand-in", "cost": {"input": 1, "output": 2}}},
        }
    },
}


@dataclass(frozen=True, slots=True)
class Setup:
    """What a tool needs to talk to the stand-in instead of its maker's service, and to nobody else."""

    arguments: tuple[str, ...]
    environment: dict[str, str]
    tools: bool = True
    needs_namespace: bool = False
    home: dict[str, str] = field(default_factory=dict)

    def turns(self, *contents: str) -> list[dict[str, Any]]:
        """Each content is one turn of the agent: an edit, and a closing word where the tool asks for one."""
        edits: list[dict[str, Any]] = [{"write": {"calc.py": content}} for content in contents]
        said: list[dict[str, Any]] = [{"say": "That should be it."}] if self.tools else []
        return [turn for edit in edits for turn in (edit, *said)]


SETUPS = {
    "claude": Setup(
        arguments=("--model", "claude-sonnet-4-5"),
        environment={
            "ANTHROPIC_BASE_URL": "{url}",
            "ANTHROPIC_API_KEY": "sk-ant-stand-in",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
        },
    ),
    "codex": Setup(
        arguments=(
            *(part for name, value in CODEX_PROVIDER.items() for part in ("-c", f'{name}="{value}"')),
            *("-c", "check_for_update_on_startup=false", "-c", "analytics.enabled=false"),
            *("-c", "model_providers.standin.request_max_retries=1"),
            *("-c", "model_providers.standin.stream_max_retries=1"),
        ),
        environment={"OPENAI_API_KEY": "sk-stand-in"},
        needs_namespace=True,  # its sandbox is made of the same thing
    ),
    "gemini": Setup(
        arguments=("-m", "gemini-2.5-flash"),
        environment={
            "GEMINI_API_KEY": "stand-in",
            "GOOGLE_GEMINI_BASE_URL": "{url}",
            "GEMINI_TELEMETRY_ENABLED": "false",
        },
        home={".gemini/settings.json": json.dumps(GEMINI)},
    ),
    "qwen": Setup(
        arguments=("--auth-type", "openai"),
        environment={"OPENAI_API_KEY": "sk-stand-in", "OPENAI_BASE_URL": "{url}/v1", "OPENAI_MODEL": "stand-in"},
        home={".qwen/settings.json": json.dumps(QUIET)},
    ),
    "opencode": Setup(
        arguments=(),
        environment={
            "OPENCODE_CONFIG_CONTENT": json.dumps(OPENCODE),
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
        },
    ),
    "aider": Setup(
        arguments=("--model", "openai/stand-in", "--edit-format", "whole", "--map-tokens", "0", "calc.py"),
        environment={"OPENAI_API_BASE": "{url}/v1", "OPENAI_API_KEY": "sk-stand-in"},
        tools=False,
    ),
}


@cache
def namespace() -> tuple[str, ...]:
    """The words before a command that give it a network of its own; none where the system has no such thing."""
    words = ("unshare", "--map-root-user", "--net")
    if shutil.which("unshare") is None:
        return ()
    return words if subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0 else ()


@dataclass(frozen=True, slots=True)
class Loop:
    """A project whose agent is a real tool, and the stand-in that the tool talks to."""

    project: Project
    setup: Setup
    url: str
    port: int

    @classmethod
    def make(cls, project: Project, name: str, executable: Path) -> Loop:
        setup = SETUPS[name]
        if setup.needs_namespace and not namespace():
            skip_loudly(
                f"{name} was not tested for real: its sandbox needs namespaces, which this system does not allow"
            )
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        loop = cls(project, setup, f"http://127.0.0.1:{port}", port)
        (loop.folder("bin") / name).symlink_to(executable)
        agent = {"preset": name, "arguments": [loop.filled(part) for part in setup.arguments]}
        for place, content in setup.home.items():
            path = loop.folder("home") / place
            path.parent.mkdir(parents=True)
            path.write_text(content)
        project.write("iterctl.yaml", json.dumps({"version": 1, "agents": {"coder": agent}}))
        project.git("add", "-A")
        project.git("commit", "-q", "-m", "plan")
        return loop

    def folder(self, name: str) -> Path:
        path = self.project.tools / name
        path.mkdir(exist_ok=True)
        return path

    def filled(self, text: str) -> str:
        return text.replace("{url}", self.url)

    def run(self, turns: list[dict[str, Any]]) -> Ran:
        script = self.project.tools / "model.json"
        script.write_text(json.dumps({"root": str(self.project.root), "tools": self.setup.tools, "turns": turns}))
        variables = {name: self.filled(value) for name, value in self.setup.environment.items()}
        # Some leave reports in the folder for temporary files, and codex refuses a home below it.
        variables |= {"HOME": str(self.folder("home")), "TMPDIR": str(self.folder("tmp"))}
        variables |= {"PATH": f"{self.folder('bin')}:{os.environ['PATH']}"}
        return self.project.run(
            *namespace(),
            *(sys.executable, standin_model.__file__, "--script", str(script), "--log", str(self.log)),
            *("--port", str(self.port), *(["--alone"] if namespace() else []), "--"),
            *(sys.executable, "-m", "pytest", "--iterate", "--iterate-agent=coder", "--iterate-format=json"),
            cwd=self.project.root,
            stdin="",
            **variables,
        )

    @property
    def log(self) -> Path:
        return self.project.tools / "requests.jsonl"

    @property
    def asked(self) -> list[str]:
        """The conversation as the model got it, request by request."""
        entries = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [json.dumps(entry["body"]) for entry in entries if entry["turn"]]


@pytest.mark.slow
@pytest.mark.real_agents
@pytest.mark.parametrize("name", list(SETUPS))
def test_a_real_agent_mends_the_project_at_its_second_try(
    name: str, project: Project, real_agent: Callable[[str], Path]
) -> None:
    loop = Loop.make(project, name, real_agent(name))
    ran = loop.run(loop.setup.turns(WRONG, FIXED))
    assert ran.code == 0, ran.out + ran.err
    task = ran.json["tasks"][0]
    assert (task["state"], task["iterations"]) == ("proceed", 2)
    assert [step["decision"] for step in task["history"]] == ["retry", "proceed"]
    assert (project.root / "calc.py").read_text() == FIXED
    assert project.git("status", "--porcelain") == "M calc.py"

    first, last = loop.asked[0], loop.asked[-1]
    assert "test_calc.py::test_one" in first
    assert "assert 3 == 2" in first
    assert "assert 41 == 2" not in first
    assert "test_calc.py::test_one" in last
    assert "assert 41 == 2" in last


@pytest.mark.slow
@pytest.mark.real_agents
@pytest.mark.parametrize("name", list(SETUPS))
def test_a_real_agent_whose_key_is_refused_is_no_failed_test(
    name: str, project: Project, real_agent: Callable[[str], Path]
) -> None:
    loop = Loop.make(project, name, real_agent(name))
    ran = loop.run([{"status": 401, "error": "authentication_error", "message": "this key is not known"}])
    assert ran.code == 10, ran.out + ran.err
    task = ran.json["tasks"][0]
    assert (task["state"], task["reason"], task["iterations"]) == ("escalated", "agent-failed", 0)
    assert [call["outcome"] for call in task["history"][0]["agent"]] == ["not-logged-in"]
    assert (project.root / "calc.py").read_text() == BROKEN


def test_recordings_are_whole_and_name_no_machine() -> None:
    paths = sorted(RECORDINGS.glob("*/*.json"))
    assert paths
    keys = {"tool", "version", "argv", "exit_code", "stdout", "stderr", "left_files"}
    somebodys_home = re.compile(r"/root/|/Users/|/home/(?!user\b)")
    for path in paths:
        text = path.read_text(encoding="utf-8")
        recording = json.loads(text)
        assert keys <= set(recording), path
        assert recording["tool"] == path.parent.name, path
        assert len(text) < 30_000, path
        assert not somebodys_home.search(text), path
