"""A load balancer before the workers of a Connect cluster: each request goes to the next one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
from starlette.types import Receive, Scope, Send

from support.serving import serving


@dataclass(frozen=True, slots=True)
class Passed:
    """A request, the worker that it went to, and the answer."""

    method: str
    path: str
    worker: str
    status: int
    text: str

    @property
    def rebalancing(self) -> bool:
        """Whether the worker refused it only because of a rebalance."""
        words = ("rebalance", "stale configuration", "no known leader")
        return self.status in (409, 500) and any(each in self.text for each in words)


@dataclass(slots=True)
class Balancer:
    """Its address, and every request that it passed on, in order."""

    url: str = ""
    passed: list[Passed] = field(default_factory=list)

    def changes(self, worker: str) -> list[Passed]:
        """The requests that changed something, sent to this worker and accepted by it."""
        return [
            each
            for each in self.passed
            if each.worker == worker and each.method != "GET" and each.status < 300
        ]


@contextmanager
def balancing(workers: Sequence[str]) -> Iterator[Balancer]:
    """The balancer, for as long as the context lasts; `workers` are addresses."""
    balancer = Balancer()
    count = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal count
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        worker = workers[count % len(workers)]
        count += 1
        path = scope["raw_path"].decode()
        query = scope["query_string"].decode()
        headers = [
            (key, value) for key, value in scope["headers"] if key in (b"content-type", b"accept")
        ]
        async with httpx.AsyncClient(timeout=100, trust_env=False) as client:
            answer = await client.request(
                scope["method"],
                f"{worker}{path}" + (f"?{query}" if query else ""),
                content=body,
                headers=headers,
            )
        balancer.passed.append(
            Passed(scope["method"], path, worker, answer.status_code, answer.text)
        )
        kept = [
            (key.encode(), value.encode())
            for key, value in answer.headers.items()
            if key in ("content-type", "location")
        ]
        await send({"type": "http.response.start", "status": answer.status_code, "headers": kept})
        await send({"type": "http.response.body", "body": answer.content})

    with serving(app, lifespan="off") as address:
        balancer.url = f"http://{address}"
        yield balancer
