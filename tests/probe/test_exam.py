"""The exam reaches the probe, and nobody else."""

from __future__ import annotations

import sys
from pathlib import Path

from pytest_iterctl.feedback.witness_log import read_witness
from pytest_iterctl.work.pytest_run import PytestRun, run_pytest
from tests.probe.probed import Room


def test_the_exam_is_no_part_of_the_environment(room: Room) -> None:
    text = "import os\ndef test_a():\n    assert not [name for name in os.environ if 'WITNESS' in name]\n"
    probed = room({"test_a.py": text}, VARIABLE="x")
    assert probed.exit_code == 0
    text = "import os\ndef test_a():\n    assert os.environ['VARIABLE'] == 'y'\n"
    assert room({"test_a.py": text}, VARIABLE="y").exit_code == 0


def test_an_exam_that_cannot_be_read_is_no_run(tree: Path, private: Path) -> None:
    for text in (None, "[", "[]"):
        path = private / "exam.json"
        if text is not None:
            path.write_text(text, encoding="utf-8")
        request = PytestRun(sys.executable, (), tree, as_module=True, run="run", timeout=60, exam=path)
        with run_pytest(request, private, lambda _: False) as (finished, stream):
            assert finished.exit_code == 4
            assert not read_witness(stream).started
