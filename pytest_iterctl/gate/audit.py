"""What in a change of the product's source looks like a way round the tests: read from syntax trees, not from text.

Every rule reads one file. What was there before is taken off: a construct in the same function or class, or the same
statement somewhere else, is no finding. So moving, reformatting and renaming cost nobody an alarm.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from pytest_iterctl.gate.assertions import spoils_assertions
from pytest_iterctl.gate.bending import bends_comparisons
from pytest_iterctl.gate.coverage_comments import excluded_from_coverage
from pytest_iterctl.gate.data_programs import runs_data
from pytest_iterctl.gate.doctests import places_with_examples, rewrites_doctests
from pytest_iterctl.gate.ending import process_ends, stops_at_import
from pytest_iterctl.gate.equality import agrees_with_everything
from pytest_iterctl.gate.findings import Finding, Sign
from pytest_iterctl.gate.framework import asks_whether_it_is_tested, imports_framework, steers_outcome
from pytest_iterctl.gate.hiding import hides_code, runs_hidden_text
from pytest_iterctl.gate.judges import names_its_judge, reaches_into_pytest
from pytest_iterctl.gate.leaving import exits_that_let_out, leaves_otherwise, suppresses_as_class
from pytest_iterctl.gate.looking import looks_at_callers, touches_test_files, watches_interpreter
from pytest_iterctl.gate.patching import patches
from pytest_iterctl.gate.paths import is_plugin, is_test_helper
from pytest_iterctl.gate.reach import Reach
from pytest_iterctl.gate.source import Source, Unreadable, parse, strange_encoding
from pytest_iterctl.gate.swallowing import swallows_assertions
from pytest_iterctl.text import one_line

__all__ = ["Finding", "audit"]

Rule = Callable[[Source], Iterator[Sign]]

_RULES: tuple[Rule, ...] = (
    process_ends,
    stops_at_import,
    imports_framework,
    steers_outcome,
    asks_whether_it_is_tested,
    patches,
    spoils_assertions,
    names_its_judge,
    reaches_into_pytest,
    agrees_with_everything,
    bends_comparisons,
    looks_at_callers,
    watches_interpreter,
    hides_code,
    swallows_assertions,
    suppresses_as_class,
)
_PROGRAMS = (".py", ".pyw")
_NOT_READ = "not-read"
_RUNS_TEXT = {"builtins.exec", "builtins.eval", "builtins.compile"}
_DEEPEST = 2  # programs inside texts inside programs


@dataclass(frozen=True, slots=True)
class _Found:
    """A finding with what it is known by when it moves."""

    finding: Finding
    what: str
    place: str
    statement: str  # normalised: no lines, no formatting
    unless: str = ""


def audit(
    before: Mapping[str, bytes],
    after: Mapping[str, bytes],
    *,
    is_protected: Callable[[str], bool],
    green: bool = False,
    added: Collection[str] = (),
    changed: Collection[str] = (),
) -> tuple[Finding, ...]:
    """The findings of a change, sorted by place.

    Both mappings cover the same files: all of them, or only those that differ. `added` names new files that are in
    neither, because nobody reads them, and `changed` files of the base of that kind. Protected files and files that
    aren't Python are not looked at. A file that can't be read as a program is said to be `not-read`; one with a syntax
    error is nobody's finding, because its tests will tell - unless the tests are `green` with it.
    """
    differing = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    unread = {path for path in {*after, *added, *changed} if not (path.endswith(_PROGRAMS) or is_protected(path))}
    data = unread - before.keys() - {*changed}
    brought = data | (unread & {*differing, *changed})
    mine = sorted(path for path in differing if path.endswith(_PROGRAMS) and not is_protected(path))
    base = {path: before[path] for path in mine if path in before}
    common = (
        *_RULES,
        runs_hidden_text(frozenset(data)),
        touches_test_files(is_protected),
        leaves_otherwise(exits_that_let_out(base.values())),
        rewrites_doctests(places_with_examples(base)),
    )
    # The base can't have read what only comes with the change: a load that it had is new with another file.
    rules, old_rules = ((*common, runs_data(files)) for files in (frozenset(brought), frozenset[str]()))

    @cache
    def was_about(subject: str) -> bool:
        return _SUBJECTS[subject](before, is_protected)

    def is_helper(path: str) -> bool:
        """A name says nothing about a file that its author has just given it."""
        return is_test_helper(path) and (path in before or was_about("tests"))

    new = [
        found
        for path in mine
        if path in after
        for found in _read(path, after[path], rules, helper=is_helper(path), green=green)
    ]
    uncounted = excluded_from_coverage(base, {path: after[path] for path in mine if path in after})
    if not new:
        return tuple(uncounted)
    gone = {path for path in mine if path not in after}
    old = [
        found
        for path in mine
        if path in before
        for found in _read(path, before[path], old_rules, helper=path not in gone and is_test_helper(path), green=green)
    ]
    reach = Reach(before, after)
    return tuple(sorted({*uncounted, *(_eased(found, was_about, reach) for found in _added(old, new, gone))}))


def _eased(found: _Found, was_about: Callable[[str], bool], reach: Reach) -> Finding:
    """A product that has been a tool for tests may go on being one, and what nobody reaches forges nothing."""
    finding = found.finding
    certain = finding.certain and not (found.unless and was_about(found.unless))
    if certain and finding.rule == "agrees-with-everything":
        certain = not reach.is_unused_class(finding.path, finding.line)
    elif certain and finding.rule == "imports-framework":
        certain = not reach.is_unloaded_plugin(finding.path)
    return replace(finding, certain=certain)


def _was_about_tests(before: Mapping[str, bytes], is_protected: Callable[[str], bool]) -> bool:
    """Whether the product itself imported pytest before the change. Helpers for its own tests don't make it a tool."""
    return any(
        found.finding.certain
        for path, data in _mentioning(b"pytest", before, is_protected)
        if is_plugin(path) or not is_test_helper(path)
        for found in _read(path, data, (imports_framework,))
    )


def _had_plugins(before: Mapping[str, bytes], is_protected: Callable[[str], bool]) -> bool:
    """Whether plugins are the product's own business: it has a manager for them, pluggy's or its own."""
    words = (b"pluggy", b"pluginmanager")
    return _was_about_tests(before, is_protected) or any(
        True for word in words for _ in _mentioning(word, before, is_protected)
    )


def _was_about_iterctl(before: Mapping[str, bytes], is_protected: Callable[[str], bool]) -> bool:
    named = _mentioning(b"iterctl", before, is_protected, b"ITERCTL")
    return any(_read(path, data, (names_its_judge,)) for path, data in named)


_SUBJECTS: Mapping[str, Callable[[Mapping[str, bytes], Callable[[str], bool]], bool]] = {
    "tests": _was_about_tests,
    "plugins": _had_plugins,
    "iterctl": _was_about_iterctl,
}


def _mentioning(
    word: bytes, files: Mapping[str, bytes], is_protected: Callable[[str], bool], *others: bytes
) -> Iterator[tuple[str, bytes]]:
    """The product's own programs that have one of the words in them."""
    for path, data in sorted(files.items()):
        if path.endswith(_PROGRAMS) and any(each in data for each in (word, *others)) and not is_protected(path):
            yield path, data


def _read(
    path: str, data: bytes, rules: tuple[Rule, ...], *, helper: bool = False, green: bool = False
) -> list[_Found]:
    strange = strange_encoding(data)
    found = [_unread(path, f"it is written in {strange!r}, which no editor shows")] if strange else []
    try:
        tree = parse(data)
        if tree is not None:
            found += _found(Source(path, tree, helper=helper), rules)
        elif green and not found:
            found.append(_unparsed(path))
    except Unreadable as reason:
        found.append(_unread(path, str(reason)))
    except RecursionError:
        found.append(_unread(path, "it is nested too deeply"))
    return found


def _unread(path: str, reason: str) -> _Found:
    return _Found(Finding(path, 1, _NOT_READ, False, f"was not looked at: {reason}."), reason, "", reason)


def _unparsed(path: str) -> _Found:
    text = "can't be read as a program, and the tests pass all the same."
    return _Found(Finding(path, 1, _NOT_READ, False, text), "syntax", "", text)


def _found(source: Source, rules: tuple[Rule, ...]) -> Iterator[_Found]:
    """One finding per statement, rule and construct: the certain one where there are two."""
    best: dict[tuple[ast.AST, str, str], Sign] = {}
    for sign in _signs(source, rules):
        key = (source.statement(sign.node), sign.rule, sign.what)
        known = best.get(key)
        if known is None or (sign.certain, -sign.line) > (known.certain, -known.line):
            best[key] = sign
    for (statement, rule, what), sign in best.items():
        finding = Finding(source.path, sign.line, rule, sign.certain, one_line(sign.text, 300))
        yield _Found(finding, what, source.place(sign.node), _normalised(source, statement), sign.unless)


def _signs(source: Source, rules: tuple[Rule, ...], depth: int = 0) -> Iterator[Sign]:
    for rule in rules:
        yield from rule(source)
    if depth == _DEEPEST:
        return
    for node in source.nodes:
        if isinstance(node, ast.Call) and node.args and source.names(node.func) & _RUNS_TEXT:
            for sign in _signs_in_text(source, node, rules, depth):
                yield replace(sign, node=node, text=f"in a text that is run as a program: {sign.text}")


def _signs_in_text(source: Source, call: ast.Call, rules: tuple[Rule, ...], depth: int) -> Iterator[Sign]:
    text = source.text(call.args[0])
    try:
        tree = parse(text.encode("utf-8", "replace")) if text else None
    except Unreadable:
        return
    if tree is not None:
        yield from _signs(Source(source.path, tree, helper=source.helper), rules, depth + 1)


def _normalised(source: Source, statement: ast.AST) -> str:
    """The statement without its place; of a block only its head, so that what is inside may change."""
    blocks = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match, ast.ClassDef)
    kind = "in a function" if source.function(statement) is not None else "at import"
    if isinstance(statement, blocks):
        heads = [part for part in ast.iter_child_nodes(statement) if not isinstance(part, ast.stmt)]
        return kind + "".join(map(ast.dump, heads))
    return kind + ast.dump(statement)


def _added(old: list[_Found], new: list[_Found], gone: set[str]) -> list[_Found]:
    """What is new. Each old one excuses one new one: first what stands as it stood, then what changed or moved."""
    left = sorted(new, key=lambda found: found.finding)
    for known_by in (_unchanged, _standing, _moving):
        old, left = _without(old, left, known_by)
    _, left = _without([found for found in old if found.finding.path in gone], left, _renaming)
    return left


def _without(
    old: list[_Found], new: list[_Found], known_by: Callable[[_Found], tuple[object, ...]]
) -> tuple[list[_Found], list[_Found]]:
    """Both lists without the pairs that are known by the same."""
    both = Counter(map(known_by, old)) & Counter(map(known_by, new))
    return _less(old, both.copy(), known_by), _less(new, both, known_by)


def _less(
    found: list[_Found], taken: Counter[tuple[object, ...]], known_by: Callable[[_Found], tuple[object, ...]]
) -> list[_Found]:
    left = []
    for each in found:
        if taken[known_by(each)]:
            taken[known_by(each)] -= 1
        else:
            left.append(each)
    return left


def _unchanged(found: _Found) -> tuple[object, ...]:
    return *_standing(found), found.statement


def _standing(found: _Found) -> tuple[object, ...]:
    return found.finding.path, found.place, found.finding.rule, found.what, found.finding.certain


def _moving(found: _Found) -> tuple[object, ...]:
    return found.finding.rule, found.what, found.statement


def _renaming(found: _Found) -> tuple[object, ...]:
    return found.finding.rule, found.what, found.place
