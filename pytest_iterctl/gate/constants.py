"""Text that a program spells out, however it spells it: joined, turned round, decoded, or put together from numbers."""

from __future__ import annotations

import ast
import base64
import binascii
import codecs
from collections.abc import Callable

__all__ = ["Lookup", "spelt"]

#: The text of a name where that is known.
Lookup = Callable[[ast.Name], str | None]

_LONGEST = 20_000
_DEEPEST = 60
_DECODERS: dict[str, Callable[[bytes], bytes]] = {
    "b64decode": base64.b64decode,
    "b32decode": base64.b32decode,
    "unhexlify": binascii.unhexlify,
}
_PLAIN_METHODS = {"lower", "upper", "strip", "title", "capitalize", "swapcase"}


def spelt(node: ast.expr | None, lookup: Lookup, depth: int = 0) -> str | None:
    """The text that an expression always has; None when that isn't known. Bytes are read as Latin-1."""
    if node is None or depth > _DEEPEST:
        return None
    match node:
        case ast.Constant(value=str() as text):
            found: str | None = text
        case ast.Constant(value=bytes() as data):
            found = data.decode("latin-1")
        case ast.Name():
            found = lookup(node)
        case ast.BinOp(op=ast.Add()):
            found = _sum(node, lookup, depth)
        case ast.JoinedStr(values=values):
            found = _all(values, lookup, depth)
        case ast.FormattedValue(value=value, format_spec=None):
            found = spelt(value, lookup, depth + 1)
        case ast.Subscript(value=value, slice=ast.Slice(lower=None, upper=None, step=ast.UnaryOp())):
            inner = spelt(value, lookup, depth + 1)
            found = None if inner is None else inner[::-1]
        case ast.Call():
            found = _called(node, lookup, depth)
        case _:
            found = None
    return found if found is None or len(found) <= _LONGEST else None


def _sum(node: ast.BinOp, lookup: Lookup, depth: int) -> str | None:
    parts: list[ast.expr] = []
    left: ast.expr = node
    while isinstance(left, ast.BinOp) and isinstance(left.op, ast.Add):  # `a + b + c` is nested as deep as it is long
        parts.append(left.right)
        left = left.left
    return _all([left, *reversed(parts)], lookup, depth)


def _all(nodes: list[ast.expr], lookup: Lookup, depth: int, between: str = "") -> str | None:
    texts = []
    for node in nodes:
        text = spelt(node, lookup, depth + 1)
        if text is None:
            return None
        texts.append(text)
    return between.join(texts)


def _called(call: ast.Call, lookup: Lookup, depth: int) -> str | None:
    match call:
        case ast.Call(func=ast.Name(id="chr"), args=[ast.Constant(value=int() as code)]):
            return chr(code) if 0 <= code < 0x110000 else None  # noqa: PLR2004 - where Unicode ends
        case ast.Call(func=ast.Name(id="str"), args=[ast.expr() as inner, *_]):
            return spelt(inner, lookup, depth + 1)
        case ast.Call(
            func=ast.Name(id="bytes" | "bytearray"), args=[ast.List(elts=elements) | ast.Tuple(elts=elements)]
        ):
            return _from_numbers(elements)
        case ast.Call(
            func=ast.Attribute(value=value, attr="join"), args=[ast.List(elts=parts) | ast.Tuple(elts=parts)]
        ):
            between = spelt(value, lookup, depth + 1)
            return None if between is None else _all(parts, lookup, depth, between)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="bytes"), attr="fromhex"), args=[digits]):
            return _decoded(binascii.unhexlify, spelt(digits, lookup, depth + 1))
        case ast.Call(func=ast.Attribute(value=ast.Name(id="codecs"), attr="decode"), args=[text, name]):
            return _rotated(spelt(text, lookup, depth + 1), spelt(name, lookup, depth + 1))
        case ast.Call(func=ast.Attribute(value=value, attr="decode" | "encode")):
            return spelt(value, lookup, depth + 1)
        case ast.Call(func=ast.Attribute(value=value, attr="replace"), args=[old, new]):
            return _replaced(*(spelt(each, lookup, depth + 1) for each in (value, old, new)))
        case ast.Call(func=ast.Attribute(value=value, attr=method), args=[]) if method in _PLAIN_METHODS:
            text_before = spelt(value, lookup, depth + 1)
            return None if text_before is None else str(getattr(text_before, method)())
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[inner]) if name in _DECODERS:
            return _decoded(_DECODERS[name], spelt(inner, lookup, depth + 1))
        case _:
            return None


def _from_numbers(elements: list[ast.expr]) -> str | None:
    numbers = [each.value for each in elements if isinstance(each, ast.Constant) and isinstance(each.value, int)]
    whole = len(numbers) == len(elements) and all(0 <= number < 256 for number in numbers)  # noqa: PLR2004 - a byte
    return bytes(numbers).decode("latin-1") if whole else None


def _decoded(decoder: Callable[[bytes], bytes], text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return decoder(text.encode("latin-1")).decode("latin-1")
    except (ValueError, UnicodeError):
        return None


def _rotated(text: str | None, name: str | None) -> str | None:
    return codecs.encode(text, "rot13") if text is not None and name in {"rot13", "rot_13"} else None


def _replaced(text: str | None, old: str | None, new: str | None) -> str | None:
    if text is None or not old or new is None or len(text) * len(new) > _LONGEST:
        return None
    return text.replace(old, new)
