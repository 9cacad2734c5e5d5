"""Agents that are known already: entries like those under `agents:` in a plan, kept as data beside this module."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType

from pydantic import ValidationError

from pytest_iterctl.errors import UsageError
from pytest_iterctl.plan.model import Agent
from pytest_iterctl.plan.problems import did_you_mean, either, quoted

__all__ = ["conflict_with_preset", "preset_names", "presets", "with_preset"]

_FILE = "presets.toml"
#: Tables of which a plan may change single keys; whatever else it says replaces what the preset says.
_MERGED = ("env", "reads", "budget")


@cache
def presets() -> Mapping[str, Agent]:
    """All presets by name, made once."""
    made = {name: Agent.model_validate_json(json.dumps(table)) for name, table in _tables().items()}
    return MappingProxyType(made)


def preset_names() -> tuple[str, ...]:
    """The names alone: every run asks for them, and few need the agents behind them."""
    return tuple(_tables())


@cache
def _tables() -> Mapping[str, object]:
    return tomllib.loads(resources.files(__package__).joinpath(_FILE).read_text(encoding="utf-8"))


def with_preset(agent: Agent) -> Agent:
    """The agent spelt out: what its preset says, and over it what the plan says."""
    if agent.preset is None:
        return agent
    if agent.preset not in preset_names():
        hint = did_you_mean(agent.preset, preset_names()) or f"there are {either(preset_names())}"
        raise UsageError(f"unknown preset {quoted(agent.preset)}", hint=hint)
    return _merged(presets()[agent.preset], agent.model_dump(mode="json", exclude_unset=True))


def conflict_with_preset(name: str, table: Mapping[str, object]) -> str:
    """Why what a plan says does not go together with the preset, as far as both are right alone; '' if it does."""
    try:
        Agent.model_validate_json(json.dumps(table, default=str))
    except ValidationError:
        return ""  # told already, with its place
    try:
        _merged(presets()[name], table)
    except ValidationError as error:
        context = error.errors(include_url=False)[0].get("ctx", {})
        return str(context.get("error", "does not go together with the preset"))
    return ""


def _merged(preset: Agent, said: Mapping[str, object]) -> Agent:
    table = preset.model_dump(mode="json", exclude_unset=True)
    said = {key: value for key, value in said.items() if value is not None}  # null is what was not said
    if "command" in said:
        # They are about another program than the one that is started now.
        table = {key: value for key, value in table.items() if key not in {"resume", "version"}}
    for key, value in said.items():
        below = table.get(key)
        table[key] = {**below, **value} if key in _MERGED and isinstance(value, dict) and below else value
    return Agent.model_validate_json(json.dumps(table, default=str))
