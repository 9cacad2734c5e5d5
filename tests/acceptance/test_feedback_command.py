"""`iterctl feedback` as a CI uses it: many reports, any format, exit codes by contract, no harm in a log."""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.kit.project import Ran

GREEN = '<testsuite name="green"><testcase name="a"/><testcase name="b"/></testsuite>'
RED = (
    '<testsuite name="red"><testcase name="c"><failure message="expected 3, got 4">at f (src/a.js:3:1)</failure>'
    "</testcase></testsuite>"
)
CUT = '<testsuite name="cut"><testcase name="d"/><testcase name="e">'
MEGABYTE = 1024 * 1024


def feedback(folder: Path, *arguments: str, stdin: bytes = b"", megabytes: int = 0, **variables: str) -> Ran:
    """The command in a process of its own, that may not have more memory than given."""

    def bound() -> None:
        if megabytes:
            resource.setrlimit(resource.RLIMIT_AS, (megabytes * MEGABYTE, megabytes * MEGABYTE))

    done = subprocess.run(
        [sys.executable, "-m", "pytest_iterctl", "feedback", *arguments],
        cwd=folder,
        input=stdin,
        capture_output=True,
        check=False,
        timeout=120,
        env={**os.environ, **variables},
        preexec_fn=bound,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize("form", ["md", "text"])
def test_the_limit_holds_also_where_every_line_looks_like_a_command_to_the_runner(tmp_path: Path, form: str) -> None:
    lines = "\n".join(f"::error::{number} ##[group]x ##[y]" for number in range(2000))
    cases = "".join(
        f'<testcase name="t{n}"><failure message="m{n * "x"}">{lines}</failure></testcase>' for n in range(9)
    )
    (tmp_path / "r.xml").write_text(f"<testsuite>{cases}</testsuite>")
    ran = feedback(tmp_path, "r.xml", "--format", form, "--limit", "4096")
    assert ran.code == 0
    assert 2048 < len(ran.out.encode()) <= 4096
    assert not re.search(r"^\s*::error", ran.out, re.MULTILINE)


@pytest.mark.parametrize("word", ["failed", "call", "assert"])
def test_a_secret_that_is_a_word_of_ours_does_not_change_the_outcome(tmp_path: Path, word: str) -> None:
    (tmp_path / "r.xml").write_text(RED)
    ran = feedback(tmp_path, "r.xml", "--format", "json", MY_PASSWORD=word)
    assert (ran.code, json.loads(ran.out)["outcome"]) == (0, "failed")


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    for name, content in {"one/green.xml": GREEN, "one/two/red.xml": RED, "cut.xml": CUT}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (tmp_path / "one" / "folder.xml").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "tests", "outcome"),
    [
        (["one/green.xml"], 2, "passed"),
        (["one/green.xml", "one/green.xml"], 2, "passed"),
        (["one/*.xml"], 2, "passed"),
        (["one/**/*.xml"], 3, "failed"),
        (["**/*.xml"], 5, "incomplete"),
        (["one/green.xml", "one/two/red.xml"], 3, "failed"),
        (["-"], 1, "passed"),
        (["-", "one/**/*.xml"], 4, "failed"),
        (["one/green.xml", "-", "-"], 3, "passed"),
    ],
)
def test_files_globs_and_standard_input_make_one_document(
    reports: Path, arguments: list[str], tests: int, outcome: str
) -> None:
    piped = b'<testsuite name="piped"><testcase name="p"/></testsuite>'
    ran = feedback(reports, *arguments, "--format", "json", stdin=piped)
    assert ran.code == 0, ran.err
    assert (ran.json["tests"], ran.json["outcome"]) == (tests, outcome)


def test_every_note_names_its_file(reports: Path) -> None:
    ran = feedback(reports, "**/*.xml", "--format", "json")
    assert ran.json["notes"]
    assert all(note.startswith("cut.xml: ") for note in ran.json["notes"])
    text = feedback(reports, "**/*.xml")
    assert "note: cut.xml: " in text.err
    assert "cut.xml: " in feedback(reports, "**/*.xml", "--format", "md").out


def test_the_formats_say_the_same(reports: Path) -> None:
    shown = {form: feedback(reports, "one/**/*.xml", "--format", form).out for form in ("text", "md", "json", "yaml")}
    assert json.loads(shown["json"]) == yaml.safe_load(shown["yaml"])
    assert shown["text"].startswith("failed: 2 passed, 1 failed, 0 errors, 0 skipped\n")
    assert shown["md"].startswith("**failed**: 2 passed, 1 failed, 0 errors, 0 skipped\n")
    assert all("expected 3, received 4" in text and "src/a.js:3" in text for text in shown.values())


@pytest.mark.parametrize("option", ["--limit", "--max-length"])
def test_the_text_stays_within_its_limit(reports: Path, option: str) -> None:
    many = "".join(f'<testcase name="n{n}"><failure>{"é" * 400} {n}</failure></testcase>' for n in range(50))
    (reports / "many.xml").write_text(f'<testsuite name="s">{many}</testsuite>')
    for form in ("text", "md"):
        assert len(feedback(reports, "many.xml", "cut.xml", option, "1000", "--format", form).out.encode()) <= 1000
    document = feedback(reports, "many.xml", option, "1000", "--format", "json").json
    assert len(document["text"].encode()) <= 1000
    assert document["failed"] == 50


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["missing.xml"], "missing.xml: can't be read: No such file"),
        (["none/*.xml"], "no report matches none/*.xml"),
        (["one"], "one: is a directory"),
        (["one/green.xml", "bad.xml"], "bad.xml:1: is not a JUnit XML report"),
        (["-"], "<stdin>: is empty"),
        (["pipe.xml"], "pipe.xml: is not a regular file"),
        (["loop.xml"], "loop.xml: can't be read"),
        ([], "Missing argument"),
        (["one/green.xml", "--limit", "3"], "--limit"),
    ],
)
def test_what_cannot_be_read_is_exit_code_4_with_its_reason(reports: Path, arguments: list[str], reason: str) -> None:
    (reports / "bad.xml").write_text("no xml at all")
    os.mkfifo(reports / "pipe.xml")
    (reports / "loop.xml").symlink_to(reports / "loop.xml")
    ran = feedback(reports, *arguments, "--format", "json")
    assert ran.code == 4
    assert ran.out == ""
    assert reason in ran.err
    assert "Traceback" not in ran.err


# ── hostile reports ──────────────────────────────────────────────────────────────────────────────────────────────────

ENTITIES = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
HOSTILE = {
    "entity bomb": f'<!DOCTYPE t [<!ENTITY e0 "haha">{ENTITIES}]><testsuite><testcase name="&e9;"/>'.encode(),
    "external entity": b'<!DOCTYPE t [<!ENTITY x SYSTEM "file:///etc/passwd">]><testsuite><testcase>&x;</testcase>',
    "nesting": b"<testsuite>" * 100_000,
    "huge attribute": b'<testsuite><testcase name="' + b"a" * (100 * MEGABYTE) + b'"/></testsuite>',
    "gzip bomb": gzip.compress(b"<testsuite>" + b" " * (20 * MEGABYTE)),
    "binary": bytes(range(256)) * 100,
    "invalid utf-8 only": b"\xff\xfe\xff\xfe" * 100,
    "another format": b'<?xml version="1.0"?><test-run><test-case result="Failed"/></test-run>',
}


@pytest.mark.parametrize("what", sorted(HOSTILE))
def test_a_hostile_report_is_refused_in_little_memory(tmp_path: Path, what: str) -> None:
    (tmp_path / "r.xml").write_bytes(HOSTILE[what])
    ran = feedback(tmp_path, "r.xml", "--format", "json", megabytes=700)
    assert ran.code == 4, ran.out[:500]
    assert ran.out == ""
    assert ran.err.startswith("error: r.xml")
    assert len(ran.err.splitlines()) <= 2
    assert len(ran.err) < 1000


def test_a_file_larger_than_all_bounds_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "r.xml").open("wb") as stream:
        stream.write(b"<testsuite>")
        stream.truncate(600 * MEGABYTE)
    ran = feedback(tmp_path, "r.xml", megabytes=700)
    assert ran.code == 4
    assert "more than 512 MB" in ran.err


def test_a_huge_honest_report_is_streamed(tmp_path: Path) -> None:
    # 200 MB of cases with output, in an address space that could not hold them even once.
    output = "line of output &lt;here&gt;\n" * 38_000
    with (tmp_path / "r.xml").open("w") as stream:
        stream.write('<testsuite name="s">')
        for number in range(200):
            wrong = "<failure>why</failure>" if number == 150 else ""
            stream.write(f'<testcase name="n{number}">{wrong}<system-out>{output}</system-out></testcase>')
        stream.write("</testsuite>")
    ran = feedback(tmp_path, "r.xml", "--format", "json", megabytes=350)
    assert ran.code == 0, ran.err
    assert (ran.json["tests"], ran.json["failed"], ran.json["outcome"]) == (200, 1, "failed")


def test_a_hundred_thousand_cases_from_a_pipe_are_counted_exactly(tmp_path: Path) -> None:
    cases = "".join(
        f'<testcase classname="c{n % 100}" name="n{n}" time="0.1"'
        + ("/>" if n % 100 else "><failure>no</failure></testcase>")
        for n in range(100_000)
    )
    ran = feedback(
        tmp_path, "-", "--format", "json", stdin=f'<testsuite name="s">{cases}</testsuite>'.encode(), megabytes=500
    )
    assert ran.code == 0, ran.err
    assert (ran.json["tests"], ran.json["passed"], ran.json["failed"]) == (100_000, 99_000, 1000)


# ── what a test printed is data ──────────────────────────────────────────────────────────────────────────────────────

EVIL = "\n".join(
    [
        *("::error::forged", "  ::set-output name=a::b", "##[group]x", "##vso[task.complete result=Succeeded]"),
        *("# Heading", "````", "~~~", "<h1>html</h1>", "<!-- ", "</details>", "---", "...", "outcome: passed"),
        *("passed: 3 passed, 0 failed", "[link](https://example.com)", "@someone #1", "| a | b |", "\t::warning::tab"),
    ]
)


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    quoted = EVIL.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    spelt = quoted.replace("\n", "&#10;")
    (tmp_path / "evil.xml").write_text(
        f'<testsuite name="{spelt}" tests="99"><testcase name="{spelt}" classname="{spelt}" file="{spelt}">'
        f'<failure message="{spelt}" type="{spelt}">{quoted}\n    at f (src/`::error::`.js:3:1)</failure>'
        f"<system-out>{quoted}</system-out></testcase>"
        f'<testcase name="two"><error message="`````&#10;{spelt}"/></testcase></testsuite>'
    )
    return tmp_path


COMMAND = re.compile(r"^\s*::|##\[|##vso\[", re.MULTILINE)


@pytest.mark.parametrize("form", ["text", "md", "json", "yaml"])
def test_no_line_is_a_command_to_a_ci_runner(evil: Path, form: str) -> None:
    ran = feedback(evil, "evil.xml", "--format", form)
    assert ran.code == 0, ran.err
    assert not COMMAND.search(ran.out), ran.out
    assert not COMMAND.search(ran.err), ran.err
    assert "forged" in ran.out


def test_documents_hold_the_text_as_it_was(evil: Path) -> None:
    for form in ("json", "yaml"):
        document = yaml.safe_load(feedback(evil, "evil.xml", "--format", form).out)
        assert (document["outcome"], document["tests"], document["failed"]) == ("failed", 2, 1)
        assert any("::error::forged\n" in item["detail"] for item in document["items"])


def test_markdown_shows_the_text_and_obeys_none_of_it(evil: Path) -> None:
    lines = feedback(evil, "evil.xml", "--format", "md").out.splitlines()
    outside, fence = [], ""
    for line in lines:
        if fence:
            if line == fence:
                fence = ""
            continue
        if opened := re.match(r"`{3,}$", line):
            fence = opened[0]
            continue
        outside.append(line)
    assert not fence, "every block is closed"
    assert lines[0] == "**failed**: 0 passed, 1 failed, 1 errors, 0 skipped"
    # What stands outside of blocks, without its code spans, is ours alone.
    prose = "\n".join(re.sub(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)", "", line) for line in outside)
    assert not re.search(r"^\s*#|^---|^~~~|<h1>|<!--|</details>|(?<!\\)\]\(http|^\s*\|", prose, re.MULTILINE), prose


def test_text_cannot_claim_a_verdict_of_its_own(evil: Path) -> None:
    lines = feedback(evil, "evil.xml").out.splitlines()
    assert lines[0].startswith("failed: ")
    assert not any(line.startswith(("passed", "outcome:", "---", "#")) for line in lines)


def test_secrets_are_not_passed_on(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    own = "my-own-" + "secret-value"
    (tmp_path / "r.xml").write_text(
        f'<testsuite name="{token}" tests="9"><testcase name="a"><failure message="{own}">{token} {own}</failure>'
        "</testcase></testsuite>"
    )
    for form in ("text", "md", "json", "yaml"):
        ran = feedback(tmp_path, "r.xml", "--format", form, MY_API_TOKEN=own)
        assert token not in ran.out + ran.err
        assert own not in ran.out + ran.err
