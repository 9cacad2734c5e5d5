"""The terminal: the line grammar, colours by the rules, a live line where somebody sees it, a heartbeat elsewhere."""

from __future__ import annotations

import io

import pytest

from pytest_iterctl.control.decision import Decision
from pytest_iterctl.control.events import (
    BaseLost,
    BaseProved,
    Decided,
    Event,
    Judged,
    RunStarted,
    Settled,
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
    GateEvidence,
    GateFinding,
    GateVerdict,
    IntegrityGap,
    LeftOut,
    Outcome,
    Proof,
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


# ── the gate ─────────────────────────────────────────────────────────────────────────────────────────────────────────

PROOF = Proof(
    manifest="m",
    files=812,
    protected_count=61,
    runs=("failed in the work tree", "failed in the clean room", "failed in the clean room, in reverse order"),
    counts={"failed": 2, "passed": 40},
    flaky=("a: passed in the work tree, failed in the clean room", "b: failed in the work tree"),
    seconds=2.1,
)
GREEN = SuiteEvidence(outcome=Outcome.PASSED, counts=Counts(tests=42, passed=42), seconds=5.0)
ROOM = SuiteEvidence(
    outcome=Outcome.FAILED, counts=Counts(tests=42, passed=40, failed=2), failing=("x", "y"), reason="2 failed"
)
HARD_CODED = GateFinding(where="calc.py:3", rule="hard-coded", text="knows the tests' inputs.")
EXITS = GateFinding(where="calc.py:9", rule="ends-process", certain=True, text="calls os._exit(0).")
EDIT = LeftOut(path="tests/test_x.py", reason="is protected: its name makes it a test file", protected=True)
GAP = IntegrityGap(kind="vanished", text="1 test is no longer run: z", undo="bring it back", tests=("z",))


def lines_after(*more: Event, verbose: int = 0, until: int = 8) -> list[str]:
    """What is written for these events, after the usual beginning."""
    screen = Screen()
    terminal = Terminal(style(screen), verbose=verbose)
    state = played(terminal, until)
    before = len(screen.getvalue().splitlines())
    for sequence, event in enumerate(more, until + 1):
        entry = Entry(sequence, "2026-01-01T00:00:00Z", float(sequence), event)
        state = apply(state, entry)
        terminal.watch(entry, state)
    return screen.getvalue().splitlines()[before:]


def judged(gate: GateEvidence, iteration: int = 1) -> Judged:
    return Judged(task="doubling", iteration=iteration, gate=gate)


def test_the_baseline_is_one_line_with_what_was_flaky_before() -> None:
    assert lines_after(BaseProved(task="doubling", proof=PROOF)) == [
        "    BASELINE [    2.10s] 3 runs: 40 passed, 2 failed; 812 files kept, 61 protected; flaky before: a, b"
    ]
    verbose = lines_after(BaseProved(task="doubling", proof=PROOF), verbose=1)
    assert "             failed in the clean room, in reverse order" in verbose


def test_a_room_that_is_not_proved_says_all_of_what_to_do() -> None:
    problem = "the clean room can't be used: " + "why " * 100 + "name it under `prepare:`"
    (line,) = lines_after(BaseProved(task="doubling", proof=Proof(manifest="m", problem=problem, seconds=1.0)))
    assert line.startswith("    UNPROVED [    1.00s] the clean room can't be used: why")
    assert line.endswith("name it under `prepare:`")


@pytest.mark.parametrize(
    ("gate", "line"),
    [
        (
            GateEvidence(
                verdict="accepted",
                reason="the tests pass in the clean room",
                suite=GREEN,
                findings=(HARD_CODED,),
                left_out=(EDIT, LeftOut(path="x.pyc", reason="is compiled code")),
                seconds=7.5,
            ),
            (
                "   ROOM PASS [    7.50s] (1/3) the tests pass in the clean room: 42 passed; "
                "1 suspicious: calc.py:3 hard-coded; left out: tests/test_x.py"
            ),
        ),
        (
            GateEvidence(verdict="failed", reason="not in the clean room: 2 failed", suite=ROOM, seconds=7.5),
            "   ROOM FAIL [    7.50s] (1/3) passed in the work tree, not in the clean room: 2 failed",
        ),
        (
            GateEvidence(verdict="gaps", reason="but 1 test is no longer run: z", suite=GREEN, seconds=7.5),
            "        GATE [    7.50s] (1/3) passed in the work tree, but 1 test is no longer run: z",
        ),
        (
            GateEvidence(verdict="incident", reason="calc.py:9 calls os._exit(0)", suite=GREEN, seconds=7.5),
            "    INCIDENT [    7.50s] (1/3) calc.py:9 calls os._exit(0)",
        ),
    ],
    ids=lambda each: each.verdict if isinstance(each, GateEvidence) else "",
)
def test_each_verdict_of_the_gate_has_its_word(gate: GateEvidence, line: str) -> None:
    assert lines_after(judged(gate)) == [line]


def test_a_red_run_and_the_baselines_own_verdict_are_not_told_twice() -> None:
    fine = GateEvidence(verdict="accepted", reason="the tests pass in the clean room", suite=GREEN)
    assert lines_after(judged(GateEvidence(verdict="not-green", reason="the tests fail"))) == []
    assert lines_after(judged(fine, 0), until=4) == []


def test_a_baseline_that_is_told_again_does_not_start_again() -> None:
    again = SuiteFinished(task="doubling", iteration=0, suite=GREEN)
    (line,) = lines_after(again, until=4)
    assert line.startswith("   TEST PASS")


def test_verbose_tells_all_that_the_gate_has_seen() -> None:
    gate = GateEvidence(
        verdict="gaps",
        reason="but 1 test is no longer run: z",
        suite=GREEN,
        gaps=(GAP,),
        findings=(HARD_CODED, EXITS),
        left_out=(EDIT,),
        new_tests="tests/test_more.py: 1 passed",
        checked=("42 tests compared with the baseline",),
        unchecked=("controls",),
    )
    assert [line.strip() for line in lines_after(judged(gate), verbose=1)[1:]] == [
        "gap vanished: 1 test is no longer run: z (to undo it: bring it back)",
        "suspicious: calc.py:3 hard-coded: knows the tests' inputs.",
        "certain: calc.py:9 ends-process: calls os._exit(0).",
        "left out: tests/test_x.py: is protected: its name makes it a test file",
        "new tests: tests/test_more.py: 1 passed",
        "checked: 42 tests compared with the baseline",
        "unchecked: controls",
    ]


def test_what_a_person_edited_and_a_base_that_is_gone_are_told_apart() -> None:
    assert lines_after(BaseLost(task="doubling", edited=("a.py", "b.py"))) == [
        "      EDITED by a person since, and part of the base now: a.py, b.py"
    ]
    assert lines_after(BaseLost(task="doubling")) == [
        "warning: the kept base of doubling is not here: it is kept and proved anew"
    ]


def test_the_gate_at_work_has_a_live_line_of_its_own() -> None:
    screen = Screen(terminal=True)
    terminal = Terminal(style(screen, live=True))
    state = played(terminal, 8)
    claim = StageStarted(task="doubling", iteration=1, stage="judge", before="c")
    state = apply(state, Entry(9, "2026-01-01T00:00:00Z", 9.0, claim))
    terminal.tick(1.0, state)
    assert screen.getvalue().endswith("       JUDGE [    1.00s] (1/3) gate still running, 4 failing, $0.21")


def evil_gate(verdict: GateVerdict) -> GateEvidence:
    return GateEvidence(
        verdict=verdict,
        reason=EVIL,
        suite=GREEN,
        gaps=(IntegrityGap(kind=EVIL, text=EVIL, undo=EVIL),),
        findings=(GateFinding(where=EVIL, rule=EVIL, text=EVIL),),
        left_out=(LeftOut(path=EVIL, reason=EVIL, protected=True),),
        may_change=(EVIL,),
        new_tests=EVIL,
        flaky=(EVIL,),
        checked=(EVIL,),
        unchecked=(EVIL,),
    )


@pytest.mark.parametrize("verdict", ["accepted", "failed", "gaps", "incident"])
def test_what_the_gate_quotes_cannot_move_the_cursor_or_start_a_line(verdict: GateVerdict) -> None:
    proof = Proof(manifest="m", runs=(EVIL,), counts={EVIL: 1}, flaky=(EVIL,), notes=(EVIL,), differs=(EVIL,))
    unproved = proof.model_copy(update={"problem": EVIL})
    told = lines_after(
        BaseLost(task="doubling", edited=(EVIL,)),
        BaseProved(task="doubling", proof=proof),
        BaseProved(task="doubling", proof=unproved),
        judged(evil_gate(verdict)),
        verbose=1,
    )
    told += summary_of(verdict, evil_gate(verdict))
    assert all(line.isprintable() for line in told)
    assert not any(line.lstrip().startswith("::") for line in told)


def summary_of(verdict: str, gate: GateEvidence, *, left_out: str = "") -> list[str]:
    """The summary of a run whose last change the gate judged so, with what is decided from it."""
    accepted = verdict == "accepted"
    decision = Decision(
        action="proceed" if accepted else "escalate",
        task_id="doubling",
        iteration=1,
        reason="passed" if accepted else "integrity",
        explanation="because",
    )
    state = played(Terminal(style(Screen()), quiet=1), 8)
    more: tuple[Event, ...] = (
        SuiteFinished(task="doubling", iteration=1, suite=GREEN),
        judged(gate),
        Decided(task="doubling", iteration=1, decision=decision),
        Settled(task="doubling", holds="accepted" if accepted else "base", iteration=1, left_out=left_out),
    )
    for sequence, event in enumerate(more, 9):
        state = apply(state, Entry(sequence, "2026-01-01T00:00:00Z", float(sequence), event))
    screen = Screen()
    print_summary(state, style(screen, in_ci=True), {})
    return screen.getvalue().splitlines()[1:]


def test_after_acceptance_the_summary_says_what_is_not_part_of_it_and_what_was_not_checked() -> None:
    gate = GateEvidence(
        verdict="accepted",
        reason="the tests pass in the clean room",
        suite=GREEN,
        findings=(HARD_CODED,),
        left_out=(EDIT,),
        may_change=("tests/test_y.py",),
        flaky=("b",),
        unchecked=("hidden tests", "mutants"),
    )
    assert summary_of("accepted", gate, left_out=".iterctl/runs/R/left-out.patch")[1:] == [
        "    Left out tests/test_x.py; kept in .iterctl/runs/R/left-out.patch",
        "  May change tests/test_y.py",
        "  Suspicious calc.py:3 hard-coded: knows the tests' inputs.",
        "       Flaky before the agent came, so no obstacle: b",
        "   Unchecked hidden tests; mutants",
    ]


def test_after_an_incident_the_summary_names_the_places() -> None:
    gate = GateEvidence(
        verdict="incident", reason="it exits", suite=ROOM, findings=(HARD_CODED, EXITS), gaps=(GAP,), left_out=(EDIT,)
    )
    told = summary_of("incident", gate)
    assert told[0].endswith("1/3 iterations: escalated; 38/42 passed, $0.21")
    assert "     CERTAIN calc.py:9 ends-process: calls os._exit(0)." in told
    assert "         GAP 1 test is no longer run: z (to undo it: bring it back)" in told
    assert "  Suspicious calc.py:3 hard-coded: knows the tests' inputs." in told
    assert "    Left out tests/test_x.py" in told
    assert "  ALWAYS 1/1 x" in told
