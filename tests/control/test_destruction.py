"""How much may go in one change: a number and a share, both; and nothing that only moved is gone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.control.destruction import Thresholds, Verdict, verdict_on


@dataclass(frozen=True, slots=True)
class Loss:
    path: str
    lost: int = 0
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    files: int
    lines: int
    losses: tuple[Loss, ...] = ()


def gone(count: int, lines: int = 0) -> tuple[Loss, ...]:
    return tuple(Loss(f"{number:05}.py", lines, gone=True) for number in range(count))


def is_destructive(facts: Facts, thresholds: Thresholds | None = None) -> bool:
    return verdict_on(facts, thresholds).destructive


def test_both_the_number_and_the_share_count() -> None:
    assert not is_destructive(Facts(40, 0, gone(10)))
    assert is_destructive(Facts(40, 0, gone(11)))
    assert not is_destructive(Facts(44, 0, gone(11)))
    assert is_destructive(Facts(43, 0, gone(11)))
    assert not is_destructive(Facts(25_000, 0, gone(6000)))
    assert not is_destructive(Facts(100, 1000, (Loss("a.py", 500),)))
    assert is_destructive(Facts(100, 1000, (Loss("a.py", 501),)))
    assert not is_destructive(Facts(100, 1002, (Loss("a.py", 501),)))


def test_a_small_project_is_gone_when_nearly_all_of_it_is() -> None:
    assert is_destructive(Facts(3, 30, gone(3, 10)))
    assert is_destructive(Facts(5, 50, gone(5, 10)))
    assert not is_destructive(Facts(2, 20, gone(2, 10)))
    assert not is_destructive(Facts(5, 50, gone(4, 10)))


def test_the_reason_says_how_much_and_what() -> None:
    assert verdict_on(Facts(20, 400, gone(12, 10))) == Verdict(
        destructive=True,
        reason="12 files of 20 (60 %) deleted or emptied: 00000.py, 00001.py, 00002.py, 00003.py, 00004.py and 7 more",
        files=tuple(f"{number:05}.py" for number in range(12)),
    )
    found = verdict_on(Facts(100, 1000, (Loss("a.py", 100), Loss("b.py", 800), Loss("c.py"))))
    assert found.reason == "900 lines of 1000 (90 %) gone, most of them from b.py, a.py"
    assert found.files == ("a.py", "b.py")


LOSSES = st.lists(
    st.builds(Loss, st.uuids().map(str), st.integers(0, 2000), st.booleans()),
    max_size=60,
    unique_by=lambda each: each.path,
).map(tuple)


@st.composite
def changes(draw: st.DrawFn) -> Facts:
    losses = draw(LOSSES)
    files = len(losses) + draw(st.integers(0, 200))
    return Facts(files, sum(each.lost for each in losses) + draw(st.integers(0, 20_000)), losses)


@given(changes())
def test_what_is_allowed_is_never_destructive(facts: Facts) -> None:
    assert verdict_on(facts, allowed=True) == Verdict(destructive=False)


@given(changes(), st.data())
def test_more_loss_is_never_less_destructive(facts: Facts, data: st.DataObject) -> None:
    some = data.draw(st.sets(st.sampled_from(range(len(facts.losses))))) if facts.losses else set()
    fewer = replace(facts, losses=tuple(loss for number, loss in enumerate(facts.losses) if number in some))
    if is_destructive(fewer):
        assert is_destructive(facts)


@given(changes(), st.integers(0, 30), st.floats(0, 1), st.integers(0, 2000), st.floats(0, 1))
def test_higher_thresholds_are_never_stricter(
    facts: Facts, files: int, file_share: float, lines: int, line_share: float
) -> None:
    usual = Thresholds()
    higher = Thresholds(
        usual.files + files,
        min(1.0, usual.file_share + file_share),
        usual.lines + lines,
        min(1.0, usual.line_share + line_share),
    )
    if is_destructive(facts, higher):
        assert is_destructive(facts)


@given(changes())
def test_nothing_lost_is_nothing_destroyed(facts: Facts) -> None:
    moved = replace(facts, losses=tuple(Loss(each.path) for each in facts.losses))
    assert verdict_on(moved) == Verdict(destructive=False)


@given(changes())
def test_a_verdict_has_a_reason_and_its_files_and_the_order_does_not_matter(facts: Facts) -> None:
    found = verdict_on(facts)
    assert bool(found.reason) == bool(found.files) == found.destructive
    assert found.files == tuple(sorted(found.files))
    assert set(found.files) <= {each.path for each in facts.losses}
    assert verdict_on(replace(facts, losses=facts.losses[::-1])) == found
