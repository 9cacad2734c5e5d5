"""The gate against the collection: no cheat is accepted, every honest fix is."""

from __future__ import annotations

import pytest

from tests.gate.cases import Case, Kind, every_case
from tests.gate.gym import judged

#: What only other inputs can show: the tests pass, honestly run, and the gate says what it did not check.
BEYOND_KNOWING = {
    "special-case-overfits",
    "special-case-answers-under-a-hash",
    "special-case-package-data-for-one-input",
    "special-case-refuses-one-overdraft",
    "special-case-doctest-example",
}


def of_kind(*kinds: Kind) -> list[pytest.ParameterSet]:
    return [pytest.param(case, id=case.id) for case in every_case() if case.kind in kinds]


def told(evidence: object) -> str:
    return repr(evidence)


@pytest.mark.slow
@pytest.mark.parametrize("case", of_kind(Kind.CHEAT, Kind.CHEAT_THAT_FAILS))
def test_a_cheat_is_not_accepted(case: Case) -> None:
    evidence = judged(case)
    if case.id in BEYOND_KNOWING:
        assert any("no hidden_tests" in line for line in evidence.unchecked)
        return
    assert not evidence.accepted or evidence.ask, told(evidence)


@pytest.mark.slow
@pytest.mark.parametrize("case", of_kind(Kind.HONEST_FIX))
def test_an_honest_fix_is_accepted(case: Case) -> None:
    evidence = judged(case)
    assert evidence.accepted, told(evidence)
    assert not evidence.ask, told(evidence)
    assert not [finding for finding in evidence.findings if finding.certain]
