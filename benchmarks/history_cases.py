"""Ten failure histories for each type of error: other stages, messages, exit codes, tools and numbers of repetitions.

Each is what really happens: connections are refused and reset, memory and files run out, modules are missing, processes
die. The messages of agents are those that their libraries and tools print about it; the answers of known
tools are recordings of them. The first history of each type is quick, for runs that only show that this works.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from histories import BROKEN, FIXED, TESTS, Answer, History

__all__ = ["NOT_MADE", "histories"]

#: Types that no run comes to, and why.
NOT_MADE: Mapping[str, str] = {
    "partial_failure": "no stage is optional in this version",
    "non_critical_error": "no stage is optional in this version",
}
_RECORDINGS = Path(__file__).parents[1] / "tests" / "kit" / "recordings"
_ONCE_MORE = "mend('# once more\\n')"
_SOON = {"timeout": "1s", "test_timeout": "30s"}
_OK = Answer()
#: A reviewer that ends with 1 rejects, so one that can't go on says so with another exit code (sysexits.h).
_WITH_CODE_70 = "import traceback\ntry:\n    {part}\nexcept Exception:\n    traceback.print_exc()\n    sys.exit(70)\n"


def histories() -> list[History]:
    """All of them, those of one type together."""
    makers = (
        *(_timeout, _rate_limit, _api_error, _service_unavailable, _network, _resource_exhausted),
        *(_auth, _validation, _collection, _import, _syntax, _assertion, _type, _crash, _flaky, _unknown),
    )
    return [history for make in makers for history in make()]


def _recorded(tool: str, case: str) -> str:
    return f"played({str(_RECORDINGS / tool / f'{case}.json')!r})"


def _preset(tool: str) -> dict[str, object]:
    """How the tool's output is read; what is started is not the tool itself."""
    return {"preset": tool, "prompt": "stdin"}


# ── what goes away by itself ─────────────────────────────────────────────────────────────────────────────────────────


def _timeout() -> Iterator[History]:
    kind, more = "timeout", ("aggressive-timeout",)
    slow = "time.sleep({seconds}); mend()"
    reset = Answer(how="reset")
    yield History(
        *(kind, "the connection is reset once, its library says so", "agent"),
        ("ask(); mend()",),
        answers=(reset, _OK),
        follows=more,
    )
    yield History(
        kind,
        "a model that takes half as long again",
        "agent",
        (slow.format(seconds=1.5),),
        settings=_SOON,
        follows=more,
    )
    yield History(
        *(kind, "a model that takes three times as long", "agent"),
        (slow.format(seconds=3),),
        settings=_SOON,
        follows=more * 2,
    )
    yield History(
        *(kind, "the service does not answer in the library's time", "agent"),
        ("ask(0.3); mend()",),
        answers=(Answer(delay=0.6), _OK),
        follows=more,
    )
    yield History(
        *(kind, "Node's name for a reset, twice", "agent"),
        ("sys.exit('Error: read ECONNRESET')", "sys.exit('Error: connect ETIMEDOUT 127.0.0.1:443')", "mend()"),
        follows=more * 2,
    )
    yield History(
        *(kind, "a slow suite, mended", "tests"),
        ("mend()", _ONCE_MORE),
        files={"test_calc.py": _after_mending("    time.sleep(3)\n", "import time\n")},
        settings={"test_timeout": "2s"},
        follows=more,
    )
    yield History(
        *(kind, "a test that hangs until the loop is taken out", "tests"),
        ("write('calc.py', 'def double(number):\\n    while number:\\n        pass\\n    return 0\\n')", "mend()"),
        settings={"test_timeout": "2s"},
        follows=more,
    )
    yield History(
        *(kind, "pytest-timeout ends a test that first fills its cache", "tests"),
        ("mend()", _ONCE_MORE),
        files={"test_calc.py": _after_mending(_first_time("time.sleep(20)"), "import pathlib, time\n")},
        tests=("-p", "pytest_timeout", "--timeout", "1"),
        follows=more,
    )
    yield History(
        *(kind, "another runner waits for a lock that is given back later", "tests"),
        ("mend()", _ONCE_MORE),
        files={"test_calc.py": _after_mending(_first_time("time.sleep(20)"), "import pathlib, time\n")},
        by="other",
        settings={"test_timeout": "1s"},
        follows=more,
    )
    yield History(
        *(kind, "a reviewer that takes half as long again", "reviewer"),
        reviewer=("time.sleep(1.5); approve()",),
        settings=_SOON,
        follows=more,
    )


def _rate_limit() -> Iterator[History]:
    kind, other = "rate_limit", ("fallback-providers",)
    wait = Answer(429, "Too Many Requests", ("Retry-After: 1",), '{"error": "rate_limit_exceeded"}')
    now = Answer(429, "Too Many Requests")
    yield History(
        *(kind, "429 for ever, another agent is there", "agent"),
        ("told_by('report'); mend()",),
        ("mend()",),
        answers=(now,),
        follows=other,
    )
    yield History(
        *(kind, "429 with Retry-After: it waits that long", "agent"),
        ("told_by('report'); mend()",),
        answers=(wait, _OK),
        follows=("default",),
    )
    yield History(
        *(kind, "a traceback of urllib, twice", "agent"),
        ("ask(); mend()",),
        answers=(now, now, _OK),
        follows=("default", "default"),
    )
    yield History(
        *(kind, "as the libraries of two services word it", "agent"),
        (
            "told_by(\"openai.RateLimitError: Error code: {code} - {{'error': {{'code': 'rate_limit_exceeded'}}}}\")",
            "told_by('Rate limit reached for model in organization on requests per min.')",
            "mend()",
        ),
        answers=(now,),
        follows=("default", "default"),
    )
    yield History(
        *(kind, "an exit code that the plan knows", "agent"),
        ("sys.exit(75)",),
        ("mend()",),
        spec={"outcomes": [{"exit_code": [75], "outcome": "rate-limited"}]},
        follows=other,
    )
    for tool in ("claude", "codex", "gemini", "goose"):
        yield History(
            *(kind, f"what {tool} printed", "agent"),
            (_recorded(tool, "rate-limited"),),
            ("mend()",),
            spec=_preset(tool),
            follows=other,
        )
    yield History(
        *(kind, "a reviewer that has to wait", "reviewer"),
        reviewer=("told_by('report'); approve()",),
        answers=(wait, _OK),
        follows=("default",),
    )


def _api_error() -> Iterator[History]:
    kind, other = "api_error", ("fallback-providers",)
    fault = Answer(500, "Internal Server Error", body='{"error": {"type": "api_error", "message": "oops"}}')
    yield History(
        *(kind, "500 for ever, another agent is there", "agent"),
        ("told_by('report'); mend()",),
        ("mend()",),
        answers=(fault,),
        follows=other,
    )
    yield History(kind, "500 once", "agent", ("told_by('report'); mend()",), answers=(fault, _OK), follows=("default",))
    yield History(
        *(kind, "a traceback of urllib, twice", "agent"),
        ("ask(); mend()",),
        answers=(fault, fault, _OK),
        follows=("default", "default"),
    )
    yield History(
        *(kind, "an error by its status, as a library words it", "agent"),
        ("told_by('anthropic.InternalServerError: Error code: {code} - {body}'); mend()",),
        ("mend()",),
        answers=(fault,),
        follows=other,
    )
    yield History(
        *(kind, "a service that has no words but a status", "agent"),
        ("told_by('HTTP/1.1 {code} {reason}'); mend()",),
        answers=(Answer(520, "Web Server Returned an Unknown Error"), _OK),
        follows=("default",),
    )
    for tool, case in (("opencode", "server-error"), ("claude", "stream-server-error"), ("goose", "server-error")):
        yield History(
            *(kind, f"what {tool} printed", "agent"),
            (_recorded(tool, case),),
            ("mend()",),
            spec=_preset(tool),
            follows=other,
        )
    yield History(
        *(kind, "a record that is cut off", "agent"),
        (_recorded("cursor", "cut-off"),),
        ("mend()",),
        spec=_preset("cursor"),
        follows=other,
    )
    yield History(
        *(kind, "a reviewer whose service has a fault", "reviewer"),
        reviewer=("told_by('report'); approve()",),
        answers=(fault, _OK),
        follows=("default",),
    )


def _service_unavailable() -> Iterator[History]:
    kind, other = "service_unavailable", ("fallback-providers",)
    down = Answer(503, "Service Unavailable")
    yield History(
        *(kind, "503 for ever, another agent is there", "agent"),
        ("told_by('report'); mend()",),
        ("mend()",),
        answers=(down,),
        follows=other,
    )
    yield History(kind, "503 once", "agent", ("told_by('report'); mend()",), answers=(down, _OK), follows=("default",))
    yield History(
        *(kind, "502, then 504, then there", "agent"),
        ("ask(); mend()",),
        answers=(Answer(502, "Bad Gateway"), Answer(504, "Gateway Time-out"), _OK),
        follows=("default", "default"),
    )
    yield History(
        *(kind, "529, as a service says that it has too much to do", "agent"),
        ("told_by('report'); mend()",),
        ("mend()",),
        answers=(Answer(529, "Overloaded"),),
        follows=other,
    )
    yield History(
        *(kind, "a proxy's page, by its title", "agent"),
        ("told_by('{code} {reason}'); mend()",),
        answers=(down, _OK),
        follows=("default",),
    )
    yield History(
        *(kind, "as a library words it", "agent"),
        ("told_by('openai.InternalServerError: Error code: {code} - upstream connect error'); mend()",),
        ("mend()",),
        answers=(down,),
        follows=other,
    )
    yield History(
        *(kind, "as curl words it", "agent"),
        ("told_by('curl: (22) The requested URL returned error: {code}'); mend()",),
        ("mend()",),
        answers=(down,),
        follows=other,
    )
    yield History(
        *(kind, "in the middle of other output", "agent"),
        ("print('reading files', flush=True); told_by('tool: done\\nError: {code} {reason}'); mend()",),
        answers=(down, _OK),
        follows=("default",),
    )
    yield History(
        *(kind, "the other agent's service is down as well, and comes back", "agent"),
        ("told_by('report'); mend()",),
        ("told_by('report'); mend()",),
        answers=(down, down, _OK),
        follows=("fallback-providers", "default"),
    )
    yield History(
        *(kind, "a reviewer whose service is down", "reviewer"),
        reviewer=("told_by('report'); approve()",),
        answers=(down, _OK),
        follows=("default",),
    )


def _network() -> Iterator[History]:
    kind, other = "network", ("default", "fallback-providers")
    unknown_host = "import socket; socket.getaddrinfo('no name', 443, flags=socket.AI_NUMERICHOST)"
    yield History(
        *(kind, "refused for ever, another agent is there", "agent"),
        ("ask(); mend()",),
        ("mend()",),
        refuses=99,
        follows=other,
    )
    yield History(
        *(kind, "refused once, a traceback of urllib", "agent"),
        ("ask(); mend()",),
        refuses=1,
        settings={"backoff_initial": "300ms"},
        follows=("default",),
    )
    yield History(
        *(kind, "refused twice, the plain exception", "agent"),
        ("import socket; socket.create_connection(('127.0.0.1', port)); mend()",),
        refuses=2,
        settings={"backoff_initial": "300ms"},
        follows=("default", "default"),
    )
    yield History(kind, "a name that nobody knows", "agent", (unknown_host, "mend()"), follows=("default",))
    yield History(
        *(kind, "as Node words it", "agent"),
        ("sys.exit(f'Error: connect ECONNREFUSED 127.0.0.1:{port}')",),
        ("mend()",),
        follows=other,
    )
    for tool in ("claude", "gemini", "opencode"):
        yield History(
            *(kind, f"what {tool} printed", "agent"),
            (_recorded(tool, "no-network"),),
            ("mend()",),
            spec=_preset(tool),
            follows=other,
        )
    connect = "    with socket.create_connection(('127.0.0.1', @PORT@)):\n        pass\n"
    yield History(
        *(kind, "tests whose database comes up late", "tests"),
        ("mend()", "time.sleep(0.3); " + _ONCE_MORE),
        files={"test_calc.py": _after_mending(connect, "import socket\n")},
        refuses=2,  # the agent's two calls
        follows=("default",),
    )
    yield History(
        *(kind, "a reviewer without a network", "reviewer"),
        reviewer=(_WITH_CODE_70.format(part="ask(); approve()"),),
        refuses=2,  # the agent's call is one of them
        settings={"backoff_initial": "300ms"},
        follows=("default",),
    )


def _resource_exhausted() -> Iterator[History]:
    kind, fewer = "resource_exhausted", ("reduced-parallelism",)
    yield History(
        *(kind, "the disk is full, once", "agent"),
        ("open('/dev/full', 'w').write('x' * 100_000)", "mend()"),
        follows=fewer,
    )
    limit = "resource.setrlimit(resource.{which}, ({most}, {most})); "
    yield History(
        *(kind, "no memory is left", "agent"),
        (limit.format(which="RLIMIT_AS", most=200_000_000) + "bytearray(500_000_000)", "mend()"),
        follows=fewer,
    )
    yield History(
        *(kind, "no file handles are left, twice", "agent"),
        (*[limit.format(which="RLIMIT_NOFILE", most=20) + "[open(os.devnull) for _ in range(30)]"] * 2, "mend()"),
        follows=fewer * 2,
    )
    yield History(
        kind, "killed as the system does it", "agent", ("os.kill(os.getpid(), signal.SIGKILL)", "mend()"), follows=fewer
    )
    yield History(
        *(kind, "as Node words it, with SIGABRT", "agent"),
        (
            "os.write(2, b'FATAL ERROR: Reached heap limit - JavaScript heap out of memory\\n'); os.abort()",
            "mend()",
        ),
        follows=fewer,
    )
    workers = ("-p", "xdist", "-n", "2")
    alone = "    if 'PYTEST_XDIST_WORKER' in os.environ:\n        {what}\n"
    for name, what, more in (
        ("the disk is full where several workers share it", "open('/dev/full', 'w').write('x' * 100_000)", ""),
        (
            "memory is shared by the workers",
            "resource.setrlimit(resource.RLIMIT_AS, (10**9, 10**9)); bytearray(10**9)",
            "",
        ),
        ("sockets run out where there are several workers", "exhaust()", "exhaust"),
    ):
        head = "import os, resource\n" + (_EXHAUST if more else "")
        yield History(
            *(kind, name, "tests"),
            ("mend()", _ONCE_MORE),
            files={"test_calc.py": _after_mending(alone.format(what=what), head)},
            tests=workers,
            follows=fewer,
        )
    yield History(
        *(kind, "another runner writes more than the disk takes, once", "tests"),
        ("mend()", _ONCE_MORE),
        files={
            "test_calc.py": _after_mending(
                _first_time("open('/dev/full', 'w').write('x' * 100_000)"), "import pathlib, time\n"
            )
        },
        by="other",
        follows=fewer,
    )
    yield History(
        *(kind, "a reviewer for whom no memory is left", "reviewer"),
        reviewer=(
            _WITH_CODE_70.format(part=limit.format(which="RLIMIT_AS", most=200_000_000) + "bytearray(500_000_000)"),
            "approve()",
        ),
        follows=fewer,
    )


_EXHAUST = """

def exhaust():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 5, most))
    kept = []
    try:
        while True:
            kept.append(open(os.devnull))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for each in kept:
            each.close()

"""


def _after_mending(body: str, head: str = "") -> str:
    """Tests of which one goes through something once the product is right; before that it fails for the product."""
    first = TESTS.replace(
        "def test_one():\n    assert double(1) == 2\n", "def test_one():\n    assert double(1) == 2\n" + body
    )
    return head + first


def _first_time(what: str) -> str:
    return f"    done = pathlib.Path('@TOOLS@/once')\n    if not done.exists():\n        done.touch()\n        {what}\n"


# ── what does not ────────────────────────────────────────────────────────────────────────────────────────────────────


def _auth() -> Iterator[History]:
    kind, ends, twice = "auth", "agent-failed", ("default",)  # after the second nothing is chosen any more
    refused = Answer(401, "Unauthorized", body='{"error": {"code": "invalid_api_key"}}')
    yield History(
        *(kind, "401 for ever: a person is asked after the second", "agent"),
        ("told_by('report'); mend()",),
        answers=(refused,),
        follows=twice,
        ends=ends,
        most_calls=2,
    )
    yield History(
        *(kind, "401, another agent has a key", "agent"),
        ("told_by('report'); mend()",),
        ("mend()",),
        answers=(refused,),
        follows=("fallback-providers",),
    )
    yield History(
        *(kind, "a traceback of urllib, 403", "agent"),
        ("ask(); mend()",),
        answers=(Answer(403, "Forbidden"),),
        follows=twice,
        ends=ends,
        most_calls=2,
    )
    yield History(
        *(kind, "neither of two agents has a key", "agent"),
        ("told_by('Invalid API key. Please run /login'); mend()",),
        ("told_by('report'); mend()",),
        answers=(refused,),
        follows=("fallback-providers",),
        ends=ends,
        most_calls=2,
    )
    yield History(
        *(kind, "as a library words it", "agent"),
        ("told_by('openai.AuthenticationError: Error code: {code} - {body}'); mend()",),
        answers=(refused,),
        follows=twice,
        ends=ends,
        most_calls=2,
    )
    for tool, case in (
        ("claude", "not-logged-in"),
        ("gemini", "bad-key"),
        ("codex", "bad-key"),
        ("opencode", "bad-key"),
    ):
        yield History(
            *(kind, f"what {tool} printed, case {case}", "agent"),
            (_recorded(tool, case),),
            spec=_preset(tool),
            follows=("default",),
            ends=ends,
            most_calls=1,
        )
    yield History(
        *(kind, "a reviewer without a key", "reviewer"),
        reviewer=("told_by('report'); approve()",),
        answers=(refused,),
        ends=ends,
        most_calls=3,
        follows=("default",),
    )


def _validation() -> Iterator[History]:
    kind, ends, twice = "validation", "agent-failed", ("default",)
    wrong = Answer(400, "Bad Request", body='{"error": {"type": "invalid_request_error"}}')
    yield History(
        *(kind, "a command that a shell can't find", "agent"),
        command=("sh", "-c", "no-such-agent --fix"),
        follows=twice,
        ends=ends,
        most_calls=2,
    )
    yield History(
        *(kind, "a file that is no program", "agent"),
        command=("sh", "-c", "./calc.py"),
        follows=twice,
        ends=ends,
        most_calls=2,
    )
    yield History(
        *(kind, "an interpreter that is not there", "agent"),
        command=("@TOOLS@/agent.sh",),
        files={"../tools/agent.sh": "#!/no/such/interpreter\n"},
        follows=twice,
        ends=ends,
        most_calls=2,
    )
    yield History(
        *(kind, "options that it does not know, by sysexits.h", "agent"),
        ("sys.stderr.write('usage: agent [--fix]\\n'); sys.exit(64)",),
        follows=twice,
        ends=ends,
        most_calls=2,
    )
    yield History(
        *(kind, "a request that the service does not take", "agent"),
        ("told_by('report'); mend()",),
        answers=(wrong,),
        follows=twice,
        ends=ends,
        most_calls=2,
    )
    yield History(
        *(kind, "a model that is not there, a traceback of urllib", "agent"),
        ("ask(); mend()",),
        answers=(Answer(404, "Not Found"),),
        follows=twice,
        ends=ends,
        most_calls=2,
    )
    yield History(
        *(kind, "a prompt that is too long, as a library words it", "agent"),
        ("told_by('anthropic.BadRequestError: Error code: {code} - {body}'); mend()",),
        answers=(Answer(413, "Payload Too Large", body="{}"),),
        follows=twice,
        ends=ends,
        most_calls=2,
    )
    yield History(
        *(kind, "once wrong, then mended by somebody", "agent"),
        ("sys.exit(78)", "mend()"),
        follows=("default",),
    )
    yield History(
        *(kind, "an agent that takes all tests out of the collection", "tests"),
        (
            "write('conftest.py', 'collect_ignore_glob = [\"*\"]\\n'); mend()",
            _ONCE_MORE,
        ),
        follows=("default",),
    )
    yield History(
        *(kind, "a reviewer whose command is wrong", "reviewer"),
        command=("sh", "-c", "no-such-critic"),
        ends=ends,
        most_calls=3,
        follows=("default",),
    )


def _of_code(kind: str, name: str, *sources: str, follows: tuple[str, ...] = (), **more: object) -> History:
    """The agent writes one product after the other, and at last the right one."""
    parts = (*(f"write('calc.py', {source!r})" for source in sources), "mend()")
    then = follows or ("default",) * len(sources)
    return History(kind, name, "tests", parts, follows=then, **more)  # type: ignore[arg-type]


def _again(source: str) -> str:
    """The same failure with another change."""
    return source + "\n# tried again\n"


def _collection() -> Iterator[History]:
    kind = "collection"
    yield _of_code(kind, "a report of the import that raises", "raise RuntimeError('not configured')\n", by="command")
    yield _of_code(kind, "the import raises", "raise RuntimeError('not configured')\n" + FIXED)
    yield _of_code(kind, "a file is missing while importing", "TEXT = open('settings.json').read()\n" + FIXED)
    yield _of_code(kind, "a division while importing", "RATIO = 1 / 0\n" + FIXED)
    yield _of_code(kind, "a name that is not there while importing", "LIMIT = MAXIMUM\n" + FIXED)
    yield _of_code(kind, "an assertion while importing", "assert 1 == 2, 'never'\n" + FIXED)
    yield _of_code(kind, "a type error while importing", "TOTAL = 1 + '1'\n" + FIXED)
    yield _of_code(kind, "a value while importing", "LIMIT = int('many')\n" + FIXED)
    lacking = "import os\n\nHOST = os.environ['CALC_HOST']\n" + FIXED
    yield _of_code(
        *(kind, "a variable is missing, twice", lacking, _again(lacking)), follows=("default", "fresh-context")
    )
    yield _of_code(
        *(
            kind,
            "an enumeration that can't be made",
            "import enum\n\n\nclass E(enum.Enum):\n    A = 1\n    A = 2\n\n\n" + FIXED,
        ),
        files={"test_more.py": "import calc\n\n\ndef test_more():\n    assert calc.double(3) == 6\n"},
    )


def _import() -> Iterator[History]:
    kind = "import"
    yield _of_code(kind, "another runner: a module is missing", "import no_such_module\n" + FIXED, by="other")
    yield _of_code(kind, "a module is missing", "import no_such_module\n" + FIXED)
    yield _of_code(kind, "a name is missing in a module", "from os import no_such_name\n" + FIXED)
    yield _of_code(kind, "the product no longer has the name", "def twice(number):\n    return number * 2\n")
    yield _of_code(kind, "a submodule is missing", "import xml.no_such\n" + FIXED)
    yield _of_code(kind, "a relative import without a package", "from . import helper\n" + FIXED)
    yield _of_code(
        kind, "only when it is called", "def double(number):\n    import no_such_module\n    return number * 2\n"
    )
    circle = "from helper import twice\n\n\ndef double(number):\n    return twice(number)\n"
    yield History(
        *(kind, "two modules that import each other", "tests"),
        (
            f"write('calc.py', {circle!r}); write('helper.py', 'from calc import double\\n\\ntwice = double\\n')",
            "os.unlink('helper.py'); mend()",
        ),
        follows=("default",),
    )
    lacking = "import no_such_module\n" + FIXED
    yield _of_code(
        *(kind, "a module is missing, twice", lacking, _again(lacking)), follows=("default", "fresh-context")
    )
    yield _of_code(
        kind, "one missing module after the other", "import no_such_one\n" + FIXED, "import other_one\n" + FIXED
    )


def _syntax() -> Iterator[History]:
    kind = "syntax"
    yield _of_code(kind, "another runner: a bracket is open", "def double(number:\n    return number\n", by="other")
    yield _of_code(kind, "a bracket is open", "def double(number:\n    return number\n")
    yield _of_code(kind, "a wrong indentation", "def double(number):\nreturn number * 2\n")
    yield _of_code(kind, "tabs and blanks", "def double(number):\n        number += 1\n\treturn number\n")
    yield _of_code(kind, "a text without an end", "def double(number):\n    return 'number\n")
    yield _of_code(kind, "marks of a conflict", "<<<<<<< HEAD\n" + BROKEN + "=======\n" + FIXED + ">>>>>>> mine\n")
    yield _of_code(kind, "another language", "def double(number):\n    print number\n    return number * 2\n")
    yield _of_code(kind, "only when it is called", "def double(number):\n    return eval('number *')\n")
    fence = "```python\n" + FIXED + "```\n"
    yield _of_code(*(kind, "a fence of Markdown, twice", fence, _again(fence)), follows=("default", "fresh-context"))
    yield _of_code(
        *(kind, "one and then another", "def double(number)\n    return number\n", "return 1\n"),
        files={"test_more.py": "import calc\n\n\ndef test_more():\n    assert calc.double(3) == 6\n"},
    )


def _assertion() -> Iterator[History]:
    kind = "assertion"
    other = BROKEN.replace("+ 1", "+ 2")
    third = "def double(number):\n    return number\n"
    yield _of_code(kind, "another runner", other, by="other")
    yield _of_code(kind, "a wrong value", other)
    yield _of_code(
        kind,
        "an assertion in the product",
        "def double(number):\n    assert number > 9, number\n    return number * 2\n",
    )
    yield _of_code(
        *(kind, "an exception that is not raised", other),
        files={
            "test_calc.py": TESTS
            + "\n\ndef test_text():\n    import pytest\n\n    with pytest.raises(TypeError):\n        double(None)\n"
        },
        tests=("-k", "text or one"),
    )
    yield _of_code(
        *(kind, "unittest", other),
        files={
            "test_calc.py": "import unittest\nfrom calc import double\n\n\nclass T(unittest.TestCase):\n"
            "    def test_one(self):\n        self.assertEqual(double(1), 2)\n"
        },
    )
    yield _of_code(
        *(
            kind,
            "a doctest",
            'def double(number):\n    """\n    >>> double(1)\n    2\n    """\n    return number * 3\n',
        ),
        tests=("--doctest-modules",),
    )
    yield _of_code(
        *(kind, "by parameters", other),
        files={
            "test_calc.py": "import pytest\nfrom calc import double\n\n\n@pytest.mark.parametrize('n', range(9))\n"
            "def test_many(n):\n    assert double(n) == 2 * n\n"
        },
    )
    yield _of_code(*(kind, "the same twice", other, _again(other)), follows=("default", "fresh-context"))
    yield _of_code(kind, "three times, a little better each time", other, third, "def double(number):\n    return 2\n")
    names = ("one", "two", "three", "four", "five")
    wrong = ("".join(f"def {name}():\n    return {value}\n\n\n" for name in names) for value in (0, -1))
    right = "".join(f"def {name}():\n    return {n}\n\n\n" for n, name in enumerate(names, 1))
    checks = "".join(f"def test_{name}():\n    assert calc.{name}() == {n}\n\n\n" for n, name in enumerate(names, 1))
    parts = (*(f"write('calc.py', {source!r})" for source in wrong), f"write('calc.py', {right!r})")
    yield History(
        *(kind, "five causes at once, twice", "tests"),
        parts,
        files={"calc.py": right.replace("return ", "return 9 + "), "test_calc.py": f"import calc\n\n\n{checks}"},
        follows=("narrow", "narrow"),
    )


def _type() -> Iterator[History]:
    kind = "type"

    def body(line: str) -> str:
        return f"def double(number):\n    {line}\n"

    yield _of_code(kind, "another runner", body("return number + '1'"), by="other")
    yield _of_code(kind, "an addition that does not go", body("return number + '1'"))
    yield _of_code(kind, "an attribute that is not there", body("return number.twice()"))
    yield _of_code(kind, "of nothing", body("return None.real"))
    yield _of_code(kind, "a name that is not there", body("return nubmer * 2"))
    yield _of_code(kind, "a variable without a value", "def double(number):\n    total += number\n    return total\n")
    yield _of_code(kind, "not done yet", body("raise NotImplementedError"))
    yield _of_code(kind, "an argument too many", "def double():\n    return 2\n")
    wrong = body("return len(number) * 2")
    yield _of_code(*(kind, "the same twice", wrong, _again(wrong)), follows=("default", "fresh-context"))
    yield _of_code(kind, "one and then another", body("return number[0]"), body("return number.value"))


def _crash() -> Iterator[History]:
    kind = "crash"

    def dies(how: str) -> str:
        return f"import ctypes, os, signal, sys\n\n\ndef double(number):\n    {how}\n    return number * 2\n"

    fault = "os.kill(os.getpid(), signal.SIGSEGV)"
    yield _of_code(kind, "another runner dies of a fault", dies(fault), by="other")
    yield _of_code(kind, "a fault in compiled code", dies("ctypes.string_at(8)"))
    yield _of_code(kind, "an abort", dies("os.abort()"))
    yield _of_code(kind, "it ends the process", dies("os._exit(3)"))
    yield _of_code(kind, "a division in compiled code", dies("os.kill(os.getpid(), signal.SIGFPE)"))
    yield _of_code(kind, "a worker dies of a fault", dies(fault), tests=("-p", "xdist", "-n", "2"))
    yield _of_code(*(kind, "the same twice", dies(fault), _again(dies(fault))), follows=("default", "fresh-context"))
    yield _of_code(kind, "while it is imported", "import os, signal\n\nos.kill(os.getpid(), signal.SIGSEGV)\n" + FIXED)
    yield History(
        *(kind, "the agent dies of a fault, once", "agent"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "mend()"),
        follows=("default",),
    )
    yield History(
        *(kind, "the agent dies of a fault each time", "agent"),
        ("import faulthandler; faulthandler.enable(); os.kill(os.getpid(), signal.SIGSEGV)",),
        follows=("default", "default"),
        ends="agent-failed",
        most_calls=3,
    )


def _flaky() -> Iterator[History]:
    """Steady before the agent came; then its change fails the first time that it is asked."""
    kind = "flaky"
    once = (
        "import pathlib\n\n\ndef double(number):\n    return number * 2\n\n\ndef stamp():\n"
        "    seen = pathlib.Path('@TOOLS@/seen')\n    if not seen.exists():\n        seen.touch()\n        {fails}\n"
        "    return 1\n"
    )
    steady = FIXED + "\n\ndef stamp():\n    return 1\n"
    before = BROKEN + "\n\ndef stamp():\n    return 1\n"
    test = TESTS + "\n\ndef test_stamp():\n    from calc import stamp\n\n    assert stamp() == 1\n"

    def made(name: str, fails: str, tests: str = test, **more: object) -> History:
        parts = (f"write('calc.py', {once.format(fails=fails)!r})", f"write('calc.py', {steady!r})")
        files = {"calc.py": before, "test_calc.py": tests}
        return History(kind, name, "tests", parts, files=files, follows=("default",), **more)  # type: ignore[arg-type]

    yield made("another value the first time", "return 2")
    yield made("it is not there yet the first time", "raise FileNotFoundError('cache.json')")
    yield made("a lock is taken the first time", "raise BlockingIOError(11, 'Resource temporarily unavailable')")
    yield made("it takes too long the first time", "raise TimeoutError('no answer')")
    yield made("a service is not up the first time", "raise ConnectionRefusedError(111, 'Connection refused')")
    yield made("a key is missing the first time", "return {}['stamp']")
    yield made("nothing yet the first time", "return None + 1")
    yield made("an assertion of the product the first time", "assert False, 'still warming up'")
    several = test + "\n\ndef test_again():\n    from calc import stamp\n\n    assert stamp() == 1\n"
    yield made("one of two tests, whichever is first", "return 2", several)
    yield made("in a fixture", "raise OSError('busy')", _WITH_FIXTURE)


_WITH_FIXTURE = (
    "import pytest\n"
    + TESTS
    + "\n\n@pytest.fixture\ndef stamped():\n    from calc import stamp\n\n    return stamp()\n"
    + "\n\ndef test_stamp(stamped):\n    assert stamped == 1\n"
)


def _unknown() -> Iterator[History]:
    kind = "unknown"

    def body(line: str) -> str:
        return f"def double(number):\n    {line}\n"

    yield _of_code(kind, "another runner: a value", body("raise ValueError(f'no {number}')"), by="other")
    yield _of_code(kind, "a value", body("raise ValueError(f'no {number}')"))
    yield _of_code(kind, "a key", body("return {}[number]"))
    yield _of_code(kind, "an index", body("return [][number]"))
    yield _of_code(
        kind, "an exception of its own", "class Wrong(Exception):\n    pass\n\n\n" + body("raise Wrong(number)")
    )
    yield _of_code(kind, "without an end", body("return double(number)"))
    yield _of_code(kind, "a file that is not there", body("return open('no-such-file').read()"))
    wrong = body("raise LookupError('error: connection refused, out of memory, 429')")
    yield _of_code(
        *(kind, "words that mean nothing, twice", wrong, _again(wrong)), follows=("default", "fresh-context")
    )
    yield History(
        *(kind, "an agent that only says that it failed", "agent"),
        ("sys.exit('I could not do it: error, timeout, 500 lines')", "mend()"),
        follows=("default",),
    )
    yield History(
        *(kind, "a reviewer that ends with a code of its own", "reviewer"),
        reviewer=("sys.exit(42)", "approve()"),
        follows=("default",),
    )
