"""Committing what a run changed: that and nothing else, or nothing at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_iterctl.errors import RepositoryError
from pytest_iterctl.work.commit import commit_change
from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.snapshots import Snapshots
from tests.work.repositories import KINDS, World, intercept, isolated, listing, user_state


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return isolated(tmp_path, monkeypatch)


class Run:
    """A loop that made one change and may commit it."""

    def __init__(self, world: World, change: Callable[[], object]) -> None:
        self.world = world
        self.repository = Repository.discover(world.root)
        self.snapshots = Snapshots(self.repository, world.private)
        self.base = self.snapshots.take("refs/iterctl/run/base", "base").commit
        change()
        self.final = self.snapshots.take("refs/iterctl/run/final", "final").commit

    def commit(self, message: str = "Fix it\n\nWith a body.\n") -> str:
        return commit_change(self.repository, self.snapshots, self.base, self.final, message)

    def refused(self, match: str, *, state: dict[str, object] | None = None) -> RepositoryError:
        before, files = state or user_state(self.world), listing(self.world.root, times=True)
        with pytest.raises(RepositoryError, match=match) as caught:
            self.commit()
        assert user_state(self.world) == before
        assert listing(self.world.root, times=True) == files
        return caught.value


def status(world: World) -> list[str]:
    return sorted(os.fsdecode(world.git("status", "--porcelain", "-z", "--untracked-files=all")).split("\0")[:-1])


def committed(world: World, commit: str) -> dict[str, str]:
    fields = os.fsdecode(world.git("show", "--name-status", "--no-renames", "-z", "--format=", commit)).split("\0")
    return dict(zip(fields[1::2], fields[0::2], strict=False))


def every_sort_of_change(world: World) -> None:
    world.write("a.py", "by the loop\n")
    world.write("new/file.py", "new\n")
    (world.root / "link").unlink()
    (world.root / "link").symlink_to("b.py")
    (world.root / "run.sh").chmod(0o644)
    (world.root / "binary.bin").unlink()
    world.write("binary.bin/inside", "a folder now\n")
    (world.root / "package/deep/er/file.txt").unlink()


EVERY_SORT = {
    "a.py": "M",
    "new/file.py": "A",
    "link": "M",
    "run.sh": "M",
    "binary.bin": "D",
    "binary.bin/inside": "A",
    "package/deep/er/file.txt": "D",
}


def test_exactly_the_change_is_committed_as_the_user(world: World) -> None:
    world.plain()
    parent = world.git("rev-parse", "HEAD").decode().strip()
    run = Run(world, lambda: every_sort_of_change(world))
    files = listing(world.root, times=True)
    commit = run.commit()
    assert committed(world, commit) == EVERY_SORT
    line = world.git("log", "-1", "--format=%an <%ae>|%cn <%ce>|%P|%B").decode().rstrip()
    user = "A User <user@example.org>"
    assert line == f"{user}|{user}|{parent}|Fix it\n\nWith a body."
    assert world.git("symbolic-ref", "HEAD").strip() == b"refs/heads/main"
    assert world.git("rev-parse", "main").decode().strip() == commit
    assert world.git("diff-files", "--name-only") == b""
    assert status(world) == []
    assert listing(world.root, times=True) == files
    assert not (world.root / ".git/index.lock").exists()


def test_the_reflog_has_an_ordinary_entry(world: World) -> None:
    world.plain()
    Run(world, lambda: world.write("a.py", "changed\n")).commit()
    for name in ("HEAD", "main"):
        newest = world.git("log", "-1", "--walk-reflogs", "--format=%gs|%gn", name).decode().strip()
        assert newest == "commit: Fix it|A User"


def test_nothing_changed_commits_nothing(world: World) -> None:
    world.plain()
    run = Run(world, lambda: None)
    state = user_state(world)
    assert run.commit() == ""
    assert user_state(world) == state


def test_an_empty_message_is_refused(world: World) -> None:
    world.plain()
    run = Run(world, lambda: world.write("a.py", "changed\n"))
    with pytest.raises(RepositoryError, match="message"):
        run.commit(" \n")


def test_other_work_of_the_user_stays_staged_unstaged_or_untracked(world: World) -> None:
    KINDS["staged, unstaged and untracked work"](world)
    before = status(world)
    staged = world.git("diff", "--cached")

    def change() -> None:
        world.write("package/deep/er/file.txt", "by the loop\n")
        world.write("new.py", "by the loop\n")

    commit = Run(world, change).commit()
    assert committed(world, commit) == {"package/deep/er/file.txt": "M", "new.py": "A"}
    assert status(world) == before
    assert world.git("diff", "--cached") == staged
    assert world.git("stash", "list").count(b"\n") == 1


def test_flags_and_intentions_in_the_index_stay(world: World) -> None:
    KINDS["assume unchanged and skip worktree"](world)
    world.write("intended.py", "soon\n")
    world.git("add", "--intent-to-add", "intended.py")
    flags, before = world.git("ls-files", "-v"), status(world)
    Run(world, lambda: world.write("package/module.py", "by the loop\n")).commit()
    assert world.git("ls-files", "-v") == flags
    assert status(world) == before


@pytest.mark.parametrize("kind", ["sparse checkout", "sparse index", "split index", "submodule", "awkward names"])
def test_unusual_repositories_keep_their_state(world: World, kind: str) -> None:
    KINDS[kind](world)
    before = status(world)
    commit = Run(world, lambda: world.write("binary.bin", "by the loop\n")).commit()
    assert committed(world, commit) == {"binary.bin": "M"}
    assert status(world) == before


def test_a_detached_head_moves_and_no_branch_does(world: World) -> None:
    KINDS["detached head"](world)
    branch = world.git("rev-parse", "main")
    commit = Run(world, lambda: world.write("b.py", "by the loop\n")).commit()
    assert world.git("rev-parse", "HEAD").decode().strip() == commit
    assert world.git("symbolic-ref", "-q", "HEAD", code=1) == b""
    assert world.git("rev-parse", "main") == branch


@pytest.mark.parametrize("kind", ["unborn branch", "empty repository"])
def test_an_unborn_branch_is_born(world: World, kind: str) -> None:
    KINDS[kind](world)
    before = status(world)
    commit = Run(world, lambda: world.write("by_the_loop.py")).commit()
    assert committed(world, commit) == {"by_the_loop.py": "A"}
    assert world.git("rev-parse", "main").decode().strip() == commit
    assert status(world) == before
    assert b"commit (initial): Fix it" in world.git("log", "-1", "--walk-reflogs", "--format=%gs")


def test_a_linked_work_tree_commits_on_its_own_branch(world: World) -> None:
    KINDS["linked work tree"](world)
    before = status(world)
    commit = Run(world, lambda: world.write("b.py", "by the loop\n")).commit()
    assert world.git("rev-parse", "side").decode().strip() == commit
    assert world.git("rev-parse", "main").decode().strip() != commit
    assert status(world) == before


def test_no_hook_runs(world: World) -> None:
    KINDS["failing hooks"](world)
    assert Run(world, lambda: world.write("b.py", "by the loop\n")).commit()
    assert not (world.folder / "hook-ran").exists()


def test_a_commit_is_not_signed(world: World) -> None:
    KINDS["strict settings"](world)
    assert Run(world, lambda: world.write("b.py", "by the loop\n")).commit()


def test_an_identity_of_the_environment_counts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.plain()
    (world.home / ".gitconfig").unlink()
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "A Robot")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "robot@example.org")
    commit = Run(world, lambda: world.write("b.py", "by the loop\n")).commit()
    assert world.git("log", "-1", "--format=%an <%ae>", commit).strip() == b"A Robot <robot@example.org>"


def test_no_identity_is_refused_with_what_to_do(world: World) -> None:
    world.plain()
    run = Run(world, lambda: world.write("b.py", "by the loop\n"))
    (world.home / ".gitconfig").unlink()
    assert "user.email" in run.refused("who you are").hint


def stage(world: World, name: str, content: str) -> None:
    world.write(name, content)
    world.git("add", "--force", name)


def unstaged_edit(world: World) -> None:
    world.write("a.py", "mine\n")


def staged_edit(world: World) -> None:
    stage(world, "a.py", "mine\n")


def staged_and_taken_back(world: World) -> None:
    stage(world, "a.py", "mine\n")
    world.write("a.py", "a = 1\n")


def deleted(world: World) -> None:
    (world.root / "a.py").unlink()


def deleted_from_the_index_only(world: World) -> None:
    world.git("rm", "--quiet", "--cached", "a.py")


def made_executable(world: World) -> None:
    (world.root / "a.py").chmod(0o755)


def assumed_unchanged(world: World) -> None:
    world.git("update-index", "--assume-unchanged", "a.py")
    world.write("a.py", "mine\n")


@pytest.mark.parametrize(
    "work",
    [
        unstaged_edit,
        staged_edit,
        staged_and_taken_back,
        deleted,
        deleted_from_the_index_only,
        made_executable,
        assumed_unchanged,
    ],
)
def test_uncommitted_work_in_a_changed_file_is_refused_by_name(world: World, work: Callable[[World], None]) -> None:
    world.plain()
    work(world)

    def change() -> None:
        world.write("a.py", "by the loop\n")
        world.write("b.py", "by the loop\n")

    error = Run(world, change).refused(r"a\.py$")
    assert "commit it yourself" in error.hint


def test_an_untracked_file_that_the_run_changed_is_refused(world: World) -> None:
    world.plain()
    world.write("mine.py", "mine\n")
    Run(world, lambda: world.write("mine.py", "by the loop\n")).refused("mine.py")


def test_a_new_file_that_is_only_staged_is_refused(world: World) -> None:
    world.plain()
    stage(world, "mine.py", "mine\n")
    (world.root / "mine.py").unlink()
    Run(world, lambda: world.write("mine.py", "by the loop\n")).refused("mine.py")


@pytest.mark.parametrize("staged", [False, True])
def test_a_folder_in_the_place_of_a_file_that_the_user_deleted_is_refused(world: World, staged: bool) -> None:
    world.plain()
    if staged:
        world.git("rm", "--quiet", "a.py")
    else:
        (world.root / "a.py").unlink()
    Run(world, lambda: world.write("a.py/inside.py")).refused(r"a\.py")


def test_a_file_in_the_place_of_a_folder_that_the_user_deleted_is_refused(world: World) -> None:
    world.plain()
    world.git("rm", "--quiet", "-r", "package")
    Run(world, lambda: world.write("package", "a file\n")).refused("package/")


def test_a_moved_head_is_refused(world: World) -> None:
    world.plain()
    run = Run(world, lambda: world.write("a.py", "by the loop\n"))
    world.git("commit", "--quiet", "--allow-empty", "--message", "meanwhile")
    run.refused("HEAD moved")


def test_another_branch_on_the_same_commit_is_refused(world: World) -> None:
    world.plain()
    run = Run(world, lambda: world.write("a.py", "by the loop\n"))
    world.git("checkout", "--quiet", "-b", "other")
    run.refused("HEAD moved")


def test_a_merge_in_progress_is_refused(world: World) -> None:
    KINDS["merge conflict"](world)
    error = Run(world, lambda: world.write("run.sh", "by the loop\n")).refused("merge is in progress")
    assert "end the merge" in error.hint


def test_a_held_index_lock_is_refused_and_stays(world: World) -> None:
    world.plain()
    run = Run(world, lambda: world.write("a.py", "by the loop\n"))
    (world.root / ".git/index.lock").write_text("somebody's")
    run.refused("another git command")
    assert (world.root / ".git/index.lock").read_text() == "somebody's"


def test_an_index_that_changes_meanwhile_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.plain()
    run = Run(world, lambda: world.write("a.py", "by the loop\n"))
    intercept(world, monkeypatch, "*commit-tree*", f"printf more >> '{world.root}/.git/index'")
    with pytest.raises(RepositoryError, match="index changed meanwhile"):
        run.commit()
    assert run.repository.current_head() == run.repository.head
    assert not (world.root / ".git/index.lock").exists()


def test_what_changed_after_the_final_snapshot_is_not_committed(world: World) -> None:
    world.plain()
    run = Run(world, lambda: world.write("a.py", "by the loop\n"))
    world.write("a.py", "by the user, later\n")
    world.write("later.py")
    commit = run.commit()
    assert world.git("show", f"{commit}:a.py") == b"by the loop\n"
    assert status(world) == [" M a.py", "?? later.py"]


def test_names_of_any_bytes_are_committed(world: World) -> None:
    world.plain()
    names = (b"-x", b"a\nb", b":(glob)*", b"caf\xe9", b"tab\there")
    commit = Run(world, lambda: [world.write(name) for name in names]).commit()
    assert set(committed(world, commit)) == {os.fsdecode(name) for name in names}
    assert status(world) == []
