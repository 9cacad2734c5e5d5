"""Decides which environment variables agents and test runs get, so that they see a user's world but not the driver's.

Classes of variables are taken out and the rest stays, because tests need what their project is set up with (PATH,
PYTHONPATH, VIRTUAL_ENV, DATABASE_URL, …) to behave as the user's own `pytest` would. What is taken out can be passed on
by name or pattern (`pass_env` in the plan), and only so.

- `tests_environment`: for test runs. No secrets at all unless named.
- `agent_environment`: for agents and reviewers. The same, plus the keys of well-known model services: without its key
  no agent works, and the code under test, which the agent wrote, has no business with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

__all__ = ["MODEL_KEYS", "agent_environment", "removed_names", "scrubbed", "tests_environment"]

MODEL_KEYS: tuple[str, ...] = (
    "AMP_API_KEY",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AZURE_OPENAI_API_KEY",
    "CEREBRAS_API_KEY",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CODEX_API_KEY",
    "COHERE_API_KEY",
    "COPILOT_GITHUB_TOKEN",
    "CURSOR_API_KEY",
    "DASHSCOPE_API_KEY",
    "DEEPSEEK_API_KEY",
    "FIREWORKS_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "MOONSHOT_API_KEY",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
    "TOGETHER_API_KEY",
    "TOGETHERAI_API_KEY",
    "XAI_API_KEY",
    "ZAI_API_KEY",
)

# An outer run's run, task, socket and tags: an inner one that believed them would write into the outer one's records.
_OUTER_RUN = ("ITERCTL_*",)

# Set inside git hooks and by wrappers, GIT_DIR, GIT_WORK_TREE and GIT_INDEX_FILE send every git command to another
# repository, GIT_CONFIG_* change what it does, GIT_ASKPASS and GIT_SSH_COMMAND lend it the user's credentials.
_GIT = ("GIT_*",)

# State of the pytest that we may run inside of: the current test, the xdist worker. An inner pytest would take itself
# for a worker.
_PYTEST = ("PYTEST_*",)

# Settings that a user gives pytest and its plugins through the environment. Agents get them too, because they run the
# same tests to see whether they are done.
_PYTEST_SETTINGS = (
    "PYTEST_ADDOPTS",
    "PYTEST_DEBUG_TEMPROOT",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD",
    "PYTEST_PLUGINS",
    "PYTEST_THEME*",
    "PYTEST_TIMEOUT",
    "PYTEST_XDIST_AUTO_NUM_WORKERS",
)

# They make every Python process measure itself into the data file of whoever measures the driver.
_COVERAGE = ("COV_CORE_*", "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")

# Whoever can write these files sets variables and paths of the CI job's later steps, which run with its secrets.
_CI_FILE_COMMANDS = (
    "BUILDKITE_ENV_FILE",
    "GITHUB_ENV",
    "GITHUB_OUTPUT",
    "GITHUB_PATH",
    "GITHUB_STATE",
    "GITHUB_STEP_SUMMARY",
)

# Makes plugins print an annotation for each failing test of each inner run; CI shows the first ten, all of them stale.
_CI_ANNOTATIONS = ("GITHUB_ACTIONS",)

# What lets its holder act in the name of a user or a CI job. Compared in upper case. SSH_AUTH_SOCK stays: private
# dependencies are fetched through it, and it lets nobody read a key.
_SECRETS = (
    "*_ACCESS_KEY",
    "*_API_KEY",
    "*_CREDENTIALS",
    "*_PASSWORD",
    "*_PRIVATE_KEY",
    "*_SECRET",
    "*_TOKEN",
    "ACTIONS_*",
    "API_KEY",
    "CI_JOB_JWT*",
    "DOCKER_AUTH_CONFIG",
    "NETRC",
    "PASSWORD",
    "SECRET",
    "SYSTEM_ACCESSTOKEN",
    "TOKEN",
    *MODEL_KEYS,
)

_REMOVED = (*_GIT, *_PYTEST, *_COVERAGE, *_CI_FILE_COMMANDS, *_CI_ANNOTATIONS)


def scrubbed(
    environment: Mapping[str, str], *, pass_names: Iterable[str] = (), extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment without what belongs to the driver, CI and git; `pass_names` (globs) stay, `extra` wins over all.

    Nothing is added or changed besides `extra`. An outer run's `ITERCTL_*` cannot be passed on, only set by `extra`.
    """
    passed = tuple(pass_names)
    file_commands = _circle_file_commands(environment)
    kept = {
        name: value
        for name, value in environment.items()
        if not _matches(name, _OUTER_RUN)
        and (
            _matches(name, (*passed, *_PYTEST_SETTINGS))
            or not (_matches(name, (*_REMOVED, *file_commands)) or _matches(name.upper(), _SECRETS))
        )
    }
    return {**kept, **(extra or {})}


def tests_environment(  # it is for tests, and not a test: import the module, or pytest collects the function
    environment: Mapping[str, str],
    pass_names: Iterable[str] = (),  # noqa: PT028 - see above
    extra: Mapping[str, str] | None = None,  # noqa: PT028 - see above
) -> dict[str, str]:
    """What test runs and other commands of a project get."""
    return scrubbed(environment, pass_names=pass_names, extra=extra)


def agent_environment(
    environment: Mapping[str, str], pass_names: Iterable[str] = (), extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """What agents and reviewers get: the same as tests, and the keys of model services."""
    return scrubbed(environment, pass_names=(*pass_names, *MODEL_KEYS), extra=extra)


def removed_names(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """The names that scrubbing took out, in order, for people who wonder where a variable went."""
    return tuple(sorted(before.keys() - after.keys()))


def _circle_file_commands(environment: Mapping[str, str]) -> tuple[str, ...]:
    """CircleCI sources the file that BASH_ENV names before each step; elsewhere the variable is a user's own."""
    return ("BASH_ENV",) if "CIRCLECI" in environment else ()


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
