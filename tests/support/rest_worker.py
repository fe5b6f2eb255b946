"""Our own runtime's REST API in this process: a real herder over logs in memory, without sockets.

Its tasks are acted out by `MemoryLauncher`, which a thread of its own moves on.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
from starlette.types import ASGIApp

from connect_runtime.herder.connect_cluster import Check, ConnectCluster
from connect_runtime.herder.launcher import WorkerSettings
from connect_runtime.rest.app import create_app
from connect_runtime.storage.memory import MemoryLogs
from support.launcher import MemoryLauncher
from support.memory_cluster import GROUP_ID, TOPICS, MemoryGroups
from support.wait import wait_until

_EVERY_S = 0.005


class Elected:
    """Implements `Candidate`: leads as long as the test says."""

    def __init__(self) -> None:
        self.leading = True
        self.term = 1

    def poll(self, timeout_s: float = 0.0) -> None:
        """Nothing happens that the test did not say."""

    def close(self) -> None:
        self.leading = False


class AsgiTransport(httpx.BaseTransport):
    """Requests to an application in this process."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport) as client:
                return await client.send(
                    httpx.Request(
                        request.method, request.url, headers=request.headers, content=request.read()
                    )
                )

        answer = asyncio.run(ask())
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


@dataclass(frozen=True, slots=True)
class RestWorker:
    """The herder, what it stands on, and its REST API."""

    connect: ConnectCluster
    logs: MemoryLogs
    groups: MemoryGroups
    election: Elected
    launcher: MemoryLauncher

    @property
    def verbs(self) -> ConnectCluster:
        return self.connect

    @property
    def transport(self) -> AsgiTransport:
        return AsgiTransport(
            create_app(lambda: self.verbs, {}, cluster_id=lambda: "kafka-1", commit="abc")
        )


@contextmanager
def rest_worker(
    *, runs_tasks: bool = True, check: Check = lambda name, config: None
) -> Iterator[RestWorker]:
    """A herder that leads, until the end; without `runs_tasks` as the one of an apply does, which
    leaves tasks to a runtime."""
    logs, groups, election = MemoryLogs(), MemoryGroups(), Elected()
    for topic in (TOPICS.config, TOPICS.offsets, TOPICS.status, TOPICS.assignments):
        logs.create_topic(topic)
    launcher = MemoryLauncher(logs)
    connect = ConnectCluster(
        "http://leader:8083",
        WorkerSettings(GROUP_ID, TOPICS, "leader:8083", {}),
        logs=logs,
        groups=groups,
        election=election,
        launcher=launcher if runs_tasks else None,
        check=check,
        leader=lambda: None,
    )
    over = threading.Event()

    def work() -> None:
        while not over.wait(_EVERY_S):
            launcher.step()

    tasks = threading.Thread(target=work, name="tasks")
    connect.start()
    tasks.start()
    try:
        wait_until(lambda: connect.herder.leading, what="the herder to lead")
        yield RestWorker(connect, logs, groups, election, launcher)
    finally:
        connect.close()
        over.set()
        tasks.join()
