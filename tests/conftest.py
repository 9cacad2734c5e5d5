"""What all tests share: an environment of their own, and real little projects in real git repositories."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.project import Project, clean_environment


def pytest_configure() -> None:
    """What a shell starts in the background ignores Ctrl-C, and so would the tests, and all that they start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


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
