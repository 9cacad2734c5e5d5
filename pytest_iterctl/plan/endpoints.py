"""Names the places in the network that a sandboxed command may reach: one host and one port each, nothing wider."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from pytest_iterctl.errors import UsageError
from pytest_iterctl.text import one_line

__all__ = ["Endpoint"]

_PORTS = {"https": 443, "http": 80}
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_LONGEST_HOST = 253
_LAST_PORT = 65535
_FORMS = "write host:port, https://host or host, for example api.example.com:443"


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """One host and one port. The host is in the one spelling that is compared: lower case, ASCII, no dot at its end."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether it is a service of this very machine, as local models are."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """What a plan says: `host:port`, `https://host[:port][/…]`, or `host`, which means port 443."""
        scheme, separator, rest = text.strip().partition("://")
        if not separator:
            scheme, rest = "https", scheme
        elif scheme.lower() not in _PORTS:
            raise _wrong(text, f"{scheme}:// is not spoken by the gateway")
        authority = re.split(r"[/?#]", rest, maxsplit=1)[0] if separator else rest
        if "@" in authority:
            # The text may be shown, and what stands in front of the @ is a password more often than not.
            raise UsageError("an endpoint holds a user name or a password", hint=f"take it out; {_FORMS}")
        if "/" in authority:
            raise _wrong(text, "a path makes sense only behind https:// or http://")
        host, port = _split(text, authority)
        if port and not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= _LAST_PORT):
            raise _wrong(text, f"{port!r} is no port")
        return cls(_canonical(text, host), int(port) if port else _PORTS[scheme.lower()])


def _split(text: str, authority: str) -> tuple[str, str]:
    if authority.startswith("["):
        host, closing, port = authority[1:].partition("]")
        if not closing or (port and not port.startswith(":")) or port == ":":
            raise _wrong(text, "an IPv6 address stands in brackets, and a port behind them")
        return host, port[1:]
    if authority.count(":") > 1:
        return authority, ""
    host, colon, port = authority.partition(":")
    if colon and not port:
        raise _wrong(text, "the port is missing")
    return host, port


def _canonical(text: str, host: str) -> str:
    if not host:
        raise _wrong(text, "the host is missing")
    if "*" in host:
        raise _wrong(text, "there are no wildcards: every host is named by itself")
    try:
        return ipaddress.ip_address(host).compressed
    except ValueError:
        pass
    try:
        name = host.encode("idna").decode("ascii").lower() if not host.isascii() else host.lower()
    except UnicodeError:
        raise _wrong(text, f"{host!r} is no name of a host") from None
    name = name.removesuffix(".")
    labels = name.split(".")
    if len(name) > _LONGEST_HOST or not all(_LABEL.fullmatch(label) for label in labels):
        raise _wrong(text, f"{host!r} is no name of a host")
    if re.fullmatch(r"\d+|0x[0-9a-f]*", labels[-1]):
        # Resolvers take 127.1 and 0x7f000001 for addresses; a list that is compared by its words must not.
        raise _wrong(text, f"{host!r} is neither a name nor an address in its usual form")
    return name


def _wrong(text: str, why: str) -> UsageError:
    return UsageError(f"not an endpoint: {one_line(text, 80)!r}: {why}", hint=_FORMS)
