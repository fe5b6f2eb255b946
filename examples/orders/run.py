"""`make orders`: a shop's orders from one PostgreSQL into another, by Debezium and its JDBC sink,
and each change of them into an Iceberg table. `ARGS=--cluster` runs the tasks on a Spark cluster.

The connectors are the ones that run on Apache's workers: jars. Drives the real command by
subprocess, in a project of its own in a temporary folder: connect.yaml, plugins.lock.json and the
specs beside this file. Both tables are compared after each step: a row that is lost, repeated or
stale, and any command that does not answer as it should, makes this exit with 1.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from walkthrough import Off, Walkthrough, say, temporary_folder

from support.broker import read_to_end
from support.engines import engines
from support.postgres import PASSWORD, Postgres, postgres
from support.processes import Process, kill, node_servers, of_session
from support.real_connectors import rows_of_lake
from support.spark_cluster import SparkCluster

_parser = argparse.ArgumentParser(prog="orders")
_parser.add_argument("orders", nargs="?", type=int, default=100_000)
_parser.add_argument("--cluster", action="store_true", help="on a Spark cluster of two workers")
_OPTIONS = _parser.parse_args()
ORDERS: int = _OPTIONS.orders
# So many orders are there before the connectors; the rest come while they run
FIRST = ORDERS * 2 // 5
BATCH = 500
PATIENCE_S = 300.0
HERE = Path(__file__).parent
SPECS = ("shop-orders", "reports-orders", "lake-orders")
CHANGES = "shop.public.orders"
NODES = ("127.0.0.1", "127.0.0.2")

TABLE = """\
CREATE TABLE orders (
    id integer PRIMARY KEY,
    customer text NOT NULL,
    item text NOT NULL,
    quantity integer NOT NULL,
    price numeric(10, 2) NOT NULL,
    status text NOT NULL,
    ordered_at timestamptz NOT NULL
)"""

NEW_ORDERS = """\
INSERT INTO orders
SELECT id, 'customer ' || id % 997, 'item ' || id % 83, 1 + id % 9, id * 17 % 100000 / 100.0,
       'open', now()
FROM generate_series({first}, {last}) AS id"""
# Of each thousand earlier orders some are paid, and some are cancelled
PAID = (
    "UPDATE orders SET status = 'paid', price = price - 0.01 WHERE id < {first} AND id % 97 = {n}"
)
CANCELLED = "DELETE FROM orders WHERE id < {first} AND id % 997 = {n}"

CONTENT = "SELECT count(*), md5(string_agg(row::text, ',' ORDER BY id)) FROM orders AS row"
COUNT = "SELECT count(*) FROM orders"

REWIND = """\
offsets:
  pin: repair-1
  to: earliest
"""


@dataclass
class Orders(Walkthrough):
    """The project, both databases, and the Spark cluster if there is one."""

    servers: ExitStack = field(default_factory=ExitStack)
    spark: SparkCluster | None = None
    shop: Postgres = field(init=False)
    reports: Postgres = field(init=False)
    taking_orders: threading.Thread = field(init=False)

    def shop_sql(self, sql: str) -> list[tuple[str | None, ...]]:
        return self.shop.sql(sql, "shop")

    def reports_sql(self, sql: str) -> list[tuple[str | None, ...]]:
        return self.reports.sql(sql, "reports")

    def copy(self, spec: str, **changes: str) -> None:
        """Copies a spec from beside this file, with changed values of keys."""
        text = (HERE / "connectors" / f"{spec}.yaml").read_text()
        for key, value in changes.items():
            text += f"  {key.replace('_', '.')}: {value}\n"
        self.spec(spec, text)

    def reported(self) -> int:
        """Returns the number of rows in the reports' database, 0 before its table exists."""
        exists = self.reports_sql("SELECT to_regclass('orders')") != [(None,)]
        return _number(self.reports_sql(COUNT)) if exists else 0

    def wait_for_reports(self) -> None:
        """Waits until both tables hold the same rows, and shows their checksums."""
        begin = shown = time.monotonic()
        progress = 0
        while True:
            orders, rows = _number(self.shop_sql(COUNT)), self.reported()
            if rows == orders:
                shop, reports = self.shop_sql(CONTENT), self.reports_sql(CONTENT)
                if shop == reports:
                    break
            now = time.monotonic()
            if now - begin > PATIENCE_S:
                self.connect("status")
                raise Off(f"the tables differ after {now - begin:.0f} s")
            if now - shown >= 5.0 and rows != progress:
                shown, progress = now, rows
                say(f"  {rows:,} of {orders:,} rows are in the reports")
            time.sleep(0.2)
        for name, ((count, checksum),) in (("shop:   ", shop), ("reports:", reports)):
            say(f"  {name} {int(count or 0):,} rows, checksum {checksum}")

    def wait_for_lake(self) -> None:
        """Waits until the Iceberg table has a row for each change in the topic."""
        records = read_to_end(self.kafka, CHANGES, timeout_s=PATIENCE_S)
        changes = sum(record.value() is not None for record in records)
        begin = time.monotonic()
        while (rows := rows_of_lake(self.reports, "reports")) != changes:
            if time.monotonic() - begin > PATIENCE_S:
                self.connect("status")
                raise Off(f"the lake has {rows:,} rows for {changes:,} changes")
            time.sleep(0.5)
        say(f"  lake:    {rows:,} rows, one for each change")

    def take_orders(self) -> None:
        """Puts the rest of the orders into the shop, while earlier ones are paid and cancelled."""
        chance = random.Random(7)
        for first in range(FIRST + 1, ORDERS + 1, BATCH):
            last = min(first + BATCH - 1, ORDERS)
            sql = (
                NEW_ORDERS.format(first=first, last=last),
                PAID.format(first=first, n=chance.randrange(97)),
                CANCELLED.format(first=first, n=chance.randrange(997)),
            )
            self.shop_sql(";".join(sql))
            time.sleep(0.2)

    def task_jvms(self) -> list[Process]:
        """Returns the JVMs of tasks: children of the agent of a node, which Spark forked."""
        leaders = [self.pid] if self.spark is None else [each.pid for each in self.spark.workers]
        agents = [agent for pid in leaders for agent in node_servers(of_session(pid))]
        return engines({agent.pid for agent in agents})


def _number(rows: list[tuple[str | None, ...]]) -> int:
    return int(rows[0][0] or 0)


def start(orders: Orders) -> None:
    orders.title("Start two PostgreSQL servers: the shop's, and one for reports.")
    orders.shop = orders.servers.enter_context(postgres(["shop"]))
    orders.reports = orders.servers.enter_context(postgres(["reports"]))
    orders.shop_sql(TABLE)
    orders.shop_sql(NEW_ORDERS.format(first=1, last=FIRST))
    say(f"  the shop has {FIRST:,} orders; the reports have no table yet")

    orders.title(
        "Install the plugins of plugins.lock.json: Debezium, its JDBC sink, and Iceberg's."
    )
    orders.connect("plugins", "install")
    if orders.spark is not None:
        start_cluster(orders, orders.spark)

    orders.title("Start Kafka and the runtime, in the background, for this folder only.")
    values = orders.folder / "values"
    values.mkdir()
    ports = f"shop: {{port: {orders.shop.port}}}\nreports: {{port: {orders.reports.port}}}\n"
    (values / "default.yaml").write_text(f"{ports}lake: file://{orders.folder}/lake\n")
    orders.up()


def start_cluster(orders: Orders, spark: SparkCluster) -> None:
    orders.title(
        "Start a Spark cluster of two workers, and pack what its nodes need: the plugins, too."
    )
    orders.servers.callback(spark.end)
    spark.start_master()
    for node in NODES:
        spark.start_worker(node)
    say("$ connect package")
    settings = orders.ask("package")["properties"]
    settings |= {**spark.settings, "spark.master": spark.url}
    lines = "".join(f"    {key}: {json.dumps(value)}\n" for key, value in settings.items())
    project = orders.folder / "connect.yaml"
    project.write_text(project.read_text().replace("  worker:\n", f"  worker:\n{lines}"))
    say(f"  {len(settings)} keys are in connect.yaml, spark.master among them")


def copy_orders(orders: Orders) -> None:
    orders.title(
        "Specs: PostgreSQL → topic, topic → PostgreSQL and Iceberg. Ask what would change."
    )
    for spec in SPECS:
        orders.copy(spec)
    say((orders.folder / "connectors" / "reports-orders.yaml").read_text().rstrip())
    orders.connect("plan")

    orders.title("Apply that plan: a snapshot of the table, then every change of it.")
    orders.connect("apply", "--yes", "--health-timeout", "5m")
    orders.wait_for_reports()
    orders.wait_for_lake()
    orders.connect("status")


def change_under_load(orders: Orders) -> None:
    orders.title(f"{ORDERS - FIRST:,} further orders come in; others are paid, and cancelled.")
    orders.taking_orders = threading.Thread(target=orders.take_orders, daemon=True)
    orders.taking_orders.start()

    orders.title("In the middle of it, change both connectors by their files.")
    orders.copy("shop-orders", max_batch_size="4096")
    orders.copy("reports-orders", batch_size="1000")
    orders.connect("apply", "--yes", "--health-timeout", "5m")


def kill_tasks(orders: Orders) -> None:
    orders.title("Kill the JVM of the tasks (SIGKILL). They start again by themselves.")
    jvms = orders.task_jvms()
    if not 1 <= len(jvms) <= (1 if orders.spark is None else len(NODES)):
        raise Off(f"{len(jvms)} JVMs run the tasks, which share one on a machine")
    say(f"$ kill -9 {' '.join(str(jvm.pid) for jvm in jvms)}")
    kill(*jvms)
    orders.taking_orders.join(PATIENCE_S)
    newest = _number(orders.shop_sql("SELECT max(id) FROM orders"))
    if newest != ORDERS:
        raise Off(f"the shop took {newest:,} of {ORDERS:,} orders")
    orders.wait_for_reports()
    orders.wait_for_lake()
    orders.connect("status")


def repair(orders: Orders) -> None:
    orders.title("A mistake in the reports: every third order is deleted there.")
    orders.reports_sql("DELETE FROM orders WHERE id % 3 = 0")
    say(f"  {orders.reported():,} rows are left in the reports")

    orders.title("Pin the sink to the start of its topic: all changes are to be delivered again.")
    orders.copy("reports-orders", batch_size="1000")
    with (orders.folder / "connectors" / "reports-orders.yaml").open("a") as spec:
        spec.write(REWIND)
    say(REWIND.rstrip())
    orders.connect("plan")

    orders.title("Apply it: stop the sink, move its offsets, record the pin, run it again.")
    orders.connect("apply", "--yes", "--health-timeout", "5m")
    orders.wait_for_reports()

    orders.title("Apply once more: the pin is recorded, so nothing is rewound twice.")
    orders.connect("apply", "--yes")
    orders.connect("drift")


def main() -> int:
    orders = Orders(
        temporary_folder("orders"),
        environment={"SHOP_PASSWORD": PASSWORD, "REPORTS_PASSWORD": PASSWORD},
    )
    if _OPTIONS.cluster:
        orders.spark = SparkCluster(orders.folder / "spark", environment=dict(orders.environment))
    for file in ("connect.yaml", "plugins.lock.json"):
        shutil.copy(HERE / file, orders.folder)
    with orders.servers:
        return orders.take(
            (start, copy_orders, change_under_load, kill_tasks, repair),
            "All steps went as they should: both tables hold the same orders, the lake each change",
        )


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
