"""`connect drift` on a real Kafka: what hands did is told, and nothing is written or joined."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from connect_runtime.kafka.clients import admin, consumer
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.storage import config_topic, offsets_topic
from connect_runtime.storage.snapshots import OffsetSnapshot
from support.by_hand import ByHand
from support.command import CONNECT, Command
from support.guarded_broker import GuardedBroker

SPEC = """\
name: lines
state: stopped
config:
  connector.class: FileStreamSource
  file: /dev/null
  topic: lines
  db.password: hunter2
"""


RIGHTS_SPEC = """\
name: {name}
state: stopped
config: {{connector.class: FileStream{kind}, topic{s}: lines, file: /dev/null}}
"""


@dataclass(frozen=True)
class Cluster:
    """A project on the session's Kafka, and hands that go past it."""

    connect: Command
    hand: ByHand

    def drift(self, *words: str) -> tuple[int, list[dict[str, Any]], dict[str, Any]]:
        done = self.connect("drift", "--json", *words)
        assert "hunter" not in done.stdout + done.stderr
        *found, summary = map(json.loads, done.stdout.splitlines())
        return done.returncode, found, summary

    def everything(self) -> Any:
        """Topics with their ends, and groups."""
        client = {"bootstrap.servers": self.hand.kafka}
        known = admin(client)
        reader = consumer(client, {"group.id": "connect-tests"})
        metadata = known.list_topics(timeout=10).topics
        ends = {
            topic: [
                reader.get_watermark_offsets(TopicPartition(topic, number), timeout=10)
                for number in found.partitions
            ]
            for topic, found in metadata.items()
            if topic.startswith(self.hand.group_id)
        }
        reader.close()
        groups = {group.group_id for group in known.list_consumer_groups().result().valid}
        # Other tests use the same broker
        return ends, {group for group in groups if self.hand.group_id in group}


@pytest.fixture
def cluster(on_kafka: Command, by_hand: ByHand) -> Cluster:
    on_kafka.write("connectors/lines.yaml", SPEC)
    return Cluster(on_kafka, by_hand)


def test_what_hands_did(cluster: Cluster) -> None:
    """Drift has an exit code of its own, 4; what is only pending is 0."""
    code, found, _ = cluster.drift()
    assert code == 0
    assert [(each["whose"], each["what"]) for each in found] == [("ours", "apply creates it")]

    assert cluster.connect("apply", "--yes").returncode == 0
    assert cluster.drift()[:2] == (0, [])

    cluster.hand.config("lines", file="/dev/zero", **{"db.password": "hunter3"})
    cluster.hand.config("by-hand", file="/x")
    gone = [({"filename": "/gone"}, {"position": 5})]
    topic = cluster.hand.topics.offsets
    cluster.hand.write(*offsets_topic.offset_records(topic, "gone", gone, OffsetSnapshot()))
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
    assert changed["since"]["topic"] == cluster.hand.topics.config
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
    cluster.hand.config("lines", file="/dev/zero")
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
    cluster.hand.config("lines", file="/dev/zero", **{"db.password": "hunter2"})
    assert cluster.drift()[0] == 4

    assert cluster.connect("apply", "--yes").returncode == 0
    assert cluster.drift()[0] == 0


def test_nothing_is_written_joined_or_created(cluster: Cluster) -> None:
    before = cluster.everything()
    cluster.drift()
    assert cluster.everything() == before
    assert cluster.connect("apply", "--yes").returncode == 0
    before = cluster.everything()
    cluster.hand.config("lines", file="/dev/zero")
    ends, groups = cluster.everything()
    assert ends != before[0]
    cluster.drift()
    assert cluster.everything() == (ends, groups)


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
        cluster.hand.config("by-hand", file="/x")
        new = told()
        assert (new["event"], new["connector"]) == ("found", "by-hand")
        assert told()["counts"]["unmanaged"] == 1
        cluster.hand.write(*config_topic.removal_records(cluster.hand.topics.config, "by-hand"))
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


def project_of(folder: Path, client: dict[str, str]) -> Command:
    connect = Command(folder)
    cluster = {"group.id": "guarded", "kafka": client}
    connect.write("connect.yaml", json.dumps({"project": "p", "cluster": cluster}))
    connect.write("connectors/source.yaml", RIGHTS_SPEC.format(name="in", kind="Source", s=""))
    connect.write("connectors/sink.yaml", RIGHTS_SPEC.format(name="out", kind="Sink", s="s"))
    return connect


def test_reading_topics_alone_is_enough(tmp_path: Path, guarded: GuardedBroker) -> None:
    """Drift is told from topics alone: no REST, no worker, and rights to read only."""
    owner = project_of(tmp_path / "owner", guarded.open)
    reader = project_of(tmp_path / "reader", guarded.client("reader"))
    nobody = project_of(tmp_path / "nobody", guarded.client("nobody"))
    done = owner("apply", "--yes")
    assert done.returncode == 0, done.stderr
    changed = {"name": "in", "connector.class": "FileStreamSource", "topic": "lines"}
    logs = KafkaLogs(guarded.open)
    by_hand = config_topic.connector_record("guarded-configs", "in", changed)
    logs.writer("by-hand").write([by_hand])
    logs.close()

    refused = nobody("drift")
    assert refused.returncode == 3, refused.stdout
    topics = set(admin(guarded.open).list_topics(timeout=10).topics)

    guarded.allow("reader", "TOPIC", "guarded-", "READ")
    found = reader("drift", "--json")
    assert found.returncode == 4, found.stderr
    *findings, summary = map(json.loads, found.stdout.splitlines())
    assert [(each["connector"], each["key"], each["whose"]) for each in findings] == [
        ("in", "file", "theirs")
    ]
    assert summary["groups_hidden"] is True
    assert "Kafka does not show the offsets of sinks" in reader("drift").stdout

    # of a topic that is hidden Kafka tells no offsets either, and says nothing of it
    guarded.allow("reader", "GROUP", "connect-out", "DESCRIBE")
    assert "Kafka does not show the offsets of sinks" in reader("drift").stdout

    guarded.allow("reader", "TOPIC", "lines", "DESCRIBE")
    found = reader("drift", "--json")
    assert found.returncode == 4, found.stderr
    assert json.loads(found.stdout.splitlines()[-1])["groups_hidden"] is False
    assert set(admin(guarded.open).list_topics(timeout=10).topics) == topics
