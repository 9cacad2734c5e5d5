"""The run as it happens: one calm line per stage, a live line on a terminal, a heartbeat where nobody would see one."""

from __future__ import annotations

from pytest_iterctl.control.events import (
    Answered,
    BaseLost,
    BaseProved,
    CheckpointWritten,
    Decided,
    Judged,
    Recovered,
    Resumed,
    ReviewFinished,
    RunStarted,
    SnapshotTaken,
    StopRequested,
    StrategyChosen,
    SuiteFinished,
    TaskStarted,
    TurnFinished,
    Undone,
    Waited,
    Warned,
)
from pytest_iterctl.control.evidence import GateEvidence, SuiteEvidence, TurnEvidence, TurnOutcome
from pytest_iterctl.control.pattern import counted
from pytest_iterctl.control.state import Entry, RunState
from pytest_iterctl.show.failure import strategy_text
from pytest_iterctl.show.integrity import finding_text, gap_text, proof_text, some, suspicious, verdict_text
from pytest_iterctl.show.style import Paint, Style
from pytest_iterctl.show.words import (
    change_text,
    cost_text,
    counts_text,
    limits_text,
    suite_text,
    suite_word,
    walls_text,
)
from pytest_iterctl.text import human_bytes, one_line

__all__ = ["RULE", "Terminal", "status_line"]

RULE = "─" * 12
_WORD = 12
_TOUCHES = 5
_TURN_WORDS = {
    TurnOutcome.LIMIT: "AGENT LIMIT",
    TurnOutcome.ASKED: "ASKED",
    TurnOutcome.TOOLS_DENIED: "DENIED",
    TurnOutcome.RATE_LIMITED: "RATE LIMIT",
}
_WORKING = {"generate": "agent", "test": "tests", "judge": "gate", "review": "reviewer"}
_VERDICTS: dict[str, tuple[str, Paint]] = {
    "accepted": ("ROOM PASS", "good"),
    "failed": ("ROOM FAIL", "bad"),
    "gaps": ("GATE", "warn"),
    "incident": ("INCIDENT", "bad"),
}


def status_line(word: str, seconds: float | None, text: str, *, over: bool = False) -> str:
    """The grammar of every line: a right-aligned word, the time in brackets, the rest."""
    if seconds is None:
        return f"{word:>{_WORD}} {text}"
    time = f">{seconds:.2f}s" if over else f"{seconds:.2f}s"
    return f"{word:>{_WORD}} [{time:>9}] {text}"


class Terminal:
    """Watches a run and writes lines; quiet 1 leaves only the summary, verbose adds what was said to the agent."""

    def __init__(self, style: Style, *, quiet: int = 0, verbose: int = 0, heartbeat: float = 60.0) -> None:
        self._style = style
        self._quiet = quiet
        self._verbose = verbose
        self._heartbeat = heartbeat
        self._next_beat = heartbeat
        self._last_drawn = -1.0
        self._drawn = False
        self._previous: dict[str, SuiteEvidence] = {}

    def watch(self, entry: Entry, state: RunState) -> None:
        """One entry has been written: say it, if it is worth a line."""
        self._next_beat = self._heartbeat
        self._last_drawn = -1.0
        if self._quiet:
            return
        event = entry.event
        match event:
            case RunStarted():
                self._header(state)
            case Resumed():
                self._header(state)
                self._line("RESUME", None, f"after {state.clock:.2f}s at work, {cost_text(state)}", "note")
            case TaskStarted() if len(state.tasks) > 1:
                self._task_header(state, event.task)
            case SuiteFinished():
                self._suite(state, event)
            case BaseProved():
                self._base(event)
            case Judged():
                self._judged(state, event)
            case TurnFinished():
                if event.turn.outcome is not TurnOutcome.DONE:
                    self._turn(state, event)
                self._touched(state, event, event.turn)
            case SnapshotTaken() if event.stage == "generate":
                self._generated(state, event)
            case SnapshotTaken() if event.left_out:
                self._warning("left out of the snapshot: " + ", ".join(event.left_out[:5]))
            case ReviewFinished():
                self._review(state, event)
                self._touched(state, event, event.turn)
            case Decided():
                self._decided(state, event)
            case _:
                self._rare(entry, state)

    def _rare(self, entry: Entry, state: RunState) -> None:
        event = entry.event
        match event:
            case StrategyChosen() if event.strategy.name != "default" or event.note:
                told = strategy_text(event)
                self._line("STRATEGY", None, self._number(state, event.task, event.iteration, told), "note")
            case Waited() if event.seconds > 0:
                told = f"{round(event.seconds, 2):g}s before the next call: {one_line(event.why, 120)}"
                self._line("WAIT", None, self._number(state, event.task, event.iteration, told), "warn")
            case Undone():
                told = "what the failed agent left was taken out (kept as a snapshot)"
                if event.destroyed:
                    told = f"taken back as a whole (kept as {event.kept[:12]}): {event.destroyed}"
                self._line("UNDO", None, self._number(state, event.task, event.iteration, told), "warn")
            case Recovered() if event.kept:
                found = f"what it held: git diff {event.restored[:12]} {event.kept[:12]}"
                where = "the iteration" if event.stage == "start" else f"stage {event.stage}"
                told = f"put back to where {where} began ({some(event.files, 5)}); {found}"
                self._line("RECOVER", None, self._number(state, event.task, event.iteration, told, 600), "warn")
            case BaseLost() if event.edited:
                told = f"by a person since, and part of the base now: {some(event.edited, 5)}"
                self._line("EDITED", None, told, "note")
            case BaseLost():
                self._warning(f"the kept base of {event.task} is not here: it is kept and proved anew")
            case Answered():
                told = one_line(event.guidance, 120) or event.effect
                self._line("ANSWER", None, told, "note")
            case StopRequested():
                self._line("STOP", None, f"asked by {one_line(event.by, 60)}", "warn")
            case CheckpointWritten():
                self._line("CHECKPOINT", None, one_line(event.path, 160), "plain")
            case Warned():
                self._warning(event.text)
            case _:
                pass

    def tick(self, elapsed: float, state: RunState) -> None:
        """Something takes long: redraw the live line, or say so once in a while where lines stay."""
        if self._quiet or _asks_a_person(state):
            return
        if self._style.live:
            if elapsed - self._last_drawn >= 0.2 or elapsed < self._last_drawn:  # noqa: PLR2004 - five times a second
                self._last_drawn = elapsed
                self._draw(self._working(state, elapsed))
        elif elapsed >= self._next_beat:
            self._next_beat = elapsed + self._heartbeat
            self._style.write(self._working(state, elapsed, word="SLOW", over=True))

    def close(self) -> None:
        self._erase()

    def _working(self, state: RunState, elapsed: float, *, word: str = "", over: bool = False) -> str:
        stage = state.open_stage
        if stage is None:
            return status_line(word or "WORKING", elapsed, "still running", over=over)
        who = f"{_WORKING[stage.stage]} {one_line(stage.agent, 40)}".strip()
        task = state.task(stage.task)
        last = next((a.verdict for a in reversed(task.attempts) if a.verdict is not None), None)
        failing = f", {len(last.failing)} failing" if last is not None and last.failing else ""
        cost = f", ${task.cost:.2f}" if task.cost else ""
        told = f"{who} still running{failing}{cost}"
        return status_line(
            word or stage.stage.upper(), elapsed, self._number(state, stage.task, stage.iteration, told), over=over
        )

    def _draw(self, line: str) -> None:
        self._erase()
        self._style.put(one_line(line, max(self._style.width - 1, 20)) if len(line) >= self._style.width else line)
        self._drawn = True

    def _erase(self) -> None:
        if self._drawn:
            self._style.put("\r\x1b[2K")
            self._drawn = False

    def _line(self, word: str, seconds: float | None, text: str, paint: Paint) -> None:
        self._erase()
        line = status_line(word, seconds, text)
        padded = f"{word:>{_WORD}}"
        self._style.write(line.replace(padded, self._style.paint(padded, paint), 1))

    def _warning(self, text: str) -> None:
        self._erase()
        self._style.write(f"{self._style.paint('warning:', 'warn')} {one_line(text, 400)}")

    def _number(self, state: RunState, task_id: str, iteration: int, text: str, limit: int = 240) -> str:
        task = state.task(task_id)
        return f"({iteration}/{task.bound}) {one_line(text, limit)}"

    def _header(self, state: RunState) -> None:
        self._erase()
        tasks = state.tasks
        name = tasks[0].id if len(tasks) == 1 else counted(len(tasks), "task")
        agents = list(dict.fromkeys(t.task.agent.name for t in tasks if t.task.agent is not None)) or ["none"]
        agent = one_line(", ".join(agents), 60)
        self._style.write(RULE)
        run = self._style.paint(state.run, "bold")
        bounds = f"limits {limits_text(state)}{walls_text(state)}"
        self._style.write(f" iterctl run {run} · {name} · agent {agent} · {bounds}")

    def _task_header(self, state: RunState, task_id: str) -> None:
        position = [task.id for task in state.tasks].index(task_id) + 1
        self._line("TASK", None, f"{task_id} ({position} of {len(state.tasks)})", "bold")

    def _suite(self, state: RunState, event: SuiteFinished) -> None:
        task, suite = state.task(event.task), event.suite
        if event.iteration == 0 and event.task not in self._previous:
            self._line("Starting", None, f"{counted(suite.counts.tests, 'test')}, base {task.base[:7]}", "plain")
        text = suite_text(suite, self._previous.get(event.task))
        paint: Paint = "good" if suite.passed else "bad"
        self._line(suite_word(suite), suite.seconds, self._number(state, event.task, event.iteration, text), paint)
        self._previous[event.task] = suite
        if self._verbose:
            for failure in suite.failures[:20]:
                self._indented(f"{failure.test}: {failure.message}")

    def _base(self, event: BaseProved) -> None:
        proof = event.proof
        if proof.proved:
            self._line("BASELINE", proof.seconds, proof_text(proof), "plain")
        else:
            # Its end says what to do about it, so it is not cut where other lines are.
            self._line("UNPROVED", proof.seconds, one_line(proof.problem, 800), "bad")
        if self._verbose:
            for text in (*proof.runs, *proof.flaky, *proof.differs[:20], *proof.notes):
                self._indented(text)

    def _judged(self, state: RunState, event: Judged) -> None:
        """Silent where there is nothing to say: no green claim, or the baseline's own, which was told already."""
        gate = event.gate
        if gate.verdict == "not-green" or (event.iteration == 0 and gate.accepted):
            return
        word, paint = _VERDICTS[gate.verdict]
        text = _accepted_text(gate) if gate.accepted else verdict_text(gate)
        self._line(word, gate.seconds, self._number(state, event.task, event.iteration, text, 500), paint)
        if self._verbose:
            self._evidence(gate)

    def _evidence(self, gate: GateEvidence) -> None:
        for gap in gate.gaps:
            self._indented(f"gap {gap.kind}: {gap_text(gap)}")
        for finding in gate.findings:
            self._indented(f"{'certain' if finding.certain else 'suspicious'}: {finding_text(finding)}")
        for each in gate.left_out[:20]:
            self._indented(f"left out: {each.path}: {each.reason}")
        if gate.new_tests:
            self._indented(f"new tests: {gate.new_tests}")
        for text in gate.checked:
            self._indented(f"checked: {text}")
        for text in gate.unchecked:
            self._indented(f"unchecked: {text}")

    def _turn(self, state: RunState, event: TurnFinished) -> None:
        """A turn of which there is more to say than what it changed."""
        turn = event.turn
        word = _TURN_WORDS.get(turn.outcome, "AGENT FAIL")
        known = {TurnOutcome.ASKED: turn.question, TurnOutcome.TOOLS_DENIED: ", ".join(turn.denied)}
        text = one_line(known.get(turn.outcome) or turn.error or str(turn.outcome), 300)
        paint: Paint = "warn" if turn.outcome.took_its_turn else "bad"
        self._line(word, turn.seconds, self._number(state, event.task, event.iteration, text), paint)

    def _touched(self, state: RunState, event: TurnFinished | ReviewFinished, turn: TurnEvidence) -> None:
        """What it did to .git and around the work tree; of what nobody is blamed for only the number."""
        blamed = [each for each in turn.touched if each.destructive]
        for each in blamed if self._verbose else blamed[:_TOUCHES]:
            told = self._number(state, event.task, event.iteration, f"{each.what} {each.how}")
            self._line("UNDONE" if each.undone else "NOT UNDONE", None, told, "warn" if each.undone else "bad")
        others = [each for each in turn.touched if not each.destructive]
        undone = sum(each.undone for each in others)
        if self._verbose:
            for each in others:
                self._indented(each.text)
        elif len(blamed) > _TOUCHES:
            told = f"and {counted(len(blamed) - _TOUCHES, 'more thing')} like it: iterctl report"
            self._line("", None, self._number(state, event.task, event.iteration, told), "plain")
        elif undone and not blamed:
            # It may have been the user, who wants to know where a commit has gone.
            told = f"{counted(undone, 'change')} of .git during the turn: git for-each-ref refs/iterctl/kept"
            self._line("PUT BACK", None, self._number(state, event.task, event.iteration, told), "warn")
        elif others and not blamed:
            told = f"{counted(len(others), 'thing')} in .git or around the work tree touched: iterctl report"
            self._line("TOUCHED", None, self._number(state, event.task, event.iteration, told), "note")

    def _generated(self, state: RunState, event: SnapshotTaken) -> None:
        attempt = state.task(event.task).attempts[-1]
        turn = attempt.turns[-1]
        if not turn.outcome.took_its_turn:
            return
        cost = f", ${turn.cost_usd:.2f}" if turn.cost_usd is not None else ""
        text = change_text(event.change) + cost
        paint: Paint = "plain" if event.change.file_count else "warn"
        self._line("GENERATE", turn.seconds, self._number(state, event.task, event.iteration, text), paint)
        if self._verbose:
            for name in event.change.files[:20]:
                self._indented(name)

    def _review(self, state: RunState, event: ReviewFinished) -> None:
        words: dict[str, tuple[str, Paint]] = {
            "approve": ("APPROVE", "good"),
            "reject": ("REJECT", "bad"),
            "pending": ("PENDING", "warn"),
            "failed": ("REVIEW FAIL", "bad"),
        }
        word, paint = words[event.review.status]
        told = f"{event.review.reviewer}: {one_line(event.review.feedback, 160)}".rstrip(": ")
        self._line(word, event.turn.seconds, self._number(state, event.task, event.iteration, told), paint)

    def _decided(self, state: RunState, event: Decided) -> None:
        decision = event.decision
        task = state.task(event.task)
        seconds = task.attempts[-1].ended - task.attempts[0].began
        if decision.action == "retry":
            items = decision.feedback.actionable_items if decision.feedback is not None else ()
            size = sum(len(item.encode()) for item in items) + len(decision.explanation.encode())
            told = f"{counted(len(items), 'item')} of feedback ({human_bytes(size)})"
            self._line("RETRY", seconds, self._number(state, event.task, event.iteration, told), "warn")
            if self._verbose:
                for item in items:
                    self._indented(item)
        elif decision.action == "proceed":
            self._line(
                "PROCEED", seconds, self._number(state, event.task, event.iteration, decision.explanation), "good"
            )
        else:
            word = "STOPPED" if task.status == "stopped" else "ABORTED" if task.status == "aborted" else "ESCALATE"
            self._line(word, seconds, self._number(state, event.task, event.iteration, decision.explanation), "bad")

    def _indented(self, text: str) -> None:
        self._erase()
        self._style.write(" " * (_WORD + 1) + one_line(text, 300))


def _accepted_text(gate: GateEvidence) -> str:
    """That it passed, and briefly what a person may want to know all the same."""
    counts = f": {counts_text(gate.suite.counts)}" if gate.suite is not None else ""
    parts = [verdict_text(gate) + counts]
    if doubtful := suspicious(gate):
        places = (f"{finding.where} {finding.rule}".strip() for finding in doubtful)
        parts.append(f"{len(doubtful)} suspicious: {some(places)}")
    if edits := [each.path for each in gate.left_out if each.protected]:
        parts.append(f"left out: {some(edits)}")
    if gate.flaky:
        parts.append(f"flaky before: {some(gate.flaky)}")
    return "; ".join(parts)


def _asks_a_person(state: RunState) -> bool:
    """Whether somebody is typing right now, whom a live line would only disturb."""
    stage = state.open_stage
    if stage is None or stage.stage in {"test", "judge"}:
        return False
    task = state.task(stage.task).task
    agents = (task.agent,) if stage.stage == "generate" else task.reviewers
    return any(agent is not None and agent.name == stage.agent and agent.spec.person for agent in agents)
