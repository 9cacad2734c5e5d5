from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

# The module, not its names: `tests_environment` would be collected as a test.
from pytest_iterctl.work import environment as env

USERS_OWN = {
    "CI": "true",
    "COVERAGE_FILE": ".coverage.mine",
    "DATABASE_URL": "postgres://localhost/test",
    "DJANGO_SETTINGS_MODULE": "app.settings",
    "GITHUB_REPOSITORY": "someone/something",
    "HOME": "/home/someone",
    "LANG": "C.UTF-8",
    "PATH": "/usr/bin:/bin",
    "PYTHONPATH": "src",
    "SSH_AUTH_SOCK": "/run/agent",
    "TOKENIZERS_PARALLELISM": "false",
    "VIRTUAL_ENV": "/home/someone/venv",
    "GITLAB_FEATURES": "x",
    "BASH_ENV": "/etc/modules.sh",
}

DRIVERS_OWN = [
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_SSH_COMMAND",
    "GIT_CONFIG_COUNT",
    "PYTEST_CURRENT_TEST",
    "PYTEST_XDIST_WORKER",
    "PYTEST_VERSION",
    "COV_CORE_SOURCE",
    "COVERAGE_PROCESS_START",
    "COVERAGE_PROCESS_CONFIG",
    "GITHUB_ENV",
    "GITHUB_PATH",
    "GITHUB_OUTPUT",
    "GITHUB_STATE",
    "GITHUB_STEP_SUMMARY",
    "GITHUB_ACTIONS",
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "ACTIONS_RUNTIME_TOKEN",
    "ACTIONS_CACHE_URL",
    "CI_JOB_TOKEN",
    "CI_JOB_JWT_V2",
    "CI_REGISTRY_PASSWORD",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "SIGNING_PRIVATE_KEY",
    "CLIENT_SECRET",
    "service_api_key",
    "NETRC",
]

names = st.text(string.ascii_uppercase + "_", min_size=1, max_size=20)
environments = st.dictionaries(names | st.sampled_from([*USERS_OWN, *DRIVERS_OWN, *env.MODEL_KEYS]), st.text())


def test_what_a_project_is_set_up_with_stays_as_it_is() -> None:
    assert env.tests_environment(USERS_OWN) == USERS_OWN
    assert env.agent_environment(USERS_OWN) == USERS_OWN


@pytest.mark.parametrize("name", DRIVERS_OWN)
def test_what_belongs_to_the_driver_ci_and_git_is_taken_out(name: str) -> None:
    assert env.tests_environment({name: "x"}) == {}
    assert env.agent_environment({name: "x"}) == {}


@pytest.mark.parametrize("name", DRIVERS_OWN)
def test_it_is_passed_on_by_name_and_by_pattern(name: str) -> None:
    assert env.tests_environment({name: "x"}, [name]) == {name: "x"}
    assert env.agent_environment({name: "x"}, [name[:4] + "*"]) == {name: "x"}


@pytest.mark.parametrize(
    "name",
    ["PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "PYTEST_THEME_MODE", "PYTEST_TIMEOUT"],
)
def test_a_users_settings_of_pytest_reach_tests_and_agents(name: str) -> None:
    assert env.tests_environment({name: "x"}) == {name: "x"}
    assert env.agent_environment({name: "x"}) == {name: "x"}


@pytest.mark.parametrize("name", env.MODEL_KEYS)
def test_model_keys_reach_agents_but_never_tests(name: str) -> None:
    assert env.agent_environment({name: "key"}) == {name: "key"}
    assert env.tests_environment({name: "key"}) == {}


def test_an_outer_runs_variables_are_taken_out_even_when_a_pattern_would_pass_them_on() -> None:
    outer = {"ITERCTL_RUN": "outer", "ITERCTL_SOCKET": "/outer", "LANG": "C"}
    assert env.agent_environment(outer, ["*"], {"ITERCTL_RUN": "inner"}) == {"LANG": "C", "ITERCTL_RUN": "inner"}


def test_extra_wins_over_what_was_there() -> None:
    assert env.scrubbed({"A": "1", "GIT_DIR": "x"}, extra={"A": "2", "GIT_DIR": "y"}) == {"A": "2", "GIT_DIR": "y"}


def test_the_file_that_circleci_sources_is_taken_out_there() -> None:
    assert env.tests_environment({"CIRCLECI": "true", "BASH_ENV": "/tmp/env"}) == {"CIRCLECI": "true"}


def test_removed_names_are_told_in_order() -> None:
    before = {"GIT_DIR": "x", "A": "1", "API_KEY": "k"}
    assert env.removed_names(before, env.scrubbed(before)) == ("API_KEY", "GIT_DIR")


@given(environments, st.lists(names), st.dictionaries(names, st.text()))
def test_scrubbing_only_takes_away_except_for_extra(
    before: dict[str, str], passed: list[str], extra: dict[str, str]
) -> None:
    copy = dict(before)
    after = env.scrubbed(before, pass_names=passed, extra=extra)
    assert before == copy
    assert extra.items() <= after.items()
    assert {name: value for name, value in after.items() if name not in extra}.items() <= before.items()
    assert not env.removed_names(env.scrubbed(before), env.scrubbed(env.scrubbed(before)))
