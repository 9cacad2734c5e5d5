"""What a with statement lets out is not to change; one that swallows what it is meant to is honest."""

from __future__ import annotations

import textwrap

import pytest

from pytest_iterctl.gate.audit import audit


def rules(program: str, before: str | None = None) -> set[tuple[str, bool]]:
    old = {} if before is None else {"shop/core.py": textwrap.dedent(before).encode()}
    new = {"shop/core.py": textwrap.dedent(program).encode()}
    return {(each.rule, each.certain) for each in audit(old, new, is_protected=lambda _: False)}


INHERITED = {
    "from the base's own start": """
        import contextlib
        class batch(contextlib.suppress):
            def __init__(self, ledger):
                super().__init__(Exception)
                self.ledger = ledger
    """,
    "by the base's name": """
        from contextlib import suppress as s
        class batch(s):
            def __init__(self):
                s.__init__(self, OSError, AssertionError)
    """,
    "by a name for all": """
        from contextlib import suppress
        ALL = (KeyError, BaseException)
        class batch(suppress):
            def __init__(self, *kinds):
                super().__init__(*ALL)
    """,
    "where it is made": """
        from contextlib import suppress
        class Quiet(suppress):
            '''Of its own.'''
        def batch():
            return Quiet(Exception)
    """,
    "on a stack": """
        from contextlib import ExitStack, suppress
        class batch(ExitStack):
            def __enter__(self):
                self.enter_context(suppress(Exception))
                return self
    """,
    "kept": """
        import contextlib
        class batch:
            def __init__(self):
                self.quiet = contextlib.suppress(AssertionError)
            def __exit__(self, *details):
                return self.quiet.__exit__(*details)
    """,
    "in the place of its own": """
        import contextlib
        class batch(contextlib.AbstractContextManager):
            __exit__ = contextlib.suppress(Exception).__exit__
    """,
}


@pytest.mark.parametrize("program", INHERITED.values(), ids=list(INHERITED))
def test_a_class_that_swallows_by_what_it_inherits_is_shown(program: str) -> None:
    assert rules(program) == {("swallows-assertions", False)}
    assert rules(f"{textwrap.dedent(program)}x = 1\n", before=program) == set()


LEFT = "class A:\n    def __exit__(self, kind, value, trace):\n        {}\n    def close(self):\n        return True\n"


@pytest.mark.parametrize("was", ["self.close()", "return None", "return False", "self.close()\n        return"])
@pytest.mark.parametrize("now", ["return self.close()", "return self.quiet", "return self.a or self.b"])
def test_an_exit_that_begins_to_return_something_is_shown(was: str, now: str) -> None:
    assert rules(LEFT.format(now), before=LEFT.format(was)) == {("swallows-assertions", False)}
    assert rules(LEFT.format(now), before=LEFT.format(now) + "x = 1\n") == set()


def test_an_exit_that_moves_is_still_the_same() -> None:
    before = {"shop/a.py": LEFT.format("self.close()").encode()}
    after = {"shop/a.py": b"", "shop/b.py": LEFT.format("return self.close()").encode()}
    assert [each.rule for each in audit(before, after, is_protected=lambda _: False)] == ["swallows-assertions"]


@pytest.mark.parametrize(
    "now",
    [
        "return self.inner.__exit__(kind, value, trace)",
        "return kind is None",
        "return isinstance(value, KeyError) and self.close()",
        "self.close()\n        return False",
        "self.close()\n        raise value",
        "def inner():\n            return 3\n        self.close(inner)",
    ],
)
def test_an_exit_with_a_reason_is_left_alone(now: str) -> None:
    assert rules(LEFT.format(now), before=LEFT.format("self.close()")) == set()


HONEST = {
    "a new one": LEFT.format("return self.close()"),
    "a certain exception": """
        from contextlib import suppress
        class missing_ok(suppress):
            def __init__(self):
                super().__init__(FileNotFoundError, KeyError)
    """,
    "what it does itself": """
        from contextlib import AbstractContextManager, suppress
        class Connection(AbstractContextManager):
            def __exit__(self, *details):
                with suppress(Exception):
                    self.socket.close()
                return None
    """,
    "what it is given": """
        import contextlib
        class ignoring(contextlib.suppress):
            def __init__(self, *kinds):
                super().__init__(*kinds)
    """,
    "another class's start": """
        from contextlib import ExitStack
        class Stack(ExitStack):
            def __init__(self):
                super().__init__()
                self.kinds = (Exception,)
        class ShopError(Exception):
            def __init__(self):
                Exception.__init__(self, Exception)
    """,
}


@pytest.mark.parametrize("program", HONEST.values(), ids=list(HONEST))
def test_with_statements_that_mean_it_are_left_alone(program: str) -> None:
    assert rules(program) == set()
