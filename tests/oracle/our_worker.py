"""Our runtime, set up as Apache's worker in these tests is."""

from __future__ import annotations

from pathlib import Path

from connect_runtime.server import Runtime
from connect_runtime.settings.worker_config import from_properties
from support.broker import BrokerAddress

_JSON = "org.apache.kafka.connect.json.JsonConverter"


def our_runtime(broker: BrokerAddress, group: str, folder: Path) -> Runtime:
    """Returns a runtime that was started, with topics of its own; `stop` ends it."""
    properties = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": group,
        "key.converter": _JSON,
        "value.converter": _JSON,
        "listeners": "http://127.0.0.1:0",
        "offset.flush.interval.ms": "1000",
        "spark.master": "local[16]",
    }
    for kind in ("config", "offset", "status"):
        properties[f"{kind}.storage.topic"] = f"{group}-{kind}"
        properties[f"{kind}.storage.replication.factor"] = "1"
    config, _ = from_properties(properties, data_folder=folder)
    runtime = Runtime(config)
    runtime.start()
    return runtime
