"""Negative controls: the product broken, or every test failing, so that whoever is still green is known.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import builtins
import functools
import inspect
import os
import types
import unittest
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.unittest import TestCaseFunction

from .equality import Equality
from .held import ERRORS, HeldAssertionError, getframe
from .places import Places

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from .exam import Exam

__all__ = ["Control", "Fail"]

_MOST_REACHED = 1_000
_RUNS = (pytest.Function.runtest, TestCaseFunction.runtest)


class Control:
    """Breaks what the driver prepared, while tests run: those that stay green have not noticed the product."""

    def __init__(self, exam: Exam) -> None:
        name = str(exam.control.get("name") or "")
        self.places = Places(exam)
        self.variant = str(exam.control.get("variant") or "")
        self.armed = False
        self.test = ""
        self.reached: dict[str, int] = {}
        self.equality = Equality(exam, name)
        # Nobody can tell by its type that it was made here.
        self.error: type[BaseException] = ERRORS[os.urandom(1)[0] % len(ERRORS)]
        if self.error is Exception:
            self.error = type("E" + os.urandom(6).hex(), (Exception,), {})
        if name:
            setattr(builtins, name, self.switch())
        self.look_at_unittest()

    def switch(self) -> object:
        """What the product calls: an object without a name that would tell what it is."""
        control = self

        class Switch:
            __slots__ = ()

            def __call__(self) -> bool:
                return control.called() if control.armed else False

            @property
            def given(self) -> Any:
                """What a broken function gives back: something that nobody asked for, or nothing at all."""
                return None if control.variant == "nothing" else self

            def same(self, left: Any, right: Any) -> Any:
                result = left == right
                if result is not False:
                    control.look(result, left, right, getframe(1))
                return result

            def __repr__(self) -> str:
                return "<object>"

        return Switch()

    def look(self, result: Any, left: object, right: object, frame: Any) -> None:
        try:
            if result:
                self.equality.look(left, right, frame)
        except BaseException:  # noqa: BLE001, S110 - what can't be compared is left alone
            pass

    def look_at_unittest(self) -> None:
        """Every assertEqual asks there for how to compare; no frame of ours is in the traceback when it fails."""
        case: Any = unittest.TestCase
        choose, look = case._getAssertEqualityFunc, self.look

        @functools.wraps(choose)
        def chosen(test: Any, first: object, second: object) -> Any:
            look(True, first, second, getframe(2))
            return choose(test, first, second)

        case._getAssertEqualityFunc = chosen

    def called(self) -> bool:
        if self.variant not in {"raise", "return", "nothing"}:
            return False
        test = self.test
        if test in self.reached or len(self.reached) < _MOST_REACHED:
            self.reached[test] = self.reached.get(test, 0) + 1
        if self.variant == "raise":
            raise self.error(os.urandom(4).hex())
        return True

    def begin(self, test: str) -> None:
        self.test = self.equality.test = test

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtestloop(self) -> Generator[None, Any, None]:
        self.armed = True
        yield
        self.armed = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.begin(nodeid)


class Fail(Control):
    """Lets every test fail after it has passed: whoever is green then has been lied to."""

    # The innermost wrapper, so that whatever swallows a failure swallows this one too.
    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_call(self, item: Any) -> Generator[None, Any, None]:
        entered: list[object] = []
        put_back = self.lay_inside(item, entered) if self.armed and isinstance(item, pytest.Function) else None
        outcome = yield
        if put_back is not None:
            put_back()
            # A kind of test that some library runs in a way of its own may never ask for the function.
            if entered or not self.has_foreign_way(item):
                return
        if self.armed and outcome.excinfo is None:
            error = _failure()
            if hasattr(outcome, "force_exception"):
                outcome.force_exception(error)
            else:  # until pluggy 1.1
                outcome._excinfo = (type(error), error, None)

    def lay_inside(self, item: Any, entered: list[object]) -> Callable[[], None] | None:
        """Put a function that fails after the test's own in its place; returns how to undo it."""
        function = item.obj
        if not callable(function) or inspect.isasyncgenfunction(function):
            return None
        failing = _failing(function, entered)
        # An asynchronous test of unittest is looked up by its name.
        case = None
        if isinstance(item, TestCaseFunction) and inspect.iscoroutinefunction(function):
            case = item._testcase if hasattr(item, "_testcase") else item.instance
            setattr(case, item.name, failing)
        item.obj = failing

        def put_back() -> None:
            item.obj = function
            if case is not None:
                vars(case).pop(item.name, None)

        return put_back

    def has_foreign_way(self, item: Any) -> bool:
        way = type(item).runtest
        code = getattr(way, "__code__", None)
        return way not in _RUNS and code is not None and self.places.place(code.co_filename) is None


def _failure() -> AssertionError:
    left, right = os.urandom(2)
    return HeldAssertionError(f"assert {left} == {left + right + 1}")


def _failing(function: Any, entered: list[object]) -> Any:
    """A function that does what a test does, and then fails; by all that can be asked of it, it is the test."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapped(*args: Any, **kwargs: Any) -> None:
            entered.append(None)
            await function(*args, **kwargs)
            raise _failure()

        made: Any = wrapped
    else:

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> None:
            entered.append(None)
            function(*args, **kwargs)
            raise _failure()

        made = called
    code = getattr(function, "__code__", None)
    if isinstance(code, types.CodeType):
        made.__code__ = made.__code__.replace(
            co_filename=code.co_filename, co_name=code.co_name, co_firstlineno=code.co_firstlineno
        )
    return made
