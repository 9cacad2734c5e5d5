"""Bytecode of installed packages in a clean room: what was there before any agent, and nothing else."""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_iterctl.store.place import Place
from pytest_iterctl.work.bytecode import lay_installed


class Installed:
    """A folder of packages with one compiled module, and where a room would look for its bytecode."""

    def __init__(self, folder: Path) -> None:
        self.packages = folder / "site-packages"
        self.source = self.packages / "thing" / "__init__.py"
        self.source.parent.mkdir(parents=True)
        self.source.write_text("VALUE = 'as installed'\n")
        self.prefix = folder / "room-bytecode"
        self.compiled = self.compile()

    def compile(self, mode: py_compile.PycInvalidationMode = py_compile.PycInvalidationMode.TIMESTAMP) -> Path:
        return Path(py_compile.compile(str(self.source), invalidation_mode=mode, doraise=True) or "")

    def lay(self, *more: str, before: int | None = None) -> int:
        names = (str(self.compiled), *more)
        return lay_installed(names, [self.packages], self.prefix, before=before or time.time_ns() + 10**9)

    @property
    def target(self) -> Path:
        return self.prefix / self.source.parent.relative_to("/") / self.compiled.name


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(tmp_path)


def test_python_finds_what_was_laid(installed: Installed) -> None:
    # The source can't be compiled any more, so only its bytecode can make the import work.
    seen = installed.source.stat()
    installed.source.write_text("VALUE = 'as install\0d'\n")
    os.utime(installed.source, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert installed.lay() == 1
    done = subprocess.run(
        [sys.executable, "-c", "import thing; print(thing.VALUE)"],
        env={"PYTHONPATH": str(installed.packages), "PYTHONPYCACHEPREFIX": str(installed.prefix)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "as installed\n"


def test_what_changed_since_the_first_agent_is_left_out(installed: Installed) -> None:
    first_agent = installed.compiled.stat().st_ctime_ns
    assert installed.lay(before=first_agent) == 0
    assert installed.lay(before=first_agent + 1) == 1
    # Whoever writes to it and sets its time back can't set back the time of the change.
    seen = installed.compiled.stat()
    time.sleep(0.02)
    installed.compiled.write_bytes(installed.compiled.read_bytes())
    os.utime(installed.compiled, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert installed.lay(before=first_agent + 1) == 0


@pytest.mark.parametrize(
    ("mode", "laid"),
    [
        (py_compile.PycInvalidationMode.TIMESTAMP, 1),
        (py_compile.PycInvalidationMode.CHECKED_HASH, 1),
        (py_compile.PycInvalidationMode.UNCHECKED_HASH, 0),
    ],
)
def test_bytecode_that_is_never_compared_with_its_source_is_left_out(
    installed: Installed, mode: py_compile.PycInvalidationMode, laid: int
) -> None:
    installed.compile(mode)
    assert installed.lay() == laid


def test_what_pytest_made_of_its_asserts_comes_along(installed: Installed) -> None:
    rewritten = installed.compiled.with_name(f"{installed.compiled.stem}-pytest-9.2.0.pyc")
    rewritten.write_bytes(installed.compiled.read_bytes())
    other = installed.compiled.with_name(f"other.{sys.implementation.cache_tag}.pyc")
    other.write_bytes(installed.compiled.read_bytes())
    assert installed.lay() == 2
    assert sorted(path.name for path in installed.target.parent.iterdir()) == sorted(
        (installed.compiled.name, rewritten.name)
    )


def test_only_from_beside_installed_sources(installed: Installed, tmp_path: Path) -> None:
    elsewhere = tmp_path / "tree" / "__pycache__" / "mine.pyc"
    elsewhere.parent.mkdir(parents=True)
    elsewhere.write_bytes(installed.compiled.read_bytes())
    loose = installed.packages / "loose.pyc"
    loose.write_bytes(installed.compiled.read_bytes())
    round_about = f"{installed.packages}/../tree/__pycache__/mine.pyc"
    neighbour = f"{installed.packages}-of-others/__pycache__/mine.pyc"
    assert installed.lay(str(elsewhere), str(loose), round_about, neighbour, "", "relative/__pycache__/x.pyc") == 1


def test_links_cut_files_and_missing_ones_are_left_out(installed: Installed, tmp_path: Path) -> None:
    folder = installed.compiled.parent
    (tmp_path / "away.pyc").write_bytes(installed.compiled.read_bytes())
    (folder / "linked.pyc").symlink_to(tmp_path / "away.pyc")
    (folder / "cut.pyc").write_bytes(b"\x00\x01\x02")
    os.mkfifo(folder / "pipe.pyc")
    names = [str(folder / f"{name}.pyc") for name in ("linked", "pipe", "missing")]
    gone = str(installed.packages / "gone" / "__pycache__" / "x.pyc")
    assert installed.lay(*names, gone) == 1


def test_the_first_agent_is_remembered_once_for_all_work_trees(tmp_path: Path) -> None:
    environment = {"ITERCTL_STATE_DIR": str(tmp_path / "state")}
    one, other = Place(tmp_path / "one", environment), Place(tmp_path / "other", environment)
    one.prepare()
    before = time.time_ns()
    assert before <= one.first_agent() <= time.time_ns()
    one.note_agent()
    noted = other.first_agent()
    assert before <= noted <= time.time_ns()
    other.note_agent()
    assert one.first_agent() == noted


@pytest.mark.parametrize("content", ["", "yesterday", "\0"])
def test_where_somebody_was_at_it_nothing_is_old_enough(tmp_path: Path, content: str) -> None:
    place = Place(tmp_path / "tree", {"ITERCTL_STATE_DIR": str(tmp_path / "state")})
    place.prepare()
    (tmp_path / "state" / "first-agent").write_text(content)
    assert place.first_agent() == 0
