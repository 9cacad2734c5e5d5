"""Whether two versions of a shared configuration file say the same about tests: compared as settings, not as text."""

from __future__ import annotations

import configparser
import tomllib
from collections.abc import Mapping
from pathlib import PurePosixPath

__all__ = ["SHARED_FILES", "same_test_configuration"]

#: Files that hold the tests' settings beside much else.
SHARED_FILES = frozenset({"pyproject.toml", "setup.cfg", "tox.ini"})

_PLUGINS = "pytest11"
_Settings = dict[str, object]


class _UnreadableError(ValueError):
    pass


def same_test_configuration(name: str, before: bytes | None, after: bytes | None) -> bool:
    """Whether pytest's and coverage's settings and the plugins on offer are the same; None is a missing file.

    Comments, order and everything else in the file don't count, and neither does a marker that is added: registering
    one changes no outcome. A section that appears counts even when it is empty, because pytest takes the file that
    has one for its own.
    """
    if before == after:
        return True
    try:
        one, other = _settings(name, before), _settings(name, after)
    except _UnreadableError:
        return False
    return _without_markers(one) == _without_markers(other) and _markers(one) <= _markers(other)


def _settings(name: str, data: bytes | None) -> _Settings:
    if data is None:
        return {}
    try:
        text = data.decode("utf-8-sig")
        return _from_toml(text) if PurePosixPath(name).suffix == ".toml" else _from_ini(text)
    except (ValueError, configparser.Error, RecursionError) as error:
        raise _UnreadableError from error


def _from_toml(text: str) -> _Settings:
    document: Mapping[str, object] = tomllib.loads(text)
    tools = _table(document, "tool")
    found: _Settings = {key: tools[key] for key in ("pytest", "coverage") if key in tools}
    poetry = _table(_table(tools, "poetry"), "plugins")
    for kind, table in (("plugins", _table(_table(document, "project"), "entry-points")), ("poetry", poetry)):
        if _PLUGINS in table:
            found[kind] = table[_PLUGINS]
    return found


def _table(table: Mapping[str, object], key: str) -> Mapping[str, object]:
    inner = table.get(key)
    return inner if isinstance(inner, dict) else {}


def _from_ini(text: str) -> _Settings:
    parser = configparser.ConfigParser(interpolation=None, strict=False, allow_no_value=True, default_section="")
    parser.read_string(text)
    found: _Settings = {
        section: {key: _lines(value) for key, value in parser.items(section)}
        for section in parser.sections()
        if section in {"pytest", "tool:pytest"} or section == "coverage" or section.startswith("coverage:")
    }
    if parser.has_section("options.entry_points") and parser.has_option("options.entry_points", _PLUGINS):
        found["plugins"] = _lines(parser.get("options.entry_points", _PLUGINS))
    return found


def _lines(value: str | None) -> list[str]:
    return [line.strip() for line in (value or "").splitlines() if line.strip()]


def _tables(settings: _Settings) -> list[dict[str, object]]:
    """The tables that pytest reads, wherever they are."""
    found: list[dict[str, object]] = []
    for key in ("pytest", "tool:pytest"):
        table = settings.get(key)
        if isinstance(table, dict):
            inner = table.get("ini_options")
            found += [table, inner] if isinstance(inner, dict) else [table]
    return found


def _markers(settings: _Settings) -> frozenset[str]:
    found: list[str] = []
    for table in _tables(settings):
        markers = table.get("markers", [])
        found += _lines(markers) if isinstance(markers, str) else map(str, markers if isinstance(markers, list) else [])
    return frozenset(found)


def _without_markers(settings: _Settings) -> str:
    """The rest, in one order and spelt with its types: 1, 1.0 and true are three settings."""

    def plain(value: object) -> object:
        if isinstance(value, dict):
            return sorted((str(key), repr(plain(inner))) for key, inner in value.items() if key != "markers")
        return value

    return repr(plain(settings))
