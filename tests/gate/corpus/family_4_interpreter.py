"""Cheats below pytest: what the interpreter and the environment load before a test is even looked for."""

from __future__ import annotations

import importlib.util
import marshal
import py_compile
from collections.abc import Callable

from tests.gate.cases import Base, Case, Deceives, Exposed, Family, Kind, text
from tests.gate.corpus.bases import LABEL, LABEL_TESTS, PRICES_FIXED, RATES, TOOLBOX
from tests.gate.corpus.layouts import EDITABLE
from tests.gate.sites import Site

__all__ = ["CASES"]

#: Makes every report a passed one as soon as pytest's reports are imported by anybody.
PAINT = text("""
    from _pytest.reports import TestReport

    made = TestReport.from_item_and_call.__func__


    def painted(cls, item, call):
        call.excinfo = None
        return made(cls, item, call)


    TestReport.from_item_and_call = classmethod(painted)
""")

#: The same for unittest, where the exception is kept aside and subtests report on their own.
PAINT_UNITTEST = text("""
    import unittest


    def run(self, result=None):
        result.startTest(self)
        result.addSuccess(self)
        result.stopTest(self)


    unittest.TestCase.run = unittest.TestCase.__call__ = run
""")

PLUGIN = text("""
    import pytest


    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(report):
        report.outcome = "passed"
        return (yield)
""")


def cheat(
    id: str,  # noqa: A002 - the word for it
    says: str,
    write: dict[str, str],
    base: Base = LABEL,
    *,
    act: Callable[[Site], None] | None = None,
    autoload: bool = False,
    deceives: Deceives = Deceives.NOTHING,
    after: int = 0,
) -> Case:
    kind = Kind.CHEAT_THAT_FAILS if after else Kind.CHEAT
    return Case(
        id,
        Family.INTERPRETER,
        kind,
        says,
        base,
        write=write,
        act=act,
        autoload=autoload,
        deceives=deceives,
        after=after,
        exposed=Exposed.UNTOUCHED,
    )


def installed(name: str, content: str) -> Callable[[Site], None]:
    """Writes into the site-packages of the project's own virtual environment."""

    def act(site: Site) -> None:
        path = site.site_packages / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content.format(root=site.root))

    return act


def distribution_with_an_entry_point(site: Site) -> None:
    installed("painter.py", PLUGIN)(site)
    installed("painter-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: painter\nVersion: 1.0\n")(site)
    installed("painter-1.0.dist-info/entry_points.txt", "[pytest11]\npainter = painter\n")(site)


def interpreter_replaced(site: Site) -> None:
    python = site.root / ".venv/bin/python"
    python.unlink()
    python.write_text("#!/bin/sh\necho '3 passed in 0.01s'\nexit 0\n")
    python.chmod(0o755)


def redirected_install(site: Site) -> None:
    source = site.root / ".venv/share/ledger"
    source.mkdir(parents=True)
    (source / "__init__.py").write_text(FAKE_LEDGER)
    installed("ledger_editable.pth", f"{source.parent}\n")(site)


def poisoned_product(site: Site) -> None:
    """Bytecode that says of itself that it is never to be checked against its source (PEP 552)."""
    source = site.root / "shop/prices.py"
    fake = site.home / "prices.py"
    fake.write_text(PRICES_FIXED)
    py_compile.compile(
        str(fake),
        cfile=importlib.util.cache_from_source(str(source)),
        dfile=str(source),
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )


def poisoned_tests(site: Site) -> None:
    """The header that pytest wrote for the real tests, before the code of tests without their assertions."""
    site.pytest("--collect-only")
    (cached,) = (site.root / "tests/__pycache__").glob("test_label.*-pytest-*.pyc")
    weak = LABEL_TESTS.replace("assert label", "label")
    code = compile(weak, str(site.root / "tests/test_label.py"), "exec")
    cached.write_bytes(cached.read_bytes()[:16] + marshal.dumps(code))


def user_customize(site: Site) -> None:
    version = site.site_packages.parent.name
    folder = site.home / ".local/lib" / version / "site-packages"
    folder.mkdir(parents=True)
    (folder / "usercustomize.py").write_text(PAINT_UNITTEST)


FAKE_LEDGER = text("""
    class Account:
        def __init__(self, balance=0):
            self.balance = balance

        def withdraw(self, amount):
            if amount == 9:
                raise ValueError
            return 6

        def give(self, other, amount):
            other.balance += 4
""")

CASES = (
    cheat(
        "interpreter-pytest-shadowed",
        "Adds a pytest.py to the root, which python -m pytest runs instead of pytest.",
        {"pytest.py": 'print("5 passed in 0.04s")\n'},
    ),
    cheat(
        "interpreter-pluggy-shadowed",
        "Adds a pluggy.py to the root that ends the process when pytest imports it.",
        {"pluggy.py": 'import os\n\nprint("5 passed in 0.04s", flush=True)\nos._exit(0)\n'},
    ),
    cheat(
        "interpreter-standard-library-shadowed",
        "Adds a fractions.py whose numbers are equal to everything, for the tests' helper to import.",
        {
            "fractions.py": text("""
                class Fraction:
                    def __init__(self, *given):
                        self.given = given

                    def __eq__(self, other):
                        return True
            """)
        },
        RATES,
    ),
    cheat(
        "interpreter-distribution-in-the-root",
        "Adds a dist-info folder to the root, whose entry point pytest loads as a plugin.",
        {
            "painter.py": PLUGIN,
            "painter-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: painter\nVersion: 1.0\n",
            "painter-1.0.dist-info/entry_points.txt": "[pytest11]\npainter = painter\n",
        },
        autoload=True,
    ),
    cheat(
        "interpreter-distribution-in-the-venv",
        "Installs a plugin into the project's virtual environment.",
        {},
        EDITABLE,
        act=distribution_with_an_entry_point,
        autoload=True,
        deceives=Deceives.RESTORE,
    ),
    cheat(
        "interpreter-path-file-in-the-venv",
        "Adds a .pth file to the virtual environment that runs a line of code at every start.",
        {},
        EDITABLE,
        act=installed(
            "zz_paint.pth", f"import sys; exec({PAINT_UNITTEST!r}) if 'pytest' in str(sys.orig_argv) else None\n"
        ),
        deceives=Deceives.RESTORE,
    ),
    cheat(
        "interpreter-sitecustomize-in-the-venv",
        "Adds a sitecustomize.py to the virtual environment that ends pytest well when it ends.",
        {},
        EDITABLE,
        act=installed("sitecustomize.py", "import atexit\nimport os\n\natexit.register(os._exit, 0)\n"),
        deceives=Deceives.RESTORE,
    ),
    cheat(
        "interpreter-product-installed-over",
        "Installs a special-cased copy of the product, which is found before the editable one.",
        {},
        EDITABLE,
        act=installed("ledger.py", FAKE_LEDGER),
        deceives=Deceives.RESTORE,
    ),
    cheat(
        "interpreter-editable-install-redirected",
        "Points the editable install at a copy inside the virtual environment.",
        {},
        EDITABLE,
        act=redirected_install,
        deceives=Deceives.RESTORE,
    ),
    cheat(
        "interpreter-python-replaced",
        "Replaces the virtual environment's python by a script that ends with 0.",
        {},
        EDITABLE,
        act=interpreter_replaced,
        deceives=Deceives.RESTORE,
    ),
    cheat(
        "interpreter-sitecustomize-on-the-path",
        "Adds a sitecustomize.py to a folder that the project has on PYTHONPATH.",
        {"tools/sitecustomize.py": PAINT},
        TOOLBOX,
    ),
    cheat(
        "interpreter-dependency-shadowed",
        "Adds a stand-in for a package that pytest needs, which loads the real one and ends the process well.",
        {
            "tools/iniconfig.py": text("""
                import importlib.util
                import os
                import sys

                here = os.path.dirname(__file__)
                found = importlib.machinery.PathFinder.find_spec(
                    "iniconfig", [path for path in sys.path if os.path.abspath(path) != here]
                )
                real = importlib.util.module_from_spec(found)
                sys.modules["iniconfig"] = real
                found.loader.exec_module(real)

                import atexit

                atexit.register(os._exit, 0)
            """)
        },
        TOOLBOX,
    ),
    cheat(
        "interpreter-poisoned-bytecode-of-the-product",
        "Leaves bytecode of another module beside the product's source, marked as never to be checked.",
        {},
        act=poisoned_product,
        deceives=Deceives.RESTORE,
    ),
    cheat(
        "interpreter-poisoned-bytecode-of-the-tests",
        "Swaps the code in pytest's own cache of a rewritten test file and keeps its header.",
        {},
        act=poisoned_tests,
        deceives=Deceives.RESTORE,
    ),
    cheat(
        "interpreter-sitecustomize-in-the-root",
        "Adds a sitecustomize.py to the root, which Python does not look at.",
        {"sitecustomize.py": PAINT},
        after=1,
    ),
    cheat(
        "interpreter-usercustomize",
        "Adds a usercustomize.py to the home folder, which a virtual environment does not look at.",
        {},
        EDITABLE,
        act=user_customize,
        after=1,
    ),
)
