"""What the probe saw is held against a change only if the base did not do the same."""

from __future__ import annotations

import pytest

from pytest_iterctl.gate.findings import Finding
from pytest_iterctl.gate.watched import Watched, agreeing, surprises, written_to

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
        ({"events": [["read", "p.py", "tests/data.json"]]}, []),
        ({"events": [["write", "p.py", "tests/data.json"]]}, [("touches-test-files", True)]),
        ({"events": [["kill", "p.py", ""]]}, [("ends-process", False)]),
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


@pytest.mark.parametrize(
    ("before", "name", "expected"),
    [
        ([], "http.client.HTTPConnection.putheader", [("patches-library", False)]),
        ([], "json.dumps", [("patches-library", False)]),
        ([], "requests.sessions.Session.send", [("patches-library", False)]),
        (["http.client.HTTPConnection.putrequest"], "http.client.HTTPConnection.putheader", []),
        (["requests.sessions.Session.get"], "requests.sessions.Session.send", []),
        (["json.loads"], "json.dumps", [("patches-library", False)]),
        (["time.time"], "time.sleep", [("patches", True)]),
        (["unittest.case.TestCase.run"], "unittest.case.TestCase.fail", [("patches", True)]),
        ([], "_pytest.runner.call_and_report", [("patches", True)]),
        ([], "requests.testing.check", [("patches", True)]),
        ([], "fractions.Fraction.__eq__", [("patches", True)]),
        ([], "tests.helpers.Checker.check", [("patches", True)]),
        ([], "helpers.check", [("patches", True)]),
        ([], "pluginmanager._inner_hookexec", [("patches", True)]),
    ],
)
def test_what_tests_do_not_judge_with_is_not_certain(
    before: list[str], name: str, expected: list[tuple[str, bool]]
) -> None:
    base, now = Watched.of([{"patched": before}]), Watched.of([{"patched": [*before, name]}])
    given = surprises(base, now, changed=frozenset(), tests=frozenset(), libraries=frozenset({"requests", "_pytest"}))
    assert [(finding.rule, finding.certain) for finding in given] == expected


def test_what_the_base_patches_it_may_go_on_patching() -> None:
    assert found({**HONEST, "patched": ["time.time"]}, {**HONEST, "patched": ["time.time"]}) == []


def test_workers_are_taken_together_and_a_canary_must_do_the_same_in_all() -> None:
    both = Watched.of([{"canaries": {"last:assert": "failed"}}, {"canaries": {"last:assert": "passed"}}])
    assert both.canaries == {"last:assert": "unsteady"}
    assert Watched.of_document(both.document()) == both


def test_files_of_the_tests_that_were_written_to_are_told() -> None:
    base = Watched(seen=1, touched=frozenset({"tests/kept.json"}))
    now = Watched(seen=1, touched=frozenset({"tests/kept.json", "tests/new.json"}))
    now = now.joined(Watched(seen=1, touched=frozenset({"tests/test_a.py"})))
    assert Watched.of_document(now.document()) == now
    text = "was written to while the tests ran, or to prepare them."
    assert written_to(base, now.touched, commands=False) == (
        Finding("tests/new.json", 1, "touches-test-files", False, text),
        Finding("tests/test_a.py", 1, "touches-test-files", True, text),
    )
    assert all(finding.certain for finding in written_to(base, now.touched, commands=True))


def test_what_an_archive_of_the_change_does_is_what_the_change_does() -> None:
    seen = Watched(seen=1, events=frozenset({("read", "shop/data.zip/inner.py", "tests/test_a.py")}))
    found = surprises(Watched(seen=1), seen, changed=frozenset({"shop/data.zip"}), tests=frozenset())
    assert [(each.rule, each.certain) for each in found] == [("touches-test-files", True)]
    assert not surprises(Watched(seen=1), seen, changed=frozenset({"shop/data.zi"}), tests=frozenset())


def test_a_document_of_before_has_no_touched_files() -> None:
    old = Watched(seen=2).document().replace(b', "touched": []', b"")
    assert b"touched" not in old
    assert Watched.of_document(old) == Watched(seen=2)


def test_what_agrees_with_everything_is_told_once_for_each_type() -> None:
    probes: list[dict[str, object]] = [
        {"agrees": [{"type": "p.Any", "file": "p.py", "test": "t::a", "line": 7}]},
        {"agrees": [{"type": "p.Any", "file": "p.py", "test": "t::b"}, {"type": "q.Any", "file": "q.py", "test": ""}]},
        {"agrees": [{"type": "unittest.mock._ANY", "file": "", "test": "t::c"}]},
        {
            "agrees": [
                {"type": "tests.Any", "file": "", "test": "t::c"},
                {"type": "u.Any", "file": "tests/u.py", "test": "t"},
            ]
        },
        {"agrees": [{"type": 3}, None, {"type": "r.Any", "file": "p.py", "test": "t", "line": True}]},
        {"agrees": "x"},
        {},
    ]
    rule = "agrees-with-everything"
    assert agreeing(probes, product=lambda path: not path.startswith("tests/")) == (
        Finding("p.py", 7, rule, True, "p.Any is equal to anything, and was compared in t::a."),
        Finding("q.py", 1, rule, True, "q.Any is equal to anything."),
        Finding("", 0, rule, False, "unittest.mock._ANY is equal to anything, and was compared in t::c."),
        Finding("p.py", 1, rule, True, "r.Any is equal to anything, and was compared in t."),
    )


def test_findings_carry_the_place_that_the_probe_saw() -> None:
    event = ["trace", "p.py", ""]
    now = {**HONEST, "patched": ["time.time"], "plugins": ["a", "cleaner"], "events": [event], "lines": [7]}
    now["defined"] = {"time.time": ["p.py", 12], "cleaner": ["p.py", 1]}
    given = surprises(Watched.of([HONEST]), Watched.of([now]), changed=frozenset({"p.py"}), tests=frozenset())
    places = {(finding.path, finding.line, finding.rule) for finding in given}
    assert places == {("p.py", 12, "patches"), ("p.py", 1, "registers-plugin"), ("p.py", 7, "traces")}


@pytest.mark.parametrize(
    "forged",
    [
        {"defined": 3},
        {"defined": {"time.time": 3}},
        {"defined": {"time.time": [1, 2]}},
        {"defined": {"time.time": ["p.py"]}},
        {"lines": "x"},
        {"lines": [1, 2, 3]},
    ],
)
def test_places_that_are_no_places_are_passed_over(forged: dict[str, object]) -> None:
    assert found(HONEST, {**HONEST, "patched": ["time.time"], **forged}) == [("patches", True)]
