"""What the product does that a product has no need of, by the interpreter's own audit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.probe.probed import ADD, Room, product


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
        (
            "import subprocess\nsubprocess.run(['cat', 'test_calc.py'], capture_output=True)",
            ["command", "calc.py", "test_calc.py"],
        ),
        ("import os\nos.system('cat tests/test_data.json > copy')", ["command", "calc.py", "tests/test_data.json"]),
        (
            "import os\nos.waitpid(os.posix_spawn('/bin/cat', [b'cat', b'./test_calc.py'], {}), 0)",
            ["command", "calc.py", "test_calc.py"],
        ),
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


def test_data_of_the_product_that_a_test_reads_is_named_with_the_test(room: Room) -> None:
    tests = """
        import json, pathlib
        from importlib import resources
        import calc
        WANTED = json.loads(pathlib.Path("examples.json").read_text())
        def test_a():
            assert calc.add(1, 2) == WANTED["three"]
            open("written.txt", "w").close()
    """
    product_reads = ADD + "\nimport pathlib\npathlib.Path('own.json').read_text()\n"
    files = {"calc.py": product_reads, "test_a.py": tests, "examples.json": '{"three": 3}', "own.json": "{}"}
    assert room(files).main["events"] == [["test-read", "test_a.py", "examples.json"]]
