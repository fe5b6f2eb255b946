"""Worker properties for the REST API: where it listens, which address it advertises, who may use it
from where, and request size limits (Apache's RestServer and RestServerConfig)."""

from __future__ import annotations

import csv
import ipaddress
import re
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from email.utils import formatdate
from typing import Any, Final
from urllib.parse import urlsplit

from connect_runtime.api import ConfigDef, ConfigError, ConfigType, OneOf, Range
from connect_runtime.rest.password import EXTENSION

DEFAULT_LISTENER: Final = "http://127.0.0.1:8083"
MAX_BODY_BYTES: Final = 1024 * 1024
# Methods that browsers may send without a preflight, and Jetty allows by default
_METHODS: Final = ("GET", "POST", "HEAD")
_BASIC: Final = "basic"

# Apache's RestServer.LISTENER_PATTERN
_LISTENER: Final = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)")
_SCHEMES: Final = ("http", "https")
_PORTS: Final = 65536
_HOSTS: Final = {"localhost": "127.0.0.1"}
# All addresses of IPv4, and all of both
_EVERY_IPV4: Final = "0.0.0.0"
_EVERY: Final = "::"
_HEADERS: Final = "response.http.headers.config"
_ACTIONS: Final = ("set", "add", "setDate", "addDate")
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+\-.^_`|~]+")
# The server's own: they frame the answer
_FRAMING: Final = ("content-length", "transfer-encoding")
# Milliseconds from now that lead to years of four digits
_DATES: Final = range(-(10**12), 10**14)


@dataclass(frozen=True, slots=True)
class Listener:
    """An address that REST listens at. Port 0: any free one."""

    host: str
    port: int
    scheme: str = "http"

    def __str__(self) -> str:
        """Returns it as a property names it."""
        return f"{self.scheme}://{_url_host(self.host)}:{self.port}"

    def url(self, port: int) -> str:
        """Returns the address at which others reach `port`, unless another is advertised."""
        host = socket.gethostname() if self.host in (_EVERY_IPV4, _EVERY) else self.host
        return f"{self.scheme}://{_url_host(host)}:{port}"


@dataclass(frozen=True, slots=True)
class RestSettings:
    """`loopback`: only this machine reaches the listeners. `hosts`: names that clients may call
    them by; none: any, but on a loopback listener. `own_name`: the one that is advertised.
    `origins`: of web pages that may use it, as regular expressions or `*`. `methods`: those that
    browsers may use from there. `login`: whether clients need one; `users`: whether those of the
    file of Apache's basic-auth extension may use it. `metrics`: whether /metrics is served.
    `headers`: those of every answer. `admin`: the listeners of /admin/loggers; none: it is not
    served; None: all other listeners. `login_hosts`: those that logins are forwarded to."""

    loopback: bool = False
    hosts: frozenset[str] = frozenset()
    origins: tuple[str, ...] = ()
    methods: tuple[str, ...] = _METHODS
    max_body_bytes: int = MAX_BODY_BYTES
    login: bool = False
    users: bool = False
    metrics: bool = True
    headers: tuple[HeaderRule, ...] = ()
    admin: tuple[Listener, ...] | None = None
    login_hosts: frozenset[str] = frozenset()
    own_name: str = ""

    def at(self, listener: Listener) -> RestSettings:
        """Returns the settings of one of several listeners: one on loopback checks names, also if
        others do not."""
        if self.loopback or not is_loopback(listener.host):
            return self
        return replace(self, loopback=True, hosts=self.hosts | {self.own_name})


def define_rest_keys(keys: ConfigDef) -> None:
    """Defines the worker properties that `rest_settings` reads."""
    text, names = ConfigType.STRING, ConfigType.LIST
    keys.define("listeners", names, DEFAULT_LISTENER, validator=_listeners)
    keys.define("admin.listeners", names, None, validator=_admin_listeners)
    keys.define("rest.advertised.host.name", text, None)
    keys.define("rest.advertised.port", ConfigType.INT, None, validator=_port)
    keys.define("rest.advertised.listener", text, None, validator=_scheme)
    keys.define("rest.extension.classes", names, "", validator=_extensions)
    keys.define(_HEADERS, text, "", validator=validate_rules)
    keys.define("access.control.allow.methods", names, "")
    keys.define("access.control.allow.origin", names, "", validator=_patterns)
    keys.define("rest.allowed.hosts", names, "")
    keys.define("rest.forward.login.hosts", names, "")
    keys.define("rest.authentication", text, "none", validator=OneOf(("none", _BASIC)))
    keys.define("rest.metrics.enable", ConfigType.BOOLEAN, True)
    keys.define("rest.max.body.bytes", ConfigType.INT, MAX_BODY_BYTES, validator=Range(low=1024))


def rest_settings(values: Mapping[str, Any]) -> RestSettings:
    """Returns the settings from parsed worker properties. The name that this worker advertises is
    always allowed."""
    listeners = parse_listeners("listeners", values["listeners"])
    admin = values["admin.listeners"]
    admins = None if admin is None else parse_listeners("admin.listeners", admin)
    advertises = advertised(listeners, values["rest.advertised.listener"])
    own_name = values["rest.advertised.host.name"] or urlsplit(advertises.url(0)).hostname or ""
    allowed = values["rest.allowed.hosts"]
    has_users = EXTENSION in values["rest.extension.classes"]
    loopback = all(is_loopback(listener.host) for listener in (*listeners, *(admins or ())))
    return RestSettings(
        loopback=loopback,
        hosts=_names([*allowed, own_name] if allowed or loopback else ()),
        origins=tuple(filter(None, values["access.control.allow.origin"])),
        methods=tuple(filter(None, values["access.control.allow.methods"])) or _METHODS,
        max_body_bytes=values["rest.max.body.bytes"],
        login=has_users or values["rest.authentication"] == _BASIC,
        users=has_users,
        metrics=values["rest.metrics.enable"],
        headers=parse_rules(values[_HEADERS]),
        admin=admins,
        login_hosts=_names(values["rest.forward.login.hosts"]),
        own_name=own_name.lower(),
    )


def _names(hosts: Sequence[str]) -> frozenset[str]:
    return frozenset(host.lower() for host in hosts if host)


def listener_problem(values: Mapping[str, Any]) -> tuple[str, str] | None:
    """Returns the property whose listeners cannot listen beside the others, and why."""
    listeners = parse_listeners("listeners", values["listeners"])
    admins = parse_listeners("admin.listeners", values["admin.listeners"] or ())
    shared = _shared_address(listeners, admins)
    if shared is not None:
        return "admin.listeners", (
            f"Invalid value {shared} for configuration admin.listeners: listeners "
            "has this address, too; name another one, or remove admin.listeners, and each listener "
            "serves /admin"
        )
    for key, of_key in (("listeners", listeners), ("admin.listeners", admins)):
        for number, listener in enumerate(of_key):
            if _shared_address(of_key[:number], (listener,)) is not None:
                return (
                    key,
                    f"Invalid value {listener} for configuration {key}: another has this address",
                )
    return None


def parse_listeners(key: str, urls: Sequence[str]) -> tuple[Listener, ...]:
    """Returns the listeners of a property. Raises ConfigError."""
    return tuple(_listener(key, url) for url in urls)


def _listener(key: str, url: str) -> Listener:
    match = _LISTENER.fullmatch(url.strip())
    if match is None or match[1].lower() not in _SCHEMES or int(match[3]) >= _PORTS:
        raise ConfigError.invalid(key, url, "must be http://host:port or https://host:port")
    return Listener(match[2] or _EVERY_IPV4, int(match[3]), match[1].lower())


def advertised(listeners: Sequence[Listener], scheme: str | None) -> Listener:
    """Returns the listener that this worker advertises: the first of this scheme, or else of
    http."""
    schemes = [scheme.lower()] if scheme else _SCHEMES
    matching = (listener for name in schemes for listener in listeners if listener.scheme == name)
    return next(matching, listeners[0])


def _shared_address(listeners: Sequence[Listener], further: Sequence[Listener]) -> Listener | None:
    """Returns the first of `further` that would listen at the address of one of the listeners."""
    return next(
        (second for second in further if any(_is_same(first, second) for first in listeners)), None
    )


def _is_same(first: Listener, second: Listener) -> bool:
    names = (first.host.lower(), second.host.lower())
    hosts = {_HOSTS.get(name, name) for name in names}
    if first.port != second.port or first.port == 0:
        return False
    of_ipv4 = not any(":" in host for host in hosts)
    return len(hosts) == 1 or _EVERY in hosts or (_EVERY_IPV4 in hosts and of_ipv4)


def is_loopback(host: str) -> bool:
    """Returns True if only this machine reaches a listener on this host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _listeners(name: str, value: Any) -> None:
    if not value:
        raise ConfigError.invalid(name, value, "at least one listener is needed")
    parse_listeners(name, value)


def _admin_listeners(name: str, value: Any) -> None:
    parse_listeners(name, value or ())


def _port(name: str, value: Any) -> None:
    if value is not None and not 0 < value < _PORTS:
        raise ConfigError.invalid(name, value, "must be between 1 and 65535")


def _scheme(name: str, value: Any) -> None:
    if value and value.lower() not in _SCHEMES:
        raise ConfigError.invalid(name, value, "must be http or https")


def _extensions(name: str, value: Any) -> None:
    refused = [extension for extension in value or () if extension != EXTENSION]
    if refused:
        raise ConfigError.invalid(
            name,
            ", ".join(refused),
            f"REST extensions are Java classes, which do not run here, but for {EXTENSION}",
        )


def _patterns(name: str, value: Any) -> None:
    for pattern in value or ():
        try:
            re.compile("" if pattern == "*" else pattern)
        except re.error as error:
            raise ConfigError.invalid(name, pattern, f"not a regular expression: {error}") from None


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """A header that every answer gets unless it has it itself: `action name:value`, of the actions
    set, add, setDate and addDate. `adds`: beside others of its name; `from_now`: the value is
    milliseconds from now."""

    name: str
    value: str
    adds: bool
    from_now: bool

    def text(self) -> str:
        """Returns the header's value at this moment."""
        if self.from_now:
            return formatdate(time.time() + int(self.value) / 1000, usegmt=True)
        return self.value


def parse_rules(text: str) -> tuple[HeaderRule, ...]:
    """Returns the rules. Raises ConfigError with Apache's texts."""
    if not text.strip():
        return ()
    line = text.replace("\n", " ").replace("\r", " ")
    try:
        rules = next(csv.reader([line], skipinitialspace=True))
    except csv.Error as error:
        raise ConfigError(f"Invalid list of header configs in {_HEADERS}: {error}") from None
    return tuple(_rule(rule.strip()) for rule in rules)


def validate_rules(name: str, value: Any) -> None:
    """Raises ConfigError if the value is not a list of rules."""
    parse_rules(value or "")


def _rule(text: str) -> HeaderRule:
    word, _, header = text.partition(" ")
    if not header.strip():
        raise ConfigError(
            f"Invalid format of header config '{text}' in {_HEADERS}. "
            "Expected: '[action] [header name]:[header value]'"
        )
    action = next((action for action in _ACTIONS if action.lower() == word.lower()), None)
    if action is None:
        raise ConfigError(
            f"Invalid header config action: '{word}' in {_HEADERS}. "
            f"Expected one of [{', '.join(_ACTIONS)}]"
        )
    name, colon, value = header.strip().partition(":")
    name, value, from_now = name.strip(), value.strip(), action.endswith("Date")
    is_valid = value.isascii() and value.isprintable() and (not from_now or _is_number(value))
    if not colon or not value or ":" in value or not is_valid:
        raise ConfigError(
            f"Invalid format of header name and header value pair '{header}' in {_HEADERS}. "
            "Expected: '[header name]:[header value]'"
        )
    if not _TOKEN.fullmatch(name):
        raise ConfigError(
            f"Invalid header name '{name}' in {_HEADERS}. "
            "The '[header name]' cannot contain whitespace"
        )
    if name.lower() in _FRAMING:
        raise ConfigError(f"Invalid header name '{name}' in {_HEADERS}. The server itself sets it")
    return HeaderRule(name, value, action.startswith("add"), from_now)


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d{1,15}", text) is not None and int(text) in _DATES
