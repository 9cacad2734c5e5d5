"""Paths of the work tree are those of the room inside of it, and only they; people see the work tree's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_iterctl.work.mapping import environment_into_room, into_room, out_of_room

ROOT, TREE = Path("/nowhere/shop"), Path("/states/room-1/tree")

parts = st.text(alphabet="ab.é -[]:=\\1", min_size=1, max_size=6).filter(lambda part: part not in {".", ".."})
below = st.lists(parts, max_size=4).map(lambda found: "".join(f"/{part}" for part in found))
options = st.sampled_from(["", "--junitxml=", "-o=", "cache_dir=", "--override-ini=cache_dir=", "PYTHON_PATH="])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/nowhere/shop", "/states/room-1/tree"),
        ("/nowhere/shop/", "/states/room-1/tree/"),
        ("/nowhere/shop/tests", "/states/room-1/tree/tests"),
        ("/nowhere/shop/a/../b", "/states/room-1/tree/a/../b"),
        ("--junitxml=/nowhere/shop/x.xml", "--junitxml=/states/room-1/tree/x.xml"),
        ("cache_dir=/nowhere/shop/c", "cache_dir=/states/room-1/tree/c"),
        ("--override-ini=cache_dir=/nowhere/shop/c", "--override-ini=cache_dir=/states/room-1/tree/c"),
        ("/nowhere/shop/t.py::test_b[/x]", "/states/room-1/tree/t.py::test_b[/x]"),
        ("/nowhere/shop/t.py::test_b[../../../x]", "/states/room-1/tree/t.py::test_b[../../../x]"),
        ("/nowhere/shop/t.py::test_b[/nowhere/shop]", "/states/room-1/tree/t.py::test_b[/nowhere/shop]"),
        ("/nowhere/shop/a=b", "/states/room-1/tree/a=b"),
    ],
)
def test_a_path_below_the_root(text: str, expected: str) -> None:
    assert into_room(text, ROOT, TREE) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tests",
        "-q",
        "/nowhere",
        "/nowhere/shopping",
        "/nowhere/shop.old/x",
        "/nowhere/shop-2",
        "/nowhere/shop/../other",
        "/elsewhere/nowhere/shop",
        "see /nowhere/shop/x",
        "file:///nowhere/shop/x",
        "not /nowhere/shop=/nowhere/shop",
        "tests/test_a.py::test_b[/nowhere/shop]",
    ],
)
def test_other_text_is_left_alone(text: str) -> None:
    assert into_room(text, ROOT, TREE) == text


@given(options, below)
def test_there_and_back_again(option: str, rest: str) -> None:
    text = f"{option}{ROOT}{rest}"
    mapped = into_room(text, ROOT, TREE)
    assert mapped == f"{option}{TREE}{rest}"
    assert out_of_room(mapped, ROOT, TREE) == text
    assert into_room(mapped, ROOT, TREE) == mapped


@given(st.text() | st.builds("{}{}".format, st.text(max_size=5), below))
def test_text_without_the_path_never_changes(text: str) -> None:
    assume("nowhere" not in text and "states" not in text)
    assert into_room(text, ROOT, TREE) == text
    assert out_of_room(text, ROOT, TREE) == text


@given(st.lists(st.text(alphabet="a./ -\n:'\"", max_size=5) | st.just(str(TREE)), max_size=6))
def test_people_see_the_root_wherever_the_tree_stood(pieces: list[str]) -> None:
    expected = " ".join(str(ROOT) if piece == str(TREE) else piece for piece in pieces)
    assert out_of_room(" ".join(pieces), ROOT, TREE) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("in /states/room-1/tree.", "in /nowhere/shop."),
        ("'/states/room-1/tree/a.py':3", "'/nowhere/shop/a.py':3"),
        ("-I/states/room-1/tree/include", "-I/nowhere/shop/include"),
        ("file:///states/room-1/tree/a", "file:///nowhere/shop/a"),
        ("/states/room-1/trees /states/room-1/tree.old", "/states/room-1/trees /states/room-1/tree.old"),
        ("/states/room-1/tree\n/states/room-1/tree", "/nowhere/shop\n/nowhere/shop"),
    ],
)
def test_texts_for_people(text: str, expected: str) -> None:
    assert out_of_room(text, ROOT, TREE) == expected


def test_a_path_with_a_backslash_is_no_template() -> None:
    assert out_of_room("/states/room-1/tree/a", Path(r"/odd\1"), TREE) == r"/odd\1/a"


def test_the_root_of_all_is_no_work_tree() -> None:
    assert into_room("/etc/hosts", Path("/"), TREE) == "/etc/hosts"
    assert out_of_room("/etc/hosts", ROOT, Path("/")) == "/etc/hosts"


def test_both_spellings_of_a_linked_root_and_tree(tmp_path: Path) -> None:
    for name in ("long/root", "long/tree"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "short").symlink_to("long")
    root, tree = tmp_path / "short/root", tmp_path / "short/tree"
    assert into_room(f"{tmp_path}/short/root/a", root, tree) == f"{tree}/a"
    assert into_room(f"{tmp_path}/long/root/a", root, tree) == f"{tree}/a"
    assert out_of_room(f"{tmp_path}/long/tree/a {tmp_path}/short/tree/b", root, tree) == f"{root}/a {root}/b"


# Variables ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree/src").mkdir(parents=True)
    (tmp_path / "tree/a:b").mkdir()
    (tmp_path / "tree/settings.ini").touch()
    return tmp_path / "tree"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("SETTINGS", "/nowhere/shop/settings.ini", "{tree}/settings.ini"),
        ("PWD", "/nowhere/shop", "{tree}"),
        ("PYTHONPATH", "/nowhere/shop/src:/usr/lib", "{tree}/src:/usr/lib"),
        ("PYTHONPATH", "lib:/nowhere/shop/src", "lib:{tree}/src"),
        ("FOLDERS", "/nowhere/shop/src::/nowhere/shop", "{tree}/src::{tree}"),
        ("PATH", "/nowhere/shop/.venv/bin:/nowhere/shop/src:/bin", "/nowhere/shop/.venv/bin:{tree}/src:/bin"),
        ("ODD", "/nowhere/shop/a:b", "{tree}/a:b"),
    ],
)
def test_paths_in_variables(tree: Path, name: str, value: str, expected: str) -> None:
    mapped = environment_into_room({name: value, "OTHER": "x"}, ROOT, tree)
    assert mapped == {name: expected.format(tree=tree), "OTHER": "x"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VIRTUAL_ENV", "/nowhere/shop/.venv"),
        ("DATABASE_URL", "sqlite:////nowhere/shop/settings.ini"),
        ("DATABASE_URL", "file:/nowhere/shop/settings.ini"),
        ("PYTEST_ADDOPTS", "-c /nowhere/shop/settings.ini"),
        ("NOTE", "see /nowhere/shop/src"),
        ("OTHER", "/nowhere/shopping/src"),
        ("OTHER", "/nowhere/shop/" + "x" * 5000),
        ("EMPTY", ""),
    ],
)
def test_values_that_stay(tree: Path, name: str, value: str) -> None:
    assert environment_into_room({name: value}, ROOT, tree) == {name: value}


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=30) | below.map(lambda rest: f"{ROOT}{rest}")))
def test_nothing_is_mapped_into_a_room_that_is_not_there(environment: dict[str, str]) -> None:
    assert environment_into_room(environment, ROOT, TREE) == environment


@given(st.lists(st.sampled_from([f"{ROOT}/bin", f"{ROOT}/usr", "/bin", "", f"{ROOT}/nowhere", "lib"]), max_size=6))
def test_each_entry_of_a_list_is_mapped_by_itself(entries: list[str]) -> None:
    # The room is the whole system here, so that `bin` and `usr` exist in it.
    system = Path("/proc/self/root")
    there = {f"{ROOT}/bin": f"{system}/bin", f"{ROOT}/usr": f"{system}/usr"}
    mapped = environment_into_room({"PATH": os.pathsep.join(entries)}, ROOT, system)
    assert mapped == {"PATH": os.pathsep.join(there.get(entry, entry) for entry in entries)}
