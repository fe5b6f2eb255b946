"""A project of a thousand connectors: how long a plan takes, and an apply of what changed.

The plan's peer is librdkafka alone, which reads the same topics to their ends. Of the connectors,
those that change run on a runtime, and the apply waits until they are healthy again.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from benchmarks.worker import wait_for
from connect_specs.names import ClusterTopics

_CONNECT = (sys.executable, "-P", "-m", "connect_reconciler.cli")
_GROUP = "large"
_PATIENCE_S = 300.0


class Project:
    """`connectors` specs in `folder`, for the Kafka at `bootstrap`; the `changed` ones run."""

    def __init__(self, folder: Path, bootstrap: str, connectors: int, changed: int) -> None:
        self._folder = folder
        self._bootstrap = bootstrap
        self._changed = range(changed)
        (folder / "connectors").mkdir(parents=True)
        (folder / "in.txt").write_text("one line\n")
        (folder / "connect.yaml").write_text(
            f"project: {_GROUP}\n"
            "cluster:\n"
            f"  group.id: {_GROUP}\n"
            f"  kafka: {{bootstrap.servers: '{bootstrap}'}}\n"
            "  worker:\n"
            "    value.converter: org.apache.kafka.connect.storage.StringConverter\n"
            "    listeners: http://127.0.0.1:0\n"
        )
        for number in range(connectors):
            self._write(number, 100)

    def start(self) -> float:
        """Creates all connectors without a runtime, then starts one. Seconds of the first apply."""
        took = self._run("apply", "--yes")
        self._run("up", "--detach", "--slots", str(len(self._changed) + 4))
        wait_for(self._running, "the connectors to run", _PATIENCE_S, 0.5)
        return took

    def stop(self) -> None:
        """Ends the runtime."""
        self._run("down")

    def change(self, batch_size: int) -> None:
        """Gives the connectors that run another config."""
        for number in self._changed:
            self._write(number, batch_size)

    def plan(self) -> float:
        """Seconds of `connect plan`, the process included."""
        return self._run("plan", "--out", "plan.json", "--json")

    def apply(self) -> float:
        """Seconds of `connect apply` with that plan, until all are healthy."""
        return self._run("apply", "plan.json", "--yes")

    def read(self) -> float:
        """Seconds that librdkafka takes to read the same topics to their ends."""
        began = time.monotonic()
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "benchmark",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
            }
        )
        topics = ClusterTopics.of(_GROUP)
        try:
            found = consumer.list_topics(timeout=10).topics
            left = {
                (topic, number)
                for topic in (topics.config, topics.status, topics.offsets, topics.ledger)
                for number in found[topic].partitions
            }
            consumer.assign([TopicPartition(*each, 0) for each in left])
            while left:
                for message in consumer.consume(10_000, 0.1):
                    if message.error() is not None:
                        left.discard((message.topic(), message.partition()))
        finally:
            consumer.close()
        return time.monotonic() - began

    def _write(self, number: int, batch_size: int) -> None:
        (self._folder / "connectors" / f"c-{number:04}.yaml").write_text(
            f"name: c-{number:04}\n"
            f"state: {'running' if number in self._changed else 'stopped'}\n"
            "config:\n"
            "  connector.class: FileStreamSource\n"
            f"  file: {self._folder}/in.txt\n"
            f"  topic: {_GROUP}\n"
            f"  batch.size: {batch_size}\n"
        )

    def _running(self) -> bool:
        shown = json.loads(self._output("status", "--json"))
        states = [task["state"] for each in shown["connectors"] for task in each["tasks"]]
        return states == ["RUNNING"] * len(self._changed)

    def _run(self, *words: str) -> float:
        began = time.monotonic()
        self._output(*words)
        return time.monotonic() - began

    def _output(self, *words: str) -> str:
        done = subprocess.run(
            [*_CONNECT, *words], cwd=self._folder, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            told = done.stderr[-1000:] + done.stdout[-1000:]
            raise RuntimeError(f"connect {words[0]} ended with {done.returncode}: {told}")
        return done.stdout
