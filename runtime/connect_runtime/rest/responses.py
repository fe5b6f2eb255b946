"""Converts replies to HTTP. Every answer but Jetty's own pages and /metrics is JSON."""

from __future__ import annotations

import json
from typing import Any, Final

import orjson
from starlette.responses import Response

from connect_runtime.rest.exchange import NOTHING, Reply

JSON: Final = "application/json"


def response(reply: Reply, media_type: str | None = JSON) -> Response:
    """Returns the HTTP response. JAX-RS errors have no content type in Connect: then `media_type`
    is None."""
    if reply.text is not None:
        headers = {**reply.headers, "Content-Type": reply.text.media_type}
        return Response(reply.text.content, reply.status, headers)
    if reply.json is NOTHING:
        return Response(status_code=reply.status, headers=dict(reply.headers))
    content = _encoded(reply.json)
    return Response(content, reply.status, dict(reply.headers), media_type=media_type)


def _encoded(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        # half of a surrogate pair, such as in a plugin's error: Java writes a question mark
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
