"""Finding the one document that matters in everything an agent printed."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_iterctl.feedback.documents import Document, find_document


def anything(_document: Document) -> bool:
    return True


def with_status(document: Document) -> bool:
    return "status" in document


GOOD = {"status": "ok", "n": 1}
LINE = json.dumps(GOOD)
PRETTY = json.dumps(GOOD, indent=2)


@pytest.mark.parametrize(
    "text",
    [
        LINE,
        f"\n  {PRETTY}\n\n",
        f"Thinking…\n{LINE}\n",
        f"Thinking…\n{LINE}\nbye",
        f"Thinking…\n\n{PRETTY}\n",
        f"I say: {LINE}.",
        f"I say {PRETTY} and that's it {{",
        f"```json\n{PRETTY}\n```",
        f"Look:\n```\n{PRETTY}\n```\nbye",
        f"Look:\n~~~json\n{PRETTY}\n~~~\n",
        f"Look:\n```json\n{PRETTY}\n",
        "```yaml\nstatus: ok\nn: 1\n```",
        "```yml\nstatus: ok\nn: 1\n```\n\nHope this helps!",
        "status: ok\nn: 1\n",
        "# a comment\nstatus: ok\nn: 1\n",
        "Some thoughts.\n---\nstatus: ok\nn: 1\n",
        "---\nstatus: ok\nn: 1\n---\n",
        "---\nstatus: ok\nn: 1\n---\nThanks!",
        "{status: ok, n: 1}",
        f'{{"type": "start"}}\n{{"type": "text"}}\n{LINE}\n',
        f'[{{"type": "start"}}, {LINE}, {{"type": "end"}}]',
        f"warning: {{}} is empty\n{LINE}\nwarning: {{x}}",
        'if (a) { b(); }\nconst x = {"a": b};\n' + LINE,
        '{"a": {"b": {"c": \n' + LINE,
        f"\ufeff{LINE}",
        f"{LINE}\r\n",
    ],
)
def test_the_document_is_found(text: str) -> None:
    assert find_document(text, with_status) == GOOD


@pytest.mark.parametrize(
    "text",
    ["", "nothing", "{", "}{", "[1, 2]", '"status"', '{"other": 1}', "status", "1: 2", "```json\n```", "{1: 2}"],
)
def test_nothing_is_found_where_nothing_is(text: str) -> None:
    assert find_document(text, with_status) is None


@pytest.mark.parametrize(
    "text",
    [
        f'{{"status": "old"}}\n{LINE}',
        f'```json\n{{"status": "old"}}\n```\n{LINE}\n',
        f'{{"status": "old"}}\nthen\n```json\n{PRETTY}\n```\n',
        f'{{"status": "old"}} and then {LINE} and then {{"other": 2}}',
        '{"status": "old"}\n```yaml\nstatus: ok\nn: 1\n```\n',
        '{"status": "old"}\n---\nstatus: ok\nn: 1\n',
    ],
)
def test_the_last_one_that_is_accepted_wins(text: str) -> None:
    assert find_document(text, with_status) == GOOD


@pytest.mark.parametrize("wrap", ["{}", "x {} y", "x\n{}\n", "```json\n{}\n```", "```\n{}\n```\nbye"])
@pytest.mark.parametrize("indent", [None, 0, 2])
def test_a_document_wins_over_those_inside_it(wrap: str, indent: int | None) -> None:
    outer = {"status": "outer", "findings": [{"status": "inner"}, {"status": "inner"}]}
    assert find_document(wrap.replace("{}", json.dumps(outer, indent=indent)), with_status) == outer


def test_keys_that_are_no_strings_and_aliases_are_not_accepted() -> None:
    assert find_document("1: a\nstatus: ok\n", anything) is None
    assert find_document("status: &a ok\nother: *a\n", anything) is None


@pytest.mark.parametrize(
    "text",
    [
        "status: !!python/object/apply:os.system [exit]\n",
        "status: !!int ''\n",
        "status: !!timestamp x\n",
        "status: !!bool x\n",
        "status: 2024-99-99\n",
        "status: [a, b\n",
        "status: a: b\n",
        "? [a]\n: b\n",
        f"status: {'9' * 10_000}\n",
        f'{{"status": {"9" * 10_000}}}',
    ],
)
def test_what_no_loader_can_make_sense_of_is_no_document(text: str) -> None:
    find_document(text, lambda document: document.get("status") == "ok")


def test_a_document_of_several_megabytes_is_read_when_it_is_the_whole_output() -> None:
    document: dict[str, object] = {"status": "ok", "log": "x" * 5_000_000}
    assert find_document(json.dumps(document), with_status) == document


@pytest.mark.parametrize(
    "noise",
    [
        "{" * 10_000_000,
        "[" * 10_000_000,
        '{"a":' * 2_000_000,
        '{"a":"' * 2_000_000,
        '{"a":[' * 1_000_000 + "\n",
        "\n{" * 3_000_000,
        '\n{"' * 3_000_000,
        '\n{"a":1,' * 1_000_000,
        "```\n" * 1_000_000,
        "```yaml\na: b\n" * 300_000,
        "---\n" * 1_000_000,
        ("```yaml\n" + "a: b\n" * 12_000) * 15,
        "a: " * 20_000,
        "a: [" * 15_000,
        "a:\n" + " - " * 20_000,
        "a: b\n" * 12_000,
        "- " * 30_000,
        "? " * 30_000,
        "a: &x [1]\nb: [*x, *x]\n",
        "\n" * 10_000_000,
        " " * 10_000_000,
        "\\" * 5_000_000,
        "x" * 10_000_000,
    ],
    ids=lambda noise: repr(noise[:12]),
)
def test_ten_megabytes_of_anything_stay_fast(noise: str) -> None:
    started = time.monotonic()
    assert find_document(noise, with_status) is None
    assert find_document(f"{noise}\n{LINE}\n", with_status) == GOOD
    assert time.monotonic() - started < 60


def test_a_character_that_json_writes_as_two_escapes_is_one_in_yaml_too() -> None:
    text = '# a comment\n{"status": "ok", "\\ud83d\\ude00": ["\\ud83d\\ude00", "\\ud83d"]}\n'
    assert find_document(text, with_status) == {"status": "ok", "\U0001f600": ["\U0001f600", "\ud83d"]}


@given(
    st.text(max_size=200),
    st.dictionaries(st.text(max_size=5), st.one_of(st.integers(), st.text(max_size=10), st.booleans()), max_size=5),
)
@settings(deadline=None)
def test_a_json_line_at_the_end_is_found_after_any_chatter(chatter: str, document: dict[str, object]) -> None:
    document["status"] = "ok"
    assert find_document(f"{chatter}\n{json.dumps(document)}\n", with_status) == document


@given(st.text(alphabet='{}[]":,\\`~-\n \tabs01&*!?#', max_size=300))
@settings(deadline=None)
def test_any_text_gives_a_document_or_none(text: str) -> None:
    found = find_document(text, anything)
    assert found is None or all(isinstance(key, str) for key in found)
