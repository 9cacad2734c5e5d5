"""What all tests share: an environment of their own, and real little projects in real git repositories."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.project import Project, clean_environment

MEMORY = Path("/dev/shm")
ENOUGH = 4 * 1024**3


def pytest_configure() -> None:
    # What a shell starts in the background ignores Ctrl-C, and so would the tests, and all that they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    _keep_files_in_memory()


def _keep_files_in_memory() -> None:
    """Most of what the tests do is to make little projects, which takes a slow disk as long as all the rest.

    Only where there is room for them and programs may be started from there; a TMPDIR of the developer's stays.
    """
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK | os.X_OK):
        return
    there = os.statvfs(MEMORY)
    if there.f_bavail * there.f_frsize < ENOUGH or there.f_flag & os.ST_NOEXEC:
        return
    folder = MEMORY / f"pytest-iterctl-{os.getuid()}"
    folder.mkdir(mode=0o711, exist_ok=True)  # some tests are other users for a moment
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None


@pytest.fixture(autouse=True)
def _own_environment(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing of the developer's own git, home, CI or an outer run reaches a test."""
    home = tmp_path_factory.getbasetemp() / "home"
    home.mkdir(exist_ok=True)
    clean = clean_environment(home)
    for name in set(os.environ) - set(clean):
        if not name.startswith(("PYTEST_CURRENT_TEST", "PYTEST_XDIST", "COV", "HYPOTHESIS")):
            monkeypatch.delenv(name)
    for name, value in clean.items():
        monkeypatch.setenv(name, value)
    yield


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A git repository with a small package, a failing test and an agent that mends it at its second try."""
    return Project.make(tmp_path / "project", state=tmp_path / "state")
