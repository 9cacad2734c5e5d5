"""`iterctl audit`: what was protected, what was compared, what was found, and what was accepted on whose word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_iterctl.control.evidence import GateEvidence, Proof
from pytest_iterctl.control.pattern import counted
from pytest_iterctl.control.state import Attempt, RunState, TaskState
from pytest_iterctl.show.integrity import (
    accepted_attempt,
    finding_text,
    gap_text,
    integrity_part,
    outcomes_text,
    some,
    verdict_text,
)
from pytest_iterctl.show.report_words import ID, Part, plain, shown_line, suite_told

__all__ = ["audit_document", "audit_lines"]

_COLUMN = 12


def audit_document(state: RunState, tasks: Sequence[TaskState]) -> Part:
    """`iterctl.audit/1`; `integrity` is null for a task of which nothing has been kept yet."""
    document: Part = {
        "schema": "iterctl.audit/1",
        "run": state.run,
        "tasks": [{"id": task.id, "state": task.status, "integrity": integrity_part(task)} for task in tasks],
    }
    return {key: plain(value) for key, value in document.items()}


def audit_lines(state: RunState, tasks: Sequence[TaskState]) -> Iterator[str]:
    """The same for people, one line each, no line longer than its place."""
    yield f"run {state.run}"
    for task in tasks:
        yield ""
        yield f"task {shown_line(task.id)}: {task.status}"
        yield from _task(task)


def _task(task: TaskState) -> Iterator[str]:
    if task.proof is None:
        yield from _row("base", "not kept: there was nothing to judge yet")
    else:
        yield from _protected(task, task.proof)
        yield from _compared(task, task.proof)
    for attempt in task.attempts:
        if attempt.gate is not None:
            yield from _attempt(attempt, attempt.gate)
    yield from _accepted(task)


def _protected(task: TaskState, proof: Proof) -> Iterator[str]:
    told = f"{proof.protected_count} of {counted(proof.files, 'file')}, taken from the base for every verdict"
    more = proof.protected_count - len(proof.protected)
    yield from _row("protected", told, *proof.protected, f"and {more} more" if more > 0 else "")
    if proof.hidden_count:
        yield from _row("hidden", f"{counted(proof.hidden_count, 'file')} that no agent sees")
    if task.settings.protect:
        yield from _row("protect", ", ".join(task.settings.protect))
    if task.settings.may_change:
        yield from _row("may change", ", ".join(task.settings.may_change))
    if task.released:
        yield from _row("released", f"by a person's answer: {', '.join(task.released)}")
    if task.edited:
        yield from _row("edited", f"by a person, and part of the base: {some(task.edited, 10)}")


def _compared(task: TaskState, proof: Proof) -> Iterator[str]:
    yield from _row("baseline", *(proof.runs or ("no run that came to an end",)))
    if proof.counts:
        yield from _row("tests", outcomes_text(proof.counts))
    yield from _row("flaky", *proof.flaky)
    if proof.flaky and task.settings.flaky == "fail":
        yield from _row("", "they block all the same (flaky: fail)")
    blocking = "blocks" if task.settings.baseline == "strict" else "does not block"
    yield from _row("old failures", *(f"{test} ({blocking})" for test in proof.old_failures))
    if proof.installed:
        yield from _row("interpreter", f"{counted(proof.installed, 'installed file')} fingerprinted")
    yield from _row("room", *(proof.differs if proof.proved else (proof.problem, *proof.differs)))
    yield from _row("note", *proof.notes)


def _attempt(attempt: Attempt, gate: GateEvidence) -> Iterator[str]:
    name = f"iteration {attempt.iteration}" if attempt.iteration else "baseline"
    yield f"  {name}: {gate.verdict}: {verdict_text(gate)}"
    if gate.suite is not None:
        yield from _row("room", suite_told(gate.suite))
    yield from _row("certain", *(finding_text(finding) for finding in gate.findings if finding.certain))
    yield from _row("suspicious", *(finding_text(finding) for finding in gate.findings if not finding.certain))
    yield from _row("gap", *(f"{gap.kind}: {gap_text(gap)}" for gap in gate.gaps))
    yield from _row("left out", *(f"{each.path}: {each.reason}" for each in gate.left_out))
    yield from _row("may change", *gate.may_change)
    yield from _row("new tests", gate.new_tests)
    yield from _row("flaky", *gate.flaky)
    yield from _row("ask", gate.ask)
    yield from _row("checked", *gate.checked)
    yield from _row("unchecked", *gate.unchecked)


def _accepted(task: TaskState) -> Iterator[str]:
    attempt = accepted_attempt(task)
    if attempt is None:
        yield "  accepted: nothing"
        return
    what = f"iteration {attempt.iteration}" if attempt.iteration else "the tree as it was"
    by = next((answer.by for answer in reversed(task.answers) if answer.effect == "approve"), "")
    who = f", on the word of {shown_line(by) or 'a person'}" if attempt.approved else ""
    yield f"  accepted: {what}{who}"
    if task.settled is not None:
        yield from _row("commit", task.settled.committed)
        yield from _row("branch", task.settled.branch)
        yield from _row("left out", f"as a patch: {task.settled.left_out}" if task.settled.left_out else "")


def _row(word: str, *texts: str) -> Iterator[str]:
    """The word beside the first text, the others below it; nothing where there is nothing to say."""
    for text in filter(None, texts):
        yield f"    {word:<{_COLUMN}}  {shown_line(text, ID)}"
        word = ""
