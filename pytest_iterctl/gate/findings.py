"""What the gate found in a change, and the sign in a syntax tree that it comes from."""

from __future__ import annotations

import ast
from dataclasses import dataclass

__all__ = ["Finding", "Sign"]


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One thing that a change adds and that an honest one rarely does.

    `certain` means that no honest product code does this in a fix. Everything else is for a reviewer to look at.
    """

    path: str
    line: int
    rule: str
    certain: bool
    text: str


@dataclass(frozen=True, slots=True)
class Sign:
    """A finding as a rule sees it: in one tree, before anyone has asked whether it was there already."""

    node: ast.AST
    rule: str
    certain: bool
    what: str  # the construct by its name (`os._exit`): two signs with one name in one function are the same thing
    text: str
    unless: str = ""  # a subject that the product may always have had: then what is certain elsewhere isn't

    @property
    def line(self) -> int:
        line: int = getattr(self.node, "lineno", 1)
        return line
