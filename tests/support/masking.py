"""A proxy before a Connect cluster that masks secrets in all answers, as hosted ones do."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from support.serving import serving

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


@contextmanager
def masking(url: str, keys: Collection[str], mask: str) -> Iterator[tuple[str, list[str]]]:
    """Its address, and the bodies that were sent through it."""
    sent: list[str] = []

    async def forward(request: Request) -> Response:
        content = await request.body()
        sent.append(content.decode())
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        headers = {"Content-Type": "application/json"} if content else {}
        async with httpx.AsyncClient(base_url=url, timeout=100) as client:
            answer = await client.request(request.method, path, content=content, headers=headers)
        body, kind = answer.content, answer.headers.get("Content-Type", "")
        if body and kind.startswith("application/json"):
            body = json.dumps(_masked(json.loads(body), keys, mask)).encode()
        return Response(body, answer.status_code, media_type=kind or None)

    with serving(Starlette(routes=[Route("/{path:path}", forward, methods=METHODS)])) as address:
        yield f"http://{address}", sent


def _masked(value: Any, keys: Collection[str], mask: str) -> Any:
    if isinstance(value, dict):
        return {
            key: mask if key in keys and isinstance(each, str) else _masked(each, keys, mask)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_masked(each, keys, mask) for each in value]
    return value
