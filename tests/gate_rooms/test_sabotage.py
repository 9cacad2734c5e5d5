"""A function that is broken on purpose is the old one until it is armed, and gives nothing useful after that."""

from __future__ import annotations

import ast
import asyncio
import builtins
import contextlib
import sysconfig
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.gate.sabotage import functions_of, sabotaged, sabotaged_at, watching_equality

NAME = "broken_c0ffee"


@contextlib.contextmanager
def armed(state: bool) -> Iterator[None]:
    def switch() -> bool:
        return state

    switch.given = switch  # type: ignore[attr-defined]  # what a broken function gives back
    setattr(builtins, NAME, switch)
    try:
        yield
    finally:
        delattr(builtins, NAME)


def run(source: bytes, *, state: bool = False, ask: str = "") -> Any:
    """The names of a program after it ran, or the answer to a question that is asked while it is armed."""
    space: dict[str, Any] = {"__name__": "sample"}
    with armed(False):
        exec(compile(source, "sample.py", "exec", dont_inherit=True), space)
    with armed(state):
        return eval(ask, space) if ask else None


def broken(program: str, *functions: str) -> bytes:
    made = sabotaged(textwrap.dedent(program).encode(), frozenset(functions), NAME)
    assert made is not None
    return made


SAMPLE = '''
from __future__ import annotations
import contextlib

def label(cents):
    """Cents as text.

    >>> label(5)
    '0.05'
    """
    return f"{cents // 100}.{cents % 100:02d}"

class Account:
    """Money."""
    def __init__(self, balance=0):
        self.balance = balance

    @property
    def empty(self):
        return not self.balance

    @staticmethod
    def zero(): return Account()

    class Inner:
        def deep(self):
            def deeper(x):
                return x + 1
            return deeper(1)

    async def later(self):
        async def each():
            yield 1
        return [x async for x in each()]

def outer():
    total = 0
    def inner():
        nonlocal total
        total += 1
        return total
    inner()
    return inner()

def numbers():
    yield from range(3)
    return "done"

async def stream():
    """A docstring only above a yield."""
    yield 1
    yield 2

async def collect():
    return [x async for x in stream()]

@contextlib.contextmanager
def opened(value):
    yield value

if label(5):
    def chosen(x, *, y=3): return x * y
else:
    def other(): pass

pick = lambda x: x * 2
'''

NAMES = {
    *("label", "Account.__init__", "Account.empty", "Account.zero", "Account.Inner.deep", "Account.Inner.deep.deeper"),
    *("Account.later", "Account.later.each", "outer", "outer.inner", "numbers", "stream", "collect", "opened"),
    *("chosen", "other"),
}
QUESTIONS = {
    "label(105)": "1.05",
    "label.__doc__.count('>>>')": 1,
    "Account(3).empty": False,
    "Account.zero().balance": 0,
    "Account.Inner().deep()": 2,
    "outer()": 2,
    "list(numbers())": [0, 1, 2],
    "chosen(2)": 6,
    "opened(4).__enter__()": 4,
    "pick(4)": 8,
}


def test_functions_have_their_qualified_names() -> None:
    assert functions_of(SAMPLE.encode()) == NAMES


@pytest.mark.parametrize("source", [b"def f(:\n", b"\0", b"x = " + b"-" * 9000 + b"1", b""])
def test_what_can_not_be_read_has_no_functions(source: bytes) -> None:
    assert functions_of(source) == frozenset()
    assert sabotaged(source, frozenset({"f"}), NAME) is None
    assert sabotaged_at(source, frozenset({1}), NAME) is None


@given(st.sets(st.sampled_from(sorted(NAMES)), min_size=1))
def test_a_program_that_is_not_armed_is_the_old_one(functions: set[str]) -> None:
    made = broken(SAMPLE, *functions)
    assert made.decode().count(f"if {NAME}():") == len(functions)
    for question, answer in QUESTIONS.items():
        assert run(made, ask=question) == answer
    space: dict[str, Any] = {}
    with armed(False):
        exec(made, space)
        assert asyncio.run(space["collect"]()) == [1, 2]
        assert asyncio.run(space["Account"]().later()) == [1]


@given(st.sets(st.integers(-2, len(SAMPLE.splitlines()) + 2)))
def test_any_lines_give_a_program_that_is_the_old_one_unless_armed(lines: set[int]) -> None:
    made = sabotaged_at(SAMPLE.encode(), frozenset(lines), NAME)
    if made is not None:
        assert all(run(made, ask=question) == answer for question, answer in QUESTIONS.items())


def test_an_armed_function_gives_something_else() -> None:
    made = broken(SAMPLE, *NAMES)
    assert run(made, state=True, ask=f"label(105) is {NAME}")
    assert run(made, state=True, ask="list(numbers())") == []
    # Python would end the test for anything that `__init__` gives back, which would prove nothing.
    assert run(made, state=True, ask="vars(Account(3))") == {}
    space: dict[str, Any] = {}
    with armed(False):
        exec(made, space)
    with armed(True):
        stream = space["stream"]()
        with pytest.raises(StopAsyncIteration):
            asyncio.run(anext(stream))


def test_only_the_named_functions_are_touched() -> None:
    made = broken(SAMPLE, "Account.empty", "no.such", "empty")
    assert made.decode().count(NAME) == 2
    assert run(made, state=True, ask="label(105)") == "1.05"
    assert sabotaged(SAMPLE.encode(), frozenset({"withdraw", "Inner.deep"}), NAME) is None


def test_docstrings_and_future_imports_stay_where_they_are() -> None:
    tree = ast.parse(broken(SAMPLE, *NAMES))
    assert isinstance(tree.body[0], ast.ImportFrom)
    (stream,) = (node for node in tree.body if isinstance(node, ast.AsyncFunctionDef) and node.name == "stream")
    assert ast.get_docstring(stream)
    only = broken("def f():\n    'nothing else'\n", "f")
    assert run(only, ask="f.__doc__") == "nothing else"
    assert run(only, ask="f()") is None


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-8-sig", "iso8859-15"])
def test_a_declared_encoding_is_read_and_utf_8_is_written(encoding: str) -> None:
    declared = f"# -*- coding: {encoding} -*-\n" if encoding != "utf-8-sig" else ""
    source = f"{declared}def f():\n    return 'né à Zürich'\n".encode(encoding)
    made = sabotaged(source, frozenset({"f"}), NAME)
    assert made is not None
    assert "né à Zürich" in made.decode("utf-8")
    assert run(made, ask="f()") == "né à Zürich"


def test_both_functions_of_one_name_are_touched() -> None:
    made = broken("if 1:\n    def f(): return 1\nelse:\n    def f(): return 2\n", "f")
    assert made.decode().count(f"return {NAME}") == 2


def test_a_value_is_returned_where_only_an_inner_function_yields() -> None:
    made = broken("async def f():\n    async def g():\n        yield 1\n    return g\n", "f", "f.g").decode()
    assert made.count(f"return {NAME}") == 1
    outer = broken("async def f():\n    def g(x=(yield)):\n        pass\n    k = lambda y=(yield): y\n", "f").decode()
    assert f"return {NAME}" not in outer


@pytest.mark.parametrize("name", ["a b", "", "if", "__private", "1a"])
def test_a_name_must_mean_the_same_everywhere(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        sabotaged(SAMPLE.encode(), frozenset({"label"}), name)
    with pytest.raises(ValueError, match="name"):
        watching_equality(b"assert a == b", name)


# By line ------------------------------------------------------------------------------------------------------------

PLACES = '''\
class Label(str):
    """A text."""
    __hash__ = str.__hash__

    @staticmethod
    def plain(x):
        def inside():
            return x
        return inside()

    def __eq__(self, other):
        return True

    def __ne__(self, other): return False

    def __len__(self):
        return 3

class Other:
    __eq__ = lambda self, other: True

def yes(*given):
    return True

Label.__le__ = lambda self, other: True
x = 3
'''


@pytest.mark.parametrize(
    ("line", "touched"),
    [
        (1, {"Label.__eq__", "Label.__ne__"}),
        (3, {"Label.__eq__", "Label.__ne__"}),
        (5, {"Label.plain"}),
        (6, {"Label.plain"}),
        (8, {"Label.plain.inside"}),
        (9, {"Label.plain"}),
        (11, {"Label.__eq__"}),
        (12, {"Label.__eq__"}),
        (14, {"Label.__ne__"}),
        (23, {"yes"}),
    ],
)
def test_a_line_means_the_innermost_function_or_the_comparisons_of_its_class(line: int, touched: set[str]) -> None:
    assert sabotaged_at(PLACES.encode(), frozenset({line}), NAME) == broken(PLACES, *touched)


def test_a_line_with_a_lambda_outside_of_functions_breaks_the_lambda() -> None:
    made = sabotaged_at(PLACES.encode(), frozenset({20, 25}), NAME)
    assert made is not None
    assert run(made, ask="Other() == 3") is True
    assert run(made, state=True, ask=f"Other().__eq__(3) is {NAME}")
    assert run(made, state=True, ask=f"Label().__le__(3) is {NAME}")


@pytest.mark.parametrize("line", [0, 19, 26, 99])
def test_a_line_with_nothing_to_break_gives_nothing(line: int) -> None:
    assert sabotaged_at(PLACES.encode(), frozenset({line}), NAME) is None


def test_two_lines_of_one_function_break_it_once() -> None:
    made = sabotaged_at(PLACES.encode(), frozenset({11, 12}), NAME)
    assert made is not None
    assert made.decode().count(f"{NAME}()") == 1


# Equality -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("assert f() == g(1), f'{1 == 2}'", f"assert {NAME}.same(f(), g(1)), f'{{1 == 2}}'"),
        ("assert a == 1 and not b == 2", f"assert {NAME}.same(a, 1) and (not {NAME}.same(b, 2))"),
        ("assert a == b == c", None),
        ("assert (a == b) == c == d", f"assert {NAME}.same(a, b) == c == d"),
        ("assert (a == b) == c", f"assert {NAME}.same({NAME}.same(a, b), c)"),
        ("assert a != b and a is b", None),
        ("assert all(x == y for x, y in z)", f"assert all(({NAME}.same(x, y) for x, y in z))"),
        ("assert (n := f()) == 3", f"assert {NAME}.same((n := f()), 3)"),
        ("assert f'{a == b}'", None),
        ("x = a == b", None),
        ("if a == b:\n    assert x", None),
    ],
)
def test_what_an_assertion_finds_equal_is_asked_of_the_name(before: str, after: str | None) -> None:
    made = watching_equality(before.encode(), NAME)
    assert (made.decode().strip() if made is not None else None) == after


@pytest.mark.parametrize("source", [b"assert a == :\n", b"\0", b"assert a == " + b"-" * 9000 + b"1", b""])
def test_tests_that_can_not_be_read_are_left_alone(source: bytes) -> None:
    assert watching_equality(source, NAME) is None


def test_an_assertion_that_is_watched_asserts_the_same() -> None:
    program = '''
        # -*- coding: latin-1 -*-
        """PYTEST_DONT_REWRITE é"""
        from __future__ import annotations
        seen = []
        def f(x):
            "doc"
            seen.append(x)
            return x
        class A:
            def check(self):
                assert f(1) == f(1) and not f(2) == f(3), "é"
                return True
        async def later():
            assert await later2() == 1
        async def later2():
            return 1
        def wrong():
            assert f(1) == f(2)
    '''
    made = watching_equality(textwrap.dedent(program).encode("latin-1"), NAME)
    assert made is not None
    tree = ast.parse(made)
    assert ast.get_docstring(tree) == "PYTEST_DONT_REWRITE é"
    asked: list[tuple[object, object]] = []

    class Switch:
        def same(self, left: object, right: object) -> bool:
            asked.append((left, right))
            return left == right

    setattr(builtins, NAME, Switch())
    try:
        space: dict[str, Any] = {}
        exec(compile(made, "sample.py", "exec", dont_inherit=True), space)
        assert space["A"]().check()
        asyncio.run(space["later"]())
        with pytest.raises(AssertionError):
            space["wrong"]()
    finally:
        delattr(builtins, NAME)
    assert space["seen"] == [1, 1, 2, 3, 1, 2]
    assert asked == [(1, 1), (2, 3), (1, 1), (1, 2)]


# Real code ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_standard_library_can_be_broken_and_says_the_same() -> None:
    modules = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[::3]
    for path in modules:
        source = path.read_bytes()
        functions = functions_of(source)
        made = sabotaged(source, functions, NAME)
        assert (made is not None) == bool(functions), path
        if made is not None:
            tree = ast.parse(made)
            removed = 0
            for node in ast.walk(tree):
                body = getattr(node, "body", None)
                if isinstance(body, list):
                    kept = [
                        each for each in body if not ast.dump(each).startswith(f"If(test=Call(func=Name(id='{NAME}")
                    ]
                    removed += len(body) - len(kept)
                    body[:] = kept
            assert removed >= len(functions)
            assert ast.dump(ast.parse(source)) == ast.dump(tree), path
