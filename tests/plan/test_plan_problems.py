from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.plan.problems import (
    MOST_PROBLEMS,
    Problem,
    did_you_mean,
    either,
    plan_error,
    printable,
    quoted,
    spelt,
)


def test_a_problem_shows_its_place_its_line_and_what_to_do() -> None:
    problem = Problem(
        "iterctl.yaml",
        6,
        3,
        ("settings", "max_iteration"),
        "unknown key",
        "did you mean `max_iterations`?",
        "  max_iteration: 20",
    )
    assert problem.render() == (
        "error: iterctl.yaml:6:3: settings.max_iteration: unknown key\n"
        "    6 |   max_iteration: 20\n"
        "      |   ^\n"
        "hint: did you mean `max_iterations`?"
    )


def test_a_problem_without_a_place_is_one_line() -> None:
    assert Problem("iterctl.yaml", 0, 0, (), "is a directory").render() == "error: iterctl.yaml: is a directory"


def test_an_empty_line_is_not_shown() -> None:
    assert Problem("f", 3, 1, (), "ends too early", excerpt="  ").render() == "error: f:3:1: ends too early"


def test_escape_sequences_and_control_characters_are_not_shown() -> None:
    line = "\x1b[31mkey\x1b[0m:\x1b]8;;http://x\x07 \x00va\u202elue\x9b2J"
    rendered = Problem("f\x1b[2J", 1, line.index("v") + 1, ("a\x1b[1mb",), "wrong", excerpt=line).render()
    assert rendered.splitlines()[0].startswith("error: f:1:")
    assert rendered.splitlines()[1] == "    1 | key: \\x00va\\u202elue"
    assert rendered.splitlines()[2] == "      |          ^"
    assert not any(character in rendered for character in "\x1b\x9b\x07\x00\u202e")


def test_a_long_line_is_shown_around_the_caret() -> None:
    line = "x" * 5000 + "HERE" + "y" * 5000
    _, shown, caret = Problem("f", 1, 5001, (), "wrong", excerpt=line).render().splitlines()
    assert len(shown) < 120
    assert shown[caret.index("^") :].startswith("HERE")
    assert "…" in shown
    assert shown.endswith("…")


def test_the_caret_stands_under_its_place_behind_wide_characters() -> None:
    _, shown, caret = Problem("f", 1, 4, (), "wrong", excerpt="日本: x").render().splitlines()
    assert shown == "    1 | 日本: x"
    assert caret == "      |      ^"


def test_problems_are_told_in_the_order_of_the_file() -> None:
    problems = [Problem("f", line, column, (), f"{line}.{column}") for line, column in [(9, 1), (2, 7), (2, 3), (0, 0)]]
    assert [block.rsplit(" ", 1)[1] for block in plan_error(problems).problems] == ["0.0", "2.3", "2.7", "9.1"]


def test_at_most_fifty_problems_are_told() -> None:
    error = plan_error([Problem("f", line, 1, (), "wrong") for line in range(1, 61)])
    assert len(error.problems) == MOST_PROBLEMS + 1
    assert error.render().endswith("error: f:50:1: wrong\nand 10 more")


def test_paths_are_spelt_as_people_write_them() -> None:
    assert spelt(("tasks", 0, "needs", 1)) == "tasks[0].needs[1]"
    assert spelt(("agents", "a.b c", "env")) == "agents['a.b c'].env"
    assert len(spelt(("k" * 500,))) <= 120


def test_a_suggestion_needs_likeness() -> None:
    assert did_you_mean("max_iteration", ["max_iterations", "timeout"]) == "did you mean `max_iterations`?"
    assert did_you_mean("MAX_ITERATIONS", ["max_iterations"]) == "did you mean `max_iterations`?"
    assert not did_you_mean("zebra", ["max_iterations", "timeout"])
    assert not did_you_mean("", ["a"])
    assert not did_you_mean("timeout" * 10_000, ["timeout"])


def test_alternatives_read_like_a_sentence() -> None:
    assert either(["a"]) == "`a`"
    assert either(["a", "b", "c"]) == "`a`, `b` or `c`"
    assert len(quoted("x" * 1000)) <= 62


@given(st.text(), st.text(), st.integers(1, 50), st.integers(1, 300))
def test_no_text_can_break_out_of_its_line(source: str, excerpt: str, line: int, column: int) -> None:
    excerpt = "".join(excerpt.splitlines())
    rendered = Problem(source, line, column, (source, 1), "wrong", excerpt=excerpt).render()
    assert len(rendered.split("\n")) in {1, 3}
    assert all(character.isprintable() or character == "\n" for character in rendered if ord(character) < 0xA0)


@given(st.text())
def test_printable_text_stays_as_it_is(text: str) -> None:
    once = printable(text)
    assert printable(once) == once
