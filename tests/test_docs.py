"""The documentation says what is so: generated parts are current, examples in it work, links lead somewhere.

Refresh the generated parts with: python -m tests.test_docs
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import click
import pytest

from pytest_iterctl import plugin
from pytest_iterctl.agents.prompts import GeneratePrompt
from pytest_iterctl.cli.entry import commands
from pytest_iterctl.errors import ExitCode
from pytest_iterctl.plan.freeze import LIMITS
from pytest_iterctl.plan.load import read_plan
from pytest_iterctl.plan.model import Limits
from pytest_iterctl.plan.schema import settings_reference
from pytest_iterctl.plan.values import format_duration
from pytest_iterctl.work import environment
from tests.kit.project import Project, git

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "examples").glob("*/**/*.md"),
    ]
)
REFRESH = "refresh the documentation with: python -m tests.test_docs"
BLOCK = re.compile(r"(<!-- generated: (?P<name>[^>]+) -->\n)(?P<body>.*?)(<!-- end of (?P=name) -->)", re.DOTALL)
FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)


# ── what is generated ────────────────────────────────────────────────────────────────────────────────────────────────


def table(*rows: tuple[str, ...]) -> str:
    head, *body = rows
    cells = [head, ("---",) * len(head), *body]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in cells)


def limits() -> str:
    def row(key: str, show: Callable[[float], str]) -> tuple[str, ...]:
        return (f"`{key}`", *(show(getattr(limit, key)) for limit in LIMITS.values()))

    def money(value: float) -> str:
        return f"${value:g}"

    return table(
        ("limit", *(f"`{level}`" for level in LIMITS)),
        row("max_cost_per_iteration", money),
        row("max_total_cost", money),
        row("max_duration_per_iteration", format_duration),
        row("max_total_duration", format_duration),
        row("max_calls_per_iteration", str),
        row("require_cost", lambda value: str(value).lower()),
        *(row(name, lambda value: str(value).lower()) for name in Limits.model_fields if name.startswith("allow_")),
    )


class Recorder:
    """Stands in for pytest's parser, so that the table does not depend on how a version of pytest prints its help."""

    def __init__(self) -> None:
        self.options: dict[str, tuple[str, str, str]] = {}
        self.inis: set[str] = set()

    def getgroup(self, *_words: str) -> Recorder:
        return self

    def addoption(self, name: str, **about: object) -> None:
        choices = about.get("choices")
        metavar = "|".join(choices) if isinstance(choices, tuple) else str(about.get("metavar") or "")
        value = metavar if metavar.startswith("=") or not metavar else f"={metavar}"
        shown = f"{name}[{value}]" if about.get("nargs") == "?" else f"{name}{value}"
        self.options[name] = (shown, str(about.get("dest", "")), str(about["help"]))

    def addini(self, name: str, *_rest: object, **_about: object) -> None:
        self.inis.add(name)


def recorded() -> Recorder:
    recorder = Recorder()
    plugin.pytest_addoption(cast("pytest.Parser", recorder))
    return recorder


def settings() -> str:
    """The table of settings, with an ini twin only where the plugin has one."""
    table = settings_reference()
    assert set(re.findall(r"`(iterate_\w+)`", table)) <= set(recorded().inis)
    return table


def options() -> str:
    recorder = recorded()
    rows = [
        (f"`{shown}`", f"`{dest}`" if dest in recorder.inis else "–", text)
        for shown, dest, text in recorder.options.values()
    ]
    return table(("option", "ini", "meaning"), *rows)


def help_of(name: str) -> str:
    parent = click.Context(commands, info_name="iterctl", **commands.context_settings)
    command = commands.commands[name]
    with click.Context(command, info_name=name, parent=parent, terminal_width=98, color=False) as context:
        return f"```text\n{command.get_help(context)}\n```\n"


def capture() -> str:
    """What `iterctl demo` prints about the run, from its first line to the last of the summary."""
    ran = subprocess.run(
        [sys.executable, "-m", "pytest_iterctl", "demo"],
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    lines = ran.stdout.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("──"))
    last = next(number for number, line in enumerate(lines) if re.match(r" +Report ", line))
    shown = "\n".join(line for line in lines[first : last + 1] if not re.match(r" +SLOW ", line))
    return f"```text\n{shown}\n```\n"


GENERATED: dict[str, Callable[[], str]] = {
    "settings": settings,
    "limits": limits,
    "options": options,
    "capture": capture,
    **{f"help {name}": (lambda name=name: help_of(name)) for name in commands.commands},  # type: ignore[misc]  # a lambda with a default
}
FAST = sorted(set(GENERATED) - {"capture"})


def blocks() -> Iterator[tuple[Path, str, str]]:
    for page in PAGES:
        for found in BLOCK.finditer(page.read_text(encoding="utf-8")):
            yield page, found["name"], found["body"]


def refresh() -> None:
    made = {name: make() for name, make in GENERATED.items()}

    def renewed(found: re.Match[str]) -> str:
        body = f"\n{made[found['name']]}\n"
        # A capture that differs by its ids and times only is as true as the next one.
        return found[0] if timeless(found["body"]) == timeless(body) else f"{found[1]}{body}{found[4]}"

    for page in PAGES:
        old = page.read_text(encoding="utf-8")
        new = BLOCK.sub(renewed, old)
        if new != old:
            page.write_text(new, encoding="utf-8")
            print(f"refreshed {page.relative_to(ROOT)}")


def timeless(text: str) -> str:
    """Without what differs from one run or interpreter to the next: ids, times, costs and sizes."""
    text = re.sub(r"\[ *[0-9.]+s\]", "[time]", text)
    text = re.sub(r"\b[0-9A-HJKMNP-TV-Z]{10}\b", "RUN", text)
    text = re.sub(r"\bbase [0-9a-f]{7,}", "base HASH", text)
    text = re.sub(r"\$0\.\d\d\b", "$cost", text)
    return re.sub(r"\d+ items? of feedback \([0-9.]+ k?B\)", "feedback", text)


# ── generated parts ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", FAST)
def test_a_generated_part_is_current(name: str) -> None:
    found = [body.strip() for _, block, body in blocks() if block == name]
    assert found, f"no page has the part {name!r}"
    assert found == [GENERATED[name]().strip()] * len(found), REFRESH


@pytest.mark.slow
def test_the_capture_in_the_readme_is_what_the_demo_prints() -> None:
    shown = [body.strip() for _, name, body in blocks() if name == "capture"]
    assert [timeless(text) for text in shown] == [timeless(capture().strip())], REFRESH


def test_every_generated_part_has_a_generator() -> None:
    assert {name for _, name, _ in blocks()} == set(GENERATED)


# ── links and tables ─────────────────────────────────────────────────────────────────────────────────────────────────


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        found = page if not path else (page.parent / path).resolve()
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), target


def test_the_table_of_exit_codes_has_all_of_them() -> None:
    section = readme_section("Exit codes")
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)] == sorted(map(int, ExitCode))


def test_the_table_of_the_environment_tells_what_is_passed_on() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (yes|no) \| (yes|no) \|$", (ROOT / "docs/agents.md").read_text(), re.MULTILINE)
    assert len(rows) > 10
    caller = {name: "value" for name, _, _ in rows}
    words = {True: "yes", False: "no"}
    to_agents, to_tests = environment.agent_environment(caller), environment.tests_environment(caller)
    assert rows == [(name, words[name in to_agents], words[name in to_tests]) for name in caller]


def test_the_parts_of_a_prompt_are_as_described() -> None:
    prompt = GeneratePrompt(
        task="t",
        asked="",
        iteration=2,
        max_iterations=3,
        feedback="it fails",
        guidance=("so",),
        earlier=("Iteration 1",),
        command="pytest",
        changed_nothing=False,
    ).render()
    described = re.findall(r"^- `(#+ [\w ]+\w)", (ROOT / "docs/agents.md").read_text(), re.MULTILINE)
    assert len(described) == 5
    positions = [prompt.index(heading) for heading in described]
    assert positions == sorted(positions)


def test_the_doors_between_rooms_open_as_the_architecture_page_says() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)/` \| .* \| (.+) \|$", page, re.MULTILINE)
    package = Path(plugin.__file__).parent
    assert {room for room, _ in rows} == {path.name for path in package.iterdir() if (path / "__init__.py").exists()}
    above: set[str] = set()
    for room, words in rows:
        allowed = set(re.findall(r"`(\w+)`", words)) | ({*above} if words.startswith("all") else set())
        imported = {
            found
            for module in (package / room).glob("*.py")
            for found in re.findall(r"^ *(?:from|import) pytest_iterctl\.(\w+)", module.read_text(), re.MULTILINE)
        }
        assert imported & {name for name, _ in rows} <= allowed | {room}, room
        above.add(room)


# ── examples in pages ────────────────────────────────────────────────────────────────────────────────────────────────


def fenced(text: str, language: str) -> list[str]:
    return [found["body"] for found in FENCE.finditer(text) if found["language"] == language]


def readme_section(title: str) -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


@pytest.mark.parametrize("page", ["README.md", "docs/configuration.md", "docs/integrity.md"])
def test_plans_in_pages_can_be_read(page: str, tmp_path: Path) -> None:
    plans = fenced((ROOT / page).read_text(encoding="utf-8"), "yaml")
    assert plans
    for plan in plans:
        assert read_plan(plan.encode(), page, root=tmp_path).tasks


@pytest.mark.slow
@pytest.mark.parametrize("title", ["At a terminal", "In CI", "From a coding agent", "Many tasks"])
def test_the_shell_commands_of_the_readme_work_as_written(title: str, tmp_path: Path) -> None:
    project = sample(tmp_path)
    section = readme_section(title)
    for plan in fenced(section, "yaml"):
        (project.root / "iterctl.yaml").write_text(plan)
    scripts = fenced(section, "sh")
    assert scripts
    path = f"{project.tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    for script in scripts:
        ran = project.run("bash", "-euo", "pipefail", "-c", script, PATH=path)
        assert ran.code == 0, ran.out + ran.err
        assert "Traceback" not in ran.err


def sample(folder: Path) -> Project:
    """The example package without its plan, and its agent as `my-agent`."""
    project = Project(folder / "project", folder / "state", folder / "tools")
    shutil.copytree(ROOT / "examples/package-with-agent", project.root, ignore=shutil.ignore_patterns("iterctl.yaml"))
    project.tools.mkdir()
    agent = project.tools / "my-agent"
    agent.write_text(f'#!/bin/sh\nexec "{sys.executable}" agent.py\n')
    agent.chmod(0o755)
    git(project.root, "init", "-q")
    git(project.root, "add", "-A")
    git(project.root, "commit", "-q", "-m", "first")
    return project


@pytest.mark.slow
def test_every_key_of_the_documents_is_described(project: Project) -> None:
    page = (ROOT / "docs/reports.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^### `(iterctl\.\w+/1)`\n(.*?)(?=^### |\Z)", page, re.MULTILINE | re.DOTALL))
    ran = project.iterate("--iterate-max=1", "--iterate-format=json", "--junitxml=report.xml")
    assert ran.code == 10, ran.err
    run = ran.json
    found = {
        "iterctl.run/1": {*run, *run["tasks"][0], *run["tasks"][0]["history"][0]},
        "iterctl.report/1": set(project.iterctl("report", "--format", "json").json),
        "iterctl.audit/1": {
            *(audit := project.iterctl("audit", "--format", "json").json),
            *audit["tasks"][0],
            *audit["tasks"][0]["integrity"],
        },
        "iterctl.feedback/1": set(project.iterctl("feedback", "report.xml", "--format", "json").json),
        "iterctl.memory/1": {*(kept := project.iterctl("memory", "list", "--format", "json").json), *kept["keys"][0]},
        "iterctl.status/1": {*(status := project.iterctl("status", "--format", "json").json), *status["runs"][0]},
    }
    assert sections.keys() == found.keys()
    for schema, keys in found.items():
        described = set(re.findall(r"`(\w+)`", sections[schema])) | {"schema"}
        assert keys <= described, schema


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        os.environ["XDG_STATE_HOME"] = home
        refresh()
