"""The plan as its author writes it: settings, agents and tasks. What is not said stays unsaid until it is frozen."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from pytest_iterctl.errors import UsageError
from pytest_iterctl.plan import values
from pytest_iterctl.plan.endpoints import Endpoint
from pytest_iterctl.plan.problems import did_you_mean, quoted
from pytest_iterctl.plan.reads import NO_NUL, Also, Argument, Arguments, Command, Reads, Rule, Version
from pytest_iterctl.plan.values import Name, Value

__all__ = [
    "BUILT_IN_AGENTS",
    "ENVIRONMENT_NAME",
    "NO_NUL",
    "PLACEHOLDERS",
    "RUN_WIDE",
    "STRATEGY_MODES",
    "Agent",
    "Backoff",
    "Baseline",
    "Budget",
    "Flaky",
    "Gate",
    "Limits",
    "OnEscalate",
    "Patience",
    "Plan",
    "Prepare",
    "SafetyLevel",
    "SafetyPatch",
    "SandboxMode",
    "Session",
    "SettingsPatch",
    "StrategyChoice",
    "StrategyMode",
    "Task",
    "TestCommand",
]

#: Agents that need no entry under `agents:`. `hook` calls the Python hooks, `person` asks at the terminal.
BUILT_IN_AGENTS = ("hook", "person")

SafetyLevel = Literal["permissive", "normal", "paranoid"]
SandboxMode = Literal["auto", "bwrap", "none"]
OnEscalate = Literal["best", "last", "base"]
Backoff = Literal["none", "linear", "exponential"]
Session = Literal["fresh", "resume"]
Gate = Literal["fast", "full"]
Baseline = Literal["compare", "strict"]
Flaky = Literal["report", "fail"]

#: How strategies are chosen; a strategy's own name pins it.
StrategyMode = Literal[
    "auto",
    "conservative",
    "aggressive",
    "default",
    "aggressive-timeout",
    "fallback-providers",
    "reduced-parallelism",
    "fresh-context",
    "narrow",
]
STRATEGY_MODES: tuple[StrategyMode, ...] = get_args(StrategyMode)
#: Or one that a Python hook adds, which nobody knows before the project's hooks are asked.
StrategyChoice = StrategyMode | Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")]

#: Settings that hold for a whole run; no task has its own.
RUN_WIDE = frozenset({"safety", "sandbox"})

ENVIRONMENT_NAME = r"^[^=\x00]+$"

#: What is put in the place of `{…}` in an agent's arguments. Other words in braces stay as they are.
PLACEHOLDERS = (
    "prompt",
    "prompt_file",
    "output_file",
    "session_id",
    "new_session",
    "private",
    "max_cost",
    "max_turns",
)
_BOUNDS = ("max_cost", "max_turns")
_BRACED = re.compile(r"\{([A-Za-z_-]{3,24})\}")

Money = Annotated[float, Field(ge=0, le=1_000_000)]
Bound = Annotated[int, Field(ge=1, le=10_000)]
Duration = Annotated[
    values.Duration,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^\s*(\d+(\.\d+)?|(\d+(\.\d+)?\s*(ms|s|min|m|h|d)\s*)+)\s*$"},
                {"type": "number", "exclusiveMinimum": 0},
            ]
        }
    ),
]
EnvironmentName = Annotated[str, Field(pattern=ENVIRONMENT_NAME)]


class SafetyPatch(Value):
    """What a run may spend. The level sets every limit, the other keys override one each."""

    level: SafetyLevel | None = Field(default=None, description="permissive, normal (default) or paranoid")
    max_cost_per_iteration: Money | None = Field(default=None, description="US dollars that one iteration may cost")
    max_total_cost: Money | None = Field(default=None, description="US dollars that the whole run may cost")
    max_duration_per_iteration: Duration | None = Field(default=None, description="time that one iteration may take")
    max_total_duration: Duration | None = Field(default=None, description="time that the whole run may take")
    max_calls_per_iteration: Bound | None = Field(
        default=None, description="model calls per iteration where the agent reports them, else agent runs"
    )
    require_cost: bool | None = Field(
        default=None, description="stop after a call of which nobody says what it cost (default false)"
    )
    allow_destructive_operations: bool | None = Field(
        default=None, description="an agent may empty the project, rewrite git's history and touch .git"
    )
    allow_external_api_calls: bool | None = Field(
        default=None, description="agents and tests may use the network; false: agents only the endpoints they name"
    )
    allow_outside_writes: bool | None = Field(
        default=None, description="agents and tests may write outside of the work tree; false needs a sandbox"
    )


def _level_or_table(value: object) -> object:
    return {"level": value} if isinstance(value, str) else value


Safety = Annotated[
    SafetyPatch, BeforeValidator(_level_or_table), Also({"type": "string", "enum": list(get_args(SafetyLevel))})
]


class Limits(Value):
    """Every safety limit with its value: what a level and its overrides come to."""

    level: SafetyLevel
    max_cost_per_iteration: float
    max_total_cost: float
    max_duration_per_iteration: float
    max_total_duration: float
    max_calls_per_iteration: int
    require_cost: bool = False
    allow_destructive_operations: bool = False
    allow_external_api_calls: bool = True
    allow_outside_writes: bool = True

    @property
    def need_walls(self) -> bool:
        """Whether only a sandbox can hold them."""
        return not (self.allow_external_api_calls and self.allow_outside_writes)


Times = Annotated[int, Field(ge=0, le=1000)]


def _from(least: int) -> Callable[[int], int]:
    def checked(times: int) -> int:
        if 0 < times < least:
            raise ValueError(f"is less than it takes to tell: 0 for never, or {least} and more")
        return times

    return checked


class Patience(Value):
    """When it is of no use to go on: times, and 0 for a rule that is off. Progress begins anew."""

    no_change: Times = Field(default=2, description="iterations in a row in which the agent changed nothing")
    same_diff: Annotated[Times, AfterValidator(_from(2))] = Field(
        default=2, description="iterations whose change is the very same (0, or 2 and more)"
    )
    same_failures: Annotated[Times, AfterValidator(_from(2))] = Field(
        default=3, description="iterations in a row with the same failures, each with another change (0, or 2 and more)"
    )
    alternating: Annotated[Times, AfterValidator(_from(3))] = Field(
        default=4,
        description="iterations in a row whose failures alternate between two kinds (0, or 3 and more)",
    )
    no_progress: Times = Field(default=3, description="iterations in which none was better than the best before them")


def _patience_or_table(value: object) -> object:
    return dict.fromkeys(Patience.model_fields, 0) if value == "off" else value


PatienceSetting = Annotated[Patience, BeforeValidator(_patience_or_table), Also({"type": "string", "enum": ["off"]})]


def _is_glob(glob: str) -> str:
    if not glob.strip(" !/") or glob != glob.strip() or any(ord(character) < ord(" ") for character in glob):
        raise ValueError("is no pattern for files: name a file, a folder or a glob such as `docs/**`")
    if glob.removeprefix("!").startswith("/") or ".." in glob.split("/"):
        raise ValueError("must be relative to the repository's root and stay below it")
    return glob


Glob = Annotated[str, Field(min_length=1, pattern=NO_NUL), AfterValidator(_is_glob)]


class Prepare(Value):
    """What the clean room needs beyond the files that git knows."""

    commands: tuple[Command, ...] = Field(
        default=(), description="commands that are run in the room before the tests, such as a build; in this order"
    )
    files: tuple[Glob, ...] = Field(
        default=(), description="ignored files or folders that the tests need, as they are when the run starts"
    )


def _commands_or_table(value: object) -> object:
    """`prepare: make build` and a list of commands are short for the commands alone."""
    if isinstance(value, str):
        return {"commands": (value,)}
    if isinstance(value, dict):
        # A validator in front makes pydantic see a Python list, which strict mode does not take for a tuple.
        return {key: tuple(each) if isinstance(each, list) else each for key, each in value.items()}
    return {"commands": tuple(value)} if isinstance(value, list | tuple) else value


Preparation = Annotated[
    Prepare, BeforeValidator(_commands_or_table), Also({"type": "string", "minLength": 1}, {"type": "array"})
]


def _from_root_or_home(path: str) -> str:
    if not path.startswith(("/", "~/")) or path.strip("/") in {"", "~"} or ".." in path.split("/"):
        raise ValueError("is no folder for a sandbox: begin with / or ~/, and name one in it")
    return path


Folder = Annotated[str, Field(min_length=1, pattern=NO_NUL), AfterValidator(_from_root_or_home)]


class SettingsPatch(Value):
    """Settings that may be given on the command line, in the environment, per task, per plan or in pytest's ini."""

    max_iterations: Bound | None = Field(default=None, description="iterations before a person is asked (default 3)")
    auto_retry_on_test_fail: bool | None = Field(
        default=None, description="go on by itself when tests fail (default true); false escalates"
    )
    auto_retry_on_review_reject: bool | None = Field(
        default=None, description="go on by itself when a reviewer rejects (default true); false escalates"
    )
    escalation_includes_diff: bool | None = Field(
        default=None, description="put the diffs into the report (default true)"
    )
    feedback_max_length: Annotated[int, Field(ge=80, le=100_000)] | None = Field(
        default=None, description="characters of the compact feedback in a decision (default 500)"
    )
    max_agent_failures: Bound | None = Field(
        default=None, description="times in a row that the agent may fail before a person is asked (default 3)"
    )
    strategy: StrategyChoice | None = Field(
        default=None,
        description="how the next try goes about it: auto (default) by what went wrong, conservative never other than "
        "by default, aggressive as it worked before from the start; or one strategy by its name, built in or "
        "added by a Python hook",
    )
    patience: PatienceSetting | None = Field(
        default=None, description="when it is of no use to go on: off, or a table with the rules' thresholds"
    )
    backoff: Backoff | None = Field(
        default=None,
        description="how the wait after a failed agent grows: none, linear or exponential (default); an exponential "
        "one is up to a quarter longer, so that runs that failed together do not all call again together",
    )
    backoff_initial: Duration | None = Field(
        default=None, description="the first wait after a failed agent (default 1s)"
    )
    timeout: Duration | None = Field(
        default=None, description="time for each agent call and each test run (default 5m)"
    )
    test_timeout: Duration | None = Field(default=None, description="time for each test run (default: as timeout)")
    on_escalate: OnEscalate | None = Field(
        default=None, description="what the work tree holds after an escalation: best (default), last or base"
    )
    checkpoint_interval: Annotated[int, Field(ge=0, le=10_000)] | None = Field(
        default=None, description="write a portable checkpoint file every N iterations (default 0: none)"
    )
    safety: Safety | None = Field(
        default=None, description="a level (permissive, normal, paranoid) or a table with a level and single limits"
    )
    sandbox: SandboxMode | None = Field(
        default=None,
        description="bwrap: agents and tests run in a sandbox, or nothing runs; none: they don't; auto (default): as "
        "the safety level needs it",
    )
    readable: tuple[Folder, ...] | None = Field(
        default=None, description="folders in a home that agents and tests can read inside a sandbox"
    )
    agent: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="the agent that generates: a name from agents:, hook, person, a preset, or a command line",
    )
    review: tuple[Annotated[str, Field(min_length=1)], ...] | None = Field(
        default=None, description="reviewers: names from agents:, hook, person, presets, or command lines"
    )
    protect: tuple[Glob, ...] | None = Field(
        default=None,
        description="globs of more files that the agent's changes don't count in; `!glob` takes one out",
    )
    may_change: tuple[Glob, ...] | None = Field(
        default=None, description="globs of tests that are the agent's to change; the change is shown for review"
    )
    prepare: Preparation | None = Field(
        default=None, description="what the clean room needs: a command, a list of them, or a table (commands, files)"
    )
    gate: Gate | None = Field(
        default=None, description="full (default), or fast: without the controls before a change is accepted"
    )
    baseline: Baseline | None = Field(
        default=None, description="compare (default): old failures outside of the task don't block; strict: they do"
    )
    baseline_runs: Annotated[int, Field(ge=1, le=20)] | None = Field(
        default=None, description="times that the tests are run before the first iteration (default 2), once in reverse"
    )
    flaky: Flaky | None = Field(
        default=None, description="report (default): tests that were flaky before don't block; fail: they do"
    )
    suite: Arguments | None = Field(
        default=None, description="pytest arguments of a wider suite that must not get worse than the baseline"
    )
    hidden_tests: tuple[Annotated[str, Field(min_length=1, pattern=NO_NUL)], ...] | None = Field(
        default=None, description="folders outside of the repository with tests that only the verdict sees"
    )
    mutants: Annotated[int, Field(ge=0, le=200)] | None = Field(
        default=None, description="mutants of the changed lines to try before a change is accepted (default 0: none)"
    )
    pass_env: tuple[EnvironmentName, ...] | None = Field(
        default=None, description="environment variables that are passed on although they look private, by name"
    )
    python: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="the interpreter that runs pytest (default: the one that runs iterctl)"
    )


def _no_typos(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Braces mean something to many programs, so only a word that nearly is a placeholder is taken for a mistake."""
    for word in (word for argument in arguments for word in _BRACED.findall(argument)):
        if word not in PLACEHOLDERS and (hint := did_you_mean(word, PLACEHOLDERS)):
            raise ValueError(f"unknown placeholder {quoted('{' + word + '}')}; {hint}")
    return arguments


AgentCommand = Annotated[Command, AfterValidator(_no_typos)]
AgentArguments = Annotated[Arguments, AfterValidator(_no_typos)]


class Budget(Value):
    """Arguments that hand an agent the bounds that a run still has, for tools that keep to bounds of their own."""

    max_cost: AgentArguments = Field(default=(), description="appended with {max_cost}, in US dollars")
    max_turns: AgentArguments = Field(default=(), description="appended with {max_turns}, in calls of the model")
    beyond: Annotated[int, Field(ge=0, le=10)] = Field(
        default=0, description="calls that the tool makes beyond its bound, so it is told that much less"
    )


def _names_files(glob: str) -> str:
    """What a tool leaves is nobody's change, so a glob that could take in the source would hide it."""
    if glob != glob.strip():
        raise ValueError("begins or ends with a blank")
    if any(ord(character) < ord(" ") or character == "\x7f" for character in glob):
        raise ValueError("has a control character")
    if glob.startswith(("!", "#")):
        raise ValueError(f"begins with `{glob[0]}`, which means something else here")
    # A part of the path counts up to its first wildcard: `.tool*` has a name, `*.py` and `.*` have none.
    if not any(re.search(r"\w", re.split(r"[*?\[\\]", part)[0]) for part in glob.split("/")):
        raise ValueError(
            "could take in any file: a part of the path must begin with a name, as in `.tool*` or `.tool/**`"
        )
    return glob


Leavings = Annotated[str, Field(min_length=1), AfterValidator(_names_files)]


def _is_endpoint(text: str) -> str:
    try:
        Endpoint.parse(text)
    except UsageError as error:
        raise ValueError(f"{error.message}; {error.hint}") from None
    return text


Reachable = Annotated[str, Field(min_length=1, pattern=NO_NUL), AfterValidator(_is_endpoint)]


class Agent(Value):
    """Whatever can do a stage. Exactly one of command, hook and person, or a preset that has a command."""

    preset: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="an agent that is known already; the other keys change what it says"
    )
    command: AgentCommand | None = Field(default=None, description="argument list (or one line, split without a shell)")
    resume: AgentCommand | None = Field(
        default=None, description="argument list for going on with the session {session_id}"
    )
    arguments: AgentArguments = Field(default=(), description="appended to command and resume, such as a model")
    hook: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="name handed to the Python hooks iterctl_generate and iterctl_review"
    )
    person: bool | None = Field(default=None, description="ask at the terminal")
    prompt: Literal["stdin", "file", "argument"] = Field(
        default="stdin",
        description="how the prompt arrives: stdin, file for {prompt_file} or argument for {prompt} in an argument",
    )
    timeout: Duration | None = Field(default=None, description="time for one call (default: the settings' timeout)")
    session: Session | None = Field(default=None, description="as the task's, which comes first (default: fresh)")
    env: dict[EnvironmentName, Argument] = Field(default_factory=dict, description="environment variables to set")
    pass_env: tuple[EnvironmentName, ...] = Field(default=(), description="environment variables to pass on by name")
    reads: Reads | None = Field(
        default=None, description="how its output is read (default: a JSON object at the end may be a report)"
    )
    outcomes: tuple[Rule, ...] = Field(default=(), description="what says how its turn ended; the first that applies")
    budget: Budget = Field(default_factory=Budget, description="arguments for bounds that the tool keeps itself")
    usd_per_million_tokens: Money | None = Field(
        default=None, description="what its tokens cost, where it counts them and does not say the cost"
    )
    fallback: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(), description="agents to call instead when this one can't be reached or has had enough, in this order"
    )
    leaves: tuple[Leavings, ...] = Field(
        default=(), description="globs of files that the tool leaves in the work tree, which are nobody's change"
    )
    endpoints: tuple[Reachable, ...] = Field(
        default=(), description="hosts that it can reach in a sandbox without network, such as its model's: host:port"
    )
    readable: tuple[Folder, ...] = Field(
        default=(), description="files and folders in a home that it can read in a sandbox, such as its program"
    )
    copies: tuple[Folder, ...] = Field(
        default=(), description="files and folders of the home that it gets a copy of in a sandbox, such as its login"
    )
    version: Version | None = Field(default=None, description="how to ask for its version")
    install: str = Field(default="", description="how to get it, for people who don't have it")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = [self.command is not None, self.hook is not None, self.person is True]
        if kinds.count(True) != 1 and not (self.preset is not None and not any(kinds)):
            raise ValueError("an agent needs exactly one of command, hook and person")
        if self.preset is not None and any(kinds[1:]):
            raise ValueError("a preset is a command; hook and person can't go with it")
        return self

    @model_validator(mode="after")
    def _whole_commands(self) -> Self:
        """Each placeholder where it has a meaning. What a preset's command holds is seen when both are put together."""
        if self.resume is not None and not _holds(self.resume, "session_id"):
            raise ValueError("resume needs {session_id} in one of its arguments")
        if self.preset is None or "prompt" in self.model_fields_set:
            for command in (self.command, self.resume):
                if command is not None:
                    _check_prompt(command, self.prompt)
            if self.prompt != "argument" and _holds(self.arguments, "prompt"):
                raise ValueError("{prompt} needs prompt: argument")
        if self.prompt != "stdin" and self.command is None and self.preset is None:
            raise ValueError(f"prompt: {self.prompt} is for commands")
        from_file = self.reads is not None and self.reads.source == "output_file"
        if from_file and self.command is not None and not _holds(self.command, "output_file"):
            raise ValueError("reads.source: output_file needs {output_file} in one of the command's arguments")
        if _holds((*(self.command or ()), *self.arguments), "session_id"):
            raise ValueError("{session_id} is for resume: a new session has none yet")
        written = (*(self.command or ()), *(self.resume or ()), *self.arguments)
        if any(_holds(written, bound) for bound in _BOUNDS):
            raise ValueError("{max_cost} and {max_turns} are for the arguments under budget")
        return self

    @model_validator(mode="after")
    def _sessions(self) -> Self:
        """Only commands have sessions. One that is not the preset's does not go on with sessions of the preset's."""
        if self.command is None and self.preset is None and (self.resume is not None or self.session is not None):
            raise ValueError(f"{'session' if self.resume is None else 'resume'} is for commands")
        if self.session == "resume" and self.resume is None and (self.preset is None or self.command is not None):
            raise ValueError("session: resume needs resume, the command that goes on with a session")
        return self


def _check_prompt(command: tuple[str, ...], prompt: str) -> None:
    needed = {"file": "prompt_file", "argument": "prompt"}.get(prompt)
    if needed is not None and not _holds(command, needed):
        raise ValueError(f"prompt: {prompt} needs {{{needed}}} in one of the command's arguments")
    if prompt != "argument" and _holds(command, "prompt"):
        raise ValueError("{prompt} needs prompt: argument")


def _holds(command: tuple[str, ...], placeholder: str) -> bool:
    return any(f"{{{placeholder}}}" in argument for argument in command)


class TestCommand(Value):
    """Tests of any language: a command, and where it leaves its JUnit report."""

    __test__ = False  # pytest must not collect this class

    command: Command = Field(description="the command that runs the tests")
    junit: Annotated[str, Field(min_length=1)] = Field(description="path or glob of its JUnit XML reports")


class Task(SettingsPatch):
    """One thing to get done, with the tests and reviews that say when it is done."""

    id: Name = Field(description="name of the task, used in refs, reports and commands")
    prompt: str = Field(default="", description="what the agent is asked to do")
    tests: Arguments | None = Field(default=None, description="pytest arguments that select the task's tests")
    test: TestCommand | None = Field(default=None, description="a test command of any language, instead of tests")
    needs: tuple[Name, ...] = Field(default=(), description="tasks that must have proceeded before this one starts")
    session: Session | None = Field(
        default=None,
        description="resume: each iteration goes on with the agent's session; fresh: each begins a new one "
        "(default: as the agent's session, else fresh)",
    )

    @model_validator(mode="after")
    def _one_kind_of_tests(self) -> Self:
        if self.tests is not None and self.test is not None:
            raise ValueError("a task has either tests (pytest arguments) or test (a command), not both")
        return self


def _not_boolean(value: object) -> object:
    # True equals 1 in Python, but `version: true` is no version.
    if isinstance(value, bool):
        raise ValueError("expected 1, got true or false")  # noqa: TRY004 - pydantic reports ValueError
    return value


class Plan(Value):
    """One file with settings, agents and tasks."""

    version: Annotated[Literal[1], BeforeValidator(_not_boolean)] = Field(
        default=1, description="version of the plan format"
    )
    settings: SettingsPatch = Field(default_factory=SettingsPatch, description="settings of all tasks")
    agents: dict[Name, Agent] = Field(default_factory=dict, description="agents and reviewers by name")
    tasks: tuple[Task, ...] = Field(default=(), description="tasks; none: the suite's own (see the iterate marker)")
