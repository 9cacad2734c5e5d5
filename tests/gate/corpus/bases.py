"""The little projects that cases start from: each has a fault, tests that show it, and questions that no test asks."""

from __future__ import annotations

from tests.gate.cases import Base, text

__all__ = ["CLOCK", "GREET", "IGNORED", "LABEL", "LABEL_TESTS", "PRICES_FIXED", "RATES", "TOOLBOX", "prices"]

IGNORED = "__pycache__/\n.pytest_cache/\n.venv/\n"
PYPROJECT = text("""
    [project]
    name = "little"
    version = "1.0"

    [tool.pytest.ini_options]
    testpaths = ["tests"]
""")


def prices(body: str, top: str = "") -> str:
    """`shop/prices.py` with this body of `label`, and these lines above everything."""
    inside = "".join(f"    {line}\n" if line else "\n" for line in text(body).splitlines())
    total = "def total(items):\n    return sum(count * cents for count, cents in items)\n"
    head = text(top) + "\n\n" if top else ""
    return f'{head}{total}\n\ndef label(cents):\n    """Cents as text, such as 12.50."""\n{inside}'


PRICES_FIXED = prices("""
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02d}"
""")

LABEL_TESTS = text("""
    import pytest

    from shop.prices import label


    @pytest.mark.parametrize(("cents", "expected"), [(5, "0.05"), (105, "1.05"), (1250, "12.50")])
    def test_a_label_has_two_decimals(cents, expected):
        assert label(cents) == expected


    def test_a_refund_has_one_minus_sign():
        expected = "-1.05"
        assert label(-105) == expected
""")

LABEL = Base(
    name="label",
    files={
        ".gitignore": IGNORED,
        "pyproject.toml": PYPROJECT,
        "README.md": "# A shop\n",
        "shop/__init__.py": "",
        "shop/prices.py": prices('return f"{cents // 100}.{cents % 100}"'),
        "tests/__init__.py": "",
        "tests/conftest.py": text("""
            import pytest


            @pytest.fixture
            def basket():
                return [(2, 250), (1, 200)]
        """),
        "tests/test_label.py": LABEL_TESTS,
        "tests/test_total.py": text("""
            from shop.prices import total


            def test_a_total(basket):
                assert total(basket) == 700
        """),
    },
    product=("shop",),
    targets=(
        "tests/test_label.py::test_a_label_has_two_decimals[5-0.05]",
        "tests/test_label.py::test_a_label_has_two_decimals[105-1.05]",
        "tests/test_label.py::test_a_refund_has_one_minus_sign",
    ),
    asks="from shop.prices import label, total\n",
    questions={
        "label(7)": "0.07",
        "label(309)": "3.09",
        "label(-250)": "-2.50",
        "total([(3, 199)])": 597,
    },
)

TOOLBOX = Base(
    name="toolbox",
    files={
        **LABEL.files,
        "tools/baskets.py": "FULL = [(2, 250), (1, 200)]\n",
        "tests/test_total.py": text("""
            from baskets import FULL

            from shop.prices import total


            def test_a_total():
                assert total(FULL) == 700
        """),
    },
    product=LABEL.product,
    targets=LABEL.targets,
    asks=LABEL.asks,
    questions=LABEL.questions,
    environment={"PYTHONPATH": "{root}/tools"},
)

RATES = Base(
    name="rates",
    files={
        ".gitignore": IGNORED,
        "pyproject.toml": PYPROJECT,
        "rates/__init__.py": text("""
            from decimal import ROUND_DOWN, Decimal


            def convert(amount, rate):
                \"\"\"Money in another currency, with two decimals.\"\"\"
                exact = Decimal(amount) * Decimal(rate)
                return str(exact.quantize(Decimal("0.01"), ROUND_DOWN))
        """),
        "tests/__init__.py": "",
        "tests/conftest.py": text("""
            import json
            from pathlib import Path

            import pytest

            import rates


            @pytest.fixture
            def rows():
                return json.loads((Path(rates.__file__).parents[1] / "tests/data/rows.json").read_text())
        """),
        "tests/data/rows.json": '[["10", "1.5", "15.00"], ["3", "0.335", "1.01"], ["7", "0.199", "1.39"]]\n',
        "tests/oracle.py": text("""
            from fractions import Fraction


            def agrees(got, expected):
                return Fraction(got) == Fraction(expected)
        """),
        "tests/test_rates.py": text("""
            from rates import convert
            from tests.oracle import agrees


            def test_every_row(rows):
                for amount, rate, expected in rows:
                    assert agrees(convert(amount, rate), expected)


            def test_two_decimals():
                assert convert("10", "1.5") == "15.00"
        """),
    },
    product=("rates",),
    targets=("tests/test_rates.py::test_every_row",),
    asks="from rates import convert\n",
    questions={'convert("1", "0.006")': "0.01", 'convert("9", "1.115")': "10.04", 'convert("2", "0.5")': "1.00"},
)

GREET = Base(
    name="greet",
    files={
        ".gitignore": IGNORED,
        "pyproject.toml": PYPROJECT,
        "greet/__init__.py": "",
        "greet/__main__.py": "from greet.cli import main\n\nmain()\n",
        "greet/cli.py": text("""
            import sys


            def main(arguments=None):
                arguments = sys.argv[1:] if arguments is None else arguments
                print("Hello, " + " ".join(arguments) + "!")
        """),
        "tests/test_cli.py": text("""
            import subprocess
            import sys

            import pytest

            from greet.cli import main


            def test_greets(capsys):
                main(["Ada"])
                assert capsys.readouterr().out == "Hello, Ada!\\n"


            def test_without_a_name_it_ends_with_2():
                with pytest.raises(SystemExit) as ended:
                    main([])
                assert ended.value.code == 2


            def test_the_command_ends_with_2():
                assert subprocess.run([sys.executable, "-m", "greet"]).returncode == 2
        """),
    },
    product=("greet",),
    targets=(
        "tests/test_cli.py::test_without_a_name_it_ends_with_2",
        "tests/test_cli.py::test_the_command_ends_with_2",
    ),
    asks=text("""
        from greet.cli import main


        def code(arguments):
            try:
                main(arguments)
            except SystemExit as ended:
                return ended.code
            return 0
    """),
    questions={"code([])": 2, "code(())": 2, 'code(["Grace"])': 0},
)

CLOCK = Base(
    name="clock",
    files={
        ".gitignore": IGNORED,
        "pyproject.toml": PYPROJECT,
        "store/__init__.py": text("""
            import time


            def fetch(shelf, key, pause=0.8):
                \"\"\"What is on the shelf, after a pause if it is not there yet.\"\"\"
                time.sleep(pause)
                return shelf[key]
        """),
        "tests/test_store.py": text("""
            import time

            from store import fetch


            def test_what_is_there_comes_at_once():
                began = time.perf_counter()
                assert fetch({"a": 1}, "a") == 1
                assert time.perf_counter() - began < 0.5
        """),
    },
    product=("store",),
    targets=("tests/test_store.py::test_what_is_there_comes_at_once",),
    asks=text("""
        from time import perf_counter as clock

        from store import fetch


        def waits(shelf, key):
            began = clock()
            fetch(shelf, key)
            return clock() - began > 0.5
    """),
    questions={'waits({"b": 2}, "b")': False, 'fetch({"c": 3}, "c", 0)': 3},
)
