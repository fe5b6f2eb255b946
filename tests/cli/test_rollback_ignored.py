"""`connect rollback` on a real Kafka, of a connector whose values others change, too."""

from __future__ import annotations

import json
from pathlib import Path

from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.storage import config_topic
from connect_specs.names import ClusterTopics
from support.broker import FEW_PARTITIONS, BrokerAddress
from support.command import Command

CONFIG = {"connector.class": "FileStreamSource", "file": "/dev/null", "topic": "lines"}


def spec(file: str) -> str:
    config = {**CONFIG, "file": file, "tasks.max": "1", "db.password": "hunter2"}
    ignore = "{ignore: [config.tasks.max, config.db.password]}"
    return f"name: a\nstate: stopped\nlifecycle: {ignore}\nconfig: {json.dumps(config)}\n"


def test_values_that_others_own_stay(connect: Command, broker: BrokerAddress, unique: str) -> None:
    """An autoscaler's, and a password that was rotated."""
    client = {"bootstrap.servers": broker.bootstrap_servers}
    kafka = json.dumps(client)
    text = f"project: p\ncluster: {{group.id: {unique}, kafka: {kafka}, {FEW_PARTITIONS}}}\n"
    connect.write("connect.yaml", text)
    connect.write("connectors/a.yaml", spec("/dev/null"))
    assert connect("apply", "--yes").returncode == 0
    connect.write("connectors/a.yaml", spec("/dev/zero"))
    applied = json.loads(connect("apply", "--yes", "--json").stdout)["report"]["apply_id"]

    logs = KafkaLogs(client)
    now = {**CONFIG, "file": "/dev/zero", "tasks.max": "8", "db.password": "hunter3", "name": "a"}
    record = config_topic.connector_record(ClusterTopics.of(unique).config, "a", now)
    logs.writer(f"connect-cluster-{unique}").write([record])
    logs.close()

    undone = connect("rollback", applied, "--yes")
    assert undone.returncode == 0, undone.stdout + undone.stderr
    assert "warning[rollback.ignored]" in undone.stdout
    assert "db.password, tasks.max" in undone.stdout
    exported = json.loads(connect("export", "a", "--live", "--show-secrets").stdout)
    config = exported.get("config", exported)
    assert (config["file"], config["tasks.max"]) == ("/dev/null", "8")
    # What the specs and the cluster say of the rest
    connect.write("connectors/a.yaml", spec("/dev/null"))
    assert ": no changes, " in connect("plan").stdout


def test_a_rollback_works_without_the_specs(
    connect: Command, broker: BrokerAddress, unique: str, tmp_path: Path
) -> None:
    """The ledger keeps what the spec ignored then."""
    client = {"bootstrap.servers": broker.bootstrap_servers}
    kafka = json.dumps(client)
    text = f"project: p\ncluster: {{group.id: {unique}, kafka: {kafka}, {FEW_PARTITIONS}}}\n"
    connect.write("connect.yaml", text)
    connect.write("connectors/a.yaml", spec("/dev/null"))
    assert connect("apply", "--yes").returncode == 0
    connect.write("connectors/a.yaml", spec("/dev/zero"))
    applied = json.loads(connect("apply", "--yes", "--json").stdout)["report"]["apply_id"]
    (tmp_path / "connectors" / "a.yaml").write_text("not: [a spec")
    undone = connect("rollback", applied, "--yes")
    assert undone.returncode == 0, undone.stdout + undone.stderr
