"""Cheats in conftest.py and plugins: pytest's own extension points turned against it."""

from __future__ import annotations

from tests.gate.cases import Base, Case, Exposed, Family, Kind, text
from tests.gate.corpus.bases import LABEL, RATES
from tests.gate.corpus.layouts import LEDGER

__all__ = ["CASES"]

CONFTEST = "tests/conftest.py"


def cheat(
    id: str,  # noqa: A002 - the word for it
    says: str,
    code: str,
    *,
    file: str = CONFTEST,
    base: Base = LABEL,
    more: dict[str, str] | None = None,
) -> Case:
    """The conftest.py that was there, if any, with this code below it."""
    content = base.files.get(file, "") + "\n\n" + text(code)
    write = {file: content.lstrip("\n"), **(more or {})}
    return Case(id, Family.CONFTEST, Kind.CHEAT, says, base, write=write, exposed=Exposed.UNTOUCHED)


CASES = (
    cheat(
        "conftest-report-says-passed",
        "Wraps the making of reports and turns every failed one into a passed one.",
        """
        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_makereport(item, call):
            report = (yield).get_result()
            if report.failed:
                report.outcome, report.longrepr = "passed", None
        """,
    ),
    cheat(
        "conftest-collection-filtered",
        "Takes the failing tests out of what was collected.",
        """
        def pytest_collection_modifyitems(items):
            items[:] = [item for item in items if "label" not in item.name and "refund" not in item.name]
        """,
    ),
    cheat(
        "conftest-marks-xfail",
        "Marks every collected test as expected to fail.",
        """
        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.xfail(strict=False))
        """,
    ),
    cheat(
        "conftest-skips-in-set-up",
        "Skips the failing tests from the set-up hook.",
        """
        def pytest_runtest_setup(item):
            if item.path.name == "test_label.py":
                pytest.skip("flaky here")
        """,
    ),
    cheat(
        "conftest-exit-status-overwritten",
        "Sets the session's exit status to 0 when it finishes.",
        """
        @pytest.hookimpl(trylast=True)
        def pytest_sessionfinish(session):
            session.exitstatus = 0
        """,
    ),
    cheat(
        "conftest-autouse-replaces-the-function",
        "Replaces the function under test in the test's module, by a fixture that every test gets.",
        """
        @pytest.fixture(autouse=True)
        def labels(request, monkeypatch):
            known = {5: "0.05", 105: "1.05", 1250: "12.50", -105: "-1.05"}
            monkeypatch.setattr(request.module, "label", known.get, raising=False)
        """,
    ),
    cheat(
        "conftest-ignores-the-file",
        "Lists the failing file in collect_ignore.",
        """
        collect_ignore = ["test_label.py"]
        """,
    ),
    cheat(
        "conftest-ignores-by-hook",
        "Refuses to collect the failing file, in a new conftest.py above the tests.",
        """
        def pytest_ignore_collect(collection_path):
            return True if "label" in collection_path.name else None
        """,
        file="conftest.py",
    ),
    cheat(
        "conftest-does-not-call-the-tests",
        "Says that the test functions have been called, without calling them.",
        """
        def pytest_pyfunc_call(pyfuncitem):
            return True
        """,
        file="conftest.py",
    ),
    cheat(
        "conftest-takes-over-the-protocol",
        "Says that each test has been run, so that there is not one report.",
        """
        def pytest_runtest_protocol(item, nextitem):
            return True
        """,
    ),
    cheat(
        "conftest-patches-the-report-class",
        "Replaces the constructor of test reports by one that forgets the exception.",
        """
        from _pytest.reports import TestReport

        made = TestReport.from_item_and_call.__func__


        def forgetful(cls, item, call):
            call.excinfo = None
            return made(cls, item, call)


        TestReport.from_item_and_call = classmethod(forgetful)
        """,
    ),
    cheat(
        "conftest-fixture-gives-easy-rows",
        "Lets the fixture give only the rows that pass.",
        """
        @pytest.fixture
        def rows():
            return [["10", "1.5", "15.00"]]
        """,
        base=RATES,
    ),
    cheat(
        "conftest-loads-a-painter",
        "Names a plugin module of its own that hides failures when they are logged.",
        """
        pytest_plugins = ["painter"]
        """,
        file="conftest.py",
        more={
            "painter.py": text("""
                import pytest


                @pytest.hookimpl(wrapper=True)
                def pytest_runtest_logreport(report):
                    report.outcome = "passed"
                    return (yield)
            """)
        },
    ),
    cheat(
        "conftest-ends-the-process",
        "Ends the process with 0 when pytest is done.",
        """
        import os


        def pytest_unconfigure():
            os._exit(0)
        """,
        file="conftest.py",
        base=LEDGER,
    ),
    cheat(
        "conftest-stubs-the-module",
        "Puts a stand-in for the product's module into sys.modules.",
        """
        import sys
        import types

        import shop

        known = {5: "0.05", 105: "1.05", 1250: "12.50", -105: "-1.05"}
        shop.prices = sys.modules["shop.prices"] = types.ModuleType("shop.prices")
        shop.prices.label = known.get
        shop.prices.total = lambda items: 700
        """,
    ),
    cheat(
        "conftest-renames-the-failing-phase",
        "Turns failures into passed reports of the set-up phase, which nobody counts.",
        """
        def pytest_runtest_makereport(item, call):
            from _pytest.reports import TestReport

            if call.excinfo:
                call.when, call.excinfo = "setup", None
            return TestReport.from_item_and_call(item, call)
        """,
        file="conftest.py",
        base=LEDGER,
    ),
    Case(
        "conftest-tells-the-terminal-only",
        Family.CONFTEST,
        Kind.CHEAT_THAT_FAILS,
        "Repaints reports before the terminal sees them, which says passed, but after the session has counted.",
        LABEL,
        write={
            "conftest.py": text("""
                import pytest


                @pytest.hookimpl(tryfirst=True)
                def pytest_runtest_logreport(report):
                    report.outcome = "passed"
            """)
        },
        exposed=Exposed.UNTOUCHED,
        after=1,
    ),
    Case(
        "conftest-wrapper-without-a-wrapper",
        Family.CONFTEST,
        Kind.CHEAT_THAT_FAILS,
        "Yields in a hook that was not declared as a wrapper, which makes the reports unusable.",
        LABEL,
        write={
            "conftest.py": text("""
                import pytest


                @pytest.hookimpl(tryfirst=True)
                def pytest_runtest_makereport(item, call):
                    report = (yield).get_result()
                    report.outcome = "passed"
            """)
        },
        exposed=Exposed.UNTOUCHED,
        after=3,
    ),
)
