"""What Python hooks advise, as far as that is decided without them."""

from __future__ import annotations

from pytest_iterctl.control.error_types import Analysis
from pytest_iterctl.control.strategies import Circumstances, Strategy, choose, problem_with


def test_conservative_wins_over_a_hook() -> None:
    asked = Circumstances(analysis=Analysis("assertion", "test", ""), asked="narrow")
    assert choose(asked).strategy.name == "narrow"
    for mode in ("conservative", "default"):
        given = Circumstances(mode=mode, analysis=asked.analysis, asked="narrow")
        assert choose(given).strategy.name == "default"


def test_a_strategy_leaves_agents_some_time() -> None:
    for factor in (-1.0, 0.0, 1e-300, 0.09, 101.0, float("nan"), float("inf")):
        problem = problem_with(Strategy(name="mine", timeout_factor=factor), ())
        assert problem == "timeout_factor of mine must be 0.1 to 100"
    for factor in (0.1, 100.0):
        assert not problem_with(Strategy(name="mine", timeout_factor=factor), ())
