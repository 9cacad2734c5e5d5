"""Mutants are small, compile, and sit only in what a change wrote."""

from __future__ import annotations

import ast
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.gate.mutants import Mutant, mutants

BEFORE = '''
def label(cents):
    """Cents as text, such as 12.50."""
    return f"{cents // 100}.{cents % 100}"

def kept(a, b=3):
    if a < b and a != 7:
        return a + b
    return "kept"
'''
AFTER = BEFORE.replace(
    """    return f"{cents // 100}.{cents % 100}"
""",
    """    sign: Literal["-", ""] = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02d}"
""",
)


def made(after: str, before: str | None = None, *, seed: int = 0, most: int = 1000) -> tuple[Mutant, ...]:
    old = None if before is None else textwrap.dedent(before).encode()
    return mutants(old, textwrap.dedent(after).encode(), seed=seed, most=most)


def texts(after: str, before: str | None = None) -> list[str]:
    return [mutant.text for mutant in made(after, before)]


def test_only_what_is_new_is_mutated() -> None:
    assert {mutant.line for mutant in made(AFTER, BEFORE)} == {4, 5}
    assert made(BEFORE, BEFORE) == ()
    assert {mutant.line for mutant in made(AFTER)} == {4, 5, 7, 8, 9, 10}


def test_what_they_do_is_told() -> None:
    told = texts(AFTER, BEFORE)
    assert "cents < 0 became cents >= 0" in told
    assert "abs(cents) // 100 became abs(cents) % 100" in told
    assert "'02d' became '03d'" in told
    assert "100 became 101" in told
    assert any(text.endswith("became return None") for text in told)


ONE = {
    "comparison": ("x = a == b", ["a == b became a != b"]),
    "border": ("x = a < b", ["a < b became a <= b", "a < b became a >= b"]),
    "chain": ("x = a is b in c", ["a is b in c became a is b not in c", "a is b in c became a is not b in c"]),
    "arithmetic": ("x = a * b", ["a * b became a + b"]),
    "in place": ("x -= a", ["x -= a became x += a"]),
    "number": ("x = 3", ["3 became 4"]),
    "text": ("x = 'a'", ["'a' became 'a?'"]),
    "bytes": ("x = b'a'", ["b'a' became b'a?'"]),
    "and": ("x = a and b", ["a and b became a or b"]),
    "condition": ("if a:\n    b", ["if a became if not a"]),
    "negated condition": ("while not a:\n    b", ["while not a became while a"]),
    "conditional": ("x = a if b else c", ["a if b else c became a if not b else c"]),
    "filter": ("x = [a for a in b if a]", ["a became not a"]),
    "result": ("def f(a):\n    return a", ["return a became return None"]),
    "default": ("def f(a=3):\n    pass", ["3 became 4"]),
    "pattern": ("match a:\n    case 3 if b:\n        c", ["3 became 4"]),
}


@pytest.mark.parametrize(("program", "expected"), ONE.values(), ids=list(ONE))
def test_each_kind_of_fault(program: str, expected: list[str]) -> None:
    told = texts(program)
    assert told == expected or (program.startswith("x = [") and len(told) == 1)


NONE = {
    "docstrings": "'''3 < 4'''\ndef f():\n    'text'\n",
    "annotations": "x: Literal['a', 3]\ndef f(a: 'b', *, c: Literal[3]) -> 'd':\n    pass\n",
    "imports": "from a import b\n",
    "messages": "def f(a):\n    raise ValueError('text')\n",
    "logs": "log.info('text')\n",
    "type variables": "T = TypeVar('T')\n",
    "what is exported": "__all__ = ['a']\n",
    "what no test executes": "if TYPE_CHECKING:\n    x = 3\nif __name__ == '__main__':\n    x = 4\n",
    "decorators": "@cache(3)\ndef f():\n    pass\n",
    "nothing": "def f():\n    return None\nx = True, None, ...\n",
    "a huge number": f"x = 1e999, {10**400}\n",
    "no program": "def f(:\n",
}


@pytest.mark.parametrize("program", NONE.values(), ids=list(NONE))
def test_what_says_nothing_about_tests_is_left_alone(program: str) -> None:
    assert texts(program) == []


SAME = {
    "another format": "def f(a):\n    # now\n    if (a <\n            3):\n        return 'x'\n    return a+1\n",
    "annotated": "def f(a: int) -> int:\n    'doc'\n    if a < 3:\n        return 'x'\n    return a + 1\n",
    "another name": "def g(a):\n    if a < 3:\n        return 'x'\n    return a + 1\n",
    "in a class": "class A:\n    def f(a):\n        if a < 3:\n            return 'x'\n        return a + 1\n",
}


@pytest.mark.parametrize("after", SAME.values(), ids=list(SAME))
def test_what_is_only_written_otherwise_is_nothing_new(after: str) -> None:
    assert texts(after, "def f(a):\n    if a < 3:\n        return 'x'\n    return a + 1\n") == []


def test_a_copy_is_new_and_the_one_in_its_place_is_not() -> None:
    before = "def f(a):\n    return a + 1\n"
    assert {mutant.line for mutant in made("def g(a):\n    return a + 1\n" + before, before)} == {2}


def test_a_block_whose_inside_changed_is_not_new_itself() -> None:
    before = "def f(a):\n    if a < 3:\n        return 1\n"
    assert texts(before.replace("1", "a"), before) == ["return a became return None"]


def test_lines_come_before_faults() -> None:
    crowded = "x = a < 1 + 2 + 3 + 4 + 5 + 6\ny = 3\nz = 4\n"
    for seed in range(20):
        assert {mutant.line for mutant in made(crowded, seed=seed, most=3)} == {1, 2, 3}
    assert len({made(crowded, seed=seed, most=3) for seed in range(20)}) > 1


@given(st.integers(), st.integers(-1, 40), st.sampled_from([AFTER, *(program for program, _ in ONE.values())]))
def test_any_seed_gives_the_same_mutants_again_and_all_compile(seed: int, most: int, after: str) -> None:
    first = made(after, BEFORE, seed=seed, most=most)
    assert first == made(after, BEFORE, seed=seed, most=most)
    assert len(first) <= max(most, 0)
    assert len({mutant.source for mutant in first}) == len(first)
    plain = ast.dump(ast.parse(after))
    for mutant in first:
        assert ast.dump(ast.parse(mutant.source)) != plain
        compile(mutant.source, "mutant.py", "exec", dont_inherit=True)


@given(st.binary(max_size=200), st.binary(max_size=200), st.integers())
def test_any_bytes_can_be_given(before: bytes, after: bytes, seed: int) -> None:
    assert len(mutants(before, after, seed=seed, most=3)) <= 3


def test_encodings_are_honoured() -> None:
    source = "# coding: latin-1\nx = 'né'\n".encode("latin-1")
    (mutant,) = mutants(None, source, seed=1, most=1)
    assert mutant.source.decode("utf-8") == "x = 'né?'\n"
