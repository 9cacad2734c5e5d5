"""What pydantic found wrong, in plain English and at the path that the author wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from pytest_iterctl.plan.model import (
    ENVIRONMENT_NAME,
    NO_NUL,
    RUN_WIDE,
    Agent,
    Budget,
    Plan,
    SafetyPatch,
    SettingsPatch,
    Task,
    TestCommand,
)
from pytest_iterctl.plan.problems import Finding, KeyPath, either, quoted
from pytest_iterctl.plan.reads import Pick, Reads, Rule, Version

__all__ = ["Complaint", "complaint", "findings"]

_EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "a table",
    "float_type": "a number",
    "int_type": "an integer",
    "model_type": "a table",
    "string_type": "a string",
    "string_unicode": "text",
    "tuple_type": "a list",
}
_PATTERNS = {
    NO_NUL: "has a NUL character",
    ENVIRONMENT_NAME: "is not the name of an environment variable",
}
_NAME = "is not a name: 1 to 64 letters, digits, `.`, `_` or `-`, the first a letter or digit"

#: Keys that this version refuses but a later one will know, by the table that they stand in.
_LATER: Mapping[type[BaseModel], frozenset[str]] = {
    Agent: frozenset({"for_gaps"}),
    SettingsPatch: frozenset(
        {
            *("stages", "until"),
        }
    ),
}


@dataclass(frozen=True, slots=True)
class Complaint:
    """A message with its hint, or with what a did-you-mean hint is made of."""

    message: str
    hint: str = ""
    word: str = ""
    known: tuple[str, ...] = ()


def findings(error: ValidationError, data: object) -> Iterator[Finding]:
    for details in error.errors(include_url=False):
        yield _finding(details, data)


def _finding(details: ErrorDetails, data: object) -> Finding:
    path, value, at_key = _written(details["loc"], data)
    if details["type"] == "extra_forbidden":
        found = _unknown_key(path)
        at_key = True
    elif details["type"] == "missing":
        key = str(details["loc"][-1])
        found = Complaint(f"{quoted(key)} is missing")
    else:
        found = complaint(details, value)
        at_key = at_key or (isinstance(value, dict) and bool(path) and isinstance(path[-1], str))
    return Finding(path, found.message, found.hint, at_key=at_key, word=found.word, known=found.known)


def _written(location: tuple[int | str, ...], data: object) -> tuple[KeyPath, object, bool]:
    """The part of pydantic's location that is in the file; steps through unions and validators are not.

    Returns the path, the value there, and whether it is the key that is wrong.
    """
    path: list[str | int] = []
    value = data
    for part in location:
        if isinstance(value, dict) and part in value:  # noqa: SIM114 - joined, mypy loses which of both it is
            path.append(part)
            value = value[part]
        elif isinstance(value, list) and isinstance(part, int):
            path.append(part)
            value = value[part]
    at_key = location[-1:] == ("[key]",) and path[-1:] != ["[key]"]
    return tuple(path), path[-1] if at_key else value, at_key


def _unknown_key(path: KeyPath) -> Complaint:
    key = str(path[-1])
    model = _model_at(path[:-1])
    if any(key in later for base, later in _LATER.items() if issubclass(model, base)) or (
        model is Plan and key in _LATER[SettingsPatch]
    ):
        return Complaint("is not supported by this version", "remove it")
    if model is Plan and key in SettingsPatch.model_fields:
        return Complaint("unknown key", f"{quoted(key)} belongs under `settings`")
    known = tuple(name for name in model.model_fields if not (model is Task and name in RUN_WIDE))
    return Complaint("unknown key", word=key, known=known)


def _model_at(path: KeyPath) -> type[BaseModel]:
    """The model of the table at a path. All tables that have a fixed set of keys are named here."""
    match path:
        case (*_, "safety"):
            return SafetyPatch
        case ("settings",):
            return SettingsPatch
        case ("agents", _):
            return Agent
        case ("agents", _, *below):
            return _agent_table(below)
        case ("tasks", _):
            return Task
        case ("tasks", _, "test"):
            return TestCommand
        case _:
            return Plan


def _agent_table(path: Sequence[str | int]) -> type[BaseModel]:
    match path:
        case ("reads",):
            return Reads
        case ("reads", _) | ("outcomes", _, "wait" | "until"):
            return Pick
        case ("outcomes", _):
            return Rule
        case ("budget",):
            return Budget
        case ("version",):
            return Version
        case _:
            return Agent


def complaint(details: ErrorDetails, value: object) -> Complaint:
    """What to say about one wrong value."""
    kind, context = details["type"], details.get("ctx", {})
    if kind in _EXPECTED:
        return Complaint(f"expected {_EXPECTED[kind]}, got {_kind(value)}", _type_hint(kind, value))
    match kind:
        case "greater_than_equal":
            return Complaint(f"must be at least {context['ge']:.15g}")
        case "less_than_equal":
            return Complaint(f"must be at most {context['le']:.15g}")
        case "too_short" | "string_too_short":
            return Complaint("must not be empty")
        case "string_pattern_mismatch":
            return Complaint(_pattern(str(context["pattern"]), value))
        case "literal_error":
            return _literal(str(context["expected"]), value)
        case "value_error":
            return Complaint(str(context["error"]))
        case _:
            return Complaint(details["msg"].replace("Input should be", "must be"))


def _kind(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case int():
            return "an integer"
        case float():
            return "a number"
        case str():
            return "a string"
        case dict():
            return "a table"
        case list() | tuple():
            return "a list"
        case _:
            return "a date"


def _type_hint(kind: str, value: object) -> str:
    if kind == "string_type" and isinstance(value, bool | int | float):
        return "put it in quotation marks"
    if kind == "tuple_type" and isinstance(value, str):
        return f"write it as a list: `[{quoted(value)[1:-1]}]`"
    if kind in {"int_type", "float_type"} and isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?", value):
        return "remove the quotation marks"
    return ""


def _pattern(pattern: str, value: object) -> str:
    # Names of tasks and agents are what all other patterns are for.
    return f"{quoted(str(value))} {_PATTERNS.get(pattern, _NAME)}"


def _literal(expected: str, value: object) -> Complaint:
    words = tuple(re.findall(r"'([^']*)'", expected)) or (expected,)
    if isinstance(value, str):
        return Complaint(f"expected {either(words)}, got {quoted(value)}", word=value, known=words)
    got = str(value) if type(value) is int else _kind(value)
    return Complaint(f"expected {either(words)}, got {got}")
