"""Every benchmark in turn, one line per figure. `--quick` shows that they work; figures need a quiet machine."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

_BENCHMARKS = (
    *("idle_plugin", "loop_overhead", "witness_cost", "snapshot", "metadata", "journal", "junit", "feedback", "gate"),
    *("limits", "failure_histories"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, meaningless figures")
    parser.add_argument("--runs", type=int, help="how often each side runs, in every benchmark")
    parser.add_argument("--venv", type=Path, help="for idle_plugin: an environment with this package installed")
    given = parser.parse_args()
    common = [*(["--quick"] if given.quick else []), *(["--runs", str(given.runs)] if given.runs else [])]
    failed = 0
    for name in _BENCHMARKS:
        own = ["--venv", str(given.venv)] if given.venv and name == "idle_plugin" else []
        script = Path(__file__).with_name(f"{name}.py")
        failed += subprocess.run([sys.executable, str(script), *common, *own], check=False).returncode != 0
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
