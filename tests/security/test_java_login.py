"""A worker's file with a login that only Java has: `runtime.client.*` is the runtime's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_runtime.kafka.clients import check_reachable
from connect_runtime.settings.connector_clients import ConnectorClients
from connect_runtime.settings.worker_config import from_properties
from connect_runtime.storage.snapshots import State
from connect_specs.diagnostics import Invalid
from support.broker import read_to_end
from support.guarded_broker import GuardedBroker, binding
from support.java_plugins import COUNTING, SOURCES, add_compiled, java_catalog, make_jar
from support.thread_cluster import STRING, thread_cluster
from support.wait import wait_until

USER = "leader"
START_S = 120


def worker_file(guarded: GuardedBroker, group: str) -> dict[str, str]:
    """The login of each client is a module that librdkafka does not know."""
    login = guarded.client(USER)
    servers = login.pop("bootstrap.servers")
    login["sasl.jaas.config"] = login["sasl.jaas.config"].replace(
        "org.apache.kafka.common.security.plain.PlainLoginModule", "tests.OwnLogin"
    )
    prefixes = ("", "producer.", "consumer.", "admin.")
    return {
        "bootstrap.servers": servers,
        "group.id": group,
        "key.converter": STRING,
        "value.converter": STRING,
        "config.storage.topic": f"{group}-configs",
        "offset.storage.topic": f"{group}-offsets",
        "status.storage.topic": f"{group}-status",
        **{f"{prefix}{key}": value for prefix in prefixes for key, value in login.items()},
    }


def own(guarded: GuardedBroker) -> dict[str, str]:
    return {f"runtime.client.{key}": value for key, value in guarded.client(USER).items()}


def test_clients_of_the_runtime_have_a_login_of_their_own(
    guarded: GuardedBroker, unique: str
) -> None:
    file = worker_file(guarded, unique)
    with pytest.raises(Invalid):
        check_reachable(from_properties(file)[0].client)
    config, warnings = from_properties(file | own(guarded))
    assert not [warning for warning in warnings if "runtime.client" in warning]
    assert check_reachable(config.client)
    for kind in ("source", "sink"):
        clients = ConnectorClients("g", "o", config.properties, "c", {}, kind)  # type: ignore[arg-type]
        for properties in (
            *(clients.producer(), clients.consumer(), clients.admin(), clients.worker_client()),
            *(clients.offsets_producer(), clients.offsets_consumer()),
        ):
            assert check_reachable(properties)
        assert not clients.own_login
        assert not clients.own_producer
    typo = from_properties(file | own(guarded) | {"runtime.client.sasl.mechanisn": "PLAIN"})[1]
    assert [warning for warning in typo if "did you mean runtime.client.sasl.mechanism" in warning]


@pytest.mark.long
def test_java_tasks_have_the_login_of_the_workers_file(
    guarded: GuardedBroker, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = f"g{unique[-8:]}"
    jar = tmp_path / "login.jar"
    make_jar(SOURCES / "OwnLogin.java", {}, jar)
    monkeypatch.setenv("CLASSPATH", str(jar))
    add_compiled("Counting", COUNTING, tmp_path / "plugins")
    file = worker_file(guarded, group)
    # of this process alone: with it Connect's worker could not be made
    reporter = {"metric.reporters": "com.acme.Missing"}
    settings = file | own(guarded) | reporter | {"plugin.path": str(tmp_path / "plugins")}
    names = [
        *(("TOPIC", name) for name in (group, unique)),
        ("GROUP", group),
        *(("TRANSACTIONAL_ID", name) for name in (group, f"connect-cluster-{group}")),
    ]
    rights = [binding(USER, kind, name, "ALL", prefixed=True) for kind, name in names]
    guarded.set_rights(rights)
    try:
        with (
            java_catalog(from_properties(settings)[0].properties),
            thread_cluster(file["bootstrap.servers"], group, settings) as cluster,
        ):
            config = {"name": "c", "connector.class": "Counting", "topic": unique}
            cluster.verbs.create("c", config, None)
            cluster.wait_for("c", State.RUNNING, State.RUNNING, timeout_s=START_S)
            servers = guarded.open["bootstrap.servers"]
            wait_until(lambda: read_to_end(servers, unique), what="records", timeout_s=START_S)
            cluster.verbs.delete("c")
    finally:
        guarded.take_rights(rights)
