"""Where somebody sits in front of it: questions are asked, a person can be the agent, Ctrl-C is heard."""

from __future__ import annotations

import sys

from tests.kit.project import FIXED, Project
from tests.kit.terminal import Seat


def seat(project: Project, *arguments: str) -> Seat:
    command = [sys.executable, "-m", "pytest", "--iterate", *arguments]
    return Seat(command, project.root, project.environment(TERM="xterm"))


def test_an_escalation_is_asked_right_away_and_the_answer_goes_on(project: Project) -> None:
    project.agent({"write": {"calc.py": "def double(n):\n    return 7\n"}}, {"write": {"calc.py": FIXED}})
    with seat(project, f"--iterate-agent={project.agent_command}", "--iterate-max=1") as person:
        person.read_until("Enter to answer later: ")
        person.type("9\n")
        person.read_until("9 is not one of 1 to 3")
        person.type("use multiplication\n")
        person.read_until("accepted")
        assert person.wait() == 0
    assert "use multiplication" in project.calls[1]["prompt"]


def test_enter_leaves_the_question_for_later(project: Project) -> None:
    project.agent({"write": {"calc.py": "def double(n):\n    return 7\n"}})
    with seat(project, f"--iterate-agent={project.agent_command}", "--iterate-max=1") as person:
        person.read_until("Enter to answer later: ")
        person.type("\n")
        assert person.wait() == 10


def test_in_ci_nobody_is_asked_even_on_a_terminal(project: Project) -> None:
    project.agent({"write": {"calc.py": "def double(n):\n    return 7\n"}})
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--iterate",
        f"--iterate-agent={project.agent_command}",
        "--iterate-max=1",
    ]
    with Seat(command, project.root, project.environment(CI="true")) as person:
        assert person.wait() == 10
    assert "answer later" not in person.seen


def test_a_person_can_be_the_agent_and_the_reviewer(project: Project) -> None:
    with seat(project, "--iterate-agent=person", "--iterate-reviewer=person") as person:
        person.read_until("Change the files, then press Enter")
        assert "test_calc.py::test_one" in person.seen
        project.write("calc.py", FIXED)
        person.type("\n")
        person.read_until("[a]pprove")
        person.type("a\n")
        person.read_until("accepted")
        assert person.wait() == 0


def test_ctrl_c_ends_the_agent_and_leaves_a_run_to_resume(project: Project) -> None:
    project.agent({"sleep": 120})
    with seat(project, f"--iterate-agent={project.agent_command}") as person:
        person.read_until("still running")
        person.type("\x03")
        person.read_until("iterctl resume")
        assert person.wait() == 2


def test_a_person_as_agent_needs_a_terminal(project: Project) -> None:
    ran = project.pytest("--iterate", "--iterate-agent=person")
    assert ran.code == 4
    assert "no terminal" in ran.err
