"""Decides by its Host, Origin and login if a request may be answered at all.

A web page can make its reader's browser send requests here: under a name of the page's own that
resolves to this machine (DNS rebinding: the Host shows it), or from another origin (CSRF: the
Origin shows it, also for requests without a preflight).

Answers get the headers of `response.http.headers.config`, and those that permit web pages of other
origins (CORS), as from Jetty's HeaderFilter and CrossOriginHandler. A preflight request is answered
by its resource, as every OPTIONS.
"""

from __future__ import annotations

import base64
import hmac
import ipaddress
import re
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from connect_runtime.rest.exchange import error_reply, response
from connect_runtime.rest.password import USER
from connect_runtime.rest.rest_settings import HeaderRule, RestSettings

_WITHOUT_LOGIN: Final = "/health"
_PREFLIGHT_AGE_S: Final = 60


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


class ResponseHeaders:
    """Adds the headers of rules to every answer."""

    def __init__(self, app: ASGIApp, rules: Sequence[HeaderRule]) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, _changing_headers(send, self._add))

    def _add(self, headers: MutableHeaders) -> None:
        own = {*headers.keys()}
        for rule in self._rules:
            if rule.adds:
                headers.append(rule.name, rule.text())
            elif rule.name.lower() not in own:
                headers[rule.name] = rule.text()


class CrossOrigin:
    """Adds headers to answers for web pages of the origins that are allowed, as regular expressions
    or `*`. `methods`: those that they may use, `login`: requests need one."""

    def __init__(
        self, app: ASGIApp, origins: Sequence[str], methods: Sequence[str], *, login: bool
    ) -> None:
        self._app = app
        self._origins = origins
        request_headers = ["Content-Type", *(["Authorization"] if login else [])]
        self._of_preflight = {
            "Access-Control-Allow-Methods": ",".join(methods),
            "Access-Control-Allow-Headers": ",".join(request_headers),
            "Access-Control-Max-Age": str(_PREFLIGHT_AGE_S),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        added = self._headers(scope)
        await self._app(scope, receive, _changing_headers(send, lambda own: own.update(added)))

    def _headers(self, scope: Scope) -> dict[str, str]:
        origin = Headers(scope=scope).get("origin")
        headers = {"Vary": "Origin"}
        if origin is not None and is_listed(origin, self._origins):
            headers["Access-Control-Allow-Origin"] = origin
            headers |= self._of_preflight if is_preflight(scope) else {}
        return headers


def _changing_headers(send: Send, change: Callable[[MutableHeaders], None]) -> Send:
    async def send_changed(message: Message) -> None:
        if message["type"] == "http.response.start":
            change(MutableHeaders(scope=message))
        await send(message)

    return send_changed


def is_listed(origin: str, origins: Sequence[str]) -> bool:
    """Returns True if one of these patterns, or `*`, matches the whole origin, in any case."""
    return any(
        pattern == "*" or re.fullmatch(pattern, origin, re.IGNORECASE) for pattern in origins
    )


def is_preflight(scope: Scope) -> bool:
    """Returns True for a browser's question about the requests that a page may send, which never
    has a login."""
    headers = Headers(scope=scope)
    return (
        scope["method"] == "OPTIONS"
        and "origin" in headers
        and "access-control-request-method" in headers
    )
