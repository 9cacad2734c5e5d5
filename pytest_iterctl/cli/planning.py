"""From what a user asked for to the frozen plan of a run, the same way for `pytest --iterate` and `iterctl run`."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from pathlib import Path

from pytest_iterctl.control.pattern import counted
from pytest_iterctl.errors import UsageError
from pytest_iterctl.loop.extensions import refuse_strategies_of_nobody
from pytest_iterctl.loop.testing import command_line_of
from pytest_iterctl.loop.workspace import Workspace, below
from pytest_iterctl.plan.environment_settings import settings_from_environment
from pytest_iterctl.plan.freeze import freeze
from pytest_iterctl.plan.frozen import FrozenPlan, FrozenTask, NamedAgent, Settings
from pytest_iterctl.plan.load import find_plan, load_plan
from pytest_iterctl.plan.model import Limits, Plan, SettingsPatch
from pytest_iterctl.plan.presets import presets
from pytest_iterctl.plan.values import format_duration
from pytest_iterctl.text import strip_escapes
from pytest_iterctl.work.sandbox_check import Obstacle, check

__all__ = ["Wishes", "found_agent_clis", "frozen_plan", "print_dry_run", "prompt_text"]

_LARGEST_PROMPT = 1_000_000


@dataclass(frozen=True, slots=True)
class Wishes:
    """What one command line asks for, before the plan, the environment and the defaults have their say."""

    command_line: SettingsPatch = dataclass_field(default_factory=SettingsPatch)
    ini: SettingsPatch = dataclass_field(default_factory=SettingsPatch)
    ini_file: Path | None = None
    plan_file: Path | None = None
    task: str | None = None
    own_tests: tuple[str, ...] | None = None
    prompt: str = ""
    commit_message: str | None = None


def frozen_plan(workspace: Workspace, wishes: Wishes) -> FrozenPlan:
    """`own_tests` (from `pytest --iterate`) makes one task of them; None runs the plan's tasks."""
    root = workspace.root
    found = wishes.plan_file or find_plan(root)
    home = home_of(found, root)
    plan = load_plan(found, root=home) if found is not None else Plan()
    if plan.tasks and wishes.prompt and wishes.own_tests is None:
        raise UsageError("--prompt is for a plan without tasks", hint="each task has a prompt of its own")
    chosen = any(task.id == wishes.task for task in plan.tasks)
    if wishes.own_tests is not None:
        plan = _with_own_tests(plan, wishes) if chosen else plan.model_copy(update={"tasks": ()})
    frozen = freeze(
        plan,
        root=root,
        command_line=_from_here(wishes.command_line),
        environment=settings_from_environment(os.environ),
        ini=wishes.ini,
        source=os.path.relpath(found, root) if found is not None else "",
        plan_folder=below(home, root),
        ini_folder=below(home_of(wishes.ini_file, root), root) if wishes.ini_file is not None else None,
        only_task=wishes.task,
        default_tests=wishes.own_tests or (),
        default_prompt=wishes.prompt,
        commit_message=wishes.commit_message,
        python="",
    )
    refuse_strategies_of_nobody(workspace, frozen)
    return frozen


def home_of(file: Path | None, root: Path) -> Path:
    """What the paths in a plan or a configuration file are relative to: its folder, if that is in the work tree."""
    if file is None:
        return root
    folder = file.absolute().parent.resolve()
    return folder if folder.is_relative_to(root.resolve()) else root


def _from_here(settings: SettingsPatch) -> SettingsPatch:
    """Programs that the command line names by a path are meant from where the user is."""
    update: dict[str, object] = {}
    if settings.agent is not None:
        update["agent"] = _absolute(settings.agent)
    if settings.review is not None:
        update["review"] = tuple(_absolute(word) for word in settings.review)
    return settings.model_copy(update=update)


def _absolute(command: str) -> str:
    try:
        program, *arguments = shlex.split(command)
    except ValueError:
        return command
    path = Path(program)
    if path.is_absolute() or ("/" not in program and shutil.which(program) is not None) or not path.is_file():
        return command
    return shlex.join([str(path.resolve()), *arguments])


def _with_own_tests(plan: Plan, wishes: Wishes) -> Plan:
    """The plan's task, with the tests and the prompt of the command line where it gives some."""
    update: dict[str, object] = {}
    if wishes.own_tests:
        update |= {"tests": wishes.own_tests, "test": None}
    if wishes.prompt:
        update |= {"prompt": wishes.prompt}
    tasks = tuple(task.model_copy(update=update) if task.id == wishes.task else task for task in plan.tasks)
    return plan.model_copy(update={"tasks": tasks})


def prompt_text(text: str, directory: Path) -> str:
    """The prompt itself, or what the file behind `@` holds."""
    if not text.startswith("@"):
        return text
    path = directory / text[1:]
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"the prompt file can't be read: {path}: {error.strerror}") from None
    if len(data) > _LARGEST_PROMPT:
        raise UsageError(f"the prompt file is larger than 1 MB: {path}")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UsageError(f"the prompt file is not UTF-8 text: {path}") from None


def found_agent_clis() -> tuple[str, ...]:
    """The presets whose program is on the PATH."""
    return tuple(name for name, agent in presets().items() if agent.command and shutil.which(agent.command[0]))


def print_dry_run(plan: FrozenPlan, *, as_module: bool) -> int:
    """What would be run, in which order, within which limits; and whether it could be, where it needs a sandbox."""
    limits = plan.limits
    obstacle = _obstacle() if plan.sandbox else None
    print(f"plan     {plan.source or '(none)'}")
    print(
        f"limits   {limits.level}: ${limits.max_cost_per_iteration:.2f} per iteration, ${limits.max_total_cost:.2f}"
        f" in all; {format_duration(limits.max_duration_per_iteration)} per iteration,"
        f" {format_duration(limits.max_total_duration)} in all; {limits.max_calls_per_iteration} calls per iteration"
    )
    print(f"touching {_touching(limits)}")
    print(f"sandbox  {_sandbox(plan)}" + (f"; MISSING: {obstacle.problem}" if obstacle is not None else ""))
    for number, task in enumerate(plan.tasks, 1):
        settings = task.settings
        print(f"task {number}   {task.id}" + (f" (needs {', '.join(task.needs)})" if task.needs else ""))
        print(f"  order    {' → '.join(_order(task))}")
        print(f"  prompt   {_indented(task.prompt) or '(make the tests pass)'}")
        print(f"  tests    {command_line_of(task, as_module=as_module)}")
        print(f"  agent    {_agent(task.agent)}, at most {settings.max_iterations} iterations")
        for reviewer in task.reviewers:
            print(f"  review   {_agent(reviewer)}")
        for agent in (task.agent, *task.fallback, *task.reviewers) if plan.sandbox else ():
            if agent is not None:
                print(f"  {agent.name} reaches {_reach(agent, plan.limits)}")
        # A call is a part of an iteration; tests also run before the first one, and in clean rooms.
        per_call = format_duration(min(settings.timeout, limits.max_duration_per_iteration))
        print(f"  timeout  {per_call} per call, {format_duration(settings.test_timeout)} per test run")
        for word, text in _gate(settings):
            print(f"  {word:<8} {text}")
        print(f"  after an escalation the work tree holds: {settings.on_escalate}")
    if plan.discover:
        print("tasks that tests declare with the iterate marker are found when the suite is first run")
    if obstacle is not None:
        raise obstacle.error()
    return 0


def _obstacle() -> Obstacle | None:
    """The self-test as before a run, which leaves nothing behind."""
    with tempfile.TemporaryDirectory(prefix="iterctl-dry-run-") as folder:
        return check(Path(folder))


def _touching(limits: Limits) -> str:
    destructive = "may" if limits.allow_destructive_operations else "may not, and is undone"
    outside = "allowed" if limits.allow_outside_writes else "not possible"
    network = "allowed" if limits.allow_external_api_calls else "only what agents name"
    return (
        f"emptying the project and .git: {destructive}; writes outside of the work tree: {outside}; network: {network}"
    )


def _sandbox(plan: FrozenPlan) -> str:
    if not plan.sandbox:
        return "none"
    where = "a copy of the work tree, offered as a branch and a patch" if plan.own_tree else "the work tree"
    return f"bubblewrap, around every agent and test run; they work in {where}"


def _order(task: FrozenTask) -> Iterator[str]:
    settings = task.settings
    yield f"tests {counted(settings.baseline_runs, 'time')}"
    if task.agent is not None:
        yield "agent"
    yield from ("tests", "clean room")
    if settings.gate == "full":
        yield "controls"
    yield from (reviewer.name for reviewer in task.reviewers)
    yield "decision"


def _indented(prompt: str) -> str:
    return strip_escapes(prompt).strip().replace("\n", "\n           ")


def _reach(agent: NamedAgent, limits: Limits) -> str:
    if limits.allow_external_api_calls:
        return "the network"
    return ", ".join(agent.spec.endpoints) or "no network"


def _gate(settings: Settings) -> Iterator[tuple[str, str]]:
    """What a change has to pass before it is accepted; what is not asked for is not told."""
    runs = f"the baseline is run {counted(settings.baseline_runs, 'time')}"
    mutants = f", {counted(settings.mutants, 'mutant')}" if settings.mutants else ""
    yield "gate", f"{settings.gate}, {runs}, baseline: {settings.baseline}, flaky: {settings.flaky}{mutants}"
    lists = (
        ("protect", ("what the tests are made of", *settings.protect)),
        ("change", tuple(f"may change {glob}" for glob in settings.may_change)),
        ("prepare", tuple(f"run {shlex.join(command)}" for command in settings.prepare.commands)),
        ("prepare", tuple(f"keep {glob}" for glob in settings.prepare.files)),
        ("hidden", settings.hidden_tests),
    )
    for word, texts in lists:
        if texts:
            yield word, ", ".join(texts)
    if settings.suite is not None:
        yield "suite", shlex.join(settings.suite) or "(all tests)"


def _agent(agent: NamedAgent | None) -> str:
    if agent is None:
        return "none"
    return f"{agent.name}: {shlex.join(agent.spec.command)}" if agent.spec.command else agent.name
