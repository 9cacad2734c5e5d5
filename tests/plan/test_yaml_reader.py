from __future__ import annotations

import json
import math
import time
import tracemalloc
from collections.abc import Iterator

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_iterctl.errors import PlanError
from pytest_iterctl.plan.yaml_reader import MOST_ALIASES, read_yaml

needs_libyaml = pytest.mark.skipif(not hasattr(yaml, "CSafeLoader"), reason="PyYAML was built without libyaml")


@pytest.fixture(params=[pytest.param("libyaml", marks=needs_libyaml), "python"], autouse=True)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every behaviour holds with both of PyYAML's parsers."""
    if request.param == "python":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)


def read(text: str | bytes) -> object:
    return read_yaml(text if isinstance(text, bytes) else text.encode(), "f.yaml").data


def refusal(text: str | bytes) -> str:
    with pytest.raises(PlanError) as caught:
        read(text)
    return caught.value.render()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("Yes", "Yes"),
        ("22:30", "22:30"),
        ("2026-11-18", "2026-11-18"),
        ("1_000", "1_000"),
        ("0b1", "0b1"),
        ("'3'", "3"),
        ('"true"', "true"),
        ("'<<'", "<<"),
        ("true", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("3", 3),
        ("-17", -17),
        ("+3", 3),
        ("007", 7),
        ("0o17", 15),
        ("0x1F", 31),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("!!str 3", "3"),
        ("! 3", "3"),
        ("!!int '3'", 3),
        ("!!float 3", 3.0),
        ("!!null ''", None),
        ("|\n  a\n  b", "a\nb"),
        ("[a, {b: c}]", ["a", {"b": "c"}]),
        ("!!seq [1]", [1]),
        ("!!map {a: 1}", {"a": 1}),
    ],
)
def test_words_mean_what_the_core_schema_of_yaml_1_2_says(text: str, value: object) -> None:
    result = read(f"key: {text}")
    assert result == {"key": value}
    assert isinstance(result, dict)
    assert type(result["key"]) is type(value)


def test_not_a_number_is_a_number() -> None:
    data = read("key: .NaN")
    assert isinstance(data, dict)
    assert math.isnan(data["key"])


def test_aliases_repeat_their_anchor() -> None:
    assert read("a: &x [1, {b: 2}]\nc: *x\nd: &y 3\ne: *y\n") == {
        "a": [1, {"b": 2}],
        "c": [1, {"b": 2}],
        "d": 3,
        "e": 3,
    }


def test_a_byte_order_mark_and_windows_line_ends_are_fine() -> None:
    document = read_yaml(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n", "f.yaml")
    assert document.data == {"a": 1, "b": 2}
    assert document.mark(("b",), key=True) == (2, 1)


def test_marks_point_at_keys_and_values() -> None:
    document = read_yaml("é: 1\ntasks:\n  - id: x\n    needs: [a, '😀', c]\n".encode(), "f.yaml")
    assert document.mark((), key=False) == (1, 1)
    assert document.mark(("é",), key=True) == (1, 1)
    assert document.mark(("é",), key=False) == (1, 4)
    assert document.mark(("tasks",), key=True) == (2, 1)
    assert document.mark(("tasks", 0), key=False) == (3, 5)
    assert document.mark(("tasks", 0, "needs"), key=True) == (4, 5)
    assert document.mark(("tasks", 0, "needs", 2), key=False) == (4, 21)
    assert document.mark(("tasks", 1), key=False) is None
    assert document.mark(("tasks", 0, "needs", 2, "x"), key=True) is None


def test_marks_below_an_alias_point_at_what_is_written() -> None:
    document = read_yaml(b"a: &x\n  b: 1\nc: *x\n", "f.yaml")
    assert document.mark(("c", "b"), key=True) == (2, 3)
    assert document.mark(("c",), key=True) == (3, 1)


def test_lines_are_counted_as_editors_count_them() -> None:
    document = read_yaml("a: 'x\u2028y'\nb: 1\n".encode(), "f.yaml")
    assert document.mark(("b",), key=True) == (2, 1)


@pytest.mark.parametrize(
    ("text", "first_line", "hint"),
    [
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3:1: duplicate key", "it is already given on line 1"),
        ("x:\n  <<: {a: 1}\n", "f.yaml:2:3: merge keys (`<<`) are not supported", "write the keys out"),
        ("a: &x [1, *x]", "f.yaml:1:11: alias `x` repeats what it is a part of", ""),
        ("a: *x", "f.yaml:1:4: alias `x` has no anchor", "put `&x` before the value that it repeats"),
        ("a: !!python/name:os.system x", "f.yaml:1:4: tag `!!python/name:os.system` is not supported", "remove it"),
        ("a: !mine {b: 1}", "f.yaml:1:4: tag `!mine` is not supported", "remove it"),
        ("a: !!timestamp 2026-11-18", "f.yaml:1:4: tag `!!timestamp` is not supported", "remove it"),
        ("a: !!bool maybe", "f.yaml:1:4: `maybe` does not fit its tag", ""),
        ("a: !!map [1]", "f.yaml:1:4: tag `!!map` is not supported", "remove it"),
        ("a: 1\n1: b\n", "f.yaml:2:1: a key must be text, got `1`", "quote it"),
        ("a: 1\n? [b]\n: c\n", "f.yaml:2:3: a key must be plain text", "aliases, lists and tables can't be keys"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2:1: a second document begins here", "keep one document per file"),
        ("a:\n\tb: 1\n", "f.yaml:2:1: a tab can't be used here", "indent with spaces"),
        ("a: |\n x\n\ty\n", "f.yaml:3:1: a tab can't be used here", "indent with spaces"),
        ("a: @x\n", "f.yaml:1:4: text can't begin with `@`", "put it in quotation marks"),
        ("a: 'x\nb: 1\n", "f.yaml:1:4: this quotation mark is never closed", ""),
        ("a:\n  - [1, 2\n", "f.yaml:2:5: this `[` is never closed", ""),
        (
            "a: {b: [1, 2}\n",
            "f.yaml:1:13: expected `,` or `]` here",
            "quote text with brackets, braces or commas in it",
        ),
        ("a: 1\nb\n", "f.yaml:2:1: this line has no `:` after its key", ""),
        ("a: ]", "f.yaml:1:4: a value is expected here", ""),
        ("%YAML 3.0\n---\na: 1", "f.yaml:1:1: this version of YAML is not supported", "remove the `%YAML` line"),
        ("a: \x1b[31mred", "f.yaml:1:4: character U+001B can't be in a text file", ""),
        ("a: 1\nb: \0", "f.yaml:2:4: character U+0000 can't be in a text file", ""),
        (b"a: 1\nb: \xff\n", "f.yaml:2:4: byte 0xff is not UTF-8", "save it as UTF-8"),
        ("a: 1\n".encode("utf-16"), "f.yaml: is written in UTF-16", "save it as UTF-8"),
        ("a: 1\n".encode("utf-32"), "f.yaml: is written in UTF-32", "save it as UTF-8"),
        ("a: 1\n".encode("utf-16-le"), "f.yaml:1:2: character U+0000 can't be in a text file", ""),
        ("", "f.yaml: is empty", "expected a table of keys"),
        ("# nothing\n", "f.yaml: is empty", "expected a table of keys"),
        ("---\n", "f.yaml: is empty", "expected a table of keys"),
        ("[" * 65, "f.yaml:1:65: is nested more than 64 levels deep", ""),
        ("{[" * 65, "f.yaml:1:2: a key must be plain text", "aliases, lists and tables can't be keys"),
        ("a: " + "9" * 301, "f.yaml:1:4: a number of 301 digits", ""),
        ('{"a": 1, "a": 2}', "f.yaml:1:10: duplicate key", "it is already given on line 1"),
        ('{"a":' * 65, "f.yaml:1:321: is nested more than 64 levels deep", ""),
    ],
)
def test_a_refusal_says_what_where_and_what_to_do(text: str | bytes, first_line: str, hint: str) -> None:
    lines = refusal(text).splitlines()
    assert lines[0] == f"error: {first_line}"
    assert [line for line in lines if line.startswith("hint: ")] == ([f"hint: {hint}"] if hint else [])


def test_wrong_indentation_points_at_the_line_that_does_not_fit() -> None:
    assert refusal("a:\n  - b\n c: 1\n").startswith("error: f.yaml:3:2: this line does not fit the lines above it\n")
    assert refusal("a: b: c\n").startswith("error: f.yaml:1:5: a `:` is not expected here\n")


@pytest.mark.parametrize("escape", ["\\ud83d", "\\UFFFFFFFF", "\\q", "\\xZZ"])
def test_an_escape_that_is_none_is_refused(escape: str) -> None:
    assert "escape sequence" in refusal(f'a: "{escape}"')


def bomb(levels: int = 12) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 8)}]" for n in range(1, levels)]
    return "\n".join(lines)


def test_a_bomb_of_aliases_is_refused_quickly_in_little_memory() -> None:
    tracemalloc.start()
    started = time.monotonic()
    try:
        assert "the document has more than 200000 values" in refusal(bomb())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert time.monotonic() - started < 5
    assert peak < 10_000_000


def test_aliases_may_not_repeat_long_text_without_end() -> None:
    text = f"a: &x {'y' * 100_000}\nb: [{', '.join(['*x'] * 50)}]\n"
    assert "aliases repeat more than 1000000 characters" in refusal(text)


def test_aliases_are_counted() -> None:
    assert read(f"a: &x 1\nb: [{', '.join(['*x'] * MOST_ALIASES)}]\n")
    assert f"more than {MOST_ALIASES} aliases" in refusal(f"a: &x 1\nb: [{', '.join(['*x'] * (MOST_ALIASES + 1))}]\n")


def test_aliases_can_not_nest_deeper_than_text_can() -> None:
    deep = "[" * 40 + "1" + "]" * 40
    chain = f"a: &a {deep}\nb: {'[' * 40}*a{']' * 40}\n"
    assert "is nested more than 64 levels deep" in refusal(chain)


@pytest.mark.parametrize(
    "text", ["[" + "1," * 400_000, "- 1\n" * 240_000, "[" * 900_000, "a: {" * 200_000, "'" * 999_999]
)
def test_hostile_text_within_the_size_limit_is_refused_in_bounded_time(text: str) -> None:
    started = time.monotonic()
    assert refusal(text).startswith("error: f.yaml:")
    assert time.monotonic() - started < 60


def test_too_large_a_file_is_refused_without_parsing() -> None:
    text = b"a: 1\n" * 2_000_000
    started = time.monotonic()
    assert refusal(text) == "error: f.yaml: has 10,000,000 bytes, at most 1,000,000 are read"
    assert time.monotonic() - started < 5


def test_the_size_limit_is_the_callers() -> None:
    output = "  a line of test output\n" * 60_000
    document = read_yaml(f"output: |\n{output}".encode(), "check", limit=32_000_000)
    assert document.data == {"output": output.replace("  a", "a")}


def test_json_is_read_as_json_writers_write_it() -> None:
    value = {"text": "🎉 \x7f \u2028 \x00", "tasks": [{"id": "a"}, [], {}, 1, -1.5e3, True, None]}
    for text in (json.dumps(value), json.dumps(value, indent="\t"), json.dumps(value, ensure_ascii=False)):
        document = read_yaml(text.encode(), "f.json")
        assert document.data == value
    document = read_yaml(json.dumps(value, indent="\t").encode(), "f.json")
    assert document.mark(("tasks", 0, "id"), key=True) == (5, 4)
    assert document.mark(("tasks", 0, "id"), key=False) == (5, 10)


def test_half_a_surrogate_pair_in_json_becomes_a_replacement_character() -> None:
    assert read('{"a": "x\\ud83dy"}') == {"a": "x\ufffdy"}


def test_flow_yaml_that_is_not_json_is_read_as_yaml() -> None:
    assert read("{a: 1, b: [x, y,],} # done\n") == {"a": 1, "b": ["x", "y"]}
    assert read('{"a": NaN, "b": -Infinity}') == {"a": "NaN", "b": "-Infinity"}


keys = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
scalars = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | keys
)
plain_data = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4))
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@unhurried
@given(st.dictionaries(keys, plain_data, max_size=4))
def test_whatever_a_json_writer_writes_is_read_back(value: dict[str, object]) -> None:
    assert read(json.dumps(value)) == value


@unhurried
@given(st.dictionaries(keys, plain_data, max_size=4), st.booleans())
def test_whatever_pyyaml_writes_with_quotes_is_read_back(value: dict[str, object], flow: bool) -> None:
    text = yaml.safe_dump(value, default_flow_style=flow, default_style='"', allow_unicode=False)
    assert read(text) == value or "!!" in text


def every_path(data: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    if isinstance(data, dict):
        for key, value in data.items():
            yield from every_path(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from every_path(value, (*path, index))


@unhurried
@given(st.dictionaries(keys, plain_data, max_size=4), st.sampled_from([None, 2]))
def test_everything_that_is_read_has_a_place(value: dict[str, object], indent: int | None) -> None:
    for text in (json.dumps(value, indent=indent), f"--- # yaml\n{json.dumps({'k': value}, indent=indent)}"):
        try:
            document = read_yaml(text.encode(), "f.yaml")
        except PlanError:
            assert "\\u" in text or "\\b" in text  # JSON's escapes are not all YAML's
            continue
        for path in every_path(document.data):
            assert document.mark(path, key=True) is not None
            assert document.mark(path, key=False) is not None


yaml_like = st.text(st.sampled_from("ab:-?[]{},&*!|>'\"%@`#\n \t01.~<\\x\u2028é"), max_size=60)


@unhurried
@given(
    st.binary(max_size=200)
    | yaml_like.map(str.encode)
    | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace"))
)
def test_any_bytes_are_a_document_or_a_plan_error(data: bytes) -> None:
    try:
        document = read_yaml(data, "f.yaml")
    except PlanError as error:
        assert error.render().startswith("error: f.yaml")
    else:
        json.dumps(document.data)
