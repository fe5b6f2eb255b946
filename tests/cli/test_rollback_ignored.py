"""`connect rollback` on a real Kafka, of a connector whose values others change, too."""

from __future__ import annotations

import json

from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.storage import config_topic
from connect_specs.names import ClusterTopics
from support.broker import BrokerAddress
from support.command import Command

CONFIG = {"connector.class": "FileStreamSource", "file": "/dev/null", "topic": "lines"}


def spec(file: str) -> str:
    config = {**CONFIG, "file": file, "tasks.max": "1", "db.password": "hunter2"}
    ignore = "{ignore: [config.tasks.max, config.db.password]}"
    return f"name: a\nstate: stopped\nlifecycle: {ignore}\nconfig: {json.dumps(config)}\n"


def test_values_that_others_own_stay(on_kafka: Command, broker: BrokerAddress, unique: str) -> None:
    """An autoscaler's, and a password that was rotated."""
    on_kafka.write("connectors/a.yaml", spec("/dev/null"))
    assert on_kafka("apply", "--yes").returncode == 0
    on_kafka.write("connectors/a.yaml", spec("/dev/zero"))
    applied = json.loads(on_kafka("apply", "--yes", "--json").stdout)["report"]["apply_id"]

    logs = KafkaLogs({"bootstrap.servers": broker.bootstrap_servers})
    now = {**CONFIG, "file": "/dev/zero", "tasks.max": "8", "db.password": "hunter3", "name": "a"}
    record = config_topic.connector_record(ClusterTopics.of(unique).config, "a", now)
    logs.writer(f"connect-cluster-{unique}").write([record])
    logs.close()

    undone = on_kafka("rollback", applied, "--yes")
    assert undone.returncode == 0, undone.stdout + undone.stderr
    assert "warning[rollback.ignored]" in undone.stdout
    assert "db.password, tasks.max" in undone.stdout
    exported = json.loads(on_kafka("export", "a", "--live", "--show-secrets").stdout)
    config = exported.get("config", exported)
    assert (config["file"], config["tasks.max"]) == ("/dev/null", "8")
    # What the specs and the cluster say of the rest
    on_kafka.write("connectors/a.yaml", spec("/dev/null"))
    assert ": no changes, " in on_kafka("plan").stdout


def test_a_rollback_works_without_the_specs(on_kafka: Command) -> None:
    """The ledger keeps what the spec ignored then."""
    on_kafka.write("connectors/a.yaml", spec("/dev/null"))
    assert on_kafka("apply", "--yes").returncode == 0
    on_kafka.write("connectors/a.yaml", spec("/dev/zero"))
    applied = json.loads(on_kafka("apply", "--yes", "--json").stdout)["report"]["apply_id"]
    on_kafka.write("connectors/a.yaml", "not: [a spec")
    undone = on_kafka("rollback", applied, "--yes")
    assert undone.returncode == 0, undone.stdout + undone.stderr
