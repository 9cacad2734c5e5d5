"""What the gate has found about a change so far, and the evidence that it comes to."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from pytest_iterctl.control.evidence import GateEvidence, GateFinding, GateVerdict, IntegrityGap, SuiteEvidence
from pytest_iterctl.control.state import TaskState
from pytest_iterctl.gate.comparison import Gap
from pytest_iterctl.gate.findings import Finding
from pytest_iterctl.loop.change import SortedChange
from pytest_iterctl.text import file_name, one_line
from pytest_iterctl.work.vault import Manifest

__all__ = ["ASK", "Record", "evidence", "judged_base", "told", "without"]

#: Rules whose findings a reviewer or a person looks at before a change is accepted; others are told, no more.
ASK = frozenset(
    {
        *("hard-coded", "names-a-test", "runs-hidden-text", "not-read", "swallows-assertions"),
        *("mends-tests", "control-evaded", "depends-on-order", "unnoticed", "tests-read", "patches-library"),
        *("bends-comparison", "doctest-rewritten", "excludes-old-code", "runs-data", "spoils-assertions"),
    }
)
_SHOWN = 20


@dataclass(slots=True)
class Record:
    """What has been found so far."""

    gaps: list[Gap] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    new_tests: str = ""
    reports: Manifest = field(default_factory=Manifest)  # that the clean room's run was asked for

    def add(self, other: Record) -> None:
        self.gaps += other.gaps
        self.findings += other.findings
        self.checked += other.checked
        self.unchecked += other.unchecked

    @property
    def certain(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.certain]


def evidence(
    verdict: GateVerdict,
    reason: str,
    change: SortedChange,
    record: Record,
    *,
    suite: SuiteEvidence | None = None,
    ask: str = "",
) -> GateEvidence:
    """All that was found, as the journal holds it: bounded, and in words that a journal can hold."""
    excused_here = suite.excused if suite is not None else ()
    return GateEvidence(
        verdict=verdict,
        reason=one_line(reason, 500),
        suite=suite,
        gaps=tuple(
            IntegrityGap(kind=gap.kind, text=one_line(gap.text, 500), undo=gap.undo, tests=gap.tests[:_SHOWN])
            for gap in record.gaps
        ),
        findings=_findings(record.findings),
        left_out=change.left_out[: _SHOWN * 5],
        may_change=tuple(file_name(os.fsencode(path)) for path in change.permitted[: _SHOWN * 5]),
        new_tests=one_line(record.new_tests, 300),
        flaky=excused_here,
        checked=tuple(record.checked),
        unchecked=tuple(record.unchecked),
        ask=one_line(ask, 500),
        judged=change.accepted().digest(),
        reports=record.reports.digest(),
    )


def judged_base(task: TaskState) -> GateEvidence:
    """The baseline's own verdict: nobody has changed anything, and the room was tried on just that."""
    proof = task.proof
    if proof is None or proof.suite is None:
        return GateEvidence(verdict="failed", reason="and the clean room was not tried")
    verdict: GateVerdict = "accepted" if proof.suite.passed else "failed"
    reason = (
        "the tests pass in the clean room" if proof.suite.passed else f"not in the clean room: {proof.suite.reason}"
    )
    return GateEvidence(
        verdict=verdict,
        reason=one_line(reason, 500),
        suite=proof.suite,
        flaky=proof.suite.excused,
        judged=Manifest().digest(),
    )


def without(paths: str, *, protected: bool) -> Gap:
    if protected:
        text = f"the tests pass only with changes to {paths}, which are restored before judging"
        return Gap("protected-edit", text, f"undo the changes to {paths} and mend the code; if a test is wrong, say so")
    kinds = "linked, compiled, ignored by git, an empty folder, or too large for a snapshot"
    text = f"the tests pass only with {paths}, which can't be part of the result ({kinds})"
    return Gap("left-out", text, f"make it work without {paths}")


def _findings(found: Iterable[Finding]) -> tuple[GateFinding, ...]:
    """Each once, what is certain first; a last one counts what is not shown."""
    listed = sorted(dict.fromkeys(found), key=lambda finding: (not finding.certain, finding.rule not in ASK))
    shown = tuple(_finding(finding) for finding in listed[:_SHOWN])
    more = len(listed) - _SHOWN
    return shown if more <= 0 else (*shown, GateFinding(where="", rule="more", text=f"and {more} more"))


def _finding(finding: Finding) -> GateFinding:
    where = f"{file_name(os.fsencode(finding.path))}:{finding.line}" if finding.path else ""
    return GateFinding(where=where, rule=finding.rule, certain=finding.certain, text=one_line(finding.text, 300))


def told(findings: Iterable[Finding]) -> str:
    lines = []
    for finding in findings:
        place = f"{finding.path}:{finding.line} " if finding.path else ""
        lines.append(f"{place}{finding.text}".rstrip("."))
    more = f" (and {len(lines) - 3} more)" if len(lines) > 3 else ""  # noqa: PLR2004 - three are read
    return "; ".join(lines[:3]) + more
