"""What a project's Python hooks have to say besides an agent's turns: strategies, kinds of failures, choices.

They advise. What they answer is checked, written down and bounded like everything else; what is wrong with it is a
warning, and the run goes on as it would without them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from importlib.metadata import entry_points

from pydantic import ValidationError

from pytest_iterctl.agents.hook import Heard, ask_hooks
from pytest_iterctl.agents.turn import Tick, Turn
from pytest_iterctl.control.analysis import analysis_of
from pytest_iterctl.control.decision import Decision
from pytest_iterctl.control.events import (
    Advised,
    Classified,
    Decided,
    HooksFound,
    RunFinished,
    StrategyChosen,
    Warned,
)
from pytest_iterctl.control.evidence import Classification, SuiteEvidence, TurnEvidence
from pytest_iterctl.control.limits import allowance
from pytest_iterctl.control.standing import limits_of, spent
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

#: Told of what is decided, and asked for nothing.
_TOLD = "iterctl_decided"
#: Hooks that are called although no agent is one. A process for each is started only where somebody may implement them.
_CALLED = tuple(map(os.fsencode, (_TOLD, "iterctl_strategies", "iterctl_classify", "iterctl_choose_strategy")))
#: What advice may take, together with loading the project. Whoever needs longer is not asked again in this run.
_PATIENCE = 10.0
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
                if any(each in text for each in _CALLED):
                    return True
        except OSError:
            continue
    return False


def refuse_strategies_of_nobody(workspace: Workspace, plan: FrozenPlan) -> None:
    """A plan may name a strategy that only a hook adds; where there are no hooks, that is known before the run."""
    unknown = _unknown_strategy(plan, ())
    if unknown is not None and not may_listen(workspace, plan):
        raise unknown


def _unknown_strategy(plan: FrozenPlan, added: Iterable[Strategy]) -> UsageError | None:
    names = tuple(each.name for each in added)
    known = (*STRATEGY_MODES, *names)
    for mode in (task.settings.strategy for task in plan.tasks):
        if mode not in known:
            there = f"here are {', '.join(STRATEGY_MODES)}; Python hooks add {', '.join(names) or 'none'}"
            meant = did_you_mean(mode, known)
            hint = f"{meant} T{there}" if meant else f"t{there}"
            return UsageError(f"there is no strategy {mode!r}, and no Python hook adds it", hint=hint)
    return None


def _asked_for_all(tasks: Iterable[TaskState]) -> tuple[TaskState, ...]:
    """One task for each set of conftest files that pytest begins with, as far as its command line tells them apart."""
    found: dict[object, TaskState] = {}
    for task in tasks:
        places = frozenset(_place(argument) for argument in task.task.tests)
        found.setdefault((places, task.settings.python, task.settings.pass_env), task)
    return tuple(found.values())


def _place(argument: str) -> str:
    """All test files of a folder, and all tests in them, have the same conftest files."""
    file = argument.partition("::")[0]
    return f"{file.rpartition('/')[0]}/*.py" if file.endswith(".py") else argument


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
        looked = self._look(state.tasks) if state.started.hooks_may_listen else ((), ())
        if looked is None:
            return
        hooks, given = looked
        added = tuple(self._strategies(given))
        unknown = _unknown_strategy(state.started.plan, added)
        if unknown is not None:
            self._end(unknown)
            raise unknown
        self._history.record(HooksFound(hooks=hooks, strategies=added))

    def _look(self, tasks: Iterable[TaskState]) -> tuple[tuple[str, ...], tuple[object, ...]] | None:
        """The hooks that pytest finds with the tests of any task, and what they add, each thing once.

        None when somebody stopped it: nothing is known yet, and a resume asks again.
        """
        hooks: dict[str, None] = {}
        given: dict[str, object] = {}
        for task in _asked_for_all(tasks):
            heard = self._advice(task, {"hook": "?"}, "the Python hooks could not be asked what they add")
            names = dict.fromkeys(map(str, _list(heard.result.get("hooks"))))
            if heard.problem:
                # Perhaps the project can't be loaded yet. Whoever mends it need not begin anew to be told.
                names = {_TOLD: None}
            hooks |= names
            if "iterctl_strategies" in names:
                heard = self._advice(task, {"hook": "iterctl_strategies"}, "iterctl_strategies failed")
                for problem in _list(heard.result.get("problems")):
                    self._warn("a Python hook could not be asked what it adds", str(problem))
                given |= {json.dumps(each, sort_keys=True): each for each in _list(heard.result.get("strategies"))}
            if heard.stopped:
                return None
            if heard.hung:
                return tuple(name for name in hooks if name == _TOLD), tuple(given.values())
        return tuple(hooks), tuple(given.values())

    def _end(self, unknown: UsageError) -> None:
        """The run has begun, because only so hooks are asked; it ends here, and nothing waits for anybody."""
        for task in self._history.state.tasks:
            decision = Decision(
                action="escalate", task_id=task.id, iteration=0, reason="usage-error", explanation=unknown.message
            )
            self._history.record(Decided(task=task.id, iteration=0, decision=decision))
        self._history.record(RunFinished(decision="escalate", exit_code=unknown.exit_code))

    def _strategies(self, given: Sequence[object]) -> Iterable[Strategy]:
        if len(given) > _MOST_STRATEGIES:
            self._warn(f"Python hooks add {len(given)} strategies", f"only the first {_MOST_STRATEGIES} are looked at")
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

    def classify(self, task: TaskState, attempt: Attempt, stage: str) -> None:
        """What the hooks take the failure of this stage for. It is written down already: none is lost if they fail."""
        taken_for = analysis_of(attempt)
        if "iterctl_classify" not in (self._history.state.hooks or ()) or taken_for is None:
            return
        failed = _failed(attempt, stage)
        if taken_for.stage != stage or failed is None:
            return
        about = {"stage": taken_for.stage, "error_type": taken_for.error_type, "sign": taken_for.sign}
        failure = {**self._place(task, attempt), **about, **_details(failed)}
        request: dict[str, object] = {"hook": "iterctl_classify", "failure": failure}
        answer = self._advice(task, request, "iterctl_classify failed", attempt).result.get("answer")
        if answer is not None:
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
        open_to_advice = task.settings.strategy in {"auto", "aggressive"}  # else the settings leave no choice
        if "iterctl_choose_strategy" not in (state.hooks or ()) or not chosen.error_type or not open_to_advice:
            return ""
        choice = {
            **self._place(task, attempt),
            "stage": chosen.stage,
            "error_type": chosen.error_type,
            "chosen": chosen.strategy.name,
            "why": chosen.why,
            "strategies": [each.name for each in (*BUILT_IN, *state.strategies)],
        }
        request: dict[str, object] = {"hook": "iterctl_choose_strategy", "choice": choice}
        answer = self._advice(task, request, "iterctl_choose_strategy failed", attempt).result.get("answer")
        if answer is not None and named(str(answer), state.strategies) is None:
            self._warn("iterctl_choose_strategy names no strategy", repr(answer))
        elif answer is not None and answer != chosen.strategy.name:
            return str(answer)
        return ""

    def notify(self, task: TaskState) -> None:
        """Tell the hooks of the decision just taken."""
        if _TOLD not in (self._history.state.hooks or ()) or task.decision is None:
            return
        request: dict[str, object] = {"hook": _TOLD, "decision": task.decision.model_dump(mode="json")}
        heard = ask_hooks(self._turn_of(task), request, self._tick)
        if heard.problem:
            self._warn("iterctl_decided failed", heard.problem)

    def _place(self, task: TaskState, attempt: Attempt) -> dict[str, object]:
        where = {"run": self._history.run, "task": task.id}
        return {**where, "iteration": attempt.iteration, "max_iterations": task.bound}

    def _advice(
        self, task: TaskState, request: dict[str, object], failed: str, attempt: Attempt | None = None
    ) -> Heard:
        """What hooks advise, within a time of their own: they hold nobody up, and use up no iteration's time."""
        state, began = self._history.state, time.monotonic()
        used = spent(state, attempt or Attempt(iteration=0))
        left = allowance(limits_of(state), used, _PATIENCE, in_iteration=False)
        if not left.seconds:
            return Heard({})
        turn = replace(self._turn_of(task), seconds=left.seconds, limit=left.limit)
        heard = ask_hooks(turn, request, self._tick)
        if attempt is not None:
            seconds = time.monotonic() - began
            self._history.record(Advised(task=task.id, iteration=attempt.iteration, seconds=seconds, hung=heard.hung))
        if heard.problem and not heard.stopped:
            more = "; Python hooks are asked for no more advice in this run" if heard.hung else ""
            self._warn(failed, one_line(heard.problem, 200) + more)
        return heard

    def _turn_of(self, task: TaskState) -> Turn:
        return self._turn(task, task.attempts[-1] if task.attempts else Attempt(iteration=0))

    def _warn(self, what: str, problem: str) -> None:
        """Once: several tasks may have the same hooks, and one that is wrong is as wrong the next time."""
        text = f"{what}: {one_line(problem, 300)}"
        if text not in self._history.state.warnings:
            self._history.record(Warned(text=text))


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
