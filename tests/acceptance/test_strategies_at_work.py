"""Strategies do what they say, with real agents, real test runs and real waits."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.kit.project import BROKEN, FIXED, Project, Ran


def plan(project: Project, *, agents: dict[str, Any], settings: dict[str, Any], tests: tuple[str, ...] = ()) -> None:
    given = {"backoff_initial": "10ms", "agent": "coder", **settings}
    tasks = [{"id": "calc", "prompt": "double doubles", "tests": list(tests)}]
    project.write("iterctl.yaml", json.dumps({"version": 1, "settings": given, "agents": agents, "tasks": tasks}))
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "plan")


def scripted(project: Project, **more: Any) -> dict[str, Any]:
    return {"command": [sys.executable, "-S", str(project.tools / "agent.py")], **more}


def history(ran: Ran) -> list[dict[str, Any]]:
    return list(ran.json["tasks"][0]["history"])


def strategies(ran: Ran) -> list[list[str]]:
    return [[choice["strategy"] for choice in step["strategies"]] for step in history(ran)]


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-p", "no:cacheprovider")])
def test_a_rate_limit_calls_the_spare_agent_and_is_no_iteration(project: Project, options: tuple[str, ...]) -> None:
    limited = project.tools / "limited.py"
    limited.write_text(f"import pathlib, sys\npathlib.Path({str(project.tools / 'limited')!r}).touch()\nsys.exit(75)\n")
    project.agent({"write": {"calc.py": FIXED}})
    coder = {
        "command": [sys.executable, "-S", str(limited)],
        "fallback": ["spare"],
        "outcomes": [{"exit_code": [75], "outcome": "rate-limited"}],
    }
    plan(project, agents={"coder": coder, "spare": scripted(project)}, settings={"max_iterations": 1}, tests=options)
    ran = project.iterctl("run", "--format", "json")
    assert ran.code == 0, ran.err
    assert (project.tools / "limited").exists()
    assert len(project.calls) == 1
    step = history(ran)[0]
    assert [choice["strategy"] for choice in step["strategies"]] == ["default", "fallback-providers"]
    assert step["strategies"][1]["agent"] == "spare"
    assert [call["outcome"] for call in step["agent"]] == ["rate-limited", "done"]
    assert ran.json["tasks"][0]["iterations"] == 1
    assert "now with spare" in ran.err
    learned = project.iterctl("strategies", "--format", "json").json
    told = {each["name"]: each["learned"] for each in learned["strategies"]}
    assert told["fallback-providers"] == [{"error_type": "rate_limit", "helped": 1, "did_not_help": 0}]
    assert "after rate_limit it helped 1 of 1 times" in project.iterctl("strategies").out
    assert project.iterctl("strategies", "--reset").code == 0
    assert "it helped" not in project.iterctl("strategies").out


@pytest.mark.slow
def test_tests_that_ran_out_of_time_get_twice_as_much(project: Project) -> None:
    project.write(
        "test_calc.py",
        "import time\nfrom calc import double\n\n\ndef test_slow():\n    time.sleep(2.5)\n    assert double(1) == 2\n",
    )
    project.agent({"write": {"calc.py": FIXED}}, {"write": {"calc.py": FIXED + "# again\n"}})
    plan(project, agents={"coder": scripted(project)}, settings={"test_timeout": "2s"})
    ran = project.iterctl("run", "--format", "json")
    assert strategies(ran)[:2] == [["default"], ["aggressive-timeout"]], ran.err
    outcomes = [step["outcome"] for step in history(ran)]
    assert outcomes[0] == "timed-out"
    assert outcomes[1] == "passed"
    assert history(ran)[0]["analysis"]["error_type"] == "timeout"
    assert history(ran)[0]["analysis"]["transient"] is True


@pytest.mark.slow
@pytest.mark.parametrize("where", ["ini", "arguments", "before dashes"])
def test_a_disk_that_is_full_lets_one_worker_do_it(project: Project, where: str) -> None:
    log = project.tools / "workers"
    tests = (
        "import errno, os, pathlib\nfrom calc import double\n\n\n"
        "def test_disk():\n"
        f"    with open({str(log)!r}, 'a') as file:\n"
        "        file.write(os.environ.get('PYTEST_XDIST_WORKER', 'alone') + '\\n')\n"
        "    if 'PYTEST_XDIST_WORKER' in os.environ:\n"
        "        raise OSError(errno.ENOSPC, 'No space left on device')\n"
        "    assert double(1) == 2\n"
    )
    project.write("test_calc.py", tests)
    project.agent({"write": {"calc.py": FIXED}}, {"write": {"calc.py": FIXED + "# again\n"}})
    if where == "ini":
        project.write("pytest.ini", "[pytest]\naddopts = -p no:randomly -p xdist -n 2\n")
    tests_options = {
        "ini": (),
        "arguments": ("-p", "xdist", "-n", "2"),
        "before dashes": ("-p", "xdist", "-n", "2", "--", "."),
    }
    plan(project, agents={"coder": scripted(project)}, settings={}, tests=tests_options[where])
    ran = project.iterctl("run", "--format", "json")
    assert ran.code == 0, ran.err
    assert strategies(ran) == [["default"], ["reduced-parallelism"]]
    assert history(ran)[0]["analysis"]["error_type"] == "resource_exhausted"
    assert "gw" in log.read_text().split()[0]
    assert log.read_text().split()[-1] == "alone"


@pytest.mark.slow
def test_the_same_failures_twice_begin_afresh_from_the_best_attempt(project: Project) -> None:
    half = "def double(number):\n    return 2 if number else 7\n"
    worse = "def double(number):\n    return 7 if number < 3 else 0\n"
    again = "def double(number):\n    return 7 if number < 4 else 0\n"
    project.agent(*({"write": {"calc.py": text}} for text in (half, worse, again)), {})
    plan(project, agents={"coder": scripted(project)}, settings={"max_iterations": 4, "patience": {"no_progress": 0}})
    ran = project.iterctl("run", "--format", "json")
    assert ran.code == 10, ran.err
    assert strategies(ran)[3] == ["fresh-context"]
    assert "from the best attempt on" in ran.err
    # The agent changed nothing in iteration 4, so what it found there is what it was given.
    last = project.git("show", f"{history(ran)[3]['snapshot']}:calc.py")
    assert last == half.strip()
    # And what it is told is about these files.
    prompt = project.calls[3]["prompt"]
    assert "The files were put back to what iteration 1 left, the best so far." in prompt
    assert "put back to" not in project.calls[2]["prompt"]


@pytest.mark.slow
def test_the_best_attempt_is_found_again_although_protected_files_were_put_back(project: Project) -> None:
    half = "def double(number):\n    return 2 if number else 7\n"
    worse = "def double(number):\n    return 7 if number < 3 else 0\n"
    again = "def double(number):\n    return 7 if number < 4 else 0\n"
    meddled = (project.root / "test_calc.py").read_text() + "\n# mine\n"
    acts = [{"calc.py": half}, {"calc.py": worse}, {"calc.py": again, "test_calc.py": meddled}]
    project.agent(*({"write": act} for act in acts), {})
    patience = {"no_progress": 0}
    plan(project, agents={"coder": scripted(project)}, settings={"max_iterations": 4, "patience": patience})
    ran = project.iterctl("run", "--format", "json")
    assert ran.code == 10, ran.err
    assert strategies(ran)[3] == ["fresh-context"]
    snapshot = history(ran)[3]["snapshot"]
    assert project.git("show", f"{snapshot}:calc.py") == half.strip()
    assert "# mine" not in project.git("show", f"{snapshot}:test_calc.py")


@pytest.mark.slow
def test_tests_that_an_agent_has_edited_count_for_nothing_and_are_gone_when_it_goes_on(project: Project) -> None:
    meddled = (project.root / "test_calc.py").read_text().replace("== 2", "== 7")
    half = "def double(number):\n    return 2 if number else 7\n"
    worse = "def double(number):\n    return 7\n"
    acts = [{"calc.py": half}, {"calc.py": worse, "test_calc.py": meddled}]
    project.agent(*({"write": act} for act in acts))
    plan(project, agents={"coder": scripted(project)}, settings={"max_iterations": 2})
    ran = project.iterctl("run", "--format", "json")
    assert ran.code == 10, ran.err
    # The honest attempt is the best, whatever the edited tests say of the other one.
    assert (project.root / "calc.py").read_text() == half
    project.agent({}, {}, {"write": {"calc.py": FIXED}})
    going_on = project.iterctl("answer", ran.json["run"], "--continue", "go on", "--format", "json")
    assert going_on.code == 0, going_on.err
    assert going_on.json["tasks"][0]["iterations"] == 3
    assert "== 7" not in (project.root / "test_calc.py").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["narrow", "auto"])
def test_with_many_causes_the_agent_is_told_the_first(project: Project, strategy: str) -> None:
    names = ("one", "two", "three", "four", "five")
    project.write("calc.py", "".join(f"def {name}():\n    return 0\n\n\n" for name in names))
    tests = "".join(
        f"def test_{name}():\n    assert calc.{name}() == {n}, '{name}'\n\n\n" for n, name in enumerate(names, 1)
    )
    project.write("test_calc.py", f"import calc\n\n\n{tests}")
    fixed = "".join(f"def {name}():\n    return {n}\n\n\n" for n, name in enumerate(names, 1))
    project.agent(
        {"write": {"calc.py": (project.root / "calc.py").read_text() + "# tried\n"}}, {"write": {"calc.py": fixed}}
    )
    plan(project, agents={"coder": scripted(project)}, settings={"strategy": strategy})
    ran = project.iterctl("run", "--format", "json")
    assert ran.code == 0, ran.err
    assert strategies(ran)[1] == ["narrow"]
    prompt = project.calls[1]["prompt"]
    assert "There are 5 causes. This is the first; work on this one alone." in prompt
    assert sum(f"test_{name}" in prompt.partition("## What was tried")[0] for name in names) == 1
    assert "Kind of failure: assertion." in prompt
    assert "no longer run" not in prompt
    whole = project.iterctl("memory", "get", "feedback@2").out
    assert all(f"test_{name}" in whole for name in names)


@pytest.mark.slow
def test_more_of_the_same_is_not_paid_for(project: Project) -> None:
    project.agent({})
    plan(project, agents={"coder": scripted(project)}, settings={"max_iterations": 10})
    ran = project.iterctl("run", "--format", "json")
    assert ran.code == 10, ran.err
    assert len(project.calls) == 2
    task = ran.json["tasks"][0]
    assert (task["reason"], task["iterations"]) == ("hopeless", 2)
    assert task["explanation"] == "the agent changed nothing 2 times in a row"
    assert task["question"]["options"]
    project.agent({}, {}, {"write": {"calc.py": FIXED}})
    going_on = project.iterctl("answer", ran.json["run"], "--continue", "use multiplication", "--format", "json")
    assert going_on.code == 0, going_on.err
    assert len(project.calls) == 3


@pytest.mark.slow
def test_patience_can_be_had_without_end(project: Project) -> None:
    project.agent({})
    plan(project, agents={"coder": scripted(project)}, settings={"max_iterations": 4, "patience": "off"})
    ran = project.iterctl("run", "--format", "json")
    assert ran.json["tasks"][0]["reason"] == "max-iterations"
    assert len(project.calls) == 4


@pytest.mark.slow
def test_a_wrong_command_is_not_tried_three_times(project: Project) -> None:
    coder = {"command": ["sh", "-c", "exit 127"]}
    plan(project, agents={"coder": coder}, settings={"max_agent_failures": 5})
    ran = project.iterctl("run", "--format", "json")
    assert ran.code == 10, ran.err
    step = history(ran)[0]
    assert len(step["agent"]) == 2
    assert step["analysis"]["error_type"] == "validation"
    assert "does not go away (validation)" in ran.json["tasks"][0]["explanation"]


@pytest.mark.slow
def test_the_report_names_the_failure_and_the_strategy(project: Project) -> None:
    project.agent(
        {"write": {"calc.py": BROKEN + "# 1\n"}},
        {"write": {"calc.py": BROKEN + "# 2\n"}},
        {"write": {"calc.py": BROKEN + "# 3\n"}},
    )
    ran = project.iterate("--iterate-strategy=auto")
    assert ran.code == 10
    page = project.iterctl("report").out
    assert "What kind of failure: assertion (medium): " in page
    assert "Strategy `fresh-context`: the same failures twice" in page
    document = project.iterctl("report", "--format", "json").json
    assert document["attempts"][-1]["analysis"]["actions"]


def test_an_unknown_strategy_or_fallback_is_refused_with_its_place(project: Project) -> None:
    ran = project.iterctl("run", "--strategy", "agressive", "--agent", "true")
    assert ran.code == 4
    assert "did you mean `aggressive`?" in ran.err
    project.write("iterctl.yaml", "agents:\n  coder: { command: ['true'], fallback: [coder, nobody-there] }\n")
    ran = project.iterctl("run")
    assert ran.code == 4
    assert "iterctl.yaml:2:" in ran.err
    assert "can't take over from itself" in ran.err
    assert "nobody-there" in ran.err


@pytest.mark.slow
def test_a_cost_that_nobody_says_stops_a_run_that_wants_to_know(project: Project) -> None:
    project.agent({"write": {"calc.py": BROKEN + "# 1\n"}}, {"write": {"calc.py": FIXED}})
    plan(project, agents={"coder": scripted(project)}, settings={"safety": {"require_cost": True}})
    ran = project.iterctl("run", "--format", "json")
    assert ran.code == 11, ran.err
    task = ran.json["tasks"][0]
    assert (task["state"], task["limit"], len(project.calls)) == ("stopped", "require_cost", 1)
    going_on = project.iterctl("resume", "--limit", "require_cost=false", "--format", "json")
    assert going_on.code == 0, going_on.err
    assert len(project.calls) == 2


@pytest.mark.slow
def test_tokens_have_a_price_where_no_cost_is_told(project: Project) -> None:
    project.agent({"write": {"calc.py": FIXED}, "report": {"tokens": 250_000}})
    agents = {"coder": scripted(project, usd_per_million_tokens=4)}
    plan(project, agents=agents, settings={"safety": {"require_cost": True, "max_total_cost": 1.5}})
    ran = project.iterctl("run", "--format", "json")
    assert ran.code == 0, ran.err
    assert ran.json["cost_usd"] == 1.0


@pytest.mark.slow
def test_an_estimated_cost_counts_towards_the_limit(project: Project) -> None:
    project.agent({"write": {"calc.py": BROKEN + "# 1\n"}, "report": {"tokens": 250_000}})
    agents = {"coder": scripted(project, usd_per_million_tokens=4)}
    plan(project, agents=agents, settings={"safety": {"max_total_cost": 0.5}})
    ran = project.iterctl("run", "--format", "json")
    assert ran.code == 11, ran.err
    assert ran.json["tasks"][0]["limit"] == "max_total_cost"
    assert len(project.calls) == 1
