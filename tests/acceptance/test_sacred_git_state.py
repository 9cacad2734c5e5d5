"""After a whole run the user's git state is byte for byte what it was, plus what the agent was asked to change."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.project import FIXED, Project, git


def fingerprint(root: Path, *, but: frozenset[bytes] = frozenset()) -> dict[str, str]:
    """Everything that is the user's: git's own files (but objects and our refs), and every file of the work tree."""
    git_dir = Path(git(root, "rev-parse", "--absolute-git-dir"))
    common = (root / git(root, "rev-parse", "--git-common-dir")).resolve()
    found: dict[str, str] = {}
    for base in {git_dir, common}:
        for folder, folders, names in os.walk(os.fsencode(base)):
            folders[:] = [name for name in folders if name not in {b"objects", b"iterctl"}]
            for name in names:
                path = Path(os.fsdecode(folder)) / os.fsdecode(name)
                found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    for folder, folders, names in os.walk(os.fsencode(root)):
        folders[:] = [name for name in folders if name not in {b".git", b".iterctl", b"__pycache__", b".pytest_cache"}]
        for name in names:
            path = Path(os.fsdecode(folder)) / os.fsdecode(name)
            if os.fsencode(path.relative_to(root)) in but or name == b".git":
                continue
            content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
            found[str(path)] = f"{path.lstat().st_mode:o} {hashlib.sha256(content).hexdigest()}"
    return found


def with_own_work(project: Project) -> None:
    project.write("staged.txt", "staged\n")
    project.git("add", "staged.txt")
    project.write("staged.txt", "staged, then edited\n")
    project.write("untracked.txt", "mine\n")
    project.write("test_calc.py", (project.root / "test_calc.py").read_text() + "\n# my edit\n")
    (project.root / os.fsdecode(b"caf\xe9.txt")).write_bytes(b"latin\xff")
    (project.root / "dangling").symlink_to("nowhere")


def plain(project: Project, _tmp: Path) -> Project:
    return project


def unborn(project: Project, _tmp: Path) -> Project:
    project.git("update-ref", "-d", "refs/heads/main")
    return project


def detached(project: Project, _tmp: Path) -> Project:
    project.git("checkout", "-q", "--detach")
    return project


def stashed(project: Project, _tmp: Path) -> Project:
    project.write("calc.py", "stashed = 1\n")
    project.git("stash")
    return project


def linked(project: Project, tmp: Path) -> Project:
    project.git("worktree", "add", "-q", str(tmp / "linked"), "-b", "side")
    return Project(tmp / "linked", project.state, project.tools)


def failing_hooks(project: Project, _tmp: Path) -> Project:
    for name in ("pre-commit", "post-checkout", "post-index-change", "reference-transaction", "post-commit"):
        hook = project.root / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\nexit 1\n")
        hook.chmod(0o755)
    return project


def submodule(project: Project, tmp: Path) -> Project:
    other = tmp / "other"
    other.mkdir()
    git(other, "init", "-q")
    git(other, "commit", "-q", "--allow-empty", "-m", "x")
    project.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "sub")
    return project


def conflicted(project: Project, _tmp: Path) -> Project:
    project.git("checkout", "-q", "-b", "theirs")
    project.write("clash.txt", "theirs\n")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "theirs")
    project.git("checkout", "-q", "main")
    project.write("clash.txt", "ours\n")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "ours")
    project.run("git", "-c", "user.name=t", "-c", "user.email=t@t", "merge", "theirs")
    return project


KINDS = [plain, unborn, detached, stashed, linked, failing_hooks, submodule, conflicted]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("ending", ["proceed", "escalate"])
def test_a_run_changes_nothing_but_what_the_agent_changed(
    project: Project, tmp_path: Path, kind: Callable[[Project, Path], Project], ending: str
) -> None:
    user = kind(project, tmp_path)
    with_own_work(user)
    if ending == "proceed":
        user.agent({"write": {"calc.py": FIXED, "new/file.txt": "x"}})
    else:
        # Fails once, then makes things worse: undo and restore both have to work on the user's tree.
        user.agent(
            {"write": {"calc.py": "", "untracked.txt": "overwritten"}, "exit": 1},
            {"write": {"calc.py": "broken"}, "delete": ["dangling"]},
        )
    user.write("iterctl.yaml", "settings: {backoff: none}\n")
    before = fingerprint(user.root, but=frozenset({b"calc.py", b"new/file.txt"}))
    ran = user.iterate("--iterate-max=1", "--iterate-format=json", "test_calc.py")
    assert ran.code == (0 if ending == "proceed" else 10), ran.err
    assert fingerprint(user.root, but=frozenset({b"calc.py", b"new/file.txt"})) == before
    if ending == "proceed":
        assert (user.root / "calc.py").read_text() == FIXED
    assert ran.json["tasks"][0]["snapshots"]


def test_stale_bytecode_of_a_same_second_edit_never_decides(project: Project) -> None:
    """Same size, same second: Python alone would run the old code from its cache."""
    project.write("calc.py", "def double(number):\n    return number * 3\n")
    moment = 1_700_000_000
    os.utime(project.root / "calc.py", (moment, moment))
    fixed = "def double(number):\n    return number * 2\n"
    freeze = project.tools / "freeze.sh"
    (project.tools / "fixed.py").write_text(fixed)
    freeze.write_text(f"#!/bin/sh\ncat {project.tools}/fixed.py > calc.py\ntouch -d @{moment} calc.py\n")
    freeze.chmod(0o755)
    project.run("python3", "-c", "import calc", PYTHONDONTWRITEBYTECODE="")
    ran = project.pytest("--iterate", f"--iterate-agent={freeze}", "--iterate-format=json", "-p", "no:cacheprovider")
    assert ran.code == 0, ran.err
    assert ran.json["tasks"][0]["iterations"] == 1


def test_a_nested_repository_and_a_huge_file_are_named_before_anything_starts(project: Project) -> None:
    nested = project.root / "vendored"
    nested.mkdir()
    git(nested, "init", "-q")
    git(nested, "commit", "-q", "--allow-empty", "-m", "x")
    with (project.root / "huge.bin").open("wb") as stream:
        stream.truncate(60 * 1024 * 1024)
    ran = project.iterate("--iterate-format=json")
    assert ran.code == 0, ran.err
    told = " ".join(ran.json["warnings"])
    assert "vendored" in told
    assert "huge.bin" in told
