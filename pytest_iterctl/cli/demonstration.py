"""`iterctl demo`: the real loop on a throw-away repository, with nothing to set up and no network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from pytest_iterctl.cli.conduct import Manner, conduct
from pytest_iterctl.cli.demo_project import FILES
from pytest_iterctl.cli.errand import Begin
from pytest_iterctl.cli.planning import Wishes, frozen_plan
from pytest_iterctl.errors import ExitCode, UsageError
from pytest_iterctl.loop.run import refuse_unsupported_system
from pytest_iterctl.loop.workspace import Workspace, new_run_id

__all__ = ["demo", "make_repository"]


def demo(*, keep: bool) -> int:
    """0 when it went as a demonstration should: the first task accepted, the second escalated."""
    refuse_unsupported_system()
    folder = Path(tempfile.mkdtemp(prefix="iterctl-demo-"))
    # The demonstration shows what it shows whatever the user has set; its state goes with its repository, and nobody
    # is asked anything.
    for name in [name for name in os.environ if name.startswith("ITERCTL_")]:
        del os.environ[name]
    os.environ["ITERCTL_STATE_DIR"] = str(folder / "state")
    os.environ["CI"] = "demo"
    repository = folder / "invoicing"
    make_repository(repository)
    print(f"A package with failing tests, in {repository}\n", flush=True)
    os.chdir(repository)  # as somebody would who works in it
    workspace = Workspace(repository)
    plan = frozen_plan(workspace, Wishes())
    code = conduct(workspace, Manner(), Begin.at(repository, workspace, new_run_id(), plan, as_module=True))
    run = workspace.find_run(None)
    report = repository / ".iterctl" / "runs" / run / "rounding.md"
    print("\nThe first task was accepted after three tries; in one of them a test was changed, which did not count.")
    print(f"The second asks a question. Its report:\n  {report}\n")
    print(_excerpt(report))
    workspace.close()
    os.chdir("/")
    if keep:
        print(f"Look around: cd {repository} && ITERCTL_STATE_DIR={folder / 'state'} iterctl status")
    else:
        shutil.rmtree(folder, ignore_errors=True)
        print("(removed again; iterctl demo --keep leaves it for you to look at)")
    return 0 if code == ExitCode.ESCALATED else int(ExitCode.INTERNAL)


def make_repository(root: Path) -> None:
    for name, content in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # A YAML plan may hold JSON strings, which spell any path safely.
        text = content.replace("PYTHON", json.dumps(sys.executable)) if name == "iterctl.yaml" else content
        path.write_text(text.replace("AGENT", "agent.py"), encoding="utf-8")
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "An invoicing package"]):
        _git(root, arguments)


def _git(root: Path, arguments: list[str]) -> None:
    identity = ["-c", "user.name=demo", "-c", "user.email=demo@localhost", "-c", "commit.gpgSign=false"]
    hooks = ["-c", "core.hooksPath=/dev/null", "-c", "init.defaultBranch=main"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        subprocess.run(["git", *identity, *hooks, *arguments], cwd=root, env=clean, check=True, capture_output=True)
    except FileNotFoundError:
        raise UsageError("git is not installed", hint="install git 2.30 or newer") from None
    except subprocess.CalledProcessError as error:
        raise UsageError(f"git {arguments[0]} failed: {error.stderr.decode(errors='replace').strip()}") from None


def _excerpt(report: Path) -> str:
    lines = report.read_text(encoding="utf-8").splitlines()
    return "\n".join(f"  | {line}" for line in lines[:24]) + "\n"
