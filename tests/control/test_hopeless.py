"""A loop stops early when more of the same is of no use, and never while it gets on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pytest_iterctl.control.events import StrategyChosen
from pytest_iterctl.control.evidence import (
    Change,
    Counts,
    Failure,
    Frame,
    GateEvidence,
    LeftOut,
    Outcome,
    SuiteEvidence,
)
from pytest_iterctl.control.hopeless import hopeless, is_stuck, tried
from pytest_iterctl.control.state import Attempt
from pytest_iterctl.control.strategies import named
from pytest_iterctl.plan.model import Patience

ALL = 10


def suite(failing: str, *, outcome: Outcome = Outcome.FAILED) -> SuiteEvidence:
    """A run in which these tests of ten fail, a letter each; a capital one fails for another reason."""
    failures = tuple(
        Failure(test=f"t.py::test_{each.lower()}", kind="AssertionError", message=f"assert {each!r} == 0")
        for each in failing
    )
    passed = ALL - len(failing) if outcome in {Outcome.FAILED, Outcome.PASSED} else 0
    return SuiteEvidence(
        outcome=Outcome.PASSED if not failing and outcome is Outcome.FAILED else outcome,
        counts=Counts(tests=ALL, passed=passed, failed=len(failing)),
        failures=failures,
        failing=tuple(failure.test for failure in failures),
        reason="" if failing else str(outcome),
    )


def history(*steps: str, baseline: str = "abcd") -> tuple[Attempt, ...]:
    """`abc`: these fail, with a change of its own; `abc=1`: with the tree of iteration 1; `abc!`: nothing was changed;
    `abc*`: under fresh-context; `>collection-error`: a run that came to no verdict.
    """
    attempts = [Attempt(0, suite=suite(baseline), tree="tree-0", made="")]
    for number, step in enumerate(steps, 1):
        word, _, same = step.partition("=")
        changed, fresh = not word.endswith("!"), word.endswith("*")
        word = word.rstrip("!*")
        evidence = suite("", outcome=Outcome(word[1:])) if word.startswith(">") else suite(word)
        made = attempts[int(same)].made if same else f"tree-{number}" if changed else attempts[-1].made
        strategy = named("fresh-context" if fresh else "default")
        assert strategy is not None
        choice = StrategyChosen(task="a", iteration=number, strategy=strategy)
        change = Change(file_count=int(changed))
        attempts.append(Attempt(number, suite=evidence, made=made, change=change, choices=(choice,)))
    return tuple(attempts)


def why(*steps: str, patience: Patience | None = None, afresh: bool = True) -> str:
    return hopeless(tried(history(*steps)), patience or Patience(), may_start_afresh=afresh)


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        (("abcd!", "abcd!"), "the agent changed nothing 2 times in a row"),
        (("abcd", "abce", "abcd=1"), "the change of iteration 3 is that of iteration 1 again"),
        (("abc", "abcd", "abce", "abcd=2"), "the change of iteration 4 is that of iteration 2 again"),
        (("abcd", "abcd", "abcd*"), "the same failures 3 times, each time with another change"),
        (("abc", "abd", "abc", "abd"), "the failures alternate between two kinds for 4 iterations"),
        (("ab", "abc", "abd", "abe"), "no iteration has been better than iteration 1 in 3 iterations"),
        (("abcde", "abcdf", "abcdg"), "no iteration has been better than the beginning in 3 iterations"),
        ((">collection-error", ">collection-error", ">collection-error*"), "the same failures 3 times"),
    ],
)
def test_what_is_hopeless_is_said_with_its_reason(steps: tuple[str, ...], reason: str) -> None:
    assert why(*steps).startswith(reason)
    assert not why(*steps[:-1])


@pytest.mark.parametrize(
    "steps",
    [
        # Getting on, step by step.
        ("abc", "ab", "a"),
        ("abcd", "abc", "abc", "ab", "ab", "a"),
        # A step back now and then.
        ("abc", "abcde", "ab", "abc", "a"),
        ("ab", "abcdef", "abcde", "a"),
        # First nothing can be collected, then everything fails, then it gets better.
        (">collection-error", "abcdefgh", "abc"),
        (">timed-out", ">collection-error", "abc"),
        (">crashed", "abcdef", "abc"),
        # Nothing changed once, then something.
        ("abcd!", "abc", "abc!", "ab"),
        # The same failures twice, then better.
        ("abcd", "abcd", "abc"),
        # Back and forth, but ahead.
        ("abc", "abd", "ab", "ac", "a"),
        # Other failures each time, for another reason each time.
        ("abcD", "abCd"),
        # Back to the best after a wrong way, once.
        ("abc", "abcde", "abc=1", "ab"),
        # An idle turn, progress, and the tree of before once more.
        ("abc", "abc!", "ab", "abc=1", "a"),
        # One big step at the end of a long way.
        ("abc", "abd", "ab", "ac", "ad", "a"),
    ],
)
def test_good_histories_are_never_cut(steps: tuple[str, ...]) -> None:
    for end in range(1, len(steps) + 1):
        assert not why(*steps[:end]), steps[:end]


def test_a_pass_is_never_hopeless() -> None:
    assert not why("abcd!", "")
    assert not why("abcd", "abcd", "")


def test_without_a_fresh_start_the_third_time_is_enough() -> None:
    assert not why("abcd", "abcd", "abcd", patience=Patience(no_progress=0))
    assert why("abcd", "abcd", "abcd", patience=Patience(no_progress=0), afresh=False)


def test_failures_that_are_nearly_the_same_are_the_same() -> None:
    assert why("abcdefghi", "abcdefghi", "abcdefghi*", patience=Patience(no_progress=0)).startswith("the same")
    assert why("abcdefghi", "abcdefghij", "abcdefghi*", patience=Patience(no_progress=0)).startswith("the same")
    assert not why("abcdefghi", "abcd", "abcdefghi*", patience=Patience(no_progress=0, alternating=0))


@pytest.mark.parametrize(("rule", "least"), [("same_diff", 2), ("same_failures", 2), ("alternating", 3)])
def test_a_threshold_that_could_tell_nothing_is_refused(rule: str, least: int) -> None:
    assert Patience(**{rule: 0}) != Patience(**{rule: least})
    for times in range(1, least):
        with pytest.raises(ValidationError, match=f"0 for never, or {least} and more"):
            Patience(**{rule: times})


@pytest.mark.parametrize("rule", list(Patience.model_fields))
def test_each_rule_can_be_switched_off_and_has_its_own_threshold(rule: str) -> None:
    steps = {
        "no_change": ("abcd!", "abcd!", "abcd!", "abcd!"),
        "same_diff": ("abcd", "abce=1", "abcf=1", "abcg=1"),
        "same_failures": ("abcd", "abcd", "abcd*", "abcd*"),
        "alternating": ("abcd", "efgh", "abcd", "efgh", "abcd"),
        "no_progress": ("abcde", "fghia", "bcdef", "ghiab"),
    }[rule]
    off = Patience(**dict.fromkeys(Patience.model_fields, 0))
    assert not why(*steps, patience=off)
    only = off.model_copy(update={rule: 4})
    assert why(*steps, patience=only)
    assert not why(*steps[:3], patience=only)
    assert not why(*steps, patience=off.model_copy(update={rule: 9}))


def test_a_person_begins_anew_and_so_does_progress() -> None:
    stuck = ("ab", "abc", "abd", "abe")
    assert why(*stuck)
    assert not why(*stuck[:-1], "a")
    since = tried([attempt for attempt in history(*stuck) if attempt.iteration >= 3])
    assert not hopeless(since, Patience(), may_start_afresh=True, after=3)


def test_what_a_person_has_answered_is_only_what_later_ones_are_compared_with() -> None:
    idle = ("abc", "abc!", "abc!", "abc!")
    assert why(*idle[:-1])
    since = tried([attempt for attempt in history(*idle) if attempt.iteration >= 3])
    assert not hopeless(since, Patience(), may_start_afresh=True, after=3)
    twice = tried([attempt for attempt in history(*idle, "abc!") if attempt.iteration >= 3])
    assert "2 times in a row" in hopeless(twice, Patience(), may_start_afresh=True, after=3)
    again = tried([attempt for attempt in history("abc", "abcd", "abcd=1") if attempt.iteration >= 1])
    assert not hopeless(again, Patience(), may_start_afresh=True, after=1)


def one_test(*messages: str, sources: tuple[str, ...] = ()) -> tuple[Attempt, ...]:
    """One test that fails each time, at another line where `sources` says so."""
    attempts = []
    for number, message in enumerate(messages):
        source = sources[number] if sources else "assert work() == wanted"
        frames = (Frame(path="t.py", line=number + 1, function="test_a", source=source),)
        failed = Failure(test="t.py::test_a", kind="AssertionError", message=message, frames=frames)
        evidence = SuiteEvidence(
            outcome=Outcome.FAILED, counts=Counts(tests=1, failed=1), failures=(failed,), failing=("t.py::test_a",)
        )
        attempts.append(Attempt(number, suite=evidence, made=f"tree-{number}", change=Change(file_count=1)))
    return tuple(attempts)


def test_who_mends_one_test_line_by_line_gets_on() -> None:
    lines = tuple(f"assert part_{letter}() == {letter!r}" for letter in "abcdefgh")
    wrong = tuple(f"assert None == {letter!r}" for letter in "abcdefgh")
    for end in range(2, len(lines) + 1):
        done = tried(one_test(*wrong[:end], sources=lines[:end]))
        assert not hopeless(done, Patience(), may_start_afresh=True)
    # One step back is none too many, three are.
    for often, cut in ((1, False), (2, False), (3, True)):
        again = (1, 0, 1)[:often]
        sources = (*lines[:4], *(lines[number] for number in again))
        done = tried(one_test(*wrong[:4], *(wrong[number] for number in again), sources=sources))
        why_not = hopeless(done, Patience(alternating=0), may_start_afresh=True)
        assert why_not == ("no iteration has been better than iteration 3 in 3 iterations" if cut else "")


def test_who_finds_one_missing_module_after_the_other_gets_on() -> None:
    def missing(number: int) -> Attempt:
        name = f"part_{number}"
        failed = Failure(test="t.py", kind="ModuleNotFoundError", message=f"No module named {name!r}", phase="collect")
        evidence = SuiteEvidence(outcome=Outcome.COLLECTION_ERROR, failures=(failed,), failing=("t.py",))
        return Attempt(number, suite=evidence, made=f"tree-{number}", change=Change(file_count=1))

    assert not hopeless(tried([missing(number) for number in range(8)]), Patience(), may_start_afresh=True)


@pytest.mark.parametrize("message", ["assert {} == 42", "Failed: got {} instead", "job {} failed"])
def test_who_guesses_at_one_value_does_not_get_on(message: str) -> None:
    guesses = tried(one_test(*(message.format(word) for word in ("red", "kqxzab", "blue", "up"))))
    assert "no iteration has been better" in hopeless(guesses, Patience(), may_start_afresh=True)


def test_who_does_nothing_about_a_review_is_not_asked_for_ever() -> None:
    idle = [*history("", baseline="abcd"), *(each for each in history("", "!", "!", baseline="abcd")[2:])]
    assert "changed nothing 2 times" in hopeless(tried(idle), Patience(), may_start_afresh=True)
    assert not hopeless(tried(idle[:-1]), Patience(), may_start_afresh=True)


def test_tests_that_the_agent_has_edited_show_no_progress() -> None:
    honest = history("abc", "a", "ab", "abc", baseline="abcdef")
    left_out = (LeftOut(path="test_a.py", reason="protected", protected=True),)
    edited = tuple(
        replace(each, gate=GateEvidence(verdict="not-green", left_out=left_out)) if each.iteration > 1 else each
        for each in honest
    )
    assert not hopeless(tried(honest), Patience(), may_start_afresh=True)
    assert "better than iteration 1 in 3" in hopeless(tried(edited), Patience(), may_start_afresh=True)


def test_stuck_is_the_same_twice_with_another_change() -> None:
    assert is_stuck(tried(history("abcd", "abcd")))
    assert not is_stuck(tried(history("abcd", "abcd=1")))
    assert not is_stuck(tried(history("abcd", "abc")))
    assert not is_stuck(tried(history("abcd")))
    assert not is_stuck(tried(history("abcd", "")))
    assert is_stuck(tried(history("abcd", "abcd!")), whatever_changed=True)
    assert not is_stuck(tried(history("abcd", "abcd")), after=1)


def test_who_mends_one_of_many_each_time_is_not_stuck() -> None:
    # Nine of ten failures are the same, and yet it gets on.
    for end in range(1, 9):
        assert not is_stuck(
            tried(history(*("abcdefghij"[number:] for number in range(1, end + 1)), baseline="abcdefghij"))
        )
    assert is_stuck(tried(history("abcdefghi", "abcdefghij", baseline="abcdefghij")))


WORDS = st.text(alphabet="abcdefghij", max_size=6).map(lambda word: "".join(sorted(set(word))))


@settings(deadline=None)
@given(st.permutations("abcdefghij"), st.lists(st.sampled_from(["same", "worse"]), max_size=9))
def test_whoever_gets_better_every_other_time_is_never_cut(order: list[str], between: list[str]) -> None:
    """One failure less each time, and between two of these perhaps one iteration that was no better."""
    steps: list[str] = []
    for number in range(1, len(order)):
        steps.append("".join(sorted(order[number:])))
        if number <= len(between):
            steps.append("".join(sorted(order[number - (between[number - 1] == "worse") :])))
    for end in range(1, len(steps) + 1):
        done = tried(history(*steps[:end], baseline="abcdefghij"))
        assert not hopeless(done, Patience(), may_start_afresh=True), steps[:end]


@given(st.lists(st.tuples(WORDS, st.sampled_from(["", "!", "*"])), min_size=1, max_size=20))
def test_any_history_has_an_answer_and_ends(words: list[tuple[str, str]]) -> None:
    steps = [f"{word or 'a'}{mark}" for word, mark in words]
    answer = why(*steps)
    assert isinstance(answer, str)
    # Nobody goes on for ever: of ten more of the same, some rule has had enough.
    assert why(*steps, *[f"{steps[-1].rstrip('!*')}*"] * 10)
