"""The agent of a node, as tasks that run in this process see it."""

from __future__ import annotations

import atexit
import socket
import threading

from connect_runtime.agent import client
from connect_runtime.agent.node import kafka_service
from connect_runtime.agent.server import AgentServer, ServiceFactory

END_S = 20


class Agent:
    """Serves in a thread. Its door stays open when it ends, as that of a node."""

    def __init__(self, door: socket.socket, services: ServiceFactory = kafka_service) -> None:
        self._over = threading.Event()
        self.server = AgentServer(door, services, self._over.is_set, most=4_000)
        self._thread = threading.Thread(target=self.server.serve, name="agent", daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join(END_S)
        assert not self._thread.is_alive()


def ensure_agent() -> None:
    """Starts an agent for the tasks of this process, unless there is one. It ends with it."""
    if client._door is None:
        door = client.open_door()
        Agent(door)
        for each in (door, client._door):
            atexit.register(each.close)
