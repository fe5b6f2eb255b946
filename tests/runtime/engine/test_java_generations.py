"""A Java source whose tasks are configured anew under load: those of before are stopped and fenced
first, so that each of its records is written once (KIP-618)."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator

import pytest

from connect_runtime.storage.snapshots import State
from support.broker import BrokerAddress, create_topic, read_to_end
from support.java_plugins import SOURCE, add_compiled, java_catalog
from support.thread_cluster import STRING, ThreadCluster, thread_cluster
from support.wait import wait_until

pytestmark = pytest.mark.long

START_S = 180
# How many tasks it has, one after the other
GENERATIONS = (1, 3, 2, 3, 1, 2)


@pytest.fixture(scope="module")
def cluster(
    broker: BrokerAddress, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ThreadCluster]:
    folder = tmp_path_factory.mktemp("built") / "plugins"
    add_compiled("Counting", {SOURCE: "tests.Counting"}, folder)
    group, kafka = f"generations-{os.getpid()}", broker.bootstrap_servers
    topics = {f"{k}.storage.topic": f"{group}-{k}s" for k in ("config", "offset", "status")}
    settings = {"plugin.path": str(folder)}
    worker = {"bootstrap.servers": kafka, "group.id": group, **topics, **settings}
    converters = {"key.converter": STRING, "value.converter": STRING}
    with java_catalog(worker | converters), thread_cluster(kafka, group, settings) as cluster:
        yield cluster


def counted(broker: BrokerAddress, topic: str) -> dict[bytes, list[int]]:
    """Returns the numbers of each task."""
    counts: dict[bytes, list[int]] = defaultdict(list)
    for record in read_to_end(broker.bootstrap_servers, topic):
        counts[record.key() or b""].append(int(record.value() or b""))
    return counts


@pytest.mark.parametrize("waits", [True, False], ids=["each runs", "at once"])
def test_each_record_is_written_once_through_generations_of_tasks(
    broker: BrokerAddress, cluster: ThreadCluster, unique: str, *, waits: bool
) -> None:
    create_topic(broker.bootstrap_servers, unique)
    for count in GENERATIONS:
        config = {"connector.class": "Counting", "topic": unique, "tasks.max": f"{count}"}
        cluster.verbs.put_config(unique, {"name": unique, **config})
        if waits:
            running = [State.RUNNING] * count
            cluster.wait_for(unique, State.RUNNING, *running, timeout_s=START_S)
            before = counted(broker, unique).get(b"0", [])
            wait_until(
                lambda: len(counted(broker, unique)[b"0"]) > len(before) + 10,  # noqa: B023
                what="records",
                timeout_s=START_S,
            )
    running = [State.RUNNING] * GENERATIONS[-1]
    cluster.wait_for(unique, State.RUNNING, *running, timeout_s=START_S)
    wait_until(
        lambda: counted(broker, unique).keys() >= {b"0", b"1"}, what="records", timeout_s=START_S
    )
    cluster.stop_connector(unique)
    for numbers in counted(broker, unique).values():
        assert numbers == [*range(1, len(numbers) + 1)]
    offsets = {each.partition["number"]: each.offset for each in cluster.verbs.offsets(unique)}
    assert offsets == {
        key.decode(): {"count": len(numbers)} for key, numbers in counted(broker, unique).items()
    }
    cluster.verbs.delete(unique)
