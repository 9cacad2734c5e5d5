"""Runs in a sandbox, and in a tree of their own: nothing gets out, the user's tree stays, the result is offered."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import pytest_iterctl
from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.own_tree import OwnTree
from tests.acceptance.test_sacred_git_state import fingerprint, with_own_work
from tests.kit.project import BROKEN, FIXED, Project
from tests.work.escapes import WAYS
from tests.work.sandboxes import ESCAPES, contents, machine, require_sandbox

#: What a process of the product's tries, from wherever the tests run: the ways that are not about its own tree.
PROBING = """
import json, os, subprocess, sys, tempfile
from pathlib import Path


def double(number):
    with tempfile.TemporaryDirectory(dir=os.getcwd()) as folder:
        world = {{**json.loads(Path({facts!r}).read_text()), "tree": folder}}
        script = [os.path.realpath(sys.executable), "-I", "-S", {script!r}]
        done = subprocess.run(script, input=json.dumps(world), capture_output=True, text=True, check=True)
    answers = json.loads(done.stdout)["answers"]
    own = ("git_pointer", "work_tree")
    out = [name for name, answer in answers.items() if not answer and not any(word in name for word in own)]
    assert len(answers) > 100 and not out, out
    return number * 2
"""


@pytest.fixture(autouse=True)
def _walls() -> None:
    require_sandbox()


@pytest.fixture
def paranoid(project: Project, tmp_path: Path) -> Project:
    """The agent logs what it does where it still can: in the work tree."""
    project.write("iterctl.yaml", "settings: {safety: paranoid, backoff: none}\n")
    project.git("add", "-A")
    project.git("commit", "-qm", "plan")
    return project


def agent(project: Project, script: str) -> str:
    path = project.tools / "own_agent.py"
    path.write_text(script)
    return f"{sys.executable} {path}"


def mends(project: Project, before: str = "") -> str:
    return agent(project, f"{before}\nimport pathlib\npathlib.Path('calc.py').write_text({FIXED!r})\n")


def run_json(project: Project, *arguments: str, **variables: str) -> dict[str, Any]:
    ran = project.iterctl("run", "--format=json", *arguments, cwd=None, stdin="", **variables)
    assert ran.out, ran.err
    return {**ran.json, "code": ran.code, "err": ran.err}


# ── the result, and what stays ───────────────────────────────────────────────────────────────────────────────────────


def test_the_users_tree_stays_and_the_change_is_offered(paranoid: Project) -> None:
    with_own_work(paranoid)
    branches = paranoid.git("branch", "--list")
    before = fingerprint(paranoid.root)
    told = run_json(paranoid, "--agent", mends(paranoid))
    assert told["code"] == 0, told["err"]
    (task,) = told["tasks"]
    assert told["decision"] == "proceed"
    assert fingerprint(paranoid.root) == before
    assert (paranoid.root / "calc.py").read_text() == BROKEN
    assert paranoid.git("branch", "--list") != branches
    assert paranoid.git("show", "iterctl/pytest:calc.py") == FIXED.strip()
    assert paranoid.git("diff", "--name-only", "iterctl/pytest^", "iterctl/pytest") == "calc.py"
    assert paranoid.git("rev-parse", "iterctl/pytest^") == paranoid.git("rev-parse", "HEAD")
    paranoid.git("apply", "--check", task["patch"])
    assert not (paranoid.state / "runs").exists() or not list(paranoid.state.rglob("runs/*/tree"))


def test_what_was_not_committed_is_a_commit_of_its_own_below_the_change(paranoid: Project) -> None:
    paranoid.write("calc.py", "# mine\n" + BROKEN)
    paranoid.write("notes.txt", "mine, and no part of it")
    add = "text = pathlib.Path('calc.py').read_text().replace('+ 1', '')\npathlib.Path('calc.py').write_text(text)"
    told = run_json(paranoid, "--agent", agent(paranoid, f"import pathlib\n{add}\n"))
    assert told["code"] == 0, told["err"]
    change = paranoid.git("diff", "-U0", "iterctl/pytest^", "iterctl/pytest")
    assert "-    return number + number + 1" in change
    assert "# mine" not in change
    assert paranoid.git("show", "iterctl/pytest^:calc.py") == ("# mine\n" + BROKEN).strip()
    assert "notes.txt" not in paranoid.git("ls-tree", "-r", "--name-only", "iterctl/pytest")
    assert (paranoid.root / "calc.py").read_text() == "# mine\n" + BROKEN


def test_a_branch_of_that_name_is_left_alone(paranoid: Project) -> None:
    paranoid.git("branch", "iterctl/pytest")
    told = run_json(paranoid, "--agent", mends(paranoid))
    assert told["tasks"][0]["branch"] == f"iterctl/pytest-{told['run']}"
    assert paranoid.git("rev-parse", "iterctl/pytest") == paranoid.git("rev-parse", "HEAD")


def test_a_branch_in_the_way_of_all_others_has_one_beside_it(paranoid: Project) -> None:
    """Git can't make `iterctl/pytest` where there is an `iterctl`."""
    paranoid.git("branch", "iterctl")
    told = run_json(paranoid, "--agent", mends(paranoid))
    assert (told["code"], told["tasks"][0]["branch"]) == (0, "iterctl-pytest"), told["err"]
    assert paranoid.git("show", "iterctl-pytest:calc.py") == FIXED.strip()


def test_where_no_branch_can_be_made_the_commit_is_named(paranoid: Project) -> None:
    """As where a disk is full; permissions would not keep root out."""
    folder = paranoid.tools / "first"
    folder.mkdir()
    refuse = "echo 'fatal: no space' >&2; exit 128"
    script = f'#!/bin/sh\ncase "$*" in *update-ref*refs/heads/*) {refuse};; esac\nexec {shutil.which("git")} "$@"\n'
    (folder / "git").write_text(script)
    (folder / "git").chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    ran = paranoid.iterctl("run", "--agent", mends(paranoid), PATH=path)
    assert ran.code == 1, ran.err
    (told,) = (line for line in ran.out.splitlines() if "UNCOMMITTED" in line)
    assert "no branch iterctl/pytest could be made: fatal: no space; the change is commit " in told
    assert paranoid.git("show", f"{told.split()[-1]}:calc.py") == FIXED.strip()


def test_tasks_build_on_each_other_and_so_do_their_branches(paranoid: Project) -> None:
    paranoid.write("test_more.py", "from calc import triple\n\n\ndef test_triple():\n    assert triple(2) == 6\n")
    paranoid.write(
        "iterctl.yaml",
        "settings: {safety: paranoid}\ntasks:\n"
        "- {id: double, tests: [test_calc.py]}\n- {id: triple, tests: [test_more.py], needs: [double]}\n",
    )
    paranoid.git("add", "-A")
    paranoid.git("commit", "-qm", "two tasks")
    both = f"""
import os, pathlib
path = pathlib.Path("calc.py")
if os.environ["ITERCTL_TASK"] == "double":
    path.write_text({FIXED!r})
else:
    path.write_text(path.read_text() + "\\n\\ndef triple(number):\\n    return number * 3\\n")
"""
    ran = paranoid.iterctl("run", "--agent", agent(paranoid, both))
    assert ran.code == 0, ran.err
    assert paranoid.git("rev-parse", "iterctl/triple^") == paranoid.git("rev-parse", "iterctl/double")
    assert paranoid.git("rev-parse", "iterctl/double^") == paranoid.git("rev-parse", "HEAD")
    assert paranoid.git("diff", "--shortstat", "HEAD", "iterctl/triple").startswith("1 file changed")
    # So do their patches, in the order in which they ran, as the summary says.
    first, second = (line.split(maxsplit=1)[1] for line in ran.out.splitlines() if line.startswith("       Patch "))
    assert second.endswith("triple-change.patch, on top of the patch of double")
    for patch in (first, second.partition(",")[0]):
        paranoid.git("apply", patch)
    assert paranoid.git("diff", "iterctl/triple") == ""


def test_an_escalation_keeps_its_tree_for_the_answer(paranoid: Project) -> None:
    counts = """
import pathlib
path = pathlib.Path("tried.txt")
path.write_text(path.read_text() + "x" if path.exists() else "x")
if len(path.read_text()) == 2:
    pathlib.Path("calc.py").write_text(FIXED)
""".replace("FIXED", repr(FIXED))
    before = fingerprint(paranoid.root)
    told = run_json(paranoid, "--agent", agent(paranoid, counts), "--max-iterations=1")
    assert told["code"] == 10, told["err"]
    assert (paranoid.root / told["tasks"][0]["patch"]).read_text().count("+x") == 1
    report = paranoid.iterctl("report", told["run"]).out
    assert "The run's own copy of the work tree holds" in report
    assert "Your work tree is as you left it" in report
    ran = paranoid.iterctl("answer", told["run"], "--continue", "once more", "--format=json")
    assert ran.code == 0, ran.err
    assert ran.json["tasks"][0]["branch"] == "iterctl/pytest"
    assert paranoid.git("show", "iterctl/pytest:tried.txt") == "xx"
    assert fingerprint(paranoid.root) == before


def test_a_change_that_came_to_nothing_is_no_patch(paranoid: Project) -> None:
    """Git takes an empty patch for a broken one."""
    told = run_json(paranoid, "--agent", agent(paranoid, "open('calc.py', 'w').close()"), "--max-iterations=1")
    (task,) = told["tasks"]
    assert (told["code"], task["holds"], task["patch"]) == (10, {"what": "best", "iteration": 0}, None), told
    assert list((paranoid.root / ".iterctl").rglob("change*.patch")) == []


def test_it_says_so_at_a_terminal_and_before(paranoid: Project) -> None:
    dry = paranoid.iterctl("run", "--dry-run", "--agent", mends(paranoid))
    assert "sandbox  bubblewrap" in dry.out
    assert "a copy of the work tree, offered as a branch and a patch" in dry.out
    assert "reaches no network" in dry.out
    ran = paranoid.iterctl("run", "--agent", mends(paranoid))
    assert "· sandbox, own tree" in ran.err
    assert "Branch iterctl/pytest (git merge iterctl/pytest); your work tree is as it was" in ran.out
    paranoid.git("merge", "-q", "iterctl/pytest")
    assert (paranoid.root / "calc.py").read_text() == FIXED


def test_pytest_iterate_does_the_same(paranoid: Project) -> None:
    paranoid.agent({"write": {"calc.py": FIXED}})
    ran = paranoid.pytest("--iterate", f"--iterate-agent={mends(paranoid)}", "--iterate-format=json")
    assert ran.code == 0, ran.err
    assert ran.json["tasks"][0]["branch"] == "iterctl/pytest"
    assert (paranoid.root / "calc.py").read_text() == BROKEN


def test_a_linked_work_tree_and_a_virtual_environment_in_it(paranoid: Project, tmp_path: Path) -> None:
    """The package is installed as editable: its path is the user's, and what is imported is the run's copy."""
    linked = tmp_path / "linked"
    paranoid.git("worktree", "add", "-q", str(linked))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(linked / ".venv")], check=True)
    site = next((linked / ".venv/lib").glob("python3*/site-packages"))
    package = str(Path(pytest_iterctl.__file__).parents[1])
    packages = [entry for entry in sys.path if entry.endswith("site-packages")]
    (site / "editable.pth").write_text("\n".join([str(linked / "src"), *packages, package]) + "\n")
    (linked / "src").mkdir()
    shutil.move(linked / "calc.py", linked / "src/calc.py")
    (linked / ".gitignore").write_text("__pycache__/\n.pytest_cache/\n.venv/\nsecret.env\n")
    (linked / "secret.env").write_text("ignored, and small")
    writes = f"import pathlib\npathlib.Path('src/calc.py').write_text({FIXED!r})\n"
    tries = "try:\n    pathlib.Path('.venv/planted').write_text('x')\nexcept OSError:\n    pathlib.Path('no').touch()\n"
    other = Project(linked, paranoid.state, paranoid.tools)
    told = run_json(other, "--agent", agent(paranoid, writes + tries), ITERCTL_PYTHON=str(linked / ".venv/bin/python"))
    assert told["code"] == 0, told["err"]
    assert (linked / "src/calc.py").read_text() == BROKEN
    assert other.git("show", "iterctl/pytest:src/calc.py") == FIXED.strip()
    assert other.git("show", "iterctl/pytest:no") == ""
    assert not (linked / ".venv/planted").exists()


# ── nothing gets out ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def world(tmp_path: Path) -> Iterator[dict[str, Any]]:
    with machine(os.geteuid()) as made:
        tree = Path(made["tree"])
        (tree / "calc.py").write_text(BROKEN)
        (tree / "test_calc.py").write_text("from calc import double\n\n\ndef test_one():\n    assert double(1) == 2\n")
        (tree / ".gitignore").write_text("__pycache__/\n.pytest_cache/\n")
        script = Path(made["shown"], "escapes.py")
        shutil.copy(ESCAPES, script)
        given = {key: value for key, value in made.items() if key != "udp_socket"}
        Path(made["shown"], "world.json").write_text(json.dumps(given))
        yield {**made, "script": str(script), "facts": str(Path(made["shown"], "world.json"))}


def plan_for(world: dict[str, Any], command: list[str]) -> str:
    coder = {"command": command, "readable": [world["shown"], world["main"]]}
    settings: dict[str, object] = {"safety": "paranoid", "agent": "coder", "gate": "fast", "baseline_runs": 1}
    settings["readable"] = coder["readable"]
    return json.dumps({"settings": settings, "agents": {"coder": coder}})


def outside(world: dict[str, Any]) -> dict[str, str]:
    """All that is not the run's to write: everything but the driver's own state, objects, references and reports."""
    own = (world["state"], world["common"], f"{world['tree']}/.iterctl")
    return {name: what for name, what in contents(Path(world["folder"])).items() if not name.startswith(own)}


def test_an_agent_of_a_real_run_reaches_none_of_the_ways_out(world: dict[str, Any], tmp_path: Path) -> None:
    tree = Path(world["tree"])
    script = tmp_path / "agent.py"
    script.write_text(
        f"import pathlib, subprocess, sys\nworld = pathlib.Path({world['facts']!r}).read_bytes()\n"
        f"done = subprocess.run([sys.executable, '-I', '-S', {world['script']!r}], input=world, capture_output=True)\n"
        f"pathlib.Path('told.json').write_bytes(done.stdout)\nsys.stderr.write(done.stderr.decode())\n"
        f"pathlib.Path('calc.py').write_text({FIXED!r})\n"
    )
    (tree / "iterctl.yaml").write_text(plan_for(world, [os.path.realpath(sys.executable), "-I", "-S", str(script)]))
    project = Project(tree, Path(world["state"]), tmp_path)
    before = outside(world)
    told = run_json(project, HOME=world["home"], DRIVER_SECRET=world["secret"])
    assert told["code"] == 0, told["err"]
    answers = json.loads(project.git("show", "iterctl/pytest:told.json"))["answers"]
    assert answers.keys() == WAYS.keys()
    assert [name for name, answer in answers.items() if not answer] == []
    assert outside(world) == before
    with pytest.raises(BlockingIOError):
        world["udp_socket"].recv(1)


def test_what_an_agent_writes_reaches_none_of_them_when_it_is_tested(world: dict[str, Any], tmp_path: Path) -> None:
    tree = Path(world["tree"])
    script = tmp_path / "agent.py"
    product = PROBING.format(facts=world["facts"], script=world["script"])
    script.write_text(f"import pathlib\npathlib.Path('calc.py').write_text({product!r})\n")
    (tree / "iterctl.yaml").write_text(plan_for(world, [os.path.realpath(sys.executable), "-I", "-S", str(script)]))
    project = Project(tree, Path(world["state"]), tmp_path)
    before = outside(world)
    told = run_json(project, HOME=world["home"], DRIVER_SECRET=world["secret"])
    (task,) = told["tasks"]
    # It passes in the work tree and in the clean room, where it says which way has led out.
    assert told["decision"] == "proceed", project.iterctl("report").out
    assert task["iterations"] == 1
    assert (task["tests"]["passed"], task["tests"]["failed"]) == (1, 0)
    assert outside(world) == before


@contextmanager
def service(status: int = 200) -> Iterator[tuple[int, list[str]]]:
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"an answer")

        def log_message(self, *_arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1], asked
    finally:
        server.shutdown()
        server.server_close()


def test_an_agent_reaches_its_endpoint_and_no_other_and_tests_reach_none(paranoid: Project) -> None:
    with service() as (named, asked), service() as (other, others):
        script = paranoid.tools / "own_agent.py"
        script.write_text(
            "import pathlib, urllib.request\n"
            f"print(urllib.request.urlopen('http://127.0.0.1:{named}/model').read())\n"
            "try:\n"
            f"    urllib.request.urlopen('http://127.0.0.1:{other}/elsewhere')\n"
            "except OSError as error:\n"
            "    pathlib.Path('refused.txt').write_text(str(error))\n"
            "product = pathlib.Path('calc.py')\n"
            f"""product.write_text('''import urllib.request
try:
    urllib.request.urlopen("http://127.0.0.1:{named}/from-the-tests")
except OSError:
    pass
''' + {FIXED!r})\n"""
        )
        coder = {"command": [sys.executable, str(script)], "endpoints": [f"127.0.0.1:{named}"]}
        paranoid.write(
            "iterctl.yaml",
            json.dumps({"settings": {"safety": "paranoid", "agent": "coder"}, "agents": {"coder": coder}}),
        )
        told = run_json(paranoid)
        assert told["code"] == 0, told["err"]
        assert asked == ["/model"]
        assert others == []
        assert paranoid.git("show", "iterctl/pytest:refused.txt")


def test_the_home_is_the_runs_own_with_copies_of_what_is_named(paranoid: Project, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".tool").mkdir(parents=True)
    (home / ".tool/login").write_text("a key")
    (home / ".tool/history").write_text("not named")
    (home / ".netrc").write_text("secret")
    script = f"""
import pathlib
home = pathlib.Path.home()
seen = sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())
with open("seen.txt", "a") as stream:
    print(seen, file=stream)
(home / ".tool/login").write_text("another key")
(home / ".tool/session").write_text("kept as long as the run")
(home / ".bashrc").write_text("planted")
if len(open("seen.txt").readlines()) == 2:
    pathlib.Path("calc.py").write_text({FIXED!r})
"""
    command = agent(paranoid, script).split()
    coder = {"command": command, "copies": ["~/.tool/login", "~/.not-there"]}
    settings = {"safety": "paranoid", "agent": "coder"}
    paranoid.write("iterctl.yaml", json.dumps({"settings": settings, "agents": {"coder": coder}}))
    before = contents(home)
    told = run_json(paranoid, HOME=str(home))
    assert told["code"] == 0, told["err"]
    assert contents(home) == before
    first, second = paranoid.git("show", "iterctl/pytest:seen.txt").splitlines()
    assert first == "['.tool/login']"
    assert second == "['.bashrc', '.tool/login', '.tool/session']"


def test_a_link_in_the_agents_home_leads_nowhere_when_something_is_mounted_there(
    paranoid: Project, tmp_path: Path
) -> None:
    home, aim = tmp_path / "home", tmp_path / "aim"
    (home / "tools/deep").mkdir(parents=True)
    (home / "tools/deep/program").write_text("readable")
    aim.mkdir()
    script = f"""
import os, pathlib, shutil
home = pathlib.Path.home()
with open("seen.txt", "a") as stream:
    print((home / "tools/deep/program").read_text(), file=stream)
shutil.rmtree(home / "tools", ignore_errors=True)
os.rename(home / "tools", home / "gone") if (home / "tools").exists() else None
os.symlink({str(aim)!r}, home / "tools")
if len(open("seen.txt").readlines()) == 2:
    pathlib.Path("calc.py").write_text({FIXED!r})
"""
    coder = {"command": agent(paranoid, script).split(), "readable": ["~/tools/deep"]}
    settings = {"safety": "paranoid", "agent": "coder"}
    paranoid.write("iterctl.yaml", json.dumps({"settings": settings, "agents": {"coder": coder}}))
    run_json(paranoid, HOME=str(home))
    assert list(aim.iterdir()) == []


# ── it fails closed ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_where_the_walls_do_not_stand_nothing_is_run(paranoid: Project) -> None:
    """A machine on which nobody may make namespaces: inside of a sandbox that forbids it."""
    bwrap = shutil.which("bwrap")
    assert bwrap is not None
    inner = [bwrap, "--dev-bind", "/", "/", "--unshare-user", "--disable-userns", "--"]
    before = fingerprint(paranoid.root)
    ran = paranoid.run(*inner, sys.executable, "-m", "pytest_iterctl", "run", "--agent", mends(paranoid))
    assert ran.code == 11
    assert "error: there is no sandbox on this machine: " in ran.err
    assert "hint: " in ran.err
    assert fingerprint(paranoid.root) == before
    assert paranoid.iterctl("status").out == "no runs yet\n"


def test_a_run_that_began_without_a_sandbox_can_not_be_made_paranoid(project: Project) -> None:
    ran = project.iterate("--iterate-max=1", "--iterate-format=json")
    assert ran.code == 10
    resumed = project.iterctl("resume", ran.json["run"], "--safety=paranoid", "--max-iterations=3")
    assert resumed.code == 11
    assert "began without a sandbox" in resumed.err


def test_a_copy_that_is_gone_is_made_anew_from_the_last_snapshot(paranoid: Project) -> None:
    writes = "import pathlib\npathlib.Path('tried.txt').write_text('once')\n"
    told = run_json(paranoid, "--agent", agent(paranoid, writes), "--max-iterations=1")
    for tree in paranoid.state.rglob("runs/*/tree"):
        shutil.rmtree(tree)
    before = fingerprint(paranoid.root)
    (paranoid.tools / "own_agent.py").write_text(f"import pathlib\npathlib.Path('calc.py').write_text({FIXED!r})\n")
    ran = paranoid.iterctl("answer", told["run"], "--continue", "go on", "--format=json")
    assert ran.code == 0, ran.err
    assert paranoid.git("show", "iterctl/pytest:tried.txt") == "once"
    assert fingerprint(paranoid.root) == before


def test_a_checkpoint_goes_on_in_another_clone(paranoid: Project, tmp_path: Path) -> None:
    writes = "import pathlib\npathlib.Path('tried.txt').write_text('once')\n"
    told = run_json(paranoid, "--agent", agent(paranoid, writes), "--max=1", "--checkpoint-interval=1")
    assert told["code"] == 10, told["err"]
    checkpoint = paranoid.root / told["tasks"][0]["checkpoints"][0]
    clone = tmp_path / "clone"
    paranoid.run("git", "clone", "-q", str(paranoid.root), str(clone))
    other = Project(clone, tmp_path / "other-state", paranoid.tools)
    (paranoid.tools / "own_agent.py").write_text(f"import pathlib\npathlib.Path('calc.py').write_text({FIXED!r})\n")
    before = fingerprint(clone)
    resume = ("resume", "--checkpoint", str(checkpoint), "--max=4", "--format=json")
    # What could not even be tried is not in the way of another try.
    for number in (1, 3):
        (paranoid.tools / "calls").unlink(missing_ok=True)
        around = other_bubblewrap(paranoid, FAILS_FROM.format(number))
        refused = other.run(*around, sys.executable, "-m", "pytest_iterctl", *resume)
        assert refused.code == 11, refused.err
    ran = other.iterctl(*resume)
    assert ran.code == 0, ran.err
    assert ran.json["run"] == told["run"]
    assert other.git("show", "iterctl/pytest:tried.txt") == "once"
    assert other.git("show", "iterctl/pytest:calc.py") == FIXED.strip()
    assert fingerprint(clone) == before


def other_bubblewrap(project: Project, script: str) -> list[str]:
    """What to put before a command for which this script is the machine's bubblewrap; `$REAL` is the real one."""
    bwrap = shutil.which("bwrap")
    assert bwrap is not None
    real, wrapper = project.tools / "real-bwrap", project.tools / "bwrap"
    shutil.copy2(bwrap, real)
    wrapper.write_text(f"#!/bin/sh\nREAL={real}\nHERE={project.tools}\n{script}\n")
    wrapper.chmod(0o755)
    over = os.path.realpath(bwrap)
    return [str(real), "--dev-bind", "/", "/", "--bind", str(wrapper), over, "--die-with-parent", "--"]


#: Its version, the self-test, going into the tree; the tests twice, the clean room, the agent, the tests, the room, …
FAILS_FROM = """
echo >> "$HERE/calls"
[ "$(/usr/bin/wc -l < "$HERE/calls")" -lt {} ] && exec "$REAL" "$@"
echo "bwrap: setting up uid map: No such luck" >&2
exit 1
"""


@pytest.mark.parametrize("number", range(3, 10))
def test_a_sandbox_that_fails_later_ends_the_run_and_nobody_is_blamed(paranoid: Project, number: int) -> None:
    before = fingerprint(paranoid.root)
    around = other_bubblewrap(paranoid, FAILS_FROM.format(number))
    command = mends(paranoid)
    driver = [sys.executable, "-m", "pytest_iterctl", "run", "--agent", command]
    ran = paranoid.run(*around, *driver, ITERCTL_GATE="full")
    assert ran.code == 11, (ran.out, ran.err)
    assert "No such luck" in ran.err
    assert "error: there is no sandbox on this machine: " in ran.err
    assert "hint: " in ran.err
    assert not any(word in ran.err for word in ("AGENT FAIL", "INCIDENT", "UNPROVED", "NO TESTS", "Traceback"))
    assert ran.err.count("bwrap:") == 1
    assert fingerprint(paranoid.root) == before
    runs = paranoid.iterctl("status", "--format=json").json["runs"]
    if number == 3:
        assert runs == []
        assert not list(paranoid.state.rglob("runs/*"))
        return
    again = paranoid.iterctl("resume", "--format=json", ITERCTL_GATE="full")
    assert again.code == 0, again.err
    (task,) = again.json["tasks"]
    assert task["calls_of_unknown_cost"] <= 1  # the agent says nothing of its cost; no other call was begun
    assert [turn["outcome"] for step in task["history"] for turn in step["agent"]] == ["done"]


def test_a_program_that_can_not_be_seen_is_named(paranoid: Project, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    shell = shutil.which("sh")
    assert shell is not None
    (home / "bin/tool").write_text(f"#!{home}/bin/interpreter\n")
    (home / "bin/interpreter").symlink_to(shell)
    (home / "bin/tool").chmod(0o755)
    told = run_json(paranoid, "--agent", str(home / "bin/tool"), HOME=str(home))
    assert told["code"] == 10
    assert "can't be seen inside the sandbox" in paranoid.iterctl("report", told["run"]).out


def test_a_full_disk_leaves_no_half_copy(paranoid: Project, tmp_path: Path) -> None:
    (paranoid.root / "large.bin").write_bytes(os.urandom(3_000_000))
    limited = f"ulimit -f 1000; exec {sys.executable} -m pytest_iterctl run --agent '{mends(paranoid)}'"
    ran = paranoid.run("sh", "-c", limited)
    assert ran.code not in {0, 10}
    assert "the work tree can't be copied for the run: " in ran.err
    assert not list(paranoid.state.rglob("tree*"))


# ── it ends when it is to end ────────────────────────────────────────────────────────────────────────────────────────

SLEEPS = """
import os, pathlib, subprocess, sys, time
child = [sys.executable, "-c", "import time; time.sleep(300)", "iterctl-paranoid-child"]
subprocess.Popen(child, start_new_session=True)
pathlib.Path("started").write_text("x")
time.sleep(300)
"""


def descendants_named(word: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if word.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def wait_for(condition: Any, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextmanager
def running(project: Project, word: str, script: str = SLEEPS) -> Iterator[subprocess.Popen[str]]:
    command = agent(project, script.replace("iterctl-paranoid-child", word))
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_iterctl", "run", "--agent", command],
        cwd=project.root,
        env=project.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_for(lambda: descendants_named(word))
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("way", ["stop", "TERM", "INT to all", "KILL"])
def test_nothing_survives_however_it_is_ended(paranoid: Project, tmp_path: Path, way: str) -> None:
    word = f"paranoid-{os.getpid()}-{tmp_path.name}"
    with running(paranoid, word) as process:
        if way == "stop":
            assert paranoid.iterctl("stop").code == 0
        elif way == "TERM":
            process.terminate()
        elif way == "INT to all":
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.kill()
        _, err = process.communicate(timeout=30)
        wait_for(lambda: not descendants_named(word), 10)
    if way != "KILL":
        assert process.returncode == (11 if way == "stop" else 2), err
    # What was killed goes on in the same tree, and ends as it should.
    state = paranoid.iterctl("status", "--format=json").json["runs"][0]
    (paranoid.tools / "own_agent.py").write_text(f"import pathlib\npathlib.Path('calc.py').write_text({FIXED!r})\n")
    ran = paranoid.iterctl("resume", state["run"] if "run" in state else state["id"], "--format=json")
    assert ran.code == 0, ran.err
    assert paranoid.git("show", "iterctl/pytest:calc.py") == FIXED.strip()
    assert (paranoid.root / "calc.py").read_text() == BROKEN


#: Writes over a test, and is killed in the middle of its turn; later calls do nothing.
GUTS = """
import pathlib, subprocess, sys, time
if not pathlib.Path("done.marker").exists():
    pathlib.Path("test_calc.py").write_text("def test_one():\\n    pass\\n")
    pathlib.Path("done.marker").write_text("x")
    subprocess.run([sys.executable, "-c", "import time; time.sleep(300)", "iterctl-paranoid-child"])
"""


def test_to_stop_a_run_whose_driver_is_dead_leaves_the_users_tree_alone(paranoid: Project, tmp_path: Path) -> None:
    word = f"dead-{os.getpid()}-{tmp_path.name}"
    with running(paranoid, word, GUTS) as process:
        process.kill()
        process.wait()
    (paranoid.root / "pytest.ini").write_text("[pytest]\n# mine, since\naddopts = -p no:randomly\n")
    (paranoid.root / "mynew.txt").write_text("mine")
    before = fingerprint(paranoid.root)
    stopped = paranoid.iterctl("stop")
    assert stopped.code == 0, stopped.err
    assert "has stopped" in stopped.out
    assert fingerprint(paranoid.root) == before
    run = paranoid.iterctl("status", "--format=json").json["runs"][0]
    assert run["tasks"][0]["state"] == "stopped"
    assert (paranoid.root / ".iterctl/runs" / run["run"] / "report.md").exists()
    (paranoid.tools / "own_agent.py").write_text("")
    ran = paranoid.iterctl("resume")
    assert "EDITED" not in ran.err
    assert ran.code == 10, ran.err
    assert fingerprint(paranoid.root) == before


def starting(project: Project, script: str) -> subprocess.Popen[str]:
    command = [*other_bubblewrap(project, script), sys.executable, "-m", "pytest_iterctl", "run"]
    return subprocess.Popen(
        [*command, "--agent", mends(project)],
        cwd=project.root,
        env=project.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


#: A self-test that takes as long as it is wanted to.
WAITS = """
case "$*" in *--version) ;; *) echo > "$HERE/waiting"; while [ -e "$HERE/waiting" ]; do /bin/sleep 0.05; done;; esac
exec "$REAL" "$@"
"""


@pytest.mark.parametrize("way", ["stop", "TERM", "INT", "HUP"])
def test_a_run_that_is_still_starting_is_known_and_can_be_stopped(paranoid: Project, way: str) -> None:
    waiting = paranoid.tools / "waiting"
    process = starting(paranoid, WAITS)
    wait_for(waiting.exists)
    assert "starting" in paranoid.iterctl("status").out
    second = paranoid.iterctl("run", "--agent", mends(paranoid))
    assert second.code == 4
    assert "is at work on this work tree" in second.err
    if way == "stop":
        stopping = subprocess.Popen(
            [sys.executable, "-m", "pytest_iterctl", "stop"],
            cwd=paranoid.root,
            env=paranoid.environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        wait_for(lambda: list(paranoid.state.rglob("runs/*/stop")))
        waiting.unlink()
        assert "has stopped" in stopping.communicate(timeout=30)[0]
        assert stopping.returncode == 0
    else:
        (driver,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(driver), getattr(signal, f"SIG{way}"))
    _, err = process.communicate(timeout=30)
    assert process.returncode == (11 if way == "stop" else 2), err
    assert "error: " in err
    assert "hint: " in err
    assert not list(paranoid.state.rglob("runs/*"))
    assert not list((paranoid.root / ".iterctl").glob("runs/*"))
    assert paranoid.iterctl("status").out == "no runs yet\n"


def test_what_a_killed_start_left_is_cleaned_up(paranoid: Project) -> None:
    waiting = paranoid.tools / "waiting"
    paranoid.write(".env", "KEY=secret\n")
    process = starting(paranoid, WAITS)
    wait_for(waiting.exists)
    (copy,) = paranoid.state.rglob("runs/*")
    (copy / "tree.partial").mkdir()
    assert paranoid.iterctl("clean", "--all").out == "nothing to remove\n"
    assert copy.exists()
    (driver,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(driver), signal.SIGKILL)
    process.communicate(timeout=30)
    waiting.unlink()
    assert copy.exists()
    assert copy.name in paranoid.iterctl("clean", "--all").out
    assert not copy.exists()


def test_a_copy_that_is_ended_half_way_leaves_nothing(paranoid: Project, tmp_path: Path) -> None:
    calls = iter((None, None, KeyboardInterrupt()))

    def go_on() -> None:
        error = next(calls)
        if error is not None:
            assert list((tmp_path / "private" / "tree.partial").iterdir())
            raise error

    with pytest.raises(KeyboardInterrupt):
        OwnTree.make(Repository.discover(paranoid.root), tmp_path / "private", go_on)
    assert list((tmp_path / "private").iterdir()) == []


@pytest.mark.parametrize("who", ["driver", "bubblewrap"])
def test_a_driver_inside_that_is_killed_is_told(paranoid: Project, tmp_path: Path, who: str) -> None:
    word = f"killed-{os.getpid()}-{tmp_path.name}"
    with running(paranoid, word) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        (bubblewrap,) = children
        (driver,) = Path(f"/proc/{bubblewrap}/task/{bubblewrap}/children").read_text().split()
        os.kill(int(driver if who == "driver" else bubblewrap), signal.SIGKILL)
        _, err = process.communicate(timeout=30)
        wait_for(lambda: not descendants_named(word), 10)
    run = paranoid.iterctl("status", "--format=json").json["runs"][0]["run"]
    assert process.returncode == 2, err
    assert f"error: run {run} was cut off: its driver was ended by signal 9" in err
    assert f"hint: go on with: iterctl resume {run}" in err


def test_a_dry_run_leaves_nothing_and_says_what_is_missing(paranoid: Project) -> None:
    ran = paranoid.iterctl("run", "--dry-run", "--agent", mends(paranoid))
    assert ran.code == 0
    assert "timeout  2m per call" in ran.out
    assert not paranoid.state.exists()
    around = other_bubblewrap(paranoid, "exit 127")
    command = ("run", "--dry-run", "--agent", mends(paranoid))
    ran = paranoid.run(*around, sys.executable, "-m", "pytest_iterctl", *command)
    assert ran.code == 11
    assert "MISSING" in ran.out
    assert "error: there is no sandbox on this machine: " in ran.err
    assert "apt install bubblewrap" in ran.err
    assert not paranoid.state.exists()


def test_the_driver_of_a_resumed_run_loads_nothing_that_an_agent_wrote(paranoid: Project) -> None:
    """It has no walls around it. Modules named like those that Python looks for are planted in all likely places."""
    planted = paranoid.tools / "planted"
    names = ("sitecustomize.py", "usercustomize.py", "pytest_iterctl.py", "json.py", "pluggy.py", "conftest.py")
    writes = "".join(f"pathlib.Path({name!r}).write_text(code)\n" for name in names)
    code = f"open({str(planted)!r}, 'a').write(__file__)"
    told = run_json(paranoid, "--agent", agent(paranoid, f"import pathlib\ncode = {code!r}\n{writes}"), "--max=1")
    assert told["code"] == 10, told["err"]
    ran = paranoid.iterctl("answer", told["run"], "--abort", PYTHONPATH=f".:{paranoid.root}")
    assert ran.code == 1, ran.err
    assert not planted.exists()


# ── a sandbox in the user's own tree ─────────────────────────────────────────────────────────────────────────────────


def test_a_sandbox_at_another_level_works_in_the_users_tree_with_a_network(project: Project, tmp_path: Path) -> None:
    with service() as (port, asked):
        aim = tmp_path / "written-outside"
        script = (
            f"import pathlib, urllib.request\nurllib.request.urlopen('http://127.0.0.1:{port}/')\n"
            f"for path in ({str(aim)!r}, '.git/planted', '.iterctl/planted'):\n"
            "    try:\n        pathlib.Path(path).write_text('x')\n    except OSError:\n        pass\n"
            f"pathlib.Path('calc.py').write_text({FIXED!r})\n"
        )
        ran = project.iterctl("run", "--sandbox=bwrap", "--agent", agent(project, script), "--format=json")
        assert ran.code == 0, ran.err
        assert asked == ["/"]
    assert (project.root / "calc.py").read_text() == FIXED
    assert not aim.exists()
    assert not (project.root / ".git/planted").exists()
    assert not (project.root / ".iterctl/planted").exists()
    assert "iterctl/" not in project.git("branch", "--list")


# ── what is said of it ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_doctor_says_whether_the_walls_stand(paranoid: Project) -> None:
    assert "ok  sandbox: it holds" in paranoid.iterctl("doctor").out
    bwrap = shutil.which("bwrap")
    assert bwrap is not None
    inner = [bwrap, "--dev-bind", "/", "/", "--unshare-user", "--disable-userns", "--"]
    ran = paranoid.run(*inner, sys.executable, "-m", "pytest_iterctl", "doctor", ITERCTL_AGENT="cat")
    assert ran.code == 4
    assert "MISSING  sandbox: none (the plan needs it): " in ran.out
    ran = paranoid.run(
        *inner, sys.executable, "-m", "pytest_iterctl", "doctor", ITERCTL_AGENT="cat", ITERCTL_SAFETY="normal"
    )
    assert ran.code == 0
    assert "ok  sandbox: none (only safety: paranoid and sandbox: bwrap need it): " in ran.out


def test_a_known_agent_without_endpoints_is_told_at_the_start(paranoid: Project, tmp_path: Path) -> None:
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "claude").write_text("#!/bin/sh\nexit 1\n")
    (folder / "claude").chmod(0o755)
    told = run_json(paranoid, "--agent=claude", "--max=1", PATH=f"{folder}:{os.environ['PATH']}")
    assert [text for text in told["warnings"] if "agent claude names no endpoints" in text]
