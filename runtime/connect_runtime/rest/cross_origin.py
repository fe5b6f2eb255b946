"""Tells browsers which web pages may use the REST API, with the headers of Jetty's
CrossOriginHandler.

A preflight request is answered by its resource, as every OPTIONS.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from connect_runtime.rest.settings import RestSettings

_AGE_S: Final = 60


class CrossOrigin:
    """Adds the headers to answers for web pages of the origins that are allowed."""

    def __init__(self, app: ASGIApp, settings: RestSettings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        added = self._headers(scope)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(added)
            await send(message)

        await self._app(scope, receive, with_headers)

    def _headers(self, scope: Scope) -> dict[str, str]:
        found = {"Vary": "Origin"}
        origin = Headers(scope=scope).get("origin")
        if origin is None or not is_listed(origin, self._settings.origins):
            return found
        found["Access-Control-Allow-Origin"] = origin
        if is_preflight(scope):
            names = ["Content-Type", *(["Authorization"] if self._settings.login else [])]
            found |= {
                "Access-Control-Allow-Methods": ",".join(self._settings.methods),
                "Access-Control-Allow-Headers": ",".join(names),
                "Access-Control-Max-Age": str(_AGE_S),
            }
        return found


def is_listed(origin: str, origins: Sequence[str]) -> bool:
    """Whether one of these patterns, or `*`, matches the whole origin, in any case."""
    return any(each == "*" or re.fullmatch(each, origin, re.IGNORECASE) for each in origins)


def is_preflight(scope: Scope) -> bool:
    """Whether a browser asks what a page may do; it never has a login then."""
    headers = Headers(scope=scope)
    return (
        scope["method"] == "OPTIONS"
        and "origin" in headers
        and "access-control-request-method" in headers
    )
