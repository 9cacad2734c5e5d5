"""What a path says about a file: a test, a helper for tests, a program, or a module about a subject of its own."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

__all__ = ["FRAMEWORKS", "is_about", "is_plugin", "is_program", "is_test_helper", "names_a_test"]

#: The top-level modules that run tests and judge them.
FRAMEWORKS = ("pytest", "_pytest", "pluggy", "unittest")

_HELPER = re.compile(
    r"pytest|_pytest|py_test|pytest_.*|.*_pytest|.*pytest_?plugin|.*_plugin|unittest|conftest|_?testing|tests?"
    r"|_?test_?(?:utils?|support|helpers?|case|runner|tools)|testutils?|mocks?|nose|doctest"
)
_PLUGIN = re.compile(r"pytest|_pytest|pytest_.*|.*_pytest")
_PROGRAM = re.compile(r"__main__|main|cli|_?cli_.*|.*_cli|console|setup|manage|noxfile|tasks|fabfile|command_?line")
_PROGRAM_FOLDER = re.compile(r"s?bin|scripts?|tools?|examples?|benchmarks?|commands|cli")
_TEST_FILE = re.compile(
    r"(?:^|[/\\])(?:tests?[/\\]|conftest\.py$|\.?pytest\.(?:ini|toml)$|test_[\w*]*\.py$|\w+_test\.py$)"
)


def is_test_helper(path: str) -> bool:
    """A module whose business is testing: `testing.py`, `pytest_thing/`, `thing_plugin.py`."""
    return any(_HELPER.fullmatch(part) for part in _parts(path))


def is_plugin(path: str) -> bool:
    """A module of a product that is called after pytest as a whole: `pytest_thing/core.py`, `src/pytest_thing.py`."""
    first = next((part for part in _parts(path) if part != "src"), "")
    return bool(_PLUGIN.fullmatch(first))


def is_program(path: str) -> bool:
    """A module that is run rather than imported: `__main__.py`, `cli.py`, `scripts/`."""
    *folders, name = _parts(path)
    return bool(_PROGRAM.fullmatch(name)) or any(_PROGRAM_FOLDER.fullmatch(folder) for folder in folders)


def is_about(path: str, *words: str) -> bool:
    """Whether a folder or the module is called after one of the subjects."""
    return any(word in part.lower() for part in _parts(path) for word in words)


def names_a_test(text: str) -> bool:
    """Whether text in a program is the path of a test, of a test folder or of pytest's own configuration."""
    return len(text) < 500 and "\n" not in text and bool(_TEST_FILE.search(text))  # noqa: PLR2004 - no path is longer


def _parts(path: str) -> tuple[str, ...]:
    pure = PurePosixPath(path or ".")
    return (*pure.parent.parts, pure.stem)
