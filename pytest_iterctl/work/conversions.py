"""Keeps what converts contents (filters, line endings, attributes) what it was when the run began.

Whoever can write to `.git` could otherwise have a program of theirs run at each snapshot, or make a restore come out as
something else. Attributes inside of the work tree are part of the snapshots themselves.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from pytest_iterctl.work.git import Repository, failure

__all__ = ["Conversions"]

_NONE_FOUND = 1
_SWITCHES = ("required",)
_ATTRIBUTES = "core.attributesfile"
#: Settings that decide what a file of a snapshot looks like in the work tree, with what they are where nobody says.
_DEFAULTS = {
    "core.autocrlf": "false",
    "core.eol": "native",
    "core.symlinks": "true",
    "core.filemode": "true",
    "core.bigfilethreshold": "512m",
    "core.checkroundtripencoding": "SHIFT-JIS",
}
_ASKED = r"^(filter\.|core\.(autocrlf|eol|symlinks|filemode|bigfilethreshold|checkroundtripencoding|attributesfile)$)"


@dataclass(frozen=True, slots=True)
class _Found:
    """All that converts: settings, and the two files of attributes that no snapshot holds."""

    settings: Mapping[str, str]
    of_user: str
    of_repository: str


class Conversions:
    """`directory` is private to the run; it holds everything as it was when it was first asked for."""

    def __init__(self, repository: Repository, directory: Path) -> None:
        self.repository = repository
        self.directory = directory

    def variables(self) -> Mapping[str, str]:
        """What makes git convert as it did, and in no new way, whatever its configuration says by now."""
        now = self._look()
        before = self._first(now)
        old, new = before.settings, now.settings
        changed = {key: value for key, value in old.items() if new.get(key) != value and key != _ATTRIBUTES}
        changed |= {key: _without(key) for key in new if key not in old and key != _ATTRIBUTES}
        if before.of_user != now.of_user:
            changed[_ATTRIBUTES] = str(self._written("attributes", before.of_user))
        made: dict[str, str] = {}
        for number, (key, value) in enumerate(sorted(changed.items())):
            made |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        if made:
            made["GIT_CONFIG_COUNT"] = str(len(changed))
        if before.of_repository != now.of_repository:
            made["GIT_COMMON_DIR"] = str(self._with_attributes(before.of_repository))
        return made

    def _look(self) -> _Found:
        answer = self.repository.ask("config", "-z", "--get-regexp", _ASKED)
        if answer.code not in {0, _NONE_FOUND}:
            raise failure("config", answer)
        settings = {}
        for record in answer.output.split(b"\0")[:-1]:
            key, separator, value = record.partition(b"\n")
            settings[os.fsdecode(key)] = os.fsdecode(value) if separator else "true"
        home = Path(os.environ.get("XDG_CONFIG_HOME") or Path(os.environ.get("HOME") or "/", ".config"))
        named = settings.get(_ATTRIBUTES) or str(home / "git" / "attributes")
        return _Found(
            settings,
            _content(self.repository.root / os.path.expanduser(named)),  # noqa: PTH111 - a user who is not there is no error
            _content(self.repository.common_dir / "info" / "attributes"),
        )

    def _first(self, now: _Found) -> _Found:
        try:
            found = json.loads((self.directory / "conversions.json").read_bytes())
        except FileNotFoundError:
            self._written("conversions.json", json.dumps(asdict(now)))
            return now
        return _Found(**found)

    def _with_attributes(self, text: str) -> Path:
        """The shared git directory as it is, but for these attributes: for commands that write no reference.

        They stand above all others and no setting takes them away, and the user's own file is never touched.
        """
        place = self.directory / "common"
        shutil.rmtree(place, ignore_errors=True)
        (place / "info").mkdir(parents=True)
        self._link_into(place, self.repository.common_dir, without="info")
        self._link_into(place / "info", self.repository.common_dir / "info", without="attributes")
        self._written("common/info/attributes", text)
        return place

    def _link_into(self, place: Path, folder: Path, *, without: str) -> None:
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.name != without:
                (place / path.name).symlink_to(path)

    def _written(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        partial.write_bytes(os.fsencode(text))
        partial.replace(path)
        return path


def _without(key: str) -> str:
    """What a setting that nobody had made is set to. A filter that must not fail would fail without its programs."""
    return _DEFAULTS.get(key, "false" if key.endswith(_SWITCHES) else "")


def _content(path: Path) -> str:
    with suppress(OSError):
        if path.is_file():
            return os.fsdecode(path.read_bytes())
    return ""
