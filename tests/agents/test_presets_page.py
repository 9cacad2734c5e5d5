"""docs/presets.md says what is so: every command that is run, and an agent of one's own that works as written."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from pytest_iterctl.agents.command import call_command
from pytest_iterctl.control.evidence import TurnEvidence
from pytest_iterctl.plan.load import read_plan
from pytest_iterctl.plan.model import PLACEHOLDERS, Plan
from pytest_iterctl.plan.presets import preset_names, presets, with_preset
from pytest_iterctl.plan.reads import Reads, Rule
from tests.agents.turns import never_stop, turn_for

PAGE = (Path(__file__).parents[2] / "docs" / "presets.md").read_text(encoding="utf-8")

#: The tool of the example. It does as the prompt says: which lines to print, and how to end.
MY_TOOL = """
import json, pathlib, sys
given = sys.argv[1:]
prompt = pathlib.Path(given[given.index("--prompt") + 1]).read_text()
play = json.loads(prompt)
print("my-tool is thinking")
for line in play["lines"]:
    print(json.dumps(line))
print(play.get("stderr", ""), file=sys.stderr)
pathlib.Path("argv.json").write_text(json.dumps(given))
sys.exit(play.get("exit", 0))
"""


def plans() -> list[Plan]:
    fenced = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return [read_plan(text.encode(), "docs/presets.md", root=Path()) for text in fenced]


def test_the_plans_can_be_read_and_their_agents_put_together() -> None:
    for plan in plans():
        assert plan.tasks
        assert all(with_preset(agent).command for agent in plan.agents.values())


@pytest.mark.parametrize("name", preset_names())
def test_every_command_that_is_run_is_shown(name: str) -> None:
    section = PAGE.split(f": `{name}`\n", 1)[1].split("\n## ", 1)[0].split("\n### ", 1)[0]
    shown = " ".join(section.split())
    preset = presets()[name]
    for command in (preset.command, preset.resume):
        assert command is None or shlex.join(command) in shown
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))
    assert preset.version is not None
    assert (preset.version.tested or "not yet") in row
    assert all(f"`{glob}`" in row for glob in preset.leaves)
    assert all(f"`{bound[0]}`" in row for bound in (preset.budget.max_cost, preset.budget.max_turns) if bound)


def test_every_word_that_can_be_written_is_described() -> None:
    described = PAGE.split("## Your own tool", 1)[1]
    words = {*(f"{{{word}}}" for word in PLACEHOLDERS), *Reads.model_fields, *Rule.model_fields}
    assert [word for word in sorted(words) if f"`{word}`" not in described and f"{word}:" not in described] == []


def call_mine(folder: Path, monkeypatch: pytest.MonkeyPatch, prompt: str, **changes: object) -> TurnEvidence:
    program = folder / "bin" / "my-tool"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!{sys.executable}\n{MY_TOOL}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    (agent,) = (plan.agents["mine"] for plan in plans() if "mine" in plan.agents)
    return call_command(turn_for(agent, folder, prompt=prompt, **changes), never_stop).evidence


END = '{"event": "end", "ok": true, "session": "s1", "usage": {"in": 120, "out": 30}, "usd": 0.01, "said": "Done."}'


def test_the_record_in_the_text_is_read_as_the_example_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert END in " ".join(PAGE.split())
    evidence = call_mine(tmp_path, monkeypatch, f'{{"lines": [{{"event": "step"}}, {END}]}}')
    assert evidence.outcome == "done"
    assert (evidence.session_id, evidence.cost_usd, evidence.tokens, evidence.text) == ("s1", 0.01, 150, "Done.")


def test_the_example_goes_on_with_a_session_and_tells_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call_mine(tmp_path, monkeypatch, f'{{"lines": [{END}]}}', resume="s1", budget={"max_cost": 2.5})
    given = (tmp_path / "tree" / "argv.json").read_text()
    assert '"--continue", "s1", "--spend-at-most", "2.50"' in given


@pytest.mark.parametrize(
    ("prompt", "outcome", "wait"),
    [
        ('{"lines": [{"event": "end", "ok": false, "why": "busy", "code": 429, "retry_after": 7}]}', "rate-limited", 7),
        ('{"lines": [{"event": "end", "ok": false, "why": "missing key"}], "exit": 1}', "not-logged-in", None),
        ('{"lines": [{"event": "end", "ok": false, "why": "the key is bad"}]}', "crashed", None),
        ('{"lines": [], "exit": 69}', "no-network", None),
        ('{"lines": [], "exit": 1, "stderr": "my-tool: budget used up"}', "out-of-budget", None),
        ('{"lines": [{"event": "denied", "tool": "shell"}, {"event": "end", "ok": true}]}', "tools-denied", None),
        ('{"lines": [{"event": "end", "said": "Hm.\\nITERCTL-QUESTION: Which one?"}]}', "asked", None),
        ('{"lines": [{"event": "step"}]}', "unreadable", None),
    ],
)
def test_the_example_s_failures_are_known(
    prompt: str, outcome: str, wait: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evidence = call_mine(tmp_path, monkeypatch, prompt)
    assert (evidence.outcome, evidence.retry_after) == (outcome, wait)
