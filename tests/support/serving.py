"""A real HTTP server in this process, for what only the network shows."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from connect_runtime.kafka.local_processes import LOOPBACK, free_port
from support.wait import wait_until


@contextmanager
def serving(app: ASGIApp, **settings: Any) -> Iterator[str]:
    """A server on a port of its own; its address without the scheme. `settings` are uvicorn's."""
    port = free_port()
    config = uvicorn.Config(app, host=LOOPBACK, port=port, log_level="error", **settings)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started, what="the server to listen")
        yield f"{LOOPBACK}:{port}"
    finally:
        server.should_exit = True
        thread.join(10)
