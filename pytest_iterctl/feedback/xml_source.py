"""A report's bytes, made safe to parse: size, compression and encoding are settled before any parser sees them."""

from __future__ import annotations

import codecs
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import IncrementalNewlineDecoder
from typing import BinaryIO, Self, cast

from pytest_iterctl.errors import ReportError

__all__ = ["CHUNK", "Repairs", "ReportLimits", "ReportSource"]

CHUNK = 256 * 1024
_MEGABYTE = 1024 * 1024

_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
}
# The longer marks first: UTF-32's begins with UTF-16's.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WIDE = re.compile(rb"(?P<little>\s?<\x00[!?A-Za-z]\x00)|(?P<big>(?:\x00\s)?\x00<\x00[!?A-Za-z])")
_DECLARED = re.compile(rb"""<\?xml\s[^>]{0,200}?encoding\s*=\s*["']([A-Za-z][A-Za-z0-9._-]{0,40})["']""")
# Python knows these names, but they are escapes and not the encoding of any file.
_NOT_FOR_FILES = frozenset({"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "utf-7", "mbcs"})


@dataclass(frozen=True, slots=True)
class ReportLimits:
    """What one report may ask of the machine before it is refused; sizes are bytes, texts are characters."""

    size: int = 512 * _MEGABYTE
    repair_size: int = 64 * _MEGABYTE
    token: int = 16 * _MEGABYTE
    depth: int = 128
    text: int = 256 * 1024
    cases: int = 1_000_000
    elements: int = 10_000_000


class Repairs:
    """What had to be mended to read a report: each kind once, with its first line and how often."""

    def __init__(self) -> None:
        self.complete = True
        self._first: dict[str, int] = {}
        self._times: dict[str, int] = {}

    def note(self, what: str, line: int = 0, times: int = 1) -> None:
        self._first.setdefault(what, line)
        self._times[what] = self._times.get(what, 0) + times

    def broken(self, what: str, line: int = 0) -> None:
        """Something is missing for good, so that the report can't prove that all went well."""
        self.complete = False
        self.note(what, line)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(
            (f"line {line}: {what}" if line else what)
            + (f" ({times} times)" if (times := self._times[what]) > 1 else "")
            for what, line in self._first.items()
        )


class ReportSource:
    """One report that, inside `with`, can be read from its beginning as often as needed."""

    def __init__(self, stream: BinaryIO, name: str, limits: ReportLimits, repairs: Repairs) -> None:
        self.name = name
        self.limits = limits
        self.repairs = repairs
        self.size = 0
        self._stream = stream
        self._copy: BinaryIO | None = None
        self._start = 0
        self._encoding, self._skip = "utf-8", 0

    def __enter__(self) -> Self:
        try:
            self._settle()
        except BaseException:
            self._forget_copy()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._forget_copy()

    def _settle(self) -> None:
        try:
            if not self._stream.seekable():
                self._spool()
            self._start = self._stream.tell()
            self.size = self._stream.seek(0, 2) - self._start
        except OSError as error:
            raise self.refusal(0, f"can't be read: {error.strerror or error}") from None
        if self.size > self.limits.size:
            raise self._too_large()
        head = next(self._chunks(0), b"")
        self._refuse_what_is_no_text(head)
        self._encoding, self._skip = self._sniffed(head)

    def _spool(self) -> None:
        """A pipe is read once only, and mending needs a second look."""
        self._copy = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - __exit__ closes it
        while chunk := self._stream.read(CHUNK):
            self._copy.write(chunk)
            if self._copy.tell() > self.limits.size:
                raise self._too_large()
        self._copy.seek(0)
        self._stream = self._copy

    def _forget_copy(self) -> None:
        if self._copy is not None:
            self._copy.close()

    def refusal(self, line: int, reason: str, hint: str = "") -> ReportError:
        """The error to raise when this report can't be read."""
        place = f"{self.name}:{line}" if line else self.name
        return ReportError(f"{place}: {reason}", hint=hint or "check the tool that wrote this report, and run it again")

    def utf8(self) -> Iterator[bytes]:
        """The report for a strict parser: UTF-8 as it is, anything else converted."""
        if self._encoding == "utf-8":
            yield from self._chunks(self._skip)
            return
        for text in self._decoded(codecs.getincrementaldecoder(self._encoding)("replace")):
            yield text.encode("utf-8", "replace")

    def text(self) -> Iterator[str]:
        """The report as characters with plain line ends, where undecodable bytes are replaced."""
        decoder = codecs.getincrementaldecoder(self._encoding)("replace")
        # A wrapped decoder still takes bytes; typeshed only knows the unwrapped use.
        yield from self._decoded(cast("codecs.IncrementalDecoder", IncrementalNewlineDecoder(decoder, translate=True)))

    def _decoded(self, decoder: codecs.IncrementalDecoder) -> Iterator[str]:
        honest = "\ufffd".encode() if self._encoding == "utf-8" else b""
        for chunk in self._chunks(self._skip):
            text = decoder.decode(chunk)
            if "\ufffd" in text and not (honest and honest in chunk):
                self.repairs.note(f"bytes that are not {self._encoding} were replaced")
            yield text
        yield decoder.decode(b"", True)

    def _chunks(self, skip: int) -> Iterator[bytes]:
        read = 0
        try:
            self._stream.seek(self._start + skip)
            while chunk := self._stream.read(CHUNK):
                read += len(chunk)
                # The file may still be growing, so the size seen at first is no promise.
                if read > self.limits.size:
                    raise self._too_large()
                yield chunk
        except OSError as error:
            raise self.refusal(0, f"can't be read: {error.strerror or error}") from None

    def _too_large(self) -> ReportError:
        megabytes = self.limits.size // _MEGABYTE
        return self.refusal(0, f"more than {megabytes} MB", "split the report, or keep captured output out of it")

    def _refuse_what_is_no_text(self, head: bytes) -> None:
        if not self.size or (self.size == len(head) and not head.strip(b"\x00\t\n\r ")):
            raise self.refusal(0, "is empty", "the test run probably died before it could write its report")
        for magic, format_name in _COMPRESSED.items():
            if head.startswith(magic):
                raise self.refusal(0, f"is compressed ({format_name}), not XML", "decompress the report first")

    def _sniffed(self, head: bytes) -> tuple[str, int]:
        """The encoding that the bytes show, else the declared one; and how many bytes to skip."""
        for mark, encoding in _MARKS:
            if head.startswith(mark):
                return encoding, len(mark)
        if wide := _WIDE.match(head):
            return ("utf-16-le" if wide["little"] else "utf-16-be"), 0
        declared = _DECLARED.search(head)
        return (self._usable(declared[1].decode("ascii")) if declared else "utf-8"), 0

    def _usable(self, declared: str) -> str:
        try:
            # Refuses what is no text encoding at all: Python also calls zlib, bz2 and hex "codecs".
            "".encode(declared)
            name = codecs.lookup(declared).name
        except (LookupError, UnicodeError, ValueError):
            name = ""
        if name in {"utf-8", "ascii"}:
            return "utf-8"
        if not name or name in _NOT_FOR_FILES:
            self.repairs.note(f"declares the unknown encoding {declared}, read as UTF-8")
            return "utf-8"
        if name.startswith(("utf-16", "utf-32")):
            # The declaration could be read byte by byte, so it is wrong about itself.
            self.repairs.note(f"declares {declared} but is not, read as UTF-8")
            return "utf-8"
        return name
