"""A command that is called for real: what it is given, and what is made of how it ends."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_iterctl.agents.callers import call_agent, call_reviewer
from pytest_iterctl.agents.command import call_command
from pytest_iterctl.control.evidence import TurnOutcome
from pytest_iterctl.plan.model import Agent
from tests.agents.turns import never_stop, turn_for

#: Says what it was given, then does what its first argument says.
SCRIPT = """
import json, os, sys, time
print(json.dumps({"argv": sys.argv[2:], "stdin": sys.stdin.read()}))
sys.stdout.flush()
exec(sys.argv[1])
"""


def script(tmp_path: Path, *arguments: str, does: str = "pass", **keys: Any) -> Agent:
    path = tmp_path / "agent.py"
    path.write_text(SCRIPT)
    command = [sys.executable, str(path), does, *arguments]
    return Agent.model_validate_json(json.dumps({"command": command, **keys}))


def given(stdout: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(stdout.splitlines()[0])
    return told


def test_a_prompt_arrives_on_stdin_in_a_file_or_in_an_argument(tmp_path: Path) -> None:
    turn = turn_for(script(tmp_path), tmp_path, prompt="do {prompt} it\n")
    assert given(call_command(turn, never_stop).stdout) == {"argv": [], "stdin": "do {prompt} it\n"}
    turn = turn_for(script(tmp_path, "-f={prompt_file}", prompt="file"), tmp_path, prompt="do it\n")
    told = given(call_command(turn, never_stop).stdout)
    assert told == {"argv": [f"-f={tmp_path / 'private' / 'prompt.md'}"], "stdin": ""}
    turn = turn_for(script(tmp_path, "{prompt}", prompt="argument"), tmp_path, prompt="do {session_id} ä\0 it\n")
    assert given(call_command(turn, never_stop).stdout) == {"argv": ["do {session_id} ä\\x00 it\n"], "stdin": ""}


def test_braces_that_mean_nothing_to_us_stay(tmp_path: Path) -> None:
    turn = turn_for(script(tmp_path, "{}", '{"a": 1}', "{file}", "{FILE}"), tmp_path)
    assert given(call_command(turn, never_stop).stdout)["argv"] == ["{}", '{"a": 1}', "{file}", "{FILE}"]


def test_a_prompt_that_no_argument_can_hold_is_refused_and_not_cut(tmp_path: Path) -> None:
    turn = turn_for(script(tmp_path, "{prompt}", prompt="argument"), tmp_path, prompt="ä" * 70_000)
    evidence = call_command(turn, never_stop).evidence
    assert evidence.outcome is TurnOutcome.CRASHED
    assert evidence.error.startswith("the prompt has 140.0 kB, which is too long for an argument")
    assert evidence.cost_usd == 0


def test_a_session_is_gone_on_with_by_a_command_of_its_own(tmp_path: Path) -> None:
    spec = script(tmp_path, "--name={new_session}", arguments=["--model", "m"])
    resume = (*(spec.command or ())[:3], "-s", "{session_id}")
    spec = spec.model_copy(update={"resume": resume})
    first = call_command(turn_for(spec, tmp_path), never_stop)
    name, *rest = given(first.stdout)["argv"]
    assert name == f"--name={first.evidence.session_id}"
    assert rest == ["--model", "m"]
    second = call_command(turn_for(spec, tmp_path, resume="s-1"), never_stop)
    assert given(second.stdout)["argv"] == ["-s", "s-1", "--model", "m"]
    assert second.evidence.session_id == "s-1"


def test_who_can_t_go_on_begins_anew(tmp_path: Path) -> None:
    reply = call_command(turn_for(script(tmp_path, "x"), tmp_path, resume="s-1"), never_stop)
    assert given(reply.stdout)["argv"] == ["x"]


def test_what_it_wrote_to_its_output_file_is_read(tmp_path: Path) -> None:
    reads = {"source": "output_file", "record": {"done": True}, "cost_usd": "cost", "text": "text"}
    does = "open(sys.argv[2], 'w').write(json.dumps({'done': True, 'cost': 0.5, 'text': 'Hello'}))"
    reply = call_command(turn_for(script(tmp_path, "{output_file}", does=does, reads=reads), tmp_path), never_stop)
    assert (reply.evidence.outcome, reply.evidence.cost_usd, reply.said) == (TurnOutcome.DONE, 0.5, "Hello")
    assert reply.evidence.text == "Hello"


@pytest.mark.parametrize(
    "does",
    [
        "pass",
        "os.mkfifo(sys.argv[2])",
        "os.mkdir(sys.argv[2])",
        "os.symlink('/dev/zero', sys.argv[2])",
        "open(sys.argv[2], 'wb').write(b'\\xff\\xfe{')",
    ],
)
def test_an_output_file_that_is_none_is_unreadable(tmp_path: Path, does: str) -> None:
    reads = {"source": "output_file", "record": {"done": True}}
    reply = call_command(turn_for(script(tmp_path, "{output_file}", does=does, reads=reads), tmp_path), never_stop)
    assert reply.evidence.outcome is TurnOutcome.UNREADABLE


def test_an_output_file_of_an_earlier_call_is_not_taken_for_this_one_s(tmp_path: Path) -> None:
    reads = {"source": "output_file", "record": {"done": True}}
    does = "open(sys.argv[2], 'w').write('{\"done\": true}')"
    wrote = script(tmp_path, "{output_file}", does=does, reads=reads)
    assert call_command(turn_for(wrote, tmp_path), never_stop).evidence.outcome is TurnOutcome.DONE
    wrote_nothing = script(tmp_path, "{output_file}", reads=reads)
    assert call_command(turn_for(wrote_nothing, tmp_path), never_stop).evidence.outcome is TurnOutcome.UNREADABLE


HANGS = "print(sys.argv[2]); sys.stdout.flush(); time.sleep(600)"
RULES = [{"record": {"waiting": "*"}, "last": True, "outcome": "no-network"}]


@pytest.mark.parametrize(
    ("record", "limit", "outcome"),
    [
        ('{"end": "success", "cost": 1}', "", "done"),
        ('{"waiting": "network"}', "", "no-network"),
        ('{"waiting": "network"}\n{"step": 1}', "", "timed-out"),
        ('{"step": 1}', "", "timed-out"),
        ('{"end": "success", "cost": 1}', "max_total_duration", "done"),
        ('{"waiting": "network"}', "max_duration_per_iteration", "no-network"),
        ('{"step": 1}', "max_total_duration", "limit"),
    ],
)
def test_whose_time_is_over_is_judged_by_its_last_words(tmp_path: Path, record: str, limit: str, outcome: str) -> None:
    reads = {"record": {"end": "*"}, "cost_usd": "cost"}
    spec = script(tmp_path, record, does=HANGS, reads=reads, outcomes=RULES)
    evidence = call_command(turn_for(spec, tmp_path, seconds=1.0, limit=limit), never_stop).evidence
    assert evidence.outcome == outcome
    assert evidence.cost_usd == (1 if "cost" in record else None)
    assert evidence.limit == (limit if outcome == "limit" else "")
    assert bool(evidence.error) == (outcome != "done")


def test_a_plain_command_whose_time_is_over_is_late_whatever_it_said(tmp_path: Path) -> None:
    spec = script(tmp_path, '{"session_id": "s", "cost_usd": 2}', does=HANGS)
    evidence = call_command(turn_for(spec, tmp_path, seconds=1.0), never_stop).evidence
    assert (evidence.outcome, evidence.error) == (TurnOutcome.TIMED_OUT, "no answer within 1s")
    assert (evidence.session_id, evidence.cost_usd) == ("s", 2)


def test_who_was_stopped_was_stopped_although_it_had_finished(tmp_path: Path) -> None:
    spec = script(tmp_path, '{"end": "success"}', does=HANGS, reads={"record": {"end": "*"}})
    evidence = call_command(turn_for(spec, tmp_path), lambda elapsed: elapsed > 0.5).evidence
    assert evidence.outcome is TurnOutcome.STOPPED


def test_a_program_that_is_not_there_is_a_crash_that_says_so(tmp_path: Path) -> None:
    evidence = call_command(turn_for(Agent(command=("no-such-program-anywhere",)), tmp_path), never_stop).evidence
    assert evidence.outcome is TurnOutcome.CRASHED
    assert "no-such-program-anywhere" in evidence.error


def test_the_last_lines_of_one_who_failed_are_kept_and_none_is_cut_within_a_word(tmp_path: Path) -> None:
    on_stdout = r"""
print('told first', 'x' * 9000)
print('a ' * 100 + 'b' * 200)
print()
print('\x1b[31mlast\x1b[0m', flush=True)
"""
    on_stderr = """
for number in range(12):
    print(f'line {number}', file=sys.stderr)
print('429 Too Many Requests', file=sys.stderr)
"""
    both, silent = f"{on_stdout}{on_stderr}sys.exit(1)", f"{on_stdout}print(file=sys.stderr)\nsys.exit(1)"
    evidence = call_agent(turn_for(script(tmp_path, does=both), tmp_path), never_stop).evidence
    assert evidence.outcome is TurnOutcome.CRASHED
    assert evidence.last_words == ("429 Too Many Requests", *(f"line {n}" for n in range(11, 2, -1)))
    evidence = call_agent(turn_for(script(tmp_path, does=silent), tmp_path), never_stop).evidence
    assert evidence.last_words == ("last", ("a " * 100).strip())
    done = call_agent(turn_for(script(tmp_path, does="print('last')"), tmp_path), never_stop).evidence
    assert (done.outcome, done.last_words) == (TurnOutcome.DONE, ())


def test_a_reviewer_without_a_review_has_last_words_too(tmp_path: Path) -> None:
    spec = script(tmp_path, does="print('Connection refused', file=sys.stderr); sys.exit(70)")
    review, reply = call_reviewer(turn_for(spec, tmp_path, stage="review"), never_stop)
    assert (review.status, reply.evidence.outcome) == ("failed", TurnOutcome.CRASHED)
    assert reply.evidence.last_words[0] == "Connection refused"
    assert reply.evidence.error.startswith("exit code 70 and no review in its output")
    assert reply.evidence.error.endswith(": Connection refused")


def test_megabytes_of_records_are_read_although_less_is_kept(tmp_path: Path) -> None:
    does = (
        "[print(json.dumps({'step': 1, 'cost': 0.001, 'pad': 'x' * 1000})) for _ in range(3000)]; print('{\"end\": 1}')"
    )
    reads = {"record": {"end": "*"}, "cost_usd": {"record": {"step": 1}, "path": "cost", "scope": "sum"}}
    reply = call_command(turn_for(script(tmp_path, does=does, reads=reads), tmp_path), never_stop)
    assert reply.evidence.outcome is TurnOutcome.DONE
    assert reply.evidence.cost_usd == pytest.approx(3.0)
    assert len(reply.stdout) < 600_000


@pytest.mark.parametrize("given_already", [["--spend", "0.50"], ["--spend=0.50"]])
def test_a_bound_that_the_plan_gives_itself_is_not_given_twice(tmp_path: Path, given_already: list[str]) -> None:
    budget = {"max_cost": ["--spend", "{max_cost}"], "max_turns": ["--turns={max_turns}"]}
    left = {"max_cost": 2.0, "max_turns": 9.0}
    spec = script(tmp_path, budget=budget, arguments=given_already)
    argv = given(call_command(turn_for(spec, tmp_path, budget=left), never_stop).stdout)["argv"]
    assert argv == [*given_already, "--turns=9"]
    spec = script(tmp_path, "--turns=3", budget=budget)
    argv = given(call_command(turn_for(spec, tmp_path, budget=left), never_stop).stdout)["argv"]
    assert argv == ["--turns=3", "--spend", "2.00"]


@pytest.mark.parametrize(
    ("printed", "exit_code", "status", "outcome"),
    [
        ('{"status": "reject", "feedback": "no", "question": "why?"}', 0, "reject", "done"),
        ('{"status": "reject", "feedback": "no", "error": "KeyError is swallowed"}', 0, "reject", "done"),
        ('{"status": "Approve", "is_error": true, "retry_after": 30, "denied": ["x"]}', 3, "approve", "done"),
        ('ITERCTL-QUESTION: ok?\n{"status": "approve", "cost_usd": 1}', 0, "approve", "done"),
        ('{"status": "broken", "error": "no key"}', 0, "failed", "crashed"),
        ('{"error": "no key"}', 0, "failed", "crashed"),
        ("Fine.\nITERCTL-QUESTION: ok?", 0, "failed", "asked"),
        ('{"retry_after": 30}', 0, "failed", "rate-limited"),
    ],
)
def test_a_review_is_one_whatever_else_is_in_it(
    tmp_path: Path, printed: str, exit_code: int, status: str, outcome: str
) -> None:
    spec = script(tmp_path, does=f"print({printed!r}); sys.exit({exit_code})")
    review, reply = call_reviewer(turn_for(spec, tmp_path, stage="review"), never_stop)
    assert (review.status, reply.evidence.outcome) == (status, outcome)
    assert bool(reply.evidence.error) == (status == "failed")


def test_private_files_are_private(tmp_path: Path) -> None:
    call_command(turn_for(script(tmp_path), tmp_path), never_stop)
    assert (tmp_path / "private" / "prompt.md").stat().st_mode & 0o777 == 0o600
