"""The pytest plugin that sees it all."""

# ruff: noqa: PTH118, PTH119 - paths are strings
from __future__ import annotations

import os
import sys
from json.encoder import encode_basestring_ascii as _quoted
from typing import TYPE_CHECKING, Any

import pytest

from .descriptions import Descriptions
from .marks import closest, declared_by
from .reports import expanded, reports_of
from .text import cut

if TYPE_CHECKING:
    from collections.abc import Generator

    from .lines import Lines

__all__ = ["Witness"]

_MESSAGE, _OUTPUT = 4_000, 2_000
_FAILURES_PER_TEST = 20
_IDS_PER_LINE = 1_000


class _Attempt:
    """What is known of a test that did not simply pass, until its teardown."""

    __slots__ = ("failures", "message", "outcome", "reruns", "retrying", "seconds", "where")

    def __init__(self) -> None:
        self.reruns = 0
        self.retrying = False
        self.clear()

    def clear(self) -> None:
        self.failures: list[dict[str, object]] = []
        self.outcome = "skipped"  # until its call is reported: with --setup-only it never is
        self.message = self.where = ""
        self.seconds = 0.0

    def verdict(self) -> str:
        if not self.failures:
            return self.outcome
        return "failed" if all(failure["phase"] == "call" for failure in self.failures) else "error"


class Witness:
    """The pytest plugin. What passes costs two dictionary entries and one write; the rest may take its time."""

    def __init__(self, lines: Lines, marker: str | None = None) -> None:
        self.__name__ = "iterctl-witness"  # the name that pytest registers it under
        self.lines = lines
        self.marker = marker
        self.describe = Descriptions()
        self.ready: dict[str, float] = {}
        self.called: dict[str, float] = {}
        self.open: dict[str, _Attempt] = {}
        self.counts: dict[str, int] = {}
        self.passed = self.deselected = 0
        self.collected = False

    # Before the session -----------------------------------------------------------------------------------------

    def pytest_addoption(self, parser: pytest.Parser) -> None:
        if getattr(parser, "prog", None) == "pytest.main()":  # pytest's usage text names who called it
            module = os.path.basename(sys.argv[0]) == "__main__.py"
            parser.prog = "python -m pytest" if module else "pytest"

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self, early_config: pytest.Config, args: list[str]) -> None:
        self.describe.use_root(str(early_config.rootpath))
        self.lines.tell("root", path=str(early_config.rootpath))
        known = early_config.known_args_namespace
        if self.marker is not None and hasattr(known, "numprocesses"):
            args.insert(args.index("--") if "--" in args else len(args), "-n0")
            known.numprocesses, known.dist = 0, "no"  # for plugins that look before the arguments are read again

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_cmdline_parse(self) -> Generator[None, Any, None]:
        outcome = yield
        if outcome.excinfo is not None:
            self._tell_early_end(outcome.excinfo[1])

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_cmdline_main(self) -> Generator[None, Any, None]:
        outcome = yield
        if outcome.excinfo is not None:
            error = outcome.excinfo[1]
            if isinstance(error, pytest.UsageError):
                self.lines.tell("usage-error", text=_usage(error))
            else:
                self.lines.tell("internal-error", **self.describe.exception(error))

    def _tell_early_end(self, error: BaseException) -> None:
        if isinstance(error, pytest.UsageError):
            self.lines.tell("usage-error", text=_usage(error))
            return
        path = str(getattr(error, "path", None) or "")
        cause = error
        if type(error).__name__ == "ConftestImportFailure":
            cause = getattr(error, "cause", None) or error.excinfo[1]  # type: ignore[attr-defined] # until pytest 8
        elif type(error).__name__ == "PluginImportFailure":
            path, cause = str(error), error.__cause__ or error
        inside = self.describe.identity(path) if path else ""
        self.lines.tell("collect-error", id=inside or path or "pytest", **self.describe.exception(cause))

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        if not any(line.startswith("iterate") for line in config.getini("markers")):
            config.addinivalue_line("markers", "iterate(task, prompt, max_iterations): the task this test belongs to")
        option = config.option
        distributed = getattr(option, "dist", "no") != "no" and not option.collectonly
        positional = [str(each) for each in getattr(option, "file_or_dir", None) or ()]  # --help has none
        self.lines.tell("session", distributed=distributed, positional=positional)
        self.lines.tell(
            "interpreter",
            prefix=sys.prefix,
            base_prefix=sys.base_prefix,
            executable=sys.executable,
            path=list(sys.path),
            inipath=str(config.inipath or ""),
            python_files=list(config.getini("python_files")),
            testpaths=list(config.getini("testpaths")),
            doctest_globs=list(getattr(option, "doctestglob", None) or ()),
        )

    # Collection -------------------------------------------------------------------------------------------------

    def pytest_collectstart(self, collector: Any) -> None:
        if not isinstance(collector, pytest.Class):  # its module is imported already
            self.lines.tell("collecting", id=collector.nodeid or ".")

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.lines.tell("collect-error", id=report.nodeid, **self.describe.failure(report.longrepr))
        elif report.skipped:
            self.lines.tell("collect-skip", id=report.nodeid, message=_reason(report)[0])

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if self.marker is None:
            return
        marks: dict[Any, Any] = {}
        kept: list[pytest.Item] = []
        others: list[pytest.Item] = []
        for item in items:
            mark = closest(item, marks)
            (kept if (declared_by(mark)["task"] if mark else "") == self.marker else others).append(item)
        if others:
            config.hook.pytest_deselected(items=others)
            items[:] = kept

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self.deselected += len(items)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._tell_collected([item.nodeid for item in session.items])
        marks: dict[Any, Any] = {}
        tasks: dict[str, tuple[dict[str, object], list[str]]] = {}
        for item in session.items:
            mark = closest(item, marks)
            if mark is not None:
                declared = declared_by(mark)
                tasks.setdefault(repr(declared), (declared, []))[1].append(item.nodeid)
        for declared, ids in tasks.values():
            self.lines.tell("task", ids=ids, **declared)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        if not self.collected:
            self._tell_collected(list(ids))
            # With several tests at once, the first without a result is not the one that was running.
            node.config.pluginmanager.register(Beginnings(self.lines), "iterctl-witness-beginnings")

    def _tell_collected(self, ids: list[str]) -> None:
        self.collected = True
        for start in range(0, len(ids), _IDS_PER_LINE):
            self.lines.tell("collected", ids=ids[start : start + _IDS_PER_LINE])
        self.lines.tell("collection", count=len(ids), deselected=self.deselected)

    # Tests ------------------------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        test = report.nodeid
        if report.outcome == "passed" and test not in self.open:
            when = report.when
            if when == "setup":
                self.ready[test] = report.duration
                return
            if when == "call":
                if not hasattr(report, "wasxfail"):
                    self.called[test] = self.ready.pop(test, 0.0) + report.duration
                    return
            elif test in self.called:
                seconds = self.called.pop(test) + report.duration
                self.passed += 1
                self.lines.write(
                    f'{{"type":"test","id":{_quoted(test)},"outcome":"passed","duration":{seconds:.6f}}}\n'
                )
                return
        self._note(test, report)

    def _note(self, test: str, report: Any) -> None:
        attempt = self.open.get(test)
        if attempt is None:
            attempt = self.open[test] = _Attempt()
            if test in self.called:
                attempt.outcome = "passed"
            attempt.seconds = self.called.pop(test, 0.0) + self.ready.pop(test, 0.0)
        if report.outcome not in {"passed", "failed", "skipped"}:  # "rerun": another attempt will follow
            attempt.reruns += not attempt.retrying
            attempt.clear()
            attempt.retrying = True
            return
        if report.when == "setup":
            attempt.retrying = False
        if attempt.retrying:
            return
        self._add(attempt, report)
        if report.when not in {"setup", "call"}:
            del self.open[test]
            self._tell_test(test, attempt)

    def _add(self, attempt: _Attempt, report: Any) -> None:
        attempt.seconds += getattr(report, "duration", 0.0)
        subtest = hasattr(getattr(report, "context", None), "msg")
        if report.failed:
            if attempt.failures and str(report.longrepr).startswith("contains ") and not subtest:
                return  # pytest's own summary of the subtests that are already known
            if len(attempt.failures) >= _FAILURES_PER_TEST:
                return
            failure = self.describe.failure(report.longrepr)
            failure["phase"] = report.when if report.when in {"setup", "teardown"} else "call"
            failure["where"] = failure.get("where") or self.describe.defined(report)
            failure["output"] = self.describe.output(report)
            if subtest:
                failure["context"] = cut(_context(report.context), _OUTPUT)
            attempt.failures.append(failure)
        elif subtest:
            return
        elif hasattr(report, "wasxfail"):
            attempt.outcome = "xfailed" if report.skipped else "xpassed"
            attempt.message = str(report.wasxfail)
        elif report.skipped:
            attempt.outcome = "skipped"
            attempt.message, path, line = _reason(report)
            attempt.where = self.describe.place(path, line)
        elif report.when == "call":
            attempt.outcome = "passed"

    def _tell_test(self, test: str, attempt: _Attempt) -> None:
        outcome = attempt.verdict()
        self.counts[outcome] = self.counts.get(outcome, 0) + 1
        fields: dict[str, object] = {"id": test, "outcome": outcome, "duration": round(attempt.seconds, 6)}
        for name in ("reruns", "message", "where", "failures"):
            if getattr(attempt, name):
                fields[name] = getattr(attempt, name)
        self.lines.tell("test", **fields)

    # The end ----------------------------------------------------------------------------------------------------

    def pytest_keyboard_interrupt(self, excinfo: Any) -> None:
        self.lines.tell("interrupt", kind=excinfo.typename, text=cut(str(excinfo.value), _MESSAGE))

    def pytest_internalerror(self, excrepr: Any, excinfo: Any) -> None:
        del excinfo  # its text would be without the frames
        self.lines.tell("internal-error", **self.describe.failure(excrepr))

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, Any, None]:
        outcome = yield
        for test, attempt in list(self.open.items()):  # a teardown that was interrupted
            if attempt.failures:
                self._tell_test(test, attempt)
        if outcome.excinfo is not None:
            return  # it comes by again in pytest_cmdline_main
        option = session.config.option
        report = expanded(getattr(option, "xmlpath", None))
        self.lines.tell(
            "finish",
            status=int(session.exitstatus),
            counts={**self.counts, "passed": self.passed + self.counts.get("passed", 0)},
            stop=str(session.shouldfail or session.shouldstop or ""),
            junitxml=os.path.join(self.describe.start, report) if report else None,
            reports=[os.path.join(self.describe.start, each) for each in reports_of(session.config)],
            seed=getattr(option, "randomly_seed", None),
        )


class Beginnings:
    """Says which tests were begun, for runs with several at once."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.lines.write(f'{{"type":"begin","id":{_quoted(nodeid)}}}\n')


def _reason(report: Any) -> tuple[str, str, int]:
    if isinstance(report.longrepr, tuple):
        path, line, reason = report.longrepr
        return cut(str(reason).removeprefix("Skipped: "), _OUTPUT), str(path), line
    return cut(str(report.longrepr or ""), _OUTPUT), "", 0


def _usage(error: BaseException) -> str:
    return cut("\n".join(str(part).strip() for part in error.args), _MESSAGE)


def _context(context: Any) -> str:
    values = ", ".join(f"{name}={value}" for name, value in dict(context.kwargs or {}).items())
    return " ".join(
        part for part in (f"[{context.msg}]" if context.msg else "", f"({values})" if values else "") if part
    )
