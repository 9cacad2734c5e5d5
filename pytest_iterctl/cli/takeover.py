"""`pytest --iterate`: pytest's configuration in, one run out, an exit code back."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_iterctl.cli.conduct import Manner, conduct
from pytest_iterctl.cli.errand import Begin, GoOn
from pytest_iterctl.cli.guard import guarded
from pytest_iterctl.cli.planning import Wishes, frozen_plan, home_of, print_dry_run, prompt_text
from pytest_iterctl.errors import UsageError
from pytest_iterctl.loop.run import refuse_unsupported_system
from pytest_iterctl.loop.workspace import Workspace, new_run_id
from pytest_iterctl.plan.environment_settings import INI_TWINS, settings_from_strings
from pytest_iterctl.plan.model import SettingsPatch

__all__ = ["child_arguments", "take_over"]

_FLAGS = {"--iterate", "--iterate-dry-run"}
#: These may stand without a value, so that a path behind them is still a path.
_OPTIONAL = {"--iterate-resume", "--iterate-commit"}


def take_over(config: pytest.Config) -> int:
    """The whole of a `pytest --iterate`, with errors as lines and never as a traceback."""
    return guarded(lambda: _run(config))


def _run(config: pytest.Config) -> int:
    refuse_unsupported_system()
    directory = Path(config.invocation_params.dir)
    arguments = [str(argument) for argument in config.invocation_params.args]
    workspace = Workspace(directory)
    manner = Manner(
        json=config.option.iterate_format == "json",
        quiet=max(-config.option.verbose, 0),
        verbose=max(config.option.verbose, 0),
    )
    resumed = _optional_value(config, arguments, "--iterate-resume")
    if resumed is not None:
        run = workspace.find_run(resumed or None)
        return conduct(workspace, manner, GoOn(run=run))
    wishes = _wishes(config, arguments, directory)
    plan = frozen_plan(workspace, wishes)
    if not plan.discover and not wishes.own_tests:
        # The plan's own task with its own tests: their paths were written in the plan's folder.
        directory = home_of(workspace.root / plan.source, workspace.root)
    if config.option.iterate_dry_run:
        return print_dry_run(plan, as_module=_ran_as_module())
    return conduct(workspace, manner, Begin.at(directory, workspace, new_run_id(), plan, as_module=_ran_as_module()))


def _wishes(config: pytest.Config, arguments: Sequence[str], directory: Path) -> Wishes:
    option = config.option
    prompt = option.iterate_prompt or config.getini("iterate_prompt") or ""
    return Wishes(
        command_line=_settings({name: getattr(option, twin) for name, twin in INI_TWINS.items()}, "option"),
        ini=_settings({name: _ini(config, twin) for name, twin in INI_TWINS.items()}, "ini"),
        ini_file=config.inipath,
        plan_file=_plan_file(config, directory),
        task=option.iterate_task,
        own_tests=child_arguments(arguments, directory),
        prompt=prompt_text(prompt, directory),
        commit_message=_optional_value(config, arguments, "--iterate-commit"),
    )


def _plan_file(config: pytest.Config, directory: Path) -> Path | None:
    typed, written = config.option.iterate_plan, config.getini("iterate_plan")
    if typed or not written:
        return directory / str(typed) if typed else None
    return (config.inipath.parent if config.inipath is not None else config.rootpath) / str(written)


def _ini(config: pytest.Config, name: str) -> str | list[str] | None:
    value = config.getini(name)
    if value is None or value in ("", []):
        return None
    return [str(each) for each in value] if isinstance(value, list) else str(value)


def _settings(values: dict[str, str | list[str] | None], origin: str) -> SettingsPatch:
    def where(name: str) -> str:
        twin = INI_TWINS[name]
        return "--" + twin.replace("_", "-") if origin == "option" else f"{twin} in pytest's configuration"

    return settings_from_strings(values, where)


def child_arguments(arguments: Sequence[str], directory: Path) -> tuple[str, ...]:
    """Everything that is not ours, in its order; addopts and PYTEST_ADDOPTS apply themselves again in the child."""
    passed_on: list[str] = []
    skip = False
    for position, argument in enumerate(arguments):
        if skip:
            skip = False
        elif argument == "--":
            return (*passed_on, *arguments[position:])
        elif not argument.startswith("--iterate"):
            passed_on.append(argument)
        elif argument in _OPTIONAL:
            skip = _is_value(arguments[position + 1 : position + 2], directory)
        else:
            skip = "=" not in argument and argument not in _FLAGS
    return tuple(passed_on)


def _is_value(following: Sequence[str], directory: Path) -> bool:
    """Whether the word behind `--iterate-commit` or `--iterate-resume` belongs to it: it does unless it is a path."""
    word = following[0] if following else "-"
    return not word.startswith("-") and not (directory / word.partition("::")[0]).exists()


def _optional_value(config: pytest.Config, arguments: Sequence[str], option: str) -> str | None:
    """The value of `--option[=VALUE]`; '' when it has none, None when it was not given."""
    for position, argument in enumerate(arguments):
        name, given, value = argument.partition("=")
        if name == option and given:
            if not value and option == "--iterate-resume":
                raise UsageError("--iterate-resume= names no run", hint="use --iterate-resume or --iterate-resume=RUN")
            return value
        if name == option:
            following = arguments[position + 1 : position + 2]
            return following[0] if _is_value(following, Path(config.invocation_params.dir)) else ""
    found = getattr(config.option, option.removeprefix("--").replace("-", "_"))  # from addopts
    return str(found) if found is not None else None


def _ran_as_module() -> bool:
    """`python -m pytest` puts the current folder on the path, `pytest` does not; the tests get what the user typed."""
    return os.path.basename(sys.argv[0]) == "__main__.py"  # noqa: PTH119 - a string, not a file
