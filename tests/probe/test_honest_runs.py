"""An honest run shows nothing, whatever plugins and options it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.probe.probed import HONEST, Room, assert_nothing_found


@pytest.mark.parametrize(
    ("arguments", "plugins"),
    [
        ((), ()),
        (("--doctest-modules", "-v"), ()),
        (("--assert=plain", "-s"), ()),
        (("--tb=native", "--capture=sys", "--durations=3", "-rA"), ()),
        (("--cov=.", "--cov-report=term"), ("pytest_cov",)),
        (("--timeout=30",), ("pytest_timeout",)),
        (("--reruns=1",), ("pytest_rerunfailures",)),
        ((), ("pytest_randomly",)),
        (("--strict-config", "-W", "error", "-W", "ignore::DeprecationWarning"), ()),
    ],
    ids=["plain", "doctest", "no-rewriting", "native", "cov", "timeout", "reruns", "randomly", "warnings-are-errors"],
)
def test_an_honest_run_shows_nothing(
    room: Room, tree: Path, arguments: tuple[str, ...], plugins: tuple[str, ...]
) -> None:
    probed = room(HONEST, *arguments, plugins=plugins)
    assert probed.exit_code == 0, probed.output
    assert_nothing_found(probed)
    assert "conftest.py" in probed.main["plugins"]
    assert "conftest.py" in probed.main["plugins_before"]
    # What the project sets up once is not set up for the canaries too.
    assert (tree / "started.txt").read_text(encoding="utf-8") == "x"


def test_an_honest_run_over_workers_shows_nothing(room: Room, tree: Path) -> None:
    probed = room(HONEST, "-n2", plugins=("xdist",))
    assert probed.exit_code == 0, probed.output
    assert_nothing_found(probed, workers=2)
    assert set(probed.probes) == {"main", "gw0", "gw1"}


def test_an_honest_run_with_all_plugins_at_once_shows_nothing(room: Room) -> None:
    plugins = ("xdist", "pytest_cov", "pytest_timeout", "pytest_rerunfailures", "pytest_randomly")
    probed = room(HONEST, "-n2", "--cov=.", "--reruns=1", "--timeout=30", plugins=plugins)
    assert probed.exit_code == 0, probed.output
    assert_nothing_found(probed, workers=2)
