"""What of a change comes into a clean room, and what stays outside."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pytest_iterctl.work.room import Contribution, contribution, open_room
from pytest_iterctl.work.vault import Manifest, Vault

BASE = {
    "shop/__init__.py": "",
    "shop/money.py": "old\n",
    "tests/test_money.py": "assert old\n",
    "data/rates.json": "{}\n",
    "single": "a file\n",
}


class Site:
    """A work tree and the vault that keeps its base."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.place = folder / "rooms"
        self.vault = Vault(folder / "vault")
        for name, content in BASE.items():
            self.write(name, content)
        self.base = self.vault.keep(self.root, [os.fsencode(name) for name in BASE])

    def write(self, name: str, content: str = "new\n") -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def change(self, *names: str, gone: tuple[str, ...] = (), installed: frozenset[str] = frozenset()) -> Contribution:
        changed = self.vault.keep(self.root, [os.fsencode(name) for name in names])
        return contribution(
            self.base,
            changed,
            [os.fsencode(name) for name in gone],
            is_protected=lambda path: path.startswith("tests/"),
            installed=installed,
        )

    def laid_out(self, change: Contribution) -> dict[str, str]:
        with open_room(self.vault, self.base, change, self.place) as room:
            files = [path for path in room.tree.rglob("*") if path.is_file()]
            return {str(path.relative_to(room.tree)): path.read_text() for path in files}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def reasons(change: Contribution) -> dict[str, str]:
    return {left.name: left.reason for left in change.left_out}


def test_the_base_alone_is_the_base(site: Site) -> None:
    site.write("shop/money.py", "changed on disk, and not part of any change\n")
    assert site.laid_out(site.change()) == BASE


def test_changed_new_and_removed_files_of_the_product_count(site: Site) -> None:
    site.write("shop/money.py", "fixed\n")
    site.write("shop/new.py", "more\n")
    change = site.change("shop/money.py", "shop/new.py", gone=("data/rates.json",))
    laid = site.laid_out(change)
    assert (laid["shop/money.py"], laid["shop/new.py"], "data/rates.json" in laid) == ("fixed\n", "more\n", False)
    assert change.left_out == ()


def test_protected_files_are_those_of_the_base(site: Site) -> None:
    site.write("tests/test_money.py", "assert True\n")
    change = site.change("tests/test_money.py", gone=("tests/test_money.py",))
    assert site.laid_out(change) == BASE
    assert [left.reason for left in change.left_out] == ["is protected", "was removed, and is protected"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("shop/__pycache__/money.cpython-311.pyc", "is compiled code, which would be run in place of its source"),
        ("shop/money.pyc", "is compiled code, which would be run in place of its source"),
        ("evil.pth", "is run by Python before anything else"),
        ("sitecustomize.py", "is run by Python before anything else"),
        ("fake-1.0.dist-info/entry_points.txt", "is metadata of an installed package, which could register a plugin"),
        ("shop.egg-info/entry_points.txt", "is metadata of an installed package, which could register a plugin"),
        ("pytest.py", "would be imported in place of pytest"),
        ("pluggy/__init__.py", "would be imported in place of pluggy"),
        ("src/json.py", "would be imported in place of json"),
        ("requests/__init__.py", "would be imported in place of requests"),
    ],
)
def test_what_would_be_picked_up_by_itself_stays_outside(site: Site, name: str, reason: str) -> None:
    site.write(name)
    change = site.change(name, installed=frozenset({"requests"}))
    assert reasons(change) == {name: reason}
    assert site.laid_out(change) == BASE


@pytest.mark.parametrize("name", ["shop/json.py", "shop/pytest.py", "random.txt", "docs/types/index.md", "app.py"])
def test_names_that_shadow_nothing_are_welcome(site: Site, name: str) -> None:
    site.write(name)
    assert site.laid_out(site.change(name)) == {**BASE, name: "new\n"}


def test_links_stay_outside(site: Site) -> None:
    (site.root / "shop/link.py").symlink_to("/etc/hostname")
    (site.root / "shop/up.py").symlink_to("../../elsewhere.py")
    (site.root / "shop/git").symlink_to("../.git/config")
    change = site.change("shop/link.py", "shop/up.py", "shop/git")
    out = "is a link that leads out of the tree"
    assert reasons(change) == {"shop/link.py": out, "shop/up.py": out, "shop/git": out}


def test_a_file_in_the_place_of_a_folder_and_the_other_way_round(site: Site) -> None:
    (site.root / "single").unlink()
    site.write("single/inner.py")
    (site.root / "data/rates.json").unlink()
    (site.root / "data").rmdir()
    site.write("data")
    laid = site.laid_out(site.change("single/inner.py", "data"))
    assert (laid["single/inner.py"], laid["data"]) == ("new\n", "new\n")
    assert not {"single", "data/rates.json"} & set(laid)


def test_a_room_is_its_own_world_and_is_gone_afterwards(site: Site) -> None:
    with open_room(site.vault, site.base, site.change(), site.place) as room:
        folders = [room.tree, room.home, room.scratch, room.bytecode]
        assert all(folder.is_dir() for folder in folders)
        assert [list(folder.iterdir()) for folder in folders[1:]] == [[], [], []]
        assert set(room.variables()) >= {"HOME", "TMPDIR", "PYTHONPYCACHEPREFIX"}
        (room.tree / "left.txt").write_text("by a test\n")
        bytecode = room.bytecode
    assert list(site.place.iterdir()) == [bytecode]


def _spoil(how: str, folder: Path) -> None:
    """What code that ran in a room may have done to the folder of its bytecode."""
    compiled = folder / "lib/json.pyc"
    match how:
        case "forged" | "COMPILED":
            compiled.write_text(how)
        case "gone" | "link" | "pipe" | "folder":
            compiled.unlink()
            if how == "link":
                compiled.symlink_to("/etc/hostname")
            elif how == "pipe":
                os.mkfifo(compiled)
            elif how == "folder":
                compiled.mkdir()
        case "program":
            compiled.chmod(0o755)
        case "new":
            (folder / "new/deep").mkdir(parents=True)
            (folder / "new/deep/x.pyc").write_text("planted")
            (folder / "new.pyc").write_text("planted")
        case "linked folder":
            (folder / "lib").rename(folder.parent / "away")
            (folder / "lib").symlink_to("../away")
        case "closed":
            (folder / "lib").chmod(0)
        case _:
            shutil.rmtree(folder)
            if how == "all a link":
                folder.symlink_to("room")
            elif how == "all a file":
                folder.write_text("no folder")


@pytest.mark.parametrize(
    "how",
    [
        *("forged", "COMPILED", "gone", "link", "pipe", "folder", "program", "new", "linked folder", "closed"),
        *("all a link", "all a file", "all gone"),
    ],
)
def test_whatever_a_room_does_to_its_bytecode_the_next_one_has_what_was_kept(
    site: Site, tmp_path: Path, how: str
) -> None:
    source = tmp_path / "compiled"
    (source / "lib").mkdir(parents=True)
    (source / "lib/json.pyc").write_bytes(b"compiled")
    (source / "top.pyc").write_bytes(b"top")
    compiled = site.vault.keep(source, [b"lib/json.pyc", b"top.pyc"])
    for visit in range(2):
        with open_room(site.vault, site.base, site.change(), site.place, bytecode=compiled) as room:
            found = {str(path.relative_to(room.bytecode)): path for path in room.bytecode.rglob("*")}
            assert sorted(found) == ["lib", "lib/json.pyc", "top.pyc"]
            assert not any(path.is_symlink() for path in (*found.values(), room.bytecode))
            assert found["lib/json.pyc"].read_bytes() == b"compiled"
            if visit == 0:
                _spoil(how, room.bytecode)
    away = site.place / "away"
    assert not away.exists() or (away / "json.pyc").read_bytes() == b"compiled"


def test_bytecode_that_is_as_it_was_is_not_written_again(site: Site, tmp_path: Path) -> None:
    (tmp_path / "compiled").mkdir()
    (tmp_path / "compiled/top.pyc").write_bytes(b"top")
    compiled = site.vault.keep(tmp_path / "compiled", [b"top.pyc"])
    seen = set()
    for _ in range(2):
        with open_room(site.vault, site.base, site.change(), site.place, bytecode=compiled) as room:
            seen.add((room.bytecode / "top.pyc").stat().st_ino)
    assert len(seen) == 1


def test_nothing_in_a_room_reaches_the_base(site: Site) -> None:
    with open_room(site.vault, site.base, site.change(), site.place) as room:
        (room.tree / "shop/money.py").write_text("spoiled\n")
    assert site.laid_out(site.change()) == BASE


def test_an_empty_base_and_an_empty_change_make_an_empty_room(site: Site) -> None:
    nothing = Contribution(Manifest(), frozenset(), ())
    with open_room(site.vault, Manifest(), nothing, site.place) as room:
        assert list(room.tree.iterdir()) == []
