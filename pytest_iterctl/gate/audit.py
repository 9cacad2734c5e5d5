"""What in a change of the product's source looks like a way round the tests: read from syntax trees, not from text.

Every rule reads one file. What was there before is taken off: a construct in the same function or class, or the same
statement somewhere else, is no finding. So moving, reformatting and renaming cost nobody an alarm.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from pytest_iterctl.gate.ending import process_ends, stops_at_import
from pytest_iterctl.gate.equality import agrees_with_everything
from pytest_iterctl.gate.findings import Finding, Sign
from pytest_iterctl.gate.framework import asks_whether_it_is_tested, imports_framework, patches, steers_outcome
from pytest_iterctl.gate.hiding import hides_code, runs_hidden_text
from pytest_iterctl.gate.looking import looks_at_callers, touches_test_files, watches_interpreter
from pytest_iterctl.gate.source import Source, Unreadable, parse
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
    agrees_with_everything,
    looks_at_callers,
    watches_interpreter,
    hides_code,
    runs_hidden_text,
    swallows_assertions,
)
#: Rules that say nothing certain about a product that is itself a tool for tests.
_ABOUT_TESTS = {"imports-framework", "steers-outcome", "asks-whether-tested"}
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


def audit(
    before: Mapping[str, bytes], after: Mapping[str, bytes], *, is_protected: Callable[[str], bool]
) -> tuple[Finding, ...]:
    """The findings of a change, sorted by place.

    Both mappings cover the same files: all of them, or only those that differ. Protected files and files that aren't
    Python are not looked at. A file that can't be read as a program is said to be `not-read`; one with a syntax error
    is nobody's finding, because its tests will tell.
    """
    rules = (*_RULES, touches_test_files(is_protected))
    differing = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    mine = sorted(path for path in differing if path.endswith((".py", ".pyw")) and not is_protected(path))
    new = [found for path in mine if path in after for found in _read(path, after[path], rules)]
    if not new:
        return ()
    old = [found for path in mine if path in before for found in _read(path, before[path], rules)]
    gone = {path for path in mine if path not in after}
    added = {found.finding for found in _added(old, new, gone)}
    if any(finding.certain and finding.rule in _ABOUT_TESTS for finding in added):
        added = _eased(added) if _is_about_tests(before, is_protected) else added
    return tuple(sorted(added))


def _is_about_tests(before: Mapping[str, bytes], is_protected: Callable[[str], bool]) -> bool:
    """Whether the product imported pytest before the change: then it is a tool for tests, and may go on being one."""
    candidates = (path for path, data in before.items() if path.endswith(".py") and b"pytest" in data)
    return any(
        found.finding.certain
        for path in sorted(candidates)
        if not is_protected(path)
        for found in _read(path, before[path], (imports_framework,))
    )


def _eased(findings: set[Finding]) -> set[Finding]:
    return {replace(each, certain=each.certain and each.rule not in _ABOUT_TESTS) for each in findings}


def _read(path: str, data: bytes, rules: tuple[Rule, ...]) -> list[_Found]:
    try:
        tree = parse(data)
        return [] if tree is None else list(_found(Source(path, tree), rules))
    except Unreadable as reason:
        return [_unread(path, str(reason))]
    except RecursionError:
        return [_unread(path, "it is nested too deeply")]


def _unread(path: str, reason: str) -> _Found:
    return _Found(Finding(path, 1, _NOT_READ, False, f"was not looked at: {reason}."), reason, "", reason)


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
        yield _Found(finding, what, source.place(sign.node), _normalised(source, statement))


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
        yield from _signs(Source(source.path, tree), rules, depth + 1)


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
