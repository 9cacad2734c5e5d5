"""Here the projects have every installed plugin, as their users do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.kit.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return replace(Project.make(tmp_path / "project", state=tmp_path / "state"), autoload=True)
