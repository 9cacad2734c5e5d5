"""Performing an errand for somebody: watchers on, run, reports written, summary or JSON out, a question asked."""

from __future__ import annotations

import json
import os
import sys
from contextlib import closing
from dataclasses import dataclass

from pytest_iterctl.agents.person import at_terminal
from pytest_iterctl.cli.asking import ask_person
from pytest_iterctl.cli.errand import Close, Errand, Respond
from pytest_iterctl.cli.guard import complain
from pytest_iterctl.cli.planning import found_agent_clis
from pytest_iterctl.cli.reports import ReportWriter
from pytest_iterctl.cli.signals import Signals
from pytest_iterctl.control.state import RunState
from pytest_iterctl.errors import ExitCode
from pytest_iterctl.loop.run import Answer, Audience
from pytest_iterctl.loop.workspace import Workspace
from pytest_iterctl.show.documents import run_document
from pytest_iterctl.show.style import style_of
from pytest_iterctl.show.summary import print_summary
from pytest_iterctl.show.terminal import Terminal
from pytest_iterctl.store.lock import WorkTreeLock

__all__ = ["Manner", "perform"]


@dataclass(frozen=True, slots=True)
class Manner:
    """How a run is shown."""

    json: bool = False
    quiet: int = 0
    verbose: int = 0


def perform(workspace: Workspace, manner: Manner, errand: Errand, lock: WorkTreeLock, signals: Signals) -> int:
    """The run itself, here; at a terminal a question may be answered right away."""
    style = style_of(sys.stderr, os.environ, verbose=bool(manner.verbose))
    terminal = Terminal(style, quiet=manner.quiet, verbose=manner.verbose)
    reports = ReportWriter(workspace)
    audience = Audience((terminal.watch, reports.watch), terminal.tick, lambda: signals.asked)
    asks = at_terminal() and not manner.json and not isinstance(errand, Close)
    with closing(terminal):
        with signals.patient():
            state = errand.perform(workspace, audience, lock)
        while True:
            terminal.close()
            _tell(manner, state, reports)
            answer = _asked(state) if asks and not signals.asked else None
            if answer is None:
                break
            task, given = answer
            with signals.patient():
                again = Respond(run=state.run, task=task, answer=given)
                state = again.perform(workspace, audience, workspace.lock(state.run))
    if state.finished is not None and state.finished.exit_code == ExitCode.INTERRUPTED:
        complain(f"error: run {state.run} was interrupted")
        complain(f"hint: go on with: iterctl resume {state.run}")
    if manner.json:
        # Like the summary: a reader that has gone away does not change how the run ended.
        style_of(sys.stdout, {}).put(json.dumps(run_document(state, reports.paths(state)), indent=1) + "\n")
    return int(state.finished.exit_code if state.finished is not None else ExitCode.NOT_ACCEPTED)


def _asked(state: RunState) -> tuple[str, Answer] | None:
    try:
        return ask_person(state)
    except KeyboardInterrupt:
        return None  # the question waits in the journal; Ctrl-C only says "not now"


def _tell(manner: Manner, state: RunState, reports: ReportWriter) -> None:
    """The summary, and the one hint that an unconfigured user needs."""
    if not manner.json and manner.quiet < 2:  # noqa: PLR2004 - -qq leaves the exit code alone to speak
        print_summary(state, style_of(sys.stdout, os.environ), reports.paths(state))
    if any(task.task.agent is None and task.status == "aborted" and _is_red(state) for task in state.tasks):
        found = found_agent_clis()
        named = f"found on the PATH: {', '.join(found)}" if found else "none of the known ones is on the PATH"
        complain("error: the tests fail and no agent is named")
        complain(f"hint: name one with --iterate-agent, --agent or in the plan ({named})")


def _is_red(state: RunState) -> bool:
    return any(task.decision is not None and task.decision.reason == "usage-error" for task in state.tasks)
