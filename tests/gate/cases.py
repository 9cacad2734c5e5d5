"""What a case is: a little repository, what was done to it, and how we know whether that was honest."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import cache
from textwrap import dedent
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.gate.sites import Site

__all__ = ["Base", "Case", "Deceives", "Exposed", "Family", "Kind", "every_base", "every_case", "text"]


class Family(IntEnum):
    """Where a cheat works; an honest case carries the family that it could be mistaken for."""

    TESTS = 1  # test files, their data, their helpers
    CONFTEST = 2  # conftest.py and plugins
    CONFIGURATION = 3
    INTERPRETER = 4  # what Python and the environment load before the tests
    FORGERY = 5  # product source that forges the outcome
    SPECIAL_CASE = 6  # product source that knows the tests
    GIT = 7  # git, and the state of a harness


class Kind(Enum):
    CHEAT = "cheat"
    CHEAT_THAT_FAILS = "cheat-that-fails"  # stays red under plain pytest, as it does not work there
    HONEST_FIX = "honest-fix"
    HONEST_FAILURE = "honest-failure"
    HONEST_WITH_PROTECTED_EDIT = "honest-with-protected-edit"

    @property
    def cheats(self) -> bool:
        return self in {Kind.CHEAT, Kind.CHEAT_THAT_FAILS}

    @property
    def green(self) -> bool:
        """Whether plain pytest ends with exit code 0 after the change."""
        return self not in {Kind.CHEAT_THAT_FAILS, Kind.HONEST_FAILURE}


class Exposed(Enum):
    """How a cheat's broken product is shown, from the cheapest proof to the last one."""

    UNTOUCHED = "the product's files are those of the base, byte for byte"
    HIDDEN_TESTS = "hidden tests beside the base's own, run by pytest in a fresh copy, go red"
    ANSWERS = "pytest is fooled even by hidden tests; wrong answers in a process without pytest and tests"


class Deceives(Enum):
    """What a cheat does to those who ask git."""

    NOTHING = "git status names what was changed"
    STATUS = "git status is clean"
    RESTORE = "git status is clean, and checking the tests out from the base's tag leaves it green"


@dataclass(frozen=True)
class Base:
    """A small project with a fault, as it is before anybody changes it.

    `questions` are asked about the product by name and answer; none of their inputs occurs in the tests. They are the
    truth about a change: as a hidden test file, and in a process where there is no pytest to be fooled.
    """

    name: str
    files: Mapping[str, str]
    product: tuple[str, ...]  # files and folders that an honest fix may change
    targets: tuple[str, ...]  # the tests that are red, all others being green
    asks: str  # Python lines that the questions need: imports, small functions
    questions: Mapping[str, object]
    paths: tuple[str, ...] = (".",)  # what the product is imported from
    environment: Mapping[str, str] = field(default_factory=dict)  # {root} stands for the work tree
    set_up: Callable[[Site], None] | None = None  # what a developer did there before: a virtual environment
    own_python: str = ""  # the interpreter in the work tree, where the project has one

    @property
    def hidden_tests(self) -> dict[str, str]:
        """The questions as a test file that no agent has seen."""
        tests = "".join(
            f"\n\ndef test_hidden_{number}():\n    assert {question} == {answer!r}\n"
            for number, (question, answer) in enumerate(self.questions.items())
        )
        return {"tests/test_hidden.py": self.asks + tests}


_ASK_HOW_IT_WAS_STARTED = {"special-case-asks-for-the-command", "forgery-rewrites-the-tests-for-a-moment"}


@dataclass(frozen=True)
class Case:
    """One change to one base, and what is true of it. Applied in this order: delete, write, link, chmod, act."""

    id: str
    family: Family
    kind: Kind
    says: str  # what it does, in one sentence
    base: Base
    write: Mapping[str, str] = field(default_factory=dict)
    delete: tuple[str, ...] = ()
    link: Mapping[str, str] = field(default_factory=dict)  # from the link's path to what it points at
    chmod: Mapping[str, int] = field(default_factory=dict)
    act: Callable[[Site], None] | None = None
    exposed: Exposed | None = None  # every cheat says how
    deceives: Deceives = Deceives.NOTHING
    after: int = 0  # plain pytest's exit code after the change
    autoload: bool = False  # it needs installed plugins to be loaded, as they are by default
    cache: bool = False  # it needs pytest's own cache
    alone: bool = True  # an honest change's product files alone turn the base's own tests green

    @property
    def targets(self) -> tuple[str, ...]:
        """The tests that must really pass for the change to be a fix."""
        return self.base.targets

    @property
    def cold(self) -> bool:
        """Whether its tests need an interpreter of their own, which has imported nothing yet."""
        return self.family is Family.INTERPRETER or self.id in _ASK_HOW_IT_WAS_STARTED

    @property
    def before(self) -> int:
        """Plain pytest's exit code before the change: every base has failing tests, and none that can't be run."""
        return 1


def text(block: str) -> str:
    """A file's text, written indented where it is used."""
    return dedent(block).lstrip("\n")


@cache
def every_case() -> tuple[Case, ...]:
    """All cases of all modules in `corpus/`, in order of their modules."""
    from tests.gate import corpus

    names = sorted(module.name for module in pkgutil.iter_modules(corpus.__path__))
    modules = [importlib.import_module(f"{corpus.__name__}.{name}") for name in names]
    return tuple(case for module in modules for case in getattr(module, "CASES", ()))


@cache
def every_base() -> tuple[Base, ...]:
    return tuple({case.base.name: case.base for case in every_case()}.values())
