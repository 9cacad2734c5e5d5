"""The one question that an escalation asks, with two to four options, the last of which is always "stop"."""

from __future__ import annotations

from itertools import takewhile
from typing import Literal

from pydantic import Field

from pytest_iterctl.control.evidence import Failure
from pytest_iterctl.control.pattern import Trial, counted
from pytest_iterctl.plan.values import Value

__all__ = ["Effect", "Option", "Question", "ask"]

Effect = Literal["continue", "approve", "abort"]
_SHOWN = 120
_ASKED = 600


class Option(Value):
    """One answer: what it is called, what it does, and what the next prompt is told."""

    label: str
    effect: Effect
    guidance: str = ""
    may_change: tuple[str, ...] = ()
    allow_destructive: bool = Field(default=False, description="destructive changes are allowed from then on")


class Question(Value):
    text: str
    options: tuple[Option, ...] = Field(min_length=2, max_length=4)

    def render(self) -> str:
        return "\n".join([self.text, *(f"{number}. {o.label}" for number, o in enumerate(self.options, 1))])


_STOP = Option(label="stop", effect="abort")
_GO_ON = Option(label="go on, with more iterations", effect="continue")


def ask(
    reason: str, trials: tuple[Trial, ...], *, explanation: str, review: str, approvable: bool = False
) -> Question | None:
    """None when there is nothing to ask: the suite has no tests, or the test command is wrong."""
    match reason:
        case "no-tests" | "usage-error":
            return None
        case "review-pending":
            return _approve_or_reject()
        case "agent-failed":
            return Question(
                text=f"{_sentence(explanation)} Try it again?",
                options=(Option(label="try again", effect="continue"), _STOP),
            )
        case "agent-asked":
            return Question(
                text=f"The agent asks: {_short(explanation, _ASKED)} - What shall it be told?",
                options=(
                    Option(
                        label="let the agent decide",
                        effect="continue",
                        guidance="A person read your question and leaves it to you: decide, and say what you decided.",
                    ),
                    _STOP,
                ),
            )
        case "limit":
            return Question(
                text=f"{_sentence(explanation)} Go on, or stop?",
                options=(Option(label="allow as much again, and go on", effect="continue"), _STOP),
            )
        case "integrity":
            return _believe_it_or_not(explanation, approvable=approvable)
        case "destructive":
            return _allowed_or_not(explanation)
        case "stopped":
            return Question(text=f"The run was {explanation}. Go on, or leave it?", options=(_GO_ON, _STOP))
        case _:
            return _about_failures(trials, review)


def _believe_it_or_not(explanation: str, *, approvable: bool) -> Question:
    """Only what is green in the clean room can be accepted, by whomever."""
    undo = Option(
        label="undo it, and go on",
        effect="continue",
        guidance="A person looked at the last change and does not accept it. Undo what was objected to, and make the "
        f"tests pass by mending the code: {_short(explanation, _ASKED)}",
    )
    accept = (Option(label="it is honest work: accept it", effect="approve"),) if approvable else ()
    return Question(text=f"{_sentence(explanation, _ASKED)} How should it go on?", options=(undo, *accept, _STOP))


def _allowed_or_not(explanation: str) -> Question:
    undone = Option(
        label="go on without it",
        effect="continue",
        guidance="A person looked at what went beyond the task. Don't do it again, whatever for: "
        f"{_short(explanation, _ASKED)}",
    )
    allow = Option(label="the task needs it: allow it, and go on", effect="continue", allow_destructive=True)
    return Question(text=f"{_sentence(explanation, _ASKED)} How should it go on?", options=(undone, allow, _STOP))


def _approve_or_reject() -> Question:
    return Question(
        text="The tests pass and the review is pending: approve or reject?",
        options=(
            Option(label="approve", effect="approve"),
            Option(label="reject, and try again", effect="continue", guidance="A person rejected the last change."),
            _STOP,
        ),
    )


def _about_failures(trials: tuple[Trial, ...], review: str) -> Question:
    if trials and trials[-1].passed:
        return Question(
            text=f"The tests pass but the review rejects the change: {_short(review)}. How should it go on?",
            options=(
                _GO_ON,
                Option(label="approve it all the same", effect="approve"),
                _STOP,
            ),
        )
    stubborn = _stubborn_failure(trials)
    tried = sum(1 for trial in trials if trial.iteration > 0)
    after = f"After {counted(tried, 'iteration')}" if tried else "Before any iteration"
    if stubborn is not None and _shows_both_sides(stubborn):
        return _conflict(stubborn, after)
    failing = len(trials[-1].failing) if trials else 0
    what = f"{counted(failing, 'test')} still {'fails' if failing == 1 else 'fail'}" if failing else "it is not done"
    named = f" ({stubborn.test}: {_short(stubborn.message)})" if stubborn is not None and stubborn.test else ""
    return Question(text=f"{after}, {what}{named}. How should it go on?", options=(_GO_ON, _STOP))


def _shows_both_sides(failure: Failure) -> bool:
    """Which of two is right can be asked only if there are two, and a test that says so."""
    both = failure.expected is not None and failure.received is not None
    return both and bool(failure.test) and _flat(failure.expected or "") != _flat(failure.received or "")


def _conflict(failure: Failure, after: str) -> Question:
    expected, received = _apart(failure.expected or "", failure.received or "")
    return Question(
        text=f"{after}, {failure.test} still fails: it expects {expected}, the code gives {received}. Which is right?",
        options=(
            Option(
                label=f"the test is right: {expected} (change the code)",
                effect="continue",
                guidance=f"A person decided: the test {failure.test} is right, the code must give {expected}.",
            ),
            Option(
                label=f"the code is right: {received} (change the test)",
                effect="continue",
                guidance=(
                    f"A person decided: the code's {received} is right and the test {failure.test} is wrong. "
                    "Change the test's expectation."
                ),
                may_change=(f"**/{failure.test.partition('::')[0]}",),
            ),
            _STOP,
        ),
    )


def _stubborn_failure(trials: tuple[Trial, ...]) -> Failure | None:
    """The failure to ask about: of the attempt that failed least, the latest of equals, since that is what is kept."""
    told = [trial for trial in trials if trial.first is not None and trial.failing]
    best = min(told, key=lambda trial: (len(trial.failing), -trial.iteration), default=None)
    if best is not None:
        return best.first
    return trials[-1].first if trials else None


def _apart(one: str, other: str) -> tuple[str, str]:
    """Both shortened so that a reader can tell them apart: long values that begin alike show where they part."""
    one, other = _flat(one) or "(empty)", _flat(other) or "(empty)"
    if _short(one) != _short(other):
        return _short(one), _short(other)
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    start = max(alike - _SHOWN // 4, 0)
    return "…" + _short(one[start:]), "…" + _short(other[start:])


def _flat(text: str) -> str:
    return " ".join(text.split())


def _short(text: str, length: int = _SHOWN) -> str:
    flat = _flat(text)
    return flat if len(flat) <= length else flat[: length - 1] + "…"


def _sentence(text: str, length: int = _SHOWN) -> str:
    flat = _short(text, length)
    first = flat.split(" ", 1)[0]
    is_name = any(sign in first.rstrip(".,:;") for sign in "./:_")  # of a file or a test, which has its own spelling
    return (flat[:1] if is_name else flat[:1].upper()) + flat[1:] + ("" if flat.endswith((".", "…", "!", "?")) else ".")
