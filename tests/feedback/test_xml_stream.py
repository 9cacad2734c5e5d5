"""The guarded stream: which cases and suites come out of which XML, strictly read and mended."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_iterctl.errors import ReportError
from pytest_iterctl.feedback.xml_cases import BareCases, FailedCases, KeptText, ReportedCase, ReportedSuite, ReportEvent
from pytest_iterctl.feedback.xml_repair import read_mending
from pytest_iterctl.feedback.xml_source import CHUNK, Repairs, ReportLimits, ReportSource
from pytest_iterctl.feedback.xml_stream import NotWellFormedError, read_strictly


def cases_in(events: Iterable[ReportEvent]) -> list[ReportedCase]:
    cases: list[ReportedCase] = []
    for event in events:
        if isinstance(event, BareCases):
            cases += [event.as_case(attributes) for attributes in event.attributes]
        elif isinstance(event, FailedCases):
            cases += [event.as_case(failed) for failed in event.cases]
        elif isinstance(event, ReportedCase):
            cases.append(event)
    return cases


def events_of(
    data: bytes, limits: ReportLimits | None = None
) -> tuple[list[ReportedCase], list[ReportedSuite], Repairs]:
    repairs = Repairs()
    with ReportSource(io.BytesIO(data), "report.xml", limits or ReportLimits(), repairs) as source:
        try:
            events = list(read_strictly(source))
        except NotWellFormedError as error:
            events = list(read_mending(source, error))
    return cases_in(events), [event for event in events if isinstance(event, ReportedSuite)], repairs


def names(data: bytes) -> list[str | None]:
    return [case.element.get("name") for case in events_of(data)[0]]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'<testsuites><testcase name="a"/></testsuites>', [((), "a")]),
        (b'<testcase name="a"/>', [((), "a")]),
        (b'<testsuite name="s"><testcase name="a"/></testsuite>', [(("s",), "a")]),
        (
            b'<testsuite name="s"><testsuite name="t"><testcase name="a"/></testsuite><testcase name="b"/></testsuite>',
            [(("s", "t"), "a"), (("s",), "b")],
        ),
        (b'<run><group><testcase name="a"/></group></run>', [((), "a")]),
        (b'<x:testsuite xmlns:x="urn:x" name="s"><x:testcase name="a"/></x:testsuite>', [(("s",), "a")]),
        (b'<testsuite xmlns="urn:x" name="s"><testcase name="a"/></testsuite>', [(("s",), "a")]),
        (b'<u:testsuite name="s"><u:testcase name="a"/></u:testsuite>', [(("s",), "a")]),
    ],
)
def test_cases_are_found_wherever_they_are(data: bytes, expected: list[tuple[tuple[str, ...], str]]) -> None:
    cases, _, repairs = events_of(data)
    assert [(case.suites, case.element.get("name")) for case in cases] == expected
    assert repairs.complete
    assert not repairs.notes


def test_a_nested_case_keeps_its_result_to_itself() -> None:
    cases, _, _ = events_of(b'<testcase name="outer"><testcase name="inner"><failure/></testcase></testcase>')
    assert {case.element.get("name"): [child.tag for child in case.element] for case in cases} == {
        "inner": ["failure"],
        "outer": [],
    }


def test_a_result_below_an_unknown_element_still_belongs_to_its_case() -> None:
    cases, _, _ = events_of(b'<testcase name="a"><results><failure>why</failure></results></testcase>')
    assert [(child.tag, child.text) for child in cases[0].element] == [("failure", "why")]


def test_text_around_comments_and_inner_elements_is_kept_whole() -> None:
    cases, _, _ = events_of(b"<testcase><failure>one<!-- c --> two <b>three</b><![CDATA[ <4>]]></failure></testcase>")
    assert cases[0].element[0].text == "one two three <4>"


def test_suites_tell_what_they_declare_and_what_went_wrong_outside_of_cases() -> None:
    _, suites, _ = events_of(
        b'<testsuite name="s" tests="9"><error message="boom">x</error>'
        b'<testsuite><testcase name="a"/></testsuite></testsuite>'
    )
    outer = suites[-1]
    assert (outer.suites, outer.attributes["tests"], outer.direct_cases, outer.all_cases) == (("s",), "9", 0, 1)
    assert [(error.tag, error.get("message"), error.text) for error in outer.errors] == [("error", "boom", "x")]


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ('<testcase name="ü"/>'.encode("utf-8-sig"), "ü"),
        ('<testcase name="ü"/>'.encode("utf-16"), "ü"),
        (b"\xfe\xff" + '<testcase name="ü"/>'.encode("utf-16-be"), "ü"),
        ('<testcase name="ü"/>'.encode("utf-16-le"), "ü"),
        ('<testcase name="ü"/>'.encode("utf-16-be"), "ü"),
        ('<testcase name="ü"/>'.encode("utf-32"), "ü"),
        ('<?xml version="1.0" encoding="utf-8"?><testcase name="ü"/>'.encode("utf-16"), "ü"),
        ('<?xml version="1.0" encoding="latin-1"?><testcase name="ü"/>'.encode("latin-1"), "ü"),
        ('<?xml version="1.0" encoding="windows-1252"?><testcase name="€"/>'.encode("cp1252"), "€"),
        ('<?xml version="1.0" encoding="Shift_JIS"?><testcase name="日本"/>'.encode("shift_jis"), "日本"),
        ('<?xml version="1.0" encoding="GB18030"?><testcase name="中"/>'.encode("gb18030"), "中"),
    ],
)
def test_encodings_are_read_by_mark_by_shape_or_as_declared(data: bytes, name: str) -> None:
    cases, _, repairs = events_of(data)
    assert [case.element.get("name") for case in cases] == [name]
    assert repairs.complete
    assert not repairs.notes


@pytest.mark.parametrize("declared", ["utf-16", "utf-32", "no-such-thing", "zlib", "hex", "rot13", "idna", "undefined"])
def test_a_wrong_or_foolish_declared_encoding_is_read_as_utf8_and_said(declared: str) -> None:
    data = f'<?xml version="1.0" encoding="{declared}"?><testcase name="ü"/>'.encode()
    cases, _, repairs = events_of(data)
    assert [case.element.get("name") for case in cases] == ["ü"]
    assert any(declared in note for note in repairs.notes)


def test_bytes_that_are_no_utf8_are_replaced_and_said() -> None:
    cases, _, repairs = events_of(b'<testsuite><testcase name="a\xffb"/></testsuite>')
    assert cases[0].element.get("name") == "a\ufffdb"
    assert repairs.complete
    assert "bytes that are not utf-8 were replaced" in repairs.notes


@pytest.mark.parametrize(
    ("data", "name", "note"),
    [
        (b'<testsuite><testcase name="a\x00\x1b[1m"/></testsuite>', "a\u2400\u241b[1m", "control characters"),
        (b'<testsuite><testcase name="a&#x8;&#0;"/></testsuite>', "a\u2408\u2400", "forbidden characters"),
        (b'<testsuite><testcase name="a&#xD800;&#xFFFF;"/></testsuite>', "a\ufffd\ufffd", "forbidden characters"),
        (b'<testsuite><testcase name="a & b &nbsp; &lt;"/></testsuite>', "a & b &nbsp; <", "bare &"),
        (b'<testsuite><testcase name="a < b"/></testsuite>', "a < b", "bare <"),
        (b'<testsuite><testcase name="say "a" now"/></testsuite>', 'say "a" now', "unescaped quote"),
        (b"<testsuite><testcase name='it's'/></testsuite>", "it's", "unescaped quote"),
        (b'<testsuite><testcase name="a" name="b"/></testsuite>', "a", "equal attributes"),
        (b'<testsuite><testcase name="a" disabled/></testsuite>', "a", "malformed attribute"),
        (b'\x00\x07 hello\n<testsuite><testcase name="a"/></testsuite>', "a", "outside of the report"),
        (
            b'> npm test\n<?xml version="1.0"?>\n<testsuite><testcase name="a"/></testsuite>',
            "a",
            "outside of the report",
        ),
        (b'<testsuite><testcase name="a"/></testsuite>\nall done <3', "a", "outside of the report"),
        (b'<testsuite><testcase name="a"><system-out>x ]]> y</system-out></testcase></testsuite>', "a", "]]>"),
        (
            b'<testsuite><testcase name="a"><failure>List<String></failure></testcase></testsuite>',
            "a",
            "no JUnit element",
        ),
    ],
)
def test_what_tools_write_wrong_is_mended_and_said(data: bytes, name: str, note: str) -> None:
    cases, _, repairs = events_of(data)
    assert [case.element.get("name") for case in cases] == [name]
    assert repairs.complete
    assert any(note in told for told in repairs.notes), repairs.notes
    assert any("not well-formed" in told for told in repairs.notes)


def test_text_is_mended_the_same_way() -> None:
    cases, _, _ = events_of(
        b"<testcase><failure>1 < 2 && \x1b[31mred &amp; &#65;<![CDATA[&amp;\x07]]>]]></failure></testcase>"
    )
    assert cases[0].element[0].text == "1 < 2 && \u241b[31mred & A&amp;\u2407]]>"


def test_a_second_report_in_the_same_file_is_read_too() -> None:
    one = b'<?xml version="1.0"?><testsuites><testsuite name="s"><testcase name="a"/></testsuite></testsuites>'
    cases, _, repairs = events_of(one + one.replace(b'"a"', b'"b"'))
    assert [case.element.get("name") for case in cases] == ["a", "b"]
    assert repairs.complete
    assert "line 1: more than one report in one file" in repairs.notes


def test_the_case_that_is_open_when_the_report_ends_is_unfinished() -> None:
    cases, suites, repairs = events_of(
        b'<testsuite name="s"><testcase name="a"/><testcase name="b"><failure>x</failure><system-out>half a li'
    )
    assert [(case.element.get("name"), case.finished) for case in cases] == [("a", True), ("b", False)]
    assert [child.text for child in cases[1].element] == ["x", "half a li"]
    assert suites[-1].all_cases == 2
    assert not repairs.complete


@pytest.mark.parametrize(
    "data",
    [
        b'<testsuite><testcase name="a"></testsuite>',
        b'<testsuite><testcase name="a"/></testcase></testsuite>',
        b'...ure></testcase><testcase name="a"/></testsuite>',
        b'<?xml version="1.0"?><run>\x01<testcase name="a"/>',
        b'<run>\x01<testcase name="a"/>',
        b'noise <?xml version="1.0"?> <!-- c --> <run><testcase name="a"/>',
        b'<testsuite><testcase name="a"/><!-- ',
        b'<testsuite><testcase name="a"/></testsuite',
        b'<!-- oops <testsuite>\x01<testcase><failure/></testcase>--><testsuite><testcase name="b"/></testsuite>',
        # The quote is missing, so the failure is inside the attribute.
        b'<testsuite><testcase name="a><failure message="b" type="c"/></testcase><testcase name="d"/></testsuite>',
        b'<testsuite><testcase name=a <failure message="b"/></testcase></testsuite>',
    ],
)
def test_whatever_may_have_hidden_a_failure_makes_the_report_incomplete(data: bytes) -> None:
    _, _, repairs = events_of(data)
    assert not repairs.complete


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60), st.sampled_from(["name", "text"]))
@settings(deadline=None)
def test_a_repaired_report_reads_as_the_well_formed_one_does(value: str, place: str) -> None:
    escaped = "".join(f"&#{ord(c)};" if c in "&<>\"'\r\n\t" else c for c in value)
    body = f'<testcase name="{escaped if place == "name" else ""}"><failure>{escaped}</failure></testcase>'
    allowed = all(ord(c) >= 0x20 or c in "\t\n\r" for c in value) and not {"\ufffe", "\uffff"} & set(value)
    strict = events_of(f"<testsuite>{body}</testsuite>".encode())
    mended = events_of(f"noise <testsuite>{body}</testsuite>".encode())
    assert strict[2].complete
    assert mended[2].complete
    assert bool(strict[2].notes) != allowed
    for one, other in zip(strict[0], mended[0], strict=True):
        assert one.element.attrib == other.element.attrib
        assert one.element[0].text == other.element[0].text


@given(st.integers(0, 400), st.integers(1, 40))
@settings(deadline=None)
def test_where_a_chunk_ends_makes_no_difference(padding: int, width: int) -> None:
    case = b'<testcase name="a &amp; \x01 b"><failure>x ]]> &lt; <![CDATA[<y>]]> <q> & </failure></testcase><!-- c -->'
    filler = b" " * (CHUNK - padding - 20)
    data = b"<testsuite>" + filler + case * width + b"</testsuite>"
    cases, _, repairs = events_of(data)
    assert repairs.complete
    assert len(cases) == width
    assert {case.element.get("name") for case in cases} == {"a & \u2401 b"}
    assert {case.element[0].text for case in cases} == {"x ]]> < <y> <q> & "}


def test_a_pipe_is_read_like_a_file() -> None:
    reading, writing = os.pipe()
    os.write(writing, b'<testsuite><testcase name="a"/>\x01</testsuite>' * 100)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe, ReportSource(pipe, "<stdin>", ReportLimits(), Repairs()) as source:
        with pytest.raises(NotWellFormedError) as error:
            list(read_strictly(source))
        assert len(cases_in(read_mending(source, error.value))) == 100


@pytest.mark.parametrize(
    ("limits", "data", "reason"),
    [
        (ReportLimits(size=50), b"<testsuite>" + b" " * 50, "more than 0 MB"),
        (ReportLimits(cases=3), b"<testsuite>" + b"<testcase/>" * 5 + b"</testsuite>", "more than 3 test cases"),
        (ReportLimits(elements=9), b"<testsuite>" + b"<p/>" * 9 + b"</testsuite>", "more than 9 elements"),
        (ReportLimits(depth=5), b"<testsuite>" * 6, "nested more than 5 deep"),
        (ReportLimits(repair_size=9), b"<testsuite>\x01</testsuite>", "too large to be repaired"),
    ],
)
def test_a_report_beyond_a_limit_is_refused_with_its_reason(limits: ReportLimits, data: bytes, reason: str) -> None:
    with pytest.raises(ReportError, match=reason) as error:
        events_of(data, limits)
    assert error.value.message.startswith("report.xml")
    assert error.value.hint


@given(st.lists(st.text(max_size=50), max_size=60), st.integers(2, 64))
@settings(deadline=None)
def test_kept_text_is_whole_when_it_fits_and_head_and_tail_when_not(pieces: list[str], limit: int) -> None:
    kept = KeptText(limit)
    for piece in pieces:
        kept.add(piece)
    whole = "".join(pieces)
    half = limit // 2
    if len(whole) <= 2 * half:
        assert kept.text == whole
    else:
        assert kept.text.startswith(whole[:half])
        assert kept.text.endswith(whole[-half:])
        assert len(kept.text) <= limit + 60
        assert f"{len(whole) - 2 * half} characters left out" in kept.text


def test_a_stream_that_breaks_while_it_is_read_is_a_report_error() -> None:
    class Broken(io.BytesIO):
        def read(self, _size: int | None = -1) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(ReportError, match=r"report\.xml: can't be read: Input/output error"):
        ReportSource(Broken(b"<testsuite/>"), "report.xml", ReportLimits(), Repairs()).__enter__()
