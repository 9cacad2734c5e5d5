"""The files and folders that a run was asked to write reports to."""

# ruff: noqa: PTH111 - paths are strings
from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

__all__ = ["expanded", "reports_of"]

# Where plugins keep the names of the files and folders that they were asked to write a report to.
_REPORTS = (
    *("xmlpath", "htmlpath", "report_log", "json_report_file", "csv_path", "mdpath", "md_report_output"),
    *("allure_report_dir", "ctrf", "resultlog"),
)
_COVERAGE_REPORTS = {"xml": "xml_output", "html": "html_dir", "json": "json_output", "lcov": "lcov_output"}


def reports_of(config: Any) -> list[str]:
    """The files and folders that the run was asked to write reports to, as far as their plugins are known."""
    option = config.option
    found = [expanded(getattr(option, name, None)) for name in _REPORTS]
    with suppress(Exception):  # a plugin of that name may be any other
        measured = config.pluginmanager.get_plugin("_cov").cov_controller.cov.config
        found.append(expanded(measured.data_file))
        for kind, place in option.cov_report.items():
            if not kind.startswith("term"):  # what follows those is no path
                found.append(expanded(place or getattr(measured, _COVERAGE_REPORTS.get(kind, ""), "")))
    return sorted({each for each in found if each})


def expanded(path: object) -> str:
    return os.path.expanduser(os.path.expandvars(path)) if isinstance(path, str) else ""
