from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.errors import ExitCode, SafetyError, UsageError
from pytest_iterctl.plan.freeze import LIMITS, freeze
from pytest_iterctl.plan.frozen import FrozenPlan, NamedAgent, Settings
from pytest_iterctl.plan.model import (
    Agent,
    Plan,
    SafetyLevel,
    SafetyPatch,
    SandboxMode,
    SettingsPatch,
    Task,
    TestCommand,
)

NOTHING = SettingsPatch()


def frozen(
    plan: Plan | None = None,
    *,
    root: Path | None = None,
    command_line: SettingsPatch = NOTHING,
    environment: SettingsPatch = NOTHING,
    ini: SettingsPatch = NOTHING,
    only_task: str | None = None,
) -> FrozenPlan:
    return freeze(
        plan or Plan(),
        root=root or Path(),
        command_line=command_line,
        environment=environment,
        ini=ini,
        source="iterctl.yaml",
        only_task=only_task,
        python="python-of-the-test",
    )


def test_what_nobody_says_has_its_default() -> None:
    plan = frozen(Plan(tasks=(Task(id="a"),)))
    (task,) = plan.tasks
    assert task.settings == Settings(python="python-of-the-test")
    assert task.agent is None
    assert task.reviewers == ()
    assert task.tests == ()
    assert plan.limits == LIMITS["normal"]
    assert plan.source == "iterctl.yaml"
    assert not plan.discover


def test_a_plan_without_tasks_is_one_task_and_whatever_the_suite_declares() -> None:
    plan = freeze(
        Plan(settings=SettingsPatch(max_iterations=4)),
        root=Path(),
        command_line=NOTHING,
        environment=NOTHING,
        ini=NOTHING,
        source="",
        default_tests=("tests", "-k", "x"),
        default_prompt="mend it",
        commit_message="done",
    )
    (task,) = plan.tasks
    assert (task.id, task.tests, task.prompt) == ("pytest", ("tests", "-k", "x"), "mend it")
    assert task.settings.max_iterations == 4
    assert task.settings.python == sys.executable
    assert plan.discover
    assert plan.commit_message == "done"


@pytest.mark.parametrize(("only_task", "only"), [(None, ""), ("pytest", ""), ("login", "login")])
def test_one_task_of_those_that_the_suite_will_declare_can_be_chosen(only_task: str | None, only: str) -> None:
    plan = frozen(only_task=only_task)
    assert plan.discover
    assert plan.only == only


values = st.none() | st.integers(1, 9)


@given(values, values, values, values, values)
def test_the_highest_origin_that_says_something_wins(
    command_line: int | None, environment: int | None, task: int | None, settings: int | None, ini: int | None
) -> None:
    plan = Plan(
        settings=SettingsPatch(max_iterations=settings),
        tasks=(Task(id="a", max_iterations=task), Task(id="other")),
    )
    result = frozen(
        plan,
        command_line=SettingsPatch(max_iterations=command_line),
        environment=SettingsPatch(max_iterations=environment),
        ini=SettingsPatch(max_iterations=ini),
    )
    by_rank = [command_line, environment, task, settings, ini, 3]
    assert result.tasks[0].settings.max_iterations == next(value for value in by_rank if value is not None)
    del by_rank[2]
    assert result.tasks[1].settings.max_iterations == next(value for value in by_rank if value is not None)


def test_each_setting_is_looked_up_alone() -> None:
    plan = Plan(
        settings=SettingsPatch(backoff="none", max_iterations=8, auto_retry_on_test_fail=True),
        tasks=(Task(id="a", on_escalate="last", auto_retry_on_test_fail=False),),
    )
    result = frozen(
        plan,
        command_line=SettingsPatch(max_iterations=2),
        environment=SettingsPatch(python="other-python"),
        ini=SettingsPatch(backoff="linear", checkpoint_interval=5),
    )
    assert result.tasks[0].settings == Settings(
        backoff="none",
        max_iterations=2,
        on_escalate="last",
        auto_retry_on_test_fail=False,
        checkpoint_interval=5,
        python="other-python",
    )


@pytest.mark.parametrize(
    ("timeout", "test_timeout", "expected"),
    [(None, None, (300, 300)), (60, None, (60, 60)), (None, 60, (300, 60)), (60, 90, (60, 90))],
)
def test_tests_have_the_time_of_agents_unless_they_have_their_own(
    timeout: float | None, test_timeout: float | None, expected: tuple[float, float]
) -> None:
    plan = Plan(settings=SettingsPatch(test_timeout=test_timeout), tasks=(Task(id="a"),))
    settings = frozen(plan, command_line=SettingsPatch(timeout=timeout)).tasks[0].settings
    assert (settings.timeout, settings.test_timeout) == expected


def safety(level: str | None = None, cost: float | None = None) -> SettingsPatch:
    return SettingsPatch(safety=SafetyPatch.model_validate({"level": level, "max_total_cost": cost}))


class TestSafety:
    @pytest.mark.parametrize(
        ("level", "costs", "minutes", "calls"),
        [("permissive", (10, 50), (10, 60), 1000), ("normal", (5, 20), (5, 30), 500)],
    )
    def test_a_level_sets_every_limit(
        self, level: str, costs: tuple[float, float], minutes: tuple[float, float], calls: int
    ) -> None:
        limits = frozen(Plan(settings=safety(level))).limits
        assert limits.level == level
        assert (limits.max_cost_per_iteration, limits.max_total_cost) == costs
        assert (limits.max_duration_per_iteration / 60, limits.max_total_duration / 60) == minutes
        assert limits.max_calls_per_iteration == calls

    def test_paranoid_can_not_do_without_a_sandbox(self) -> None:
        with pytest.raises(SafetyError) as caught:
            frozen(environment=safety("paranoid"), command_line=SettingsPatch(sandbox="none"))
        assert caught.value.exit_code == ExitCode.SAFETY
        assert caught.value.render() == (
            "error: safety level paranoid needs a sandbox, and sandbox: none forbids it\n"
            "hint: drop one of the two, or allow_outside_writes and allow_external_api_calls: true"
        )

    @pytest.mark.parametrize(
        ("level", "mode", "sandbox", "own_tree"),
        [
            ("permissive", None, False, False),
            ("normal", "auto", False, False),
            ("normal", "none", False, False),
            ("normal", "bwrap", True, False),
            ("permissive", "bwrap", True, False),
            ("paranoid", None, True, True),
            ("paranoid", "auto", True, True),
            ("paranoid", "bwrap", True, True),
        ],
    )
    def test_a_sandbox_is_there_where_it_is_asked_for_or_needed(
        self, level: SafetyLevel, mode: SandboxMode | None, *, sandbox: bool, own_tree: bool
    ) -> None:
        plan = frozen(Plan(settings=SettingsPatch(sandbox=mode)), command_line=safety(level))
        assert (plan.sandbox, plan.own_tree) == (sandbox, own_tree)

    def test_the_origin_that_counts_says_whether_there_is_a_sandbox(self) -> None:
        plan = Plan(settings=SettingsPatch(sandbox="bwrap"))
        assert frozen(plan, ini=SettingsPatch(sandbox="none")).sandbox
        assert not frozen(plan, environment=SettingsPatch(sandbox="none")).sandbox

    def test_paranoid_without_its_two_limits_needs_no_sandbox(self) -> None:
        free = SafetyPatch(level="paranoid", allow_external_api_calls=True, allow_outside_writes=True)
        plan = frozen(command_line=SettingsPatch(safety=free, sandbox="none"))
        assert not plan.sandbox
        assert plan.limits.max_total_cost == 5

    def test_the_network_alone_can_not_be_closed(self) -> None:
        closed = SafetyPatch(allow_external_api_calls=False)
        with pytest.raises(SafetyError, match="can't be held where outside writes are allowed"):
            frozen(command_line=SettingsPatch(safety=closed))
        both = closed.model_copy(update={"allow_outside_writes": False})
        assert frozen(command_line=SettingsPatch(safety=both)).sandbox

    def test_the_limits_of_paranoid_are_known(self) -> None:
        assert LIMITS["paranoid"].model_dump() == {
            "level": "paranoid",
            "max_cost_per_iteration": 1,
            "max_total_cost": 5,
            "max_duration_per_iteration": 120,
            "max_total_duration": 600,
            "max_calls_per_iteration": 100,
            "require_cost": False,
            "allow_destructive_operations": False,
            "allow_external_api_calls": False,
            "allow_outside_writes": False,
        }

    def test_a_single_limit_beats_the_level_beside_it(self) -> None:
        limits = frozen(Plan(settings=safety("permissive", 7.5))).limits
        assert limits == LIMITS["permissive"].model_copy(update={"max_total_cost": 7.5})

    def test_a_single_limit_beats_the_level_of_a_lower_origin(self) -> None:
        limits = frozen(Plan(settings=safety("permissive")), command_line=safety(cost=3)).limits
        assert limits == LIMITS["permissive"].model_copy(update={"max_total_cost": 3})

    def test_a_level_beats_single_limits_of_a_lower_origin(self) -> None:
        assert (
            frozen(Plan(settings=safety("normal", 7.5)), command_line=safety("permissive")).limits
            == (LIMITS["permissive"])
        )

    def test_limits_of_different_origins_add_up(self) -> None:
        ini = SettingsPatch(safety=SafetyPatch(max_calls_per_iteration=7))
        limits = frozen(Plan(settings=safety(cost=9)), ini=ini).limits
        assert limits == LIMITS["normal"].model_copy(update={"max_total_cost": 9, "max_calls_per_iteration": 7})

    patches = st.tuples(st.none() | st.sampled_from(["permissive", "normal"]), st.none() | st.integers(100, 200))

    @given(st.lists(patches, min_size=4, max_size=4))
    def test_a_limit_comes_from_the_highest_origin_that_says_something_about_it(
        self, said: list[tuple[str | None, int | None]]
    ) -> None:
        command_line, environment, settings, ini = (safety(level, cost) for level, cost in said)
        limits = frozen(Plan(settings=settings), command_line=command_line, environment=environment, ini=ini).limits
        level, cost = next(((level, cost) for level, cost in said if level or cost), (None, None))
        expected_level = next((level for level, _ in said if level), "normal")
        assert limits.level == expected_level
        if cost:
            assert limits.max_total_cost == cost
        elif level:
            assert limits.max_total_cost == LIMITS[limits.level].max_total_cost


class TestAgents:
    @pytest.fixture
    def root(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        (tmp_path / "bin").mkdir()
        for program in ("bin/on-path", "agent.sh"):
            path = tmp_path / program
            path.write_text("#!/bin/sh\n")
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        return tmp_path

    @pytest.mark.parametrize(
        ("word", "expected"),
        [
            ("coder", NamedAgent(name="coder", spec=Agent(command=("x", "--fix")), folder="")),
            ("hook", NamedAgent(name="hook", spec=Agent(hook="hook"))),
            ("person", NamedAgent(name="person", spec=Agent(person=True))),
            ("on-path --say 'a b'", NamedAgent(name="on-path", spec=Agent(command=("on-path", "--say", "a b")))),
            ("./agent.sh", NamedAgent(name="agent.sh", spec=Agent(command=("./agent.sh",)))),
            ("agent.sh -q", NamedAgent(name="agent.sh", spec=Agent(command=("./agent.sh", "-q")))),
            ("bin/on-path", NamedAgent(name="on-path", spec=Agent(command=("bin/on-path",)))),
        ],
    )
    def test_a_word_is_spelt_out(self, root: Path, word: str, expected: NamedAgent) -> None:
        plan = Plan(agents={"coder": Agent(command=("x", "--fix"))}, tasks=(Task(id="a"),))
        task = frozen(plan, root=root, command_line=SettingsPatch(agent=word, review=(word, "person"))).tasks[0]
        assert task.agent == expected
        assert task.reviewers == (expected, NamedAgent(name="person", spec=Agent(person=True)))

    def test_the_agent_of_a_task_beats_the_agent_of_the_plan(self) -> None:
        plan = Plan(
            settings=SettingsPatch(agent="person", review=("person",)),
            tasks=(Task(id="a", agent="hook", review=()), Task(id="b")),
        )
        first, second = frozen(plan).tasks
        assert first.agent is not None
        assert first.agent.name == "hook"
        assert first.reviewers == ()
        assert second.agent is not None
        assert second.agent.name == "person"
        assert len(second.reviewers) == 1

    @pytest.mark.parametrize(
        ("word", "message", "hint"),
        [
            ("codr", "unknown agent `codr`", "did you mean `coder`?"),
            (
                "no-such-program -x",
                "unknown agent `no-such-program`",
                "name an agent of the plan, `hook`, `person`, a preset or a command line",
            ),
            ("repair", "agent `repair` is not supported by this version", "name a command line instead"),
            ("'", "`'` can't be split into arguments: No closing quotation", "close the quotation marks"),
            (
                " ",
                "an agent's name is empty",
                "name an agent of the plan, `hook`, `person`, a preset or a command line",
            ),
            (
                "x" * 5000,
                f"unknown agent `{'x' * 59}…`",
                "name an agent of the plan, `hook`, `person`, a preset or a command line",
            ),
        ],
    )
    def test_an_unknown_agent_is_told(self, root: Path, word: str, message: str, hint: str) -> None:
        plan = Plan(agents={"coder": Agent(hook="x")})
        with pytest.raises(UsageError) as caught:
            frozen(plan, root=root, command_line=SettingsPatch(agent=word))
        assert (caught.value.message, caught.value.hint) == (message, hint)


class TestTasks:
    plan = Plan(
        tasks=(
            Task(id="web", needs=("login", "base"), test=TestCommand(command=("npm", "test"), junit="r.xml")),
            Task(id="docs", prompt="write"),
            Task(id="login", needs=("base",), tests=("tests/auth",)),
            Task(id="base"),
        )
    )

    def test_tasks_come_after_what_they_need_and_otherwise_as_in_the_file(self) -> None:
        tasks = frozen(self.plan).tasks
        assert [task.id for task in tasks] == ["docs", "base", "login", "web"]
        assert tasks[0].prompt == "write"
        assert tasks[2].tests == ("tests/auth",)
        assert tasks[3].needs == ("login", "base")
        assert tasks[3].test == TestCommand(command=("npm", "test"), junit="r.xml")

    def test_one_task_brings_what_it_needs(self) -> None:
        assert [task.id for task in frozen(self.plan, only_task="login").tasks] == ["base", "login"]
        assert [task.id for task in frozen(self.plan, only_task="docs").tasks] == ["docs"]

    @pytest.mark.parametrize(
        ("name", "hint"),
        [("logn", "did you mean `login`?"), ("zebra", "the plan has `web`, `docs`, `login`, `base`")],
    )
    def test_an_unknown_task_is_told(self, name: str, hint: str) -> None:
        with pytest.raises(UsageError) as caught:
            frozen(self.plan, only_task=name)
        assert (caught.value.message, caught.value.hint) == (f"the plan has no task `{name}`", hint)

    def test_a_plan_that_was_not_read_from_a_file_is_checked_too(self) -> None:
        with pytest.raises(UsageError, match="needs the unknown task `x`"):
            frozen(Plan(tasks=(Task(id="a", needs=("x",)),)))
        with pytest.raises(UsageError, match="tasks need each other: a -> b -> a"):
            frozen(Plan(tasks=(Task(id="a", needs=("b",)), Task(id="b", needs=("a",)))))


def test_a_frozen_plan_survives_the_journal() -> None:
    plan = frozen(TestTasks.plan, command_line=SettingsPatch(agent="person"))
    assert FrozenPlan.model_validate_json(plan.model_dump_json()) == plan
