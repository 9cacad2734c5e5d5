"""What an agent says of its turn is understood: sessions, questions, refusals and waits, in whole runs."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kit.project import BROKEN, FIXED, Project

#: An agent with sessions: logs how it was called, does what its script says, reports as JSON.
TALKER = """
import json, pathlib, sys
here = pathlib.Path(__file__).parent
log = here / "talks.jsonl"
number = log.read_text().count("\\n") if log.exists() else 0
with log.open("a") as stream:
    stream.write(json.dumps({"argv": sys.argv[1:], "prompt": sys.stdin.read()}) + "\\n")
acts = json.loads((here / "acts.json").read_text())
act = acts[min(number, len(acts) - 1)]
for name, content in act.get("write", {}).items():
    pathlib.Path(name).write_text(content)
resumed = sys.argv[2] if sys.argv[1:2] == ["--resume"] else ""
print(json.dumps({"session_id": resumed or f"session-{number + 1}", **act.get("report", {})}))
sys.exit(act.get("exit", 0))
"""


class Talker:
    def __init__(self, project: Project, **keys: Any) -> None:
        self.project = project
        (project.tools / "talker.py").write_text(TALKER)
        command = [sys.executable, str(project.tools / "talker.py")]
        agent = {"command": command, "resume": [*command, "--resume", "{session_id}"], **keys.pop("agent", {})}
        task = {"id": "calc", "tests": ["test_calc.py"], **keys.pop("task", {})}
        plan = {"settings": {"agent": "talker", **keys}, "agents": {"talker": agent}, "tasks": [task]}
        project.write("iterctl.yaml", json.dumps(plan))
        project.git("add", "-A")
        project.git("commit", "-q", "-m", "plan")

    def acts(self, *acts: dict[str, Any]) -> None:
        (self.project.tools / "acts.json").write_text(json.dumps(acts))

    @property
    def talks(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.project.tools / "talks.jsonl").read_text().splitlines()]

    @property
    def sessions(self) -> list[str]:
        return [talk["argv"][1] if talk["argv"] else "" for talk in self.talks]

    def run(self) -> Any:
        ran = self.project.iterctl("run", "--format", "json")
        assert ran.out, ran.err
        return {**ran.json, "code": ran.code}


def wrong(number: int) -> dict[str, Any]:
    return {"write": {"calc.py": f"def double(number):\n    return number + {number}\n"}}


def test_a_session_is_fresh_each_time_unless_somebody_asks_to_resume(project: Project) -> None:
    talker = Talker(project)
    talker.acts(wrong(5), {"write": {"calc.py": FIXED}})
    assert talker.run()["code"] == 0
    assert talker.sessions == ["", ""]


@pytest.mark.parametrize("where", ["task", "agent"])
def test_a_session_is_gone_on_with_where_that_is_asked_for(project: Project, where: str) -> None:
    keys: dict[str, Any] = {where: {"session": "resume"}}
    talker = Talker(project, **keys)
    talker.acts(wrong(5), wrong(7), {"write": {"calc.py": FIXED}})
    assert talker.run()["code"] == 0
    assert talker.sessions == ["", "session-1", "session-1"]


def test_after_failing_twice_in_the_same_way_it_starts_afresh(project: Project) -> None:
    talker = Talker(project, task={"session": "resume"}, max_iterations=4)
    again = BROKEN + "\n# tried\n"
    talker.acts(
        {"write": {"calc.py": again}}, {"write": {"calc.py": again + "# and again\n"}}, {"write": {"calc.py": FIXED}}
    )
    assert talker.run()["code"] == 0
    assert talker.sessions == ["", "session-1", ""]


def test_after_a_failed_call_it_starts_afresh(project: Project) -> None:
    talker = Talker(project, task={"session": "resume"}, backoff="none")
    talker.acts(wrong(5), {"exit": 3}, {"write": {"calc.py": FIXED}})
    assert talker.run()["code"] == 0
    assert talker.sessions == ["", "session-1", ""]


def test_after_the_tree_was_put_back_it_starts_afresh(project: Project) -> None:
    talker = Talker(project, task={"session": "resume"}, max_iterations=2)
    one_right = "def double(number):\n    return 2 * number if number else 1\n"
    talker.acts({"write": {"calc.py": one_right}}, wrong(9), {"write": {"calc.py": FIXED}})
    run = talker.run()
    assert (run["code"], run["tasks"][0]["holds"]["iteration"]) == (10, 1)
    ran = project.iterctl("answer", run["run"], "--continue", "Look at zero.", "--format", "json")
    assert ran.code == 0, ran.err
    assert talker.sessions == ["", "session-1", ""]


def test_an_answered_question_goes_on_in_the_session_that_asked(project: Project) -> None:
    talker = Talker(project, task={"session": "resume"})
    talker.acts({"report": {"question": "Zero?"}}, {"write": {"calc.py": FIXED}})
    run = talker.run()
    assert project.iterctl("answer", run["run"], "--continue", "Zero.").code == 0
    assert talker.sessions == ["", "session-1"]


def test_a_question_of_the_agent_reaches_a_person_and_the_answer_reaches_the_agent(project: Project) -> None:
    talker = Talker(project)
    talker.acts({"report": {"question": "Should double(0) be 0 or None?"}}, {"write": {"calc.py": FIXED}})
    run = talker.run()
    task = run["tasks"][0]
    assert (run["code"], task["reason"], len(talker.talks)) == (10, "agent-asked", 1)
    assert "Should double(0) be 0 or None?" in task["question"]["text"]
    report = (project.root / task["report"]).read_text()
    assert "Should double(0) be 0 or None?" in report
    ran = project.iterctl("answer", run["run"], "--continue", "It must be 0.", "--format", "json")
    assert ran.code == 0, ran.err
    assert "You asked: Should double(0) be 0 or None?" in talker.talks[1]["prompt"]
    assert "A person answered: It must be 0." in talker.talks[1]["prompt"]


def test_a_line_at_the_end_asks_as_well(project: Project) -> None:
    asking = project.tools / "asking.sh"
    asking.write_text("#!/bin/sh\ncat >/dev/null\necho 'I looked at it.'\necho 'ITERCTL-QUESTION: Which rounding?'\n")
    asking.chmod(0o755)
    ran = project.pytest("--iterate", f"--iterate-agent={asking}", "--iterate-format=json")
    assert (ran.code, ran.json["tasks"][0]["reason"]) == (10, "agent-asked")
    assert "Which rounding?" in ran.json["tasks"][0]["question"]["text"]


def test_denied_tools_are_told_at_once(project: Project) -> None:
    talker = Talker(project)
    talker.acts({"report": {"denied": ["Write", "Bash"]}})
    run = talker.run()
    assert (run["code"], run["tasks"][0]["reason"], len(talker.talks)) == (10, "agent-failed", 1)
    assert run["tasks"][0]["history"][0]["agent"] == [{"outcome": "tools-denied", "error": ""}]
    assert "Write, Bash" in run["tasks"][0]["question"]["text"]


def test_a_rate_limit_is_waited_for_and_costs_no_iteration(project: Project) -> None:
    talker = Talker(project, backoff="none")
    talker.acts({"report": {"error": "slow down", "retry_after": 0.2}, "exit": 1}, {"write": {"calc.py": FIXED}})
    run = talker.run()
    assert (run["code"], run["tasks"][0]["iterations"]) == (0, 1)
    assert [turn["outcome"] for turn in run["tasks"][0]["history"][0]["agent"]] == ["rate-limited", "done"]


def test_a_preset_that_is_not_installed_says_how_to_get_it(project: Project, tmp_path: Path) -> None:
    project.write("iterctl.yaml", "settings: {agent: goose, backoff: none, max_agent_failures: 1}\n")
    ran = project.iterctl("run", "--format", "json", PATH=_path_without(tmp_path))
    assert ran.code == 10, ran.err
    question = ran.json["tasks"][0]["question"]["text"]
    assert "`goose` is not on the PATH" in question


def test_the_doctor_names_the_version_of_a_known_tool(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    claude = folder / "claude"
    claude.write_text("#!/bin/sh\necho '2.0.1 (Claude Code)'\n")
    claude.chmod(0o755)
    project.write("iterctl.yaml", "settings: {agent: claude}\n")
    ran = project.iterctl("doctor", PATH=f"{folder}:{_path_without(tmp_path)}")
    assert ran.code == 0, ran.out + ran.err
    assert "version 2.0.1 (tried with 2.1." in ran.out


def test_what_regressed_is_told_first(project: Project) -> None:
    spoiled = 'def double(number):\n    return number + number + 1\n\n\ndouble.__name__ = "twice"\n'
    project.agent({"write": {"calc.py": spoiled}}, {"write": {"calc.py": FIXED}})
    ran = project.iterate("--iterate-format=json")
    assert ran.code == 0, ran.err
    prompt = project.calls[1]["prompt"]
    assert "1 regressed" in prompt
    assert prompt.index("test_calc.py::test_name") < prompt.index("test_calc.py::test_one")


def _path_without(folder: Path) -> str:
    """A PATH with git and a shell and nothing that an agent could be."""
    plain = folder / "plain"
    plain.mkdir()
    for name in ("git", "sh", "cat", "env"):
        (plain / name).symlink_to(Path("/usr/bin") / name)
    return str(plain)


def test_the_movement_is_that_since_the_last_verdict(project: Project) -> None:
    broken = "def double(number:\n"
    project.agent({"write": {"calc.py": broken}}, {"write": {"calc.py": BROKEN + "# again\n"}})
    ran = project.iterate("--iterate-format=json")
    assert ran.code == 10, ran.err
    assert "2 still failing" in project.calls[2]["prompt"]
    assert "newly failing" not in project.calls[2]["prompt"]


def test_a_test_that_is_skipped_now_is_not_called_fixed(project: Project) -> None:
    skipping = (
        (project.root / "test_calc.py")
        .read_text()
        .replace("def test_one", "import pytest\n\n\n@pytest.mark.skip\ndef test_one")
    )
    project.agent({"write": {"test_calc.py": skipping}}, {"write": {"calc.py": FIXED}})
    ran = project.iterate("--iterate-format=json")
    assert ran.code == 0, ran.err
    assert "1 no longer run" in project.calls[1]["prompt"]
    assert "fixed" not in project.calls[1]["prompt"]


def test_a_command_to_run_one_test_again_works_from_where_the_agent_is(project: Project) -> None:
    project.write("custom.ini", "[pytest]\naddopts = -p no:randomly\npython_functions = check_*\n")
    project.write("deep/test_deep.py", "def check_deep():\n    assert 1 == 2\n")
    project.agent({})
    ran = project.pytest(
        *("--iterate", f"--iterate-agent={project.agent_command}", "--iterate-max=1", "-c", "../custom.ini"),
        "test_deep.py",
        cwd=project.root / "deep",
    )
    assert ran.code == 10, ran.out + ran.err
    told = re.search(r"reproduce: `([^`]*)`", project.calls[0]["prompt"])
    assert told is not None, project.calls[0]["prompt"]
    program, *arguments = shlex.split(told[1])
    assert program == "python"
    again = project.run(sys.executable, *arguments, cwd=project.root / "deep")
    assert again.code == 1, again.out
    assert "1 failed" in again.out


def test_any_name_of_a_passing_test_can_be_kept(project: Project) -> None:
    report = (
        '<testsuite><testcase name="sends Authorization: \u201cBearer\u201d"/>'
        '<testcase name="bad"><failure message="no"/></testcase></testsuite>'
    )
    script = project.tools / "suite.py"
    script.write_text(f"open('report.xml', 'w', encoding='utf-8').write({report!r})\nraise SystemExit(1)\n")
    command = json.dumps([sys.executable, str(script)])
    project.write(
        "iterctl.yaml",
        f"settings: {{agent: {json.dumps(project.agent_command)}, max_iterations: 2}}\n"
        f"tasks: [{{id: web, test: {{command: {command}, junit: report.xml}}}}]\n",
    )
    ran = project.iterctl("run", "--format", "json")
    assert ran.code == 10, ran.err
    assert len(project.calls) == 2


def test_a_reason_that_quotes_a_secret_is_redacted(project: Project) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    project.write("test_calc.py", f"raise RuntimeError('no access with {token}')\n")
    ran = project.iterate("--iterate-max=1", "--iterate-format=json")
    assert ran.code == 10, ran.err
    kept = b"".join(path.read_bytes() for path in project.state.rglob("journal.db*"))
    assert token.encode() not in kept
