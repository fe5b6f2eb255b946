"""Applies Jetty's rules for paths before a request is routed, as an Apache worker's server does.

A path that can be understood in two ways is refused with Jetty's own page: an empty part, an
encoded slash, encoded dots, dots with parameters, a control character. So is one that leads out of
the root. Parameters of a part (`;x=1`), a trailing slash and a fragment (`#x`) are ignored.
Exception: a connector whose name holds a slash, which Apache's workers create and cannot delete, is
addressed with an encoded one. Paths stay encoded until they are routed, so such a name is one part
of its path.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Receive, Scope, Send

# In a path, /connectors/<name>
_NAME_AT: Final = 2

# Of which nothing is refused: most paths
_PLAIN = re.compile(r"(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_UTF_16 = re.compile(r"%[uU][0-9A-Fa-f]{4}")
_ILLEGAL = re.compile(r'[\x00-\x20"<>\\^`{|}\[\]\x7f]')
_CONTROL = re.compile(r"[\x01-\x1f\x7f]")
_DOTS: Final = (".", "..")
_ENCODED_DOT = re.compile("%2[eE]")
_DOTS_WITH_PARAMETERS = re.compile(r"/(\.|%2[eE]){1,2};")

SEPARATOR: Final = "Ambiguous URI path separator"


class Jetty:
    """Refuses ambiguous paths. `exists` tells whether there is a connector of that name."""

    def __init__(self, app: ASGIApp, exists: Callable[[str], bool]) -> None:
        self._app = app
        self._exists = exists

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw = scope.get("raw_path") or quote(scope["path"]).encode()
            sent = raw.decode("latin-1")
            path, why = bare(sent), refusal(sent)
            if why == SEPARATOR and self._is_connector(path):
                why = None
            if why is not None:
                await page(why)(scope, receive, send)
                return
            scope = {**scope, "path": path.removesuffix("/") or "/"}
        await self._app(scope, receive, send)

    def _is_connector(self, path: str) -> bool:
        parts = [unquote_to_bytes(part).decode() for part in path.split("/")]
        elsewhere = any("/" in part for at, part in enumerate(parts) if at != _NAME_AT)
        return not elsewhere and parts[1] == "connectors" and self._exists(parts[_NAME_AT])


def bare(path: str) -> str:
    """Returns an encoded path without its fragment and the parameters of its parts."""
    path = path.partition("#")[0]
    return "/".join(part.partition(";")[0] for part in path.split("/")) if ";" in path else path


def refusal(path: str) -> str | None:
    """Returns the title of the page that refuses an encoded path; None if it is routed."""
    if _PLAIN.fullmatch(path):
        return None
    with_parameters, path = path, bare(path)
    if _leaves_root(path):
        return "Bad Request"
    if _UTF_16.search(path):
        return "UTF-16 encoding"
    if _BAD_ESCAPE.search(path) or "%00" in path:
        return "Bad Request"
    if _ILLEGAL.search(path):
        return "Illegal Path Character"
    encoded = path.split("/")
    try:
        parts = [unquote_to_bytes(part).decode() for part in encoded]
    except UnicodeDecodeError:
        return "Bad UTF-8 encoding"
    if "" in parts[1:-1]:
        return "Ambiguous URI empty segment"
    ambiguous = []
    if any(part in _DOTS and part != sent for part, sent in zip(parts, encoded, strict=True)):
        ambiguous.append("Ambiguous URI path segment")
    if _DOTS_WITH_PARAMETERS.search(with_parameters):
        ambiguous.append("Ambiguous URI path parameter")
    if ambiguous:
        return ", ".join(ambiguous)
    if any(_CONTROL.search(part) for part in parts):
        return "Suspicious Path Character"
    return SEPARATOR if any("/" in part for part in parts) else None


def _leaves_root(path: str) -> bool:
    depth = 0
    for part in _ENCODED_DOT.sub(".", path).split("/")[1:]:
        depth += -1 if part == ".." else part != "."
        if depth < 0:
            return True
    return False


def page(title: str) -> HTMLResponse:
    """Returns a page that refuses a request, as Jetty sends it: not JSON."""
    found = HTMLResponse(
        f"<html><body><h2>HTTP ERROR 400 {title}</h2></body></html>",
        400,
        {"Cache-Control": "must-revalidate,no-cache,no-store"},
    )
    found.headers["content-type"] = "text/html;charset=iso-8859-1"
    return found
