"""The runtime's own Kafka, kept alive as long as the runtime: killed, it is started again.

On the same port and data, so that runtime and tasks go on as soon as it answers.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from connect_reconciler.cli.connecting import broker_folder
from connect_reconciler.cli.output import progress
from connect_runtime.kafka.embedded import EmbeddedBroker, find_broker
from connect_specs.diagnostics import ConnectError

if TYPE_CHECKING:
    from connect_specs.desired import Project

_LOOK_EVERY_S = 0.5


@contextlib.contextmanager
def kept_alive(project: Project, broker: EmbeddedBroker) -> Iterator[None]:
    """While the context lasts, the folder has a living broker; after it, it has none."""
    over = threading.Event()
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    keeper = threading.Thread(
        target=_keep, args=(project, port, over), name="keep-kafka", daemon=True
    )
    keeper.start()
    try:
        yield
    finally:
        over.set()
        keeper.join()
        progress("stopping Kafka")
        # not the one that was given: it may have been replaced since, also by another verb
        living = find_broker(broker_folder(project))
        if living is not None:
            EmbeddedBroker(broker_folder(project), living, adopted=True).stop()


def _keep(project: Project, port: int, over: threading.Event) -> None:
    folder = broker_folder(project)
    told = ""
    while not over.wait(_LOOK_EVERY_S):
        try:
            if find_broker(folder) is None:
                progress("Kafka has ended by itself: starting it again, on the same data")
                authentication = project.embedded_authentication
                EmbeddedBroker.start(folder, port=port, authentication=authentication)
                told = ""
        except ConnectError as error:
            if str(error) != told:
                told = str(error)
                progress(f"Kafka does not start, and is tried again: {told}")
