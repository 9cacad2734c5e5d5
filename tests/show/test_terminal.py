"""The terminal: the line grammar, colours by the rules, a live line where somebody sees it, a heartbeat elsewhere."""

from __future__ import annotations

import io

import pytest

from pytest_iterctl.control.decision import Decision
from pytest_iterctl.control.events import (
    Decided,
    RunStarted,
    SnapshotTaken,
    StageStarted,
    SuiteFinished,
    TaskStarted,
    TurnFinished,
    Warned,
)
from pytest_iterctl.control.evidence import (
    Change,
    Counts,
    Failure,
    Feedback,
    Outcome,
    SuiteEvidence,
    TurnEvidence,
    TurnOutcome,
)
from pytest_iterctl.control.fold import apply
from pytest_iterctl.control.state import Entry, RunState
from pytest_iterctl.plan.freeze import LIMITS
from pytest_iterctl.plan.frozen import FrozenPlan, FrozenTask, NamedAgent
from pytest_iterctl.plan.model import Agent
from pytest_iterctl.show.style import Style, style_of
from pytest_iterctl.show.summary import print_summary
from pytest_iterctl.show.terminal import Terminal, status_line

EVIL = "\x1b[2Jboo\x07\n::error::x\u202e"


class Screen(io.StringIO):
    encoding = "utf-8"

    def __init__(self, *, terminal: bool = False) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def style(screen: Screen, *, live: bool = False, in_ci: bool = False) -> Style:
    return Style(stream=screen, colour=False, live=live, unicode=True, in_ci=in_ci)


def events() -> list[object]:
    task = FrozenTask(id="doubling", agent=NamedAgent(name="claude", spec=Agent(command=("claude",))))
    red = SuiteEvidence(
        outcome=Outcome.FAILED,
        counts=Counts(tests=42, passed=38, failed=4),
        failing=("a", "b", "c", "d"),
        failures=(Failure(test="a", message=EVIL),),
        seconds=6.1,
    )
    retry = Decision(
        action="retry",
        task_id="doubling",
        iteration=1,
        reason="tests-failed",
        explanation="4 failed",
        feedback=Feedback(summary="s", actionable_items=("one", "two")),
    )
    return [
        RunStarted(
            run="01JDQ3AAAA",
            version="0",
            plan=FrozenPlan(limits=LIMITS["normal"], tasks=(task,)),
            root="/r",
            git_dir="/r/.git",
            head="",
            directory=".",
        ),
        TaskStarted(task="doubling", base="1a2b3c4d5e", tree="t"),
        StageStarted(task="doubling", iteration=0, stage="test", before="1a2b3c4d5e"),
        SuiteFinished(task="doubling", iteration=0, suite=red),
        Decided(task="doubling", iteration=0, decision=retry),
        StageStarted(task="doubling", iteration=1, stage="generate", agent="claude", before="b"),
        TurnFinished(
            task="doubling",
            iteration=1,
            turn=TurnEvidence(agent="claude", outcome=TurnOutcome.DONE, seconds=48.21, cost_usd=0.21),
        ),
        SnapshotTaken(
            task="doubling",
            iteration=1,
            stage="generate",
            commit="c",
            tree="u",
            change=Change(files=("x", "y"), file_count=2, added=31, deleted=4),
        ),
        Warned(text=EVIL),
    ]


def played(terminal: Terminal, number: int | None = None) -> RunState:
    state = RunState()
    for sequence, event in enumerate(events()[:number], 1):
        entry = Entry(sequence, "2026-01-01T00:00:00Z", float(sequence), event)  # type: ignore[arg-type]
        state = apply(state, entry)
        terminal.watch(entry, state)
    return state


def test_lines_follow_the_grammar() -> None:
    screen = Screen()
    played(Terminal(style(screen)))
    lines = screen.getvalue().splitlines()
    assert lines[0] == "─" * 12
    assert lines[1] == " iterctl run 01JDQ3AAAA · doubling · agent claude · limits 3 iterations, 30m, $20.00"
    assert lines[2] == "    Starting 42 tests, base 1a2b3c4"
    assert lines[3] == "   TEST FAIL [    6.10s] (0/3) 38 passed, 4 failed"
    assert lines[4].startswith("       RETRY [    3.00s] (0/3) 2 items of feedback")
    assert lines[5] == "    GENERATE [   48.21s] (1/3) +31 −4 in 2 files, $0.21"


def test_a_status_word_is_right_aligned_to_twelve_columns() -> None:
    assert status_line("PASS", 1.5, "x") == "        PASS [    1.50s] x"
    assert status_line("SLOW", 120.0, "x", over=True) == "        SLOW [ >120.00s] x"


def test_quiet_says_nothing_and_verbose_says_what_failed() -> None:
    quiet, verbose = Screen(), Screen()
    played(Terminal(style(quiet), quiet=1))
    played(Terminal(style(verbose), verbose=1))
    assert quiet.getvalue() == ""
    assert "             one\n" in verbose.getvalue()


def test_foreign_text_cannot_move_the_cursor_or_start_a_line() -> None:
    screen = Screen()
    played(Terminal(style(screen, in_ci=True), verbose=1))
    text = screen.getvalue()
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    assert not any(line.lstrip().startswith("::") for line in text.splitlines())


def test_the_live_line_is_drawn_over_and_gone_before_the_next_line() -> None:
    screen = Screen(terminal=True)
    terminal = Terminal(style(screen, live=True))
    state = played(terminal, 6)
    terminal.tick(1.0, state)
    assert screen.getvalue().endswith("    GENERATE [    1.00s] (1/3) agent claude still running, 4 failing")
    terminal.close()
    assert screen.getvalue().endswith("\r\x1b[2K")


def test_a_pipe_gets_a_heartbeat_once_a_minute_and_no_animation() -> None:
    screen = Screen()
    terminal = Terminal(style(screen), heartbeat=60.0)
    state = played(terminal, 6)
    before = len(screen.getvalue().splitlines())
    for second in range(130):
        terminal.tick(float(second), state)
    lines = screen.getvalue().splitlines()[before:]
    assert lines == [
        "        SLOW [  >60.00s] (1/3) agent claude still running, 4 failing",
        "        SLOW [ >120.00s] (1/3) agent claude still running, 4 failing",
    ]
    assert "\r" not in screen.getvalue()


@pytest.mark.parametrize(
    ("terminal", "environment", "colour", "live"),
    [
        (True, {}, True, True),
        (False, {}, False, False),
        (True, {"NO_COLOR": "1"}, False, True),
        (True, {"NO_COLOR": ""}, True, True),
        (False, {"FORCE_COLOR": "1"}, True, False),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
        (True, {"TERM": "dumb"}, False, False),
        (True, {"CI": "true"}, True, False),
        (True, {"BUILD_NUMBER": "7"}, True, False),
    ],
)
def test_colour_and_animation_are_separate_switches(
    terminal: bool, environment: dict[str, str], colour: bool, live: bool
) -> None:
    found = style_of(Screen(terminal=terminal), environment)
    assert (found.colour, found.live) == (colour, live)


def test_a_stream_that_cannot_carry_a_character_gets_a_plain_one() -> None:
    screen = Screen()
    Style(stream=screen, colour=False, live=False, unicode=False, in_ci=False).write("─ +1 −2 → …")
    assert screen.getvalue() == "- +1 -2 -> ...\n"


def test_the_summary_says_only_what_needs_action() -> None:
    screen = Screen()
    print_summary(played(Terminal(style(Screen()), quiet=1)), style(screen), {})
    assert screen.getvalue().splitlines()[1].startswith("     Summary [")
