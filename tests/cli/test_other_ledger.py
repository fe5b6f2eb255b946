"""Two projects with one group.id and different ledger topics: the second one is refused."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from connect_reconciler.backend.lease import acquired
from connect_runtime.kafka.groups import list_group_offsets
from connect_runtime.kafka.log import KafkaLogs
from connect_specs.diagnostics import ExitCode, Invalid
from connect_specs.names import ledger_group
from connect_specs.project import load_project
from support.broker import BrokerAddress
from support.command import Command

SPEC = (
    "name: {}\nstate: stopped\nconfig: {{connector.class: FileStreamSource, file: /x, topic: t}}\n"
)


def write(connect: Command, broker: BrokerAddress, unique: str, project: str, ledger: str) -> None:
    topics = f"topics: {{ledger: {ledger}}}"
    kafka = f"kafka: {{bootstrap.servers: '{broker.bootstrap_servers}'}}"
    text = f"project: {project}\ncluster:\n  group.id: {unique}\n  {kafka}\n  {topics}\n"
    connect.write("connect.yaml", text)
    connect.write(f"connectors/{project}.yaml", SPEC.format(project))


def test_a_project_with_another_ledger_topic_is_refused(
    connect: Command, broker: BrokerAddress, unique: str
) -> None:
    write(connect, broker, unique, "one", f"{unique}-one")
    assert connect("apply", "--yes").returncode == 0
    (connect.folder / "connectors" / "one.yaml").unlink()
    write(connect, broker, unique, "two", f"{unique}-two")
    for words in (("apply", "--yes"), ("apply", "--yes", "--takeover")):
        refused = connect(*words)
        assert refused.returncode == 2, refused.stderr
        assert "error[cluster.other-ledger]" in refused.stderr
        assert f"{unique}-one" in refused.stderr and f"{unique}-two" in refused.stderr
    names = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=10)
    assert f"{unique}-two" not in names.topics
    # The first one goes on
    (connect.folder / "connectors" / "two.yaml").unlink()
    write(connect, broker, unique, "one", f"{unique}-one")
    connect.write("connectors/more.yaml", SPEC.format("more"))
    assert connect("apply", "--yes").returncode == 0


def test_the_other_one_is_seen_while_it_applies(
    connect: Command, broker: BrokerAddress, unique: str
) -> None:
    kafka = {"bootstrap.servers": broker.bootstrap_servers}
    write(connect, broker, unique, "one", f"{unique}-one")
    one = load_project(connect.folder / "connect.yaml", None)
    write(connect, broker, unique, "two", f"{unique}-two")
    two = load_project(connect.folder / "connect.yaml", None)
    logs = KafkaLogs(kafka)
    lease = acquired(one, kafka, logs, "one")
    try:
        assert list_group_offsets(kafka, ledger_group(unique)) == {(f"{unique}-one", 0): 0}
        with pytest.raises(Invalid) as refusal:
            acquired(two, kafka, logs, "two")
        assert refusal.value.exit_code is ExitCode.INVALID
        lease.keep()
    finally:
        lease.release()
        logs.close()
