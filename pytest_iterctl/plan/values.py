"""What every value object of the plan and the journal is built on: frozen, strict, closed, readable as JSON."""

from __future__ import annotations

import math
import re
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

__all__ = ["Duration", "Name", "Value", "format_duration", "parse_duration"]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|min|m|h|d)")
_LONGEST = 366 * 86400.0


class Value(BaseModel):
    """A frozen value with no unknown keys and no silent conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, ser_json_inf_nan="constants")


def parse_duration(value: object) -> float:
    """Seconds from `90`, `90s`, `5m`, `1h`, `1h30m`, `250ms`; a bare number is seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("expected a duration such as 90s, 5m or 1h")  # noqa: TRY004 - pydantic reports ValueError
    if isinstance(value, str):
        text = value.strip().replace(" ", "")
        seconds = float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else _spelt_out(text)
    else:
        seconds = float(value)
    if not math.isfinite(seconds) or not 0 < seconds <= _LONGEST:
        raise ValueError("a duration must be more than 0 and at most a year")
    return seconds


def _spelt_out(text: str) -> float:
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError("expected a duration such as 90s, 5m or 1h")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def format_duration(seconds: float) -> str:
    """The shortest spelling that people use: 250ms, 90s, 5m, 1h30m."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 120 and seconds % 60:  # noqa: PLR2004 - up to two minutes people say seconds
        return f"{seconds:g}s"
    whole = round(seconds)
    spelt = ""
    for unit, size in (("h", 3600), ("m", 60), ("s", 1)):
        count, whole = divmod(whole, size)
        if count:
            spelt += f"{count}{unit}"
    return spelt or "0s"


Duration = Annotated[float, BeforeValidator(parse_duration)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
