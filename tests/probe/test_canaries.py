"""Tests of which the outcome is known: they see a framework that lies, and disturb nobody."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.probe.probed import ADD, BAD, HONEST, NAMES, TEST, Room, assert_nothing_found, product


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
