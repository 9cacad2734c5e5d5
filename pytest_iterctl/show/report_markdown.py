"""A task's report as one page of Markdown: the question and how to answer it first, the evidence folded below.

Whatever came from tests, agents, reviewers or the plan passes through `text` on its way into the page: as prose, as a
code span or as a fenced block. A `<summary>` is HTML, where Markdown's escapes don't hold: only our own words go there.
"""

from __future__ import annotations

from collections.abc import Mapping

from pytest_iterctl.control.pattern import counted
from pytest_iterctl.show.markdown_forms import Reading, fold, names_line, table
from pytest_iterctl.show.report_integrity import render_integrity
from pytest_iterctl.text import cut_middle, fence, human_bytes, markdown_text, one_line

__all__ = ["render"]

_LARGEST = 400_000
_SHOWN_AT_ONCE = 10
_TABLE_ROWS = 100
_COLUMNS = 20
_FILES = 20
#: Tried in this order until the page is small enough: bytes of each diff, and how many attempts are told in detail.
_SIZES = ((1_000_000, 1000), (60_000, 100), (15_000, 100), (4_000, 50), (1_000, 20), (0, 10), (0, 0))
_TRENDS = {"always": "always failing", "regressed": "broken", "fixed": "fixed"}


def render(document: Mapping[str, object], *, largest: int = _LARGEST) -> str:
    """At most `largest` bytes (as long as the page without any detail is smaller than that)."""
    page = ""
    for diff_bytes, details in _SIZES:
        page = "\n".join(_page(Reading(document), diff_bytes, details)) + "\n"
        if len(page.encode("utf-8", "backslashreplace")) <= largest:
            break
    return page


def _page(report: Reading, diff_bytes: int, details: int) -> list[str]:
    asks_about_it = report.text("reason") == "integrity" and bool(report.part("question"))
    return [
        f"# {report.line('title', 400)}",
        *_question(report),
        # When the question is whether to believe a change, what speaks against it comes before all else.
        *(render_integrity(report) if asks_about_it else []),
        *_situation(report),
        *_why(report),
        *_attempts(report),
        *_matrix(report),
        *([] if asks_about_it else render_integrity(report)),
        *_details(report, diff_bytes, details),
        *_whole_change(report, diff_bytes),
        *_certain(report),
        *_reproduce(report),
    ]


def _question(report: Reading) -> list[str]:
    question = report.part("question")
    if not question:
        return []
    lines: list[str] = []
    if report.text("state") != "escalated" or one_line(question.text("text"), 300).endswith("…"):
        lines += ["", f"**Question.** {question.line('text', 1000)}"]
    rows = [
        [option.text("number"), option.line("label", 160), option.line("next"), option.code("command")]
        for option in question.parts("options")
    ]
    lines += ["", *table(["", "Option", "What happens next", "Answer"], rows)]
    own_words = f"In your own words: {question.code('continue')}. " if question.has("continue") else ""
    limit = f"For a limit of your own: {question.code('resume')}. " if "--limit" in question.text("resume") else ""
    return [
        *lines,
        "",
        f"{own_words}{limit}To end it: {question.code('abort')}. Until someone answers, nothing happens.",
    ]


def _situation(report: Reading) -> list[str]:
    situation = report.part("situation")
    lines = ["", f"**Situation.** {situation.line('text', 800)} {situation.line('safe', 400)}"]
    if situation.has("problem"):
        lines += ["", f"**Not committed.** {situation.line('problem', 600)}"]
    if situation.has("restore"):
        last = situation.number("last_iteration")
        lines += ["", f"Another attempt: {situation.code('restore')} (N from 0, before the run, to {last})."]
    named = [f"run {report.code('run')}", f"task {report.code('task')}"]
    named += [f"{key} {report.code(key)}" for key in ("reason", "limit", "base", "agent") if report.has(key)]
    return [*lines, "", f"{', '.join(named)}; {report.code('at')}"]


def _why(report: Reading) -> list[str]:
    ended = report.text("state") not in {"running", "waiting"}
    lines = ["", "## Why it stopped" if ended else "## Where it stands", ""]
    facts = report.parts("certain")[:1]
    lines += [f"- **Certain:** {fact.line('text', 400)} ({fact.line('shown_by')})" for fact in facts]
    inferred = report.parts("inferred")
    return lines + [f"- **Inferred:** {found.line('text', 400)} (from {found.line('from')})" for found in inferred]


def _attempts(report: Reading) -> list[str]:
    attempts = report.parts("attempts")
    if not attempts:
        return []
    rows = [
        [
            attempt.text("iteration"),
            attempt.text("changed"),
            attempt.line("result", 240),
            attempt.line("decision") or "-",
            attempt.text("time"),
            attempt.text("cost"),
        ]
        for attempt in attempts[-_TABLE_ROWS:]
    ]
    shown = table(["#", "Changed", "Result", "Decision", "Time", "Cost"], rows)
    left_out = len(attempts) - len(rows)
    if left_out:
        shown += ["", f"The first {counted(left_out, 'attempt')} are in the YAML and JSON forms of this report."]
    return ["", "## Attempts", "", *_folded(f"All {counted(len(attempts), 'attempt')}", shown, len(rows))]


def _matrix(report: Reading) -> list[str]:
    matrix = report.part("matrix")
    rows, iterations = matrix.parts("rows"), matrix.texts("iterations")
    if not rows:
        return []
    hidden = max(len(iterations) - _COLUMNS, 0)
    shown = table(
        ["Test", *iterations[hidden:], ""],
        [
            [
                row.code("test", 160),
                *("**FAIL**" if cell == "FAIL" else markdown_text(cell) for cell in row.texts("cells")[hidden:]),
                _TRENDS.get(row.text("trend"), ""),
            ]
            for row in rows
        ],
    )
    notes = ["0 is the tree before any agent; - is a run that did not get as far as judging the test."]
    if hidden:
        notes.append(f"{counted(hidden, 'earlier iteration')} not shown.")
    if matrix.number("left_out"):
        notes.append(f"{counted(matrix.number('left_out'), 'more test')} left out.")
    total = len(rows) + matrix.number("left_out")
    body = [*shown, "", " ".join(notes)]
    return ["", "## Tests that failed", "", *_folded(f"{counted(total, 'test')} by iteration", body, len(rows))]


# ── folded below ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _details(report: Reading, diff_bytes: int, most: int) -> list[str]:
    attempts = report.parts("attempts")
    if not attempts:
        return []
    told = attempts[-most:] if most else []
    diffs = {diff.number("iteration"): diff for diff in report.part("diffs").parts("attempts")}
    lines = ["", "## Each attempt"]
    if report.has("prompt"):
        lines += ["", *fold("What was asked for", [fence(report.text("prompt"))])]
    if len(told) < len(attempts):
        lines += ["", f"To keep this page readable, only the last {len(told)} of {len(attempts)} are told here."]
    for attempt in told:
        number = attempt.number("iteration")
        name = f"Iteration {number}" if number else "Baseline"
        outcome = attempt.text("tests_text") if attempt.has("outcome") else "not tested"
        body = [*_one_attempt(attempt), *_diff(diffs.get(number, Reading(None)), diff_bytes)]
        lines += ["", *fold(f"{name}: {attempt.text('changed')}; {outcome}", body)]
    return lines


def _one_attempt(attempt: Reading) -> list[str]:
    lines: list[str] = []
    for guidance in attempt.texts("guidance"):
        lines += ["A person said:", "", fence(guidance), ""]
    for choice in attempt.parts("strategies"):
        if choice.text("strategy") != "default":
            lines += [f"Strategy {choice.code('strategy')}: {choice.line('why', 300) or 'no reason'}.", ""]
    if attempt.has("analysis"):
        lines += [f"What kind of failure: {attempt.line('analysis_text', 300)}.", ""]
    if attempt.has("destroyed"):
        lines += [f"Taken back as a whole: {attempt.line('destroyed', 400)}.", ""]
    touched = [
        f"{each.text('what')} {each.text('how')} ({'undone' if each.has('undone') else 'not undone'})"
        for each in attempt.parts("touched")
    ]
    if touched:
        lines += [
            "What was done to git's own files and around the work tree meanwhile:",
            "",
            fence("\n".join(touched)),
            "",
        ]
        if any(each.has("undone") for each in attempt.parts("touched")):
            lines += ["Commits that were undone are kept: `git for-each-ref refs/iterctl/kept`.", ""]
    for turn in attempt.parts("agent_failures"):
        lines += [f"{turn.code('agent')} did not do its turn ({turn.line('outcome')}):", ""]
        lines += [fence(turn.text("error") or "it did not say why"), ""]
    lines += names_line("Changed", attempt.texts("files")[:_FILES], attempt.number("file_count"))
    lines += names_line("Failing", attempt.texts("failing"), attempt.number("failing_count"))
    failure = attempt.part("first_failure")
    if failure:
        lines += _failure(failure)
    for review in attempt.parts("reviews"):
        said = [review.text("feedback"), *(f"- {text}" for key in ("findings", "gaps") for text in review.texts(key))]
        lines += [f"{review.code('reviewer')} said {review.line('status')}:", ""]
        lines += [fence("\n".join(filter(None, said)) or "no reason given"), ""]
    feedback = attempt.part("feedback")
    if feedback and attempt.has("fed_back"):
        told = [feedback.text("summary"), *(f"- {item}" for item in feedback.texts("actionable_items"))]
        lines += [
            f"Told to the next iteration, with priority {feedback.line('priority')}:",
            "",
            fence("\n".join(told)),
            "",
        ]
    if attempt.has("snapshot"):
        lines += [f"Snapshot {attempt.code('snapshot')}, brought back by {attempt.code('restore')}", ""]
    return lines


def _failure(failure: Reading) -> list[str]:
    place = f" at {failure.code('where')}" if failure.has("where") else ""
    name = failure.code("test") if failure.has("test") else "the test run itself"
    told = [failure.text("message") or failure.text("kind")]
    told += [f"{key}: {failure.text(key)}" for key in ("expected", "received") if failure.has(key)]
    if failure.has("detail"):
        told += ["", failure.text("detail")]
    return [f"First: {name}{place}", "", fence("\n".join(told)), ""]


def _diff(diff: Reading, most: int) -> list[str]:
    if diff.has("problem"):
        return [f"The diff can't be shown: {diff.line('problem', 300)}"]
    text = diff.text("text")
    shown = text if len(text.encode("utf-8", "backslashreplace")) <= most else cut_middle(text, most) if most else ""
    lines = [fence(shown, "diff")] if shown else []
    if diff.has("cut") or shown != text:
        size = f" ({human_bytes(len(text.encode('utf-8', 'backslashreplace')))} or more)"
        lines += ["", f"Not all of it is here{size}; the whole: {diff.code('command')}"]
    return lines


def _whole_change(report: Reading, diff_bytes: int) -> list[str]:
    diffs = report.part("diffs")
    if not diffs.has("included"):
        return ["", f"Diffs are {diffs.line('note')}: {diffs.code('command')}"] if diffs.has("note") else []
    whole = diffs.part("whole")
    if not (whole.has("text") or whole.has("cut") or whole.has("problem")):
        return []
    summary = "The whole change, from before the run to what the work tree holds"
    return ["", *fold(summary, _diff(whole, diff_bytes))]


def _certain(report: Reading) -> list[str]:
    facts = [f"- {fact.line('text', 600)} ({fact.line('shown_by', 300)})" for fact in report.parts("certain")]
    warnings = [f"- Warning: {markdown_text(one_line(text, 400))}" for text in report.texts("warnings")]
    return ["", "## What is certain", "", *facts, *warnings]


def _reproduce(report: Reading) -> list[str]:
    lines = ["", "## Reproduce"]
    for step in report.parts("reproduce"):
        lines += ["", f"{step.line('what')[:1].upper()}{step.line('what')[1:]}:", "", fence(step.text("command"), "sh")]
    return lines


# ── forms ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _folded(summary: str, lines: list[str], rows: int) -> list[str]:
    """As it is when it is short, else folded away: the first screen belongs to the question."""
    return lines if rows <= _SHOWN_AT_ONCE else fold(summary, lines)
