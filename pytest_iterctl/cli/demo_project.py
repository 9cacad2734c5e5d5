"""The throw-away repository of `iterctl demo`: a small invoicing package, its tests, and an agent played by a script.

The agent stands in for a model (none can be called without a key and a network), but it is a real process: it gets
the prompt on its standard input, changes files, reports its cost, and needs three tries, as models do. At the second
one it changes the test instead of the code, as models do, too.
"""

from __future__ import annotations

__all__ = ["FILES"]

_MONEY = '''"""Amounts of money in cents, so that nothing is lost to floating point."""


def to_cents(amount: str) -> int:
    """Cents from "12.34"; "12.3" is 12.30 and "12" is 12.00."""
    whole, _, fraction = amount.partition(".")
    return int(whole) * 100 + int(fraction or 0)


def round_half(value: float) -> int:
    """A value rounded to a whole number."""
    return round(value)
'''

_INVOICE = '''"""Invoices: lines, discount and tax."""

from dataclasses import dataclass, field

from invoicing.money import to_cents


@dataclass
class Line:
    name: str
    price: str
    quantity: int = 1

    def total(self) -> int:
        return to_cents(self.price) * self.quantity


@dataclass
class Invoice:
    lines: list[Line] = field(default_factory=list)
    discount_percent: int = 0

    def subtotal(self) -> int:
        return sum(line.total() for line in self.lines[1:])

    def total(self) -> int:
        return self.subtotal() - self.subtotal() * self.discount_percent // 100
'''

_TEST_INVOICE = """from invoicing.invoice import Invoice, Line
from invoicing.money import to_cents


def test_cents_of_a_short_fraction():
    assert to_cents("12.3") == 1230


def test_cents_of_a_long_fraction():
    assert to_cents("12.34") == 1234


def test_empty_invoice():
    assert Invoice().total() == 0


def test_subtotal_counts_every_line():
    invoice = Invoice([Line("tea", "2.50", 2), Line("cake", "3.00")])
    assert invoice.subtotal() == 800


def test_discount():
    invoice = Invoice([Line("tea", "10.00")], discount_percent=10)
    assert invoice.total() == 900
"""

_TEST_ROUNDING = """from invoicing.money import round_half


def test_rounds_down_below_half():
    assert round_half(2.4) == 2


def test_rounds_half_up():
    assert round_half(2.5) == 3


def test_rounds_half_to_even_as_the_bank_does():
    assert round_half(2.5) == 2
"""

_AGENT = '''"""An agent as a script: reads the prompt, edits files, reports its cost. A model would think here."""

import json
import os
import pathlib
import sys

EDITS = {
    ("invoices", 1): ("invoicing/invoice.py", "self.lines[1:]", "self.lines"),
    ("invoices", 2): ("tests/test_invoice.py", "== 1230", "== 1203"),  # so much easier than mending the code
    ("invoices", 3): ("invoicing/money.py", "int(fraction or 0)", 'int((fraction + "00")[:2])'),
    ("rounding", 1): ("invoicing/money.py", "return round(value)", "return int(value + 0.5)"),
    ("rounding", 2): ("invoicing/money.py", "return int(value + 0.5)", "return round(value)"),
    ("rounding", 3): ("invoicing/money.py", "return round(value)", "return int(value + 0.5)  # half up"),
}

prompt = sys.stdin.read()
task, iteration = os.environ["ITERCTL_TASK"], int(os.environ["ITERCTL_ITERATION"])
edit = EDITS.get((task, iteration))
if edit is not None and "## What fails now" in prompt:
    name, old, new = edit
    path = pathlib.Path(name)
    path.write_text(path.read_text().replace(old, new))
    print(f"I changed {name}.")
print(json.dumps({"cost_usd": 0.01 * (len(prompt) // 1000 + 1), "tokens": len(prompt) // 4}))
'''

_PLAN = """version: 1
settings: { max_iterations: 3, safety: normal, agent: coder }
agents:
  coder: { command: [PYTHON, AGENT] }
tasks:
  - id: invoices
    prompt: Totals are wrong. Find out why and mend the invoicing package.
    tests: [tests/test_invoice.py]
  - id: rounding
    needs: [invoices]
    prompt: Rounding must satisfy the tests.
    tests: [tests/test_rounding.py]
"""

#: Name in the repository and content; PYTHON and AGENT in the plan are filled in by the demonstration.
FILES: dict[str, str] = {
    "invoicing/__init__.py": "",
    "invoicing/money.py": _MONEY,
    "invoicing/invoice.py": _INVOICE,
    "tests/test_invoice.py": _TEST_INVOICE,
    "tests/test_rounding.py": _TEST_ROUNDING,
    "agent.py": _AGENT,
    "iterctl.yaml": _PLAN,
    "pyproject.toml": '[project]\nname = "invoicing"\nversion = "0"\n\n[tool.pytest.ini_options]\npythonpath = ["."]\n',
    ".gitignore": "__pycache__/\n.pytest_cache/\n",
}
