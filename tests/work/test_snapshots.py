"""Taking snapshots, going back to them, comparing them: exactly, and without touching what is the user's."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_iterctl.errors import RepositoryError
from pytest_iterctl.text import file_name
from pytest_iterctl.work.capture import PrivateIndex
from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.snapshots import Snapshots
from pytest_iterctl.work.untracked import Limits
from tests.work.repositories import KINDS, World, disturb, intercept, isolated, listing, stored, user_state

BASE = "refs/iterctl/run/task/0-base"
NEXT = "refs/iterctl/run/task/1-generate"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return isolated(tmp_path, monkeypatch)


def snapshots_of(world: World, **limits: int) -> Snapshots:
    return Snapshots(Repository.discover(world.root), world.private, **limits)


# What is the user's stays the user's.


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_the_users_changes_and_everything_comes_back(world: World, kind: str) -> None:
    KINDS[kind](world)
    state, files = user_state(world), listing(world.root, times=True)
    snapshots = snapshots_of(world)
    snapshots.survey()
    base = snapshots.take(BASE, "base")
    assert user_state(world) == state
    assert listing(world.root, times=True) == files

    disturb(world, stored(world, base.commit))
    disturbed = listing(world.root)
    after = snapshots.take(NEXT, "after")
    assert listing(world.root) == disturbed
    assert after.left_out == base.left_out

    for _ in range(2):
        assert snapshots.restore(base.commit)
        assert listing(world.root) == {name: facts[:-1] for name, facts in files.items()}
        assert snapshots.restore(after.commit)
        assert listing(world.root) == disturbed
    assert snapshots.restore(base.commit)
    assert not snapshots.restore(base.commit)
    assert user_state(world) == state
    assert snapshots.take(NEXT, "again").tree == base.tree


@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_holds_exactly_the_files_that_are_there_and_not_ignored(world: World, kind: str) -> None:
    KINDS[kind](world)
    there = {name for name in listing(world.root) if not name.endswith(b".ignored") and not name.startswith(b"build/")}
    there = {name for name in there if name != b".git" and not name.startswith((b"sub/", b"nested/with"))}
    absent = {
        "sparse checkout": {b"elsewhere/file.txt", b"elsewhere/other.txt", b"package/deep/er/file.txt"},
        "sparse index": {b"elsewhere/file.txt", b"elsewhere/other.txt", b"package/deep/er/file.txt"},
        "assume unchanged and skip worktree": {b"gone.py"},
    }
    names = stored(world, snapshots_of(world).take(BASE, "base").commit)
    assert set(names) == there | absent.get(kind, set())


@pytest.mark.parametrize("kind", KINDS)
def test_another_object_on_the_same_folder_goes_on_where_the_last_one_was_killed(world: World, kind: str) -> None:
    KINDS[kind](world)
    base = snapshots_of(world).take(BASE, "base")
    disturb(world, stored(world, base.commit))
    after = snapshots_of(world).take(NEXT, "after")
    (world.private / "index.lock").touch()
    later = snapshots_of(world)
    assert later.take(NEXT, "again").tree == after.tree
    assert later.restore(base.commit)
    assert snapshots_of(world).take(NEXT, "restored").tree == base.tree


def test_a_snapshot_is_a_commit_of_ours_on_top_of_head(world: World) -> None:
    world.plain()
    taken = snapshots_of(world).take(BASE, "the message\n")
    form = "--format=%an <%ae>|%cn <%ce>|%P|%T|%s"
    line = world.git("log", "-1", form, taken.commit).decode().strip()
    head = world.git("rev-parse", "HEAD").decode().strip()
    ours = "iterctl <iterctl@localhost>"
    assert line == f"{ours}|{ours}|{head}|{taken.tree}|the message"
    assert world.git("rev-parse", BASE).decode().strip() == taken.commit


def test_a_snapshot_on_an_unborn_branch_has_no_parent(world: World) -> None:
    world.init()
    taken = snapshots_of(world).take(BASE, "base")
    assert world.git("log", "-1", "--format=%P", taken.commit).strip() == b""


def test_a_name_is_moved_by_the_next_snapshot(world: World) -> None:
    world.plain()
    snapshots = snapshots_of(world)
    snapshots.take(BASE, "one")
    world.write("a.py", "changed\n")
    second = snapshots.take(BASE, "two")
    assert snapshots.list_refs() == {BASE: second.commit}


@pytest.mark.parametrize("ref", ["refs/heads/main", "HEAD", "refs/iterctl/../heads/main", "refs/iterctl/a b", "-d"])
def test_a_name_outside_our_own_is_refused(world: World, ref: str) -> None:
    world.plain()
    state = user_state(world)
    with pytest.raises(RepositoryError):
        snapshots_of(world).take(ref, "base")
    assert user_state(world) == state


def test_the_private_folder_must_be_outside_the_work_tree(world: World) -> None:
    world.plain()
    with pytest.raises(RepositoryError, match="inside the work tree") as caught:
        Snapshots(Repository.discover(world.root), world.root / "state")
    assert "ITERCTL_STATE_DIR" in caught.value.hint


def test_a_held_index_lock_is_no_obstacle(world: World) -> None:
    world.plain()
    (world.root / ".git/index.lock").touch()
    snapshots = snapshots_of(world)
    base = snapshots.take(BASE, "base")
    world.write("a.py", "changed\n")
    assert snapshots.restore(base.commit)
    assert (world.root / "a.py").read_text() == "a = 1\n"


def test_a_read_only_index_is_no_obstacle(world: World) -> None:
    world.plain()
    (world.root / ".git/index").chmod(0o400)
    snapshots = snapshots_of(world)
    base = snapshots.take(BASE, "base")
    world.write("new.py")
    assert snapshots.take(NEXT, "next").tree != base.tree


@pytest.mark.parametrize("content", [b"", b"garbage", b"DIRC\0\0\0\x63" + bytes(24)])
def test_an_index_that_this_git_cannot_read_is_no_obstacle(world: World, content: bytes) -> None:
    world.plain()
    expected = snapshots_of(world).take(BASE, "base").tree
    (world.root / ".git/index").write_bytes(content)
    other = Snapshots(Repository.discover(world.root), world.folder / "other")
    assert other.take(NEXT, "next").tree == expected
    assert (world.root / ".git/index").read_bytes() == content


def test_objects_of_another_repository_are_used(world: World) -> None:
    world.plain()
    clone = world.folder / "clone"
    world.git("clone", "--quiet", "--shared", str(world.root), str(clone))
    world.root = clone
    world.write("a.py", "changed\n")
    snapshots = snapshots_of(world)
    base = snapshots.take(BASE, "base")
    (clone / "a.py").unlink()
    assert snapshots.restore(base.commit)
    assert (clone / "a.py").read_text() == "changed\n"


# Every edit is seen.


def test_an_edit_of_the_same_size_in_the_same_second_is_seen(world: World) -> None:
    world.plain()
    snapshots = snapshots_of(world)
    trees = set()
    for number in range(10):
        world.write("a.py", f"a = {number}\n")
        world.write("untracked.py", f"u = {number}\n")
        trees.add(snapshots.take(BASE, "base").tree)
    assert len(trees) == 10


def test_an_edit_right_after_a_commit_is_seen(world: World) -> None:
    world.plain()
    world.write("a.py", "a = 2\n")
    world.commit()
    world.write("a.py", "a = 3\n")
    base = snapshots_of(world).take(BASE, "base")
    assert world.git("show", f"{base.commit}:a.py") == b"a = 3\n"


def test_an_edit_with_its_old_time_stamp_in_the_second_of_the_last_one_is_seen(world: World) -> None:
    world.plain()
    snapshots = snapshots_of(world)
    for number in range(40):  # many of them lie within one second
        content = f"{number:04}\n"
        os.utime(world.write("a.py", content), (1_000_000_000, 1_000_000_000))
        base = snapshots.take(BASE, "base")
        assert world.git("show", f"{base.commit}:a.py").decode() == content


def test_an_edit_with_an_old_time_stamp_is_seen(world: World) -> None:
    world.plain()
    path = world.root / "a.py"
    os.utime(path, (1_000_000_000, 1_000_000_000))
    snapshots = snapshots_of(world)
    base = snapshots.take(BASE, "base")
    while int(path.stat().st_ctime) == int((world.private / "index").stat().st_mtime):
        path.write_text("a = 9\n")
        os.utime(path, (1_000_000_000, 1_000_000_000))
    path.write_text("a = 7\n")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    assert snapshots.difference(base.commit, snapshots.take(NEXT, "next").commit).files == ("a.py",)


def test_a_file_that_appears_where_a_sparse_checkout_has_none_is_seen_and_goes(world: World) -> None:
    KINDS["sparse checkout"](world)
    snapshots = snapshots_of(world)
    base = snapshots.take(BASE, "base")
    world.write("elsewhere/file.txt", "made by an agent\n")
    after = snapshots.take(NEXT, "after")
    assert snapshots.difference(base.commit, after.commit).files == ("elsewhere/file.txt",)
    assert snapshots.restore(base.commit)
    assert (world.root / "elsewhere/file.txt").read_text() == "content\n"
    assert not (world.root / "elsewhere/other.txt").exists()


def test_line_ending_conversion_does_not_stop_snapshots(world: World) -> None:
    world.plain()
    world.git("config", "core.autocrlf", "true")
    world.git("config", "core.safecrlf", "true")
    world.write("windows.txt", "one\r\ntwo\r\n")
    world.write("mixed.txt", "one\r\ntwo\n")
    snapshots = snapshots_of(world)
    base = snapshots.take(BASE, "base")
    assert snapshots.take(NEXT, "again").tree == base.tree
    (world.root / "windows.txt").unlink()
    world.write("a.py", "changed\r\n")
    assert snapshots.restore(base.commit)
    assert (world.root / "windows.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert (world.root / "mixed.txt").read_bytes() == b"one\r\ntwo\n"


def test_replaced_objects_do_not_change_what_is_restored(world: World) -> None:
    world.plain()
    snapshots = snapshots_of(world)
    base = snapshots.take(BASE, "base")
    world.write("a.py", "changed\n")
    after = snapshots.take(NEXT, "after")
    world.git("replace", base.commit, after.commit)
    assert snapshots.restore(base.commit)
    assert (world.root / "a.py").read_text() == "a = 1\n"


@pytest.mark.parametrize(
    "deed",
    ["rm '{root}/new.py'", "rm '{root}/new.py'; mkdir '{root}/new.py'; echo x > '{root}/new.py/inside'"],
    ids=["vanishes", "becomes a folder"],
)
def test_a_file_that_changes_while_it_is_read_is_looked_at_again(
    world: World, monkeypatch: pytest.MonkeyPatch, deed: str
) -> None:
    world.plain()
    world.write("new.py")
    world.write("other.py")
    intercept(world, monkeypatch, "*update-index*--add*", deed.format(root=world.root))
    taken = snapshots_of(world).take(BASE, "base")
    there = {name for name in listing(world.root) if not name.endswith(b".ignored") and not name.startswith(b"build/")}
    assert set(stored(world, taken.commit)) == there


def test_a_git_that_goes_on_failing_is_reported_in_its_words(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.plain()
    world.write("new.py")
    intercept(world, monkeypatch, "*update-index*--add*", 'rmdir "$0.d"; echo no >&2; exit 9')
    with pytest.raises(RepositoryError, match="git update-index failed: no"):
        snapshots_of(world).take(BASE, "base")


# What is left out.


def test_pipes_and_sockets_are_not_there(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.plain()
    os.mkfifo(world.root / "pipe")
    monkeypatch.chdir(world.root)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
    (world.root / "a.py").unlink()
    os.mkfifo(world.root / "a.py")
    taken = snapshots_of(world).take(BASE, "base")
    assert not {b"pipe", b"socket", b"a.py"} & set(stored(world, taken.commit))
    assert taken.left_out == ()


def test_nested_repositories_are_left_out_named_and_never_touched(world: World) -> None:
    KINDS["nested repositories"](world)
    snapshots = snapshots_of(world)
    (warning,) = snapshots.survey().warnings
    assert "nested/with_commit/" in warning
    assert "nested/without_commit/" in warning
    base = snapshots.take(BASE, "base")
    assert base.left_out == ("nested/with_commit/", "nested/without_commit/")
    (world.root / "nested/with_commit/inner.txt").write_text("changed\n")
    (world.root / "nested/beside.txt").unlink()
    assert snapshots.restore(base.commit)
    assert (world.root / "nested/with_commit/inner.txt").read_text() == "changed\n"
    assert (world.root / "nested/beside.txt").exists()


def test_a_nested_repository_that_loses_its_git_folder_is_still_not_deleted_by_a_restore(world: World) -> None:
    KINDS["nested repositories"](world)
    snapshots = snapshots_of(world)
    base = snapshots.take(BASE, "base")
    for name in ("with_commit", "without_commit"):
        (world.root / "nested" / name / ".git").rename(world.folder / name)
    world.write("a.py", "changed\n")
    after = snapshots.take(NEXT, "after")
    assert after.left_out == base.left_out
    assert snapshots.restore(base.commit)
    assert (world.root / "nested/with_commit/inner.txt").exists()
    assert (world.root / "nested/without_commit/inner.txt").exists()


def test_a_folder_that_becomes_a_repository_is_still_captured(world: World) -> None:
    world.plain()
    snapshots = snapshots_of(world)
    base = snapshots.take(BASE, "base")
    world.init(world.root / "package")
    world.write("package/module.py", "changed\n")
    after = snapshots.take(NEXT, "after")
    assert snapshots.difference(base.commit, after.commit).files == ("package/module.py",)
    assert snapshots.restore(base.commit)
    assert (world.root / "package/module.py").read_text() == "one\ntwo\nthree\n"


def test_a_restore_refuses_to_replace_a_repository_by_a_file(world: World) -> None:
    world.plain()
    snapshots = snapshots_of(world)
    base = snapshots.take(BASE, "base")
    (world.root / "a.py").unlink()
    world.init(world.root / "a.py")
    (world.root / "a.py/work.txt").write_text("work\n")
    world.write("b.py", "changed\n")
    with pytest.raises(RepositoryError, match=r"a\.py/") as caught:
        snapshots.restore(base.commit)
    assert "move it" in caught.value.hint
    assert (world.root / "a.py/work.txt").exists()
    assert (world.root / "b.py").read_text() == "changed\n"


def test_huge_untracked_files_are_left_out_and_never_touched(world: World) -> None:
    world.plain()
    world.write("data/huge.bin", b"x" * 2000)
    snapshots = snapshots_of(world, largest_file=1000)
    (warning,) = snapshots.survey().warnings
    assert "data/huge.bin (2 kB)" in warning
    base = snapshots.take(BASE, "base")
    assert base.left_out == ("data/huge.bin",)
    world.write("data/huge.bin", b"now small")
    world.write("a.py", "changed\n")
    assert snapshots.take(NEXT, "after").left_out == ("data/huge.bin",)
    assert snapshots.restore(base.commit)
    assert (world.root / "data/huge.bin").read_bytes() == b"now small"


def test_tracked_files_are_captured_at_any_size(world: World) -> None:
    world.plain()
    world.write("a.py", b"x" * 2000)
    taken = snapshots_of(world, largest_file=1000).take(BASE, "base")
    assert taken.left_out == ()
    assert world.git("cat-file", "-s", f"{taken.commit}:a.py").strip() == b"2000"


def test_a_captured_file_that_grows_huge_keeps_its_last_version(world: World) -> None:
    world.plain()
    world.write("log.txt", "small\n")
    snapshots = snapshots_of(world, largest_file=1000)
    base = snapshots.take(BASE, "base")
    world.write("log.txt", b"x" * 2000)
    after = snapshots.take(NEXT, "after")
    assert after.left_out == ("log.txt",)
    assert after.tree == base.tree
    assert snapshots.restore(base.commit)
    assert (world.root / "log.txt").read_text() == "small\n"


def test_too_much_untracked_content_is_refused_and_says_where_it_is(world: World) -> None:
    world.plain()
    for number in range(4):
        world.write(f"data/{number}.bin", b"x" * 900)
    world.write("notes.txt", b"x" * 50)
    snapshots = snapshots_of(world, largest_file=1000, largest_total=3000)
    survey = snapshots.survey()
    assert "data/ (3.5 kB), notes.txt (50 bytes)" in survey.refusal
    assert ".gitignore" in survey.refusal
    with pytest.raises(RepositoryError, match="data/") as caught:
        snapshots.take(BASE, "base")
    assert ".gitignore" in caught.value.hint
    assert snapshots.list_refs() == {}


def test_a_clean_survey_says_nothing(world: World) -> None:
    world.plain()
    survey = snapshots_of(world).survey()
    assert (survey.warnings, survey.refusal) == ((), "")


def test_a_survey_names_submodules_and_counts_what_a_sparse_checkout_lacks(world: World) -> None:
    KINDS["submodule"](world)
    assert "sub" in snapshots_of(world).survey().warnings[0]


def test_a_survey_counts_what_a_sparse_checkout_lacks(world: World) -> None:
    KINDS["sparse checkout"](world)
    assert "3 files" in snapshots_of(world).survey().warnings[0]


def test_names_that_git_accepts_nowhere_are_left_out(world: World) -> None:
    world.plain()
    world.write("git~1/file")
    world.write("fine.txt")
    snapshots = snapshots_of(world)
    base = snapshots.take(BASE, "base")
    assert base.left_out == ("git~1/file",)
    assert b"fine.txt" in stored(world, base.commit)
    world.write("a.py", "changed\n")
    assert snapshots.restore(base.commit)
    assert (world.root / "git~1/file").exists()


UNREADABLE = """
import os, sys
from pathlib import Path
from pytest_iterctl.errors import RepositoryError
from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.snapshots import Snapshots
import git
root, name = Path(sys.argv[1]), sys.argv[2]
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
snapshots = Snapshots(Repository.discover(root), root.parent / "private")
base = snapshots.take("refs/iterctl/run/base", "base")
(root / name).chmod(0)
try:
    print(snapshots.survey().warnings, snapshots.take("refs/iterctl/run/next", "next").left_out)
except RepositoryError as error:
    print(error.render())
"""


def without_privileges(world: World, name: str) -> str:
    """What happens to somebody who is not root when a file or folder is closed."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        home.chmod(0o755)
        (home / "home").mkdir()
        world.root.rename(home / "repository")
        if os.geteuid() == 0:
            for path in (home, *home.rglob("*")):
                os.chown(path, 65534, 65534, follow_symlinks=False)
        ended = subprocess.run(
            [sys.executable, "-c", UNREADABLE, str(home / "repository"), name],
            env={"PATH": os.environ["PATH"], "HOME": str(home / "home"), "GIT_CONFIG_NOSYSTEM": "1"},
            capture_output=True,
            text=True,
            check=False,
            cwd=home,
        )
        (home / "repository" / name).chmod(0o755)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("name", ["new.txt", "package/module.py", "package"])
def test_what_cannot_be_read_is_refused_by_name(world: World, name: str) -> None:
    world.plain()
    world.write("new.txt")
    # A file that has not changed since it was last looked at need not be read again.
    (world.root / "package/module.py").write_text("edited = True\n")
    shown = without_privileges(world, name)
    assert f"error: {name}" in shown
    assert "can't be read" in shown
    assert "hint: make it readable" in shown


def test_an_untracked_folder_that_cannot_be_read_is_left_out(world: World) -> None:
    world.plain()
    (world.root / "closed").mkdir()
    shown = without_privileges(world, "closed")
    assert "folders that can't be read are left out of snapshots: closed/" in shown
    assert "('closed/',)" in shown


# Our own folder.


@pytest.mark.parametrize("tracked", [False, True])
def test_our_own_folder_is_in_no_snapshot_and_survives_a_restore(world: World, tracked: bool) -> None:
    world.plain()
    world.write(".iterctl/runs/1/report.md", "report\n")
    if tracked:
        world.commit("with our folder")
    snapshots = snapshots_of(world)
    base = snapshots.take(BASE, "base")
    assert not [name for name in stored(world, base.commit) if name.startswith(b".iterctl")]
    world.write(".iterctl/runs/1/report.md", "new report\n")
    world.write("a.py", "changed\n")
    assert snapshots.restore(base.commit)
    assert (world.root / ".iterctl/runs/1/report.md").read_text() == "new report\n"
    assert snapshots.take(NEXT, "next").tree == base.tree


@pytest.mark.parametrize("name", [".tool.log", "package/.tool.log", ".tool/cache/1"])
def test_what_an_agent_leaves_lying_about_is_in_no_snapshot_and_survives_a_restore(world: World, name: str) -> None:
    world.plain()
    snapshots = snapshots_of(world)
    snapshots.exclude([".tool*"])
    base = snapshots.take(BASE, "base")
    world.write(name, "left\n")
    assert snapshots.take(NEXT, "next").tree == base.tree
    world.write("a.py", "changed\n")
    assert snapshots.restore(base.commit)
    assert (world.root / name).read_text() == "left\n"
    again = snapshots_of(world)  # after a crash, in another process
    assert again.take(NEXT, "next").tree == base.tree


def test_what_a_kill_left_half_written_is_nobody_s_change(world: World) -> None:
    world.plain()
    snapshots = snapshots_of(world)
    base = snapshots.take(BASE, "base")
    world.write("package/module.py.iterctl-partial", "one\n")
    assert snapshots.take(NEXT, "after the kill").tree == base.tree


def test_a_tracked_file_is_captured_though_agents_leave_such_files(world: World) -> None:
    world.plain()
    world.write(".tool.conf", "one\n")
    world.commit("with the tool's configuration")
    snapshots = snapshots_of(world)
    snapshots.exclude([".tool*"])
    base = snapshots.take(BASE, "base")
    world.write(".tool.conf", "two\n")
    assert snapshots.take(NEXT, "next").tree != base.tree
    assert snapshots.restore(base.commit)
    assert (world.root / ".tool.conf").read_text() == "one\n"


def test_a_file_elsewhere_may_have_the_name_of_our_folder(world: World) -> None:
    world.plain()
    world.write("package/.iterctl/file")
    world.write(".iterctlrc")
    names = stored(world, snapshots_of(world).take(BASE, "base").commit)
    assert {b"package/.iterctl/file", b".iterctlrc"} <= set(names)


# Ignored files.


def test_a_file_that_an_agent_stops_ignoring_survives_a_restore(world: World) -> None:
    world.plain()
    snapshots = snapshots_of(world)
    base = snapshots.take(BASE, "base")
    world.write(".gitignore", "")
    after = snapshots.take(NEXT, "after")
    assert snapshots.difference(base.commit, after.commit).files == (".gitignore", "build/output.o", "secret.ignored")
    assert snapshots.restore(base.commit)
    assert (world.root / "secret.ignored").read_text() == "ignored\n"
    assert (world.root / "build/output.o").read_text() == "ignored too\n"
    assert snapshots.take(NEXT, "next").tree == base.tree


def test_a_file_that_an_agent_hides_by_ignoring_it_goes_but_is_kept(world: World) -> None:
    world.plain()
    snapshots = snapshots_of(world)
    base = snapshots.take(BASE, "base")
    world.write(".gitignore", "hidden/\n*.ignored\nbuild/\n")
    world.write("hidden/file.py", "hidden\n")
    snapshots.take(NEXT, "after")
    assert snapshots.restore(base.commit)
    assert not (world.root / "hidden").exists()
    (kept,) = snapshots.list_refs("refs/iterctl/kept").values()
    assert world.git("show", f"{kept}:hidden/file.py") == b"hidden\n"
    assert (world.root / "secret.ignored").exists()


def test_hidden_files_that_are_too_big_to_keep_are_reported_and_stay(world: World) -> None:
    world.plain()
    snapshots = snapshots_of(world, largest_file=1000, largest_total=3000)
    base = snapshots.take(BASE, "base")
    world.write(".gitignore", "hidden/\n*.ignored\nbuild/\n")
    for number in range(4):
        world.write(f"hidden/{number}.bin", b"x" * 900)
    with pytest.raises(RepositoryError, match=r"restored, but not exactly: .*hidden/"):
        snapshots.restore(base.commit)
    assert len(list((world.root / "hidden").iterdir())) == 4


def test_a_captured_file_stays_captured_when_it_becomes_ignored(world: World) -> None:
    world.plain()
    world.write("notes.txt", "mine\n")
    snapshots = snapshots_of(world)
    base = snapshots.take(BASE, "base")
    world.write(".gitignore", "*\n")
    world.write("notes.txt", "changed\n")
    after = snapshots.take(NEXT, "after")
    assert snapshots.difference(base.commit, after.commit).files == (".gitignore", "notes.txt")
    assert snapshots.restore(base.commit)
    assert (world.root / "notes.txt").read_text() == "mine\n"


# Restoring.


def test_a_link_to_elsewhere_is_replaced_and_elsewhere_is_untouched(world: World) -> None:
    world.plain()
    snapshots = snapshots_of(world)
    base = snapshots.take(BASE, "base")
    outside = world.folder / "outside"
    (world.root / "package").rename(outside)
    (world.root / "package").symlink_to(outside)
    assert snapshots.restore(base.commit)
    assert not (world.root / "package").is_symlink()
    assert (world.root / "package/module.py").read_text() == "one\ntwo\nthree\n"
    (world.root / "package/module.py").unlink()
    (world.root / "package/deep/er/file.txt").unlink()
    (world.root / "package/deep/er").rmdir()
    (world.root / "package/deep").rmdir()
    (world.root / "package").rmdir()
    (world.root / "package").symlink_to(outside)
    (outside / "module.py").write_text("outside\n")
    snapshots.take(NEXT, "next")
    assert snapshots.restore(base.commit)
    assert (outside / "module.py").read_text() == "outside\n"
    assert (world.root / "package/module.py").read_text() == "one\ntwo\nthree\n"


def test_a_file_that_others_may_not_read_is_not_opened_to_them(world: World) -> None:
    world.plain()
    world.write("private.txt", "private\n", mode=0o600)
    snapshots = snapshots_of(world)
    base = snapshots.take(BASE, "base")
    world.write("private.txt", "changed\n")
    assert snapshots.restore(base.commit)
    assert (world.root / "private.txt").read_text() == "private\n"
    assert (world.root / "private.txt").stat().st_mode & 0o077 == 0


def test_a_moved_submodule_is_reported_as_a_difference_and_left_alone(world: World) -> None:
    KINDS["submodule"](world)
    snapshots = snapshots_of(world)
    base = snapshots.take(BASE, "base")
    world.git("commit", "--quiet", "--all", "--message", "moved", cwd=world.root / "sub")
    after = snapshots.take(NEXT, "after")
    assert snapshots.difference(base.commit, after.commit).files == ("sub",)
    assert not snapshots.restore(base.commit)
    world.write("b.py", "changed\n")
    assert snapshots.restore(base.commit)
    assert (world.root / "sub/inner.txt").read_text() == "dirty\n"


def test_any_commit_can_be_restored(world: World) -> None:
    world.plain()
    old = world.git("rev-parse", "HEAD").decode().strip()
    world.write("a.py", "second\n")
    world.commit("second")
    assert snapshots_of(world).restore(old)
    assert (world.root / "a.py").read_text() == "a = 1\n"
    assert world.git("rev-parse", "HEAD").decode().strip() != old


@pytest.mark.parametrize("commit", ["0" * 40, "--help", "HEAD", "main", "refs/iterctl/none", ""])
def test_an_unknown_snapshot_is_refused_and_nothing_changes(world: World, commit: str) -> None:
    world.plain()
    world.write("a.py", "changed\n")
    before = listing(world.root)
    with pytest.raises(RepositoryError):
        snapshots_of(world).restore(commit)
    assert listing(world.root) == before


def test_a_restore_that_somebody_disturbs_is_reported(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.plain()
    snapshots = snapshots_of(world)
    base = snapshots.take(BASE, "base")
    world.write("b.py", "changed\n")
    # A restore lists the work tree before and after; the second time, somebody is faster.
    deed = f"mkdir '{world.folder}/seen' 2>/dev/null && rmdir \"$0.d\" || printf disturbed > '{world.root}/a.py'"
    intercept(world, monkeypatch, "*diff-files*", deed)
    with pytest.raises(RepositoryError, match=r"restore: a\.py"):
        snapshots.restore(base.commit)


# Comparing.


def test_a_difference_counts_files_and_lines(world: World) -> None:
    world.plain()
    snapshots = snapshots_of(world)
    base = snapshots.take(BASE, "base")
    world.write("package/module.py", "one\n2\nthree\nfour\n")
    (world.root / "b.py").rename(world.root / "renamed.py")
    world.write("binary.bin", bytes(300))
    (world.root / "run.sh").chmod(0o644)
    world.write(b"caf\xe9", "new\n")
    found = snapshots.difference(base.commit, snapshots.take(NEXT, "next").commit)
    names = ("b.py", "binary.bin", file_name(b"caf\xe9"), "package/module.py", "renamed.py", "run.sh")
    assert found.files == tuple(sorted(names))
    assert (found.added, found.deleted) == (2 + 2 + 1, 1 + 2)


def test_equal_snapshots_have_no_difference(world: World) -> None:
    world.plain()
    snapshots = snapshots_of(world)
    one, two = snapshots.take(BASE, "base"), snapshots.take(NEXT, "next")
    found = snapshots.difference(one.commit, two.commit)
    assert (found.files, found.added, found.deleted) == ((), 0, 0)
    assert snapshots.patch(one.commit, two.commit) == (b"", False)


def changed_pair(world: World, change: Callable[[], object]) -> tuple[Snapshots, str, str]:
    snapshots = snapshots_of(world)
    base = snapshots.take(BASE, "base")
    change()
    return snapshots, base.commit, snapshots.take(NEXT, "next").commit


def test_a_patch_is_for_people(world: World) -> None:
    KINDS["strict settings"](world)

    def change() -> None:
        world.write("b.py", "b = 1\nb = 3\n")
        world.write("binary.bin", bytes(300))
        (world.root / "package/module.py").rename(world.root / "package/renamed.py")
        world.write("naïve.py")

    snapshots, old, new = changed_pair(world, change)
    patch, cut = snapshots.patch(old, new)
    assert not cut
    assert b"--- a/b.py\n+++ b/b.py\n@@ -1,2 +1,2 @@\n b = 1\n-b = 2\n+b = 3\n" in patch
    assert b"Binary files a/binary.bin and b/binary.bin differ\n" in patch
    assert b"rename from package/module.py\nrename to package/renamed.py\n" in patch
    assert "+++ b/naïve.py\n".encode() in patch
    assert b"\x1b" not in patch


def test_a_patch_is_cut_to_whole_lines(world: World) -> None:
    world.plain()
    snapshots, old, new = changed_pair(world, lambda: world.write("b.py", "line\n" * 100_000))
    whole, _ = snapshots.patch(old, new)
    patch, cut = snapshots.patch(old, new, limit=1000)
    assert cut
    assert 990 < len(patch) <= 1000
    assert patch.endswith(b"\n")
    assert whole.startswith(patch)
    assert snapshots.patch(old, new, limit=len(whole)) == (whole, False)
    assert snapshots.patch(old, new, limit=len(whole) - 1)[1]


def test_an_agent_cannot_hide_its_changes_by_calling_files_binary(world: World) -> None:
    world.plain()

    def change() -> None:
        world.write(".gitattributes", "*.py binary -diff\n")
        world.write("a.py", "a = 'hidden'\n")

    snapshots, old, new = changed_pair(world, change)
    assert b"+a = 'hidden'\n" in snapshots.patch(old, new)[0]
    assert snapshots.difference(old, new).added == 2


def test_a_written_patch_is_taken_by_git_apply(world: World) -> None:
    KINDS["awkward names"](world)
    snapshots = snapshots_of(world)
    base = snapshots.take(BASE, "base")
    world.write("binary.bin", bytes(range(255, -1, -1)))
    disturb(world, [name for name in stored(world, base.commit) if name != b"binary.bin"])
    after = snapshots.take(NEXT, "after")
    path = world.folder / "a.patch"
    path.write_text("old")
    snapshots.write_patch(base.commit, after.commit, path)
    clone = world.folder / "clone"
    world.git("clone", "--quiet", "--no-checkout", str(world.root), str(clone))
    world.git("fetch", "--quiet", str(world.root), "refs/iterctl/*:refs/iterctl/*", cwd=clone)
    world.git("checkout", "--quiet", base.commit, cwd=clone)
    world.git("apply", "--index", str(path), cwd=clone)
    assert world.git("write-tree", cwd=clone).decode().strip() == after.tree
    assert not list(world.folder.glob("*.partial"))


def test_a_patch_that_cannot_be_made_leaves_the_old_file(world: World) -> None:
    world.plain()
    path = world.folder / "a.patch"
    path.write_text("old")
    with pytest.raises(RepositoryError, match="diff-tree"):
        snapshots_of(world).write_patch("0" * 40, "1" * 40, path)
    assert path.read_text() == "old"
    with pytest.raises(RepositoryError, match="diff-tree"):
        snapshots_of(world).patch("0" * 40, "1" * 40, limit=10)


# References and bundles.


def test_references_are_listed_and_deleted_by_prefix(world: World) -> None:
    world.plain()
    snapshots = snapshots_of(world)
    for ref in ("refs/iterctl/one/a", "refs/iterctl/one/b/c", "refs/iterctl/oneself/a", "refs/iterctl/two/a"):
        snapshots.take(ref, "message")
    world.git("pack-refs", "--all")
    state = {name: facts for name, facts in user_state(world).items() if "packed-refs" not in name}
    assert set(snapshots.list_refs("refs/iterctl/one")) == {"refs/iterctl/one/a", "refs/iterctl/one/b/c"}
    assert snapshots.delete_refs("refs/iterctl/one/") == 2
    assert set(snapshots.list_refs()) == {"refs/iterctl/oneself/a", "refs/iterctl/two/a"}
    assert snapshots.delete_refs("refs/iterctl/one/") == 0
    assert snapshots.delete_refs("refs/iterctl/") == 2
    assert snapshots.list_refs() == {}
    assert {name: facts for name, facts in user_state(world).items() if "packed-refs" not in name} == state
    with pytest.raises(RepositoryError):
        snapshots.delete_refs("refs/heads/")


@pytest.mark.parametrize("kind", ["staged, unstaged and untracked work", "unborn branch", "awkward names"])
def test_a_bundle_carries_snapshots_to_another_clone(world: World, kind: str) -> None:
    KINDS[kind](world)
    snapshots = snapshots_of(world)
    base = snapshots.take(BASE, "base")
    world.write("more.py")
    snapshots.take(NEXT, "next")
    snapshots.take("refs/iterctl/other/a", "not in it")
    path = world.folder / "run.bundle"
    snapshots.bundle("refs/iterctl/run/", path)
    state = user_state(world)

    clone = world.folder / "clone"
    world.git("clone", "--quiet", str(world.root), str(clone))
    there = Snapshots(Repository.discover(clone), world.folder / "clone private")
    there.take("refs/iterctl/mine/a", "must stay")
    assert there.unbundle(path) == 2
    assert set(there.list_refs()) == {BASE, NEXT, "refs/iterctl/mine/a"}
    there.restore(base.commit)
    assert there.take("refs/iterctl/mine/b", "restored").tree == base.tree
    assert not (clone / ".git/FETCH_HEAD").exists()
    assert user_state(world) == state


def test_a_bundle_does_not_carry_what_head_has(world: World) -> None:
    world.plain()
    world.write("big.bin", os.urandom(200_000))
    world.commit()
    snapshots = snapshots_of(world)
    snapshots.take(BASE, "base")
    snapshots.bundle("refs/iterctl/run/", world.folder / "run.bundle")
    assert (world.folder / "run.bundle").stat().st_size < 10_000


def test_a_bundle_of_nothing_is_refused(world: World) -> None:
    world.plain()
    with pytest.raises(RepositoryError, match="no snapshot"):
        snapshots_of(world).bundle("refs/iterctl/run/", world.folder / "run.bundle")


def test_a_bundle_that_builds_on_unknown_commits_is_refused(world: World) -> None:
    world.plain()
    snapshots = snapshots_of(world)
    snapshots.take(BASE, "base")
    snapshots.bundle("refs/iterctl/run/", world.folder / "run.bundle")
    other = world.init(world.folder / "other")
    there = Snapshots(Repository.discover(other), world.folder / "other private")
    with pytest.raises(RepositoryError, match="does not have") as caught:
        there.unbundle(world.folder / "run.bundle")
    assert "fetch" in caught.value.hint
    assert there.list_refs() == {}


@pytest.mark.parametrize("content", [b"", b"no bundle\n", b"# v2 git bundle\n\nPACK"])
def test_a_file_that_is_no_bundle_is_refused(world: World, content: bytes) -> None:
    world.plain()
    path = world.folder / "strange"
    path.write_bytes(content)
    with pytest.raises(RepositoryError, match="strange"):
        snapshots_of(world).unbundle(path)


def test_a_missing_bundle_is_refused(world: World) -> None:
    world.plain()
    with pytest.raises(RepositoryError, match="missing"):
        snapshots_of(world).unbundle(world.folder / "missing")


@pytest.mark.parametrize("ref", ["refs/heads/main", "HEAD", "refs/tags/v1"])
def test_a_bundle_that_brings_other_references_is_refused(world: World, ref: str) -> None:
    world.plain()
    world.git("tag", "v1")
    snapshots = snapshots_of(world)
    snapshots.take(BASE, "base")
    world.git("bundle", "create", str(world.folder / "bad.bundle"), BASE, ref)
    snapshots.delete_refs("refs/iterctl/")
    state = user_state(world)
    with pytest.raises(RepositoryError, match="no bundle of snapshots"):
        snapshots.unbundle(world.folder / "bad.bundle")
    assert snapshots.list_refs() == {}
    assert user_state(world) == state


# Any sequence of changes.

NAMES = (b"a", b"b", b"d", b"d/x", b"d/y", b"d/e/z", b"caf\xe9", b"-n", b"f/g\nh", b"kept.ignored")
DEEDS = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.sampled_from(("write", "delete", "executable", "link", "folder")),
        st.sampled_from((b"", b"one\n", b"two\n", b"\0binary")),
    ),
    max_size=12,
)


def clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for inner in path.iterdir():
            clear(inner)
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def perform(root: Path, name: bytes, deed: str, content: bytes) -> None:
    path = root / os.fsdecode(name)
    for folder in reversed(path.relative_to(root).parents[:-1]):
        if not (root / folder).is_dir() or (root / folder).is_symlink():
            clear(root / folder)
            (root / folder).mkdir()
    if deed == "executable":
        if path.is_file() and not path.is_symlink():
            path.chmod(path.stat().st_mode ^ 0o111)
        return
    clear(path)
    if deed == "write":
        path.write_bytes(content)
    elif deed == "link":
        path.symlink_to(os.fsdecode(content.strip(b"\0") or b"d"))
    elif deed == "folder":
        path.mkdir()


def visible(root: Path) -> dict[bytes, tuple[object, ...]]:
    return {name: facts for name, facts in listing(root).items() if not name.endswith(b".ignored")}


def test_a_folder_that_is_a_link_to_itself_by_now(world: World) -> None:
    world.plain()
    snapshots = snapshots_of(world)
    before, files = snapshots.take("refs/iterctl/run/0", "state").commit, visible(world.root)
    shutil.rmtree(world.root / "package")
    (world.root / "package").symlink_to("package")
    after = snapshots.take("refs/iterctl/run/1", "state").commit
    assert [name for name in stored(world, after) if b"package" in name] == [b"package"]
    snapshots.restore(before)
    assert visible(world.root) == files


@pytest.mark.slow
@given(before=DEEDS, after=DEEDS, later=DEEDS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_after_any_changes_the_way_back_is_exact_and_the_difference_is_complete(
    world: World,
    before: list[tuple[bytes, str, bytes]],
    after: list[tuple[bytes, str, bytes]],
    later: list[tuple[bytes, str, bytes]],
) -> None:
    with tempfile.TemporaryDirectory(dir=world.folder) as folder:
        world.root, world.private = Path(folder, "repository"), Path(folder, "private")
        world.init()
        world.write(".gitignore", "*.ignored\n")
        snapshots = snapshots_of(world)
        taken = []
        for number, deeds in enumerate((before, after, later)):
            for name, deed, content in deeds:
                perform(world.root, name, deed, content)
            taken.append((snapshots.take(f"refs/iterctl/run/{number}", "state").commit, visible(world.root)))
        ignored = {name: facts for name, facts in listing(world.root).items() if name.endswith(b".ignored")}
        for old, old_files in taken:
            for new, new_files in taken:
                names = {name for name in old_files | new_files if old_files.get(name) != new_files.get(name)}
                assert snapshots.difference(old, new).files == tuple(sorted(map(file_name, names)))
            snapshots.restore(old)
            assert visible(world.root) == old_files
        assert {name: facts for name, facts in listing(world.root).items() if name.endswith(b".ignored")} == ignored


def many_long_names() -> list[bytes]:
    """More than one command takes as its arguments."""
    return [b"out/%05d-%s.html" % (number, b"x" * 200) for number in range(15_000)]


def test_more_names_than_a_command_takes_can_be_asked_for(world: World) -> None:
    world.plain()
    index = PrivateIndex(Repository.discover(world.root), world.private, Limits(1, 1))
    assert index.tracked_by_user((*many_long_names(), b"a.py", b"package")) == {b"a.py"}
    assert index.tracked_by_user(()) == frozenset()


def test_a_patch_of_more_names_than_a_command_takes_can_be_had(world: World) -> None:
    world.plain()
    snapshots = Snapshots(Repository.discover(world.root), world.private)
    base = snapshots.take(BASE, "base")
    folder = b"/".join([b"y" * 240] * 12)
    for number in range(1000):
        world.write(b"%s/%d.txt" % (folder, number))
    after = snapshots.take(NEXT, "after")
    found, _ = snapshots.patch(base.commit, after.commit, without=("a.py",))
    assert found.count(b"\nnew file mode") == 1000
