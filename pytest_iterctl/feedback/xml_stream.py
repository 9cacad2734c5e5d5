"""Reads a report's test cases as a stream, strictly and guarded: what is hostile is refused, not parsed.

pyexpat is used directly because no layer above it can be told to stop early enough: entity declarations, nesting and
single tokens of many megabytes (quadratic in expat before 2.6) are refused while they are being fed.
"""

from __future__ import annotations

import pyexpat
from collections.abc import Callable, Iterator

from pytest_iterctl.feedback.xml_cases import CaseBuilder, FailedCase, KeptText, ReportEvent
from pytest_iterctl.feedback.xml_source import ReportSource

__all__ = ["NotWellFormedError", "read_strictly"]

_MEGABYTE = 1024 * 1024
_BUFFER = 64 * 1024
_SIMPLE = frozenset({"failure", "error"})
_SIMPLE_ATTRIBUTES = frozenset({"message", "type"})
_ENDS_EARLY = frozenset(
    {
        pyexpat.errors.XML_ERROR_NO_ELEMENTS,
        pyexpat.errors.XML_ERROR_UNCLOSED_TOKEN,
        pyexpat.errors.XML_ERROR_PARTIAL_CHAR,
        pyexpat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION,
    }
)


class NotWellFormedError(Exception):
    """The report breaks XML's rules; it is harmless so far and may be mended."""

    def __init__(self, line: int, reason: str, root: str = "") -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason
        self.root = root
        self.ends_early = reason in _ENDS_EARLY


def read_strictly(source: ReportSource) -> Iterator[ReportEvent]:
    """Every case and suite of a well-formed report; `NotWellFormedError` as soon as it turns out not to be one."""
    parser = pyexpat.ParserCreate("utf-8")

    def listen(listener: Callable[[str], None] | None) -> None:
        # Most of the text is blanks between elements, and nobody has to be called for them.
        parser.CharacterDataHandler = listener

    builder = CaseBuilder(source, lambda: parser.CurrentLineNumber, listen)
    _refuse_declarations(parser, source)
    deliver = _connect(parser, builder, source.limits.text)
    fed = 0
    for chunk in source.utf8():
        _feed(parser, chunk, builder)
        fed += len(chunk)
        if fed - max(parser.CurrentByteIndex, 0) > source.limits.token:
            megabytes = source.limits.token // _MEGABYTE
            raise source.refusal(
                parser.CurrentLineNumber, f"a single tag, attribute or comment of more than {megabytes} MB"
            )
        deliver()
        yield from builder.take()
    _feed(parser, b"", builder, final=True)
    deliver()
    yield from builder.take()
    if not builder.found:
        raise source.refusal(
            parser.CurrentLineNumber,
            f"holds no test case: the root element is <{builder.root[:80]}>",
            "give a JUnit XML report (testsuites, testsuite, testcase)",
        )


def _feed(parser: pyexpat.XMLParserType, data: bytes, builder: CaseBuilder, *, final: bool = False) -> None:
    try:
        parser.Parse(data, final)
    except pyexpat.ExpatError as error:
        reason = pyexpat.ErrorString(error.code) or "not well-formed"
        raise NotWellFormedError(error.lineno, reason, builder.root) from None


def _connect(  # noqa: PLR0915 - called for every element: closures are quicker than attributes of an object
    parser: pyexpat.XMLParserType, builder: CaseBuilder, longest: int
) -> Callable[[], None]:
    """Nearly all cases of nearly all reports hold nothing, or one failure: they take a short cut past the builder.

    What is returned hands over the cases that wait; the handlers do so too before anything else happens.
    """
    passed: list[dict[str, str]] = []
    failed: list[FailedCase] = []
    case: dict[str, str] | None = None
    result: tuple[str, dict[str, str], KeptText] | None = None
    is_open = in_case = False

    def deliver() -> None:
        if passed:
            builder.bare(passed.copy())
            passed.clear()
        if failed:
            builder.failed(failed.copy())
            failed.clear()

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal case, result, is_open, in_case
        if case is None and tag == "testcase" and not in_case:
            case = attributes
            return
        if (
            case is not None
            and result is None
            and tag in _SIMPLE
            and len(attributes) <= len(_SIMPLE_ATTRIBUTES)
            and _SIMPLE_ATTRIBUTES.issuperset(attributes)
            and len(attributes.get("message", "")) <= longest
        ):
            result, is_open = (tag, attributes, KeptText(longest)), True
            parser.CharacterDataHandler = result[2].add
            return
        deliver()
        resume()
        builder.start(tag, attributes)
        in_case = builder.in_case

    def resume() -> None:
        """The case is none for the short cut after all: the builder gets what it has missed."""
        nonlocal case, result, is_open
        if case is not None:
            builder.start("testcase", case)
        if result is not None:
            builder.start(result[0], result[1])
            builder.text(result[2].text)
            if not is_open:
                builder.end()
        case, result, is_open = None, None, False

    def end(tag: str) -> None:
        nonlocal case, result, is_open, in_case
        if is_open:
            is_open = False
            parser.CharacterDataHandler = None
        elif case is None:
            deliver()
            builder.end(tag)
            in_case = builder.in_case
        elif result is None:
            if failed:
                deliver()
            passed.append(case)
            case = None
        else:
            if passed:
                deliver()
            failed.append(FailedCase(case, result[0], result[1], result[2].text))
            case = result = None

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    return deliver


def _refuse_declarations(parser: pyexpat.XMLParserType, source: ReportSource) -> None:
    def refuse_subset(_name: str, _system: str | None, _public: str | None, has_internal_subset: int) -> None:
        if has_internal_subset:
            raise source.refusal(parser.CurrentLineNumber, "a document type with declarations of its own is refused")

    def refuse_entity(*_declaration: object) -> None:
        raise source.refusal(parser.CurrentLineNumber, "entity declarations are refused")

    parser.buffer_text = True
    parser.buffer_size = _BUFFER
    parser.StartDoctypeDeclHandler = refuse_subset
    parser.EntityDeclHandler = refuse_entity
