"""What reaches the log of a run, and how lines of wrong types are read."""

from __future__ import annotations

import json
import sys
import sysconfig
from io import BytesIO
from itertools import pairwise
from pathlib import Path

from pytest_iterctl.feedback.witness_log import read_witness
from tests.probe.probed import Room


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
