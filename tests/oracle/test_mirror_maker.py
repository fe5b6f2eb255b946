"""MirrorMaker's connectors in our runtime beside a real dedicated MirrorMaker, and the conversion
of its file."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from connect_runtime.kafka.embedded import LOGGING, EmbeddedBroker
from connect_runtime.kafka.jars import classpath
from connect_runtime.kafka.local_processes import LOOPBACK, find_java, free_port
from connect_specs.mirror_maker import Flow, flows
from support.broker import BrokerAddress, create_topic, produce, read_to_end
from support.connect_jars import add_plugin, fetched_files
from support.java_plugins import make_jar
from support.rig import Rig
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.long]

START_S = 180
FILES: Mapping[str, Mapping[str, str]] = {
    "one flow": {"a->b.enabled": "true", "a->b.topics": "orders.*"},
    "both": {"a->b.enabled": "true", "b->a.enabled": "true", "tasks.max": "3"},
    "no heartbeats": {"a->b.enabled": "true", "emit.heartbeats.enabled": "false"},
    "heartbeats of one flow": {"b->a.enabled": "TRUE", "a->b.emit.heartbeats.enabled": "false"},
    "a login for all": {
        "a->b.enabled": "true",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "shared",
        "b.sasl.jaas.config": "of b",
    },
    "clients": {
        "a->b.enabled": "true",
        "a.consumer.fetch.max.bytes": "1000",
        "b.producer.linger.ms": "7",
        "b.admin.retries": "5",
        "a->b.producer.acks": "1",
        "consumer.max.poll.records": "9",
    },
    "topics of a worker": {
        "a->b.enabled": "true",
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "offset.storage.replication.factor": "1",
        "b.offset.storage.topic": "own",
        "b.group.id": "mine",
        "task.shutdown.graceful.timeout.ms": "7",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    },
}
CLUSTERS = {"clusters": "a, b", "a.bootstrap.servers": "a:1", "b.bootstrap.servers": "b:1"}


def java(*arguments: str, stdin: str = "") -> str:
    found = find_java()
    assert found is not None, "Java not found"
    done = subprocess.run(
        [str(found), *arguments], input=stdin, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def class_path() -> str:
    return os.pathsep.join([classpath("connect"), *map(str, fetched_files("mirror"))])


@pytest.fixture(scope="module")
def their_configs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path of the program that prints what MirrorMaker makes of its file."""
    jar = tmp_path_factory.mktemp("built") / "configs.jar"
    source = Path(__file__).with_name("plugins") / "MirrorConfigs.java"
    make_jar(source, {}, jar, fetched_files("mirror"))
    return os.pathsep.join([class_path(), str(jar)])


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_converted_to_what_mirror_maker_makes_of_it(
    name: str, their_configs: str
) -> None:
    properties = {**CLUSTERS, **FILES[name]}
    converted = flows(properties)
    configs = [dict(config) for flow in converted for config in flow.connectors]
    program = "org.apache.kafka.connect.mirror.MirrorConfigs"
    asked = json.dumps({"properties": properties, "configs": configs})
    theirs = json.loads(java("-cp", their_configs, program, stdin=asked))
    read = iter(theirs.pop("read"))
    # a flow that is not enabled runs, but does no more than send heartbeats
    assert {f"{flow.source}->{flow.target}" for flow in converted} == theirs.keys()
    for flow in converted:
        expected = theirs[f"{flow.source}->{flow.target}"]
        of_class = {config["class"]: config for config in expected["connectors"]}
        for config in flow.connectors:
            assert next(read) == of_class[config["connector.class"]]
        assert _by_worker(flow.worker) == _by_worker(expected["worker"])


def _by_worker(properties: Mapping[str, str]) -> dict[str, str]:
    """A worker's properties without repetitions and those that it does not know."""
    return {
        key: value
        for key, value in properties.items()
        if not key.endswith(".bootstrap.servers")
        and not key.startswith(("replication.policy", "tasks.max"))
        and key != "client.id"
    }


# --- two clusters ---

RECORDS = 100
# A sync for each record, and checkpoints each second
EAGER = {
    "offset.lag.max": "0",
    "emit.checkpoints.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "emit.heartbeats.interval.seconds": "1",
    "refresh.topics.interval.seconds": "2",
    "replication.factor": "1",
    **{
        f"{topic}.topic.replication.factor": "1"
        for topic in ("checkpoints", "heartbeats", "offset-syncs")
    },
    **{f"{kind}.storage.replication.factor": "1" for kind in ("offset", "config", "status")},
}


@dataclass(frozen=True, slots=True)
class Clusters:
    """Two clusters. The flow is between aliases of the caller's choice, so that topics differ."""

    rig: Rig
    source: str
    target: str
    topic: str

    def file(self, source: str, target: str) -> dict[str, str]:
        """A MirrorMaker's properties for the flow."""
        return {
            "clusters": f"{source}, {target}",
            f"{source}.bootstrap.servers": self.source,
            f"{target}.bootstrap.servers": self.target,
            f"{source}->{target}.enabled": "true",
            f"{source}->{target}.topics": self.topic,
            f"{source}->{target}.groups": self.topic,
            f"{target}.offset.flush.interval.ms": "500",
            f"{target}->{source}.emit.heartbeats.enabled": "false",
            **EAGER,
        }

    def fill(self, records: int) -> None:
        at = len(read_to_end(self.source, self.topic))
        rows = [(b"k%d" % n, b"v%d" % n) for n in range(at, at + records)]
        produce(self.source, self.topic, rows)

    def commit(self, offset: int) -> None:
        """Commits an offset of the group that has the topic's name."""
        consumer = Consumer({"bootstrap.servers": self.source, "group.id": self.topic})
        consumer.commit(offsets=[TopicPartition(self.topic, 0, offset)], asynchronous=False)
        consumer.close()

    def copies(self, source: str) -> list[Any]:
        return [_content(m) for m in read_to_end(self.target, f"{source}.{self.topic}")]

    def originals(self) -> list[Any]:
        return [_content(m) for m in read_to_end(self.source, self.topic)]

    def syncs(self, target: str) -> list[tuple[int, int]]:
        """Offsets in the source and in the target."""
        messages = read_to_end(self.source, f"mm2-offset-syncs.{target}.internal")
        topic = self.topic.encode()
        return [struct.unpack(">qq", m.value() or b"") for m in messages if topic in m.key()]

    def checkpoint(self, source: str) -> tuple[int, int] | None:
        """The newest offsets of the group: in the source and, translated, in the target."""
        messages = read_to_end(self.target, f"{source}.checkpoints.internal")
        values = [m.value() or b"" for m in messages if self.topic.encode() in (m.key() or b"")]
        return struct.unpack(">qq", values[-1][2:18]) if values else None

    def heartbeats(self, source: str, target: str) -> int:
        key = b"".join(struct.pack(">h", len(x)) + x.encode() for x in (source, target))
        return sum(m.key() == key for m in read_to_end(self.target, "heartbeats"))

    def group(self, source: str) -> int:
        """The group's offset in the target, which MirrorMaker syncs."""
        consumer = Consumer({"bootstrap.servers": self.target, "group.id": self.topic})
        try:
            (at,) = consumer.committed([TopicPartition(f"{source}.{self.topic}", 0)], timeout=30)
            return at.offset
        finally:
            consumer.close()

    def wait_for(
        self, source: str, target: str, records: int, committed: int, synced: int | None = None
    ) -> None:
        names = {f"{source}.{self.topic}", f"{source}.checkpoints.internal", "heartbeats"}

        def at_committed() -> bool:
            checkpoint = self.checkpoint(source)
            return checkpoint is not None and checkpoint[0] == committed

        last = (end := (synced or records) - 1, end)
        waits = {
            "topics": lambda: names <= _topics(self.target),
            f"{records} copies": lambda: len(self.copies(source)) >= records,
            f"a sync of {last}": lambda: last in self.syncs(target),
            f"a checkpoint of {committed}": at_committed,
            "the group's offset": lambda: self.group(source) >= 0,
            "heartbeats": lambda: self.heartbeats(source, target) > 1,
        }
        for what, condition in waits.items():
            wait_until(condition, what=f"{what} by {source}", timeout_s=START_S)


def _topics(kafka: str) -> set[str]:
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "lists"})
    try:
        return set(consumer.list_topics(timeout=30).topics)
    finally:
        consumer.close()


def _content(message: Message) -> tuple[Any, ...]:
    return message.key(), message.value(), message.headers(), message.timestamp()


@contextmanager
def mirror_maker(clusters: Clusters, properties: Mapping[str, str]) -> Iterator[None]:
    """A dedicated MirrorMaker of Apache's."""
    folder = clusters.rig.folder
    file, logging = folder / "mm2.properties", folder / "log4j2.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    logging.write_text(LOGGING)
    command = ["-Xmx512m", f"-Dlog4j2.configurationFile={logging}", "-cp", class_path()]
    command += ["org.apache.kafka.connect.mirror.MirrorMaker", str(file)]
    with (folder / "mm2.log").open("ab") as log:
        process = subprocess.Popen([str(find_java()), *command], stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def our_worker(
    clusters: Clusters, flow: Flow, *, connectors: bool, exactly_once: str
) -> Iterator[str]:
    """Our runtime with a converted worker's file, and its connectors unless they are there; its
    URL."""
    folder = clusters.rig.folder
    url = f"http://{LOOPBACK}:{free_port()}"
    own = {"listeners": url, "plugin.path": str(folder / "plugins")}
    own["exactly.once.source.support"] = exactly_once
    lines = (f"{key}={value}\n" for key, value in {**flow.worker, **own}.items())
    (folder / "worker.properties").write_text("".join(lines))
    with (folder / "ours.log").open("ab") as log:
        process = clusters.rig.start_logging(log, "distributed", "worker.properties")
    try:
        if connectors:
            _create(url, flow)
        yield url
    finally:
        process.terminate()
        process.wait(60)


def _create(url: str, flow: Flow) -> None:
    with httpx.Client(base_url=url, timeout=90) as client:

        def serves() -> bool:
            try:
                return client.get("/health").status_code == 200
            except httpx.TransportError:
                return False

        wait_until(serves, what="REST", timeout_s=START_S)
        for config in flow.connectors:
            answer = client.put(f"/connectors/{config['name']}/config", json=dict(config))
            assert answer.status_code == 201, answer.text


@pytest.fixture
def clusters(broker: BrokerAddress, tmp_path: Path, unique: str) -> Iterator[Clusters]:
    rig = Rig(tmp_path / "rig")
    add_plugin("mirror", rig.folder / "plugins")
    target = EmbeddedBroker.start(tmp_path / "target")
    made = Clusters(rig, broker.bootstrap_servers, target.bootstrap_servers, unique)
    create_topic(made.source, unique)
    try:
        yield made
        assert rig.end() == []
    finally:
        target.stop()


def mirrored(url: str, topic: str) -> float | None:
    """The records of a topic by the MBean of MirrorMaker's source, which names the task."""
    of_bean = "kafka_connect_mirror_mirrorsourceconnector_"
    lines = [
        line
        for line in httpx.get(f"{url}/metrics", timeout=60).text.splitlines()
        if line.startswith(of_bean) and f'topic="{topic}"' in line
    ]
    values = {line.split("{")[0].removeprefix(of_bean): line.rpartition(" ")[2] for line in lines}
    if "replication_latency_ms_max" not in values:
        return None
    assert all('connector="MirrorSourceConnector"' in line for line in lines), lines
    assert all('task="0"' in line and 'partition="0"' in line for line in lines), lines
    return float(values["record_count"])


def test_our_runtime_mirrors_as_mirror_maker_and_continues_where_it_stopped(
    clusters: Clusters,
) -> None:
    theirs, ours = clusters.file("pa", "ba"), clusters.file("po", "bo")
    (flow,) = flows(ours)
    with (
        mirror_maker(clusters, theirs),
        our_worker(clusters, flow, connectors=True, exactly_once="disabled") as url,
    ):
        # a consumer of the first half, the end of which has a sync
        for records in (RECORDS, 2 * RECORDS):
            clusters.fill(RECORDS)
            clusters.commit(RECORDS)
            for source, target in (("pa", "ba"), ("po", "bo")):
                clusters.wait_for(source, target, records, RECORDS)
        wait_until(
            lambda: mirrored(url, f"po.{clusters.topic}") == 2 * RECORDS,
            what="all copies on /metrics",
            timeout_s=START_S,
        )
    assert clusters.copies("po") == clusters.copies("pa") == clusters.originals()
    assert clusters.checkpoint("po") == clusters.checkpoint("pa")
    assert clusters.group("po") == clusters.group("pa") == RECORDS

    (flow,) = flows(theirs)
    with our_worker(clusters, flow, connectors=False, exactly_once="enabled"):
        clusters.fill(RECORDS)
        clusters.commit(3 * RECORDS)
        # the last sync of a transaction may wait for the next one, as by Apache's workers
        clusters.wait_for("pa", "ba", 3 * RECORDS, 3 * RECORDS, synced=2 * RECORDS)
        checkpoint = clusters.checkpoint("pa")
        assert checkpoint is not None
        assert 2 * RECORDS <= checkpoint[1] <= 3 * RECORDS
    assert clusters.copies("pa") == clusters.originals()
