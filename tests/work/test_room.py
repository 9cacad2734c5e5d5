"""What of a change comes into a clean room, and what stays outside."""

from __future__ import annotations

import os
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
    assert list(site.place.iterdir()) == []


def test_nothing_in_a_room_reaches_the_base(site: Site) -> None:
    with open_room(site.vault, site.base, site.change(), site.place) as room:
        (room.tree / "shop/money.py").write_text("spoiled\n")
    assert site.laid_out(site.change()) == BASE


def test_an_empty_base_and_an_empty_change_make_an_empty_room(site: Site) -> None:
    nothing = Contribution(Manifest(), frozenset(), ())
    with open_room(site.vault, Manifest(), nothing, site.place) as room:
        assert list(room.tree.iterdir()) == []
