"""A run's own copy of the work tree holds what is there, is never written through a link, and says what it misses."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from pytest_iterctl.errors import ExitCode, IterctlError
from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.own_tree import OwnTree
from tests.work.repositories import World, isolated, listing


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = isolated(tmp_path, monkeypatch)
    made.plain()
    return made


def copied(world: World) -> OwnTree:
    return OwnTree.make(Repository.discover(world.root), world.private)


@pytest.mark.parametrize("is_relative", [False, True])
def test_a_folder_that_is_a_link_by_now_is_copied_as_one(world: World, is_relative: bool) -> None:
    elsewhere = world.folder / "elsewhere"
    (world.root / "package").rename(elsewhere)
    (elsewhere / "only-there.txt").write_text("theirs\n")
    (world.root / "package").symlink_to("../elsewhere" if is_relative else elsewhere)
    before = listing(elsewhere, times=True)
    tree = copied(world)
    assert (tree.tree / "package").readlink() == (world.root / "package").readlink()
    assert listing(tree.tree) == listing(world.root)
    assert listing(elsewhere, times=True) == before


def test_a_folder_that_is_a_file_by_now(world: World) -> None:
    shutil.rmtree(world.root / "package")
    world.write("package", "a file\n")
    assert listing(copied(world).tree) == listing(world.root)


def refuse(monkeypatch: pytest.MonkeyPatch, name: str, code: int) -> None:
    """As for a user whose file it is not: root, who may run this, can read everything."""
    real = shutil.copyfile

    def copy(source: Path, target: Path, **options: bool) -> object:
        if Path(source).name == name:
            raise OSError(code, os.strerror(code), os.fspath(source))
        return real(source, target, **options)

    monkeypatch.setattr(shutil, "copyfile", copy)


def test_an_ignored_file_that_can_not_be_read_is_left_out_by_name(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, "output.o", errno.EACCES)
    world.write("build/other.o")
    tree = copied(world)
    assert tree.left_out == ("build/output.o: Permission denied",)
    assert (tree.tree / "build/other.o").exists()
    assert not (tree.tree / "build/output.o").exists()


def test_any_other_file_that_can_not_be_read_is_named_with_the_reason(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, "module.py", errno.EACCES)
    with pytest.raises(IterctlError) as raised:
        copied(world)
    assert raised.value.message == "the work tree can't be copied for the run: package/module.py: Permission denied"
    assert ".gitignore" in raised.value.hint
    assert raised.value.exit_code == ExitCode.USAGE
    assert not (world.private / "tree.partial").exists()


@pytest.mark.parametrize("name", ["a.py", "output.o"])
def test_what_vanishes_meanwhile_is_left(world: World, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    refuse(monkeypatch, name, errno.ENOENT)
    tree = copied(world)
    assert tree.left_out == ()
    assert listing(tree.tree).keys() == {each for each in listing(world.root) if not each.endswith(name.encode())}


def test_a_full_disk_is_said_to_be_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, "a.py", errno.ENOSPC)
    with pytest.raises(IterctlError, match=r"a\.py: No space left on device") as raised:
        copied(world)
    assert "more room" in raised.value.hint
