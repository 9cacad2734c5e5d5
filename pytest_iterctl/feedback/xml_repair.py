"""Reads the test cases of a report that is not well-formed, and says what it took to do so.

Test tools write control characters, bare `&` and `<`, output before and after the report, several reports in one file;
crashes cut files off. This scanner knows only the elements that carry results: all other markup is text to it. It never
fails on broken input, so whatever could hide a failure makes the report incomplete instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from pytest_iterctl.feedback.xml_cases import KEPT, CaseBuilder, ReportEvent, local_name
from pytest_iterctl.feedback.xml_source import ReportSource
from pytest_iterctl.feedback.xml_stream import NotWellFormedError

__all__ = ["read_mending"]

_MEGABYTE = 1024 * 1024
# Longer than any markup that must be recognised in one piece.
_HELD_BACK = 128
_STRUCTURE = {"testsuites", "testsuite", "testcase", "properties", "property", "stackTrace"}
_KNOWN = "|".join(sorted(map(re.escape, {*_STRUCTURE, *KEPT})))
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_REFERENCE = re.compile(r"&(?:#([0-9]{1,7});|#[xX]([0-9a-fA-F]{1,6});|(amp|lt|gt|quot|apos);)?")
_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_ATTRIBUTE = re.compile(r"""\s*([^\s=<>"'/]{1,256})\s*=\s*(["'])""")
# A quote ends a value only where a tag can go on: tools forget to escape the quotes inside.
_CLOSING = {
    quote: re.compile(rf"""{quote}(?=(?:\s+[\w:.-]{{1,256}}){{0,3}}\s*/?>|\s+[\w:.-]{{1,256}}\s*=\s*["'])""")
    for quote in ('"', "'")
}
_TAG_END = re.compile(r"\s*(/?)>")
_JUNK = re.compile(r"""(?:(?!\s*/?>|\s*[^\s=<>"'/]{1,256}\s*=\s*["'])(?:\s++|/|[^\s/>]++))++""")
_MANY_ATTRIBUTES = 10_000
_SPACE = re.compile(r"\s*")
_DECLARATION_END = re.compile(r"[^<>]{0,1000}\?>")
_DOCTYPE_END = re.compile(r"[^\[<>]{0,2000}([\[>])")
_ROOT = re.compile(r"<([A-Za-z_][\w:.-]{0,200})(?=[\s/>])")


def _markup(root: str) -> re.Pattern[str]:
    names = rf"(?:[\w.-]{{1,64}}:)?(?:{_KNOWN})" + (f"|{re.escape(root)}" if root else "")
    return re.compile(
        rf"<(?:(?P<end>/?)(?P<name>{names})(?=[\s/>])|(?P<cdata>!\[CDATA\[)|(?P<comment>!--)|(?P<doctype>!DOCTYPE)"
        r"|(?P<declaration>\?xml)(?=\s))"
    )


class _Tag(NamedTuple):
    attributes: dict[str, str]
    closes_itself: bool
    end: int


class _MoreNeededError(Exception):
    """What starts here can't be told apart before more of the report has arrived."""


def read_mending(source: ReportSource, error: NotWellFormedError) -> Iterator[ReportEvent]:
    """Every case and suite that can be made out; `error` is what a strict parser had to say."""
    if source.size > source.limits.repair_size:
        raise source.refusal(error.line, f"{error.reason}; too large to be repaired ({source.size // _MEGABYTE} MB)")
    source.repairs.note(f"is not well-formed XML: {error.reason}", error.line)
    scanner = _Scanner(source, error.root)
    for text in source.text():
        scanner.feed(text)
        yield from scanner.builder.take()
    scanner.finish()
    yield from scanner.builder.take()
    if not scanner.builder.found:
        raise source.refusal(error.line, f"is not a JUnit XML report: {error.reason}")
    if error.ends_early and source.repairs.complete:
        source.repairs.broken("the report ends too early")


class _Scanner:
    def __init__(self, source: ReportSource, root: str) -> None:
        self.builder = CaseBuilder(source, lambda: self._line)
        self._source = source
        self._repairs = source.repairs
        self._markup = _markup(root)
        self._names: list[str] = []
        self._buffer = ""
        self._position = 0
        self._needed = 0
        self._final = False
        self._line = 1
        self._until = ""
        self._root_expected = False
        self._roots = 0

    def feed(self, text: str) -> None:
        self._buffer = self._buffer[self._position :] + text
        self._position = 0
        # Waiting until what is pending has doubled keeps a huge tag from being scanned again for every chunk.
        if len(self._buffer) < self._needed and not self._final:
            return
        self._needed = 0
        try:
            while self._position < len(self._buffer):
                self._step()
        except _MoreNeededError:
            pending = len(self._buffer) - self._position
            if pending > self._source.limits.token:
                megabytes = self._source.limits.token // _MEGABYTE
                raise self._source.refusal(self._line, f"a single tag of more than {megabytes} MB") from None
            self._needed = 2 * pending

    def finish(self) -> None:
        self._final = True
        self.feed("")
        if self._names or self._until or self._position < len(self._buffer):
            self._repairs.broken("the report ends in the middle", self._line)
        self.builder.abandon()

    def _step(self) -> None:
        if self._until:
            self._skip_or_keep_section()
            return
        if self._root_expected and self._open_foreign_root():
            return
        found = self._markup.search(self._buffer, self._position)
        if found is None:
            self._text_up_to(self._safe_end())
            return
        self._text_up_to(found.start())
        if found["name"]:
            self._tag(found["name"], found.end(), is_end=bool(found["end"]))
        elif found["cdata"]:
            self._until = "]]>"
            self._advance(found.end())
        elif found["comment"]:
            self._until = "-->"
            self._advance(found.end())
        elif found["doctype"]:
            self._doctype(found.end())
        else:
            self._declaration(found.end())

    def _advance(self, position: int) -> None:
        self._line += self._buffer.count("\n", self._position, position)
        self._position = position

    def _safe_end(self) -> int:
        """Where the text ends for sure: a `<` or `&` shortly before the end may still become markup."""
        if self._final:
            return len(self._buffer)
        last = max(
            self._buffer.rfind(character, max(self._position, len(self._buffer) - _HELD_BACK)) for character in "<&"
        )
        if last == self._position:
            raise _MoreNeededError
        return last if last > self._position else len(self._buffer)

    def _text_up_to(self, end: int) -> None:
        text = self._buffer[self._position : end]
        if self._names:
            if "]]>" in text:
                self._repairs.note("a bare ]]> was kept as text", self._line)
            if "<" in text:
                self._repairs.note("markup that is no JUnit element was kept as text", self._line)
            self.builder.text(self._mended(text))
        elif text and not text.isspace():
            self._repairs.note("text outside of the report was ignored", self._line)
        self._advance(end)

    def _skip_or_keep_section(self) -> None:
        end = self._buffer.find(self._until, self._position)
        length = len(self._until)
        kept_up_to = end if end >= 0 else len(self._buffer) - (0 if self._final else length - 1)
        if end < 0 and kept_up_to <= self._position:
            raise _MoreNeededError
        if self._until == "]]>":
            self.builder.text(self._without_control(self._buffer[self._position : kept_up_to]))
        else:
            self._suspect(self._buffer[self._position : kept_up_to], "a comment that holds results")
        self._advance(kept_up_to if end < 0 else end + length)
        if end >= 0:
            self._until = ""

    def _tag(self, name: str, position: int, *, is_end: bool) -> None:
        tag = self._read_tag(position)
        if is_end:
            self._close(name)
        else:
            self._start(name, tag)
        self._advance(tag.end)

    def _start(self, name: str, tag: _Tag) -> None:
        if not self._names:
            self._roots += 1
            if self._roots > 1:
                self._repairs.note("more than one report in one file", self._line)
        self.builder.start(name, tag.attributes)
        if tag.closes_itself:
            self.builder.end()
        else:
            self._names.append(name)

    def _close(self, name: str) -> None:
        if name not in self._names:
            # Something opened it, and that something was not seen.
            self._repairs.broken(f"</{local_name(name)}> without its start was ignored", self._line)
            return
        while (innermost := self._names.pop()) != name:
            self._repairs.broken(f"<{local_name(innermost)}> is never closed", self._line)
            self.builder.end(finished=False)
        self.builder.end()

    def _open_foreign_root(self) -> bool:
        """After an XML declaration any element is the root: only its end shows that nothing was cut off."""
        space = _SPACE.match(self._buffer, self._position)
        self._advance(space.end() if space else self._position)
        if len(self._buffer) - self._position < 2 * _HELD_BACK and not self._final:
            raise _MoreNeededError
        root = _ROOT.match(self._buffer, self._position)
        if root is None:
            self._root_expected = self._buffer.startswith(("<!--", "<!DOCTYPE"), self._position)
            return False
        self._root_expected = False
        self._markup = _markup(root[1])
        tag = self._read_tag(root.end())
        self._start(root[1], tag)
        self._advance(tag.end)
        return True

    def _declaration(self, position: int) -> None:
        end = _DECLARATION_END.match(self._buffer, position)
        if end is None and len(self._buffer) - position < _HELD_BACK * 8 and not self._final:
            raise _MoreNeededError
        self._root_expected = end is not None and not self._names
        self._advance(end.end() if end else position)

    def _doctype(self, position: int) -> None:
        end = _DOCTYPE_END.match(self._buffer, position)
        if end is None and not self._final and len(self._buffer) - position < _HELD_BACK * 16:
            raise _MoreNeededError
        if end is not None and end[1] == "[" and not self._names:
            raise self._source.refusal(self._line, "a document type with declarations of its own is refused")
        self._advance(end.end() if end else position)

    def _read_tag(self, position: int) -> _Tag:
        attributes: dict[str, str] = {}
        for _ in range(_MANY_ATTRIBUTES):
            if end := _TAG_END.match(self._buffer, position):
                return _Tag(attributes, bool(end[1]), end.end())
            if attribute := _ATTRIBUTE.match(self._buffer, position):
                position = self._read_value(attribute, attributes)
            elif (junk := _JUNK.match(self._buffer, position)) and junk.end() < len(self._buffer):
                if not junk[0].isspace():
                    self._repairs.note("a malformed attribute was ignored", self._line)
                    self._suspect(junk[0], "an attribute without an end")
                position = junk.end()
            else:
                raise _MoreNeededError
        raise self._source.refusal(self._line, f"a tag with more than {_MANY_ATTRIBUTES} attributes")

    def _read_value(self, attribute: re.Match[str], attributes: dict[str, str]) -> int:
        closing = _CLOSING[attribute[2]].search(self._buffer, attribute.end())
        if closing is None:
            raise _MoreNeededError
        raw = self._buffer[attribute.end() : closing.start()]
        if "<" in raw:
            self._repairs.note("a bare < in an attribute was kept", self._line)
            self._suspect(raw, "an attribute without an end")
        if attribute[2] in raw:
            self._repairs.note("an unescaped quote in an attribute was kept", self._line)
        if attribute[1] in attributes:
            self._repairs.note("the second of two equal attributes was ignored", self._line)
        attributes.setdefault(attribute[1], self._mended(raw))
        return closing.end()

    def _suspect(self, raw: str, what: str) -> None:
        """What runs over into the next tags may have swallowed a failure."""
        if self._markup.search(f"{raw} "):
            self._repairs.broken(what, self._line)

    def _mended(self, text: str) -> str:
        text = self._without_control(text)
        return _REFERENCE.sub(self._referenced, text) if "&" in text else text

    def _without_control(self, text: str) -> str:
        text, times = _CONTROL.subn(lambda found: _picture(ord(found[0])), text)
        if times:
            self._repairs.note("control characters were replaced", self._line, times)
        return text

    def _referenced(self, found: re.Match[str]) -> str:
        decimal, hexadecimal, entity = found.groups()
        if entity:
            return _ENTITIES[entity]
        if not decimal and not hexadecimal:
            self._repairs.note("a bare & was kept", self._line)
            return "&"
        code = int(decimal) if decimal else int(hexadecimal, 16)
        character = _picture(code)
        if character != chr(min(code, 0x10FFFF)):
            self._repairs.note("references to forbidden characters were replaced", self._line)
        return character


def _picture(code: int) -> str:
    """A character as XML allows it; control characters become their visible picture (escape is U+241B)."""
    if code < 0x20 and code not in {0x09, 0x0A, 0x0D}:  # noqa: PLR2004 - the C0 control characters
        return chr(0x2400 + code)
    if 0xD800 <= code <= 0xDFFF or code in {0xFFFE, 0xFFFF} or code > 0x10FFFF:  # noqa: PLR2004 - not characters
        return "\ufffd"
    return chr(code)
