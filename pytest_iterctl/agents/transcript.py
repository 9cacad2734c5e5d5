"""What an agent's output says about its turn: how it ended, what it cost, what it asked; pure, and for any text.

Fields of JSON records come first, then the exit code, and text last and only at the start of a line. A word such as
"error" somewhere in the output says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace

from pytest_iterctl.agents.picks import Look, Streams, named_groups, names_in, sane_number, text_of
from pytest_iterctl.agents.records import (
    Record,
    ending_record,
    holding,
    lines_matching,
    plain_text,
    records_in,
    values_at,
)
from pytest_iterctl.agents.waits import seconds_in, seconds_until
from pytest_iterctl.control.evidence import TurnOutcome
from pytest_iterctl.plan.model import Agent
from pytest_iterctl.plan.reads import Reads, Rule
from pytest_iterctl.text import cut_middle, one_line, strip_escapes

__all__ = ["QUESTION", "SessionTotals", "Transcript", "bounded_text", "read_transcript"]

#: A last line that begins so is a question to a person, whichever agent printed it.
QUESTION = "ITERCTL-QUESTION:"

_ERROR = 300
_ASKED = 2000
_TEXT = 4000
_LINES = 5000
_FIGURES = frozenset({"cost_usd", "total_cost_usd", "tokens", "calls", "session_id"})
_REPORT = _FIGURES | {"error", "is_error", "question", "denied", "retry_after"}
#: What can be an argument and nothing else: an id that looks like an option would be one.
_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}")
_REVIEWS = frozenset({"approve", "reject", "pending"})


@dataclass(frozen=True, slots=True)
class SessionTotals:
    """What a session had come to before this call, for figures that count since it began."""

    cost_usd: float = 0.0
    tokens: int = 0
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Transcript:
    """What an agent says of its own turn; what is not a sane number is unknown, never zero."""

    outcome: TurnOutcome = TurnOutcome.DONE
    error: str = ""
    cost_usd: float | None = None
    tokens: int | None = None
    calls: int = 1
    session_id: str | None = None
    denied: tuple[str, ...] = ()
    question: str = ""
    retry_after: float | None = None
    text: str = ""
    #: The record that ends a turn was there, whatever became of the process.
    finished: bool = False

    @classmethod
    def of(cls, document: Mapping[str, object] | None, *, review: bool = False, now: float | None = None) -> Transcript:
        """What a report says, in the words that a plain command or a hook uses. `now` is for waits until a date.

        In a reviewer's document, whatever it has found may have these names, so there only the figures count.
        """
        if document is None:
            return cls()
        if review and _is_review(document):
            document = {key: value for key, value in document.items() if key in _FIGURES}
        cost, tokens, calls = (sane_number(document.get(key)) for key in ("cost_usd", "tokens", "calls"))
        wait = seconds_in(document.get("retry_after"), now)
        if cost is None:  # what Claude Code calls it
            cost = sane_number(document.get("total_cost_usd"))
        error = document.get("error")
        if document.get("is_error") is True:
            error = error or document.get("result") or "it reported an error"
        if wait and not error:
            error = "it is rate limited"
        said = cls(
            error=_line(error, _ERROR),
            cost_usd=cost,
            tokens=int(tokens) if tokens is not None else None,
            calls=max(int(calls), 1) if calls is not None else 1,
            session_id=_name(document.get("session_id")),
            denied=names_in(_entries(document.get("denied"))),
            question=_line(document.get("question"), _ASKED) if isinstance(document.get("question"), str) else "",
            retry_after=wait,
        )
        return replace(said, outcome=said.told)

    @property
    def told(self) -> TurnOutcome:
        """The outcome that follows from what was said, where no rule knows better."""
        if self.error:
            return TurnOutcome.CRASHED if self.retry_after is None else TurnOutcome.RATE_LIMITED
        if self.question:
            return TurnOutcome.ASKED
        return TurnOutcome.TOOLS_DENIED if self.denied else TurnOutcome.DONE


def read_transcript(
    agent: Agent,
    *,
    stdout: str,
    stderr: str = "",
    output_file: str = "",
    exit_code: int | None,
    before: SessionTotals | None = None,
    now: float | None = None,
    any_exit_code: bool = False,
    review: bool = False,
) -> Transcript:
    """Read what an agent left when its process had ended by itself.

    `before` is what its session had come to, `now` the time for waits that are told as a time of day. With
    `any_exit_code` the code is part of an answer that somebody else reads, and no failure; so is the document of a
    `review`.
    """
    if agent.reads is None:
        heard = _reported(stdout, review=review, now=now)
    else:
        records = _records(agent.reads, stdout, stderr, output_file)
        heard = _read(agent.reads, records, Streams(stdout, stderr), before or SessionTotals())
    heard = replace(heard, streams=Streams(stdout, stderr), exit_code=exit_code)
    return _judged(agent, heard, now, any_exit_code=any_exit_code)


def bounded_text(text: str) -> str:
    """An agent's last message as the journal keeps it."""
    return cut_middle(strip_escapes(text).strip(), _TEXT)


@dataclass(frozen=True, slots=True)
class _Heard:
    """What was said, before it is judged."""

    said: Transcript
    records: Sequence[Record] = ()
    whole: bool = True
    structured: bool = False
    #: In a report, which comes before the exit code, and not in a line, which comes after it.
    asked: bool = False
    streams: Streams = field(default_factory=Streams)
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class _Sign:
    """What made a rule apply."""

    rule: Rule
    line: str
    groups: Mapping[str, str]


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _reported(stdout: str, *, review: bool, now: float | None) -> _Heard:
    """The contract of a plain command: a JSON object that ends its output may be a report."""
    document, before = ending_record(stdout)
    if document is None or not document.keys() & _REPORT:
        return _Heard(Transcript(question=_question_line(stdout)))
    said = Transcript.of(document, review=review, now=now)
    asked = bool(said.question)
    if not (review and _is_review(document)):
        said = replace(said, question=said.question or _question_line(before))
    return _Heard(said, (document,), asked=asked)


def _is_review(document: Mapping[str, object]) -> bool:
    status = document.get("status")
    return isinstance(status, str) and status.strip().lower() in _REVIEWS


def _records(reads: Reads, stdout: str, stderr: str, output_file: str) -> Sequence[Record]:
    if reads.format != "json":
        return ()
    records = records_in(output_file if reads.source == "output_file" else stdout)
    if reads.source != "both" or (reads.record and holding(records, reads.record)):
        # Where the end was told, stderr has only what tools of the tool printed.
        return records
    return (*records, *records_in(stderr))


def _read(reads: Reads, records: Sequence[Record], streams: Streams, before: SessionTotals) -> _Heard:
    look = Look(reads.record, records, streams)
    since = holding(records, reads.since) if reads.since else []
    recent = records[_index(records, since[-1]) :] if since else records
    text = look.text(reads.text) if reads.text is not None else _message(reads, streams.stdout)
    question = one_line(look.text(reads.question), _ASKED)
    tokens = look.figure(reads.tokens, before.tokens)
    calls = look.figure(reads.calls, before.calls)
    said = Transcript(
        error=one_line(Look(reads.record, recent, streams).text(reads.error), _ERROR),
        cost_usd=look.figure(reads.cost_usd, before.cost_usd),
        tokens=int(tokens) if tokens is not None else None,
        calls=max(int(calls), 1) if calls is not None else 1,
        session_id=_name(look.text(reads.session_id)),
        denied=look.names(reads.denied),
        question=question or _question_line(text),
        text=text,
        finished=bool(reads.record and holding(recent, reads.record)),
    )
    whole = reads.format == "text" or bool(holding(records, reads.record))
    asked = bool(question and reads.question and reads.question.path)
    return _Heard(said, recent, whole, structured=reads.format == "json", asked=asked)


def _message(reads: Reads, stdout: str) -> str:
    """What a tool that prints text said, without its own last lines."""
    if reads.format != "text":
        return ""
    lines = plain_text(stdout).splitlines(keepends=True) if reads.ends is not None else []
    for place in reversed(range(max(0, len(lines) - _LINES), len(lines))):
        if next(lines_matching(lines[place], reads.ends or ""), None):
            return "".join(lines[:place])
    return stdout


def _index(records: Sequence[Record], wanted: Record) -> int:
    return next(index for index, record in enumerate(records) if record is wanted)


def _question_line(text: str) -> str:
    """The question in the last line, if that is one; a report after it is not counted as a line."""
    for line in reversed(plain_text(text[-16 * _ASKED :]).splitlines()):
        if line.startswith(QUESTION):
            return one_line(line.removeprefix(QUESTION), _ASKED)
        if line.strip() and not (line.startswith("{") and line.rstrip().endswith("}")):
            return ""
    return ""


# ── judging ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _judged(agent: Agent, heard: _Heard, now: float | None, *, any_exit_code: bool) -> Transcript:
    said = heard.said
    sign = next((sign for rule in agent.outcomes if (sign := _sign(rule, heard)) is not None), None)
    failed_exit = heard.exit_code != 0 and not any_exit_code
    if sign is not None and sign.rule.outcome != "done":
        wait = _wait(agent, sign, heard, now)
        outcome = TurnOutcome(sign.rule.outcome)
        error = said.error or sign.line or (_exit_reason(heard) if failed_exit else "")
        said = replace(said, outcome=outcome, error=error, retry_after=said.retry_after if wait is None else wait)
        if outcome is TurnOutcome.ASKED and not said.question:
            said = replace(said, question=_last_line(said.text or heard.streams.stdout, limit=_ASKED))
    elif sign is not None:
        told = replace(said, error="", retry_after=None)
        said = replace(told, outcome=told.told)
    elif said.error:
        said = replace(said, outcome=said.told)
    elif failed_exit and not heard.asked:
        said = replace(said, outcome=TurnOutcome.CRASHED, error=_exit_reason(heard))
    elif not heard.whole:
        error = f"its output can't be read: {_last_line(heard.streams.stderr, heard.streams.stdout)}"
        said = replace(said, outcome=TurnOutcome.UNREADABLE, error=error)
    else:
        said = replace(said, outcome=said.told)
    return replace(said, error=one_line(said.error, _ERROR))


def _sign(rule: Rule, heard: _Heard) -> _Sign | None:
    """Why a rule applies, or None: everything that it names must be so."""
    if rule.exit_code and heard.exit_code not in rule.exit_code:
        return None
    found: list[re.Match[str]] = []
    texts = (heard.said.error, rule.error), (heard.streams.stderr, rule.stderr), (heard.streams.stdout, rule.stdout)
    for text, pattern in texts:
        if pattern is None:
            continue
        match = next(lines_matching(text, pattern), None)
        if match is None:
            return None
        found.append(match)
    if rule.record or rule.matches:
        records = heard.records[-1:] if rule.last else heard.records
        matches = _matching(holding(records, rule.record), rule)
        if matches is None:
            return None
        found += matches
    groups = {name: group for match in found for name, group in named_groups(match).items()}
    return _Sign(rule, one_line(found[0].string, _ERROR) if found else "", groups)


def _matching(records: Sequence[Record], rule: Rule) -> list[re.Match[str]] | None:
    """What the patterns of the rule find in the last record in which all of them find something."""
    for record in reversed(records):
        # A later line may be anything, such as part of what a model said.
        texts = {path: "\n".join(_first_line(value) for value in values_at(record, path)) for path in rule.matches}
        found = [next(lines_matching(texts[path], pattern), None) for path, pattern in rule.matches.items()]
        matches = [match for match in found if match is not None]
        if len(matches) == len(found):
            return matches
    return None


def _first_line(value: object) -> str:
    return next(iter(plain_text(text_of(value)).lstrip().splitlines()), "")


def _wait(agent: Agent, sign: _Sign, heard: _Heard, now: float | None) -> float | None:
    look = Look(sign.rule.record or (agent.reads.record if agent.reads else {}), heard.records, heard.streams)
    wait = seconds_in(look.text(sign.rule.wait) or sign.groups.get("wait", ""), now)
    if wait is not None:
        return wait
    return seconds_until(look.text(sign.rule.until) or sign.groups.get("until", ""), now)


def _exit_reason(heard: _Heard) -> str:
    code = heard.exit_code
    how = "it was ended" if code is None else f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    # Where stdout is made of records, a last word to people is on stderr.
    texts = (heard.streams.stdout, heard.streams.stderr) if heard.structured else astuple(heard.streams)[::-1]
    return f"{how}: {_last_line(*texts)}"


def _last_line(*texts: str, limit: int = 200) -> str:
    lines = [line for text in texts for line in text.splitlines() if line.strip()]
    return one_line(lines[-1], limit) if lines else "it printed nothing"


def _line(value: object, limit: int) -> str:
    return one_line(text_of(value), limit) if value else ""


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and _SESSION.fullmatch(value) else None


def _entries(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else [value] if isinstance(value, str) else []
