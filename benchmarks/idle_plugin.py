"""What the plugin costs those who installed it and do not use it: `pytest` against `pytest -p no:iterctl`."""

from __future__ import annotations

import subprocess
import sys
import venv
from functools import partial
from pathlib import Path

from measure import (
    clean_environment,
    command,
    instructions,
    interleaved,
    minimum_ratio,
    options,
    scratch,
    spread,
    tell,
    tell_missing,
    uncountable,
    user,
)

_PACKAGE = Path(__file__).resolve().parent.parent


def main() -> None:
    given = options(__doc__ or "", size=10, runs=20, quick_size=2, venv=True)
    with scratch() as folder:
        python = _environment(given.venv or folder / "venv")
        project = folder / "project"
        project.mkdir()
        (project / "pytest.ini").write_text("[pytest]\n")
        tests = "".join(f"def test_{number}():\n    assert True\n\n\n" for number in range(given.size))
        (project / "test_small.py").write_text(tests)
        environment = clean_environment(folder)
        idle = [str(python), "-m", "pytest", "-q"]
        without = [*idle, "-p", "no:iterctl"]
        rounds = interleaved(
            partial(command, idle, cwd=project, environment=environment),
            partial(command, without, cwd=project, environment=environment),
            given.runs,
        )
        against = f"{given.size} tests, against -p no:iterctl"
        if why := uncountable(given):
            tell_missing("idle_plugin.instructions", 1.01, why)
        else:
            with_it, without_it = (instructions(each, cwd=project, environment=environment) for each in (idle, without))
            tell("idle_plugin.instructions", with_it / without_it, 1.01, f"callgrind, {against}")
        how = f"minimum user time of {given.runs} interleaved runs each, {against} ({spread(rounds, user)})"
        tell("idle_plugin.user_time", minimum_ratio(rounds, user), 1.02, how)


def _environment(path: Path) -> Path:
    """The interpreter of an environment that has this package and what it needs, and nothing else."""
    python = path / "bin" / "python"
    if not python.exists():
        venv.create(path, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(_PACKAGE)]
        done = subprocess.run(install, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"error: this package can't be installed into {path}\n{done.stderr}")
    return python


if __name__ == "__main__":
    main()
