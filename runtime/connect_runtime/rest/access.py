"""Decides whether a request may be answered at all, by its Host, Origin and login.

A web page can make its reader's browser send requests here: under a name of the page's own that
resolves to this machine (DNS rebinding: the Host shows it), or from another origin (CSRF: the
Origin shows it, also for requests without a preflight).
"""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from connect_runtime.rest.cross_origin import CrossOrigin, is_listed, is_preflight
from connect_runtime.rest.exchange import Reply, error_reply
from connect_runtime.rest.password import USER
from connect_runtime.rest.responses import response
from connect_runtime.rest.settings import RestSettings

_ANYBODY_MAY: Final = "/health"


def guarded(
    app: ASGIApp,
    settings: RestSettings,
    password: Callable[[], str | None],
    *,
    cross_origin: bool = True,
) -> ASGIApp:
    """Wraps `app` with access checks. `password` is looked up for each request, so that it can be
    replaced; None admits nobody. `cross_origin`: whether browsers are told that pages of other
    origins may use it."""
    if settings.login:
        app = _Login(app, password)
    if settings.origins and cross_origin:
        app = CrossOrigin(app, settings)
    return _SameSite(app, settings)


def refusal(host: str | None, origin: str | None, settings: RestSettings) -> str | None:
    """Returns why a request with these headers is refused; None if it is not."""
    if (
        host is not None
        and (settings.loopback or settings.hosts)
        and not _is_allowed_host(_name_of(host), settings)
    ):
        return (
            "This host name is not allowed here; rest.allowed.hosts lists the names that this "
            "worker answers to"
        )
    if origin is not None and not _is_allowed_origin(origin, host, settings):
        return (
            "Requests of web pages from other origins are not allowed; "
            "access.control.allow.origin lists those that are"
        )
    return None


def _is_allowed_host(name: str, settings: RestSettings) -> bool:
    if name in settings.hosts:
        return True
    return settings.loopback and (name == "localhost" or _is_address(name))


def _is_allowed_origin(origin: str, host: str | None, settings: RestSettings) -> bool:
    if is_listed(origin, settings.origins):
        return True
    try:
        return host is not None and urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


def _name_of(host: str) -> str:
    """Returns a Host header without its port, and an address without brackets."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class _SameSite:
    """Refuses other hosts' names and origins."""

    def __init__(self, app: ASGIApp, settings: RestSettings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        why = refusal(headers.get("host"), headers.get("origin"), self._settings)
        if why is None:
            await self._app(scope, receive, send)
        else:
            await response(error_reply(403, why))(scope, receive, send)


class _Login:
    """Requires user and password (RFC 7617), except for health and preflight requests."""

    def __init__(self, app: ASGIApp, password: Callable[[], str | None]) -> None:
        self._app = app
        self._password = password

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = Headers(scope=scope).get("authorization")
        is_free = scope["path"] == _ANYBODY_MAY or is_preflight(scope)
        if is_free or _is_login(given, self._password()):
            await self._app(scope, receive, send)
            return
        found = error_reply(401, "User cannot access the resource.")
        asked = {"WWW-Authenticate": 'Basic realm="connect", charset="UTF-8"'}
        await response(Reply(found.status, found.json, asked))(scope, receive, send)


def _is_login(given: str | None, password: str | None) -> bool:
    scheme, _, encoded = (given or "").partition(" ")
    if password is None or scheme.lower() != "basic":
        return False
    try:
        login = base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(login, f"{USER}:{password}".encode())
