"""What an agent's output is read as: any text at all, and never more than it says."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_iterctl.agents.records import records_in, values_at
from pytest_iterctl.agents.transcript import SessionTotals, Transcript, read_transcript
from pytest_iterctl.agents.waits import seconds_in
from pytest_iterctl.control.evidence import TurnEvidence, TurnOutcome
from pytest_iterctl.plan.model import Agent
from pytest_iterctl.plan.presets import preset_names, presets
from tests.kit.standins import Recording, recorded

PLAIN = Agent(command=("my-agent",))


def agent(**keys: Any) -> Agent:
    return Agent.model_validate_json(json.dumps({"command": ["my-agent"], **keys}))


def read(spec: Agent, stdout: str = "", **more: Any) -> Transcript:
    return read_transcript(spec, stdout=stdout, **{"exit_code": 0, **more})


RESULT = agent(
    reads={
        "record": {"type": "result"},
        "session_id": "session",
        "cost_usd": "cost",
        "tokens": ["usage.in", "usage.out"],
        "calls": "turns",
        "error": {"record": {"type": "result", "failed": True}, "path": ["why", "text"]},
        "denied": "denied.*.tool",
        "question": "ask",
        "text": "text",
    }
)


def result(**fields: Any) -> str:
    return json.dumps({"type": "result", **fields})


class TestPlainCommands:
    """The contract of a command without `reads`."""

    def test_the_last_object_is_its_report(self) -> None:
        said = read(PLAIN, 'working\n{"cost_usd": 1}\n{"cost_usd": 0.5, "tokens": 12, "calls": 3, "session_id": "s"}\n')
        assert said == Transcript(cost_usd=0.5, tokens=12, calls=3, session_id="s")

    def test_an_exit_code_is_a_failure_unless_somebody_else_reads_it(self) -> None:
        said = read(PLAIN, "one\ntwo\n", exit_code=3)
        assert (said.outcome, said.error) == (TurnOutcome.CRASHED, "exit code 3: two")
        assert read(PLAIN, "one\ntwo\n", exit_code=3, any_exit_code=True).outcome is TurnOutcome.DONE
        assert read(PLAIN, exit_code=-9).error == "killed by signal 9: it printed nothing"

    def test_an_error_is_a_failure_whatever_the_exit_code(self) -> None:
        assert read(PLAIN, '{"error": "no\\nkey", "cost_usd": 2}').error == "no key"
        said = read(PLAIN, '{"is_error": true, "result": "Overloaded", "total_cost_usd": 2}')
        assert (said.outcome, said.error, said.cost_usd) == (TurnOutcome.CRASHED, "Overloaded", 2)

    def test_the_word_error_says_nothing(self) -> None:
        text = 'error: 429 rate limit, not logged in\n{"is_error": false, "error": null}\nFATAL ERROR\n'
        assert read(PLAIN, text, stderr="ERROR Authentication failed\n").outcome is TurnOutcome.DONE

    @pytest.mark.parametrize(
        "text",
        [
            'The API returned {"error": "not found"} so I changed the handler.\nAll tests pass now.\n',
            'I wrote errors.json:\n```json\n{"error": "bad request", "code": 400}\n```\nDone.\n',
            '{"error": "bad request"}\nis what it said.\n',
            'It said {"error": "bad request"}\n',
            '{"error": "bad request"} and so on\n',
            "error: the old code divided by zero\nfix: use a guard\n",
            "question: what did I do\nanswer: fixed it\n",
            "---\ndenied: [Bash]\n",
            'A wait looks like this: {"retry_after": 30}',
            '{"results": {"error": "x"}}',
            '{\n "error": "x"\n} {\n}',
        ],
    )
    def test_what_is_not_a_json_object_at_the_end_is_no_report(self, text: str) -> None:
        assert read(PLAIN, text) == Transcript()

    @pytest.mark.parametrize(
        "text",
        [
            'So:\n{"error": "no key"}\n \n\n',
            '  {"error": "no key"}',
            '{\n  "error": "no key",\n  "more": [\n    {\n      "cost_usd": 3\n    }\n  ]\n}\n',
            'Bad {\n{\n  "error": "no key"\n}',
            '\x1b[31m{"error": "no key"}\x1b[0m\r\n',
        ],
    )
    def test_a_json_object_at_the_end_is_a_report(self, text: str) -> None:
        said = read(PLAIN, text)
        assert (said.outcome, said.error, said.cost_usd) == (TurnOutcome.CRASHED, "no key", None)

    def test_a_wait_alone_says_that_it_is_rate_limited(self) -> None:
        for exit_code in (0, 1):
            said = read(PLAIN, '{"retry_after": 30}', exit_code=exit_code)
            assert (said.outcome, said.retry_after) == (TurnOutcome.RATE_LIMITED, 30.0)
            assert said.error == "it is rate limited"
        assert read(PLAIN, '{"retry_after": 0}').outcome is TurnOutcome.DONE
        assert read(PLAIN, '{"retry_after": null}').outcome is TurnOutcome.DONE

    @pytest.mark.parametrize(
        "name",
        [
            "--dangerously-skip-permissions",
            "-x",
            "a b",
            "a\nb",
            "a\0b",
            "\x1b[31mc",
            "x" * 201,
            "",
            "ä",
            3,
            None,
            ["s"],
        ],
    )
    def test_a_session_that_could_be_anything_else_is_none(self, name: object) -> None:
        assert read(PLAIN, json.dumps({"session_id": name, "cost_usd": 1})).session_id is None
        if isinstance(name, str):
            assert read(RESULT, result(session=name)).session_id is None

    @pytest.mark.parametrize("name", ["80ebd784-0ac9-496d-8e8a-72aaa09f222e", "ses_6a1f", "a/b:c.d-1", "x" * 200])
    def test_a_session_is_kept_as_it_is(self, name: str) -> None:
        assert read(PLAIN, json.dumps({"session_id": name})).session_id == name
        assert read(RESULT, result(session=name)).session_id == name

    def test_it_may_ask_wait_and_name_what_it_was_denied(self) -> None:
        said = read(PLAIN, '{"question": "Half up or half even?"}', exit_code=1)
        assert (said.outcome, said.question) == (TurnOutcome.ASKED, "Half up or half even?")
        said = read(PLAIN, '{"denied": ["Bash", "Bash", "Write"]}')
        assert (said.outcome, said.denied) == (TurnOutcome.TOOLS_DENIED, ("Bash", "Write"))
        said = read(PLAIN, '{"error": "busy", "retry_after": 30}', exit_code=1)
        assert (said.outcome, said.retry_after) == (TurnOutcome.RATE_LIMITED, 30.0)

    @pytest.mark.parametrize("wait", ["3", 3, 3.0, "3s", "Wed, 21 Oct 2026 07:28:03 GMT"])
    def test_a_wait_may_be_told_as_a_header_tells_it(self, wait: object) -> None:
        said = read(PLAIN, json.dumps({"retry_after": wait}), now=1792567680.0)
        assert (said.outcome, said.retry_after) == (TurnOutcome.RATE_LIMITED, 3.0)

    @pytest.mark.parametrize("wait", [1e9, 10**400, "1000000000000", "400 days"])
    def test_a_wait_that_is_too_long_is_not_a_short_one(self, wait: object) -> None:
        said = read(PLAIN, json.dumps({"error": "busy", "retry_after": wait}))
        assert (said.outcome, said.retry_after) == (TurnOutcome.RATE_LIMITED, 30 * 86400.0)

    @pytest.mark.parametrize("wait", [-1, "-1", "soon", "", True, None, float("inf"), [3]])
    def test_a_wait_that_is_none_is_not_waited_for(self, wait: object) -> None:
        said = read(PLAIN, json.dumps({"error": "busy", "retry_after": wait}))
        assert (said.outcome, said.retry_after) == (TurnOutcome.CRASHED, None)

    def test_rules_can_be_given_to_a_plain_command_too(self) -> None:
        rules = [
            {"exit_code": [75], "outcome": "rate-limited"},
            {"stderr": r"^quota used up, wait (?P<wait>\S+)", "outcome": "rate-limited"},
            {"record": {"state": "broke"}, "outcome": "out-of-budget"},
        ]
        spec = agent(outcomes=rules)
        assert read(spec, exit_code=75).outcome is TurnOutcome.RATE_LIMITED
        said = read(spec, stderr="\x1b[31mquota used up, wait 2m30s\x1b[0m\n", exit_code=1)
        assert (said.outcome, said.retry_after) == (TurnOutcome.RATE_LIMITED, 150.0)
        assert read(spec, '{"state": "broke", "cost_usd": 9}').outcome is TurnOutcome.OUT_OF_BUDGET
        assert read(spec, stderr="note: quota used up, wait 2m\n").outcome is TurnOutcome.DONE


class TestQuestions:
    @pytest.mark.parametrize(
        "text",
        [
            "ITERCTL-QUESTION: Half up?",
            "I see two ways.\n\nITERCTL-QUESTION:   Half up?  \n\n",
            'ITERCTL-QUESTION: Half up?\n{"cost_usd": 1}\n',
            "ITERCTL-QUESTION: Whole?\nITERCTL-QUESTION: Half up?\n",
        ],
    )
    def test_a_last_line_is_a_question(self, text: str) -> None:
        said = read(PLAIN, text)
        assert (said.outcome, said.question) == (TurnOutcome.ASKED, "Half up?")

    @pytest.mark.parametrize(
        "text",
        [
            "ITERCTL-QUESTION: Half up?\nNever mind, done.\n",
            "> ITERCTL-QUESTION: Half up?",
            "Print ITERCTL-QUESTION: and your question",
            "Half up?",
            "ITERCTL-QUESTION:",
        ],
    )
    def test_anything_else_is_none(self, text: str) -> None:
        assert read(PLAIN, text).outcome is TurnOutcome.DONE

    def test_a_tool_with_records_asks_in_its_last_message_or_in_a_field(self) -> None:
        said = read(RESULT, result(text="Hm.\nITERCTL-QUESTION: Half up?"))
        assert (said.outcome, said.question) == (TurnOutcome.ASKED, "Half up?")
        assert read(RESULT, result(ask="Half even?")).question == "Half even?"
        assert read(RESULT, f"{result(text='done')}\nITERCTL-QUESTION: Half up?\n").outcome is TurnOutcome.DONE

    def test_a_rule_that_says_so_makes_a_question_of_the_last_line(self) -> None:
        spec = agent(outcomes=[{"exit_code": [7], "outcome": "asked"}])
        said = read(spec, "Hm.\nWhat now?\n\n", exit_code=7)
        assert (said.outcome, said.question) == (TurnOutcome.ASKED, "What now?")
        assert read(spec, "Hm.\nITERCTL-QUESTION: Half up?", exit_code=7).question == "Half up?"
        assert read(spec, exit_code=7).question

    def test_a_report_over_several_lines_may_follow(self) -> None:
        assert read(PLAIN, 'ITERCTL-QUESTION: Half up?\n{\n "cost_usd": 1\n}\n').question == "Half up?"

    def test_who_failed_did_not_ask(self) -> None:
        assert read(PLAIN, "ITERCTL-QUESTION: Half up?", exit_code=1).outcome is TurnOutcome.CRASHED


class TestRecords:
    @pytest.mark.parametrize(
        "text",
        [
            '{"a": 1}',
            '\ufeff{"a": 1}\n',
            'Loading…\n{"a": 1}\nBye.\n',
            '[{"a": 1}]',
            '[{"a": 1}, {"b": ',
            '{\n "a": 1\n}\n',
            'warning {x}\n{\n "a": 1\n}\n[ERROR] {\n',
            '\x1b[2m{"a": 1}\x1b[0m\n',
            '{"a": 1}\n{"a": 2, "cut',
            'result: {"a": 1}',
            'got {x} and {"a": 1} here',
            '{broken\n{"a": 1}\n',
            '{"a": 1} trailing words\n',
            '[info] started\n{"a": 1}\n',
        ],
    )
    def test_an_object_is_found_among_anything(self, text: str) -> None:
        assert records_in(text) == ({"a": 1},)

    def test_what_is_no_json_is_no_record(self) -> None:
        assert records_in("type: result\nis_error: false\n") == records_in("{type: result}") == records_in("") == ()

    def test_several_are_found_in_order(self) -> None:
        assert records_in('{"a": 1}\n\nsome words\n{"a": 2}\r\n[{"a": 3}, 4]\n') == ({"a": 1}, {"a": 2}, {"a": 3})

    def test_control_characters_in_strings_are_not_minded(self) -> None:
        assert records_in('{"a": "x\ty"}') == ({"a": "x\ty"},)

    def test_paths_lead_through_tables_and_lists(self) -> None:
        record = {"a": {"x": [1, 2, None], "y": [3]}, "b": True}
        assert values_at(record, "a.*.*") == [1, 2, 3]
        assert values_at(record, "a.x.1") == [2]
        assert values_at(record, "a.y.-1") == [3]
        assert values_at(record, "b.c") == values_at(record, "a.x.9") == values_at(record, "a.z") == []

    def test_ten_megabytes_of_events_are_read(self) -> None:
        event = json.dumps({"type": "event", "text": "x" * 900})
        text = f"{event}\n" * 11_000 + result(cost=1.5) + "\n"
        assert len(text) > 10_000_000
        said = read(RESULT, text)
        assert (said.outcome, said.cost_usd) == (TurnOutcome.DONE, 1.5)

    @pytest.mark.parametrize(
        "text",
        [
            "{\n" * 300_000,
            "[" * 2_000_000,
            '{"a":' * 400_000,
            '[{"a": 1},' + '{"a": ' * 200_000,
            '{"a": [\n' * 200_000,
            "\x1b[" * 1_000_000,
            "ITERCTL-QUESTION" * 100_000,
        ],
    )
    def test_hostile_nesting_ends(self, text: str) -> None:
        began = time.process_time()
        for spec in (PLAIN, RESULT):
            assert isinstance(read(spec, text).outcome, TurnOutcome)
        assert time.process_time() - began < 60  # quadratic work would take hours


class TestFigures:
    def test_what_a_result_says_is_read(self) -> None:
        text = result(session="s-1", cost=0.25, usage={"in": 100, "out": 11}, turns=4, text="Done.")
        assert read(RESULT, text) == Transcript(
            session_id="s-1", cost_usd=0.25, tokens=111, calls=4, text="Done.", finished=True
        )

    def test_the_last_result_counts(self) -> None:
        assert read(RESULT, f"{result(cost=1)}\n{result(cost=2)}\n").cost_usd == 2

    @pytest.mark.parametrize("cost", [-1, -0.0001, 1e13, "0.25", True, None, [], {}, float("nan"), float("inf")])
    def test_a_cost_that_is_none_is_unknown_not_zero(self, cost: object) -> None:
        assert read(RESULT, result(cost=cost)).cost_usd is None
        assert read(PLAIN, json.dumps({"cost_usd": cost})).cost_usd is None

    def test_a_part_that_is_no_number_makes_the_sum_unknown(self) -> None:
        assert read(RESULT, result(usage={"in": 100, "out": -3})).tokens is None
        assert read(RESULT, result(usage={"in": 100, "out": "many"})).tokens is None
        assert read(RESULT, result(usage={"in": 100, "out": None})).tokens == 100

    def test_figures_of_events_add_up_or_are_counted(self) -> None:
        spec = agent(
            reads={
                "cost_usd": {"record": {"type": "step"}, "path": "cost", "scope": "sum"},
                "calls": {"record": {"type": "step"}, "scope": "count"},
                "text": {"record": {"type": "say"}, "path": "text", "scope": "sum"},
            }
        )
        events = [{"type": "step", "cost": 0.5}, {"type": "say", "text": "a"}, {"type": "step", "cost": 0.25}]
        said = read(spec, "\n".join(json.dumps(event) for event in [*events, {"type": "say", "text": "b"}]))
        assert (said.cost_usd, said.calls, said.text) == (0.75, 2, "a\nb")

    @pytest.mark.parametrize(("total", "before", "new"), [(500, 300, 200), (300, 300, 0), (120, 300, 120)])
    def test_of_a_session_only_what_is_new_counts(self, total: int, before: int, new: int) -> None:
        spec = agent(reads={"tokens": {"path": "total", "scope": "session"}})
        assert read(spec, json.dumps({"total": total}), before=SessionTotals(tokens=before)).tokens == new

    def test_text_tools_are_read_by_lines(self) -> None:
        reads = {
            "format": "text",
            "tokens": {"pattern": r"^Tokens: (?P<a>\S+) in, (?P<b>\S+) out", "scope": "sum"},
            "cost_usd": {"pattern": r"^Cost: \$(?P<cost>[\d.]+)"},
        }
        text = "Tokens: 1.5k in, 1,020 out\nNote: Cost: $99\nCost: $0.10\nTokens: 1 in, 2 out\nCost: $0.30\n"
        said = read(agent(reads=reads), text)
        assert (said.tokens, said.cost_usd, said.text) == (2523, 0.3, text)
        assert read(agent(reads=reads), "Tokens: lots in, 3 out").tokens is None


class TestOutcomes:
    def test_an_error_with_the_word_success_is_an_error_and_its_cost_counts(self) -> None:
        said = read(RESULT, result(subtype="success", failed=True, text="Overloaded", cost=0.5))
        assert (said.outcome, said.error, said.cost_usd) == (TurnOutcome.CRASHED, "Overloaded", 0.5)

    def test_no_result_is_unreadable_and_a_bad_exit_code_is_a_crash(self) -> None:
        said = read(RESULT, '{"type": "event"}\nhello\n')
        assert (said.outcome, said.error) == (TurnOutcome.UNREADABLE, "its output can't be read: hello")
        assert read(RESULT, "hello", exit_code=2, stderr="oops\n").error == "exit code 2: oops"
        assert read(RESULT, result(cost=1), exit_code=2).outcome is TurnOutcome.CRASHED

    def test_denied_tools_are_told_after_everything_else(self) -> None:
        said = read(RESULT, result(denied=[{"tool": "Bash"}, {"tool": "Bash"}, {"tool": 3}]))
        assert (said.outcome, said.denied) == (TurnOutcome.TOOLS_DENIED, ("Bash", "3"))

    def test_what_was_mended_later_did_not_fail(self) -> None:
        reads = {
            "since": {"type": "step"},
            "error": {"record": {"type": "error"}, "path": "why"},
        }
        rules = [{"record": {"type": "end"}, "exit_code": [0, 1], "outcome": "done"}]
        spec = agent(reads=reads, outcomes=rules)
        step, error, end = '{"type": "step"}\n', '{"type": "error", "why": "lost"}\n', '{"type": "end"}\n'
        assert read(spec, step + error + step + end, exit_code=1).outcome is TurnOutcome.DONE
        assert read(spec, step + step + error, exit_code=0).error == "lost"

    def test_the_first_rule_that_applies_decides_and_all_of_it_must(self) -> None:
        rules = [
            {"record": {"type": "result"}, "matches": {"text": "^busy"}, "exit_code": [1], "outcome": "rate-limited"},
            {"record": {"type": "result", "code": [401, 403]}, "outcome": "not-logged-in"},
            {"error": "^no route", "outcome": "no-network"},
            {"record": {"code": "*"}, "outcome": "out-of-budget"},
        ]
        spec = agent(reads=RESULT.model_dump(mode="json", exclude_unset=True)["reads"], outcomes=rules)
        assert read(spec, result(text="\nbusy now\nso"), exit_code=1).outcome is TurnOutcome.RATE_LIMITED
        assert read(spec, result(text="busy now")).outcome is TurnOutcome.DONE
        assert read(spec, result(text="so\nbusy now"), exit_code=1).outcome is TurnOutcome.CRASHED
        assert read(spec, result(text="not busy"), exit_code=1).outcome is TurnOutcome.CRASHED
        assert read(spec, result(code=403)).outcome is TurnOutcome.NOT_LOGGED_IN
        assert read(spec, result(failed=True, why="no route to host")).outcome is TurnOutcome.NO_NETWORK
        assert read(spec, result(code=True)).outcome is TurnOutcome.OUT_OF_BUDGET

    def test_true_is_not_one(self) -> None:
        spec = agent(reads={"record": {"type": "result"}}, outcomes=[{"record": {"ok": 1}, "outcome": "crashed"}])
        assert read(spec, result(ok=True)).outcome is TurnOutcome.DONE
        assert read(spec, result(ok=1.0)).outcome is TurnOutcome.CRASHED

    @pytest.mark.parametrize(
        ("said", "seconds"),
        [
            *(("30", 30), ("2.5", 2.5), ("1.5s", 1.5), ("250ms", 0.25), ("10h20m30s", 37230), ("36m5s", 2165)),
            *(
                ("1m30s", 90),
                ("2 minutes", 120),
                ("4.5s.", 4.5),
                ("1 hr", 3600),
                ("45 secs", 45),
                ("1 millisecond", 0.001),
            ),
            *(("3 days 4 hours", 273600), ("1 day, 2 hours and 3 minutes", 93780), ("99999d", 30 * 86400)),
            *(
                ("1 millisecond", 0.001),
                ("soon", None),
                ("5 attempts", None),
                ("2 or 3 minutes", None),
                ("at 07:28", None),
                ("s", None),
            ),
            *(("Wed, 21 Oct 2026 07:28:00 GMT", 60), ("Wednesday, 21-Oct-26 07:28:00 GMT", 60)),
            *(("Wed Oct 21 07:28:00 2026", 60), ("Wed, 21 Oct 2026 09:28:00 +0200", 60)),
            *(("Tue, 20 Oct 2026 07:28:00 GMT", 0), ("Wed, 99 Oct 2026 07:28:00 GMT", None), ("Wed, soon", None)),
        ],
    )
    def test_a_time_to_wait_is_read_as_people_write_it(self, said: str, seconds: float | None) -> None:
        rule = {"stderr": "^try again in (?P<wait>.*)", "outcome": "rate-limited"}
        heard = read(agent(outcomes=[rule]), stderr=f"try again in {said}", exit_code=1, now=1792567620.0)
        assert heard.retry_after == seconds
        assert seconds is None or heard.outcome is TurnOutcome.RATE_LIMITED

    @given(st.text(max_size=60) | st.from_regex(r"(Mon|Sunday),? [\w :+-]{0,40}", fullmatch=True))
    def test_any_text_is_a_wait_or_none(self, text: str) -> None:
        wait = seconds_in(text, 0.0)
        assert wait is None or 0 <= wait <= 30 * 86400

    def test_a_time_of_day_to_wait_for_needs_a_clock(self) -> None:
        events = [
            {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1_795_000_600}},
            {"type": "result", "is_error": True, "api_error_status": 429, "result": "You've hit your limit"},
        ]
        text = "\n".join(json.dumps(event) for event in events)
        claude = presets()["claude"]
        assert read(claude, text, exit_code=1, now=1_795_000_000.0).retry_after == 600
        assert read(claude, text, exit_code=1, now=1_795_001_000.0).retry_after == 0
        assert read(claude, text, exit_code=1).retry_after is None
        allowed = text.replace("rejected", "allowed")
        assert read(claude, allowed, exit_code=1, now=1_795_000_000.0).retry_after is None
        limit = allowed.replace('"api_error_status": 429', '"x": 1')
        said = read(claude, limit, exit_code=1, now=1_795_000_000.0)
        assert (said.outcome, said.retry_after) == (TurnOutcome.RATE_LIMITED, None)
        old = json.dumps({"type": "result", "is_error": True, "result": "Claude AI usage limit reached|1795000060"})
        assert read(claude, old, exit_code=1, now=1_795_000_000.0).retry_after == 60


def test_old_journals_are_read() -> None:
    turn = TurnEvidence.model_validate_json('{"agent": "a", "outcome": "failed"}')
    assert turn.outcome is TurnOutcome.CRASHED


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
keys = st.sampled_from(["type", "result", "error", "is_error", "usage", "session_id", "part", "info", "cost_usd", "x"])
documents = st.dictionaries(keys, json_values | st.sampled_from(["result", "turn.completed", "error"]), max_size=8)
texts = st.lists(st.text(max_size=80) | documents.map(json.dumps), max_size=8).map("\n".join)


@settings(deadline=None)
@given(
    name=st.sampled_from(["", *preset_names()]),
    stdout=texts,
    stderr=texts,
    output_file=texts,
    exit_code=st.none() | st.integers(-15, 255),
    before=st.builds(SessionTotals, st.floats(0, 10), st.integers(0, 1000), st.integers(0, 10)),
    any_exit_code=st.booleans(),
)
def test_any_output_is_read_as_something_sane(name: str, **given: Any) -> None:
    said = read_transcript(presets()[name] if name else PLAIN, now=1e9, **given)
    assert isinstance(said.outcome, TurnOutcome)
    assert said.cost_usd is None or 0 <= said.cost_usd < 1e12
    assert said.tokens is None or 0 <= said.tokens < 1e12
    assert said.calls >= 1
    assert said.retry_after is None or 0 <= said.retry_after <= 30 * 86400
    assert len(said.error) <= 300
    assert len(said.question) <= 2000
    assert len(said.denied) <= 50
    assert said.outcome is not TurnOutcome.ASKED or said.question
    assert "\n" not in said.error + said.question + (said.session_id or "")


#: Text has no end that could be missed.
RECORD_TOOLS = [tool for tool, preset in presets().items() if preset.reads and preset.reads.format == "json"]


@settings(deadline=None, max_examples=60)
@given(name=st.sampled_from([(tool, case) for tool in RECORD_TOOLS for case in recorded(tool)]), data=st.data())
def test_records_that_were_cut_off_anywhere_are_never_a_success_with_a_wrong_figure(
    name: tuple[str, str], data: st.DataObject
) -> None:
    recording = Recording.read(*name)
    whole = read_transcript(
        presets()[name[0]], stdout=recording.stdout, stderr=recording.stderr, output_file="", exit_code=0
    )
    end = data.draw(st.integers(0, len(recording.stdout)))
    cut = read_transcript(
        presets()[name[0]], stdout=recording.stdout[:end], stderr=recording.stderr, output_file="", exit_code=0
    )
    if cut.outcome is TurnOutcome.DONE:
        assert whole.outcome is TurnOutcome.DONE
        assert (cut.cost_usd, cut.tokens, cut.calls) == (whole.cost_usd, whole.tokens, whole.calls)
