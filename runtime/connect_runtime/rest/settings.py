"""Worker properties for the REST API: who may use it, from where, and request size limits."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from connect_runtime.api import (
    ConfigDef,
    ConfigError,
    ConfigType,
    Described,
    Importance,
    OneOf,
    Range,
)

MAX_BODY_BYTES: Final = 1024 * 1024
# What browsers may send without a preflight, and Jetty allows by default
_METHODS: Final = ("GET", "POST", "HEAD")
_BASIC: Final = "basic"


@dataclass(frozen=True, slots=True)
class RestSettings:
    """`loopback`: only this machine reaches the listener. `hosts`: names that clients may call it
    by; none: any, but on a loopback listener. `origins`: of web pages that may use it, as regular
    expressions or `*`. `methods`: those that browsers may use from there. `login`: whether clients
    need the password. `metrics`: whether /metrics is served. `login_hosts`: those that logins are
    forwarded to."""

    loopback: bool = False
    hosts: frozenset[str] = frozenset()
    origins: tuple[str, ...] = ()
    methods: tuple[str, ...] = _METHODS
    max_body_bytes: int = MAX_BODY_BYTES
    login: bool = False
    metrics: bool = True
    login_hosts: frozenset[str] = frozenset()

    @property
    def open_to_others(self) -> bool:
        """Whether anyone who can reach this machine may use it."""
        return not self.loopback and not self.login


def define_rest_keys(keys: ConfigDef) -> None:
    """Defines the worker properties that `rest_settings` reads."""
    low = Importance.LOW
    keys.define("access.control.allow.methods", ConfigType.LIST, "", importance=low)
    keys.define(
        "access.control.allow.origin",
        ConfigType.LIST,
        "",
        validator=Described(_patterns, "origins as regular expressions, or *"),
        importance=low,
    )
    keys.define("rest.allowed.hosts", ConfigType.LIST, "", importance=low)
    keys.define("rest.forward.login.hosts", ConfigType.LIST, "", importance=low)
    keys.define("rest.authentication", ConfigType.STRING, "none", validator=OneOf(("none", _BASIC)))
    keys.define("rest.metrics.enable", ConfigType.BOOLEAN, True, importance=low)
    keys.define(
        "rest.max.body.bytes",
        ConfigType.INT,
        MAX_BODY_BYTES,
        validator=Range(low=1024),
        importance=low,
    )


def rest_settings(values: Mapping[str, Any], host: str, own_name: str) -> RestSettings:
    """Returns the settings from parsed worker properties, the host that the listener binds, and the
    name that this worker advertises, which is always allowed."""
    allowed = values["rest.allowed.hosts"]
    loopback = is_loopback(host)
    hosts = {*allowed, own_name} if allowed or loopback else set()
    return RestSettings(
        loopback=loopback,
        hosts=frozenset(each.lower() for each in hosts if each),
        origins=tuple(each for each in values["access.control.allow.origin"] if each),
        methods=tuple(each for each in values["access.control.allow.methods"] if each) or _METHODS,
        max_body_bytes=values["rest.max.body.bytes"],
        login=values["rest.authentication"] == _BASIC,
        metrics=values["rest.metrics.enable"],
        login_hosts=frozenset(each.lower() for each in values["rest.forward.login.hosts"] if each),
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a listener on this host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _patterns(name: str, value: Any) -> None:
    for each in value or ():
        try:
            re.compile("" if each == "*" else each)
        except re.error as error:
            raise ConfigError.invalid(name, each, f"not a regular expression: {error}") from None
