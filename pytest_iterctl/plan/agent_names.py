"""Which agent a word means: a name from the plan, a built-in one, or a command line."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from pytest_iterctl.errors import UsageError
from pytest_iterctl.plan.frozen import NamedAgent
from pytest_iterctl.plan.model import BUILT_IN_AGENTS, Agent
from pytest_iterctl.plan.problems import did_you_mean, quoted

__all__ = ["RESERVED_AGENTS", "UnknownAgent", "known_agents", "resolve_agent", "unknown_agent"]

#: Names that no plan may define: what is built in, and what a later version will build in.
RESERVED_AGENTS = (*BUILT_IN_AGENTS, "repair")


@dataclass(frozen=True, slots=True)
class UnknownAgent:
    """Why a word names no agent."""

    message: str
    hint: str = ""


def known_agents(names: Iterable[str]) -> tuple[str, ...]:
    return (*names, *BUILT_IN_AGENTS)


def resolve_agent(
    word: str, agents: Mapping[str, Agent], *, root: Path, plan_folder: str = "", folder: str | None = None
) -> NamedAgent:
    """The agent, spelt out. Paths in a command line are relative to `folder`, where the word was written.

    The plan's own agents are at home in the plan's folder, whoever names them.
    """
    unknown = unknown_agent(word, agents, root=root / (folder or ""))
    if unknown:
        hint = unknown.hint or did_you_mean(word, known_agents(agents))
        raise UsageError(unknown.message, hint=hint or "name an agent of the plan, `hook`, `person` or a command line")
    if word in agents:
        spec = agents[word]
        return NamedAgent(name=word, spec=spec, folder=plan_folder if spec.command is not None else None)
    if word == "hook":
        return NamedAgent(name=word, spec=Agent(hook=word))
    if word == "person":
        return NamedAgent(name=word, spec=Agent(person=True))
    program, *arguments = shlex.split(word)
    if not _on_path(program) and "/" not in program:
        program = f"./{program}"  # found in the folder, where a bare name would not be looked for
    return NamedAgent(name=PurePath(program).name, spec=Agent(command=(program, *arguments)), folder=folder)


def unknown_agent(word: str, names: Iterable[str], *, root: Path) -> UnknownAgent | None:
    """Why the word can't be resolved, or None if it can. A did-you-mean hint is left to those who show it."""
    if word in names or word in BUILT_IN_AGENTS:
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


def _on_path(program: str) -> bool:
    return "/" not in program and shutil.which(program) is not None


def _is_file(root: Path, program: str) -> bool:
    try:
        return (root / program).is_file()
    except (OSError, ValueError):
        return False  # too long for a path, or a character that no path can have
