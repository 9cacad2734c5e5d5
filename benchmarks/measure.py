"""What the benchmarks share: measured commands, interleaved rounds, and one line per figure.

A ratio is only worth something when both sides ran under the same conditions, so the sides take turns in one run, and
who goes first changes every round. CPU time is that of a command and all its descendants, as the kernel reports it.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "Cost",
    "Options",
    "Side",
    "clean_environment",
    "command",
    "cpu",
    "git",
    "in_process",
    "instructions",
    "interleaved",
    "minimum_ratio",
    "options",
    "paired_ratio",
    "scratch",
    "spread",
    "tell",
    "tell_missing",
    "uncountable",
    "user",
    "wall",
]

_COLLECTED = re.compile(r"Collected : (\d+)")


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run took, in seconds; `cpu` is user and system time together."""

    wall: float
    user: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Options:
    size: int
    runs: int
    quick: bool
    venv: Path | None


def wall(cost: Cost) -> float:
    return cost.wall


def user(cost: Cost) -> float:
    return cost.user


def cpu(cost: Cost) -> float:
    return cost.cpu


#: Something to measure: run it once, say what it took.
Side = Callable[[], Cost]


def options(about: str, *, size: int, runs: int, quick_size: int, quick_runs: int = 2, venv: bool = False) -> Options:
    """The options that every benchmark has; `--quick` only shows that it works."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--size", type=int, help=f"how big the subject is (default: {size})")
    parser.add_argument("--runs", type=int, help=f"how often each side runs (default: {runs})")
    parser.add_argument("--quick", action="store_true", help=f"as --size {quick_size} --runs {quick_runs}")
    if venv:
        parser.add_argument("--venv", type=Path, help="an environment with this package installed, made if missing")
    given = parser.parse_args()
    return Options(
        size=given.size or (quick_size if given.quick else size),
        runs=given.runs or (quick_runs if given.quick else runs),
        quick=given.quick,
        venv=getattr(given, "venv", None),
    )


def clean_environment(home: Path) -> dict[str, str]:
    """Nothing of the caller's pytest, git, coverage or an outer run; hashes that are the same in every process."""
    kept = {"PATH", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH"}
    clean = {name: value for name, value in os.environ.items() if name in kept}
    return clean | {
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "PYTHONHASHSEED": "0",
    }


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="iterctl-benchmark-") as folder:
        yield Path(folder).resolve()


def git(root: Path, *arguments: str, feed: bytes = b"") -> None:
    identity = ("-c", "user.name=benchmark", "-c", "user.email=benchmark@localhost", "-c", "init.defaultBranch=main")
    settings = ("-c", "gc.auto=0", "-c", "core.fsync=none")
    call = ["git", *identity, *settings, *arguments]
    subprocess.run(call, cwd=root, check=True, stdout=subprocess.DEVNULL, input=feed)


def command(
    arguments: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    expect: int = 0,
    pass_fds: tuple[int, ...] = (),
    output: Path | None = None,
) -> Cost:
    """Run a command to its end. A benchmark of something that went wrong would be a lie, so that ends it."""
    with tempfile.TemporaryFile() as complaint, (output or Path(os.devnull)).open("wb") as stream:
        began = time.perf_counter()
        process = subprocess.Popen(
            arguments,
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=complaint,
            pass_fds=pass_fds,
        )
        _, status, usage = os.wait4(process.pid, 0)
        elapsed = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != expect:
            complaint.seek(0)
            said = complaint.read().decode("utf-8", "replace")
            sys.exit(f"error: {' '.join(arguments)} ended with {process.returncode}, not {expect}\n{said}")
    return Cost(wall=elapsed, user=usage.ru_utime, cpu=usage.ru_utime + usage.ru_stime)


def in_process(action: Callable[[], object]) -> Cost:
    """What an action takes in this process and in the children that it waits for."""
    before, began = _used(), time.perf_counter()
    action()
    elapsed, after = time.perf_counter() - began, _used()
    in_user, in_system = after[0] - before[0], after[1] - before[1]
    return Cost(wall=elapsed, user=in_user, cpu=in_user + in_system)


def _used() -> tuple[float, float]:
    """User and system time so far, of this process and of the children that it has waited for."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + children.ru_utime, own.ru_stime + children.ru_stime


def uncountable(given: Options) -> str:
    """Why instructions can't be counted, '' when they can."""
    if given.quick:
        return "--quick counts no instructions"
    return "" if shutil.which("valgrind") else "valgrind is not installed"


def instructions(
    arguments: Sequence[str], *, cwd: Path, environment: Mapping[str, str], pass_fds: tuple[int, ...] = ()
) -> int:
    """Instructions of the command's own process, counted by valgrind."""
    ended = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *arguments],
        cwd=cwd,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
        pass_fds=pass_fds,
    )
    found = _COLLECTED.search(ended.stderr)
    if ended.returncode != 0 or found is None:
        sys.exit(f"error: valgrind {' '.join(arguments)} ended with {ended.returncode}\n{ended.stderr}")
    return int(found[1])


def interleaved(measured: Side, reference: Side, runs: int, *, warm: bool = False) -> list[tuple[Cost, Cost]]:
    """Rounds of both sides, after one of each that does not count: it fills the caches, unless they are warm."""
    if not warm:
        measured()
        reference()
    rounds = []
    for number in range(runs):
        if number % 2:
            second = reference()
            rounds.append((measured(), second))
        else:
            rounds.append((measured(), reference()))
    return rounds


def minimum_ratio(rounds: Sequence[tuple[Cost, Cost]], what: Callable[[Cost], float]) -> float:
    """The least that one side took against the least that the other took: what other jobs add is only ever more."""
    return min(what(measured) for measured, _ in rounds) / min(what(reference) for _, reference in rounds)


def paired_ratio(rounds: Sequence[tuple[Cost, Cost]], what: Callable[[Cost], float]) -> float:
    """The median of the ratios within each round: what other jobs add is about the same for neighbours."""
    return statistics.median(what(measured) / what(reference) for measured, reference in rounds)


def spread(rounds: Sequence[tuple[Cost, Cost]], what: Callable[[Cost], float]) -> str:
    """Least and median of both sides, which also tells how noisy the machine was."""
    sides = ([what(measured) for measured, _ in rounds], [what(reference) for _, reference in rounds])
    return " against ".join(f"{min(each) * 1000:.0f}..{statistics.median(each) * 1000:.0f} ms" for each in sides)


def tell(name: str, value: float, target: float, how: str) -> None:
    print(f"{name}: {value:.3f} (target <= {target:g}) {how}", flush=True)


def tell_missing(name: str, target: float, why: str) -> None:
    print(f"{name}: not measured (target <= {target:g}) {why}", flush=True)
