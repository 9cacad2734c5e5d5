"""One reported test case as evidence: its result, and what went wrong in it.

`junitparser` reads the results of each case. It is imported on the first case that has any, because importing it costs
more than reading a small green report.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import IntEnum
from typing import Protocol, cast
from xml.etree.ElementTree import Element

from pytest_iterctl.control.evidence import Failure, Frame, Phase
from pytest_iterctl.feedback.case_names import BETWEEN, LONGEST_ID, file_of, id_of
from pytest_iterctl.feedback.expectations import expectation_in
from pytest_iterctl.feedback.failure_text import bounded, cause_in, cleaned, exception_in, message_in
from pytest_iterctl.feedback.stack_text import below, frames_in, own_lines
from pytest_iterctl.feedback.xml_cases import INTERIM, ReportedCase, ReportedSuite
from pytest_iterctl.redaction import redact
from pytest_iterctl.text import one_line

__all__ = ["WRONG", "Result", "appearance", "appearance_of", "failures_of", "is_todo", "result_of", "suite_failures"]

_DETAIL_BYTES = 8192
_OUTPUT_BYTES = 2000
_MESSAGE_BYTES = 2000
_MANY_WORDS = 20
_SHORT_MESSAGE = 20
_LAST_LINE = 300
_FIRST_LINES = 40
_SKIPPED_WORDS = frozenset({"disabled", "notrun", "suppressed", "skipped", "ignored", "pending"})
_FAILED_WORDS = frozenset({"failed", "failure", "fail", "error", "broken"})
_NO_FAILURE = frozenset({"", "0", "false", "no", "none"})
_TELLS_NOTHING = frozenset(
    {"failure", "failures", "error", "errors", "fail", "failed", "collection failure", "testcodefailure"}
)
_AFAR, _NEARLY = 160, 200
_DIGITS = b"0123456789"
_OF_SUBTESTS = re.compile(r"contains \d+ failed subtests?")
_NODE_CAUSE = re.compile(
    r"\A\[?Error \[ERR_TEST_FAILURE\]: .*?\n  cause: (?P<kind>[\w$.]+(?: \[\w+\])?): (?P<told>[^\n]*)", re.DOTALL
)
_DOCTEST = re.compile(r"^Expected:\n(?: {4}.*\n)+Got:\n(?: {4}.*(?:\n|\Z))+", re.MULTILINE)
_PHASED = re.compile(r'^failed on (setup|teardown) with "(.*?)"?\s*$', re.DOTALL)


class Result(IntEnum):
    """Ordered: the larger one is the worse one."""

    PASSED = 0
    SKIPPED = 1
    FAILED = 2
    ERROR = 3

    @property
    def is_wrong(self) -> bool:
        return self >= Result.FAILED


WRONG = {"failure": Result.FAILED, "error": Result.ERROR}
_RESULT_BY_TAG = {**WRONG, "skipped": Result.SKIPPED}


class _ParsedResult(Protocol):
    """What is used of junitparser's results."""

    _tag: str
    message: str | None
    type: str | None
    text: str | None


class _ParsedCase(Protocol):
    """What is used of junitparser's test cases."""

    result: list[_ParsedResult]
    system_out: str | None
    system_err: str | None


def _parsed(element: Element) -> _ParsedCase:
    from junitparser import TestCase  # noqa: PLC0415 - see the module's docstring

    from_element = cast("Callable[[Element], _ParsedCase]", TestCase.fromelem)
    return from_element(element)


def result_of(case: ReportedCase) -> tuple[Result, int]:
    """The case's own result and how many attempts of it were followed by another one."""
    element = case.element
    reruns = sum(child.tag in INTERIM for child in element)
    if is_todo(case):
        return Result.SKIPPED, reruns
    final = [_RESULT_BY_TAG[child.tag] for child in element if child.tag in _RESULT_BY_TAG]
    worst = max(final, default=Result.PASSED)
    if worst.is_wrong:
        return worst, reruns
    if not case.finished:
        return Result.ERROR, reruns
    if final:
        return worst, reruns
    words = {element.get("status", "").strip().lower(), element.get("result", "").strip().lower()}
    says_failed = words & _FAILED_WORDS or element.get("failure", "").strip().lower() not in _NO_FAILURE
    if says_failed and not reruns:
        return Result.FAILED, reruns
    return (Result.SKIPPED if words & _SKIPPED_WORDS else Result.PASSED), reruns


def is_todo(case: ReportedCase) -> bool:
    """Whether nobody expects the test to pass yet: node reports its failure, and does not count it."""
    return any(child.tag == "skipped" and child.get("type") == "todo" for child in case.element)


def appearance_of(case: ReportedCase) -> bytes:
    """What the failure looks like from afar, without its numbers: what looks alike most likely has the same cause."""
    wrong = [child for child in case.element if child.tag in WRONG]
    return b"\n".join(appearance(child.tag, child.attrib, child.text or "") for child in wrong[:3])


def appearance(tag: str, attributes: dict[str, str], text: str) -> bytes:
    """The same of a single result."""
    # Cut once more without the numbers, because longer ones push other text over the edge.
    message = attributes.get("message", "")[:_NEARLY].encode("utf-8", "replace").translate(None, _DIGITS)[:_AFAR]
    head = text[:_NEARLY].encode("utf-8", "replace").translate(None, _DIGITS)[:_AFAR]
    tail = text[-_NEARLY:].encode("utf-8", "replace").translate(None, _DIGITS)[-_AFAR:]
    kind = f"{tag} {attributes.get('type')}".encode("utf-8", "replace")
    return b"\n".join((kind, message, head, tail))


def failures_of(case: ReportedCase, root: str = "") -> tuple[Failure, ...]:
    """Everything that went wrong in one case; a test can fail and then fail again while it is torn down."""
    test = id_of(case, root)
    parsed = _parsed(case.element)
    output = _tail("\n".join(cleaned(text) for text in (parsed.system_out, parsed.system_err) if text))
    wrong = [entry for entry in parsed.result if entry._tag != "skipped"]  # noqa: SLF001 - the only name it has for this
    elements = [child for child in case.element if child.tag in WRONG]
    failures = [
        _failure(case, test, output, entry, element, root) for entry, element in zip(wrong, elements, strict=True)
    ]
    if len(failures) > 1:
        # pytest's own summary of the subtests behind them.
        failures = [each for each in failures if not _OF_SUBTESTS.fullmatch(each.message)] or failures
    return tuple(failures) or (_without_result(case, test, output, root),)


def suite_failures(suite: ReportedSuite, root: str = "") -> tuple[Failure, ...]:
    """Errors that a suite reports outside of its cases: its set-up failed, or its file could not be loaded."""
    name = one_line(BETWEEN.join(suite.suites), LONGEST_ID) or "(a suite without a name)"
    place = ReportedCase(Element("testcase"), suite.suites, suite.attributes.get("file", ""), finished=True)
    holder = Element("testcase")
    holder.extend(suite.errors)
    return tuple(
        _failure(place, name, "", entry, element, root, phase="session")
        for entry, element in zip(_parsed(holder).result if suite.errors else (), suite.errors, strict=True)
    )


def _failure(
    case: ReportedCase,
    test: str,
    output: str,
    entry: _ParsedResult,
    element: Element,
    root: str,
    phase: Phase | None = None,
) -> Failure:
    text = _without_blank_end(cleaned(entry.text or ""))
    told = cleaned(entry.message or "").strip()
    found_phase, message = _phase_of(case, told)
    if message.lower() in _TELLS_NOTHING or _repeats(message, text):
        message = ""
    message = _with_lines(message, text) or message_in(text)
    # Runners that know nothing but an exit code (ctest) leave it to the output to tell.
    speaking = text or message or output
    message = message or _last_line(output) or told
    if doctest := _DOCTEST.search(message):
        message = doctest[0].rstrip()
    expectation = expectation_in(f"{message}\n{speaking}")
    frames = frames_in(speaking, root)
    return Failure(
        test=test,
        phase=phase or found_phase,
        where=_where(case, element, frames, root),
        kind=_kind(entry.type or "", speaking, message),
        message=bounded(message, _MESSAGE_BYTES),
        expected=expectation[0] if expectation else None,
        received=expectation[1] if expectation else None,
        detail=bounded(_shortened(text, message, root) if frames else text or told, _DETAIL_BYTES),
        output=output,
        frames=frames,
        cause=cause_in(speaking),
    )


def _shortened(text: str, message: str, root: str) -> str:
    """What the text tells beside the message: nothing of foreign frames, nor of what node wraps around the cause."""
    text = own_lines(text, root)
    found = _NODE_CAUSE.search(text)
    if found is None:
        return text
    lines = [line.removeprefix("  ") for line in text[found.end() :].removesuffix("\n}").split("\n")]
    left, number = _squeezed(message), 1
    first = _squeezed(found["told"])
    if left.startswith(first):
        left = left.removeprefix(first)
        while number < len(lines) and left and left.startswith(part := _squeezed(lines[number])):
            left, number = left.removeprefix(part), number + 1
        if not left:
            return "\n".join([found["kind"], *lines[number:]])
    return f"{found['kind']}: {found['told']}" + "\n".join(lines)


def _without_blank_end(text: str) -> str:
    """Without the lines that only the layout of the file put behind it."""
    stripped = text.rstrip()
    return stripped if "\n" in text[len(stripped) :] else text


def _last_line(output: str) -> str:
    return one_line(output.rstrip().rpartition("\n")[2], _LAST_LINE)


def _repeats(message: str, text: str) -> bool:
    """Some tools put the whole traceback into the message too, where its line ends are lost."""
    words = message.split()
    return len(words) > _MANY_WORDS and words == text.split()[: len(words)]


def _with_lines(message: str, text: str) -> str:
    """The message as the text shows it, if its line ends were lost on the way into an attribute."""
    if "\n" in message or len(message) < _SHORT_MESSAGE:
        return message
    squeezed = _squeezed(message)
    lines = text[:_DETAIL_BYTES].split("\n")[:_FIRST_LINES]
    for at, line in enumerate(lines):
        for first in (line, line.partition(": ")[2]):
            shown, found = [first], _squeezed(first)
            if not found or not squeezed.startswith(found):
                continue
            for following in lines[at + 1 :]:
                if len(found) >= len(squeezed):
                    break
                shown.append(following)
                found += _squeezed(following)
            if found == squeezed:
                return "\n".join(shown)
    return message


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _without_result(case: ReportedCase, test: str, output: str, root: str) -> Failure:
    if case.finished:
        message = cleaned(case.element.get("failure", "")).strip() or "reported as failed, without any detail"
    else:
        message = "unfinished: the report ends in this test, so the run died there or the file was cut off"
    where = _where(case, case.element, (), root)
    return Failure(test=test, where=where, message=bounded(message, _MESSAGE_BYTES), output=output)


def _phase_of(case: ReportedCase, message: str) -> tuple[Phase, str]:
    """The phase, which pytest tells only in the wording of the message."""
    if found := _PHASED.match(message):
        return ("setup" if found[1] == "setup" else "teardown"), found[2]
    if message == "collection failure" and not case.element.get("classname"):
        return "collect", message
    if (case.element.get("classname"), case.element.get("name")) == ("pytest", "internal"):
        return "session", message
    return "call", message


def _kind(declared: str, text: str, message: str) -> str:
    declared = cleaned(declared).strip()
    if declared.lower() in _TELLS_NOTHING:
        declared = ""
    return one_line(declared or exception_in(text) or exception_in(message), 200)


def _where(case: ReportedCase, element: Element, frames: tuple[Frame, ...], root: str) -> str:
    """The failing line if anything tells it, else the test's own."""
    own_line = _line_of(element)
    if element is not case.element and own_line and (file := element.get("file")):
        return one_line(f"{below(root, file)}:{own_line}", LONGEST_ID)
    if frames:
        return f"{frames[-1].path}:{frames[-1].line}"
    file, line = below(root, file_of(case) or case.suite_file), _line_of(case.element)
    if line and case.suites[-1:] == ("pytest",):
        # pytest counts lines from 0 here, and only here.
        line += 1
    return one_line(f"{file}:{line}" if file and line is not None else file, LONGEST_ID)


def _line_of(element: Element) -> int | None:
    text = (element.get("line") or element.get("lineno") or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else None  # noqa: PLR2004 - no real line


def _tail(text: str) -> str:
    data = text.strip().encode("utf-8", "replace")
    if len(data) <= _OUTPUT_BYTES:
        return data.decode("utf-8")
    # Redacted before the cut: nobody recognises half a secret.
    nearly = redact(data[-4 * _OUTPUT_BYTES :].decode("utf-8", "ignore")).encode()
    return "…" + nearly[-(_OUTPUT_BYTES - 3) :].decode("utf-8", "ignore")
