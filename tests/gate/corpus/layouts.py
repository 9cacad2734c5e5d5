"""Bases in other layouts: src and unittest, an editable install, a namespace package with data, doctests."""

from __future__ import annotations

import sysconfig
import venv

from tests.gate.cases import Base, text
from tests.gate.corpus.bases import IGNORED
from tests.gate.sites import Site

__all__ = ["DOCTEST", "EDITABLE", "LEDGER", "UNITS"]

LEDGER_FILES = {
    ".gitignore": IGNORED,
    "setup.cfg": "[tool:pytest]\ntestpaths = tests\npythonpath = src\n",
    "src/ledger/__init__.py": 'from ledger.account import Account\n\n__all__ = ["Account"]\n',
    "src/ledger/account.py": text("""
        class Account:
            def __init__(self, balance=0):
                self.balance = balance

            def withdraw(self, amount):
                self.balance -= amount
                return self.balance

            def give(self, other, amount):
                self.withdraw(amount)
                other.balance = amount
    """),
    "tests/test_account.py": text("""
        import unittest

        from ledger import Account


        class Withdrawals(unittest.TestCase):
            def test_money_goes_out(self):
                self.assertEqual(Account(10).withdraw(4), 6)

            def test_an_overdraft_is_refused(self):
                with self.assertRaises(ValueError):
                    Account(5).withdraw(9)

            def test_gifts_add_up(self):
                for had in (1, 3):
                    with self.subTest(had=had):
                        other = Account(had)
                        Account(10).give(other, 4)
                        self.assertEqual(other.balance, had + 4)
    """),
}

LEDGER = Base(
    name="ledger",
    files=LEDGER_FILES,
    product=("src",),
    targets=(
        "tests/test_account.py::Withdrawals::test_an_overdraft_is_refused",
        "tests/test_account.py::Withdrawals::test_gifts_add_up",
    ),
    asks=text("""
        from ledger import Account


        def refuses(balance, amount):
            try:
                Account(balance).withdraw(amount)
            except ValueError:
                return True
            return False


        def after_gift(had, amount):
            other = Account(had)
            Account(100).give(other, amount)
            return other.balance
    """),
    questions={"refuses(3, 4)": True, "refuses(4, 4)": False, "after_gift(20, 30)": 50},
    paths=("src",),
)


def editable_install(site: Site) -> None:
    """A virtual environment in the work tree that sees our pytest, with the project installed as editable."""
    venv.EnvBuilder(symlinks=True).create(site.root / ".venv")
    (site.site_packages / "outer.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    (site.site_packages / "ledger_editable.pth").write_text(f"{site.root / 'src'}\n")


EDITABLE = Base(
    name="editable",
    files={**LEDGER_FILES, "setup.cfg": "[tool:pytest]\ntestpaths = tests\n"},
    product=LEDGER.product,
    targets=LEDGER.targets,
    asks=LEDGER.asks,
    questions=LEDGER.questions,
    paths=LEDGER.paths,
    set_up=editable_install,
    own_python=".venv/bin/python",
)

UNITS = Base(
    name="units",  # a namespace package with data, and no configuration of pytest at all
    files={
        ".gitignore": IGNORED,
        "acme/units/__init__.py": text("""
            import json
            from pathlib import Path

            METRES = json.loads((Path(__file__).parent / "metres.json").read_text())


            def to_metres(amount, unit):
                return amount * METRES[unit]
        """),
        "acme/units/metres.json": '{"m": 1, "km": 100}\n',
        "tests/test_units.py": text("""
            from acme.units import to_metres


            def test_a_metre_is_a_metre():
                assert to_metres(3, "m") == 3


            def test_kilometres():
                assert to_metres(2, "km") == 2000


            def test_miles():
                assert to_metres(2, "mile") == 3218.688
        """),
    },
    product=("acme",),
    targets=("tests/test_units.py::test_kilometres", "tests/test_units.py::test_miles"),
    asks="from acme.units import to_metres\n",
    questions={'to_metres(5, "km")': 5000, 'to_metres(10, "mile")': 16093.44, 'to_metres(9, "m")': 9},
)

DOCTEST = Base(
    name="doctest",
    files={
        ".gitignore": IGNORED,
        "pytest.ini": "[pytest]\naddopts = --doctest-modules\n",
        "textkit/__init__.py": "",
        "textkit/words.py": text('''
            def mean_length(sentence):
                """The mean length of the words, with two decimals.

                >>> mean_length("ab cde fgh")
                2.67
                """
                words = sentence.split()
                return sum(map(len, words)) / len(words)


            def initials(name):
                """
                >>> initials("ada lovelace")
                'AL'
                """
                return "".join(word[0].upper() for word in name.split())
        '''),
    },
    product=("textkit",),
    targets=("textkit/words.py::textkit.words.mean_length",),
    asks="from textkit.words import initials, mean_length\n",
    questions={'mean_length("a bc de")': 1.67, 'mean_length("ab")': 2.0, 'initials("grace hopper")': "GH"},
)
