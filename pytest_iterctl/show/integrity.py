"""What the gate found, as words and as data: the terminal, the summary, the report and the audit all say the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_iterctl.control.evidence import GateEvidence, GateFinding, IntegrityGap, Proof
from pytest_iterctl.control.pattern import counted
from pytest_iterctl.control.state import Attempt, TaskState
from pytest_iterctl.show.report_words import FILES, ID, NAMES, Part, bounded, shown_line, suite_told

__all__ = [
    "accepted_attempt",
    "finding_text",
    "gap_part",
    "gap_text",
    "gate_part",
    "integrity_part",
    "last_judged",
    "left_out_text",
    "outcomes_text",
    "proof_part",
    "proof_text",
    "some",
    "suspicious",
    "verdict_text",
]

_OUTCOMES = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")
#: A reason that goes on from "the tests pass in the work tree" begins with one of these.
_GOES_ON = ("not ", "but ", "and ")


# ── words ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def some(names: Iterable[str], most: int = 3) -> str:
    """`a, b, c and 4 more`, each name short and harmless."""
    listed = [shown_line(name, 160) for name in names]
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def outcomes_text(counts: Mapping[str, int]) -> str:
    """`40 passed, 2 failed`, the well-known outcomes first."""
    known = [name for name in _OUTCOMES if counts.get(name)]
    others = sorted(name for name in counts if name not in _OUTCOMES and counts[name])
    return ", ".join(f"{counts[name]} {shown_line(name, 20)}" for name in (*known, *others)) or "no tests"


def proof_text(proof: Proof) -> str:
    """What is known before the first iteration, in one line."""
    runs = (
        f"{counted(len(proof.runs), 'run')}: {outcomes_text(proof.counts)}" if proof.runs else "no run to compare with"
    )
    text = f"{runs}; {counted(proof.files, 'file')} kept, {proof.protected_count} protected"
    if proof.hidden_count:
        text += f", {proof.hidden_count} hidden"
    flaky = [told.rpartition(": ")[0] or told for told in proof.flaky]
    return f"{text}; flaky before: {some(flaky)}" if flaky else text


def verdict_text(gate: GateEvidence) -> str:
    """Why the verdict is what it is, as a sentence of its own."""
    reason = shown_line(gate.reason or gate.verdict, 500)
    if gate.verdict != "not-green" and reason.startswith(_GOES_ON):
        return f"passed in the work tree, {reason}"
    return reason


def suspicious(gate: GateEvidence) -> tuple[GateFinding, ...]:
    return tuple(finding for finding in gate.findings if not finding.certain)


def finding_text(finding: GateFinding) -> str:
    place = f"{shown_line(finding.where)} " if finding.where else ""
    return f"{place}{shown_line(finding.rule, 60)}: {shown_line(finding.text, 300)}".rstrip(": ")


def gap_text(gap: IntegrityGap) -> str:
    undo = f" (to undo it: {shown_line(gap.undo, 300)})" if gap.undo else ""
    return f"{shown_line(gap.text, 500)}{undo}"


def left_out_text(task: TaskState, gate: GateEvidence) -> str:
    """What of the agent's change is not part of the result, and where it is kept; '' when all of it is."""
    patch = shown_line(task.settled.left_out, ID) if task.settled is not None else ""
    kept = f"kept in {patch}" if patch else ""
    if not gate.left_out:
        return kept
    return "; ".join(filter(None, (some((each.path for each in gate.left_out), 5), kept)))


def last_judged(task: TaskState) -> Attempt | None:
    """The last attempt of an agent that the gate looked at."""
    return next((a for a in reversed(task.attempts) if a.iteration > 0 and a.gate is not None), None)


def accepted_attempt(task: TaskState) -> Attempt | None:
    """The attempt that was accepted, if one was."""
    return task.attempts[-1] if task.status == "proceed" and task.attempts else None


# ── data ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def proof_part(proof: Proof) -> Part:
    return {
        "proved": proof.proved,
        "problem": bounded(proof.problem),
        "files": proof.files,
        "protected_count": proof.protected_count,
        "protected": [shown_line(name, ID) for name in proof.protected],
        "hidden_count": proof.hidden_count,
        "installed": proof.installed,
        "runs": [shown_line(run) for run in proof.runs],
        "counts": {shown_line(name, 20): number for name, number in proof.counts.items()},
        "tests": outcomes_text(proof.counts),
        "flaky": [shown_line(told, ID) for told in proof.flaky],
        "old_failures": [shown_line(test, ID) for test in proof.old_failures],
        "differs": [shown_line(line, ID) for line in proof.differs],
        "notes": [shown_line(note, ID) for note in proof.notes],
        "seconds": round(proof.seconds, 3),
    }


def gate_part(attempt: Attempt, gate: GateEvidence) -> Part:
    """One attempt as the gate saw it."""
    return {
        "iteration": attempt.iteration,
        "verdict": gate.verdict,
        "reason": shown_line(gate.reason, 500),
        "approved": attempt.approved,
        "tests": suite_told(gate.suite) if gate.suite is not None else "",
        "gaps": [gap_part(gap) for gap in gate.gaps[:FILES]],
        "findings": [
            {
                "where": shown_line(finding.where, ID),
                "rule": shown_line(finding.rule, 60),
                "certain": finding.certain,
                "text": shown_line(finding.text, 500),
            }
            for finding in gate.findings[:FILES]
        ],
        "left_out": [
            {"path": shown_line(each.path, ID), "reason": shown_line(each.reason), "protected": each.protected}
            for each in gate.left_out
        ],
        "may_change": [shown_line(path, ID) for path in gate.may_change],
        "new_tests": shown_line(gate.new_tests, 500),
        "flaky": [shown_line(test, ID) for test in gate.flaky[:FILES]],
        "checked": [shown_line(text, 500) for text in gate.checked],
        "unchecked": [shown_line(text, 500) for text in gate.unchecked],
        "ask": shown_line(gate.ask, 500),
        "seconds": round(gate.seconds, 3),
    }


def gap_part(gap: IntegrityGap) -> Part:
    return {
        "kind": shown_line(gap.kind, 60),
        "text": shown_line(gap.text, 500),
        "undo": shown_line(gap.undo, 500),
        "tests": [shown_line(test, ID) for test in gap.tests[:NAMES]],
    }


def integrity_part(task: TaskState) -> Part | None:
    """Everything about one task; None as long as nothing has been kept or judged."""
    judged = [(attempt, attempt.gate) for attempt in task.attempts if attempt.gate is not None]
    if task.proof is None and not judged:
        return None
    settings = task.settings
    accepted = accepted_attempt(task)
    return {
        "settings": {
            "gate": settings.gate,
            "protect": [shown_line(glob, ID) for glob in settings.protect],
            "may_change": [shown_line(glob, ID) for glob in (*settings.may_change, *task.released)],
            "baseline": settings.baseline,
            "flaky": settings.flaky,
            "mutants": settings.mutants,
        },
        "proof": proof_part(task.proof) if task.proof is not None else None,
        "edited": [shown_line(name, ID) for name in task.edited[:FILES]],
        # The last ones whole; of a long history the verdicts will do.
        "iterations": [_verdict_part(attempt, gate) for attempt, gate in judged[:-NAMES]]
        + [gate_part(attempt, gate) for attempt, gate in judged[-NAMES:]],
        "accepted": _accepted(task, accepted) if accepted is not None else None,
        "left_out_patch": (shown_line(task.settled.left_out, ID) if task.settled is not None else "") or None,
    }


def _verdict_part(attempt: Attempt, gate: GateEvidence) -> Part:
    return {
        "iteration": attempt.iteration,
        "verdict": gate.verdict,
        "reason": shown_line(gate.reason, 500),
        "approved": attempt.approved,
    }


def _accepted(task: TaskState, attempt: Attempt) -> Part:
    """Which attempt, and on whose word."""
    by = next((answer.by for answer in reversed(task.answers) if answer.effect == "approve"), "")
    return {"iteration": attempt.iteration, "by": (shown_line(by) or "a person") if attempt.approved else "the gate"}
