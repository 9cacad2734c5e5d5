"""What a project's Python hooks have to say besides an agent's turns: strategies, kinds of failures, choices.

They advise. What they answer is checked, written down and bounded like everything else; what is wrong with it is a
warning, and the run goes on as it would without them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import entry_points

from pydantic import ValidationError

from pytest_iterctl.agents.hook import ask_hooks
from pytest_iterctl.agents.turn import Tick, Turn
from pytest_iterctl.control.analysis import analysis_of
from pytest_iterctl.control.events import Classified, HooksFound, StrategyChosen, Warned
from pytest_iterctl.control.evidence import Classification, SuiteEvidence, TurnEvidence
from pytest_iterctl.control.state import Attempt, TaskState
from pytest_iterctl.control.strategies import BUILT_IN, Strategy, named, problem_with
from pytest_iterctl.errors import UsageError
from pytest_iterctl.loop.history import History
from pytest_iterctl.loop.workspace import Workspace
from pytest_iterctl.plan.frozen import FrozenPlan
from pytest_iterctl.plan.model import STRATEGY_MODES
from pytest_iterctl.plan.problems import did_you_mean
from pytest_iterctl.text import one_line

__all__ = ["Extensions", "may_listen", "refuse_strategies_of_nobody"]

#: Hooks that are called although no agent is one. A process for each is started only where somebody may implement them.
_ADVICE = (b"iterctl_decided", b"iterctl_strategies", b"iterctl_classify", b"iterctl_choose_strategy")
_MOST_STRATEGIES = 50
_FAILURES = 200


def may_listen(workspace: Workspace, plan: FrozenPlan) -> bool:
    """Whether it is worth a process to ask which hooks there are."""
    agents = (each for task in plan.tasks for each in (task.agent, *task.fallback, *task.reviewers))
    if any(agent is not None and agent.spec.hook is not None for agent in agents) or entry_points(group="iterctl"):
        return True
    for name in workspace.repository.git("ls-files", "-z", "-c", "-o", "--exclude-standard").split(b"\0"):
        try:
            if name.endswith(b"conftest.py"):
                text = (workspace.root / os.fsdecode(name)).read_bytes()
                if any(each in text for each in _ADVICE):
                    return True
        except OSError:
            continue
    return False


def refuse_strategies_of_nobody(workspace: Workspace, plan: FrozenPlan) -> None:
    """A plan may name a strategy that only a hook adds; where there are no hooks, that is known before the run."""
    if not may_listen(workspace, plan):
        _refuse_unknown_strategies(plan, ())


def _refuse_unknown_strategies(plan: FrozenPlan, added: Iterable[Strategy]) -> None:
    known = (*STRATEGY_MODES, *(each.name for each in added))
    for mode in dict.fromkeys(task.settings.strategy for task in plan.tasks):
        if mode not in known:
            hint = did_you_mean(mode, known) or f"there are {', '.join(known)}"
            raise UsageError(f"there is no strategy {mode!r}, and no Python hook adds it", hint=hint)


class Extensions:
    """The hooks of one run. `turn` makes the call in which they are asked something."""

    def __init__(self, history: History, turn: Callable[[TaskState, Attempt], Turn], tick: Tick) -> None:
        self._history = history
        self._turn = turn
        self._tick = tick

    def find(self) -> None:
        """Ask once which hooks there are, before any agent can have made some, and take the strategies they add."""
        state = self._history.state
        if state.started is None or state.hooks is not None:
            return
        hooks: tuple[str, ...] = ()
        added: tuple[Strategy, ...] = ()
        if state.started.hooks_may_listen:
            found, problem = self._ask(state.tasks[0], {"hook": "?"})
            if problem:
                # Perhaps the project can't be loaded yet. Whoever mends it need not begin anew to be told.
                hooks = tuple(map(os.fsdecode, _ADVICE[:1]))
                self._warn("the Python hooks could not be asked what they add", problem)
            hooks += tuple(str(name) for name in _list(found.get("hooks")))
            added = tuple(self._strategies(_list(found.get("strategies"))))
        _refuse_unknown_strategies(state.started.plan, added)
        self._history.record(HooksFound(hooks=hooks, strategies=added))

    def _strategies(self, given: Sequence[object]) -> Iterable[Strategy]:
        taken: list[Strategy] = [*BUILT_IN]
        for number, each in enumerate(given[:_MOST_STRATEGIES], 1):
            try:
                # As JSON has it: lists where tuples are meant.
                strategy = Strategy.model_validate(each, strict=False)
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"])) or f"number {number}"
                self._warn("a Python hook adds something that is no strategy", f"{where}: {first['msg']}")
                continue
            if problem := problem_with(strategy, taken):
                self._warn("a Python hook adds a strategy that can't be taken", problem)
                continue
            taken.append(strategy)
            yield strategy

    def classify(self, task: TaskState, attempt: Attempt) -> None:
        """What the hooks take the last failure for. It is written down already: nothing is lost if they fail."""
        taken_for = analysis_of(attempt)
        if "iterctl_classify" not in (self._history.state.hooks or ()) or taken_for is None:
            return
        failed = _failed(attempt, taken_for.stage)
        if failed is None or failed.classified is not None:
            return
        about = {"stage": taken_for.stage, "error_type": taken_for.error_type, "sign": taken_for.sign}
        failure = {**self._place(task, attempt), **about, **_details(failed)}
        found, problem = self._ask(task, {"hook": "iterctl_classify", "failure": failure})
        answer = found.get("answer")
        if problem:
            self._warn("iterctl_classify failed", problem)
        elif answer is not None:
            said = answer if isinstance(answer, dict) else {"error_type": answer}
            try:
                told = Classification.model_validate({"sign": "iterctl_classify says so", **said})
            except ValidationError:
                self._warn("iterctl_classify names no type of error", repr(answer))
            else:
                self._history.record(
                    Classified(task=task.id, iteration=attempt.iteration, stage=taken_for.stage, classification=told)
                )

    def choose(self, task: TaskState, attempt: Attempt, chosen: StrategyChosen) -> str:
        """The strategy that the hooks want instead of the chosen one, by its name; '' for none."""
        state = self._history.state
        if "iterctl_choose_strategy" not in (state.hooks or ()) or not chosen.error_type:
            return ""
        choice = {
            **self._place(task, attempt),
            "stage": chosen.stage,
            "error_type": chosen.error_type,
            "chosen": chosen.strategy.name,
            "why": chosen.why,
            "strategies": [each.name for each in (*BUILT_IN, *state.strategies)],
        }
        found, problem = self._ask(task, {"hook": "iterctl_choose_strategy", "choice": choice})
        answer = found.get("answer")
        if problem:
            self._warn("iterctl_choose_strategy failed", problem)
        elif answer is not None and named(str(answer), state.strategies) is None:
            self._warn("iterctl_choose_strategy names no strategy", repr(answer))
        elif answer is not None and answer != chosen.strategy.name:
            return str(answer)
        return ""

    def notify(self, task: TaskState) -> None:
        """Tell the hooks of the decision just taken."""
        if "iterctl_decided" not in (self._history.state.hooks or ()) or task.decision is None:
            return
        request: dict[str, object] = {"hook": "iterctl_decided", "decision": task.decision.model_dump(mode="json")}
        _, problem = self._ask(task, request)
        if problem:
            self._warn("iterctl_decided failed", problem)

    def _place(self, task: TaskState, attempt: Attempt) -> dict[str, object]:
        where = {"run": self._history.run, "task": task.id}
        return {**where, "iteration": attempt.iteration, "max_iterations": task.bound}

    def _ask(self, task: TaskState, request: dict[str, object]) -> tuple[dict[str, object], str]:
        attempt = task.attempts[-1] if task.attempts else Attempt(iteration=0)
        return ask_hooks(self._turn(task, attempt), request, self._tick)

    def _warn(self, what: str, problem: str) -> None:
        self._history.record(Warned(text=f"{what}: {one_line(problem, 300)}"))


def _failed(attempt: Attempt, stage: str) -> TurnEvidence | SuiteEvidence | None:
    if stage == "test":
        return attempt.verdict
    turns = attempt.review_turns if stage == "review" else attempt.turns
    return turns[-1] if turns else None


def _details(failed: TurnEvidence | SuiteEvidence) -> dict[str, object]:
    common = {"outcome": str(failed.outcome), "exit_code": failed.exit_code}
    if isinstance(failed, TurnEvidence):
        return {**common, "text": failed.error, "failures": []}
    failures = [
        {"test": each.test, "kind": each.kind, "message": each.message, "where": each.where}
        for each in failed.failures[:_FAILURES]
    ]
    return {**common, "text": failed.reason, "failures": failures}


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()
