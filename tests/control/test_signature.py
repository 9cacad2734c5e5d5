"""What a failure is known by outlives what says nothing about it, and tells apart what differs."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.control.evidence import Failure, Frame, Phase
from pytest_iterctl.control.signature import anchor, base_name, coarse, exact, is_test_file, normalised

words = st.text("abcdefgh_", min_size=1, max_size=8)
folders = st.lists(words, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
texts = st.text(max_size=300)
frames = st.builds(Frame, path=texts, line=st.integers(0, 999), function=texts, source=texts)
failures = st.builds(
    Failure,
    test=texts,
    phase=st.sampled_from(["collect", "setup", "call", "teardown", "session"]),
    where=texts,
    kind=st.sampled_from(["", "AssertionError", "KeyError", "ImportError", "FixtureLookupError"]) | texts,
    message=texts,
    expected=st.none() | texts,
    received=st.none() | texts,
    frames=st.lists(frames, max_size=4).map(tuple),
)


def raised(message: str, *, kind: str = "ValueError", test: str = "test_a.py::test_a", line: int = 3) -> Failure:
    return Failure(
        test=test,
        where=f"calc.py:{line}",
        kind=kind,
        message=message,
        frames=(
            Frame(path="test_a.py", line=line + 4, function="test_a", source="assert double(2) == 4"),
            Frame(path="calc.py", line=line, function="double", source="return check(number)"),
        ),
    )


@given(failures)
def test_any_failure_has_two_short_signatures(failure: Failure) -> None:
    for signature in (exact(failure), coarse(failure)):
        assert len(signature) == 16
        assert set(signature) <= set("0123456789abcdef")
    assert (exact(failure), coarse(failure)) == (exact(failure), coarse(failure))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("<Thing at 0x7f12ab>", "<Thing at 0x55ee00>"),
        ("no file /tmp/pytest-of-me/pytest-1/test_a0/data.txt", "no file /tmp/pytest-of-me/pytest-27/test_a0/data.txt"),
        ("no file '/home/one/project/data.txt'", "no file '/srv/two/data.txt'"),
        (r"no file C:\one\project\data.txt", r"no file D:\two\data.txt"),
        ("in /tmp/tmpa1b2c3d4", "in /tmp/tmpzz99xx88"),
        ("id 123e4567-e89b-12d3-a456-426614174000", "id 00000000-e89b-12d3-a456-426614174999"),
        ("hash d41d8cd98f00b204e9800998ecf8427e", "hash ffffffff8f00b204e9800998ecf8427e"),
        ("at 2024-01-02T03:04:05.678Z", "at 2026-11-18T11:22:33.001Z"),
        ("at 03:04:05", "at 23:59:01"),
        ("took 0.12 s", "took 3.4 s"),
        ("took 15ms", "took 2ms"),
        ('File "calc.py", line 12', 'File "calc.py", line 15'),
        ("calc.py:12: in double", "calc.py:15: in double"),
        ("pid 4711 is gone", "pid 99 is gone"),
        ("assert <MagicMock id='140234567890123'> == 1", "assert <MagicMock id='139999999990001'> == 1"),
        ("no request 'req-9f8e7d6c'", "no request 'req-12ab34cd'"),
        ("commit 1a2b3c4 is not there", "commit 9f8e7d6c5b4a is not there"),
        ("nothing listens at port 53412", "nothing listens at port 40001"),
        ("made at 1763590000.123", "made at 1763599999.9"),
        ("assert {'a', 'b', 'c'} == {1}", "assert {'c', 'a', 'b'} == {1}"),
        ("Extra items in the left set:\n'a'\n'b'", "Extra items in the left set:\n'b'\n'a'"),
    ],
)
def test_what_changes_by_itself_changes_no_signature(one: str, other: str) -> None:
    assert exact(raised(one)) == exact(raised(other))
    assert coarse(raised(one)) == coarse(raised(other))


def test_recursion_that_ends_at_another_depth_is_the_same() -> None:
    one = raised("RecursionError: maximum recursion depth exceeded in comparison", kind="RecursionError")
    other = raised(
        "RecursionError: maximum recursion depth exceeded while calling a Python object", kind="RecursionError"
    )
    assert exact(one) == exact(other)


@given(folders, folders, st.integers(1, 500), st.integers(1, 500))
def test_signatures_outlive_moved_directories_and_shifted_lines(one: str, other: str, line: int, shifted: int) -> None:
    def failure(folder: str, line: int) -> Failure:
        message = f'ValueError: {folder}/data.txt is missing\n  File "{folder}/calc.py", line {line}, in double'
        return raised(message, line=line)

    assert exact(failure(one, line)) == exact(failure(other, shifted))
    assert coarse(failure(one, line)) == coarse(failure(other, shifted))


@given(st.sets(words, min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_signatures_outlive_the_order_of_a_set(elements: set[str], chance: random.Random) -> None:
    def failure(order: list[str]) -> Failure:
        return raised("KeyError: {" + ", ".join(map(repr, order)) + "}", kind="KeyError")

    ordered = sorted(elements)
    shuffled = ordered[:]
    chance.shuffle(shuffled)
    assert exact(failure(ordered)) == exact(failure(shuffled))
    assert coarse(failure(ordered)) == coarse(failure(shuffled))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ValueError: 3 is too small", "ValueError: 7 is too small"),
        ("ValueError: no 'red'", "ValueError: no 'blue [1]'"),
        ("ValueError: can't use 'x'", "ValueError: can't use \"it's\""),
        ("ValueError: got [1, 2]", "ValueError: got [(3, 'x'), {}]"),
        ("ValueError: got None", "ValueError: got -1.5e3"),
        ("ValueError: got 1234567", "ValueError: got 7654321"),
        ("ValueError: got 3.14159e12", "ValueError: got 2.71828e12"),
    ],
)
def test_other_values_are_the_same_cause_and_not_the_same_failure(one: str, other: str) -> None:
    assert coarse(raised(one)) == coarse(raised(other))
    assert exact(raised(one)) != exact(raised(other))


def test_another_exception_message_or_statement_is_another_cause() -> None:
    first = raised("ValueError: too small")
    moved = first.model_copy(update={"frames": (*first.frames[:-1], Frame(path="calc.py", function="half"))})
    others = [raised("ValueError: too big"), raised("ValueError: too small", kind="KeyError"), moved]
    assert len({coarse(each) for each in (first, *others)}) == 4
    assert len({exact(each) for each in (first, *others)}) == 4


def test_the_values_of_an_assertion_are_not_its_cause() -> None:
    def failed(message: str) -> Failure:
        frame = Frame(path="test_a.py", line=3, function="test_a", source="assert double(number) == wanted")
        return Failure(test="test_a.py::test_a[1]", kind="AssertionError", message=message, frames=(frame,))

    assert coarse(failed("assert None == 4\n + where None = double(2)")) == coarse(failed("assert <Odd> == 8"))


def test_the_same_missing_module_is_one_cause_wherever_it_is_imported() -> None:
    def missing(file: str, name: str) -> Failure:
        frame = Frame(path=file, line=1, function="<module>", source=f"import {name}")
        message = f"ModuleNotFoundError: No module named '{name}'"
        return Failure(test=file, phase="collect", kind="ModuleNotFoundError", message=message, frames=(frame,))

    assert coarse(missing("test_a.py", "absent")) == coarse(missing("test_b.py", "absent"))
    assert coarse(missing("test_a.py", "absent")) != coarse(missing("test_a.py", "other"))


def test_the_same_missing_fixture_is_one_cause_in_every_file() -> None:
    def missing(test: str, name: str) -> Failure:
        where = test.partition("::")[0] + ":1"
        return Failure(test=test, where=where, kind="FixtureLookupError", message=f"fixture '{name}' not found")

    assert coarse(missing("test_a.py::a", "db")) == coarse(missing("test_b.py::b", "db"))
    assert coarse(missing("test_a.py::a", "db")) != coarse(missing("test_a.py::a", "web"))


def test_without_frames_only_the_parameters_of_one_test_are_taken_together() -> None:
    def compared(test: str, received: str) -> Failure:
        message = f"expected 1, received {received}"
        return Failure(test=test, where="a.test.js:3", message=message, expected="1", received=received)

    assert coarse(compared("adds[1]", "2")) == coarse(compared("adds[2]", "3"))
    assert coarse(compared("adds[1]", "2")) != coarse(compared("divides[1]", "2"))


def test_the_deepest_frame_of_the_product_stands_for_the_place() -> None:
    product = Frame(path="src/calc.py", function="double")
    helper = Frame(path="tests/helpers.py", function="check")
    test = Frame(path="tests/test_a.py", function="test_a")
    assert anchor(Failure(test="a", frames=(test, product, helper))) == product
    assert anchor(Failure(test="a", frames=(test, helper))) == helper
    assert anchor(Failure(test="a")) is None


@pytest.mark.parametrize(
    "path",
    [
        "test_a.py",
        "x/a_test.py",
        "conftest.py",
        "tests/helpers.py",
        "a.spec.ts",
        "b_test.go",
        "src/__tests__/a.js",
        "ATest.java",
    ],
)
def test_files_of_tests_are_known_by_their_names(path: str) -> None:
    assert is_test_file(path)


@pytest.mark.parametrize("path", ["calc.py", "src/latest.py", "contest.py", "testament/a.py", "attestation.go"])
def test_files_of_the_product_are_no_tests(path: str) -> None:
    assert not is_test_file(path)


def test_parameters_are_no_part_of_a_base_name() -> None:
    assert base_name("t.py::a[1-[x]]") == "t.py::a"
    assert base_name("t.py::a") == "t.py::a"


@given(st.text(max_size=2000))
def test_normalising_takes_any_text(text: str) -> None:
    assert normalised(text) == normalised(text)


def test_functions_without_a_name_are_told_apart_by_their_line() -> None:
    def failing(line: int, function: str, source: str = "") -> Failure:
        frame = Frame(path="lib/money.test.js", line=line, function=function, source=source)
        return Failure(test=f"t{line}", kind="AssertionError", message="not equal", frames=(frame,))

    assert coarse(failing(3, "TestContext.<anonymous>")) != coarse(failing(9, "TestContext.<anonymous>"))
    assert coarse(failing(3, "")) != coarse(failing(9, ""))
    assert coarse(failing(3, "round")) == coarse(failing(9, "round"))
    assert coarse(failing(3, "", "x = 1")) == coarse(failing(9, "", "x = 1"))


@pytest.mark.parametrize("source", ["raise LookupError(f'unknown user {name} in table')", "assert name in table, name"])
def test_the_words_that_one_statement_raises_are_not_its_cause(source: str) -> None:
    def unknown(name: str) -> Failure:
        frames = (Frame(path="test_a.py", function="test_a"), Frame(path="shop.py", function="find", source=source))
        return Failure(test=f"test_a.py::test_a[{name}]", kind="LookupError", message=f"{name} is new", frames=frames)

    assert coarse(unknown("alice")) == coarse(unknown("bob"))
    assert exact(unknown("alice")) != exact(unknown("bob"))


def test_an_assertion_in_a_helper_is_the_cause_of_the_test_that_asks() -> None:
    def checked(test: str, source: str, phase: Phase = "call", path: str = "helpers.py") -> Failure:
        helper = Frame(path=path, function="same", source="assert got == want")
        caller = Frame(path="test_a.py", function=test.partition("[")[0], source=source)
        message = "assert 1 == 2"
        return Failure(
            test=f"test_a.py::{test}", phase=phase, kind="AssertionError", message=message, frames=(caller, helper)
        )

    tax = checked("test_tax[1]", "same(tax(rate), wanted)")
    assert coarse(tax) == coarse(checked("test_tax[2]", "same(tax(rate), wanted)"))
    assert coarse(tax) != coarse(checked("test_tax[2]", "same(tax(rate), other)"))
    assert coarse(tax) != coarse(checked("test_ship", "same(ship(rate), wanted)"))
    assert coarse(checked("test_a", "a()", "call", "tests/shop.py")) != coarse(
        checked("test_b", "b()", "call", "tests/shop.py")
    )
    # What a fixture or the product asserts is one thing to mend for everyone.
    assert coarse(checked("test_a", "a()", "setup")) == coarse(checked("test_b", "b()", "setup"))
    assert coarse(checked("test_a", "a()", "call", "shop.py")) == coarse(checked("test_b", "b()", "call", "shop.py"))


def test_the_type_in_front_of_an_assertion_changes_no_signature() -> None:
    def failed(message: str) -> Failure:
        frame = Frame(path="test_a.py", line=3, function="test_a", source="check(one)")
        return Failure(test="test_a.py::test_a[1]", kind="AssertionError", message=message, frames=(frame,))

    assert coarse(failed("AssertionError: assert 'it is' == <Odd>")) == coarse(failed("assert 1 == 2"))
