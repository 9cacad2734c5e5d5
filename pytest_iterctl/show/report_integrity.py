"""The part of a report's page about integrity: what speaks against a change first, what was looked at folded below."""

from __future__ import annotations

from pytest_iterctl.control.pattern import counted
from pytest_iterctl.show.markdown_forms import Reading, fold, names_line, table
from pytest_iterctl.text import code_span, markdown_text, one_line

__all__ = ["render_integrity"]

_ROWS = 20
_NAMES = 20
_FIRST = 10
_VERDICTS = {
    "accepted": "accepted",
    "not-green": "no green claim",
    "failed": "failed in the clean room",
    "gaps": "**gaps**",
    "incident": "**incident**",
}


def render_integrity(report: Reading) -> list[str]:
    """Nothing for a task of which nothing has been kept or judged yet."""
    integrity = report.part("integrity")
    if not integrity:
        return []
    judged = [each for each in integrity.parts("iterations") if each.number("iteration") > 0]
    proof = integrity.part("proof")
    lines = ["", "## Integrity", "", *_proof(proof), *_verdicts(judged)]
    # What is told in full is the last attempt that claimed to be green: the one that a decision was about.
    claims = [each for each in judged if each.text("verdict") != "not-green"]
    shown = claims[-1] if claims else judged[-1] if judged else Reading(None)
    lines += [*_objections(shown), *_left_out(shown, integrity)]
    return [*lines, *fold("What was protected, compared and checked", _folded_away(integrity, proof, shown))]


def _proof(proof: Reading) -> list[str]:
    if not proof:
        return ["The base was not kept: nothing was judged.", ""]
    if not proof.has("proved"):
        return [f"**The clean room is not proved.** {proof.line('problem', 1000)}", ""]
    runs = counted(len(proof.items("runs")), "run")
    kept = f"{proof.number('protected_count')} of {counted(proof.number('files'), 'file')}"
    return [f"Protected: {kept}, taken from the base for every verdict. Compared with {runs} of the base.", ""]


def _verdicts(judged: list[Reading]) -> list[str]:
    if not judged:
        return []
    rows = [
        [
            each.text("iteration"),
            _VERDICTS.get(each.text("verdict"), each.line("verdict")),
            each.line("reason", 300) + (" (approved by a person)" if each.has("approved") else ""),
        ]
        for each in judged[-_ROWS:]
    ]
    more = len(judged) - len(rows)
    told = [f"{counted(more, 'earlier verdict')} in the YAML and JSON forms of this report.", ""] if more else []
    return [*table(["#", "Verdict", "Why"], rows), "", *told]


def _objections(shown: Reading) -> list[str]:
    lines: list[str] = []
    findings = sorted(shown.parts("findings"), key=lambda finding: not finding.has("certain"))
    for finding in findings[:_NAMES]:
        place = f"{finding.code('where')} " if finding.has("where") else ""
        weight = "certain" if finding.has("certain") else "suspicious"
        lines.append(f"- {place}{finding.line('rule', 60)} ({weight}): {finding.line('text', 400)}")
    for gap in shown.parts("gaps")[:_NAMES]:
        undo = f" To undo it: {gap.line('undo', 400)}." if gap.has("undo") else ""
        lines.append(f"- Gap {gap.line('kind', 60)}: {gap.line('text', 500)}.{undo}{_tests(gap.texts('tests'))}")
    return [f"Found in iteration {shown.number('iteration')}:", "", *lines, ""] if lines else []


def _tests(tests: list[str]) -> str:
    if not tests:
        return ""
    more = f" and {len(tests) - _FIRST} more" if len(tests) > _FIRST else ""
    return f" Tests: {', '.join(code_span(one_line(test)) for test in tests[:_FIRST])}{more}"


def _left_out(shown: Reading, integrity: Reading) -> list[str]:
    """What of the change does not count, and where it can be found."""
    rows = [[each.code("path"), each.line("reason")] for each in shown.parts("left_out")]
    patch = [f"As a patch: {integrity.code('left_out_patch', 400)}", ""] if integrity.has("left_out_patch") else []
    if not rows:
        return patch
    lines = ["Changed and left out of the result:", "", *table(["File", "Why"], rows[:_NAMES]), ""]
    if len(rows) > _NAMES:
        lines += [f"{counted(len(rows) - _NAMES, 'more file')} left out.", ""]
    return [*lines, *patch]


def _folded_away(integrity: Reading, proof: Reading, shown: Reading) -> list[str]:
    settings = integrity.part("settings")
    lines = names_line("Protected, the first", proof.texts("protected")[:_NAMES], proof.number("protected_count"))
    lines += names_line("Protected by the task", settings.texts("protect"), 0)
    lines += names_line("Tests that the task may change", settings.texts("may_change"), 0)
    lines += names_line("Changed by a person meanwhile, and part of the base", integrity.texts("edited"), 0)
    if proof:
        lines += _prose("Runs of the base", proof.texts("runs"))
        lines += [f"Its tests: {proof.line('tests')}", ""]
        lines += _prose("Flaky before any agent", proof.texts("flaky")[:_NAMES])
        lines += names_line("Failed before, outside of the task", proof.texts("old_failures")[:_NAMES], 0)
        lines += _prose("Otherwise in the clean room", proof.texts("differs")[:_NAMES])
        lines += _prose("Notes", proof.texts("notes"))
        if proof.number("installed"):
            lines += [f"{counted(proof.number('installed'), 'installed file')} fingerprinted at the start.", ""]
        if proof.number("hidden_count"):
            lines += [f"{counted(proof.number('hidden_count'), 'file')} of hidden tests.", ""]
    lines += names_line("Tests that the task may change, and that changed", shown.texts("may_change")[:_NAMES], 0)
    lines += _prose("New tests, run apart", [shown.text("new_tests")] if shown.has("new_tests") else [])
    lines += names_line("Flaky, so no obstacle", shown.texts("flaky")[:_NAMES], 0)
    lines += _prose("Checked", shown.texts("checked"))
    lines += _prose("Not checked", shown.texts("unchecked"))
    return lines or ["Nothing was kept."]


def _prose(word: str, texts: list[str]) -> list[str]:
    return [f"{word}:", "", *(f"- {markdown_text(one_line(text, 400))}" for text in texts), ""] if texts else []
