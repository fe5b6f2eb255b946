"""Twelve connectors that teams run, on three brokers, two Spark workers and two runtimes of which
one leads, and what arrives of their load.

They are of Java and of Python: Debezium, two sinks of its changes, MirrorMaker's three, Iceberg's
sink, one that counts, and sources and sinks of files.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException

from connect_runtime.kafka.local_processes import LOOPBACK
from support.broker import read_to_end
from support.engines import engines
from support.java_plugins import SOURCE, add_compiled
from support.lines import Feeder, account, once
from support.postgres import Postgres, Row, postgres
from support.processes import Process, node_servers
from support.real_connectors import SHOP, SNAPSHOT_ROWS, WAREHOUSE, Shop, make_plugin_path
from support.rig import Ends, Rig, lines_of
from support.runtimes import Runtimes
from support.spark_cluster import SparkCluster
from support.three_brokers import REPLICAS, ThreeBrokers, three_brokers
from support.wait import wait_until

NODES: Final = (LOOPBACK, "127.0.0.2")
BACK_S: Final = 240.0
_NAME: Final = "soak"
# Each node could run all tasks
_CORES: Final = 20
_ARRIVED_S: Final = 180.0
_LINES_EVERY_S: Final = 1.0
_STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_ARCHIVE: Final = "archive"
_FILES: Final = "org.apache.kafka.connect.file.FileStream"
_SETTINGS: Final = {
    "consumer.session.timeout.ms": "6000",
    "key.converter": _JSON,
    "value.converter": _JSON,
    "topic.creation.enable": "true",
    "offset.flush.interval.ms": "2000",
    # what takes all memory is done in seconds
    "java.jvm.options": "-Xmx768m",
    **{
        f"{kind}.storage.replication.factor": str(REPLICAS)
        for kind in ("config", "offset", "status")
    },
}


@dataclass(slots=True)
class Load:
    """The connectors, on runtimes, and what they are to move."""

    runtimes: Runtimes
    brokers: ThreeBrokers
    cluster: SparkCluster
    server: Postgres
    shop: Shop
    feeder: Feeder
    infile: Path
    outputs: tuple[Path, Path]
    chance: random.Random
    expected: int = 0
    # Causes of failures after which somebody has to restart a task, as on Apache's workers
    failures: Counter[str] = field(default_factory=Counter)

    def configs(self) -> Mapping[str, Mapping[str, str]]:
        """The connectors' configs by their names."""
        java = {"connector.plugin.version": "4.3.1", "value.converter": _STRING}
        python = {"key.converter": _STRING, "value.converter": _STRING}
        configs = {name: dict(config) for name, config in self.shop.configs().items()}
        configs[self.shop.connector("lines")] |= java
        # its own clients know the worker's settings no more than other workers' do
        configs[self.shop.connector("lake")]["iceberg.kafka.session.timeout.ms"] = "6000"
        # not a transaction for each poll, fifty in a second
        configs[self.shop.connector("count")] |= {"transaction.boundary": "interval"}
        configs[self.shop.connector("lines-out")] = {
            "connector.class": f"{_FILES}SinkConnector",
            "topics": self.shop.lines,
            "file": str(self.outputs[0]),
            **java,
        }
        configs[self.shop.connector("python-in")] = {
            "connector.class": f"{_FILES}SourceConnector",
            "file": str(self.infile),
            "topic": self.python,
            **python,
        }
        configs[self.shop.connector("python-out")] = {
            "connector.class": f"{_FILES}SinkConnector",
            "topics": self.python,
            "file": str(self.outputs[1]),
            **python,
        }
        configs[self.shop.connector("archive")] = {
            **configs[self.shop.connector("upsert")],
            "collection.name.format": _ARCHIVE,
            "consumer.override.group.id": f"{self.shop.name}-archive",
        }
        return configs

    @property
    def python(self) -> str:
        """The topic of lines that a connector of Python reads."""
        return f"{self.shop.name}-python"

    def create(self) -> None:
        """Creates the connectors."""
        for name, config in self.configs().items():
            self.runtimes.put(name, config)
        self.expected = sum(
            1 + int(config.get("tasks.max", "1")) for config in self.configs().values()
        )

    # --- whether all run ---

    def wait_until_all_run(self) -> None:
        """Until connectors and tasks are RUNNING, and have moved more than there is now."""
        inserted, ends = self.shop.done.inserted, self._ends()
        clicks, sizes = self.shop.lake_rows(), self._sizes()

        def moved() -> bool:
            return (
                all(now > then for now, then in zip(self._ends(), ends, strict=True))
                and min(map(self._newest_row, ("orders", _ARCHIVE))) > SNAPSHOT_ROWS + inserted
                and self.shop.lake_rows() > clicks
                and all(now > then for now, then in zip(self._sizes(), sizes, strict=True))
            )

        what = "all to be RUNNING and to move"
        wait_until(lambda: self._all_run() and moved(), what=what, timeout_s=BACK_S, every_s=0.5)
        self.runtimes.assert_alive()

    def _ends(self) -> list[int]:
        ends = Ends(self.brokers.kafka)
        shop = self.shop
        topics = (shop.lines, shop.changes, shop.mirrored, shop.counted, self.python)

        def offsets() -> list[int]:
            with suppress(KafkaException):  # a broker is away
                return [ends.stable(topic) for topic in topics]
            return []

        return wait_until(offsets, what="the ends of topics", timeout_s=BACK_S)

    def _sizes(self) -> list[int]:
        return [file.stat().st_size if file.exists() else 0 for file in self.outputs]

    def _newest_row(self, table: str) -> int:
        (exists,) = self.server.sql(f"SELECT to_regclass('{table}') IS NOT NULL", WAREHOUSE)
        if exists == ("f",):
            return 0
        ((newest,),) = self.server.sql(f"SELECT max(id) FROM {table}", WAREHOUSE)
        return int(newest or 0)

    def _all_run(self) -> bool:
        """Whether all are RUNNING; restarts what has failed."""
        states: Counter[str] = Counter()
        for name, each in self.runtimes.ask("GET", "/connectors?expand=status").items():
            parts = (each["status"]["connector"], *each["status"]["tasks"])
            states.update(part["state"] for part in parts)
            failed = [part for part in parts if part["state"] == "FAILED"]
            for part in failed:
                self.failures[f"{name}: {_cause(part.get('trace', ''))}"] += 1
            if failed:
                restart = "restart?includeTasks=true&onlyFailed=true"
                self.runtimes.ask("POST", f"/connectors/{name}/{restart}")
        return states == {"RUNNING": self.expected}

    # --- processes ---

    @property
    def agents(self) -> list[Process]:
        """Those of the nodes, each of which owns the JVM that tasks share there."""
        return node_servers(self.cluster.processes())

    @property
    def task_jvms(self) -> list[Process]:
        """Those that run tasks, on both nodes."""
        return engines({each.pid for each in [*self.agents, *self.runtimes.tasks]})

    @property
    def everything(self) -> list[Process]:
        """All of the runtimes, of Spark's workers, and the JVMs that these have started."""
        processes = [*self.cluster.processes()]
        for runtime in self.runtimes.running:
            processes += runtime.processes
        return [*processes, *engines({each.pid for each in processes})]

    # --- what arrived ---

    def check(self) -> Mapping[str, tuple[int, int, int]]:
        """Ends the load of lines. Of each connector, how much there was, and what of it was lost or
        came twice; -1 where that is no fault."""
        shop, last = self.shop, self.feeder.finish(0)
        shop.recount()
        done = shop.done
        clicks = sum(len(values) for values in shop.values(shop.clicks).values())
        wanted = [f"line {n}" for n in range(done.lines)]
        with suppress(AssertionError):  # what is missing is counted below
            wait_until(
                lambda: (
                    shop.rows(SHOP) == shop.rows(WAREHOUSE) == self._archived()
                    and shop.lake_rows() >= clicks
                    and len(self._lines(shop.mirrored)) >= clicks
                    and len(self._lines(shop.lines)) >= len(wanted)
                    and set(lines_of(self.outputs[0])) >= set(wanted)
                    and account(lines_of(self.outputs[1]), once(last)).lost == 0
                ),
                what="all to arrive",
                timeout_s=_ARRIVED_S,
                every_s=1,
            )
        self.runtimes.ask("PUT", f"/connectors/{shop.connector('count')}/stop")
        rows = shop.rows(SHOP)
        python = account(self._lines(self.python), once(last))
        accounts = {
            "Debezium": self._debezium(),
            "JDBC sink": _compared(rows, shop.rows(WAREHOUSE)),
            "another JDBC sink": _compared(rows, self._archived()),
            "MirrorSource": _compared(self._lines(shop.clicks), self._lines(shop.mirrored)),
            "Iceberg": (
                clicks,
                max(0, clicks - shop.lake_rows()),
                max(0, shop.lake_rows() - clicks),
            ),
            "file source": _compared(wanted, self._lines(shop.lines)),
            "file sink": (len(wanted), len({*wanted} - {*lines_of(self.outputs[0])}), -1),
            "Python's file source": (last, python.lost, python.duplicated),
            "Python's file sink": (last, account(lines_of(self.outputs[1]), once(last)).lost, -1),
        }
        for number, counts in enumerate(shop.counts()):
            accounts[f"task {number} that counts"] = _compared(range(1, max(counts) + 1), counts)
        return accounts

    def _archived(self) -> list[Row]:
        return self.server.sql(f"SELECT id, amount, note FROM {_ARCHIVE} ORDER BY id", WAREHOUSE)

    def _debezium(self) -> tuple[int, int, int]:
        operations, expected = self.shop.operations(), self.shop.expected_operations()
        counted = Counter(operation for operation, _, _ in operations)
        twice = len(operations) - len(set(operations))
        return (
            expected.total(),
            (expected - counted).total(),
            max(twice, (counted - expected).total()),
        )

    def _lines(self, topic: str) -> list[str]:
        records = read_to_end(self.brokers.kafka, topic, timeout_s=120)
        return [(record.value() or b"").decode() for record in records]


def _cause(trace: str) -> str:
    """Returns the last cause that a trace names."""
    lines = [line for line in trace.splitlines() if line.startswith("Caused by: ")]
    return lines[-1] if lines else trace[:200]


def _compared(expected: Sequence[object], arrived: Sequence[object]) -> tuple[int, int, int]:
    wanted, counted = Counter(expected), Counter(arrived)
    return len(expected), (wanted - counted).total(), (counted - wanted).total()


@contextmanager
def java_load(place: Path, jvm: str, seed: int) -> Iterator[Load]:
    plugins = make_plugin_path(place / "plugins")
    add_compiled("Unruly", {SOURCE: "tests.Unruly\ntests.Unruly$Slow"}, plugins)
    with ExitStack() as stack:
        brokers = stack.enter_context(three_brokers(place / "brokers"))
        server = stack.enter_context(postgres([SHOP, WAREHOUSE]))
        cluster = SparkCluster(place / "spark", _CORES)
        stack.callback(cluster.end)
        cluster.start_master()
        for node in NODES:
            cluster.start_worker(node)
        rig = Rig(place / "project", _NAME, f"{{bootstrap.servers: '{brokers.kafka}'}}")
        settings = {**_SETTINGS, "plugin.path": str(plugins), "java.tasks.jvm": jvm}
        runtimes = Runtimes(rig=rig, settings=settings, cluster=cluster)
        shop = Shop(_NAME, brokers.kafka, server, place, more=True, replicas=REPLICAS)
        shop.create_table()
        shop.create_topics()
        shop.lines_file.touch()
        feeder = stack.enter_context(Feeder(place / "python.txt", _LINES_EVERY_S))
        outputs = (place / "lines.out", place / "python.out")
        try:
            for _ in range(2):
                runtimes.start(brokers.kafka)
            yield Load(
                runtimes,
                brokers,
                cluster,
                server,
                shop,
                feeder,
                place / "python.txt",
                outputs,
                random.Random(seed),
            )
            for each in [*runtimes.running]:
                each.command.terminate()
                runtimes.ended(each, code=0)
        finally:
            left = rig.end()
        assert left == []
