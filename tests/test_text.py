from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_iterctl import redaction
from pytest_iterctl import text as text_module
from pytest_iterctl.redaction import Redactor, redact
from pytest_iterctl.text import (
    code_span,
    cut_middle,
    fence,
    file_name,
    human_bytes,
    markdown_text,
    one_line,
    strip_escapes,
    workflow_safe,
)

# Put together here, so that no scanner takes this file for a leak.
MIXED = "a1B2c3D4e5F6g7H8i9J0"
LONG = MIXED + "kLmNoPqRsTuV1234"
HEXADECIMAL = "1a2b3c4d5e6f7a8b9c0d" * 2
KEY_LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_LINE}\n{KEY_LINE}\nab12==\n-----END RSA PRIVATE KEY-----"

#: Any string that Python can hold, lone surrogates included.
ANY = st.text(st.characters(exclude_categories=()))


def fragments(*lines: str) -> list[str]:
    return [fragment for line in lines for fragment in line.split("·")]


NASTY = st.lists(
    ANY
    | st.sampled_from(
        fragments(
            "\x1b·\x1b[31m·\x1b[·\x1b]0;title·\x07·\x1b\\·\x9b1m·\x9d8;;x·\x9c·\x1bP·\x90·#x1·#x1B·#x1B[·B[0m·[31m·31m",
            "\r·\n·\r\n·\t· ·\xa0·\u2028·\x85·\u200d·\u200c·\u202e·\u2066·\ufeff·\ud83d·\udce9·👩·é·م·x",
            "`·```·~~~·|·\\·::·##[·##vso[·error·@·#·1·user·<b>·&·http·://·www.·[x](y)·- ·=",
        )
    )
).map("".join)
SECRETIVE = st.lists(
    st.sampled_from(
        fragments(
            "token·password·SECRET_KEY·api_key·--token·=· = ·:·: ·==·'·\"·\\\"· ·\n·\\n·(·)·[·]·{·,·;·&·-·f'·é·\ud800",
            f"abc·abc12345·hunter2·{MIXED}·{HEXADECIMAL}·None·str·://·user:pw1@·@·a=b·[redacted]·[redacted:jwt]",
            f"Authorization·Bearer ·Basic ·Digest ·Cookie·machine x login y password ·ghp_{LONG}·sk-{LONG}·AKIA",
            f"eyJ{MIXED}.·{KEY_LINE}·-----BEGIN PRIVATE KEY-----·-----END PRIVATE KEY-----",
        )
    ),
    max_size=14,
).map("".join)


# ── escapes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("raw", "plain"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x9b31mred\x9b0m", "red"),
        ("\x1b[38:2::255:0:0mred\x1b[m", "red"),
        ("\x1b[?25lhidden cursor\x1b[2K", "hidden cursor"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9d0;title\x9ctext", "text"),
        ("\x1bPq#0;2;0;0;0#0~~\x1b\\text", "text"),
        ("\x1b_application\x1b\\text\x1b^private\x1b\\", "text"),
        ("\x1b(B\x1b7\x1b=text", "text"),
        ("#x1B[31mred#x1B[0m", "red"),
        ("a cut one \x1b[31", "a cut one "),
        ("\x1b]0;never closed\nnext line", "0;never closed\nnext line"),
        ("one\r\ntwo\rthree\n\tfour", "one\ntwo\nthree\n\tfour"),
        ("bell \x07 null \x00 delete \x7f next line \x85", r"bell \x07 null \x00 delete \x7f next line \x85"),
        ("user\u202etxt.exe", r"user\u202etxt.exe"),
        ("a\u2066b\u2069c\u200bd\ufeffe\xadf", r"a\u2066b\u2069c\u200bd\ufeffe\xadf"),
        ("line\u2028paragraph\u2029", r"line\u2028paragraph\u2029"),
        ("tag \U000e0041", r"tag \U000e0041"),
        ("lone \udce9 and \ud83d", r"lone \udce9 and \ud83d"),
        ("\x1b", r"\x1b"),
        ("#x1\x1b[0mB[31m", r"\x1b[31m"),
        ("C# x1B and #x1 stay", "C# x1B and #x1 stay"),
        ("naïve café 日本語 \xa0 →…", "naïve café 日本語 \xa0 →…"),
    ],
)
def test_what_steers_a_terminal_goes_and_what_hides_is_shown(raw: str, plain: str) -> None:
    assert strip_escapes(raw) == plain


def test_joiners_stay_where_a_script_needs_them_and_are_shown_where_they_hide() -> None:
    assert strip_escapes("👩\u200d💻 ❤\ufe0f\u200d🔥 می\u200cخواهم") == "👩\u200d💻 ❤\ufe0f\u200d🔥 می\u200cخواهم"
    assert strip_escapes("pass\u200dword") == r"pass\u200dword"
    assert strip_escapes("é\u200d\u200cé") == r"é\u200d\u200cé"


@given(st.one_of(ANY, NASTY))
@example("#x1#x1B[mB[m")
@example("\x1b\x1b[0m[31m")
def test_stripped_text_is_plain_and_stripping_again_changes_nothing(raw: str) -> None:
    plain = strip_escapes(raw)
    assert strip_escapes(plain) == plain
    plain.encode("utf-8")
    assert not [c for c in plain if c not in "\n\t" and unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"}]
    assert not re.search("[\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]", plain)


@given(st.one_of(ANY, NASTY), st.integers(min_value=0, max_value=60))
def test_one_line_is_one_line_within_its_limit(raw: str, limit: int) -> None:
    line = one_line(raw, limit)
    assert len(line) <= limit
    assert line == " ".join(line.split())
    assert one_line(line, limit) == line
    line.encode("utf-8")
    whole = one_line(raw, sys.maxsize)
    assert line == whole if len(whole) <= limit else line.endswith("…") or limit == 0


def test_one_line_collapses_and_cuts() -> None:
    assert one_line("  a\n\n\tb \xa0 c\r\n") == "a b c"
    assert one_line("abcdef", 4) == "abc…"
    assert one_line("ab cdef", 4) == "ab…"
    assert len(one_line("x" * 1000)) == 200


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"src/a.py", "src/a.py"),
        ("café.txt".encode(), "café.txt"),
        (b"caf\xe9.txt", r"caf\xe9.txt"),
        (b"two\nlines\tand\x1b[31m", r"two\x0alines\x09and\x1b[31m"),
        ("abc\u202egpj.py".encode(), r"abc\u202egpj.py"),
        (b"", ""),
    ],
)
def test_a_file_name_is_shown_whatever_its_bytes_are(name: bytes, shown: str) -> None:
    assert file_name(name) == shown


@given(st.binary())
def test_a_file_name_is_always_one_printable_line(name: bytes) -> None:
    shown = file_name(name)
    shown.encode("utf-8")
    assert strip_escapes(shown) == shown
    assert "\n" not in shown
    assert "\t" not in shown


# ── size ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(
    st.one_of(ANY, NASTY, st.text("aé日👩", min_size=40)),
    st.integers(min_value=0, max_value=200),
    st.sampled_from(["", "key K"]),
)
def test_a_cut_keeps_its_budget_and_says_how_much_is_gone(raw: str, limit: int, where: str) -> None:
    whole = raw.encode("utf-8", "backslashreplace")
    cut = cut_middle(raw, limit, where=where)
    assert len(cut.encode("utf-8")) <= limit
    if len(whole) <= limit:
        assert cut.encode("utf-8") == whole
        return
    notice = re.search(r"\n\[… (\d+) bytes cut(; whole in key K)? …\]\n", cut)
    if notice is None or raw.count("bytes cut"):
        return
    head, tail = cut[: notice.start()].encode("utf-8"), cut[notice.end() :].encode("utf-8")
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert int(notice[1]) == len(whole) - len(head) - len(tail)
    assert bool(notice[2]) == bool(where)


def test_a_cut_keeps_twice_as_much_of_the_head_as_of_the_tail() -> None:
    cut = cut_middle("h" * 5000 + "t" * 5000, 1000, where="memory key stage-1-output")
    head, tail = cut.count("hh"), cut.count("tt")
    assert "bytes cut; whole in memory key stage-1-output …]" in cut
    assert 1.8 < head / tail < 2.2


def test_a_limit_below_the_notice_gives_the_plain_head() -> None:
    assert cut_middle("é" * 100, 5) == "éé"
    assert cut_middle("abc", 0) == ""
    assert cut_middle("abc", -1) == ""
    assert cut_middle("", 0) == ""


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1234, "1.2 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (3_400_000, "3.4 MB"),
        (5_000_000_000, "5.0 GB"),
        (7_000_000_000_000, "7.0 TB"),
        (-1500, "-1.5 kB"),
    ],
)
def test_sizes_read_as_people_say_them(count: int, shown: str) -> None:
    assert human_bytes(count) == shown


# ── Markdown and CI logs ─────────────────────────────────────────────────────────────────────────────────────────────


@given(st.one_of(ANY, NASTY), st.one_of(ANY, st.sampled_from(["python", "diff", "C++", "```"])))
def test_nothing_inside_a_fence_closes_it(raw: str, language: str) -> None:
    first, *body, last = fence(raw, language).split("\n")
    opening = re.fullmatch(r"(`{3,})[a-z0-9-]*", first)
    assert opening
    assert last == opening[1]
    # CommonMark: up to three blanks, at least as many backticks, then only blanks.
    assert not [line for line in body if re.fullmatch(rf" {{0,3}}`{{{len(last)},}}[ \t]*", line)]
    inside = "\n".join(body)
    assert inside in {strip_escapes(raw), strip_escapes(raw).removesuffix("\n")}


def test_a_fence_is_as_short_as_it_can_be() -> None:
    assert fence("x = 1\n", "Python") == "```python\nx = 1\n```"
    assert fence("a ```` b") == "`````\na ```` b\n`````"
    assert fence("") == "```\n```"


@given(st.one_of(ANY, NASTY))
def test_nothing_inside_a_code_span_closes_it_or_its_cell(raw: str) -> None:
    span = code_span(raw)
    opening = re.match("`+", span)
    assert opening
    assert "\n" not in span
    inside = span[len(opening[0]) : -len(opening[0])]
    assert span.endswith(opening[0])
    # Only a run of exactly as many backticks closes a span, and the ends may not lengthen the runs.
    assert len(opening[0]) not in {len(run) for run in re.findall("`+", inside)}
    assert not inside.startswith("`")
    assert not inside.endswith("`")
    assert inside
    # A pipe ends a cell unless one backslash, not two, stands before it.
    assert re.sub(r"(?<!\\)\\\|", "", inside).count("|") == 0


def test_code_spans_show_what_they_hold() -> None:
    assert code_span("x = 1") == "`x = 1`"
    assert code_span("a\n  b") == "`a b`"
    assert code_span("`a`") == "`` `a` ``"
    assert code_span("a|b") == r"`a\|b`"
    assert code_span("") == "` `"


@pytest.mark.parametrize(
    ("raw", "escaped"),
    [
        ("plain words, 1.5 of them (so far)", "plain words, 1.5 of them (so far)"),
        ("*bold* _it_ `code` ~~no~~", r"\*bold\* \_it\_ \`code\` \~\~no\~\~"),
        ("<b>&amp;</b>", "&lt;b&gt;&amp;amp;&lt;/b&gt;"),
        ("![i](u) [a](b)", r"!\[i\](u) \[a\](b)"),
        ("@octocat", "@&#8203;octocat"),
        ("org/repo#12 and #12", r"org/repo\#&#8203;12 and \#&#8203;12"),
        ("GH-12 !34 $56", r"GH-&#8203;12 !&#8203;34 \$&#8203;56"),
        ("https://example.org www.example.org", "https:&#8203;//example.org www&#8203;.example.org"),
        ("me@example.org", "me@&#8203;example.org"),
        (":tada:", ":&#8203;tada:"),
        (
            "# title\n- item\n+ item\n1. one\n2) two\n===\n> quote",
            "\\# title\n\\- item\n\\+ item\n1\\. one\n2\\) two\n\\===\n&gt; quote",
        ),
        ("a\n\n    code  \nb", "a\n\ncode\nb"),
        ("C:\\x | y", r"C:\\x \| y"),
        ("bell \x07", r"bell \\x07"),
    ],
)
def test_prose_is_shown_as_it_is_and_nobody_is_notified(raw: str, escaped: str) -> None:
    assert markdown_text(raw) == escaped


@given(st.one_of(ANY, NASTY))
def test_no_sign_of_markdown_or_html_is_left_alone(raw: str) -> None:
    escaped = markdown_text(raw)
    rest = re.sub(r"\\[\\`*_{}\[\]#|~$^+=.)-]|&(?:amp|lt|gt|#8203);", "", escaped)
    assert not re.search(r"[\\`*_{}\[\]<>&#|~$^]", rest)
    assert not re.search(r"@\w|://|(?<![A-Za-z0-9])www\.", escaped, re.IGNORECASE)
    assert not re.search(r"^(?:[ \t]|[-+=]|\d{1,9}[.)])", escaped, re.MULTILINE)


@pytest.mark.parametrize(
    ("line", "safe"),
    [
        ("::error::boom", r"\::error::boom"),
        ("  \t::add-mask::x", "  \t\\::add-mask::x"),
        ("fine\n::set-output name=a::b\nfine", "fine\n\\::set-output name=a::b\nfine"),
        ("fine\r::error::x", "fine\r\\::error::x"),
        ("\x1b[31m::error::x\x1b[0m", "\x1b[31m\\::error::x\x1b[0m"),
        ("\u200b\ufeff::error::x", "\u200b\ufeff\\::error::x"),
        ("##[group]x", r"#\#[group]x"),
        ("text ##vso[task.setvariable variable=a]b", r"text #\#vso[task.setvariable variable=a]b"),
        ("##teamcity[testStarted]", r"#\#teamcity[testStarted]"),
        ("tests/test_x.py::test_y FAILED", "tests/test_x.py::test_y FAILED"),
        ("## heading [x]", "## heading [x]"),
        ("\x1b[32m  passed\x1b[0m", "\x1b[32m  passed\x1b[0m"),
    ],
)
def test_no_line_is_a_command_to_a_runner_and_other_lines_stay(line: str, safe: str) -> None:
    assert workflow_safe(line) == safe


@given(st.one_of(ANY, NASTY))
def test_no_runner_finds_a_command_however_it_splits_and_trims(raw: str) -> None:
    safe = workflow_safe(raw)
    assert workflow_safe(safe) == safe
    assert "##[" not in safe
    assert "##vso[" not in safe
    for line in re.split(r"[\r\n]", safe):
        assert not line.lstrip().startswith("::")


# ── secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────────

LEAKS = [
    # provider tokens
    (f"sk-proj-{LONG}", "[redacted:openai]"),
    (f"key sk-{LONG}.", "key [redacted:openai]."),
    (f"sk-ant-api03-{LONG}-xyz_9", "[redacted:anthropic]"),
    (f"ghp_{LONG}", "[redacted:github]"),
    (f"gho_{LONG}", "[redacted:github]"),
    (f"ghs_{LONG}", "[redacted:github]"),
    (f"github_pat_{MIXED}_{LONG}", "[redacted:github-pat]"),
    (f"glpat-{MIXED}", "[redacted:gitlab]"),
    ("id AKIA" + "IOSFODNN7" + "EXAMPLE", "id [redacted:aws]"),
    ("ASIA" + "IOSFODNN7" + "EXAMPLE", "[redacted:aws]"),
    (f"xoxb-1234567890-{MIXED}", "[redacted:slack]"),
    (f"AIza{MIXED}{MIXED[:15]}", "[redacted:google]"),
    (f"npm_{LONG}", "[redacted:npm]"),
    (f"pypi-AgEIcHlwaS5vcmc{LONG}", "[redacted:pypi]"),
    (f"sk_live_{MIXED}", "[redacted:stripe]"),
    (f"hf_{LONG}", "[redacted:huggingface]"),
    (f"eyJ{MIXED}.eyJ{MIXED}.{MIXED}-_", "[redacted:jwt]"),
    (f"'out\\nghp_{LONG}\\n'", "'out\\n[redacted:github]\\n'"),
    # private keys, whole and cut
    (f"a\n{KEY}\nb", "a\n[redacted:private-key]\nb"),
    (KEY.replace("\n", "\\n"), "[redacted:private-key]"),
    (f"{KEY[:120]}\n\nthe rest is gone", "[redacted:private-key]\n\nthe rest is gone"),
    (f"the rest is gone\n{KEY[60:]}\nb", "the rest is gone\n[redacted:private-key]\nb"),
    (f"-----BEGIN OPENSSH PRIVATE KEY-----\nE   {KEY_LINE}\nE   {KEY_LINE}\nE   x", "[redacted:private-key]\nE   x"),
    # headers
    ("Authorization: Bearer abc", "Authorization: Bearer [redacted]"),
    ("authorization: Basic dXNlcjpwYXNz", "authorization: Basic [redacted]"),
    ("{'Authorization': 'Token 9944b'}", "{'Authorization': 'Token [redacted]'}"),
    ('{"authorization": "Bearer abc"}', '{"authorization": "Bearer [redacted]"}'),
    ('"{\\"Authorization\\": \\"Bearer abc\\"}"', '"{\\"Authorization\\": \\"Bearer [redacted]\\"}"'),
    ("[(b'Authorization', b'Bearer abc')]", "[(b'Authorization', b'Bearer [redacted]')]"),
    ('curl -H "Authorization: Bearer abc" https://x.org', 'curl -H "Authorization: Bearer [redacted]" https://x.org'),
    ("AUTHORIZATION=abc123", "AUTHORIZATION=[redacted]"),
    ('Proxy-Authorization: Digest username="M", response="66"', "Proxy-Authorization: Digest [redacted]"),
    ("Authorization: SSWS 00abcdefgh123", "Authorization: SSWS [redacted]"),
    ("'Bearer abc12345'", "'Bearer [redacted]'"),
    ("Set-Cookie: sid=abc; Path=/\nHost: x", "Set-Cookie: [redacted]\nHost: x"),
    ("b'Cookie: a=b\\r\\nHost: x\\r\\n'", "b'Cookie: [redacted]\\r\\nHost: x\\r\\n'"),
    ("{'Cookie': 'sid=abc', 'Host': 'x'}", "{'Cookie': '[redacted]', 'Host': 'x'}"),
    ("curl -H 'cookie: a=\"b\"; c=d' x", "curl -H 'cookie: [redacted]' x"),
    ("X-Api-Key: 12345abc", "X-Api-Key: [redacted]"),
    # URLs and .netrc
    ("https://user:pass@host/x", "https://[redacted]@host/x"),
    ("postgresql://u:p%40ss@db:5432/x", "postgresql://[redacted]@db:5432/x"),
    ("redis://:p@ss@localhost", "redis://[redacted]@localhost"),
    (f"https://{MIXED}@host.org/x.git", "https://[redacted]@host.org/x.git"),
    ("machine example.org login bob password hunter", "machine example.org login bob password [redacted]"),
    ("machine example.org\n  login bob\n  password hunter", "machine example.org\n  login bob\n  password [redacted]"),
    # names
    ("FOO_TOKEN=abcdef", "FOO_TOKEN=[redacted]"),
    ("export DB_PASSWORD=hunter; x", "export DB_PASSWORD=[redacted]; x"),
    ("DB_PASS=abcd1=cd12", "DB_PASS=[redacted]"),
    ("token: s3cr3tvalue", "token: [redacted]"),
    ("db:\n  password: hunter\n", "db:\n  password: [redacted]\n"),
    ('{"token": "abcdef123456"}', '{"token": "[redacted]"}'),
    ('{"client_secret":"abc"}', '{"client_secret":"[redacted]"}'),
    ('{\\"password\\": \\"abc\\"}', '{\\"password\\": \\"[redacted]\\"}'),
    ("token = 'abc123def456'", "token = '[redacted]'"),
    ("token: str = 'abc123def456'", "token: str = '[redacted]'"),
    ("connect(user='u', password='it\\'s', x=1)", "connect(user='u', password='[redacted]', x=1)"),
    ('password = """abc"""', 'password = """[redacted]"""'),
    ("os.environ['API_KEY'] = 'abc'", "os.environ['API_KEY'] = '[redacted]'"),
    ("tool --token abcdef --x", "tool --token [redacted] --x"),
    ("--password=hunter", "--password=[redacted]"),
    ("['tool', '--api-key', 'abcdef']", "['tool', '--api-key', '[redacted]']"),
    ("GET /x?access_token=abc123&y=1", "GET /x?access_token=[redacted]&y=1"),
    (f"aws_secret_access_key = wJalr/{MIXED}+x", "aws_secret_access_key = [redacted]"),
    (f"token={HEXADECIMAL}", "token=[redacted]"),
    ("AccountKey=abcd1234efgh==;x", "AccountKey=[redacted];x"),
    ("apikey: 12ab34", "apikey: [redacted]"),
    ("passwd=hunter2", "passwd=[redacted]"),
    ("pwd=hunter2", "pwd=[redacted]"),
    ("credentials: abcd1234", "credentials: [redacted]"),
    ("private_key = 'abc'", "private_key = '[redacted]'"),
    ("passphrase = 'correct horse battery staple'", "passphrase = '[redacted]'"),
    ("token='cut12345", "token='[redacted]"),
    # looks
    (f"setting = '{MIXED}'", "setting = '[redacted]'"),
    (f'{{"x": "{MIXED}+/=="}}', '{"x": "[redacted]"}'),
    (f"OTHER={LONG}", "OTHER=[redacted]"),
]

ORDINARY = [
    "assert token == 'abc'",
    "assert 'abc123def456' == token",
    "assert password != 'hunter2'",
    "expected token to contain userId",
    "base " + HEXADECIMAL,
    f"commit = '{HEXADECIMAL}'",
    "sha256: " + "9f86d081884c7d659a2feaa0c55ad015" * 2,
    "id = '123e4567-e89b-12d3-a456-426614174000'",
    "run = 01JDQ3XK5V8Z9W2M4N6P7R8S9T",
    "tests/test_x.py::test_token[some-long-parameter-1234]",
    "tests/test_password.py:12: AssertionError",
    "path = /srv/Project2/Src3/a1B2/c3D4/e5F6",
    "PWD=/home/user/project",
    "private_key: /etc/ssl/private.pem",
    "credentials: ~/.aws/credentials",
    "password: str",
    "def login(user: str, password: str, token: Token | None = None) -> None:",
    "token=None",
    "token=token",
    "f(password=password, token=token2)",
    "token = self.token",
    "api_key=settings.api_key",
    "secret = get_secret()",
    "password = os.environ['X']",
    "max_tokens: 4096",
    '"max_tokens": 4096,',
    "tokens: 123",
    "token_type: bearer",
    "TOKENIZERS_PARALLELISM=false",
    "def f(token='', password=\"\"):",
    "unexpected token: IDENT",
    "token = '('",
    "{'token': 'NUMBER', 'value': 3}",
    "ValueError: invalid token: missing signature",
    "KeyError: 'token'",
    "if token: return 1",
    "lambda token: token.value",
    "secrets.token_urlsafe()",
    "{'password': ['This field is required.']}",
    '{"password": "This field is required."}',
    "password: required",
    "password: ********",
    "password: <hidden>",
    "token: ${{ secrets.TOKEN }}",
    "id-token: write",
    "secrets: inherit",
    "secretary: Bob Smith",
    "usage: tool --token TOKEN",
    "--token is required",
    "the --password option",
    "use --username and --password options",
    "print(f'token: {token}')",
    "token = f'{user}-{count}'",
    "token_pattern, token = 1, r'[0-9]{4}[a-z]+'",
    "Authorization: Bearer {token}",
    "Authorization: Bearer $TOKEN",
    "['Cookie', 'Authorization', 'Proxy-Authorization']",
    "Bearer token authentication",
    "cookie: str",
    "the login form, password field",
    "ssh://git@github.com/x/y",
    "https://host:8080/path@v1",
    "https://{user}:{password}@host",
    "me@example.org",
    "task-abcdefghijklmnopqrstuvwxyz1234",
    "model = claude-3-5-sonnet-20241022",
    "name = some-long-parameter-1234-with-words",
    "alphabet = ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    "ThisIsALongNameOfAClass2 = AnotherLongNameOfAClass3",
    f'"integrity": "sha512-{LONG}=="',
    "created = 2024-01-01T00:00:00+00:00",
    "The quick brown fox: jumps over the lazy dog",
]


@pytest.mark.parametrize(("leak", "shown"), LEAKS)
def test_secrets_are_redacted_and_the_rest_stays(leak: str, shown: str) -> None:
    assert redact(leak) == shown
    assert redact(shown) == shown


@pytest.mark.parametrize("line", ORDINARY)
def test_ordinary_test_text_stays(line: str) -> None:
    assert redact(line) == line


def test_secrets_are_found_wherever_in_a_text_they_stand() -> None:
    shown = redact("\n".join(leak for leak, _ in LEAKS))
    for value in (MIXED, LONG, KEY_LINE, "hunter", "s3cr3tvalue", "dXNlcjpwYXNz"):
        assert value not in shown


@given(st.one_of(ANY, NASTY, SECRETIVE))
def test_redacting_again_changes_nothing(raw: str) -> None:
    shown = redact(raw)
    assert redact(shown) == shown


@given(SECRETIVE, SECRETIVE)
def test_no_surroundings_hide_a_provider_token(before: str, after: str) -> None:
    token = f"glpat-{MIXED}"
    assert token not in redact(f"{before} {token} {after}")


@pytest.mark.parametrize("unit", ["a", " ", "token=token=", "-----BEGIN", "-----BEGIN PRIVATE KEY-----"])
def test_redacting_a_megabyte_takes_no_time(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    start = time.process_time()
    redact(text)
    # About a second at worst; a pattern that backtracks would need hours.
    assert time.process_time() - start < 15


@pytest.mark.parametrize(
    "unit",
    fragments(
        '\n·=·:·-·\'·"·\\·/·@·token·token=·token: ·token=\'·token="·\\"token\\":·--token ·password ·_PASS=·a=b ',
        f"-----END PRIVATE KEY-----·{KEY_LINE}\n·sk-·-eyJa·eyJaaaaaaaa.eyJa.·github_pat_·AKIA·://·://a:·={MIXED} ",
        'cookie: a=·cookie:="·authorization: x ·Bearer ·machine x login y ·default login x ',
    ),
)
def test_no_repetition_makes_redacting_slow(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    start = time.process_time()
    redact(text)
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    "unit", fragments("a· ·\r·\x1b·\x1b]·\x9d·\x1b[·#x1#x1B[mB[m·\u200d·`·` ·@a·:a·::·\r::· ::·##[·_·a_")
)
def test_no_repetition_makes_the_others_slow(unit: str) -> None:
    text = unit * (100_000 // len(unit))
    start = time.process_time()
    for function in (strip_escapes, one_line, fence, code_span, markdown_text, workflow_safe):
        function(text)
    cut_middle(text, 1000)
    assert time.process_time() - start < 10


# ── known values ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_redactor_knows_the_values_of_variables_with_secret_names() -> None:
    redactor = Redactor.from_environment(
        {
            "GITHUB_TOKEN": "opaque-value",
            "MY_SECRET": "two\nlines",
            "DB_PASS": "sword/fish",
            "DATABASE_URL": "postgres://app:from-a-url@db/x",
            "SERVICE_KEY": MIXED,
            "SORT_KEY": "ascending-order",
            "PWD": "/tmp/work.Xk29fQz81a/repo",
            "OLDPWD": "/tmp/work.Xk29fQz81a",
            "GOOGLE_APPLICATION_CREDENTIALS": "/etc/google.json",
            "MAX_TOKENS": "1000000",
            "API_KEY": "short",
            "HOME": "/home/user",
        }
    )
    assert redactor.values == {"opaque-value", "two\nlines", "sword/fish", "from-a-url", MIXED, "short"}
    assert redactor("got opaque-value, sword/fish, short") == "got [redacted], [redacted], short"
    assert redactor("/home/user ascending-order 1000000") == "/home/user ascending-order 1000000"


def test_a_known_value_is_found_in_json_repr_and_urls() -> None:
    value = 'sp ace\n"quoted"\\'
    redactor = Redactor(frozenset({value}))
    for spelt in (value, json.dumps(value), repr(value), "q=sp%20ace%0A%22quoted%22%5C", "q=sp+ace%0A%22quoted%22%5C"):
        assert "ace" not in redactor(spelt)


def test_a_plain_word_is_redacted_as_a_word_only() -> None:
    redactor = Redactor(frozenset({"postgres"}))
    assert redactor("as postgres: tests/test_postgres.py") == "as [redacted]: tests/test_postgres.py"


def test_a_redactor_does_not_show_its_values() -> None:
    assert "opaque" not in repr(Redactor(frozenset({"opaque-value"})))


def test_a_redactor_without_values_redacts() -> None:
    assert Redactor()("password=hunter2") == "password=[redacted]"


@given(st.frozensets(st.one_of(st.text(max_size=12), st.sampled_from(["redacted", "[redacted]", "github"]))), SECRETIVE)
def test_known_values_are_gone_for_good(values: frozenset[str], raw: str) -> None:
    redactor = Redactor(values)
    shown = redactor(raw)
    assert redact(shown) == shown
    for value in values:
        if len(value) >= 6 and value not in redaction._MARKS and not value.isalpha():
            assert value not in redactor(f"{value} {raw}").replace("[redacted]", "")


def test_deep_redacts_every_string_and_no_key() -> None:
    redactor = Redactor(frozenset({"opaque-value"}))
    data = {
        "opaque-value": ["opaque-value", ("password=hunter2", 1, None, True, 1.5)],
        "nested": {"password": "hunter", "token": "abcdef123456", "Authorization": "Bearer abc", "Cookie": "a=b"},
        "secrets": {"api_key": ["abc", "def"]},
        "kind": "passed",
        "token": "IDENT",
    }
    assert redactor.deep(data) == {
        "opaque-value": ["[redacted]", ("password=[redacted]", 1, None, True, 1.5)],
        "nested": {
            "password": "[redacted]",
            "token": "[redacted]",
            "Authorization": "Bearer [redacted]",
            "Cookie": "[redacted]",
        },
        "secrets": {"api_key": ["[redacted]", "[redacted]"]},
        "kind": "passed",
        "token": "IDENT",
    }
    assert data["kind"] == "passed"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | SECRETIVE,
        lambda inner: st.lists(inner) | st.dictionaries(SECRETIVE, inner),
        max_leaves=8,
    )
)
def test_deep_keeps_the_shape_and_is_done_after_one_go(data: object) -> None:
    clean = Redactor().deep(data)
    assert type(clean) is type(data)
    assert Redactor().deep(clean) == clean


# ── the module ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_all_names_what_can_be_imported() -> None:
    assert [name for name in text_module.__all__ if not hasattr(text_module, name)] == []


def test_importing_compiles_no_pattern() -> None:
    code = (
        "import re, dataclasses, functools, typing, pluggy, pytest_iterctl; seen = []; compile_ = re._compiler.compile;"
        "re._compiler.compile = lambda *a: seen.append(a) or compile_(*a); import pytest_iterctl.text; print(len(seen))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
