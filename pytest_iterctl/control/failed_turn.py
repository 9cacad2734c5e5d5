"""What kind of failure a turn was that an agent or a reviewer did not do, by how it ended first and words last."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from pytest_iterctl.control.error_types import Analysis, ErrorType, Stage
from pytest_iterctl.control.evidence import TurnEvidence, TurnOutcome

__all__ = ["of_text", "of_turn"]

_LINES, _LINE = 20, 300
_TURNS: Mapping[TurnOutcome, ErrorType] = MappingProxyType(
    {
        TurnOutcome.RATE_LIMITED: "rate_limit",
        TurnOutcome.NO_NETWORK: "network",
        TurnOutcome.NOT_LOGGED_IN: "auth",
        TurnOutcome.TIMED_OUT: "timeout",
        TurnOutcome.SERVICE_FAILED: "api_error",
        TurnOutcome.UNREADABLE: "api_error",
    }
)
#: What a shell says of a command that it can't find, or that is no program; sysexits.h: usage, no input, configuration.
_NOT_RUNNABLE, _WRONG_USE = frozenset({126, 127}), frozenset({64, 66, 78})
#: A status of HTTP: named as one, or followed by the words that go with it. A bare number at a start means anything.
_STATUS = re.compile(
    r"^\W{0,3}(?:[\w.]{0,60}(?:Error|Exception)\W{1,3})?"
    r"(?:(?:(?:API |HTTP )?(?:[Ee]rror|[Ss]tatus)(?:[ _]?[Cc]ode)?[:= ]{1,3}|HTTP/[\d.]{1,3} "
    r"|curl: \(22\) The requested URL returned error: )(?P<named>[45]\d\d)\b"
    r"|(?P<told>[45]\d\d) (?:Too Many|Service Un|Internal Server|Bad G|Gateway Time|Unauth|Forbid|Overload|Bad Req))"
)
_WRONG_REQUEST, _NOT_ALLOWED, _TOO_SLOW = frozenset({400, 404, 413, 422}), frozenset({401, 403}), 408
_TOO_MANY, _UNAVAILABLE, _SERVER = 429, frozenset({502, 503, 504, 529}), 500
_SAYS: tuple[tuple[ErrorType, str], ...] = (
    ("resource_exhausted", r"\[Errno (?:12|23|24|28)\]|(?:ENOSPC|ENOMEM|EMFILE|ENFILE)\b|No space left on device"),
    ("resource_exhausted", r"Cannot allocate memory|Too many open files|MemoryError\b|Out of memory\b|Killed\b"),
    ("resource_exhausted", r"(?:FATAL ERROR: .{0,80})?(?:JavaScript )?heap out of memory"),
    (
        "timeout",
        r"(?:\w{1,40}\.){0,5}(?:(?:API)?TimeoutError|(?:Read|Connect)Timeout(?:Error)?|TimeoutException)(?::|$)",
    ),
    ("timeout", r"\[Errno (?:104|110)\]|(?:ECONNRESET|ETIMEDOUT)\b|Connection (?:reset by peer|timed out)"),
    ("network", r"\[Errno (?:101|111|113|-[235])\]|(?:ECONNREFUSED|ENETUNREACH|EHOSTUNREACH|ENOTFOUND|EAI_AGAIN)\b"),
    ("network", r"Connection refused|Temporary failure in name resolution|Could not resolve host"),
    ("rate_limit", r"[Rr]ate limit(?:ed| reached| exceeded)|Too Many Requests|overloaded_error"),
    ("service_unavailable", r"Service Unavailable|Overloaded\b|Bad Gateway|Gateway Time-?out"),
    ("api_error", r"Internal Server Error"),
    ("validation", r"command not found: |not executable: |agent `[^`]{1,200}`: `[^`]{1,200}` is not on the PATH"),
    ("auth", r"Invalid API key|Unauthorized\b|invalid_api_key|Not logged in"),
)
#: Behind the exception's type or the program's name, and behind the call of the system that Node names.
_CALL = r"(?:(?:connect|read|write|open|mkdir|getaddrinfo|spawn) )?"
_BEFORE = rf"^\W{{0,3}}(?:[A-Za-z_][\w.]{{0,80}}: )?(?:\(\d+\) |<urlopen error )?{_CALL}"
#: Where a line of an error begins so, it is this and nothing else.
_BEGINNINGS = tuple((kind, re.compile(f"{_BEFORE}(?:{text})")) for kind, text in _SAYS)


def of_turn(turn: TurnEvidence, stage: Stage) -> Analysis | None:
    """A call of an agent or a reviewer that failed; None for one that did its turn, or that was ended by the run."""
    if turn.outcome.took_its_turn or not turn.outcome.is_failure:
        return None
    if turn.classified is not None:
        return Analysis(turn.classified.error_type, stage, turn.classified.sign)
    known = _TURNS.get(turn.outcome)
    if known is not None:
        return Analysis(known, stage, str(turn.outcome))
    kind, sign = of_text("\n".join((turn.error, *turn.last_words)))
    if kind is not None:
        return Analysis(kind, stage, sign)
    if turn.exit_code in _NOT_RUNNABLE:
        return Analysis("validation", stage, f"exit code {turn.exit_code}: the command can't be run")
    if turn.exit_code in _WRONG_USE:
        return Analysis("validation", stage, f"exit code {turn.exit_code}")
    if turn.exit_code in {-9, 137}:
        return Analysis("resource_exhausted", stage, "killed from outside, as the system does when memory runs out")
    if turn.exit_code is not None and turn.exit_code < 0:
        return Analysis("crash", stage, f"ended by signal {-turn.exit_code}")
    return Analysis("unknown", stage, f"exit code {turn.exit_code}" if turn.exit_code is not None else "no exit code")


def of_text(text: str) -> tuple[ErrorType | None, str]:
    """What the beginning of one of the lines says."""
    for line in text.splitlines()[:_LINES]:
        start = line.strip()[:_LINE]
        for kind, pattern in _BEGINNINGS:
            found = pattern.match(start)
            if found is not None:
                return kind, found[0].strip(" :.[(")
        status = _STATUS.match(start)
        if status is not None and (by_status := _of_status(int(status["named"] or status["told"]))) is not None:
            return by_status, f"status {status['named'] or status['told']}"
    return None, ""


def _of_status(status: int) -> ErrorType | None:
    if status == _TOO_MANY:
        return "rate_limit"
    if status in _NOT_ALLOWED:
        return "auth"
    if status in _WRONG_REQUEST:
        return "validation"
    if status == _TOO_SLOW:
        return "timeout"
    if status in _UNAVAILABLE:
        return "service_unavailable"
    return "api_error" if status >= _SERVER else None
