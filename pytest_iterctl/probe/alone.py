"""Single tests, each in a process that has run no other.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import json
import os
import select
import signal
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import runtestprotocol

from .held import exit_at_once, fork, killpg, monotonic, read, system_write, waitpid
from .reports import LONGEST_TEXT, told, verdict

if TYPE_CHECKING:
    from .control import Control

__all__ = ["Alone"]


class Alone:
    """Runs each test in a fork of its own that has run no other; with a control, before that one breaks anything."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.control: Control | None = None
        self.child: list[list[Any]] | None = None
        self.lines: Any = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self, early_config: pytest.Config, args: list[str]) -> None:
        known = early_config.known_args_namespace
        if hasattr(known, "numprocesses"):
            args.insert(args.index("--") if "--" in args else len(args), "-n0")
            known.numprocesses, known.dist = 0, "no"  # for plugins that look before the arguments are read again

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        option = session.config.option
        if option.collectonly or (session.testsfailed and not option.continue_on_collection_errors):
            return None  # pytest says what is to be said
        if self.control is not None:
            self.control.armed = False
        end = monotonic() + self.seconds
        for item in session.items:
            start = monotonic()
            outcome, text, agrees = self.run(item, end) if start < end else ("not-run", "", [])
            if self.lines is not None:
                seconds = round(monotonic() - start, 6)
                more = {"agrees": agrees} if agrees else {}
                self.lines.tell("alone", id=item.nodeid, outcome=outcome, text=text, seconds=seconds, **more)
            if self.control is not None:
                for each in agrees:
                    self.control.equality.add(each)
        if self.control is not None:
            self.control.armed = True
            return None  # and now all together, broken
        return True

    def run(self, item: pytest.Item, end: float) -> tuple[str, str, list[dict[str, object]]]:
        taking, giving = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there are threads: a child that hangs is ended
            process = fork()
        if process == 0:
            try:
                os.close(taking)
                os.setpgid(0, 0)
                self.be_the_child(item, giving)
            finally:
                exit_at_once(0)
        os.close(giving)
        with suppress(OSError):
            os.setpgid(process, process)
        try:
            data = self.listen(taking, process, end)
        finally:
            os.close(taking)
            with suppress(OSError):
                killpg(process, signal.SIGKILL)
            with suppress(OSError):
                waitpid(process, 0)
        try:
            reports, agrees = json.loads(data)
            text = next((text for _, outcome, _, text in reports if outcome == "failed"), "")
            return verdict(reports), text, [each for each in agrees if isinstance(each, dict)]
        except (ValueError, TypeError):
            return "no-result", "", []

    def listen(self, taking: int, process: int, end: float) -> bytes:
        """All that the child says, up to its last line: something that it started may hold the pipe open."""
        data = b""
        ended = False
        while not data.endswith(b"\n"):
            left = end - monotonic()
            if left <= 0:
                return b""
            ready, _, _ = select.select([taking], [], [], 0 if ended else min(left, 0.05))
            if ready:
                part = read(taking, 65_536)
                if not part:
                    return data
                data += part
            elif ended:
                return data
            else:
                try:
                    ended = waitpid(process, os.WNOHANG)[0] != 0
                except OSError:
                    ended = True
        return data

    def be_the_child(self, item: pytest.Item, giving: int) -> None:
        self.child = []
        if self.control is not None:
            self.control.begin(item.nodeid)
            self.control.equality.agrees.clear()  # what others found before is known
        whole: Any = item
        runtest = whole.runtest

        def hidden() -> Any:
            # pytest says which test runs just before it calls this.
            os.environ.pop("PYTEST_CURRENT_TEST", None)
            return runtest()

        whole.runtest = hidden
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        except BaseException as error:  # noqa: BLE001 - a test may end its session, and with it this child
            self.child.append(["call", "failed", False, f"{type(error).__name__}: {error}"[:LONGEST_TEXT]])
        agrees = list(self.control.equality.agrees.values()) if self.control is not None else []
        data = json.dumps([self.child, agrees]).encode("ascii") + b"\n"
        while data:
            data = data[system_write(giving, data) :]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """In the child: within all that plugins put around a test, and in place of those that run one again."""
        if self.child is None:
            return None
        self.child += [told(report) for report in runtestprotocol(item, nextitem=None, log=False)]
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        if self.child is not None and report.failed:  # of a subtest: nobody else reports in the child
            self.child.append(["call", *told(report)[1:]])
