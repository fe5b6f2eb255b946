"""Makes the class archives that do not exist yet: starts a broker and Spark once, and lets each do
a little of its work.

`python -m connect_runtime.make_class_archives`, which `make jars` runs. Takes seconds each.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
from pathlib import Path

from confluent_kafka import Consumer, Producer

from connect_runtime.kafka import embedded
from connect_runtime.kafka.embedded import EmbeddedBroker
from connect_runtime.spark import session
from connect_runtime.spark.session import SparkSession
from connect_specs.diagnostics import Unreachable
from connect_specs.plain_text import render_diagnostics

_TOPIC = "any"
_WORK_S = 30.0
# writing an archive takes seconds
_END_S = 60.0


def make_missing() -> None:
    """Makes the archives that are missing. Raises JarsError, BrokerError, OSError, and Spark's
    errors."""
    if not embedded.class_archive().flags():
        _make_broker()
    if not session.class_archive().flags():
        _make_spark()


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


def main() -> int:
    """Returns the exit code."""
    try:
        make_missing()
    except Unreachable as error:
        sys.stderr.write(render_diagnostics(error.diagnostics))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
