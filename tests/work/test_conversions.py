"""What converts contents is what it was when the run began: the user's programs, line endings and attributes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.snapshots import Snapshots
from tests.work.repositories import World, isolated

BASE = "refs/iterctl/run/task/0-base"
NEXT = "refs/iterctl/run/task/1-generate"
UPPER, LOWER = "tr a-z A-Z", "tr A-Z a-z"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = isolated(tmp_path, monkeypatch)
    made.plain()
    return made


def snapshots_of(world: World) -> Snapshots:
    return Snapshots(Repository.discover(world.root), world.private)


def content(world: World, commit: str, name: str) -> bytes:
    return Repository.discover(world.root).git("cat-file", "blob", f"{commit}:{name}")


def attributes(world: World, text: str) -> None:
    path = world.root / ".git" / "info" / "attributes"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def test_a_filter_that_comes_later_changes_no_snapshot_and_no_restore(world: World) -> None:
    (world.root / "file.txt").write_text("as it was\n")
    base = snapshots_of(world).take(BASE, "base")
    ran = world.root.parent / "ran"
    world.git("config", "filter.a=b.evil.clean", f"touch {ran}; sed s/w/x/")
    world.git("config", "filter.a=b.evil.smudge", f"touch {ran}; sed s/w/y/")
    world.git("config", "filter.a=b.evil.required", "true")
    attributes(world, "* filter=a=b.evil\n")
    (world.root / "file.txt").write_text("was changed\n")
    snapshots = snapshots_of(world)
    after = snapshots.take(NEXT, "after")
    assert content(world, after.commit, "file.txt") == b"was changed\n"
    assert snapshots.restore(base.commit)
    assert (world.root / "file.txt").read_text() == "as it was\n"
    assert not ran.exists()


def test_the_user_s_own_filter_goes_on_working_as_it_was(world: World) -> None:
    world.git("config", "filter.case.clean", LOWER)
    world.git("config", "filter.case.smudge", UPPER)
    attributes(world, "*.txt filter=case\n")
    (world.root / "file.txt").write_text("LOUD\n")
    base = snapshots_of(world).take(BASE, "base")
    assert content(world, base.commit, "file.txt") == b"loud\n"
    world.git("config", "filter.case.clean", "cat")
    world.git("config", "--unset", "filter.case.smudge")
    (world.root / "file.txt").write_text("LOUDER\n")
    snapshots = snapshots_of(world)
    after = snapshots.take(NEXT, "after")
    assert content(world, after.commit, "file.txt") == b"louder\n"
    assert snapshots.restore(base.commit)
    assert (world.root / "file.txt").read_text() == "LOUD\n"


def test_a_setting_without_a_value_is_kept(world: World) -> None:
    with (world.root / ".git" / "config").open("a") as config:
        config.write('[filter "case"]\n\trequired\n\tclean = cat\n\tsmudge = cat\n')
    snapshots_of(world).take(BASE, "base")
    kept = json.loads((world.private / "conversions.json").read_text())["settings"]
    assert {key: value for key, value in kept.items() if key.startswith("filter.")} == {
        "filter.case.required": "true",
        "filter.case.clean": "cat",
        "filter.case.smudge": "cat",
    }


PLAIN = b"# $Id$\none\ntwo\n"


def planted_in_repository(world: World) -> None:
    attributes(world, "*.txt ident text eol=crlf\n")


def planted_at_home(world: World) -> None:
    path = world.home / ".config" / "git" / "attributes"
    path.parent.mkdir(parents=True)
    path.write_text("*.txt ident text eol=crlf\n")


def named_in_configuration(world: World) -> None:
    path = world.folder / "theirs"
    path.write_text("*.txt ident text eol=crlf\n")
    world.git("config", "core.attributesFile", str(path))


def set_in_configuration(world: World) -> None:
    world.git("config", "core.autocrlf", "true")
    world.git("config", "core.eol", "crlf")
    world.git("config", "core.symlinks", "false")
    world.git("config", "core.fileMode", "false")


@pytest.mark.parametrize(
    "plant", [planted_in_repository, planted_at_home, named_in_configuration, set_in_configuration]
)
@pytest.mark.parametrize("linked", [False, True])
def test_attributes_and_line_endings_that_come_later_change_nothing(
    world: World, plant: Callable[[World], None], *, linked: bool
) -> None:
    main = world.root
    if linked:
        world.root = world.folder / "linked"
        world.git("worktree", "add", "--quiet", str(world.root), cwd=main)
    (world.root / "file.txt").write_bytes(PLAIN)
    base = snapshots_of(world).take(BASE, "base")
    here, world.root = world.root, main
    plant(world)
    world.root = here
    (world.root / "file.txt").write_bytes(b"one\r\n")
    (world.root / "link").unlink()
    (world.root / "run.sh").unlink()
    snapshots = snapshots_of(world)
    after = snapshots.take(NEXT, "after")
    assert content(world, after.commit, "file.txt") == b"one\r\n"
    theirs = main / ".git" / "info" / "attributes"
    kept = theirs.read_bytes() if theirs.exists() else b""
    assert snapshots.restore(base.commit)
    assert (world.root / "file.txt").read_bytes() == PLAIN
    assert (world.root / "link").is_symlink()
    assert os.access(world.root / "run.sh", os.X_OK)
    assert (theirs.read_bytes() if theirs.exists() else b"") == kept
    assert snapshots.take(NEXT, "restored").tree == base.tree


def test_attributes_of_the_user_go_on_working_though_somebody_empties_them(world: World) -> None:
    attributes(world, "*.txt text eol=crlf\n")
    (world.root / "file.txt").write_bytes(b"one\r\n")
    base = snapshots_of(world).take(BASE, "base")
    assert content(world, base.commit, "file.txt") == b"one\n"
    attributes(world, "")
    (world.root / "file.txt").write_bytes(b"two\r\n")
    snapshots = snapshots_of(world)
    after = snapshots.take(NEXT, "after")
    assert content(world, after.commit, "file.txt") == b"two\n"
    assert snapshots.restore(base.commit)
    assert (world.root / "file.txt").read_bytes() == b"one\r\n"
    assert world.git("for-each-ref", "--format=%(refname)", "refs/iterctl").split() == [BASE.encode(), NEXT.encode()]
