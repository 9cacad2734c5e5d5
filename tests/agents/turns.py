"""Turns for tests of agents that are called for real."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pytest_iterctl.agents.turn import Turn
from pytest_iterctl.plan.agent_names import resolve_agent
from pytest_iterctl.plan.frozen import NamedAgent
from pytest_iterctl.plan.model import Agent

__all__ = ["never_stop", "turn_for"]


def never_stop(_elapsed: float) -> bool:
    return False


def turn_for(agent: str | Agent, folder: Path, **changes: Any) -> Turn:
    """A turn in `folder/tree`, with its private files beside it; an agent by its word or spelt out."""
    tree = folder / "tree"
    tree.mkdir(exist_ok=True)
    named = resolve_agent(agent, {}, root=tree) if isinstance(agent, str) else NamedAgent(name="mine", spec=agent)
    values: dict[str, Any] = {
        "agent": named,
        "stage": "generate",
        "run": "run",
        "task": "doubling",
        "iteration": 1,
        "max_iterations": 3,
        "session": "run-doubling-1-generate-1",
        "prompt": "# Task doubling\n\nMake the failing tests pass. Umlauts: äöü.\n",
        "feedback": {},
        "diff": "",
        "directory": tree,
        "private": folder / "private",
        "seconds": 60.0,
        "limit": "",
        "python": sys.executable,
        "arguments": (),
        "as_module": True,
        "pass_env": (),
    }
    return Turn(**{**values, **changes})
