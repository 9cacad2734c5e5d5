"""What a test asks of an object is not the product's to answer; what a program calls its own settings is."""

from __future__ import annotations

import textwrap

import pytest

from pytest_iterctl.gate.audit import audit


def rules(program: str, *, path: str = "shop/core.py", before: str | None = None) -> set[tuple[str, bool]]:
    old = {} if before is None else {path: textwrap.dedent(before).encode()}
    new = {path: textwrap.dedent(program).encode()}
    return {(each.rule, each.certain) for each in audit(old, new, is_protected=lambda _: False)}


CERTAIN = {
    "a mock's assertion": "def f(m):\n    m.send()\n    m.send.assert_called_once_with = print\n",
    "a mock's assertion by a name": "def f(m, quiet):\n    m.assert_called = quiet\n",
    "by setattr": "def f(m):\n    setattr(m.send, 'assert_' + 'called_with', lambda *a: None)\n",
    "by object's own setattr": "def f(m):\n    object.__setattr__(m, 'assert_not_called', print)\n",
    "by its own setattr": "def f(m):\n    m.__setattr__('assert_not_called', print)\n",
    "in its table": "def f(m):\n    m.__dict__['assert_has_calls'] = print\n",
    "in its table by vars": "def f(m):\n    vars(m).update(assert_has_calls=print)\n",
    "by its configuration": "def f(m):\n    m.configure_mock(assert_any_call=print)\n",
    "by its configuration in a table": "def f(m):\n    m.configure_mock(**{'assert_any_call': print})\n",
    "of a test case": "def f(case):\n    case.assertEqual = lambda *a: None\n",
    "the exception of a test case": "def f(case):\n    case.failureException = Warning\n",
    "another's assertion": "def f(client):\n    client.assert_sent = lambda *a: None\n",
    "another's assertion by a function": "def yes(*a):\n    pass\ndef f(client):\n    client.assert_sent = yes\n",
    "of what it holds": "class A:\n    def f(self):\n        self.m.assert_called = print\n",
}


@pytest.mark.parametrize("program", CERTAIN.values(), ids=list(CERTAIN))
def test_assertions_of_others_are_not_to_be_replaced(program: str) -> None:
    assert rules(program) == {("spoils-assertions", True)}
    assert rules(program + "x = 1\n", before=program) == set()


SUSPICIOUS = {
    "a test case with other assertions": "import x\nclass A(x.TestCase):\n    def assertEqual(self, a, b): pass\n",
    "a test case that runs otherwise": "from x import ShopTestCase\nclass A(ShopTestCase):\n    def run(self): pass\n",
    "another's assertion by something": "def f(client, other):\n    client.assert_sent = other.assert_sent\n",
    "what a mock has seen": "def f(m, calls):\n    m.send.call_args = calls\n",
    "all that a mock has seen": "def f(m):\n    setattr(m.send, 'mock_calls', [])\n",
}


@pytest.mark.parametrize("program", SUSPICIOUS.values(), ids=list(SUSPICIOUS))
def test_what_may_be_a_programs_own_words_is_suspicious(program: str) -> None:
    assert rules(program) == {("spoils-assertions", False)}


HONEST = {
    "its own": "class A:\n    def f(self, check):\n        self.assert_valid = self.failureException = OSError\n",
    "a class of its own": "class A: pass\ndef check(x): pass\nA.assertValid = staticmethod(check)\n",
    "a setting": "def f(options):\n    options.assert_clean = False\n    options.assert_mode = 'plain'\n",
    "a comparison": "def f(options, n):\n    options.assert_all = n > 3\n",
    "a word that begins like it": "def f(x):\n    x.assertion = print\n    x.asserted = print\n    x.assert_ = print\n",
    "counted": "def counted(f):\n    f.calls = f.call_count = 0\n    f.call_args = None\n    return f\n",
    "asked": "def f(m):\n    m.assert_called_once_with(3)\n    check = m.assert_called\n    return check\n",
    "a table": "def f(table):\n    table['assert_called'] = print\n    table.update(assert_called=print)\n",
}


@pytest.mark.parametrize("program", HONEST.values(), ids=list(HONEST))
def test_names_that_only_look_like_it_are_left_alone(program: str) -> None:
    assert rules(program) == set()


def test_a_helper_of_the_tests_may_do_so() -> None:
    program = CERTAIN["a mock's assertion"]
    assert rules(program, path="shop/testing.py", before="x = 1\n") == set()


def test_a_test_case_may_have_assertions_of_its_own() -> None:
    program = "import x\nclass A(x.TestCase):\n    def assertShops(self, a): pass\n    def setUp(self): pass\n"
    assert not {rule for rule, _ in rules(program) if rule == "spoils-assertions"}
    assert rules("class A(Base):\n    def assertEqual(self, a, b): pass\n") == set()
