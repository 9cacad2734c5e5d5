"""Each test in a process of its own."""

from __future__ import annotations

import pytest

from tests.probe.probed import Room

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
