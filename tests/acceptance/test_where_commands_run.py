"""A command that a file names runs where that file is; a command that was typed runs where the tests do."""

from __future__ import annotations

import sys

import pytest

from tests.kit.project import FIXED, Project

#: Mends `calc.py` of the folder it runs in, and leaves a note of where that was.
FIXER = f"""import os, pathlib
root = pathlib.Path(os.environ["PROJECT"])
(root / "ran-in.txt").write_text(os.getcwd())
(root / "calc.py").write_text({FIXED!r})
"""


@pytest.fixture
def nested(project: Project) -> Project:
    project.write("agents/fixer.py", FIXER)
    project.write(
        "deep/tests/test_deep.py", "from calc import double\n\n\ndef test_deep():\n    assert double(3) == 6\n"
    )
    project.write("conftest.py", "")
    return project


def ran_in(project: Project) -> str:
    return (project.root / "ran-in.txt").read_text().removeprefix(str(project.root.resolve())).strip("/")


PLAN = (
    "agents:\n  fixer:\n    command: [{python}, agents/fixer.py]\n    pass_env: [PROJECT]\nsettings:\n  agent: fixer\n"
)


@pytest.mark.parametrize("where", ["agents", "settings", "task"])
def test_a_plans_commands_run_in_the_plans_folder_wherever_pytest_was_typed(nested: Project, where: str) -> None:
    python = sys.executable
    body = {
        "agents": PLAN.format(python=python),
        "settings": f"settings:\n  agent: {python} agents/fixer.py\n  pass_env: [PROJECT]\n",
        "task": f"settings:\n  pass_env: [PROJECT]\ntasks:\n  - id: only\n    tests: [deep/tests]\n"
        f"    agent: {python} agents/fixer.py\n",
    }[where]
    nested.write("iterctl.yaml", body)
    options = ("--iterate-task=only",) if where == "task" else ("tests",)
    ran = nested.pytest("--iterate", *options, cwd=nested.root / "deep", PROJECT=str(nested.root))
    assert ran.code == 0, ran.out + ran.err
    assert ran_in(nested) == ""


def test_a_plan_in_a_subfolder_has_its_own_paths(nested: Project) -> None:
    nested.write("deep/iterctl.yaml", PLAN.format(python=sys.executable).replace("agents/fixer", "own/fixer"))
    nested.write("deep/own/fixer.py", FIXER)
    ran = nested.iterctl("run", "deep/iterctl.yaml", PROJECT=str(nested.root))
    assert ran.code == 0, ran.out + ran.err
    assert ran_in(nested) == "deep"


def test_pytests_ini_speaks_of_its_own_folder(nested: Project) -> None:
    agent = f"{sys.executable} agents/fixer.py"
    nested.write("pytest.ini", f"[pytest]\niterate_agent = {agent}\niterate_plan = plans/plan.yaml\n")
    nested.write("plans/plan.yaml", "settings:\n  pass_env: [PROJECT]\n")
    ran = nested.pytest("--iterate", "tests", cwd=nested.root / "deep", PROJECT=str(nested.root))
    assert ran.code == 0, ran.out + ran.err
    assert ran_in(nested) == ""


def test_a_typed_program_is_found_from_here_and_runs_where_the_tests_run(nested: Project) -> None:
    nested.write("iterctl.yaml", "settings:\n  pass_env: [PROJECT]\n")
    program = nested.write("deep/fix", f"#!{sys.executable}\n{FIXER}")
    program.chmod(0o755)
    ran = nested.iterctl("run", "--agent", "fix", cwd=nested.root / "deep", PROJECT=str(nested.root))
    assert ran.code == 0, ran.out + ran.err
    assert ran_in(nested) == ""
