"""Which files a task's tests are made of: what an agent may change there counts for nothing in a verdict."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import PurePosixPath

from pytest_iterctl.gate.configuration import SHARED_FILES, same_test_configuration
from pytest_iterctl.gate.read_by_tests import files_that_tests_read

__all__ = ["Protection", "PytestFacts", "same_test_configuration"]

_OWN_FILES = frozenset({"pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", ".coveragerc", "coverage.toml"})
_TEST_FOLDERS = frozenset({"tests", "test", "testing"})


@dataclass(frozen=True, slots=True)
class PytestFacts:
    """What pytest's configuration says about which files are tests."""

    python_files: tuple[str, ...] = ("test_*.py", "*_test.py")
    testpaths: tuple[str, ...] = ()
    doctest_files: tuple[str, ...] = ("test*.txt",)


@dataclass(frozen=True, slots=True)
class Protection:
    """Answers for any path, also for files that are not there yet. Paths are relative to the root, with `/`.

    Modules with doctests are the product, so they are not protected, whatever collects them.
    """

    facts: PytestFacts
    roots: frozenset[str]  # folders that belong to the tests as a whole
    named: frozenset[str]  # files that were given as arguments
    read: Mapping[str, str]  # data file → the test that names it
    protect: tuple[str, ...]
    may_change: tuple[str, ...]

    @classmethod
    def of(
        cls,
        files: Iterable[str],
        *,
        config: PytestFacts,
        protect: tuple[str, ...],
        may_change: tuple[str, ...],
        test_roots: tuple[str, ...],
        sources: Mapping[str, bytes],
    ) -> Protection:
        """What is protected among `files`; `test_roots` are pytest's path arguments, `sources` the contents of tests.

        A folder called `tests`, `test` or `testing` counts when it holds tests. One that was given as an argument or
        in `testpaths` counts unless it is the root, holds most of the modules, or has `calc.py` beside `test_calc.py`:
        in doubt the tests are protected by their names, and the modules beside them are not.
        """
        known = frozenset(files)
        tests = frozenset(path for path in known if _is_test(path, config))
        given = {_folder(argument) for argument in (*config.testpaths, *test_roots)} - {""}
        matching = {folder for entry in given for folder in _folders_like(entry, known)}
        roots = _test_folders(tests) | {folder for folder in matching if _is_for_tests(folder, known, tests)}
        named = frozenset(given & known)
        bare = cls(config, frozenset(roots), named, {}, protect, may_change)
        readers = {path: data for path, data in sources.items() if path.endswith(".py") and bare.is_protected(path)}
        read = {
            path: reader
            for path, reader in files_that_tests_read(readers, known).items()
            if PurePosixPath(path).name not in SHARED_FILES
        }
        return cls(config, bare.roots, named, read, protect, may_change)

    def is_protected(self, path: str) -> bool:
        """Whether the base's version counts. A file that holds more than settings of tests: see `keeps`."""
        return bool(self._reason(path))

    def why(self, path: str) -> str:
        """The reason in words, for people; empty for a file that is the agent's to change."""
        return self._reason(path)

    def keeps(self, path: str, before: bytes | None, after: bytes | None) -> bool:
        """Whether this change of a file is kept out of the verdict.

        `pyproject.toml`, `setup.cfg` and `tox.ini` hold much that is no test's business, so they are kept out only
        when the settings of tests differ.
        """
        if self.is_protected(path):
            return before != after
        if PurePosixPath(path).name not in SHARED_FILES or self._is_released(path):
            return False
        return not same_test_configuration(PurePosixPath(path).name, before, after)

    def _reason(self, path: str) -> str:
        if self._is_released(path):
            return ""
        for entry in self.protect:
            if not entry.startswith("!") and _matches(entry, path):
                return f"the task protects {entry}"
        return self._own_reason(path)

    def _own_reason(self, path: str) -> str:
        name = PurePosixPath(path).name
        if name == "conftest.py":
            return "pytest reads every conftest.py"
        if name in _OWN_FILES:
            return "it configures the tests"
        if path in self.named:
            return "it was given to pytest as tests"
        if _is_test(path, self.facts):
            return "its name makes it a test file"
        folder = next((str(each) for each in PurePosixPath(path).parents if str(each) in self.roots), "")
        if folder:
            return f"it lies in {folder}/, which belongs to the tests"
        return f"{self.read[path]} reads it" if path in self.read else ""

    def _is_released(self, path: str) -> bool:
        """The later of two entries that match decides in `protect`; `may_change` stands above it."""
        if any(_matches(entry.removeprefix("!"), path) for entry in self.may_change):
            return True
        last = next((entry for entry in reversed(self.protect) if _matches(entry.removeprefix("!"), path)), "")
        return last.startswith("!")


def _is_test(path: str, facts: PytestFacts) -> bool:
    pure = PurePosixPath(path)
    patterns = facts.python_files if pure.suffix == ".py" else facts.doctest_files
    # pytest matches a pattern with a slash against the whole path, others against the name.
    return any(fnmatchcase(path if "/" in pattern else pure.name, _anywhere(pattern)) for pattern in patterns)


def _anywhere(pattern: str) -> str:
    return pattern if "/" not in pattern or pattern.startswith("*") else f"*{pattern}"


def _test_folders(tests: frozenset[str]) -> set[str]:
    """Folders named after tests that hold some; `testing` must hold them itself, because products are called that."""
    found: set[str] = set()
    for path in tests:
        for depth, folder in enumerate(PurePosixPath(path).parents):
            if folder.name in _TEST_FOLDERS and (folder.name != "testing" or not depth):
                found.add(str(folder))
    return found


def _folder(argument: str) -> str:
    """`./tests/unit/test_a.py::test_b[1]` without what pytest adds to a path."""
    path = argument.split("::", 1)[0].strip()
    parts = [part for part in path.split("/") if part not in {"", "."}]
    return "" if path.startswith("/") or ".." in parts else "/".join(parts)


def _folders_like(entry: str, known: frozenset[str]) -> set[str]:
    """`testpaths` may hold patterns."""
    if not any(sign in entry for sign in "*?["):
        return {entry}
    folders = {str(folder) for path in known for folder in PurePosixPath(path).parents}
    return {folder for folder in folders if folder != "." and fnmatchcase(folder, entry)}


def _is_for_tests(folder: str, known: frozenset[str], tests: frozenset[str]) -> bool:
    inside = [path for path in known if path.startswith(f"{folder}/") and path.endswith(".py")]
    nested = _test_folders(tests)
    # Modules in a folder of tests further down say nothing about the folder that was given.
    direct = [path for path in inside if not any(path.startswith(f"{other}/") for other in nested - {folder})]
    own = [path for path in direct if path in tests]
    others = [path for path in direct if _is_module(path, tests)]
    if not own or any(_subject(path) in others for path in own):
        return False
    return len(others) <= len(own) or 2 * len(others) < sum(_is_module(path, tests) for path in known)


def _is_module(path: str, tests: frozenset[str]) -> bool:
    plain = {"__init__.py", "conftest.py", "setup.py"}
    return path.endswith(".py") and path not in tests and PurePosixPath(path).name not in plain


def _subject(test: str) -> str:
    """The module that a test is called after, in the same folder: where it exists, the folder is the product's."""
    pure = PurePosixPath(test)
    return str(pure.with_name(f"{pure.stem.removeprefix('test_').removesuffix('_test')}.py"))


def _matches(pattern: str, path: str) -> bool:
    return _pattern(pattern).fullmatch(path) is not None


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    """Globs as in `.gitignore`: without a slash anywhere, `**` over folders, and a folder means all below it."""
    plain = pattern.strip().removeprefix("./")
    anchored = "/" in plain.rstrip("/")
    parts = []
    for piece in re.findall(r"\*\*/|/\*\*$|\*\*|\*|\?|\[!?[^\]/]+\]|[^*?\[]+|\[", plain.strip("/")):
        match piece:
            case "**/":
                parts.append("(?:.*/)?")
            case "/**":
                parts.append("/.+")
            case "**":
                parts.append(".*")
            case "*":
                parts.append("[^/]*")
            case "?":
                parts.append("[^/]")
            case _ if piece.startswith("[") and piece.endswith("]") and len(piece) > 2:  # noqa: PLR2004 - not empty
                negated = piece[1] == "!"
                inner = piece[1 + negated : -1].replace("\\", r"\\").replace("[", r"\[").replace("^", r"\^")
                parts.append(f"[{'^' * negated}{inner}]")
            case _:
                parts.append(re.escape(piece))
    prefix = "" if anchored else "(?:.*/)?"
    try:
        return re.compile(f"(?s:{prefix}{''.join(parts)}(?:/.*)?)")
    except re.error:  # a range that isn't one, such as [z-a]
        return re.compile(f"(?s:{prefix}{re.escape(plain)}(?:/.*)?)")
