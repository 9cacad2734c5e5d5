"""What a task's tests are made of is protected, and what is the product's is not."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.gate.protected import Protection, PytestFacts, same_test_configuration

FILES = (
    "README.md",
    "calc.py",
    "conftest.py",
    "pyproject.toml",
    "pytest.ini",
    "src/pkg/__init__.py",
    "src/pkg/core.py",
    "src/pkg/schema.json",
    "src/pkg/sub/tests/test_sub.py",
    "src/pkg/sub/tests/helpers.py",
    "src/pkg/sub/thing.py",
    "src/pkg/testing/__init__.py",
    "src/pkg/testing/fakes.py",
    "src/pkg/test/client.py",
    "tests/unit/test_core.py",
    "tests/unit/data/a.json",
    "tests/helpers.py",
    "examples/one.txt",
    "examples/two.txt",
    "docs/api.md",
    "docs/conf.py",
)


def protection(
    files: tuple[str, ...] = FILES,
    *,
    config: PytestFacts | None = None,
    protect: tuple[str, ...] = (),
    may_change: tuple[str, ...] = (),
    test_roots: tuple[str, ...] = (),
    sources: dict[str, bytes] | None = None,
) -> Protection:
    facts = config or PytestFacts()
    return Protection.of(
        files, config=facts, protect=protect, may_change=may_change, test_roots=test_roots, sources=sources or {}
    )


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("conftest.py", "pytest reads every conftest.py"),
        ("src/pkg/conftest.py", "pytest reads every conftest.py"),
        ("pytest.ini", "it configures the tests"),
        ("sub/.pytest.toml", "it configures the tests"),
        (".coveragerc", "it configures the tests"),
        ("test_calc.py", "its name makes it a test file"),
        ("src/pkg/core_test.py", "its name makes it a test file"),
        ("docs/test_usage.txt", "its name makes it a test file"),
        ("tests/helpers.py", "it lies in tests/, which belongs to the tests"),
        ("tests/unit/data/a.json", "it lies in tests/, which belongs to the tests"),
        ("tests/new/anything.bin", "it lies in tests/, which belongs to the tests"),
        ("src/pkg/sub/tests/helpers.py", "it lies in src/pkg/sub/tests/, which belongs to the tests"),
    ],
)
def test_what_tests_are_made_of_is_protected(path: str, why: str) -> None:
    protected = protection()
    assert protected.is_protected(path)
    assert protected.why(path) == why


@pytest.mark.parametrize(
    "path",
    [
        "calc.py",
        "README.md",
        "src/pkg/core.py",
        "src/pkg/sub/thing.py",
        "src/pkg/testing/fakes.py",
        "src/pkg/test/client.py",
        "src/pkg/schema.json",
        "docs/api.md",
        "examples/one.txt",
        "pyproject.toml",
        "testsuite.py",
        "latest/notes.md",
    ],
)
def test_the_product_is_not(path: str) -> None:
    assert not protection().is_protected(path)
    assert protection().why(path) == ""


def test_patterns_for_test_files_are_pytests_own() -> None:
    config = PytestFacts(python_files=("check_*.py", "specs/*.py"))
    protected = protection(config=config)
    assert protected.is_protected("src/check_core.py")
    assert protected.is_protected("a/specs/core.py")
    assert not protected.is_protected("test_core.py")


@pytest.mark.parametrize("argument", ["checks", "./checks/", "checks/check_a.py::test_a"])
def test_a_folder_or_file_that_pytest_is_given_is_protected(argument: str) -> None:
    product = ("calc.py", "pkg/a.py", "pkg/b.py", "pkg/c.py")
    files = ("checks/check_a.py", "checks/test_b.py", "checks/shared.py", *product)
    protected = protection(files, test_roots=(argument,))
    assert protected.is_protected("checks/check_a.py")
    assert protected.is_protected("checks/shared.py") is ("::" not in argument)
    assert not protected.is_protected("calc.py")


def test_a_folder_with_modules_beside_their_tests_is_the_products() -> None:
    protected = protection(("app/calc.py", "app/test_calc.py", "app/calc_test.py", "x.py"), test_roots=("app",))
    assert protected.is_protected("app/test_calc.py")
    assert not protected.is_protected("app/calc.py")


def test_testpaths_count_and_may_be_patterns() -> None:
    files = ("one/checks/test_a.py", "one/checks/shared.py", "one/core.py")
    protected = protection(files, config=PytestFacts(testpaths=("*/checks",)))
    assert protected.is_protected("one/checks/shared.py")
    assert not protected.is_protected("one/core.py")


@pytest.mark.parametrize("argument", [".", "./", "", "src", "src/pkg", "..", "/somewhere"])
def test_the_root_or_the_product_as_an_argument_protects_no_product(argument: str) -> None:
    protected = protection((*FILES, "src/pkg/test_inline.py"), test_roots=(argument,))
    assert not protected.is_protected("calc.py")
    assert not protected.is_protected("src/pkg/core.py")
    assert protected.is_protected("src/pkg/test_inline.py")


READER = b"""
import json, os
from pathlib import Path
HERE = Path(__file__).parent
EXAMPLES = HERE.parent.parent / "examples"
def test_a():
    json.loads((HERE / "data" / "a.json").read_text())
    open("src/pkg/schema.json")
    os.path.join("docs", "api.md")
    assert "calc.py" and "src" and "pyproject.toml" and "docs"
    Path("src/pkg")
    EXAMPLES.iterdir()
"""


def test_files_that_tests_name_are_protected() -> None:
    protected = protection(sources={"tests/unit/test_core.py": READER})
    for path in ("src/pkg/schema.json", "docs/api.md", "examples/one.txt", "examples/two.txt"):
        assert protected.why(path) == "tests/unit/test_core.py reads it"
    for path in ("calc.py", "src/pkg/core.py", "pyproject.toml", "docs/conf.py", "README.md"):
        assert not protected.is_protected(path)


def test_what_the_product_names_is_not() -> None:
    assert not protection(sources={"src/pkg/core.py": READER}).is_protected("docs/api.md")


@pytest.mark.parametrize(
    ("entry", "path", "expected"),
    [
        ("docs/api.md", "docs/api.md", True),
        ("docs/api.md", "sub/docs/api.md", False),
        ("docs", "docs/deep/er.md", True),
        ("docs/", "docs/api.md", True),
        ("./docs/*", "docs/api.md", True),
        ("docs/*.md", "docs/deep/er.md", False),
        ("docs/**/*.md", "docs/deep/er.md", True),
        ("docs/**/*.md", "docs/api.md", True),
        ("docs/**", "docs/deep/er.md", True),
        ("**/api.md", "docs/api.md", True),
        ("*.snap", "a/b/c.snap", True),
        ("?.md", "docs/a.md", True),
        ("[a-c].md", "b.md", True),
        ("[!a-c].md", "b.md", False),
        ("[z-a].md", "b.md", False),
        ("a[.md", "a[.md", True),
        ("docs/api.md", "docs/apiXmd", False),
    ],
)
def test_patterns_add_and_remove(entry: str, path: str, expected: bool) -> None:
    assert protection(protect=(entry,)).is_protected(path) is expected
    assert protection(protect=("*", f"!{entry}")).is_protected(path) is not expected
    assert protection(protect=("*",), may_change=(entry,)).is_protected(path) is not expected


def test_the_later_entry_decides_and_may_change_stands_above_all() -> None:
    protected = protection(
        protect=("!tests/unit", "docs", "!docs/api.md", "tests/unit/data"), may_change=("conftest.py",)
    )
    assert protected.is_protected("tests/unit/data/a.json")
    assert not protected.is_protected("tests/unit/test_core.py")
    assert protected.is_protected("docs/conf.py")
    assert not protected.is_protected("docs/api.md")
    assert not protected.is_protected("conftest.py")
    assert protected.why("docs/conf.py") == "the task protects docs"


paths = st.lists(
    st.sampled_from(["a", "tests", "testing", "test_a.py", "core.py", "x.json", "é"]), min_size=1, max_size=4
)
names = paths.map("/".join)


@given(
    st.lists(names, max_size=8),
    st.lists(names | st.text(max_size=8), max_size=3),
    st.dictionaries(names, st.binary(max_size=60) | st.just(READER), max_size=3),
    names | st.text(max_size=12),
    st.randoms(use_true_random=False),
)
def test_any_files_in_any_order_give_the_same(
    files: list[str], entries: list[str], sources: dict[str, bytes], path: str, chance: random.Random
) -> None:
    shuffled = files[:]
    chance.shuffle(shuffled)
    given_entries = tuple(entries)
    one = protection(tuple(files), protect=given_entries, test_roots=given_entries, sources=sources)
    other = protection(
        tuple(shuffled), protect=given_entries, test_roots=given_entries, sources=dict(reversed(sources.items()))
    )
    assert one == other
    assert one.is_protected(path) is bool(one.why(path))
    assert not protection(tuple(files), may_change=("*",), sources=sources).is_protected(path or "a")


# Configuration that holds more than tests' settings ------------------------------------------------------------------

PYPROJECT = b"""
[project]
name = "calc"
version = "1"
[project.entry-points.pytest11]
calc = "calc.plugin"
[tool.pytest.ini_options]
addopts = "-q"
markers = ["slow: takes long"]
[tool.coverage.run]
branch = true
[tool.ruff]
line-length = 100
"""
TOX = b"""
[tox]
envlist = py
[pytest]
addopts = -q
markers =
    slow: takes long
[coverage:run]
branch = true
[options.entry_points]
pytest11 =
    calc = calc.plugin
console_scripts =
    calc = calc:main
"""


@pytest.mark.parametrize(
    ("name", "data", "old", "new"),
    [
        ("pyproject.toml", PYPROJECT, b'version = "1"', b'version = "2"\ndependencies = ["x"]'),
        ("pyproject.toml", PYPROJECT, b"line-length = 100", b"line-length = 120"),
        ("pyproject.toml", PYPROJECT, b'addopts = "-q"', b"# quiet\naddopts = '-q'"),
        ("pyproject.toml", PYPROJECT, b'"slow: takes long"', b'"slow: takes long", "web: needs a browser"'),
        ("pyproject.toml", PYPROJECT, b"\n", b"\r\n"),
        ("tox.ini", TOX, b"envlist = py", b"envlist = py, lint"),
        ("tox.ini", TOX, b"addopts = -q", b"; quiet\naddopts=-q"),
        ("setup.cfg", TOX, b"slow: takes long", b"slow: takes long\n    web: needs a browser"),
        ("setup.cfg", TOX, b"calc = calc:main", b"calc = calc:other"),
    ],
)
def test_what_is_no_tests_business_is_the_same(name: str, data: bytes, old: bytes, new: bytes) -> None:
    assert data.replace(old, new) != data
    assert same_test_configuration(name, data, data.replace(old, new))
    assert not protection().keeps(name, data, data.replace(old, new))


@pytest.mark.parametrize(
    ("name", "data", "old", "new"),
    [
        ("pyproject.toml", PYPROJECT, b'"-q"', b'"-q --collect-only"'),
        ("pyproject.toml", PYPROJECT, b'markers = ["slow: takes long"]', b""),
        ("pyproject.toml", PYPROJECT, b"branch = true", b"branch = 1"),
        ("pyproject.toml", PYPROJECT, b"calc.plugin", b"calc.other"),
        ("pyproject.toml", PYPROJECT, b"[tool.ruff]", b"[tool.pytest]\nstrict = false\n[tool.ruff]"),
        ("pyproject.toml", b"[project]\n", b"[project]\n", b"[tool.pytest.ini_options]\n"),
        ("pyproject.toml", PYPROJECT, b"[tool.ruff]", b"[tool.ruff"),
        ("tox.ini", TOX, b"-q", b"-q -k nothing"),
        ("tox.ini", TOX, b"[pytest]", b"[other]"),
        ("tox.ini", b"[tox]\n", b"[tox]\n", b"[pytest]\n"),
        ("setup.cfg", TOX, b"branch = true", b"branch = false"),
        ("setup.cfg", TOX, b"calc = calc.plugin", b"calc = calc.other"),
        ("setup.cfg", b"[a]\n", b"[a]\n", b"[tool:pytest]\naddopts = -q\n"),
    ],
)
def test_what_tests_are_run_with_is_not(name: str, data: bytes, old: bytes, new: bytes) -> None:
    after = data.replace(old, new)
    assert not same_test_configuration(name, data, after)
    assert protection().keeps(f"sub/{name}", data, after)
    assert not protection(may_change=(name,)).keeps(f"sub/{name}", data, after)


def test_a_missing_file_says_nothing_about_tests() -> None:
    assert same_test_configuration("pyproject.toml", None, b"[project]\nname = 'a'\n")
    assert same_test_configuration("tox.ini", b"[tox]\n", None)
    assert not same_test_configuration("pyproject.toml", PYPROJECT, None)
    assert not same_test_configuration("pyproject.toml", None, PYPROJECT)


def test_other_files_are_kept_out_when_they_are_protected_and_differ() -> None:
    protected = protection()
    assert protected.keeps("tests/helpers.py", b"", b"x = 1")
    assert not protected.keeps("tests/helpers.py", b"", b"")
    assert not protected.keeps("calc.py", b"", b"x = 1")


@given(
    st.sampled_from(["pyproject.toml", "setup.cfg", "tox.ini"]),
    st.none() | st.binary(max_size=80) | st.sampled_from([PYPROJECT, TOX]),
    st.none() | st.binary(max_size=80) | st.sampled_from([PYPROJECT, TOX]),
)
def test_any_bytes_can_be_compared(name: str, one: bytes | None, other: bytes | None) -> None:
    assert same_test_configuration(name, one, one)
    assert same_test_configuration(name, one, other) in {True, False}


# Several projects in one repository, and files that are not there yet -------------------------------------------------


@pytest.mark.parametrize("name", ["pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", ".coveragerc"])
@pytest.mark.parametrize("folder", ["", "services/a/", "services/a/tests/", "src/pkg/"])
def test_configuration_counts_in_any_folder_also_when_it_is_new(name: str, folder: str) -> None:
    assert protection().why(folder + name) == "it configures the tests"
    assert not protection().is_new_test(folder + name)


@pytest.mark.parametrize(("name", "data"), [("pyproject.toml", PYPROJECT), ("setup.cfg", TOX), ("tox.ini", TOX)])
def test_shared_configuration_counts_in_any_folder(name: str, data: bytes) -> None:
    protected = protection(("services/a/tests/test_a.py", f"services/a/{name}"))
    assert protected.keeps(f"services/b/{name}", None, data)
    assert protected.keeps(f"services/a/{name}", data, None)
    assert not protected.keeps(f"services/b/{name}", None, b"[other]\n")


def test_testpaths_are_seen_from_each_project() -> None:
    files = ("a/pyproject.toml", "a/checks/test_a.py", "a/checks/shared.py", "a/core.py", "b/checks/shared.py")
    protected = protection(files, config=PytestFacts(testpaths=("checks",)))
    assert protected.is_protected("a/checks/shared.py")
    assert not protected.is_protected("b/checks/shared.py")
    assert not protected.is_protected("a/core.py")


@pytest.mark.parametrize("path", ["tests/__init__.py", "tests/unit/__init__.py", "checks/__init__.py"])
def test_a_package_made_of_tests_is_protected(path: str) -> None:
    protected = protection((*FILES, "checks/test_a.py", "checks/conftest.py"))
    assert protected.is_protected(path)
    assert not protected.is_new_test(path)


def test_a_package_made_of_the_product_is_not() -> None:
    protected = protection((*FILES, "app/core.py", "app/test_core.py"))
    assert not protected.is_protected("app/__init__.py")
    assert not protected.is_protected("src/pkg/new/__init__.py")


@pytest.mark.parametrize(
    "path",
    [
        "tests/test_new.py",
        "src/pkg/test_new.py",
        "tests/unit/data/b.json",
        "tests/more/shared.py",
        "tests/test_plugin.py",
    ],
)
def test_what_an_agent_may_add_to_be_run_apart(path: str) -> None:
    assert protection().is_protected(path)
    assert protection().is_new_test(path)


@pytest.mark.parametrize(
    "path",
    [
        "tests/conftest.py",
        "tests/__init__.py",
        "tests/pytest.ini",
        "tests/pytest_paint.py",
        "tests/plugin.py",
        "tests/paint_plugin.py",
        "tests/sitecustomize.py",
        "tests/evil.pth",
        "tests/unit/kept/test_a.py",
        "src/pkg/core.py",
        "docs/api.md",
    ],
)
def test_what_an_agent_may_not_add(path: str) -> None:
    protected = protection(protect=("tests/unit/kept",), sources={"tests/unit/test_core.py": READER})
    assert not protected.is_new_test(path)


def test_what_a_task_lets_agents_change_is_no_test_of_theirs() -> None:
    assert not protection(may_change=("tests",)).is_new_test("tests/test_new.py")


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, PytestFacts()),
        ({"python_files": None, "testpaths": 3, "doctest_globs": {}}, PytestFacts()),
        ({"python_files": [], "doctest_globs": [""]}, PytestFacts()),
        ({"python_files": ["check_*.py", 3, None]}, PytestFacts(python_files=("check_*.py",))),
        ({"python_files": "a_*.py b_*.py"}, PytestFacts(python_files=("a_*.py", "b_*.py"))),
        (
            {"python_files": ["t_*.py"], "testpaths": ["checks"], "doctest_globs": ["*.rst"]},
            PytestFacts(("t_*.py",), ("checks",), ("*.rst",)),
        ),
    ],
)
def test_what_a_run_said_about_pytest_is_read_carefully(facts: dict[str, object], expected: PytestFacts) -> None:
    assert PytestFacts.of(facts) == expected


# Tests that are a command of another language -------------------------------------------------------------------------

SHOP = (
    "package.json",
    "src/calc.js",
    "src/rates.json",
    "src/calc.test.js",
    "test/shared.js",
    "suite.js",
    "check.sh",
    "Makefile",
    "justfile",
    "noxfile.py",
    "tox.ini",
    "vite.config.ts",
)


def for_command(
    *command: str,
    files: tuple[str, ...] = SHOP,
    junit: str = "reports/*.xml",
    protect: tuple[str, ...] = (),
    may_change: tuple[str, ...] = (),
    sources: dict[str, bytes] | None = None,
) -> Protection:
    return Protection.for_command(
        files,
        command=command or ("npm", "test"),
        junit=junit,
        protect=protect,
        may_change=may_change,
        sources=sources or {},
    )


@pytest.mark.parametrize(
    "path",
    [
        "src/calc.test.js",
        "src/calc.spec.tsx",
        "pkg/calc_test.go",
        "lib/calc_spec.rb",
        "src/main/java/CalcTest.java",
        "Shop.Core/CalcTests.cs",
        "src/CalcSpec.scala",
        "run-tests.sh",
        "src/TestCalc.java",
        "calc_test.dart",
        "test_calc.c",
        "test-calc.mjs",
        "src/tests.rs",
        "calc.bats",
        "features/buy.feature",
        "test/shared.js",
        "packages/a/__tests__/shared.ts",
        "spec/support/money.rb",
        "specs/a.lua",
        "e2e/login.ts",
        "pkg/testdata/in.txt",
        "tests/fixtures/a.json",
        "src/__snapshots__/calc.snap",
    ],
)
def test_tests_of_other_languages_are_protected(path: str) -> None:
    assert for_command().is_protected(path)
    assert for_command().why(path)
    assert for_command().is_new_test(path)


@pytest.mark.parametrize(
    "path",
    [
        "jest.config.js",
        "packages/a/vitest.config.mts",
        ".mocharc.cjs",
        "ava.config.js",
        "karma.conf.js",
        "playwright.config.ts",
        "cypress.config.ts",
        ".taprc",
        ".nycrc.json",
        "phpunit.xml",
        "phpunit.xml.dist",
        ".rspec",
        "conftest.py",
        "pytest.ini",
        "reports/all.xml",
    ],
)
def test_what_configures_the_runners_is_protected_and_no_test(path: str) -> None:
    assert for_command().is_protected(path)
    assert not for_command().is_new_test(path)


@pytest.mark.parametrize(
    "path",
    [
        "src/calc.js",
        "src/latest.js",
        "src/contest.ts",
        "src/Testimonial.java",
        "src/fixtures/demo.json",
        "src/inspector/spec.ts",
        "src/protest/a.go",
        "src/attest.rs",
        "package.json",
        ".gitattributes",
        ".npmrc",
        ".node-version",
        "Makefile",
        "justfile",
        "noxfile.py",
        "tox.ini",
        "vite.config.ts",
        "suite.js",
        "check.sh",
        "src/reports/all.xml",
    ],
)
def test_the_product_in_other_languages_is_not(path: str) -> None:
    assert not for_command().is_protected(path)
    assert for_command().why(path) == ""
    assert not for_command().is_new_test(path)


@pytest.mark.parametrize(
    ("command", "path"),
    [
        (("make", "test"), "Makefile"),
        (("/usr/bin/make", "test"), "build/rules.mk"),
        (("env", "CI=1", "make", "test"), "Makefile"),
        (("sh", "-c", "make test"), "Makefile"),
        (("just", "test"), "justfile"),
        (("task", "test"), "Taskfile.dist.yml"),
        (("nox",), "noxfile.py"),
        (("uv", "run", "tox"), "tox.ini"),
        (("python3.12", "-m", "tox"), "tox.ini"),
        (("npx", "vitest", "run"), "vite.config.ts"),
        (("./check.sh",), "check.sh"),
        (("bash", "check.sh", "--fast"), "check.sh"),
        (("bash", "-c", "cd . && ./check.sh; exit 0"), "check.sh"),
        (("node", "suite.js"), "suite.js"),
        (("node", "--require=./suite.js", "x"), "suite.js"),
    ],
)
def test_what_the_command_runs_is_protected(command: tuple[str, ...], path: str) -> None:
    assert for_command(*command).is_protected(path)
    assert not for_command(*command).is_new_test(path)
    assert not for_command("npm", "test").is_protected(path)


def test_vite_configures_the_tests_where_package_json_says_so() -> None:
    sources = {"package.json": b'{"scripts": {"test": "vitest run"}}'}
    assert for_command(sources=sources).is_protected("vite.config.ts")


def test_data_that_foreign_tests_name_is_protected() -> None:
    sources = {"src/calc.test.js": b"const rates = require('./rates.json'); import calc from './calc.js'"}
    protected = for_command(sources=sources)
    assert protected.why("src/rates.json") == "src/calc.test.js reads it"
    assert not protected.is_protected("src/calc.js")
    assert not protected.is_new_test("src/rates.json")
    assert not for_command(sources={"src/calc.js": b"require('./rates.json')"}).is_protected("src/rates.json")


def test_a_task_protects_and_releases_files_of_a_command_too() -> None:
    protected = for_command(protect=("docs",), may_change=("test/shared.js", "package.json"))
    assert protected.why("docs/a.md") == "the task protects docs"
    assert not protected.is_protected("test/shared.js")
    assert not protected.keeps("package.json", b"{}", b'{"type": "module"}')


PACKAGE = b'{"name": "shop", "version": "1", "scripts": {"test": "jest"}, "jest": {"bail": 1}, "dependencies": {}}'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"version": "1"', b'"version": "2"'),
        (b'"dependencies": {}', b'"dependencies": {"left-pad": "1"}, "description": "a shop"'),
        (b'{"bail": 1}', b'{\n  "bail": 1\n}'),
        (b'"name": "shop", ', b""),
    ],
)
def test_a_package_may_change_what_is_no_tests_business(old: bytes, new: bytes) -> None:
    assert PACKAGE.replace(old, new) != PACKAGE
    assert not for_command().keeps("packages/a/package.json", PACKAGE, PACKAGE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"jest"}', b'"true"}'),
        (b'"bail": 1', b'"bail": true'),
        (b'"dependencies"', b'"type": "module", "dependencies"'),
        (b'"dependencies"', b'"imports": {"#calc": "./fake.js"}, "dependencies"'),
        (b'"name"', b"name"),
        (PACKAGE, b"[]"),
    ],
)
def test_a_package_may_not_change_how_tests_run(old: bytes, new: bytes) -> None:
    assert for_command().keeps("package.json", PACKAGE, PACKAGE.replace(old, new))
    assert not protection().keeps("package.json", PACKAGE, PACKAGE.replace(old, new))


def test_a_package_that_comes_or_goes() -> None:
    assert for_command().keeps("package.json", PACKAGE, None)
    assert for_command().keeps("src/package.json", None, b'{"type": "commonjs"}')
    assert not for_command().keeps("src/package.json", None, b'{"name": "a"}')


@given(
    st.lists(names, max_size=6),
    st.lists(st.text(max_size=12) | names, max_size=4),
    st.text(max_size=12),
    st.dictionaries(names, st.binary(max_size=60), max_size=3),
    names | st.text(max_size=12),
    st.none() | st.binary(max_size=60),
)
def test_any_command_gives_an_answer(
    files: list[str], command: list[str], junit: str, sources: dict[str, bytes], path: str, data: bytes | None
) -> None:
    protected = Protection.for_command(
        files, command=tuple(command), junit=junit, protect=(), may_change=(), sources=sources
    )
    assert protected.is_protected(path) is bool(protected.why(path))
    assert protected.is_protected(path) or not protected.is_new_test(path)
    assert not protected.keeps(path, data, data)
    assert protected.keeps("package.json", data, PACKAGE) is (data != PACKAGE)
