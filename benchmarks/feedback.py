"""What feedback saves and what it costs: one broken fixture in 200 tests, and 10,000 failures grouped by cause."""

from __future__ import annotations

import io
import random
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path

from measure import clean_environment, command, cpu, in_process, interleaved, minimum_ratio, options, scratch, tell

import pytest_iterctl
from pytest_iterctl.control.evidence import Failure, Frame, SuiteEvidence
from pytest_iterctl.feedback.causes import group
from pytest_iterctl.feedback.compose import long_form
from pytest_iterctl.feedback.verdict import judge_pytest
from pytest_iterctl.feedback.witness_log import read_witness

_WITNESS = Path(pytest_iterctl.__file__).with_name("witness") / "__main__.py"
_TESTS = 200
_CAUSES = 40
_PRODUCT = '''\
"""Where the settings come from."""


def parse(text):
    return dict(line.split("=") for line in text.splitlines())


def connect(settings):
    options = parse(settings)
    return options["host"], int(options["port"])
'''
_FIXTURE = """\
import pytest

import service


@pytest.fixture
def connection():
    return service.connect("host=localhost")
"""


def main() -> None:
    given = options(__doc__ or "", size=10_000, runs=7, quick_size=200)
    with scratch() as folder:
        _compare_sizes(folder)
    _time_grouping(given.size, given.runs)


def _compare_sizes(folder: Path) -> None:
    """What pytest prints by default against what an agent is told, about one and the same run."""
    root = folder / "project"
    root.mkdir()
    (root / "pytest.ini").write_text("[pytest]\n")
    (root / "service.py").write_text(_PRODUCT)
    (root / "conftest.py").write_text(_FIXTURE)
    tests = (f"def test_{number}(connection):\n    assert connection[1] > {number}\n\n\n" for number in range(_TESTS))
    (root / "test_service.py").write_text("".join(tests))
    printed, suite = _witnessed(root, folder)
    told = long_form(suite, (), reproduce="pytest")
    for needed in ("KeyError: 'port'", "service.py:10", "conftest.py:8", f"and {_TESTS - 1} more tests"):
        if needed not in told:
            sys.exit(f"error: the feedback does not name {needed}:\n{told}")
    size = len(told.encode())
    how = f"{size} bytes of feedback on {_TESTS} tests against {printed} bytes that pytest printed"
    tell("feedback.bytes", size / printed, 0.01, f"{how}: {printed // size} times smaller")


def _witnessed(root: Path, folder: Path) -> tuple[int, SuiteEvidence]:
    """The bytes that pytest printed, and the evidence of the same run."""
    output = folder / "printed"
    with tempfile.TemporaryFile(dir=folder) as log:
        settings = {"ITERCTL_WITNESS_FD": str(log.fileno()), "ITERCTL_WITNESS_MODE": "module"}
        environment = clean_environment(folder) | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} | settings
        arguments = (sys.executable, str(_WITNESS), "-p", "no:cacheprovider")
        took = command(arguments, cwd=root, environment=environment, expect=1, pass_fds=(log.fileno(),), output=output)
        log.seek(0)
        seen = read_witness(io.BytesIO(log.read()))
    suite = judge_pytest(seen, exit_code=1, ended_by="exit", seconds=took.wall, output_tail="")
    return output.stat().st_size, suite


def _time_grouping(size: int, runs: int) -> None:
    failures = _failures(size)
    found = group(failures)
    if len(found) != min(_CAUSES, size):
        sys.exit(f"error: {len(found)} causes were found, not {_CAUSES}")
    grouped, passed_over = partial(group, failures), partial(_passed_over, failures)
    rounds = interleaved(partial(in_process, grouped), partial(in_process, passed_over), runs)
    seconds = statistics.median(measured.cpu for measured, _ in rounds)
    how = f"CPU seconds, median of {runs}: {size} failures with {_CAUSES} causes, no two messages alike"
    ratio = minimum_ratio(rounds, cpu)
    tell("feedback.grouping_s", seconds, 1, f"{how}; {ratio:.1f} times a plain pass that counts types and files")


def _failures(size: int) -> list[Failure]:
    failures = [_failure(number, number % _CAUSES) for number in range(size)]
    random.Random(3).shuffle(failures)
    return failures


def _failure(number: int, cause: int) -> Failure:
    frames = (
        Frame(path=f"tests/test_{cause}.py", line=8, function="test_work", source="assert work(given) == wanted"),
        Frame(path=f"area/part_{cause}.py", line=30 + cause, function="work", source="raise ValueError(given)"),
    )
    message = (
        f"ValueError: part {number} of /srv/build-{number}/data.txt at {number:#x} has no {{'left', 'right {number}'}}"
    )
    return Failure(
        test=f"tests/test_{cause}.py::test_work[{number}]",
        where=f"area/part_{cause}.py:{30 + cause}",
        kind="ValueError",
        message=message,
        frames=frames,
        detail="    def work(given):\n>       raise ValueError(given)\n" * 8,
    )


def _passed_over(failures: list[Failure]) -> None:
    """The least that grouping could be: by type and file."""
    counts: dict[tuple[str, str], int] = {}
    for failure in failures:
        key = (failure.kind, failure.where.rpartition(":")[0])
        counts[key] = counts.get(key, 0) + 1


if __name__ == "__main__":
    main()
