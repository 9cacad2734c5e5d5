"""What reading a large JUnit report costs, against xml.etree's iterparse alone, which keeps nothing of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from xml.etree.ElementTree import iterparse

from measure import Cost, Side, cpu, in_process, interleaved, minimum_ratio, options, scratch, spread, tell

from pytest_iterctl.feedback.junit import JUnitReport, read_reports

_FAILING = 100
_SHARE_OF_LONG = 5
_HEAD = '<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest" tests="{size}">'
_CASE = (
    '<testcase classname="tests.package_{group}.test_module" name="test_function_{number}[value-{group}]" time="0.001"'
)
_FRAME = """tests/package/test_module.py:{number}: in test_function
    helper(value)
src/package/module.py:12: in helper
    return compute(value, "some argument", other=[1, 2, 3])
"""
_END = "E   assert {number} == 3\n\nsrc/package/other.py:99: AssertionError"
_SHORT, _MIDDLE, _LONG = _FRAME * 2 + _END, _FRAME * 7 + _END, _FRAME * 25 + _END
#: A small report first, so that what is imported for it is no growth. getrusage would tell of the parent's size too.
_GROWTH = """
import re, sys
from pathlib import Path
from pytest_iterctl.feedback.junit import read_reports

def largest():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

read_reports([Path(sys.argv[1])])
before = largest()
read_reports([Path(sys.argv[2])])
print((largest() - before) / 1024)
"""


def main() -> None:
    given = options(__doc__ or "", size=100_000, runs=9, quick_size=2000)
    with scratch() as folder:
        some = _written(folder / "some.xml", given.size, _FAILING, _SHORT)
        few = _written(folder / "few.xml", _FAILING, _FAILING, _SHORT)
        _compare("junit.one_percent_failing", some, given.size, given.runs, 1.5)
        grown = _output(_GROWTH, few, some)
        tell("junit.memory_growth_mb", float(grown), 50, f"largest resident size, {given.size} cases, 1 % failing")
        none = _written(folder / "none.xml", given.size, given.size + 1, _SHORT, first=1)
        _compare("junit.named_green", none, given.size, given.runs, 2.5, name_passed=True)
        few_runs = max(given.runs // 2, 2)
        all_of_them = _written(folder / "all.xml", given.size, 1, _MIDDLE)
        _compare("junit.all_failing", all_of_them, given.size, few_runs, 2.0)
        long = given.size // _SHARE_OF_LONG
        every = _written(folder / "every.xml", long, 1, _LONG)
        _compare("junit.all_failing_at_length", every, long, few_runs, 2.0)


def _written(path: Path, size: int, every: int, traceback: str, first: int = 0) -> Path:
    with path.open("w", encoding="utf-8") as stream:
        stream.write(_HEAD.format(size=size))
        for number in range(first, first + size):
            case = _CASE.format(number=number, group=number % 40)
            if number % every:
                stream.write(f"{case}/>\n")
                continue
            text = traceback.format(number=number)
            stream.write(f'{case}><failure message="assert {number} == 3">{text}</failure></testcase>\n')
        stream.write("</testsuite></testsuites>\n")
    return path


def _compare(name: str, report: Path, size: int, runs: int, target: float, *, name_passed: bool = False) -> None:
    failing = read_reports([report]).counts.failed
    rounds = interleaved(
        _timed(partial(_read, report, failing, name_passed=name_passed)), _timed(partial(_parse, report, size)), runs
    )
    megabytes = report.stat().st_size // 1024**2
    how = f"CPU time, minimum of {runs} each: {spread(rounds, cpu)}; {size} cases, {failing} failing, {megabytes} MB"
    tell(name, minimum_ratio(rounds, cpu), target, how)


def _timed(action: Callable[[], object]) -> Side:
    def side() -> Cost:
        return in_process(action)

    return side


def _read(report: Path, failing: int, *, name_passed: bool) -> JUnitReport:
    read = read_reports([report], name_passed=name_passed)
    if read.counts.failed != failing or not read.complete:
        sys.exit(f"error: {read.counts.failed} failing tests were read from {report}, not {failing}")
    return read


def _parse(report: Path, size: int) -> None:
    cases = 0
    for _, element in iterparse(report):
        cases += element.tag == "testcase"
        element.clear()
    if cases != size:
        sys.exit(f"error: {cases} cases were parsed from {report}, not {size}")


def _output(code: str, *arguments: Path) -> str:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
