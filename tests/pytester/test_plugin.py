"""The plugin as pytest sees it: inert without `--iterate`, obedient with it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_iterctl.cli.takeover import child_arguments
from tests.kit.project import FIXED, Project

SPY = """
import sys, atexit
def report():
    ours = sorted(name for name in sys.modules if name.startswith("pytest_iterctl"))
    heavy = sorted({"pydantic", "yaml", "git", "junitparser", "click", "sqlite3"} & set(sys.modules))
    print("MODULES", ours, heavy)
atexit.register(report)
"""


def test_without_iterate_nothing_is_imported_printed_or_written(project: Project) -> None:
    project = replace(project, autoload=True)
    project.write("calc.py", FIXED)
    project.write("conftest.py", SPY)
    # From nothing: in a process that has imported everything already nobody could see what is imported.
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    with_plugin = project.run(*command)
    without = project.run(*command, "-p", "no:iterctl")
    assert "MODULES ['pytest_iterctl', 'pytest_iterctl.plugin'] []" in with_plugin.out
    assert with_plugin.code == without.code == 0
    assert with_plugin.out.split(" in ")[0] == without.out.split(" in ")[0]
    assert not project.state.exists()
    assert project.git("status", "--porcelain", "--ignored").count("iterctl") == 0
    assert not (project.root / ".iterctl").exists()


@pytest.mark.parametrize("option", ["--collect-only", "--fixtures", "--markers", "--help", "--version", "--setup-plan"])
def test_commands_that_only_look_are_left_alone(project: Project, option: str) -> None:
    ran = project.iterate(option)
    assert "iterctl run" not in ran.err
    assert project.calls == []
    assert not project.state.exists()


@pytest.mark.parametrize("option", ["--pdb", "--trace"])
def test_debuggers_are_refused(project: Project, option: str) -> None:
    ran = project.iterate(option)
    assert ran.code == 4
    assert f"{option} can't be used with --iterate" in ran.err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pytest.ini", "[pytest]\naddopts = --iterate -p no:randomly\niterate_agent = {agent}\niterate_max = 2\n"),
        ("pytest.toml", "[pytest]\naddopts = ['--iterate']\niterate_agent = '{agent}'\niterate_max = 2\n"),
        (
            "pyproject.toml",
            "[tool.pytest.ini_options]\naddopts = '--iterate'\niterate_agent = '{agent}'\niterate_max = '2'\n",
        ),
        ("pyproject.toml", "[tool.pytest]\naddopts = ['--iterate']\niterate_agent = '{agent}'\niterate_max = 2\n"),
        ("setup.cfg", "[tool:pytest]\naddopts = --iterate\niterate_agent = {agent}\niterate_max = 2\n"),
    ],
)
def test_every_configuration_file_of_pytest_can_switch_it_on(project: Project, name: str, content: str) -> None:
    (project.root / "pytest.ini").unlink()
    project.write(name, content.format(agent=project.agent_command))
    ran = project.pytest("--iterate-format=json")
    assert ran.code == 0, ran.err
    assert (ran.json["tasks"][0]["iterations"], ran.json["tasks"][0]["max_iterations"]) == (2, 2)


def test_pytest_addopts_from_the_environment_works_and_reaches_the_tests(project: Project) -> None:
    ran = project.pytest(
        "--iterate-format=json", PYTEST_ADDOPTS=f"--iterate --iterate-agent='{project.agent_command}' -k one"
    )
    assert ran.code == 0, ran.err
    assert ran.json["tasks"][0]["tests"]["passed"] == 1


def test_precedence_is_command_line_environment_plan_ini(project: Project) -> None:
    def bound(*arguments: str, **variables: str) -> int:
        ran = project.iterate("--iterate-format=json", "-k", "name", *arguments, **variables)
        return int(ran.json["tasks"][0]["max_iterations"])

    assert bound() == 3
    project.write("pytest.ini", "[pytest]\niterate_max = 4\n")
    assert bound() == 4
    project.write("iterctl.yaml", "settings: {max_iterations: 5}\n")
    assert bound() == 5
    assert bound(ITERCTL_MAX_ITERATIONS="6") == 6
    assert bound("--iterate-max=7", ITERCTL_MAX_ITERATIONS="6") == 7


@pytest.mark.parametrize(
    "option",
    [
        "--iterate-max=0",
        "--iterate-max=x",
        "--iterate-timeout=soon",
        "--iterate-safety=wild",
        "--iterate-on-escalate=x",
    ],
)
def test_wrong_values_are_usage_errors_that_name_the_option(project: Project, option: str) -> None:
    ran = project.iterate(option)
    assert ran.code == 4
    assert option.split("=", maxsplit=1)[0] in ran.err
    assert "Traceback" not in ran.err
    assert project.calls == []


def test_paranoid_refuses_to_start_without_a_sandbox(project: Project) -> None:
    ran = project.iterate("--iterate-safety=paranoid", "--iterate-sandbox=none")
    assert ran.code == 11
    assert "sandbox: none forbids it" in ran.err
    assert project.calls == []


def test_a_broken_conftest_is_the_agents_to_mend(project: Project) -> None:
    project.write("conftest.py", "import not_there\n")
    project.agent({"write": {"conftest.py": "", "calc.py": FIXED}})
    ran = project.iterate("--iterate-format=json")
    task = ran.json["tasks"][0]
    assert task["baseline"]["outcome"] == "collection-error"
    assert "not_there" in project.calls[0]["prompt"]
    # It belongs to the tests, so somebody has to look at what became of it.
    assert (ran.code, task["reason"]) == (10, "review-pending"), ran.err
    answered = project.iterctl("answer", ran.json["run"], "--option", "1")
    assert answered.code == 0, answered.err
    assert (project.root / "conftest.py").read_text() == ""


def test_a_broken_conftest_that_the_task_may_change_needs_nobody(project: Project) -> None:
    project.write("conftest.py", "import not_there\n")
    project.agent({"write": {"conftest.py": "", "calc.py": FIXED}})
    ran = project.iterate("--iterate-may-change=conftest.py")
    assert ran.code == 0, ran.err


def test_options_of_the_projects_own_conftest_are_passed_on(project: Project) -> None:
    project.write(
        "conftest.py",
        "def pytest_addoption(parser):\n    parser.addoption('--flavour', default='none')\n"
        "def pytest_report_header(config):\n    assert config.getoption('--flavour') == 'sweet'\n",
    )
    project.write("pytest.ini", "[pytest]\naddopts = --flavour=sour\n")
    ran = project.iterate("--flavour", "sweet", "--iterate-format=json", "test_calc.py")
    assert ran.code == 0, ran.err
    assert ran.json["tasks"][0]["tests"]["passed"] == 3


def test_an_agent_that_runs_pytest_gets_a_plain_one(project: Project) -> None:
    project.write("pytest.ini", f"[pytest]\naddopts = --iterate\niterate_agent = {project.tools / 'nested.sh'}\n")
    nested = project.tools / "nested.sh"
    nested.write_text(
        f"#!/bin/sh\n{sys.executable} -m pytest -q > {project.tools}/nested.log\ncp {project.tools}/good.py calc.py\n"
    )
    nested.chmod(0o755)
    (project.tools / "good.py").write_text(FIXED)
    ran = project.pytest("--iterate-format=json")
    assert ran.code == 0, ran.err
    assert "2 failed, 1 passed" in (project.tools / "nested.log").read_text()


def test_the_users_junit_file_comes_from_the_verdict_run(project: Project) -> None:
    ran = project.iterate("--junitxml=out/report.xml")
    assert ran.code == 0, ran.err
    text = (project.root / "out/report.xml").read_text()
    assert 'tests="3"' in text
    assert 'failures="0"' in text


def test_markers_declare_tasks_and_each_runs_its_own_loop(project: Project) -> None:
    project.write(
        "test_calc.py",
        "import pytest\nfrom calc import double\n\n"
        "@pytest.mark.iterate(task='one', prompt='Mend one.', max_iterations=5)\n"
        "def test_one():\n    assert double(1) == 2\n\n"
        "@pytest.mark.iterate(task='many')\nclass TestMany:\n    def test_a(self):\n        assert double(5) == 10\n\n"
        "def test_rest():\n    assert double(7) == 14\n",
    )
    project.agent({"write": {"calc.py": FIXED}})
    ran = project.iterate("--iterate-format=json")
    assert ran.code == 0, ran.err
    tasks = {task["id"]: task for task in ran.json["tasks"]}
    assert list(tasks) == ["one", "many", "pytest"]
    assert (tasks["one"]["iterations"], tasks["one"]["max_iterations"], tasks["one"]["tests"]["passed"]) == (1, 5, 1)
    assert (tasks["many"]["iterations"], tasks["many"]["tests"]["passed"]) == (0, 1)
    assert "Mend one." in project.calls[0]["prompt"]
    only = project.iterate("--iterate-format=json", "--iterate-task=many")
    assert [task["id"] for task in only.json["tasks"]] == ["many"]
    unknown = project.iterate("--iterate-task=zero")
    assert unknown.code == 4


def test_a_wrong_marker_is_a_usage_error_before_any_agent_is_called(project: Project) -> None:
    project.write(
        "test_calc.py",
        "import pytest\n@pytest.mark.iterate(task='x', max_iterations='many')\ndef test_one():\n    assert 0\n",
    )
    ran = project.iterate()
    assert ran.code == 4
    assert "max_iterations must be a whole number" in ran.err
    assert project.calls == []


def test_hooks_in_a_conftest_generate_review_and_are_told(project: Project) -> None:
    project.write(
        "conftest.py",
        "import pathlib\nfrom pytest_iterctl import hookimpl\n\n"
        "@hookimpl\ndef iterctl_generate(request):\n"
        "    assert 'What fails now' in request.prompt\n"
        f"    pathlib.Path('calc.py').write_text({FIXED!r})\n"
        "    return {'cost_usd': 0.5, 'tokens': 10}\n\n"
        "@hookimpl\ndef iterctl_review(request):\n"
        "    return 'approve' if 'number * 2' in request.diff else 'reject'\n\n"
        "@hookimpl\ndef iterctl_decided(decision):\n"
        "    with open('decisions.log', 'a') as log:\n        log.write(decision['action'] + '\\n')\n",
    )
    ran = project.pytest("--iterate", "--iterate-agent=hook", "--iterate-reviewer=hook", "--iterate-format=json")
    assert ran.code == 0, ran.err
    assert (ran.json["cost_usd"], ran.json["tasks"][0]["iterations"]) == (0.5, 1)
    assert (project.root / "decisions.log").read_text() == "retry\nproceed\n"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise RuntimeError('no luck')", "no luck"),
        ("return None", "no implementation"),
        ("import os; os._exit(0)", "no result"),
    ],
)
def test_a_hook_that_fails_is_an_agent_that_failed(project: Project, body: str, reason: str) -> None:
    project.write(
        "conftest.py", f"from pytest_iterctl import hookimpl\n\n@hookimpl\ndef iterctl_generate(request):\n    {body}\n"
    )
    project.write("iterctl.yaml", "settings: {max_agent_failures: 1}\n")
    ran = project.pytest("--iterate", "--iterate-agent=hook", "--iterate-format=json")
    assert (ran.code, ran.json["tasks"][0]["reason"]) == (10, "agent-failed")
    assert reason in ran.json["tasks"][0]["explanation"]


def test_resume_without_a_name_takes_the_latest_run(project: Project) -> None:
    ran = project.iterate("--iterate-max=1", "--iterate-format=json")
    assert ran.code == 10
    again = project.pytest("--iterate", "--iterate-resume", "test_calc.py")
    assert again.code == 4
    assert "waits for an answer" in again.err


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--iterate", "-x", "tests"], ("-x", "tests")),
        (["--iterate", "--iterate-agent", "a b", "-k", "x"], ("-k", "x")),
        (["--iterate-agent=a b", "--iterate-commit", "tests", "--iterate"], ("tests",)),
        (["--iterate-commit=why", "--iterate-resume", "t"], ("t",)),
        (["--iterate-commit", "a message", "tests"], ("tests",)),
        (["--iterate", "--", "--iterate-like-name"], ("--", "--iterate-like-name")),
        (["-o", "x=y", "--iterate-dry-run"], ("-o", "x=y")),
    ],
)
def test_our_own_options_are_taken_out_of_the_childs_arguments(
    tmp_path: Path, given: list[str], expected: tuple[str, ...]
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "t").mkdir()
    assert child_arguments(given, tmp_path) == expected


def test_a_junit_file_that_was_asked_for_and_is_not_there_keeps_the_run_from_being_green(project: Project) -> None:
    project.write("calc.py", FIXED)
    project.write(
        "conftest.py",
        "import atexit, pathlib, pytest\n"
        "@pytest.hookimpl(trylast=True)\ndef pytest_unconfigure(config):\n    pathlib.Path('r.xml').unlink()\n",
    )
    ran = project.iterate("--junitxml=r.xml", "--iterate-max=1", "--iterate-format=json")
    assert ran.code == 10, ran.err
    assert ran.json["tasks"][0]["baseline"]["outcome"] == "incomplete"
