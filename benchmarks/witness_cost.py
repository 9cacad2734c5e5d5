"""What the witness costs a test run: trivial tests with it, against plain `python -m pytest`."""

from __future__ import annotations

import os
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import BinaryIO

from measure import (
    Cost,
    clean_environment,
    command,
    cpu,
    in_process,
    instructions,
    interleaved,
    minimum_ratio,
    options,
    paired_ratio,
    scratch,
    spread,
    tell,
    tell_missing,
    uncountable,
)

import pytest_iterctl
from pytest_iterctl.feedback.witness_log import read_witness

_WITNESS = Path(pytest_iterctl.__file__).with_name("witness") / "__main__.py"
_PER_FILE = 100
_TARGET = 1.05
_ARGUMENTS = ("-q", "-p", "no:cacheprovider")
_PLAIN = (sys.executable, "-m", "pytest", *_ARGUMENTS)
_WITNESSED = (sys.executable, str(_WITNESS), *_ARGUMENTS)


def main() -> None:
    given = options(__doc__ or "", size=10_000, runs=15, quick_size=100)
    with scratch() as folder, tempfile.TemporaryFile(dir=folder) as log:
        # Plugins that happen to be installed would make a test dearer and the witness look cheaper.
        environment = clean_environment(folder) | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        _compare_time(_suite(folder / "whole", given.size), given.size, given.runs, environment, log)
        if why := uncountable(given):
            tell_missing("witness_cost.instructions", _TARGET, why)
        else:
            _compare_instructions(folder, max(given.size // 20, 5), environment, log)


def _suite(root: Path, size: int) -> Path:
    root.mkdir()
    (root / "pytest.ini").write_text("[pytest]\n")
    for start in range(0, size, _PER_FILE):
        numbers = range(start, min(start + _PER_FILE, size))
        tests = "".join(f"def test_{number}():\n    assert {number} == {number}\n\n\n" for number in numbers)
        (root / f"test_{start:06}.py").write_text(tests)
    return root


def _telling(environment: dict[str, str], log: BinaryIO) -> dict[str, str]:
    """As the loop starts it, with an empty log."""
    os.ftruncate(log.fileno(), 0)
    os.lseek(log.fileno(), 0, os.SEEK_SET)
    return environment | {"ITERCTL_WITNESS_FD": str(log.fileno()), "ITERCTL_WITNESS_MODE": "module"}


def _compare_time(root: Path, size: int, runs: int, environment: dict[str, str], log: BinaryIO) -> None:
    def witnessed() -> Cost:
        return command(_WITNESSED, cwd=root, environment=_telling(environment, log), pass_fds=(log.fileno(),))

    rounds = interleaved(witnessed, partial(command, _PLAIN, cwd=root, environment=environment), runs)
    how = f"of {runs} interleaved runs each, {size} tests, against python -m pytest ({spread(rounds, cpu)})"
    least = minimum_ratio(rounds, cpu)
    tell("witness_cost.cpu_minimum", least, _TARGET, f"CPU time, minimum {how}")
    tell("witness_cost.cpu_paired", paired_ratio(rounds, cpu), _TARGET, f"CPU time, median of pairs {how}")
    reading = min(in_process(partial(_read, log)).cpu for _ in range(3))
    whole = least + reading / min(reference.cpu for _, reference in rounds)
    told = f"cpu_minimum plus the driver's reading of what it wrote ({reading * 1000:.0f} ms)"
    tell("witness_cost.with_reading", whole, _TARGET, told)


def _read(log: BinaryIO) -> None:
    log.seek(0)
    if not read_witness(log).tests:
        sys.exit("error: the witness has seen no tests")


def _compare_instructions(folder: Path, size: int, environment: dict[str, str], log: BinaryIO) -> None:
    """Counts at two sizes: their difference is what tests cost, without what starting costs."""
    counts: list[tuple[int, int]] = []
    for number in (size, 2 * size):
        root = _suite(folder / f"counted-{number}", number)
        command(_PLAIN, cwd=root, environment=environment)  # compiles the tests
        variables = _telling(environment, log)
        witnessed = instructions(_WITNESSED, cwd=root, environment=variables, pass_fds=(log.fileno(),))
        plain = instructions(_PLAIN, cwd=root, environment=environment)
        counts.append((witnessed, plain))
    (few, few_plain), (more, more_plain) = counts
    each = (more - few) / (more_plain - few_plain)
    how = "against python -m pytest"
    tell("witness_cost.instructions", each, _TARGET, f"callgrind, each test beyond {size} of {2 * size}, {how}")
    tell(
        "witness_cost.instructions_with_start", more / more_plain, _TARGET, f"callgrind, all of {2 * size} tests, {how}"
    )


if __name__ == "__main__":
    main()
