"""A broker that a test may freeze and kill, with a way to it for each of two runtimes that can be
cut, and a listener for connectors with a login of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from connect_runtime.kafka import embedded
from connect_runtime.kafka.embedded import EmbeddedBroker
from connect_runtime.kafka.local_processes import LOOPBACK, free_port
from support.guarded_broker import GUARDED, Logins
from support.kafka_proxy import KafkaProxy
from support.processes import Process, process

_WAYS = ("LEFT", "RIGHT")
_START_S = 120.0


@dataclass(slots=True)
class OwnBroker:
    """`kafka` is the broker's own address; each of `ways` leads to it, too. Whoever comes there may
    do everything; those of `logins` what they are allowed."""

    folder: Path
    properties: str
    running: EmbeddedBroker
    ways: tuple[KafkaProxy, ...]
    logins: Logins

    @property
    def kafka(self) -> str:
        return self.running.bootstrap_servers

    @property
    def process(self) -> Process:
        found = process(self.running.pid)
        assert found is not None, "the broker is gone"
        return found

    def start_again(self) -> None:
        """After it was killed: on the same data and ports."""
        port = int(self.kafka.rpartition(":")[2])
        self.running = _start(self.folder, self.properties, port)


@contextmanager
def own_broker(folder: Path) -> Iterator[OwnBroker]:
    """The broker, for as long as the context lasts."""
    ports = [free_port() for _ in range(2 * len(_WAYS))]
    behind, before = ports[: len(_WAYS)], ports[len(_WAYS) :]
    guarded = free_port()
    at_login = f",GUARDED://{LOOPBACK}:{guarded}"
    listening = _listeners(behind) + at_login
    properties = (
        embedded._PROPERTIES.replace(
            "CONTROLLER://{host}:{controller_port}\n",
            f"CONTROLLER://{{host}}:{{controller_port}}{listening}\n",
        ).replace(
            "advertised.listeners=PLAINTEXT://{host}:{port}",
            f"advertised.listeners=PLAINTEXT://{{host}}:{{port}}{_listeners(before)}{at_login}",
        )
        + "listener.security.protocol.map="
        + ",".join(f"{name}:PLAINTEXT" for name in ("PLAINTEXT", "CONTROLLER", *_WAYS))
        + ",GUARDED:SASL_PLAINTEXT\n"
        + GUARDED
    )
    with ExitStack() as stack:
        running = _start(folder, properties, None)
        ways = tuple(KafkaProxy(port, to) for port, to in zip(before, behind, strict=True))
        logins = Logins(
            {"bootstrap.servers": running.bootstrap_servers},
            {"GUARDED": f"{LOOPBACK}:{guarded}"},
        )
        own = OwnBroker(folder, properties, running, ways, logins)
        stack.callback(lambda: own.running.stop())
        for way in ways:
            stack.enter_context(way)
        yield own


def _start(folder: Path, properties: str, port: int | None) -> EmbeddedBroker:
    # this machine may be busy with what a fault has started
    with (
        patch.object(embedded, "_PROPERTIES", properties),
        patch.object(embedded, "_START_S", _START_S),
    ):
        return EmbeddedBroker.start(folder, port=port)


def _listeners(ports: list[int]) -> str:
    return "".join(f",{name}://{LOOPBACK}:{port}" for name, port in zip(_WAYS, ports, strict=True))
