"""Addresses of Kafka brokers; the texts are those of Java's clients."""

from __future__ import annotations

import socket

import pytest

from connect_runtime.api import ConfigError
from connect_runtime.settings.connector_clients import check_addresses, check_known

KEY = "bootstrap.servers"


def test_hosts_and_ports() -> None:
    given = ["a.b:9092", "[::1]:1", "SASL_SSL://c:65535", ""]
    assert check_addresses(KEY, given) == [("a.b", 9092), ("::1", 1), ("c", 65535)]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([], "No resolvable bootstrap urls given in bootstrap.servers"),
        ([""], "No resolvable bootstrap urls given in bootstrap.servers"),
        (["127.0.0.1"], "Invalid url in bootstrap.servers: 127.0.0.1"),
        (["a:1", "b:"], "Invalid url in bootstrap.servers: b:"),
        (["a:65536"], "Invalid port in bootstrap.servers: a:65536"),
        (["a:1234567890"], "Invalid port in bootstrap.servers: a:1234567890"),
    ],
)
def test_what_is_no_address(given: list[str], text: str) -> None:
    for check in (check_addresses, check_known):
        with pytest.raises(ConfigError) as refused:
            check(KEY, given)
        assert str(refused.value) == text


def test_one_host_must_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(host: str, port: int) -> list[object]:
        if host != "known":
            raise socket.gaierror("unknown")
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    check_known(KEY, ["unknown:1", "known:2"])
    with pytest.raises(ConfigError, match="No resolvable bootstrap urls given"):
        check_known(KEY, ["unknown:1", "other:2"])
