"""How an agent's output is read, as data: where its figures stand, and what says how its turn ended."""

from __future__ import annotations

import re
import shlex
from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from pytest_iterctl.plan.values import Value

__all__ = [
    "NO_NUL",
    "AgentOutcome",
    "Argument",
    "Arguments",
    "Command",
    "Match",
    "Pick",
    "Reads",
    "Rule",
    "Scope",
    "Version",
    "groups_of",
]

#: How a turn can end, as far as an agent's own output can say it.
AgentOutcome = Literal[
    "done",
    "tools-denied",
    "asked",
    "rate-limited",
    "no-network",
    "not-logged-in",
    "service-failed",
    "out-of-budget",
    "crashed",
    "unreadable",
]
Scope = Literal["call", "session", "sum", "count"]

NO_NUL = r"^[^\x00]*$"
_LONGEST = 500
_DOTTED = r"^[^.\s]+(\.[^.\s]+)*$"


class Also:
    """Tells the JSON Schema what a validator in front takes besides the type itself."""

    def __init__(self, *schemas: JsonSchemaValue) -> None:
        self._schemas = schemas

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [*self._schemas, handler(core)]}


def _argument_list(value: object) -> object:
    """A command may be written as one line; it is split like a shell would, but never given to a shell."""
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            raise ValueError(f"can't be split into arguments: {error}") from None
    # A validator in front makes pydantic see a Python list, which strict mode does not take for a tuple.
    return tuple(value) if isinstance(value, list) else value


Argument = Annotated[str, Field(pattern=NO_NUL)]
Command = Annotated[
    tuple[Argument, ...],
    Field(min_length=1),
    BeforeValidator(_argument_list),
    Also({"type": "string", "minLength": 1}),
]
Arguments = Annotated[tuple[Argument, ...], BeforeValidator(_argument_list), Also({"type": "string"})]


def _anchored(pattern: str) -> str:
    """A pattern that is held against the start of a line; a word somewhere in a line proves nothing."""
    if not pattern.startswith("^"):
        raise ValueError("a pattern must begin with ^: it is held against the start of each line")
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    return pattern


def _dotted(path: str) -> str:
    if not re.fullmatch(_DOTTED[1:-1], path):
        raise ValueError("is not a path: keys with dots between them, as in usage.input_tokens or models.*.total")
    return path


def groups_of(pattern: str) -> frozenset[str]:
    return frozenset(re.compile(pattern).groupindex)


def _listed(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


Pattern = Annotated[str, Field(min_length=1, max_length=_LONGEST), AfterValidator(_anchored)]
#: Dotted, as in `usage.input_tokens`; `*` stands for any key of a table and any item of a list, `-1` for the last one.
Path = Annotated[str, Field(max_length=_LONGEST, json_schema_extra={"pattern": _DOTTED}), AfterValidator(_dotted)]
Paths = Annotated[tuple[Path, ...], BeforeValidator(_listed), Also({"type": "string", "minLength": 1})]
Scalar = str | int | bool
Scalars = Annotated[
    tuple[Scalar, ...],
    BeforeValidator(lambda value: (value,) if isinstance(value, str | int | bool) else _listed(value)),
    Field(min_length=1),
    Also({"type": ["string", "integer", "boolean"]}),
]
#: Which records are meant: all paths must have one of their values; `*` means that there is one.
Match = dict[Path, Scalars]


def _path_or_table(value: object) -> object:
    return {"path": value} if isinstance(value, str | list) else value


class Pick(Value):
    """Where one thing stands: at paths of a record, or in the groups of a pattern."""

    path: Paths = Field(default=(), description="dotted paths in a record, * for any key; numbers of several add up")
    pattern: Pattern | None = Field(
        default=None, description="regular expression for the start of a line, with named groups"
    )
    source: Literal["stdout", "stderr"] = Field(default="stdout", description="whose lines the pattern is for")
    record: Match = Field(
        default_factory=dict, description="only records that hold these values (default: reads.record)"
    )
    scope: Scope = Field(
        default="call",
        description="call: the last one is the figure; sum: all of them add up; count: how many there are; "
        "session: the last one, which counts since the session began",
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.pattern is not None and (self.path or self.record):
            raise ValueError("either path (with record) or pattern, not both")
        if self.pattern is None and not self.path and self.scope != "count":
            raise ValueError("needs a path or a pattern")
        if self.pattern is not None and self.scope != "count" and not groups_of(self.pattern):
            raise ValueError("a pattern needs a named group, as in (?P<value>…), around what is meant")
        return self


Picked = Annotated[
    Pick,
    BeforeValidator(_path_or_table),
    Also({"type": "string", "minLength": 1}, {"type": "array", "minItems": 1, "items": {"type": "string"}}),
]


class Reads(Value):
    """How to read what an agent prints. Whatever is not named here is not read."""

    format: Literal["json", "text"] = Field(
        default="json", description="json: one object, an array or one object per line, chatter around it or not; text"
    )
    source: Literal["stdout", "both", "output_file"] = Field(
        default="stdout",
        description="where the JSON is: on stdout, on stderr too unless the end is told on stdout (both), "
        "or in the file that {output_file} names",
    )
    record: Match = Field(
        default_factory=dict,
        description="the record that ends a turn: without it nothing is known, and it is meant where a key names none",
    )
    since: Match = Field(
        default_factory=dict, description="what went wrong before the last record that holds these values was mended"
    )
    session_id: Picked | None = Field(default=None, description="the tool's own name for its session")
    cost_usd: Picked | None = Field(default=None, description="US dollars")
    tokens: Picked | None = Field(default=None, description="tokens of all kinds, in and out")
    calls: Picked | None = Field(default=None, description="calls of the model")
    error: Picked | None = Field(default=None, description="why the turn failed; nothing there: it did not")
    denied: Picked | None = Field(default=None, description="names of tools that it was not allowed to use")
    question: Picked | None = Field(default=None, description="what it asks instead of working")
    ends: Pattern | None = Field(
        default=None, description="of a text: its last message ends before the last line that begins so"
    )
    text: Picked | None = Field(default=None, description="its last message; a reviewer's document is looked for in it")


class Rule(Value):
    """One sign of how a turn ended. It applies if everything that it names is so; the first that applies decides."""

    outcome: AgentOutcome = Field(description=f"how the turn ended: {', '.join(get_args(AgentOutcome))}")
    record: Match = Field(default_factory=dict, description="there is a record that holds these values")
    last: bool = Field(default=False, description="and that record is the last one")
    matches: dict[Path, Pattern] = Field(
        default_factory=dict, description="and in it, at these paths, a text that begins as the pattern says"
    )
    error: Pattern | None = Field(default=None, description="a line of reads.error begins so")
    exit_code: tuple[int, ...] = Field(default=(), description="it exited with one of these")
    stdout: Pattern | None = Field(default=None, description="a line of its standard output begins so")
    stderr: Pattern | None = Field(default=None, description="a line of its standard error begins so")
    wait: Picked | None = Field(
        default=None, description="how long to wait: seconds, or a time span in words; a pattern's group wait, too"
    )
    until: Picked | None = Field(
        default=None, description="when to try again, in seconds since 1970; a pattern's group until, too"
    )

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        signs = (self.record, self.matches, self.error, self.exit_code, self.stdout, self.stderr)
        if not any(signs):
            raise ValueError("a rule needs at least one of record, matches, error, exit_code, stdout and stderr")
        return self


class Version(Value):
    """How to ask a tool for its version, and which one the rest was written for."""

    command: Command = Field(description="prints the version")
    pattern: Pattern = Field(description="finds it at the start of a line, in the group version")
    tested: str = Field(default="", description="the version that this entry was tried with")

    @model_validator(mode="after")
    def _has_group(self) -> Self:
        if "version" not in groups_of(self.pattern):
            raise ValueError("the pattern needs the group (?P<version>…)")
        return self
