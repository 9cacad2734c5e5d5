"""What an agent does to `.git` is seen, judged and undone; nothing of the user's and no commit is lost."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_iterctl.errors import StoreError
from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.metadata import Metadata
from tests.work.agent_turns import DESTRUCTIVE, HONEST, a_users_repository, commit, everything
from tests.work.repositories import KINDS, World, isolated, user_state

OWN = "refs/iterctl/run/"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    with pytest.MonkeyPatch.context() as patch:
        a_users_repository(isolated(folder, patch))
    (folder / "repository/.git/another-tool").write_text("its notes\n")
    return folder


@pytest.fixture
def world(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return copied(template, tmp_path, monkeypatch)


def copied(template: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    world = isolated(folder, monkeypatch)
    shutil.copytree(template / "repository", world.root, symlinks=True)
    shutil.copytree(template / "origin.git", world.folder / "origin.git", symlinks=True)
    world.git("remote", "set-url", "origin", str(world.folder / "origin.git"))
    world.git("status")
    return world


def metadata_of(world: World) -> Metadata:
    return Metadata(Repository.discover(world.root), world.private, own=OWN)


def commits(world: World) -> set[bytes]:
    return set(world.git("rev-list", "--all", "--reflog", code=None).split())


@pytest.mark.parametrize("turn", HONEST)
def test_an_honest_turn_is_not_blamed_and_the_users_state_comes_back(world: World, turn: str) -> None:
    before = everything(world)
    metadata = metadata_of(world)
    metadata.keep()
    HONEST[turn](world)
    known = commits(world)
    seen = metadata.compare()
    assert [each for each in seen.touched if each.destructive] == []
    told = metadata.put_back(seen)
    assert [each for each in told if not each.undone and each.what != "opencode"] == []
    after = everything(world)
    after.pop("opencode", None)
    assert after == before
    assert commits(world) >= known
    world.git("fsck", "--no-progress", "--connectivity-only")
    assert metadata.put_back(metadata.compare()) == () or turn == "is a tool with a folder"


LEFT = {"removes some tool's own"}


@pytest.mark.parametrize("turn", DESTRUCTIVE)
def test_a_destructive_turn_is_seen_and_undone(world: World, turn: str) -> None:
    before = everything(world)
    objects = set(world.git("rev-list", "--all", "--reflog", "--objects").splitlines())
    metadata = metadata_of(world)
    metadata.keep()
    DESTRUCTIVE[turn](world)
    seen = metadata.compare()
    assert seen.destructive, seen.touched
    told = metadata.put_back(seen)
    after = everything(world)
    if turn in LEFT or not (world.root / ".git/another-tool").exists():
        # What other tools keep in there is not ours to know.
        after["another-tool"] = before["another-tool"]
    else:
        assert [each for each in told if not each.undone] == []
    assert after == before
    assert set(world.git("rev-list", "--all", "--reflog", "--objects").splitlines()) >= objects
    world.git("fsck", "--no-progress", "--connectivity-only")
    world.git("status")


def test_nothing_is_touched_by_looking(world: World) -> None:
    before = user_state(world)
    metadata = metadata_of(world)
    assert metadata.keep() == metadata.keep()
    assert metadata.compare().touched == ()
    assert metadata.problem == ""
    assert user_state(world) == before


# Repositories of every kind, and any sequence of commands.


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("add", "--all"),
    ("commit", "--quiet", "--all", "--message", "work"),
    ("commit", "--quiet", "--allow-empty", "--message", "empty"),
    ("commit", "--quiet", "--allow-empty", "--amend", "--message", "other"),
    ("reset", "--quiet", "--soft", "HEAD~1"),
    ("reset", "--quiet", "--hard", "HEAD~1"),
    ("reset", "--quiet"),
    ("stash",),
    ("stash", "pop"),
    ("stash", "drop"),
    ("stash", "clear"),
    ("checkout", "--quiet", "-B", "feature"),
    ("checkout", "--quiet", "-b", "side/inner"),
    ("checkout", "--quiet", "--detach"),
    ("checkout", "--quiet", "--force", "main"),
    ("checkout", "--quiet", "--orphan", "alone"),
    ("branch", "-D", "side"),
    ("branch", "-D", "feature"),
    ("branch", "side/inner"),
    ("branch", "-m", "renamed"),
    ("tag", "--force", "v1"),
    ("tag", "--delete", "v2"),
    ("tag", "-a", "-f", "v3", "-m", "words"),
    ("merge", "--quiet", "--no-edit", "side"),
    ("rebase", "--quiet", "side"),
    ("cherry-pick", "side"),
    ("revert", "--no-edit", "HEAD"),
    ("pack-refs", "--all", "--prune"),
    ("gc", "--quiet"),
    ("gc", "--quiet", "--prune=now"),
    ("reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all"),
    ("update-ref", "-d", "HEAD"),
    ("update-ref", "refs/tool/state", "HEAD"),
    ("symbolic-ref", "HEAD", "refs/heads/nowhere"),
    ("config", "core.bare", "true"),
    ("config", "--remove-section", "remote.origin"),
    ("remote", "remove", "origin"),
    ("fetch", "--quiet", "--prune", "origin"),
    ("worktree", "add", "--quiet", "../more"),
    ("update-index", "--split-index"),
    ("update-index", "--index-version", "4"),
    ("read-tree", "--empty"),
    ("sparse-checkout", "set", "package"),
    ("bisect", "start", "HEAD", "HEAD~1"),
    ("notes", "add", "--force", "-m", "note"),
    ("replace", "HEAD", "HEAD~1"),
    ("init", "--quiet"),
)


def contents(world: World) -> dict[str, object]:
    """What `user_state` says without what no copy can have: times and inodes."""
    state = {name: facts[:2] for name, facts in user_state(world).items() if isinstance(facts, tuple)}
    return {name: facts for name, facts in state.items() if "/worktrees/more" not in name and "/modules/" not in name}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(turn=st.lists(st.sampled_from(COMMANDS), min_size=1, max_size=7))
def test_any_sequence_of_commands_is_undone_and_no_commit_is_lost(
    template: Path, tmp_path_factory: pytest.TempPathFactory, turn: list[tuple[str, ...]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        world = copied(template, tmp_path_factory.mktemp("sequence"), patch)
        before, at_first = contents(world), commits(world)
        metadata = metadata_of(world)
        metadata.keep()
        for number, command in enumerate(turn):
            world.write("a.py", f"edit {number}\n")
            world.git(*command, code=None)
        known = commits(world)
        # git itself takes a commit of nothing at all for broken: the empty tree is an object that it never writes.
        sound = b"missing tree 4b825dc" not in world.git("fsck", "--no-progress", "--connectivity-only", code=None)
        told = metadata.put_back(metadata.compare())
        assert all(each.undone for each in told)
        assert contents(world) == before
        assert commits(world) >= known | at_first
        world.git("fsck", "--no-progress", "--connectivity-only", code=0 if sound else None)
        assert metadata.compare().touched == ()


@pytest.mark.parametrize("kind", KINDS)
def test_repositories_of_every_kind_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    world = isolated(tmp_path, monkeypatch)
    KINDS[kind](world)
    before = contents(world)
    metadata = metadata_of(world)
    metadata.keep()
    assert metadata.compare().touched == ()
    for command in (
        *(("add", "--all"), ("commit", "--quiet", "--message", "all"), ("checkout", "--quiet", "-b", "new")),
        *(("commit", "--quiet", "--allow-empty", "--message", "on new"), ("stash",), ("reset", "--hard", "HEAD~1")),
        *(("merge", "--abort"), ("config", "user.name", "somebody"), ("gc", "--quiet"), ("tag", "here")),
    ):
        world.git(*command, code=None)
    known = commits(world)
    told = metadata.put_back(metadata.compare())
    assert all(each.undone for each in told)
    assert contents(world) == before
    assert commits(world) >= known


@pytest.mark.parametrize("kind", ["linked work tree", "submodule"])
def test_a_removed_dot_git_comes_back_in_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    world = isolated(tmp_path, monkeypatch)
    KINDS[kind](world)
    state, status = contents(world), world.git("status", "--porcelain", "--ignore-submodules")
    metadata = metadata_of(world)
    metadata.keep()
    dot = world.root / ".git"
    shutil.rmtree(dot) if dot.is_dir() else dot.unlink()
    seen = metadata.compare()
    assert seen.destructive
    assert all(each.undone for each in metadata.put_back(seen))
    assert contents(world) == state
    assert world.git("status", "--porcelain", "--ignore-submodules") == status


# People at work in another terminal, crashes, and what is hostile.


def test_a_commit_that_a_person_makes_in_between_stays(world: World) -> None:
    metadata = metadata_of(world)
    metadata.keep()
    agents = commit(world, "agent.py")
    seen = metadata.compare()
    theirs = commit(world, "person.py")
    told = metadata.put_back(seen)
    assert world.git("rev-parse", "main").decode().strip() == theirs
    assert [each.what for each in told if not each.undone and "refs" in each.what] == ["refs/heads/main"]
    assert agents.encode() in commits(world)


def test_what_is_undone_has_a_name(world: World) -> None:
    metadata = metadata_of(world)
    metadata.keep()
    lost = [commit(world, f"{number}.py") for number in range(3)]
    world.git("reset", "--quiet", "--hard", "HEAD~3")
    other = commit(world, "other.py")
    metadata.put_back(metadata.compare())
    kept = world.git("for-each-ref", "--format=%(objectname)", "refs/iterctl/kept/").decode().split()
    assert sorted(kept) == sorted([lost[-1], other])


def test_the_lock_of_a_git_at_work_is_respected(world: World) -> None:
    metadata = metadata_of(world)
    metadata.keep()
    world.git("add", "--all")
    seen = metadata.compare()
    (world.root / ".git/index.lock").touch()  # somebody's, after the look
    told = metadata.put_back(seen)
    assert [each.what for each in told if not each.undone] == ["index"]
    assert (world.root / ".git/index.lock").exists()


def test_a_lock_is_left_while_git_is_at_work_in_the_repository(world: World) -> None:
    metadata = metadata_of(world)
    metadata.keep()
    (world.root / ".git/index.lock").touch()
    with subprocess.Popen(["git", "cat-file", "--batch"], cwd=world.root, stdin=subprocess.PIPE) as process:
        told = metadata.put_back(metadata.compare())
        assert [each.undone for each in told] == [False]
        process.terminate()
        process.wait()
        assert [each.undone for each in metadata.put_back(metadata.compare())] == [True]


def test_snapshots_of_others_outlive_a_packing_that_is_undone(world: World) -> None:
    metadata = metadata_of(world)
    metadata.keep()
    commit_id = world.git("rev-parse", "HEAD").decode().strip()
    names = ["refs/iterctl/other/task/0-base", "refs/heads/iterctl/task", "refs/iterctl/kept/" + commit_id]
    for name in names:
        world.git("update-ref", name, commit_id)
    world.git("pack-refs", "--all", "--prune")
    metadata.put_back(metadata.compare())
    for name in names:
        assert world.git("rev-parse", name).decode().strip() == commit_id


def test_a_resume_goes_on_from_what_was_recorded(world: World) -> None:
    before = everything(world)
    digest = metadata_of(world).keep()
    DESTRUCTIVE["forgets everything"](world)
    DESTRUCTIVE["removes .git"](world)
    later = Metadata(
        Repository(world.root, world.root / ".git", world.root / ".git", "", "main"), world.private, own=OWN
    )
    later.load(digest)
    seen = later.compare()
    assert seen.destructive
    later.put_back(seen)
    assert everything(world) | {"another-tool": 0} == before | {"another-tool": 0}
    world.git("fsck", "--no-progress", "--connectivity-only")


def test_a_record_that_somebody_changed_is_refused(world: World) -> None:
    digest = metadata_of(world).keep()
    (world.private / "kept").write_bytes(b"[0, 0, 0, []]\n")
    with pytest.raises(StoreError, match="changed by somebody else"):
        metadata_of(world).load(digest)
    (world.private / "kept").unlink()
    with pytest.raises(StoreError, match="can't be read"):
        metadata_of(world).load(digest)


def test_nothing_is_written_through_a_link(world: World) -> None:
    outside = world.folder / "outside"
    outside.mkdir()
    (outside / "pre-push").write_text("mine\n")
    metadata = metadata_of(world)
    metadata.keep()
    for name in ("hooks", "refs", "logs", "objects"):
        shutil.rmtree(world.root / ".git" / name)
        (world.root / ".git" / name).symlink_to(outside)
    metadata.put_back(metadata.compare())
    assert [path.name for path in outside.iterdir()] == ["pre-push"]
    assert (outside / "pre-push").read_text() == "mine\n"
    world.git("fsck", "--no-progress", "--connectivity-only")


def test_hostile_settings_run_nothing_and_stop_nothing(world: World) -> None:
    metadata = metadata_of(world)
    metadata.keep()
    os.mkfifo(world.folder / "pipe")
    trap = f"[include]\n\tpath = {world.folder}/pipe\n[core]\n\tfsmonitor = touch {world.folder}/hook-ran\n"
    for path in (world.root / ".git/config", world.home / ".gitconfig"):
        path.write_text(path.read_text() + trap)
    (world.root / ".git/index").unlink()
    os.mkfifo(world.root / ".git/index")
    (world.root / ".git/refs/heads/side").unlink()
    os.mkfifo(world.root / ".git/refs/heads/side")
    (world.root / ".git/objects/info/alternates").write_text("/dev/zero\n")
    began = time.monotonic()
    assert all(each.undone for each in metadata.put_back(metadata.compare()))
    assert time.monotonic() - began < 5
    assert not (world.folder / "hook-ran").exists()


def test_thousands_of_references_are_told_in_few_words(world: World) -> None:
    commit_id = world.git("rev-parse", "HEAD").decode().strip()
    metadata = metadata_of(world)
    feed = "".join(f"create refs/tags/t{number} {commit_id}\n" for number in range(2000))
    world.git("update-ref", "--stdin", feed=feed.encode())
    metadata.keep()
    gone = "".join(f"delete refs/tags/t{number} {commit_id}\n" for number in range(2000))
    more = "".join(f"create refs/x{number}/y {commit_id}\n" for number in range(2000))
    world.git("update-ref", "--stdin", feed=(gone + more).encode())
    seen = metadata.compare()
    assert len(seen.touched) < 120
    assert len(seen.destructive) == 51
    assert all(each.undone for each in metadata.put_back(seen))


def test_objects_on_another_disk_are_copied_or_it_is_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, "another disk")

    monkeypatch.setattr(os, "link", refuse)
    (world.root / ".git/another-tool").unlink()
    metadata = metadata_of(world)
    metadata.keep()
    assert metadata.problem == ""
    DESTRUCTIVE["removes .git"](world)
    assert all(each.undone for each in metadata.put_back(metadata.compare()))
    world.git("fsck", "--no-progress", "--connectivity-only")
    monkeypatch.setattr("pytest_iterctl.work.git_objects.LARGEST_COPY", 10)
    metadata = Metadata(Repository.discover(world.root), world.folder / "second")
    metadata.keep()
    assert "too large to copy" in metadata.problem


def test_a_setting_that_is_undone_is_kept_for_the_person_whose_it_was(world: World) -> None:
    metadata = metadata_of(world)
    metadata.keep()
    world.git("config", "user.signingKey", "made by a person meanwhile")
    metadata.put_back(metadata.compare())
    assert any(b"made by a person meanwhile" in path.read_bytes() for path in (world.private / "undone").iterdir())


def test_references_in_tables_are_left_alone(world: World) -> None:
    """No git here writes them; what matters is that nothing is undone that can't be understood."""
    tables = world.root / ".git/reftable"
    tables.mkdir()
    (tables / "tables.list").write_text("one\n")
    metadata = metadata_of(world)
    metadata.keep()
    (tables / "tables.list").write_text("one\ntwo\n")
    world.git("config", "core.fsmonitor", "./watch.sh")
    made = commit(world)
    told = {each.what: each.undone for each in metadata.put_back(metadata.compare())}
    assert told["config"]
    assert not told["reftable"]
    assert world.git("rev-parse", "HEAD").decode().strip() == made
