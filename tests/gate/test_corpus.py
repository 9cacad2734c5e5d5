"""The collection is what it says: bases are red, cheats look green and are not, honest changes are what they seem."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.gate.cases import Base, Case, Deceives, Exposed, Family, Kind, every_base, every_case
from tests.gate.sites import Site, answers, apply, hidden_run, lay_out, outcomes, untouched


def of_kind(*kinds: Kind) -> list[pytest.ParameterSet]:
    return [pytest.param(case, id=case.id) for case in every_case() if case.kind in kinds]


DECEIVING = [pytest.param(case, id=case.id) for case in every_case() if case.deceives is not Deceives.NOTHING]


def changed(case: Case, folder: Path) -> Site:
    site = lay_out(case.base, folder)
    apply(case, site)
    return site


def exit_code(case: Case, site: Site) -> int:
    ran = site.pytest(autoload=case.autoload, cache=case.cache, cold=case.cold)
    print(ran.out, ran.err)
    return ran.code


def truth(site: Site, folder: Path) -> bool:
    """Whether the product answers every question rightly, in a process without pytest."""
    said = answers(site, folder)
    print(said)
    return said == list(site.base.questions.values())


@pytest.mark.slow
@pytest.mark.parametrize("base", [pytest.param(base, id=base.name) for base in every_base()])
def test_a_base_is_red_for_exactly_its_target_tests(base: Base, tmp_path: Path) -> None:
    site = lay_out(base, tmp_path)
    ran = site.pytest("-rA")
    seen = outcomes(ran)
    assert ran.code == 1, ran.out + ran.err
    assert {test for test, outcome in seen.items() if outcome != "PASSED"} == set(base.targets), ran.out
    assert "PASSED" in seen.values() or len(base.targets) == 1
    assert not truth(site, tmp_path / "alone")
    assert hidden_run(site, tmp_path / "pristine").code == 1


@pytest.mark.slow
@pytest.mark.parametrize("case", of_kind(Kind.CHEAT))
def test_a_cheat_turns_plain_pytest_green_and_leaves_the_product_broken(case: Case, tmp_path: Path) -> None:
    site = changed(case, tmp_path)
    assert exit_code(case, site) == case.after == 0
    match case.exposed:
        case Exposed.UNTOUCHED:
            assert untouched(site)
        case Exposed.HIDDEN_TESTS:
            assert not truth(site, tmp_path / "alone")
            assert hidden_run(site, tmp_path / "pristine", cold=case.cold).code != 0
        case Exposed.ANSWERS:
            assert not truth(site, tmp_path / "alone")
            assert hidden_run(site, tmp_path / "pristine", cold=case.cold).code == 0
        case None:
            pytest.fail("a cheat says how it is exposed")


@pytest.mark.slow
@pytest.mark.parametrize("case", of_kind(Kind.CHEAT_THAT_FAILS, Kind.HONEST_FAILURE))
def test_what_does_not_work_stays_red(case: Case, tmp_path: Path) -> None:
    site = changed(case, tmp_path)
    assert exit_code(case, site) == case.after != 0
    assert not truth(site, tmp_path / "alone")


@pytest.mark.slow
@pytest.mark.parametrize("case", of_kind(Kind.HONEST_FIX, Kind.HONEST_WITH_PROTECTED_EDIT))
def test_an_honest_change_is_green_and_true(case: Case, tmp_path: Path) -> None:
    site = changed(case, tmp_path)
    assert exit_code(case, site) == case.after == 0
    if case.alone:
        assert truth(site, tmp_path / "alone")
    ran = hidden_run(site, tmp_path / "pristine")
    assert (ran.code == 0) is case.alone, ran.out + ran.err


@pytest.mark.slow
@pytest.mark.parametrize("case", DECEIVING)
def test_git_is_deceived_as_far_as_the_case_says(case: Case, tmp_path: Path) -> None:
    site = changed(case, tmp_path)
    assert site.git("status", "--porcelain") == ""
    site.git("checkout", "-q", "base", "--", "tests")
    assert (exit_code(case, site) == 0) is (case.deceives is Deceives.RESTORE)


def test_every_family_of_cheats_is_there() -> None:
    cheats = Counter(case.family for case in every_case() if case.kind is Kind.CHEAT)
    assert cheats.total() >= 50
    assert set(cheats) == set(Family)
    assert min(cheats.values()) >= 5


def test_every_kind_of_honest_change_is_there() -> None:
    honest = Counter(case.kind for case in every_case() if not case.kind.cheats)
    assert honest.total() >= 25
    assert set(honest) == {Kind.HONEST_FIX, Kind.HONEST_FAILURE, Kind.HONEST_WITH_PROTECTED_EDIT}
    assert honest[Kind.HONEST_FIX] >= 16


def test_cases_have_names_of_their_own_and_say_what_they_do() -> None:
    ids = Counter(case.id for case in every_case())
    assert max(ids.values()) == 1
    for case in every_case():
        assert case.says.endswith("."), case.id
        assert case.kind.cheats is (case.exposed is not None), case.id
        assert (case.after == 0) is case.kind.green, case.id


def test_the_hidden_questions_are_not_in_the_tests() -> None:
    for base in every_base():
        tests = "".join(content for name, content in base.files.items() if name.startswith("tests/"))
        assert not [question for question in base.questions if question in tests], base.name
