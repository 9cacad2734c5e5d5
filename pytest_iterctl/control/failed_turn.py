"""What kind of failure a turn was that an agent or a reviewer did not do, by how it ended first and words last."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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
#: What the run itself says where it could not start a command. Elsewhere these words are about another command.
_NOT_STARTED = re.compile(r"command not found: |not executable: |agent `[^`]{1,200}`: `[^`]{1,200}` is not on the PATH")

#: What may stand in front: exceptions that wrap each other, a program in its own form. Never any word and a colon.
_EXCEPTION = r"(?:[A-Za-z_]\w{0,60}\.){0,6}\w{0,60}(?:Error|Exception|Timeout|error|ERROR)"
_DOTTED = r"(?:[A-Za-z_]\w{0,60}\.){1,6}[A-Z]\w{0,60}"
_PROGRAM = (
    r"curl: \(\d{1,2}\)|fatal:(?: unable to access '[^']{1,200}':)?|npm (?:ERR!|error)|\[cause\]:"
    r"|ssh:(?: connect to host \S{1,200} port \d{1,5}:)?"
)
_FRONT = (
    r"[\[(!✗✘✖×❌⚠]{0,2}\ufe0f? ?(?:Uncaught )?"
    rf"(?:(?:(?:API )?{_EXCEPTION}:|{_DOTTED}:|{_PROGRAM}) ){{0,3}}(?:<urlopen error )?"
)
#: What may stand behind: nothing, or what is told about it. "Overloaded methods are resolved" is about something else.
_END = r"[.!]?['\"\])>]{0,2}$"
_BEHIND = rf"(?:{_END}|: | - | ?\(|\.? (?:for url\b|\{{))"

#: A status of HTTP: named as one, or with the words that go with it. Any other number may count anything.
_REASON = (
    r"(?:Too Many Requests|Service (?:Temporarily )?Unavailable|Internal Server Error|Bad Gateway|Gateway Time-?out"
    r"|Overloaded|Request Time-?out|Unauthorized|Authorization Required|Forbidden|Bad Request|Not Found"
    r"|(?:Payload|Content) Too Large|Unprocessable (?:Entity|Content)"
    r"|RESOURCE_EXHAUSTED|UNAVAILABLE|UNAUTHENTICATED|PERMISSION_DENIED|INVALID_ARGUMENT)"
)
_TOLD = rf"(?::| -)? (?:{_REASON}{_BEHIND}|\{{)"
_STATUS_CODE = r"(?:HTTP )?[Ss]tatus[ _]?[Cc]ode(?:: ?|=| )"
_STATUS = re.compile(
    rf"{_FRONT}(?:"
    rf"(?:HTTP (?:[Ee]rror |[Ss]tatus )?|(?:Request failed with |[Uu]nexpected )?{_STATUS_CODE}|[Uu]nexpected status "
    rf"|[Ee]rror [Cc]ode(?:: ?|=| )|The requested URL returned error: )"
    rf"(?P<named>[45]\d\d)(?:{_END}|{_TOLD}|(?P<freely>: | - |, | \(| for url\b))"
    rf"|(?:HTTP/[\d.]{{1,3}}|API Error:) (?P<answer>[45]\d\d)(?:$| [A-Z])"
    rf"|(?:(?:API )?[Ee]rror[: ] ?|[Ss]tatus(?:: ?|=| ))(?P<called>[45]\d\d)(?:{_END}|{_TOLD})"
    rf"|(?P<bare>[45]\d\d)"
    rf"(?:{_TOLD}| (?:Client|Server) Error(?:{_END}|:.{{0,120}} for url\b)| status code\b|, message=')"
    rf"|(?:Client|Server) error '(?P<quoted>[45]\d\d)[^']{{0,80}}' for url\b)"
)
_WRONG_REQUEST, _NOT_ALLOWED, _TOO_SLOW = frozenset({400, 404, 413, 422}), frozenset({401, 403}), 408
_TOO_MANY, _UNAVAILABLE, _SERVER = 429, frozenset({502, 503, 504, 529}), 500

#: Behind the system's short names for errors: an address, or the system's own words.
_CODE = (
    rf"(?:(?: (?:\d|::|/|[\w-]{{1,60}}\.\w)\S{{0,200}})?(?:{_END}| - )"
    r"|: (?:no space|not enough|too many|file table|cannot|connect|operation|network))"
)
#: And the call before them that Node names.
_CALL = r"(?:(?:connect|read|write|open|mkdir|spawn) )?"
_POOL = r"HTTPS?ConnectionPool\(host='[^']{0,200}', port=\d{1,5}\): "
_CAUSED = rf"{_POOL}Max retries exceeded with url: \S{{0,200}} \(Caused by "
_SAYS: tuple[tuple[ErrorType, str], ...] = (
    ("resource_exhausted", rf"\[Errno (?:12|23|24|28|122)\] [A-Z]|{_CALL}(?:ENOSPC|ENOMEM|EMFILE|ENFILE){_CODE}"),
    ("resource_exhausted", rf"(?:No space left on device|Cannot allocate memory|Too many open files){_BEHIND}"),
    (
        "resource_exhausted",
        rf"(?:Out of memory|(?:FATAL ERROR: .{{0,80}})?(?:JavaScript )?heap out of memory){_BEHIND}",
    ),
    ("resource_exhausted", rf"Killed(?:: 9)?{_END}"),
    ("timeout", rf"\[Errno (?:104|110)\] [A-Z]|{_CALL}(?:ECONNRESET|ETIMEDOUT){_CODE}"),
    ("timeout", rf"(?:Recv failure: )?(?:Connection reset by peer|Connection timed out){_BEHIND}|curl: \(28\) [A-Z]"),
    ("timeout", r"\('Connection aborted\.', (?:ConnectionResetError|RemoteDisconnected)\("),
    ("timeout", rf"{_POOL}Read timed out|{_CAUSED}(?:Connect|Read)TimeoutError\("),
    ("network", r"\[Errno (?:101|111|113|-[235])\] [A-Z]"),
    ("network", rf"{_CALL}(?:ECONNREFUSED|ENETUNREACH|EHOSTUNREACH|ENOTFOUND|EAI_AGAIN){_CODE}"),
    ("network", rf"getaddrinfo (?:ENOTFOUND|EAI_AGAIN)(?: \S{{1,200}})?{_END}"),
    ("network", rf"{_CAUSED}(?:NewConnection|NameResolution)Error\("),
    ("network", rf"(?:Connection refused|Network is unreachable|No route to host){_BEHIND}"),
    ("network", rf"(?:Temporary failure in name resolution|Could not resolve host(?:name \S{{1,200}})?){_BEHIND}"),
    ("network", r"curl: \([567]\) [A-Z]|Failed to connect to \S{1,200} port \d"),
    # Node's fetch; the cause, if it is told, stands below and was read before.
    ("network", rf"(?:fetch failed|Connection error){_END}"),
    ("rate_limit", rf"(?:[Rr]ate limit(?:ed| reached| exceeded)(?: for requests)?|Too Many Requests){_BEHIND}"),
    ("rate_limit", r"Rate limit reached for \S{1,80} (?:\(.{1,60}\) )?in organization "),
    ("service_unavailable", rf"(?:Service Unavailable|Bad Gateway|Gateway Time-?out|overloaded_error){_BEHIND}"),
    ("service_unavailable", rf"Overloaded{_END}"),
    ("api_error", rf"Internal Server Error{_BEHIND}"),
    # What does not go away by itself is the whole of a line.
    ("auth", rf"(?:Invalid API key|Not logged in)(?:(?:\.| ·) Please run /login)?{_END}"),
    ("auth", rf"(?:invalid_api_key|Unauthorized){_END}"),
)
#: Where a line of an error begins so, it is this and nothing else.
_BEGINNINGS = tuple((kind, re.compile(f"{_FRONT}(?:{text})")) for kind, text in _SAYS)

_PERMANENT = frozenset({"auth", "validation"})
_NAMES: tuple[tuple[ErrorType, tuple[str, ...]], ...] = (
    ("resource_exhausted", ("MemoryError",)),
    ("timeout", ("TimeoutError", "APITimeoutError", "TimeoutException", "ReadTimeout", "ConnectTimeout")),
    ("timeout", ("ReadTimeoutError", "ConnectTimeoutError", "socket.timeout")),
    ("timeout", ("ConnectionResetError", "RemoteDisconnected")),
    ("network", ("APIConnectionError", "ConnectError", "NewConnectionError", "ClientConnectorError")),
    ("network", ("ConnectionRefusedError", "socket.gaierror", "socket.herror")),
    ("rate_limit", ("RateLimitError", "RateLimitExceeded", "ResourceExhausted")),
    ("service_unavailable", ("ServiceUnavailableError", "ServiceUnavailable", "OverloadedError")),
    ("api_error", ("InternalServerError",)),
    ("auth", ("AuthenticationError", "PermissionDeniedError")),
)
_RAISED: Mapping[str, ErrorType] = MappingProxyType({name: kind for kind, names in _NAMES for name in names})
_RAISES = re.compile(rf"(?:Uncaught )?({_EXCEPTION}|{_DOTTED}|socket\.timeout)(?::(?: (.*))?)?$")
#: So many exceptions may wrap each other in one line.
_WRAPPED = 3
_NOT_LET_IN = re.compile(r"40[13]\b")
#: An exception that is not listed says that it was something else. This one says: see what the program printed.
_SPECIFIC = re.compile(r"(?:\w{1,60}\.){0,6}(?!CalledProcessError)[A-Z]\w{1,80}(?:Error|Exception)")


def of_turn(turn: TurnEvidence, stage: Stage) -> Analysis | None:
    """A call of an agent or a reviewer that failed; None for one that did its turn, or that was ended by the run."""
    if turn.outcome.took_its_turn or not turn.outcome.is_failure:
        return None
    if turn.classified is not None:
        return Analysis(turn.classified.error_type, stage, turn.classified.sign)
    known = _TURNS.get(turn.outcome)
    if known is not None:
        return Analysis(known, stage, str(turn.outcome))
    if not_started := _NOT_STARTED.match(turn.error):
        return Analysis("validation", stage, not_started[0].strip(" :"))
    kind, sign = _of_last_words((*turn.error.splitlines()[:_LINES], *turn.last_words))
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
    found = (_of_line(line.strip()[:_LINE]) for line in text.splitlines()[:_LINES])
    return next((each for each in found if each[0] is not None), (None, ""))


def _of_last_words(lines: Iterable[str]) -> tuple[ErrorType | None, str]:
    """What the line says that is nearest to the end, where a later one does not name an exception of its own."""
    for line in lines:
        start = line.strip()[:_LINE]
        kind, sign = _of_line(start)
        if kind is not None:
            return kind, sign
        raised = _RAISES.match(start)
        if raised is not None and _SPECIFIC.fullmatch(raised[1]):
            break
    return None, ""


def _of_line(start: str) -> tuple[ErrorType | None, str]:
    found = _STATUS.match(start)
    if found is not None:
        number = next(filter(None, found.group("named", "answer", "called", "bare", "quoted")))
        by_status = _of_status(int(number))
        # "HTTP 401: mended" goes on as anybody would write it.
        if by_status is not None and not (found["freely"] and by_status in _PERMANENT):
            return by_status, f"status {number}"
    for kind, pattern in _BEGINNINGS:
        found = pattern.match(start)
        if found is not None:
            return kind, found[0].strip(" :.[(")
    return _of_exception(start)


def _of_exception(start: str) -> tuple[ErrorType | None, str]:
    """What the exception says that a line names, or one that it wraps."""
    told = start.removeprefix("[cause]: ")
    for _ in range(_WRAPPED):
        raised = _RAISES.match(told)
        if raised is None:
            break
        name, told = raised[1], raised[2] or ""
        kind = _RAISED.get(name) or _RAISED.get(name.rpartition(".")[2])
        # A project may well have an AuthenticationError of its own; a library's has a module, or a status.
        if kind is not None and (kind not in _PERMANENT or "." in name or _NOT_LET_IN.match(told)):
            return kind, name
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
