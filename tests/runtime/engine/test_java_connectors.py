"""Java connectors on a real broker, in JVMs of the engine: all but Spark and REST."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from connect_runtime.engine import java_loggers
from connect_runtime.engine.catalog import JavaCatalog, use_catalog
from connect_runtime.herder.verbs import RequestError
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.plugins import registry
from connect_runtime.rest.plugin_resources import keys_json, plugins_json
from connect_runtime.settings.jvm_options import OPTIONS_KEY, TASKS_KEY
from connect_runtime.settings.worker_config import WorkerConfig, from_properties
from connect_runtime.storage.snapshots import State
from connect_runtime.validation.validate import validate
from connect_specs.desired import OffsetEntry, TargetState
from support.broker import BrokerAddress, create_topic, produce, read_to_end
from support.java_plugins import COUNTING, engine_jvms, make_jar, newest_engine_jvm
from support.thread_cluster import ThreadCluster, thread_cluster
from support.wait import wait_until

PLUGIN = Path(__file__).with_name("plugins") / "Counting.java"
PROVIDER = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
PASSWORD = "open-sesame-42"
# JVMs start in seconds, and take their time beside other tests
START_S = 180


@pytest.fixture(scope="module")
def plugin_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plugin, and a jar that cannot be read."""
    folder = tmp_path_factory.mktemp("plugins")
    for name in ("counting", "broken"):
        (folder / name).mkdir()
    jar = tmp_path_factory.mktemp("built") / "counting.jar"
    make_jar(PLUGIN, COUNTING, jar)
    jar.rename(folder / "counting" / jar.name)
    (folder / "broken" / "broken.jar").write_bytes(b"no jar")
    return folder


@pytest.fixture(scope="module")
def worker(broker: BrokerAddress, plugin_path: Path) -> WorkerConfig:
    properties = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "java",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "config.storage.topic": "java-configs",
        "offset.storage.topic": "java-offsets",
        "status.storage.topic": "java-status",
        "plugin.path": str(plugin_path),
        "config.providers": "env",
        "config.providers.env.class": PROVIDER,
    }
    return from_properties(properties)[0]


@pytest.fixture(scope="module")
def catalog(
    worker: WorkerConfig, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaCatalog]:
    """The process's catalog; what was looked up before it, and with it, is forgotten."""
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("JAVA_SECRET", PASSWORD)
    catalog = JavaCatalog(worker.properties, "ours:8083")
    use_catalog(catalog)
    assert catalog.scan()
    registry.connector.cache_clear()
    yield catalog
    use_catalog(None)
    registry.connector.cache_clear()
    catalog.close()
    monkeypatch.undo()


@pytest.fixture(scope="module")
def cluster(
    broker: BrokerAddress,
    worker: WorkerConfig,
    catalog: JavaCatalog,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ThreadCluster]:
    keys = ("plugin.path", "config.providers", "config.providers.env.class")
    settings = {key: worker.properties[key] for key in keys}
    levels = tmp_path_factory.mktemp("levels") / "levels.json"
    java_loggers.share_levels(levels)
    with thread_cluster(
        broker.bootstrap_servers, f"java-{os.getpid()}", settings, logger_levels=str(levels)
    ) as cluster:
        yield cluster


def counted(broker: BrokerAddress, topic: str) -> list[int]:
    return [int(m.value() or b"") for m in read_to_end(broker.bootstrap_servers, topic)]


def test_java_plugins_are_listed_beside_our_own(catalog: JavaCatalog) -> None:
    rows = plugins_json(connectors_only=False)
    plugins = {row["class"]: row for row in rows}
    assert plugins["tests.Counting"] == {
        "class": "tests.Counting",
        "type": "source",
        "version": "1.0",
    }
    assert plugins["tests.Counting$Lines"]["type"] == "sink"
    # one entry for each class: Apache's own are ours
    assert len(rows) == len({(row["class"], row["type"]) for row in rows})


def test_a_java_connector_has_its_own_keys_and_those_of_connect(catalog: JavaCatalog) -> None:
    keys = {key["name"]: key for key in keys_json("Counting")}
    assert keys["topic"]["required"]
    assert keys["fail.with"]["type"] == "PASSWORD"
    assert "tasks.max" in keys


def test_a_config_is_validated_by_connect_itself(
    worker: WorkerConfig, catalog: JavaCatalog
) -> None:
    infos = validate({"connector.class": "tests.Counting", "name": "c", "tasks.max": "x"}, worker)
    assert infos.error_count == 3
    assert infos.errors == (
        "Invalid value x for configuration tasks.max: Not a number of type INT",
        "Invalid value null for configuration tasks.max: Value must be non-null",
        'Missing required configuration "topic" which has no default value.',
    )


def test_options_of_a_jvm_are_validated_beside_connects_keys(
    worker: WorkerConfig, catalog: JavaCatalog
) -> None:
    config = {"connector.class": "tests.Counting", "name": "c", "topic": "t"}
    assert not validate(config | {OPTIONS_KEY: "-Xmx1g"}, worker).error_count
    infos = validate(config | {OPTIONS_KEY: "-Xmx1g -Da=b"}, worker)
    (error,) = infos.errors
    assert error.startswith(
        "Invalid value -Xmx1g -Da=b for configuration java.jvm.options: -Da=b is not allowed"
    )
    assert infos.error_count == 1
    assert not validate(config | {TASKS_KEY: "Own"}, worker).error_count
    (error,) = validate(config | {TASKS_KEY: "mine"}, worker).errors
    assert error == ("Invalid value mine for configuration java.tasks.jvm: it must be node or own")


def test_what_a_reference_stands_for_is_in_no_answer(
    worker: WorkerConfig, catalog: JavaCatalog
) -> None:
    config = {
        "connector.class": "tests.Counting",
        "name": "c",
        "topic": "t",
        "tasks.max": "${env:JAVA_SECRET}",
    }
    infos = validate(config, worker)
    assert infos.error_count == 2
    assert PASSWORD not in repr(infos)
    value = next(info.value for info in infos.configs if info.value and info.value.errors)
    assert value.value == "${env:JAVA_SECRET}"


def test_an_unknown_class_is_refused_with_the_names_of_all(
    worker: WorkerConfig, catalog: JavaCatalog
) -> None:
    with pytest.raises(RequestError, match=r"matches Nothing.*tests\.Counting") as error:
        validate({"connector.class": "Nothing"}, worker)
    assert error.value.status == 400


def test_each_record_of_a_source_is_written_once_though_its_jvm_is_killed(
    broker: BrokerAddress, cluster: ThreadCluster, unique: str
) -> None:
    config = {"name": unique, "connector.class": "Counting", "topic": unique, "tasks.max": "1"}
    cluster.verbs.create(unique, config, TargetState.RUNNING)
    cluster.wait_for(unique, State.RUNNING, State.RUNNING, timeout_s=START_S)
    wait_until(lambda: len(counted(broker, unique)) > 50, what="records", timeout_s=START_S)
    os.kill(newest_engine_jvm(), signal.SIGKILL)
    before = len(counted(broker, unique))
    wait_until(
        lambda: len(counted(broker, unique)) > before + 50,
        timeout_s=START_S,
        what="records of the next attempt",
    )
    cluster.stop_connector(unique)
    records = counted(broker, unique)
    assert records == list(range(1, len(records) + 1))
    (entry,) = cluster.verbs.offsets(unique)
    assert entry == OffsetEntry({"number": "0"}, {"count": len(records)})
    cluster.verbs.delete(unique)


def test_a_topic_of_offsets_that_a_java_source_has_itself_is_created_compacted(
    broker: BrokerAddress, cluster: ThreadCluster, unique: str
) -> None:
    """Not by the first client that asks for it, as one that Kafka deletes records of."""
    own = f"{unique}-own-offsets"
    config = {"connector.class": "tests.Counting", "topic": unique, "tasks.max": "1"}
    cluster.verbs.create(
        "owning", {"name": "owning", **config, "offsets.storage.topic": own}, TargetState.RUNNING
    )
    cluster.wait_for("owning", State.RUNNING, State.RUNNING, timeout_s=START_S)
    wait_until(lambda: counted(broker, unique), what="records")
    cluster.verbs.delete("owning")
    assert (
        KafkaLogs({"bootstrap.servers": broker.bootstrap_servers}).cleanup_policy(own) == "compact"
    )


def test_offsets_of_a_java_source_are_moved_and_it_continues_there(
    broker: BrokerAddress, cluster: ThreadCluster, unique: str
) -> None:
    config = {"name": unique, "connector.class": "Counting", "topic": unique, "tasks.max": "1"}
    transforms = {"transforms": "same", "transforms.same.type": "tests.Counting$Same"}
    cluster.verbs.create(unique, config | transforms, TargetState.STOPPED)
    cluster.wait_for(unique, State.STOPPED, timeout_s=START_S)
    partition = {"number": "0"}
    with pytest.raises(RequestError, match="count must be a number"):
        cluster.verbs.alter_offsets(unique, [OffsetEntry(partition, {"count": "many"})])
    cluster.verbs.alter_offsets(unique, [OffsetEntry(partition, {"count": 1_000_000})])
    cluster.verbs.resume(unique)
    cluster.wait_for(unique, State.RUNNING, State.RUNNING, timeout_s=START_S)
    wait_until(lambda: counted(broker, unique), what="records", timeout_s=START_S)
    assert counted(broker, unique)[0] == 1_000_001
    cluster.verbs.pause(unique)
    cluster.wait_for(unique, State.PAUSED, State.PAUSED, timeout_s=START_S)
    cluster.verbs.delete(unique)


@pytest.mark.long
def test_a_java_sink_writes_what_the_topic_has_and_fails_with_its_own_trace(
    broker: BrokerAddress, cluster: ThreadCluster, unique: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap_servers, unique, partitions=1)
    produce(broker.bootstrap_servers, unique, [(None, b"%d" % n) for n in range(100)])
    path = tmp_path / "lines.txt"
    config = {
        "name": unique,
        "connector.class": "tests.Counting$Lines",
        "topics": unique,
        "path": str(path),
        "tasks.max": "1",
    }
    cluster.verbs.create(unique, config, TargetState.RUNNING)
    wait_until(
        lambda: path.exists() and len(path.read_text().splitlines()) == 100,
        timeout_s=START_S,
        what="lines",
    )
    produce(broker.bootstrap_servers, unique, [(None, b"poison")])
    cluster.wait_for(unique, State.RUNNING, State.FAILED, timeout_s=START_S)
    trace = cluster.verbs.status(unique).tasks[0].trace
    assert trace is not None
    assert trace.startswith("org.apache.kafka.connect.errors.ConnectException: ")
    assert "cannot write poison" in trace
    cluster.verbs.delete(unique)


def test_a_connector_that_throws_has_failed_and_no_text_has_its_password(
    cluster: ThreadCluster, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = {
        "name": unique,
        "connector.class": "Counting",
        "topic": unique,
        "fail.with": "${env:JAVA_SECRET}",
    }
    cluster.verbs.create(unique, config, TargetState.RUNNING)
    cluster.wait_for(unique, State.FAILED, timeout_s=START_S)
    trace = cluster.verbs.status(unique).connector.trace
    assert trace is not None
    assert "Cannot log in with [hidden]" in trace
    assert PASSWORD not in caplog.text
    cluster.verbs.delete(unique)


@pytest.mark.long
def test_a_connector_that_ends_the_jvm_fails_alone(
    broker: BrokerAddress, cluster: ThreadCluster, unique: str
) -> None:
    other = {"name": f"o-{unique}", "connector.class": "Counting", "topic": unique}
    cluster.verbs.create(f"o-{unique}", other, TargetState.RUNNING)
    cluster.wait_for(f"o-{unique}", State.RUNNING, State.RUNNING, timeout_s=START_S)
    config = {"name": unique, "connector.class": "Counting", "topic": unique, "exit": "7"}
    cluster.verbs.create(unique, config, TargetState.RUNNING)
    cluster.wait_for(unique, State.FAILED, timeout_s=START_S)
    trace = cluster.verbs.status(unique).connector.trace
    assert trace is not None
    assert "exit code 7" in trace
    cluster.wait_for(f"o-{unique}", State.RUNNING, State.RUNNING, timeout_s=START_S)
    for name in (unique, f"o-{unique}"):
        cluster.verbs.delete(name)


@pytest.mark.long
def test_no_jvm_outlives_its_attempt(cluster: ThreadCluster, unique: str) -> None:
    before = engine_jvms()
    config = {"name": unique, "connector.class": "Counting", "topic": unique, "tasks.max": "2"}
    config["java.tasks.jvm"] = "own"
    cluster.verbs.create(unique, config, TargetState.RUNNING)
    cluster.wait_for(unique, State.RUNNING, State.RUNNING, State.RUNNING, timeout_s=START_S)
    assert len(engine_jvms() - before) >= 2
    cluster.verbs.delete(unique)
    wait_until(lambda: engine_jvms() <= before, timeout_s=START_S, what="the JVMs to end")


@pytest.mark.long
def test_a_source_without_transactions_continues_after_its_last_commit(
    broker: BrokerAddress, worker: WorkerConfig, catalog: JavaCatalog, unique: str
) -> None:
    settings = {
        "plugin.path": worker.properties["plugin.path"],
        "exactly.once.source.support": "disabled",
    }
    config = {"name": "c", "connector.class": "Counting", "topic": unique, "tasks.max": "1"}
    with thread_cluster(broker.bootstrap_servers, f"g-{unique}"[:90], settings) as cluster:
        cluster.verbs.create("c", config, TargetState.RUNNING)
        wait_until(lambda: len(counted(broker, unique)) > 50, what="records", timeout_s=START_S)
        cluster.stop_connector("c")
        (entry,) = cluster.verbs.offsets("c")
        assert entry.offset == {"count": len(counted(broker, unique))}
        cluster.verbs.resume("c")
        before = len(counted(broker, unique))
        wait_until(
            lambda: len(counted(broker, unique)) > before,
            what="records after the stop",
            timeout_s=START_S,
        )
        cluster.verbs.delete("c")
    records = counted(broker, unique)
    assert records == list(range(1, len(records) + 1))


@pytest.mark.long
def test_a_level_reaches_the_jvms_that_run_and_those_that_start_later(
    cluster: ThreadCluster, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    name = "org.apache.kafka.connect.runtime.AbstractWorkerSourceTask"
    config = {"name": unique, "connector.class": "Counting", "topic": unique, "tasks.max": "1"}
    cluster.verbs.create(unique, config, TargetState.RUNNING)
    cluster.wait_for(unique, State.RUNNING, State.RUNNING, timeout_s=START_S)

    def logs_traces() -> bool:
        return any(r.name == name and r.levelname == "TRACE" for r in list(caplog.records))

    assert not logs_traces()
    java_loggers.set_level(name, "trace")
    wait_until(logs_traces, what="lines of the task at its level", timeout_s=START_S)
    cluster.verbs.restart_task(unique, 0)
    caplog.clear()
    wait_until(logs_traces, what="lines of the next attempt", timeout_s=START_S)
    java_loggers.set_level(name, "INFO")
    cluster.verbs.delete(unique)


@pytest.mark.long
def test_topics_that_were_reset_are_in_use_again(cluster: ThreadCluster, unique: str) -> None:
    config = {"name": unique, "connector.class": "Counting", "topic": unique}
    cluster.verbs.create(unique, config, TargetState.RUNNING)
    for _ in range(2):
        wait_until(
            lambda: cluster.verbs.topics(unique) == [unique], what="its topic", timeout_s=START_S
        )
        cluster.verbs.reset_topics(unique)
        assert cluster.verbs.topics(unique) == []
    cluster.verbs.delete(unique)
