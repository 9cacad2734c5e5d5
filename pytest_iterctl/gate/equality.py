"""Rules about objects that agree with everything: comparisons that never look at what they are compared with."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator

from pytest_iterctl.gate.findings import Sign
from pytest_iterctl.gate.source import FUNCTIONS, Source

__all__ = ["agrees_with_everything", "answers_of", "definitions", "meant", "truth"]

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

#: The answer that makes an assertion pass whatever stands on its other side.
_PLEASING = {"__eq__": True, "__ne__": False}
_OTHERS = {"__lt__", "__le__", "__gt__", "__ge__", "__contains__", "__instancecheck__", "__subclasscheck__"}
_TURNED = {"__eq__": "__ne__", "__ne__": "__eq__"}
_ALONE = {"__bool__"}
_OPPOSITES = {"__lt__": "__gt__", "__gt__": "__lt__", "__le__": "__ge__", "__ge__": "__le__"}
_WATCHED = _OTHERS | _ALONE | set(_PLEASING)
_PLAIN_TYPES = {f"builtins.{name}" for name in ("int", "str", "float", "dict", "list", "tuple", "bytes", "bool", "set")}


def agrees_with_everything(source: Source) -> Iterator[Sign]:
    """Methods, lambdas and attributes that make `==` and its like answer the same whatever they are asked."""
    for node in source.nodes:
        for name, value in definitions(source, node):
            if name in _WATCHED:
                sign = _judged(source, node, name, meant(source, value)) or _put_in_place(source, node, name, value)
                yield from () if sign is None else (sign,)
        yield from _mocked(source, node)


def definitions(source: Source, node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Every way to give a class a method: in its body, as an attribute, by `setattr`, in the table of `type(…)`."""
    match node:
        case ast.FunctionDef(name=name) if isinstance(source.parent(node), ast.ClassDef):
            yield name, node
        case ast.FunctionDef(name=name) if name in _PLEASING:  # defined in a branch or a function, put in place later
            yield name, node
        case ast.Attribute(attr=name, ctx=ast.Store()) if (given := source.stored(node)) is not None:
            yield name, given
        case ast.Name(id=name, ctx=ast.Store()) if (given := source.stored(node)) is not None:
            around = next(
                each for each in source.above(node) if isinstance(each, (*FUNCTIONS, ast.ClassDef, ast.Module))
            )
            if isinstance(around, ast.ClassDef):
                yield name, given
        case ast.Call(func=func, args=[_, key, value]) if _sets_attribute(source, func):
            yield source.text(key) or "", value
        case ast.Dict(keys=keys, values=values):
            for slot, given in zip(keys, values, strict=True):
                yield source.text(slot) or "", given
        case ast.keyword(arg=str() as name, value=value) if name in _PLEASING:
            yield name, value
        case _:
            return


def _sets_attribute(source: Source, func: ast.expr) -> bool:
    names = source.names(func)
    return "builtins.setattr" in names or any(name.endswith(".__setattr__") for name in names)


def _put_in_place(source: Source, node: ast.AST, name: str, value: ast.AST) -> Sign | None:
    """A comparison that is no function of this file: the opposite one, or one that is put where nobody looks for it."""
    if name not in _PLEASING:
        return None
    last = {each.rpartition(".")[2] for each in source.names(value)}
    last |= {value.attr} if isinstance(value, ast.Attribute) else set()
    if _TURNED[name] in last:
        return _agrees(node, not source.helper, name, f"{name} is {_TURNED[name]} of another: it says the opposite.")
    if isinstance(value, ast.FunctionDef) or name in last or _is_plain_none(value):
        return None  # judged by what it says, passed on as it is, or switched off
    if _is_hidden_name(source, node):
        return _agrees(node, False, name, f"puts {name} in place under a name that is spelt so that it can't be found.")
    if _is_put_from_outside(source, node) or _is_in_plain_type(source, node):
        return _agrees(node, False, name, f"puts {name} in place without defining it there.")
    return None


def _is_plain_none(value: ast.AST) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _is_hidden_name(source: Source, node: ast.AST) -> bool:
    match node:
        case ast.Call(args=[_, key, _]):
            return not isinstance(key, ast.Constant | ast.Name)
        case ast.Dict(keys=keys):
            return any(source.text(key) in _PLEASING for key in keys if not isinstance(key, ast.Constant | ast.Name))
        case _:
            return False


def _is_put_from_outside(source: Source, node: ast.AST) -> bool:
    """`Label.__eq__ = f` for a class of this file or an imported one; a decorator's `cls` is its own affair."""
    match node:
        case ast.Attribute(value=ast.Name() as owner) | ast.Call(args=[ast.Name() as owner, _, _]):
            classes = {each.name for each in source.nodes if isinstance(each, ast.ClassDef)}
            return owner.id in classes or any(not name.endswith(("()", "[]")) for name in source.names(owner))
        case _:
            return False


def _is_in_plain_type(source: Source, node: ast.AST) -> bool:
    """In the body of a class that is a text or a number otherwise, or in the table that `type` makes one of."""
    match source.parent(node):
        case ast.Call(func=func, args=[_, ast.Tuple(elts=bases), *_]) if "builtins.type" in source.names(func):
            pass
        case _:
            owner = next((each for each in source.above(node) if isinstance(each, ast.ClassDef)), None)
            bases = owner.bases if owner is not None and isinstance(node, ast.Name) else []
    return any(source.names(base) & _PLAIN_TYPES for base in bases)


def _mocked(source: Source, node: ast.AST) -> Iterator[Sign]:
    """`thing.__eq__.return_value = True`, also by `configure_mock`: a comparison that is told what to say."""
    pairs: list[tuple[str, ast.AST]] = []
    match node:
        case ast.Attribute(value=ast.Attribute(attr=name), attr="return_value" | "side_effect", ctx=ast.Store()):
            stored = source.stored(node)
            pairs = [(name, stored)] if stored is not None else []
        case ast.Call(func=ast.Attribute(attr="configure_mock"), keywords=keywords):
            tables = [each.value for each in keywords if each.arg is None]
            tables = [(source.given(each) or each) if isinstance(each, ast.Name) else each for each in tables]
            pairs = [pair for table in tables if isinstance(table, ast.Dict) for pair in _told(source, table)]
        case _:
            return
    for name, value in pairs:
        if name in _PLEASING:
            clear = isinstance(value, ast.expr) and truth(value) is _PLEASING[name] and not source.helper
            yield _agrees(node, clear, name, f"tells {name} of a mock what to say.")


def _told(source: Source, table: ast.Dict) -> Iterator[tuple[str, ast.AST]]:
    for key, value in zip(table.keys, table.values, strict=True):
        name, _, what = (source.text(key) or "").partition(".")
        if what in {"return_value", "side_effect", ""}:
            yield name, value


def meant(source: Source, value: ast.AST) -> ast.AST | None:
    """The function that a value is: a lambda, or one that is defined in this file under that name."""
    if isinstance(value, ast.FunctionDef | ast.Lambda):
        return value
    return source.functions.get(value.id) if isinstance(value, ast.Name) else None


def _judged(source: Source, node: ast.AST, name: str, function: ast.AST | None) -> Sign | None:
    """The sign, if there is one: about the function, wherever that was put in place, so that its line can be found."""
    if not isinstance(function, ast.FunctionDef | ast.Lambda):
        return None
    answers = answers_of(function)
    if not answers:
        return None
    owner = next((each for each in (node, *source.above(node)) if isinstance(each, ast.ClassDef)), None)
    called = f"{owner.name}.{name}" if owner is not None else name
    truths = {truth(answer) for answer in answers}
    always = truths.pop() if len(truths) == 1 else None
    helper = source.helper
    if name in _PLEASING and always is _PLEASING[name]:
        return _agrees(function, not helper, name, f"{called} gives {always} whatever it is compared with.")
    if always is not None:
        odd = _is_odd(source, owner, name, always=always)
        return _agrees(function, False, name, f"{called} always gives {always}.") if odd else None
    if name in _ALONE:
        return None
    if name in _PLEASING and any(_says_opposite(name, answer) for answer in answers):
        return _agrees(function, not helper, name, f"{called} says the opposite of what it is asked.")
    if name in _PLEASING and _ignores_other(function) and not any(map(_declines, answers)):
        return _agrees(function, not helper, name, f"{called} never looks at what it is compared with.")
    foreign = _foreign_types(source, owner, _types_asked_for(source, function, answers, pleasing=_PLEASING.get(name)))
    if foreign:
        told = " or ".join(foreign)
        certain = not helper and all(foreign.values())
        return _agrees(function, certain, name, f"{called} asks for nothing but whether the other is a {told}.")
    if name in _PLEASING and _asks_for_type_only(source, function, answers, pleasing=_PLEASING[name]):
        return _agrees(function, False, name, f"{called} gives {_PLEASING[name]} for every object of a built-in type.")
    if name == "__eq__" and _is_beside_the_point(source, function, answers):
        return _agrees(function, False, name, f"{called} is content with something that has nothing to do with itself.")
    return None


def _says_opposite(name: str, answer: ast.expr) -> bool:
    """`not super().__eq__(other)` as the answer of `__eq__`, or `str.__ne__(self, other)`."""
    match answer:
        case ast.Call(func=ast.Attribute(attr=asked)):
            return asked == _TURNED[name]
        case ast.UnaryOp(op=ast.Not(), operand=ast.Call(func=ast.Attribute(attr=asked))):
            return asked == name
        case ast.UnaryOp(op=ast.Not(), operand=ast.UnaryOp(op=ast.Not(), operand=inner)):
            return _says_opposite(name, inner)
        case _:
            return False


def _is_beside_the_point(source: Source, function: _Function, answers: list[ast.expr]) -> bool:
    """An `==` that is content with less: `str.__eq__(self, other) or len(other) > 3`, or with the other being itself.

    Null objects and sentinels ask for None, for a type or for one object, and wrappers pass the question on.
    """
    own, other = _parameters(function)
    if not own or not other:
        return False
    local = {
        each.id for each in _own_nodes(function) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    } | {own, "super", "__class__"}

    def is_about_self(node: ast.expr) -> bool:
        return any(isinstance(each, ast.Name) and each.id in local for each in ast.walk(node))

    def is_loose(node: ast.expr) -> bool:
        mentions = any(isinstance(each, ast.Name) and each.id == other for each in ast.walk(node))
        return mentions and not is_about_self(node) and not _asks_who_it_is(source, node, other)

    for answer in answers:
        match answer:
            case ast.BoolOp(op=ast.Or(), values=values) if any(map(is_about_self, values)):
                if any(map(is_loose, values)):
                    return True
            case ast.Compare(left=left, ops=[ast.NotEq()], comparators=[right]):
                if is_about_self(left) != is_about_self(right):
                    return True
            case ast.UnaryOp(op=ast.Not(), operand=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right])):
                if is_about_self(left) != is_about_self(right):
                    return True
            case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]):
                if is_loose(left) and is_loose(right):
                    return True
            case _:
                pass
    return any(
        isinstance(each, ast.If)
        and is_loose(each.test)
        and isinstance(each.body[-1], ast.Return)
        and each.body[-1].value is not None
        and truth(each.body[-1].value) is True
        for each in _own_nodes(function)
    )


def _parameters(function: _Function) -> tuple[str, str]:
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    return (names[0], names[1]) if len(names) > 1 else ("", "")


def _asks_who_it_is(source: Source, node: ast.expr, other: str, depth: int = 0) -> bool:
    """A question about the type or identity of the other, or one that compares it with something that has a name."""
    match node:
        case ast.Compare(left=ast.Name(), ops=[ast.Is() | ast.IsNot() | ast.Eq() | ast.In()]):
            return True
        case ast.Compare(ops=[ast.Is() | ast.IsNot() | ast.Eq()], comparators=[ast.Name(id=name)]) if name == other:
            return True
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass" | "hasattr" | "callable")):
            return True
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return isinstance(operand, ast.Name) or _asks_who_it_is(source, operand, other, depth + 1)
        case ast.BoolOp(values=values) if depth < 20:  # noqa: PLR2004 - deeper than anybody writes
            return any(_asks_who_it_is(source, each, other, depth + 1) for each in values)
        case _:
            return _type_asked_for(source, node, other) is not None


def _is_odd(source: Source, owner: ast.ClassDef | None, name: str, *, always: bool) -> bool:
    """Not for what has a place in honest code: an infinity that is above everything, a truth that is one anyway."""
    plain = owner is not None and any(source.names(base) & _PLAIN_TYPES for base in owner.bases)
    if name in _OPPOSITES:
        methods = {each.name: each for each in owner.body if isinstance(each, ast.FunctionDef)} if owner else {}
        opposite = methods.get(_OPPOSITES[name])
        answers = answers_of(opposite) if opposite is not None else []
        return always and (plain or (bool(answers) and all(truth(answer) is True for answer in answers)))
    if name == "__bool__":
        return plain or not always
    return always or name in _PLEASING


def _agrees(node: ast.AST, certain: bool, name: str, text: str) -> Sign:  # noqa: FBT001 - a verdict, given by each rule
    return Sign(node, "agrees-with-everything", certain, name, text)


def answers_of(function: _Function) -> list[ast.expr]:
    """What a function returns; nothing for one that only raises or is a placeholder."""
    if isinstance(function, ast.Lambda):
        return [function.body]
    returns = [each for each in _own_nodes(function) if isinstance(each, ast.Return)]
    last = [each.finalbody[-1] for each in _own_nodes(function) if isinstance(each, ast.Try) and each.finalbody]
    returns = [each for each in last if isinstance(each, ast.Return)] or returns  # `finally` has the last word
    return [each.value if each.value is not None else ast.Constant(value=None) for each in returns]


def _own_nodes(function: _Function) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions inside it."""
    waiting: list[ast.AST] = list(function.body) if isinstance(function.body, list) else [function.body]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            waiting.extend(ast.iter_child_nodes(node))


def truth(node: ast.expr, depth: int = 0) -> bool | None:
    """Whether an expression is always true or always false; None when it depends on something."""
    if depth > 20:  # noqa: PLR2004 - deeper than anybody writes
        return None
    match node:
        case ast.Constant(value=value):
            return None if value is NotImplemented or value is ... else bool(value)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = truth(operand, depth + 1)
            return None if inner is None else not inner
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return _compared(left, operator, right)
        case ast.BoolOp(op=operator, values=values):
            parts = [truth(value, depth + 1) for value in values]
            deciding = isinstance(operator, ast.Or)
            if deciding in parts:
                return deciding
            return None if None in parts else not deciding
        case ast.IfExp(body=one, orelse=other):
            first = truth(one, depth + 1)
            return first if first == truth(other, depth + 1) else None
        case ast.Call(func=ast.Name(id="bool"), args=[inner_node]):
            return truth(inner_node, depth + 1)
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, ast.Name(id="object")]):
            return True
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return bool(elements)
        case _:
            return None


def _compared(left: ast.expr, operator: ast.cmpop, right: ast.expr) -> bool | None:
    if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
        same = type(left.value) is type(right.value) and left.value == right.value
    elif ast.dump(left) == ast.dump(right):
        same = True
    else:
        return None
    if isinstance(operator, ast.Eq | ast.Is):
        return same
    return not same if isinstance(operator, ast.NotEq | ast.IsNot) else None


def _other(function: _Function) -> str:
    """The parameter that stands for the other side; empty when it can't be told (`*args`)."""
    return _parameters(function)[1]


def _ignores_other(function: _Function) -> bool:
    rest = function.args.vararg.arg if function.args.vararg is not None else ""
    other = _other(function) or rest
    return bool(other) and not any(
        isinstance(node, ast.Name) and node.id == other and isinstance(node.ctx, ast.Load)
        for part in _own_nodes(function)
        if not (isinstance(part, ast.Expr) or _is_to_itself(part, other))
        for node in (ast.walk(part) if isinstance(part, ast.expr | ast.withitem) else ())
    )


def _is_to_itself(node: ast.AST, other: str) -> bool:
    """`other == other` and `isinstance(other, object)` look at nothing."""
    return isinstance(node, ast.expr) and truth(node) is not None and other in ast.dump(node)


def _declines(answer: ast.expr) -> bool:
    """`NotImplemented`, or a question passed on to somebody else."""
    match answer:
        case ast.Name(id="NotImplemented"):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")))):
            return True
        case _:
            return False


def _asks_for_type_only(source: Source, function: _Function, answers: list[ast.expr], *, pleasing: bool) -> bool:
    """`if isinstance(other, int): return True`: equal to every number."""
    if not any(truth(answer) is pleasing for answer in answers):
        return False
    for node in _own_nodes(function):
        match node:
            case ast.If(
                test=ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(), types]), body=[ast.Return(value=value)]
            ):
                asked = types.elts if isinstance(types, ast.Tuple) else [types]
                plain = any(not source.names(each).isdisjoint(_PLAIN_TYPES) for each in asked)
                if plain and value is not None and truth(value) is pleasing:
                    return True
            case _:
                pass
    return False


def _types_asked_for(
    source: Source, function: _Function, answers: list[ast.expr], *, pleasing: bool | None
) -> list[ast.expr]:
    """The types of an `__eq__` that looks at the other's type and at nothing else; none for any other one."""
    other = _other(function)
    answers = [answer for answer in answers if not (isinstance(answer, ast.Name) and _declines(answer))]
    conditions = [each.test for each in _own_nodes(function) if isinstance(each, ast.If | ast.IfExp)]
    types: list[ast.expr] = []
    outcomes = {_if_of_type(source, answer, other, types) for answer in answers}
    alone = None not in {_if_of_type(source, condition, other, []) for condition in conditions}
    return types if alone and pleasing in outcomes and None not in outcomes and other and pleasing is not None else []


def _if_of_type(source: Source, node: ast.expr, other: str, types: list[ast.expr]) -> bool | None:
    """The answer for an object of the type that is asked for; None when the answer depends on anything else."""
    asked = _type_asked_for(source, node, other)
    if asked is not None:
        types.append(asked)
        return True
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _if_of_type(source, operand, other, types)
            return None if inner is None else not inner
        case ast.BoolOp(op=operator, values=values):
            parts = [_if_of_type(source, value, other, types) for value in values]
            if None in parts:
                return None
            return any(parts) if isinstance(operator, ast.Or) else all(parts)
        case ast.Call(func=ast.Name(id="bool"), args=[inner_node]):
            return _if_of_type(source, inner_node, other, types)
        case _:
            return truth(node)


def _type_asked_for(source: Source, node: ast.expr, other: str) -> ast.expr | None:
    match node:
        case ast.Call(func=func, args=[ast.Name(id=name), types]) if name == other:
            return types if "builtins.isinstance" in source.names(func) else None
        case ast.Call(func=func, args=[kind, types]) if _is_type_of(source, kind, other):
            return types if "builtins.issubclass" in source.names(func) else None
        case ast.Compare(left=left, ops=[ast.Is() | ast.Eq() | ast.In()], comparators=[right]):
            if _is_type_of(source, left, other):
                return right
            return left if _is_type_of(source, right, other) else None
        case _:
            return None


def _is_type_of(source: Source, node: ast.expr, name: str) -> bool:
    match node:
        case ast.Call(func=func, args=[ast.Name(id=given)]):
            return given == name and "builtins.type" in source.names(func)
        case ast.Attribute(value=ast.Name(id=given), attr="__class__"):
            return given == name
        case _:
            return False


def _foreign_types(source: Source, owner: ast.ClassDef | None, types: list[ast.expr]) -> dict[str, bool]:
    """The types that are neither the class itself nor its base, and whether each is Python's own.

    A class of the project may have to do with this one in a way that can't be seen here, which makes it no more than
    odd; with a base elsewhere it isn't even that.
    """
    found: dict[str, bool] = {}
    bases = {ast.dump(base) for base in owner.bases} if owner is not None else set()
    own = {"__class__", owner.name if owner is not None else ""}
    related = owner is None or any(not _is_pythons_own(source, base) for base in owner.bases)
    for each in _single_types(types):
        if _is_pythons_own(source, each):
            found[ast.unparse(each)] = True
        elif isinstance(each, ast.Name) and not related and each.id not in own and ast.dump(each) not in bases:
            found[each.id] = False
    return found


def _single_types(types: list[ast.expr]) -> Iterator[ast.expr]:
    for each in types:
        match each:
            case ast.Tuple(elts=inner) | ast.List(elts=inner) | ast.Set(elts=inner):
                yield from _single_types(inner)
            case ast.BinOp(left=left, right=right):
                yield from _single_types([left, right])
            case _:
                yield each


def _is_pythons_own(source: Source, node: ast.expr) -> bool:
    """A type of the built-ins or of the standard library; `None` is a value of its own, and honest to be equal to."""
    names = source.names(node) - {"types.NoneType", "builtins.type()"}
    return any(
        isinstance(getattr(builtins, name.removeprefix("builtins."), None), type)
        or (name.split(".")[0] in sys.stdlib_module_names - {"builtins"} and name.split(".")[-1][:1].isupper())
        for name in names
        if not name.endswith(("()", "[]"))
    )
