from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_iterctl.errors import ExitCode, PlanError
from pytest_iterctl.plan.load import find_plan, load_plan, read_plan
from pytest_iterctl.plan.model import Plan

GOOD = """\
version: 1
settings:
  max_iterations: 5
  safety: {level: normal, max_total_cost: 7.5}
  timeout: 90s
  agent: coder
agents:
  coder: {command: [my-agent, --fix], timeout: 5m}
  critic: {command: my-critic --strict}
tasks:
  - id: task-003
    prompt: Tokens must carry the user id.
    tests: [tests/auth, -k, login]
    review: [critic, person]
  - id: web
    needs: [task-003]
    test: {command: npm test, junit: reports/*.xml}
"""


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository to stand in, and a PATH with one program."""
    programs = tmp_path / "bin"
    programs.mkdir()
    _program(programs / "my-program")
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _program(path: Path) -> None:
    path.write_text("#!/bin/sh\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def load(text: str, name: str = "iterctl.yaml") -> Plan:
    Path(name).write_text(text, encoding="utf-8")
    return load_plan(Path(name))


def problems(text: str, name: str = "iterctl.yaml") -> list[str]:
    """The first line of each problem, without the name of the file, and its hint."""
    with pytest.raises(PlanError) as caught:
        load(text, name)
    assert caught.value.exit_code == ExitCode.USAGE
    found = []
    for block in caught.value.problems:
        lines = block.splitlines()
        hint = lines[-1] if lines[-1].startswith("hint: ") else ""
        found.append(lines[0].removeprefix(f"error: {name}:") + (f" | {hint.removeprefix('hint: ')}" if hint else ""))
    return found


def test_a_plan_is_read_as_it_is_written() -> None:
    plan = load(GOOD)
    assert plan.settings.max_iterations == 5
    assert plan.settings.timeout == 90.0
    assert plan.settings.safety is not None
    assert plan.settings.safety.max_total_cost == 7.5
    assert plan.agents["critic"].command == ("my-critic", "--strict")
    assert plan.tasks[0].tests == ("tests/auth", "-k", "login")
    assert plan.tasks[1].test is not None
    assert plan.tasks[1].test.command == ("npm", "test")
    assert plan.tasks[1].needs == ("task-003",)


def test_the_same_plan_can_be_written_as_json_and_as_toml() -> None:
    plan = load(GOOD)
    as_json = json.dumps(
        {
            "version": 1,
            "settings": {
                "max_iterations": 5,
                "safety": {"level": "normal", "max_total_cost": 7.5},
                "timeout": "90s",
                "agent": "coder",
            },
            "agents": {
                "coder": {"command": ["my-agent", "--fix"], "timeout": "5m"},
                "critic": {"command": "my-critic --strict"},
            },
            "tasks": [
                {
                    "id": "task-003",
                    "prompt": "Tokens must carry the user id.",
                    "tests": ["tests/auth", "-k", "login"],
                    "review": ["critic", "person"],
                },
                {"id": "web", "needs": ["task-003"], "test": {"command": "npm test", "junit": "reports/*.xml"}},
            ],
        }
    )
    assert load(as_json, "plan.json") == plan
    as_toml = """
[project]
name = "x"
[tool.iterctl]
version = 1
[tool.iterctl.settings]
max_iterations = 5
safety = {level = "normal", max_total_cost = 7.5}
timeout = "90s"
agent = "coder"
[tool.iterctl.agents]
coder = {command = ["my-agent", "--fix"], timeout = "5m"}
critic.command = "my-critic --strict"
[[tool.iterctl.tasks]]
id = "task-003"
prompt = "Tokens must carry the user id."
tests = ["tests/auth", "-k", "login"]
review = ["critic", "person"]
[[tool.iterctl.tasks]]
id = "web"
needs = ["task-003"]
[tool.iterctl.tasks.test]
command = "npm test"
junit = "reports/*.xml"
"""
    assert load(as_toml, "pyproject.toml") == plan


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # unknown keys
        (
            "settings:\n  max_iteration: 20\n",
            "2:3: settings.max_iteration: unknown key | did you mean `max_iterations`?",
        ),
        ("task: []\n", "1:1: task: unknown key | did you mean `tasks`?"),
        ("max_iterations: 3\n", "1:1: max_iterations: unknown key | `max_iterations` belongs under `settings`"),
        (
            "agents:\n  a: {comand: x}\n",
            "2:7: agents.a.comand: unknown key | did you mean `command`?",
        ),
        (
            "tasks:\n  - id: a\n    need: [b]\n",
            "3:5: tasks[0].need: unknown key | did you mean `needs`?",
        ),
        (
            "settings:\n  safety:\n    max_total_cots: 3\n",
            "3:5: settings.safety.max_total_cots: unknown key | did you mean `max_total_cost`?",
        ),
        (
            "tasks:\n  - id: a\n    test: {command: x, junit: y, juni: z}\n",
            "3:34: tasks[0].test.juni: unknown key | did you mean `junit`?",
        ),
        ("zebra: 1\n", "1:1: zebra: unknown key"),
        # types
        (
            "settings:\n  max_iterations: '3'\n",
            "2:19: settings.max_iterations: expected an integer, got a string | remove the quotation marks",
        ),
        ("settings:\n  max_iterations: 3.0\n", "2:19: settings.max_iterations: expected an integer, got a number"),
        ("settings:\n  max_iterations: true\n", "2:19: settings.max_iterations: expected an integer, got true"),
        ("settings:\n  max_iterations: 0\n", "2:19: settings.max_iterations: must be at least 1"),
        ("settings:\n  max_iterations: 20000\n", "2:19: settings.max_iterations: must be at most 10000"),
        (
            "settings:\n  auto_retry_on_test_fail: no\n",
            "2:28: settings.auto_retry_on_test_fail: expected true or false, got a string",
        ),
        (
            "settings:\n  on_escalate: bases\n",
            "2:16: settings.on_escalate: expected `best`, `last` or `base`, got `bases` | did you mean `base`?",
        ),
        (
            "settings:\n  timeout: 5 parsecs\n",
            "2:12: settings.timeout: expected a duration such as 90s, 5m or 1h",
        ),
        ("settings:\n  timeout: 0\n", "2:12: settings.timeout: a duration must be more than 0 and at most a year"),
        (
            "settings:\n  safety: normall\n",
            (
                "2:11: settings.safety: expected `permissive`, `normal` or `paranoid`, got `normall`"
                " | did you mean `normal`?"
            ),
        ),
        ("settings:\n  safety: 3\n", "2:11: settings.safety: expected a table, got an integer"),
        (
            "settings:\n  safety: {max_total_cost: '7'}\n",
            "2:28: settings.safety.max_total_cost: expected a number, got a string | remove the quotation marks",
        ),
        (
            "settings:\n  safety: {max_total_cost: .nan}\n",
            "2:28: settings.safety.max_total_cost: must be at most 1000000",
        ),
        (
            "settings:\n  review: person\n",
            "2:11: settings.review: expected a list, got a string | write it as a list: `[person]`",
        ),
        ("settings:\n", "1:10: settings: expected a table, got nothing"),
        ("settings: []\n", "1:11: settings: expected a table, got a list"),
        ("tasks: {}\n", "1:1: tasks: expected a list, got a table"),
        ("tasks:\n  - 3\n", "2:5: tasks[0]: expected a table, got an integer"),
        (
            "tasks:\n  - {id: a, tests: [1]}\n",
            "2:21: tasks[0].tests[0]: expected a string, got an integer | put it in quotation marks",
        ),
        (
            "tasks:\n  - {id: a, tests: 5}\n",
            "2:20: tasks[0].tests: expected a list, got an integer",
        ),
        ("tasks:\n  - tests: [x]\n", "2:5: tasks[0]: `id` is missing"),
        ("tasks:\n  - {id: a, test: {command: x}}\n", "2:19: tasks[0].test: `junit` is missing"),
        (
            "tasks:\n  - id: a\n    tests: [x]\n    test: {command: x, junit: y}\n",
            "2:5: tasks[0]: a task has either tests (pytest arguments) or test (a command), not both",
        ),
        ("version: 2\n", "1:10: version: expected `1`, got 2"),
        ("version: true\n", "1:10: version: expected 1, got true or false"),
        ("agents:\n  a:\n    command: []\n", "3:14: agents.a.command: must not be empty"),
        ("agents:\n  a:\n    command: ''\n", "3:14: agents.a.command: must not be empty"),
        (
            "agents:\n  a:\n    command: x 'y\n",
            "3:14: agents.a.command: can't be split into arguments: No closing quotation",
        ),
        (
            "agents:\n  a:\n    command: [x, 1]\n",
            "3:18: agents.a.command[1]: expected a string, got an integer | put it in quotation marks",
        ),
        ("agents:\n  a: {}\n", "2:3: agents.a: an agent needs exactly one of command, hook and person"),
        (
            "agents:\n  a: {hook: x, person: true}\n",
            "2:3: agents.a: an agent needs exactly one of command, hook and person",
        ),
        (
            "agents:\n  a: {command: x, prompt: file}\n",
            "2:3: agents.a: prompt: file needs {prompt_file} in one of the command's arguments",
        ),
        (
            "agents:\n  a b: {hook: x}\n",
            (
                "2:3: agents['a b']: `a b` is not a name: 1 to 64 letters, digits, `.`, `_` or `-`,"
                " the first a letter or digit"
            ),
        ),
        (
            "agents:\n  a: {hook: x, env: {A=B: y}}\n",
            "2:22: agents.a.env['A=B']: `A=B` is not the name of an environment variable",
        ),
        (
            "agents:\n  a: {hook: x, env: {A: 1}}\n",
            "2:25: agents.a.env.A: expected a string, got an integer | put it in quotation marks",
        ),
        ("settings: {agent: ''}\n", "1:19: settings.agent: must not be empty"),
        (
            'tasks:\n  - id: a\n    prompt: "x\\0"\n',
            "3:13: tasks[0].prompt: has a NUL character | programs can't be given any",
        ),
        # the top
        ("- a\n", "1:1: expected a table of keys | a plan has the keys `settings`, `agents` and `tasks`"),
        ("hello\n", "1:1: expected a table of keys | a plan has the keys `settings`, `agents` and `tasks`"),
        # what a later version will know
        ("settings: {until: tests}\n", "1:12: settings.until: is not supported by this version | remove it"),
        ("sandbox: none\n", "1:1: sandbox: unknown key | `sandbox` belongs under `settings`"),
        (
            "tasks:\n  - id: a\n    stages: []\n",
            "3:5: tasks[0].stages: is not supported by this version | remove it",
        ),
        (
            "agents:\n  a: {preset: claude, for_gaps: [b]}\n",
            "2:23: agents.a.for_gaps: is not supported by this version | remove it",
        ),
        (
            "agents:\n  a: {preset: claude, fallback: [nobody-here]}\n",
            "2:34: agents.a.fallback[0]: unknown agent `nobody-here`",
        ),
        (
            "agents:\n  a: {preset: claude, fallback: [a]}\n",
            "2:34: agents.a.fallback[0]: `a` can't take over from itself | name another agent",
        ),
        (
            "settings: {safety: {allow_outside_write: true}}\n",
            "1:21: settings.safety.allow_outside_write: unknown key | did you mean `allow_outside_writes`?",
        ),
        # tasks
        (
            "tasks:\n  - {id: a}\n  - {id: a}\n",
            "3:10: tasks[1].id: duplicate task id `a` | each task needs an id of its own",
        ),
        (
            "tasks:\n  - {id: login}\n  - {id: Login}\n",
            "3:10: tasks[1].id: differs from `login` only by case | choose an id that differs more",
        ),
        (
            "tasks:\n  - {id: a.lock}\n",
            (
                "2:10: tasks[0].id: `a.lock` can't be part of a git ref"
                " | an id has no `..` and does not end in `.` or `.lock`"
            ),
        ),
        (
            "tasks:\n  - {id: a..b}\n",
            (
                "2:10: tasks[0].id: `a..b` can't be part of a git ref"
                " | an id has no `..` and does not end in `.` or `.lock`"
            ),
        ),
        (
            "tasks:\n  - {id: a.}\n",
            "2:10: tasks[0].id: `a.` can't be part of a git ref | an id has no `..` and does not end in `.` or `.lock`",
        ),
        (
            "tasks:\n  - {id: login}\n  - {id: b, needs: [logn]}\n",
            "3:21: tasks[1].needs[0]: unknown task `logn` | did you mean `login`?",
        ),
        (
            "tasks:\n  - {id: a, needs: [a]}\n",
            "2:21: tasks[0].needs[0]: a task can't need itself | remove it",
        ),
        (
            "tasks:\n  - {id: a, needs: [b]}\n  - {id: b, needs: [a]}\n",
            "2:13: tasks[0].needs: tasks need each other: a -> b -> a",
        ),
        (
            "tasks:\n  - id: a\n    safety: normal\n",
            (
                "3:5: tasks[0].safety: belongs under settings: safety limits hold for the whole run"
                " | move it to `settings`"
            ),
        ),
        # agents
        (
            "settings: {agent: codr}\nagents:\n  coder: {hook: x}\n",
            "1:19: settings.agent: unknown agent `codr` | did you mean `coder`?",
        ),
        (
            "tasks:\n  - id: a\n    review: [person, persn]\n",
            "3:22: tasks[0].review[1]: unknown agent `persn` | did you mean `person`?",
        ),
        ("settings: {agent: no-such-program --fix}\n", "1:19: settings.agent: unknown agent `no-such-program`"),
        (
            "settings: {agent: repair}\n",
            "1:19: settings.agent: agent `repair` is not supported by this version | name a command line instead",
        ),
        (
            'settings: {agent: "my-program \'x"}\n',
            (
                "1:19: settings.agent: `my-program 'x` can't be split into arguments: No closing quotation"
                " | close the quotation marks"
            ),
        ),
        ("agents:\n  hook: {hook: x}\n", "2:3: agents.hook: `hook` is a built-in agent | choose another name"),
        ("agents:\n  repair: {hook: x}\n", "2:3: agents.repair: `repair` is a built-in agent | choose another name"),
    ],
)
def test_each_mistake_is_told_at_its_place(text: str, expected: str) -> None:
    assert problems(text) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[tool.iterctl.settings]\nmax_iteration = 20\n",
            "2:1: tool.iterctl.settings.max_iteration: unknown key | did you mean `max_iterations`?",
        ),
        (
            '[tool.iterctl]\nsettings = { agent = "person", timeout = "soon" }\n',
            "2:42: tool.iterctl.settings.timeout: expected a duration such as 90s, 5m or 1h",
        ),
        (
            '[[tool.iterctl.tasks]]\nid = "a"\n[[tool.iterctl.tasks]]\nid = "b"\nneeds = ["a", "c"]\n',
            "5:15: tool.iterctl.tasks[1].needs[1]: unknown task `c`",
        ),
        ("[[tool.iterctl.tasks]]\nprompt = 'x'\n", "1:1: tool.iterctl.tasks[0]: `id` is missing"),
        (
            "[tool.iterctl]\ntasks = [{id = 'a', prompt = 2026-11-18}]\n",
            "2:30: tool.iterctl.tasks[0].prompt: a date is not expected here | put it in quotation marks if it is text",
        ),
        ("[tool]\niterctl = 3\n", "2:1: tool.iterctl: expected a table of keys"),
        ("[tool.iterctl.settings\n", "1:23: Expected ']' at the end of a table declaration"),
    ],
)
def test_mistakes_in_a_project_file_are_told_at_their_place(text: str, expected: str) -> None:
    (found,) = problems(text, "pyproject.toml")
    assert found.startswith(expected)


def test_a_project_file_without_our_table_is_no_plan() -> None:
    assert problems("[tool.other]\nx = 1\n", "pyproject.toml") == [
        " has no table [tool.iterctl] | name another plan, or add it"
    ]


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file() -> None:
    tasks = "tasks:\n  - {id: a, needs: [x]}\n  - {id: a, tests: [1]}\n"
    text = f"{tasks}settings: {{agent: nobody, timeout: -1, foo: 1}}\nversion: 7\n"
    assert [problem.split(":")[0:2] for problem in problems(text)] == [
        ["2", "21"],
        ["3", "10"],
        ["3", "21"],
        ["4", "19"],
        ["4", "36"],
        ["4", "40"],
        ["5", "10"],
    ]


def test_a_problem_is_shown_with_its_line() -> None:
    with pytest.raises(PlanError) as caught:
        load("settings:\n  max_iteration: 20\n")
    assert caught.value.render() == (
        "error: iterctl.yaml:2:3: settings.max_iteration: unknown key\n"
        "    2 |   max_iteration: 20\n"
        "      |   ^\n"
        "hint: did you mean `max_iterations`?"
    )


def test_a_mistake_below_an_alias_is_told_where_it_is_written() -> None:
    text = "agents:\n  a: &x\n    comand: y\n  b: *x\n"
    assert problems(text) == [
        "3:5: agents.a.comand: unknown key | did you mean `command`?",
        "3:5: agents.b.comand: unknown key | did you mean `command`?",
    ]


@pytest.mark.parametrize("key", ["x", "max_iterationz"])
def test_thousands_of_mistakes_are_told_quickly_and_in_part(key: str) -> None:
    text = "settings:\n" + "".join(f"  {key}{number}: 1\n" for number in range(40_000))
    started = time.monotonic()
    found = problems(text)
    assert time.monotonic() - started < 60
    assert len(found) == 51
    assert found[-1] == "and 39950 more"


@pytest.mark.parametrize(
    "word", ["person", "hook", "coder", "my-program --fast", "./scripts/agent --x", "scripts/agent", "agent.sh -q"]
)
def test_an_agent_is_a_name_a_program_or_a_file_of_the_repository(root: Path, word: str) -> None:
    (root / "scripts").mkdir()
    _program(root / "scripts" / "agent")
    _program(root / "agent.sh")
    plan = load(f"settings: {{agent: '{word}'}}\nagents: {{coder: {{hook: x}}}}\n")
    assert plan.settings.agent == word


def test_files_are_looked_for_under_the_given_root(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "plan.yaml"
    elsewhere.write_text("settings: {agent: ./agent}\n")
    _program(root / "agent")
    assert load_plan(elsewhere, root=root).settings.agent == "./agent"
    with pytest.raises(PlanError, match="unknown agent"):
        load_plan(elsewhere)


@pytest.mark.parametrize(
    ("prepare", "expected"),
    [
        (lambda path: None, "error: plan.yaml: there is no such file\nhint: check the path, or write a plan there"),
        (lambda path: path.mkdir(), "error: plan.yaml: is a directory\nhint: name the plan in it"),
        (lambda path: path.symlink_to(path), "error: plan.yaml: can't be read: Too many levels of symbolic links"),
        (
            lambda path: path.write_bytes(b"a: 1\n" * 2_000_000),
            "error: plan.yaml: has 10,000,000 bytes, at most 1,000,000 are read",
        ),
    ],
)
def test_a_file_that_can_not_be_read_is_told_in_one_line(prepare: object, expected: str) -> None:
    assert callable(prepare)
    path = Path("plan.yaml")
    prepare(path)
    with pytest.raises(PlanError) as caught:
        load_plan(path)
    assert caught.value.render() == expected


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_told_in_one_line() -> None:
    path = Path("plan.yaml")
    path.write_text(GOOD)
    path.chmod(0)
    with pytest.raises(PlanError, match="can't be read: Permission denied"):
        load_plan(path)


def test_an_endless_file_is_read_only_up_to_the_limit() -> None:
    with pytest.raises(PlanError, match="at most 1,000,000 are read"):
        load_plan(Path("/dev/zero"))


def test_a_path_outside_of_here_is_shown_whole(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("elsewhere") / "iterctl.yaml"
    with pytest.raises(PlanError) as caught:
        load_plan(path)
    assert str(path) in caught.value.render()


class TestFindPlan:
    def test_no_plan_is_no_error(self, root: Path) -> None:
        assert find_plan(root) is None

    @pytest.mark.parametrize("name", ["iterctl.yaml", "iterctl.yml"])
    def test_a_plan_has_a_file_of_its_own(self, root: Path, name: str) -> None:
        (root / name).write_text(GOOD)
        assert find_plan(root) == root / name

    def test_a_plan_is_a_table_of_the_project_file(self, root: Path) -> None:
        (root / "pyproject.toml").write_text("[tool.iterctl.settings]\nmax_iterations = 3\n")
        assert find_plan(root) == root / "pyproject.toml"

    @pytest.mark.parametrize(
        "text", ["", "[tool.iterctl]\n", "# iterctl\n[tool]\nx = 1\n", "[project]\nbroken", "[iterctl]\na = 1\n"]
    )
    def test_a_project_file_without_settings_for_us_is_no_plan(self, root: Path, text: str) -> None:
        (root / "pyproject.toml").write_text(text)
        assert find_plan(root) is None
        (root / "iterctl.yaml").write_text(GOOD)
        assert find_plan(root) == root / "iterctl.yaml"

    def test_two_plans_are_an_error_that_names_both(self, root: Path) -> None:
        (root / "iterctl.yaml").write_text(GOOD)
        (root / "pyproject.toml").write_text("[tool.iterctl.settings]\nmax_iterations = 3\n")
        with pytest.raises(PlanError, match=r"2 plans: iterctl\.yaml and pyproject\.toml \[tool\.iterctl\]"):
            find_plan(root)

    def test_two_spellings_of_the_name_are_an_error_too(self, root: Path) -> None:
        (root / "iterctl.yaml").write_text(GOOD)
        (root / "iterctl.yml").write_text(GOOD)
        with pytest.raises(PlanError, match=r"iterctl\.yaml and iterctl\.yml"):
            find_plan(root)

    def test_a_broken_project_file_that_mentions_us_is_told(self, root: Path) -> None:
        (root / "pyproject.toml").write_text("[tool.iterctl\n")
        with pytest.raises(PlanError, match=r"pyproject\.toml:1:14"):
            find_plan(root)

    def test_a_link_that_leads_nowhere_is_found_and_told_when_loaded(self, root: Path) -> None:
        (root / "iterctl.yaml").symlink_to(root / "gone.yaml")
        path = find_plan(root)
        assert path is not None
        with pytest.raises(PlanError, match="there is no such file"):
            load_plan(path)


plan_words = st.sampled_from(
    [
        *("version", "settings", "agents", "tasks", "id", "needs", "agent", "review", "tests", "test", "command"),
        *("safety", "level", "timeout", "max_iterations", "prompt", "person", "hook", "normal", "a", "b", "[key]"),
    ]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | plan_words | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plan_words | st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@unhurried
@given(st.dictionaries(plan_words, values, max_size=4))
def test_any_data_is_a_plan_or_a_plan_error(data: dict[str, object]) -> None:
    text = json.dumps(data).encode()
    try:
        plan = read_plan(text, "f.json", root=Path())
    except PlanError as error:
        assert error.render().startswith("error: f.json")
    else:
        assert isinstance(plan, Plan)


@unhurried
@given(st.binary(max_size=200) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "replace")), st.booleans())
def test_any_bytes_are_a_plan_or_a_plan_error(data: bytes, is_toml: bool) -> None:
    try:
        plan = read_plan(data, "f", root=Path(), is_toml=is_toml)
    except PlanError as error:
        assert error.render().startswith("error: f")
    else:
        assert isinstance(plan, Plan)


@unhurried
@given(st.integers(0, len(GOOD)), st.integers(0, 30), st.text(max_size=10))
def test_any_edit_of_a_good_plan_is_a_plan_or_a_plan_error(at: int, removed: int, inserted: str) -> None:
    text = GOOD[:at] + inserted + GOOD[at + removed :]
    try:
        read_plan(text.encode("utf-8", "replace"), "f", root=Path())
    except PlanError as error:
        assert error.problems
