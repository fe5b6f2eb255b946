"""Worker properties for the REST API: who may use it, from where, and request size limits."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlsplit

from connect_runtime.api import (
    ConfigDef,
    ConfigError,
    ConfigType,
    Described,
    Importance,
    OneOf,
    Range,
)
from connect_runtime.rest.listeners import Listener, advertised, parse_listeners, shared_address
from connect_runtime.rest.response_headers import HeaderRule, parse_rules, validate_rules

DEFAULT_LISTENER: Final = "http://127.0.0.1:8083"
MAX_BODY_BYTES: Final = 1024 * 1024
# What browsers may send without a preflight, and Jetty allows by default
_METHODS: Final = ("GET", "POST", "HEAD")
_BASIC: Final = "basic"


@dataclass(frozen=True, slots=True)
class RestSettings:
    """`loopback`: only this machine reaches the listeners. `hosts`: names that clients may call
    them by; none: any, but on a loopback listener. `own_name`: the one that is advertised.
    `origins`: of web pages that may use it, as regular expressions or `*`. `methods`: those that
    browsers may use from there. `login`: whether clients need the password. `metrics`: whether
    /metrics is served. `headers`: those of every answer. `admin`: the listeners of /admin/loggers;
    none: it is not served; None: all other listeners. `login_hosts`: those that logins are
    forwarded to."""

    loopback: bool = False
    hosts: frozenset[str] = frozenset()
    origins: tuple[str, ...] = ()
    methods: tuple[str, ...] = _METHODS
    max_body_bytes: int = MAX_BODY_BYTES
    login: bool = False
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
    low = Importance.LOW
    keys.define(
        "listeners",
        ConfigType.LIST,
        DEFAULT_LISTENER,
        validator=Described(
            _listeners, "URLs such as http://localhost:8080,https://localhost:8443"
        ),
    )
    keys.define(
        "admin.listeners",
        ConfigType.LIST,
        None,
        validator=Described(_admin_listeners, "URLs such as http://localhost:8080"),
        importance=low,
    )
    keys.define("rest.advertised.host.name", ConfigType.STRING, None)
    keys.define("rest.advertised.port", ConfigType.INT, None, validator=Described(_port, "a port"))
    keys.define(
        "rest.advertised.listener",
        ConfigType.STRING,
        None,
        validator=Described(_scheme, "http or https"),
    )
    keys.define(
        "rest.extension.classes",
        ConfigType.LIST,
        "",
        validator=Described(_no_extensions, "empty"),
        importance=low,
    )
    keys.define(
        "response.http.headers.config",
        ConfigType.STRING,
        "",
        validator=Described(validate_rules, "rules of the form [action] [header name]:[value]"),
        importance=low,
    )
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


def rest_settings(values: Mapping[str, Any]) -> RestSettings:
    """Returns the settings from parsed worker properties. The name that this worker advertises is
    always allowed."""
    listeners = parse_listeners("listeners", values["listeners"])
    admin = values["admin.listeners"]
    admins = None if admin is None else parse_listeners("admin.listeners", admin)
    told = advertised(listeners, values["rest.advertised.listener"])
    own_name = values["rest.advertised.host.name"] or urlsplit(told.url(0)).hostname or ""
    allowed = values["rest.allowed.hosts"]
    loopback = all(is_loopback(each.host) for each in (*listeners, *(admins or ())))
    hosts = {*allowed, own_name} if allowed or loopback else set()
    return RestSettings(
        loopback=loopback,
        hosts=frozenset(each.lower() for each in hosts if each),
        origins=tuple(each for each in values["access.control.allow.origin"] if each),
        methods=tuple(each for each in values["access.control.allow.methods"] if each) or _METHODS,
        max_body_bytes=values["rest.max.body.bytes"],
        login=values["rest.authentication"] == _BASIC,
        metrics=values["rest.metrics.enable"],
        headers=parse_rules(values["response.http.headers.config"]),
        admin=admins,
        login_hosts=frozenset(each.lower() for each in values["rest.forward.login.hosts"] if each),
        own_name=own_name.lower(),
    )


def listener_problem(values: Mapping[str, Any]) -> tuple[str, str] | None:
    """Returns the property whose listeners cannot listen beside the others, and why."""
    listeners = parse_listeners("listeners", values["listeners"])
    admins = parse_listeners("admin.listeners", values["admin.listeners"] or ())
    shared = shared_address(listeners, admins)
    if shared is not None:
        return "admin.listeners", (
            f"Invalid value {shared} for configuration admin.listeners: listeners "
            "has this address, too; name another one, or remove admin.listeners, and each listener "
            "serves /admin"
        )
    for key, found in (("listeners", listeners), ("admin.listeners", admins)):
        for number, each in enumerate(found):
            if shared_address(found[:number], (each,)) is not None:
                return (
                    key,
                    f"Invalid value {each} for configuration {key}: another has this address",
                )
    return None


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a listener on this host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _listeners(name: str, value: Any) -> None:
    if not value:
        raise ConfigError.invalid(name, value, "at least one listener is needed")
    parse_listeners(name, value)


def _admin_listeners(name: str, value: Any) -> None:
    parse_listeners(name, value or ())


def _port(name: str, value: Any) -> None:
    if value is not None and not 0 < value < 65536:
        raise ConfigError.invalid(name, value, "must be between 1 and 65535")


def _scheme(name: str, value: Any) -> None:
    if value and value.lower() not in ("http", "https"):
        raise ConfigError.invalid(name, value, "must be http or https")


def _no_extensions(name: str, value: Any) -> None:
    if value:
        raise ConfigError.invalid(
            name, ", ".join(value), "REST extensions are Java classes, which do not run here"
        )


def _patterns(name: str, value: Any) -> None:
    for each in value or ():
        try:
            re.compile("" if each == "*" else each)
        except re.error as error:
            raise ConfigError.invalid(name, each, f"not a regular expression: {error}") from None
