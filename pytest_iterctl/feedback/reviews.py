"""What a reviewer command said: its document if it printed one, else its exit code. Failing is never approving."""

from __future__ import annotations

import json
from typing import cast

from pytest_iterctl.control.evidence import ReviewEvidence, ReviewStatus
from pytest_iterctl.feedback.documents import Document, find_document
from pytest_iterctl.feedback.failure_text import bounded
from pytest_iterctl.text import one_line, strip_escapes

__all__ = ["read_review"]

_FEEDBACK_BYTES = 8192
_ENTRIES = 200
_ENTRY = 2000
_REASON = 300
_WORDS = ("approve", "reject", "pending")
_OTHER_KEYS = frozenset({"feedback", "findings", "gaps"})


def read_review(
    reviewer: str, stdout: str, exit_code: int | None, failed_reason: str = "", *, exit_code_speaks: bool = True
) -> ReviewEvidence:
    """The review in `stdout`; `failed_reason` says why the reviewer could not do its work (not started, timed out).

    Where the exit code only tells whether a tool ran, as it does for coding agents, it must not speak for a review.
    """
    if failed_reason:
        return _failed(reviewer, failed_reason, stdout)
    document = find_document(stdout, lambda found: _status(found) in _WORDS)
    if document is not None:
        return ReviewEvidence(
            reviewer=reviewer,
            status=cast("ReviewStatus", _status(document)),
            feedback=_feedback(_text(document.get("feedback"))),
            findings=_entries(document.get("findings")),
            gaps=_entries(document.get("gaps")),
        )
    meant = find_document(stdout, lambda found: "status" in found and bool(found.keys() & _OTHER_KEYS))
    if meant is not None:
        # Somebody tried to say something; taking it for silence would make an approval of `status: rejected`.
        return _failed(reviewer, f"its status {_text(meant['status'])!r} is none of {', '.join(_WORDS)}", stdout)
    if not exit_code_speaks:
        return _failed(reviewer, "no review in its answer", stdout)
    if exit_code == 0:
        return ReviewEvidence(reviewer=reviewer, status="approve", feedback=_feedback(stdout))
    if exit_code == 1:
        return ReviewEvidence(reviewer=reviewer, status="reject", feedback=_feedback(stdout))
    reason = "ended without an exit code" if exit_code is None else f"exit code {exit_code}"
    if exit_code is not None and exit_code < 0:
        reason = f"killed by signal {-exit_code}"
    return _failed(reviewer, f"{reason} and no review in its output", stdout)


def _failed(reviewer: str, reason: str, stdout: str) -> ReviewEvidence:
    told = one_line(strip_escapes(reason), _REASON)
    return ReviewEvidence(reviewer=reviewer, status="failed", feedback=_feedback(f"{told}\n{stdout}"))


def _status(document: Document) -> str:
    status = document.get("status")
    return status.strip().lower() if isinstance(status, str) else ""


def _feedback(text: str) -> str:
    return bounded(strip_escapes(text).strip(), _FEEDBACK_BYTES)


def _entries(value: object) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [] if value is None else [value]
    entries = (one_line(strip_escapes(_text(entry)), _ENTRY) for entry in values[:_ENTRIES])
    kept = tuple(entry for entry in entries if entry)
    return (*kept, f"and {len(values) - _ENTRIES} more") if len(values) > _ENTRIES else kept


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (TypeError, ValueError, RecursionError):
        return "(an entry that can't be shown)"
