"""Drift with the rights of a job that may only read, on a Kafka with an authorizer."""

from __future__ import annotations

import json
from pathlib import Path

from connect_runtime.kafka.clients import admin
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.storage import config_topic
from support.command import Command
from support.guarded_broker import GuardedBroker

SPEC = """\
name: {name}
state: stopped
config: {{connector.class: FileStream{kind}, topic{s}: lines, file: /dev/null}}
"""


def project_of(folder: Path, client: dict[str, str]) -> Command:
    connect = Command(folder)
    cluster = {"group.id": "guarded", "kafka": client}
    connect.write("connect.yaml", json.dumps({"project": "p", "cluster": cluster}))
    connect.write("connectors/source.yaml", SPEC.format(name="in", kind="Source", s=""))
    connect.write("connectors/sink.yaml", SPEC.format(name="out", kind="Sink", s="s"))
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
