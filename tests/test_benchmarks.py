"""The benchmarks start and print their figures in one form; what the figures are is nothing that a test could ask."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_iterctl.control.error_types import ERROR_TYPES
from tests.kit.project import git

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
LINE = re.compile(r"(?P<name>[a-z_0-9.]+): (\d+\.\d{3}|not measured) \(target <= [0-9.]+\) \S.*")
_WHOLE = ("max_total_duration", "max_duration_per_iteration")
FIGURES = {
    "idle_plugin": {"instructions", "user_time"},
    "loop_overhead": {"wall", "wall_paired", "busy", "own_share"},
    "witness_cost": {"cpu_minimum", "cpu_paired", "with_reading", "instructions"},
    "snapshot": {
        f"{kind}.{figure}"
        for kind in ("first_of_a_run", "clean", "20_edited", "20_edited_apart")
        for figure in ("cpu", "wall")
    },
    "journal": {"resume_ms", "decision_ms", "next_step_ms", "durable_event_ms", "event_ms"},
    "junit": {"one_percent_failing", "memory_growth_mb", "named_green", "all_failing", "all_failing_at_length"},
    "feedback": {"bytes", "grouping_s"},
    "metadata": {
        *(f"{kind}_against_{what}" for kind in ("packed", "loose") for what in ("refs", "status")),
        "losses_all_edited",
        "surroundings",
    },
    "gate": {
        "room_wall",
        "room_paired",
        "room_cpu",
        "layout",
        "controls_wall",
        "controls_paired",
        "controls_cpu",
        "controls_of_slower_tests",
    },
    "limits": {
        *(f"{limit}.{who}_s" for limit in _WHOLE for who in ("agent", "tests", "reviewer")),
        *("timeout.agent_s", "timeout.reviewer_s", "test_timeout.tests_s"),
    },
    "failure_histories": {
        *ERROR_TYPES,
        *("transient_unresolved", "permanent_misjudged", "honest_blocked", "choice_ms", "analysis_s"),
    },
}


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / f"{script}.py"), *arguments],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FIGURES))
def test_a_quick_benchmark_prints_one_line_per_figure(name: str) -> None:
    # The environment at hand will do, and saves making one.
    own = ("--venv", sys.prefix) if name == "idle_plugin" else ()
    ran = run(name, "--quick", *own)
    assert ran.returncode == 0, ran.stderr
    lines = [LINE.fullmatch(line) for line in ran.stdout.splitlines()]
    assert [line["name"].partition(".")[0] for line in lines if line is not None] == [name] * len(lines)
    assert {line["name"].partition(".")[2] for line in lines if line is not None} == FIGURES[name]
    assert len(lines) == len(FIGURES[name])


@pytest.mark.parametrize("name", [*sorted(FIGURES), "run_all"])
def test_every_benchmark_says_what_it_measures(name: str) -> None:
    ran = run(name, "--help")
    assert ran.returncode == 0, ran.stderr
    assert "--quick" in ran.stdout
    assert "--runs" in ran.stdout


def test_run_all_runs_every_benchmark() -> None:
    source = (BENCHMARKS / "run_all.py").read_text()
    assert all(f'"{name}"' in source for name in FIGURES)


def test_the_audit_of_a_history_counts_what_it_finds(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    for change in (
        {"calc.py": "def double(number):\n    return number\n", "tests/test_calc.py": "import os\n"},
        {"calc.py": "def double(number):\n    return number * 2\n", "tests/test_calc.py": "import os\nos._exit(0)\n"},
        {"calc.py": "import os\n\n\ndef double(number):\n    os._exit(0)\n"},
        {"notes.txt": "os._exit(0)\n"},
    ):
        for name, content in change.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(content)
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-qm", "change")
    ran = run("audit_history", str(tmp_path))
    assert ran.returncode == 0, ran.stderr
    found, *figures = ran.stdout.splitlines()
    assert found.endswith("certain calc.py:5 ends-process")
    assert [line.split(" ")[:2] for line in figures[:2]] == [["audit.certain:", "1"], ["audit.suspicious:", "0"]]
    assert all("of 3 commits of" in line for line in figures[:2])
