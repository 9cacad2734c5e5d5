"""The probe inside real pytest runs: what it sees of a forger, and that it sees nothing in an honest run."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from pluggy import HookCaller

import pytest_iterctl
from pytest_iterctl.feedback.witness_log import WitnessLog, read_witness
from pytest_iterctl.work.pytest_run import PytestRun, run_pytest

PROBE = Path(pytest_iterctl.__file__).parent / "probe" / "__init__.py"
MODULES = sorted(PROBE.parent.glob("*.py"))
NAMES = ("assert", "error", "raises", "fail", "approx", "unittest")
AS_EXPECTED = {
    f"{moment}:{name}": "passed" if name == "passes" else "failed"
    for moment in ("first", "last")
    for name in (*NAMES, "passes")
}


@dataclass(frozen=True, slots=True)
class Probed:
    """A run with the probe, and what came of it."""

    log: WitnessLog
    exit_code: int | None
    output: str

    @property
    def probes(self) -> dict[str, dict[str, Any]]:
        return {str(probe["process"]): dict(probe) for probe in self.log.probes}

    @property
    def main(self) -> dict[str, Any]:
        return self.probes["main"]

    def events(self, *kinds: str) -> list[list[str]]:
        return [event for probe in self.probes.values() for event in probe["events"] if event[0] in kinds]


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")


Room = Callable[..., Probed]


@pytest.fixture
def private(tmp_path: Path) -> Path:
    folder = tmp_path / "private"
    folder.mkdir()
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "room" / "tree"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def room(tree: Path, private: Path) -> Room:
    """Writes files and runs them: `room({"test_a.py": …}, "-x", exam={"watch": True})`."""

    def run(
        files: dict[str, str],
        *arguments: str,
        exam: dict[str, object] | None = None,
        plugins: tuple[str, ...] = (),
        **variables: str,
    ) -> Probed:
        write(tree, {"pytest.ini": "[pytest]\n", **files})
        protected = [name for name in files if Path(name).name.startswith(("test_", "conftest"))]
        path = private / "exam.json"
        told = {"probe": str(PROBE), "tree": str(tree), "protected": protected, "watch": True, **(exam or {})}
        path.write_text(json.dumps(told), encoding="utf-8")
        chosen = [argument for plugin in plugins for argument in ("-p", plugin)]
        request = PytestRun(
            python=sys.executable,
            arguments=("-p", "no:cacheprovider", *chosen, *arguments),
            directory=tree,
            as_module=True,
            run="run",
            timeout=60,
            exam=path,
            variables={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1", **variables},
        )
        with run_pytest(request, private, lambda _: False) as (finished, stream):
            log = read_witness(stream)
            output = finished.stdout.text + finished.stderr.text
        assert not path.exists()
        return Probed(log, finished.exit_code, output)

    return run


# An honest run ----------------------------------------------------------------------------------------------------

HONEST = {
    "calc.py": '''
        import json, logging, pathlib, warnings

        def add(left, right):
            """
            >>> add(1, 1)
            2
            """
            return left + right

        def settings():
            return json.loads((pathlib.Path(__file__).parent / "settings.json").read_text())

        def careful(function):
            try:
                function()
            except ValueError:
                logging.getLogger("calc").exception("no")
            warnings.warn("old", DeprecationWarning, stacklevel=2)
    ''',
    "settings.json": '{"a": 1}',
    "conftest.py": """
        import pytest

        @pytest.fixture(autouse=True, scope="session")
        def started(request):
            with open(str(request.config.rootpath / "started.txt"), "a") as file:
                file.write("x")
    """,
    "test_calc.py": """
        import logging, os, sys, time, unittest
        import pytest
        import calc

        def test_adds():
            assert calc.add(1, 2) == 3

        @pytest.mark.parametrize("value", [1, 2, 3])
        def test_values(value, tmp_path, monkeypatch, capsys, recwarn):
            monkeypatch.setattr(time, "time", lambda: 0)
            monkeypatch.setattr("builtins.print", lambda *a: None)
            print(value)
            (tmp_path / "x").write_text("x")
            assert calc.add(value, 0) == value

        def test_reads(caplog):
            def bad():
                raise ValueError
            assert calc.settings() == {"a": 1}
            with pytest.warns(DeprecationWarning):
                calc.careful(bad)

        class TestMethods:
            def setup_method(self):
                self.value = 1

            def test_method(self):
                assert self.value == 1

        class TestOld(unittest.TestCase):
            maxDiff = None

            @classmethod
            def setUpClass(cls):
                cls.addClassCleanup(lambda: None)

            def test_equal(self):
                with self.subTest(number=1), self.assertRaises(ValueError):
                    raise ValueError
                self.assertEqual(calc.add(1, 2), 3)

            @unittest.skip("some day")
            def test_skipped(self):
                pass

            @unittest.expectedFailure
            def test_expected(self):
                self.fail("as expected")

        @pytest.mark.xfail
        def test_xfails():
            assert 0

        def test_skips():
            pytest.skip("not now")
    """,
}
BAD = {"test_bad.py": "def test_bad():\n    assert 0\n\ndef test_good():\n    pass\n"}


def assert_nothing_found(probed: Probed, *, workers: int = 0) -> None:
    assert len(probed.probes) == workers + 1
    for process, probe in probed.probes.items():
        assert (probe["patched"], probe["items"], probe["events"], probe["hooked"]) == ([], [], [], []), process
        runs_tests = (process == "main") == (workers == 0)
        assert probe["canaries"] == (AS_EXPECTED if runs_tests else {})
        assert not [name for name in probe["plugins"] if "iterctl" in name or name.isdigit()]


@pytest.mark.parametrize(
    ("arguments", "plugins"),
    [
        ((), ()),
        (("--doctest-modules", "-v"), ()),
        (("--assert=plain", "-s"), ()),
        (("--tb=native", "--capture=sys", "--durations=3", "-rA"), ()),
        (("--cov=.", "--cov-report=term"), ("pytest_cov",)),
        (("--timeout=30",), ("pytest_timeout",)),
        (("--reruns=1",), ("pytest_rerunfailures",)),
        ((), ("pytest_randomly",)),
        (("--strict-config", "-W", "error", "-W", "ignore::DeprecationWarning"), ()),
    ],
    ids=["plain", "doctest", "no-rewriting", "native", "cov", "timeout", "reruns", "randomly", "warnings-are-errors"],
)
def test_an_honest_run_shows_nothing(
    room: Room, tree: Path, arguments: tuple[str, ...], plugins: tuple[str, ...]
) -> None:
    probed = room(HONEST, *arguments, plugins=plugins)
    assert probed.exit_code == 0, probed.output
    assert_nothing_found(probed)
    assert "conftest.py" in probed.main["plugins"]
    assert "conftest.py" in probed.main["plugins_before"]
    # What the project sets up once is not set up for the canaries too.
    assert (tree / "started.txt").read_text(encoding="utf-8") == "x"


def test_an_honest_run_over_workers_shows_nothing(room: Room, tree: Path) -> None:
    probed = room(HONEST, "-n2", plugins=("xdist",))
    assert probed.exit_code == 0, probed.output
    assert_nothing_found(probed, workers=2)
    assert set(probed.probes) == {"main", "gw0", "gw1"}


def test_an_honest_run_with_all_plugins_at_once_shows_nothing(room: Room) -> None:
    plugins = ("xdist", "pytest_cov", "pytest_timeout", "pytest_rerunfailures", "pytest_randomly")
    probed = room(HONEST, "-n2", "--cov=.", "--reruns=1", "--timeout=30", plugins=plugins)
    assert probed.exit_code == 0, probed.output
    assert_nothing_found(probed, workers=2)


def test_canaries_are_counted_nowhere(room: Room, tree: Path) -> None:
    arguments = ("--junitxml=out.xml", "--maxfail=2", "-v")
    reports = []
    for watch in (False, True):
        probed = room({**HONEST, **BAD}, *arguments, exam={"watch": watch})
        assert probed.exit_code == 1
        (suite,) = ET.parse(tree / "out.xml").getroot()
        reports.append([suite.get(name) for name in ("tests", "failures", "errors", "skipped")])
        assert probed.log.counts.tests == len(probed.log.collected) == len(probed.log.tests)
        assert (probed.log.counts.failed, probed.log.lost, probed.log.unreadable) == (1, 0, 0)
        assert "canary" not in probed.output.lower()
        if watch:
            assert_nothing_found(probed)
    assert reports[0] == reports[1]


def test_the_last_canaries_run_when_the_run_is_stopped(room: Room) -> None:
    probed = room({**HONEST, **BAD}, "-x")
    assert probed.exit_code == 1
    assert_nothing_found(probed)
    assert probed.log.missing


def test_the_exam_is_no_part_of_the_environment(room: Room) -> None:
    text = "import os\ndef test_a():\n    assert not [name for name in os.environ if 'WITNESS' in name]\n"
    probed = room({"test_a.py": text}, VARIABLE="x")
    assert probed.exit_code == 0
    text = "import os\ndef test_a():\n    assert os.environ['VARIABLE'] == 'y'\n"
    assert room({"test_a.py": text}, VARIABLE="y").exit_code == 0


def test_an_exam_that_cannot_be_read_is_no_run(tree: Path, private: Path) -> None:
    for text in (None, "[", "[]"):
        path = private / "exam.json"
        if text is not None:
            path.write_text(text, encoding="utf-8")
        request = PytestRun(sys.executable, (), tree, as_module=True, run="run", timeout=60, exam=path)
        with run_pytest(request, private, lambda _: False) as (finished, stream):
            assert finished.exit_code == 4
            assert not read_witness(stream).started


# Forgers ----------------------------------------------------------------------------------------------------------

TEST = "import calc\n\ndef test_a():\n    assert calc.add(1, 2) == 3\n\ndef test_b():\n    assert calc.add(2, 2) == 4\n"
ADD = "def add(left, right):\n    return left + right\n"


def product(text: str, *, inside: bool = False) -> dict[str, str]:
    """A product that does something when it is imported, or when it is first called."""
    body = dedent(text).strip("\n")
    if inside:
        indented = "".join(f"    {line}\n" for line in body.splitlines())
        return {"calc.py": f"def add(left, right):\n{indented}    return left + right\n", "test_calc.py": TEST}
    return {"calc.py": f"{body}\n\n{ADD}", "test_calc.py": TEST}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            """
            from _pytest.reports import TestReport
            old = TestReport.from_item_and_call.__func__
            TestReport.from_item_and_call = classmethod(lambda cls, item, call: old(cls, item, call))
            """,
            {"_pytest.reports.TestReport.from_item_and_call"},
        ),
        (
            "import _pytest.runner\nf = _pytest.runner.call_and_report\nf.__code__ = f.__code__.replace(co_name='x')",
            {"_pytest.runner.call_and_report"},
        ),
        (
            "import _pytest.runner\nf = _pytest.runner.call_and_report\nf.__defaults__ = (True,)",
            {"_pytest.runner.call_and_report"},
        ),
        (
            "import pytest\npytest.Session.testsfailed = property(lambda self: 0, lambda self, value: None)",
            {"_pytest.main.Session.testsfailed"},
        ),
        (
            "import pytest\npytest.raises = lambda *a, **k: __import__('contextlib').suppress(Exception)",
            {"pytest.raises"},
        ),
        (
            "import builtins\nclass Quiet(AssertionError): pass\nbuiltins.AssertionError = Quiet",
            {"builtins.AssertionError"},
        ),
        ("import time\nold = time.perf_counter\ntime.perf_counter = lambda: old()", {"time.perf_counter"}),
        (
            "import unittest\nunittest.TestCase.assertEqual = lambda *a, **k: None",
            {"unittest.case.TestCase.assertEqual"},
        ),
        (
            "import unittest\nunittest.TestCase.failureException = ValueError",
            {"unittest.case.TestCase.failureException"},
        ),
        (
            "import pluggy\npluggy.HookCaller.__repr__ = lambda self: ''",
            {f"{HookCaller.__module__}.HookCaller.__repr__"},
        ),
        ("import os\nold = os._exit\nos._exit = lambda code: old(0)", {"os._exit"}),
        ("import random\nrandom.random = lambda: 4", {"random.random"}),
        ("import datetime\nclass D(datetime.datetime): pass\ndatetime.datetime = D", {"datetime.datetime"}),
    ],
    ids=[
        *("report", "code", "defaults", "property", "raises", "AssertionError", "perf_counter", "assertEqual"),
        *("failureException", "hooks", "exit", "random", "datetime"),
    ],
)
def test_a_patch_of_the_framework_is_seen(room: Room, text: str, names: set[str]) -> None:
    assert names <= set(room(product(text)).main["patched"])


@pytest.mark.parametrize(
    ("text", "name", "line"),
    [
        ("import time\n\ndef quick(seconds): pass\ntime.sleep = quick", "time.sleep", 3),
        ("import time\nclass Quick:\n    def __call__(self, seconds): pass\ntime.sleep = Quick()", "time.sleep", 3),
        (
            "import functools, time\n\ndef quick(much, seconds): pass\ntime.sleep = functools.partial(quick, 1)",
            "time.sleep",
            3,
        ),
        (
            "import _pytest.runner as r\ndef nothing(): pass\nr.runtestprotocol.__code__ = nothing.__code__",
            "_pytest.runner.runtestprotocol",
            2,
        ),
        ("import textwrap\ndef dedent(text): return text\ntextwrap.dedent = dedent", "textwrap.dedent", 2),
        (
            "import datetime\nclass D(datetime.datetime):\n    def day(self): pass\ndatetime.datetime = D",
            "datetime.datetime",
            3,
        ),
    ],
    ids=["function", "object", "partial", "code", "foreign", "class"],
)
def test_a_patch_is_told_with_its_place(room: Room, text: str, name: str, line: int) -> None:
    assert room(product(text)).main["defined"][name] == ["calc.py", line]


def test_what_has_no_place_is_told_without(room: Room) -> None:
    probed = room(product("import time\ntime.sleep = print\nexec('def f(): pass')\ntime.time = f"))
    assert {"time.sleep", "time.time"} <= set(probed.main["patched"])
    assert not {"time.sleep", "time.time"} & set(probed.main["defined"])


def test_a_patch_is_seen_in_a_worker(room: Room) -> None:
    probed = room(product("import time\ntime.sleep = lambda seconds: None"), "-n2", plugins=("xdist",))
    assert [probed.probes[each]["patched"] for each in ("gw0", "gw1", "main")] == [["time.sleep"], ["time.sleep"], []]


def test_a_patch_that_is_taken_back_before_the_end_is_seen(room: Room) -> None:
    text = "import atexit, time, calc\nold = time.sleep\n"
    tests = f"{text}def test_a():\n    time.sleep = print\n\ndef test_b():\n    time.sleep = old\n"
    assert room({"calc.py": ADD, "test_calc.py": tests}).main["patched"] == ["time.sleep"]
    text = "import _pytest.runner as r\nc = r.runtestprotocol.__code__\n"
    text += "r.runtestprotocol.__code__ = c.replace(co_name='x')\nr.runtestprotocol.__code__ = c\n"
    assert room(product(text)).main["patched"] == ["_pytest.runner.runtestprotocol"]


def test_the_witness_itself_is_watched(room: Room) -> None:
    text = """
        import gc
        for each in gc.get_objects():
            if type(each).__name__ == "Witness":
                type(each).pytest_runtest_logreport = lambda self, report: None
    """
    probed = room(product(text))
    assert [name for name in probed.main["patched"] if name.endswith("Witness.pytest_runtest_logreport")]
    assert probed.events("objects") == [["objects", "calc.py", ""]]


ALWAYS_PASSED = """
    from _pytest.reports import TestReport
    old = TestReport.from_item_and_call.__func__
    def lie(cls, item, call):
        report = old(cls, item, call)
        report.outcome, report.longrepr = "passed", None
        return report
    TestReport.from_item_and_call = classmethod(lie)
"""


@pytest.mark.parametrize(
    ("text", "fooled"),
    [
        (ALWAYS_PASSED, set(NAMES)),
        ("import builtins, pytest\nbuiltins.AssertionError = pytest.skip.Exception", {"assert", "approx"}),
        (
            "import pytest\nfrom unittest import mock\npytest.approx = lambda *a, **k: mock.ANY",
            {"approx"},
        ),
        ("import unittest\nunittest.TestCase.assertEqual = lambda *a, **k: None", {"unittest"}),
        ("import contextlib, pytest\npytest.raises = lambda *a, **k: contextlib.suppress(Exception)", {"raises"}),
        ("import pytest\npytest.fail = lambda *a, **k: None", {"fail"}),
    ],
    ids=["report", "AssertionError", "approx", "assertEqual", "raises", "fail"],
)
def test_a_canary_that_should_fail_does_not(room: Room, text: str, fooled: set[str]) -> None:
    canaries = room(product(text)).main["canaries"]
    for moment in ("first", "last"):
        unexpected = {name for name in NAMES if canaries[f"{moment}:{name}"] != "failed"}
        assert unexpected == fooled
        assert canaries[f"{moment}:passes"] == "passed"


def test_a_canary_that_cannot_be_run_does_not_disturb(room: Room) -> None:
    strict = """
        import pytest
        def pytest_runtest_setup(item):
            if "calc" not in item.nodeid:
                pytest.exit("who is that?")
    """
    probed = room({"strict.py": strict, "calc.py": ADD, "test_calc.py": TEST}, "-p", "strict", PYTHONPATH=".")
    assert probed.exit_code == 0
    assert set(probed.main["canaries"].values()) == {"unknown: Exit"}
    assert probed.log.counts.passed == 2


def test_a_failure_that_is_swallowed_for_good_is_known_by_its_item(room: Room) -> None:
    text = """
        import gc, pytest
        def cheat():
            for each in gc.get_objects():
                if isinstance(each, pytest.Function):
                    each.runtest = lambda: None
    """
    files = product(text)
    files["calc.py"] += "\n    # never reached\n"
    files["calc.py"] = files["calc.py"].replace("    return left", "    cheat()\n    return left")
    probed = room(files)
    assert set(probed.main["items"]) == {"test_calc.py::test_a", "test_calc.py::test_b"}
    assert ["objects", "calc.py", ""] in probed.events("objects")


def test_another_function_or_code_in_the_place_of_a_test_is_seen(room: Room) -> None:
    text = """
        import gc, pytest
        def add(left, right):
            for each in gc.get_objects():
                if isinstance(each, pytest.Function) and each.name == "test_b":
                    each.obj = lambda: None
                if isinstance(each, pytest.Function) and each.name == "test_c":
                    each.obj.__code__ = (lambda: None).__code__
            return left + right
    """
    tests = TEST + "\ndef test_c():\n    assert 0\n"
    probed = room({"calc.py": text, "test_calc.py": tests})
    assert probed.main["items"] == ["test_calc.py::test_b", "test_calc.py::test_c"]


def test_a_plugin_registered_through_frames_is_seen(room: Room) -> None:
    text = """
        import sys
        class Plugin:
            def pytest_pyfunc_call(self, pyfuncitem):
                return True
        def add(left, right):
            frame = sys._getframe()
            while frame is not None:
                item = frame.f_locals.get("pyfuncitem")
                if item is not None and not item.config.pluginmanager.has_plugin("helper"):
                    item.config.pluginmanager.register(Plugin(), "helper")
                frame = frame.f_back
            return left + right
    """
    # A plugin that comes later is asked before the probe, which is how a test that it answers for is known.
    text = text.replace(
        "            def pytest_pyf",
        "            @__import__('pytest').hookimpl(tryfirst=True)\n            def pytest_pyf",
    )
    probed = room({"calc.py": text, "test_calc.py": TEST + "\ndef test_c():\n    assert 0\n"})
    assert set(probed.main["plugins"]) - set(probed.main["plugins_before"]) == {"helper", "funcmanage"}
    assert probed.main["items"] == ["test_calc.py::test_b", "test_calc.py::test_c"]
    assert probed.events("frames") == [["frames", "calc.py", ""]]


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ("import pathlib\npathlib.Path('test_calc.py').read_text()", ["read", "calc.py", "test_calc.py"]),
        ("import json\njson.load(open('tests/test_data.json'))", ["read", "calc.py", "tests/test_data.json"]),
        ("import linecache\nlinecache.getlines('test_calc.py')", ["read", "calc.py", "test_calc.py"]),
        ("import inspect, sys\ninspect.getsource(sys.modules['test_calc'])", ["read", "calc.py", "test_calc.py"]),
        ("import shutil\nshutil.copy('test_calc.py', 'copy.txt')", ["read", "calc.py", "test_calc.py"]),
        (
            "import os\nos.path.exists('l') or os.symlink('test_calc.py', 'l')\nopen('l').close()",
            ["read", "calc.py", "test_calc.py"],
        ),
        ("import os\nos.path.exists('h') or os.link('test_calc.py', 'h')", ["read", "calc.py", "test_calc.py"]),
        ("open('test_calc.py', 'a').close()", ["write", "calc.py", "test_calc.py"]),
        ("import os\nos.close(os.open('test_calc.py', os.O_RDWR))", ["write", "calc.py", "test_calc.py"]),
        ("import os\nos.path.exists('x') or os.rename('test_calc.py', 'x')", ["write", "calc.py", "test_calc.py"]),
        ("import os\nos.path.exists('tests') and __import__('shutil').rmtree('tests')", ["write", "calc.py", "tests"]),
        ("import os\nos.listdir('tests')", ["list", "calc.py", "tests"]),
        ("import glob\nglob.glob('tests/*')", ["list", "calc.py", "tests"]),
        ("import pathlib\nlist(pathlib.Path('tests').glob('*'))", ["list", "calc.py", "tests"]),
        ("import sys\nsys._getframe(1)", ["frames", "calc.py", ""]),
        ("import inspect\ninspect.currentframe()", ["frames", "calc.py", ""]),
        ("import traceback\ntraceback.extract_stack()", ["frames", "calc.py", ""]),
        ("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    e.__traceback__.tb_frame", ["frames", "calc.py", ""]),
        ("import sys\nsys._current_frames()", ["objects", "calc.py", ""]),
        ("import gc\ngc.get_referrers(gc)", ["objects", "calc.py", ""]),
        ("import sys\nsys.setprofile(None)", ["trace", "calc.py", ""]),
        ("import sys\nsys.settrace(sys.gettrace())", ["trace", "calc.py", ""]),
        ("import sys\nsys.addaudithook(lambda *a: None)", ["audit", "calc.py", ""]),
        ("import os\npid = os.fork()\nif not pid:\n    os._exit(0)\nos.waitpid(pid, 0)", ["fork", "calc.py", ""]),
        ("import os\nos.kill(os.getpid(), 0)", ["kill", "calc.py", ""]),
        ("import _pytest.pytester_assertions", ["import", "calc.py", "_pytest.pytester_assertions"]),
        (
            "import importlib\nimportlib.import_module('_pytest.pytester_assertions')",
            ["import", "calc.py", "_pytest.pytester_assertions"],
        ),
    ],
)
def test_what_a_product_has_no_need_of_is_seen(room: Room, text: str, event: list[str]) -> None:
    files = product(text, inside=True) | {"tests/test_data.json": "{}"}
    probed = room(files)
    assert event in probed.events(event[0])
    line = probed.main["lines"][probed.main["events"].index(event)]
    # The function's first line is line 2; the last of what it was given did it, or began it.
    assert line in range(2, 2 + len(text.splitlines()))


def test_an_import_of_the_loaded_framework_is_seen(room: Room) -> None:
    events = room(product("import pytest\nfrom _pytest.runner import CallInfo")).events("import")
    assert sorted(event[2] for event in events) == ["_pytest.runner", "pytest"]
    assert {event[1] for event in events} == {"calc.py"}


def test_an_exec_is_seen_before_the_process_is_another(room: Room, tree: Path) -> None:
    # After a real one nobody is left to tell: only one that fails leaves a line.
    text = "import os\ntry:\n    os.execv('/absent/program', ['x'])\nexcept OSError:\n    pass"
    assert room(product(text)).events("exec") == [["exec", "calc.py", ""]]


def test_what_the_tests_do_is_their_own_business(room: Room) -> None:
    tests = """
        import gc, inspect, os, pathlib, sys, traceback
        import calc
        def test_a():
            pathlib.Path(__file__).read_text()
            os.listdir(os.path.dirname(__file__))
            sys._getframe(0), gc.get_objects(), traceback.extract_stack(), inspect.stack()
            assert calc.add(1, 2) == 3
    """
    assert room({"calc.py": ADD, "test_a.py": tests}).main["events"] == []


def test_a_product_that_shows_an_exception_of_a_test_reads_no_test(room: Room) -> None:
    text = """
        import traceback
        def careful(function):
            try:
                function()
            except ValueError:
                return traceback.format_exc()
    """
    tests = """
        import calc
        def bad():
            raise ValueError("no")
        def test_a():
            assert "ValueError" in calc.careful(bad)
    """
    assert room({"calc.py": text, "test_a.py": tests}).main["events"] == []


def test_there_is_an_end_to_the_events(room: Room) -> None:
    files = {f"tests/test_{number}.json": "{}" for number in range(300)}
    files |= product("for number in range(300):\n    open(f'tests/test_{number}.json').close()")
    assert len(room(files).main["events"]) == 200


def test_no_kind_of_event_crowds_out_another(room: Room) -> None:
    files = {f"tests/test_{number}.json": "{}" for number in range(300)}
    text = """
        import os, sys
        for number in range(300):
            open(f"tests/test_{number}.json").close()
            open(f"tests/test_{number}.json", "a").close()
        open("test_calc.py").close()
        sys.setprofile(None)
        sys._getframe(0)
        try:
            os.execv("/absent/program", ["x"])
        except OSError:
            pass
    """
    found = room(files | product(text)).main["events"]
    for event in (["read", "calc.py", "test_calc.py"], ["trace", "calc.py", ""], ["exec", "calc.py", ""]):
        assert event in found
    assert [sum(event[0] == kind for event in found) for kind in ("read", "write", "frames")] == [201, 200, 1]


# Hooks, and functions in other people's modules -------------------------------------------------------------------

SWAPPED = """
    import gc
    from pluggy import HookImpl
    def add(left, right):
        for each in gc.get_objects():
            if type(each) is HookImpl and CONDITION:
                CHEAT
        return left + right
"""


@pytest.mark.parametrize(
    ("condition", "cheat", "name"),
    [
        (
            "each.plugin_name.endswith('conftest.py') and 'makereport' in each.function.__name__",
            "each.function = lambda item, call: None",
            "hook pytest_runtest_makereport of conftest.py",
        ),
        (
            "each.plugin_name.endswith('later/conftest.py') and 'teardown' in each.function.__name__",
            "each.function.__code__ = (lambda item: None).__code__",
            "hook pytest_runtest_teardown of later/conftest.py",
        ),
        (
            "each.plugin_name == 'skipping' and 'makereport' in each.function.__name__",
            "each.function = lambda item, call: (yield)",
            "hook pytest_runtest_makereport of skipping",
        ),
        (
            "each.plugin_name == 'skipping' and 'makereport' in each.function.__name__",
            "[o.remove(each) for o in gc.get_referrers(each) if type(o) is list and {*map(type, o)} == {HookImpl}]",
            "hook pytest_runtest_makereport of skipping",
        ),
    ],
    ids=["conftest", "code", "framework", "gone"],
)
def test_a_hook_with_another_function_is_seen(room: Room, condition: str, cheat: str, name: str) -> None:
    conftest = "def pytest_runtest_makereport(item, call):\n    return None\n"
    later = "def pytest_runtest_teardown(item):\n    return None\n"
    files = {
        "calc.py": SWAPPED.replace("CONDITION", condition).replace("CHEAT", cheat),
        "conftest.py": conftest,
        "later/conftest.py": later,
        "later/test_calc.py": TEST,
    }
    probed = room(files, PYTHONPATH=".")
    assert name in probed.main["patched"], (probed.main["patched"], probed.output)


def test_hooks_that_are_left_alone_are_not_told(room: Room) -> None:
    files = {
        "calc.py": ADD,
        "conftest.py": """
            import pytest
            class Plugin:
                @pytest.hookimpl(tryfirst=True)
                def pytest_runtest_setup(self, item):
                    pass
            def pytest_configure(config):
                config.pluginmanager.register(Plugin(), "early")
            def pytest_collection_finish(session):
                session.config.pluginmanager.register(Plugin(), "late")
        """,
        "later/conftest.py": "def pytest_runtest_setup(item):\n    pass\n",
        "later/test_calc.py": TEST,
    }
    probed = room(files, PYTHONPATH=".")
    assert probed.exit_code == 0, probed.output
    assert probed.main["patched"] == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import json\ndef lie(text): return {}\njson.loads = lie", ["json.loads"]),
        ("import json, functools\njson.loads = functools.wraps(json.loads)(lambda text: {})", ["json.loads"]),
        ("import json, functools\ndef lie(a, text): return {}\njson.loads = functools.partial(lie, 1)", ["json.loads"]),
        ("import json\nclass Lie:\n    def __call__(self, text): return {}\njson.loads = Lie()", ["json.loads"]),
        ("import decimal\nclass Lie(decimal.Decimal): pass\ndecimal.Decimal = Lie", ["decimal.Decimal"]),
        ("import math\nmath.floor = lambda x: 3", ["math.floor"]),
        (
            "import json\njson.JSONDecoder.decode = lambda self, text: {}",
            ["json.decoder.JSONDecoder.decode"],
        ),
        (
            "import json\ndef lie(s, **given): return {}\njson.loads.__code__ = lie.__code__",
            ["json.loads"],
        ),
        (
            "import pathlib\npathlib.PurePath.name = property(lambda self: 'x')",
            ["pathlib.PurePath.name"],
        ),
        ("import iniconfig\niniconfig.IniConfig.get = lambda *a: ''", ["iniconfig.IniConfig.get"]),
        (
            "import json\nspace = dict(globals())\nexec('def lie(text): return {}', space)\njson.loads = space['lie']",
            ["json.loads"],
        ),
    ],
    ids=["plain", "wraps", "partial", "object", "class", "builtin", "method", "code", "property", "library", "exec"],
)
def test_a_function_of_the_product_in_a_foreign_module_is_seen(room: Room, text: str, names: list[str]) -> None:
    assert room(product(text)).main["patched"] == names


def test_hooks_that_are_there_to_be_set_are_only_told(room: Room) -> None:
    text = """
        import builtins, logging, sys, threading, warnings
        def hook(*given, **more): pass
        class Stream:
            def __init__(self, inner): self.inner = inner
            def write(self, text): return self.inner.write(text)
            def __getattr__(self, name): return getattr(self.inner, name)
        class Logger(logging.Logger): pass
        sys.excepthook = sys.breakpointhook = threading.excepthook = warnings.formatwarning = hook
        sys.stdin = Stream(sys.stdin)
        logging.setLoggerClass(Logger)
        logging.setLogRecordFactory(lambda *a, **k: logging.LogRecord(*a, **k))
        builtins._ = lambda text: text
    """
    probed = room(product(text), "-s")
    assert probed.exit_code == 0, probed.output
    assert probed.main["patched"] == []
    assert {"sys.excepthook", "sys.breakpointhook", "sys.stdin", "logging._loggerClass"} <= set(probed.main["hooked"])
    assert {"logging._logRecordFactory", "builtins._", "warnings.formatwarning"} <= set(probed.main["hooked"])


def test_a_library_that_uses_the_product_has_its_functions(room: Room, tmp_path: Path) -> None:
    site = tmp_path / "env" / "site-packages"
    write(site, {"user/__init__.py": "from user.inner import add\n", "user/inner.py": "from calc import add\n"})
    write(site, {"other.py": "from user import add\nclass Box:\n    put = add\n"})
    tests = TEST + "\nimport other, user\n"
    probed = room({"calc.py": ADD, "test_calc.py": tests}, PYTHONPATH=str(site))
    assert probed.exit_code == 0, probed.output
    assert_nothing_found(probed)


def test_the_last_exception_of_the_product_is_no_patch(room: Room) -> None:
    files = product("class Odd(Exception): pass\nclass Kind:\n    def __call__(self): pass")
    files["test_calc.py"] += "\ndef test_c():\n    raise calc.Odd\n"
    assert_nothing_found(room(files))


WRAPPED = {
    "calc.py": """
        import functools
        def twice(function):
            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                function(*args, **kwargs)
                return function(*args, **kwargs)
            return wrapper
        def bare(function):
            def wrapper():
                return function()
            return wrapper
    """,
    "test_calc.py": """
        import calc
        from calc import twice
        kept = None
        @calc.twice
        def helper(value=1):
            return value
        @calc.bare
        def other():
            return 2
        @twice
        def test_a():
            global kept
            kept = calc.twice(lambda: 3)
            assert helper() == 1
        class TestB:
            @twice
            def test_b(self, monkeypatch):
                monkeypatch.setattr(TestB, "test_b", calc.bare(print))
                assert other() == 2
    """,
}


def test_a_decorator_of_the_product_is_no_patch_of_the_tests(room: Room) -> None:
    probed = room(WRAPPED)
    assert probed.exit_code == 0, probed.output
    assert_nothing_found(probed)


@pytest.mark.parametrize(
    ("text", "inside", "name"),
    [
        (
            "import sys\nsys.modules['test_calc'].expected = lambda value: value",
            True,
            "test_calc.expected",
        ),
        (
            "import sys\nf = sys.modules['test_calc'].expected\nf.__code__ = (lambda value: 1).__code__",
            True,
            "test_calc.expected",
        ),
        (
            "import sys\nsys.modules['test_helpers'].Model.check = lambda self: True",
            True,
            "test_helpers.Model.check",
        ),
        (
            "import sys\nf = sys.modules['test_helpers'].Model.check\nf.__code__ = (lambda self: True).__code__",
            False,
            "test_helpers.Model.check",
        ),
    ],
    ids=["function", "code", "method", "code-at-import"],
)
def test_a_swapped_helper_of_the_tests_is_seen(room: Room, text: str, inside: bool, name: str) -> None:
    files = product(text, inside=inside)
    helpers = "class Model:\n    def check(self):\n        return False\n"
    files |= {"test_helpers.py": helpers, "test_calc.py": "import test_helpers\n" + TEST}
    files["test_calc.py"] += "\ndef expected(value):\n    return value\n"
    assert room(files).main["patched"] == [name]


# Order ------------------------------------------------------------------------------------------------------------

ORDERED = "".join(
    f"def test_{number}(tmp_path):\n    with open('order.txt', 'a') as file:\n        file.write('{number}')\n"
    for number in range(6)
)


def test_the_order_is_turned_round(room: Room, tree: Path) -> None:
    probed = room({"test_a.py": ORDERED}, exam={"reverse": True, "watch": False})
    assert probed.exit_code == 0
    assert (tree / "order.txt").read_text(encoding="utf-8") == "543210"
    assert [test[-1] for test in probed.log.collected] == list("543210")
    assert probed.main == {"process": "main"}


def test_the_order_is_turned_round_after_others_have_ordered(room: Room, tree: Path) -> None:
    conftest = """
        import pytest
        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(items):
            items.sort(key=lambda item: int(item.name[-1]) % 3)
    """
    room({"test_a.py": ORDERED, "conftest.py": conftest}, exam={"reverse": True})
    assert (tree / "order.txt").read_text(encoding="utf-8") == "524130"


def test_the_order_is_turned_round_in_workers(room: Room, tree: Path) -> None:
    probed = room({"test_a.py": ORDERED}, "-n2", plugins=("xdist",), exam={"reverse": True})
    assert probed.exit_code == 0, probed.output
    assert [test[-1] for test in probed.log.collected] == list("543210")
    assert len(probed.log.tests) == 6


# The room instead of the work tree --------------------------------------------------------------------------------

WHERE = """
    import os, subprocess, sys
    import calc

    def test_here():
        assert calc.__file__.startswith(os.getcwd()), calc.__file__

    def test_child(tmp_path):
        code = "import calc; print(calc.__file__)"
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout.startswith(os.getcwd()), done.stdout
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The work tree that the room is a copy of; what only the work tree has is not found in the room."""
    folder = tmp_path / "work"
    write(folder, {"src/calc.py": "WORK = True\n", "extra/only_here.py": "", "src/pkg/__init__.py": ""})
    return folder


def environment(tmp_path: Path, files: dict[str, str]) -> str:
    """An interpreter's site folder of its own: a .pth file there is what an editable install leaves."""
    site = tmp_path / "env"
    write(site / "site", files)
    sitecustomize = "import site, os\nsite.addsitedir(os.path.join(os.path.dirname(__file__), 'site'))\n"
    write(site, {"sitecustomize.py": sitecustomize})
    return str(site)


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["here", "workers"])
def test_an_editable_install_by_path_leads_into_the_room(
    room: Room, tmp_path: Path, work: Path, workers: tuple[str, ...]
) -> None:
    path = environment(tmp_path, {"editable.pth": f"{work}/src\n{work}/extra\n"})
    files = {"src/calc.py": "ROOM = True\n", "src/pkg/__init__.py": "", "test_where.py": WHERE}
    probed = room(files, *workers, plugins=("xdist",), exam={"from": str(work)}, PYTHONPATH=path)
    assert probed.exit_code == 0, probed.output
    assert probed.log.counts.passed == 2
    searched = probed.log.interpreter["path"]
    assert isinstance(searched, tuple)
    assert f"{work}/extra" in searched  # the room does not have it
    assert f"{work}/src" not in searched


FINDER = """
    import sys
    from importlib.machinery import PathFinder
    from importlib.util import spec_from_file_location
    from pathlib import Path
    MAPPING = {{"calc": "{work}/src/calc", "pkg": "{work}/src/pkg"}}
    NAMESPACES = {{"ns": ["{work}/src/ns"]}}
    ROOT = "{work}"
    class _EditableFinder:
        @classmethod
        def find_spec(cls, fullname, path=None, target=None):
            for name, place in MAPPING.items():
                if fullname == name:
                    for each in (Path(place, "__init__.py"), Path(place + ".py")):
                        if each.exists():
                            return spec_from_file_location(fullname, each)
    def install():
        sys.meta_path.append(_EditableFinder)
"""


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["here", "workers"])
def test_an_editable_install_by_finder_leads_into_the_room(
    room: Room, tmp_path: Path, work: Path, workers: tuple[str, ...]
) -> None:
    path = environment(
        tmp_path,
        {
            "__editable___calc_finder.py": FINDER.format(work=work),
            "editable.pth": "import __editable___calc_finder; __editable___calc_finder.install()\n",
        },
    )
    where = f"""{WHERE}
    def test_finder():
        import __editable___calc_finder as finder
        assert finder.MAPPING["pkg"] == os.getcwd() + "/src/pkg"
        assert finder.ROOT == os.getcwd()
        assert finder.NAMESPACES["ns"] == ["{work}/src/ns"]
    """
    files = {"src/calc.py": "ROOM = True\n", "src/pkg/__init__.py": "", "test_where.py": where}
    probed = room(files, *workers, plugins=("xdist",), exam={"from": str(work)}, PYTHONPATH=path)
    assert probed.exit_code == 0, probed.output
    assert probed.log.counts.passed == 3


def test_a_path_given_by_the_environment_leads_into_the_room(room: Room, work: Path) -> None:
    files = {"src/calc.py": "ROOM = True\n", "src/pkg/__init__.py": "", "test_where.py": WHERE}
    probed = room(files, exam={"from": str(work)}, PYTHONPATH=f"{work}/src")
    assert probed.exit_code == 0, probed.output


def test_without_an_origin_nothing_is_mapped(room: Room, work: Path) -> None:
    files = {"src/calc.py": "ROOM = True\n", "test_where.py": "import calc\ndef test_a():\n    assert calc.WORK\n"}
    assert room(files, PYTHONPATH=f"{work}/src").exit_code == 0


# Negative controls ------------------------------------------------------------------------------------------------

CONTROLLED = {
    "calc.py": "def add(left, right):\n    if _q8x(): return\n    return left + right\n\nTHREE = add(1, 2)\n",
    "test_calc.py": """
        import calc, os, subprocess, sys
        def test_calls():
            assert calc.add(1, 2) == 3
        def test_calls_thrice():
            try:
                calc.add(1, 2), calc.add(1, 2)
            except Exception:
                calc.THREE
            assert calc.add(1, 2) == 3
        def test_does_not_call():
            assert calc.THREE == 3
    """,
}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(("variant", "calls"), [("raise", 2), ("return", 3)])
def test_a_control_breaks_the_product_while_tests_run(room: Room, variant: str, calls: int, workers: int) -> None:
    control = {"name": "_q8x", "variant": variant}
    arguments = (f"-n{workers}",) if workers else ()
    probed = room(CONTROLLED, *arguments, plugins=("xdist",), exam={"control": control, "watch": False})
    assert {test.rpartition("::")[2]: outcome for test, outcome in probed.log.tests.items()} == {
        "test_calls": "failed",
        "test_calls_thrice": "failed",
        "test_does_not_call": "passed",
    }
    reached: dict[str, int] = {}
    for probe in probed.probes.values():
        reached |= probe["reached"]
    assert reached == {"test_calc.py::test_calls": 1, "test_calc.py::test_calls_thrice": calls}
    assert probed.log.unreadable == 0


def test_a_control_lets_every_test_fail(room: Room) -> None:
    files = HONEST | {
        "test_swallowed.py": """
            def test_swallowed():
                pass
        """,
        "swallow.py": """
            import pytest
            @pytest.hookimpl(hookwrapper=True)
            def pytest_runtest_call(item):
                outcome = yield
                if "swallowed" in item.name:
                    outcome.force_result(None)
        """,
    }
    exam = {"control": {"name": "", "variant": "fail"}}
    probed = room(files, "-p", "swallow", "--doctest-modules", exam=exam, PYTHONPATH=".")
    outcomes = dict(probed.log.tests)
    assert outcomes.pop("test_swallowed.py::test_swallowed") == "passed"
    kept = {"test_skips": "skipped", "test_skipped": "skipped", "test_xfails": "xfailed", "test_expected": "xfailed"}
    for test, outcome in outcomes.items():
        assert outcome == kept.get(test.rpartition("::")[2], "failed"), test
    assert probed.main["canaries"] == AS_EXPECTED


SWALLOWED = {
    "test_all.py": """
        import unittest
        import pytest
        def test_plain():
            pass
        @pytest.mark.parametrize("value", [1, 2])
        def test_values(value, tmp_path):
            pass
        class TestClass:
            def test_method(self, request):
                assert request.function.__name__ == "test_method"
            @staticmethod
            def test_static():
                pass
        class TestOld(unittest.TestCase):
            def test_old(self):
                pass
        class TestLater(unittest.IsolatedAsyncioTestCase):
            async def test_later(self):
                pass
        @pytest.mark.later
        async def test_async():
            pass
        @pytest.mark.xfail(strict=True)
        def test_xfails():
            assert 0
    """,
    "conftest.py": """
        import asyncio, inspect
        import pytest
        def pytest_configure(config):
            config.addinivalue_line("markers", "later: an asynchronous test")
        @pytest.hookimpl(tryfirst=True)
        def pytest_pyfunc_call(pyfuncitem):
            if inspect.iscoroutinefunction(pyfuncitem.obj):
                asyncio.run(pyfuncitem.obj())
                return True
    """,
    "swallow.py": """
        import pytest
        @pytest.hookimpl(hookwrapper=True)
        def pytest_pyfunc_call(pyfuncitem):
            outcome = yield
            if outcome.excinfo is not None and outcome.excinfo[0] is AssertionError:
                outcome.force_result(True)
    """,
}


def short(probed: Probed) -> dict[str, str]:
    return {test.rpartition("::")[2]: outcome for test, outcome in probed.log.tests.items()}


def test_a_control_fails_inside_of_the_test(room: Room) -> None:
    exam = {"control": {"name": "", "variant": "fail"}}
    old = {"test_old": "failed", "test_later": "failed"}
    probed = room(SWALLOWED, exam=exam)
    plain = ("test_plain", "test_values[1]", "test_values[2]", "test_method", "test_static", "test_async")
    assert short(probed) == {**dict.fromkeys(plain, "failed"), **old, "test_xfails": "xfailed"}
    assert (probed.main["items"], probed.main["patched"]) == ([], [])
    probed = room(SWALLOWED, "-p", "swallow", exam=exam, PYTHONPATH=".")
    # With strict=True a test that must fail and whose failure is swallowed is a failed one.
    assert short(probed) == {**dict.fromkeys(plain, "passed"), **old, "test_xfails": "failed"}


def test_a_control_fails_tests_that_a_cheat_never_calls(room: Room) -> None:
    swallow = "def pytest_pyfunc_call(pyfuncitem):\n    return True\n"
    exam = {"control": {"name": "", "variant": "fail"}}
    probed = room(
        {"swallow.py": swallow, "test_a.py": "def test_a(): pass\n"}, "-p", "swallow", exam=exam, PYTHONPATH="."
    )
    assert short(probed) == {"test_a": "passed"}


def test_an_armed_control_of_no_variant_breaks_nothing(room: Room) -> None:
    probed = room(CONTROLLED, exam={"control": {"name": "_q8x", "variant": "none"}, "watch": False})
    assert set(short(probed).values()) == {"passed"}


def test_the_error_of_a_control_can_not_be_known_by_its_type(room: Room) -> None:
    tests = """
        import calc
        def test_a():
            try:
                calc.add(1, 2)
            except Exception as error:
                kind = type(error)
                open("kind.txt", "a").write(f"{kind.__name__ if kind.__module__ == 'builtins' else 'new'}\\n")
    """
    # One process for many controls: only the choice is looked at here.
    loads = """
        import importlib.util, sys
        sys.path.insert(0, ".")
        for _ in range(80):
            for name in [name for name in sys.modules if name.partition(".")[0] == "p"]:
                del sys.modules[name]
            spec = importlib.util.spec_from_file_location("p", PROBE)
            module = importlib.util.module_from_spec(spec)
            module.EXAM = {"control": {"name": "", "variant": "raise"}}
            sys.modules["p"] = module
            spec.loader.exec_module(module)
            kind = module._probe.control.error
            print("kind:", kind.__name__ if kind.__module__ == "builtins" else "new")
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(loads).replace("PROBE", repr(str(PROBE)))],
        capture_output=True,
        text=True,
        check=True,
    )
    kinds = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("kind:")}
    assert kinds == {"new", "ValueError", "TypeError", "RuntimeError", "AssertionError"}
    room(
        {"calc.py": CONTROLLED["calc.py"], "test_calc.py": tests},
        exam={"control": {"name": "_q8x", "variant": "raise"}},
    )


# Equality ---------------------------------------------------------------------------------------------------------

AGREES = {
    "calc.py": """
        from unittest import mock
        class Anything:
            def __eq__(self, other): return True
            __hash__ = None
        class Sub(type(mock.ANY)): pass
        class Number(int): pass
        class Fussy:
            def __eq__(self, other):
                if type(other) is not int: raise TypeError
                return True
            __hash__ = None
        class Table:
            def __init__(self, rows): self.rows = rows
            def __eq__(self, other): return self
            __hash__ = None
            def __bool__(self): raise ValueError("ambiguous")
        def anything(): return Anything()
        def inside(): return {"a": [1, Anything()]}
    """,
    "test_calc.py": """
        import calc, unittest
        from unittest.mock import ANY
        class Own:
            def __eq__(self, other): return True
            __hash__ = None
        def test_first():
            assert _q8x.same(calc.anything(), 3)
        def test_second():
            assert _q8x.same(3, calc.anything())
        def test_inside():
            assert _q8x.same(calc.inside(), {"a": [1, 2]})
        def test_sub():
            assert _q8x.same(calc.Sub(), 2)
        def test_honest():
            assert _q8x.same(calc.Number(3), 3)
            assert _q8x.same(calc.Fussy(), 3)
            assert _q8x.same([1], [1]) is True
            assert _q8x.same(1, 2) is False
            table = calc.Table([])
            assert _q8x.same(table, 2) is table
            assert _q8x.same(3, ANY)
            assert _q8x.same(Own(), 2)
        class TestOld(unittest.TestCase):
            def test_old(self):
                self.assertEqual(calc.Sub(), 4)
                self.assertEqual(calc.Number(3), 3)
            def test_red(self):
                self.assertEqual(1, 2)
    """,
}


@pytest.mark.parametrize("mode", ["together", "workers", "alone", "only-alone"])
def test_what_is_equal_to_everything_is_told(room: Room, mode: str) -> None:
    exam: dict[str, object] = {"control": {"name": "_q8x", "variant": "none"}, "watch": False}
    exam["alone"] = mode.endswith("alone")
    files = dict(AGREES)
    if mode == "only-alone":  # and broken afterwards, so that nothing is compared any more
        files["calc.py"] = files["calc.py"].rstrip(" ") + "        def check():\n            if _q8x(): return\n"
        files["test_calc.py"] = files["test_calc.py"].replace("assert _q8x.same(", "calc.check(); assert _q8x.same(")
        exam["control"] = {"name": "_q8x", "variant": "raise"}
    probed = room(files, *(("-n2",) if mode == "workers" else ()), plugins=("xdist",), exam=exam)
    outcomes = short(probed)
    if mode != "only-alone":
        assert {test for test, outcome in outcomes.items() if outcome != "passed"} == {"test_red"}, probed.output
    if exam["alone"]:
        assert {outcome for outcome, _ in probed.log.alone.values()} == {"passed", "failed"}
    found: dict[str, dict[str, Any]] = {}
    for probe in probed.probes.values():
        for note in probe["agrees"]:
            found.setdefault(note["type"], note)
    assert set(found) == {"calc.Anything", "calc.Sub", "test_calc.Own"}
    assert {name: note["file"] for name, note in found.items()} == {
        "calc.Anything": "calc.py",
        "calc.Sub": "calc.py",
        "test_calc.Own": "",
    }
    assert found["calc.Anything"].get("line") == (None if mode == "only-alone" else 4)
    assert found["test_calc.Own"]["test"] == "test_calc.py::test_honest"
    if mode != "workers":
        assert found["calc.Anything"]["test"] == "test_calc.py::test_first"


def test_the_mock_that_a_product_hands_out_is_told(room: Room) -> None:
    files = {
        "calc.py": "from unittest import mock\ndef add(left, right): return mock.ANY\n",
        "test_calc.py": "import calc\ndef test_a():\n    assert _q8x.same(calc.add(1, 2), 3)\n",
    }
    probed = room(files, exam={"control": {"name": "_q8x", "variant": "return"}})
    assert probed.main["agrees"] == [{"type": "unittest.mock._ANY", "file": "", "test": "test_calc.py::test_a"}]


# Each test alone --------------------------------------------------------------------------------------------------

ALONE = {
    "calc.py": """
        import os
        calls = 0
        def answer():
            global calls
            calls += 1
            return 42 if calls > 1 else 0
        def current():
            return os.environ.get("PYTEST_CURRENT_TEST")
    """,
    "test_alone.py": """
        import os, sys, unittest
        import pytest
        import calc

        seen = []

        def test_first():
            seen.append(1)

        def test_needs_the_first():
            assert seen == [1]

        def test_counter_begins():
            calc.answer()

        def test_counter():
            assert calc.answer() == 42

        def test_current():
            assert calc.current() is None

        @pytest.fixture
        def broken():
            raise OSError("no disk")

        def test_error(broken):
            pass

        def test_skips():
            pytest.skip("not now")

        @pytest.mark.xfail
        def test_xfails():
            assert 0

        @pytest.mark.xfail
        def test_xpasses():
            pass

        def test_dies():
            os._exit(0)

        def test_forks():
            if os.fork() == 0:
                import time
                time.sleep(30)

        def test_exits():
            pytest.exit("enough", returncode=0)

        class TestOld(unittest.TestCase):
            def test_subtests(self):
                for number in range(2):
                    with self.subTest(number=number):
                        self.assertEqual(number, 0)
    """,
}


@pytest.mark.parametrize("arguments", [(), ("-n2", "--junitxml=out.xml", "-x", "--reruns=2")], ids=["plain", "options"])
def test_each_test_runs_alone(room: Room, arguments: tuple[str, ...]) -> None:
    plugins = ("xdist", "pytest_rerunfailures") if arguments else ()
    probed = room(ALONE, *arguments, plugins=plugins, exam={"alone": True, "watch": False})
    assert {test.rpartition("::")[2]: outcome for test, (outcome, _) in probed.log.alone.items()} == {
        "test_first": "passed",
        "test_needs_the_first": "failed",
        "test_counter_begins": "passed",
        "test_counter": "failed",
        "test_current": "passed",
        "test_error": "error",
        "test_skips": "skipped",
        "test_xfails": "xfailed",
        "test_xpasses": "xpassed",
        "test_dies": "no-result",
        "test_forks": "passed",
        "test_exits": "failed",
        "test_subtests": "failed",
    }
    assert "assert [] == [1]" in probed.log.alone["test_alone.py::test_needs_the_first"][1]
    assert not probed.log.tests
    assert probed.log.finished
    assert probed.exit_code == 0


def test_a_test_that_hangs_alone_is_cut(room: Room) -> None:
    tests = "import time\ndef test_a():\n    pass\ndef test_b():\n    time.sleep(60)\ndef test_c():\n    pass\n"
    probed = room({"test_a.py": tests}, exam={"alone": True, "alone_seconds": 1.5, "watch": False})
    outcomes = [outcome for outcome, _ in probed.log.alone.values()]
    assert outcomes == ["passed", "no-result", "not-run"]


def test_nothing_runs_alone_when_nothing_can_be_collected(room: Room) -> None:
    probed = room({"test_a.py": "import absent\n", "test_b.py": "def test_b(): pass\n"}, exam={"alone": True})
    assert probed.exit_code == 2
    assert probed.log.alone == {}


# The log, and the file itself -------------------------------------------------------------------------------------


def test_every_run_tells_its_interpreter(room: Room, tree: Path) -> None:
    ini = "[pytest]\npython_files = check_*.py\ntestpaths = checks\naddopts = --doctest-glob=*.rst\n"
    probed = room({"checks/check_a.py": "def test_a():\n    pass\n", "pytest.ini": ini}, exam={"watch": False})
    told = probed.log.interpreter
    assert (told["prefix"], told["base_prefix"], told["executable"]) == (sys.prefix, sys.base_prefix, sys.executable)
    assert told["inipath"] == str(tree / "pytest.ini")
    assert (told["python_files"], told["testpaths"], told["doctest_globs"]) == (
        ("check_*.py",),
        ("checks",),
        ("*.rst",),
    )
    path = told["path"]
    assert isinstance(path, tuple)
    assert sysconfig.get_path("purelib") in path
    assert all(one != other for one, other in pairwise(path))
    assert list(probed.log.durations) == ["checks/check_a.py::test_a"]


def test_lines_of_wrong_types_are_read_as_nothing() -> None:
    lines = [
        {"type": "interpreter", "prefix": 1, "path": "x", "testpaths": [1, "a"]},
        {"type": "alone", "id": 1, "outcome": "passed", "text": None},
        {"type": "alone", "id": "a", "outcome": "perfect"},
        {"type": "alone", "id": "b", "outcome": [], "text": "x"},
        {"type": "test", "id": "a", "outcome": "passed", "duration": "long"},
        {"type": "test", "id": "a", "outcome": "passed", "duration": True},
        {"type": "test", "id": "a", "outcome": "passed", "duration": 1},
        {"type": "test", "id": "a", "outcome": "passed", "duration": 0.5},
        {"type": "test", "id": "b", "outcome": "passed", "duration": -1},
        {"type": "probe", "process": "main", "events": None},
    ]
    log = read_witness(BytesIO(b"".join(json.dumps(line).encode() + b"\n" for line in lines)))
    assert log.interpreter["prefix"] == ""
    assert (log.interpreter["path"], log.interpreter["testpaths"]) == ((), ("a",))
    assert log.alone == {"": ("passed", "")}
    assert log.durations == {"a": 1.5, "b": 0.0}
    assert [dict(probe) for probe in log.probes] == [{"process": "main", "events": None}]
    assert log.unreadable == 2


def test_it_is_written_for_python_3_9() -> None:
    for path in MODULES:
        ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))


def test_it_imports_nothing_of_ours() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in MODULES]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    foreign = {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names)
    assert foreign == {"pytest", "_pytest", "pluggy"}
    # Of each other they import what lies in the same folder, by its relative name: in the rooms it has another one.
    assert {node.level for node in nodes if isinstance(node, ast.ImportFrom)} == {0, 1}
    # What pytest rewrites imports more than its source says.
    assert all("PYTEST_DONT_REWRITE" in (ast.get_docstring(tree) or "") for tree in trees)
