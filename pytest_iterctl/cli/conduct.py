"""Conducting a run for somebody: watchers on, run, reports written, summary or JSON out, a question asked in person."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn

from pytest_iterctl.agents.person import at_terminal
from pytest_iterctl.cli.asking import ask_person
from pytest_iterctl.cli.guard import complain
from pytest_iterctl.cli.planning import found_agent_clis
from pytest_iterctl.cli.reports import ReportWriter
from pytest_iterctl.control.state import RunState
from pytest_iterctl.errors import ExitCode
from pytest_iterctl.loop.run import Answer, Audience, answer_run
from pytest_iterctl.loop.workspace import Workspace
from pytest_iterctl.show.documents import run_document
from pytest_iterctl.show.style import style_of
from pytest_iterctl.show.summary import print_summary
from pytest_iterctl.show.terminal import Terminal

__all__ = ["Manner", "conduct"]


@dataclass(frozen=True, slots=True)
class Manner:
    """How a run is shown."""

    json: bool = False
    quiet: int = 0
    verbose: int = 0


def conduct(workspace: Workspace, manner: Manner, begin: Callable[[Audience], RunState]) -> int:
    """One run to its end and out to the user; at a terminal a question may be answered right away."""
    style = style_of(sys.stderr, os.environ, verbose=bool(manner.verbose))
    terminal = Terminal(style, quiet=manner.quiet, verbose=manner.verbose)
    reports = ReportWriter(workspace)
    audience = Audience(watchers=(terminal.watch, reports.watch), tick=terminal.tick)
    with ExitStack() as stack:
        stack.callback(terminal.close)
        stack.enter_context(_signals())
        state = begin(audience)
        while True:
            terminal.close()
            _tell(manner, state, reports)
            answer = _asked(state) if at_terminal() and not manner.json else None
            if answer is None:
                break
            task, given = answer
            state = answer_run(workspace, state.run, task, given, audience)
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


class _signals:  # noqa: N801 - reads as what it is: with _signals()
    """A driver that is asked to end (TERM, HUP) does what Ctrl-C does: ends its children, writes it down, leaves."""

    def __enter__(self) -> None:
        self._old = {number: signal.signal(number, self._interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    @staticmethod
    def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt
