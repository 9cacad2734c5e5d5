"""Says which settings of git make it run a program, send what is asked for elsewhere, look away or forget.

Everybody may set a name, an upstream or how a pull merges. What is listed here is what an agent has no business with:
the user's next `git status` would run it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.git_objects import ask_alone

__all__ = ["dangerous", "settings_in", "settings_of", "suspicious"]

#: Names in small letters, `*` for the part in the middle.
_PROGRAMS = re.compile(
    r"core\.(hookspath|fsmonitor|sshcommand|askpass|editor|pager|gitproxy|worktree|bare|alternaterefscommand)"
    r"|core\.(repositoryformatversion|virtualfilesystem|gvfs)|extensions\..+"
    r"|include\.path|includeif\..+\.path|url\..+\.(insteadof|pushinsteadof)|init\.templatedir"
    r"|credential(\..+)?\.helper|filter\..+\.(clean|smudge|process|required)"
    r"|diff\.external|diff\..+\.(command|textconv)|interactive\.difffilter|merge\..+\.driver"
    r"|(diff|merge|gui)tool\..+\.(cmd|path)|(browser|man)\..+\.(cmd|path)|sequence\.editor|pager\..+"
    r"|gpg\.program|gpg\..+\.(program|defaultkeycommand)|trailer\..+\.(command|cmd)|hook\..+\.command"
    r"|remote\..+\.(vcs|uploadpack|receivepack|proxy)|uploadpack\.packobjectshook"
    r"|protocol(\..+)?\.allow|http(\..+)?\.(proxy|sslverify|sslcainfo|sslcapath|cookiefile|extraheader)"
    r"|sendemail(\..+)?\.(smtpserver|sendmailcmd|tocmd|cccmd|headercmd)|imap\.tunnel|tar\..+\.command"
    r"|lfs\.(.+\.)?(url|pushurl|standalonetransferagent|path)|lfs\.extension\..+|receive\.procreceiverefs"
    # What lets the next garbage collection forget.
    r"|gc\..*expire.*|core\.logallrefupdates"
)
_REMOTE = re.compile(r"(remote|submodule)\..+\.(url|pushurl)")
_UPDATE = re.compile(r"submodule\..+\.update")
#: Settings of that list which mean no harm with one of these values.
_HARMLESS_VALUES = {
    "core.bare": {"false"},
    "core.repositoryformatversion": {"0", "1"},
    "extensions.worktreeconfig": {"true", "false"},
    "extensions.partialclone": {"origin"},
    "core.logallrefupdates": {"true", "always"},
    # What agents set so that no call of theirs waits for a key.
    "core.pager": {"", "cat", "less", "less -FRX", "less -R"},
    "core.editor": {"", ":", "true", "cat", "vi", "vim", "nano", "emacs", "code --wait"},
    "sequence.editor": {"", ":", "true"},
    # What installing husky or git-lfs sets, as thousands of projects have it done by their own build.
    "core.hookspath": {".husky", ".husky/_"},
    "filter.lfs.clean": {"git-lfs clean -- %f"},
    "filter.lfs.smudge": {"git-lfs smudge -- %f"},
    "filter.lfs.process": {"git-lfs filter-process"},
    "filter.lfs.required": {"true"},
}
_LARGEST = 1024**2


def settings_in(repository: Repository, content: bytes, scratch: Path) -> Mapping[str, tuple[str, ...]] | None:
    """The settings that a file with this content makes, nothing included; None when git can't read it."""
    if len(content) > _LARGEST:
        return None
    scratch.write_bytes(content)
    return settings_of(repository, scratch)


def settings_of(repository: Repository, path: Path) -> Mapping[str, tuple[str, ...]] | None:
    """The same of a file that is no pipe and not too big."""
    answer = ask_alone(repository, "config", "--file", str(path), "--no-includes", "-z", "--list")
    if answer.code != 0:
        return None
    found: dict[str, tuple[str, ...]] = {}
    for record in answer.output.split(b"\0")[:-1]:
        key, separator, value = record.partition(b"\n")
        name = os.fsdecode(key)
        found[name] = (*found.get(name, ()), os.fsdecode(value) if separator else "true")
    return found


def dangerous(key: str, values: tuple[str, ...]) -> bool:
    """Whether these values of a setting could run a program, lead elsewhere, or hide or lose something."""
    plain = key.casefold()
    if plain.startswith("alias.") or _UPDATE.fullmatch(plain):
        return any(value.lstrip().startswith("!") for value in values)
    if _REMOTE.fullmatch(plain):
        return any("::" in value.partition("/")[0] for value in values)
    harmless = {"true", "false"} if plain.startswith("pager.") else _HARMLESS_VALUES.get(plain, set())
    return _PROGRAMS.fullmatch(plain) is not None and not set(values) <= harmless


def suspicious(before: Mapping[str, tuple[str, ...]], after: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The keys whose change counts against whoever made it."""
    found = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key, ()), after.get(key, ())
        if old == new:
            continue
        # A remote that is new leads nobody astray; one that was known must stay what it was.
        changed_remote = bool(old) and _REMOTE.fullmatch(key.casefold()) is not None
        if changed_remote or dangerous(key, new) or (not new and _PROGRAMS.fullmatch(key.casefold()) is not None):
            found.append(key)
    return tuple(found)
