"""Which files a task's tests are made of: what an agent may change there counts for nothing in a verdict."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from pytest_iterctl.gate.configuration import SHARED_FILES, same_test_configuration
from pytest_iterctl.gate.foreign import (
    PACKAGE_SETTINGS,
    CommandTests,
    Reason,
    data_that_tests_name,
    is_test_name,
    same_package_settings,
)
from pytest_iterctl.gate.globs import matches
from pytest_iterctl.gate.read_by_tests import files_that_tests_read

__all__ = ["Protection", "PytestFacts", "same_test_configuration"]

_OWN_FILES = frozenset({"pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", ".coveragerc", "coverage.toml"})
_BESIDE_TESTS = frozenset({"__init__.py", "conftest.py", "setup.py"})
_TEST_FOLDERS = frozenset({"tests", "test", "testing"})
#: Python runs them by itself, so they are no tests, wherever they lie.
_LOADED_UNASKED = re.compile(r"__init__\.py|(?:site|user)customize\.py|.*\.(?:pth|pyc|pyo)")
_PLUGIN = re.compile(r"pytest_\w+\.py|(?:\w+_)?plugins?\.py")


@dataclass(frozen=True, slots=True)
class PytestFacts:
    """What pytest's configuration says about which files are tests."""

    python_files: tuple[str, ...] = ("test_*.py", "*_test.py")
    testpaths: tuple[str, ...] = ()
    doctest_files: tuple[str, ...] = ("test*.txt",)

    @classmethod
    def of(cls, facts: Mapping[str, object]) -> PytestFacts:
        """From what a test run said about itself; what it did not say, or not understandably, is pytest's default."""
        usual = cls()
        return cls(
            python_files=_texts(facts.get("python_files")) or usual.python_files,
            testpaths=_texts(facts.get("testpaths")),
            doctest_files=_texts(facts.get("doctest_globs")) or usual.doctest_files,
        )


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
    packages: frozenset[str] = frozenset()  # folders with tests only, which an `__init__.py` would give other names
    command: CommandTests | None = None  # what runs the tests, if it is not pytest

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
        given = {_folder(argument) for argument in test_roots} | set(_everywhere(config.testpaths, known))
        given.discard("")
        matching = {folder for entry in given for folder in _folders_like(entry, known)}
        roots = _test_folders(tests) | {folder for folder in matching if _is_for_tests(folder, known, tests)}
        named = frozenset(given & known)
        bare = cls(config, frozenset(roots), named, {}, protect, may_change, _packages(known, tests))
        readers = {path: data for path, data in sources.items() if path.endswith(".py") and bare.is_protected(path)}
        read = {
            path: reader
            for path, reader in files_that_tests_read(readers, known).items()
            if PurePosixPath(path).name not in SHARED_FILES
        }
        return cls(config, bare.roots, named, read, protect, may_change, bare.packages)

    @classmethod
    def for_command(
        cls,
        files: Iterable[str],
        *,
        command: tuple[str, ...],
        junit: str,
        protect: tuple[str, ...],
        may_change: tuple[str, ...],
        sources: Mapping[str, bytes],
    ) -> Protection:
        """What is protected when the tests are a command of any language, which may well run pytest among others.

        `junit` is where its reports are, `sources` the contents of tests and of the root's `package.json`.
        """
        known = frozenset(files)
        tests = CommandTests.of(known, command=command, junit=junit, sources=sources)
        bare = cls(PytestFacts(), frozenset(), frozenset(), {}, protect, may_change, command=tests)
        readers = {path: data for path, data in sources.items() if bare.is_protected(path)}
        modules = {path: data for path, data in readers.items() if path.endswith(".py")}
        others = {path: data for path, data in readers.items() if path not in modules}
        read = data_that_tests_name(others, known) | files_that_tests_read(modules, known)
        shared = {*SHARED_FILES, PACKAGE_SETTINGS}
        own = {path: reader for path, reader in read.items() if PurePosixPath(path).name not in shared}
        return cls(bare.facts, bare.roots, bare.named, own, protect, may_change, command=tests)

    def is_protected(self, path: str) -> bool:
        """Whether the base's version counts. A file that holds more than settings of tests: see `keeps`."""
        return bool(self._reason(path))

    def why(self, path: str) -> str:
        """The reason in words, for people; empty for a file that is the agent's to change."""
        return self._reason(path)

    def keeps(self, path: str, before: bytes | None, after: bytes | None) -> bool:
        """Whether this change of a file is kept out of the verdict.

        `pyproject.toml`, `setup.cfg`, `tox.ini` and, for commands, `package.json` hold much that is no test's business,
        so they are kept out only when the settings of tests differ.
        """
        if self.is_protected(path):
            return before != after
        name = PurePosixPath(path).name
        if self._is_released(path):
            return False
        if name == PACKAGE_SETTINGS and self.command:
            return not same_package_settings(before, after)
        return name in SHARED_FILES and not same_test_configuration(name, before, after)

    def is_new_test(self, path: str) -> bool:
        """Whether an agent may add this file, to be run apart: a test, or what lies beside tests for their use.

        Not so what pytest or Python loads by itself, what configures the tests, and what the task protects by name.
        """
        name = PurePosixPath(path).name
        if _LOADED_UNASKED.fullmatch(name) or (_PLUGIN.fullmatch(name) and not self.is_test(path)):
            return False
        return self._found(path).may_be_added

    def is_test(self, path: str) -> bool:
        """Whether its name alone makes a file a test."""
        return is_test_name(PurePosixPath(path).name) if self.command else _is_test(path, self.facts)

    def _reason(self, path: str) -> str:
        return self._found(path).words

    def _found(self, path: str) -> Reason:
        if self._is_released(path):
            return Reason()
        for entry in self.protect:
            if not entry.startswith("!") and matches(entry, path):
                return Reason(f"the task protects {entry}")
        pure = PurePosixPath(path)
        if pure.name == "conftest.py":
            return Reason("pytest reads every conftest.py")
        if pure.name in _OWN_FILES:
            return Reason("it configures the tests")
        found = self.command.reason(path) if self.command else self._by_pytest(path)
        if not found.words and path in self.read:
            return Reason(f"{self.read[path]} reads it")
        return found

    def _by_pytest(self, path: str) -> Reason:
        pure = PurePosixPath(path)
        if path in self.named:
            return Reason("it was given to pytest as tests")
        if _is_test(path, self.facts):
            return Reason("its name makes it a test file", may_be_added=True)
        folder = next((str(each) for each in pure.parents if str(each) in self.roots), "")
        if folder:
            return Reason(f"it lies in {folder}/, which belongs to the tests", may_be_added=True)
        if pure.name == "__init__.py" and str(pure.parent) in self.packages:
            return Reason("it would give the tests beside it other names")
        return Reason()

    def _is_released(self, path: str) -> bool:
        """The later of two entries that match decides in `protect`; `may_change` stands above it."""
        if any(matches(entry.removeprefix("!"), path) for entry in self.may_change):
            return True
        last = next((entry for entry in reversed(self.protect) if matches(entry.removeprefix("!"), path)), "")
        return last.startswith("!")


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(value.split())
    return tuple(text for text in value if isinstance(text, str) and text) if isinstance(value, list | tuple) else ()


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


def _packages(known: frozenset[str], tests: frozenset[str]) -> frozenset[str]:
    """Folders whose modules are all tests."""
    modules = {path for path in known if path.endswith(".py") and PurePosixPath(path).name not in _BESIDE_TESTS}
    product = {str(PurePosixPath(path).parent) for path in modules - tests}
    return frozenset(str(PurePosixPath(path).parent) for path in modules & tests) - product


def _everywhere(testpaths: tuple[str, ...], known: frozenset[str]) -> set[str]:
    """`testpaths` seen from each folder that pytest could take for its root: a repository may hold several projects."""
    settings = {*_OWN_FILES, *SHARED_FILES}
    bases = {PurePosixPath(path).parent for path in known if PurePosixPath(path).name in settings}
    return {str(base / folder) for base in (*bases, PurePosixPath()) for folder in map(_folder, testpaths) if folder}


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
    return path.endswith(".py") and path not in tests and PurePosixPath(path).name not in _BESIDE_TESTS


def _subject(test: str) -> str:
    """The module that a test is called after, in the same folder: where it exists, the folder is the product's."""
    pure = PurePosixPath(test)
    return str(pure.with_name(f"{pure.stem.removeprefix('test_').removesuffix('_test')}.py"))
