"""The stages of an iteration, each claimed in the journal before it begins and written down when it ends."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

from pytest_iterctl.agents.callers import call_agent, call_reviewer
from pytest_iterctl.agents.prompts import GeneratePrompt, ReviewPrompt
from pytest_iterctl.agents.turn import Tick, Turn
from pytest_iterctl.control.analysis import analysis_of
from pytest_iterctl.control.choosing import chosen_strategy, lessons
from pytest_iterctl.control.events import (
    BaseProved,
    Judged,
    ReviewFinished,
    StageStarted,
    StrategyChosen,
    SuiteFinished,
    TurnFinished,
    Warned,
)
from pytest_iterctl.control.evidence import Outcome, ReviewEvidence, SuiteEvidence, Touch
from pytest_iterctl.control.limits import Allowance, allowance
from pytest_iterctl.control.standing import attempt_at, attempt_text, limits_of, spent
from pytest_iterctl.control.state import Attempt, RunState, TaskState
from pytest_iterctl.control.steps import CallAgent, CallReviewer, ChooseStrategy, ProveBase, RunTests
from pytest_iterctl.control.steps import Judge as JudgeStep
from pytest_iterctl.control.strategies import Learned
from pytest_iterctl.errors import StoreError
from pytest_iterctl.feedback.causes import first_cause, group
from pytest_iterctl.feedback.compose import feedback_document, long_form, whole_form
from pytest_iterctl.gate.baseline import GOOD
from pytest_iterctl.loop.base import Bases
from pytest_iterctl.loop.confining import Confinement
from pytest_iterctl.loop.desk import Caller, desk
from pytest_iterctl.loop.extensions import Extensions
from pytest_iterctl.loop.guarding import Guard
from pytest_iterctl.loop.history import History, now
from pytest_iterctl.loop.judging import Judge
from pytest_iterctl.loop.proving import excused, prove
from pytest_iterctl.loop.record import judged_base
from pytest_iterctl.loop.sessions import Session, session_for
from pytest_iterctl.loop.testing import Bench, Tested, command_line_of
from pytest_iterctl.loop.trial import Target
from pytest_iterctl.loop.workspace import Workspace
from pytest_iterctl.plan.frozen import FrozenTask, NamedAgent
from pytest_iterctl.plan.model import Agent
from pytest_iterctl.store.lessons import Lessons
from pytest_iterctl.text import one_line
from pytest_iterctl.work.snapshots import Snapshots

__all__ = ["Stages", "objections"]

_NUMBERS = {"generate": 1, "test": 2, "judge": 2, "review": 3}
_REVIEWED_DIFF = 400_000
_LONGEST_NAME = 10_000
_RUN_AGAIN = 50


def objections(attempt: Attempt) -> tuple[ReviewEvidence, ...]:
    """What the gate has against an attempt, in the form in which agents are told of reviews."""
    gate = attempt.gate
    if gate is None or gate.verdict in {"accepted", "not-green"} or attempt.approved:
        return ()
    lines = [f"{gap.text}. {gap.undo[:1].upper()}{gap.undo[1:]}".rstrip(". ") + "." for gap in gate.gaps]
    if not lines:
        return ()
    return (ReviewEvidence(reviewer="gate", status="reject", feedback=lines[0], findings=tuple(lines[1:])),)


def _kind_of_failure(attempt: Attempt | None) -> str:
    """For the agent: in our own words, since the sign of it is in the feedback."""
    found = analysis_of(attempt) if attempt is not None else None
    return f"Kind of failure: {found.error_type}. What to do: {found.actions[0]}." if found is not None else ""


def _whose_tree(judged: Sequence[Attempt], attempt: Attempt) -> Attempt | None:
    """The attempt that a strategy has put the work tree back to, which is what there is to be told about now."""
    if not attempt.put_back_to:
        return None
    left = (each for each in judged if each.latest_snapshot == attempt.put_back_to)
    return next(left, judged[0] if judged else None)


class Past(TypedDict):
    """What feedback compares an iteration with."""

    previous: SuiteEvidence | None
    passed_before: frozenset[str]
    passed_now: frozenset[str]


def _about(past: Past, suite: SuiteEvidence) -> Past:
    """The past of these failures alone, so that the others are not taken for tests that are gone."""
    previous = past["previous"]
    if previous is not None:
        previous = previous.model_copy(
            update={
                "failures": tuple(each for each in previous.failures if each.test in suite.failing),
                "failing": tuple(test for test in previous.failing if test in suite.failing),
            }
        )
    return {**past, "previous": previous}


class Stages:
    """Performs generate, test and review for any task of a run."""

    def __init__(self, workspace: Workspace, history: History, snapshots: Snapshots, tick: Tick) -> None:
        self.workspace = workspace
        self.history = history
        self.snapshots = snapshots
        self.tick = tick
        self.memory = workspace.memory(history.run)
        self.private = workspace.place.run_directory(history.run)
        plan = history.state.started.plan if history.state.started is not None else None
        self.confinement = (
            Confinement(workspace.repository, workspace.place, self.private, lambda: limits_of(history.state))
            if plan is not None and plan.sandbox
            else None
        )
        self.bases = Bases(
            *(workspace.repository, snapshots, self.private, self.bench, tick), first_agent=workspace.place.first_agent
        )
        self.lessons = Lessons(workspace.database)
        self.extensions = Extensions(history, self._hook_turn, tick)
        self.guard = Guard(
            *(workspace.repository, self.private, history.run),
            lambda: limits_of(history.state).allow_destructive_operations,
            sealed=self.confinement is not None,
        )
        self._told: set[str] = set()
        self._ever_passed: dict[str, tuple[int, frozenset[str]]] = {}

    @property
    def state(self) -> RunState:
        return self.history.state

    @property
    def directory(self) -> Path:
        started = self.state.started
        return self.workspace.root / (started.directory if started is not None else "")

    @property
    def as_module(self) -> bool:
        return self.state.started is None or self.state.started.as_module

    @property
    def bench(self) -> Bench:
        return Bench(self.history.run, self.directory, self.private, self.as_module, confinement=self.confinement)

    def choose(self, step: ChooseStrategy) -> StrategyChosen:
        task = self.state.task(step.task)
        judged = [attempt.verdict for attempt in task.attempts if attempt.verdict is not None]
        causes = len(group(judged[-1].failures)) if judged else 0
        learned = {key: Learned(good, bad) for key, (good, bad) in self.lessons.all().items()}
        chosen = chosen_strategy(self.state, task, step.iteration, causes=causes, learned=learned)
        asked = self.extensions.choose(task, attempt_at(self.state, task, step.iteration), chosen)
        if not asked:
            return chosen
        return chosen_strategy(self.state, task, step.iteration, causes=causes, learned=learned, asked=asked)

    def learn(self, task: TaskState) -> None:
        """Remember whether the strategies of the last iteration have helped; it decides nothing if that is lost."""
        for error_type, strategy, helped in lessons(task):
            self.lessons.learn(error_type, strategy, helped=helped)

    def generate(self, step: CallAgent) -> None:
        task = self.state.task(step.task)
        attempt = attempt_at(self.state, task, step.iteration)
        prompt, feedback = self._generate_prompt(task, step.iteration)
        turn = self._turn(task, attempt, step.agent, "generate", prompt=prompt, feedback=feedback)
        self._claim(task, step.iteration, "generate", step.agent.name)
        with self._at_desk(turn) as seated:
            reply = call_agent(seated, self.tick)
        key = self._key(task, step.iteration, "generate", call=len(attempt.turns) + 1)
        touched = self.guard.after(around=True)
        evidence = reply.evidence.model_copy(update={"output_key": key, "touched": touched})
        self.history.record(TurnFinished(task=task.id, iteration=step.iteration, turn=evidence))
        self._keep(key, "generate", step.agent.name, reply.stdout + reply.stderr)
        self._warn_of_survivors(f"the agent {step.agent.name}", reply.survivors)

    def test(self, step: RunTests) -> None:
        task = self.state.task(step.task)
        self._claim(task, step.iteration, "test", "")
        tested = self.run_tests(
            self._as_chosen(task), attempt_at(self.state, task, step.iteration), task.timeout_factor
        )
        if tested.stopped:
            return  # the claim stays open: there is no verdict, and the stop is dealt with next
        self.tested(task, step.iteration, tested)

    def _as_chosen(self, task: TaskState) -> FrozenTask:
        """The task with what the strategy asks of its test runs, of plugins that the base's own runs had loaded."""
        attempt = task.attempts[-1]
        if task.task.test is not None or not attempt.iteration or task.proof is None or not task.proof.proved:
            return task.task
        base, strategy = self.bases.load(task), attempt.strategy
        more: list[str] = []
        if strategy.workers is not None and base.facts.get("distributed") is True:
            more.append("-n0" if strategy.workers == 1 else f"-n{strategy.workers}")
        if not strategy.cache and "cacheprovider" in base.watched.plugins:
            more.append("--cache-clear")
        return task.task.model_copy(update={"tests": (*task.task.tests, *more)})

    def tested(self, task: TaskState, iteration: int, tested: Tested) -> None:
        if iteration == 0:
            self.bases.note_tree_run(task.id, tested, since=task.base)
        else:
            tested = replace(tested, suite=self._in_context(task, iteration, tested))
            path = self.bases.folder(task.id) / f"outcomes-{iteration}.json"
            path.write_text(json.dumps(dict(tested.outcomes)), encoding="utf-8")
        self.history.record(SuiteFinished(task=task.id, iteration=iteration, suite=tested.suite))
        self._keep(self._key(task, iteration, "test"), "test", "", tested.output)
        if task.task.agent is not None:
            # One name per line: whatever a redaction makes of it, it can be read again.
            self._put(
                self._passed_key(task, iteration),
                "test",
                "",
                "\n".join(one_line(test, _LONGEST_NAME) for test in tested.passed),
            )
        self._warn_of_survivors("the tests", tested.survivors)

    def _in_context(self, task: TaskState, iteration: int, tested: Tested) -> SuiteEvidence:
        """The run in the light of the baseline: what was flaky before does not block, what became so is told."""
        suite = tested.suite
        if task.proof is None or not task.proof.proved or suite.outcome is not Outcome.FAILED:
            return suite
        baseline = self.bases.load(task).baseline
        if task.settings.flaky == "report":
            suite = excused(suite, frozenset(baseline.flaky))
        steady = baseline.passing
        fallen = tuple(test for test in suite.failing if test in steady)
        if not fallen or len(fallen) > _RUN_AGAIN or task.task.test is not None:
            return suite
        arguments = Target.of(self.bases, task.task, self.bases.load(task).facts).arguments(fallen)
        again = self.run_tests(
            task.task.model_copy(update={"tests": arguments, "marker": None}),
            attempt_at(self.state, task, iteration),
            task.timeout_factor,
        )
        passed = tuple(test for test in fallen if again.outcomes.get(test) in GOOD)
        return suite.model_copy(update={"intermittent": passed}) if passed else suite

    def prove(self, step: ProveBase) -> None:
        # Not claimed: it changes nothing in the work tree, and whoever was killed in it begins it again.
        task = self.state.task(step.task)
        attempt = attempt_at(self.state, task, step.iteration)
        proof = prove(self.bases, task, self._time_left(attempt, task.settings.test_timeout))
        if proof is None:
            return
        self.history.record(BaseProved(task=task.id, proof=proof))
        first = task.attempts[0]
        if step.iteration == 0 and first.suite is not None and task.settings.flaky == "report" and proof.proved:
            flaky = frozenset(self.bases.load(self.state.task(task.id)).baseline.flaky)
            better = excused(first.suite, flaky)
            if better.passed and not first.suite.passed:
                self.history.record(SuiteFinished(task=task.id, iteration=0, suite=better))

    def judge(self, step: JudgeStep) -> None:
        task = self.state.task(step.task)
        attempt = attempt_at(self.state, task, step.iteration)
        if step.iteration == 0:
            self.history.record(Judged(task=task.id, iteration=0, gate=judged_base(task)))
            return
        self._claim(task, step.iteration, "judge", "")
        key = f"{self._prefix(task)}room-output@{step.iteration}"
        gate = Judge(
            self.bases,
            replace(task, task=self._as_chosen(task)),
            attempt,
            self._time_left(attempt, task.settings.test_timeout * task.timeout_factor),
            self._outcomes(task, step.iteration),
            lambda text: self._put(key, "judge", "", text),
        ).judge()
        if gate is not None:
            self.history.record(Judged(task=task.id, iteration=step.iteration, gate=gate))

    def _outcomes(self, task: TaskState, iteration: int) -> Mapping[str, str]:
        try:
            found = json.loads((self.bases.folder(task.id) / f"outcomes-{iteration}.json").read_bytes())
        except (OSError, ValueError):
            return {}
        return {str(test): str(outcome) for test, outcome in found.items()} if isinstance(found, dict) else {}

    def _time_left(self, attempt: Attempt, timeout: float) -> Callable[[], Allowance]:
        """What the next of the gate's runs may take, whatever those before it took; only the run's limits bound it."""
        began, used = time.monotonic(), spent(self.state, attempt)

        def left() -> Allowance:
            passed = time.monotonic() - began
            later = replace(used, total_seconds=used.total_seconds + passed)
            return allowance(limits_of(self.state), later, timeout, in_iteration=False)

        return left

    def run_tests(
        self, task: FrozenTask, attempt: Attempt, factor: float = 1.0, *, extra: tuple[str, ...] = ()
    ) -> Tested:
        allowed = self._allowance(attempt, task.settings.test_timeout * factor)
        if not self.guard.is_watching:
            self.guard.before(around=False)
        tested = self.bench.test(task, allowed, self.tick, extra=extra)
        self.warn_of("the tests", self.guard.after(around=False))
        return tested

    def review(self, step: CallReviewer) -> None:
        task = self.state.task(step.task)
        attempt = attempt_at(self.state, task, step.iteration)
        gate = attempt.gate
        left_out = tuple(each.path for each in gate.left_out) if gate is not None else ()
        left_out += tuple(map(os.fsdecode, self.bases.load(task).written)) if task.proof is not None else ()
        diff, _ = self.snapshots.patch(task.base, task.latest, limit=_REVIEWED_DIFF, without=left_out)
        text = diff.decode("utf-8", "replace")
        prompt = ReviewPrompt(task.id, task.task.prompt, step.iteration, attempt_text(attempt), text, gate).render()
        turn = self._turn(task, attempt, step.reviewer, "review", prompt=prompt, diff=text)
        self._claim(task, step.iteration, "review", step.reviewer.name)
        with self._at_desk(turn) as seated:
            review, reply = call_reviewer(seated, self.tick)
        key = self._key(task, step.iteration, "review", call=len(attempt.review_turns) + 1)
        touched = self.guard.after(around=True)
        evidence = reply.evidence.model_copy(update={"output_key": key, "touched": touched})
        self.history.record(ReviewFinished(task=task.id, iteration=step.iteration, review=review, turn=evidence))
        self._keep(key, "review", step.reviewer.name, reply.stdout + reply.stderr)
        self._warn_of_survivors(f"the reviewer {step.reviewer.name}", reply.survivors)

    @contextmanager
    def _at_desk(self, turn: Turn) -> Iterator[Turn]:
        """The call with a way to the run's memory, for as long as it takes."""
        caller = Caller(turn.run, turn.task, turn.agent.name, _NUMBERS[turn.stage])
        with desk(turn.private, caller, self.workspace.database.path, self.workspace.redactor) as socket:
            yield replace(turn, socket=socket)

    def _hook_turn(self, task: TaskState, attempt: Attempt) -> Turn:
        """In which Python hooks are asked something that is nobody's turn."""
        return self._turn(task, attempt, NamedAgent(name="hook", spec=Agent(hook="hook")), "generate", prompt="")

    def _claim(self, task: TaskState, iteration: int, stage: str, agent: str) -> None:
        git = self.guard.before(around=stage in {"generate", "review"}) if stage != "judge" else ""
        if self.guard.problem and self.guard.problem not in self._told:
            self._told.add(self.guard.problem)
            self.history.record(Warned(text=f"what an agent does to .git may not be undone: {self.guard.problem}"))
        self.history.record(
            StageStarted(task=task.id, iteration=iteration, stage=stage, agent=agent, before=task.latest, git=git)  # type: ignore[arg-type]  # one of the four
        )

    def warn_of(self, who: str, touched: Iterable[Touch], *, perhaps_a_person: bool = False) -> None:
        """Tell what nobody is blamed for by a decision, because it is not known who it was.

        Where it may have been the user, each thing that was undone is named, and where its commits are.
        """
        told = [each for each in touched if each.destructive or (perhaps_a_person and each.undone)]
        for each in told:
            self.history.record(Warned(text=f"{who}: {each.text}"))
        if perhaps_a_person and any(each.undone for each in told):
            self.history.record(Warned(text="commits that were undone are kept: git for-each-ref refs/iterctl/kept"))

    def _key(self, task: TaskState, iteration: int, stage: str, *, call: int = 1) -> str:
        """Where the output of one call is kept for good."""
        return f"{self._prefix(task)}stage-{_NUMBERS[stage]}-output@{iteration}" + (f"#{call}" if call > 1 else "")

    def _keep(self, key: str, stage: str, agent: str, text: str) -> None:
        """The whole output in memory: under its own key, and the newest under its stage's.

        Only after the call itself is written down: an output that does not fit must not make anyone pay twice.
        """
        for each in (key, key.partition("@")[0]):
            self._put(each, stage, agent, text)

    def _put(self, key: str, stage: str, agent: str, text: str) -> None:
        try:
            self.memory.put(key, text, stored_at=now(), agent_id=agent, stage_num=_NUMBERS[stage])
        except StoreError as error:
            self.history.record(Warned(text=f"{key} is not kept: {error.message}"))

    def passed_before(self, task: TaskState, iteration: int) -> frozenset[str]:
        """The tests that ever passed before this iteration."""
        known, passed = self._ever_passed.get(task.id, (-1, frozenset[str]()))
        earlier = [each.iteration for each in task.attempts if known < each.iteration < iteration]
        passed = passed.union(*(self.passed_in(task, number) for number in earlier))
        if earlier:
            self._ever_passed[task.id] = (max(earlier), passed)
        return passed

    def passed_in(self, task: TaskState, iteration: int) -> frozenset[str]:
        return frozenset(filter(None, (self.memory.get(self._passed_key(task, iteration)) or "").split("\n")))

    def _passed_key(self, task: TaskState, iteration: int) -> str:
        return f"{self._prefix(task)}passed@{iteration}"

    def _prefix(self, task: TaskState) -> str:
        return f"{task.id}/" if len(self.state.tasks) > 1 else ""

    def _warn_of_survivors(self, whose: str, count: int) -> None:
        if count:
            text = f"{whose} left {count} process(es) that could not be ended and may still be at work"
            self.history.record(Warned(text=text))

    def _allowance(self, attempt: Attempt, timeout: float) -> Allowance:
        return allowance(limits_of(self.state), spent(self.state, attempt), timeout, in_iteration=attempt.iteration > 0)

    def _turn(
        self,
        task: TaskState,
        attempt: Attempt,
        agent: NamedAgent,
        stage: str,
        *,
        prompt: str,
        feedback: dict[str, object] | None = None,
        diff: str = "",
    ) -> Turn:
        settings = task.settings
        allowed = self._allowance(attempt, (agent.spec.timeout or settings.timeout) * task.timeout_factor)
        session = session_for(task, attempt, agent) if stage == "generate" else Session()
        self.workspace.place.note_agent()
        call = len(attempt.all_turns) + 1
        name = f"{task.id}-{attempt.iteration}-{stage}-{call}"
        return Turn(
            agent=agent,
            stage=stage,  # type: ignore[arg-type]  # generate or review
            run=self.history.run,
            task=task.id,
            iteration=attempt.iteration,
            max_iterations=task.bound,
            session=f"{self.history.run}-{name}",
            prompt=self.workspace.redactor(prompt),
            feedback=feedback or {},
            diff=diff,
            directory=self.directory if agent.folder is None else self.workspace.root / agent.folder,
            private=self.private / "calls" / name,
            seconds=allowed.seconds,
            limit=allowed.limit,
            python=settings.python or sys.executable,
            arguments=task.task.tests,
            as_module=self.as_module,
            pass_env=settings.pass_env,
            resume=session.id,
            before=session.before,
            budget=self._budget(attempt),
            walls=self.confinement.around_agent(agent, settings, self.private / "calls" / name)
            if self.confinement is not None
            else None,
        )

    def _budget(self, attempt: Attempt) -> dict[str, float]:
        """What the limits leave, for agents that keep to a bound of their own."""
        limits, used = limits_of(self.state), spent(self.state, attempt)
        cost = min(limits.max_total_cost - used.total_cost, limits.max_cost_per_iteration - used.iteration_cost)
        return {"max_cost": max(cost, 0.0), "max_turns": max(limits.max_calls_per_iteration - used.iteration_calls, 0)}

    def _generate_prompt(self, task: TaskState, iteration: int) -> tuple[str, dict[str, object]]:
        attempt = attempt_at(self.state, task, iteration)
        judged = [attempt for attempt in task.attempts if attempt.suite is not None]
        began_with = _whose_tree(judged, attempt)
        last = began_with or (judged[-1] if judged else None)
        suite = last.verdict if last is not None else None
        causes = len(group(suite.failures)) if suite is not None and attempt.strategy.only_first_cause else 0
        reviews = (*last.reviews, *objections(last)) if last is not None else ()
        past = self.past(task, last.iteration if last is not None else 0)
        key = f"{self._prefix(task)}feedback@{iteration}"
        where = f"iterctl memory get {key}"
        if suite is not None:
            self._put(key, "generate", "", whole_form(suite, reviews, **past))
        if suite is not None and causes:
            suite = first_cause(suite)
            past = _about(past, suite)
        document = feedback_document(suite, reviews, where=where, **past) if suite is not None else {}
        tried = [each for each in task.attempts if each.iteration > 0 and (each.suite is not None or each.destroyed)]
        recent = [each for each in task.attempts if each.iteration <= iteration][-2:]
        prompt = GeneratePrompt(
            task=task.id,
            asked=task.task.prompt,
            iteration=iteration,
            max_iterations=task.bound,
            # The document holds the long form already.
            feedback=str(document["text"]) if document else long_form(suite, reviews, where=where, **past),
            guidance=tuple(text for _, text in task.guidance),
            earlier=tuple(f"Iteration {attempt.iteration}: {attempt_text(attempt)}" for attempt in tried),
            command=command_line_of(task.task, as_module=self.as_module),
            changed_nothing=bool(tried) and tried[-1].changed is False,
            restored=self._restored(tried[-1]) if tried else (),
            trespasses=tuple(dict.fromkeys(text for each in recent for text in each.trespasses)),
            may_change=(*task.settings.may_change, *task.released),
            kind=_kind_of_failure(last),
            part_of=causes,
            put_back=began_with.iteration if began_with is not None else None,
        ).render()
        return prompt, document

    def _restored(self, attempt: Attempt) -> tuple[str, ...]:
        return tuple(each.path for each in attempt.gate.left_out if each.protected) if attempt.gate else ()

    def past(self, task: TaskState, iteration: int) -> Past:
        """What an iteration is compared with: the one before it that came to a verdict, and who ever passed."""
        suites = [suite for each in task.attempts if each.iteration < iteration and (suite := each.verdict)]
        verdicts = [suite for suite in suites if suite.outcome in {Outcome.PASSED, Outcome.FAILED}]
        return Past(
            previous=verdicts[-1] if verdicts else None,
            passed_before=self.passed_before(task, iteration),
            passed_now=self.passed_in(task, iteration),
        )
