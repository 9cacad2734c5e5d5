"""Evidence to items: one thing to mend each, with what to do, where, and what was expected and received."""

from __future__ import annotations

import posixpath
import re
import shlex
from dataclasses import dataclass, replace
from typing import Literal

from pytest_iterctl.control.evidence import Failure, Frame, Outcome, Priority, ReviewEvidence, SuiteEvidence
from pytest_iterctl.control.signature import anchor, base_name, is_test_file, telling_line
from pytest_iterctl.feedback.causes import Cause, group, named, sorted_names
from pytest_iterctl.text import one_line, strip_escapes

__all__ = ["NAMED_TESTS", "Item", "items_of", "review_items", "suite_items"]

#: How many tests of one cause a text names; the others are counted.
NAMED_TESTS = 3

_TITLE, _NAME = 240, 120
_OUTPUT = 600
_SOURCES = 4
_PATH_FRAMES = 6
_COMMAND = 300
_FILE = re.compile(r"[^/]\.\w+$")
_GROUP = re.compile(r"(?<=[\w\]])@[\w-]+$")
_ORDER: dict[Priority, int] = {"critical": 0, "high": 1, "medium": 2, "low": 3}
_SYNTAX = {"SyntaxError", "IndentationError", "TabError"}
_ASSERTIONS = {"", "AssertionError", "Failed", "DocTestFailure"}
_HINTS = {
    **dict.fromkeys(_SYNTAX, "correct the syntax"),
    "ModuleNotFoundError": "add the module or correct the import",
    "ImportError": "define the name or correct the import",
    "FixtureLookupError": "define the fixture or correct its name",
    "RecursionError": "end the recursion",
}


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to act on; `where` is a file:line in the project, '' when nobody knows."""

    priority: Priority
    title: str
    where: str = ""
    tests: tuple[str, ...] = ()  # all of them; texts name a few
    noun: Literal["test", "file"] = "test"  # what they are: what can't be collected is a file
    detail: str = ""
    path: str = ""  # the way to the failure, the deepest place first
    cause: str = ""  # the exception that it was raised from
    reproduce: str = ""  # a command
    rest: str = ""  # what only the whole form shows: the traceback, and what the other tests say


def items_of(
    suite: SuiteEvidence | None,
    reviews: tuple[ReviewEvidence, ...],
    *,
    reproduce: str = "",
    regressed: frozenset[str] = frozenset(),
) -> tuple[Item, ...]:
    """Items in the order to work on them: what hides the rest first, tests before reviews."""
    found = suite_items(suite, reproduce=reproduce, regressed=regressed) if suite is not None else ()
    return tuple(sorted((*found, *review_items(reviews)), key=lambda item: _ORDER[item.priority]))


def suite_items(
    suite: SuiteEvidence, *, reproduce: str = "", regressed: frozenset[str] = frozenset()
) -> tuple[Item, ...]:
    """One item per cause. `reproduce` is the command that a test's id is added to, '' for that of the suite."""
    if suite.passed:
        return ()
    causes = group(suite.failures, regressed=regressed)
    items = [_item(cause, _command(reproduce or suite.rerun, suite.root, cause.example.test)) for cause in causes]
    if not items or suite.outcome not in {Outcome.FAILED, Outcome.COLLECTION_ERROR}:
        _tell_the_end(suite, causes, items)
    unseen = sorted_names(set(suite.failing).difference(*(cause.tests for cause in causes)))
    if unseen:
        title = f"and {len(unseen)} more failing test{'s' if len(unseen) > 1 else ''}"
        items.append(Item(priority="low", title=title, tests=unseen))
    return tuple(items)


def _tell_the_end(suite: SuiteEvidence, causes: tuple[Cause, ...], items: list[Item]) -> None:
    """How a run ended that came to no verdict, once, behind what could not be collected."""
    reason = one_line(suite.reason, _TITLE)
    title = one_line(f"The test run did not end well ({suite.outcome}): {reason}", _TITLE + 80)
    for number, cause in enumerate(causes):
        if cause.example.phase == "session" and one_line(cause.example.message, _TITLE) == reason:
            items[number] = replace(items[number], title=title)
            return
    ahead = sum(any(failure.phase == "collect" for failure in cause.failures) for cause in causes)
    items.insert(ahead, Item(priority="critical", title=title))


def review_items(reviews: tuple[ReviewEvidence, ...]) -> tuple[Item, ...]:
    items: list[Item] = []
    for review in reviews:
        if review.status != "reject":
            continue
        first = one_line(review.feedback, _TITLE) or "no reason given"
        title = f"Reviewer {one_line(review.reviewer, _NAME)} rejects: {first}"
        items.append(Item(priority="high", title=title, detail=review.feedback))
        found = filter(None, (one_line(finding, _TITLE) for finding in review.findings))
        items.extend(Item(priority="medium", title=title) for title in found)
    return tuple(items)


def _item(cause: Cause, reproduce: str) -> Item:
    example = cause.example
    return Item(
        priority="critical" if cause.hides_others else "high",
        title=_title(cause),
        where=_where(example),
        tests=cause.tests,
        noun=_noun(cause),
        detail=_detail(example),
        path=_path(example.frames),
        cause=one_line(example.cause, _TITLE),
        reproduce=reproduce,
        rest=_rest(cause),
    )


def _title(cause: Cause) -> str:
    """Which tests, what is wrong, and what to do about it where that is not the same thing."""
    example = cause.example
    what, hint = _what(example), _hint(example)
    told = f"{what}; {hint}" if hint else what
    if not cause.tests:
        return one_line(told, _TITLE)
    who = named((one_line(cause.tests[0], _NAME), *cause.tests[1:]), 1, _noun(cause))
    if example.phase == "collect":
        return one_line(f"{who} can't be collected: {told}", _TITLE + _NAME)
    whose = "their" if len(cause.tests) > 1 else "its"
    phase = {"setup": f" (in {whose} set-up)", "teardown": f" (in {whose} tear-down)"}.get(example.phase, "")
    return one_line(f"{who}{phase}: {told}", _TITLE + _NAME)


def _noun(cause: Cause) -> Literal["test", "file"]:
    return "file" if all(failure.phase == "collect" for failure in cause.failures) else "test"


def _what(failure: Failure) -> str:
    if failure.expected is not None and failure.received is not None:
        return f"expected {one_line(failure.expected, 80)}, received {one_line(failure.received, 80)}"
    line = telling_line(failure)
    if failure.kind not in {*_ASSERTIONS, "FixtureLookupError"} and failure.kind not in line.partition(":")[0]:
        line = f"{failure.kind}: {line}" if line else failure.kind
    # Text that is all control characters is not empty until it is made harmless.
    return one_line(line, 160) or one_line(failure.kind, 160) or "failed"


def _hint(failure: Failure) -> str:
    if failure.kind in _HINTS:
        return _HINTS[failure.kind]
    frame = anchor(failure)
    if frame is None or not frame.function or failure.kind in _ASSERTIONS - {"Failed"}:
        return ""
    function = one_line(frame.function, 60)
    if failure.phase in {"setup", "teardown"}:
        return f"mend {function}"
    return "" if is_test_file(frame.path) else f"raised in {function}"


def _where(failure: Failure) -> str:
    """The assertion of an assertion; of an exception the deepest place in the product."""
    frame = anchor(failure)
    if frame is None:
        return failure.where
    place = f"{frame.path}:{frame.line}" if frame.line else frame.path
    if failure.where and (failure.kind in _ASSERTIONS or is_test_file(frame.path)):
        return failure.where
    return place


def _path(frames: tuple[Frame, ...]) -> str:
    """`calc.py:12 in double <- test_calc.py:5 in test_one`; nothing when there is only one place."""
    if len(frames) < 2:  # noqa: PLR2004 - one place is said by `where`
        return ""
    shown = list(reversed(frames))
    if len(shown) > _PATH_FRAMES:
        shown = [*shown[: _PATH_FRAMES - 1], Frame(path=f"… {len(shown) - _PATH_FRAMES} more"), shown[-1]]
    return one_line(" <- ".join(map(_place, shown)), 600)


def _place(frame: Frame) -> str:
    place = f"{frame.path}:{frame.line}" if frame.line else frame.path
    return f"{place} in {frame.function}" if frame.function else place


def _command(prefix: str, root: str, test: str) -> str:
    """A command that can be copied; an id that does not fit in one line is shortened to what holds it.

    `root` is where the ids' paths begin. What does not begin with a file can't be run by its name.
    """
    path, _, rest = test.partition("::")
    if not prefix or not _FILE.search(path):
        return ""
    path = posixpath.normpath(posixpath.join(root.replace("\\", "/"), path))
    path = f"./{path}" if path.startswith("-") else path  # else it would be an option
    # With `--dist loadgroup` xdist adds the group, which nobody but itself understands.
    whole = f"{path}::{_GROUP.sub('', rest)}" if rest else path
    for name in (whole, base_name(whole), path):
        if strip_escapes(name) == name == " ".join(name.split()) and len(name) <= _COMMAND:
            return f"{prefix} {shlex.quote(name)}"
    return ""


def _detail(failure: Failure) -> str:
    """What it takes to act: the comparison, the explanation, the statements on the way, the end of the output."""
    parts: list[str] = []
    message = failure.message.strip("\n")
    if failure.expected is not None and failure.received is not None:
        parts += [f"expected: {failure.expected}", f"received: {failure.received}"]
    elif failure.received is not None and not message:
        parts.append(f"received: {failure.received}")
    if message:
        parts.append(message)
    parts += [f"{_place(frame)}: {frame.source}" for frame in failure.frames[-_SOURCES:] if frame.source]
    if _needs_traceback(failure) and failure.detail.strip() not in {"", message.strip()}:
        parts.append(failure.detail)
    if failure.output:
        parts.append("output:\n" + _tail(failure.output, _OUTPUT))
    return "\n".join(parts)


def _needs_traceback(failure: Failure) -> bool:
    """Whether nothing else tells the statements on the way, or what a group of exceptions is made of."""
    return not any(frame.source for frame in failure.frames) or failure.kind.endswith("Group")


def _tail(text: str, limit: int) -> str:
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= limit:
        return text
    return f"[… {len(data) - limit} bytes before …]\n{data[-limit:].decode('utf-8', 'ignore')}"


def _rest(cause: Cause) -> str:
    """The traceback and the output as they came, and one line for each of the other tests."""
    example = cause.example
    parts = [example.detail] if example.detail and not _needs_traceback(example) else []
    if len(example.output) > _OUTPUT:
        parts.append("output:\n" + example.output)
    others = [f"{one_line(failure.test, 400)}: {_what(failure)}" for failure in cause.failures[1:]]
    if others:
        parts.append("the same cause:\n" + "\n".join(others))
    return "\n\n".join(parts)
