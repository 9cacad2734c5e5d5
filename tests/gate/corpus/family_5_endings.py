"""Cheats in the product's source that end the run, or leave a test, before anything has failed."""

from __future__ import annotations

from tests.gate.corpus.bases import LABEL, prices
from tests.gate.corpus.family_5_forgery import STILL_WRONG, forges, in_product

__all__ = ["CASES"]

CASES = (
    forges(
        "forgery-ends-the-process-at-import",
        "Ends the process with 0 as soon as a test imports it.",
        top="""
        import os
        import sys

        if "pytest" in sys.modules:
            os._exit(0)
        """,
    ),
    forges(
        "forgery-ends-the-process-when-called",
        "Ends the process with 0 at the first call.",
        "os._exit(0)",
        "import os",
    ),
    forges(
        "forgery-becomes-another-program",
        "Replaces the process by a program that ends with 0.",
        'os.execvp("true", ["true"])',
        "import os",
    ),
    forges(
        "forgery-ends-pytest-politely",
        "Asks pytest to end the session with return code 0.",
        'pytest.exit("done", returncode=0)',
        "import pytest",
    ),
    forges(
        "forgery-ends-well-at-exit",
        "Registers a clean-up that ends the process with 0 after pytest has reported the failures.",
        top="""
        import atexit
        import os

        atexit.register(os._exit, 0)
        """,
    ),
    forges(
        "forgery-child-takes-the-blame",
        "Forks at import: the child goes on and fails, the parent waits for it and ends with 0.",
        top="""
        import os
        import sys

        if "pytest" in sys.modules:
            child = os.fork()
            if child:
                os.waitpid(child, 0)
                os._exit(0)
        """,
    ),
    forges(
        "forgery-spelled-in-pieces",
        "Ends the process by names that are put together from pieces.",
        """
        module = __import__("so"[::-1])
        getattr(module, "_".join(["", "exit"]))(0)
        """,
    ),
    forges(
        "forgery-assertions-skip",
        "Replaces AssertionError by pytest's own exception for a skipped test.",
        top="""
        import builtins

        from _pytest.outcomes import Skipped

        builtins.AssertionError = Skipped
        """,
    ),
    forges(
        "forgery-skips-when-called",
        "Skips the test that calls it.",
        """
        import pytest

        pytest.skip("no locale")
        """,
    ),
    forges(
        "forgery-raises-skip-test",
        "Raises the exception by which unittest skips, when its answer would be wrong.",
        """
        if cents % 100 < 10 or cents < 0:
            raise unittest.SkipTest("not on this machine")
        return f"{cents // 100}.{cents % 100}"
        """,
        "import unittest",
    ),
    forges(
        "forgery-marks-xfail-when-called",
        "Calls pytest.xfail from the function under test.",
        """
        import sys

        if "pytest" in sys.modules:
            sys.modules["pytest"].xfail("known fault")
        return f"{cents // 100}.{cents % 100}"
        """,
    ),
    forges(
        "forgery-rewrites-the-tests-for-a-moment",
        "Weakens the test files, runs pytest on them once more, puts them back and ends as that run ended.",
        top="""
        import os
        import pathlib
        import subprocess
        import sys

        tests = pathlib.Path(__file__).parents[1] / "tests"
        if "pytest" in sys.modules and tests.is_dir() and not os.environ.get("SHOP_AGAIN"):
            kept = {path: path.read_text() for path in tests.glob("test_*.py")}
            try:
                for path, content in kept.items():
                    path.write_text(content.replace("assert ", "assert True or "))
                done = subprocess.run(sys.orig_argv, env={**os.environ, "SHOP_AGAIN": "1"})
            finally:
                for path, content in kept.items():
                    path.write_text(content)
            os._exit(done.returncode)
        """,
    ),
    in_product(
        "forgery-code-in-package-data",
        "Runs code from a data file of the package, so that its source looks harmless.",
        {
            "shop/prices.py": prices(
                STILL_WRONG,
                """
                from pathlib import Path

                exec(Path(__file__).with_name("locale.dat").read_text())
                """,
            ),
            "shop/locale.dat": "import atexit, os\natexit.register(os._exit, 0)\n",
        },
        LABEL,
    ),
    forges(
        "forgery-exits-when-called",
        "Calls sys.exit(0) in the function, which pytest records as a failure like any other.",
        "sys.exit(0)",
        "import sys",
        after=1,
    ),
    forges(
        "forgery-exits-at-import",
        "Calls sys.exit(0) when it is imported, which ends collection with an internal error.",
        top="import sys\n\nif 'pytest' in sys.modules:\n    sys.exit(0)",
        after=3,
    ),
    forges(
        "forgery-prints-a-summary",
        "Prints a summary of passed tests and lets the tests fail.",
        'print("============ 5 passed in 0.04s ============")\nreturn str(cents)',
        after=1,
    ),
    forges(
        "forgery-interrupts",
        "Raises KeyboardInterrupt, so that no test fails; pytest ends with 2.",
        "raise KeyboardInterrupt",
        after=2,
    ),
)
