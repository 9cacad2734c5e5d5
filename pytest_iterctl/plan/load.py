"""Finding a plan and reading it, with everything that is wrong with it told at once."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from pytest_iterctl.errors import PlanError
from pytest_iterctl.plan.checks import check_names, check_values
from pytest_iterctl.plan.document import PLAN_LIMIT, Document, too_large
from pytest_iterctl.plan.model import Plan
from pytest_iterctl.plan.problems import Finding, Problem, plan_error
from pytest_iterctl.plan.toml_reader import read_toml
from pytest_iterctl.plan.translate import findings
from pytest_iterctl.plan.yaml_reader import read_yaml

__all__ = ["PLAN_NAMES", "find_plan", "load_plan", "read_plan"]

#: Names of files that are plans, in the order in which they are looked for.
PLAN_NAMES = ("iterctl.yaml", "iterctl.yml")
_PROJECT = "pyproject.toml"
_TABLE = ("tool", "iterctl")


def find_plan(root: Path) -> Path | None:
    """The repository's plan. Two of them are an error: nobody could say which one holds."""
    # A link that leads nowhere is found too; loading it tells what is wrong with it.
    found = [root / name for name in PLAN_NAMES if os.path.lexists(root / name)]
    project = root / _PROJECT
    if project.is_file() and _has_table(project):
        found.append(project)
    if len(found) > 1:
        names = [f"{path.name} [tool.iterctl]" if path == project else path.name for path in found]
        message = f"there are {len(found)} plans: {' and '.join(names)}"
        raise plan_error([Problem(_shown(found[0]), 0, 0, (), message, "keep one of them")])
    return found[0] if found else None


def load_plan(path: Path, *, root: Path | None = None) -> Plan:
    """The plan in a YAML, JSON or TOML file. Agents that are files are looked for under root (default: beside it)."""
    data = _read(path)
    is_toml = path.suffix == ".toml"
    return read_plan(data, _shown(path), root=root or path.parent, is_toml=is_toml)


def read_plan(data: bytes, source: str, *, root: Path, is_toml: bool = False) -> Plan:
    """A plan from bytes; whatever they are, the answer is a plan or a `PlanError`."""
    document = _iterctl_table(read_toml(data, source)) if is_toml else read_yaml(data, source)
    if not isinstance(document.data, dict):
        message, hint = "expected a table of keys", "a plan has the keys `settings`, `agents` and `tasks`"
        raise document.error([Finding((), message, hint)])
    plan, wrong = _validated(document.data)
    problems = {finding.path: finding for finding in reversed([*wrong, *_checked(document, root)])}
    if plan is None or problems:
        raise document.error(problems.values())
    return plan


def _validated(data: object) -> tuple[Plan | None, list[Finding]]:
    try:
        # Through JSON, because only then does pydantic take a list for a tuple and still refuse "3" for 3.
        return Plan.model_validate_json(json.dumps(data, default=str)), []
    except ValidationError as error:
        return None, list(findings(error, data))


def _checked(document: Document, root: Path) -> Iterator[Finding]:
    yield from check_values(document.data)
    yield from check_names(document.data, root=root)


def _iterctl_table(document: Document) -> Document:
    for key in _TABLE:
        if not isinstance(document.data, dict) or key not in document.data:
            message = "has no table [tool.iterctl]"
            raise plan_error([Problem(document.source, 0, 0, (), message, "name another plan, or add it")])
        document = document.sub(key)
    return document


def _has_table(project: Path) -> bool:
    data = _read(project)
    # A project file that does not mention us is none of our business, however broken it is.
    if b"iterctl" not in data:
        return False
    tool = _table(read_toml(data, _shown(project)).data).get("tool")
    return bool(_table(tool).get("iterctl"))


def _table(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_size > PLAN_LIMIT:
                raise too_large(_shown(path), status.st_size, limit=PLAN_LIMIT)
            return file.read(PLAN_LIMIT + 1)
    except FileNotFoundError:
        raise _unreadable(path, "there is no such file", "check the path, or write a plan there") from None
    except IsADirectoryError:
        raise _unreadable(path, "is a directory", "name the plan in it") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _unreadable(path, f"can't be read: {reason}", "") from None


def _unreadable(path: Path, message: str, hint: str) -> PlanError:
    return plan_error([Problem(_shown(path), 0, 0, (), message, hint)])


def _shown(path: Path) -> str:
    """The path as people would type it here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)
