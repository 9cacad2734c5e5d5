"""Rules about arithmetic and comparisons that are bent: a difference of nothing, a text that contains everything."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pytest_iterctl.gate.equality import answers_of, definitions, meant, truth
from pytest_iterctl.gate.findings import Sign
from pytest_iterctl.gate.source import Source

__all__ = ["bends_comparisons"]

_RULE = "bends-comparison"
#: Each with whether there is another operand to look at.
_DIFFERENCES = {"__sub__": True, "__rsub__": True, "__abs__": False, "__float__": False, "__round__": False}
_ORDERS = {"__lt__", "__le__", "__gt__", "__ge__"}
_CONTENTS = {"__eq__", "__ne__", "__contains__"}
_BUILT_IN = ("int", "float", "complex", "str", "bytes", "bytearray", "list", "tuple", "dict", "set", "frozenset")
_PLAIN = {f"builtins.{name}" for name in _BUILT_IN} | {"decimal.Decimal", "fractions.Fraction"}
_PLAIN |= {"collections.UserString", "collections.UserList", "collections.UserDict", "collections.OrderedDict"}
_MEASURES = {f"builtins.{name}" for name in ("len", "hash", "type", "bool", "isinstance", "id", "callable")}
_MEASURES |= {"sys.getsizeof"}
_DEEPEST = 8  # classes that inherit from classes of the same file


def bends_comparisons(source: Source) -> Iterator[Sign]:
    """Methods that decide what a test compares, and give the same answer whatever they are asked."""
    if source.helper:
        return
    classes = {each.name: each for each in source.nodes if isinstance(each, ast.ClassDef)}
    for node in source.nodes:
        for name, value in definitions(source, node):
            owner = _owner(source, node, classes)
            function = meant(source, value)
            if owner is None or not isinstance(function, ast.FunctionDef | ast.Lambda):
                continue
            text = _bent(source, owner, name, function, classes)
            if text:
                yield Sign(function, _RULE, False, name, f"{owner.name}.{name} {text}")


def _owner(source: Source, node: ast.AST, classes: dict[str, ast.ClassDef]) -> ast.ClassDef | None:
    """The class that gets a method: the one around it, or the one of this file that is named."""
    match node:
        case ast.Attribute(value=ast.Name(id=name)) | ast.Call(args=[ast.Name(id=name), _, _]):
            return classes.get(name)
        case _:
            return next((each for each in source.above(node) if isinstance(each, ast.ClassDef)), None)


def _bent(
    source: Source,
    owner: ast.ClassDef,
    name: str,
    function: ast.FunctionDef | ast.Lambda,
    classes: dict[str, ast.ClassDef],
) -> str:
    answers = [each for each in answers_of(function) if not _declines(source, each)]
    own, other = _parameters(function)
    if not answers or not own:
        return ""
    plain = _is_plain(source, owner, classes)
    used = {each.id for part in _body(function) for each in ast.walk(part) if isinstance(each, ast.Name)}
    if name in _DIFFERENCES:
        if all(isinstance(each, ast.Constant) for each in answers):
            return "gives the same number whatever it is asked."
        looks = used & ({own, other, "super"} - {""})
        if not looks or (plain and _DIFFERENCES[name] and other not in used):
            return "doesn't look at what it is given."
    elif plain and name in _ORDERS:
        if other not in used or all(truth(each) is not None for each in answers):
            return "doesn't look at what it is compared with."
    elif plain and name in _CONTENTS:
        if name == "__contains__" and (other not in used or {truth(each) for each in answers} == {True}):
            return "doesn't look at what it is asked for."
        if _only_measures(source, function, other):
            return "looks at nothing of the other but its length, hash or type."
        if name == "__eq__" and all(_is_always_true(source, each, classes) for each in answers):
            return "gives an object that is true whatever was compared."
    elif name == "__eq__" and all(_is_always_true(source, each, classes, without=(own, other)) for each in answers):
        return "gives an object that is true whatever was compared."
    return ""


def _parameters(function: ast.FunctionDef | ast.Lambda) -> tuple[str, str]:
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    names += [function.args.vararg.arg] if function.args.vararg is not None else []
    return (names[0] if names else "", names[1] if len(names) > 1 else "")


def _body(function: ast.FunctionDef | ast.Lambda) -> list[ast.stmt] | list[ast.expr]:
    return function.body if isinstance(function.body, list) else [function.body]


def _declines(source: Source, answer: ast.expr) -> bool:
    return isinstance(answer, ast.Name) and "builtins.NotImplemented" in source.names(answer)


def _is_plain(source: Source, owner: ast.ClassDef, classes: dict[str, ast.ClassDef], depth: int = 0) -> bool:
    """Whether a class is a number, a text or a collection of Python's own, also through classes of the same file."""
    for base in owner.bases:
        if source.names(base) & _PLAIN:
            return True
        below = classes.get(base.id) if isinstance(base, ast.Name) else None
        if (
            below is not None
            and below is not owner
            and depth < _DEEPEST
            and _is_plain(source, below, classes, depth + 1)
        ):
            return True
    return False


def _only_measures(source: Source, function: ast.FunctionDef | ast.Lambda, other: str) -> bool:
    """Whether the other is looked at, and nowhere but in `len(other)` and its like."""
    uses = [
        each
        for part in _body(function)
        for each in ast.walk(part)
        if isinstance(each, ast.Name) and each.id == other and isinstance(each.ctx, ast.Load)
    ]
    return bool(uses) and all(_is_measured(source, each) for each in uses) and not _asks_for_type_only(source, uses)


def _is_measured(source: Source, use: ast.Name) -> bool:
    match source.parent(use):
        case ast.Call(func=func, args=[first, *_]) if first is use:
            return bool(source.names(func) & _MEASURES)
        case ast.Attribute(attr="__len__" | "__hash__" | "__class__" | "__sizeof__" | "__bool__"):
            return True
        case _:
            return False


def _asks_for_type_only(source: Source, uses: list[ast.Name]) -> bool:
    """A question about nothing but the type is judged with equality."""
    types = {"builtins.type", "builtins.isinstance", "builtins.callable", "builtins.id"}
    return all(
        isinstance(call := source.parent(each), ast.Call) and bool(source.names(call.func) & types) for each in uses
    )


def _is_always_true(
    source: Source, answer: ast.expr, classes: dict[str, ast.ClassDef], *, without: tuple[str, str] | None = None
) -> bool:
    """Whether an answer is a new object that has no truth of its own.

    An expression such as `column == 3` is such an object too, and is made of both operands. A text that makes one is
    no expression.
    """
    if not isinstance(answer, ast.Call) or not isinstance(answer.func, ast.Name):
        return False
    if without is not None:
        parts = (each for part in (*answer.args, *answer.keywords) for each in ast.walk(part))
        if any(isinstance(each, ast.Name) and each.id in without for each in parts):
            return False
    made = classes.get(answer.func.id)
    if made is None:
        imported = any("." in name and not name.startswith("builtins.") for name in source.names(answer.func))
        return without is None and imported and answer.func.id[:1].isupper()
    return _has_no_truth(source, made, classes)


def _has_no_truth(source: Source, made: ast.ClassDef, classes: dict[str, ast.ClassDef], depth: int = 0) -> bool:
    methods = {each.name: each for each in made.body if isinstance(each, ast.FunctionDef)}
    if "__bool__" in methods:
        answers = answers_of(methods["__bool__"])
        return bool(answers) and all(truth(each) is True for each in answers)
    if "__len__" in methods or _is_plain(source, made, classes) or made.keywords:
        return False
    for base in made.bases:
        below = classes.get(base.id) if isinstance(base, ast.Name) else None
        known = below is not None and depth < _DEEPEST and _has_no_truth(source, below, classes, depth + 1)
        if "builtins.object" not in source.names(base) and not known:
            return False
    return True
