"""What an agent does to .git, to most of the project, and around the work tree: undone, told once, then a person."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_sacred_git_state import fingerprint
from tests.kit.project import BROKEN, FIXED, Project, Ran

GIT = ("git", "-c", "user.name=agent", "-c", "user.email=agent@localhost")
WRITE_HOOK = (
    "import os; f = open('.git/hooks/post-checkout', 'w'); f.write('#!/bin/sh\\ntrue\\n'); os.fchmod(f.fileno(), 0o755)"
)
PLANT = [[sys.executable, "-S", "-c", WRITE_HOOK], ["git", "config", "core.fsmonitor", "/nonexistent/program"]]
#: The command's parent is the agent, the agent's the supervisor, and the supervisor's the driver.
KILL_DRIVER = """
import os, signal, time
def parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
os.kill(parent(parent(os.getppid())), signal.SIGKILL)
time.sleep(60)
"""
DIE = [[sys.executable, "-S", "-c", KILL_DRIVER]]
COMMIT = [[*GIT, "add", "-A"], [*GIT, "commit", "-q", "--no-verify", "-m", "mine"]]


def still_broken(number: int) -> dict[str, Any]:
    return {"calc.py": BROKEN + f"# tried {number}\n"}


def run(project: Project, *more: str, home: str | None = None) -> Ran:
    arguments = ("run", "--agent", project.agent_command, "--format", "json", *more)
    return project.iterctl(*arguments) if home is None else project.iterctl(*arguments, HOME=home)


def task_of(ran: Ran) -> dict[str, Any]:
    return dict(ran.json["tasks"][0])


@pytest.mark.slow
def test_hooks_and_settings_are_put_back_and_the_fix_is_accepted(project: Project) -> None:
    project.agent({"write": {"calc.py": FIXED}, "run": PLANT})
    before = fingerprint(project.root, but=frozenset({b"calc.py"}))
    ran = run(project)
    assert ran.code == 0, ran.err
    assert fingerprint(project.root, but=frozenset({b"calc.py"})) == before
    (step,) = task_of(ran)["history"]
    blamed = {each["what"]: each for each in step["touched"] if each["destructive"]}
    assert any("post-checkout" in what for what in blamed)
    assert any("fsmonitor" in f"{what} {each['how']}" for what, each in blamed.items())
    assert all(each["undone"] for each in blamed.values())
    assert "UNDONE" in ran.err


@pytest.mark.slow
def test_an_accepted_run_lists_what_was_undone(project: Project) -> None:
    project.agent({"write": {"calc.py": FIXED}, "run": PLANT})
    ran = project.iterctl("run", "--agent", project.agent_command)
    assert ran.code == 0, ran.err
    assert "Trespass in iteration 1" in ran.out


@pytest.mark.slow
def test_it_is_told_once_and_the_second_time_a_person_is_asked(project: Project) -> None:
    project.agent(*({"write": still_broken(number), "run": PLANT} for number in (1, 2)), {"write": {"calc.py": FIXED}})
    ran = run(project)
    task = task_of(ran)
    assert (ran.code, task["state"], task["reason"]) == (10, "escalated", "destructive"), ran.err
    assert [step["reason"] for step in task["history"]] == ["destructive", "destructive"]
    assert "## What went beyond the task" in project.calls[1]["prompt"]
    assert "post-checkout" in project.calls[1]["prompt"]
    assert not (project.root / ".git/hooks/post-checkout").exists()
    options = [option["label"] for option in task["question"]["options"]]
    assert options == ["go on without it", "the task needs it: allow it, and go on", "stop"]
    report = (project.root / task["report"]).read_text()
    assert "What was done to git's own files" in report
    assert "git for-each-ref refs/iterctl/kept" in report

    # Whoever allows it has it from then on; nothing is undone any more.
    project.agent(*({"write": still_broken(number)} for number in (1, 2)), {"write": {"calc.py": FIXED}, "run": PLANT})
    answered = project.iterctl("answer", ran.json["run"], "--option", "2", "--format", "json")
    assert answered.code == 0, answered.err
    assert (project.root / ".git/hooks/post-checkout").exists()


@pytest.mark.slow
def test_an_answer_that_does_not_allow_it_wipes_the_slate(project: Project) -> None:
    acts = [{"write": still_broken(number), "run": PLANT} for number in (1, 2, 3)]
    project.agent(*acts, {"write": {"calc.py": FIXED}})
    ran = run(project)
    answered = project.iterctl("answer", ran.json["run"], "--option", "1", "--format", "json")
    assert answered.code == 0, answered.err
    steps = task_of(answered)["history"]
    assert [step["reason"] for step in steps] == ["destructive", "destructive", "destructive", "passed"]
    assert not (project.root / ".git/hooks/post-checkout").exists()


def with_many_files(project: Project) -> dict[str, str]:
    names = {f"pages/page_{number}.py": f"NUMBER = {number}\nTEXT = 'page {number}'\n" for number in range(40)}
    for name, text in names.items():
        project.write(name, text)
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "pages")
    return names


@pytest.mark.slow
def test_most_of_the_project_deleted_is_taken_back_as_a_whole(project: Project) -> None:
    names = with_many_files(project)
    project.agent({"write": {"calc.py": FIXED}, "delete": [*names]}, {"write": {"calc.py": FIXED}})
    ran = run(project)
    assert ran.code == 0, ran.err
    first, second = task_of(ran)["history"]
    assert "40 files of 44" in first["destroyed"], first
    assert (first["outcome"], first["decision"], first["reason"]) == (None, "retry", "destructive")
    assert (second["destroyed"], second["decision"]) == (None, "proceed")
    assert {name: (project.root / name).read_text() for name in names} == names
    assert "deleted or emptied" in project.calls[1]["prompt"]
    assert "taken back as a whole" in ran.err
    # What the agent had made of it is kept all the same.
    refs = project.git("for-each-ref", "--format=%(refname)", "refs/iterctl").splitlines()
    (kept,) = [ref for ref in refs if "failed" in ref]
    assert "double" in project.git("show", f"{kept}:calc.py")


@pytest.mark.slow
def test_destroyed_twice_asks_a_person_and_nothing_is_lost(project: Project) -> None:
    names = with_many_files(project)
    empty = dict.fromkeys(names, "")
    project.agent({"write": {"calc.py": FIXED}, "delete": [*names]}, {"write": {**empty, "calc.py": FIXED}})
    ran = run(project)
    task = task_of(ran)
    assert (ran.code, task["reason"]) == (10, "destructive"), ran.err
    assert {name: (project.root / name).read_text() for name in names} == names


@pytest.mark.slow
def test_permissive_lets_an_agent_do_as_it_likes(project: Project) -> None:
    names = with_many_files(project)
    project.agent({"write": {"calc.py": FIXED}, "delete": [*names], "run": PLANT})
    ran = run(project, "--safety", "permissive")
    assert ran.code == 0, ran.err
    assert not (project.root / "pages/page_1.py").exists()
    assert (project.root / ".git/hooks/post-checkout").exists()
    assert task_of(ran)["history"][0]["touched"] == []


@pytest.mark.slow
def test_an_agent_that_commits_is_blamed_for_nothing(project: Project) -> None:
    project.write("notes.txt", "mine\n")
    project.git("add", "notes.txt")
    before = fingerprint(project.root, but=frozenset({b"calc.py"}))
    head = project.git("rev-parse", "HEAD")
    project.agent(
        {"write": {"calc.py": BROKEN + "# tried\n"}, "run": COMMIT}, {"write": {"calc.py": FIXED}, "run": COMMIT}
    )
    ran = run(project)
    assert ran.code == 0, ran.err
    assert fingerprint(project.root, but=frozenset({b"calc.py"})) == before
    assert project.git("rev-parse", "HEAD") == head
    assert (project.root / "calc.py").read_text() == FIXED
    assert not any(each["destructive"] for step in task_of(ran)["history"] for each in step["touched"])
    kept = project.git("for-each-ref", "--format=%(subject)", "refs/iterctl/kept").splitlines()
    assert kept.count("mine") == 2


@pytest.mark.slow
@pytest.mark.parametrize("act", [{"exit": 3}, {"write": {"calc.py": FIXED}}], ids=["failed", "done"])
def test_a_removed_git_directory_comes_back(project: Project, act: dict[str, Any]) -> None:
    before = fingerprint(project.root, but=frozenset({b"calc.py"}))
    project.agent({**act, "run": [["rm", "-rf", ".git"]]}, {"write": {"calc.py": FIXED}})
    ran = run(project)
    assert ran.code == 0, ran.err
    assert fingerprint(project.root, but=frozenset({b"calc.py"})) == before
    assert project.git("fsck", "--connectivity-only", "--no-dangling") == ""


AWAY = {
    "git": [["mv", ".git", "../moved"], ["ln", "-s", "../moved", ".git"]],
    "objects": [["mv", ".git/objects", "../moved"], ["ln", "-s", "../../moved", ".git/objects"]],
    "refs": [["mv", ".git/refs", "../moved"], ["ln", "-s", "../../moved", ".git/refs"]],
    "borrowed": [
        ["mv", ".git/objects", "../moved"],
        ["mkdir", "-p", ".git/objects/info"],
        ["sh", "-c", "echo $PWD/../moved > .git/objects/info/alternates"],
    ],
    "a folder for HEAD": [["rm", ".git/HEAD"], ["mkdir", ".git/HEAD"]],
    "a work tree": [["git", "worktree", "add", "-q", "../moved"]],
}


@pytest.mark.slow
@pytest.mark.parametrize("way", AWAY)
def test_what_is_moved_away_is_whole_again_and_told_as_undone(project: Project, way: str) -> None:
    """What a link leads to is gone with the link: objects were told as undone, and lost."""
    before = fingerprint(project.root, but=frozenset({b"calc.py"}))
    project.agent({"write": {"calc.py": FIXED}, "run": AWAY[way]})
    ran = run(project)
    assert ran.code == 0, ran.err
    assert "NOT UNDONE" not in ran.err
    assert all(each["undone"] for each in task_of(ran)["history"][0]["touched"] if not each["outside"])
    assert fingerprint(project.root, but=frozenset({b"calc.py"})) == before
    assert not (project.root / ".git").is_symlink()
    assert project.git("fsck", "--connectivity-only", "--no-dangling") == ""
    assert project.git("worktree", "list").count("\n") == 0


@pytest.mark.slow
@pytest.mark.parametrize("way", ["objects", "refs", "borrowed", "a work tree"])
def test_moved_away_and_killed_the_next_driver_has_it_whole_again(project: Project, way: str) -> None:
    before = fingerprint(project.root, but=frozenset({b"calc.py"}))
    project.agent({"write": {"calc.py": FIXED}, "run": [*AWAY[way], *DIE]}, {"write": {"calc.py": FIXED}})
    assert run(project).code == -9
    ran = project.iterctl("resume", "--format", "json")
    assert ran.code == 0, ran.err
    assert fingerprint(project.root, but=frozenset({b"calc.py"})) == before
    assert project.git("fsck", "--connectivity-only", "--no-dangling") == ""


@pytest.mark.slow
def test_a_git_directory_that_was_moved_before_a_crash_is_named_with_what_to_do(project: Project) -> None:
    before = fingerprint(project.root, but=frozenset({b"calc.py"}))
    project.agent({"write": {"calc.py": FIXED}, "run": [*AWAY["git"], *DIE]}, {"write": {"calc.py": FIXED}})
    assert run(project).code == -9
    refused = project.iterctl("resume", "--format", "json")
    assert refused.code == 4
    (hint,) = (line for line in refused.err.splitlines() if line.startswith("hint: "))
    remedy = hint.partition("with: ")[2].partition(";")[0]
    assert project.run("sh", "-c", remedy).code == 0
    ran = project.iterctl("resume", "--format", "json")
    assert ran.code == 0, ran.err
    assert fingerprint(project.root, but=frozenset({b"calc.py"})) == before


@pytest.mark.slow
def test_a_reviewer_is_watched_as_well(project: Project) -> None:
    script = project.tools / "reviewer.py"
    script.write_text(f"import subprocess\nfor command in {PLANT!r}:\n    subprocess.run(command, check=True)\n")
    project.agent({"write": {"calc.py": FIXED}})
    ran = run(project, "--reviewer", f"{sys.executable} -S {script}")
    assert ran.code == 0, ran.err
    assert not (project.root / ".git/hooks/post-checkout").exists()
    assert any(each["destructive"] and each["undone"] for each in task_of(ran)["history"][0]["touched"])


@pytest.mark.slow
def test_what_tests_do_to_git_is_put_back_and_held_against_nobody(project: Project) -> None:
    tests = (project.root / "test_calc.py").read_text()
    planting = f"\n\ndef test_plants():\n    import subprocess\n    for command in {PLANT[1:]!r}:\n"
    project.write("test_calc.py", tests + planting + "        subprocess.run(command, check=False)\n")
    project.git("commit", "-q", "-a", "-m", "tests")
    project.agent({"write": {"calc.py": FIXED}})
    before = fingerprint(project.root, but=frozenset({b"calc.py"}))
    ran = run(project)
    assert ran.code == 0, ran.err
    assert fingerprint(project.root, but=frozenset({b"calc.py"})) == before
    assert any("the tests" in text for text in ran.json["warnings"])
    assert task_of(ran)["history"][0]["touched"] == []


@pytest.mark.slow
def test_a_changed_login_script_is_reported_as_not_undone(project: Project, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".bashrc").write_text("alias ll='ls -l'\n")
    append = [[sys.executable, "-S", "-c", f"open({str(home / '.bashrc')!r}, 'a').write('echo hello\\n')"]]
    project.agent(*({"write": still_broken(number), "run": append} for number in (1, 2)))
    ran = run(project, home=str(home))
    task = task_of(ran)
    assert (ran.code, task["reason"]) == (10, "destructive"), ran.err
    (touch,) = task["history"][0]["touched"]
    assert (touch["what"], touch["outside"], touch["undone"]) == ("~/.bashrc", True, False)
    assert "NOT UNDONE" in ran.err
    assert (home / ".bashrc").read_text().count("hello") == 2


@pytest.mark.slow
@pytest.mark.parametrize("point", ["in the turn", "turn-finished", "snapshot-taken"])
def test_killed_in_the_middle_the_next_driver_puts_it_back(project: Project, point: str) -> None:
    names = with_many_files(project)
    before = fingerprint(project.root, but=frozenset({b"calc.py"}))
    act: dict[str, Any] = {"write": {"calc.py": FIXED}, "delete": [*names], "run": PLANT}
    if point == "in the turn":
        project.agent({**act, "run": [*PLANT, *DIE]}, {"write": {"calc.py": FIXED}})
        killed = run(project)
        assert (project.root / ".git/hooks/post-checkout").exists()
    else:
        project.agent(act, {"write": {"calc.py": FIXED}})
        number = {"turn-finished": 1, "snapshot-taken": 2}[point]
        killed = project.crash(point, number, "run", "--agent", project.agent_command)
    assert killed.code == -9, killed.err
    assert not (project.root / "pages/page_1.py").exists()
    ran = project.iterctl("resume", "--format", "json")
    assert ran.code == 0, ran.err
    assert fingerprint(project.root, but=frozenset({b"calc.py"})) == before


@pytest.mark.slow
def test_what_the_user_did_to_git_after_a_crash_is_theirs(project: Project) -> None:
    project.agent({"write": {"calc.py": FIXED}, "run": [*PLANT, *DIE]}, {"write": {"calc.py": FIXED}})
    assert run(project).code == -9
    # As far as its journal knows the run died long ago, so whoever wrote the hook just now was somebody else.
    (journal,) = project.state.glob("*/journal.db")
    with contextlib.closing(sqlite3.connect(journal)) as connection, connection:
        connection.execute("UPDATE events SET at = '2020-01-01T00:00:00.000Z' WHERE kind = 'stage-started'")
    ran = project.iterctl("resume", "--format", "json")
    assert ran.code == 0, ran.err
    assert (project.root / ".git/hooks/post-checkout").exists()
    assert any("not undone" in text for text in ran.json["warnings"])


@pytest.mark.slow
def test_a_lock_that_is_a_full_folder_goes(project: Project) -> None:
    lock = project.root / ".git" / "index.lock"
    project.agent({"write": {"calc.py": FIXED, ".git/index.lock/full": "", ".git/refs/heads/main.lock/a/b": ""}})
    ran = project.iterate()
    assert ran.code == 0, ran.err
    assert not lock.exists()
    project.git("add", "-A")
    project.git("commit", "-qm", "it works")


@pytest.mark.slow
def test_a_commit_that_was_undone_outlives_the_run_that_undid_it(project: Project) -> None:
    script = project.tools / "committing.py"
    commit = "git add -A; git -c user.name=somebody -c user.email=some@body.example commit -qm mine"
    mends = f"pathlib.Path('calc.py').write_text({FIXED!r})"
    script.write_text(f"import pathlib, subprocess\n{mends}\nsubprocess.run(['sh', '-c', {commit!r}])\n")
    ran = project.iterate(f"--iterate-agent={sys.executable} {script}")
    assert ran.code == 0, ran.err
    assert "PUT BACK" in ran.out + ran.err
    kept = project.git("for-each-ref", "--format=%(refname)", "refs/iterctl/kept").split()
    assert kept
    cleaned = project.iterctl("clean", "--all")
    assert "kept 1 commit of others" in cleaned.out
    assert project.git("for-each-ref", "--format=%(refname)", "refs/iterctl").split() == kept
