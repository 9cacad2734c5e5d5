"""What is equal to everything is told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.probe.probed import Room, short

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
