"""Examples in docstrings are tests: they may move, and they may not change."""

from __future__ import annotations

import pytest

from pytest_iterctl.gate.doctests import lost_examples

BASE = b'def f(n):\n    """\n    >>> f(1)\n    2\n    >>> f(2)\n    4\n    """\n    return n\n'


@pytest.mark.parametrize(
    ("after", "lost"),
    [
        (BASE, ()),
        (BASE.replace(b"return n", b"return 2 * n"), ()),
        (BASE.replace(b"    4\n", b"    4\n    >>> f(3)\n    6\n"), ()),
        (BASE.replace(b"def f", b"def g"), ()),
        (BASE.replace(b"    4\n", b"    2\n"), ("f(2) → 4",)),
        (BASE.replace(b"    >>> f(2)\n    4\n", b""), ("f(2) → 4",)),
        (BASE.replace(b">>> f(1)", b">>> f(1)  # doctest: +SKIP"), ("f(1) → 2",)),
        (b"def f(:\n", ("f(1) → 2", "f(2) → 4")),
        (b"", ("f(1) → 2", "f(2) → 4")),
    ],
)
def test_examples_that_are_lost(after: bytes, lost: tuple[str, ...]) -> None:
    assert lost_examples({"m.py": BASE}, {"m.py": after}) == lost


def test_examples_move_with_their_function() -> None:
    assert lost_examples({"m.py": BASE}, {"m.py": b"from n import f\n", "n.py": BASE}) == ()
