"""What can be asked of the state: what was spent, which attempt is best, what a decision depends on. Pure."""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from typing import Literal

from pytest_iterctl.control.decision import Situation, combine_reviews
from pytest_iterctl.control.error_types import Stage
from pytest_iterctl.control.evidence import Failure, Feedback, Outcome, ReviewStatus, SuiteEvidence, TurnOutcome
from pytest_iterctl.control.failed_turn import of_turn
from pytest_iterctl.control.hopeless import Tried, hopeless, rank, signatures, tried
from pytest_iterctl.control.limits import Reached, Spent, allowance, every_exceeded, exhausted
from pytest_iterctl.control.pattern import Trial, counted
from pytest_iterctl.control.state import Attempt, RunState, TaskState
from pytest_iterctl.errors import ExitCode
from pytest_iterctl.plan.frozen import Settings
from pytest_iterctl.plan.model import Backoff, Limits
from pytest_iterctl.plan.values import format_duration

__all__ = [
    "attempt_at",
    "attempt_text",
    "backoff",
    "best_attempt",
    "failed_alike",
    "gave_up",
    "held_back",
    "incident",
    "limits_of",
    "review_is_due",
    "run_exit_code",
    "situation",
    "spent",
    "trials",
]

_LONGEST_WAIT = 60.0
_JITTER = 0.25
_PERMANENT = frozenset({"auth", "validation"})
_DENIED = 5


def review_is_due(task: TaskState, attempt: Attempt) -> bool:
    return attempt.green and not attempt.approved and len(attempt.reviews) < len(task.task.reviewers)


def limits_of(state: RunState) -> Limits:
    """The limits in force: the frozen plan's, or what a resume raised them to."""
    if state.limits is None:
        raise ValueError("a run has limits from its first event on")
    return state.limits


def attempt_at(state: RunState, task: TaskState, iteration: int) -> Attempt:
    """The attempt with this number, or a fresh one when nothing has happened in it yet."""
    last = task.attempts[-1] if task.attempts else None
    return last if last is not None and last.iteration == iteration else Attempt(iteration, began=state.clock)


def spent(state: RunState, attempt: Attempt) -> Spent:
    """What the run and one attempt have used up, by the state's own clock."""
    return Spent(
        total_cost=state.cost,
        total_seconds=state.clock,
        iteration_cost=attempt.cost,
        # The baseline belongs to no iteration; only the run's own limits bound it.
        iteration_seconds=attempt.seconds if attempt.iteration else 0.0,
        iteration_calls=attempt.calls,
        calls_of_unknown_cost=sum(task.calls_of_unknown_cost for task in state.tasks),
    )


def backoff(settings: Settings, failures: int, chosen: Backoff | None = None, *, seed: str) -> float:
    """How long to wait before the agent is called again after this many failures in a row.

    Where nobody wants to wait, a strategy does not make them. Runs that failed together would all call again together,
    so an exponential wait is up to a quarter longer. By how much follows from the seed, which names the wait: after a
    resume it is the same one.
    """
    growth = "none" if settings.backoff == "none" else chosen or settings.backoff
    if growth == "none":
        return 0.0
    if growth == "linear":
        wait = settings.backoff_initial * failures
    else:
        drawn = int.from_bytes(sha256(seed.encode("utf-8", "backslashreplace")).digest()[:4]) / 2**32
        wait = settings.backoff_initial * 2 ** min(failures - 1, 16) * (1 + _JITTER * drawn)
    return min(wait, max(_LONGEST_WAIT, settings.backoff_initial))


def gave_up(state: RunState, task: TaskState, attempt: Attempt) -> str:
    """Why it is of no use to call the agent or the reviewer again; '' as long as it is."""
    turn = attempt.all_turns[-1] if attempt.all_turns else None
    if turn is None:
        return ""
    if twice := failed_alike(attempt):
        return twice
    if not attempt.review_turns and task.agent is not None and turn.agent != task.agent.name:
        return ""  # another one is asked now
    who = "a reviewer" if attempt.review_turns else "the agent"
    error = f": {turn.error}" if turn.error else ""
    if turn.outcome is TurnOutcome.NOT_LOGGED_IN:
        return f"{who} is not logged in{error}"
    to_wait = attempt.waited < attempt.waits_due
    if turn.outcome is TurnOutcome.RATE_LIMITED and turn.retry_after is not None and to_wait:
        wait = turn.retry_after
        left = allowance(limits_of(state), spent(state, attempt), wait, in_iteration=attempt.iteration > 0)
        if left.limit:
            told = format_duration(wait)
            return f"{who} is rate limited for {told}, which is more than {left.limit} leaves{error}"
    if attempt.in_vain and turn.outcome is TurnOutcome.TOOLS_DENIED:
        tools = ", ".join(turn.denied[:_DENIED]) or "not named"
        return f"the agent was not allowed to use its tools ({tools}) and changed nothing{error}"
    if attempt.in_vain and turn.outcome is TurnOutcome.OUT_OF_BUDGET:
        return f"the agent's own budget is used up and it changed nothing{error}"
    return ""


def failed_alike(attempt: Attempt) -> str:
    """What does not go away by itself, twice: of one agent, or of one and of the other that took over from it."""
    stage: Stage = "review" if attempt.review_turns else "generate"
    turns = attempt.review_turns or attempt.turns
    last, *before = [of_turn(turn, stage) for turn in reversed(turns[-2:])] or [None]
    if last is None or last.error_type not in _PERMANENT or not before or before[0] is None:
        return ""
    who = "a reviewer" if stage == "review" else "the agent"
    same = before[0].error_type == last.error_type
    return f"{who} failed twice in a way that does not go away ({last.error_type}): {last.sign}" if same else ""


def best_attempt(task: TaskState) -> Attempt | None:
    """The attempt with most tests passing; of equals the one with fewer failures, then the latest."""
    within = (attempt for attempt in task.attempts if attempt.iteration >= task.floor_iteration)

    def order(one: Tried) -> tuple[bool, tuple[int, ...], int]:
        # An attempt that the gate objects to is the last to be kept, however green it claims to be.
        gate = one.attempt.gate
        sound = (gate is None or gate.verdict not in {"gaps", "incident"}) and not one.attempt.judged_by_edits
        return sound, rank(one.suite), one.iteration

    best = max(tried(within), key=order, default=None)
    return best.attempt if best is not None else None


def situation(state: RunState, task: TaskState, iteration: int, feedback: Feedback) -> Situation:
    """What the decision about one iteration of a task depends on."""
    attempt = attempt_at(state, task, iteration)
    limits, used = limits_of(state), spent(state, attempt)
    reached = _limits_in_force(limits, used, task, attempt)
    before_retry = exhausted(limits, used, new_iteration=True)
    start, start_text = _start_problem(task, attempt)
    trespass = _trespass(state, attempt)
    errors = [turn.error or str(turn.outcome) for turn in attempt.all_turns if turn.error or turn.outcome.is_failure]
    baseline = iteration == 0  # nobody has tried yet, so there is nothing that a setting could forbid to retry
    return Situation(
        task_id=task.id,
        iteration=iteration,
        max_iterations=task.bound,
        tests="pass" if attempt.green else "fail",
        review="approve" if attempt.approved else _review(task, attempt),
        feedback=feedback,
        trials=partial(trials, task),
        auto_retry_on_test_fail=task.settings.auto_retry_on_test_fail or baseline,
        auto_retry_on_review_reject=task.settings.auto_retry_on_review_reject or baseline,
        stopped_by=state.stopped_by,
        limit=reached[0].name if reached else "",
        limit_text="; ".join(each.text for each in reached),
        more_limits=tuple(each.name for each in reached[1:]),
        limit_before_retry=before_retry.name if before_retry else "",
        limit_before_retry_text=before_retry.text if before_retry else "",
        agent_failures=task.agent_failures,
        reviewer_failures=task.reviewer_failures,
        max_agent_failures=task.settings.max_agent_failures,
        agent_error=errors[-1] if errors else "",
        agent_gave_up=gave_up(state, task, attempt),
        agent_question=attempt.question,
        hopeless_start=start,
        start_text=start_text,
        incident=incident(task, attempt),
        approvable=attempt.may_be_approved,
        gate_objects=attempt.gate is not None and attempt.gate.verdict == "gaps",
        hopeless=_hopeless(task, iteration),
        trespass=trespass,
        trespassed_before=bool(trespass)
        and any(each.trespasses for each in task.attempts if task.forgiven < each.iteration < attempt.iteration),
    )


def _trespass(state: RunState, attempt: Attempt) -> str:
    """What somebody has to know of a turn that went beyond its task; '' where the limits allow that."""
    if limits_of(state).allow_destructive_operations or not attempt.trespasses:
        return ""
    first, *more = attempt.trespasses
    return f"{first}, and {counted(len(more), 'more thing')} like it" if more else first


def _hopeless(task: TaskState, iteration: int) -> str:
    """Why more iterations are of no use; at the bound there are none, and what a person said begins anew."""
    patience = task.settings.patience
    if not 0 < iteration < task.bound or not any(times for _, times in patience):
        return ""
    done = tried(attempt for attempt in task.attempts if attempt.iteration >= task.forgiven)
    afresh = task.settings.strategy in {"auto", "aggressive"}
    return hopeless(done, patience, may_start_afresh=afresh, after=task.forgiven) if done else ""


def incident(task: TaskState, attempt: Attempt) -> str:
    """What a person has to look at: something certain, or what the agent was told once and did again."""
    gate = attempt.gate
    if gate is None or attempt.approved:
        return ""
    if gate.verdict == "incident":
        return gate.reason
    before = (each.gate for each in task.attempts if task.forgiven < each.iteration < attempt.iteration)
    again = gate.verdict == "gaps" and any(each is not None and each.verdict == "gaps" for each in before)
    return f"told once and done again: {gate.reason}" if again else ""


def _limits_in_force(limits: Limits, used: Spent, task: TaskState, attempt: Attempt) -> tuple[Reached, ...]:
    """The limits that decide: all that were overstepped, else the one in the way of what would have to come next."""
    reached = tuple(every_exceeded(limits, used))
    if reached:
        return reached
    if attempt.ended_by:
        return (Reached(attempt.ended_by, f"{attempt.ended_by} reached", run_wide=False),)
    unfinished = not attempt.generated or review_is_due(task, attempt)
    over = exhausted(limits, used, new_iteration=False) if unfinished else None
    return (over,) if over is not None else ()


def _review(task: TaskState, attempt: Attempt) -> ReviewStatus:
    statuses = tuple(review.status for review in attempt.reviews)
    if attempt.gate is not None and attempt.gate.ask and not task.task.reviewers:
        return "pending"  # with nobody named to look at it, a person does
    missing: tuple[ReviewStatus, ...] = ("pending",) if len(statuses) < len(task.task.reviewers) else ()
    return combine_reviews(statuses + missing)


def _start_problem(task: TaskState, attempt: Attempt) -> tuple[Literal["", "no-tests", "usage-error"], str]:
    """What no agent can mend: there is nothing to test, the test command is wrong, or there is no agent."""
    suite = attempt.suite
    if task.proof is not None and not task.proof.proved:
        return "usage-error", task.proof.problem
    if attempt.iteration > 0 and task.task.agent is None:
        return "usage-error", "no agent is named that could go on"
    if attempt.iteration > 0 or suite is None:
        return "", ""
    if suite.outcome is Outcome.NO_TESTS:
        return "no-tests", suite.reason or "no tests ran"
    if suite.outcome is Outcome.USAGE_ERROR:
        return "usage-error", suite.reason or "the test command is wrong"
    if task.task.agent is None and not suite.passed:
        return "usage-error", "the tests fail and no agent is named"
    if task.task.agent is None and not attempt.approved and _review(task, attempt) == "reject":
        return "usage-error", "the review rejects and no agent is named"
    return "", ""


def trials(task: TaskState) -> tuple[Trial, ...]:
    """The attempts as patterns and questions see them."""
    judged = [attempt for attempt in task.attempts if attempt.suite is not None or attempt.turns]
    tried = [attempt for attempt in judged if attempt.iteration > 0] or judged
    sets = [frozenset(suite.failing) for attempt in tried if (suite := attempt.verdict) is not None]
    always = frozenset.intersection(*sets) if sets else frozenset()
    return tuple(
        Trial(
            iteration=attempt.iteration,
            text=attempt_text(attempt),
            failing=frozenset(attempt.verdict.failing) if attempt.verdict is not None else frozenset(),
            signatures=signatures(attempt.verdict) if attempt.verdict is not None else frozenset(),
            changed=attempt.changed,
            # What the agent has written into a test is no question for a person.
            first=_telling_failure(attempt.verdict, always) if not attempt.judged_by_edits else None,
            passed=attempt.green,
        )
        for attempt in tried
    )


def _telling_failure(suite: SuiteEvidence | None, always: frozenset[str]) -> Failure | None:
    """The failure to ask about: one that never went away and shows both sides, else whatever comes first."""
    if suite is None or not suite.failures:
        return None
    stubborn = [failure for failure in suite.failures if failure.test in always] or list(suite.failures)
    both = [failure for failure in stubborn if failure.expected is not None and failure.received is not None]
    return (both or stubborn)[0]


def attempt_text(attempt: Attempt) -> str:
    """One line on how an attempt ended."""
    suite = attempt.suite
    if attempt.destroyed:
        return f"taken back as a whole: {attempt.destroyed}"
    if attempt.gate is not None and attempt.gate.verdict not in {"accepted", "not-green"} and not attempt.approved:
        return f"Tests passed in the work tree, {attempt.gate.reason}"
    if suite is None:
        turn = attempt.turns[-1] if attempt.turns else None
        return f"agent {turn.outcome}: {turn.error}".rstrip(": ") if turn is not None else "not finished"
    if suite.passed:
        rejected = [review for review in attempt.reviews if review.status == "reject"]
        told = " ".join(rejected[0].feedback.split())[:200] if rejected else ""
        return f"Tests passed, review rejected - {told}" if rejected else f"Tests passed ({suite.counts.passed})"
    if suite.outcome is not Outcome.FAILED:
        return f"{suite.outcome} - {suite.reason}"
    first = _telling_failure(suite, frozenset())
    detail = " ".join((first.message or first.kind).split())[:200] if first is not None else suite.reason
    named = f" - {first.test}: {detail}" if first is not None else f" - {detail}"
    return f"{suite.counts.passed} passed, {counted(len(suite.failing), 'test')} failed{named}"


_BY_STATUS = {"stopped": ExitCode.SAFETY, "escalated": ExitCode.ESCALATED, "aborted": ExitCode.NOT_ACCEPTED}
_PRECEDENCE = (
    ExitCode.SAFETY,
    ExitCode.ESCALATED,
    ExitCode.USAGE,
    ExitCode.NOT_ACCEPTED,
    ExitCode.NO_TESTS,
    ExitCode.DONE,
)


def run_exit_code(state: RunState) -> ExitCode:
    """2 for a run that a signal cut short, else the first of 11, 10, 4, 1, 5, 0 that any task calls for."""
    if state.interrupted and not (state.tasks and all(task.status == "proceed" for task in state.tasks)):
        return ExitCode.INTERRUPTED
    codes = {_task_exit_code(task) for task in state.tasks} or {ExitCode.NOT_ACCEPTED}
    if held_back(state):
        codes.add(ExitCode.SAFETY)
    return next(code for code in _PRECEDENCE if code in codes)


def held_back(state: RunState) -> tuple[TaskState, ...]:
    """The tasks that wait for no other: at the end of a run, those that a stop or a limit kept from starting."""
    passed = {task.id for task in state.tasks if task.status == "proceed"}
    return tuple(task for task in state.tasks if task.status == "waiting" and passed.issuperset(task.task.needs))


def _task_exit_code(task: TaskState) -> ExitCode:
    reason = task.decision.reason if task.decision is not None else ""
    if task.status == "aborted" and reason == "no-tests":
        return ExitCode.NO_TESTS
    if task.status == "aborted" and reason == "usage-error":
        return ExitCode.USAGE
    if task.status == "proceed":
        # Accepted, but the commit that was asked for could not be made: not what the user wanted.
        return ExitCode.NOT_ACCEPTED if task.settled is not None and task.settled.problem else ExitCode.DONE
    return _BY_STATUS.get(task.status, ExitCode.NOT_ACCEPTED)
