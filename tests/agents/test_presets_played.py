"""Each preset against what the real tool printed, played by an executable that takes the tool's own options."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from pytest_iterctl.agents.command import call_command
from pytest_iterctl.agents.transcript import SessionTotals
from pytest_iterctl.agents.turn import Reply
from pytest_iterctl.feedback.reviews import read_review
from pytest_iterctl.plan.presets import preset_names, presets
from tests.agents.turns import never_stop, turn_for
from tests.kit.standins import Recording, StandIn, recorded

#: How each recording is to be read.
ENDS = {
    "aider": {
        "success": "done",
        "success-unlisted": "done",
        "priced": "done",
        "no-change": "done",
        "elsewhere": "done",
        "asked": "done",
        "bad-edit": "done",
        "bad-key": "not-logged-in",
        "no-key": "not-logged-in",
        "no-network": "no-network",
        "connection-closed": "no-network",
        "rate-limited": "rate-limited",
        "out-of-quota": "out-of-budget",
        "server-error": "crashed",
    },
    "claude": {
        "success": "done",
        "stream-success": "done",
        "stream-resumed": "done",
        "stream-recovered": "done",
        "stream-no-change": "done",
        "stream-tools-denied": "tools-denied",
        "stream-not-logged-in": "not-logged-in",
        "stream-bad-key": "not-logged-in",
        "stream-no-network": "no-network",
        "stream-no-network-unfinished": "no-network",
        "stream-rate-limited-unfinished": "rate-limited",
        "stream-overloaded": "rate-limited",
        "stream-budget-limit": "out-of-budget",
        "stream-turn-limit": "out-of-budget",
        "stream-out-of-credit": "out-of-budget",
        "stream-server-error": "crashed",
        "chosen-session": "done",
        "resumed": "done",
        "recovered": "done",
        "no-change": "done",
        "asked": "done",
        "tools-denied": "tools-denied",
        "command-denied": "tools-denied",
        "bad-key": "not-logged-in",
        "not-logged-in": "not-logged-in",
        "no-network": "no-network",
        "connection-closed": "no-network",
        "rate-limited": "rate-limited",
        "stream-rate-limited": "rate-limited",
        "overloaded": "rate-limited",
        "budget-limit": "out-of-budget",
        "turn-limit": "out-of-budget",
        "out-of-credit": "out-of-budget",
        "server-error": "crashed",
        "unknown-model": "crashed",
        "prompt-too-long": "crashed",
        "no-prompt": "crashed",
        "resume-unknown": "crashed",
        "root-refused": "crashed",
    },
    "codex": {
        "success": "done",
        "success-patch": "done",
        "resumed": "done",
        "recovered": "done",
        "no-change": "done",
        "asked": "done",
        "command-failed": "done",
        "tools-denied": "done",  # its sandbox tells nobody
        "escalation-denied": "tools-denied",
        "bad-key": "not-logged-in",
        "no-key": "not-logged-in",
        "not-logged-in": "not-logged-in",
        "no-network": "no-network",
        "connection-closed": "no-network",
        "rate-limited": "rate-limited",
        "usage-limit": "rate-limited",
        "overloaded": "rate-limited",
        "out-of-quota": "out-of-budget",
        "server-error": "crashed",
        "resume-unknown": "crashed",
        "no-prompt": "crashed",
        "plain-text": "unreadable",
    },
    "cursor": {
        "success": "done",
        "resumed": "done",
        "hangs-after-the-end": "done",
        "not-logged-in": "not-logged-in",
        "no-network": "no-network",
        "rate-limited": "rate-limited",
        "crashed": "crashed",
        "cut-off": "unreadable",
    },
    "gemini": {
        "success": "done",
        "resumed": "done",
        "no-change": "done",
        "asked": "done",
        "tools-denied": "tools-denied",
        "command-denied": "tools-denied",
        "bad-key": "not-logged-in",
        "unauthenticated": "not-logged-in",
        "not-logged-in": "not-logged-in",
        "no-network": "no-network",
        "connection-closed": "no-network",
        "rate-limited": "rate-limited",
        "overloaded": "rate-limited",
        "turn-limit": "out-of-budget",
        "server-error": "crashed",
        "untrusted": "crashed",
        "resume-unknown": "crashed",
        "no-prompt": "crashed",
    },
    "goose": {
        "success": "done",
        "resumed": "done",
        "asked": "asked",
        "bad-key": "not-logged-in",
        "no-network": "no-network",
        "rate-limited": "rate-limited",
        "out-of-credit": "out-of-budget",
        "server-error": "service-failed",
        "crashed": "crashed",
        "cut-off": "unreadable",
    },
    "mini": {
        "success": "done",
        "priced": "done",
        "no-change": "done",
        "bad-key": "not-logged-in",
        "no-key": "not-logged-in",
        "no-network": "no-network",
        "rate-limited": "rate-limited",
        "budget-limit": "out-of-budget",
        "turn-limit": "out-of-budget",
        "server-error": "crashed",
        "asked": "crashed",  # it must always run something
        "unpriced": "crashed",
    },
    "opencode": {
        "success": "done",
        "resumed": "done",
        "no-change": "done",
        "tools-denied": "tools-denied",
        "bad-key": "not-logged-in",
        "rate-limited": "rate-limited",
        "resume-unknown": "crashed",
        "recovered": "done",
        "asked": "done",
        "no-network": "no-network",
        "connection-closed": "no-network",
        "out-of-quota": "out-of-budget",
        "server-error": "service-failed",
        "unknown-model": "crashed",
        "not-logged-in": "crashed",  # "Unexpected server error" is all that it says
        "no-prompt": "crashed",
    },
    "qwen": {
        "success": "done",
        "resumed": "done",
        "no-change": "done",
        "asked": "done",
        "tools-denied": "tools-denied",
        "bad-key": "not-logged-in",
        "no-key": "not-logged-in",
        "not-logged-in": "not-logged-in",
        "no-network": "no-network",
        "connection-closed": "no-network",
        "rate-limited": "timed-out",  # it tries again and again, without a word
        "turn-limit": "out-of-budget",
        "server-error": "crashed",
        "resume-unknown": "crashed",
        "no-prompt": "crashed",
        "unknown-option": "crashed",
    },
}
#: Where the time is over before the tool is, a second of it is enough.
PATIENCE = {True: 1.0, False: 60.0}


class Play(Protocol):
    """Calls the preset of that name with a turn that is changed so, and a stand-in that plays the case."""

    def __call__(self, tool: str, case: str, **changes: object) -> tuple[Reply, StandIn]: ...


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    def played(tool: str, case: str, **changes: object) -> tuple[Reply, StandIn]:
        recording = Recording.read(tool, case)
        stand_in = StandIn.make(tmp_path / "bin", recording)
        monkeypatch.setenv("PATH", stand_in.path())
        turn = turn_for(tool, tmp_path, **{"seconds": PATIENCE[recording.exit_code < 0], **changes})
        return call_command(turn, never_stop), stand_in

    return played


@pytest.mark.parametrize(("tool", "case"), [(tool, case) for tool, cases in ENDS.items() for case in cases])
def test_a_recording_is_read_as_what_it_was(play: Play, tool: str, case: str) -> None:
    reply, stand_in = play(tool, case)
    assert reply.evidence.outcome == ENDS[tool][case], reply.evidence
    assert bool(reply.evidence.error) == (ENDS[tool][case] not in {"done", "asked", "tools-denied"})
    (call,) = stand_in.calls
    assert call["prompt"] == "# Task doubling\n\nMake the failing tests pass. Umlauts: äöü.\n"


def test_every_preset_was_heard_succeeding_and_failing() -> None:
    assert set(ENDS) == set(preset_names())
    for tool, cases in ENDS.items():
        assert {"done", "not-logged-in", "crashed"} <= set(cases.values()), tool
        assert len(set(cases.values())) >= 5, tool
        assert set(cases) <= set(recorded(tool))


@pytest.mark.parametrize(
    ("tool", "case", "cost", "tokens", "calls"),
    [
        ("aider", "priced", 0.00076, 168, 1),
        ("aider", "success-unlisted", None, 336, 2),
        ("claude", "success", 0.002088, 336, 3),
        ("claude", "budget-limit", 0.001044, 168, 1),
        ("codex", "success", None, 336, 1),
        ("cursor", "success", None, 336, 1),
        ("gemini", "success", None, 336, 2),
        ("goose", "success", None, 336, 1),
        ("mini", "priced", 0.001515, None, 2),
        ("opencode", "success", 0.000426, 336, 2),
        ("qwen", "success", None, 336, 2),
    ],
)
def test_what_it_cost_is_read(
    play: Play, tool: str, case: str, cost: float | None, tokens: int | None, calls: int
) -> None:
    evidence = play(tool, case)[0].evidence
    assert evidence.cost_usd == pytest.approx(cost)
    assert (evidence.tokens, evidence.calls) == (tokens, calls)


@pytest.mark.parametrize(
    ("tool", "before", "tokens"),
    [
        ("claude", 336, 336),
        ("codex", 336, 336),
        ("cursor", 336, 336),
        ("gemini", 336, 336),
        ("goose", 336, 168),
        ("opencode", 336, 336),
        ("qwen", 336, 336),
    ],
)
def test_a_session_is_gone_on_with_and_only_what_is_new_is_counted(
    play: Play, tool: str, before: int, tokens: int
) -> None:
    reply, stand_in = play(tool, "resumed", resume="the-session", before=SessionTotals(tokens=before))
    (call,) = stand_in.calls
    assert "the-session" in call["argv"]
    assert reply.evidence.tokens == tokens
    assert reply.evidence.session_id


@pytest.mark.parametrize("tool", ["claude", "codex", "cursor", "gemini", "goose", "opencode", "qwen"])
def test_the_session_of_a_first_call_can_be_gone_on_with(play: Play, tool: str) -> None:
    evidence = play(tool, "success")[0].evidence
    assert evidence.session_id
    resume = presets()[tool].resume
    assert resume is not None


def test_a_tool_that_does_not_tell_its_session_is_given_a_name_for_it(play: Play) -> None:
    reply, stand_in = play("goose", "success")
    (call,) = stand_in.calls
    assert call["options"]["-n"] == reply.evidence.session_id
    assert call["environment"]["GOOSE_MODE"] == "auto"


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("claude", {"--max-budget-usd": "1.25", "--max-turns": "6"}),
        ("goose", {"--max-turns": "7"}),
        ("mini", {"-l": "1.25"}),
        ("qwen", {"--max-session-turns": "7"}),
        ("codex", {}),
    ],
)
def test_a_tool_with_bounds_of_its_own_is_told_what_is_left(play: Play, tool: str, given: dict[str, str]) -> None:
    options = play(tool, "success", budget={"max_cost": 1.25, "max_turns": 7.0})[1].calls[0]["options"]
    assert given.items() <= options.items()
    without = play(tool, "success")[1].calls[1]["options"]
    assert not given.keys() & without.keys()


def test_nothing_left_is_not_told_as_no_bound_at_all(play: Play) -> None:
    call = play("mini", "success", budget={"max_cost": 0.0})[1].calls[0]
    assert call["options"]["-l"] == "0.01"
    call = play("claude", "success", budget={"max_turns": 1.0})[1].calls[-1]
    assert call["options"]["--max-turns"] == "1"


@pytest.mark.parametrize(("left", "told"), [(1.006, "1.00"), (0.29, "0.29"), (0.999999, "0.99"), (1e-9, "0.01")])
def test_no_more_is_told_than_is_left(play: Play, left: float, told: str) -> None:
    assert play("mini", "success", budget={"max_cost": left})[1].calls[0]["options"]["-l"] == told


def test_claude_is_told_so_few_turns_that_what_it_reports_is_within_the_limit(play: Play) -> None:
    reply, stand_in = play("claude", "stream-turn-limit", budget={"max_turns": 3.0})
    assert stand_in.calls[0]["options"]["--max-turns"] == "2"
    assert reply.evidence.calls == 3


#: What a program that the tool started might print.
NOISE = {
    "cursor": "connect ECONNREFUSED 127.0.0.1:9229\n",
    "gemini": '{"session_id": "another", "error": {"code": 41, "message": "no"}}\n',
    "qwen": '{"type": "result", "subtype": "error_max_turns", "error": {"message": "no"}}\n',
}


@pytest.mark.parametrize("tool", NOISE)
def test_what_stands_on_stderr_does_not_undo_a_success(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Recording.read(tool, "success")
    stand_in = StandIn.make(tmp_path / "bin", replace(recording, stderr=recording.stderr + NOISE[tool]))
    monkeypatch.setenv("PATH", stand_in.path())
    evidence = call_command(turn_for(tool, tmp_path), never_stop).evidence
    assert (evidence.outcome, evidence.error, evidence.tokens) == ("done", "", 336)
    assert evidence.session_id != "another"


@pytest.mark.parametrize(
    ("tool", "line"),
    [
        ("goose", "Network error: is told to the caller now."),
        ("goose", "Ran into this error: Authentication error: and mended it."),
        ("qwen", "[API Error: 429 is handled now]"),
        ("claude", "Credit balance is too low"),
        ("aider", "ITERCTL-QUESTION: never mind, I decided.\nDone."),
    ],
)
def test_a_line_of_what_the_model_said_decides_nothing(
    tool: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Recording.read(tool, "success" if tool != "aider" else "no-change")
    said = f"I fixed it.\n{line}"
    if tool == "aider":
        spoken = recording.stdout.replace("The code is already right.", said)
    else:
        spoken = recording.stdout.replace("Fixed double().", json.dumps(said)[1:-1])
    assert spoken != recording.stdout
    stand_in = StandIn.make(tmp_path / "bin", replace(recording, stdout=spoken))
    monkeypatch.setenv("PATH", stand_in.path())
    evidence = call_command(turn_for(tool, tmp_path), never_stop).evidence
    assert (evidence.outcome, evidence.question) == ("done", "")


def test_aider_asks_in_the_last_line_of_its_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Recording.read("aider", "no-change")
    spoken = recording.stdout.replace("The code is already right.", "Hm.\nITERCTL-QUESTION: Half up?")
    stand_in = StandIn.make(tmp_path / "bin", replace(recording, stdout=spoken))
    monkeypatch.setenv("PATH", stand_in.path())
    evidence = call_command(turn_for("aider", tmp_path), never_stop).evidence
    assert (evidence.outcome, evidence.question, evidence.tokens) == ("asked", "Half up?", 168)


def test_the_time_to_wait_is_read(play: Play) -> None:
    assert play("gemini", "rate-limited")[0].evidence.retry_after == 1.0
    assert play("goose", "rate-limited")[0].evidence.retry_after == 20.0
    assert play("opencode", "rate-limited")[0].evidence.retry_after == 1.0
    assert play("claude", "rate-limited")[0].evidence.retry_after is None


@pytest.mark.parametrize(
    ("tool", "case", "denied"),
    [
        ("claude", "tools-denied", ("Write",)),
        ("claude", "command-denied", ("Bash",)),
        ("codex", "escalation-denied", ("command",)),
        ("gemini", "tools-denied", ("write_file",)),
        ("opencode", "tools-denied", ("write",)),
        ("qwen", "tools-denied", ("write_file",)),
    ],
)
def test_denied_tools_are_named(play: Play, tool: str, case: str, denied: tuple[str, ...]) -> None:
    assert play(tool, case)[0].evidence.denied == denied


def test_aider_keeps_its_histories_out_of_the_tree(play: Play, tmp_path: Path) -> None:
    (call,) = play("aider", "success")[1].calls
    assert Path(call["options"]["--chat-history-file"]).parent == tmp_path / "private"
    assert presets()["aider"].leaves == (".aider*",)


@pytest.mark.parametrize("tool", sorted(set(preset_names()) - {"aider", "mini"}))
def test_a_reviewer_is_read_by_its_last_message(tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Recording.read(tool, "success")
    document = json.dumps({"status": "reject", "feedback": "no docstring", "findings": [], "gaps": ["docs"]})
    answer = json.dumps(f"Let me see.\n\n```json\n{document}\n```")[1:-1]
    assert "Fixed double()." in recording.stdout
    spoken = recording.stdout.replace("Fixed double().", answer)
    stand_in = StandIn.make(
        tmp_path / "bin", Recording(tool, "review", 0, spoken, recording.stderr, recording.output_file)
    )
    monkeypatch.setenv("PATH", stand_in.path())
    reply = call_command(turn_for(tool, tmp_path, stage="review"), never_stop)
    review = read_review(tool, reply.said or "", reply.evidence.exit_code, exit_code_speaks=False)
    assert (review.status, review.feedback, review.gaps) == ("reject", "no docstring", ("docs",))


def test_a_reviewer_that_says_nothing_of_the_kind_has_not_approved(play: Play) -> None:
    reply, _ = play("claude", "success", stage="review")
    review = read_review("claude", reply.said or "", reply.evidence.exit_code, exit_code_speaks=False)
    assert review.status == "failed"
