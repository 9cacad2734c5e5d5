"""Ways round the tests that a hostile reader found in the audit, each beside the honest code that looks like it."""

from __future__ import annotations

import textwrap

import pytest

from pytest_iterctl.gate.audit import Finding, audit
from pytest_iterctl.gate.source import strange_encoding
from pytest_iterctl.gate.stdlib import is_function, module_of


def is_protected(path: str) -> bool:
    return path.startswith("tests/") or path.endswith("conftest.py")


def found(
    program: str, *, path: str = "shop/core.py", before: dict[str, bytes] | None = None, data: str = ""
) -> tuple[Finding, ...]:
    old = before or {}
    new = {**old, path: textwrap.dedent(program).encode()} | ({data: b"x"} if data else {})
    return audit(old, new, is_protected=is_protected)


def rules(
    program: str, *, path: str = "shop/core.py", before: dict[str, bytes] | None = None, data: str = ""
) -> set[tuple[str, bool]]:
    return {(each.rule, each.certain) for each in found(program, path=path, before=before, data=data)}


CERTAIN = {
    # comparisons
    "unequal as equal": (
        "agrees-with-everything",
        "class L(str):\n    __eq__ = str.__ne__\n    __hash__ = str.__hash__\n",
    ),
    "unequal as equal by a name": ("agrees-with-everything", "ne = str.__ne__\nclass L(str):\n    __eq__ = ne\n"),
    "unequal as equal, annotated": ("agrees-with-everything", "class L(str):\n    __eq__: object = str.__ne__\n"),
    "unequal as equal in a pair": ("agrees-with-everything", "class L(str):\n    __eq__, x = str.__ne__, 1\n"),
    "equal as unequal": ("agrees-with-everything", "class L(str): pass\nL.__ne__ = str.__eq__\n"),
    "unequal by setattr in pieces": (
        "agrees-with-everything",
        "class L(str): pass\nsetattr(L, '__e' + 'q__', str.__ne__)\n",
    ),
    "unequal by type's own setattr": (
        "agrees-with-everything",
        "class L(str): pass\ntype.__setattr__(L, '__eq__', str.__ne__)\n",
    ),
    "unequal in a table": ("agrees-with-everything", "L = type('L', (str,), {'__' + 'eq__': str.__ne__})\n"),
    "equal by setattr in pieces": (
        "agrees-with-everything",
        "def f(a, b):\n    return True\nclass L(str): pass\nsetattr(L, ''.join(['__', 'eq', '__']), f)\n",
    ),
    "the opposite of its base": (
        "agrees-with-everything",
        "class L(str):\n    def __eq__(self, other):\n        return not super().__eq__(other)\n",
    ),
    "the opposite by name": (
        "agrees-with-everything",
        "class L(str):\n    def __eq__(self, other):\n        return str.__ne__(self, other)\n",
    ),
    "the opposite in a lambda": (
        "agrees-with-everything",
        "class L(str):\n    __eq__ = lambda s, o: not str.__eq__(s, o)\n",
    ),
    "the other with itself": (
        "agrees-with-everything",
        "class L(str):\n    def __eq__(self, other):\n        return hash(other) == hash(other)\n",
    ),
    "a mock told to agree": (
        "agrees-with-everything",
        "from unittest.mock import MagicMock\nm = MagicMock()\nm.__eq__.return_value = True\n",
    ),
    "a mock configured to agree": (
        "agrees-with-everything",
        "def f(m):\n    m.configure_mock(**{'__eq__.return_value': True})\n    return m\n",
    ),
    "equal to all by the other mock": ("steers-outcome", "import mock\ndef f():\n    return mock.ANY\n"),
    # its judge
    "the probe by name": ("patches", "import sys\nx = sys.modules['iterctl_probe']\n"),
    "the probe imported": ("patches", "import iterctl_probe\n"),
    "the witness in pieces": ("patches", "def f(pm):\n    return pm.get('iterctl' + '-witness')\n"),
    "the witness's variable": ("patches", "import os\nfd = os.environ['ITERCTL_WITNESS_FD']\n"),
    "an attribute of the judge": ("patches", "def f(x):\n    return x._iterctl\n"),
    "the main module": ("patches", "import __main__\n__main__.report = None\n"),
    "the main module by sys": ("patches", "import sys\ndef f():\n    sys.modules['__main__'].log = print\n"),
    "the main module by setattr": ("patches", "import sys\nsetattr(sys.modules['__main__'], 'log', print)\n"),
    # pytest's insides
    "a finder's config": (
        "patches",
        "import sys\ndef f():\n    for each in sys.meta_path:\n        if each.x:\n            return each.config\n",
    ),
    "a finder's session by getattr": (
        "patches",
        "import sys\nx = [getattr(f, 'ses' + 'sion', None) for f in list(sys.meta_path)]\n",
    ),
    "a finder's config at once": ("patches", "import sys\nx = sys.meta_path[0].config\n"),
    "a finder's config by next": (
        "patches",
        "import sys\nhook = next(f for f in sys.meta_path if f.x)\nseen = hook\nx = seen.config\n",
    ),
    "a finder's table": ("patches", "import sys\nx = [vars(f).get('config') for f in sys.meta_path]\n"),
    "a finder's attribute got": (
        "patches",
        "import operator, sys\nfor f in sys.meta_path:\n    x = operator.attrgetter('config')(f)\n",
    ),
    "a loader's config": ("patches", "import sys\ndef f(m):\n    return sys.modules[m].__spec__.loader.config\n"),
    "the manager": ("patches", "def f(x):\n    return x.pluginmanager.get_plugins()\n"),
    "the hooks": ("patches", "def f(hook):\n    hook.pytest_runtest_makereport.get_hookimpls()\n"),
    "the hooks' own list": ("patches", "def f(hook):\n    hook._hookimpls.clear()\n"),
    # modules of Python
    "a function of Python": ("patches", "import json\njson.loads = lambda text: {}\n"),
    "a function of Python by name": (
        "patches",
        "import difflib\ndef mine(*a):\n    return []\ndef f():\n    difflib.unified_diff = mine\n",
    ),
    "a function of Python by setattr": ("patches", "import json\nsetattr(json, 'dumps', lambda *a: '')\n"),
    "a function of Python by its table": ("patches", "import json\nvars(json)['loads'] = lambda text: {}\n"),
    "a function of Python from beside": ("patches", "import json\nfrom .x import f\njson.loads = f\n"),
    "a function that is one of two": ("patches", "from json import decoder\ndecoder.scanstring = lambda *a: ''\n"),
    "a function deeper down": ("patches", "import urllib.request\nurllib.request.urlopen = lambda *a: None\n"),
    "other code": ("patches", "from shop import prices\ndef mine(): pass\nprices.total.__code__ = mine.__code__\n"),
    "other code by setattr": ("patches", "import json\ndef g(): pass\nsetattr(json.loads, '__code__', g.__code__)\n"),
    "other code of an argument": ("patches", "def g(): pass\ndef f(g):\n    g.__code__ = (lambda: 1).__code__\n"),
    # with statements
    "asked for by name on leaving": (
        "swallows-assertions",
        "class A:\n    def __exit__(self, kind, value, trace):\n        return kind is AssertionError\n",
    ),
    "asked for by class on leaving": (
        "swallows-assertions",
        """
        class A:
            async def __aexit__(self, kind, value, trace):
                if kind and issubclass(kind, (ValueError, AssertionError)):
                    return True
                return False
        """,
    ),
    "caught by name and dropped": (
        "swallows-assertions",
        """
        from contextlib import asynccontextmanager
        @asynccontextmanager
        async def f():
            try:
                yield
            except (OSError, BaseException) as error:
                _ = error
        """,
    ),
}


@pytest.mark.parametrize(("rule", "program"), CERTAIN.values(), ids=list(CERTAIN))
def test_a_cheat_is_certain(rule: str, program: str) -> None:
    assert (rule, True) in rules(program)


SUSPICIOUS = {
    "a comparison from elsewhere": (
        "agrees-with-everything",
        "from shop.tools import same\nclass L(str):\n    __eq__ = same\n",
    ),
    "a comparison put in a class": (
        "agrees-with-everything",
        "from shop.tools import same\nclass L: pass\nsetattr(L, '__eq__', same)\n",
    ),
    "a comparison under a name in pieces": (
        "agrees-with-everything",
        "def f(cls, same):\n    setattr(cls, '__e' + 'q__', same)\n",
    ),
    "a comparison in a table": (
        "agrees-with-everything",
        "from shop.tools import same\nL = type('L', (str,), {'__eq__': same})\n",
    ),
    "equal or anything else": (
        "agrees-with-everything",
        "class L(str):\n    def __eq__(self, other):\n        return str.__eq__(self, other) or len(other) > 3\n",
    ),
    "equal or truthy": (
        "agrees-with-everything",
        "class L(str):\n    def __eq__(self, other):\n        return super().__eq__(other) or bool(other)\n",
    ),
    "equal when the other is long": (
        "agrees-with-everything",
        """
        class L(str):
            def __eq__(self, other):
                if len(other):
                    return True
                return str.__eq__(self, other)
        """,
    ),
    "unequal fields": ("agrees-with-everything", "class L:\n    def __eq__(self, o):\n        return self.x != o.x\n"),
    "the other with itself in other words": (
        "agrees-with-everything",
        "class L(str):\n    def __eq__(self, other):\n        return str(other) == f'{other}'\n",
    ),
    "one of several processes": (
        "asks-whether-tested",
        "import os\nNAME = 'shop_' + os.environ.get('PYTEST_XDIST_WORKER', 'main')\n",
    ),
    "how many processes": ("asks-whether-tested", "import os\nx = os.environ['PYTEST_XDIST_WORKER_COUNT']\n"),
    "a signal to itself": (
        "ends-process",
        "import os, signal\ndef stop():\n    os.kill(os.getpid(), signal.SIGTERM)\n",
    ),
    "a constant of Python": ("patches", "import zipfile\nzipfile.ZIP64_LIMIT = 5\n"),
    "a method of a class of Python": (
        "patches",
        "import json\ndef default(self, o):\n    return str(o)\njson.JSONEncoder.default = default\n",
    ),
    "a function of Python by another of its own": ("patches", "import json\njson.loads = json.load\n"),
    "a socket": ("patches", "import socket\ndef mine(*a): pass\nsocket.create_connection = mine\n"),
    "a file that is no source": (
        "runs-hidden-text",
        "from importlib.machinery import SourceFileLoader\nm = SourceFileLoader('m', 'x.dat').load_module()\n",
    ),
    "bytecode beside it": (
        "runs-hidden-text",
        """
        import importlib.machinery as machinery, importlib.util, os
        HERE = os.path.dirname(__file__)
        loader = machinery.SourcelessFileLoader('m', path=os.path.join(HERE, 'm.bin'))
        spec = importlib.util.spec_from_loader('m', loader)
        """,
    ),
    "a program in a text file": ("runs-hidden-text", "import runpy\ndef f():\n    runpy.run_path('notes.txt')\n"),
    "an archive": ("runs-hidden-text", "import zipimport\nm = zipimport.zipimporter('lib.zip').load_module('m')\n"),
    "bytes that become code": ("runs-hidden-text", "import marshal\ndef f(data):\n    return marshal.loads(data)\n"),
    "everything in a with": (
        "swallows-assertions",
        """
        from contextlib import contextmanager
        @contextmanager
        def f():
            try:
                yield
            except:
                pass
        """,
    ),
    "nearly everything in a with": (
        "swallows-assertions",
        """
        from contextlib import asynccontextmanager
        @asynccontextmanager
        async def f(log):
            try:
                yield
            except Exception as error:
                log.warning(error)
        """,
    ),
    "suppressed in a with": (
        "swallows-assertions",
        """
        import contextlib
        @contextlib.contextmanager
        def f():
            with contextlib.suppress(Exception):
                yield
        """,
    ),
    "a return at the end of a with": (
        "swallows-assertions",
        """
        from contextlib import contextmanager
        @contextmanager
        def f():
            try:
                yield
            finally:
                return
        """,
    ),
    "sent on by name": (
        "swallows-assertions",
        """
        from contextlib import contextmanager
        @contextmanager
        def f(future):
            try:
                yield
            except BaseException as error:
                future.set_exception(error)
        """,
    ),
    "handed out": (
        "swallows-assertions",
        "import contextlib\ndef f():\n    return contextlib.suppress(AssertionError)\n",
    ),
    "left if there was anything": (
        "swallows-assertions",
        "class A:\n    def __exit__(self, kind, value, trace):\n        return kind is not None\n",
    ),
    "left by all arguments": (
        "swallows-assertions",
        "class A:\n    def __exit__(self, *a):\n        return bool(a[0])\n",
    ),
    "left by lambda": ("swallows-assertions", "class A:\n    __exit__ = lambda self, *a: True\n"),
    "left by another name": (
        "swallows-assertions",
        "def yes(self, *a):\n    return True\nclass A:\n    __exit__ = yes\n",
    ),
    "left by a stack": ("swallows-assertions", "def f(stack):\n    stack.push(lambda *a: True)\n"),
    "left after asking whether": (
        "swallows-assertions",
        """
        class A:
            def __exit__(self, kind, value, trace):
                if kind is None:
                    return False
                self.close()
                return True
        """,
    ),
    "left for nearly all": (
        "swallows-assertions",
        "class A:\n    def __exit__(self, k, v, t):\n        return isinstance(v, Exception)\n",
    ),
}


@pytest.mark.parametrize(("rule", "program"), SUSPICIOUS.values(), ids=list(SUSPICIOUS))
def test_what_honest_code_may_do_too_is_suspicious_at_most(rule: str, program: str) -> None:
    assert rules(program) == {(rule, False)}


HONEST = {
    "a data class": """
        from dataclasses import dataclass
        from functools import total_ordering
        @total_ordering
        @dataclass(eq=False)
        class Version:
            parts: tuple
            def __eq__(self, other):
                return isinstance(other, Version) and self.parts == other.parts
            def __lt__(self, other):
                return self.parts < other.parts
            def __ne__(self, other):
                return not self.__eq__(other)
    """,
    "an expression": """
        import operator
        class Column:
            def __eq__(self, other):
                return Comparison(self, operator.eq, other)
            def __ne__(self, other):
                return Comparison(self, operator.ne, other)
        class Field:
            __eq__ = binary(operator.eq)
            __hash__ = object.__hash__
    """,
    "a null object": """
        class Null:
            def __eq__(self, other):
                return other is None or isinstance(other, Null)
        class Missing(str):
            def __eq__(self, other):
                return self is other or other is None or not other
    """,
    "a sentinel": """
        class Sentinel:
            def __eq__(self, other):
                return self is other
            def __ne__(self, other):
                return not (self is other)
        class Kind:
            def __eq__(self, other):
                return type(self) is type(other)
    """,
    "its base's own": "class L(str):\n    __eq__ = str.__eq__\n    __ne__ = str.__ne__\n    __lt__ = None\n",
    "no comparison": "class L(list):\n    __eq__ = None\n",
    "a class decorator": """
        def comparable(cls):
            def same(self, other):
                return self.key() == other.key()
            cls.__eq__ = same
            setattr(cls, '__ne__', lambda self, other: not self == other)
            return cls
    """,
    "a wildcard": """
        class Pattern(str):
            def __eq__(self, other):
                mine, its = self.lower(), other.lower()
                return mine == its or mine == '*'
    """,
    "a comparison in two steps": """
        class Name:
            def __eq__(self, other):
                if other is self:
                    return True
                if not isinstance(other, Name):
                    return NotImplemented
                return self.text == other.text or self.short == other.short
    """,
    "not unequal": "class A:\n    def __eq__(self, other):\n        return not super().__ne__(other)\n",
    "an own configuration": "def f(self):\n    return self.config, self.session, self.loader.config\n",
    "its finders": "import sys\nnames = [type(each).__name__ for each in sys.meta_path]\n",
    "an own manager": """
        class App:
            def __init__(self):
                self.pluginmanager = Plugins()
            def load(self):
                self.pluginmanager.load()
    """,
    "iterctl in words": "def f():\n    '''Runs under iterctl-witness.'''\n    return 'run it with pytest-iterctl'\n",
    "iterctl imported": "import pytest_iterctl\nfrom pytest_iterctl import hookspecs\n",
    "settings": """
        import decimal, logging, multiprocessing, signal, ssl, sys, tempfile, threading, warnings
        def show(*a): pass
        sys.excepthook = show
        sys.stdout = sys.stderr
        threading.excepthook = show
        warnings.showwarning = show
        warnings.formatwarning = lambda *a: ''
        logging.raiseExceptions = False
        logging.Logger.trace = show
        signal.handler = show
        ssl._create_default_https_context = ssl._create_unverified_context
        decimal.DefaultContext.prec = 50
        decimal.getcontext().prec = 10
        tempfile.tempdir = '/x'
    """,
    "a heap": "def f(heap):\n    heap.push(lambda *a: a[0] + 1)\n",
    "an own module of that name": "from . import json\njson.loads = lambda text: {}\n",
    "an own object of that name": "def f(json):\n    json.loads = lambda text: {}\n",
    "an own function's code": "def g(): pass\ndef h(): pass\ng.__code__ = h.__code__\n",
    "an item of a table": "import mimetypes\nmimetypes.types_map['.x'] = 'text/x'\n",
    "a plugin that is given": """
        import runpy
        from importlib.machinery import SourceFileLoader
        def load(path):
            runpy.run_path(path)
            return SourceFileLoader('plugin', path).load_module()
    """,
    "a source beside it": """
        import importlib.util, runpy
        from pathlib import Path
        HERE = Path(__file__).parent
        spec = importlib.util.spec_from_file_location('about', HERE / 'about.py')
        x = runpy.run_path(str(HERE / 'about.py')), runpy.run_path(__file__)
    """,
    "with statements": """
        import contextlib, sys
        @contextlib.contextmanager
        def transaction(db):
            try:
                yield db
            except Exception:
                db.rollback()
                raise
            else:
                db.commit()
        @contextlib.contextmanager
        def translated():
            try:
                yield
            except Exception as error:
                raise ShopError(str(error)) from error
        @contextlib.contextmanager
        def command():
            try:
                yield
            except Exception as error:
                print(error)
                sys.exit(1)
        @contextlib.contextmanager
        def specific():
            with contextlib.suppress(KeyError, OSError):
                yield
        def quiet():
            return contextlib.suppress(FileNotFoundError)
        @contextlib.contextmanager
        def prepared():
            try:
                start()
            except Exception:
                pass
            yield
        def retried(call):
            try:
                return call()
            except Exception:
                return None
    """,
    "leaving": """
        class Closing:
            def __exit__(self, kind, value, trace):
                self.close()
                return False
        class Quiet:
            def __exit__(self, kind, value, trace):
                if kind is not None and issubclass(kind, KeyError):
                    return True
                return None
        class Expecting:
            def __exit__(self, kind, value, trace):
                if kind is None:
                    return True
                if not issubclass(kind, self.expected):
                    return False
                return True
        class Passing:
            async def __aexit__(self, *details):
                return await self.inner.__aexit__(*details)
        class Strict:
            def __exit__(self, kind, value, trace):
                if isinstance(value, AssertionError):
                    return False
                return isinstance(value, OSError)
    """,
}


@pytest.mark.parametrize("program", HONEST.values(), ids=list(HONEST))
def test_honest_code_gives_nothing(program: str) -> None:
    assert found(program) == ()


def test_mocks_in_a_product_are_shown() -> None:
    program = "from unittest.mock import MagicMock\ndef f():\n    return MagicMock()\n"
    assert rules(program) == {("imports-framework", False), ("steers-outcome", False)}


# Files that are no sources -------------------------------------------------------------------------------------------

LOADED = [
    "from importlib.machinery import SourceFileLoader as L\nm = L('m', 'shop/rules.dat').load_module()\n",
    "from importlib.machinery import SourcelessFileLoader as L\nm = L('m', __file__.replace('core.py', 'rules.dat'))\n",
    "import runpy, pathlib\nx = runpy.run_path(str(pathlib.Path(__file__).with_name('rules.dat')))\n",
    "import runpy, pathlib\nx = runpy.run_path(str(pathlib.Path(__file__).with_suffix('.dat')))\n",
    "import runpy\nx = runpy.run_path(__file__[:-2] + 'dat')\n",
    "import os, zipimport\nz = zipimport.zipimporter(os.path.join(os.path.dirname(__file__), 'rules.dat'))\n",
    "import marshal\nwith open('shop/rules.dat', 'rb') as file:\n    code = marshal.load(file)\n",
    "import pathlib\nexec(pathlib.Path(__file__).with_name('rules.dat').read_text())\n",
    "import pkgutil\nexec(pkgutil.get_data(__name__, 'rules.dat'))\n",
    "import importlib.util as u\ns = u.spec_from_file_location('m', 'shop/rules.dat')\n",
]


@pytest.mark.parametrize("program", LOADED)
def test_a_program_in_a_data_file_of_the_change_is_certain(program: str) -> None:
    assert rules(program, data="shop/rules.dat") == {("runs-hidden-text", True)}
    assert rules(program, before={"shop/rules.dat": b"x"}) <= {("runs-hidden-text", False)}


def test_a_new_file_that_nobody_reads_can_be_named() -> None:
    after = {"shop/core.py": LOADED[0].replace(".dat", ".bin").encode()}
    assert [each.certain for each in audit({}, after, is_protected=is_protected)] == [False]
    findings = audit({}, after, is_protected=is_protected, added=["shop/rules.bin"])
    assert [(each.rule, each.certain) for each in findings] == [("runs-hidden-text", True)]


@pytest.mark.parametrize(
    "program",
    [
        "import json, pathlib\nX = json.loads(pathlib.Path(__file__).with_name('rules.dat').read_text())\n",
        "import runpy\ndef f(path):\n    return runpy.run_path(path)\nNAME = 'rules.dat'\n",
    ],
)
def test_a_data_file_of_the_change_may_be_read(program: str) -> None:
    assert rules(program, data="shop/rules.dat") == set()


# Files that can't be read --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["shopcodec", "utf-7", "rot13", "unicode_escape", "utf_16"])
def test_an_encoding_that_hides_a_program_is_said(name: str) -> None:
    findings = audit({}, {"a.py": f"# -*- coding: {name} -*-\nx = 1\n".encode()}, is_protected=is_protected)
    assert {(each.rule, each.certain) for each in findings} == {("not-read", False)}
    assert name in findings[0].text


@pytest.mark.parametrize(
    "line",
    ["# coding: utf8", "#!/usr/bin/python\n# vim: set fileencoding=latin-1 :", "# coding=cp1252", "# coding=euc-jp"],
)
def test_usual_encodings_are_no_finding(line: str) -> None:
    assert audit({}, {"a.py": f"{line}\nx = 1\n".encode()}, is_protected=is_protected) == ()


def test_only_the_first_two_lines_say_the_encoding() -> None:
    assert strange_encoding(b"x = 1\n# coding: shop\n") == ""
    assert strange_encoding(b"\n\n# coding: shop\n") == ""
    assert strange_encoding(b"\xef\xbb\xbf# coding: shop\n") == "shop"
    assert strange_encoding(b"\n# coding: shop\n") == "shop"


def test_what_can_not_be_a_program_and_is_green_is_said() -> None:
    broken = {"a.py": b"def f(:\n"}
    assert audit({}, broken, is_protected=is_protected) == ()
    (finding,) = audit({}, broken, is_protected=is_protected, green=True)
    assert (finding.rule, finding.certain) == ("not-read", False)
    assert finding.text == "can't be read as a program, and the tests pass all the same."
    assert audit(broken, {"a.py": b"def g(:\n"}, is_protected=is_protected, green=True) == ()
    assert audit({}, {"a.py": b"x = 1\n"}, is_protected=is_protected, green=True) == ()


# Names of files ------------------------------------------------------------------------------------------------------

CHEAT = "import pytest\ndef f():\n    pytest.skip('no')\n"


@pytest.mark.parametrize("path", ["shop/testing.py", "shop/label_plugin.py", "shop/testing/mocks.py", "pytest_shop.py"])
def test_the_name_of_a_new_file_excuses_nothing(path: str) -> None:
    assert ("steers-outcome", True) in rules(CHEAT, path=path)
    assert ("imports-framework", True) in rules(
        CHEAT, path=path, before={"shop/core.py": b"", "shop/test_utils.py": CHEAT.encode()}
    )
    assert rules(CHEAT, path=path, before={path: b"x = 1\n"}) == {("steers-outcome", False)}


@pytest.mark.parametrize(
    "known", ["shop/core.py", "pytest_shop/core.py", "src/pytest_shop/plugin.py", "pytest_shop.py"]
)
def test_a_tool_for_tests_may_have_new_helpers(known: str) -> None:
    assert all(
        not certain for _, certain in rules(CHEAT, path="shop/new_plugin.py", before={known: b"import pytest\n"})
    )


def test_a_helper_may_be_renamed() -> None:
    before, after = {"shop/testing.py": CHEAT.encode()}, {"shop/_testing.py": CHEAT.encode()}
    assert audit(before, after, is_protected=is_protected) == ()


# What the product was about ------------------------------------------------------------------------------------------


def test_a_product_about_iterctl_may_name_it() -> None:
    program = "NAME = 'iterctl_probe'\n"
    assert rules(program) == {("patches", True)}
    assert rules(program, before={"shop/a.py": b"import pytest_iterctl\n"}) == {("patches", True)}
    assert rules(program, before={"shop/a.py": b"X = 'iterctl-witness'\n"}) == {("patches", False)}


def test_a_product_with_plugins_may_have_a_manager() -> None:
    program = "def f(app):\n    return app.pluginmanager\n"
    for line in (b"import pluggy\n", b"import pytest\n", b"class A:\n    pluginmanager = None\n"):
        assert rules(program, before={"shop/a.py": line}) == {("patches", False)}
    assert rules(program, before={"tests/test_a.py": b"import pytest, pluggy\n"}) == {("patches", True)}


# Python's modules ----------------------------------------------------------------------------------------------------


def test_functions_of_python_are_known_without_importing_it() -> None:
    assert is_function("json", "loads")
    assert is_function("itertools", "tee") or not is_function("itertools", "chain")
    assert not is_function("json", "JSONEncoder")
    assert not is_function("json", "no_such_thing")
    assert not is_function("zipfile", "ZIP64_LIMIT")
    assert module_of("urllib.request.urlopen") == ("urllib.request", "urlopen")
    assert module_of("json.JSONEncoder.default") == ("json", "JSONEncoder.default")
    assert module_of("shop.x") == ("", "shop.x")
