"""Makes real repositories of every kind for the tests here, and says whether anything of the user's changed."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

__all__ = ["KINDS", "World", "disturb", "intercept", "isolated", "listing", "stored", "user_state"]

AWKWARD = (b"-x", b"a\nb", b":(glob)*", b"caf\xe9.txt", b"tab\there", b'quo"te', "naïve.py".encode(), b" space ")


class World:
    """A folder with a home of its own, so that no configuration of the machine is seen."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()
        self.configure()
        self.root = folder / "repository"
        self.private = folder / "private"

    def configure(self) -> None:
        (self.home / ".gitconfig").write_text(
            "[user]\nname = A User\nemail = user@example.org\n[init]\ndefaultBranch = main\n"
            '[protocol "file"]\nallow = always\n[advice]\ndetachedHead = false\n'
        )

    def git(self, *arguments: str, cwd: Path | None = None, code: int | None = 0, feed: bytes = b"") -> bytes:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        environment |= {"HOME": str(self.home), "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1"}
        environment.pop("XDG_CONFIG_HOME", None)
        ended = subprocess.run(
            ["git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", *arguments],
            cwd=cwd or self.root,
            env=environment,
            input=feed,
            capture_output=True,
            check=False,
        )
        if code is not None:
            assert ended.returncode == code, ended.stderr.decode("utf-8", "replace")
        return ended.stdout

    def init(self, root: Path | None = None) -> Path:
        root = root or self.root
        root.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", cwd=root)
        return root

    def write(self, name: str | bytes, content: str | bytes = "content\n", *, mode: int | None = None) -> Path:
        path = self.root / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        if mode is not None:
            path.chmod(mode)
        return path

    def commit(self, message: str = "a commit", root: Path | None = None) -> str:
        self.git("add", "--all", cwd=root)
        self.git("commit", "--quiet", "--allow-empty", "--message", message, cwd=root)
        return self.git("rev-parse", "HEAD", cwd=root).decode().strip()

    def plain(self) -> Path:
        """A repository with a commit, some files of each sort, and an ignored one."""
        self.init()
        self.write(".gitignore", "*.ignored\nbuild/\n")
        self.write("a.py", "a = 1\n")
        self.write("b.py", "b = 1\nb = 2\n")
        self.write("package/module.py", "one\ntwo\nthree\n")
        self.write("package/deep/er/file.txt")
        self.write("run.sh", "#!/bin/sh\n", mode=0o755)
        (self.root / "link").symlink_to("a.py")
        (self.root / "dangling").symlink_to("/nowhere/at/all")
        self.write("binary.bin", bytes(range(256)) * 4)
        self.commit()
        self.write("secret.ignored", "ignored\n")
        self.write("build/output.o", "ignored too\n")
        return self.root


def _mixed(world: World) -> None:
    world.plain()
    world.write("a.py", "staged\n")
    world.git("add", "a.py")
    world.write("a.py", "staged, then changed\n")
    world.write("b.py", "unstaged\n")
    world.write("staged_new.py")
    world.git("add", "staged_new.py")
    world.git("rm", "--quiet", "--cached", "run.sh")
    (world.root / "package/module.py").unlink()
    world.write("untracked/file.txt")
    world.write("stashed.txt")
    world.git("stash", "push", "--quiet", "--include-untracked", "--", "stashed.txt")


def _empty(world: World) -> None:
    world.init()


def _unborn(world: World) -> None:
    world.init()
    world.write("first.py")
    world.write("staged.py")
    world.git("add", "staged.py")
    world.write("staged.py", "changed\n")


def _detached(world: World) -> None:
    world.plain()
    world.git("checkout", "--quiet", "--detach")
    world.write("a.py", "changed\n")


def _linked(world: World) -> None:
    main = world.root
    world.plain()
    world.root = world.folder / "linked"
    world.git("worktree", "add", "--quiet", "-b", "side", str(world.root), cwd=main)
    world.write("a.py", "staged\n")
    world.git("add", "a.py")
    world.write("untracked.txt")


def _submodule(world: World) -> None:
    inner = world.init(world.folder / "inner")
    (inner / "inner.txt").write_text("inner\n")
    world.commit("inner", inner)
    world.plain()
    world.git("submodule", "--quiet", "add", str(inner), "sub")
    world.commit("with a submodule")
    (world.root / "sub/inner.txt").write_text("dirty\n")
    (world.root / "sub/new.txt").write_text("new\n")
    world.write("a.py", "changed\n")


def _awkward(world: World) -> None:
    world.plain()
    for name in AWKWARD[::2]:
        world.write(name)
        world.write(b"folder " + name + b"/" + name)
    world.commit("awkward names")
    for name in AWKWARD:
        world.write(name, b"changed " + name)


def _failing_hooks(world: World) -> None:
    world.plain()
    hooks = world.root / ".git/hooks"
    for name in (
        *("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-checkout", "post-index-change"),
        *("reference-transaction", "pre-auto-gc", "fsmonitor-watchman", "post-rewrite", "post-merge"),
    ):
        (hooks / name).write_text(f"#!/bin/sh\ntouch '{world.folder}/hook-ran'\nexit 1\n")
        (hooks / name).chmod(0o755)
    world.write("a.py", "changed\n")


def _conflict(world: World) -> None:
    world.plain()
    world.write("ours_only.py", "1\n")
    world.write("theirs_only.py", "1\n")
    world.commit("before")
    world.git("checkout", "--quiet", "-b", "theirs")
    world.write("a.py", "theirs\n")
    world.write("both_added.py", "theirs\n")
    world.write("ours_only.py", "changed\n")
    world.git("mv", "b.py", "b_theirs.py")
    (world.root / "theirs_only.py").unlink()
    world.commit("theirs")
    world.git("checkout", "--quiet", "main")
    world.write("a.py", "ours\n")
    world.write("both_added.py", "ours\n")
    world.write("theirs_only.py", "changed\n")
    world.git("mv", "b.py", "b_ours.py")
    (world.root / "ours_only.py").unlink()
    world.commit("ours")
    world.git("merge", "theirs", code=1)


def _sparse(world: World, *options: str) -> None:
    world.plain()
    world.write("kept/file.txt")
    world.write("elsewhere/file.txt")
    world.write("elsewhere/other.txt")
    world.commit()
    world.git("sparse-checkout", "set", "--cone", *options, "kept")
    assert not (world.root / "elsewhere").exists()
    world.write("kept/file.txt", "changed\n")
    world.write("outside/new.txt")
    world.write("package/module.py", "present although sparse\n")


def _sparse_index(world: World) -> None:
    _sparse(world, "--sparse-index")


def _intent_to_add(world: World) -> None:
    world.plain()
    world.write("intended.py", "soon\n")
    world.write("intended_empty.py", "")
    world.git("add", "--intent-to-add", "intended.py", "intended_empty.py")


def _looking_away(world: World) -> None:
    world.plain()
    world.write("skipped.py", "1\n")
    world.write("gone.py", "1\n")
    world.commit()
    world.git("update-index", "--assume-unchanged", "a.py")
    world.git("update-index", "--skip-worktree", "skipped.py", "gone.py")
    world.git("update-index", "--assume-unchanged", "--skip-worktree", "b.py")
    world.write("a.py", "edited behind git's back\n")
    world.write("skipped.py", "edited too\n")
    world.write("b.py", "and this\n")
    (world.root / "gone.py").unlink()


def _nested(world: World) -> None:
    world.plain()
    inner = world.init(world.root / "nested/with_commit")
    (inner / "inner.txt").write_text("inner\n")
    world.commit("inner", inner)
    empty = world.init(world.root / "nested/without_commit")
    (empty / "inner.txt").write_text("inner\n")
    world.write("nested/beside.txt")


def _split_index(world: World) -> None:
    world.plain()
    world.git("config", "core.splitIndex", "true")
    world.git("update-index", "--split-index")
    world.git("config", "core.untrackedCache", "true")
    world.git("update-index", "--untracked-cache")
    world.write("a.py", "changed\n")
    world.write("new.txt")


def _strict_settings(world: World) -> None:
    """Settings that make other programs of this kind fail, run something or look away."""
    world.plain()
    for setting in (
        "commit.gpgSign=true",
        "core.logAllRefUpdates=always",
        "core.safecrlf=true",
        "core.ignoreStat=true",
        "core.trustctime=false",
        "core.checkStat=minimal",
        "core.quotePath=true",
        "submodule.recurse=true",
        "diff.noprefix=true",
        "diff.renames=copies",
        "color.ui=always",
        "diff.external=false",
        "fetch.prune=true",
        f"core.fsmonitor=touch '{world.folder}/hook-ran'; false",
        "index.version=4",
    ):
        world.git("config", *setting.split("=", 1))
    world.write("crlf.txt", "one\r\ntwo\n")
    world.write("a.py", "changed\n")


KINDS: dict[str, Callable[[World], None]] = {
    "staged, unstaged and untracked work": _mixed,
    "empty repository": _empty,
    "unborn branch": _unborn,
    "detached head": _detached,
    "linked work tree": _linked,
    "submodule": _submodule,
    "awkward names": _awkward,
    "failing hooks": _failing_hooks,
    "merge conflict": _conflict,
    "sparse checkout": _sparse,
    "sparse index": _sparse_index,
    "intent to add": _intent_to_add,
    "assume unchanged and skip worktree": _looking_away,
    "nested repositories": _nested,
    "split index": _split_index,
    "strict settings": _strict_settings,
}


def listing(root: Path, *, times: bool = False) -> dict[bytes, tuple[object, ...]]:
    """Every file below the root but those of git, with type, executable bit and content."""
    found: dict[bytes, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name != ".git"]
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for path in (Path(folder, name) for name in (*files, *links)):
            status = path.lstat()
            content: object = None
            if stat.S_ISLNK(status.st_mode):
                content = path.readlink()
            elif stat.S_ISREG(status.st_mode):
                content = path.read_bytes()
            facts = (stat.S_IFMT(status.st_mode), bool(status.st_mode & stat.S_IXUSR), content)
            found[os.fsencode(path.relative_to(root))] = (*facts, status.st_mtime_ns) if times else facts
    return found


def user_state(world: World) -> dict[str, object]:
    """Everything in the repository that belongs to the user: all but objects and our own references."""
    git_dir = Path(os.fsdecode(world.git("rev-parse", "--absolute-git-dir").strip()))
    common = world.root / os.fsdecode(world.git("rev-parse", "--git-common-dir").strip())
    state: dict[str, object] = {}
    for place in {git_dir, common.resolve()}:
        for path in sorted(place.rglob("*")):
            name = path.relative_to(place).as_posix()
            if not path.is_file() or name.startswith(("objects/", "refs/iterctl/")):
                continue
            status = path.lstat()
            # git itself freshens the shared part of a split index whenever it reads one
            time = 0 if name.startswith("sharedindex.") else status.st_mtime_ns
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            state[f"{place.name}/{name}"] = (content, status.st_mode, status.st_ino, time)
    assert not (world.folder / "hook-ran").exists()
    return state


def isolated(folder: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose configuration is the only one that the code under test sees, too."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("EMAIL", raising=False)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    world = World(folder)
    monkeypatch.setenv("HOME", str(world.home))
    return world


def disturb(world: World, names: list[bytes]) -> None:
    """Do everything to these files that an agent could do."""
    for number, name in enumerate(names):
        path = world.root / os.fsdecode(name)
        if not path.parent.is_dir() or not os.path.lexists(path):
            continue
        deed = number % 6
        if deed == 0 and path.is_file() and not path.is_symlink():
            path.write_bytes(path.read_bytes() + b"more\n")
        elif deed == 1 and not path.is_symlink():
            path.chmod(path.stat().st_mode ^ 0o111)
        else:
            path.unlink()
        if deed == 2:
            path.symlink_to("somewhere else")
        elif deed == 3:
            path.mkdir()
            (path / "inside").write_text("a file became a folder\n")
        elif deed == 4 and path.parent != world.root and not any(path.parent.iterdir()):
            path.parent.rmdir()
            path.parent.write_text("a folder became a file\n")
    world.write("new/by/agent.py")
    world.write("new file\n", "with a line break in its name")
    (world.root / "new/link").symlink_to("..")


def stored(world: World, commit: str) -> list[bytes]:
    """The names in a snapshot, without submodules."""
    records = world.git("ls-tree", "-r", "-z", commit).split(b"\0")[:-1]
    return [record.partition(b"\t")[2] for record in records if not record.startswith(b"160000")]


def intercept(world: World, monkeypatch: pytest.MonkeyPatch, pattern: str, deed: str) -> None:
    """Have something happen once, right before a git command whose words match."""
    folder = world.folder / "intercepting"
    folder.mkdir()
    real = subprocess.run(["sh", "-c", "command -v git"], capture_output=True, check=True, text=True).stdout.strip()
    (folder / "git").write_text(
        f'#!/bin/sh\ncase "$*" in {pattern}) if mkdir "$0.d" 2>/dev/null; then\n{deed}\nfi;; esac\nexec "{real}" "$@"\n'
    )
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
