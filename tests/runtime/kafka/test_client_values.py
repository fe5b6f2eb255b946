"""Sources and sinks on a real broker, with client properties that need another form here."""

from pathlib import Path

import pytest

from connect_runtime.joining import find_cluster
from connect_runtime.settings.worker_config import from_properties
from connect_runtime.storage.snapshots import State
from connect_runtime.validation.validate import validate
from connect_specs.desired import OffsetEntry
from connect_specs.diagnostics import Invalid
from support.broker import BrokerAddress, create_topic
from support.thread_cluster import thread_cluster
from support.wait import wait_until

SETTINGS = {
    "producer.delivery.timeout.ms": "120000",
    "consumer.group.protocol": "consumer",
}
SINK = "FileStreamSink"


def test_lines_pass_with_kafkas_delivery_timeout_and_its_new_group_protocol(
    broker: BrokerAddress, unique: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap_servers, unique)
    lines, copy = tmp_path / "lines.txt", tmp_path / "copy.txt"
    lines.write_text("a\nb\n")
    with thread_cluster(broker.bootstrap_servers, f"{unique}-g", SETTINGS) as cluster:
        source = {"connector.class": "FileStreamSource", "topic": unique, "file": str(lines)}
        sink = {"connector.class": SINK, "topics": unique, "file": str(copy), "name": unique}
        cluster.verbs.create("lines", source | {"name": "lines"}, None)
        cluster.verbs.create(unique, sink, None)
        wait_until(lambda: copy.exists() and copy.read_text() == "a\nb\n", what="both lines")
        cluster.stop_connector(unique)
        # two records and the end of their transaction
        assert [each.offset for each in cluster.verbs.offsets(unique)] == [{"kafka_offset": 3}]
        place = {"kafka_topic": unique, "kafka_partition": 0}
        cluster.verbs.alter_offsets(unique, [OffsetEntry(place, {"kafka_offset": 1})])
        cluster.verbs.resume(unique)
        wait_until(lambda: copy.read_text() == "a\nb\nb\n", what="the second line again")
        cluster.wait_for(unique, State.RUNNING, State.RUNNING)


def test_a_worker_whose_clients_cannot_be_made_does_not_start(
    broker: BrokerAddress, unique: str
) -> None:
    given = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": unique,
        "key.converter": "StringConverter",
        "value.converter": "StringConverter",
        **{f"{kind}.storage.topic": f"{unique}-{kind}" for kind in ("config", "offset", "status")},
        "producer.retries": "0",
    }
    config, _ = from_properties(given)
    with pytest.raises(Invalid, match=r"for configuration producer\.retries") as caught:
        find_cluster(config)
    assert [each.where for each in caught.value.diagnostics] == ["producer.retries"]
    found = validate(
        {"connector.class": SINK, "name": "n", "topics": "t", "consumer.override.acks": "1"}
        | {"consumer.override.fetch.min.bytes": "much"},
        config,
    )
    assert len(found.errors) == 1
    assert "configuration fetch.min.bytes: Not a number of type INT" in found.errors[0]
