"""What machines read of a run: the contract `iterctl.run/1`, and the list of runs."""

from __future__ import annotations

from pytest_iterctl.control.standing import best_attempt, run_exit_code
from pytest_iterctl.control.state import Attempt, RunState, TaskState

__all__ = ["run_document", "status_document"]


def run_document(state: RunState, report_of: dict[str, str]) -> dict[str, object]:
    """`iterctl.run/1`; also says what the loop spent outside of agents and test runs."""
    return {
        "schema": "iterctl.run/1",
        "run": state.run,
        "decision": "proceed" if all(task.status == "proceed" for task in state.tasks) else "escalate",
        "exit_code": int(state.finished.exit_code if state.finished is not None else run_exit_code(state)),
        "seconds": round(state.clock, 3),
        "overhead_seconds": round(max(state.clock - state.worked, 0.0), 3),
        "cost_usd": round(state.cost, 6),
        "warnings": list(state.warnings),
        "tasks": [_task(task, report_of.get(task.id, "")) for task in state.tasks],
    }


def _task(task: TaskState, report: str) -> dict[str, object]:
    decision = task.decision
    judged = best_attempt(task) if task.status in {"escalated", "stopped"} else None
    last = judged or next((a for a in reversed(task.attempts) if a.suite is not None), None)
    question = decision.question if decision is not None and task.status in {"escalated", "stopped"} else None
    return {
        "id": task.id,
        "state": task.status,
        "decision": decision.action if decision is not None else None,
        "reason": decision.reason if decision is not None else None,
        "explanation": decision.explanation if decision is not None else "",
        "limit": task.limit or None,
        "iterations": task.iterations,
        "max_iterations": task.bound,
        "baseline": _history(task.attempts[0]) if task.attempts else None,
        "history": [_history(attempt) for attempt in task.attempts if attempt.iteration > 0],
        "checkpoints": list(task.checkpoints),
        "tests": last.suite.counts.model_dump() if last is not None and last.suite is not None else {},
        "failing": list(last.suite.failing) if last is not None and last.suite is not None else [],
        "outcome": str(last.suite.outcome) if last is not None and last.suite is not None else None,
        "cost_usd": round(task.cost, 6),
        "calls_of_unknown_cost": task.calls_of_unknown_cost,
        "seconds": round(task.attempts[-1].ended - task.attempts[0].began, 3) if task.attempts else 0.0,
        "report": report or None,
        "snapshots": _snapshots(task),
        "holds": _holds(task),
        "committed": (task.settled.committed if task.settled is not None else "") or None,
        "question": question.model_dump() if question is not None else None,
        "gaps": [gap for attempt in task.attempts for review in attempt.reviews for gap in review.gaps],
        "iteration": {
            "current": task.attempts[-1].iteration if task.attempts else 0,
            "max": task.bound,
            "enabled": True,
            "status": "not-enabled",
            "previousIterations": [],
        },
    }


def _holds(task: TaskState) -> dict[str, object] | None:
    settled = task.settled
    return {"what": settled.holds, "iteration": settled.iteration} if settled is not None else None


def _history(attempt: Attempt) -> dict[str, object]:
    unknown = [turn for turn in attempt.all_turns if turn.cost_usd is None]
    all_unknown = bool(attempt.all_turns) and len(unknown) == len(attempt.all_turns)
    return {
        "iteration": attempt.iteration,
        "strategy": "default",
        "outcome": str(attempt.suite.outcome) if attempt.suite is not None else None,
        "agent": [{"outcome": str(turn.outcome), "error": turn.error} for turn in attempt.turns],
        "changed": attempt.changed,
        "decision": attempt.decision.action if attempt.decision is not None else None,
        "reason": attempt.decision.reason if attempt.decision is not None else None,
        "seconds": round(attempt.seconds, 3),
        "cost_usd": None if all_unknown else round(attempt.cost, 6),
        "snapshot": attempt.latest_snapshot or None,
    }


def _snapshots(task: TaskState) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    if task.base:
        found.append({"iteration": 0, "stage": "base", "commit": task.base})
    found += [
        {"iteration": attempt.iteration, "stage": stage, "commit": commit}
        for attempt in task.attempts
        for stage, commit in attempt.snapshots
    ]
    return found


def status_document(states: list[RunState], running: str | None) -> dict[str, object]:
    """`iterctl.status/1`: one row per run, the newest last."""
    return {
        "schema": "iterctl.status/1",
        "runs": [
            {
                "run": state.run,
                "began_at": state.began_at,
                "last_at": state.last_at,
                "running": state.run == running,
                "finished": state.finished is not None,
                "decision": state.finished.decision if state.finished is not None else None,
                "seconds": round(state.clock, 3),
                "cost_usd": round(state.cost, 6),
                "tasks": [
                    {
                        "id": task.id,
                        "state": task.status,
                        "limit": task.limit or None,
                        "iterations": task.iterations,
                        "max_iterations": task.bound,
                    }
                    for task in state.tasks
                ],
            }
            for state in states
        ],
    }
