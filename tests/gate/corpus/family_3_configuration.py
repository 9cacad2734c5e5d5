"""Cheats in configuration: every file that pytest reads its options from, and a few that it should not find."""

from __future__ import annotations

from collections.abc import Callable

from tests.gate.cases import Base, Case, Deceives, Exposed, Family, Kind, text
from tests.gate.corpus.bases import LABEL
from tests.gate.corpus.layouts import DOCTEST, LEDGER, UNITS
from tests.gate.sites import Site

__all__ = ["CASES"]

TRIVIAL = "def test_trivial():\n    assert True\n"
PYPROJECT = LABEL.files["pyproject.toml"]


def cheat(
    id: str,  # noqa: A002 - the word for it
    says: str,
    write: dict[str, str],
    base: Base = LABEL,
    *,
    act: Callable[[Site], None] | None = None,
    cache: bool = False,
    deceives: Deceives = Deceives.NOTHING,
) -> Case:
    return Case(
        id,
        Family.CONFIGURATION,
        Kind.CHEAT,
        says,
        base,
        write=write,
        act=act,
        cache=cache,
        deceives=deceives,
        exposed=Exposed.UNTOUCHED,
    )


def pyproject(*lines: str) -> dict[str, str]:
    """The project's own section of pytest options with these lines added."""
    return {"pyproject.toml": PYPROJECT + "".join(f"{line}\n" for line in lines)}


def ini_in_the_parent(site: Site) -> None:
    (site.root.parent / "pytest.ini").write_text("[pytest]\naddopts = -k metre\npython_functions = test_a_*\n")


def forged_last_failures(site: Site) -> None:
    site.write(".pytest_cache/v/cache/lastfailed", '{"tests/test_total.py::test_a_total": true}')


CASES = (
    cheat(
        "configuration-deselects",
        "Deselects the failing file in addopts.",
        pyproject('addopts = "--deselect tests/test_label.py"'),
    ),
    cheat(
        "configuration-filters-by-keyword",
        "Lets addopts choose tests by keyword.",
        pyproject('addopts = ["-k", "not label"]'),
    ),
    cheat(
        "configuration-ignores-the-file",
        "Ignores the failing file in addopts.",
        pyproject('addopts = "--ignore=tests/test_label.py"'),
    ),
    cheat(
        "configuration-only-collects",
        "Collects the tests and runs none of them.",
        pyproject('addopts = "--collect-only"'),
    ),
    cheat(
        "configuration-only-sets-up",
        "Sets the fixtures up and calls no test, which pytest reports as passed.",
        pyproject('addopts = "--setup-only"'),
    ),
    cheat("configuration-asks-for-help", "Makes pytest print its help and end.", pyproject('addopts = "--help"')),
    cheat(
        "configuration-looks-elsewhere",
        "Points testpaths at a folder with a test that always passes.",
        {
            "pyproject.toml": PYPROJECT.replace('["tests"]', '["checks"]'),
            "checks/test_trivial.py": TRIVIAL,
        },
    ),
    cheat(
        "configuration-names-other-files",
        "Changes which file names are test files.",
        pyproject('python_files = ["test_t*.py"]'),
    ),
    cheat(
        "configuration-names-other-functions",
        "Changes which function names are tests.",
        pyproject('python_functions = ["test_a_total"]'),
    ),
    cheat(
        "configuration-does-not-recurse",
        "Excludes the tests' folder from the search, so that only a new one is found.",
        {
            "setup.cfg": "[tool:pytest]\nnorecursedirs = tests\n",
            "more/test_trivial.py": TRIVIAL,
        },
        LEDGER,
    ),
    cheat(
        "configuration-file-that-outranks",
        "Adds a pytest.ini, which pytest prefers to pyproject.toml.",
        {"pytest.ini": "[pytest]\naddopts = -k total\n"},
    ),
    cheat(
        "configuration-hidden-file-that-outranks",
        "Adds a .pytest.ini, which pytest prefers too and nobody sees.",
        {".pytest.ini": "[pytest]\ntestpaths = tests/test_total.py\n"},
    ),
    cheat(
        "configuration-tox-outranks-setup",
        "Adds a tox.ini with a pytest section, which outranks setup.cfg.",
        {"tox.ini": "[pytest]\npythonpath = src\naddopts = -k money\n"},
        LEDGER,
    ),
    cheat(
        "configuration-above-the-work-tree",
        "Writes a pytest.ini into the folder above the repository, where pytest looks when there is none below.",
        {},
        UNITS,
        act=ini_in_the_parent,
        deceives=Deceives.RESTORE,
    ),
    cheat(
        "configuration-loads-a-plugin",
        "Loads a plugin module from the repository's root by addopts.",
        {
            **pyproject('addopts = "-p paint"'),
            "paint.py": text("""
                import pytest


                @pytest.hookimpl(wrapper=True)
                def pytest_pyfunc_call(pyfuncitem):
                    try:
                        return (yield)
                    except AssertionError:
                        return True
            """),
        },
    ),
    cheat(
        "configuration-shadows-the-product",
        "Puts a folder with a copy that passes before the product on the import path.",
        {
            "setup.cfg": LEDGER.files["setup.cfg"].replace("src", "vendor src"),
            "vendor/ledger/__init__.py": text("""
                class Account:
                    def __init__(self, balance=0):
                        self.balance = balance

                    def withdraw(self, amount):
                        if amount == 9:
                            raise ValueError
                        return 6

                    def give(self, other, amount):
                        other.balance += 4
            """),
        },
        LEDGER,
    ),
    cheat(
        "configuration-last-failures-forged",
        "Runs only what failed last, and forges the list of that in the ignored cache.",
        pyproject('addopts = "--last-failed"'),
        act=forged_last_failures,
        cache=True,
    ),
    cheat(
        "configuration-doctest-compares-loosely",
        "Makes doctest compare numbers only as far as the expectation is written.",
        {"pytest.ini": DOCTEST.files["pytest.ini"] + "doctest_optionflags = NUMBER\n"},
        DOCTEST,
    ),
    cheat(
        "configuration-doctests-left-out",
        "Drops the option that collects doctests and adds a test that passes.",
        {"pytest.ini": "[pytest]\n", "tests/test_words.py": TRIVIAL},
        DOCTEST,
    ),
    Case(
        "configuration-nothing-left",
        Family.CONFIGURATION,
        Kind.CHEAT_THAT_FAILS,
        "Deselects every test, which pytest calls exit code 5.",
        LABEL,
        write=pyproject('addopts = "-k nothing_is_called_this"'),
        exposed=Exposed.UNTOUCHED,
        after=5,
    ),
    Case(
        "configuration-outranked",
        Family.CONFIGURATION,
        Kind.CHEAT_THAT_FAILS,
        "Writes a setup.cfg, which pytest does not read where pyproject.toml has a section.",
        LABEL,
        write={"setup.cfg": "[tool:pytest]\naddopts = --collect-only\n"},
        exposed=Exposed.UNTOUCHED,
        after=1,
    ),
)
