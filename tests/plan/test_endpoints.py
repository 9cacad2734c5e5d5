from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.errors import UsageError
from pytest_iterctl.plan.endpoints import Endpoint


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("api.example.com", "api.example.com", 443),
        ("api.example.com:8443", "api.example.com", 8443),
        (" API.Example.COM. ", "api.example.com", 443),
        ("https://api.example.com", "api.example.com", 443),
        ("https://api.example.com/v1/messages?x=1", "api.example.com", 443),
        ("HTTPS://api.example.com:444/v1", "api.example.com", 444),
        ("http://models.internal/v1", "models.internal", 80),
        ("http://localhost:11434", "localhost", 11434),
        ("127.0.0.1:8080", "127.0.0.1", 8080),
        ("[::1]:8080", "::1", 8080),
        ("::1", "::1", 443),
        ("https://[2001:DB8:0::1]/x", "2001:db8::1", 443),
        ("bücher.example", "xn--bcher-kva.example", 443),
        ("my_host:1", "my_host", 1),
    ],
)
def test_what_names_an_endpoint(text: str, host: str, port: int) -> None:
    assert Endpoint.parse(text) == Endpoint(host, port)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the host is missing"),
        (":443", "the host is missing"),
        ("https://", "the host is missing"),
        ("host:", "the port is missing"),
        ("host:0", "'0' is no port"),
        ("host:65536", "'65536' is no port"),
        ("host:https", "'https' is no port"),
        ("host:٣", "is no port"),
        ("host:9" + "9" * 5000, "is no port"),
        ("*.example.com", "there are no wildcards"),
        ("ftp://host", "ftp:// is not spoken"),
        ("socks5://127.0.0.1:1", "socks5:// is not spoken"),
        ("host/path", "a path makes sense only behind"),
        ("ho st", "is no name of a host"),
        ("host\nother", "is no name of a host"),
        ("-host", "is no name of a host"),
        ("a..b", "is no name of a host"),
        ("x" * 64, "is no name of a host"),
        ("127.1", "neither a name nor an address"),
        ("2130706433", "neither a name nor an address"),
        ("0x7f.0x0.0x0.0x1", "neither a name nor an address"),
        ("010.0.0.1", "neither a name nor an address"),
        ("[::1", "an IPv6 address stands in brackets"),
        ("[::1]8080", "an IPv6 address stands in brackets"),
    ],
)
def test_what_names_none_is_told_with_its_reason(text: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        Endpoint.parse(text)
    assert why in caught.value.message
    assert "host:port" in caught.value.hint
    assert len(caught.value.message) < 6000


def test_a_password_is_refused_and_not_shown() -> None:
    with pytest.raises(UsageError) as caught:
        Endpoint.parse("https://user:hunter2@api.example.com")
    assert "hunter2" not in caught.value.render()


def test_services_of_this_machine_are_known() -> None:
    local = ("localhost:1", "127.0.0.1:1", "127.8.8.8:1", "[::1]:1")
    assert all(Endpoint.parse(text).is_local for text in local)
    assert not any(Endpoint.parse(text).is_local for text in ("localhost.example.com", "10.0.0.1", "example.com"))


@given(st.text(max_size=60))
def test_any_text_is_an_endpoint_or_an_error(text: str) -> None:
    try:
        found = Endpoint.parse(text)
    except UsageError:
        return
    assert Endpoint.parse(str(found)) == found
