from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.errors import UsageError
from pytest_iterctl.plan.environment_settings import (
    INI_TWINS,
    environment_variable,
    settings_from_environment,
    settings_from_strings,
)
from pytest_iterctl.plan.model import Patience, Prepare, SafetyPatch, SettingsPatch


def test_each_setting_has_its_variable() -> None:
    patch = settings_from_environment(
        {
            "ITERCTL_MAX_ITERATIONS": "7",
            "ITERCTL_AUTO_RETRY_ON_TEST_FAIL": "no",
            "ITERCTL_AUTO_RETRY_ON_REVIEW_REJECT": "1",
            "ITERCTL_ESCALATION_INCLUDES_DIFF": "False",
            "ITERCTL_FEEDBACK_MAX_LENGTH": "900",
            "ITERCTL_MAX_AGENT_FAILURES": "2",
            "ITERCTL_BACKOFF": "linear",
            "ITERCTL_BACKOFF_INITIAL": "250ms",
            "ITERCTL_TIMEOUT": "90",
            "ITERCTL_TEST_TIMEOUT": "1h30m",
            "ITERCTL_ON_ESCALATE": "last",
            "ITERCTL_CHECKPOINT_INTERVAL": "0",
            "ITERCTL_SAFETY": "permissive",
            "ITERCTL_AGENT": "my-agent --fix, please",
            "ITERCTL_REVIEW": "critic, person",
            "ITERCTL_PASS_ENV": "TOKEN",
            "ITERCTL_SANDBOX": "bwrap",
            "ITERCTL_READABLE": "~/tools, /srv/data",
            "ITERCTL_PYTHON": "/opt/python",
            "ITERCTL_PROTECT": "docs/**, !docs/new",
            "ITERCTL_MAY_CHANGE": "tests/unit",
            "ITERCTL_PREPARE": "make 'all of it'",
            "ITERCTL_GATE": "fast",
            "ITERCTL_BASELINE": "strict",
            "ITERCTL_BASELINE_RUNS": "3",
            "ITERCTL_FLAKY": "fail",
            "ITERCTL_SUITE": "tests -k 'not slow'",
            "ITERCTL_HIDDEN_TESTS": "/secret",
            "ITERCTL_MUTANTS": "5",
            "ITERCTL_STRATEGY": "conservative",
            "ITERCTL_PATIENCE": "off",
        }
    )
    assert patch == SettingsPatch(
        max_iterations=7,
        auto_retry_on_test_fail=False,
        auto_retry_on_review_reject=True,
        escalation_includes_diff=False,
        feedback_max_length=900,
        max_agent_failures=2,
        backoff="linear",
        backoff_initial=0.25,
        timeout=90.0,
        test_timeout=5400.0,
        on_escalate="last",
        checkpoint_interval=0,
        safety=SafetyPatch(level="permissive"),
        agent="my-agent --fix, please",
        review=("critic", "person"),
        pass_env=("TOKEN",),
        sandbox="bwrap",
        readable=("~/tools", "/srv/data"),
        python="/opt/python",
        protect=("docs/**", "!docs/new"),
        may_change=("tests/unit",),
        prepare=Prepare(commands=(("make", "all of it"),)),
        gate="fast",
        baseline="strict",
        baseline_runs=3,
        flaky="fail",
        suite=("tests", "-k", "not slow"),
        hidden_tests=("/secret",),
        mutants=5,
        strategy="conservative",
        patience=Patience(no_change=0, same_diff=0, same_failures=0, alternating=0, no_progress=0),
    )
    assert set(patch.model_fields_set) == set(SettingsPatch.model_fields)


def test_nothing_is_said_by_variables_that_are_missing_or_empty() -> None:
    assert settings_from_environment({}) == SettingsPatch()
    assert settings_from_environment({"ITERCTL_AGENT": "", "ITERCTL_TIMEOUT": "", "OTHER": "x"}) == SettingsPatch()


def test_inside_a_run_the_environment_says_nothing() -> None:
    inner = {"ITERCTL_RUN": "20261118-1", "ITERCTL_MAX_ITERATIONS": "3", "ITERCTL_TIMEOUT": "nonsense"}
    assert settings_from_environment(inner) == SettingsPatch()


def test_what_a_run_tells_its_agents_is_no_setting() -> None:
    told = dict.fromkeys(("TASK", "STAGE", "ITERATION", "SESSION", "FEEDBACK", "SOCKET", "STATE_DIR"), "x")
    assert settings_from_environment({f"ITERCTL_{name}": value for name, value in told.items()}) == SettingsPatch()


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("max_iterations", "many", "ITERCTL_MAX_ITERATIONS: expected an integer, got `many`"),
        ("max_iterations", "0", "ITERCTL_MAX_ITERATIONS: must be at least 1"),
        ("max_iterations", "9" * 5000, "ITERCTL_MAX_ITERATIONS: expected an integer, got `999"),
        ("auto_retry_on_test_fail", "maybe", "ITERCTL_AUTO_RETRY_ON_TEST_FAIL: expected true or false, got `maybe`"),
        ("timeout", "soon", "ITERCTL_TIMEOUT: expected a duration such as 90s, 5m or 1h"),
        ("safety", "none", "ITERCTL_SAFETY: expected `permissive`, `normal` or `paranoid`, got `none`"),
        ("backoff", "lineal", "ITERCTL_BACKOFF: expected `none`, `linear` or `exponential`, got `lineal`"),
        ("pass_env", "A=B", "ITERCTL_PASS_ENV: `A=B` is not the name of an environment variable"),
        ("agent", "\udcff", "ITERCTL_AGENT: expected text, got a string"),
    ],
)
def test_a_bad_value_is_told_with_its_variable(setting: str, value: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        settings_from_environment({environment_variable(setting): value})
    assert caught.value.message.startswith(message)


def test_a_bad_value_comes_with_a_suggestion() -> None:
    with pytest.raises(UsageError) as caught:
        settings_from_strings({"on_escalate": "bestt"}, lambda name: f"--iterate-{name.replace('_', '-')}")
    assert caught.value.render() == (
        "error: --iterate-on-escalate: expected `best`, `last` or `base`, got `bestt`\nhint: did you mean `best`?"
    )


def test_lists_are_taken_as_they_are() -> None:
    patch = settings_from_strings({"review": ["my-critic --a,b", "person"], "pass_env": [], "agent": None}, str)
    assert patch == SettingsPatch(review=("my-critic --a,b", "person"))


def test_a_single_value_can_not_be_given_twice() -> None:
    with pytest.raises(UsageError, match="expected one value, got 2"):
        settings_from_strings({"agent": ["a", "b"]}, str)


def test_every_ini_twin_is_an_option_that_the_plugin_registers(pytestconfig: pytest.Config) -> None:
    for setting, twin in INI_TWINS.items():
        assert setting in SettingsPatch.model_fields
        assert pytestconfig.getini(twin) in {None, ""} or pytestconfig.getini(twin) == []
        assert hasattr(pytestconfig.option, twin)


@given(st.sampled_from(sorted(SettingsPatch.model_fields)), st.text(max_size=20))
def test_any_string_is_a_setting_or_a_usage_error(name: str, value: str) -> None:
    try:
        assert isinstance(settings_from_strings({name: value}, str), SettingsPatch)
    except UsageError as error:
        assert error.message.startswith(name)
