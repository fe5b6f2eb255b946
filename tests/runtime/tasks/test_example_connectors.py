"""The sinks of examples/connectors on a real broker: what they deliver, and what they keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Producer

from connect_runtime.storage.snapshots import TaskId
from support.broker import read_to_end
from support.wait import wait_until

EXAMPLES = Path(__file__).parents[3] / "examples" / "connectors"
TASK = TaskId("c", 0)


def text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def config_of(name: str) -> dict[str, str]:
    """The example's config, with the converters of its worker."""
    worker = yaml.safe_load((EXAMPLES / "connect.yaml").read_text())["cluster"]["worker"]
    spec = yaml.safe_load((EXAMPLES / "connectors" / f"{name}.yaml").read_text())
    return {key: text(value) for key, value in (worker | spec["config"]).items()}


def test_undeliverable_records_are_kept_with_the_reason(
    cluster: Any, topic: Any, tmp_path: Path
) -> None:
    topic(1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for value in (b'{"amount":"1.5"}', b'{"amount":"ten"}', b"{", b'{"amount":"2.5"}'):
        producer.produce(cluster.data, value)
    producer.flush()
    file, queue = tmp_path / "payments.txt", f"{cluster.name}-dead"

    cluster.assign(TASK, 1)
    running = cluster.run(
        cluster.launch(
            TASK,
            config_of("dead-letters")
            | {
                "name": "c",
                "task.class": "org.apache.kafka.connect.file.FileStreamSinkTask",
                "topics": cluster.data,
                "file": str(file),
                "errors.deadletterqueue.topic.name": queue,
                "consumer.override.group.id": f"connect-{cluster.name}",
            },
        )
    )
    wait_until(lambda: file.exists() and len(file.read_text().splitlines()) == 2, what="the lines")
    running.stop()
    # as Java shows maps
    assert file.read_text().splitlines() == ["{amount=1.5}", "{amount=2.5}"]
    dead = read_to_end(cluster.bootstrap_servers, queue)
    stages = {m.value(): dict(m.headers() or [])["__connect.errors.stage"] for m in dead}
    assert stages == {b'{"amount":"ten"}': b"TRANSFORMATION", b"{": b"VALUE_CONVERTER"}
    assert len(dead) == 2
