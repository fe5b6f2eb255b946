"""A Kafka of three brokers, each of which may be killed while the other two go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from connect_runtime.kafka import embedded
from connect_runtime.kafka.embedded import EmbeddedBroker
from connect_runtime.kafka.local_processes import LOOPBACK, free_port
from support.processes import Process, process

REPLICAS = 3
_START_S = 120.0
_REPLICATED = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)
_SETTINGS = f"""\
default.replication.factor={REPLICAS}
min.insync.replicas=2
transaction.state.log.min.isr=2
share.coordinator.state.topic.min.isr=2
"""


@dataclass(slots=True)
class ThreeBrokers:
    """Each is a controller, too; topics have three replicas, of which two take part."""

    running: list[EmbeddedBroker]
    properties: list[str]

    @property
    def kafka(self) -> str:
        """The address of all three."""
        return ",".join(each.bootstrap_servers for each in self.running)

    def process(self, number: int) -> Process:
        """The process of a broker: 0, 1 or 2."""
        found = process(self.running[number].pid)
        assert found is not None, f"broker {number} is gone"
        return found

    def start_again(self, number: int) -> None:
        """After it was killed: on the same data and ports."""
        former = self.running[number]
        port = int(former.bootstrap_servers.rpartition(":")[2])
        with _patched(self.properties[number]):
            self.running[number] = EmbeddedBroker.start(former.folder, port=port)


@contextmanager
def three_brokers(
    folder: Path, changed: Callable[[int, str], str] = lambda _, properties: properties
) -> Iterator[ThreeBrokers]:
    """All three, for as long as the context lasts. `changed` gets the number of each and its
    properties, and returns those that it has."""
    controllers: list[int] = []
    while len(controllers) < REPLICAS:
        controllers.append(free_port(other_than=controllers))
    properties = [changed(number, _properties(number, controllers)) for number in range(REPLICAS)]
    folders = [folder / f"broker-{number}" for number in range(REPLICAS)]
    cluster_id = embedded._new_cluster_id()
    with ExitStack() as stack:
        # a controller answers when two of them run
        for each, content in zip(folders, properties, strict=True):
            embedded.make_private_folder(each)
            with (
                _patched(content),
                patch.object(embedded, "_new_cluster_id", lambda: cluster_id),
            ):
                embedded._start_process(each, None, None, authentication=False)
            stack.callback(_end, each)
        with _patched(""):
            running = [EmbeddedBroker.start(each) for each in folders]
        yield ThreeBrokers(running, properties)


def _end(folder: Path) -> None:
    record = embedded.find_broker(folder)
    if record is not None:
        embedded.end_process(record.pid, record.started, patience_s=5)


def _properties(number: int, controllers: list[int]) -> str:
    voters = ",".join(f"{n + 1}@{LOOPBACK}:{port}" for n, port in enumerate(controllers))
    replaced = {
        "node.id=1": f"node.id={number + 1}",
        "controller.quorum.voters=1@{host}:{controller_port}": f"controller.quorum.voters={voters}",
        ",CONTROLLER://{host}:{controller_port}": f",CONTROLLER://{{host}}:{controllers[number]}",
    }
    replaced |= {f"{key}=1": f"{key}={REPLICAS}" for key in _REPLICATED}
    lines = embedded._PROPERTIES
    for text, other in replaced.items():
        assert text in lines, text
        lines = lines.replace(text, other)
    kept = [line for line in lines.splitlines() if "min.isr=" not in line]
    return "\n".join(kept) + f"\n{_SETTINGS}"


@contextmanager
def _patched(properties: str) -> Iterator[None]:
    with (
        patch.object(embedded, "_PROPERTIES", properties),
        patch.object(embedded, "_START_S", _START_S),
    ):
        yield
