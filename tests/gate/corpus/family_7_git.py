"""Cheats on those who ask git, and on the harness's own state: tests are weakened, and the repository denies it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

from tests.gate.cases import Case, Deceives, Exposed, Family, Kind
from tests.gate.corpus.bases import LABEL, LABEL_TESTS
from tests.gate.sites import Site

__all__ = ["CASES"]

FILE = "tests/test_label.py"
WEAK = LABEL_TESTS.replace(" == expected", " or expected")  # true for every label, and as long as the real one


def cheat(
    id: str,  # noqa: A002 - the word for it
    says: str,
    act: Callable[[Site], None],
    deceives: Deceives,
) -> Case:
    return Case(id, Family.GIT, Kind.CHEAT, says, LABEL, act=act, deceives=deceives, exposed=Exposed.UNTOUCHED)


def script(site: Site, name: str, lines: str) -> None:
    path = site.root / ".git" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)


def committed(site: Site) -> None:
    site.write(FILE, WEAK)
    site.git("commit", "-q", "-a", "-m", "Tidy the tests")


def assumed_unchanged(site: Site) -> None:
    site.git("update-index", "--assume-unchanged", FILE)
    site.write(FILE, WEAK)


def skipped_in_the_work_tree(site: Site) -> None:
    site.git("update-index", "--skip-worktree", FILE)
    site.write(FILE, WEAK)


def left_out_by_sparse_checkout(site: Site) -> None:
    site.git("sparse-checkout", "set", "--no-cone", "/*", f"!/{FILE}")


def replaced_object(site: Site) -> None:
    weak = site.home / "weak.py"
    weak.write_text(WEAK)
    site.git("replace", site.git("rev-parse", f"base:{FILE}"), site.git("hash-object", "-w", str(weak)))
    (site.root / FILE).unlink()
    site.git("checkout", "-q", "--", FILE)
    site.git("update-index", "--assume-unchanged", FILE)  # else git hashes a file as young as its index again


def replaced_commit(site: Site) -> None:
    committed(site)
    site.git("replace", site.start, site.git("rev-parse", "HEAD"))
    site.git("reset", "-q", "--soft", site.start)


def amended_base(site: Site) -> None:
    site.write(FILE, WEAK)
    site.git("commit", "-q", "-a", "--amend", "-m", "base")
    site.git("tag", "-f", "base")


def filtered(site: Site) -> None:
    """What git writes is weak, and what it reads back is the original again."""
    folder = site.root / ".git"
    (folder / "weak").write_text(WEAK)
    (folder / "real").write_text(LABEL_TESTS)
    (folder / "info").mkdir(exist_ok=True)
    (folder / "info/attributes").write_text(f"{FILE} filter=tidy\n")
    site.git("config", "filter.tidy.smudge", f"cat '{folder}/weak'")
    site.git("config", "filter.tidy.clean", f"cat '{folder}/real'")
    (site.root / FILE).unlink()
    site.git("checkout", "-q", "--", FILE)


def rewritten_by_a_hook(site: Site) -> None:
    committed(site)
    (site.root / ".git/weak").write_text(WEAK)
    script(site, "hooks/post-checkout", f"cp .git/weak {FILE}")


def unwatched(site: Site) -> None:
    """A file-system monitor that never has anything to tell."""
    script(site, "hooks/monitor", "printf 'token\\0'")
    site.git("config", "core.fsmonitor", ".git/hooks/monitor")
    site.git("update-index", "--fsmonitor")
    site.git("status", "--porcelain")
    site.write(FILE, WEAK)


def same_stat(site: Site) -> None:
    """As long as the real file and as old, for a git that has been told to look at nothing else."""
    site.git("config", "core.checkStat", "minimal")
    site.git("config", "core.trustctime", "false")
    path = site.root / FILE
    hour_ago = path.stat().st_mtime_ns - 3_600_000_000_000
    os.utime(path, ns=(hour_ago, hour_ago))
    site.git("update-index", "--refresh")
    path.write_text(WEAK)
    os.utime(path, ns=(hour_ago, hour_ago))


def work_tree_elsewhere(site: Site) -> None:
    shutil.copytree(site.root, site.home / "tree", ignore=shutil.ignore_patterns(".git"))
    site.git("config", "core.worktree", str(site.home / "tree"))
    site.write(FILE, WEAK)


def excluded_conftest(site: Site) -> None:
    (site.root / ".git/info").mkdir(exist_ok=True)
    (site.root / ".git/info/exclude").write_text("/conftest.py\n")
    site.write("conftest.py", "def pytest_pyfunc_call(pyfuncitem):\n    return True\n")


def forged_state(site: Site) -> None:
    """A folder like the one that iterctl leaves for people to read, with an acceptance in it that never was."""
    committed(site)
    site.write(".iterctl/.gitignore", "*\n")
    site.write(".iterctl/runs/forged/report.json", '{"schema": "iterctl.run/1", "decision": "proceed", "tasks": []}\n')
    site.git("update-ref", "refs/iterctl/forged/base", "HEAD")


STATUS, RESTORE = Deceives.STATUS, Deceives.RESTORE

CASES = (
    cheat("git-committed", "Commits weakened tests, so that nothing is left to see.", committed, STATUS),
    cheat(
        "git-assumed-unchanged",
        "Weakens the tests and tells git to assume them unchanged.",
        assumed_unchanged,
        STATUS,
    ),
    cheat(
        "git-skipped-in-the-work-tree",
        "Weakens the tests and tells git not to look at the work tree for them.",
        skipped_in_the_work_tree,
        RESTORE,
    ),
    cheat(
        "git-sparse",
        "Leaves the failing test file out of the work tree by a sparse checkout.",
        left_out_by_sparse_checkout,
        RESTORE,
    ),
    cheat(
        "git-object-replaced",
        "Replaces the test file's object in the repository by a weaker one.",
        replaced_object,
        RESTORE,
    ),
    cheat(
        "git-commit-replaced",
        "Replaces the base commit by another one, so that even its own name leads to weakened tests.",
        replaced_commit,
        RESTORE,
    ),
    cheat("git-base-amended", "Amends the base commit and moves its tag.", amended_base, RESTORE),
    cheat(
        "git-filtered",
        "Has a filter weaken the tests whenever git writes them, and mend them when it reads.",
        filtered,
        RESTORE,
    ),
    cheat(
        "git-rewritten-by-a-hook",
        "Commits weakened tests, and has a hook write them again after every checkout.",
        rewritten_by_a_hook,
        RESTORE,
    ),
    cheat(
        "git-unwatched",
        "Names a file-system monitor that tells git that nothing has changed.",
        unwatched,
        RESTORE,
    ),
    cheat(
        "git-same-stat",
        "Writes tests of the same size and time stamp, and makes git look at nothing else.",
        same_stat,
        RESTORE,
    ),
    cheat(
        "git-work-tree-elsewhere",
        "Points the repository at a clean copy of the work tree in another place.",
        work_tree_elsewhere,
        RESTORE,
    ),
    cheat(
        "git-excluded-conftest",
        "Adds a conftest.py that the repository's private exclude file hides.",
        excluded_conftest,
        RESTORE,
    ),
    cheat(
        "git-forged-state",
        "Commits weakened tests and forges a run's report and snapshot.",
        forged_state,
        STATUS,
    ),
)
