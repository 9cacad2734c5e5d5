"""Times to wait, as people and services write them."""

from __future__ import annotations

import math
import re
from datetime import UTC
from email.utils import parsedate_to_datetime

__all__ = ["seconds_in", "seconds_until"]

#: Whoever is told to wait longer is not waited for. To drop it would be to call again at once.
_LONGEST = 30 * 86400.0
_LENGTH = 200
_NUMBER = r"\d{1,15}(?:\.\d{1,15})?"
_UNITS = (
    (r"d(?:ays?)?", 86400.0),
    (r"h(?:(?:ou)?rs?)?", 3600.0),
    (r"m(?:in(?:ute)?s?)?", 60.0),
    (r"s(?:ec(?:ond)?s?)?", 1.0),
    (r"m(?:s|illi(?:s(?:econds?)?)?)", 0.001),
)
_SPAN = re.compile(
    r"(?:,? (?:and )?)?".join(rf"(?:({_NUMBER}) ?{unit})?" for unit, _ in _UNITS), re.ASCII | re.IGNORECASE
)
_PLAIN = re.compile(_NUMBER, re.ASCII)
_MOMENT = re.compile(r"\d{9,10}(\d{3})?(?:\.\d{1,9})?", re.ASCII)
_DATE = re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? ")


def seconds_in(told: object, now: float | None) -> float | None:
    """A time span, `30`, `1.5s`, `10h20m30s`, `3 days and 4 hours`, or the date of HTTP at which it ends.

    None for anything else: of a sentence with a number in it nobody knows what the number counts.
    """
    if isinstance(told, str):
        return _in_text(told.strip(" .\t\r\n"), now)
    return _bounded(told) if isinstance(told, int | float) and not isinstance(told, bool) else None


def seconds_until(told: str, now: float | None) -> float | None:
    """The time up to a moment in seconds or milliseconds since 1970; one that has passed is no time to wait."""
    match = _MOMENT.fullmatch(told.strip())
    if match is None or now is None:
        return None
    return _bounded(max(float(match[0]) / (1000 if match[1] else 1) - now, 0.0))


def _in_text(text: str, now: float | None) -> float | None:
    if not text or len(text) > _LENGTH:
        return None
    if _PLAIN.fullmatch(text):
        return _bounded(float(text))
    if span := _SPAN.fullmatch(text):
        parts = zip(span.groups(), _UNITS, strict=True)
        return _bounded(sum(float(number) * seconds for number, (_, seconds) in parts if number is not None))
    if now is None or not _DATE.match(text):
        return None
    try:
        date = parsedate_to_datetime(text)
        return _bounded(max(date.replace(tzinfo=date.tzinfo or UTC).timestamp() - now, 0.0))
    except (ValueError, OverflowError):
        return None


def _bounded(seconds: float) -> float | None:
    return float(min(seconds, _LONGEST)) if 0 <= seconds < math.inf else None
