"""The project's own frames in stack traces of many languages: which ones, in which order, by which name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.feedback.failure_text import cause_in, exception_in
from pytest_iterctl.feedback.stack_text import frames_in

PYTHON = """Traceback (most recent call last):
  File "/venv/lib/python3.12/site-packages/runner/main.py", line 80, in run
    call()
  File "tests/test_cart.py", line 12, in test_total
    assert cart.total() == 3
           ^^^^^^^^^^^^
  File "shop/cart.py", line 40, in total
    return self.lines[0]
  File "<frozen abc>", line 3, in inner
IndexError: list index out of range
"""
PYTHON_CHAIN = """Traceback (most recent call last):
  File "shop/store.py", line 5, in load
    open(path)
FileNotFoundError: [Errno 2] No such file or directory: 'x'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "tests/test_store.py", line 9, in test_load
    load()
  File "shop/store.py", line 7, in load
    raise StoreError("no store") from error
shop.errors.StoreError: no store
"""
PYTEST_CHAIN = """E   KeyError: 'a'

x.py:3: KeyError

During handling of the above exception, another exception occurred:
E   ValueError: no a

x.py:5: ValueError
"""
PYTEST_SHORT = """tests/test_cart.py:12: in test_total
    assert cart.total() == 3
shop/cart.py:40: in total
    return self.lines[0]
E   IndexError: list index out of range
"""
PYTEST_LONG = """cart = <Cart>

    def test_total(cart):
>       assert cart.total() == 3

tests/test_cart.py:12:
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _

self = <Cart>

    def total(self):
        first = 0
>       return self.lines[first]
E       IndexError: list index out of range

shop/cart.py:40: IndexError
"""
EXCEPTION_GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "tests/test_group.py", line 4, in test_it
  |     raise ExceptionGroup("two", [ValueError(1)])
  | ExceptionGroup: two (1 sub-exception)
  +-+---------------- 1 ----------------
    | ValueError: 1
    +------------------------------------
"""
JEST = """Error: expect(received).toBe(expected) // Object.is equality

Expected: 4
Received: 3
    at Object.toBe (/w/shop/src/cart.test.ts:10:25)
    at total (src/cart.ts:4:11)
    at Object.<anonymous> (src/cart.test.ts:10:5)
    at Promise.then.completed (/w/shop/node_modules/jest-circus/build/utils.js:298:28)
    at new Promise (<anonymous>)
    at processTicksAndRejections (node:internal/process/task_queues:95:5)
"""
NODE = """Error [ERR_TEST_FAILURE]: Cannot read properties of undefined (reading 'x')
    at async Promise.all (index 0) {
  code: 'ERR_TEST_FAILURE',
  failureType: 'testCodeFailure',
  cause: TypeError [Error]: Cannot read properties of undefined (reading 'x')
      at boom (file:///w/shop/cart.js:2:43)
      at TestContext.<anonymous> (file:///w/shop/cart.test.js:7:24)
      at Test.runInAsyncScope (node:async_hooks:206:9)
      at async Suite.run (node:internal/test_runner/test:1135:7)
}
"""
VITEST = """AssertionError: expected 3 to be 4 // Object.is equality
 > src/cart.test.ts:10:17
"""
FIREFOX = """total@src/cart.js:4:11
@src/cart.test.js:10:5
"""
WINDOWS_JS = "    at total (C:\\w\\shop\\src\\cart.js:4:11)\n    at C:\\w\\shop\\node_modules\\x\\y.js:1:1"
JAVA = """java.lang.IllegalStateException: no cart
\tat java.base/java.util.Objects.requireNonNull(Objects.java:233)
\tat app//com.acme.Cart.total(Cart.java:40)
\tat com.acme.CartTest.lambda$total$0(CartTest.java:12) ~[test-classes/:na]
\tat com.acme.CartTest.total(CartTest.java:11)
\tat org.junit.platform.engine.Node.execute(Node.java:5)
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""
JAVA_CAUSE = """java.lang.RuntimeException: could not load
\tat com.acme.Store.load(Store.java:9)
\tat com.acme.StoreTest.loads(StoreTest.java:7)
Caused by: java.io.IOException: disk is full
\tat java.base/java.io.File.open(File.java:1)
\tat com.acme.Disk.write(Disk.java:77)
\t... 3 more
"""
KOTLIN = """org.opentest4j.AssertionFailedError: expected: <3> but was: <4>
\tat org.junit.jupiter.api.AssertionUtils.fail(AssertionUtils.java:55)
\tat com.acme.CartTest.total(CartTest.kt:12)
"""
GO_TEST = "    cart_test.go:17: got 3, want 4"
GO_TESTIFY = """        \tError Trace:\t/w/shop/cart_test.go:17
        \t            \t\t\t\t/w/shop/helper_test.go:4
        \tError:      \tNot equal:
        \t            \texpected: 4
        \t            \tactual  : 3
        \tTest:       \tTestTotal
"""
GO_PANIC = """panic: runtime error: index out of range [5] with length 3 [recovered]

goroutine 6 [running]:
testing.tRunner.func1.2({0x1, 0x2})
\t/usr/local/go/src/testing/testing.go:1545 +0x238
shop/cart.(*Cart).Total(...)
\t/w/shop/cart.go:40
shop/cart.TestTotal(0xc0001)
\t/w/shop/cart_test.go:12 +0x1d
"""
RUST = """thread 'tests::total' panicked at src/cart.rs:40:9:
assertion `left == right` failed
  left: 3
 right: 4
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
"""
RUST_BACKTRACE = """thread 'tests::total' panicked at 'no cart', src/cart.rs:40:9
stack backtrace:
   0: rust_begin_unwind
             at /rustc/90b35a623/library/std/src/panicking.rs:578:5
   1: shop::cart::Cart::total
             at ./src/cart.rs:40:9
   2: shop::tests::total
             at ./src/lib.rs:12:20
   3: core::ops::function::FnOnce::call_once
             at /rustc/90b35a623/library/core/src/ops/function.rs:250:5
"""
GTEST = """tests/cart_test.cc:42: Failure
Expected equality of these values:
  Total(cart)
    Which is: 3
  4
"""
GTEST_WINDOWS = "c:\\w\\cart_test.cc(42): error: Value of: ok\n  Actual: false\nExpected: true"
CATCH = """tests/cart.cpp:12: FAILED:
  REQUIRE( total(cart) == 4 )
with expansion:
  3 == 4
"""
DOCTEST = """tests/cart.cpp(12): ERROR: CHECK( total(cart) == 4 ) is NOT correct!
  values: CHECK( 3 == 4 )
"""
GDB = "#0  0x00007f in total (cart=0x0) at src/cart.c:40\n#1  0x00008f in main () at tests/cart_test.c:12"
RSPEC = """Failure/Error: expect(cart.total).to eq(4)

  expected: 4
       got: 3
# ./lib/cart.rb:40:in `total'
# ./spec/cart_spec.rb:12:in `block (2 levels) in <top (required)>'
# /home/u/.gem/ruby/3.2.0/gems/rspec-core-3.12/lib/rspec/core/example.rb:263:in `run'
"""
MINITEST = """Expected: 4
  Actual: 3
test/cart_test.rb:12:in 'CartTest#test_total'
"""
PHPUNIT = """CartTest::testTotal
Failed asserting that 3 matches expected 4.

/w/shop/src/Cart.php:40
/w/shop/tests/CartTest.php:12
/w/shop/vendor/phpunit/phpunit/src/TestCase.php:1
"""
PHP_TRACE = """Exception: no cart in /w/shop/src/Cart.php:40
Stack trace:
#0 /w/shop/src/Cart.php(44): Cart->check()
#1 /w/shop/tests/CartTest.php(12): Cart->total()
#2 /w/shop/vendor/phpunit/phpunit/src/TestCase.php(1): run()
"""
CSHARP = """System.InvalidOperationException : no cart
   at Shop.Cart.Total(Int32 count) in /w/shop/src/Cart.cs:line 40
   at Shop.Tests.CartTests.Total() in /w/shop/tests/CartTests.cs:line 12
   at System.RuntimeMethodHandle.InvokeMethod(Object target)
"""
SWIFT = (
    "/w/shop/Tests/CartTests.swift:12: error: "
    '-[T.CartTests testTotal] : XCTAssertEqual failed: ("3") is not equal to ("4")'
)
ELIXIR = """     test/cart_test.exs:12
     ** (MatchError) no match of right hand side value: nil
     code: assert Cart.total(cart) == 4
"""
PERL = "#   Failed test 'total'\n#   at t/cart.t line 12.\n#          got: '3'\n#     expected: '4'"
BATS = "(in test file test/cart.bats, line 12)\n  `[ $status -eq 0 ]' failed"
LUA = "./cart.lua:40: in function 'total'\n./spec/cart_spec.lua:12: in function <./spec/cart_spec.lua:10>"
DART = "package:matcher  expect\ntest/cart_test.dart 12:5  main.<fn>"


@pytest.mark.parametrize(
    ("text", "frames"),
    [
        pytest.param(PYTHON, ["tests/test_cart.py:12 test_total", "shop/cart.py:40 total"], id="python"),
        pytest.param(PYTHON_CHAIN, ["tests/test_store.py:9 test_load", "shop/store.py:7 load"], id="chained"),
        pytest.param(PYTEST_SHORT, ["tests/test_cart.py:12 test_total", "shop/cart.py:40 total"], id="pytest short"),
        pytest.param(PYTEST_LONG, ["tests/test_cart.py:12 test_total", "shop/cart.py:40 total"], id="pytest long"),
        pytest.param(EXCEPTION_GROUP, ["tests/test_group.py:4 test_it"], id="exception group"),
        pytest.param(
            JEST,
            [
                "src/cart.test.ts:10 Object.<anonymous>",
                "src/cart.ts:4 total",
                "/w/shop/src/cart.test.ts:10 Object.toBe",
            ],
            id="jest",
        ),
        pytest.param(
            NODE, ["/w/shop/cart.test.js:7 TestContext.<anonymous>", "/w/shop/cart.js:2 boom"], id="node --test"
        ),
        pytest.param(VITEST, ["src/cart.test.ts:10 "], id="vitest"),
        pytest.param(FIREFOX, ["src/cart.test.js:10 ", "src/cart.js:4 total"], id="firefox"),
        pytest.param(WINDOWS_JS, ["C:\\w\\shop\\src\\cart.js:4 total"], id="windows"),
        pytest.param(
            JAVA,
            [
                "CartTest.java:11 com.acme.CartTest.total",
                "CartTest.java:12 com.acme.CartTest.lambda$total$0",
                "Cart.java:40 com.acme.Cart.total",
            ],
            id="java",
        ),
        pytest.param(JAVA_CAUSE, ["Disk.java:77 com.acme.Disk.write"], id="java caused by"),
        pytest.param(KOTLIN, ["CartTest.kt:12 com.acme.CartTest.total"], id="kotlin"),
        pytest.param(GO_TEST, ["cart_test.go:17 "], id="go"),
        pytest.param(GO_TESTIFY, ["/w/shop/helper_test.go:4 ", "/w/shop/cart_test.go:17 "], id="testify"),
        pytest.param(
            GO_PANIC,
            ["/w/shop/cart_test.go:12 shop/cart.TestTotal", "/w/shop/cart.go:40 shop/cart.(*Cart).Total"],
            id="go panic",
        ),
        pytest.param(RUST, ["src/cart.rs:40 "], id="rust"),
        pytest.param(
            RUST_BACKTRACE,
            ["src/lib.rs:12 shop::tests::total", "src/cart.rs:40 shop::cart::Cart::total"],
            id="rust backtrace",
        ),
        pytest.param(GTEST, ["tests/cart_test.cc:42 "], id="gtest"),
        pytest.param(GTEST_WINDOWS, ["c:\\w\\cart_test.cc:42 "], id="gtest on windows"),
        pytest.param(CATCH, ["tests/cart.cpp:12 "], id="catch2"),
        pytest.param(DOCTEST, ["tests/cart.cpp:12 "], id="doctest"),
        pytest.param(GDB, ["tests/cart_test.c:12 main", "src/cart.c:40 total"], id="gdb"),
        pytest.param(
            RSPEC,
            ["spec/cart_spec.rb:12 block (2 levels) in <top (required)>", "lib/cart.rb:40 total"],
            id="rspec",
        ),
        pytest.param(MINITEST, ["test/cart_test.rb:12 CartTest#test_total"], id="minitest"),
        pytest.param(PHPUNIT, ["/w/shop/tests/CartTest.php:12 ", "/w/shop/src/Cart.php:40 "], id="phpunit"),
        pytest.param(PHP_TRACE, ["/w/shop/tests/CartTest.php:12 ", "/w/shop/src/Cart.php:44 "], id="php"),
        pytest.param(
            CSHARP,
            [
                "/w/shop/tests/CartTests.cs:12 Shop.Tests.CartTests.Total()",
                "/w/shop/src/Cart.cs:40 Shop.Cart.Total(Int32 count)",
            ],
            id="c#",
        ),
        pytest.param(SWIFT, ["/w/shop/Tests/CartTests.swift:12 "], id="swift"),
        pytest.param(ELIXIR, ["test/cart_test.exs:12 "], id="elixir"),
        pytest.param(PERL, ["t/cart.t:12 "], id="perl"),
        pytest.param(BATS, ["test/cart.bats:12 "], id="bats"),
        pytest.param(LUA, ["spec/cart_spec.lua:12 ./spec/cart_spec.lua:10", "cart.lua:40 total"], id="lua"),
        pytest.param(DART, ["test/cart_test.dart:12 main.<fn>"], id="dart"),
    ],
)
def test_the_projects_own_frames_are_found_the_deepest_last(text: str, frames: list[str]) -> None:
    assert [f"{frame.path}:{frame.line} {frame.function}" for frame in frames_in(text)] == frames


@pytest.mark.parametrize("text", [PYTHON, PYTEST_SHORT])
def test_python_frames_carry_their_statement(text: str) -> None:
    assert [frame.source for frame in frames_in(text)] == ["assert cart.total() == 3", "return self.lines[0]"]


def test_a_marked_line_is_the_statement() -> None:
    assert [frame.source for frame in frames_in(PYTEST_LONG)] == [
        "assert cart.total() == 3",
        "return self.lines[first]",
    ]
    code_frame = (
        "  9 | test('total', () => {\n> 10 |   expect(total()).toBe(4)\n     at Object.<anonymous> (a.test.js:10:5)"
    )
    assert frames_in(code_frame)[0].source == "expect(total()).toBe(4)"


@pytest.mark.parametrize(
    "text",
    [
        "nothing to see",
        "could not connect to db.example.com:5432 at 12:30:59",
        "see https://example.com/guide.html:12",
        '  File "/usr/lib/python3.11/json/decoder.py", line 9, in loads',
        "    at run (/w/node_modules/jest/x.js:1:1)",
        "    at Module._compile (node:internal/modules/cjs/loader:1105:14)",
        "\tat org.junit.Assert.fail(Assert.java:89)",
        "\tat java.base/java.lang.reflect.Method.invoke(Method.java:580)",
        "\t/root/go/pkg/mod/github.com/stretchr/testify@v1.8.0/assert/a.go:12",
        "   at /home/u/.cargo/registry/src/x/lib.rs:3:1",
    ],
)
def test_what_is_not_the_projects_is_no_frame(text: str) -> None:
    assert frames_in(text) == ()


def test_a_project_in_a_folder_below_usr_is_a_project() -> None:
    assert frames_in("    at total (/usr/src/app/cart.js:4:11)")[0].path == "/usr/src/app/cart.js"


def test_paths_below_the_root_are_relative_to_it() -> None:
    assert [frame.path for frame in frames_in(NODE, "/w/shop")] == ["cart.test.js", "cart.js"]
    assert [frame.path for frame in frames_in(NODE, "/w/sho")] == ["/w/shop/cart.test.js", "/w/shop/cart.js"]


def test_what_is_below_the_root_is_the_projects_wherever_that_lies() -> None:
    root = "/home/u/go/src/example.com/shop"
    text = f"panic: no\n\nshop.Total(...)\n\t{root}/cart.go:40\nlib.F(...)\n\t{root}/vendor/lib/f.go:3 +0x1"
    assert [frame.path for frame in frames_in(text, root)] == ["cart.go"]
    assert frames_in("    at f (/x/w/shop/a.js:1:2)", "/w")[0].path == "/x/w/shop/a.js"


def test_a_deep_stack_keeps_both_ends() -> None:
    text = "Traceback (most recent call last):\n" + "".join(f'  File "a{n}.py", line {n}, in f\n' for n in range(1, 90))
    frames = frames_in(text)
    assert len(frames) == 12
    assert (frames[0].path, frames[-1].path) == ("a1.py", "a89.py")


def test_a_recursion_is_one_frame() -> None:
    assert len(frames_in('  File "a.py", line 3, in f\n    f()\n' * 200)) == 1


@given(st.text(alphabet=st.sampled_from("aA./:() \n\t0123\"'`<>,=@#[]\\atinle"), max_size=300))
def test_any_text_gives_frames_or_none(text: str) -> None:
    for frame in frames_in(text, "/w"):
        assert frame.path
        assert "\n" not in frame.path + frame.function + frame.source


@pytest.mark.parametrize("piece", ["at ", "a/", ".py", "a.py:1", "(", "at a (", 'File "', "#1 ", "::", "@", " in "])
def test_long_runs_of_anything_are_read_in_linear_time(piece: str) -> None:
    frames_in(piece * 20_000)
    frames_in((piece * 300 + "\n") * 300)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (PYTHON, "IndexError"),
        (PYTHON_CHAIN, "shop.errors.StoreError"),
        (PYTEST_LONG, "IndexError"),
        (EXCEPTION_GROUP, "ExceptionGroup"),
        (NODE, "TypeError"),
        ("AssertionError [ERR_ASSERTION]: 3 == 4", "AssertionError"),
        (JAVA, "java.lang.IllegalStateException"),
        (KOTLIN, "org.opentest4j.AssertionFailedError"),
        (GO_PANIC, "panic"),
        (RUST, "panic"),
        (CSHARP, "System.InvalidOperationException"),
        ("NoMethodError: undefined method 'x' for nil", "NoMethodError"),
        ("PHPUnit\\Framework\\ExpectationFailedException: no", "PHPUnit\\Framework\\ExpectationFailedException"),
        (GTEST, ""),
        (RSPEC, ""),
    ],
)
def test_the_exception_is_named(text: str, kind: str) -> None:
    assert exception_in(text) == kind


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (PYTHON_CHAIN, "FileNotFoundError: [Errno 2] No such file or directory: 'x'"),
        (
            PYTEST_CHAIN,
            "KeyError: 'a'",
        ),
        (JAVA_CAUSE, "java.io.IOException: disk is full"),
        (
            "Error: outer\n    at f (a.js:1:1) {\n  [cause]: TypeError [Error]: inner\n      at g (a.js:2:2)",
            "TypeError: inner",
        ),
        ("System.Exception : outer\n---- System.ArgumentException : inner", "System.ArgumentException : inner"),
        (PYTHON, ""),
        (JAVA, ""),
    ],
)
def test_the_first_of_a_chain_is_the_cause(text: str, cause: str) -> None:
    assert cause_in(text) == cause
