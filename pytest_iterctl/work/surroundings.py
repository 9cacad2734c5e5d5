"""Sees what changed around a work tree: dot files of the home, what is beside the work tree, scheduled commands.

Names, kinds, sizes and times, and digests of small files; what is no regular file is never opened, folders are never
asked for more than their names, and a look ends after a stated time and number of entries. What tools write all the
time is left out. Nothing out here is ever undone: there is no copy of it, and it is not ours.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import re
import stat
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from pytest_iterctl.text import file_name
from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.git_settings import dangerous, settings_of

__all__ = ["EVERYDAY", "Disturbance", "Surroundings", "disturbances", "look"]

SECONDS = 2.0
MOST_ENTRIES = 100_000
_LARGEST = 256 * 1024

#: Below the home: files that start programs, log in somewhere or say what programs do. Only these folders are opened,
#: and nothing below them.
FOLDERS = (
    ".ssh",
    ".aws",
    ".azure",
    ".docker",
    ".kube",
    ".gnupg",
    ".config",
    ".config/git",
    ".config/gh",
    ".config/pip",
    ".config/uv",
    ".config/fish",
    ".config/fish/conf.d",
    ".config/autostart",
    ".config/systemd/user",
    ".config/environment.d",
    ".bashrc.d",
    ".local/bin",
)
#: The user's own settings of git. To say who one is there is honest; to have a program run at every command is not.
_GIT_SETTINGS = (".gitconfig", ".config/git/config")
_THAT_RUN = " (settings that run programs)"
_CRON = ("/var/spool/cron/crontabs", "/var/spool/cron")

#: What tools write all the time, seen from the home; `/` ends a folder's name. Never told.
EVERYDAY = re.compile(
    r"\.cache/|\.local/|\.npm/|\.config/|\.[^/]*[-_]?(history|hist|hsts)([-._][^/]*)?|\.[^/]*_sessions/"
    # Agents, editors and language tools keep their state in a folder or file of their name.
    r"|\.(claude|codex|gemini|cursor|aider|copilot|opencode|cline|continue|amp|goose|qwen|windsurf|codeium|roo)"
    r"([-._][^/]*)?/?"
    r"|\.(vscode|vscode-server|idea|eclipse|emacs\.d|vim|nvim|jupyter|ipython|matplotlib|keras|nltk_data|conda|conan2?"
    r"|cargo|rustup|gradle|m2|ivy2|sbt|nuget|dotnet|templateengine|node-gyp|nvm|volta|bun|deno|yarn|pnpm[^/]*|pyenv"
    r"|rbenv|gem|bundle|cpan|hex|mix|stack|cabal|ghcup|opam|sdkman|android|java|terraform\.d|minikube|mypy_cache"
    r"|pytest_cache|ruff_cache|pki|dbus|gvfs|mozilla|thumbnails|iterctl|docker|kube|aws|azure|ssh|gnupg)/"
    r"|\.(viminfo|lesshst|netrwhist|sudo_as_admin_successful|Xauthority|ICEauthority|xsession-errors(\.old)?|DS_Store"
    r"|motd_shown|zcompdump[^/]*|selected_editor|v8flags[^/]*|babel\.json|node_repl_history|rnd|yarn-metadata\.json"
    r"|esd_auth|fasd|z|bash_logout\.swp|CFUserTextEncoding|localized|Trash[^/]*|fonts\.conf|lock|coverage[^/]*)/?"
    r"|\.ssh/(known_hosts[^/]*|agent[^/]*|control[^/]*|cm[-_][^/]*|environment-[^/]*)|\.gnupg/(random_seed|[^/]*\.lock"
    r"|trustdb\.gpg|pubring\.kbx~?|[^/]*~|S\.[^/]*)|\.config/fish/fish_variables[^/]*|\.config/gh/state\.yml"
    r"|\.config/[^/]*(\.json|\.lock|\.log|rc|\.dirs|\.locale|\.list|\.db|\.yaml|\.yml|-done|\.ini|\.xbel)"
    r"|\.aws/(cli|sso)/?|\.azure/[^/]*|\.kube/(cache|http-cache)/?|\.docker/(buildx|contexts|scan|desktop|run)/?"
    # Half-written files of editors and of everybody who writes safely.
    r"|(.*/)?(\.?#[^/]*|[^/]*~|\.[^/]*\.sw[a-p]|4913|\.nfs[0-9a-f]+|\.fuse_hidden[^/]*|[^/]*\.(lock|tmp|temp|pid|part|log)"
    r"(\.[^/]*)?|\.tmp[^/]*|[^/]*\.(tmp|lock|new|bak)[-._][^/]*)/?"
)
#: Beside the work tree: what is not in this list and starts with no dot was put there by somebody for a purpose.
_EVERYDAY_BESIDE = re.compile(
    r"\.[^/]*/?|tmp[^/]*/?|[^/]*[-_.](tmp|temp|wal|shm|journal|log|lock|pid)/?|nohup\.out|core"
)

#: Whose change matters to the next login or command. What else changes is told, and counts against nobody.
_SERIOUS = re.compile(
    r"\.(bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv|zprofile|zlogin|zlogout|kshrc"
    r"|cshrc|tcshrc|login|inputrc|pam_environment|xprofile|xinitrc|xsession|envrc|vimrc|exrc|gdbinit|lldbinit|pythonrc"
    r"|pythonrc\.py|pdbrc|netrc|pgpass|my\.cnf|pypirc|npmrc|yarnrc|yarnrc\.yml|condarc|gemrc|curlrc|wgetrc|git-credentials"
    r"|gitattributes|forward|rhosts|shosts|tmux\.conf|screenrc|dockercfg|Rprofile|irbrc|pryrc|emacs|nanorc)"
    r"|\.(ssh|aws|docker|kube|gnupg|bashrc\.d)/.*"
    r"|\.config/(git|pip|uv|gh|fish|fish/conf\.d|autostart|systemd/user|environment\.d)/.*|crontab"
    r"|.*\(settings that run programs\)"
)


@dataclass(frozen=True, slots=True)
class Disturbance:
    """One thing outside the work tree that is another than before. `serious` counts against whoever was at work."""

    path: str
    how: str
    serious: bool


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What was seen: by `~/name` or `../name`, a word for what it was. `cut`: not everything could be looked at."""

    seen: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    cut: bool = False

    def to_json(self) -> str:
        return json.dumps({"seen": dict(self.seen), "cut": self.cut})

    @classmethod
    def from_json(cls, text: str) -> Surroundings:
        found = json.loads(text)
        return cls(MappingProxyType({str(name): str(word) for name, word in found["seen"].items()}), bool(found["cut"]))


def look(root: Path, home: Path, *, seconds: float = SECONDS, most: int = MOST_ENTRIES) -> Surroundings:
    """What there is now. A file system that does not answer is given up after that time, and what it has is unknown."""
    seen: dict[str, str] = {}
    gaps: list[str] = []
    looker = threading.Thread(target=_look, args=(root, home, most, seen, gaps), daemon=True, name="surroundings")
    looker.start()
    looker.join(seconds)
    late = looker.is_alive()
    return Surroundings(MappingProxyType(dict(tuple(seen.items()))), late or bool(gaps))


def disturbances(before: Surroundings, after: Surroundings) -> tuple[Disturbance, ...]:
    """What the two disagree about; where one of them is cut, only what both have seen."""
    found = []
    whole = not (before.cut or after.cut)
    for name in sorted(before.seen.keys() | after.seen.keys()):
        was, now = before.seen.get(name), after.seen.get(name)
        if was == now or not (whole or (was and now)):
            continue
        how = "is new" if was is None else "is gone" if now is None else "changed"
        plain = name.removeprefix("~/")
        told_twice = name.startswith("../") and _EVERYDAY_BESIDE.fullmatch(name.removeprefix("../"))
        judged = plain not in _GIT_SETTINGS or how == "is gone"
        serious = (judged and _SERIOUS.fullmatch(plain) is not None) or (how == "is gone" and not told_twice)
        found.append(Disturbance(file_name(os.fsencode(name)), how, serious))
    return tuple(found)


def _look(root: Path, home: Path, most: int, seen: dict[str, str], gaps: list[str]) -> None:
    for folder in ("", *FOLDERS):
        prefix = folder + "/" if folder else ""
        for entry in _scan(home / folder, most, gaps):
            name = prefix + entry.name
            if folder or entry.name.startswith("."):
                _note(entry, name, "~/" + name, seen)
    for name in _GIT_SETTINGS:
        if word := _settings_that_run(home / name):
            seen["~/" + name + _THAT_RUN] = word
    for place in _CRON:
        path = f"{place}/{_user()}"
        if word := _word(path):
            seen["crontab"] = word
    beside = root.parent
    if beside == home or _is_everybodys(beside):
        return
    for entry in _scan(beside, most, gaps):
        name = entry.name + ("/" if entry.is_dir(follow_symlinks=False) else "")
        if entry.name != root.name and not _EVERYDAY_BESIDE.fullmatch(name) and not EVERYDAY.fullmatch(name):
            seen["../" + entry.name] = _kind(entry)


def _note(entry: os.DirEntry[str], name: str, shown: str, seen: dict[str, str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        if "/" not in name and not EVERYDAY.fullmatch(name + "/"):
            seen[shown] = "folder"
    elif not EVERYDAY.fullmatch(name) and (word := _word(entry.path)):
        seen[shown] = word


def _kind(entry: os.DirEntry[str]) -> str:
    """For a neighbour: a folder has no time that means anything, and asking it for one may never end."""
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return "closed"
    return f"{stat.S_IFMT(status.st_mode):o} {status.st_size} {status.st_mtime_ns}"


def _word(path: str) -> str:
    """What tells a file from another one: its content where it is small, else size and time; '' for what is no file."""
    try:
        status = os.lstat(path)
        link = ""
        if stat.S_ISLNK(status.st_mode):
            # Many keep their dot files in a folder of their own and link to them: what counts is what is read there.
            link = os.readlink(path)  # noqa: PTH115 - a string like the others
            status = os.stat(path)  # noqa: PTH116 - as above
        if not stat.S_ISREG(status.st_mode):
            return f"link {link}" if link else ""
        mode = stat.S_IMODE(status.st_mode)
        if status.st_size > _LARGEST:
            return f"{mode:o} {link} {status.st_size} {status.st_mtime_ns}"
        return f"{mode:o} {link} {_digest(path)}"
    except FileNotFoundError:
        return "link to nothing" if os.path.islink(path) else ""  # noqa: PTH114 - as above
    except OSError:
        return "closed"


def _settings_that_run(path: Path) -> str:
    """A digest of those settings, '' for none."""
    word = _word(str(path))
    if not word or word.endswith(("closed", "no file")) or path.stat().st_size > _LARGEST:
        return ""
    nowhere = Path(os.devnull)
    found = settings_of(Repository(Path("/"), nowhere, nowhere, "", None), path)
    kept = sorted((key, values) for key, values in (found or {}).items() if dangerous(key, values))
    return hashlib.sha256(json.dumps(kept).encode()).hexdigest() if kept else ""


def _digest(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return "no file"
        return hashlib.sha256(os.read(descriptor, _LARGEST + 1)).hexdigest()
    finally:
        os.close(descriptor)


def _scan(folder: Path, most: int, gaps: list[str]) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            for number, entry in enumerate(entries):
                if number >= most:
                    gaps.append(str(folder))
                    return
                yield entry
    except OSError:
        return


def _is_everybodys(folder: Path) -> bool:
    """A folder for everybody's temporary files, or the root: things come and go there."""
    try:
        return folder == folder.parent or bool(folder.stat().st_mode & stat.S_ISVTX)
    except OSError:
        return True


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "nobody"
