"""Decides by a request's headers whether it reaches its resource, as Jersey does: 415, then 406.

Both are answered without a content type. The content type is checked even if there is no body; a
body without one reaches the resource, which refuses it if it reads a body.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from connect_runtime.rest.responses import JSON

# `type/subtype`, with parameters
_MEDIA_TYPE = re.compile(r"\s*[^\s/;,]+/[^\s/;,]+\s*(;.*)?")
_METHODS: Final = ("HEAD", "DELETE", "POST", "GET", "OPTIONS", "PUT", "PATCH")
_ANYTHING: Final = ("*", "*/*", "application/*", JSON)


def is_media_type(text: str) -> bool:
    """Whether a Content-Type header can be understood; Jetty answers others itself."""
    return _MEDIA_TYPE.fullmatch(text) is not None


def is_json(content_type: str) -> bool:
    """Whether a body of this type is JSON."""
    return _plain(content_type) == JSON


def accepts_json(accept: str) -> bool:
    """Whether a client with this Accept header, empty if there is none, takes JSON. Weights are
    ignored, as in Jersey."""
    wanted = [_plain(each) for each in accept.split(",")]
    return wanted == [""] or any(each in _ANYTHING for each in wanted)


def allowed(methods: Collection[str]) -> list[str]:
    """Returns what OPTIONS lists for a resource with these methods, in Jersey's order."""
    found = {*methods, "OPTIONS", *(["HEAD"] if "GET" in methods else [])}
    return [method for method in _METHODS if method in found]


def _plain(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()
