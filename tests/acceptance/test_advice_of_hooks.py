"""Python hooks that add strategies, name kinds of failures and choose: their advice has effects, their faults none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kit.project import BROKEN, FIXED, Project, Ran

STRATEGY = """
from pytest_iterctl import hookimpl


@hookimpl
def iterctl_strategies():
    more = {"fresh_session": True, "timeout_factor": 3.0}
    return [{"name": "start-over", "priority": 9, "handles": ["assertion"], **more}]
"""
TWICE_WRONG = ({"write": {"calc.py": BROKEN + "\n# tried\n"}}, {"write": {"calc.py": FIXED}})


def prepared(project: Project, conftest: str, *acts: dict[str, Any]) -> None:
    project.write("conftest.py", conftest)
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "hooks")
    project.agent(*(acts or TWICE_WRONG))


def run(project: Project, *options: str) -> Ran:
    return project.iterctl("run", "--agent", project.agent_command, "--format", "json", *options)


def steps(ran: Ran) -> list[dict[str, Any]]:
    return list(ran.json["tasks"][0]["history"])


def strategies(ran: Ran) -> list[list[str]]:
    return [[choice["strategy"] for choice in step["strategies"]] for step in steps(ran)]


@pytest.mark.slow
def test_a_strategy_of_a_hook_is_chosen_by_the_type_of_the_failure_and_learned_of(project: Project) -> None:
    prepared(project, STRATEGY)
    ran = run(project)
    assert ran.code == 0, ran.err
    assert strategies(ran) == [["default"], ["start-over"]]
    assert "start-over: after assertion" in ran.err
    told = {each["name"]: each for each in project.iterctl("strategies", "--format", "json").json["strategies"]}
    assert told["start-over"]["learned"] == [{"error_type": "assertion", "helped": 1, "did_not_help": 0}]
    shown = project.iterctl("strategies").out
    assert "added by a Python hook: timeout_factor: 3.0, fresh_session: True" in shown
    assert "after assertion it helped 1 of 1 times" in shown


@pytest.mark.slow
def test_what_a_strategy_of_a_hook_sets_has_its_effect(project: Project) -> None:
    """Tests that take longer than they may; three times the time is enough."""
    prepared(
        project,
        STRATEGY.replace('"assertion"', '"timeout"').replace('"priority": 9', '"priority": 99'),
        {"write": {"calc.py": "import time\ntime.sleep(2.5)\n" + FIXED}},
        {"write": {"calc.py": "import time\ntime.sleep(2.5)\n" + FIXED + "# again\n"}},
    )
    ran = project.iterctl(
        *("run", "--agent", project.agent_command, "--format", "json"), ITERCTL_TEST_TIMEOUT="2s", ITERCTL_GATE="fast"
    )
    assert strategies(ran)[:2] == [["default"], ["start-over"]], ran.err
    assert [step["outcome"] for step in steps(ran)][:2] == ["timed-out", "passed"]


@pytest.mark.slow
def test_a_hook_says_what_a_failure_is_and_what_is_done_about_it(project: Project) -> None:
    log = project.tools / "asked"
    prepared(
        project,
        f"""
import dataclasses, json, pathlib
from pytest_iterctl import hookimpl


def note(word, request):
    with pathlib.Path({str(log)!r}).open("a") as stream:
        stream.write(json.dumps([word, dataclasses.asdict(request)]) + "\\n")


@hookimpl
def iterctl_classify(failure):
    note("classify", failure)
    if failure.stage == "generate":
        return {{"error_type": "rate_limit", "sign": "our gateway says so with 3"}}
    return "timeout"


@hookimpl
def iterctl_choose_strategy(request):
    note("choose", request)
    return "fresh-context" if request.iteration > 1 else None
""",
        {"exit": 3, "complain": "no"},
        *TWICE_WRONG,
    )
    ran = project.iterctl(
        *("run", "--agent", project.agent_command, "--format", "json"), ITERCTL_BACKOFF_INITIAL="10ms"
    )
    assert ran.code == 0, ran.err
    first, second = steps(ran)
    assert [choice["error_type"] for choice in first["strategies"]] == ["assertion", "rate_limit"]
    assert first["analysis"]["error_type"] == "timeout"
    assert first["analysis"]["sign"] == "iterctl_classify says so"
    assert second["strategies"][0]["strategy"] == "fresh-context"
    assert second["strategies"][0]["why"] == "named by a Python hook"
    asked = [json.loads(line) for line in log.read_text().splitlines()]
    assert [word for word, _ in asked] == ["choose", "classify", "choose", "classify", "choose"]
    turn, test = (request for word, request in asked if word == "classify")
    assert (turn["stage"], turn["error_type"], turn["exit_code"]) == ("generate", "unknown", 3)
    assert turn["text"] == "exit code 3: no"
    assert (test["outcome"], test["error_type"], test["task"]) == ("failed", "assertion", "pytest")
    assert {each["kind"] for each in test["failures"]} == {"AssertionError"}
    choice = asked[-1][1]
    assert (choice["chosen"], choice["error_type"], choice["iteration"]) == ("aggressive-timeout", "timeout", 2)
    assert "narrow" in choice["strategies"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "warning"),
    [
        ("def iterctl_strategies(): return [{'name': 'Wrong Name'}]", "is no name for a strategy"),
        ("def iterctl_strategies(): return [{'name': 'narrow'}]", "there is a strategy narrow already"),
        ("def iterctl_strategies(): return [{'name': 'a', 'timeout_factor': 0}]", "timeout_factor of a must be 0.1 to"),
        ("def iterctl_strategies(): return [{'name': 'a', 'timeout_factor': 1e-300}]", "of a must be 0.1 to 100"),
        (
            "def iterctl_strategies(): return [{'name': f's{n}'} for n in range(10_000)]",
            "add 10000 strategies: only the",
        ),
        ("def iterctl_strategies(): return [{'name': 'a', 'workers': 0}]", "workers of a must be 1 to"),
        ("def iterctl_strategies(): return [{'name': 'a', 'handles': ['weather']}]", "handles.0"),
        ("def iterctl_strategies(): return [{'name': 'a', 'surprise': 1}]", "surprise"),
        ("def iterctl_strategies(): return 7", "adds something that is no strategy"),
        ("def iterctl_strategies(): return [object()]", "not JSON serializable"),
        ("def iterctl_strategies(): return (each for each in ())", "iterctl_strategies of conftest.py: TypeError: Obj"),
        ("def iterctl_strategies(): raise ValueError('not today')", "conftest.py: ValueError: not today"),
        ("def iterctl_strategies(): import pytest; pytest.skip('not today')", "conftest.py: Skipped: not today"),
        ("def iterctl_strategies(): import os; os._exit(0)", "iterctl_strategies failed: the hook process left no"),
        ("def iterctl_classify(failure): return 'weather'", "iterctl_classify names no type of error: 'weather'"),
        ("def iterctl_classify(failure): raise ValueError('not today')", "iterctl_classify failed"),
        ("def iterctl_classify(failure): import os; os._exit(0)", "iterctl_classify failed"),
        ("def iterctl_choose_strategy(request): return 'weather'", "iterctl_choose_strategy names no strategy"),
        ("def iterctl_choose_strategy(request): return 1 / 0", "iterctl_choose_strategy failed"),
    ],
)
def test_a_hook_that_is_wrong_is_a_warning_and_nothing_more(project: Project, body: str, warning: str) -> None:
    prepared(project, f"from pytest_iterctl import hookimpl\n\n\n@hookimpl\n{body}\n")
    ran = run(project)
    assert ran.code == 0, ran.err
    assert strategies(ran) == [["default"], ["default"]]
    assert warning in ran.err


@pytest.mark.slow
def test_a_strategy_of_a_hook_is_pinned_by_its_name(project: Project) -> None:
    prepared(project, STRATEGY)
    ran = run(project, "--strategy", "start-over")
    assert ran.code == 0, ran.err
    assert strategies(ran) == [["start-over"], ["start-over"]]


@pytest.mark.slow
def test_a_strategy_that_no_hook_adds_is_refused_before_any_agent(project: Project) -> None:
    prepared(project, STRATEGY)
    ran = run(project, "--strategy", "start-ovr")
    assert ran.code == 4
    assert "no strategy 'start-ovr'" in ran.err
    assert "did you mean `start-over`? There are auto, conservative, aggressive, default, " in ran.err
    assert ", narrow; Python hooks add start-over\n" in ran.err
    assert not project.calls


@pytest.mark.slow
def test_a_run_that_is_refused_because_of_a_strategy_waits_for_nobody(project: Project) -> None:
    prepared(project, STRATEGY)
    assert project.iterate("--iterate-strategy=nope").code == 4
    row = project.iterctl("status").out
    assert "escalate    pytest aborted 0/3" in row
    assert len(row.splitlines()) == 1
    told = project.iterctl("status", row.split()[0])
    assert "there is no strategy 'nope', and no Python hook adds it" in told.out
    assert "has ended" in project.iterctl("resume", row.split()[0]).err


def test_without_hooks_an_unknown_strategy_is_refused_at_once(project: Project) -> None:
    for more in ((), ("--dry-run",)):
        ran = project.iterctl("run", "--agent", project.agent_command, "--strategy", "agressive", *more)
        assert ran.code == 4
        assert "did you mean `aggressive`?" in ran.err
    assert project.iterctl("status").out == "no runs yet\n"


@pytest.mark.slow
def test_a_resume_knows_the_strategies_of_the_beginning(project: Project) -> None:
    """What an agent makes of the hooks in its turn changes nothing."""
    evil = STRATEGY.replace("start-over", "other")
    prepared(
        project,
        STRATEGY,
        {"write": {"calc.py": BROKEN + "\n# tried\n", "conftest.py": evil}},
        {"write": {"calc.py": BROKEN + "\n# again\n"}},
        {"write": {"calc.py": FIXED}},
    )
    first = run(project, "--max", "1")
    assert first.code == 10, first.err
    resumed = project.iterctl("resume", first.json["run"], "--max", "3", "--format", "json")
    assert resumed.code == 0, resumed.err
    names = {name for step in strategies(resumed) for name in step}
    assert "start-over" in names
    assert "other" not in names


NOTING = """
import pathlib
from pytest_iterctl import hookimpl


def note(word):
    with pathlib.Path({log!r}).open("a") as stream:
        stream.write(word + "\\n")


@hookimpl
def iterctl_classify(failure):
    note("classify " + failure.stage)
    {classify}


@hookimpl
def iterctl_choose_strategy(request):
    note("choose")
    return "start-over"


@hookimpl
def iterctl_strategies():
    {strategies}
"""


def noting(project: Project, *, classify: str = "return None", strategies: str = "return []") -> str:
    return NOTING.format(log=str(project.tools / "asked"), classify=classify, strategies=strategies)


def asked(project: Project) -> list[str]:
    return (project.tools / "asked").read_text().splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("classify", "strategies", "warnings"),
    [
        ("return None", "return []", 0),
        ("return None", "raise ValueError", 1),
        ("return None", "return (each for each in ())", 1),
        ("raise ValueError", "import os; os._exit(0)", 1),
    ],
)
def test_each_hook_stands_for_itself_and_is_asked_once(
    project: Project, classify: str, strategies: str, warnings: int
) -> None:
    prepared(project, noting(project, classify=classify, strategies=strategies), {"exit": 3}, *TWICE_WRONG)
    ran = project.iterctl("run", "--agent", project.agent_command, ITERCTL_BACKOFF_INITIAL="10ms")
    assert ran.code == 0, ran.err
    assert asked(project) == ["choose", "classify generate", "choose", "classify test", "choose"]
    assert ran.err.count("iterctl_strategies of conftest.py") + ran.err.count("iterctl_strategies failed") == warnings


@pytest.mark.slow
def test_what_one_hook_does_wrong_takes_nothing_from_the_same_hook_of_another(project: Project) -> None:
    """Both are modules of the name conftest, as far as Python is concerned."""
    project.write("tests/conftest.py", STRATEGY)
    project.write("tests/test_more.py", "def test_more(): pass\n")
    prepared(project, noting(project, strategies="return [{'name': 'fine'}, object()]"))
    ran = project.iterctl("run", "--agent", project.agent_command, "--format", "json")
    assert ran.code == 0, ran.err
    assert strategies(ran) == [["start-over"], ["start-over"]]
    assert "iterctl_strategies of conftest.py: TypeError: Object of type object" in ran.err


@pytest.mark.slow
def test_conservative_leaves_hooks_nothing_to_choose(project: Project) -> None:
    prepared(project, noting(project, strategies="return [{'name': 'start-over'}]"))
    ran = run(project, "--strategy", "conservative")
    assert ran.code == 0, ran.err
    assert strategies(ran) == [["default"], ["default"]]
    assert asked(project) == ["classify test"]


@pytest.mark.slow
def test_a_hook_that_hangs_holds_nobody_up_and_is_asked_once(project: Project) -> None:
    """Its time is not the iteration's: with that it would be over."""
    prepared(project, noting(project, classify="import time; time.sleep(3600)"), TWICE_WRONG[0], *TWICE_WRONG)
    project.write("iterctl.yaml", "version: 1\nsettings: {safety: {max_duration_per_iteration: 8s}}\n")
    ran = run(project, "--max", "4")
    assert ran.code == 0, ran.err
    assert asked(project) == ["choose", "classify test"]
    told = "iterctl_classify failed: no answer within 10s; Python hooks are asked for no more advice in this run"
    assert ran.err.count(told) == 1


@pytest.mark.slow
def test_the_hooks_of_every_task_are_found(project: Project) -> None:
    """In the folder of the second one's tests, and where pytest looks without any: above the tests and in testpaths."""
    project.write("pytest.ini", "[pytest]\naddopts = -p no:randomly\ntestpaths = checks/unit\n")
    for folder in ("one", "two", "checks/unit"):
        name = folder.replace("/", "_")
        project.write(
            f"{folder}/test_{name}.py", f"from pathlib import Path\ndef test(): assert Path('{name}.made').exists()\n"
        )
    project.write("two/conftest.py", STRATEGY.replace("start-over", "of-two"))
    project.write("checks/unit/conftest.py", STRATEGY.replace("start-over", "of-unit"))
    project.write(
        "iterctl.yaml",
        f"""version: 1
settings: {{agent: "{project.agent_command}"}}
tasks:
  - {{id: one, prompt: a, tests: [one/test_one.py], strategy: of-two}}
  - {{id: two, prompt: a, tests: [two/test_two.py], strategy: of-unit}}
  - {{id: unit, prompt: a, strategy: of-root}}
""",
    )
    acts = ({"write": {f"{name}.made": ""}} for name in ("one", "two", "checks_unit"))
    prepared(project, STRATEGY.replace("start-over", "of-root"), *acts)
    ran = project.iterctl("run", "--format", "json")
    assert ran.code == 0, ran.err
    chosen = [step["strategies"][0]["strategy"] for task in ran.json["tasks"] for step in task["history"]]
    assert chosen == ["of-two", "of-unit", "of-root"]
    assert "warning" not in ran.err
