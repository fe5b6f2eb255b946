"""Decides by its Host, Origin and login if a request may be answered at all.

A web page can make its reader's browser send requests here: under a name of the page's own that
resolves to this machine (DNS rebinding: the Host shows it), or from another origin (CSRF: the
Origin shows it, also for requests without a preflight).
"""

from __future__ import annotations

import base64
import hmac
import ipaddress
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from connect_runtime.rest.exchange import error_reply, response
from connect_runtime.rest.password import USER
from connect_runtime.rest.response_headers import CrossOrigin, is_listed, is_preflight
from connect_runtime.rest.rest_settings import RestSettings

_WITHOUT_LOGIN: Final = "/health"


def guarded(
    app: ASGIApp,
    settings: RestSettings,
    password: Callable[[], str | None],
    *,
    cross_origin: bool = True,
) -> ASGIApp:
    """Wraps `app` with access checks. `password` is looked up for each request, so that it can be
    replaced; None admits no client. `cross_origin`: answers permit pages of other origins."""
    if settings.login:
        app = _Login(app, password)
    if settings.origins and cross_origin:
        app = CrossOrigin(app, settings.origins, settings.methods, login=settings.login)
    return _SameSite(app, settings)


def refusal(host: str | None, origin: str | None, settings: RestSettings) -> str | None:
    """Returns why a request with these headers is refused; None if it is not."""
    if (
        host is not None
        and (settings.loopback or settings.hosts)
        and not _is_allowed_host(_host_name(host), settings)
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


def _host_name(host: str) -> str:
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
        problem = refusal(headers.get("host"), headers.get("origin"), self._settings)
        app = self._app if problem is None else response(error_reply(403, problem))
        await app(scope, receive, send)


class _Login:
    """Requires user and password (RFC 7617), except for health and preflight requests."""

    def __init__(self, app: ASGIApp, password: Callable[[], str | None]) -> None:
        self._app = app
        self._password = password

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        authorization = Headers(scope=scope).get("authorization", "")
        needs_none = scope["path"] == _WITHOUT_LOGIN or is_preflight(scope)
        if not needs_none and not _is_login(authorization, self._password()):
            challenge = {"WWW-Authenticate": 'Basic realm="connect", charset="UTF-8"'}
            app = response(error_reply(401, "User cannot access the resource.", challenge))
        await app(scope, receive, send)


def _is_login(authorization: str, password: str | None) -> bool:
    scheme, _, encoded = authorization.partition(" ")
    if password is None or scheme.lower() != "basic":
        return False
    try:
        login = base64.b64decode(encoded.strip(), validate=True)
    except ValueError:
        return False
    return hmac.compare_digest(login, f"{USER}:{password}".encode())
