"""Secrets stay out of everything that is written; floods stay within bounds; the demonstration is real."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.kit.project import FIXED, Project

TOKEN = "ghp_" + "Zx9" * 12
VALUE = "correct-horse-7-battery"


def everything_written(*roots: Path) -> bytes:
    content = b""
    for root in roots:
        for folder, _, names in os.walk(root):
            # Copies of the user's own files, exactly as they are: git's, and those that a clean room is made of.
            if {".git", "vault"} & set(Path(folder).parts):
                continue
            content += b"".join((Path(folder) / name).read_bytes() for name in names)
    return content


def test_secrets_of_tests_agents_and_the_environment_are_written_nowhere(project: Project) -> None:
    project.write(
        "test_calc.py", f"def test_leak():\n    print('Authorization: Bearer {TOKEN}')\n    assert '{TOKEN}' == 0\n"
    )
    project.git("commit", "-qam", "leaky")
    project.agent({"say": f"using {TOKEN} and {VALUE}\n", "write": {"calc.py": f"KEY = '{TOKEN}'\n"}})
    ran = project.iterate("--iterate-max=1", MY_SERVICE_PASSWORD=VALUE)
    assert ran.code == 10, ran.err
    written = everything_written(project.state, project.root / ".iterctl")
    assert b"test_leak" in written
    assert TOKEN.encode() not in written
    assert VALUE.encode() not in written
    assert TOKEN not in ran.err + ran.out
    assert TOKEN not in project.calls[0]["prompt"]


def test_a_secret_in_an_agents_command_is_refused(project: Project) -> None:
    ran = project.pytest("--iterate", f"--iterate-agent=cat --token {TOKEN}")
    assert ran.code == 4
    assert "pass_env" in ran.err
    assert TOKEN not in ran.err
    assert TOKEN.encode() not in everything_written(project.state)


def test_tokens_reach_agents_by_name_only_and_tests_never_unless_named(project: Project) -> None:
    show = project.tools / "show.sh"
    show.write_text(f"#!/bin/sh\nenv > {project.tools}/agent.env\n")
    show.chmod(0o755)
    note = f"open('{project.tools}/tests.env', 'w').write(str(os.environ))"
    project.write("test_calc.py", f"import os\n\ndef test_env():\n    {note}\n    assert 0\n")
    secrets = {"GITHUB_TOKEN": "t" * 30, "OTHER_TOKEN": "o" * 30, "GITHUB_ENV": "/x", "GIT_DIR": "/nowhere"}
    project.write("iterctl.yaml", f"agents: {{a: {{command: [{show}], pass_env: [OTHER_TOKEN]}}}}\n")
    ran = project.pytest("--iterate", "--iterate-agent=a", "--iterate-max=1", cwd=None, **secrets)
    assert ran.code == 10, ran.err
    agent, tests = (project.tools / "agent.env").read_text(), (project.tools / "tests.env").read_text()
    assert "OTHER_TOKEN" in agent
    for name in ("GITHUB_TOKEN", "GITHUB_ENV", "GIT_DIR"):
        assert name not in agent
        assert name not in tests
    assert "OTHER_TOKEN" not in tests


def test_a_flood_of_output_is_kept_within_bounds(project: Project) -> None:
    flood = project.tools / "flood.py"
    flood.write_text(
        "import pathlib, sys\nfor _ in range(100):\n    sys.stdout.write('x' * 1_000_000)\n"
        f"pathlib.Path('calc.py').write_text({FIXED!r})\n"
    )
    ran = project.pytest("--iterate", f"--iterate-agent={sys.executable} {flood}", "--iterate-format=json")
    assert ran.code == 0, ran.err
    kept = project.iterctl("memory", "get", "stage-1-output@1", "--run", ran.json["run"]).out
    assert len(kept) < 1_000_000
    assert "bytes omitted" in kept


def test_the_demonstration_accepts_one_task_and_escalates_the_other(project: Project) -> None:
    ran = project.iterctl("demo")
    assert ran.code == 0, ran.err
    assert "invoices: 3/3 iterations: accepted" in ran.out
    assert "rounding: 3/3 iterations: escalated" in ran.out
    assert "# Needs a decision" in ran.out
