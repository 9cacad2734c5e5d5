"""From XML elements to test cases: one small element per case, whatever the nesting, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple
from xml.etree.ElementTree import Element

from pytest_iterctl.feedback.xml_source import ReportSource

__all__ = [
    "INTERIM",
    "KEPT",
    "BareCases",
    "CaseBuilder",
    "FailedCase",
    "FailedCases",
    "KeptText",
    "ReportEvent",
    "ReportedCase",
    "ReportedSuite",
    "local_name",
]

#: Results of attempts that were followed by another one (Maven Surefire).
INTERIM = frozenset({"rerunFailure", "rerunError", "flakyFailure", "flakyError"})
_WRONG = frozenset({"failure", "error"})
#: The children of a case that are kept; all others are looked through.
KEPT = INTERIM | _WRONG | {"skipped", "system-out", "system-err"}
_ATTRIBUTES = (
    *("name", "classname", "class", "file", "filepath", "line", "lineno", "status", "result", "failure"),
    *("message", "type", "tests", "failures", "errors", "skipped"),
)
_MANY_ATTRIBUTES = 32
_MANY_CHILDREN = 500


class ReportedCase(NamedTuple):
    """One `testcase` with only the children that carry results and output, and without nested cases."""

    element: Element
    suites: tuple[str, ...]
    suite_file: str
    finished: bool


class BareCases(NamedTuple):
    """Finished cases of one suite that hold no element at all, which is most of them: their attributes say it all."""

    attributes: list[dict[str, str]]
    suites: tuple[str, ...]
    suite_file: str

    def as_case(self, attributes: dict[str, str]) -> ReportedCase:
        return ReportedCase(Element("testcase", attributes), self.suites, self.suite_file, finished=True)


class FailedCase(NamedTuple):
    """A finished case that holds nothing but one failure or error."""

    attributes: dict[str, str]
    tag: str
    result: dict[str, str]
    text: str


class FailedCases(NamedTuple):
    """Cases of one suite that hold one failure or error each, which is most of those that failed."""

    cases: list[FailedCase]
    suites: tuple[str, ...]
    suite_file: str

    def as_case(self, failed: FailedCase) -> ReportedCase:
        element, result = Element("testcase", failed.attributes), Element(failed.tag, failed.result)
        result.text = failed.text
        element.append(result)
        return ReportedCase(element, self.suites, self.suite_file, finished=True)


class ReportedSuite(NamedTuple):
    """One `testsuite` or `testsuites` at its end: what it declares and holds, and what went wrong outside cases."""

    suites: tuple[str, ...]
    attributes: dict[str, str]
    direct_cases: int
    all_cases: int
    direct_wrong: int
    all_wrong: int
    errors: tuple[Element, ...]


ReportEvent = ReportedCase | BareCases | FailedCases | ReportedSuite


class KeptText:
    """Head and tail of a text that may be far larger than what is worth keeping."""

    __slots__ = ("_dropped", "_half", "_head", "_parts", "_size")

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._head = ""
        self._parts: list[str] = []
        self._size = 0
        self._dropped = 0

    def add(self, data: str) -> None:
        self._parts.append(data)
        self._size += len(data)
        if self._size > 4 * self._half:
            self._squeeze()

    def _squeeze(self) -> None:
        text = "".join(self._parts)
        if not self._head:
            self._head, text = text[: self._half], text[self._half :]
        tail = text[-self._half :]
        self._dropped += len(text) - len(tail)
        self._parts, self._size = [tail], len(tail)

    @property
    def text(self) -> str:
        if self._head or self._size > 2 * self._half:
            self._squeeze()
        tail = "".join(self._parts)
        notice = f"\n[... {self._dropped} characters left out ...]\n" if self._dropped else ""
        return f"{self._head}{notice}{tail}"


@dataclass(slots=True)
class _Case:
    element: Element
    seen: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Suite:
    suites: tuple[str, ...]
    file: str
    attributes: dict[str, str]
    direct: int = 0
    below: int = 0
    direct_wrong: int = 0
    wrong_below: int = 0
    errors: list[Element] = field(default_factory=list)


@dataclass(slots=True)
class _Open:
    """One open element. `owner` takes results that start inside it, `keeper` takes its text."""

    owner: _Case | _Suite | None
    keeper: KeptText | None
    opened: _Case | _Suite | Element | None


def local_name(tag: str) -> str:
    """A tag without its namespace prefix: every dialect means the same by the same word."""
    return tag.rpartition(":")[2]


#: Told who takes the text from here on; None: nobody does.
_Listen = Callable[[Callable[[str], None] | None], None]


class CaseBuilder:
    """Takes the start, text and end of elements and gives back cases and suites as soon as they are complete."""

    def __init__(self, source: ReportSource, line: Callable[[], int], listen: _Listen = lambda _listener: None) -> None:
        self.root = ""
        self.found = False
        self._source = source
        self._limits = source.limits
        self._line = line
        self._listen = listen
        self._open: list[_Open] = []
        self._suites: list[_Suite] = []
        self._ready: list[ReportEvent] = []
        self._depth_in_cases = 0
        self._elements = 0
        self._cases = 0

    @property
    def in_case(self) -> bool:
        return self._depth_in_cases > 0

    def take(self) -> list[ReportEvent]:
        ready, self._ready = self._ready, []
        return ready

    def bare(self, cases: list[dict[str, str]]) -> None:
        """Cases without any element inside, given whole by their attributes."""
        self.found = True
        self._elements += len(cases)
        self._cases += len(cases)
        self._guard()
        if self._suites:
            self._suites[-1].direct += len(cases)
        suites, file = self._around()
        self._ready.append(BareCases(cases, suites, file))

    def failed(self, cases: list[FailedCase]) -> None:
        """Cases with one failure or error inside, given whole."""
        self.found = True
        self._elements += 2 * len(cases)
        self._cases += len(cases)
        self._guard()
        if self._suites:
            self._suites[-1].direct += len(cases)
            self._suites[-1].direct_wrong += len(cases)
        suites, file = self._around()
        self._ready.append(FailedCases(cases, suites, file))

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._guard()
        self.root = self.root or tag
        name = local_name(tag)
        if name == "testcase":
            self._open_case(attributes)
        elif name in {"testsuite", "testsuites"}:
            self._open_suite(attributes, is_root=name == "testsuites")
        else:
            self._open_other(name, attributes)

    def text(self, data: str) -> None:
        if self._open and (keeper := self._open[-1].keeper) is not None:
            keeper.add(data)

    def end(self, _tag: str = "", *, finished: bool = True) -> None:
        closed = self._open.pop()
        if isinstance(closed.opened, _Case):
            self._depth_in_cases -= 1
            if self._suites and closed.opened.seen & _WRONG:
                self._suites[-1].direct_wrong += 1
            suites, file = self._around()
            self._ready.append(ReportedCase(closed.opened.element, suites, file, finished))
        elif isinstance(closed.opened, _Suite):
            self._end_suite(self._suites.pop())
        elif closed.opened is not None and closed.keeper is not None:
            closed.opened.text = closed.keeper.text
            around = self._open[-1].keeper if self._open else None
            self._listen(around.add if around is not None else None)

    def abandon(self) -> None:
        """The report ended too early: what is open is given back as unfinished."""
        while self._open:
            self.end(finished=False)

    def _around(self) -> tuple[tuple[str, ...], str]:
        suite = self._suites[-1] if self._suites else None
        return (suite.suites, suite.file) if suite else ((), "")

    def _guard(self) -> None:
        self._elements += 1
        if len(self._open) >= self._limits.depth:
            raise self._source.refusal(self._line(), f"elements nested more than {self._limits.depth} deep")
        if self._elements > self._limits.elements:
            raise self._source.refusal(self._line(), f"more than {self._limits.elements} elements")
        if self._cases > self._limits.cases:
            raise self._source.refusal(
                self._line(), f"more than {self._limits.cases} test cases", "split the report into several files"
            )

    def _open_case(self, attributes: dict[str, str]) -> None:
        self.found = True
        self._cases += 1
        self._depth_in_cases += 1
        if self._suites:
            self._suites[-1].direct += 1
        case = _Case(Element("testcase", self._bounded(attributes)))
        self._open.append(_Open(case, None, case))

    def _open_suite(self, attributes: dict[str, str], *, is_root: bool) -> None:
        self.found = True
        kept = self._bounded(attributes)
        path, file = self._around()
        # What a tool calls the whole of its tests ("pytest tests") is no part of any test's name.
        if (name := kept.get("name", "").strip()) and not is_root:
            path = (*path, name)
        suite = _Suite(path, kept.get("file") or kept.get("filepath") or file, kept)
        self._suites.append(suite)
        self._open.append(_Open(suite, None, suite))

    def _open_other(self, name: str, attributes: dict[str, str]) -> None:
        around = self._open[-1] if self._open else None
        owner = around.owner if around else None
        if name not in KEPT or owner is None or not self._wanted(name, owner):
            self._open.append(_Open(owner, around.keeper if around else None, None))
            return
        element = Element(name, self._bounded(attributes))
        if isinstance(owner, _Case):
            owner.seen |= {name}
            owner.element.append(element)
        else:
            owner.errors.append(element)
        keeper = KeptText(self._limits.text)
        self._open.append(_Open(None, keeper, element))
        self._listen(keeper.add)

    @staticmethod
    def _wanted(name: str, owner: _Case | _Suite) -> bool:
        if isinstance(owner, _Suite):
            return name in _WRONG and len(owner.errors) < _MANY_CHILDREN
        # Past the bound one of each kind is still kept, so that no failure can hide behind output.
        return len(owner.element) < _MANY_CHILDREN or name not in owner.seen

    def _end_suite(self, suite: _Suite) -> None:
        count, wrong = suite.direct + suite.below, suite.direct_wrong + suite.wrong_below + len(suite.errors)
        if self._suites:
            self._suites[-1].below += count
            self._suites[-1].wrong_below += wrong
        direct = suite.direct_wrong + len(suite.errors)
        errors = tuple(suite.errors)
        self._ready.append(ReportedSuite(suite.suites, suite.attributes, suite.direct, count, direct, wrong, errors))

    def _bounded(self, attributes: dict[str, str]) -> dict[str, str]:
        if len(attributes) > _MANY_ATTRIBUTES:
            attributes = {key: attributes[key] for key in _ATTRIBUTES if key in attributes}
        if sum(map(len, attributes.values())) <= self._limits.text:
            return attributes
        return {key: self._cut(value) for key, value in attributes.items()}

    def _cut(self, value: str) -> str:
        kept = KeptText(self._limits.text)
        kept.add(value)
        return kept.text
