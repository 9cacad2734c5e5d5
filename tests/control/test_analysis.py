"""What kind of failure it was: by how it ended, by types and numbers, and by words only where they begin a line."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.control.analysis import analysis_of
from pytest_iterctl.control.error_types import ERROR_TYPES, Analysis, ErrorType
from pytest_iterctl.control.evidence import Counts, Failure, Outcome, ReviewEvidence, SuiteEvidence, TurnEvidence
from pytest_iterctl.control.evidence import TurnOutcome as Turn
from pytest_iterctl.control.failed_suite import of_suite
from pytest_iterctl.control.failed_turn import of_turn
from pytest_iterctl.control.state import Attempt


def turn(outcome: Turn = Turn.CRASHED, *, code: int | None = 1, error: str = "") -> TurnEvidence:
    return TurnEvidence(agent="coder", outcome=outcome, exit_code=code, error=error)


def kind_of(evidence: TurnEvidence) -> str:
    found = of_turn(evidence, "generate")
    return found.error_type if found is not None else ""


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (Turn.RATE_LIMITED, "rate_limit"),
        (Turn.NO_NETWORK, "network"),
        (Turn.NOT_LOGGED_IN, "auth"),
        (Turn.TIMED_OUT, "timeout"),
        (Turn.UNREADABLE, "api_error"),
        (Turn.SERVICE_FAILED, "api_error"),
        (Turn.DONE, ""),
        (Turn.ASKED, ""),
        (Turn.TOOLS_DENIED, ""),
        (Turn.LIMIT, ""),
        (Turn.STOPPED, ""),
    ],
)
def test_how_a_turn_ended_decides_before_all_else(outcome: Turn, kind: str) -> None:
    assert kind_of(turn(outcome, code=137, error="Error: 503 Service Unavailable")) == kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("Error: 503 Service Unavailable", "service_unavailable"),
        ('API Error: 529 {"type":"overloaded_error"}', "service_unavailable"),
        ("HTTP/1.1 500", "api_error"),
        ("HTTPStatusError: status code 429", "rate_limit"),
        ("429 Too Many Requests", "rate_limit"),
        ("Rate limit reached for requests", "rate_limit"),
        ("status: 401", "auth"),
        ("error code: 403", "auth"),
        ("status 404", "validation"),
        ("OSError: [Errno 28] No space left on device: 'x'", "resource_exhausted"),
        ("[Errno 24] Too many open files", "resource_exhausted"),
        ("FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory", "resource_exhausted"),
        ("Error: connect ECONNREFUSED 127.0.0.1:1", "network"),
        ("curl: (6) Could not resolve host: api.example", "network"),
        ("ECONNREFUSED 127.0.0.1:1", "network"),
        ("ConnectionResetError: [Errno 104] Connection reset by peer", "timeout"),
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution", "network"),
        ("httpx.ConnectError: [Errno 111] Connection refused", "network"),
        ("urllib.error.URLError: <urlopen error [Errno 111] Connection refused>", "network"),
        ("TimeoutError: timed out", "timeout"),
        ("requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='x', port=443)", "timeout"),
        ("openai.APITimeoutError: Request timed out.", "timeout"),
        ("curl: (22) The requested URL returned error: 503", "service_unavailable"),
        ("curl: (22) The requested URL returned error: 429", "rate_limit"),
        ("Timeout is set to 5", "unknown"),
        ("I could not do it: error, error, error", "unknown"),
        ("the service said that no space left on device was not the problem", "unknown"),
        ("500 lines were changed", "unknown"),
        ("404 of 500 tests pass", "unknown"),
        ("", "unknown"),
    ],
)
def test_words_count_only_where_a_line_begins_with_them(error: str, kind: str) -> None:
    assert kind_of(turn(error=error)) == kind
    assert kind_of(turn(error=f"something else first\n  {error}")) == kind


def test_what_it_said_last_is_asked_where_the_reason_says_nothing() -> None:
    said = ("    at main (cli.js:3:1)", "Error: connect ECONNREFUSED 127.0.0.1:1", "429 Too Many Requests")
    crashed = turn(error="exit code 1: at main (cli.js:3:1)").model_copy(update={"last_words": said})
    assert kind_of(crashed) == "network"
    assert kind_of(crashed.model_copy(update={"error": "503 Service Unavailable"})) == "service_unavailable"
    assert kind_of(crashed.model_copy(update={"last_words": said[:1]})) == "unknown"
    assert kind_of(crashed.model_copy(update={"outcome": Turn.TIMED_OUT})) == "timeout"


@pytest.mark.parametrize(
    ("code", "error", "kind"),
    [
        (127, "", "validation"),
        (126, "", "validation"),
        (64, "", "validation"),
        (None, "command not found: my-agent: No such file or directory", "validation"),
        (None, "its supervisor was killed", "unknown"),
        (137, "", "resource_exhausted"),
        (-9, "", "resource_exhausted"),
        (-11, "", "crash"),
        (1, "", "unknown"),
        (None, "", "unknown"),
    ],
)
def test_exit_codes_decide_where_no_words_do(code: int | None, error: str, kind: str) -> None:
    assert kind_of(turn(code=code, error=error)) == kind


def failure(kind: str = "AssertionError", message: str = "assert 1 == 2", **more: object) -> Failure:
    given = {"test": "t.py::test_a", "kind": kind, "message": message, **more}
    return Failure.model_validate(given)


def suite(*failures: Failure, outcome: Outcome = Outcome.FAILED, **more: object) -> SuiteEvidence:
    ids = tuple(dict.fromkeys(each.test for each in failures))
    given = {"outcome": outcome, "failures": failures, "failing": ids, "counts": Counts(tests=9), **more}
    return SuiteEvidence.model_validate(given)


def kind_of_suite(evidence: SuiteEvidence) -> str:
    found = of_suite(evidence)
    return found.error_type if found is not None else ""


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (Outcome.PASSED, ""),
        (Outcome.TIMED_OUT, "timeout"),
        (Outcome.USAGE_ERROR, "validation"),
        (Outcome.NO_TESTS, "validation"),
        (Outcome.CRASHED, "crash"),
        (Outcome.NO_REPORT, "crash"),
        (Outcome.INCOMPLETE, "crash"),
        (Outcome.COLLECTION_ERROR, "collection"),
        (Outcome.FAILED, "unknown"),
    ],
)
def test_the_outcome_of_a_run_decides_first(outcome: Outcome, kind: str) -> None:
    assert kind_of_suite(suite(outcome=outcome)) == kind


@pytest.mark.parametrize(
    ("failures", "kind"),
    [
        ([failure()], "assertion"),
        ([failure("TypeError", "TypeError: no")], "type"),
        ([failure("builtins.AttributeError")], "type"),
        ([failure("Failed", "Failed: Timeout >1.0s")], "timeout"),
        ([failure("Failed", "Failed: DID NOT RAISE")], "assertion"),
        ([failure("ModuleNotFoundError"), failure(), failure()], "import"),
        ([failure("SyntaxError", phase="collect"), failure("ModuleNotFoundError")], "syntax"),
        ([failure("RuntimeError", "RuntimeError: no", phase="collect")], "collection"),
        ([failure("AssertionError", "no", phase="collect")], "collection"),
        ([failure("OSError", "OSError: [Errno 28] No space left on device")], "resource_exhausted"),
        ([failure("OSError", "OSError: [Errno 24] Too many open files")], "resource_exhausted"),
        ([failure("OSError", "OSError: [Errno 2] No such file")], "unknown"),
        ([failure("URLError", "URLError: <urlopen error [Errno 111] Connection refused>")], "network"),
        ([failure("MemoryError", "")], "resource_exhausted"),
        ([failure("ConnectionRefusedError"), failure("ConnectionRefusedError")], "network"),
        ([failure("ConnectionRefusedError"), failure("ConnectionRefusedError"), failure()], "assertion"),
        ([failure("ValueError"), failure("ValueError"), failure()], "unknown"),
        ([failure("DocTestFailure", "")], "assertion"),
        ([failure("", "worker 'gw0' crashed while running 'test_a.py::test_b'")], "crash"),
        ([failure("", "worker 'gw0' crashed while running 'test_a.py::test_b'"), failure()], "crash"),
        ([failure("", "the worker 'gw0' crashed while running on")], "unknown"),
    ],
)
def test_exception_types_and_error_numbers_say_what_it_was(failures: list[Failure], kind: str) -> None:
    assert kind_of_suite(suite(*failures)) == kind


def test_a_crash_that_names_its_reason_is_that() -> None:
    crashed = suite(failure("SyntaxError", phase="session"), outcome=Outcome.CRASHED)
    assert kind_of_suite(crashed) == "syntax"
    text = failure("", "pytest did not start", output="OSError: [Errno 28] No space left on device", phase="session")
    assert kind_of_suite(suite(text, outcome=Outcome.CRASHED)) == "resource_exhausted"
    assert kind_of_suite(suite(outcome=Outcome.CRASHED, exit_code=-9)) == "resource_exhausted"
    assert kind_of_suite(suite(outcome=Outcome.CRASHED, exit_code=-11)) == "crash"


def test_only_where_every_failure_is_intermittent_is_it_flaky() -> None:
    one, other = failure(test="a"), failure(test="b")
    assert kind_of_suite(suite(one, other, intermittent=("a", "b"))) == "flaky"
    assert kind_of_suite(suite(one, other, intermittent=("a",))) == "assertion"


def test_an_iteration_is_what_failed_in_it_last() -> None:
    crashed, red = turn(error="503 Service Unavailable"), suite(failure())
    assert analysis_of(Attempt(1)) is None
    assert analysis_of(Attempt(1, turns=(crashed,))) == Analysis("service_unavailable", "generate", "status 503")
    done = turn(Turn.DONE, code=0)
    found = analysis_of(Attempt(1, turns=(crashed, done), suite=red))
    assert found is not None
    assert (found.error_type, found.stage) == ("assertion", "test")
    review = ReviewEvidence(reviewer="critic", status="approve")
    green = SuiteEvidence(outcome=Outcome.PASSED)
    failed = Attempt(1, turns=(done,), suite=green, reviews=(review,), review_turns=(done, turn(Turn.TIMED_OUT)))
    found = analysis_of(failed)
    assert found is not None
    assert (found.error_type, found.stage) == ("timeout", "review")
    assert analysis_of(Attempt(1, turns=(done,), suite=green, reviews=(review,), review_turns=(done,))) is None


@pytest.mark.parametrize("kind", ERROR_TYPES)
def test_every_type_says_what_follows_from_it(kind: ErrorType) -> None:
    found = Analysis(kind, "test", "")
    assert found.severity in {"critical", "high", "medium", "low"}
    assert found.actions
    transient = {
        *("timeout", "rate_limit", "api_error", "service_unavailable", "network"),
        *("resource_exhausted", "partial_failure", "non_critical_error"),
    }
    assert found.transient is (kind in transient)


@given(st.text(max_size=400), st.one_of(st.none(), st.integers(-64, 255)))
def test_any_text_is_some_kind_of_failure(text: str, code: int | None) -> None:
    found = of_turn(turn(code=code, error=text), "generate")
    assert found is not None
    assert found.error_type in ERROR_TYPES


def test_ten_thousand_failures_are_read_at_once() -> None:
    many = [
        failure("OSError", f"OSError: [Errno 2] {'x' * 3000} {number}", test=f"t{number}") for number in range(10_000)
    ]
    evidence = suite(*many)
    began = time.perf_counter()
    assert kind_of_suite(evidence) == "unknown"
    assert time.perf_counter() - began < 60  # only that it ends; benchmarks measure it
