"""Finding a repository, refusing what can't be worked on, and running git apart from the caller's surroundings."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from pytest_iterctl.errors import RepositoryError
from pytest_iterctl.work.git import Repository, complaint_of
from tests.work.repositories import World, isolated


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return isolated(tmp_path, monkeypatch)


def put_git_on_path(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    (folder / "git").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_facts_are_found_from_any_folder_below_the_root(world: World) -> None:
    world.plain()
    found = Repository.discover(world.root / "package/deep")
    assert found.root == world.root.resolve()
    assert found.git_dir == found.common_dir == world.root.resolve() / ".git"
    assert found.branch == "main"
    assert found.head == world.git("rev-parse", "HEAD").decode().strip()
    assert found.describe_head() == found.head[:7]


def test_a_file_stands_for_its_folder(world: World) -> None:
    world.plain()
    assert Repository.discover(world.root / "a.py").root == world.root.resolve()


def test_an_unborn_branch_has_a_name_and_no_commit(world: World) -> None:
    world.init()
    found = Repository.discover(world.root)
    assert (found.branch, found.head, found.describe_head()) == ("main", "", "unborn")


def test_a_detached_head_has_no_branch(world: World) -> None:
    world.plain()
    world.git("checkout", "--quiet", "--detach")
    assert Repository.discover(world.root).branch is None


def test_a_linked_work_tree_has_its_own_git_directory(world: World) -> None:
    world.plain()
    world.git("worktree", "add", "--quiet", "-b", "side", str(world.folder / "linked"))
    found = Repository.discover(world.folder / "linked")
    assert found.root == (world.folder / "linked").resolve()
    assert found.git_dir == world.root.resolve() / ".git/worktrees/linked"
    assert found.common_dir == world.root.resolve() / ".git"
    assert found.branch == "side"


def test_a_linked_work_tree_of_a_bare_repository_is_accepted(world: World) -> None:
    world.plain()
    bare = world.folder / "bare.git"
    world.git("clone", "--quiet", "--bare", str(world.root), str(bare))
    world.git("worktree", "add", "--quiet", "-b", "side", str(world.folder / "linked"), cwd=bare)
    assert Repository.discover(world.folder / "linked").root == (world.folder / "linked").resolve()


def test_no_repository_is_refused_with_what_to_do(world: World) -> None:
    with pytest.raises(RepositoryError, match="not in a git repository") as caught:
        Repository.discover(world.folder)
    assert "git init" in caught.value.hint


def test_a_missing_folder_is_refused(world: World) -> None:
    with pytest.raises(RepositoryError, match="does not exist"):
        Repository.discover(world.folder / "missing" / "deeper")


def test_a_bare_repository_is_refused(world: World) -> None:
    world.root.mkdir()
    world.git("init", "--quiet", "--bare")
    with pytest.raises(RepositoryError, match="bare repository") as caught:
        Repository.discover(world.root)
    assert "git worktree" in caught.value.hint


@pytest.mark.parametrize("inside", [".git", ".git/refs/heads"])
def test_a_start_inside_the_git_directory_is_refused(world: World, inside: str) -> None:
    world.plain()
    with pytest.raises(RepositoryError, match="inside a git directory"):
        Repository.discover(world.root / inside)


def test_missing_git_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.plain()
    monkeypatch.setenv("PATH", str(world.home))
    with pytest.raises(RepositoryError, match="not found on the PATH") as caught:
        Repository.discover(world.root)
    assert "install git" in caught.value.hint


@pytest.mark.parametrize("version", ["1.9.5", "2.29.3", "2.9.0"])
def test_an_old_git_is_refused(world: World, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    world.plain()
    put_git_on_path(world.folder / "old", f"echo 'git version {version}'", monkeypatch)
    with pytest.raises(RepositoryError, match="too old") as caught:
        Repository.discover(world.root)
    assert "2.30" in caught.value.hint


def test_something_that_is_not_git_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.plain()
    put_git_on_path(world.folder / "strange", "echo hello", monkeypatch)
    with pytest.raises(RepositoryError, match="hello"):
        Repository.discover(world.root)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_repository_of_somebody_else_is_refused_in_gits_words(world: World) -> None:
    world.plain()
    for path in (world.root, *world.root.rglob("*")):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    with pytest.raises(RepositoryError, match="ownership") as caught:
        Repository.discover(world.root)
    assert "git config --global --add safe.directory" in caught.value.hint
    assert "*" not in caught.value.hint


def test_variables_of_a_surrounding_git_call_have_no_effect(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.plain()
    other = world.init(world.folder / "other")
    for name, value in {
        "GIT_DIR": other / ".git",
        "GIT_WORK_TREE": other,
        "GIT_INDEX_FILE": other / "index",
        "GIT_OBJECT_DIRECTORY": other / "objects",
        "GIT_NAMESPACE": "strange",
        "GIT_CEILING_DIRECTORIES": world.root,
    }.items():
        monkeypatch.setenv(name, str(value))
    found = Repository.discover(world.root / "package")
    assert found.root == world.root.resolve()
    assert b"a.py" in found.git("ls-files", "-z").split(b"\0")


def test_a_rewritten_git_file_is_not_followed(world: World) -> None:
    world.plain()
    linked = world.folder / "linked"
    world.git("worktree", "add", "--quiet", "--detach", str(linked))
    found = Repository.discover(linked)
    trap = world.init(world.folder / "trap")
    world.git("config", "core.fsmonitor", f"touch {world.folder}/sprung; false", cwd=trap)
    (linked / ".git").write_text(f"gitdir: {trap}/.git\n")
    (found.git_dir / "commondir").write_text(f"{trap}/.git\n")
    assert b"a.py" in found.git("ls-files", "-z", "-m", "-c").split(b"\0")
    assert found.current_head() == found.head
    assert not (world.folder / "sprung").exists()


def test_a_failing_call_names_the_subcommand_and_gits_last_line(world: World) -> None:
    world.plain()
    with pytest.raises(RepositoryError, match=r"^git cat-file failed: fatal: Not a valid object name nonsense$"):
        Repository.discover(world.root).git("cat-file", "-p", "nonsense")


def test_a_vanished_work_tree_is_an_error_for_people(world: World) -> None:
    world.plain()
    found = Repository.discover(world.root)
    world.root.rename(world.folder / "moved")
    with pytest.raises(RepositoryError, match="is gone"):
        found.git("status")


def test_complaints_are_one_harmless_line() -> None:
    noisy = b"warning: first\n\x1b[31mfatal:\x1b[0m bad \x07name\x1b]0;title\x07\r\nhint: try harder\n\n"
    assert complaint_of(noisy) == "fatal: bad name"
    assert complaint_of(b"") == ""


def test_the_git_directory_gains_nothing_by_discovery(world: World) -> None:
    world.plain()
    before = {path: path.lstat().st_mtime_ns for path in world.root.rglob("*") if stat.S_ISREG(path.lstat().st_mode)}
    Repository.discover(world.root)
    after = {path: path.lstat().st_mtime_ns for path in world.root.rglob("*") if stat.S_ISREG(path.lstat().st_mode)}
    assert before == after
