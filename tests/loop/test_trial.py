"""How single tests of a task are run: with its own options, but for those that choose among tests."""

from __future__ import annotations

import pytest

from pytest_iterctl.loop.trial import Target


@pytest.mark.parametrize(
    ("options", "left"),
    [
        *(("-k name", ""), ("-kname", ""), ("-k=name", ""), ("-m slow", ""), ("-mslow", ""), ("-xk name", "-x")),
        *(("-qmslow -x", "-q -x"), ("-vvm slow -x", "-vv -x"), ("--deselect a.py::b --lf -s", "-s")),
        *(("--ignore=a --ignore-glob b* -x", "-x"), ("--stepwise --nf --last-failed", "")),
        ("--maxfail=3 --markers-file=k", "--maxfail=3 --markers-file=k"),
        ("--max-worker-restart 2 -l", "--max-worker-restart 2 -l"),
        ("-p no:mark -c k.ini -o m=k -W k -rm -n2", "-p no:mark -c k.ini -o m=k -W k -rm -n2"),
        ("--keep-duplicates --import-mode=importlib", "--keep-duplicates --import-mode=importlib"),
    ],
)
def test_what_chooses_among_tests_does_not_choose_among_others(options: str, left: str) -> None:
    assert Target(tuple(options.split()), ".").everything == tuple(left.split())
