"""What a JVM reports of a task of a Java connector: numbers, log lines, levels."""

from __future__ import annotations

import logging
import queue
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from connect_runtime.engine import jvm_log
from connect_runtime.engine.engine_jar import class_archive
from connect_runtime.engine.jvm import PluginJvm
from connect_runtime.engine.jvm_connection import Fields, JvmEnded
from connect_runtime.herder.view import View
from connect_runtime.kafka.local_processes import find_java, free_port
from connect_runtime.metrics.jvm_metrics import samples_of, task_reading
from connect_runtime.metrics.page import Observed, page
from connect_runtime.metrics.task_metrics import TaskMetrics, values_of
from connect_runtime.storage.snapshots import ConfigSnapshot, ConnectorState, State, TaskId
from support.broker import BrokerAddress, create_topic, produce
from support.java_plugins import make_jar
from support.wait import wait_until

SOURCE = "org.apache.kafka.connect.source.SourceConnector"
PROVIDER = "org.apache.kafka.common.config.provider.ConfigProvider"
PLUGIN = Path(__file__).with_name("plugins") / "Reporting.java"
STRING = "org.apache.kafka.connect.storage.StringConverter"
PASSWORD = "open-sesame-42"
TASK = TaskId("c", 0)
# A JVM starts in seconds, and takes its time beside other tests
START_S = 120


class Records(logging.Handler):
    """Keeps what was logged."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def texts(self, logger: str) -> list[str]:
        return [r.getMessage() for r in list(self.records) if r.name == logger]


@pytest.fixture(scope="module")
def records() -> Iterator[Records]:
    handler = Records()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


@pytest.fixture(scope="module")
def plugin_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "reporting").mkdir()
    jar = tmp_path_factory.mktemp("built") / "reporting.jar"
    make_jar(PLUGIN, {SOURCE: "tests.Reporting", PROVIDER: "tests.Reporting$Expiring"}, jar)
    jar.rename(folder / "reporting" / jar.name)
    return folder


StartTask = Callable[..., PluginJvm]


@pytest.fixture(scope="module")
def resolved() -> list[Fields]:
    """What was said of configs of connectors, in order."""
    return []


@pytest.fixture(scope="module")
def start_task(
    broker: BrokerAddress, plugin_path: Path, records: Records, resolved: list[Fields]
) -> Iterator[StartTask]:
    """Starts a task with this config in a JVM of its own; all end with the module."""
    jvms: list[PluginJvm] = []
    worker = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "reports",
        "key.converter": STRING,
        "value.converter": STRING,
        "config.storage.topic": "reports-configs",
        "offset.storage.topic": "reports-offsets",
        "status.storage.topic": "reports-status",
        "plugin.path": str(plugin_path),
        "plugin.discovery": "service_load",
        "offset.flush.interval.ms": "500",
        "config.providers": "expiring",
        "config.providers.expiring.class": "tests.Reporting$Expiring",
    }

    def start(of_worker: Mapping[str, str] | None = None, **settings: str) -> PluginJvm:
        begun: queue.SimpleQueue[str] = queue.SimpleQueue()

        def take(event: str, fields: Fields) -> None:
            if event == "connector-resolved":
                resolved.append(fields)
            begun.put(event)

        config = {"name": "c", "connector.class": "tests.Reporting", "topic": "reports"} | settings
        jvm = PluginJvm(
            {**worker, **(of_worker or {})},
            "w:1",
            on_event=take,
            answers={
                "offsets": lambda fields: [None for _ in fields["keys"]],
                "write-offsets": lambda fields: None,
            },
        )
        jvms.append(jvm)
        attempt = {
            "connector": "c",
            "task": 0,
            "attempt": 1,
            "count": 1,
            "connectorConfig": config,
            "taskConfig": {"task.class": "tests.Reporting$Reporter"} | config,
            "exactlyOnce": False,
            "paused": False,
            "tail": None,
        }
        jvm.call("start-task", START_S, attempt=attempt)
        while (event := begun.get(timeout=START_S)) != "task-running":
            assert event in ("scanning", "scanned", "topic")
        return jvm

    yield start
    for jvm in jvms:
        jvm.end()


@pytest.fixture(scope="module")
def jvm(start_task: StartTask, records: Records) -> PluginJvm:
    """Runs a task that has reported all but a flood."""
    jvm = start_task()
    wait_until(lambda: "reported" in records.texts("io.example.Reporter"), what="its lines")
    return jvm


def samples(reading: Mapping[str, Any]) -> dict[str, tuple[dict[str, str], float]]:
    """The samples of a page with this reading, by name."""
    connector = ConnectorState("c", {"connector.class": "tests.Reporting"}, task_configs=({},))
    view = View(config=ConfigSnapshot({"c": connector}))
    text = page(Observed(view, leading=True, leader="http://w:1", readings={TASK: reading}))
    families = list(text_string_to_metric_families(text))
    return {s.name: (s.labels, s.value) for family in families for s in family.samples}


def test_numbers_of_plugins_are_on_the_page_with_connector_and_task(jvm: PluginJvm) -> None:
    served = samples(task_reading(TASK, jvm.call("metrics", 10)))
    ours = {"connector": "c", "task": "0"}
    debezium = ours | {"plugin": "tests", "name": 's"1', "context": "streaming"}
    debezium["exported_task"] = "9"
    assert served["debezium_metrics_MilliSecondsBehindSource"] == (debezium, 12)
    assert served["debezium_metrics_Connected"] == (debezium, 1)
    odd = ours | {"odd_tag": 'a "value"\n'}
    assert served["kafka_connect_plugins_rows_read"] == (odd, 5)
    assert not {"debezium_metrics_Unknown", "debezium_metrics_Text"} & set(served)


def start_connector(jvm: PluginJvm, serial: int, **settings: str) -> None:
    config = {"name": "c", "connector.class": "tests.Reporting", "topic": "reports"} | settings
    fields = {"connector": "c", "serial": serial, "salt": "c2FsdA=="}
    jvm.call("start-connector", 10, config=config, **fields)


def stop_connector(jvm: PluginJvm, serial: int) -> None:
    assert jvm.call("stop-connector", 10, connector="c", serial=serial)


def test_a_config_whose_values_expire_is_reloaded_then_unless_it_says_not_to(
    jvm: PluginJvm, resolved: list[Fields]
) -> None:
    for serial, settings in enumerate(
        (
            {"a": "${expiring:x}", "b": "${expiring:path:x}"},
            {"a": "${expiring:x}", "config.action.reload": "none"},
            {"a": "x", "b": "x"},
            {"a": "y", "b": "x"},
        )
    ):
        start_connector(jvm, serial, **settings)
        stop_connector(jvm, serial)
    latest = resolved[-4:]
    assert [fields["reloadMs"] for fields in latest] == [5_000, None, None, None]
    prints = [fields["fingerprint"] for fields in latest]
    # equal values are equal, whether they are written or resolved
    assert prints[0] == prints[2]
    assert len(set(prints)) == 3


def test_numbers_of_connectors_are_on_the_page(jvm: PluginJvm) -> None:
    start_connector(jvm, 1)
    sample = ("kafka_connect_plugins_of_connector", {"connector": "c"}, 7)
    wait_until(lambda: sample in samples_of([jvm]), what="its number")
    stop_connector(jvm, 1)


def test_a_java_source_has_all_metrics_of_a_python_source(jvm: PluginJvm) -> None:
    ours = TaskMetrics()
    ours.begin("source")
    ours.in_state(State.RUNNING)
    ours.polled(1, 0.1)
    ours.sent(1)
    ours.wrote(0.1, done=True)
    # without transactions, that is in no window
    names = {n for n in values_of(ours.reading())["metrics"] if "transaction_size" not in n}

    def served() -> set[str]:
        reading = task_reading(TASK, jvm.call("metrics", 10))
        assert {client["kind"] for client in reading["clients"]} == {"producer"}
        assert all(client["bytes"] and client["connections"] for client in reading["clients"])
        return set(reading["metrics"])

    wait_until(lambda: not names - served(), what="all of them, once offsets were committed")


@pytest.mark.long
def test_a_java_sink_has_all_metrics_of_a_python_sink(
    start_task: StartTask, broker: BrokerAddress, unique: str, tmp_path: Path
) -> None:
    topic = f"{unique}.with.dots"
    create_topic(broker.bootstrap_servers, topic, partitions=1)
    produce(broker.bootstrap_servers, topic, [(None, b"line")])
    ours = TaskMetrics()
    ours.begin("sink")
    ours.in_state(State.RUNNING)
    ours.read(1)
    ours.put(1, 0.1)
    ours.commit_sent()
    ours.commit_answered(0.1, done=True)
    names = values_of(ours.reading())["metrics"].keys()
    sink = "org.apache.kafka.connect.file.FileStreamSink"
    settings = {"connector.class": f"{sink}Connector", "task.class": f"{sink}Task"}
    jvm = start_task(topics=topic, file=str(tmp_path / "lines"), **settings)

    def served() -> Mapping[str, Any]:
        return task_reading(TASK, jvm.call("metrics", 10))

    wait_until(lambda: not names - served()["metrics"].keys(), what="all of them")
    assert served()["metrics"]["kafka_connect_sink_task_sink_record_send_total"] == 1
    (consumer,) = served()["clients"]
    assert consumer["client_id"] == "connector-consumer-c-0"
    assert consumer["bytes"] and consumer["connections"]
    assert consumer["lags"] == [(topic, 0, 0)]


def test_a_jvm_uses_the_archive_of_its_classes_if_there_is_one(jvm: PluginJvm) -> None:
    maps = Path(f"/proc/{jvm.pid}/maps").read_text()
    assert ("/class-archives/engine-" in maps) == bool(class_archive().flags())


def test_lines_are_those_of_the_connector_and_its_task(jvm: PluginJvm, records: Records) -> None:
    of_task = [r for r in records.records if r.name in ("io.example.Reporter", "stdout")]
    assert of_task
    assert {(r.__dict__["connector"], r.__dict__["task"]) for r in of_task} == {("c", 0)}
    assert records.texts("stdout") == ["printed"]


def test_no_line_looks_like_another_event(jvm: PluginJvm, records: Records) -> None:
    texts = records.texts("io.example.Reporter")
    assert "two\n  2026-01-01 00:00:00,000 ERROR [other] lines" in texts


def test_traces_and_broken_texts_are_logged(jvm: PluginJvm, records: Records) -> None:
    (text,) = [t for t in records.texts("io.example.Reporter") if t.startswith("half")]
    first, *trace = text.split("\n")
    assert first == "half a surrogate ?"
    assert all(line.startswith("  ") for line in trace)
    assert any(
        "Caused by: org.apache.kafka.connect.errors.ConnectException: second" in t for t in trace
    )


def test_a_long_line_is_cut(jvm: PluginJvm, records: Records) -> None:
    (text,) = [t for t in records.texts("io.example.Reporter") if t.startswith("long")]
    assert text.endswith("x... (1000005 characters)")
    assert len(text) < 20_000


def test_levels_are_those_of_the_jvm(jvm: PluginJvm, records: Records) -> None:
    assert "at debug" not in records.texts("io.example.Reporter")
    assert jvm.call("log-level", 10, logger="io.example", level="DEBUG") == [
        "io.example",
        "io.example.Reporter",
    ]
    levels = jvm.call("loggers", 10)
    assert levels["io.example.Reporter"]["level"] == "DEBUG"
    assert levels["root"]["level"] == "INFO"


@pytest.mark.long
def test_a_flood_of_lines_is_cut_and_counted_and_holds_no_task_up(
    start_task: StartTask, records: Records
) -> None:
    jvm = start_task(name="flood", flood="200000")
    wait_until(
        lambda: any("of a second were left out" in t for t in records.texts(jvm_log.__name__)),
        what="the number of lines that were left out",
    )
    wait_until(lambda: jvm.call("metrics", 10)["connect"], what="an answer")
    wait_until(lambda: written(jvm) > 0, what="records after the flood")
    lines = [t for t in records.texts("io.example.Reporter") if "of a flood" in t]
    assert 500 < len(lines) < 50_000


def written(jvm: PluginJvm) -> float:
    metrics = task_reading(TASK, jvm.call("metrics", 10))["metrics"]
    return metrics["kafka_connect_source_task_source_record_write_total"]


@pytest.mark.long
def test_a_plugin_with_100_000_beans_leaves_the_page_small(start_task: StartTask) -> None:
    jvm = start_task(beans="100000")

    def read() -> Mapping[str, Any] | None:
        """The latest reading, once it has beans, which the first ones do not wait for."""
        reading = task_reading(TASK, jvm.call("metrics", 10))
        return reading if any(name == "many_beans_one" for name, *_ in reading["samples"]) else None

    reading = wait_until(read, what="its beans")
    assert len(reading["samples"]) == 10_001
    omitted = samples(reading)["kafka_connect_plugin_values_omitted"]
    assert omitted[1] > 90_000


@pytest.mark.long
def test_a_bean_that_hangs_holds_no_other_numbers_up(start_task: StartTask) -> None:
    jvm = start_task(hang="yes")
    for _ in range(3):
        assert task_reading(TASK, jvm.call("metrics", 5))["metrics"]


@pytest.mark.long
def test_each_jvm_serves_jmx_at_a_port_of_its_own_to_this_machine(
    start_task: StartTask, records: Records, tmp_path: Path
) -> None:
    first = free_port()
    for _ in range(2):
        start_task({"java.jmx.port": str(first)})
    ports = [int(t.rpartition(":")[2]) for t in records.texts("connect.engine.Jmx")]
    assert ports[0] >= first and ports[1] > ports[0]
    client = tmp_path / "Client.java"
    client.write_text(JMX_CLIENT)
    java = find_java()
    assert java is not None
    for port in ports:
        command = [str(java), str(client), str(port), "debezium.tests:*"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=START_S)
        assert "context=streaming" in done.stdout
    listening = {line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]}
    of_ports = {address for address in listening if int(address.partition(":")[2], 16) in ports}
    assert {address.partition(":")[0] for address in of_ports} == {"0100007F"}


JMX_CLIENT = """
    import javax.management.ObjectName;
    import javax.management.remote.JMXConnectorFactory;
    import javax.management.remote.JMXServiceURL;

    class Client {
        public static void main(String[] a) throws Exception {
            var url = "service:jmx:rmi:///jndi/rmi://127.0.0.1:" + a[0] + "/jmxrmi";
            try (var jmx = JMXConnectorFactory.connect(new JMXServiceURL(url))) {
                var beans = jmx.getMBeanServerConnection();
                System.out.println(beans.queryNames(new ObjectName(a[1]), null));
            }
        }
    }
"""


def test_a_jvm_that_cannot_start_says_why() -> None:
    jvm = PluginJvm({}, "w:1", options=("-Xms64m", "-Xmx32m"))
    with pytest.raises(JvmEnded) as error:
        jvm.call("metrics", START_S)
    text = str(error.value)
    assert text.startswith("The JVM ended with exit code 1\n")
    assert "Initial heap size set to a larger value than the maximum heap size" in text
    jvm.end()
