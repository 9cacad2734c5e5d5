"""What a reported test is called, and what makes two reported cases the same test."""

from __future__ import annotations

import re
from collections.abc import Iterable
from operator import itemgetter
from pathlib import PurePosixPath
from xml.etree.ElementTree import Element

from pytest_iterctl.feedback.stack_text import below
from pytest_iterctl.feedback.xml_cases import BareCases, ReportedCase
from pytest_iterctl.text import one_line

__all__ = ["BETWEEN", "LONGEST_ID", "PlainIds", "file_of", "id_of", "identities_of", "identity_of"]

#: Between suite, class and name in the id of a foreign test.
BETWEEN = " \u203a "
LONGEST_ID = 500

#: With one of these attributes a case may not have passed, or is named in another way.
_NOT_PLAIN = frozenset({"status", "result", "failure", "class", "filepath"})
_CLASS_AND_NAME = itemgetter("classname", "name")
_CLASS_NAME_FILE = itemgetter("classname", "name", "file")
_SECOND = itemgetter(1)
_LAST = itemgetter(-1)
#: What node's runner calls every class.
_NO_CLASS = frozenset({"test", "suite"})
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_MANY_CLASSES, _SHORT_NAME = 10_000, 250
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[!-~]*\])?")
_FUNCTION = re.compile(r"[A-Za-z_]\w*(?:\[.*\])?", re.DOTALL)


def identity_of(attributes: dict[str, str]) -> int:
    """Class, name and file, which make two cases of a suite the same test, as one number.

    A report may hold a million cases, and their names would take many times the memory. That two of a million get the
    same number has a chance of 1 in 30 million, and then a test too few is counted, but no failure is lost.
    """
    read = attributes.get
    names = (read("classname") or read("class") or "", read("name") or "")
    file = read("file") or read("filepath")
    return hash((*names, file) if file else names)


def identities_of(bare: BareCases) -> Iterable[int] | None:
    """The same for many cases in one go; None when they have to be looked at one by one."""
    keys: set[str] = set().union(*bare.attributes)
    if not keys.isdisjoint(_NOT_PLAIN):
        return None
    has_file = "file" in keys
    try:
        names = list(map(_CLASS_NAME_FILE if has_file else _CLASS_AND_NAME, bare.attributes))
    except KeyError:
        return None
    # The class may be empty, the others may not.
    is_plain = all(map(_SECOND, names)) and (not has_file or all(map(_LAST, names)))
    return map(hash, names) if is_plain else None


def _names_of(case: ReportedCase) -> tuple[str, str, str]:
    read = case.element.get
    return read("classname") or read("class") or "", read("name") or "", file_of(case)


def file_of(case: ReportedCase) -> str:
    return case.element.get("file") or case.element.get("filepath") or ""


def id_of(case: ReportedCase, root: str = "") -> str:
    """What people call the test: pytest's node id as far as it is known, else suite, class and name."""
    classname, name, file = (part.strip() for part in _names_of(case))
    file, name = below(root, file), below(root, name)
    if not classname and case.suites[-1:] == ("pytest",) and _uncollected(case):
        # pytest makes dots of the slashes, here too.
        path = f"{name.replace('.', '/')}.py"
        is_file = any(path in (child.text or "") for child in case.element)
        return one_line(file or (path if is_file else name), LONGEST_ID)
    if classname and case.suites[-1:] == ("pytest",) and name.startswith(f"{classname}.") and _DOTTED.fullmatch(name):
        return one_line(_node_id(classname, name, file), LONGEST_ID)  # a doctest
    if classname and _DOTTED.fullmatch(classname) and _FUNCTION.fullmatch(name) and _is_pytest(case, classname):
        return one_line(_node_id(classname, name, file), LONGEST_ID)
    if classname in _NO_CLASS:
        # Nothing but all of its suites tells it from another test of the same name.
        parts = [part for part in (file, *case.suites, name) if part]
    else:
        parts = _without_repetition([file or " ".join(case.suites[-1:]), classname, name])
    return one_line(BETWEEN.join(parts), LONGEST_ID) or "(a case without a name)"


class PlainIds:
    """Ids from nothing but attributes, for very many cases: those of one class differ in their names only."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.prefixes: dict[tuple[str, str | None, tuple[str, ...]], str] = {}

    def of(self, attributes: dict[str, str], suites: tuple[str, ...]) -> str:
        classname, name = attributes.get("classname", ""), attributes.get("name", "")
        key = classname, attributes.get("file"), suites
        prefix = self.prefixes.get(key)
        if prefix is None:
            if len(self.prefixes) >= _MANY_CLASSES:
                self.prefixes.clear()
            prefix = self.prefixes[key] = self._prefix(attributes, suites)
        if prefix and len(name) < _SHORT_NAME and _PLAIN_NAME.fullmatch(name):
            return prefix + name
        return self._whole(attributes, suites)

    def _prefix(self, attributes: dict[str, str], suites: tuple[str, ...]) -> str:
        """'' where more than the name of the test makes the difference."""
        whole = self._whole({**attributes, "name": "x"}, suites)
        return whole[:-1] if whole.endswith("::x") and len(whole) < LONGEST_ID - _SHORT_NAME else ""

    def _whole(self, attributes: dict[str, str], suites: tuple[str, ...]) -> str:
        return id_of(ReportedCase(Element("testcase", attributes), suites, "", finished=True), self.root)


def _uncollected(case: ReportedCase) -> bool:
    return any(child.tag == "error" and child.get("message") == "collection failure" for child in case.element)


def _is_pytest(case: ReportedCase, classname: str) -> bool:
    return case.suites[-1:] == ("pytest",) or any(
        part.startswith("test_") or part.endswith("_test") for part in classname.split(".")
    )


def _node_id(classname: str, name: str, file: str) -> str:
    """With the file (xunit1) the node id is known, without it (xunit2) a dotted name has to do."""
    module = ".".join(PurePosixPath(file).with_suffix("").parts) if file else ""
    if module and (classname == module or classname.startswith(f"{module}.")):
        classes = classname.removeprefix(module).strip(".").split(".")
        return "::".join(part for part in (file, *classes, name) if part)
    return f"{classname}::{name}"


def _without_repetition(parts: Iterable[str]) -> list[str]:
    """Tools repeat the suite in the class and the class in the name; once is enough."""
    kept: list[str] = []
    for part in reversed([part for part in parts if part]):
        if not any(_begins_or_ends(later, part) for later in kept):
            kept.insert(0, part)
    return kept


def _begins_or_ends(text: str, part: str) -> bool:
    """Whether the part is there at one end of the text, as a word of its own."""
    rest = text.removeprefix(part)
    if rest != text:
        return not rest[:1].isalnum()
    rest = text.removesuffix(part)
    return rest != text and not rest[-1:].isalnum()
