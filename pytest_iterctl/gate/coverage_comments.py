"""Comments that take code out of the count of coverage: added where code changes, or to code that stays as it was."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping

from pytest_iterctl.gate.elsewhere import lines_for_elsewhere
from pytest_iterctl.gate.findings import Finding
from pytest_iterctl.gate.source import Source, Unreadable, parse

__all__ = ["excluded_from_coverage"]

_PRAGMA = re.compile(r"#\s*(?:pragma|PRAGMA)[:\s]?\s*(?:no|NO)\s*(?:cover|COVER|branch|BRANCH)")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_NEW, _OLD = "excludes-coverage", "excludes-old-code"


def excluded_from_coverage(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[Finding]:
    """The comments that a change adds. On a function that is otherwise the base's, only the count has changed."""
    had = Counter(line for data in before.values() for line, _, _ in _excluded(data))
    known = {code for data in before.values() for code in _codes(data)}
    for path, data in sorted(after.items()):
        for line, number, code in _excluded(data):
            if had[line]:
                had[line] -= 1
            elif code and code in known:
                text = "takes code out of the count of coverage that is as it was before."
                yield Finding(path, number, _OLD, False, text)
            else:
                yield Finding(path, number, _NEW, False, "takes code out of the count of coverage.")


def _excluded(data: bytes) -> Iterator[tuple[str, int, str]]:
    """Each commented line of what runs here, without its spaces, its number, and the code of the function there."""
    if b"no" not in data.lower() or b"pragma" not in data.lower():
        return
    try:
        tree = parse(data)
        tokens = list(tokenize.tokenize(io.BytesIO(data).readline)) if tree is not None else []
        source = Source("", tree) if tree is not None else None
    except (Unreadable, RecursionError, SyntaxError, tokenize.TokenError, ValueError):
        return
    if source is None:
        return
    elsewhere = lines_for_elsewhere(source)
    for token in tokens:
        if token.type == tokenize.COMMENT and _PRAGMA.search(token.string) and token.start[0] not in elsewhere:
            yield "".join(token.line.split()), token.start[0], _code_at(source, token.start[0])


def _code_at(source: Source, line: int) -> str:
    """The whole function around a line as it is run, without comments; empty outside of functions."""
    for each in source.nodes:  # the outermost comes first
        if isinstance(each, _FUNCTIONS) and each.lineno <= line <= (each.end_lineno or each.lineno):
            return ast.dump(each)
    return ""


def _codes(data: bytes) -> Iterator[str]:
    try:
        tree = parse(data)
    except (Unreadable, RecursionError):
        return
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, _FUNCTIONS):
            yield ast.dump(node)
