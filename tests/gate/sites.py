"""Laying a case out as a real git repository, running plain pytest there, and asking its product for the truth."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.gate.cases import Base, Case
from tests.kit.project import Ran, clean_environment, git
from tests.kit.ready import socket_of_forks
from tests.kit.warm import warmed

__all__ = ["Site", "answers", "apply", "hidden_run", "lay_out", "outcomes", "untouched"]

#: No cache and no installed plugins: what is measured is pytest itself, and it starts quicker.
QUICK = ("-q", "-p", "no:cacheprovider")

#: Asks in a process without pytest: one line of JSON per answer, so that a product that ends it early is seen.
ASK = """
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
space = {}
exec(sys.argv[2], space)
for question in json.loads(sys.argv[3]):
    try:
        answer = eval(question, space)
    except Exception as error:
        answer = f"raised {type(error).__name__}"
    sys.__stdout__.write("answer " + json.dumps(answer, default=lambda thing: type(thing).__name__) + "\\n")
"""

#: A failed subtest stands in a line of its own, and its test in another that may well say PASSED.
OUTCOME = re.compile(
    r"^(?:SUB)?(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)(?:\(.*?\))? (\S+::.*?)(?: - .*)?$", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Site:
    """A base as it lies on the disk: `root` is the work tree, `start` its first commit, tagged `base`."""

    root: Path
    home: Path
    base: Base
    start: str = ""

    def write(self, name: str, content: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()
        path.write_text(content)
        return path

    def read(self, name: str) -> str:
        return (self.root / name).read_text()

    def git(self, *arguments: str) -> str:
        return git(self.root, *arguments)

    @property
    def python(self) -> str:
        return str(self.root / self.base.own_python) if self.base.own_python else sys.executable

    @property
    def site_packages(self) -> Path:
        """Where the project's own virtual environment keeps what is installed."""
        return next((self.root / ".venv" / "lib").glob("python*/site-packages"))

    def pytest(self, *arguments: str, autoload: bool = False, cache: bool = False, cold: bool = False) -> Ran:
        """What a developer would see: `python -m pytest` in the work tree."""
        command = [self.python, "-m", "pytest", *(("-q",) if cache else QUICK), *arguments]
        return run(command, self.root, self.home, self.base.environment, autoload=autoload, cold=cold)


def run(
    command: list[str],
    root: Path,
    home: Path,
    variables: Mapping[str, str] | None = None,
    *,
    autoload: bool = False,
    cold: bool = False,
) -> Ran:
    environment = clean_environment(home) | {name: value.format(root=root) for name, value in (variables or {}).items()}
    if not autoload:
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    if command[1:3] == ["-m", "pytest"] and not cold:
        command = [*warmed(socket_of_forks(), tuple(command), environment)]
    done = subprocess.run(
        command,
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def lay_out(base: Base, folder: Path) -> Site:
    """The base in a git repository of one commit, in a folder where nothing else is."""
    home = folder / "home"
    home.mkdir(parents=True)
    draft = Site(folder / "around" / "work", home, base)
    for name, content in base.files.items():
        draft.write(name, content)
    draft.git("init", "-q")
    draft.git("add", "-A")
    draft.git("commit", "-q", "-m", "base")
    draft.git("tag", "base")
    if base.set_up:
        base.set_up(draft)
    return Site(draft.root, home, base, draft.git("rev-parse", "HEAD"))


def apply(case: Case, site: Site) -> None:
    """Does to the work tree what the case's agent did."""
    for name in case.delete:
        (site.root / name).unlink()
    for name, content in case.write.items():
        site.write(name, content)
    for name, target in case.link.items():
        path = site.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(target)
    for name, mode in case.chmod.items():
        (site.root / name).chmod(mode)
    if case.act:
        case.act(site)


def product_of(base: Base, root: Path) -> dict[str, bytes]:
    """The product's regular files by path: no links, no bytecode."""
    found: dict[str, bytes] = {}
    for name in base.product:
        top = root / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and not path.is_symlink() and path.suffix != ".pyc":
                found[path.relative_to(root).as_posix()] = path.read_bytes()
    return found


def untouched(site: Site) -> bool:
    """Whether the product is that of the base, byte for byte."""
    first = {name: content.encode() for name, content in site.base.files.items() if is_product(site.base, name)}
    return product_of(site.base, site.root) == first


def is_product(base: Base, name: str) -> bool:
    return any(name == top or name.startswith(f"{top}/") for top in base.product)


def answers(site: Site, folder: Path) -> list[object]:
    """What the product says to the questions: its files alone, in a process that never heard of pytest."""
    copy(product_of(site.base, site.root), folder)
    paths = json.dumps([str(folder / path) for path in site.base.paths])
    questions = json.dumps(list(site.base.questions))
    asked = run([sys.executable, "-I", "-B", "-c", ASK, paths, site.base.asks, questions], folder, site.home)
    lines = [line.partition(" ")[2] for line in asked.out.splitlines() if line.startswith("answer ")]
    return [json.loads(line) for line in lines]


def hidden_run(site: Site, folder: Path, *, cold: bool = False) -> Ran:
    """Plain pytest over the base's own files with the product's laid over them, and the hidden tests beside."""
    rest = {name: content.encode() for name, content in site.base.files.items() if not is_product(site.base, name)}
    tests = site.base.hidden_tests
    copy(rest | product_of(site.base, site.root) | {name: text.encode() for name, text in tests.items()}, folder)
    paths = os.pathsep.join(str(folder / path) for path in site.base.paths)
    given = site.base.environment.get("PYTHONPATH", "")
    variables = {**site.base.environment, "PYTHONPATH": os.pathsep.join(filter(None, (given, paths)))}
    return run([sys.executable, "-m", "pytest", *QUICK], folder, site.home, variables, cold=cold)


def copy(files: Mapping[str, bytes], folder: Path) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def outcomes(ran: Ran) -> dict[str, str]:
    """Outcome by test, from the summary that `-rA` asks for; only for runs of bases, which forge nothing."""
    seen = [(test, outcome) for outcome, test in OUTCOME.findall(ran.out)]
    return dict(sorted(seen, key=lambda pair: pair[1] != "PASSED"))  # what went wrong comes last, and stays
