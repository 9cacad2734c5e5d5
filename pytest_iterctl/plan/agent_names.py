"""Which agent a word means: a name from the plan, a built-in one, a preset, or a command line."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from pytest_iterctl.errors import UsageError
from pytest_iterctl.plan.frozen import NamedAgent
from pytest_iterctl.plan.model import BUILT_IN_AGENTS, Agent
from pytest_iterctl.plan.presets import preset_names, with_preset
from pytest_iterctl.plan.problems import did_you_mean, quoted

__all__ = ["RESERVED_AGENTS", "UnknownAgent", "known_agents", "missing_program", "resolve_agent", "unknown_agent"]

#: Names that no plan may define: what is built in, and what a later version will build in.
RESERVED_AGENTS = (*BUILT_IN_AGENTS, "repair")


_NAME_ONE = "name an agent of the plan, `hook`, `person`, a preset or a command line"


@dataclass(frozen=True, slots=True)
class UnknownAgent:
    """Why a word names no agent."""

    message: str
    hint: str = ""


def known_agents(names: Iterable[str]) -> tuple[str, ...]:
    return (*names, *BUILT_IN_AGENTS, *preset_names())


def resolve_agent(
    word: str, agents: Mapping[str, Agent], *, root: Path, plan_folder: str = "", folder: str | None = None
) -> NamedAgent:
    """The agent, spelt out. Paths in a command line are relative to `folder`, where the word was written.

    The plan's own agents are at home in the plan's folder, whoever names them.
    """
    unknown = unknown_agent(word, agents, root=root / (folder or ""))
    if unknown:
        hint = unknown.hint or did_you_mean(word, known_agents(agents))
        raise UsageError(unknown.message, hint=hint or _NAME_ONE)
    if word in agents:
        spec = with_preset(agents[word])
        return NamedAgent(name=word, spec=spec, folder=plan_folder if spec.command is not None else None)
    if word == "hook":
        return NamedAgent(name=word, spec=Agent(hook=word))
    if word == "person":
        return NamedAgent(name=word, spec=Agent(person=True))
    if word in preset_names():
        return NamedAgent(name=word, spec=with_preset(Agent(preset=word)))
    program, *arguments = shlex.split(word)
    if not _on_path(program) and "/" not in program:
        program = f"./{program}"  # found in the folder, where a bare name would not be looked for
    return NamedAgent(name=PurePath(program).name, spec=Agent(command=(program, *arguments)), folder=folder)


def unknown_agent(word: str, names: Iterable[str], *, root: Path) -> UnknownAgent | None:
    """Why the word can't be resolved, or None if it can. A did-you-mean hint is left to those who show it."""
    if word in names or word in BUILT_IN_AGENTS or word in preset_names():
        return None
    if word in RESERVED_AGENTS:
        return UnknownAgent(f"agent {quoted(word)} is not supported by this version", "name a command line instead")
    try:
        parts = shlex.split(word)
    except ValueError as error:
        return UnknownAgent(f"{quoted(word)} can't be split into arguments: {error}", "close the quotation marks")
    if not parts or not parts[0]:
        return UnknownAgent("an agent's name is empty")
    if _on_path(parts[0]) or _is_file(root, parts[0]):
        return None
    return UnknownAgent(f"unknown agent {quoted(parts[0])}")


def missing_program(agent: NamedAgent, *, root: Path) -> UnknownAgent | None:
    """Why an agent's command can't be started here, with how to get it; None if it can, or if it has no command."""
    program = agent.spec.command[0] if agent.spec.command else ""
    if not program or _on_path(program) or _is_file(root / (agent.folder or ""), program):
        return None
    hint = agent.spec.install or "check its spelling, or install it"
    return UnknownAgent(f"agent {quoted(agent.name)}: {quoted(program)} is not on the PATH", hint)


def _on_path(program: str) -> bool:
    return "/" not in program and shutil.which(program) is not None


def _is_file(root: Path, program: str) -> bool:
    try:
        return (root / program).is_file()
    except (OSError, ValueError):
        return False  # too long for a path, or a character that no path can have
