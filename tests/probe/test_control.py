"""Negative controls: what breaks the product, and what lets every test fail."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

from tests.probe.probed import AS_EXPECTED, HONEST, PROBE, Room, short

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
