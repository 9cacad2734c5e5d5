"""What failures lead to: ten real histories for each type of error, fifty honest runs, and what a choice takes.

One line per type of error, then one per figure. `--runs` is how many histories of each type are played, and a fifth of
the number of honest runs; `--size` is how many failures are analysed at once.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

from histories import History, Played, play, play_all
from history_cases import NOT_MADE, histories
from honest_turns import blamed, honest_turns
from long_run import events
from measure import clean_environment, cpu, in_process, interleaved, minimum_ratio, options, scratch, tell, tell_missing

from pytest_iterctl.control.choosing import chosen_strategy
from pytest_iterctl.control.error_types import ERROR_TYPES, Analysis, ErrorType
from pytest_iterctl.control.events import StrategyChosen
from pytest_iterctl.control.evidence import Counts, Failure, Frame, Outcome, SuiteEvidence
from pytest_iterctl.control.failed_suite import of_suite
from pytest_iterctl.control.fold import fold
from pytest_iterctl.control.hopeless import tried
from pytest_iterctl.control.state import Attempt, Entry, RunState
from pytest_iterctl.control.strategies import BUILT_IN, DEFAULT, Learned

_HONEST = 5  # for each history of a type
_MISSED = 0.2  # of the histories whose failures go away by themselves
_CHOICES = 2000
_ITERATIONS = 10


def main() -> None:
    given = options(__doc__ or "", size=10_000, runs=10, quick_size=500, quick_runs=1)
    with scratch() as folder:
        # Each history makes its own of what belongs to a user; here it is only that nothing of the caller's is in it.
        environment = clean_environment(folder)
        os.environ.clear()
        os.environ.update(environment)
        _play_histories(folder, given.runs)
        _play_honest_turns(folder, 3 if given.quick else _HONEST * given.runs)
    _time_choices(given.runs)
    _time_analysis(given.size, given.runs)


# ── histories ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _play_histories(folder: Path, runs: int) -> None:
    number: Counter[str] = Counter()
    chosen = []
    for history in histories():
        number[history.error_type] += 1
        if number[history.error_type] <= runs:
            chosen.append(history)
    played = dict(
        zip(map(id, chosen), play_all([partial(play, each) for each in chosen], folder / "histories"), strict=True)
    )
    missed: dict[bool, list[int]] = {True: [], False: []}
    for kind in ERROR_TYPES:
        transient = Analysis(kind, "generate", "").transient
        target = int(_MISSED * runs) if transient else 0
        if kind in NOT_MADE:
            tell_missing(f"failure_histories.{kind}", target, NOT_MADE[kind])
            continue
        of_kind = [each for each in chosen if each.error_type == kind]
        missed[transient].append(_tell_kind(kind, target, of_kind, [played[id(each)] for each in of_kind]))
    how = f"of {runs} histories each, real processes through iterctl run"
    tell(
        *("failure_histories.transient_unresolved", max(missed[True]), int(_MISSED * runs)),
        f"most of any type that goes away by itself, {how}: not its strategy or not resolved by it",
    )
    tell(
        *("failure_histories.permanent_misjudged", sum(missed[False]), 0),
        f"all types that do not, {how}: another type, strategy or decision",
    )


def _tell_kind(kind: ErrorType, target: int, histories: list[History], played: list[Played]) -> int:
    found = [(history, each.differs(history)) for history, each in zip(histories, played, strict=True)]
    wrong = [(history, text) for history, text in found if text]
    for history, text in wrong:
        print(f"{kind}, {history.stage}: {history.name}: {text}", file=sys.stderr, flush=True)
    stages = ", ".join(f"{count} of {stage}" for stage, count in Counter(each.stage for each in histories).items())
    followed = Counter(name for each in played for name in each.strategies)
    then = ", ".join(f"{name} {count}" for name, count in followed.most_common()) or "a wait"
    seconds = statistics.median(each.seconds for each in played)
    how = f"of {len(found)} histories went another way ({stages}); then {then}; {seconds:.1f} s each"
    names = "; ".join(history.name for history, _ in wrong)
    tell(f"failure_histories.{kind}", len(wrong), target, f"{how}; {names}" if names else how)
    return len(wrong)


def _play_honest_turns(folder: Path, count: int) -> None:
    turns = honest_turns(count)
    found = [
        (turn.__name__, blamed(each)) for turn, each in zip(turns, play_all(turns, folder / "honest"), strict=True)
    ]
    wrong = [(name, text) for name, text in found if text]
    for name, text in wrong:
        print(f"honest: {name}: {text}", file=sys.stderr, flush=True)
    tell("failure_histories.honest_blocked", len(wrong), 0, f"of {count} honest runs ended, undone or blamed by a rule")


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _time_choices(runs: int) -> None:
    """After ten failed iterations, with something learned of every strategy and every type of error."""
    learned: dict[tuple[str, str], Learned] = {
        (kind, each.name): Learned(int(each.priority < DEFAULT.priority), 2)
        for kind in ERROR_TYPES
        for each in BUILT_IN
    }
    state = _state()
    task = state.tasks[0]
    table = {kind: each for each in BUILT_IN for kind in each.handles}

    def choose() -> StrategyChosen:
        return chosen_strategy(state, task, _ITERATIONS + 1, causes=9, learned=learned)

    if choose().strategy.name == "default":
        sys.exit(f"error: after the made-up history another strategy should follow: {choose()}")
    times, looks = [], []
    for _ in range(_CHOICES if runs > 1 else _CHOICES // 20):
        began = time.perf_counter()
        choose()
        chosen = time.perf_counter()
        table.get("timeout")
        looks.append(time.perf_counter() - chosen)
        times.append(chosen - began)
    took = statistics.median(times) * 1000
    how = (
        f"elapsed time, median of {len(times)} choices after {_ITERATIONS} iterations, most {max(times) * 1000:.2f} ms"
    )
    plain = statistics.median(looks) * 1e6
    tell("failure_histories.choice_ms", took, 1, f"{how}; to look one up in a dict takes {plain:.2f} µs")


def _state() -> RunState:
    return fold(
        Entry(sequence=number, at="2020-01-01T00:00:00.000Z", clock=float(number), event=event)
        for number, event in enumerate(events(_ITERATIONS), start=1)
    )


def _time_analysis(size: int, runs: int) -> None:
    """The type of each failure, and the signatures by which iterations are compared."""
    suite = _suite(size)
    attempt = Attempt(1, suite=suite)

    def analyse() -> None:
        if of_suite(suite) is None or len(tried((attempt,))[0].signatures) < size:
            sys.exit(f"error: {size} failures with as many signatures were expected")

    def count() -> None:
        Counter((failure.kind, failure.where) for failure in suite.failures)

    rounds = interleaved(partial(in_process, analyse), partial(in_process, count), max(runs // 2, 1))
    seconds = statistics.median(cost.cpu for cost, _ in rounds)
    how = f"CPU seconds, median of {len(rounds)}: types and signatures of {size} failures, no two messages alike"
    ratio = minimum_ratio(rounds, cpu)
    tell(
        "failure_histories.analysis_s",
        seconds,
        1,
        f"{how}; {ratio:.0f} times a plain pass that counts types and places",
    )


def _suite(size: int) -> SuiteEvidence:
    kinds = ("ValueError", "OSError", "AssertionError", "TypeError", "URLError", "KeyError", "Failed", "TimeoutError")
    failures = tuple(_failure(number, kinds[number % len(kinds)]) for number in range(size))
    return SuiteEvidence(
        outcome=Outcome.FAILED,
        exit_code=1,
        counts=Counts(tests=size, failed=size),
        failures=failures,
        failing=tuple(failure.test for failure in failures),
    )


def _failure(number: int, kind: str) -> Failure:
    frames = (
        Frame(path=f"tests/test_{number % 50}.py", line=8, function="test_work", source="assert work(given) == wanted"),
        Frame(path=f"area/part_{number % 50}.py", line=number, function="work", source="raise Error(given)"),
    )
    return Failure(
        test=f"tests/test_{number % 50}.py::test_work[{number}]",
        where=f"area/part_{number % 50}.py:{number}",
        kind=kind,
        message=f"{kind}: [Errno 2] part {number} of /srv/build-{number}/data.txt at {number:#x}, {number} of 3.5 s\n"
        * 3,
        frames=frames,
        detail="    def work(given):\n>       raise Error(given)\n" * 8,
    )


if __name__ == "__main__":
    main()
