"""Programs that convert contents are those that the user had configured when the run began, and no others."""

from __future__ import annotations

import json
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
    kept = json.loads((world.private / "filters.json").read_text())
    assert kept == {"filter.case.required": "true", "filter.case.clean": "cat", "filter.case.smudge": "cat"}
