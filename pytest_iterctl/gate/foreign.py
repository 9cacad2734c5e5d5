"""Which files belong to the tests when those are a command of any language, by the conventions of common runners."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import translate
from functools import cache
from pathlib import PurePosixPath
from typing import NamedTuple

from pytest_iterctl.gate.globs import matches

__all__ = [
    "PACKAGE_SETTINGS",
    "CommandTests",
    "Reason",
    "data_that_tests_name",
    "is_test_name",
    "same_package_settings",
]

#: Holds the settings of tests beside much else, as `pyproject.toml` does.
_SAYS_HOW = frozenset({".json", ".toml", ".yaml", ".yml", ".ini", ".cfg", ".xml", ".conf"})
PACKAGE_SETTINGS = "package.json"
_SETTINGS = ("scripts", "jest", "mocha", "ava", "vitest", "nyc", "c8", "tap", "type", "imports")

_FOLDERS = frozenset(
    {"tests", "test", "__tests__", "spec", "specs", "e2e", "testdata", "__snapshots__", "__mocks__", "__fixtures__"}
)
_NAMES = (
    # the whole word, set off
    *("*.test.*", "*.tests.*", "*.spec.*", "*.specs.*", "*.e2e.*", "*.cy.*", "*.test-d.*"),
    *("*_test.*", "*_tests.*", "*_spec.*", "*-test.*", "*-tests.*", "*-spec.*", "test_*.*", "test-*.*"),
    *("test.[cm]js", "test.js", "test.ts", "test.[cm]ts", "test.jsx", "test.tsx", "tests.rs", "test.rb", "test.php"),
    # the end or the beginning of a name in camel case
    *(f"*{word}.{end}" for word in ("Test", "Tests", "TestCase") for end in ("java", "kt", "kts", "scala", "groovy")),
    *(f"*{word}.{end}" for word in ("Test", "Tests", "TestCase") for end in ("cs", "fs", "vb", "php", "swift", "m")),
    *(f"*{word}.{end}" for word in ("Test", "Tests") for end in ("cpp", "cc", "cxx", "hs", "dart", "pas", "js", "ts")),
    *("*IT.java", "*IT.kt", "Test[A-Z]*.java", "Test[A-Z]*.kt", "Test[A-Z]*.cs"),
    *(f"*Spec.{end}" for end in ("js", "mjs", "cjs", "scala", "groovy", "kt", "hs", "php", "swift")),
    *("*.bats", "*.feature", "*.snap", "*.t"),
)
#: Runners' own configuration, and what they load before any test.
_CONFIGURATION = (
    *("jest.config.*", "jest.*.config.*", "jest.setup.*", "jest.preset.*", ".jestrc*", "setupTests.*"),
    *("vitest.config.*", "vitest.*.config.*", "vitest.workspace.*", "vitest.setup.*"),
    *(".mocharc*", "mocha.opts", "ava.config.*", "karma.conf.*", "karma.config.*", "jasmine.json", "jasmine.*js"),
    *("playwright.config.*", "playwright-ct.config.*", "cypress.config.*", "cypress.json", "wdio.conf.*"),
    *("nightwatch.conf.*", ".taprc*", ".tap*.yaml", ".nycrc*", "nyc.config.*", ".c8rc*", "web-test-runner.config.*"),
    *("phpunit.xml*", "phpunit.dist.xml", "codeception.yml", "codeception.dist.yml", "behat.yml*", ".rspec*"),
    *("cucumber.js", "cucumber.yml", "cucumber.yaml", "*.runsettings", "xunit.runner.json", "nextest.toml", ".busted"),
)
#: Files that say what a command does, when it is this program that runs it.
_RUN_BY = {
    "make": ("Makefile", "makefile", "GNUmakefile", "*.mk"),
    "gmake": ("Makefile", "makefile", "GNUmakefile", "*.mk"),
    "just": ("justfile", "Justfile", ".justfile", "*.just"),
    "task": ("Taskfile*", "taskfile*"),
    "go-task": ("Taskfile*", "taskfile*"),
    "nox": ("noxfile.py",),
    "tox": ("tox.ini",),
    "rake": ("Rakefile", "rakefile", "*.rake"),
    "bun": ("bunfig.toml",),
    "vitest": ("vite.config.*",),
}
#: Programs that only run another one, whose name follows.
_WRAPPERS = re.compile(
    r"env|time|nice|timeout|sudo|xvfb-run|exec|run|dlx|npx|bunx|pnpx|uvx?|pipx|bundle|poetry|pipenv|pdm|hatch|rye"
    r"|python[\d.]*|sh|bash|dash|zsh"
)
_BEFORE_THE_PROGRAM = re.compile(r"-.*|\w+=.*|\d+[smh]?")
_WORDS = re.compile(r"[\s;&|()<>'\"`]+")
_QUOTED = re.compile(r"""(['"`])([^'"`\n\\]{1,300})\1""")
_CODE = re.compile(
    r"\.(?:[cm]?[jt]sx?|vue|svelte|py|go|rb|rs|java|kts?|scala|groovy|cs|fs|vb|php|swift|mm?|[ch]|cc|cpp|cxx|hpp|hs|dart"
    r"|exs?|erl|lua|p[lm]|sh|zig|nim|jl|r|clj|elm)"
)


class Reason(NamedTuple):
    """Why a file is protected, and whether a new one of its kind could be a test that somebody adds."""

    words: str = ""
    may_be_added: bool = False


@dataclass(frozen=True, slots=True)
class CommandTests:
    """What is known about the tests that a command runs. Paths are relative to the root, with `/`."""

    named: frozenset[str]  # files of the tree that the command names
    configuration: tuple[str, ...]  # names of files that say how it runs
    junit: str  # where its reports are

    @classmethod
    def of(
        cls, files: Iterable[str], *, command: tuple[str, ...], junit: str, sources: Mapping[str, bytes]
    ) -> CommandTests:
        known = frozenset(files)
        programs = _programs(command)
        if b"vitest" in sources.get(PACKAGE_SETTINGS, b""):
            programs |= {"vitest"}
        run_by = tuple(name for program in sorted(programs) for name in _RUN_BY.get(program, ()))
        words = {_inside(part) for word in command for text in _WORDS.split(word) for part in (text, _value(text))}
        named = frozenset(path for path in known & words if _may_be_the_tests(path))
        return cls(named, (*_CONFIGURATION, *run_by), _inside(junit))

    def reason(self, path: str) -> Reason:
        pure = PurePosixPath(path)
        if path in self.named:
            return Reason("the command of the tests names it")
        if _one_of(self.configuration).match(pure.name):
            return Reason("it configures the tests")
        if self.junit and matches(f"/{self.junit}", path):
            return Reason("the report of the tests is written there")
        if is_test_name(pure.name):
            return Reason("its name makes it a test file", may_be_added=True)
        folder = next((str(each) for each in pure.parents if each.name in _FOLDERS), "")
        return Reason(f"it lies in {folder}/, which belongs to the tests", may_be_added=True) if folder else Reason()


def _may_be_the_tests(path: str) -> bool:
    """A file that a command names may hold the tests or say how they run; a plain text may well be their subject."""
    suffix = PurePosixPath(path).suffix.lower()
    return not suffix or bool(_CODE.fullmatch(suffix)) or suffix in _SAYS_HOW


def is_test_name(name: str) -> bool:
    """Whether a file of that name is a test to the runner of some language."""
    return _one_of(_NAMES).match(name) is not None


def data_that_tests_name(tests: Mapping[str, bytes], known: frozenset[str]) -> dict[str, str]:
    """Each existing file that a quoted text in a test names, with the first test that does; programs are left out.

    A path is looked for from the test's own folder and from the root.
    """
    found: dict[str, str] = {}
    for test in sorted(tests):
        for _, text in _QUOTED.findall(tests[test].decode("utf-8", "replace")):
            for start in (posixpath.dirname(test), ""):
                path = posixpath.normpath(posixpath.join(start, text))
                if path in known and not _CODE.fullmatch(PurePosixPath(path).suffix.lower()):
                    found.setdefault(path, test)
    return found


def same_package_settings(before: bytes | None, after: bytes | None) -> bool:
    """Whether two versions of a `package.json` say the same about tests; None is a missing file."""
    if before == after:
        return True
    try:
        return _settings(before) == _settings(after)
    except (ValueError, RecursionError):
        return False


@cache
def _one_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))


def _settings(data: bytes | None) -> str:
    document: object = json.loads(data.decode("utf-8-sig")) if data is not None else {}
    if not isinstance(document, dict):
        raise ValueError("no object")  # noqa: TRY004 - as wrong as text that is no JSON
    # As text, in one order: 1 and true are two settings.
    return json.dumps({key: document[key] for key in _SETTINGS if key in document}, sort_keys=True)


def _programs(command: tuple[str, ...]) -> frozenset[str]:
    """The program that a command runs, seen through those that only run another one."""
    for word in _WORDS.split(" ".join(command)):
        name = PurePosixPath(word).name
        if name and not _WRAPPERS.fullmatch(name) and not _BEFORE_THE_PROGRAM.fullmatch(word):
            return frozenset({name})
    return frozenset()


def _value(text: str) -> str:
    return text.partition("=")[2] if text.startswith("-") else ""


def _inside(text: str) -> str:
    """A path of the tree in its plain form; '' for any other text."""
    path = posixpath.normpath(text) if text and not text.startswith(("/", "-")) else ""
    return "" if path == "." or path.startswith("../") or path == ".." else path
