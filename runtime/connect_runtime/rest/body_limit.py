"""Reads a request's body within limits of size and time, and of the memory for all bodies."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

import anyio
from starlette.requests import Request

from connect_runtime.herder.verbs import RequestError
from connect_runtime.rest.lanes import Busy

BODY_S: Final = 30.0
_HELD_BYTES: Final = 64 * 1024 * 1024
# Large bodies must not keep out those of usual size
_FREE_BYTES: Final = 64 * 1024


class HeldBytes:
    """Limits the memory for bodies that are held at once: together 64 MiB, or two of the largest.
    The first 64 KiB of each are not counted."""

    def __init__(self, largest: int) -> None:
        self._most = max(_HELD_BYTES, 2 * largest)
        self._held = 0

    @contextlib.contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """Yields a function that is called with the size of one body, as it grows; it raises Busy
        instead of exceeding the limit. The body is held until the context ends."""
        counted = 0

        def grown_to(size: int) -> None:
            nonlocal counted
            more = max(size - _FREE_BYTES, 0) - counted
            if more > 0 and self._held + more > self._most:
                raise Busy
            counted += more
            self._held += more

        try:
            yield grown_to
        finally:
            self._held -= counted


async def read_body(
    request: Request,
    max_bytes: int,
    grown_to: Callable[[int], None] = lambda size: None,
    within_s: float = BODY_S,
) -> bytes:
    """Returns the whole body; `grown_to` gets its size as it grows. Raises RequestError 413 as soon
    as it is known to be too large, 408 after `within_s`, what `grown_to` raises, and
    ClientDisconnect."""
    declared = request.headers.get("content-length", "")
    if declared in ("", "0") and "transfer-encoding" not in request.headers:
        return b""
    if declared.isdecimal() and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    body = bytearray()
    try:
        with anyio.fail_after(within_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > max_bytes:
                    raise _too_large(max_bytes)
                grown_to(len(body))
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
