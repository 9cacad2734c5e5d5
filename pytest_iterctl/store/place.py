"""Where state lives: outside the work tree that an agent may write, one private folder per work tree."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pytest_iterctl.errors import StoreError, UsageError

__all__ = ["Place", "state_home"]


def state_home(environment: Mapping[str, str]) -> Path:
    """`ITERCTL_STATE_DIR`, else `$XDG_STATE_HOME/iterctl`, else `~/.local/state/iterctl`."""
    if chosen := environment.get("ITERCTL_STATE_DIR"):
        return Path(chosen).expanduser().resolve()
    # XDG says that a relative path is to be ignored.
    base = environment.get("XDG_STATE_HOME", "")
    home = Path(base) if base.startswith("/") else Path(environment.get("HOME") or "~").expanduser() / ".local/state"
    return home / "iterctl"


class Place:
    """The folder of one work tree: the journal, the lock, and a private folder per run."""

    def __init__(self, root: Path, environment: Mapping[str, str], *, for_agents: bool = True) -> None:
        """`for_agents`: the folder is a work tree in which agents write, so no state may lie inside."""
        self.root = root
        resolved = root.resolve()
        name = re.sub(r"[^A-Za-z0-9._-]", "_", resolved.name) or "root"
        digest = hashlib.sha256(os.fsencode(resolved)).hexdigest()[:12]
        self.home = home = state_home(environment)
        self.directory = home / f"{name[:40]}-{digest}"
        self._first_agent = home / "first-agent"
        if for_agents and self.directory.resolve().is_relative_to(resolved):
            raise UsageError(
                f"the state folder {home} lies inside the work tree, where an agent could write it",
                hint="set ITERCTL_STATE_DIR or XDG_STATE_HOME to a folder outside of it",
            )

    @property
    def database(self) -> Path:
        return self.directory / "journal.db"

    @property
    def lock_file(self) -> Path:
        return self.directory / "lock"

    @property
    def reports(self) -> Path:
        """What people read: in the work tree, in a folder that ignores itself."""
        return self.root / ".iterctl"

    def prepare(self) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.directory.chmod(0o700)
        except OSError as error:
            raise StoreError(
                f"the state folder can't be made: {self.directory}: {error.strerror}",
                hint="set ITERCTL_STATE_DIR to a folder that can be written",
            ) from None

    def note_agent(self) -> None:
        """Remember when the first agent ever was called here: what has not changed since is nobody's work."""
        with suppress(OSError), self._first_agent.open("x", encoding="ascii") as file:
            file.write(str(time.time_ns()))

    def first_agent(self) -> int:
        """When that was, in nanoseconds since the epoch; now, if none has been called yet."""
        try:
            return int(self._first_agent.read_text(encoding="ascii"))
        except FileNotFoundError:
            return time.time_ns()
        except (OSError, ValueError):
            return 0  # somebody has been at it: nothing is old enough

    def run_directory(self, run: str) -> Path:
        """The private folder of one run: prompts, feedback files, the private index, the stop request."""
        directory = self.directory / "runs" / run
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreError(f"the run's folder can't be made: {directory}: {error.strerror}") from None
        return directory

    def stop_file(self, run: str) -> Path:
        return self.directory / "runs" / run / "stop"

    def report_directory(self, run: str) -> Path:
        """`.iterctl/runs/RUN` in the work tree; made on demand, never followed through a link."""
        ignore = self.reports / ".gitignore"
        if self.reports.is_symlink():
            raise StoreError(f"{self.reports} is a symbolic link; reports are not written through links")
        self.reports.mkdir(exist_ok=True)
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
        directory = self.reports / "runs" / run
        directory.mkdir(parents=True, exist_ok=True)
        if not directory.resolve().is_relative_to(self.root.resolve()):
            raise StoreError(f"{directory} leads out of the work tree; reports are not written through links")
        return directory
