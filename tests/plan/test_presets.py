"""Presets are data: the same keys as in a plan, put together with what a plan says, and frozen with it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from pytest_iterctl.errors import PlanError, UsageError
from pytest_iterctl.plan.agent_names import known_agents, missing_program, resolve_agent, unknown_agent
from pytest_iterctl.plan.freeze import freeze
from pytest_iterctl.plan.frozen import FrozenPlan, NamedAgent
from pytest_iterctl.plan.load import read_plan
from pytest_iterctl.plan.model import Agent, Plan, SettingsPatch, Task
from pytest_iterctl.plan.presets import preset_names, presets, with_preset

NOTHING = SettingsPatch()


def agent_of(text: str) -> Agent:
    return read_plan(f"agents:\n  a: {text}\n".encode(), "plan.yaml", root=Path()).agents["a"]


def problem(text: str) -> str:
    with pytest.raises(PlanError) as caught:
        read_plan(f"agents:\n  a: {text}\n".encode(), "plan.yaml", root=Path())
    return caught.value.render()


def test_all_tools_that_were_promised_are_there() -> None:
    promised = {"claude", "codex", "gemini", "qwen", "opencode", "goose", "aider", "cursor", "mini"}
    assert set(preset_names()) == promised


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_is_whole(name: str) -> None:
    preset = presets()[name]
    assert preset.command
    assert preset.reads is not None
    assert preset.outcomes
    assert preset.install
    assert preset.version is not None
    assert preset.version.command[0] == preset.command[0]
    assert preset.resume is None or preset.resume[0] == preset.command[0]
    assert not preset.pass_env  # keys of model services are passed on anyway, and nothing else is asked for


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_could_be_written_in_a_plan(name: str) -> None:
    spelt = presets()[name].model_dump_json(exclude_unset=True)
    assert agent_of(spelt) == presets()[name]


@pytest.mark.parametrize(
    ("name", "printed", "version"),
    [
        ("claude", "2.1.197 (Claude Code)", "2.1.197"),
        ("codex", "codex-cli 0.169.0", "0.169.0"),
        ("gemini", "0.61.0", "0.61.0"),
        ("qwen", "0.15.10", "0.15.10"),
        ("opencode", "1.18.33", "1.18.33"),
        ("aider", "aider 0.86.2", "0.86.2"),
        ("mini", "This is mini-swe-agent version 2.4.6.", "2.4.6"),
        ("goose", " 1.9.0", "1.9.0"),
        ("cursor", "2026.09.02-abc123", "2026.09.02-abc123"),
    ],
)
def test_the_version_is_found_in_what_the_tool_prints(name: str, printed: str, version: str) -> None:
    check = presets()[name].version
    assert check is not None
    found = re.match(check.pattern, printed)
    assert found is not None
    assert found["version"] == version


class TestPuttingTogether:
    def test_what_a_plan_says_comes_before_what_the_preset_says(self) -> None:
        agent = with_preset(agent_of("{preset: claude, timeout: 10m, arguments: [--model, opus], leaves: ['.tmp*']}"))
        assert agent.preset == "claude"
        assert agent.command == presets()["claude"].command
        assert (agent.timeout, agent.arguments, agent.leaves) == (600, ("--model", "opus"), (".tmp*",))
        assert agent.outcomes == presets()["claude"].outcomes

    def test_single_keys_of_its_tables_can_be_changed(self) -> None:
        agent = with_preset(agent_of("{preset: goose, env: {GOOSE_MODEL: x}, reads: {cost_usd: metadata.cost}}"))
        assert agent.env == {"GOOSE_MODE": "auto", "GOOSE_MODEL": "x"}
        assert agent.reads is not None
        assert agent.reads.cost_usd is not None
        assert agent.reads.tokens == presets()["goose"].reads.tokens  # type: ignore[union-attr]  # it has some

    def test_another_command_does_not_go_on_with_sessions_of_the_preset_s(self) -> None:
        agent = with_preset(agent_of("{preset: claude, command: [my-claude, -p]}"))
        assert agent.resume is None
        agent = with_preset(agent_of("{preset: claude, command: [c, -p], resume: [c, -r, '{session_id}']}"))
        assert agent.resume == ("c", "-r", "{session_id}")

    def test_another_command_is_not_asked_for_the_version_of_the_preset_s(self) -> None:
        assert with_preset(agent_of("{preset: claude, command: [my-claude, -p]}")).version is None
        own = "{preset: claude, command: [c], version: {command: c --version, pattern: '^(?P<version>.+)'}}"
        version = with_preset(agent_of(own)).version
        assert version is not None
        assert version.command == ("c", "--version")

    @pytest.mark.parametrize("key", ["command", "resume", "hook", "person", "reads", "version", "timeout", "session"])
    def test_null_says_nothing(self, key: str) -> None:
        agent = with_preset(agent_of(f"{{preset: claude, {key}: null}}"))
        assert agent == with_preset(Agent(preset="claude"))

    def test_another_command_is_given_the_prompt_as_the_preset_says(self) -> None:
        agent = with_preset(agent_of("{preset: cursor, command: [agent, '{prompt}']}"))
        assert (agent.command, agent.prompt) == (("agent", "{prompt}"), "argument")
        agent = with_preset(agent_of("{preset: aider, command: [my-aider, '{prompt_file}']}"))
        assert (agent.command, agent.prompt) == (("my-aider", "{prompt_file}"), "file")

    def test_without_a_preset_nothing_changes(self) -> None:
        agent = Agent(command=("x",))
        assert with_preset(agent) is agent

    def test_an_unknown_preset_is_told(self) -> None:
        with pytest.raises(UsageError) as caught:
            with_preset(Agent(preset="cluade"))
        assert caught.value.hint == "did you mean `claude`?"


class TestNames:
    def test_a_preset_s_name_is_an_agent(self, tmp_path: Path) -> None:
        agent = resolve_agent("claude", {}, root=tmp_path)
        assert agent == NamedAgent(name="claude", spec=with_preset(Agent(preset="claude")))
        assert unknown_agent("codex", {}, root=tmp_path) is None
        assert "gemini" in known_agents(())

    def test_a_plan_s_own_agent_comes_before_a_preset_of_that_name(self, tmp_path: Path) -> None:
        mine = Agent(command=("my-wrapper",))
        assert resolve_agent("claude", {"claude": mine}, root=tmp_path).spec == mine

    def test_a_command_line_is_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        program = tmp_path / "claude"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        assert resolve_agent("claude --print", {}, root=tmp_path).spec == Agent(command=("claude", "--print"))
        assert resolve_agent("./claude", {}, root=tmp_path).spec == Agent(command=("./claude",))

    def test_a_tool_that_is_not_installed_is_told_with_how_to_get_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        assert shutil.which("claude") is None
        agent = resolve_agent("claude", {}, root=tmp_path)
        missing = missing_program(agent, root=tmp_path)
        assert missing is not None
        assert missing.message == "agent `claude`: `claude` is not on the PATH"
        assert missing.hint == presets()["claude"].install
        (tmp_path / "claude").write_text("#!/bin/sh\n")
        (tmp_path / "claude").chmod(0o755)
        assert missing_program(agent, root=tmp_path) is None
        assert missing_program(NamedAgent(name="me", spec=Agent(person=True)), root=tmp_path) is None


class TestFreezing:
    def frozen(self, plan: Plan) -> FrozenPlan:
        return freeze(plan, root=Path(), source="", command_line=NOTHING, environment=NOTHING, ini=NOTHING)

    def test_a_frozen_plan_holds_the_whole_agent(self) -> None:
        """So that another version of the package changes nothing in a run that goes on."""
        plan = Plan(agents={"coder": Agent(preset="codex", timeout=5)}, tasks=(Task(id="a", agent="coder"),))
        frozen = FrozenPlan.model_validate_json(self.frozen(plan).model_dump_json())
        agent = frozen.tasks[0].agent
        assert agent is not None
        assert agent.spec.command == presets()["codex"].command
        assert agent.spec.outcomes == presets()["codex"].outcomes
        assert agent.spec.timeout == 5

    def test_a_plan_of_the_first_version_is_still_read(self) -> None:
        agent = NamedAgent.model_validate_json(
            '{"name": "a", "spec": {"command": ["x"], "hook": null, "person": null, "prompt": "stdin",'
            ' "timeout": null, "env": {}, "pass_env": []}, "folder": null}'
        )
        assert agent.spec == Agent(command=("x",))

    @pytest.mark.parametrize(
        ("of_task", "of_agent", "session"),
        [(None, None, None), ("fresh", None, "fresh"), (None, "resume", "resume"), ("fresh", "resume", "fresh")],
    )
    def test_a_task_says_whether_sessions_go_on_and_else_its_agent(
        self, of_task: str | None, of_agent: str | None, session: str | None
    ) -> None:
        agents = {"coder": Agent(preset="claude", session=of_agent)}  # type: ignore[arg-type]  # one of the words
        task = Task(id="a", agent="coder", session=of_task)  # type: ignore[arg-type]  # one of the words
        assert self.frozen(Plan(agents=agents, tasks=(task,))).tasks[0].session == session


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{preset: cluade}", "2:15: agents.a.preset: unknown preset `cluade`"),
        ("{preset: cluade}", "did you mean `claude`?"),
        ("{preset: 3}", "agents.a.preset: expected a string, got an integer"),
        ("{preset: claude, hook: x}", "agents.a: a preset is a command; hook and person can't go with it"),
        ("{preset: claude, prompt: file}", "agents.a: prompt: file needs {prompt_file} in one of the command's"),
        ("{preset: mini, command: [mini, -y]}", "agents.a: prompt: argument needs {prompt} in one of the command's"),
        ("{command: 'x {promt_file}'}", "unknown placeholder `{promt_file}`; did you mean `prompt_file`?"),
        ("{command: x, resume: [x, '{sesion_id}']}", "unknown placeholder `{sesion_id}`; did you mean `session_id`?"),
        ("{command: x, resume: [x, y]}", "agents.a: resume needs {session_id} in one of its arguments"),
        ("{command: 'x {session_id}'}", "agents.a: {session_id} is for resume"),
        ("{command: 'x {max_cost}'}", "agents.a: {max_cost} and {max_turns} are for the arguments under budget"),
        ("{command: 'x {prompt}'}", "agents.a: {prompt} needs prompt: argument"),
        ("{hook: x, prompt: file}", "agents.a: prompt: file is for commands"),
        ("{command: x, reads: {source: output_file}}", "needs {output_file} in one of the command's arguments"),
        ("{command: x, reads: {tokns: a}}", "2:27: agents.a.reads.tokns: unknown key"),
        ("{command: x, reads: {tokens: a..b}}", "agents.a.reads.tokens: is not a path"),
        ("{command: x, reads: {tokens: {}}}", "agents.a.reads.tokens: needs a path or a pattern"),
        ("{command: x, reads: {tokens: {pattern: '^a'}}}", "agents.a.reads.tokens: a pattern needs a named group"),
        (
            "{command: x, reads: {tokens: {pattern: '^(?P<a>b)', path: c}}}",
            "agents.a.reads.tokens: either path (with record) or pattern, not both",
        ),
        ("{command: x, reads: {format: xml}}", "agents.a.reads.format: expected `json` or `text`, got `xml`"),
        (
            "{command: x, outcomes: [{outcome: done, stdout: oops}]}",
            "agents.a.outcomes[0].stdout: a pattern must begin with ^",
        ),
        (
            "{command: x, outcomes: [{outcome: done, stdout: '^(oops'}]}",
            "agents.a.outcomes[0].stdout: is not a regular expression: missing )",
        ),
        ("{command: x, outcomes: [{outcome: rate-limit, exit_code: [1]}]}", "did you mean `rate-limited`?"),
        ("{command: x, outcomes: [{outcome: timed-out, exit_code: [1]}]}", "expected `done`, `tools-denied`"),
        ("{command: x, outcomes: [{outcome: done}]}", "agents.a.outcomes[0]: a rule needs at least one of"),
        ("{command: x, budget: {max_cots: [a]}}", "agents.a.budget.max_cots: unknown key"),
        ("{command: x, version: {command: [x], pattern: '^a'}}", "the pattern needs the group (?P<version>…)"),
        ("{preset: cursor, command: [agent, -p]}", "agents.a: prompt: argument needs {prompt} in one of the command's"),
        ("{preset: claude, command: [c, '{prompt}']}", "agents.a: {prompt} needs prompt: argument"),
        ("{preset: claude, arguments: ['{prompt}']}", "agents.a: {prompt} needs prompt: argument"),
        ("{command: x, arguments: ['{prompt}']}", "agents.a: {prompt} needs prompt: argument"),
        ("{command: x, arguments: ['{max_cost}']}", "{max_cost} and {max_turns} are for the arguments under budget"),
        ("{command: x, arguments: ['{max_turns}']}", "{max_cost} and {max_turns} are for the arguments under budget"),
        ("{command: x, session: resume}", "agents.a: session: resume needs resume, the command that goes on"),
        ("{preset: aider, session: resume}", "agents.a: session: resume needs resume, the command that goes on"),
        ("{preset: claude, command: [c], session: resume}", "agents.a: session: resume needs resume, the command"),
        ("{hook: x, session: resume}", "agents.a: session is for commands"),
        ("{person: true, session: fresh}", "agents.a: session is for commands"),
        ("{hook: x, resume: [x, '{session_id}']}", "agents.a: resume is for commands"),
        ("{command: x, leaves: ['!.env']}", "agents.a.leaves[0]: begins with `!`"),
        ("{command: x, leaves: ['#x']}", "agents.a.leaves[0]: begins with `#`"),
        ('{command: x, leaves: ["a\\nhelper.py"]}', "agents.a.leaves[0]: has a control character"),
        ("{command: x, leaves: [' ']}", "agents.a.leaves[0]: begins or ends with a blank"),
        ("{command: x, leaves: ['.x ']}", "agents.a.leaves[0]: begins or ends with a blank"),
        *(
            (f"{{command: x, leaves: ['{glob}']}}", "agents.a.leaves[0]: could take in any file")
            for glob in ("*", "**", "**/*", "**/*.py", "*.py", "/", ".", "..", ".*", "./*", "?", "[a-z]*", r"\*", "//")
        ),
        ("{command: x, budget: {beyond: -1}}", "agents.a.budget.beyond"),
        ("{command: x, session: new}", "agents.a.session: expected `fresh` or `resume`, got `new`"),
    ],
)
def test_what_is_wrong_is_told_at_its_place(text: str, told: str) -> None:
    assert told in problem(text)
