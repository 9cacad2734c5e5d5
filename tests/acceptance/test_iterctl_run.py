"""`iterctl run` and what moves a run on: needs, escalation, answers, resume, stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kit.project import BROKEN, FIXED, Project

SUITE = """
import pathlib, sys
name, wanted = sys.argv[1], sys.argv[2]
path = pathlib.Path(name)
good = path.exists() and wanted in path.read_text()
failure = "" if good else f'<failure message="expected: {wanted}, actual: nothing"/>'
case = f'<testcase classname="files" name="{name}">{failure}</testcase>'
pathlib.Path("report.xml").write_text(f"<testsuite>{case}</testsuite>")
sys.exit(not good)
"""


@pytest.fixture
def files(project: Project) -> Project:
    """A project whose tasks are done when a file has a word in it: nothing to import, so runs take milliseconds."""
    (project.tools / "suite.py").write_text(SUITE)
    project.write(".gitignore", "__pycache__/\nreport.xml\n")
    return project


def task(project: Project, name: str, wanted: str, **keys: object) -> dict[str, object]:
    command = [sys.executable, "-S", "-E", str(project.tools / "suite.py"), f"{name}.txt", wanted]
    return {"id": name, "test": {"command": command, "junit": "report.xml"}, **keys}


def plan(
    project: Project, *tasks: dict[str, object], agents: dict[str, object] | None = None, **settings: object
) -> None:
    command = [sys.executable, "-S", str(project.tools / "agent.py")]
    document = {
        "version": 1,
        "settings": {"agent": "scripted", "backoff": "none", **settings},
        "agents": {"scripted": {"command": command}, **(agents or {})},
        "tasks": tasks,
    }
    project.write("iterctl.yaml", json.dumps(document))


def states(document: dict[str, object]) -> dict[str, str]:
    return {each["id"]: each["state"] for each in document["tasks"]}  # type: ignore[attr-defined]


def test_tasks_run_in_order_of_their_needs_and_an_escalated_one_holds_up_only_those_that_need_it(
    files: Project,
) -> None:
    plan(
        files,
        task(files, "late", "done", needs=["stuck"]),
        task(files, "stuck", "never"),
        task(files, "free", "done"),
        max_iterations=1,
    )
    files.agent({"write": {"stuck.txt": "no", "free.txt": "done", "late.txt": "done"}})
    ran = files.iterctl("run", "--format", "json")
    assert ran.code == 10, ran.err
    assert states(ran.json) == {"late": "waiting", "stuck": "escalated", "free": "proceed"}
    assert [call["environment"]["ITERCTL_TASK"] for call in files.calls] == ["stuck"]


def test_answering_continues_the_same_run_with_the_guidance_in_the_next_prompt(files: Project) -> None:
    plan(files, task(files, "a", "yes"), task(files, "b", "done", needs=["a"]), max_iterations=1)
    files.agent({"write": {"a.txt": "no"}}, {"write": {"a.txt": "yes"}}, {"write": {"b.txt": "done"}})
    first = files.iterctl("run", "--format", "json")
    assert first.code == 10
    run = first.json["run"]
    second = files.iterctl("answer", run, "--continue", "the word is yes", "--iterations", "2", "--format", "json")
    assert second.code == 0, second.err
    assert second.json["run"] == run
    assert states(second.json) == {"a": "proceed", "b": "proceed"}
    assert "the word is yes" in files.calls[1]["prompt"]
    assert files.calls[1]["environment"]["ITERCTL_ITERATION"] == "2"


def test_an_option_is_an_answer_and_stop_aborts_with_exit_code_1(files: Project) -> None:
    plan(files, task(files, "a", "yes"), max_iterations=1)
    files.agent({"write": {"a.txt": "no"}})
    first = files.iterctl("run", "--format", "json").json
    options = first["tasks"][0]["question"]["options"]
    assert 2 <= len(options) <= 4
    assert files.iterctl("answer", first["run"], "--option", str(len(options) + 1)).code == 4
    last = files.iterctl("answer", first["run"], "--option", str(len(options)), "--format", "json")
    assert last.code == 1
    assert states(last.json) == {"a": "aborted"}
    again = files.iterctl("answer", first["run"], "--option", "1")
    assert again.code == 4
    assert "no question waits" in again.err


def test_a_conflict_between_test_and_code_is_asked_with_both_values(files: Project) -> None:
    plan(files, task(files, "a", "yes"), max_iterations=1)
    files.agent({"write": {"a.txt": "no"}})
    question = files.iterctl("run", "--format", "json").json["tasks"][0]["question"]
    assert "expects yes" in question["text"]
    assert "gives nothing" in question["text"]
    assert [option["effect"] for option in question["options"]] == ["continue", "continue", "abort"]


def test_agent_failures_are_no_iterations_and_escalate_after_three_in_a_row(files: Project) -> None:
    plan(files, task(files, "a", "yes"))
    files.agent({"exit": 7, "complain": "cannot reach the model\n", "write": {"a.txt": "yes"}})
    ran = files.iterctl("run", "--format", "json")
    assert ran.code == 10, ran.err
    only = ran.json["tasks"][0]
    assert (only["reason"], only["iterations"], len(files.calls)) == ("agent-failed", 0, 3)
    assert "exit code 7: cannot reach the model" in only["explanation"]
    assert not (files.root / "a.txt").exists(), "what a failed agent leaves is taken out"


def test_a_failed_call_is_followed_by_another_of_the_same_iteration(files: Project) -> None:
    plan(files, task(files, "a", "yes"), max_iterations=1)
    files.agent({"exit": 1}, {"report": {"error": "overloaded"}}, {"write": {"a.txt": "yes"}})
    ran = files.iterctl("run", "--format", "json")
    assert ran.code == 0, ran.err
    assert ran.json["tasks"][0]["iterations"] == 1
    turns = ran.json["tasks"][0]["history"][0]["agent"]
    assert [turn["outcome"] for turn in turns] == ["crashed", "crashed", "done"]
    assert turns[1]["error"] == "overloaded"


def test_an_agent_that_changes_nothing_is_told_so_and_named_in_the_escalation(files: Project) -> None:
    plan(files, task(files, "a", "yes"), max_iterations=2)
    files.agent({"say": "looks fine to me"})
    ran = files.iterctl("run", "--format", "json")
    assert ran.code == 10
    only = ran.json["tasks"][0]
    assert [step["changed"] for step in only["history"]] == [False, False]
    assert "changed nothing" in only["explanation"]
    assert "changed no file at all" in files.calls[1]["prompt"]


def test_the_plan_is_frozen_for_the_run_and_for_its_resume(files: Project) -> None:
    plan(files, task(files, "a", "yes"), max_iterations=2)
    loose = (files.root / "iterctl.yaml").read_text().replace('"max_iterations": 2', '"max_iterations": 50')
    files.agent({"write": {"iterctl.yaml": loose, "a.txt": "no"}}, {"write": {"a.txt": "still no"}})
    ran = files.iterctl("run", "--format", "json")
    assert ran.code == 10
    assert (ran.json["tasks"][0]["iterations"], ran.json["tasks"][0]["max_iterations"]) == (2, 2)
    refused = files.iterctl("resume", ran.json["run"])
    assert refused.code == 4
    assert "waits for an answer" in refused.err
    more = files.iterctl("resume", ran.json["run"], "--max-iterations", "3", "--format", "json")
    assert (more.code, more.json["tasks"][0]["iterations"]) == (10, 3)


def test_reviewers_decide_after_green_tests_and_a_rejection_is_fed_back(files: Project) -> None:
    critic = files.tools / "critic.py"
    critic.write_text(
        "import json, pathlib, sys\n"
        "diff = sys.stdin.read()\n"
        "ok = 'politely' in pathlib.Path('a.txt').read_text()\n"
        "print('I looked at it.')\n"
        "print(json.dumps({'status': 'approve' if ok else 'reject', 'feedback': 'say it politely'}))\n"
    )
    agents: dict[str, object] = {"critic": {"command": [sys.executable, str(critic)]}}
    plan(files, task(files, "a", "yes", review=["critic"]), agents=agents)
    files.agent({"write": {"a.txt": "yes"}}, {"write": {"a.txt": "yes, politely"}})
    ran = files.iterctl("run", "--format", "json")
    assert ran.code == 0, ran.err
    assert [step["reason"] for step in ran.json["tasks"][0]["history"]] == ["review-rejected", "passed"]
    assert "say it politely" in files.calls[1]["prompt"]


def test_a_pending_review_asks_approve_or_reject_and_approval_proceeds(files: Project) -> None:
    agents: dict[str, object] = {"later": {"command": ["echo", '{"status": "pending"}']}}
    plan(files, task(files, "a", "yes", review=["later"]), agents=agents)
    files.agent({"write": {"a.txt": "yes"}})
    ran = files.iterctl("run", "--format", "json")
    assert (ran.code, ran.json["tasks"][0]["reason"]) == (10, "review-pending")
    assert "approve or reject?" in ran.json["tasks"][0]["question"]["text"]
    approved = files.iterctl("answer", ran.json["run"], "--option", "1", "--format", "json")
    assert approved.code == 0, approved.err
    assert (files.root / "a.txt").read_text() == "yes"
    assert len(files.calls) == 1


def test_a_reviewer_that_fails_is_never_an_approval(files: Project) -> None:
    agents: dict[str, object] = {"broken": {"command": ["false-program-that-is-not-there"]}}
    crashing = files.tools / "crash.sh"
    crashing.write_text("#!/bin/sh\nexit 42\n")
    crashing.chmod(0o755)
    agents = {"broken": {"command": [str(crashing)]}}
    plan(files, task(files, "a", "yes", review=["broken"]), agents=agents)
    files.agent({"write": {"a.txt": "yes"}})
    ran = files.iterctl("run", "--format", "json")
    assert (ran.code, ran.json["tasks"][0]["reason"]) == (10, "agent-failed")


@pytest.mark.parametrize(
    ("safety", "act", "limit"),
    [
        ({"max_total_cost": 1.0}, {"write": {"a.txt": "no"}, "report": {"cost_usd": 1.5}}, "max_total_cost"),
        ({"max_cost_per_iteration": 1.0}, {"report": {"cost_usd": 1.5}}, "max_cost_per_iteration"),
        ({"max_total_duration": "3s"}, {"sleep": 60}, "max_total_duration"),
        ({"max_duration_per_iteration": "1s"}, {"sleep": 60}, "max_duration_per_iteration"),
        ({"max_calls_per_iteration": 2}, {"report": {"calls": 5}}, "max_calls_per_iteration"),
    ],
)
def test_a_safety_limit_ends_the_run_with_exit_code_11_and_its_name(
    files: Project, safety: dict[str, object], act: dict[str, object], limit: str
) -> None:
    plan(files, task(files, "a", "yes"), safety=safety)
    files.agent(act)
    ran = files.iterctl("run", "--format", "json")
    assert ran.code == 11, ran.err
    only = ran.json["tasks"][0]
    assert (only["state"], only["limit"], only["decision"]) == ("stopped", limit, "escalate")
    assert len(files.calls) == 1, "at most one call goes over"


def test_what_was_spent_counts_after_a_resume_with_a_raised_limit(files: Project) -> None:
    plan(files, task(files, "a", "yes"), safety={"max_total_cost": 1.0}, max_iterations=9)
    files.agent(
        {"write": {"a.txt": "no"}, "report": {"cost_usd": 1.5}},
        {"write": {"a.txt": "nope"}, "report": {"cost_usd": 1.5}},
    )
    run = files.iterctl("run", "--format", "json").json["run"]
    assert files.iterctl("resume", run).code == 4
    more = files.iterctl("resume", run, "--limit", "max_total_cost=2", "--format", "json")
    assert more.code == 11
    assert (more.json["cost_usd"], len(files.calls)) == (3.0, 2)


def test_a_hanging_agent_is_ended_by_its_timeout_with_its_whole_process_tree(files: Project) -> None:
    plan(files, task(files, "a", "yes"), max_agent_failures=1, timeout="1s")
    marker = files.tools / "child.pid"
    hang = files.tools / "hang.sh"
    hang.write_text(f"#!/bin/sh\nsetsid sh -c 'echo $$ > {marker}; sleep 300' &\nsleep 300\n")
    hang.chmod(0o755)
    ran = files.iterctl("run", "--agent", str(hang), "--format", "json")
    assert (ran.code, ran.json["tasks"][0]["reason"]) == (10, "agent-failed")
    assert "no answer within 1s" in ran.json["tasks"][0]["explanation"]
    assert not Path(f"/proc/{marker.read_text().strip()}").exists()


def started(project: Project, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pytest_iterctl", *arguments],
        cwd=project.root,
        env=project.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def wait_for(condition: object, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


def test_stop_from_another_shell_ends_a_run_that_can_be_resumed(files: Project) -> None:
    plan(files, task(files, "a", "yes"))
    files.agent({"sleep": 120}, {"write": {"a.txt": "yes"}})
    process = started(files, "run", "--format", "json")
    wait_for(lambda: files.calls)
    second = files.iterctl("run")
    assert second.code == 4
    assert "is at work on this work tree" in second.err
    stopped = files.iterctl("stop")
    assert stopped.code == 0, stopped.err
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 11
    document = json.loads(out)
    assert (document["tasks"][0]["state"], document["tasks"][0]["limit"]) == ("stopped", "person")
    resumed = files.iterctl("resume", document["run"], "--format", "json")
    assert resumed.code == 0, resumed.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_exits_with_2_and_can_be_resumed(files: Project, number: signal.Signals) -> None:
    plan(files, task(files, "a", "yes"))
    files.agent({"sleep": 120, "write": {"a.txt": "half"}}, {"write": {"a.txt": "yes"}})
    process = started(files, "run")
    wait_for(lambda: files.calls)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 2, err
    assert "hint: go on with: iterctl resume" in err
    # What the agent had half done is kept as a snapshot and no longer in the work tree.
    assert not (files.root / "a.txt").exists()
    assert not running_agents(files)
    resumed = files.iterctl("resume", "--format", "json")
    assert resumed.code == 0, resumed.err
    assert (files.root / "a.txt").read_text() == "yes"


def test_a_second_signal_does_not_wait_for_anybody(files: Project) -> None:
    plan(files, task(files, "a", "yes"))
    stubborn = files.tools / "stubborn.py"
    stubborn.write_text(
        "import pathlib, signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\npathlib.Path('a.txt').write_text('half')\ntime.sleep(120)\n"
    )
    process = started(files, "run", "--agent", f"{sys.executable} -S {stubborn}")
    wait_for((files.root / "a.txt").exists)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 2, err
    assert "was interrupted" in err
    resumed = files.iterctl("resume", "--format", "json", "--limit", "max_total_duration=3s")
    assert resumed.json["tasks"][0]["state"] == "stopped"
    assert not (files.root / "a.txt").exists()


def test_signals_that_come_as_a_run_ends_change_nothing(files: Project) -> None:
    plan(files, task(files, "a", "yes"))
    files.agent({"sleep": 120})
    process = started(files, "run")
    wait_for(lambda: files.calls)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    process.stdout.read(1)  # the summary: the run has ended
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 2, err
    assert "hint: go on with: iterctl resume" in err


def test_a_killed_driver_leaves_no_process_behind(files: Project) -> None:
    plan(files, task(files, "a", "yes"))
    files.agent({"sleep": 120})
    process = started(files, "run")
    wait_for(lambda: files.calls)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    wait_for(lambda: not running_agents(files))


def test_to_stop_a_run_whose_driver_is_dead_says_what_it_put_back(files: Project) -> None:
    plan(files, task(files, "a", "yes"))
    files.agent({"write": {"a.txt": "half"}, "sleep": 120}, {"write": {"a.txt": "yes"}})
    process = started(files, "run")
    wait_for((files.root / "a.txt").exists)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    files.write("mine.txt", "later work\n")
    stopped = files.iterctl("stop")
    assert stopped.code == 0, stopped.err
    assert not running_agents(files)
    assert not (files.root / "mine.txt").exists()
    (line,) = [line for line in stopped.err.splitlines() if "RECOVER" in line]
    assert "mine.txt" in line
    command = line[line.index("git diff") :].split()
    assert "+later work" in files.run(*command).out
    run = files.iterctl("status", "--format", "json").json["runs"][0]["run"]
    assert (files.root / ".iterctl/runs" / run / "report.md").exists()
    assert "has already ended" in files.iterctl("stop").out
    resumed = files.iterctl("resume", "--format", "json")
    assert resumed.code == 0, resumed.err
    assert "EDITED" not in resumed.err


def test_half_a_turn_of_one_task_is_no_edit_by_a_person_of_another(files: Project) -> None:
    plan(files, task(files, "a", "yes"), task(files, "b", "yes"), safety={"max_calls_per_iteration": 1})
    files.agent({"report": {"cost_usd": 0.1, "calls": 5}}, {"write": {"b.txt": "half", "test_x.py": "x"}, "sleep": 120})
    process = started(files, "run")
    wait_for((files.root / "b.txt").exists)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    assert states(files.iterctl("status", "--format", "json").json["runs"][0]) == {"a": "stopped", "b": "running"}
    files.agent({"write": {"a.txt": "yes", "b.txt": "yes"}})
    resumed = files.iterctl("resume", "--limit", "max_calls_per_iteration=50")
    assert "EDITED" not in resumed.err
    assert "RECOVER" in resumed.err
    assert resumed.code == 0, resumed.err


def running_agents(project: Project) -> list[str]:
    wanted = str(project.tools / "agent.py").encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if wanted in entry.read_bytes():
                found.append(entry.parent.name)
        except OSError:
            continue
    return found


def test_one_task_only_runs_what_it_needs(files: Project) -> None:
    plan(files, task(files, "a", "yes"), task(files, "b", "yes", needs=["a"]), task(files, "c", "yes"))
    files.agent({"write": {"a.txt": "yes", "b.txt": "yes"}})
    ran = files.iterctl("run", "--task", "b", "--format", "json")
    assert ran.code == 0, ran.err
    assert list(states(ran.json)) == ["a", "b"]
    assert files.iterctl("run", "--task", "zz").code == 4


def test_a_portable_checkpoint_goes_on_in_another_clone(files: Project, tmp_path: Path) -> None:
    plan(files, task(files, "a", "yes"), max_iterations=1, checkpoint_interval=1)
    files.git("add", "-A")
    files.git("commit", "-q", "-m", "plan")
    files.agent({"write": {"a.txt": "no"}})
    ran = files.iterctl("run", "--format", "json")
    assert ran.code == 10, ran.err
    checkpoint = files.root / ran.json["tasks"][0]["checkpoints"][0]
    clone = tmp_path / "clone"
    files.run("git", "clone", "-q", str(files.root), str(clone))
    other = Project(clone, tmp_path / "other-state", files.tools)
    other.agent({"write": {"a.txt": "yes"}})
    resumed = other.iterctl("resume", "--checkpoint", str(checkpoint), "--max", "4", "--format", "json")
    assert resumed.code == 0, resumed.err
    assert resumed.json["run"] == ran.json["run"]
    assert (clone / "a.txt").read_text() == "yes"


def test_a_stale_report_from_before_the_run_is_no_evidence(files: Project) -> None:
    silent: dict[str, object] = {"id": "silent", "test": {"command": ["true"], "junit": "old.xml"}}
    files.write("old.xml", '<testsuite><testcase name="x"/></testsuite>')
    plan(files, silent, max_iterations=1)
    ran = files.iterctl("run", "--format", "json")
    assert ran.code == 10
    assert ran.json["tasks"][0]["outcome"] == "no-report"


def test_commit_holds_exactly_the_accepted_change(project: Project) -> None:
    project.git("config", "user.name", "me")
    project.git("config", "user.email", "me@localhost")
    project.write("notes.txt", "mine")
    project.write("staged.txt", "staged")
    project.git("add", "staged.txt")
    ran = project.iterate("--iterate-commit=Double right", "test_calc.py")
    assert ran.code == 0, ran.err
    assert project.git("log", "--format=%s", "-1") == "Double right"
    assert project.git("show", "--name-only", "--format=") == "calc.py"
    assert sorted(project.git("status", "--porcelain").splitlines()) == ["?? notes.txt", "A  staged.txt"]


def test_a_commit_that_would_take_the_users_own_work_along_is_refused_and_said(project: Project) -> None:
    project.git("config", "user.name", "me")
    project.git("config", "user.email", "me@localhost")
    project.write("calc.py", BROKEN + "# my own edit\n")
    ran = project.iterate("--iterate-commit")
    assert ran.code == 1
    (told,) = (line for line in ran.out.splitlines() if "UNCOMMITTED" in line)
    assert told.endswith("look at it and commit it yourself")
    assert (project.root / "calc.py").read_text() == FIXED


def test_a_reviewer_that_edits_files_has_them_put_back(files: Project) -> None:
    meddler = files.tools / "meddler.sh"
    meddler.write_text('#!/bin/sh\necho meddled > a.txt\necho new > meddled.txt\necho \'{"status": "approve"}\'\n')
    meddler.chmod(0o755)
    plan(files, task(files, "a", "yes", review=["meddler"]), agents={"meddler": {"command": [str(meddler)]}})
    files.agent({"write": {"a.txt": "yes"}})
    ran = files.iterctl("run", "--format", "json")
    assert ran.code == 0, ran.err
    assert (files.root / "a.txt").read_text() == "yes"
    assert not (files.root / "meddled.txt").exists()
    assert "changed files" in " ".join(ran.json["warnings"])


@pytest.mark.parametrize(
    ("printed", "code", "status"),
    [
        ('{"status": "approve"}', 3, "proceed"),
        ('{"status": "reject", "feedback": "no"}', 0, "escalated"),
        ('{"status": "rejected", "feedback": "no"}', 0, "escalated"),
        ("fine", 0, "proceed"),
        ("bad", 1, "escalated"),
    ],
)
def test_a_reviewers_document_speaks_before_its_exit_code(files: Project, printed: str, code: int, status: str) -> None:
    reviewer = files.tools / "reviewer.sh"
    reviewer.write_text(f"#!/bin/sh\ncat > /dev/null\necho '{printed}'\nexit {code}\n")
    reviewer.chmod(0o755)
    plan(
        files,
        task(files, "a", "yes", review=["r"]),
        agents={"r": {"command": [str(reviewer)]}},
        max_iterations=1,
        max_agent_failures=1,
    )
    files.agent({"write": {"a.txt": "yes"}})
    ran = files.iterctl("run", "--format", "json")
    assert ran.json["tasks"][0]["state"] == status, ran.err


def test_every_call_of_an_iteration_is_kept_in_memory(files: Project) -> None:
    plan(files, task(files, "a", "yes"), max_iterations=1)
    files.agent({"exit": 1, "say": "first try"}, {"write": {"a.txt": "yes"}, "say": "second try"})
    run = files.iterctl("run", "--format", "json").json["run"]
    assert "first try" in files.iterctl("memory", "get", "stage-1-output@1", "--run", run).out
    assert "second try" in files.iterctl("memory", "get", "stage-1-output@1#2").out


@pytest.mark.parametrize("answer", [("--option", "1"), ("--continue", "Say yes.")])
def test_going_on_after_a_limit_of_the_run_allows_as_much_again(files: Project, answer: tuple[str, str]) -> None:
    plan(files, task(files, "a", "yes"), safety={"max_total_cost": 1.0})
    files.agent(
        {"write": {"a.txt": "no"}, "report": {"cost_usd": 1.25}}, {"write": {"a.txt": "yes"}, "report": {"cost_usd": 1}}
    )
    stopped = files.iterctl("run", "--format", "json")
    assert (stopped.code, stopped.json["tasks"][0]["limit"]) == (11, "max_total_cost")
    ran = files.iterctl("answer", stopped.json["run"], *answer, "--format", "json")
    assert ran.code == 0, ran.err
    assert (ran.json["cost_usd"], len(files.calls)) == (2.25, 2)


def test_the_raised_limit_holds_too(files: Project) -> None:
    plan(files, task(files, "a", "yes"), safety={"max_total_cost": 1.0})
    files.agent({"write": {"a.txt": "no"}, "report": {"cost_usd": 1.25}}, {"report": {"cost_usd": 1.5}})
    run = files.iterctl("run", "--format", "json").json["run"]
    ran = files.iterctl("answer", run, "--option", "1", "--format", "json")
    assert (ran.code, ran.json["tasks"][0]["limit"], len(files.calls)) == (11, "max_total_cost", 2)


def test_trying_again_after_a_failed_reviewer_asks_the_reviewer_and_not_the_agent(files: Project) -> None:
    review = files.tools / "review.sh"
    review.write_text(f'#!/bin/sh\ntest -e {files.tools}/awake || exit 42\necho \'{{"status": "approve"}}\'\n')
    review.chmod(0o755)
    agents: dict[str, object] = {"sleepy": {"command": [str(review)]}}
    plan(files, task(files, "a", "yes", review=["sleepy"]), agents=agents, backoff="none")
    files.agent({"write": {"a.txt": "yes"}})
    failed = files.iterctl("run", "--format", "json")
    assert (failed.code, failed.json["tasks"][0]["reason"]) == (10, "agent-failed")
    (files.tools / "awake").touch()
    ran = files.iterctl("answer", failed.json["run"], "--option", "1", "--format", "json")
    assert ran.code == 0, ran.err
    assert (len(files.calls), ran.json["tasks"][0]["iterations"]) == (1, 1)


def test_after_an_edit_trying_again_tests_again_before_the_review(files: Project) -> None:
    agents: dict[str, object] = {"broken": {"command": ["sh", "-c", "exit 42"]}}
    plan(files, task(files, "a", "yes", review=["broken"]), agents=agents, backoff="none")
    files.agent({"write": {"a.txt": "yes"}})
    run = files.iterctl("run", "--format", "json").json["run"]
    files.write("a.txt", "spoiled")
    files.iterctl("answer", run, "--option", "1", "--format", "json")
    assert len(files.calls) == 2
