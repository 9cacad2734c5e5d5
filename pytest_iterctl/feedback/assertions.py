"""Says what a failed assertion expected and what it received, as far as its explanation and its source tell."""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass
from typing import Literal

from pytest_iterctl.feedback.shortening import beginning
from pytest_iterctl.redaction import redact

__all__ = ["explain"]

Sides = tuple[str | None, str | None]
Side = Literal["left", "right"]

_ASSERTING = {"", "AssertionError", "Failed", "DocTestFailure"}
_LONGEST, _SECRET = 300, 120
_MOST_TEXT = 20_000
_MOST_SOURCE = 4_000
_MOST_OPERATORS = 20
_OPERATORS: tuple[str, ...] = ("not in", "is not", "==", "!=", "<=", ">=", "<", ">", "in", "is")
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_SYNTAX: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
}
_EXPECTED_NAME = re.compile(
    r"(?:^|_)(?:expect(?:ed|ation)?|want(?:ed)?|answer|desired|correct|golden|reference)(?:_|$)"
)
_RECEIVED_NAME = re.compile(r"(?:^|_)(?:actual|received|got|result|output|response|obtained|computed)(?:_|$)")
_SECOND_IS_EXPECTED = re.compile(r"assert\w*Equals?$|assert(?:Is|IsNot)$")
_WHERE = re.compile(r"^\s*\+\s+(?:where|and)\s+(.+?) = (.+)$", re.MULTILINE)
_TYPED = re.compile(r"[A-Za-z_][\w.]*(?::\s|:?$)")

#: Messages with a form of their own: a pattern, what was expected, what was received.
_FORMS: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(pattern, re.MULTILINE | re.DOTALL), expected, received)
    for pattern, expected, received in (
        # pytest.raises and pytest.warns
        (r"DID NOT RAISE <class '(?:[\w.]+\.)?(?P<E>\w+)'>", "raises {E}", "no exception"),
        (r"DID NOT RAISE (?:any of )?(?P<E>[^\n]+)", "raises {E}", "no exception"),
        (r"DID NOT WARN\. No warnings of type \(?(?P<E>[^\n]+?),?\)? were", "warns {E}", "no such warning"),
        (r"\b[Rr]egex: (?P<E>[^\n]+)\s+(?:Actual message|Input): (?P<R>[^\n]+)", "a message that matches {E}", "{R}"),
        (r"^\[XPASS\(strict\)\]", "a failure, as marked by xfail(strict=True)", "the test passed"),
        # doctest, unittest.mock, numpy.testing
        (r"^Expected:\n(?P<E>.*?)\nGot:\n(?P<R>.*)", "{E}", "{R}"),
        (r"^Expected: (?P<E>[^\n]+)\n\s*Actual: (?P<R>[^\n]+)", "{E}", "{R}"),
        (r"^Expected '[^'\n]+' (?P<E>to [^\n]*?)\. (?P<R>Called \d+ times)", "{E}", "{R}"),
        (r"^ *ACTUAL: (?P<R>.+?)\n *DESIRED: (?P<E>.+)", "{E}", "{R}"),
        (r"^ *x: (?P<R>array.+?)\n *y: (?P<E>.+)", "{E}", "{R}"),
        # unittest
        (r"\A(?P<E>[\w.]+) not raised\b", "raises {E}", "no exception"),
        (r"\A(?P<R>[^\n]+?) is not (?P<E>true|false)(?: : |$)", "a {E} value", "{R}"),
        (r"\Aunexpectedly None", "not None", "None"),
        (r"\A(?P<R>[^\n]+?) is not an instance of (?P<E>[^\n]+)", "an instance of {E}", "{R}"),
        (r"\ARegex didn't match: (?P<E>[^\n]+?) not found in (?P<R>[^\n]+)", "a text that matches {E}", "{R}"),
        (r"\A(?P<E>[^\n]+?) not found in (?P<R>[^\n]+)", "a value that contains {E}", "{R}"),
        (r"\A(?P<E>[^\n]+?) unexpectedly found in (?P<R>[^\n]+)", "a value that does not contain {E}", "{R}"),
        (r"\A(?P<R>[^\n]+?) not greater than or equal to (?P<E>[^\n]+)", ">= {E}", "{R}"),
        (r"\A(?P<R>[^\n]+?) not less than or equal to (?P<E>[^\n]+)", "<= {E}", "{R}"),
        (r"\A(?P<R>[^\n]+?) not greater than (?P<E>[^\n]+)", "> {E}", "{R}"),
        (r"\A(?P<R>[^\n]+?) not less than (?P<E>[^\n]+)", "< {E}", "{R}"),
        (r"\A(?P<R>[^\n]+?) != (?P<E>[^\n]+? within [^\n(]+?) \(", "{E}", "{R}"),
    )
)
_CLASS = re.compile(r"<class '(?:[\w.]+\.)?(\w+)'>")


def explain(kind: str, message: str, source_line: str) -> Sides:
    """What was expected and what was received; None for what can't be told."""
    message = message[:_MOST_TEXT]
    explained = re.search(r"(?:\AAssertionError: |^)assert (.*)", message, re.MULTILINE)
    if explained and kind in {"", "AssertionError"}:
        sides = _explained(explained[1], message, _statement(source_line))
    elif kind in _ASSERTING and (form := _form(message)) is not None:
        sides = form
    elif kind == "AssertionError" or message.startswith("AssertionError"):
        sides = _unittest(message, _statement(source_line))
    elif kind in {"", "Failed"}:
        sides = (None, None)
    else:
        first = message.strip().split("\n", 1)[0]
        sides = (None, first if _TYPED.match(first) else f"{kind}: {first}")
    expected, received = sides
    return _bounded(expected), _bounded(received)


def _bounded(text: str | None) -> str | None:
    if text is None:
        return None
    flat = " ".join(text.split())
    if len(flat) > _LONGEST:
        # A value is often one long word, of which something has to be left.
        flat = beginning(redact(flat), _LONGEST - 1, edge=_SECRET).rstrip() + "…"
    return flat or None


def _form(message: str) -> Sides | None:
    text = message.removeprefix("Failed: ").removeprefix("AssertionError: ")
    for pattern, expected, received in _FORMS:
        if found := pattern.search(text):
            parts = {name: _CLASS.sub(r"\1", part.strip()) for name, part in found.groupdict().items()}
            return expected.format(**parts), received.format(**parts)
    return None


def _statement(source: str) -> ast.stmt | None:
    """The first statement of the source that parses: pytest may show more lines than the statement has."""
    lines = textwrap.dedent(source[:_MOST_SOURCE]).strip().splitlines()[:60]
    for count in range(len(lines), 0, -1):
        try:
            body = ast.parse("\n".join(lines[:count])).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        return _innermost(body[0]) if body else None
    return None


def _innermost(statement: ast.stmt) -> ast.stmt:
    """`with x: assert y` or `def test(): assert y`, written on one line, is about its last statement."""
    body = getattr(statement, "body", None)
    return _innermost(body[-1]) if isinstance(body, list) and body and isinstance(body[-1], ast.stmt) else statement


@dataclass(frozen=True, slots=True)
class _Comparison:
    """What the source says about the two sides."""

    left: ast.expr
    right: ast.expr

    def expected_side(self) -> Side | None:
        left, right = _expectedness(self.left), _expectedness(self.right)
        return None if left == right else "left" if left > right else "right"


def _expectedness(node: ast.expr) -> int:
    """How much an expression looks like what somebody wrote down beforehand."""
    if isinstance(node, ast.Constant | ast.JoinedStr):
        return 3
    if isinstance(node, ast.UnaryOp):
        return _expectedness(node.operand)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return min((_expectedness(item) for item in node.elts), default=3)
    if isinstance(node, ast.Dict):
        return min((_expectedness(item) for item in node.values), default=3)
    if isinstance(node, ast.BinOp):
        return min(_expectedness(node.left), _expectedness(node.right))
    if isinstance(node, ast.Name | ast.Attribute):
        name = (node.id if isinstance(node, ast.Name) else node.attr).lower()
        return 2 if _EXPECTED_NAME.search(name) else -2 if _RECEIVED_NAME.search(name) else 0
    if isinstance(node, ast.Call):
        return _call_expectedness(node)
    return 0


def _call_expectedness(node: ast.Call) -> int:
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    if name == "approx":
        return 3
    arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
    written_down = all(_expectedness(argument) > 0 for argument in arguments)
    # Decimal("1.5") and set() are values, compute(2) is not.
    makes_value = name[:1].isupper() or name in {"date", "datetime", "timedelta", "set", "frozenset", "dict"}
    return 1 if written_down and makes_value else -1


def _explained(explanation: str, message: str, statement: ast.stmt | None) -> Sides:
    """`assert 3 == 2` as pytest rewrote it, with its `where` lines."""
    computed = {value.strip(): call.strip() for value, call in _WHERE.findall(message)}
    test = statement.test if isinstance(statement, ast.Assert) else None
    operators = _OPERATORS
    comparison = None
    if isinstance(test, ast.Compare):
        operators = tuple({_SYNTAX[type(operator)] for operator in test.ops})
        comparison = _Comparison(test.left, test.comparators[0]) if len(test.ops) == 1 else None
    elif test is not None:
        return _truth(explanation, computed)
    split = _split(explanation, operators)
    if split is None:
        return (
            _truth(explanation, computed) if not any(f" {name} " in explanation for name in operators) else (None, None)
        )
    left, operator, right = split
    side = comparison.expected_side() if comparison else None
    if side is None and (left in computed) != (right in computed):
        side = "right" if left in computed else "left"
    return _compared(left, operator, right, side or "right")


def _truth(explanation: str, computed: dict[str, str]) -> Sides:
    """`assert not True`, `assert []`, `assert (True and False)`."""
    negated = explanation.startswith("not ")
    value = explanation.removeprefix("not ").strip()
    if not value:
        return None, None
    call = computed.get(value)
    return ("a false value" if negated else "a true value"), (f"{value}, from {call}" if call else value)


def _split(text: str, operators: tuple[str, ...]) -> tuple[str, str, str] | None:
    """The explanation at its operator: outside of quotes and brackets if it can be told, else the only one there is."""
    names = "|".join(re.escape(name) for name in sorted(operators, key=len, reverse=True))
    found = list(re.finditer(rf" ({names}) ", text))
    if 1 < len(found) <= _MOST_OPERATORS:
        found = [match for match in found if _whole(text[: match.start()]) and _whole(text[match.end() :])]
    if len(found) != 1:
        return None
    return text[: found[0].start()].strip(), found[0][1], text[found[0].end() :].strip()


def _whole(text: str) -> bool:
    """Whether brackets and quotes are closed: half of a string or of a list is not a value."""
    rest = re.sub(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", "", text)
    return all(rest.count(pair[0]) == rest.count(pair[1]) for pair in ("()", "[]", "{}")) and not set(rest) & {"'", '"'}


def _compared(left: str, operator: str, right: str, side: Side) -> Sides:
    expected, received = (right, left) if side == "right" else (left, right)
    if operator in {"==", "is"}:
        return expected, received
    if operator in {"!=", "is not"}:
        return f"not {expected}", received
    if operator in {"in", "not in"}:
        if side == "right":
            return f"a value {operator} {expected}", received
        return f"a value that {'contains' if operator == 'in' else 'does not contain'} {expected}", received
    return f"{operator if side == 'right' else _MIRRORED[operator]} {expected}", received


def _unittest(message: str, statement: ast.stmt | None) -> Sides:
    """`AssertionError: 3 != 2`, `AssertionError: Lists differ: [1] != [2]`, `AssertionError: 3 is not None`."""
    first = message.removeprefix("AssertionError").removeprefix(":").strip().split("\n", 1)[0]
    first = re.sub(r"^\w+ differ: ", "", first)
    call = statement.value if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) else None
    method = getattr(call.func, "attr", "") if call else ""
    if not method.startswith("assert"):
        return None, None
    split = _split(re.sub(r" : .*$", "", first), ("!=", "==", "is not", "is"))
    if split is None:
        return None, None
    left, operator, right = split
    pair = call.args[:2] if call and len(call.args) > 1 else []
    side = _Comparison(pair[0], pair[1]).expected_side() if _SECOND_IS_EXPECTED.search(method) and pair else None
    # The message states what is, so what was wanted is its opposite.
    wanted = {"!=": "==", "==": "!=", "is not": "is", "is": "is not"}[operator]
    return _compared(left, wanted, right, side or "right")
