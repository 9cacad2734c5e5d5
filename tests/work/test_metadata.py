"""What an agent does to `.git` is seen, judged and undone; nothing of the user's and no commit is lost."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_iterctl.errors import RepositoryError, StoreError
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


# What is moved away, and what is in the place of it.


def moved_and_linked(path: Path, elsewhere: Path) -> None:
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def copied_and_linked(path: Path, elsewhere: Path) -> None:
    shutil.copytree(path, elsewhere, symlinks=True) if path.is_dir() else shutil.copy2(path, elsewhere)
    gone(path, elsewhere)
    path.symlink_to(elsewhere)


def gone(path: Path, _: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def an_empty_folder(path: Path, elsewhere: Path) -> None:
    gone(path, elsewhere)
    path.mkdir(mode=0o700)


def a_folder_with_files(path: Path, elsewhere: Path) -> None:
    an_empty_folder(path, elsewhere)
    (path / "heads").mkdir()
    (path / "heads/file").write_text("made by an agent\n")


def a_link_to_nowhere(path: Path, elsewhere: Path) -> None:
    gone(path, elsewhere)
    path.symlink_to("/nowhere/at/all")


def a_file(path: Path, elsewhere: Path) -> None:
    gone(path, elsewhere)
    path.write_text(f"gitdir: {elsewhere}\n")


def moved_with_a_file_that_leads_there(path: Path, elsewhere: Path) -> None:
    path.rename(elsewhere)
    path.write_text(f"gitdir: {elsewhere}\n")


def locked(path: Path, _: Path) -> None:
    path.chmod(0)


def all_locked(path: Path, _: Path) -> None:
    for each in (*sorted(path.rglob("*"), reverse=True), path):
        each.chmod(0)


WAYS = [
    *(moved_and_linked, copied_and_linked, gone, an_empty_folder, a_folder_with_files, a_link_to_nowhere, a_file),
    *(moved_with_a_file_that_leads_there, locked, all_locked),
]
PLACES = [
    *("", "objects", "objects/pack", "objects/info", "objects/FAN", "objects/FAN/LOOSE", "objects/pack/PACK"),
    *("refs", "refs/heads", "refs/heads/side", "packed-refs", "logs", "logs/HEAD", "hooks", "info"),
    *("HEAD", "config", "index"),
]


def packed(world: World) -> World:
    """With objects and references in files of each sort, and a work tree of the user's besides."""
    world.git("repack", "-q", "-d")
    world.git("pack-refs", "--all")
    commit(world, "loose.py")
    world.git("branch", "-f", "side", "side~1")
    world.git("worktree", "add", "--quiet", str(world.folder / "beside"), "-b", "beside")
    (world.root / ".git/another-tool").unlink()
    return world


def folders(world: World) -> dict[str, int]:
    found = {path: path.stat().st_mode for path in (world.root / ".git").rglob("*") if path.is_dir()}
    return {str(path): mode for path, mode in found.items() if "kept" not in path.parts}


def sound(world: World) -> tuple[bytes, ...]:
    fsck = world.git("fsck", "--no-progress", "--connectivity-only", "--no-dangling")
    refs = [each for each in world.git("show-ref").splitlines() if b"/kept/" not in each]
    return fsck, *refs, world.git("rev-parse", "HEAD"), world.git("status", "--porcelain"), world.git("ls-files", "-s")


@pytest.mark.parametrize("name", PLACES, ids=lambda name: name or ".git")
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_what_is_not_in_its_place_comes_back(world: World, way: Callable[[Path, Path], None], name: str) -> None:
    packed(world)
    dot = world.root / ".git"
    fan = next(path for path in sorted((dot / "objects").glob("??")))
    pack = next((dot / "objects/pack").glob("*.pack")).name
    path = dot / name.replace("FAN", fan.name).replace("LOOSE", next(fan.iterdir()).name).replace("PACK", pack)
    before, modes, state = everything(world), folders(world), sound(world)
    metadata = metadata_of(world)
    metadata.keep()
    way(path, world.folder / "elsewhere")
    if not name and way is a_folder_with_files:
        shutil.rmtree(dot / "heads")  # could be some other tool's, so it would stay
    seen = metadata.compare()
    told = metadata.put_back(seen)
    assert [each for each in told if not each.undone] == []
    assert everything(world) == before
    assert sound(world) == state
    now = folders(world)
    assert {folder: now[folder] for folder in modes.keys() & now.keys()} == {
        folder: mode for folder, mode in modes.items() if folder in now
    }
    assert not any(each.is_symlink() for each in (dot, *dot.rglob("*")))
    assert [each.what for each in metadata.compare().touched if name or each.what != ".git"] == []
    # Only what git makes anew by itself may go without a word.
    assert seen.touched or (name == "objects/info" and way in {gone, an_empty_folder, a_folder_with_files})


@pytest.mark.parametrize("committed", [False, True])
def test_objects_that_are_only_borrowed_are_no_longer_there(world: World, committed: bool) -> None:
    packed(world)
    before, state = everything(world), sound(world)
    metadata = metadata_of(world)
    metadata.keep()
    if committed:
        commit(world)
    objects = world.root / ".git/objects"
    objects.rename(world.folder / "elsewhere")
    (objects / "info").mkdir(parents=True)
    (objects / "info/alternates").write_text(f"{world.folder}/elsewhere\n")
    told = metadata.put_back(metadata.compare())
    assert all(each.undone for each in told)
    (world.root / "new.py").unlink(missing_ok=True)
    assert everything(world) == before
    assert sound(world) == state


def test_a_folder_that_is_a_link_of_the_users_stays_one(world: World) -> None:
    """As `git-new-workdir` makes them, and people who are short of room."""
    for name in ("objects", "logs"):
        moved_and_linked(world.root / ".git" / name, world.folder / name)
    metadata = metadata_of(world)
    metadata.keep()
    assert "behind a link" in metadata.problem
    before = everything(world)
    world.git("config", "core.fsmonitor", "./watch.sh")
    world.git("tag", "another")
    (world.root / ".git/objects").unlink()
    assert all(each.undone for each in metadata.put_back(metadata.compare()))
    assert everything(world) == before
    assert (world.root / ".git/objects").readlink() == world.folder / "objects"
    world.git("fsck", "--no-progress", "--connectivity-only")


@pytest.mark.parametrize("detached", [False, True])
def test_a_work_tree_that_an_agent_made_is_taken_off_the_list(world: World, detached: bool) -> None:
    packed(world)
    before, state = everything(world), sound(world)
    metadata = metadata_of(world)
    metadata.keep()
    made = world.folder / "made"
    world.git("worktree", "add", "--quiet", *(["--detach"] if detached else []), str(made))
    world.git("-C", str(made), "commit", "--quiet", "--allow-empty", "-m", "in there")
    lost = world.git("-C", str(made), "rev-parse", "HEAD").strip()
    world.git("-C", str(world.folder / "beside"), "commit", "--quiet", "--allow-empty", "-m", "by a person")
    seen = metadata.compare()
    assert ("linked work tree made", "is new") in [(each.what, each.how) for each in seen.touched]
    assert seen.destructive == ()
    assert [each for each in metadata.put_back(seen) if not each.undone] == []
    assert everything(world) == before
    assert sound(world)[0] == state[0]
    assert lost in commits(world)
    assert [path.name for path in (world.root / ".git/worktrees").iterdir()] == ["beside"]
    assert made.is_dir()
    assert metadata.compare().touched == ()


def test_a_work_tree_of_the_users_that_an_agent_removed_comes_back(world: World) -> None:
    packed(world)
    metadata = metadata_of(world)
    metadata.keep()
    index = (world.root / ".git/worktrees/beside/index").read_bytes()
    shutil.move(world.folder / "beside", world.folder / "moved")
    world.git("worktree", "prune")
    assert not (world.root / ".git/worktrees").exists()
    seen = metadata.compare()
    assert [each.what for each in seen.destructive] == ["linked work tree beside"]
    assert all(each.undone for each in metadata.put_back(seen))
    shutil.move(world.folder / "moved", world.folder / "beside")
    assert (world.root / ".git/worktrees/beside/index").read_bytes() == index
    assert world.git("-C", str(world.folder / "beside"), "status", "--porcelain") == b""


def test_a_commit_whose_files_were_taken_away_gets_no_name(world: World) -> None:
    packed(world)
    state = sound(world)
    metadata = metadata_of(world)
    metadata.keep()
    commit(world)
    tree = world.git("rev-parse", "HEAD^{tree}").decode().strip()
    (world.root / ".git/objects" / tree[:2] / tree[2:]).rename(world.folder / "elsewhere")
    assert all(each.undone for each in metadata.put_back(metadata.compare()))
    assert sound(world)[0] == state[0]


def test_a_branch_in_the_place_of_a_folder_of_branches_is_honest_work(world: World) -> None:
    world.git("branch", "work/one")
    metadata = metadata_of(world)
    metadata.keep()
    world.git("branch", "-m", "work/one", "in-between")
    world.git("branch", "-m", "in-between", "work")
    world.git("checkout", "--quiet", "work")
    made = commit(world)
    seen = metadata.compare()
    assert [each.what for each in seen.destructive] == ["refs/heads/work/one"]
    assert all(each.undone for each in metadata.put_back(seen))
    assert world.git("branch", "--list", "work/*").strip() == b"work/one"
    assert made.encode() in commits(world)


def test_after_a_crash_nothing_is_put_over_another_git_directory(world: World) -> None:
    digest = metadata_of(world).keep()
    moved_and_linked(world.root / ".git", world.folder / "moved")
    later = metadata_of(world)
    with pytest.raises(RepositoryError, match="since the turn that was cut off") as raised:
        later.load(digest)
    assert f"mv {world.folder / 'moved'} {world.root / '.git'}" in raised.value.hint


def test_folders_in_the_place_of_locks_give_way(world: World) -> None:
    metadata = metadata_of(world)
    metadata.keep()
    for name in ("index.lock", "refs/heads/main.lock"):
        (world.root / ".git" / name).mkdir()
    assert [each.undone for each in metadata.put_back(metadata.compare())] == [True, True]
    commit(world)


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
