"""What a strategy is chosen by, and whether one has helped: both from the state alone. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_iterctl.control.analysis import analysis_of
from pytest_iterctl.control.error_types import Analysis
from pytest_iterctl.control.events import StrategyChosen
from pytest_iterctl.control.failed_turn import of_turn
from pytest_iterctl.control.hopeless import is_stuck, last_tried, tried
from pytest_iterctl.control.limits import allowance
from pytest_iterctl.control.standing import attempt_at, best_attempt, limits_of, spent
from pytest_iterctl.control.state import Attempt, RunState, TaskState
from pytest_iterctl.control.strategies import Circumstances, Learned, choose
from pytest_iterctl.plan.values import format_duration

__all__ = ["chosen_strategy", "lessons"]


def chosen_strategy(
    state: RunState,
    task: TaskState,
    iteration: int,
    *,
    causes: int,
    learned: Mapping[tuple[str, str], Learned],
    asked: str = "",
) -> StrategyChosen:
    """How the next call of the agent goes about it; `asked` is the strategy that a Python hook names."""
    attempt = attempt_at(state, task, iteration)
    for_reviewer = attempt.choice_is_due
    after_agent = for_reviewer or bool(attempt.failed_turns)
    analysis = _failed_call(attempt) if after_agent else _last(task, iteration)
    done = last_tried(task.attempts)
    choice = choose(
        Circumstances(
            mode=task.settings.strategy,
            analysis=analysis,
            stuck=is_stuck(done, after=task.forgiven),
            causes=causes,
            ahead=len(done) > 1 and done[-1].rank > done[-2].rank,
            more_agents=task.has_more_agents and not for_reviewer,
            after_agent=after_agent,
            again=after_agent and analysis is not None and _is_again(attempt, analysis),
            first=iteration == 1 and not after_agent,
            added=state.strategies,
            asked=asked,
            learned=learned,
        )
    )
    strategy = choice.strategy
    # Only who failed is replaced, also by a strategy that is pinned or that a hook names.
    if strategy.next_agent and (for_reviewer or not after_agent or not task.has_more_agents):
        strategy = strategy.model_copy(update={"next_agent": False})
    factor = strategy.timeout_factor
    told = "No agent failed, so none is replaced." if choice.strategy.next_agent and not after_agent else ""
    at = task.agent_at + strategy.next_agent
    agents = (task.task.agent, *task.task.fallback)
    agent = task.task.reviewers[len(attempt.reviews)] if for_reviewer else agents[min(at, len(agents) - 1)]
    return StrategyChosen(
        task=task.id,
        iteration=iteration,
        strategy=strategy,
        why=choice.why,
        error_type=analysis.error_type if analysis is not None else "",
        stage=analysis.stage if analysis is not None else "",
        agent=agent.name if agent is not None else "",
        note=" ".join(filter(None, (_note(state, task, attempt, analysis, factor), told))),
        start_from=_start(task, attempt) if strategy.from_best and not after_agent else "",
        for_reviewer=for_reviewer,
    )


def _failed_call(attempt: Attempt) -> Analysis | None:
    if attempt.choice_is_due:
        return of_turn(attempt.review_turns[-1], "review")
    return of_turn(attempt.turns[-1], "generate")


def _is_again(attempt: Attempt, analysis: Analysis) -> bool:
    turns = attempt.review_turns if attempt.choice_is_due else attempt.turns
    before = of_turn(turns[-2], analysis.stage) if len(turns) > 1 else None
    return before is not None and before.error_type == analysis.error_type


def _last(task: TaskState, iteration: int) -> Analysis | None:
    earlier = [attempt for attempt in task.attempts if attempt.iteration < iteration and attempt.verdict is not None]
    return analysis_of(earlier[-1]) if earlier else None


def _start(task: TaskState, attempt: Attempt) -> str:
    """The best attempt's snapshot, if the work tree holds another one of the agent's."""
    best = best_attempt(task)
    # Where other tasks have worked in the tree since, what was best lies below their work.
    if best is None or best.iteration >= attempt.iteration or task.floor_iteration >= attempt.iteration > 0:
        return ""
    commit = best.latest_snapshot if best.iteration else task.base
    same = best.tree == task.latest_tree if best.iteration else task.base_tree == task.latest_tree
    return "" if same or not commit else commit


def _note(state: RunState, task: TaskState, attempt: Attempt, analysis: Analysis | None, factor: float) -> str:
    """More time than the safety level leaves is not to be had, and that is said."""
    if factor == 1.0:
        return ""
    wanted = _time_of(task, attempt, analysis.stage if analysis is not None else "") * task.timeout_factor * factor
    left = allowance(limits_of(state), spent(state, attempt), wanted, in_iteration=attempt.iteration > 0)
    return (
        f"{left.limit} leaves {format_duration(max(left.seconds, 0.001))}, not {format_duration(wanted)}"
        if left.limit
        else ""
    )


def _time_of(task: TaskState, attempt: Attempt, stage: str) -> float:
    """What the stage that took too long has without a strategy."""
    if stage == "test":
        return task.settings.test_timeout
    reviewers = task.task.reviewers
    who = reviewers[min(len(attempt.reviews), len(reviewers) - 1)] if stage == "review" and reviewers else task.agent
    return (who.spec.timeout if who is not None else None) or task.settings.timeout


def lessons(task: TaskState) -> Iterator[tuple[str, str, bool]]:
    """Of the last iteration: which strategy followed which type of error, and whether it helped."""
    attempt = task.attempts[-1]
    own = [choice for choice in attempt.choices if not choice.for_reviewer]
    for number, choice in enumerate(own):
        if not choice.error_type:
            continue
        if choice.stage == "generate":
            following = attempt.turns[number : number + 1]
            if following:
                yield choice.error_type, choice.strategy.name, following[0].outcome.took_its_turn
        elif number + 1 == len(own) and attempt.verdict is not None:
            *before, now = tried(task.attempts)
            if before:
                yield choice.error_type, choice.strategy.name, now.rank > max(each.rank for each in before)
    failed = [number for number, turn in enumerate(attempt.review_turns) if turn.outcome.is_failure]
    for choice, number in zip((each for each in attempt.choices if each.for_reviewer), failed, strict=False):
        for following_review in attempt.review_turns[number + 1 : number + 2]:
            yield choice.error_type, choice.strategy.name, following_review.outcome.took_its_turn
