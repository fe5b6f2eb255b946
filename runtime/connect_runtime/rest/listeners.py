"""Reads where REST listens, and which of these addresses a worker advertises (Apache's
RestServer)."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from connect_runtime.api import ConfigError

# Apache's RestServer.LISTENER_PATTERN
_LISTENER: Final = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)")
_SCHEMES: Final = ("http", "https")
_PORTS: Final = 65536
_HOSTS: Final = {"localhost": "127.0.0.1"}
# All addresses of IPv4, and all of both
_EVERY_IPV4: Final = "0.0.0.0"
_EVERY: Final = "::"


@dataclass(frozen=True, slots=True)
class Listener:
    """Where REST listens. Port 0: any free one."""

    host: str
    port: int
    scheme: str = "http"

    def __str__(self) -> str:
        """Returns it as a property names it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def url(self, port: int) -> str:
        """Returns the address at which others reach `port`, unless another is advertised."""
        host = socket.gethostname() if self.host in (_EVERY_IPV4, _EVERY) else self.host
        return f"{self.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def parse_listeners(key: str, urls: Sequence[str]) -> tuple[Listener, ...]:
    """Returns the listeners of a property. Raises ConfigError."""
    return tuple(_listener(key, url) for url in urls)


def _listener(key: str, url: str) -> Listener:
    found = _LISTENER.fullmatch(url.strip())
    if found is None or found[1].lower() not in _SCHEMES or int(found[3]) >= _PORTS:
        raise ConfigError.invalid(key, url, "must be http://host:port or https://host:port")
    return Listener(found[2] or _EVERY_IPV4, int(found[3]), found[1].lower())


def shared_address(listeners: Sequence[Listener], others: Sequence[Listener]) -> Listener | None:
    """Returns the first of the others that would listen where one of the listeners does."""
    return next((other for other in others if any(_same(each, other) for each in listeners)), None)


def _same(one: Listener, other: Listener) -> bool:
    hosts = {_HOSTS.get(each.host.lower(), each.host.lower()) for each in (one, other)}
    if one.port != other.port or one.port == 0:
        return False
    of_ipv4 = not any(":" in host for host in hosts)
    return len(hosts) == 1 or _EVERY in hosts or (_EVERY_IPV4 in hosts and of_ipv4)


def advertised(listeners: Sequence[Listener], scheme: str | None) -> Listener:
    """Returns the listener that others are told: the first of this scheme, or else of http."""
    wanted = [scheme.lower()] if scheme else [*_SCHEMES]
    return next(
        (each for name in wanted for each in listeners if each.scheme == name), listeners[0]
    )
