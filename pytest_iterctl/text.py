r"""Text that came from tests, agents, plans and git, made harmless for wherever it lands.

Such text is data: it may not steer a terminal, a CI runner or a Markdown page, carry a secret to where it can be read,
or be longer than its place. Each function is pure, total (any `str`, lone surrogates included) and linear in its input:
no pattern scans again what a failed try has scanned. Patterns are compiled when first used.

Order matters: redact before cutting (half a secret is recognised by nobody), strip before redacting (a colour code may
sit inside a secret), escape for Markdown last.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

__all__ = [
    "code_span",
    "cut_middle",
    "fence",
    "file_name",
    "human_bytes",
    "markdown_text",
    "one_line",
    "strip_escapes",
    "workflow_safe",
]

_compiled: Final = cache(re.compile)

# ── control and format characters ────────────────────────────────────────────────────────────────────────────────────

#: A control string (OSC, DCS, …) ends on its own line or isn't one: nobody loses a page to an unclosed title.
_ESCAPES = (
    r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f\r\n]*+(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]?"
    r"|\x1b[ -/]*+[0-~]"
)
#: How pytest's JUnit file spells an escape character.
_SPELT_ESCAPES = r"#x1B(\[[0-9;:?]*+[A-Za-z])"
#: What has no glyph of its own and so can hide or reorder text. Arabic number signs are Cf too, but visible; U+FE0E and
#: U+FE0F only choose how an emoji looks.
_HIDDEN = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
#: Persian, the Indic scripts and emoji need the two joiners, between two visible characters that aren't ASCII. Anywhere
#: else (`pass\u200dword`, or a row of them that spells bits) they only hide something.
_JOINED = rf"[^\x00-\x7f\s\u200c\u200d{_HIDDEN}]"
_INVISIBLE = rf"[{_HIDDEN}]|(?<!{_JOINED})[\u200c\u200d]|[\u200c\u200d](?!{_JOINED})"


def strip_escapes(text: str) -> str:
    r"""Plain text: no escape sequences, `\n` and `\t` as they are, what else can't be seen as `\x07`, `\u202e`.

    The result can always be encoded as UTF-8, and stripping it again changes nothing.
    """
    if text.isascii() and text.isprintable() and "#x1B" not in text:
        return text
    plain = _compiled(f"{_ESCAPES}|{_SPELT_ESCAPES}").sub("", text)
    # What was removed may have stood inside another `#x1B[0m`. Showing that one, not removing it, ends the game.
    plain = _compiled(_SPELT_ESCAPES).sub(r"\\x1b\1", plain)
    return _compiled(_INVISIBLE).sub(_visible, plain.replace("\r\n", "\n").replace("\r", "\n"))


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x100:  # noqa: PLR2004 - where \x ends
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"  # noqa: PLR2004 - where \u ends


def file_name(name: bytes) -> str:
    r"""A git path as people can read it: what isn't UTF-8 or can't be seen is escaped (`caf\xe9.txt`)."""
    return _compiled(rf"[\n\t]|{_INVISIBLE}").sub(_visible, name.decode("utf-8", "backslashreplace"))


# ── size ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def one_line(text: str, limit: int = 200) -> str:
    """At most `limit` characters for a line of a terminal or a title; ends in `…` where it was cut."""
    line = " ".join(strip_escapes(text).split())
    if len(line) <= limit:
        return line
    return line[: limit - 1].rstrip() + "…" if limit > 0 else ""


def cut_middle(text: str, limit_bytes: int, *, where: str = "") -> str:
    """At most `limit_bytes` bytes of UTF-8: two thirds from the head, one from the tail, and a line that says so.

    `where` names where the whole text is. A limit that the notice itself doesn't fit in gives the plain head.
    """
    # The codec's own spelling of a lone surrogate is the one of strip_escapes.
    data = text.encode("utf-8", "backslashreplace")
    limit = max(limit_bytes, 0)
    if len(data) <= limit:
        return data.decode()
    whole = f"; whole in {one_line(where)}" if where else ""
    room = limit - len(f"\n[… {len(data)} bytes cut{whole} …]\n".encode())
    if room < 0:
        return data[:limit].decode("utf-8", "ignore")
    tail_size = room // 3
    # "ignore" drops no more than the character that the cut went through.
    head = data[: room - tail_size].decode("utf-8", "ignore")
    tail = data[len(data) - tail_size :].decode("utf-8", "ignore")
    gone = len(data) - len(head.encode()) - len(tail.encode())
    return f"{head}\n[… {gone} bytes cut{whole} …]\n{tail}"


def human_bytes(count: int) -> str:
    """`0 B`, `1.2 kB`, `3.4 MB`."""
    if abs(count) < 1000:  # noqa: PLR2004 - SI units
        return f"{count} B"
    size = float(count)
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        # 999.95 would be shown as 1000.0 of the smaller unit.
        if abs(size) < 999.95:  # noqa: PLR2004
            return f"{size:.1f} {unit}"
    return f"{size / 1000:.1f} TB"


# ── Markdown and CI logs ─────────────────────────────────────────────────────────────────────────────────────────────


def fence(text: str, language: str = "") -> str:
    """A fenced block that nothing inside can close."""
    body = strip_escapes(text)
    ticks = "`" * max(3, _longest_ticks(body) + 1)
    if body and not body.endswith("\n"):
        body += "\n"
    return f"{ticks}{_compiled('[^a-z0-9-]').sub('', language.lower())}\n{body}{ticks}"


def code_span(text: str) -> str:
    """Inline code that nothing inside can close, not even in a cell of a table."""
    line = " ".join(strip_escapes(text).split())
    # A table takes `\\|` for a backslash and the end of the cell, so the two are kept apart.
    line = line.replace("\\|", "\\ |").replace("|", "\\|")
    ticks = "`" * (_longest_ticks(line) + 1)
    pad = " " if not line or line[0] == "`" or line[-1] == "`" else ""
    return f"{ticks}{pad}{line}{pad if line else ''}{ticks}"


def _longest_ticks(text: str) -> int:
    return max(map(len, _compiled("`+").findall(text)), default=0)


#: Sites look for mentions, references, links and emoji in the finished page, where a backslash is long gone; only
#: something between the sign and the name helps.
_MARKDOWN = (
    r"(?P<sign>[@#](?=\w)|[!$%&~](?=\d))"
    r"|(?P<bare>:(?=//|[A-Za-z+-][\w+-]*+:)|(?<![A-Za-z0-9])(?i:www(?=\.)|gh-(?=\d)))"
    r"|[\\`*_{}\[\]#|~$^&<>]"
)
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_APART = "&#8203;"


def markdown_text(text: str) -> str:
    """Prose that Markdown shows as it is: no formatting, HTML, links, mentions or references; lines stay lines.

    Where only one line may stand (a heading, a list item, a cell), give it `one_line(text)`.
    """
    # Indented lines would be code, and two blanks at the end a line break.
    lines = "\n".join(line.strip() for line in strip_escapes(text).split("\n"))
    escaped = _compiled(_MARKDOWN).sub(_markdown_escape, lines)
    return _compiled(r"(?m)^(\d{0,9})([-+=.)])").sub(r"\1\\\2", escaped)


def _markdown_escape(match: re.Match[str]) -> str:
    sign = match[0]
    shown = _ENTITIES.get(sign) or (sign if match["bare"] or sign in "@%!" else "\\" + sign)
    return shown + _APART if match["bare"] or match["sign"] else shown


#: Runners look for `##[` and `##vso[` anywhere in a line; `::` counts after blanks only. What a terminal doesn't show
#: is counted among the blanks, so that nobody who strips it later brings a command to life.
_LEADING = rf"(?:[^\S\r\n]|\x1b\[[0-?]*+[ -/]*+[@-~]|[\u200c\u200d]|(?![\r\n])[{_HIDDEN}])*+"
_COMMANDS = rf"(?P<start>(?m:^|(?<=\r)){_LEADING})(?=::)|(?P<anywhere>#(?=#(?:vso|teamcity)?\[))"


def workflow_safe(text: str) -> str:
    r"""No line is a command to a CI runner: `::error::` becomes `\::error::`, and `##[group]` becomes `#\#[group]`.

    Colours stay: our own lines go through here too.
    """
    if "::" not in text and "##" not in text:
        return text
    return _compiled(_COMMANDS).sub(r"\g<0>\\", text)
