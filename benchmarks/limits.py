"""How soon a limit of time ends processes that do all they can to outlast it, and the run that they belong to.

One line per limit and per whose time it bounds: the seconds from the limit to the end of `iterctl run`, the longest of
`--runs`. `--size` is the limit, in seconds. That nothing of them is left is checked each time.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from measure import Options, clean_environment, git, options, scratch, tell

_GREEDY = Path(__file__).parents[1] / "tests" / "kit" / "greedy.py"
_TARGET = 2.0
_BEATS = 0.3  # several of theirs
#: What is set, and from when on it counts: the run's whole time from its start, the others from the call on.
_LIMITS: Mapping[str, tuple[str, ...]] = {
    "max_total_duration": ("agent", "tests", "reviewer"),
    "max_duration_per_iteration": ("agent", "tests", "reviewer"),
    "timeout": ("agent", "reviewer"),
    "test_timeout": ("tests",),
}


def main() -> None:
    given = options(__doc__ or "", size=4, runs=3, quick_size=3, quick_runs=1)
    with scratch() as folder:
        cases = [(limit, who) for limit, whose in _LIMITS.items() for who in whose]
        # One at a time, for the figures; where those mean nothing, all the waiting is done at once.
        with ThreadPoolExecutor(len(cases) if given.quick else 1) as pool:
            found = pool.map(lambda case: _overstep_often(folder, case, given), cases)
            for (limit, who), times in zip(cases, found, strict=True):
                late, gone = zip(*times, strict=True)
                how = f"most of {given.runs}, limit {given.size} s; their last sign of life {max(gone):.3f} s after it"
                tell(f"limits.{limit}.{who}_s", max(late), _TARGET, how)


def _overstep_often(folder: Path, case: tuple[str, str], given: Options) -> list[tuple[float, float]]:
    limit, who = case
    return [_overstep(folder / f"{limit}-{who}-{number}", limit, who, given.size) for number in range(given.runs)]


def _overstep(place: Path, limit: str, who: str, seconds: int) -> tuple[float, float]:
    """How long after the limit the run ended, and how long after it any of the processes was last at work."""
    root, beats = place / "project", place / "tools" / "beats"
    beats.mkdir(parents=True)
    _make_project(root, beats, limit, who, seconds)
    environment = {**clean_environment(place), "ITERCTL_STATE_DIR": str(place / "state")}
    began = time.time()
    ran = subprocess.run(
        [sys.executable, "-m", "pytest_iterctl", "run", "--format", "json"],
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    ended = time.time()
    seen = {each: each.stat().st_mtime for each in beats.iterdir()}
    time.sleep(_BEATS)
    if len(seen) < 4 or {each: each.stat().st_mtime for each in beats.iterdir()} != seen:
        sys.exit(f"error: {limit} of {who}: not all were at work, or some still are\n{ran.stderr}")
    task = json.loads(ran.stdout)["tasks"][0]
    if limit.startswith("max_") and task["limit"] != limit:
        sys.exit(f"error: the run was not ended by {limit}: {task['explanation']}")
    call = json.loads((place / "tools" / "greedy-calls").read_text().splitlines()[0])["at"]
    over = (began if limit == "max_total_duration" else call) + seconds
    return ended - over, max(seen.values()) - over


def _make_project(root: Path, beats: Path, limit: str, who: str, seconds: int) -> None:
    root.mkdir()
    suite = beats.parent / "suite.py"
    suite.write_text(runpy.run_path(str(_GREEDY))["SUITE"])
    greedy = [sys.executable, "-S", "-E", str(_GREEDY), str(beats), json.dumps([{"sleeps": True}]), "benchmark"]
    honest = [sys.executable, "-S", "-c", "open('a.txt', 'w').write('done')"]
    tests = [sys.executable, "-S", "-E", str(suite), *(greedy[3:] if who == "tests" else [])]
    settings: dict[str, object] = {"agent": "coder", "backoff": "none", "max_agent_failures": 1, "max_iterations": 1}
    if limit.startswith("max_"):
        settings["safety"] = {limit: f"{seconds}s"}
    else:
        settings |= {"timeout": "1m", "test_timeout": "1m", limit: f"{seconds}s"}
    document = {
        "version": 1,
        "settings": settings,
        "agents": {
            "coder": {"command": greedy if who == "agent" else honest},
            "critic": {"command": greedy if who == "reviewer" else ["true"]},
        },
        "tasks": [{"id": "a", "test": {"command": tests, "junit": "report.xml"}, "review": ["critic"]}],
    }
    for name, text in (("iterctl.yaml", json.dumps(document)), (".gitignore", "report.xml\n")):
        (root / name).write_text(text)
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")


if __name__ == "__main__":
    os.umask(0o077)
    main()
