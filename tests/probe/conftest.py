"""The room in which the probe is tried, and the folders that it is made of."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pytest_iterctl.feedback.witness_log import read_witness
from pytest_iterctl.work.pytest_run import PytestRun, run_pytest
from tests.probe.probed import PROBE, Probed, Room, write


@pytest.fixture
def private(tmp_path: Path) -> Path:
    folder = tmp_path / "private"
    folder.mkdir()
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "room" / "tree"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def room(tree: Path, private: Path) -> Room:
    """Writes files and runs them: `room({"test_a.py": …}, "-x", exam={"watch": True})`."""

    def run(
        files: dict[str, str],
        *arguments: str,
        exam: dict[str, object] | None = None,
        plugins: tuple[str, ...] = (),
        **variables: str,
    ) -> Probed:
        write(tree, {"pytest.ini": "[pytest]\n", **files})
        protected = [name for name in files if Path(name).name.startswith(("test_", "conftest"))]
        path = private / "exam.json"
        told = {"probe": str(PROBE), "tree": str(tree), "protected": protected, "watch": True, **(exam or {})}
        path.write_text(json.dumps(told), encoding="utf-8")
        chosen = [argument for plugin in plugins for argument in ("-p", plugin)]
        request = PytestRun(
            python=sys.executable,
            arguments=("-p", "no:cacheprovider", *chosen, *arguments),
            directory=tree,
            as_module=True,
            run="run",
            timeout=60,
            exam=path,
            variables={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1", **variables},
        )
        with run_pytest(request, private, lambda _: False) as (finished, stream):
            log = read_witness(stream)
            output = finished.stdout.text + finished.stderr.text
        assert not path.exists()
        return Probed(log, finished.exit_code, output)

    return run
