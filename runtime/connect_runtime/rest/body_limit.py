"""Reads a request's body within limits of size and time."""

from __future__ import annotations

from typing import Final

import anyio
from starlette.requests import Request

from connect_runtime.herder.errors import RequestError

BODY_S: Final = 30.0


async def read_body(request: Request, max_bytes: int, within_s: float = BODY_S) -> bytes:
    """Returns the whole body. Raises RequestError 413 as soon as it is known to be too large, 408
    after `within_s`, ClientDisconnect."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    body = bytearray()
    try:
        with anyio.fail_after(within_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > max_bytes:
                    raise _too_large(max_bytes)
    except TimeoutError:
        raise RequestError(
            408, f"The request's body did not arrive within {within_s:.0f} seconds"
        ) from None
    return bytes(body)


def _too_large(max_bytes: int) -> RequestError:
    return RequestError(
        413,
        f"The request's body is larger than {max_bytes} bytes, which rest.max.body.bytes of this "
        "worker allows",
    )
