"""What is put in the place of something of the framework is seen, and told with its place."""

from __future__ import annotations

import pytest
from pluggy import HookCaller

from tests.probe.probed import ADD, Room, product


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
