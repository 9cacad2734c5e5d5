"""Runs with the probe inside, and what there is to run: an honest project, a red one, a little product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest_iterctl
from pytest_iterctl.feedback.witness_log import WitnessLog

__all__ = [
    "ADD",
    "AS_EXPECTED",
    "BAD",
    "HONEST",
    "NAMES",
    "PROBE",
    "TEST",
    "Probed",
    "Room",
    "assert_nothing_found",
    "product",
    "short",
    "write",
]

PROBE = Path(pytest_iterctl.__file__).parent / "probe" / "__init__.py"
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
TEST = "import calc\n\ndef test_a():\n    assert calc.add(1, 2) == 3\n\ndef test_b():\n    assert calc.add(2, 2) == 4\n"
ADD = "def add(left, right):\n    return left + right\n"


def assert_nothing_found(probed: Probed, *, workers: int = 0) -> None:
    assert len(probed.probes) == workers + 1
    for process, probe in probed.probes.items():
        assert (probe["patched"], probe["items"], probe["events"], probe["hooked"]) == ([], [], [], []), process
        runs_tests = (process == "main") == (workers == 0)
        assert probe["canaries"] == (AS_EXPECTED if runs_tests else {})
        assert not [name for name in probe["plugins"] if "iterctl" in name or name.isdigit()]


def product(text: str, *, inside: bool = False) -> dict[str, str]:
    """A product that does something when it is imported, or when it is first called."""
    body = dedent(text).strip("\n")
    if inside:
        indented = "".join(f"    {line}\n" for line in body.splitlines())
        return {"calc.py": f"def add(left, right):\n{indented}    return left + right\n", "test_calc.py": TEST}
    return {"calc.py": f"{body}\n\n{ADD}", "test_calc.py": TEST}


def short(probed: Probed) -> dict[str, str]:
    return {test.rpartition("::")[2]: outcome for test, outcome in probed.log.tests.items()}
