"""What kinds of failures there are: whether they go away by themselves, how bad they are, what to do about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from pytest_iterctl.control.evidence import ErrorType, Priority
from pytest_iterctl.text import one_line

__all__ = ["ERROR_TYPES", "Analysis", "ErrorType", "Stage"]

ERROR_TYPES: tuple[ErrorType, ...] = get_args(ErrorType)
Stage = Literal["generate", "test", "review"]


@dataclass(frozen=True, slots=True)
class Analysis:
    """What is known of one failure. `sign` says by what it is known."""

    error_type: ErrorType
    stage: Stage
    sign: str

    @property
    def transient(self) -> bool:
        """Whether it may be gone the next time although nobody has mended anything."""
        return self.error_type in _TRANSIENT

    @property
    def severity(self) -> Priority:
        return _SEVERITY[self.error_type]

    @property
    def actions(self) -> tuple[str, ...]:
        """What a person or an agent can do about it, the likeliest first."""
        return _ACTIONS[self.error_type]

    @property
    def document(self) -> dict[str, object]:
        """As reports and feedback hold it."""
        return {
            "error_type": self.error_type,
            "transient": self.transient,
            "severity": self.severity,
            "stage": self.stage,
            "sign": one_line(self.sign, _SIGN),
            "actions": list(self.actions),
        }


_SIGN = 300
_TRANSIENT: frozenset[ErrorType] = frozenset(
    (
        *("timeout", "rate_limit", "api_error", "service_unavailable", "network"),
        *("resource_exhausted", "partial_failure", "non_critical_error"),
    )
)
_SEVERITY: Mapping[ErrorType, Priority] = MappingProxyType(
    {
        "auth": "critical",
        "validation": "critical",
        "resource_exhausted": "critical",
        "crash": "high",
        "collection": "high",
        "import": "high",
        "syntax": "high",
        "timeout": "high",
        "service_unavailable": "high",
        "api_error": "high",
        "network": "high",
        "rate_limit": "medium",
        "assertion": "medium",
        "type": "medium",
        "unknown": "medium",
        "partial_failure": "low",
        "non_critical_error": "low",
        "flaky": "low",
    }
)
_ACTIONS: Mapping[ErrorType, tuple[str, ...]] = MappingProxyType(
    {
        "timeout": ("look for a loop that does not end", "give it more time (timeout, test_timeout)"),
        "rate_limit": ("wait for as long as the service says", "name another agent under fallback"),
        "api_error": ("call it again later", "name another agent under fallback"),
        "service_unavailable": ("call it again later", "name another agent under fallback"),
        "network": ("check the network and the proxy", "name another agent under fallback"),
        "resource_exhausted": ("free memory, disk or file handles", "run fewer things at once"),
        "partial_failure": ("see what the optional stage says",),
        "non_critical_error": ("see what the optional stage says",),
        "auth": ("log in again or renew the key", "pass the variable with the key on (pass_env)"),
        "validation": ("correct the command, the plan or the input",),
        "collection": ("mend the file that can't be collected first: it hides its tests",),
        "import": ("mend the import first: it hides the tests behind it", "install what is missing"),
        "syntax": ("mend the syntax first: it hides the tests behind it",),
        "assertion": ("compare what the test expects with what the code gives",),
        "type": ("check the types and attributes that the call meets",),
        "crash": ("find what ended the process: a fault in compiled code, a signal, an exit",),
        "flaky": ("make the test independent of time, chance and order",),
        "unknown": ("read the first failure",),
    }
)
