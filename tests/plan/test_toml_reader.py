from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.errors import PlanError
from pytest_iterctl.plan.toml_reader import read_toml

TEXT = '''\
# a project
[project]
name = "x" # not ours
urls = { home = "a.b", "odd key" = [1, 2] }
description = """
[tool.iterctl]
fake = 1
"""

[tool.iterctl.settings]
max_iterations = 4
safety = { level = "normal", max_total_cost = 7.5 }
review = [
  "critic",  # the first
  'other',
]
timeout.x = 1

[[tool.iterctl.tasks]]
id = "a"

[[tool.iterctl.tasks]]
id = "b"
needs = ["a"]

[tool.iterctl.tasks.test]
command = ["npm", "test"]

[tool.iterctl.agents."my coder"]
command = 'x'
'''


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_keys_and_values_have_their_places(end: str) -> None:
    document = read_toml(TEXT.replace("\n", end).encode(), "pyproject.toml")
    table = ("tool", "iterctl")
    assert document.mark(("project", "urls", "home"), key=True) == (4, 10)
    assert document.mark(("project", "urls", "odd key", 1), key=False) == (4, 40)
    assert document.mark((*table, "settings"), key=True) == (10, 15)
    assert document.mark((*table, "settings", "max_iterations"), key=True) == (11, 1)
    assert document.mark((*table, "settings", "max_iterations"), key=False) == (11, 18)
    assert document.mark((*table, "settings", "safety", "max_total_cost"), key=True) == (12, 30)
    assert document.mark((*table, "settings", "review", 1), key=False) == (15, 3)
    assert document.mark((*table, "settings", "timeout", "x"), key=True) == (17, 9)
    assert document.mark((*table, "tasks", 0, "id"), key=True) == (20, 1)
    assert document.mark((*table, "tasks", 1), key=False) == (22, 1)
    assert document.mark((*table, "tasks", 1, "needs", 0), key=False) == (24, 10)
    assert document.mark((*table, "tasks", 1, "test", "command", 1), key=False) == (27, 19)
    assert document.mark((*table, "agents", "my coder", "command"), key=True) == (30, 1)
    assert document.mark((*table, "fake"), key=True) is None


def test_dotted_keys_without_a_header_have_their_places() -> None:
    document = read_toml(b"tool.iterctl.settings.max_iterations = 4\n", "pyproject.toml")
    assert document.data == {"tool": {"iterctl": {"settings": {"max_iterations": 4}}}}
    assert document.mark(("tool", "iterctl", "settings", "max_iterations"), key=True) == (1, 23)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        (b"a = 1\nb = \n", "error: p.toml:2:5: "),
        (b"a = 1\na = 2\n", "error: p.toml:2:"),
        (b"a = [1,", "error: p.toml:1:"),
        (b"a = \xff", "error: p.toml:1:5: byte 0xff is not UTF-8"),
        (b"\xff\xfea", "error: p.toml: is written in UTF-16"),
        (b"a = 2026-99-99", "error: p.toml:1:"),
        (b"a = " + b"[" * 5000, "error: p.toml:1:"),
        (b"a = " + b"[" * 70 + b"]" * 70, "error: p.toml:1:1: is nested more than 64 levels deep"),
        (b"a = " + b"9" * 5000, "error: p.toml:1:"),
        (b"x" * 1_000_001, "error: p.toml: has 1,000,001 bytes, at most 1,000,000 are read"),
    ],
)
def test_broken_toml_is_refused_with_its_place(text: bytes, start: str) -> None:
    with pytest.raises(PlanError) as caught:
        read_toml(text, "p.toml")
    assert caught.value.render().startswith(start)


def test_endless_dotted_keys_are_refused_quickly() -> None:
    started = time.monotonic()
    with pytest.raises(PlanError, match="more than 1000 dots"):
        read_toml(b"a." * 400_000 + b"a = 1\n", "p.toml")
    assert time.monotonic() - started < 10


toml_like = st.text(st.sampled_from("ab.=[]{},\"'#\n \t01-\\é"), max_size=60)


@given(st.binary(max_size=100) | toml_like.map(str.encode))
def test_any_bytes_are_a_document_or_a_plan_error(data: bytes) -> None:
    try:
        document = read_toml(data, "p.toml")
    except PlanError as error:
        assert error.render().startswith("error: p.toml")
    else:
        assert isinstance(document.data, dict)
        for key in document.data:
            assert document.mark((key,), key=True) is not None
