"""The witness inside real pytest runs: what it writes down, what that is judged to be, and that nobody notices it."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

import pytest_iterctl
from pytest_iterctl.control.evidence import Failure, Outcome, SuiteEvidence
from pytest_iterctl.control.failed_suite import of_suite
from pytest_iterctl.control.signature import coarse, exact
from pytest_iterctl.feedback.compose import long_form
from pytest_iterctl.feedback.items import suite_items
from pytest_iterctl.feedback.verdict import judge_pytest
from pytest_iterctl.feedback.witness_log import WitnessLog, read_witness

WITNESS = Path(pytest_iterctl.__file__).with_name("witness") / "__main__.py"
PATIENCE = 60


@dataclass(frozen=True, slots=True)
class Watched:
    """A run with the witness, how it ended, and what came of it."""

    log: WitnessLog
    suite: SuiteEvidence
    exit_code: int
    stdout: str
    stderr: str
    lines: tuple[dict[str, object], ...]

    def only_failure(self, test: str) -> Failure:
        (failure,) = (failure for failure in self.suite.failures if failure.test == test)
        return failure


def clean_environment(**extra: str) -> dict[str, str]:
    """Only the plugins that a test names: the runs are quick, and it does not matter what else is installed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "ITERCTL", "COV_"))}
    return {**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1", **extra}


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")


def watch(
    folder: Path, *arguments: str, mode: str = "module", marker: str | None = None, ended_by: str = "exit", **extra: str
) -> Watched:
    with tempfile.TemporaryFile() as stream:
        settings = {"ITERCTL_WITNESS_FD": str(stream.fileno()), "ITERCTL_WITNESS_MODE": mode}
        if marker is not None:
            settings["ITERCTL_WITNESS_MARKER"] = marker
        done = subprocess.run(
            [sys.executable, str(WITNESS), "-p", "no:cacheprovider", *arguments],
            cwd=folder,
            env=clean_environment(**settings, **extra),
            pass_fds=(stream.fileno(),),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        stream.seek(0)
        raw = stream.read()
    log = read_witness(io.BytesIO(raw))
    suite = judge_pytest(
        log, exit_code=done.returncode, ended_by=ended_by, seconds=1.0, output_tail=f"{done.stdout}\n{done.stderr}"
    )
    lines = tuple(json.loads(line) for line in raw.splitlines())
    return Watched(log, suite, done.returncode, done.stdout, done.stderr, lines)


Project = Callable[..., Watched]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Writes files and runs them: `project({"test_a.py": …}, "-x")`."""

    def run(files: dict[str, str], *arguments: str, **settings: str) -> Watched:
        write(tmp_path, files)
        return watch(tmp_path, *arguments, **settings)

    return run


# One run with a bit of everything ---------------------------------------------------------------------------------

EVERYTHING = '''
import unittest
import pytest

def add(left, right):
    """
    >>> add(1, 1)
    3
    """
    return left + right

def check(value):
    assert value == 5

def test_passes():
    pass

def test_compares():
    print("on stdout")
    assert add(1, 1) == 3

def test_spans_lines():
    assert add(
        1, 2
    ) == [1,
          2]

def test_fails_deeper():
    check(4)

def test_raises():
    {}["absent"]

def test_raises_elsewhere():
    import json
    json.loads("{")

def test_did_not_raise():
    with pytest.raises(ValueError):
        pass

@pytest.fixture
def broken_setup():
    raise ValueError("no database")

def test_setup_error(broken_setup):
    pass

@pytest.fixture
def broken_teardown():
    yield
    raise OSError("still locked")

def test_teardown_error(broken_teardown):
    pass

def test_fails_twice(broken_teardown):
    assert add(1, 2) == 4

def test_skips_then_breaks(broken_teardown):
    pytest.skip("not now")

def test_unknown_fixture(absent):
    pass

@pytest.mark.skip(reason="some day")
def test_skipped():
    pass

@pytest.mark.xfail(reason="known")
def test_xfailed():
    assert 0

@pytest.mark.xfail(reason="fixed?")
def test_xpassed():
    pass

@pytest.mark.xfail(reason="fixed!", strict=True)
def test_xpassed_strictly():
    pass

@pytest.mark.parametrize("value", [1, "\\xfc [x]", 3])
def test_parametrised(value):
    assert value != 3

def test_subtests(subtests):
    for number in range(3):
        with subtests.test("third", number=number):
            assert number == 1

class TestOld(unittest.TestCase):
    def test_equal(self):
        self.assertEqual(add(1, 2), 4)

    def test_subtests(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertEqual(number, 1)

    @unittest.expectedFailure
    def test_expected(self):
        self.fail("as expected")

def test_group():
    raise ExceptionGroup("two", [ValueError(1), TypeError(2)])

async def test_without_loop():
    pass

def test_told_to_fail():
    pytest.fail("because", pytrace=False)

def test_surrogates():
    print("\\ud800")
    assert "\\ud800" == "\\x1b[31mred"
'''


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    folder = tmp_path_factory.mktemp("everything")
    write(folder, {"test_all.py": EVERYTHING, "tox.ini": "[pytest]\n"})
    return watch(folder, "--doctest-modules", f"--junitxml={folder.name}.xml")


OUTCOMES = {
    "test_all.add": "failed",
    "test_passes": "passed",
    "test_compares": "failed",
    "test_spans_lines": "failed",
    "test_fails_deeper": "failed",
    "test_raises": "failed",
    "test_raises_elsewhere": "failed",
    "test_did_not_raise": "failed",
    "test_setup_error": "error",
    "test_teardown_error": "error",
    "test_fails_twice": "error",
    "test_skips_then_breaks": "error",
    "test_unknown_fixture": "error",
    "test_skipped": "skipped",
    "test_xfailed": "xfailed",
    "test_xpassed": "xpassed",
    "test_xpassed_strictly": "failed",
    "test_parametrised[1]": "passed",
    "test_parametrised[\\xfc [x]]": "passed",
    "test_parametrised[3]": "failed",
    "test_subtests": "failed",
    "TestOld::test_equal": "failed",
    "TestOld::test_subtests": "failed",
    "TestOld::test_expected": "xfailed",
    "test_group": "failed",
    "test_without_loop": "failed",
    "test_told_to_fail": "failed",
    "test_surrogates": "failed",
}


def test_each_test_counts_once_by_its_worst_result(everything: Watched) -> None:
    assert everything.log.tests == {f"test_all.py::{name}": outcome for name, outcome in OUTCOMES.items()}
    assert set(everything.log.collected) == set(everything.log.tests)
    assert everything.suite.outcome is Outcome.FAILED
    counts = everything.suite.counts
    assert (counts.tests, counts.passed, counts.failed, counts.errors) == (28, 3, 16, 5)
    assert (counts.skipped, counts.xfailed, counts.xpassed) == (1, 2, 1)
    assert everything.suite.reason == "16 failed, 5 with errors, 3 passed"
    assert len(everything.suite.failing) == 21
    assert everything.log.lost == everything.log.unreadable == 0
    assert everything.log.in_flight == ()


def line_of(text: str) -> int:
    """Where a line is in EVERYTHING, counted from 1."""
    return next(number for number, line in enumerate(EVERYTHING.splitlines(), 1) if text in line)


@pytest.mark.parametrize(
    ("test", "phase", "place", "kind", "message"),
    [
        ("test_compares", "call", "add(1, 1) == 3", "AssertionError", "assert 2 == 3\n +  where 2 = add(1, 1)"),
        ("test_fails_deeper", "call", "assert value == 5", "AssertionError", "assert 4 == 5"),
        ("test_raises", "call", '{}["absent"]', "KeyError", "KeyError: 'absent'"),
        ("test_raises_elsewhere", "call", 'json.loads("{")', "JSONDecodeError", "json.decoder.JSONDecodeError: Exp"),
        ("test_did_not_raise", "call", "with pytest.raises", "Failed", "Failed: DID NOT RAISE ValueError"),
        ("test_setup_error", "setup", "no database", "ValueError", "ValueError: no database"),
        ("test_teardown_error", "teardown", "still locked", "OSError", "OSError: still locked"),
        ("test_skips_then_breaks", "teardown", "still locked", "OSError", "OSError: still locked"),
        ("test_unknown_fixture", "setup", "test_unknown_fixture", "FixtureLookupError", "fixture 'absent' not found"),
        ("TestOld::test_equal", "call", "self.assertEqual(add", "AssertionError", "3 != 4"),
        ("test_group", "call", "raise ExceptionGroup", "ExceptionGroup", "ExceptionGroup: two (2 sub-exceptions)"),
        ("test_told_to_fail", "call", "pytest.fail(", "Failed", "Failed: because"),
        ("test_without_loop", "call", "def test_without_loop", "Failed", "Failed: async def functions are not"),
        ("test_all.add", "call", ">>> add(1, 1)", "DocTestFailure", "Expected:\n    3\nGot:\n    2"),
    ],
)
def test_a_failure_is_described(
    everything: Watched, test: str, phase: str, place: str, kind: str, message: str
) -> None:
    failure = everything.only_failure(f"test_all.py::{test}")
    assert failure.phase == phase
    assert failure.where == f"test_all.py:{line_of(place)}"
    assert failure.kind == kind
    assert failure.message.startswith(message)
    assert failure.detail


@pytest.mark.parametrize(
    ("test", "expected", "received"),
    [
        ("test_compares", "3", "2"),
        ("test_spans_lines", "[1, 2]", "3"),
        ("test_fails_deeper", "5", "4"),
        ("test_did_not_raise", "raises ValueError", "no exception"),
        ("test_raises", None, "KeyError: 'absent'"),
        ("TestOld::test_equal", "4", "3"),
        ("test_parametrised[3]", "not 3", "3"),
        ("test_all.add", "3", "2"),
        ("test_xpassed_strictly", "a failure, as marked by xfail(strict=True)", "the test passed"),
    ],
)
def test_a_failure_says_what_was_expected_and_received(
    everything: Watched, test: str, expected: str | None, received: str | None
) -> None:
    failure = everything.only_failure(f"test_all.py::{test}")
    assert (failure.expected, failure.received) == (expected, received)


def test_a_failure_in_the_call_and_another_in_the_teardown_are_both_told(everything: Watched) -> None:
    both = [failure for failure in everything.suite.failures if failure.test == "test_all.py::test_fails_twice"]
    assert [(failure.phase, failure.kind) for failure in both] == [("call", "AssertionError"), ("teardown", "OSError")]


@pytest.mark.parametrize(
    ("test", "contexts"),
    [
        ("test_subtests", ["[third] (number=0) assert", "[third] (number=2) assert"]),
        ("TestOld::test_subtests", ["(number=0) 0 != 1", "(number=2) 2 != 1"]),
    ],
)
def test_subtests_are_one_test_with_several_failures(everything: Watched, test: str, contexts: list[str]) -> None:
    found = [failure for failure in everything.suite.failures if failure.test == f"test_all.py::{test}"]
    assert [failure.message[: len(context)] for failure, context in zip(found, contexts, strict=True)] == contexts
    assert [failure.expected for failure in found] == ["1", "1"]
    assert {failure.where.partition(":")[0] for failure in found} == {"test_all.py"}


def test_what_a_test_printed_is_kept(everything: Watched) -> None:
    assert everything.only_failure("test_all.py::test_compares").output == "--- stdout ---\non stdout\n"


def test_text_that_is_no_text_is_made_readable(everything: Watched) -> None:
    failure = everything.only_failure("test_all.py::test_surrogates")
    failure.model_dump_json()
    assert "\x1b" not in failure.message + failure.detail + failure.output


def test_the_user_s_own_report_is_named(everything: Watched) -> None:
    assert everything.log.junitxml.endswith(".xml")
    assert Path(everything.log.junitxml).is_file()


# Ends -------------------------------------------------------------------------------------------------------------

GOOD = "def test_good():\n    pass\n"


def test_green_needs_tests_that_ran_and_a_clean_end(project: Project) -> None:
    watched = project({"test_a.py": GOOD}, "-q")
    assert watched.suite.outcome is Outcome.PASSED
    assert watched.suite.reason == "1 passed"
    assert (watched.log.finished, watched.log.status, watched.log.exit_line) == (True, 0, 0)
    assert watched.log.root


def test_a_module_that_cannot_be_imported_is_a_collection_error(project: Project) -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/core.py": "def broken(:\n",
        "test_absent.py": "import absent_module\n",
        "test_name.py": "import os\nundefined\n",
        "test_syntax.py": "x = 1\ndef broken(:\n",
        "test_through.py": "import pkg.core\n",
        "test_good.py": GOOD,
    }
    watched = project(files)
    assert watched.exit_code == 2
    assert watched.suite.outcome is Outcome.COLLECTION_ERROR
    found = {failure.test: (failure.where, failure.kind, failure.phase) for failure in watched.suite.failures}
    assert found == {
        "test_absent.py": ("test_absent.py:1", "ModuleNotFoundError", "collect"),
        "test_name.py": ("test_name.py:2", "NameError", "collect"),
        "test_syntax.py": ("test_syntax.py:2", "SyntaxError", "collect"),
        "test_through.py": ("pkg/core.py:1", "SyntaxError", "collect"),
    }
    assert set(watched.suite.failing) == set(found)
    assert watched.suite.reason == (
        "test_absent.py can't be collected (and 3 more): ModuleNotFoundError: No module named 'absent_module'"
    )
    assert watched.suite.counts.errors == 4


@pytest.mark.parametrize(
    ("text", "where", "kind"),
    [
        ("import absent_module\n", "conftest.py:1", "ModuleNotFoundError"),
        ("x = 1\ndef broken(:\n", "conftest.py:2", "SyntaxError"),
        ("import sys\nsys.exit(0)\n", "conftest.py:2", "SystemExit"),
        ("def pytest_addoption(parser):\n    raise KeyError(1)\n", "conftest.py:2", "KeyError"),
    ],
)
def test_a_broken_conftest_is_a_collection_error(project: Project, text: str, where: str, kind: str) -> None:
    watched = project({"conftest.py": text, "test_a.py": GOOD})
    assert watched.suite.outcome is Outcome.COLLECTION_ERROR
    (failure,) = watched.suite.failures
    assert (failure.where, failure.kind) == (where, kind)


def test_a_broken_conftest_below_the_root_is_a_collection_error(project: Project) -> None:
    watched = project({"sub/conftest.py": "import absent_module\n", "sub/test_a.py": GOOD, "tox.ini": "[pytest]\n"})
    assert watched.suite.outcome is Outcome.COLLECTION_ERROR
    assert watched.suite.failures[0].where == "sub/conftest.py:1"


def test_a_broken_plugin_of_the_project_is_a_collection_error(project: Project) -> None:
    watched = project({"own_plugin.py": "import absent_module\n", "test_a.py": GOOD}, "-p", "own_plugin")
    assert watched.suite.outcome is Outcome.COLLECTION_ERROR
    assert watched.suite.failures[0].kind == "ModuleNotFoundError"
    assert watched.suite.failures[0].where == "own_plugin.py:1"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--no-such-option",), "unrecognized arguments: --no-such-option"),
        (("absent.py",), "file or directory not found: absent.py"),
        (("test_a.py::test_absent",), "not found: "),
        (("-p", "absent_plugin"), "absent_plugin"),
    ],
)
def test_arguments_that_pytest_refuses_are_a_usage_error(
    project: Project, arguments: tuple[str, ...], reason: str
) -> None:
    watched = project({"test_a.py": GOOD}, *arguments)
    assert watched.exit_code == 4
    assert watched.suite.outcome is Outcome.USAGE_ERROR
    assert reason in watched.suite.reason


@pytest.mark.parametrize(
    ("files", "arguments", "reason"),
    [
        ({"a.py": ""}, (), "no tests were found"),
        ({"test_a.py": GOOD}, ("-k", "nothing"), "no test was executed, all 1 deselected"),
        ({"test_a.py": GOOD}, ("--collect-only",), "no test was executed, 1 collected"),
        ({"test_a.py": GOOD}, ("--setup-only",), "no test was executed, 1 skipped"),
        ({"test_a.py": GOOD}, ("--help",), "pytest ended without a test session"),
        ({"test_a.py": GOOD}, ("--version",), "pytest ended without a test session"),
        (
            {"test_a.py": "import pytest\ndef test_a():\n    pytest.skip('no network')\n"},
            (),
            "no test was executed, 1 skipped: no network",
        ),
        (
            {"test_a.py": "import pytest\npytest.importorskip('absent_module')\ndef test_a(): pass\n"},
            (),
            "no tests were found: could not import 'absent_module'",
        ),
    ],
)
def test_a_run_without_an_executed_test_is_no_pass(
    project: Project, files: dict[str, str], arguments: tuple[str, ...], reason: str
) -> None:
    watched = project(files, *arguments)
    assert watched.suite.outcome is Outcome.NO_TESTS
    assert watched.suite.reason.startswith(reason)


@pytest.mark.parametrize(
    ("statement", "end"),
    [
        ("os._exit(0)", "the process ended with exit code 0 without a word from pytest"),
        ("os._exit(1)", "the process ended with exit code 1 without a word from pytest"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "killed by SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL"),
    ],
)
def test_a_crash_names_the_test_in_flight(project: Project, statement: str, end: str) -> None:
    text = f"import os, signal\ndef test_good(): pass\ndef test_bad():\n    {statement}\ndef test_later(): pass\n"
    watched = project({"test_a.py": text})
    assert watched.suite.outcome is Outcome.CRASHED
    assert watched.suite.reason == f"crashed in test_a.py::test_bad: {end}"
    assert watched.suite.failing == ("test_a.py::test_bad",)
    (failure,) = watched.suite.failures
    assert (failure.test, failure.phase) == ("test_a.py::test_bad", "session")
    if "SEGV" in statement:
        assert failure.where == "test_a.py:4"
    assert watched.suite.counts.passed == 1


def test_a_crash_of_an_import_names_the_module(project: Project) -> None:
    watched = project({"test_a.py": GOOD, "test_b.py": "import os\nos._exit(3)\n"})
    assert watched.suite.outcome is Outcome.CRASHED
    assert watched.suite.reason.startswith("crashed while collecting test_b.py: ")
    assert watched.suite.failing == ("test_b.py",)


def test_a_crash_after_pytest_s_end_is_a_crash(project: Project) -> None:
    watched = project({"test_a.py": "import atexit, os\natexit.register(os._exit, 9)\ndef test_a(): pass\n"})
    assert watched.suite.outcome is Outcome.CRASHED
    assert watched.suite.reason.startswith("crashed after pytest had ended: the process ended with exit code 9")


@pytest.mark.parametrize(
    ("statement", "exit_code", "reason"),
    [
        ("raise KeyboardInterrupt", 2, "interrupted in test_a.py::test_bad"),
        ("pytest.exit('enough', returncode=0)", 0, "pytest.exit() in test_a.py::test_bad: enough"),
        ("os.kill(os.getpid(), 2)", 2, "interrupted in test_a.py::test_bad"),
    ],
)
def test_an_interrupted_run_is_no_pass(project: Project, statement: str, exit_code: int, reason: str) -> None:
    text = f"import os, pytest\ndef test_good(): pass\ndef test_bad():\n    {statement}\ndef test_later(): pass\n"
    watched = project({"test_a.py": text})
    assert watched.exit_code == exit_code
    assert watched.suite.outcome is Outcome.INTERRUPTED
    assert watched.suite.reason == reason


def test_a_failure_before_an_interrupted_teardown_is_kept(project: Project) -> None:
    text = """
        import pytest
        @pytest.fixture
        def closing():
            yield
            raise KeyboardInterrupt
        def test_bad(closing):
            assert 1 == 2
    """
    watched = project({"test_a.py": text})
    assert watched.suite.outcome is Outcome.INTERRUPTED
    assert watched.suite.failing == ("test_a.py::test_bad",)


def test_a_plugin_that_falls_is_an_internal_error(project: Project) -> None:
    conftest = "def pytest_runtest_logstart(nodeid):\n    if 'bad' in nodeid: raise LookupError('in the plugin')\n"
    watched = project({"conftest.py": conftest, "test_a.py": GOOD + "def test_bad(): pass\n"})
    assert watched.exit_code == 3
    assert watched.suite.outcome is Outcome.CRASHED
    assert "LookupError: in the plugin" in watched.suite.reason
    assert watched.suite.failures[0].where == "conftest.py:2"


def test_a_plugin_that_falls_at_the_end_is_an_internal_error(project: Project) -> None:
    conftest = "def pytest_sessionfinish():\n    raise LookupError('at the end')\n"
    watched = project({"conftest.py": conftest, "test_a.py": GOOD})
    assert watched.suite.outcome is Outcome.CRASHED
    assert "LookupError: at the end" in watched.suite.reason
    assert not watched.log.finished


@pytest.mark.parametrize("arguments", [("-x",), ("--maxfail=1",), ("-x", "-p", "xdist", "-n2")])
def test_stopping_at_the_first_failure_is_a_failure(project: Project, arguments: tuple[str, ...]) -> None:
    text = "def test_bad():\n    assert 0\n" + "".join(f"def test_{number}(): pass\n" for number in range(9))
    watched = project({"test_a.py": text}, *arguments)
    assert watched.suite.outcome is Outcome.FAILED
    assert watched.suite.failing == ("test_a.py::test_bad",)


def test_tests_that_a_plugin_does_not_run_are_missed(project: Project) -> None:
    conftest = "def pytest_runtest_protocol(item):\n    return True if item.name == 'test_dropped' else None\n"
    watched = project({"conftest.py": conftest, "test_a.py": GOOD + "def test_dropped(): assert 0\n"})
    assert watched.exit_code == 0
    assert watched.suite.outcome is Outcome.INCOMPLETE
    assert watched.suite.reason == "no result of test_a.py::test_dropped"


def test_a_hidden_failure_is_a_failure(project: Project) -> None:
    conftest = "def pytest_sessionfinish(session):\n    session.exitstatus = 0\n"
    watched = project({"conftest.py": conftest, "test_a.py": "def test_bad(): assert 0\n"})
    assert watched.exit_code == 0
    assert watched.suite.outcome is Outcome.FAILED
    assert watched.suite.reason == "1 failed, 0 passed, though the exit code is 0"


# Beside other plugins ---------------------------------------------------------------------------------------------


def test_reports_of_xdist_workers_are_seen(project: Project) -> None:
    text = "def test_bad():\n    assert 1 == 2\n" + "".join(f"def test_{number}(): pass\n" for number in range(5))
    watched = project({"test_a.py": text}, "-p", "xdist", "-n2")
    assert watched.suite.outcome is Outcome.FAILED
    assert watched.log.distributed
    assert len(watched.log.collected) == len(watched.log.tests) == 6
    failure = watched.only_failure("test_a.py::test_bad")
    assert (failure.where, failure.kind, failure.expected, failure.received) == (
        "test_a.py:2",
        "AssertionError",
        "2",
        "1",
    )


def test_a_collection_error_under_xdist_is_one(project: Project) -> None:
    watched = project({"test_a.py": GOOD, "test_b.py": "import absent_module\n"}, "-p", "xdist", "-n2")
    assert watched.suite.outcome is Outcome.COLLECTION_ERROR
    assert [failure.where for failure in watched.suite.failures] == ["test_b.py:1"]


def test_a_crashed_worker_is_a_failed_test(project: Project) -> None:
    text = "import os\ndef test_bad(): os._exit(1)\ndef test_good(): pass\n"
    watched = project({"test_a.py": text}, "-p", "xdist", "-n2")
    assert watched.suite.outcome is Outcome.FAILED
    failure = watched.only_failure("test_a.py::test_bad")
    assert "crashed while running" in failure.message
    assert watched.suite.counts.passed == 1


def test_under_xdist_the_tests_in_flight_are_those_begun(project: Project) -> None:
    conftest = """
        import os
        def pytest_runtest_logreport(report):
            if hasattr(report, "node") and "short" in report.nodeid and report.when == "teardown":
                os._exit(0)
    """
    text = "import time\ndef test_later(): pass\ndef test_long(): time.sleep(3)\ndef test_short(): time.sleep(0.5)\n"
    arguments = ("-p", "xdist", "-n2", "-k", "long or short")
    watched = project({"conftest.py": conftest, "test_a.py": text}, *arguments)
    assert watched.suite.outcome is Outcome.CRASHED
    assert watched.suite.failing == ("test_a.py::test_long",)


def test_a_rerun_that_ends_well_is_passed(project: Project) -> None:
    text = """
        attempts = {"call": 0, "always": 0}
        import pytest
        def test_flaky():
            attempts["call"] += 1
            assert attempts["call"] == 3
        def test_always():
            attempts["always"] += 1
            assert attempts["always"] == 0
        @pytest.fixture
        def flaky_setup():
            attempts["setup"] = attempts.get("setup", 0) + 1
            assert attempts["setup"] == 2
        def test_setup(flaky_setup):
            pass
        def test_good():
            pass
    """
    watched = project({"test_a.py": text}, "-p", "pytest_rerunfailures", "--reruns=2")
    assert watched.log.tests == {
        "test_a.py::test_flaky": "passed",
        "test_a.py::test_always": "failed",
        "test_a.py::test_setup": "passed",
        "test_a.py::test_good": "passed",
    }
    assert watched.suite.counts.reruns == 5
    assert watched.only_failure("test_a.py::test_always").received == "3"


def test_a_flaky_test_may_be_made_to_fail_the_run(project: Project) -> None:
    text = "seen = []\ndef test_flaky():\n    seen.append(1)\n    assert len(seen) == 2\n"
    watched = project({"test_a.py": text}, "-p", "pytest_rerunfailures", "--reruns=1", "--fail-on-flaky")
    assert watched.exit_code == 7
    assert watched.suite.outcome is Outcome.FAILED
    assert watched.suite.failures[0].phase == "session"


@pytest.mark.parametrize("method", ["thread", "signal"])
def test_a_timeout_of_pytest_timeout_names_the_test(project: Project, method: str) -> None:
    text = "import time\ndef test_good(): pass\ndef test_slow():\n    time.sleep(30)\n"
    arguments = ("-p", "pytest_timeout", "--timeout=0.3", f"--timeout-method={method}")
    watched = project({"test_a.py": text}, *arguments)
    assert watched.suite.failing == ("test_a.py::test_slow",)
    assert watched.suite.failures[0].where == "test_a.py:4"
    if method == "thread":
        assert watched.suite.outcome is Outcome.CRASHED
        assert watched.suite.reason == "crashed in test_a.py::test_slow: ended by pytest-timeout"
    else:
        assert watched.suite.outcome is Outcome.FAILED
    analysis = of_suite(watched.suite)
    assert analysis is not None
    assert analysis.error_type == "timeout"


def test_a_missed_coverage_gate_is_a_failure_of_the_session(project: Project) -> None:
    files = {"code.py": "def used():\n    return 1\ndef unused():\n    return 2\n", "test_a.py": GOOD + "import code\n"}
    watched = project(files, "-p", "pytest_cov", "--cov=.", "--cov-fail-under=100")
    assert watched.exit_code == 1
    assert watched.suite.outcome is Outcome.FAILED
    (failure,) = watched.suite.failures
    assert (failure.test, failure.phase) == ("", "session")
    assert "coverage" in failure.message.lower()


def test_too_many_warnings_are_a_failure_of_the_session(project: Project) -> None:
    text = "import warnings\ndef test_a():\n    warnings.warn('old')\n"
    watched = project({"test_a.py": text}, "--max-warnings=0")
    assert watched.exit_code == 6
    assert watched.suite.outcome is Outcome.FAILED
    assert "warning" in watched.suite.failures[0].message.lower()


def test_a_session_timeout_is_a_failure_of_the_session(project: Project) -> None:
    text = "import time\ndef test_a(): time.sleep(0.3)\ndef test_b(): pass\n"
    watched = project({"test_a.py": text}, "-p", "pytest_timeout", "--session-timeout=0.1")
    assert watched.suite.outcome is Outcome.FAILED
    assert watched.suite.failures[0].phase == "session"


def test_the_seed_of_randomly_is_known(project: Project) -> None:
    watched = project({"test_a.py": GOOD}, "-p", "pytest_randomly", "--randomly-seed=77")
    assert watched.suite.passed
    assert watched.log.seed == 77


# Tasks by markers -------------------------------------------------------------------------------------------------

MARKED = """
    import pytest
    pytestmark = pytest.mark.iterate(task="module")
    def test_module(): pass
    @pytest.mark.iterate("function", prompt="do it", max_iterations=5)
    def test_function(): pass
    @pytest.mark.iterate(task="class", max_iterations="many")
    class TestClass:
        def test_class(self): pass
        @pytest.mark.iterate(task="method")
        def test_method(self): pass
"""


def test_markers_declare_tasks_and_the_closest_wins(project: Project) -> None:
    watched = project({"test_marked.py": MARKED, "test_plain.py": GOOD}, "--strict-markers", "-W", "error")
    assert watched.suite.passed
    assert [(task.task, task.prompt, task.max_iterations, task.tests) for task in watched.log.tasks] == [
        ("module", "", None, ("test_marked.py::test_module",)),
        ("function", "do it", 5, ("test_marked.py::test_function",)),
        ("class", "", "'many'", ("test_marked.py::TestClass::test_class",)),
        ("method", "", None, ("test_marked.py::TestClass::test_method",)),
    ]


@pytest.mark.parametrize(
    ("marker", "tests"),
    [
        ("class", {"test_marked.py::TestClass::test_class"}),
        ("module", {"test_marked.py::test_module"}),
        ("", {"test_plain.py::test_good"}),
        ("nobody", set()),
    ],
)
def test_only_the_tests_of_a_task_are_kept(project: Project, marker: str, tests: set[str]) -> None:
    watched = project({"test_marked.py": MARKED, "test_plain.py": GOOD}, marker=marker)
    assert set(watched.log.tests) == tests
    assert watched.log.deselected == 5 - len(tests)
    assert f"{5 - len(tests)} deselected" in watched.stdout


def test_keeping_a_task_s_tests_turns_xdist_off(project: Project) -> None:
    watched = project({"test_marked.py": MARKED, "test_plain.py": GOOD}, "-p", "xdist", "-n2", marker="class")
    assert set(watched.log.tests) == {"test_marked.py::TestClass::test_class"}
    assert watched.suite.passed
    assert not watched.log.distributed


# Nobody notices it ------------------------------------------------------------------------------------------------

LOOK_AROUND = """
    import json, os, sys
    import __main__
    def test_look():
        seen = {
            "argv": sys.argv,
            "path": sys.path,
            "main": [__main__.__file__, getattr(__main__.__spec__, "name", None), __main__.__package__ or None],
            "environment": sorted(os.environ),
        }
        with open(os.environ["LOOK"], "w") as file:
            json.dump(seen, file)
"""


@pytest.mark.parametrize("mode", ["module", "script"])
def test_the_tests_see_what_they_see_under_pytest(tmp_path: Path, mode: str) -> None:
    script = Path(sys.executable).with_name("pytest")
    if mode == "script" and not script.exists():
        pytest.skip("there is no pytest script beside this interpreter")
    folder = tmp_path / "project"
    write(folder, {"test_look.py": LOOK_AROUND})
    command = [sys.executable, "-m", "pytest"] if mode == "module" else [str(script)]
    plain, watched = tmp_path / "plain.json", tmp_path / "watched.json"
    arguments = ["-p", "no:cacheprovider", "--import-mode=importlib"]
    environment = clean_environment(LOOK=str(plain))
    subprocess.run([*command, *arguments], cwd=folder, env=environment, check=True, capture_output=True)
    assert watch(folder, "--import-mode=importlib", mode=mode, LOOK=str(watched)).suite.passed
    assert json.loads(watched.read_text()) == json.loads(plain.read_text())


@pytest.mark.parametrize("arguments", [("-v",), ("--no-such-option",), ("absent.py",), ("--markers",)])
def test_the_output_is_pytest_s_own(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    write(tmp_path, {"test_a.py": GOOD + "def test_bad():\n    assert [1] == [2]\n"})
    plain = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    watched = watch(tmp_path, *arguments)
    own_marker = re.compile(r"@pytest\.mark\.iterate\(.*\n\n")
    assert watched.exit_code == plain.returncode
    assert _timeless(own_marker.sub("", watched.stdout)) == _timeless(plain.stdout)
    assert _timeless(watched.stderr) == _timeless(plain.stderr)


def _timeless(text: str) -> str:
    return re.sub(r"=+ (.*?) in [\d.]+s =+", r"\1", text)


@pytest.mark.parametrize("mode", ["module", "script"])
def test_modules_of_the_project_are_not_taken_for_ours(project: Project, mode: str) -> None:
    own = {f"{name}.py": "MINE = True\n" for name in ("plan", "control", "store", "text", "errors", "witness", "work")}
    names = ", ".join(name.removesuffix(".py") for name in own)
    text = f"import {names}\ndef test_mine():\n    assert all(m.MINE for m in ({names}))\n"
    assert project({**own, "test_a.py": text}, mode=mode).suite.passed


def test_our_folder_is_not_importable(project: Project) -> None:
    text = "import importlib.util\ndef test_a():\n    assert importlib.util.find_spec('hookspecs') is None\n"
    assert project({"test_a.py": text}, mode="script").suite.passed


@pytest.mark.parametrize("mode", ["module", "script"])
def test_multiprocessing_works_inside_a_test(project: Project, mode: str) -> None:
    text = """
        import multiprocessing
        def test_spawn():
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                assert pool.map(abs, [-1]) == [1]
    """
    watched = project({"test_a.py": text}, mode=mode)
    assert watched.suite.passed, watched.stdout + watched.stderr


def test_a_fork_that_falls_through_does_not_speak_for_its_parent(project: Project) -> None:
    text = """
        import os
        def test_fork():
            child = os.fork()
            if child:
                assert os.waitpid(child, 0)[1] == 256
            else:
                raise AssertionError("in the child, which goes on as if it were pytest")
    """
    watched = project({"test_a.py": text})
    assert watched.suite.passed, watched.suite
    assert watched.log.tests == {"test_a.py::test_fork": "passed"}


def test_what_a_test_starts_does_not_inherit_the_descriptor(project: Project) -> None:
    text = """
        import os, subprocess, sys
        def test_a():
            code = "import os, sys; sys.exit(len([name for name in os.listdir('/proc/self/fd') if int(name) > 3]))"
            assert subprocess.run([sys.executable, "-c", code], close_fds=False).returncode == 0
            assert not [name for name in os.environ if "WITNESS" in name]
    """
    assert project({"test_a.py": text}).suite.passed


def test_a_reader_that_goes_away_ends_it_as_it_ends_pytest(tmp_path: Path) -> None:
    write(tmp_path, {"test_a.py": GOOD})
    with tempfile.TemporaryFile() as stream:
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [sys.executable, str(WITNESS), "-p", "no:cacheprovider"],
            cwd=tmp_path,
            env=clean_environment(ITERCTL_WITNESS_FD=str(stream.fileno())),
            pass_fds=(stream.fileno(),),
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        os.close(writer)
        stream.seek(0)
        log = read_witness(stream)
    assert done.returncode == 1
    assert "Exception ignored" not in done.stderr
    assert log.exit_line == 1


@pytest.mark.parametrize("descriptor", [None, "", "many", "987"])
def test_without_a_descriptor_it_says_so(tmp_path: Path, descriptor: str | None) -> None:
    extra = {} if descriptor is None else {"ITERCTL_WITNESS_FD": descriptor}
    done = subprocess.run(
        [sys.executable, str(WITNESS)], cwd=tmp_path, env=clean_environment(**extra), capture_output=True, check=False
    )
    assert done.returncode == 4
    assert b"ITERCTL_WITNESS_FD" in done.stderr


def test_an_interpreter_without_pytest_is_told_apart(tmp_path: Path) -> None:
    with tempfile.TemporaryFile() as stream:
        done = subprocess.run(
            [sys.executable, "-S", str(WITNESS)],
            cwd=tmp_path,
            env=clean_environment(ITERCTL_WITNESS_FD=str(stream.fileno())),
            pass_fds=(stream.fileno(),),
            capture_output=True,
            text=True,
            check=False,
        )
        stream.seek(0)
        log = read_witness(stream)
    suite = judge_pytest(log, exit_code=done.returncode, ended_by="exit", seconds=0.1, output_tail=done.stderr)
    assert done.returncode == 1
    assert suite.outcome is Outcome.USAGE_ERROR
    assert suite.reason.endswith("No module named pytest")


def test_a_log_that_cannot_be_written_disturbs_nothing_and_vouches_for_nothing(tmp_path: Path) -> None:
    write(tmp_path, {"test_a.py": GOOD})
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, str(WITNESS), "-p", "no:cacheprovider"],
            cwd=tmp_path,
            env=clean_environment(ITERCTL_WITNESS_FD=str(full.fileno())),
            pass_fds=(full.fileno(),),
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0
    assert "iterctl-witness: can't write" in done.stderr
    suite = judge_pytest(
        read_witness(io.BytesIO()), exit_code=0, ended_by="exit", seconds=0.1, output_tail=done.stdout + done.stderr
    )
    assert suite.outcome is Outcome.CRASHED


# The way to a failure ---------------------------------------------------------------------------------------------

CALC = """
    import json

    def double(number):
        return table(
            number
        )

    def table(number):
        try:
            return {}[number]
        except KeyError as error:
            raise LookupError(f"no {number}") from error

    def parse(text):
        return json.loads(text)

    def deep(number):
        if not number:
            raise RuntimeError("the bottom")
        return deep(number - 1)

    def even(number):
        return odd(number + 1)

    def odd(number):
        return even(number + 1)
"""
WAYS = """
    import calc

    def test_chain():
        assert calc.double(1) == 2

    def test_library():
        calc.parse("{")

    def test_deep():
        calc.deep(60)

    def test_without_end():
        calc.even(0)

    def test_plain():
        value = 1
        assert value == 2

    def test_handling():
        try:
            calc.parse("")
        except ValueError:
            assert not "handled"
"""


def way(failure: Failure) -> list[tuple[str, str, str]]:
    return [(frame.path, frame.function, frame.source) for frame in failure.frames]


@pytest.mark.parametrize("style", ["auto", "long", "short", "native"])
def test_the_way_through_the_project_is_told(project: Project, style: str) -> None:
    watched = project(
        {"calc.py": CALC, "tests/test_ways.py": WAYS, "tox.ini": "[pytest]\npythonpath = .\n"}, f"--tb={style}"
    )
    test = "tests/test_ways.py"
    chain = watched.only_failure(f"{test}::test_chain")
    assert way(chain) == [
        (test, "test_chain", "assert calc.double(1) == 2"),
        ("calc.py", "double", "return table("),
        ("calc.py", "table", 'raise LookupError(f"no {number}") from error'),
    ]
    assert [frame.line for frame in chain.frames] == [5, 5, 13]
    assert chain.cause == "KeyError: 1"
    library = watched.only_failure(f"{test}::test_library")
    assert way(library)[-1] == ("calc.py", "parse", "return json.loads(text)")
    assert library.cause == ""
    assert way(watched.only_failure(f"{test}::test_deep")) == [
        (test, "test_deep", "calc.deep(60)"),
        ("calc.py", "deep", "return deep(number - 1)"),
        ("calc.py", "deep", 'raise RuntimeError("the bottom")'),
    ]
    endless = {frame.function for frame in watched.only_failure(f"{test}::test_without_end").frames}
    assert endless == {"test_without_end", "even", "odd"}
    assert way(watched.only_failure(f"{test}::test_plain")) == [(test, "test_plain", "assert value == 2")]
    handling = watched.only_failure(f"{test}::test_handling")
    assert handling.kind == "AssertionError"
    assert handling.cause.startswith("json.decoder.JSONDecodeError: Expecting value")


@pytest.mark.parametrize("style", ["auto", "long", "short"])
def test_a_recursion_is_collapsed_and_counted(project: Project, style: str) -> None:
    watched = project({"calc.py": CALC, "test_ways.py": WAYS}, f"--tb={style}")
    deep = watched.only_failure("test_ways.py::test_deep")
    assert "[… 58 frames of a recursion left out …]" in deep.detail
    assert deep.detail.count("return deep(number - 1)") <= 4  # pytest shows the function once more in its long style
    endless = watched.only_failure("test_ways.py::test_without_end")
    assert re.search(r"\[… \d+ frames of a recursion left out …\]", endless.detail)
    assert len(endless.detail) < 5000


def test_pytest_itself_still_shows_every_frame(project: Project) -> None:
    watched = project({"calc.py": CALC, "test_ways.py": WAYS}, "--tb=short", "-k", "deep")
    assert watched.stdout.count("return deep(number - 1)") == 60
    assert "left out" not in watched.stdout


def test_a_way_of_very_many_places_has_a_head_and_a_tail(project: Project) -> None:
    steps = "".join(f"def step_{number}():\n    step_{number + 1}()\n" for number in range(50))
    watched = project({"test_a.py": f"{steps}def step_50():\n    raise OSError\ndef test_a():\n    step_0()\n"})
    functions = [frame.function for frame in watched.only_failure("test_a.py::test_a").frames]
    assert len(functions) == 20
    assert functions[:2] == ["test_a", "step_0"]
    assert functions[-2:] == ["step_49", "step_50"]


def test_a_broken_file_is_the_end_of_the_way(project: Project) -> None:
    watched = project({"calc.py": "def double(:\n", "test_a.py": "import calc\n", "test_b.py": "import calc\n"})
    failures = watched.log.collect_errors
    assert [way(failure)[-1] for failure in failures] == [("calc.py", "", "def double(:")] * 2
    (item,) = suite_items(watched.suite)
    assert item.title == "test_a.py and 1 more file can't be collected: SyntaxError: invalid syntax; correct the syntax"
    assert item.where == "calc.py:1"


def test_the_way_is_told_under_xdist_too(project: Project) -> None:
    watched = project({"calc.py": CALC, "test_ways.py": WAYS}, "-p", "xdist", "-n2")
    chain = watched.only_failure("test_ways.py::test_chain")
    assert [frame.function for frame in chain.frames] == ["test_chain", "double", "table"]
    assert chain.cause == "KeyError: 1"


# What the next iteration is told ----------------------------------------------------------------------------------


def test_one_broken_fixture_is_told_once_and_well_enough_to_mend_it(project: Project) -> None:
    conftest = """
        import pytest

        @pytest.fixture
        def connection():
            settings = {"host": "localhost"}
            return settings["port"]
    """
    tests = "".join(f"def test_{number}(connection):\n    assert connection > {number}\n" for number in range(200))
    watched = project({"conftest.py": conftest, "test_service.py": tests})
    (item,) = suite_items(watched.suite)
    assert len(item.tests) == 200
    told = long_form(watched.suite, (), reproduce="pytest")
    for needed in (
        "KeyError: 'port'",
        "conftest.py:7",
        "connection",
        'return settings["port"]',
        "test_service.py::test_0 and 199 more tests",
        "`pytest test_service.py::test_0`",
    ):
        assert needed in told
    assert len(told.encode()) * 100 < len(watched.stdout.encode())


UNSTEADY = """
    import os, pytest, tempfile, uuid, datetime

    def test_sets():
        assert {"red", "green", "blue", "yellow"} == {"red", "black", "white"}

    def test_set_in_a_message():
        raise KeyError({"red", "green", "blue", "yellow"})

    def test_object():
        raise ValueError(f"{object()} in {os.getcwd()}/data.txt, pid {os.getpid()}")

    def test_temporary(tmp_path):
        (tmp_path / "absent.txt").read_text()

    def test_other_temporary():
        with tempfile.TemporaryDirectory() as folder:
            open(folder + "/absent.txt")

    def test_identity():
        pytest.fail(f"{uuid.uuid4()} at {datetime.datetime.now()}")
"""


def test_signatures_are_the_same_elsewhere_with_shifted_lines_and_another_hash_seed(tmp_path: Path) -> None:
    text = dedent(UNSTEADY)
    here, there = tmp_path / "here", tmp_path / "somewhere" / "else"
    write(here, {"tests/test_a.py": text, "tox.ini": "[pytest]\n"})
    write(there, {"tests/test_a.py": "# a\n# b\n# c\n" + text, "tox.ini": "[pytest]\n"})
    first = watch(here, PYTHONHASHSEED="1").suite.failures
    second = watch(there, PYTHONHASHSEED="2").suite.failures
    assert len(first) == len(second) == 6
    for one, other in zip(first, second, strict=True):
        assert one.where != other.where
        assert exact(one) == exact(other), (one.message, other.message)
        assert coarse(one) == coarse(other), (one.message, other.message)
    assert len({coarse(failure) for failure in first}) == 6


# What it may cost and use -----------------------------------------------------------------------------------------


def test_huge_failures_are_written_in_bounded_lines(project: Project) -> None:
    text = """
        import sys
        def deep(number):
            return deep(number + 1)
        def test_recursion():
            deep(0)
        def test_long():
            print("x" * 100_000)
            sys.stderr.write("y" * 100_000)
            assert "a" * 100_000 == "b" * 100_000
        def test_many(subtests):
            for number in range(100):
                with subtests.test(number=number):
                    assert number < 0
    """
    watched = project({"test_a.py": text}, "-vv", "--showlocals")
    assert watched.suite.outcome is Outcome.FAILED
    assert max(len(json.dumps(line)) for line in watched.lines) < 200_000
    long = watched.only_failure("test_a.py::test_long")
    assert len(long.detail) < 20_000
    assert len(long.output) < 5_000
    assert watched.only_failure("test_a.py::test_recursion").kind == "RecursionError"


@pytest.mark.parametrize("style", ["auto", "long", "short", "line", "native", "no"])
def test_every_traceback_style_gives_place_type_and_message(project: Project, style: str) -> None:
    text = "def test_bad():\n    value = 1\n    assert value == 2\n\ndef test_key():\n    {}['x']\n"
    watched = project({"test_a.py": text}, f"--tb={style}")
    bad, key = watched.suite.failures
    assert (bad.where, bad.kind, bad.message) == ("test_a.py:3", "AssertionError", "assert 1 == 2")
    assert (key.where, key.kind, key.message) == ("test_a.py:6", "KeyError", "KeyError: 'x'")


@pytest.mark.parametrize("text", ["\n", " \n", "E\n", 'File "', "  | ", "a:1: in ", "+-+------"])
def test_a_message_of_any_shape_is_read_in_time_that_grows_with_its_length(project: Project, text: str) -> None:
    statement = f"pytest.fail({text!r} * 100_000, pytrace=False)"
    watched = project({"test_a.py": f"import pytest\ndef test_a():\n    {statement}\n"}, "--tb=native")
    assert watched.suite.failing == ("test_a.py::test_a",)


def test_a_test_that_changes_directory_still_has_its_place(project: Project) -> None:
    text = "import os\ndef test_a(tmp_path):\n    os.chdir(tmp_path)\n    assert 0\ndef test_b():\n    assert 1 == 0\n"
    watched = project({"sub/test_a.py": text, "tox.ini": "[pytest]\n"})
    assert [failure.where for failure in watched.suite.failures] == ["sub/test_a.py:4", "sub/test_a.py:6"]


def test_it_is_written_for_python_3_9() -> None:
    ast.parse(WITNESS.read_text(encoding="utf-8"), feature_version=(3, 9))


def test_it_imports_nothing_of_ours() -> None:
    nodes = [node for path in WITNESS.parent.glob("*.py") for node in ast.walk(ast.parse(path.read_bytes()))]
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    assert {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names) == {"pytest"}


# What pytest really says, where it happened, and where a text is cut ------------------------------------------------


def test_assertions_about_strings_are_explained_as_all_others_are(project: Project) -> None:
    text = """
    def name(): return "a"
    def test_string(): assert name() == "b"
    def test_dict(): assert {"k": name()} == {"k": "b"}
    def test_in(): assert "x" in name()
    def test_is(): assert name() is None
    def test_type(): assert isinstance(name(), int)
    def test_words(): assert name() == "b", "it's wrong"
    def test_number(): assert len(name()) == 2
    """
    watched = project({"test_a.py": text})
    found = {
        failure.test.rpartition("::")[2]: (failure.expected, failure.received) for failure in watched.suite.failures
    }
    assert found == {
        "test_string": ("'b'", "'a'"),
        "test_dict": ("{'k': 'b'}", "{'k': 'a'}"),
        "test_in": ("a value that contains 'x'", "'a'"),
        "test_is": ("None", "'a'"),
        "test_type": ("a true value", "False, from isinstance('a', int)"),
        "test_words": ("'b'", "'a'"),
        "test_number": ("2", "1"),
    }
    assert not [failure.message for failure in watched.suite.failures if failure.message.startswith("AssertionError")]


def test_strings_of_one_parametrized_assertion_have_one_cause(project: Project) -> None:
    text = """
    import pytest
    @pytest.mark.parametrize("value", ["one", "it's two", 'say "three"', "four == five"])
    def test_a(value): assert value == "x"
    """
    assert len(suite_items(project({"test_a.py": text}).suite)) == 1


def test_no_half_of_a_secret_is_written_down(project: Project) -> None:
    text = """
    SECRET = "Zq8rT2vLm4xWc7PzKd9sHf3J"
    def test_lines():
        print("start " + SECRET + "\\n" + "y\\n" * 989, end="")
        assert 0
    def test_one_line():
        print("x" * 3000 + "MY_TOKEN=" + SECRET + "y" * 1985)
        assert 0
    def test_named():
        print("x" * 3000 + " password: " + SECRET[:12] + " " + "y" * 1987)
        assert 0
    def test_message():
        raise ValueError("x" * 2642 + SECRET + "z" * 4000)
    """
    watched = project({"test_a.py": text})
    for failure in watched.suite.failures:
        told = f"{failure.message}\n{failure.output}"
        for start in range(21):
            assert "Zq8rT2vLm4xWc7PzKd9sHf3J"[start : start + 4] not in told, failure.test


def test_places_are_told_from_where_pytest_was_started(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "pytest.ini": "[pytest]\npythonpath = lib\n",
            "lib/calc.py": "def double(n):\n    raise OSError\n",
            "sub/test_a.py": "from calc import double\ndef test_a():\n    double(1)\n",
        },
    )
    watched = watch(tmp_path / "sub", "test_a.py")
    failure = watched.only_failure("sub/test_a.py::test_a")
    assert failure.where == "../lib/calc.py:2"
    assert [frame.path for frame in failure.frames] == ["test_a.py", "../lib/calc.py"]
    assert (watched.log.root, watched.log.positional) == (str(tmp_path), ("test_a.py",))


def test_a_root_below_the_start_does_not_shorten_the_places(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "a/pytest.ini": "[pytest]\npythonpath = ..\n",
            "calc.py": "def double(n):\n    raise OSError\n",
            "a/test_a.py": "from calc import double\ndef test_a():\n    double(1)\ndef test_b(absent): pass\n",
        },
    )
    watched = watch(tmp_path, "a", "-q")
    failure = watched.only_failure("test_a.py::test_a")
    assert (failure.where, [frame.path for frame in failure.frames]) == ("calc.py:2", ["a/test_a.py", "calc.py"])
    assert watched.only_failure("test_a.py::test_b").where == "a/test_a.py:4"
    assert (watched.log.root, watched.log.positional) == (str(tmp_path / "a"), ("a",))


def test_a_file_of_the_repository_outside_of_root_and_start_is_the_projects(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            ".git/HEAD": "",
            "lib/calc.py": "def double(n):\n    raise OSError\n",
            "sub/pytest.ini": "[pytest]\npythonpath = ../lib\n",
            "sub/test_a.py": "from calc import double\ndef test_a():\n    double(1)\n",
        },
    )
    assert watch(tmp_path / "sub").only_failure("test_a.py::test_a").where == "../lib/calc.py:2"
