from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_iterctl.control.decision import decide
from pytest_iterctl.control.events import (
    Answered,
    BaseLost,
    BaseProved,
    Decided,
    Event,
    Interrupted,
    Judged,
    ReviewFinished,
    RunStarted,
    Settled,
    SnapshotTaken,
    StageStarted,
    StopRequested,
    SuiteFinished,
    TaskStarted,
    TurnFinished,
    Undone,
    Warned,
)
from pytest_iterctl.control.evidence import (
    Change,
    Counts,
    Failure,
    Feedback,
    GateEvidence,
    GateFinding,
    IntegrityGap,
    LeftOut,
    Outcome,
    Proof,
    ReviewEvidence,
    SuiteEvidence,
    TurnEvidence,
    TurnOutcome,
)
from pytest_iterctl.control.fold import apply
from pytest_iterctl.control.standing import situation
from pytest_iterctl.control.state import Entry, RunState
from pytest_iterctl.errors import RepositoryError
from pytest_iterctl.plan.frozen import FrozenPlan, FrozenTask, NamedAgent, Settings
from pytest_iterctl.plan.model import Agent, Limits
from pytest_iterctl.show.audit import audit_document, audit_lines
from pytest_iterctl.show.documents import run_document
from pytest_iterctl.show.formats import render_json, render_yaml
from pytest_iterctl.show.report import report_document
from pytest_iterctl.show.report_markdown import render

HALF_EVEN = "tests/test_round.py::test_half_even"
NEGATIVE = "tests/test_round.py::test_negative"
LIMITS = Limits(
    level="normal",
    max_cost_per_iteration=5.0,
    max_total_cost=20.0,
    max_duration_per_iteration=300.0,
    max_total_duration=1800.0,
    max_calls_per_iteration=500,
)
SIDES = {HALF_EVEN: ("2", "3")}
UNSEEN = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]"
HOSTILE = [
    "```\n````\n`````\n</details>",
    "~~~\n~~~~",
    "</details></summary><script>alert(1)</script>",
    "| a | b |\n|---|---|\n| \\| |",
    "@everyone #1 GH-2 https://example.com www.example.com [x](javascript:1) ![y](z)",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07",
    "\u202egnp.exe \u2066x\u2069 \u200b",
    "a\nb\r\nc\rd\x85e\u2028f\u2029g\x0bh\x0ci",
    "yes: no\n- &anchor *alias !tag | > % @ ` ---\n...\n",
    "22:30",
    "null",
    "=",
    "<<",
    "\x00\x07\x7f\x80\ud800\udfff\ufeff\uffff\U0010ffff",
    "  leading\n\ttab \t\n \n\n",
    "\n\n   \n x",
    "&lt;script&gt; <!-- --> <img src=x onerror=y> &#60;",
    "# heading\n\n    code\n***\n===\n1. x",
    "\\\\| \\` \\",
    "`a`` ``` b````",
    "",
]


def agent(name: str) -> NamedAgent:
    return NamedAgent(name=name, spec=Agent(command=("agent",)))


def suite(*failing: str, passed: int = 40, message: str = "assert 3 == 2", **more: Any) -> SuiteEvidence:
    """What a test run showed in which these tests fail; with `outcome` it may have ended in any other way."""
    failures = tuple(
        Failure(
            test=test,
            where="src/rounding.py:41",
            kind="AssertionError",
            message=message,
            expected=SIDES.get(test, (None, None))[0],
            received=SIDES.get(test, (None, None))[1],
        )
        for test in failing[:200]
    )
    return SuiteEvidence(
        **{
            "outcome": Outcome.FAILED if failing else Outcome.PASSED,
            "counts": Counts(tests=passed + len(failing), passed=passed, failed=len(failing)),
            "failures": failures,
            "failing": failing,
            "seconds": 6.0,
            **more,
        }
    )


class Story:
    """A run told event by event; decisions come from the real rules."""

    def __init__(self, *task_ids: str, run: str = "01JDQ3", limits: Limits = LIMITS, **frozen: Any) -> None:
        tasks = tuple(
            FrozenTask(**{"id": task_id, "prompt": "Round half to even.", "agent": agent("coder"), **frozen})
            for task_id in task_ids or ("rounding",)
        )
        self.task = tasks[0].id
        self.clock = 0.0
        self.state = RunState()
        plan = FrozenPlan(limits=limits, tasks=tasks)
        self.tell(RunStarted(run=run, version="0", plan=plan, root="/r", git_dir="/r/.git", head="", directory=""))

    def tell(self, *events: Event, seconds: float = 0.0) -> Story:
        for event in events:
            self.clock += seconds
            entry = Entry(self.state.sequence + 1, "2026-11-18T05:20:11.000Z", self.clock, event)
            self.state = apply(self.state, entry)
        return self

    def begin(self, baseline: SuiteEvidence | None = None) -> Story:
        self.tell(TaskStarted(task=self.task, base="ba5e" * 10, tree="7ee0" * 10))
        return self.judge(0, baseline) if baseline is not None else self

    def judge(self, iteration: int, evidence: SuiteEvidence, gate: GateEvidence | None = None) -> Story:
        """The tests have run; the gate believes a green run unless it is told otherwise."""
        self.tell(SuiteFinished(task=self.task, iteration=iteration, suite=evidence), seconds=6.0)
        self.snapshot(iteration, "test")
        if gate is None and evidence.passed:
            gate = GateEvidence(verdict="accepted", reason="the tests pass in the clean room", suite=evidence)
        return self.tell(Judged(task=self.task, iteration=iteration, gate=gate)) if gate is not None else self

    def snapshot(self, iteration: int, stage: Any, change: Change | None = None) -> Story:
        commit = f"{stage[0]}{iteration:03d}".encode().hex().ljust(40, "0")
        taken = SnapshotTaken(
            task=self.task, iteration=iteration, stage=stage, commit=commit, tree=commit, change=change or Change()
        )
        return self.tell(taken)

    def turn(self, iteration: int, *, cost: float | None = 0.21, change: Change | None = None, **more: Any) -> Story:
        evidence = TurnEvidence(
            **{"agent": "coder", "outcome": TurnOutcome.DONE, "seconds": 40.0, "cost_usd": cost, **more}
        )
        before = self.state.task(self.task).latest
        self.tell(StageStarted(task=self.task, iteration=iteration, stage="generate", agent="coder", before=before))
        self.tell(TurnFinished(task=self.task, iteration=iteration, turn=evidence), seconds=40.0)
        if evidence.outcome is TurnOutcome.DONE:
            changed = change or Change(files=("src/rounding.py",), file_count=1, added=9, deleted=4)
            return self.snapshot(iteration, "generate", changed)
        return self

    def review(self, iteration: int, status: Any, feedback: str, *findings: str) -> Story:
        said = ReviewEvidence(reviewer="critic", status=status, feedback=feedback, findings=findings)
        asked = TurnEvidence(agent="critic", outcome=TurnOutcome.DONE, cost_usd=0.1)
        self.tell(ReviewFinished(task=self.task, iteration=iteration, review=said, turn=asked))
        return self.snapshot(iteration, "review")

    def decide(self, iteration: int, feedback: Feedback | None = None) -> Story:
        told = feedback or Feedback(summary="2 tests failed", actionable_items=("Round half to even",))
        decision = decide(situation(self.state, self.state.task(self.task), iteration, told))
        return self.tell(Decided(task=self.task, iteration=iteration, decision=decision))

    def settle(self, holds: Any, iteration: int, **more: Any) -> Story:
        return self.tell(Settled(task=self.task, holds=holds, iteration=iteration, commit="5e77" * 10, **more))

    def document(self, **more: Any) -> dict[str, Any]:
        arguments: dict[str, Any] = {"patch": a_patch, "redact": str, "test_command": "python -m pytest tests", **more}
        return report_document(self.state, self.state.task(self.task), **arguments)

    def markdown(self, **more: Any) -> str:
        return render(self.document(**more))


def a_patch(old: str, new: str, limit: int) -> tuple[str, bool]:
    text = f"diff --git a/r.py b/r.py\n--- a/r.py\n+++ b/r.py\n@@ -1 +1 @@\n-{old[:4]}\n+{new[:4]} \t\n \n"
    return text[:limit], len(text) > limit


def conflict(**frozen: Any) -> Story:
    """Three iterations, the bound; one test never passes, one is mended, one breaks."""
    story = Story(**frozen).begin(suite(HALF_EVEN, NEGATIVE, passed=38)).decide(0)
    story.turn(1).judge(1, suite(HALF_EVEN, NEGATIVE, passed=38)).decide(1)
    story.turn(2, cost=None).judge(2, suite(HALF_EVEN, passed=39)).decide(2)
    story.turn(3).judge(3, suite(HALF_EVEN, "tests/test_round.py::test_zero", passed=38)).decide(3)
    return story.settle("best", 2)


def passing(**more: Any) -> Story:
    return Story(**more).begin(suite(HALF_EVEN)).decide(0).turn(1).judge(1, suite()).decide(1)


# ── the question ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_question_comes_first_with_a_command_for_each_option() -> None:
    story = conflict()
    question = story.document()["question"]
    assert [option["command"] for option in question["options"]] == [
        "iterctl answer 01JDQ3 --option 1",
        "iterctl answer 01JDQ3 --option 2",
        "iterctl answer 01JDQ3 --option 3",
    ]
    assert question["continue"] == 'iterctl answer 01JDQ3 --continue "…"'
    assert question["abort"] == "iterctl answer 01JDQ3 --abort"
    first, rest = story.markdown().split("\n", 1)
    assert first.startswith("# Needs a decision: After 3 iterations, ")
    assert first.endswith("it expects 2, the code gives 3. Which is right?")
    assert "`iterctl answer 01JDQ3 --option 2`" in rest.split("##")[0]


def test_the_task_is_named_when_the_run_has_several() -> None:
    story = Story("one", "two").begin(suite(HALF_EVEN)).decide(0)
    for iteration in (1, 2, 3):
        story.turn(iteration).judge(iteration, suite(HALF_EVEN)).decide(iteration)
    document = story.document()
    assert document["question"]["options"][0]["command"] == "iterctl answer 01JDQ3 --option 1 --task one"
    assert document["question"]["continue"] == 'iterctl answer 01JDQ3 --task one --continue "…"'
    assert document["attempts"][1]["restore"] == "iterctl restore 01JDQ3 1 --task one"
    assert document["diffs"]["attempts"][0]["command"] == "iterctl diff 01JDQ3 1 --task one"


def test_a_limit_is_answered_by_raising_it() -> None:
    story = Story().begin(suite(HALF_EVEN)).decide(0).turn(1, cost=25.0).judge(1, suite(HALF_EVEN)).decide(1)
    document = story.document()
    assert document["title"].startswith("Stopped: max_total_cost reached")
    assert document["limit"] == "max_total_cost"
    assert document["limits"] == ["max_total_cost", "max_cost_per_iteration"]
    assert document["question"]["resume"] == (
        "iterctl resume 01JDQ3 --limit max_total_cost=VALUE --limit max_cost_per_iteration=VALUE"
    )
    go_on, stop = document["question"]["options"]
    assert go_on["command"] == "iterctl answer 01JDQ3 --option 1"
    assert stop["command"] == "iterctl answer 01JDQ3 --option 2"
    assert document["question"]["continue"] == 'iterctl answer 01JDQ3 --continue "…"'
    assert "**Question.**" in render(document)


def test_after_a_stop_by_a_person_resume_goes_on() -> None:
    story = Story().begin(suite(HALF_EVEN)).decide(0).turn(1)
    document = story.tell(StopRequested(by="ada")).decide(1).document()
    assert document["title"] == "Stopped: stopped by ada"
    assert document["question"]["options"][0]["command"] == "iterctl resume 01JDQ3"


def test_a_pending_review_can_be_approved_by_its_option() -> None:
    story = Story(reviewers=(agent("critic"),)).begin(suite(HALF_EVEN)).decide(0).turn(1).judge(1, suite())
    options = story.review(1, "pending", "someone should look").decide(1).document()["question"]["options"]
    assert options[0]["effect"] == "approve"
    assert options[0]["next"] == "the change is accepted as it is"
    assert options[0]["command"] == "iterctl answer 01JDQ3 --option 1"


# ── other states ─────────────────────────────────────────────────────────────────────────────────────────────────────


def nothing_done() -> Story:
    return Story()


def at_work() -> Story:
    return Story().begin(suite(HALF_EVEN)).decide(0).turn(1)


def no_tests() -> Story:
    return Story().begin(suite(passed=0, outcome=Outcome.NO_TESTS, reason="no tests ran")).decide(0)


def answered_with_abort() -> Story:
    return conflict().tell(Answered(task="rounding", effect="abort", by="ada"))


@pytest.mark.parametrize(
    ("story", "title"),
    [
        (nothing_done, "Waiting: rounding has not started"),
        (lambda: Story(needs=("base",)), "Waiting: rounding, for base"),
        (lambda: Story().begin(), "Running: rounding, at the baseline"),
        (at_work, "Running: rounding, in iteration 1 of 3"),
        (lambda: at_work().tell(Interrupted()), "Interrupted: rounding, in iteration 1 of 3"),
        (lambda: passing().settle("accepted", 1), "Accepted: rounding, after 1 iteration"),
        (no_tests, "Aborted: no tests ran"),
        (answered_with_abort, "Aborted: rounding, by ada"),
    ],
)
def test_the_title_says_how_a_task_without_a_question_stands(story: Callable[[], Story], title: str) -> None:
    document = story().document()
    assert document["title"] == title
    assert document["question"] is None
    assert render(document).startswith("# " + title.partition(":")[0])
    assert_sound(document)


def test_a_task_that_goes_on_after_an_answer_asks_nothing() -> None:
    story = conflict().tell(Answered(task="rounding", effect="continue", guidance="2 is right", by="ada"))
    story.snapshot(4, "start").turn(4)
    document = story.document()
    assert document["question"] is None
    assert document["attempts"][4]["guidance"] == ["2 is right"]
    assert {"text": "ada answered: continue", "shown_by": "the journal"} in document["certain"]


# ── the situation ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_situation_tells_of_the_attempt_that_the_work_tree_holds() -> None:
    situation_ = conflict().document()["situation"]
    assert situation_["text"] == (
        "3 of 3 iterations used. The work tree holds the best attempt (iteration 2): 39 passed, 1 failed. "
        "It took 2m24s; cost 0.42 USD (unknown for 1 of 3 calls)."
    )
    assert situation_["restore"] == "iterctl restore 01JDQ3 N"
    assert situation_["holds_commit"] == "5e775e775e77"
    assert "touched neither HEAD" in situation_["safe"]


def test_a_cost_that_no_call_reported_is_unknown_and_not_zero() -> None:
    document = Story().begin(suite(HALF_EVEN)).decide(0).turn(1, cost=None).document()
    assert document["situation"]["cost_usd"] is None
    assert document["situation"]["cost"] == "cost unknown for 1 of 1 call"
    assert document["attempts"][1]["cost"] == "unknown for 1 of 1 call"


def test_a_cost_that_is_not_a_number_keeps_the_document_valid_json() -> None:
    document = Story().begin(suite(HALF_EVEN)).decide(0).turn(1, cost=float("nan")).document()
    assert json.loads(render_json(document), parse_constant=pytest.fail) == document


@pytest.mark.parametrize(
    ("holds", "iteration", "told"),
    [
        ("last", 3, "The work tree holds the last attempt (iteration 3): 38 passed, 2 failed."),
        ("base", 0, "The work tree holds what it held before the run: 38 passed, 2 failed."),
        ("best", 0, "The work tree holds what it held before the run: 38 passed, 2 failed."),
    ],
)
def test_what_the_work_tree_holds_follows_the_settings(holds: str, iteration: int, told: str) -> None:
    assert told in conflict().settle(holds, iteration).document()["situation"]["text"]


def test_a_commit_that_was_asked_for_is_named_and_one_that_failed_is_explained() -> None:
    done = passing().settle("accepted", 1, committed="c0ffee" * 7)
    assert "iterctl made the commit c0ffeec0ffee that was asked for" in done.markdown()
    failed = passing().settle("accepted", 1, problem="a hook refused it")
    assert "**Not committed.** a hook refused it" in failed.markdown()


# ── attempts ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_attempt_tells_what_changed_what_failed_and_what_was_fed_back() -> None:
    first = conflict().document()["attempts"][1]
    assert first["changed"] == "+9 −4 in 1 file"
    assert first["files"] == ["src/rounding.py"]
    assert first["failing"] == [HALF_EVEN, NEGATIVE]
    assert first["first_failure"]["expected"] == "2"
    assert first["first_failure"]["received"] == "3"
    assert first["fed_back"]
    assert first["feedback"]["actionable_items"] == ["Round half to even"]
    assert first["restore"] == "iterctl restore 01JDQ3 1"


def test_the_feedback_of_the_last_decision_went_to_nobody() -> None:
    attempts = conflict().document()["attempts"]
    assert [attempt["fed_back"] for attempt in attempts] == [True, True, True, False]


def test_an_agent_that_failed_is_told_apart_from_tests_that_failed() -> None:
    story = Story().begin(suite(HALF_EVEN)).decide(0)
    for number in (1, 2, 3):
        story.turn(1, outcome=TurnOutcome.CRASHED, exit_code=1, error="rate limit")
        story.tell(Undone(task="rounding", iteration=1, kept=f"{number}" * 40, restored="ba5e" * 10))
    document = story.decide(1).document()
    assert document["reason"] == "agent-failed"
    assert [turn["error"] for turn in document["attempts"][1]["agent_failures"]] == ["rate limit"] * 3
    assert document["attempts"][1]["changed"] == "no snapshot of a change"
    assert {"text": "The agent failed 3 times", "shown_by": "iteration 1"} in document["certain"]
    assert "`coder` did not do its turn (crashed):" in render(document)


def test_an_attempt_that_changed_nothing_says_so() -> None:
    story = Story().begin(suite(HALF_EVEN)).decide(0).turn(1, change=Change(file_count=0)).judge(1, suite(HALF_EVEN))
    document = story.decide(1).document()
    assert document["attempts"][1]["changed"] == "changed nothing"
    assert {"text": "The agent changed nothing", "shown_by": "iteration 1"} in document["certain"]


def test_a_review_is_quoted_with_its_reviewer() -> None:
    story = Story(reviewers=(agent("critic"),)).begin(suite(HALF_EVEN)).decide(0).turn(1).judge(1, suite())
    story.review(1, "reject", "no test for zero", "zero is missing").decide(1)
    review = story.document()["attempts"][1]["reviews"][0]
    assert (review["status"], review["feedback"], review["findings"]) == (
        "reject",
        "no test for zero",
        ["zero is missing"],
    )
    assert "`critic` said reject:\n\n```\nno test for zero\n- zero is missing\n```" in story.markdown()


# ── the matrix ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_matrix_orders_always_failing_then_broken_then_fixed() -> None:
    matrix = conflict().document()["matrix"]
    assert matrix["iterations"] == [0, 1, 2, 3]
    assert [(row["test"], row["trend"], row["cells"]) for row in matrix["rows"]] == [
        (HALF_EVEN, "always", ["FAIL", "FAIL", "FAIL", "FAIL"]),
        ("tests/test_round.py::test_zero", "regressed", ["pass", "pass", "pass", "FAIL"]),
        (NEGATIVE, "fixed", ["FAIL", "FAIL", "pass", "pass"]),
    ]


@pytest.mark.parametrize(
    "outcome",
    [Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.COLLECTION_ERROR, Outcome.NO_REPORT, Outcome.INCOMPLETE],
)
def test_a_run_without_a_verdict_judges_only_what_it_saw_fail(outcome: Outcome) -> None:
    story = Story().begin(suite(HALF_EVEN, NEGATIVE)).decide(0)
    story.turn(1).judge(1, suite(NEGATIVE, outcome=outcome, reason="it broke")).turn(2)
    rows = {row["test"]: row["cells"] for row in story.document()["matrix"]["rows"]}
    assert rows == {HALF_EVEN: ["FAIL", "-", "-"], NEGATIVE: ["FAIL", "FAIL", "-"]}


def test_where_no_test_passed_none_is_said_to_pass() -> None:
    story = Story().begin(suite(HALF_EVEN)).decide(0).turn(1).judge(1, suite(NEGATIVE, passed=0))
    assert {row["test"]: row["cells"][1] for row in story.document()["matrix"]["rows"]} == {
        HALF_EVEN: "-",
        NEGATIVE: "FAIL",
    }


def test_a_large_matrix_is_cut_and_says_how_many_are_left_out() -> None:
    many = tuple(f"tests/test_many.py::test_one[{number}]" for number in range(500))
    story = Story().begin(suite(*many)).decide(0).turn(1).judge(1, suite(*many)).decide(1)
    document = story.document()
    assert len(document["matrix"]["rows"]) == 100
    assert document["matrix"]["left_out"] == 400
    assert len(document["attempts"][1]["failing"]) == 20
    assert document["attempts"][1]["failing_count"] == 500
    page = render(document)
    assert "400 more tests left out" in page
    assert "and 480 more" in page
    assert page.index("<details><summary>500 tests by iteration") < page.index("test_one[42]")


# ── certain and inferred ─────────────────────────────────────────────────────────────────────────────────────────────


def test_facts_name_the_attempt_that_shows_them_and_inferences_stand_apart() -> None:
    document = conflict().document()
    certain = {fact["text"]: fact["shown_by"] for fact in document["certain"]}
    assert document["certain"][0] == {
        "text": "The bound of 3 iterations is reached and the task is not done",
        "shown_by": "rule max-iterations",
    }
    assert certain[f"{HALF_EVEN} expects 2, the code gives 3"].startswith("iteration 3, snapshot 74303033")
    assert certain[f"Failed in every test run that judged them (1 test): {HALF_EVEN}"] == "iterations 0 to 3"
    assert certain[f"Failed before and passing now (1 test): {NEGATIVE}"] == "iterations 0 to 3"
    inferred = " ".join(found["text"] for found in document["inferred"])
    assert document["pattern"]["name"] in inferred
    assert "contradict each other" in inferred
    assert "Iteration 2 is the best attempt" in inferred
    assert not any("contradict" in text or "Pattern" in text for text in certain)


# ── integrity ────────────────────────────────────────────────────────────────────────────────────────────────────────

PROOF = Proof(
    manifest="m",
    files=812,
    protected=("tests/test_round.py (its name makes it a test file)", "pytest.ini (it configures the tests)"),
    protected_count=61,
    installed=3812,
    runs=("failed in the work tree", "failed in the clean room, in reverse order"),
    counts={"failed": 1, "passed": 40},
    flaky=("tests/test_net.py::test_slow: passed in the work tree, failed in the clean room",),
    old_failures=("tests/test_old.py::test_gone",),
    seconds=2.1,
)
EXIT = GateFinding(where="src/rounding.py:7", rule="ends-process", certain=True, text="calls os._exit(0).")
TABLE = GateFinding(where="src/rounding.py:20", rule="hard-coded", text="chooses results by literals of the tests.")
VANISHED = IntegrityGap(
    kind="vanished", text="1 test is no longer run: test_zero", undo="bring it back", tests=("t.py::test_zero",)
)
EDITED = LeftOut(path="tests/test_round.py", reason="is protected: its name makes it a test file", protected=True)


def gate(verdict: Any, reason: str, room: SuiteEvidence | None = None, **more: Any) -> GateEvidence:
    return GateEvidence(verdict=verdict, reason=reason, suite=room, seconds=3.0, **more)


def guarded(**frozen: Any) -> Story:
    story = Story(**frozen).begin(suite(HALF_EVEN))
    return story.tell(BaseProved(task=story.task, proof=PROOF)).decide(0)


def caught() -> Story:
    """Told once about tests that vanished; then it ends the process."""
    story = guarded().turn(1).judge(1, suite(), gate("gaps", "but 1 test is no longer run", suite(), gaps=(VANISHED,)))
    found = gate(
        "incident",
        "src/rounding.py:7 calls os._exit(0)",
        suite(),
        findings=(TABLE, EXIT),
        left_out=(EDITED,),
        checked=("1 changed file read",),
        unchecked=("controls",),
    )
    return story.decide(1).turn(2).judge(2, suite(), found).decide(2).settle("base", 0)


def test_what_the_gate_objects_to_stands_right_after_the_question() -> None:
    story = caught()
    document, page = story.document(), story.markdown()
    assert document["reason"] == "integrity"
    headings = re.findall(r"^## (.+)$", page, re.MULTILINE)
    assert headings[:2] == ["Integrity", "Why it stopped"]
    before_the_fold = page[: page.index("<details>")]
    assert "- `src/rounding.py:7` ends-process (certain): calls os.\\_exit(0)." in before_the_fold
    assert before_the_fold.index("ends-process") < before_the_fold.index("hard-coded (suspicious)")
    assert "| `tests/test_round.py` | is protected: its name makes it a test file |" in before_the_fold
    assert "| 1 | **gaps** | but 1 test is no longer run |" in before_the_fold
    assert "- controls" in page
    assert_sound(document)


def test_the_integrity_of_a_task_is_data_in_every_form() -> None:
    integrity = caught().document()["integrity"]
    assert (integrity["proof"]["files"], integrity["proof"]["protected_count"]) == (812, 61)
    assert integrity["proof"]["tests"] == "40 passed, 1 failed"
    first, second = integrity["iterations"]
    assert (first["iteration"], first["verdict"], second["verdict"]) == (1, "gaps", "incident")
    assert first["gaps"] == [
        {
            "kind": "vanished",
            "text": "1 test is no longer run: test_zero",
            "undo": "bring it back",
            "tests": ["t.py::test_zero"],
        }
    ]
    assert [finding["where"] for finding in second["findings"]] == ["src/rounding.py:20", "src/rounding.py:7"]
    assert integrity["accepted"] is None
    assert Story().begin(suite(HALF_EVEN)).document()["integrity"] is None


def test_tests_that_fail_in_the_clean_room_have_failed() -> None:
    """Green in the work tree and red in the room: what counts is the room, in every cell and count."""
    red = gate("gaps", "not in the clean room: 1 failed", suite(HALF_EVEN, passed=39), left_out=(EDITED,))
    story = guarded().turn(1).judge(1, suite(passed=40), red).decide(1)
    document = story.document()
    assert document["attempts"][1]["failing"] == [HALF_EVEN]
    assert (document["attempts"][1]["outcome"], document["attempts"][1]["gate"]) == ("failed", "gaps")
    assert document["matrix"]["rows"][0]["cells"] == ["FAIL", "FAIL"]
    assert "39 passed, 1 failed" in document["situation"]["text"]
    run = run_document(story.state, {})["tasks"][0]  # type: ignore[index]
    assert (run["outcome"], run["failing"], run["history"][0]["gate"]) == ("failed", [HALF_EVEN], "gaps")


def test_an_accepted_change_names_the_patch_with_what_was_left_out() -> None:
    fine = gate(
        "accepted",
        "the tests pass in the clean room",
        suite(),
        findings=(TABLE,),
        left_out=(EDITED,),
        may_change=("tests/test_new.py",),
        new_tests="tests/test_more.py: 3 passed",
        flaky=("tests/test_net.py::test_slow",),
    )
    story = guarded().turn(1).judge(1, suite(), fine).decide(1)
    story.settle("accepted", 1, left_out=".iterctl/runs/01JDQ3/left-out.patch")
    document, page = story.document(), story.markdown()
    assert document["integrity"]["accepted"] == {"iteration": 1, "by": "the gate"}
    assert "As a patch: `.iterctl/runs/01JDQ3/left-out.patch`" in page
    assert page.index("## Attempts") < page.index("## Integrity")
    assert "- tests/test\\_more.py: 3 passed" in page
    assert "Tests that the task may change, and that changed: `tests/test_new.py`" in page
    assert "`iterctl audit 01JDQ3`" not in page
    assert "iterctl audit 01JDQ3" in page
    assert_sound(document)


def test_a_room_that_is_not_proved_says_what_to_do() -> None:
    story = Story().begin(suite(HALF_EVEN))
    problem = "the clean room can't be used: name build/ under `prepare:`"
    story.tell(BaseProved(task=story.task, proof=Proof(manifest="m", problem=problem)))
    document = story.decide(0).document()
    assert document["title"].startswith("Aborted: the clean room can't be used")
    assert document["integrity"]["proof"]["proved"] is False
    assert "**The clean room is not proved.** the clean room can't be used" in render(document)


def test_a_long_history_keeps_its_verdicts_and_the_details_of_the_last() -> None:
    story = guarded(settings=Settings(max_iterations=50))
    for iteration in range(1, 31):
        story.turn(iteration, cost=0.0).judge(iteration, suite(HALF_EVEN), gate("not-green", "the tests fail"))
    iterations = story.document()["integrity"]["iterations"]
    assert len(iterations) == 30
    assert ["checked" in each for each in iterations] == [False] * 10 + [True] * 20
    assert "10 earlier verdicts in the YAML and JSON forms" in story.markdown()


def test_the_run_document_tells_of_the_gate_and_its_gaps() -> None:
    task = run_document(caught().state, {})["tasks"][0]  # type: ignore[index]
    assert task["gate"]["proof"]["runs"] == ["failed in the work tree", "failed in the clean room, in reverse order"]
    assert task["gate"]["proof"]["counts"] == {"failed": 1, "passed": 40}
    assert (task["gate"]["evidence"]["iteration"], task["gate"]["evidence"]["verdict"]) == (2, "incident")
    assert task["gate"]["evidence"]["unchecked"] == ["controls"]
    assert task["gaps"] == [
        {
            "type": "integrity",
            "kind": "vanished",
            "text": "1 test is no longer run: test_zero",
            "undo": "bring it back",
            "tests": ["t.py::test_zero"],
        }
    ]
    assert [each["gate"] for each in task["history"]] == ["gaps", "incident"]
    untouched = run_document(Story().begin(suite(HALF_EVEN)).state, {})["tasks"][0]  # type: ignore[index]
    assert (untouched["gate"], untouched["gaps"]) == (None, [])


def test_the_audit_tells_what_was_protected_compared_and_found() -> None:
    story = caught()
    told = "\n".join(audit_lines(story.state, story.state.tasks))
    for line in (
        "    protected     61 of 812 files, taken from the base for every verdict",
        "                  and 59 more",
        "    tests         40 passed, 1 failed",
        "    flaky         tests/test_net.py::test_slow: passed in the work tree, failed in the clean room",
        "    old failures  tests/test_old.py::test_gone (does not block)",
        "    interpreter   3812 installed files fingerprinted",
        "  iteration 1: gaps: passed in the work tree, but 1 test is no longer run",
        "    gap           vanished: 1 test is no longer run: test_zero (to undo it: bring it back)",
        "    certain       src/rounding.py:7 ends-process: calls os._exit(0).",
        "    left out      tests/test_round.py: is protected: its name makes it a test file",
        "    unchecked     controls",
        "  accepted: nothing",
    ):
        assert line in told.splitlines()
    document = audit_document(story.state, story.state.tasks)
    assert document["schema"] == "iterctl.audit/1"
    assert json.loads(render_json(document)) == document


def test_the_audit_says_on_whose_word_a_change_was_accepted() -> None:
    story = caught()
    assert story.state.task(story.task).attempts[-1].may_be_approved
    story.settle("last", 2).tell(Answered(task=story.task, effect="approve", by="ada")).decide(2)
    story.settle("accepted", 2, left_out="left-out.patch")
    told = list(audit_lines(story.state, story.state.tasks))
    assert "  accepted: iteration 2, on the word of ada" in told
    assert "    left out      as a patch: left-out.patch" in told
    assert story.document()["integrity"]["accepted"] == {"iteration": 2, "by": "ada"}


@pytest.mark.parametrize("text", HOSTILE)
def test_the_audit_is_one_harmless_line_for_each_thing(text: str) -> None:
    story = hostile_story(text)
    for line in audit_lines(story.state, story.state.tasks):
        assert not re.search(UNSEEN, line)
        assert len(line) < 1100
    document = audit_document(story.state, story.state.tasks)
    assert json.loads(render_json(document)) == document


# ── diffs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_diffs_are_those_of_each_turn_and_of_the_whole() -> None:
    diffs = conflict().document()["diffs"]
    assert (diffs["whole"]["old"], diffs["whole"]["new"]) == ("ba5eba5eba5e", "5e775e775e77")
    names = [(bytes.fromhex(diff["old"][:8]), bytes.fromhex(diff["new"][:8])) for diff in diffs["attempts"]]
    assert names == [(b"t000", b"g001"), (b"t001", b"g002"), (b"t002", b"g003")]
    assert "+5e77" in diffs["whole"]["text"]


def test_after_an_answer_a_turn_is_compared_with_what_the_person_left() -> None:
    story = conflict().tell(Answered(task="rounding", effect="continue"))
    story.snapshot(4, "start").turn(4)
    assert bytes.fromhex(story.document()["diffs"]["attempts"][3]["old"][:8]) == b"s004"


def test_without_diffs_the_report_says_why_and_where_they_are() -> None:
    def never(old: str, new: str, limit: int) -> tuple[str, bool]:
        pytest.fail("no diff was wanted")

    story = conflict(settings=Settings(escalation_includes_diff=False))
    page = story.markdown(patch=never)
    assert "Diffs are left out, because escalation\\_includes\\_diff is false: `iterctl diff 01JDQ3`" in page
    assert "```diff" not in page


def test_a_cut_diff_points_to_the_whole_one() -> None:
    def long(old: str, new: str, limit: int) -> tuple[str, bool]:
        return ("+" + "x" * 98 + "\n") * (limit // 100), True

    document = conflict().document(patch=long, largest_patch=2000)
    assert all(diff["cut"] and 1000 < len(diff["text"]) <= 2000 for diff in document["diffs"]["attempts"])
    assert "the whole: `iterctl diff 01JDQ3 2`" in render(document)


def test_secrets_are_redacted_in_diffs_even_where_a_cut_would_halve_them() -> None:
    secret = "+hunter2\n" * 20  # of several lines, as a private key is

    def redact(text: str) -> str:
        return text.replace(secret, "+[redacted]\n")

    def leaking(text: str) -> Callable[[str, str, int], tuple[str, bool]]:
        return lambda old, new, limit: (text[: text.rfind("\n", 0, limit) + 1], len(text) > limit)

    late = "+line\n" * 330 + secret + "+line\n" * 3000
    nothing_else = secret * 1000
    for largest in range(1900, 2300, 20):
        for text in (late, nothing_else):
            document = conflict().document(patch=leaking(text), redact=redact, largest_patch=largest)
            assert "hunter2" not in render_json(document)
    assert "[redacted]" in conflict().document(patch=leaking(late), redact=redact)["diffs"]["whole"]["text"]


def test_a_snapshot_that_is_gone_costs_its_diff_only() -> None:
    def gone(old: str, new: str, limit: int) -> tuple[str, bool]:
        raise RepositoryError("no such snapshot")

    assert "The diff can't be shown: no such snapshot" in conflict().markdown(patch=gone)


def test_many_diffs_share_a_budget_and_the_newest_are_kept() -> None:
    def whole_limit(old: str, new: str, limit: int) -> tuple[str, bool]:
        return "+" * 99 + "\n" if limit < 100 else ("+" + "x" * 98 + "\n") * (limit // 100), True

    document = long_story(50).document(patch=whole_limit)
    sizes = [len(diff["text"]) for diff in document["diffs"]["attempts"]]
    assert sizes[-1] > 50_000
    assert sizes[0] == 0
    assert sum(sizes) <= 6 * 60_000
    assert document["diffs"]["attempts"][0]["cut"]


def test_the_commands_to_reproduce_are_there() -> None:
    document = conflict().document(test_command="python -m pytest -k 'a | b'")
    assert [step["command"] for step in document["reproduce"]] == [
        "python -m pytest -k 'a | b'",
        "iterctl diff 01JDQ3",
        "iterctl restore 01JDQ3 N",
    ]
    assert "```sh\npython -m pytest -k 'a | b'\n```" in render(document)


# ── a page ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def long_story(iterations: int, message: str = "assert 3 == 2") -> Story:
    story = Story(
        settings=Settings(max_iterations=iterations), limits=LIMITS.model_copy(update={"max_total_duration": 1e6})
    )
    story.begin(suite(HALF_EVEN, message=message)).decide(0)
    for iteration in range(1, iterations + 1):
        story.turn(iteration).judge(iteration, suite(HALF_EVEN, f"t::t{iteration}", message=message)).decide(iteration)
    return story.settle("best", iterations)


def test_a_person_can_act_within_one_screen() -> None:
    page = conflict().markdown()
    before_the_fold = page[: page.index("<details>")].splitlines()
    assert len(before_the_fold) <= 50
    assert sum(len(line) for line in before_the_fold[:14]) < 2500
    assert page.endswith("\n")
    assert not page.endswith("\n\n")


def test_fifty_iterations_stay_one_page() -> None:
    def large(old: str, new: str, limit: int) -> tuple[str, bool]:
        return "+ a line of a diff\n" * (limit // 19), True

    document = long_story(50, "boom " * 2_000).document(patch=large)
    page = render(document)
    assert len(page.encode()) <= 400_000
    assert "iterctl diff 01JDQ3 50" in page
    assert page.count("\n", 0, page.index("<details>")) < 40
    assert_sound(document)
    assert len(render_yaml(document)) < 3_000_000


def test_a_smaller_limit_is_kept_by_leaving_out_details() -> None:
    document = long_story(20).document()
    assert len(render(document, largest=20_000).encode()) <= 20_000
    assert "only the last" in render(document, largest=20_000)


def hostile_story(text: str, verdict: Any = "gaps") -> Story:
    """The same text wherever text comes from outside."""
    tests = tuple(dict.fromkeys((text, text + "!", HALF_EVEN)))
    evidence = suite(*tests, message=text)
    both = tuple(
        f.model_copy(update={"expected": text, "received": text + "x", "detail": text, "where": text, "kind": text})
        for f in evidence.failures
    )
    evidence = evidence.model_copy(update={"failures": both, "reason": text})
    crashed = evidence.model_copy(update={"outcome": Outcome.CRASHED})
    told = Feedback(summary=text, actionable_items=(text, text))
    change = Change(files=(text, text), file_count=70, added=1, deleted=1)
    story = Story(prompt=text, agent=agent(text), reviewers=(agent(text),), needs=(text,))
    story.tell(Warned(text=text)).begin(evidence)
    story.tell(BaseLost(task=story.task, edited=(text,)), BaseProved(task=story.task, proof=hostile_proof(text)))
    story.decide(0, told)
    story.turn(1, outcome=TurnOutcome.CRASHED, error=text, agent=text)
    story.turn(1, change=change).judge(1, crashed, hostile_gate(text, "not-green", None)).decide(1, told)
    story.turn(2, change=change).judge(2, suite(), hostile_gate(text, "accepted", suite()))
    story.tell(
        ReviewFinished(
            task=story.task,
            iteration=2,
            review=ReviewEvidence(reviewer=text, status="reject", feedback=text, findings=(text,), gaps=(text,)),
            turn=TurnEvidence(agent=text, outcome=TurnOutcome.DONE),
        )
    )
    story.decide(2, told).turn(3).judge(3, evidence).decide(3, told)
    story.tell(Answered(task=story.task, effect="continue", guidance=text, by=text, iterations=1, may_change=(text,)))
    story.snapshot(4, "start").turn(4).judge(4, suite(), hostile_gate(text, verdict, evidence)).decide(4, told)
    return story.settle("last", 4, problem=text, left_out=text)


def hostile_proof(text: str) -> Proof:
    return Proof(
        manifest="m",
        files=3,
        protected=(text, f"{text} ({text})"),
        protected_count=70,
        installed=9,
        hidden_count=1,
        runs=(text, text),
        counts={text: 3, "passed": 1},
        flaky=(text, f"{text}: {text}"),
        old_failures=(text,),
        differs=(text,),
        notes=(text,),
    )


def hostile_gate(text: str, verdict: Any, room: SuiteEvidence | None) -> GateEvidence:
    return GateEvidence(
        verdict=verdict,
        reason=text,
        suite=room,
        gaps=(IntegrityGap(kind=text, text=text, undo=text, tests=(text, text)),) * 2,
        findings=(
            GateFinding(where=text, rule=text, text=text),
            GateFinding(where=text, rule=text, certain=True, text=text),
        ),
        left_out=(LeftOut(path=text, reason=text, protected=True),) * 2,
        may_change=(text,),
        new_tests=text,
        flaky=(text,),
        checked=(text, text),
        unchecked=(text,),
        ask=text,
    )


def hostile_document(text: str, verdict: Any = "gaps") -> dict[str, Any]:
    def patch(old: str, new: str, limit: int) -> tuple[str, bool]:
        return text[:limit], len(text) > limit

    return hostile_story(text, verdict).document(patch=patch, test_command=text)


def outside_of_fences(page: str) -> Iterator[str]:
    """The lines that Markdown reads; a fence closes only by a line of at least as many ticks and nothing else."""
    opened = ""
    for line in page.split("\n"):
        if opened:
            if re.fullmatch(rf"`{{{len(opened)},}}[ \t]*", line.lstrip(" ") if line[:4] != "    " else line):
                opened = ""
            continue
        if match := re.match(r" {0,3}(`{3,})[^`]*$", line):
            opened = match[1]
            continue
        assert not re.match(r" {0,3}~{3,}", line)
        yield line
    assert opened == "", "a fence stays open"


def without_code(line: str) -> str:
    """Prose alone; a tick behind a backslash is prose and opens nothing."""
    return re.sub(r"(?<![`\\])(`+)(?!`).*?(?<!`)\1(?!`)", "", line)


def assert_sound(document: dict[str, Any]) -> None:
    """Both data forms come back as they were, and the page has no structure but its own."""
    assert yaml.safe_load(render_yaml(document)) == document
    assert json.loads(render_json(document)) == document
    page = render(document)
    page.encode("utf-8")
    assert page.endswith("\n")
    assert not re.search(UNSEEN, page)
    lines = list(outside_of_fences(page))
    prose = [without_code(line) for line in lines]
    ours = re.compile(r"<details><summary>[^<]*</summary>|</details>")
    for line in prose:
        bare = ours.sub("", line)
        assert not re.search(r"<[a-zA-Z/!?]", bare), line
        assert not re.search(r"@\w", bare), line
        assert not re.search(r"(?<!\\)\]\(", bare), line
        assert not re.search(r"https?://|www\.", bare), line
    assert sum(line.startswith("<details>") for line in lines) == lines.count("</details>")
    for start, line in enumerate(lines):
        if line.startswith("| ---"):
            width = cells(lines[start - 1])
            rows = [line]
            for row in lines[start + 1 :]:
                if not row.startswith("|"):
                    break
                rows.append(row)
            assert {cells(row) for row in rows} == {width}


def cells(row: str) -> int:
    """How many cells a table has in this row: pipes split it wherever they aren't escaped, code or not."""
    return len(re.findall(r"(?<!\\)\|", row)) - 1


@pytest.mark.parametrize("verdict", ["gaps", "incident"])
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_breaks_out_of_no_form(text: str, verdict: str) -> None:
    assert_sound(hostile_document(text, verdict))


@pytest.mark.parametrize("name", ["a\x1b[31m\u202e|`b", "x y;\n# z", "-rf"])
def test_a_task_of_any_name_leaves_every_form_sound(name: str) -> None:
    document = Story(name, "other").begin(suite(HALF_EVEN)).decide(0).turn(1).judge(1, suite()).decide(1).document()
    assert_sound(document)
    assert "\x1b" not in document["task"] + document["title"]


def test_a_message_of_a_megabyte_is_cut_everywhere() -> None:
    document = hostile_document("`<b>@x|\n" * 130_000)
    assert len(render_json(document)) < 3_000_000
    assert len(render(document).encode()) <= 400_000
    assert_sound(document)


PIECES = st.lists(st.sampled_from([*HOSTILE, "`", "|", "\n", "\\", " ", "<", "a"]) | st.text(max_size=6), max_size=8)


@given(text=PIECES.map("".join) | st.text(st.characters(exclude_categories=[]), max_size=40))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_text_in_any_place_leaves_every_form_sound(text: str) -> None:
    assert_sound(hostile_document(text))


@given(
    text=st.text(st.characters(exclude_categories=["Cs"]))
    | st.text("ab \n\t\x85\u2028\u2029\ufeff-#:'\"|>", max_size=12)
)
@settings(max_examples=400, deadline=None)
def test_yaml_and_json_give_back_any_text_exactly(text: str) -> None:
    document: dict[str, object] = {"text": text, "list": [text, {"deeper": text}], "none": None, "number": 1.5}
    assert yaml.safe_load(render_yaml(document)) == document
    assert json.loads(render_json(document)) == document


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb\nc", "\x00\x1b\n\x85"])
def test_text_that_no_file_could_hold_still_comes_back(text: str) -> None:
    assert yaml.safe_load(render_yaml({"text": text})) == {"text": text}
    assert json.loads(render_json({"text": text})) == {"text": text}
    render_yaml({"text": text}).encode()


def test_a_diff_reads_like_a_diff_in_yaml() -> None:
    text = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n \n-\tif x:  \n+\tif y:\n"
    assert render_yaml({"text": text}) == "text: |\n" + "".join(f"  {line}\n" for line in text.splitlines())
