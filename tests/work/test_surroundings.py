"""What an agent does outside the work tree is told; what tools write all the time is not."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_iterctl.work.surroundings import Disturbance, Surroundings, disturbances, look

Deed = Callable[[Path], object]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    for name, text in {
        ".bashrc": "alias ll='ls -l'\n",
        ".gitconfig": "[user]\n\tname = A User\n[credential]\n\thelper = store\n",
        ".ssh/id_ed25519": "private",
        ".ssh/config": "Host *\n",
        ".ssh/known_hosts": "example.org\n",
        ".aws/credentials": "[default]\n",
        ".config/git/ignore": "*.swp\n",
        ".config/git/config": "[core]\n\tpager = less\n",
        ".config/gtk-3.0/settings.ini": "",
        ".local/bin/tool": "#!/bin/sh\n",
        ".claude.json": "{}",
        ".mytool": "settings of a tool",
        ".bash_history": "ls\n",
        "notes.txt": "no dot file",
    }.items():
        write(name, text)(home)
    (home / ".profile").symlink_to(tmp_path / "dotfiles/profile")
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles/profile").write_text("umask 022\n")
    return home


@pytest.fixture
def root(tmp_path: Path) -> Path:
    projects = tmp_path / "projects"
    for name in ("project", "other project/src", "third"):
        (projects / name).mkdir(parents=True)
    (projects / "todo.txt").write_text("milk\n")
    return projects / "project"


def write(name: str, text: str = "new\n") -> Deed:
    def do(home: Path) -> None:
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return do


def told(root: Path, home: Path, deed: Deed) -> tuple[Disturbance, ...]:
    before = look(root, home)
    assert not before.cut
    deed(home)
    after = look(root, home)
    assert disturbances(before, Surroundings.from_json(after.to_json())) == disturbances(before, after)
    return disturbances(before, after)


NEVER_TOLD = [
    *(".cache/uv/x", ".npm/_cacache/x", ".claude/projects/x.jsonl", ".claude.json", ".claude.json.backup"),
    *(".codex/sessions/x", ".gemini/tmp/x", ".cursor/x", ".aider.chat.history.md", ".copilot/x", ".opencode/x"),
    *(".config/configstore/x", ".config/opencode/x", ".local/share/uv/x", ".local/state/x", ".cargo/registry/x"),
    *(
        ".bash_history",
        ".python_history",
        ".node_repl_history",
        ".lesshst",
        ".wget-hsts",
        ".viminfo",
        ".zcompdump-host",
    ),
    *(".ssh/known_hosts", ".ssh/known_hosts.old", ".gnupg/trustdb.gpg", ".gnupg/random_seed", ".docker/buildx/x"),
    *(
        ".gitconfig.lock",
        ".bashrc.swp",
        ".bashrc~",
        ".#notes",
        ".gradle/x",
        ".m2/x",
        ".pytest_cache/x",
        ".mypy_cache/x",
    ),
    *(
        ".DS_Store",
        ".sudo_as_admin_successful",
        ".Xauthority",
        ".vscode-server/x",
        ".ipython/x",
        ".config/mimeapps.list",
    ),
    *("notes.txt", "Documents/letter.txt"),
]


@pytest.mark.parametrize("name", NEVER_TOLD)
def test_what_tools_write_all_the_time_is_never_told(root: Path, home: Path, name: str) -> None:
    assert told(root, home, write(name)) == ()


TOLD: dict[str, tuple[Deed, str, bool]] = {
    "changes the shell's start": (write(".bashrc"), "~/.bashrc", True),
    "plants a start of the shell": (write(".zshenv"), "~/.zshenv", True),
    "opens a private key": (lambda home: (home / ".ssh/id_ed25519").chmod(0o666), "~/.ssh/id_ed25519", True),
    "lets somebody log in": (write(".ssh/authorized_keys"), "~/.ssh/authorized_keys", True),
    "removes a private key": (lambda home: (home / ".ssh/id_ed25519").unlink(), "~/.ssh/id_ed25519", True),
    "changes credentials": (write(".aws/credentials"), "~/.aws/credentials", True),
    "changes how packages come": (write(".config/pip/pip.conf"), "~/.config/pip/pip.conf", True),
    "writes a password": (write(".netrc"), "~/.netrc", True),
    "publishes": (write(".pypirc"), "~/.pypirc", True),
    "starts a service": (write(".config/systemd/user/x.service"), "~/.config/systemd/user/x.service", True),
    "starts with the desktop": (write(".config/autostart/x.desktop"), "~/.config/autostart/x.desktop", True),
    "writes through a link": (
        lambda home: (home.parent / "dotfiles/profile").write_text("curl | sh\n"),
        "~/.profile",
        True,
    ),
    "removes a tool's settings": (lambda home: (home / ".mytool").unlink(), "~/.mytool", True),
    "changes a tool's settings": (write(".mytool"), "~/.mytool", False),
    "makes a new dot folder": (write(".newtool/x"), "~/.newtool", False),
    "installs a command": (write(".local/bin/other"), "~/.local/bin/other", False),
    "removes a neighbour": (lambda home: (home.parent / "projects/third").rmdir(), "../third", True),
    "removes a neighbour's file": (lambda home: (home.parent / "projects/todo.txt").unlink(), "../todo.txt", True),
    "makes a neighbour": (lambda home: (home.parent / "projects/copy").mkdir(), "../copy", False),
    "writes to a neighbour": (write("../projects/todo.txt", "milk and bread\n"), "../todo.txt", False),
    "says who it is everywhere": (write(".gitconfig", "[credential]\n\thelper = store\n"), "~/.gitconfig", False),
}


@pytest.mark.parametrize("deed", TOLD)
def test_what_is_somebodys_is_told(root: Path, home: Path, deed: str) -> None:
    do, path, serious = TOLD[deed]
    found = told(root, home, do)
    assert [(each.path, each.serious) for each in found] == [(path, serious)]


@pytest.mark.parametrize("setting", ["[core]\n\thooksPath = x\n", "[alias]\n\tst = !x\n", "[include]\n\tpath = x\n"])
def test_settings_of_git_that_run_programs_count(root: Path, home: Path, setting: str) -> None:
    found = told(root, home, write(".gitconfig", setting))
    assert any(each.serious for each in found)


def test_temporary_things_beside_the_work_tree_are_never_told(root: Path, home: Path) -> None:
    def do(_: Path) -> None:
        for name in ("tmp", "tmpabc", ".pytest_cache", "x.log", "y.tmp", ".project.swp", "nohup.out", "z~"):
            (root.parent / name).write_text("x")
        (root / "inside").write_text("in the work tree, which has snapshots")
        (root.parent / "other project/src/x").write_text("nobody looks into folders")

    assert told(root, home, do) == ()


def test_a_folder_of_everybodys_is_not_looked_at(tmp_path: Path, home: Path) -> None:
    everybodys = tmp_path / "everybodys"
    (everybodys / "project").mkdir(parents=True)
    everybodys.chmod(0o1777)
    assert told(everybodys / "project", home, lambda _: (everybodys / "x").mkdir()) == ()


def test_what_is_no_file_is_never_opened(root: Path, home: Path) -> None:
    for name in (".netrc", ".ssh/agent.1", ".pipe"):
        os.mkfifo(home / name)
    (home / ".linked").symlink_to(home / ".netrc")
    (home / ".zshrc").symlink_to("/dev/zero")
    os.mkfifo(root.parent / "pipe")
    began = time.monotonic()
    assert not look(root, home).cut
    assert time.monotonic() - began < 1


def test_a_full_home_and_a_full_folder_take_a_bounded_time(root: Path, home: Path) -> None:
    for number in range(3000):
        (home / f".entry-{number}").touch()
        (root.parent / f"sibling-{number}").touch()
    seen = look(root, home, most=1000)
    assert seen.cut
    assert len(seen.seen) < 2200
    (home / ".bashrc").write_text("changed\n")
    (home / ".entry-new").touch()
    later = disturbances(seen, look(root, home, most=1000))
    assert all(each.how == "changed" for each in later)


def test_a_file_system_that_does_not_answer_is_given_up(
    root: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = os.scandir

    def slow(folder: Path) -> object:
        if Path(folder).name == ".aws":
            time.sleep(1)
        return scan(folder)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", slow)
        began = time.monotonic()
        seen = look(root, home, seconds=0.2)
        assert time.monotonic() - began < 0.8
        assert seen.cut
        assert "~/.bashrc" in seen.seen
        time.sleep(1)


def test_no_home_is_no_error(root: Path, tmp_path: Path) -> None:
    assert look(root, tmp_path / "nowhere").cut is False


def test_a_home_beside_the_work_tree_is_looked_at_once(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / ".bashrc").touch()
    assert dict(look(tmp_path / "project", tmp_path).seen).keys() == {"~/.bashrc"}
