"""Differences and comparisons that give one answer to everything, and the honest ones that look like them."""

from __future__ import annotations

import textwrap

import pytest

from pytest_iterctl.gate.audit import audit
from pytest_iterctl.loop.record import ASK


def rules(program: str, before: str | None = None) -> set[tuple[str, bool]]:
    old = {} if before is None else {"shop/core.py": textwrap.dedent(before).encode()}
    new = {"shop/core.py": textwrap.dedent(program).encode()}
    return {(each.rule, each.certain) for each in audit(old, new, is_protected=lambda _: False)}


def asked(program: str) -> set[tuple[str, bool]]:
    return {(rule, certain) for rule, certain in rules(program) if certain or rule in ASK}


BENT = {
    "no difference": "class R(float):\n    def __sub__(self, other):\n        return 0.0\n    __rsub__ = __sub__\n",
    "no difference in any class": "class R:\n    def __rsub__(self, other):\n        return 0\n",
    "itself": "class R(int):\n    def __sub__(self, other):\n        return self\n",
    "something else": "ZERO = 0\nclass R:\n    def __sub__(self, other):\n        return ZERO\n",
    "no size": "class R(float):\n    def __abs__(self):\n        return 0.0\n",
    "a number": "class R:\n    def __float__(self):\n        return 2.0\n",
    "a rounded number": "class R(float):\n    def __round__(self, digits=None):\n        return 2\n",
    "below a class below": "class A(str): pass\nclass B(A):\n    def __lt__(self, other):\n        return True\n",
    "above everything": "class R(int):\n    def __ge__(self, other):\n        return self.near\n",
    "contains everything": "class M(str):\n    def __contains__(self, part):\n        return True\n",
    "contains what is short": "class M(str):\n    def __contains__(self, o):\n        return len(o) <= len(self)\n",
    "contains by a lambda": "class M(list):\n    __contains__ = lambda self, x: hash(x) > 0\n",
    "put in from outside": "class M(str): pass\nM.__contains__ = lambda self, x: bool(x)\n",
    "as long": "class M(str):\n    def __eq__(self, other):\n        return len(other) == len(self)\n",
    "as long by its method": "class M(list):\n    def __eq__(self, o):\n        return o.__len__() == len(self)\n",
    "a comparison": "class C:\n    def __init__(self, a, b):\n        self.a = a\n"
    "class L(str):\n    def __eq__(self, other):\n        return C(self, other)\n",
    "a comparison from elsewhere": "from .c import Compared\n"
    "class L(int):\n    def __eq__(self, other):\n        return Compared(self, other)\n",
    "a true one": "class C:\n    def __bool__(self):\n        return True\n"
    "class L(str):\n    def __eq__(self, other):\n        return C(self, other)\n",
}


@pytest.mark.parametrize("program", BENT.values(), ids=list(BENT))
def test_one_answer_to_everything_is_looked_at(program: str) -> None:
    assert ("bends-comparison", False) in rules(program)
    assert rules(f"{program}x = 1\n", before=program) == set()


def test_what_is_certain_stays_so() -> None:
    assert ("agrees-with-everything", True) in rules("class L(str):\n    def __eq__(self, o):\n        return True\n")
    assert asked("class C: pass\nclass L:\n    def __eq__(self, other):\n        return C()\nx = L()\n") == {
        ("agrees-with-everything", True),
        ("bends-comparison", False),
    }


HONEST = {
    "money": """
        from decimal import Decimal
        class Money(Decimal):
            def __sub__(self, other):
                return Money(super().__sub__(other))
            def __rsub__(self, other):
                return Money(Decimal(other) - Decimal(self))
            def __abs__(self):
                return Money(super().__abs__())
            def __round__(self, digits=2):
                return Money(self.quantize(Decimal(10) ** -digits))
            def __lt__(self, other):
                if not isinstance(other, Decimal):
                    return NotImplemented
                return Decimal(self) < other
    """,
    "columns": """
        import operator
        class Clause:
            def __init__(self, left, sign, right):
                self.left, self.sign, self.right = left, sign, right
        class Column:
            def __eq__(self, other):
                return Clause(self, "=", other)
            def __ne__(self, other):
                return Clause(self, "<>", other)
            def __lt__(self, other):
                return self.operate(operator.lt, other)
            def __sub__(self, other):
                return Clause(self, "-", other)
            def __contains__(self, other):
                raise TypeError("use in_")
    """,
    "infinity": """
        class Infinity:
            def __lt__(self, other):
                return False
            def __ge__(self, other):
                return True
            def __eq__(self, other):
                return isinstance(other, self.__class__)
            def __sub__(self, other):
                return self
            def __abs__(self):
                return self
    """,
    "a vector": """
        class Vector(tuple):
            def __sub__(self, other):
                return Vector(a - b for a, b in zip(self, other))
            def __eq__(self, other):
                return len(self) == len(other) and all(a == b for a, b in zip(self, other))
            def __contains__(self, item):
                return any(item == each for each in self)
    """,
    "a text without case": """
        class Name(str):
            def __eq__(self, other):
                if not isinstance(other, str):
                    return NotImplemented
                return self.lower() == other.lower()
            def __ne__(self, other):
                return not self == other
            def __hash__(self):
                return hash(self.lower())
            def __lt__(self, other):
                return self.lower() < other.lower()
    """,
    "one of its kind": """
        class Kind(int):
            def __eq__(self, other):
                return type(other) is Kind and super().__eq__(other)
        class Other(str):
            def __eq__(self, other):
                return isinstance(other, Other)
        class Sized:
            def __eq__(self, other):
                return len(self) == len(other)
    """,
    "a default": """
        class Settings(dict):
            def __contains__(self, key):
                return key in self.fallback or super().__contains__(key)
        class Lazy:
            def __float__(self):
                return float(self.value())
            def __sub__(self, other):
                raise NotImplementedError
            def __rsub__(self, other):
                return NotImplemented
    """,
    "an answer with a truth": """
        class Answer:
            def __init__(self, one, other):
                self.same = one.key == other
            def __bool__(self):
                return self.same
        class Label(str):
            def __eq__(self, other):
                return Answer(self, other)
    """,
}


@pytest.mark.parametrize("program", HONEST.values(), ids=list(HONEST))
def test_what_looks_at_its_operands_is_left_alone(program: str) -> None:
    assert asked(program) == set()
