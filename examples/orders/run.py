"""`make orders`: a shop's orders from one PostgreSQL into another, by Debezium and its JDBC sink.

Both connectors are the ones that run on Apache's workers: jars. Drives the real command by
subprocess, in a project of its own in a temporary folder: connect.yaml, plugins.lock.json and the
specs beside this file. Both tables are compared after each step: a row that is lost, repeated or
stale, and any command that does not answer as it should, makes this exit with 1.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from walkthrough import Off, Walkthrough, say, temporary_folder

from support.postgres import PASSWORD, Postgres, postgres

_parser = argparse.ArgumentParser(prog="orders")
_parser.add_argument("orders", nargs="?", type=int, default=100_000)
ORDERS: int = _parser.parse_args().orders
# So many orders are there before the connectors; the rest come while they run
FIRST = ORDERS * 2 // 5
BATCH = 500
PATIENCE_S = 300.0
HERE = Path(__file__).parent

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
    """The project, and both databases."""

    servers: ExitStack = field(default_factory=ExitStack)
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

    def task_jvms(self) -> list[int]:
        """Returns the JVMs of tasks: children of the agent of this node, which Spark forked."""
        parents: dict[int, int] = {}
        jvms = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                pid = int(stat.parent.name)
                parents[pid] = int(stat.read_text().rpartition(")")[2].split()[1])
                if b"connect.engine.Engine" in (stat.parent / "cmdline").read_bytes():
                    jvms.append(pid)
            except OSError:  # it has ended
                continue
        return [jvm for jvm in jvms if parents[jvm] != self.pid and self._is_ours(jvm, parents)]

    def _is_ours(self, pid: int, parents: dict[int, int]) -> bool:
        while pid in parents:
            if pid == self.pid:
                return True
            pid = parents[pid]
        return False


def _number(rows: list[tuple[str | None, ...]]) -> int:
    return int(rows[0][0] or 0)


def start(orders: Orders) -> None:
    orders.title("Start two PostgreSQL servers: the shop's, and one for reports.")
    orders.shop = orders.servers.enter_context(postgres(["shop"]))
    orders.reports = orders.servers.enter_context(postgres(["reports"]))
    orders.shop_sql(TABLE)
    orders.shop_sql(NEW_ORDERS.format(first=1, last=FIRST))
    say(f"  the shop has {FIRST:,} orders; the reports have no table yet")

    orders.title("Install the plugins of plugins.lock.json: Debezium, and its JDBC sink.")
    orders.connect("plugins", "install")

    orders.title("Start Kafka and the runtime, in the background, for this folder only.")
    values = orders.folder / "values"
    values.mkdir()
    ports = f"shop: {{port: {orders.shop.port}}}\nreports: {{port: {orders.reports.port}}}\n"
    (values / "default.yaml").write_text(ports)
    orders.up()


def copy_orders(orders: Orders) -> None:
    orders.title("Two specs: PostgreSQL → topic, topic → PostgreSQL. Ask what would change.")
    for spec in ("shop-orders", "reports-orders"):
        orders.copy(spec)
    say((orders.folder / "connectors" / "reports-orders.yaml").read_text().rstrip())
    orders.connect("plan")

    orders.title("Apply that plan: a snapshot of the table, then every change of it.")
    orders.connect("apply", "--yes", "--health-timeout", "5m")
    orders.wait_for_reports()
    orders.connect("status")


def change_under_load(orders: Orders) -> None:
    orders.title(f"{ORDERS - FIRST:,} further orders come in; others are paid, and cancelled.")
    orders.taking_orders = threading.Thread(target=orders.take_orders, daemon=True)
    orders.taking_orders.start()

    orders.title("In the middle of it, change both connectors by their files.")
    orders.copy("shop-orders", max_batch_size="4096")
    orders.copy("reports-orders", batch_size="1000")
    orders.connect("apply", "--yes", "--health-timeout", "5m")


def kill(orders: Orders) -> None:
    orders.title("Kill the JVM of both tasks (SIGKILL). They start again by themselves.")
    jvms = orders.task_jvms()
    if len(jvms) != 1:
        raise Off(f"{len(jvms)} JVMs run the tasks, which share one")
    say(f"$ kill -9 {jvms[0]}")
    os.kill(jvms[0], signal.SIGKILL)
    orders.taking_orders.join(PATIENCE_S)
    newest = _number(orders.shop_sql("SELECT max(id) FROM orders"))
    if newest != ORDERS:
        raise Off(f"the shop took {newest:,} of {ORDERS:,} orders")
    orders.wait_for_reports()
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
    for file in ("connect.yaml", "plugins.lock.json"):
        shutil.copy(HERE / file, orders.folder)
    with orders.servers:
        return orders.take(
            (start, copy_orders, change_under_load, kill, repair),
            "All steps went as they should, and both tables hold the same orders",
        )


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
