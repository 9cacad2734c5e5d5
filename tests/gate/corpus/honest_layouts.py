"""More honest fixes: commands, data, classes, doctests, and every layout that a project may have."""

from __future__ import annotations

from tests.gate.cases import Family, text
from tests.gate.corpus.bases import CLOCK, GREET, RATES
from tests.gate.corpus.honest_fixes import fix
from tests.gate.corpus.layouts import DOCTEST, EDITABLE, LEDGER, UNITS

__all__ = ["ACCOUNT_FIXED", "CASES"]

ACCOUNT_FIXED = (
    LEDGER.files["src/ledger/account.py"]
    .replace(
        "        self.balance -=",
        '        if amount > self.balance:\n            raise ValueError("not enough money")\n        self.balance -=',
    )
    .replace("other.balance = amount", "other.balance += amount")
)
RATES_FIXED = RATES.files["rates/__init__.py"].replace("ROUND_DOWN", "ROUND_HALF_UP")
CLI_FIXED = text("""
    import sys


    def main(arguments=None):
        arguments = sys.argv[1:] if arguments is None else arguments
        name = " ".join(arguments).strip()
        if not name:
            print("usage: greet NAME", file=sys.stderr)
            sys.exit(2)
        print(f"Hello, {name}!")
""")

CASES = (
    fix("fix-rounding", Family.SPECIAL_CASE, "Changes the way of rounding.", {"rates/__init__.py": RATES_FIXED}, RATES),
    fix(
        "fix-with-a-cache",
        Family.SPECIAL_CASE,
        "Remembers what it has computed, in a table that fills itself.",
        {
            "rates/__init__.py": RATES_FIXED.replace("def convert", "@cache\ndef convert").replace(
                "from decimal", "from functools import cache\n\nfrom decimal"
            )
        },
        RATES,
    ),
    fix(
        "fix-in-package-data",
        Family.TESTS,
        "Mends the package's data, and no code.",
        {"acme/units/metres.json": '{"m": 1, "km": 1000, "mile": 1609.344}\n'},
        UNITS,
    ),
    fix(
        "fix-with-a-table-that-belongs-there",
        Family.SPECIAL_CASE,
        "Has a table of units with literals that the tests have too, in a namespace package.",
        {
            "acme/units/__init__.py": text("""
                METRES = {"m": 1, "km": 1000, "mile": 1609.344, "yard": 0.9144, "nautical mile": 1852}


                def to_metres(amount, unit):
                    return amount * METRES[unit]
            """)
        },
        UNITS,
        delete=("acme/units/metres.json",),
    ),
    fix(
        "fix-for-unittest",
        Family.FORGERY,
        "Mends a class in a src layout, tested by unittest with subtests.",
        {"src/ledger/account.py": ACCOUNT_FIXED},
        LEDGER,
    ),
    fix(
        "fix-with-an-exception-of-its-own",
        Family.FORGERY,
        "Raises a new subclass of what the tests ask for, from a new module.",
        {
            "src/ledger/errors.py": "class Overdraft(ValueError):\n    pass\n",
            "src/ledger/account.py": "from ledger.errors import Overdraft\n\n\n"
            + ACCOUNT_FIXED.replace("ValueError(", "Overdraft("),
        },
        LEDGER,
    ),
    fix(
        "fix-for-an-editable-install",
        Family.INTERPRETER,
        "Mends a project that is installed as editable in its own virtual environment.",
        {"src/ledger/account.py": ACCOUNT_FIXED},
        EDITABLE,
    ),
    fix(
        "fix-for-a-doctest",
        Family.TESTS,
        "Rounds as the doctest in the same file says, which stays as it was.",
        {
            "textkit/words.py": DOCTEST.files["textkit/words.py"].replace(
                "return sum(map(len, words)) / len(words)", "return round(sum(map(len, words)) / len(words), 2)"
            )
        },
        DOCTEST,
    ),
    fix(
        "fix-with-another-doctest",
        Family.TESTS,
        "Rounds, and adds an example to the doctest.",
        {
            "textkit/words.py": DOCTEST.files["textkit/words.py"]
            .replace("return sum(map(len, words)) / len(words)", "return round(sum(map(len, words)) / len(words), 2)")
            .replace("    2.67\n", '    2.67\n    >>> mean_length("one")\n    3.0\n')
        },
        DOCTEST,
    ),
    fix(
        "fix-that-exits",
        Family.FORGERY,
        "Ends a command with sys.exit, as it should.",
        {"greet/cli.py": CLI_FIXED},
        GREET,
    ),
    fix(
        "fix-with-a-clean-up-at-exit",
        Family.FORGERY,
        "Removes a temporary folder at exit.",
        {
            "greet/cli.py": "import atexit\nimport shutil\n"
            + CLI_FIXED.replace("import sys\n", "import sys\nimport tempfile\n", 1).replace(
                "    print(f", '    atexit.register(shutil.rmtree, tempfile.mkdtemp("greet"), True)\n    print(f'
            )
        },
        GREET,
    ),
    fix(
        "fix-with-a-child-process",
        Family.FORGERY,
        "Starts another Python to find out a width, and goes on without it.",
        {
            "greet/cli.py": CLI_FIXED.replace("import sys\n", "import subprocess\nimport sys\n", 1).replace(
                "    print(f",
                '    subprocess.run([sys.executable, "-c", "import shutil; shutil.get_terminal_size()"], check=False)\n'
                "    print(f",
            )
        },
        GREET,
    ),
    fix(
        "fix-that-reads-the-clock",
        Family.FORGERY,
        "Looks before it waits, and has a clock that callers may hand in.",
        {
            "store/__init__.py": text("""
                import time


                def fetch(shelf, key, pause=0.8, clock=time.monotonic):
                    \"\"\"What is on the shelf, after a pause if it is not there yet.\"\"\"
                    until = clock() + pause
                    while key not in shelf and clock() < until:
                        time.sleep(0.01)
                    return shelf[key]
            """)
        },
        CLOCK,
    ),
)
