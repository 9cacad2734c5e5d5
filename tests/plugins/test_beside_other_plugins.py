"""Life beside the plugins that people really use: the verdict is right and their files stay theirs."""

from __future__ import annotations

import sys

import pytest

from tests.kit.project import FIXED, Project


def test_xdist_runs_the_tests_and_the_workers_start_no_loops(project: Project) -> None:
    ran = project.iterate("-n2", "--iterate-format=json")
    assert ran.code == 0, ran.err
    assert ran.json["tasks"][0]["tests"]["passed"] == 3
    assert len(project.calls) == 2


def test_xdist_sees_the_tasks_that_markers_declare(project: Project) -> None:
    tests = (project.root / "test_calc.py").read_text()
    project.write("test_calc.py", "import pytest\npytestmark = pytest.mark.iterate(task='doubling')\n" + tests)
    ran = project.iterate("-n2", "--iterate-format=json")
    assert ran.code == 0, ran.err
    assert [task["id"] for task in ran.json["tasks"]] == ["doubling"]


def test_a_collection_error_under_xdist_is_named_as_one(project: Project) -> None:
    project.write("calc.py", "def double(:\n")
    project.agent({"write": {"calc.py": FIXED}})
    ran = project.iterate("-n2", "--iterate-format=json")
    assert ran.code == 0, ran.err
    assert ran.json["tasks"][0]["baseline"]["outcome"] == "collection-error"


def test_cov_writes_its_report_from_the_verdict_run_and_the_parent_measures_nothing(project: Project) -> None:
    project.write(".gitignore", "__pycache__/\n.pytest_cache/\n.coverage\ncov.xml\n")
    ran = project.iterate("--cov=calc", "--cov-report=xml:cov.xml")
    assert ran.code == 0, ran.err
    assert 'line-rate="1"' in (project.root / "cov.xml").read_text()
    assert "no data was collected" not in (ran.err + ran.out).lower()


def test_a_missed_coverage_gate_is_a_failure_that_the_agent_is_told(project: Project) -> None:
    project.write("calc.py", FIXED + "\n\ndef unused():\n    a = 1\n    b = 2\n    c = 3\n    return a + b + c\n")
    project.agent({"write": {"calc.py": FIXED}})
    ran = project.iterate("--cov=calc", "--cov-fail-under=90", "--iterate-format=json")
    assert ran.code == 0, ran.err
    assert ran.json["tasks"][0]["iterations"] == 1
    assert "coverage" in project.calls[0]["prompt"].lower()


@pytest.mark.parametrize("method", ["signal", "thread"])
def test_timeout_ends_a_hanging_test_and_the_loop_knows_which(project: Project, method: str) -> None:
    project.write("calc.py", "import time\n\ndef double(number):\n    time.sleep(30)\n")
    project.agent({"write": {"calc.py": FIXED}})
    ran = project.iterate("--timeout=1", f"--timeout-method={method}", "--iterate-format=json")
    assert ran.code == 0, ran.err
    assert "test_one" in project.calls[0]["prompt"]
    assert ran.json["tasks"][0]["baseline"]["outcome"] in {"failed", "crashed"}


def test_randomly_may_shuffle_and_the_verdict_stays(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\n")
    ran = project.iterate("-p", "randomly", "--iterate-format=json")
    assert ran.code == 0, ran.err
    assert ran.json["tasks"][0]["iterations"] == 2


def test_rerunfailures_counts_a_test_once(project: Project) -> None:
    ran = project.iterate("--reruns=2", "--iterate-format=json")
    assert ran.code == 0, ran.err
    task = ran.json["tasks"][0]
    assert (task["tests"]["tests"], task["tests"]["passed"]) == (3, 3)


def test_warnings_as_errors_do_not_hit_our_own_code(project: Project) -> None:
    # pytest warns of what was imported before it: here nothing may have been.
    given = ("--iterate", f"--iterate-agent={project.agent_command}", "-W", "error")
    ran = project.run(sys.executable, "-m", "pytest", *given)
    assert ran.code == 0, ran.err
