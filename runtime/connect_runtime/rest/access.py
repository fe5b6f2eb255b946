"""Decides by its path, headers, Host, Origin and login if a request may be answered at all, and
adds headers to answers.

First the path: 400 for one that can be understood in two ways, such as with an empty segment, an
encoded slash or encoded dots. Parameters of a segment (`;x=1`), a trailing slash and a fragment are
ignored. Then, for a resource that exists, 415 by the content type, even without a body, and 406 by
what the client accepts. These two are answered without a content type.

A web page can make its reader's browser send requests here: under a name of the page's own that
resolves to this machine (DNS rebinding: the Host shows it), or from another origin (CSRF: the
Origin shows it, also for requests without a preflight).

Answers get the headers of `response.http.headers.config`, and those that permit web pages of other
origins (CORS), as from Jetty's HeaderFilter and CrossOriginHandler. A preflight request is answered
by its resource, as every OPTIONS.
"""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, unquote_to_bytes, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from connect_runtime.rest.exchange import JSON, error_reply, response
from connect_runtime.rest.rest_settings import RestSettings

_WITHOUT_LOGIN: Final = "/health"
_PREFLIGHT_AGE_S: Final = 60


class Guard:
    """Refuses requests before they reach `app`, and adds headers to answers. `admits` decides about
    a user and a password. `exists` finds a connector by its name. `cross_origin`: answers permit
    pages of other origins."""

    def __init__(
        self,
        app: ASGIApp,
        settings: RestSettings,
        admits: Callable[[str, str], bool],
        exists: Callable[[str], bool],
        *,
        cross_origin: bool = True,
    ) -> None:
        self._app = app
        self._settings = settings
        self._admits = admits
        self._exists = exists
        self._permits_origins = cross_origin and bool(settings.origins)
        request_headers = ["Content-Type", *(["Authorization"] if settings.login else [])]
        self._of_preflight = {
            "Access-Control-Allow-Methods": ",".join(settings.methods),
            "Access-Control-Allow-Headers": ",".join(request_headers),
            "Access-Control-Max-Age": str(_PREFLIGHT_AGE_S),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, permits = Headers(scope=scope), {}
        problem = refusal(headers.get("host"), headers.get("origin"), self._settings)
        if problem is not None:
            app: ASGIApp = response(error_reply(403, problem))
        else:
            permits = self._permits(scope, headers) if self._permits_origins else {}
            app, scope = self._admitted(scope, headers)
        await app(scope, receive, self._with_headers(send, permits))

    def _admitted(self, scope: Scope, headers: Headers) -> tuple[ASGIApp, Scope]:
        """Returns the application with the request for it, or a refusal by login or path. Paths
        stay encoded until they are routed, so that the name of a connector is one segment.

        A login is needed (RFC 7617) except for health and preflight requests. Apache's workers
        create connectors whose names hold a slash, and cannot delete them. Here such a one is
        addressed with the slash encoded.
        """
        needs_login = self._settings.login and scope["path"] != _WITHOUT_LOGIN
        if needs_login and not (is_preflight(scope) or self._has_login(headers)):
            challenge = {"WWW-Authenticate": 'Basic realm="connect", charset="UTF-8"'}
            return response(error_reply(401, "User cannot access the resource.", challenge)), scope
        raw = scope.get("raw_path") or quote(scope["path"]).encode()
        encoded = raw.decode("latin-1")
        path, problem = without_parameters(encoded), path_problem(encoded)
        if problem is not None and not (problem == SEPARATOR and self._is_connector(path)):
            return _bad_request(problem), scope
        return self._app, {**scope, "path": path.removesuffix("/") or "/"}

    def _has_login(self, headers: Headers) -> bool:
        scheme, _, encoded = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            login = base64.b64decode(encoded.strip(), validate=True).decode()
        except ValueError:
            return False
        user, colon, password = login.partition(":")
        return bool(colon) and self._admits(user, password)

    def _is_connector(self, path: str) -> bool:
        segments = [unquote_to_bytes(segment).decode() for segment in path.split("/")]
        elsewhere = any("/" in segment for at, segment in enumerate(segments) if at != _NAME_AT)
        return not elsewhere and segments[1] == "connectors" and self._exists(segments[_NAME_AT])

    def _permits(self, scope: Scope, headers: Headers) -> dict[str, str]:
        """Returns the headers that permit web pages of the origins that are allowed (CORS)."""
        origin = headers.get("origin")
        permits = {"Vary": "Origin"}
        if origin is not None and is_listed(origin, self._settings.origins):
            permits["Access-Control-Allow-Origin"] = origin
            permits |= self._of_preflight if is_preflight(scope) else {}
        return permits

    def _with_headers(self, send: Send, permits: Mapping[str, str]) -> Send:
        """Returns `send` with these headers, and those of rules, on each answer."""
        if not (permits or self._settings.headers):
            return send

        async def send_changed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(permits)
                own = {*headers.keys()}
                for rule in self._settings.headers:
                    if rule.adds:
                        headers.append(rule.name, rule.text())
                    elif rule.name.lower() not in own:
                        headers[rule.name] = rule.text()
            await send(message)

        return send_changed


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


# In a path, /connectors/<name>
_NAME_AT: Final = 2

# Of which nothing is refused: most paths
_PLAIN: Final = re.compile(r"(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+")
_INVALID: Final = re.compile(r'%(?![0-9A-Fa-f]{2})|%00|[\x00-\x20"<>\\^`{|}\[\]\x7f]')
_CONTROL: Final = re.compile(r"[\x01-\x1f\x7f]")
_DOTS: Final = (".", "..")
_ENCODED_DOT: Final = re.compile("%2[eE]")
_DOTS_WITH_PARAMETERS: Final = re.compile(r"/(\.|%2[eE]){1,2};")
# Begins with the words by which clients recognize that a connector's name does not fit into a path
SEPARATOR: Final = "Ambiguous URI path: a slash is encoded"

# `type/subtype`, with parameters
_MEDIA_TYPE: Final = re.compile(r"\s*[^\s/;,]+/[^\s/;,]+\s*(;.*)?")
_METHODS: Final = ("HEAD", "DELETE", "POST", "GET", "OPTIONS", "PUT", "PATCH")
_ACCEPTED: Final = ("*", "*/*", "application/*", JSON)


def without_parameters(path: str) -> str:
    """Returns an encoded path without its fragment and the parameters of its segments."""
    path = path.partition("#")[0]
    return (
        "/".join(segment.partition(";")[0] for segment in path.split("/")) if ";" in path else path
    )


def path_problem(encoded: str) -> str | None:
    """Returns why an encoded path is refused; None if it is routed."""
    if _PLAIN.fullmatch(encoded):
        return None
    path = without_parameters(encoded)
    if _leaves_root(path):
        return "The path leads out of the root"
    if _INVALID.search(path):
        return "The path has a character that must be encoded, or an invalid escape"
    encoded_segments = path.split("/")
    try:
        segments = [unquote_to_bytes(segment).decode() for segment in encoded_segments]
    except UnicodeDecodeError:
        return "The path is not UTF-8"
    if "" in segments[1:-1]:
        return "Ambiguous URI path: a segment is empty"
    if _DOTS_WITH_PARAMETERS.search(encoded) or any(
        segment in _DOTS and segment != raw
        for segment, raw in zip(segments, encoded_segments, strict=True)
    ):
        return "Ambiguous URI path: dots are encoded or have parameters"
    if any(_CONTROL.search(segment) for segment in segments):
        return "The path has a control character"
    return SEPARATOR if any("/" in segment for segment in segments) else None


def _leaves_root(path: str) -> bool:
    depth = 0
    for segment in _ENCODED_DOT.sub(".", path).split("/")[1:]:
        depth += -1 if segment == ".." else segment != "."
        if depth < 0:
            return True
    return False


def header_refusal(request: Request, *, any_content: bool, any_accept: bool) -> Response | None:
    """Returns the answer to a request whose headers refuse it; None for others. `any_content`: the
    resource takes any content type, `any_accept`: it is not only JSON."""
    content_type = request.headers.get("content-type")
    if content_type is not None and _MEDIA_TYPE.fullmatch(content_type) is None:
        return _bad_request("The Content-Type is not a media type")
    if content_type is not None and not any_content and _essence(content_type) != JSON:
        return http_error(415)
    # a client may send the header several times
    if not any_accept and not accepts_json(",".join(request.headers.getlist("accept"))):
        return http_error(406)
    return None


def accepts_json(accept: str) -> bool:
    """Returns True if a client with this Accept header, empty if there is none, takes JSON. Weights
    are ignored, as in Connect."""
    types = [_essence(media_type) for media_type in accept.split(",")]
    return types == [""] or any(media_type in _ACCEPTED for media_type in types)


def _essence(media_type: str) -> str:
    """Returns a media type without parameters."""
    return media_type.partition(";")[0].strip().lower()


def options(methods: Collection[str]) -> Response:
    """Returns the answer to OPTIONS of a resource with these methods."""
    served = {*methods, "OPTIONS", *(["HEAD"] if "GET" in methods else [])}
    names = [method for method in _METHODS if method in served]
    answer = Response(", ".join(names), headers={"Allow": ",".join(names)})
    answer.headers["content-type"] = "text/plain"
    return answer


def http_error(status: int) -> Response:
    """Returns an error of which Connect has no more to report than the status."""
    reply = error_reply(status, f"HTTP {status} {HTTPStatus(status).phrase}")
    return response(reply, media_type=None)


def _bad_request(problem: str) -> Response:
    """Returns a page, as Connect's server sends it before any resource."""
    return HTMLResponse(f"<html><body><h2>HTTP ERROR 400 {problem}</h2></body></html>", 400)
