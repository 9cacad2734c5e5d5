"""pytest's side: options, ini twins, the marker, and the take-over in `pytest_cmdline_main`.

Without `--iterate` this module is all there is: it imports nothing but pytest, prints and writes nothing. With it, the
process becomes the driver: it never imports the project's own code, which runs in child processes only.
"""

from __future__ import annotations

import os

import pytest

__all__ = [
    "pytest_addoption",
    "pytest_cmdline_main",
    "pytest_configure",
    "pytest_load_initial_conftests",
]

#: Set in every process that a run starts: a pytest in there is a plain pytest.
CHILD = "PYTEST_ITERCTL_CHILD"

#: pytest commands that only look; `--iterate` in addopts must not keep them from it.
_LOOKING = (
    "collectonly",
    "help",
    "markers",
    "show_fixtures_per_test",
    "showfixtures",
    "setuponly",
    "setupplan",
    "version",
    "cacheshow",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("iterate", "bounded generate-test-review loops (pytest-iterctl)")
    group.addoption("--iterate", action="store_true", help="Run generate, test and review until the tests pass")
    for name, metavar, kind, text in (
        (
            "agent",
            "NAME|COMMAND",
            "string",
            "Who changes the code: a name from the plan, a preset (claude, codex, …), hook, person or a command line",
        ),
        ("prompt", "TEXT|@FILE", "string", "What the agent is asked to do, besides making the tests pass"),
        ("max", "N", "int", "Iterations before a person is asked (default: 3)"),
        ("safety", "LEVEL", "string", "What a run may spend and touch: permissive, normal (default) or paranoid"),
        ("sandbox", "auto|bwrap|none", "string", "Run agents and tests in a sandbox (default: auto, at paranoid)"),
        ("timeout", "DURATION", "string", "Time for each agent call and test run, as in 90s, 5m, 1h (default: 5m)"),
        ("checkpoint-interval", "N", "int", "Write a portable checkpoint file every N iterations"),
        ("plan", "FILE", "string", "The plan to take settings and agents from (default: iterctl.yaml)"),
        ("on-escalate", "best|last|base", "string", "What the work tree holds after an escalation (default: best)"),
        (
            "strategy",
            "NAME",
            "string",
            "How the next try goes about it: auto, conservative, aggressive, or one by name",
        ),
        ("gate", "fast|full", "string", "How much is checked before a change is accepted (default: full)"),
    ):
        dest = "iterate_" + name.replace("-", "_")
        group.addoption(f"--iterate-{name}", dest=dest, metavar=metavar, default=None, help=text)
        parser.addini(dest, text, type=kind, default=None)  # type: ignore[arg-type]  # a literal, out of a table
    for name, metavar, text in (
        ("reviewer", "NAME|COMMAND", "Who reviews a change whose tests pass: as --iterate-agent; may be repeated"),
        ("protect", "GLOB", "More files that the agent's changes don't count in, besides the tests; may be repeated"),
        ("may-change", "GLOB", "Tests that are the agent's to change, shown for review; may be repeated"),
    ):
        dest = "iterate_" + name.replace("-", "_")
        group.addoption(f"--iterate-{name}", dest=dest, action="append", metavar=metavar, help=text)
        parser.addini(dest, text, type="linelist", default=None)
    group.addoption("--iterate-task", dest="iterate_task", metavar="ID", help="Run this task only")
    group.addoption(
        "--iterate-resume", dest="iterate_resume", nargs="?", const="", metavar="=RUN", help="Go on with an earlier run"
    )
    group.addoption(
        "--iterate-dry-run", dest="iterate_dry_run", action="store_true", help="Show what would be run, and run nothing"
    )
    group.addoption(
        "--iterate-format",
        dest="iterate_format",
        choices=("human", "json"),
        default="human",
        help="What goes to stdout",
    )
    group.addoption(
        "--iterate-commit",
        dest="iterate_commit",
        nargs="?",
        const="",
        metavar="=MESSAGE",
        help="Commit the accepted change (nothing is committed otherwise)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "iterate(task, prompt='', max_iterations=None): these tests say when the task is done; "
        "pytest --iterate runs one loop per task",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser, args: list[str]) -> None:
    known = early_config.known_args_namespace
    if not _is_on(early_config, known):
        return
    # A broken conftest is the agent's to mend; here it would end everything before the loop could begin.
    known.noconftest = True
    # Coverage is measured where the tests run.
    known.no_cov = True
    # Options that the project's conftest would define are not ours to understand, only to pass on.
    _, unknown = parser.parse_known_and_unknown_args(args)
    foreign = {argument.partition("=")[0] for argument in unknown if argument.startswith("--")}
    for option in (name for name in foreign if not name.startswith("--iterate")):
        parser.addoption(option, dest="iterate_passed_on", action="append", nargs="?")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    if hasattr(config, "workerinput") or not _is_on(config, config.option):
        return None
    for name in ("usepdb", "trace", "looponfail"):
        if getattr(config.option, name, False):
            shown = {"usepdb": "--pdb"}.get(name, f"--{name}")
            raise pytest.UsageError(f"{shown} can't be used with --iterate: nobody sits in front of the inner runs")
    from pytest_iterctl.cli.takeover import take_over  # noqa: PLC0415 - idle runs must not pay for the driver

    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.suspend_global_capture(in_=True)
    return take_over(config)


def _is_on(config: pytest.Config, options: object) -> bool:
    if not getattr(options, "iterate", False) or os.environ.get(CHILD):
        return False
    if config.pluginmanager.hasplugin("iterctl-witness"):
        return False
    return not any(getattr(options, name, False) for name in _LOOKING)
