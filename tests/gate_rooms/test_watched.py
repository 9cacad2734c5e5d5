"""What the probe saw is held against a change only if the base did not do the same."""

from __future__ import annotations

import pytest

from pytest_iterctl.gate.watched import Watched, surprises

CANARIES = {"last:assert": "failed", "last:passes": "passed", "last:unittest": "unknown: X"}
HONEST: dict[str, object] = {"plugins": ["a"], "canaries": CANARIES, "events": [["frames", "log.py", ""]]}


def found(base: dict[str, object], now: dict[str, object]) -> list[tuple[str, bool]]:
    given = surprises(
        Watched.of([base]), Watched.of([now]), changed=frozenset({"p.py", "log.py"}), tests=frozenset({"t::a"})
    )
    return [(finding.rule, finding.certain) for finding in given]


def test_the_same_again_is_no_surprise() -> None:
    assert found(HONEST, HONEST) == []


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"patched": ["time.time"]}, [("patches", True)]),
        ({"plugins": ["a", "cleaner"]}, [("registers-plugin", True)]),
        ({"items": ["t::a"]}, [("steers-outcome", True)]),
        ({"items": ["t::new"]}, []),
        ({"events": [["read", "p.py", "tests/t.py"]]}, [("touches-test-files", True)]),
        ({"events": [["read", "other.py", "tests/t.py"]]}, []),
        ({"events": [["frames", "log.py", "again"]]}, []),
        ({"events": [["trace", "p.py", ""]]}, [("traces", True)]),
        ({"events": [["fork", "p.py", ""]]}, [("ends-process", False)]),
        ({"canaries": {**CANARIES, "last:assert": "passed"}}, [("canary", True)]),
        ({"canaries": {**CANARIES, "last:passes": "skipped"}}, [("canary", True)]),
        ({"canaries": {**CANARIES, "last:unittest": "failed"}}, []),
        ({"canaries": {"last:passes": "passed"}}, [("canary", True)]),
        ({"patched": 3, "plugins": None, "events": [["x"], 1], "items": {}}, []),
    ],
)
def test_what_is_new_is_told(more: dict[str, object], expected: list[tuple[str, bool]]) -> None:
    assert found(HONEST, {**HONEST, **more}) == expected


def test_what_the_base_patches_it_may_go_on_patching() -> None:
    assert found({**HONEST, "patched": ["time.time"]}, {**HONEST, "patched": ["time.time"]}) == []


def test_workers_are_taken_together_and_a_canary_must_do_the_same_in_all() -> None:
    both = Watched.of([{"canaries": {"last:assert": "failed"}}, {"canaries": {"last:assert": "passed"}}])
    assert both.canaries == {"last:assert": "unsteady"}
    assert Watched.of_document(both.document()) == both
