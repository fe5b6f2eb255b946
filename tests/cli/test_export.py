"""`connect export`: from the specs without a cluster, and from the cluster."""

from __future__ import annotations

import json

import pytest
import yaml

from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.storage import config_topic
from connect_runtime.storage.log import InternalTopic
from support.broker import BrokerAddress
from support.command import Command

SPEC = """\
name: lines
state: stopped
config: {connector.class: FileStreamSource, tasks.max: 1, file: /dev/null, topic: lines}
lifecycle: {prevent_delete: true}
---
name: other
config: {connector.class: FileStreamSource, topic: lines, db.password: hunter2}
"""


@pytest.fixture
def project(connect: Command) -> Command:
    """A project whose Kafka is not there."""
    kafka = "{bootstrap.servers: '127.0.0.1:1'}"
    connect.write("connect.yaml", f"project: p\ncluster: {{group.id: g, kafka: {kafka}}}\n")
    connect.write("connectors/all.yaml", SPEC)
    return connect


def test_one_connector_to_stdout(project: Command) -> None:
    done = project("export", "lines")
    assert json.loads(done.stdout) == {
        "name": "lines",
        "config": {
            "name": "lines",
            "connector.class": "FileStreamSource",
            "tasks.max": "1",
            "topic": "lines",
            "file": "/dev/null",
        },
        "initial_state": "STOPPED",
    }
    assert "lines: json cannot hold lifecycle" in done.stderr
    resource = yaml.safe_load(
        project("export", "lines", "--format", "strimzi", "--strimzi-cluster", "c").stdout
    )
    assert resource["metadata"]["labels"] == {"strimzi.io/cluster": "c"}
    assert resource["spec"]["state"] == "stopped"


def test_secrets_in_clear_leave_only_when_asked_to(project: Command) -> None:
    refused = project("export", "--out", "out")
    assert refused.returncode == 2
    assert "error[export.secret]: other" in refused.stderr
    assert "hunter2" not in refused.stdout + refused.stderr
    assert not (project.folder / "out").exists()
    done = project("export", "--out", "out", "--show-secrets", "--format", "properties")
    assert done.returncode == 0, done.stderr
    file = project.folder / "out" / "other.properties"
    assert "db.password=hunter2\n" in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    assert project("export", "--out", "out", "lines", "--format", "properties").returncode == 2


def test_several_as_one_json_list(project: Command) -> None:
    found = json.loads(project("export", "--show-secrets").stdout)
    alone = json.loads(project("export", "lines").stdout)
    assert [each["name"] for each in found] == ["lines", "other"]
    assert found[0] == alone
    project.write("connectors/all.yaml", "# nothing yet\n")
    assert json.loads(project("export").stdout) == []


def test_several_properties_need_a_folder_and_names_must_be_there(project: Command) -> None:
    assert project("export", "--show-secrets", "--format", "properties").returncode == 2
    assert project("export", "nobody").returncode == 2
    shown = project("export", "--show-secrets", "--format", "strimzi").stdout
    assert [each["metadata"]["name"] for each in yaml.safe_load_all(shown)] == ["lines", "other"]


def test_what_is_live(project: Command, broker: BrokerAddress, unique: str) -> None:
    """From the live cluster to a spec: exported."""
    project.write("connect.yaml", f"project: p\ncluster: {broker.cluster(unique)}\n")
    logs = KafkaLogs({"bootstrap.servers": broker.bootstrap_servers})
    topic = f"{unique}-configs"
    logs.ensure_compacted(InternalTopic(topic, 1, "tests"))
    config = {"name": "there", "connector.class": "FileStreamSource", "token": "hunter2"}
    logs.writer(unique).write([config_topic.connector_record(topic, "there", config)])
    logs.close()
    refused = project("export", "--live", "there")
    assert refused.returncode == 2
    assert "hunter2" not in refused.stdout + refused.stderr
    done = project("export", "--live", "--show-secrets")
    assert json.loads(done.stdout) == {"name": "there", "config": config}
