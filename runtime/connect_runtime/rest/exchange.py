"""A request as a resource gets it, and its reply: plain values, independent of HTTP; and the HTTP
response that is made of a reply."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import orjson
from starlette.responses import Response

from connect_runtime.herder.verbs import RequestError

JSON: Final = "application/json"


class _Nothing:
    """No body at all; None would be JSON's null."""


NOTHING: Final = _Nothing()


@dataclass(frozen=True, slots=True)
class Call:
    """A request: decoded path parameters, query parameters in order, the raw body. `base` is the
    scheme and host that the client used (empty for reads), `headers` are found by their names in
    lower case. `target` is the path as it came, still encoded."""

    path: Mapping[str, str] = field(default_factory=dict)
    query: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    base: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = "GET"
    target: str = "/"

    def entity(self) -> bytes:
        """Returns the body for a resource that reads it. Raises RequestError 415 if its content
        type is not known."""
        if self.body and "content-type" not in self.headers:
            raise RequestError(415, "HTTP 415 Unsupported Media Type")
        return self.body

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Returns a boolean query parameter; as in Java, anything but `true` is false, and a blank
        one is the default."""
        texts = self.values(name)
        return texts[0].lower() == "true" if texts and texts[0].strip() else default

    def values(self, name: str) -> list[str]:
        """Returns all values of a query parameter."""
        return [value for key, value in self.query if key == name]


@dataclass(frozen=True, slots=True)
class Text:
    """A body that is not JSON."""

    content: str
    media_type: str


@dataclass(frozen=True, slots=True)
class Reply:
    """A status and JSON, a `text` of another media type, or no body."""

    status: int
    json: Any = NOTHING
    headers: Mapping[str, str] = field(default_factory=dict)
    text: Text | None = None


Resource: TypeAlias = Callable[[Call], Reply]
Routes: TypeAlias = Mapping[tuple[str, str], Resource]


def error_reply(status: int, message: str, headers: Mapping[str, str] | None = None) -> Reply:
    """Returns Connect's error body."""
    return Reply(status, {"error_code": status, "message": message}, headers or {})


def response(reply: Reply, media_type: str | None = JSON) -> Response:
    """Returns the HTTP response of a reply. Errors that no resource answered have no content type
    in Connect: then `media_type` is None."""
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
