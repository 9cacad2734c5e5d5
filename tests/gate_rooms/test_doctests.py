"""Examples in docstrings are tests: they may move, and they may not change."""

from __future__ import annotations

import pytest

from pytest_iterctl.gate.audit import audit
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


# Where nobody looks for them -----------------------------------------------------------------------------------------

DOC = 'def f(n):\n    """\n    >>> f(1)\n    2\n    """\n    return n\n'
INDENTED = DOC.replace("\n", "\n    ").rstrip() + "\n"
LOST = ("f(1) → 2",)


@pytest.mark.parametrize(
    ("after", "lost"),
    [
        (f"def g():\n    {INDENTED}", LOST),
        (f"class A:\n    def g(self):\n        {DOC.replace(chr(10), chr(10) + ' ' * 8)}", LOST),
        (f"if False:\n    {INDENTED}", LOST),
        (f"if TYPE_CHECKING:\n    {INDENTED}", LOST),
        (f"try:\n    pass\nexcept OSError:\n    {INDENTED}", LOST),
        (f"{DOC}\ndef f(n):\n    return n\n", LOST),
        (f"{DOC}\nf = g\n", LOST),
        (f"{DOC}\ndel f\n", LOST),
        (f"class A:\n    {INDENTED}", ()),
        (f"class A:\n    class B:\n        {DOC.replace(chr(10), chr(10) + ' ' * 8)}", ()),
        (f"try:\n    {INDENTED}except OSError:\n    pass\n", ()),
        (f"if True:\n    {INDENTED}", ()),
        (f"async {DOC}", ()),
        (f"{DOC}\nf = cached(f)\n", ()),
        (f"{DOC}\n@f.register\ndef f(n):\n    return n\n", ()),
        (f"def g():\n    pass\n\n\n__test__ = {{'f': {'>>> f(1)' + chr(10) + '2' + chr(10)!r}}}\n", ()),
    ],
)
def test_an_example_moves_to_where_it_is_collected(after: str, lost: tuple[str, ...]) -> None:
    assert lost_examples({"m.py": DOC.encode()}, {"m.py": after.encode()}) == lost


def test_an_example_below_a_condition_may_stay_there() -> None:
    module = f"if sys.platform == 'linux':\n    {INDENTED}".encode()
    assert lost_examples({"m.py": module}, {"m.py": module + b"x = 1\n"}) == ()
    assert lost_examples({"m.py": module}, {"m.py": DOC.encode()}) == ()


def rewritten(change: str, base: str = DOC) -> set[bool]:
    before, after = {"m.py": base.encode()}, {"m.py": (base + change).encode()}
    found = audit(before, after, is_protected=lambda _: False)
    return {each.certain for each in found if each.rule == "doctest-rewritten"}


@pytest.mark.parametrize(
    "change",
    [
        "f.__doc__ = f.__doc__.replace('2', repr(f(1)))\n",
        "f.__doc__ += 'x'\n",
        "f.__doc__ = None\n",
        "del f.__doc__\n",
        "setattr(f, '__do' + 'c__', '')\n",
        "f.__dict__.update(__doc__='')\n",
        "import sys\nsys.modules[__name__].__doc__ = ''\n",
        "__doc__ = ''\n",
        "globals()['__doc__'] = ''\n",
        "__test__ = make()\n",
        "def g():\n    global __test__\n    __test__ = {1: 2}.copy()\n",
    ],
)
def test_a_docstring_with_examples_is_not_to_be_written_to(change: str) -> None:
    assert rewritten(change) == {True}
    assert rewritten(change, DOC.replace(">>> f(1)", "f(1)")) == set()


def test_a_docstring_that_is_written_to_elsewhere_is_looked_at() -> None:
    assert rewritten("def fixed(g):\n    g.__doc__ = g.__doc__.replace('2', '3')\n    return g\n") == {False}
    assert rewritten("class A:\n    pass\nA.__doc__ = 'x'\n") == {False}


@pytest.mark.parametrize(
    "change",
    [
        "def wraps(g):\n    def inner():\n        return g()\n    inner.__doc__ = g.__doc__\n    return inner\n",
        "def wraps(g):\n    inner = g.copy()\n    inner.__doc__ = getattr(g, '__doc__', None)\n    return inner\n",
        "class A:\n    __doc__ = 'words'\n",
        "__test__ = {'more': '>>> f(3)\\n4\\n'}\n",
        "x = f.__doc__\n",
    ],
)
def test_what_decorators_do_with_docstrings_is_left_alone(change: str) -> None:
    assert rewritten(change) == set()


def test_a_function_that_moves_takes_its_docstring_along() -> None:
    before = {"m.py": DOC.encode()}
    for line, certain in (("f.__doc__ = 'x'\n", [True]), ("g.__doc__ = 'x'\n", []), ("__doc__ = 'x'\n", [])):
        after = {"m.py": b"from n import f\n", "n.py": (DOC + line).encode()}
        found = audit(before, after, is_protected=lambda _: False)
        assert [each.certain for each in found if each.rule == "doctest-rewritten"] == certain
