"""Tasks of Java connectors on Apache's worker and on ours: how soon they run, are back after a
kill and are reconfigured, how long a change of a database takes, and the memory and CPU that they
need while they are idle.

Both workers run, and each figure is measured on one and then on the other.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from benchmarks import worker as workers
from benchmarks.density import pss_mb
from benchmarks.java_transfers import (
    create_table,
    debezium,
    insert,
    is_streaming,
    keep_a_task,
    make_plugin_path,
)
from benchmarks.topics import make_topic
from benchmarks.worker import Worker, wait_for
from benchmarks.workloads import SOURCE
from support.java_plugins import make_jar
from support.postgres import Postgres, postgres

_PATIENCE_S: Final = 120.0
_LONGEST_THREAD_NAME: Final = 15
_LOOK_S: Final = 0.02
_STARTS: Final = 5
_KILLS: Final = 10
_IDLE: Final = 4
_MANY: Final = 50
_BUSY: Final = 20
_BUSY_S: Final = 30.0
_SETTLED_S: Final = 20.0
# A JVM that answers questions ends after a minute without one
_UNUSED_S: Final = 60.0
_CHANGES: Final = 1_000
_TURNS: Final = 3
# By default it looks for changes every half second in one thread, and sends what it has every half
# second in another one: how they meet in a run would decide
_LOOKS_MS: Final = "10"
_CHANGES_PER_S: Final = 100
_TASKS: Final = 10
_ROWS: Final = 300_000
_COUNTING: Final = Path("tests/runtime/engine/plugins/Counting.java")


@dataclass(slots=True)
class _Figures:
    """What was measured, by name."""

    values: dict[str, float] = field(default_factory=dict)

    def add(self, label: str, name: str, value: float) -> None:
        self.values[name] = value
        print(f"{label:6}  {name:18} {value:10,.2f}", flush=True)


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the page. `most` returns the largest value that reaches the goal, from Apache's
    and our values."""

    name: str
    text: str
    unit: str
    goal: str
    most: Callable[[dict[str, float], dict[str, float]], float]


def _at_most(value: float) -> Callable[[dict[str, float], dict[str, float]], float]:
    return lambda apache, ours: value


_ROWS_OF_PAGE: Final = (
    _Row("start file", "`POST` → RUNNING, file source", "s", "≤ 3", _at_most(3)),
    _Row("start debezium", "`POST` → RUNNING, Debezium", "s", "≤ 5", _at_most(5)),
    _Row(
        "p50",
        f"change → record at {_CHANGES_PER_S}/s, median",
        "ms",
        "≤ 1.1 times + 2",
        lambda apache, ours: 1.1 * apache["p50"] + 2,
    ),
    _Row(
        "p99",
        "change → record, 99 of 100",
        "ms",
        "≤ 1.1 times + 2",
        lambda apache, ours: 1.1 * apache["p99"] + 2,
    ),
    _Row("kill file", "SIGKILL of a task's JVM → next record, file", "s", "≤ 2.5", _at_most(2.5)),
    _Row("kill debezium", "the same, Debezium", "s", "≤ 5", _at_most(5)),
    _Row("kill shared file", "SIGKILL of a JVM with two tasks, file", "s", "", _at_most(math.inf)),
    _Row("kill shared debezium", "the same, Debezium", "s", "≤ 5", _at_most(5)),
    _Row(
        "reconfigured",
        f"{_TASKS} tasks, exactly once, reconfigured",
        "s",
        "≤ 0.5 of Apache's",
        lambda apache, ours: 0.5 * apache["reconfigured"],
    ),
    _Row(
        "idle file", f"memory of an idle task, each of {_IDLE}, file", "MB", "≤ 105", _at_most(105)
    ),
    _Row("idle debezium", "the same, Debezium", "MB", "≤ 160", _at_most(160)),
    _Row("idle many", f"the same, each of {_MANY}, Debezium", "MB", "≤ 25", _at_most(25)),
    _Row(
        "idle cpu",
        f"CPU of {_BUSY} idle tasks, Debezium, of a core",
        "%",
        "≤ 1.2 times",
        lambda apache, ours: 1.2 * apache["idle cpu"],
    ),
    _Row(
        "idle worker",
        f"memory of all processes with {_BUSY} idle tasks, Debezium",
        "MB",
        "≤ Apache's + those without connectors",
        lambda apache, ours: apache["idle worker"] + ours["empty worker"],
    ),
    _Row("empty worker", "the same, without connectors", "MB", "", _at_most(math.inf)),
    _Row(
        "peak",
        "largest memory in a snapshot: our task, Apache's worker",
        "MB",
        "≤ half",
        lambda apache, ours: 0.5 * apache["peak"],
    ),
)


def java_tasks(folder: Path, bootstrap: str, options: argparse.Namespace) -> tuple[str, bool]:
    """Returns the section of the page, and whether its goals are reached."""
    plugin_path = make_plugin_path(folder / "java-task-plugins")
    jar = plugin_path / "counting" / "counting.jar"
    jar.parent.mkdir()
    make_jar(_COUNTING, {"org.apache.kafka.connect.source.SourceConnector": "tests.Counting"}, jar)
    with ExitStack() as stack:
        server = stack.enter_context(postgres())
        create_table(server, "snapshot_rows", round(_ROWS * options.scale))
        measurements = {}
        for label in ("apache", "ours"):
            place = folder / f"java-tasks-{label}"
            settings = {"plugin.path": str(plugin_path), "java.file.connectors": "true"}
            group = place.name.replace("-", "_")
            running = workers.start(label, place, bootstrap, group, settings=settings)
            stack.callback(running.close)
            measurements[label] = _Measurement(running, server, place, group)
            measurements[label].memory_without_connectors()
            keep_a_task(running, folder / f"{place.name}.txt")
        for part in _PARTS:
            for measurement in measurements.values():
                part(measurement)
        measurements["ours"].kills()
    apache, ours = (each.figures.values for each in measurements.values())
    return _section(apache, ours)


def _section(apache: dict[str, float], ours: dict[str, float]) -> tuple[str, bool]:
    lines = [
        "### Tasks of Java connectors\n",
        "Both with their default options; medians, measured on workers that have run such a "
        f"connector before. Debezium looks for changes every {_LOOKS_MS} ms:\n",
        "| what | unit | Apache | connect | goal |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    reached = True
    for row in _ROWS_OF_PAGE:
        places = 0 if row.unit == "MB" else 2 if row.unit == "s" else 1
        theirs = f"{apache[row.name]:.{places}f}" if row.name in apache else ""
        reached &= ours[row.name] <= row.most(apache, ours)
        lines.append(
            f"| {row.text} | {row.unit} | {theirs} | {ours[row.name]:.{places}f} | {row.goal} |"
        )
    most = ", ".join(f"{ours[row.name + ' most']:.1f}" for row in _ROWS_OF_PAGE if _is_kill(row))
    lines.append(f"\nThe longest of {_KILLS} kills each: {most} s.")
    return "\n".join(lines), reached


def _is_kill(row: _Row) -> bool:
    return row.name.startswith("kill")


@dataclass(frozen=True, slots=True)
class _Measurement:
    """Measures one worker. Connectors' names begin with `group`."""

    worker: Worker
    server: Postgres
    folder: Path
    group: str
    figures: _Figures = field(default_factory=_Figures)

    def _add(self, name: str, value: float) -> None:
        self.figures.add(self.worker.label, name, value)

    def starts(self) -> None:
        for kind, config in (("file", self._file), ("debezium", self._debezium)):
            with self._running(f"{self.group}_{kind}_first", config):
                pass  # the first start is another one: classes and plugins are not cached
            took = [self._start_s(f"{self.group}_{kind}_{n}", config) for n in range(_STARTS)]
            self._add(f"start {kind}", statistics.median(took))

    def idle_memory(self) -> None:
        for kind, config in (("file", self._file), ("debezium", self._debezium)):
            self._add(f"idle {kind}", self._idle_mb(f"{self.group}_{kind}_idle", config))
        self._add("idle many", self._idle_mb(f"{self.group}_many_idle", self._debezium, _MANY))

    def memory_without_connectors(self) -> None:
        time.sleep(_SETTLED_S)
        self._add("empty worker", self._memory_mb())

    def idle_cpu(self) -> None:
        with self._many(f"{self.group}_busy_idle", self._debezium, _BUSY):
            time.sleep(_SETTLED_S)
            before, began = self.worker.cpu_times(), time.monotonic()
            time.sleep(_BUSY_S)
            used_s = self.worker.cpu_since(before)
            self._add("idle cpu", 100 * used_s / (time.monotonic() - began))
            time.sleep(_UNUSED_S)
            self._add("idle worker", self._memory_mb())

    def latency(self) -> None:
        turns = [sorted(self._ways_ms(f"{self.group}_latency_{n}")) for n in range(_TURNS)]
        for name, per_cent in (("p50", 50), ("p99", 99)):
            parts = [ways[len(ways) * per_cent // 100] for ways in turns]
            self._add(name, statistics.median(parts))

    def reconfigured(self) -> None:
        self._add("reconfigured", self._reconfigured_s(f"{self.group}_many"))

    def peak(self) -> None:
        self._add("peak", self._peak_mb(f"{self.group}_snapshot"))

    def kills(self) -> None:
        for kind, config in (("file", self._file), ("debezium", self._debezium)):
            for name, jvm in (("kill", "own"), ("kill shared", "node")):
                # threads of tasks are found by the first three letters
                connector = f"{kind[0]}{jvm}_{self.group}"
                took = self._kills_s(connector, kind, config(connector) | {"java.tasks.jvm": jvm})
                self._add(f"{name} {kind}", statistics.median(took))
                self._add(f"{name} {kind} most", max(took))

    # --- connectors ---

    def _file(self, name: str) -> dict[str, str]:
        file = self.folder / f"{name}.txt"
        file.touch()
        return {"connector.class": SOURCE, "file": str(file), "topic": name, "tasks.max": "1"}

    def _debezium(self, name: str) -> dict[str, str]:
        create_table(self.server, name, 0)
        return debezium(self.server, name, name, **{"snapshot.mode": "no_data"})

    def _eager(self, name: str) -> dict[str, str]:
        return self._debezium(name) | {"poll.interval.ms": _LOOKS_MS}

    @contextmanager
    def _running(
        self, name: str, config: Callable[[str], dict[str, str]], tasks: int = 1
    ) -> Iterator[None]:
        """A connector whose tasks run."""
        try:
            self._create(name, config(name))
            self._wait_for_tasks(name, tasks)
            yield
        finally:
            self.worker.call("DELETE", f"/connectors/{name}")

    @contextmanager
    def _many(
        self, name: str, config: Callable[[str], dict[str, str]], count: int
    ) -> Iterator[None]:
        """Connectors of one task each, which run."""
        names = [f"{name}_{number}" for number in range(count)]
        for each in names:
            self._create(each, config(each))
        for each in names:
            self._wait_for_tasks(each)
        yield
        for each in names:
            self.worker.call("DELETE", f"/connectors/{each}")

    def _create(self, name: str, config: dict[str, str]) -> None:
        self.worker.call("POST", "/connectors", {"name": name, "config": config})

    def _wait_for_tasks(self, name: str, tasks: int = 1) -> None:
        def running() -> bool:
            status = self.worker.statuses().get(name, {"tasks": []})
            return [task["state"] for task in status["tasks"]] == ["RUNNING"] * tasks

        wait_for(running, f"{name} to run", _PATIENCE_S, _LOOK_S)

    # --- figures ---

    def _start_s(self, name: str, config: Callable[[str], dict[str, str]]) -> float:
        made = config(name)
        began_s = time.monotonic()
        with self._running(name, lambda _: made):
            return time.monotonic() - began_s

    def _idle_mb(
        self, name: str, config: Callable[[str], dict[str, str]], count: int = _IDLE
    ) -> float:
        time.sleep(_SETTLED_S)  # JVMs of earlier connectors end
        before_mb = self._memory_mb()
        with self._many(name, config, count):
            time.sleep(_SETTLED_S)
            return (self._memory_mb() - before_mb) / count

    def _memory_mb(self) -> float:
        return sum(filter(None, map(pss_mb, self.worker.cpu_times())))

    def _ways_ms(self, name: str) -> list[float]:
        """Returns milliseconds from the insertion of a row to its record."""
        ways: list[float] = []
        topic = f"{name}.public.{name}"
        make_topic(self.worker.bootstrap, topic)
        with self._running(name, self._eager), _reading(self.worker.bootstrap, topic) as reader:
            wait_for(lambda: is_streaming(self.server, name), "the stream", _PATIENCE_S, 0.1)
            inserted_s: dict[int, float] = {}
            inserting = threading.Thread(target=self._insert_slowly, args=(name, inserted_s))
            inserting.start()
            deadline = time.monotonic() + _CHANGES / _CHANGES_PER_S + _PATIENCE_S
            while len(ways) < _CHANGES and time.monotonic() < deadline:
                for message in reader.consume(100, 0.01):
                    if message.error() is None:
                        number = int((message.key() or b"").split(b":")[1].rstrip(b"}"))
                        ways.append((time.monotonic() - inserted_s[number]) * 1000)
            inserting.join()
        if len(ways) < _CHANGES:
            raise RuntimeError(f"{len(ways)} of {_CHANGES} changes came")
        # the first second is the connection's
        return ways[_CHANGES_PER_S:]

    def _insert_slowly(self, table: str, inserted_s: dict[int, float]) -> None:
        began_s = time.monotonic()
        for number in range(_CHANGES):
            time.sleep(max(0.0, began_s + number / _CHANGES_PER_S - time.monotonic()))
            inserted_s[number] = time.monotonic()
            insert(self.server, table, number, 1)

    def _reconfigured_s(self, name: str) -> float:
        """Returns seconds from a change of the config to a record of each task under it."""

        def config(topic: str) -> dict[str, str]:
            return {
                "name": name,
                "connector.class": "tests.Counting",
                "tasks.max": str(_TASKS),
                "topic": topic,
            }

        took = []
        topics = [f"{name}-{number}" for number in range(1 + _STARTS)]
        for topic in topics:
            make_topic(self.worker.bootstrap, topic)
        with self._running(name, lambda _: config(topics[0]), _TASKS):
            for topic in topics[1:]:
                began_s = time.monotonic()
                with _reading(self.worker.bootstrap, topic) as reader:
                    self.worker.call("PUT", f"/connectors/{name}/config", config(topic))
                    _wait_for_keys(reader, _TASKS)
                took.append(time.monotonic() - began_s)
        return statistics.median(took)

    def _peak_mb(self, name: str) -> float:
        """Returns the largest memory in a snapshot: of Apache's worker, or of our task alone."""
        time.sleep(_SETTLED_S)  # JVMs of earlier connectors end
        before_mb = self._memory_mb() if self.worker.label == "ours" else 0.0
        topic = f"{name}.public.snapshot_rows"
        make_topic(self.worker.bootstrap, topic)
        ((rows,),) = self.server.sql("SELECT count(*) FROM snapshot_rows")
        config = debezium(self.server, name, "snapshot_rows", **{"snapshot.mode": "initial_only"})
        peak_mb = 0.0
        with (
            self._running(name, lambda _: config),
            _reading(self.worker.bootstrap, topic) as reader,
        ):
            count = 0
            while count < int(rows or 0):
                count += sum(m.error() is None for m in reader.consume(100_000, 0.2))
                peak_mb = max(peak_mb, self._memory_mb() - before_mb)
        return peak_mb

    def _kills_s(self, name: str, kind: str, config: dict[str, str]) -> list[float]:
        """Returns seconds from the SIGKILL of a task's JVM to its next record."""
        topic = name if kind == "file" else f"{name}.public.{name}"
        make_topic(self.worker.bootstrap, topic)
        took = []
        with (
            self._running(name, lambda _: config),
            _reading(self.worker.bootstrap, topic) as reader,
            self._writing(name, kind),
        ):
            for _ in range(_KILLS):
                _wait_for_keys(reader, 0)
                os.kill(self._jvm_of(name), signal.SIGKILL)
                took.append(_next_record_s(reader, time.time()))
        return took

    def _jvm_of(self, connector: str) -> int:
        """Returns the JVM with the task of a connector, by the name of its thread."""
        name = f"task-thread-{connector}"[:_LONGEST_THREAD_NAME]
        for pid in self.worker.cpu_times():
            for thread in Path(f"/proc/{pid}/task").glob("*/comm"):
                with suppress(OSError):  # it has ended
                    if thread.read_text().strip() == name:
                        return pid
        raise RuntimeError(f"no JVM has a task of {connector}")

    @contextmanager
    def _writing(self, name: str, kind: str) -> Iterator[None]:
        """Lines or rows arrive while the context lasts."""
        over = threading.Event()

        def write() -> None:
            number = 0
            with (self.folder / f"{name}.txt").open("a", buffering=1) as lines:
                while not over.wait(0.02):
                    number += 1
                    if kind == "file":
                        lines.write(f"line {number}\n")
                    else:
                        insert(self.server, name, number, 1)

        writing = threading.Thread(target=write)
        writing.start()
        try:
            yield
        finally:
            over.set()
            writing.join()


_PARTS: Final = (
    _Measurement.starts,
    _Measurement.idle_memory,
    _Measurement.idle_cpu,
    _Measurement.latency,
    _Measurement.reconfigured,
    _Measurement.peak,
)


@contextmanager
def _reading(bootstrap: str, topic: str) -> Iterator[Any]:
    """A reader of the topic's committed records from its end on."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-read",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        yield consumer
    finally:
        consumer.close()


def _next_record_s(reader: Any, since_s: float) -> float:
    """Returns seconds from then to the first record that Kafka appended later, and that has
    arrived."""
    while time.time() < since_s + _PATIENCE_S:
        messages = [m for m in reader.consume(1000, 0.05) if m.error() is None]
        if any(m.timestamp()[1] > since_s * 1000 for m in messages):
            return time.time() - since_s
    raise RuntimeError("nothing was written after a kill")


def _wait_for_keys(reader: Any, count: int) -> None:
    """Waits for a record, and for records with so many different keys."""
    keys: set[bytes | None] = set()
    deadline = time.monotonic() + _PATIENCE_S
    while not keys or len(keys) < count:
        if time.monotonic() > deadline:
            raise RuntimeError(f"records of {len(keys)} of {count} tasks")
        keys.update(m.key() for m in reader.consume(1000, 0.05) if m.error() is None)
