"""Starts pytest with the witness riding along: `python …/witness/__main__.py [pytest arguments]`.

It is run in place of `python -m pytest` or `pytest`, and then behaves like them. It imports nothing of ours, since the
project's interpreter need not have this package (Python 3.9 and pytest 7.4 will do): what rides along is loaded by its
path. The environment says how, and is cleared at once, so that nothing the tests start sees it:

ITERCTL_WITNESS_FD      the open file descriptor that takes the lines
ITERCTL_WITNESS_MODE    `module` for `python -m pytest`, `script` for `pytest`: what is first on sys.path
ITERCTL_WITNESS_MARKER  keep only tests whose closest `iterate` marker names this task ('': only those without one);
                        turns xdist off, whose workers run without the witness
ITERCTL_WITNESS_EXAM    a JSON file, taken away once it is read, that names the probe to load and says what it looks
                        at (see probe/); without a probe the rest of it has no effect

The marks that declare tasks are not seen under xdist either: whoever wants them runs with `-n0`.
"""

# ruff: noqa: E402 - nothing may be imported before sys.path is mended
# ruff: noqa: PTH108, PTH109, PTH118, PTH120, PTH123 - paths are strings
from __future__ import annotations

import os
import sys

_PREFIX = "ITERCTL_WITNESS_"
_FOLDER = os.path.dirname(os.path.realpath(__file__))


def _take_settings() -> dict[str, str]:
    """What the environment says, out of the way before anything of the project is imported."""
    settings = {name[len(_PREFIX) :]: os.environ.pop(name) for name in list(os.environ) if name.startswith(_PREFIX)}
    # With -P, -I or PYTHONSAFEPATH the interpreter put no folder in front, and neither would it for pytest.
    in_front = bool(sys.path) and os.path.realpath(sys.path[0]) == _FOLDER
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != _FOLDER]
    if in_front:
        script = settings.get("MODE") == "script"
        sys.path.insert(0, os.path.dirname(sys.executable) if script else os.getcwd())
    return settings


_settings = _take_settings()

# Only now may anything be imported: our own folder would have been searched first.
import json
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any


def _take_exam(path: str) -> dict[str, Any]:
    """What the probe is to look at; the file is gone before anything of the project could read it."""
    try:
        with open(path, "rb") as file:
            exam = json.load(file)
        os.unlink(path)
    except (OSError, ValueError) as error:
        exam = error
    if isinstance(exam, dict):
        return exam
    sys.stderr.write(f"error: {path} is no exam: {exam}\n")
    sys.exit(4)


def _load(name: str, path: str, **given: object) -> Any:
    """A package of ours, by its path and under a name of its own."""
    spec = spec_from_file_location(name, path, submodule_search_locations=[os.path.dirname(path)])
    if spec is None or spec.loader is None:
        sys.stderr.write(f"error: {path} is no package to load\n")
        sys.exit(4)
    module = module_from_spec(spec)
    vars(module).update(given)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _start() -> int:
    exam = _take_exam(_settings["EXAM"]) if "EXAM" in _settings else {}
    # The probe is first: it maps sys.path into the room before anybody imports pytest.
    probe = _load("iterctl_probe", str(exam["probe"]), EXAM=exam) if exam.get("probe") else None
    try:
        witness = _load("iterctl_witness", os.path.join(_FOLDER, "__init__.py"))
    except ModuleNotFoundError as missing:
        if missing.name != "pytest":
            raise
        sys.exit(f"{sys.executable}: No module named pytest")
    for name in [each for each in sys.modules if each.partition(".")[0] == "iterctl_witness"]:
        del sys.modules[name]  # nothing of the project has any business with it
    code: int = witness.run(_settings, probe)
    return code


if __name__ == "__main__":
    sys.exit(_start())
