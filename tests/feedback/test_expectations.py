"""What was expected and what was received, in the words of assertion libraries of many languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.feedback.expectations import expectation_in


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("AssertionError: expected 3 to be 4 // Object.is equality", ("4", "3"), id="vitest"),
        pytest.param("expect(received).toEqual(expected)\n\nExpected: [1]\nReceived: [2]", ("[1]", "[2]"), id="jest"),
        pytest.param(
            "Expected values to be strictly equal:\n\n6 !== 5\n\n  at x {\n  actual: 6,\n  expected: 5,\n",
            ("5", "6"),
            id="node assert",
        ),
        pytest.param("Expected values to be strictly equal:6 !== 5", ("5", "6"), id="node's message"),
        pytest.param("  actual: { a: [Array] },\n  expected: { a: [Array] },", None, id="node, both cut the same"),
        pytest.param("expected:<1> but was:<2>", ("1", "2"), id="junit 4"),
        pytest.param("expected: <1> but was: <2>", ("1", "2"), id="junit 5"),
        pytest.param("Expecting actual:\n  3\nto be greater than:\n  4", None, id="assertj"),
        pytest.param("Assert.AreEqual failed. Expected:<3>. Actual:<4>. ", ("3", "4"), id="mstest"),
        pytest.param("Assert.Equal() Failure: Values differ\nExpected: 3\nActual:   4", ("3", "4"), id="xunit"),
        pytest.param("  Expected: 3\n  But was:  4", ("3", "4"), id="nunit"),
        pytest.param(
            "a.cc:42: Failure\nExpected equality of these values:\n  Add(1, 2)\n    Which is: 4\n  3",
            ("3", "4"),
            id="gtest",
        ),
        pytest.param(
            "Expected equality of these values:\n  a\n    Which is: 4\n  b\n    Which is: 3",
            ("3", "4"),
            id="gtest, both",
        ),
        pytest.param("Value of: ok()\n  Actual: false\nExpected: true", ("true", "false"), id="gtest boolean"),
        pytest.param("Expected: (a) > (b), actual: 1 vs 2", ("(a) > (b)", "1 vs 2"), id="gtest comparison"),
        pytest.param(
            "a.cpp:12: FAILED:\n  REQUIRE( add(1, 2) == 4 )\nwith expansion:\n  3 == 4", ("4", "3"), id="catch2"
        ),
        pytest.param(
            "a.cpp(12): ERROR: CHECK( add(1, 2) == 4 ) is NOT correct!\n  values: CHECK( 3 == 4 )",
            ("4", "3"),
            id="doctest",
        ),
        pytest.param(
            "\tError:      \tNot equal: \n\t            \texpected: 4\n\t            \tactual  : 3",
            ("4", "3"),
            id="testify",
        ),
        pytest.param("cart_test.go:17: Total() = 3; want 4", ("4", "3"), id="go"),
        pytest.param("cart_test.go:17: got 3, want 4", ("4", "3"), id="go, short"),
        pytest.param("assertion `left == right` failed\n  left: 3\n right: 4", ("4", "3"), id="rust"),
        pytest.param(
            "assertion failed: `(left == right)`\n  left: `3`,\n right: `4`", ("4", "3"), id="rust before 1.73"
        ),
        pytest.param("  expected: 4\n       got: 3\n\n  (compared using ==)", ("4", "3"), id="rspec"),
        pytest.param("Expected: 4\n  Actual: 3", ("4", "3"), id="minitest"),
        pytest.param("Failed asserting that 3 matches expected 4.", ("4", "3"), id="phpunit"),
        pytest.param("Failed asserting that false is true.", ("true", "false"), id="phpunit boolean"),
        pytest.param(
            "Failed asserting that two strings are equal.\n--- Expected\n+++ Actual\n@@ @@\n-'a'\n+'b'",
            ("'a'", "'b'"),
            id="phpunit diff",
        ),
        pytest.param(
            "--- Expected\n+++ Actual\n@@ @@\n Array (\n-  0 => 1\n-  1 => 2\n+  0 => 3\n )", None, id="a longer diff"
        ),
        pytest.param('XCTAssertEqual failed: ("3") is not equal to ("4")', ('"4"', '"3"'), id="xctest"),
        pytest.param("#          got: '3'\n#     expected: '4'", None, id="perl's comments are left alone"),
        pytest.param("Expected:\n    True\nGot:\n    0\n", ("True", "0"), id="python's doctest"),
        pytest.param("Expected: 1\nFound: 2", ("1", "2"), id="found"),
        pytest.param("Expected:\nGot:\n    0", None, id="a doctest that expects nothing"),
        pytest.param("left: 3", None, id="only one side"),
        pytest.param("Expected equality of these values:", None, id="nothing below"),
        pytest.param("with expansion:\n  true", None, id="nothing compared"),
    ],
)
def test_expected_and_received_of_many_tools(text: str, expected: tuple[str, str] | None) -> None:
    assert expectation_in(text) == expected


WORDS = st.sampled_from(
    [
        "expected",
        "Expected:",
        "got",
        "want",
        "to be",
        "equal",
        "left:",
        "right:",
        " ",
        "\n",
        "<",
        ">",
        "but was",
        "3",
        "==",
        "!=",
        ",",
    ]
)


@given(st.lists(WORDS, max_size=60).map(" ".join))
def test_any_text_gives_two_sides_or_none(text: str) -> None:
    pair = expectation_in(text)
    assert pair is None or all(side.strip() and "\n" not in side for side in pair)


@pytest.mark.parametrize(
    "piece", ["expected ", "got ", "= ", "to be ", "expected <", "[", "failed asserting that ", "a != "]
)
def test_long_runs_of_anything_are_read_in_linear_time(piece: str) -> None:
    expectation_in(piece * 20_000)
    expectation_in((piece * 100 + "\n") * 400)
