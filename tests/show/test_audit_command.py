"""`iterctl audit` and what a dry run says of the gate, as commands in a real little project."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kit.project import FIXED, TESTS, Project


def its_tests(project: Project) -> str:
    return next(str(path.relative_to(project.root)) for path in project.root.rglob("test_*.py"))


@pytest.mark.slow
def test_the_audit_of_an_accepted_run_says_what_was_protected_and_what_was_left_out(project: Project) -> None:
    project = replace(project, quick=False)  # the whole gate, with its controls
    tests = its_tests(project)
    project.agent({"write": {"calc.py": FIXED, tests: TESTS + "\n\ndef test_more():\n    pass\n"}})
    ran = project.iterate("--iterate-format=json")
    assert ran.code == 0, ran.err
    run, task = ran.json["run"], ran.json["tasks"][0]
    patch = f".iterctl/runs/{run}/left-out.patch"
    assert task["gate"]["left_out_patch"] == patch
    assert "+def test_more" in (project.root / patch).read_text()

    shown = project.iterctl("audit", run)
    assert shown.code == 0, shown.err
    assert f"{tests} (its name makes it a test file)" in shown.out
    assert "  iteration 1: accepted: the tests pass in the clean room" in shown.out
    assert "passed alone" in shown.out
    assert f"as a patch: {patch}" in shown.out

    document = project.iterctl("audit", "--format", "json").json
    assert (document["schema"], document["run"]) == ("iterctl.audit/1", run)
    (audited,) = document["tasks"]
    assert audited["integrity"]["accepted"] == {"iteration": 1, "by": "the gate"}
    assert [each["path"] for each in audited["integrity"]["iterations"][-1]["left_out"]] == [tests]
    assert project.iterctl("audit", run, "--task", "nobody").code == 4


@pytest.mark.slow
def test_the_audit_of_a_run_that_was_caught_names_what_to_undo(project: Project) -> None:
    tests = its_tests(project)
    project.agent({"write": {tests: "def test_one():\n    pass\n"}})
    ran = project.iterate("--iterate-format=json")
    assert ran.code == 10, ran.err
    task = ran.json["tasks"][0]
    assert (task["reason"], [each["gate"] for each in task["history"]]) == ("integrity", ["gaps", "gaps"])
    assert {gap["type"] for gap in task["gaps"]} == {"integrity"}
    assert task["outcome"] == "failed", "the clean room is what counts"
    page = project.iterctl("report").out
    assert page.index("## Integrity") < page.index("**Situation.**")
    shown = project.iterctl("audit").out
    assert "  iteration 2: gaps: passed in the work tree, not in the clean room" in shown
    assert "    gap           protected-edit: " in shown
    assert "  accepted: nothing" in shown


def test_the_audit_without_a_run_says_so(project: Project) -> None:
    ran = project.iterctl("audit")
    assert ran.code == 4
    assert ran.err.startswith("error: ")


def test_a_dry_run_shows_the_settings_of_the_gate(project: Project) -> None:
    plan = """version: 1
settings: { agent: "true" }
tasks:
  - id: calc
    tests: [tests]
    gate: fast
    protect: [docs/api.md, "!tests/data/**"]
    may_change: [tests/test_new.py]
    prepare: [make tables]
    suite: [tests, -k, not slow]
    baseline_runs: 3
    mutants: 5
"""
    (project.root / "iterctl.yaml").write_text(plan)
    ran = replace(project, quick=False).iterctl("run", "--dry-run")
    assert ran.code == 0, ran.err
    for line in (
        "  gate     fast, the baseline is run 3 times, baseline: compare, flaky: report, 5 mutants",
        "  protect  what the tests are made of, docs/api.md, !tests/data/**",
        "  change   may change tests/test_new.py",
        "  prepare  run make tables",
        "  suite    tests -k 'not slow'",
    ):
        assert line in ran.out.splitlines()
