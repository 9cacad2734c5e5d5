"""Times to wait, as people and services write them."""

from __future__ import annotations

import re

__all__ = ["moment_in", "seconds_in"]

_UNITS = {"ms": 0.001, "milli": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*(ms|milli|s|m|h|d)?", re.IGNORECASE)
_MOMENT = re.compile(r"\d{9,10}(\d{3})?(?:\.\d{1,9})?")


def seconds_in(text: str) -> float | None:
    """A time span: `30`, `1.5s`, `10h20m30s`, `3 days 4 hours`."""
    spans = _SPAN.findall(text[:200])
    return sum(float(number) * _UNITS[unit.lower()] for number, unit in spans) if spans else None


def moment_in(text: str) -> float | None:
    """Seconds or milliseconds since 1970."""
    match = _MOMENT.fullmatch(text.strip())
    return float(text) / (1000 if match[1] else 1) if match else None
