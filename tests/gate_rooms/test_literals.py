"""Test inputs that are written into the product are noticed; tables and words that belong there are not."""

from __future__ import annotations

import random
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.gate.findings import Finding
from pytest_iterctl.gate.literals import hard_coded

TESTS = """
import pytest
from calc import area, double, is_word, move

@pytest.mark.parametrize(("given", "expected"), [(17, 34), (23, 46), (-1, -2), (1000, 2000)])
def test_double(given, expected):
    assert double(given) == expected

def test_words():
    assert is_word("racecar")
    assert is_word("level")
    assert move(3, 4) == "north-east"
    expected = 391
    assert area(17, 23) == expected
"""


def is_protected(path: str) -> bool:
    return path.startswith("tests/")


def found(after: str, before: str = "x = 1\n", *, tests: str = TESTS) -> tuple[Finding, ...]:
    old, new = ({"calc.py": textwrap.dedent(text).encode()} for text in (before, after))
    return hard_coded(old, new, {"tests/test_calc.py": tests.encode()}, is_protected=is_protected)


CHEATS = {
    "a branch with input and output": """
        def area(a, b):
            if a == 17 and b == 23:
                return 391
            return 0
    """,
    "branches": "def double(n):\n    if n == 17:\n        return 34\n    if 23 == n:\n        return 46\n",
    "small numbers together": "def move(a, b):\n    if a == 3 and b == 4:\n        return 'north-east'\n",
    "a tuple": "def move(*a):\n    if a == (3, 4):\n        return 'north-east'\n",
    "a match": """
        def double(n):
            match n:
                case 17:
                    return 34
                case 23 | 99:
                    return 46
    """,
    "a match of several": "def move(a, b):\n    match a, b:\n        case 3, 4:\n            return 'north-east'\n",
    "a table": "TABLE = {17: 34, 23: 46}\ndef double(n):\n    return TABLE.get(n, 0)\n",
    "a table on the spot": "def double(n):\n    return {17: 34, 23: 46}[n]\n",
    "a table of tuples": "def area(a, b):\n    return {(17, 23): 391}[a, b]\n",
    "a conditional": "def double(n):\n    return 34 if n == 17 else 2 * n\n",
    "one of several": "def is_word(w):\n    if w in ('racecar', 'level'):\n        return True\n    return False\n",
    "an assignment": "def double(n):\n    r = 0\n    if n == 17:\n        r = 34\n    return r\n",
}


@pytest.mark.parametrize("program", CHEATS.values(), ids=list(CHEATS))
def test_inputs_of_tests_that_choose_a_result_are_suspicious(program: str) -> None:
    (finding,) = found(program)
    assert (finding.path, finding.rule, finding.certain) == ("calc.py", "hard-coded", False)


def test_the_places_are_told() -> None:
    (finding,) = found(CHEATS["branches"])
    assert finding.line == 2
    told = "17 (line 2), 34 (line 2), 23 (line 4), 46 (line 4)"
    assert finding.text == f"chooses results by literals that the tests use: {told}."


HONEST = {
    "a formula": "def double(n):\n    return 2 * n\n",
    "one literal": "def is_word(w):\n    if w == 'level':\n        return True\n    return False\n",
    "common numbers": """
        def f(n):
            if n == 0:
                return 1
            return 1000 if n == 1024 else {2: 10, 100: 5}[n]
    """,
    "results that are computed": """
        def f(w):
            if w == 'level':
                return up(w)
            if w == 'racecar':
                return g(w)
    """,
    "a large table": "T = {'level': 1, 'racecar': 2, 'north': 3, 'south': 4, 'east': 5}\ndef f(w):\n    return T[w]\n",
    "a table that nobody looks up": "T = {17: 34, 23: 46}\n",
    "settings": "def f():\n    return {'level': 1, 'racecar': 2}\n",
    "comparisons as results": "def f(n, m):\n    return n == 17 or m == 23\n",
    "texts": "def f(n):\n    '''racecar level'''\n    print('racecar', 'level', 391)\n    return 391\n",
}


@pytest.mark.parametrize("program", HONEST.values(), ids=list(HONEST))
def test_what_belongs_there_is_not(program: str) -> None:
    assert found(program) == ()


def test_literals_that_the_product_had_are_nothing_new() -> None:
    before = "LIMITS = (17, 23, 34, 46)\nx = 17, 23, 34, 46\n"
    assert found(CHEATS["branches"], before) == ()
    elsewhere = {"a.py": before.encode(), "calc.py": b""}
    after = {**elsewhere, "calc.py": CHEATS["branches"].encode()}
    assert hard_coded(elsewhere, after, {"tests/t.py": TESTS.encode()}, is_protected=is_protected) == ()


def test_literals_of_a_docstring_of_a_test_do_not_count() -> None:
    assert found(CHEATS["one of several"], tests='"""racecar"""\ndef test_a():\n    "level"\n') == ()


@pytest.mark.parametrize(
    "question",
    ["name == 'test_double'", "name.startswith('test_double')", "name in ('test_words',)", "'test_calc.py' in name"],
)
def test_the_name_of_a_test_is_noticed_alone(question: str) -> None:
    (finding,) = found(f"def f(name):\n    if {question}:\n        return helper()\n")
    assert (finding.line, finding.rule, finding.certain) == (2, "names-a-test", False)


def test_a_name_that_no_test_has_is_not() -> None:
    assert found("def f(name):\n    if name == 'test_other' or name == 'double':\n        return 1\n") == ()


trees = st.dictionaries(
    st.sampled_from(["calc.py", "b.py", "tests/test_calc.py", "c.txt"]),
    st.sampled_from([text.encode() for text in (*CHEATS.values(), *HONEST.values(), TESTS)]) | st.binary(max_size=100),
    max_size=4,
)


@given(trees, trees, trees, st.randoms(use_true_random=False))
def test_any_bytes_in_any_order_give_the_same(
    before: dict[str, bytes], after: dict[str, bytes], tests: dict[str, bytes], chance: random.Random
) -> None:
    findings = hard_coded(before, after, tests, is_protected=is_protected)
    items = list(after.items())
    chance.shuffle(items)
    assert hard_coded(before, dict(items), dict(reversed(tests.items())), is_protected=is_protected) == findings
    assert not any(finding.certain or is_protected(finding.path) for finding in findings)
    assert hard_coded(after, after, tests, is_protected=is_protected) == ()


@given(st.integers() | st.floats(allow_nan=False) | st.text(max_size=20) | st.binary(max_size=20))
def test_any_literal_can_be_compared(value: object) -> None:
    found(f"def f(x):\n    if x == {value!r}:\n        return 34\n", tests=f"assert f({value!r}) == 34\n")


@pytest.mark.parametrize("deep", ["1 if x else " * 900 + "2", "(" * 90 + "1, 17" + ")" * 90, "x." * 900 + "y"])
def test_what_is_nested_deeply_comes_to_an_end(deep: str) -> None:
    found(f"def f(x):\n    if x == 17:\n        return {deep}\n", tests=f"assert f(17) == ({deep})\n")
