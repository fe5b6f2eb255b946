"""Offsets of Java sources that the runtime reads and writes for their JVMs: in the worker's topic,
below a topic of their own, on another Kafka, or at another address. None is written before its
records are committed, or after its attempt has ended."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.kafka.local_processes import LOOPBACK
from connect_runtime.storage.log import LogRecord, NewRecord
from connect_runtime.storage.snapshots import State
from connect_runtime.tasks.control.worker_topics import WorkerTopics
from connect_runtime.tasks.kafka_failures import Interrupted
from connect_runtime.tasks.source.plain_writer import KafkaOffsets
from connect_specs.desired import OffsetEntry, TargetState
from support.broker import BrokerAddress, read_to_end
from support.java_plugins import SOURCE, add_compiled, java_catalog, newest_engine_jvm
from support.own_broker import OwnBroker, own_broker
from support.thread_cluster import STRING, ThreadCluster, thread_cluster
from support.wait import wait_until

pytestmark = pytest.mark.long

START_S = 180
GRACEFUL_S = 5
CONVERTERS = {"key.converter": STRING, "value.converter": STRING}
# Within so long Connect has copied an offset
AT_ONCE_S = 3
# Where the offsets are: on another Kafka in a topic of its own or one that is named as the
# worker's, and in the worker's topic at another address of its Kafka
PLACES: Mapping[str, tuple[str, bool]] = {
    "own topic": ("other", True),
    "other Kafka": ("other", False),
    "other address": ("same", False),
}


@dataclass(frozen=True, slots=True)
class Clusters:
    """A runtime on each of two Kafkas, which has the connectors' topics on `own`."""

    own: OwnBroker
    runtimes: Mapping[str, ThreadCluster]

    @property
    def way(self) -> str:
        """An address of the Kafka, over the proxy."""
        return f"{LOOPBACK}:{self.own.ways[0].port}"

    def counted(self, topic: str) -> list[int]:
        return [int(record.value() or b"") for record in read_to_end(self.own.kafka, topic)]

    def wait_for_more(self, topic: str) -> None:
        before = len(self.counted(topic))
        wait_until(
            lambda: len(self.counted(topic)) > before + 50, what="records", timeout_s=START_S
        )


@pytest.fixture(scope="module")
def plugin_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "plugins"
    add_compiled("Counting", {SOURCE: "tests.Counting"}, folder)
    return folder


@pytest.fixture(scope="module")
def clusters(
    broker: BrokerAddress, plugin_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Clusters]:
    group = f"places-{os.getpid()}"
    settings = {"plugin.path": str(plugin_path)}
    topics = {f"{k}.storage.topic": f"{group}-{k}s" for k in ("config", "offset", "status")}
    worker = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": group,
        **CONVERTERS,
        **topics,
        **settings,
    }
    with (
        own_broker(tmp_path_factory.mktemp("broker")) as own,
        java_catalog(worker),
        thread_cluster(broker.bootstrap_servers, group, settings) as other,
        thread_cluster(own.kafka, group, settings) as same,
    ):
        yield Clusters(own, {"other": other, "same": same})


@pytest.mark.parametrize("place", PLACES)
def test_the_offset_of_a_transaction_that_is_aborted_does_not_count(
    clusters: Clusters, unique: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trap: Connect copies offsets to the worker's topic before their transaction ends."""
    copied = threading.Event()
    write = KafkaOffsets.write

    def noticed(writer: KafkaOffsets, offsets: Sequence[NewRecord], limit_s: float) -> bool:
        written = write(writer, offsets, limit_s)
        if any(unique.encode() in record.key for record in offsets):
            copied.set()
        return written

    monkeypatch.setattr(KafkaOffsets, "write", noticed)
    runtime, has_topic = PLACES[place]
    cluster, way = clusters.runtimes[runtime], clusters.own.ways[0]
    config = {
        "name": unique,
        "connector.class": "Counting",
        "topic": unique,
        "tasks.max": "1",
        **{f"{kind}.override.bootstrap.servers": clusters.way for kind in ("producer", "consumer")},
        "admin.override.bootstrap.servers": clusters.way,
    }
    own = {"offsets.storage.topic": f"{unique}-own"} if has_topic else {}
    with way.kept_ends(unique) as kept:
        cluster.verbs.create(unique, config | own, TargetState.RUNNING)
        assert kept.wait(START_S)
        assert not copied.wait(AT_ONCE_S)
        launches = len(cluster.launcher.launches)
        os.kill(newest_engine_jvm(), signal.SIGKILL)
        wait_until(
            lambda: len(cluster.launcher.launches) > launches,
            what="another attempt",
            timeout_s=60,
        )
    clusters.wait_for_more(unique)
    cluster.stop_connector(unique)
    records = clusters.counted(unique)
    assert records == [*range(1, len(records) + 1)]
    # it was copied when it was committed: without a topic of its own it continues there
    cluster.verbs.put_config(unique, config)
    entry = OffsetEntry({"number": "0"}, {"count": len(records)})
    assert tuple(cluster.verbs.offsets(unique)) == (entry,)
    cluster.verbs.resume(unique)
    cluster.wait_for(unique, State.RUNNING, State.RUNNING, timeout_s=START_S)
    clusters.wait_for_more(unique)
    cluster.verbs.delete(unique)
    records = clusters.counted(unique)
    assert records == [*range(1, len(records) + 1)]


@pytest.mark.usefixtures("clusters")  # they have the catalog
def test_an_attempt_without_transactions_ends_after_its_last_write_of_offsets(
    broker: BrokerAddress, plugin_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trap: a user moves offsets once it has ended, and a late write moves them back."""
    settings = {"plugin.path": str(plugin_path), "exactly.once.source.support": "disabled"}
    group = f"late-{os.getpid()}"
    writing, go_on, written = threading.Event(), threading.Event(), threading.Event()
    write = KafkaOffsets.write

    def slow(writer: KafkaOffsets, *arguments: Any) -> bool:
        writing.set()
        assert go_on.wait(START_S)
        done = write(writer, *arguments)
        written.set()
        return done

    monkeypatch.setattr(KafkaOffsets, "write", slow)
    config = {"name": "c", "connector.class": "Counting", "topic": unique, "tasks.max": "1"}
    with thread_cluster(broker.bootstrap_servers, group, settings) as cluster:
        cluster.verbs.create("c", config, TargetState.RUNNING)
        assert writing.wait(START_S)
        cluster.verbs.stop("c")
        # its JVM is killed before
        threading.Timer(GRACEFUL_S + 4, go_on.set).start()
        cluster.wait_for("c", State.STOPPED)
        assert written.is_set()
        cluster.verbs.delete("c")


@pytest.mark.usefixtures("clusters")
def test_a_kafka_that_is_away_when_offsets_are_read_fails_no_task(
    broker: BrokerAddress, plugin_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"plugin.path": str(plugin_path), "exactly.once.source.support": "disabled"}
    away = iter([True])
    read = WorkerTopics.source_offset_rows

    def rows(topics: WorkerTopics) -> tuple[list[LogRecord], dict[int, int]]:
        if next(away, False):
            raise Interrupted("Kafka is away")
        return read(topics)

    monkeypatch.setattr(WorkerTopics, "source_offset_rows", rows)
    config = {"name": "c", "connector.class": "Counting", "topic": unique, "tasks.max": "1"}
    with thread_cluster(broker.bootstrap_servers, f"away-{os.getpid()}", settings) as cluster:
        cluster.verbs.create("c", config, TargetState.RUNNING)
        cluster.wait_for("c", State.RUNNING, State.RUNNING, timeout_s=START_S)
        assert len(cluster.launcher.launches) == 2
        cluster.verbs.delete("c")
