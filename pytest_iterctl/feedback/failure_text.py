"""What a failure's text tells, whichever tool wrote it: the exception, its message, and what it was raised from.

Everything here is a guess from wording, so each function is conservative: it gives '' when it is unsure.
"""

from __future__ import annotations

import re
from functools import lru_cache

from pytest_iterctl.redaction import redact
from pytest_iterctl.text import cut_middle, one_line, strip_escapes

__all__ = ["bounded", "cause_in", "cleaned", "exception_in", "lines_of", "message_in"]

_LINE = 1000
_LINES = 400
_TEXT = 16 * 1024
_CAUSE = 300
# How the repair of broken reports shows an escape character.
_SHOWN_ESCAPE = re.compile(r"\u241b(?=[\[\]()])")

_TAIL = re.compile(r"^\S[^\n]*?:\d+: ([A-Za-z_][\w.]*)\s*$")
_EXPLAINED = re.compile(r"\s*E {2,}(\S.*)$")
_TYPE = r"(?:[A-Za-z_][\w.$\\]*(?:Error|Exception|Group|Failure|Warning|Exit|Interrupt|Failed|Panic)|Error|Exception)"
_PREFIX = re.compile(
    r"^(?:\s*E\s+|[ +|]*\| )?(?:Uncaught |Caused by: |Unhandled exception\. |Exception in thread \"[^\"]*\" )?"
    rf"({_TYPE})(?: \[\w+\])?(?: ?:|\s*$)"
)
#: How runtimes spell that they gave up, and node's runner what it caught.
_OTHER_PREFIXES = (
    (re.compile(rf"^\s*cause: ({_TYPE})(?: \[\w+\])?:"), ""),
    (re.compile(r"^panic: "), "panic"),
    (re.compile(r"^thread '.{0,200}' (?:\(\d+\) )?panicked at "), "panic"),
    (re.compile(r"^(?:PHP )?Fatal error: "), "Fatal error"),
)
_CHAINED = re.compile(r"^\s*(?:The above exception was the direct cause of|During handling of the above exception)")
_CHAIN_WORDS = ("above exception", "Caused by: ", "[cause]: ", "--- ", "--> ")
_CAUSED_BY = re.compile(rf"^\s*(?:Caused by: |\[cause\]: | ?---+>? )((?:{_TYPE})(?: \[\w+\])? ?:.*)$")
_BRACKETED_CODE = re.compile(r" \[\w+\](?=:)")


def cleaned(text: str) -> str:
    """Text as a person would see it in a terminal, without what only colours it."""
    if text.isascii() and "#x1B" not in text and text.replace("\n", "").replace("\t", "").isprintable():
        return text.strip("\n")
    return strip_escapes(_SHOWN_ESCAPE.sub("\x1b", text)).strip("\n")


def bounded(text: str, limit_bytes: int) -> str:
    """At most `limit_bytes`, head and tail. Redacted before the cut, because nobody recognises half a secret."""
    if len(text.encode("utf-8", "replace")) <= limit_bytes:
        return text
    spare = 4 * limit_bytes
    if len(text) > 2 * spare:
        # What is cut away here is far from the cut that counts.
        text = f"{text[:spare]}\n[… {len(text) - 2 * spare} characters …]\n{text[-spare:]}"
    return cut_middle(redact(text), limit_bytes)


def exception_in(text: str) -> str:
    """The exception's type: pytest's last word, or what an exception's line begins with."""
    lines = lines_of(text)
    last = next((line for line in reversed(lines) if line.strip()), "")
    if found := _TAIL.match(last):
        return found[1]
    for pattern, kind in _OTHER_PREFIXES:
        for line in lines:
            if match := pattern.match(line):
                return kind or match[1]
    if any(line.startswith("Traceback (most recent call last)") for line in lines):
        # Python names the exception last; what it was raised from comes before.
        lines = lines[::-1]
    return next((found[1] for line in lines if (found := _PREFIX.match(line))), "")


def message_in(text: str) -> str:
    """The first lines that say something: pytest's explanation, the exception of a traceback, else the first line."""
    lines = lines_of(text)
    if explained := [found[1] for line in lines if (found := _EXPLAINED.match(line))]:
        return "\n".join(explained[:10])
    if any(line.startswith("Traceback (most recent call last)") for line in lines):
        for line in reversed(lines):
            if _PREFIX.match(line):
                return line.strip()
    return next((line.strip() for line in lines if re.search(r"\w", line)), "")


def cause_in(text: str) -> str:
    """The first exception of a chain, with its message: what the one that is reported was raised from."""
    if not any(word in text for word in _CHAIN_WORDS):
        return ""
    lines = lines_of(text)
    for at, line in enumerate(lines):
        if _CHAINED.match(line):
            explained = [found[1] for each in lines[:at] if (found := _EXPLAINED.match(each))]
            plain = [each.strip() for each in lines[:at] if _PREFIX.match(each)]
            return one_line((explained or plain[-1:] or [""])[0], _CAUSE)
    causes = [found[1] for line in lines if (found := _CAUSED_BY.match(line))]
    return one_line(_BRACKETED_CODE.sub("", causes[-1]), _CAUSE) if causes else ""


@lru_cache(maxsize=2)  # several readers look at one text in turn
def lines_of(text: str) -> tuple[str, ...]:
    """As many lines, and as much of each, as is worth looking at: from the head and from the tail."""
    if len(text) > _TEXT:
        text = f"{text[: _TEXT // 2]}\n{text[-_TEXT // 2 :]}"
    lines = text.splitlines()
    if len(lines) > _LINES:
        lines = lines[: _LINES // 2] + lines[-_LINES // 2 :]
    return tuple(line[:_LINE] for line in lines)
