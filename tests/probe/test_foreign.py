"""Functions of the product in other people's modules, and in those of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.probe.probed import ADD, TEST, Room, assert_nothing_found, product, write


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
