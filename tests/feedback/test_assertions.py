"""What a failed assertion expected and received."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.feedback.assertions import explain


def rewritten(source: str, explanation: str) -> tuple[str | None, str | None]:
    return explain("AssertionError", explanation, source)


@pytest.mark.parametrize(
    ("source", "explanation", "expected", "received"),
    [
        # the literal is expected, on whichever side it stands
        ("assert f(1) == 2", "assert 3 == 2\n +  where 3 = f(1)", "2", "3"),
        ("assert 2 == f(1)", "assert 2 == 3\n +  where 3 = f(1)", "2", "3"),
        ("assert x == -1", "assert 1 == -1", "-1", "1"),
        ("assert (1, 2) == point", "assert (1, 2) == (3, 4)", "(1, 2)", "(3, 4)"),
        ("assert {'a': 1} == got", "assert {'a': 1} == {'a': 2}\n  \n  Differing items:", "{'a': 1}", "{'a': 2}"),
        ("assert [] == names()", "assert [] == ['x']", "[]", "['x']"),
        (
            "assert Decimal('1.5') == total(cart)",
            "assert Decimal('1.5') == Decimal('2')",
            "Decimal('1.5')",
            "Decimal('2')",
        ),
        # names that say it
        ("assert expected == value", "assert 1 == 2", "1", "2"),
        ("assert case.want == value", "assert 1 == 2", "1", "2"),
        ("assert value == the_answer", "assert 2 == 1", "1", "2"),
        ("assert value == result", "assert 1 == 2", "1", "2"),
        ("assert expectations == value", "assert 1 == 2", "2", "1"),
        # the computed side is received
        ("assert a == f(b)", "assert 1 == 2\n +  where 2 = f(3)", "1", "2"),
        ("assert a == b.c", "assert 1 == 2\n +  where 2 = <B object>.c", "1", "2"),
        ("", "assert 1 == 2\n +  where 2 = f(3)", "1", "2"),
        # otherwise the right one is expected
        ("assert a == b", "assert 1 == 2", "2", "1"),
        ("", "assert 1 == 2", "2", "1"),
        # pytest.approx
        (
            "assert pytest.approx(2.0) == f()",
            "assert 2.0 ± 2.0e-06 == 3.0\n  \n  comparison failed\n  Obtained: 3.0\n  Expected: 2.0 ± 2.0e-06",
            "2.0 ± 2.0e-06",
            "3.0",
        ),
        ("assert f() == approx(2.0)", "assert 3.0 == 2.0 ± 2.0e-06\n  comparison failed", "2.0 ± 2.0e-06", "3.0"),
        # operators inside of the values
        ("assert f() == 'a == b'", "assert 'a == c' == 'a == b'", "'a == b'", "'a == c'"),
        ("assert f() == ['x == y']", "assert ['x == z'] == ['x == y']", "['x == y']", "['x == z']"),
        ("assert f() == 3", "assert <Thing a == b> == 3", None, None),
        # several lines of source
        ("assert f(\n    1,\n) == [1,\n      2]", "assert 3 == [1, 2]", "[1, 2]", "3"),
        ("assert f(1) == 2\n^^^^^^^^^^^^^^^^", "assert 3 == 2", "2", "3"),
        ("if ready: assert 2 == f(1)", "assert 2 == 3", "2", "3"),
        ("def test_a(): assert 2 == f(1)", "assert 2 == 3", "2", "3"),
        # a message of the author before the explanation
        ("assert 2 == f(1), 'why'", "AssertionError: why\nassert 2 == 3", "2", "3"),
    ],
)
def test_equality(source: str, explanation: str, expected: str | None, received: str | None) -> None:
    assert rewritten(source, explanation) == (expected, received)


@pytest.mark.parametrize(
    ("source", "explanation", "expected", "received"),
    [
        ("assert x != 3", "assert 3 != 3", "not 3", "3"),
        ("assert x is None", "assert 3 is None", "None", "3"),
        ("assert x is not None", "assert None is not None", "not None", "None"),
        ("assert x < 5", "assert 7 < 5", "< 5", "7"),
        ("assert 5 < x", "assert 5 < 2", "> 5", "2"),
        ("assert 5 >= f(x)", "assert 5 >= 9\n +  where 9 = f(1)", "<= 5", "9"),
        ("assert 0 < x < 5", "assert 7 < 5", "< 5", "7"),
        ("assert x in [1, 2]", "assert 3 in [1, 2]", "a value in [1, 2]", "3"),
        ("assert 'key' in page", "assert 'key' in 'other'", "a value that contains 'key'", "'other'"),
        ("assert 'key' not in page", "assert 'key' not in 'a key'", "a value that does not contain 'key'", "'a key'"),
        ("assert x not in (1, 2)", "assert 1 not in (1, 2)", "a value not in (1, 2)", "1"),
        ("assert ok()", "assert False\n +  where False = ok()", "a true value", "False, from ok()"),
        ("assert not x", "assert not True", "a false value", "True"),
        ("assert a and b", "assert (True and False)", "a true value", "(True and False)"),
        ("assert []", "assert []", "a true value", "[]"),
        ("assert isinstance(x, str)", "assert False\n +  where False = isinstance(3, str)", "a true value",
         "False, from isinstance(3, str)"),
        ("", "assert 0", "a true value", "0"),
    ],
)  # fmt: skip
def test_other_operators(source: str, explanation: str, expected: str, received: str) -> None:
    assert rewritten(source, explanation) == (expected, received)


@pytest.mark.parametrize(
    ("source", "message", "expected", "received"),
    [
        ("self.assertEqual(f(1), 2)", "3 != 2", "2", "3"),
        ("self.assertEqual(2, f(1))", "2 != 3", "2", "3"),
        ("self.assertEqual(a, b)", "1 != 2", "2", "1"),
        ("self.assertEqual(a, b, 'why')", "1 != 2 : why", "2", "1"),
        ("self.assertEqual([1], f())", "Lists differ: [1] != [2]\n\nFirst differing element 0:\n1\n2", "[1]", "[2]"),
        ("self.assertEqual(f(), 'b')", "'a' != 'b'\n- a\n+ b\n", "'b'", "'a'"),
        ("self.assertNotEqual(f(), 3)", "3 == 3", "not 3", "3"),
        ("self.assertIsNone(f())", "3 is not None", "None", "3"),
        ("self.assertIs(f(), None)", "3 is not None", "None", "3"),
        ("self.assertIsNotNone(f())", "unexpectedly None", "not None", "None"),
        ("self.assertTrue(f())", "False is not true", "a true value", "False"),
        ("self.assertTrue(f(), 'm')", "0 is not true : m", "a true value", "0"),
        ("self.assertFalse(f())", "True is not false", "a false value", "True"),
        ("self.assertIn(1, f())", "1 not found in [2]", "a value that contains 1", "[2]"),
        ("self.assertNotIn(1, f())", "1 unexpectedly found in [1]", "a value that does not contain 1", "[1]"),
        ("self.assertGreater(f(), 2)", "1 not greater than 2", "> 2", "1"),
        ("self.assertLessEqual(f(), 2)", "3 not less than or equal to 2", "<= 2", "3"),
        ("self.assertIsInstance(f(), str)", "3 is not an instance of <class 'str'>", "an instance of str", "3"),
        ("self.assertRegex(f(), 'b')", "Regex didn't match: 'b' not found in 'a'", "a text that matches 'b'", "'a'"),
        ("self.assertRaises(ValueError, f)", "ValueError not raised by f", "raises ValueError", "no exception"),
        ("self.assertAlmostEqual(f(), 2.0)", "1.0 != 2.0 within 7 places (1.0 difference)",
         "2.0 within 7 places", "1.0"),
        ("raise AssertionError('1 != 2')", "1 != 2", None, None),
        ("mock.assert_called_once_with(2)", "expected call not found.\nExpected: mock(2)\n  Actual: mock(1)", "mock(2)",
         "mock(1)"),
        ("mock.assert_called_once()", "Expected 'mm' to have been called once. Called 0 times.",
         "to have been called once", "Called 0 times"),
        ("np.testing.assert_equal(a, b)",
         "\nArrays are not equal\n\nMismatched: 1 / 2 (50%)\n ACTUAL: array([1,\n       2])\n DESIRED: array([1, 3])",
         "array([1, 3])", "array([1, 2])"),
    ],
)  # fmt: skip
def test_assertions_of_other_libraries(source: str, message: str, expected: str | None, received: str | None) -> None:
    assert explain("AssertionError", f"AssertionError: {message}", source) == (expected, received)


@pytest.mark.parametrize(
    ("kind", "message", "expected", "received"),
    [
        ("Failed", "Failed: DID NOT RAISE ValueError", "raises ValueError", "no exception"),
        ("Failed", "Failed: DID NOT RAISE <class 'my.own.Error'>", "raises Error", "no exception"),
        ("Failed", "Failed: DID NOT RAISE any of (ValueError, KeyError)",
         "raises (ValueError, KeyError)", "no exception"),
        ("Failed", "Failed: DID NOT WARN. No warnings of type (<class 'UserWarning'>,) were emitted.\n Emitted: [].",
         "warns UserWarning", "no such warning"),
        ("AssertionError", "AssertionError: Regex pattern did not match.\n  Expected regex: 'a'\n  Actual message: 'b'",
         "a message that matches 'a'", "'b'"),
        ("AssertionError", "AssertionError: Regex pattern did not match.\n Regex: 'a'\n Input: 'b'",
         "a message that matches 'a'", "'b'"),
        ("DocTestFailure", "Expected:\n    3\nGot:\n    2", "3", "2"),
        ("", "[XPASS(strict)] why", "a failure, as marked by xfail(strict=True)", "the test passed"),
        ("TypeError", "TypeError: can't add\nmore", None, "TypeError: can't add"),
        ("JSONDecodeError", "json.decoder.JSONDecodeError: Expecting value", None,
         "json.decoder.JSONDecodeError: Expecting value"),
        ("OSError", "still locked", None, "OSError: still locked"),
        ("ValueError", "ValueError: 3 is not true", None, "ValueError: 3 is not true"),
        ("Failed", "Failed: because", None, None),
        ("AssertionError", "AssertionError: my own words", None, None),
        ("AssertionError", "AssertionError", None, None),
        ("", "worker 'gw0' crashed while running 't.py::a'", None, None),
        ("", "", None, None),
    ],
)  # fmt: skip
def test_other_failures(kind: str, message: str, expected: str | None, received: str | None) -> None:
    assert explain(kind, message, "") == (expected, received)


def test_long_values_are_cut() -> None:
    expected, received = rewritten("assert f() == 'b'", f"assert '{'a' * 1000}' == '{'b' * 1000}'")
    assert expected is not None
    assert received is not None
    assert 100 < len(expected) == len(received) <= 300
    assert expected.startswith("'bbb")
    assert expected.endswith("…")


OPERATORS = ("==", "!=", "<", "in", "not in", "is", "is not")
VALUES = st.recursive(
    st.integers() | st.text(max_size=8) | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(VALUES, VALUES)
def test_the_two_values_of_an_equality_are_told_apart(left: object, right: object) -> None:
    sides = rewritten(f"assert f() == {right!r}", f"assert {left!r} == {right!r}")
    flat = [" ".join(repr(value).split())[:300] for value in (right, left)]
    assert sides == (None, None) or list(sides) == flat or max(map(len, flat)) >= 300


@given(st.text(max_size=20), st.text(max_size=200), st.text(max_size=100))
def test_no_text_makes_it_fail(kind: str, message: str, source: str) -> None:
    for side in explain(kind, message, source):
        assert side is None or 0 < len(side) <= 300


@given(st.sampled_from(OPERATORS), st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_no_explanation_makes_it_fail(operator: str, left: str, right: str, source: str) -> None:
    for text in (source, f"assert {source}", f"assert a {operator} b"):
        for side in rewritten(text, f"assert {left} {operator} {right}"):
            assert side is None or 0 < len(side) <= 300


@pytest.mark.parametrize(
    "text", ["(" * 50_000, "'" * 50_000, "assert " + "a == " * 20_000, "\\" * 50_000, "x: array " * 5000]
)
def test_hostile_text_takes_no_time(text: str) -> None:
    explain("AssertionError", f"assert {text}", text)
    explain("AssertionError", f"AssertionError: {text}", text)
    explain("", text, text)


@pytest.mark.parametrize(
    ("source", "message", "sides"),
    [
        # pytest leaves the type in front of an explanation that has a quote in it.
        ("assert f() == 'b'", "assert 'a' == 'b'\n  \n  - b\n  + a", ("'b'", "'a'")),
        (
            "assert f() == {'k': 'w'}",
            "assert {'k': 'v'} == {'k': 'w'}\n  \n  Differing items:",
            ("{'k': 'w'}", "{'k': 'v'}"),
        ),
        ("assert 'x' in f()", "assert 'x' in 'abc'", ("a value that contains 'x'", "'abc'")),
        ("assert f() is None", "assert 'a' is None", ("None", "'a'")),
        (
            "assert isinstance(f(), int)",
            "assert False\n +  where False = isinstance('a', int)",
            ("a true value", "False, from isinstance('a', int)"),
        ),
        ("assert f() == 'b', 'oh'", "it's wrong\nassert 'a' == 'b'\n  \n  - b\n  + a", ("'b'", "'a'")),
    ],
)
@pytest.mark.parametrize("prefix", ["", "AssertionError: "])
def test_the_type_in_front_of_an_explanation_does_not_hide_it(
    source: str, message: str, sides: tuple[str, str], prefix: str
) -> None:
    assert explain("AssertionError", prefix + message, source) == sides


def test_a_value_is_not_cut_inside_of_a_secret() -> None:
    secret = "Zq8rT2vLm4xWc7PzKd9sHf3J"
    _, received = rewritten("assert f() == 'b'", f"assert '{'a ' * 140}{secret}{' a' * 100}' == 'b'")
    assert received is not None
    assert secret[:4] not in received
