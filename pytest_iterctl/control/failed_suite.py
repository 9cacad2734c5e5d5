"""What kind of failure a test run was that did not pass, by its outcome first, then by exception types and numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from pytest_iterctl.control.error_types import Analysis, ErrorType
from pytest_iterctl.control.evidence import Failure, Outcome, SuiteEvidence
from pytest_iterctl.control.failed_turn import of_text

__all__ = ["of_suite"]

_LOOKED_AT, _LINE = 10_000, 300
_NAMES: tuple[tuple[ErrorType, tuple[str, ...]], ...] = (
    ("syntax", ("SyntaxError", "IndentationError", "TabError")),
    ("import", ("ImportError", "ModuleNotFoundError")),
    ("assertion", ("AssertionError", "Failed", "AssertionFailedError", "ComparisonFailure", "DocTestFailure", "panic")),
    ("type", ("TypeError", "AttributeError", "NameError", "UnboundLocalError", "NotImplementedError")),
    ("resource_exhausted", ("MemoryError", "OutOfMemoryError")),
    ("timeout", ("TimeoutError", "ConnectionResetError", "BrokenPipeError", "TimeoutExpired", "ReadTimeout")),
    ("timeout", ("ConnectTimeout", "ReadTimeoutError", "ConnectTimeoutError")),
    ("network", ("ConnectionRefusedError", "NewConnectionError")),
)
_KINDS: Mapping[str, ErrorType] = MappingProxyType({name: kind for kind, names in _NAMES for name in names})
#: What a project calls its own exceptions after; of what they are made no report tells.
_ENDINGS: tuple[tuple[ErrorType, tuple[str, ...]], ...] = (
    ("assertion", ("AssertionError",)),
    ("import", ("ImportError",)),
    ("timeout", ("TimeoutError", "Timeout")),
)
#: Whose exceptions those of the network are; "" is Python itself. A project's own of the same name may be anything.
_OF_THE_NETWORK = frozenset({"", "builtins", "socket", "urllib3"})
#: These hide what would come after them, so one of them names the whole, where no test raised it itself.
_HIDING: tuple[ErrorType, ...] = ("syntax", "import", "collection", "crash")
_BEFORE_THE_TESTS = frozenset({"collect", "session"})
#: What the machine lacked, and not the code: only where every failure says so.
_SURROUNDINGS: frozenset[ErrorType] = frozenset(("network", "timeout", "resource_exhausted"))
#: The words of pytest-timeout alone, of its older versions too; and how a run ends whose process it ended.
_TIMED_OUT = re.compile(r"(?:Failed: )?Timeout (?:\(>[\d.]{1,20}s\) from pytest-timeout\b|>[\d.]{1,20}s\s*(?:\n|$))")
_ENDED_IT = ": ended by pytest-timeout"
#: As pytest-xdist tells it.
_WORKER_DIED = re.compile(r"^worker '[^']{1,60}' crashed while running ")
#: What the message says of these says what it was.
_OF_THE_SYSTEM = frozenset(
    {"OSError", "IOError", "ConnectionError", "URLError", "BlockingIOError", "PermissionError", "gaierror", "herror"}
)


def of_suite(suite: SuiteEvidence) -> Analysis | None:
    """A test run that did not pass."""
    if suite.passed:
        return None
    if suite.classified is not None:
        return Analysis(suite.classified.error_type, "test", suite.classified.sign)
    if suite.intermittent and set(suite.intermittent) == set(suite.failing):
        return Analysis("flaky", "test", "all that failed passed when it was run once more")
    match suite.outcome:
        case Outcome.TIMED_OUT:
            return Analysis("timeout", "test", suite.reason or "no end in time")
        case Outcome.USAGE_ERROR | Outcome.NO_TESTS:
            return Analysis("validation", "test", suite.reason or str(suite.outcome))
        case Outcome.CRASHED | Outcome.NO_REPORT | Outcome.INCOMPLETE | Outcome.INTERRUPTED:
            return _of_crash(suite)
        case _:
            return _of_failures(suite)


def _of_crash(suite: SuiteEvidence) -> Analysis:
    if suite.reason.endswith(_ENDED_IT):
        return Analysis("timeout", "test", suite.reason)
    failures = [(failure, _of_failure(failure)) for failure in suite.failures[:_LOOKED_AT]]
    kinds = {kind for failure, kind in failures if kind == "resource_exhausted" or failure.phase in _BEFORE_THE_TESTS}
    named = next((kind for kind in (*_HIDING[:3], "resource_exhausted") if kind in kinds), None)
    if named is not None:
        return Analysis(named, "test", suite.reason)
    for failure, _ in failures:
        kind, sign = of_text(f"{failure.message}\n{failure.output}")
        if kind in _SURROUNDINGS:
            return Analysis(kind, "test", sign)
    if suite.exit_code in {-9, 137}:
        return Analysis("resource_exhausted", "test", "killed from outside, as the system does when memory runs out")
    return Analysis("crash", "test", suite.reason or str(suite.outcome))


def _of_failures(suite: SuiteEvidence) -> Analysis:
    counts: Counter[ErrorType] = Counter()
    signs: dict[ErrorType, str] = {}
    hiding: dict[ErrorType, str] = {}
    for failure in suite.failures[:_LOOKED_AT]:
        kind = _of_failure(failure) or "unknown"
        counts[kind] += 1 + len(failure.also)
        signs.setdefault(kind, _sign(failure))
        if kind == "crash" or failure.phase in _BEFORE_THE_TESTS:
            hiding.setdefault(kind, _sign(failure))
    if not counts:
        broken = suite.outcome is Outcome.COLLECTION_ERROR
        return Analysis("collection" if broken else "unknown", "test", suite.reason or str(suite.outcome))
    for kind in _HIDING:
        if kind in hiding:
            return Analysis(kind, "test", hiding[kind])
    code: list[tuple[ErrorType, int]] = [(kind, n) for kind, n in counts.items() if kind not in _SURROUNDINGS]
    most = max(code or counts.items(), key=lambda pair: pair[1])[0]
    return Analysis(most, "test", signs[most])


def _of_failure(failure: Failure) -> ErrorType | None:
    name = failure.kind.rpartition(".")[2]
    if name == "Failed" and _TIMED_OUT.match(failure.message):
        return "timeout"
    if not name and _WORKER_DIED.match(failure.message):
        return "crash"
    known = _KINDS.get(name) or next((kind for kind, endings in _ENDINGS if name.endswith(endings)), None)
    if known == "network" and _owner(failure, name) not in _OF_THE_NETWORK:
        known = None
    if known is None and name in _OF_THE_SYSTEM:
        said, _ = of_text(_sign(failure))
        known = said if said in _SURROUNDINGS else None
    if known in {None, "assertion", "type"} and failure.phase == "collect":
        return "collection"
    return known


def _owner(failure: Failure, name: str) -> str:
    """The package that an exception is of, where the report's type or the beginning of the message tells it."""
    told = failure.message[:_LINE].partition(":")[0]
    dotted = failure.kind if "." in failure.kind or not told.endswith(f".{name}") else told
    return dotted.removesuffix(name).partition(".")[0]


def _sign(failure: Failure) -> str:
    first = failure.message.strip().partition("\n")[0][:_LINE]
    return first if failure.kind and first.startswith(failure.kind) else f"{failure.kind}: {first}".strip(": ")
