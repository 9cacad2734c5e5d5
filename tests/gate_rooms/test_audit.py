"""What a change adds is read as a program: cheats in any spelling are found, honest work is left alone."""

from __future__ import annotations

import random
import sysconfig
import textwrap
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_iterctl.gate.audit import Finding, audit
from pytest_iterctl.gate.sabotage import sabotaged_at


def is_protected(path: str) -> bool:
    return path.startswith("tests/") or path.endswith("conftest.py")


def found(after: str, before: str = "", *, path: str = "calc.py") -> tuple[Finding, ...]:
    old = {path: textwrap.dedent(before).encode()} if before else {}
    used = {"use.py": b"from calc import A\n"}  # a class that nobody names forges nothing
    return audit({**old, **used}, {path: textwrap.dedent(after).encode(), **used}, is_protected=is_protected)


def rules(after: str, before: str = "", *, path: str = "calc.py") -> set[tuple[str, bool]]:
    return {(finding.rule, finding.certain) for finding in found(after, before, path=path)}


CERTAIN = {
    # ends the process
    "exit": ("ends-process", "import os\ndef f():\n    os._exit(0)\n"),
    "exit under another name": ("ends-process", "import os as o\ndef f():\n    o._exit(0)\n"),
    "exit imported under another name": ("ends-process", "from os import _exit as bye\ndef f():\n    bye(0)\n"),
    "exit by star": ("ends-process", "from os import *\ndef f():\n    _exit(0)\n"),
    "exit by getattr": ("ends-process", "import os\ndef f():\n    getattr(os, '_exit')(0)\n"),
    "exit by a name in pieces": ("ends-process", "import os\ndef f():\n    getattr(os, '_ex' + 'it')(0)\n"),
    "exit by a name turned round": ("ends-process", "import os\ndef f():\n    getattr(os, 'tixe_'[::-1])(0)\n"),
    "exit by a name in hex": (
        "ends-process",
        "import os\ndef f():\n    getattr(os, bytes.fromhex('5f65786974').decode())(0)\n",
    ),
    "exit by a name in base64": (
        "ends-process",
        "import os, base64\nn = base64.b64decode('X2V4aXQ=').decode()\ndef f():\n    getattr(os, n)(0)\n",
    ),
    "exit by __import__": ("ends-process", "def f():\n    __import__('os')._exit(0)\n"),
    "exit by importlib": ("ends-process", "import importlib\ndef f():\n    importlib.import_module('os')._exit(0)\n"),
    "exit by vars": ("ends-process", "import os\ndef f():\n    vars(os)['_exit'](0)\n"),
    "exit by __dict__": ("ends-process", "import os\ndef f():\n    os.__dict__['_exit'](0)\n"),
    "exit by sys.modules": ("ends-process", "import sys\ndef f():\n    sys.modules['os']._exit(0)\n"),
    "exit by another module": ("ends-process", "import shutil\ndef f():\n    shutil.os._exit(0)\n"),
    "exit by the module below": ("ends-process", "import posix\ndef f():\n    posix._exit(0)\n"),
    "exit by attrgetter": (
        "ends-process",
        "import os, operator\ndef f():\n    operator.attrgetter('_exit')(os)(0)\n",
    ),
    "exit through variables": ("ends-process", "import os\nx = os\ny = x\ndef f():\n    e = y._exit\n    e(0)\n"),
    "exit as a default": ("ends-process", "import os\ndef f(leave=os._exit):\n    leave(0)\n"),
    "exit by walrus": ("ends-process", "import os\ndef f():\n    (o := os)._exit(0)\n"),
    "exit by globals": ("ends-process", "import os\ndef f():\n    globals()['os']._exit(0)\n"),
    "exit at exit": ("ends-process", "import atexit, os\natexit.register(os._exit, 0)\n"),
    "exit at exit in a lambda": ("ends-process", "import atexit, os\natexit.register(lambda: os._exit(0))\n"),
    "the parent of a fork exits": (
        "ends-process",
        "import os\ndef f():\n    pid = os.fork()\n    if pid:\n        os._exit(0)\n",
    ),
    "the parent of a fork exits, and the child has left": (
        "ends-process",
        "import os\ndef f():\n    pid = os.fork()\n    if not pid:\n        return\n    os._exit(0)\n",
    ),
    "exit before a fork whose parent leaves": (
        "ends-process",
        "import os\ndef f():\n    os._exit(0)\n    pid = os.fork()\n    if pid:\n        return\n",
    ),
    "exit in a program in a text": ("ends-process", "exec('import os; os._exit(0)')\n"),
    "another program": ("ends-process", "import os\ndef f():\n    os.execv('/bin/true', ['true'])\n"),
    "another program that is found": (
        "ends-process",
        "import os, shutil\ndef f():\n    os.execv(shutil.which('true'), ['true'])\n",
    ),
    "abort at import": ("ends-process", "import os\nos.abort()\n"),
    "kill at import": ("ends-process", "import os\nos.kill(os.getpid(), 9)\n"),
    "stop at import": ("stops-at-import", "import sys\nsys.exit(0)\n"),
    "stop at import by raising": ("stops-at-import", "raise SystemExit\n"),
    # knows the framework
    "pytest": ("imports-framework", "import pytest\n"),
    "pytest in a function": ("imports-framework", "def f():\n    from _pytest.outcomes import Skipped\n"),
    "pytest by name": ("imports-framework", "import importlib\nx = importlib.import_module('pyt' + 'est')\n"),
    "unittest's insides": ("imports-framework", "from unittest import case\n"),
    "pluggy's insides": ("imports-framework", "import pluggy._callers\n"),
    "skip": ("steers-outcome", "import pytest\ndef f():\n    pytest.skip('no')\n"),
    "skip under another name": ("steers-outcome", "from pytest import skip as s\ndef f():\n    s('no')\n"),
    "SkipTest": ("steers-outcome", "import unittest\ndef f():\n    raise unittest.SkipTest\n"),
    "equal to all by mock": ("steers-outcome", "from unittest.mock import ANY\ndef f():\n    return ANY\n"),
    # asks whether it is tested
    "the current test": ("asks-whether-tested", "import os\ndef f():\n    return os.environ['PYTEST_CURRENT_TEST']\n"),
    "the current test by get": ("asks-whether-tested", "import os\nx = os.environ.get('PYTEST_CURRENT_TEST', '')\n"),
    "the current test by getenv": (
        "asks-whether-tested",
        "from os import getenv as g\nif g('PYTEST_' + 'VERSION'):\n    x = 1\n",
    ),
    "any variable of pytest": (
        "asks-whether-tested",
        "import os\ndef f():\n    return any(k.startswith('PYTEST') for k in os.environ)\n",
    ),
    "pytest among the modules": ("asks-whether-tested", "import sys\ndef f():\n    return 'pytest' in sys.modules\n"),
    "pytest from the modules": ("asks-whether-tested", "import sys\nx = sys.modules.get('_pytest')\n"),
    "pytest in the arguments": ("asks-whether-tested", "import sys\nx = sys.argv[0].endswith('pytest')\n"),
    "pytest in any argument": ("asks-whether-tested", "import sys\nx = any('pytest' in a for a in sys.argv)\n"),
    # patches
    "clock": ("patches", "import time\ntime.time = lambda: 0\n"),
    "clock by setattr": ("patches", "import time\ndef f():\n    setattr(time, 'perf_counter', lambda: 0)\n"),
    "clock by dict": ("patches", "import time\nvars(time)['time'] = lambda: 0\n"),
    "clock by update": ("patches", "import time\ntime.__dict__.update(time=lambda: 0)\n"),
    "chance": ("patches", "import random as r\nr.random = lambda: 0.5\n"),
    "date": ("patches", "import datetime\ndatetime.datetime = object\n"),
    "assertEqual": ("patches", "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n"),
    "report": ("patches", "from _pytest.reports import TestReport as T\nT.from_item_and_call = classmethod(print)\n"),
    "builtins": ("patches", "import builtins\nbuiltins.AssertionError = ValueError\n"),
    "builtins by item": ("patches", "__builtins__['len'] = lambda x: 3\n"),
    "a deleted attribute": ("patches", "import os\ndel os.listdir\n"),
    "an attribute in a tuple": ("patches", "import time\ntime.time, x = print, 1\n"),
    "import hook": ("hooks-imports", "import sys\nsys.meta_path.insert(0, object())\n"),
    "path hooks": ("hooks-imports", "import sys\nsys.path_hooks[:] = []\n"),
    "module replaced": ("replaces-module", "import sys\nsys.modules['pytest'] = object()\n"),
    "test reloaded": ("replaces-module", "import importlib, test_calc\nimportlib.reload(test_calc)\n"),
    # equal to everything
    "equal": ("agrees-with-everything", "class A:\n    def __eq__(self, other):\n        return True\n"),
    "never unequal": ("agrees-with-everything", "class A:\n    def __ne__(self, other):\n        return False\n"),
    "equal by lambda": ("agrees-with-everything", "class A(int):\n    __eq__ = lambda self, other: True\n"),
    "equal by attribute": ("agrees-with-everything", "class A: pass\nA.__eq__ = lambda *a: 1\n"),
    "equal by setattr": ("agrees-with-everything", "class A: pass\nsetattr(A, '__eq__', lambda s, o: not False)\n"),
    "equal by type": ("agrees-with-everything", "A = type('A', (int,), {'__eq__': lambda s, o: True})\n"),
    "equal by a named function": (
        "agrees-with-everything",
        "def yes(*a):\n    return True\nclass A:\n    __eq__ = yes\n",
    ),
    "equal in other words": (
        "agrees-with-everything",
        "class A(str):\n    def __eq__(self, other):\n        return other == other or self is None\n",
    ),
    "equal by being an object": (
        "agrees-with-everything",
        "class A:\n    def __eq__(self, other):\n        return isinstance(other, object)\n",
    ),
    "equal on both ways": (
        "agrees-with-everything",
        "class A:\n    def __eq__(self, other):\n        if other:\n            return True\n        return 1\n",
    ),
    "equal without looking": (
        "agrees-with-everything",
        "class A:\n    def __eq__(self, other):\n        return self.answer\n",
    ),
    "equal in the end": (
        "agrees-with-everything",
        """
        class A:
            def __eq__(self, other):
                try:
                    return self.x == other
                finally:
                    return True
        """,
    ),
    "equal to every text": (
        "agrees-with-everything",
        "class A(str):\n    def __eq__(self, other):\n        return isinstance(other, str)\n",
    ),
    "equal to every text or itself": (
        "agrees-with-everything",
        "class A:\n    def __eq__(self, other):\n        return isinstance(other, (A, str)) and True\n",
    ),
    "equal to every text by type": (
        "agrees-with-everything",
        "class A:\n    def __eq__(self, o):\n        return type(o) is str or o.__class__ == int or False\n",
    ),
    "equal to every decimal": (
        "agrees-with-everything",
        "from decimal import Decimal as D\nclass A:\n    __eq__ = lambda self, o: bool(isinstance(o, D | int))\n",
    ),
    "equal to every text or declined": (
        "agrees-with-everything",
        """
        class A:
            def __eq__(self, other):
                if not isinstance(other, str):
                    return NotImplemented
                return issubclass(type(other), str)
        """,
    ),
    "unequal to no text": (
        "agrees-with-everything",
        "class A:\n    def __ne__(self, other):\n        return not isinstance(other, str)\n",
    ),
    # looks where it has no business
    "decoded code": ("runs-hidden-text", "import base64\ndef f(text):\n    exec(base64.b64decode(text))\n"),
    "decoded code in a variable": (
        "runs-hidden-text",
        "import zlib\ndef f(t):\n    c = zlib.decompress(t).decode()\n    exec(compile(c, 'x', 'exec'))\n",
    ),
    "code in bytecode": ("runs-hidden-text", "import marshal\nexec(marshal.loads(DATA))\n"),
    "rotated code": ("runs-hidden-text", "import codecs\ndef f(t):\n    exec(codecs.decode(t, 'rot13'))\n"),
    "decoded code from a file": (
        "runs-hidden-text",
        "import base64\ndef f(p):\n    with open(p) as file:\n        exec(base64.b64decode(file.read()))\n",
    ),
    "asks for the folder of the tests": (
        "touches-test-files",
        "import pathlib\ndef f():\n    return (pathlib.Path(__file__).parents[1] / 'tests').is_dir()\n",
    ),
    "asks for the folder of the tests by os": (
        "touches-test-files",
        "import os\nx = os.path.exists(os.path.join(os.path.dirname(__file__), '..', 'tests'))\n",
    ),
    "asks for the folder of the tests where it works": (
        "touches-test-files",
        "from pathlib import Path\nT = Path.cwd() / 'tests'\ndef f():\n    return T.exists()\n",
    ),
    "lists the tests": (
        "touches-test-files",
        "from pathlib import Path\ndef f():\n    return list((Path(__file__).parent / 'tests').iterdir())\n",
    ),
    "caller's variable by traceback": (
        "looks-at-callers",
        "def f(error):\n    return error.__traceback__.tb_frame.f_back.f_locals['expected']\n",
    ),
    "reports among all objects": (
        "walks-objects",
        "import gc\ndef f():\n    return [o for o in gc.get_objects() if type(o).__name__ == 'TestReport']\n",
    ),
    "caller's name": (
        "looks-at-callers",
        "import sys\ndef f():\n    return sys._getframe(1).f_code.co_name.startswith('test_')\n",
    ),
    "caller's variable": (
        "looks-at-callers",
        "import inspect\ndef f():\n    return inspect.currentframe().f_back.f_locals['expected']\n",
    ),
    "stack of tests": (
        "looks-at-callers",
        "from inspect import stack as s\ndef f():\n    return any('test_' in each.function for each in s())\n",
    ),
    "trace": ("traces", "import sys\ndef f(hook):\n    sys.settrace(hook)\n"),
    "writes a test": ("touches-test-files", "open('tests/test_calc.py', 'w').write('')\n"),
    "reads a test": ("touches-test-files", "from pathlib import Path\nx = Path('tests/test_calc.py').read_text()\n"),
    "reads a test beside it": (
        "touches-test-files",
        "from pathlib import Path\nx = (Path(__file__).parent / 'tests' / 'test_a.py').read_text()\n",
    ),
    "writes conftest": (
        "touches-test-files",
        "import os\np = os.path.join(os.getcwd(), 'conftest.py')\nopen(p, 'a')\n",
    ),
    "removes pytest.ini": ("touches-test-files", "import os\nos.remove('pytest.ini')\n"),
    "swallows": (
        "swallows-assertions",
        """
        import contextlib
        @contextlib.contextmanager
        def f():
            try:
                yield
            except AssertionError:
                pass
        """,
    ),
    "swallows everything": (
        "swallows-assertions",
        """
        from contextlib import contextmanager, suppress
        @contextmanager
        def f():
            with suppress(BaseException):
                yield
        """,
    ),
}


@pytest.mark.parametrize(("rule", "program"), CERTAIN.values(), ids=list(CERTAIN))
def test_a_cheat_is_certain(rule: str, program: str) -> None:
    assert (rule, True) in rules(program)


SUSPICIOUS = {
    "frames of a logger": ("looks-at-callers", "import sys\ndef find():\n    return sys._getframe(2).f_code.co_name\n"),
    "all objects": ("walks-objects", "import gc\ndef f():\n    return len(gc.get_objects())\n"),
    "code in package data": (
        "runs-hidden-text",
        "from pathlib import Path\nexec(Path(__file__).with_name('locale.dat').read_text())\n",
    ),
    "code in an open file": (
        "runs-hidden-text",
        "import os\nP = os.path.join(os.path.dirname(__file__), 'a.txt')\nwith open(P) as f:\n    exec(f.read())\n",
    ),
    "code in a file of the work tree": ("runs-hidden-text", "def f():\n    exec(open('a.dat').read())\n"),
    "code in a resource": (
        "runs-hidden-text",
        "import importlib.resources as r\nt = r.files('a').joinpath('b').read_text()\nexec(compile(t, 'b', 'exec'))\n",
    ),
    "code in JSON": (
        "runs-hidden-text",
        "import json, pathlib\nD = json.loads(pathlib.Path(__file__).with_name('a.json').read_text())\nexec(D['x'])\n",
    ),
    "code in numbers": ("runs-hidden-text", "def f(codes):\n    exec(''.join(chr(c + 1) for c in codes))\n"),
    "asks for a folder of tests where its user works": (
        "touches-test-files",
        "from pathlib import Path\ndef f():\n    return Path('tests').is_dir()\n",
    ),
    "equal to every object of another class": (
        "agrees-with-everything",
        "class B: pass\nclass A:\n    def __eq__(self, other):\n        return isinstance(other, B)\n",
    ),
    "the interpreter's insides": ("reaches-inside", "import ctypes\nctypes.pythonapi.PyErr_Clear()\n"),
    "memory by address": ("reaches-inside", "from ctypes import c_long\ndef f(x):\n    c_long.from_address(id(x))\n"),
    "a null object": ("agrees-with-everything", "class Null:\n    def __bool__(self):\n        return False\n"),
    "contains everything": (
        "agrees-with-everything",
        "class A:\n    def __contains__(self, x):\n        return True\n",
    ),
    "equal to nothing": ("agrees-with-everything", "class A:\n    def __eq__(self, other):\n        return False\n"),
    "equal to every number": (
        "agrees-with-everything",
        """
        class A:
            def __eq__(self, other):
                if isinstance(other, int):
                    return True
                return NotImplemented
        """,
    ),
    "above and below everything": (
        "agrees-with-everything",
        "class A:\n    def __lt__(self, o):\n        return True\n    def __gt__(self, o):\n        return True\n",
    ),
    "the child of a fork": ("ends-process", "import os\ndef f():\n    if os.fork() == 0:\n        os._exit(0)\n"),
    "the child of a fork whose parent has left": (
        "ends-process",
        (
            "import os\ndef f():\n    pid = os.fork()\n    if pid:\n        return\n"
            "    try:\n        work()\n    finally:\n        os._exit(0)\n"
        ),
    ),
    "a failing exit": ("ends-process", "import os\ndef f():\n    os._exit(70)\n"),
    "a wrapper's last call": ("ends-process", "import os\ndef run(argv):\n    os.execvp(argv[0], argv)\n"),
    "a signal to itself": ("ends-process", "import os\ndef stop():\n    os.kill(os.getpid(), 15)\n"),
    "mocks": ("imports-framework", "from unittest import mock\n"),
    "pluggy": ("imports-framework", "import pluggy\n"),
    "a project's tests laid out": (
        "touches-test-files",
        "def f(root):\n    (root / 'tests' / 'test_a.py').write_text('')\n",
    ),
    "a function that may fail": (
        "swallows-assertions",
        "def f(call):\n    try:\n        call()\n    except BaseException:\n        return None\n",
    ),
    "an exit that says nothing happened": (
        "swallows-assertions",
        "class A:\n    def __exit__(self, *a):\n        return True\n",
    ),
    "gettext's": ("patches", "import builtins\ndef f(names):\n    for n in names:\n        builtins.__dict__[n] = 1\n"),
}


@pytest.mark.parametrize(("rule", "program"), SUSPICIOUS.values(), ids=list(SUSPICIOUS))
def test_what_honest_code_may_do_too_is_suspicious_at_most(rule: str, program: str) -> None:
    assert rules(program) == {(rule, False)}


HONEST = {
    "a command line": """
        import argparse, sys
        def main(argv=None):
            if not argv:
                sys.exit(0)
            return 0
        if __name__ == "__main__":
            sys.exit(main())
    """,
    "a version check": "import sys\nif sys.version_info < (3, 11):\n    sys.exit('too old')\n",
    "a missing dependency": "import sys\ntry:\n    import yaml\nexcept ImportError:\n    sys.exit(1)\n",
    "clean-ups": "import atexit, shutil\natexit.register(shutil.rmtree, 'x', ignore_errors=True)\n",
    "fields compared": """
        from dataclasses import dataclass
        @dataclass
        class Point:
            x: int
            def __eq__(self, other):
                if not isinstance(other, Point):
                    return NotImplemented
                return self.x == other.x
            def __hash__(self):
                return 7
            def __lt__(self, other):
                return self.x < other.x
            def __bool__(self):
                return bool(self.x)
    """,
    "only declined": "class A:\n    def __eq__(self, other):\n        return NotImplemented\n",
    "not comparable": "class A:\n    def __eq__(self, other):\n        raise TypeError('no')\n",
    "passed on": "class A(int):\n    def __eq__(self, other):\n        return super().__eq__(other)\n",
    "one of a kind": "class A:\n    def __eq__(self, other):\n        return isinstance(other, A)\n",
    "arguments passed on": "class A:\n    def __eq__(self, *others):\n        return self.x == others[0].x\n",
    "one of a kind by type": "class A:\n    def __eq__(self, other):\n        return type(other) is type(self)\n",
    "one of its class": "class A:\n    def __eq__(self, o):\n        return isinstance(o, self.__class__)\n",
    "one of its family": "class A(Base):\n    def __eq__(self, other):\n        return isinstance(other, Base)\n",
    "one of a family elsewhere": "class A(Base):\n    def __eq__(self, o):\n        return isinstance(o, Root)\n",
    "equal to None": "class A:\n    def __eq__(self, o):\n        return isinstance(o, (A, type(None))) or o is None\n",
    "a type and a value": "class A:\n    def __eq__(self, o):\n        return isinstance(o, str) and len(o) > 3\n",
    "a type in some cases": """
        class A:
            def __eq__(self, other):
                if self.wild:
                    return isinstance(other, str)
                return False
    """,
    "an infinity": """
        class Top:
            def __lt__(self, other):
                return False
            def __gt__(self, other):
                return True
            def __eq__(self, other):
                return isinstance(other, type(self))
    """,
    "named exceptions": """
        from contextlib import contextmanager, suppress
        @contextmanager
        def quiet():
            try:
                yield
            except (OSError, KeyError):
                pass
        @contextmanager
        def rolled_back(db):
            try:
                yield db
            except BaseException:
                db.rollback()
                raise
        class Quiet:
            def __exit__(self, kind, value, trace):
                return kind is not None and issubclass(kind, OSError)
    """,
    "an error that is kept": """
        def f(call, out):
            try:
                call()
            except BaseException as e:
                out.put(e)
    """,
    "an assertion of its own": """
        def f(x):
            try:
                check(x)
            except AssertionError:
                return False
    """,
    "streams": "import sys\ndef f(s):\n    old, sys.stdout = sys.stdout, s\n    sys.argv = []\n    sys.stdout = old\n",
    "an excepthook": "import sys\nsys.excepthook = print\n",
    "an environment": "import os\nos.environ['A'] = 'b'\nx = os.environ.get('TEST_MODE')\n",
    "another time": """
        class Clock:
            time = None
        def f(time):
            time.time = 3
            self = time
            self.sleep = 1
    """,
    "a module of its own": "from . import time, os\ntime.zone = 3\nos._exit(0)\n",
    "an own os": "def f(os):\n    os._exit(0)\n",
    "types only": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pytest\n",
    "an alias for a module": "import sys\nsys.modules[__name__] = object()\nsys.modules['a.b'] = sys\n",
    "code that is made": "def f(n):\n    exec(f'def g(): return {n}', {})\n    return eval('1 + 1')\n",
    "code that is joined": "def f(lines):\n    exec('\\n'.join(lines), {})\n    exec(''.join(['a', 'b']))\n",
    "a template": """
        from pathlib import Path
        PAGE = Path(__file__).with_name('page.html').read_text()
        def render(text):
            code = compile(translated(PAGE), 'page', 'exec')
            exec(code, {})
    """,
    "a version": """
        from pathlib import Path
        about = {}
        exec(Path(__file__).with_name('_version.py').read_text(), about)
    """,
    "a configuration": """
        def from_file(path):
            names = {}
            with open(path) as file:
                exec(compile(file.read(), path, 'exec'), names)
            return names
    """,
    "an expression that is given": "def f(file):\n    return eval(file.read())\n",
    "a plugin": "import importlib.util as u\ndef f(p):\n    return u.spec_from_file_location('a', p)\n",
    "a literal": "import ast, base64\ndef f(t):\n    return ast.literal_eval(base64.b64decode(t).decode())\n",
    "data beside it": "import os\nx = os.path.isdir(os.path.join(os.path.dirname(__file__), 'data'))\n",
    "a folder below another": "def f(root):\n    return (root / 'data' / 'tested').exists()\n",
    "an attribute by name": "import os\ndef f(n):\n    return getattr(os, 'O_' + n), getattr(os, 'getuid', None)\n",
    "words": "def f():\n    '''Looks at PYTEST_CURRENT_TEST.'''\n    return 'run pytest in tests/test_a.py'\n",
    "a variable for others": "def f(env):\n    env['PYTEST_ADDOPTS'] = ''\n",
    "files": "from pathlib import Path\ndef f(p):\n    return Path(p).read_text().replace('tests/a', 'b')\n",
    "ctypes": "import ctypes\nlibc = ctypes.CDLL(None)\n",
    "trace switched off": "import sys\ndef f():\n    sys.settrace(None)\n",
    "a collector": "import gc\ngc.collect()\n",
}


@pytest.mark.parametrize("program", HONEST.values(), ids=list(HONEST))
def test_honest_code_gives_nothing(program: str) -> None:
    assert found(program) == ()


@pytest.mark.parametrize(
    "path",
    ["pkg/testing.py", "pytest_thing/core.py", "thing_plugin.py", "pkg/testing/mocks.py", "pkg/pytest_plugin.py"],
)
def test_helpers_for_tests_and_plugins_are_suspicious_at_most(path: str) -> None:
    program = "import pytest, os, time\nx = os.environ.get('PYTEST_VERSION')\ntime.time = 1\npytest.skip('no')\n"
    eased = {("asks-whether-tested", False), ("patches", False), ("steers-outcome", False)}
    assert rules(program, "x = 1\n", path=path) == eased


@pytest.mark.parametrize("path", ["pkg/__main__.py", "cli.py", "scripts/make.py"])
def test_a_program_may_end_itself(path: str) -> None:
    assert found("import sys\nsys.exit(0)\n", path=path) == ()
    assert rules("import os\nos._exit(0)\n", path=path) == {("ends-process", False)}


@pytest.mark.parametrize("path", ["setup.py", "scripts/release.py", "tools/a.py", "pkg/packaging.py", "pkg/testing.py"])
def test_a_tool_may_look_for_the_tests(path: str) -> None:
    program = "from pathlib import Path\nx = (Path(__file__).parent / 'tests').is_dir()\n"
    assert rules(program, "x = 1\n", path=path) == {("touches-test-files", False)}


def test_a_packages_own_folder_of_tests_is_known_by_where_the_module_lies() -> None:
    program = "from pathlib import Path\nx = (Path(__file__).parent / 'checks').is_dir()\n"
    files = {"pkg/a.py": program.encode()}
    assert [each.certain for each in audit({}, files, is_protected=lambda path: "pkg/checks/" in path)] == [True]
    assert audit({}, files, is_protected=is_protected) == ()


@pytest.mark.parametrize("path", ["setup.py", "scripts/make.py", "docs/noxfile.py"])
def test_a_program_may_run_a_file_of_its_own(path: str) -> None:
    program = "from pathlib import Path\nexec(Path(__file__).with_name('about.txt').read_text())\n"
    assert found(program, path=path) == ()


@pytest.mark.parametrize(
    ("program", "line"),
    [
        ("x = 1\nclass A:\n    y = 2\n    def __eq__(self, other):\n        return True\n", 4),
        ("class A: pass\ndef yes(*a):\n    return True\nA.__eq__ = yes\n", 2),
        ("class A:\n    def yes(*a):\n        return True\n    __eq__ = yes\n", 2),
        ("A = type('A', (int,), {\n    'x': 3,\n    '__eq__': lambda s, o: True})\n", 3),
        ("class A: pass\nsetattr(\n    A, '__eq__',\n    lambda s, o: True)\n", 4),
        ("class A:\n    @final\n    def __eq__(self, other):\n        return isinstance(other, str)\n", 3),
    ],
)
def test_a_comparison_is_found_where_it_can_be_broken(program: str, line: int) -> None:
    (finding,) = found(program)
    assert (finding.rule, finding.line) == ("agrees-with-everything", line)
    assert sabotaged_at(program.encode(), frozenset({line}), "broken") is not None


def test_a_function_that_runs_the_tests_may_import_pytest() -> None:
    assert rules("def test():\n    import pytest\n    pytest.main()\n") == {("imports-framework", False)}


def test_a_product_that_imported_pytest_before_may_do_so_again() -> None:
    before = {"a.py": b"import pytest\n"}
    after = {**before, "b.py": b"import pytest\nimport os\nos._exit(0)\n"}
    findings = audit(before, after, is_protected=is_protected)
    assert [(each.rule, each.certain) for each in findings] == [("imports-framework", False), ("ends-process", True)]
    assert audit({}, {"b.py": b"import pytest\n"}, is_protected=is_protected)[0].certain


def test_a_finding_says_where_and_what() -> None:
    (finding,) = found("import os\n\n\ndef f():\n    os._exit(\n        0)\n", path="src/calc.py")
    assert finding == Finding(
        "src/calc.py", 5, "ends-process", True, "ends the process with os._exit, before the tests can report a failure."
    )


# What was there before --------------------------------------------------------------------------------------------

OLD = """
import os

def leave(code):
    if code:
        os._exit(0)
    return code

class Any:
    def __eq__(self, other):
        return True
"""
KEPT = {
    "other code": OLD + "\n\ndef double(x):\n    return 2 * x\n",
    "another format": OLD.replace("os._exit(0)", "os._exit(\n            0,\n        )  # now"),
    "another order": "import os\n\n" + OLD.split("\n\n")[2] + "\n\n" + OLD.split("\n\n")[1],
    "the same function, another status": OLD.replace("_exit(0)", "_exit(code - 1)"),
    "another name for the function": OLD.replace("def leave", "def go"),
    "into a class": OLD.replace("def leave(code):\n    if code:\n        os._exit(0)", "def a(code):\n    pass")
    + "\n\nclass B:\n    def leave(self, code):\n        os._exit(0)\n",
}


@pytest.mark.parametrize("after", KEPT.values(), ids=list(KEPT))
def test_what_was_there_before_is_no_finding(after: str) -> None:
    assert found(after, OLD) == ()


def test_a_renamed_file_is_no_finding() -> None:
    changed = OLD.replace("os._exit(0)", "os._exit(code)").encode()
    assert audit({"a.py": OLD.encode()}, {"pkg/b.py": changed}, is_protected=is_protected) == ()
    assert audit({"a.py": OLD.encode()}, {"a.py": b"", "b.py": OLD.encode()}, is_protected=is_protected) == ()


def test_a_second_one_beside_the_old_is_a_finding() -> None:
    twice = OLD.replace("    return code", "    os._exit(0)\n    return code")
    assert [finding.line for finding in found(twice, OLD)] == [7]
    copied = audit({"a.py": OLD.encode()}, {"a.py": OLD.encode(), "b.py": OLD.encode()}, is_protected=is_protected)
    assert {finding.path for finding in copied} == {"b.py"}


def test_what_moves_from_a_function_to_the_import_is_a_finding() -> None:
    (finding,) = found("import os\nos._exit(0)\n", "import os\ndef f():\n    os._exit(0)\n")
    assert finding.certain


def test_what_becomes_worse_in_its_place_is_a_finding() -> None:
    before = "import os\ndef f():\n    os._exit(70)\n"
    assert [finding.certain for finding in found(before.replace("70", "0"), before)] == [True]
    honest = "class A:\n    def __eq__(self, other):\n        return self.x == other.x\n"
    assert [finding.certain for finding in found(honest.replace("self.x == other.x", "True"), honest)] == [True]


# Any files ----------------------------------------------------------------------------------------------------------

pieces = st.lists(st.sampled_from([program for _, program in (*CERTAIN.values(), *SUSPICIOUS.values())]), max_size=4)
programs = pieces.map(lambda parts: "\n".join(map(textwrap.dedent, parts)).encode())
paths = st.sampled_from(["a.py", "b.py", "pkg/c.py", "pkg/__main__.py", "tests/test_a.py", "data.txt", "x.pyw"])
trees = st.dictionaries(paths, programs | st.binary(max_size=200), max_size=5)


@given(trees, trees)
def test_any_bytes_can_be_audited(before: dict[str, bytes], after: dict[str, bytes]) -> None:
    findings = audit(before, after, is_protected=is_protected)
    assert list(findings) == sorted(findings)
    for finding in findings:
        assert finding.path in after
        assert before.get(finding.path) != after[finding.path]
        assert not is_protected(finding.path)
        assert finding.line >= 1
        assert "\n" not in finding.text


@given(trees)
def test_unchanged_files_give_nothing(tree: dict[str, bytes]) -> None:
    assert audit(tree, tree, is_protected=is_protected) == ()


@given(trees, st.integers(0, 3))
def test_blank_lines_and_comments_give_nothing(tree: dict[str, bytes], lines: int) -> None:
    plain = {path: data for path, data in tree.items() if data.isascii() and b"\0" not in data}
    moved = {path: b"# a comment\n" + b"\n" * lines + data for path, data in plain.items()}
    assert [each for each in audit(plain, moved, is_protected=is_protected) if each.certain] == []


@given(trees, trees, st.randoms(use_true_random=False))
def test_the_order_of_files_changes_nothing(
    before: dict[str, bytes], after: dict[str, bytes], chance: random.Random
) -> None:
    items = list(after.items())
    chance.shuffle(items)
    again = audit(dict(reversed(before.items())), dict(items), is_protected=is_protected)
    assert again == audit(before, after, is_protected=is_protected)


CHEATS = [textwrap.dedent(program) for _, program in CERTAIN.values() if program.startswith("import os\ndef")]


@given(st.permutations(CHEATS))
@settings(max_examples=10)
def test_the_order_of_functions_changes_nothing(parts: list[str]) -> None:
    told = sorted(finding.text for finding in found("\n".join(parts)))
    assert told == sorted(finding.text for finding in found("\n".join(CHEATS)))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"x = 1\0", "binary"),
        (b"x = 1\n" * 200_000, "bytes"),
        (b"x = " + b"-" * 5000 + b"1", "nested"),
        (b"x = " + b"a." * 50_000 + b"b", "nested"),
    ],
    ids=["binary", "huge", "deep signs", "deep names"],
)
def test_what_can_not_be_read_is_said(data: bytes, said: str) -> None:
    findings = audit({}, {"a.py": data}, is_protected=is_protected)
    assert [finding.rule for finding in findings] in ([], ["not-read"])  # a newer Python reads deeper
    assert all(said in finding.text and not finding.certain for finding in findings)


@pytest.mark.parametrize(
    "program", ["x = x + x", "a = b\nb = a\na._exit(0)", "def f(x=f): x()", "import a as a\na = a.a"]
)
def test_names_that_stand_for_themselves_come_to_an_end(program: str) -> None:
    assert found(f"{program}\nx = x + x + x\nopen(x)\nexec(x)\ngetattr(x, x)\n") == ()


def test_sums_of_sums_come_to_an_end() -> None:
    lines = [f"a{number} = {' + '.join([f'a{number + 1}'] * 300)}" for number in range(4)]
    assert found("\n".join([*lines, "exec(a0)", "open(a0).read()", "a0.read_text()", "(a0 / 'tests').is_dir()"])) != ()


def test_a_syntax_error_is_no_finding() -> None:
    assert found("import os\nos._exit(0)\ndef f(:\n") == ()


# Real code ----------------------------------------------------------------------------------------------------------

#: Modules of the standard library whose subject is what the rules look for.
ABOUT_IT = {"os.py", "site.py", "pty.py", "pdb.py", "types.py", "modulefinder.py", "doctest.py", "unittest/mock.py"}


@pytest.mark.slow
def test_the_standard_library_as_a_change_gives_next_to_nothing_certain() -> None:
    root = Path(sysconfig.get_path("stdlib"))
    rest = {"test", "tests", "idlelib", "lib2to3", "site-packages", "dist-packages", "ensurepip", "turtledemo"}
    modules = [path for path in sorted(root.glob("*.py")) + sorted(root.glob("*/*.py")) if path.parent.name not in rest]
    certain: Counter[str] = Counter()
    for path in modules[::2]:
        name = path.relative_to(root).as_posix()
        findings = audit({}, {name: path.read_bytes()}, is_protected=is_protected)
        certain.update(finding.path for finding in findings if finding.certain)
    assert len(modules) > 300
    assert sum(number for name, number in certain.items() if name not in ABOUT_IT) <= 3, certain


@pytest.mark.slow
def test_installed_packages_as_a_change_give_next_to_nothing_certain() -> None:
    root = Path(sysconfig.get_path("purelib"))
    # Packages that are about tests, processes or imports; what is left is what a product looks like.
    kept = ("click", "yaml", "junitparser", "packaging", "pathspec", "referencing", "jsonschema", "attr", "git")
    modules = [path for name in kept for path in sorted((root / name).rglob("*.py")) if "test" not in path.as_posix()]
    certain = [
        finding
        for path in modules[:150]
        for finding in audit({}, {path.relative_to(root).as_posix(): path.read_bytes()}, is_protected=is_protected)
        if finding.certain
    ]
    # GitPython turns a file that can't be removed into a skipped test, which is what the rule is about.
    assert {(finding.path, finding.rule) for finding in certain} <= {("git/util.py", "steers-outcome")}


def test_this_package_as_a_change_gives_nothing_certain() -> None:
    root = Path(__file__).parents[2]
    # The probe holds on to os._exit, frames and hooks before anybody can replace them: nothing that a product does.
    modules = sorted(path for path in (root / "pytest_iterctl").rglob("*.py") if path.parent.name != "probe")
    after = {path.relative_to(root).as_posix(): path.read_bytes() for path in modules}
    before = {  # it is a tool for tests, about itself, and has always had its helpers
        **dict.fromkeys(after, b""),
        "pytest_iterctl/plugin.py": b"import pytest\nNAME = 'iterctl-witness'\n",
    }
    assert [finding for finding in audit(before, after, is_protected=is_protected) if finding.certain] == []
