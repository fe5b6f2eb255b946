"""`connect drift` on a real Kafka: what hands did is told, and nothing is written or joined."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from connect_runtime.kafka.clients import admin, consumer
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.storage import config_topic, offsets_topic
from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.snapshots import OffsetSnapshot
from connect_specs.names import ClusterTopics
from support.broker import BrokerAddress
from support.command import CONNECT, Command

SPEC = """\
name: lines
state: stopped
config:
  connector.class: FileStreamSource
  file: /dev/null
  topic: lines
  db.password: hunter2
"""


class Cluster:
    """A project on the session's Kafka, and hands that go past it."""

    def __init__(self, connect: Command, broker: BrokerAddress, group_id: str) -> None:
        self.connect = connect
        self.topics = ClusterTopics.of(group_id)
        self.client = {"bootstrap.servers": broker.bootstrap_servers}
        self._group_id = group_id

    def by_hand(self, *records: NewRecord) -> None:
        logs = KafkaLogs(self.client)
        logs.writer(f"connect-cluster-{self._group_id}").write(records)
        logs.close()

    def config_by_hand(self, name: str, **config: str) -> None:
        written = {"name": name, "connector.class": "FileStreamSource", "topic": "lines"} | config
        self.by_hand(config_topic.connector_record(self.topics.config, name, written))

    def drift(self, *words: str) -> tuple[int, list[dict[str, Any]], dict[str, Any]]:
        done = self.connect("drift", "--json", *words)
        assert "hunter" not in done.stdout + done.stderr
        *found, summary = map(json.loads, done.stdout.splitlines())
        return done.returncode, found, summary

    def everything(self) -> Any:
        """Topics with their ends, and groups."""
        known = admin(self.client)
        reader = consumer(self.client, {"group.id": "connect-tests"})
        metadata = known.list_topics(timeout=10).topics
        ends = {
            topic: [
                reader.get_watermark_offsets(TopicPartition(topic, number), timeout=10)
                for number in found.partitions
            ]
            for topic, found in metadata.items()
            if topic.startswith(self._group_id)
        }
        reader.close()
        groups = {group.group_id for group in known.list_consumer_groups().result().valid}
        # Other tests use the same broker
        return ends, {group for group in groups if self._group_id in group}


@pytest.fixture
def cluster(on_kafka: Command, broker: BrokerAddress, unique: str) -> Cluster:
    on_kafka.write("connectors/lines.yaml", SPEC)
    return Cluster(on_kafka, broker, unique)


def test_what_hands_did(cluster: Cluster) -> None:
    """Drift has an exit code of its own, 4; what is only pending is 0."""
    code, found, _ = cluster.drift()
    assert code == 0
    assert [(each["whose"], each["what"]) for each in found] == [("ours", "apply creates it")]

    assert cluster.connect("apply", "--yes").returncode == 0
    assert cluster.drift()[:2] == (0, [])

    cluster.config_by_hand("lines", file="/dev/zero", **{"db.password": "hunter3"})
    cluster.config_by_hand("by-hand", file="/x")
    gone = [({"filename": "/gone"}, {"position": 5})]
    topic = cluster.topics.offsets
    cluster.by_hand(*offsets_topic.offset_records(topic, "gone", gone, OffsetSnapshot()))
    code, found, summary = cluster.drift()
    assert code == 4
    assert [(each["connector"], each["kind"], each["whose"], each["key"]) for each in found] == [
        ("by-hand", "unmanaged", None, None),
        ("lines", "config", "theirs", "db.password"),
        ("lines", "config", "theirs", "file"),
        ("gone", "left-offsets", None, None),
    ]
    changed = found[2]
    assert (changed["applied"], changed["live"]) == ({"text": "/dev/null"}, {"text": "/dev/zero"})
    assert changed["since"]["topic"] == cluster.topics.config
    assert changed["since"]["ms"] <= summary["ms"]
    assert found[1]["live"] == {"sensitive": True}
    assert summary["counts"]["theirs"] == 2

    shown = cluster.connect("drift")
    assert shown.returncode == 4
    assert "Changed in the cluster\n  lines: ~ db.password: (sensitive, changed)\n" in shown.stdout
    assert "Connectors: 1 drifted\n" in shown.stdout
    assert "      connectors/lines.yaml:7:3; since 20" in shown.stdout
    assert shown.stdout.endswith("1 deleted connector left offsets (--all lists it)\n")
    assert "  gone: source offsets of 1 partition" in cluster.connect("drift", "--all").stdout
    assert cluster.connect("drift", "--markdown").stdout.startswith(
        "**Drift: 2 changed in the cluster"
    )


def test_the_report_as_a_file(cluster: Cluster) -> None:
    assert cluster.connect("apply", "--yes").returncode == 0
    cluster.config_by_hand("lines", file="/dev/zero")
    file = cluster.connect.folder / "reports" / "drift.txt"
    done = cluster.connect("drift", "--output", "reports/drift.txt")
    assert (done.returncode, done.stdout) == (4, "")
    assert file.read_text() == cluster.connect("drift").stdout
    assert file.stat().st_mode & 0o077 == 0
    assert "written to" in done.stderr
    assert cluster.connect("drift", "--json", "--output", "reports/drift.txt").returncode == 4
    assert json.loads(file.read_text().splitlines()[-1])["type"] == "summary"
    assert [each.name for each in file.parent.iterdir()] == ["drift.txt"]
    refused = cluster.connect("drift", "--output", "reports")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "error[file.unwritable]" in refused.stderr
    assert cluster.connect("drift", "--watch", "--output", "x").returncode == 2


def test_it_is_over_after_the_next_apply(cluster: Cluster) -> None:
    assert cluster.connect("apply", "--yes").returncode == 0
    cluster.config_by_hand("lines", file="/dev/zero", **{"db.password": "hunter2"})
    assert cluster.drift()[0] == 4

    assert cluster.connect("apply", "--yes").returncode == 0
    assert cluster.drift()[0] == 0


def test_nothing_is_written_joined_or_created(cluster: Cluster) -> None:
    before = cluster.everything()
    cluster.drift()
    assert cluster.everything() == before
    assert cluster.connect("apply", "--yes").returncode == 0
    before = cluster.everything()
    cluster.config_by_hand("lines", file="/dev/zero")
    ends, groups = cluster.everything()
    assert ends != before[0]
    cluster.drift()
    assert cluster.everything() == (ends, groups)


def test_a_kafka_that_is_not_there(connect: Command) -> None:
    kafka = "{bootstrap.servers: '127.0.0.1:1'}"
    connect.write("connect.yaml", f"project: p\ncluster: {{group.id: g, kafka: {kafka}}}\n")
    connect.write("connectors/lines.yaml", SPEC)
    assert connect("drift").returncode == 3
    assert connect("drift", "--every", "soon").returncode == 2
    assert connect("drift", "--markdown", "--json").returncode == 2


def test_watching_tells_what_is_new_and_what_is_gone(cluster: Cluster) -> None:
    """Drift is looked for without an end."""
    assert cluster.connect("apply", "--yes").returncode == 0
    watching = subprocess.Popen(
        [*CONNECT, "drift", "--watch", "--every", "0.2s", "--json"],
        cwd=cluster.connect.folder,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    assert watching.stdout is not None
    stuck = threading.Timer(60, watching.kill)
    stuck.start()

    def told() -> dict[str, Any]:
        assert watching.stdout is not None
        found: dict[str, Any] = json.loads(watching.stdout.readline())
        return found

    try:
        assert told()["type"] == "summary"
        cluster.config_by_hand("by-hand", file="/x")
        new = told()
        assert (new["event"], new["connector"]) == ("found", "by-hand")
        assert told()["counts"]["unmanaged"] == 1
        cluster.by_hand(*config_topic.removal_records(cluster.topics.config, "by-hand"))
        gone = told()
        assert (gone["event"], gone["connector"]) == ("gone", "by-hand")
        assert told()["counts"]["unmanaged"] == 0
        watching.send_signal(signal.SIGINT)
        assert watching.wait(20) == 130
    finally:
        stuck.cancel()
        watching.kill()
        watching.wait()
        watching.stdout.close()
