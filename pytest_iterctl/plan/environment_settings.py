"""Settings from strings: environment variables, pytest's ini options and command lines say everything as text."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Union, get_args, get_origin

from pydantic import ValidationError

from pytest_iterctl.errors import UsageError
from pytest_iterctl.plan.model import SettingsPatch
from pytest_iterctl.plan.problems import did_you_mean, quoted
from pytest_iterctl.plan.translate import complaint

__all__ = ["INI_TWINS", "environment_variable", "settings_from_environment", "settings_from_strings"]

_BOOLEANS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
#: The settings that `pytest --iterate` has options for, and what their ini twins are called.
INI_TWINS = {
    "agent": "iterate_agent",
    "max_iterations": "iterate_max",
    "safety": "iterate_safety",
    "sandbox": "iterate_sandbox",
    "timeout": "iterate_timeout",
    "checkpoint_interval": "iterate_checkpoint_interval",
    "on_escalate": "iterate_on_escalate",
    "review": "iterate_reviewer",
    "protect": "iterate_protect",
    "may_change": "iterate_may_change",
    "gate": "iterate_gate",
    "strategy": "iterate_strategy",
}


#: Lists that are arguments of a command: said as one line, split as a shell would.
_COMMAND_LINES = frozenset({"suite"})


def environment_variable(setting: str) -> str:
    return f"ITERCTL_{setting.upper()}"


def settings_from_environment(environ: Mapping[str, str]) -> SettingsPatch:
    """One variable for each setting. Inside a run there are none: what a run tells its agents is not for us."""
    if environ.get("ITERCTL_RUN"):
        return SettingsPatch()
    values = {name: environ.get(environment_variable(name)) for name in SettingsPatch.model_fields}
    return settings_from_strings(values, environment_variable)


def settings_from_strings(values: Mapping[str, str | list[str] | None], where: Callable[[str], str]) -> SettingsPatch:
    """Settings by name. None, "" and no items leave a setting unsaid; `where` names its origin in messages."""
    said = {name: _typed(name, value, where(name)) for name, value in values.items() if value}
    try:
        return SettingsPatch.model_validate(said)
    except ValidationError as error:
        details = error.errors(include_url=False)[0]
        found = complaint(details, details["input"])
        hint = found.hint or did_you_mean(found.word, found.known)
        raise UsageError(f"{where(str(details['loc'][0]))}: {found.message}", hint=hint) from None


def _typed(name: str, value: str | list[str], where: str) -> object:
    kind = _kind(SettingsPatch.model_fields[name].annotation)
    if kind is tuple and name not in _COMMAND_LINES:
        return tuple(_items(value) if isinstance(value, str) else value)
    if not isinstance(value, str):
        raise UsageError(f"{where}: expected one value, got {len(value)}", hint="give it once")
    text = value.strip()
    if kind is bool:
        if text.casefold() not in _BOOLEANS:
            raise UsageError(f"{where}: expected true or false, got {quoted(text)}")
        return _BOOLEANS[text.casefold()]
    if kind is int:
        if not re.fullmatch(r"[-+]?[0-9]{1,30}", text):
            raise UsageError(f"{where}: expected an integer, got {quoted(text)}")
        return int(text)
    return text


def _items(text: str) -> list[str]:
    return [item for item in (part.strip() for part in text.split(",")) if item]


def _kind(annotation: object) -> object:
    """The type beneath `Annotated[…] | None`: int, bool, tuple, or something that is said as a string."""
    while True:
        origin = get_origin(annotation)
        if origin is Annotated or origin in {Union, types.UnionType}:
            annotation = get_args(annotation)[0]
        else:
            return origin or annotation
