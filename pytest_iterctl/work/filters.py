"""Keeps the programs that convert contents (`filter.*`) what they were when the run began.

Whoever can write to `.git/config` could otherwise have a program of theirs run at each snapshot, or make a restore come
out as something else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from pytest_iterctl.work.git import Repository, failure

__all__ = ["Filters"]

_NONE_FOUND = 1
_SWITCHES = ("required",)


class Filters:
    """`path` is private to the run; it holds the filters as they were when it was first asked for."""

    def __init__(self, repository: Repository, path: Path) -> None:
        self.repository = repository
        self.path = path

    def variables(self) -> Mapping[str, str]:
        """What makes git use the old filters, and no new ones, whatever its configuration says by now."""
        now = self._configured()
        before = self._first(now)
        restored = {key: value for key, value in before.items() if now.get(key) != value}
        # Empty is none at all. A filter that must not fail would fail without its programs.
        silenced = {key: "false" if key.endswith(_SWITCHES) else "" for key in now if key not in before}
        changed = sorted((restored | silenced).items())
        if not changed:
            return {}
        pairs = {f"GIT_CONFIG_KEY_{number}": key for number, (key, _) in enumerate(changed)}
        pairs |= {f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in enumerate(changed)}
        return {"GIT_CONFIG_COUNT": str(len(changed)), **pairs}

    def _configured(self) -> dict[str, str]:
        answer = self.repository.ask("config", "-z", "--get-regexp", r"^filter\.")
        if answer.code not in {0, _NONE_FOUND}:
            raise failure("config", answer)
        found = {}
        for record in answer.output.split(b"\0")[:-1]:
            key, separator, value = record.partition(b"\n")
            found[os.fsdecode(key)] = os.fsdecode(value) if separator else "true"
        return found

    def _first(self, now: Mapping[str, str]) -> Mapping[str, str]:
        try:
            found = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial = self.path.with_suffix(".partial")
            partial.write_bytes(json.dumps(now).encode())
            partial.replace(self.path)
            return now
        return {str(key): str(value) for key, value in found.items()}
