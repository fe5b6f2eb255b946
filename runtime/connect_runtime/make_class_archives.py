"""Makes the class archives that do not exist yet: starts a broker, Spark, and an engine of Java
plugins once, and lets each do a little of its work.

`python -m connect_runtime.make_class_archives`, which `make jars` runs. Takes seconds each.
"""

from __future__ import annotations

import contextlib
import logging
import shlex
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer

from connect_runtime.engine import engine_jar
from connect_runtime.engine.jvm import PluginJvm
from connect_runtime.engine.jvm_connection import JvmEnded
from connect_runtime.kafka import embedded
from connect_runtime.kafka.embedded import EmbeddedBroker
from connect_runtime.settings.jvm_options import jvm_options
from connect_runtime.spark import session
from connect_runtime.spark.session import SparkSession
from connect_specs.diagnostics import Unreachable
from connect_specs.plain_text import render_diagnostics

_TOPIC = "any"
_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
_FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSource"
_WORK_S = 30.0
# without an archive, beside other work
_START_S = 90.0
# writing an archive takes seconds
_END_S = 60.0


def make_missing() -> None:
    """Makes the archives that are missing. Raises ArtifactsError, BrokerError, OSError, and Spark's
    errors."""
    if not embedded.class_archive().flags():
        _make_broker()
    if not session.class_archive().flags():
        _make_spark()
    if not engine_jar.class_archive().flags():
        _make_engine()


def _make_broker() -> None:
    with tempfile.TemporaryDirectory() as folder, embedded.class_archive().making() as flags:
        broker = EmbeddedBroker.start(Path(folder), java_flags=flags)
        try:
            _use(broker.bootstrap_servers)
        finally:
            broker.stop(_END_S)


def _use(bootstrap_servers: str) -> None:
    """Uses transactions and groups, which load classes of their own."""
    client = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
    producer = Producer({**client, "transactional.id": _TOPIC})
    producer.init_transactions(_WORK_S)
    producer.begin_transaction()
    producer.produce(_TOPIC, b"")
    producer.commit_transaction(_WORK_S)
    consumer = Consumer({**client, "group.id": _TOPIC, "auto.offset.reset": "earliest"})
    consumer.subscribe([_TOPIC])
    consumer.poll(_WORK_S)
    consumer.close()


def _make_spark() -> None:
    with tempfile.TemporaryDirectory() as folder, session.class_archive().making() as flags:
        options = {session.JAVA_OPTIONS: shlex.join([*session.JAVA_FLAGS, *flags])}
        spark = SparkSession("local[1]", Path(folder), list, options)
        try:
            spark.open()
            spark.job().collect()
        finally:
            spark.close(_END_S)


def _make_engine() -> None:
    with tempfile.TemporaryDirectory() as folder, engine_jar.class_archive().making() as flags:
        broker = EmbeddedBroker.start(Path(folder))
        try:
            _run_task(broker.bootstrap_servers, flags, Path(folder, "any.txt"))
        finally:
            broker.stop(_END_S)


def _run_task(bootstrap_servers: str, flags: list[str], file: Path) -> None:
    worker = _worker(bootstrap_servers)
    running = threading.Event()
    jvm = PluginJvm(
        worker,
        "any:1",
        on_event=lambda event, fields: running.set() if event == "task-running" else None,
        answers={"is-newest": lambda fields: True},
        options=(*jvm_options(worker), *flags),
    )
    attempt = _attempt(file)
    config, ids = attempt["connectorConfig"], [f"{_TOPIC}-{_TOPIC}-0"]
    try:
        jvm.call("fence", _START_S, config=config, ids=ids)
        jvm.call("start-task", _START_S, attempt=attempt)
        running.wait(_WORK_S)
        jvm.call("metrics", _WORK_S)
        jvm.call("validate", _WORK_S, config=config, timeoutMs=_WORK_S * 1000)
        jvm.call("stop-task", _WORK_S, connector=_TOPIC, task=0)
        with contextlib.suppress(JvmEnded):
            jvm.call("exit", _END_S)
    finally:
        jvm.end(_END_S)


def _worker(bootstrap_servers: str) -> dict[str, str]:
    topics = {f"{kind}.storage.topic": f"any-{kind}" for kind in ("config", "offset", "status")}
    converters = dict.fromkeys(("key.converter", "value.converter"), _CONVERTER)
    return {
        "bootstrap.servers": bootstrap_servers,
        "group.id": _TOPIC,
        "offset.storage.replication.factor": "1",
        "plugin.discovery": "service_load",
        **topics,
        **converters,
    }


def _attempt(file: Path) -> dict[str, Any]:
    """Returns an attempt at a file source, exactly once."""
    file.write_text("any\n")
    config = {
        "name": _TOPIC,
        "connector.class": f"{_FILE_SOURCE}Connector",
        "file": str(file),
        "topic": _TOPIC,
    }
    return {
        "connector": _TOPIC,
        "task": 0,
        "attempt": 1,
        "count": 1,
        "connectorConfig": config,
        "taskConfig": {**config, "task.class": f"{_FILE_SOURCE}Task"},
        "exactlyOnce": True,
        "paused": False,
        "tail": {"rows": [], "positions": {}},
    }


def main() -> int:
    """Returns the exit code."""
    # a topic that does not exist yet is no concern of a reader
    logging.getLogger("org.apache.kafka").setLevel(logging.ERROR)
    try:
        make_missing()
    except Unreachable as error:
        sys.stderr.write(render_diagnostics(error.diagnostics))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
