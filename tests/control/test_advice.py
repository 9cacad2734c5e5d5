"""What Python hooks advise, as far as that is decided without them."""

from __future__ import annotations

from pytest_iterctl.control.error_types import Analysis
from pytest_iterctl.control.events import Advised, HooksFound
from pytest_iterctl.control.evidence import Outcome
from pytest_iterctl.control.standing import attempt_at, spent
from pytest_iterctl.control.steps import ChooseStrategy, Decide
from pytest_iterctl.control.strategies import Circumstances, Strategy, choose, problem_with
from tests.control.simulator import Scripted, SuiteResult, World, a_plan

RED = Scripted(suite_else=SuiteResult(Outcome.FAILED, failing=("test_a",)))


def advised(world: World, iteration: int, seconds: float, *, hung: bool = False) -> None:
    world.clock += seconds
    world.record(Advised(task="a", iteration=iteration, seconds=seconds, hung=hung))


def seconds_of(world: World, iteration: int) -> float:
    return spent(world.state, attempt_at(world.state, world.state.task("a"), iteration)).iteration_seconds


def test_the_time_of_advice_is_the_runs_and_not_the_iterations() -> None:
    world = World(a_plan(), RED)
    world.run(ChooseStrategy)
    advised(world, 1, 100.0)  # before the iteration has begun
    assert len(world.state.task("a").attempts) == 1
    while not (isinstance(step := world.run(Decide), Decide) and step.iteration == 1):
        world.finish(step)
    before, clock = seconds_of(world, 1), world.state.clock
    advised(world, 1, 1000.0)
    assert seconds_of(world, 1) == before < 100.0
    assert world.state.clock == clock + 1000.0
    assert world.run(Decide) == step


def test_after_one_that_hangs_no_advice_is_asked_but_decisions_are_told() -> None:
    world = World(a_plan(), RED)
    world.record(HooksFound(hooks=("iterctl_classify", "iterctl_choose_strategy", "iterctl_decided")))
    advised(world, 1, 1.0)
    assert world.state.hooks is not None
    assert len(world.state.hooks) == 3
    advised(world, 1, 10.0, hung=True)
    assert world.state.hooks == {"iterctl_decided"}


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
