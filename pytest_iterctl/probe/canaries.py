"""Tests of which the outcome is known: when one of those that must fail does not, the framework lies.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import ast
import os
import sys
import types
from typing import Any

import pytest
from _pytest.assertion.rewrite import rewrite_asserts
from _pytest.runner import runtestprotocol
from _pytest.unittest import TestCaseFunction, UnitTestCase

from .reports import told, verdict

__all__ = ["CANARY_NAMES", "Canaries"]

_CANARIES = """
import unittest
import pytest

def test_assert():
    value = [1]
    assert value == [2]

def test_error():
    {}["absent"]

def test_raises():
    with pytest.raises(ValueError):
        pass

def test_fail():
    pytest.fail("as it must")

def test_approx():
    assert 1.0 == pytest.approx(2.0)

def test_passes():
    assert [1] == [1]

class TestCanary(unittest.TestCase):
    def test_unittest(self):
        self.assertEqual([1], [2])
"""
CANARY_NAMES = ("assert", "error", "raises", "fail", "approx", "unittest", "passes")
_LAST = ("last_type", "last_value", "last_traceback", "last_exc")


class Canaries:
    """Little tests of which the outcome is known, run by the session's own machinery and reported to nobody.

    They lie in no folder, so that from pytest 8 on no conftest's hooks are called for them: those may count failures.
    """

    def __init__(self, session: pytest.Session) -> None:
        self.session = session
        path = session.config.rootpath / f"test_{os.urandom(4).hex()}.py"
        # Without a file's name: whoever measures coverage would look for the file.
        place = f"<{path.stem}>"
        tree = ast.parse(_CANARIES)
        if session.config.getoption("assertmode", "rewrite") == "rewrite":
            rewrite_asserts(tree, _CANARIES.encode(), place, session.config)
        self.module = types.ModuleType(path.stem)
        exec(compile(tree, place, "exec", dont_inherit=True), vars(self.module))  # noqa: S102 - our own text
        self.parent: Any = pytest.Module.from_parent(session, path=path)
        self.parent._obj = self.module  # there is no file to import it from

    def run(self, moment: str) -> dict[str, str]:
        option = self.session.config.option
        style = option.tbstyle
        option.tbstyle = "value"  # nobody reads the tracebacks, which take the most time
        try:
            return {f"{moment}:{name}": self.outcome(name) for name in CANARY_NAMES}
        finally:
            option.tbstyle = style

    def outcome(self, name: str) -> str:
        session: Any = self.session
        state = session._setupstate
        last = {each: getattr(sys, each) for each in _LAST if hasattr(sys, each)}
        current = os.environ.get("PYTEST_CURRENT_TEST")
        try:
            session._setupstate = type(state)()  # an interrupted test may have left its own behind
            item = self.item(name)
            # A fixture that the project wants around every test is not set up for this one.
            item._fixtureinfo.names_closure[:] = []
            item.fixturenames = []
            return verdict([told(report) for report in runtestprotocol(item, nextitem=None, log=False)])
        except BaseException as error:  # noqa: BLE001 - whatever it is, the run goes on
            return f"unknown: {type(error).__name__}"
        finally:
            session._setupstate = state
            for each in _LAST:
                if each in last:
                    setattr(sys, each, last[each])
                elif hasattr(sys, each):
                    delattr(sys, each)
            if current is None:
                os.environ.pop("PYTEST_CURRENT_TEST", None)
            else:
                os.environ["PYTEST_CURRENT_TEST"] = current

    def item(self, name: str) -> Any:
        if name != "unittest":
            return pytest.Function.from_parent(self.parent, name=f"test_{name}")
        case = UnitTestCase.from_parent(self.parent, name="TestCanary", obj=self.module.TestCanary)
        return TestCaseFunction.from_parent(case, name="test_unittest")
