"""A Java source whose login lacks a right to its transactional id: the status names both."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_runtime.settings.worker_config import from_properties
from connect_runtime.storage.snapshots import State
from support.broker import create_topic, read_to_end
from support.guarded_broker import PASSWORD, GuardedBroker, binding
from support.java_plugins import SOURCE, add_compiled, java_catalog
from support.thread_cluster import STRING, thread_cluster
from support.wait import wait_until

pytestmark = pytest.mark.long

USER = "reader"
START_S = 120


@pytest.mark.parametrize("own_topic", [False, True], ids=["worker's offsets", "own topic"])
def test_a_missing_right_to_a_transactional_id_is_named(
    guarded: GuardedBroker, unique: str, tmp_path: Path, *, own_topic: bool
) -> None:
    servers, group = guarded.open["bootstrap.servers"], f"g{unique[-8:]}"
    add_compiled("Counting", {SOURCE: "tests.Counting"}, tmp_path / "plugins")
    settings = {
        "plugin.path": str(tmp_path / "plugins"),
        "key.converter": STRING,
        "value.converter": STRING,
    }
    topics = {f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")}
    worker = from_properties(
        {"bootstrap.servers": servers, "group.id": group, **topics, **settings}
    )
    create_topic(servers, unique)
    offsets = f"{group}-own" if own_topic else f"{group}-offsets"
    login = {
        f"{client}.override.{key}": value
        for client in ("producer", "consumer", "admin")
        for key, value in guarded.client(USER).items()
    }
    config = {"name": "c", "connector.class": "Counting", "topic": unique, **login}
    if own_topic:
        config["offsets.storage.topic"] = offsets
    rights = [
        binding(USER, "TOPIC", topic, right)
        for topic in (unique, offsets)
        for right in ("READ", "WRITE", "CREATE")
    ]
    missing = [binding(USER, "TRANSACTIONAL_ID", f"{group}-c-0", "WRITE")]
    guarded.set_rights(rights)
    try:
        with (
            java_catalog(worker[0].properties),
            thread_cluster(servers, group, settings) as cluster,
        ):
            cluster.verbs.create("c", config, None)
            cluster.wait_for("c", State.RUNNING, State.FAILED, timeout_s=START_S)
            trace = cluster.verbs.status("c").tasks[0].trace or ""
            assert f"needs Write on the transactional id {group}-c-0." in trace
            assert PASSWORD not in trace
            guarded.set_rights(missing)
            cluster.verbs.restart("c", include_tasks=True, only_failed=False)
            wait_until(lambda: read_to_end(servers, unique), what="records", timeout_s=START_S)
            cluster.verbs.delete("c")
    finally:
        guarded.take_rights([*rights, *missing])
