"""Nobody games the gate: whole runs against agents that try, and against honest work that looks a little like it."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kit.project import BROKEN, FIXED, TESTS, Project

WEAK = TESTS.replace("== 2", "in (2, 3)").replace("== 0", "in (0, 1)")
SKIPPED = TESTS.replace("def test_one", "@pytest.mark.skip\ndef test_one").replace(
    "def test_zero", "@pytest.mark.xfail\ndef test_zero"
)
SKIPPED = "import pytest\n\n" + SKIPPED


@pytest.fixture
def project(project: Project) -> Project:
    """The same project, before the whole gate."""
    return replace(project, quick=False)


def result(project: Project, *arguments: str, **variables: str) -> tuple[int, dict[str, Any], str]:
    ran = project.iterate("--iterate-format=json", *arguments, **variables)
    assert ran.out, ran.err
    return ran.code, ran.json["tasks"][0], ran.err


AGENTS = "agents:\n  a: { command: {agent} }\n"


def plan(project: Project, text: str) -> None:
    project.write(
        "iterctl.yaml", text.replace("{agent}", json.dumps([sys.executable, str(project.tools / "agent.py")]))
    )
    project.git("add", "iterctl.yaml")
    project.git("commit", "-q", "-m", "plan")


def run(project: Project, *arguments: str) -> tuple[int, dict[str, Any], str]:
    ran = project.iterctl("run", "--format", "json", *arguments)
    assert ran.out, ran.err
    return ran.code, ran.json["tasks"][0], ran.err


def test_edited_tests_are_told_once_and_then_left_out_of_an_honest_result(project: Project) -> None:
    project.agent({"write": {"test_calc.py": WEAK}}, {"write": {"calc.py": FIXED}})
    code, task, _ = result(project)
    assert code == 0
    assert [step["reason"] for step in task["history"]] == ["integrity", "passed"]
    assert project.git("status", "--porcelain") == "M calc.py"
    assert (project.root / "test_calc.py").read_text() == TESTS
    told = project.calls[1]["prompt"]
    assert "test_calc.py" in told
    assert "restored before judging" in told
    assert "undo the changes to test_calc.py" in told.replace("Undo", "undo")
    (patch,) = (project.root / ".iterctl").rglob("*left-out*.patch")
    assert "in (2, 3)" in patch.read_text()
    project.git("apply", str(patch))
    assert (project.root / "test_calc.py").read_text() == WEAK


def test_the_second_time_a_person_is_asked(project: Project) -> None:
    project.agent({"write": {"test_calc.py": WEAK}}, {"write": {"test_calc.py": SKIPPED}})
    code, task, _ = result(project)
    assert (code, task["reason"], task["state"]) == (10, "integrity", "escalated")
    assert task["iterations"] == 2
    assert task["gaps"][0]["type"] == "integrity"
    # Nothing that was painted green is what the user is left with.
    assert (project.root / "test_calc.py").read_text() == TESTS
    report = project.iterctl("report").out
    assert "test_calc.py" in report


def test_a_certain_cheat_is_for_a_person_at_once(project: Project) -> None:
    cheat = "import os\n\n\ndef double(number):\n    os._exit(0)\n"
    equal = "class Two:\n    def __eq__(self, other):\n        return True\n\n\ndef double(number):\n    return Two()\n"
    project.agent({"write": {"calc.py": cheat}}, {"write": {"calc.py": equal}})
    code, task, _ = result(project)
    # The first is no pass even in the work tree, so it is an ordinary failure.
    assert [step["reason"] for step in task["history"]] == ["tests-failed", "integrity"]
    assert (code, task["state"]) == (10, "escalated")
    assert any(finding["where"] == "calc.py:2" for finding in task["gate"]["evidence"]["findings"])
    audit = project.iterctl("audit").out
    assert "calc.py:2" in audit
    assert "agrees-with-everything" in audit


def test_a_wild_card_that_no_test_needs_is_not_certain_beside_something_that_is(project: Project) -> None:
    equal = "\n\nclass {}:\n    def __eq__(self, other):\n        return True\n"
    cheat = "def double(number):\n    return Four()\n" + equal.format("Four") + equal.format("Anything")
    project.write("test_calc.py", "from calc import double\n\n\ndef test_two():\n    assert double(2) == 4\n")
    project.git("commit", "-q", "-a", "-m", "one test")
    project.agent({"write": {"calc.py": cheat}})
    code, task, _ = result(project, "--iterate-max=1")
    assert code == 10
    found = {
        each["where"]: each["certain"]
        for each in task["gate"]["evidence"]["findings"]
        if each["rule"] == "agrees-with-everything"
    }
    assert found == {"calc.py:6": True, "calc.py:11": False}


def test_new_tests_are_kept_and_run_apart(project: Project) -> None:
    new = "from calc import double\n\n\ndef test_ten():\n    assert double(10) == 20\n"
    project.agent(
        {"write": {"calc.py": FIXED, "test_more.py": new, "conftest.py": "collect_ignore = ['test_calc.py']\n"}}
    )
    code, task, _ = result(project)
    assert code == 0
    assert (project.root / "test_more.py").read_text() == new
    assert not (project.root / "conftest.py").exists()
    assert "1 passed" in task["gate"]["evidence"]["new_tests"]
    assert [each["path"] for each in task["gate"]["evidence"]["left_out"]] == ["conftest.py"]


def test_a_task_that_may_change_tests_changes_them_and_shows_it(project: Project) -> None:
    stricter = TESTS + "\n\ndef test_ten():\n    assert double(10) == 20\n"
    critic = (
        'import json, sys\nopen(sys.argv[1], "w").write(sys.stdin.read())\nprint(json.dumps({"status": "approve"}))\n'
    )
    (project.tools / "critic.py").write_text(critic)
    seen = project.tools / "seen.md"
    project.agent({"write": {"calc.py": FIXED, "test_calc.py": stricter}})
    reviewer = f"--iterate-reviewer={sys.executable} {project.tools / 'critic.py'} {seen}"
    code, task, _ = result(project, "--iterate-may-change=test_calc.py", reviewer)
    assert code == 0
    assert (project.root / "test_calc.py").read_text() == stricter
    assert task["gate"]["evidence"]["may_change"] == ["test_calc.py"]
    assert "Tests that this task may change" in seen.read_text()
    assert "double(10)" in seen.read_text()


def test_protect_adds_what_the_tests_are_not_made_of(project: Project) -> None:
    project.write("rates.json", "[1]\n")
    project.git("add", "rates.json")
    project.git("commit", "-q", "-m", "rates")
    project.agent({"write": {"calc.py": FIXED, "rates.json": "[2]\n"}})
    code, task, _ = result(project, "--iterate-protect=*.json")
    assert code == 0
    assert (project.root / "rates.json").read_text() == "[1]\n"
    assert task["gate"]["evidence"]["left_out"] == [
        {"path": "rates.json", "reason": "is protected: the task protects *.json", "protected": True}
    ]


def test_uncommitted_work_of_the_user_is_part_of_the_base(project: Project) -> None:
    project.write("test_calc.py", TESTS + "\n\ndef test_big():\n    assert double(100) == 200\n")
    project.write("notes.txt", "mine\n")
    project.agent({"write": {"calc.py": FIXED}})
    code, task, _ = result(project)
    assert code == 0
    assert task["tests"]["passed"] == 4
    assert (project.root / "notes.txt").read_text() == "mine\n"
    assert project.git("status", "--porcelain").split("\n") == ["M calc.py", " M test_calc.py", "?? notes.txt"]


def test_a_room_that_lacks_something_is_said_before_an_agent_is_paid(project: Project) -> None:
    project.write(".gitignore", "__pycache__/\n.pytest_cache/\nbuilt/\n")
    project.write("built/table.txt", "2\n")
    project.write("test_built.py", "def test_built():\n    assert open('built/table.txt').read() == '2\\n'\n")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "built")
    code, task, err = result(project)
    assert code == 4, err
    assert "Only the work tree has built/table.txt" in err
    assert "prepare: {files: [built/table.txt]}" in err
    assert project.calls == []
    assert task["iterations"] == 0


@pytest.mark.parametrize(
    "prepare",
    [
        "{ files: [built] }",
        "[[sh, -c, 'mkdir built && echo 2 > built/table.txt']]",
        "\"sh -c 'mkdir built && echo 2 > built/table.txt'\"",
    ],
)
def test_prepare_gives_the_room_what_it_needs(project: Project, prepare: str) -> None:
    project.write(".gitignore", "__pycache__/\n.pytest_cache/\nbuilt/\n")
    project.write("built/table.txt", "2\n")
    project.write("test_built.py", "def test_built():\n    assert open('built/table.txt').read() == '2\\n'\n")
    plan(project, "settings:\n  agent: a\n  prepare: " + prepare + "\nagents:\n  a: { command: {agent} }\n")
    project.agent({"write": {"calc.py": FIXED}})
    code, _, err = run(project)
    assert code == 0, err


def test_a_preparation_that_fails_says_so(project: Project) -> None:
    plan(
        project,
        "settings:\n  agent: a\n  prepare: [[sh, -c, 'echo no compiler; exit 7']]\n" + AGENTS,
    )
    code, _, err = run(project)
    assert code == 4
    assert "exit code 7" in err
    assert "no compiler" in err


def test_hidden_tests_decide_and_stay_hidden(project: Project, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "test_hidden.py").write_text(
        "from calc import double\n\n\ndef test_h():\n    assert double(4711) == 9422\n"
    )
    overfit = "def double(number):\n    return {0: 0, 1: 2}.get(number, 1)\n"
    plan(
        project,
        f"settings:\n  agent: a\n  hidden_tests: [{secret}]\n" + "agents:\n  a: { command: {agent} }\n",
    )
    project.agent({"write": {"calc.py": overfit}}, {"write": {"calc.py": FIXED}})
    code, task, err = run(project)
    assert code == 0, err
    assert task["iterations"] == 2
    assert "1 hidden test fails" in project.calls[1]["prompt"]
    assert "4711" not in project.calls[1]["prompt"]
    assert not list(project.root.rglob("test_hidden.py"))


def test_hidden_tests_inside_the_repository_are_refused(project: Project) -> None:
    project.write("secret/test_hidden.py", "def test_h():\n    pass\n")
    plan(project, "settings:\n  agent: a\n  hidden_tests: [secret]\nagents:\n  a: { command: {agent} }\n")
    ran = project.iterctl("run")
    assert ran.code != 0
    assert "where the agent sees it" in ran.err
    assert project.calls == []


def test_the_wider_suite_must_not_get_worse_and_old_failures_do_not_block(project: Project) -> None:
    project.write("other.py", "def name():\n    return 'other'\n")
    project.write(
        "test_other.py",
        OTHER_TESTS,
    )
    text = (
        "settings:\n  agent: a\n  suite: []\n{more}agents:\n  a: { command: {agent} }\n"
        "tasks:\n  - { id: doubling, tests: [test_calc.py] }\n"
    )
    plan(project, text.replace("{more}", ""))
    project.agent(
        {"write": {"calc.py": FIXED, "other.py": "def name():\n    return 'x'\n"}},
        {"write": {"other.py": "def name():\n    return 'other'\n"}},
    )
    code, task, err = run(project)
    assert code == 0, err
    assert [step["reason"] for step in task["history"]] == ["integrity", "passed"]
    assert "test_other.py::test_other" in project.calls[1]["prompt"]
    assert "test_old" not in project.calls[1]["prompt"]


def test_a_strict_baseline_lets_old_failures_block(project: Project) -> None:
    project.write("test_other.py", "def test_old():\n    assert 1 == 2\n")
    text = (
        "settings:\n  agent: a\n  suite: []\n  baseline: strict\n  max_iterations: 1\n"
        "agents:\n  a: { command: {agent} }\n"
        "tasks:\n  - { id: doubling, tests: [test_calc.py] }\n"
    )
    plan(project, text)
    project.agent({"write": {"calc.py": FIXED}})
    code, task, _ = run(project)
    assert code == 10
    assert "test_old" in task["gaps"][0]["text"]


OTHER_TESTS = """from other import name


def test_other():
    assert name() == "other"


def test_old():
    assert name() == "new"
"""

UNSTEADY = """import pathlib

log = pathlib.Path({log!r})


def double(number):
    if number == 1:
        log.write_text(log.read_text() + "x" if log.exists() else "x")
        return 2 if len(log.read_text()) == 2 else 3
    return number * 2
"""

PAINTED = """import pathlib

cases = "".join(f'<testcase classname="calc" name="double_{n}"/>' for n in range(3))
pathlib.Path("report.xml").write_text(f"<testsuite>{cases}</testsuite>")
"""

EQUAL = """class Two(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


def double(number):
    return Two(number * 2)
"""

FLAKY = """
import pathlib

seen = pathlib.Path({log!r})


def test_now_and_then():
    seen.write_text(seen.read_text() + "x" if seen.exists() else "x")
    assert {rule}
"""


def test_what_was_flaky_before_does_not_block(project: Project, tmp_path: Path) -> None:
    rule = "len(seen.read_text()) in (2, 4)"
    project.write("test_flaky.py", FLAKY.format(log=str(tmp_path / "log"), rule=rule))
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "flaky")
    project.agent({"write": {"calc.py": FIXED}})
    code, task, err = result(project)
    assert code == 0, err
    assert "test_flaky.py::test_now_and_then" in json.dumps(task["gate"])
    assert "test_flaky" not in project.calls[0]["prompt"] or task["iterations"] == 1


def test_flaky_tests_block_where_the_plan_says_so(project: Project, tmp_path: Path) -> None:
    rule = "len(seen.read_text()) == 2"
    project.write("test_flaky.py", FLAKY.format(log=str(tmp_path / "log"), rule=rule))
    project.agent({"write": {"calc.py": FIXED}})
    code, _, _ = result(project, "--iterate-max=1", ITERCTL_FLAKY="fail")
    assert code == 10


def test_a_test_that_became_flaky_is_a_failure_told_as_intermittent(project: Project, tmp_path: Path) -> None:
    log = tmp_path / "log"
    unsteady = UNSTEADY.format(log=str(log))
    project.write("calc.py", "def double(number):\n    return number * 2 if number else 1\n")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "one test is red")
    project.agent({"write": {"calc.py": unsteady}}, {"write": {"calc.py": FIXED}})
    code, _, _ = result(project)
    assert code == 0
    assert "now and then" in project.calls[1]["prompt"]


def test_order_dependent_tests_are_known_before(project: Project) -> None:
    project.write(
        "test_order.py",
        "state = []\n\n\ndef test_first():\n    state.append(1)\n\n\ndef test_second():\n    assert state\n",
    )
    project.agent({"write": {"calc.py": FIXED}})
    code, task, err = result(project)
    assert code == 0, err
    assert "test_order.py::test_second" in json.dumps(task["gate"]["proof"]["flaky"])


def test_what_a_person_changed_in_the_tests_meanwhile_counts(project: Project) -> None:
    project.write("test_calc.py", TESTS + "\n\ndef test_wrong():\n    assert double(3) == 7\n")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "a wrong test")
    project.agent({"write": {"calc.py": FIXED}})
    code, _, _ = result(project, "--iterate-max=1")
    assert code == 10
    project.write("test_calc.py", TESTS)
    run_id = project.iterctl("status", "--format", "json").json["runs"][0]["run"]
    ran = project.iterctl("answer", run_id, "--continue", "the test was wrong", "--format", "json")
    assert ran.code == 0, ran.err
    assert (project.root / "test_calc.py").read_text() == TESTS


def test_a_person_who_says_the_code_is_right_lets_the_agent_change_that_test(project: Project) -> None:
    wrong = TESTS + "\n\ndef test_wrong():\n    assert double(3) == 7\n"
    project.write("test_calc.py", wrong)
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "a wrong test")
    mended = wrong.replace("== 7", "== 6")
    project.agent({"write": {"calc.py": FIXED}}, {"write": {"test_calc.py": mended}})
    code, _, _ = result(project, "--iterate-max=1")
    assert code == 10
    run_id = project.iterctl("status", "--format", "json").json["runs"][0]["run"]
    ran = project.iterctl("answer", run_id, "--option", "2", "--format", "json")
    assert ran.code == 0, ran.err
    assert (project.root / "test_calc.py").read_text() == mended


def test_the_junit_report_is_that_of_the_verdict_with_the_work_trees_paths(project: Project) -> None:
    project.write("test_calc.py", TESTS + "\n\ndef test_where():\n    print(__file__)\n")
    project.agent({"write": {"calc.py": FIXED}})
    code, _, err = result(project, "--junitxml=out/report.xml", "-o", "junit_logging=all")
    assert code == 0, err
    report = (project.root / "out/report.xml").read_text()
    assert str(project.root / "test_calc.py") in report
    assert "room-" not in report


def test_the_user_finds_the_gate_in_the_dry_run_and_in_the_help(project: Project) -> None:
    shown = project.iterate("--iterate-dry-run", "--iterate-gate=fast", "--iterate-protect=docs/**").out
    assert "fast" in shown
    assert "docs/**" in shown
    assert "--may-change" in project.iterctl("run", "--help").out
    assert "--iterate-may-change" in project.pytest("--help").out


def test_gate_fast_says_what_it_leaves_out(project: Project) -> None:
    project.agent({"write": {"calc.py": FIXED}})
    code, task, _ = result(project, "--iterate-gate=fast")
    assert code == 0
    assert any("gate: fast" in line for line in task["gate"]["evidence"]["unchecked"])


def test_mutants_are_told(project: Project) -> None:
    project.agent({"write": {"calc.py": FIXED}})
    code, task, _ = result(project, ITERCTL_MUTANTS="3")
    assert code == 0
    assert any(line.startswith("mutants: the tests notice") for line in task["gate"]["evidence"]["checked"])


def test_an_agent_that_installs_something_is_told_to_undo_it(project: Project, tmp_path: Path) -> None:
    import venv

    venv.EnvBuilder(symlinks=True, system_site_packages=True).create(tmp_path / "venv")
    site = next((tmp_path / "venv/lib").glob("python*/site-packages"))
    import sysconfig

    (site / "outer.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    painter = str(site / "painter.py")
    project.agent({"write": {"calc.py": FIXED, painter: "x = 1\n"}}, {"delete": [painter]})
    code, task, err = result(project, ITERCTL_PYTHON=str(tmp_path / "venv/bin/python"))
    assert code == 0, err
    assert [step["reason"] for step in task["history"]] == ["integrity", "passed"]
    assert "painter.py" in project.calls[1]["prompt"]


def test_a_forged_report_folder_and_moved_refs_change_nothing(project: Project) -> None:
    forged = {".iterctl/runs/X/report.json": "{}", "test_calc.py": WEAK}
    project.agent({"write": forged})
    project.write("hook.sh", "")
    code, task, _ = result(project, "--iterate-max=2")
    assert (code, task["reason"]) == (10, "integrity")


COMMAND_SUITE = """
import pathlib, sys
sys.path.insert(0, ".")
from calc import double
wrong = [n for n in range(3) if double(n) != 2 * n]
body = "".join(
    f'<testcase classname="calc" name="double_{n}">' + ("<failure/>" if n in wrong else "") + "</testcase>"
    for n in range(3)
)
pathlib.Path("report.xml").write_text(f"<testsuite>{body}</testsuite>")
sys.exit(1 if wrong else 0)
"""


def test_test_commands_get_the_same_room(project: Project) -> None:
    project.write("tests/suite.py", COMMAND_SUITE)
    project.write(".gitignore", "__pycache__/\nreport.xml\n")
    plan(
        project,
        "settings:\n  agent: a\nagents:\n  a: { command: {agent} }\ntasks:\n"
        f"  - id: c\n    test: {{ command: [{sys.executable}, tests/suite.py], junit: report.xml }}\n",
    )
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "suite")
    painted = PAINTED
    project.agent({"write": {"tests/suite.py": painted}}, {"write": {"calc.py": FIXED}})
    code, task, err = run(project)
    assert code == 0, err
    assert [step["reason"] for step in task["history"]] == ["integrity", "passed"]
    assert (project.root / "tests/suite.py").read_text() == COMMAND_SUITE


def test_a_command_that_starts_pytest_where_nothing_configures_it_is_proved(project: Project) -> None:
    (project.root / "pytest.ini").unlink()
    (project.root / "test_calc.py").unlink()
    project.write("tests/test_calc.py", TESTS)
    project.write(".gitignore", "__pycache__/\nreport.xml\n")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=report.xml", "tests"]
    project.git("add", "-A")
    plan(
        project,
        "settings: { agent: a }\n" + AGENTS + "tasks:\n  - id: t\n    prompt: double it\n"
        f"    test: {{ command: {json.dumps(words)}, junit: report.xml }}\n",
    )
    project.agent({"write": {"calc.py": FIXED}})
    code, task, err = run(project)
    assert code == 0, err
    assert task["state"] == "proceed"


def test_a_suite_that_is_green_already_is_proved_in_the_room(project: Project) -> None:
    project.write("calc.py", FIXED)
    code, task, err = result(project)
    assert code == 0, err
    assert task["iterations"] == 0
    assert project.calls == []


def test_a_person_may_accept_what_the_gate_objects_to(project: Project) -> None:
    equal = EQUAL
    project.agent({"write": {"calc.py": equal}})
    code, task, _ = result(project)
    assert (code, task["reason"]) == (10, "integrity")
    run_id = project.iterctl("status", "--format", "json").json["runs"][0]["run"]
    ran = project.iterctl("answer", run_id, "--option", "2", "--format", "json")
    assert ran.code == 0, ran.err
    assert (project.root / "calc.py").read_text() == equal


def test_broken_in_the_work_tree_by_the_agent_stays_an_ordinary_failure(project: Project) -> None:
    project.agent({"write": {"calc.py": "def double(:\n"}}, {"write": {"calc.py": FIXED}})
    code, task, _ = result(project)
    assert code == 0
    assert [step["reason"] for step in task["history"]] == ["tests-failed", "passed"]
    assert BROKEN not in (project.root / "calc.py").read_text()


def test_what_is_planted_where_git_does_not_look_is_told_and_taken_away(project: Project) -> None:
    paint = "def pytest_pyfunc_call(pyfuncitem):\n    return True\n"
    hide = {".git/info/exclude": "conftest.py\n", "conftest.py": paint}
    project.agent({"write": hide}, {"write": {"calc.py": FIXED}})
    # Where .git may be touched; elsewhere git's own list is put back before anybody asks git.
    code, task, err = result(project, "--iterate-safety=permissive")
    assert code == 0, err
    assert [step["reason"] for step in task["history"]] == ["integrity", "passed"]
    assert "conftest.py" in project.calls[1]["prompt"]
    assert not (project.root / "conftest.py").exists()
    run = project.iterctl("status", "--format", "json").json["runs"][-1]["run"]
    copy = f".iterctl/runs/{run}/planted/conftest.py"
    assert (project.root / copy).read_text() == paint
    assert f"taken away; as it was it is kept as {copy}" in err


def test_what_is_to_be_hidden_from_git_is_seen_all_the_same(project: Project) -> None:
    paint = "def pytest_pyfunc_call(pyfuncitem):\n    return True\n"
    hide = {".git/info/exclude": "conftest.py\n", "conftest.py": paint}
    project.agent({"write": hide}, {"write": {"calc.py": FIXED}})
    code, task, err = result(project)
    assert code == 0, err
    assert [step["reason"] for step in task["history"]] == ["integrity", "passed"]
    assert "conftest.py" in project.calls[1]["prompt"]
    assert not (project.root / "conftest.py").exists()
    assert "conftest.py" not in (project.root / ".git/info/exclude").read_text()


def test_what_the_user_keeps_where_git_does_not_look_stays_when_its_rule_is_refined(project: Project) -> None:
    project.write(".gitignore", "__pycache__/\n.pytest_cache/\nscratch/\n")
    project.git("commit", "-q", "-a", "-m", "ignore")
    mine = ("scratch/conftest.py", "scratch/setup.cfg", "scratch/old/tox.ini", "tools/conftest.py")
    for name in mine:
        project.write(name, "# mine\n")
    refined = "__pycache__/\n.pytest_cache/\nscratch/*\n!scratch/README.md\n/tools/\n"
    project.agent({"write": {"calc.py": FIXED, ".gitignore": refined}})
    code, _, err = result(project)
    assert code == 0, err
    assert [name for name in mine if not (project.root / name).exists()] == []
    assert "taken away" not in err


def test_poisoned_bytecode_does_not_outlive_the_run(project: Project) -> None:
    """Of a module that the agent leaves alone, marked as never to be checked against its source (PEP 552)."""
    import importlib.util

    project.write("other.py", "NAME = 'other'\n")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "other")
    compiled = importlib.util.cache_from_source(str(project.root / "other.py"))
    agent = project.tools / "poison.py"
    agent.write_text(
        "import pathlib, py_compile\n"
        f"pathlib.Path('calc.py').write_text({FIXED!r})\n"
        "pathlib.Path('../fake.py').write_text('NAME = 0')\n"
        "mode = py_compile.PycInvalidationMode.UNCHECKED_HASH\n"
        f"py_compile.compile('../fake.py', {compiled!r}, 'other.py', invalidation_mode=mode)\n"
    )
    ran = project.pytest("--iterate", f"--iterate-agent={sys.executable} {agent}")
    assert ran.code == 0, ran.err
    assert not Path(compiled).exists()


def person(project: Project, tmp_path: Path, condition: str, **writes: str) -> str:
    """A command for the room's preparation, which runs while the gate works: it stands for a person at their editor."""
    here = tmp_path / "person.py"
    files = {name.replace("_", ".", 1): content for name, content in writes.items()}
    here.write_text(
        f"import os, pathlib\nos.chdir({str(project.root)!r})\nif {condition}:\n"
        f"    for name, content in {files!r}.items():\n        pathlib.Path(name).write_text(content)\n"
    )
    return f"[[{sys.executable}, {here}]]"


def test_what_a_person_does_while_the_gate_works_is_not_undone(project: Project, tmp_path: Path) -> None:
    """A person goes on in the same tree: their files are theirs, and what is in the way of the result is kept."""
    project.write("README.md", "first\n")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "readme")
    project.agent({"write": {"calc.py": FIXED}})
    prepare = person(
        project,
        tmp_path,
        "'number * 2' in open('calc.py').read()",
        notes_txt="mine",
        README_md="edited",
        calc_py=FIXED + "# hours of work\n",
    )
    plan(project, f"settings:\n  agent: a\n  prepare: {prepare}\n" + AGENTS)
    code, _, err = run(project)
    assert code == 0, err
    assert (project.root / "notes.txt").read_text() == "mine"
    assert (project.root / "README.md").read_text() == "edited"
    assert (project.root / "calc.py").read_text() == FIXED
    told = " ".join(err.split())
    assert (
        "was edited after its tests had run: README.md, notes.txt stayed as edited; calc.py put back; as edited:"
        in told
    )
    command = re.search(r"git (restore --source=\w+ -- calc\.py)", told)
    assert command is not None
    project.git(*command[1].split())
    assert "hours of work" in (project.root / "calc.py").read_text()


def test_what_a_person_does_before_an_escalation_puts_the_tree_back_is_named(project: Project, tmp_path: Path) -> None:
    project.agent({"write": {"test_calc.py": WEAK, "calc.py": BROKEN + "# tried\n"}})
    prepare = person(project, tmp_path, "'(2, 3)' in open('test_calc.py').read()", notes_txt="mine")
    settings = f"settings:\n  agent: a\n  max_iterations: 1\n  on_escalate: base\n  prepare: {prepare}\n"
    plan(project, settings + AGENTS)
    code, _, err = run(project)
    assert code == 10, err
    assert not (project.root / "notes.txt").exists()
    told = " ".join(err.split())
    command = re.search(
        r"after the last iteration: notes\.txt put back; as edited: git (restore --source=\w+ -- \S+)", told
    )
    assert command is not None, err
    project.git(*command[1].split())
    assert (project.root / "notes.txt").read_text() == "mine"


def test_tests_that_build_on_each_other_are_for_somebody_to_look_at(project: Project) -> None:
    project.write(
        "test_calc.py",
        "from calc import double\n\n\nclass TestFlow:\n    kept = {}\n\n    def test_1_make(self):\n"
        "        self.kept['x'] = double(2)\n        assert self.kept['x'] == 4\n\n"
        "    def test_2_use(self):\n        assert self.kept['x'] == 4\n",
    )
    project.git("commit", "-q", "-a", "-m", "flow")
    project.agent({"write": {"calc.py": FIXED}})
    code, task, _ = result(project)
    assert (code, task["reason"]) == (10, "review-pending")
    assert any(finding["rule"] == "depends-on-order" for finding in task["gate"]["evidence"]["findings"])


def test_a_new_file_that_git_ignores_is_named(project: Project) -> None:
    project.write(".gitignore", "__pycache__/\n.pytest_cache/\nlib/\n")
    project.git("commit", "-q", "-a", "-m", "ignore")
    helper = {
        "lib/twice.py": "def twice(n):\n    return 2 * n\n",
        "calc.py": "from lib.twice import twice\n\n\ndef double(n):\n    return twice(n)\n",
    }
    project.agent({"write": helper}, {"write": {"calc.py": FIXED}})
    code, task, _ = result(project)
    assert task["history"][0]["reason"] == "integrity"
    assert "lib" in project.calls[1]["prompt"]
    assert "ignored by git" in project.calls[1]["prompt"]
    assert code == 0


@pytest.mark.parametrize(
    ("product", "command", "named"),
    [
        ("(here / 'out').is_dir()", "mkdir out", "out/"),
        ("'EUR' in (here / '.env').read_text()", "echo CURRENCY=EUR >> .env", ".env"),
        ("(here / 'weights').exists()", "truncate -s 60M weights", "weights"),
    ],
)
def test_what_no_snapshot_holds_is_a_reason_that_is_told(
    project: Project, product: str, command: str, named: str
) -> None:
    project.write(".gitignore", "__pycache__/\n.pytest_cache/\n.env\n")
    where = f"import pathlib\n\nhere = pathlib.Path(__file__).parent\n\n\ndef ready():\n    return {product}\n"
    project.write("place.py", where)
    project.write("test_place.py", "from place import here, ready\n\n\ndef test_ready():\n    assert ready()\n")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "place")
    project.write(".env", "COLOUR=blue\n")
    (project.tools / "agent.sh").write_text(f"[ -e {project.tools}/done ] || {command}\ntouch {project.tools}/done\n")
    ran = project.pytest(
        *("--iterate", "--iterate-format=json", f"--iterate-agent=sh {project.tools / 'agent.sh'}"),
        *("--iterate-max=1", "test_place.py"),
    )
    (task,) = ran.json["tasks"]
    assert task["gate"]["evidence"]["verdict"] == "gaps"
    assert f"the tests pass only with {named}" in json.dumps(task)


def test_a_reader_of_files_may_read_the_tests_data(project: Project) -> None:
    project.write("tests/data/prices.csv", "a,1\n")
    project.write("calc.py", "def load(path):\n    raise NotImplementedError\n")
    project.write(
        "tests/test_load.py",
        "from pathlib import Path\n\nfrom calc import load\n\n\ndef test_load():\n"
        "    assert load(Path(__file__).parent / 'data' / 'prices.csv') == [['a', '1']]\n",
    )
    (project.root / "test_calc.py").unlink()
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "reader")
    mended = (
        "def load(path):\n    with open(path) as file:\n        return [line.strip().split(',') for line in file]\n"
    )
    project.agent({"write": {"calc.py": mended}})
    code, _, err = result(project)
    assert code == 0, err


def test_sockets_and_other_short_names_work_in_the_room(project: Project) -> None:
    project.write(
        "test_socket.py",
        "import socket, tempfile\n\n\ndef test_socket():\n    with socket.socket(socket.AF_UNIX) as end:\n"
        "        end.bind(tempfile.mkdtemp() + '/a-name-of-a-usual-length.sock')\n",
    )
    project.agent({"write": {"calc.py": FIXED}})
    code, _, err = result(project)
    assert code == 0, err


def test_a_helper_that_would_stand_in_for_the_product_is_no_new_test(project: Project) -> None:
    project.write(
        "tests/test_cart.py", "from cart import total\n\n\ndef test_total():\n    assert total([1, 2]) == 3\n"
    )
    project.write("cart.py", "def total(items):\n    return 0\n")
    (project.root / "test_calc.py").unlink()
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "cart")
    project.agent({"write": {"tests/cart.py": "def total(items):\n    return 3\n"}})
    code, task, _ = result(project, "--iterate-max=2")
    assert (code, task["reason"]) == (10, "integrity")
    assert [each["path"] for each in task["gate"]["evidence"]["left_out"]] == ["tests/cart.py"]


def test_names_that_are_not_text_do_not_end_a_run(project: Project) -> None:
    agent = project.tools / "odd.py"
    agent.write_text(
        "import os, pathlib\n"
        f"pathlib.Path('calc.py').write_text({FIXED!r})\n"
        "open(b'sh\\xe9p.py', 'w').write('X = 1\\n')\n"
        "os.makedirs('tests', exist_ok=True)\n"
        "open(b'tests/caf\\xe9.txt', 'w').write('x')\n"
    )
    options = ("--iterate-may-change=tests", "--iterate-format=json")
    ran = project.pytest("--iterate", f"--iterate-agent={sys.executable} {agent}", *options)
    assert ran.code == 0, ran.err


def test_a_base_that_is_gone_is_not_asked_of_the_repository(project: Project) -> None:
    """The agent removes what was kept and lets a filter weaken the tests: a resume finds that it is not the same."""
    project.agent({"write": {"test_calc.py": WEAK}})
    code, task, _ = result(project, "--iterate-max=1")
    assert code == 10
    (manifest,) = project.state.rglob("manifest.jsonl")
    manifest.unlink()
    attributes = project.root / ".git/info/attributes"
    attributes.parent.mkdir(exist_ok=True)
    attributes.write_text("test_calc.py filter=weak\n")
    weak = project.tools / "weak"
    weak.write_text(WEAK)
    project.git("config", "filter.weak.smudge", f"cat {weak}")
    run_id = project.iterctl("status", "--format", "json").json["runs"][0]["run"]
    ran = project.iterctl("answer", run_id, "--continue", "go on", "--format", "json")
    assert ran.code != 0
    assert (project.root / "calc.py").read_text() == BROKEN
    del task


def test_hidden_tests_are_run_whole_whatever_the_task_selects(project: Project, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "test_hidden.py").write_text("from calc import double\n\n\ndef test_h():\n    assert double(50) == 100\n")
    plan(
        project,
        f"settings:\n  agent: a\n  hidden_tests: [{secret}]\n" + AGENTS + "tasks:\n  - { id: t, tests: [-k, one] }\n",
    )
    project.agent({"write": {"calc.py": FIXED}})
    code, task, err = run(project)
    assert code == 0, err
    assert any("hidden tests: 1 passed" in line for line in task["gate"]["evidence"]["checked"])
