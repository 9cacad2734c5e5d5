"""Hostile and broken reports: refused quickly or read in bounded memory, never a pass, never a traceback."""

from __future__ import annotations

import gzip
import http.server
import io
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_iterctl.control.evidence import Outcome
from pytest_iterctl.errors import ReportError
from pytest_iterctl.feedback.junit import outcome_of, read_junit, read_reports

MEGABYTE = 1024 * 1024
MANY = 100_000


class Generated(io.RawIOBase):
    """A seekable file that is made up while it is read: `head`, then `size` bytes of filler, then `tail`."""

    def __init__(self, head: bytes, filler: bytes, size: int, tail: bytes) -> None:
        self._head, self._filler, self._tail = head, filler, tail
        self._middle = size
        self._at = 0
        self.served = 0

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        length = len(self._head) + self._middle + len(self._tail)
        self._at = offset + (length if whence == 2 else self._at if whence == 1 else 0)
        return self._at

    def read(self, size: int = -1) -> bytes:
        data = b""
        if self._at < len(self._head):
            data = self._head[self._at : self._at + size]
        elif self._at < len(self._head) + self._middle:
            count = min(size, len(self._head) + self._middle - self._at)
            # The filler is one byte long, or its phase does not matter.
            data = (self._filler * (count // len(self._filler) + 1))[:count]
        else:
            start = self._at - len(self._head) - self._middle
            data = self._tail[start : start + size]
        self._at += len(data)
        self.served += len(data)
        return data


def refused(data: bytes) -> str:
    with pytest.raises(ReportError) as error:
        read_junit(io.BytesIO(data), "evil.xml")
    assert error.value.message.startswith("evil.xml")
    return error.value.message


@contextmanager
def bounded(*, seconds: float, megabytes: int) -> Iterator[None]:
    """Generous bounds that only a hang or a blow-up breaks."""
    tracemalloc.start()
    started = time.monotonic()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert time.monotonic() - started < seconds
    assert peak < megabytes * MEGABYTE


def entities(count: int, factor: int) -> bytes:
    declared = ['<!ENTITY e0 "haha">']
    declared += [f'<!ENTITY e{n} "{f"&e{n - 1};" * factor}">' for n in range(1, count)]
    return f"<!DOCTYPE testsuite [{''.join(declared)}]>".encode()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(entities(10, 10) + b"<testsuite><testcase>&e9;</testcase></testsuite>", id="billion laughs"),
        pytest.param(entities(10, 10) + b'<testsuite><testcase name="&e9;"/></testsuite>', id="in an attribute"),
        pytest.param(
            b'<!DOCTYPE t [<!ENTITY a "' + b"a" * 100_000 + b'">]><testsuite>' + b"&a;" * 100_000 + b"</testsuite>",
            id="quadratic",
        ),
        pytest.param(b"<!DOCTYPE t [<!ENTITY % p \"<!ENTITY x 'y'>\"> %p;]><testsuite/>", id="parameter entity"),
        pytest.param(
            b'<!DOCTYPE t [<!ATTLIST testcase name CDATA "a">]><testsuite><testcase/></testsuite>', id="attlist"
        ),
        pytest.param(
            b"noise " + entities(10, 10) + b"<testsuite><testcase>&e9;</testcase></testsuite>", id="after noise"
        ),
        pytest.param(
            '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE t [<!ENTITY a "b">]><testsuite/>'.encode("utf-16"),
            id="in utf-16",
        ),
    ],
)
def test_declarations_of_entities_are_refused_at_once(data: bytes) -> None:
    with bounded(seconds=5, megabytes=20):
        assert "refused" in refused(data)


def test_entities_that_name_files_or_hosts_are_refused_and_nothing_is_read(tmp_path: Path) -> None:
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

    secret = tmp_path / "secret.txt"
    secret.write_text("s3cret")
    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        base = f"http://127.0.0.1:{server.server_port}"
        for url in (secret.as_uri(), f"{base}/entity"):
            message = refused(
                f'<!DOCTYPE t [<!ENTITY x SYSTEM "{url}">]><testsuite><testcase name="a">'
                "<failure>&x;</failure></testcase></testsuite>".encode()
            )
            assert "s3cret" not in message
        namespace = "http://www.w3.org/2001/XInclude"
        # An external subset alone declares nothing that could be seen: it is not loaded.
        for data in (
            f'<!DOCTYPE testsuite SYSTEM "{base}/dtd"><testsuite><testcase name="a"><failure>&x;</failure>',
            f'<testsuite xmlns:xi="{namespace}"><testcase name="a"><failure><xi:include href="{base}/a"/></failure>',
        ):
            read = read_junit(io.BytesIO(f"{data}</testcase></testsuite>".encode()), "evil.xml")
            assert read.counts.failed == 1
            assert "s3cret" not in read.failures[0].detail
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert not asked


@pytest.mark.parametrize("element", [b"<testsuite>", b"<testcase>", b"<x>"])
@pytest.mark.parametrize("noise", [b"", b"\x01"])
def test_absurd_nesting_is_refused_or_flat(element: bytes, noise: bytes) -> None:
    with bounded(seconds=10, megabytes=30):
        refused(noise + element * 100_000)


@pytest.mark.parametrize(
    ("head", "filler"),
    [
        (b'<testsuite><testcase name="', b"a"),
        (b"<testsuite><!--", b"-"),
        (b"<testsuite><", b"a"),
        (b"<testsuite><testcase ", b" "),
    ],
)
def test_a_token_of_a_hundred_megabytes_is_refused_early(head: bytes, filler: bytes) -> None:
    stream = Generated(head, filler, 100 * MEGABYTE, b'"/></testsuite>')
    with bounded(seconds=60, megabytes=150):
        try:
            read = read_junit(stream, "evil.xml")  # type: ignore[arg-type]  # enough of a file
        except ReportError as error:
            assert "more than 16 MB" in error.message or "too large to be repaired" in error.message
        else:
            assert outcome_of(read, 0)[0] is not Outcome.PASSED
    assert stream.served < 40 * MEGABYTE


def test_more_than_the_size_limit_is_refused_unread() -> None:
    stream = Generated(b"<testsuite>", b" ", 600 * MEGABYTE, b"</testsuite>")
    with pytest.raises(ReportError, match="more than 512 MB"):
        read_junit(stream, "evil.xml")  # type: ignore[arg-type]  # enough of a file
    assert stream.served == 0


@pytest.mark.parametrize("noise", [b"", b"\x01"])
def test_honest_megabytes_of_captured_output_are_read_in_little_memory(noise: bytes) -> None:
    tail = b"</system-out><failure>why</failure></testcase></testsuite>" + noise
    stream = Generated(b'<testsuite><testcase name="a"><system-out>', b"line of output\n", 11 * MEGABYTE, tail)
    with bounded(seconds=60, megabytes=30):
        read = read_junit(stream, "big.xml")  # type: ignore[arg-type]  # enough of a file
    assert read.complete
    assert read.counts.failed == 1
    assert read.failures[0].message == "why"
    assert len(read.failures[0].output.encode()) <= 2000


def test_a_compressed_bomb_is_refused_and_never_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "report.xml"
    with gzip.open(path, "wb") as packed:
        packed.write(b"<testsuite>" + b" " * (50 * MEGABYTE))
    with bounded(seconds=5, megabytes=5), pytest.raises(ReportError, match="compressed"):
        read_reports([path])


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: b"x<testsuite>" + b"<" * MANY, id="openings"),
        pytest.param(lambda: b"x<testsuite>" + b"&" * MANY, id="ampersands"),
        pytest.param(lambda: b"x<testsuite>" + b"&#" * MANY, id="references"),
        pytest.param(lambda: b'x<testsuite><testcase name="' + b'"' * MANY, id="quotes"),
        pytest.param(lambda: b'x<testsuite><testcase name="' + b'" a' * MANY, id="quotes and names"),
        pytest.param(lambda: b"x<testsuite><testcase " + b"a " * MANY, id="junk attributes"),
        pytest.param(lambda: b"x<testsuite><testcase" + b" a='" * MANY, id="open attributes"),
        pytest.param(lambda: b"x<testsuite>" + b"<!--" * MANY, id="comments"),
        pytest.param(lambda: b"x<testsuite>" + b"<![CDATA[" * MANY, id="sections"),
        pytest.param(lambda: b"x" + b"<?xml " * MANY, id="declarations"),
        pytest.param(lambda: b"x" + b"<!DOCTYPE " * MANY, id="doctypes"),
        pytest.param(lambda: b"x" + b"</testsuite>" * MANY, id="ends"),
        pytest.param(lambda: b"x" + b"<testsuite" * MANY, id="unended tags"),
        pytest.param(lambda: b"<testsuite><testcase>" + b"<failure/>" * MANY, id="results"),
        pytest.param(lambda: b"<testsuite " + b"".join(b'a%d="" ' % n for n in range(MANY)) + b"/>", id="attributes"),
    ],
)
def test_mending_takes_linear_time_on_what_looks_like_markup(make: Callable[[], bytes]) -> None:
    data = make()
    started = time.monotonic()
    try:
        read = read_junit(io.BytesIO(data), "evil.xml")
    except ReportError:
        pass
    else:
        assert outcome_of(read, 0)[0] is not Outcome.PASSED
    assert time.monotonic() - started < 20


SMALL = """<?xml version="1.0" encoding="utf-8"?>
<!-- made by hand -->
<testsuites name="all"><testsuite name="süite" tests="2">
<properties><property name="p" value="a > b"/></properties>
<testcase classname="c" name="a &amp; b" time="0,1"><system-out><![CDATA[x < y]]></system-out></testcase>
<testcase classname='c' name='d'/><testcase name="e"><skipped/></testcase>
</testsuite></testsuites>"""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("noise", ["", "\x01"])
def test_a_report_cut_off_at_any_byte_is_never_a_pass(encoding: str, noise: str) -> None:
    whole = SMALL.replace("a &amp; b", f"a &amp; b{noise}").encode(encoding)
    assert outcome_of(read_junit(io.BytesIO(whole), "r"), 0)[0] is Outcome.PASSED
    for length in range(len(whole)):
        try:
            read = read_junit(io.BytesIO(whole[:length]), "r")
        except ReportError:
            continue
        assert outcome_of(read, 0)[0] is Outcome.INCOMPLETE, whole[:length]
        assert outcome_of(read, None)[0] is Outcome.INCOMPLETE, whole[:length]


FAILING = (
    b'<testsuites><testsuite name="s"><testcase name="a"><failure message="m" type="t">text &lt;</failure></testcase>'
    b'<testcase name="b"/></testsuite></testsuites>'
)


@pytest.mark.parametrize(
    "replacement", [b"", b'"', b"'", b"<", b">", b"/", b"&", b"=", b" ", b"\x00", b"\xff", b"]]>", b"-->"]
)
def test_one_wrong_byte_never_turns_a_failure_into_a_pass(replacement: bytes) -> None:
    for position in range(len(FAILING)):
        for skipped in (0, 1):
            data = FAILING[:position] + replacement + FAILING[position + skipped :]
            try:
                read = read_junit(io.BytesIO(data), "r")
            except ReportError:
                continue
            assert outcome_of(read, 0)[0] is not Outcome.PASSED, (data, read)


PIECES = st.sampled_from(
    [
        *(
            b"<testsuites>",
            b"</testsuites>",
            b'<testsuite name="s">',
            b"</testsuite>",
            b'<testcase name="a">',
            b"</testcase>",
        ),
        *(
            b"<testcase/>",
            b"<failure>",
            b"</failure>",
            b"<error/>",
            b"<skipped/>",
            b"<![CDATA[",
            b"]]>",
            b"<!--",
            b"-->",
        ),
        *(
            b"<?xml version='1.0'?>",
            b"<!DOCTYPE t>",
            b"<!DOCTYPE t [",
            b"&amp;",
            b"&",
            b"&#0;",
            b'"',
            b"'",
            b"<",
            b">",
            b"=",
        ),
        *(
            b"\xff\xfe",
            b"\xef\xbb\xbf",
            b"\x00",
            b"\x1b",
            b"\xc3",
            b" ",
            b"\n",
            b"x",
            b"<x>",
            b"</x>",
            b"<failure message=",
        ),
    ]
)


@given(st.one_of(st.binary(max_size=300), st.lists(PIECES, max_size=25).map(b"".join)))
@settings(deadline=None, max_examples=600, suppress_health_check=[HealthCheck.too_slow])
def test_any_bytes_are_a_report_or_a_report_error(data: bytes) -> None:
    try:
        read = read_junit(io.BytesIO(data), "any.xml")
    except ReportError as error:
        assert error.message.startswith("any.xml")
        assert "\n" not in error.message
        return
    counts = read.counts
    assert counts.tests == counts.passed + counts.failed + counts.errors + counts.skipped - read.suite_errors
    assert read.cases >= counts.tests
    outcome, reason = outcome_of(read, 0)
    assert "\n" not in reason
    if outcome is Outcome.PASSED:
        assert read.complete
        assert counts.passed
        assert not read.failing
