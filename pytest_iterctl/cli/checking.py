"""The commands for anyone's loop and any CI: check and feedback. They need no repository."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import ValidationError

from pytest_iterctl.control.check import CheckDocument, IterationCheck, decide_check, decision_document
from pytest_iterctl.control.evidence import Outcome, ReviewEvidence, SuiteEvidence
from pytest_iterctl.errors import ExitCode, ReportError, UsageError
from pytest_iterctl.feedback.compose import compact, feedback_document, long_form, text_form
from pytest_iterctl.feedback.junit import JUnitReport, outcome_of, read_reports
from pytest_iterctl.feedback.plain_text import suite_from_text
from pytest_iterctl.plan.problems import Finding, did_you_mean
from pytest_iterctl.plan.translate import findings
from pytest_iterctl.plan.yaml_reader import read_yaml
from pytest_iterctl.redaction import Redactor
from pytest_iterctl.show.formats import render_json, render_yaml
from pytest_iterctl.store.checks import Checks
from pytest_iterctl.store.database import Database
from pytest_iterctl.store.place import Place
from pytest_iterctl.text import cut_middle, markdown_text, one_line, workflow_safe

__all__ = ["check", "feedback"]

#: A check carries test output, so it may be larger than a plan.
_LARGEST_CHECK = 32 * 1024 * 1024
_NOTE = 500
#: Less room than this can't be laid out in.
_LEAST = 100
_NOTES = 20
_EXIT_CODES = {"proceed": ExitCode.DONE, "retry": ExitCode.NOT_ACCEPTED, "escalate": ExitCode.ESCALATED}


def check(file: str, *, loop: str | None, form: str | None, exit_code: bool) -> int:
    data, source = _input(file)
    asked = _read_check(data, source)
    redactor = Redactor.from_environment(os.environ)
    passed = asked.test_result.status == "pass"
    suite = suite_from_text(redactor(asked.test_result.output), passed=passed)
    told = compact(suite, _reviews(asked, redactor), asked.feedback_max_length)
    with _remembered(loop, redactor) as checks:
        earlier = checks.attempts(loop, asked.task_id) if checks is not None and loop is not None else ()
        decision = decide_check(asked, told, suite, earlier)
        if checks is not None and loop is not None:
            if decision.action == "proceed":
                checks.forget(loop, asked.task_id)
            else:
                checks.remember(loop, asked.task_id, max(asked.current_iteration, 1), told.summary)
    _print(decision_document(decision), form or ("json" if data.lstrip()[:1] == b"{" else "yaml"))
    return int(_EXIT_CODES[decision.action]) if exit_code else 0


def _reviews(asked: IterationCheck, redactor: Redactor) -> tuple[ReviewEvidence, ...]:
    review = asked.review_result
    if review is None:
        return ()
    return (ReviewEvidence(reviewer="review", status=review.status, feedback=redactor(review.feedback)),)


def _read_check(data: bytes, source: str) -> IterationCheck:
    document = read_yaml(data, source, limit=_LARGEST_CHECK)
    try:
        return CheckDocument.model_validate_json(json.dumps(document.data, default=str)).iteration_check
    except ValidationError as error:
        extra = {tuple(details["loc"]) for details in error.errors() if details["type"] == "extra_forbidden"}
        found = [
            _unknown(finding) if tuple(finding.path) in extra else finding for finding in findings(error, document.data)
        ]
        raise document.error(found) from None


def _unknown(finding: Finding) -> Finding:
    """An unknown key of a check, with its own did-you-mean (the plan's keys are no help here)."""
    key = str(finding.path[-1]) if finding.path else ""
    tables = {1: CheckDocument.model_fields, 2: IterationCheck.model_fields}
    known = tuple(tables.get(len(finding.path), ())) or ("status", "output", "feedback")
    return Finding(finding.path, "unknown key", did_you_mean(key, known), at_key=True)


@contextlib.contextmanager
def _remembered(loop: str | None, redactor: Redactor) -> Iterator[Checks | None]:
    if loop is None:
        yield None
        return
    place = Place(Path.cwd(), os.environ, for_agents=False)
    place.prepare()
    database = Database(place.database)
    try:
        yield Checks(database, redactor)
    finally:
        database.close()


def _input(file: str) -> tuple[bytes, str]:
    try:
        if file == "-":
            return sys.stdin.buffer.read(_LARGEST_CHECK + 1), "<stdin>"
        with Path(file).open("rb") as stream:
            return stream.read(_LARGEST_CHECK + 1), file
    except OSError as error:
        raise UsageError(f"{file} can't be read: {error.strerror}") from None


def _print(document: dict[str, object], form: str) -> None:
    """The document, in which no text can be a command to the CI runner that shows it in its log."""
    # A JSON document is a YAML document, and inside its quotes no line can begin with what a test printed.
    rendered = render_yaml(document) if form == "yaml" else ""
    if not rendered or workflow_safe(rendered) != rendered:
        rendered = render_json(document).replace("##", "#\\u0023")
    sys.stdout.write(rendered)


def feedback(reports: tuple[str, ...], *, form: str, limit: int) -> int:
    report = _reports(reports)
    outcome, reason = outcome_of(report, None)
    redactor = Redactor.from_environment(os.environ)
    suite = SuiteEvidence(
        outcome=outcome,
        reason=reason,
        counts=report.counts,
        failures=report.failures,
        failing=report.failing,
    )
    clean = _redacted(suite, redactor)
    notes = [redactor(one_line(note, _NOTE)) for note in report.notes]
    if form in {"json", "yaml"}:
        _print({**feedback_document(clean, limit=limit), "notes": notes}, form)
    elif form == "md":
        sys.stdout.write(_safe(lambda room: _markdown(clean, notes, room), limit))
    else:
        sys.stdout.write(_safe(lambda room: _text(clean, room), limit))
        sys.stderr.write(workflow_safe("".join(f"note: {note}\n" for note in notes)))
    return 0


def _redacted(suite: SuiteEvidence, redactor: Redactor) -> SuiteEvidence:
    """Without secrets. Our own words stay, even if a variable that is called secret holds the very same one."""
    clean = redactor.deep(suite.model_dump(mode="json"))
    clean["outcome"] = suite.outcome
    for told, failure in zip(clean["failures"], suite.failures, strict=True):
        told["phase"] = failure.phase
    return SuiteEvidence.model_validate_json(json.dumps(clean))


def _safe(laid_out: Callable[[int], str], limit: int) -> str:
    """No line is a command to a CI runner, and what that takes comes out of the limit."""
    room = limit
    while True:
        text = workflow_safe(laid_out(room))
        over = len(text.encode()) - limit
        if over <= 0 or room <= _LEAST:
            return text
        room = max(room - over, _LEAST)


def _markdown(suite: SuiteEvidence, notes: list[str], limit: int) -> str:
    head = f"**{suite.outcome}**: {_numbers(suite)}\n\n"
    told = [f"- {markdown_text(note)}" for note in notes[:_NOTES]]
    if len(notes) > _NOTES:
        told.append(f"- and {len(notes) - _NOTES} more notes")
    # Notes may take a quarter at most: what failed is what matters.
    tail = cut_middle("\n".join(["", "Notes on the reports:", "", *told, ""]), limit // 4) if told else ""
    return head + long_form(suite, (), limit=limit - len((head + tail).encode())) + tail


def _text(suite: SuiteEvidence, limit: int) -> str:
    head = f"{suite.outcome}: {_numbers(suite)}\n"
    if suite.outcome is Outcome.PASSED:
        return head
    return head + text_form(suite, (), limit=max(limit - len(head.encode()), 100))


def _numbers(suite: SuiteEvidence) -> str:
    counts = suite.counts
    return f"{counts.passed} passed, {counts.failed} failed, {counts.errors} errors, {counts.skipped} skipped"


def _reports(names: tuple[str, ...]) -> JUnitReport:
    """Files, globs, or - for standard input; what matches nothing is an error, not an empty report."""
    paths: list[Path] = []
    for name in names:
        found = [name]
        if glob.has_magic(name) and not os.path.lexists(name):
            matches = glob.iglob(name, recursive=True)  # noqa: PTH207 - the user wrote a glob, maybe an absolute one
            found = sorted(match for match in matches if not Path(match).is_dir())
        if not found:
            raise ReportError(f"no report matches {name}", hint="check the path and whether the tests ran at all")
        paths += [Path(each) for each in found]
    return read_reports(list(dict.fromkeys(paths)), stdin=sys.stdin.buffer, root=str(Path.cwd()))
