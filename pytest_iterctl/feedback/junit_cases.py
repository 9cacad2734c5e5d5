"""One reported test case as evidence: its identity, its result, and what went wrong in it.

`junitparser` reads the results of each case. It is imported on the first case that has any, because importing it costs
more than reading a small green report.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import IntEnum
from pathlib import PurePosixPath
from typing import Protocol, cast
from xml.etree.ElementTree import Element

from pytest_iterctl.control.evidence import Failure, Phase
from pytest_iterctl.feedback.failure_text import bounded, cleaned, exception_in, expectation_in, message_in, place_in
from pytest_iterctl.feedback.xml_cases import INTERIM, ReportedCase, ReportedSuite
from pytest_iterctl.redaction import redact
from pytest_iterctl.text import one_line

__all__ = ["BETWEEN", "Result", "failures_of", "identity_of", "result_of", "suite_failures", "test_id"]

#: Between suite, class and name in the id of a foreign test.
BETWEEN = " \u203a "

_DETAIL_BYTES = 8192
_OUTPUT_BYTES = 2000
_MESSAGE_BYTES = 2000
_MANY_WORDS = 20
_ID = 500
_SKIPPED_WORDS = frozenset({"disabled", "notrun", "suppressed", "skipped", "ignored", "pending"})
_FAILED_WORDS = frozenset({"failed", "failure", "fail", "error", "broken"})
_TELLS_NOTHING = frozenset({"failure", "failures", "error", "errors", "fail", "failed", "collection failure"})
_PHASED = re.compile(r'^failed on (setup|teardown) with "(.*?)"?\s*$', re.DOTALL)
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_FUNCTION = re.compile(r"[A-Za-z_]\w*(?:\[.*\])?", re.DOTALL)


class Result(IntEnum):
    """Ordered: the larger one is the worse one."""

    PASSED = 0
    SKIPPED = 1
    FAILED = 2
    ERROR = 3

    @property
    def is_wrong(self) -> bool:
        return self >= Result.FAILED


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


def identity_of(case: ReportedCase) -> tuple[tuple[str, ...], str, str, str]:
    """Suites, class, name, file: what makes two cases the same test."""
    read = case.element.get
    return case.suites, read("classname") or read("class") or "", read("name") or "", _file_of(case)


def result_of(case: ReportedCase) -> tuple[Result, int]:
    """The case's own result and how many attempts of it were followed by another one."""
    element = case.element
    reruns = sum(child.tag in INTERIM for child in element)
    final = [_result_by_tag(child.tag) for child in element if child.tag in {"failure", "error", "skipped"}]
    if final:
        return max(final), reruns
    if not case.finished:
        return Result.ERROR, reruns
    words = {element.get("status", "").strip().lower(), element.get("result", "").strip().lower()}
    if words & _FAILED_WORDS and not reruns:
        return Result.FAILED, reruns
    return (Result.SKIPPED if words & _SKIPPED_WORDS else Result.PASSED), reruns


def failures_of(case: ReportedCase) -> tuple[Failure, ...]:
    """Everything that went wrong in one case; a test can fail and then fail again while it is torn down."""
    test = test_id(case)
    parsed = _parsed(case.element)
    output = _tail("\n".join(cleaned(text) for text in (parsed.system_out, parsed.system_err) if text))
    wrong = [entry for entry in parsed.result if entry._tag != "skipped"]  # noqa: SLF001 - the only name it has for this
    elements = [child for child in case.element if child.tag in {"failure", "error"}]
    failures = [_failure(case, test, output, entry, element) for entry, element in zip(wrong, elements, strict=True)]
    return tuple(failures) or (_without_result(case, test, output),)


def suite_failures(suite: ReportedSuite) -> tuple[Failure, ...]:
    """Errors that a suite reports outside of its cases: its set-up failed, or its file could not be loaded."""
    name = one_line(BETWEEN.join(suite.suites), _ID) or "(a suite without a name)"
    place = ReportedCase(Element("testcase"), suite.suites, suite.attributes.get("file", ""), finished=True)
    holder = Element("testcase")
    holder.extend(suite.errors)
    return tuple(
        _failure(place, name, "", entry, element, phase="session")
        for entry, element in zip(_parsed(holder).result if suite.errors else (), suite.errors, strict=True)
    )


def _result_by_tag(tag: str) -> Result:
    return {"failure": Result.FAILED, "error": Result.ERROR}.get(tag, Result.SKIPPED)


def _failure(
    case: ReportedCase,
    test: str,
    output: str,
    entry: _ParsedResult,
    element: Element,
    phase: Phase | None = None,
) -> Failure:
    text = cleaned(entry.text or "")
    told = cleaned(entry.message or "").strip()
    found_phase, message = _phase_of(case, told)
    if message.lower() in _TELLS_NOTHING or _repeats(message, text):
        message = ""
    message = message or message_in(text) or told
    whole = f"{message}\n{text}"
    expectation = expectation_in(whole)
    return Failure(
        test=test,
        phase=phase or found_phase,
        where=_where(case, element, text or message),
        kind=_kind(entry.type or "", text, message),
        message=bounded(message, _MESSAGE_BYTES),
        expected=expectation[0] if expectation else None,
        received=expectation[1] if expectation else None,
        detail=bounded(text or told, _DETAIL_BYTES),
        output=output,
    )


def _repeats(message: str, text: str) -> bool:
    """Some tools put the whole traceback into the message too, where its line ends are lost."""
    words = message.split()
    return len(words) > _MANY_WORDS and words == text.split()[: len(words)]


def _without_result(case: ReportedCase, test: str, output: str) -> Failure:
    if case.finished:
        message = "reported as failed, without any detail"
    else:
        message = "unfinished: the report ends in this test, so the run died there or the file was cut off"
    where = _where(case, case.element, "")
    return Failure(test=test, where=where, kind="", message=message, detail="", output=output)


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


def _where(case: ReportedCase, element: Element, text: str) -> str:
    """The failing line if anything tells it, else the test's own."""
    own_line = _line_of(element)
    if element is not case.element and own_line and (file := element.get("file")):
        return one_line(f"{file}:{own_line}", _ID)
    if place := place_in(text):
        return one_line(place, _ID)
    file, line = _file_of(case) or case.suite_file, _line_of(case.element)
    if line and case.suites[-1:] == ("pytest",):
        # pytest counts lines from 0 here, and only here.
        line += 1
    return one_line(f"{file}:{line}" if file and line is not None else file, _ID)


def _file_of(case: ReportedCase) -> str:
    return case.element.get("file") or case.element.get("filepath") or ""


def _line_of(element: Element) -> int | None:
    text = (element.get("line") or element.get("lineno") or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else None  # noqa: PLR2004 - no real line


def test_id(case: ReportedCase) -> str:
    """What people call the test: pytest's node id as far as it is known, else suite, class and name."""
    _, classname, name, file = identity_of(case)
    classname, name, file = classname.strip(), name.strip(), file.strip()
    if classname and _DOTTED.fullmatch(classname) and _FUNCTION.fullmatch(name) and _is_pytest(case, classname):
        return one_line(_node_id(classname, name, file), _ID)
    suite = next((suite for suite in reversed(case.suites) if suite), "")
    parts = _without_repetition([file or suite, classname, name])
    return one_line(BETWEEN.join(parts), _ID) or "(a case without a name)"


def _is_pytest(case: ReportedCase, classname: str) -> bool:
    return case.suites[-1:] == ("pytest",) or any(
        part.startswith("test_") or part.endswith("_test") for part in classname.split(".")
    )


def _node_id(classname: str, name: str, file: str) -> str:
    """With the file (xunit1) the node id is known, without it (xunit2) a dotted name has to do."""
    module = ".".join(PurePosixPath(file).with_suffix("").parts) if file else ""
    if module and (classname == module or classname.startswith(f"{module}.")):
        classes = classname.removeprefix(module).strip(".").split(".")
        return "::".join(part for part in (file, *classes, name) if part)
    return f"{classname}::{name}"


def _without_repetition(parts: Iterable[str]) -> list[str]:
    """Tools repeat the suite in the class and the class in the name; once is enough."""
    kept: list[str] = []
    for part in reversed([part for part in parts if part]):
        if not any(part in later for later in kept):
            kept.insert(0, part)
    return kept


def _tail(text: str) -> str:
    data = text.strip().encode("utf-8", "replace")
    if len(data) <= _OUTPUT_BYTES:
        return data.decode("utf-8")
    # Redacted before the cut: nobody recognises half a secret.
    nearly = redact(data[-4 * _OUTPUT_BYTES :].decode("utf-8", "ignore")).encode()
    return "…" + nearly[-(_OUTPUT_BYTES - 3) :].decode("utf-8", "ignore")
