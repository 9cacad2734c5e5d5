"""What machines read of a run: the contract `iterctl.run/1`, and the list of runs."""

from __future__ import annotations

from pytest_iterctl.control.standing import best_attempt, run_exit_code
from pytest_iterctl.control.state import Attempt, RunState, TaskState
from pytest_iterctl.show.failure import analysis_part, strategy_part, touched_part
from pytest_iterctl.show.integrity import gap_part, gate_part, last_judged, proof_part

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
    suite = last.verdict if last is not None else None
    question = decision.question if decision is not None and task.status in {"escalated", "stopped"} else None
    return {
        "id": task.id,
        "state": task.status,
        "decision": decision.action if decision is not None else None,
        "reason": decision.reason if decision is not None else None,
        "explanation": decision.explanation if decision is not None else "",
        "limit": task.limit or None,
        "limits": list(task.limits),
        "iterations": task.iterations,
        "max_iterations": task.bound,
        "baseline": _history(task.attempts[0]) if task.attempts else None,
        "history": [_history(attempt) for attempt in task.attempts if attempt.iteration > 0],
        "checkpoints": list(task.checkpoints),
        "tests": suite.counts.model_dump() if suite is not None else {},
        "failing": list(suite.failing) if suite is not None else [],
        "outcome": str(suite.outcome) if suite is not None else None,
        "cost_usd": round(task.cost, 6),
        "calls_of_unknown_cost": task.calls_of_unknown_cost,
        "seconds": round(task.attempts[-1].ended - task.attempts[0].began, 3) if task.attempts else 0.0,
        "report": report or None,
        "snapshots": _snapshots(task),
        "holds": _holds(task),
        "committed": (task.settled.committed if task.settled is not None else "") or None,
        "branch": (task.settled.branch if task.settled is not None else "") or None,
        "patch": (task.settled.patch if task.settled is not None else "") or None,
        "question": question.model_dump() if question is not None else None,
        "gate": _gate(task),
        "gaps": _gaps(task),
        "iteration": {
            "current": task.attempts[-1].iteration if task.attempts else 0,
            "max": task.bound,
            "enabled": True,
            "status": "not-enabled",
            "previousIterations": [],
        },
    }


def _gate(task: TaskState) -> dict[str, object] | None:
    """What is known of the base, and what the gate said last."""
    judged = last_judged(task) or (task.attempts[0] if task.attempts else None)
    gate = judged.gate if judged is not None else None
    if task.proof is None and gate is None:
        return None
    return {
        "proof": proof_part(task.proof) if task.proof is not None else None,
        "evidence": gate_part(judged, gate) if judged is not None and gate is not None else None,
        "left_out_patch": (task.settled.left_out if task.settled is not None else "") or None,
    }


def _gaps(task: TaskState) -> list[object]:
    """The gate's as tables, a reviewer's in the reviewer's own words."""
    found: list[object] = []
    for attempt in task.attempts:
        if attempt.gate is not None:
            found += [{"type": "integrity", **gap_part(gap)} for gap in attempt.gate.gaps]
        found += [gap for review in attempt.reviews for gap in review.gaps]
    return found


def _holds(task: TaskState) -> dict[str, object] | None:
    settled = task.settled
    return {"what": settled.holds, "iteration": settled.iteration} if settled is not None else None


def _history(attempt: Attempt) -> dict[str, object]:
    unknown = [turn for turn in attempt.all_turns if turn.cost_usd is None]
    all_unknown = bool(attempt.all_turns) and len(unknown) == len(attempt.all_turns)
    return {
        "iteration": attempt.iteration,
        "strategy": attempt.strategy.name,
        "strategies": strategy_part(attempt),
        "analysis": analysis_part(attempt),
        "outcome": str(attempt.verdict.outcome) if attempt.verdict is not None else None,
        "gate": attempt.gate.verdict if attempt.gate is not None else None,
        "agent": [{"outcome": str(turn.outcome), "error": turn.error} for turn in attempt.turns],
        "changed": attempt.changed,
        "destroyed": attempt.destroyed or None,
        "touched": touched_part(attempt),
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
