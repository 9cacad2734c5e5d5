"""What reading the diffs of honest work costs in false alarms: the newest commits of repositories that you name."""

from __future__ import annotations

import argparse
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from pytest_iterctl.gate.audit import audit

_TESTS = re.compile(r"(?:^|/)(?:tests?|testing)/|(?:^|/)(?:test_[^/]*|[^/]*_test|conftest)\.py$")
_NOTHING = "0" * 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repository", nargs="+", type=Path, help="a repository, or its git directory")
    parser.add_argument("--commits", type=int, default=400, help="newest commits of each that touch Python")
    given = parser.parse_args()
    total = certain = suspicious = 0
    seconds = 0.0
    for repository in given.repository:
        for commit in _commits(repository, given.commits):
            before, after = _sides(repository, commit)
            began = time.perf_counter()
            found = audit(before, after, is_protected=_is_test)
            seconds += time.perf_counter() - began
            total += 1
            certain += any(finding.certain for finding in found)
            suspicious += bool(found) and not any(finding.certain for finding in found)
            for finding in found:
                word = "certain" if finding.certain else "suspicious"
                print(f"  {repository} {commit[:10]} {word} {finding.path}:{finding.line} {finding.rule}", flush=True)
    of = f"of {total} commits of {len(given.repository)}"
    of += " repository" if len(given.repository) == 1 else " repositories"
    print(f"audit.certain: {certain} (target <= 0) {of}")
    print(f"audit.suspicious: {suspicious} (target <= {max(total * 12 // 1600, 1)}) {of}")
    print(f"audit.milliseconds: {1000 * seconds / max(total, 1):.1f} for each commit, reading from git not counted")


def _is_test(path: str) -> bool:
    return _TESTS.search(path) is not None


def _commits(repository: Path, most: int) -> list[str]:
    return _git(repository, "log", "--no-merges", f"-n{most}", "--format=%H", "--", "*.py").decode().split()


def _sides(repository: Path, commit: str) -> tuple[dict[str, bytes], dict[str, bytes]]:
    before, after = dict[str, bytes](), dict[str, bytes]()
    listed = _git(repository, "diff-tree", "-r", "-z", "--root", "--no-renames", "--no-commit-id", commit)
    for old, new, path in _records(listed.decode("utf-8", "replace")):
        if path.endswith(".py"):
            for side, blob in ((before, old), (after, new)):
                if blob != _NOTHING:
                    side[path] = _git(repository, "cat-file", "blob", blob)
    return before, after


def _records(text: str) -> Iterator[tuple[str, str, str]]:
    parts = text.split("\0")
    for facts, path in zip(parts[::2], parts[1::2], strict=False):
        _, _, old, new, _ = facts.split(" ")
        yield old, new, path


def _git(repository: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", repository, *arguments], check=True, capture_output=True).stdout


if __name__ == "__main__":
    main()
