"""Test inputs written into the product: new literals that choose a result and that the tests use as well.

What counts. A literal counts when nobody writes it by chance: a number other than -1 to 10 and the powers of ten and
two, text or bytes of at least four characters, a tuple of two or more constants. It must choose a result that is itself
written down (`if n == 17: return 391`, a case of a `match`, a key of a table that is looked up), must be new to the
product, and must be among the literals of the tests, docstrings aside. Its result must be telling too and stand beside
it in a test.

What belongs there. Honest code shares literals with its tests as well: any two new ones in common were found in 4.2 %
of 1,600 honest commits (three: 2.2 %). So a literal that names something is left alone where nothing is computed for
the inputs beside it: units, codes, keywords and months are a closed list, and a list is what its author must write.
The same goes for a table or a collection with fewer than half of its rows in the tests.

What the threshold means. From two on a change is suspicious, never certain.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from pytest_iterctl.gate.answers_in_data import answers_in_data
from pytest_iterctl.gate.choices import Choice, choices
from pytest_iterctl.gate.findings import Finding
from pytest_iterctl.gate.source import FUNCTIONS, Source
from pytest_iterctl.gate.tested import Tested, Value, is_name, read, shown, value_of
from pytest_iterctl.text import one_line

__all__ = ["hard_coded"]

_ENOUGH = 2
_ENOUGH_SMALL = 3  # small numbers are in every test, so it takes more of them
_RULE = "hard-coded"
_NAMES_TEST = "names-a-test"
_WORD = re.compile(r"[\w.+/*-]+")
_YEARS = range(1900, 2100)


def hard_coded(
    before: Mapping[str, bytes],
    after: Mapping[str, bytes],
    tests: Mapping[str, bytes],
    *,
    is_protected: Callable[[str], bool],
) -> tuple[Finding, ...]:
    """One finding per changed file with at least two such literals, at the first of them, with all places in words.

    Give the whole product as `before`: a literal that was anywhere in it is nothing new.
    """
    differing = sorted(path for path, data in after.items() if before.get(path) != data and not is_protected(path))
    if not differing:
        return ()
    tested = Tested.of(tests)
    found = list(answers_in_data(before, after, tested, is_protected=is_protected))
    modules = [read(path, after[path]) for path in differing if path.endswith((".py", ".pyw"))]
    if any(modules):
        known = _known(before, is_protected)
        found += [finding for source in modules if source for finding in _findings(source, known, tested)]
    return tuple(sorted(found))


def _known(before: Mapping[str, bytes], is_protected: Callable[[str], bool]) -> frozenset[Value]:
    own = (read(path, data) for path, data in sorted(before.items()) if path.endswith(".py") and not is_protected(path))
    return frozenset(
        value for source in own if source for node in source.nodes if (value := value_of(node)) is not None
    )


def _findings(source: Source, known: frozenset[Value], tested: Tested) -> Iterator[Finding]:
    try:
        values = _values(list(choices(source)), known, tested)
    except RecursionError:  # nested more deeply than anybody writes; the audit says that it could not read that
        return
    if len(values) >= _ENOUGH:
        places = sorted((line, shown(value)) for value, line in values.items())
        told = ", ".join(f"{text} (line {line})" for line, text in places[:6])
        more = f" and {len(places) - 6} more" if len(places) > 6 else ""  # noqa: PLR2004 - as many as were shown
        text = f"chooses results by literals that the tests use: {told}{more}."
        yield Finding(source.path, places[0][0], _RULE, False, one_line(text, 400))
    yield from _test_names(source, tested.names, known)


# ── which choices count ──────────────────────────────────────────────────────────────────────────────────────────────


def _values(found: list[Choice], known: frozenset[Value], tested: Tested) -> dict[Value, int]:
    """The literals that count, with their lines: keys, and results beside them."""
    closed = {place for place in {each.place for each in found} if _says_both(place, found)}
    large = [each for each in found if each.key in tested.values and each.key not in known]
    large = [each for each in large if _counts(each, known, tested, closed=each.place in closed)]
    small = [each for each in found if each.key not in tested.values and each.computed and each.key[0] == "number"]
    small = [each for each in small if any(map(_is_no_name, _answers(each, known, tested)))]
    rows = Counter(group for group, _ in {(each.group, each.key) for each in (*large, *small)})
    large, small = ([each for each in some if 2 * rows[each.group] >= each.rows] for some in (large, small))
    if not large and len({each.key for each in small}) < _ENOUGH_SMALL:
        small = []
    values = {choice.key: choice.line for choice in reversed(large)}
    for choice in (*large, *small):
        for result in _answers(choice, known, tested):
            values.setdefault(result, choice.line)
    return values


def _says_both(place: int, found: list[Choice]) -> bool:
    """`if word in ("true", "on"): return True` and its opposite: a vocabulary, whose words are all there."""
    return {choice.truth for choice in found if choice.place == place and choice.key[0] == "str"} >= {True, False}


def _answers(choice: Choice, known: frozenset[Value], tested: Tested) -> list[Value]:
    new = (each for each in choice.results if each in tested.values and each not in known)
    return [each for each in new if tested.answers(choice.key, each)]


def _counts(choice: Choice, known: frozenset[Value], tested: Tested, *, closed: bool) -> bool:
    kind, key = choice.key
    if kind == "str" and choice.truth is not None:
        return not closed
    answers = _answers(choice, known, tested)
    if kind == "str" and isinstance(key, str) and any(map(str.isalpha, key)):
        # One word is a name for something even where others are computed: an irregular plural.
        return bool(answers) and choice.computed and not _WORD.fullmatch(key)
    if kind == "number" and not choice.computed:
        return any(map(_is_no_name, answers)) and key not in _YEARS
    return bool(answers)


def _is_no_name(value: Value) -> bool:
    return not is_name(value)


# ── names of tests ───────────────────────────────────────────────────────────────────────────────────────────────────


def _test_names(source: Source, names: frozenset[str], known: frozenset[Value]) -> Iterator[Finding]:
    """`if name == "test_double"`: a comparison with what a test is called."""
    for node in source.nodes:
        match node:
            case ast.Constant(value=str() as text) if ("str", text) not in known:
                last = text.split("::")[-1].split("[")[0].removesuffix(".py")
                compared = any(
                    isinstance(each, ast.Compare | ast.Call | ast.MatchValue) for each in _near(source, node)
                )
                if last in names and compared:
                    told = f"asks for {one_line(text, 80)!r}, which is the name of a test."
                    yield Finding(source.path, node.lineno, _NAMES_TEST, False, told)
            case _:
                pass


def _near(source: Source, node: ast.AST) -> Iterator[ast.AST]:
    for each in source.above(node):
        if isinstance(each, (ast.stmt, *FUNCTIONS)):
            return
        yield each
