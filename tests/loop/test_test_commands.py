"""Test commands of any language, run for real: only what this very run reported counts, and nothing is a pass alone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_iterctl.control.evidence import Counts, Outcome, SuiteEvidence
from pytest_iterctl.control.limits import Allowance
from pytest_iterctl.loop.testing import Bench
from pytest_iterctl.plan.frozen import FrozenTask
from pytest_iterctl.plan.model import TestCommand

GREEN = '<testsuite name="s"><testcase name="a"/><testcase name="b"/></testsuite>'
RED = '<testsuite name="s"><testcase name="a"/><testcase name="b"><failure>no</failure></testcase></testsuite>'
OTHER = '<testsuite name="other"><testcase name="c"/></testsuite>'

Run = Callable[..., SuiteEvidence]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a script as the test command, in a folder that stays the same from run to run."""
    folder = tmp_path / "work"
    folder.mkdir()

    def tested(script: str, *, junit: str = "reports/*.xml", until: str = "") -> SuiteEvidence:
        head = "import os, pathlib, signal, subprocess, sys, time\npathlib.Path('reports').mkdir(exist_ok=True)\n"
        (tmp_path / "suite.py").write_text(head + script)
        command = TestCommand(command=(sys.executable, "-S", "-E", str(tmp_path / "suite.py")), junit=junit)
        bench = Bench("r1", folder, tmp_path, as_module=False)
        task = FrozenTask(id="t", test=command)
        return bench.test(task, Allowance(60, ""), lambda _elapsed: bool(until) and (folder / until).exists()).suite

    return tested


def writes(report: str, name: str = "reports/one.xml") -> str:
    return f"pathlib.Path({name!r}).write_text({report!r})\n"


@pytest.mark.parametrize(
    ("script", "outcome", "reason"),
    [
        pytest.param(writes(GREEN), Outcome.PASSED, "2 passed", id="green"),
        pytest.param(writes(RED) + "sys.exit(1)", Outcome.FAILED, "1 failed, 1 passed", id="red"),
        pytest.param(writes(RED), Outcome.FAILED, "1 failed, 1 passed, although the exit code is 0", id="red but 0"),
        pytest.param(
            writes(GREEN) + "sys.exit(1)",
            Outcome.FAILED,
            "exit code 1 although the report shows no failure",
            id="green but 1",
        ),
        pytest.param("", Outcome.NO_REPORT, "left no report that matches reports/*.xml (exit code 0)", id="no report"),
        pytest.param("sys.exit(127)", Outcome.NO_REPORT, "(exit code 127)", id="no report, failed"),
        pytest.param("sys.exit(139)", Outcome.NO_REPORT, "(exit code 139, as after signal 11)", id="a shell's signal"),
        pytest.param("os.kill(os.getpid(), 9)", Outcome.CRASHED, "it was killed by signal 9", id="killed"),
        pytest.param(
            writes(GREEN) + "os.kill(os.getpid(), 11)",
            Outcome.CRASHED,
            "killed by signal 11 although the report shows no failure",
            id="killed after a green report",
        ),
        pytest.param(writes(GREEN[:-20]), Outcome.INCOMPLETE, "the report is cut off or damaged", id="cut off"),
        pytest.param(writes(""), Outcome.NO_REPORT, "one.xml: is empty (exit code 0)", id="empty"),
        pytest.param(writes("<html/>"), Outcome.NO_REPORT, "holds no test case", id="no report at all"),
        pytest.param(writes("<testsuite/>"), Outcome.NO_TESTS, "no test ran", id="no tests"),
        pytest.param(
            writes(GREEN) + writes("", "reports/two.xml"),
            Outcome.NO_REPORT,
            "two.xml: is empty",
            id="one is unreadable",
        ),
        pytest.param("os.mkfifo('reports/pipe.xml')", Outcome.NO_REPORT, "is not a regular file", id="a named pipe"),
    ],
)
def test_exit_code_and_report_must_agree_on_a_pass(run: Run, script: str, outcome: Outcome, reason: str) -> None:
    suite = run(script)
    assert suite.outcome is outcome
    assert reason in suite.reason


def test_what_the_command_printed_is_told_when_no_report_tells_why(run: Run) -> None:
    for end in ("sys.exit(1)", writes(GREEN) + "sys.exit(1)"):
        suite = run(f"print('npm error Missing script: test', file=sys.stderr)\n{end}")
        (failure,) = suite.failures
        assert failure.phase == "session"
        assert failure.message == suite.reason
        assert "Missing script: test" in failure.output


def test_a_report_from_before_the_run_does_not_count(run: Run) -> None:
    assert run(writes(GREEN)).passed
    suite = run("")
    assert suite.outcome is Outcome.NO_REPORT
    assert "1 older report was left as it was and does not count" in suite.reason
    assert suite.counts == Counts()


def test_the_same_report_written_again_counts(run: Run) -> None:
    # The same content, and the time set back to what it was, as tools do that build reproducibly.
    again = f"path = pathlib.Path('reports/one.xml')\npath.write_text({GREEN!r})\nos.utime(path, (1, 1))\n"
    assert run(again).passed
    assert run(again).passed


def test_what_is_left_from_an_earlier_iteration_is_told_and_not_mixed_in(run: Run) -> None:
    assert run(writes(RED) + writes(OTHER, "reports/other.xml") + "sys.exit(1)").outcome is Outcome.FAILED
    suite = run(writes(OTHER, "reports/other.xml"))
    assert suite.outcome is Outcome.PASSED
    assert suite.counts == Counts(tests=1, passed=1)
    assert suite.reason == "1 passed; 1 older report was left as it was and does not count"


def test_reports_of_several_processes_are_one_result(run: Run) -> None:
    child = (
        "import pathlib, sys\n"
        "folder = pathlib.Path('reports/deep') / sys.argv[1]\n"
        "folder.mkdir(parents=True)\n"
        'report = f\'<testsuite name="s{sys.argv[1]}"><testcase name="a"/></testsuite>\'\n'
        "(folder / f'TEST-{sys.argv[1]}.xml').write_text(report)\n"
    )
    start = f"[sys.executable, '-S', '-E', '-c', {child!r}, str(number)]"
    script = (
        f"running = [subprocess.Popen({start}) for number in range(4)]\nsys.exit(max(each.wait() for each in running))"
    )
    suite = run(script, junit="reports/**/TEST-*.xml")
    assert suite.outcome is Outcome.PASSED
    assert suite.counts == Counts(tests=4, passed=4)


@pytest.mark.parametrize(
    "junit", ["out[1].xml", "./out[[]1].xml", "**/out*.xml", "**out*.xml", ".hidden/../out?1?.xml", "out*"]
)
def test_any_way_to_name_the_report_works(run: Run, junit: str) -> None:
    assert run("pathlib.Path('.hidden').mkdir(exist_ok=True)\n" + writes(GREEN, "out[1].xml"), junit=junit).passed


def test_an_absolute_pattern_and_folders_that_match_work(run: Run, tmp_path: Path) -> None:
    script = "os.makedirs('reports/folder.xml', exist_ok=True)\n" + writes(GREEN)
    assert run(script).passed
    assert run(script, junit=f"{tmp_path}/work/reports/*.xml").passed


def test_a_command_that_is_stopped_tells_what_it_had_reported(run: Run) -> None:
    suite = run(f"{writes(RED)}{writes('', 'done')}time.sleep(60)", until="done")
    assert suite.outcome is Outcome.INTERRUPTED
    assert suite.failing == ("s › b",)


def test_places_are_told_relative_to_where_the_command_ran(run: Run, tmp_path: Path) -> None:
    text = f"    at total ({tmp_path}/work/src/cart.js:4:11)"
    suite = run(writes(f'<testsuite name="s"><testcase name="a"><failure>{text}</failure></testcase></testsuite>'))
    assert suite.failures[0].where == "src/cart.js:4"
    assert suite.failures[0].frames[0].function == "total"


def test_very_many_failures_keep_one_of_each_cause(run: Run) -> None:
    alike = "".join(
        f'<testcase name="n{n}"><failure message="same">at f (a.js:1:1)</failure></testcase>' for n in range(900)
    )
    late = '<testcase name="late"><failure message="another cause">at g (b.js:2:2)</failure></testcase>'
    suite = run(writes(f'<testsuite name="s">{alike}{late}</testsuite>'))
    assert len(suite.failing) == 901
    assert {failure.message for failure in suite.failures} == {"same", "another cause"}
    named = {test for failure in suite.failures for test in (failure.test, *failure.also)}
    assert named == set(suite.failing)


def test_a_command_that_cannot_be_started_is_a_usage_error(tmp_path: Path) -> None:
    bench = Bench("r1", tmp_path, tmp_path, as_module=False)
    task = FrozenTask(id="t", test=TestCommand(command=("no-such-command-here",), junit="r.xml"))
    suite = bench.test(task, Allowance(10, ""), lambda _elapsed: False).suite
    assert suite.outcome is Outcome.USAGE_ERROR
    assert "no-such-command-here" in suite.reason


def test_a_report_below_a_link_is_read(run: Run, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "work" / "linked").symlink_to(tmp_path / "elsewhere")
    assert run(writes(GREEN, "linked/r.xml"), junit="linked/*.xml").passed
