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

POOL = "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='x', port=443): Max retries exceeded with url: /"


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
        ("requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: http://x", "rate_limit"),
        ("HTTP 429 Too Many Requests", "rate_limit"),
        ("httpx.HTTPStatusError: Client error '429 Too Many Requests' for url 'http://x'", "rate_limit"),
        ("AxiosError: Request failed with status code 429", "rate_limit"),
        ("openai.RateLimitError: Error code: 429 - {'error': {'code': 'rate_limit_exceeded'}}", "rate_limit"),
        ("anthropic.RateLimitError: Error code: 429", "rate_limit"),
        ("RateLimitError: 429 You exceeded your current quota", "rate_limit"),
        ("litellm.RateLimitError: RateLimitError: OpenAIException - too much", "rate_limit"),
        ("google.genai.errors.ClientError: 429 RESOURCE_EXHAUSTED. {'error': 1}", "rate_limit"),
        ("Rate limit reached for model in organization on requests per min.", "rate_limit"),
        ("⚠️ Rate limit exceeded: try again in 20s", "rate_limit"),
        ("urllib.error.HTTPError: HTTP Error 429: Too Many Requests", "rate_limit"),
        ("openai.APIConnectionError: Connection error.", "network"),
        ("[API Error: Connection error.]", "network"),
        ("curl: (7) Failed to connect to localhost port 1 after 0 ms: Connection refused", "network"),
        ("curl: (7) Failed to connect to localhost port 1 after 0 ms: Could not connect to server", "network"),
        ("fatal: unable to access 'https://x/': Could not resolve host: x", "network"),
        ("fatal: unable to access 'https://x/': Failed to connect to x port 443: Connection refused", "network"),
        ("ssh: connect to host x port 22: Connection refused", "network"),
        ("TypeError: fetch failed", "network"),
        ("[cause]: Error: connect ECONNREFUSED ::1:1", "network"),
        ("Error: getaddrinfo ENOTFOUND localhost", "network"),
        (f"{POOL} (Caused by NewConnectionError('<...>: Failed to …: [Errno 111] Connection refused'))", "network"),
        (f"{POOL} (Caused by ConnectTimeoutError(<...>, 'Connection to x timed out.'))", "timeout"),
        ("requests.exceptions.ConnectionError: ('Connection aborted.', ConnectionResetError(104, 'reset'))", "timeout"),
        ("curl: (28) Operation timed out after 5000 milliseconds", "timeout"),
        ("[cause]: ConnectTimeoutError: Connect Timeout Error", "timeout"),
        ("503 Server Error: Service Unavailable for url: http://x", "service_unavailable"),
        ("openai.InternalServerError: Error code: 503 - upstream connect error", "service_unavailable"),
        ("aiohttp.client_exceptions.ClientResponseError: 503, message='', url='http://x'", "service_unavailable"),
        ("Overloaded", "service_unavailable"),
        ("500 Server Error: Internal Server Error for url", "api_error"),
        ("API Error: 500 Internal server error. This is a server-side issue, usually temporary", "api_error"),
        ("HTTP/1.1 520 Web Server Returned an Unknown Error", "api_error"),
        ("InternalServerError: 500 status code (no body)", "api_error"),
        ("401 Client Error: Unauthorized for url: x", "auth"),
        ("401 Client Error", "auth"),
        ("401 Unauthorized", "auth"),
        ("HTTP 401", "auth"),
        ("status code 401", "auth"),
        ("Unauthorized", "auth"),
        ("Error: Invalid API key.", "auth"),
        ("Invalid API key. Please run /login", "auth"),
        ("anthropic.BadRequestError: Error code: 413 - {}", "validation"),
        ("openai.AuthenticationError: no key", "auth"),
        ("AuthenticationError: 401 Incorrect API key provided", "auth"),
        ("fatal: unable to access 'https://x/': The requested URL returned error: 403", "auth"),
        ("Killed", "resource_exhausted"),
        ("Timeout is set to 5", "unknown"),
        ("I could not do it: error, error, error", "unknown"),
        ("the service said that no space left on device was not the problem", "unknown"),
        ("500 lines were changed", "unknown"),
        ("404 of 500 tests pass", "unknown"),
        ("Unauthorized requests now get a 401, as the task asks.", "unknown"),
        ("Summary: Unauthorized", "unknown"),
        ("Summary: RateLimitError: is handled", "unknown"),
        ("- Unauthorized", "unknown"),
        ("Invalid API key. The client tells so now", "unknown"),
        ("Not logged in users are redirected now", "unknown"),
        ("AuthenticationError: raised for a wrong password", "unknown"),
        ("HTTP 401: mended", "unknown"),
        ("HTTP 401 responses are tested now", "unknown"),
        ("status code 404 is given for a missing page", "unknown"),
        ("Error: 404 links are broken", "unknown"),
        ("error: 403 lines changed", "unknown"),
        ("Status: 500 tests passed", "unknown"),
        ("503 Service Unavailable is retried now", "unknown"),
        ("Overloaded methods are resolved now.", "unknown"),
        ("Overloaded: both methods", "unknown"),
        ("Killed mutants: 3 of 3", "unknown"),
        ("Killed: 3 of 3 mutants", "unknown"),
        ("Rate limited endpoint: done", "unknown"),
        ("Connection refused errors are retried", "unknown"),
        ("Fixed: Connection refused", "unknown"),
        ("ECONNREFUSED handled.", "unknown"),
        ("[Errno 28] is told", "unknown"),
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


def test_an_exception_of_its_own_says_that_it_was_nothing_that_was_printed_before() -> None:
    before = ("429 Too Many Requests", "command not found: ls")
    raised = ("RuntimeError: editor lost its buffer", '  File "agent.py", line 3, in <module>', *before)
    assert kind_of(turn().model_copy(update={"last_words": raised})) == "unknown"
    assert kind_of(turn().model_copy(update={"last_words": ("acme.EditorError", *before)})) == "unknown"
    assert kind_of(turn(error="EditorError: no buffer").model_copy(update={"last_words": before})) == "unknown"
    # This one says only that another program failed, whose own words come before.
    ran = ("subprocess.CalledProcessError: Command '['curl']' returned non-zero exit status 22.", *before)
    assert kind_of(turn().model_copy(update={"last_words": ran})) == "rate_limit"
    # What could not be started is told by the run, not by the agent.
    assert kind_of(turn().model_copy(update={"last_words": before[1:]})) == "unknown"


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
        ([failure("Failed", "Failed: Timeout (>1.0s) from pytest-timeout.")], "timeout"),
        ([failure("Failed", "Timeout >1.0s")], "timeout"),
        ([failure("Failed", "Failed: DID NOT RAISE")], "assertion"),
        ([failure("Failed", "Failed: Timeout (30s) banner is missing")], "assertion"),
        ([failure("Failed", "Failed: Timeout >5s is not honoured")], "assertion"),
        ([failure("AssertionError", "Timeout > 5 is not honoured\nassert False")], "assertion"),
        ([failure("AssertionError", "Timeout (>1.0s) from pytest-timeout.")], "assertion"),
        ([failure("ModuleNotFoundError", phase="collect"), failure(), failure()], "import"),
        ([failure("ModuleNotFoundError"), failure(), failure()], "assertion"),
        ([failure("ModuleNotFoundError", phase="setup"), failure(), failure()], "assertion"),
        ([failure("SyntaxError"), failure("TypeError"), failure("TypeError")], "type"),
        ([failure("SyntaxError")], "syntax"),
        ([failure("SyntaxError", phase="collect"), failure("ModuleNotFoundError")], "syntax"),
        ([failure("RuntimeError", "RuntimeError: no", phase="collect")], "collection"),
        ([failure("AssertionError", "no", phase="collect")], "collection"),
        ([failure("OSError", "OSError: [Errno 28] No space left on device")], "resource_exhausted"),
        ([failure("OSError", "OSError: [Errno 24] Too many open files")], "resource_exhausted"),
        ([failure("OSError", "OSError: [Errno 2] No such file")], "unknown"),
        ([failure("URLError", "URLError: <urlopen error [Errno 111] Connection refused>")], "network"),
        ([failure("OSError", "OSError: parse: [Errno 28] is not shown")], "unknown"),
        ([failure("OSError", "parse: [Errno 28] No space left on device")], "unknown"),
        ([failure("OSError", "[Errno 28] No space left on device")], "resource_exhausted"),
        ([failure("ConnectionError", f"{POOL} (Caused by NewConnectionError('<...>: Failed'))")], "network"),
        ([failure("gaierror", "socket.gaierror: [Errno -2] Name or service not known")], "network"),
        ([failure("gaierror", "[Errno -3] Temporary failure in name resolution")], "network"),
        ([failure("socket.gaierror", "no such host")], "network"),
        ([failure("gaierror", "acme.gaierror: no such host")], "unknown"),
        ([failure("acme.gaierror", "no such host")], "unknown"),
        ([failure("ConnectionRefusedError", "acme.ConnectionRefusedError: by the host")], "unknown"),
        ([failure("NewConnectionError", "urllib3.exceptions.NewConnectionError: no")], "network"),
        ([failure("MyTimeout", "acme.MyTimeout: late")], "timeout"),
        ([failure("acme.LockTimeoutError", "late")], "timeout"),
        ([failure("InvoiceAssertionError", "acme.InvoiceAssertionError: no")], "assertion"),
        ([failure("PluginImportError", "acme.PluginImportError: no")], "import"),
        ([failure("MemoryError", "")], "resource_exhausted"),
        ([failure("ConnectionRefusedError"), failure("ConnectionRefusedError")], "network"),
        ([failure("ConnectionRefusedError"), failure("ConnectionRefusedError"), failure()], "assertion"),
        ([failure("ValueError"), failure("ValueError"), failure()], "unknown"),
        ([failure("DocTestFailure", "")], "assertion"),
        ([failure("", "worker 'gw0' crashed while running 'test_a.py::test_b'")], "crash"),
        ([failure("", "worker 'gw0' crashed while running 'test_a.py::test_b'"), failure()], "crash"),
        ([failure("", "the worker 'gw0' crashed while running on")], "unknown"),
        ([failure("AssertionError", "worker 'gw0' crashed while running 'test_a.py::test_b'")], "assertion"),
    ],
)
def test_exception_types_and_error_numbers_say_what_it_was(failures: list[Failure], kind: str) -> None:
    assert kind_of_suite(suite(*failures)) == kind


def test_a_crash_that_names_its_reason_is_that() -> None:
    crashed = suite(failure("SyntaxError", phase="session"), outcome=Outcome.CRASHED)
    assert kind_of_suite(crashed) == "syntax"
    assert kind_of_suite(suite(failure("SyntaxError"), outcome=Outcome.CRASHED)) == "crash"  # a test that ran before
    text = failure("", "pytest did not start", output="OSError: [Errno 28] No space left on device", phase="session")
    assert kind_of_suite(suite(text, outcome=Outcome.CRASHED)) == "resource_exhausted"
    late = "crashed in t.py::test_a: ended by pytest-timeout"
    ended = suite(failure("", late, phase="session"), outcome=Outcome.CRASHED, exit_code=1, reason=late)
    assert of_suite(ended) == Analysis("timeout", "test", late)
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
