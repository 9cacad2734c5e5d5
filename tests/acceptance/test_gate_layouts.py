"""The gate in projects of every shape: honest work is accepted there, and edited tests are not."""

from __future__ import annotations

import json
import sys
import sysconfig
import venv
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.kit.project import BROKEN, FIXED, Project

TEST = """from {module} import double


def test_double():
    assert double(4) == 8


def test_name():
    assert double.__name__
"""

WRITES = """

def test_writes(monkeypatch, tmp_path):
    import time

    open("out.txt", "w").write("x")
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.chdir(tmp_path)
    assert time.time() == 0
"""


@dataclass(frozen=True)
class Layout:
    files: dict[str, str]
    product: str
    tests: str
    arguments: tuple[str, ...] = ()
    start: str = "."
    autoload: bool = False
    python: Callable[[Project], str] | None = None
    fixed: str = FIXED
    variables: dict[str, str] = field(default_factory=dict)


def editable(project: Project, finder: str) -> str:
    """A virtual environment beside the project, which finds the project's package as an editable install would."""
    folder = project.root.parent / "venv"
    venv.EnvBuilder(symlinks=True).create(folder)
    site = next((folder / "lib").glob("python*/site-packages"))
    (site / "outer.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    package = project.root / "src/calc"
    if finder:
        (site / "__editable___calc_finder.py").write_text(finder.replace("PACKAGE", repr(str(package))))
        (site / "__editable__.calc.pth").write_text(
            "import __editable___calc_finder; __editable___calc_finder.install()\n"
        )
    else:
        (site / "calc.pth").write_text(f"{package.parent}\n")
    return str(folder / "bin/python")


FINDER = """
import sys
from importlib.util import spec_from_file_location

MAPPING = {"calc": PACKAGE}


class _EditableFinder:
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if fullname in MAPPING:
            place = MAPPING[fullname]
            return spec_from_file_location(fullname, place + "/__init__.py", submodule_search_locations=[place])
        return None


def install():
    sys.meta_path.append(_EditableFinder)
"""

CHILD = """import subprocess
import sys

from calc import double


def test_double():
    assert double(4) == 8


def test_in_a_process_of_its_own():
    code = "import calc; print(calc.double(5), calc.__file__)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/").stdout
    import calc

    assert out.split() == ["10", calc.__file__]
"""

PLUGIN = """import pytest


def double(number):
    return number + number + 1


@pytest.fixture
def doubled():
    return double(4)
"""

LAYOUTS = {
    "xdist": Layout(
        {
            "calc.py": BROKEN,
            "tests/test_calc.py": TEST.format(module="calc"),
            "pytest.ini": "[pytest]\naddopts = -n2\npythonpath = .\n",
        },
        "calc.py",
        "tests/test_calc.py",
        autoload=True,
    ),
    "src layout with a path configuration": Layout(
        {
            "src/calc/__init__.py": BROKEN,
            "tests/test_calc.py": TEST.format(module="calc"),
            "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src"]\ntestpaths = ["tests"]\n',
        },
        "src/calc/__init__.py",
        "tests/test_calc.py",
    ),
    "editable by a path file": Layout(
        {"src/calc/__init__.py": BROKEN, "tests/test_calc.py": CHILD},
        "src/calc/__init__.py",
        "tests/test_calc.py",
        python=lambda project: editable(project, ""),
    ),
    "editable by an import finder": Layout(
        {"src/calc/__init__.py": BROKEN, "tests/test_calc.py": CHILD},
        "src/calc/__init__.py",
        "tests/test_calc.py",
        python=lambda project: editable(project, FINDER),
    ),
    "namespace package": Layout(
        {"acme/calc/core.py": BROKEN, "tests/test_calc.py": TEST.format(module="acme.calc.core")},
        "acme/calc/core.py",
        "tests/test_calc.py",
    ),
    "monorepo, from the folder of one project": Layout(
        {
            "one/calc.py": BROKEN,
            "one/tests/test_calc.py": TEST.format(module="calc"),
            "one/pytest.ini": "[pytest]\npythonpath = .\n",
            "two/other.py": "VALUE = 1\n",
            "two/tests/test_other.py": "from other import VALUE\n\n\ndef test_other():\n    assert VALUE == 1\n",
            "two/pytest.ini": "[pytest]\npythonpath = .\n",
        },
        "one/calc.py",
        "one/tests/test_calc.py",
        start="one",
    ),
    "monorepo, from the root": Layout(
        {
            "one/calc.py": BROKEN,
            "one/tests/test_calc.py": TEST.format(module="calc"),
            "one/pytest.ini": "[pytest]\npythonpath = .\n",
            "pytest.ini": "[pytest]\n",
        },
        "one/calc.py",
        "one/tests/test_calc.py",
        arguments=("one",),
    ),
    "tests beside the modules": Layout(
        {"pkg/__init__.py": "", "pkg/calc.py": BROKEN, "pkg/test_calc.py": TEST.format(module="pkg.calc")},
        "pkg/calc.py",
        "pkg/test_calc.py",
    ),
    "importlib mode": Layout(
        {
            "calc.py": BROKEN,
            "tests/test_calc.py": TEST.format(module="calc"),
            "pytest.ini": "[pytest]\naddopts = --import-mode=importlib\npythonpath = .\n",
        },
        "calc.py",
        "tests/test_calc.py",
    ),
    "options that people have": Layout(
        {
            "calc.py": BROKEN,
            "test_calc.py": TEST.format(module="calc"),
            "pytest.ini": "[pytest]\naddopts = -x --ff -ra\n",
        },
        "calc.py",
        "test_calc.py",
        arguments=("-k", "double or name", "--maxfail=2"),
    ),
    "a project that is a pytest plugin": Layout(
        {
            "plug.py": PLUGIN,
            "conftest.py": 'pytest_plugins = ["plug"]\n',
            "test_calc.py": "def test_double(doubled):\n    assert doubled == 8\n",
        },
        "plug.py",
        "test_calc.py",
        fixed=PLUGIN.replace("number + number + 1", "number * 2"),
    ),
    "hypothesis and coverage": Layout(
        {
            "calc.py": BROKEN,
            "test_calc.py": "from calc import double\nfrom hypothesis import given, strategies as st\n\n\n"
            "@given(st.integers())\ndef test_double(number):\n    assert double(number) == number * 2\n",
            "pytest.ini": "[pytest]\naddopts = --cov=calc\n",
            ".gitignore": "__pycache__/\n.pytest_cache/\n.hypothesis/\n.coverage\n",
        },
        "calc.py",
        "test_calc.py",
        autoload=True,
    ),
    "tests that write into the tree, change the clock and go elsewhere": Layout(
        {
            "calc.py": BROKEN,
            "test_calc.py": TEST.format(module="calc") + WRITES,
        },
        "calc.py",
        "test_calc.py",
    ),
}


@pytest.fixture(params=LAYOUTS, ids=[name.replace(" ", "-") for name in LAYOUTS])
def laid_out(request: pytest.FixtureRequest, project: Project) -> tuple[Project, Layout]:
    layout = LAYOUTS[request.param]
    for name in ("calc.py", "test_calc.py", "pytest.ini"):
        (project.root / name).unlink()
    for name, content in layout.files.items():
        project.write(name, content)
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "layout")
    return replace(project, quick=False, autoload=layout.autoload), layout


def run(project: Project, layout: Layout) -> tuple[int, dict[str, object], str]:
    variables = dict(layout.variables)
    if layout.python is not None:
        variables["ITERCTL_PYTHON"] = layout.python(project)
    command = [sys.executable, "-m", "pytest", "--iterate", f"--iterate-agent={project.agent_command}"]
    ran = project.run(
        *command,
        "--iterate-format=json",
        "--iterate-max=2",
        *layout.arguments,
        cwd=project.root / layout.start,
        **variables,
    )
    assert ran.out, ran.err
    return ran.code, json.loads(ran.out)["tasks"][0], ran.err


@pytest.mark.slow
def test_an_honest_fix_is_accepted(laid_out: tuple[Project, Layout]) -> None:
    project, layout = laid_out
    project.agent({"write": {str(project.root / layout.product): layout.fixed}})
    code, task, err = run(project, layout)
    assert code == 0, err
    gate = task["gate"]
    assert isinstance(gate, dict)
    evidence = gate["evidence"]
    assert any("negative control" in line for line in evidence["checked"]), evidence
    assert any("passed alone" in line for line in evidence["checked"]), evidence
    assert not evidence["findings"], evidence
    assert (project.root / layout.product).read_text() == layout.fixed


@pytest.mark.slow
@pytest.mark.parametrize(
    "laid_out", ["xdist", "editable by an import finder", "monorepo, from the folder of one project"], indirect=True
)
def test_edited_tests_are_not(laid_out: tuple[Project, Layout]) -> None:
    project, layout = laid_out
    path = project.root / layout.tests
    weak = path.read_text().replace("== 8", ">= 8").replace("== number * 2", "is not None")
    weak = weak.replace('["10", calc.__file__]', '["11", calc.__file__]')
    project.agent({"write": {str(path): weak}})
    code, task, err = run(project, layout)
    assert (code, task["reason"]) == (10, "integrity"), err


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a folder with spaces", "ünïcödé-日本", "it's {odd} $HOME"])
def test_a_repository_may_be_called_anything(tmp_path: Path, name: str) -> None:
    project = Project.make(tmp_path / name, state=tmp_path / "state")
    project = replace(project, quick=False)
    tools = tmp_path / "tools"
    assert tools.exists()
    project.agent({"write": {"calc.py": FIXED}})
    ran = project.pytest("--iterate", f"--iterate-agent={sys.executable} {tools / 'agent.py'}", "--iterate-format=json")
    assert ran.code == 0, ran.err


@pytest.mark.slow
def test_markers_declare_tasks_and_other_tests_are_the_wider_suite(project: Project) -> None:
    project = replace(project, quick=False)
    project.write(
        "test_marked.py",
        "import pytest\nfrom calc import double\nfrom other import name\n\n\n"
        "@pytest.mark.iterate(task='doubling')\ndef test_double():\n    assert double(1) == 2\n\n\n"
        "@pytest.mark.iterate(task='naming')\ndef test_name():\n    assert name() == 'new'\n\n\n"
        "def test_steady():\n    assert name()\n",
    )
    (project.root / "test_calc.py").unlink()
    project.write("other.py", "def name():\n    return 'old'\n")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "marked")
    project.agent(
        {"write": {"calc.py": FIXED, "other.py": "def name():\n    return ''\n"}},
        {"write": {"other.py": "def name():\n    return 'old'\n"}},
        {"write": {"other.py": "def name():\n    return 'new'\n"}},
    )
    ran = project.iterate("--iterate-format=json")
    assert ran.code == 0, ran.err
    doubling = ran.json["tasks"][0]
    assert [step["reason"] for step in doubling["history"]] == ["integrity", "passed"]
    assert "test_steady" in project.calls[1]["prompt"]
    assert "test_name" not in project.calls[1]["prompt"]
