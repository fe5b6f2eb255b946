"""Checks addresses of Kafka brokers as Java's clients do, with their texts (`ClientUtils`)."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from connect_runtime.api import ConfigError

# Apache's Utils.HOST_PORT_PATTERN
_ADDRESS: Final = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)")
_PORTS: Final = 65536
_NONE: Final = "No resolvable bootstrap urls given in {}"


def check_addresses(key: str, addresses: Iterable[str]) -> list[tuple[str, int]]:
    """Returns hosts and ports. Raises ConfigError if there are none, or for one that is neither."""
    found = []
    for each in filter(None, addresses):
        match = _ADDRESS.fullmatch(each)
        if match is None:
            raise ConfigError(f"Invalid url in {key}: {each}")
        host, port = match.groups()
        if len(port) > 9 or int(port) >= _PORTS:
            raise ConfigError(f"Invalid port in {key}: {each}")
        found.append((host, int(port)))
    if not found:
        raise ConfigError(_NONE.format(key))
    return found


def check_known(key: str, addresses: Iterable[str]) -> None:
    """Raises ConfigError if no address has a host that is known here: librdkafka would look for it
    for ever, and tell nobody. May take as long as DNS does."""
    for host, port in check_addresses(key, addresses):
        with suppress(OSError, UnicodeError):
            socket.getaddrinfo(host, port)
            return
    raise ConfigError(_NONE.format(key))
